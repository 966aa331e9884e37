/*
 * lesson.h: has the code that the lessons share, so that each lesson has only its model, its data and its optimizer.
 *
 *     LESSON [single|pipelined|phased|replicas|recomputed] [--updates N] [--losses] [--start FILE.npz]
 *
 * A lesson trains for 200 updates on data from lesson_hash below, so that a PyTorch script can make the same data, and
 * prints the first loss, the last one and a hash of the weights. The argument without dashes chooses how the model is
 * spread over devices; the weights have the same bits with every choice. --losses prints the loss of every update;
 * --start writes the weights before the first one.
 *
 *     single      one device
 *     pipelined   each block of the model is a stage on a separate device
 *     phased      one device does one block after the other; weights that wait are in remote memory
 *     replicas    two devices with half of the micro-batches each, and half of the optimizer's state
 *     recomputed  pipelined; what a stage needs for its backward pass is computed again instead of kept
 */
#ifndef LESSON_H
#define LESSON_H

#include <brigade.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lesson {
    const char *name;
    int64_t samples;        /* number of samples of the data, which are used repeatedly in order */
    int64_t micro_batch;    /* the samples that pass through the model at a time */
    uint32_t micro_batches; /* micro-batches in a weight update: 2 or 4 */
    bool has_statistics;    /* batch norm: each replica has its own statistics, so sums cannot be canonical */
    bg_optimizer optimizer;
    /* Builds the model over inputs whose first dimension is micro_batch, and returns the loss. */
    bg_value (*build)(bg_graph *graph, int64_t micro_batch);
    /* Writes sample `number`: data[i] is its place in input i of the model, in the order in which build adds inputs. */
    void (*draw)(uint32_t number, void *const *data);
} lesson;

enum { LESSON_UPDATES = 200, LESSON_INPUTS = 4 };

/* Ends the program with a message. */
static inline void lesson_end(const char *name, const char *message)
{
    fprintf(stderr, "%s: %s\n", name, message);
    exit(1);
}

static bg_error lesson_error;
static inline void lesson_check(bg_status status)
{
    if (status != BG_OK)
        lesson_end("Brigade", lesson_error.message);
}

/* ---- data ---- */

/* Returns a hash of the two numbers. Random data are made from such hashes. */
static inline uint32_t lesson_hash(uint32_t stream, uint32_t index)
{
    uint32_t x = stream * 0x9e3779b9u ^ index;

    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Returns the hash as a number in [-1, 1), without rounding. */
static inline double lesson_number(uint32_t stream, uint32_t index)
{
    return (double)(lesson_hash(stream, index) >> 8) / 8388608.0 - 1.0;
}

/* ---- the strategy ---- */

static inline bg_options lesson_options(const lesson *l, const char *strategy)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.gradient_accumulation = l->micro_batches;
    options.numerics.canonical_reductions = !l->has_statistics; /* sums have one order for any number of replicas */
    options.reporting.output_mode = BG_OUTPUT_ALL;              /* the loss of each micro-batch */
    if (strcmp(strategy, "single") == 0) {
        options.execution.strategy = BG_STRATEGY_SINGLE;
    } else if (strcmp(strategy, "phased") == 0) {
        options.execution.strategy = BG_STRATEGY_PHASED;
    } else if (strcmp(strategy, "replicas") == 0) {
        options.execution.strategy = BG_STRATEGY_SINGLE;
        options.execution.gradient_accumulation = l->micro_batches / 2;
        options.replicas.count = 2;
        options.memory.locations[BG_LOCATION_STATE].sharded = true;
        options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 2;
    } else if (strcmp(strategy, "recomputed") == 0) {
        options.memory.recompute = BG_RECOMPUTE_STAGE;
    } else if (strcmp(strategy, "pipelined") != 0) {
        lesson_end(strategy, "not one of single, pipelined, phased, replicas, recomputed");
    }
    return options;
}

/* ---- the run ---- */

/* Makes all samples of each input of the session, one after the other; the bytes of a sample are in sample_bytes. */
static inline void lesson_make_data(const lesson *l, const bg_session *session, char **data, size_t *sample_bytes)
{
    const uint32_t inputs = bg_session_input_count(session);

    for (uint32_t i = 0; i < inputs; i++) {
        bg_stream stream;
        lesson_check(bg_session_input(session, i, &stream, &lesson_error));
        sample_bytes[i] = bg_type_size_bytes(&stream.micro_batch_type) / (size_t)l->micro_batch;
        data[i] = calloc((size_t)l->samples, sample_bytes[i]);
        if (data[i] == NULL)
            lesson_end(l->name, "no memory for the data");
    }
    for (int64_t s = 0; s < l->samples; s++) {
        void *sample[LESSON_INPUTS];
        for (uint32_t i = 0; i < inputs; i++)
            sample[i] = data[i] + (size_t)s * sample_bytes[i];
        l->draw((uint32_t)s, sample);
    }
}

/* Hashes all parameters; the result does not depend on their order. */
static inline uint64_t lesson_hash_weights(bg_weights *weights)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        uint64_t hash = 0xcbf29ce484222325u;
        lesson_check(bg_weights_at(weights, i, &weight, &lesson_error));
        for (const char *c = weight.name; *c != '\0'; c++)
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
        for (size_t b = 0; b < bg_type_size_bytes(&weight.type); b++)
            hash = (hash ^ ((const unsigned char *)weight.data)[b]) * 0x100000001b3u;
        all += weight.role == BG_ROLE_PARAMETER ? hash : 0;
    }
    return all;
}

static inline void lesson_train(const lesson *l, bg_session *session, long updates, bool prints_losses)
{
    const int64_t batch = l->micro_batch * l->micro_batches;
    size_t sample_bytes[LESSON_INPUTS];
    char *data[LESSON_INPUTS];
    double first = 0, last = 0;

    lesson_make_data(l, session, data, sample_bytes);
    for (long update = 0; update < updates; update++) {
        const void *inputs[LESSON_INPUTS];
        float losses[4] = {0};

        for (uint32_t i = 0; i < bg_session_input_count(session); i++)
            inputs[i] = data[i] + (size_t)(update * batch % l->samples) * sample_bytes[i];
        lesson_check(bg_session_run(session, inputs, (void *[]){losses}, &lesson_error));
        last = 0;
        for (uint32_t m = 0; m < l->micro_batches; m++)
            last += losses[m] / l->micro_batches;
        first = update == 0 ? last : first;
        if (prints_losses)
            printf("loss %ld %.7f\n", update + 1, last);
    }
    printf("%s: loss %.4f, after %ld updates %.4f; weights %016" PRIx64 "\n", l->name, first, updates, last,
           lesson_hash_weights(bg_session_weights(session)));
    for (uint32_t i = 0; i < bg_session_input_count(session); i++)
        free(data[i]);
}

static inline int lesson_run(const lesson *l, int argc, char **argv)
{
    const char *strategy = "single", *start = NULL;
    long updates = LESSON_UPDATES;
    bool prints_losses = false;
    bg_graph *graph;
    bg_session *session;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--losses") == 0)
            prints_losses = true;
        else if (strcmp(argv[i], "--updates") == 0 && i + 1 < argc)
            updates = strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--start") == 0 && i + 1 < argc)
            start = argv[++i];
        else
            strategy = argv[i];
    }
    const bg_options options = lesson_options(l, strategy);

    lesson_check(bg_graph_create(&graph, &lesson_error));
    const bg_value loss = l->build(graph, l->micro_batch);
    bg_graph_output(graph, "loss", loss);
    lesson_check(bg_session_create_training(graph, loss, &l->optimizer, &options, NULL, &session, &lesson_error));
    if (start != NULL)
        lesson_check(bg_weights_save(bg_session_weights(session), start, NULL, &lesson_error));
    lesson_train(l, session, updates, prints_losses);
    bg_session_destroy(session);
    bg_graph_destroy(graph);
    return 0;
}

#endif
