/*
 * test_options_object.c: tests options that own their values. Copies are deep, and options in use are frozen. Lines,
 * JSON and the environment are read either completely or not at all, with the position of every problem.
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
#include <brigade/transport.h>

#include "support/folder.h"

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_run_options *make(const bg_options *from)
{
    bg_run_options *options = NULL;
    bg_error error = {0};

    require(bg_run_options_create(from, &options, &error), &error);
    return options;
}

static void expect_says(const bg_error *error, const char *wanted)
{
    if (strstr(error->message, wanted) == NULL)
        fail_msg("`%s` does not say `%s`", error->message, wanted);
}

static char *print(const bg_run_options *options)
{
    char *text = NULL;

    assert_int_equal(bg_options_print(bg_run_options_view(options), &text, NULL), BG_OK);
    return text;
}

/* An owned copy does not depend on its source, which may change and be freed. */
static void test_deep_copies(void **state)
{
    char stages[] = "B1|B2", folder[] = "plans", output[] = "loss", pattern[] = "layer*", block[] = "B1";
    uint32_t mapping[] = {0, 1};
    double shares[] = {0.5, 0.25};
    bg_output_request request = {.output = output, .mode = BG_OUTPUT_ALL};
    bg_location_rule rule = {.classes = 1, .pattern = pattern};
    bg_block_cost cost = {.name = block};
    bg_options plain = bg_options_defaults(), to = bg_options_defaults();
    bg_run_options *options, *clone = NULL;
    const bg_options *view;
    (void)state;

    plain.execution.stages = stages;
    plain.files.cache_dir = folder;
    plain.execution.device_mapping = mapping;
    plain.execution.device_mapping_count = 2;
    plain.memory.matmul_proportions = shares;
    plain.memory.matmul_proportion_count = 2;
    plain.reporting.output_requests = &request;
    plain.reporting.output_request_count = 1;
    plain.memory.location_rules = &rule;
    plain.memory.location_rule_count = 1;
    plain.execution.block_costs = &cost;
    plain.execution.block_cost_count = 1;
    options = make(&plain);
    assert_int_equal(bg_run_options_set(options, "deviceIterations", "7", NULL), BG_OK);
    assert_int_equal(bg_run_options_add_anchor(options, "relu", NULL, BG_OUTPUT_ALL, 1, NULL), BG_OK);
    assert_int_equal(bg_run_options_clone(options, &clone, NULL), BG_OK);
    bg_run_options_destroy(options);
    memset(stages, 'x', 2);
    memset(folder, 'x', 2);
    memset(output, 'x', 2);
    memset(pattern, 'x', 2);
    memset(block, 'x', 2);
    mapping[1] = 7;
    shares[1] = 7.0;
    view = bg_run_options_view(clone);
    assert_string_equal(view->execution.stages, "B1|B2");
    assert_string_equal(view->files.cache_dir, "plans");
    assert_string_equal(view->reporting.output_requests[0].output, "loss");
    assert_string_equal(view->memory.location_rules[0].pattern, "layer*");
    assert_string_equal(view->execution.block_costs[0].name, "B1");
    assert_int_equal(view->execution.device_mapping[1], 1);
    assert_true(view->memory.matmul_proportions[1] == 0.25);
    /* Applies the options that were set, with anchors, and no others. */
    assert_true(bg_run_options_is_given(clone, "deviceIterations"));
    assert_false(bg_run_options_is_given(clone, "replicas"));
    to.replicas.count = 5;
    bg_run_options_apply(clone, &to);
    assert_true(to.execution.device_iterations == 7 && to.replicas.count == 5);
    assert_int_equal(to.reporting.output_request_count, 2);
    assert_string_equal(to.reporting.output_requests[1].output, "relu");
    bg_run_options_destroy(clone);
}

static void test_frozen_once_used(void **state)
{
    bg_run_options *options = make(NULL), *clone = NULL;
    bg_options to = bg_options_defaults();
    bg_error error = {0};
    (void)state;

    require(bg_run_options_set(options, "deviceIterations", "7", &error), &error);
    assert_int_equal(bg_run_options_use(options)->execution.device_iterations, 7);
    assert_int_equal(bg_run_options_set(options, "deviceIterations", "8", &error), BG_ERROR_INVALID);
    expect_says(&error, "frozen");
    expect_says(&error, "clone");
    assert_int_equal(bg_run_options_parse(options, "replicas 2", "text", NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_run_options_parse(options, "{}", "text", NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_run_options_view(options)->execution.device_iterations, 7);
    assert_int_equal(bg_run_options_clone(options, &clone, NULL), BG_OK);
    require(bg_run_options_set(clone, "deviceIterations", "8", &error), &error);
    assert_int_equal(bg_run_options_view(clone)->execution.device_iterations, 8);
    assert_int_equal(bg_run_options_view(options)->execution.device_iterations, 7);
    /* Options that were applied to other options are frozen as well. */
    bg_run_options_apply(clone, &to);
    assert_int_equal(to.execution.device_iterations, 8);
    assert_int_equal(bg_run_options_set(clone, "deviceIterations", "9", NULL), BG_ERROR_INVALID);
    bg_run_options_destroy(options);
    bg_run_options_destroy(clone);
}

/* Values of the right kind are set and read back; NULL means the default; other kinds are errors. */
static void test_values(void **state)
{
    const int64_t mapping[] = {0, 1, 1, 0}, wrong[] = {0, -1};
    const double shares[] = {0.25, 1e-3};
    bg_run_options *options = make(NULL);
    const bg_options *view = bg_run_options_view(options);
    bg_config_value value = {0};
    bg_error error = {0};
    (void)state;

    require(
        bg_run_options_set_value(options, "trace", &(bg_config_value){.kind = BG_CONFIG_BOOL, .boolean = true}, &error),
        &error);
    require(bg_run_options_set_integer(options, "deviceIterations", 7, &error), &error);
    require(bg_run_options_set_integer(options, "io_threads", -1, &error), &error);
    require(bg_run_options_set_integer(options, "wait_limit_s", 3, &error), &error);
    require(bg_run_options_set_value(options, "loss_scaling", &(bg_config_value){.kind = BG_CONFIG_REAL, .real = 0.1},
                                     &error),
            &error);
    require(bg_run_options_set_text(options, "outputMode", "OutputMode.EveryN", &error), &error);
    require(bg_run_options_set_text(options, "pinning", "compact", &error), &error);
    require(bg_run_options_set_value(options, "strict", &(bg_config_value){.kind = BG_CONFIG_BOOL, .boolean = true},
                                     &error),
            &error);
    assert_true(view->execution.pinning == BG_PINNING_COMPACT && view->execution.strict);
    require(bg_run_options_set_text(options, "log_dir", "a folder, with # and = in it", &error), &error);
    require(bg_run_options_set_value(options, "device_mapping",
                                     &(bg_config_value){.kind = BG_CONFIG_INTEGERS, .integers = mapping, .count = 4},
                                     &error),
            &error);
    require(bg_run_options_set_value(options, "matmul_proportions",
                                     &(bg_config_value){.kind = BG_CONFIG_REALS, .reals = shares, .count = 2}, &error),
            &error);
    assert_true(view->reporting.trace && view->execution.device_iterations == 7 && view->execution.io_threads == -1 &&
                view->numerics.loss_scaling == 0.1);
    assert_true(view->execution.wait_limit_s == 3.0 && view->reporting.output_mode == BG_OUTPUT_EVERY_N);
    assert_string_equal(view->files.log_dir, "a folder, with # and = in it");
    assert_true(view->execution.device_mapping_count == 4 && view->execution.device_mapping[2] == 1);
    assert_true(view->memory.matmul_proportion_count == 2 && view->memory.matmul_proportions[1] == 1e-3);
    assert_true(bg_run_options_is_given(options, "trace"));

    require(bg_run_options_get(options, "replicationFactor", &value, &error), &error);
    assert_true(value.kind == BG_CONFIG_INTEGER && value.integer == 1 && value.real == 1.0);
    require(bg_run_options_get(options, "trace", &value, &error), &error);
    assert_true(value.kind == BG_CONFIG_BOOL && value.boolean);
    require(bg_run_options_get(options, "loss_scaling", &value, &error), &error);
    assert_true(value.kind == BG_CONFIG_REAL && value.real == 0.1);
    require(bg_run_options_get(options, "output_mode", &value, &error), &error);
    assert_string_equal(value.text, "every_n");
    require(bg_run_options_get(options, "device_mapping", &value, &error), &error);
    assert_true(value.kind == BG_CONFIG_INTEGERS && value.count == 4);
    assert_memory_equal(value.integers, mapping, sizeof mapping);
    require(bg_run_options_get(options, "matmul_proportions", &value, &error), &error);
    assert_true(value.kind == BG_CONFIG_REALS && value.count == 2 && value.reals[1] == 1e-3);
    require(bg_run_options_set(options, "seed", "18446744073709551615", &error), &error);
    require(bg_run_options_get(options, "seed", &value, &error), &error);
    assert_string_equal(value.text, "18446744073709551615");
    assert_int_equal(bg_run_options_get(options, "sed", &value, &error), BG_ERROR_NOT_FOUND);

    require(bg_run_options_set_value(options, "loss_scaling", &(bg_config_value){.kind = BG_CONFIG_NULL}, &error),
            &error);
    require(bg_run_options_set_value(options, "device_mapping", &(bg_config_value){.kind = BG_CONFIG_NULL}, &error),
            &error);
    assert_true(view->numerics.loss_scaling == 1.0 && view->execution.device_mapping == NULL &&
                view->execution.device_mapping_count == 0);

    bg_error_clear(&error);
    assert_int_equal(bg_run_options_set_value(options, "replicas",
                                              &(bg_config_value){.kind = BG_CONFIG_BOOL, .boolean = true}, &error),
                     BG_ERROR_INVALID);
    expect_says(&error, "option `replicas` is `true`; it must be a whole number");
    bg_error_clear(&error);
    assert_int_equal(bg_run_options_set_text(options, "replicas", "3", &error), BG_ERROR_INVALID);
    bg_error_clear(&error);
    assert_int_equal(
        bg_run_options_set_value(options, "device_mapping",
                                 &(bg_config_value){.kind = BG_CONFIG_INTEGERS, .integers = wrong, .count = 2}, &error),
        BG_ERROR_INVALID);
    expect_says(&error, "option `device_mapping` is `0,-1`; it must be a list of whole numbers");
    bg_error_clear(&error);
    assert_int_equal(bg_run_options_set_value(options, "replica",
                                              &(bg_config_value){.kind = BG_CONFIG_BOOL, .boolean = true}, &error),
                     BG_ERROR_NOT_FOUND);
    expect_says(&error, "did you mean `replicas`");
    assert_int_equal(view->replicas.count, 1);
    bg_run_options_use(options);
    assert_int_equal(
        bg_run_options_set_value(options, "trace", &(bg_config_value){.kind = BG_CONFIG_BOOL, .boolean = false}, NULL),
        BG_ERROR_INVALID);
    assert_true(view->reporting.trace);
    bg_run_options_destroy(options);
}

/* Every option is printed, and reading the text gives the same value. */
static void test_every_value_comes_back(void **state)
{
    bg_run_options *options = make(NULL), *again = make(NULL);
    char *text = NULL, *rest = NULL, *first, *second;
    bg_error error = {0};
    (void)state;

    require(bg_run_options_parse(options, "stages B1|B2\nreplicas 3\nrecompute auto\nmatmul_proportions 0.1,0.2\n",
                                 "text", &error),
            &error);
    text = print(options);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        bg_config_value value = {0};
        char name[64];
        assert_int_equal(sscanf(line, "%63s", name), 1);
        require(bg_run_options_get(options, name, &value, &error), &error);
        require(bg_run_options_set_value(again, name, &value, &error), &error);
    }
    first = print(options);
    second = print(again);
    assert_string_equal(first, second);
    free(first);
    free(second);
    free(text);
    bg_run_options_destroy(options);
    bg_run_options_destroy(again);
}

/* A text that is not UTF-8, which JSON cannot represent, is an error when it is read; in a plain struct, it is an error
 * when the options are printed. */
static void test_texts_are_utf8(void **state)
{
    bg_options plain = bg_options_defaults();
    bg_run_options *options;
    bg_error error = {0};
    char *text = NULL;
    (void)state;

    plain.files.log_dir = "caf\xe9";
    options = make(&plain);
    assert_int_equal(bg_run_options_print_json(options, &text, &error), BG_ERROR_INVALID);
    expect_says(&error, "option `log_dir` is");
    expect_says(&error, "UTF-8");
    assert_null(text);
    bg_error_clear(&error);
    assert_int_equal(bg_run_options_parse(options, "log_dir caf\xe9", "text", &error), BG_ERROR_INVALID);
    expect_says(&error, "it must be a text in UTF-8");
    require(bg_run_options_set_text(options, "log_dir", "caf\xc3\xa9", &error), &error);
    require(bg_run_options_print_json(options, &text, &error), &error);
    free(text);
    bg_run_options_destroy(options);
}

/* Lines in every syntax are read; later lines override earlier ones. */
static void test_lines(void **state)
{
    static const char text[] = "# as PopTorch has them\n"
                               "deviceIterations(1)\n"
                               "  gradient_accumulation = 8   # micro-batches\n"
                               "\r\n"
                               "replicas: 2\r\n"
                               "outputMode(OutputMode.EveryN)\n"
                               "output_period 3\n"
                               "stages B1,B2|B3,B4@1\n"
                               "device_mapping 0, 1\n"
                               "place_weights remote\n"
                               "phase_liveness always_live\n"
                               "io_threads -1\n"
                               "deviceIterations=12";
    bg_run_options *options = make(NULL);
    const bg_options *view = bg_run_options_view(options);
    bg_options applied = bg_options_defaults();
    bg_error error = {0};
    (void)state;

    require(bg_run_options_parse(options, text, "text", &error), &error);
    assert_int_equal(view->execution.device_iterations, 12);
    assert_int_equal(view->execution.gradient_accumulation, 8);
    assert_int_equal(view->replicas.count, 2);
    assert_int_equal(view->reporting.output_mode, BG_OUTPUT_EVERY_N);
    assert_int_equal(view->reporting.output_period, 3);
    assert_string_equal(view->execution.stages, "B1,B2|B3,B4@1");
    assert_int_equal(view->execution.device_mapping_count, 2);
    assert_int_equal(view->execution.device_mapping[1], 1);
    assert_int_equal(view->memory.locations[BG_LOCATION_WEIGHTS].place, BG_PLACE_REMOTE);
    assert_int_equal(view->memory.phase_liveness, BG_LIVE_ALWAYS);
    assert_int_equal(view->execution.io_threads, -1);
    assert_true(bg_run_options_is_given(options, "replicationFactor"));
    assert_false(bg_run_options_is_given(options, "seed"));
    applied.numerics.seed = 9;
    applied.replicas.count = 5;
    bg_run_options_apply(options, &applied);
    assert_true(applied.numerics.seed == 9 && applied.replicas.count == 2 &&
                applied.execution.device_mapping_count == 2);
    bg_run_options_destroy(options);
}

/* All problems are reported at once, each with its line, and no option is set. */
static void test_problems_of_lines(void **state)
{
    static const char *const says[] = {"4 problems", "run.txt:2: option `replicas` is `-2`",
                                       "run.txt:3: there is no option `deviceIteration`; did you mean",
                                       "run.txt:5: `seed(` has no `)`",
                                       "run.txt:6: option `device_mapping` is `0,x`; it must be a list"};
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 16];
    bg_run_options *options = make(NULL);
    bg_error error = {0};
    FILE *file;
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/run.txt", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("trace true\nreplicas -2\ndeviceIteration 3\n\nseed(3\ndevice_mapping 0,x\n", file);
    fclose(file);
    assert_int_equal(bg_run_options_load(options, path, &error), BG_ERROR_INVALID);
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++)
        expect_says(&error, says[i]);
    assert_false(bg_run_options_view(options)->reporting.trace);
    assert_false(bg_run_options_is_given(options, "trace"));
    /* Even a single problem prevents all changes. */
    assert_int_equal(bg_run_options_parse(options, "trace true\nreplicas -2\n", "text", &error), BG_ERROR_INVALID);
    assert_false(bg_run_options_view(options)->reporting.trace);
    assert_false(bg_run_options_is_given(options, "trace"));
    assert_int_equal(bg_run_options_load(options, folder, NULL), BG_ERROR_IO);
    test_folder_remove(folder);
    assert_int_equal(bg_run_options_load(options, path, NULL), BG_ERROR_NOT_FOUND);
    bg_run_options_destroy(options);
}

static void test_json(void **state)
{
    static const char text[] = " {\"deviceIterations\": 7, \"outputMode\": [\"OutputMode.EveryN\", 7],\n"
                               "\"seed\": \"18446744073709551615\", \"trace\": true, \"loss_scaling\": 0.5,\n"
                               "\"matmul_proportions\": [0.25, 0.125], \"replicationFactor\": [2]}";
    bg_run_options *options = make(NULL), *again = make(NULL);
    const bg_options *view = bg_run_options_view(options);
    char *json = NULL, *first, *second;
    bg_error error = {0};
    (void)state;

    require(bg_run_options_parse(options, text, "text", &error), &error);
    assert_int_equal(view->execution.device_iterations, 7);
    assert_int_equal(view->reporting.output_mode, BG_OUTPUT_EVERY_N);
    assert_int_equal(view->reporting.output_period, 7);
    assert_true(view->numerics.seed == UINT64_MAX && view->reporting.trace && view->numerics.loss_scaling == 0.5);
    assert_int_equal(view->memory.matmul_proportion_count, 2);
    assert_true(view->memory.matmul_proportions[1] == 0.125);
    assert_int_equal(view->replicas.count, 2);
    require(bg_run_options_print_json(options, &json, &error), &error);
    require(bg_run_options_parse(again, json, "again", &error), &error);
    first = print(options);
    second = print(again);
    assert_string_equal(first, second);
    free(first);
    free(second);
    free(json);

    assert_int_equal(bg_run_options_parse(again, "{\n \"replicas\": 1.5,\n \"trace\": 3}", "text", &error),
                     BG_ERROR_INVALID);
    expect_says(&error, "text:2:2: option `replicas` is `1.5`");
    expect_says(&error, "text:3:2: option `trace` is `3`; it must be true or false");
    assert_int_equal(bg_run_options_parse(again, "{\"trace\": }", "text", NULL), BG_ERROR_PARSE);
    bg_run_options_destroy(options);
    bg_run_options_destroy(again);
}

static void test_environment(void **state)
{
    bg_run_options *options = make(NULL);
    bg_error error = {0};
    (void)state;

    unsetenv(BG_OPTIONS_VARIABLE);
    require(bg_run_options_read_environment(options, &error), &error);
    setenv(BG_OPTIONS_VARIABLE, " replicas=3  stages=B1|B2 ", 1);
    require(bg_run_options_read_environment(options, &error), &error);
    assert_int_equal(bg_run_options_view(options)->replicas.count, 3);
    assert_string_equal(bg_run_options_view(options)->execution.stages, "B1|B2");
    setenv(BG_OPTIONS_VARIABLE, "{\"replicas\": 4}", 1);
    require(bg_run_options_read_environment(options, &error), &error);
    assert_int_equal(bg_run_options_view(options)->replicas.count, 4);
    setenv(BG_OPTIONS_VARIABLE, "replicas=many seed=1", 1);
    assert_int_equal(bg_run_options_read_environment(options, &error), BG_ERROR_INVALID);
    expect_says(&error, "BRIGADE_OPTIONS: option `replicas` is `many`");
    assert_false(bg_run_options_is_given(options, "seed"));
    unsetenv(BG_OPTIONS_VARIABLE);
    bg_run_options_destroy(options);
}

/* The error has one line for each problem. */
static void test_all_problems(void **state)
{
    bg_options options = bg_options_defaults();
    char *text = NULL;
    size_t lines = 0;
    (void)state;

    assert_int_equal(bg_options_problems(&options, true, &text, NULL), BG_OK);
    assert_string_equal(text, "");
    free(text);
    options.execution.device_iterations = 0;
    options.replicas.count = 0;
    options.execution.wait_limit_s = -1.0;
    options.numerics.loss_scaling = 0.0;
    assert_int_equal(bg_options_problems(&options, true, &text, NULL), BG_OK);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 4);
    assert_non_null(strstr(text, "device_iterations is 0"));
    assert_non_null(strstr(text, "wait_limit_s is -1"));
    free(text);
}

/* Anchors are added one by one, cloned, applied with the given options, printed, and replaced by reading. */
static void test_anchors(void **state)
{
    const bg_location_rule rule = {
        .classes = 2, .pattern = "layer*", .location = {.place = BG_PLACE_REMOTE, .sharded = true}};
    bg_options plain = bg_options_defaults(), to = bg_options_defaults();
    bg_run_options *options, *clone = NULL;
    char text[] = "B1.relu", *printed = NULL;
    bg_error error = {0};
    (void)state;

    plain.memory.location_rules = &rule;
    plain.memory.location_rule_count = 1;
    options = make(&plain);
    bg_run_options_apply(options, &to);
    assert_int_equal(to.reporting.output_request_count, 0);
    assert_int_equal(bg_run_options_clone(options, &clone, NULL), BG_OK);
    bg_run_options_destroy(options);
    assert_int_equal(bg_run_options_add_anchor(clone, text, "relu", BG_OUTPUT_EVERY_N, 2, NULL), BG_OK);
    text[0] = 'x';
    assert_int_equal(bg_run_options_add_anchor(clone, "loss", NULL, BG_OUTPUT_SUM, 1, NULL), BG_OK);
    assert_int_equal(bg_run_options_add_anchor(clone, "loss", NULL, BG_OUTPUT_ALL, 1, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "anchor `loss` already exists"));
    assert_int_equal(bg_run_options_add_anchor(clone, "", NULL, BG_OUTPUT_ALL, 1, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_run_options_add_anchor(clone, "y", NULL, (bg_output_mode)9, 1, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_run_options_clone(clone, &options, NULL), BG_OK);
    bg_run_options_destroy(clone);
    bg_run_options_apply(options, &to);
    assert_int_equal(to.reporting.output_request_count, 2);
    assert_string_equal(to.reporting.output_requests[0].output, "B1.relu");
    assert_string_equal(to.reporting.output_requests[0].name, "relu");
    assert_true(to.reporting.output_requests[0].period == 2 && to.reporting.output_requests[1].mode == BG_OUTPUT_SUM);
    assert_int_equal(bg_options_print(bg_run_options_view(options), &printed, NULL), BG_OK);
    assert_non_null(strstr(printed, "\n# anchor relu: B1.relu, every_n of period 2\n# anchor loss: loss, sum\n"
                                    "# location of layer* (classes 0x2): remote, in pieces\n"));
    bg_error_clear(&error);
    assert_int_equal(bg_run_options_add_anchor(options, "z", NULL, BG_OUTPUT_ALL, 1, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "frozen"));
    bg_run_options_destroy(options);
    options = make(NULL);
    assert_int_equal(bg_run_options_parse(options, printed, "printed", &error), BG_OK);
    bg_run_options_destroy(options);
    free(printed);
}

static void test_transport(void **state)
{
    const bg_transport transport = {.struct_bytes = sizeof transport};
    bg_options other = bg_options_defaults(), to = bg_options_defaults(), kept;
    bg_run_options *options = make(NULL), *clone = NULL;
    bg_error error = {0};
    (void)state;

    /* An option that was not set keeps its value. */
    other.execution.transport = &transport;
    kept = other;
    bg_run_options_apply(options, &kept);
    assert_ptr_equal(kept.execution.transport, &transport);
    assert_int_equal(bg_run_options_set_transport(options, &transport, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "frozen"));
    bg_run_options_destroy(options);

    options = make(NULL);
    assert_int_equal(bg_run_options_set_transport(options, &transport, NULL), BG_OK);
    assert_ptr_equal(bg_run_options_view(options)->execution.transport, &transport);
    assert_int_equal(bg_run_options_clone(options, &clone, NULL), BG_OK);
    bg_run_options_destroy(options);
    bg_run_options_apply(clone, &to);
    assert_ptr_equal(to.execution.transport, &transport);
    bg_run_options_destroy(clone);

    options = make(&other);
    assert_int_equal(bg_run_options_set_transport(options, NULL, NULL), BG_OK);
    bg_run_options_apply(options, &kept);
    assert_null(kept.execution.transport);
    bg_run_options_destroy(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deep_copies),
        cmocka_unit_test(test_frozen_once_used),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_problems_of_lines),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_all_problems),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_every_value_comes_back),
        cmocka_unit_test(test_texts_are_utf8),
        cmocka_unit_test(test_anchors),
        cmocka_unit_test(test_transport),
    };

    return cmocka_run_group_tests_name("options that own what they hold", tests, NULL, NULL);
}
