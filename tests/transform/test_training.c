/*
 * test_training.c: tests accumulators, scales, updates and optimizer state in the training graph.
 */
#include "kernels/accumulate/attributes.h"
#include "kernels/elementwise/attributes.h"
#include "transform/small.h"

#include <math.h>

static bg_options small_options(void)
{
    return (bg_options){.execution.gradient_accumulation = 4,
                        .replicas.count = 2,
                        .numerics.accumulation = BG_ACCUMULATE_MEAN,
                        .numerics.cast_gradients = true,
                        .numerics.loss_scaling = 1.0};
}

static const bgi_op *find_op(const bg_graph *graph, const bg_op_type *type, uint32_t number)
{
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].type == type && number-- == 0)
            return &graph->ops[o];
    return NULL;
}

/* Builds the layer fc in A and the loss in B (a mean over labels if `counted` is true). */
static bg_graph *build(bool counted, bg_value *loss)
{
    bg_graph *graph = small_create();
    const bg_type type = bg_vector(BG_INT32, 2);
    const bg_value x = small_input(graph, "x");
    bg_value y;

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    y = small_linear(graph, "fc", x, small_weight(graph, "w"));
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    *loss = counted ? bg_cross_entropy(graph, "loss", y, bg_graph_input(graph, "labels", &type), BG_LOSS_MEAN, -100)
                    : small_loss(graph, "loss", y);
    small_require(graph);
    return graph;
}

static void train(bg_graph *graph, bg_value loss, bg_optimizer optimizer, bg_options options)
{
    bg_error error = {0};

    small_expect(bgi_make_training(graph, loss, &optimizer, &options, &error), BG_OK, &error, NULL);
}

static void test_sgd_without_momentum(void **state)
{
    bg_value loss;
    bg_graph *graph = build(false, &loss);
    const bgi_op *update;

    (void)state;
    train(graph, loss, bg_sgd(0.1), small_options());
    update = find_op(graph, &bgi_op_sgd_update, 0);
    assert_non_null(update);
    assert_int_equal(update->phase, BGI_PHASE_UPDATE);
    assert_string_equal(graph->blocks[update->block].name, "A");
    assert_int_equal(update->inputs[0].id, bg_graph_find_variable(graph, "w").id);
    assert_int_equal(update->inputs[1].id, bg_graph_find_variable(graph, "w.accumulator.A").id);
    assert_true(bg_value_is_null(bg_graph_find_variable(graph, "w.momentum_buffer")));
    assert_int_equal(graph->values[bg_graph_find_variable(graph, "optimizer.hyper").id].role, BG_ROLE_HYPER);
    bg_graph_destroy(graph);
}

/* A mean over micro-batches of equal size is scaled by one constant over accumulation and replicas; a sum by 1. */
static void test_constant_scales(void **state)
{
    (void)state;
    for (int sum = 0; sum < 2; sum++) {
        bg_value loss, scale = {0};
        bg_graph *graph = build(sum != 0, &loss); /* a sum ignores the counts */
        bg_options options = small_options();
        options.numerics.accumulation = sum ? BG_ACCUMULATE_SUM : BG_ACCUMULATE_MEAN;
        train(graph, loss, bg_sgd(0.1), options);
        scale = find_op(graph, &bgi_op_sgd_update, 0)->inputs[3];
        assert_int_equal(graph->values[scale.id].kind, BGI_VALUE_CONSTANT);
        assert_true(*(const float *)graph->values[scale.id].data == (sum ? 1.0f : 0.125f));
        bg_graph_destroy(graph);
    }
}

/* The loss's gradient is multiplied by the loss scale, and the update divides by it. */
static void test_loss_scaling(void **state)
{
    (void)state;
    for (int counted = 0; counted < 2; counted++) {
        bg_value loss, scale;
        bg_graph *graph = build(counted != 0, &loss);
        bg_options options = small_options();
        const bgi_op *seed = NULL;

        options.numerics.loss_scaling = 12.0;
        train(graph, loss, bg_sgd(0.1), options);
        for (size_t o = 0; o < graph->op_count; o++)
            if (strcmp(graph->ops[o].name, "loss.scaled_seed") == 0)
                seed = &graph->ops[o];
        assert_non_null(seed);
        assert_int_equal(seed->phase, BGI_PHASE_BACKWARD);
        assert_true(((const bgi_scale_attributes *)seed->attributes)->alpha == 12.0);
        scale = find_op(graph, &bgi_op_sgd_update, 0)->inputs[3];
        if (counted)
            assert_true(
                ((const bgi_total_scale_attributes *)find_op(graph, &bgi_op_total_scale, 0)->attributes)->factor ==
                1.0 / 12.0);
        else
            assert_true(*(const float *)graph->values[scale.id].data == 1.0f / 96.0f);
        bg_graph_destroy(graph);
    }
}

/* For a mean over labels, the number of labels is added up like the gradients, in the loss's block. */
static void test_counted_scale(void **state)
{
    bg_value loss;
    bg_graph *graph = build(true, &loss);
    const bgi_op *scale, *count;

    (void)state;
    train(graph, loss, bg_adamw(0.1), small_options());
    scale = find_op(graph, &bgi_op_total_scale, 0);
    count = find_op(graph, &bgi_op_accumulate, 1);
    assert_non_null(scale);
    assert_string_equal(graph->blocks[scale->block].name, "B");
    assert_int_equal(scale->phase, BGI_PHASE_UPDATE);
    assert_string_equal(count->name, "loss.count");
    assert_int_equal(count->phase, BGI_PHASE_BACKWARD);
    assert_int_equal(count->inputs[0].id, scale->inputs[0].id);
    assert_int_equal(graph->values[scale->inputs[0].id].role, BG_ROLE_ACCUMULATOR);
    bg_graph_destroy(graph);
}

static void test_offloaded_state(void **state)
{
    bg_value loss;
    bg_graph *graph = build(false, &loss);
    bg_options options = small_options();
    const bgi_op *update, *load, *store;
    bg_value first;

    (void)state;
    options.memory.offload_optimizer = true;
    train(graph, loss, bg_adam(0.1), options);
    first = bg_graph_find_variable(graph, "w.exp_avg");
    update = find_op(graph, &bgi_op_adam_update, 0);
    load = find_op(graph, &bgi_op_load, 0);
    store = find_op(graph, &bgi_op_store, 0);
    assert_true(graph->values[first.id].is_remote);
    assert_int_equal(graph->values[first.id].role, BG_ROLE_STATE);
    assert_int_equal(graph->values[first.id].owner.id, bg_graph_find_variable(graph, "w").id);
    assert_int_equal(load->inputs[0].id, first.id);
    assert_int_equal(update->inputs[4].id, load->outputs[0].id);
    assert_int_equal(store->inputs[0].id, first.id);
    assert_int_equal(store->inputs[1].id, load->outputs[0].id);
    assert_non_null(find_op(graph, &bgi_op_store, 1));
    assert_null(find_op(graph, &bgi_op_store, 2));
    bg_graph_destroy(graph);
}

/* bfloat16 parameters keep float32 sums and state. */
static void test_bfloat16_parameters(void **state)
{
    bg_graph *graph = small_create();
    const bg_type type = bg_matrix(BG_BFLOAT16, 3, 3), x_type = bg_matrix(BG_BFLOAT16, 2, 3);
    const bg_value w = bg_graph_parameter(graph, "w", &type, NULL);
    bg_value y = bg_linear(graph, "fc", bg_graph_input(graph, "x", &x_type), w, (bg_value){0});

    (void)state;
    y = small_loss(graph, "loss", bg_cast(graph, NULL, y, BG_FLOAT32));
    small_require(graph);
    train(graph, y, bg_adam(0.1), small_options());
    assert_int_equal(bg_graph_type(graph, bg_graph_find_variable(graph, "w.accumulator.")).dtype, BG_FLOAT32);
    assert_int_equal(bg_graph_type(graph, bg_graph_find_variable(graph, "w.exp_avg")).dtype, BG_FLOAT32);
    bg_graph_destroy(graph);
}

/* A weight that is used in two blocks has two accumulators and one update, in the first block. */
static void test_tied_weight_has_one_update(void **state)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    bg_value x = small_input(graph, "x");
    const bgi_op *update;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_loss(graph, "loss", small_linear(graph, "b", x, w));
    train(graph, x, bg_sgd(0.1), small_options());
    update = find_op(graph, &bgi_op_sgd_update, 0);
    assert_string_equal(graph->blocks[update->block].name, "A");
    assert_null(find_op(graph, &bgi_op_sgd_update, 1));
    assert_false(bg_value_is_null(bg_graph_find_variable(graph, "w.accumulator.A")));
    assert_false(bg_value_is_null(bg_graph_find_variable(graph, "w.accumulator.B")));
    assert_true(graph->ops[bgi_graph_value(graph, update->inputs[1])->op].type == &bgi_op_add_n);
    bg_graph_destroy(graph);
}

/* Returns the type for the accumulator of w, to which `user` points.
 */
static bg_dtype choose(void *user, const char *name, const bg_type *type)
{
    assert_string_equal(name, "w");
    assert_true(bg_dtype_is_float(type->dtype));
    return *(const bg_dtype *)user;
}

/* Checks the types of the accumulator and the state of one 16-bit weight with these options, or the error message
 * `problem`. */
static void check_types(bg_dtype dtype, bg_options options, bg_dtype accumulator, bg_dtype state, const char *problem)
{
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_graph *graph = small_create();
    const bg_type type = bg_matrix(dtype, 3, 3), x_type = bg_matrix(dtype, 2, 3);
    const bg_value w = bg_graph_parameter(graph, "w", &type, NULL);
    const bg_value y = bg_linear(graph, "fc", bg_graph_input(graph, "x", &x_type), w, (bg_value){0});
    const bg_value loss = small_loss(graph, "loss", bg_cast(graph, NULL, y, BG_FLOAT32));
    bg_error error = {0};

    small_expect(bgi_make_training(graph, loss, &optimizer, &options, &error),
                 problem == NULL ? BG_OK : BG_ERROR_INVALID, &error, problem);
    if (problem == NULL) {
        assert_int_equal(bg_graph_type(graph, bg_graph_find_variable(graph, "w.accumulator.")).dtype, accumulator);
        assert_int_equal(bg_graph_type(graph, bg_graph_find_variable(graph, "w.exp_avg")).dtype, state);
        assert_int_equal(bg_graph_type(graph, bg_graph_find_variable(graph, "w.exp_avg_sq")).dtype, BG_FLOAT32);
    }
    bg_graph_destroy(graph);
}

static void test_accumulator_types(void **state)
{
    static const bg_dtype dtypes[] = {BG_BFLOAT16, BG_FLOAT16};
    const bg_dtype chosen = BG_FLOAT32, narrow = BG_BFLOAT16, wrong = BG_INT32;
    bg_options options;

    (void)state;
    for (int d = 0; d < 2; d++) {
        options = small_options();
        check_types(dtypes[d], options, BG_FLOAT32, BG_FLOAT32, NULL);
        options.numerics.accumulator_type = BG_ACCUMULATOR_SAME;
        options.numerics.first_moment_dtype = dtypes[1 - d];
        check_types(dtypes[d], options, dtypes[d], dtypes[1 - d], NULL);
        options.numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
        options.numerics.accumulator_dtype = dtypes[1 - d];
        check_types(dtypes[d], options, dtypes[1 - d], dtypes[1 - d], NULL);
    }
    options.numerics.first_moment_dtype = BG_DTYPE_NONE;
    options.numerics.accumulator_type = BG_ACCUMULATOR_CALLBACK;
    options.numerics.choose_accumulator = choose;
    options.numerics.choose_accumulator_user = (void *)(uintptr_t)&chosen;
    check_types(BG_FLOAT16, options, BG_FLOAT32, BG_FLOAT32, NULL);
    options.numerics.choose_accumulator_user = (void *)(uintptr_t)&narrow;
    check_types(BG_FLOAT32, options, BG_BFLOAT16, BG_FLOAT32, NULL);
    options.numerics.choose_accumulator_user = (void *)(uintptr_t)&wrong;
    check_types(BG_BFLOAT16, options, 0, 0, "accumulator of `w`: the callback chose int32");
}

/* ---- warnings ---- */

static void count_words(void *user, bg_log_level level, const char *text)
{
    uint32_t *counts = user;

    assert_int_equal(level, BG_LOG_WARNING);
    counts[0] += strstr(text, "stochastic rounding has no effect") != NULL;
    counts[1] += strstr(text, "velocity_scaling 8 is ignored") != NULL;
}

static void expect_warnings(bg_dtype weights, bg_dtype moments, bool rounds, const bg_optimizer *optimizer,
                            uint32_t of_rounding, uint32_t of_scaling)
{
    bg_graph *graph = small_create();
    const bg_type type = bg_matrix(weights, 3, 3), x_type = bg_matrix(weights, 2, 3);
    const bg_value w = bg_graph_parameter(graph, "w", &type, NULL);
    const bg_value y = bg_linear(graph, "fc", bg_graph_input(graph, "x", &x_type), w, (bg_value){0});
    bg_options options = small_options();
    uint32_t counts[2] = {0};

    options.numerics.stochastic_rounding = rounds;
    options.numerics.first_moment_dtype = moments;
    options.reporting.log = count_words;
    options.reporting.log_user = counts;
    train(graph, small_loss(graph, "loss", bg_cast(graph, NULL, y, BG_FLOAT32)), *optimizer, options);
    assert_int_equal(counts[0], of_rounding);
    assert_int_equal(counts[1], of_scaling);
    bg_graph_destroy(graph);
}

static void test_idle_options_are_said(void **state)
{
    const bg_optimizer adam = bg_adam(0.1);
    bg_optimizer sgd = bg_sgd(0.1);

    (void)state;
    expect_warnings(BG_FLOAT32, BG_DTYPE_NONE, true, &adam, 1, 0);
    expect_warnings(BG_FLOAT32, BG_DTYPE_NONE, false, &adam, 0, 0);
    expect_warnings(BG_FLOAT32, BG_BFLOAT16, true, &adam, 0, 0);
    expect_warnings(BG_BFLOAT16, BG_DTYPE_NONE, true, &adam, 0, 0);
    expect_warnings(BG_FLOAT16, BG_DTYPE_NONE, true, &adam, 0, 0);
    sgd.momentum = 0.9, sgd.velocity_scaling = 8.0;
    expect_warnings(BG_FLOAT32, BG_DTYPE_NONE, false, &sgd, 0, 1);
    sgd.combined = true;
    expect_warnings(BG_FLOAT32, BG_DTYPE_NONE, false, &sgd, 0, 0);
}

/* Without the cast an optimizer accepts only gradients of its parameter's type. */
static void test_gradients_of_another_type(void **state)
{
    bg_options options = small_options();

    (void)state;
    options.numerics.cast_gradients = false;
    check_types(BG_BFLOAT16, options, 0, 0, "parameter `w` is bfloat16 and its accumulator is float32");
    options.numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
    options.numerics.accumulator_dtype = BG_BFLOAT16;
    check_types(BG_FLOAT32, options, 0, 0, "parameter `w` is float32 and its accumulator is bfloat16");
    options.numerics.accumulator_dtype = BG_DTYPE_NONE;
    options.numerics.accumulator_type = BG_ACCUMULATOR_SAME;
    check_types(BG_BFLOAT16, options, BG_BFLOAT16, BG_FLOAT32, NULL);
}

/* A model that itself has an accumulator is an error. */
static void test_an_accumulator_of_the_model_is_refused(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.1);
    const bg_options options = small_options();
    const bg_type type = bg_matrix(BG_FLOAT32, 3, 3);
    bg_error error = {0};
    bg_value loss;
    bg_graph *graph = build(false, &loss);

    (void)state;
    bg_graph_variable(graph, "mine", &type, BG_ROLE_ACCUMULATOR, NULL);
    small_expect(bgi_make_training(graph, loss, &optimizer, &options, &error), BG_ERROR_INVALID, &error,
                 "the model has an accumulator, `mine`");
    bg_graph_destroy(graph);
}

/* Each parameter has one sum of squares, in its block; updates get the clipped scale. Infinity disables clipping. */
static void test_clipping(void **state)
{
    bg_options options = small_options();

    (void)state;
    for (int off = 0; off < 2; off++) {
        bg_value loss;
        bg_graph *graph = build(true, &loss);
        const bgi_op *squares, *clip;

        options.numerics.max_gradient_norm = off ? (double)INFINITY : 2.0;
        train(graph, loss, bg_sgd(0.1), options);
        squares = find_op(graph, &bgi_op_square_sum, 0);
        clip = find_op(graph, &bgi_op_clip_scale, 0);
        if (off) {
            assert_null(clip);
            assert_null(squares);
        } else {
            assert_string_equal(graph->blocks[squares->block].name, "A");
            assert_string_equal(graph->blocks[clip->block].name, "B");
            assert_true(((const bgi_clip_scale_attributes *)clip->attributes)->maximum == 2.0);
            assert_int_equal(find_op(graph, &bgi_op_sgd_update, 0)->inputs[3].id, clip->outputs[0].id);
        }
        bg_graph_destroy(graph);
    }
}

/* The factors of a running mean are computed in the loss's block, once for each micro-batch. */
static void test_running_mean(void **state)
{
    bg_options options = small_options();
    bg_value loss;
    bg_graph *graph = build(true, &loss);
    const bgi_op *factors, *accumulate;

    (void)state;
    options.numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
    train(graph, loss, bg_sgd(0.1), options);
    factors = find_op(graph, &bgi_op_running_factors, 0);
    accumulate = find_op(graph, &bgi_op_accumulate, 0);
    assert_int_equal(factors->phase, BGI_PHASE_BACKWARD);
    assert_string_equal(graph->blocks[factors->block].name, "B");
    assert_int_equal(factors->input_count, 2);
    assert_int_equal(accumulate->inputs[2].id, factors->outputs[0].id);
    assert_null(find_op(graph, &bgi_op_accumulate, 1));
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulator_types),
        cmocka_unit_test(test_gradients_of_another_type),
        cmocka_unit_test(test_idle_options_are_said),
        cmocka_unit_test(test_an_accumulator_of_the_model_is_refused),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_running_mean),
        cmocka_unit_test(test_sgd_without_momentum),
        cmocka_unit_test(test_constant_scales),
        cmocka_unit_test(test_loss_scaling),
        cmocka_unit_test(test_counted_scale),
        cmocka_unit_test(test_offloaded_state),
        cmocka_unit_test(test_bfloat16_parameters),
        cmocka_unit_test(test_tied_weight_has_one_update),
    };

    return cmocka_run_group_tests_name("transform/training", tests, NULL, NULL);
}
