/*
 * test_fuse_products.c: tests which products are fused with the ops after them, and which must not be.
 */
#include "kernels/linear/attributes.h"
#include "transform/small.h"

/* Fuses products in a whole training graph with one stage for each block or, for a null loss, in a forward graph. */
static void fuse(bg_graph *graph, bg_value loss)
{
    const bg_options options = {
        .execution.gradient_accumulation = 1, .replicas.count = 1, .numerics.loss_scaling = 1.0};
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_error error = {0};
    bgi_stages stages = {0};

    small_require(graph);
    if (!bg_value_is_null(loss))
        small_expect(bgi_make_training(graph, loss, &optimizer, &options, &error), BG_OK, &error, NULL);
    small_expect(bgi_assign_stages(graph, &options, false, &stages, &error), BG_OK, &error, NULL);
    small_expect(bgi_fuse_products(graph, &stages, &error), BG_OK, &error, NULL);
    bgi_stages_clear(&stages);
}

static bg_value add_bias(bg_graph *graph, const char *name)
{
    const bg_type type = bg_vector(BG_FLOAT32, 3);

    return bg_graph_parameter(graph, name, &type, NULL);
}

static uint32_t count_fused(const bg_graph *graph)
{
    uint32_t count = 0;

    for (size_t o = 0; o < graph->op_count; o++)
        count += graph->ops[o].type == &bgi_op_fused_product;
    return count;
}

/* Without gradients, no intermediate value remains. */
static void test_inference(void **state)
{
    bg_graph *graph = small_create();
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w"), b = add_bias(graph, "b");
    bg_value y;

    (void)state;
    y = bg_gelu(graph, bg_linear(graph, "fc", x, w, b));
    y = bg_gelu_tanh(graph, bg_add(graph, bg_matmul(graph, "product", y, w, false, false), b));
    bg_graph_output(graph, "y", bg_relu(graph, small_linear(graph, "last", y, w)));
    fuse(graph, (bg_value){0});
    small_expect_text(graph, "input %x float32[2,3]\n"
                             "variable %w float32[3,3]\n"
                             "variable %b float32[3]\n"
                             "%5 float32[2,3] = fused_product(%x, %w, %b)  # forward  `fc+unary_1`\n"
                             "%8 float32[2,3] = fused_product(%5, %w, %b)  # forward  `product+binary_3+unary_4`\n"
                             "%10 float32[2,3] = fused_product(%8, %w)  # forward  `last+unary_6`\n"
                             "output y = %10\n");
    bg_graph_destroy(graph);
}

/* Values that the backward pass reads remain. The product in the backward pass includes the derivative, before the
 * gradient of the weights.
 */
static void test_training(void **state)
{
    bg_graph *graph = small_create();
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w"), v = small_weight(graph, "v");
    const bg_value b = add_bias(graph, "b");
    bg_value y;

    (void)state;
    y = bg_gelu_tanh(graph, bg_add(graph, bg_matmul(graph, "up", x, w, false, false), b));
    fuse(graph, small_loss(graph, "loss", bg_matmul(graph, "down", y, v, false, false)));
    small_expect_text(graph, "input %x float32[2,3]\n"
                             "variable %w float32[3,3]\n"
                             "variable %v float32[3,3]\n"
                             "variable %b float32[3]\n"
                             "constant %loss.seed float32[]\n"
                             "variable %w.accumulator. float32[3,3]\n"
                             "variable %v.accumulator. float32[3,3]\n"
                             "variable %b.accumulator. float32[3]\n"
                             "variable %optimizer.hyper float64[8]\n"
                             "constant %gradient.scale float32[]\n"
                             "%7 float32[2,3], %6 float32[2,3] = fused_product(%x, %w, %b)"
                             "  # forward  `up+binary_1+unary_2`\n"
                             "%8 float32[2,3] = matmul(%7, %v)  # forward  `down`\n"
                             "%9 float32[] = reduce(%8)  # forward  `loss`\n"
                             "%11 float32[] = scale(%loss.seed)  # backward  `scale_5`\n"
                             "%12 float32[1,1] = reshape(%11)  # backward  `reshape_6`\n"
                             "%13 float32[2,3] = broadcast(%12)  # backward  `broadcast_7`\n"
                             "%16 float32[2,3] = fused_product(%13, %v, %6)  # backward  `matmul_8+unary_backward_10`\n"
                             "%15 float32[3,3] = matmul(%7, %13)  # backward  `matmul_9`\n"
                             "%17 float32[3] = reduce(%16)  # backward  `reduce_11`\n"
                             "%18 float32[3,3] = matmul(%x, %16)  # backward  `matmul_12`\n"
                             "accumulate(%w.accumulator., %18)  # backward  `accumulate_13`\n"
                             "accumulate(%v.accumulator., %15)  # backward  `accumulate_14`\n"
                             "accumulate(%b.accumulator., %17)  # backward  `accumulate_15`\n"
                             "sgd_update(%w, %w.accumulator., %optimizer.hyper, %gradient.scale)"
                             "  # update  `sgd_update_16`\n"
                             "sgd_update(%v, %v.accumulator., %optimizer.hyper, %gradient.scale)"
                             "  # update  `sgd_update_17`\n"
                             "sgd_update(%b, %b.accumulator., %optimizer.hyper, %gradient.scale)"
                             "  # update  `sgd_update_18`\n");
    bg_graph_destroy(graph);
}

typedef bg_value (*builder)(bg_graph *graph, bg_value x, bg_value w, bg_value b);

static bg_value read_twice(bg_graph *graph, bg_value x, bg_value w, bg_value b)
{
    const bg_value sum = bg_linear(graph, "fc", x, w, b);

    return bg_add(graph, bg_gelu(graph, sum), sum); /* no op reads the activation, so it is not stored */
}

static bg_value read_outside(bg_graph *graph, bg_value x, bg_value w, bg_value b)
{
    const bg_value product = bg_matmul(graph, "product", x, w, false, false);

    bg_graph_output(graph, "product", product);
    return bg_add(graph, product, b);
}

static bg_value cross_blocks(bg_graph *graph, bg_value x, bg_value w, bg_value b)
{
    x = bg_linear(graph, "fc", x, w, b);
    bg_block_start(graph, "next", BG_DEVICE_NONE);
    return bg_relu(graph, x);
}

static bg_value add_matrix(bg_graph *graph, bg_value x, bg_value w, bg_value b)
{
    return bg_add(graph, bg_matmul(graph, "product", x, w, false, false), bg_add(graph, x, b));
}

static bg_value add_the_other_way(bg_graph *graph, bg_value x, bg_value w, bg_value b)
{
    return bg_add(graph, b, bg_matmul(graph, "product", x, w, false, false)); /* the bits of NaNs would differ */
}

static bg_value add_what_is_late(bg_graph *graph, bg_value x, bg_value w, bg_value b)
{
    x = bg_matmul(graph, "product", x, w, false, false);
    return bg_add(graph, x, bg_scale(graph, NULL, b, 2.0, 0.0));
}

static bg_value add_after_a_view(bg_graph *graph, bg_value x, bg_value w, bg_value b)
{
    x = bg_matmul(graph, "product", x, w, false, false);
    return bg_add(graph, bg_reshape(graph, NULL, x, 2, (int64_t[]){1, 6}),
                  bg_reduce(graph, NULL, BG_REDUCE_SUM, b, NULL, 0, false));
}

static bg_value take_elu(bg_graph *graph, bg_value x, bg_value w, bg_value b)
{
    return bg_elementwise_unary(graph, NULL, BG_ELU, bg_linear(graph, "fc", x, w, b));
}

static void test_what_stays_apart(void **state)
{
    static const builder builders[] = {read_twice,        read_outside,     cross_blocks,     add_matrix,
                                       add_the_other_way, add_what_is_late, add_after_a_view, take_elu};

    (void)state;
    for (size_t i = 0; i < sizeof builders / sizeof builders[0]; i++) {
        bg_graph *graph = small_create();
        const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
        size_t ops;

        bg_graph_output(graph, "y", builders[i](graph, x, w, add_bias(graph, "b")));
        ops = graph->op_count;
        fuse(graph, (bg_value){0});
        if (count_fused(graph) != 0 || graph->op_count != ops)
            fail_msg("case %zu: %u fused, %zu of %zu ops left", i, count_fused(graph), graph->op_count, ops);
        bg_graph_destroy(graph);
    }
}

/* A linear layer's bias is part of its product. A second bias is a separate op, and so is a second function.
 */
static void test_one_follower(void **state)
{
    bg_graph *graph = small_create();
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w"), b = add_bias(graph, "b");
    bg_value y = bg_linear(graph, "fc", x, w, b);

    (void)state;
    y = bg_relu(graph, bg_add(graph, y, b));
    y = bg_tanh(graph, bg_sigmoid(graph, bg_linear(graph, "next", y, w, b)));
    bg_graph_output(graph, "y", y);
    fuse(graph, (bg_value){0});
    assert_int_equal(count_fused(graph), 1);
    assert_int_equal(graph->op_count, 5);
    bg_graph_destroy(graph);
}

/* The shape rule detects wrong operands and attributes. */
static void test_shape_rule(void **state)
{
    static const struct {
        bgi_fused_product_attributes attributes;
        uint32_t inputs;
        bg_status status;
        const char *part;
    } cases[] = {
        {{.product = 9}, 2, BG_ERROR_INVALID, "product is 9"},
        {{.function = 200}, 2, BG_ERROR_INVALID, "function 200"},
        {{.keeps_sum = 1}, 2, BG_ERROR_INVALID, "keeps_sum is set"},
        {{.follows = BGI_FOLLOWS_DERIVATIVE}, 2, BG_ERROR_INVALID, "2 inputs"},
        {{.follows = BGI_FOLLOWS_DERIVATIVE}, 3, BG_ERROR_SHAPE, "the value that the function's forward stored"},
        {{.product = BGI_PRODUCT_MATMUL}, 3, BG_ERROR_SHAPE, "the bias"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = small_create();
        const bg_value w = small_weight(graph, "w"), inputs[] = {small_input(graph, "x"), w, w};
        bg_error error = {0};

        bg_graph_add(graph, &bgi_op_fused_product, "op", inputs, cases[i].inputs, &cases[i].attributes, NULL);
        small_expect(bg_graph_check(graph, &error), cases[i].status, &error, cases[i].part);
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inference),    cmocka_unit_test(test_training),   cmocka_unit_test(test_what_stays_apart),
        cmocka_unit_test(test_one_follower), cmocka_unit_test(test_shape_rule),
    };

    return cmocka_run_group_tests_name("transform/fuse_products", tests, NULL, NULL);
}
