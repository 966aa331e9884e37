/*
 * report.c: finds why a run is stuck. It reads only the atomic fields of devices, because workers may own them.
 *
 * A kernel that does not return blocks the devices that wait for it, so the lowest device inside a kernel is reported.
 * If there is none, the lowest device that waits for another rank is reported, otherwise the lowest waiting device;
 * devices that wait for their turn come last.
 */
#include "runtime/engine.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "transport/ranks.h"

enum { TEXT_BYTES = 256, RANK_BYTES = BGI_RANK_TEXT_BYTES + 8 };

static const bgi_instruction *find_instruction(const bgi_runner *runner)
{
    const uint32_t number = atomic_load_explicit(&runner->instruction, memory_order_relaxed);

    return number < runner->program->instruction_count ? &runner->program->instructions[number] : NULL;
}

static uint32_t find_running_call(const bgi_runner *runner, const bgi_instruction *instruction)
{
    const uint32_t call = atomic_load_explicit(&runner->call, memory_order_relaxed);

    return instruction != NULL && call < instruction->call_count && !instruction->calls[call].is_collective
               ? call
               : BGI_NO_CALL;
}

static void print_action(const bg_action *action, char text[TEXT_BYTES])
{
    const char *name = bg_action_kind_name(action->kind);

    switch (action->kind) {
    case BG_ACTION_UPDATE:
        snprintf(text, TEXT_BYTES, "%s of stage %u, level %u", name, action->stage, action->index);
        break;
    case BG_ACTION_SEND:
    case BG_ACTION_RECEIVE:
        snprintf(text, TEXT_BYTES, "%s of edge %u, stage %u, micro-batch %u", name, action->index, action->stage,
                 action->micro_batch);
        break;
    case BG_ACTION_LOAD:
    case BG_ACTION_STORE:
        snprintf(text, TEXT_BYTES, "%s of buffer %u, stage %u, micro-batch %u", name, action->index, action->stage,
                 action->micro_batch);
        break;
    case BG_ACTION_REDUCE:
    case BG_ACTION_GATHER:
        snprintf(text, TEXT_BYTES, "%s of stage %u", name, action->stage);
        break;
    default:
        snprintf(text, TEXT_BYTES, "%s of stage %u, micro-batch %u", name, action->stage, action->micro_batch);
    }
}

/* Returns the counter for which the device waits. If the device waits for a sum that overlaps with its program, returns
 * the counter for which the sum waits. */
static const bgi_counter *find_awaited(const bgi_runner *runner)
{
    const bgi_counter *counter = atomic_load(&runner->wait_counter);

    return counter == &runner->sums_done ? atomic_load(&runner->sum_counter) : counter;
}

/* Whether the device, or a sum that overlaps with its program, waits for the counter. */
static bool waits_at(const bgi_runner *runner, const bgi_counter *counter)
{
    return atomic_load(&runner->wait_counter) == counter ||
           (atomic_load(&runner->sums_begun.value) > atomic_load(&runner->sums_done.value) &&
            atomic_load(&runner->sum_counter) == counter);
}

/* Returns the lowest replica of the group along the axes that does not wait for the collective operation for which this
 * replica waits. The waits of other ranks are unknown, so the function returns the first replica of another rank when
 * all replicas of this rank wait for it. */
static uint32_t find_missing_replica(const bgi_engine *engine, const bgi_runner *runner, uint32_t axes,
                                     bool is_delivery)
{
    const uint32_t group = bgi_engine_group(engine, runner->number, axes, runner->replica);
    const bg_mesh mesh = bgi_plan_mesh(engine->plan);
    uint32_t elsewhere = runner->replica;

    for (uint32_t member = 0; member < bg_mesh_group_size(&mesh, axes); member++) {
        const uint32_t replica = bg_mesh_group_at(&mesh, axes, runner->replica, member);
        bgi_runner *other = &engine->runners[replica * engine->plan->device_count + runner->number];
        if (!bgi_engine_has(engine, replica, runner->number))
            elsewhere = elsewhere == runner->replica ? replica : elsewhere;
        else if (!waits_at(other, engine->transport->type->meeting(engine->transport, group, member, is_delivery)))
            return replica;
    }
    return elsewhere;
}

/* Describes the collective operation that the device has begun. */
static void print_meeting(const bgi_runner *runner, char *text, size_t size)
{
    const bgi_instruction *instruction = find_instruction(runner);
    const uint32_t call = atomic_load_explicit(&runner->call, memory_order_relaxed);

    if (instruction->action.kind == BG_ACTION_GATHER)
        snprintf(text, size, "gathering of weights");
    else if (instruction->action.kind == BG_ACTION_REDUCE || atomic_load(&runner->wait_counter) == &runner->sums_done)
        snprintf(text, size, "gradient reduction");
    else
        snprintf(text, size, "collective `%s`", call < instruction->call_count ? instruction->calls[call].name : "?");
}

/* Prints the collective operation to which the counter belongs, and a replica that is missing in it. Returns false when
 * the counter belongs to no such operation. */
static bool print_replica_wait(const bgi_engine *engine, const bgi_runner *runner, const bgi_counter *counter,
                               char text[TEXT_BYTES])
{
    bgi_transport *transport = engine->transport;
    const bg_mesh mesh = bgi_plan_mesh(engine->plan);
    char meeting[TEXT_BYTES / 2], name[BGI_RANK_TEXT_BYTES];
    uint32_t replica;

    for (uint32_t axes = 0; axes <= BG_MESH_ALL; axes++) {
        const uint32_t group = bgi_engine_group(engine, runner->number, axes, runner->replica);
        const uint32_t member = bg_mesh_group_member(&mesh, axes, runner->replica);
        bool is_delivery;
        if (engine->groups[group].size == 0)
            continue;
        is_delivery = counter == transport->type->meeting(transport, group, member, true);
        if (!is_delivery && counter != transport->type->meeting(transport, group, member, false))
            continue;
        print_meeting(runner, meeting, sizeof meeting);
        replica = find_missing_replica(engine, runner, axes, is_delivery);
        snprintf(text, TEXT_BYTES, "waits for replica %u", replica);
        if (!bgi_engine_has(engine, replica, runner->number))
            snprintf(text + strlen(text), TEXT_BYTES - strlen(text), " (%s)",
                     bgi_ranks_name(engine->ranks,
                                    engine->ranks->owners[replica * engine->plan->device_count + runner->number],
                                    name));
        snprintf(text + strlen(text), TEXT_BYTES - strlen(text), " at the %s", meeting);
        return true;
    }
    return false;
}

static bool waits_for_row(const bgi_engine *engine, const bgi_counter *counter)
{
    for (const bg_outfeed *outfeed = engine->run->outfeeds; outfeed != NULL; outfeed = outfeed->next)
        if (counter == &outfeed->taken)
            return true;
    return false;
}

static void print_transfer_wait(const bgi_runner *runner, char text[TEXT_BYTES])
{
    const uint32_t late = bgi_io_late_replica(runner);
    const int length = snprintf(text, TEXT_BYTES, "waits for load or store %llu of its queue, of which %llu are done",
                                (unsigned long long)atomic_load(&runner->wait_target),
                                (unsigned long long)atomic_load(&runner->io_done.value));

    if (late != BGI_NO_REPLICA)
        snprintf(text + length, TEXT_BYTES - (size_t)length, "; the next one needs a piece of replica %u", late);
}

/* Whether the device waits for its turn, in a strict plan. */
static bool waits_for_turn(const bgi_engine *engine, const bgi_runner *runner)
{
    return engine->turn_count > 0 && atomic_load(&runner->wait_counter) == &runner->turn;
}

static uint32_t find_turn(const bgi_engine *engine, const bgi_runner *runner)
{
    uint64_t done = 0;

    for (uint32_t d = 0; d < engine->plan->device_count; d++) {
        const bgi_runner *other = &engine->runners[runner->index - runner->number + d];
        const uint64_t told = atomic_load(&other->turn.value);
        done = told > done ? told : done;
    }
    return engine->turn_devices[done % engine->turn_count];
}

/* Returns " of rank 3 on host node2" for a device of the replica that another rank owns; "" for one of this rank. */
static const char *of_rank(const bgi_engine *engine, const bgi_runner *runner, uint32_t device, char text[RANK_BYTES])
{
    const uint32_t number = runner->replica * engine->plan->device_count + device;
    char name[BGI_RANK_TEXT_BYTES];

    text[0] = '\0';
    if (!bgi_ranks_has(engine->ranks, number))
        snprintf(text, RANK_BYTES, " of %s", bgi_ranks_name(engine->ranks, engine->ranks->owners[number], name));
    return text;
}

/* Whether the device waits for a message, a slot or a collective operation of another rank. */
static bool waits_for_rank(const bgi_engine *engine, const bgi_runner *runner)
{
    const bg_plan *plan = engine->plan;
    const bgi_transport_type *type = engine->transport->type;
    const bgi_counter *counter = find_awaited(runner);
    char meeting[TEXT_BYTES];

    for (uint32_t edge = 0; edge < plan->edge_count; edge++) {
        const uint32_t link = runner->first_link + edge;
        const uint32_t from = plan->edges[edge].from_device, to = plan->edges[edge].to_device;
        if (from != to &&
            ((counter == type->arrived(engine->transport, link) && !bgi_engine_has(engine, runner->replica, from)) ||
             (counter == type->credit(engine->transport, link) && !bgi_engine_has(engine, runner->replica, to))))
            return true;
    }
    return counter != &runner->io_done && !waits_for_turn(engine, runner) &&
           print_replica_wait(engine, runner, counter, meeting);
}

static void print_wait(const bgi_engine *engine, const bgi_runner *runner, char text[TEXT_BYTES])
{
    char rank[RANK_BYTES];
    const bg_plan *plan = engine->plan;
    const bgi_counter *counter = find_awaited(runner);

    for (uint32_t edge = 0; edge < plan->edge_count; edge++) {
        const uint32_t link = runner->first_link + edge;
        if (plan->edges[edge].from_device == plan->edges[edge].to_device)
            continue;
        if (counter == engine->transport->type->arrived(engine->transport, link)) {
            snprintf(text, TEXT_BYTES, "waits for a message on edge %u from device %u%s", edge,
                     plan->edges[edge].from_device, of_rank(engine, runner, plan->edges[edge].from_device, rank));
            return;
        }
        if (counter == engine->transport->type->credit(engine->transport, link)) {
            snprintf(text, TEXT_BYTES, "waits for a free slot on edge %u to device %u%s", edge,
                     plan->edges[edge].to_device, of_rank(engine, runner, plan->edges[edge].to_device, rank));
            return;
        }
    }
    if (counter == &runner->io_done)
        print_transfer_wait(runner, text);
    else if (waits_for_turn(engine, runner))
        snprintf(text, TEXT_BYTES, "waits for its turn, which device %u has now", find_turn(engine, runner));
    else if (print_replica_wait(engine, runner, counter, text))
        return;
    else if (counter == &runner->granted)
        snprintf(text, TEXT_BYTES, "waits for %s before its next iteration",
                 engine->run->infeed != NULL ? "the infeed" : "the value that ends the run");
    else if (waits_for_row(engine, counter))
        snprintf(text, TEXT_BYTES, "waits for the consumer of an outfeed to take rows");
    else
        snprintf(text, TEXT_BYTES, "could continue, but no worker is free");
}

static bool is_done(const bgi_engine *engine, const bgi_runner *runner)
{
    return !atomic_load(&runner->is_owned) && atomic_load(&runner->wait_counter) == &engine->runs &&
           atomic_load(&runner->wait_target) != 0;
}

/* Ranks in a run report their progress several times within the limit, even while they wait. So a rank without reports
 * is probably the cause, rather than the ranks that wait for it. Writes "; no sign of rank 1 on host node2 meanwhile",
 * or "" when all ranks have reported their progress. */
static void print_silent(const bgi_engine *engine, double waited_s, char text[TEXT_BYTES])
{
    char names[TEXT_BYTES - 40];

    text[0] = '\0';
    if (engine->ranks != NULL && bgi_ranks_print_silent(engine->transport, waited_s, true, names, sizeof names) > 0)
        snprintf(text, TEXT_BYTES, "; no sign of %s meanwhile", names);
}

bg_status bgi_report_stuck(bgi_engine *engine, double waited_s, bg_error *error)
{
    const bgi_runner *waiting = NULL, *running = NULL, *distant = NULL, *stuck;
    const bgi_instruction *instruction;
    char action[TEXT_BYTES] = "its program", reason[TEXT_BYTES], silent[TEXT_BYTES];
    char rank[RANK_BYTES] = "", name[BGI_RANK_TEXT_BYTES];
    uint32_t stuck_count = 0, call;

    for (uint32_t i = 0; i < engine->device_count; i++) {
        const bgi_runner *runner = &engine->runners[i];
        if (!bgi_ranks_has(engine->ranks, i) || is_done(engine, runner))
            continue;
        stuck_count++;
        if (running == NULL && find_running_call(runner, find_instruction(runner)) != BGI_NO_CALL)
            running = runner;
        if (distant == NULL && engine->ranks != NULL && waits_for_rank(engine, runner))
            distant = runner;
        if (waiting == NULL || (waits_for_turn(engine, waiting) && !waits_for_turn(engine, runner)))
            waiting = runner;
    }
    stuck = running != NULL ? running : distant != NULL ? distant : waiting;
    print_silent(engine, waited_s, silent);
    if (stuck == NULL)
        return bg_error_set(error, BG_ERROR_TIMEOUT, "no device made progress for %.3g s%s", waited_s, silent);
    instruction = find_instruction(stuck);
    if (instruction != NULL)
        print_action(&instruction->action, action);
    call = find_running_call(stuck, instruction);
    if (call != BGI_NO_CALL)
        snprintf(reason, sizeof reason, "the kernel `%s` of op `%s` has not returned for %.3g s",
                 instruction->calls[call].kernel.name, instruction->calls[call].name, waited_s);
    else
        print_wait(engine, stuck, reason);
    if (engine->ranks != NULL)
        snprintf(rank, sizeof rank, "%s, ", bgi_ranks_name(engine->ranks, engine->ranks->carrier->rank, name));
    return bg_error_set(error, BG_ERROR_TIMEOUT,
                        "no progress for %.3g s (wait_limit_s): %sreplica %u, device %u, %s: %s; %u other device%s not "
                        "done either%s",
                        waited_s, rank, stuck->replica, stuck->number, action, reason, stuck_count - 1,
                        stuck_count == 2 ? " is" : "s are", silent);
}
