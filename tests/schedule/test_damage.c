/*
 * test_damage.c: the verifier accepts or rejects damaged schedules exactly as the definition in brigade/schedule.h
 * does. The test executes the definition without code of the verifier: devices run one action at a time, and values
 * exist or not.
 *
 *     an action is wrong     when it is not the problem's, not on its stage's device, done before in this step, out of
 *                            the micro-batches' order, or reads a missing value; when it uses a remote buffer that is
 *                            not on the device; a LOAD over changes, a STORE without changes; when the step ends with
 *                            changes that were not stored
 *     an action waits        for a message that was not sent, for a slot whose last reader is not done
 *     a schedule is valid    when no action is wrong, all actions of the problem are done, and two steps in a row end
 *                            with some number of slots (more slots never hurt, so the test uses one per micro-batch)
 *
 * For a valid schedule, the verifier's depths must also be sufficient and equal those counted from the lists; only an
 * edge between devices may be deeper.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"
#include "schedule/schedule.h"

#include <stdio.h>

/* ---- the actions that a problem requires ---- */

enum { MOST_DEVICES = 16, MOST_NUMBERS = 32, MOST_LEVELS = 4, MOST_BUFFERS = 3 * MOST_STAGES + MOST_EDGES, STEPS = 2 };

static bool crosses(const bg_schedule_problem *p, const bg_schedule_edge *edge)
{
    return p->stage_devices[edge->from_stage] != p->stage_devices[edge->to_stage];
}

/* Returns the number of actions of this kind in a step on this stage, or on each level or edge if the kind belongs to
 * these. */
static uint32_t times(const bg_schedule_problem *p, bg_action_kind kind, uint32_t stage)
{
    const uint32_t all = p->micro_batch_count;

    switch (kind) {
    case BG_ACTION_FORWARD:
        return all;
    case BG_ACTION_RECOMPUTE:
        return p->training && p->stage_recomputes != NULL && p->stage_recomputes[stage] ? all : 0;
    case BG_ACTION_BACKWARD:
        return p->training ? all : 0;
    case BG_ACTION_WEIGHTS:
        return p->training && p->splits_weights ? all : 0;
    case BG_ACTION_HOST_IN:
        return (p->stage_host_in != NULL ? p->stage_host_in[stage] : stage == 0) ? all : 0;
    case BG_ACTION_HOST_OUT:
        return (p->stage_host_out != NULL ? p->stage_host_out[stage] : stage == p->stage_count - 1) ? all : 0;
    case BG_ACTION_REDUCE:
        return p->training && p->reduces_gradients ? 1 : 0;
    case BG_ACTION_GATHER:
        return p->training && p->stage_gathers != NULL && p->stage_gathers[stage] ? 1 : 0;
    case BG_ACTION_UPDATE:
        return p->training ? 1 : 0;
    default:
        return 0;
    }
}

static uint32_t edge_times(const bg_schedule_problem *p, const bg_schedule_edge *edge)
{
    return edge->from_kind == BG_ACTION_UPDATE ? 1 : p->micro_batch_count;
}

static bool is_message(bg_action_kind kind)
{
    return kind == BG_ACTION_SEND || kind == BG_ACTION_RECEIVE;
}

static bool is_transfer(bg_action_kind kind)
{
    return kind == BG_ACTION_LOAD || kind == BG_ACTION_STORE;
}

/* Returns the number of actions of a step that are equal to this action except for the micro-batch; 0 means that the
 * problem has no such action.
 */
static uint32_t times_of(const bg_schedule_problem *p, const bg_action *a)
{
    if (a->stage >= p->stage_count)
        return 0;
    if (is_message(a->kind)) {
        const bg_schedule_edge *edge = a->index < p->edge_count ? &p->edges[a->index] : NULL;
        if (edge == NULL || !crosses(p, edge) ||
            a->stage != (a->kind == BG_ACTION_SEND ? edge->from_stage : edge->to_stage))
            return 0;
        return edge_times(p, edge);
    }
    if (is_transfer(a->kind)) { /* variables may move any number of times */
        const bg_schedule_buffer *buffer = a->index < p->buffer_count ? &p->buffers[a->index] : NULL;
        if (buffer == NULL || buffer->stage != a->stage)
            return 0;
        return buffer->per_micro_batch ? p->micro_batch_count : 1;
    }
    return a->index < (a->kind == BG_ACTION_UPDATE ? p->update_level_count : 1) ? times(p, a->kind, a->stage) : 0;
}

static size_t count_all(const bg_schedule_problem *p)
{
    size_t count = 0;

    for (uint32_t stage = 0; stage < p->stage_count; stage++)
        for (int kind = 0; kind < BG_ACTION_KIND_COUNT; kind++)
            count += times(p, (bg_action_kind)kind, stage) * (kind == BG_ACTION_UPDATE ? p->update_level_count : 1u);
    for (uint32_t e = 0; e < p->edge_count; e++)
        count += crosses(p, &p->edges[e]) ? 2 * edge_times(p, &p->edges[e]) : 0;
    for (uint32_t b = 0; b < p->buffer_count; b++)
        count += p->buffers[b].per_micro_batch ? 2 * p->micro_batch_count : 0;
    return count;
}

/* ---- the execution ---- */

/* Micro-batches are numbered over all steps: step * times + micro-batch. */
typedef struct world {
    const bg_schedule *schedule;
    const bg_schedule_problem *p;
    const uint32_t *depths;
    bool hears_all; /* if true, every RECEIVE finds its message, so only errors within a device are found */
    bool done[BG_ACTION_KIND_COUNT][MOST_STAGES][MOST_LEVELS][MOST_NUMBERS];
    struct {
        bool made, sent, here, read;
    } values[MOST_EDGES][MOST_NUMBERS];
    struct {
        bool is_here, is_changed,
            was_here; /* variables: whether they are on the device, changed, and have been there in this step */
        uint32_t stored, loaded; /* micro-batches of an edge in this step */
    } buffers[MOST_BUFFERS];
    size_t done_count; /* without transfers of variables */
} world;

typedef enum outcome { WENT, WAITS, IS_WRONG } outcome;

static bool is_end(const bg_action *a, bg_action_kind kind, uint32_t stage, uint32_t level)
{
    return a->kind == kind && a->stage == stage && (kind != BG_ACTION_UPDATE || a->index == level);
}

static bool is_done(const world *w, bg_action_kind kind, uint32_t stage, uint32_t level, uint32_t number)
{
    return times(w->p, kind, stage) == 0 || w->done[kind][stage][level][number];
}

/* Returns whether a stage's required earlier actions are done, for the micro-batch or for the whole step. */
static bool has_own_inputs(const world *w, const bg_action *a, uint32_t step)
{
    const uint32_t all = w->p->micro_batch_count, n = step * all + a->micro_batch;

    switch (a->kind) {
    case BG_ACTION_FORWARD:
        return is_done(w, BG_ACTION_HOST_IN, a->stage, 0, n);
    case BG_ACTION_HOST_OUT:
    case BG_ACTION_RECOMPUTE:
        return is_done(w, BG_ACTION_FORWARD, a->stage, 0, n);
    case BG_ACTION_BACKWARD:
        return is_done(w, BG_ACTION_FORWARD, a->stage, 0, n) && is_done(w, BG_ACTION_RECOMPUTE, a->stage, 0, n);
    case BG_ACTION_WEIGHTS:
        return is_done(w, BG_ACTION_BACKWARD, a->stage, 0, n);
    case BG_ACTION_REDUCE:
    case BG_ACTION_UPDATE:
        for (uint32_t m = 0; m < all; m++)
            if (!is_done(w, BG_ACTION_BACKWARD, a->stage, 0, step * all + m) ||
                !is_done(w, BG_ACTION_WEIGHTS, a->stage, 0, step * all + m))
                return false;
        return a->kind == BG_ACTION_REDUCE || (is_done(w, BG_ACTION_REDUCE, a->stage, 0, step) &&
                                               (a->index == 0 || w->done[a->kind][a->stage][a->index - 1][step]));
    case BG_ACTION_GATHER:
        return w->done[BG_ACTION_UPDATE][a->stage][w->p->update_level_count - 1][step];
    default:
        return true;
    }
}

static outcome do_message(world *w, const bg_action *a, uint32_t number)
{
    bool *done = a->kind == BG_ACTION_SEND ? &w->values[a->index][number].sent : &w->values[a->index][number].here;

    if (*done || (a->micro_batch > 0 && !(a->kind == BG_ACTION_SEND ? w->values[a->index][number - 1].sent
                                                                    : w->values[a->index][number - 1].here)))
        return IS_WRONG;
    if (a->kind == BG_ACTION_SEND && !w->values[a->index][number].made)
        return IS_WRONG;
    if (a->kind == BG_ACTION_RECEIVE && !w->values[a->index][number].sent && !w->hears_all)
        return WAITS;
    *done = true;
    return WENT;
}

/* ---- remote buffers ---- */

static bool has_bit(uint32_t bits, bg_action_kind kind)
{
    return (bits >> kind & 1) != 0;
}

/* Loads or stores an edge's values. Micro-batches must be stored and loaded in order, once each, and only stored values
 * can be loaded. */
static outcome move_edge(world *w, const bg_action *a, uint32_t n)
{
    const uint32_t b = a->index, m = a->micro_batch;

    if (a->kind == BG_ACTION_STORE) {
        if (m != w->buffers[b].stored || !w->values[w->p->buffers[b].edge][n].made)
            return IS_WRONG;
        w->buffers[b].stored++;
    } else {
        if (m != w->buffers[b].loaded || m >= w->buffers[b].stored)
            return IS_WRONG;
        w->buffers[b].loaded++;
    }
    return WENT;
}

static outcome move_variables(world *w, const bg_action *a)
{
    const uint32_t b = a->index;

    if (a->kind == BG_ACTION_LOAD ? w->buffers[b].is_changed : !w->buffers[b].is_changed)
        return IS_WRONG; /* a change would be lost, or no value needs a store */
    w->buffers[b].is_here = w->buffers[b].was_here = true;
    if (a->kind == BG_ACTION_STORE)
        w->buffers[b].is_here = w->buffers[b].is_changed = false;
    w->done_count--;
    return WENT;
}

static bool uses_variables(const bg_schedule_buffer *buffer, const bg_action *a)
{
    if (buffer->stage != a->stage || !has_bit(buffer->reads | buffer->writes, a->kind))
        return false;
    return a->kind != BG_ACTION_UPDATE || buffer->update_levels == 0 || has_bit(buffer->update_levels, a->index);
}

/* Returns whether the values that an action uses are on the device; if they are, records the action's effects. */
static bool use_buffers(world *w, const bg_action *a)
{
    for (uint32_t b = 0; b < w->p->buffer_count; b++) {
        const bg_schedule_buffer *buffer = &w->p->buffers[b];
        const bg_schedule_edge *edge = buffer->per_micro_batch ? &w->p->edges[buffer->edge] : NULL;
        if (edge != NULL) {
            if (is_end(a, edge->from_kind, edge->from_stage, 0) &&
                a->micro_batch >= w->buffers[b].stored + buffer->slots)
                return false; /* it would overwrite values that are not stored */
            if (is_end(a, edge->to_kind, edge->to_stage, 0) && a->micro_batch >= w->buffers[b].loaded)
                return false;
        } else if (uses_variables(buffer, a)) {
            const bool begins = buffer->starts_fresh && !w->buffers[b].was_here && has_bit(buffer->writes, a->kind);
            if (!w->buffers[b].is_here && !begins)
                return false;
            w->buffers[b].is_here = w->buffers[b].was_here = true;
            w->buffers[b].is_changed = w->buffers[b].is_changed || has_bit(buffer->writes, a->kind);
        }
    }
    return true;
}

/* Ends a device's step; returns false if changes are lost. */
static bool end_step(world *w, uint32_t device)
{
    for (uint32_t b = 0; b < w->p->buffer_count; b++) {
        if (w->p->stage_devices[w->p->buffers[b].stage] != device)
            continue;
        if (w->buffers[b].is_changed && !w->p->buffers[b].starts_fresh)
            return false;
        memset(&w->buffers[b], 0, sizeof w->buffers[b]);
    }
    return true;
}

static outcome do_action(world *w, uint32_t device, const bg_action *a, uint32_t step)
{
    const bg_schedule_problem *p = w->p;
    const uint32_t count = times_of(p, a), n = step * count + a->micro_batch;
    bool *done;

    if (a->micro_batch >= count || p->stage_devices[a->stage] != device)
        return IS_WRONG;
    if (is_message(a->kind))
        return do_message(w, a, n);
    if (is_transfer(a->kind))
        return p->buffers[a->index].per_micro_batch ? move_edge(w, a, n) : move_variables(w, a);
    done = &w->done[a->kind][a->stage][a->index][n];
    if (*done || (a->micro_batch > 0 && !done[-1]) || !has_own_inputs(w, a, step))
        return IS_WRONG;
    for (uint32_t e = 0; e < p->edge_count; e++)
        if (is_end(a, p->edges[e].to_kind, p->edges[e].to_stage, p->edges[e].to_level) &&
            !(crosses(p, &p->edges[e]) ? w->values[e][n].here : w->values[e][n].made))
            return IS_WRONG;
    for (uint32_t e = 0; e < p->edge_count; e++)
        if (is_end(a, p->edges[e].from_kind, p->edges[e].from_stage, p->edges[e].from_level) && n >= w->depths[e] &&
            !w->values[e][n - w->depths[e]].read)
            return WAITS;
    if (!use_buffers(w, a))
        return IS_WRONG;
    for (uint32_t e = 0; e < p->edge_count; e++) {
        if (is_end(a, p->edges[e].from_kind, p->edges[e].from_stage, p->edges[e].from_level))
            w->values[e][n].made = true;
        if (is_end(a, p->edges[e].last_kind, p->edges[e].to_stage, p->edges[e].to_level))
            w->values[e][n].read = true;
    }
    *done = true;
    return WENT;
}

/* Lets each device in turn run one action until all have reached their end (WENT), no device can continue, or an action
 * is wrong. */
static outcome run_world(world *w, uint32_t steps)
{
    uint32_t at[MOST_DEVICES] = {0};
    bool moves = true, ends = false;

    while (moves && !ends) {
        moves = false;
        ends = true;
        for (uint32_t device = 0; device < w->schedule->device_count; device++) {
            const uint32_t count = bg_schedule_action_count(w->schedule, device);
            outcome went;
            if (at[device] == steps * count)
                continue;
            ends = false;
            went =
                do_action(w, device, &bg_schedule_actions(w->schedule, device)[at[device] % count], at[device] / count);
            if (went == IS_WRONG)
                return IS_WRONG;
            if (went == WENT) {
                at[device]++;
                w->done_count++;
                moves = true;
                if (at[device] % count == 0 && !end_step(w, device))
                    return IS_WRONG;
            }
        }
    }
    return ends ? WENT : WAITS;
}

static world *begin_world(const bg_schedule *schedule, const bg_schedule_problem *p, const uint32_t *depths)
{
    static world w;

    memset(&w, 0, sizeof w);
    w.schedule = schedule;
    w.p = p;
    w.depths = depths;
    return &w;
}

typedef enum verdict { VALID, WRONG, DEADLOCK } verdict;

static verdict judge(const bg_schedule *schedule, const bg_schedule_problem *p)
{
    uint32_t most[MOST_EDGES];
    world *w = begin_world(schedule, p, most);

    for (uint32_t e = 0; e < p->edge_count; e++)
        most[e] = edge_times(p, &p->edges[e]);
    w->hears_all = true;
    if (run_world(w, 1) != WENT || w->done_count != count_all(p))
        return WRONG;
    return run_world(begin_world(schedule, p, most), STEPS) == WENT ? VALID : DEADLOCK;
}

/* ---- depths ---- */

/* Returns the position at which a device runs an action, or -1. */
static long find(const bg_schedule *schedule, uint32_t device, bg_action_kind kind, uint32_t stage, uint32_t m,
                 uint32_t index)
{
    const bg_action *actions = bg_schedule_actions(schedule, device);

    for (uint32_t i = 0; i < bg_schedule_action_count(schedule, device); i++)
        if (actions[i].kind == kind && actions[i].stage == stage && actions[i].micro_batch == m &&
            actions[i].index == index)
            return (long)i;
    return -1;
}

/* Returns the largest number of micro-batches that the receiving device holds at the same time: their message has
 * arrived (or their value was made) and will still be read. */
static uint32_t count_held(const bg_schedule *schedule, const bg_schedule_problem *p, uint32_t e)
{
    const bg_schedule_edge *edge = &p->edges[e];
    const bool is_update = edge->from_kind == BG_ACTION_UPDATE;
    const uint32_t device = p->stage_devices[edge->to_stage], count = edge_times(p, edge);
    long begins[MOST_NUMBERS], ends[MOST_NUMBERS];
    uint32_t most = 0;

    for (uint32_t m = 0; m < count; m++) {
        begins[m] = crosses(p, edge) ? find(schedule, device, BG_ACTION_RECEIVE, edge->to_stage, m, e)
                                     : find(schedule, device, edge->from_kind, edge->from_stage, m,
                                            is_update ? edge->from_level : 0);
        ends[m] = find(schedule, device, edge->last_kind, edge->to_stage, m, is_update ? edge->to_level : 0);
    }
    for (long at = 0; at < (long)bg_schedule_action_count(schedule, device); at++) {
        uint32_t held = 0;
        for (uint32_t m = 0; m < count; m++)
            held += begins[m] <= at && at <= ends[m];
        most = held > most ? held : most;
    }
    return most;
}

/* Returns the largest number of loaded micro-batches of a remote edge that the device holds at the same time. */
static uint32_t count_loaded(const bg_schedule *schedule, const bg_schedule_problem *p, uint32_t b)
{
    const bg_schedule_buffer *buffer = &p->buffers[b];
    const uint32_t device = p->stage_devices[buffer->stage];
    uint32_t most = 1;

    for (long at = 0; buffer->per_micro_batch && at < (long)bg_schedule_action_count(schedule, device); at++) {
        uint32_t held = 0;
        for (uint32_t m = 0; m < p->micro_batch_count; m++)
            held += find(schedule, device, BG_ACTION_LOAD, buffer->stage, m, b) <= at &&
                    at <= find(schedule, device, p->edges[buffer->edge].last_kind, buffer->stage, m, 0);
        most = held > most ? held : most;
    }
    return most;
}

/* Checks that the verifier's depths are sufficient for two steps and equal the numbers of micro-batches that the
 * devices hold; an edge between devices may be deeper. */
static void assert_depths(const bg_schedule *schedule, const bg_schedule_problem *p, uint64_t seed)
{
    uint32_t depths[MOST_EDGES];

    for (uint32_t e = 0; e < p->edge_count; e++) {
        const uint32_t held = count_held(schedule, p, e);
        depths[e] = bg_schedule_edge_depth(schedule, e);
        if (crosses(p, &p->edges[e]) ? depths[e] < held : depths[e] != held)
            fail_msg("seed %llu: edge %u has depth %u, but its device holds %u", (unsigned long long)seed, (unsigned)e,
                     (unsigned)depths[e], (unsigned)held);
        assert_in_range(depths[e], 1, edge_times(p, &p->edges[e]));
    }
    for (uint32_t b = 0; b < p->buffer_count; b++)
        if (bg_schedule_buffer_depth(schedule, b) != count_loaded(schedule, p, b))
            fail_msg("seed %llu: buffer %u has depth %u, but its device holds %u", (unsigned long long)seed,
                     (unsigned)b, (unsigned)bg_schedule_buffer_depth(schedule, b),
                     (unsigned)count_loaded(schedule, p, b));
    if (run_world(begin_world(schedule, p, depths), STEPS) != WENT)
        fail_msg("seed %llu: two steps deadlock with the depths of the verifier", (unsigned long long)seed);
}

/* ---- damage ---- */

static bg_schedule *copy_schedule(const bg_schedule *schedule)
{
    bg_schedule *copy = NULL;

    assert_int_equal(bgi_schedule_create(schedule->device_count, &copy, NULL), BG_OK);
    for (uint32_t device = 0; device < schedule->device_count; device++)
        for (uint32_t i = 0; i < bg_schedule_action_count(schedule, device); i++)
            assert_int_equal(bg_schedule_emit(copy, device, bg_schedule_actions(schedule, device)[i], NULL), BG_OK);
    return copy;
}

static void remove_at(bgi_schedule_list *list, size_t at)
{
    memmove(&list->actions[at], &list->actions[at + 1], (list->count - at - 1) * sizeof list->actions[0]);
    list->count--;
}

static void insert_at(bg_schedule *schedule, uint32_t device, size_t at, bg_action action)
{
    bgi_schedule_list *list = &schedule->lists[device];

    assert_int_equal(bg_schedule_emit(schedule, device, action, NULL), BG_OK);
    memmove(&list->actions[at + 1], &list->actions[at], (list->count - 1 - at) * sizeof list->actions[0]);
    list->actions[at] = action;
}

static void swap(bgi_schedule_list *list, size_t a, size_t b)
{
    const bg_action taken = list->actions[a];

    list->actions[a] = list->actions[b];
    list->actions[b] = taken;
}

/* Exchanges an action with the next one of its kind. */
static void swap_kin(bgi_schedule_list *list, size_t a)
{
    for (size_t b = a + 1; b < list->count; b++)
        if (list->actions[b].kind == list->actions[a].kind) {
            swap(list, a, b);
            return;
        }
}

/* Sends a message later, or receives it earlier, which can cause deadlocks. */
static void delay_message(bg_schedule *schedule, uint32_t device, size_t from, uint32_t way)
{
    bgi_schedule_list *list = &schedule->lists[device];
    size_t at = from, to;
    bg_action taken;

    while (at < list->count && !is_message(list->actions[at].kind))
        at++;
    if (at == list->count)
        return;
    taken = list->actions[at];
    to = taken.kind == BG_ACTION_SEND ? at + way : at > way ? at - way : 0;
    remove_at(list, at);
    insert_at(schedule, device, to < list->count ? to : list->count, taken);
}

enum { DAMAGE_KINDS = 20 };

/* Makes one change. Half of the changes keep the set of actions, so that the verifier gets to later checks. Moves over
 * a short distance often leave a schedule valid. */
static void damage(bg_schedule *schedule, const bg_schedule_problem *p, uint64_t *random)
{
    const uint32_t device = test_random(random, schedule->device_count);
    const uint32_t other = test_random(random, schedule->device_count);
    bgi_schedule_list *list = &schedule->lists[device];
    bg_action taken;
    uint32_t a, b;

    if (list->count < 2)
        return;
    a = test_random(random, (uint32_t)list->count);
    b = test_random(random, (uint32_t)list->count);
    taken = list->actions[a];
    switch (test_random(random, DAMAGE_KINDS)) {
    case 0: /* delete */
        remove_at(list, a);
        break;
    case 1: /* duplicate an action, perhaps at another position */
        insert_at(schedule, other, test_random(random, (uint32_t)schedule->lists[other].count + 1), taken);
        break;
    case 2:
        list->actions[a].micro_batch = test_random(random, p->micro_batch_count + 1);
        break;
    case 3:
        list->actions[a].stage = test_random(random, p->stage_count + 1);
        break;
    case 4:
        list->actions[a].index = test_random(random, p->edge_count + 1);
        break;
    case 5:
        list->actions[a].kind = (bg_action_kind)test_random(random, BG_ACTION_KIND_COUNT);
        break;
    case 6: /* move an action to another device */
        remove_at(list, a);
        insert_at(schedule, other, test_random(random, (uint32_t)schedule->lists[other].count + 1), taken);
        break;
    case 7: /* cut off the tail */
        list->count = test_random(random, 4) == 0 ? a : list->count - 1;
        break;
    case 8: /* exchange two devices */
        taken = (bg_action){0};
        {
            const bgi_schedule_list held = *list;
            *list = schedule->lists[other];
            schedule->lists[other] = held;
        }
        break;
    case 9: /* exchange two SENDs, RECEIVEs, forwards, ... */
        swap_kin(list, a);
        break;
    case 10: /* any two */
        swap(list, a, b);
        break;
    case 11: /* move over a short distance */
        b = a + 1 + test_random(random, 4);
        remove_at(list, a);
        insert_at(schedule, device, b < list->count ? b : list->count, taken);
        break;
    case 12: /* any way */
        remove_at(list, a);
        insert_at(schedule, device, b < list->count ? b : list->count, taken);
        break;
    case 13:
    case 14:
    case 15:
    case 16:
        delay_message(schedule, device, a, 1 + b % 8);
        break;
    default: /* neighbors */
        swap(list, a, a + 1 < list->count ? a + 1 : a - 1);
    }
}

/* ---- the comparison ---- */

enum { DAMAGES_A_SCHEDULE = 5 };

typedef struct tally {
    uint64_t verdicts[3];
    uint64_t undamaged, splits, concurrent, shared, reduces, recomputes, buffers;
} tally;

/* For some problems, makes variables and accumulators of stages, and edges on one device, remote. */
static void add_buffers(bg_schedule_problem *p, bg_schedule_buffer *buffers, uint64_t *random)
{
    const uint32_t work = 1u << BG_ACTION_FORWARD | 1u << BG_ACTION_BACKWARD;
    const uint32_t last = p->splits_weights ? BG_ACTION_WEIGHTS : BG_ACTION_BACKWARD;

    p->buffers = buffers;
    for (uint32_t stage = 0; stage < p->stage_count; stage++)
        for (uint32_t k = 0; k < 2; k++) {
            const bool gathers = p->stage_gathers != NULL && p->stage_gathers[stage];
            bg_schedule_buffer *buffer = &buffers[p->buffer_count];
            if (test_random(random, 2) == 0 || (k == 1 && !p->training))
                continue;
            *buffer = (bg_schedule_buffer){.stage = stage,
                                           .starts_fresh = k == 1,
                                           .reads = k == 0 ? work : 1u << BG_ACTION_UPDATE,
                                           .writes = k == 0 ? 1u << BG_ACTION_UPDATE : 1u << last,
                                           .residency = (bg_residency)test_random(random, 3),
                                           .preload = test_random(random, 2) == 0};
            if (k == 0 && gathers)
                buffer->writes |= 1u << BG_ACTION_GATHER;
            else
                buffer->update_levels = test_random(random, 1u << p->update_level_count);
            if (k == 1 && p->reduces_gradients) {
                buffer->writes |= 1u << BG_ACTION_REDUCE;
                buffer->update_levels |= 1;
            }
            p->buffer_count++;
        }
    for (uint32_t e = 0; e < p->edge_count; e++)
        if (p->edges[e].from_kind != BG_ACTION_UPDATE && !crosses(p, &p->edges[e]) && test_random(random, 3) == 0)
            buffers[p->buffer_count++] = (bg_schedule_buffer){.stage = p->edges[e].to_stage,
                                                              .per_micro_batch = true,
                                                              .edge = e,
                                                              .slots = 1 + test_random(random, 2),
                                                              .preload = test_random(random, 2) == 0};
}

static bool was_called_deadlock(const bg_error *error)
{
    return strncmp(error->message, "deadlock: ", 10) == 0;
}

static void compare(const bg_schedule_generator *generator, const bg_schedule *good, const bg_schedule_problem *p,
                    uint64_t seed, uint64_t *random, tally *counts)
{
    bg_schedule *damaged = copy_schedule(good);
    bg_error error = {0};
    verdict expected;

    for (uint32_t left = 1 + test_random(random, 2); left > 0; left--)
        damage(damaged, p, random);
    expected = judge(damaged, p);
    counts->verdicts[expected]++;
    if ((bg_schedule_verify(damaged, p, &error) == BG_OK) != (expected == VALID) ||
        was_called_deadlock(&error) != (expected == DEADLOCK))
        fail_msg("seed %llu, %s: the definition says %d, the verifier \"%s\"", (unsigned long long)seed,
                 generator->name, (int)expected, error.message);
    if (expected == VALID && seed % 4 == 0)
        assert_depths(damaged, p, seed);
    bg_schedule_destroy(damaged);
}

static void test_damage_is_judged_like_the_definition(void **state)
{
    const uint64_t wanted = getenv("BRIGADE_TEST_ALL") != NULL     ? 200000
                            : getenv("BRIGADE_TEST_QUICK") != NULL ? 2000
                                                                   : 20000;
    tally counts = {.undamaged = 0};
    uint32_t generator_count = 0;

    (void)state;
    while (bg_schedule_generator_at(generator_count) != NULL)
        generator_count++;
    for (uint64_t seed = 0; seed < wanted / DAMAGES_A_SCHEDULE; seed++) {
        const bg_schedule_generator *generator = bg_schedule_generator_at((uint32_t)(seed % generator_count));
        uint64_t random = test_seed(seed + 99);
        bg_schedule_buffer buffers[MOST_BUFFERS];
        test_problem test;
        bg_schedule *good = NULL;
        bg_error error = {0};

        test_random_problem_for(&test, seed, generator);
        if (seed / generator_count % 2 == 0)
            add_buffers(&test.problem, buffers, &random);
        if (bg_schedule_create(&test.problem, generator, &good, &error) != BG_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
        assert_int_equal(judge(good, &test.problem), VALID);
        counts.undamaged++;
        counts.splits += test.problem.splits_weights;
        counts.concurrent += test.problem.stage_positions != NULL;
        counts.shared += test.problem.device_count < test.problem.stage_count;
        counts.reduces += test.problem.reduces_gradients;
        counts.recomputes += test.problem.stage_recomputes != NULL;
        counts.buffers += test.problem.buffer_count > 0;
        if (seed % 4 == 0)
            assert_depths(good, &test.problem, seed);
        for (int i = 0; i < DAMAGES_A_SCHEDULE; i++)
            compare(generator, good, &test.problem, seed, &random, &counts);
        bg_schedule_destroy(good);
    }
    print_message("%llu damages of %llu schedules of %u generators: %llu valid, %llu wrong, %llu deadlocks; "
                  "%llu split W, %llu concurrent, %llu shared devices, %llu replicas, %llu R, %llu remote buffers\n",
                  (unsigned long long)wanted, (unsigned long long)counts.undamaged, (unsigned)generator_count,
                  (unsigned long long)counts.verdicts[VALID], (unsigned long long)counts.verdicts[WRONG],
                  (unsigned long long)counts.verdicts[DEADLOCK], (unsigned long long)counts.splits,
                  (unsigned long long)counts.concurrent, (unsigned long long)counts.shared,
                  (unsigned long long)counts.reduces, (unsigned long long)counts.recomputes,
                  (unsigned long long)counts.buffers);
    /* The comparison is meaningful only if each outcome and each kind of problem occurs often. */
    assert_true(counts.verdicts[VALID] > wanted / 10);
    assert_true(counts.verdicts[WRONG] > wanted / 2);
    assert_true(counts.verdicts[DEADLOCK] > wanted / 200);
    assert_true(counts.splits > counts.undamaged / 10 && counts.shared > counts.undamaged / 10);
    assert_true(counts.recomputes > counts.undamaged / 20 && counts.buffers > counts.undamaged / 4);
    assert_true(counts.concurrent > counts.undamaged / 50 && counts.reduces > counts.undamaged / 10);
}

/* A reader holds messages over the length of the pipeline, without spare slots: the verifier finds the required number
 * of slots instead of reporting a deadlock. */
static void test_slots_are_added_until_it_runs(void **state)
{
    const char *text = "device 0: HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 HOST_IN0.2 F0.2 SEND0.2:0 "
                       "SEND0.0:1 SEND0.1:1 SEND0.2:1\n"
                       "device 1: RECEIVE1.0:1 RECEIVE1.0:0 F1.0 HOST_OUT1.0 RECEIVE1.1:1 RECEIVE1.1:0 F1.1 "
                       "HOST_OUT1.1 RECEIVE1.2:1 RECEIVE1.2:0 F1.2 HOST_OUT1.2\n";
    bg_schedule_edge edges[2];
    test_problem test;
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    (void)state;
    assert_true(test_chain(&test, 2, 3, false));
    edges[0] = edges[1] = test.chain[0];
    test.problem.edges = edges;
    test.problem.edge_count = 2;
    test.problem.send_ahead = 0;
    assert_int_equal(bg_schedule_parse(text, NULL, &schedule, &error), BG_OK);
    if (bg_schedule_verify(schedule, &test.problem, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_schedule_edge_depth(schedule, 0), 3);
    assert_int_equal(bg_schedule_edge_depth(schedule, 1), 3);
    assert_int_equal(bg_schedule_edge_depth(schedule, 2), 0);
    assert_depths(schedule, &test.problem, 0);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_is_judged_like_the_definition),
        cmocka_unit_test(test_slots_are_added_until_it_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
