/*
 * test_pool.c: compares max and average pooling with PyTorch and central differences. It also tests which element of a
 * window wins, and error messages.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernels/pool/attributes.h"
#include "ops/ops.h"
#include "support/interpret.h"
#include "support/op_case.h"

static const struct {
    const char *name;
    bg_pool2d_options options;
} cases[] = {
    {"max_pool_plain", {.kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}}},
    {"max_pool_overlap", {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}}},
    {"max_pool_ceil", {.kernel = {3, 2}, .stride = {2, 3}, .dilation = {1, 1}, .ceil_mode = true}},
    {"max_pool_ceil_padded",
     {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .ceil_mode = true}},
    {"max_pool_dilated", {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .dilation = {2, 1}}},
    {"avg_pool_plain", {.kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}, .count_include_pad = true}},
    {"avg_pool_padded",
     {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .count_include_pad = true}},
    {"avg_pool_exclude", {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}}},
    {"avg_pool_ceil",
     {.kernel = {3, 2}, .stride = {2, 3}, .dilation = {1, 1}, .ceil_mode = true, .count_include_pad = true}},
    {"avg_pool_ceil_padded",
     {.kernel = {3, 3},
      .stride = {2, 2},
      .padding = {1, 1},
      .dilation = {1, 1},
      .ceil_mode = true,
      .count_include_pad = true}},
    {"avg_pool_ceil_exclude",
     {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .ceil_mode = true}},
};

static void test_oracle(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/ops_a.txt");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool is_max = strncmp(cases[i].name, "max", 3) == 0;
        const bgi_pool2d_attributes attributes = {.options = cases[i].options};
        const bgi_test_op_case test = {.name = cases[i].name,
                                       .op_type = is_max ? &bgi_op_max_pool2d : &bgi_op_avg_pool2d,
                                       .attributes = &attributes,
                                       .inputs = {"x"},
                                       .outputs = {"y", is_max ? "where" : NULL},
                                       .has_kinks = is_max};

        bgi_test_op_case_run_all(oracle, &test, true);
        bgi_test_op_case_check_gradient(oracle, &test);
    }
    bgi_test_oracle_close(oracle);
}

/* Runs a max pool of one 2 x 3 image with one window, which covers the whole image and padding on three sides. */
static int32_t index_of_largest(const double x[6], double *out_y)
{
    const bg_type type = bg_tensor4(BG_FLOAT32, 1, 1, 2, 3);
    const bgi_pool2d_attributes attributes = {
        .options = {.kernel = {4, 4}, .stride = {4, 4}, .padding = {1, 1}, .dilation = {1, 1}}};
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value input, outputs[2];
    int32_t where;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    input = bg_graph_input(graph, "x", &type);
    bg_graph_add(graph, &bgi_op_max_pool2d, "pool", &input, 1, &attributes, outputs);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, input, x);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, outputs[0], out_y);
    where = *(const int32_t *)bgi_test_data(&interpreter, outputs[1]);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
    return where;
}

static void test_what_wins(void **state)
{
    double y;

    (void)state;
    /* the first of equal elements wins */
    assert_int_equal(index_of_largest((const double[]){1, 5, 2, 5, 5, 0}, &y), 1);
    /* the padding never wins */
    assert_int_equal(index_of_largest((const double[]){-9, -8, -7, -3, -5, -6}, &y), 3);
    assert_true(y == -3.0);
    assert_int_equal(
        index_of_largest((const double[]){-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, &y), 0);
    assert_true(y == -INFINITY);
    /* the first NaN wins */
    assert_int_equal(index_of_largest((const double[]){1, 5, NAN, INFINITY, NAN, 0}, &y), 2);
    assert_true(isnan(y));
}

static void test_stride_defaults_to_kernel(void **state)
{
    const bg_type type = bg_tensor4(BG_FLOAT32, 1, 2, 9, 12);
    bg_pool2d_options options = bg_pool2d_defaults(3);
    bg_graph *graph = NULL;
    bg_type y;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    options.stride[1] = 2;
    y = bg_graph_type(graph, bg_avg_pool2d(graph, NULL, bg_graph_input(graph, "x", &type), &options));
    assert_int_equal(y.dims[2], 3);
    assert_int_equal(y.dims[3], 5);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    assert_true(bg_value_is_null(bg_max_pool2d(graph, "nameless", (bg_value){1}, NULL)));
    assert_int_equal(bg_graph_check(graph, NULL), BG_ERROR_INVALID);
    bg_graph_destroy(graph);
}

static void test_messages(void **state)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, 2, 3, 4, 1);
    const struct {
        const bg_op_type *op_type;
        bg_type type;
        bg_pool2d_options options;
        bg_status status;
        const char *parts[4];
    } wrong[] = {
        {&bgi_op_max_pool2d,
         bg_matrix(BG_FLOAT32, 3, 4),
         {.kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}},
         BG_ERROR_SHAPE,
         {"float32[3,4]", "[N,C,H,W]"}},
        {&bgi_op_max_pool2d,
         image,
         {.kernel = {2, 2}, .stride = {2, 2}, .padding = {2, 0}, .dilation = {1, 1}},
         BG_ERROR_INVALID,
         {"padding[0] is 2", "between 0 and 1", "half the kernel"}},
        {&bgi_op_avg_pool2d,
         image,
         {.kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}},
         BG_ERROR_SHAPE,
         {"float32[2,3,4,1]", "dimension 3", "at least 2"}},
        {&bgi_op_avg_pool2d,
         image,
         {.kernel = {2, 1}, .stride = {1, 1}, .dilation = {2, 1}},
         BG_ERROR_INVALID,
         {"dilation is 2 x 1", "supports only 1"}},
        {&bgi_op_max_pool2d,
         image,
         {.kernel = {1, 2}, .stride = {1, 1}, .padding = {0, 1}, .dilation = {1, 2}},
         BG_ERROR_SHAPE,
         {"entirely in the padding", "dimension 3", "dilation 2", "at most 1"}},
        {&bgi_op_max_pool2d,
         image,
         {.kernel = {1, 1}, .stride = {0, 1}, .dilation = {1, 1}},
         BG_ERROR_INVALID,
         {"stride[0] is 0", "between 1"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const bgi_pool2d_attributes attributes = {.options = wrong[i].options};
        const char *parts[] = {wrong[i].parts[0], wrong[i].parts[1], wrong[i].parts[2], wrong[i].parts[3], NULL};

        bgi_test_op_refuses(wrong[i].op_type, &attributes, &wrong[i].type, 1, wrong[i].status, parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_what_wins),
        cmocka_unit_test(test_stride_defaults_to_kernel),
        cmocka_unit_test(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
