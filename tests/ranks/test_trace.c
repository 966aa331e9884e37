/*
 * test_trace.c: two ranks write one trace on one clock. Messages arrive after they were sent, and a reduction over the
 * ranks runs while another device computes a backward pass. A rank with a single thread continues its sums between the
 * calls of a backward pass.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade.h>

#include "core/file.h"
#include "plan/plan.h"
#include "ranks/wrap.h"
#include "runtime/session.h"
#include "support/folder.h"

enum { WIDTH = 512, MICRO_BATCH = 16, ACCUMULATION = 4, ITERATIONS = 20, STAGES = 2, REPLICAS = 2, TRACED_RUNS = 8 };
static const uint64_t skew_ns = 100000000000u,
                      slack_ns = 1000000u; /* longer than the delay of a message on a busy machine */

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
} rig;

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static void open_rig(rig *r, bg_transport *transport)
{
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_value x;

    require(bg_graph_create(&r->graph, &error), &error);
    x = bg_graph_input(r->graph, "x", &type);
    for (uint32_t b = 0; b < STAGES; b++) {
        char name[8];
        snprintf(name, sizeof name, "B%u", b + 1);
        bg_block_start(r->graph, name, b);
        x = bg_linear_layer(r->graph, name, x, WIDTH, false);
    }
    x = bg_reduce(r->graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.device_iterations = ITERATIONS;
    options.execution.cores = 1;
    options.replicas.count = REPLICAS;
    options.reporting.trace = true;
    require(bg_plan_create_training(r->graph, x, &optimizer, &options, &r->plan, &error), &error);
    r->plan->options.execution.transport = transport;
    require(bg_session_create(r->plan, NULL, &r->session, &error), &error);
}

static void run(rig *r)
{
    void *outputs[4] = {0};
    bg_error error = {0};
    bg_stream stream;
    float *x;

    require(bg_session_input(r->session, 0, &stream, &error), &error);
    x = malloc(stream.size_bytes);
    assert_non_null(x);
    for (size_t i = 0; i < stream.size_bytes / sizeof *x; i++)
        x[i] = (float)(i % 17) * 0.01F;
    require(bg_session_run(r->session, (const void *[]){x}, outputs, &error), &error);
    free(x);
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
}

static uint32_t own_rank(void)
{
    return test_ranks_transport()->rank;
}

/* ---- all events, of all devices ---- */

typedef struct events {
    bg_trace_event *all;
    uint32_t count;
} events;

static events read_events(const rig *r)
{
    events e = {0};
    bg_error error = {0};

    for (uint32_t d = 0; d < REPLICAS * STAGES; d++)
        e.count += bg_session_trace_count(r->session, d / STAGES, d % STAGES);
    e.all = calloc(e.count, sizeof *e.all);
    assert_non_null(e.all);
    e.count = 0;
    for (uint32_t d = 0; d < REPLICAS * STAGES; d++) {
        const uint32_t count = bg_session_trace_count(r->session, d / STAGES, d % STAGES);
        for (uint32_t i = 0; i < count; i++) {
            bg_trace_event *event = &e.all[e.count++];
            require(bg_session_trace_event(r->session, d / STAGES, d % STAGES, i, event, &error), &error);
            assert_int_equal(event->replica, d / STAGES);
            assert_int_equal(event->device, d % STAGES);
            assert_true(event->start_ns <= event->end_ns);
        }
    }
    return e;
}

static bool is_one_message(const bg_trace_event *send, const bg_trace_event *receive)
{
    return receive->action.kind == BG_ACTION_RECEIVE && send->replica == receive->replica &&
           send->action.index == receive->action.index && send->step == receive->step &&
           send->action.micro_batch == receive->action.micro_batch;
}

/* Checks that no message arrives before it has left; returns the number of messages. */
static uint32_t check_messages(const events *e)
{
    uint32_t messages = 0;

    for (uint32_t s = 0; s < e->count; s++)
        for (uint32_t i = 0; e->all[s].action.kind == BG_ACTION_SEND && i < e->count; i++) {
            if (!is_one_message(&e->all[s], &e->all[i]))
                continue;
            messages++;
            if (e->all[i].end_ns + slack_ns < e->all[s].start_ns || e->all[i].end_ns > e->all[s].start_ns + skew_ns / 2)
                fail_msg("a message that left at %llu ns came at %llu", (unsigned long long)e->all[s].start_ns,
                         (unsigned long long)e->all[i].end_ns);
        }
    return messages;
}

static bool is_backward(const bg_trace_event *event)
{
    return event->action.kind == BG_ACTION_BACKWARD || event->action.kind == BG_ACTION_WEIGHTS;
}

/* Counts reductions during which a device of another rank computes a backward. */
static uint32_t count_overlaps(const events *e, const uint32_t *owners)
{
    uint32_t found = 0;

    for (uint32_t r = 0; r < e->count; r++) {
        const bg_trace_event *reduce = &e->all[r];
        bool overlaps = false;
        for (uint32_t i = 0; reduce->action.kind == BG_ACTION_REDUCE && i < e->count && !overlaps; i++) {
            const bg_trace_event *other = &e->all[i];
            overlaps =
                is_backward(other) && other->start_ns < reduce->end_ns && reduce->start_ns < other->end_ns &&
                owners[other->replica * STAGES + other->device] != owners[reduce->replica * STAGES + reduce->device];
        }
        found += overlaps;
    }
    return found;
}

/* ---- one trace of two ranks ---- */

/* Shares a run between ranks. With `hosts`, the ranks pretend to be on two hosts, whose clocks are compared by
 * messages. Stages, and replicas of a stage, are on different ranks. */
static void share(const uint32_t *hosts)
{
    bg_transport transport = *test_ranks_transport();
    const uint32_t per_device = ITERATIONS * ACCUMULATION;
    bg_error error = {0};
    uint32_t overlaps = 0;
    events e;
    rig r;

    transport.hosts = hosts;
    open_rig(&r, &transport);
    /* Shifts the start of rank 1 relative to that of rank 0, by skew_ns or three times as much. */
    if (own_rank() == 1)
        r.session->engine->created_ns -= (hosts == NULL ? 1 : 3) * skew_ns;
    run(&r);
    e = read_events(&r); /* events of this rank's devices */
    for (uint32_t i = 0; i < e.count; i++)
        assert_int_equal(r.session->owners[e.all[i].replica * STAGES + e.all[i].device], own_rank());
    free(e.all);
    require(bg_session_share_trace(r.session, 0, &error), &error);
    e = read_events(&r);
    if (own_rank() == 0) {
        for (uint32_t d = 0; d < REPLICAS * STAGES; d++)
            assert_true(bg_session_trace_count(r.session, d / STAGES, d % STAGES) > 2 * per_device);
        assert_int_equal(check_messages(&e), 2 * REPLICAS * per_device);
    }
    free(e.all);
    /* On a busy machine, ranks often run one after the other. */
    for (int look = 0; look < TRACED_RUNS; look++) {
        run(&r);
        require(bg_session_share_trace(r.session, 0, &error), &error);
        e = read_events(&r);
        if (own_rank() == 0)
            overlaps += count_overlaps(&e, r.session->owners);
        free(e.all);
    }
    printf("%u reductions overlap a backward of the other rank\n", overlaps);
    assert_true(own_rank() > 0 || overlaps > 0);
    run(&r); /* shared events are dropped */
    for (uint32_t d = 0; d < REPLICAS * STAGES; d++)
        if (r.session->owners[d] != own_rank())
            assert_int_equal(bg_session_trace_count(r.session, d / STAGES, d % STAGES), 0);
    close_rig(&r);
}

static void two_ranks_have_one_clock(void **state)
{
    (void)state;
    share(NULL);
}

static void clocks_of_hosts_are_compared(void **state)
{
    static const uint32_t hosts[] = {0, 1};

    (void)state;
    share(hosts);
}

/* Both ranks' devices are in the file. */
static void one_rank_writes_the_trace_of_all(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 16], *text = NULL;
    const char *const slices[] = {"\"cat\":\"B\",\"pid\":0,\"tid\":0", "\"cat\":\"B\",\"pid\":0,\"tid\":1",
                                  "\"cat\":\"B\",\"pid\":1,\"tid\":0", "\"cat\":\"B\",\"pid\":1,\"tid\":1"};
    bg_error error = {0};
    size_t size = 0;
    rig r;

    (void)state;
    open_rig(&r, test_ranks_transport());
    run(&r);
    assert_int_equal(bg_session_share_trace(r.session, 2, &error), BG_ERROR_INVALID);
    assert_string_equal(error.message, "bg_session_share_trace: rank is 2 but must be below 2");
    require(bg_session_share_trace(r.session, 1, &error), &error);
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/trace.json", folder);
    if (own_rank() == 1) {
        require(bg_profile_write_trace(r.session, r.plan, path, &error), &error);
        require(bgi_file_load(path, 1 << 26, &text, &size, &error), &error);
        for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++)
            if (strstr(text, slices[i]) == NULL)
                fail_msg("no %s", slices[i]);
        free(text);
    }
    test_folder_remove(folder);
    close_rig(&r);
}

/* ---- a rank with one thread ---- */

enum { LAYERS = 8, LOOKS = 12 };

static void open_single_stage(rig *r)
{
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_value x;

    require(bg_graph_create(&r->graph, &error), &error);
    x = bg_graph_input(r->graph, "x", &type);
    for (uint32_t i = 0; i < LAYERS; i++) {
        char name[8];
        snprintf(name, sizeof name, "L%u", i + 1);
        x = bg_linear_layer(r->graph, name, x, WIDTH, false);
    }
    x = bg_reduce(r->graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.cores = 1;
    options.execution.io_threads = 0;
    options.execution.transport = (bg_transport *)test_ranks_transport();
    options.replicas.count = REPLICAS;
    options.replicas.reduce_bytes = WIDTH * WIDTH * sizeof(float);
    options.reporting.trace = true;
    require(bg_plan_create_training(r->graph, x, &optimizer, &options, &r->plan, &error), &error);
    require(bg_session_create(r->plan, NULL, &r->session, &error), &error);
}

/* Returns whether the sum ran during a backward action. The rank has one thread, so the sum ran between two calls of
 * this action. */
static bool is_within_a_backward(const rig *r, const bg_trace_event *sum)
{
    for (uint32_t i = 0; i < bg_session_trace_count(r->session, own_rank(), 0); i++) {
        bg_trace_event event;
        bg_error error = {0};
        require(bg_session_trace_event(r->session, own_rank(), 0, i, &event, &error), &error);
        if (is_backward(&event) && event.start_ns < sum->start_ns && sum->end_ns < event.end_ns)
            return true;
    }
    return false;
}

static uint32_t count_sums_within(const rig *r)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < bg_session_trace_count(r->session, own_rank(), 0); i++) {
        bg_trace_event event;
        bg_error error = {0};
        require(bg_session_trace_event(r->session, own_rank(), 0, i, &event, &error), &error);
        found += event.action.kind == BG_ACTION_REDUCE && event.is_beside && is_within_a_backward(r, &event);
    }
    return found;
}

/* The number of runs is fixed, because both ranks have to make the same number. */
static void one_thread_sums_between_calls(void **state)
{
    uint32_t found = 0;
    rig r;

    (void)state;
    open_single_stage(&r);
    for (int look = 0; look < LOOKS; look++) {
        run(&r);
        found += count_sums_within(&r);
    }
    printf("%u sums within a backward in %d runs\n", found, LOOKS);
    assert_true(found > 0);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_sums_between_calls),
        cmocka_unit_test(two_ranks_have_one_clock),
        cmocka_unit_test(clocks_of_hosts_are_compared),
        cmocka_unit_test(one_rank_writes_the_trace_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
