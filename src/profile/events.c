/*
 * events.c: reads the recorded events, and finds the instruction of each.
 */
#include "profile/events.h"

#include <string.h>

#include "core/error.h"

static uint32_t find_instruction(const bg_plan *plan, uint32_t device, const bg_action *action, uint32_t begin,
                                 uint32_t end)
{
    for (uint32_t at = begin; at < end; at++) {
        const bg_plan_instruction instruction = bg_plan_instruction_at(plan, device, at);
        if (bgi_same_action(&instruction.action, action))
            return at;
    }
    return BGI_NO_INSTRUCTION;
}

/* Finds the instruction of each event. A device runs its program in order, and again from the start, so the instruction
 * of the next event is nearly always the next one, where the search starts. An action may have several consecutive
 * instructions, and an instruction several events. Events after the last instruction of an action belong to that
 * instruction. */
static void match_instructions(const bg_plan *plan, uint32_t device, bgi_device_events *found)
{
    const uint32_t count = bg_plan_instruction_count(plan, device);
    uint32_t next = 0;

    for (uint32_t i = 0; i < found->count; i++) {
        const bg_action *action = &found->events[i].action;
        uint32_t at = BGI_NO_INSTRUCTION;
        if (!found->events[i].is_beside)
            at = find_instruction(plan, device, action, next, count);
        if (!found->events[i].is_beside && at == BGI_NO_INSTRUCTION && next > 0)
            at = find_instruction(plan, device, action, next - 1, next);
        if (!found->events[i].is_beside && at == BGI_NO_INSTRUCTION)
            at = find_instruction(plan, device, action, 0, next);
        found->instructions[i] = at;
        next = at != BGI_NO_INSTRUCTION ? at + 1 : next;
    }
}

/* Counts the passes after each event. Passes are counted from the end, where devices stop together, because the oldest
 * events may be missing, for some devices more than for others. A pass begins where the position in the program
 * decreases. */
static void count_passes(bgi_device_events *found, bgi_events *all)
{
    uint32_t later = BGI_NO_INSTRUCTION, passes = 0;

    for (uint32_t i = found->count; i > 0; i--) {
        const uint32_t own = found->instructions[i - 1];
        if (own != BGI_NO_INSTRUCTION && later != BGI_NO_INSTRUCTION && own > later)
            passes++;
        if (own != BGI_NO_INSTRUCTION)
            later = own;
        found->passes_after[i - 1] = passes;
    }
    if (passes + 1 > all->pass_count)
        all->pass_count = passes + 1;
}

static bg_status read_device(const bg_session *session, const bg_plan *plan, uint32_t replica, uint32_t device,
                             bgi_events *all, bg_error *error)
{
    bgi_device_events *found = &all->devices[replica * all->device_count + device];
    uint32_t count = bg_session_trace_count(session, replica, device);
    bg_trace_event *events = bgi_arena_allocate(&all->arena, count, sizeof *events);

    found->instructions = bgi_arena_allocate(&all->arena, count, sizeof *found->instructions);
    found->passes_after = bgi_arena_allocate(&all->arena, count, sizeof *found->passes_after);
    if (events == NULL || found->instructions == NULL || found->passes_after == NULL)
        return bgi_error_memory(error, "trace events", count * sizeof *events);
    for (uint32_t i = 0; i < count; i++) {
        BGI_TRY(bg_session_trace_event(session, replica, device, i, &events[i], error));
        if (events[i].start_ns < all->start_ns)
            all->start_ns = events[i].start_ns;
        if (events[i].end_ns > all->end_ns)
            all->end_ns = events[i].end_ns;
    }
    found->count = count;
    found->events = events;
    match_instructions(plan, device, found);
    count_passes(found, all);
    return BG_OK;
}

bg_status bgi_events_read(const bg_session *session, const bg_plan *plan, bgi_events *out, bg_error *error)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);
    bgi_events events = {
        .replica_count = summary.replicas, .device_count = summary.device_count, .start_ns = UINT64_MAX};
    bg_status status = BG_OK;

    if (!bg_plan_options(plan)->reporting.trace)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "profile: the session recorded nothing; set options.reporting.trace");
    events.devices =
        bgi_arena_allocate(&events.arena, (size_t)events.replica_count * events.device_count, sizeof *events.devices);
    if (events.devices == NULL)
        return bgi_error_memory(error, "trace events", 0);
    for (uint32_t replica = 0; status == BG_OK && replica < events.replica_count; replica++)
        for (uint32_t device = 0; status == BG_OK && device < events.device_count; device++)
            status = read_device(session, plan, replica, device, &events, error);
    if (status == BG_OK && events.start_ns == UINT64_MAX)
        status = bg_error_set(error, BG_ERROR_INVALID, "profile: nothing was recorded; run the session first");
    if (status != BG_OK) {
        bgi_events_clear(&events);
        return status;
    }
    *out = events;
    return BG_OK;
}

/* Removes the oldest events. Events of the program are first, then events that overlap with it; both groups begin with
 * the oldest. */
static void crop(bgi_device_events *own, uint32_t most)
{
    uint32_t program = 0, dropped;

    while (program < own->count && !own->events[program].is_beside)
        program++;
    if (own->count - program > most) {
        dropped = own->count - program - most;
        memmove((bg_trace_event *)own->events + program, own->events + program + dropped, most * sizeof *own->events);
        memmove(own->instructions + program, own->instructions + program + dropped, most * sizeof *own->instructions);
        memmove(own->passes_after + program, own->passes_after + program + dropped, most * sizeof *own->passes_after);
        own->count -= dropped;
    }
    if (program > most) {
        dropped = program - most;
        own->events += dropped;
        own->instructions += dropped;
        own->passes_after += dropped;
        own->count -= dropped;
    }
}

void bgi_events_crop(bgi_events *events, uint32_t most)
{
    for (uint32_t d = 0; d < events->replica_count * events->device_count; d++)
        crop(&events->devices[d], most);
}

void bgi_events_clear(bgi_events *events)
{
    bgi_arena_clear(&events->arena);
}
