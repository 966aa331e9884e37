/*
 * collective.c: runs collective operations of a group's replicas (REDUCE, GATHER and collective calls of the model) as
 * exchanges of a transport (transport/pattern.h). An operation has four steps, and a device can be parked at each of
 * them:
 *
 *     offer | wait until all have | do my share, deliver | wait until all have
 *
 *     REDUCE              sums its slice up, for all copies
 *     REDUCE to pieces    sums its piece up, for itself                 (reduce-scatter)
 *     GATHER              takes the others' pieces                      (all-gather)
 *
 * The model's collective calls do the same along dimensions of their tensors. Large exchanges take several rounds of
 * these steps. A REDUCE that overlaps with the program takes the same steps; the thread that holds the device's
 * transfer queue performs all but the first.
 */
#include "runtime/engine.h"

#include "core/clock.h"
#include "kernels/collective/attributes.h"

enum { ARRIVE = 0, WAIT_FOR_ALL, WAIT_FOR_SHARES };

static const uint64_t look_ns = 50000; /* the time between a worker's checks for messages from other ranks */

/* ---- one operation ---- */

/* Fills runner->brought.all with the tensors that the device contributes to the operation `what`. */
typedef void (*bring_function)(bgi_runner *runner, const void *what);

static void begin_rounds(bgi_brought *brought, uint32_t count)
{
    brought->count = count;
    brought->cut = (bgi_cut){0};
}

static bool has_more(const bgi_brought *brought)
{
    return brought->cut.exchange < brought->count;
}

static bgi_wait offer_round(bgi_runner *runner, bgi_brought *brought, uint32_t group, uint32_t member)
{
    bgi_transport *transport = runner->transport;

    brought->round_count = bgi_exchange_cut(bgi_exchange_round_bytes(transport, group), brought->all, brought->count,
                                            &brought->cut, brought->round);
    return transport->type->offer(transport, group, member, brought->round, brought->round_count);
}

/* Takes the steps of a collective operation along the axes as far as possible. Returns true when all members have done
 * their share of `what`. */
static bool meet(bgi_runner *runner, uint32_t axes, bring_function bring, const void *what, uint32_t count,
                 bg_action_kind traced_as, const bgi_worker *worker)
{
    const bg_mesh mesh = bgi_plan_mesh(runner->plan);
    const uint32_t member = bg_mesh_group_member(&mesh, axes, runner->replica);
    const uint32_t group = bgi_engine_group(runner->engine, runner->number, axes, runner->replica);
    bgi_transport *transport = runner->transport;
    bgi_brought *brought = &runner->brought;

    if (bg_mesh_group_size(&mesh, axes) == 1)
        return true;
    if (runner->phase == ARRIVE) {
        bring(runner, what);
        begin_rounds(brought, count);
        runner->meeting_ns = 0;
        runner->meeting = offer_round(runner, brought, group, member);
        runner->phase = WAIT_FOR_ALL;
    }
    while (bgi_runner_reached(runner, runner->meeting.counter, runner->meeting.target)) {
        if (runner->phase == WAIT_FOR_ALL) {
            if (bgi_trace_is_on(runner) && runner->meeting_ns == 0)
                runner->meeting_ns = bgi_clock_ns();
            bgi_exchange_run(transport, group, member, brought->round, brought->round_count);
            if (bgi_trace_is_on(runner) && !has_more(brought))
                bgi_trace_add(runner, worker, traced_as, runner->meeting_ns);
            runner->meeting = transport->type->deliver(transport, group, member);
            runner->phase = WAIT_FOR_SHARES;
        } else if (has_more(brought)) {
            bgi_runner_add_progress(runner);
            runner->meeting = offer_round(runner, brought, group, member);
            runner->phase = WAIT_FOR_ALL;
        } else {
            runner->phase = ARRIVE;
            return true;
        }
    }
    return false;
}

/* ---- REDUCE and GATHER ---- */

bgi_exchange bgi_collective_exchange(const bgi_instruction *instruction, uint32_t index, uint32_t size)
{
    const bgi_reduced *reduced = &instruction->reduced[index];
    const bgi_pattern_kind kind = instruction->action.kind != BG_ACTION_REDUCE ? BGI_PATTERN_GATHER_PIECES
                                  : reduced->piece_count > 0                   ? BGI_PATTERN_SUM_PIECES
                                                                               : BGI_PATTERN_SUM;

    return (bgi_exchange){.pattern = {.kind = kind,
                                      .size = size,
                                      .count = (size_t)reduced->element_count,
                                      .piece = (size_t)reduced->piece_count},
                          .dtype = reduced->dtype};
}

static void list_variables(bgi_runner *runner, const bgi_instruction *instruction, bgi_exchange *exchanges)
{
    for (uint32_t i = 0; i < instruction->reduced_count; i++) {
        const bgi_reduced *reduced = &instruction->reduced[i];
        void *variable = bgi_runner_address(runner, &reduced->operand,
                                            (size_t)reduced->element_count * bg_dtype_size_bytes(reduced->dtype));
        exchanges[i] = bgi_collective_exchange(instruction, i, bgi_group_size(runner));
        exchanges[i].from = exchanges[i].to = variable;
        exchanges[i].is_tree = bgi_plan_is_canonical(runner->plan);
    }
}

static void bring_variables(bgi_runner *runner, const void *what)
{
    list_variables(runner, what, runner->brought.all);
}

bool bgi_collective_advance(bgi_runner *runner, const bgi_instruction *instruction, const bgi_worker *worker)
{
    return meet(runner, BG_MESH_DATA, bring_variables, instruction, instruction->reduced_count,
                instruction->action.kind, worker);
}

/* ---- sums that overlap with the program ---- */

static void note_meeting(bgi_runner *runner, bgi_wait meeting)
{
    runner->sum_meeting = meeting;
    atomic_store_explicit(&runner->sum_counter, meeting.counter, memory_order_relaxed);
    atomic_store_explicit(&runner->sum_target, meeting.target, memory_order_release);
}

/* Begins a sum. The number of begun sums is raised last, because the holder of the queue reads the stored fields once
 * it sees the new number. The last replica that contributed may have seen no waiting sum on this device, so the
 * function checks once more. */
void bgi_sum_begin(bgi_runner *runner, const bgi_instruction *instruction)
{
    const uint32_t group = bgi_engine_group(runner->engine, runner->number, BG_MESH_DATA, runner->replica);
    const uint64_t begun = atomic_load_explicit(&runner->sums_begun.value, memory_order_relaxed);

    list_variables(runner, instruction, runner->sum_brought.all);
    begin_rounds(&runner->sum_brought, instruction->reduced_count);
    runner->sum = instruction;
    runner->sum_is_delivered = false;
    runner->sum_ns[0] = 0;
    runner->sum_step = runner->engine->run->step + runner->run_iteration;
    note_meeting(runner, offer_round(runner, &runner->sum_brought, group, bgi_group_place(runner)));
    atomic_store(&runner->sums_begun.value, begun + 1);
    if (bgi_sum_is_wanted(runner))
        bgi_io_wake(runner->engine);
}

bool bgi_sum_is_wanted(const bgi_runner *runner)
{
    return atomic_load(&runner->sums_begun.value) > atomic_load(&runner->sums_done.value) &&
           atomic_load(&atomic_load(&runner->sum_counter)->value) >= atomic_load(&runner->sum_target);
}

static bool has_met(const bgi_runner *runner)
{
    return atomic_load(&runner->sum_meeting.counter->value) >= runner->sum_meeting.target;
}

static void do_share(bgi_runner *runner, const bgi_worker *worker)
{
    bgi_transport *transport = runner->transport;
    const uint32_t member = bgi_group_place(runner);
    const uint32_t group = bgi_engine_group(runner->engine, runner->number, BG_MESH_DATA, runner->replica);

    bgi_device_enter(runner->device);
    if (bgi_trace_is_on(runner) && runner->sum_ns[0] == 0)
        runner->sum_ns[0] = bgi_clock_ns();
    bgi_exchange_run(transport, group, member, runner->sum_brought.round, runner->sum_brought.round_count);
    if (bgi_trace_is_on(runner))
        runner->sum_ns[1] = bgi_clock_ns();
    runner->sum_worker = worker->number;
    runner->sum_is_delivered = true;
    note_meeting(runner, transport->type->deliver(transport, group, member));
    bgi_device_leave(runner->device);
}

static void trace_sum(bgi_runner *runner)
{
    const uint64_t created_ns = runner->engine->created_ns;

    const bg_trace_event event = {.start_ns = runner->sum_ns[0] - created_ns,
                                  .end_ns = runner->sum_ns[1] - created_ns,
                                  .action = runner->sum->action,
                                  .replica = runner->replica,
                                  .device = runner->number,
                                  .worker = runner->sum_worker,
                                  .step = runner->sum_step,
                                  .is_beside = true};

    if (bgi_trace_is_on(runner))
        bgi_trace_put(&runner->io_trace, &event);
}

bool bgi_sum_advance(bgi_runner *runner, const bgi_worker *worker)
{
    const uint32_t group = bgi_engine_group(runner->engine, runner->number, BG_MESH_DATA, runner->replica);
    const uint64_t begun = atomic_load(&runner->sums_begun.value);
    bool has_moved = false;

    if (begun == atomic_load_explicit(&runner->sums_done.value, memory_order_relaxed))
        return false;
    while (has_met(runner)) {
        has_moved = true;
        if (!runner->sum_is_delivered) {
            do_share(runner, worker);
        } else if (has_more(&runner->sum_brought)) {
            runner->sum_is_delivered = false;
            note_meeting(runner, offer_round(runner, &runner->sum_brought, group, bgi_group_place(runner)));
        } else {
            trace_sum(runner);
            bgi_counter_raise(&runner->sums_done, begun, runner);
            break;
        }
    }
    return has_moved;
}

bool bgi_sum_reached(bgi_runner *runner, const bgi_worker *worker)
{
    const uint64_t begun = atomic_load_explicit(&runner->sums_begun.value, memory_order_relaxed);

    if (atomic_load_explicit(&runner->sums_done.value, memory_order_acquire) >= begun)
        return true;
    bgi_io_run(runner, worker, 0);
    return bgi_runner_reached(runner, &runner->sums_done, begun);
}

/* Polls the transport only from time to time, because a poll takes about a microsecond. Between ranks of one host a
 * poll also copies the arrived parts of a message. */
bool bgi_sum_look(bgi_runner *runner, const bgi_worker *worker)
{
    bgi_transport *transport = runner->transport;
    const bgi_engine *engine = runner->engine;
    bool is_under_way = false;
    uint64_t now_ns;

    for (uint32_t i = 0; i < engine->local_count && !is_under_way; i++)
        is_under_way = atomic_load_explicit(&engine->local[i]->sums_begun.value, memory_order_relaxed) >
                       atomic_load_explicit(&engine->local[i]->sums_done.value, memory_order_relaxed);
    if (!is_under_way)
        return false;
    now_ns = bgi_clock_ns();
    if (now_ns - runner->looked_ns < look_ns)
        return false;
    transport->type->progress(transport);
    for (uint32_t i = 0; i < engine->local_count; i++)
        if (bgi_sum_is_wanted(engine->local[i]))
            bgi_io_run(engine->local[i], worker, 0);
    runner->looked_ns = bgi_clock_ns();
    return true;
}

/* ---- collective calls of the model ---- */

/* Describes a piece as `count` rows of `piece` elements: the dimensions before `axis` count rows, and `axis` and the
 * dimensions after it count the elements of a row. */
static bgi_pattern row_pattern(bgi_pattern_kind kind, uint32_t size, const bg_type *piece, uint32_t axis)
{
    bgi_pattern pattern = {.kind = kind, .size = size, .count = 1, .piece = 1};

    for (uint32_t i = 0; i < piece->rank; i++)
        *(i < axis ? &pattern.count : &pattern.piece) *= (size_t)piece->dims[i];
    return pattern;
}

bgi_pattern bgi_collective_pattern(const bgi_call *call)
{
    const bgi_collective_attributes *attributes = call->attributes;

    if (attributes->kind == BGI_COLLECTIVE_GATHER)
        return row_pattern(BGI_PATTERN_GATHER_ROWS, attributes->members, &call->types[0], attributes->axis);
    if (attributes->kind == BGI_COLLECTIVE_SCATTER)
        return row_pattern(BGI_PATTERN_SUM_ROWS, attributes->members, &call->types[1], attributes->axis);
    return (bgi_pattern){
        .kind = BGI_PATTERN_SUM, .size = attributes->members, .count = (size_t)bg_type_element_count(&call->types[0])};
}

static void bring_tensor(bgi_runner *runner, const void *what)
{
    const bgi_call *call = what;
    const bgi_collective_attributes *attributes = call->attributes;

    runner->brought.all[0] =
        (bgi_exchange){.pattern = bgi_collective_pattern(call),
                       .dtype = call->types[0].dtype,
                       .function = attributes->function,
                       .from = bgi_runner_address(runner, &call->operands[0], bg_type_size_bytes(&call->types[0])),
                       .to = bgi_runner_address(runner, &call->operands[1], bg_type_size_bytes(&call->types[1]))};
}

bool bgi_collective_call(bgi_runner *runner, const bgi_call *call, const bgi_worker *worker)
{
    const bgi_collective_attributes *attributes = call->attributes;

    return meet(runner, attributes->axes, bring_tensor, call, 1,
                attributes->kind == BGI_COLLECTIVE_GATHER ? BG_ACTION_GATHER : BG_ACTION_REDUCE, worker);
}
