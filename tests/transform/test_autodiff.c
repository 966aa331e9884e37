/*
 * test_autodiff.c: tests which gradients exist, in which blocks, and in which order they are added. Tests of each op
 * cover its gradient rule.
 */
#include "transform/small.h"

typedef struct derived {
    bgi_parameter_gradient *gradients;
    uint32_t count;
} derived;

static derived derive(bg_graph *graph, bg_value loss, bg_value weight)
{
    derived d = {0};
    bg_error error = {0};

    small_require(graph);
    small_expect(bgi_differentiate(graph, loss, weight, 1.0, (bg_value){0}, &d.gradients, &d.count, &error), BG_OK,
                 &error, NULL);
    assert_int_equal(bgi_graph_verify(graph, NULL), BG_OK);
    return d;
}

static void test_text(void **state)
{
    bg_graph *graph = small_create();
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    bg_value y;
    derived d;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    y = small_linear(graph, "fc", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    y = bg_elementwise_unary(graph, "act", BG_SQUARE, y);
    d = derive(graph, bg_reduce(graph, "loss", BG_REDUCE_SUM, y, NULL, 0, false), (bg_value){0});
    assert_int_equal(d.count, 1);
    assert_int_equal(d.gradients[0].parameter.id, w.id);
    assert_string_equal(graph->blocks[d.gradients[0].block].name, "A");
    /* Backward ops are in the block of their forward op; x needs no gradient. */
    for (size_t o = 3; o < graph->op_count; o++) {
        assert_int_equal(graph->ops[o].phase, BGI_PHASE_BACKWARD);
        assert_false(graph->ops[o].type == &bgi_op_linear_backward_input);
    }
    assert_true(graph->ops[graph->op_count - 1].type == &bgi_op_linear_backward_weights);
    assert_string_equal(graph->blocks[graph->ops[graph->op_count - 1].block].name, "A");
    assert_string_equal(graph->blocks[graph->ops[graph->op_count - 2].block].name, "B");
    free(d.gradients);
    bg_graph_destroy(graph);
}

/* A weight that is used twice in A and once in C has one gradient in each block; the gradient in A is the sum of
 * two. */
static void test_tied_weights_are_kept_apart_by_block(void **state)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    bg_value x = small_input(graph, "x");
    derived d;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a1", x, w);
    x = small_linear(graph, "a2", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = bg_relu(graph, x);
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    x = small_linear(graph, "c", x, w);
    d = derive(graph, small_loss(graph, "loss", x), (bg_value){0});
    assert_int_equal(d.count, 2);
    assert_string_equal(graph->blocks[d.gradients[0].block].name, "A");
    assert_string_equal(graph->blocks[d.gradients[1].block].name, "C");
    assert_true(graph->ops[bgi_graph_value(graph, d.gradients[0].gradient)->op].type == &bgi_op_add_n);
    assert_true(graph->ops[bgi_graph_value(graph, d.gradients[1].gradient)->op].type ==
                &bgi_op_linear_backward_weights);
    free(d.gradients);
    bg_graph_destroy(graph);
}

/* Contributions to one value are added from the last reader to the first. If the readers are in one block,
 * contributions are added there, so that the previous block gets only the sum. Otherwise they are added in the block
 * that makes the value. */
static void check_order_of_contributions(const char *third_block, const char *sum_block)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    bg_value x = small_input(graph, "x"), a, b, c;
    derived d;
    const bgi_op *sum = NULL;

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "fc", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    a = bg_scale(graph, "first", x, 2, 0);
    b = bg_scale(graph, "second", x, 3, 0);
    if (third_block != NULL)
        bg_block_start(graph, third_block, BG_DEVICE_NONE);
    c = bg_scale(graph, "third", x, 4, 0);
    d = derive(graph, small_loss(graph, "loss", bg_add(graph, bg_add(graph, a, b), c)), (bg_value){0});
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].type == &bgi_op_add_n)
            sum = &graph->ops[o];
    assert_non_null(sum);
    assert_string_equal(graph->blocks[sum->block].name, sum_block);
    assert_int_equal(sum->input_count, 3);
    for (uint32_t i = 0; i + 1 < 3; i++) /* added in the order of the backward pass: third, second, first */
        assert_true(sum->inputs[i].id < sum->inputs[i + 1].id);
    /* The weight's gradient is always made in its own block. */
    assert_string_equal(graph->blocks[graph->ops[graph->op_count - 1].block].name, "A");
    free(d.gradients);
    bg_graph_destroy(graph);
}

static void test_order_of_contributions(void **state)
{
    (void)state;
    check_order_of_contributions(NULL, "B");
    check_order_of_contributions("C", "A");
}

/* There are more contributions than one op accepts, and all of them are added. */
static void test_many_contributions(void **state)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    bg_value x = small_input(graph, "x"), sum;
    uint32_t added = 0;
    derived d;

    (void)state;
    x = sum = small_linear(graph, "fc", x, w);
    for (int i = 0; i < 100; i++)
        sum = bg_add(graph, sum, bg_scale(graph, NULL, x, 2, 0));
    d = derive(graph, small_loss(graph, "loss", sum), (bg_value){0});
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].type == &bgi_op_add_n)
            added += graph->ops[o].input_count - 1;
    assert_int_equal(added, 100);
    free(d.gradients);
    bg_graph_destroy(graph);
}

static void test_no_gradient_where_none_flows(void **state)
{
    bg_graph *graph = small_create();
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w"),
                   v = small_weight(graph, "behind_integers"), u = small_weight(graph, "unused");
    bg_value integers;
    derived d;

    (void)state;
    (void)u;
    integers = bg_cast(graph, NULL, small_linear(graph, "a", x, v), BG_INT32);
    d = derive(graph,
               small_loss(graph, "loss",
                          bg_add(graph, small_linear(graph, "b", x, w), bg_cast(graph, NULL, integers, BG_FLOAT32))),
               (bg_value){0});
    assert_int_equal(d.count, 1);
    assert_int_equal(d.gradients[0].parameter.id, w.id);
    free(d.gradients);
    bg_graph_destroy(graph);
}

/* The gradient of the loss with respect to itself is the given weight, or 1. */
static void test_the_weight_of_a_mean(void **state)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        bg_graph *graph = small_create();
        const bg_type type = bg_vector(BG_INT32, 2);
        const bg_value x = small_input(graph, "x"), labels = bg_graph_input(graph, "labels", &type);
        const bg_value loss = bg_cross_entropy(graph, "ce", small_linear(graph, "fc", x, small_weight(graph, "w")),
                                               labels, BG_LOSS_MEAN, -100);
        const bg_value weight = graph->ops[graph->op_count - 1].outputs[2];
        derived d = derive(graph, loss, weighted ? weight : (bg_value){0});
        const bgi_op *backward = NULL;
        for (size_t o = 0; o < graph->op_count; o++)
            if (graph->ops[o].type == &bgi_op_cross_entropy_backward)
                backward = &graph->ops[o];
        assert_non_null(backward);
        if (weighted)
            assert_int_equal(backward->inputs[0].id, weight.id);
        else
            assert_true(*(const float *)bgi_graph_value(graph, backward->inputs[0])->data == 1.0f);
        free(d.gradients);
        bg_graph_destroy(graph);
    }
    (void)state;
}

static bg_status fail_silently(bg_op_gradient *gradient, bg_error *error)
{
    (void)gradient;
    (void)error;
    return BG_ERROR_UNSUPPORTED;
}

/* An op without a rule is an error only when a gradient must flow through it. */
static void test_missing_rules(void **state)
{
    bg_op_type unknown = bgi_op_linear;

    (void)state;
    unknown.gradient = NULL;
    for (int c = 0; c < 3; c++) { /* with a parameter as weight; with a constant result; with a constant weight */
        bg_graph *graph = small_create();
        const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w"), v = small_weight(graph, "v");
        const bg_value inputs[] = {x, c == 2 ? bg_stop_gradient(graph, "fixed", v) : v};
        bg_value y = bg_graph_add(graph, &unknown, "mine", inputs, 2, NULL, NULL), loss;
        derived d = {0};
        bg_error error = {0};

        if (c == 1)
            y = bg_stop_gradient(graph, "constant", y);
        loss = small_loss(graph, "loss", bg_add(graph, small_linear(graph, "b", x, w), y));
        if (c == 0) {
            small_expect(
                bgi_differentiate(graph, loss, (bg_value){0}, 1.0, (bg_value){0}, &d.gradients, &d.count, &error),
                BG_ERROR_UNSUPPORTED, &error,
                "gradient of linear `mine`: its op type has no gradient rule, but the loss needs the gradient "
                "of input 1 (`v`); add a rule to the type, or pass that input through bg_stop_gradient");
        } else {
            d = derive(graph, loss, (bg_value){0});
            assert_int_equal(d.count, 1);
            assert_int_equal(d.gradients[0].parameter.id, w.id);
        }
        free(d.gradients);
        bg_graph_destroy(graph);
    }
}

static void test_errors(void **state)
{
    bg_graph *graph = small_create();
    bg_op_type broken = bgi_op_linear;
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    bg_value loss, y;
    derived d = {0};
    bg_error error = {0};

    (void)state;
    y = small_linear(graph, "y", x, w);
    small_expect(bgi_differentiate(graph, y, (bg_value){0}, 1.0, (bg_value){0}, &d.gradients, &d.count, &error),
                 BG_ERROR_SHAPE, &error, "the loss `y` is float32[2,3]; it must be a float scalar");
    bg_error_clear(&error);
    loss = small_loss(graph, "flat", x);
    small_expect(bgi_differentiate(graph, loss, (bg_value){0}, 1.0, (bg_value){0}, &d.gradients, &d.count, &error),
                 BG_ERROR_INVALID, &error, "the loss `flat` depends on no trainable parameter");
    bg_graph_destroy(graph);

    graph = small_create();
    broken.gradient = fail_silently;
    y = bg_graph_add(graph, &broken, "mine", (bg_value[]){small_input(graph, "x"), small_weight(graph, "w")}, 2, NULL,
                     NULL);
    loss = small_loss(graph, "loss", y);
    bg_error_clear(&error);
    small_expect(bgi_differentiate(graph, loss, (bg_value){0}, 1.0, (bg_value){0}, &d.gradients, &d.count, &error),
                 BG_ERROR_UNSUPPORTED, &error, "gradient of linear `mine`");
    assert_int_equal(bgi_differentiate(graph, loss, (bg_value){0}, 1.0, (bg_value){0}, &d.gradients, &d.count, NULL),
                     BG_ERROR_UNSUPPORTED);
    assert_null(d.gradients);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_tied_weights_are_kept_apart_by_block),
        cmocka_unit_test(test_order_of_contributions),
        cmocka_unit_test(test_many_contributions),
        cmocka_unit_test(test_no_gradient_where_none_flows),
        cmocka_unit_test(test_the_weight_of_a_mean),
        cmocka_unit_test(test_missing_rules),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests_name("transform/autodiff", tests, NULL, NULL);
}
