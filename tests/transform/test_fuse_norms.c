/*
 * test_fuse_norms.c: tests which chains of ops in a training graph become one op, which must not, and the gradients of
 * fused norms.
 */
#include <stdio.h>

#include <brigade/nn.h>

#include "kernels/norm/attributes.h"
#include "transform/small.h"

typedef struct chain {
    bool without_function, with_add, with_two; /* with_two: the addend is another norm's result */
    bg_unary function;                         /* 0: relu */
    bool other_block;                          /* the function is in another block */
    bool reads_twice;                          /* another op reads x */
    bool reads_norm;                           /* another op reads the norm's result */
    bool marks_norm;                           /* the norm's result is an output of the graph */
    bool marks_statistics;                     /* another op reads the mean */
    bool checkpoints;                          /* the norm's result is a checkpoint */
    bool broadcasts;                           /* the addend is one vector */
    bool subtracts;
    bool shares_gamma; /* another op reads gamma */
} chain;

static bg_graph *build(const chain *how)
{
    bg_graph *graph = small_create();
    const bg_type type = bg_tensor4(BG_FLOAT32, 2, 4, 3, 3), row = bg_vector(BG_FLOAT32, 3);
    const bg_type vector = bg_vector(BG_FLOAT32, 4);
    const bg_initializer one = {BG_INITIALIZE_CONSTANT, 1.0, 0.0};
    const bgi_norm_attributes attributes = {.epsilon = 1e-5, .momentum = 0.1};
    const bg_value x = bg_graph_input(graph, "x", &type), other = bg_graph_input(graph, "other", &type);
    bg_value inputs[5] = {x}, outputs[3], y;

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    for (int i = 1; i < 5; i++)
        inputs[i] = bg_graph_variable(graph, (const char *[]){"gamma", "beta", "mean", "variance"}[i - 1], &vector,
                                      i < 3 ? BG_ROLE_PARAMETER : BG_ROLE_BUFFER, &one);
    bg_graph_add(graph, &bgi_op_batch_norm, "norm", inputs, 5, &attributes, outputs);
    y = outputs[0];
    if (how->marks_norm)
        bg_graph_output(graph, "normed", y);
    if (how->reads_norm)
        bg_graph_output(graph, "again", bg_tanh(graph, y));
    if (how->reads_twice)
        bg_graph_output(graph, "again", bg_tanh(graph, x));
    if (how->marks_statistics)
        bg_graph_output(graph, "again", bg_tanh(graph, outputs[1]));
    if (how->shares_gamma)
        bg_graph_output(graph, "again", bg_tanh(graph, inputs[1]));
    if (how->checkpoints)
        bg_graph_checkpoint(graph, y);
    if (how->with_add)
        y = bg_add(graph, other, y);
    if (how->with_two)
        y = bg_add(graph, bg_batch_norm_layer(graph, "norm2", other, 0.1, 1e-5), y);
    if (how->broadcasts)
        y = bg_add(graph, y, bg_graph_input(graph, "row", &row));
    if (how->subtracts)
        y = bg_elementwise_binary(graph, NULL, BG_SUBTRACT, y, other);
    if (how->other_block)
        bg_block_start(graph, "B", BG_DEVICE_NONE);
    if (!how->without_function)
        y = bg_elementwise_unary(graph, NULL, how->function, y);
    bg_graph_output(graph, "y", y);
    small_require(graph);
    return graph;
}

static void test_which_chains(void **state)
{
    static const struct {
        chain how;
        uint32_t ops;
        const char *steps; /* the steps of the fused norm: add, map; empty: none is fused */
    } cases[] = {
        {{0}, 1, "-m"},
        {{.function = BG_SILU}, 1, "-m"},
        {{.function = BG_HARD_SWISH}, 1, "-m"},
        {{.function = BG_ASIN}, 2, ""},
        {{.without_function = true}, 1, ""},
        {{.with_add = true}, 1, "am"},
        {{.with_add = true, .function = BG_TANH}, 1, "am"},
        {{.with_add = true, .function = BG_SILU}, 2, "a-"},
        {{.with_add = true, .without_function = true}, 1, "a-"},
        {{.with_two = true}, 2, "am"},
        {{.other_block = true}, 2, ""},
        {{.with_add = true, .other_block = true}, 2, "a-"},
        {{.reads_twice = true}, 2, "-m"},
        {{.reads_twice = true, .with_add = true}, 4, ""},
        {{.shares_gamma = true}, 2, "-m"},
        {{.shares_gamma = true, .with_add = true}, 4, ""},
        {{.reads_norm = true}, 3, ""},
        {{.marks_norm = true}, 2, ""},
        {{.marks_statistics = true}, 3, ""},
        {{.checkpoints = true}, 2, ""},
        {{.broadcasts = true}, 3, ""},
        {{.subtracts = true}, 3, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = build(&cases[i].how);
        bg_value loss = graph->outputs[graph->output_count - 1].value;
        char steps[3] = "";

        assert_int_equal(bgi_fuse_norms(&graph, &loss, NULL), BG_OK);
        assert_int_equal(loss.id, graph->outputs[graph->output_count - 1].value.id);
        for (size_t o = 0; o < graph->op_count; o++) {
            const bgi_fused_norm_attributes *a = graph->ops[o].attributes;

            if (graph->ops[o].type == &bgi_op_fused_batch_norm)
                snprintf(steps, sizeof steps, "%c%c", a->adds ? 'a' : '-', a->maps ? 'm' : '-');
        }
        if (graph->op_count != cases[i].ops || strcmp(steps, cases[i].steps) != 0)
            fail_msg("case %zu: %zu ops, `%s`; expected %u, `%s`", i, graph->op_count, steps, cases[i].ops,
                     cases[i].steps);
        bg_graph_destroy(graph);
    }
}

/* The fused op has the norm's name. It replaces the norm, the sum and the function, and returns mean and rstd in one
 * tensor. */
static void test_text(void **state)
{
    bg_graph *graph = build(&(chain){.with_add = true});
    bg_value loss = graph->outputs[0].value;

    (void)state;
    assert_int_equal(bgi_fuse_norms(&graph, &loss, NULL), BG_OK);
    small_expect_text(graph, "input %x float32[2,4,3,3]\n"
                             "input %other float32[2,4,3,3]\n"
                             "variable %gamma float32[4]\n"
                             "variable %beta float32[4]\n"
                             "variable %mean float32[4]\n"
                             "variable %variance float32[4]\n"
                             "%7 float32[2,4,3,3], %8 float64[4,2] = fused_batch_norm(%x, %gamma, %beta, %mean, "
                             "%variance, %other)  # forward A `norm`\n"
                             "output y = %7\n");
    bg_graph_destroy(graph);
}

/* Gradients agree with central differences in float64. */
static void test_gradients(void **state)
{
    static const bg_unary functions[] = {BG_RELU, BG_SIGMOID, BG_SILU, BG_HARD_SWISH};

    (void)state;
    for (int adds = 0; adds < 2; adds++)
        for (int f = -1; f < (adds ? 2 : 4); f++) {
            const bg_type type = bg_tensor4(BG_FLOAT64, 3, 2, 2, 2), vector = bg_vector(BG_FLOAT64, 2);
            const bg_type types[] = {type, vector, vector, vector, vector, type};
            const bgi_fused_norm_attributes attributes = {.norm = {.epsilon = 1e-5, .momentum = 0.1},
                                                          .unary = {.function = f < 0 ? BG_RELU : functions[f]},
                                                          .adds = (uint8_t)adds,
                                                          .maps = f >= 0};
            bg_error error = {0};

            if (bg_gradient_check(&bgi_op_fused_batch_norm, &attributes, types, NULL, adds ? 6 : 5, NULL, &error) !=
                BG_OK)
                fail_msg("adds %d, function %d: %s", adds, f, error.message);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_which_chains), cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_gradients)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
