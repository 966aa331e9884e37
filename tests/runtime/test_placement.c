/*
 * test_placement.c: tests the processors of workers, the number of workers, and the throughput of sessions on several
 * threads.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <brigade/convnet.h>
#include <brigade/session.h>
#include <brigade/topology.h>

#include "core/clock.h"
#include "runtime/session.h"
#include "support/toy_plan.h"

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* ---- affinities ---- */

static cpu_set_t affinity_of(pthread_t thread)
{
    cpu_set_t set;

    assert_int_equal(pthread_getaffinity_np(thread, sizeof set, &set), 0);
    return set;
}

static void set_own_affinity(const cpu_set_t *set)
{
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof *set, set), 0);
}

/* Returns the allowed processor with the highest number, which a session would not choose first. */
static int last_cpu(const cpu_set_t *set)
{
    int last = -1;

    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, set))
            last = cpu;
    return last;
}

static bg_session *open_toy(bg_plan *plan)
{
    bg_session *session = NULL;
    bg_error error = {0};

    require(bg_session_create(plan, NULL, &session, &error), &error);
    return session;
}

static bg_plan *make_toy(uint32_t cores, bg_pinning pinning)
{
    toy_options options = toy_defaults();
    bg_plan *plan;

    options.cores = cores;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    plan->options.execution.pinning = pinning;
    plan->options.execution.processor_order = bg_topology_order;
    return plan;
}

/* Runs as a thread that may use all processors, and ends when the mutex is released. */
static void *stand_by(void *argument)
{
    pthread_mutex_t *mutex = argument;

    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* If a thread may use one processor of several, all workers of its session stay there, pinned or not. */
static void workers_stay_within_the_callers_affinity(void **state)
{
    const cpu_set_t before = affinity_of(pthread_self());
    const int cpu = last_cpu(&before);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t bystander;
    cpu_set_t one;

    (void)state;
    pthread_mutex_lock(&mutex);
    assert_int_equal(pthread_create(&bystander, NULL, stand_by, &mutex), 0);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    for (bg_pinning pinning = BG_PINNING_NONE; pinning <= BG_PINNING_SPREAD; pinning++)
        for (uint32_t cores = 1; cores <= 3; cores++) {
            bg_plan *plan = make_toy(cores, pinning);
            bg_session *session;
            set_own_affinity(&one);
            session = open_toy(plan);
            set_own_affinity(&before);
            assert_int_equal(session->engine->worker_count, cores);
            for (uint32_t i = 0; i < cores; i++) {
                const cpu_set_t set = affinity_of(session->engine->workers[i].thread);
                assert_true(CPU_EQUAL(&set, &one));
            }
            bg_session_destroy(session);
            toy_plan_destroy(plan);
        }
    pthread_mutex_unlock(&mutex);
    assert_int_equal(pthread_join(bystander, NULL), 0);
}

/* Reverses the order of the processors; `user` counts the calls. */
static uint32_t reverse(void *user, bg_pinning pinning, uint32_t *cpus, uint32_t cpu_count)
{
    assert_int_equal(pinning, BG_PINNING_COMPACT);
    for (uint32_t i = 0; i < cpu_count / 2; i++) {
        const uint32_t other = cpus[cpu_count - 1 - i];
        cpus[cpu_count - 1 - i] = cpus[i];
        cpus[i] = other;
    }
    ++*(uint32_t *)user;
    return 0;
}

/* Pinned workers get processors in the order that the callback gives, and by number without one. Sessions that do not
 * pin threads do not call the order function. */
static void the_callers_order_is_followed(void **state)
{
    const cpu_set_t before = affinity_of(pthread_self());
    const uint32_t count = (uint32_t)CPU_COUNT(&before);
    uint32_t calls = 0;

    (void)state;
    for (int way = 0; way < 3; way++) {
        bg_plan *plan = make_toy(count, way < 2 ? BG_PINNING_COMPACT : BG_PINNING_NONE);
        bg_session *session;
        cpu_set_t first;
        plan->options.execution.processor_order = way != 1 ? reverse : NULL;
        plan->options.execution.processor_order_user = &calls;
        session = open_toy(plan);
        first = affinity_of(session->engine->workers[0].thread);
        if (way == 0)
            assert_true(CPU_ISSET(last_cpu(&before), &first) && CPU_COUNT(&first) == 1);
        else if (way == 1)
            assert_true(CPU_COUNT(&first) == 1 && (count == 1 || !CPU_ISSET(last_cpu(&before), &first)));
        assert_int_equal(calls, 1);
        bg_session_destroy(session);
        toy_plan_destroy(plan);
    }
    assert_int_equal(bg_processor_count(), count);
}

/* By default workers may use all processors that the caller may use; with one worker for each processor and pinning,
 * each has its own. */
static void pinning_binds_each_worker_to_its_own_processor(void **state)
{
    const cpu_set_t before = affinity_of(pthread_self());
    const uint32_t count = (uint32_t)CPU_COUNT(&before);
    char *text = NULL, expected[64];

    (void)state;
    for (bg_pinning pinning = BG_PINNING_NONE; pinning <= BG_PINNING_SPREAD; pinning++) {
        bg_plan *plan = make_toy(count, pinning);
        bg_session *session = open_toy(plan);
        cpu_set_t all;
        CPU_ZERO(&all);
        assert_int_equal(bg_session_print_workers(session, &text, NULL), BG_OK);
        for (uint32_t i = 0; i < count; i++) {
            const cpu_set_t set = affinity_of(session->engine->workers[i].thread);
            assert_int_equal(CPU_COUNT(&set), pinning == BG_PINNING_NONE ? count : 1);
            CPU_OR(&all, &all, &set);
            if (pinning == BG_PINNING_NONE)
                snprintf(expected, sizeof expected, "worker %u on any core of ", i);
            else
                snprintf(expected, sizeof expected, "worker %u on core %d\n", i, last_cpu(&set));
            assert_non_null(strstr(text, expected));
        }
        assert_true(CPU_EQUAL(&all, &before));
        free(text);
        bg_session_destroy(session);
        toy_plan_destroy(plan);
    }
}

/* With more workers than processors, workers are not bound. */
static void crowded_workers_are_not_bound(void **state)
{
    const cpu_set_t before = affinity_of(pthread_self());
    const uint32_t count = (uint32_t)CPU_COUNT(&before) + 1;
    bg_plan *plan = make_toy(count, BG_PINNING_COMPACT);
    bg_session *session = open_toy(plan);

    (void)state;
    for (uint32_t i = 0; i < count; i++) {
        const cpu_set_t set = affinity_of(session->engine->workers[i].thread);
        assert_true(CPU_EQUAL(&set, &before));
    }
    bg_session_destroy(session);
    toy_plan_destroy(plan);
}

/* Makes a session of one bound worker; returns the worker's processor. */
static bg_session *open_bound(bg_plan *plan, int *out_cpu)
{
    bg_session *session = open_toy(plan);
    const cpu_set_t set = affinity_of(session->engine->workers[0].thread);

    assert_int_equal(CPU_COUNT(&set), 1);
    *out_cpu = last_cpu(&set);
    return session;
}

/* Two sessions that pin have separate processors, and a processor that one session gives up is used by the next
 * session. Another program may be bound to such a processor at the same time, so the test tries several times. */
static void pinned_sessions_avoid_each_other(void **state)
{
    const cpu_set_t allowed = affinity_of(pthread_self());
    bg_plan *plan = make_toy(1, BG_PINNING_COMPACT);
    bool is_apart = false, is_taken_again = false;

    (void)state;
    for (int tries = 0; tries < 20 && CPU_COUNT(&allowed) > 1 && !(is_apart && is_taken_again); tries++) {
        int first_cpu, second_cpu, third_cpu;
        bg_session *first = open_bound(plan, &first_cpu), *second = open_bound(plan, &second_cpu), *third;
        bg_session_destroy(first);
        third = open_bound(plan, &third_cpu);
        is_apart = is_apart || first_cpu != second_cpu;
        is_taken_again = is_taken_again || (third_cpu == first_cpu && first_cpu != second_cpu);
        bg_session_destroy(second);
        bg_session_destroy(third);
    }
    assert_true(CPU_COUNT(&allowed) == 1 || (is_apart && is_taken_again));
    toy_plan_destroy(plan);
}

/* A session avoids the processor of a bound thread of another process. */
static void another_process_is_avoided(void **state)
{
    const cpu_set_t allowed = affinity_of(pthread_self());
    bg_plan *plan = make_toy(1, BG_PINNING_SPREAD);
    bool is_apart = false;

    (void)state;
    for (int tries = 0; tries < 20 && CPU_COUNT(&allowed) > 1 && !is_apart; tries++) {
        int free_cpu, cpu, ready[2];
        bg_session *session = open_bound(plan, &free_cpu);
        pid_t child;
        bg_session_destroy(session);
        assert_int_equal(pipe(ready), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(free_cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            if (write(ready[1], "", 1) == 1)
                pause();
            _exit(0);
        }
        assert_int_equal(read(ready[0], &(char){0}, 1), 1);
        session = open_bound(plan, &cpu);
        is_apart = cpu != free_cpu;
        bg_session_destroy(session);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(ready[0]);
        close(ready[1]);
    }
    assert_true(CPU_COUNT(&allowed) == 1 || is_apart);
    toy_plan_destroy(plan);
}

static bool is_odd(const void *user, uint32_t cpu)
{
    (void)user;
    return cpu % 2 == 1;
}

/* The machine has 4 cores of two processors each. Occupied processors are sorted to the end; the first two free ones
 * are on separate cores. */
static void free_processors_come_first(void **state)
{
    uint32_t cpus[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint32_t wanted[] = {0, 2, 4, 6, 1, 3, 5, 7};
    bgi_placement placement = {.cpus = cpus, .cpu_count = 8, .core_count = 4, .pinning = BG_PINNING_SPREAD};

    (void)state;
    bgi_placement_sort(&placement, is_odd, NULL);
    assert_memory_equal(cpus, wanted, sizeof cpus);
    assert_int_equal(placement.core_count, 2);
}

/* The machine has 4 cores of two processors each; as in Linux, the numbers of a core's processors differ by 4. */
static void spread_leaves_equal_distances(void **state)
{
    uint32_t by_rank[] = {0, 1, 2, 3, 4, 5, 6, 7}, by_core[] = {0, 4, 1, 5, 2, 6, 3, 7};
    const bgi_placement spread = {.cpus = by_rank, .cpu_count = 8, .core_count = 4, .pinning = BG_PINNING_SPREAD};
    const bgi_placement compact = {.cpus = by_core, .cpu_count = 8, .core_count = 4, .pinning = BG_PINNING_COMPACT};
    static const uint32_t wanted[][8] = {{0}, {0}, {0, 2}, {0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}};

    (void)state;
    for (uint32_t count = 1; count <= 5; count++)
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(bgi_placement_cpu(&spread, i, count), wanted[count][i]);
            assert_int_equal(bgi_placement_cpu(&compact, i, count), by_core[i]);
        }
}

/* ---- the number of workers, and the caller as a worker ---- */

typedef struct net {
    bg_plan *plan;
    bg_session *session;
    uint8_t *images;
    float logits[64 * 10];
} net;

/* Opens a session for inference with the digit network. */
static void open_net(net *n, int64_t images, uint32_t cores, bg_pinning pinning)
{
    bg_convnet_options shape = bg_convnet_defaults();
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_error error = {0};

    assert_true(images <= 64);
    shape.micro_batch = images;
    shape.outputs = BG_CONVNET_LOGITS;
    options.execution.cores = cores;
    options.execution.pinning = pinning;
    require(bg_graph_create(&graph, &error), &error);
    bg_convnet_build(graph, &shape);
    options.numerics.initialize_missing = true;
    require(bg_plan_create_inference(graph, &options, &n->plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_session_create(n->plan, NULL, &n->session, &error), &error);
    n->images = calloc((size_t)images, 28 * 28);
    assert_non_null(n->images);
    for (int64_t i = 0; i < images * 28 * 28; i++)
        n->images[i] = (uint8_t)(i * 31 % 251);
}

static void close_net(net *n)
{
    bg_session_destroy(n->session);
    bg_plan_destroy(n->plan);
    free(n->images);
}

static void run_net(net *n)
{
    bg_error error = {0};

    require(bg_session_run(n->session, (const void *[]){n->images}, (void *[]){n->logits}, &error), &error);
}

static uint32_t count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    uint32_t count = 0;

    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* A session of one worker needs no thread, and gives the same bits as two workers; a pinned session has threads. */
static void one_worker_is_the_caller(void **state)
{
    static net one, two, pinned;
    const uint32_t before = count_threads();
    char *text = NULL;

    (void)state;
    open_net(&one, 40, 1, BG_PINNING_NONE);
    assert_int_equal(count_threads(), before);
    assert_int_equal(bg_session_print_workers(one.session, &text, NULL), BG_OK);
    assert_string_equal(text, "worker 0 on the calling thread\n");
    free(text);
    open_net(&pinned, 40, 1, BG_PINNING_SPREAD);
    assert_int_equal(count_threads(), before + 1);
    open_net(&two, 40, 2, BG_PINNING_NONE);
    assert_int_equal(count_threads(), before + 3);
    for (int i = 0; i < 3; i++) {
        run_net(&one);
        run_net(&two);
        run_net(&pinned);
        assert_memory_equal(one.logits, two.logits, 40 * 10 * sizeof(float));
        assert_memory_equal(one.logits, pinned.logits, 40 * 10 * sizeof(float));
    }
    close_net(&one);
    close_net(&two);
    close_net(&pinned);
    assert_int_equal(count_threads(), before);
}

/* Inference of one image ends before a second worker would wake up; inference of 64 images does not. */
static void short_runs_have_one_worker(void **state)
{
    const cpu_set_t set = affinity_of(pthread_self());
    static net small, large;

    (void)state;
    open_net(&small, 1, 0, BG_PINNING_NONE);
    assert_true(small.session->engine->is_driven);
    open_net(&large, 64, 0, BG_PINNING_NONE);
    assert_true(large.session->engine->worker_count > 1 || CPU_COUNT(&set) == 1);
    run_net(&small);
    run_net(&large);
    close_net(&small);
    close_net(&large);
}

static bg_status infer_same(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[0];
    return BG_OK;
}

static void run_same(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    memcpy(call->operands[1], call->operands[0], bg_type_size_bytes(&call->types[0]));
}

static bg_status choose_same(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op;
    (void)policy;
    (void)error;
    *out = (bg_kernel){.name = "same", .run = run_same, .part_count = 1};
    return BG_OK;
}

static const bg_op_type same = {BG_OP_TYPE_DEFAULTS, .name = "same",      .minimum_inputs = 1,  .maximum_inputs = 1,
                                .output_count = 1,   .infer = infer_same, .kernel = choose_same};

/* A session with a caller's kernel has a worker, so that the run returns even if the kernel hangs. */
static void own_ops_keep_their_worker(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 8);
    const uint32_t before = count_threads();
    bg_options options = bg_options_defaults();
    bg_session *session = NULL;
    bg_plan *plan = NULL;
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_value x;

    (void)state;
    options.execution.cores = 1;
    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &type);
    bg_graph_output(graph, "y", bg_graph_add(graph, &same, "mine", &x, 1, NULL, NULL));
    options.numerics.initialize_missing = true;
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    assert_int_equal(count_threads(), before + 1);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

/* The caller itself checks the time limit when its devices wait forever. */
static void a_driven_run_ends_at_the_limit(void **state)
{
    bg_plan *plan = make_toy(1, BG_PINNING_NONE);
    float inputs[64 * TOY_WIDTH] = {0}, outputs[64 * TOY_WIDTH];
    bg_session *session;
    bg_error error = {0};

    (void)state;
    plan->has_library_ops_only = true;
    session = open_toy(plan);
    assert_true(session->engine->is_driven);
    require(bg_session_run(session, (const void *[]){inputs}, (void *[]){outputs}, &error), &error);
    plan->options.execution.wait_limit_s = 0.1;
    for (uint32_t i = 0; i < plan->devices[0].instruction_count; i++)
        if (toy_instructions(plan, 0)[i].action.kind == BG_ACTION_SEND) {
            toy_instructions(plan, 0)[i].action.kind = BG_ACTION_HOST_OUT;
            toy_instructions(plan, 0)[i].copy_count = 0;
        }
    assert_int_equal(bg_session_run(session, (const void *[]){inputs}, (void *[]){outputs}, &error), BG_ERROR_TIMEOUT);
    bg_session_destroy(session);
    toy_plan_destroy(plan);
}

/* ---- several threads ---- */

enum { RUN_MS = 60, TRIES = 25 };

typedef struct runner {
    pthread_t thread;
    net *net; /* NULL: plain arithmetic */
    uint64_t calls;
} runner;

/* Computes with a local variable only, so that threads share nothing. */
static void calculate(void)
{
    volatile float sum = 0.0f;

    for (int i = 0; i < 20000; i++)
        sum = sum * 0.5f + 1.0f;
}

static void *run_for_a_while(void *argument)
{
    runner *r = argument;
    const uint64_t end_ns = bgi_clock_ns() + RUN_MS * UINT64_C(1000000);

    for (r->calls = 0; bgi_clock_ns() < end_ns; r->calls++)
        if (r->net == NULL)
            calculate();
        else if (bg_session_run(r->net->session, (const void *[]){r->net->images}, (void *[]){r->net->logits}, NULL) !=
                 BG_OK)
            return "a run failed";
    return NULL;
}

static uint64_t count_calls(net *nets, uint32_t count)
{
    runner runners[2];
    uint64_t calls = 0;
    void *failure = NULL;

    for (uint32_t i = 0; i < count; i++) {
        runners[i].net = nets != NULL ? &nets[i] : NULL;
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_for_a_while, &runners[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(runners[i].thread, &failure), 0);
        assert_null(failure);
        calls += runners[i].calls;
    }
    return calls;
}

/* Returns the throughput of two threads over that of one. */
static double ratio_of_two(net *nets)
{
    const uint64_t alone = count_calls(nets, 1);

    return (double)count_calls(nets, 2) / (double)alone;
}

/* Two threads, each with a session of one worker, have at least 1.4 times the throughput of one thread, or, where
 * other programs use the processors, 0.8 of what plain arithmetic reaches. */
static void sessions_of_two_threads_run_side_by_side(void **state)
{
    const cpu_set_t set = affinity_of(pthread_self());
    static net nets[2];
    double best = 0.0, best_plain = 0.0;

    (void)state;
    if (CPU_COUNT(&set) < 2) {
        print_message("one processor: two threads cannot run at the same time\n");
        skip();
    }
    for (int i = 0; i < 2; i++)
        open_net(&nets[i], 16, 1, BG_PINNING_NONE);
    for (int attempt = 0; attempt < TRIES && best < 1.4; attempt++) {
        const double plain = ratio_of_two(NULL), ratio = ratio_of_two(nets);
        best = ratio > best ? ratio : best;
        best_plain = plain > best_plain ? plain : best_plain;
    }
    for (int i = 0; i < 2; i++)
        close_net(&nets[i]);
    if (best < 1.4 && best < 0.8 * best_plain)
        fail_msg("two threads did %.2f times the calls of one in the best of %d tries, and %.2f times the arithmetic",
                 best, TRIES, best_plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_stay_within_the_callers_affinity),
        cmocka_unit_test(the_callers_order_is_followed),
        cmocka_unit_test(pinning_binds_each_worker_to_its_own_processor),
        cmocka_unit_test(crowded_workers_are_not_bound),
        cmocka_unit_test(spread_leaves_equal_distances),
        cmocka_unit_test(pinned_sessions_avoid_each_other),
        cmocka_unit_test(another_process_is_avoided),
        cmocka_unit_test(free_processors_come_first),
        cmocka_unit_test(one_worker_is_the_caller),
        cmocka_unit_test(short_runs_have_one_worker),
        cmocka_unit_test(own_ops_keep_their_worker),
        cmocka_unit_test(a_driven_run_ends_at_the_limit),
        cmocka_unit_test(sessions_of_two_threads_run_side_by_side),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
