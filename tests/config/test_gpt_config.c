/*
 * test_gpt_config.c: the configuration tree of GPT training: defaults, presets, precedence, errors, schedules.
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

#include "config/gpt_config.h"

static bgi_gpt_config defaults(void)
{
    bgi_gpt_config config;
    bg_error error = {0};

    if (bgi_gpt_config_init(&config, &error) != BG_OK)
        fail_msg("%s", error.message);
    return config;
}

static bgi_gpt_config preset(const char *name)
{
    bgi_gpt_config config = defaults();
    bg_error error = {0};
    char path[128];

    snprintf(path, sizeof path, "share/presets/gpt/%s.yaml", name);
    if (bgi_gpt_config_load(&config, path, &error) != BG_OK || bgi_gpt_config_check(&config, &error) != BG_OK)
        fail_msg("%s", error.message);
    return config;
}

static void set(bgi_gpt_config *config, const char *assignment)
{
    bg_error error = {0};

    if (bgi_gpt_config_set(config, assignment, &error) != BG_OK)
        fail_msg("%s: %s", assignment, error.message);
}

static void expect_one_line(const bg_error *error, const char *words)
{
    if (strstr(error->message, words) == NULL || strchr(error->message, '\n') != NULL)
        fail_msg("`%s` does not say `%s` in one line", error->message, words);
}

static void refuse_file(const char *yaml, bg_status status, const char *words)
{
    bgi_gpt_config config = defaults();
    bg_error error = {0};

    assert_int_equal(bgi_gpt_config_parse_yaml(&config, yaml, "file", &error), status);
    expect_one_line(&error, words);
    bgi_gpt_config_clear(&config);
}

static void refuse_set(const char *assignment, const char *words)
{
    bgi_gpt_config config = defaults();
    bg_error error = {0};

    assert_int_not_equal(bgi_gpt_config_set(&config, assignment, &error), BG_OK);
    expect_one_line(&error, words);
    bgi_gpt_config_clear(&config);
}

static void test_defaults(void **state)
{
    bgi_gpt_config config = defaults();
    bg_error error = {0};
    (void)state;

    assert_int_equal(config.layers, 96);
    assert_int_equal(config.hidden_size, 12288);
    assert_int_equal(config.max_positional_length, 2048);
    assert_false(config.eval);
    assert_true(config.dropout_prob == 0.1);
    assert_string_equal(config.precision, "float16");
    assert_int_equal(config.seed, 42);
    assert_int_equal(config.global_batch_size, 32);
    assert_true(config.stochastic_rounding);
    assert_true(config.learning_rate == 0.01 && config.beta2 == 0.999 && config.epsilon == 1e-6);
    assert_int_equal(json_array_size(config.input_files), 0);
    assert_int_equal(config.n_samples, 0);
    assert_int_equal(json_array_size(config.available_memory_proportion), 4);
    assert_null(config.load);
    assert_null(config.memmap_dir);
    assert_int_equal(bgi_gpt_config_check(&config, &error), BG_OK);
    bgi_gpt_config_clear(&config);
}

static void test_presets(void **state)
{
    static const struct {
        const char *name;
        uint64_t devices, accumulation;
    } rows[] = {{"gpt3_175B_pod256", 256, 32}, {"gpt3_2.7B_pod64", 64, 128}, {"tiny", 8, 8}, {"test", 16, 8}};
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bgi_gpt_config config = preset(rows[i].name);

        if (bgi_gpt_config_devices(&config) != rows[i].devices ||
            bgi_gpt_config_accumulation(&config) != rows[i].accumulation)
            fail_msg("%s: %llu devices, accumulation %llu", rows[i].name,
                     (unsigned long long)bgi_gpt_config_devices(&config),
                     (unsigned long long)bgi_gpt_config_accumulation(&config));
        bgi_gpt_config_clear(&config);
    }
}

/* Defaults, then the preset, then single values. */
static void test_precedence(void **state)
{
    bgi_gpt_config config = preset("tiny");
    (void)state;

    assert_int_equal(config.layers, 2);
    assert_true(config.beta1 == 0.9);
    set(&config, "layers=3");
    set(&config, "training.optimizer.learning_rate.maximum=2e-4");
    set(&config, "data.input_files=a.u16");
    set(&config, "n_samples=100");
    set(&config, "checkpoint.save=a: b/c");
    assert_int_equal(config.layers, 3);
    assert_int_equal(config.hidden_size, 64);
    assert_true(config.learning_rate == 2e-4);
    assert_string_equal(json_string_value(json_array_get(config.input_files, 0)), "a.u16");
    assert_int_equal(config.n_samples, 100);
    assert_string_equal(config.save, "a: b/c");
    set(&config, "n_samples=null");
    set(&config, "data.input_files=[a.u16, b.u32]");
    assert_int_equal(config.n_samples, 0);
    assert_int_equal(json_array_size(config.input_files), 2);
    bgi_gpt_config_clear(&config);
}

static void test_print_reads_back(void **state)
{
    bgi_gpt_config config = preset("gpt3_2.7B_pod64"), again = defaults();
    char *text = NULL, *text_again = NULL;
    bg_error error = {0};
    (void)state;

    set(&config, "data.input_files=[a.u16, \"b c.u32\"]");
    set(&config, "checkpoint.load=x");
    set(&config, "n_samples=7");
    assert_int_equal(bgi_gpt_config_print(&config, &text, &error), BG_OK);
    if (bgi_gpt_config_parse_yaml(&again, text, "printed", &error) != BG_OK)
        fail_msg("%s in\n%s", error.message, text);
    assert_int_equal(bgi_gpt_config_print(&again, &text_again, &error), BG_OK);
    assert_string_equal(text, text_again);
    assert_non_null(strstr(text, "    learning_rate:\n      maximum: 5e-06\n"));
    free(text);
    free(text_again);
    bgi_gpt_config_clear(&config);
    bgi_gpt_config_clear(&again);
}

static void test_wrong_files(void **state)
{
    (void)state;
    refuse_file("model:\n  layerz: 3\n", BG_ERROR_INVALID,
                "file:2:3: unknown key `model.layerz`; did you mean `model.layers`?");
    refuse_file("training:\n  heads: 3\n", BG_ERROR_INVALID, "did you mean `model.attention.heads`?");
    refuse_file("modle:\n  layers: 3\n", BG_ERROR_INVALID, "file:1:1: unknown key `modle`; did you mean `model`?");
    refuse_file("model:\n  lerning_rate: 3\n", BG_ERROR_INVALID,
                "file:2:3: unknown key `model.lerning_rate`; did you mean `training.optimizer.learning_rate`?");
    refuse_file("model:\n  layers: many\n", BG_ERROR_INVALID,
                "file:2:3: model.layers is \"many\"; it must be a whole number from 1");
    refuse_file("model:\n  attention:\n    heads: 0\n", BG_ERROR_INVALID, "file:3:5: model.attention.heads is 0");
    refuse_file("model:\n  layers: 2.5\n", BG_ERROR_INVALID, "model.layers is 2.5");
    refuse_file("model:\n  precision: float8\n", BG_ERROR_INVALID, "it must be one of float32|bfloat16|float16");
    refuse_file("model:\n  eval: 1\n", BG_ERROR_INVALID, "it must be true or false");
    refuse_file("model: 3\n", BG_ERROR_INVALID, "file:1:1: model is no value; it has fields: layers, ");
    refuse_file("model:\n  layers:\n    count: 3\n", BG_ERROR_INVALID, "model.layers is {");
    refuse_file("data:\n  input_files: a.u16\n", BG_ERROR_INVALID, "it must be a list of paths");
    refuse_file("execution:\n  available_memory_proportion: [0.1, 2]\n", BG_ERROR_INVALID, "numbers from 0 to 1");
    refuse_file("model:\n  layers: 0\n  hidden: 2\n", BG_ERROR_INVALID, "2 problems: file:2:3: ");
    refuse_file("model:\n  layers: 1\n  layers: 2\n", BG_ERROR_PARSE, "file:3:3: ");
    refuse_file("model: [\n", BG_ERROR_PARSE, "file:2:1: ");
}

static void test_wrong_values(void **state)
{
    (void)state;
    refuse_set("layers", "is no KEY=VALUE");
    refuse_set("=3", "is no KEY=VALUE");
    refuse_set("model.layer=3", "did you mean `model.layers`?");
    refuse_set("layer=3", "did you mean `model.layers`?");
    refuse_set("steps=3", "`steps` is training.steps or checkpoint.steps; say which");
    refuse_set("model.layers=x", "model.layers is \"x\"");
    refuse_set("model.layers=", "model.layers is null");
    refuse_set("model.layers=1\nother: 2", "is no KEY=VALUE");
    refuse_set("model.layers=[", "model.layers:");
    refuse_set("model.dropout_prob=1", "model.dropout_prob is 1; it must be a number from 0 to");
    refuse_set("checkpoint.save=", "checkpoint.save is \"\"");
}

static void refuse_together(const char *const *assignments, const char *words)
{
    bgi_gpt_config config = preset("tiny");
    bg_error error = {0};

    for (; *assignments != NULL; assignments++)
        set(&config, *assignments);
    assert_int_equal(bgi_gpt_config_check(&config, &error), BG_ERROR_INVALID);
    expect_one_line(&error, words);
    bgi_gpt_config_clear(&config);
}

static void test_what_goes_together(void **state)
{
    (void)state;
    refuse_together((const char *const[]){"heads=5", "tensor_parallel_1=1", NULL},
                    "model.hidden_size 64 is not divisible by model.attention.heads 5");
    refuse_together((const char *const[]){"global_batch_size=17", NULL},
                    "training.global_batch_size 17 is not divisible by execution.data_parallel 2 x "
                    "execution.micro_batch_size 1 = 2; 16 would be");
    refuse_together((const char *const[]){"sequence_length=9", NULL},
                    "model.sequence_length 9 is longer than model.embedding.max_positional_length 8");
    refuse_together((const char *const[]){"training.steps=7", "device_iterations=2", NULL},
                    "training.steps 7 is not divisible by execution.device_iterations 2");
    refuse_together((const char *const[]){"tensor_parallel_1=3", NULL},
                    "model.attention.heads 4 is not divisible by execution.tensor_parallel_1 3");
    refuse_together((const char *const[]){"tensor_parallel_2=3", NULL},
                    "model.hidden_size 64 is not divisible by execution.tensor_parallel_2 3");
    refuse_together((const char *const[]){"heads=64", "tensor_parallel_1=64", "tensor_parallel_2=64",
                                          "data_parallel=32", "global_batch_size=32", NULL},
                    "at most 65536 replicas in all");
    refuse_together((const char *const[]){"attention_serialisation=3", NULL},
                    "execution.attention_serialisation 3 does not divide model.sequence_length 8");
    refuse_together((const char *const[]){"heads=5", "sequence_length=10", NULL}, "3 problems: ");
}

/* What the optimiser does not have; and its name where the example's files have it. */
static void test_optimisers(void **state)
{
    static const char *const names[] = {"training.optimizer=lamb", "optimizer=lamb", "training.optimizer.name=lamb",
                                        "training.optimizer.optimizer=lamb"};
    bgi_gpt_config config;
    bg_error error = {0};

    (void)state;
    refuse_together((const char *const[]){"momentum=0.9", NULL},
                    "training.optimizer.momentum is set, and adamw has none");
    refuse_together((const char *const[]){"alpha=0.5", NULL}, "it is of rmsprop");
    refuse_together((const char *const[]){"training.optimizer=sgd", "beta1=0.5", NULL},
                    "training.optimizer.beta1 is set, and sgd has none");
    refuse_together((const char *const[]){"training.optimizer=sgd", "bias_correction=false", NULL},
                    "it is of adamw|adam|adamax|lamb");
    refuse_together((const char *const[]){"training.optimizer=rmsprop", "nesterov=true", NULL},
                    "and rmsprop has none: it is of sgd");
    refuse_together((const char *const[]){"training.optimizer=sgd", "nesterov=true", NULL},
                    "it needs a momentum above 0");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        config = defaults();
        set(&config, names[i]);
        assert_string_equal(config.optimizer, "lamb");
        assert_int_equal(bgi_gpt_config_check(&config, NULL), BG_OK);
        bgi_gpt_config_clear(&config);
    }
    config = defaults();
    assert_int_equal(bgi_gpt_config_parse_yaml(&config, "training:\n  optimizer: sgd\n", "file", &error), BG_OK);
    assert_string_equal(config.optimizer, "sgd");
    bgi_gpt_config_clear(&config);
    refuse_file("training:\n  optimizer: adamv\n", BG_ERROR_INVALID, "training.optimizer.name is \"adamv\"");
    refuse_file("training:\n  optimizer: 3\n", BG_ERROR_INVALID, "training.optimizer is no value");
}

/* Up to the maximum over the warm-up, down to where it began (section 11.6 of the example's semantics). */
static void test_learning_rate(void **state)
{
    bgi_gpt_config config = preset("gpt3_175B_pod256");
    (void)state;

    assert_true(bgi_gpt_config_learning_rate(&config, 0) == 1e-7);
    assert_true(bgi_gpt_config_learning_rate(&config, 857) == 1e-7 + (5e-6 - 1e-7) * 857 / 1714);
    assert_true(bgi_gpt_config_learning_rate(&config, 1713) < 5e-6);
    assert_true(bgi_gpt_config_learning_rate(&config, 1714) == 5e-6);
    assert_true(bgi_gpt_config_learning_rate(&config, 1715) < 5e-6);
    assert_true(fabs(bgi_gpt_config_learning_rate(&config, (1714 + 286000) / 2) - (5e-6 + 1e-7) / 2) < 1e-18);
    assert_true(fabs(bgi_gpt_config_learning_rate(&config, 286000) - 1e-7) < 1e-20);
    set(&config, "decay=cosine");
    assert_true(bgi_gpt_config_learning_rate(&config, 1714) == 5e-6);
    assert_true(fabs(bgi_gpt_config_learning_rate(&config, (1714 + 286000) / 2) - (5e-6 + 1e-7) / 2) < 1e-18);
    assert_true(bgi_gpt_config_learning_rate(&config, 50000) > 4.6e-6); /* above the line, which is at 4.17e-6 */
    assert_true(fabs(bgi_gpt_config_learning_rate(&config, 286000) - 1e-7) < 1e-20);
    set(&config, "constant=true");
    assert_true(bgi_gpt_config_learning_rate(&config, 0) == 5e-6);
    bgi_gpt_config_clear(&config);

    config = preset("tiny");
    assert_true(bgi_gpt_config_learning_rate(&config, 624) < 1e-5);
    assert_true(bgi_gpt_config_learning_rate(&config, 625) == 1e-5);
    set(&config, "warmup_proportion=0");
    assert_true(bgi_gpt_config_learning_rate(&config, 0) == 1e-5);
    set(&config, "warmup_proportion=1");
    assert_true(bgi_gpt_config_learning_rate(&config, 100000) == 1e-5);
    bgi_gpt_config_clear(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),           cmocka_unit_test(test_presets),
        cmocka_unit_test(test_precedence),         cmocka_unit_test(test_print_reads_back),
        cmocka_unit_test(test_wrong_files),        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_what_goes_together), cmocka_unit_test(test_optimisers),
        cmocka_unit_test(test_learning_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
