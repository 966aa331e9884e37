/*
 * test_convnet.c: the digit network has the names, shapes, blocks and outputs of PopTorch's MNIST tutorial.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <brigade/convnet.h>

#include "graph/graph.h"
#include "kernels/elementwise/attributes.h"

typedef struct expected_parameter {
    const char *name;
    int64_t count;
} expected_parameter;

/* state_dict() of the tutorial's network */
static const expected_parameter expected[] = {
    {"layer1.conv.weight", 250}, {"layer1.conv.bias", 10}, {"layer2.conv.weight", 5000}, {"layer2.conv.bias", 20},
    {"layer3.weight", 81920},    {"layer3.bias", 256},     {"layer4.weight", 2560},      {"layer4.bias", 10},
};

static bg_graph *build(const bg_convnet_options *options, bg_convnet *out)
{
    bg_graph *graph = NULL;
    bg_error error = {0};

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    *out = bg_convnet_build(graph, options);
    if (bg_graph_check(graph, &error) != BG_OK)
        fail_msg("%s", error.message);
    return graph;
}

static void assert_type(const bg_graph *graph, bg_value value, bg_type expected_type)
{
    bg_type type = bg_graph_type(graph, value);

    assert_true(bg_type_equal(&type, &expected_type));
}

static void test_parameters(void **state)
{
    bg_convnet net;
    bg_graph *graph = build(NULL, &net);
    int64_t sum = 0;
    uint32_t variables = 0;
    (void)state;

    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        bg_value value = bg_graph_find_variable(graph, expected[i].name);
        bg_type type = bg_graph_type(graph, value);
        assert_false(bg_value_is_null(value));
        assert_int_equal(type.dtype, BG_FLOAT32);
        assert_int_equal(bg_type_element_count(&type), expected[i].count);
        sum += bg_type_element_count(&type);
    }
    for (size_t i = 1; i < graph->value_count; i++)
        variables += graph->values[i].kind == BGI_VALUE_VARIABLE;
    assert_int_equal(variables, 8);
    assert_int_equal(sum, 90026);
    bg_graph_destroy(graph);
}

static void test_types(void **state)
{
    bg_convnet_options options = bg_convnet_defaults();
    bg_convnet net;
    bg_graph *graph;
    (void)state;

    options.micro_batch = 7;
    options.dtype = BG_BFLOAT16;
    options.label_dtype = BG_INT32;
    graph = build(&options, &net);
    assert_type(graph, net.images, bg_tensor4(BG_UINT8, 7, 1, 28, 28));
    assert_type(graph, net.labels, bg_vector(BG_INT32, 7));
    assert_type(graph, net.logits, bg_matrix(BG_BFLOAT16, 7, 10));
    assert_type(graph, net.loss, bg_scalar(BG_FLOAT32));
    assert_type(graph, net.correct, bg_scalar(BG_INT32));
    bg_graph_destroy(graph);
}

/* Blocks are in the order of their first ops, and every op is in a block. */
static void test_blocks(void **state)
{
    static const char *const names[] = {"B1", "B2", "B3", "B4"};
    bg_convnet net;
    bg_graph *graph = build(NULL, &net);
    uint32_t seen = 0;
    const char *last = "";
    (void)state;

    for (size_t i = 0; i < graph->op_count; i++) {
        const char *name;
        if (graph->ops[i].type == NULL)
            continue;
        assert_int_not_equal(graph->ops[i].block, BGI_BLOCK_NONE);
        name = graph->blocks[graph->ops[i].block].name;
        if (strcmp(name, last) != 0) {
            assert_true(seen < 4);
            assert_string_equal(name, names[seen++]);
            last = name;
        }
    }
    assert_int_equal(seen, 4);
    bg_graph_destroy(graph);
}

/* In a block of convolutions, pooling precedes the ReLU. */
static void test_order_in_conv_blocks(void **state)
{
    bg_convnet net;
    bg_graph *graph = build(NULL, &net);
    bool has_pooled = false;
    (void)state;

    for (size_t i = 0; i < graph->op_count; i++) {
        const bgi_op *op = &graph->ops[i];
        const bgi_op *before;
        if (op->type == NULL || strcmp(op->type->name, "max_pool2d") != 0)
            continue;
        before = &graph->ops[bgi_graph_value(graph, op->inputs[0])->op];
        assert_string_equal(before->type->name, "conv2d");
        has_pooled = true;
    }
    assert_true(has_pooled);
    bg_graph_destroy(graph);
}

/* Images are normalized as by torchvision's transforms: (x / 255 - 0.1307) / 0.3081. */
static void test_normalization(void **state)
{
    bg_convnet net;
    bg_graph *graph = build(NULL, &net);
    uint32_t count = 0;
    (void)state;

    for (size_t i = 0; i < graph->op_count; i++) {
        const bgi_standardize_attributes *attributes = graph->ops[i].attributes;
        if (graph->ops[i].type == NULL || strcmp(graph->ops[i].type->name, "standardize") != 0)
            continue;
        assert_true(attributes->divisor == 255.0f && attributes->mean == 0.1307f && attributes->deviation == 0.3081f);
        count++;
    }
    assert_int_equal(count, 1);
    bg_graph_destroy(graph);
}

static void test_outputs(void **state)
{
    bg_convnet_options options = bg_convnet_defaults();
    bg_convnet net;
    bg_graph *graph = build(&options, &net);
    (void)state;

    assert_int_equal(graph->output_count, 3);
    bg_graph_destroy(graph);

    options.outputs = BG_CONVNET_LOGITS;
    graph = build(&options, &net);
    assert_int_equal(graph->output_count, 1);
    assert_string_equal(graph->outputs[0].name, "logits");
    assert_true(bg_value_is_null(net.labels));
    assert_true(bg_value_is_null(net.loss));
    bg_graph_destroy(graph);
}

static void test_refuses_bad_options(void **state)
{
    const bg_convnet_options defaults = bg_convnet_defaults();
    (void)state;

    for (int i = 0; i < 4; i++) {
        bg_convnet_options options = defaults;
        bg_graph *graph = NULL;
        if (i == 0)
            options.micro_batch = 0;
        else if (i == 1)
            options.dtype = BG_INT32;
        else if (i == 2)
            options.label_dtype = BG_FLOAT32;
        else
            options.outputs = 8;
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        bg_convnet_build(graph, &options);
        assert_int_equal(bg_graph_check(graph, NULL), BG_ERROR_INVALID);
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_order_in_conv_blocks),
        cmocka_unit_test(test_normalization),
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
