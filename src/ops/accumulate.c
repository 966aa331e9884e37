/*
 * accumulate.c: defines the ops that sum gradients over micro-batches and blocks, and the ops that compute the scalars
 * for these sums. Transforms add these ops; accumulate, accumulate_tree and running_factors change a variable in place.
 */
#include "ops/ops.h"

#include <string.h>

#include "graph/graph.h"
#include "kernels/accumulate/attributes.h"
#include "ops/shape.h"

#include <stdio.h>

BGI_OP_KERNEL(select_accumulate, ACCUMULATE)
BGI_OP_KERNEL(select_accumulate_tree, ACCUMULATE_TREE)
BGI_OP_KERNEL(select_add_n, ADD_N)
BGI_OP_KERNEL(select_scaled_sum, SCALED_SUM)
BGI_OP_KERNEL(select_total_scale, TOTAL_SCALE)
BGI_OP_KERNEL(select_running_factors, RUNNING_FACTORS)
BGI_OP_KERNEL(select_square_sum, SQUARE_SUM)
BGI_OP_KERNEL(select_gradient_norm, GRADIENT_NORM)
BGI_OP_KERNEL(select_clip_scale, CLIP_SCALE)

/* ---- accumulate ---- */

static bg_status infer_accumulate(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *accumulator = &op->types[0], *gradient = &op->types[1];
    const bg_type factors = bg_vector(BG_FLOAT32, 2);

    (void)outputs;
    BGI_TRY(bgi_shape_float(accumulator, "the accumulator", error));
    BGI_TRY(bgi_shape_float(gradient, "the gradient", error));
    BGI_TRY(bgi_shape_same_dims(accumulator, "the accumulator", gradient, "the gradient's shape", error));
    if (op->input_count > 2)
        BGI_TRY(bgi_shape_equal(&op->types[2], "factors", &factors, "of the sum so far and of the gradient", error));
    return BG_OK;
}

static bg_cost cost_accumulate(const bg_op_signature *op)
{
    bg_cost cost = bgi_cost_once(op, bgi_type_elements(&op->types[0]));

    cost.bytes_written = (double)bg_type_size_bytes(&op->types[0]);
    return cost;
}

const bg_op_type bgi_op_accumulate = {
    .name = "accumulate",
    .minimum_inputs = 2,
    .maximum_inputs = 3,
    .written_inputs = 1u << 0,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_accumulate,
    .cost = cost_accumulate,
    .kernel = select_accumulate,
};

void bgi_accumulate(bg_graph *graph, const char *name, bg_value accumulator, bg_value gradient, bg_value factors)
{
    const bg_value inputs[] = {accumulator, gradient, factors};

    bg_graph_add(graph, &bgi_op_accumulate, name, inputs, 3, NULL, NULL);
}

/* ---- accumulate_tree ---- */

static bg_type find_partials(const bg_type *accumulator, uint32_t micro_batches)
{
    return bg_matrix(accumulator->dtype, bgi_tree_places(micro_batches) - 1, bg_type_element_count(accumulator));
}

static bg_status infer_accumulate_tree(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_accumulate_tree_attributes *attributes = op->attributes;
    bg_type partials;

    (void)outputs;
    BGI_TRY(bgi_shape_float(&op->types[0], "the accumulator", error));
    BGI_TRY(bgi_shape_float(&op->types[1], "the gradient", error));
    BGI_TRY(bgi_shape_same_dims(&op->types[0], "the accumulator", &op->types[1], "the gradient's shape", error));
    if (attributes->micro_batches < 1)
        return bg_error_set(error, BG_ERROR_INVALID, "the tree has 0 micro-batches; it must have at least 1");
    partials = find_partials(&op->types[0], attributes->micro_batches);
    if ((op->input_count > 2) != (partials.dims[0] > 0))
        return bg_error_set(error, BG_ERROR_INVALID, "a tree of %u micro-batches %s operand of partial sums",
                            attributes->micro_batches, partials.dims[0] > 0 ? "needs an" : "has no");
    return op->input_count > 2 ? bgi_shape_equal(&op->types[2], "partial sums", &partials,
                                                 "one row for each level below the top", error)
                               : BG_OK;
}

const bg_op_type bgi_op_accumulate_tree = {
    .name = "accumulate_tree",
    .minimum_inputs = 2,
    .maximum_inputs = 3,
    .written_inputs = 1u << 0 | 1u << 2,
    .attributes_bytes = sizeof(bgi_accumulate_tree_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_accumulate_tree,
    .cost = cost_accumulate,
    .kernel = select_accumulate_tree,
};

bool bgi_tree_partials(const bg_type *accumulator, uint32_t micro_batches, bg_type *out)
{
    *out = find_partials(accumulator, micro_batches);
    return out->dims[0] > 0;
}

void bgi_accumulate_tree(bg_graph *graph, const char *name, bg_value accumulator, bg_value gradient, bg_value partials,
                         uint32_t micro_batches)
{
    const bgi_accumulate_tree_attributes attributes = {.micro_batches = micro_batches};
    const bg_value inputs[] = {accumulator, gradient, partials};

    bg_graph_add(graph, &bgi_op_accumulate_tree, name, inputs, 3, &attributes, NULL);
}

/* ---- add_n ---- */

static bg_status infer_add_n(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(bgi_shape_float(&op->types[0], "operand 0", error));
    for (uint32_t i = 1; i < op->input_count; i++) {
        char operand[32];

        snprintf(operand, sizeof operand, "operand %u", (unsigned)i);
        BGI_TRY(bgi_shape_equal(&op->types[i], operand, &op->types[0], "as operand 0", error));
    }
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status derive_add_n(bg_op_gradient *gradient, bg_error *error)
{
    (void)error;
    for (uint32_t i = 0; i < gradient->op.input_count; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = gradient->output_gradients[0];
    return BG_OK;
}

static bg_cost cost_add_n(const bg_op_signature *op)
{
    return bgi_cost_once(op, (op->input_count - 1) * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_add_n = {
    .name = "add_n",
    .minimum_inputs = 1,
    .maximum_inputs = BGI_MAXIMUM_VARIADIC,
    .output_count = 1,
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_add_n,
    .gradient = derive_add_n,
    .cost = cost_add_n,
    .kernel = select_add_n,
};

bg_value bgi_add_n(bg_graph *graph, const char *name, const bg_value *values, uint32_t count)
{
    bg_value operands[BGI_MAXIMUM_VARIADIC];
    bg_value sum;

    if (count == 0) {
        bgi_graph_fail_op(graph, bgi_op_add_n.name, name, BG_ERROR_INVALID, "count is 0; it must be at least 1");
        return (bg_value){0};
    }
    sum = values[0];
    /* Splits a long list over several ops, each of which begins with the sum so far, so the order of additions does not
     * change. */
    for (uint32_t at = 1; at < count;) {
        uint32_t taken = 1;

        operands[0] = sum;
        while (taken < BGI_MAXIMUM_VARIADIC && at < count)
            operands[taken++] = values[at++];
        sum = bg_graph_add(graph, &bgi_op_add_n, name, operands, taken, NULL, NULL);
    }
    return sum;
}

/* ---- scaled_sum ---- */

static bg_status infer_scaled_sum(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_scaled_sum_attributes *attributes = op->attributes;
    const bg_type scalar = bg_scalar(BG_FLOAT32);

    if (op->input_count % 2 != 0)
        return bg_error_set(error, BG_ERROR_INVALID, "the op has %u operands; each value must have its own scale",
                            (unsigned)op->input_count);
    if (!bg_dtype_is_float(attributes->dtype))
        return bg_error_set(error, BG_ERROR_INVALID, "the sum's element type is %s; it must be a float type",
                            bg_dtype_name(attributes->dtype));
    for (uint32_t i = 0; i < op->input_count; i += 2) {
        char operand[32];

        snprintf(operand, sizeof operand, "value %u", (unsigned)i / 2);
        BGI_TRY(bgi_shape_float(&op->types[i], operand, error));
        BGI_TRY(bgi_shape_same_dims(&op->types[i], operand, &op->types[0], "value 0's shape", error));
        snprintf(operand, sizeof operand, "scale %u", (unsigned)i / 2);
        BGI_TRY(bgi_shape_equal(&op->types[i + 1], operand, &scalar, "a factor of the value", error));
    }
    outputs[0] = op->types[0];
    outputs[0].dtype = attributes->dtype;
    return BG_OK;
}

static bg_cost cost_scaled_sum(const bg_op_signature *op)
{
    return bgi_cost_once(op, op->input_count * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_scaled_sum = {
    .name = "scaled_sum",
    .minimum_inputs = 2,
    .maximum_inputs = BGI_MAXIMUM_VARIADIC,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_scaled_sum_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_scaled_sum,
    .cost = cost_scaled_sum,
    .kernel = select_scaled_sum,
};

bg_value bgi_scaled_sum(bg_graph *graph, const char *name, const bg_value *values, const bg_value *scales,
                        uint32_t count, bg_dtype dtype)
{
    const bgi_scaled_sum_attributes attributes = {.dtype = dtype};
    bg_value operands[BGI_MAXIMUM_VARIADIC];

    for (uint32_t i = 0; i < count && i < BGI_MAXIMUM_VARIADIC / 2; i++) {
        operands[2 * i] = values[i];
        operands[2 * i + 1] = scales[i];
    }
    return bg_graph_add(graph, &bgi_op_scaled_sum, name, operands, 2 * count, &attributes, NULL);
}

/* ---- total_scale ---- */

static bg_status infer_total_scale(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(bgi_shape_rank(&op->types[0], "the total", 0, "a scalar", error));
    outputs[0] = bg_scalar(BG_FLOAT32);
    return BG_OK;
}

const bg_op_type bgi_op_total_scale = {
    .name = "total_scale",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_total_scale_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_total_scale,
    .kernel = select_total_scale,
};

bg_value bgi_total_scale(bg_graph *graph, const char *name, bg_value total, double factor)
{
    const bgi_total_scale_attributes attributes = {.factor = factor};

    return bg_graph_add(graph, &bgi_op_total_scale, name, &total, 1, &attributes, NULL);
}

/* ---- running_factors ---- */

static bg_status infer_running_factors(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type scalar = bg_scalar(BG_FLOAT32);

    BGI_TRY(bgi_shape_equal(&op->types[0], "the total", &scalar, "a weight", error));
    if (op->input_count > 1)
        BGI_TRY(bgi_shape_equal(&op->types[1], "the weight", &scalar, "of one micro-batch", error));
    outputs[0] = bg_vector(BG_FLOAT32, 2);
    return BG_OK;
}

const bg_op_type bgi_op_running_factors = {
    .name = "running_factors",
    .minimum_inputs = 1,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_running_factors_attributes),
    .written_inputs = 1u << 0,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_running_factors,
    .kernel = select_running_factors,
};

bg_value bgi_running_factors(bg_graph *graph, const char *name, bg_value total, bg_value weight, uint32_t micro_batches,
                             bool ends_in_sum)
{
    bgi_running_factors_attributes attributes;
    const bg_value inputs[] = {total, weight};

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.micro_batches = micro_batches;
    attributes.ends_in_sum = ends_in_sum;
    return bg_graph_add(graph, &bgi_op_running_factors, name, inputs, 2, &attributes, NULL);
}

/* ---- square_sum, gradient_norm, clip_scale ---- */

/* Infers one sum for each piece; in an update x may be only a replica's piece of the tensor. */
static bg_status infer_square_sum(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_square_sum_attributes *attributes = op->attributes;
    const int64_t elements = bg_type_element_count(&op->types[0]);

    BGI_TRY(bgi_shape_float(&op->types[0], "x", error));
    if (attributes->pieces == 0 || attributes->pieces > INT32_MAX || attributes->elements > INT64_MAX / 2 ||
        (attributes->elements != elements && bgi_piece_size(attributes->elements, attributes->pieces) != elements))
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "%u pieces of a tensor of %lld elements do not fit x, which has %lld elements",
                            attributes->pieces, (long long)attributes->elements, (long long)elements);
    outputs[0] = bg_vector(BG_FLOAT64, attributes->pieces);
    return BG_OK;
}

static bg_cost cost_square_sum(const bg_op_signature *op)
{
    return bgi_cost_once(op, 2.0 * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_square_sum = {
    .name = "square_sum",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_square_sum_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_square_sum,
    .cost = cost_square_sum,
    .kernel = select_square_sum,
};

bg_value bgi_square_sum(bg_graph *graph, const char *name, bg_value x, uint32_t pieces)
{
    const bg_type type = bg_graph_type(graph, x);
    const bgi_square_sum_attributes attributes = {.elements = bg_type_element_count(&type), .pieces = pieces};

    return bg_graph_add(graph, &bgi_op_square_sum, name, &x, 1, &attributes, NULL);
}

static bg_status infer_norm(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type squares = bg_vector(BG_FLOAT64, op->types[0].rank == 1 ? op->types[0].dims[0] : 1);
    const bg_type scale = bg_scalar(BG_FLOAT32);

    BGI_TRY(bgi_shape_equal(&op->types[0], "the squares", &squares, "a sum for each piece", error));
    BGI_TRY(bgi_shape_equal(&op->types[1], "the scale", &scale, "a factor of the gradient", error));
    outputs[0] = scale;
    return BG_OK;
}

const bg_op_type bgi_op_gradient_norm = {
    .name = "gradient_norm",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_norm,
    .kernel = select_gradient_norm,
};

bg_value bgi_gradient_norm(bg_graph *graph, const char *name, bg_value squares, bg_value scale)
{
    const bg_value inputs[] = {squares, scale};

    return bg_graph_add(graph, &bgi_op_gradient_norm, name, inputs, 2, NULL, NULL);
}

const bg_op_type bgi_op_clip_scale = {
    .name = "clip_scale",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_clip_scale_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_norm,
    .kernel = select_clip_scale,
};

bg_value bgi_clip_scale(bg_graph *graph, const char *name, bg_value squares, bg_value scale, double maximum)
{
    const bgi_clip_scale_attributes attributes = {.maximum = maximum};
    const bg_value inputs[] = {squares, scale};

    return bg_graph_add(graph, &bgi_op_clip_scale, name, inputs, 2, &attributes, NULL);
}
