/*
 * test_gpt.c: GPT-2 trains as in PyTorch. tests/oracle/gpt.py has the same weights and tokens, clipping, and weight
 * decay only for matrices. The test compares losses, norms, and the weights after 12 updates. With dropout, bits are
 * the same under every strategy, with and without recomputation.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/gpt.h>
#include <brigade/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/attention/attributes.h"
#include "kernels/dropout/attributes.h"
#include "support/oracle.h"
#include "support/oracle_gpt.h"

enum {
    UPDATES = 12,
    MICRO_BATCHES = 2,
    SAMPLES = 2,
    LENGTH = TEST_ORACLE_GPT_LENGTH,
    VOCABULARY = TEST_ORACLE_GPT_VOCABULARY,
    TOKENS = SAMPLES * LENGTH
};
enum { HIDDEN = TEST_ORACLE_GPT_HIDDEN };
/* Learning rates of the oracle's two runs. */
static const double rate_of_losses = 0.01, rate_of_weights = 0.001;
enum { ALL_TOKENS = UPDATES * MICRO_BATCHES * TOKENS };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static void fill_data(int32_t *tokens, int32_t *labels)
{
    for (int64_t sample = 0; sample < ALL_TOKENS / LENGTH; sample++)
        for (int64_t t = 0; t <= LENGTH; t++) {
            const int64_t i = sample * (LENGTH + 1) + t;
            const int32_t token = (int32_t)((7 * i * i + 3 * i + i / 5) % VOCABULARY);

            if (t < LENGTH)
                tokens[sample * LENGTH + t] = token;
            if (t > 0)
                labels[sample * LENGTH + t - 1] = token == 3 ? -100 : token;
        }
}

/* Sets initial values: 0.3 sin(1.37 e + k) for element e of parameter k, plus 1 for the weights of norms. */
static void set_weights(bg_weights *weights)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        float values[512];
        bg_weight weight;
        bg_error error = {0};
        double base;

        require(bg_weights_at(weights, i, &weight, &error), &error);
        if (weight.role != BG_ROLE_PARAMETER)
            continue;
        base = strstr(weight.name, "ln_") != NULL && strstr(weight.name, ".weight") != NULL ? 1.0 : 0.0;
        assert_true(bg_type_element_count(&weight.type) <= 512);
        for (int64_t e = 0; e < bg_type_element_count(&weight.type); e++)
            values[e] = (float)(base + 0.3 * sin(1.37 * (double)e + k));
        k++;
        require(bg_weights_set(weights, weight.name, &weight.type, values, &error), &error);
    }
    assert_int_equal(k, 2 + 2 * 12 + 2);
}

/* Checks that all replicas have the same values; the replica is the innermost dimension of `from`. Stores those of
 * replica 0. */
static void take_first(float *to, const float *from, int count, uint32_t replicas)
{
    for (int i = 0; i < count; i++) {
        for (uint32_t r = 1; r < replicas; r++)
            assert_memory_equal(&from[(uint32_t)i * replicas + r], &from[(uint32_t)i * replicas], sizeof *from);
        to[i] = from[(uint32_t)i * replicas];
    }
}

/* The gradient of a key's bias is zero, because the bias adds the same number to all scores of a query. The computed
 * gradient is only rounding error, but Adam makes full steps from it, so the tolerance for it is larger. */
static double find_tolerance(const char *name, int64_t element)
{
    return strstr(name, "c_attn.bias") != NULL && element >= HIDDEN && element < 2 * HIDDEN ? 1e-3 : 1e-5;
}

/* Checks that all parameters agree with PyTorch's after the updates. */
static void check_weights(bg_weights *weights, const bg_mesh *mesh)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/gpt.txt");
    uint32_t parameters = 0;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        const bgi_test_tensor *wanted;
        bg_weight weight;
        bg_error error = {0};

        require(bg_weights_at(weights, i, &weight, &error), &error);
        if (weight.role != BG_ROLE_PARAMETER)
            continue;
        wanted = bgi_test_oracle_find(oracle, "trained", weight.name);
        assert_int_equal(wanted->count, bg_type_element_count(&weight.type));
        for (int64_t e = 0; e < wanted->count; e++)
            if (!(fabs((double)((const float *)weight.data)[e] - wanted->values[e]) <= find_tolerance(weight.name, e)))
                fail_msg("mesh %u x %u x %u: element %lld of `%s` is %.9g, PyTorch's is %.9g", mesh->data,
                         mesh->tensor_1, mesh->tensor_2, (long long)e, weight.name,
                         (double)((const float *)weight.data)[e], wanted->values[e]);
        parameters++;
    }
    assert_int_equal(parameters, 2 + 2 * 12 + 2);
    bgi_test_oracle_close(oracle);
}

/* Trains, and stores the losses of all micro-batches, the norms of the updates' gradients, and the table of words at
 * the end. */
static void train_on(const bg_mesh *mesh, const bg_gpt_options *model, bg_options options, double rate, float *losses,
                     float *norms, float *words)
{
    static float all_losses[UPDATES * MICRO_BATCHES * 16], all_norms[UPDATES * 16];
    const uint32_t tensor = mesh->tensor_1 * mesh->tensor_2;
    static int32_t tokens[ALL_TOKENS], labels[ALL_TOKENS];
    bg_optimizer optimizer = bg_adamw(rate);
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_weight weight;
    bg_gpt net;
    const void *inputs[2];
    void *outputs[4] = {0};

    optimizer.epsilon = 1e-6;
    optimizer.weight_decay = 0.1;
    optimizer.decay_matrices_only = true;
    options.numerics.max_gradient_norm = 1.0;
    options.reporting.output_gradient_norm = true;
    options.execution.device_iterations = UPDATES;
    options.execution.gradient_accumulation = MICRO_BATCHES / mesh->data;
    options.replicas.count = bg_mesh_replica_count(mesh);
    options.reporting.output_mode = BG_OUTPUT_ALL;
    fill_data(tokens, labels);
    require(bg_graph_create(&graph, &error), &error);
    bg_graph_set_mesh(graph, mesh);
    net = bg_gpt_build(graph, model);
    require(bg_plan_create_training(graph, net.loss, &optimizer, &options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    set_weights(bg_session_weights(session));
    inputs[bg_session_find_input(session, "tokens")] = tokens;
    inputs[bg_session_find_input(session, "labels")] = labels;
    outputs[bg_session_find_output(session, "loss")] = all_losses;
    outputs[bg_session_find_output(session, "gradient_norm")] = all_norms;
    require(bg_session_run(session, inputs, outputs, &error), &error);
    take_first(losses, all_losses, UPDATES * MICRO_BATCHES, tensor);
    take_first(norms, all_norms, UPDATES, tensor * mesh->data);
    require(bg_weights_find(bg_session_weights(session), "transformer.wte.weight", &weight, &error), &error);
    memcpy(words, weight.data, VOCABULARY * 8 * sizeof *words);
    if (rate == rate_of_weights)
        check_weights(bg_session_weights(session), mesh);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void train(const bg_gpt_options *model, bg_options options, float *losses, float *norms, float *words)
{
    train_on(&(bg_mesh){1, 1, 1}, model, options, rate_of_losses, losses, norms, words);
}

/* Trains the oracle's model on a mesh of replicas. */
static void check_torch(const bg_mesh *mesh)
{
    static int32_t tokens[ALL_TOKENS], labels[ALL_TOKENS];
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/gpt.txt");
    const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, "gpt", "loss");
    const bgi_test_tensor *wanted_norms = bgi_test_oracle_find(oracle, "gpt", "norm");
    const bg_gpt_options model = test_oracle_gpt(SAMPLES);
    float losses[UPDATES * MICRO_BATCHES], norms[UPDATES], words[VOCABULARY * 8];

    assert_int_equal(wanted->count, UPDATES);
    assert_int_equal(wanted_norms->count, UPDATES);
    fill_data(tokens, labels);
    train_on(mesh, &model, bg_options_defaults(), rate_of_weights, losses, norms, words);
    train_on(mesh, &model, bg_options_defaults(), rate_of_losses, losses, norms, words);
    for (int u = 0; u < UPDATES; u++) {
        double sum = 0.0, counted = 0.0;

        for (int m = u * MICRO_BATCHES; m < (u + 1) * MICRO_BATCHES; m++) {
            double count = 0.0;
            for (int t = 0; t < TOKENS; t++)
                count += labels[m * TOKENS + t] != -100;
            sum += count * (double)losses[m];
            counted += count;
        }
        if (!(fabs(sum / counted - wanted->values[u]) <= 1e-5 * wanted->values[u]))
            fail_msg("mesh %u x %u x %u, update %d: loss %.9g, PyTorch's is %.9g", mesh->data, mesh->tensor_1,
                     mesh->tensor_2, u, sum / counted, wanted->values[u]);
        if (!(fabs((double)norms[u] - wanted_norms->values[u]) <= 1e-5 * wanted_norms->values[u]))
            fail_msg("mesh %u x %u x %u, update %d: norm %.9g, PyTorch's is %.9g", mesh->data, mesh->tensor_1,
                     mesh->tensor_2, u, (double)norms[u], wanted_norms->values[u]);
    }
    bgi_test_oracle_close(oracle);
}

static void test_torch(void **state)
{
    (void)state;
    check_torch(&(bg_mesh){1, 1, 1});
}

static void test_torch_on_meshes(void **state)
{
    static const bg_mesh meshes[] = {{2, 2, 2}, {1, 2, 4}, {1, 1, 2}, {1, 2, 1}, {2, 1, 8}, {1, 2, 8}};
    const size_t count = getenv("BRIGADE_TEST_QUICK") != NULL ? 2 : sizeof meshes / sizeof meshes[0];

    (void)state;
    for (size_t i = 0; i < count; i++)
        check_torch(&meshes[i]);
}

static void test_strategies(void **state)
{
    bg_gpt_options model = test_oracle_gpt(SAMPLES);
    float losses[UPDATES * MICRO_BATCHES], norms[UPDATES], words[VOCABULARY * 8];
    float expected[UPDATES * MICRO_BATCHES], expected_norms[UPDATES], expected_words[VOCABULARY * 8];

    (void)state;
    model.dropout = 0.1;
    train(&model, bg_options_defaults(), expected, expected_norms, expected_words);
    for (int i = 0; i < 4; i++) {
        static const bg_strategy strategies[] = {BG_STRATEGY_SINGLE, BG_STRATEGY_SHARDED, BG_STRATEGY_PIPELINED,
                                                 BG_STRATEGY_PHASED};
        bg_options options = bg_options_defaults();

        options.execution.strategy = strategies[i];
        options.memory.recompute = i % 2 == 0 ? BG_RECOMPUTE_STAGE : BG_RECOMPUTE_NONE;
        model.checkpoint_layers = i < 2;
        model.attention_serialization = 1 + i % 3;
        train(&model, options, losses, norms, words);
        assert_memory_equal(losses, expected, sizeof losses);
        assert_memory_equal(norms, expected_norms, sizeof norms);
        assert_memory_equal(words, expected_words, sizeof words);
    }
}

static void refuse(const bg_gpt_options *options, const char *part)
{
    bg_error error = {0};
    bg_graph *graph;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_gpt_build(graph, options);
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_INVALID);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, part);
    bg_graph_destroy(graph);
}

static void test_messages(void **state)
{
    bg_gpt_options bad = test_oracle_gpt(SAMPLES);

    (void)state;
    bad.attention_serialization = bad.sequence_length + 1; /* reaches attention */
    refuse(&bad, "divide the");
    bad = test_oracle_gpt(SAMPLES);
    bad.heads = 3;
    refuse(&bad, "hidden is 8, which 3 heads do not divide");
    bad = test_oracle_gpt(SAMPLES);
    bad.sequence_length = 8;
    refuse(&bad, "sequence_length is 8, but positions is 7");
    bad = test_oracle_gpt(SAMPLES);
    bad.layers = 0;
    refuse(&bad, "layers is 0");
    bad = test_oracle_gpt(SAMPLES);
    bad.dropout = 1.0;
    refuse(&bad, "dropout is 1");
    bad = test_oracle_gpt(SAMPLES);
    bad.dtype = BG_INT32;
    refuse(&bad, "activations are int32");
    bad = test_oracle_gpt(SAMPLES);
    bad.outputs = 8;
    refuse(&bad, "outputs is 0x8");
}

/* In an update of the phased strategy, each block is a phase for all micro-batches, and the head's forward and backward
 * pass are one phase. Weights are loaded for each phase. */
static void test_phased_step(void **state)
{
    static const char order[] = "F0.0 F0.1 F0.2 F1.0 F1.1 F1.2 F2.0 F2.1 F2.2 F3.0 B3.0 F3.1 B3.1 F3.2 B3.2 "
                                "B2.0 B2.1 B2.2 B1.0 B1.1 B1.2 B0.0 B0.1 B0.2";
    bg_gpt_options model = test_oracle_gpt(SAMPLES);
    bg_options options = bg_options_defaults();
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_graph *graph;
    bg_plan *plan;
    bg_error error = {0};
    char *timetable = NULL, *program = NULL;

    (void)state;
    model.checkpoint_layers = true;
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.gradient_accumulation = 3;
    options.memory.recompute = BG_RECOMPUTE_STAGE;
    options.numerics.max_gradient_norm = 1.0;
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    require(bg_graph_create(&graph, &error), &error);
    require(bg_plan_create_training(graph, bg_gpt_build(graph, &model).loss, &optimizer, &options, &plan, &error),
            &error);
    require(bg_plan_print_timetable(plan, &timetable, &error), &error);
    if (strstr(timetable, order) == NULL)
        fail_msg("another order:\n%s", timetable);
    require(bg_plan_print_program(plan, &program, &error), &error);
    /* Weights are loaded for the forward pass, the backward pass and the update. The embedding's last two phases follow
     * each other, and the head's first two are one, so each saves a load. */
    for (int stage = 0; stage < 4; stage++) {
        char line[64];
        int loads = 0;

        snprintf(line, sizeof line, "LOAD stage %d micro-batch 0 buffer %d,", stage, stage);
        for (const char *at = program; (at = strstr(at, line)) != NULL; at++)
            loads++;
        assert_int_equal(loads, stage == 0 || stage == 3 ? 2 : 3);
    }
    free(timetable);
    free(program);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* ---- the model as it is built ---- */

/* Counts a block's ops of type op_name (dropout or attention) that drop with this probability. */
static uint32_t count_drops(const bg_graph *graph, const char *block, const char *op_name, double probability)
{
    uint32_t count = 0;

    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        const bool is_attention = strcmp(op->type->name, "attention") == 0;
        double found = 0.0;
        if (strcmp(op->type->name, op_name) != 0 || strcmp(graph->blocks[op->block].name, block) != 0)
            continue;
        if (is_attention)
            found = ((const bgi_attention_attributes *)op->attributes)->probability;
        else
            found = ((const bgi_dropout_attributes *)op->attributes)->probability;
        count += found == probability;
    }
    return count;
}

/* Dropout is applied to the embedding's sum, to attention weights, and to the result of each half of a layer. */
static void test_where_dropout_is(void **state)
{
    bg_gpt_options model = test_oracle_gpt(SAMPLES);
    uint32_t checkpoints = 0;
    bg_graph *graph;

    (void)state;
    model.dropout = 0.3;
    model.checkpoint_layers = true;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_gpt_build(graph, &model);
    assert_int_equal(count_drops(graph, "Embedding", "dropout", 0.3), 1);
    for (int64_t layer = 0; layer < model.layers; layer++) {
        char block[32];

        snprintf(block, sizeof block, "Layer-%lld", (long long)layer);
        assert_int_equal(count_drops(graph, block, "dropout", 0.3), 2);
        assert_int_equal(count_drops(graph, block, "attention", 0.3), 1);
    }
    assert_int_equal(count_drops(graph, "Head", "dropout", 0.3), 0);
    for (size_t v = 1; v < graph->value_count; v++)
        checkpoints += graph->values[v].is_checkpoint;
    assert_int_equal(checkpoints, model.layers);
    bg_graph_destroy(graph);
}

/* Checks that a matrix is normal with deviation 0.02, truncated at two deviations, which leaves 0.88 of the deviation.
 */
static void check_matrix(const bg_weight *weight)
{
    const int64_t count = bg_type_element_count(&weight->type);
    double sum = 0.0, squares = 0.0, deviation;

    for (int64_t i = 0; i < count; i++) {
        const double x = (double)((const float *)weight->data)[i];

        assert_true(fabs(x) <= 0.04 + 1e-7);
        sum += x;
        squares += x * x;
    }
    deviation = sqrt(squares / (double)count);
    if (!(fabs(sum / (double)count) < 0.001) || !(fabs(deviation - 0.0176) < 0.0006))
        fail_msg("`%s`: mean %g, deviation %g", weight->name, sum / (double)count, deviation);
}

static void test_first_values(void **state)
{
    bg_gpt_options model = bg_gpt_defaults();
    const bg_optimizer optimizer = bg_adamw(0.01);
    const bg_options options = bg_options_defaults();
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_error error = {0};

    (void)state;
    model.layers = 1;
    model.hidden = 64;
    model.heads = 4;
    model.sequence_length = 8;
    model.positions = 100;
    model.vocabulary = 300;
    require(bg_graph_create(&graph, &error), &error);
    require(bg_plan_create_training(graph, bg_gpt_build(graph, &model).loss, &optimizer, &options, &plan, &error),
            &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (uint32_t i = 0; i < bg_weights_count(bg_session_weights(session)); i++) {
        bg_weight weight;

        require(bg_weights_at(bg_session_weights(session), i, &weight, &error), &error);
        if (weight.role != BG_ROLE_PARAMETER)
            continue;
        if (weight.type.rank == 2)
            check_matrix(&weight);
        for (int64_t e = 0; weight.type.rank == 1 && e < weight.type.dims[0]; e++)
            assert_true(((const float *)weight.data)[e] == (strstr(weight.name, ".weight") != NULL ? 1.0f : 0.0f));
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* Returns the bytes on a device under the phased strategy, which runs all `accumulation` micro-batches through one
 * phase after the other. */
static size_t count_phased_bytes(uint32_t accumulation)
{
    bg_gpt_options model = test_oracle_gpt(SAMPLES);
    bg_options options = bg_options_defaults();
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_graph *graph;
    bg_plan *plan;
    bg_error error = {0};
    size_t bytes;

    model.checkpoint_layers = true;
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.gradient_accumulation = accumulation;
    options.memory.recompute = BG_RECOMPUTE_STAGE;
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    require(bg_graph_create(&graph, &error), &error);
    require(bg_plan_create_training(graph, bg_gpt_build(graph, &model).loss, &optimizer, &options, &plan, &error),
            &error);
    bytes = bg_plan_device_bytes(plan, 0);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return bytes;
}

/* Values between phases, including the head's input, are not on the device, so more micro-batches do not need more
 * device memory. */
static void test_phased_memory(void **state)
{
    (void)state;
    assert_int_equal(count_phased_bytes(6), count_phased_bytes(48));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch),         cmocka_unit_test(test_torch_on_meshes),
        cmocka_unit_test(test_strategies),    cmocka_unit_test(test_phased_step),
        cmocka_unit_test(test_phased_memory), cmocka_unit_test(test_where_dropout_is),
        cmocka_unit_test(test_first_values),  cmocka_unit_test(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
