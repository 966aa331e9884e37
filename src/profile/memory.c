/*
 * memory.c: live bytes over time, from the plan and the recorded times.
 *
 * What is always live (weights, gradients, state, windows, host buffers) is a constant. What an instruction needs
 * inside itself lives while it runs. Between them are the slots of edges: a slot is occupied from the start of the
 * first instruction that touches a message (its producer, maybe on another device) to the end of the last (its last
 * reader). So each event widens the interval of each message that its instruction touches:
 *
 *     F 3 on device 0 writes  |====|
 *     F 3 on device 1 reads          |====|
 *     slot of edge e, message 3   [==========]   on device 1
 */
#include "profile/memory.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* The time of one message in its slot; unused when end_ns is 0. */
typedef struct occupancy {
    uint64_t start_ns, end_ns;
} occupancy;

static bg_status add_change(bgi_memory_track *track, uint64_t at_ns, int64_t bytes, bg_error *error)
{
    if (bytes == 0)
        return BG_OK;
    if (!bgi_array_reserve((void **)&track->changes, &track->capacity, track->count + 1, sizeof *track->changes))
        return bgi_error_memory(error, "memory trace", (track->count + 1) * sizeof *track->changes);
    track->changes[track->count++] = (bgi_memory_change){.at_ns = at_ns, .bytes = bytes};
    return BG_OK;
}

static bg_status add_span(bgi_memory_track *track, uint64_t start_ns, uint64_t end_ns, size_t size_bytes,
                          bg_error *error)
{
    BGI_TRY(add_change(track, start_ns, (int64_t)size_bytes, error));
    return add_change(track, end_ns, -(int64_t)size_bytes, error);
}

static void touch_operand(const bgi_operand *operand, bool *touched)
{
    if (operand->edge != BGI_NO_EDGE && !operand->is_remote)
        touched[operand->edge] = true;
}

/* Marks the edges that an instruction writes or reads. */
static void find_touched(const bgi_instruction *instruction, bool *touched, uint32_t edge_count)
{
    memset(touched, 0, edge_count * sizeof *touched);
    for (uint32_t i = 0; i < instruction->acquire_count; i++)
        touched[instruction->acquires[i]] = true;
    for (uint32_t i = 0; i < instruction->release_count; i++)
        touched[instruction->releases[i]] = true;
    for (uint32_t i = 0; i < instruction->call_count; i++) {
        const bgi_call *call = &instruction->calls[i];
        for (uint32_t k = 0; k < call->input_count + call->output_count; k++)
            touch_operand(&call->operands[k], touched);
    }
    for (uint32_t i = 0; i < instruction->copy_count; i++) {
        touch_operand(&instruction->copies[i].operand, touched);
        if (instruction->action.kind == BG_ACTION_SEND)
            touch_operand(&instruction->copies[i].to, touched);
    }
}

static void widen(occupancy *slot, const bg_trace_event *event)
{
    if (slot->end_ns == 0 || event->start_ns < slot->start_ns)
        slot->start_ns = event->start_ns;
    if (event->end_ns > slot->end_ns)
        slot->end_ns = event->end_ns;
}

/* occupancies[edge][pass from the end][micro-batch], flat; an edge that is touched once a step uses micro-batch 0. */
static void collect_occupancies(const bgi_events *events, const bg_plan *plan, uint32_t replica, bool *touched,
                                occupancy *occupancies)
{
    size_t passes = events->pass_count;

    for (uint32_t device = 0; device < plan->device_count; device++) {
        const bgi_device_events *own = &events->devices[replica * plan->device_count + device];
        for (uint32_t i = 0; i < own->count; i++) {
            const bg_trace_event *event = &own->events[i];
            if (own->instructions[i] == NULL)
                continue;
            find_touched(own->instructions[i], touched, plan->edge_count);
            for (uint32_t edge = 0; edge < plan->edge_count; edge++) {
                size_t micro_batch = plan->edges[edge].per_step ? 0 : event->action.micro_batch;
                if (touched[edge] && micro_batch < plan->micro_batches)
                    widen(&occupancies[(edge * passes + own->passes_after[i]) * plan->micro_batches + micro_batch],
                          event);
            }
        }
    }
}

static bg_status add_slots(const bgi_events *events, const bg_plan *plan, const occupancy *occupancies,
                           bgi_memory_track *tracks, bg_error *error)
{
    size_t per_edge = (size_t)events->pass_count * plan->micro_batches;

    for (uint32_t edge = 0; edge < plan->edge_count; edge++) {
        const bgi_plan_edge *of = &plan->edges[edge];
        for (size_t i = 0; i < per_edge; i++) {
            const occupancy *slot = &occupancies[edge * per_edge + i];
            if (slot->end_ns != 0 && !of->is_ring)
                BGI_TRY(add_span(&tracks[of->to_device], slot->start_ns, slot->end_ns, of->slot_bytes, error));
        }
    }
    return BG_OK;
}

/* Weights, gradients, state, windows and the host's buffers: what is left of the arena without slots and transient
 * memory. */
static size_t find_constant_bytes(const bg_plan *plan, uint32_t device)
{
    const size_t *classes = plan->devices[device].class_bytes;
    size_t streams = classes[BG_MEMORY_STREAM];

    for (uint32_t edge = 0; edge < plan->edge_count; edge++) {
        size_t slots = plan->edges[edge].slot_bytes * plan->edges[edge].depth;
        if (plan->edges[edge].to_device == device && !plan->edges[edge].is_stash && !plan->edges[edge].is_ring)
            streams = streams > slots ? streams - slots : 0;
    }
    return classes[BG_MEMORY_WEIGHTS] + classes[BG_MEMORY_GRADIENTS] + classes[BG_MEMORY_STATE] +
           classes[BG_MEMORY_WINDOW] + streams;
}

static bg_status add_device(const bgi_events *events, const bg_plan *plan, uint32_t replica, uint32_t device,
                            bgi_memory_track *track, bg_error *error)
{
    const bgi_device_events *own = &events->devices[replica * plan->device_count + device];

    BGI_TRY(add_change(track, events->start_ns, (int64_t)find_constant_bytes(plan, device), error));
    for (uint32_t i = 0; i < own->count; i++)
        if (own->instructions[i] != NULL)
            BGI_TRY(add_span(track, own->events[i].start_ns, own->events[i].end_ns,
                             own->instructions[i]->transient_bytes, error));
    return BG_OK;
}

/* By time; at the same moment memory is given back before it is taken. */
static int compare_changes(const void *a, const void *b)
{
    const bgi_memory_change *x = a, *y = b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

bg_status bgi_memory_trace(const bgi_events *events, const bg_plan *plan, uint32_t replica, bgi_memory_track *tracks,
                           bg_error *error)
{
    size_t passes = events->pass_count;
    size_t count = passes * plan->micro_batches * plan->edge_count;
    occupancy *occupancies = calloc(count > 0 ? count : 1, sizeof *occupancies);
    bool *touched = calloc(plan->edge_count + 1, sizeof *touched);
    bg_status status = BG_OK;

    if (occupancies == NULL || touched == NULL) {
        status = bgi_error_memory(error, "memory trace", count * sizeof *occupancies);
        goto cleanup;
    }
    collect_occupancies(events, plan, replica, touched, occupancies);
    for (uint32_t device = 0; device < plan->device_count; device++)
        BGI_TRY_CLEANUP(add_device(events, plan, replica, device, &tracks[device], error));
    BGI_TRY_CLEANUP(add_slots(events, plan, occupancies, tracks, error));
    for (uint32_t device = 0; device < plan->device_count; device++)
        if (tracks[device].count > 0)
            qsort(tracks[device].changes, tracks[device].count, sizeof *tracks[device].changes, compare_changes);
cleanup:
    free(occupancies);
    free(touched);
    return status;
}
