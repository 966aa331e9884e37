/*
 * test_rotary.c: compares rotary positions with PyTorch, and checks errors and that a rotation followed by its inverse
 * is the identity.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/rotary/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"

typedef struct rotary_case {
    const char *name;
    int64_t heads, features;
    bool interleaved;
    double base, scaling;
    bg_rotary_scaling kind;
    int64_t trained_length, length;
    double fast, slow, low, high; /* 0: the default */
    double magnitude;
    bg_type positions_type; /* rank 0: no positions */
    int32_t positions[6];
} rotary_case;

static bg_value build(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const rotary_case *test = argument;
    bg_rotary_options options = bg_rotary_defaults(test->heads);
    bg_value positions = {0};

    options.features = test->features;
    options.interleaved = test->interleaved;
    if (test->base != 0.0)
        options.base = test->base;
    if (test->scaling != 0.0)
        options.scaling = test->scaling;
    options.kind = test->kind;
    options.trained_length = test->trained_length;
    options.length = test->length;
    options.beta_fast = test->fast != 0.0 ? test->fast : options.beta_fast;
    options.beta_slow = test->slow != 0.0 ? test->slow : options.beta_slow;
    options.low_frequency = test->low != 0.0 ? test->low : options.low_frequency;
    options.high_frequency = test->high != 0.0 ? test->high : options.high_frequency;
    options.magnitude = test->magnitude;
    if (test->positions_type.rank > 0)
        positions = bg_graph_constant(graph, "positions", &test->positions_type, test->positions);
    return bg_rotary(graph, "rotary", inputs[0], positions, &options);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    const rotary_case cases[] = {
        {.name = "halves", .heads = 2},
        {.name = "interleaved", .heads = 2, .interleaved = true},
        {.name = "partly", .heads = 2, .features = 4, .base = 500000.0},
        {.name = "placed",
         .heads = 1,
         .scaling = 2.5,
         .positions_type = bg_vector(BG_INT32, 5),
         .positions = {3, 0, 700, 2, 5}},
        {.name = "placed_apart",
         .heads = 1,
         .interleaved = true,
         .positions_type = bg_matrix(BG_INT32, 2, 3),
         .positions = {3, 0, 70, 2, 5, -1}},
#define FAR .positions_type = bg_vector(BG_INT32, 4), .positions = {0, 1, 30, 500}
        {.name = "ntk", .heads = 1, .kind = BG_ROTARY_NTK, .scaling = 4.0, FAR},
        {.name = "dynamic_ntk",
         .heads = 1,
         .kind = BG_ROTARY_DYNAMIC_NTK,
         .scaling = 2.0,
         .trained_length = 128,
         .length = 500,
         FAR},
        {.name = "yarn", .heads = 2, .kind = BG_ROTARY_YARN, .scaling = 8.0, .trained_length = 512, FAR},
        {.name = "yarn_interleaved",
         .heads = 2,
         .interleaved = true,
         .kind = BG_ROTARY_YARN,
         .scaling = 4.0,
         .trained_length = 256,
         .fast = 16.0,
         .slow = 2.0,
         FAR},
        {.name = "llama3",
         .heads = 1,
         .base = 500000.0,
         .kind = BG_ROTARY_LLAMA3,
         .scaling = 8.0,
         .trained_length = 512,
         FAR},
        {.name = "llama3_interleaved",
         .heads = 1,
         .interleaved = true,
         .kind = BG_ROTARY_LLAMA3,
         .scaling = 4.0,
         .trained_length = 128,
         .low = 2.0,
         .high = 6.0,
         FAR},
#undef FAR
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bgi_test_build_case(*state, cases[i].name, BG_FLOAT32, build, &cases[i], 1e-6, 1e-6);
        bgi_test_build_case(*state, cases[i].name, BG_FLOAT64, build, &cases[i], 1e-8, 1e-8);
    }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type x = bg_tensor3(BG_FLOAT64, 2, 3, 12);
    bgi_rotary_attributes attributes = {.heads = 2, .features = 4, .base = 100.0, .scaling = 0.5};

    (void)state;
    bgi_test_gradient(&bgi_op_rotary, &attributes, &x, 1, -1, 1);
    attributes.interleaved = 1;
    bgi_test_gradient(&bgi_op_rotary, &attributes, &x, 1, -1, 1);
    attributes.kind = BG_ROTARY_YARN;
    attributes.trained_length = 64.0;
    attributes.most_turns = 8.0;
    attributes.least_turns = 1.0;
    attributes.magnitude = 1.5;
    bgi_test_gradient(&bgi_op_rotary, &attributes, &x, 1, -1, 1);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_tensor3(BG_FLOAT32, 2, 3, 12), vector = bg_vector(BG_FLOAT32, 12);
    const bg_type integers = bg_matrix(BG_INT32, 3, 12);
    const rotary_case good = {.heads = 2};
    rotary_case bad = good;

#define REFUSES(type, status, text)                                                                                    \
    do {                                                                                                               \
        bgi_test_build_fails(build, &bad, type, 1, status, text);                                                      \
        bad = good;                                                                                                    \
    } while (0)
    (void)state;
    REFUSES(&vector, BG_ERROR_SHAPE, "[..., S, heads D]");
    REFUSES(&integers, BG_ERROR_SHAPE, "x is int32[3,12]");
    bad.heads = 5;
    REFUSES(&x, BG_ERROR_SHAPE, "must be 5 heads x their width");
    bad.features = 3;
    REFUSES(&x, BG_ERROR_INVALID, "features is 3");
    bad.features = 8;
    REFUSES(&x, BG_ERROR_INVALID, "at most the width of a head, 6");
    bad.base = -1.0;
    REFUSES(&x, BG_ERROR_INVALID, "base is -1");
    bad.scaling = INFINITY;
    REFUSES(&x, BG_ERROR_INVALID, "scaling is inf");
    bad.positions_type = bg_vector(BG_INT32, 6);
    REFUSES(&x, BG_ERROR_SHAPE, "positions are int32[6]; they must be int32[3] or int32[2,3]");
#undef REFUSES
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/dot_product_attention.txt");
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
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
