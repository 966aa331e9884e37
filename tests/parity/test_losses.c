/*
 * test_losses.c: a loss of several terms, which count different labels or no labels, trains as in PyTorch on the whole
 * batch (tests/oracle/losses.py). This holds for every split over micro-batches and replicas, with accumulation,
 * clipping, scaling and sharding. Every strategy gives the same bits.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/oracle.h"

enum {
    SAMPLES = 8,
    FEATURES = 6,
    HIDDEN = 7,
    CLASSES = 5,
    UPDATES = 3,
    MOST = HIDDEN * FEATURES + CLASSES * HIDDEN + 1
};

static const char *const losses[] = {"square", "two", "ignored", "all", "weighted"};
static const char *const label_kinds[] = {"some", "none"};
static const char *const parameters[] = {"fc1.weight", "fc2.weight", "s"};

static bgi_test_oracle *oracle;

static int open_oracle(void **state)
{
    (void)state;
    oracle = bgi_test_oracle_open("tests/oracle/losses.txt");
    return 0;
}

static int close_oracle(void **state)
{
    (void)state;
    bgi_test_oracle_close(oracle);
    return 0;
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_value add_square_mean(bg_graph *graph, bg_value x)
{
    return bg_reduce(graph, NULL, BG_REDUCE_MEAN, bg_multiply(graph, x, x), NULL, 0, false);
}

/* Adds a loss that divides by the sum of the labels' weights; an update's mean divides by the sum for all of the
 * update's labels. */
static bg_value add_weighted_loss(bg_graph *graph, bg_value logits, bg_value a, bg_value b)
{
    static const float numbers[CLASSES] = {1.0f, 0.5f, 2.0f, 1.5f, 0.25f};
    const bg_type type = bg_vector(BG_FLOAT32, CLASSES);
    const bg_value weights = bg_graph_constant(graph, "class_weights", &type, numbers);
    const bg_value smooth = bg_weighted_cross_entropy(graph, "a", logits, a, weights, 0.1, BG_LOSS_MEAN, -100);
    const bg_value likelihood = bg_nll_loss(graph, "b", bg_tanh(graph, logits), b, weights, BG_LOSS_MEAN, 2);

    return bg_add(graph, smooth, bg_scale(graph, NULL, likelihood, 0.5, 0.0));
}

/* Adds a loss of the model of losses.py. */
static bg_value add_loss(bg_graph *graph, const char *name, bg_value logits, bg_value first_weight, bg_value a,
                         bg_value b)
{
    const bg_type scalar = bg_scalar(BG_FLOAT32);
    bg_value counted, squares, other, both, penalty;

    if (strcmp(name, "weighted") == 0)
        return add_weighted_loss(graph, logits, a, b);
    counted = bg_cross_entropy(graph, "a", logits, a, BG_LOSS_MEAN, -100);
    squares = add_square_mean(graph, logits);
    other = bg_cross_entropy(graph, "b", bg_tanh(graph, logits), b, BG_LOSS_MEAN, 2);
    if (strcmp(name, "square") == 0)
        return bg_add(graph, counted, squares);
    if (strcmp(name, "two") == 0)
        return bg_subtract(graph, counted, bg_scale(graph, NULL, other, 0.5, 0.0));
    if (strcmp(name, "ignored") == 0)
        return bg_subtract(graph, bg_add(graph, counted, bg_scale(graph, NULL, other, 0.5, 0.0)),
                           bg_scale(graph, NULL, bg_cross_entropy(graph, "c", logits, b, BG_LOSS_MEAN, 4), 0.25, 0.0));
    both = bg_scale(graph, NULL, bg_add(graph, counted, squares), 0.5, 0.0);
    both = bg_multiply(
        graph, both,
        bg_elementwise_unary(graph, NULL, BG_EXP, bg_graph_parameter(graph, "s", &scalar, &(bg_initializer){0})));
    penalty =
        bg_reduce(graph, "penalty", BG_REDUCE_SUM, bg_multiply(graph, first_weight, first_weight), NULL, 0, false);
    return bg_add(graph, bg_add(graph, both, bg_scale(graph, NULL, other, 2.0, 0.0)),
                  bg_scale(graph, NULL, penalty, 0.125, 0.0));
}

static bg_plan *make_plan(const char *loss, int64_t micro_batch, const bg_options *options)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, FEATURES), labels = bg_vector(BG_INT32, micro_batch);
    const bg_type first_type = bg_matrix(BG_FLOAT32, HIDDEN, FEATURES);
    bg_optimizer optimizer = bg_sgd(0.25);
    bg_error error = {0};
    bg_value x, a, b, first;
    bg_graph *graph;
    bg_plan *plan;

    optimizer.momentum = 0.5;
    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &x_type);
    a = bg_graph_input(graph, "a", &labels);
    b = bg_graph_input(graph, "b", &labels);
    bg_block_start(graph, "first", BG_DEVICE_NONE);
    first = bg_graph_parameter(graph, "fc1.weight", &first_type, &(bg_initializer){0});
    x = bg_tanh(graph, bg_linear(graph, "fc1", x, first, (bg_value){0}));
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "fc2", x, CLASSES, false);
    bg_block_start(graph, "third", BG_DEVICE_NONE);
    x = add_loss(graph, loss, x, first, a, b);
    require(bg_plan_create_training(graph, x, &optimizer, options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static void set_weight(bg_session *session, const char *name)
{
    const bgi_test_tensor *start = bgi_test_oracle_find(oracle, "start", name);
    const bg_type type = bgi_test_tensor_type(start, BG_FLOAT32);
    float data[MOST];
    bg_error error = {0};

    for (int64_t i = 0; i < start->count; i++)
        data[i] = (float)start->values[i];
    require(bg_weights_set(bg_session_weights(session), name, &type, data, &error), &error);
}

typedef struct trained {
    float weights[MOST]; /* all parameters, one after the other */
    int64_t count;
} trained;

/* Makes UPDATES updates on the whole batch. */
static trained train(const char *loss, const char *labels, uint32_t micro_batches, const bg_options *options)
{
    const bool has_factor = strcmp(loss, "all") == 0;
    bg_plan *plan = make_plan(loss, SAMPLES / micro_batches, options);
    bg_session *session;
    bg_error error = {0};
    float x[SAMPLES * FEATURES];
    int32_t a[SAMPLES], b[SAMPLES];
    const void *inputs[3];
    trained out = {.count = 0};

    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = (float)bgi_test_oracle_find(oracle, "start", "x")->values[i];
    for (int i = 0; i < SAMPLES; i++) {
        a[i] = (int32_t)bgi_test_oracle_find(oracle, "start", labels)->values[i];
        b[i] = (int32_t)bgi_test_oracle_find(oracle, "start", "other")->values[i];
    }
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (int p = 0; p < (has_factor ? 3 : 2); p++)
        set_weight(session, parameters[p]);
    for (int i = 0; i < 3; i++)
        inputs[bg_session_find_input(session, (const char *[]){"x", "a", "b"}[i])] = (const void *[]){x, a, b}[i];
    for (int update = 0; update < UPDATES; update++)
        require(bg_session_run(session, inputs, (void *[8]){NULL}, &error), &error);
    for (int p = 0; p < (has_factor ? 3 : 2); p++) {
        bg_weight weight;
        require(bg_weights_find(bg_session_weights(session), parameters[p], &weight, &error), &error);
        memcpy(out.weights + out.count, weight.data, (size_t)bg_type_element_count(&weight.type) * sizeof(float));
        out.count += bg_type_element_count(&weight.type);
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    return out;
}

static void compare(const trained *got, const char *loss, const char *labels, const char *suffix, double tolerance,
                    const char *what)
{
    char case_name[64];
    int64_t at = 0;

    snprintf(case_name, sizeof case_name, "%s_%s%s", loss, labels, suffix);
    for (int p = 0; at < got->count; p++) {
        const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, case_name, parameters[p]);
        for (int64_t i = 0; i < wanted->count; i++, at++)
            if (!(fabs((double)got->weights[at] - wanted->values[i]) <= tolerance))
                fail_msg("%s, %s: `%s` element %d is %.9g, %.9g expected", case_name, what, parameters[p], (int)i,
                         (double)got->weights[at], wanted->values[i]);
    }
}

typedef void (*set_function)(bg_options *options);

static void set_mean(bg_options *options)
{
    options->numerics.accumulation = BG_ACCUMULATE_MEAN;
}

static void set_running(bg_options *options)
{
    options->numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
}

static void set_scaled(bg_options *options)
{
    options->numerics.loss_scaling = 48.0;
}

static void set_sharded(bg_options *options)
{
    options->memory.locations[BG_LOCATION_STATE].sharded = true;
    options->memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
}

static void set_float16(bg_options *options)
{
    options->numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
    options->numerics.accumulator_dtype = BG_FLOAT16;
}

static void set_running_float16(bg_options *options)
{
    set_running(options);
    set_float16(options);
}

static void set_offloaded(bg_options *options)
{
    options->memory.locations[BG_LOCATION_ACCUMULATORS].place = BG_PLACE_REMOTE;
    options->memory.locations[BG_LOCATION_STATE].place = BG_PLACE_REMOTE;
}

static void set_clip(bg_options *options)
{
    options->numerics.max_gradient_norm = 0.25;
}

static void set_running_clip(bg_options *options)
{
    set_running(options);
    set_clip(options);
}

static void set_sum(bg_options *options)
{
    options->numerics.accumulation = BG_ACCUMULATE_SUM;
}

static const struct {
    const char *name;
    set_function set;
    const char *suffix;
    double tolerance;
} manners[] = {
    {"mean", set_mean, "", 2e-6},
    {"running mean", set_running, "", 2e-6},
    {"loss scaling", set_scaled, "", 2e-6},
    {"sharded state", set_sharded, "", 2e-6},
    {"float16 accumulators", set_float16, "", 4e-3},
    {"running mean in float16", set_running_float16, "", 4e-3},
    {"offloaded", set_offloaded, "", 2e-6},
    {"clipping", set_clip, "_clip", 2e-6},
    {"clipped running mean", set_running_clip, "_clip", 2e-6},
};

static const struct {
    uint32_t micro_batches, replicas;
} cuts[] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {2, 2}, {4, 4}, {4, 2}, {8, 2}};

static bg_options make_options(uint32_t micro_batches, uint32_t replicas, set_function set)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.replicas.count = replicas;
    options.execution.gradient_accumulation = micro_batches / replicas;
    set(&options);
    return options;
}

static void test_every_split_is_the_whole_batch(void **state)
{
    (void)state;
    for (size_t l = 0; l < 6; l++)
        for (size_t m = 0; m < sizeof manners / sizeof manners[0]; m++)
            for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
                const bg_options options = make_options(cuts[c].micro_batches, cuts[c].replicas, manners[m].set);
                const trained got = train(losses[l / 2], label_kinds[l % 2], cuts[c].micro_batches, &options);
                char what[96];

                snprintf(what, sizeof what, "%s, %u micro-batches over %u replicas", manners[m].name,
                         cuts[c].micro_batches, cuts[c].replicas);
                compare(&got, losses[l / 2], label_kinds[l % 2], manners[m].suffix, manners[m].tolerance, what);
            }
}

/* With sums, the losses of the micro-batches are added; each loss is a mean over its own micro-batch. */
static void test_sums_are_of_the_micro_batches(void **state)
{
    (void)state;
    for (size_t l = 0; l < 6; l++)
        for (uint32_t replicas = 1; replicas <= 4; replicas *= 2) {
            const bg_options options = make_options(4, replicas, set_sum);
            const trained got = train(losses[l / 2], label_kinds[l % 2], 4, &options);

            compare(&got, losses[l / 2], label_kinds[l % 2], "_sums", 4e-6, "sum");
        }
}

/* Sets an automatic scale, which is a power of two here and does not affect any rounding. */
static void set_automatic(bg_options *options)
{
    options->numerics.auto_loss_scaling.enabled = true;
    options->numerics.loss_scaling = 1024.0;
}

static void test_every_strategy_has_the_same_bits(void **state)
{
    static const struct {
        bg_strategy strategy;
        const char *schedule;
        bg_recompute recompute;
    } ways[] = {{BG_STRATEGY_SHARDED, NULL, BG_RECOMPUTE_NONE},
                {BG_STRATEGY_PIPELINED, NULL, BG_RECOMPUTE_NONE},
                {BG_STRATEGY_PIPELINED, "gpipe", BG_RECOMPUTE_STAGE},
                {BG_STRATEGY_PIPELINED, "zb-h1", BG_RECOMPUTE_NONE},
                {BG_STRATEGY_PHASED, NULL, BG_RECOMPUTE_NONE}};
    static const set_function sets[] = {set_mean, set_running, set_sharded,   set_float16,
                                        set_clip, set_scaled,  set_automatic, set_offloaded};

    (void)state;
    for (size_t l = 0; l < 6; l++)
        for (size_t m = 0; m < sizeof sets / sizeof sets[0]; m++)
            for (uint32_t replicas = 1; replicas <= 2; replicas++) {
                bg_options options = make_options(4 * replicas, replicas, sets[m]);
                const trained wanted = train(losses[l / 2], label_kinds[l % 2], 4 * replicas, &options);
                for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
                    trained got;
                    options.execution.strategy = ways[w].strategy;
                    options.execution.schedule = ways[w].schedule;
                    options.memory.recompute = ways[w].recompute;
                    got = train(losses[l / 2], label_kinds[l % 2], 4 * replicas, &options);
                    if (memcmp(got.weights, wanted.weights, (size_t)got.count * sizeof(float)) != 0)
                        fail_msg("%s, labels %s, setting %zu, %u replicas, way %zu: other bits than a single device",
                                 losses[l / 2], label_kinds[l % 2], m, replicas, w);
                }
            }
}

static void test_an_automatic_scale_changes_nothing(void **state)
{
    (void)state;
    for (size_t l = 0; l < 6; l++) {
        const bg_options plain = make_options(4, 2, set_mean), scaled = make_options(4, 2, set_automatic);
        const trained wanted = train(losses[l / 2], label_kinds[l % 2], 4, &plain);
        const trained got = train(losses[l / 2], label_kinds[l % 2], 4, &scaled);

        assert_memory_equal(got.weights, wanted.weights, (size_t)got.count * sizeof(float));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split_is_the_whole_batch),
        cmocka_unit_test(test_sums_are_of_the_micro_batches),
        cmocka_unit_test(test_every_strategy_has_the_same_bits),
        cmocka_unit_test(test_an_automatic_scale_changes_nothing),
    };

    return cmocka_run_group_tests_name("parity/losses", tests, open_oracle, close_oracle);
}
