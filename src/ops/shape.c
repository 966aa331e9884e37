/*
 * shape.c: implements the checks that shape rules share, and their messages.
 */
#include "ops/shape.h"
#include "graph/graph.h"

bg_status bgi_shape_float(const bg_type *type, const char *operand, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (bg_dtype_is_float(type->dtype))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "%s is %s; its elements must be float32, bfloat16, float16 or float64",
                        operand, bg_type_text(type, text));
}

bg_status bgi_shape_number(const bg_type *type, const char *operand, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (bg_dtype_is_float(type->dtype) || type->dtype == BG_INT32 || type->dtype == BG_INT64)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE,
                        "%s is %s; its elements must be float32, bfloat16, float16, float64, int32 or int64", operand,
                        bg_type_text(type, text));
}

bg_status bgi_shape_dtype(const bg_type *type, const char *operand, bg_dtype wanted, const char *because,
                          bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (type->dtype == wanted)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "%s is %s; its elements must be %s (%s)", operand,
                        bg_type_text(type, text), bg_dtype_name(wanted), because);
}

bg_status bgi_shape_rank(const bg_type *type, const char *operand, uint32_t wanted, const char *layout, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (type->rank == wanted)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "%s is %s; it must have %u dimensions, %s", operand,
                        bg_type_text(type, text), (unsigned)wanted, layout);
}

bg_status bgi_shape_minimum_rank(const bg_type *type, const char *operand, uint32_t least, const char *layout,
                                 bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (type->rank >= least)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "%s is %s; it must have at least %u dimensions, %s", operand,
                        bg_type_text(type, text), (unsigned)least, layout);
}

bg_status bgi_shape_dim(const bg_type *type, const char *operand, uint32_t dim, int64_t wanted, const char *because,
                        bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (dim < type->rank && type->dims[dim] == wanted)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "%s is %s; its dimension %u must be %lld (%s)", operand,
                        bg_type_text(type, text), (unsigned)dim, (long long)wanted, because);
}

bg_status bgi_shape_equal(const bg_type *type, const char *operand, const bg_type *wanted, const char *because,
                          bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES], wanted_text[BG_TYPE_TEXT_BYTES];

    if (bg_type_equal(type, wanted))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "%s is %s; it must be %s (%s)", operand, bg_type_text(type, text),
                        bg_type_text(wanted, wanted_text), because);
}

bg_status bgi_shape_same_dims(const bg_type *type, const char *operand, const bg_type *wanted, const char *because,
                              bg_error *error)
{
    bg_type converted = *wanted;

    converted.dtype = type->dtype;
    return bgi_shape_equal(type, operand, &converted, because, error);
}

bg_status bgi_shape_axis(const bg_type *type, const char *operand, int32_t axis, uint32_t *out_axis, bg_error *error)
{
    const int64_t rank = type->rank;
    char text[BG_TYPE_TEXT_BYTES];

    if (rank == 0)
        return bg_error_set(error, BG_ERROR_SHAPE, "%s is %s: a scalar has no axis %d", operand,
                            bg_type_text(type, text), (int)axis);
    if (axis < -rank || axis >= rank)
        return bg_error_set(error, BG_ERROR_SHAPE, "%s is %s; axis %d must be between %lld and %lld", operand,
                            bg_type_text(type, text), (int)axis, (long long)-rank, (long long)rank - 1);
    *out_axis = (uint32_t)(axis < 0 ? axis + rank : axis);
    return BG_OK;
}

bg_dtype bgi_statistics_dtype(bg_dtype dtype)
{
    return dtype == BG_FLOAT64 ? BG_FLOAT64 : BG_FLOAT32;
}

bg_type bgi_type_rows(const bg_type *type, bg_dtype dtype)
{
    return bg_type_make(dtype, type->rank - 1, type->dims);
}

double bgi_type_elements(const bg_type *type)
{
    return type->dtype == BG_DTYPE_NONE ? 0.0 : (double)bg_type_element_count(type);
}

bg_cost bgi_cost_once(const bg_op_signature *op, double flops)
{
    bg_cost cost = {.flops = flops};

    for (uint32_t i = 0; i < op->input_count; i++)
        cost.bytes_read += bgi_type_elements(&op->types[i]) * (double)bg_dtype_size_bytes(op->types[i].dtype);
    for (uint32_t i = op->input_count; i < op->input_count + op->output_count; i++)
        cost.bytes_written += bgi_type_elements(&op->types[i]) * (double)bg_dtype_size_bytes(op->types[i].dtype);
    return cost;
}

bg_status bgi_gradient_of_result(const bg_op_gradient *gradient, bg_value *out, bg_error *error)
{
    for (uint32_t i = 1; i < gradient->op.output_count; i++)
        if (!bg_value_is_null(gradient->output_gradients[i]))
            return bg_error_set(
                error, BG_ERROR_UNSUPPORTED,
                "output %u is used in a loss, but it has no gradient; only output 0 can be used in a loss",
                (unsigned)i);
    if (bg_value_is_null(gradient->output_gradients[0]))
        return bg_error_set(error, BG_ERROR_INTERNAL, "the gradient rule was called without a gradient of output 0");
    *out = gradient->output_gradients[0];
    return BG_OK;
}

bg_status bgi_shape_same_dtype(const bg_type *a, const char *operand_a, const bg_type *b, const char *operand_b,
                               bg_error *error)
{
    char text_a[BG_TYPE_TEXT_BYTES], text_b[BG_TYPE_TEXT_BYTES];

    if (a->dtype == b->dtype)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE,
                        "%s is %s but %s is %s; they must have one element type (cast one of them)", operand_a,
                        bg_type_text(a, text_a), operand_b, bg_type_text(b, text_b));
}

bg_status bgi_shape_broadcast(const bg_type *a, const char *operand_a, const bg_type *b, const char *operand_b,
                              uint32_t kept, bg_type *out, bg_error *error)
{
    const uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    char text_a[BG_TYPE_TEXT_BYTES], text_b[BG_TYPE_TEXT_BYTES];
    bg_type result = {.dtype = a->dtype, .rank = rank};

    for (uint32_t i = kept + 1; i <= rank; i++) {
        const int64_t dim_a = i <= a->rank ? a->dims[a->rank - i] : 1;
        const int64_t dim_b = i <= b->rank ? b->dims[b->rank - i] : 1;

        if (dim_a != dim_b && dim_a != 1 && dim_b != 1)
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "%s %s and %s %s do not broadcast: dimension %u from the end is %lld and %lld; it must "
                                "be equal, or 1 in one of them",
                                operand_a, bg_type_text(a, text_a), operand_b, bg_type_text(b, text_b), (unsigned)i,
                                (long long)dim_a, (long long)dim_b);
        result.dims[rank - i] = dim_a > dim_b ? dim_a : dim_b;
    }
    *out = result;
    return BG_OK;
}

bool bgi_type_same_dims(const bg_type *a, const bg_type *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

bool bgi_graph_axis(bg_graph *graph, const bg_op_type *op_type, const char *name, bg_value x, int32_t axis,
                    uint32_t *out_axis)
{
    const bg_type type = bg_graph_type(graph, x);
    bg_error error = {0};

    *out_axis = 0;
    if (bg_value_is_null(x) || bgi_shape_axis(&type, "x", axis, out_axis, &error) == BG_OK)
        return true;
    bgi_graph_fail_op(graph, op_type->name, name, error.status, "%s", error.message);
    return false;
}

bg_status bgi_shape_reduction(bg_loss_reduction reduction, bg_error *error)
{
    if ((unsigned)reduction <= BG_LOSS_NONE)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "reduction is %d; it must be BG_LOSS_MEAN, BG_LOSS_SUM or BG_LOSS_NONE", (int)reduction);
}
