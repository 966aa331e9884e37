/*
 * test_session.c: tests weights that sessions share, initial values, optimizer settings, and traces.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/session.h>

#include "core/clock.h"
#include "support/toy_plan.h"

enum { MOST_VALUES = 64 * TOY_WIDTH };

/* A plan, a session that runs it, and arrays for the session's runs, with outputs of all micro-batches. */
typedef struct rig {
    toy_options options;
    bg_plan *plan;
    bg_session *session;
    float inputs[MOST_VALUES], outputs[MOST_VALUES], expected[MOST_VALUES];
    size_t output_bytes;
} rig;

/* Creates a session and arrays for the existing plan of `r`, which the test may have changed. */
static void open_rig(rig *r, const toy_options *options, bg_weights *weights)
{
    bg_error error = {0};

    r->options = *options;
    if (r->plan == NULL)
        r->plan = toy_plan_create(options);
    assert_non_null(r->plan);
    if (bg_session_create(r->plan, weights, &r->session, &error) != BG_OK)
        fail_msg("%s", error.message);
    for (uint32_t i = 0; i < MOST_VALUES; i++)
        r->inputs[i] = toy_input(i / TOY_WIDTH, i % TOY_WIDTH);
    r->output_bytes =
        (size_t)options->iterations * options->micro_batches * options->replicas * TOY_WIDTH * sizeof(float);
    assert_true(r->output_bytes <= sizeof r->outputs);
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    toy_plan_destroy(r->plan);
}

/* Runs the session, and compares the outputs with those of plain loops; `values` are the loops' weights. */
static void run_rig(rig *r, float *values)
{
    const void *inputs[] = {r->inputs};
    void *outputs[] = {r->outputs};
    bg_error error = {0};

    toy_compute(&r->options, bg_session_step(r->session), values, r->expected);
    if (bg_session_run(r->session, inputs, outputs, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_memory_equal(r->outputs, r->expected, r->output_bytes);
}

static const char *weight_name(uint32_t stage, char text[16])
{
    snprintf(text, 16, "w%u", stage);
    return text;
}

static void set_weights(bg_weights *weights, uint32_t stage_count, const float *values)
{
    const bg_type type = bg_vector(BG_FLOAT32, TOY_WIDTH);
    char name[16];

    for (uint32_t s = 0; s < stage_count; s++)
        assert_int_equal(bg_weights_set(weights, weight_name(s, name), &type, &values[s * TOY_WIDTH], NULL), BG_OK);
}

static void expect_weights(bg_weights *weights, uint32_t stage_count, const float *values)
{
    bg_weight weight;
    char name[16];

    for (uint32_t s = 0; s < stage_count; s++) {
        assert_int_equal(bg_weights_find(weights, weight_name(s, name), &weight, NULL), BG_OK);
        assert_memory_equal(weight.data, &values[s * TOY_WIDTH], TOY_WIDTH * sizeof(float));
    }
}

static void first_values(float *values)
{
    for (uint32_t i = 0; i < TOY_MOST_STAGES * TOY_WIDTH; i++)
        values[i] = toy_first_weight(i / TOY_WIDTH, i % TOY_WIDTH);
}

/* ---- sharing ---- */

/* Two sessions train one model alternately and a third reads it; results are those of a single session. */
static void sessions_see_each_others_weights(void **state)
{
    toy_options options = toy_defaults();
    float values[TOY_MOST_STAGES * TOY_WIDTH];
    bg_weights *weights = NULL;
    rig *rigs = calloc(3, sizeof *rigs);

    (void)state;
    assert_non_null(rigs);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    options.replicas = 2;
    options.micro_batches = 4;
    open_rig(&rigs[0], &options, weights);
    options.generator = "single";
    options.device_count = 1;
    options.iterations = 2;
    options.replicas = 1;
    open_rig(&rigs[1], &options, weights);
    options.iterations = 1;
    options.inference = true;
    open_rig(&rigs[2], &options, weights);
    first_values(values);
    set_weights(weights, 4, values);
    for (int round = 0; round < 3; round++) {
        run_rig(&rigs[0], values);
        run_rig(&rigs[0], values);
        run_rig(&rigs[2], values);
        run_rig(&rigs[1], values);
        if (round == 1)
            expect_weights(weights, 4, values);
        run_rig(&rigs[2], values);
        assert_int_equal(bg_session_step(rigs[2].session), (round + 1) * 4);
    }
    /* The next run starts from the values that are set here, wherever the newest values were. */
    first_values(values);
    set_weights(weights, 4, values);
    run_rig(&rigs[0], values);
    /* The newest values are copied back before their session is destroyed. */
    close_rig(&rigs[0]);
    expect_weights(weights, 4, values);
    run_rig(&rigs[1], values);
    bg_weights_destroy(weights);
    close_rig(&rigs[2]);
    expect_weights(bg_session_weights(rigs[1].session), 4, values);
    close_rig(&rigs[1]);
    free(rigs);
}

static void weights_that_a_session_does_not_know_are_left_alone(void **state)
{
    const bg_type type = bg_matrix(BG_INT32, 2, 2);
    const int32_t data[4] = {1, -2, 3, -4};
    toy_options options = toy_defaults();
    bg_weights *weights = NULL;
    bg_weight weight;
    rig *r = calloc(1, sizeof *r);
    float values[TOY_MOST_STAGES * TOY_WIDTH];

    (void)state;
    assert_non_null(r);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    assert_int_equal(bg_weights_set(weights, "momentum", &type, data, NULL), BG_OK);
    open_rig(r, &options, weights);
    assert_int_equal(bg_weights_count(weights), 5);
    first_values(values);
    set_weights(weights, 4, values);
    run_rig(r, values);
    assert_int_equal(bg_weights_at(weights, 0, &weight, NULL), BG_OK);
    assert_string_equal(weight.name, "momentum");
    assert_true(bg_type_equal(&weight.type, &type));
    assert_memory_equal(weight.data, data, sizeof data);
    close_rig(r);
    bg_weights_destroy(weights);
    free(r);
}

static void types_must_match(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT64, 7);
    const double data[7] = {0};
    toy_options options = toy_defaults();
    bg_plan *plan = toy_plan_create(&options);
    bg_weights *weights = NULL;
    bg_session *session = NULL;
    bg_error error = {0};
    bg_weight weight;

    (void)state;
    assert_non_null(plan);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    assert_int_equal(bg_weights_set(weights, "w2", &type, data, NULL), BG_OK);
    assert_int_equal(bg_session_create(plan, weights, &session, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "`w2` is float32[48] in the plan, but float64[7] in the weights"));
    assert_int_equal(bg_weights_count(weights), 1);
    bg_error_clear(&error);
    assert_int_equal(bg_weights_set(weights, "w2", &(bg_type){.dtype = BG_FLOAT32}, data, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "`w2` is float64[7], but the given value is float32"));
    bg_error_clear(&error);
    assert_int_equal(bg_weights_find(weights, "w3", &weight, &error), BG_ERROR_NOT_FOUND);
    assert_int_equal(bg_weights_at(weights, 1, &weight, NULL), BG_ERROR_INVALID);
    bg_weights_destroy(weights);
    toy_plan_destroy(plan);
}

/* Reading values that only a failed session had is an error. */
static void values_of_a_failed_session_are_lost(void **state)
{
    toy_options options = toy_defaults();
    bg_error error = {0};
    bg_weight weight;
    rig *r = calloc(1, sizeof *r);
    float values[TOY_MOST_STAGES * TOY_WIDTH];
    const void *inputs[1];
    void *outputs[1];
    bg_weights *weights;

    (void)state;
    assert_non_null(r);
    open_rig(r, &options, NULL);
    inputs[0] = r->inputs;
    outputs[0] = r->outputs;
    weights = bg_session_weights(r->session);
    first_values(values);
    set_weights(weights, 4, values);
    run_rig(r, values);
    /* From now on no message leaves the first device. The time limit is long enough for the runs before this, even on a
     * busy machine. */
    r->plan->options.execution.wait_limit_s = 0.1;
    for (uint32_t i = 0; i < r->plan->devices[0].instruction_count; i++)
        if (toy_instructions(r->plan, 0)[i].action.kind == BG_ACTION_SEND)
            toy_instructions(r->plan, 0)[i].action.kind = BG_ACTION_HOST_OUT;
    for (uint32_t i = 0; i < r->plan->devices[0].instruction_count; i++)
        if (toy_instructions(r->plan, 0)[i].action.kind == BG_ACTION_HOST_OUT)
            toy_instructions(r->plan, 0)[i].copy_count = 0;
    assert_int_equal(bg_session_run(r->session, inputs, outputs, NULL), BG_ERROR_TIMEOUT);
    assert_int_equal(bg_session_step(r->session), 1);
    assert_int_equal(bg_weights_find(weights, "w0", &weight, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "`w0`"));
    set_weights(weights, 1, values);
    assert_int_equal(bg_weights_find(weights, "w0", &weight, NULL), BG_OK);
    close_rig(r);
    free(r);
}

/* ---- initial values ---- */

static void get_weights(bg_weights *weights, uint32_t stage_count, float *values)
{
    bg_weight weight;
    char name[16];

    for (uint32_t s = 0; s < stage_count; s++) {
        assert_int_equal(bg_weights_find(weights, weight_name(s, name), &weight, NULL), BG_OK);
        assert_int_equal(weight.role, BG_ROLE_PARAMETER);
        memcpy(&values[s * TOY_WIDTH], weight.data, TOY_WIDTH * sizeof(float));
    }
}

/* Initial values depend on the seed, the variable and the element, not on devices or replicas. */
static void first_values_do_not_depend_on_the_strategy(void **state)
{
    float seen[2][4 * TOY_WIDTH];

    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        float values[4 * TOY_WIDTH];
        toy_options options = toy_defaults();
        rig *r = calloc(1, sizeof *r);
        assert_non_null(r);
        options.generator = which == 0 ? "single" : "grouped";
        options.device_count = which == 0 ? 1 : 4;
        options.replicas = 1 + 2 * which;
        options.micro_batches = 2;
        open_rig(r, &options, NULL);
        get_weights(bg_session_weights(r->session), 4, seen[which]);
        /* All devices of all replicas compute with these values. */
        memcpy(values, seen[which], sizeof values);
        run_rig(r, values);
        close_rig(r);
        free(r);
    }
    assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
    for (uint32_t i = 0; i < 4 * TOY_WIDTH; i++)
        assert_true(seen[0][i] >= -0.5f && seen[0][i] < 0.5f);
    assert_memory_not_equal(seen[0], seen[0] + TOY_WIDTH, TOY_WIDTH * sizeof(float));
}

/* ---- the optimizer ---- */

static void new_numbers_for_the_optimizer(void **state)
{
    toy_options options = toy_defaults();
    float values[TOY_MOST_STAGES * TOY_WIDTH], unused[TOY_MOST_STAGES * TOY_WIDTH];
    bg_optimizer optimizer;
    bg_error error = {0};
    rig *r = calloc(1, sizeof *r);

    (void)state;
    assert_non_null(r);
    options.replicas = 2;
    options.micro_batches = 2;
    open_rig(r, &options, NULL);
    first_values(values);
    first_values(unused);
    set_weights(bg_session_weights(r->session), 4, values);
    assert_int_equal(bg_session_set_learning_rate(r->session, 0.0, NULL), BG_OK);
    run_rig(r, unused);
    expect_weights(bg_session_weights(r->session), 4, values);
    optimizer = r->plan->optimizer;
    assert_int_equal(bg_session_set_optimizer(r->session, &optimizer, NULL), BG_OK);
    run_rig(r, values);
    expect_weights(bg_session_weights(r->session), 4, values);
    assert_int_equal(bg_session_set_step(r->session, 1000, NULL), BG_OK);
    run_rig(r, values);
    expect_weights(bg_session_weights(r->session), 4, values);
    assert_int_equal(bg_session_step(r->session), 1001);
    optimizer.kind = BG_ADAM;
    optimizer.beta1 = 0.9;
    optimizer.beta2 = 0.999;
    optimizer.epsilon = 1e-8;
    assert_int_equal(bg_session_set_optimizer(r->session, &optimizer, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "optimizer: it is adam, but the plan trains with sgd"));
    optimizer = r->plan->optimizer;
    optimizer.momentum = 0.9;
    bg_error_clear(&error);
    assert_int_equal(bg_session_set_optimizer(r->session, &optimizer, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "momentum is 0.9, but the plan was made with 0 and keeps no state for it"));
    optimizer = r->plan->optimizer;
    optimizer.uncorrected = true;
    bg_error_clear(&error);
    assert_int_equal(bg_session_set_optimizer(r->session, &optimizer, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "uncorrected is on, but the plan was made with it off"));
    optimizer = r->plan->optimizer;
    optimizer.combined = true, optimizer.momentum = 0.9, optimizer.velocity_scaling = 1.0;
    bg_error_clear(&error);
    assert_int_equal(bg_session_set_optimizer(r->session, &optimizer, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "combined is on, but the plan was made with it off"));
    close_rig(r);
    free(r);
}

/* ---- traces and profiles ---- */

static void every_instruction_is_traced(void **state)
{
    toy_options options = toy_defaults();
    float values[TOY_MOST_STAGES * TOY_WIDTH];
    rig *r = calloc(1, sizeof *r);

    (void)state;
    assert_non_null(r);
    options.trace = true;
    options.replicas = 2;
    options.micro_batches = 3;
    options.iterations = 2;
    options.copies_sends = true;
    open_rig(r, &options, NULL);
    first_values(values);
    set_weights(bg_session_weights(r->session), 4, values);
    run_rig(r, values);
    for (uint32_t replica = 0; replica < 2; replica++)
        for (uint32_t d = 0; d < 4; d++) {
            const uint32_t count = bg_session_trace_count(r->session, replica, d);
            uint64_t last_ns = 0;
            assert_int_equal(count, 2 * r->plan->devices[d].instruction_count);
            for (uint32_t i = 0; i < count; i++) {
                const bg_action *action =
                    &r->plan->devices[d].instructions[i % r->plan->devices[d].instruction_count].action;
                bg_trace_event event;
                assert_int_equal(bg_session_trace_event(r->session, replica, d, i, &event, NULL), BG_OK);
                assert_memory_equal(&event.action, action, sizeof *action);
                assert_int_equal(event.replica, replica);
                assert_int_equal(event.device, d);
                assert_int_equal(event.step, i / r->plan->devices[d].instruction_count);
                assert_true(event.worker < 2);
                assert_true(last_ns <= event.start_ns && event.start_ns <= event.end_ns);
                last_ns = event.end_ns;
            }
            assert_int_equal(bg_session_trace_event(r->session, replica, d, count, &(bg_trace_event){0}, NULL),
                             BG_ERROR_INVALID);
        }
    close_rig(r);
    free(r);
}

static void the_ring_keeps_the_newest_events(void **state)
{
    toy_options options = toy_defaults();
    float values[TOY_MOST_STAGES * TOY_WIDTH];
    const bg_action *last;
    bg_trace_event event;
    rig *r = calloc(1, sizeof *r);

    (void)state;
    assert_non_null(r);
    options.trace = true;
    r->plan = toy_plan_create(&options);
    assert_non_null(r->plan);
    r->plan->options.reporting.trace_events = 7;
    open_rig(r, &options, NULL);
    first_values(values);
    set_weights(bg_session_weights(r->session), 4, values);
    run_rig(r, values);
    run_rig(r, values);
    assert_int_equal(bg_session_trace_count(r->session, 0, 3), 7);
    assert_int_equal(bg_session_trace_event(r->session, 0, 3, 6, &event, NULL), BG_OK);
    last = &r->plan->devices[3].instructions[r->plan->devices[3].instruction_count - 1].action;
    assert_memory_equal(&event.action, last, sizeof *last);
    assert_int_equal(event.step, 1);
    assert_int_equal(bg_session_trace_event(r->session, 0, 3, 0, &event, NULL), BG_OK);
    last = &r->plan->devices[3].instructions[r->plan->devices[3].instruction_count - 7].action;
    assert_memory_equal(&event.action, last, sizeof *last);
    close_rig(r);
    free(r);
}

/* Touched bytes are counted independently of the plan's figure, so that the test finds a wrong plan. */
static void touched_bytes_equal_the_plan(void **state)
{
    toy_options options = toy_defaults();
    float values[TOY_MOST_STAGES * TOY_WIDTH];
    rig *r = calloc(1, sizeof *r);

    (void)state;
    assert_non_null(r);
    options.copies_sends = true;
    options.trace = true;
    r->plan = toy_plan_create(&options);
    assert_non_null(r->plan);
    r->plan->devices[2].arena_bytes += 4096; /* without effect */
    open_rig(r, &options, NULL);
    first_values(values);
    set_weights(bg_session_weights(r->session), 4, values);
    run_rig(r, values);
    for (uint32_t d = 0; d < 4; d++)
        assert_int_equal(bg_session_device_bytes(r->session, 0, d),
                         r->plan->devices[d].arena_bytes - (d == 2 ? 4096 : 0));
    assert_int_equal(bg_session_device_bytes(r->session, 0, 4), 0);
    close_rig(r);
    free(r);
}

static void workers_are_listed(void **state)
{
    toy_options options = toy_defaults();
    uint32_t lines = 0;
    char *text = NULL;
    rig *r = NULL;

    (void)state;
#ifdef TEST_COPIED
    skip(); /* one worker */
#endif
    r = calloc(1, sizeof *r);
    assert_non_null(r);
    options.cores = 3;
    open_rig(r, &options, NULL);
    assert_int_equal(bg_session_print_workers(r->session, &text, NULL), BG_OK);
    assert_memory_equal(text, "worker 0 on ", 12);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 3);
    free(text);
    close_rig(r);
    free(r);
}

typedef struct cycle_notes {
    uint32_t count;
    bg_log_level level;
    char text[400];
} cycle_notes;

static void note_cycles(void *user, bg_log_level level, const char *text)
{
    cycle_notes *notes = user;

    notes->count++;
    notes->level = level;
    snprintf(notes->text, sizeof notes->text, "%s", text);
}

/* Runs give the same results with and without `log_cycles`, and a run's cycles are at most the nanoseconds that the
 * caller measures. */
static void cycles_are_counted(void **state)
{
    toy_options options = toy_defaults();
    float values[TOY_MOST_STAGES * TOY_WIDTH];
    cycle_notes notes = {0};
    char expected[64];
    rig *r = calloc(1, sizeof *r);

    (void)state;
    assert_non_null(r);
    r->plan = toy_plan_create(&options);
    r->plan->options.reporting.log = note_cycles;
    r->plan->options.reporting.log_user = &notes;
    open_rig(r, &options, NULL);
    first_values(values);
    set_weights(bg_session_weights(r->session), options.stage_count, values);
    run_rig(r, values);
    assert_int_equal(bg_session_cycles(r->session), 0);
    assert_int_equal(notes.count, 0);
    r->plan->options.reporting.log_cycles = true;
    for (uint32_t run = 1; run <= 2; run++) {
        const uint64_t start_ns = bgi_clock_ns();
        run_rig(r, values);
        assert_in_range(bg_session_cycles(r->session), 1, bgi_clock_ns() - start_ns);
        snprintf(expected, sizeof expected, "run took %" PRIu64 " cycles", bg_session_cycles(r->session));
        assert_string_equal(notes.text, expected);
        assert_int_equal(notes.level, BG_LOG_INFO);
        assert_int_equal(notes.count, run);
    }
    close_rig(r);
    free(r);
}

/* ---- launchers ---- */

static void launched_processes_without_a_transport_are_warned(void **state)
{
    const toy_options options = toy_defaults();
    cycle_notes notes = {0};
    bg_session *session = NULL;
    bg_weights *weights = NULL;
    bg_plan *plan = toy_plan_create(&options);

    (void)state;
    assert_non_null(plan);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    plan->options.reporting.log = note_cycles;
    plan->options.reporting.log_user = &notes;
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    setenv("BRIGADE_MPI", "none", 1);
    assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
    bg_session_destroy(session);
    assert_int_equal(notes.count, 0);
    unsetenv("BRIGADE_MPI");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bg_session_create(plan, weights, &session, NULL), BG_OK);
        bg_session_destroy(session);
        assert_int_equal(notes.count, 1);
    }
    assert_int_equal(notes.level, BG_LOG_WARNING);
    assert_non_null(strstr(notes.text, "has started 2 processes, but options.execution.transport is NULL"));
    unsetenv("OMPI_COMM_WORLD_SIZE");
    bg_weights_destroy(weights);
    toy_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_see_each_others_weights),
        cmocka_unit_test(weights_that_a_session_does_not_know_are_left_alone),
        cmocka_unit_test(types_must_match),
        cmocka_unit_test(values_of_a_failed_session_are_lost),
        cmocka_unit_test(first_values_do_not_depend_on_the_strategy),
        cmocka_unit_test(new_numbers_for_the_optimizer),
        cmocka_unit_test(every_instruction_is_traced),
        cmocka_unit_test(the_ring_keeps_the_newest_events),
        cmocka_unit_test(touched_bytes_equal_the_plan),
        cmocka_unit_test(workers_are_listed),
        cmocka_unit_test(cycles_are_counted),
        cmocka_unit_test(launched_processes_without_a_transport_are_warned),
    };

    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
