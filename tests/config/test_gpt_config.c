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
#include "options/optimizer.h"

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

static char *print(const bgi_gpt_config *config)
{
    bg_error error = {0};
    char *text = NULL;

    if (bgi_gpt_config_print(config, &text, &error) != BG_OK)
        fail_msg("%s", error.message);
    return text;
}

/* The class defaults of the PopXL GPT-3 example and its four release presets, as in its configuration files. Every
 * printed field has a row. A single value applies to the defaults and all presets. Fields that only Brigade has are set
 * so that training is that of the example. */
static const struct {
    const char *path;
    const char *values[5]; /* first the defaults, then the order of `presets` */
} published[] = {
    {"model.layers", {"96", "96", "32", "2", "12"}},
    {"model.hidden_size", {"12288", "12288", "2560", "64", "768"}},
    {"model.sequence_length", {"2048", "2048", "2048", "8", "128"}},
    {"model.eval", {"false"}},
    {"model.dropout_prob", {"0.1", "0.1", "0.1", "0.1", "0.1"}},
    {"model.precision", {"float16"}},
    {"model.weights", {"precision"}},
    {"model.seed", {"42"}},
    {"model.embedding.vocab_size", {"50257", "50257", "50257", "128", "50257"}},
    {"model.embedding.max_positional_length", {"2048", "2048", "2048", "8", "128"}},
    {"model.attention.heads", {"96", "96", "32", "4", "12"}},
    {"training.steps", {"1", "286000", "286000", "100000", "100000"}},
    {"training.global_batch_size", {"32", "128", "512", "16", "32"}},
    {"training.stochastic_rounding", {"true"}},
    {"training.optimizer.name", {"adamw", "adamw", "adamw", "adamw", "adamw"}},
    {"training.optimizer.learning_rate.maximum", {"0.01", "5e-6", "5e-6", "1e-5", "1e-5"}},
    {"training.optimizer.learning_rate.warmup_proportion", {"0", "0.005995", "0.005995", "0.00625", "0.00625"}},
    {"training.optimizer.learning_rate.constant", {"false"}},
    {"training.optimizer.learning_rate.decay", {"linear"}},
    {"training.optimizer.beta1", {"0.9"}},
    {"training.optimizer.beta2", {"0.999"}},
    {"training.optimizer.epsilon", {"1e-6"}},
    {"training.optimizer.weight_decay", {"0.01", "0.0", "0.0", "0.01", "0.01"}},
    {"training.optimizer.momentum", {"0"}},
    {"training.optimizer.combined", {"false"}},
    {"training.optimizer.velocity_scaling", {"1"}},
    {"training.optimizer.alpha", {"0.99"}},
    {"training.optimizer.centered", {"false"}},
    {"training.optimizer.tf_variant", {"false"}},
    {"training.optimizer.dampening", {"0"}},
    {"training.optimizer.nesterov", {"false"}},
    {"training.optimizer.bias_correction", {"true"}},
    {"training.optimizer.max_weight_norm", {"65500"}},
    {"training.optimizer.gradient_clipping", {"1.0"}},
    {"data.input_files", {"[]"}},
    {"data.n_samples", {"null"}},
    {"data.sample_stride", {"null"}},
    {"execution.micro_batch_size", {"1", "1", "1", "1", "1"}},
    {"execution.data_parallel", {"1", "4", "4", "2", "4"}},
    {"execution.tensor_parallel_1", {"1", "8", "4", "2", "2"}},
    {"execution.tensor_parallel_2", {"1", "8", "4", "2", "2"}},
    {"execution.device_iterations", {"1"}},
    {"execution.io_tiles", {"1", "128", "128", "64", "64"}},
    {"execution.available_memory_proportion",
     {"[0.28, 0.28, 0.28, 0.28]", "[0.1]", "[0.2]", "[0.28, 0.28, 0.28, 0.28]", "[0.28, 0.28, 0.28, 0.28]"}},
    {"execution.loss_scaling", {"1", "4096", "2048", "1", "1"}},
    {"execution.auto_loss_scaling", {"false"}},
    {"execution.attention_serialization", {"1", "8", "1", "2", "2"}},
    {"execution.test_mode", {"false"}},
    {"checkpoint.load", {"null"}},
    {"checkpoint.save", {"null"}},
    {"checkpoint.steps", {"0"}},
    {"checkpoint.max_checkpoints", {"1"}},
    {"checkpoint.memmap_dir", {"null"}},
};

static const struct {
    const char *name;
    uint64_t devices, accumulation;
} presets[] = {{"gpt3_175B_pod256", 256, 32}, {"gpt3_2.7B_pod64", 64, 128}, {"tiny", 8, 8}, {"test", 16, 8}};

enum { PUBLISHED = sizeof published / sizeof published[0], PRESETS = sizeof presets / sizeof presets[0] };

/* Counts the lines that end with a value, not with the colon of a group. */
static uint32_t count_leaves(const char *text)
{
    uint32_t count = 0;

    for (size_t i = 1; text[i] != '\0'; i++)
        count += text[i] == '\n' && text[i - 1] != ':';
    return count;
}

/* Checks that every field of the configuration has the published value in column `column` of the table. */
static void expect_published(const bgi_gpt_config *config, uint32_t column)
{
    bgi_gpt_config wanted = defaults();
    char *text = print(config), *wanted_text, assignment[160];

    assert_int_equal(count_leaves(text), PUBLISHED);
    for (uint32_t i = 0; i < PUBLISHED; i++) {
        const char *value = published[i].values[column];
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(published[i].path, published[k].path);
        snprintf(assignment, sizeof assignment, "%s=%s", published[i].path,
                 value != NULL ? value : published[i].values[0]);
        set(&wanted, assignment);
    }
    wanted_text = print(&wanted);
    assert_string_equal(text, wanted_text);
    free(text);
    free(wanted_text);
    bgi_gpt_config_clear(&wanted);
}

static void test_published_defaults(void **state)
{
    bgi_gpt_config config = defaults();

    (void)state;
    expect_published(&config, 0);
    bgi_gpt_config_clear(&config);
}

/* Checks every field of the four release presets and the values derived from them. Weights are float16, as in the
 * example, unless the precision is changed. */
static void test_presets(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRESETS; i++) {
        bgi_gpt_config config = preset(presets[i].name);

        expect_published(&config, i + 1);
        if (bgi_gpt_config_devices(&config) != presets[i].devices ||
            bgi_gpt_config_accumulation(&config) != presets[i].accumulation)
            fail_msg("%s: %llu devices, accumulation %llu", presets[i].name,
                     (unsigned long long)bgi_gpt_config_devices(&config),
                     (unsigned long long)bgi_gpt_config_accumulation(&config));
        assert_int_equal(bgi_gpt_config_weights(&config), BG_FLOAT16);
        set(&config, "precision=float32");
        assert_int_equal(bgi_gpt_config_weights(&config), BG_FLOAT32);
        set(&config, "precision=float16");
        set(&config, "model.weights=bfloat16");
        assert_int_equal(bgi_gpt_config_weights(&config), BG_BFLOAT16);
        bgi_gpt_config_clear(&config);
    }
}

/* A preset overrides the defaults, and single values override the preset. */
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
    refuse_file("model: 3\n", BG_ERROR_INVALID, "file:1:1: model is a group, not a value; its fields are layers, ");
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
    refuse_set("layers", "must have the form KEY=VALUE");
    refuse_set("=3", "must have the form KEY=VALUE");
    refuse_set("model.layer=3", "did you mean `model.layers`?");
    refuse_set("layer=3", "did you mean `model.layers`?");
    refuse_set("steps=3", "`steps` can mean training.steps or checkpoint.steps; give the full name");
    refuse_set("model.layers=x", "model.layers is \"x\"");
    refuse_set("model.layers=", "model.layers is null");
    refuse_set("model.layers=1\nother: 2", "must have the form KEY=VALUE");
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
                    "execution.micro_batch_size 1 = 2; a global_batch_size of 16 would be");
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
    refuse_together((const char *const[]){"attention_serialization=3", NULL},
                    "execution.attention_serialization 3 does not divide model.sequence_length 8");
    refuse_together((const char *const[]){"heads=5", "sequence_length=10", NULL}, "3 problems: ");
}

/* Settings that the optimizer does not have are errors, and the optimizer's name in the example's files is accepted. */
static void test_optimizers(void **state)
{
    static const char *const names[] = {"training.optimizer=lamb", "optimizer=lamb", "training.optimizer.name=lamb",
                                        "training.optimizer.optimizer=lamb"};
    bgi_gpt_config config;
    bg_error error = {0};

    (void)state;
    refuse_together((const char *const[]){"momentum=0.9", NULL},
                    "training.optimizer.momentum is set, but adamw has no such setting");
    refuse_together((const char *const[]){"alpha=0.5", NULL}, "it belongs to rmsprop");
    refuse_together((const char *const[]){"training.optimizer=sgd", "beta1=0.5", NULL},
                    "training.optimizer.beta1 is set, but sgd has no such setting");
    refuse_together((const char *const[]){"training.optimizer=sgd", "bias_correction=false", NULL},
                    "it belongs to adam|adamw|adamax|lamb");
    refuse_together((const char *const[]){"training.optimizer=rmsprop", "nesterov=true", NULL},
                    "but rmsprop has no such setting; it belongs to sgd");
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
    /* The example's spelling is accepted in a file and in a change. */
    config = defaults();
    assert_int_equal(bgi_gpt_config_parse_yaml(&config, "execution:\n  attention_serialisation: 4\n", "file", &error),
                     BG_OK);
    assert_int_equal(config.attention_serialization, 4);
    set(&config, "attention_serialisation=8");
    assert_int_equal(config.attention_serialization, 8);
    set(&config, "execution.attention_serialisation=2");
    assert_int_equal(config.attention_serialization, 2);
    bgi_gpt_config_clear(&config);
    refuse_file("training:\n  optimizer: adamv\n", BG_ERROR_INVALID, "training.optimizer.name is \"adamv\"");
    refuse_file("training:\n  optimizer: 3\n", BG_ERROR_INVALID,
                "training.optimizer is a group, not a value; its fields are name, ");
}

/* Each setting of each optimizer is a field, and takes effect. */
static void test_settings_arrive(void **state)
{
    const bgi_setting *setting;
    const char *name;

    (void)state;
    for (uint32_t kind = 0; (name = bg_optimizer_name((bg_optimizer_kind)kind)) != NULL; kind++)
        for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++) {
            bgi_gpt_config config = defaults();
            bg_optimizer optimizer;
            char text[96];

            snprintf(text, sizeof text, "training.optimizer.name=%s", name);
            set(&config, text);
            if (strcmp(setting->name, "uncorrected") == 0)
                set(&config, "training.optimizer.bias_correction=false");
            else if (strcmp(setting->name, "decay_matrices_only") != 0) {
                snprintf(text, sizeof text, "training.optimizer.%s=%s", setting->name,
                         setting->is_flag ? "true" : "0.375");
                set(&config, text);
            }
            assert_int_equal(bgi_gpt_config_optimizer(&config, &optimizer, NULL), BG_OK);
            assert_string_equal(bg_optimizer_name(optimizer.kind), name);
            if (bgi_optimizer_has((bg_optimizer_kind)kind, setting, NULL) &&
                bgi_setting_get(setting, &optimizer) != (setting->is_flag ? 1.0 : 0.375))
                fail_msg("%s: %s is %g", name, setting->name, bgi_setting_get(setting, &optimizer));
            bgi_gpt_config_clear(&config);
        }
}

/* The rate rises to the maximum during the warm-up, then falls to its initial value (section 11.6 of the example's
 * semantics). */
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
    assert_true(bgi_gpt_config_learning_rate(&config, 50000) > 4.6e-6); /* above the line (4.17e-6) */
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
        cmocka_unit_test(test_defaults),         cmocka_unit_test(test_published_defaults),
        cmocka_unit_test(test_presets),          cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_print_reads_back), cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_wrong_values),     cmocka_unit_test(test_what_goes_together),
        cmocka_unit_test(test_optimizers),       cmocka_unit_test(test_settings_arrive),
        cmocka_unit_test(test_learning_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
