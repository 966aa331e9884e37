/*
 * test_strategy.c: tests how the settings of a trainer's strategy become options and plans, and errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <brigade.h>

#include "support/trainer_rig.h"

static bg_error error;

static bg_trainer_options options_for(const test_net *net)
{
    bg_trainer_options options = bg_trainer_options_defaults();

    memset(&error, 0, sizeof error);
    options.model = test_net_model;
    options.model_user = (void *)net;
    options.micro_batch[BG_TRAINER_FIT] = 2;
    options.initialize_missing = true;
    return options;
}

static bg_trainer *make(const bg_trainer_options *options)
{
    bg_trainer *trainer = NULL;

    if (bg_trainer_create(options, NULL, &trainer, &error) != BG_OK)
        fail_msg("%s", error.message);
    return trainer;
}

static void prepare(bg_trainer *trainer, bg_trainer_task task)
{
    if (bg_trainer_prepare(trainer, task, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void devices_from_text(void **state)
{
    static const struct {
        const char *text;
        uint32_t devices, replicas; /* devices 0: an error is expected */
    } cases[] = {{"auto", BG_DEVICES_AUTO, 4},
                 {"1", 1, 1},
                 {"8", 8, 8},
                 {"65536", 65536, 65536},
                 {"0", 0, 0},
                 {"65537", 0, 0},
                 {"-1", 0, 0},
                 {"", 0, 0},
                 {"2x", 0, 0},
                 {"Auto", 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_ipu_strategy strategy = bg_ipu_strategy_defaults();
        memset(&error, 0, sizeof error);
        if (cases[i].devices == 0) {
            assert_int_equal(bg_ipu_strategy_set_devices(&strategy, cases[i].text, &error), BG_ERROR_INVALID);
            assert_non_null(strstr(error.message, "\"auto\" or a number"));
            assert_int_equal(strategy.devices, 1);
            continue;
        }
        assert_int_equal(bg_ipu_strategy_set_devices(&strategy, cases[i].text, &error), BG_OK);
        assert_int_equal(strategy.devices, cases[i].devices);
        assert_int_equal(bg_ipu_strategy_replicas(&strategy), cases[i].replicas);
    }
}

/* Four copies of a model over two devices each need eight devices. */
static void devices_are_replicas(void **state)
{
    const test_net net = {.device_count = 2};
    bg_trainer_options options = options_for(&net);
    bg_plan_summary summary;
    bg_trainer *trainer;

    (void)state;
    options.strategy.devices = 4;
    options.strategy.device_iterations = 3;
    options.accumulate_grad_batches = 2;
    trainer = make(&options);
    assert_null(bg_trainer_session(trainer, BG_TRAINER_FIT));
    assert_int_equal(bg_trainer_samples_per_call(trainer, BG_TRAINER_FIT), 2 * 3 * 2 * 4);
    assert_int_equal(bg_trainer_samples_per_call(trainer, BG_TRAINER_TEST), 2 * 3 * 4);
    prepare(trainer, BG_TRAINER_FIT);
    prepare(trainer, BG_TRAINER_TEST);
    summary = bg_plan_summarize(bg_session_plan(bg_trainer_session(trainer, BG_TRAINER_FIT)));
    assert_int_equal(summary.replicas, 4);
    assert_int_equal(summary.device_count, 2);
    assert_int_equal(summary.replicas * summary.device_count, 8);
    assert_int_equal(summary.samples_per_run, 48);
    summary = bg_plan_summarize(bg_session_plan(bg_trainer_session(trainer, BG_TRAINER_TEST)));
    assert_int_equal(summary.replicas, 4);
    assert_int_equal(summary.samples_per_run, 24);
    bg_trainer_destroy(trainer);
}

static void given_options_win(void **state)
{
    const test_net net = {.device_count = 2};
    bg_options training = bg_options_defaults(), inference = bg_options_defaults(), found;
    bg_trainer_options options = options_for(&net);
    bg_trainer *trainer;

    (void)state;
    training.replicas.count = 2, training.execution.device_iterations = 5, training.execution.gradient_accumulation = 3;
    training.reporting.output_mode = BG_OUTPUT_ALL;
    inference.replicas.count = 3, inference.execution.device_iterations = 7;
    options.strategy.devices = 8;
    options.strategy.device_iterations = 9;
    options.strategy.inference_options = &inference;
    assert_int_equal(bg_ipu_strategy_replicas(&options.strategy), 3);
    options.strategy.training_options = &training;
    assert_int_equal(bg_ipu_strategy_replicas(&options.strategy), 2);
    assert_int_equal(bg_ipu_strategy_options(&options.strategy, true, 1, &found, &error), BG_OK);
    assert_memory_equal(&found, &training, sizeof found);
    assert_int_equal(bg_ipu_strategy_options(&options.strategy, false, 1, &found, &error), BG_OK);
    assert_memory_equal(&found, &inference, sizeof found);
    trainer = make(&options);
    training.replicas.count = 1; /* copied */
    assert_int_equal(bg_trainer_samples_per_call(trainer, BG_TRAINER_FIT), 2 * 5 * 3 * 2);
    assert_int_equal(bg_trainer_samples_per_call(trainer, BG_TRAINER_PREDICT), 2 * 7 * 3);
    prepare(trainer, BG_TRAINER_FIT);
    assert_int_equal(bg_plan_summarize(bg_session_plan(bg_trainer_session(trainer, BG_TRAINER_FIT))).replicas, 2);
    bg_trainer_destroy(trainer);

    /* If only training has options, the number of replicas in these also applies to inference. */
    training.replicas.count = 2;
    options.strategy.inference_options = NULL;
    assert_int_equal(bg_ipu_strategy_options(&options.strategy, false, 4, &found, &error), BG_OK);
    assert_int_equal(found.replicas.count, 2);
    assert_int_equal(found.execution.device_iterations, 9);
    assert_int_equal(found.execution.gradient_accumulation, 1);
}

static void accumulation_reaches_the_options(void **state)
{
    bg_ipu_strategy strategy = bg_ipu_strategy_defaults();
    bg_options found;

    (void)state;
    assert_int_equal(bg_ipu_strategy_options(&strategy, true, 2, &found, &error), BG_OK);
    assert_int_equal(found.execution.gradient_accumulation, 2);
    assert_int_equal(bg_ipu_strategy_options(&strategy, false, 2, &found, &error), BG_OK);
    assert_int_equal(found.execution.gradient_accumulation, 1);
}

/* For a model over four devices, three iterations are too few under the limits of IPUs, and four are enough. */
static void split_models_need_iterations(void **state)
{
    const test_net net = {.device_count = 4};
    bg_trainer_options options = options_for(&net);
    bg_options given = bg_options_defaults();

    (void)state;
    options.accumulate_grad_batches = 7; /* 2 N - 1 */
    for (int limits = 0; limits < 2; limits++)
        for (uint32_t iterations = 3; iterations <= 4; iterations++)
            for (int task = 0; task < BG_TRAINER_TASK_COUNT; task++) {
                const bg_status wanted = limits && iterations < 4 ? BG_ERROR_INVALID : BG_OK;
                bg_trainer *trainer;
                options.strategy.ipu_limits = limits != 0;
                options.strategy.device_iterations = iterations;
                trainer = make(&options);
                memset(&error, 0, sizeof error);
                assert_int_equal(bg_trainer_prepare(trainer, (bg_trainer_task)task, &error), wanted);
                if (wanted != BG_OK)
                    assert_non_null(strstr(error.message, "device_iterations 3"));
                assert_true((bg_trainer_session(trainer, (bg_trainer_task)task) != NULL) == (wanted == BG_OK));
                bg_trainer_destroy(trainer);
            }
    /* Explicit options are used as they are. */
    given.execution.device_iterations = 3;
    given.execution.gradient_accumulation = 7;
    options.strategy.ipu_limits = true;
    options.strategy.training_options = &given;
    bg_trainer *trainer = make(&options);
    memset(&error, 0, sizeof error);
    if (bg_trainer_prepare(trainer, BG_TRAINER_FIT, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_trainer_destroy(trainer);
}

static void keep_iterations(void *user, bg_log_level level, const char *text)
{
    if (level == BG_LOG_WARNING && strstr(text, "device_iterations is") != NULL)
        snprintf(user, 256, "%s", text);
}

/* A fit over four devices with fewer iterations gives a warning with the idle time, even with the caller's own options.
 */
static void split_fits_are_warned_of(void **state)
{
    const test_net net = {.device_count = 4};

    (void)state;
    for (int given = 0; given < 2; given++)
        for (uint32_t iterations = 1; iterations <= 4; iterations++) {
            bg_options training = bg_options_defaults();
            bg_trainer_options options = options_for(&net);
            char line[256] = "", wanted[64];
            bg_trainer *trainer;

            training.execution.device_iterations = options.strategy.device_iterations = iterations;
            if (given)
                options.strategy.training_options = &training;
            options.log = keep_iterations;
            options.log_user = line;
            trainer = make(&options);
            assert_int_equal(bg_trainer_prepare(trainer, BG_TRAINER_FIT, &error), BG_OK);
            snprintf(wanted, sizeof wanted, "is %u: on IPUs a model that is split over 4", iterations);
            assert_true((strstr(line, wanted) != NULL) == (iterations < 4));
            if (iterations < 4) {
                snprintf(
                    wanted, sizeof wanted, "idle for %.0f%% of the time",
                    100.0 * bg_plan_summarize(bg_session_plan(bg_trainer_session(trainer, BG_TRAINER_FIT))).idle_share);
                assert_non_null(strstr(line, wanted));
            } else {
                assert_string_equal(line, "");
            }
            bg_trainer_destroy(trainer);
        }
}

/* The messages with a text, and those of them about a smaller batch. */
typedef struct message_counts {
    const char *text;
    int all, rest;
} message_counts;

static void count_messages(void *user, bg_log_level level, const char *text)
{
    message_counts *counts = user;

    (void)level;
    if (strstr(text, counts->text) == NULL)
        return;
    counts->all++;
    counts->rest += strncmp(text, "the last, smaller batch: ", 25) == 0;
}

/* A call has 4 samples, so 7 samples need plans for 4, 2 and 1 of them, and the plans for 2 and 1 are compiled in each
 * epoch. Each plan gives the same warning, which is logged once. */
static void warnings_are_not_repeated(void **state)
{
    const test_net net = {.device_count = 1};
    message_counts counts = {.text = "stochastic rounding has no effect"};
    bg_options training = bg_options_defaults();
    bg_trainer_options options = options_for(&net);
    bg_loader_options loading = bg_loader_options_defaults();
    bg_trainer_data data = {.loading = &loading};
    test_net_samples samples;
    bg_trainer *trainer;

    (void)state;
    training.execution.device_iterations = 2;
    training.numerics.stochastic_rounding = true;
    training.reporting.log = count_messages;
    training.reporting.log_user = &counts;
    options.strategy.training_options = &training;
    options.max_epochs = 3;
    loading.drop_last = false;
    test_net_samples_make(&samples, 7);
    data.dataset = samples.dataset;
    trainer = make(&options);
    if (bg_trainer_fit(trainer, &data, NULL, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_trainer_step(trainer), 3 * 4);
    if (counts.all != 1 || counts.rest != 0)
        fail_msg("%d warnings, %d of them of a smaller batch", counts.all, counts.rest);
    bg_trainer_destroy(trainer);
    test_net_samples_clear(&samples);
}

static void keep_line(void *user, bg_log_level level, const char *text)
{
    (void)level;
    if (strstr(text, "powers of two") != NULL || strstr(text, "which are used") != NULL)
        snprintf(user, 256, "%s", text);
}

static void odd_numbers_are_said(void **state)
{
    const test_net net = {.device_count = 1};
    bg_options training = bg_options_defaults();
    bg_trainer_options options = options_for(&net);
    char line[256] = "";

    (void)state;
    options.log = keep_line;
    options.log_user = line;
    options.strategy.devices = 4;
    bg_trainer_destroy(make(&options));
    assert_string_equal(line, "");
    options.strategy.devices = 3;
    bg_trainer_destroy(make(&options));
    assert_string_equal(line, "devices is 3; IPUs come in powers of two");
    options.strategy.training_options = &training;
    bg_trainer_destroy(make(&options));
    assert_string_equal(line, "devices is 3, but the given options have 1 replicas, which are used");
}

/* A single error lists every problem. */
static void problems_are_listed(void **state)
{
    static const bg_trainer_argument argument = {.kind = BG_ARGUMENT_STEP};
    static const bg_trainer_callback callback;
    static const char *const wanted[] = {
        "strategy.devices is 0",       "strategy.device_iterations is 0", "model is NULL",
        "micro_batch of fit is 0",     "accumulate_grad_batches is 0",    "gradient_clip is -1",
        "arguments[0] names no input", "callbacks[0] has no function",    "learning_rate is -1"};
    bg_trainer_options options = bg_trainer_options_defaults();
    bg_options training = bg_options_defaults();
    bg_trainer *trainer = NULL;
    const test_net net = {0};

    (void)state;
    memset(&error, 0, sizeof error);
    options.strategy.devices = options.strategy.device_iterations = 0;
    options.micro_batch[BG_TRAINER_FIT] = 0;
    options.accumulate_grad_batches = 0;
    options.gradient_clip = -1;
    options.optimizer.learning_rate = -1;
    options.arguments = &argument, options.argument_count = 1;
    options.callbacks = &callback, options.callback_count = 1;
    assert_int_equal(bg_trainer_create(&options, NULL, &trainer, &error), BG_ERROR_INVALID);
    assert_null(trainer);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (strstr(error.message, wanted[i]) == NULL)
            fail_msg("`%s` is not in: %s", wanted[i], error.message);

    options = options_for(&net);
    options.strategy.training_options = &training;
    options.accumulate_grad_batches = 2;
    options.gradient_clip = 1;
    assert_int_equal(bg_trainer_create(&options, NULL, &trainer, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "accumulate_grad_batches is 2 and training_options have"));
    assert_non_null(strstr(error.message, "gradient_clip is 1 and training_options have"));

    /* input_group_size must divide the number of replicas, because samples are counted by group. */
    memset(&error, 0, sizeof error);
    options = options_for(&net);
    training.replicas.count = 4, training.replicas.input_group_size = 3;
    options.strategy.inference_options = &training;
    assert_int_equal(bg_trainer_create(&options, NULL, &trainer, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "inference_options have input_group_size 3 and replicas 4"));
    training = bg_options_defaults();

    /* Only compiling a plan can find these errors. */
    options = options_for(&net);
    training.execution.device_iterations = 0;
    options.strategy.training_options = &training;
    trainer = make(&options);
    assert_int_equal(bg_trainer_prepare(trainer, BG_TRAINER_FIT, &error), BG_ERROR_INVALID);
    assert_int_equal(strncmp(error.message, "options: ", 9), 0);
    memset(&error, 0, sizeof error);
    assert_int_equal(bg_trainer_prepare(trainer, BG_TRAINER_TASK_COUNT, &error), BG_ERROR_INVALID);
    assert_null(bg_trainer_session(trainer, BG_TRAINER_TASK_COUNT));
    bg_trainer_destroy(trainer);
    bg_trainer_destroy(NULL);
}

/* If total_devices gives the devices of all copies together, the plan determines the number of copies. Training and
 * test then work as with that number of replicas. */
static void total_devices_are_copies(void **state)
{
    const test_net net = {.device_count = 2};
    bg_options given = bg_options_defaults();
    bg_loader_options loading = bg_loader_options_defaults();
    bg_trainer_options options = options_for(&net);
    bg_trainer_data data = {0};
    test_net_samples samples;
    bg_trainer *by_total, *by_replicas;
    bg_trainer_metric found, expected;

    (void)state;
    test_net_samples_make(&samples, 26); /* calls of 12 samples, and a rest of one update and a smaller one */
    data.dataset = samples.dataset;
    loading.drop_last = false;
    data.loading = &loading;
    given.execution.device_iterations = 2;
    options.strategy.training_options = options.strategy.inference_options = &given;
    given.replicas.count = 3;
    by_replicas = make(&options);
    given.replicas.count = 1, given.replicas.total_devices = 6;
    by_total = make(&options);
    assert_int_equal(bg_trainer_samples_per_call(by_total, BG_TRAINER_FIT), 0);
    assert_int_equal(bg_trainer_fit(by_replicas, &data, &data, &error), BG_OK);
    if (bg_trainer_fit(by_total, &data, &data, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_trainer_samples_per_call(by_total, BG_TRAINER_FIT), 12);
    assert_int_equal(bg_plan_summarize(bg_session_plan(bg_trainer_session(by_total, BG_TRAINER_FIT))).replicas, 3);
    assert_int_equal(bg_trainer_step(by_total), bg_trainer_step(by_replicas));
    test_weights_expect(bg_trainer_weights(by_total), bg_trainer_weights(by_replicas));
    assert_int_equal(bg_trainer_test(by_total, &data, &error), BG_OK);
    assert_int_equal(bg_trainer_test(by_replicas, &data, &error), BG_OK);
    assert_int_equal(bg_trainer_metric_find(by_total, BG_TRAINER_TEST, "loss", &found, &error), BG_OK);
    assert_int_equal(bg_trainer_metric_find(by_replicas, BG_TRAINER_TEST, "loss", &expected, &error), BG_OK);
    assert_true(found.samples == 26 && expected.samples == 26 && found.mean == expected.mean);
    bg_trainer_destroy(by_replicas);
    bg_trainer_destroy(by_total);

    given.replicas.total_devices = 5; /* not a multiple of two */
    by_total = make(&options);
    assert_int_equal(bg_trainer_fit(by_total, &data, NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "fit: "));
    assert_non_null(strstr(error.message, "total_devices is 5"));
    bg_trainer_destroy(by_total);
    test_net_samples_clear(&samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_from_text),
        cmocka_unit_test(devices_are_replicas),
        cmocka_unit_test(total_devices_are_copies),
        cmocka_unit_test(given_options_win),
        cmocka_unit_test(accumulation_reaches_the_options),
        cmocka_unit_test(split_models_need_iterations),
        cmocka_unit_test(split_fits_are_warned_of),
        cmocka_unit_test(warnings_are_not_repeated),
        cmocka_unit_test(odd_numbers_are_said),
        cmocka_unit_test(problems_are_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
