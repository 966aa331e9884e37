/*
 * test_verify.c: the verifier against a slow executor that states the definition and nothing else, over damaged copies
 * of good schedules; and the words it finds for each kind of damage.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"
#include "schedule/schedule.h"

#include <stdio.h>

/* ---- the definition, slowly ---- */

static bool is_same(const bg_action *action, bg_action_kind kind, uint32_t stage, uint32_t micro_batch, uint32_t index)
{
    return action->kind == kind && action->stage == stage && action->micro_batch == micro_batch &&
           action->index == index;
}

/* Where a device runs an action; -1 when it does not. */
static long find(const bg_schedule *schedule, uint32_t device, bg_action_kind kind, uint32_t stage,
                 uint32_t micro_batch, uint32_t index)
{
    const bg_action *actions = bg_schedule_actions(schedule, device);

    for (uint32_t i = 0; i < bg_schedule_action_count(schedule, device); i++)
        if (is_same(&actions[i], kind, stage, micro_batch, index))
            return (long)i;
    return -1;
}

/* The action is there once, on its own device; counts it into *expected. */
static bool once(const bg_schedule *schedule, const bg_schedule_problem *p, bg_action_kind kind, uint32_t stage,
                 uint32_t micro_batch, uint32_t index, size_t *expected)
{
    uint32_t found = 0;

    for (uint32_t device = 0; device < schedule->device_count; device++)
        for (uint32_t i = 0; i < bg_schedule_action_count(schedule, device); i++)
            if (is_same(&bg_schedule_actions(schedule, device)[i], kind, stage, micro_batch, index))
                found += device == p->stage_devices[stage] ? 1 : 2;
    ++*expected;
    return found == 1;
}

static bool crosses(const bg_schedule_problem *p, const bg_schedule_edge *edge)
{
    return p->stage_devices[edge->from_stage] != p->stage_devices[edge->to_stage];
}

static uint32_t edge_count_of(const bg_schedule_problem *p, const bg_schedule_edge *edge)
{
    return edge->from_kind == BG_ACTION_UPDATE ? 1 : p->micro_batch_count;
}

static bool has_kind(const bg_schedule_problem *p, bg_action_kind kind, uint32_t stage)
{
    switch (kind) {
    case BG_ACTION_FORWARD:
        return true;
    case BG_ACTION_BACKWARD:
        return p->training;
    case BG_ACTION_WEIGHTS:
        return p->training && p->splits_weights;
    case BG_ACTION_HOST_IN:
        return p->stage_host_in != NULL ? p->stage_host_in[stage] : stage == 0;
    case BG_ACTION_HOST_OUT:
        return p->stage_host_out != NULL ? p->stage_host_out[stage] : stage == p->stage_count - 1;
    default:
        return false;
    }
}

static const bg_action_kind stage_kinds[] = {BG_ACTION_HOST_IN, BG_ACTION_FORWARD, BG_ACTION_HOST_OUT,
                                             BG_ACTION_BACKWARD, BG_ACTION_WEIGHTS};
enum { STAGE_KIND_COUNT = sizeof stage_kinds / sizeof stage_kinds[0] };

static bool has_right_actions(const bg_schedule *schedule, const bg_schedule_problem *p)
{
    size_t expected = 0;

    for (uint32_t stage = 0; stage < p->stage_count; stage++) {
        for (int k = 0; k < STAGE_KIND_COUNT; k++)
            for (uint32_t m = 0; has_kind(p, stage_kinds[k], stage) && m < p->micro_batch_count; m++)
                if (!once(schedule, p, stage_kinds[k], stage, m, 0, &expected))
                    return false;
        if (p->training && p->reduces_gradients && !once(schedule, p, BG_ACTION_REDUCE, stage, 0, 0, &expected))
            return false;
        for (uint32_t level = 0; p->training && level < p->update_level_count; level++)
            if (!once(schedule, p, BG_ACTION_UPDATE, stage, 0, level, &expected))
                return false;
    }
    for (uint32_t e = 0; e < p->edge_count; e++)
        for (uint32_t m = 0; crosses(p, &p->edges[e]) && m < edge_count_of(p, &p->edges[e]); m++)
            if (!once(schedule, p, BG_ACTION_SEND, p->edges[e].from_stage, m, e, &expected) ||
                !once(schedule, p, BG_ACTION_RECEIVE, p->edges[e].to_stage, m, e, &expected))
                return false;
    return expected == bgi_schedule_total(schedule);
}

static long place(const bg_schedule *schedule, const bg_schedule_problem *p, bg_action_kind kind, uint32_t stage,
                  uint32_t m, uint32_t index)
{
    return find(schedule, p->stage_devices[stage], kind, stage, m, index);
}

static bool stages_are_ordered(const bg_schedule *schedule, const bg_schedule_problem *p)
{
    const uint32_t last = p->micro_batch_count - 1;

    for (uint32_t stage = 0; stage < p->stage_count; stage++) {
        for (int k = 0; k < STAGE_KIND_COUNT; k++) {
            for (uint32_t m = 0; has_kind(p, stage_kinds[k], stage) && m < p->micro_batch_count; m++) {
                const long at = place(schedule, p, stage_kinds[k], stage, m, 0);
                const long forward = place(schedule, p, BG_ACTION_FORWARD, stage, m, 0);
                const long backward = place(schedule, p, BG_ACTION_BACKWARD, stage, m, 0);
                if (m > 0 && place(schedule, p, stage_kinds[k], stage, m - 1, 0) > at)
                    return false;
                if (stage_kinds[k] == BG_ACTION_HOST_IN && at > forward)
                    return false;
                if ((stage_kinds[k] == BG_ACTION_HOST_OUT || stage_kinds[k] == BG_ACTION_BACKWARD) && at < forward)
                    return false;
                if (stage_kinds[k] == BG_ACTION_WEIGHTS && at < backward)
                    return false;
            }
        }
        for (uint32_t level = 0; p->training && level < p->update_level_count; level++) {
            const long at = place(schedule, p, BG_ACTION_UPDATE, stage, 0, level);
            const long reduce = place(schedule, p, BG_ACTION_REDUCE, stage, 0, 0);
            if (p->reduces_gradients &&
                (at < reduce || reduce < place(schedule, p, BG_ACTION_BACKWARD, stage, last, 0) ||
                 (p->splits_weights && reduce < place(schedule, p, BG_ACTION_WEIGHTS, stage, last, 0))))
                return false;
            if (at < place(schedule, p, BG_ACTION_BACKWARD, stage, last, 0) ||
                (p->splits_weights && at < place(schedule, p, BG_ACTION_WEIGHTS, stage, last, 0)) ||
                (level > 0 && at < place(schedule, p, BG_ACTION_UPDATE, stage, 0, level - 1)))
                return false;
        }
    }
    return true;
}

static bool edges_are_ordered(const bg_schedule *schedule, const bg_schedule_problem *p)
{
    for (uint32_t e = 0; e < p->edge_count; e++) {
        const bg_schedule_edge *edge = &p->edges[e];
        for (uint32_t m = 0; m < edge_count_of(p, edge); m++) {
            const bool is_update = edge->from_kind == BG_ACTION_UPDATE;
            const long from =
                place(schedule, p, edge->from_kind, edge->from_stage, m, is_update ? edge->from_level : 0);
            const long to = place(schedule, p, edge->to_kind, edge->to_stage, m, is_update ? edge->to_level : 0);
            const long send = place(schedule, p, BG_ACTION_SEND, edge->from_stage, m, e);
            const long receive = place(schedule, p, BG_ACTION_RECEIVE, edge->to_stage, m, e);
            if (!crosses(p, edge)) {
                if (from > to)
                    return false;
                continue;
            }
            if (from > send || receive > to)
                return false;
            if (m > 0 && (place(schedule, p, BG_ACTION_SEND, edge->from_stage, m - 1, e) > send ||
                          place(schedule, p, BG_ACTION_RECEIVE, edge->to_stage, m - 1, e) > receive))
                return false;
        }
    }
    return true;
}

enum { MOST_NUMBERS = 32 };

typedef struct slow_state {
    bool is_sent[MOST_EDGES][MOST_NUMBERS];
    bool is_consumed[MOST_EDGES][MOST_NUMBERS];
} slow_state;

static bool slow_try(const bg_schedule_problem *p, const bg_action *a, uint32_t step, const uint32_t *depths,
                     slow_state *state)
{
    const uint32_t count = a->kind == BG_ACTION_UPDATE ? 1 : p->micro_batch_count;
    uint32_t n = step * count + a->micro_batch;

    if (a->kind == BG_ACTION_SEND || a->kind == BG_ACTION_RECEIVE) {
        n = step * edge_count_of(p, &p->edges[a->index]) + a->micro_batch;
        if (a->kind == BG_ACTION_SEND)
            state->is_sent[a->index][n] = true;
        return state->is_sent[a->index][n];
    }
    for (uint32_t e = 0; e < p->edge_count; e++) {
        const bg_schedule_edge *edge = &p->edges[e];
        if (edge->from_kind == a->kind && edge->from_stage == a->stage &&
            (a->kind != BG_ACTION_UPDATE || edge->from_level == a->index) && n >= depths[e] &&
            !state->is_consumed[e][n - depths[e]])
            return false;
    }
    for (uint32_t e = 0; e < p->edge_count; e++) {
        const bg_schedule_edge *edge = &p->edges[e];
        if (edge->last_kind == a->kind && edge->to_stage == a->stage &&
            (a->kind != BG_ACTION_UPDATE || edge->to_level == a->index))
            state->is_consumed[e][n] = true;
    }
    return true;
}

/* Sweeps over the devices until nothing moves; true when all came to their end. */
static bool slow_run(const bg_schedule *schedule, const bg_schedule_problem *p, uint32_t steps, const uint32_t *depths)
{
    static slow_state state;
    uint32_t at[16] = {0};
    bool moves = true;

    memset(&state, 0, sizeof state);
    while (moves) {
        moves = false;
        for (uint32_t device = 0; device < schedule->device_count; device++) {
            const uint32_t count = bg_schedule_action_count(schedule, device);
            while (at[device] < steps * count && slow_try(p, &bg_schedule_actions(schedule, device)[at[device] % count],
                                                          at[device] / count, depths, &state)) {
                at[device]++;
                moves = true;
            }
        }
    }
    for (uint32_t device = 0; device < schedule->device_count; device++)
        if (at[device] < steps * bg_schedule_action_count(schedule, device))
            return false;
    return true;
}

typedef enum verdict { RIGHT, WRONG_ORDER, DEADLOCK } verdict;

static verdict judge(const bg_schedule *schedule, const bg_schedule_problem *p)
{
    uint32_t unlimited[MOST_EDGES];

    for (uint32_t e = 0; e < MOST_EDGES; e++)
        unlimited[e] = MOST_NUMBERS;
    if (schedule->device_count != p->device_count || !has_right_actions(schedule, p) ||
        !stages_are_ordered(schedule, p) || !edges_are_ordered(schedule, p))
        return WRONG_ORDER;
    return slow_run(schedule, p, 1, unlimited) ? RIGHT : DEADLOCK;
}

/* What the receiving device holds at once: micro-batches whose message came (or that were made) and are still to be
 * read at some place of its list. */
static uint32_t count_held(const bg_schedule *schedule, const bg_schedule_problem *p, uint32_t e)
{
    const bg_schedule_edge *edge = &p->edges[e];
    const bool is_update = edge->from_kind == BG_ACTION_UPDATE;
    const uint32_t device = p->stage_devices[edge->to_stage];
    uint32_t most = 0;

    for (long at = 0; at < (long)bg_schedule_action_count(schedule, device); at++) {
        uint32_t held = 0;
        for (uint32_t m = 0; m < edge_count_of(p, edge); m++) {
            const long begin = crosses(p, edge) ? find(schedule, device, BG_ACTION_RECEIVE, edge->to_stage, m, e)
                                                : find(schedule, device, edge->from_kind, edge->from_stage, m,
                                                       is_update ? edge->from_level : 0);
            const long end = find(schedule, device, edge->last_kind, edge->to_stage, m, is_update ? edge->to_level : 0);
            held += begin <= at && at <= end;
        }
        most = held > most ? held : most;
    }
    return most;
}

static void assert_depths(const bg_schedule *schedule, const bg_schedule_problem *p, uint64_t seed)
{
    uint32_t depths[MOST_EDGES];

    for (uint32_t e = 0; e < p->edge_count; e++) {
        const uint32_t held = count_held(schedule, p, e);
        depths[e] = bg_schedule_edge_depth(schedule, e);
        if (crosses(p, &p->edges[e]) ? depths[e] < held : depths[e] != held)
            fail_msg("seed %llu: edge %u has depth %u, but its device holds %u", (unsigned long long)seed, (unsigned)e,
                     (unsigned)depths[e], (unsigned)held);
        assert_in_range(depths[e], 1, edge_count_of(p, &p->edges[e]));
    }
    if (!slow_run(schedule, p, 2, depths))
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

/* One change; most often a swap or a move, which keep the set of actions and so get further into the verifier. */
static void damage(bg_schedule *schedule, const bg_schedule_problem *p, uint64_t *random)
{
    const uint32_t device = test_random(random, schedule->device_count);
    bgi_schedule_list *list = &schedule->lists[device];
    bg_action taken;
    uint32_t a, b;

    if (list->count < 2)
        return;
    a = test_random(random, (uint32_t)list->count);
    b = test_random(random, (uint32_t)list->count);
    taken = list->actions[a];
    switch (test_random(random, 12)) {
    case 0: /* delete */
        remove_at(list, a);
        break;
    case 1: /* duplicate, perhaps elsewhere */
        insert_at(schedule, test_random(random, schedule->device_count), 0, taken);
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
    case 6: /* to another device's end */
        remove_at(list, a);
        assert_int_equal(bg_schedule_emit(schedule, test_random(random, schedule->device_count), taken, NULL), BG_OK);
        break;
    case 7:
    case 8: /* swap */
        list->actions[a] = list->actions[b];
        list->actions[b] = taken;
        break;
    case 9: /* swap neighbours */
        b = a + 1 < list->count ? a + 1 : a - 1;
        list->actions[a] = list->actions[b];
        list->actions[b] = taken;
        break;
    default: /* move */
        remove_at(list, a);
        insert_at(schedule, device, b < list->count ? b : list->count, taken);
    }
}

static bool was_called_deadlock(const bg_error *error)
{
    return strncmp(error->message, "deadlock: ", 10) == 0;
}

static void test_damage_is_judged_like_the_definition(void **state)
{
    const uint64_t seed_count = getenv("BRIGADE_TEST_ALL") != NULL ? 60000 : 6000;
    uint32_t counts[3] = {0};

    (void)state;
    for (uint64_t seed = 0; seed < seed_count; seed++) {
        const bg_schedule_generator *generator = bg_schedule_generator_at(1 + (uint32_t)(seed % 14));
        uint64_t random = test_seed(seed + 77);
        test_problem test;
        bg_schedule *good = NULL, *damaged;
        bg_error error = {0};
        verdict expected;

        test_random_problem_for(&test, seed, generator);
        if (bg_schedule_create(&test.problem, generator, &good, &error) != BG_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
        if (seed % 10 == 0)
            assert_depths(good, &test.problem, seed);
        damaged = copy_schedule(good);
        for (uint32_t times = 1 + test_random(&random, 2); times > 0; times--)
            damage(damaged, &test.problem, &random);
        expected = judge(damaged, &test.problem);
        counts[expected]++;
        if ((bg_schedule_verify(damaged, &test.problem, &error) == BG_OK) != (expected == RIGHT) ||
            was_called_deadlock(&error) != (expected == DEADLOCK))
            fail_msg("seed %llu, %s: the definition says %d, the verifier \"%s\"", (unsigned long long)seed,
                     generator->name, (int)expected, error.message);
        if (expected == RIGHT)
            assert_depths(damaged, &test.problem, seed);
        bg_schedule_destroy(damaged);
        bg_schedule_destroy(good);
    }
    /* The comparison means something only when each verdict is met often. */
    assert_true(counts[RIGHT] > seed_count / 50);
    assert_true(counts[WRONG_ORDER] > 2000);
    assert_true(counts[DEADLOCK] > seed_count / 300);
}

/* ---- messages ---- */

static const char *const good_text = "device 0: HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 "
                                     "RECEIVE0.0:1 B0.0 RECEIVE0.1:1 B0.1 U0:0\n"
                                     "device 1: RECEIVE1.0:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1 "
                                     "RECEIVE1.1:0 F1.1 HOST_OUT1.1 B1.1 SEND1.1:1 U1:0\n";

/* Verifies good_text with `old` replaced by `new`; the error must contain `expected` (NULL: there must be none). */
static void assert_verdict(const char *old, const char *new, const char *expected)
{
    const char *at = strstr(good_text, old);
    char text[1024];
    test_problem test;
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good_text), good_text, new, at + strlen(old));
    assert_true(test_chain(&test, 2, 2, true));
    assert_int_equal(bg_schedule_parse(text, NULL, &schedule, &error), BG_OK);
    assert_int_equal(bg_schedule_verify(schedule, &test.problem, &error), expected == NULL ? BG_OK : BG_ERROR_INVALID);
    if (expected != NULL && strstr(error.message, expected) == NULL)
        fail_msg("\"%s\" is not in: %s", expected, error.message);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

static void test_messages(void **state)
{
    (void)state;
    assert_verdict("F0.0", "F0.0", NULL);
    assert_verdict("U1:0\n", "\n", "device 1 lacks U1:0");
    assert_verdict("B0.1 U0:0", "B0.1 B0.1 U0:0", "device 0, action 10 (B0.1) is there before, as action 9");
    assert_verdict("B0.1 U0:0", "B0.1 U0:0 F1.0", "device 0, action 11 (F1.0): stage 1 is on device 1");
    assert_verdict("F0.0 ", "F0.7 ", "(F0.7) is not part of the problem");
    assert_verdict("F0.0 ", "W0.0 ", "(W0.0) is not part of the problem");
    assert_verdict("F0.0 ", "F9.0 ", "(F9.0) is not part of the problem, which has 2 stages, 2 micro-batches, 4 edges");
    assert_verdict("SEND0.0:0", "SEND0.0:4000000000", "(SEND0.0:4000000000) is not part of the problem");
    assert_verdict("SEND0.0:0", "SEND0.0:2", "(SEND0.0:2) is not part of the problem"); /* a stash is not sent */
    assert_verdict("F0.0 ", "F0.0:1 ", "(F0.0:1) is not part of the problem");
    assert_verdict("F0.0 ", "LOAD0.0:1 ", "(LOAD0.0:1) is not part of the problem");
    assert_verdict("SEND0.0:0 ", "", "device 0 lacks SEND0.0:0");
    assert_verdict("HOST_IN0.0 F0.0", "F0.0 HOST_IN0.0", "(F0.0) must come after HOST_IN0.0");
    assert_verdict("F1.0 HOST_OUT1.0", "HOST_OUT1.0 F1.0", "(HOST_OUT1.0) must come after F1.0");
    assert_verdict(
        "RECEIVE1.0:0 F1.0", "F1.0 RECEIVE1.0:0",
        "edge 0: device 1, action 0 (F1.0) must come after RECEIVE1.0:0, action 1: a value must be received");
    assert_verdict("F0.0 SEND0.0:0", "SEND0.0:0 F0.0", "(SEND0.0:0) must come after F0.0");
    assert_verdict("B0.1 U0:0", "U0:0 B0.1", "an update needs the gradients of all micro-batches");
    assert_verdict("F1.0 HOST_OUT1.0 B1.0", "B1.0 F1.0 HOST_OUT1.0", "a backward needs its forward");
    assert_verdict("HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0",
                   "HOST_IN0.0 HOST_IN0.1 F0.1 SEND0.1:0 F0.0 SEND0.0:0", "(F0.1) comes before F0.0");
    assert_verdict("SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0", "HOST_IN0.1 F0.1 SEND0.1:0 SEND0.0:0",
                   "(SEND0.1:0) comes before SEND0.0:0");
    assert_verdict("\ndevice 1: RECEIVE1.0:0", "\ndevice 1:\ndevice 2: RECEIVE1.0:0",
                   "the schedule has 3 devices, but the problem has 2");
}

static void test_deadlock_is_described(void **state)
{
    (void)state;
    /* Device 0 wants the gradient of micro-batch 0 before it sends what that gradient is made from. */
    assert_verdict("F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 RECEIVE0.0:1 B0.0",
                   "F0.0 RECEIVE0.0:1 B0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0",
                   "deadlock: in step 0 device 0, action 2 (RECEIVE0.0:1), micro-batch 0, waits for the message of "
                   "edge 1 by B1.0 on device 1, which waits as well");
    /* Receiving early is odd but right; the messages are then held longer. */
    assert_verdict("RECEIVE1.0:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1 RECEIVE1.1:0",
                   "RECEIVE1.0:0 RECEIVE1.1:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1", NULL);
}

/* A reader that holds messages over the length of the pipeline, and no slots to spare: the verifier finds the slots
 * that are needed rather than calling it a deadlock. */
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

static bg_status emit_nonsense(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    (void)problem;
    return bg_schedule_emit(schedule, 0, (bg_action){.kind = BG_ACTION_FORWARD, .stage = 4000000000u}, error);
}

static bg_status emit_on_missing_device(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return bg_schedule_emit(schedule, problem->device_count, (bg_action){0}, error);
}

static bg_status emit_unknown_kind(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    (void)problem;
    return bg_schedule_emit(schedule, 0, (bg_action){.kind = (bg_action_kind)99}, error);
}

static void test_bad_generators_are_refused(void **state)
{
    const struct {
        bg_schedule_generator generator;
        const char *expected;
    } rows[] = {
        {{.name = "mine", .generate = emit_nonsense}, "mine schedule: device 0, action 0 (F4000000000.0) is not part"},
        {{.name = "mine", .generate = emit_on_missing_device},
         "mine schedule: an action for device 2, but there are 2"},
        {{.generate = emit_unknown_kind}, "unnamed schedule: device 0: 99 is not an action kind"},
    };
    test_problem test;

    (void)state;
    assert_true(test_chain(&test, 2, 2, true));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bg_schedule *schedule = NULL;
        bg_error error = {0};
        assert_int_equal(bg_schedule_create(&test.problem, &rows[i].generator, &schedule, &error), BG_ERROR_INVALID);
        assert_null(schedule);
        if (strstr(error.message, rows[i].expected) == NULL)
            fail_msg("\"%s\" is not in: %s", rows[i].expected, error.message);
    }
    test_problem_clear(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_is_judged_like_the_definition),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_deadlock_is_described),
        cmocka_unit_test(test_slots_are_added_until_it_runs),
        cmocka_unit_test(test_bad_generators_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
