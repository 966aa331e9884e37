/*
 * test_compare.c: compares comparisons, `where` and integer arithmetic with PyTorch, and the gradients of `where` with
 * finite differences.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/compare/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"
#include "support/op_case.h"

static bgi_test_oracle *oracle;

static const char *const comparison_names[BG_COMPARISON_COUNT] = {
    [BG_LESS] = "less",           [BG_LESS_EQUAL] = "less_equal", [BG_EQUAL] = "equal",
    [BG_NOT_EQUAL] = "not_equal", [BG_GREATER] = "greater",       [BG_GREATER_EQUAL] = "greater_equal"};
static const char *const binary_names[BG_BINARY_COUNT] = {
    [BG_ADD] = "add",       [BG_SUBTRACT] = "subtract", [BG_MULTIPLY] = "multiply",
    [BG_DIVIDE] = "divide", [BG_MAXIMUM] = "maximum",   [BG_MINIMUM] = "minimum"};

static bg_value build_compare(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_compare(graph, "c", *(const bg_comparison *)argument, inputs[0], inputs[1]);
}

static bg_value build_binary(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_elementwise_binary(graph, "f", *(const bg_binary *)argument, inputs[0], inputs[1]);
}

static bg_value build_where(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    (void)argument;
    return bg_where(graph, "w", inputs[0], inputs[1], inputs[2]);
}

/* ---- floats ---- */

static void test_comparisons_equal_pytorch(void **state)
{
    static const char *const kinds[] = {"", "_right", "_left", "_both", "_scalar", "_special"};
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_FLOAT64, BG_BFLOAT16, BG_FLOAT16};

    (void)state;
    for (bg_comparison comparison = 0; comparison < BG_COMPARISON_COUNT; comparison++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
                char name[64];

                snprintf(name, sizeof name, "compare_%s%s", comparison_names[comparison], kinds[k]);
                bgi_test_build_case(oracle, name, dtypes[d], build_compare, &comparison, 0, 0);
            }
}

static void test_choices_equal_pytorch(void **state)
{
    static const char *const kinds[] = {"where",        "where_rows", "where_repeated",
                                        "where_scalar", "where_one",  "where_wide"};

    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const bgi_test_op_case test = {.name = kinds[k],
                                       .op_type = &bgi_op_where,
                                       .inputs = {"condition", "a", "b"},
                                       .outputs = {"y"},
                                       .integers = "condition",
                                       .integer_dtype = BG_UINT8};

        bgi_test_op_case_run_all(oracle, &test, true);
        bgi_test_op_case_check_gradient(oracle, &test);
    }
}

/* Any byte except 0 chooses a. Elements that are not chosen are not used, so an infinite gradient does not become
 * NaN. */
static void test_what_is_not_chosen_has_no_part(void **state)
{
    const bg_type bytes = bg_vector(BG_UINT8, 4), floats = bg_vector(BG_FLOAT32, 4);
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value inputs[3], gradients[3], y, dy;
    double out[4];

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "condition", &bytes);
    inputs[1] = bg_graph_input(graph, "a", &floats);
    inputs[2] = bg_graph_input(graph, "b", &floats);
    dy = bg_graph_input(graph, "dy", &floats);
    y = build_where(graph, inputs, NULL);
    bgi_test_derive(graph, y, dy, inputs, 3, gradients);
    assert_true(bg_value_is_null(gradients[0]));
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, inputs[0], (double[]){0, 2, 255, 1});
    bgi_test_set(&interpreter, inputs[1], (double[]){NAN, 1, 2, INFINITY});
    bgi_test_set(&interpreter, inputs[2], (double[]){-1, NAN, NAN, -4});
    bgi_test_set(&interpreter, dy, (double[]){INFINITY, NAN, 3, -INFINITY});
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, y, out);
    assert_true(out[0] == -1 && out[1] == 1 && out[2] == 2 && out[3] == INFINITY);
    bgi_test_get(&interpreter, gradients[1], out);
    assert_true(out[0] == 0 && isnan(out[1]) && out[2] == 3 && out[3] == -INFINITY);
    bgi_test_get(&interpreter, gradients[2], out);
    assert_true(out[0] == INFINITY && out[1] == 0 && out[2] == 0 && out[3] == 0);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_mixtures_are_float32(void **state)
{
    const bg_type narrow = bg_vector(BG_BFLOAT16, 3), wide = bg_vector(BG_FLOAT32, 3);
    bg_graph *graph = NULL;
    bg_value a, b, condition;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    a = bg_graph_input(graph, "a", &narrow);
    b = bg_graph_input(graph, "b", &wide);
    condition = bg_compare(graph, NULL, BG_LESS, a, b);
    assert_int_equal(bg_graph_type(graph, condition).dtype, BG_UINT8);
    assert_int_equal(bg_graph_type(graph, bg_where(graph, NULL, condition, a, b)).dtype, BG_FLOAT32);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

/* ---- integers ---- */

typedef struct integers {
    bg_type type;
    int64_t values[256];
} integers;

/* Joins the two numbers that represent an int64 in the oracle's file: the high half with the sign, and the low half. */
static int64_t join(double high, double low)
{
    const uint64_t bits = (uint64_t)(int64_t)high << 32 | (uint64_t)low;
    int64_t value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static integers find_integers(bg_dtype dtype, const char *case_name, const char *name)
{
    const bool is_wide = dtype == BG_INT64;
    const bgi_test_tensor *low, *high;
    char text[64];
    integers found;

    snprintf(text, sizeof text, "%s%s", name, is_wide ? "_low" : "");
    low = bgi_test_oracle_find(oracle, case_name, text);
    snprintf(text, sizeof text, "%s%s", name, is_wide ? "_high" : "");
    high = bgi_test_oracle_find(oracle, case_name, text);
    assert_in_range(low->count, 1, 256);
    found.type = bgi_test_tensor_type(low, dtype);
    for (int64_t i = 0; i < low->count; i++)
        found.values[i] = is_wide ? join(high->values[i], low->values[i]) : (int64_t)low->values[i];
    return found;
}

static void set_integers(const bgi_test_interpreter *interpreter, bg_value value, const integers *from)
{
    void *data = bgi_test_data(interpreter, value);

    for (int64_t i = 0; i < bg_type_element_count(&from->type); i++)
        if (from->type.dtype == BG_INT64)
            ((int64_t *)data)[i] = from->values[i];
        else
            ((int32_t *)data)[i] = (int32_t)from->values[i];
}

static int64_t get_integer(const bgi_test_interpreter *interpreter, bg_value value, int64_t i)
{
    const void *data = bgi_test_data(interpreter, value);

    switch (bg_graph_type(interpreter->graph, value).dtype) {
    case BG_INT64:
        return ((const int64_t *)data)[i];
    case BG_INT32:
        return ((const int32_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

static void check_integers(bg_dtype dtype, const char *name, bgi_test_build build, const void *argument,
                           bg_dtype result_dtype)
{
    char case_name[64];
    integers operands[2], wanted;
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value inputs[2], y;
    bg_type type;

    snprintf(case_name, sizeof case_name, "%s_%s", bg_dtype_name(dtype), name);
    operands[0] = find_integers(dtype, case_name, "in0");
    operands[1] = find_integers(dtype, case_name, "in1");
    wanted = find_integers(result_dtype, case_name, "y");
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "a", &operands[0].type);
    inputs[1] = bg_graph_input(graph, "b", &operands[1].type);
    y = build(graph, inputs, argument);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    type = bg_graph_type(graph, y);
    assert_true(bg_type_equal(&type, &wanted.type));
    bgi_test_interpreter_init(&interpreter, graph);
    for (int i = 0; i < 2; i++)
        set_integers(&interpreter, inputs[i], &operands[i]);
    bgi_test_interpret(&interpreter);
    for (int64_t i = 0; i < bg_type_element_count(&wanted.type); i++)
        if (get_integer(&interpreter, y, i) != wanted.values[i])
            fail_msg("%s: element %lld is %lld, PyTorch's %lld", case_name, (long long)i,
                     (long long)get_integer(&interpreter, y, i), (long long)wanted.values[i]);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* Tests the ends of both types, where sums wrap around, and numbers beyond 2^53, which double cannot hold. */
static void test_integers_equal_pytorch(void **state)
{
    static const bg_dtype dtypes[] = {BG_INT32, BG_INT64};

    (void)state;
    for (int d = 0; d < 2; d++) {
        for (bg_binary function = 0; function < BG_BINARY_COUNT; function++)
            check_integers(dtypes[d], binary_names[function], build_binary, &function, dtypes[d]);
        for (bg_comparison comparison = 0; comparison < BG_COMPARISON_COUNT; comparison++)
            check_integers(dtypes[d], comparison_names[comparison], build_compare, &comparison, BG_UINT8);
    }
}

/* Runs one op on a pair of numbers or on one number. */
static int64_t compute(bg_dtype dtype, bgi_test_build build, const void *argument, const int64_t *elements)
{
    const bg_type type = bg_scalar(dtype);
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value inputs[2], y;
    int64_t result;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "a", &type);
    inputs[1] = bg_graph_input(graph, "b", &type);
    y = build(graph, inputs, argument);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bgi_test_interpreter_init(&interpreter, graph);
    for (int i = 0; i < 2; i++)
        set_integers(&interpreter, inputs[i], &(integers){.type = type, .values = {elements[i]}});
    bgi_test_interpret(&interpreter);
    result = get_integer(&interpreter, y, 0);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
    return result;
}

/* Integer division is defined for all operands, including those for which C leaves it undefined and PyTorch raises an
 * error or depends on the processor. */
static void test_every_quotient_is_defined(void **state)
{
    const bg_binary divide = BG_DIVIDE;

    (void)state;
    assert_int_equal(compute(BG_INT32, build_binary, &divide, (int64_t[]){7, 0}), 0);
    assert_int_equal(compute(BG_INT64, build_binary, &divide, (int64_t[]){INT64_MIN, 0}), 0);
    assert_int_equal(compute(BG_INT32, build_binary, &divide, (int64_t[]){INT32_MIN, -1}), INT32_MIN);
    assert_int_equal(compute(BG_INT64, build_binary, &divide, (int64_t[]){INT64_MIN, -1}), INT64_MIN);
    assert_int_equal(compute(BG_INT64, build_binary, &divide, (int64_t[]){INT64_MAX, -1}), -INT64_MAX);
    assert_int_equal(compute(BG_INT32, build_binary, &divide, (int64_t[]){-7, 2}), -3);
}

static bg_value build_scale(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const double *numbers = argument;

    return bg_scale(graph, "s", inputs[0], numbers[0], numbers[1]);
}

static void test_scale_truncates_and_saturates(void **state)
{
    static const struct {
        bg_dtype dtype;
        double numbers[2];
        int64_t x, wanted;
    } cases[] = {{BG_INT32, {1, 1}, 41, 42},
                 {BG_INT64, {1, 1}, 41, 42},
                 {BG_INT32, {0.5, 0}, -7, -3},
                 {BG_INT64, {0.5, 0}, 7, 3},
                 {BG_INT32, {1, 1}, INT32_MAX, INT32_MAX},
                 {BG_INT32, {2, 0}, INT32_MIN, INT32_MIN},
                 {BG_INT64, {2, 0}, INT64_MAX, INT64_MAX},
                 {BG_INT64, {2, 0}, INT64_MIN, INT64_MIN},
                 {BG_INT64, {1, NAN}, 5, 0},
                 {BG_INT64, {1, 1}, (int64_t)1 << 40, ((int64_t)1 << 40) + 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(compute(cases[i].dtype, build_scale, cases[i].numbers, (int64_t[]){cases[i].x, 0}),
                         cases[i].wanted);
}

static bg_value build_chosen(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_where(graph, NULL, build_compare(graph, inputs, argument), inputs[1], inputs[0]);
}

/* `where` preserves every bit of an integer. */
static void test_large_integers_stay_whole(void **state)
{
    const bg_comparison less = BG_LESS;
    const int64_t large = ((int64_t)1 << 62) + 1;

    (void)state;
    assert_int_equal(compute(BG_INT64, build_chosen, &less, (int64_t[]){large, large + 1}), large + 1);
    assert_int_equal(compute(BG_INT64, build_chosen, &less, (int64_t[]){large, large - 1}), large);
    assert_int_equal(compute(BG_INT32, build_chosen, &less, (int64_t[]){INT32_MIN, INT32_MAX}), INT32_MAX);
}

static void run_cast(bg_dtype from, const void *x, bg_dtype to, void *out)
{
    const bg_type type = bg_scalar(from);
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value input, y;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    input = bg_graph_input(graph, "x", &type);
    y = bg_cast(graph, NULL, input, to);
    bgi_test_interpreter_init(&interpreter, graph);
    memcpy(bgi_test_data(&interpreter, input), x, bg_dtype_size_bytes(from));
    bgi_test_interpret(&interpreter);
    memcpy(out, bgi_test_data(&interpreter, y), bg_dtype_size_bytes(to));
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* A cast rounds to the nearest float32 in one step: as a double, the first integer would be halfway between two floats.
 */
static void test_casts_of_int64(void **state)
{
    const int64_t above_middle = ((int64_t)1 << 60) + ((int64_t)1 << 36) + 1, large = INT64_MAX, small = -5;
    static const struct {
        float from;
        int64_t to;
    } cases[] = {{-3.7f, -3},          {1e30f, INT64_MAX},          {-1e30f, INT64_MIN},
                 {0x1p63f, INT64_MAX}, {0x1p62f, (int64_t)1 << 62}, {NAN, 0}};
    int32_t narrow;
    int64_t wide;
    float value;

    (void)state;
    run_cast(BG_INT64, &above_middle, BG_FLOAT32, &value);
    assert_true(value == 0x1p60f + 0x1p37f);
    run_cast(BG_INT64, &large, BG_INT32, &narrow);
    assert_int_equal(narrow, INT32_MAX);
    run_cast(BG_INT64, &small, BG_INT32, &narrow);
    assert_int_equal(narrow, -5);
    narrow = INT32_MIN;
    run_cast(BG_INT32, &narrow, BG_INT64, &wide);
    assert_int_equal(wide, INT32_MIN);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_cast(BG_FLOAT32, &cases[i].from, BG_INT64, &wide);
        assert_int_equal(wide, cases[i].to);
    }
}

/* ---- errors ---- */

static void test_errors_say_what_would_be_right(void **state)
{
    const bg_comparison less = BG_LESS, none = (bg_comparison)6;
    const bg_binary add = BG_ADD;
    const bg_type x = bg_matrix(BG_FLOAT32, 2, 3), counts = bg_matrix(BG_INT32, 2, 3);
    const bg_type wide = bg_matrix(BG_INT64, 2, 3), bytes = bg_matrix(BG_UINT8, 2, 3);

    (void)state;
    bgi_test_build_fails(build_compare, &none, (bg_type[]){x, x}, 2, BG_ERROR_INVALID,
                         "compare `c`: comparison 6 is not one of bg_comparison (0 to 5)");
    bgi_test_build_fails(build_compare, &less, (bg_type[]){counts, wide}, 2, BG_ERROR_SHAPE,
                         "a is int32[2,3] but b is int64[2,3]; they must have one element type (cast one of them)");
    bgi_test_build_fails(build_compare, &less, (bg_type[]){x, bg_vector(BG_FLOAT32, 2)}, 2, BG_ERROR_SHAPE,
                         "a float32[2,3] and b float32[2] do not broadcast");
    bgi_test_build_fails(build_where, NULL, (bg_type[]){counts, x, x}, 3, BG_ERROR_SHAPE,
                         "where `w`: condition is int32[2,3]; its elements must be uint8 (bg_compare makes it)");
    bgi_test_build_fails(build_where, NULL, (bg_type[]){bytes, x, counts}, 3, BG_ERROR_SHAPE,
                         "a is float32[2,3] but b is int32[2,3]");
    bgi_test_build_fails(build_where, NULL, (bg_type[]){bytes, x, bg_vector(BG_FLOAT32, 2)}, 3, BG_ERROR_SHAPE,
                         "a float32[2,3] and b float32[2] do not broadcast");
    bgi_test_build_fails(build_where, NULL, (bg_type[]){bg_vector(BG_UINT8, 2), x, x}, 3, BG_ERROR_SHAPE,
                         "the broadcast of a and b, float32[2,3] and condition uint8[2] do not broadcast");
    bgi_test_build_fails(
        build_binary, &add, (bg_type[]){bytes, bytes}, 2, BG_ERROR_SHAPE,
        "binary `f`: a is uint8[2,3]; its elements must be float32, bfloat16, float16, float64, int32 or "
        "int64");
    bgi_test_build_fails(build_binary, &add, (bg_type[]){counts, x}, 2, BG_ERROR_SHAPE,
                         "a is int32[2,3] but b is float32[2,3]");
}

static int open_oracle(void **state)
{
    (void)state;
    oracle = bgi_test_oracle_open("tests/oracle/compare.txt");
    return 0;
}

static int close_oracle(void **state)
{
    (void)state;
    bgi_test_oracle_close(oracle);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparisons_equal_pytorch),
        cmocka_unit_test(test_choices_equal_pytorch),
        cmocka_unit_test(test_what_is_not_chosen_has_no_part),
        cmocka_unit_test(test_mixtures_are_float32),
        cmocka_unit_test(test_integers_equal_pytorch),
        cmocka_unit_test(test_every_quotient_is_defined),
        cmocka_unit_test(test_scale_truncates_and_saturates),
        cmocka_unit_test(test_large_integers_stay_whole),
        cmocka_unit_test(test_casts_of_int64),
        cmocka_unit_test(test_errors_say_what_would_be_right),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
