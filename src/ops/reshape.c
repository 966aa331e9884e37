/*
 * reshape.c: defines the ops that move elements or only change their shape: reshape (an alias, which moves no data),
 * copy, transpose, slice, roll, concat. They support every element type.
 */
#include "ops/ops.h"

#include <string.h>

#include "graph/graph.h"
#include "kernels/reshape/attributes.h"
#include "ops/shape.h"

#include <stdio.h>

BGI_OP_KERNEL(select_copy, COPY)
BGI_OP_KERNEL(select_transpose, TRANSPOSE)
BGI_OP_KERNEL(select_slice, SLICE)
BGI_OP_KERNEL(select_slice_backward, SLICE_BACKWARD)
BGI_OP_KERNEL(select_roll, ROLL)
BGI_OP_KERNEL(select_concat, CONCAT)

/* ---- reshape and copy ---- */

/* Replaces the single -1 by the size that fits x's number of elements. */
static bg_status resolve_dims(const bg_type *x, const bgi_dims_attributes *attributes, bg_type *out, bg_error *error)
{
    const int64_t count = bg_type_element_count(x);
    uint32_t open = BG_MAX_RANK;
    int64_t known = 1;

    for (uint32_t i = 0; i < attributes->rank; i++) {
        const int64_t dim = attributes->dims[i];

        if (dim == -1 && open != BG_MAX_RANK)
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "dimensions %u and %u are both -1; at most one dimension can be inferred",
                                (unsigned)open, (unsigned)i);
        if (dim == -1)
            open = i;
        else if (dim < 1)
            return bg_error_set(error, BG_ERROR_SHAPE, "dimension %u is %lld; it must be at least 1, or -1 to infer it",
                                (unsigned)i, (long long)dim);
        else if (known > count / dim + 1)
            known =
                count + 1; /* more elements than x has, which the caller rejects; stopping here avoids an overflow */
        else
            known *= dim;
    }
    *out = bg_type_make(x->dtype, attributes->rank, attributes->dims);
    if (open != BG_MAX_RANK && count % known == 0)
        out->dims[open] = count / known;
    return BG_OK;
}

static bg_status infer_reshape(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_dims_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[0];
    char text[BG_TYPE_TEXT_BYTES], wanted_text[BG_TYPE_TEXT_BYTES];
    bg_error ignored = {0};
    bg_type wanted;

    if (attributes->rank > BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_SHAPE, "rank %u is above the limit of %d", (unsigned)attributes->rank,
                            BG_MAX_RANK);
    BGI_TRY(resolve_dims(x, attributes, &wanted, error));
    if (bg_type_validate(&wanted, &ignored) != BG_OK || bg_type_element_count(&wanted) != bg_type_element_count(x))
        return bg_error_set(error, BG_ERROR_SHAPE, "x is %s, which has %lld elements; these do not fill %s exactly",
                            bg_type_text(x, text), (long long)bg_type_element_count(x),
                            bg_type_text(&wanted, wanted_text));
    outputs[0] = wanted;
    return BG_OK;
}

static bg_status derive_reshape(bg_op_gradient *gradient, bg_error *error)
{
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bgi_reshape_to(gradient->graph, gradient->output_gradients[0], &gradient->op.types[0]);
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_nothing(const bg_op_signature *op)
{
    (void)op;
    return (bg_cost){0};
}

const bg_op_type bgi_op_reshape = {
    .name = "reshape",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_dims_attributes),
    .alias_input = 0,
    .reuse_input = BG_NO_OPERAND,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_reshape,
    .gradient = derive_reshape,
    .cost = cost_nothing,
    .kernel = select_copy,
};

bg_value bgi_add_with_dims(bg_graph *graph, const bg_op_type *type, const char *name, bg_value x, uint32_t rank,
                           const int64_t *dims)
{
    bgi_dims_attributes attributes;

    if (rank > 0 && dims == NULL) {
        bgi_graph_fail_op(graph, type->name, name, BG_ERROR_INVALID, "dims is NULL, but rank is %u", rank);
        return (bg_value){0};
    }
    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.rank = rank;
    for (uint32_t i = 0; i < rank && i < BG_MAX_RANK; i++)
        attributes.dims[i] = dims[i];
    return bg_graph_add(graph, type, name, &x, 1, &attributes, NULL);
}

bg_value bg_reshape(bg_graph *graph, const char *name, bg_value x, uint32_t rank, const int64_t *dims)
{
    return bgi_add_with_dims(graph, &bgi_op_reshape, name, x, rank, dims);
}

bg_value bgi_reshape_to(bg_graph *graph, bg_value x, const bg_type *type)
{
    const bg_type from = bg_graph_type(graph, x);

    if (bg_value_is_null(x) || bgi_type_same_dims(&from, type))
        return x;
    return bg_reshape(graph, NULL, x, type->rank, type->dims);
}

bg_value bg_flatten(bg_graph *graph, const char *name, bg_value x)
{
    const bg_type type = bg_graph_type(graph, x);
    const int64_t dims[] = {type.rank > 0 ? type.dims[0] : 1, -1};

    return bg_reshape(graph, name, x, 2, dims);
}

static bg_status infer_copy(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status derive_copy(bg_op_gradient *gradient, bg_error *error)
{
    (void)error;
    if (gradient->needs[0])
        gradient->input_gradients[0] = gradient->output_gradients[0];
    return BG_OK;
}

const bg_op_type bgi_op_copy = {
    .name = "copy",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_copy,
    .gradient = derive_copy,
    .kernel = select_copy,
};

bg_value bgi_copy(bg_graph *graph, const char *name, bg_value x)
{
    return bg_graph_add(graph, &bgi_op_copy, name, &x, 1, NULL, NULL);
}

/* ---- stop_gradient: a copy without a gradient rule ---- */

const bg_op_type bgi_op_stop_gradient = {
    .name = "stop_gradient",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .alias_input = 0,
    .reuse_input = BG_NO_OPERAND,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_copy,
    .cost = cost_nothing,
    .kernel = select_copy,
};

bg_value bg_stop_gradient(bg_graph *graph, const char *name, bg_value x)
{
    return bg_graph_add(graph, &bgi_op_stop_gradient, name, &x, 1, NULL, NULL);
}

/* ---- transpose ---- */

static bg_status infer_transpose(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_transpose_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[0];
    uint32_t seen = 0;
    bg_type y = *x;

    for (uint32_t i = 0; i < x->rank; i++) {
        const uint32_t from = attributes->permutation[i];

        if (from >= x->rank)
            return bg_error_set(error, BG_ERROR_SHAPE, "permutation[%u] is %u; x has dimensions 0 to %u", (unsigned)i,
                                (unsigned)from, (unsigned)x->rank - 1u);
        if ((seen >> from & 1u) != 0)
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "permutation[%u] is %u, which occurs twice; each dimension must occur exactly once",
                                (unsigned)i, (unsigned)from);
        seen |= 1u << from;
        y.dims[i] = x->dims[from];
    }
    outputs[0] = y;
    return BG_OK;
}

static bg_status derive_transpose(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_transpose_attributes *attributes = gradient->op.attributes;
    uint32_t inverse[BG_MAX_RANK] = {0};

    for (uint32_t i = 0; i < gradient->op.types[0].rank; i++)
        inverse[attributes->permutation[i]] = i;
    if (gradient->needs[0])
        gradient->input_gradients[0] = bg_transpose(gradient->graph, NULL, gradient->output_gradients[0], inverse);
    return bg_graph_check(gradient->graph, error);
}

const bg_op_type bgi_op_transpose = {
    .name = "transpose",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_transpose_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_transpose,
    .gradient = derive_transpose,
    .kernel = select_transpose,
};

bg_value bg_transpose(bg_graph *graph, const char *name, bg_value x, const uint32_t *permutation)
{
    const uint32_t rank = bg_graph_type(graph, x).rank;
    bgi_transpose_attributes attributes = {{0}};

    if (permutation == NULL && rank > 0) {
        bgi_graph_fail_op(graph, bgi_op_transpose.name, name, BG_ERROR_INVALID,
                          "permutation is NULL; it must list the %u dimensions", rank);
        return (bg_value){0};
    }
    for (uint32_t i = 0; i < rank; i++)
        attributes.permutation[i] = permutation[i];
    return bg_graph_add(graph, &bgi_op_transpose, name, &x, 1, &attributes, NULL);
}

/* ---- slice ---- */

static bg_status check_slice(const bgi_slice_attributes *slice, int64_t size, bg_error *error)
{
    if (slice->step < 1)
        return bg_error_set(error, BG_ERROR_INVALID, "step is %lld; it must be at least 1", (long long)slice->step);
    if (slice->start < 0 || slice->start >= slice->stop || slice->stop > size)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the slice takes elements %lld to %lld (not included) of axis %u, which has %lld elements; "
                            "0 <= start < stop <= %lld must hold (negative numbers count from the end)",
                            (long long)slice->start, (long long)slice->stop, (unsigned)slice->axis, (long long)size,
                            (long long)size);
    return BG_OK;
}

static int64_t count_slice(const bgi_slice_attributes *slice)
{
    return (slice->stop - slice->start - 1) / slice->step + 1;
}

static bg_status infer_slice(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_slice_attributes *slice = op->attributes;
    const bg_type *x = &op->types[0];

    BGI_TRY(bgi_shape_minimum_rank(x, "x", slice->axis + 1, "as axis says", error));
    BGI_TRY(check_slice(slice, x->dims[slice->axis], error));
    outputs[0] = *x;
    outputs[0].dims[slice->axis] = count_slice(slice);
    return BG_OK;
}

static bg_value add_slice_backward(bg_graph *graph, bg_value dy, const bgi_slice_attributes *slice, int64_t size)
{
    bgi_slice_backward_attributes attributes;

    memset(&attributes, 0, sizeof attributes);
    attributes.slice = *slice;
    attributes.size = size;
    return bg_graph_add(graph, &bgi_op_slice_backward, NULL, &dy, 1, &attributes, NULL);
}

static bg_status derive_slice(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_slice_attributes *slice = gradient->op.attributes;

    if (gradient->needs[0])
        gradient->input_gradients[0] = add_slice_backward(gradient->graph, gradient->output_gradients[0], slice,
                                                          gradient->op.types[0].dims[slice->axis]);
    return bg_graph_check(gradient->graph, error);
}

/* Reads only the elements that it copies. */
static bg_cost cost_slice(const bg_op_signature *op)
{
    const double bytes = (double)bg_type_size_bytes(&op->types[1]);

    return (bg_cost){.bytes_read = bytes, .bytes_written = bytes};
}

const bg_op_type bgi_op_slice = {
    .name = "slice",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_slice_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_slice,
    .gradient = derive_slice,
    .cost = cost_slice,
    .kernel = select_slice,
};

static bg_status infer_slice_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_slice_backward_attributes *attributes = op->attributes;
    const bg_type *dy = &op->types[0];

    BGI_TRY(bgi_shape_minimum_rank(dy, "dy", attributes->slice.axis + 1, "as axis says", error));
    BGI_TRY(check_slice(&attributes->slice, attributes->size, error));
    BGI_TRY(bgi_shape_dim(dy, "dy", attributes->slice.axis, count_slice(&attributes->slice), "the slice", error));
    outputs[0] = *dy;
    outputs[0].dims[attributes->slice.axis] = attributes->size;
    return BG_OK;
}

const bg_op_type bgi_op_slice_backward = {
    .name = "slice_backward",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_slice_backward_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_slice_backward,
    .kernel = select_slice_backward,
};

bg_value bg_slice(bg_graph *graph, const char *name, bg_value x, int32_t axis, int64_t start, int64_t stop,
                  int64_t step)
{
    const bg_type type = bg_graph_type(graph, x);
    bgi_slice_attributes attributes;
    int64_t size;

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.step = step;
    if (!bgi_graph_axis(graph, &bgi_op_slice, name, x, axis, &attributes.axis))
        return (bg_value){0};
    size = type.dims[attributes.axis];
    /* A start before the first element is passed unchanged, so that the error shows it. */
    attributes.start = start < 0 && start >= -size ? start + size : start;
    attributes.stop = stop < 0 && stop >= -size ? stop + size : stop;
    return bg_graph_add(graph, &bgi_op_slice, name, &x, 1, &attributes, NULL);
}

/* ---- roll ---- */

static bg_status infer_roll(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_roll_attributes *roll = op->attributes;
    const bg_type *x = &op->types[0];

    BGI_TRY(bgi_shape_minimum_rank(x, "x", roll->axis + 1, "as axis says", error));
    if (roll->first < 0 || roll->first >= x->dims[roll->axis])
        return bg_error_set(error, BG_ERROR_INVALID,
                            "element %lld becomes the first of axis %u, but the axis has elements 0 to %lld",
                            (long long)roll->first, (unsigned)roll->axis, (long long)x->dims[roll->axis] - 1);
    outputs[0] = *x;
    return BG_OK;
}

static bg_value add_roll(bg_graph *graph, const char *name, bg_value x, uint32_t axis, int64_t first)
{
    const bgi_roll_attributes attributes = {.axis = axis, .first = first};

    return bg_graph_add(graph, &bgi_op_roll, name, &x, 1, &attributes, NULL);
}

static bg_status derive_roll(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_roll_attributes *roll = gradient->op.attributes;
    const int64_t size = gradient->op.types[0].dims[roll->axis];

    if (gradient->needs[0])
        gradient->input_gradients[0] =
            add_roll(gradient->graph, NULL, gradient->output_gradients[0], roll->axis, (size - roll->first) % size);
    return bg_graph_check(gradient->graph, error);
}

const bg_op_type bgi_op_roll = {
    .name = "roll",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_roll_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_roll,
    .gradient = derive_roll,
    .kernel = select_roll,
};

bg_value bg_roll(bg_graph *graph, const char *name, bg_value x, int32_t axis, int64_t shift)
{
    uint32_t dim;
    int64_t size;

    if (!bgi_graph_axis(graph, &bgi_op_roll, name, x, axis, &dim))
        return (bg_value){0};
    size = bg_graph_type(graph, x).dims[dim];
    return shift % size == 0 ? x : add_roll(graph, name, x, dim, (size - shift % size) % size);
}

/* ---- concat ---- */

static bg_status infer_concat(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const uint32_t axis = ((const bgi_axis_attributes *)op->attributes)->axis;
    bg_type y = op->types[0];

    BGI_TRY(bgi_shape_minimum_rank(&y, "operand 0", axis + 1, "as axis says", error));
    for (uint32_t i = 1; i < op->input_count; i++) {
        const bg_type *x = &op->types[i];
        bg_type wanted = op->types[0];
        char operand[32];

        snprintf(operand, sizeof operand, "operand %u", (unsigned)i);
        if (axis < x->rank)
            wanted.dims[axis] = x->dims[axis];
        BGI_TRY(bgi_shape_equal(x, operand, &wanted, "as operand 0, except along the axis", error));
        y.dims[axis] += x->dims[axis];
    }
    outputs[0] = y;
    return BG_OK;
}

static bg_status derive_concat(bg_op_gradient *gradient, bg_error *error)
{
    const uint32_t axis = ((const bgi_axis_attributes *)gradient->op.attributes)->axis;
    int64_t start = 0;

    for (uint32_t i = 0; i < gradient->op.input_count; i++) {
        const int64_t stop = start + gradient->op.types[i].dims[axis];

        if (gradient->needs[i])
            gradient->input_gradients[i] =
                bg_slice(gradient->graph, NULL, gradient->output_gradients[0], (int32_t)axis, start, stop, 1);
        start = stop;
    }
    return bg_graph_check(gradient->graph, error);
}

const bg_op_type bgi_op_concat = {
    .name = "concat",
    .minimum_inputs = 1,
    .maximum_inputs = BGI_MAXIMUM_VARIADIC,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_axis_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_concat,
    .gradient = derive_concat,
    .kernel = select_concat,
};

/* Concatenates neighbors in groups, because an op has a limited number of operands. */
static bg_value concat_groups(bg_graph *graph, const char *name, const bg_value *values, uint32_t count, int32_t axis)
{
    bg_value groups[BGI_MAXIMUM_VARIADIC];
    uint32_t size = BGI_MAXIMUM_VARIADIC, group_count = 0;

    while ((count - 1) / size >= BGI_MAXIMUM_VARIADIC)
        size *= BGI_MAXIMUM_VARIADIC;
    for (uint32_t i = 0; i < count; i += size)
        groups[group_count++] = bg_concat(graph, NULL, values + i, count - i < size ? count - i : size, axis);
    return bg_concat(graph, name, groups, group_count, axis);
}

bg_value bg_concat(bg_graph *graph, const char *name, const bg_value *values, uint32_t count, int32_t axis)
{
    bgi_axis_attributes attributes = {0};

    if (count > 0 && values == NULL) {
        bgi_graph_fail_op(graph, bgi_op_concat.name, name, BG_ERROR_INVALID, "values is NULL, but count is %u", count);
        return (bg_value){0};
    }
    if (count > 0 && !bgi_graph_axis(graph, &bgi_op_concat, name, values[0], axis, &attributes.axis))
        return (bg_value){0};
    if (count > BGI_MAXIMUM_VARIADIC)
        return concat_groups(graph, name, values, count, axis);
    return bg_graph_add(graph, &bgi_op_concat, name, values, count, &attributes, NULL);
}
