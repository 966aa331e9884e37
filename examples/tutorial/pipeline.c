/*
 * pipeline.c: trains one network of four blocks on one device, sharded over four devices, or as a pipeline of four
 * stages; an argument chooses. All three learn bit-identical weights. docs/tutorial/02-pipeline.md explains the
 * program.
 */
#include <brigade.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One call of the session makes one weight update, of 8 micro-batches of 8 points. */
enum { MICRO_BATCH = 8, MICRO_BATCHES = 8, POINTS = MICRO_BATCH * MICRO_BATCHES, WIDTH = 32, UPDATES = 100 };

static bg_error error;

static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "pipeline: %s\n", error.message);
    exit(1);
}

/* Adds the network, in four blocks, and returns its loss. */
static bg_value add_model(bg_graph *graph)
{
    const bg_type points = bg_matrix(BG_FLOAT32, MICRO_BATCH, 1);
    bg_value x = bg_graph_input(graph, "x", &points);

    bg_block_start(graph, "B1", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_linear_layer(graph, "fc1", x, WIDTH, true));
    bg_block_start(graph, "B2", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_linear_layer(graph, "fc2", x, WIDTH, true));
    bg_block_start(graph, "B3", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_linear_layer(graph, "fc3", x, WIDTH, true));
    bg_block_start(graph, "B4", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "fc4", x, 1, true);
    return bg_mse_loss(graph, "loss", x, bg_graph_input(graph, "target", &points), BG_LOSS_MEAN);
}

static bg_options choose_options(const char *strategy)
{
    bg_options options = bg_options_defaults();
    int value = BG_STRATEGY_SINGLE;

    if (!bg_option_value_find("strategy", strategy, &value)) {
        fprintf(stderr, "pipeline: %s is no strategy\n", strategy);
        exit(1);
    }
    options.execution.strategy = (bg_strategy)value;
    if (options.execution.strategy != BG_STRATEGY_SINGLE)
        options.execution.stages = "B1|B2|B3|B4";
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.reporting.output_mode = BG_OUTPUT_ALL; /* the loss of every micro-batch */
    return options;
}

/* Returns a hash of all weights: runs that print the same one agree in every bit. */
static uint64_t hash_weights(bg_weights *weights)
{
    uint64_t hash = 14695981039346656037u;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        check(bg_weights_at(weights, i, &weight, &error));
        const unsigned char *bytes = weight.data;
        for (size_t b = 0; b < bg_type_size_bytes(&weight.type); b++)
            hash = (hash ^ bytes[b]) * 1099511628211u;
    }
    return hash;
}

int main(int argc, char **argv)
{
    const bg_options options = choose_options(argc > 1 ? argv[1] : "single");
    const bg_optimizer adam = bg_adam(0.01);
    float x[POINTS], target[POINTS], losses[MICRO_BATCHES], mean = 0;
    bg_graph *graph;
    bg_session *session;

    for (int i = 0; i < POINTS; i++) {
        x[i] = -1 + 2.0f * (float)((i * 29) % POINTS) / (POINTS - 1);
        target[i] = sinf(3 * x[i]);
    }

    check(bg_graph_create(&graph, &error));
    const bg_value loss = add_model(graph);
    bg_graph_output(graph, "loss", loss);
    check(bg_session_create_training(graph, loss, &adam, &options, NULL, &session, &error));

    for (int update = 0; update < UPDATES; update++)
        check(bg_session_run(session, (const void *[]){x, target}, (void *[]){losses}, &error));
    for (int i = 0; i < MICRO_BATCHES; i++)
        mean += losses[i] / MICRO_BATCHES;
    const bg_plan_summary summary = bg_plan_summarize(bg_session_plan(session));
    printf("stages %u, devices %u: loss %.5f, weights %016llx\n", summary.stage_count, summary.device_count, mean,
           (unsigned long long)hash_weights(bg_session_weights(session)));

    if (argc > 2 && strcmp(argv[2], "timetable") == 0) {
        char *timetable;
        check(bg_plan_print_timetable(bg_session_plan(session), &timetable, &error));
        fputs(timetable, stdout);
        free(timetable);
    }
    bg_session_destroy(session);
    bg_graph_destroy(graph);
    return 0;
}
