/*
 * test_precision.c: tests which ops of a float32 graph use 16 bits. Each case compares a graph with one that has
 * explicit casts.
 */
#include "transform/small.h"

typedef bg_value (*build_function)(bg_graph *graph, bool with_casts);

static bg_value none;

static bg_value cast(bg_graph *graph, bg_value x, bg_dtype dtype, bool with_casts)
{
    return with_casts ? bg_cast(graph, NULL, x, dtype) : x;
}

static void check(build_function build, bg_precision precision, bool is_returned)
{
    bg_graph *graph = small_create(), *narrowed = NULL, *wanted = small_create();
    bg_value loss = build(graph, false), wanted_loss = build(wanted, true);
    bg_error error = {0};
    char *text = NULL;

    if (is_returned) {
        bg_graph_output(graph, "loss", loss);
        bg_graph_output(wanted, "loss", wanted_loss);
    }
    small_require(graph);
    small_require(wanted);
    if (bgi_narrow_graph(graph, precision, &loss, &narrowed, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_graph_print(wanted, &text, NULL), BG_OK);
    small_expect_text(narrowed, text);
    assert_int_equal(loss.id, wanted_loss.id);
    free(text);
    bg_graph_destroy(graph);
    bg_graph_destroy(narrowed);
    bg_graph_destroy(wanted);
}

/* Builds products, which use 16 bits (narrow), ops after them, which use the same type, and a loss, which uses float32
 * (wide). */
static bg_value build_regression(bg_graph *graph, bool c)
{
    const bg_value x = small_input(graph, "x"), y = small_input(graph, "y"), w = small_weight(graph, "w");
    bg_value z = cast(graph, x, BG_BFLOAT16, c);

    z = bg_linear(graph, "fc", z, cast(graph, w, BG_BFLOAT16, c), none);
    z = bg_elementwise_unary(graph, "gelu", BG_GELU, z);
    return bg_pointwise_loss(graph, "mse", BG_LOSS_SQUARED, 0.0, cast(graph, z, BG_FLOAT32, c), y, BG_LOSS_MEAN);
}

/* Builds sums: a parameter gets the type of the op's other operands, but an input does not. The final loss is float32.
 */
static bg_value build_sums(bg_graph *graph, bool c)
{
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    const bg_type row = bg_vector(BG_FLOAT32, 3);
    const bg_value p = bg_graph_parameter(graph, "p", &row, NULL);
    bg_value z, y;

    z = cast(graph, x, BG_FLOAT16, c);
    z = bg_linear(graph, "fc", z, cast(graph, w, BG_FLOAT16, c), none);
    y = bg_elementwise_binary(graph, "beside", BG_ADD, z, cast(graph, p, BG_FLOAT16, c));
    z = bg_elementwise_binary(graph, "wide", BG_ADD, cast(graph, y, BG_FLOAT32, c), x);
    z = bg_linear(graph, "again", cast(graph, z, BG_FLOAT16, c), cast(graph, w, BG_FLOAT16, false), none);
    return z;
}

/* Builds functions: parameters are wide until a product reads them; exponentials and sums are wide. */
static bg_value build_functions(bg_graph *graph, bool c)
{
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w"), v = small_weight(graph, "v");
    const bg_value product = bg_elementwise_binary(graph, "scaled", BG_MULTIPLY, w, v);
    bg_value z = cast(graph, x, BG_BFLOAT16, c);

    z = bg_linear(graph, "fc", z, cast(graph, product, BG_BFLOAT16, c), none);
    z = bg_elementwise_unary(graph, "exp", BG_EXP, cast(graph, z, BG_FLOAT32, c));
    return bg_reduce(graph, "sum", BG_REDUCE_SUM, z, NULL, 0, false);
}

/* Builds a mean of 16-bit values, which has 16 bits; the loss is cast. */
static bg_value build_mean(bg_graph *graph, bool c)
{
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    bg_value z = cast(graph, x, BG_BFLOAT16, c);

    z = bg_linear(graph, "fc", z, cast(graph, w, BG_BFLOAT16, c), none);
    return cast(graph, small_loss(graph, "loss", z), BG_FLOAT32, c);
}

/* Builds blocks: each block that reads a value in the other type casts the value. */
static bg_value build_blocks(bg_graph *graph, bool c)
{
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    bg_value z, w16;

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    z = cast(graph, x, BG_BFLOAT16, c);
    w16 = cast(graph, w, BG_BFLOAT16, c);
    z = bg_linear(graph, "one", z, w16, none);
    z = bg_linear(graph, "two", z, w16, none);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    w16 = cast(graph, w, BG_BFLOAT16, c);
    z = bg_linear(graph, "three", z, w16, none);
    return cast(graph, small_loss(graph, "loss", z), BG_FLOAT32, c);
}

/* Builds a batch norm: running statistics remain float32; gamma and beta get the type of x. */
static bg_value build_norm(bg_graph *graph, bool c)
{
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    const bg_type row = bg_vector(BG_FLOAT32, 3);
    const bg_value gamma = bg_graph_parameter(graph, "gamma", &row, NULL),
                   beta = bg_graph_parameter(graph, "beta", &row, NULL),
                   mean = bg_graph_variable(graph, "mean", &row, BG_ROLE_BUFFER, NULL),
                   variance = bg_graph_variable(graph, "variance", &row, BG_ROLE_BUFFER, NULL);
    bg_value z = cast(graph, x, BG_BFLOAT16, c), g;

    z = bg_linear(graph, "fc", z, cast(graph, w, BG_BFLOAT16, c), none);
    g = cast(graph, gamma, BG_BFLOAT16, c);
    z = bg_batch_norm(graph, "norm", z, g, cast(graph, beta, BG_BFLOAT16, c), mean, variance, 0.1, 1e-5);
    return cast(graph, small_loss(graph, "loss", z), BG_FLOAT32, c);
}

static void test_which_ops_are_narrow(void **state)
{
    (void)state;
    for (int is_returned = 0; is_returned < 2; is_returned++) {
        check(build_regression, BG_PRECISION_BF16_MIXED, is_returned);
        check(build_functions, BG_PRECISION_BF16_MIXED, is_returned);
        check(build_mean, BG_PRECISION_BF16_MIXED, is_returned);
        check(build_blocks, BG_PRECISION_BF16_MIXED, is_returned);
        check(build_norm, BG_PRECISION_BF16_MIXED, is_returned);
    }
}

static const bgi_value *find(const bg_graph *graph, const char *name)
{
    for (size_t v = 1; v < graph->value_count; v++)
        if (graph->values[v].name != NULL && strcmp(graph->values[v].name, name) == 0)
            return &graph->values[v];
    fail_msg("no value `%s`", name);
    return NULL;
}

/* Returns the type of an op's result. */
static bg_dtype type_of(const bg_graph *graph, const char *op)
{
    for (size_t o = 0; o < graph->op_count; o++)
        if (strcmp(graph->ops[o].name, op) == 0)
            return bgi_graph_value(graph, graph->ops[o].outputs[0])->type.dtype;
    fail_msg("no op `%s`", op);
    return BG_DTYPE_NONE;
}

static void test_the_widest_operand_counts(void **state)
{
    bg_graph *graph = small_create(), *narrowed = NULL;
    bg_value loss = {0};

    (void)state;
    bg_graph_output(graph, "y", build_sums(graph, false));
    assert_int_equal(bgi_narrow_graph(graph, BG_PRECISION_16_MIXED, &loss, &narrowed, NULL), BG_OK);
    assert_int_equal(type_of(narrowed, "fc"), BG_FLOAT16);
    assert_int_equal(type_of(narrowed, "beside"), BG_FLOAT16);
    assert_int_equal(type_of(narrowed, "wide"), BG_FLOAT32);
    assert_int_equal(type_of(narrowed, "again"), BG_FLOAT16);
    assert_int_equal(bgi_graph_value(narrowed, narrowed->outputs[0].value)->type.dtype, BG_FLOAT32);
    bg_graph_destroy(graph);
    bg_graph_destroy(narrowed);
}

static void test_parameters_are_kept_narrow(void **state)
{
    (void)state;
    for (int is_true = 0; is_true < 2; is_true++) {
        bg_graph *graph = small_create(), *narrowed = NULL;
        bg_value loss = build_norm(graph, false);
        const bg_dtype kept = is_true ? BG_FLOAT16 : BG_FLOAT32;

        assert_int_equal(
            bgi_narrow_graph(graph, is_true ? BG_PRECISION_16_TRUE : BG_PRECISION_16_MIXED, &loss, &narrowed, NULL),
            BG_OK);
        assert_int_equal(find(narrowed, "w")->type.dtype, kept);
        assert_int_equal(find(narrowed, "gamma")->type.dtype, kept);
        assert_int_equal(find(narrowed, "mean")->type.dtype, BG_FLOAT32);
        assert_int_equal(find(graph, "w")->type.dtype, BG_FLOAT32);
        assert_int_equal(type_of(narrowed, "norm"), BG_FLOAT16);
        assert_int_equal(bgi_graph_value(narrowed, loss)->type.dtype, BG_FLOAT32);
        bg_graph_destroy(graph);
        bg_graph_destroy(narrowed);
    }
}

/* Infers the type of a caller's op that doubles float32 values. */
static bg_status infer_double(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    outputs[0] = op->types[0];
    return op->types[0].dtype == BG_FLOAT32 ? BG_OK : bg_error_set(error, BG_ERROR_SHAPE, "not float32");
}

static bg_status select_double(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op;
    (void)policy;
    (void)out;
    return bg_error_set(error, BG_ERROR_UNSUPPORTED, "it is not run");
}

static const bg_op_type own_op = {BG_OP_TYPE_DEFAULTS,    .name = "double",  .minimum_inputs = 1,
                                  .maximum_inputs = 1,    .output_count = 1, .infer = infer_double,
                                  .kernel = select_double};

/* The caller's op gets float32; the caller's casts, float64 values and integers do not change. */
static void test_what_the_caller_says_stays(void **state)
{
    bg_graph *graph = small_create(), *narrowed = NULL;
    const bg_type wide_type = bg_matrix(BG_FLOAT64, 2, 3), ids_type = bg_vector(BG_INT32, 3);
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    bg_value loss = {0}, z, wide;

    (void)state;
    z = small_linear(graph, "fc", x, w);
    z = bg_graph_add(graph, &own_op, "own", &z, 1, NULL, NULL);
    z = small_linear(graph, "then", z, w);
    bg_graph_output(graph, "half", bg_cast(graph, "half", z, BG_BFLOAT16));
    bg_graph_output(graph, "double", bg_cast(graph, "double", z, BG_FLOAT64));
    wide = bg_graph_input(graph, "wide", &wide_type);
    bg_graph_output(graph, "sum", bg_elementwise_binary(graph, "sum", BG_ADD, wide, wide));
    bg_graph_output(graph, "ids", bg_scale(graph, "ids", bg_graph_input(graph, "i", &ids_type), 2.0, 0.0));
    small_require(graph);
    assert_int_equal(bgi_narrow_graph(graph, BG_PRECISION_BF16_MIXED, &loss, &narrowed, NULL), BG_OK);
    assert_int_equal(type_of(narrowed, "own"), BG_FLOAT32);
    assert_int_equal(type_of(narrowed, "then"), BG_BFLOAT16);
    assert_int_equal(bgi_graph_value(narrowed, narrowed->outputs[0].value)->type.dtype, BG_BFLOAT16);
    assert_int_equal(type_of(narrowed, "double"), BG_FLOAT64);
    assert_int_equal(type_of(narrowed, "sum"), BG_FLOAT64);
    assert_int_equal(type_of(narrowed, "ids"), BG_INT32);
    bg_graph_destroy(graph);
    bg_graph_destroy(narrowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_ops_are_narrow),
        cmocka_unit_test(test_the_widest_operand_counts),
        cmocka_unit_test(test_parameters_are_kept_narrow),
        cmocka_unit_test(test_what_the_caller_says_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
