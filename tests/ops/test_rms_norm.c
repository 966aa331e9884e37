/*
 * test_rms_norm.c: compares RMS norm and group norm with PyTorch and finite differences, and checks errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "graph/graph.h"
#include "kernels/rms_norm/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"

static bg_value build_rms(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_rms_norm(graph, "norm", inputs[0], *(const bool *)argument ? inputs[1] : (bg_value){0}, 1e-5);
}

/* Builds a group norm of the given number of groups; if this is 0, a group norm of two groups without gamma and beta.
 */
static bg_value build_group(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const int64_t groups = *(const int64_t *)argument;

    return groups > 0 ? bg_group_norm(graph, "norm", inputs[0], groups, inputs[1], inputs[2], 1e-5)
                      : bg_group_norm(graph, "norm", inputs[0], 2, (bg_value){0}, (bg_value){0}, 1e-5);
}

/* Uses only gamma when the argument is true, otherwise only beta. */
static bg_value build_half(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const bool is_first = *(const bool *)argument;
    const bg_value none = {0};

    return bg_group_norm(graph, "norm", inputs[0], 2, is_first ? inputs[1] : none, is_first ? none : inputs[1], 1e-5);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_FLOAT64};
    const bool with = true, without = false;
    const int64_t none = 0;

    for (int d = 0; d < 2; d++) {
        const double tolerance = d == 0 ? 5e-6 : 3e-8;
        bgi_test_build_case(*state, "rms_norm", dtypes[d], build_rms, &with, tolerance, tolerance);
        bgi_test_build_case(*state, "rms_norm_plain", dtypes[d], build_rms, &without, tolerance, tolerance);
        for (int64_t groups = 1; groups <= 6; groups += groups == 1 ? 2 : 3) {
            char name[32];
            snprintf(name, sizeof name, "group_norm_%d", (int)groups);
            bgi_test_build_case(*state, name, dtypes[d], build_group, &groups, tolerance, tolerance);
        }
        bgi_test_build_case(*state, "group_norm_plain", dtypes[d], build_group, &none, tolerance, tolerance);
    }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type types[] = {bg_matrix(BG_FLOAT64, 3, 4), bg_vector(BG_FLOAT64, 4)};
    const bgi_rms_norm_attributes attributes = {.epsilon = 1e-3};

    (void)state;
    bgi_test_gradient(&bgi_op_rms_norm, &attributes, types, 1, -1, 1);
    bgi_test_gradient(&bgi_op_rms_norm, &attributes, types, 2, -1, 1);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_tensor3(BG_FLOAT32, 2, 4, 3), wide = bg_vector(BG_FLOAT32, 4), row = bg_vector(BG_FLOAT32, 3);
    const bg_type scalar = bg_scalar(BG_FLOAT32);
    const bool with = true, without = false;
    const int64_t three = 3, two = 2;

    (void)state;
    bgi_test_build_fails(build_rms, &with, (bg_type[]){x, wide}, 2, BG_ERROR_SHAPE,
                         "gamma is float32[4]; it must be float32[3]");
    bgi_test_build_fails(build_rms, &without, &scalar, 1, BG_ERROR_SHAPE, "[..., last]");
    bgi_test_build_fails(build_group, &three, (bg_type[]){x, wide, wide}, 3, BG_ERROR_SHAPE,
                         "groups is 3 and x is float32[2,4,3]; x must be [N,C,...], and groups must divide C");
    bgi_test_build_fails(build_group, &two, (bg_type[]){x, row, wide}, 3, BG_ERROR_SHAPE,
                         "gamma is float32[3]; it must be float32[4]");
    bgi_test_build_fails(build_group, &two, (bg_type[]){row, row, row}, 3, BG_ERROR_SHAPE,
                         "groups is 2 and x is float32[3]");
    bgi_test_build_fails(build_half, &with, (bg_type[]){x, wide}, 2, BG_ERROR_INVALID, "give both or neither");
    bgi_test_build_fails(build_half, &without, (bg_type[]){x, wide}, 2, BG_ERROR_INVALID, "give both or neither");
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/functions.txt");
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
