/*
 * work.c: computes the costs of a plan's instructions on a device: times of calls, and times of communication from
 * bytes and links. The devices of all replicas form a row, replica by replica; link domains are consecutive parts of
 * the row.
 *
 * A sum of S bytes over n replicas moves 2 (n - 1) / n S bytes over a device's link, and a gather half of that; both
 * read and write S bytes in memory once. If a member of the group is in another domain, the network replaces the link.
 */
#include <math.h>

#include "core/error.h"
#include "kernels/collective/attributes.h"
#include "plan/options.h"
#include "predict/simulate.h"

static uint32_t domain_of(const bg_plan *plan, const bgi_device_model *model, uint32_t replica, uint32_t device)
{
    return (uint32_t)(((uint64_t)replica * plan->device_count + device) / model->link_devices);
}

double bgi_message_ns(const bg_plan *plan, const bgi_device_model *model, uint32_t replica, uint32_t edge,
                      double *out_latency_ns)
{
    const bgi_plan_edge *e = &plan->edges[edge];
    const bool is_near =
        domain_of(plan, model, replica, e->from_device) == domain_of(plan, model, replica, e->to_device);
    const bgi_link_model *link = is_near ? &model->link : &model->network;

    *out_latency_ns = link->latency_ns;
    return (double)e->payload_bytes / link->bytes_per_ns;
}

/* Returns the time of a collective of replica 0's group along the axes. */
static double collective_ns(const bg_plan *plan, const bgi_device_model *model, uint32_t device, uint32_t axes,
                            double bytes, bool is_sum)
{
    const bg_mesh mesh = bgi_plan_mesh(plan);
    const uint32_t members = bg_mesh_group_size(&mesh, axes);
    const bgi_link_model *link = &model->link;
    const double turns = is_sum ? 2.0 : 1.0;

    if (members <= 1)
        return 0.0;
    for (uint32_t i = 1; i < members; i++)
        if (domain_of(plan, model, bg_mesh_group_at(&mesh, axes, 0, i), device) != domain_of(plan, model, 0, device))
            link = &model->network;
    return turns * ((members - 1) / (double)members * bytes / link->bytes_per_ns + link->latency_ns) +
           2.0 * bytes / (model->memory_bytes_per_ns * model->efficiency);
}

static double call_collective_ns(const bg_plan *plan, const bgi_device_model *model, uint32_t device,
                                 const bgi_call *call)
{
    const bgi_collective_attributes *attributes = call->attributes;
    const double in = (double)bg_type_size_bytes(&call->types[0]),
                 out = (double)bg_type_size_bytes(&call->types[call->input_count]);

    if (attributes->kind == BGI_COLLECTIVE_REDUCE)
        return collective_ns(plan, model, device, attributes->axes, in, true);
    return collective_ns(plan, model, device, attributes->axes, in > out ? in : out, false);
}

static double reduced_ns(const bg_plan *plan, const bgi_device_model *model, uint32_t device,
                         const bgi_instruction *instruction)
{
    double ns = 0.0;

    for (uint32_t i = 0; i < instruction->reduced_count; i++) {
        const bgi_reduced *reduced = &instruction->reduced[i];
        const double bytes = (double)reduced->element_count * (double)bg_dtype_size_bytes(reduced->dtype);
        const bool is_whole_sum = instruction->action.kind == BG_ACTION_REDUCE && reduced->piece_count == 0;
        ns += collective_ns(plan, model, device, BG_MESH_DATA, bytes, is_whole_sum);
    }
    return ns;
}

static double copies_ns(const bgi_device_model *model, const bgi_instruction *instruction)
{
    double bytes = 0.0;

    for (uint32_t i = 0; i < instruction->copy_count; i++)
        bytes += (double)instruction->copies[i].size_bytes;
    return 2.0 * bytes / (model->memory_bytes_per_ns * model->efficiency);
}

static double transfer_ns(const bgi_device_model *model, const bgi_transfer *transfer)
{
    const bool has_pieces = transfer->piece_bytes > 0 && transfer->piece_bytes < transfer->size_bytes;
    const double own = (double)(has_pieces ? transfer->piece_bytes : transfer->size_bytes);
    double ns = model->remote.latency_ns + own / model->remote.bytes_per_ns;

    if (has_pieces && !transfer->is_own && transfer->action.kind == BG_ACTION_LOAD)
        ns += model->link.latency_ns + ((double)transfer->size_bytes - own) / model->link.bytes_per_ns;
    return ns;
}

/* ---- one instruction ---- */

static uint32_t count_sends(const bgi_plan_device *program, uint32_t index)
{
    uint32_t count = 0;

    for (uint32_t i = index + 1;
         i < program->instruction_count && program->instructions[i].action.kind == BG_ACTION_SEND; i++)
        count += program->instructions[i].after_calls > 0;
    return count;
}

static bool is_compute(bg_action_kind kind)
{
    return kind <= BG_ACTION_UPDATE;
}

/* Returns the largest possible number of marks of an instruction: two for each call, and one for each message that
 * leaves early. */
static uint32_t most_marks(const bgi_plan_device *program, uint32_t index)
{
    const bgi_instruction *instruction = &program->instructions[index];
    uint32_t count = count_sends(program, index);

    for (uint32_t c = 0; c < instruction->call_count; c++)
        count += (instruction->calls[c].is_transfer ? 1u : 0u) +
                 (instruction->call_waits != NULL && instruction->call_waits[c] > 0 ? 1u : 0u);
    return count;
}

static void add_mark(bgi_device_work *out, bgi_work *work, enum bgi_mark_kind kind, uint32_t value)
{
    out->marks[work->first_mark + work->mark_count++] =
        (bgi_mark){.at_ns = work->total_ns, .kind = kind, .value = value};
}

static void send_after(const bgi_plan_device *program, uint32_t index, uint32_t calls, bgi_device_work *out,
                       bgi_work *work)
{
    for (uint32_t i = index + 1;
         i < program->instruction_count && program->instructions[i].action.kind == BG_ACTION_SEND; i++)
        if (program->instructions[i].after_calls == calls)
            add_mark(out, work, BGI_MARK_SEND, program->instructions[i].action.index);
}

static double find_divisible_ns(const bgi_simulation_setup *setup, const bgi_call *call, double ns)
{
    if (call->is_collective || setup->cores == 0)
        return 0.0;
    if (setup->divisible_ns != NULL)
        return setup->divisible_ns(setup->user, call);
    return call->kernel.part_count > 1 ? ns : 0.0;
}

/* Returns the factor between the time that the setup gives and that of calls in the device's rank. It is the factor of
 * the slowest replica, because the other replicas wait for it. */
static double find_rank_ratio(const bg_plan *plan, const bgi_simulation_setup *setup, uint32_t device)
{
    double most = 0.0;

    if (!setup->are_ranks || setup->core_ratio_count == 0)
        return 1.0;
    for (uint32_t replica = 0; replica < plan->replicas; replica++)
        most = fmax(most, setup->core_ratios[(replica * plan->device_count + device) % setup->core_ratio_count]);
    return most;
}

/* Returns whether the call reads a message of another device. */
static bool reads_message(const bg_plan *plan, uint32_t device, const bgi_call *call)
{
    for (uint32_t i = 0; i < call->input_count; i++) {
        const uint32_t edge = call->operands[i].edge;
        if (edge != BGI_NO_EDGE && plan->edges[edge].to_device == device && plan->edges[edge].from_device != device)
            return true;
    }
    return false;
}

static double find_call_ns(const bg_plan *plan, const bgi_simulation_setup *setup, uint32_t device,
                           const bgi_call *call)
{
    const bool has_other_user = setup->are_ranks && setup->message_user != NULL && reads_message(plan, device, call);

    return setup->call_ns(has_other_user ? setup->message_user : setup->user, call);
}

static void add_calls(const bg_plan *plan, const bgi_simulation_setup *setup, uint32_t device, uint32_t index,
                      bgi_device_work *out, bgi_work *work)
{
    const bgi_plan_device *program = &plan->devices[device];
    const bgi_instruction *instruction = &program->instructions[index];
    const double speed = setup->cores == 0 ? bgi_options_speed(&plan->options, device) : 1.0;
    const double ratio = find_rank_ratio(plan, setup, device);

    for (uint32_t c = 0; c < instruction->call_count; c++) {
        const bgi_call *call = &instruction->calls[c];
        double ns;
        if (call->is_transfer) {
            add_mark(out, work, BGI_MARK_ISSUE, 1);
            continue;
        }
        if (instruction->call_waits != NULL && instruction->call_waits[c] > 0)
            add_mark(out, work, BGI_MARK_WAIT, instruction->call_waits[c]);
        ns = call->is_collective ? call_collective_ns(plan, setup->model, device, call)
                                 : ratio * find_call_ns(plan, setup, device, call) / speed;
        work->total_ns += ns;
        work->collective_ns += call->is_collective ? ns : 0.0;
        work->divisible_ns += find_divisible_ns(setup, call, ns);
        send_after(program, index, c + 1, out, work);
    }
}

static void find_work(const bg_plan *plan, const bgi_simulation_setup *setup, uint32_t device, uint32_t index,
                      bgi_device_work *out)
{
    const bgi_instruction *instruction = &plan->devices[device].instructions[index];
    bgi_work *work = &out->instructions[index];
    double latency_ns; /* not used: the message has arrived when RECEIVE begins */

    work->total_ns = setup->instruction_ns;
    if (is_compute(instruction->action.kind))
        add_calls(plan, setup, device, index, out, work);
    else if (instruction->action.kind == BG_ACTION_REDUCE || instruction->action.kind == BG_ACTION_GATHER) {
        const double ns = reduced_ns(plan, setup->model, device, instruction);
        if (instruction->is_beside && setup->cores == 0 && !setup->are_ranks) {
            work->sum_ns = ns;
        } else {
            work->collective_ns = ns;
            work->total_ns += ns;
        }
    }
    work->copy_ns = copies_ns(setup->model, instruction);
    if (setup->are_ranks && instruction->action.kind == BG_ACTION_RECEIVE)
        work->copy_ns += bgi_message_ns(plan, setup->model, 0, instruction->action.index, &latency_ns);
    work->total_ns += work->copy_ns;
}

bg_status bgi_work_of_device(const bg_plan *plan, const bgi_simulation_setup *setup, uint32_t device, bgi_arena *arena,
                             bgi_device_work *out, bg_error *error)
{
    const bgi_plan_device *program = &plan->devices[device];
    size_t mark_count = 0;

    out->instructions = bgi_arena_allocate(arena, program->instruction_count, sizeof *out->instructions);
    out->transfer_ns = bgi_arena_allocate(arena, program->transfer_count, sizeof *out->transfer_ns);
    for (uint32_t i = 0; out->instructions != NULL && i < program->instruction_count; i++) {
        out->instructions[i].first_mark = (uint32_t)mark_count;
        mark_count += most_marks(program, i);
    }
    out->marks = bgi_arena_allocate(arena, mark_count, sizeof *out->marks);
    if (out->instructions == NULL || out->transfer_ns == NULL || out->marks == NULL || mark_count > UINT32_MAX)
        return bgi_error_memory(error, "the work of a device", program->instruction_count * sizeof *out->instructions);
    for (uint32_t i = 0; i < program->instruction_count; i++)
        find_work(plan, setup, device, i, out);
    for (uint32_t t = 0; t < program->transfer_count; t++)
        out->transfer_ns[t] = transfer_ns(setup->model, &program->transfers[t]);
    return BG_OK;
}
