/*
 * memory.c: computes live bytes over time, from the plan and the recorded times.
 *
 * Memory that is always live (weights, gradients, state, windows, host buffers) is a constant. Memory inside an
 * instruction is live while the instruction runs. A slot of an edge is occupied from the start of the message's
 * producer, which may be on another device, to the end of its last reader. So each event extends the interval of each
 * message that its instruction touches:
 *
 *     F 3 on device 0 writes  |====|
 *     F 3 on device 1 reads          |====|
 *     slot of edge e, message 3   [==========]   on device 1
 */
#include "profile/memory.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* The interval of one message in its slot; unused when end_ns is 0. */
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

static void widen(occupancy *slot, const bg_trace_event *event)
{
    if (slot->end_ns == 0 || event->start_ns < slot->start_ns)
        slot->start_ns = event->start_ns;
    if (event->end_ns > slot->end_ns)
        slot->end_ns = event->end_ns;
}

/* Fills occupancies, a flat array [edge][pass from the end][micro-batch]; an edge that is touched once a step uses
 * micro-batch 0. */
static void collect_occupancies(const bgi_events *events, const bg_plan *plan, const bg_plan_summary *summary,
                                uint32_t replica, bool *touched, occupancy *occupancies)
{
    const size_t passes = events->pass_count, micro_batches = summary->micro_batches_per_step;

    for (uint32_t device = 0; device < summary->device_count; device++) {
        const bgi_device_events *own = &events->devices[replica * summary->device_count + device];
        for (uint32_t i = 0; i < own->count; i++) {
            const bg_trace_event *event = &own->events[i];
            if (own->instructions[i] == BGI_NO_INSTRUCTION)
                continue;
            memset(touched, 0, summary->edge_count * sizeof *touched);
            bg_plan_mark_edges(plan, device, own->instructions[i], touched);
            for (uint32_t edge = 0; edge < summary->edge_count; edge++) {
                const size_t micro_batch = bg_plan_edge_at(plan, edge).per_step ? 0 : event->action.micro_batch;
                if (touched[edge] && micro_batch < micro_batches)
                    widen(&occupancies[(edge * passes + own->passes_after[i]) * micro_batches + micro_batch], event);
            }
        }
    }
}

static bg_status add_slots(const bgi_events *events, const bg_plan *plan, const bg_plan_summary *summary,
                           const occupancy *occupancies, bgi_memory_track *tracks, bg_error *error)
{
    const size_t per_edge = (size_t)events->pass_count * summary->micro_batches_per_step;

    for (uint32_t edge = 0; edge < summary->edge_count; edge++) {
        const bg_plan_edge of = bg_plan_edge_at(plan, edge);
        for (size_t i = 0; i < per_edge; i++) {
            const occupancy *slot = &occupancies[edge * per_edge + i];
            if (slot->end_ns != 0 && !of.is_ring)
                BGI_TRY(add_span(&tracks[of.to_device], slot->start_ns, slot->end_ns, of.slot_bytes, error));
        }
    }
    return BG_OK;
}

/* Returns the bytes of memory that is always live: weights, gradients, state, windows and the host's buffers. They are
 * the arena without slots and transient memory. */
static size_t find_constant_bytes(const bg_plan *plan, uint32_t device, uint32_t edge_count)
{
    size_t streams = bg_plan_memory_bytes(plan, device, BG_MEMORY_STREAM);

    for (uint32_t e = 0; e < edge_count; e++) {
        const bg_plan_edge edge = bg_plan_edge_at(plan, e);
        const size_t slots = edge.slot_bytes * edge.depth;
        if (edge.to_device == device && !edge.is_stash && !edge.is_ring)
            streams = streams > slots ? streams - slots : 0;
    }
    return bg_plan_memory_bytes(plan, device, BG_MEMORY_WEIGHTS) +
           bg_plan_memory_bytes(plan, device, BG_MEMORY_GRADIENTS) +
           bg_plan_memory_bytes(plan, device, BG_MEMORY_STATE) + bg_plan_memory_bytes(plan, device, BG_MEMORY_WINDOW) +
           streams;
}

static bg_status add_device(const bgi_events *events, const bg_plan *plan, const bg_plan_summary *summary,
                            uint32_t replica, uint32_t device, bgi_memory_track *track, bg_error *error)
{
    const bgi_device_events *own = &events->devices[replica * summary->device_count + device];

    BGI_TRY(
        add_change(track, events->start_ns, (int64_t)find_constant_bytes(plan, device, summary->edge_count), error));
    for (uint32_t i = 0; i < own->count; i++)
        if (own->instructions[i] != BGI_NO_INSTRUCTION)
            BGI_TRY(add_span(track, own->events[i].start_ns, own->events[i].end_ns,
                             bg_plan_instruction_at(plan, device, own->instructions[i]).transient_bytes, error));
    return BG_OK;
}

/* Sorts changes by time; at the same moment, releases are before allocations. */
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
    const bg_plan_summary summary = bg_plan_summarize(plan);
    const size_t count = (size_t)events->pass_count * summary.micro_batches_per_step * summary.edge_count;
    occupancy *occupancies = calloc(count > 0 ? count : 1, sizeof *occupancies);
    bool *touched = calloc((size_t)summary.edge_count + 1, sizeof *touched);
    bg_status status = BG_OK;

    if (occupancies == NULL || touched == NULL) {
        status = bgi_error_memory(error, "memory trace", count * sizeof *occupancies);
        goto cleanup;
    }
    collect_occupancies(events, plan, &summary, replica, touched, occupancies);
    for (uint32_t device = 0; device < summary.device_count; device++)
        BGI_TRY_CLEANUP(add_device(events, plan, &summary, replica, device, &tracks[device], error));
    BGI_TRY_CLEANUP(add_slots(events, plan, &summary, occupancies, tracks, error));
    for (uint32_t device = 0; device < summary.device_count; device++)
        if (tracks[device].count > 0)
            qsort(tracks[device].changes, tracks[device].count, sizeof *tracks[device].changes, compare_changes);
cleanup:
    free(occupancies);
    free(touched);
    return status;
}

/* ---- spans ---- */

typedef struct span_list {
    bgi_memory_span *spans;
    size_t count, capacity;
} span_list;

static bg_status add_memory_span(span_list *list, bgi_memory_span span, bg_error *error)
{
    if (!bgi_array_reserve((void **)&list->spans, &list->capacity, list->count + 1, sizeof *list->spans))
        return bgi_error_memory(error, "memory trace", (list->count + 1) * sizeof *list->spans);
    list->spans[list->count++] = span;
    return BG_OK;
}

static bg_status add_transients(const bg_plan *plan, uint32_t device, uint64_t begin_ns, const bgi_device_events *own,
                                span_list *list, bg_error *error)
{
    for (uint32_t i = 0; i < own->count; i++) {
        bg_plan_instruction instruction;
        if (own->instructions[i] == BGI_NO_INSTRUCTION || own->events[i].end_ns <= begin_ns)
            continue;
        instruction = bg_plan_instruction_at(plan, device, own->instructions[i]);
        if (instruction.transient_bytes > 0)
            BGI_TRY(add_memory_span(list,
                                    (bgi_memory_span){.start_ns = own->events[i].start_ns,
                                                      .end_ns = own->events[i].end_ns,
                                                      .bytes = instruction.transient_bytes,
                                                      .memory_class = BG_MEMORY_TRANSIENT,
                                                      .edge = UINT32_MAX,
                                                      .action = own->events[i].action},
                                    error));
    }
    return BG_OK;
}

bg_status bgi_memory_spans(const bgi_events *events, const bg_plan *plan, uint32_t replica, uint32_t device,
                           uint64_t begin_ns, bgi_memory_span **out, size_t *out_count, bg_error *error)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);
    const size_t per_edge = (size_t)events->pass_count * summary.micro_batches_per_step;
    const size_t count = per_edge * summary.edge_count;
    occupancy *occupancies = calloc(count > 0 ? count : 1, sizeof *occupancies);
    bool *touched = calloc((size_t)summary.edge_count + 1, sizeof *touched);
    span_list list = {.spans = NULL};
    bg_status status;

    if (occupancies == NULL || touched == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "memory trace", count * sizeof *occupancies));
    collect_occupancies(events, plan, &summary, replica, touched, occupancies);
    BGI_TRY_CLEANUP(add_transients(plan, device, begin_ns, &events->devices[replica * summary.device_count + device],
                                   &list, error));
    for (uint32_t edge = 0; edge < summary.edge_count; edge++) {
        const bg_plan_edge of = bg_plan_edge_at(plan, edge);
        for (size_t i = 0; i < per_edge && of.to_device == device && !of.is_ring; i++) {
            const occupancy *slot = &occupancies[edge * per_edge + i];
            if (slot->end_ns <= begin_ns)
                continue;
            BGI_TRY_CLEANUP(
                add_memory_span(&list,
                                (bgi_memory_span){.start_ns = slot->start_ns,
                                                  .end_ns = slot->end_ns,
                                                  .bytes = of.slot_bytes,
                                                  .memory_class = of.is_stash ? BG_MEMORY_STASH : BG_MEMORY_STREAM,
                                                  .edge = edge,
                                                  .action.micro_batch = (uint32_t)(i % summary.micro_batches_per_step)},
                                error));
        }
    }
    *out = list.spans;
    *out_count = list.count;
    list.spans = NULL;
    status = BG_OK;
cleanup:
    free(list.spans);
    free(occupancies);
    free(touched);
    return status;
}
