/*
 * test_fuse_accumulation.c: tests which gradients the ops that make them add to accumulators, and for which gradients
 * separate ops must do so.
 */
#include "kernels/linear/attributes.h"
#include "transform/small.h"

static uint32_t count_type(const bg_graph *graph, const bg_op_type *type)
{
    uint32_t count = 0;

    for (size_t o = 0; o < graph->op_count; o++)
        count += graph->ops[o].type == type;
    return count;
}

static void train_and_fuse(bg_graph **graph, bg_value loss)
{
    const bg_options options = {.execution.gradient_accumulation = 4,
                                .replicas.count = 1,
                                .numerics.cast_gradients = true,
                                .numerics.loss_scaling = 1.0};
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_error error = {0};

    small_require(*graph);
    small_expect(bgi_make_training(*graph, loss, &optimizer, &options, &error), BG_OK, &error, NULL);
    small_expect(bgi_fuse_accumulation(graph, &error), BG_OK, &error, NULL);
}

/* A linear layer whose weight and bias are used once adds both gradients to their accumulators. */
static void test_weight_and_bias(void **state)
{
    bg_graph *graph = small_create();
    const bg_type bias_type = bg_vector(BG_FLOAT32, 3);
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    const bg_value b = bg_graph_parameter(graph, "b", &bias_type, NULL);

    (void)state;
    train_and_fuse(&graph, small_loss(graph, "loss", bg_linear(graph, "fc", x, w, b)));
    small_expect_text(graph, "input %x float32[2,3]\n"
                             "variable %w float32[3,3]\n"
                             "variable %b float32[3]\n"
                             "constant %loss.seed float32[]\n"
                             "variable %w.accumulator. float32[3,3]\n"
                             "variable %b.accumulator. float32[3]\n"
                             "variable %optimizer.hyper float64[8]\n"
                             "constant %gradient.scale float32[]\n"
                             "%9 float32[2,3] = linear(%x, %w, %b)  # forward  `fc`\n"
                             "%10 float32[] = reduce(%9)  # forward  `loss`\n"
                             "%11 float32[] = scale(%loss.seed)  # backward  `scale_2`\n"
                             "%12 float32[1,1] = reshape(%11)  # backward  `reshape_3`\n"
                             "%13 float32[2,3] = broadcast(%12)  # backward  `broadcast_4`\n"
                             "linear_backward_weights_accumulate(%13, %x, %w.accumulator., %b.accumulator.)"
                             "  # backward  `linear_backward_weights_5`\n"
                             "sgd_update(%w, %w.accumulator., %optimizer.hyper, %gradient.scale)"
                             "  # update  `sgd_update_8`\n"
                             "sgd_update(%b, %b.accumulator., %optimizer.hyper, %gradient.scale)"
                             "  # update  `sgd_update_9`\n");
    bg_graph_destroy(graph);
}

/* If a block uses a parameter twice, a separate op accumulates the sum of the two gradients. */
static void test_twice_in_a_block(void **state)
{
    bg_graph *graph = small_create();
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");

    (void)state;
    train_and_fuse(&graph, small_loss(graph, "loss", small_linear(graph, "b", small_linear(graph, "a", x, w), w)));
    assert_int_equal(count_type(graph, &bgi_op_linear_backward_weights_accumulate), 0);
    assert_int_equal(count_type(graph, &bgi_op_linear_backward_weights), 2);
    assert_int_equal(count_type(graph, &bgi_op_accumulate), 1);
    bg_graph_destroy(graph);
}

/* A parameter that two blocks use has two accumulators, one for each block's gradient. */
static void test_once_in_each_block(void **state)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    bg_value x = small_input(graph, "x");

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    train_and_fuse(&graph, small_loss(graph, "loss", small_linear(graph, "b", x, w)));
    assert_int_equal(count_type(graph, &bgi_op_linear_backward_weights_accumulate), 2);
    assert_int_equal(count_type(graph, &bgi_op_accumulate), 0);
    assert_int_equal(graph->values[bg_graph_find_variable(graph, "w.accumulator.A").id].owner.id,
                     bg_graph_find_variable(graph, "w").id);
    bg_graph_destroy(graph);
}

/* If one result of an op is not a parameter's gradient (here the bias is computed), the op does not change. */
static void test_a_result_with_another_reader(void **state)
{
    bg_graph *graph = small_create();
    const bg_type bias_type = bg_vector(BG_FLOAT32, 3);
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    const bg_value b = bg_tanh(graph, bg_graph_parameter(graph, "b", &bias_type, NULL));

    (void)state;
    train_and_fuse(&graph, small_loss(graph, "loss", bg_linear(graph, "fc", x, w, b)));
    assert_int_equal(count_type(graph, &bgi_op_linear_backward_weights), 1);
    assert_int_equal(count_type(graph, &bgi_op_accumulate), 2);
    bg_graph_destroy(graph);
}

/* bfloat16 gradients are added to float32 accumulators by separate ops. */
static void test_bfloat16(void **state)
{
    bg_graph *graph = small_create();
    const bg_type type = bg_matrix(BG_BFLOAT16, 3, 3), x_type = bg_matrix(BG_BFLOAT16, 2, 3);
    const bg_value w = bg_graph_parameter(graph, "w", &type, NULL);
    const bg_value y = small_linear(graph, "fc", bg_graph_input(graph, "x", &x_type), w);

    (void)state;
    train_and_fuse(&graph, small_loss(graph, "loss", bg_cast(graph, NULL, y, BG_FLOAT32)));
    assert_int_equal(count_type(graph, &bgi_op_accumulate), 1);
    bg_graph_destroy(graph);
}

/* The shape rule requires one accumulator for each gradient, of its type. */
static void test_shape_rule(void **state)
{
    const bgi_linear_backward_attributes with_bias = {true};
    const bg_type dy_type = bg_matrix(BG_FLOAT32, 2, 3), wrong = bg_matrix(BG_FLOAT32, 3, 4);
    bg_error error = {0};

    (void)state;
    for (int one = 0; one < 2; one++) {
        bg_graph *graph = small_create();
        const bg_value dy = bg_graph_input(graph, "dy", &dy_type), x = bg_graph_input(graph, "x", &dy_type);
        const bg_value inputs[] = {dy, x, one ? small_weight(graph, "w") : bg_graph_parameter(graph, "w", &wrong, NULL),
                                   one ? (bg_value){0} : small_weight(graph, "b")};

        bg_graph_add(graph, &bgi_op_linear_backward_weights_accumulate, "op", inputs, 4, &with_bias, NULL);
        error = (bg_error){0};
        small_expect(bg_graph_check(graph, &error), BG_ERROR_SHAPE, &error,
                     one ? "the op has 1 accumulators and 2 gradients" : "accumulator 0");
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weight_and_bias),    cmocka_unit_test(test_twice_in_a_block),
        cmocka_unit_test(test_once_in_each_block), cmocka_unit_test(test_a_result_with_another_reader),
        cmocka_unit_test(test_bfloat16),           cmocka_unit_test(test_shape_rule),
    };

    return cmocka_run_group_tests_name("transform/fuse_accumulation", tests, NULL, NULL);
}
