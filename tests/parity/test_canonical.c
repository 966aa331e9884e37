/*
 * test_canonical.c: with canonical reductions the bits of losses, weights and state do not depend on how the
 * micro-batches of an update are divided over replicas. This holds with every option that may be combined with
 * canonical reductions. Results list losses in the order of the whole batch.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/feed.h>
#include <brigade/gpt.h>
#include <brigade/nn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/train.h"

enum { UPDATES = 3, MICRO_BATCH = 2 };

/* ---- models ---- */

static bg_mesh mesh; /* the mesh of the GPT; train() sets its data axis */

/* Builds a small GPT-2. Labels of 3 are ignored, so that micro-batches have different counts. */
static bg_value build_gpt(bg_graph *graph, int64_t micro_batch)
{
    bg_gpt_options options = bg_gpt_defaults();
    bg_gpt net;

    options.layers = 2;
    options.hidden = 16;
    options.heads = 4;
    options.sequence_length = 6;
    options.positions = 9;
    options.vocabulary = 37;
    options.micro_batch = micro_batch;
    options.ignore_label = 3;
    bg_graph_set_mesh(graph, &mesh);
    net = bg_gpt_build(graph, &options);
    return net.loss;
}

static const test_model gpt = {"gpt", build_gpt};

/* ---- ways to divide an update over replicas ---- */

typedef struct share {
    uint32_t replicas, accumulation;
} share;

static const share of_8[] = {{1, 8}, {2, 4}, {4, 2}, {8, 1}};
static const share of_6[] = {{1, 6}, {3, 2}, {6, 1}};
static const share of_12[] = {{1, 12}, {3, 4}, {6, 2}, {12, 1}};
static const share of_5[] = {{1, 5}, {5, 1}};

/* Changes the options, including the optimizer's. */
typedef void (*set_function)(bg_options *options, bg_optimizer *optimizer);

static test_result train(const test_model *model, set_function set, const share *s, bool canonical, const char *what)
{
    const uint32_t tensor = mesh.tensor_1 * mesh.tensor_2;
    bg_options options = bg_options_defaults();
    bg_optimizer optimizer = bg_adamw(0.003);

    options.execution.gradient_accumulation = s->accumulation;
    options.replicas.count = s->replicas * tensor;
    if (s->replicas % 2 == 0) /* gradients are reduced during the backward pass */
        options.replicas.reduce_bytes = 1;
    options.numerics.canonical_reductions = canonical;
    options.numerics.seed = 11;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.reporting.trace = true; /* the touched memory is that of the plan */
    options.execution.wait_limit_s = 60;
    mesh.data = s->replicas;
    if (set != NULL)
        set(&options, &optimizer);
    return test_train(model, MICRO_BATCH, &optimizer, &options, NULL, 0, UPDATES, what);
}

static void check(const test_model *model, const char *name, set_function set, const share *shares, size_t count)
{
    char what[128];
    test_result first;

    snprintf(what, sizeof what, "%s, %s, %u x %u", model->name, name, shares[0].replicas, shares[0].accumulation);
    first = train(model, set, &shares[0], true, what);
    for (size_t i = 1; i < count; i++) {
        snprintf(what, sizeof what, "%s, %s, %u x %u", model->name, name, shares[i].replicas, shares[i].accumulation);
        test_train_expect(train(model, set, &shares[i], true, what), &first, what);
    }
    free(first.bytes);
}

static int reset(void **state)
{
    (void)state;
    mesh = (bg_mesh){1, 1, 1};
    return 0;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- options that may be combined with canonical reductions ---- */

static void pipeline(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->execution.strategy = BG_STRATEGY_PIPELINED;
    options->execution.stages = "B1|B2,B3|B4";
    options->execution.cores = 3;
}

static void pipeline_gpt(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->execution.strategy = BG_STRATEGY_PIPELINED;
    options->execution.schedule = "1f1b";
    options->execution.stages = "Embedding,Layer-0|Layer-1,Head";
}

static void clip(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    pipeline_gpt(options, optimizer);
    options->numerics.max_gradient_norm = 0.05;
    options->numerics.auto_loss_scaling.enabled = true;
}

static void shard(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    for (int k = BG_LOCATION_STATE; k <= BG_LOCATION_ACCUMULATORS; k++) {
        options->memory.locations[k].sharded = true;
        options->memory.locations[k].minimum_elements_sharded = 1;
    }
    options->numerics.max_gradient_norm = 0.05;
    options->replicas.reduce_time = BG_REDUCE_IN_UPDATE;
}

static void shard_remote(bg_options *options, bg_optimizer *optimizer)
{
    shard(options, optimizer);
    pipeline_gpt(options, optimizer);
    options->replicas.reduce_time = BG_REDUCE_IN_BACKWARD;
    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        options->memory.locations[k].place = BG_PLACE_REMOTE;
    options->memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    options->memory.recompute = BG_RECOMPUTE_STAGE;
}

static void phase(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->execution.strategy = BG_STRATEGY_PHASED;
    options->execution.stages = "Embedding|Layer-0|Layer-1|Head";
}

static void narrow(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
    options->numerics.accumulator_dtype = BG_BFLOAT16;
}

static void sum(bg_options *options, bg_optimizer *optimizer)
{
    *optimizer = bg_sgd(0.002);
    optimizer->momentum = 0.9;
    options->numerics.accumulation = BG_ACCUMULATE_SUM;
    options->numerics.kernels = BG_KERNELS_REFERENCE;
}

static void narrow_reference(bg_options *options, bg_optimizer *optimizer)
{
    narrow(options, optimizer);
    options->numerics.kernels = BG_KERNELS_REFERENCE;
}

static void lamb(bg_options *options, bg_optimizer *optimizer)
{
    (void)options;
    *optimizer = bg_lamb(0.01);
}

static void several_updates(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->execution.device_iterations = UPDATES;
}

/* ---- tests ---- */

/* Sums in the order of replicas must differ here; otherwise the following checks would prove nothing. */
static void test_other_orders_have_other_bits(void **state)
{
    const test_result wide = train(test_model_at(0), NULL, &of_8[1], false, "2 x 4"),
                      long_one = train(test_model_at(0), NULL, &of_8[0], false, "1 x 8");

    (void)state;
    assert_int_equal(wide.size, long_one.size);
    assert_memory_not_equal(wide.bytes, long_one.bytes, wide.size);
    free(wide.bytes);
    free(long_one.bytes);
}

static void test_digits(void **state)
{
    (void)state;
    check(test_model_at(0), "plain", NULL, of_8, COUNT(of_8));
    check(test_model_at(0), "pipeline", pipeline, of_8, COUNT(of_8));
    check(test_model_at(0), "several updates", several_updates, of_8, COUNT(of_8));
}

/* The model has dropout, and parameters that several blocks use. */
static void test_gpt(void **state)
{
    (void)state;
    check(&gpt, "plain", NULL, of_8, COUNT(of_8));
    check(&gpt, "pipeline, norm, loss scale", clip, of_8, COUNT(of_8));
    check(test_model_at(2), "pipeline", pipeline, of_8, COUNT(of_8));
}

/* One replica could keep the embedding's part of the gradient as rows; several replicas cannot. */
static void test_gradients_in_rows(void **state)
{
    (void)state;
    check(test_model_at(5), "plain", NULL, of_8, COUNT(of_8));
    check(test_model_at(5), "pipeline", pipeline, of_8, COUNT(of_8));
}

/* The tree also exists when micro-batches times replicas is not a power of two. */
static void test_any_count(void **state)
{
    (void)state;
    check(test_model_at(3), "plain", NULL, of_6, COUNT(of_6));
    check(test_model_at(3), "pipeline", pipeline, of_12, COUNT(of_12));
    check(test_model_at(2), "plain", NULL, of_5, COUNT(of_5));
    check(test_model_at(3), "16 bits", narrow, of_12, COUNT(of_12));
}

/* State and gradients are sharded, on the devices or in remote stores. */
static void test_pieces(void **state)
{
    (void)state;
    check(&gpt, "pieces", shard, of_8, COUNT(of_8));
    check(&gpt, "pieces in remote stores", shard_remote, of_8, COUNT(of_8));
    check(&gpt, "phases", phase, of_8, COUNT(of_8));
}

static void test_numbers(void **state)
{
    (void)state;
    check(test_model_at(3), "16 bits", narrow, of_8, COUNT(of_8));
    check(test_model_at(3), "16 bits, plain kernels", narrow_reference, of_8, COUNT(of_8));
    check(test_model_at(2), "sums, plain kernels", sum, of_8, COUNT(of_8));
    check(&gpt, "lamb", lamb, of_8, COUNT(of_8));
}

/* Builds a float64 model, because differences in the last bits of LAMB's norms are visible only in float64. */
static bg_value build_double(bg_graph *graph, int64_t micro_batch)
{
    const bg_initializer normal = {BG_INITIALIZE_NORMAL, 0.0, 1.0};
    const bg_type type = bg_matrix(BG_FLOAT64, micro_batch, 301), row = bg_matrix(BG_FLOAT64, 1, 301);
    bg_value x = bg_graph_parameter(graph, "a", &row, &normal);

    x = bg_tanh(graph, bg_multiply(graph, bg_graph_input(graph, "x", &type), x));
    x = bg_reduce(graph, "loss", BG_REDUCE_SUM, bg_multiply(graph, x, x), NULL, 0, false);
    bg_graph_output(graph, "loss", x);
    return x;
}

static void test_norms(void **state)
{
    static const test_model wide = {"double", build_double};

    (void)state;
    check(&wide, "lamb", lamb, of_8, COUNT(of_8));
}

/* Tests meshes that have tensor-parallel and data-parallel replicas. */
static void test_meshes(void **state)
{
    (void)state;
    mesh.tensor_1 = 2;
    check(&gpt, "mesh r x 2 x 1", NULL, of_8, COUNT(of_8));
    mesh.tensor_2 = 2;
    check(&gpt, "mesh r x 2 x 2", pipeline_gpt, of_8, 3);
}

/* Four micro-batches with gradients 2^24, 1, 1, 1, and similar ones: the results show that the tree is the documented
 * one. */
static void test_the_tree(void **state)
{
    static const struct {
        uint32_t count;
        float x[7], sum;
    } cases[] = {
        {4, {0x1p24f, 1, 1, 1}, 0x1p24f + 2},          /* (2^24 + 1) + (1 + 1): the first 1 is lost */
        {3, {1, 0x1p24f, 1}, 0x1p24f},                 /* (1 + 2^24) + 1 */
        {5, {0x1p24f, 1, 1, 1, 1}, 0x1p24f + 4},       /* ((2^24 + 1) + (1 + 1)) + 1: a tie, which is rounded to even */
        {6, {0x1p24f, 0, 0, 0, 1, 1}, 0x1p24f + 2},    /* 2^24 + (1 + 1) */
        {7, {0x1p24f, 0, 0, 0, 1, 1, 2}, 0x1p24f + 4}, /* 2^24 + ((1 + 1) + 2) */
        {7, {0x1p24f, 0, 0, 0, 1, 0, 1}, 0x1p24f + 2}};
    const bg_type type = bg_matrix(BG_FLOAT32, 1, 1);
    const bg_initializer zero = {BG_INITIALIZE_CONSTANT, 0.0, 0.0};
    const bg_optimizer optimizer = bg_sgd(1.0);

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (uint32_t replicas = 1; replicas <= cases[i].count; replicas += cases[i].count - 1) {
            bg_options options = bg_options_defaults();
            bg_graph *graph;
            bg_plan *plan;
            bg_session *session;
            bg_weight weight;
            bg_value loss;
            bg_error error = {0};
            options.replicas.count = replicas;
            options.execution.gradient_accumulation = cases[i].count / replicas;
            options.numerics.canonical_reductions = true;
            options.numerics.accumulation = BG_ACCUMULATE_SUM;
            assert_int_equal(bg_graph_create(&graph, &error), BG_OK);
            loss = bg_multiply(graph, bg_graph_parameter(graph, "a", &type, &zero), bg_graph_input(graph, "x", &type));
            loss = bg_reduce(graph, "loss", BG_REDUCE_SUM, loss, NULL, 0, false);
            assert_int_equal(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), BG_OK);
            assert_int_equal(bg_session_create(plan, NULL, &session, &error), BG_OK);
            assert_int_equal(bg_session_run(session, (const void *[]){cases[i].x}, (void *[]){NULL}, &error), BG_OK);
            assert_int_equal(bg_weights_find(bg_session_weights(session), "a", &weight, &error), BG_OK);
            if (*(const float *)weight.data != -cases[i].sum)
                fail_msg("case %zu, %u replicas: %.9g, %.9g expected", i, replicas,
                         -(double)*(const float *)weight.data, (double)cases[i].sum);
            bg_session_destroy(session);
            bg_plan_destroy(plan);
            bg_graph_destroy(graph);
        }
}

/* ---- infeeds ---- */

typedef struct elements {
    float x[64 * MICRO_BATCH * 24];
    size_t next, row;
} elements;

static bg_status bring(void *user, void *const *tensors, bool *out_ended, bg_error *error)
{
    elements *e = user;

    (void)error;
    *out_ended = e->next == 64;
    if (!*out_ended)
        memcpy(tensors[0], e->x + e->next++ * e->row, e->row * sizeof(float));
    return BG_OK;
}

static float feed(const share *s, float *losses)
{
    static elements e;
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, 24);
    const bg_infeed_options feeding = bg_infeed_options_defaults();
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_options options = bg_options_defaults();
    bg_infeed *infeed = NULL;
    bg_session *session;
    bg_plan *plan;
    bg_error error = {0};
    bg_weight weight;
    float first;

    e = (elements){.row = (size_t)MICRO_BATCH * 24};
    for (size_t i = 0; i < COUNT(e.x); i++)
        e.x[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    options.execution.gradient_accumulation = s->accumulation;
    options.execution.device_iterations = 2;
    options.replicas.count = s->replicas;
    options.numerics.canonical_reductions = true;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    plan = test_train_plan(test_model_at(3), MICRO_BATCH, &optimizer, &options, "infeed");
    assert_int_equal(bg_session_create(plan, NULL, &session, &error), BG_OK);
    assert_int_equal(bg_infeed_create(&type, 1, bring, &e, &feeding, &infeed, &error), BG_OK);
    assert_int_equal(bg_infeed_start(infeed, session, &error), BG_OK);
    for (int run = 0; run < 4; run++)
        if (bg_session_run_infeed(session, infeed, (void *[]){losses + 16 * run}, &error) != BG_OK)
            fail_msg("%s", error.message);
    assert_int_equal(bg_weights_find(bg_session_weights(session), "one.weight", &weight, &error), BG_OK);
    first = *(const float *)weight.data;
    bg_infeed_destroy(infeed);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    return first;
}

/* With an infeed, the losses of an iteration are also in the order of the whole batch. */
static void test_infeeds(void **state)
{
    float expected[64], losses[64];
    const float weight = feed(&of_8[0], expected);

    (void)state;
    for (size_t i = 1; i < COUNT(of_8); i++) {
        const float found = feed(&of_8[i], losses);
        assert_memory_equal(&found, &weight, sizeof weight);
        assert_memory_equal(losses, expected, sizeof expected);
    }
}

/* ---- refusals ---- */

static void running(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
}

static void sum_of_means(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->replicas.replica_reduction = BG_REPLICAS_SUM;
}

static void mean_of_sums(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->numerics.accumulation = BG_ACCUMULATE_SUM;
    options->replicas.replica_reduction = BG_REPLICAS_MEAN;
}

static void groups(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->replicas.input_group_size = 2;
}

static void odd(bg_options *options, bg_optimizer *optimizer)
{
    (void)optimizer;
    options->execution.gradient_accumulation = 6;
}

static void lamb_in_pieces(bg_options *options, bg_optimizer *optimizer)
{
    lamb(options, optimizer);
    shard(options, optimizer);
}

static void test_refusals(void **state)
{
    static const struct {
        unsigned model;
        set_function set;
        const char *text;
    } cases[] = {{3, running, "a running mean, which has its own order"},
                 {3, sum_of_means, "leave replica_reduction at its default"},
                 {3, mean_of_sums, "leave replica_reduction at its default"},
                 {3, groups, "canonical_reductions is set with input_group_size 2"},
                 {3, odd, "use gradient_accumulation 2 with 6 replicas, or 1 replica with 12"},
                 {3, lamb_in_pieces, "keep the state whole, or use another optimizer"},
                 {1, NULL, "batch_norm `stem.norm` changes `stem.norm."}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        bg_options options = bg_options_defaults();
        bg_optimizer optimizer = bg_adamw(0.003);
        bg_graph *graph;
        bg_plan *plan = NULL;
        bg_value loss;
        bg_error error = {0};
        options.replicas.count = 2;
        options.execution.gradient_accumulation = 4;
        options.numerics.canonical_reductions = true;
        if (cases[i].set != NULL)
            cases[i].set(&options, &optimizer);
        assert_int_equal(bg_graph_create(&graph, &error), BG_OK);
        loss = test_model_at(cases[i].model)->build(graph, MICRO_BATCH);
        assert_int_not_equal(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), BG_OK);
        if (strstr(error.message, cases[i].text) == NULL)
            fail_msg("case %zu: %s", i, error.message);
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_other_orders_have_other_bits, reset),
        cmocka_unit_test_setup(test_the_tree, reset),
        cmocka_unit_test_setup(test_digits, reset),
        cmocka_unit_test_setup(test_gpt, reset),
        cmocka_unit_test_setup(test_gradients_in_rows, reset),
        cmocka_unit_test_setup(test_any_count, reset),
        cmocka_unit_test_setup(test_pieces, reset),
        cmocka_unit_test_setup(test_numbers, reset),
        cmocka_unit_test_setup(test_norms, reset),
        cmocka_unit_test_setup(test_meshes, reset),
        cmocka_unit_test_setup(test_infeeds, reset),
        cmocka_unit_test_setup(test_refusals, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
