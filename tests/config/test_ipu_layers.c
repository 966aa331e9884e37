/*
 * test_ipu_layers.c: tests wildcards, the separation of encoder and decoder, and configurations as options.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade/config.h>

#include "config/ipu_config.h"

enum { MOST = 8 };

static void expect_layers(const int64_t *found, const int64_t *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (found[i] != wanted[i])
            fail_msg("device %zu has %lld layers instead of %lld", i, (long long)found[i], (long long)wanted[i]);
}

static void test_wildcards(void **state)
{
    static const struct {
        size_t count;
        int64_t layers[MOST];
        uint32_t devices;
        uint64_t total;
        int64_t wanted[MOST];
    } rows[] = {
        {1, {-1}, 1, 9, {9}},
        {1, {-1}, 2, 7, {3, 4}},
        {2, {-1, -1}, 2, 9, {4, 5}},
        {1, {-1}, 4, 8, {2, 2, 2, 2}},
        {1, {-1}, 4, 24, {6, 6, 6, 6}},
        {2, {2, -1}, 2, 6, {2, 4}},
        {2, {-1, 2}, 2, 6, {4, 2}},
        {4, {1, 2, -1, -1}, 4, 12, {1, 2, 4, 5}},
        {4, {2, 3, 4, 2}, 4, 11, {2, 3, 4, 2}},
        {4, {-1, 2, -1, 2}, 4, 7, {1, 2, 2, 2}},
        {3, {0, -1, 0}, 3, 5, {0, 5, 0}},
        {2, {9, 9}, 1, 5, {5}},
        {3, {3, -1, 1}, 3, 4, {3, 0, 1}},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t found[MOST];
        assert_int_equal(bg_layers_expand(rows[i].layers, rows[i].count, rows[i].devices, rows[i].total, found, NULL),
                         BG_OK);
        expect_layers(found, rows[i].wanted, rows[i].devices);
    }
}

static void test_wrong_layers(void **state)
{
    static const struct {
        size_t count;
        int64_t layers[MOST];
        uint32_t devices;
        uint64_t total;
        const char *words;
    } rows[] = {
        {2, {1, -1}, 4, 3, "non-default value, but its length does not match"},
        {2, {1, 2}, 2, 4, "does not define the correct number of layers"},
        {2, {-2, 2}, 2, 4, "Invalid values"},
        {1, {-1}, 0, 4, "at least 1"},
        {2, {5, -1}, 2, 4, "nothing is left for -1"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t found[MOST];
        bg_error error = {0};
        assert_int_equal(bg_layers_expand(rows[i].layers, rows[i].count, rows[i].devices, rows[i].total, found, &error),
                         BG_ERROR_INVALID);
        if (strstr(error.message, rows[i].words) == NULL)
            fail_msg("`%s` does not say `%s`", error.message, rows[i].words);
    }
}

static bg_ipu_config *parse(const char *json)
{
    bg_ipu_config *config = NULL;
    bg_error error = {0};

    if (bg_ipu_config_parse_json(json, "test", NULL, &config, &error) != BG_OK)
        fail_msg("%s: %s", json, error.message);
    return config;
}

static void expect_part(const bg_ipu_config *part, bool inference, const int64_t *wanted, size_t count)
{
    const bgi_ipu_settings settings = bgi_ipu_config_settings(part, inference);

    assert_int_equal(settings.layers_count, count);
    assert_int_equal(settings.ipus_per_replica, count);
    expect_layers(settings.layers_per_ipu, wanted, count);
}

static void test_encoder_and_decoder(void **state)
{
    static const struct {
        const char *json;
        uint64_t encoder, decoder;
        size_t encoder_count, decoder_count;
        int64_t encoder_layers[MOST], decoder_layers[MOST];
    } rows[] = {
        {"{\"layers_per_ipu\": [1, 2]}", 1, 2, 1, 1, {1}, {2}},
        {"{\"layers_per_ipu\": [-1, -1]}", 2, 3, 1, 1, {2}, {3}},
        {"{\"layers_per_ipu\": [1, 2, 3, 0, 5, 6, 7, 8]}", 6, 26, 4, 4, {1, 2, 3, 0}, {5, 6, 7, 8}},
        {"{\"layers_per_ipu\": [0, 6, 0, 6]}", 6, 6, 2, 2, {0, 6}, {0, 6}},
        {"{\"layers_per_ipu\": [3, 0, 3, 0, 0, 7]}", 6, 7, 4, 2, {3, 0, 3, 0}, {0, 7}},
        {"{\"ipus_per_replica\": 4}", 6, 6, 2, 2, {3, 3}, {3, 3}},
        /* Chooses the largest split that fits, but not one that leaves no layers for the decoder. */
        {"{\"layers_per_ipu\": [6, 0, 6, 0]}", 6, 6, 2, 2, {6, 0}, {6, 0}},
        {"{\"layers_per_ipu\": [2, 0, 0, 0]}", 2, 0, 2, 2, {2, 0}, {0, 0}},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int inference = 0; inference < 2; inference++) {
            bg_ipu_config *config = parse(rows[i].json), *encoder = NULL, *decoder = NULL;
            bg_error error = {0};
            bg_ipu_config_set_mode(config, inference ? "inference" : "training", NULL);
            if (bg_ipu_config_split_encoder_decoder(config, rows[i].encoder, rows[i].decoder, &encoder, &decoder,
                                                    &error) != BG_OK)
                fail_msg("%s: %s", rows[i].json, error.message);
            expect_part(encoder, inference, rows[i].encoder_layers, rows[i].encoder_count);
            expect_part(decoder, inference, rows[i].decoder_layers, rows[i].decoder_count);
            bg_ipu_config_destroy(decoder);
            bg_ipu_config_destroy(encoder);
            bg_ipu_config_destroy(config);
        }
    }
}

static void refuse_split(const char *json, const char *mode, uint64_t encoder_layers, uint64_t decoder_layers,
                         const char *words)
{
    bg_ipu_config *config = parse(json), *encoder = NULL, *decoder = NULL;
    bg_error error = {0};

    bg_ipu_config_set_mode(config, mode, NULL);
    assert_int_equal(
        bg_ipu_config_split_encoder_decoder(config, encoder_layers, decoder_layers, &encoder, &decoder, &error),
        BG_ERROR_INVALID);
    if (strstr(error.message, words) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, words);
    assert_null(encoder);
    assert_null(decoder);
    bg_ipu_config_destroy(config);
}

static void test_impossible_parts(void **state)
{
    (void)state;
    refuse_split("{\"layers_per_ipu\": [4, 3]}", "training", 3, 4, "Unable to find a valid split");
    refuse_split("{}", "training", 3, 4, "must be at least 2 for an encoder and a decoder");
    refuse_split("{\"layers_per_ipu\": [1, 1]}", "training", 2, 0, "Unable to find a valid split");
    /* A common mistake: a wildcard in one mode gives inference one device. */
    refuse_split("{\"layers_per_ipu\": [-1, -1], \"inference_layers_per_ipu\": [-1]}", "inference", 3, 4,
                 "`inference_ipus_per_replica` is 1");
    refuse_split("{\"layers_per_ipu\": [3, 3, 3, 3], \"serialized_embedding_splits_per_ipu\": [0, 2, 2, 0]}",
                 "training", 6, 6, "must have all splits placed on the encoder");
    refuse_split("{\"layers_per_ipu\": [3, 3, 3, 3], \"serialized_projection_splits_per_ipu\": [0, 2, 2, 0]}",
                 "training", 6, 6, "must have all splits placed on the decoder");
}

static void test_splits_go_with_their_part(void **state)
{
    bg_ipu_config *config = parse("{\"layers_per_ipu\": [3, 3, 3, 3], \"matmul_proportion\": [0.1, 0.2, 0.3, 0.4], "
                                  "\"serialized_embedding_splits_per_ipu\": [3, 1, 0, 0], "
                                  "\"serialized_projection_splits_per_ipu\": [0, 0, 2, 2]}");
    bg_ipu_config *encoder = NULL, *decoder = NULL;
    bgi_ipu_settings first, second;
    (void)state;

    assert_int_equal(bg_ipu_config_update_from_string(config,
                                                      "seed=4,gradient_accumulation_steps=5,output_mode=sum,"
                                                      "inference_matmul_proportion=0.3,replication_factor=2",
                                                      NULL),
                     BG_OK);
    assert_int_equal(bg_ipu_config_split_encoder_decoder(config, 6, 6, &encoder, &decoder, NULL), BG_OK);
    first = bgi_ipu_config_settings(encoder, false);
    second = bgi_ipu_config_settings(decoder, false);
    assert_int_equal(first.embedding_factor, 4);
    assert_int_equal(first.embedding_splits[1], 1);
    assert_null(first.projection_splits);
    assert_null(second.embedding_splits);
    assert_int_equal(second.projection_splits[0], 2);
    assert_int_equal(second.matmul_count, 2);
    assert_true(second.matmul_proportion[0] == 0.3);
    /* Both parts have all other fields, and a scalar remains a scalar. */
    for (int part = 0; part < 2; part++) {
        const bgi_ipu_settings of = part == 0 ? first : second;
        assert_true(of.has_seed && of.seed == 4 && of.gradient_accumulation == 5 && of.replicas == 2);
        assert_int_equal(of.output_mode, BG_OUTPUT_SUM);
        /* Values that inference inherited from training before the separation belong to inference afterward. */
        const bgi_ipu_settings other = bgi_ipu_config_settings(part == 0 ? encoder : decoder, true);
        assert_true(other.matmul_count == 1 && other.layers_count == 4 && other.ipus_per_replica == 4);
    }
    bg_ipu_config_destroy(decoder);
    bg_ipu_config_destroy(encoder);
    bg_ipu_config_destroy(config);
}

/* ---- options ---- */

static void test_options(void **state)
{
    bg_ipu_config *config =
        parse("{\"layers_per_ipu\": [1, 2, 0, 1], \"replication_factor\": 2, \"gradient_accumulation_steps\": 8, "
              "\"device_iterations\": 3, \"inference_device_iterations\": 5, \"inference_layers_per_ipu\": [2, 2], "
              "\"optimizer_state_offchip\": true, \"replicated_tensor_sharding\": true, \"output_mode\": \"sum\", "
              "\"recompute_checkpoint_every_layer\": true, \"seed\": 0, "
              "\"auto_loss_scaling\": true}");
    const bg_ipu_model model = {.layer_count = 4, .embedding_block = "Embedding", .head_block = "Head"};
    bg_ipu_options made = {0};
    bg_error error = {0};
    (void)state;

    if (bg_ipu_config_to_options(config, false, false, &model, &made, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_string_equal(made.stages, "Embedding,Layer-0|Layer-1,Layer-2|Layer-3,Head");
    assert_false(made.options.execution.compile_only);
    assert_int_equal(made.options.execution.strategy, BG_STRATEGY_PIPELINED);
    assert_int_equal(made.options.execution.device_count, 3);
    assert_non_null(strstr(made.notes, "`layers_per_ipu`: 1 of 4 devices have no layers and are left out"));
    assert_int_equal(made.options.replicas.count, 2);
    assert_int_equal(made.options.execution.gradient_accumulation, 8);
    assert_int_equal(made.options.execution.device_iterations, 3);
    assert_int_equal(made.options.numerics.accumulation, BG_ACCUMULATE_MEAN);
    assert_true(made.options.numerics.stochastic_rounding);
    assert_int_equal(made.options.reporting.output_mode, BG_OUTPUT_SUM);
    assert_int_equal(made.options.memory.recompute, BG_RECOMPUTE_CHECKPOINTS);
    assert_true(made.options.memory.offload_optimizer);
    assert_true(made.options.memory.locations[BG_LOCATION_STATE].sharded);
    assert_null(strstr(made.notes, "`matmul_proportion`"));
    assert_true(made.options.memory.matmul_proportion_count == 1 && made.options.memory.matmul_proportions[0] == 0.2);
    assert_true(made.options.execution.auto_round_devices && made.options.numerics.auto_loss_scaling.enabled &&
                made.options.numerics.seed == 0);
    assert_int_equal(made.options.numerics.partials, BG_FLOAT16);
    bg_ipu_options_clear(&made);

    assert_int_equal(bg_ipu_config_to_options(config, true, true, &model, &made, NULL), BG_OK);
    assert_string_equal(made.stages, "Embedding,Layer-0,Layer-1|Layer-2,Layer-3,Head");
    assert_int_equal(made.options.execution.strategy, BG_STRATEGY_SHARDED);
    assert_int_equal(made.options.replicas.count, 1);
    assert_int_equal(made.options.execution.gradient_accumulation, 1);
    assert_int_equal(made.options.execution.device_iterations, 5);
    assert_false(made.options.numerics.stochastic_rounding);
    assert_int_equal(made.options.reporting.output_mode, BG_OUTPUT_ALL);
    assert_false(made.options.memory.offload_optimizer);
    assert_true(made.options.execution.compile_only);
    assert_false(made.options.numerics.auto_loss_scaling.enabled);
    assert_true(made.options.execution.auto_round_devices);
    assert_int_equal(made.options.numerics.partials, BG_FLOAT16);
    bg_ipu_options_clear(&made);

    assert_int_equal(bg_ipu_config_to_options(config, false, false, NULL, &made, NULL), BG_OK);
    assert_null(made.options.execution.stages);
    assert_null(made.options.files.cache_dir);
    assert_int_equal(made.options.execution.auto_stage, BG_AUTO_STAGE_INCREMENT);
    assert_non_null(strstr(made.notes, "`layers_per_ipu` has no effect"));
    assert_true(made.options.memory.matmul_proportion_count == 1 && made.options.memory.matmul_proportions[0] == 0.2);
    assert_true(bgi_ipu_config_settings(config, false).auto_loss_scaling);
    assert_false(bgi_ipu_config_settings(config, true).auto_loss_scaling);
    bg_ipu_options_clear(&made);
    assert_int_equal(
        bg_ipu_config_update_from_string(config, "executable_cache_dir=disabled,enable_half_partials=n", NULL), BG_OK);
    assert_int_equal(bg_ipu_config_to_options(config, false, false, NULL, &made, NULL), BG_OK);
    assert_null(made.options.files.cache_dir);
    assert_int_equal(made.options.numerics.partials, BG_FLOAT32);
    bg_ipu_options_clear(&made);
    assert_int_equal(bg_ipu_config_set(config, "executable_cache_dir",
                                       &(bg_config_value){.kind = BG_CONFIG_TEXT, .text = "plans"}, NULL),
                     BG_OK);
    assert_int_equal(bg_ipu_config_to_options(config, true, false, NULL, &made, NULL), BG_OK);
    bg_ipu_config_destroy(config);
    assert_string_equal(made.options.files.cache_dir, "plans");
    bg_ipu_options_clear(&made);

    /* Seeds are any 64 bits, including those of negative numbers. */
    config = parse("{\"seed\": -7}");
    assert_int_equal(bg_ipu_config_to_options(config, false, false, NULL, &made, NULL), BG_OK);
    assert_true(made.options.numerics.seed == (uint64_t)-7);
    bg_ipu_options_clear(&made);
    bg_ipu_config_destroy(config);
}

static void test_tied_head(void **state)
{
    bg_ipu_config *config = parse("{\"layers_per_ipu\": [1, 1]}");
    static const char *const blocks[] = {"A", "B"};
    const bg_ipu_model model = {
        .layer_count = 2, .layer_blocks = blocks, .embedding_block = "E", .head_block = "H", .head_is_tied = true};
    bg_ipu_options made = {0};
    (void)state;

    assert_int_equal(bg_ipu_config_to_options(config, false, false, &model, &made, NULL), BG_OK);
    assert_string_equal(made.stages, "E,A@0|B@1|H@0");
    assert_string_equal(made.options.execution.schedule, "grouped");
    bg_ipu_options_clear(&made);
    bg_ipu_config_destroy(config);
}

static void test_unsupported(void **state)
{
    bg_ipu_config *config = parse("{\"execute_encoder_on_cpu_for_generation\": true}");
    bg_ipu_options made = {0};
    bg_error error = {0};
    (void)state;

    assert_int_equal(bg_ipu_config_to_options(config, false, false, NULL, &made, &error), BG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "not supported"));
    bg_ipu_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wildcards),
        cmocka_unit_test(test_wrong_layers),
        cmocka_unit_test(test_encoder_and_decoder),
        cmocka_unit_test(test_impossible_parts),
        cmocka_unit_test(test_splits_go_with_their_part),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_tied_head),
        cmocka_unit_test(test_unsupported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
