/*
 * test_ipu_gpt.c: a small GPT that is configured only by a file and an update string has the same plan, and trains to
 * the same bits, as with an options struct.
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
#include <brigade/gpt.h>

#include "support/folder.h"
#include "support/train.h"

enum { LAYERS = 4, UPDATES = 4, MICRO_BATCH = 2 };

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = LAYERS;
    options.hidden = 16;
    options.heads = 2;
    options.sequence_length = options.positions = 12;
    options.vocabulary = 20;
    options.micro_batch = micro_batch;
    options.checkpoint_layers = true;
    return bg_gpt_build(graph, &options).loss;
}

static const test_model gpt = {"gpt", build};
static const bg_ipu_model shape = {
    .layer_count = LAYERS, .embedding_block = "Embedding", .head_block = "Head", .head_is_tied = true};

/* The content of the file and the update, and the same configuration in C. */
typedef struct gpt_case {
    const char *file, *update, *stages;
    struct {
        uint32_t devices, replicas, accumulation, iterations;
    } shape;
    uint64_t seed;
    bool recomputes, offloads, shards;
} gpt_case;

static const gpt_case cases[] = {
    {.file = "{\"layers_per_ipu\": [1, 1, 1, 1], \"output_mode\": \"all\"}",
     .update = "gradient_accumulation_steps=4, device_iterations=2, seed=9",
     .stages = "Embedding,Layer-0@0|Layer-1@1|Layer-2@2|Layer-3@3|Head@0",
     .shape = {4, 1, 4, 2},
     .seed = 9},
    {.file = "{\"layers_per_ipu\": [0, 2, 2], \"replication_factor\": 2, \"output_mode\": \"all\"}",
     .update = "gradient_accumulation_steps=2,replicated_tensor_sharding=true",
     .stages = "Embedding@0|Layer-0,Layer-1@1|Layer-2,Layer-3@2|Head@0",
     .shape = {3, 2, 2, 1},
     .shards = true},
    {.file = "{\"ipus_per_replica\": 2, \"recompute_checkpoint_every_layer\": true, \"seed\": 3}",
     .update = "optimizer_state_offchip=y,gradient_accumulation_steps=3,output_mode=all,layers_per_ipu=[3 -1]",
     .stages = "Embedding,Layer-0,Layer-1,Layer-2@0|Layer-3@1|Head@0",
     .shape = {2, 1, 3, 1},
     .seed = 3,
     .recomputes = true,
     .offloads = true},
};

static bg_options say_in_c(const gpt_case *c)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.stages = c->stages;
    options.execution.schedule = "grouped"; /* the last stage is on the first device */
    options.execution.device_count = c->shape.devices;
    options.replicas.count = c->shape.replicas;
    options.execution.gradient_accumulation = c->shape.accumulation;
    options.execution.device_iterations = c->shape.iterations;
    options.numerics.seed = c->seed;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.memory.offload_optimizer = c->offloads;
    options.memory.locations[BG_LOCATION_STATE].sharded = c->shards;
    options.memory.recompute = c->recomputes ? BG_RECOMPUTE_CHECKPOINTS : BG_RECOMPUTE_NONE;
    return options;
}

static bg_ipu_options say_in_files(const gpt_case *c, const char *folder)
{
    const bg_ipu_config_load_options how = {.overrides = c->update};
    char path[512];
    bg_ipu_config *config = NULL;
    bg_ipu_options made = {0};
    bg_error error = {0};
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, BG_IPU_CONFIG_FILE);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(c->file, file) >= 0);
    assert_int_equal(fclose(file), 0);
    if (bg_ipu_config_load(folder, &how, &config, &error) != BG_OK ||
        bg_ipu_config_to_options(config, false, false, &shape, &made, &error) != BG_OK)
        fail_msg("%s, %s: %s", c->file, c->update, error.message);
    bg_ipu_config_destroy(config);
    return made;
}

static char *print_program(const bg_options *options)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_plan *plan = test_train_plan(&gpt, MICRO_BATCH, &optimizer, options, "plan");
    char *text = NULL;

    assert_int_equal(bg_plan_print_program(plan, &text, NULL), BG_OK);
    bg_plan_destroy(plan);
    return text;
}

/* Shards small tensors too, and limits waits, so that a deadlock would be an error. */
static void adjust(bg_options *options)
{
    options->memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    options->execution.wait_limit_s = 60;
}

static void test_files_and_structs(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    test_result previous = {0};
    char folder[TEST_FOLDER_BYTES];
    (void)state;

    test_folder_create(folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_options wanted = say_in_c(&cases[i]);
        bg_ipu_options made = say_in_files(&cases[i], folder);
        test_result expected;
        char *one, *two;

        adjust(&wanted);
        adjust(&made.options);
        one = print_program(&wanted);
        two = print_program(&made.options);
        assert_string_equal(two, one);
        expected = test_train(&gpt, MICRO_BATCH, &optimizer, &wanted, NULL, 0, UPDATES, cases[i].stages);
        test_train_expect(test_train(&gpt, MICRO_BATCH, &optimizer, &made.options, NULL, 0, UPDATES, cases[i].stages),
                          &expected, cases[i].file);
        /* The cases must differ; otherwise the test proves nothing. */
        assert_false(previous.size == expected.size && memcmp(previous.bytes, expected.bytes, previous.size) == 0);
        free(previous.bytes);
        previous = expected;
        free(one);
        free(two);
        bg_ipu_options_clear(&made);
    }
    free(previous.bytes);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_and_structs),
    };

    return cmocka_run_group_tests_name("a GPT by its configuration", tests, NULL, NULL);
}
