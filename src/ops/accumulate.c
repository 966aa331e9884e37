/*
 * accumulate.c: adding gradients up over micro-batches and blocks, and the scalars that go with it. Transforms add
 * these ops. Accumulators are changed in place.
 */
#include "ops/ops.h"

#include <string.h>

#include "ops/shape.h"

#include <stdio.h>

BGI_OP_KERNEL(select_accumulate, ACCUMULATE)
BGI_OP_KERNEL(select_add_n, ADD_N)
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
        bg_graph_fail(graph, BG_ERROR_INVALID, "add_n `%s`: nothing to add", name != NULL ? name : "");
        return (bg_value){0};
    }
    sum = values[0];
    /* Long lists are added in pieces that begin with the sum so far: the order is the same. */
    for (uint32_t at = 1; at < count;) {
        uint32_t taken = 1;

        operands[0] = sum;
        while (taken < BGI_MAXIMUM_VARIADIC && at < count)
            operands[taken++] = values[at++];
        sum = bg_graph_add(graph, &bgi_op_add_n, name, operands, taken, NULL, NULL);
    }
    return sum;
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

    memset(&attributes, 0, sizeof attributes); /* padding too: see bg_op_type */
    attributes.micro_batches = micro_batches;
    attributes.ends_in_sum = ends_in_sum;
    return bg_graph_add(graph, &bgi_op_running_factors, name, inputs, 2, &attributes, NULL);
}

/* ---- square_sum, gradient_norm, clip_scale ---- */

static bg_status infer_square_sum(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(bgi_shape_float(&op->types[0], "x", error));
    outputs[0] = bg_scalar(BG_FLOAT64);
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
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_square_sum,
    .cost = cost_square_sum,
    .kernel = select_square_sum,
};

bg_value bgi_square_sum(bg_graph *graph, const char *name, bg_value x)
{
    return bg_graph_add(graph, &bgi_op_square_sum, name, &x, 1, NULL, NULL);
}

static bg_status infer_norm(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type squares = bg_scalar(BG_FLOAT64), scale = bg_scalar(BG_FLOAT32);

    BGI_TRY(bgi_shape_equal(&op->types[0], "the squares", &squares, "their sum", error));
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
