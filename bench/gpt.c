/*
 * gpt.c: measures how fast GPT-2 trains. It prints tokens/s and GFLOP/s of whole steps (forward, backward, AdamW; no
 * dropout): the best, median and mean of several steps. With --profile it prints the processor time of each kernel by
 * its shape, which other programs on the machine do not increase. It counts six FLOPs for each token and each parameter
 * of a product (the table of positions is not in a product), and the FLOPs of attention for the half of the scores that
 * is not masked.
 *
 *     usage: gpt [--layers N] [--hidden N] [--heads N] [--batch N] [--length N] [--vocabulary N] [--cores N]
 *                [--steps N] [--strategy NAME] [--accumulation N] [--beside NAME] [--io-threads N] [--recompute]
 *                [--bfloat16 | --float16] [--processor-time] [--profile] [--roofline FILE.svg] [--summary] [--times]
 *                [--dnnl]
 *
 *     --batch      the sequences of a whole update, in --accumulation micro-batches
 *     --strategy (and, in turns with it, --beside):
 *         single      one device; all cores work on its kernels
 *         pipelined   two devices, with a stage each
 *         replicas    two data-parallel copies, each with half of the batch
 *         tensor      two tensor-parallel copies (tensor axis 1)
 *         phased      one device with a phase for each block; weights, gradients, optimizer state and activations are
 *                     in remote buffers, in memory
 *     --dnnl       after each step, also runs the model's matrix products by oneDNN's sgemm, and prints the ratio of
 *                  the rates. It needs libdnnl.so.2 or .3; OMP_NUM_THREADS is the number of cores
 *     --times      prints a line `time NAME SECONDS` for each step, and the time that oneDNN would take for the step's
 *                  FLOPs
 */
#include <brigade.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/arena.h"
#include "median.h"
#include "roofline.h"

typedef enum layout { SINGLE, PIPELINED, REPLICAS, TENSOR, PHASED, LAYOUT_COUNT } layout;

static const char *const layout_names[LAYOUT_COUNT] = {"single", "pipelined", "replicas", "tensor", "phased"};

typedef struct setting {
    long layers, hidden, heads, batch, length, vocabulary, cores, steps, accumulation, io_threads;
    long strategy, beside; /* beside: second layout, or LAYOUT_COUNT */
    const char *roofline;  /* the SVG file, or NULL */
    long is_bfloat16, is_float16, recomputes, profiles, summarizes, lists, compares, counts_processor;
} setting;

/* Returns the wall time, or the processor time of all threads, which is more comparable on a shared machine. */
static double read_clock_s(const setting *s)
{
    struct timespec now;

    clock_gettime(s->counts_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "gpt: %s\n", error->message);
    exit(1);
}

static double count_step_flops(const setting *s)
{
    const double hidden = (double)s->hidden, tokens = (double)(s->batch * s->length);
    const double parameters =
        (double)s->layers * (12.0 * hidden * hidden + 13.0 * hidden) + (double)s->vocabulary * hidden + 2.0 * hidden;
    const double attention = 6.0 * (double)s->layers * hidden * (double)s->length;

    return tokens * (6.0 * parameters + attention);
}

/* ---- oneDNN's products ---- */

enum { MATRICES = 5 };

typedef int (*sgemm_function)(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                              const float *a, int64_t a_row, const float *b, int64_t b_row, float beta, float *c,
                              int64_t c_row);

typedef struct dnnl {
    sgemm_function sgemm;
    float *a, *b, *c;        /* each is as large as the largest operand */
    double best_s[MATRICES]; /* the products of each matrix of the model: forward and both gradients */
} dnnl;

static dnnl open_dnnl(const setting *s)
{
    void *library = dlopen("libdnnl.so.2", RTLD_NOW);
    const int64_t wide = s->vocabulary > 4 * s->hidden ? s->vocabulary : 4 * s->hidden;
    const int64_t rows = s->batch / s->accumulation * s->length;
    const int64_t deep = rows > 4 * s->hidden ? rows : 4 * s->hidden;
    const size_t count = (size_t)wide * (size_t)deep;
    /* memory of the same kind as a session's */
    dnnl d = {.a = bgi_aligned_allocate(64, count * sizeof(float)),
              .b = bgi_aligned_allocate(64, count * sizeof(float)),
              .c = bgi_aligned_allocate(64, count * sizeof(float))};

    if (library == NULL)
        library = dlopen("libdnnl.so.3", RTLD_NOW);
    if (library != NULL)
        memcpy(&d.sgemm, (void *[]){dlsym(library, "dnnl_sgemm")}, sizeof d.sgemm);
    if (d.sgemm == NULL || d.a == NULL || d.b == NULL || d.c == NULL) {
        fprintf(stderr, "gpt: --dnnl: %s\n", d.sgemm == NULL ? "no libdnnl with dnnl_sgemm" : "out of memory");
        exit(1);
    }
    for (size_t i = 0; i < count; i++)
        d.a[i] = d.b[i] = (float)(i % 1021) * 1e-3f;
    for (int i = 0; i < MATRICES; i++)
        d.best_s[i] = 1e30;
    return d;
}

/* Finds the rows and columns of a matrix of the model; the last matrix is the head's, which occurs once. */
static void find_matrix(const setting *s, int index, int64_t *in, int64_t *out)
{
    const int64_t h = s->hidden;
    const int64_t shapes[MATRICES][2] = {{h, 3 * h}, {h, h}, {h, 4 * h}, {4 * h, h}, {h, s->vocabulary}};

    *in = shapes[index][0];
    *out = shapes[index][1];
}

/* Returns the FLOP/s of oneDNN for the model's products: all layers and the head, forward and both gradients. */
static double find_dnnl_rate(const double seconds[MATRICES], const setting *s)
{
    double flops = 0.0, total = 0.0;

    for (int i = 0; i < MATRICES; i++) {
        const double times = i == MATRICES - 1 ? 1.0 : (double)s->layers;
        int64_t in, out;

        find_matrix(s, i, &in, &out);
        flops += times * 6.0 * (double)in * (double)out * (double)(s->batch / s->accumulation * s->length);
        total += times * seconds[i];
    }
    return flops / total;
}

static void measure_dnnl(dnnl *d, const setting *s)
{
    const int64_t rows = s->batch / s->accumulation * s->length;
    double now_s[MATRICES];

    for (int i = 0; i < MATRICES; i++) {
        int64_t in, out;
        double seconds;

        find_matrix(s, i, &in, &out);
        seconds = read_clock_s(s);
        d->sgemm('N', 'N', rows, out, in, 1.0f, d->a, in, d->b, out, 0.0f, d->c, out); /* y = x w */
        d->sgemm('N', 'T', rows, in, out, 1.0f, d->c, out, d->b, out, 0.0f, d->a, in); /* dx = dy w^T */
        d->sgemm('T', 'N', in, out, rows, 1.0f, d->a, in, d->c, out, 0.0f, d->b, out); /* dw = x^T dy */
        now_s[i] = read_clock_s(s) - seconds;
        d->best_s[i] = now_s[i] < d->best_s[i] ? now_s[i] : d->best_s[i];
    }
    if (s->lists)
        printf("time oneDNN %.6f\n", count_step_flops(s) / find_dnnl_rate(now_s, s));
    for (size_t i = 0; i < (size_t)(4 * s->hidden * s->hidden);
         i++) /* so that values do not overflow in the course of the steps */
        d->a[i] = d->b[i] = (float)(i % 1021) * 1e-3f;
}

/* ---- the run ---- */

static uint32_t count_replicas(layout way)
{
    return way == REPLICAS || way == TENSOR ? 2 : 1;
}

static bg_gpt build_model(bg_graph *graph, const setting *s, layout way)
{
    bg_gpt_options gpt = bg_gpt_defaults();

    gpt.layers = s->layers;
    gpt.hidden = s->hidden;
    gpt.heads = s->heads;
    gpt.sequence_length = s->length;
    gpt.positions = s->length > gpt.positions ? s->length : gpt.positions;
    gpt.vocabulary = s->vocabulary;
    gpt.micro_batch = s->batch / s->accumulation / (way == REPLICAS ? 2 : 1);
    gpt.dropout = 0.0;
    gpt.dtype = s->is_float16 ? BG_FLOAT16 : s->is_bfloat16 ? BG_BFLOAT16 : BG_FLOAT32;
    if (way == TENSOR)
        bg_graph_set_mesh(graph, &(bg_mesh){.data = 1, .tensor_1 = 2, .tensor_2 = 1});
    return bg_gpt_build(graph, &gpt);
}

static bg_plan *make_plan(const setting *s, layout way)
{
    static const bg_strategy strategies[LAYOUT_COUNT] = {[SINGLE] = BG_STRATEGY_SINGLE,
                                                         [PIPELINED] = BG_STRATEGY_PIPELINED,
                                                         [REPLICAS] = BG_STRATEGY_SINGLE,
                                                         [TENSOR] = BG_STRATEGY_SINGLE,
                                                         [PHASED] = BG_STRATEGY_PHASED};
    bg_options options = bg_options_defaults();
    const bg_optimizer optimizer = bg_adamw(1e-4);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_gpt net;

    require(bg_graph_create(&graph, &error), &error);
    net = build_model(graph, s, way);
    require(bg_graph_check(graph, &error), &error);
    options.execution.strategy = strategies[way];
    options.execution.stages = way == PIPELINED ? "auto:2" : NULL;
    options.execution.device_count = way == PHASED ? 1 : 0;
    options.replicas.count = count_replicas(way);
    options.execution.gradient_accumulation = (uint32_t)s->accumulation;
    options.execution.cores = (uint32_t)s->cores;
    options.execution.io_threads = (int32_t)s->io_threads;
    options.memory.recompute = s->recomputes ? BG_RECOMPUTE_STAGE : BG_RECOMPUTE_NONE;
    options.reporting.trace = s->summarizes;
    require(bg_plan_create_training(graph, net.loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

/* One way to train the model. */
typedef struct run {
    layout way;
    bg_plan *plan;
    bg_session *session;
    const void *inputs[2];
    float losses[2]; /* losses of the last micro-batch, by replica */
    double *times;
    profile profile;
} run;

static void step_run(run *r)
{
    void *outputs[] = {r->losses};
    bg_error error = {0};

    require(bg_session_run(r->session, r->inputs, outputs, &error), &error);
}

static run begin_run(const setting *s, layout way, const int32_t *tokens)
{
    run r = {.way = way, .plan = make_plan(s, way), .times = calloc((size_t)s->steps, sizeof *r.times)};
    bg_error error = {0};

    if (r.times == NULL)
        exit(1);
    if (s->profiles)
        r.profile = time_plan(r.plan);
    require(bg_session_create(r.plan, NULL, &r.session, &error), &error);
    r.inputs[bg_session_find_input(r.session, "tokens")] = tokens;
    r.inputs[bg_session_find_input(r.session, "labels")] = tokens + 1;
    step_run(&r); /* the first step writes to all memory */
    for (size_t i = 0; i < r.profile.count; i++)
        r.profile.rows[i].ns = 0;
    return r;
}

static void print_rate(const char *what, double seconds, const setting *s)
{
    printf("%s %.1f ms a step, %.0f tokens/s, %.1f GFLOP/s\n", what, seconds * 1e3,
           (double)(s->batch * s->length) / seconds, count_step_flops(s) / seconds * 1e-9);
}

static void print_summary(const run *r)
{
    bg_error error = {0};
    char *text = NULL;

    require(bg_profile_print_summary(r->session, r->plan, &text, &error), &error);
    fputs(text, stdout);
    free(text);
}

/* Sorts the times of a run and prints its results. */
static void report_run(run *r, const setting *s)
{
    const double median = bench_median(r->times, (size_t)s->steps);
    double total = 0.0;

    for (long step = 0; step < s->steps; step++)
        total += r->times[step];
    for (long step = 0; s->lists && step < s->steps; step++)
        printf("time %s %.6f\n", layout_names[r->way], r->times[step]);
    printf("%s, accumulation %ld, cores %ld\n", layout_names[r->way], s->accumulation, s->cores);
    print_rate("best  ", r->times[0], s);
    print_rate("median", median, s);
    print_rate("mean  ", total / (double)s->steps, s);
    printf("loss %.6f after %ld steps; %.1f MB on a device, %.1f MB in its remote buffers\n", (double)r->losses[0],
           s->steps + 1, (double)bg_plan_device_bytes(r->plan, 0) * 1e-6,
           (double)bg_plan_memory_bytes(r->plan, 0, BG_MEMORY_REMOTE) * 1e-6);
    if (s->profiles)
        print_profile(&r->profile, s->steps);
    if (s->roofline != NULL)
        draw_roofline(s->roofline, "GPT-2", &r->profile, s->steps);
    if (s->summarizes)
        print_summary(r);
}

static void end_run(run *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    free(r->profile.rows), free(r->times);
}

static void train(const setting *s)
{
    const size_t count = (size_t)(s->batch * s->length);
    int32_t *tokens = malloc((count + 1) * sizeof *tokens);
    const uint32_t run_count = s->beside == LAYOUT_COUNT ? 1 : 2;
    run runs[2];
    dnnl peer = {0};

    if (tokens == NULL)
        exit(1);
    for (size_t i = 0; i <= count; i++)
        tokens[i] = (int32_t)(i * 2654435761u % 1000003u % (size_t)s->vocabulary);
    if (s->compares)
        peer = open_dnnl(s);
    for (uint32_t i = 0; i < run_count; i++)
        runs[i] = begin_run(s, (layout)(i == 0 ? s->strategy : s->beside), tokens);
    for (long step = 0; step < s->steps; step++) {
        for (uint32_t i = 0; i < run_count; i++) {
            const double begin_s = read_clock_s(s);

            step_run(&runs[i]);
            runs[i].times[step] = read_clock_s(s) - begin_s;
        }
        if (s->compares)
            measure_dnnl(&peer, s);
    }
    for (uint32_t i = 0; i < run_count; i++)
        report_run(&runs[i], s);
    if (s->compares)
        printf("oneDNN's products alone %.1f GFLOP/s; the step reaches %.1f %% of it\n",
               find_dnnl_rate(peer.best_s, s) * 1e-9,
               100.0 * count_step_flops(s) / runs[0].times[0] / find_dnnl_rate(peer.best_s, s));
    if (run_count == 2)
        printf("%s reaches %.1f %% of the speed of %s; losses %s\n", layout_names[s->beside],
               100.0 * runs[0].times[0] / runs[1].times[0], layout_names[s->strategy],
               memcmp(runs[0].losses, runs[1].losses, sizeof(float)) == 0 ? "equal in bits" : "not equal in bits");
    for (uint32_t i = 0; i < run_count; i++)
        end_run(&runs[i]);
    free(tokens), free(peer.a), free(peer.b), free(peer.c);
}

/* ---- options ---- */

typedef enum option_kind { NUMBER, SWITCH, STRATEGY } option_kind;

static void refuse(const char *option, const char *why)
{
    fprintf(stderr, "gpt: %s %s; the file's head lists the options\n", option, why);
    exit(2);
}

/* Reads the value of an option; a switch is 1. */
static long read_value(option_kind kind, const char *option, const char *text)
{
    long found = 0;

    if (kind == SWITCH)
        return 1;
    if (text == NULL)
        refuse(option, "lacks its value");
    if (kind == NUMBER)
        found = atol(text);
    while (kind == STRATEGY && found < LAYOUT_COUNT && strcmp(text, layout_names[found]) != 0)
        found++;
    if (kind == NUMBER ? found < 0 : found == LAYOUT_COUNT)
        refuse(option, kind == NUMBER ? "must be a number, not below 0" : "names no strategy");
    return found;
}

int main(int argc, char **argv)
{
    setting s = {.layers = 12,
                 .hidden = 768,
                 .heads = 12,
                 .batch = 4,
                 .length = 256,
                 .vocabulary = 50257,
                 .cores = 2,
                 .steps = 3,
                 .accumulation = 1,
                 .io_threads = -1,
                 .beside = LAYOUT_COUNT};
    const struct {
        const char *name;
        long *value;
        option_kind kind;
    } known[] = {{"--layers", &s.layers, NUMBER},
                 {"--hidden", &s.hidden, NUMBER},
                 {"--heads", &s.heads, NUMBER},
                 {"--batch", &s.batch, NUMBER},
                 {"--length", &s.length, NUMBER},
                 {"--vocabulary", &s.vocabulary, NUMBER},
                 {"--cores", &s.cores, NUMBER},
                 {"--steps", &s.steps, NUMBER},
                 {"--accumulation", &s.accumulation, NUMBER},
                 {"--io-threads", &s.io_threads, NUMBER},
                 {"--strategy", &s.strategy, STRATEGY},
                 {"--beside", &s.beside, STRATEGY},
                 {"--bfloat16", &s.is_bfloat16, SWITCH},
                 {"--float16", &s.is_float16, SWITCH},
                 {"--recompute", &s.recomputes, SWITCH},
                 {"--profile", &s.profiles, SWITCH},
                 {"--summary", &s.summarizes, SWITCH},
                 {"--times", &s.lists, SWITCH},
                 {"--dnnl", &s.compares, SWITCH},
                 {"--processor-time", &s.counts_processor, SWITCH}};

    for (int i = 1; i < argc; i++) {
        size_t k = 0;

        if (strcmp(argv[i], "--roofline") == 0 && i + 1 < argc) {
            s.roofline = argv[++i];
            s.profiles = 1;
            continue;
        }
        while (k < sizeof known / sizeof known[0] && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == sizeof known / sizeof known[0])
            refuse(argv[i], "is not known");
        *known[k].value = read_value(known[k].kind, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        i += known[k].kind != SWITCH;
    }
    if (s.steps < 1 || s.accumulation < 1 || s.batch % s.accumulation != 0)
        refuse("--steps, --accumulation", "must be at least 1, and divide --batch");
    train(&s);
    return 0;
}
