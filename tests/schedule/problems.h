/*
 * problems.h: scheduling problems for tests: chains written by hand, and random problems from a seed.
 */
#ifndef TESTS_SCHEDULE_PROBLEMS_H
#define TESTS_SCHEDULE_PROBLEMS_H

#include <brigade/schedule.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_STAGES = 16, MOST_EDGES = 64 };

/* A problem with its arrays inside; it must not be copied. */
typedef struct test_problem {
    bg_schedule_problem problem;
    uint32_t devices[MOST_STAGES * 32]; /* the largest number of stages of a chain */
    uint32_t positions[MOST_STAGES];
    uint32_t phases[MOST_STAGES];
    bg_schedule_edge edges[MOST_EDGES];
    bool host_in[MOST_STAGES];
    bool host_out[MOST_STAGES];
    bool gathers[MOST_STAGES];
    bool recomputes[MOST_STAGES];
    bg_schedule_edge *chain; /* malloc'ed */
} test_problem;

/* Makes a chain, with stage i on device i. */
static inline bool test_chain(test_problem *test, uint32_t stage_count, uint32_t micro_batch_count, bool training)
{
    memset(test, 0, sizeof *test);
    test->problem = bg_schedule_problem_defaults();
    test->problem.stage_count = stage_count;
    test->problem.device_count = stage_count;
    test->problem.micro_batch_count = micro_batch_count;
    test->problem.training = training;
    test->problem.stage_devices = test->devices;
    for (uint32_t stage = 0; stage < stage_count; stage++)
        test->devices[stage] = stage;
    return bg_schedule_problem_chain(&test->problem, 64, &test->chain, NULL) == BG_OK;
}

static inline void test_problem_clear(test_problem *test)
{
    free(test->chain);
    test->chain = NULL;
}

/* Returns a number of xorshift64*, so that a seed gives the same problem on every machine. */
static inline uint32_t test_random(uint64_t *state, uint32_t below)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * 2685821657736338717ull) >> 33) % below;
}

static inline uint64_t test_seed(uint64_t number)
{
    return number * 0x9e3779b97f4a7c15ull + 1;
}

static inline void test_add_edge(test_problem *test, bg_schedule_edge edge)
{
    if (test->problem.edge_count == MOST_EDGES)
        return;
    test->edges[test->problem.edge_count++] = edge;
}

static inline uint32_t test_position(const bg_schedule_problem *p, uint32_t stage)
{
    return p->stage_positions != NULL ? p->stage_positions[stage] : stage;
}

/* Adds edges of a chain with random last readers, skips over stages (forward, and backward for the gradient), and
 * update levels. */
static inline void test_random_edges(test_problem *test, uint64_t *random)
{
    bg_schedule_problem *p = &test->problem;
    const bg_action_kind last = p->splits_weights ? BG_ACTION_WEIGHTS : BG_ACTION_BACKWARD;

    for (uint32_t a = 0; a < p->stage_count; a++)
        for (uint32_t b = a + 1; b < p->stage_count; b++) {
            const bool keeps_inputs = p->training && test_random(random, 3) == 0;
            if ((b > a + 1 && test_random(random, 6) != 0) || test_position(p, a) == test_position(p, b))
                continue;
            test_add_edge(test, (bg_schedule_edge){.from_kind = BG_ACTION_FORWARD,
                                                   .from_stage = a,
                                                   .to_kind = BG_ACTION_FORWARD,
                                                   .last_kind = keeps_inputs ? last : BG_ACTION_FORWARD,
                                                   .to_stage = b,
                                                   .size_bytes = 64});
            if (p->training)
                test_add_edge(test, (bg_schedule_edge){.from_kind = BG_ACTION_BACKWARD,
                                                       .from_stage = b,
                                                       .to_kind = BG_ACTION_BACKWARD,
                                                       .last_kind = last,
                                                       .to_stage = a,
                                                       .size_bytes = 64});
        }
    for (uint32_t a = 0; p->training && a < p->stage_count; a++) {
        const bool recomputes = p->stage_recomputes != NULL && p->stage_recomputes[a];
        if (recomputes)
            test_add_edge(test, (bg_schedule_edge){.from_kind = BG_ACTION_FORWARD,
                                                   .from_stage = a,
                                                   .to_kind = BG_ACTION_RECOMPUTE,
                                                   .last_kind = a % 2 == 0 ? BG_ACTION_RECOMPUTE : last,
                                                   .to_stage = a});
        /* Without this edge, only the stage determines the order of the two actions. */
        if (test_random(random, 4) != 0)
            test_add_edge(test, (bg_schedule_edge){.from_kind = recomputes ? BG_ACTION_RECOMPUTE : BG_ACTION_FORWARD,
                                                   .from_stage = a,
                                                   .to_kind = BG_ACTION_BACKWARD,
                                                   .last_kind = last,
                                                   .to_stage = a});
        for (uint32_t level = 0; level + 1 < p->update_level_count; level++)
            if (test_random(random, 4) != 0)
                test_add_edge(test, (bg_schedule_edge){.from_kind = BG_ACTION_UPDATE,
                                                       .from_stage = a,
                                                       .from_level = level,
                                                       .to_kind = BG_ACTION_UPDATE,
                                                       .last_kind = BG_ACTION_UPDATE,
                                                       .to_stage = test_random(random, p->stage_count),
                                                       .to_level = level + 1});
    }
}

/* Makes some neighbors concurrent that are on different devices. */
static inline void test_random_positions(test_problem *test, uint64_t *random)
{
    bg_schedule_problem *p = &test->problem;

    for (uint32_t stage = 1; stage < p->stage_count; stage++) {
        bool is_alone = test_random(random, 2) == 0;
        for (uint32_t other = stage; other-- > 0 && test->positions[other] == test->positions[stage - 1];)
            is_alone = is_alone || test->devices[other] == test->devices[stage];
        test->positions[stage] = test->positions[stage - 1] + (is_alone ? 1 : 0);
    }
    p->stage_positions = test->positions;
    if (test_random(random, 2) == 0)
        return;
    for (uint32_t stage = 1; stage < p->stage_count; stage++)
        test->phases[stage] =
            test->phases[stage - 1] +
            (test->positions[stage] != test->positions[stage - 1] && test_random(random, 2) == 0 ? 1 : 0);
    p->stage_phases = test->phases;
}

/* Draws all fields except stages, devices and positions. */
static inline void test_random_rest(test_problem *test, uint64_t *random, bool splits_weights)
{
    bg_schedule_problem *p = &test->problem;
    const bool recomputes = test_random(random, 5) == 0;

    p->micro_batch_count = 1 + test_random(random, 9);
    p->training = test_random(random, 4) != 0;
    p->splits_weights = p->training && (test_random(random, 2) == 0 || splits_weights);
    p->merges_loss = test_random(random, 2) == 0;
    p->update_level_count = 1 + test_random(random, 3);
    p->reduces_gradients = p->training && test_random(random, 3) == 0;
    p->send_ahead = test_random(random, 3);
    p->stage_devices = test->devices;
    p->edges = test->edges;
    for (uint32_t stage = 0; stage < p->stage_count; stage++) {
        test->host_in[stage] = test_random(random, 2) == 0;
        test->host_out[stage] = test_random(random, 2) == 0;
    }
    for (uint32_t stage = 0; recomputes && stage < p->stage_count; stage++)
        test->recomputes[stage] = test_random(random, 2) == 0;
    p->stage_recomputes = recomputes ? test->recomputes : NULL;
    if (test_random(random, 2) == 0) {
        p->stage_host_in = test->host_in;
        p->stage_host_out = test->host_out;
    }
    test_random_edges(test, random);
    for (uint32_t stage = 0; stage < p->stage_count; stage++)
        test->gathers[stage] = test_random(random, 2) == 0;
    if (p->reduces_gradients)
        p->stage_gathers = test->gathers;
}

/* Makes a random problem of a kind that the strategy accepts, with concurrent stages if the strategy accepts these. */
static inline void test_random_problem_for(test_problem *test, uint64_t seed, const bg_schedule_generator *generator)
{
    static const char *const own_devices[] = {"interleaved", "zb-h1", "zb-h2"};
    uint64_t random = test_seed(seed + 1);
    bg_schedule_problem *p = &test->problem;
    const bool is_looped = strcmp(generator->name, "looped") == 0 || strcmp(generator->name, "looped-zb") == 0;
    const bool is_fold = generator->placement == BG_PLACEMENT_FOLD;
    bool is_distinct = false;

    for (int i = 0; i < 3; i++)
        is_distinct = is_distinct || strcmp(generator->name, own_devices[i]) == 0;
    memset(test, 0, sizeof *test);
    *p = bg_schedule_problem_defaults();
    p->device_count = strcmp(generator->name, "single") == 0 ? 1 : 1 + test_random(&random, 4);
    p->stage_count = is_looped     ? p->device_count * (1 + test_random(&random, 3))
                     : is_fold     ? 2 * p->device_count
                     : is_distinct ? p->device_count
                                   : 1 + test_random(&random, 6);
    for (uint32_t stage = 0; stage < p->stage_count; stage++)
        test->devices[stage] = is_fold && stage >= p->device_count   ? p->stage_count - 1 - stage
                               : is_looped || is_fold || is_distinct ? (stage + 1) % p->device_count
                                                                     : test_random(&random, p->device_count);
    for (uint32_t stage = 0; is_fold && stage < p->device_count; stage++)
        test->devices[stage] = stage;
    if (!is_looped && !is_fold && test_random(&random, 2) == 0)
        test_random_positions(test, &random);
    test_random_rest(test, &random, generator->splits_weights);
}

#endif
