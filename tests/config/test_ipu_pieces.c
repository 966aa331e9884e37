/*
 * test_ipu_pieces.c: a configuration can split the embedding and the output layer into pieces, serialized or on several
 * devices. The pieces are on the right devices and do not change results.
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

#include <brigade/config.h>
#include <brigade/nn.h>
#include <brigade/ops.h>

#include "config/ipu_config.h"
#include "support/train.h"

enum { LAYERS = 4, ROWS = 20, WIDTH = 16, MICRO_BATCH = 4, UPDATES = 3 };

static const bg_ipu_model shape = {.layer_count = LAYERS, .embedding_block = "Embedding", .head_block = "Head"};

/* Functions that build models get only the graph, so this variable holds the configuration of the current test. */
static bg_ipu_config *current;
static bool is_inference;
/* Ids and targets of this rank: micro-batch; micro-batch x 3; micro-batch x 3 x 2. */
static uint32_t rank = 1;

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type ids = {BG_INT32, rank, {micro_batch, 3, 2}};
    bg_type target = ids;
    bg_value x, loss;

    target.dtype = BG_FLOAT32;
    target.dims[target.rank++] = ROWS;

    bg_block_start(graph, "Embedding", BG_DEVICE_NONE);
    x = bg_ipu_embedding_layer(graph, current, is_inference, "embedding", bg_graph_input(graph, "ids", &ids), ROWS,
                               WIDTH, -1, BG_FLOAT32);
    for (int i = 0; i < LAYERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "Layer-%d", i);
        bg_block_start(graph, name, BG_DEVICE_NONE);
        x = bg_tanh(graph, bg_linear_layer(graph, name, x, WIDTH, true));
    }
    bg_block_start(graph, "Head", BG_DEVICE_NONE);
    x = bg_ipu_projection_layer(graph, current, is_inference, "projection", x, ROWS, true);
    if (is_inference) {
        bg_graph_output(graph, "y", x);
        return x;
    }
    loss = bg_mse_loss(graph, "loss", x, bg_graph_input(graph, "target", &target), BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    return loss;
}

static const test_model model = {"pieces", build};

/* Builds a model that has only the projection, right after a block that has ended, with blocks on devices. */
static bg_value build_apart(bg_graph *graph, int64_t micro_batch)
{
    const bool has_splits = bgi_ipu_config_settings(current, false).projection_splits != NULL;
    bg_type type = {BG_FLOAT32, rank, {micro_batch, 3, 2}}, target;
    bg_value x, loss;

    target = type;
    type.dims[type.rank++] = WIDTH;
    target.dims[target.rank++] = ROWS;
    x = bg_graph_input(graph, "x", &type);
    bg_block_begin(graph, "First", 0);
    x = bg_tanh(graph, bg_linear_layer(graph, "before", x, WIDTH, true));
    bg_block_end(graph);
    if (!has_splits)
        bg_block_start(graph, "Head", 3);
    x = bg_ipu_projection_layer(graph, current, is_inference, "projection", x, ROWS, true);
    loss = bg_mse_loss(graph, "loss", x, bg_graph_input(graph, "target", &target), BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    return loss;
}

static bg_ipu_options begin(const char *updates, bool for_inference)
{
    const bg_ipu_config_load_options load = {.overrides = updates};
    bg_ipu_options made = {0};
    bg_error error = {0};

    is_inference = for_inference;
    if (bg_ipu_config_parse_json("{\"layers_per_ipu\": [1, 1, 1, 1], \"gradient_accumulation_steps\": 4, "
                                 "\"output_mode\": \"all\", \"seed\": 5}",
                                 "test", &load, &current, &error) != BG_OK ||
        bg_ipu_config_to_options(current, for_inference, false, &shape, &made, &error) != BG_OK)
        fail_msg("%s: %s", updates, error.message);
    made.options.execution.wait_limit_s = 60;
    return made;
}

static void end(bg_ipu_options *made)
{
    bg_ipu_options_clear(made);
    bg_ipu_config_destroy(current);
    current = NULL;
}

typedef struct piece_case {
    const char *updates, *stages, *schedule;
    uint32_t embedding_pieces, projection_pieces;
} piece_case;

#define PLAIN "Embedding,Layer-0|Layer-1|Layer-2|Layer-3,Head"
static const piece_case cases[] = {
    {"seed=5", PLAIN, NULL, 1, 1},
    {"embedding_serialization_factor=4,projection_serialization_factor=5", PLAIN, NULL, 4, 1},
    {"serialized_embedding_splits_per_ipu=[4 0 0 0],serialized_projection_splits_per_ipu=[0 0 0 2]",
     "Embedding-0-3,Layer-0@0|Layer-1@1|Layer-2@2|Layer-3,Linear-0-1@3", NULL, 4, 2},
    {"serialized_embedding_splits_per_ipu=[3 1 0 0],serialized_projection_splits_per_ipu=[0 0 1 3]",
     "Embedding-0-2@0|Embedding-3@1|Layer-0@0|Layer-1@1|Layer-2@2|Layer-3@3|Linear-0@2|Linear-1-3@3", "grouped", 4, 4},
    {"layers_per_ipu=[0 0 2 2],serialized_embedding_splits_per_ipu=[1 1 0 0]",
     "Embedding-0@0|Embedding-1@1|Layer-0,Layer-1@2|Layer-2,Layer-3,Head@3", NULL, 2, 1},
    {"layers_per_ipu=[0 0 2 2],serialized_embedding_splits_per_ipu=[0 5 0 0]",
     "Embedding-0-4@0|Layer-0,Layer-1@1|Layer-2,Layer-3,Head@2", NULL, 5, 1},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

/* The stages are those of the table, and the run gives the same bits as the model on one device. */
static void test_training(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    (void)state;

    for (int i = 0; i < CASE_COUNT; i++) {
        bg_ipu_options made = begin(cases[i].updates, false);
        bg_options alone = made.options;
        test_result expected;

        assert_string_equal(made.stages, cases[i].stages);
        if (cases[i].schedule != NULL)
            assert_string_equal(made.options.execution.schedule, cases[i].schedule);
        else
            assert_null(made.options.execution.schedule);
        alone.execution.strategy = BG_STRATEGY_SINGLE;
        alone.execution.stages = alone.execution.schedule = NULL;
        alone.execution.device_count = 0;
        expected = test_train(&model, MICRO_BATCH, &optimizer, &alone, NULL, 0, UPDATES, cases[i].updates);
        test_train_expect(
            test_train(&model, MICRO_BATCH, &optimizer, &made.options, NULL, 0, UPDATES, cases[i].updates), &expected,
            cases[i].updates);
        free(expected.bytes);
        end(&made);
    }
}

/* Runs a plan on one device or on those of the blocks. Returns the weights, which include the losses as a tensor. */
static bg_weights *train_once(const char *updates, const bg_optimizer *optimizer, bool is_apart)
{
    bg_ipu_options made = begin(updates, false);
    bg_weights *weights = NULL;
    bg_session *session = NULL;
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    const void *inputs[2];
    bg_stream stream;
    bg_error error = {0};
    float losses[8] = {0};
    bg_value loss;

    made.options.execution.strategy = is_apart ? BG_STRATEGY_SHARDED : BG_STRATEGY_SINGLE;
    made.options.execution.stages = made.options.execution.schedule = NULL;
    made.options.execution.auto_stage = BG_AUTO_STAGE_SAME_AS_IPU;
    made.options.execution.device_count = 0;
    made.options.reporting.output_mode = BG_OUTPUT_ALL;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    loss = is_apart ? build_apart(graph, MICRO_BATCH) : build(graph, MICRO_BATCH);
    if (bg_plan_create_training(graph, loss, optimizer, &made.options, &plan, &error) != BG_OK ||
        bg_session_create(plan, weights, &session, &error) != BG_OK)
        fail_msg("%s, rank %u: %s", updates, rank + 1, error.message);
    for (uint32_t i = 0; i < 2; i++) {
        bg_type type;
        assert_int_equal(bg_session_input(session, i, &stream, NULL), BG_OK);
        type = stream.micro_batch_type;
        inputs[i] = test_model_input(&type, stream.name, (uint32_t)stream.count);
    }
    assert_int_equal(bg_session_output(session, 0, &stream, NULL), BG_OK);
    assert_true(stream.size_bytes <= sizeof losses);
    assert_int_equal(bg_session_run(session, inputs, (void *[]){losses}, &error), BG_OK);
    assert_int_equal(
        bg_weights_set(weights, "losses", &(bg_type){BG_FLOAT32, 1, {(int64_t)stream.count}}, losses, NULL), BG_OK);
    free((void *)(uintptr_t)inputs[0]);
    free((void *)(uintptr_t)inputs[1]);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    end(&made);
    return weights;
}

/* Checks that weights are nearly equal. Initial values are bit-identical, so only updates can cause differences. */
static void expect_close(bg_weights *found, bg_weights *wanted, const char *what)
{
    assert_int_equal(bg_weights_count(found), bg_weights_count(wanted));
    for (uint32_t i = 0; i < bg_weights_count(wanted); i++) {
        bg_weight should, is;
        assert_int_equal(bg_weights_at(wanted, i, &should, NULL), BG_OK);
        assert_int_equal(bg_weights_find(found, should.name, &is, NULL), BG_OK);
        assert_true(bg_type_equal(&is.type, &should.type));
        for (int64_t e = 0; e < bg_type_element_count(&is.type); e++) {
            const double a = (double)((const float *)is.data)[e], b = (double)((const float *)should.data)[e];
            if (!(fabs(a - b) <= (strcmp(should.name, "losses") == 0 ? 0.0 : 1e-6)))
                fail_msg("%s, rank %u: `%s`[%lld] is %.9g instead of %.9g", what, rank + 1, should.name, (long long)e,
                         a, b);
        }
    }
}

/* For activations of ranks 2 to 4, in every mode and right after a block that has ended, the projection gives the plain
 * layer's losses. The weights after some updates are nearly equal, because their gradients are sums over the pieces. */
static void test_ranks(void **state)
{
    static const char *const updates[] = {
        "seed=5",
        "projection_serialization_factor=2",
        "projection_serialization_factor=4",
        "projection_serialization_factor=5",
        "serialized_projection_splits_per_ipu=[0 0 0 4]",
        "serialized_projection_splits_per_ipu=[1 1 1 2]",
    };
    const bg_optimizer optimizer = bg_sgd(0.1);
    (void)state;

    for (uint32_t r = 1; r <= 3; r++)
        for (int is_apart = 0; is_apart < 2; is_apart++) {
            bg_weights *plain = NULL;
            rank = r;
            for (size_t i = 0; i < sizeof updates / sizeof updates[0]; i++) {
                bg_weights *weights = train_once(updates[i], &optimizer, is_apart != 0);
                if (i == 0)
                    plain = weights;
                else
                    expect_close(weights, plain, updates[i]);
                if (i > 0)
                    bg_weights_destroy(weights);
            }
            bg_weights_destroy(plain);
        }
    rank = 1;
}

static void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t e = 0; e < count; e++)
        values[e] = (float)((int)((e + seed) * 2654435761u >> 20) - 2048) / 4096.0f;
}

/* Sets `count` pieces of a matrix of ROWS rows; each element is a function of its position in the whole. */
static void set_pieces(bg_weights *weights, const char *plain, const char *format, uint32_t count)
{
    const bg_type type = bg_matrix(BG_FLOAT32, ROWS / count, WIDTH);
    float whole[ROWS * WIDTH];

    fill(whole, (size_t)ROWS * WIDTH, 0);
    for (uint32_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, count == 1 ? plain : format, i);
        assert_int_equal(bg_weights_set(weights, name, &type, whole + (size_t)i * ROWS / count * WIDTH, NULL), BG_OK);
    }
}

/* Sets tensors that are never split to the same values for all models. */
static void set_others(bg_weights *weights)
{
    const bg_type matrix = bg_matrix(BG_FLOAT32, WIDTH, WIDTH), bias = bg_vector(BG_FLOAT32, WIDTH),
                  last = bg_vector(BG_FLOAT32, ROWS);
    float values[WIDTH * WIDTH];

    for (uint32_t i = 0; i < LAYERS; i++) {
        char name[64];
        fill(values, (size_t)WIDTH * WIDTH, 1000 * (i + 1));
        snprintf(name, sizeof name, "Layer-%u.weight", i);
        assert_int_equal(bg_weights_set(weights, name, &matrix, values, NULL), BG_OK);
        snprintf(name, sizeof name, "Layer-%u.bias", i);
        assert_int_equal(bg_weights_set(weights, name, &bias, values, NULL), BG_OK);
    }
    assert_int_equal(bg_weights_set(weights, "projection.bias", &last, values, NULL), BG_OK);
}

static void infer(const piece_case *c, float y[MICRO_BATCH * ROWS])
{
    char updates[256] = "inference_layers_per_ipu=[1 1 1 1]", *field;
    const bg_type type = bg_vector(BG_INT32, MICRO_BATCH);
    bg_ipu_options made;
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    bg_weights *weights = NULL;
    void *ids = test_model_input(&type, "ids", 1);
    bg_error error = {0};

    /* Sets the `inference_` fields to the same values. */
    for (const char *rest = c->updates; rest != NULL; rest = (field = strchr(rest, ',')) != NULL ? field + 1 : NULL)
        if (strncmp(rest, "seed", 4) != 0)
            snprintf(updates + strlen(updates), sizeof updates - strlen(updates), ",inference_%.*s",
                     (int)strcspn(rest, ","), rest);
    made = begin(updates, true);
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    build(graph, MICRO_BATCH);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    set_pieces(weights, "embedding.weight", "embedding.split_embeddings.%u.weight", c->embedding_pieces);
    set_pieces(weights, "projection.weight", "projection.split_linear_layers.%u.weight", c->projection_pieces);
    set_others(weights);
    if (bg_plan_create_inference(graph, &made.options, &plan, &error) != BG_OK ||
        bg_session_create(plan, weights, &session, &error) != BG_OK)
        fail_msg("%s: %s", updates, error.message);
    assert_int_equal(bg_session_run(session, (const void *[]){ids}, (void *[]){y}, &error), BG_OK);
    bg_session_destroy(session);
    bg_weights_destroy(weights);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    free(ids);
    end(&made);
}

/* For all splits and placements, results are those of the plain layers. */
static void test_inference(void **state)
{
    float plain[MICRO_BATCH * ROWS], found[MICRO_BATCH * ROWS];
    (void)state;

    infer(&cases[0], plain);
    assert_true(plain[0] != plain[1]);
    for (int i = 1; i < CASE_COUNT; i++) {
        memset(found, 0, sizeof found);
        infer(&cases[i], found);
        for (size_t e = 0; e < sizeof plain / sizeof *plain; e++)
            if (!(fabsf(found[e] - plain[e]) <= 0.0f))
                fail_msg("%s: [%zu] is %.9g instead of %.9g", cases[i].updates, e, (double)found[e], (double)plain[e]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
