/*
 * random_model.c: rows of `width` numbers pass through blocks of random ops. Later ops may read values in a pool again.
 */
#include "support/random_model.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <brigade/ops.h>

enum { SAMPLES = 5, WIDTH = 12, POOL = 64 };

typedef struct builder {
    bg_graph *graph;
    uint64_t random;
    bg_value pool[POOL]; /* float32 [SAMPLES, WIDTH] */
    uint32_t pool_count;
    bg_value weights[POOL]; /* [WIDTH, WIDTH] */
    uint32_t weight_count;
} builder;

uint32_t bgi_test_random_below(uint64_t *state, uint32_t bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % bound);
}

static uint32_t below(builder *b, uint32_t bound)
{
    return bgi_test_random_below(&b->random, bound);
}

static bg_value pick(builder *b)
{
    /* Picks mostly the newest value, otherwise any value, which is a skip connection. */
    return b->pool[below(b, 3) != 0 ? b->pool_count - 1 : below(b, b->pool_count)];
}

static void keep(builder *b, bg_value value)
{
    if (b->pool_count < POOL)
        b->pool[b->pool_count++] = value;
}

static bg_value weight(builder *b)
{
    const bg_type type = bg_matrix(BG_FLOAT32, WIDTH, WIDTH);
    const bg_initializer initializer = {BG_INITIALIZE_UNIFORM, -0.3, 0.3};
    char name[32];

    if (b->weight_count > 0 && below(b, 3) == 0)
        return b->weights[below(b, b->weight_count)]; /* tied */
    snprintf(name, sizeof name, "w%u", b->weight_count);
    b->weights[b->weight_count] = bg_graph_parameter(b->graph, name, &type, &initializer);
    return b->weights[b->weight_count++];
}

static bg_value through_shapes(builder *b, bg_value x)
{
    const int64_t cube[] = {SAMPLES, 3, WIDTH / 3}, square[] = {SAMPLES, WIDTH};

    x = bg_reshape(b->graph, NULL, x, 3, cube);
    if (below(b, 2) == 0)
        x = bg_relu(b->graph, x);
    return bg_reshape(b->graph, NULL, x, 2, square);
}

static bg_value by_reshaped_weight(builder *b, bg_value x)
{
    const int64_t flat[] = {WIDTH * WIDTH}, square[] = {WIDTH, WIDTH};
    const bg_value shaped = bg_reshape(b->graph, NULL, weight(b), 1, flat);

    return bg_matmul(b->graph, NULL, x, bg_reshape(b->graph, NULL, shaped, 2, square), false, false);
}

/* Adds a choice between two values; gradients reach both values, but not the comparison. */
static bg_value by_choice(builder *b, bg_value x)
{
    const bg_value y = pick(b);
    const bg_value condition = bg_compare(b->graph, NULL, (bg_comparison)below(b, BG_COMPARISON_COUNT), x, pick(b));

    return bg_where(b->graph, NULL, condition, x, y);
}

static bg_value add_op(builder *b)
{
    bg_graph *graph = b->graph;
    const bg_value x = pick(b);

    switch (below(b, 10)) {
    case 0:
        return bg_relu(graph, x);
    case 1:
        return bg_add(graph, x, pick(b));
    case 2:
        return bg_multiply(graph, x, x);
    case 3:
        return through_shapes(b, x);
    case 4:
        return by_reshaped_weight(b, x);
    case 5:
        return bg_cast(graph, NULL, bg_cast(graph, NULL, x, below(b, 2) == 0 ? BG_BFLOAT16 : BG_FLOAT16), BG_FLOAT32);
    case 6: /* an integer value, through which no gradient flows */
        return bg_add(graph, x, bg_cast(graph, NULL, bg_cast(graph, NULL, pick(b), BG_INT32), BG_FLOAT32));
    case 7:
        return bg_dropout(graph, NULL, x, 0.25);
    case 8:
        return by_choice(b, x);
    default:
        return bg_linear(graph, NULL, x, weight(b), (bg_value){0});
    }
}

/* Adds the loss, which reads the labels and may be before the last block. */
static bg_value add_loss(builder *b, bg_value labels)
{
    bg_value loss = bg_cross_entropy(b->graph, NULL, bg_linear(b->graph, NULL, pick(b), weight(b), (bg_value){0}),
                                     labels, BG_LOSS_MEAN, -100);

    if (below(b, 3) == 0)
        loss = bg_scale(b->graph, NULL, loss, 0.5, 0.0);
    return loss;
}

bgi_test_model bgi_test_random_model(uint64_t seed)
{
    builder b = {.random = seed * 2654435761u + 1};
    bgi_test_model model = {0};
    const bg_type x_type = bg_matrix(BG_FLOAT32, SAMPLES, WIDTH), label_type = bg_vector(BG_INT32, SAMPLES);
    bg_error error = {0};
    bg_value x, labels;
    uint32_t loss_block;

    assert_int_equal(bg_graph_create(&b.graph, &error), BG_OK);
    labels = bg_graph_input(b.graph, "labels", &label_type);
    x = bg_graph_input(b.graph, "x", &x_type);
    keep(&b, x);
    model.block_count = 1 + below(&b, 6);
    loss_block = below(&b, 4) == 0 ? below(&b, model.block_count) : model.block_count - 1;
    for (uint32_t block = 0; block < model.block_count; block++) {
        char name[32];
        snprintf(name, sizeof name, "B%u", block);
        bg_block_begin(b.graph, name, BG_DEVICE_NONE);
        for (uint32_t count = 1 + below(&b, 4); count > 0; count--)
            keep(&b, add_op(&b));
        if (below(&b, 3) == 0) {
            snprintf(name, sizeof name, "tap%u", block);
            bg_graph_output(b.graph, name, b.pool[b.pool_count - 1]);
        }
        if (block == loss_block) {
            model.loss = add_loss(&b, labels);
            bg_graph_output(b.graph, "loss", model.loss);
        }
        if (block + 1 == model.block_count)
            bg_graph_output(b.graph, "class", bg_argmax(b.graph, NULL, b.pool[b.pool_count - 1]));
        bg_block_end(b.graph);
    }
    if (bg_graph_check(b.graph, &error) != BG_OK)
        fail_msg("model %llu: %s", (unsigned long long)seed, error.message);
    model.graph = b.graph;
    return model;
}

/* Groups neighboring blocks into stages and places these on devices; returns whether some stages share a device. */
static bool write_stages(const bgi_test_model *model, uint64_t *random, char *stages)
{
    const bool share = bgi_test_random_below(random, 3) == 0;
    uint32_t devices = 0;
    bool is_shared = false;

    stages[0] = '\0';
    for (uint32_t block = 0; block < model->block_count;) {
        uint32_t device = devices;
        size_t length = strlen(stages);
        snprintf(stages + length, 256 - length, "%sB%u", block == 0 ? "" : "|", block);
        block++;
        while (block < model->block_count && bgi_test_random_below(random, 3) == 0) {
            length = strlen(stages);
            snprintf(stages + length, 256 - length, ",B%u", block++);
        }
        if (share && devices > 0 && bgi_test_random_below(random, 2) == 0) {
            device = bgi_test_random_below(random, devices);
            is_shared = true;
        } else {
            devices++;
        }
        length = strlen(stages);
        snprintf(stages + length, 256 - length, "@%u", device);
    }
    return is_shared;
}

bg_options bgi_test_random_options(const bgi_test_model *model, uint64_t seed, bool training, char *stages)
{
    bg_options options = bg_options_defaults();
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 3;
    const bool is_shared = write_stages(model, &random, stages);

    options.execution.stages = stages;
    options.execution.strategy = (bg_strategy)bgi_test_random_below(&random, 3);
    if (options.execution.strategy == BG_STRATEGY_PIPELINED) {
        static const char *const schedules[] = {"grouped", "sequential", "interleaved"};
        options.execution.schedule = schedules[bgi_test_random_below(&random, is_shared && training ? 2 : 3)];
    }
    options.numerics.kernels = BG_KERNELS_REFERENCE;
    options.numerics.accumulation = (bg_accumulation)bgi_test_random_below(&random, 3);
    options.numerics.max_gradient_norm = bgi_test_random_below(&random, 3) == 0 ? 0.5 : 0.0;
    if (training)
        options.execution.gradient_accumulation = 1 + bgi_test_random_below(&random, 7);
    else
        options.execution.device_iterations = 1 + bgi_test_random_below(&random, 7);
    options.memory.offload_optimizer = bgi_test_random_below(&random, 2) == 0;
    for (int k = 0; k < BG_LOCATION_COUNT; k++) {
        options.memory.locations[k].place = (bg_place)bgi_test_random_below(&random, 3);
        options.memory.locations[k].on_demand = bgi_test_random_below(&random, 2) == 0;
    }
    options.memory.phase_liveness = (bg_phase_liveness)bgi_test_random_below(&random, 4);
    options.execution.io_threads = (int32_t)bgi_test_random_below(&random, 4) - 1;
    return options;
}
