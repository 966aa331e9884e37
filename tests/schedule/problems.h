/*
 * problems.h: scheduling problems for tests: chains made by hand and random ones made from a seed.
 */
#ifndef TESTS_SCHEDULE_PROBLEMS_H
#define TESTS_SCHEDULE_PROBLEMS_H

#include <brigade/schedule.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_STAGES = 8, MOST_EDGES = 64 };

/* A problem with its arrays inside; must not be copied. */
typedef struct test_problem {
    bg_schedule_problem problem;
    uint32_t devices[MOST_STAGES * 32];
    bg_schedule_edge edges[MOST_EDGES];
    bool host_in[MOST_STAGES];
    bool host_out[MOST_STAGES];
    bg_schedule_edge *chain; /* malloc'ed */
} test_problem;

/* Stage i on device i, the edges of a chain. */
static inline bool test_chain(test_problem *test, uint32_t stage_count, uint32_t micro_batch_count, bool training)
{
    memset(test, 0, sizeof *test);
    bg_schedule_problem_init(&test->problem);
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

/* xorshift64*; a seed gives the same problem everywhere. */
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

/* Edges of a chain with random last readers, skips over stages (forward, and the gradient back), update levels. */
static inline void test_random_edges(test_problem *test, uint64_t *random)
{
    bg_schedule_problem *p = &test->problem;
    const bg_action_kind last = p->splits_weights ? BG_ACTION_WEIGHTS : BG_ACTION_BACKWARD;

    for (uint32_t a = 0; a < p->stage_count; a++)
        for (uint32_t b = a + 1; b < p->stage_count; b++) {
            const bool keeps_inputs = p->training && test_random(random, 3) == 0;
            if (b > a + 1 && test_random(random, 6) != 0)
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
        test_add_edge(test, (bg_schedule_edge){.from_kind = BG_ACTION_FORWARD,
                                               .from_stage = a,
                                               .to_kind = BG_ACTION_BACKWARD,
                                               .last_kind = last,
                                               .to_stage = a});
        for (uint32_t level = 0; level + 1 < p->update_level_count; level++)
            test_add_edge(test, (bg_schedule_edge){.from_kind = BG_ACTION_UPDATE,
                                                   .from_stage = a,
                                                   .from_level = level,
                                                   .to_kind = BG_ACTION_UPDATE,
                                                   .last_kind = BG_ACTION_UPDATE,
                                                   .to_stage = test_random(random, p->stage_count),
                                                   .to_level = level + 1});
    }
}

/* distinct_devices: one stage per device, as interleaved training wants it. */
static inline void test_random_problem(test_problem *test, uint64_t seed, bool distinct_devices)
{
    uint64_t random = test_seed(seed);
    bg_schedule_problem *p = &test->problem;

    memset(test, 0, sizeof *test);
    bg_schedule_problem_init(p);
    p->stage_count = 1 + test_random(&random, 6);
    p->device_count = distinct_devices ? p->stage_count + test_random(&random, 2) : 1 + test_random(&random, 4);
    p->micro_batch_count = 1 + test_random(&random, 9);
    p->training = test_random(&random, 4) != 0;
    p->splits_weights = p->training && test_random(&random, 2) == 0;
    p->merges_loss = test_random(&random, 2) == 0;
    p->update_level_count = 1 + test_random(&random, 3);
    p->reduces_gradients = p->training && test_random(&random, 3) == 0;
    p->send_ahead = test_random(&random, 3);
    p->stage_devices = test->devices;
    p->edges = test->edges;
    for (uint32_t stage = 0; stage < p->stage_count; stage++) {
        test->devices[stage] = distinct_devices ? (stage + 1) % p->device_count : test_random(&random, p->device_count);
        test->host_in[stage] = test_random(&random, 2) == 0;
        test->host_out[stage] = test_random(&random, 2) == 0;
    }
    if (test_random(&random, 2) == 0) {
        p->stage_host_in = test->host_in;
        p->stage_host_out = test->host_out;
    }
    test_random_edges(test, &random);
}

#endif
