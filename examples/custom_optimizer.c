/*
 * custom_optimizer.c: trains with an optimizer that the program defines. Its update is an op that changes a parameter
 * and two states in place. Other features (accumulation, sums over replicas, sharded or offloaded state, checkpoints)
 * work as with the library's optimizers. The rule is AdaBelief's (Zhuang et al., 2020): Adam, but with short steps
 * where the gradient differs from its running mean. lesson.h has the arguments and the loop.
 *
 *     cc custom_optimizer.c $(pkg-config --cflags --libs brigade) -lm -o custom_optimizer
 *     ./custom_optimizer replicas
 */
#include "lesson.h"

#include <math.h>

/* ---- the update: parameter!, gradient, numbers, scale, mean!, variance! ---- */

enum { PARAMETER, GRADIENT, NUMBERS, SCALE, MEAN, VARIANCE };
enum { PIECE = 4096 }; /* elements in a part of the kernel */

static bg_status infer_update(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)outputs;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (i != NUMBERS && op->types[i].dtype != BG_FLOAT32)
            return bg_error_set(error, BG_ERROR_UNSUPPORTED, "operand %u must be float32", i);
    return BG_OK;
}

static void run_update(const bg_kernel_call *call, uint32_t part)
{
    const int64_t count = bg_type_element_count(&call->types[PARAMETER]), begin = (int64_t)part * PIECE;
    const int64_t end = begin + PIECE < count ? begin + PIECE : count;
    const double *numbers = call->operands[NUMBERS];
    const double t = (double)call->env->optimizer_step - numbers[BG_UPDATE_SKIPPED] + 1;
    const double beta1 = numbers[BG_UPDATE_OWN], beta2 = numbers[BG_UPDATE_OWN + 1],
                 epsilon = numbers[BG_UPDATE_OWN + 2];
    const double rate = numbers[BG_UPDATE_RATE], decay = numbers[BG_UPDATE_DECAY];
    const double correction1 = 1 - pow(beta1, t), correction2 = 1 - pow(beta2, t);
    const float *gradient = call->operands[GRADIENT], scale = *(const float *)call->operands[SCALE];
    float *w = call->operands[PARAMETER], *mean = call->operands[MEAN], *variance = call->operands[VARIANCE];

    if (numbers[BG_UPDATE_SKIP] != 0)
        return; /* gradients overflowed */
    for (int64_t i = begin; i < end; i++) {
        const double g = (double)gradient[i] * scale;

        mean[i] = (float)(beta1 * mean[i] + (1 - beta1) * g);
        variance[i] = (float)(beta2 * variance[i] + (1 - beta2) * (g - mean[i]) * (g - mean[i]) + epsilon);
        w[i] = (float)(w[i] * (1 - rate * decay) -
                       rate * (mean[i] / correction1) / (sqrt(variance[i] / correction2) + epsilon));
    }
}

static bg_status choose_update(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    const int64_t count = bg_type_element_count(&op->types[PARAMETER]);

    (void)policy, (void)error;
    *out = (bg_kernel){
        .name = "adabelief_update", .run = run_update, .part_count = (uint32_t)((count + PIECE - 1) / PIECE)};
    return BG_OK;
}

static const bg_op_type adabelief_update = {
    BG_OP_TYPE_DEFAULTS,
    .name = "adabelief_update",
    .minimum_inputs = 6,
    .maximum_inputs = 6,
    .written_inputs = 1u << PARAMETER | 1u << MEAN | 1u << VARIANCE,
    .is_elementwise_update = true, /* each replica may update only a shard */
    .infer = infer_update,
    .kernel = choose_update,
};

static const bg_update_rule adabelief = {.name = "adabelief", .update = &adabelief_update, .states = "mean variance"};

/* ---- the task: which of two interleaved rings a point is on ---- */

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type point = bg_matrix(BG_FLOAT32, micro_batch, 2), label = bg_vector(BG_INT32, micro_batch);
    bg_value x = bg_graph_input(graph, "x", &point);
    const bg_value labels = bg_graph_input(graph, "labels", &label);

    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_linear_layer(graph, "fc1", x, 32, true));
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_linear_layer(graph, "fc2", x, 32, true));
    bg_block_start(graph, "third", BG_DEVICE_NONE);
    return bg_cross_entropy(graph, "loss", bg_linear_layer(graph, "fc3", x, 2, true), labels, BG_LOSS_MEAN, -100);
}

static void draw(uint32_t number, void *const *data)
{
    float *x = data[0];
    int32_t *label = data[1];

    x[0] = (float)(2 * lesson_number(number, 0));
    x[1] = (float)(2 * lesson_number(number, 1));
    *label = (int32_t)floor(((double)x[0] * x[0] + (double)x[1] * x[1]) / 2) % 2;
}

int main(int argc, char **argv)
{
    lesson custom_optimizer = {.name = "custom_optimizer",
                               .samples = 256,
                               .micro_batch = 16,
                               .micro_batches = 4,
                               .build = build,
                               .draw = draw};

    custom_optimizer.optimizer = bg_custom(0.02, &adabelief);
    custom_optimizer.optimizer.weight_decay = 0.01;
    custom_optimizer.optimizer.numbers[0] = 0.9;
    custom_optimizer.optimizer.numbers[1] = 0.999;
    custom_optimizer.optimizer.numbers[2] = 1e-8;
    return lesson_run(&custom_optimizer, argc, argv);
}
