/*
 * search.c: keeps the state of the search for an order: costs by row, the fast clock, and the best order. It does not
 * know the rules by which orders are made.
 *
 * There are two clocks: bgi_search_time and the simulator. bgi_search_time executes only F, R, B, W and U and lets none
 * of them wait for slots, so it is cheap, and its times are never later than the simulator's. Only an order that is
 * better by this clock is completed, verified and simulated, and the simulated time counts.
 */
#include "schedule/automatic.h"
#include "schedule/verify.h"

#include "core/error.h"

#include <math.h>
#include <string.h>

#define NOT_YET (-1.0)

/* ---- facts that follow from the problem ---- */

static bool is_compute(bg_action_kind kind)
{
    return bgi_search_is_ordered(kind) || kind == BG_ACTION_UPDATE;
}

static bg_status allocate(bgi_search *search, bg_error *error)
{
    const bg_schedule_problem *problem = search->problem;
    const uint32_t devices = problem->device_count, instances = search->layout.instance_count;
    const uint32_t rows = search->layout.row_count;
    bgi_arena *arena = &search->arena;

    search->begins = bgi_arena_allocate(arena, (size_t)devices + 1, sizeof *search->begins);
    search->ends = bgi_arena_allocate(arena, devices, sizeof *search->ends);
    search->rows = bgi_arena_allocate(arena, instances, sizeof *search->rows);
    search->costs = bgi_arena_allocate(arena, rows, sizeof *search->costs);
    search->heads = bgi_arena_allocate(arena, rows, sizeof *search->heads);
    search->tails = bgi_arena_allocate(arena, rows, sizeof *search->tails);
    search->delays = bgi_arena_allocate(arena, problem->edge_count, sizeof *search->delays);
    search->is_merged = bgi_arena_allocate(arena, problem->stage_count, sizeof *search->is_merged);
    search->best = bgi_arena_allocate(arena, instances, sizeof *search->best);
    search->fewest_bytes = bgi_arena_allocate(arena, devices, sizeof *search->fewest_bytes);
    search->finish = bgi_arena_allocate(arena, instances, sizeof *search->finish);
    search->device_times = bgi_arena_allocate(arena, devices, sizeof *search->device_times);
    search->places = bgi_arena_allocate(arena, devices, sizeof *search->places);
    search->ready = bgi_arena_allocate(arena, devices, sizeof *search->ready);
    search->first_waiter = bgi_arena_allocate(arena, instances, sizeof *search->first_waiter);
    search->next_waiter = bgi_arena_allocate(arena, devices, sizeof *search->next_waiter);
    search->bytes = bgi_arena_allocate(arena, devices, sizeof *search->bytes);
    if (search->begins == NULL || search->ends == NULL || search->rows == NULL || search->costs == NULL ||
        search->heads == NULL || search->tails == NULL || search->delays == NULL || search->is_merged == NULL ||
        search->best == NULL || search->fewest_bytes == NULL || search->finish == NULL ||
        search->device_times == NULL || search->places == NULL || search->ready == NULL ||
        search->first_waiter == NULL || search->next_waiter == NULL || search->bytes == NULL)
        return bgi_error_memory(error, "searching a schedule", instances * sizeof *search->finish);
    return BG_OK;
}

static void fill_rows(bgi_search *search)
{
    const bgi_schedule_layout *layout = &search->layout;

    for (uint32_t row = 0; row < layout->row_count; row++) {
        const bgi_schedule_row *info = &layout->rows[row];
        const bg_action action = bgi_schedule_layout_action(layout, row, 0);
        for (uint32_t i = 0; i < info->count; i++)
            search->rows[info->first + i] = row;
        if (!is_compute(info->kind))
            continue;
        search->costs[row] = bgi_schedule_cost(search->problem, &action);
        search->begins[info->device + 1] += info->count;
        if (bgi_search_is_ordered(info->kind))
            search->ends[info->device] += info->count;
    }
    for (uint32_t device = 0; device < search->problem->device_count; device++) {
        search->begins[device + 1] += search->begins[device];
        search->ends[device] += search->begins[device];
        search->fewest_bytes[device] = INFINITY;
    }
    search->action_count = search->begins[search->problem->device_count];
}

static void fill_edges(bgi_search *search)
{
    const bg_schedule_problem *problem = search->problem;

    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        if (search->layout.edges[edge].crosses && problem->bytes_per_ns > 0)
            search->delays[edge] = (double)problem->edges[edge].size_bytes / problem->bytes_per_ns;
}

/* Finds the last stages in which B can follow F immediately, because R and B have no inputs from other stages (merged
 * loss).
 */
static void find_merged(bgi_search *search)
{
    const bg_schedule_problem *problem = search->problem;
    const bgi_schedule_layout *layout = &search->layout;
    const uint32_t last = bgi_schedule_position_count(problem) - 1;

    for (uint32_t stage = 0; problem->training && problem->merges_loss && stage < problem->stage_count; stage++) {
        const uint32_t rows[] = {bgi_schedule_layout_row(layout, BG_ACTION_RECOMPUTE, stage, 0),
                                 bgi_schedule_layout_row(layout, BG_ACTION_BACKWARD, stage, 0)};
        search->is_merged[stage] = bgi_schedule_position(problem, stage) == last;
        for (int r = 0; r < 2; r++)
            for (uint32_t i = layout->to.begin[rows[r]]; i < layout->to.begin[rows[r] + 1]; i++)
                if (problem->edges[layout->to.edges[i]].from_stage != stage)
                    search->is_merged[stage] = false;
    }
}

/* ---- an empty pipeline: earliest starts, remaining times ---- */

static const bg_action_kind chain[] = {BG_ACTION_FORWARD, BG_ACTION_RECOMPUTE, BG_ACTION_BACKWARD, BG_ACTION_WEIGHTS};

enum { CHAIN_LENGTH = sizeof chain / sizeof chain[0] };

/* Returns the next (`step` 1) or previous (-1) row of the same stage in `chain` that has instances; UINT32_MAX: none.
 */
static uint32_t find_neighbor(const bgi_search *search, uint32_t row, int step)
{
    const bgi_schedule_layout *layout = &search->layout;
    int at = 0;

    while (at < CHAIN_LENGTH && chain[at] != layout->rows[row].kind)
        at++;
    if (at == CHAIN_LENGTH)
        return UINT32_MAX;
    for (at += step; at >= 0 && at < CHAIN_LENGTH; at += step) {
        const uint32_t neighbor = bgi_schedule_layout_row(layout, chain[at], layout->rows[row].stage, 0);
        if (layout->rows[neighbor].count > 0)
            return neighbor;
    }
    return UINT32_MAX;
}

uint32_t bgi_search_previous_row(const bgi_search *search, uint32_t row)
{
    return find_neighbor(search, row, -1);
}

uint32_t bgi_search_next_row(const bgi_search *search, uint32_t row)
{
    return find_neighbor(search, row, 1);
}

typedef struct walk {
    uint32_t *missing; /* by row: the number of inputs not yet visited */
    uint32_t *visited; /* rows in the order of the data flow */
    uint32_t count;
} walk;

static void reach(bgi_search *search, walk *w, uint32_t row, double arrival)
{
    search->heads[row] = fmax(search->heads[row], arrival);
    if (--w->missing[row] == 0)
        w->visited[w->count++] = row;
}

static void walk_forwards(bgi_search *search, walk *w)
{
    const bgi_schedule_layout *layout = &search->layout;

    for (uint32_t row = 0; row < layout->row_count; row++) {
        const uint32_t next = bgi_search_next_row(search, row);
        if (!bgi_search_is_ordered(layout->rows[row].kind) || layout->rows[row].count == 0)
            continue;
        w->missing[row] += layout->to.begin[row + 1] - layout->to.begin[row];
        if (next != UINT32_MAX)
            w->missing[next]++;
    }
    for (uint32_t row = 0; row < layout->row_count; row++)
        if (bgi_search_is_ordered(layout->rows[row].kind) && layout->rows[row].count > 0 && w->missing[row] == 0)
            w->visited[w->count++] = row;
    for (uint32_t at = 0; at < w->count; at++) {
        const uint32_t row = w->visited[at], next = bgi_search_next_row(search, row);
        const double end = search->heads[row] + search->costs[row];
        for (uint32_t i = layout->from.begin[row]; i < layout->from.begin[row + 1]; i++)
            reach(search, w, layout->edges[layout->from.edges[i]].to, end + search->delays[layout->from.edges[i]]);
        if (next != UINT32_MAX)
            reach(search, w, next, end);
    }
}

static void walk_backwards(bgi_search *search, const walk *w, const double *updates)
{
    const bgi_schedule_layout *layout = &search->layout;

    for (uint32_t at = w->count; at-- > 0;) {
        const uint32_t row = w->visited[at], next = bgi_search_next_row(search, row);
        double rest = updates[layout->rows[row].device];
        for (uint32_t i = layout->from.begin[row]; i < layout->from.begin[row + 1]; i++) {
            const uint32_t edge = layout->from.edges[i];
            rest = fmax(rest, search->delays[edge] + search->tails[layout->edges[edge].to]);
        }
        if (next != UINT32_MAX)
            rest = fmax(rest, search->tails[next]);
        search->tails[row] = search->costs[row] + rest;
    }
}

/* Raises bound_ns to the bounds of all rows and devices. A device's bound is the sum of the time until its first action
 * can start, the time of all its actions, and the shortest path from a last action to the end of the step. */
static void find_bound(bgi_search *search, const double *work, double *first, double *after)
{
    const bgi_schedule_layout *layout = &search->layout;
    const uint32_t devices = search->problem->device_count;

    for (uint32_t device = 0; device < devices; device++)
        first[device] = after[device] = INFINITY;
    for (uint32_t row = 0; row < layout->row_count; row++) {
        const bgi_schedule_row *info = &layout->rows[row];
        if (!bgi_search_is_ordered(info->kind) || info->count == 0)
            continue;
        first[info->device] = fmin(first[info->device], search->heads[row]);
        if (bgi_search_next_row(search, row) == UINT32_MAX)
            after[info->device] = fmin(after[info->device], search->tails[row] - search->costs[row]);
        search->bound_ns =
            fmax(search->bound_ns, search->heads[row] + search->tails[row] + (info->count - 1) * search->costs[row]);
    }
    for (uint32_t device = 0; device < devices; device++)
        if (work[device] > 0) {
            search->period_ns = fmax(search->period_ns, work[device]);
            search->bound_ns = fmax(search->bound_ns,
                                    first[device] + after[device] + work[device] * search->problem->micro_batch_count);
        }
}

static bg_status measure_empty_pipeline(bgi_search *search, bg_error *error)
{
    const uint32_t rows = search->layout.row_count, devices = search->problem->device_count;
    walk w = {.missing = bgi_arena_allocate(&search->arena, rows, sizeof *w.missing),
              .visited = bgi_arena_allocate(&search->arena, rows, sizeof *w.visited)};
    double *sums = bgi_arena_allocate(&search->arena, 4 * (size_t)devices, sizeof *sums);
    double *work = sums, *updates = sums + devices;

    if (w.missing == NULL || w.visited == NULL || sums == NULL)
        return bgi_error_memory(error, "searching a schedule", rows * sizeof *w.missing);
    for (uint32_t row = 0; row < rows; row++) {
        const bgi_schedule_row *info = &search->layout.rows[row];
        if (info->count > 0 && is_compute(info->kind))
            *(bgi_search_is_ordered(info->kind) ? &work[info->device] : &updates[info->device]) += search->costs[row];
    }
    walk_forwards(search, &w);
    walk_backwards(search, &w, updates);
    find_bound(search, work, sums + 2 * (size_t)devices, sums + 3 * (size_t)devices);
    return BG_OK;
}

bg_status bgi_search_init(bgi_search *search, const bg_schedule_problem *problem, bg_error *error)
{
    bg_status status;

    *search = (bgi_search){.problem = problem, .best_ns = INFINITY, .best_bytes = INFINITY};
    BGI_TRY(bgi_schedule_layout_init(&search->layout, problem, error));
    BGI_TRY_CLEANUP(allocate(search, error));
    fill_rows(search);
    fill_edges(search);
    find_merged(search);
    BGI_TRY_CLEANUP(measure_empty_pipeline(search, error));
    return BG_OK;

cleanup:
    bgi_search_clear(search);
    return status;
}

void bgi_search_clear(bgi_search *search)
{
    bgi_schedule_layout_clear(&search->layout);
    bgi_arena_clear(&search->arena);
    *search = (bgi_search){0};
}

bool bgi_search_is_done(const bgi_search *search)
{
    /* Sums of the same costs in a different order may differ in the last bits. */
    return search->is_stopped || search->work_left == 0 || search->best_ns <= search->bound_ns * (1.0 + 1e-12);
}

void bgi_search_spend(bgi_search *search)
{
    search->is_stopped = search->is_stopped || bgi_schedule_check_stop(search->problem, NULL) != BG_OK;
    if (search->is_stopped || search->work_left < search->action_count)
        search->work_left = 0;
    else
        search->work_left -= search->action_count;
}

/* ---- the quick clock ---- */

/* Returns an instance for which an action must wait; UINT32_MAX: none. Raises *start to the time when the inputs that
 * exist arrive. */
static uint32_t find_missing(const bgi_search *search, uint32_t row, uint32_t micro_batch, double *start)
{
    const bgi_schedule_layout *layout = &search->layout;

    for (uint32_t i = layout->to.begin[row]; i < layout->to.begin[row + 1]; i++) {
        const uint32_t edge = layout->to.edges[i];
        const uint32_t from = layout->rows[layout->edges[edge].from].first + micro_batch;
        if (search->finish[from] < 0)
            return from;
        *start = fmax(*start, search->finish[from] + search->delays[edge]);
    }
    return UINT32_MAX;
}

static void finish_action(bgi_search *search, uint32_t *ready_count, uint32_t instance, double end)
{
    search->finish[instance] = end;
    for (uint32_t waiter = search->first_waiter[instance]; waiter != 0; waiter = search->next_waiter[waiter - 1])
        search->ready[(*ready_count)++] = waiter - 1;
    search->first_waiter[instance] = 0;
}

/* Executes a device's part of the order as far as possible; returns the number of executed actions. */
static uint32_t advance(bgi_search *search, const uint32_t *order, uint32_t device, uint32_t *ready_count)
{
    const uint32_t begin = search->places[device];
    uint32_t at = begin;

    for (; at < search->begins[device + 1]; at++) {
        const uint32_t instance = order[at], row = search->rows[instance];
        double start = search->device_times[device];
        const uint32_t missing = find_missing(search, row, instance - search->layout.rows[row].first, &start);
        if (missing != UINT32_MAX) {
            search->next_waiter[device] = search->first_waiter[missing];
            search->first_waiter[missing] = device + 1;
            break;
        }
        search->device_times[device] = start + search->costs[row];
        finish_action(search, ready_count, instance, search->device_times[device]);
    }
    search->places[device] = at;
    return at - begin;
}

double bgi_search_time(bgi_search *search, const uint32_t *order)
{
    const uint32_t devices = search->problem->device_count;
    uint32_t ready_count = 0, done = 0;
    double end = 0.0;

    bgi_search_spend(search);
    for (uint32_t instance = 0; instance < search->layout.instance_count; instance++)
        search->finish[instance] = NOT_YET;
    memset(search->first_waiter, 0, search->layout.instance_count * sizeof *search->first_waiter);
    for (uint32_t device = devices; device-- > 0;) {
        search->device_times[device] = 0.0;
        search->places[device] = search->begins[device];
        search->ready[ready_count++] = device;
    }
    while (ready_count > 0) {
        const uint32_t device = search->ready[--ready_count];
        done += advance(search, order, device, &ready_count);
    }
    for (uint32_t device = 0; device < devices; device++)
        end = fmax(end, search->device_times[device]);
    return done == search->action_count ? end : INFINITY;
}

/* ---- bytes ---- */

static double slot_bytes(const bg_schedule_edge *edge)
{
    return (double)(edge->slot_bytes != 0 ? edge->slot_bytes : edge->size_bytes);
}

/* Returns the largest number of micro-batches of an edge that the receiving device holds at once, each from its
 * instance of row `first` to that of row `last`. Both rows are of one device, and their places ascend. */
static uint32_t count_held(const uint32_t *places, const bgi_schedule_row *first, const bgi_schedule_row *last)
{
    uint32_t most = 0, ended = 0;

    for (uint32_t begun = 0; begun < first->count; begun++) {
        while (places[last->first + ended] < places[first->first + begun])
            ended++;
        most = begun + 1 - ended > most ? begun + 1 - ended : most;
    }
    return most;
}

double bgi_search_device_bytes(bgi_search *search, const uint32_t *order, uint32_t device)
{
    const bg_schedule_problem *problem = search->problem;
    const bgi_schedule_layout *layout = &search->layout;
    uint32_t *places = search->first_waiter; /* bgi_search_time does not use this array now */
    double bytes = 0.0;

    for (uint32_t at = search->begins[device]; at < search->begins[device + 1]; at++)
        places[order[at]] = at;
    for (uint32_t index = 0; index < problem->edge_count; index++) {
        const bgi_schedule_edge_rows *edge = &layout->edges[index];
        uint64_t depth;
        if (layout->rows[edge->to].device != device)
            continue;
        depth = count_held(places, &layout->rows[edge->crosses ? edge->to : edge->from], &layout->rows[edge->last]);
        depth += edge->crosses ? problem->send_ahead : 0;
        if (depth > layout->rows[edge->to].count)
            depth = layout->rows[edge->to].count;
        bytes += (double)depth * slot_bytes(&problem->edges[index]);
    }
    return bytes;
}

bool bgi_search_may_fit(bgi_search *search, const uint32_t *order)
{
    const size_t *limits = search->problem->device_slot_bytes;

    for (uint32_t device = 0; limits != NULL && device < search->problem->device_count; device++)
        if (bgi_search_device_bytes(search, order, device) > (double)limits[device])
            return false;
    return true;
}

/* ---- the judge ---- */

bg_status bgi_schedule_judge(const bg_schedule *schedule, const bg_schedule_problem *problem, double *device_bytes,
                             double *out_makespan_ns, bg_error *error)
{
    bgi_schedule_facts facts;

    BGI_TRY(bgi_schedule_facts_init(&facts, schedule, problem, error));
    *out_makespan_ns = 0.0;
    for (size_t i = 0; i < facts.record_count; i++)
        *out_makespan_ns = fmax(*out_makespan_ns, facts.records[i].end);
    for (uint32_t device = 0; device < problem->device_count; device++)
        device_bytes[device] = 0.0;
    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        device_bytes[problem->stage_devices[problem->edges[edge].to_stage]] +=
            (double)facts.depths[edge] * slot_bytes(&problem->edges[edge]);
    bgi_schedule_facts_clear(&facts);
    return BG_OK;
}

/* Sets *out_is_better to whether a completed schedule fits the limits and is better than the best one; if so, records
 * its time and bytes as the best. */
static bg_status judge(bgi_search *search, const bg_schedule *schedule, bool *out_is_better, bg_error *error)
{
    const size_t *limits = search->problem->device_slot_bytes;
    double makespan_ns, bytes = 0.0;
    bool fits = true;

    *out_is_better = false;
    BGI_TRY(bgi_schedule_judge(schedule, search->problem, search->bytes, &makespan_ns, error));
    for (uint32_t device = 0; device < search->problem->device_count; device++) {
        bytes += search->bytes[device];
        fits = fits && (limits == NULL || search->bytes[device] <= (double)limits[device]);
        search->fewest_bytes[device] = fmin(search->fewest_bytes[device], search->bytes[device]);
    }
    if (!fits || makespan_ns > search->best_ns || (makespan_ns == search->best_ns && bytes >= search->best_bytes))
        return BG_OK;
    search->best_ns = makespan_ns;
    search->best_bytes = bytes;
    *out_is_better = true;
    return BG_OK;
}

bg_status bgi_search_emit(const bgi_search *search, const uint32_t *order, bg_schedule *schedule, bg_error *error)
{
    for (uint32_t device = 0; device < search->problem->device_count; device++)
        for (uint32_t at = search->begins[device]; at < search->begins[device + 1]; at++)
            BGI_TRY(bg_schedule_emit(schedule, device,
                                     bgi_schedule_layout_action(&search->layout, search->rows[order[at]],
                                                                bgi_search_micro_batch(search, order[at])),
                                     error));
    return BG_OK;
}

bg_status bgi_search_consider(bgi_search *search, const uint32_t *order, bool *out_is_kept, bg_error *error)
{
    const double time_ns = bgi_search_time(search, order);
    bg_schedule *schedule = NULL;
    bg_status status;

    *out_is_kept = false;
    if (!isfinite(time_ns) || time_ns > search->best_ns || !bgi_search_may_fit(search, order))
        return BG_OK;
    BGI_TRY_CLEANUP(bgi_schedule_create(search->problem->device_count, &schedule, NULL));
    BGI_TRY_CLEANUP(bgi_search_emit(search, order, schedule, NULL));
    BGI_TRY_CLEANUP(bgi_schedule_complete(schedule, search->problem, NULL));
    status = judge(search, schedule, out_is_kept, NULL);
    if (*out_is_kept)
        memcpy(search->best, order, search->action_count * sizeof *order);

cleanup:
    bg_schedule_destroy(schedule);
    /* An order that fails verification is skipped. */
    search->is_stopped = search->is_stopped || status == BG_ERROR_CANCELED;
    return status == BG_ERROR_MEMORY ? bgi_error_memory(error, "searching a schedule", 0) : BG_OK;
}

/* Whether F, R and B of each merged loss follow each other immediately; strategies that run all forwards first separate
 * them. */
static bool keeps_loss(const bgi_search *search, const bg_schedule *schedule)
{
    for (uint32_t device = 0; device < schedule->device_count; device++) {
        uint32_t wanted = UINT32_MAX, row;
        for (size_t i = 0; i < schedule->lists[device].count; i++) {
            const bg_action *action = &schedule->lists[device].actions[i];
            if (!is_compute(action->kind) || !bgi_schedule_layout_find(&search->layout, action, &row))
                continue;
            if (wanted != UINT32_MAX && row != wanted)
                return false;
            wanted = bgi_search_is_bound(search, row) ? bgi_search_next_row(search, row) : UINT32_MAX;
        }
    }
    return true;
}

/* Converts the compute actions of a schedule to an order; returns false when their number differs from that of the
 * search. */
static bool read_order(const bgi_search *search, const bg_schedule *schedule, uint32_t *order)
{
    for (uint32_t device = 0; device < schedule->device_count; device++) {
        const bgi_schedule_list *list = &schedule->lists[device];
        uint32_t at = search->begins[device], row;
        for (size_t i = 0; i < list->count; i++)
            if (is_compute(list->actions[i].kind) &&
                bgi_schedule_layout_find(&search->layout, &list->actions[i], &row)) {
                if (at == search->begins[device + 1])
                    return false;
                order[at++] = search->layout.rows[row].first + list->actions[i].micro_batch;
            }
        if (at != search->begins[device + 1])
            return false;
    }
    return true;
}

/* Whether the fast clock and the lists already show that an order is not better than the best. */
static bool is_worse(bgi_search *search, const uint32_t *order)
{
    const uint64_t work_left = search->work_left; /* restored below, because this check must not use up work */
    double time_ns, bytes = 0.0;

    if (!isfinite(search->best_ns))
        return false;
    time_ns = bgi_search_time(search, order);
    search->work_left = search->is_stopped ? 0 : work_left;
    if (!isfinite(time_ns) || time_ns < search->best_ns)
        return false;
    if (time_ns > search->best_ns)
        return true;
    for (uint32_t device = 0; device < search->problem->device_count; device++)
        bytes += bgi_search_device_bytes(search, order, device);
    return bytes >= search->best_bytes;
}

static bg_status make_completed(const bgi_search *search, bg_schedule *schedule, bg_error *error)
{
    BGI_TRY(bgi_schedule_complete(schedule, search->problem, error));
    schedule->stop = NULL;
    return BG_OK;
}

bg_status bgi_search_consider_generator(bgi_search *search, const bg_schedule_generator *generator, uint32_t *scratch,
                                        bg_error *error)
{
    bg_schedule *schedule = NULL;
    bool is_better = false;
    bg_status status;

    BGI_TRY_CLEANUP(bgi_schedule_create(search->problem->device_count, &schedule, NULL));
    schedule->stop = search->problem->stop;
    schedule->stop_user = search->problem->stop_user;
    BGI_TRY_CLEANUP(generator->generate(search->problem, schedule, NULL));
    /* If the generator omits R, their places are known only after completion, and read_order fails here. */
    if (read_order(search, schedule, scratch) && is_worse(search, scratch))
        goto cleanup;
    BGI_TRY_CLEANUP(make_completed(search, schedule, NULL));
    if (keeps_loss(search, schedule))
        BGI_TRY_CLEANUP(judge(search, schedule, &is_better, NULL));
    if (is_better && read_order(search, schedule, scratch))
        memcpy(search->best, scratch, search->action_count * sizeof *scratch);

cleanup:
    bg_schedule_destroy(schedule);
    search->is_stopped = search->is_stopped || status == BG_ERROR_CANCELED;
    /* A strategy that does not support the problem is skipped. */
    return status == BG_ERROR_MEMORY ? bgi_error_memory(error, "searching a schedule", 0) : BG_OK;
}
