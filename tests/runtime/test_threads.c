/*
 * test_threads.c: one thread at a time uses weights and the sessions that share them. A second thread gets an error and
 * changes nothing, and sessions with separate weights are not delayed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/checkpoint.h>
#include <brigade/data.h>
#include <brigade/session.h>

#include "core/clock.h"
#include "runtime/session.h"
#include "support/toy_plan.h"

enum { MOST_VALUES = 64 * TOY_WIDTH, HAMMERS = 4, HAMMER_CALLS = 300 };

/* A plan whose forward passes report their start and wait until the test allows them to end. */
typedef struct gate {
    atomic_bool has_begun, may_end;
    bg_session *inner; /* a session that the kernel itself runs, or NULL */
    bg_status inner_status;
    bg_error inner_error;
} gate;

static void wait_at_gate(const bg_kernel_call *call, uint32_t part)
{
    gate *g = call->state;
    float inputs[MOST_VALUES] = {0}, outputs[MOST_VALUES];

    if (part == 0 && g->inner != NULL && !atomic_exchange(&g->has_begun, true)) {
        g->inner_status = bg_session_run(g->inner, (const void *[]){inputs}, (void *[]){outputs}, &g->inner_error);
        return;
    }
    atomic_store(&g->has_begun, true);
    while (!atomic_load(&g->may_end))
        sched_yield();
}

static bg_plan *make_plan(gate *g, bool inference)
{
    toy_options options = toy_defaults();
    bg_plan *plan;

    options.cores = 1;
    options.inference = inference;
    options.wait_limit_s = 60.0;
    if (g != NULL) {
        options.forward = wait_at_gate;
        options.state = g;
    }
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    return plan;
}

static bg_session *open_session(const bg_plan *plan, bg_weights *weights)
{
    bg_session *session = NULL;
    bg_error error = {0};

    if (bg_session_create(plan, weights, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    return session;
}

static bg_status run(bg_session *session, bg_error *error)
{
    float inputs[MOST_VALUES] = {0}, outputs[MOST_VALUES];

    return bg_session_run(session, (const void *[]){inputs}, (void *[]){outputs}, error);
}

typedef struct runner {
    pthread_t thread;
    bg_session *session;
    bg_status status;
    bg_error error;
    atomic_bool is_done;
} runner;

static void *run_once(void *argument)
{
    runner *r = argument;

    r->status = run(r->session, &r->error);
    return NULL;
}

/* Starts a run on another thread, and returns when the run is inside a kernel. */
static void begin_run(runner *r, bg_session *session, gate *g)
{
    *r = (runner){.session = session};
    assert_int_equal(pthread_create(&r->thread, NULL, run_once, r), 0);
    while (!atomic_load(&g->has_begun))
        sched_yield();
}

static void end_run(runner *r, gate *g)
{
    atomic_store(&g->may_end, true);
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    if (r->status != BG_OK)
        fail_msg("the run that was there first: %s", r->error.message);
}

/* ---- errors ---- */

typedef struct rig {
    bg_session *session;
    bg_plan *plan;
    bg_weights *weights;
    float values[TOY_WIDTH];
} rig;

static bg_status call_run(const rig *r, bg_error *error)
{
    return run(r->session, error);
}

static bg_status call_execute(const rig *r, bg_error *error)
{
    const bg_run none = {.synthetic = true};

    return bg_session_execute(r->session, &none, NULL, error);
}

static bg_status call_run_loader(const rig *r, bg_error *error)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 4, TOY_WIDTH);
    bg_loader_options options = bg_loader_options_defaults();
    bg_array array = {.data = NULL};
    bg_dataset *dataset = NULL;
    bg_loader *loader = NULL;
    bg_status status;

    options.batch_size = 1;
    options.mode = BG_LOADER_SYNC;
    assert_int_equal(bg_array_init(&array, &type, NULL), BG_OK);
    assert_int_equal(bg_dataset_create_arrays(&array, 1, &dataset, NULL), BG_OK);
    assert_int_equal(bg_loader_create(dataset, &options, &loader, NULL), BG_OK);
    status = bg_session_run_loader(r->session, loader, 0, NULL, error);
    bg_loader_destroy(loader);
    bg_dataset_destroy(dataset);
    bg_array_clear(&array);
    return status;
}

static bg_status call_set_optimizer(const rig *r, bg_error *error)
{
    return bg_session_set_optimizer(r->session, &r->plan->optimizer, error);
}

static bg_status call_set_learning_rate(const rig *r, bg_error *error)
{
    return bg_session_set_learning_rate(r->session, 0.5, error);
}

static bg_status call_set_step(const rig *r, bg_error *error)
{
    return bg_session_set_step(r->session, 7, error);
}

static bg_status call_trace_event(const rig *r, bg_error *error)
{
    bg_trace_event event;

    return bg_session_trace_event(r->session, 0, 0, 0, &event, error);
}

static bg_status call_save(const rig *r, bg_error *error)
{
    return bg_checkpoint_save(r->session, "/nonexistent/folder", NULL, error);
}

static bg_status call_load(const rig *r, bg_error *error)
{
    return bg_checkpoint_load(r->session, "/nonexistent/folder", NULL, NULL, error);
}

static bg_status call_load_weights(const rig *r, bg_error *error)
{
    return bg_checkpoint_load_weights(r->weights, "/nonexistent/folder", NULL, NULL, error);
}

static bg_status call_at(const rig *r, bg_error *error)
{
    bg_weight weight;

    return bg_weights_at(r->weights, 0, &weight, error);
}

static bg_status call_find(const rig *r, bg_error *error)
{
    bg_weight weight;

    return bg_weights_find(r->weights, "w0", &weight, error);
}

static bg_status call_set(const rig *r, bg_error *error)
{
    const bg_type type = bg_vector(BG_FLOAT32, TOY_WIDTH);

    return bg_weights_set(r->weights, "w0", &type, r->values, error);
}

static bg_status call_create(const rig *r, bg_error *error)
{
    bg_session *session = NULL;
    const bg_status status = bg_session_create(r->plan, r->weights, &session, error);

    bg_session_destroy(session);
    return status;
}

typedef struct refusal {
    const char *name;
    bg_status (*call)(const rig *r, bg_error *error);
    bool is_of_session;
} refusal;

static const refusal refusals[] = {
    {"run", call_run, true},
    {"execute", call_execute, true},
    {"run_loader", call_run_loader, true},
    {"set_optimizer", call_set_optimizer, true},
    {"set_learning_rate", call_set_learning_rate, true},
    {"set_step", call_set_step, true},
    {"trace_event", call_trace_event, true},
    {"save", call_save, true},
    {"load", call_load, true},
    {"load_weights", call_load_weights, false},
    {"at", call_at, false},
    {"find", call_find, false},
    {"set", call_set, false},
    {"create", call_create, false},
};
enum { REFUSAL_COUNT = sizeof refusals / sizeof refusals[0] };

static void expect_refusal(const refusal *refused, const rig *r, const char *words)
{
    bg_error error = {0};
    const bg_status status = refused->call(r, &error);

    if (status != BG_ERROR_INVALID || strstr(error.message, words) == NULL)
        fail_msg("%s: status %d: %s; expected \"%s\"", refused->name, (int)status, error.message, words);
}

/* During a training run, each function returns an error to any other thread, and the run and its result do not change.
 */
static void a_second_thread_is_refused(void **state)
{
    static gate g;
    rig r = {.plan = make_plan(&g, false)};
    bg_plan *other_plan = make_plan(NULL, true);
    rig other = {.plan = other_plan};
    float before[TOY_WIDTH];
    bg_weight weight;
    runner first;

    (void)state;
    r.session = open_session(r.plan, NULL);
    r.weights = other.weights = bg_session_weights(r.session);
    other.session = open_session(other_plan, r.weights);
    assert_int_equal(bg_weights_find(r.weights, "w0", &weight, NULL), BG_OK);
    memcpy(before, weight.data, sizeof before);

    begin_run(&first, r.session, &g);
    for (size_t i = 0; i < REFUSAL_COUNT; i++) {
        expect_refusal(&refusals[i], &r,
                       refusals[i].is_of_session ? "another thread uses this session, for a training run"
                                                 : "another thread uses the same weights, for a training run");
        if (refusals[i].is_of_session)
            expect_refusal(&refusals[i], &other,
                           "another thread uses the same weights, for a training run of another session");
    }
    assert_int_equal(bg_session_step(r.session), 0);
    assert_int_equal(bg_weights_count(r.weights), TOY_MOST_STAGES / 2);
    assert_int_equal(bg_session_trace_count(r.session, 0, 0), 0);
    end_run(&first, &g);

    /* Now all valid calls are allowed again. */
    assert_int_equal(bg_session_step(r.session), 1);
    assert_int_equal(run(r.session, NULL), BG_OK);
    assert_int_equal(run(other.session, NULL), BG_OK);
    assert_int_equal(bg_session_set_step(other.session, 9, NULL), BG_OK);
    assert_int_equal(bg_session_step(r.session), 9);
    assert_int_equal(call_find(&r, NULL), BG_OK);
    bg_session_destroy(other.session);
    bg_session_destroy(r.session);
    toy_plan_destroy(other_plan);
    toy_plan_destroy(r.plan);
}

/* An inference run excludes other threads too, and the message names the run. Another thread may use other weights.
 */
static void other_weights_are_not_held_up(void **state)
{
    static gate g;
    rig r = {.plan = make_plan(&g, true)}, apart = {.plan = make_plan(NULL, false)};
    runner first;

    (void)state;
    r.session = open_session(r.plan, NULL);
    apart.session = open_session(apart.plan, NULL);
    begin_run(&first, r.session, &g);
    expect_refusal(&refusals[0], &r, "another thread uses this session, for an inference run");
    assert_int_equal(run(apart.session, NULL), BG_OK);
    assert_int_equal(run(apart.session, NULL), BG_OK);
    assert_int_equal(bg_session_step(apart.session), 2);
    end_run(&first, &g);
    bg_session_destroy(apart.session);
    bg_session_destroy(r.session);
    toy_plan_destroy(apart.plan);
    toy_plan_destroy(r.plan);
}

/* A kernel or callback of a run that uses the run's weights would wait for itself, so the same thread gets an error as
 * well. */
static void a_run_within_a_run_is_refused(void **state)
{
    (void)state;
    for (int is_driven = 0; is_driven < 2; is_driven++) {
        gate *g = calloc(1, sizeof *g);
        bg_plan *plan;
        bg_session *session;
        assert_non_null(g);
        atomic_store(&g->may_end, true);
        plan = make_plan(g, false);
        plan->has_library_ops_only = is_driven != 0;
        session = open_session(plan, NULL);
        g->inner = session;
        assert_int_equal(run(session, NULL), BG_OK);
        assert_int_equal(g->inner_status, BG_ERROR_INVALID);
        assert_non_null(strstr(g->inner_error.message, is_driven != 0
                                                           ? "called within a training run that uses the same weights"
                                                           : "another thread uses this session"));
        bg_session_destroy(session);
        toy_plan_destroy(plan);
        free(g);
    }
}

static void *destroy_session(void *argument)
{
    runner *r = argument;

    bg_session_destroy(r->session);
    atomic_store(&r->is_done, true);
    return NULL;
}

/* The destruction of a session cannot fail, so it waits for the run of another session that shares the weights. */
static void destroying_waits(void **state)
{
    static gate g;
    bg_plan *plan = make_plan(&g, false), *other_plan = make_plan(NULL, true);
    bg_session *session = open_session(plan, NULL), *other = open_session(other_plan, bg_session_weights(session));
    runner first, second = {.session = other};
    uint64_t begin_ns;

    (void)state;
    begin_run(&first, session, &g);
    assert_int_equal(pthread_create(&second.thread, NULL, destroy_session, &second), 0);
    for (begin_ns = bgi_clock_ns(); bgi_clock_ns() - begin_ns < 20000000u;)
        sched_yield();
    assert_false(atomic_load(&second.is_done));
    end_run(&first, &g);
    assert_int_equal(pthread_join(second.thread, NULL), 0);
    assert_true(atomic_load(&second.is_done));
    bg_session_destroy(session);
    toy_plan_destroy(other_plan);
    toy_plan_destroy(plan);
}

/* ---- many threads at once ---- */

typedef struct hammer {
    pthread_t thread;
    bg_session *sessions[2]; /* training, inference */
    uint32_t number, trained, refused;
    const char *failure;
} hammer;

static void *strike(void *argument)
{
    hammer *h = argument;
    bg_weight weight;

    for (uint32_t i = 0; i < HAMMER_CALLS && h->failure == NULL; i++) {
        bg_session *session = h->sessions[(i + h->number) % 2];
        const uint32_t what = (i * 7 + h->number) % 5;
        bg_status status = what < 3    ? run(session, NULL)
                           : what == 3 ? bg_weights_find(bg_session_weights(session), "w0", &weight, NULL)
                                       : bg_session_set_learning_rate(h->sessions[0], 0.01, NULL);
        if (status != BG_OK && status != BG_ERROR_INVALID)
            h->failure = bg_status_name(status);
        h->refused += status == BG_ERROR_INVALID;
        h->trained += status == BG_OK && what < 3 && session == h->sessions[0];
        if (bg_session_step(session) > HAMMERS * HAMMER_CALLS)
            h->failure = "a step count of nonsense";
    }
    return NULL;
}

/* For all combinations of threads, each call either completes or returns an error, and the sessions remain usable. */
static void many_threads_do_no_harm(void **state)
{
    bg_plan *plans[2] = {make_plan(NULL, false), make_plan(NULL, true)};
    bg_session *training = open_session(plans[0], NULL);
    bg_session *inference = open_session(plans[1], bg_session_weights(training));
    hammer hammers[HAMMERS];
    uint32_t trained = 0;

    (void)state;
    for (uint32_t i = 0; i < HAMMERS; i++) {
        hammers[i] = (hammer){.sessions = {training, inference}, .number = i};
        assert_int_equal(pthread_create(&hammers[i].thread, NULL, strike, &hammers[i]), 0);
    }
    for (uint32_t i = 0; i < HAMMERS; i++) {
        assert_int_equal(pthread_join(hammers[i].thread, NULL), 0);
        if (hammers[i].failure != NULL)
            fail_msg("%s", hammers[i].failure);
        trained += hammers[i].trained;
    }
    assert_true(trained > 0);
    assert_int_equal(bg_session_step(training), trained);
    assert_int_equal(run(training, NULL), BG_OK);
    bg_session_destroy(inference);
    bg_session_destroy(training);
    toy_plan_destroy(plans[0]);
    toy_plan_destroy(plans[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_thread_is_refused),    cmocka_unit_test(other_weights_are_not_held_up),
        cmocka_unit_test(a_run_within_a_run_is_refused), cmocka_unit_test(destroying_waits),
        cmocka_unit_test(many_threads_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
