/*
 * test_learning_rate.c: one run of several updates with a list of learning rates gives the same bits as separate runs
 * of one update with the rate set before each run, under every strategy.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/feed.h>

#include "support/train.h"

enum { UPDATES = 4, MICRO_BATCH = 8, MICRO_BATCHES = 5 };

static const double rates[UPDATES] = {0.01, 0.0, 0.002, 0.03};

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

typedef struct way {
    bg_strategy strategy;
    const char *schedule;
    uint32_t replicas;
    bool scales; /* with an automatic loss scale; an op then processes the optimizer's settings */
} way;

static const way ways[] = {
    {BG_STRATEGY_SINGLE, NULL, 1, false},       {BG_STRATEGY_SHARDED, NULL, 2, true},
    {BG_STRATEGY_PIPELINED, "zb-h1", 1, false}, {BG_STRATEGY_PIPELINED, "grouped", 2, true},
    {BG_STRATEGY_PHASED, NULL, 2, false},
};

static bg_session *open_session(const way *w, const bg_optimizer *optimizer, uint32_t iterations, bg_plan **out_plan)
{
    bg_options options = bg_options_defaults();
    bg_session *session = NULL;
    bg_error error = {0};

    options.execution.strategy = w->strategy;
    options.execution.schedule = w->schedule;
    options.replicas.count = w->replicas;
    options.numerics.auto_loss_scaling.enabled = w->scales;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.execution.device_iterations = iterations;
    options.execution.wait_limit_s = 60;
    *out_plan = test_train_plan(test_model_at(0), MICRO_BATCH, optimizer, &options, "rates");
    require(bg_session_create(*out_plan, NULL, &session, &error), &error);
    return session;
}

/* Fills the inputs of a fixed sequence of updates, from update `first` on. */
static void fill_inputs(const bg_session *session, uint32_t iterations, uint32_t first, void **room,
                        const void **inputs)
{
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        bg_stream stream;
        bg_error error = {0};

        require(bg_session_input(session, i, &stream, &error), &error);
        if (room[i] == NULL)
            room[i] = test_model_input(&stream.micro_batch_type, stream.name, stream.count / iterations * UPDATES);
        inputs[i] = (char *)room[i] + stream.size_bytes / iterations * first;
    }
}

static void expect_same_weights(bg_session *found, bg_session *wanted)
{
    for (uint32_t i = 0; i < bg_weights_count(bg_session_weights(wanted)); i++) {
        bg_weight is, should;
        bg_error error = {0};

        require(bg_weights_at(bg_session_weights(wanted), i, &should, &error), &error);
        require(bg_weights_find(bg_session_weights(found), should.name, &is, &error), &error);
        if (memcmp(is.data, should.data, bg_type_size_bytes(&is.type)) != 0)
            fail_msg("`%s` differs", is.name);
    }
}

static void compare(const way *w, const bg_optimizer *optimizer)
{
    void *room[8] = {NULL};
    const void *inputs[8];
    bg_plan *single_plan, *whole_plan;
    bg_session *single = open_session(w, optimizer, 1, &single_plan);
    bg_session *whole = open_session(w, optimizer, UPDATES, &whole_plan);
    bg_run run = {.inputs = inputs, .learning_rates = rates};
    bg_error error = {0};

    for (uint32_t u = 0; u < UPDATES; u++) {
        fill_inputs(single, 1, u, room, inputs);
        require(bg_session_set_learning_rate(single, rates[u], &error), &error);
        require(bg_session_execute(single, &(bg_run){.inputs = inputs}, NULL, &error), &error);
    }
    fill_inputs(whole, UPDATES, 0, room, inputs);
    require(bg_session_execute(whole, &run, NULL, &error), &error);
    expect_same_weights(whole, single);
    /* After the run, the rate that was set before applies again. */
    run = (bg_run){.inputs = inputs, .iterations = 1};
    require(bg_session_set_learning_rate(single, optimizer->learning_rate, &error), &error);
    require(bg_session_execute(single, &run, NULL, &error), &error);
    require(bg_session_execute(whole, &run, NULL, &error), &error);
    expect_same_weights(whole, single);
    for (uint32_t i = 0; i < 8; i++)
        free(room[i]);
    bg_session_destroy(single);
    bg_session_destroy(whole);
    bg_plan_destroy(single_plan);
    bg_plan_destroy(whole_plan);
}

static void test_every_strategy(void **state)
{
    const bg_optimizer optimizers[] = {bg_adamw(0.003), bg_lamb(0.003), bg_sgd(0.003), bg_rmsprop(0.003)};

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        compare(&ways[i], &optimizers[i % 4]);
}

static void refuse(bg_session *session, const bg_run *run, const char *part)
{
    bg_error error = {0};

    assert_int_equal(bg_session_execute(session, run, NULL, &error), BG_ERROR_INVALID);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void test_refused(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.003);
    const double bad[UPDATES] = {0.01, 0.01, -0.5, 0.01}, worse[UPDATES] = {INFINITY, 0.0, 0.0, 0.0};
    void *room[8] = {NULL};
    const void *inputs[8];
    bg_plan *plan;
    bg_session *session = open_session(&ways[0], &optimizer, UPDATES, &plan);

    (void)state;
    fill_inputs(session, UPDATES, 0, room, inputs);
    refuse(session, &(bg_run){.inputs = inputs, .learning_rates = bad}, "learning_rates[2] is -0.5");
    refuse(session, &(bg_run){.inputs = inputs, .learning_rates = worse}, "learning_rates[0] is inf");
    refuse(session, &(bg_run){.learning_rates = rates, .iterations = BG_ENDLESS, .synthetic = true},
           "for an endless run");
    for (uint32_t i = 0; i < 8; i++)
        free(room[i]);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_strategy),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
