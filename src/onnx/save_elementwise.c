/*
 * save_elementwise.c: saves functions of elements, arithmetic, comparisons and casts. A function that ONNX does not
 * have is written as several nodes, all in float where the graph's type has 16 bits, so that it is rounded once, as in
 * the library.
 */
#include <math.h>

#include "kernels/compare/attributes.h"
#include "kernels/elementwise/attributes.h"
#include "onnx/save.h"
#include "ops/ops.h"

/* ---- functions ---- */

/* Saves the op `op` of x and a number. */
static const char *with_number(bgi_saver *s, const char *op, const char *x, double value)
{
    return bgi_save_2(s, op, x, bgi_save_number(s, bgi_save_dtype(s, 0), value));
}

static const char *save_gelu(bgi_saver *s, const char *x)
{
    const char *y = bgi_save_1(s, "Erf", with_number(s, "Mul", x, sqrt(0.5)));

    y = with_number(s, "Add", y, 1.0);
    return bgi_save_2(s, "Mul", with_number(s, "Mul", x, 0.5), y);
}

/* Saves x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
static const char *save_gelu_tanh(bgi_saver *s, const char *x)
{
    const char *y = bgi_save_2(s, "Mul", bgi_save_2(s, "Mul", x, x), x);

    y = bgi_save_2(s, "Add", x, with_number(s, "Mul", y, 0.044715));
    y = bgi_save_1(s, "Tanh", with_number(s, "Mul", y, sqrt(2.0 / acos(-1.0))));
    y = with_number(s, "Add", y, 1.0);
    return bgi_save_2(s, "Mul", with_number(s, "Mul", x, 0.5), y);
}

/* Saves log(1 + e^(a x)) / a, or x where a x > b. */
static const char *save_softplus(bgi_saver *s, const char *x, double a, double b)
{
    const char *scaled = a != 1.0 ? with_number(s, "Mul", x, a) : x;
    const char *y = bgi_save_1(s, "Softplus", scaled);

    if (a != 1.0)
        y = with_number(s, "Div", y, a);
    if (b >= 20.0) /* in float the function is equal to x there */
        return y;
    return bgi_save_3(s, "Where", with_number(s, "Greater", scaled, b), x, y);
}

static const char *save_clamp(bgi_saver *s, const char *x, double lowest, double highest)
{
    const bg_dtype dtype = bgi_save_dtype(s, 0);
    const char *low = isinf(lowest) ? NULL : bgi_save_number(s, dtype, lowest);
    const char *high = isinf(highest) ? NULL : bgi_save_number(s, dtype, highest);

    return bgi_save_3(s, "Clip", x, low, high);
}

static const char *save_hard_sigmoid(bgi_saver *s, const char *x, double a, double b)
{
    const char *y = bgi_save_1(s, "HardSigmoid", x);

    bgi_save_real(s, "alpha", a);
    bgi_save_real(s, "beta", b);
    return y;
}

static const char *with_alpha(bgi_saver *s, const char *op, const char *x, double alpha)
{
    const char *y = bgi_save_1(s, op, x);

    bgi_save_real(s, "alpha", alpha);
    return y;
}

/* Functions that are one node without attributes, and whether ONNX supports them for bfloat16. */
static const struct {
    const char *op;
    bool has_bfloat16;
} plain[BG_UNARY_COUNT] = {
    [BG_RELU] = {"Relu", true},
    [BG_TANH] = {"Tanh", true},
    [BG_SIGMOID] = {"Sigmoid", true},
    [BG_EXP] = {"Exp", true},
    [BG_LOG] = {"Log", true},
    [BG_SQRT] = {"Sqrt", true},
    [BG_NEGATE] = {"Neg", true},
    [BG_ABS] = {"Abs", true},
    [BG_RECIPROCAL] = {"Reciprocal", true},
    [BG_SOFTSIGN] = {"Softsign", false},
    [BG_ERF] = {"Erf", true},
    [BG_SIGN] = {"Sign", true},
    [BG_ROUND] = {"Round", false},
    [BG_FLOOR] = {"Floor", true},
    [BG_CEIL] = {"Ceil", true},
    [BG_SIN] = {"Sin", false},
    [BG_COS] = {"Cos", false},
    [BG_TAN] = {"Tan", false},
    [BG_ASIN] = {"Asin", false},
    [BG_ACOS] = {"Acos", false},
    [BG_ATAN] = {"Atan", false},
    [BG_SINH] = {"Sinh", false},
    [BG_COSH] = {"Cosh", false},
    [BG_ASINH] = {"Asinh", false},
    [BG_ACOSH] = {"Acosh", false},
    [BG_ATANH] = {"Atanh", false},
};

static const char *save_function(bgi_saver *s, const bgi_unary_attributes *f, const char *x)
{
    switch (f->function) {
    case BG_GELU:
        return save_gelu(s, x);
    case BG_GELU_TANH:
        return save_gelu_tanh(s, x);
    case BG_SQUARE:
        return bgi_save_2(s, "Mul", x, x);
    case BG_SILU:
        return bgi_save_2(s, "Mul", x, bgi_save_1(s, "Sigmoid", x));
    case BG_MISH:
        return bgi_save_2(s, "Mul", x, bgi_save_1(s, "Tanh", bgi_save_1(s, "Softplus", x)));
    case BG_LOG_SIGMOID:
        return bgi_save_1(s, "Neg", bgi_save_1(s, "Softplus", bgi_save_1(s, "Neg", x)));
    case BG_HARD_SWISH:
        return s->options->opset >= 14 ? bgi_save_1(s, "HardSwish", x)
                                       : bgi_save_2(s, "Mul", x, save_hard_sigmoid(s, x, 1.0 / 6.0, 0.5));
    case BG_RSQRT:
        return bgi_save_1(s, "Reciprocal", bgi_save_1(s, "Sqrt", x));
    case BG_LOG1P:
        return bgi_save_1(s, "Log", with_number(s, "Add", x, 1.0));
    case BG_EXPM1:
        return with_number(s, "Sub", bgi_save_1(s, "Exp", x), 1.0);
    case BG_TRUNC:
        return bgi_save_2(s, "Mul", bgi_save_1(s, "Sign", x), bgi_save_1(s, "Floor", bgi_save_1(s, "Abs", x)));
    case BG_SOFTPLUS:
        return save_softplus(s, x, f->a, f->b);
    case BG_ELU:
        return with_alpha(s, "Elu", x, f->a);
    case BG_LEAKY_RELU:
        return with_alpha(s, "LeakyRelu", x, f->a);
    case BG_HARD_SIGMOID:
        return save_hard_sigmoid(s, x, f->a, f->b);
    case BG_CLAMP:
        return save_clamp(s, x, f->a, f->b);
    default: /* BG_POWER */
        return with_number(s, "Pow", x, f->a);
    }
}

/* Whether the function is one node in ONNX, which supports it for float16 too. */
static bool is_one_node(bg_unary function)
{
    return plain[function].op != NULL || function == BG_ELU || function == BG_LEAKY_RELU || function == BG_POWER ||
           function == BG_HARD_SIGMOID || function == BG_CLAMP;
}

static bool has_bfloat16(bg_unary function, int64_t opset)
{
    return plain[function].has_bfloat16 || function == BG_CLAMP || (function == BG_LEAKY_RELU && opset >= 16);
}

static void save_unary(bgi_saver *s)
{
    const bgi_unary_attributes *f = s->op->attributes;
    const char *x;

    if (!is_one_node(f->function) ||
        (bgi_save_type(s, 0).dtype == BG_BFLOAT16 && !has_bfloat16(f->function, s->options->opset)))
        bgi_save_widen(s);
    x = bgi_save_in(s, 0);
    bgi_save_out(s, 0, plain[f->function].op != NULL ? bgi_save_1(s, plain[f->function].op, x) : save_function(s, f, x),
                 bgi_save_batch(s, 0));
}

/* ---- arithmetic ---- */

static void save_binary(bgi_saver *s)
{
    static const char *const ops[BG_BINARY_COUNT] = {[BG_ADD] = "Add",    [BG_SUBTRACT] = "Sub", [BG_MULTIPLY] = "Mul",
                                                     [BG_DIVIDE] = "Div", [BG_MAXIMUM] = "Max",  [BG_MINIMUM] = "Min"};
    const bgi_binary_attributes *f = s->op->attributes;
    const bg_type type = bgi_save_result(s, 0);
    const int32_t batch = bgi_save_batch_broadcast(s, &type);
    const char *a = bgi_save_in(s, 0), *b = bgi_save_in(s, 1);

    bgi_save_out(s, 0, bgi_save_2(s, ops[f->function], a, b), batch);
}

/* Saves alpha x + beta, in double for integers, as in the library. */
static void save_scale(bgi_saver *s)
{
    const bgi_scale_attributes *f = s->op->attributes;
    const bg_dtype dtype = bgi_save_type(s, 0).dtype;
    const bool is_float = bg_dtype_is_float(dtype);
    const char *y;

    bgi_save_widen(s);
    y = bgi_save_in(s, 0);
    if (!is_float)
        y = bgi_save_cast(s, y, BGI_ONNX_DOUBLE);
    if (f->alpha != 1.0 || f->beta == 0.0)
        y = bgi_save_2(s, "Mul", y, bgi_save_number(s, is_float ? bgi_save_dtype(s, 0) : BG_FLOAT64, f->alpha));
    if (f->beta != 0.0)
        y = bgi_save_2(s, "Add", y, bgi_save_number(s, is_float ? bgi_save_dtype(s, 0) : BG_FLOAT64, f->beta));
    if (!is_float)
        y = bgi_save_cast(s, y, bgi_onnx_dtype_element(dtype));
    bgi_save_out(s, 0, y, bgi_save_batch(s, 0));
}

static void save_cast(bgi_saver *s)
{
    const bgi_cast_attributes *to = s->op->attributes;

    bgi_save_out(s, 0, bgi_save_cast(s, bgi_save_in(s, 0), bgi_onnx_dtype_element(to->dtype)), bgi_save_batch(s, 0));
}

/* Saves (x / divisor - mean) / deviation in float. */
static void save_standardize(bgi_saver *s)
{
    const bgi_standardize_attributes *f = s->op->attributes;
    const char *y = bgi_save_in(s, 0);

    if (bgi_save_type(s, 0).dtype != BG_FLOAT32)
        y = bgi_save_cast(s, y, BGI_ONNX_FLOAT);
    y = bgi_save_2(s, "Div", y, bgi_save_number(s, BG_FLOAT32, f->divisor));
    y = bgi_save_2(s, "Sub", y, bgi_save_number(s, BG_FLOAT32, f->mean));
    y = bgi_save_2(s, "Div", y, bgi_save_number(s, BG_FLOAT32, f->deviation));
    if (f->dtype != BG_FLOAT32)
        y = bgi_save_cast(s, y, bgi_onnx_dtype_element(f->dtype));
    bgi_save_out_as_is(s, 0, y, bgi_save_batch(s, 0));
}

/* Saves a[0] + a[1] + ..., in order. */
static void save_add_n(bgi_saver *s)
{
    const bg_type type = bgi_save_result(s, 0);
    const int32_t batch = bgi_save_batch_broadcast(s, &type);
    const char *y;

    bgi_save_widen(s);
    y = bgi_save_in(s, 0);
    for (uint32_t i = 1; i < s->op->input_count; i++)
        y = bgi_save_2(s, "Add", y, bgi_save_in(s, i));
    bgi_save_out(s, 0, y, batch);
}

/* ---- comparisons: bool in the file ---- */

static void save_compare(bgi_saver *s)
{
    static const char *const ops[BGI_COMPARE_COUNT] = {[BG_LESS] = "Less",
                                                       [BG_LESS_EQUAL] = "LessOrEqual",
                                                       [BG_EQUAL] = "Equal",
                                                       [BG_NOT_EQUAL] = "Equal",
                                                       [BG_GREATER_EQUAL] = "GreaterOrEqual",
                                                       [BG_GREATER] = "Greater",
                                                       [BGI_COMPARE_LOGIC + BG_LOGIC_AND] = "And",
                                                       [BGI_COMPARE_LOGIC + BG_LOGIC_OR] = "Or",
                                                       [BGI_COMPARE_LOGIC + BG_LOGIC_XOR] = "Xor"};
    const bgi_compare_attributes *f = s->op->attributes;
    const bg_type type = bgi_save_result(s, 0);
    const int32_t batch = bgi_save_batch_broadcast(s, &type);
    const bool is_bytes = bgi_save_type(s, 0).dtype == BG_UINT8, is_logic = f->function >= BGI_COMPARE_LOGIC;
    const char *operands[2], *y;

    bgi_save_widen(s);
    for (uint32_t i = 0; i < 2; i++) {
        operands[i] = is_logic && is_bytes ? bgi_save_truth(s, i) : bgi_save_in(s, i);
        if (is_logic && !is_bytes)
            operands[i] = bgi_save_cast(s, operands[i], BGI_ONNX_BOOL);
        else if (is_bytes && !is_logic) /* engines support comparisons of few types */
            operands[i] = bgi_save_cast(s, operands[i], BGI_ONNX_INT32);
    }
    y = bgi_save_2(s, ops[f->function], operands[0], operands[1]);
    if (f->function == BG_NOT_EQUAL)
        y = bgi_save_1(s, "Not", y);
    bgi_save_out_bool(s, 0, y, batch);
}

static void save_where(bgi_saver *s)
{
    const bg_type type = bgi_save_result(s, 0);
    const int32_t batch = bgi_save_batch_broadcast(s, &type);
    const char *condition = bgi_save_truth(s, 0), *a, *b;

    if (type.dtype == BG_BFLOAT16 && s->options->opset < 16)
        bgi_save_widen(s);
    a = bgi_save_in(s, 1);
    b = bgi_save_in(s, 2);
    bgi_save_out(s, 0, bgi_save_3(s, "Where", condition, a, b), batch);
}

const bgi_save_row bgi_save_elementwise[] = {
    {&bgi_op_unary, save_unary, 0, NULL},
    {&bgi_op_binary, save_binary, 0, NULL},
    {&bgi_op_scale, save_scale, 0, NULL},
    {&bgi_op_cast, save_cast, 0, NULL},
    {&bgi_op_standardize, save_standardize, 0, NULL},
    {&bgi_op_add_n, save_add_n, 0, NULL},
    {&bgi_op_compare, save_compare, 0, NULL},
    {&bgi_op_where, save_where, 0, NULL},
    {0},
};
