/*
 * test_sync_norm.c: synchronized batch norm trains as PyTorch does with the replicas' micro-batches joined into one
 * (tests/oracle/sync_norm.py). All replicas end with the same running statistics, and every strategy gives the same
 * bits. Without synchronization each replica has separate statistics, and the weights get those of replica 0.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/config.h>
#include <brigade/nn.h>
#include <brigade/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/oracle.h"

enum { SAMPLES = 8, CHANNELS = 2, SIDE = 3, HIDDEN = 5, CLASSES = 4, UPDATES = 2, STEPS = 2, MOST = 160 };

static const char *const variables[] = {
    "image.weight",  "image.bias",  "image.running_mean",  "image.running_var",  "fc1.weight",
    "vector.weight", "vector.bias", "vector.running_mean", "vector.running_var", "fc2.weight"};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

static bgi_test_oracle *oracle;

static int open_oracle(void **state)
{
    (void)state;
    oracle = bgi_test_oracle_open("tests/oracle/sync_norm.txt");
    return 0;
}

static int close_oracle(void **state)
{
    (void)state;
    bgi_test_oracle_close(oracle);
    return 0;
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

typedef enum norm_kind { PLAIN = 0, SYNCHRONIZED, BY_OPTION } norm_kind;

static bg_value add_norm(bg_graph *graph, const char *name, bg_value x, norm_kind kind)
{
    return kind == SYNCHRONIZED ? bg_sync_batch_norm_layer(graph, name, x, 0.1, 1e-5)
                                : bg_batch_norm_layer(graph, name, x, 0.1, 1e-5);
}

/* Builds the model of sync_norm.py; *out_loss is null in inference. */
static bg_graph *build(int64_t micro_batch, norm_kind kind, bool is_counted, uint32_t tensor, bg_value *out_loss)
{
    const bg_type x_type = bg_tensor4(BG_FLOAT32, micro_batch, CHANNELS, SIDE, SIDE);
    const bg_type label_type = bg_vector(BG_INT32, micro_batch);
    bg_error error = {0};
    bg_graph *graph;
    bg_value x, labels = {0};

    require(bg_graph_create(&graph, &error), &error);
    bg_graph_set_mesh(graph, &(bg_mesh){1, tensor, 1});
    x = bg_graph_input(graph, "x", &x_type);
    if (out_loss != NULL)
        labels = bg_graph_input(graph, "labels", &label_type);
    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = bg_flatten(graph, NULL, add_norm(graph, "image", x, kind));
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    x = add_norm(graph, "vector", bg_linear_layer(graph, "fc1", x, HIDDEN, false), kind);
    if (out_loss != NULL)
        bg_graph_output(graph, "running",
                        bg_scale(graph, NULL, bg_graph_find_variable(graph, "vector.running_mean"), 1.0, 0.0));
    bg_block_start(graph, "third", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "fc2", bg_tanh(graph, x), CLASSES, false);
    if (out_loss == NULL)
        bg_graph_output(graph, "logits", x);
    else if (is_counted)
        *out_loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100);
    else
        *out_loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, bg_multiply(graph, x, x), NULL, 0, false);
    return graph;
}

static void read_data(float *x, int32_t *labels)
{
    const bgi_test_tensor *of_x = bgi_test_oracle_find(oracle, "start", "x");

    for (int64_t i = 0; i < of_x->count; i++)
        x[i] = (float)of_x->values[i];
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = (int32_t)bgi_test_oracle_find(oracle, "start", "labels")->values[i];
}

static void set_weights(bg_session *session)
{
    bg_error error = {0};

    for (int v = 0; v < VARIABLES; v++) {
        const bgi_test_tensor *start = bgi_test_oracle_find(oracle, "start", variables[v]);
        const bg_type type = bgi_test_tensor_type(start, BG_FLOAT32);
        float data[MOST];
        for (int64_t i = 0; i < start->count; i++)
            data[i] = (float)start->values[i];
        require(bg_weights_set(bg_session_weights(session), variables[v], &type, data, &error), &error);
    }
}

typedef struct trained {
    float variables[VARIABLES][MOST];
    float
        running[STEPS * 4 * HIDDEN]; /* running means of `vector` in the last update: [micro-batch][replica][channel] */
    float logits[SAMPLES * CLASSES]; /* the result of inference with these weights */
} trained;

static void infer(bg_weights *weights, const float *x, const bg_options *from, uint32_t replicas, trained *out)
{
    bg_graph *graph = build(1, PLAIN, false, 1, NULL);
    bg_options options = bg_options_defaults();
    bg_session *session;
    bg_error error = {0};
    bg_plan *plan;

    options.execution.strategy =
        from->execution.strategy == BG_STRATEGY_PIPELINED ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SINGLE;
    options.replicas.count = replicas;
    options.execution.device_iterations = SAMPLES / replicas;
    options.replicas.synchronize_batch_norm = from->replicas.synchronize_batch_norm;
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    require(bg_session_create(plan, weights, &session, &error), &error);
    require(bg_session_run(session, (const void *[]){x}, (void *[]){out->logits}, &error), &error);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* Runs on a mesh with `tensor` replicas for each copy of the model, which compute the same values here. */
static trained train_on_mesh(norm_kind kind, bool is_counted, uint32_t tensor, const bg_options *given)
{
    const uint32_t copies = given->replicas.count / tensor;
    bg_options options = *given;
    const bg_optimizer optimizer = bg_sgd(0.25);
    bg_error error = {0};
    bg_value loss;
    bg_session *session;
    bg_graph *graph;
    bg_plan *plan;
    float x[SAMPLES * CHANNELS * SIDE * SIDE];
    int32_t labels[SAMPLES];
    const void *inputs[2];
    void *outputs[4] = {NULL};
    trained out = {.logits = {0}};

    read_data(x, labels);
    options.execution.gradient_accumulation = STEPS;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    if (kind == BY_OPTION)
        require(bg_options_set(&options, "synchronize_batch_norm", "true", &error), &error);
    graph = build(SAMPLES / STEPS / copies, kind, is_counted, tensor, &loss);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    set_weights(session);
    inputs[bg_session_find_input(session, "x")] = x;
    inputs[bg_session_find_input(session, "labels")] = labels;
    outputs[bg_session_find_output(session, "running")] = out.running;
    for (int update = 0; update < UPDATES; update++)
        require(bg_session_run(session, inputs, outputs, &error), &error);
    for (int v = 0; v < VARIABLES; v++) {
        bg_weight weight;
        require(bg_weights_find(bg_session_weights(session), variables[v], &weight, &error), &error);
        memcpy(out.variables[v], weight.data, (size_t)bg_type_element_count(&weight.type) * sizeof(float));
    }
    infer(bg_session_weights(session), x, &options, copies, &out);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    return out;
}

static trained train(norm_kind kind, bool is_counted, const bg_options *given)
{
    return train_on_mesh(kind, is_counted, 1, given);
}

static void compare(const bgi_test_tensor *wanted, const float *got, const char *case_name, const char *what)
{
    for (int64_t i = 0; i < wanted->count; i++)
        if (!(fabs((double)got[i] - wanted->values[i]) <= 3e-6))
            fail_msg("%s, %s: `%s` element %d is %.9g, %.9g expected", case_name, what, wanted->name, (int)i,
                     (double)got[i], wanted->values[i]);
}

static void compare_all(const trained *got, const char *case_name, const char *what)
{
    for (int v = 0; v < VARIABLES; v++)
        compare(bgi_test_oracle_find(oracle, case_name, variables[v]), got->variables[v], case_name, what);
    compare(bgi_test_oracle_find(oracle, case_name, "logits"), got->logits, case_name, what);
}

static bg_options make_options(uint32_t replicas)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.replicas.count = replicas;
    return options;
}

/* Compares one replica of 4 samples, two of 2, and four of 1, whose separate statistics would be undefined. */
static void test_replicas_are_one_micro_batch(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= 4; replicas *= 2)
        for (norm_kind kind = PLAIN; kind <= BY_OPTION; kind++)
            for (int is_counted = 0; is_counted < 2; is_counted++) {
                const bg_options options = make_options(replicas);
                trained got;
                char what[64];
                if (kind == PLAIN && replicas > 1)
                    continue;
                got = train(kind, is_counted != 0, &options);
                snprintf(what, sizeof what, "%u replicas, kind %d", replicas, (int)kind);
                compare_all(&got, is_counted ? "counted" : "mean", what);
            }
}

/* The running statistics of replicas are equal exactly if they are synchronized; the weights have those of replica 0
 * after the last micro-batch. */
static void test_running_statistics_of_replicas(void **state)
{
    const size_t bytes = HIDDEN * sizeof(float);

    (void)state;
    for (norm_kind kind = PLAIN; kind <= BY_OPTION; kind++) {
        const bg_options options = make_options(2);
        const trained got = train(kind, true, &options);

        for (int m = 0; m < STEPS; m++) {
            const float *of_replicas = got.running + (size_t)m * 2 * HIDDEN;
            assert_int_equal(memcmp(of_replicas, of_replicas + HIDDEN, bytes) == 0, kind != PLAIN);
        }
        assert_memory_equal(got.variables[7], got.running + 2 * HIDDEN, bytes); /* replica 0, last micro-batch */
    }
}

static void assert_same(const trained *got, const trained *wanted, const char *what)
{
    for (int v = 0; v < VARIABLES; v++) {
        const int64_t count = bgi_test_oracle_find(oracle, "start", variables[v])->count;
        if (memcmp(got->variables[v], wanted->variables[v], (size_t)count * sizeof(float)) != 0)
            fail_msg("%s: other bits of `%s`", what, variables[v]);
    }
    assert_memory_equal(got->logits, wanted->logits, sizeof got->logits);
}

static void test_every_strategy_has_the_same_bits(void **state)
{
    static const struct {
        bg_strategy strategy;
        const char *schedule;
        bg_recompute recompute;
        uint32_t cores;
        bool is_sharded;
    } ways[] = {{BG_STRATEGY_SINGLE, NULL, BG_RECOMPUTE_NONE, 2, false},
                {BG_STRATEGY_SHARDED, NULL, BG_RECOMPUTE_NONE, 1, false},
                {BG_STRATEGY_SHARDED, NULL, BG_RECOMPUTE_STAGE, 2, true},
                {BG_STRATEGY_PIPELINED, NULL, BG_RECOMPUTE_NONE, 1, false},
                {BG_STRATEGY_PIPELINED, NULL, BG_RECOMPUTE_STAGE, 2, true},
                {BG_STRATEGY_PIPELINED, "gpipe", BG_RECOMPUTE_NONE, 2, false},
                {BG_STRATEGY_PIPELINED, "zb-h1", BG_RECOMPUTE_NONE, 2, false},
                {BG_STRATEGY_PHASED, NULL, BG_RECOMPUTE_NONE, 2, false}};

    (void)state;
    for (uint32_t replicas = 2; replicas <= 4; replicas *= 2) {
        bg_options options = make_options(replicas);
        trained wanted;
        options.execution.cores = 1;
        wanted = train(SYNCHRONIZED, true, &options);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            trained got;
            char what[32];
            options.execution.strategy = ways[w].strategy;
            options.execution.schedule = ways[w].schedule;
            options.memory.recompute = ways[w].recompute;
            options.execution.cores = ways[w].cores;
            options.memory.locations[BG_LOCATION_STATE].sharded = ways[w].is_sharded;
            options.memory.locations[BG_LOCATION_ACCUMULATORS].sharded = ways[w].is_sharded;
            snprintf(what, sizeof what, "way %zu", w);
            got = train(w % 2 == 0 ? SYNCHRONIZED : BY_OPTION, true, &options);
            assert_same(&got, &wanted, what);
        }
    }
}

/* Statistics are computed over copies of the model, not over the replicas of one copy. */
static void test_a_mesh_has_the_same_bits(void **state)
{
    bg_options options = make_options(2);
    const trained wanted = train(SYNCHRONIZED, true, &options);
    trained got;

    (void)state;
    options.replicas.count = 4;
    got = train_on_mesh(SYNCHRONIZED, true, 2, &options);
    assert_same(&got, &wanted, "mesh");
}

/* A running mean is exact if the loss counts every micro-batch equally; it is an error otherwise. */
static void test_running_means(void **state)
{
    bg_options options = make_options(2);
    const bg_optimizer optimizer = bg_sgd(0.25);
    bg_error error = {0};
    bg_plan *plan = NULL;
    bg_value loss;
    bg_graph *graph = build(2, SYNCHRONIZED, true, 1, &loss);
    trained got;

    (void)state;
    options.numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
    got = train(SYNCHRONIZED, false, &options);
    compare_all(&got, "mean", "running mean");
    options.execution.gradient_accumulation = STEPS;
    assert_int_equal(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), BG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "batch norm `image` is synchronized"));
    assert_non_null(strstr(error.message, "BG_ACCUMULATE_MEAN"));
    options.replicas.count = 1; /* nothing to synchronize */
    bg_error_clear(&error);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_are_one_micro_batch),
        cmocka_unit_test(test_running_statistics_of_replicas),
        cmocka_unit_test(test_every_strategy_has_the_same_bits),
        cmocka_unit_test(test_a_mesh_has_the_same_bits),
        cmocka_unit_test(test_running_means),
    };

    return cmocka_run_group_tests_name("parity/sync_norm", tests, open_oracle, close_oracle);
}
