/*
 * serve.c: measures the time of a call of a small model, and how serving from several threads and processes scales.
 * Prints lines of CSV: what,threads or sessions,value,unit.
 *
 *     serve [SECONDS]       the time of each measurement; 1 by default
 *
 *     one op, digit         time of a call in one thread (median, 99th percentile)
 *     threads, processes    calls per second of one thread or process on each of two cores, alone and both at the same
 *                           time; threads share one set of weights. Each is bound to its core, because the cores of a
 *                           virtual machine can differ in speed. Both together are compared with the mean of each
 *                           alone, and each process with itself alone. All take turns in rounds, and the median of the
 *                           rounds counts; "by processor time" does not contain waits for a core
 *     arithmetic            the same for additions and multiplications without shared memory: the speed that the
 *                           machine gives two threads and two processes in the same rounds. The rows "with both cores"
 *                           are medians of the rounds in which arithmetic had them
 *     before, during        time of a call of the digit network without a training, and while another thread trains it
 *                           and publishes its weights after every 10th update
 *     memory                the growth of the process for sessions over 64 MB of weights, after the first session
 */
#define _GNU_SOURCE
#include <brigade/convnet.h>
#include <brigade/ops.h>
#include <brigade/session.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "median.h"

enum { IMAGE = 28 * 28, CLASSES = 10, MOST_TIMES = 1 << 20, ROUNDS = 25, ROUNDS_A_MEASUREMENT = 5, PERIOD = 10 };

/* Two cores that no other program uses do twice the arithmetic of one. A virtual machine does not always get two
 * cores. */
static const double two_cores = 1.9, each_core = 0.95;

static double seconds = 1.0;

static void check(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "serve: %s\n", error->message);
    exit(1);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double thread_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- models ---- */

static bg_plan *plan_of(bg_graph *graph, bool makes_values)
{
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    bg_error error = {0};

    options.execution.cores = 1;
    options.numerics.initialize_missing = makes_values;
    check(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static bg_graph *new_graph(void)
{
    bg_graph *graph = NULL;
    bg_error error = {0};

    check(bg_graph_create(&graph, &error), &error);
    return graph;
}

static bg_plan *make_digit(bool makes_values)
{
    bg_convnet_options options = bg_convnet_defaults();
    bg_graph *graph = new_graph();

    options.micro_batch = 1;
    options.outputs = BG_CONVNET_LOGITS;
    bg_convnet_build(graph, &options);
    return plan_of(graph, makes_values);
}

static bg_plan *make_one_op(void)
{
    const bg_type type = bg_vector(BG_FLOAT32, 64);
    bg_graph *graph = new_graph();

    bg_graph_output(graph, "y", bg_relu(graph, bg_graph_input(graph, "x", &type)));
    return plan_of(graph, true);
}

/* Builds a model of one product with 64 MB of weights. */
static bg_plan *make_large(void)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, 4096), weight = bg_matrix(BG_FLOAT32, 4096, 4096);
    bg_graph *graph = new_graph();
    const bg_value w = bg_graph_parameter(graph, "w", &weight, NULL);

    bg_graph_output(graph, "y", bg_linear(graph, "fc", bg_graph_input(graph, "x", &type), w, (bg_value){0}));
    return plan_of(graph, true);
}

static bg_session *make_reader(const bg_plan *plan, bg_weights *weights)
{
    bg_session *session = NULL;
    bg_error error = {0};

    check(bg_session_create_reader(plan, weights, &session, &error), &error);
    return session;
}

static bg_session *make_session(const bg_plan *plan)
{
    bg_session *session = NULL;
    bg_error error = {0};

    check(bg_session_create(plan, NULL, &session, &error), &error);
    return session;
}

/* ---- a server ---- */

typedef struct server {
    bg_session *session; /* NULL: plain arithmetic */
    size_t input_bytes, output_bytes;
    double seconds;
    double *times; /* NULL: not measured */
    uint64_t calls;
    double elapsed, worked; /* worked: processor time of the thread */
} server;

/* Does work without shared memory for about as long as a call takes: independent multiplications and additions, as in a
 * product, which keep a core's units busy. Two threads on the two hardware threads of one core do little more work than
 * one thread. The same applies to calls. */
static float burn(float seed)
{
    enum { LANES = 128, LOOPS = 1500 };
    float sums[LANES], sum = 0.0f;

    for (int i = 0; i < LANES; i++)
        sums[i] = seed + (float)i;
    for (int n = 0; n < LOOPS; n++)
        for (int i = 0; i < LANES; i++)
            sums[i] = sums[i] * 0.999f + 0.001f;
    for (int i = 0; i < LANES; i++)
        sum += sums[i];
    return sum * 1e-6f;
}

static void call(const server *s, const void *input, void *output)
{
    static _Thread_local volatile float burnt;
    bg_error error = {0};

    if (s->session == NULL)
        burnt = burn(burnt);
    else
        check(bg_session_run(s->session, (const void *[]){input}, (void *[]){output}, &error), &error);
}

static void *serve(void *argument)
{
    server *s = argument;
    void *input = calloc(1, s->input_bytes), *output = calloc(1, s->output_bytes);
    double begin, last, worked;
    uint64_t calls = 0;

    if (input == NULL || output == NULL)
        exit(1);
    memset(input, 1, s->input_bytes);
    for (int i = 0; i < 100; i++)
        call(s, input, output);
    worked = thread_s();
    for (begin = last = now_s(); last - begin < s->seconds;) {
        double now;
        call(s, input, output);
        now = now_s();
        if (s->times != NULL && calls < MOST_TIMES)
            s->times[calls] = now - last;
        calls++;
        last = now;
    }
    s->calls = calls;
    s->elapsed = last - begin;
    s->worked = thread_s() - worked;
    free(input);
    free(output);
    return NULL;
}

static server digit_server(bg_session *session, double for_seconds)
{
    return (server){
        .session = session, .input_bytes = IMAGE, .output_bytes = CLASSES * sizeof(float), .seconds = for_seconds};
}

static void print_times(const char *what, server *s)
{
    const uint64_t count = s->calls < MOST_TIMES ? s->calls : MOST_TIMES;

    printf("%s,1,%.2f,us median\n", what, 1e6 * bench_median(s->times, count));
    printf("%s,1,%.2f,us 99th percentile\n", what, 1e6 * s->times[count * 99 / 100]);
    fflush(stdout);
}

static void measure_calls(const char *what, server s)
{
    s.times = malloc(MOST_TIMES * sizeof *s.times);
    if (s.times == NULL)
        exit(1);
    serve(&s);
    print_times(what, &s);
    free(s.times);
}

/* ---- several ---- */

/* Rates: calls per second, and calls per second of processor time. */
typedef struct rates {
    double calls, worked;
} rates;

static rates rate(const server *s)
{
    return (rates){(double)s->calls / s->elapsed, (double)s->calls / s->worked};
}

/* The first two processors of this process. */
static int processors[2];

static bool find_processors(void)
{
    cpu_set_t set;
    int count = 0;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return false;
    for (int i = 0; i < CPU_SETSIZE && count < 2; i++)
        if (CPU_ISSET(i, &set))
            processors[count++] = i;
    return count == 2;
}

static void bind_to(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processors[core], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        exit(1);
}

/* The work of a round: runs of `readers` in threads, or of sessions with their own weights in processes, on cores
 * [first, first + count). */
typedef struct work {
    bg_session *const *readers; /* NULL: plain arithmetic */
    bool in_processes;
    bg_plan *plan; /* of processes; NULL: plain arithmetic */
} work;

typedef struct bound_server {
    server server;
    int core;
} bound_server;

static void *serve_bound(void *argument)
{
    bound_server *s = argument;

    bind_to(s->core);
    return serve(&s->server);
}

static void run_threads(const work *w, int first, int count, rates *each)
{
    bound_server servers[2];
    pthread_t threads[2];

    for (int i = 0; i < count; i++) {
        servers[i] = (bound_server){
            .server = digit_server(w->readers != NULL ? w->readers[first + i] : NULL, seconds / ROUNDS_A_MEASUREMENT),
            .core = first + i};
        if (pthread_create(&threads[i], NULL, serve_bound, &servers[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        each[i] = rate(&servers[i].server);
    }
}

/* Starts processes with separate weights, which begin to count at the same time. */
static void run_processes(const work *w, int first, int count, rates *each)
{
    struct shared {
        atomic_int ready;
        rates each[2];
    } *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        exit(1);
    fflush(stdout);
    for (int i = 0; i < count; i++)
        if (fork() == 0) {
            server s = digit_server(NULL, seconds / ROUNDS_A_MEASUREMENT);
            bind_to(first + i);
            s.session = w->plan != NULL ? make_session(w->plan) : NULL;
            atomic_fetch_add(&shared->ready, 1);
            while (atomic_load(&shared->ready) < count)
                usleep(100);
            serve(&s);
            shared->each[i] = rate(&s);
            _exit(0);
        }
    for (int i = 0; i < count; i++)
        wait(NULL);
    memcpy(each, shared->each, (size_t)count * sizeof *each);
    munmap(shared, sizeof *shared);
}

/* The results of each round: the rate on each core alone; that of both threads together, or of the slower process; and
 * the ratio of two to one. */
typedef struct rounds {
    double first[ROUNDS], second[ROUNDS], both[ROUNDS], times[ROUNDS], times_worked[ROUNDS];
} rounds;

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static void add_round(rounds *r, int round, const work *w)
{
    void (*const run)(const work *, int, int, rates *) = w->in_processes ? run_processes : run_threads;
    rates alone[2], both[2];

    run(w, 0, 1, &alone[0]);
    run(w, 1, 1, &alone[1]);
    run(w, 0, 2, both);
    r->first[round] = alone[0].calls;
    r->second[round] = alone[1].calls;
    if (w->in_processes) {
        r->both[round] = smaller(both[0].calls, both[1].calls);
        r->times[round] = smaller(both[0].calls / alone[0].calls, both[1].calls / alone[1].calls);
        r->times_worked[round] = smaller(both[0].worked / alone[0].worked, both[1].worked / alone[1].worked);
    } else {
        r->both[round] = both[0].calls + both[1].calls;
        r->times[round] = 2.0 * r->both[round] / (alone[0].calls + alone[1].calls);
        r->times_worked[round] = 2.0 * (both[0].worked + both[1].worked) / (alone[0].worked + alone[1].worked);
    }
}

/* Prints the median over the rounds directly before and after which plain arithmetic had both cores. */
static void print_with_both_cores(const char *what, const rounds *served, const rounds *plain, double least,
                                  const char *unit)
{
    double chosen[ROUNDS];
    int count = 0;

    for (int i = 1; i < ROUNDS; i++)
        if (plain->times[i - 1] >= least && plain->times[i] >= least)
            chosen[count++] = served->times[i];
    if (count > 0)
        printf("%s,2,%.2f,%s with both cores (%d of %d rounds)\n", what, bench_median(chosen, (size_t)count), unit,
               count, ROUNDS);
}

static void print_rounds(const char *what, rounds *r, bool has_rates, const char *unit)
{
    if (has_rates) {
        printf("%s,1,%.0f,calls/s on the first core\n", what, bench_median(r->first, ROUNDS));
        printf("%s,1,%.0f,calls/s on the second core\n", what, bench_median(r->second, ROUNDS));
        printf("%s,2,%.0f,calls/s\n", what, bench_median(r->both, ROUNDS));
    }
    printf("%s,2,%.2f,%s\n", what, bench_median(r->times, ROUNDS), unit);
    printf("%s,2,%.2f,%s by processor time\n", what, bench_median(r->times_worked, ROUNDS), unit);
}

static void measure_several(bg_session *const *readers)
{
    static rounds threads, processes, plain_threads, plain_processes;
    bg_plan *own = make_digit(true);

    if (!find_processors()) {
        fprintf(stderr, "serve: there is one processor; threads and processes need two\n");
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        add_round(&threads, i, &(work){.readers = readers});
        add_round(&plain_threads, i, &(work){0});
    }
    /* Processes have separate rounds, because after a fork the first writes to this process's pages copy them. */
    for (int i = 0; i < ROUNDS; i++) {
        add_round(&processes, i, &(work){.in_processes = true, .plan = own});
        add_round(&plain_processes, i, &(work){.in_processes = true});
    }
    bg_plan_destroy(own);
    print_with_both_cores("threads", &threads, &plain_threads, two_cores, "times one");
    print_with_both_cores("processes", &processes, &plain_processes, each_core, "of itself alone");
    print_rounds("threads", &threads, true, "times one");
    print_rounds("arithmetic", &plain_threads, false, "times one thread");
    print_rounds("processes", &processes, true, "of itself alone");
    print_rounds("arithmetic", &plain_processes, false, "of a process alone");
    fflush(stdout);
}

/* ---- during a training ---- */

typedef struct trainer {
    bg_session *session;
    atomic_bool is_over;
    uint64_t updates, versions;
} trainer;

static void *train(void *argument)
{
    trainer *t = argument;
    uint8_t *images = calloc(40, IMAGE), labels[40];
    float logits[40 * CLASSES], loss;
    int32_t correct;
    bg_error error = {0};

    for (int i = 0; i < 40; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    while (!atomic_load(&t->is_over)) {
        check(bg_session_run(t->session, (const void *[]){images, labels}, (void *[]){logits, &loss, &correct}, &error),
              &error);
        if (++t->updates % PERIOD == 0) {
            check(bg_weights_publish(bg_session_weights(t->session), NULL, &error), &error);
            t->versions++;
        }
    }
    free(images);
    return NULL;
}

static bg_session *make_training(void)
{
    const bg_optimizer sgd = bg_sgd(0.01);
    bg_options options = bg_options_defaults();
    bg_session *session = NULL;
    bg_error error = {0};
    bg_graph *graph = new_graph();
    const bg_convnet net = bg_convnet_build(graph, NULL);

    options.execution.cores = 1;
    check(bg_session_create_training(graph, net.loss, &sgd, &options, NULL, &session, &error), &error);
    bg_graph_destroy(graph);
    return session;
}

static void measure_beside(const bg_plan *plan, trainer *t)
{
    bg_session *reader = make_reader(plan, bg_session_weights(t->session));
    pthread_t thread;

    measure_calls("before", digit_server(reader, seconds));
    if (pthread_create(&thread, NULL, train, t) != 0)
        exit(1);
    measure_calls("during", digit_server(reader, seconds));
    atomic_store(&t->is_over, true);
    pthread_join(thread, NULL);
    printf("during,1,%llu,updates\nduring,1,%llu,versions\n", (unsigned long long)t->updates,
           (unsigned long long)t->versions);
    bg_session_destroy(reader);
}

/* ---- memory ---- */

static double resident_mb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (file != NULL && fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void measure_memory(void)
{
    enum { COUNT = 8 };
    static float x[4096], y[4096];
    bg_plan *plan = make_large();
    bg_weights *weights = NULL;
    bg_session *first = make_session(plan), *readers[COUNT];
    bg_error error = {0};
    double before;

    /* The first session makes the values and is destroyed, so only one copy of them remains in memory. */
    check(bg_session_run(first, (const void *[]){x}, (void *[]){y}, &error), &error);
    check(bg_weights_create(&weights, &error), &error);
    {
        bg_weight weight;
        check(bg_weights_find(bg_session_weights(first), "w", &weight, &error), &error);
        check(bg_weights_set(weights, "w", &weight.type, weight.data, &error), &error);
    }
    bg_session_destroy(first);
    before = resident_mb();
    for (int i = 0; i < COUNT; i++) {
        readers[i] = make_reader(plan, weights);
        check(bg_session_run(readers[i], (const void *[]){x}, (void *[]){y}, &error), &error);
    }
    printf("memory,%d,%.1f,MB more for readers of 67.1 MB\n", COUNT, resident_mb() - before);
    for (int i = 0; i < COUNT; i++)
        bg_session_destroy(readers[i]);
    bg_weights_destroy(weights);
    bg_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    trainer t = {0};
    bg_plan *digit, *one_op;
    bg_session *readers[2], *session;

    if (argc > 1)
        seconds = atof(argv[1]);
    if (argc > 2 || !(seconds > 0.0)) {
        fprintf(stderr, "usage: serve [SECONDS]\n");
        return 2;
    }
    one_op = make_one_op();
    session = make_session(one_op);
    measure_calls("one op", (server){.session = session, .input_bytes = 256, .output_bytes = 256, .seconds = seconds});
    bg_session_destroy(session);
    bg_plan_destroy(one_op);
    t.session = make_training();
    digit = make_digit(false);
    for (int i = 0; i < 2; i++)
        readers[i] = make_reader(digit, bg_session_weights(t.session));
    measure_calls("digit", digit_server(readers[0], seconds));
    measure_several(readers);
    measure_beside(digit, &t);
    for (int i = 0; i < 2; i++)
        bg_session_destroy(readers[i]);
    bg_session_destroy(t.session);
    bg_plan_destroy(digit);
    measure_memory();
    return 0;
}
