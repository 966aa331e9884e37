/*
 * report.c: why a run does not go on. Reads devices that workers may own: only their atomic fields.
 *
 * A kernel that does not return is the cause of whatever waits behind it, so it is named first; else the lowest device
 * that waits.
 */
#include "runtime/engine.h"

#include <stdio.h>

enum { TEXT_BYTES = 256 };

static const bgi_instruction *find_instruction(const bgi_device *device)
{
    const uint32_t number = atomic_load_explicit(&device->instruction, memory_order_relaxed);

    return number < device->program->instruction_count ? &device->program->instructions[number] : NULL;
}

static uint32_t find_running_call(const bgi_device *device, const bgi_instruction *instruction)
{
    const uint32_t call = atomic_load_explicit(&device->call, memory_order_relaxed);

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

/* The lowest replica of the group along the axes that does not wait at the same barrier. */
static uint32_t find_missing_replica(const bgi_engine *engine, const bgi_device *device, uint32_t axes,
                                     const bgi_counter *counter)
{
    const bg_mesh mesh = bgi_plan_mesh(engine->plan);

    for (uint32_t member = 0; member < bg_mesh_group_size(&mesh, axes); member++) {
        const uint32_t replica = bg_mesh_group_at(&mesh, axes, device->replica, member);
        bgi_device *other = &engine->devices[replica * engine->plan->device_count + device->number];
        if (atomic_load(&other->wait_counter) != counter)
            return replica;
    }
    return device->replica;
}

/* What the device meets others for. */
static void print_meeting(const bgi_device *device, char *text, size_t size)
{
    const bgi_instruction *instruction = find_instruction(device);
    const uint32_t call = atomic_load_explicit(&device->call, memory_order_relaxed);

    if (instruction->action.kind == BG_ACTION_GATHER)
        snprintf(text, size, "gathering of weights");
    else if (instruction->action.kind == BG_ACTION_REDUCE)
        snprintf(text, size, "gradient reduction");
    else
        snprintf(text, size, "collective `%s`", call < instruction->call_count ? instruction->calls[call].name : "?");
}

/* False when the counter is of no meeting of replicas. */
static bool print_replica_wait(const bgi_engine *engine, const bgi_device *device, const bgi_counter *counter,
                               char text[TEXT_BYTES])
{
    char meeting[TEXT_BYTES / 2];

    for (uint32_t axes = 0; axes <= BG_MESH_ALL; axes++) {
        const bgi_barrier *barrier = bgi_engine_barrier(engine, device->number, axes, device->replica);
        if (counter != &barrier->arrived && counter != &barrier->finished)
            continue;
        print_meeting(device, meeting, sizeof meeting);
        snprintf(text, TEXT_BYTES, "waits for replica %u at the %s",
                 find_missing_replica(engine, device, axes, counter), meeting);
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

static void print_transfer_wait(const bgi_device *device, char text[TEXT_BYTES])
{
    const bgi_device *late = bgi_io_late_peer(device);
    const int length = snprintf(text, TEXT_BYTES, "waits for load or store %llu of its queue, of which %llu are done",
                                (unsigned long long)atomic_load(&device->wait_target),
                                (unsigned long long)atomic_load(&device->io_done.value));

    if (late != NULL)
        snprintf(text + length, TEXT_BYTES - (size_t)length, "; the next one needs a piece of replica %u",
                 late->replica);
}

static void print_wait(const bgi_engine *engine, const bgi_device *device, char text[TEXT_BYTES])
{
    const bg_plan *plan = engine->plan;
    const bgi_counter *counter = atomic_load(&device->wait_counter);

    for (uint32_t edge = 0; edge < plan->edge_count; edge++) {
        if (counter == &device->channels[edge].produced) {
            snprintf(text, TEXT_BYTES, "waits for a message on edge %u from device %u", edge,
                     plan->edges[edge].from_device);
            return;
        }
        if (counter == &device->channels[edge].consumed) {
            snprintf(text, TEXT_BYTES, "waits for a free slot on edge %u to device %u", edge,
                     plan->edges[edge].to_device);
            return;
        }
    }
    if (counter == &device->io_done)
        print_transfer_wait(device, text);
    else if (print_replica_wait(engine, device, counter, text))
        return;
    else if (counter == &engine->gate.granted)
        snprintf(text, TEXT_BYTES, "waits for %s before its next iteration",
                 engine->run->infeed != NULL ? "the infeed" : "the value that ends the run");
    else if (waits_for_row(engine, counter))
        snprintf(text, TEXT_BYTES, "waits for the consumer of an outfeed to take rows");
    else
        snprintf(text, TEXT_BYTES, "can go on, but no worker is free");
}

static bool is_done(const bgi_engine *engine, const bgi_device *device)
{
    return !atomic_load(&device->is_owned) && atomic_load(&device->wait_counter) == &engine->runs &&
           atomic_load(&device->wait_target) != 0;
}

bg_status bgi_report_stuck(bgi_engine *engine, double waited_s, bg_error *error)
{
    const bgi_device *waiting = NULL, *running = NULL, *stuck;
    const bgi_instruction *instruction;
    char action[TEXT_BYTES] = "its program", reason[TEXT_BYTES];
    uint32_t stuck_count = 0, call;

    for (uint32_t i = 0; i < engine->device_count; i++) {
        const bgi_device *device = &engine->devices[i];
        if (is_done(engine, device))
            continue;
        stuck_count++;
        if (running == NULL && find_running_call(device, find_instruction(device)) != BGI_NO_CALL)
            running = device;
        if (waiting == NULL)
            waiting = device;
    }
    stuck = running != NULL ? running : waiting;
    if (stuck == NULL)
        return bg_error_set(error, BG_ERROR_TIMEOUT, "no device made progress for %.3g s", waited_s);
    instruction = find_instruction(stuck);
    if (instruction != NULL)
        print_action(&instruction->action, action);
    call = find_running_call(stuck, instruction);
    if (call != BGI_NO_CALL)
        snprintf(reason, sizeof reason, "the kernel `%s` of op `%s` has not returned for %.3g s",
                 instruction->calls[call].kernel.name, instruction->calls[call].name, waited_s);
    else
        print_wait(engine, stuck, reason);
    return bg_error_set(error, BG_ERROR_TIMEOUT,
                        "no progress for %.3g s (wait_limit_s): replica %u, device %u, %s: %s; %u other device%s not "
                        "done either",
                        waited_s, stuck->replica, stuck->number, action, reason, stuck_count - 1,
                        stuck_count == 2 ? " is" : "s are");
}
