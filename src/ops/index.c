/*
 * index.c: defines the ops that gather and scatter elements by ids along an axis, and that find the largest elements of
 * each row. Ids are data that are known only at run time, so an id outside the axis is not an error here (brigade/ops.h
 * defines the result).
 */
#include <brigade/ops.h>

#include <string.h>

#include "graph/graph.h"
#include "kernels/index/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_gather, GATHER)
BGI_OP_KERNEL(select_scatter, SCATTER)
BGI_OP_KERNEL(select_gather_elements, GATHER_ELEMENTS)
BGI_OP_KERNEL(select_scatter_elements, SCATTER_ELEMENTS)
BGI_OP_KERNEL(select_one_hot, ONE_HOT)
BGI_OP_KERNEL(select_top_k, TOP_K)

static bg_status check_ids(const bg_type *ids, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (ids->dtype == BG_INT32 || ids->dtype == BG_INT64 || ids->dtype == BG_UINT8)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "ids is %s; its elements must be int32, int64 or uint8",
                        bg_type_text(ids, text));
}

/* ---- gather: x, ids -> y; scatter: dy, ids -> dx ---- */

static bg_status infer_rows(const bg_type *x, const bg_type *ids, uint32_t axis, bg_type *out, bg_error *error)
{
    char x_text[BG_TYPE_TEXT_BYTES], ids_text[BG_TYPE_TEXT_BYTES];
    bg_type y = {.dtype = x->dtype};

    BGI_TRY(bgi_shape_minimum_rank(x, "x", axis + 1, "as axis says", error));
    BGI_TRY(check_ids(ids, error));
    if (x->rank - 1 + ids->rank > BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "x is %s and ids is %s: the result would have %u dimensions, above the limit of %d",
                            bg_type_text(x, x_text), bg_type_text(ids, ids_text), x->rank - 1 + ids->rank, BG_MAX_RANK);
    for (uint32_t i = 0; i < axis; i++)
        y.dims[y.rank++] = x->dims[i];
    for (uint32_t i = 0; i < ids->rank; i++)
        y.dims[y.rank++] = ids->dims[i];
    for (uint32_t i = axis + 1; i < x->rank; i++)
        y.dims[y.rank++] = x->dims[i];
    *out = y;
    return BG_OK;
}

static bg_status infer_gather(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_index_attributes *attributes = op->attributes;

    return infer_rows(&op->types[0], &op->types[1], attributes->axis, &outputs[0], error);
}

static bg_status infer_scatter(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_index_attributes *attributes = op->attributes;
    bg_type y;

    BGI_TRY(bg_type_validate(&attributes->whole, error));
    BGI_TRY(bgi_shape_float(&op->types[0], "updates", error));
    BGI_TRY(infer_rows(&attributes->whole, &op->types[1], attributes->axis, &y, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "updates", &y, "the shape that the ids select from the whole", error));
    outputs[0] = attributes->whole;
    return BG_OK;
}

/* Adds the gradient, an op of type `other`: gather is the gradient of scatter, and scatter is the gradient of
 * gather. */
static bg_status differentiate(bg_op_gradient *gradient, const bg_op_type *other, bg_error *error)
{
    bgi_index_attributes attributes = *(const bgi_index_attributes *)gradient->op.attributes;
    const bg_value inputs[] = {gradient->output_gradients[0], gradient->inputs[1]};

    attributes.whole = gradient->op.types[0];
    if (gradient->needs[0])
        gradient->input_gradients[0] = bg_graph_add(gradient->graph, other, NULL, inputs, 2, &attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

static bg_status differentiate_gather(bg_op_gradient *gradient, bg_error *error)
{
    return differentiate(gradient, &bgi_op_scatter, error);
}

static bg_status differentiate_scatter(bg_op_gradient *gradient, bg_error *error)
{
    return differentiate(gradient, &bgi_op_gather, error);
}

static bg_status differentiate_gather_elements(bg_op_gradient *gradient, bg_error *error)
{
    return differentiate(gradient, &bgi_op_scatter_elements, error);
}

static bg_status differentiate_scatter_elements(bg_op_gradient *gradient, bg_error *error)
{
    return differentiate(gradient, &bgi_op_gather_elements, error);
}

/* Counts only the elements that are gathered. */
static bg_cost cost_gather(const bg_op_signature *op)
{
    bg_cost cost = bgi_cost_once(op, 0.0);

    cost.bytes_read = cost.bytes_written + (double)bg_type_size_bytes(&op->types[1]);
    return cost;
}

static bg_cost cost_scatter(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_gather = {
    BG_OP_TYPE_DEFAULTS,   .name = "gather",
    .minimum_inputs = 2,   .maximum_inputs = 2,
    .output_count = 1,     .attributes_bytes = sizeof(bgi_index_attributes),
    .infer = infer_gather, .gradient = differentiate_gather,
    .cost = cost_gather,   .kernel = select_gather,
};

const bg_op_type bgi_op_scatter = {
    BG_OP_TYPE_DEFAULTS,    .name = "scatter",
    .minimum_inputs = 2,    .maximum_inputs = 2,
    .output_count = 1,      .attributes_bytes = sizeof(bgi_index_attributes),
    .infer = infer_scatter, .gradient = differentiate_scatter,
    .cost = cost_scatter,   .kernel = select_scatter,
};

/* ---- gather and scatter with an id for each element ---- */

static bg_status infer_elements(const bg_type *x, const bg_type *ids, uint32_t axis, bg_type *out, bg_error *error)
{
    bg_type wanted = *x;

    BGI_TRY(bgi_shape_minimum_rank(x, "x", axis + 1, "as axis says", error));
    BGI_TRY(check_ids(ids, error));
    wanted.dtype = ids->dtype;
    if (ids->rank == x->rank)
        wanted.dims[axis] = ids->dims[axis];
    BGI_TRY(bgi_shape_equal(ids, "ids", &wanted, "x's shape, except along the axis", error));
    *out = *ids;
    out->dtype = x->dtype;
    return BG_OK;
}

static bg_status infer_gather_elements(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_index_attributes *attributes = op->attributes;

    return infer_elements(&op->types[0], &op->types[1], attributes->axis, &outputs[0], error);
}

static bg_status infer_scatter_elements(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_index_attributes *attributes = op->attributes;
    bg_type y;

    BGI_TRY(bg_type_validate(&attributes->whole, error));
    BGI_TRY(bgi_shape_float(&op->types[0], "updates", error));
    BGI_TRY(infer_elements(&attributes->whole, &op->types[1], attributes->axis, &y, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "updates", &y, "the shape that the ids select from the whole", error));
    outputs[0] = attributes->whole;
    return BG_OK;
}

const bg_op_type bgi_op_gather_elements = {
    BG_OP_TYPE_DEFAULTS,
    .name = "gather_elements",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_index_attributes),
    .infer = infer_gather_elements,
    .gradient = differentiate_gather_elements,
    .cost = cost_gather,
    .kernel = select_gather_elements,
};

const bg_op_type bgi_op_scatter_elements = {
    BG_OP_TYPE_DEFAULTS,
    .name = "scatter_elements",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_index_attributes),
    .infer = infer_scatter_elements,
    .gradient = differentiate_scatter_elements,
    .cost = cost_scatter,
    .kernel = select_scatter_elements,
};

/* ---- builders ---- */

static bg_value add_indexed(bg_graph *graph, const bg_op_type *type, const char *name, bg_value first, bg_value x,
                            int32_t axis, bg_value ids)
{
    const bg_value inputs[] = {first, ids};
    bgi_index_attributes attributes;

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    if (!bgi_graph_axis(graph, type, name, x, axis, &attributes.axis))
        return (bg_value){0};
    attributes.whole = bg_graph_type(graph, x);
    return bg_graph_add(graph, type, name, inputs, 2, &attributes, NULL);
}

bg_value bg_gather(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids)
{
    return add_indexed(graph, &bgi_op_gather, name, x, x, axis, ids);
}

bg_value bg_gather_elements(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids)
{
    return add_indexed(graph, &bgi_op_gather_elements, name, x, x, axis, ids);
}

bg_value bg_scatter_add(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids, bg_value updates)
{
    return bg_elementwise_binary(graph, name, BG_ADD, x,
                                 add_indexed(graph, &bgi_op_scatter, NULL, updates, x, axis, ids));
}

bg_value bg_scatter_elements_add(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids,
                                 bg_value updates)
{
    return bg_elementwise_binary(graph, name, BG_ADD, x,
                                 add_indexed(graph, &bgi_op_scatter_elements, NULL, updates, x, axis, ids));
}

/* ---- one hot: ids -> y ---- */

static bg_status infer_one_hot(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_one_hot_attributes *attributes = op->attributes;
    const bg_type *ids = &op->types[0];

    if (attributes->classes < 1 || attributes->classes > (ids->dtype == BG_UINT8 ? 256 : INT32_MAX) ||
        ids->rank >= BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "classes is %lld and ids have %u dimensions; classes must be at least 1 (and at most 256 "
                            "for uint8 ids), and ids must have at most %d dimensions",
                            (long long)attributes->classes, ids->rank, BG_MAX_RANK - 1);
    if (check_ids(ids, NULL) != BG_OK)
        return bg_error_set(error, BG_ERROR_SHAPE, "ids have elements of %s; they must be int32, int64 or uint8",
                            bg_dtype_name(ids->dtype));
    if (bg_dtype_size_bytes(attributes->dtype) == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "element type %d is not one of bg_dtype", (int)attributes->dtype);
    outputs[0] = *ids;
    outputs[0].dims[outputs[0].rank++] = attributes->classes;
    outputs[0].dtype = attributes->dtype;
    return BG_OK;
}

const bg_op_type bgi_op_one_hot = {
    BG_OP_TYPE_DEFAULTS,    .name = "one_hot",        .minimum_inputs = 1,
    .maximum_inputs = 1,    .output_count = 1,        .attributes_bytes = sizeof(bgi_one_hot_attributes),
    .infer = infer_one_hot, .kernel = select_one_hot,
};

bg_value bg_one_hot(bg_graph *graph, const char *name, bg_value ids, int64_t classes, bg_dtype dtype)
{
    const bgi_one_hot_attributes attributes = {.classes = classes, .dtype = dtype};

    return bg_graph_add(graph, &bgi_op_one_hot, name, &ids, 1, &attributes, NULL);
}

/* ---- the largest: x -> values, numbers ---- */

static bg_status infer_top_k(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_top_k_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[0];
    char text[BG_TYPE_TEXT_BYTES];

    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 1, "[..., C]", error));
    if (attributes->k < 1 || attributes->k > x->dims[x->rank - 1])
        return bg_error_set(error, BG_ERROR_INVALID,
                            "k is %lld; it must be at least 1 and at most the last dimension of x, %s",
                            (long long)attributes->k, bg_type_text(x, text));
    outputs[0] = *x;
    outputs[0].dims[x->rank - 1] = attributes->k;
    outputs[1] = outputs[0];
    outputs[1].dtype = BG_INT32;
    return BG_OK;
}

static bg_status differentiate_top_k(bg_op_gradient *gradient, bg_error *error)
{
    const bg_value inputs[] = {gradient->output_gradients[0], gradient->outputs[1]};
    bgi_index_attributes attributes;

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.axis = gradient->op.types[0].rank - 1;
    attributes.whole = gradient->op.types[0];
    if (gradient->needs[0] && !bg_value_is_null(inputs[0]))
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_scatter_elements, NULL, inputs, 2, &attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_top_k(const bg_op_signature *op)
{
    return bgi_cost_once(op, 2.0 * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_top_k = {
    BG_OP_TYPE_DEFAULTS,  .name = "top_k",
    .minimum_inputs = 1,  .maximum_inputs = 1,
    .output_count = 2,    .attributes_bytes = sizeof(bgi_top_k_attributes),
    .infer = infer_top_k, .gradient = differentiate_top_k,
    .cost = cost_top_k,   .kernel = select_top_k,
};

bg_value bg_top_k(bg_graph *graph, const char *name, bg_value x, int64_t k, bool smallest, bg_value *out_numbers)
{
    const bgi_top_k_attributes attributes = {.k = k, .smallest = smallest};
    bg_value outputs[2] = {{0}};

    bg_graph_add(graph, &bgi_op_top_k, name, &x, 1, &attributes, outputs);
    if (out_numbers != NULL)
        *out_numbers = outputs[1];
    return outputs[0];
}
