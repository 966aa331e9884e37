/*
 * test_run_options.c: tests options by name: printed values can be set, and give the same options.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/config.h>

static void set(bg_options *options, const char *name, const char *text)
{
    bg_error error = {0};

    if (bg_options_set(options, name, text, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void test_set(void **state)
{
    bg_options options = bg_options_defaults();
    (void)state;

    set(&options, "deviceIterations", "7");
    set(&options, "Training.gradientAccumulation", "3");
    set(&options, "outputMode", "OutputMode.All");
    set(&options, "strategy", "sharded");
    set(&options, "seed", "18446744073709551615");
    set(&options, "shard_optimizer", "true");
    set(&options, "wait_limit_s", "1.5");
    set(&options, "compile_only", "true");
    set(&options, "logCycleCount", "true");
    set(&options, "logDir", "notes");
    set(&options, "schedule", "gpipe");
    assert_int_equal(options.execution.device_iterations, 7);
    assert_int_equal(options.execution.gradient_accumulation, 3);
    assert_int_equal(options.reporting.output_mode, BG_OUTPUT_ALL);
    assert_int_equal(options.execution.strategy, BG_STRATEGY_SHARDED);
    assert_true(options.numerics.seed == UINT64_MAX);
    assert_true(options.memory.locations[BG_LOCATION_STATE].sharded);
    assert_true(options.execution.wait_limit_s == 1.5);
    assert_true(options.execution.compile_only);
    assert_true(options.reporting.log_cycles);
    assert_string_equal(options.files.log_dir, "notes");
    assert_string_equal(options.execution.schedule, "gpipe");
}

/* Options that PopTorch also has have PopTorch's defaults. */
static void test_defaults(void **state)
{
    const bg_options options = bg_options_defaults();
    (void)state;

    assert_int_equal(options.execution.strategy, BG_STRATEGY_PIPELINED);
    assert_int_equal(options.execution.auto_stage, BG_AUTO_STAGE_SAME_AS_IPU);
    assert_true(options.replicas.count == 1 && options.replicas.input_group_size == 1 &&
                options.execution.device_iterations == 1);
    assert_int_equal(options.replicas.input_grouping, BG_GROUPING_CONSECUTIVE);
    assert_true(!options.execution.auto_round_devices && options.reporting.output_mode == BG_OUTPUT_DEFAULT);
    assert_true(options.reporting.output_request_count == 0 && options.memory.matmul_proportion_count == 0 &&
                !options.reporting.log_cycles);
    assert_true(options.execution.gradient_accumulation == 1 && options.numerics.accumulation == BG_ACCUMULATE_MEAN);
    assert_true(!options.numerics.auto_loss_scaling.enabled && options.numerics.loss_scaling == 1.0);
    assert_int_equal(options.numerics.partials, BG_FLOAT32);
    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        assert_true(options.memory.locations[k].place == BG_PLACE_DEFAULT && !options.memory.locations[k].sharded);
}

static void test_printed_is_set_again(void **state)
{
    bg_options options = bg_options_defaults(), again = bg_options_defaults();
    char *text = NULL, *copy = NULL, *rest = NULL, name[64], value[64];
    (void)state;

    set(&options, "output_mode", "sum");
    set(&options, "replicas", "5");
    set(&options, "recompute", "stage");
    set(&options, "partials", "bfloat16");
    set(&options, "first_moment_dtype", "float16");
    set(&options, "auto_stage", "auto_increment");
    assert_int_equal(bg_options_print(&options, &text, NULL), BG_OK);
    copy = strdup(text);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        if (sscanf(line, "%63s %63s", name, value) == 2)
            set(&again, name, value);
    free(text);
    assert_int_equal(bg_options_print(&again, &text, NULL), BG_OK);
    assert_string_equal(text, copy);
    assert_int_equal(again.reporting.output_mode, BG_OUTPUT_SUM);
    assert_int_equal(again.numerics.partials, BG_BFLOAT16);
    assert_int_equal(again.numerics.first_moment_dtype, BG_FLOAT16);
    free(copy);
    free(text);
}

static void test_refusals(void **state)
{
    static const char *const cases[][3] = {{"deviceIteration", "1", "did you mean `deviceIterations`?"},
                                           {"replicas", "-1", "a whole number below 2^32"},
                                           {"replicas", "4294967296", "a whole number below 2^32"},
                                           {"trace", "maybe", "true or false"},
                                           {"output_mode", "most", "default, final, all, sum, every_n"},
                                           {"schedule", "zigzag", "a schedule's name"},
                                           {"wait_limit_s", "nan", "a number"}};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_options options = bg_options_defaults();
        bg_error error = {0};
        assert_int_not_equal(bg_options_set(&options, cases[i][0], cases[i][1], &error), BG_OK);
        if (strstr(error.message, cases[i][2]) == NULL)
            fail_msg("`%s` does not say `%s`", error.message, cases[i][2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_printed_is_set_again),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
