/*
 * resume.c: a training run that stops halfway and resumes from a checkpoint ends with the weights of a run without a
 * stop. docs/tutorial/06-checkpoints.md explains the program.
 */
#include <brigade.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MICRO_BATCH = 16, MICRO_BATCHES = 4, POINTS = MICRO_BATCH * MICRO_BATCHES };

static bg_error error;

static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "resume: %s\n", error.message);
    exit(1);
}

static bg_value add_model(bg_graph *graph)
{
    const bg_type points = bg_matrix(BG_FLOAT32, MICRO_BATCH, 1);
    bg_value x = bg_graph_input(graph, "x", &points);

    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = bg_dropout(graph, "dropout", bg_tanh(graph, bg_linear_layer(graph, "fc1", x, 32, true)), 0.1);
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "fc2", x, 1, true);
    return bg_mse_loss(graph, "loss", x, bg_graph_input(graph, "target", &points), BG_LOSS_MEAN);
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

/* Resumes from the folder's newest checkpoint. Returns the number of updates in it, or 0 if there is no checkpoint. */
static uint64_t resume(bg_session *session, const char *folder)
{
    const bg_status status = bg_checkpoint_load(session, folder, NULL, NULL, &error);

    if (status == BG_ERROR_NOT_FOUND)
        return 0;
    check(status);
    return bg_session_step(session);
}

/* resume STRATEGY LAST FOLDER: trains from the newest checkpoint in FOLDER up to update LAST, and saves a checkpoint
 * there. */
int main(int argc, char **argv)
{
    const bg_optimizer adam = bg_adam(0.01);
    float x[POINTS], target[POINTS], loss;
    bg_graph *graph;
    bg_session *session;

    if (argc != 4) {
        fprintf(stderr, "usage: resume STRATEGY LAST FOLDER\n");
        return 2;
    }
    bg_options options = bg_options_defaults();
    options.execution.strategy = strcmp(argv[1], "pipelined") == 0 ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SINGLE;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    const uint64_t last = strtoul(argv[2], NULL, 10);

    check(bg_graph_create(&graph, &error));
    const bg_value value = add_model(graph);
    bg_graph_output(graph, "loss", value);
    check(bg_session_create_training(graph, value, &adam, &options, NULL, &session, &error));

    uint64_t step = resume(session, argv[3]);
    printf("from update %d", (int)step);
    while (step < last) {
        /* The data of update `step` depend only on its number. */
        for (int i = 0; i < POINTS; i++) {
            x[i] = (float)((step * 7 + (uint64_t)i * 29) % 100) / 50 - 1;
            target[i] = sinf(3 * x[i]);
        }
        check(bg_session_run(session, (const void *[]){x, target}, (void *[]){&loss}, &error));
        step = bg_session_step(session);
    }
    check(bg_checkpoint_save(session, argv[3], NULL, &error));
    printf(" to update %d: weights %016llx\n", (int)step,
           (unsigned long long)hash_weights(bg_session_weights(session)));
    bg_session_destroy(session);
    bg_graph_destroy(graph);
    return 0;
}
