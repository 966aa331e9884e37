/*
 * test_check.c: tests ops that a user of the library writes (kernel, shape rule, gradient), and the gradient checker
 * with correct and wrong gradient rules.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <brigade/ops.h>

/* ---- a user's op: swish with a steepness, y = x sigmoid(a x), a one element; for float32 and float64 ---- */

static double read_element(const bg_kernel_call *call, uint32_t operand, int64_t i)
{
    return call->types[operand].dtype == BG_FLOAT64 ? ((const double *)call->operands[operand])[i]
                                                    : (double)((const float *)call->operands[operand])[i];
}

static void write_element(const bg_kernel_call *call, uint32_t operand, int64_t i, double value)
{
    if (call->types[operand].dtype == BG_FLOAT64)
        ((double *)call->operands[operand])[i] = value;
    else
        ((float *)call->operands[operand])[i] = (float)value;
}

/* The kernel has two parts, so that the test can check that all parts run. */
static void run_swish(const bg_kernel_call *call, uint32_t part)
{
    const int64_t count = bg_type_element_count(&call->types[0]);
    const double a = read_element(call, 1, 0);

    for (int64_t i = part; i < count; i += 2) {
        const double x = read_element(call, 0, i);

        write_element(call, 2, i, x / (1.0 + exp(-a * x)));
    }
}

/* Stores the steepness in scratch, behind the two parts' sums; both parts read it. */
static void prepare_swish_backward(const bg_kernel_call *call)
{
    ((double *)call->scratch)[2] = read_element(call, 2, 0);
}

/* dy, x, a -> dx, da; the sum over elements for da uses scratch and finish. */
static void run_swish_backward(const bg_kernel_call *call, uint32_t part)
{
    const int64_t count = bg_type_element_count(&call->types[0]);
    double *sums = call->scratch;
    const double a = sums[2];

    sums[part] = 0.0;
    for (int64_t i = part; i < count; i += 2) {
        const double x = read_element(call, 1, i), dy = read_element(call, 0, i);
        const double s = 1.0 / (1.0 + exp(-a * x));

        write_element(call, 3, i, dy * (s + a * x * s * (1.0 - s)));
        sums[part] += dy * x * x * s * (1.0 - s);
    }
}

static void finish_swish_backward(const bg_kernel_call *call)
{
    const double *sums = call->scratch;

    write_element(call, 4, 0, sums[0] + sums[1]);
}

static bg_status infer_swish(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    if (bg_type_element_count(&op->types[1]) != 1)
        return bg_error_set(error, BG_ERROR_SHAPE, "the steepness must have one element");
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status infer_nothing(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)op, (void)outputs, (void)error;
    return BG_OK;
}

static bg_status refuse_float64(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    outputs[0] = op->types[0];
    return op->types[0].dtype == BG_FLOAT64 ? bg_error_set(error, BG_ERROR_SHAPE, "x must be float32") : BG_OK;
}

static bg_status infer_swish_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[1];
    outputs[1] = op->types[2];
    return BG_OK;
}

static bg_status choose_swish(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op, (void)policy, (void)error;
    *out = (bg_kernel){.name = "swish", .run = run_swish, .part_count = 2};
    return BG_OK;
}

static bg_status choose_swish_backward(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out,
                                       bg_error *error)
{
    (void)op, (void)policy, (void)error;
    *out = (bg_kernel){.name = "swish_backward",
                       .prepare = prepare_swish_backward,
                       .run = run_swish_backward,
                       .finish = finish_swish_backward,
                       .part_count = 2,
                       .scratch_bytes = 3 * sizeof(double)};
    return BG_OK;
}

static const bg_op_type swish_backward = {
    BG_OP_TYPE_DEFAULTS,
    .name = "swish_backward",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 2,
    .infer = infer_swish_backward,
    .kernel = choose_swish_backward,
};

static bg_status derive_swish(bg_op_gradient *gradient, bg_error *error)
{
    const bg_value operands[] = {gradient->output_gradients[0], gradient->inputs[0], gradient->inputs[1]};
    bg_value results[2];

    bg_graph_add(gradient->graph, &swish_backward, NULL, operands, 3, NULL, results);
    gradient->input_gradients[0] = results[0];
    gradient->input_gradients[1] = results[1];
    return bg_graph_check(gradient->graph, error);
}

static const bg_op_type swish = {
    BG_OP_TYPE_DEFAULTS, .name = "swish",      .minimum_inputs = 2,      .maximum_inputs = 2,
    .output_count = 1,   .infer = infer_swish, .gradient = derive_swish, .kernel = choose_swish,
};

/* ---- a user's op with attributes: y = factor x ---- */

typedef struct scale_attributes {
    double factor;
} scale_attributes;

static bg_status infer_scale(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const scale_attributes *attributes = op->attributes;

    if (!isfinite(attributes->factor))
        return bg_error_set(error, BG_ERROR_INVALID, "the factor is %g but must be finite", attributes->factor);
    outputs[0] = op->types[0];
    return BG_OK;
}

static void run_scale(const bg_kernel_call *call, uint32_t part)
{
    const scale_attributes *attributes = call->attributes;
    const int64_t count = bg_type_element_count(&call->types[0]);

    for (int64_t i = part; i < count; i += 2)
        write_element(call, 1, i, attributes->factor * read_element(call, 0, i));
}

static bg_status choose_scale(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op, (void)policy, (void)error;
    *out = (bg_kernel){.name = "scale", .run = run_scale, .part_count = 2};
    return BG_OK;
}

static const bg_op_type scale;

static bg_status derive_scale(bg_op_gradient *gradient, bg_error *error)
{
    gradient->input_gradients[0] =
        bg_graph_add(gradient->graph, &scale, NULL, gradient->output_gradients, 1, gradient->op.attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

static const bg_op_type scale = {
    BG_OP_TYPE_DEFAULTS,      .name = "scale",        .minimum_inputs = 1,
    .maximum_inputs = 1,      .output_count = 1,      .infer = infer_scale,
    .gradient = derive_scale, .kernel = choose_scale, .attributes_bytes = sizeof(scale_attributes),
};

/* ---- gradient rules with different errors ---- */

/* Omits the second operand's gradient. */
static bg_status derive_half(bg_op_gradient *gradient, bg_error *error)
{
    const bg_status status = derive_swish(gradient, error);

    gradient->input_gradients[1] = (bg_value){0};
    return status;
}

/* Sets dx to min(dx, 0.25), which is wrong only where dx is larger. */
static bg_status derive_clipped(bg_op_gradient *gradient, bg_error *error)
{
    const bg_value one = bg_graph_constant(gradient->graph, "one", &(bg_type){.dtype = BG_FLOAT64}, (double[]){0.25});
    const bg_status status = derive_swish(gradient, error);

    gradient->input_gradients[0] =
        bg_elementwise_binary(gradient->graph, NULL, BG_MINIMUM, gradient->input_gradients[0], one);
    return status;
}

static bg_status derive_wrong_shape(bg_op_gradient *gradient, bg_error *error)
{
    const bg_status status = derive_swish(gradient, error);

    gradient->input_gradients[0] = gradient->input_gradients[1];
    return status;
}

static const bg_type operands[] = {{.dtype = BG_FLOAT64, .rank = 2, .dims = {3, 2}}, {.dtype = BG_FLOAT64}};

static bg_op_type with_gradient(bg_status (*rule)(bg_op_gradient *gradient, bg_error *error))
{
    bg_op_type type = swish;

    type.gradient = rule;
    return type;
}

/* ---- tests ---- */

static void test_a_users_op_is_right(void **state)
{
    const bg_type in_float[] = {bg_vector(BG_FLOAT32, 5), bg_vector(BG_FLOAT32, 1)};
    const float values[] = {-2.0f, -0.5f, 0.0f, 0.25f, 3.0f}, steepness = 1.5f;
    const void *const given[] = {values, &steepness};
    bg_error error = {0};

    (void)state;
    assert_int_equal(bg_gradient_check(&swish, NULL, operands, NULL, 2, NULL, &error), BG_OK);
    assert_int_equal(bg_gradient_check(&swish, NULL, in_float, given, 2, NULL, &error), BG_OK);
    assert_string_equal(error.message, "");
}

static void check_fails(const bg_op_type *type, const void *const *values, bg_status wanted, const char *expected)
{
    bg_error error = {0};
    const bg_status found = bg_gradient_check(type, NULL, operands, values, 2, NULL, &error);

    if (found != wanted || strstr(error.message, expected) == NULL)
        fail_msg("wanted %s \"%s\", got %s \"%s\"", bg_status_name(wanted), expected, bg_status_name(found),
                 error.message);
}

static void test_attributes_reach_every_rule(void **state)
{
    const bg_type x = bg_vector(BG_FLOAT64, 5);
    bg_error error = {0};

    (void)state;
    assert_int_equal(bg_gradient_check(&scale, &(scale_attributes){.factor = 2.5}, &x, NULL, 1, NULL, &error), BG_OK);
    assert_int_equal(bg_gradient_check(&scale, &(scale_attributes){.factor = INFINITY}, &x, NULL, 1, NULL, &error),
                     BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "the factor is inf but must be finite"));
}

static void test_attributes_without_a_size_are_refused(void **state)
{
    const bg_type x = bg_vector(BG_FLOAT64, 5);
    bg_op_type type = scale;
    bg_error error = {0};

    (void)state;
    type.attributes_bytes = 0;
    assert_int_equal(bg_gradient_check(&type, &(scale_attributes){.factor = 2.5}, &x, NULL, 1, NULL, &error),
                     BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "scale `checked`: attributes are given, but `attributes_bytes`"));
}

static void test_a_shape_rule_without_a_type_is_named(void **state)
{
    bg_op_type type = swish;

    (void)state;
    type.infer = infer_nothing;
    check_fails(&type, NULL, BG_ERROR_INVALID, "swish `checked`: the shape rule returned BG_OK but set no type");
}

static void test_a_forgotten_gradient_is_named(void **state)
{
    const bg_op_type type = with_gradient(derive_half);

    (void)state;
    check_fails(&type, NULL, BG_ERROR_INVALID, "gradient of swish: operand 1, element 0 (at ");
    check_fails(&type, NULL, BG_ERROR_INVALID,
                "the rule gives no gradient, which means 0 but central differences give");
}

static bg_status choose_nothing(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op, (void)policy, (void)error;
    *out = (bg_kernel){.name = "swish", .run = run_swish};
    return BG_OK;
}

/* The error says that the check has float64 operands, which a user's kernel may not support. */
static void test_the_check_says_that_it_is_over_float64(void **state)
{
    const bg_op_type type = with_gradient(derive_half);
    const bg_type single[] = {bg_vector(BG_FLOAT32, 4), bg_scalar(BG_FLOAT32)};
    bg_op_type refusing = type;
    bg_error error = {0};

    (void)state;
    refusing.infer = refuse_float64;
    check_fails(&type, NULL, BG_ERROR_INVALID, "The check passes float64 operands to the kernels");
    assert_int_equal(bg_gradient_check(&type, NULL, single, NULL, 2, NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "The check passes float64 operands to the kernels"));
    assert_int_equal(bg_gradient_check(&refusing, NULL, single, NULL, 2, NULL, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "gradient of swish, which is checked over float64: "));
}

static void test_a_kernel_without_parts_is_refused(void **state)
{
    bg_op_type type = with_gradient(derive_half);

    (void)state;
    type.kernel = choose_nothing;
    check_fails(&type, NULL, BG_ERROR_INVALID, "the kernel has no function or no parts");
}

/* The slope is large enough to be clipped only at element 4; the report must name this element and both numbers. */
static void test_a_wrong_element_is_named(void **state)
{
    const bg_op_type type = with_gradient(derive_clipped);
    const double x[] = {-6.0, -6.5, -7.0, -7.5, 4.0, -8.0}, a = 1.0;
    const void *const given[] = {x, &a};
    bg_gradient_check_options options = bg_gradient_check_defaults();
    bg_error error = {0};
    bool is_found = false;

    (void)state;
    /* the sum's weights are random; with this seed, the weight of element 4 is large enough to be clipped */
    for (options.seed = 1; options.seed < 20 && !is_found; options.seed++) {
        bg_error_clear(&error);
        if (bg_gradient_check(&type, NULL, operands, given, 2, &options, &error) != BG_OK)
            is_found = true;
    }
    assert_true(is_found);
    if (strstr(error.message,
               "gradient of swish: operand 0, element 4 (at 4): the rule gives 0.25 but central differences "
               "give ") == NULL)
        fail_msg("%s", error.message);
}

static void test_a_gradient_of_the_wrong_type_is_refused(void **state)
{
    const bg_op_type type = with_gradient(derive_wrong_shape);

    (void)state;
    check_fails(&type, NULL, BG_ERROR_SHAPE,
                "the gradient of operand 0 is float64[]; it must be float64[3,2] like the operand");
}

static void test_an_op_without_a_rule_is_refused(void **state)
{
    const bg_op_type type = with_gradient(NULL);

    (void)state;
    check_fails(&type, NULL, BG_ERROR_INVALID, "the op type has no gradient rule, so there is nothing to check");
}

static void test_shape_errors_come_through(void **state)
{
    const bg_type wrong[] = {bg_vector(BG_FLOAT64, 2), bg_vector(BG_FLOAT64, 2)};
    bg_error error = {0};

    (void)state;
    assert_int_equal(bg_gradient_check(&swish, NULL, wrong, NULL, 2, NULL, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "swish `checked`: the steepness must have one element"));
}

static void test_integer_operands_must_be_given(void **state)
{
    const bg_type types[] = {bg_vector(BG_INT32, 2), bg_scalar(BG_FLOAT64)};
    bg_error error = {0};

    (void)state;
    assert_int_equal(bg_gradient_check(&swish, NULL, types, NULL, 2, NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "operand 0 holds integers; its values must be given"));
}

/* The checker checks one element of every operand, not one element in total. */
static void test_elements_may_be_sampled(void **state)
{
    bg_gradient_check_options options = bg_gradient_check_defaults();
    const bg_op_type type = with_gradient(derive_half);
    bg_error error = {0};

    (void)state;
    options.elements_per_input = 1;
    assert_int_equal(bg_gradient_check(&swish, NULL, operands, NULL, 2, &options, &error), BG_OK);
    assert_int_equal(bg_gradient_check(&type, NULL, operands, NULL, 2, &options, &error), BG_ERROR_INVALID);
    options.outputs = 2;
    bg_error_clear(&error);
    assert_int_equal(bg_gradient_check(&swish, NULL, operands, NULL, 2, &options, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "none of the outputs to check is a float tensor"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_users_op_is_right),
        cmocka_unit_test(test_attributes_reach_every_rule),
        cmocka_unit_test(test_attributes_without_a_size_are_refused),
        cmocka_unit_test(test_a_shape_rule_without_a_type_is_named),
        cmocka_unit_test(test_a_forgotten_gradient_is_named),
        cmocka_unit_test(test_a_wrong_element_is_named),
        cmocka_unit_test(test_the_check_says_that_it_is_over_float64),
        cmocka_unit_test(test_a_kernel_without_parts_is_refused),
        cmocka_unit_test(test_a_gradient_of_the_wrong_type_is_refused),
        cmocka_unit_test(test_an_op_without_a_rule_is_refused),
        cmocka_unit_test(test_shape_errors_come_through),
        cmocka_unit_test(test_integer_operands_must_be_given),
        cmocka_unit_test(test_elements_may_be_sampled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
