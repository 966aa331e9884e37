/*
 * map_reduction.c: maps reductions along axes, positions of largest elements, and running sums.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>

typedef enum reduction {
    SUM,
    MEAN,
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    ABSOLUTE,
    ROOT,
    LOG_SUM,
    LOG_SUM_EXP,
    SQUARES
} reduction;

typedef struct axes {
    int32_t list[BG_MAX_RANK];
    uint32_t count;
    bool keeps;
} axes;

static bg_value reduce(bgi_mapper *m, bg_reduction function, bg_value x, const axes *a, bool keeps)
{
    return bg_reduce(m->graph, m->name, function, x, a->list, a->count, keeps);
}

static bg_value negative(bgi_mapper *m, bg_value x)
{
    const bg_dtype dtype = bgi_map_type(m, x).dtype;

    return bg_dtype_is_float(dtype) ? bg_elementwise_unary(m->graph, NULL, BG_NEGATE, x)
                                    : bg_subtract(m->graph, bgi_map_number(m, dtype, 0.0), x);
}

/* Multiplies the elements along the axes: repeatedly the first half with the second half, so that the order is the same
 * under every strategy. */
static bg_value multiply_all(bgi_mapper *m, bg_value x, const axes *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const int32_t axis = a->list[i];
        int64_t dim;

        for (dim = bgi_map_type(m, x).dims[axis]; dim > 1 && bgi_map_is_well(m); dim = dim / 2 + dim % 2) {
            const bg_value low = bg_slice(m->graph, NULL, x, axis, 0, dim / 2, 1);
            const bg_value high = bg_slice(m->graph, NULL, x, axis, dim / 2, dim / 2 * 2, 1);
            bg_value parts[2] = {bg_multiply(m->graph, low, high), {0}};

            if (dim % 2 != 0)
                parts[1] = bg_slice(m->graph, NULL, x, axis, dim - 1, dim, 1);
            x = dim % 2 != 0 ? bg_concat(m->graph, NULL, parts, 2, axis) : parts[0];
        }
    }
    return x;
}

static bg_value without(bgi_mapper *m, bg_value x, const axes *a)
{
    const bg_type type = bgi_map_type(m, x);
    int64_t dims[BG_MAX_RANK];
    uint32_t rank = 0, gone = 0;

    for (uint32_t i = 0; i < a->count; i++)
        gone |= 1u << a->list[i];
    for (uint32_t i = 0; i < type.rank; i++)
        if ((gone >> i & 1) == 0)
            dims[rank++] = type.dims[i];
    return a->keeps ? x : bgi_map_reshape(m, x, rank, dims);
}

static bg_value function_of(bgi_mapper *m, reduction kind, bg_value x, const axes *a)
{
    bg_graph *g = m->graph;
    bg_value largest;

    switch (kind) {
    case SUM:
        return reduce(m, BG_REDUCE_SUM, x, a, a->keeps);
    case MEAN:
        return reduce(m, BG_REDUCE_MEAN, x, a, a->keeps);
    case MAXIMUM:
        return reduce(m, BG_REDUCE_MAX, x, a, a->keeps);
    case MINIMUM:
        return negative(m, reduce(m, BG_REDUCE_MAX, negative(m, x), a, a->keeps));
    case PRODUCT:
        return without(m, multiply_all(m, x, a), a);
    case ABSOLUTE:
        return reduce(m, BG_REDUCE_SUM, bg_elementwise_unary(g, NULL, BG_ABS, x), a, a->keeps);
    case ROOT:
        x = reduce(m, BG_REDUCE_SUM, bg_elementwise_unary(g, NULL, BG_SQUARE, x), a, a->keeps);
        return bg_elementwise_unary(g, NULL, BG_SQRT, x);
    case LOG_SUM:
        return bg_elementwise_unary(g, NULL, BG_LOG, reduce(m, BG_REDUCE_SUM, x, a, a->keeps));
    case SQUARES:
        return reduce(m, BG_REDUCE_SUM, bg_elementwise_unary(g, NULL, BG_SQUARE, x), a, a->keeps);
    default: /* subtracts the largest element, so that no exponential overflows */
        largest = reduce(m, BG_REDUCE_MAX, x, a, true);
        x = bg_elementwise_unary(g, NULL, BG_EXP, bg_subtract(g, x, largest));
        x = bg_elementwise_unary(g, NULL, BG_LOG, reduce(m, BG_REDUCE_SUM, x, a, true));
        return without(m, bg_add(g, x, largest), a);
    }
}

/* Reads the axes from an attribute or operand; selects all axes when neither is given. */
static bool read_axes(bgi_mapper *m, uint32_t rank, int64_t last_attribute, axes *out)
{
    int64_t given[BG_MAX_RANK];
    uint32_t count, seen = 0;

    if (!bgi_map_ints_of(m, "axes", last_attribute, 1, given, &count, BG_MAX_RANK))
        return false;
    out->keeps = bgi_map_int(m, "keepdims", 1) != 0;
    out->count = 0;
    if (count == 0)
        for (uint32_t i = 0; i < rank; i++)
            out->list[out->count++] = (int32_t)i;
    for (uint32_t i = 0; i < count; i++) {
        if (!bgi_map_axis(m, given[i], rank, false, &out->list[i]))
            return false;
        if ((seen >> out->list[i] & 1) != 0)
            return bgi_map_refuse(m, "axis %" PRId64 " is named twice", given[i]);
        seen |= 1u << out->list[i];
        out->count++;
    }
    return true;
}

static bool map_reduce(bgi_mapper *m)
{
    const reduction kind = (reduction)bgi_map_parameter(m);
    const int64_t last_attribute = kind == SUM ? 12 : 17;
    const int32_t element = bgi_map_element(m, 0);
    bg_value x = bgi_map_in(m, 0);
    bg_type type = bgi_map_type(m, x);
    axes a;

    if (bg_value_is_null(x) || !read_axes(m, type.rank, last_attribute, &a))
        return false;
    if (m->opset > last_attribute && bgi_map_int(m, "noop_with_empty_axes", 0) != 0 &&
        (!bgi_map_given(m, 1) || bgi_map_if_known(m, 1)->count == 0))
        return bgi_map_pass(m);
    if (type.rank == 0)
        return kind == SUM || kind == MEAN || kind == MAXIMUM || kind == MINIMUM || kind == PRODUCT
                   ? bgi_map_pass(m)
                   : bgi_map_refuse(m, "x is a scalar but must have at least one dimension");
    if (!bg_dtype_is_float(type.dtype)) {
        if (kind != SUM && kind != MAXIMUM && kind != MINIMUM && kind != PRODUCT)
            return bgi_map_refuse(m, "its elements are %s but only floats are supported",
                                  bgi_onnx_element_name(element));
        if (element != BGI_ONNX_INT32 && element != BGI_ONNX_INT64 && (kind == SUM || kind == PRODUCT))
            return bgi_map_refuse(m, "its elements have type %s, whose range the result may leave",
                                  bgi_onnx_element_name(element));
        x = bgi_map_cast(m, x, type.dtype == BG_INT64 ? BG_INT64 : BG_INT32);
    }
    x = function_of(m, kind, x, &a);
    return bgi_map_out_as(m, 0, bgi_map_cast(m, x, type.dtype), element);
}

/* Moves `axis` of x to the end or, if `is_back` is true, the last axis back to `axis`. */
static bg_value axis_to_end(bgi_mapper *m, bg_value x, int32_t axis, bool is_back)
{
    const uint32_t rank = bgi_map_type(m, x).rank;
    uint32_t permutation[BG_MAX_RANK], at = 0;

    if ((uint32_t)axis + 1 == rank)
        return x;
    for (uint32_t i = 0; i < rank; i++)
        if (is_back)
            permutation[i] = i < (uint32_t)axis ? i : i == (uint32_t)axis ? rank - 1 : i - 1;
        else if (i != (uint32_t)axis)
            permutation[at++] = i;
    if (!is_back)
        permutation[at] = (uint32_t)axis;
    return bg_transpose(m->graph, NULL, x, permutation);
}

static bool map_arg(bgi_mapper *m)
{
    const bool is_least = bgi_map_parameter(m) != 0, is_last = bgi_map_int(m, "select_last_index", 0) != 0;
    const bool keeps = bgi_map_int(m, "keepdims", 1) != 0;
    bg_value x = bgi_map_in(m, 0), y;
    const bg_type type = bgi_map_type(m, x);
    int64_t dims[BG_MAX_RANK];
    uint32_t rank = 0;
    int32_t axis;

    if (bg_value_is_null(x) || !bgi_map_axis(m, bgi_map_int(m, "axis", 0), type.rank, false, &axis))
        return false;
    if (type.dtype == BG_INT64)
        return bgi_map_refuse(m, "its elements have type %s, which floats cannot represent",
                              bgi_onnx_element_name(bgi_map_element(m, 0)));
    if (!bg_dtype_is_float(type.dtype))
        x = bg_cast(m->graph, NULL, x, BG_FLOAT64);
    if (is_least)
        x = bg_elementwise_unary(m->graph, NULL, BG_NEGATE, x);
    x = axis_to_end(m, x, axis, false);
    if (is_last)
        x = bg_flip(m->graph, NULL, x, -1);
    y = bgi_map_cast(m, bg_argmax(m->graph, m->name, x), BG_INT64);
    if (is_last)
        y = bg_subtract(m->graph, bgi_map_number(m, BG_INT64, (double)(type.dims[axis] - 1)), y);
    for (uint32_t i = 0; i < type.rank; i++)
        if (i != (uint32_t)axis)
            dims[rank++] = type.dims[i];
        else if (keeps)
            dims[rank++] = 1;
    return bgi_map_out_as(m, 0, bgi_map_reshape(m, y, rank, dims), BGI_ONNX_INT64);
}

static bool map_hardmax(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    bg_value y;
    int32_t axis;

    if (bg_value_is_null(x) ||
        !bgi_map_axis(m, bgi_map_int(m, "axis", m->opset < 13 ? 1 : -1), type.rank, false, &axis))
        return false;
    if (m->opset < 13 && (uint32_t)axis + 1 != type.rank)
        return bgi_map_refuse(m, "axis %d is not the last of %u dimensions, which this opset does not support", axis,
                              type.rank);
    y = bg_argmax(m->graph, m->name, axis_to_end(m, x, axis, false));
    y = bg_one_hot(m->graph, NULL, y, type.dims[axis], type.dtype);
    return bgi_map_out(m, 0, axis_to_end(m, y, axis, true));
}

static bool map_top_k(bgi_mapper *m)
{
    const bool is_smallest = m->opset > 10 && bgi_map_int(m, "largest", 1) == 0;
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    int64_t k = bgi_map_int(m, "k", 0);
    bg_value values, places = {0};
    uint32_t count;
    int32_t axis;

    if (bg_value_is_null(x) || !bgi_map_axis(m, bgi_map_int(m, "axis", -1), type.rank, false, &axis))
        return false;
    if (m->opset > 9 && (!bgi_map_known_ints(m, 1, &k, &count, 1) || count != 1))
        return bgi_map_refuse(m, "input 1, k, must be a single known integer");
    if (k < 1 || k > type.dims[axis])
        return bgi_map_refuse(m, "k is %" PRId64 " but must be 1 to %" PRId64, k, type.dims[axis]);
    values = bg_top_k(m->graph, m->name, axis_to_end(m, x, axis, false), k, is_smallest, &places);
    if (!bgi_map_is_well(m) || !bgi_map_out(m, 0, axis_to_end(m, values, axis, true)))
        return false;
    return bgi_map_out_as(m, 1, axis_to_end(m, bgi_map_cast(m, places, BG_INT64), axis, true), BGI_ONNX_INT64);
}

static bool map_cumulative_sum(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    int64_t given;
    uint32_t count;
    int32_t axis;

    if (bg_value_is_null(x) || !bgi_map_known_ints(m, 1, &given, &count, 1) || count != 1)
        return bgi_map_refuse(m, "input 1, the axis, must be a single known integer");
    if (!bgi_map_axis(m, given, bgi_map_type(m, x).rank, false, &axis))
        return false;
    return bgi_map_out(m, 0,
                       bg_cumulative_sum(m->graph, m->name, x, axis, bgi_map_int(m, "exclusive", 0) != 0,
                                         bgi_map_int(m, "reverse", 0) != 0));
}

const bgi_mapping bgi_onnx_reduction[] = {
    {"ArgMax", map_arg, 0},
    {"ArgMin", map_arg, 1},
    {"CumSum", map_cumulative_sum, 0},
    {"Hardmax", map_hardmax, 0},
    {"ReduceL1", map_reduce, ABSOLUTE},
    {"ReduceL2", map_reduce, ROOT},
    {"ReduceLogSum", map_reduce, LOG_SUM},
    {"ReduceLogSumExp", map_reduce, LOG_SUM_EXP},
    {"ReduceMax", map_reduce, MAXIMUM},
    {"ReduceMean", map_reduce, MEAN},
    {"ReduceMin", map_reduce, MINIMUM},
    {"ReduceProd", map_reduce, PRODUCT},
    {"ReduceSum", map_reduce, SUM},
    {"ReduceSumSquare", map_reduce, SQUARES},
    {"TopK", map_top_k, 0},
    {0},
};
