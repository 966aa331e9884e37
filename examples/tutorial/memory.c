/*
 * memory.c: shows how much memory each class of values takes in a training step, and how recomputation, offload and
 * phases change it. All variants learn bit-identical weights. docs/tutorial/04-memory.md explains the program.
 */
#include <brigade.h>
#include <stdio.h>
#include <stdlib.h>

enum { MICRO_BATCH = 32, MICRO_BATCHES = 8, WIDTH = 128, SAMPLES = MICRO_BATCH * MICRO_BATCHES };

static bg_error error;

static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "memory: %s\n", error.message);
    exit(1);
}

/* Adds four blocks of two layers, and a loss. */
static bg_value add_model(bg_graph *graph)
{
    const bg_type samples = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH);
    bg_value x = bg_graph_input(graph, "x", &samples);

    for (int i = 0; i < 4; i++) {
        const char *const blocks[] = {"B1", "B2", "B3", "B4"};

        bg_block_start(graph, blocks[i], BG_DEVICE_NONE);
        bg_scope_begin(graph, "layer.%d", i);
        x = bg_gelu(graph, bg_linear_layer(graph, "in", x, 2 * WIDTH, true));
        x = bg_gelu(graph, bg_linear_layer(graph, "out", x, WIDTH, true));
        bg_scope_end(graph);
    }
    return bg_mse_loss(graph, "loss", x, bg_graph_input(graph, "target", &samples), BG_LOSS_MEAN);
}

/* Returns a hash of all weights: runs that print the same one agree in every bit. */
static uint64_t hash_weights(bg_weights *weights)
{
    uint64_t hash = 14695981039346656037u;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        check(bg_weights_at(weights, i, &weight, &error));
        const unsigned char *bytes = weight.data;
        for (size_t b = 0; weight.role == BG_ROLE_PARAMETER && b < bg_type_size_bytes(&weight.type); b++)
            hash = (hash ^ bytes[b]) * 1099511628211u;
    }
    return hash;
}

/* Returns the kilobytes of a class of memory on all devices. */
static double kilobytes(const bg_plan *plan, bg_memory_class memory_class)
{
    size_t bytes = 0;

    for (uint32_t device = 0; device < bg_plan_summarize(plan).device_count; device++)
        bytes += bg_plan_memory_bytes(plan, device, memory_class);
    return (double)bytes / 1000;
}

/* Trains three updates with these options and prints a row of the table. */
static void measure(const char *name, const bg_options *options)
{
    static float x[SAMPLES * WIDTH], target[SAMPLES * WIDTH];
    const bg_optimizer adam = bg_adam(0.001);
    bg_graph *graph;
    bg_session *session;

    for (int i = 0; i < SAMPLES * WIDTH; i++) {
        x[i] = (float)(i * 7919 % 1000) / 500 - 1;
        target[i] = x[i] * x[i];
    }
    check(bg_graph_create(&graph, &error));
    const bg_value loss = add_model(graph);
    bg_graph_output(graph, "loss", loss);
    check(bg_session_create_training(graph, loss, &adam, options, NULL, &session, &error));
    for (int update = 0; update < 3; update++)
        check(bg_session_run(session, (const void *[]){x, target}, (void *[]){NULL}, &error));

    const bg_plan *plan = bg_session_plan(session);
    printf("%-11s %8.1f %9.1f %8.1f %8.1f %8.1f  %016llx\n", name, kilobytes(plan, BG_MEMORY_WEIGHTS),
           kilobytes(plan, BG_MEMORY_GRADIENTS), kilobytes(plan, BG_MEMORY_STATE), kilobytes(plan, BG_MEMORY_STASH),
           kilobytes(plan, BG_MEMORY_REMOTE), (unsigned long long)hash_weights(bg_session_weights(session)));
    bg_session_destroy(session);
    bg_graph_destroy(graph);
}

int main(void)
{
    bg_options pipeline = bg_options_defaults();

    pipeline.execution.strategy = BG_STRATEGY_PIPELINED;
    pipeline.execution.stages = "B1|B2|B3|B4";
    pipeline.execution.gradient_accumulation = MICRO_BATCHES;

    bg_options recompute = pipeline;
    recompute.memory.recompute = BG_RECOMPUTE_STAGE;

    bg_options offload = pipeline;
    offload.memory.offload_optimizer = true;

    bg_options both = recompute;
    both.memory.offload_optimizer = true;

    bg_options phased = pipeline;
    phased.execution.strategy = BG_STRATEGY_PHASED;

    printf("kB           weights gradients    state    stash   remote  hash of the weights\n");
    measure("pipelined", &pipeline);
    measure("recompute", &recompute);
    measure("offload", &offload);
    measure("both", &both);
    measure("phased", &phased);
    return 0;
}
