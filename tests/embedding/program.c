/*
 * program.c: the library inside a program that provides its own memory and threads and has its own signals and child
 * processes. It uses only the core, so that it can be linked with -static and with another C library. The program
 * prints each failure and the number of failures.
 */
#define _POSIX_C_SOURCE 200809L
#include <brigade/core.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MICRO_BATCH = 4, WIDTH = 16, MICRO_BATCHES = 4, UPDATES = 6, THREADS = 8 };

static int passed, failed;
static bg_error error;

static void expect(bool holds, const char *what)
{
    if (holds) {
        passed++;
    } else {
        failed++;
        printf("FAILED: %s (%s)\n", what, error.message);
    }
}

/* Under the thread sanitizer, a child of a process with threads cannot start threads. */
#if defined(__SANITIZE_THREAD__)
#define HAS_FORK 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_FORK 0
#endif
#endif
#ifndef HAS_FORK
#define HAS_FORK 1
#endif

/* ---- memory and threads that the program lends ---- */

typedef struct memory {
    size_t lent, returned, lent_bytes, returned_bytes, wrong, limit;
} memory;

static void *lend_memory(void *user, size_t alignment, size_t size_bytes)
{
    memory *m = user;
    void *made = NULL;

    if (m->lent >= m->limit || posix_memalign(&made, alignment, size_bytes) != 0)
        return NULL;
    memset(made, 0x5a, size_bytes); /* with arbitrary content */
    m->lent++;
    m->lent_bytes += size_bytes;
    return made;
}

static void take_memory(void *user, void *lent, size_t size_bytes)
{
    memory *m = user;

    m->wrong += lent == NULL;
    m->returned++;
    m->returned_bytes += size_bytes;
    free(lent);
}

/* A pool: threads that wait for a function. */
typedef struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t threads[THREADS];
    struct {
        void (*function)(void *);
        void *argument;
        bool is_busy;
    } work[THREADS];
    int thread_count, begun, done, next;
    bool is_over;
} pool;

static void *serve(void *user)
{
    pool *p = user;
    int own;

    pthread_mutex_lock(&p->mutex);
    own = p->next++;
    for (;;) {
        while (!p->is_over && !p->work[own].is_busy)
            pthread_cond_wait(&p->changed, &p->mutex);
        if (!p->work[own].is_busy)
            break;
        pthread_mutex_unlock(&p->mutex);
        p->work[own].function(p->work[own].argument);
        pthread_mutex_lock(&p->mutex);
        p->work[own].is_busy = false;
        p->done++;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

static bool lend_thread(void *user, void (*function)(void *), void *argument)
{
    pool *p = user;
    bool is_lent = false;

    pthread_mutex_lock(&p->mutex);
    for (int i = 0; i < p->thread_count && !is_lent; i++)
        if (!p->work[i].is_busy) {
            p->work[i].function = function;
            p->work[i].argument = argument;
            p->work[i].is_busy = is_lent = true;
            p->begun++;
        }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    return is_lent;
}

static void open_pool(pool *p, int thread_count)
{
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->thread_count = thread_count;
    for (int i = 0; i < thread_count; i++)
        if (pthread_create(&p->threads[i], NULL, serve, p) != 0)
            exit(2);
}

static void close_pool(pool *p)
{
    pthread_mutex_lock(&p->mutex);
    p->is_over = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    for (int i = 0; i < p->thread_count; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
}

/* ---- a network in four stages ---- */

static bg_value build(bg_graph *graph)
{
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH);
    bg_value x = bg_graph_input(graph, "x", &type);
    const bg_value y = bg_graph_input(graph, "y", &type);
    bg_value loss;

    for (int i = 0; i < 4; i++) {
        char name[8];

        snprintf(name, sizeof name, "fc%d", i);
        bg_block_start(graph, name, BG_DEVICE_NONE);
        x = bg_linear_layer(graph, name, x, WIDTH, true);
        x = i < 3 ? bg_tanh(graph, x) : x;
    }
    loss = bg_mse_loss(graph, "mse", x, y, BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    return loss;
}

static bg_session *open_session(const bg_options *options)
{
    const bg_optimizer adam = bg_adam(0.01);
    bg_graph *graph = NULL;
    bg_session *session = NULL;

    if (bg_graph_create(&graph, &error) == BG_OK) {
        const bg_value loss = build(graph);
        bg_session_create_training(graph, loss, &adam, options, NULL, &session, &error);
    }
    bg_graph_destroy(graph);
    return session;
}

static bg_status train(bg_session *session, float *losses)
{
    static float x[MICRO_BATCHES * MICRO_BATCH * WIDTH], y[MICRO_BATCHES * MICRO_BATCH * WIDTH];
    const void *inputs[2];
    bg_status status = BG_OK;

    for (int i = 0; i < MICRO_BATCHES * MICRO_BATCH * WIDTH; i++) {
        x[i] = (float)(i * 7 % 31) / 31.0F;
        y[i] = (float)(i * 5 % 17) / 17.0F;
    }
    inputs[0] = x, inputs[1] = y;
    for (int u = 0; u < UPDATES && status == BG_OK; u++) {
        void *outputs[] = {&losses[u]};

        status = bg_session_run(session, inputs, outputs, &error);
    }
    return status;
}

static bg_options make_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.reporting.output_mode = BG_OUTPUT_FINAL;
    return options;
}

/* ---- signals ---- */

static void count_signal(int number)
{
    (void)number;
}

/* The handler of each signal, and which signals are blocked. */
typedef struct signals {
    void (*handlers[32])(int);
    sigset_t blocked;
} signals;

static signals look_at_signals(void)
{
    signals found;

    memset(&found, 0, sizeof found);
    for (int i = 1; i < 32; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0)
            found.handlers[i] = action.sa_handler;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &found.blocked);
    return found;
}

static bool are_equal(const signals *a, const signals *b)
{
    for (int i = 1; i < 32; i++)
        if (a->handlers[i] != b->handlers[i] || sigismember(&a->blocked, i) != sigismember(&b->blocked, i))
            return false;
    return true;
}

/* ---- the tests ---- */

static float wanted[UPDATES];
static bool has_plan_memory, has_weight_memory;

static void log_line(void *user, bg_log_level level, const char *message)
{
    (void)level, (void)message;
    ++*(int *)user;
}

static void try_plain(void)
{
    bg_options options = make_options();
    int lines = 0;
    bg_session *session;

    options.reporting.log = log_line;
    options.reporting.log_user = &lines;
    options.reporting.log_cycles = true;
    session = open_session(&options);
    expect(session != NULL && train(session, wanted) == BG_OK && wanted[UPDATES - 1] < wanted[0], "it learns");
    expect(lines >= UPDATES, "the program hears the log");
    bg_session_destroy(session);
}

static void try_loans(uint32_t workers)
{
    memory lent = {.limit = SIZE_MAX};
    bg_options options = make_options();
    float losses[UPDATES];
    bg_session *session;
    pool threads;

    open_pool(&threads, THREADS);
    options.execution.cores = workers;
    options.execution.start_thread = lend_thread;
    options.execution.start_thread_user = &threads;
    options.memory.allocate = lend_memory;
    options.memory.release = take_memory;
    options.memory.allocator_user = &lent;
    options.memory.locations[BG_LOCATION_STATE].place = BG_PLACE_REMOTE;
    session = open_session(&options);
    expect(session != NULL && train(session, losses) == BG_OK, "a session on the program's threads and memory runs");
    expect(memcmp(losses, wanted, sizeof losses) == 0, "with the same bits");
    expect(lent.lent >= 8, "four arenas and four remote stores are the program's memory");
    expect(workers == 1 ? threads.begun <= 1 : threads.begun >= (int)workers, "workers are the program's threads");
    bg_session_destroy(session);
    expect(lent.returned == lent.lent && lent.returned_bytes == lent.lent_bytes && lent.wrong == 0,
           "all memory comes back, with its size");
    close_pool(&threads);
    expect(threads.done == threads.begun, "and all threads");
}

static void try_refusals(void)
{
    memory none = {.limit = 2};
    bg_options options = make_options();
    pool threads;

    options.memory.allocate = lend_memory;
    options.memory.allocator_user = &none;
    expect(open_session(&options) == NULL && strstr(error.message, "allocate is given without release") != NULL,
           "memory that does not go back is refused");
    options.memory.release = take_memory;
    expect(open_session(&options) == NULL && error.status == BG_ERROR_MEMORY, "memory that ends is an error");
    expect(none.lent == 2 && none.returned == 2, "and what was lent comes back");

    options = make_options();
    open_pool(&threads, 1);
    options.execution.cores = 2;
    options.execution.start_thread = lend_thread;
    options.execution.start_thread_user = &threads;
    expect(open_session(&options) == NULL && strstr(error.message, "start_thread failed to start thread 2") != NULL,
           "threads that end are an error");
    options.execution.pinning = BG_PINNING_COMPACT;
    expect(open_session(&options) == NULL && strstr(error.message, "start_thread is set with pinning compact") != NULL,
           "the program's threads are not bound");
    close_pool(&threads);
}

/* ---- all memory is the program's ---- */

enum { CONSTANT_BYTES = MICRO_BATCH * WIDTH * (int)sizeof(float) };

static bool has_all_values(bg_weights *weights)
{
    bg_weight value;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++)
        if (bg_weights_at(weights, i, &value, &error) != BG_OK)
            return false;
    return true;
}

/* Trains with weights and a graph in the program's memory, publishes the weights for a reader, and checks that all
 * memory is freed. */
static bg_status use_allocator(const bg_allocator *allocator, memory *lent)
{
    static const float ones[MICRO_BATCH * WIDTH];
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH), row = bg_vector(BG_FLOAT32, WIDTH);
    const bg_optimizer adam = bg_adam(0.01);
    bg_options options = make_options();
    bg_graph *graph = NULL;
    bg_weights *weights = NULL;
    bg_plan *plan = NULL, *inference = NULL;
    bg_session *session = NULL, *reader = NULL;
    float losses[UPDATES];
    size_t before = 0;
    bg_status status;

    options.memory.allocate = allocator->allocate;
    options.memory.release = allocator->release;
    options.memory.allocator_user = allocator->user;
    options.execution.cores = 1;
    status = bg_graph_create_in(allocator, &graph, &error);
    if (status == BG_OK) {
        const bg_value loss = build(graph);

        bg_graph_constant(graph, "ones", &type, ones);
        before = lent->lent;
        status = bg_plan_create_training(graph, loss, &adam, &options, &plan, &error);
        has_plan_memory = status != BG_OK || lent->lent > before;
    }
    options.execution.gradient_accumulation = 1;
    if (status == BG_OK)
        status = bg_plan_create_inference(graph, &options, &inference, &error);
    if (status == BG_OK)
        status = bg_weights_create_in(allocator, &weights, &error);
    before = lent->lent_bytes;
    if (status == BG_OK)
        status = bg_weights_set(weights, "fc0.bias", &row, ones, &error);
    has_weight_memory = status != BG_OK || lent->lent_bytes - before == sizeof(float) * WIDTH;
    if (status == BG_OK)
        status = bg_session_create(plan, weights, &session, &error);
    if (status == BG_OK)
        status = train(session, losses);
    if (status == BG_OK)
        status = bg_weights_publish(weights, NULL, &error);
    if (status == BG_OK)
        status = bg_session_create_reader(inference, weights, &reader, &error);
    if (status == BG_OK)
        status = train(session, losses); /* values that the reader uses are not overwritten */
    if (status == BG_OK)
        status = bg_weights_publish(weights, NULL, &error);
    bg_session_destroy(reader);
    bg_session_destroy(session);
    if (status == BG_OK && !has_all_values(weights)) /* the weights moved to new memory */
        status = BG_ERROR_MEMORY;
    bg_weights_destroy(weights);
    bg_plan_destroy(inference);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return status;
}

static void try_allocator(void)
{
    memory lent = {.limit = SIZE_MAX};
    const bg_allocator allocator = {lend_memory, take_memory, &lent}, half = {.allocate = lend_memory, .user = &lent};
    bg_graph *graph = NULL;
    bg_weights *weights = NULL;
    size_t all, step;

    expect(use_allocator(&allocator, &lent) == BG_OK, "graph, plan, weights and sessions on the program's memory");
    expect(has_plan_memory && has_weight_memory, "the plan and a weight are there");
    expect(lent.lent_bytes > CONSTANT_BYTES && lent.returned == lent.lent && lent.returned_bytes == lent.lent_bytes,
           "all of it comes back, with its size");
    all = lent.lent;
    step = getenv("BRIGADE_TEST_QUICK") != NULL ? all / 8 + 1 : 1;
    for (size_t n = 0; n < all; n += step) {
        bg_status status;

        lent = (memory){.limit = n};
        status = use_allocator(&allocator, &lent);
        if (status != BG_ERROR_MEMORY || lent.returned != lent.lent || lent.returned_bytes != lent.lent_bytes) {
            expect(false, "memory that ends is BG_ERROR_MEMORY, and all comes back");
            printf("  allocation %zu of %zu: status %d, %zu of %zu came back\n", n, all, (int)status, lent.returned,
                   lent.lent);
            break;
        }
    }
    expect(lent.lent < all, "each allocation was refused once");
    expect(bg_graph_create_in(&half, &graph, &error) == BG_ERROR_INVALID &&
               bg_weights_create_in(&half, &weights, &error) == BG_ERROR_INVALID &&
               strstr(error.message, "allocate without release") != NULL,
           "an allocator has both functions");
}

/* ---- an infeed on a thread of the program ---- */

static bg_status make_element(void *user, void *const *tensors, bool *out_has_ended, bg_error *cause)
{
    (void)cause, (void)out_has_ended;
    for (int i = 0; i < MICRO_BATCH * WIDTH; i++) {
        ((float *)tensors[0])[i] = (float)(i % 5);
        ((float *)tensors[1])[i] = (float)(i % 3);
    }
    ++*(int *)user;
    return BG_OK;
}

static void try_infeed(int threads)
{
    const bg_type types[] = {bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH), bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH)};
    const bg_infeed_options settings = bg_infeed_options_defaults();
    memory lent = {.limit = SIZE_MAX};
    bg_options options = make_options();
    bg_infeed *infeed = NULL;
    bg_session *session;
    float loss = -1.0F;
    void *outputs[] = {&loss};
    int made = 0;
    size_t before;
    pool p;

    open_pool(&p, threads);
    options.execution.cores = 1;
    options.execution.start_thread = lend_thread;
    options.execution.start_thread_user = &p;
    options.memory.allocate = lend_memory;
    options.memory.release = take_memory;
    options.memory.allocator_user = &lent;
    session = open_session(&options);
    before = lent.lent;
    expect(session != NULL && bg_infeed_create(types, 2, make_element, &made, &settings, &infeed, &error) == BG_OK,
           "an infeed");
    if (threads == 0) {
        expect(bg_infeed_start(infeed, session, &error) == BG_ERROR_IO &&
                   strstr(error.message, "start_thread failed to start the infeed's thread") != NULL,
               "an infeed without a thread is an error");
    } else {
        expect(bg_infeed_start(infeed, session, &error) == BG_OK && lent.lent > before,
               "an infeed's ring is the program's memory");
        expect(bg_session_run_infeed(session, infeed, outputs, &error) == BG_OK && loss > 0.0F && p.begun == 1,
               "its thread is the program's");
    }
    bg_infeed_destroy(infeed);
    bg_session_destroy(session);
    /* The source counts on the infeed's thread, which fills the ring until the infeed is destroyed. */
    expect((made > 0) == (threads > 0), "and calls the source");
    expect(lent.returned == lent.lent, "the ring comes back");
    close_pool(&p);
    expect(p.done == p.begun, "and the thread");
}

/* ---- progress ---- */

typedef struct progress {
    uint64_t calls, works, last, total, cancel_at; /* `works` counts what begins: the plan, then the session */
    bool rises;
    char what[64];
} progress;

static bool report(void *user, const char *what, uint64_t done, uint64_t total)
{
    progress *p = user;

    p->works += done == 0;
    p->rises = p->rises && (done == 0 || (done > p->last && total == p->total)) && done < total && what[0] != '\0';
    p->last = done;
    p->total = total;
    snprintf(p->what, sizeof p->what, "%s", what);
    return ++p->calls == p->cancel_at;
}

static void try_progress(void)
{
    progress p = {.rises = true};
    bg_options options = make_options();
    bg_session *session;

    options.reporting.progress = report;
    options.reporting.progress_user = &p;
    session = open_session(&options);
    expect(session != NULL && p.calls > 10 && p.works == 2 && p.rises,
           "planning and the creation of a session say how far they are");
    bg_session_destroy(session);
    p.cancel_at = p.calls;
    p.calls = 0;
    expect(open_session(&options) == NULL && error.status == BG_ERROR_CANCELED &&
               strstr(error.message, "the session") != NULL,
           "the last weight can be canceled");
    p = (progress){.rises = true, .cancel_at = 7};
    expect(open_session(&options) == NULL && error.status == BG_ERROR_CANCELED && p.calls == 7 &&
               strstr(error.message, p.what) != NULL,
           "and ends when the program says so");
}

/* Returns whether every other thread of this process has blocked the signals that a program handles. */
static bool have_blocked_signals(int *out_count)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE};
    DIR *folder = opendir("/proc/self/task");
    bool all = true;

    *out_count = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char path[300], line[200];
        unsigned long long blocked = 0;
        FILE *file;

        if (entry->d_name[0] == '.' || atol(entry->d_name) == (long)getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        while (fgets(line, sizeof line, file) != NULL)
            sscanf(line, "SigBlk: %llx", &blocked);
        fclose(file);
        ++*out_count;
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            all = all && (blocked >> (numbers[i] - 1) & 1) != 0;
    }
    if (folder != NULL)
        closedir(folder);
    return all;
}

static void try_signals(void)
{
    struct sigaction action;
    signals before, after;
    bg_options options = make_options();
    float losses[UPDATES];
    bg_session *session;

    memset(&action, 0, sizeof action);
    action.sa_handler = count_signal;
    sigaction(SIGUSR1, &action, NULL);
    before = look_at_signals();
    options.execution.cores = 2;
    session = open_session(&options);
    expect(session != NULL && train(session, losses) == BG_OK, "a session beside signals");
    after = look_at_signals();
    expect(are_equal(&before, &after), "handlers and blocked signals stay as they are");
    if (HAS_FORK) { /* the thread sanitizer has an additional thread */
        int threads = 0;

        expect(have_blocked_signals(&threads), "the library's threads leave signals to the program's");
        expect(threads >= 2 || access("/proc/self/task", R_OK) != 0, "there are such threads");
    }
    bg_session_destroy(session);
    after = look_at_signals();
    expect(are_equal(&before, &after), "also when the session is gone");
}

/* Uses the parent's session in a child process, and then a session that the child creates. */
static int work_in_child(bg_session *inherited, bool has_threads)
{
    bg_options options = make_options();
    float losses[UPDATES];
    bg_session *own;
    bg_weight weight;
    bg_status status = train(inherited, losses);

    if (has_threads && (status != BG_ERROR_INVALID || strstr(error.message, "this process was forked") == NULL))
        return 10;
    if (!has_threads && status != BG_OK)
        return 11;
    if (bg_weights_find(bg_session_weights(inherited), "fc0.weight", &weight, &error) != BG_OK)
        return 12;
    options.execution.cores = 2;
    own = open_session(&options);
    if (own == NULL || train(own, losses) != BG_OK || memcmp(losses, wanted, sizeof losses) != 0)
        return 13;
    bg_session_destroy(own);
    bg_session_destroy(inherited);
    return 0;
}

static void try_fork(uint32_t workers)
{
    bg_options options = make_options();
    float losses[UPDATES];
    bg_session *session;
    int code = 0;
    pid_t child;

    options.execution.cores = workers;
    session = open_session(&options);
    expect(session != NULL && train(session, losses) == BG_OK, "a session before a fork");
    fflush(stdout);
    child = fork();
    if (child == 0) {
        const int result = work_in_child(session, workers > 1);
        fflush(stdout);
        _exit(result);
    }
    waitpid(child, &code, 0);
    expect(WIFEXITED(code) && WEXITSTATUS(code) == 0, "a child keeps to the rules of fork");
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 0)
        printf("  the child ends with %#x\n", (unsigned)code);
    expect(train(session, losses) == BG_OK, "the parent's session goes on");
    bg_session_destroy(session);
}

int main(void)
{
    try_plain();
    try_loans(1);
    try_loans(3);
    try_refusals();
    try_allocator();
    try_infeed(0);
    try_infeed(1);
    try_progress();
    try_signals();
    if (HAS_FORK) {
        try_fork(1);
        try_fork(3);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
