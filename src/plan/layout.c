/*
 * layout.c: places every value in memory.
 *
 *   a device's arena:
 *   | weights | gradients | state | windows | stash slots | stream slots, host buffers | last stash | transients |
 *
 * A value that stays inside its segment is transient: its offset follows from its lifetime in the segment. All segments
 * of a device share that memory, because they run one at a time. A value that crosses to another segment lives in the
 * slots of an edge. Its producer writes directly into a slot of a local edge or, if there is no local edge, into the
 * window of the first receiver's edge. The value is copied to further edges. An output without a local slot is a
 * transient, so that the host may read it after the message has left; it is copied into windows. Sizes are multiples of
 * 64 bytes.
 */
#include "plan/compile.h"

#include <stdlib.h>

#include "core/error.h"
#include "plan/pack.h"
#include "plan/reuse.h"

/* ---- variables and constants ---- */

bg_memory_class bgi_leaf_class(const bgi_value *value)
{
    if (value->kind == BGI_VALUE_CONSTANT)
        return BG_MEMORY_WEIGHTS;
    switch (value->role) {
    case BG_ROLE_ACCUMULATOR:
        return BG_MEMORY_GRADIENTS;
    case BG_ROLE_STATE:
    case BG_ROLE_TRAINING:
        return BG_MEMORY_STATE;
    default:
        return BG_MEMORY_WEIGHTS;
    }
}

/* Returns the class of memory that holds a leaf between its uses. */
static bg_memory_class class_of(const bgi_compiler *c, size_t v)
{
    const bgi_value *value = &c->graph->values[v];
    const bg_memory_class leaf_class = bgi_leaf_class(value);

    if (value->kind == BGI_VALUE_CONSTANT)
        return leaf_class;
    if (c->residency->buffer_of[v] != BGI_NO_BUFFER)
        return BG_MEMORY_REMOTE;
    return value->is_remote && (leaf_class == BG_MEMORY_STATE || value->role == BG_ROLE_BUFFER) ? BG_MEMORY_REMOTE
                                                                                                : leaf_class;
}

bg_location_class bgi_leaf_location(const bgi_value *value)
{
    switch (bgi_leaf_class(value)) {
    case BG_MEMORY_GRADIENTS:
        return BG_LOCATION_ACCUMULATORS;
    case BG_MEMORY_STATE:
        return BG_LOCATION_STATE;
    default:
        return BG_LOCATION_WEIGHTS;
    }
}

size_t bgi_input_index(const bgi_compiler *c, uint32_t value, uint32_t stage)
{
    return (size_t)c->placement->input_numbers[value] * c->stages->stage_count + stage;
}

static bool is_leaf(const bgi_value *value)
{
    return value->kind == BGI_VALUE_VARIABLE || value->kind == BGI_VALUE_CONSTANT;
}

static int compare_places(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Lists the devices that need a leaf, as value and device in one number. A written variable is needed only on its home
 * device, other leaves wherever they are read. Also lists the stages that read inputs. Returns the number of entries,
 * which may repeat. */
static size_t collect_places(bgi_compiler *c, uint64_t *places)
{
    size_t count = 0;

    for (size_t o = 0; o < c->graph->op_count; o++) {
        const bgi_op *op = &c->graph->ops[o];
        for (uint32_t i = 0; i < op->input_count; i++) {
            const uint32_t root = c->partition->roots[op->inputs[i].id].id;
            const bgi_value *value = &c->graph->values[root];
            uint32_t stage = c->partition->op_stages[o];
            if (value->kind == BGI_VALUE_INPUT)
                c->placement->input_is_used[bgi_input_index(c, root, stage)] = true;
            if (!is_leaf(value))
                continue;
            if (value->kind == BGI_VALUE_VARIABLE && c->residency->writer_stage[root] != UINT32_MAX)
                stage = c->residency->writer_stage[root];
            places[count++] = (uint64_t)root << 32 | bgi_stage_device(c, stage);
        }
    }
    return count;
}

static bg_status list_places(bgi_compiler *c, bg_error *error)
{
    bgi_placement *p = c->placement;
    size_t most = 0, count, different = 0;
    uint64_t *places;

    for (size_t o = 0; o < c->graph->op_count; o++)
        most += c->graph->ops[o].input_count;
    places = malloc((most + 1) * sizeof *places);
    if (places == NULL)
        return bgi_error_memory(error, "the layout", most * sizeof *places);
    count = collect_places(c, places);
    if (count > 0)
        qsort(places, count, sizeof *places, compare_places);
    for (size_t i = 0; i < count; i++)
        if (different == 0 || places[i] != places[different - 1])
            places[different++] = places[i];
    p->places = bgi_arena_allocate(&c->scratch, different, sizeof *p->places);
    for (size_t i = 0; p->places != NULL && i < different; i++) {
        p->places[i].device = (uint32_t)places[i];
        p->first_places[(places[i] >> 32) + 1] = (uint32_t)i + 1;
    }
    free(places);
    if (p->places == NULL)
        return bgi_error_memory(error, "the layout", different * sizeof *p->places);
    for (size_t v = 1; v <= c->graph->value_count; v++) /* of a value without a place, the range is empty */
        if (p->first_places[v] == 0)
            p->first_places[v] = p->first_places[v - 1];
    return BG_OK;
}

static bgi_place *find_place(const bgi_compiler *c, uint32_t value, uint32_t device)
{
    uint32_t low = c->placement->first_places[value], high = c->placement->first_places[value + 1];

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->placement->places[middle].device == device)
            return &c->placement->places[middle];
        if (c->placement->places[middle].device < device)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bgi_operand bgi_leaf_place(const bgi_compiler *c, uint32_t value, uint32_t device)
{
    const bgi_place *place = find_place(c, value, device);

    return place != NULL ? place->operand : (bgi_operand){.offset = 0};
}

static void place_leaf(bgi_compiler *c, uint32_t v, bg_memory_class memory_class, bgi_place *place, size_t *offsets)
{
    const bgi_value *value = &c->graph->values[v];
    const size_t size = bgi_align(bgi_home_bytes(c, v));
    const uint32_t d = place->device;

    if (value->shares_home) { /* the variable of which this one is a copy has a lower number */
        place->operand = bgi_leaf_place(c, value->copy_of.id, d);
        return;
    }
    place->operand = (bgi_operand){.memory = memory_class == BG_MEMORY_REMOTE ? BGI_MEMORY_REMOTE : BGI_MEMORY_ARENA,
                                   .edge = BGI_NO_EDGE,
                                   .offset = offsets[d]};
    offsets[d] += size;
    c->plan->devices[d].class_bytes[memory_class] += size;
    if (memory_class == BG_MEMORY_REMOTE)
        c->plan->devices[d].remote_class_bytes[bgi_leaf_location(value)] += size;
}

/* Gives all leaves of one class their offsets on each of their devices. */
static void place_class(bgi_compiler *c, bg_memory_class memory_class, size_t *offsets)
{
    for (uint32_t v = 0; v < c->graph->value_count; v++)
        if (is_leaf(&c->graph->values[v]) && class_of(c, v) == memory_class)
            for (uint32_t i = c->placement->first_places[v]; i < c->placement->first_places[v + 1]; i++)
                place_leaf(c, v, memory_class, &c->placement->places[i], offsets);
}

/* ---- slots ---- */

static void place_edge(bgi_compiler *c, uint32_t e, size_t *offsets)
{
    bgi_plan_edge *edge = &c->plan->edges[e];
    const bg_memory_class memory_class = edge->is_stash ? BG_MEMORY_STASH : BG_MEMORY_STREAM;

    edge->depth = bg_schedule_edge_depth(c->plan->schedule, e);
    edge->offset = offsets[edge->to_device];
    offsets[edge->to_device] += edge->slot_bytes * edge->depth;
    c->plan->devices[edge->to_device].class_bytes[memory_class] += edge->slot_bytes * edge->depth;
}

static void place_edges(bgi_compiler *c, bool stash, size_t *offsets)
{
    for (uint32_t e = 0; e < c->edges->count; e++) {
        const bgi_plan_edge *edge = &c->plan->edges[e];
        if (edge->is_stash == stash && !c->edges->facts[e].is_remote && !bgi_is_of_repeats(c, e) &&
            c->placement->tail_edges[edge->to_device] != e)
            place_edge(c, e, offsets);
    }
}

static void place_tail_edges(bgi_compiler *c, size_t *offsets)
{
    for (uint32_t d = 0; d < c->stages->device_count; d++)
        if (c->placement->tail_edges[d] != BGI_NO_EDGE)
            place_edge(c, c->placement->tail_edges[d], offsets);
}

/* Returns the crossing to whose slot the producer of a value writes: a local one if there is one, otherwise the first;
 * UINT32_MAX if there is none. */
static uint32_t find_written_crossing(const bgi_compiler *c, bg_value root, uint32_t stage)
{
    uint32_t first = UINT32_MAX, next;

    for (uint32_t i = c->partition->first_crossings[root.id]; i != 0; i = next) {
        const bgi_crossing *crossing = &c->partition->crossings[i - 1];
        next = crossing->next;
        if (c->edges->routes[i - 1].edge == BGI_NO_EDGE ||
            c->partition->segments[crossing->from_segment].stage != stage)
            continue;
        if (bgi_stage_device(c, crossing->to_stage) == bgi_stage_device(c, stage))
            return i - 1;
        if (first == UINT32_MAX)
            first = i - 1;
    }
    return first;
}

static void place_results(bgi_compiler *c)
{
    for (uint32_t v = 1; v < c->graph->value_count; v++) {
        const bgi_value *value = &c->graph->values[v];
        uint32_t crossing;
        if (value->kind != BGI_VALUE_RESULT || c->partition->roots[v].id != v)
            continue;
        crossing = find_written_crossing(c, (bg_value){v}, c->partition->op_stages[value->op]);
        if (crossing != UINT32_MAX)
            c->placement->storage[v] = bgi_crossing_write_slot(c, crossing);
        if (crossing == UINT32_MAX ||
            (c->placement->storage[v].memory == BGI_MEMORY_WINDOW && bgi_is_plan_output(c, v)))
            c->placement->is_transient[v] = true;
    }
}

/* Places inputs in the slot of the stage's own stash when the backward pass reads them, otherwise in a buffer for one
 * micro-batch. The caller places the buffers first, then the device's last stash, then the inputs in slots
 * (`in_slots`). */
static void place_inputs(bgi_compiler *c, bool in_slots, size_t *offsets)
{
    const uint32_t stages = c->stages->stage_count;

    for (uint32_t n = 0; n < c->placement->input_count; n++)
        for (uint32_t s = 0; s < stages; s++) {
            const uint32_t v = c->placement->inputs[n], device = bgi_stage_device(c, s);
            const size_t size = bgi_align(bg_type_size_bytes(&c->graph->values[v].type));
            bgi_operand *place = &c->placement->input_places[(size_t)n * stages + s];
            uint32_t crossing;
            if (!c->placement->input_is_used[(size_t)n * stages + s])
                continue;
            crossing = find_written_crossing(c, (bg_value){v}, s);
            if (crossing != UINT32_MAX && in_slots)
                *place = bgi_crossing_write_slot(c, crossing);
            if (crossing != UINT32_MAX || in_slots)
                continue;
            *place = (bgi_operand){.edge = BGI_NO_EDGE, .offset = offsets[device]};
            offsets[device] += size;
            c->plan->devices[device].class_bytes[BG_MEMORY_STREAM] += size;
        }
}

/* ---- transients ---- */

typedef struct bgi_packer {
    bgi_unit *units;
    bgi_span *spans; /* by unit: from the op that makes the unit to its last reader */
    uint32_t unit_count;
    uint32_t *unit_of; /* by value */
} bgi_packer;

/* Returns the unit of an input whose bytes the op's result may reuse, because this op is its last reader; UINT32_MAX if
 * there is none. */
static uint32_t reusable_unit(const bgi_compiler *c, const bgi_packer *packer, const bgi_op *op, uint32_t position,
                              const uint32_t *last_use)
{
    bg_value root;

    if (op->type->reuse_input == BG_NO_OPERAND || op->type->reuse_input >= op->input_count)
        return UINT32_MAX;
    root = c->partition->roots[op->inputs[op->type->reuse_input].id];
    if (!c->placement->is_transient[root.id] || packer->unit_of[root.id] == UINT32_MAX ||
        last_use[root.id] != position ||
        bgi_stored_bytes(c->plan, bgi_graph_value(c->graph, root)) !=
            bgi_stored_bytes(c->plan, bgi_graph_value(c->graph, op->outputs[0])))
        return UINT32_MAX;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (i != op->type->reuse_input && c->partition->roots[op->inputs[i].id].id == root.id)
            return UINT32_MAX;
    return packer->unit_of[root.id];
}

static void add_unit(bgi_packer *packer, size_t size, uint32_t first, uint32_t last)
{
    packer->spans[packer->unit_count] = (bgi_span){first, last};
    packer->units[packer->unit_count] =
        (bgi_unit){.size = bgi_align(size), .spans = &packer->spans[packer->unit_count], .span_count = 1};
    packer->unit_count++;
}

/* Collects the lifetimes of the transients of one segment. */
static void collect_units(bgi_compiler *c, uint32_t index, bgi_packer *packer, const bgi_life_times *times)
{
    const bgi_segment *segment = &c->partition->segments[index];

    for (uint32_t p = 0; p < segment->op_count; p++) {
        const bgi_op *op = &c->graph->ops[segment->ops[p]];
        for (uint32_t i = 0; i < bgi_op_operand_count(op); i++) {
            const uint32_t value = (i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count]).id;
            times->last_use[c->partition->roots[value].id] = p;
            times->used_in[c->partition->roots[value].id] = index + 1;
            if (i >= op->input_count)
                times->made_at[value] = p;
        }
    }
    for (uint32_t i = 0; i < c->plan->output_count; i++) /* the host reads the value after the segment */
        times->last_use[c->partition->roots[c->output_values[i].id].id] = segment->op_count;
    for (uint32_t p = 0; p < segment->op_count; p++) {
        const bgi_op *op = &c->graph->ops[segment->ops[p]];
        if (bgi_partition_is_alias(c->partition, op))
            continue;
        for (uint32_t i = 0; i < op->output_count; i++) {
            const uint32_t v = op->outputs[i].id;
            uint32_t reused;
            if (v == 0 || !c->placement->is_transient[v])
                continue;
            reused = i == 0 ? reusable_unit(c, packer, op, p, times->last_use) : UINT32_MAX;
            if (reused != UINT32_MAX) {
                packer->unit_of[v] = reused;
                packer->spans[reused].last = times->last_use[v];
                continue;
            }
            packer->unit_of[v] = packer->unit_count;
            add_unit(packer, bgi_stored_bytes(c->plan, &c->graph->values[v]), p, times->last_use[v]);
        }
    }
}

/* Units below 1 / LEAST_SHARE of a segment's transients stay among the transients, which are likely to be in a cache.
 */
enum { LEAST_SHARE = 32 };

/* Places units in slots, if `least_bytes` is not 0, and the others in the memory of transients. */
static bool place_units(bgi_compiler *c, uint32_t index, bgi_packer *packer, const bgi_life_times *times,
                        uint32_t value_units, size_t base, size_t least_bytes, bgi_operand *places)
{
    const uint32_t count = packer->unit_count;
    size_t *peak = &c->placement->segment_peaks[index];

    if (least_bytes > 0)
        return bgi_reuse_slots(c, index, times, packer->units, value_units, count, least_bytes, base, places, peak);
    if (!bgi_pack(packer->units, count, peak))
        return false;
    for (uint32_t i = 0; i < count; i++)
        places[i] = (bgi_operand){.edge = BGI_NO_EDGE, .offset = base + packer->units[i].offset};
    return true;
}

/* Places the transients of one segment. `unit_of`: by value; entries of values that the segment makes are changed and
 * then restored. */
static bg_status lay_out_segment(bgi_compiler *c, uint32_t index, size_t base, size_t least_bytes,
                                 const bgi_life_times *times, uint32_t *unit_of, bg_error *error)
{
    const bgi_segment *segment = &c->partition->segments[index];
    bgi_arena arena = {0};
    bgi_packer packer = {.unit_of = unit_of};
    bgi_operand *places;
    uint32_t most = 0, scratch;

    for (uint32_t p = 0; p < segment->op_count; p++)
        most += c->graph->ops[segment->ops[p]].output_count + 1;
    packer.units = bgi_arena_allocate(&arena, most, sizeof *packer.units);
    packer.spans = bgi_arena_allocate(&arena, most, sizeof *packer.spans);
    places = bgi_arena_allocate(&arena, most, sizeof *places);
    if (packer.units == NULL || packer.spans == NULL || places == NULL) {
        bgi_arena_clear(&arena);
        return bgi_error_memory(error, "life times", most * sizeof *packer.units);
    }
    collect_units(c, index, &packer, times);
    scratch = packer.unit_count;
    for (uint32_t p = 0; p < segment->op_count; p++)
        if (c->kernels[segment->ops[p]].scratch_bytes > 0)
            add_unit(&packer, c->kernels[segment->ops[p]].scratch_bytes, p, p);
    if (!place_units(c, index, &packer, times, scratch, base, least_bytes, places)) {
        bgi_arena_clear(&arena);
        return bgi_error_memory(error, "life times", most * sizeof *packer.units);
    }
    for (uint32_t p = 0; p < segment->op_count; p++)
        for (uint32_t i = 0; i < c->graph->ops[segment->ops[p]].output_count; i++) {
            const uint32_t v = c->graph->ops[segment->ops[p]].outputs[i].id;
            if (unit_of[v] == UINT32_MAX)
                continue;
            c->placement->storage[v] = places[unit_of[v]];
            unit_of[v] = UINT32_MAX;
        }
    for (uint32_t p = 0; p < segment->op_count; p++)
        if (c->kernels[segment->ops[p]].scratch_bytes > 0)
            c->placement->scratch_offsets[segment->ops[p]] = places[scratch++].offset;
    bgi_arena_clear(&arena);
    return BG_OK;
}

/* The search for slots is not worthwhile when transients are below 1 / this number of the device's other memory. */
enum { WORTHWHILE_SHARE = 32 };

/* Moves transients of a device's segments to slots where this reduces the device's memory. `before`: by segment, the
 * bytes of its transients without slots. */
static bg_status reuse_slots(bgi_compiler *c, uint32_t device, size_t base, const size_t *before,
                             const bgi_life_times *times, uint32_t *unit_of, bg_error *error)
{
    const bgi_partition *partition = c->partition;
    size_t *peaks = c->placement->segment_peaks, most = 0;

    for (uint32_t s = 0; s < partition->segment_count; s++) {
        if (bgi_stage_device(c, partition->segments[s].stage) != device)
            continue;
        if (before[s] > base / WORTHWHILE_SHARE && partition->segments[s].kind != BGI_SEGMENT_UPDATE)
            BGI_TRY(lay_out_segment(c, s, base, before[s] / LEAST_SHARE + 1, times, unit_of, error));
        most = peaks[s] > most ? peaks[s] : most;
    }
    for (uint32_t s = 0; s < partition->segment_count; s++)
        if (bgi_stage_device(c, partition->segments[s].stage) == device && peaks[s] != before[s] && before[s] <= most)
            BGI_TRY(lay_out_segment(c, s, base, 0, times, unit_of, error));
    return BG_OK;
}

static bg_status lay_out_transients(bgi_compiler *c, const size_t *offsets, bg_error *error)
{
    const size_t values = c->graph->value_count;
    const bgi_life_times times = {.made_at = bgi_arena_allocate(&c->scratch, values, sizeof(uint32_t)),
                                  .last_use = bgi_arena_allocate(&c->scratch, values, sizeof(uint32_t)),
                                  .used_in = bgi_arena_allocate(&c->scratch, values, sizeof(uint32_t))};
    uint32_t *unit_of = bgi_arena_allocate(&c->scratch, values, sizeof *unit_of);
    size_t *before = bgi_arena_allocate(&c->scratch, c->partition->segment_count, sizeof *before);

    if (times.made_at == NULL || times.last_use == NULL || times.used_in == NULL || unit_of == NULL || before == NULL)
        return bgi_error_memory(error, "life times", 4 * values * sizeof *unit_of);
    for (size_t v = 0; v < values; v++)
        unit_of[v] = UINT32_MAX;
    for (uint32_t s = 0; s < c->partition->segment_count; s++) {
        const uint32_t device = bgi_stage_device(c, c->partition->segments[s].stage);
        BGI_TRY(lay_out_segment(c, s, offsets[device], 0, &times, unit_of, error));
        before[s] = c->placement->segment_peaks[s];
    }
    for (uint32_t d = 0; d < c->stages->device_count; d++)
        BGI_TRY(reuse_slots(c, d, offsets[d], before, &times, unit_of, error));
    for (uint32_t s = 0; s < c->partition->segment_count; s++) {
        const uint32_t device = bgi_stage_device(c, c->partition->segments[s].stage);
        size_t *transient = &c->plan->devices[device].class_bytes[BG_MEMORY_TRANSIENT];
        if (c->placement->segment_peaks[s] > *transient)
            *transient = c->placement->segment_peaks[s];
    }
    return BG_OK;
}

static bool number_inputs(bgi_compiler *c)
{
    bgi_placement *p = c->placement;

    for (uint32_t v = 1; v < c->graph->value_count; v++)
        p->input_count += c->graph->values[v].kind == BGI_VALUE_INPUT;
    p->inputs = bgi_arena_allocate(&c->scratch, p->input_count, sizeof *p->inputs);
    p->input_numbers = bgi_arena_allocate(&c->scratch, c->graph->value_count, sizeof *p->input_numbers);
    if (p->inputs == NULL || p->input_numbers == NULL)
        return false;
    for (uint32_t v = 1, n = 0; v < c->graph->value_count; v++)
        if (c->graph->values[v].kind == BGI_VALUE_INPUT) {
            p->inputs[n] = v;
            p->input_numbers[v] = n++;
        }
    return true;
}

static bg_status allocate_placement(bgi_compiler *c, bg_error *error)
{
    const size_t values = c->graph->value_count, devices = c->stages->device_count, stages = c->stages->stage_count;
    bgi_placement *p = bgi_arena_allocate(&c->scratch, 1, sizeof *p);

    c->placement = p;
    if (p == NULL || !number_inputs(c))
        return bgi_error_memory(error, "the layout", values * sizeof *p->input_numbers);
    p->storage = bgi_arena_allocate(&c->scratch, values, sizeof *p->storage);
    p->is_transient = bgi_arena_allocate(&c->scratch, values, sizeof *p->is_transient);
    p->windows = bgi_arena_allocate(&c->scratch, values, sizeof *p->windows);
    p->first_places = bgi_arena_allocate(&c->scratch, values + 1, sizeof *p->first_places);
    p->input_places = bgi_arena_allocate(&c->scratch, p->input_count * stages, sizeof *p->input_places);
    p->input_is_used = bgi_arena_allocate(&c->scratch, p->input_count * stages, sizeof *p->input_is_used);
    p->tail_edges = bgi_arena_allocate(&c->scratch, devices, sizeof *p->tail_edges);
    p->segment_peaks = bgi_arena_allocate(&c->scratch, c->partition->segment_count, sizeof *p->segment_peaks);
    p->scratch_offsets = bgi_arena_allocate(&c->scratch, c->graph->op_count, sizeof *p->scratch_offsets);
    c->plan->devices = bgi_arena_allocate(&c->plan->arena, devices, sizeof *c->plan->devices);
    if (p->storage == NULL || p->is_transient == NULL || p->windows == NULL || p->first_places == NULL ||
        p->input_places == NULL || p->input_is_used == NULL || p->tail_edges == NULL || p->segment_peaks == NULL ||
        p->scratch_offsets == NULL || c->plan->devices == NULL)
        return bgi_error_memory(error, "the layout", values * sizeof *p->storage);
    return list_places(c, error);
}

bg_status bgi_lay_out(bgi_compiler *c, bg_error *error)
{
    const uint32_t devices = c->stages->device_count;
    size_t *offsets, *remote_offsets;

    BGI_TRY(allocate_placement(c, error));
    offsets = bgi_arena_allocate(&c->scratch, devices, sizeof *offsets);
    remote_offsets = bgi_arena_allocate(&c->scratch, devices, sizeof *remote_offsets);
    if (offsets == NULL || remote_offsets == NULL)
        return bgi_error_memory(error, "the layout", devices * sizeof *offsets);
    place_class(c, BG_MEMORY_WEIGHTS, offsets);
    place_class(c, BG_MEMORY_GRADIENTS, offsets);
    place_class(c, BG_MEMORY_STATE, offsets);
    place_class(c, BG_MEMORY_REMOTE, remote_offsets);
    BGI_TRY(bgi_lay_out_remote(c, offsets, remote_offsets, error));
    if (!bgi_choose_tail_edges(c))
        return bgi_error_memory(error, "the layout", c->graph->value_count * sizeof(uint32_t));
    place_edges(c, true, offsets);
    BGI_TRY(bgi_lay_out_repeats(c, offsets, error));
    place_edges(c, false, offsets);
    place_inputs(c, false, offsets);
    place_tail_edges(c, offsets);
    place_results(c);
    place_inputs(c, true, offsets);
    BGI_TRY(lay_out_transients(c, offsets, error));
    for (uint32_t d = 0; d < devices; d++) {
        c->plan->devices[d].arena_bytes = offsets[d] + c->plan->devices[d].class_bytes[BG_MEMORY_TRANSIENT];
        c->plan->devices[d].remote_bytes = remote_offsets[d];
    }
    return BG_OK;
}
