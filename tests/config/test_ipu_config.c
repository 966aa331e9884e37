/*
 * test_ipu_config.c: fields, defaults, checks, inference, updates and files of IPU configurations.
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

#include "config/ipu_config.h"
#include "core/file.h"
#include "core/text.h"
#include "support/folder.h"

static bg_ipu_config *parse(const char *json)
{
    bg_ipu_config *config = NULL;
    bg_error error = {0};

    if (bg_ipu_config_parse_json(json, "test", NULL, &config, &error) != BG_OK)
        fail_msg("%s: %s", json, error.message);
    return config;
}

/* Checks the field's value in the printed lines, as JSON text. */
static void expect_field(const bg_ipu_config *config, const char *name, const char *json)
{
    char *text = NULL, wanted[256];

    assert_int_equal(bg_ipu_config_print(config, &text, NULL), BG_OK);
    snprintf(wanted, sizeof wanted, "%-46s %s", name, json);
    const char *line = strstr(text, wanted);
    if (line == NULL || (line[strlen(wanted)] != '\n' && line[strlen(wanted)] != ' '))
        fail_msg("no line `%s` in\n%s", wanted, text);
    free(text);
}

static void expect_says(const bg_error *error, const char *words)
{
    if (strstr(error->message, words) == NULL)
        fail_msg("`%s` does not say `%s`", error->message, words);
}

static void refuse(const char *json, bg_status status, const char *words)
{
    bg_ipu_config *config = NULL;
    bg_error error = {0};

    if (bg_ipu_config_parse_json(json, "test", NULL, &config, &error) != status)
        fail_msg("%s: wrong status, says `%s`", json, error.message);
    assert_null(config);
    expect_says(&error, words);
}

static void test_defaults(void **state)
{
    static const char *const rows[][2] = {{"auto_loss_scaling", "false"},
                                          {"device_iterations", "1"},
                                          {"embedding_serialization_factor", "1"},
                                          {"enable_half_partials", "true"},
                                          {"executable_cache_dir", "\"\""},
                                          {"execute_encoder_on_cpu_for_generation", "false"},
                                          {"explicit_ir_inference", "false"},
                                          {"gradient_accumulation_steps", "1"},
                                          {"inference_device_iterations", "1"},
                                          {"inference_embedding_serialization_factor", "1"},
                                          {"inference_ipus_per_replica", "1"},
                                          {"inference_layers_per_ipu", "[-1]"},
                                          {"inference_matmul_proportion", "0.2"},
                                          {"inference_parallelize_kwargs", "{}"},
                                          {"inference_projection_serialization_factor", "1"},
                                          {"inference_replication_factor", "1"},
                                          {"inference_serialized_embedding_splits_per_ipu", "null"},
                                          {"inference_serialized_projection_splits_per_ipu", "null"},
                                          {"ipus_per_replica", "1"},
                                          {"layers_per_ipu", "[-1]"},
                                          {"matmul_proportion", "0.2"},
                                          {"optimizer_state_offchip", "false"},
                                          {"output_mode", "\"final\""},
                                          {"parallelize_kwargs", "{}"},
                                          {"projection_serialization_factor", "1"},
                                          {"recompute_checkpoint_every_layer", "false"},
                                          {"replicated_tensor_sharding", "false"},
                                          {"replication_factor", "1"},
                                          {"seed", "null"},
                                          {"serialized_embedding_splits_per_ipu", "null"},
                                          {"serialized_projection_splits_per_ipu", "null"}};
    const size_t count = sizeof rows / sizeof rows[0];
    bg_ipu_config *config = NULL;
    (void)state;

    assert_int_equal(bg_ipu_config_create(&config, NULL), BG_OK);
    for (size_t i = 0; i < count; i++) {
        expect_field(config, rows[i][0], rows[i][1]);
        assert_string_equal(bg_ipu_config_field_at(i), rows[i][0]);
        assert_true(strlen(bg_ipu_config_field_help(i)) > 5);
    }
    assert_null(bg_ipu_config_field_at(count));
    bg_ipu_config_destroy(config);
}

static void test_inferred_defaults(void **state)
{
    static const struct {
        const char *json, *ipus, *inference_ipus, *inference_matmul;
    } rows[] = {
        {"{}", "1", "1", "0.2"},
        {"{\"layers_per_ipu\": [1, 2, 3]}", "3", "3", "0.2"},
        {"{\"ipus_per_replica\": 10}", "10", "10", "0.2"},
        {"{\"ipus_per_replica\": 10, \"inference_layers_per_ipu\": [1, 2, 3]}", "10", "3", "0.2"},
        {"{\"layers_per_ipu\": [1, 2, 3, 4], \"matmul_proportion\": [0.1, 0.2, 0.3, 0.4]}", "4", "4",
         "[0.1, 0.2, 0.3, 0.4]"},
        {"{\"layers_per_ipu\": [1, 2, 3, 4], \"matmul_proportion\": [0.1, 0.2, 0.3, 0.4], "
         "\"inference_layers_per_ipu\": [3, 7]}",
         "4", "2", "0.2"},
        {"{\"layers_per_ipu\": [-1, -1], \"inference_layers_per_ipu\": [-1]}", "2", "1", "0.2"},
        {"{\"inference_layers_per_ipu\": [], \"inference_matmul_proportion\": 0}", "1", "1", "0"},
        {"{\"layers_per_ipu\": [1, 2], \"inference_layers_per_ipu\": null}", "2", "2", "0.2"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bg_ipu_config *config = parse(rows[i].json);
        expect_field(config, "ipus_per_replica", rows[i].ipus);
        expect_field(config, "inference_ipus_per_replica", rows[i].inference_ipus);
        expect_field(config, "inference_matmul_proportion", rows[i].inference_matmul);
        bg_ipu_config_destroy(config);
    }
}

static void test_types_and_ranges(void **state)
{
    static const struct {
        const char *name;
        int floor;
    } floors[] = {{"replication_factor", 1},
                  {"inference_replication_factor", 1},
                  {"gradient_accumulation_steps", 1},
                  {"ipus_per_replica", 1},
                  {"inference_ipus_per_replica", 1},
                  {"matmul_proportion", 0},
                  {"inference_matmul_proportion", 0},
                  {"embedding_serialization_factor", 1},
                  {"inference_embedding_serialization_factor", 1},
                  {"projection_serialization_factor", 1},
                  {"inference_projection_serialization_factor", 1},
                  {"device_iterations", 1},
                  {"inference_device_iterations", 1}};
    (void)state;

    for (size_t i = 0; i < sizeof floors / sizeof floors[0]; i++) {
        char json[128];
        snprintf(json, sizeof json, "{\"%s\": %d}", floors[i].name, floors[i].floor);
        bg_ipu_config_destroy(parse(json));
        snprintf(json, sizeof json, "{\"%s\": %d}", floors[i].name, floors[i].floor - 1);
        refuse(json, BG_ERROR_INVALID, floors[i].name);
        snprintf(json, sizeof json, "{\"%s\": \"1\"}", floors[i].name);
        refuse(json, BG_ERROR_INVALID, "is \"1\", a string; it must be");
    }
    refuse("{\"layers_per_ipu\": [-2]}", BG_ERROR_INVALID,
           "`layers_per_ipu[0]` is -2; every element must be at least -1");
    refuse("{\"layers_per_ipu\": [1, \"2\"]}", BG_ERROR_INVALID, "`layers_per_ipu[1]` is \"2\", a string");
    refuse("{\"layers_per_ipu\": null}", BG_ERROR_INVALID, "`layers_per_ipu` is null");
    refuse("{\"seed\": true}", BG_ERROR_INVALID, "it must be a whole number or null");
    refuse("{\"replication_factor\": 2.0}", BG_ERROR_INVALID, "`replication_factor` is 2.0, a number");
    refuse("{\"output_mode\": \"last\"}", BG_ERROR_INVALID, "all, sum, final or default");
    refuse("{\"output_mode\": \"every_n\"}", BG_ERROR_INVALID, "all, sum, final or default");
    refuse("{\"replication_factor\": 99999999999}", BG_ERROR_INVALID, "99999999999");
}

/* For every field, a value of another kind is an error that names the field, the expected kinds and the given value. */
static void test_every_type(void **state)
{
    static const char *const values[] = {"true", "1", "0.5", "\"x\"", "[1]", "[0.5]", "{\"a\": 1}", "null"};
    static const struct {
        const char *names[12];
        const char *taken; /* for each of `values`: y if these fields accept it without other fields */
    } kinds[] = {
        {{"auto_loss_scaling", "enable_half_partials", "execute_encoder_on_cpu_for_generation", "explicit_ir_inference",
          "optimizer_state_offchip", "recompute_checkpoint_every_layer", "replicated_tensor_sharding"},
         "y......."},
        {{"device_iterations", "gradient_accumulation_steps", "inference_device_iterations",
          "inference_replication_factor", "replication_factor"},
         ".y......"},
        {{"embedding_serialization_factor", "inference_embedding_serialization_factor",
          "projection_serialization_factor", "inference_projection_serialization_factor", "ipus_per_replica",
          "inference_ipus_per_replica", "seed"},
         ".y.....y"},
        {{"executable_cache_dir"}, "...y...."},
        {{"output_mode"}, "........"},
        {{"layers_per_ipu"}, "....y..."},
        {{"inference_layers_per_ipu", "serialized_embedding_splits_per_ipu",
          "inference_serialized_embedding_splits_per_ipu", "serialized_projection_splits_per_ipu",
          "inference_serialized_projection_splits_per_ipu"},
         "....y..y"},
        {{"matmul_proportion"}, ".yy.yy.."},
        {{"inference_matmul_proportion"}, ".yy.yy.y"},
        {{"parallelize_kwargs", "inference_parallelize_kwargs"}, "......yy"},
    };
    size_t fields = 0;
    (void)state;

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t n = 0; n < 12 && kinds[k].names[n] != NULL; n++, fields++)
            for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
                char json[128], words[128];
                snprintf(json, sizeof json, "{\"%s\": %s}", kinds[k].names[n], values[v]);
                snprintf(words, sizeof words, "`%s", kinds[k].names[n]);
                if (kinds[k].taken[v] == 'y')
                    bg_ipu_config_destroy(parse(json));
                else
                    refuse(json, BG_ERROR_INVALID, words);
            }
    assert_null(bg_ipu_config_field_at(fields));
    assert_non_null(bg_ipu_config_field_at(fields - 1));
    refuse("{\"matmul_proportion\": [-0.1]}", BG_ERROR_INVALID, "`matmul_proportion[0]` is -0.1");
    refuse("{\"seed\": 1.0}", BG_ERROR_INVALID, "it must be a whole number or null");
}

static void test_cross_checks(void **state)
{
    (void)state;
    refuse("{\"ipus_per_replica\": 2, \"matmul_proportion\": [0.1]}", BG_ERROR_INVALID,
           "should use the same number of IPUs as `ipus_per_replica` = 2");
    refuse("{\"ipus_per_replica\": 2, \"layers_per_ipu\": [1, 2, 3]}", BG_ERROR_INVALID,
           "should use the same number of IPUs as");
    refuse("{\"inference_ipus_per_replica\": 2, \"inference_layers_per_ipu\": [1]}", BG_ERROR_INVALID,
           "`inference_layers_per_ipu` = [1] should use");
    refuse("{\"inference_ipus_per_replica\": 2, \"inference_matmul_proportion\": [0.1]}", BG_ERROR_INVALID,
           "`inference_matmul_proportion` = [0.1] should use");
    refuse("{\"inference_layers_per_ipu\": [3, 3], \"inference_serialized_embedding_splits_per_ipu\": [1]}",
           BG_ERROR_INVALID, "should use the same number of IPUs as");
    /* With a wildcard the length is checked once the layers are known. */
    bg_ipu_config_destroy(parse("{\"ipus_per_replica\": 4, \"layers_per_ipu\": [1, -1]}"));
    refuse("{\"embedding_serialization_factor\": 2, \"serialized_embedding_splits_per_ipu\": [2]}", BG_ERROR_INVALID,
           "Only one of `embedding_serialization_factor` and `serialized_embedding_splits_per_ipu`");
    /* An explicit factor of 1 is refused too. */
    refuse("{\"embedding_serialization_factor\": 1, \"serialized_embedding_splits_per_ipu\": [2]}", BG_ERROR_INVALID,
           "Only one of `embedding_serialization_factor` and `serialized_embedding_splits_per_ipu`");
    refuse(
        "{\"inference_projection_serialization_factor\": 2, \"inference_serialized_projection_splits_per_ipu\": [2]}",
        BG_ERROR_INVALID, "Only one of");
    refuse("{\"layers_per_ipu\": [3, 3], \"serialized_projection_splits_per_ipu\": [1]}", BG_ERROR_INVALID,
           "should use the same number of IPUs as");
}

static void test_splits(void **state)
{
    bg_ipu_config *config = parse("{\"layers_per_ipu\": [3, 3, 3, 3], \"serialized_embedding_splits_per_ipu\": "
                                  "[3, 1, 0, 0], \"serialized_projection_splits_per_ipu\": [0, 0, 2, 2]}");
    const bgi_ipu_settings settings = bgi_ipu_config_settings(config, false);
    (void)state;

    assert_int_equal(settings.embedding_factor, 4);
    assert_int_equal(settings.projection_factor, 4);
    assert_int_equal(settings.embedding_splits[0], 3);
    expect_field(config, "embedding_serialization_factor", "null");
    bg_ipu_config_destroy(config);
    refuse("{\"layers_per_ipu\": [3, 3, 3, 3], \"serialized_embedding_splits_per_ipu\": [3, 0, 2, 0]}",
           BG_ERROR_INVALID, "consecutive devices");
    refuse("{\"layers_per_ipu\": [3, 3], \"serialized_embedding_splits_per_ipu\": [0, 0]}", BG_ERROR_INVALID,
           "at least one split");
    refuse("{\"layers_per_ipu\": [3, 3], \"serialized_embedding_splits_per_ipu\": [-1, 1]}", BG_ERROR_INVALID,
           "splits have no wildcards");
}

/* One check finds all problems, each with its position. */
static void test_all_problems_at_once(void **state)
{
    bg_ipu_config *config = NULL;
    bg_error error = {0};
    (void)state;

    assert_int_equal(bg_ipu_config_parse_json("{\n  \"seed\": \"x\",\n  \"layers_per_ipu\": [1, 2],\n"
                                              "  \"matmul_proportion\": [0.1],\n  \"replicas\": 2,\n"
                                              "  \"output_mode\": \"most\"\n}",
                                              "file.json", NULL, &config, &error),
                     BG_ERROR_INVALID);
    expect_says(&error, "4 problems: ");
    expect_says(&error, "file.json:2:3: `seed` is \"x\", a string");
    expect_says(&error, "file.json:4:3: `matmul_proportion` = [0.1] should use");
    expect_says(&error, "file.json:5:3: unknown argument replicas=2");
    expect_says(&error, "file.json:6:3: `output_mode`");
    bg_error_clear(&error);
    assert_int_equal(bg_ipu_config_parse_yaml("seed: x\nlayers_per_ipu: [1, 2]\nipus_per_replica: 3\n", "file.yaml",
                                              NULL, &config, &error),
                     BG_ERROR_INVALID);
    expect_says(&error, "file.yaml:1:1: `seed`");
    expect_says(&error, "file.yaml:2:1: `layers_per_ipu` = [1, 2]");
}

static void test_unknown_keys(void **state)
{
    const bg_ipu_config_load_options lenient = {.keep_unknown = true};
    bg_ipu_config *config = NULL;
    char *text = NULL;
    (void)state;

    refuse("{\"foo\": 1}", BG_ERROR_INVALID, "unknown argument foo=1");
    refuse("{\"layer_per_ipu\": [1]}", BG_ERROR_INVALID, "did you mean `layers_per_ipu`?");
    assert_int_equal(bg_ipu_config_parse_json("{\"foo\": {\"b\": 1}, \"optimum_version\": \"1.6.1\", "
                                              "\"enable_half_first_order_momentum\": true}",
                                              "test", &lenient, &config, NULL),
                     BG_OK);
    assert_int_equal(bg_ipu_config_print_notes(config, &text, NULL), BG_OK);
    assert_non_null(strstr(text, "`foo` is an unknown field; it is kept"));
    assert_non_null(strstr(text, "`enable_half_first_order_momentum` is deprecated"));
    assert_null(strstr(text, "optimum_version"));
    free(text);
    assert_int_equal(bg_ipu_config_print_json(config, &text, NULL), BG_OK);
    assert_string_equal(text, "{\n  \"enable_half_first_order_momentum\": true,\n  \"foo\": {\n    \"b\": 1\n  },\n"
                              "  \"optimum_version\": \"1.6.1\"\n}\n");
    free(text);
    /* Unknown and deprecated fields remain after a change too. */
    assert_int_equal(bg_ipu_config_set(config, "replication_factor",
                                       &(bg_config_value){.kind = BG_CONFIG_INTEGER, .integer = 2}, NULL),
                     BG_OK);
    assert_int_equal(bg_ipu_config_print_json(config, &text, NULL), BG_OK);
    assert_non_null(strstr(text, "\"foo\": {\n    \"b\": 1\n  }"));
    assert_non_null(strstr(text, "\"enable_half_first_order_momentum\": true"));
    assert_non_null(strstr(text, "\"replication_factor\": 2"));
    free(text);
    bg_ipu_config_destroy(config);
}

static void test_old_names(void **state)
{
    bg_ipu_config *config = parse("{\"anchor_mode\": \"all\"}");
    char *text = NULL;
    (void)state;

    expect_field(config, "output_mode", "\"all\"");
    assert_int_equal(bg_ipu_config_print_notes(config, &text, NULL), BG_OK);
    assert_string_equal(text, "`anchor_mode` is an old name of `output_mode`\n");
    free(text);
    bg_ipu_config_destroy(config);
    config = parse("{\"sharded_execution_for_inference\": true, \"enable_half_first_order_momentum\": false}");
    assert_int_equal(bg_ipu_config_print_notes(config, &text, NULL), BG_OK);
    assert_non_null(strstr(text, "`sharded_execution_for_inference`"));
    assert_non_null(strstr(text, "`enable_half_first_order_momentum`"));
    free(text);
    bg_ipu_config_destroy(config);
    refuse("{\"anchor_mode\": \"all\", \"output_mode\": \"sum\"}", BG_ERROR_INVALID, "old name");
}

static void test_warning(void **state)
{
    bg_ipu_config *config = parse("{\"replicated_tensor_sharding\": true}");
    char *text = NULL;
    (void)state;

    assert_int_equal(bg_ipu_config_print_notes(config, &text, NULL), BG_OK);
    assert_string_equal(text, "`replicated_tensor_sharding` is not used when `replication_factor` = 1\n");
    free(text);
    assert_int_equal(bg_ipu_config_set(config, "replication_factor",
                                       &(bg_config_value){.kind = BG_CONFIG_INTEGER, .integer = 2}, NULL),
                     BG_OK);
    assert_int_equal(bg_ipu_config_print_notes(config, &text, NULL), BG_OK);
    assert_string_equal(text, "");
    free(text);
    bg_ipu_config_destroy(config);
}

static void test_modes(void **state)
{
    bg_ipu_config *config = parse("{\"layers_per_ipu\": [1, 2], \"inference_layers_per_ipu\": [3], "
                                  "\"inference_device_iterations\": 9}");
    bg_ipu_config *copy = NULL;
    bg_config_value value;
    bg_error error = {0};
    (void)state;

    assert_string_equal(bg_ipu_config_mode(config), "training");
    assert_int_equal(bg_ipu_config_get(config, "layers_per_ipu", &value, NULL), BG_OK);
    assert_int_equal(value.kind, BG_CONFIG_INTEGERS);
    assert_int_equal(value.count, 2);
    assert_int_equal(bg_ipu_config_set_mode(config, "invalid", &error), BG_ERROR_INVALID);
    expect_says(&error, "mode is `invalid`");
    assert_int_equal(bg_ipu_config_set_mode(config, "inference", NULL), BG_OK);
    assert_int_equal(bg_ipu_config_get(config, "layers_per_ipu", &value, NULL), BG_OK);
    assert_int_equal(value.count, 1);
    assert_int_equal(value.integers[0], 3);
    /* Only managed fields depend on the mode. */
    assert_int_equal(bg_ipu_config_get(config, "device_iterations", &value, NULL), BG_OK);
    assert_int_equal(value.integer, 1);
    assert_int_equal(
        bg_ipu_config_set(config, "matmul_proportion", &(bg_config_value){.kind = BG_CONFIG_REAL, .real = 0.6}, NULL),
        BG_OK);
    expect_field(config, "matmul_proportion", "0.2");
    expect_field(config, "inference_matmul_proportion", "0.6");
    /* The mode remains after a change, and clones have the same mode. */
    assert_string_equal(bg_ipu_config_mode(config), "inference");
    assert_int_equal(bg_ipu_config_update_from_string(config, "seed=7", NULL), BG_OK);
    assert_string_equal(bg_ipu_config_mode(config), "inference");
    assert_int_equal(bg_ipu_config_clone(config, &copy, NULL), BG_OK);
    assert_string_equal(bg_ipu_config_mode(copy), "inference");
    bg_ipu_config_destroy(copy);
    bg_ipu_config_destroy(config);
}

static void test_set(void **state)
{
    bg_ipu_config *config = NULL, *copy = NULL;
    bg_config_value value;
    bg_error error = {0};
    (void)state;

    assert_int_equal(bg_ipu_config_create(&config, NULL), BG_OK);
    assert_int_equal(
        bg_ipu_config_set(config, "layers_per_ipu",
                          &(bg_config_value){.kind = BG_CONFIG_INTEGERS, .integers = (int64_t[]){1, 2, 3}, .count = 3},
                          NULL),
        BG_OK);
    assert_int_equal(bg_ipu_config_get(config, "ipus_per_replica", &value, NULL), BG_OK);
    assert_int_equal(value.integer, 3);
    /* An invalid change does not modify the configuration. */
    assert_int_equal(bg_ipu_config_set(config, "ipus_per_replica",
                                       &(bg_config_value){.kind = BG_CONFIG_INTEGER, .integer = 5}, &error),
                     BG_ERROR_INVALID);
    expect_field(config, "ipus_per_replica", "3");
    assert_int_equal(
        bg_ipu_config_set(config, "matmul_proportion",
                          &(bg_config_value){.kind = BG_CONFIG_REALS, .reals = (double[]){0.1, 0.2, 0.3}, .count = 3},
                          NULL),
        BG_OK);
    assert_int_equal(
        bg_ipu_config_set(config, "output_mode", &(bg_config_value){.kind = BG_CONFIG_TEXT, .text = "sum"}, NULL),
        BG_OK);
    assert_int_equal(bg_ipu_config_set(config, "auto_loss_scaling",
                                       &(bg_config_value){.kind = BG_CONFIG_BOOL, .boolean = true}, NULL),
                     BG_OK);
    assert_int_equal(
        bg_ipu_config_set(config, "seed", &(bg_config_value){.kind = BG_CONFIG_INTEGER, .integer = INT64_MAX}, NULL),
        BG_OK);
    expect_field(config, "seed", "9223372036854775807");
    assert_int_equal(bg_ipu_config_clone(config, &copy, NULL), BG_OK);
    assert_true(bg_ipu_config_equal(config, copy));
    assert_int_equal(bg_ipu_config_set(config, "seed", NULL, NULL), BG_OK);
    assert_false(bg_ipu_config_equal(config, copy));
    expect_field(copy, "seed", "9223372036854775807");
    bg_error_clear(&error);
    assert_int_equal(
        bg_ipu_config_set(config, "sed", &(bg_config_value){.kind = BG_CONFIG_INTEGER, .integer = 1}, &error),
        BG_ERROR_NOT_FOUND);
    expect_says(&error, "did you mean `seed`?");
    /* A number has the same value in every notation. */
    assert_int_equal(bg_ipu_config_update_from_string(config, "matmul_proportion=1", NULL), BG_OK);
    assert_int_equal(bg_ipu_config_update_from_string(copy, "matmul_proportion=1,seed=null", NULL), BG_OK);
    assert_true(bg_ipu_config_equal(config, copy));
    assert_int_equal(bg_ipu_config_update_from_string(copy, "matmul_proportion=1.0", NULL), BG_OK);
    assert_true(bg_ipu_config_equal(config, copy));
    assert_int_equal(bg_ipu_config_update_from_string(copy, "matmul_proportion=1.5", NULL), BG_OK);
    assert_false(bg_ipu_config_equal(config, copy));
    bg_ipu_config_destroy(copy);
    bg_ipu_config_destroy(config);
}

static void test_updates(void **state)
{
    bg_ipu_config *config = NULL;
    bg_error error = {0};
    static const char *const wrong[][2] = {
        {"foo=1", "update string, column 1: Key `foo` isn't in the original config dict"},
        {"replication_factor", "column 1: `replication_factor` is not key=value"},
        {"seed=1,device_iterations=2=3", "column 8"},
        {"executable_cache_dir=a=b", "it has more than one ="},
        {"seed=1,  replication_factor=two", "update string, column 10: `two` is not a value of `replication_factor`"},
        {"replication_factor=4000000000", "must be at most 2147483647"},
        {"layers_per_ipu=[9000000000 1]", "every element must be at most "},
        {"auto_loss_scaling=maybe", "update string, column 1: Can't derive true or false"},
        {"layers_per_ipu=[1 x]", "a list of whole numbers [a b c]"},
        {"parallelize_kwargs={}", "You can only update int, float, bool, list or string values"},
        {"layers_per_ipu=[1 2],ipus_per_replica=3", "should use the same number of IPUs"},
        {"", "is not key=value"},
    };
    (void)state;

    assert_int_equal(bg_ipu_config_create(&config, NULL), BG_OK);
    if (bg_ipu_config_update_from_string(config,
                                         "layers_per_ipu=[1 2 3 4], matmul_proportion=[0.08 0.2 0.25 0.25],seed=7,"
                                         "auto_loss_scaling=YES,output_mode=all,inference_matmul_proportion=0.5",
                                         &error) != BG_OK)
        fail_msg("%s", error.message);
    expect_field(config, "layers_per_ipu", "[1, 2, 3, 4]");
    expect_field(config, "ipus_per_replica", "4");
    expect_field(config, "matmul_proportion", "[0.08, 0.2, 0.25, 0.25]");
    expect_field(config, "inference_matmul_proportion", "0.5");
    expect_field(config, "seed", "7");
    expect_field(config, "auto_loss_scaling", "true");
    assert_int_equal(
        bg_ipu_config_update_from_string(config, "seed=None,layers_per_ipu=[2,2,3,3],auto_loss_scaling=0", NULL),
        BG_OK);
    expect_field(config, "seed", "null");
    expect_field(config, "auto_loss_scaling", "false");
    for (size_t i = 0; i < 8; i++) {
        static const char *const words[] = {"true", "1", "Y", "yes", "False", "0", "n", "NO"};
        char text[64];
        snprintf(text, sizeof text, "explicit_ir_inference=%s", words[i]);
        assert_int_equal(bg_ipu_config_update_from_string(config, text, NULL), BG_OK);
        expect_field(config, "explicit_ir_inference", i < 4 ? "true" : "false");
    }
    assert_int_equal(
        bg_ipu_config_update_from_string(config, " ipus_per_replica = none , matmul_proportion = 1e-3 ", NULL), BG_OK);
    expect_field(config, "matmul_proportion", "0.001");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        bg_error_clear(&error);
        assert_int_equal(bg_ipu_config_update_from_string(config, wrong[i][0], &error), BG_ERROR_INVALID);
        expect_says(&error, wrong[i][1]);
        expect_field(config, "layers_per_ipu", "[2, 2, 3, 3]");
    }
    bg_ipu_config_destroy(config);
}

static void test_batch_size_factor(void **state)
{
    bg_ipu_config *config = parse("{\"replication_factor\": 2, \"gradient_accumulation_steps\": 3, "
                                  "\"device_iterations\": 4, \"inference_replication_factor\": 2, "
                                  "\"inference_device_iterations\": 4}");
    (void)state;

    assert_int_equal(bg_ipu_config_batch_size_factor(config, false), 24);
    assert_int_equal(bg_ipu_config_batch_size_factor(config, true), 8);
    bg_ipu_config_destroy(config);
}

/* Files in Optimum's form are read and written unchanged: one with every field, and one of an older release with only
 * some fields. */
static void test_files_come_out_as_they_went_in(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    bg_ipu_config *config = NULL, *again = NULL;
    char *path, *text, *found;
    size_t size;
    bg_error error = {0};
    static const char file[] =
        "{\n  \"enable_half_first_order_momentum\": true,\n"
        "  \"inference_device_iterations\": 4,\n  \"layers_per_ipu\": [\n    3,\n    7,\n    7,\n"
        "    7\n  ],\n  \"matmul_proportion\": [\n    0.1,\n    0.15,\n    1e-05,\n    1.0\n  ],\n"
        "  \"optimum_version\": \"1.0.0\",\n  \"parallelize_kwargs\": {},\n"
        "  \"executable_cache_dir\": \"caf\\u00e9\\u007f\\ud83d\\ude00 \\\"x\\\"\",\n  \"seed\": 42\n}\n";
    static const char sorted[] =
        "{\n  \"enable_half_first_order_momentum\": true,\n  \"executable_cache_dir\": "
        "\"caf\\u00e9\\u007f\\ud83d\\ude00 \\\"x\\\"\",\n"
        "  \"inference_device_iterations\": 4,\n  \"layers_per_ipu\": [\n    3,\n    7,\n    7,\n    7\n  ],\n"
        "  \"matmul_proportion\": [\n    0.1,\n    0.15,\n    1e-05,\n    1.0\n  ],\n  \"optimum_version\": "
        "\"1.0.0\",\n"
        "  \"parallelize_kwargs\": {},\n  \"seed\": 42\n}\n";
    (void)state;

    test_folder_create(folder);
    strcat(folder, "/one/two"); /* these folders are made when the file is saved */
    config = parse(file);
    if (bg_ipu_config_save(config, folder, &error) != BG_OK)
        fail_msg("%s", error.message);
    path = bgi_path_join(folder, BG_IPU_CONFIG_FILE);
    assert_int_equal(bgi_file_load(path, 1 << 20, &found, &size, NULL), BG_OK);
    assert_string_equal(found, sorted);
    assert_int_equal(bg_ipu_config_save(config, path, &error), BG_ERROR_INVALID);
    expect_says(&error, "is a file");
    assert_int_equal(bg_ipu_config_load(folder, NULL, &again, NULL), BG_OK);
    assert_true(bg_ipu_config_equal(config, again));
    bg_ipu_config_destroy(again);
    assert_int_equal(bg_ipu_config_load(path, NULL, &again, NULL), BG_OK);
    assert_true(bg_ipu_config_equal(config, again));
    bg_ipu_config_destroy(again);
    bg_ipu_config_destroy(config);

    /* The file now has every field and a version. */
    assert_int_equal(bg_ipu_config_create(&config, NULL), BG_OK);
    assert_int_equal(bg_ipu_config_print_json(config, &text, NULL), BG_OK);
    for (size_t i = 0; bg_ipu_config_field_at(i) != NULL; i++)
        assert_non_null(strstr(text, bg_ipu_config_field_at(i)));
    assert_non_null(strstr(text, "\"brigade_version\": \""));
    assert_null(strstr(text, "\"mode\""));
    again = parse(text);
    assert_true(bg_ipu_config_equal(config, again));
    bg_ipu_config_destroy(again);
    free(text);
    assert_int_equal(bg_ipu_config_print_yaml(config, &text, NULL), BG_OK);
    assert_int_equal(bg_ipu_config_parse_yaml(text, "yaml", NULL, &again, NULL), BG_OK);
    assert_true(bg_ipu_config_equal(config, again));
    bg_ipu_config_destroy(again);
    free(text);
    bg_ipu_config_destroy(config);
    free(found);
    free(path);
    folder[strlen(folder) - strlen("/one/two")] = '\0';
    test_folder_remove(folder);
}

/* Unknown keys of any length and with any characters, at the top level and inside objects, are kept in YAML. */
static void test_long_keys(void **state)
{
    static const size_t lengths[] = {1, 127, 128, 129, 1023, 1024, 1025, 5000};
    static const char fill[] = {'k', '\'', '\x01'};
    const bg_ipu_config_load_options lenient = {.keep_unknown = true};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] * sizeof fill; i++) {
        const size_t length = lengths[i / sizeof fill];
        bg_ipu_config *config = NULL, *again = NULL;
        bg_error error = {0};
        bgi_string json = {0};
        char *text = NULL;

        for (int at = 0; at < 2; at++) {
            bgi_string_add(&json, at == 0 ? "{\"" : "{\"inner\": [{\"");
            for (size_t c = 0; c < length; c++)
                bgi_string_add(&json, fill[i % sizeof fill] == '\x01' ? "\\u0001" : "%c", fill[i % sizeof fill]);
            bgi_string_add(&json, at == 0 ? "\": " : "\": 42}]}}");
        }
        if (bg_ipu_config_parse_json(json.data, "f", &lenient, &config, &error) != BG_OK ||
            bg_ipu_config_print_yaml(config, &text, &error) != BG_OK ||
            bg_ipu_config_parse_yaml(text, "printed", &lenient, &again, &error) != BG_OK)
            fail_msg("%zu of %d: %s", length, fill[i % sizeof fill], error.message);
        assert_true(bg_ipu_config_equal(config, again));
        bg_ipu_config_destroy(again);
        bg_ipu_config_destroy(config);
        bgi_string_clear(&json);
        free(text);
    }
}

static void test_overrides(void **state)
{
    const bg_ipu_config_load_options options = {
        .overrides = "inference_layers_per_ipu=[-1],inference_ipus_per_replica=2,executable_cache_dir=cache"};
    const bg_ipu_config_load_options wrong = {.overrides = "seed=1,layers_per_ipu=[1 -3]"};
    bg_ipu_config *config = NULL;
    bg_error error = {0};
    (void)state;

    assert_int_equal(
        bg_ipu_config_parse_json("{\"inference_layers_per_ipu\": [1, 2, 3]}", "test", &options, &config, NULL), BG_OK);
    expect_field(config, "inference_layers_per_ipu", "[-1]");
    expect_field(config, "inference_ipus_per_replica", "2");
    expect_field(config, "executable_cache_dir", "\"cache\"");
    bg_ipu_config_destroy(config);

    /* A problem is reported with the position of the text that caused it. */
    assert_int_equal(
        bg_ipu_config_parse_json("{\"layers_per_ipu\": [1],\n\"device_iterations\": 0}", "f", &wrong, &config, &error),
        BG_ERROR_INVALID);
    expect_says(&error, "update string: `layers_per_ipu[1]` is -3");
    expect_says(&error, "f:2:1: `device_iterations` is 0");
}

static void test_bad_text(void **state)
{
    static const char *const yaml[][2] = {
        {"a: &x 1\nb: *x\n", "f:1:4: anchors (&) are not supported"},
        {"seed: 1\nseed: 2\n", "f:2:1: the key `seed` occurs twice"},
        {"seed: !!int 1\n", "tags (!) are not supported"},
        {"seed: yes\n", "f:1:7: the word is ambiguous"},
        {"- 1\n", "f:1:1: the file must be a map"},
        {"seed: 010\n", "begins with 0"},
        {"seed: 99999999999999999999\n", "does not fit in 64 bits"},
        {"seed: 1\n---\nseed: 2\n", "a second document"},
        {"seed: [1\n", "f:2:1"},
        {"a: {<<: 1}\n", "merge keys (<<) are not supported"},
        {"? [1]\n: 2\n", "the key must be a string"},
        {"seed: 1.2.3\n", "looks like a number but is not one"},
        {"a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n", "nested too deeply"},
    };
    bg_ipu_config *config = NULL;
    (void)state;

    refuse("{\n  \"seed\": 1,\n  \"seed\": 2\n}", BG_ERROR_PARSE, "test:3:");
    refuse("{\"seed\": }", BG_ERROR_PARSE, "test:1:");
    refuse("[1]", BG_ERROR_PARSE, "must be an object");
    refuse("\xef\xbb\xbf{}", BG_ERROR_PARSE, "test:1:1: the file begins with a byte order mark");
    refuse("", BG_ERROR_PARSE, "test:1:");
    refuse("{\"a\": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}", BG_ERROR_PARSE,
           "deeper than 32 levels");
    for (size_t i = 0; i < sizeof yaml / sizeof yaml[0]; i++) {
        bg_error error = {0};
        assert_int_equal(bg_ipu_config_parse_yaml(yaml[i][0], "f", NULL, &config, &error), BG_ERROR_PARSE);
        expect_says(&error, yaml[i][1]);
    }
}

/* A value that was inferred when the configuration was written is inferred again when other values change. */
static void test_inferred_values_stay_inferred(void **state)
{
    static const char *const inferred[] = {"ipus_per_replica",
                                           "inference_ipus_per_replica",
                                           "inference_layers_per_ipu",
                                           "inference_matmul_proportion",
                                           "embedding_serialization_factor",
                                           "inference_embedding_serialization_factor",
                                           "projection_serialization_factor",
                                           "inference_projection_serialization_factor"};
    (void)state;

    for (int round = 0; round < 4; round++) {
        const bool is_yaml = round == 1, is_given = round == 2, is_split = round == 3;
        bg_ipu_config *config = NULL, *again = NULL, *third = NULL;
        bg_error error = {0};
        char *text = NULL;
        assert_int_equal(bg_ipu_config_create(&config, NULL), BG_OK);
        assert_int_equal(bg_ipu_config_update_from_string(config, "seed=1", NULL), BG_OK);
        if (is_given) /* explicit values remain, as in files that give every value */
            assert_int_equal(bg_ipu_config_update_from_string(config, "ipus_per_replica=1", NULL), BG_OK);
        assert_int_equal(is_yaml ? bg_ipu_config_print_yaml(config, &text, NULL)
                                 : bg_ipu_config_print_json(config, &text, NULL),
                         BG_OK);
        assert_int_equal(is_yaml ? bg_ipu_config_parse_yaml(text, "text", NULL, &again, NULL)
                                 : bg_ipu_config_parse_json(text, "text", NULL, &again, NULL),
                         BG_OK);
        assert_true(bg_ipu_config_equal(config, again));
        free(text);
        /* The configuration that was read is written and read again, and is the same. */
        assert_int_equal(bg_ipu_config_print_json(again, &text, NULL), BG_OK);
        third = parse(text);
        for (size_t i = is_given; i < sizeof inferred / sizeof inferred[0]; i++) {
            char wanted[80];
            snprintf(wanted, sizeof wanted, "\"%s\": null", inferred[i]);
            if (strstr(text, wanted) == NULL)
                fail_msg("`%s` is not in %s", wanted, text);
        }
        if (is_given) {
            assert_int_equal(bg_ipu_config_update_from_string(third, "layers_per_ipu=[1 2]", &error), BG_ERROR_INVALID);
            assert_non_null(strstr(error.message, "`ipus_per_replica` may be null: it is then inferred"));
            assert_int_equal(bg_ipu_config_update_from_string(third, "ipus_per_replica=none", NULL), BG_OK);
        }
        assert_int_equal(bg_ipu_config_update_from_string(third, "layers_per_ipu=[1 2]", NULL), BG_OK);
        if (is_split)
            assert_int_equal(bg_ipu_config_update_from_string(third, "serialized_embedding_splits_per_ipu=[1 2]", NULL),
                             BG_OK);
        expect_field(third, "ipus_per_replica", "2");
        expect_field(third, "inference_ipus_per_replica", "2");
        expect_field(third, "inference_layers_per_ipu", "[1, 2]");
        free(text);
        bg_ipu_config_destroy(third), bg_ipu_config_destroy(again), bg_ipu_config_destroy(config);
    }
}

/* `null` and `none` clear fields that may be empty; for other fields these values are an error that names the field. */
static void test_none_in_updates(void **state)
{
    static const char *const words[] = {"null", "none", "None", "NULL"};
    (void)state;

    for (size_t i = 0; bg_ipu_config_field_at(i) != NULL; i++)
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            const char *name = bg_ipu_config_field_at(i);
            const bool is_folder = strcmp(name, "executable_cache_dir") == 0;
            const bool takes_none = is_folder || (bgi_ipu_fields[bgi_ipu_field_find(name)].kinds & BGI_NULL) != 0;
            bg_ipu_config *config = parse(is_folder ? "{\"executable_cache_dir\": \"x\"}" : "{}"), *defaults = NULL;
            bg_error error = {0};
            char text[128];
            snprintf(text, sizeof text, "%s=%s", name, words[w]);
            assert_int_equal(bg_ipu_config_create(&defaults, NULL), BG_OK);
            assert_int_equal(bg_ipu_config_update_from_string(config, text, &error),
                             takes_none ? BG_OK : BG_ERROR_INVALID);
            if (takes_none && !bg_ipu_config_equal(config, defaults))
                fail_msg("%s is not as by default", text);
            snprintf(text, sizeof text, "`%s`", name);
            if (!takes_none && strstr(error.message, text) == NULL)
                fail_msg("%s is not in: %s", text, error.message);
            bg_ipu_config_destroy(config), bg_ipu_config_destroy(defaults);
        }
}

static void expect_version(bg_ipu_config *config, bool is_there)
{
    bg_ipu_config *copy = NULL;
    char *text = NULL;

    assert_int_equal(bg_ipu_config_clone(config, &copy, NULL), BG_OK);
    assert_int_equal(bg_ipu_config_print_json(config, &text, NULL), BG_OK);
    assert_int_equal(strstr(text, "brigade_version") != NULL, is_there);
    free(text);
    assert_int_equal(bg_ipu_config_print_yaml(copy, &text, NULL), BG_OK);
    assert_int_equal(strstr(text, "brigade_version") != NULL, is_there);
    free(text);
    bg_ipu_config_destroy(copy);
}

/* The version is set in a new configuration and in one loaded with a version; other records remain. */
static void test_without_version(void **state)
{
    (void)state;
    for (int is_loaded = 0; is_loaded < 2; is_loaded++) {
        bg_ipu_config *config = NULL;
        char *text = NULL;
        if (is_loaded)
            config = parse("{\"brigade_version\": \"0.1.0\", \"optimum_version\": \"1\"}");
        else
            assert_int_equal(bg_ipu_config_create(&config, NULL), BG_OK);
        expect_version(config, true);
        bg_ipu_config_set_version_written(config, false);
        expect_version(config, false);
        assert_int_equal(bg_ipu_config_update_from_string(config, "seed=3", NULL), BG_OK);
        expect_version(config, false);
        assert_int_equal(bg_ipu_config_print_json(config, &text, NULL), BG_OK);
        assert_int_equal(strstr(text, "optimum_version") != NULL, is_loaded);
        free(text);
        bg_ipu_config_set_version_written(config, true);
        expect_version(config, true);
        bg_ipu_config_destroy(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_inferred_defaults),
        cmocka_unit_test(test_types_and_ranges),
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_cross_checks),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_all_problems_at_once),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_old_names),
        cmocka_unit_test(test_warning),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_batch_size_factor),
        cmocka_unit_test(test_files_come_out_as_they_went_in),
        cmocka_unit_test(test_long_keys),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_inferred_values_stay_inferred),
        cmocka_unit_test(test_none_in_updates),
        cmocka_unit_test(test_without_version),
        cmocka_unit_test(test_bad_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
