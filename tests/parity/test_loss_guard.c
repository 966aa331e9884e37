/*
 * test_loss_guard.c: an update whose loss is infinite or NaN, in any replica or micro-batch, does not change any state
 * under any strategy. Later updates of the same run do not either, and the session continues as if the run had ended
 * before that update. If only a gradient overflows, the loss scale changes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/feed.h>
#include <brigade/ops.h>
#include <brigade/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCUMULATION = 2, REPLICAS = 2, WIDTH = 4, BLOCKS = 3, ITERATIONS = 3 };
enum { PER_UPDATE = ACCUMULATION * REPLICAS, MOST_BYTES = 4096 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* ---- a network of stages: loss = sum of x w0 w1 w2 ---- */

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    uint32_t iterations;
} rig;

static bg_options make_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.device_iterations = ITERATIONS;
    options.execution.wait_limit_s = 60;
    options.replicas.count = REPLICAS;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.guard_loss = true;
    return options;
}

static rig open_rig(const bg_optimizer *optimizer, const bg_options *options)
{
    const bg_initializer ones = {.kind = BG_INITIALIZE_CONSTANT, .a = 1.0};
    const bg_type type = bg_vector(BG_FLOAT32, WIDTH);
    rig r = {.iterations = options->execution.device_iterations};
    bg_error error = {0};
    bg_value y = {0}, loss;
    char name[8];

    require(bg_graph_create(&r.graph, &error), &error);
    for (int b = 0; b < BLOCKS; b++) {
        snprintf(name, sizeof name, "B%d", b + 1);
        bg_block_begin(r.graph, name, BG_DEVICE_NONE);
        if (b == 0)
            y = bg_graph_input(r.graph, "x", &type);
        snprintf(name, sizeof name, "w%d", b);
        y = bg_multiply(r.graph, y, bg_graph_parameter(r.graph, name, &type, &ones));
        if (b < BLOCKS - 1)
            bg_block_end(r.graph);
    }
    loss = bg_reduce(r.graph, "loss", BG_REDUCE_SUM, y, NULL, 0, false);
    bg_block_end(r.graph);
    bg_graph_output(r.graph, "loss", loss);
    require(bg_plan_create_training(r.graph, loss, optimizer, options, &r.plan, &error), &error);
    require(bg_session_create(r.plan, NULL, &r.session, &error), &error);
    return r;
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
}

/* Runs updates from `first` on. The data of micro-batch `bad`, counted over all replicas (UINT32_MAX: no micro-batch),
 * is `value`. */
static bg_status run(rig *r, uint32_t first, uint32_t bad, float value, const double *rates, uint64_t *iterations,
                     bg_error *error)
{
    float x[ITERATIONS * PER_UPDATE][WIDTH], losses[ITERATIONS * PER_UPDATE];
    const void *inputs[] = {x};
    void *outputs[] = {losses, NULL, NULL};
    bg_status status;

    assert_int_equal(bg_session_find_output(r->session, "loss"), 0);
    for (uint32_t m = 0; m < r->iterations * PER_UPDATE; m++)
        for (uint32_t i = 0; i < WIDTH; i++)
            x[m][i] = m == bad ? value : 0.01f * (float)((first * PER_UPDATE + m) % 7 + i);
    status = bg_session_execute(r->session, &(bg_run){.inputs = inputs, .outputs = outputs, .learning_rates = rates},
                                iterations, error);
    if (bad != UINT32_MAX && isinf(value * WIDTH))
        assert_true(isinf(losses[bad]) || isnan(losses[bad]));
    return status;
}

/* Copies parameters, optimizer state and the variables of training, one after the other. */
static size_t copy_all(rig *r, unsigned char to[MOST_BYTES])
{
    bg_weights *weights = bg_session_weights(r->session);
    bg_error error = {0};
    size_t used = 0;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        require(bg_weights_at(weights, i, &weight, &error), &error);
        assert_true(used + bg_type_size_bytes(&weight.type) <= MOST_BYTES);
        memcpy(to + used, weight.data, bg_type_size_bytes(&weight.type));
        used += bg_type_size_bytes(&weight.type);
    }
    return used;
}

static void expect_same(rig *r, rig *other, const char *what)
{
    unsigned char a[MOST_BYTES], b[MOST_BYTES];
    const size_t bytes = copy_all(r, a);

    assert_int_equal(bytes, copy_all(other, b));
    if (memcmp(a, b, bytes) != 0)
        fail_msg("%s: other weights", what);
    assert_int_equal(bg_session_step(r->session), bg_session_step(other->session));
}

/* ---- every strategy ---- */

typedef struct way {
    bg_strategy strategy;
    const char *schedule;
    bool offload, shard, by_rates;
} way;

static const way ways[] = {
    {BG_STRATEGY_PIPELINED, NULL, false, false, true}, {BG_STRATEGY_SINGLE, NULL, false, false, false},
    {BG_STRATEGY_PHASED, NULL, false, true, false},    {BG_STRATEGY_PIPELINED, "zb-h1", false, true, false},
    {BG_STRATEGY_SHARDED, NULL, true, false, false},   {BG_STRATEGY_PIPELINED, "gpipe", true, false, true},
};

static bg_options options_of(const way *w)
{
    bg_options options = make_options();

    options.execution.strategy = w->strategy;
    options.execution.schedule = w->schedule;
    options.memory.offload_optimizer = w->offload;
    options.memory.locations[BG_LOCATION_STATE].sharded = w->shard;
    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        options.memory.locations[k].minimum_elements_sharded = 1;
    return options;
}

/* Makes the same updates one by one, without a guard, up to `end`. */
static void go_on_plainly(rig *plain, uint32_t first, uint32_t end, const double *rates)
{
    bg_error error = {0};

    for (uint32_t u = first; u < end; u++)
        require(run(plain, u, UINT32_MAX, 0.0f, rates != NULL ? &rates[(u - first) % ITERATIONS] : NULL, NULL, &error),
                &error);
}

/* Checks that a run fails at micro-batch `bad`, and that the next run succeeds. */
static void expect_refused(const way *w, const bg_optimizer *optimizer, uint32_t bad, float value)
{
    static const double given[ITERATIONS] = {0.01, 0.02, 0.005};
    const double *rates = w->by_rates ? given : NULL;
    const uint32_t before = bad / PER_UPDATE;
    bg_options options = options_of(w), one = make_options();
    uint64_t iterations = 99;
    bg_error error = {0};
    char text[64];
    rig r = open_rig(optimizer, &options), plain;

    one.numerics.guard_loss = false;
    one.execution.device_iterations = 1;
    plain = open_rig(optimizer, &one);
    assert_int_equal(run(&r, 0, bad, value, rates, &iterations, &error), BG_ERROR_NOT_FINITE);
    snprintf(text, sizeof text, "the loss of weight update %u is infinite or NaN", before + 1);
    if (strstr(error.message, text) != error.message)
        fail_msg("%s", error.message);
    assert_int_equal(iterations, before);
    go_on_plainly(&plain, 0, before, rates);
    expect_same(&r, &plain, "refused");
    require(run(&r, before, UINT32_MAX, 0.0f, rates, &iterations, &error), &error);
    assert_int_equal(iterations, ITERATIONS);
    go_on_plainly(&plain, before, before + ITERATIONS, rates);
    expect_same(&r, &plain, "the run after it");
    close_rig(&plain);
    close_rig(&r);
}

/* The sum of four losses of 1e38 is infinite, but no gradient is. */
static void test_every_strategy(void **state)
{
    const unsigned step = getenv("BRIGADE_TEST_QUICK") != NULL ? 3 : 1;
    bg_optimizer optimizers[] = {bg_sgd(0.05), bg_adamw(0.01)};
    (void)state;

    optimizers[0].momentum = 0.5;
    for (unsigned w = 0; w < sizeof ways / sizeof ways[0]; w += step)
        for (uint32_t bad = w % 2; bad < ITERATIONS * PER_UPDATE; bad += 3)
            expect_refused(&ways[w], &optimizers[bad % 2], bad, bad % 4 == 0 ? NAN : 1e38f);
}

/* With finite losses, the guard does not change results, and no step is left out. */
static void test_finite(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    (void)state;

    for (unsigned w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        bg_options options = options_of(&ways[w]);
        bg_error error = {0};
        rig r = open_rig(&optimizer, &options), plain;

        options.numerics.guard_loss = false;
        plain = open_rig(&optimizer, &options);
        for (uint32_t u = 0; u < 2; u++) {
            require(run(&r, u * ITERATIONS, UINT32_MAX, 0.0f, NULL, NULL, &error), &error);
            require(run(&plain, u * ITERATIONS, UINT32_MAX, 0.0f, NULL, NULL, &error), &error);
        }
        expect_same(&r, &plain, "finite");
        close_rig(&plain);
        close_rig(&r);
    }
}

/* Scaled by 2^60 the gradient of 1e25 overflows, but the loss does not. The update is skipped, the scale falls, and the
 * run continues. An infinite loss does not change the scale. */
static void test_beside_a_loss_scale(void **state)
{
    const bg_optimizer optimizer = bg_adam(0.01);
    bg_options options = make_options();
    unsigned char before[MOST_BYTES], after[MOST_BYTES];
    uint64_t iterations;
    bg_error error = {0};
    bg_weight scale;
    size_t bytes;
    rig r;
    (void)state;

    options.execution.device_iterations = 1;
    options.numerics.auto_loss_scaling.enabled = true;
    options.numerics.auto_loss_scaling.period = 1000;
    options.numerics.loss_scaling = 0x1p60;
    options.numerics.auto_loss_scaling.maximum = 0x1p60;
    r = open_rig(&optimizer, &options);
    require(run(&r, 0, 1, 1e25f, NULL, &iterations, &error), &error);
    assert_int_equal(iterations, 1);
    require(bg_weights_find(bg_session_weights(r.session), "loss.scale", &scale, &error), &error);
    assert_true(*(const float *)scale.data == 0x1p59f);
    bytes = copy_all(&r, before);
    assert_int_equal(run(&r, 1, 2, 1e38f, NULL, &iterations, &error), BG_ERROR_NOT_FINITE);
    assert_int_equal(copy_all(&r, after), bytes);
    assert_memory_equal(after, before, bytes);
    assert_int_equal(bg_session_step(r.session), 1);
    require(run(&r, 1, UINT32_MAX, 0.0f, NULL, &iterations, &error), &error);
    copy_all(&r, after);
    assert_true(memcmp(after, before, bytes) != 0);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_strategy), cmocka_unit_test(test_finite),
                                       cmocka_unit_test(test_beside_a_loss_scale)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
