/*
 * gpt.c: how fast GPT-2 trains on one device: tokens/s and GFLOP/s of whole steps (forward, backward, AdamW; no
 * dropout), best and median of several, and with --profile the processor time, which others on the machine do not add
 * to, of each kernel by the shape it makes.
 * FLOPs are counted as six a parameter that multiplies (positions do not) and token, and attention's over the half of
 * the scores that causal masking leaves.
 *
 * usage: gpt [--layers N] [--hidden N] [--heads N] [--batch N] [--length N] [--vocabulary N] [--cores N] [--steps N]
 *            [--bfloat16] [--processor-time] [--profile] [--dnnl]
 *
 * --dnnl: beside it, after each step, the model's matrix products by oneDNN's sgemm (libdnnl.so.2 or .3 must be there;
 * OMP_NUM_THREADS says on how many cores), and the ratio of the rates.
 */
#include <brigade.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan/plan.h"

typedef struct setting {
    long layers, hidden, heads, batch, length, vocabulary, cores, steps, is_bfloat16, profiles, compares,
        counts_processor;
} setting;

/* Wall time, or the processor time of all threads: on a machine that others use too the second compares better. */
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

/* ---- the profile: kernels are replaced by ones that call them and add up the time ---- */

typedef struct timed {
    bg_kernel kernel; /* the real one */
    char name[128];
    double flops;
    _Atomic uint64_t ns;
    uint64_t calls;
} timed;

/* The calls of a plan, sorted by what they are. */
typedef struct profile {
    timed *rows;
    size_t count;
} profile;

static uint64_t read_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bg_kernel_call unwrap(const bg_kernel_call *call)
{
    bg_kernel_call inner = *call;

    inner.state = ((timed *)call->state)->kernel.state;
    return inner;
}

static void timed_prepare(const bg_kernel_call *call)
{
    timed *row = call->state;
    const bg_kernel_call inner = unwrap(call);
    const uint64_t begin = read_clock_ns();

    row->kernel.prepare(&inner);
    atomic_fetch_add(&row->ns, read_clock_ns() - begin);
}

static void timed_run(const bg_kernel_call *call, uint32_t part)
{
    timed *row = call->state;
    const bg_kernel_call inner = unwrap(call);
    const uint64_t begin = read_clock_ns();

    row->kernel.run(&inner, part);
    atomic_fetch_add(&row->ns, read_clock_ns() - begin);
}

static void timed_finish(const bg_kernel_call *call)
{
    timed *row = call->state;
    const bg_kernel_call inner = unwrap(call);
    const uint64_t begin = read_clock_ns();

    row->kernel.finish(&inner);
    atomic_fetch_add(&row->ns, read_clock_ns() - begin);
}

static void time_call(profile *all, bgi_call *call)
{
    char name[sizeof all->rows->name], type[BG_TYPE_TEXT_BYTES];
    const uint32_t shown = call->output_count > 0 ? call->input_count : 0;
    timed *row = NULL;

    snprintf(name, sizeof name, "%s %s", call->kernel.name, bg_type_text(&call->types[shown], type));
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->rows[i].name, name) == 0 && all->rows[i].kernel.state == call->kernel.state)
            row = &all->rows[i];
    if (row == NULL) {
        row = &all->rows[all->count++];
        row->kernel = call->kernel;
        memcpy(row->name, name, sizeof name);
    }
    row->calls++;
    row->flops += call->cost.flops;
    call->kernel.state = row;
    call->kernel.run = timed_run;
    call->kernel.prepare = call->kernel.prepare != NULL ? timed_prepare : NULL;
    call->kernel.finish = call->kernel.finish != NULL ? timed_finish : NULL;
}

static profile time_plan(bg_plan *plan)
{
    profile all = {NULL, 0};
    size_t calls = 0;

    for (uint32_t i = 0; i < plan->devices[0].instruction_count; i++)
        calls += plan->devices[0].instructions[i].call_count;
    all.rows = calloc(calls + 1, sizeof *all.rows);
    if (all.rows == NULL)
        exit(1);
    for (uint32_t i = 0; i < plan->devices[0].instruction_count; i++)
        for (uint32_t c = 0; c < plan->devices[0].instructions[i].call_count; c++)
            time_call(&all, (bgi_call *)(uintptr_t)&plan->devices[0].instructions[i].calls[c]);
    return all;
}

static int compare_rows(const void *a, const void *b)
{
    const uint64_t left = ((const timed *)a)->ns, right = ((const timed *)b)->ns;

    return left < right ? 1 : left > right ? -1 : 0;
}

static void print_profile(profile *all, long steps)
{
    double total = 0.0;

    qsort(all->rows, all->count, sizeof *all->rows, compare_rows);
    for (size_t i = 0; i < all->count; i++)
        total += (double)all->rows[i].ns;
    for (size_t i = 0; i < all->count; i++) {
        const double ns = (double)all->rows[i].ns / (double)steps;

        printf("  %5.1f %% %9.2f ms %4llu calls %7.1f GFLOP/s  %s\n", 100.0 * (double)all->rows[i].ns / total,
               ns * 1e-6, (unsigned long long)all->rows[i].calls, all->rows[i].flops / ns, all->rows[i].name);
    }
    printf("  %9.2f ms of processor time in kernels a step\n", total / (double)steps * 1e-6);
}

/* ---- oneDNN's products ---- */

typedef int (*sgemm_function)(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                              const float *a, int64_t a_row, const float *b, int64_t b_row, float beta, float *c,
                              int64_t c_row);

typedef struct dnnl {
    sgemm_function sgemm;
    float *a, *b, *c; /* as large as the largest operand */
    double best_s[5]; /* of the products of each matrix of the model: forward and both gradients */
} dnnl;

static dnnl open_dnnl(const setting *s)
{
    void *library = dlopen("libdnnl.so.2", RTLD_NOW);
    const int64_t wide = s->vocabulary > 4 * s->hidden ? s->vocabulary : 4 * s->hidden;
    const int64_t deep = s->batch * s->length > 4 * s->hidden ? s->batch * s->length : 4 * s->hidden;
    const size_t count = (size_t)wide * (size_t)deep;
    dnnl d = {.a = calloc(count, sizeof(float)), .b = calloc(count, sizeof(float)), .c = calloc(count, sizeof(float))};

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
    for (int i = 0; i < 5; i++)
        d.best_s[i] = 1e30;
    return d;
}

/* Rows and columns of the model's matrices; the last is the head's, of which there is one. */
static void find_matrix(const setting *s, int index, int64_t *in, int64_t *out)
{
    const int64_t h = s->hidden;
    const int64_t shapes[5][2] = {{h, 3 * h}, {h, h}, {h, 4 * h}, {4 * h, h}, {h, s->vocabulary}};

    *in = shapes[index][0];
    *out = shapes[index][1];
}

static void measure_dnnl(dnnl *d, const setting *s)
{
    const int64_t rows = s->batch * s->length;

    for (int i = 0; i < 5; i++) {
        int64_t in, out;
        double seconds;

        find_matrix(s, i, &in, &out);
        seconds = read_clock_s(s);
        d->sgemm('N', 'N', rows, out, in, 1.0f, d->a, in, d->b, out, 0.0f, d->c, out); /* y = x w */
        d->sgemm('N', 'T', rows, in, out, 1.0f, d->c, out, d->b, out, 0.0f, d->a, in); /* dx = dy w^T */
        d->sgemm('T', 'N', in, out, rows, 1.0f, d->a, in, d->c, out, 0.0f, d->b, out); /* dw = x^T dy */
        seconds = read_clock_s(s) - seconds;
        d->best_s[i] = seconds < d->best_s[i] ? seconds : d->best_s[i];
    }
    for (size_t i = 0; i < (size_t)(4 * s->hidden * s->hidden); i++) /* no overflow from step to step */
        d->a[i] = d->b[i] = (float)(i % 1021) * 1e-3f;
}

static double find_dnnl_rate(const dnnl *d, const setting *s)
{
    double flops = 0.0, seconds = 0.0;

    for (int i = 0; i < 5; i++) {
        const double times = i == 4 ? 1.0 : (double)s->layers;
        int64_t in, out;

        find_matrix(s, i, &in, &out);
        flops += times * 6.0 * (double)in * (double)out * (double)(s->batch * s->length);
        seconds += times * d->best_s[i];
    }
    return flops / seconds;
}

/* ---- the run ---- */

static bg_plan *make_plan(const setting *s)
{
    bg_gpt_options gpt = bg_gpt_defaults();
    bg_options options = bg_options_defaults();
    const bg_optimiser optimiser = bg_adamw(1e-4);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_gpt net;

    gpt.layers = s->layers;
    gpt.hidden = s->hidden;
    gpt.heads = s->heads;
    gpt.sequence_length = s->length;
    gpt.positions = s->length > gpt.positions ? s->length : gpt.positions;
    gpt.vocabulary = s->vocabulary;
    gpt.micro_batch = s->batch;
    gpt.dropout = 0.0;
    gpt.dtype = s->is_bfloat16 ? BG_BFLOAT16 : BG_FLOAT32;
    options.strategy = BG_STRATEGY_SINGLE;
    options.cores = (uint32_t)s->cores;
    require(bg_graph_create(&graph, &error), &error);
    net = bg_gpt_build(graph, &gpt);
    require(bg_graph_check(graph, &error), &error);
    require(bg_plan_create_training(graph, net.loss, &optimiser, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static int compare_times(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static double count_step_flops(const setting *s)
{
    const double hidden = (double)s->hidden, tokens = (double)(s->batch * s->length);
    const double parameters =
        (double)s->layers * (12.0 * hidden * hidden + 13.0 * hidden) + (double)s->vocabulary * hidden + 2.0 * hidden;
    const double attention = 6.0 * (double)s->layers * hidden * (double)s->length;

    return tokens * (6.0 * parameters + attention);
}

static void print_rate(const char *what, double seconds, const setting *s)
{
    printf("%s %.1f ms a step, %.0f tokens/s, %.1f GFLOP/s\n", what, seconds * 1e3,
           (double)(s->batch * s->length) / seconds, count_step_flops(s) / seconds * 1e-9);
}

static void train(const setting *s)
{
    const size_t count = (size_t)(s->batch * s->length);
    int32_t *tokens = malloc((count + 1) * sizeof *tokens);
    double *times = malloc((size_t)s->steps * sizeof *times);
    bg_plan *plan = make_plan(s);
    bg_session *session = NULL;
    bg_error error = {0};
    profile all = {NULL, 0};
    dnnl peer = {0};
    const void *inputs[2];
    float loss = 0.0f;
    void *outputs[] = {&loss};

    if (tokens == NULL || times == NULL)
        exit(1);
    for (size_t i = 0; i <= count; i++)
        tokens[i] = (int32_t)(i * 2654435761u % 1000003u % (size_t)s->vocabulary);
    if (s->profiles)
        all = time_plan(plan);
    if (s->compares)
        peer = open_dnnl(s);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    inputs[bg_session_find_input(session, "tokens")] = tokens;
    inputs[bg_session_find_input(session, "labels")] = tokens + 1;
    require(bg_session_run(session, inputs, outputs, &error), &error); /* touches all memory */
    for (size_t i = 0; i < all.count; i++)
        all.rows[i].ns = 0;
    for (long step = 0; step < s->steps; step++) {
        const double begin_s = read_clock_s(s);

        require(bg_session_run(session, inputs, outputs, &error), &error);
        times[step] = read_clock_s(s) - begin_s;
        if (s->compares)
            measure_dnnl(&peer, s);
    }
    qsort(times, (size_t)s->steps, sizeof *times, compare_times);
    print_rate("best  ", times[0], s);
    print_rate("median", times[s->steps / 2], s);
    printf("loss %.6f after %ld steps; %.1f MB on the device\n", (double)loss, s->steps + 1,
           (double)bg_plan_device_bytes(plan, 0) * 1e-6);
    if (s->compares)
        printf("oneDNN's products alone %.1f GFLOP/s; the step reaches %.1f %% of it\n",
               find_dnnl_rate(&peer, s) * 1e-9, 100.0 * count_step_flops(s) / times[0] / find_dnnl_rate(&peer, s));
    if (s->profiles)
        print_profile(&all, s->steps);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    free(all.rows), free(tokens), free(times);
    free(peer.a), free(peer.b), free(peer.c);
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
                 .steps = 3};
    const struct {
        const char *name;
        long *value;
        bool is_switch;
    } known[] = {{"--layers", &s.layers, false},       {"--hidden", &s.hidden, false},
                 {"--heads", &s.heads, false},         {"--batch", &s.batch, false},
                 {"--length", &s.length, false},       {"--vocabulary", &s.vocabulary, false},
                 {"--cores", &s.cores, false},         {"--steps", &s.steps, false},
                 {"--bfloat16", &s.is_bfloat16, true}, {"--profile", &s.profiles, true},
                 {"--dnnl", &s.compares, true},        {"--processor-time", &s.counts_processor, true}};

    for (int i = 1; i < argc; i++) {
        size_t k = 0;

        while (k < sizeof known / sizeof known[0] && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == sizeof known / sizeof known[0] || (!known[k].is_switch && i + 1 == argc)) {
            fprintf(stderr, "gpt: `%s` is not an option, or lacks its number; the file's head lists them\n", argv[i]);
            return 2;
        }
        *known[k].value = known[k].is_switch ? 1 : atol(argv[++i]);
        if (*known[k].value < 1) {
            fprintf(stderr, "gpt: %s must be a number of at least 1\n", known[k].name);
            return 2;
        }
    }
    train(&s);
    return 0;
}
