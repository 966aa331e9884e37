/*
 * test_fuse_convolutions.c: tests which chains of ops become one op in inference, and which must not.
 *
 */
#include <stdio.h>

#include <brigade/nn.h>

#include "kernels/fused_conv/attributes.h"
#include "transform/small.h"

typedef struct chain {
    bool without_norm, without_relu, with_bias;
    bool adds;          /* the input itself is added */
    bool two;           /* another convolution of the input, with batch norm, is added */
    bool other_block;   /* batch norm is in another block, of the same stage */
    bool other_stage;   /* batch norm is in another block, of another stage */
    bool second_reader; /* another op reads the convolution */
    bool marks_norm;    /* batch norm's result is an output of the graph */
    bool broadcasts;    /* the addend is one vector */
    bg_dtype dtype;     /* 0: float32 */
} chain;

static bg_value convolve(bg_graph *graph, const chain *how, const char *name, bg_value x)
{
    bg_conv2d_options options = bg_conv2d_defaults();

    options.padding[0] = options.padding[1] = 1;
    return bg_conv2d_layer(graph, name, x, 4, 3, 3, how->with_bias, &options);
}

static bg_graph *build(const chain *how)
{
    bg_graph *graph = small_create();
    const bg_type x_type = bg_tensor4(how->dtype ? how->dtype : BG_FLOAT32, 2, 4, 5, 5);
    const bg_type row = bg_vector(x_type.dtype, 5);
    const bg_value x = bg_graph_input(graph, "x", &x_type);
    bg_value y, convolved;

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    y = convolved = convolve(graph, how, "conv", x);
    if (how->other_block || how->other_stage)
        bg_block_start(graph, "B", BG_DEVICE_NONE);
    if (!how->without_norm)
        y = bg_batch_norm_layer(graph, "norm", y, 0.1, 1e-5);
    if (how->marks_norm)
        bg_graph_output(graph, "normed", y);
    if (how->adds)
        y = bg_add(graph, y, x);
    if (how->two)
        y = bg_add(graph, bg_batch_norm_layer(graph, "norm2", convolve(graph, how, "conv2", x), 0.1, 1e-5), y);
    if (how->broadcasts)
        y = bg_add(graph, y, bg_graph_input(graph, "row", &row));
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

/* Fuses the graph, with all blocks in one stage or, if `parts` is true, A in the first stage and B in the second. */
static bg_graph *fuse(const bg_graph *graph, bool parts)
{
    uint32_t block_stages[] = {0, 0, parts};
    const bgi_stages stages = {.stage_count = parts ? 2 : 1, .block_stages = block_stages};
    bg_graph *fused = NULL;

    assert_true(graph->block_count <= sizeof block_stages / sizeof *block_stages);
    assert_int_equal(bgi_fuse_convolutions(graph, &stages, &fused, NULL), BG_OK);
    return fused;
}

static void test_which_chains(void **state)
{
    static const struct {
        chain how;
        uint32_t fused, ops; /* number of fused convolutions in the new graph */
        const char *steps;   /* the steps of the last fused convolution: bias, norm, add, map */
    } cases[] = {
        {{0}, 1, 1, "-n-m"},
        {{.with_bias = true}, 1, 1, "bn-m"},
        {{.without_norm = true}, 1, 1, "---m"},
        {{.without_norm = true, .without_relu = true}, 0, 1, ""},
        {{.without_relu = true}, 1, 1, "-n--"},
        {{.adds = true}, 1, 1, "-nam"},
        {{.adds = true, .without_norm = true, .without_relu = true}, 1, 1, "--a-"},
        {{.two = true}, 2, 2, "-nam"},
        {{.two = true, .adds = true}, 2, 2, "-nam"},
        {{.marks_norm = true}, 1, 2, "-n--"},
        {{.other_block = true}, 1, 1, "-n-m"},
        {{.other_stage = true}, 0, 3, ""},
        {{.second_reader = true}, 0, 4, ""},
        {{.broadcasts = true}, 1, 3, "-n--"},
        {{.dtype = BG_BFLOAT16}, 0, 6, ""}, /* with casts */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = build(&cases[i].how), *fused = NULL;
        char steps[5] = "";

        fused = fuse(graph, cases[i].how.other_stage);
        assert_int_equal(count_type(fused, &bgi_op_fused_conv2d), cases[i].fused);
        assert_int_equal(fused->op_count, cases[i].ops);
        for (size_t o = 0; o < fused->op_count; o++) {
            const bgi_fused_conv2d_attributes *a = fused->ops[o].attributes;

            if (fused->ops[o].type == &bgi_op_fused_conv2d)
                snprintf(steps, sizeof steps, "%c%c%c%c", a->has_bias ? 'b' : '-', a->norms ? 'n' : '-',
                         a->adds ? 'a' : '-', a->maps ? 'm' : '-');
        }
        assert_string_equal(steps, cases[i].steps);
        bg_graph_destroy(graph);
        bg_graph_destroy(fused);
    }
}

static void test_text(void **state)
{
    bg_graph *graph = build(&(chain){.without_norm = true, .adds = true}), *fused = NULL;

    (void)state;
    fused = fuse(graph, false);
    small_expect_text(fused, "input %x float32[2,4,5,5]\n"
                             "variable %conv.weight float32[4,4,3,3]\n"
                             "%3 float32[2,4,5,5] = fused_conv2d(%x, %conv.weight, %x)  # forward A `conv`\n"
                             "output y = %3\n");
    bg_graph_destroy(graph);
    bg_graph_destroy(fused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_which_chains), cmocka_unit_test(test_text)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
