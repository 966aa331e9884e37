/*
 * optimiser.c: adding gradients up, and the weight updates as ops. Transforms add them; no gradient flows through
 * updates. Variables are changed in place, so most of these ops have no outputs.
 */
#include "ops/ops.h"
#include "ops/shape.h"

#include <stdio.h>

BGI_OP_KERNEL(select_accumulate, ACCUMULATE)
BGI_OP_KERNEL(select_add_n, ADD_N)
BGI_OP_KERNEL(select_total_scale, TOTAL_SCALE)
BGI_OP_KERNEL(select_sgd_update, SGD_UPDATE)
BGI_OP_KERNEL(select_adam_update, ADAM_UPDATE)

/* ---- accumulate ---- */

static bg_status infer_accumulate(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *accumulator = &op->types[0], *gradient = &op->types[1];

    (void)outputs;
    BGI_TRY(bgi_shape_float(gradient, "the gradient", error));
    BGI_TRY(bgi_shape_same_dims(accumulator, "the accumulator", gradient, "the gradient's shape", error));
    if (accumulator->dtype != gradient->dtype)
        BGI_TRY(bgi_shape_dtype(accumulator, "the accumulator", BG_FLOAT32, "or the gradient's type", error));
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
    .maximum_inputs = 2,
    .written_inputs = 1u << 0,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_accumulate,
    .cost = cost_accumulate,
    .kernel = select_accumulate,
};

void bgi_accumulate(bg_graph *graph, const char *name, bg_value accumulator, bg_value gradient)
{
    const bg_value inputs[] = {accumulator, gradient};

    bg_graph_add(graph, &bgi_op_accumulate, name, inputs, 2, NULL, NULL);
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
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_total_scale,
    .kernel = select_total_scale,
};

bg_value bgi_total_scale(bg_graph *graph, const char *name, bg_value total)
{
    return bg_graph_add(graph, &bgi_op_total_scale, name, &total, 1, NULL, NULL);
}

/* ---- updates ---- */

enum { PARAMETER = 0, GRADIENT, HYPER, SCALE, STATE };

/* What both updates ask of their first four operands and of each state. */
static bg_status check_update(const bg_op_signature *op, const char *const *state_names, bg_error *error)
{
    const bg_type *parameter = &op->types[PARAMETER];
    const bg_type hyper = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT), scale = bg_scalar(BG_FLOAT32);

    BGI_TRY(bgi_shape_float(parameter, "the parameter", error));
    BGI_TRY(bgi_shape_float(&op->types[GRADIENT], "the gradient", error));
    BGI_TRY(bgi_shape_same_dims(&op->types[GRADIENT], "the gradient", parameter, "the parameter's shape", error));
    BGI_TRY(bgi_shape_equal(&op->types[HYPER], "hyper", &hyper, "learning rate and the like", error));
    BGI_TRY(bgi_shape_equal(&op->types[SCALE], "the scale", &scale, "a factor of the gradient", error));
    for (uint32_t i = STATE; i < op->input_count; i++) {
        bg_type wanted = *parameter;

        wanted.dtype = bgi_statistics_dtype(parameter->dtype);
        BGI_TRY(bgi_shape_equal(&op->types[i], state_names[i - STATE], &wanted,
                                "the parameter's shape, in float32, or float64 for float64", error));
    }
    return BG_OK;
}

/* `flops` for each element; the written operands are read and written. */
static bg_cost cost_update(const bg_op_signature *op, double flops)
{
    bg_cost cost = bgi_cost_once(op, flops * bgi_type_elements(&op->types[PARAMETER]));

    cost.bytes_written = (double)bg_type_size_bytes(&op->types[PARAMETER]);
    for (uint32_t i = STATE; i < op->input_count; i++)
        cost.bytes_written += (double)bg_type_size_bytes(&op->types[i]);
    return cost;
}

static bg_status infer_sgd_update(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    static const char *const states[] = {"the velocity"};

    (void)outputs;
    return check_update(op, states, error);
}

static bg_cost cost_sgd_update(const bg_op_signature *op)
{
    return cost_update(op, op->input_count > STATE ? 10.0 : 5.0);
}

const bg_op_type bgi_op_sgd_update = {
    .name = "sgd_update",
    .minimum_inputs = STATE,
    .maximum_inputs = STATE + 1,
    .attributes_bytes = sizeof(bgi_sgd_attributes),
    .written_inputs = 1u << PARAMETER | 1u << STATE,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_sgd_update,
    .cost = cost_sgd_update,
    .kernel = select_sgd_update,
};

void bgi_sgd_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                    bg_value scale, bg_value velocity, bool nesterov)
{
    const bgi_sgd_attributes attributes = {.nesterov = nesterov};
    const bg_value inputs[] = {parameter, gradient, hyper, scale, velocity};

    bg_graph_add(graph, &bgi_op_sgd_update, name, inputs, 5, &attributes, NULL);
}

static bg_status infer_adam_update(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    static const char *const states[] = {"m", "v"};

    (void)outputs;
    return check_update(op, states, error);
}

static bg_cost cost_adam_update(const bg_op_signature *op)
{
    return cost_update(op, 16.0);
}

const bg_op_type bgi_op_adam_update = {
    .name = "adam_update",
    .minimum_inputs = STATE + 2,
    .maximum_inputs = STATE + 2,
    .attributes_bytes = sizeof(bgi_adam_attributes),
    .written_inputs = 1u << PARAMETER | 1u << STATE | 1u << (STATE + 1),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_adam_update,
    .cost = cost_adam_update,
    .kernel = select_adam_update,
};

void bgi_adam_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                     bg_value scale, bg_value m, bg_value v, bool decoupled_decay)
{
    const bgi_adam_attributes attributes = {.decoupled_decay = decoupled_decay};
    const bg_value inputs[] = {parameter, gradient, hyper, scale, m, v};

    bg_graph_add(graph, &bgi_op_adam_update, name, inputs, 6, &attributes, NULL);
}
