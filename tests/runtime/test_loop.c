/*
 * test_loop.c: tests loops on the devices: carried values, conditions, nested loops, and errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <brigade.h>

typedef struct rig {
    bg_graph *body, *condition;
    bg_plan *plan;
    bg_session *session;
    bg_error error;
} rig;

static const bg_type scalar = {.dtype = BG_FLOAT32};

static void open_body(rig *r)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(bg_graph_create(&r->body, &r->error), BG_OK);
}

/* Makes a graph that returns whether its input is below `limit`. */
static bg_graph *make_condition(double limit)
{
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_output(graph, "goes_on", bg_scale(graph, NULL, bg_graph_input(graph, "n", &scalar), -1, limit));
    return graph;
}

static void compile(rig *r, const bg_loop *loop, const char *stages, uint32_t replicas)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = stages == NULL ? BG_STRATEGY_SINGLE : BG_STRATEGY_PIPELINED;
    options.execution.stages = stages;
    options.replicas.count = replicas;
    options.execution.cores = 2;
    options.execution.wait_limit_s = 20.0;
    if (bg_plan_create_loop(r->body, loop, &options, &r->plan, &r->error) != BG_OK ||
        bg_session_create(r->plan, NULL, &r->session, &r->error) != BG_OK)
        fail_msg("%s", r->error.message);
}

static uint64_t execute(rig *r, const bg_run *run)
{
    uint64_t iterations = 0;

    if (bg_session_execute(r->session, run, &iterations, &r->error) != BG_OK)
        fail_msg("%s", r->error.message);
    return iterations;
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->condition);
    bg_graph_destroy(r->body);
}

/* ---- repeat ---- */

static void a_counter_counts(void **state)
{
    static const uint64_t counts[] = {0, 1, 2, 10, 1000};

    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const float first = 5.0f;
        float last = -1.0f;
        bg_value n, next;
        rig r;
        open_body(&r);
        n = bg_graph_input(r.body, "n", &scalar);
        next = bg_scale(r.body, NULL, n, 1, 1);
        const bg_loop loop = bg_repeat(counts[c], &n, &next, 1);
        compile(&r, &loop, NULL, 1);
        const bg_run from_zero = {.carried_out = (void *[]){&last}};
        const bg_run from_five = {.carried_in = (const void *[]){&first}, .carried_out = (void *[]){&last}};
        for (int run = 0; run < 2; run++) { /* no state remains from the first run */
            assert_int_equal(execute(&r, &from_zero), counts[c]);
            assert_true(last == (float)counts[c]);
        }
        execute(&r, &from_five);
        assert_true(last == 5.0f + (float)counts[c]);
        close_rig(&r);
    }
}

/* All carried values change at the same time, as in Fibonacci numbers and in an exchange of two values. */
static void values_change_together(void **state)
{
    const float first[] = {0.0f, 1.0f};
    float last[2];
    bg_value carried[2], results[2];
    rig r;

    (void)state;
    open_body(&r);
    carried[0] = bg_graph_input(r.body, "a", &scalar);
    carried[1] = bg_graph_input(r.body, "b", &scalar);
    results[0] = carried[1];
    results[1] = bg_add(r.body, carried[0], carried[1]);
    const bg_loop fibonacci = bg_repeat(20, carried, results, 2);
    compile(&r, &fibonacci, NULL, 1);
    const bg_run run = {.carried_in = (const void *[]){&first[0], &first[1]},
                        .carried_out = (void *[]){&last[0], &last[1]}};
    execute(&r, &run);
    assert_true(last[0] == 6765.0f && last[1] == 10946.0f);
    bg_session_destroy(r.session);
    bg_plan_destroy(r.plan);
    results[1] = bg_reshape(r.body, NULL, carried[0], 0, NULL); /* another name for the same bytes */
    const bg_loop exchange = bg_repeat(3, carried, results, 2);
    compile(&r, &exchange, NULL, 1);
    execute(&r, &run);
    assert_true(last[0] == 1.0f && last[1] == 0.0f);
    close_rig(&r);
}

/* Each replica has its own values; stages are on different devices; the result depends on the infeed's data. */
static void replicas_and_stages_carry(void **state)
{
    static const char *const stages[] = {NULL, "B1|B2"};
    float data[6][2] = {{0}}, last[2], y[2];

    (void)state;
    for (int i = 0; i < 12; i++)
        data[i / 2][i % 2] = (float)(i + 1);
    for (size_t s = 0; s < 2; s++) {
        bg_value sum, next, x;
        rig r;
        open_body(&r);
        sum = bg_graph_input(r.body, "sum", &scalar);
        x = bg_graph_input(r.body, "x", &scalar);
        bg_block_start(r.body, "B1", BG_DEVICE_NONE);
        next = bg_add(r.body, sum, x);
        bg_block_start(r.body, "B2", BG_DEVICE_NONE);
        bg_graph_output(r.body, "y", bg_scale(r.body, NULL, next, 10, 0));
        const bg_loop loop = bg_repeat(6, &sum, &next, 1);
        compile(&r, &loop, stages[s], 2);
        const bg_run run = {
            .inputs = (const void *[]){data}, .outputs = (void *[]){y}, .carried_out = (void *[]){last}};
        assert_int_equal(execute(&r, &run), 6);
        assert_true(last[0] == 1 + 3 + 5 + 7 + 9 + 11 && last[1] == 2 + 4 + 6 + 8 + 10 + 12);
        assert_true(y[0] == 10 * last[0] && y[1] == 10 * last[1]); /* default: final */
        close_rig(&r);
    }
}

/* ---- while ---- */

static void a_condition_ends_the_loop(void **state)
{
    static const struct {
        float first;
        uint64_t most, iterations;
    } wanted[] = {{0, 1000, 7}, {6, 1000, 1}, {7, 1000, 0}, {100, 1000, 0}, {0, 3, 3}, {-3, UINT64_MAX, 10}};

    (void)state;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            float last[2] = {-1, -1};
            bg_value n, next;
            rig r;
            open_body(&r);
            r.condition = make_condition(7);
            n = bg_graph_input(r.body, "n", &scalar);
            next = bg_scale(r.body, NULL, n, 1, 1);
            const bg_loop loop = bg_while(r.condition, wanted[i].most, &n, &next, 1);
            compile(&r, &loop, NULL, replicas);
            const bg_run run = {.carried_in = (const void *[]){&wanted[i].first}, .carried_out = (void *[]){last}};
            /* A run may request fewer iterations than the loop's maximum, but not more. */
            const bg_run longer = {.carried_in = run.carried_in, .carried_out = run.carried_out, .iterations = 5000};
            for (int again = 0; again < 3; again++) {
                assert_int_equal(execute(&r, again < 2 ? &run : &longer), wanted[i].iterations);
                for (uint32_t replica = 0; replica < replicas; replica++)
                    assert_true(last[replica] == wanted[i].first + (float)wanted[i].iterations);
            }
            close_rig(&r);
        }
}

/* The loop is endless until a value of the body ends it. */
static void a_value_of_the_body_ends_the_loop(void **state)
{
    float last = 0;
    bg_value n, next;
    rig r;

    (void)state;
    open_body(&r);
    n = bg_graph_input(r.body, "n", &scalar);
    next = bg_scale(r.body, NULL, n, 1, 1);
    bg_graph_output(r.body, "enough", bg_scale(r.body, NULL, next, 1, -41)); /* the value is above 0 from 42 on */
    const bg_loop loop = bg_repeat(BG_ENDLESS, &n, &next, 1);
    compile(&r, &loop, NULL, 1);
    const bg_run run = {.carried_out = (void *[]){&last}, .stop = "enough"};
    assert_int_equal(execute(&r, &run), 42);
    assert_true(last == 42.0f);
    close_rig(&r);
}

/* ---- integers ---- */

/* Makes the condition of a loop over `count` values: it compares carried value `of` with `number`. */
static bg_graph *make_comparison(const bg_type *types, uint32_t count, uint32_t of, bg_comparison comparison,
                                 const void *number)
{
    bg_graph *graph = NULL;
    bg_value values[4];

    assert_in_range(count, 1, 4);
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    for (uint32_t i = 0; i < count; i++)
        values[i] = bg_graph_input(graph, (const char *[]){"a", "b", "c", "d"}[i], &types[i]);
    bg_graph_output(
        graph, "goes_on",
        bg_compare(graph, NULL, comparison, values[of], bg_graph_constant(graph, "limit", &types[of], number)));
    return graph;
}

/* Runs the first loop of TensorFlow's chapter for IPUs, which increments an int32 counter in ten iterations. */
static void an_integer_counts(void **state)
{
    const bg_type int32 = bg_scalar(BG_INT32);
    const int32_t one = 1, high = INT32_MAX - 3;
    int32_t last = -1;
    bg_value n, next;
    rig r;

    (void)state;
    open_body(&r);
    n = bg_graph_input(r.body, "n", &int32);
    next = bg_add(r.body, n, bg_graph_constant(r.body, "one", &int32, &one));
    const bg_loop loop = bg_repeat(10, &n, &next, 1);
    compile(&r, &loop, NULL, 1);
    execute(&r, &(bg_run){.carried_out = (void *[]){&last}});
    assert_int_equal(last, 10);
    execute(&r, &(bg_run){.carried_in = (const void *[]){&high}, .carried_out = (void *[]){&last}});
    assert_int_equal(last, INT32_MIN + 6); /* the sum wraps around */
    close_rig(&r);
}

/* Every comparison can end a loop over int32, and a loop over int64 with values that are equal as doubles. */
static void comparisons_end_the_loop(void **state)
{
    static const int64_t base = ((int64_t)1 << 60) + 1;
    static const struct {
        bg_comparison comparison;
        int64_t first, step, limit; /* for int64, `base` is added to `first` and `limit` */
        uint64_t iterations;
    } cases[] = {{BG_LESS, 0, 1, 7, 7},     {BG_LESS, 7, 1, 7, 0},           {BG_LESS_EQUAL, 0, 1, 7, 8},
                 {BG_GREATER, 9, -2, 2, 4}, {BG_GREATER_EQUAL, 9, -2, 1, 5}, {BG_NOT_EQUAL, -3, 3, 9, 4},
                 {BG_EQUAL, 5, 1, 5, 1}};

    (void)state;
    for (size_t c = 0; c < 2 * sizeof cases / sizeof cases[0]; c++) {
        const bool is_wide = c % 2;
        const bg_type type = bg_scalar(is_wide ? BG_INT64 : BG_INT32);
        const int64_t from = is_wide ? base : 0;
        const int64_t wide[] = {from + cases[c / 2].first, cases[c / 2].step, from + cases[c / 2].limit};
        const int32_t narrow[] = {(int32_t)wide[0], (int32_t)wide[1], (int32_t)wide[2]};
        const void *const numbers[] = {is_wide ? (const void *)&wide[0] : &narrow[0],
                                       is_wide ? (const void *)&wide[1] : &narrow[1],
                                       is_wide ? (const void *)&wide[2] : &narrow[2]};
        int64_t last_wide = -1;
        int32_t last = -1;
        bg_value n, next;
        rig r;
        open_body(&r);
        r.condition = make_comparison(&type, 1, 0, cases[c / 2].comparison, numbers[2]);
        n = bg_graph_input(r.body, "n", &type);
        next = bg_add(r.body, n, bg_graph_constant(r.body, "step", &type, numbers[1]));
        const bg_loop loop = bg_while(r.condition, 100, &n, &next, 1);
        compile(&r, &loop, NULL, 1);
        const bg_run run = {.carried_in = &numbers[0],
                            .carried_out = (void *[]){is_wide ? (void *)&last_wide : (void *)&last}};
        assert_int_equal(execute(&r, &run), cases[c / 2].iterations);
        assert_int_equal(is_wide ? last_wide : last, wide[0] + (int64_t)cases[c / 2].iterations * wide[1]);
        close_rig(&r);
    }
}

/*
 * Carried values are n, an int32 counter; total, an int64 to which even n are added; and the largest x so far. One
 * stage has n and total, the other stage the largest x. The loop runs from total = base while total < base + 12, that
 * is for n = 0 .. 6. Every strategy gives the same results.
 */
static void integers_count_under_every_strategy(void **state)
{
    enum { MOST = 50 };
    static const struct {
        bg_strategy strategy;
        const char *stages, *schedule;
    } ways[] = {{BG_STRATEGY_SINGLE, NULL, NULL},
                {BG_STRATEGY_SHARDED, "B1|B2", NULL},
                {BG_STRATEGY_PIPELINED, "B1|B2", "grouped"},
                {BG_STRATEGY_PIPELINED, "B1|B2", "interleaved"},
                {BG_STRATEGY_PIPELINED, "B1|B2", "sequential"},
                {BG_STRATEGY_PHASED, "B1|B2", NULL}};
    const bg_type int32 = bg_scalar(BG_INT32), int64 = bg_scalar(BG_INT64);
    const bg_type types[] = {int32, int64, scalar};
    const int64_t base = ((int64_t)1 << 60) + 1, limit = base + 12;
    const int32_t one = 1, two = 2, zero = 0;
    const float least = -100.0f;
    const float x[2 * MOST] = {3, 1, -5, 2, 4, 9, 9.5f, 0, 2, 30, -7, 8, 1, 11, 99, 99}; /* 99 is after the end */

    (void)state;
    for (size_t w = 0; w < 2 * sizeof ways / sizeof ways[0]; w++) {
        const uint32_t replicas = 1 + w % 2;
        bg_options options = bg_options_defaults();
        bg_value carried[3], results[3], half, is_even, now;
        int32_t n[2] = {-1, -1};
        int64_t total[2] = {-1, -1}, evens[2] = {-1, -1}, beyond[2] = {-7, -7};
        float largest[2] = {0};
        rig r;
        open_body(&r);
        r.condition = make_comparison(types, 3, 1, BG_LESS, &limit);
        for (uint32_t i = 0; i < 3; i++)
            carried[i] = bg_graph_input(r.body, (const char *[]){"n", "total", "largest"}[i], &types[i]);
        now = bg_graph_input(r.body, "x", &scalar);
        bg_block_start(r.body, "B1", BG_DEVICE_NONE);
        half = bg_elementwise_binary(r.body, "half", BG_DIVIDE, carried[0],
                                     bg_graph_constant(r.body, "two", &int32, &two));
        is_even = bg_compare(r.body, "is_even", BG_EQUAL, carried[0], bg_add(r.body, half, half));
        results[1] = bg_add(
            r.body, carried[1],
            bg_cast(r.body, NULL,
                    bg_where(r.body, NULL, is_even, carried[0], bg_graph_constant(r.body, "zero", &int32, &zero)),
                    BG_INT64));
        results[0] = bg_add(r.body, carried[0], bg_graph_constant(r.body, "one", &int32, &one));
        bg_block_start(r.body, "B2", BG_DEVICE_NONE);
        results[2] = bg_where(r.body, NULL, bg_compare(r.body, NULL, BG_GREATER, now, carried[2]), now, carried[2]);
        bg_graph_output(r.body, "evens", results[1]);
        const bg_loop loop = bg_while(r.condition, MOST, carried, results, 3);
        options.execution.strategy = ways[w / 2].strategy;
        options.execution.stages = ways[w / 2].stages;
        if (ways[w / 2].schedule != NULL)
            options.execution.schedule = ways[w / 2].schedule;
        options.replicas.count = replicas;
        options.execution.cores = 2;
        options.execution.wait_limit_s = 20.0;
        if (bg_plan_create_loop(r.body, &loop, &options, &r.plan, &r.error) != BG_OK ||
            bg_session_create(r.plan, NULL, &r.session, &r.error) != BG_OK)
            fail_msg("way %zu: %s", w, r.error.message);
        /* The condition is not among the outputs that a caller gets. */
        assert_int_equal(bg_session_output_count(r.session), 1);
        const bg_run run = {.inputs = (const void *[]){x},
                            .outputs = (void *[]){evens, beyond},
                            .carried_in = (const void *[]){&zero, &base, &least},
                            .carried_out = (void *[]){n, total, largest}};
        for (int again = 0; again < 2; again++) {
            assert_int_equal(execute(&r, &run), 7);
            for (uint32_t replica = 0; replica < replicas; replica++) {
                assert_int_equal(n[replica], 7);
                assert_int_equal(total[replica], base + 12);
                assert_int_equal(evens[replica], base + 12);
            }
            assert_true(beyond[0] == -7 && beyond[1] == -7);
            assert_true(largest[0] == 9.5f);
            assert_true(replicas == 1 || largest[1] == 30.0f);
        }
        close_rig(&r);
    }
}

/* A loop in a graph also counts in int64. */
static void integers_count_inside_graphs(void **state)
{
    const bg_type int64 = bg_scalar(BG_INT64);
    const int64_t one = 1, first = ((int64_t)1 << 53) + 1, limit = first + 9;
    bg_graph *inner = NULL;
    int64_t last = 0;
    bg_value n, next, result;
    rig r;

    (void)state;
    open_body(&r);
    assert_int_equal(bg_graph_create(&inner, NULL), BG_OK);
    n = bg_graph_input(inner, "n", &int64);
    next = bg_add(inner, n, bg_graph_constant(inner, "one", &int64, &one));
    r.condition = make_comparison(&int64, 1, 0, BG_LESS, &limit);
    const bg_loop counting = bg_while(r.condition, 100, &n, &next, 1);
    n = bg_graph_input(r.body, "n", &int64);
    bg_graph_loop(r.body, NULL, inner, &counting, &n, 1, &result);
    const bg_loop once = bg_repeat(1, &n, &result, 1);
    compile(&r, &once, NULL, 1);
    execute(&r, &(bg_run){.carried_in = (const void *[]){&first}, .carried_out = (void *[]){&last}});
    assert_int_equal(last, limit);
    close_rig(&r);
    bg_graph_destroy(inner);
}

/* ---- loops in loops ---- */

/* The outer loop adds the inner loop's result to total, 5 times. The inner loop doubles n while n < limit, at most 100
 * times: 1, 2, 4, 8. */
static void loops_nest(void **state)
{
    bg_graph *inner = NULL, *innermost = NULL, *condition = make_condition(8);
    bg_value n, next, k, result, total, one, sum;
    float last = 0;
    rig r;

    (void)state;
    /* the innermost loop doubles k as k + step with a given step, twice with step = k / 2 */
    assert_int_equal(bg_graph_create(&innermost, NULL), BG_OK);
    k = bg_graph_input(innermost, "k", &scalar);
    sum = bg_add(innermost, k, bg_graph_input(innermost, "step", &scalar));
    const bg_loop twice = bg_repeat(2, &k, &sum, 1);
    assert_int_equal(bg_graph_create(&inner, NULL), BG_OK);
    n = bg_graph_input(inner, "n", &scalar);
    bg_graph_loop(inner, NULL, innermost, &twice, (bg_value[]){n, bg_scale(inner, NULL, n, 0.5, 0)}, 2, &next);
    const bg_loop doubling = bg_while(condition, 100, &n, &next, 1);
    open_body(&r);
    total = bg_graph_input(r.body, "total", &scalar);
    one = bg_graph_constant(r.body, "one", &scalar, &(float){1.0f});
    bg_graph_loop(r.body, "doubling", inner, &doubling, &one, 1, &result);
    sum = bg_add(r.body, total, result);
    const bg_loop outer = bg_repeat(5, &total, &sum, 1);
    compile(&r, &outer, NULL, 1);
    const bg_run run = {.carried_out = (void *[]){&last}};
    execute(&r, &run);
    assert_true(last == 40.0f); /* 1 -> 2 -> 4 -> 8, five times */
    close_rig(&r);
    bg_graph_destroy(inner);
    bg_graph_destroy(innermost);
    bg_graph_destroy(condition);
}

/* ---- kernels that prepare ---- */

/* Prepares a call of an op whose two parts add the prepared values: y = x + x + 1. */
static void prepare_twice_and_one(const bg_kernel_call *call)
{
    float *sums = call->scratch;

    sums[0] = *(const float *)call->operands[0];
    sums[1] = sums[2] = -1.0f;
}

static void run_twice_and_one(const bg_kernel_call *call, uint32_t part)
{
    float *sums = call->scratch;

    sums[1 + part] = sums[0] + (float)part;
}

static void finish_twice_and_one(const bg_kernel_call *call)
{
    const float *sums = call->scratch;

    *(float *)call->operands[1] = sums[1] + sums[2];
}

static bg_status infer_twice_and_one(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status choose_twice_and_one(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out,
                                      bg_error *error)
{
    (void)op, (void)policy, (void)error;
    *out = (bg_kernel){.name = "twice_and_one",
                       .prepare = prepare_twice_and_one,
                       .run = run_twice_and_one,
                       .finish = finish_twice_and_one,
                       .part_count = 2,
                       .scratch_bytes = 3 * sizeof(float)};
    return BG_OK;
}

/* A loop on the devices and a loop inside an op's kernel both prepare each call of the body. */
static void kernels_of_bodies_prepare(void **state)
{
    static const bg_op_type twice_and_one = {
        BG_OP_TYPE_DEFAULTS, .name = "twice_and_one",      .minimum_inputs = 1,           .maximum_inputs = 1,
        .output_count = 1,   .infer = infer_twice_and_one, .kernel = choose_twice_and_one};
    const float first = 1.0f;
    float last = 0.0f;
    bg_graph *inner = NULL;
    bg_value n, next;
    rig r;

    (void)state;
    open_body(&r);
    assert_int_equal(bg_graph_create(&inner, NULL), BG_OK);
    n = bg_graph_input(inner, "n", &scalar);
    next = bg_graph_add(inner, &twice_and_one, NULL, &n, 1, NULL, NULL);
    const bg_loop inside = bg_repeat(3, &n, &next, 1);
    n = bg_graph_input(r.body, "n", &scalar);
    bg_graph_loop(r.body, NULL, inner, &inside, &n, 1, &next);
    next = bg_graph_add(r.body, &twice_and_one, NULL, &next, 1, NULL, NULL);
    const bg_loop loop = bg_repeat(2, &n, &next, 1);
    compile(&r, &loop, NULL, 1);
    execute(&r, &(bg_run){.carried_in = (const void *[]){&first}, .carried_out = (void *[]){&last}});
    assert_true(last == 511.0f); /* 2^9 - 1 after eight iterations */
    close_rig(&r);
    bg_graph_destroy(inner);
}

/* ---- errors ---- */

static void expect_refused(rig *r, const bg_loop *loop, bg_status status, const char *wanted)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_SINGLE;
    bg_error_clear(&r->error);
    assert_int_equal(bg_plan_create_loop(r->body, loop, &options, &r->plan, &r->error), status);
    if (strstr(r->error.message, wanted) == NULL)
        fail_msg("%s", r->error.message);
}

static void wrong_loops_are_refused(void **state)
{
    const bg_type wide = bg_vector(BG_FLOAT32, 3);
    bg_graph *other = make_condition(1), *integers;
    bg_value n, next, x, none = {0};
    bg_loop loop;
    rig r;

    (void)state;
    open_body(&r);
    n = bg_graph_input(r.body, "n", &scalar);
    x = bg_graph_input(r.body, "x", &wide);
    next = bg_scale(r.body, NULL, n, 1, 1);
    loop = bg_repeat(2, &n, &x, 1);
    expect_refused(&r, &loop, BG_ERROR_SHAPE, "`n` is carried as float32[], but its next value is float32[3]");
    loop = bg_repeat(2, &next, &next, 1);
    expect_refused(&r, &loop, BG_ERROR_INVALID, "not an input of the body");
    loop = bg_repeat(2, &n, &none, 1);
    expect_refused(&r, &loop, BG_ERROR_INVALID, "result 0");
    loop = bg_repeat(2, (bg_value[]){n, n}, (bg_value[]){next, next}, 2);
    expect_refused(&r, &loop, BG_ERROR_INVALID, "carried twice");
    loop = bg_while(other, 2, &x, &x, 1);
    expect_refused(&r, &loop, BG_ERROR_SHAPE, "input 0 of the condition");
    integers = make_comparison((const bg_type[]){bg_scalar(BG_INT64)}, 1, 0, BG_LESS, &(const int64_t){7});
    loop = bg_while(integers, 2, &n, &next, 1);
    expect_refused(&r, &loop, BG_ERROR_SHAPE,
                   "input 0 of the condition is int64[], but the carried value is float32[]");
    bg_graph_destroy(integers);
    loop = bg_while(other, 2, NULL, NULL, 0);
    expect_refused(&r, &loop, BG_ERROR_SHAPE, "more inputs");
    loop = bg_repeat(UINT32_MAX, &n, &next, 1);
    expect_refused(&r, &loop, BG_ERROR_INVALID, "fewer than 2^32");
    loop.carried_count = 17;
    expect_refused(&r, &loop, BG_ERROR_INVALID, "at most 16");
    close_rig(&r);
    bg_graph_destroy(other);
}

/* A loop in a graph must not be endless, its carried values must keep their types, and training through the loop is an
 * error, because loops have no gradient. */
static void wrong_inner_loops_are_refused(void **state)
{
    const bg_type wide = bg_vector(BG_FLOAT32, 3);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_graph *inner = NULL, *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value n, next, out = {0};

    (void)state;
    assert_int_equal(bg_graph_create(&inner, NULL), BG_OK);
    n = bg_graph_input(inner, "n", &scalar);
    next = bg_scale(inner, NULL, n, 1, 1);
    bg_loop loop = bg_repeat(BG_ENDLESS, &n, &next, 1);
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_loop(graph, NULL, inner, &loop, (bg_value[]){bg_graph_input(graph, "x", &scalar)}, 1, &out);
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "endless"));
    bg_graph_destroy(graph);
    bg_error_clear(&error);
    loop.iterations = 2;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_loop(graph, NULL, inner, &loop, (bg_value[]){bg_graph_input(graph, "x", &wide)}, 1, &out);
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_SHAPE);
    bg_graph_destroy(graph);
    bg_error_clear(&error);
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_loop(graph, NULL, inner, &loop, (bg_value[]){bg_graph_parameter(graph, "w", &scalar, NULL)}, 1, &out);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    assert_int_equal(bg_plan_create_training(graph, out, &optimizer, &options, &plan, &error), BG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "no gradient"));
    bg_graph_destroy(graph);
    bg_graph_destroy(inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_counts),
        cmocka_unit_test(values_change_together),
        cmocka_unit_test(replicas_and_stages_carry),
        cmocka_unit_test(a_condition_ends_the_loop),
        cmocka_unit_test(a_value_of_the_body_ends_the_loop),
        cmocka_unit_test(an_integer_counts),
        cmocka_unit_test(comparisons_end_the_loop),
        cmocka_unit_test(integers_count_under_every_strategy),
        cmocka_unit_test(integers_count_inside_graphs),
        cmocka_unit_test(loops_nest),
        cmocka_unit_test(kernels_of_bodies_prepare),
        cmocka_unit_test(wrong_loops_are_refused),
        cmocka_unit_test(wrong_inner_loops_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
