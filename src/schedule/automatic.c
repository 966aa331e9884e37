/*
 * automatic.c: searches for the order that ends first, with the given costs and within the bytes that each device has
 * for slots. It follows the automatic scheduling of Qi et al., "Zero Bubble Pipeline Parallelism", 2023, which searches
 * a few parameters of a fixed pattern. Here whole orders are tried:
 *
 *     every other strategy of the table, as it is
 *     greedy orders by several rules and limits of micro-batches in flight
 *     all orders, if the problem is small
 *     greedy orders with limits close to the best order's
 *     small changes along the critical path of the best order
 *
 * Every order that is tried is timed (search.c). The work is bounded by a count of actions, not by a clock, so the same
 * problem gives the same order everywhere. The search ends as soon as the best order meets a lower bound.
 */
#include "schedule/automatic.h"

#include "core/error.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The number of actions that may be examined: those of WORK_ORDERS orders, but at least LEAST_WORK and at most
 * MOST_WORK. */
enum { LEAST_WORK = 250000, WORK_ORDERS = 150, MOST_WORK = 8000000 };

enum { FIT_ROUNDS = 8 };

static const bgi_greedy_rule rules[] = {
    {.ranks = {[BG_ACTION_FORWARD] = 1, [BG_ACTION_BACKWARD] = 0, [BG_ACTION_WEIGHTS] = 2}},
    {.ranks = {[BG_ACTION_FORWARD] = 0, [BG_ACTION_BACKWARD] = 0, [BG_ACTION_WEIGHTS] = 0}, .tie = BGI_TIE_LONGEST},
    {.ranks = {[BG_ACTION_FORWARD] = 1, [BG_ACTION_BACKWARD] = 0, [BG_ACTION_WEIGHTS] = 2}, .tie = BGI_TIE_LONGEST},
    {.ranks = {[BG_ACTION_FORWARD] = 0, [BG_ACTION_BACKWARD] = 0, [BG_ACTION_WEIGHTS] = 2}, .alternates = true},
    {.ranks = {[BG_ACTION_FORWARD] = 0, [BG_ACTION_BACKWARD] = 1, [BG_ACTION_WEIGHTS] = 2}},
    {.ranks = {[BG_ACTION_FORWARD] = 0, [BG_ACTION_BACKWARD] = 1, [BG_ACTION_WEIGHTS] = 2}, .tie = BGI_TIE_LONGEST},
    {.ranks = {[BG_ACTION_FORWARD] = 2, [BG_ACTION_BACKWARD] = 0, [BG_ACTION_WEIGHTS] = 1}},
};
static const double patiences[] = {0.0, 0.5, 1.0};
/* Micro-batches in flight, relative to the number that keeps an even pipeline full with the problem's costs. */
static const double fillings[] = {1.0, INFINITY, 1.5, 2.0, 0.75, 1.25, 3.0, 0.5, 0.25};

enum {
    RULE_COUNT = sizeof rules / sizeof rules[0],
    PATIENCE_COUNT = sizeof patiences / sizeof patiences[0],
    FILLING_COUNT = sizeof fillings / sizeof fillings[0]
};

typedef struct automatic {
    bgi_search search;
    bgi_greedy *greedy;
    uint32_t *order;
    uint32_t *caps;
    uint32_t *best_caps; /* the caps of the last greedy order that was kept */
    bgi_greedy_rule best_rule;
    bool has_rule;
} automatic;

static bg_status prepare(automatic *a, const bg_schedule_problem *problem, bg_error *error)
{
    bgi_search *search = &a->search;
    uint64_t work;

    BGI_TRY(bgi_search_init(search, problem, error));
    a->order = bgi_arena_allocate(&search->arena, search->layout.instance_count, sizeof *a->order);
    a->caps = bgi_arena_allocate(&search->arena, problem->stage_count, sizeof *a->caps);
    a->best_caps = bgi_arena_allocate(&search->arena, problem->stage_count, sizeof *a->best_caps);
    if (a->order == NULL || a->caps == NULL || a->best_caps == NULL)
        return bgi_error_memory(error, "searching a schedule", search->layout.instance_count * sizeof *a->order);
    work = (uint64_t)WORK_ORDERS * search->action_count;
    search->work_left = work < LEAST_WORK ? LEAST_WORK : work > MOST_WORK ? MOST_WORK : work;
    return bgi_greedy_init(search, &a->greedy, error);
}

/* ---- the other strategies ---- */

static bg_status try_generators(automatic *a, bg_error *error)
{
    const bg_schedule_problem *problem = a->search.problem;
    const bg_schedule_generator *generator;

    for (uint32_t i = 0; (generator = bg_schedule_generator_at(i)) != NULL && !a->search.is_stopped; i++)
        if (generator != &bgi_schedule_automatic && (!generator->splits_weights || problem->splits_weights))
            BGI_TRY(bgi_search_consider_generator(&a->search, generator, a->order, error));
    return BG_OK;
}

/* ---- greedy orders ---- */

static uint32_t limit_cap(const automatic *a, double cap)
{
    const uint32_t most = a->search.problem->micro_batch_count;

    return !(cap < most) ? most : cap < 1.0 ? 1 : (uint32_t)cap;
}

/* Sets the caps to `filling` times the micro-batches that begin during one round trip (Little's law). */
static void set_caps(automatic *a, double filling)
{
    const bgi_search *search = &a->search;
    const bgi_schedule_layout *layout = &search->layout;

    for (uint32_t stage = 0; stage < search->problem->stage_count; stage++) {
        const uint32_t forward = bgi_schedule_layout_row(layout, BG_ACTION_FORWARD, stage, 0);
        const uint32_t backward = bgi_schedule_layout_row(layout, BG_ACTION_BACKWARD, stage, 0);
        const uint32_t weights = bgi_schedule_layout_row(layout, BG_ACTION_WEIGHTS, stage, 0);
        const double flight_ns = search->heads[backward] + search->costs[backward] +
                                 (layout->rows[weights].count > 0 ? search->costs[weights] : 0.0) -
                                 search->heads[forward];
        a->caps[stage] = isfinite(filling) && search->period_ns > 0
                             ? limit_cap(a, ceil(filling * flight_ns / search->period_ns - 1e-9))
                             : search->problem->micro_batch_count;
    }
}

/* Lowers the caps of devices that exceed their limits in a->order; returns false when no cap can be lowered. */
static bool lower_caps(automatic *a)
{
    const bg_schedule_problem *problem = a->search.problem;
    bool is_lower = false;

    for (uint32_t device = 0; device < problem->device_count; device++) {
        const double bytes = bgi_search_device_bytes(&a->search, a->order, device);
        const double limit = (double)problem->device_slot_bytes[device];
        if (bytes <= limit)
            continue;
        for (uint32_t stage = 0; stage < problem->stage_count; stage++)
            if (problem->stage_devices[stage] == device && a->caps[stage] > 1) {
                const uint32_t less = limit_cap(a, floor(a->caps[stage] * limit / bytes));
                a->caps[stage] = less < a->caps[stage] ? less : a->caps[stage] - 1;
                is_lower = true;
            }
    }
    return is_lower;
}

/* Makes and tries a greedy order with a->caps, or with lower caps where the byte limits require them. */
static bg_status try_rule(automatic *a, const bgi_greedy_rule *rule, bool *out_is_kept, bg_error *error)
{
    *out_is_kept = false;
    for (uint32_t round = 0;; round++) {
        if (!bgi_greedy_run(a->greedy, rule, a->caps, a->order))
            return BG_OK;
        if (bgi_search_may_fit(&a->search, a->order))
            break;
        if (round == FIT_ROUNDS || !lower_caps(a))
            return BG_OK;
    }
    BGI_TRY(bgi_search_consider(&a->search, a->order, out_is_kept, error));
    if (*out_is_kept) {
        memcpy(a->best_caps, a->caps, a->search.problem->stage_count * sizeof *a->caps);
        a->best_rule = *rule;
        a->has_rule = true;
    }
    return BG_OK;
}

static bg_status try_rules(automatic *a, bg_error *error)
{
    bool is_kept;

    for (uint32_t p = 0; p < PATIENCE_COUNT; p++)
        for (uint32_t r = 0; r < RULE_COUNT; r++)
            for (uint32_t f = 0; f < FILLING_COUNT && !bgi_search_is_done(&a->search); f++) {
                bgi_greedy_rule rule = rules[r];
                rule.patience = patiences[p];
                set_caps(a, fillings[f]);
                BGI_TRY(try_rule(a, &rule, &is_kept, error));
            }
    return BG_OK;
}

/* Tries one more or one fewer micro-batch in flight on each stage in turn, while this helps. */
static bg_status vary_caps(automatic *a, bg_error *error)
{
    const uint32_t stages = a->search.problem->stage_count;
    bool helps = a->has_rule;

    while (helps) {
        helps = false;
        for (uint32_t i = 0; i < 2 * stages && !bgi_search_is_done(&a->search); i++) {
            const double before_ns = a->search.best_ns;
            const bgi_greedy_rule rule = a->best_rule;
            bool is_kept = false;
            memcpy(a->caps, a->best_caps, stages * sizeof *a->caps);
            a->caps[i / 2] = limit_cap(a, i % 2 == 0 ? a->caps[i / 2] + 1.0 : a->caps[i / 2] - 1.0);
            if (a->caps[i / 2] != a->best_caps[i / 2])
                BGI_TRY(try_rule(a, &rule, &is_kept, error));
            helps = helps || a->search.best_ns < before_ns;
        }
    }
    return BG_OK;
}

/* ---- all together ---- */

static bg_status search_orders(automatic *a, bg_error *error)
{
    bool is_complete = false;
    const uint64_t work = a->search.work_left;

    BGI_TRY(try_generators(a, error));
    if (bgi_search_is_done(&a->search))
        return BG_OK;
    /* The exhaustive search takes its list of actions from a greedy order. */
    set_caps(a, 1.0);
    if (!bgi_greedy_run(a->greedy, &rules[0], a->caps, a->order))
        return BG_OK;
    BGI_TRY(bgi_search_exhaust(&a->search, a->order, &is_complete, error));
    if (is_complete)
        return BG_OK;
    a->search.work_left = work;
    BGI_TRY(try_rules(a, error));
    /* Each of the following steps has a separate limit, which does not depend on the work of earlier steps. */
    a->search.work_left = work / 2;
    BGI_TRY(vary_caps(a, error));
    a->search.work_left = work / 2;
    return bgi_search_improve(&a->search, error);
}

/* Explains why no order was kept: none fits, or the problem cannot be scheduled. */
static bg_status explain(const automatic *a, bg_error *error)
{
    const bg_schedule_problem *problem = a->search.problem;
    bg_schedule *schedule = NULL;
    bg_status status;

    for (uint32_t device = 0; problem->device_slot_bytes != NULL && device < problem->device_count; device++) {
        const double fewest = a->search.fewest_bytes[device];
        if (isfinite(fewest) && fewest > (double)problem->device_slot_bytes[device])
            return bg_error_set(error, BG_ERROR_INVALID,
                                "device %" PRIu32 " has %zu bytes for stash and messages, but every tried order needs "
                                "at least %.0f; allow that many, or use smaller micro-batches",
                                device, problem->device_slot_bytes[device], fewest);
    }
    status = bg_schedule_create(problem, &bgi_schedule_sequential, &schedule, error);
    bg_schedule_destroy(schedule);
    return status != BG_OK ? status
                           : bg_error_set(error, BG_ERROR_INVALID,
                                          "no order meets the limits of stash and messages on all devices at once; "
                                          "raise them, or use smaller micro-batches");
}

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    automatic a = {.has_rule = false};
    bg_status status;

    BGI_TRY_CLEANUP(prepare(&a, problem, error));
    BGI_TRY_CLEANUP(search_orders(&a, error));
    if (a.search.is_stopped)
        BGI_TRY_CLEANUP(bgi_schedule_check_stop(problem, error));
    status =
        isfinite(a.search.best_ns) ? bgi_search_emit(&a.search, a.search.best, schedule, error) : explain(&a, error);

cleanup:
    bgi_search_clear(&a.search);
    return status;
}

const bg_schedule_generator bgi_schedule_automatic = {
    .name = "auto",
    .summary = "the order that ends first with the given costs and memory (searched)",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_one,
    .placement = BG_PLACEMENT_ANY,
};
