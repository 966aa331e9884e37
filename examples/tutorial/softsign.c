/*
 * softsign.c: defines an op, y = x / (1 + |x|), with its gradient, checks the gradient, and trains a model with the op.
 * docs/tutorial/10-custom-op.md explains the program.
 */
#include <brigade.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 64, UPDATES = 400 };

static bg_error error;

static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "softsign: %s\n", error.message);
    exit(1);
}

/* ---- elements, so that one kernel serves float32 and float64 ---- */

static double read_element(const bg_kernel_call *call, uint32_t operand, int64_t i)
{
    return call->types[operand].dtype == BG_FLOAT64 ? ((const double *)call->operands[operand])[i]
                                                    : (double)((const float *)call->operands[operand])[i];
}

static void write_element(const bg_kernel_call *call, uint32_t operand, int64_t i, double value)
{
    if (call->types[operand].dtype == BG_FLOAT64)
        ((double *)call->operands[operand])[i] = value;
    else
        ((float *)call->operands[operand])[i] = (float)value;
}

/* ---- forward: x -> y ---- */

static bg_status infer_softsign(const bg_op_signature *op, bg_type *outputs, bg_error *failure)
{
    if (op->types[0].dtype != BG_FLOAT32 && op->types[0].dtype != BG_FLOAT64)
        return bg_error_set(failure, BG_ERROR_SHAPE, "x must be float32 or float64");
    outputs[0] = op->types[0];
    return BG_OK;
}

/* Operand 0 is x, operand 1 is y. */
static void run_softsign(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for (int64_t i = 0; i < bg_type_element_count(&call->types[0]); i++) {
        const double x = read_element(call, 0, i);
        write_element(call, 1, i, x / (1 + fabs(x)));
    }
}

static bg_status choose_softsign(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *failure)
{
    (void)op, (void)policy, (void)failure;
    *out = (bg_kernel){.name = "softsign", .run = run_softsign, .part_count = 1};
    return BG_OK;
}

/* ---- backward: dy, x -> dx = dy / (1 + |x|)^2 ---- */

static bg_status infer_backward(const bg_op_signature *op, bg_type *outputs, bg_error *failure)
{
    (void)failure;
    outputs[0] = op->types[1];
    return BG_OK;
}

static void run_backward(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for (int64_t i = 0; i < bg_type_element_count(&call->types[0]); i++) {
        const double size = 1 + fabs(read_element(call, 1, i));
        write_element(call, 2, i, read_element(call, 0, i) / (size * size));
    }
}

static bg_status choose_backward(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *failure)
{
    (void)op, (void)policy, (void)failure;
    *out = (bg_kernel){.name = "softsign_backward", .run = run_backward, .part_count = 1};
    return BG_OK;
}

static const bg_op_type softsign_backward = {
    BG_OP_TYPE_DEFAULTS, .name = "softsign_backward", .minimum_inputs = 2,       .maximum_inputs = 2,
    .output_count = 1,   .infer = infer_backward,     .kernel = choose_backward,
};

/* The gradient rule adds the op that computes the gradient. */
static bg_status derive_softsign(bg_op_gradient *gradient, bg_error *failure)
{
    const bg_value operands[] = {gradient->output_gradients[0], gradient->inputs[0]};

    gradient->input_gradients[0] = bg_graph_add(gradient->graph, &softsign_backward, NULL, operands, 2, NULL, NULL);
    return bg_graph_check(gradient->graph, failure);
}

/* ---- the op ---- */

static const bg_op_type softsign = {
    BG_OP_TYPE_DEFAULTS, .name = "softsign",      .minimum_inputs = 1,         .maximum_inputs = 1,
    .output_count = 1,   .infer = infer_softsign, .gradient = derive_softsign, .kernel = choose_softsign,
};

/* A wrong gradient of softsign: the denominator is not squared. */
static bg_status derive_wrong(bg_op_gradient *gradient, bg_error *failure)
{
    gradient->input_gradients[0] =
        bg_divide(gradient->graph, gradient->output_gradients[0],
                  bg_scale(gradient->graph, NULL,
                           bg_elementwise_unary(gradient->graph, NULL, BG_ABS, gradient->inputs[0]), 1, 1));
    return bg_graph_check(gradient->graph, failure);
}

static void check_gradients(void)
{
    const bg_type x = bg_vector(BG_FLOAT64, 5);
    bg_op_type wrong = softsign;

    check(bg_gradient_check(&softsign, NULL, &x, NULL, 1, NULL, &error));
    printf("the gradient is right\n");
    wrong.gradient = derive_wrong;
    if (bg_gradient_check(&wrong, NULL, &x, NULL, 1, NULL, &error) != BG_OK)
        printf("the other one is wrong: %s\n", error.message);
}

int main(void)
{
    const bg_type points = bg_matrix(BG_FLOAT32, POINTS, 1);
    const bg_optimizer adam = bg_adam(0.01);
    float x[POINTS], target[POINTS], loss = 0;
    bg_graph *graph;
    bg_session *session;

    check_gradients();
    for (int i = 0; i < POINTS; i++) {
        x[i] = -1 + 2.0f * (float)i / (POINTS - 1);
        target[i] = sinf(3 * x[i]);
    }
    check(bg_graph_create(&graph, &error));
    bg_block_start(graph, "first", BG_DEVICE_NONE);
    bg_value y = bg_linear_layer(graph, "fc1", bg_graph_input(graph, "x", &points), 32, true);
    y = bg_graph_add(graph, &softsign, "act", &y, 1, NULL, NULL);
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    y = bg_linear_layer(graph, "fc2", y, 1, true);
    const bg_value value = bg_mse_loss(graph, "loss", y, bg_graph_input(graph, "target", &points), BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", value);

    bg_options options = bg_options_defaults();
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    check(bg_session_create_training(graph, value, &adam, &options, NULL, &session, &error));
    for (int update = 0; update < UPDATES; update++)
        check(bg_session_run(session, (const void *[]){x, target}, (void *[]){&loss}, &error));
    printf("a pipeline with softsign: loss %.5f after %d updates\n", loss, UPDATES);

    bg_session_destroy(session);
    bg_graph_destroy(graph);
    return 0;
}
