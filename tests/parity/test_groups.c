/*
 * test_groups.c: parameters with separate factors and frozen parameters train as PyTorch's parameter groups do
 * (tests/oracle/groups.py), also with gradients clipped by value. Every strategy gives the same bits.
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
#include <string.h>

#include "support/oracle.h"

enum { SAMPLES = 8, FEATURES = 3, HIDDEN = 5, UPDATES = 4, PARAMETERS = 6, MOST = 32 };

static const char *const parameters[PARAMETERS] = {"fc1.weight", "fc1.bias",   "fc2.weight",
                                                   "fc2.bias",   "fc3.weight", "fc3.bias"};

static bgi_test_oracle *oracle;

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_value add_layer(bg_graph *graph, const char *name, bg_value x, int64_t width)
{
    bg_block_start(graph, name, BG_DEVICE_NONE);
    return bg_linear_layer(graph, name, x, width, true);
}

/* Later settings override earlier ones. Biases do not decay; the second layer's bias and the first layer's weight are
 * frozen; the second layer's weight has half the rate and twice the decay. */
static bg_plan *make_plan(int64_t micro_batch, const bg_optimizer *optimizer, const bg_options *options)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, FEATURES);
    bg_error error = {0};
    bg_graph *graph;
    bg_value x;
    bg_plan *plan;

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &x_type);
    x = bg_tanh(graph, add_layer(graph, "fc1", x, HIDDEN));
    x = bg_tanh(graph, add_layer(graph, "fc2", x, HIDDEN));
    x = bg_scale(graph, NULL, add_layer(graph, "fc3", x, 1), 1.0, -1.0);
    x = bg_reduce(graph, "loss", BG_REDUCE_MEAN, bg_multiply(graph, x, x), NULL, 0, false);
    bg_graph_set_factors(graph, "*", 3.0, 7.0);
    bg_graph_set_factors(graph, "*.weight", 1.0, 1.0);
    bg_graph_set_factors(graph, "fc?.bias", 1.0, 0.0);
    bg_graph_set_factors(graph, "fc2.w*", 0.5, 2.0);
    bg_graph_freeze(graph, "fc1.weight");
    bg_graph_freeze(graph, "*2.bias");
    require(bg_plan_create_training(graph, x, optimizer, options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static void train(const bg_optimizer *optimizer, uint32_t micro_batches, const bg_options *options,
                  float out[PARAMETERS][MOST])
{
    bg_plan *plan = make_plan(SAMPLES / micro_batches, optimizer, options);
    const bgi_test_tensor *data = bgi_test_oracle_find(oracle, "start", "x");
    float x[SAMPLES * FEATURES];
    bg_session *session;
    bg_error error = {0};

    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = (float)data->values[i];
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (int p = 0; p < PARAMETERS; p++) {
        const bgi_test_tensor *start = bgi_test_oracle_find(oracle, "start", parameters[p]);
        const bg_type type = bgi_test_tensor_type(start, BG_FLOAT32);
        float values[MOST];

        for (int64_t i = 0; i < start->count; i++)
            values[i] = (float)start->values[i];
        require(bg_weights_set(bg_session_weights(session), parameters[p], &type, values, &error), &error);
    }
    for (int update = 0; update < UPDATES; update++)
        require(bg_session_run(session, (const void *[]){x}, (void *[4]){NULL}, &error), &error);
    memset(out, 0, sizeof(float[PARAMETERS][MOST]));
    for (int p = 0; p < PARAMETERS; p++) {
        bg_weight weight;

        require(bg_weights_find(bg_session_weights(session), parameters[p], &weight, &error), &error);
        memcpy(out[p], weight.data, bg_type_size_bytes(&weight.type));
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

static bg_optimizer make_optimizer(bool is_sgd)
{
    bg_optimizer optimizer = is_sgd ? bg_sgd(0.1) : bg_adamw(0.02);

    optimizer.weight_decay = is_sgd ? 0.05 : 0.1;
    if (is_sgd)
        optimizer.momentum = 0.9;
    return optimizer;
}

static void test_pytorchs_groups_train_so(void **state)
{
    (void)state;
    for (int is_sgd = 0; is_sgd < 2; is_sgd++) {
        const bg_optimizer optimizer = make_optimizer(is_sgd);
        bg_options options = bg_options_defaults();
        float got[PARAMETERS][MOST];

        options.execution.strategy = BG_STRATEGY_SINGLE;
        train(&optimizer, 1, &options, got);
        for (int p = 0; p < PARAMETERS; p++) {
            const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, is_sgd ? "sgd" : "adamw", parameters[p]);

            for (int64_t i = 0; i < wanted->count; i++)
                if (!(fabs((double)got[p][i] - wanted->values[i]) <= 2e-6))
                    fail_msg("%s, `%s` element %d is %.9g, %.9g expected", is_sgd ? "sgd" : "adamw", parameters[p],
                             (int)i, (double)got[p][i], wanted->values[i]);
        }
    }
}

static void test_every_strategy_has_the_same_bits(void **state)
{
    static const struct {
        bg_strategy strategy;
        bool is_sharded, is_scaled;
    } ways[] = {{BG_STRATEGY_SHARDED, false, false},
                {BG_STRATEGY_PIPELINED, false, false},
                {BG_STRATEGY_PIPELINED, true, false},
                {BG_STRATEGY_PHASED, true, false},
                {BG_STRATEGY_PIPELINED, false, true}};

    (void)state;
    for (int is_sgd = 0; is_sgd < 2; is_sgd++)
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            const bg_optimizer optimizer = make_optimizer(is_sgd);
            bg_options options = bg_options_defaults();
            float wanted[PARAMETERS][MOST], got[PARAMETERS][MOST];

            options.execution.strategy = BG_STRATEGY_SINGLE;
            options.replicas.count = replicas;
            options.execution.gradient_accumulation = 4 / replicas;
            train(&optimizer, 4, &options, wanted);
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                options.execution.strategy = ways[w].strategy;
                options.memory.locations[BG_LOCATION_STATE].sharded = ways[w].is_sharded && replicas > 1;
                options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
                options.numerics.auto_loss_scaling.enabled = ways[w].is_scaled; /* powers of two */
                options.numerics.loss_scaling = ways[w].is_scaled ? 1024.0 : 1.0;
                train(&optimizer, 4, &options, got);
                if (memcmp(got, wanted, sizeof got) != 0)
                    fail_msg("sgd %d, %u replicas, way %zu: other bits than a single device", is_sgd, replicas, w);
            }
        }
}

/* Each element of each update's gradient is clipped separately, whether gradients are whole, sharded, or on several
 * devices. */
static void test_values_are_clipped(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    float wanted[PARAMETERS][MOST], got[PARAMETERS][MOST];

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.numerics.max_gradient_value = 0.01;
    train(&optimizer, 1, &options, wanted);
    for (int p = 0; p < PARAMETERS; p++) {
        const bgi_test_tensor *clipped = bgi_test_oracle_find(oracle, "clipped", parameters[p]);

        for (int64_t i = 0; i < clipped->count; i++)
            if (!(fabs((double)wanted[p][i] - clipped->values[i]) <= 2e-7))
                fail_msg("`%s` element %d is %.9g, %.9g expected", parameters[p], (int)i, (double)wanted[p][i],
                         clipped->values[i]);
    }
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        options.execution.strategy = BG_STRATEGY_SINGLE;
        options.replicas.count = replicas;
        options.execution.gradient_accumulation = 4 / replicas;
        options.memory.locations[BG_LOCATION_STATE].sharded = false;
        options.numerics.loss_scaling = 1.0;
        train(&optimizer, 4, &options, wanted);
        for (int way = 0; way < 3; way++) {
            options.execution.strategy = way == 0 ? BG_STRATEGY_PIPELINED : BG_STRATEGY_PHASED;
            options.memory.locations[BG_LOCATION_STATE].sharded = way > 0 && replicas > 1;
            options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
            options.numerics.loss_scaling = way == 2 ? 64.0 : 1.0;
            train(&optimizer, 4, &options, got);
            if (memcmp(got, wanted, sizeof got) != 0)
                fail_msg("%u replicas, way %d: other bits than a single device", replicas, way);
        }
    }
}

static void expect_refusal(const char *pattern, double rate, double decay, bg_status status, const char *part)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);
    bg_error error = {0};
    bg_graph *graph;

    require(bg_graph_create(&graph, &error), &error);
    bg_linear_layer(graph, "fc", bg_graph_input(graph, "x", &type), 2, true);
    bg_graph_set_factors(graph, pattern, rate, decay);
    assert_int_equal(bg_graph_check(graph, &error), status);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", error.message, part);
    bg_graph_destroy(graph);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_value x;

    (void)state;
    expect_refusal("fc.weights", 1.0, 1.0, BG_ERROR_NOT_FOUND, "no parameter has a name like `fc.weights`");
    expect_refusal(NULL, 1.0, 1.0, BG_ERROR_NOT_FOUND, "no parameter");
    expect_refusal("*", -1.0, 1.0, BG_ERROR_INVALID, "are -1 and 1; they must be finite and at least 0");
    expect_refusal("*", 1.0, INFINITY, BG_ERROR_INVALID, "are 1 and inf");
    require(bg_graph_create(&graph, &error), &error);
    x = bg_linear_layer(graph, "fc", bg_graph_input(graph, "x", &type), 2, true);
    bg_graph_freeze(graph, "*");
    x = bg_reduce(graph, NULL, BG_REDUCE_MEAN, x, NULL, 0, false);
    assert_int_equal(bg_plan_create_training(graph, x, &optimizer, &options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "depends on no trainable parameter"));
    bg_graph_destroy(graph);
}

static int open_oracle(void **state)
{
    (void)state;
    oracle = bgi_test_oracle_open("tests/oracle/groups.txt");
    return 0;
}

static int close_oracle(void **state)
{
    (void)state;
    bgi_test_oracle_close(oracle);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorchs_groups_train_so),
        cmocka_unit_test(test_every_strategy_has_the_same_bits),
        cmocka_unit_test(test_values_are_clipped),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests_name("parity/groups", tests, open_oracle, close_oracle);
}
