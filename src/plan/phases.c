/*
 * phases.c: computes the bytes that each phase of a plan holds on its device, by class. A phase is a pass over a stage:
 * F, R, B, W or U, with all levels of an update together.
 *
 *     F of stage 3    its weights, the slots that it reads and writes, what is live inside it
 *     U of stage 3    its weights, gradients and state
 *
 * A remote value counts in its own class (a window of weights as weights), in the phases that touch it. For memory that
 * is held all the time, a phase counts what it touches. So the largest phase is at most the device's total, and windows
 * that share memory are shown separately. This file ignores time, so a phase counts all slots of an edge.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/error.h"
#include "core/text.h"
#include "plan/compile.h"

/* ---- what a phase touches ---- */

/* The state while the memory of a phase is counted. The marks are 1 + the number of the last phase that touched the
 * value or ring. */
typedef struct counter {
    bgi_compiler *compiler;
    bgi_plan_phase *phase;
    uint32_t number;                   /* 1 + the number of the phase */
    uint32_t *leaves, *rings, *inputs; /* by value, by plan edge, by value */
} counter;

static bool is_new(const counter *k, uint32_t *marks, uint32_t index)
{
    const bool is = marks[index] != k->number;

    marks[index] = k->number;
    return is;
}

static void add_leaf(counter *k, uint32_t v)
{
    const bgi_compiler *c = k->compiler;
    const bgi_value *value = &c->graph->values[v];
    const bool has_window = c->residency->buffer_of[v] != BGI_NO_BUFFER;

    if (!is_new(k, k->leaves, v))
        return;
    if (has_window)
        k->phase->class_bytes[bgi_leaf_class(value)] += bgi_align(bgi_window_bytes(c, v));
    else if (!value->is_remote)
        k->phase->class_bytes[bgi_leaf_class(value)] += bgi_align(bgi_home_bytes(c, v));
}

static void add_ring(counter *k, uint32_t edge)
{
    const bgi_plan_edge *ring = edge == BGI_NO_EDGE ? NULL : &k->compiler->plan->edges[edge];

    if (ring == NULL || ring->is_remote || ring->to_device != k->phase->device || !is_new(k, k->rings, edge))
        return;
    k->phase->class_bytes[ring->is_stash ? BG_MEMORY_STASH : BG_MEMORY_STREAM] += ring->slot_bytes * ring->depth;
}

/* Counts the slots of an input or, if it has none, its memory for one micro-batch. */
static void add_input(counter *k, uint32_t v, uint32_t stage)
{
    const bgi_compiler *c = k->compiler;
    const bgi_operand *place = &c->placement->input_places[bgi_input_index(c, v, stage)];

    if (place->edge != BGI_NO_EDGE)
        add_ring(k, place->edge);
    else if (is_new(k, k->inputs, v))
        k->phase->class_bytes[BG_MEMORY_STREAM] += bgi_align(bg_type_size_bytes(&c->graph->values[v].type));
}

static void add_operand(counter *k, uint32_t op, bg_value value)
{
    const bgi_compiler *c = k->compiler;
    const uint32_t root = c->partition->roots[value.id].id;
    const bgi_segment *segment = &c->partition->segments[c->partition->op_segments[op]];
    const bgi_operand operand = bgi_find_operand(c, op, value);

    if (operand.edge != BGI_NO_EDGE)
        add_ring(k, operand.edge);
    else if (c->graph->values[root].kind == BGI_VALUE_VARIABLE || c->graph->values[root].kind == BGI_VALUE_CONSTANT)
        add_leaf(k, root);
    else if (c->graph->values[root].kind == BGI_VALUE_INPUT)
        add_input(k, root, segment->stage);
}

static void add_segment(counter *k, uint32_t index)
{
    const bgi_compiler *c = k->compiler;
    const bgi_segment *segment = &c->partition->segments[index];
    size_t *transient = &k->phase->class_bytes[BG_MEMORY_TRANSIENT];

    for (uint32_t p = 0; p < segment->op_count; p++) {
        const bgi_op *op = &c->graph->ops[segment->ops[p]];
        for (uint32_t i = 0; i < bgi_op_operand_count(op) && !bgi_partition_is_alias(c->partition, op); i++) {
            const bg_value value = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
            if (value.id != 0)
                add_operand(k, segment->ops[p], value);
        }
    }
    *transient = c->placement->segment_peaks[index] > *transient ? c->placement->segment_peaks[index] : *transient;
}

/* Counts the memory to which a phase copies values for later passes, in addition to the memory where its ops write. */
static void add_copies(counter *k, uint32_t segment)
{
    const bgi_compiler *c = k->compiler;

    BGI_FOR_BUCKET(c->partition->crossings_from, segment, at)
    {
        const uint32_t i = c->partition->crossings_from.items[at];
        if (c->edges->routes[i].edge != BGI_NO_EDGE)
            add_ring(k, bgi_crossing_write_slot(c, i).edge);
    }
    if (c->partition->segments[segment].kind != BGI_SEGMENT_FORWARD)
        return;
    BGI_FOR_BUCKET(c->partition->crossings_to, k->phase->stage, at)
    {
        const uint32_t i = c->partition->crossings_to.items[at];
        if (c->edges->routes[i].stash_edge != BGI_NO_EDGE &&
            c->edges->facts[c->edges->routes[i].stash_edge].stored_by == 0)
            add_ring(k, bgi_stash_write_slot(c, i).edge);
    }
}

/* ---- the list ---- */

static bool is_same_phase(const bgi_segment *a, const bgi_segment *b)
{
    return a->stage == b->stage && a->kind == b->kind;
}

bg_status bgi_list_phases(bgi_compiler *c, bg_error *error)
{
    const bgi_partition *partition = c->partition;
    const size_t values = c->graph->value_count;
    counter k = {.compiler = c,
                 .leaves = bgi_arena_allocate(&c->scratch, values, sizeof *k.leaves),
                 .rings = bgi_arena_allocate(&c->scratch, (size_t)c->plan->edge_count + 1, sizeof *k.rings),
                 .inputs = bgi_arena_allocate(&c->scratch, values, sizeof *k.inputs)};
    bgi_plan_phase *phases = bgi_arena_allocate(&c->plan->arena, partition->segment_count, sizeof *phases);

    if (k.leaves == NULL || k.rings == NULL || k.inputs == NULL || phases == NULL)
        return bgi_error_memory(error, "phases", partition->segment_count * sizeof *phases);
    for (uint32_t s = 0; s < partition->segment_count; s++) {
        const bgi_segment *segment = &partition->segments[s];
        if (s == 0 || !is_same_phase(segment, &partition->segments[s - 1])) {
            k.phase = &phases[k.number++];
            *k.phase = (bgi_plan_phase){.stage = segment->stage,
                                        .kind = bgi_action_of_segment(segment->kind),
                                        .device = bgi_stage_device(c, segment->stage)};
        }
        add_segment(&k, s);
        add_copies(&k, s);
    }
    c->plan->phases = phases;
    c->plan->phase_count = k.number;
    return BG_OK;
}

/* ---- as text ---- */

static size_t sum_classes(const bgi_plan_phase *phase)
{
    size_t sum = 0;

    for (int i = 0; i < BG_MEMORY_CLASS_COUNT; i++)
        sum += phase->class_bytes[i];
    return sum;
}

static bool is_empty(const bgi_plan_phase *phase)
{
    return sum_classes(phase) == 0;
}

/* Whether `phase` belongs to the stage after that of `last` and has the same kind, device and bytes, so that one row
 * shows both. */
static bool follows(const bgi_plan_phase *phase, const bgi_plan_phase *last)
{
    bool is_equal = phase->kind == last->kind && phase->device == last->device && phase->stage == last->stage + 1;

    for (int i = 0; i < BG_MEMORY_CLASS_COUNT; i++)
        is_equal = is_equal && phase->class_bytes[i] == last->class_bytes[i];
    return is_equal;
}

static void add_row(bgi_string *text, const bgi_plan_phase *first, const bgi_plan_phase *last)
{
    char name[48], stages[32];

    if (first->stage == last->stage)
        snprintf(stages, sizeof stages, "%" PRIu32, first->stage);
    else
        snprintf(stages, sizeof stages, "%" PRIu32 "-%" PRIu32, first->stage, last->stage);
    snprintf(name, sizeof name, "%s stage %s", bg_action_kind_name(first->kind), stages);
    bgi_string_add(text, "%-18s %6" PRIu32, name, first->device);
    for (int i = 0; i < BG_MEMORY_WINDOW; i++)
        bgi_string_add(text, " %11zu", first->class_bytes[i]);
    bgi_string_add(text, " %11zu\n", sum_classes(first));
}

bg_status bg_plan_print_phases(const bg_plan *plan, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};

    bgi_string_add(&text, "%-18s %6s", "bytes", "device");
    for (int i = 0; i < BG_MEMORY_WINDOW; i++)
        bgi_string_add(&text, " %11s", bg_memory_class_name((bg_memory_class)i));
    bgi_string_add(&text, " %11s\n", "phase");
    for (uint32_t i = 0, end; i < plan->phase_count; i = end) {
        for (end = i + 1; end < plan->phase_count && follows(&plan->phases[end], &plan->phases[end - 1]);)
            end++;
        if (!is_empty(&plan->phases[i]))
            add_row(&text, &plan->phases[i], &plan->phases[end - 1]);
    }
    return bgi_string_finish(&text, out_text, error);
}
