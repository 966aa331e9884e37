/*
 * test_fusion.c: tests which chains of convolution, pool and relu become one op, and which must not.
 */
#include "kernels/conv_pool/attributes.h"
#include "transform/small.h"

typedef struct chain {
    bool other_block;   /* the pool is in another block */
    bool second_reader; /* another op reads the convolution */
    bool is_output;     /* the pool's result is an output of the graph */
    bool overlapping;   /* windows overlap */
    bool strided;       /* the convolution has stride 2 */
    bool without_bias;
    bool without_relu;
    bool ceil_mode;
} chain;

static bg_graph *build(const chain *how)
{
    bg_graph *graph = small_create();
    const bg_type x_type = bg_tensor4(BG_FLOAT32, 2, 1, 9, 9), w_type = bg_tensor4(BG_FLOAT32, 4, 1, 2, 2),
                  b_type = bg_vector(BG_FLOAT32, 4);
    const bg_value x = bg_graph_input(graph, "x", &x_type), w = bg_graph_parameter(graph, "w", &w_type, NULL);
    const bg_value b = how->without_bias ? (bg_value){0} : bg_graph_parameter(graph, "b", &b_type, NULL);
    bg_conv2d_options conv = bg_conv2d_defaults();
    bg_pool2d_options pool = bg_pool2d_defaults(2);
    bg_value y, convolved;

    if (how->overlapping)
        pool.stride[0] = pool.stride[1] = 1;
    if (how->strided)
        conv.stride[0] = 2;
    pool.ceil_mode = how->ceil_mode;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    y = convolved = bg_conv2d(graph, "conv", x, w, b, &conv);
    if (how->other_block)
        bg_block_start(graph, "B", BG_DEVICE_NONE);
    y = bg_max_pool2d(graph, "pool", y, &pool);
    if (how->is_output)
        bg_graph_output(graph, "pooled", y);
    if (!how->without_relu)
        y = bg_relu(graph, y);
    bg_graph_output(graph, "y", y);
    if (how->second_reader)
        bg_graph_output(graph, "again", bg_relu(graph, convolved));
    small_require(graph);
    return graph;
}

static uint32_t count_type(const bg_graph *graph, const bg_op_type *type)
{
    uint32_t count = 0;

    for (size_t o = 0; o < graph->op_count; o++)
        count += graph->ops[o].type == type;
    return count;
}

static void test_which_chains(void **state)
{
    static const struct {
        chain how;
        bool fuses, with_relu;
    } cases[] = {
        {{0}, true, true},
        {{.without_relu = true}, true, false},
        {{.is_output = true}, true, false}, /* convolution and pool are fused, relu is separate */
        {{.other_block = true}, false, false},
        {{.second_reader = true}, false, false},
        {{.overlapping = true}, false, false},
        {{.strided = true}, false, false},
        {{.without_bias = true}, false, false},
        {{.ceil_mode = true}, false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = build(&cases[i].how), *fused = NULL;
        bg_value loss = {0};
        assert_int_equal(bgi_fuse(graph, NULL, &loss, &fused, NULL), BG_OK);
        assert_int_equal(count_type(fused, &bgi_op_conv2d_pool), cases[i].fuses);
        assert_int_equal(count_type(fused, &bgi_op_conv2d), !cases[i].fuses);
        if (cases[i].fuses)
            for (size_t o = 0; o < fused->op_count; o++)
                if (fused->ops[o].type == &bgi_op_conv2d_pool)
                    assert_int_equal(((const bgi_conv2d_pool_attributes *)fused->ops[o].attributes)->relu,
                                     cases[i].with_relu);
        bg_graph_destroy(graph);
        bg_graph_destroy(fused);
    }
}

static void test_text(void **state)
{
    bg_graph *graph = build(&(chain){0}), *fused = NULL;
    bg_value loss = {0};

    (void)state;
    assert_int_equal(bgi_fuse(graph, NULL, &loss, &fused, NULL), BG_OK);
    small_expect_text(fused, "input %x float32[2,1,9,9]\n"
                             "variable %w float32[4,1,2,2]\n"
                             "variable %b float32[4]\n"
                             "%4 float32[2,4,4,4], %5 uint8[2,4,4,4] = conv2d_pool(%x, %w, %b)  # forward A `conv`\n"
                             "output y = %4\n");
    bg_graph_destroy(graph);
    bg_graph_destroy(fused);
}

/* The loss is a reader too, and exists in the new graph; inputs without a reader remain. */
static void test_the_loss_is_mapped(void **state)
{
    bg_graph *graph = small_create(), *fused = NULL;
    const bg_value unread = small_input(graph, "unread"), x = small_input(graph, "x");
    bg_value loss = small_loss(graph, "loss", small_linear(graph, "fc", x, small_weight(graph, "w")));

    (void)state;
    (void)unread;
    assert_int_equal(bgi_fuse(graph, NULL, &loss, &fused, NULL), BG_OK);
    assert_string_equal(bg_graph_name(fused, loss), "loss");
    assert_string_equal(bg_graph_name(fused, (bg_value){1}), "unread");
    bg_graph_destroy(graph);
    bg_graph_destroy(fused);
}

/* A mark inside a chain moves to the chain's result and is printed; clones and rebuilt graphs have it too. */
static void test_marks_move_to_the_result(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        static const char *const names[] = {"conv", "pool", "relu"};
        const chain how = {0};
        bg_graph *graph = build(&how), *fused = NULL, *clone = NULL;
        bg_value none = {0};
        char *text = NULL;
        for (uint32_t v = 1; v < graph->value_count; v++)
            if (strncmp(graph->values[v].name, names[which], 4) == 0 ||
                (which == 2 && graph->values[v].kind == BGI_VALUE_RESULT && v + 1 == graph->value_count))
                bg_graph_checkpoint(graph, (bg_value){v});
        assert_int_equal(bgi_fuse(graph, NULL, &none, &fused, NULL), BG_OK);
        assert_int_equal(fused->op_count, 1);
        assert_true(fused->values[fused->ops[0].outputs[0].id].is_checkpoint);
        assert_int_equal(bgi_graph_clone(fused, &clone, NULL), BG_OK);
        assert_int_equal(bg_graph_print(clone, &text, NULL), BG_OK);
        assert_non_null(strstr(text, "` checkpoint %4\n"));
        free(text);
        bg_graph_destroy(clone);
        bg_graph_destroy(fused);
        bg_graph_destroy(graph);
    }
}

static void test_marks_of_nothing(void **state)
{
    bg_graph *graph = small_create();

    (void)state;
    bg_graph_checkpoint(graph, (bg_value){77});
    assert_int_equal(bg_graph_check(graph, NULL), BG_ERROR_INVALID);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_chains),       cmocka_unit_test(test_text),
        cmocka_unit_test(test_the_loss_is_mapped), cmocka_unit_test(test_marks_move_to_the_result),
        cmocka_unit_test(test_marks_of_nothing),
    };

    return cmocka_run_group_tests_name("transform/fusion", tests, NULL, NULL);
}
