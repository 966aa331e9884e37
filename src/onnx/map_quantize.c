/*
 * map_quantize.c: maps ops on 8-bit integers that represent floats: x = (q - zero point) scale. These ops are for
 * inference: no gradient flows through rounded values.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

/* Returns the scale or zero point in float32, shaped for x: one number, or a vector along the axis. */
static bg_value beside(bgi_mapper *m, uint32_t input, const bg_type *x)
{
    bg_value v = bgi_map_cast(m, bgi_map_in(m, input), BG_FLOAT32);
    const bg_type type = bgi_map_type(m, v);
    int64_t dims[BG_MAX_RANK] = {1, 1, 1, 1, 1, 1};
    int32_t axis;

    if (bg_value_is_null(v) || bg_type_element_count(&type) == 1)
        return bgi_map_reshape(m, v, 0, NULL);
    if (type.rank != 1 || !bgi_map_axis(m, bgi_map_int(m, "axis", 1), x->rank, false, &axis)) {
        bgi_map_refuse(m, "input %u must be a number or a vector", input);
        return (bg_value){0};
    }
    dims[axis] = type.dims[0];
    return bgi_map_reshape(m, v, x->rank, dims);
}

static bool check_element(bgi_mapper *m, int32_t element)
{
    return element == BGI_ONNX_UINT8 || element == BGI_ONNX_INT8 ||
           bgi_map_refuse(m, "quantized elements have type %s but must be int8 or uint8",
                          bgi_onnx_element_name(element));
}

/* Rounds x, adds the zero point, and clamps the sum to the range of the type. */
static bg_value round_to(bgi_mapper *m, bg_value x, bg_value zero, int32_t element)
{
    const bool is_signed = element == BGI_ONNX_INT8;

    x = bg_elementwise_unary(m->graph, m->name, BG_ROUND, x);
    if (!bg_value_is_null(zero))
        x = bg_add(m->graph, x, zero);
    return bg_cast(m->graph, NULL, bg_clamp(m->graph, x, is_signed ? -128.0 : 0.0, is_signed ? 127.0 : 255.0),
                   bgi_onnx_element_dtype(element));
}

static bool map_quantize(bgi_mapper *m)
{
    const int32_t element = bgi_map_given(m, 2) ? bgi_map_element(m, 2) : BGI_ONNX_UINT8;
    const bg_value x = bgi_map_cast(m, bgi_map_in(m, 0), BG_FLOAT32);
    const bg_type type = bgi_map_type(m, x);
    bg_value scale, zero;

    if (bg_value_is_null(x) || !check_element(m, element))
        return false;
    scale = beside(m, 1, &type);
    zero = beside(m, 2, &type);
    if (bg_value_is_null(scale))
        return bgi_map_refuse(m, "input 1, the scale, is missing");
    return bgi_map_out_as(m, 0, round_to(m, bg_divide(m->graph, x, scale), zero, element), element);
}

static bool map_dequantize(bgi_mapper *m)
{
    bg_value x = bgi_map_cast(m, bgi_map_in(m, 0), BG_FLOAT32), scale, zero;
    const bg_type type = bgi_map_type(m, x);

    if (bg_value_is_null(x))
        return false;
    scale = beside(m, 1, &type);
    zero = beside(m, 2, &type);
    if (bg_value_is_null(scale))
        return bgi_map_refuse(m, "input 1, the scale, is missing");
    if (!bg_value_is_null(zero))
        x = bg_subtract(m->graph, x, zero);
    return bgi_map_out_as(m, 0, bg_multiply(m->graph, x, scale), BGI_ONNX_FLOAT);
}

static bool map_dynamic_quantize(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    bg_graph *g = m->graph;
    bg_value zero, low, high, scale, point;

    if (bg_value_is_null(x) || bgi_map_type(m, x).dtype != BG_FLOAT32)
        return bgi_map_refuse(m, "x has elements of type %s but must have floats",
                              bgi_onnx_element_name(bgi_map_element(m, 0)));
    zero = bgi_map_number(m, BG_FLOAT32, 0.0);
    high = bg_reduce(g, NULL, BG_REDUCE_MAX, x, NULL, 0, false);
    low = bg_reduce(g, NULL, BG_REDUCE_MAX, bg_elementwise_unary(g, NULL, BG_NEGATE, x), NULL, 0, false);
    high = bg_elementwise_binary(g, NULL, BG_MAXIMUM, high, zero);
    low = bg_elementwise_binary(g, NULL, BG_MAXIMUM, low,
                                zero); /* minus the smallest element; 0 if that element is positive */
    scale = bg_divide(g, bg_add(g, high, low), bgi_map_number(m, BG_FLOAT32, 255.0));
    point = bg_elementwise_unary(g, NULL, BG_ROUND, bg_clamp(g, bg_divide(g, low, scale), 0.0, 255.0));
    return bgi_map_out_as(m, 0, round_to(m, bg_divide(g, x, scale), point, BGI_ONNX_UINT8), BGI_ONNX_UINT8) &&
           bgi_map_out_as(m, 1, scale, BGI_ONNX_FLOAT) &&
           bgi_map_out_as(m, 2, bg_cast(g, NULL, point, BG_UINT8), BGI_ONNX_UINT8);
}

/* Maps QLinearMatMul. Its operands are a, its scale and zero point; b, its scale and zero point; the result's scale and
 * zero point. */
static bool map_quantized_matmul(bgi_mapper *m)
{
    const int32_t element = bgi_map_element(m, 7);
    bg_value operands[2], scale, y;

    if (!check_element(m, element))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const bg_value x = bgi_map_cast(m, bgi_map_in(m, 3 * i), BG_FLOAT32);
        const bg_value zero = bgi_map_cast(m, bgi_map_in(m, 3 * i + 2), BG_FLOAT32);
        const bg_type type = bgi_map_type(m, zero);

        if (bg_value_is_null(x) || bg_value_is_null(zero) || bg_type_element_count(&type) != 1)
            return bgi_map_refuse(m, "input %u must be a single number", 3 * i + 2);
        operands[i] = bg_subtract(m->graph, x, bgi_map_reshape(m, zero, 0, NULL));
    }
    for (uint32_t i = 1; i < 7; i += i == 1 ? 3 : 2) {
        const bg_type type = bgi_map_type(m, bgi_map_in(m, i));

        if (bg_type_element_count(&type) != 1 || type.dtype == BG_DTYPE_NONE)
            return bgi_map_refuse(m, "input %u must be a single number", i);
    }
    scale = bg_multiply(m->graph, bgi_map_reshape(m, bgi_map_in(m, 1), 0, NULL),
                        bgi_map_reshape(m, bgi_map_in(m, 4), 0, NULL));
    scale = bg_divide(m->graph, scale, bgi_map_reshape(m, bgi_map_in(m, 6), 0, NULL));
    y = bg_matmul(m->graph, m->name, operands[0], operands[1], false, false);
    y = bg_multiply(m->graph, y, scale);
    return bgi_map_out_as(
        m, 0, round_to(m, y, bgi_map_reshape(m, bgi_map_cast(m, bgi_map_in(m, 7), BG_FLOAT32), 0, NULL), element),
        element);
}

const bgi_mapping bgi_onnx_quantize[] = {
    {"DequantizeLinear", map_dequantize, 0},
    {"DynamicQuantizeLinear", map_dynamic_quantize, 0},
    {"QLinearMatMul", map_quantized_matmul, 0},
    {"QuantizeLinear", map_quantize, 0},
    {0},
};
