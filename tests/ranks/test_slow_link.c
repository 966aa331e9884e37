/*
 * test_slow_link.c: if a link between two ranks is some milliseconds slower, a report lists it first, and removing the
 * delay gives the predicted gain.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade.h>

#include "core/clock.h"
#include "core/error.h"
#include "profile/analysis.h"
#include "ranks/wrap.h"

enum { WIDTH = 64, MICRO_BATCH = 4, MICRO_BATCHES = 24, RUNS = 3, ATTEMPTS = 4, MOST_HELD = 4096 };
static const uint64_t delay_ns = 4000000;

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* ---- a transport whose operations complete later ---- */

typedef struct slow_link {
    const bg_transport *base;
    struct {
        void *lane, *operation;
        uint64_t ready_ns;
    } held[MOST_HELD];
    uint32_t count;
} slow_link;

static bg_status slow_open(void *user, void **out_lane, bg_error *error)
{
    const slow_link *s = user;

    return s->base->open(s->base->user, out_lane, error);
}

static void slow_close(void *user, void *lane)
{
    slow_link *s = user;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < s->count; i++)
        if (s->held[i].lane != lane)
            s->held[kept++] = s->held[i];
    s->count = kept;
    s->base->close(s->base->user, lane);
}

static bg_status slow_send(void *user, void *lane, uint32_t to, uint32_t tag, const void *data, size_t size_bytes,
                           void *operation, bg_error *error)
{
    const slow_link *s = user;

    return s->base->send(s->base->user, lane, to, tag, data, size_bytes, operation, error);
}

static bg_status slow_receive(void *user, void *lane, uint32_t from, uint32_t tag, void *data, size_t size_bytes,
                              void *operation, bg_error *error)
{
    const slow_link *s = user;

    return s->base->receive(s->base->user, lane, from, tag, data, size_bytes, operation, error);
}

static bg_status slow_poll(void *user, void *lane, void **out_operations, uint32_t most, uint32_t *out_count,
                           bg_error *error)
{
    slow_link *s = user;
    const uint64_t now_ns = bgi_clock_ns();
    void *done[64];
    uint32_t count = 0, kept = 0;

    if (s->count + 64 <= MOST_HELD)
        BGI_TRY(s->base->poll(s->base->user, lane, done, 64, &count, error));
    for (uint32_t i = 0; i < count; i++) {
        s->held[s->count].lane = lane;
        s->held[s->count].operation = done[i];
        s->held[s->count++].ready_ns = now_ns + delay_ns;
    }
    *out_count = 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->held[i].lane == lane && s->held[i].ready_ns <= now_ns && *out_count < most)
            out_operations[(*out_count)++] = s->held[i].operation;
        else
            s->held[kept++] = s->held[i];
    s->count = kept;
    return BG_OK;
}

/* ---- two devices on two ranks ---- */

/* Returns the seconds of the fastest run. Rank 0 gets the insights in `analysis`, and the plan, whose names they use,
 * in *out. */
static double run(bg_transport *transport, bgi_analysis *analysis, bg_plan **out)
{
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH);
    static float input[MICRO_BATCHES * MICRO_BATCH * WIDTH], output[MICRO_BATCHES * MICRO_BATCH * WIDTH];
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    bg_value x;
    double best = 1e9;

    options.execution.device_iterations = MICRO_BATCHES;
    options.execution.cores = 1;
    options.reporting.trace = true;
    options.numerics.initialize_missing = true;
    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &type);
    for (uint32_t b = 0; b < 2; b++) {
        char name[8];
        snprintf(name, sizeof name, "B%u", b + 1);
        bg_block_start(graph, name, b);
        x = bg_linear_layer(graph, name, x, WIDTH, false);
    }
    bg_graph_output(graph, "y", x);
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    plan->options.execution.transport = transport;
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (int i = 0; i < RUNS; i++) {
        const uint64_t start_ns = bgi_clock_ns();
        require(bg_session_run(session, (const void *[]){input}, (void *[]){output}, &error), &error);
        best = (double)(bgi_clock_ns() - start_ns) < best ? (double)(bgi_clock_ns() - start_ns) : best;
    }
    require(bg_session_share_trace(session, 0, &error), &error);
    if (transport->rank == 0) {
        require(bgi_analyze(session, NULL, NULL, analysis, &error), &error);
        assert_int_equal(analysis->rank_count, 2);
        for (uint32_t d = 0; d < 2; d++)
            assert_true(analysis->devices[d].busy_ns > 0.0);
    }
    for (uint32_t i = 0; transport->rank == 0 && i < analysis->insight_count; i++)
        printf("%s: %s\n", analysis->insights[i].id, analysis->insights[i].text);
    bg_session_destroy(session);
    *out = plan;
    return best / 1e9;
}

static void a_slow_link_is_named_first(void **state)
{
    static slow_link state_of_link;
    bg_transport fast = *test_ranks_transport(), slow = fast;
    bgi_analysis analysis;
    bg_plan *plan = NULL;
    double before_s, after_s = 1e9, gain = 0.0;
    char id[16];

    (void)state;
    state_of_link.base = test_ranks_transport();
    slow.user = &state_of_link;
    slow.open = slow_open;
    slow.close = slow_close;
    slow.send = slow_send;
    slow.receive = slow_receive;
    slow.poll = slow_poll;
    before_s = run(&slow, &analysis, &plan);
    if (fast.rank == 0) {
        assert_true(analysis.insight_count > 0);
        snprintf(id, sizeof id, "%s", analysis.insights[0].id);
        gain = analysis.insights[0].gain;
        assert_string_equal(id, "link");
        assert_non_null(strstr(analysis.insights[0].text, "between devices 0 and 1"));
        bgi_analysis_clear(&analysis);
    }
    bg_plan_destroy(plan);
    /* Waits for a slow link do not depend on the load of the machine, but runs over a fast link do. */
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        const double seconds = run(&fast, &analysis, &plan);
        after_s = seconds < after_s ? seconds : after_s;
        if (fast.rank == 0)
            bgi_analysis_clear(&analysis);
        bg_plan_destroy(plan);
    }
    if (fast.rank == 0) {
        printf("promised %.0f %%, gained %.0f %%\n", 100.0 * gain, 100.0 * (before_s / after_s - 1.0));
        assert_true(before_s / after_s - 1.0 >= 0.8 * gain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_link_is_named_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
