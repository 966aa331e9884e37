/*
 * linear.c: defines matrix products: the linear layer (weights [out, in], optional bias) and the batched matrix
 * product.
 *
 * The gradients of linear are two ops, so that a schedule may run them at different times: earlier stages wait for the
 * gradient of x, but no stage waits for that of the weights.
 */
#include "kernels/linear/attributes.h"
#include "ops/accumulating.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_linear, LINEAR)
BGI_OP_KERNEL(select_linear_backward_input, LINEAR_BACKWARD_INPUT)
BGI_OP_KERNEL(select_linear_backward_weights, LINEAR_BACKWARD_WEIGHTS)
BGI_OP_KERNEL(select_matmul, MATMUL)

static bg_type replace_last(const bg_type *type, int64_t last)
{
    bg_type result = *type;

    result.dims[type->rank - 1] = last;
    return result;
}

/* ---- linear ---- */

static bg_status infer_linear(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[0], *weight = &op->types[1];

    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 1, "[..., in]", error));
    BGI_TRY(bgi_shape_rank(weight, "the weight", 2, "[out, in]", error));
    BGI_TRY(bgi_shape_same_dtype(x, "x", weight, "the weight", error));
    BGI_TRY(bgi_shape_dim(weight, "the weight", 1, x->dims[x->rank - 1], "x's last dimension", error));
    if (op->input_count > 2) {
        const bg_type bias = bg_vector(x->dtype, weight->dims[0]);

        BGI_TRY(bgi_shape_equal(&op->types[2], "the bias", &bias, "one for each row of the weight", error));
    }
    outputs[0] = replace_last(x, weight->dims[0]);
    return BG_OK;
}

static bg_status derive_linear(bg_op_gradient *gradient, bg_error *error)
{
    bg_graph *graph = gradient->graph;
    const bg_value *inputs = gradient->inputs;
    const bg_value dy = gradient->output_gradients[0];
    const bool has_bias = gradient->op.input_count > 2;

    if (gradient->needs[0]) {
        const bg_value operands[] = {dy, inputs[1]};

        gradient->input_gradients[0] =
            bg_graph_add(graph, &bgi_op_linear_backward_input, NULL, operands, 2, NULL, NULL);
    }
    if (gradient->needs[1]) {
        const bgi_linear_backward_attributes attributes = {.bias = has_bias && gradient->needs[2]};
        const bg_value operands[] = {dy, inputs[0]};
        bg_value results[2];

        bg_graph_add(graph, &bgi_op_linear_backward_weights, NULL, operands, 2, &attributes, results);
        gradient->input_gradients[1] = results[0];
        if (attributes.bias)
            gradient->input_gradients[2] = results[1];
    } else if (has_bias && gradient->needs[2]) {
        gradient->input_gradients[2] = bgi_reduce_to(graph, dy, &gradient->op.types[2]);
    }
    return bg_graph_check(graph, error);
}

static bg_cost cost_linear(const bg_op_signature *op)
{
    const double rows = bgi_type_elements(&op->types[0]) / (double)op->types[1].dims[1];
    const double bias_flops = op->input_count > 2 ? rows * (double)op->types[1].dims[0] : 0.0;

    return bgi_cost_once(op, 2.0 * rows * bgi_type_elements(&op->types[1]) + bias_flops);
}

const bg_op_type bgi_op_linear = {
    .name = "linear",
    .minimum_inputs = 2,
    .maximum_inputs = 3,
    .output_count = 1,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_linear,
    .gradient = derive_linear,
    .cost = cost_linear,
    .kernel = select_linear,
};

bg_value bg_linear(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias)
{
    bg_value inputs[] = {x, weight, bias};

    bgi_promote(graph, inputs, 3);
    return bg_graph_add(graph, &bgi_op_linear, name, inputs, 3, NULL, NULL);
}

/* ---- linear, backwards ---- */

static bg_status infer_linear_backward_input(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *dy = &op->types[0], *weight = &op->types[1];

    BGI_TRY(bgi_shape_float(dy, "dy", error));
    BGI_TRY(bgi_shape_minimum_rank(dy, "dy", 1, "[..., out]", error));
    BGI_TRY(bgi_shape_rank(weight, "the weight", 2, "[out, in]", error));
    BGI_TRY(bgi_shape_same_dtype(dy, "dy", weight, "the weight", error));
    BGI_TRY(bgi_shape_dim(weight, "the weight", 0, dy->dims[dy->rank - 1], "dy's last dimension", error));
    outputs[0] = replace_last(dy, weight->dims[1]);
    return BG_OK;
}

static bg_cost cost_linear_backward_input(const bg_op_signature *op)
{
    const double rows = bgi_type_elements(&op->types[0]) / (double)op->types[1].dims[0];

    return bgi_cost_once(op, 2.0 * rows * bgi_type_elements(&op->types[1]));
}

const bg_op_type bgi_op_linear_backward_input = {
    .name = "linear_backward_input",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_linear_backward_input,
    .cost = cost_linear_backward_input,
    .kernel = select_linear_backward_input,
};

static bg_status infer_linear_backward_weights(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_linear_backward_attributes *attributes = op->attributes;
    const bg_type *dy = &op->types[0], *x = &op->types[1];
    bg_type wanted;

    BGI_TRY(bgi_shape_float(dy, "dy", error));
    BGI_TRY(bgi_shape_minimum_rank(dy, "dy", 1, "[..., out]", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 1, "[..., in]", error));
    wanted = replace_last(dy, x->dims[x->rank - 1]);
    BGI_TRY(bgi_shape_equal(x, "x", &wanted, "dy's leading dimensions", error));
    outputs[0] = bg_matrix(x->dtype, dy->dims[dy->rank - 1], x->dims[x->rank - 1]);
    if (attributes->bias)
        outputs[1] = bg_vector(x->dtype, dy->dims[dy->rank - 1]);
    return BG_OK;
}

static bg_cost cost_linear_backward_weights(const bg_op_signature *op)
{
    const bg_type *dy = &op->types[0], *x = &op->types[1];
    const double bias_flops = op->output_count > 1 ? bgi_type_elements(dy) : 0.0;

    return bgi_cost_once(op, 2.0 * bgi_type_elements(dy) * (double)x->dims[x->rank - 1] + bias_flops);
}

const bg_op_type bgi_op_linear_backward_weights = {
    .name = "linear_backward_weights",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 2,
    .attributes_bytes = sizeof(bgi_linear_backward_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_linear_backward_weights,
    .cost = cost_linear_backward_weights,
    .kernel = select_linear_backward_weights,
    .accumulating = &bgi_op_linear_backward_weights_accumulate,
};

BGI_ACCUMULATING_FORM(bgi_op_linear_backward_weights_accumulate, "linear_backward_weights_accumulate",
                      bgi_op_linear_backward_weights, 2, 2, bgi_linear_backward_attributes,
                      select_linear_backward_weights);

/* ---- matmul ---- */

static bg_status infer_matmul(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_matmul_attributes *attributes = op->attributes;
    const bg_type *a = &op->types[0], *b = &op->types[1];
    const uint32_t rows_of_b = attributes->transpose_b ? 1 : 2;
    bg_type y;

    BGI_TRY(bgi_shape_float(a, "a", error));
    BGI_TRY(bgi_shape_same_dtype(a, "a", b, "b", error));
    BGI_TRY(bgi_shape_minimum_rank(a, "a", 2, "[..., M, K]", error));
    BGI_TRY(bgi_shape_minimum_rank(b, "b", 2, "[..., K, N]", error));
    BGI_TRY(bgi_shape_dim(b, "b", b->rank - rows_of_b, a->dims[a->rank - (attributes->transpose_a ? 2 : 1)],
                          "a's inner dimension", error));
    BGI_TRY(bgi_shape_broadcast(a, "a", b, "b", 2, &y, error));
    y.dims[y.rank - 2] = a->dims[a->rank - (attributes->transpose_a ? 1 : 2)];
    y.dims[y.rank - 1] = b->dims[b->rank - (attributes->transpose_b ? 2 : 1)];
    outputs[0] = y;
    return BG_OK;
}

/* Adds the gradients. For the factors A and B after their transposes, dA = dy B^T and dB = A^T dy. The gradient of a
 * transposed factor is transposed too: dA^T = B dy^T, dB^T = dy^T A. */
static bg_status derive_matmul(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_matmul_attributes *attributes = gradient->op.attributes;
    const bool ta = attributes->transpose_a, tb = attributes->transpose_b;
    const bg_value a = gradient->inputs[0], b = gradient->inputs[1], dy = gradient->output_gradients[0];
    bg_graph *graph = gradient->graph;

    if (gradient->needs[0]) {
        const bg_value da = ta ? bg_matmul(graph, NULL, b, dy, tb, true) : bg_matmul(graph, NULL, dy, b, false, !tb);

        gradient->input_gradients[0] = bgi_reduce_to(graph, da, &gradient->op.types[0]);
    }
    if (gradient->needs[1]) {
        const bg_value db = tb ? bg_matmul(graph, NULL, dy, a, true, ta) : bg_matmul(graph, NULL, a, dy, !ta, false);

        gradient->input_gradients[1] = bgi_reduce_to(graph, db, &gradient->op.types[1]);
    }
    return bg_graph_check(graph, error);
}

static bg_cost cost_matmul(const bg_op_signature *op)
{
    const bgi_matmul_attributes *attributes = op->attributes;
    const bg_type *a = &op->types[0];
    const double depth = (double)a->dims[a->rank - (attributes->transpose_a ? 2 : 1)];

    return bgi_cost_once(op, 2.0 * depth * bgi_type_elements(&op->types[2]));
}

const bg_op_type bgi_op_matmul = {
    .name = "matmul",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_matmul_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_matmul,
    .gradient = derive_matmul,
    .cost = cost_matmul,
    .kernel = select_matmul,
    .accumulating = &bgi_op_matmul_accumulate,
};
BGI_ACCUMULATING_FORM(bgi_op_matmul_accumulate, "matmul_accumulate", bgi_op_matmul, 2, 1, bgi_matmul_attributes,
                      select_matmul);

bg_value bg_matmul(bg_graph *graph, const char *name, bg_value a, bg_value b, bool transpose_a, bool transpose_b)
{
    const bgi_matmul_attributes attributes = {.transpose_a = transpose_a, .transpose_b = transpose_b};
    bg_value inputs[] = {a, b};

    bgi_promote(graph, inputs, 2);
    return bg_graph_add(graph, &bgi_op_matmul, name, inputs, 2, &attributes, NULL);
}
