/*
 * test_conv_ranks.c: compares convolutions and transposed convolutions over one, two and three dimensions with PyTorch,
 * and checks errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "kernels/conv/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"

typedef struct conv_case {
    bool is_transposed;
    bg_conv_options options;
} conv_case;

static bg_value build_conv(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const conv_case *c = argument;

    return c->is_transposed ? bg_conv_transpose(graph, "conv", inputs[0], inputs[1], inputs[2], &c->options)
                            : bg_conv(graph, "conv", inputs[0], inputs[1], inputs[2], &c->options);
}

/* Returns the options of the oracle's cases. */
static conv_case make_case(bool is_transposed, bool is_plain, int64_t groups)
{
    conv_case c = {.is_transposed = is_transposed, .options = bg_conv_defaults()};

    c.options.groups = groups;
    if (!is_plain) {
        memcpy(c.options.stride, (int64_t[]){2, 1, 2}, sizeof c.options.stride);
        memcpy(c.options.padding, (int64_t[]){1, 2, 0}, sizeof c.options.padding);
        memcpy(c.options.dilation, (int64_t[]){1, 2, 1}, sizeof c.options.dilation);
        if (is_transposed)
            memcpy(c.options.output_padding, (int64_t[]){1, 0, 1}, sizeof c.options.output_padding);
    }
    return c;
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    for (int dims = 1; dims <= 3; dims++)
        for (int64_t groups = 1; groups <= 2; groups++)
            for (int kind = 0; kind < 4; kind++) {
                const conv_case c = make_case(kind >= 2, kind % 2 == 0, groups);
                char name[64];

                snprintf(name, sizeof name, "%s%d%s_%d", kind >= 2 ? "transpose" : "conv", dims,
                         kind % 2 == 0 ? "_plain" : "", (int)groups);
                bgi_test_build_case(*state, name, BG_FLOAT64, build_conv, &c, 1e-8, 1e-8);
                bgi_test_build_case(*state, name, BG_FLOAT32, build_conv, &c, 1e-4, 1e-5);
                bgi_test_build_case(*state, name, BG_BFLOAT16, build_conv, &c, 0.6, 0.05);
            }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type types[] = {bg_tensor4(BG_FLOAT64, 2, 4, 3, 4), bg_tensor4(BG_FLOAT64, 4, 3, 2, 3)};
    const bgi_conv_transpose2d_attributes attributes = {{{sizeof(bg_conv2d_options), {3, 2}, {1, 0}, {1, 2}, 2}},
                                                        {2, 1}};

    (void)state;
    bgi_test_gradient(&bgi_op_conv_transpose2d, &attributes, types, 2, -1, 1);
}

/* The last op that a function adds has the given name. */
static void test_names(void **state)
{
    bg_graph *graph = NULL;
    bg_value none = {0};

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    for (uint32_t dims = 1; dims <= 3; dims++) {
        const bg_type x_type = bg_type_make(BG_FLOAT32, 2 + dims, (int64_t[]){1, 2, 4, 4, 4});
        const bg_type w_type = bg_type_make(BG_FLOAT32, 2 + dims, (int64_t[]){2, 2, 3, 3, 3}),
                      bias = bg_vector(BG_FLOAT32, 2);
        char names[5][16];
        bg_value x, w, b;

        for (int i = 0; i < 5; i++)
            snprintf(names[i], sizeof names[i], "%c%u", "xwbct"[i], (unsigned)dims);
        x = bg_graph_input(graph, names[0], &x_type);
        w = bg_graph_input(graph, names[1], &w_type);
        b = bg_graph_input(graph, names[2], &bias);
        assert_string_equal(bg_graph_name(graph, bg_conv(graph, names[3], x, w, b, NULL)), names[3]);
        assert_string_equal(bg_graph_name(graph, bg_conv_transpose(graph, names[4], x, w, none, NULL)), names[4]);
        snprintf(names[4], sizeof names[4], "u%u", (unsigned)dims);
        assert_string_equal(bg_graph_name(graph, bg_conv_transpose(graph, names[4], x, w, b, NULL)), names[4]);
    }
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_type_make(BG_FLOAT32, 3, (int64_t[]){2, 4, 7}),
                  w = bg_type_make(BG_FLOAT32, 3, (int64_t[]){6, 4, 3});
    const bg_type deep = bg_type_make(BG_FLOAT32, 5, (int64_t[]){2, 4, 2, 7, 7});
    const bg_type deep_w = bg_type_make(BG_FLOAT32, 5, (int64_t[]){6, 4, 3, 3, 3}), bias = bg_vector(BG_FLOAT32, 5);
    conv_case c = {.options = bg_conv_defaults()};

    (void)state;
    bgi_test_build_fails(build_conv, &c, (bg_type[]){x, deep_w}, 2, BG_ERROR_SHAPE,
                         "conv `conv`: x is float32[2,4,7] and weight is float32[6,4,3,3,3]; both must be floats");
    bgi_test_build_fails(build_conv, &c, (bg_type[]){x, w, bias}, 3, BG_ERROR_SHAPE,
                         "bias is float32[5]; it must be float32[6]");
    bgi_test_build_fails(build_conv, &c, (bg_type[]){deep, deep_w}, 2, BG_ERROR_SHAPE,
                         "dimension 2 of the result would have 0 elements");
    c.options.stride[0] = 0;
    bgi_test_build_fails(build_conv, &c, (bg_type[]){x, w}, 2, BG_ERROR_INVALID,
                         "stride[0] is 0; it must be at least 1");
    c.options.stride[0] = 1;
    c.options.padding[0] = -1;
    bgi_test_build_fails(build_conv, &c, (bg_type[]){x, w}, 2, BG_ERROR_INVALID, "padding[0] is -1");
    c.options.padding[0] = 0;
    c.options.groups = 0;
    bgi_test_build_fails(build_conv, &c, (bg_type[]){x, w}, 2, BG_ERROR_INVALID, "with 0 groups");
    c.options.groups = 2;
    bgi_test_build_fails(build_conv, &c, (bg_type[]){x, w}, 2, BG_ERROR_SHAPE,
                         "dimension 1 of x must be dimension 1 of the weight times the groups");
    c.options.groups = 1;
    c.is_transposed = true;
    bgi_test_build_fails(build_conv, &c, (bg_type[]){x, w}, 2, BG_ERROR_SHAPE,
                         "dimension 1 of x must be dimension 0 of the weight");
    c.options.output_padding[0] = 1;
    bgi_test_build_fails(build_conv, &c, (bg_type[]){x, bg_type_make(BG_FLOAT32, 3, (int64_t[]){4, 6, 3})}, 2,
                         BG_ERROR_INVALID, "output_padding[0] is 1; it must be at least 0 and at most 0");
    c.options.output_padding[0] = 0;
    c.options.padding[0] = 5;
    bgi_test_build_fails(build_conv, &c, (bg_type[]){x, bg_type_make(BG_FLOAT32, 3, (int64_t[]){4, 6, 3})}, 2,
                         BG_ERROR_SHAPE, "dimension 2 of the result would have -1 elements");
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/spatial.txt");
    return 0;
}

static int close_oracle(void **state)
{
    bgi_test_oracle_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch_has_the_same_numbers),
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
