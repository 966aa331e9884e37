/*
 * greedy.c: makes orders by list scheduling. It simulates the devices. Whenever a device is free, it chooses the most
 * urgent action by the rule, among those whose inputs exist. Rules reproduce the pipelines of the literature:
 *
 *     B F W, N - k in flight         1F1B; W fills the gaps, as in the zero-bubble schedules (Qi et al., 2023)
 *     F B W, all in flight           all forwards, then all backwards (GPipe)
 *     alternating, 2 (N - k) - 1     grouped's order
 *
 * The search never waits for an action whose time is unknown, and a device takes only actions that can begin. So the
 * lowest unfinished micro-batch can always continue with caps of at least 1, and no deadlock occurs. The caps limit the
 * micro-batches stashed for the backward pass; search.c counts their bytes.
 */
#include "schedule/automatic.h"

#include "core/error.h"

#include <math.h>
#include <string.h>

enum { KIND_COUNT = 4 }; /* F, R, B, W */

typedef struct choice {
    uint32_t row; /* UINT32_MAX: no action can begin */
    double start;
} choice;

typedef struct device_state {
    double time;
    choice next;
    bool is_stale;            /* `next` must be found again */
    bg_action_kind last_kind; /* the kind of the device's last action */
    uint32_t locked_row;      /* the row with which the device must continue; UINT32_MAX: any */
    uint32_t count;           /* actions emitted */
} device_state;

struct bgi_greedy {
    bgi_search *search;
    const bgi_greedy_rule *rule;
    const uint32_t *caps;
    uint32_t *row_begins; /* by device, with one more entry for the end: the beginning of its F, R, B and W rows in
                             device_rows */
    uint32_t *device_rows;
    uint32_t *input_counts; /* by row: the number of inputs of an instance */
    uint32_t *next;         /* by row: its next micro-batch */
    uint32_t *missing;      /* by instance: the number of inputs whose producers have not begun */
    double *arrivals;       /* by instance: when its inputs have arrived */
    device_state *devices;
    uint32_t *stale; /* devices whose `next` must be found again */
    uint32_t stale_count;
    /* A tournament tree: the leaves, from node `width` on, are the devices, and node i is the device of nodes 2 i and 2
     * i + 1 that begins first. */
    uint32_t *first;
    uint32_t width; /* the number of leaves, a power of two */
};

bg_status bgi_greedy_init(bgi_search *search, bgi_greedy **out, bg_error *error)
{
    const bgi_schedule_layout *layout = &search->layout;
    const uint32_t devices = search->problem->device_count, stages = search->problem->stage_count;
    static const bg_action_kind kinds[KIND_COUNT] = {BG_ACTION_FORWARD, BG_ACTION_RECOMPUTE, BG_ACTION_BACKWARD,
                                                     BG_ACTION_WEIGHTS};
    bgi_greedy *greedy = bgi_arena_allocate(&search->arena, 1, sizeof *greedy);
    uint32_t at = 0;

    if (greedy == NULL)
        return bgi_error_memory(error, "searching a schedule", sizeof *greedy);
    greedy->search = search;
    greedy->row_begins = bgi_arena_allocate(&search->arena, (size_t)devices + 1, sizeof *greedy->row_begins);
    greedy->device_rows = bgi_arena_allocate(&search->arena, KIND_COUNT * (size_t)stages, sizeof *greedy->device_rows);
    greedy->input_counts = bgi_arena_allocate(&search->arena, layout->row_count, sizeof *greedy->input_counts);
    greedy->next = bgi_arena_allocate(&search->arena, layout->row_count, sizeof *greedy->next);
    greedy->missing = bgi_arena_allocate(&search->arena, layout->instance_count, sizeof *greedy->missing);
    greedy->arrivals = bgi_arena_allocate(&search->arena, layout->instance_count, sizeof *greedy->arrivals);
    greedy->devices = bgi_arena_allocate(&search->arena, devices, sizeof *greedy->devices);
    greedy->stale = bgi_arena_allocate(&search->arena, devices, sizeof *greedy->stale);
    for (greedy->width = 1; greedy->width < devices;)
        greedy->width *= 2;
    greedy->first = bgi_arena_allocate(&search->arena, 2 * (size_t)greedy->width, sizeof *greedy->first);
    if (greedy->stale == NULL || greedy->first == NULL || greedy->row_begins == NULL || greedy->device_rows == NULL ||
        greedy->input_counts == NULL || greedy->next == NULL || greedy->missing == NULL || greedy->arrivals == NULL ||
        greedy->devices == NULL)
        return bgi_error_memory(error, "searching a schedule", layout->instance_count * sizeof *greedy->arrivals);
    for (uint32_t row = 0; row < layout->row_count; row++)
        greedy->input_counts[row] = layout->to.begin[row + 1] - layout->to.begin[row];
    /* A counting sort of the stages' rows by device. */
    for (uint32_t stage = 0; stage < stages; stage++)
        greedy->row_begins[search->problem->stage_devices[stage] + 1] += KIND_COUNT;
    for (uint32_t device = 0; device < devices; device++)
        greedy->row_begins[device + 1] += greedy->row_begins[device];
    for (uint32_t stage = 0; stage < stages; stage++)
        for (uint32_t kind = 0; kind < KIND_COUNT; kind++) {
            device_state *device = &greedy->devices[search->problem->stage_devices[stage]];
            at = greedy->row_begins[search->problem->stage_devices[stage]] + device->count++;
            greedy->device_rows[at] = bgi_schedule_layout_row(layout, kinds[kind], stage, 0);
        }
    *out = greedy;
    return BG_OK;
}

/* ---- possible actions of a device, and its choice ---- */

/* Returns the row whose instances end a micro-batch on a stage. */
static uint32_t closing_row(const bgi_greedy *greedy, uint32_t stage)
{
    const bgi_schedule_layout *layout = &greedy->search->layout;
    const uint32_t weights = bgi_schedule_layout_row(layout, BG_ACTION_WEIGHTS, stage, 0);

    return layout->rows[weights].count > 0 ? weights : bgi_schedule_layout_row(layout, BG_ACTION_BACKWARD, stage, 0);
}

/* Whether the next instance of a row may begin as soon as its inputs arrive. */
static bool is_allowed(const bgi_greedy *greedy, uint32_t row)
{
    const bgi_schedule_layout *layout = &greedy->search->layout;
    const bgi_schedule_row *info = &layout->rows[row];
    const uint32_t micro_batch = greedy->next[row];

    if (micro_batch >= info->count || greedy->missing[info->first + micro_batch] > 0)
        return false;
    if (info->kind == BG_ACTION_FORWARD) {
        const uint32_t closing = closing_row(greedy, info->stage);
        return layout->rows[closing].count == 0 || micro_batch - greedy->next[closing] < greedy->caps[info->stage];
    }
    /* The results of R are kept until B, so only one micro-batch of a stage may have them at a time. */
    if (info->kind == BG_ACTION_RECOMPUTE && micro_batch > greedy->next[bgi_search_next_row(greedy->search, row)])
        return false;
    return greedy->next[bgi_search_previous_row(greedy->search, row)] > micro_batch;
}

/* Whether the B that follows the next R of `row` has other inputs whose producers have not begun. */
static bool is_backward_waiting(const bgi_greedy *greedy, uint32_t row)
{
    const bgi_schedule_layout *layout = &greedy->search->layout;
    const uint32_t backward = bgi_search_next_row(greedy->search, row);
    const uint32_t micro_batch = greedy->next[row];
    uint32_t own = 0;

    for (uint32_t i = layout->to.begin[backward]; i < layout->to.begin[backward + 1]; i++)
        own += layout->edges[layout->to.edges[i]].from == row;
    return greedy->missing[layout->rows[backward].first + micro_batch] > own;
}

/* Returns the rank of a row's next instance. An R is as urgent as its B if the B waits only for this R; before that,
 * the R fills pauses. */
static uint32_t find_rank(const bgi_greedy *greedy, const device_state *device, uint32_t row)
{
    bg_action_kind kind = greedy->search->layout.rows[row].kind;

    if (kind == BG_ACTION_RECOMPUTE) {
        if (is_backward_waiting(greedy, row))
            return UINT32_MAX;
        kind = BG_ACTION_BACKWARD;
    }
    if (greedy->rule->alternates && kind == device->last_kind && kind != BG_ACTION_WEIGHTS)
        return greedy->rule->ranks[BG_ACTION_WEIGHTS];
    return greedy->rule->ranks[kind];
}

/* Whether row a is more urgent than row b. */
static bool is_before(const bgi_greedy *greedy, const device_state *device, uint32_t a, uint32_t b)
{
    const bgi_search *search = greedy->search;
    const bgi_schedule_row *first = &search->layout.rows[a], *second = &search->layout.rows[b];
    const uint32_t rank = find_rank(greedy, device, a), other = find_rank(greedy, device, b);

    if (rank != other)
        return rank < other;
    if (greedy->rule->tie == BGI_TIE_LONGEST) {
        const double rest = search->tails[a] + (first->count - greedy->next[a]) * search->period_ns;
        const double other_rest = search->tails[b] + (second->count - greedy->next[b]) * search->period_ns;
        if (rest != other_rest)
            return rest > other_rest;
    }
    if (greedy->next[a] != greedy->next[b])
        return greedy->next[a] < greedy->next[b];
    return first->kind == BG_ACTION_FORWARD ? first->stage > second->stage : first->stage < second->stage;
}

static double find_start(const bgi_greedy *greedy, const device_state *device, uint32_t row)
{
    return fmax(device->time, greedy->arrivals[greedy->search->layout.rows[row].first + greedy->next[row]]);
}

static choice choose(const bgi_greedy *greedy, uint32_t index)
{
    const device_state *device = &greedy->devices[index];
    const uint32_t *rows = &greedy->device_rows[greedy->row_begins[index]];
    const uint32_t count = greedy->row_begins[index + 1] - greedy->row_begins[index];
    choice best = {.row = UINT32_MAX, .start = INFINITY};
    double limit;

    if (device->locked_row != UINT32_MAX)
        return (choice){.row = device->locked_row, .start = find_start(greedy, device, device->locked_row)};
    for (uint32_t i = 0; i < count; i++) {
        double start;
        if (!is_allowed(greedy, rows[i]))
            continue;
        start = find_start(greedy, device, rows[i]);
        if (start < best.start || (start == best.start && is_before(greedy, device, rows[i], best.row)))
            best = (choice){.row = rows[i], .start = start};
    }
    if (best.row == UINT32_MAX || greedy->rule->patience <= 0)
        return best;
    limit = best.start + greedy->rule->patience * greedy->search->costs[best.row];
    for (uint32_t i = 0; i < count; i++) {
        double start;
        if (rows[i] == best.row || !is_allowed(greedy, rows[i]))
            continue;
        start = find_start(greedy, device, rows[i]);
        if (start < limit && is_before(greedy, device, rows[i], best.row))
            best = (choice){.row = rows[i], .start = start};
    }
    return best;
}

static void make_stale(bgi_greedy *greedy, uint32_t index)
{
    if (!greedy->devices[index].is_stale)
        greedy->stale[greedy->stale_count++] = index;
    greedy->devices[index].is_stale = true;
}

static void begin_action(bgi_greedy *greedy, uint32_t index, uint32_t *order)
{
    bgi_search *search = greedy->search;
    const bgi_schedule_layout *layout = &search->layout;
    device_state *device = &greedy->devices[index];
    const uint32_t row = device->next.row, micro_batch = greedy->next[row]++;
    const bgi_schedule_row *info = &layout->rows[row];

    order[search->begins[index] + device->count++] = info->first + micro_batch;
    device->time = device->next.start + search->costs[row];
    if (info->kind == BG_ACTION_FORWARD || info->kind == BG_ACTION_BACKWARD)
        device->last_kind = info->kind;
    make_stale(greedy, index);
    for (uint32_t i = layout->from.begin[row]; i < layout->from.begin[row + 1]; i++) {
        const uint32_t edge = layout->from.edges[i], to = layout->edges[edge].to;
        const uint32_t instance = layout->rows[to].first + micro_batch;
        greedy->missing[instance]--;
        greedy->arrivals[instance] = fmax(greedy->arrivals[instance], device->time + search->delays[edge]);
        make_stale(greedy, layout->rows[to].device);
    }
    device->locked_row = bgi_search_is_bound(search, row) ? bgi_search_next_row(search, row) : UINT32_MAX;
}

/* ---- a run ---- */

static void reset(bgi_greedy *greedy)
{
    const bgi_schedule_layout *layout = &greedy->search->layout;

    memset(greedy->next, 0, layout->row_count * sizeof *greedy->next);
    for (uint32_t row = 0; row < layout->row_count; row++)
        for (uint32_t i = 0; i < layout->rows[row].count; i++) {
            greedy->missing[layout->rows[row].first + i] = greedy->input_counts[row];
            greedy->arrivals[layout->rows[row].first + i] = 0.0;
        }
    greedy->stale_count = 0;
    for (uint32_t i = 0; i < 2 * greedy->width; i++)
        greedy->first[i] = UINT32_MAX;
    for (uint32_t device = 0; device < greedy->search->problem->device_count; device++) {
        greedy->devices[device] = (device_state){.last_kind = BG_ACTION_BACKWARD, .locked_row = UINT32_MAX};
        make_stale(greedy, device);
    }
}

static uint32_t begins_first(const bgi_greedy *greedy, uint32_t a, uint32_t b)
{
    if (a == UINT32_MAX || b == UINT32_MAX)
        return a == UINT32_MAX ? b : a;
    return greedy->devices[b].next.start < greedy->devices[a].next.start ? b : a;
}

/* Returns the device that begins an action next; if several begin at the same time, the one with the lowest number. The
 * device's choice does not depend on the other devices: their actions begin no earlier, so their results arrive later.
 */
static uint32_t find_next_device(bgi_greedy *greedy)
{
    while (greedy->stale_count > 0) {
        const uint32_t device = greedy->stale[--greedy->stale_count];

        greedy->devices[device].next = choose(greedy, device);
        greedy->devices[device].is_stale = false;
        greedy->first[greedy->width + device] = device;
        for (uint32_t at = (greedy->width + device) / 2; at > 0; at /= 2)
            greedy->first[at] = begins_first(greedy, greedy->first[2 * at], greedy->first[2 * at + 1]);
    }
    return greedy->first[1];
}

static void add_updates(const bgi_search *search, uint32_t *order)
{
    for (uint32_t device = 0; device < search->problem->device_count; device++) {
        uint32_t at = search->ends[device];
        for (uint32_t level = 0; at < search->begins[device + 1]; level++)
            for (uint32_t stage = 0; stage < search->problem->stage_count; stage++)
                if (search->problem->stage_devices[stage] == device)
                    order[at++] =
                        search->layout.rows[bgi_schedule_layout_row(&search->layout, BG_ACTION_UPDATE, stage, level)]
                            .first;
    }
}

bool bgi_greedy_run(bgi_greedy *greedy, const bgi_greedy_rule *rule, const uint32_t *caps, uint32_t *order)
{
    bgi_search *search = greedy->search;
    const uint32_t devices = search->problem->device_count;
    uint32_t left = 0;

    greedy->rule = rule;
    greedy->caps = caps;
    reset(greedy);
    bgi_search_spend(search);
    for (uint32_t device = 0; device < devices; device++)
        left += search->ends[device] - search->begins[device];
    for (; left > 0; left--) {
        const uint32_t device = find_next_device(greedy);
        if (greedy->devices[device].next.row == UINT32_MAX)
            return false;
        begin_action(greedy, device, order);
    }
    add_updates(search, order);
    return true;
}
