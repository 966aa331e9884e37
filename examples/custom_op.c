/*
 * custom_op.c: trains a model with an op that the program defines, with its gradient; every strategy trains it like any
 * other model. The op is the snake function, y = x + sin(a x)^2 / a (Ziyin et al., 2020), with a parameter a for each
 * feature. Networks with it learn periodic functions. docs/custom-ops.md explains each part; lesson.h has the arguments
 * and the loop.
 *
 *     cc custom_op.c $(pkg-config --cflags --libs brigade) -lm -o custom_op && ./custom_op pipelined
 */
#include "lesson.h"

#include <math.h>

enum { WIDTH = 16 };

/* ---- forward: x [N, F], a [F] -> y [N, F] ---- */

static bg_status infer_snake(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[0], *a = &op->types[1];

    if (x->dtype != BG_FLOAT32 || a->dtype != BG_FLOAT32 || x->rank != 2 || a->rank != 1 || a->dims[0] != x->dims[1])
        return bg_error_set(error, BG_ERROR_SHAPE, "x must be float32 [N, F] and a float32 [F]");
    outputs[0] = *x;
    return BG_OK;
}

/* Runs one part of the kernel, which is one row. Any thread may run a part, at any time. */
static void run_snake(const bg_kernel_call *call, uint32_t part)
{
    const int64_t features = call->types[0].dims[1];
    const float *x = (const float *)call->operands[0] + part * features, *a = call->operands[1];
    float *y = (float *)call->operands[2] + part * features;

    for (int64_t f = 0; f < features; f++) {
        const double s = sin((double)a[f] * x[f]);
        y[f] = (float)(x[f] + s * s / a[f]);
    }
}

static bg_status choose_snake(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)policy, (void)error;
    *out = (bg_kernel){.name = "snake", .run = run_snake, .part_count = (uint32_t)op->types[0].dims[0]};
    return BG_OK;
}

/* ---- backward: dy, x, a -> dx, da ---- */

static bg_status infer_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[1];
    outputs[1] = op->types[2];
    return BG_OK;
}

/* Runs one part of the kernel, which is one feature. So a part sums only the gradient of the feature's a, always in the
 * same order. */
static void run_backward(const bg_kernel_call *call, uint32_t part)
{
    const int64_t rows = call->types[1].dims[0], features = call->types[1].dims[1];
    const float *dy = call->operands[0], *x = call->operands[1];
    const double a = ((const float *)call->operands[2])[part];
    float *dx = call->operands[3], *da = call->operands[4];
    double sum = 0;

    for (int64_t i = part; i < rows * features; i += features) {
        const double s = sin(a * x[i]), s2 = sin(2 * a * x[i]);
        dx[i] = (float)(dy[i] * (1 + s2));
        sum += dy[i] * (x[i] * s2 - s * s / a) / a;
    }
    da[part] = (float)sum;
}

static bg_status choose_backward(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)policy, (void)error;
    *out = (bg_kernel){.name = "snake_backward", .run = run_backward, .part_count = (uint32_t)op->types[1].dims[1]};
    return BG_OK;
}

static const bg_op_type snake_backward = {
    BG_OP_TYPE_DEFAULTS, .name = "snake_backward", .minimum_inputs = 3,       .maximum_inputs = 3,
    .output_count = 2,   .infer = infer_backward,  .kernel = choose_backward,
};

/* Adds the op that computes the gradient; the gradient rule itself computes nothing. */
static bg_status derive_snake(bg_op_gradient *gradient, bg_error *error)
{
    const bg_value operands[] = {gradient->output_gradients[0], gradient->inputs[0], gradient->inputs[1]};

    bg_graph_add(gradient->graph, &snake_backward, NULL, operands, 3, NULL, gradient->input_gradients);
    return bg_graph_check(gradient->graph, error);
}

static const bg_op_type snake = {
    BG_OP_TYPE_DEFAULTS, .name = "snake",      .minimum_inputs = 2,      .maximum_inputs = 2,
    .output_count = 1,   .infer = infer_snake, .gradient = derive_snake, .kernel = choose_snake,
};

/* ---- the model ---- */

static bg_value add_snake(bg_graph *graph, const char *name, bg_value x)
{
    const bg_type steepness = bg_vector(BG_FLOAT32, WIDTH);
    const bg_initializer one = {.kind = BG_INITIALIZE_CONSTANT, .a = 1};

    return bg_graph_add(graph, &snake, NULL, (bg_value[]){x, bg_graph_parameter(graph, name, &steepness, &one)}, 2,
                        NULL, NULL);
}

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type number = bg_matrix(BG_FLOAT32, micro_batch, 1);
    bg_value x = bg_graph_input(graph, "x", &number);
    const bg_value y = bg_graph_input(graph, "y", &number);

    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = add_snake(graph, "a1", bg_linear_layer(graph, "fc1", x, WIDTH, true));
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    x = add_snake(graph, "a2", bg_linear_layer(graph, "fc2", x, WIDTH, true));
    bg_block_start(graph, "third", BG_DEVICE_NONE);
    return bg_mse_loss(graph, "mse", bg_linear_layer(graph, "fc3", x, 1, true), y, BG_LOSS_MEAN);
}

/* Draws a point of a triangle wave over three periods. */
static void draw(uint32_t number, void *const *data)
{
    float *x = data[0], *y = data[1];

    *x = (float)(3 * lesson_number(number, 0));
    *y = (float)(4 * fabs(*x / 2.0 - floor(*x / 2.0 + 0.5)) - 1);
}

int main(int argc, char **argv)
{
    const lesson custom_op = {.name = "custom_op",
                              .samples = 256,
                              .micro_batch = 16,
                              .micro_batches = 4,
                              .optimizer = bg_adam(0.005),
                              .build = build,
                              .draw = draw};

    return lesson_run(&custom_op, argc, argv);
}
