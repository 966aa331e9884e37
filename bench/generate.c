/*
 * generate.c: measures how fast GPT-2 generates one sequence, as tokens/s of single steps and of a prompt. Weights are
 * float32, bfloat16, or rounded to 8 or 4 bits; activations are float32 or bfloat16. Float32 weights of a bfloat16
 * model are cast to bfloat16 once. Each round measures all rows in turn, and results are medians. A single step reads
 * every matrix once. So its `share` is the bytes of the matrices times the tokens/s, relative to the best rate at which
 * the same cores read memory. For a prompt it compares the products' operations with the peak of the cores' arithmetic.
 * With bfloat16 weights and activations this is the peak of bfloat16 products, if the processor has them. Weights have
 * their initial values, because speed does not depend on them.
 *
 * usage: generate [--prompt N] [--layers N] [--hidden N] [--heads N] [--vocabulary N] [--cores N] [--tokens N]
 *                 [--rounds N]
 */
#include <brigade.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/arena.h"
#include "median.h"
#include "peaks.h"

enum {
    POSITIONS = 1024,
    MOST_PROMPT = 512,
    MOST_ROUNDS = 64,
    MOST_CORES = 64,
    REPEATS = 24, /* of a measurement of a peak, of which the best counts */
    PIECE_BYTES = 32 << 20,
    PIECES = 8, /* of a core's memory; a piece is read again only after all others, so that no cache has it */
    READ_BYTES = PIECES * PIECE_BYTES,
    STREAMS = 4,
    PEAK_RUNS = 8
};

typedef struct setting {
    long layers, hidden, heads, vocabulary, cores, tokens, rounds, prompt;
} setting;

typedef struct row {
    const char *name;
    bg_weights_type type;
    bg_dtype dtype;
    double bytes; /* of matrices */
    double token_s[MOST_ROUNDS], prompt_s[MOST_ROUNDS];
    bg_generator *generator;
} row;

static double read_clock_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "generate: %s\n", error->message);
    exit(1);
}

/* ---- the peak rates of the cores ---- */

/* A cache line. */
typedef uint64_t words __attribute__((vector_size(64)));

typedef struct worker {
    pthread_barrier_t *meeting;
    const words *data;
    words sum;
    volatile float peak;
    void (*multiply)(volatile float *sink); /* NULL: reads */
    double begin_s[REPEATS], end_s[REPEATS];
} worker;

/* Adds a piece to *sum. It is read as several streams, because a core then has more reads under way than with one. */
static void read_piece(const words *piece, words *sum)
{
    const size_t each = PIECE_BYTES / sizeof *piece / STREAMS;
    words sums[STREAMS] = {{0}};

    for (size_t i = 0; i < each; i += 4)
        for (size_t k = 0; k < STREAMS; k++) {
            const words *at = piece + k * each + i;
            sums[k] += at[0] + at[1] + at[2] + at[3];
        }
    for (size_t k = 0; k < STREAMS; k++)
        *sum += sums[k];
}

static void *run_worker(void *argument)
{
    worker *w = argument;

    for (int repeat = 0; repeat < REPEATS; repeat++) {
        pthread_barrier_wait(w->meeting);
        w->begin_s[repeat] = read_clock_s();
        for (int i = 0; w->multiply != NULL && i < PEAK_RUNS; i++)
            w->multiply(&w->peak);
        if (w->multiply == NULL)
            read_piece(w->data + (size_t)(repeat % PIECES) * (PIECE_BYTES / sizeof *w->data), &w->sum);
        w->end_s[repeat] = read_clock_s();
    }
    return NULL;
}

/* Returns the seconds of the shortest repeat, from the first begin of a worker to the last end. */
static double find_shortest_s(const worker *workers, long count)
{
    double shortest_s = HUGE_VAL;

    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double begin_s = HUGE_VAL, end_s = 0.0;

        for (long c = 0; c < count; c++) {
            begin_s = fmin(begin_s, workers[c].begin_s[repeat]);
            end_s = fmax(end_s, workers[c].end_s[repeat]);
        }
        shortest_s = fmin(shortest_s, end_s - begin_s);
    }
    return shortest_s;
}

/* Returns the bytes per second that all cores together read or, if `multiply` is not NULL, their operations per second;
 * a call of `multiply` has `flops` operations. A repeat takes a few milliseconds, and the best one counts, because
 * other load on the machine can only slow the cores down. */
static double measure(const setting *s, const words *data, void (*multiply)(volatile float *sink), double flops)
{
    static worker workers[MOST_CORES];
    pthread_t threads[MOST_CORES];
    pthread_barrier_t meeting;

    if (pthread_barrier_init(&meeting, NULL, (unsigned)s->cores) != 0)
        exit(1);
    for (long c = 0; c < s->cores; c++) {
        workers[c] =
            (worker){.meeting = &meeting, .data = data + (size_t)c * (READ_BYTES / sizeof *data), .multiply = multiply};
        if (pthread_create(&threads[c], NULL, run_worker, &workers[c]) != 0)
            exit(1);
    }
    for (long c = 0; c < s->cores; c++)
        pthread_join(threads[c], NULL);
    pthread_barrier_destroy(&meeting);
    return (double)s->cores * (multiply != NULL ? PEAK_RUNS * flops : (double)PIECE_BYTES) /
           find_shortest_s(workers, s->cores);
}

/* ---- generating ---- */

static bg_gpt_options make_model(const setting *s, bg_dtype dtype)
{
    bg_gpt_options model = bg_gpt_defaults();

    model.layers = s->layers;
    model.hidden = s->hidden;
    model.heads = s->heads;
    model.vocabulary = s->vocabulary;
    model.sequence_length = s->prompt;
    model.positions = POSITIONS;
    model.dropout = 0.0;
    model.dtype = dtype;
    return model;
}

static double count_weights(const setting *s)
{
    return 12.0 * (double)s->layers * (double)s->hidden * (double)s->hidden + (double)s->vocabulary * (double)s->hidden;
}

/* Returns the bytes of a weight in the matrices that a step reads. */
static double find_weight_bytes(const row *r)
{
    if (r->type == BG_WEIGHTS_INT8 || r->type == BG_WEIGHTS_INT4)
        return r->type == BG_WEIGHTS_INT8 ? 8.5 / 8.0 : 4.5 / 8.0;
    return r->type == BG_WEIGHTS_BFLOAT16 || r->dtype == BG_BFLOAT16 ? 2.0 : 4.0;
}

static bool multiplies_pairs(const row *r)
{
    return r->dtype == BG_BFLOAT16 && (r->type == BG_WEIGHTS_BFLOAT16 || r->type == BG_WEIGHTS_FLOAT) &&
           peak_pairs_flops() > 0.0;
}

static void open_row(row *r, const setting *s, bg_weights *weights)
{
    bg_options options = bg_options_defaults();
    const bg_gpt_options model = make_model(s, r->dtype);
    bg_error error;

    options.numerics.weights_type = r->type;
    options.numerics.initialize_missing = true;
    options.execution.cores = (uint32_t)s->cores;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    require(bg_generator_create(&model, &options, weights, &r->generator, &error), &error);
}

static void time_row(row *r, const setting *s, int round)
{
    uint32_t tokens[MOST_PROMPT];
    double begin;
    bg_error error;

    for (uint32_t i = 0; i < (uint32_t)s->prompt; i++)
        tokens[i] = i * 7 % (uint32_t)s->vocabulary;
    bg_generator_reset(r->generator);
    begin = read_clock_s();
    require(bg_generator_feed(r->generator, tokens, (size_t)s->prompt, &error), &error);
    r->prompt_s[round] = read_clock_s() - begin;
    require(bg_generator_feed(r->generator, tokens, 1, &error), &error);
    begin = read_clock_s();
    for (long t = 0; t < s->tokens; t++)
        require(bg_generator_feed(r->generator, tokens, 1, &error), &error);
    r->token_s[round] = (read_clock_s() - begin) / (double)s->tokens;
}

static void read_arguments(setting *s, int argc, char **argv)
{
    const struct {
        const char *name;
        long *to, most;
    } numbers[] = {{"--layers", &s->layers, 1000},        {"--hidden", &s->hidden, 100000},
                   {"--heads", &s->heads, 1000},          {"--vocabulary", &s->vocabulary, 10000000},
                   {"--cores", &s->cores, MOST_CORES},    {"--tokens", &s->tokens, POSITIONS - MOST_PROMPT - 1},
                   {"--rounds", &s->rounds, MOST_ROUNDS}, {"--prompt", &s->prompt, MOST_PROMPT}};

    for (int i = 1; i < argc; i += 2) {
        size_t n = 0;

        while (n < sizeof numbers / sizeof *numbers && strcmp(argv[i], numbers[n].name) != 0)
            n++;
        if (n == sizeof numbers / sizeof *numbers || i + 1 == argc || atol(argv[i + 1]) < 1 ||
            atol(argv[i + 1]) > numbers[n].most) {
            fprintf(stderr, "generate: `%s` is not an option with a number; see the head of bench/generate.c\n",
                    argv[i]);
            exit(2);
        }
        *numbers[n].to = atol(argv[i + 1]);
    }
}

int main(int argc, char **argv)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    setting s = {12, 768, 12, 50257, processors < MOST_CORES ? processors : MOST_CORES, 20, 5, 128};
    row rows[] = {{.name = "float32", .type = BG_WEIGHTS_FLOAT, .dtype = BG_FLOAT32},
                  {.name = "float32, bfloat16", .type = BG_WEIGHTS_FLOAT, .dtype = BG_BFLOAT16},
                  {.name = "bfloat16", .type = BG_WEIGHTS_BFLOAT16, .dtype = BG_FLOAT32},
                  {.name = "bfloat16, bfloat16", .type = BG_WEIGHTS_BFLOAT16, .dtype = BG_BFLOAT16},
                  {.name = "int8", .type = BG_WEIGHTS_INT8, .dtype = BG_FLOAT32},
                  {.name = "int4", .type = BG_WEIGHTS_INT4, .dtype = BG_FLOAT32},
                  {.name = "int8, bfloat16", .type = BG_WEIGHTS_INT8, .dtype = BG_BFLOAT16},
                  {.name = "int4, bfloat16", .type = BG_WEIGHTS_INT4, .dtype = BG_BFLOAT16}};
    double bandwidths[MOST_ROUNDS], peaks[2][MOST_ROUNDS], bandwidth, peak[2],
        float_s = 0.0;      /* peaks[1]: of bfloat16 pairs */
    bg_weights *weights[2]; /* for each type of activations, which is that of the caches */
    words *data;
    bg_error error;

    read_arguments(&s, argc, argv);
    data = bgi_aligned_reserve(sizeof *data, (size_t)s.cores * READ_BYTES);
    if (data == NULL)
        return 1;
    memset(data, 1, (size_t)s.cores * READ_BYTES);
    for (int i = 0; i < 2; i++)
        require(bg_weights_create(&weights[i], &error), &error);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        open_row(&rows[r], &s, weights[rows[r].dtype == BG_FLOAT32]);
        rows[r].bytes = count_weights(&s) * find_weight_bytes(&rows[r]);
        time_row(&rows[r], &s, 0); /* touches its memory */
    }
    for (int round = 0; round < s.rounds; round++) {
        bandwidths[round] = measure(&s, data, NULL, 0.0);
        peaks[0][round] = measure(&s, data, peak_run, peak_flops());
        peaks[1][round] = measure(&s, data, peak_pairs_run, peak_pairs_flops());
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            time_row(&rows[r], &s, round);
    }
    bandwidth = bench_median(bandwidths, (size_t)s.rounds);
    for (int i = 0; i < 2; i++)
        peak[i] = bench_median(peaks[i], (size_t)s.rounds);
    printf("%ld cores read %.1f GB/s and do %.0f GFLOP/s in float32, %.0f in bfloat16 at best; %s; median of %ld "
           "rounds\n\n",
           s.cores, bandwidth / 1e9, peak[0] / 1e9, peak[1] / 1e9, bgi_isa_name(bgi_cpu_isa()), s.rounds);
    printf("| weights, activations | tokens/s | of float32 | GB read a token | share of bandwidth | prompt tokens/s | "
           "share of peak |\n"
           "|---|---:|---:|---:|---:|---:|---:|\n");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const double token_s = bench_median(rows[r].token_s, (size_t)s.rounds),
                     prompt_s = bench_median(rows[r].prompt_s, (size_t)s.rounds),
                     most = peak[multiplies_pairs(&rows[r])];

        if (r == 0)
            float_s = token_s;
        printf("| %s | %.1f | %.2f | %.3f | %.0f%% | %.0f | %.0f%% |\n", rows[r].name, 1.0 / token_s, float_s / token_s,
               rows[r].bytes / 1e9, 100.0 * rows[r].bytes / token_s / bandwidth, (double)s.prompt / prompt_s,
               most > 0.0 ? 100.0 * 2.0 * 12.0 * (double)s.layers * (double)(s.hidden * s.hidden) * (double)s.prompt /
                                prompt_s / most
                          : 0.0);
        bg_generator_destroy(rows[r].generator);
    }
    for (int i = 0; i < 2; i++)
        bg_weights_destroy(weights[i]);
    free(data);
    return 0;
}
