/*
 * test_accumulation.c: splitting a batch over micro-batches or replicas does not change its mean, for any ops after the
 * loss. New optimizer state starts a new step count.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 8, IN = 6, CLASSES = 5 };

typedef bg_value (*wrap_function)(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels);

static bg_value bare(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    (void)graph, (void)logits, (void)labels;
    return loss;
}

static bg_value scaled(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    (void)logits, (void)labels;
    return bg_scale(graph, NULL, loss, 0.5, 1.0);
}

static bg_value reshaped(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    const int64_t one = 1;

    (void)logits, (void)labels;
    return bg_reshape(graph, NULL, bg_reshape(graph, NULL, loss, 1, &one), 0, NULL);
}

static bg_value added(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    const bg_value other = bg_cross_entropy(graph, "other", bg_tanh(graph, logits), labels, BG_LOSS_MEAN, -100);

    return bg_subtract(graph, loss, bg_scale(graph, NULL, other, 0.25, 0.0));
}

static bg_value in_another_block(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    (void)logits, (void)labels;
    bg_block_start(graph, "last", BG_DEVICE_NONE);
    return bg_scale(graph, NULL, loss, 3.0, 0.0);
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* A way to combine the gradients of micro-batches and replicas; `set` NULL: the default. */
typedef void (*set_function)(bg_options *options);

static bg_plan *make_plan(wrap_function wrap, int64_t micro_batch, uint32_t replicas, bg_strategy strategy,
                          const bg_optimizer *optimizer, set_function set, bg_options *options)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, IN), label_type = bg_vector(BG_INT32, micro_batch);
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_value x, labels, loss;

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &x_type);
    labels = bg_graph_input(graph, "labels", &label_type);
    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "fc", x, CLASSES, true);
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    loss = wrap(graph, bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100), x, labels);
    *options = bg_options_defaults();
    options->execution.strategy = strategy;
    options->replicas.count = replicas;
    options->execution.gradient_accumulation = (uint32_t)(BATCH / micro_batch / replicas);
    if (set != NULL)
        set(options);
    require(bg_plan_create_training(graph, loss, optimizer, options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static void fill(float *x, int32_t *labels)
{
    for (int i = 0; i < BATCH * IN; i++)
        x[i] = (float)((i * 37) % 23) / 11.0f - 1.0f;
    for (int i = 0; i < BATCH; i++)
        labels[i] = i % 3 == 0 || i == 1 ? -100 : i % CLASSES; /* parts of the batch have different counts */
}

/* Returns the weight after two updates over one batch that is split into micro-batches. */
static void train_with(wrap_function wrap, int64_t micro_batch, uint32_t replicas, bg_strategy strategy, double rate,
                       set_function set, float *out)
{
    const bg_optimizer optimizer = bg_sgd(rate);
    bg_options options;
    bg_plan *plan = make_plan(wrap, micro_batch, replicas, strategy, &optimizer, set, &options);
    bg_session *session;
    bg_error error = {0};
    bg_weight weight;
    float x[BATCH * IN];
    int32_t labels[BATCH];
    const void *inputs[] = {x, labels};

    fill(x, labels);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (int update = 0; update < 2; update++)
        require(bg_session_run(session, inputs, (void *[]){NULL}, &error), &error);
    require(bg_weights_find(bg_session_weights(session), "fc.weight", &weight, &error), &error);
    memcpy(out, weight.data, CLASSES * IN * sizeof(float));
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

static void train(wrap_function wrap, int64_t micro_batch, uint32_t replicas, bg_strategy strategy, float *out)
{
    train_with(wrap, micro_batch, replicas, strategy, 0.5, NULL, out);
}

static void assert_close(const float *got, const float *wanted, const char *what, size_t number)
{
    for (int i = 0; i < CLASSES * IN; i++)
        if (!(fabsf(got[i] - wanted[i]) <= 2e-6f))
            fail_msg("%s %zu: weight %d is %.9g, %.9g expected", what, number, i, (double)got[i], (double)wanted[i]);
}

static void set_running(bg_options *options)
{
    options->numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
}

/* The running mean over labels equals the mean of the whole batch for every size of micro-batch, even if no label of
 * the first micro-batches counts. */
static void test_a_running_mean_equals_the_whole(void **state)
{
    static const struct {
        int64_t micro_batch;
        uint32_t replicas;
    } cuts[] = {{8, 1}, {4, 1}, {2, 1}, {1, 1}, {2, 2}, {4, 2}, {1, 4}};
    float whole[CLASSES * IN], cut[CLASSES * IN];

    (void)state;
    train(scaled, BATCH, 1, BG_STRATEGY_SINGLE, whole);
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        train_with(scaled, cuts[c].micro_batch, cuts[c].replicas,
                   c % 2 == 0 ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SINGLE, 0.5, set_running, cut);
        assert_close(cut, whole, "running mean, cut", c);
    }
}

/* Builds a mean over elements, with micro-batches of equal size. */
static bg_value mean_square(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    (void)loss, (void)labels;
    return bg_reduce(graph, "mean", BG_REDUCE_MEAN, bg_multiply(graph, logits, logits), NULL, 0, false);
}

static void set_sum(bg_options *options)
{
    options->numerics.accumulation = BG_ACCUMULATE_SUM;
}

static void set_sum_of_means(bg_options *options)
{
    options->replicas.replica_reduction = BG_REPLICAS_SUM;
}

static void set_running_sum_of_means(bg_options *options)
{
    set_running(options);
    set_sum_of_means(options);
}

static void set_mean_of_sums(bg_options *options)
{
    set_sum(options);
    options->replicas.replica_reduction = BG_REPLICAS_MEAN;
}

/* Sums over micro-batches, over replicas, and over both are means with a larger learning rate. */
static void test_sums_and_means(void **state)
{
    static const struct {
        int64_t micro_batch;
        uint32_t replicas;
        double rate; /* the learning rate with which sums give the same update as means with 0.4 */
        set_function set;
    } cases[] = {{4, 1, 0.4, NULL},
                 {4, 1, 0.2, set_sum},
                 {1, 1, 0.05, set_sum},
                 {2, 2, 0.1, set_sum},
                 {2, 2, 0.4, NULL},
                 {2, 2, 0.2, set_sum_of_means},
                 {2, 4, 0.1, set_sum_of_means},
                 {2, 2, 0.2, set_mean_of_sums},
                 {1, 2, 0.1, set_mean_of_sums},
                 {2, 2, 0.4, set_running},
                 {1, 4, 0.1, set_running_sum_of_means}};
    float whole[CLASSES * IN], cut[CLASSES * IN];

    (void)state;
    train_with(mean_square, BATCH, 1, BG_STRATEGY_SINGLE, 0.4, NULL, whole);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        train_with(mean_square, cases[c].micro_batch, cases[c].replicas, BG_STRATEGY_PIPELINED, cases[c].rate,
                   cases[c].set, cut);
        assert_close(cut, whole, "case", c);
    }
}

/* ---- known gradients: loss = sum(a x) + sum(b y), so that d a = x and d b = y ---- */

enum { SIDE = 3, STEPS = 2 };

typedef struct known {
    float x[STEPS * SIDE], y[STEPS * SIDE]; /* the data of two micro-batches */
    float a[SIDE], b[SIDE];                 /* after one update from 0 */
} known;

static void train_known(known *k, const bg_options *options, double rate)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, SIDE);
    const bg_initializer zero = {BG_INITIALIZE_CONSTANT, 0.0, 0.0};
    const bg_optimizer optimizer = bg_sgd(rate);
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_value x, y, first, second;
    bg_weight weight;
    const void *inputs[] = {k->x, k->y};

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &type);
    y = bg_graph_input(graph, "y", &type);
    bg_block_start(graph, "first", BG_DEVICE_NONE);
    first = bg_multiply(graph, bg_graph_parameter(graph, "a", &type, &zero), x);
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    second = bg_multiply(graph, bg_graph_parameter(graph, "b", &type, &zero), y);
    first = bg_reduce(graph, "loss", BG_REDUCE_SUM, bg_add(graph, first, second), NULL, 0, false);
    require(bg_plan_create_training(graph, first, &optimizer, options, &plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    require(bg_session_run(session, inputs, (void *[]){NULL}, &error), &error);
    require(bg_weights_find(bg_session_weights(session), "a", &weight, &error), &error);
    memcpy(k->a, weight.data, sizeof k->a);
    require(bg_weights_find(bg_session_weights(session), "b", &weight, &error), &error);
    memcpy(k->b, weight.data, sizeof k->b);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

/* The sum of gradients near the largest float is infinite, but their running mean is finite. */
static void test_a_running_mean_does_not_overflow(void **state)
{
    known k = {.x = {2e38f, -3e38f, 1.0f, 2e38f, -3e38f, 1.0f}};
    bg_options options = bg_options_defaults();

    (void)state;
    options.execution.gradient_accumulation = STEPS;
    train_known(&k, &options, 1e-38);
    assert_true(isinf(k.a[0]) && isinf(k.a[1]));
    options.numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
    train_known(&k, &options, 1e-38);
    assert_true(fabsf(k.a[0] + 2.0f) < 1e-5f && fabsf(k.a[1] - 3.0f) < 1e-5f);
}

/* The sum of these gradients exceeds 65504, the largest float16. Accumulated in float16, running means stay finite, and
 * sums that are divided at the end are infinite. */
static void test_a_running_mean_of_float16_does_not_overflow(void **state)
{
    known k = {.x = {40000.0f, -60000.0f, 1.0f, 40000.0f, -60000.0f, 1.0f}};
    bg_options options = bg_options_defaults();

    (void)state;
    options.execution.gradient_accumulation = STEPS;
    options.numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
    options.numerics.accumulator_dtype = BG_FLOAT16;
    train_known(&k, &options, 0x1p-10);
    assert_true(isinf(k.a[0]) && isinf(k.a[1]) && k.a[2] == -0x1p-10f);
    options.numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
    train_known(&k, &options, 0x1p-10);
    assert_true(k.a[0] == -40000.0f * 0x1p-10f && k.a[1] == 60000.0f * 0x1p-10f && k.a[2] == -0x1p-10f);
}

/* The clipped gradient is g x max / max(norm, max). The norm of the mean gradient is computed in double over all
 * parameters. A gradient below the maximum does not change. */
static void test_clipping_by_global_norm(void **state)
{
    known k = {.x = {1, -2, 3, 4, 0.5f, -1}, .y = {0.25f, 2, -3, 1.75f, 2, 1}};
    known free_of_it = k;
    static const double maxima[] = {0.5, 2.0, 100.0, 0.0};
    bg_options options = bg_options_defaults();
    double g[2 * SIDE], squares = 0.0;

    (void)state;
    for (int i = 0; i < 2 * SIDE; i++) {
        const float *data = i < SIDE ? k.x + i : k.y + (i - SIDE);
        g[i] = ((double)data[0] + (double)data[SIDE]) / STEPS;
        squares += g[i] * g[i];
    }
    options.execution.gradient_accumulation = STEPS;
    train_known(&free_of_it, &options, 0.125);
    for (size_t m = 0; m < sizeof maxima / sizeof maxima[0]; m++) {
        const double maximum = maxima[m], norm = sqrt(squares);
        const double factor = maximum == 0.0 ? 1.0 : maximum / fmax(norm, maximum);

        options.numerics.max_gradient_norm = maximum;
        train_known(&k, &options, 0.125);
        for (int i = 0; i < 2 * SIDE; i++) {
            const double got = (double)(i < SIDE ? k.a[i] : k.b[i - SIDE]);
            if (!(fabs(got + 0.125 * factor * g[i]) <= 1e-7))
                fail_msg("maximum %g, element %d: %.9g, %.9g expected", maximum, i, got, -0.125 * factor * g[i]);
        }
        assert_int_equal(memcmp(k.a, free_of_it.a, sizeof k.a) == 0, factor == 1.0);
    }
}

/* Accumulators of 16 bits round each sum; the optimizer gets them cast to float32. */
static void test_narrow_accumulators(void **state)
{
    known k = {.x = {256, 1, 3, 1, 1, 0.5f}};
    bg_options options = bg_options_defaults();

    (void)state;
    options.execution.gradient_accumulation = STEPS;
    options.numerics.accumulation = BG_ACCUMULATE_SUM;
    options.numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
    options.numerics.accumulator_dtype = BG_BFLOAT16;
    train_known(&k, &options, 1.0);
    assert_true(k.a[0] == -256.0f && k.a[1] == -2.0f && k.a[2] == -3.5f); /* 257 is not a bfloat16 */
    options.numerics.accumulator_dtype = BG_FLOAT16;
    train_known(&k, &options, 1.0);
    assert_true(k.a[0] == -257.0f && k.a[1] == -2.0f && k.a[2] == -3.5f); /* 257 needs 9 bits, and float16 has 11 */
    options.numerics.accumulator_dtype = BG_FLOAT32;
    train_known(&k, &options, 1.0);
    assert_true(k.a[0] == -257.0f && k.a[1] == -2.0f && k.a[2] == -3.5f);
}

/* Returns the type of a parameter's accumulator, as a callback of the options. */
static bg_dtype choose_accumulator(void *user, const char *name, const bg_type *type)
{
    assert_int_equal(type->dtype, BG_FLOAT32);
    ++*(int *)user;
    return strcmp(name, "a") == 0 ? BG_BFLOAT16 : BG_FLOAT32;
}

static void test_accumulators_by_callback(void **state)
{
    known k = {.x = {256, 1, 3, 1, 1, 0.5f}, .y = {256, 1, 3, 1, 1, 0.5f}};
    bg_options options = bg_options_defaults();
    int calls = 0;

    (void)state;
    options.execution.gradient_accumulation = STEPS;
    options.numerics.accumulation = BG_ACCUMULATE_SUM;
    options.numerics.accumulator_type = BG_ACCUMULATOR_CALLBACK;
    options.numerics.choose_accumulator = choose_accumulator;
    options.numerics.choose_accumulator_user = &calls;
    train_known(&k, &options, 1.0);
    assert_true(calls >= 2);
    assert_true(k.a[0] == -256.0f && k.a[1] == -2.0f && k.a[2] == -3.5f);
    assert_true(k.b[0] == -257.0f && k.b[1] == -2.0f && k.b[2] == -3.5f);
}

static void test_a_split_batch_equals_the_whole(void **state)
{
    static const wrap_function wraps[] = {bare, scaled, reshaped, added, in_another_block};
    static const struct {
        int64_t micro_batch;
        uint32_t replicas;
    } cuts[] = {{4, 1}, {2, 1}, {1, 1}, {2, 2}, {4, 2}, {1, 4}};

    (void)state;
    for (size_t w = 0; w < sizeof wraps / sizeof wraps[0]; w++) {
        float whole[CLASSES * IN], cut[CLASSES * IN];
        train(wraps[w], BATCH, 1, BG_STRATEGY_SINGLE, whole);
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
            train(wraps[w], cuts[c].micro_batch, cuts[c].replicas,
                  c % 2 == 0 ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SINGLE, cut);
            assert_close(cut, whole, "wrap and cut", w * 100 + c);
        }
    }
}

static bg_value squared(bg_graph *graph, bg_value loss)
{
    return bg_multiply(graph, loss, loss);
}

/* The average of squares of means over counted labels differs from the whole batch's square. With several micro-batches
 * or replicas such a loss is an error, unless sums are requested. */
static void test_a_mean_inside_a_function_is_refused(void **state)
{
    static const struct {
        uint32_t micro_batches, replicas;
        bg_accumulation accumulation;
        bool is_refused;
    } cases[] = {{1, 1, BG_ACCUMULATE_MEAN, false},         {2, 1, BG_ACCUMULATE_MEAN, true},
                 {1, 2, BG_ACCUMULATE_MEAN, true},          {2, 1, BG_ACCUMULATE_MEAN_RUNNING, true},
                 {1, 1, BG_ACCUMULATE_MEAN_RUNNING, false}, {2, 2, BG_ACCUMULATE_SUM, false}};
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, IN), label_type = bg_vector(BG_INT32, 4);
    const bg_optimizer optimizer = bg_sgd(0.5);
    bg_error error = {0};
    bg_graph *graph;
    bg_value x, labels;

    (void)state;
    require(bg_graph_create(&graph, &error), &error);
    x = bg_linear_layer(graph, "fc", bg_graph_input(graph, "x", &x_type), CLASSES, true);
    labels = bg_graph_input(graph, "labels", &label_type);
    x = squared(graph, bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100));
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bg_options options = bg_options_defaults();
        bg_plan *plan = NULL;
        bg_status status;
        options.execution.strategy = BG_STRATEGY_SINGLE;
        options.execution.gradient_accumulation = cases[c].micro_batches;
        options.replicas.count = cases[c].replicas;
        options.numerics.accumulation = cases[c].accumulation;
        status = bg_plan_create_training(graph, x, &optimizer, &options, &plan, &error);
        assert_int_equal(status, cases[c].is_refused ? BG_ERROR_UNSUPPORTED : BG_OK);
        if (cases[c].is_refused)
            assert_non_null(strstr(error.message, "a mean over counted labels inside binary"));
        bg_error_clear(&error);
        bg_plan_destroy(plan);
    }
    bg_graph_destroy(graph);
}

/* Adam's first update moves each weight that has a gradient by the learning rate, whatever was trained before. */
static void test_new_optimizer_state_starts_from_its_own_beginning(void **state)
{
    const bg_optimizer sgd = bg_sgd(0.1), adam = bg_adam(0.01);
    bg_options options;
    bg_plan *first = make_plan(bare, 4, 1, BG_STRATEGY_SINGLE, &sgd, NULL, &options);
    bg_plan *second = make_plan(bare, 4, 1, BG_STRATEGY_SINGLE, &adam, NULL, &options);
    bg_session *with_sgd, *with_adam;
    bg_error error = {0};
    bg_weight weight;
    float x[BATCH * IN], before[CLASSES * IN], largest = 0.0f;
    int32_t labels[BATCH];
    const void *inputs[] = {x, labels};

    (void)state;
    fill(x, labels);
    require(bg_session_create(first, NULL, &with_sgd, &error), &error);
    for (int update = 0; update < 50; update++)
        require(bg_session_run(with_sgd, inputs, (void *[]){NULL}, &error), &error);
    require(bg_session_create(second, bg_session_weights(with_sgd), &with_adam, &error), &error);
    assert_int_equal(bg_session_set_step(with_adam, 1000, NULL), BG_OK);
    require(bg_weights_find(bg_session_weights(with_adam), "fc.weight", &weight, &error), &error);
    memcpy(before, weight.data, sizeof before);
    require(bg_session_run(with_adam, inputs, (void *[]){NULL}, &error), &error);
    require(bg_weights_find(bg_session_weights(with_adam), "fc.weight", &weight, &error), &error);
    for (int i = 0; i < CLASSES * IN; i++)
        largest = fmaxf(largest, fabsf(((const float *)weight.data)[i] - before[i]));
    assert_true(fabsf(largest - 0.01f) < 1e-4f);
    assert_int_equal(bg_session_step(with_adam), 1001);
    bg_session_destroy(with_adam);
    bg_session_destroy(with_sgd);
    bg_plan_destroy(second);
    bg_plan_destroy(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_split_batch_equals_the_whole),
        cmocka_unit_test(test_a_running_mean_equals_the_whole),
        cmocka_unit_test(test_sums_and_means),
        cmocka_unit_test(test_a_running_mean_does_not_overflow),
        cmocka_unit_test(test_a_running_mean_of_float16_does_not_overflow),
        cmocka_unit_test(test_clipping_by_global_norm),
        cmocka_unit_test(test_narrow_accumulators),
        cmocka_unit_test(test_accumulators_by_callback),
        cmocka_unit_test(test_a_mean_inside_a_function_is_refused),
        cmocka_unit_test(test_new_optimizer_state_starts_from_its_own_beginning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
