/*
 * test_strict.c: for a strict problem, the simulated actions of a step are one sequence over all devices, in the order
 * of the data flow. The timetable shows the same sequence.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade/schedule.h>

#include "schedule/schedule.h"

enum { MOST_STAGES = 5, MOST_DEVICES = 5 };

typedef struct made {
    bg_schedule_problem problem;
    bg_schedule_edge *edges;
    bg_schedule *schedule;
    bg_stage_cost costs[MOST_STAGES];
    bool recomputes[MOST_STAGES];
    uint32_t devices[MOST_STAGES];
    bg_schedule_buffer buffers[MOST_STAGES];
} made;

/* Makes a schedule for stages that are assigned to devices in turn, with remote weights and different costs. */
static void make(made *m, const char *name, uint32_t stages, uint32_t devices, uint32_t micro_batches, bool training,
                 bool strict)
{
    bg_error error = {0};

    memset(m, 0, sizeof *m);
    m->problem = bg_schedule_problem_defaults();
    m->problem.stage_count = stages;
    m->problem.device_count = devices;
    m->problem.stage_devices = m->devices;
    m->problem.micro_batch_count = micro_batches;
    m->problem.training = training;
    m->problem.is_strict = strict;
    m->problem.costs = m->costs;
    m->problem.bytes_per_ns = 2.0;
    m->problem.buffers = m->buffers;
    m->problem.buffer_count = stages;
    m->problem.remote_bytes_per_ns = 4.0;
    if (training)
        m->problem.stage_recomputes = m->recomputes;
    for (uint32_t s = 0; s < stages; s++) {
        m->devices[s] = s % devices;
        m->recomputes[s] = s == 1;
        m->buffers[s] = (bg_schedule_buffer){.stage = s,
                                             .reads = 1u << BG_ACTION_FORWARD,
                                             .writes = training ? 1u << BG_ACTION_UPDATE : 0,
                                             .size_bytes = 32};
        m->costs[s] = (bg_stage_cost){
            .forward_ns = 3 + s, .backward_ns = 5 + 2 * s, .update_ns = 1 + s, .recompute_ns = s == 1 ? 4 : 0};
    }
    assert_int_equal(bg_schedule_problem_chain(&m->problem, 8, &m->edges, NULL), BG_OK);
    if (bg_schedule_create(&m->problem, bg_schedule_generator_find(name), &m->schedule, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void clear(made *m)
{
    bg_schedule_destroy(m->schedule);
    free(m->edges);
}

/* Returns the number of pairs of events on two devices that overlap in time. A waiting RECEIVE has no separate step. */
static size_t count_overlaps(const bg_schedule_timing *timing)
{
    size_t overlaps = 0;

    for (size_t i = 0; i < timing->event_count; i++)
        for (size_t j = 0; j < i; j++)
            overlaps += timing->events[i].device != timing->events[j].device &&
                        timing->events[i].start < timing->events[j].end &&
                        timing->events[j].start < timing->events[i].end;
    return overlaps;
}

/* Returns the sum of the durations of all actions, with transfers and messages. */
static double sum_of_all(const made *m)
{
    double sum = 0.0;

    for (uint32_t device = 0; device < m->problem.device_count; device++)
        for (uint32_t i = 0; i < bg_schedule_action_count(m->schedule, device); i++) {
            const bg_action *action = &bg_schedule_actions(m->schedule, device)[i];
            sum += bgi_schedule_cost(&m->problem, action);
            if (action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE)
                sum += (double)m->problem.buffers[action->index].size_bytes / m->problem.remote_bytes_per_ns;
            if (action->kind == BG_ACTION_RECEIVE && m->problem.bytes_per_ns > 0)
                sum += (double)m->problem.edges[action->index].size_bytes / m->problem.bytes_per_ns;
        }
    return sum;
}

static void a_step_is_one_sequence(void **state)
{
    (void)state;
    for (int sequential = 0; sequential < 2; sequential++)
        for (uint32_t stages = 1; stages <= MOST_STAGES; stages++)
            for (uint32_t devices = 1; devices <= stages; devices++)
                for (int training = 0; training < 2; training++) {
                    bg_schedule_timing strict, loose;
                    made m, other;
                    make(&m, sequential ? "sequential" : "sharded", stages, devices, 4, training != 0, true);
                    make(&other, sequential ? "sequential" : "sharded", stages, devices, 4, training != 0, false);
                    assert_int_equal(bg_schedule_simulate(m.schedule, &m.problem, &strict, NULL), BG_OK);
                    assert_int_equal(bg_schedule_simulate(other.schedule, &other.problem, &loose, NULL), BG_OK);
                    assert_int_equal(count_overlaps(&strict), 0);
                    assert_true(strict.makespan <= sum_of_all(&m));
                    assert_true(strict.makespan >= loose.makespan);
                    /* If the problem is not strict, devices overlap; in inference each device continues with the next
                     * micro-batch. */
                    if (devices > 1)
                        assert_true(count_overlaps(&loose) > 0);
                    /* A message may be in transit while the receiving device runs another forward. */
                    bg_schedule_timing_clear(&strict);
                    m.problem.bytes_per_ns = 0.0;
                    assert_int_equal(bg_schedule_simulate(m.schedule, &m.problem, &strict, NULL), BG_OK);
                    assert_true(strict.makespan == sum_of_all(&m));
                    bg_schedule_timing_clear(&strict);
                    bg_schedule_timing_clear(&loose);
                    clear(&m);
                    clear(&other);
                }
}

/* In inference, the timetable has one micro-batch after the other. */
static void the_timetable_shows_it(void **state)
{
    static const char inference[] = "step 0  1  2  3\n"
                                    "dev0 F0 .  F1 .\n"
                                    "dev1 .  F0 .  F1\n";
    char *text = NULL;
    made m;

    (void)state;
    make(&m, "sharded", 2, 2, 2, false, true);
    assert_int_equal(bg_schedule_timetable(m.schedule, &m.problem, &text, NULL), BG_OK);
    assert_string_equal(text, inference);
    free(text);
    clear(&m);
}

/* The verifier also checks the turns of lists from other sources; turns name each device once for each of its
 * actions. */
static void lists_from_a_text_are_verified(void **state)
{
    uint32_t counts[MOST_DEVICES] = {0};
    bg_schedule *read = NULL;
    char *text = NULL;
    made m;

    (void)state;
    make(&m, "sequential", 4, 3, 3, true, true);
    assert_int_equal(bg_schedule_print(m.schedule, &text, NULL), BG_OK);
    assert_int_equal(bg_schedule_parse(text, "text", &read, NULL), BG_OK);
    assert_null(read->turns);
    assert_int_equal(bg_schedule_verify(read, &m.problem, NULL), BG_OK);
    assert_non_null(read->turns);
    for (size_t i = 0; i < bgi_schedule_total(read); i++) {
        assert_int_equal(read->turns[i], m.schedule->turns[i]);
        counts[read->turns[i]]++;
    }
    for (uint32_t device = 0; device < 3; device++)
        assert_int_equal(counts[device], bg_schedule_action_count(read, device));
    free(text);
    bg_schedule_destroy(read);
    clear(&m);
}

/* Only three of the generators run one action at a time. The others accept a strict problem only on one device. */
static void the_rest_refuses(void **state)
{
    uint32_t accepted = 0;

    (void)state;
    for (uint32_t g = 0; bg_schedule_generator_at(g) != NULL; g++)
        accepted += bg_schedule_generator_at(g)->one_at_a_time;
    assert_int_equal(accepted, 3);
    for (uint32_t devices = 1; devices <= 2; devices++) {
        static const uint32_t stage_devices[2][2] = {{0, 0}, {0, 1}};
        bg_schedule_problem problem;
        bg_schedule_edge *edges = NULL;
        bg_schedule *schedule = NULL;
        bg_error error = {0};
        problem = bg_schedule_problem_defaults();
        problem.stage_count = 2;
        problem.device_count = devices;
        problem.stage_devices = stage_devices[devices - 1];
        problem.micro_batch_count = 2;
        problem.is_strict = true;
        assert_int_equal(bg_schedule_problem_chain(&problem, 8, &edges, NULL), BG_OK);
        assert_int_equal(bg_schedule_create(&problem, bg_schedule_generator_find("gpipe"), &schedule, &error),
                         devices == 1 ? BG_OK : BG_ERROR_INVALID);
        assert_true(devices == 1 || strstr(error.message, "choose \"sharded\" or \"sequential\"") != NULL);
        bg_schedule_destroy(schedule);
        free(edges);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_one_sequence),
        cmocka_unit_test(the_timetable_shows_it),
        cmocka_unit_test(lists_from_a_text_are_verified),
        cmocka_unit_test(the_rest_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
