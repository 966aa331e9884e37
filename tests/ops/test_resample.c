/*
 * test_resample.c: compares interpolation with PyTorch and with the formulas of the ONNX Resize operator, and checks
 * errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/resample/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"

static bg_value build_interpolate(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_interpolate(graph, "i", inputs[0], argument);
}

static void check(const void *oracle, const char *name, const bg_interpolate_options *options)
{
    bgi_test_build_case(oracle, name, BG_FLOAT64, build_interpolate, options, 1e-8, 1e-8);
    bgi_test_build_case(oracle, name, BG_FLOAT32, build_interpolate, options, 1e-5, 1e-5);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    static const struct {
        const char *name;
        int dims, sizes;
        bg_interpolation mode;
    } smooth[] = {{"linear", 1, 3, BG_INTERPOLATE_LINEAR},
                  {"bilinear", 2, 3, BG_INTERPOLATE_LINEAR},
                  {"bicubic", 2, 3, BG_INTERPOLATE_CUBIC},
                  {"trilinear", 3, 1, BG_INTERPOLATE_LINEAR}};
    static const int64_t sizes[3][3][3] = {{{5}, {11}, {1}}, {{7, 3}, {3, 10}, {1, 1}}, {{2, 7, 3}}};
    char name[64];

    for (size_t k = 0; k < sizeof smooth / sizeof smooth[0]; k++)
        for (int i = 0; i < smooth[k].sizes; i++)
            for (int corners = 0; corners < 2; corners++) {
                bg_interpolate_options options = bg_interpolate_defaults(smooth[k].mode);

                memcpy(options.size, sizes[smooth[k].dims - 1][i], sizeof options.size);
                options.coordinates = corners ? BG_COORDINATES_ALIGN_CORNERS : BG_COORDINATES_HALF_PIXEL;
                snprintf(name, sizeof name, "%s_%d_%d", smooth[k].name, i, corners);
                check(*state, name, &options);
            }
    for (int dims = 1; dims <= 3; dims++)
        for (int i = 0; i < (dims == 3 ? 1 : 3); i++)
            for (int kind = 0; kind < 3; kind++) {
                bg_interpolate_options options =
                    bg_interpolate_defaults(kind == 2 ? BG_INTERPOLATE_AREA : BG_INTERPOLATE_NEAREST);

                memcpy(options.size, sizes[dims - 1][i], sizeof options.size);
                if (kind == 1) {
                    options.coordinates = BG_COORDINATES_HALF_PIXEL;
                    options.nearest = BG_NEAREST_PREFER_CEIL;
                }
                snprintf(name, sizeof name, "%s%d_%d",
                         kind == 0   ? "nearest"
                         : kind == 1 ? "nearest_exact"
                                     : "area",
                         dims, i);
                check(*state, name, &options);
            }
}

static void test_scales(void **state)
{
    static const char *const names[] = {"nearest_scale", "bilinear_scale", "bicubic_scale"};

    for (int mode = BG_INTERPOLATE_NEAREST; mode <= BG_INTERPOLATE_CUBIC; mode++) {
        bg_interpolate_options options = bg_interpolate_defaults((bg_interpolation)mode);

        options.scale[0] = 1.7;
        options.scale[1] = 0.6;
        check(*state, names[mode], &options);
    }
}

static void test_onnx_has_the_same_sums(void **state)
{
    static const char *const coordinates[] = {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"};
    static const char *const nearest[] = {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
    char name[64];

    for (int c = 0; c < BG_COORDINATES_COUNT; c++)
        for (int kind = 0; kind < BG_NEAREST_COUNT + 2; kind++) {
            const bool is_nearest = kind < BG_NEAREST_COUNT;
            bg_interpolate_options options = bg_interpolate_defaults(is_nearest      ? BG_INTERPOLATE_NEAREST
                                                                     : kind % 2 == 0 ? BG_INTERPOLATE_LINEAR
                                                                                     : BG_INTERPOLATE_CUBIC);

            options.coordinates = (bg_coordinates)c;
            options.nearest = is_nearest ? (bg_nearest)kind : BG_NEAREST_FLOOR;
            options.scale[0] = 1.8;
            options.scale[1] = 0.7;
            snprintf(name, sizeof name, "onnx_%s_%s%s%s",
                     is_nearest      ? "nearest"
                     : kind % 2 == 0 ? "linear"
                                     : "cubic",
                     coordinates[c], is_nearest ? "_" : "", is_nearest ? nearest[kind] : "");
            check(*state, name, &options);
            if (options.mode == BG_INTERPOLATE_CUBIC && c == BG_COORDINATES_HALF_PIXEL) {
                options.cubic = -0.5;
                check(*state, "onnx_cubic_half", &options);
            }
        }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type x = bg_type_make(BG_FLOAT64, 3, (int64_t[]){2, 4, 5});
    bgi_resample_attributes attributes = {.cubic = -0.75, .axes = {{4, 7, 0.0, 0}, {5, 2, 0.7, 0}}};

    (void)state;
    for (attributes.mode = 0; attributes.mode < BG_INTERPOLATION_COUNT; attributes.mode++)
        for (attributes.coordinates = 0; attributes.coordinates < BG_COORDINATES_COUNT; attributes.coordinates++)
            bgi_test_gradient(&bgi_op_resample, &attributes, &x, 1, -1, 1);
}

/* The result has the given name. Each dimension has the given size, the scaled size, or its size in the operand. */
static void test_names_and_sizes(void **state)
{
    const bg_type type = bg_type_make(BG_FLOAT16, 5, (int64_t[]){2, 3, 4, 5, 6});
    bg_interpolate_options options = bg_interpolate_defaults(BG_INTERPOLATE_NEAREST);
    bg_graph *graph = NULL;
    bg_type found;
    bg_value x;

    (void)state;
    options.size[0] = 8;
    options.scale[1] = 0.5;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_interpolate(graph, "larger", bg_graph_input(graph, "x", &type), &options);
    assert_string_equal(bg_graph_name(graph, x), "larger");
    found = bg_graph_type(graph, x);
    assert_true(bg_type_equal(&found, &(bg_type){BG_FLOAT16, 5, {2, 3, 8, 2, 6}}));
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_tensor4(BG_FLOAT32, 1, 2, 3, 4), flat = bg_matrix(BG_FLOAT32, 3, 4);
    bg_interpolate_options options = bg_interpolate_defaults(BG_INTERPOLATE_LINEAR);

    (void)state;
    bgi_test_build_fails(build_interpolate, &options, &flat, 1, BG_ERROR_SHAPE, "x is float32[3,4]; it must be float");
    bgi_test_build_fails(build_interpolate, NULL, &x, 1, BG_ERROR_INVALID, "start from bg_interpolate_defaults(mode)");
    options.size[1] = -1;
    bgi_test_build_fails(build_interpolate, &options, &x, 1, BG_ERROR_INVALID, "size[1] is -1");
    options.size[1] = 0;
    options.scale[1] = 0.1;
    bgi_test_build_fails(build_interpolate, &options, &x, 1, BG_ERROR_INVALID, "scale[1] is 0.1");
    options.scale[1] = NAN;
    bgi_test_build_fails(build_interpolate, &options, &x, 1, BG_ERROR_INVALID, "scale[1] is");
    options.scale[1] = 2.0;
    options.mode = BG_INTERPOLATION_COUNT;
    bgi_test_build_fails(build_interpolate, &options, &x, 1, BG_ERROR_INVALID, "mode is 4, coordinates is 0");
    options.mode = BG_INTERPOLATE_CUBIC;
    options.cubic = INFINITY;
    bgi_test_build_fails(build_interpolate, &options, &x, 1, BG_ERROR_INVALID, "cubic is inf");
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
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_onnx_has_the_same_sums),
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_names_and_sizes),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
