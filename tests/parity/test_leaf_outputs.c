/*
 * test_leaf_outputs.c: a model may return values that no op computes: an input, a reshaped input, a constant, a
 * parameter, or an input that no op reads. In training and inference, under every strategy, each returned value has the
 * bytes of the host's input or of the weights.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade.h>

enum {
    ROWS = 2,
    WIDTH = 6,
    CLASSES = 3,
    ITERATIONS = 2,
    ACCUMULATION = 4,
    BATCHES = ITERATIONS * ACCUMULATION,
    MOST = 8
};

typedef struct data {
    float x[BATCHES][ROWS][WIDTH];
    int32_t labels[BATCHES][ROWS];
    uint8_t keys[BATCHES][ROWS][3];
} data;

typedef struct result {
    float x[BATCHES][ROWS][WIDTH], flat[BATCHES][ROWS * WIDTH];
    int32_t labels[BATCHES][ROWS];
    uint8_t keys[BATCHES][ROWS][3];
    float constant[BATCHES][2];
    float weight[BATCHES][WIDTH][WIDTH];
    float loss[BATCHES];
} result;

typedef struct manner {
    const char *name, *schedule, *stages;
    bg_strategy strategy;
    bool recomputes, is_remote, is_split;
} manner;

static const float constant[] = {0.5F, -3.0F};

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

static bg_value build(bg_graph *graph)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, ROWS, WIDTH), label_type = bg_vector(BG_INT32, ROWS);
    const bg_type key_type = bg_matrix(BG_UINT8, ROWS, 3), pair = bg_vector(BG_FLOAT32, 2);
    const int64_t all[] = {-1};
    const bg_value input = bg_graph_input(graph, "x", &x_type), labels = bg_graph_input(graph, "labels", &label_type);
    bg_value x = input, loss;
    char name[8];

    bg_graph_output(graph, "keys", bg_graph_input(graph, "keys", &key_type));
    bg_graph_output(graph, "constant", bg_graph_constant(graph, "pair", &pair, constant));
    for (int block = 1; block <= 4; block++) {
        snprintf(name, sizeof name, "B%d", block);
        bg_block_begin(graph, name, BG_DEVICE_NONE);
        x = bg_linear_layer(graph, name, x, block < 4 ? WIDTH : CLASSES, true);
        if (block < 4)
            x = bg_tanh(graph, x);
        if (block == 2)
            bg_graph_output(graph, "flat", bg_reshape(graph, "flat", input, 1, all));
        if (block == 4)
            bg_graph_output(graph, "loss", loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100));
        bg_block_end(graph);
    }
    bg_graph_output(graph, "x", input);
    bg_graph_output(graph, "labels", labels);
    bg_graph_output(graph, "weight", bg_graph_find_variable(graph, "B2.weight"));
    return loss;
}

static void fill(data *d)
{
    for (int b = 0; b < BATCHES; b++)
        for (int r = 0; r < ROWS; r++) {
            for (int c = 0; c < WIDTH; c++)
                d->x[b][r][c] = (float)((b * 31 + r * 7 + c * 5) % 17) / 8.0F - 1.0F;
            for (int c = 0; c < 3; c++)
                d->keys[b][r][c] = (uint8_t)(b * 40 + r * 3 + c);
            d->labels[b][r] = (b + r) % CLASSES;
        }
}

static bg_options options_of(const manner *way, bool training)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = way->strategy;
    options.execution.schedule = way->schedule;
    options.execution.stages = way->stages;
    options.numerics.seed = 9;
    options.numerics.initialize_missing = true;
    options.execution.cores = 2;
    options.execution.wait_limit_s = 60;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.execution.device_iterations = training ? ITERATIONS : BATCHES;
    if (training)
        options.execution.gradient_accumulation = ACCUMULATION;
    if (way->recomputes)
        options.memory.recompute = BG_RECOMPUTE_STAGE;
    if (way->is_remote)
        options.memory.locations[BG_LOCATION_WEIGHTS] = (bg_tensor_location){.place = BG_PLACE_REMOTE};
    if (way->is_split) { /* each replica has half of the micro-batches */
        options.replicas.count = 2;
        if (training)
            options.execution.gradient_accumulation = ACCUMULATION / 2;
        else
            options.execution.device_iterations = BATCHES / 2;
    }
    return options;
}

/* Stores the weight before the first run in `first`, and the results of two runs. */
static void run(const manner *way, bool training, const data *d, float (*first)[WIDTH], result *results)
{
    const bg_options options = options_of(way, training);
    const bg_optimizer optimizer = bg_sgd(0.25);
    bg_session *session = NULL;
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_weight weight;
    bg_value loss;

    require(bg_graph_create(&graph, &error), &error, way->name);
    loss = build(graph);
    if (training)
        require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error, way->name);
    else
        require(bg_plan_create_inference(graph, &options, &plan, &error), &error, way->name);
    bg_graph_destroy(graph);
    require(bg_session_create(plan, NULL, &session, &error), &error, way->name);
    require(bg_weights_find(bg_session_weights(session), "B2.weight", &weight, &error), &error, way->name);
    assert_int_equal(bg_type_size_bytes(&weight.type), sizeof results->weight[0]);
    memcpy(first, weight.data, sizeof results->weight[0]);
    for (int i = 0; i < 2; i++) {
        result *r = &results[i];
        const struct {
            const char *name;
            void *at;
            size_t size;
        } places[] = {{"x", r->x, sizeof r->x},
                      {"flat", r->flat, sizeof r->flat},
                      {"labels", r->labels, sizeof r->labels},
                      {"keys", r->keys, sizeof r->keys},
                      {"constant", r->constant, sizeof r->constant},
                      {"weight", r->weight, sizeof r->weight},
                      {"loss", r->loss, sizeof r->loss}};
        void *outputs[MOST] = {NULL};
        const void *inputs[MOST] = {NULL};
        bg_stream stream;

        assert_int_equal(bg_session_output_count(session), sizeof places / sizeof places[0]);
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            const uint32_t index = bg_session_find_output(session, places[p].name);
            require(bg_session_output(session, index, &stream, &error), &error, places[p].name);
            assert_int_equal(stream.size_bytes, places[p].size);
            outputs[index] = places[p].at;
        }
        inputs[bg_session_find_input(session, "x")] = d->x;
        inputs[bg_session_find_input(session, "labels")] = d->labels;
        inputs[bg_session_find_input(session, "keys")] = d->keys;
        require(bg_session_run(session, inputs, outputs, &error), &error, way->name);
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

/* Compares the results with values that are known in advance: the host's bytes, the constant, and the weights before
 * the first update. */
static void check(const manner *way, bool training, const data *d, float (*first)[WIDTH], const result *results)
{
    for (int i = 0; i < 2; i++) {
        const result *r = &results[i];
        if (memcmp(r->x, d->x, sizeof d->x) != 0 || memcmp(r->flat, d->x, sizeof d->x) != 0)
            fail_msg("%s: `x` comes back as something else", way->name);
        if (memcmp(r->labels, d->labels, sizeof d->labels) != 0 || memcmp(r->keys, d->keys, sizeof d->keys) != 0)
            fail_msg("%s: `labels` or `keys` come back as something else", way->name);
        for (int b = 0; b < BATCHES; b++) {
            const bool is_first = i == 0 && b < (training ? ACCUMULATION : BATCHES);
            assert_memory_equal(r->constant[b], constant, sizeof constant);
            if (is_first || !training)
                assert_memory_equal(r->weight[b], first, sizeof r->weight[b]);
            else
                assert_memory_not_equal(r->weight[b], first, sizeof r->weight[b]);
        }
    }
}

static void check_way(const manner *way, bool training, const data *d, const result *expected)
{
    static result results[2];
    float first[WIDTH][WIDTH];

    memset(results, 0, sizeof results);
    run(way, training, d, first, results);
    check(way, training, d, first, results);
    if (memcmp(results, expected, sizeof results) != 0)
        fail_msg("%s: other bits than on one device", way->name);
}

static void test_every_strategy(void **state)
{
    static const manner single = {"single", NULL, NULL, BG_STRATEGY_SINGLE, false, false, false};
    static const manner ways[] = {{"recomputed", "grouped", "B1|B2|B3|B4", BG_STRATEGY_PIPELINED, true, false, false},
                                  {"remote", NULL, "B1|B2|B3|B4", BG_STRATEGY_PHASED, false, true, false},
                                  {"folded", "sequential", "B1@0|B2@1|B3@1|B4@0", BG_STRATEGY_PIPELINED, 0, 0, false},
                                  {"automatic", NULL, NULL, BG_STRATEGY_PIPELINED, false, false, false}};
    static const manner split = {"replicas", "grouped", "B1,B2|B3,B4", BG_STRATEGY_PIPELINED, false, false, true};
    static result expected[2], found[2];
    float first[WIDTH][WIDTH];
    data d;

    (void)state;
    fill(&d);
    for (int training = 0; training < 2; training++) {
        memset(expected, 0, sizeof expected);
        run(&single, training == 1, &d, first, expected);
        check(&single, training == 1, &d, first, expected);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
            check_way(&ways[w], training == 1, &d, expected);
        for (uint32_t g = 1; bg_schedule_generator_at(g) != NULL; g++) {
            manner each = {.schedule = bg_schedule_generator_at(g)->name,
                           .stages = "B1|B2|B3|B4",
                           .strategy = BG_STRATEGY_PIPELINED};
            int strategy;
            each.name = each.schedule;
            if (bg_option_value_find("strategy", each.schedule, &strategy))
                each.strategy = (bg_strategy)strategy, each.schedule = NULL;
            check_way(&each, training == 1, &d, expected);
        }
        /* Sums over replicas round differently, and rows are ordered by replica, so these results are not compared with
         * `expected`. */
        memset(found, 0, sizeof found);
        run(&split, training == 1, &d, first, found);
        check(&split, training == 1, &d, first, found);
    }
}

static void test_a_model_that_only_returns_its_input(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 3);
    const float x[] = {1, -2, 3};
    float y[3] = {0};
    const bg_options options = bg_options_defaults();
    bg_session *session = NULL;
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};

    (void)state;
    require(bg_graph_create(&graph, &error), &error, "identity");
    bg_graph_output(graph, "y", bg_graph_input(graph, "x", &type));
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error, "identity");
    require(bg_session_create(plan, NULL, &session, &error), &error, "identity");
    require(bg_session_run(session, (const void *[]){x}, (void *[]){y}, &error), &error, "identity");
    assert_memory_equal(x, y, sizeof x);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void test_remote_buffers_are_refused(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 3);
    const bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};

    (void)state;
    require(bg_graph_create(&graph, &error), &error, "remote");
    bg_graph_output(graph, "all", bg_graph_remote_buffer(graph, "rows", &type, 4));
    assert_int_equal(bg_plan_create_inference(graph, &options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "output `all` is a remote buffer; an output can be an entry of it"));
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_strategy),
        cmocka_unit_test(test_a_model_that_only_returns_its_input),
        cmocka_unit_test(test_remote_buffers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
