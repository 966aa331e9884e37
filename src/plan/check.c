/*
 * check.c: verifies the engine's assumptions about a plan, before its first run and when it was read from a file. A
 * plan that fails here was damaged or compiled wrongly, so these errors are BG_ERROR_INTERNAL. Valid plans that the
 * engine cannot run give BG_ERROR_UNSUPPORTED, and an output period of 0 gives BG_ERROR_INVALID. The schedule verifier
 * checks order and deadlocks; this file does not.
 */
#include "plan/plan.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/threads.h"
#include "kernels/collective/attributes.h"
#include "kernels/kernels.h"

static const char *const memory_names[BGI_MEMORY_COUNT] = {"arena", "remote store", "window"};

static size_t memory_size(const bg_plan *plan, uint32_t device, bgi_memory memory)
{
    return memory == BGI_MEMORY_REMOTE ? plan->devices[device].remote_bytes : plan->devices[device].arena_bytes;
}

/* Checks that the edge of a device's operand has its slots on the device, or messages from the device to another one.
 */
static bg_status check_slots(const bg_plan *plan, uint32_t device, const bgi_operand *operand, bg_error *error)
{
    const bool is_window = operand->memory == BGI_MEMORY_WINDOW;
    const bgi_plan_edge *edge;

    if (operand->edge == BGI_NO_EDGE && !is_window)
        return BG_OK;
    if (operand->edge >= plan->edge_count)
        return bg_error_set(error, BG_ERROR_INTERNAL, "an operand is in edge %u, but the plan has %u edges",
                            operand->edge, plan->edge_count);
    edge = &plan->edges[operand->edge];
    if (is_window ? edge->from_device != device || edge->to_device == device
                  : edge->to_device != device || edge->is_remote != (operand->memory == BGI_MEMORY_REMOTE))
        return bg_error_set(
            error, BG_ERROR_INTERNAL, "%s of edge %u from device %u to device %u cannot be used by device %u",
            is_window ? "a window" : "slots", operand->edge, edge->from_device, edge->to_device, device);
    return BG_OK;
}

/* Checks that an operand of `size_bytes`, in every slot and for every replica's piece, is inside memory that the device
 * may name. */
static bg_status check_operand(const bg_plan *plan, uint32_t device, const bgi_operand *operand, size_t size_bytes,
                               bg_error *error)
{
    const size_t strides = bgi_plan_data_replicas(plan) - 1;
    size_t memory_bytes, last_bytes = size_bytes;

    if ((unsigned)operand->memory >= BGI_MEMORY_COUNT)
        return bg_error_set(error, BG_ERROR_INTERNAL, "an operand is in memory %d, but there are only %d kinds",
                            (int)operand->memory, BGI_MEMORY_COUNT);
    BGI_TRY(check_slots(plan, device, operand, error));
    memory_bytes = operand->memory == BGI_MEMORY_WINDOW ? plan->edges[operand->edge].slot_bytes
                                                        : memory_size(plan, device, operand->memory);
    if (operand->edge != BGI_NO_EDGE && operand->memory != BGI_MEMORY_WINDOW)
        last_bytes += (plan->edges[operand->edge].depth - 1) * plan->edges[operand->edge].slot_bytes;
    if (strides > 0 && operand->stride > memory_bytes / strides)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "pieces of %zu bytes for %zu replicas do not fit in a memory of %zu bytes", operand->stride,
                            strides + 1, memory_bytes);
    last_bytes += strides * operand->stride;
    if (size_bytes > memory_bytes || operand->offset > memory_bytes || last_bytes > memory_bytes - operand->offset)
        return bg_error_set(
            error, BG_ERROR_INTERNAL,
            "the operand at %zu of %zu bytes (slots included) passes the end of device %u's %s of %zu bytes",
            operand->offset, last_bytes, device, memory_names[operand->memory], memory_bytes);
    return BG_OK;
}

/* Checks an operand that must not be in a window, because the host touches it or because messages may have left before
 * its use. */
static bg_status check_own(const bg_plan *plan, uint32_t device, const bgi_operand *operand, size_t size_bytes,
                           bg_error *error)
{
    if (operand->memory == BGI_MEMORY_WINDOW)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "an operand is in the window of edge %u, which is not allowed here", operand->edge);
    return check_operand(plan, device, operand, size_bytes, error);
}

static bg_status check_place(const bg_plan *plan, const bgi_place *place, size_t size_bytes, bg_error *error)
{
    if (place->device >= plan->device_count)
        return bg_error_set(error, BG_ERROR_INTERNAL, "a place is on device %u, but the plan has %u devices",
                            place->device, plan->device_count);
    return check_own(plan, place->device, &place->operand, size_bytes, error);
}

/* Checks that a collective call has one input and one output of the sizes that the group implies. */
static bg_status check_collective(const bg_plan *plan, const bgi_call *call, bg_error *error)
{
    const bgi_collective_attributes *attributes = call->attributes;
    const bg_mesh mesh = bgi_plan_mesh(plan);
    const bg_type *x = &call->types[0], *y = &call->types[1];
    int64_t x_share = 1, y_share = 1;

    if (attributes == NULL || call->input_count != 1 || call->output_count != 1 || attributes->axes > BG_MESH_ALL ||
        !bg_dtype_is_float(x->dtype) || x->dtype != y->dtype)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "a collective must have one input and one output of one float type, over known axes");
    if (attributes->members != bg_mesh_group_size(&mesh, attributes->axes))
        return bg_error_set(error, BG_ERROR_INTERNAL, "a collective has %u members, but its groups have %u replicas",
                            attributes->members, bg_mesh_group_size(&mesh, attributes->axes));
    if (attributes->kind == BGI_COLLECTIVE_GATHER)
        x_share = attributes->members;
    else if (attributes->kind == BGI_COLLECTIVE_SCATTER)
        y_share = attributes->members;
    if (bg_type_element_count(x) * x_share != bg_type_element_count(y) * y_share ||
        (attributes->kind != BGI_COLLECTIVE_REDUCE && attributes->axis >= x->rank))
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "the input and output sizes of a collective do not match its group");
    return BG_OK;
}

static bool is_acquired(const bgi_instruction *instruction, uint32_t edge)
{
    for (uint32_t i = 0; i < instruction->acquire_count; i++)
        if (instruction->acquires[i] == edge)
            return true;
    return false;
}

static bg_status check_call(const bg_plan *plan, uint32_t device, const bgi_instruction *instruction,
                            const bgi_call *call, bg_error *error)
{
    if (call->is_collective)
        BGI_TRY(check_collective(plan, call, error));
    else if (!bgi_kernel_is_complete(&call->kernel))
        return bg_error_set(error, BG_ERROR_INTERNAL, "a kernel needs a function and at least one part");
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const bg_status status =
            check_operand(plan, device, &call->operands[i], bg_type_size_bytes(&call->types[i]), error);
        if (status != BG_OK)
            return bg_error_context(error, status, "operand %u", i);
        if (call->operands[i].memory == BGI_MEMORY_WINDOW && !is_acquired(instruction, call->operands[i].edge))
            return bg_error_set(error, BG_ERROR_INTERNAL, "operand %u is in a window of edge %u, which is not acquired",
                                i, call->operands[i].edge);
        if (call->operands[i].offset % BGI_CACHE_LINE_BYTES != 0)
            return bg_error_set(error, BG_ERROR_INTERNAL, "operand %u is at offset %zu, which is not a multiple of %d",
                                i, call->operands[i].offset, BGI_CACHE_LINE_BYTES);
    }
    return check_operand(plan, device, &(bgi_operand){.edge = BGI_NO_EDGE, .offset = call->scratch_offset},
                         call->kernel.scratch_bytes, error);
}

static bg_status check_copy(const bg_plan *plan, uint32_t device, const bg_action *action, const bgi_copy *copy,
                            bg_error *error)
{
    const bg_action_kind kind = action->kind;
    size_t stream_bytes = copy->size_bytes;

    BGI_TRY(check_own(plan, device, &copy->operand, copy->size_bytes, error));
    if (kind == BG_ACTION_SEND && (copy->to.memory != BGI_MEMORY_WINDOW || copy->to.edge != action->index))
        return bg_error_set(error, BG_ERROR_INTERNAL, "a copy must end in the message of edge %u", action->index);
    if (kind == BG_ACTION_SEND)
        return check_operand(plan, device, &copy->to, copy->size_bytes, error);
    if (copy->stream >= (kind == BG_ACTION_HOST_IN ? plan->input_count : plan->output_count))
        return bg_error_set(error, BG_ERROR_INTERNAL, "stream %u does not exist", copy->stream);
    stream_bytes = bg_type_size_bytes(kind == BG_ACTION_HOST_IN ? &plan->inputs[copy->stream].type
                                                                : &plan->outputs[copy->stream].type);
    if (copy->size_bytes != stream_bytes)
        return bg_error_set(error, BG_ERROR_INTERNAL, "%zu bytes are copied for a stream of %zu bytes",
                            copy->size_bytes, stream_bytes);
    return BG_OK;
}

/* Checks the edges that an instruction waits for (`is_sender`) or frees: each connects two devices, and this device is
 * the sender or the receiver. */
static bg_status check_edges(const bg_plan *plan, uint32_t device, const uint32_t *edges, uint32_t count,
                             bool is_sender, bg_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        const bgi_plan_edge *edge = edges[i] < plan->edge_count ? &plan->edges[edges[i]] : NULL;
        if (edge == NULL)
            return bg_error_set(error, BG_ERROR_INTERNAL, "an instruction names edge %u, but the plan has %u edges",
                                edges[i], plan->edge_count);
        if (edge->from_device == edge->to_device || (is_sender ? edge->from_device : edge->to_device) != device)
            return bg_error_set(error, BG_ERROR_INTERNAL, "edge %u from device %u to device %u cannot be %s here",
                                edges[i], edge->from_device, edge->to_device, is_sender ? "written" : "read");
    }
    return BG_OK;
}

static bg_status check_reduced(const bg_plan *plan, uint32_t device, bg_action_kind kind, const bgi_reduced *reduced,
                               bg_error *error)
{
    const bool is_sum = kind == BG_ACTION_REDUCE, has_pieces = reduced->piece_count > 0;

    if (is_sum && !bg_dtype_is_float(reduced->dtype))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "the sum over replicas has type %s; it must have a float type",
                            bg_dtype_name(reduced->dtype));
    if (reduced->element_count < 0 || reduced->piece_count < 0 || (!is_sum && !has_pieces) ||
        reduced->piece_count > INT64_MAX / bgi_plan_data_replicas(plan) ||
        (has_pieces && reduced->piece_count * bgi_plan_data_replicas(plan) < reduced->element_count))
        return bg_error_set(
            error, BG_ERROR_INTERNAL, "%u pieces of %lld elements do not match the variable's %lld elements",
            bgi_plan_data_replicas(plan), (long long)reduced->piece_count, (long long)reduced->element_count);
    if (bg_dtype_size_bytes(reduced->dtype) == 0 || (uint64_t)reduced->element_count > SIZE_MAX / 8)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "a reduced variable has %lld elements of %s, which is not a valid size",
                            (long long)reduced->element_count, bg_dtype_name(reduced->dtype));
    return check_own(plan, device, &reduced->operand,
                     (size_t)reduced->element_count * bg_dtype_size_bytes(reduced->dtype), error);
}

/* Whether a recent instruction has the same calls; the micro-batches of a stage share them. */
static bool shares_calls(const bgi_plan_device *device, const bgi_instruction *instruction)
{
    enum { LOOK_BACK = 32 };
    const bgi_instruction *before = instruction;

    while (before > device->instructions && instruction - before < LOOK_BACK)
        if ((--before)->calls == instruction->calls && before->call_count == instruction->call_count)
            return true;
    return false;
}

static bg_status check_calls(const bg_plan *plan, uint32_t device, const bgi_instruction *instruction, bg_error *error)
{
    if (shares_calls(&plan->devices[device], instruction))
        return BG_OK;
    for (uint32_t i = 0; i < instruction->call_count; i++) {
        const bg_status status = check_call(plan, device, instruction, &instruction->calls[i], error);
        if (status != BG_OK)
            return bg_error_context(error, status, "op `%s`", instruction->calls[i].name);
    }
    return BG_OK;
}

static bg_status check_instruction(const bg_plan *plan, uint32_t device, const bgi_instruction *instruction,
                                   bg_error *error)
{
    const bg_action *action = &instruction->action;
    const bool is_send = action->kind == BG_ACTION_SEND;

    if ((unsigned)action->kind >= BG_ACTION_KIND_COUNT)
        return bg_error_set(error, BG_ERROR_INTERNAL, "action kind %d is unknown", (int)action->kind);
    if (action->micro_batch >= plan->micro_batches)
        return bg_error_set(error, BG_ERROR_INTERNAL, "micro-batch is %u but must be below %u", action->micro_batch,
                            plan->micro_batches);
    if (is_send || action->kind == BG_ACTION_RECEIVE)
        BGI_TRY(check_edges(plan, device, &action->index, 1, is_send, error));
    BGI_TRY(check_edges(plan, device, instruction->acquires, instruction->acquire_count, true, error));
    BGI_TRY(check_edges(plan, device, instruction->releases, instruction->release_count, false, error));
    BGI_TRY(check_calls(plan, device, instruction, error));
    for (uint32_t i = 0; i < instruction->copy_count; i++)
        BGI_TRY(check_copy(plan, device, action, &instruction->copies[i], error));
    for (uint32_t i = 0; i < instruction->reduced_count; i++)
        BGI_TRY(check_reduced(plan, device, action->kind, &instruction->reduced[i], error));
    return BG_OK;
}

static bool touches_window(const bgi_call *call, uint32_t edge)
{
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++)
        if (call->operands[i].memory == BGI_MEMORY_WINDOW && call->operands[i].edge == edge)
            return true;
    return false;
}

/* Checks a SEND whose message leaves in the middle of the preceding action: later calls of that action must not touch
 * the message's window. */
static bg_status check_early(const bgi_plan_device *on, uint32_t number, bg_error *error)
{
    const bgi_instruction *send = &on->instructions[number], *maker = send;

    if (send->after_calls == 0)
        return BG_OK;
    while (maker > on->instructions && maker->action.kind == BG_ACTION_SEND)
        maker--;
    if (send->action.kind != BG_ACTION_SEND || send->copy_count > 0 || send->after_calls >= maker->call_count ||
        maker->action.stage != send->action.stage || maker->action.micro_batch != send->action.micro_batch)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "a message leaves after call %u, which is not inside the preceding action of %u calls",
                            send->after_calls, maker->call_count);
    for (uint32_t i = send->after_calls; i < maker->call_count; i++)
        if (touches_window(&maker->calls[i], send->action.index))
            return bg_error_set(error, BG_ERROR_INTERNAL,
                                "call %u touches the message of edge %u, which has already left", i,
                                send->action.index);
    return BG_OK;
}

/* Checks that each turn of a strict plan belongs to one instruction, and that a device's turns ascend. */
static bg_status check_turns(const bg_plan *plan, bg_error *error)
{
    uint32_t total = 0;
    bool *is_taken;
    bg_status status = BG_OK;

    for (uint32_t d = 0; d < plan->device_count; d++)
        total += plan->devices[d].instruction_count;
    is_taken = calloc((size_t)total + 1, sizeof *is_taken);
    if (is_taken == NULL)
        return bgi_error_memory(error, "turns", total);
    for (uint32_t d = 0; d < plan->device_count && status == BG_OK; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count && status == BG_OK; i++) {
            const bgi_instruction *instruction = &plan->devices[d].instructions[i];
            const uint32_t turn = instruction->turn;
            if (turn >= total || is_taken[turn] || (i > 0 && turn <= instruction[-1].turn))
                status = bg_error_set(
                    error, BG_ERROR_INTERNAL,
                    "device %u, instruction %u: turn %u of %u belongs to another instruction or comes too early", d, i,
                    turn, total);
            else
                is_taken[turn] = true;
        }
    free(is_taken);
    return status;
}

/* Checks that transfers are inside their memory, that the program issues each of them once, and that no instruction or
 * call waits for a transfer that is issued later. */
static bg_status check_transfers(const bg_plan *plan, uint32_t device, bg_error *error)
{
    const bgi_plan_device *on = &plan->devices[device];
    const bg_mesh mesh = bgi_plan_mesh(plan);
    uint64_t issued = 0;

    for (uint32_t i = 0; i < on->transfer_count; i++) {
        const bgi_transfer *transfer = &on->transfers[i];
        const bgi_operand near = {.edge = BGI_NO_EDGE, .offset = transfer->arena_offset};
        const bgi_operand far = {.memory = BGI_MEMORY_REMOTE, .edge = BGI_NO_EDGE, .offset = transfer->remote_offset};
        const uint32_t pieces = bg_mesh_group_size(&mesh, transfer->piece_axes & (uint32_t)BG_MESH_ALL);
        const size_t far_bytes = transfer->piece_bytes > 0 ? transfer->piece_bytes : transfer->size_bytes;
        if (transfer->action.kind != BG_ACTION_LOAD && transfer->action.kind != BG_ACTION_STORE)
            return bg_error_set(error, BG_ERROR_INTERNAL, "transfer %u is neither LOAD nor STORE", i);
        BGI_TRY(check_operand(plan, device, &near, transfer->size_bytes, error));
        BGI_TRY(check_operand(plan, device, &far, far_bytes, error));
        if ((transfer->piece_axes & ~(uint32_t)BG_MESH_ALL) != 0 ||
            (transfer->piece_bytes > 0 && transfer->size_bytes / transfer->piece_bytes < pieces))
            return bg_error_set(error, BG_ERROR_INTERNAL, "transfer %u: %u pieces of %zu bytes do not fit in %zu bytes",
                                i, pieces, transfer->piece_bytes, transfer->size_bytes);
        if (transfer->peer_wait > on->transfer_count + i)
            return bg_error_set(error, BG_ERROR_INTERNAL,
                                "transfer %u waits for transfer %u of other replicas, which is not earlier", i,
                                transfer->peer_wait);
    }
    for (uint32_t i = 0; i < on->instruction_count; i++) {
        const bgi_instruction *instruction = &on->instructions[i];
        if (instruction->io_wait > on->transfer_count + issued)
            return bg_error_set(error, BG_ERROR_INTERNAL, "instruction %u waits for transfer %u, which is issued later",
                                i, instruction->io_wait);
        for (uint32_t c = 0; c < instruction->call_count; c++) {
            issued += instruction->calls[c].is_transfer;
            if (instruction->call_waits != NULL && instruction->call_waits[c] > on->transfer_count + issued)
                return bg_error_set(error, BG_ERROR_INTERNAL,
                                    "call %u of instruction %u waits for transfer %u, which is issued later", c, i,
                                    instruction->call_waits[c]);
        }
        issued += instruction->issues;
    }
    if (issued != on->transfer_count)
        return bg_error_set(error, BG_ERROR_INTERNAL, "the program issues %llu transfers, but the device has %u",
                            (unsigned long long)issued, on->transfer_count);
    return BG_OK;
}

/* Checks that memory being summed is not touched until the sum is complete, which is before the step ends. */
static bg_status check_sums(const bg_plan *plan, uint32_t device, bgi_extent *places, bg_error *error)
{
    const bgi_plan_device *on = &plan->devices[device];
    uint32_t transfers = 0;

    for (uint32_t i = 0; i < on->instruction_count; i++) {
        uint32_t touch, need = i + 1;
        bool has_work;
        for (uint32_t c = 0; c < on->instructions[i].call_count; c++)
            transfers += on->instructions[i].calls[c].is_transfer;
        transfers += on->instructions[i].issues;
        if (!on->instructions[i].is_beside)
            continue;
        touch = bgi_find_first_touch(plan, device, i, transfers, places, &has_work);
        while (need < on->instruction_count && !on->instructions[need].needs_sum)
            need++;
        if (on->instructions[i].action.kind != BG_ACTION_REDUCE || touch == BGI_NO_INSTRUCTION || need > touch ||
            bgi_plan_is_strict(plan))
            return bg_error_set(error, BG_ERROR_INTERNAL,
                                "instruction %u begins a sum that later instructions touch before it is complete", i);
    }
    return BG_OK;
}

/* The bytes of a variable that instruction `sum` of a stage sums. */
typedef struct final_place {
    bgi_extent where;
    size_t reach; /* the largest end among the stage's places up to this one */
    uint32_t stage, sum;
    uint32_t first_sum; /* the first instruction that sums variables of the stage */
} final_place;

static int compare_final_places(const void *a, const void *b)
{
    const final_place *x = a, *y = b;

    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return x->where.begin < y->where.begin ? -1 : x->where.begin > y->where.begin;
}

static void list_final_places(const bg_plan *plan, const bgi_plan_device *on, final_place *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < on->instruction_count; i++)
        for (uint32_t r = 0;
             on->instructions[i].action.kind == BG_ACTION_REDUCE && r < on->instructions[i].reduced_count; r++)
            out[count++] = (final_place){.where = bgi_summed_extent(plan, &on->instructions[i].reduced[r]),
                                         .stage = on->instructions[i].action.stage,
                                         .sum = i};
    qsort(out, count, sizeof *out, compare_final_places);
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        uint32_t first_sum = UINT32_MAX;
        size_t reach = 0;
        for (end = begin; end < count && out[end].stage == out[begin].stage; end++) {
            first_sum = out[end].sum < first_sum ? out[end].sum : first_sum;
            reach = out[end].where.end > reach ? out[end].where.end : reach;
            out[end].reach = reach;
        }
        for (uint32_t i = begin; i < end; i++)
            out[i].first_sum = first_sum;
    }
}

/* Returns the index of the first place of the stage whose `reach` is after `begin`, otherwise of the first place of a
 * later stage. */
static uint32_t find_final_place(const final_place *places, uint32_t count, uint32_t stage, size_t begin)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (places[middle].stage > stage || (places[middle].stage == stage && places[middle].reach > begin))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Checks that no call of an instruction touches what an earlier instruction has summed for the same stage. */
static bg_status check_final(const bg_plan *plan, const bgi_plan_device *on, uint32_t number, const final_place *places,
                             uint32_t count, bg_error *error)
{
    const bgi_instruction *later = &on->instructions[number];
    const uint32_t stage = later->action.stage, first = find_final_place(places, count, stage, 0);
    bgi_extent touched;

    if (later->action.kind >= BG_ACTION_UPDATE || first == count || places[first].stage != stage ||
        places[first].first_sum > number)
        return BG_OK;
    for (uint32_t c = 0; c < later->call_count; c++)
        for (uint32_t o = 0; o <= later->calls[c].input_count + later->calls[c].output_count; o++) {
            if (!bgi_call_extent(plan, &later->calls[c], o, &touched))
                continue;
            for (uint32_t i = find_final_place(places, count, stage, touched.begin);
                 i < count && places[i].stage == stage && places[i].where.begin < touched.end; i++)
                if (places[i].where.end > touched.begin && places[i].sum < number)
                    return bg_error_set(error, BG_ERROR_INTERNAL,
                                        "instruction %u touches gradients that instruction %u has already summed",
                                        number, places[i].sum);
        }
    return BG_OK;
}

/* Checks that summed gradients are final: no later pass over the stage adds to them. */
static bg_status check_finals(const bg_plan *plan, uint32_t device, bg_error *error)
{
    const bgi_plan_device *on = &plan->devices[device];
    size_t count = 0;
    final_place *places;
    bg_status status = BG_OK;

    for (uint32_t i = 0; i < on->instruction_count; i++)
        count += on->instructions[i].action.kind == BG_ACTION_REDUCE ? on->instructions[i].reduced_count : 0;
    if (count == 0)
        return BG_OK;
    places = malloc(count * sizeof *places);
    if (places == NULL)
        return bgi_error_memory(error, "sums of gradients", count * sizeof *places);
    list_final_places(plan, on, places);
    for (uint32_t i = 0; status == BG_OK && i < on->instruction_count; i++)
        status = check_final(plan, on, i, places, (uint32_t)count, error);
    free(places);
    return status;
}

static bg_status check_all_sums(const bg_plan *plan, uint32_t device, bg_error *error)
{
    const size_t most = bgi_count_most_reduced(&plan->devices[device]);
    bgi_extent *places = malloc((most + 1) * sizeof *places);
    bg_status status;

    if (places == NULL)
        return bgi_error_memory(error, "sums of gradients", most * sizeof *places);
    status = check_sums(plan, device, places, error);
    if (status == BG_OK)
        status = check_finals(plan, device, error);
    free(places);
    return status;
}

static bg_status check_edge(const bg_plan *plan, uint32_t number, bg_error *error)
{
    const bgi_plan_edge *edge = &plan->edges[number];
    size_t memory_bytes;

    if (edge->from_device >= plan->device_count || edge->to_device >= plan->device_count || edge->depth == 0 ||
        edge->slot_bytes % BGI_CACHE_LINE_BYTES != 0 ||
        (edge->depth > 1 && edge->slot_bytes > SIZE_MAX / 4 / edge->depth))
        return bg_error_set(error, BG_ERROR_INTERNAL, "edge %u is invalid: device %u to %u, %u slots of %zu bytes",
                            number, edge->from_device, edge->to_device, edge->depth, edge->slot_bytes);
    memory_bytes = memory_size(plan, edge->to_device, edge->is_remote ? BGI_MEMORY_REMOTE : BGI_MEMORY_ARENA);
    if (edge->offset > memory_bytes || edge->slot_bytes * edge->depth > memory_bytes - edge->offset)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "edge %u: %u slots of %zu bytes at offset %zu pass the end of device %u's %zu bytes",
                            number, edge->depth, edge->slot_bytes, edge->offset, edge->to_device, memory_bytes);
    return BG_OK;
}

static bg_status check_output(const bgi_plan_output *output, bg_error *error)
{
    if (output->mode == BG_OUTPUT_SUM && (output->type.dtype == BG_UINT8 || output->type.dtype == BG_DTYPE_NONE))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "output `%s` is %s, which cannot be summed; cast it first",
                            output->name, bg_dtype_name(output->type.dtype));
    if (output->mode == BG_OUTPUT_EVERY_N && output->period == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "output `%s` has a period of 0 device iterations; it must be at least 1", output->name);
    return BG_OK;
}

static bg_status check_tables(const bg_plan *plan, bg_error *error)
{
    if (plan->device_count == 0 || plan->replicas == 0 || plan->micro_batches == 0 || plan->iterations == 0)
        return bg_error_set(
            error, BG_ERROR_INTERNAL,
            "the plan has %u devices, %u replicas, %u micro-batches and %u iterations; each must be at least 1",
            plan->device_count, plan->replicas, plan->micro_batches, plan->iterations);
    if (plan->input_group_size == 0 || plan->replicas % plan->input_group_size != 0)
        return bg_error_set(error, BG_ERROR_INTERNAL, "input groups of %u do not divide %u replicas",
                            plan->input_group_size, plan->replicas);
    for (uint32_t i = 0; i < plan->edge_count; i++)
        BGI_TRY(check_edge(plan, i, error));
    for (uint32_t i = 0; i < plan->output_count; i++)
        BGI_TRY(check_output(&plan->outputs[i], error));
    for (uint32_t i = 0; i < plan->constant_count; i++)
        BGI_TRY(check_place(plan, &plan->constants[i].place, plan->constants[i].size_bytes, error));
    for (uint32_t i = 0; i < plan->variable_count; i++) {
        const bgi_plan_variable *variable = &plan->variables[i];
        for (uint32_t p = 0; p < variable->place_count; p++) {
            const bg_status status = check_place(plan, &variable->places[p], bgi_plan_variable_bytes(variable), error);
            if (status != BG_OK)
                return bg_error_context(error, status, "variable `%s`", variable->name);
        }
        if (variable->place_count == 0)
            return bg_error_set(error, BG_ERROR_INTERNAL, "variable `%s` has no place", variable->name);
        if (variable->piece_count < 0 || variable->piece_count > bg_type_element_count(&variable->type))
            return bg_error_set(error, BG_ERROR_INTERNAL, "variable `%s` has invalid pieces of %lld elements",
                                variable->name, (long long)variable->piece_count);
    }
    for (uint32_t i = 0; i < plan->carried_count; i++)
        if (plan->carried[i] >= plan->variable_count)
            return bg_error_set(error, BG_ERROR_INTERNAL,
                                "carried value %u is variable %u, but the plan has %u variables", i, plan->carried[i],
                                plan->variable_count);
    if (plan->condition != NULL && plan->condition_output >= plan->output_count)
        return bg_error_set(error, BG_ERROR_INTERNAL, "the condition is output %u, but the plan has %u outputs",
                            plan->condition_output, plan->output_count);
    return BG_OK;
}

bg_status bgi_plan_check(const bg_plan *plan, bg_error *error)
{
    bg_status status = check_tables(plan, error);

    if (status == BG_OK && bgi_plan_is_strict(plan))
        status = check_turns(plan, error);

    if (status != BG_OK)
        return bg_error_context(error, status, "plan");
    for (uint32_t d = 0; d < plan->device_count; d++) {
        status = check_transfers(plan, d, error);
        if (status != BG_OK)
            return bg_error_context(error, status, "plan: device %u", d);
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            status = check_instruction(plan, d, &plan->devices[d].instructions[i], error);
            if (status == BG_OK)
                status = check_early(&plan->devices[d], i, error);
            if (status != BG_OK)
                return bg_error_context(error, status, "plan: device %u, instruction %u (%s)", d, i,
                                        bg_action_kind_name(plan->devices[d].instructions[i].action.kind));
        }
        status = check_all_sums(plan, d, error);
        if (status != BG_OK)
            return bg_error_context(error, status, "plan: device %u", d);
    }
    return BG_OK;
}
