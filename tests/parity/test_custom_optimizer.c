/*
 * test_custom_optimizer.c: a custom optimizer with the rule of SGD with momentum trains to the same bits as SGD,
 * wherever state is stored and however updates are sharded. Errors in a rule are reported.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/checkpoint.h>
#include <brigade/session.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "support/models.h"
#include "support/train.h"

enum { PARAMETER, GRADIENT, NUMBERS, SCALE, VELOCITY, MOST_UPDATES = 5 };

static bg_status infer_update(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)outputs;
    if (op->types[NUMBERS].dtype == BG_FLOAT64 && op->types[NUMBERS].dims[0] == BG_UPDATE_NUMBERS)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "the numbers are not those of an update");
}

/* Does the float operations of SGD's reference kernel in the same order. */
static void run_update(const bg_kernel_call *call, uint32_t part)
{
    const int64_t count = bg_type_element_count(&call->types[PARAMETER]);
    const double *numbers = call->operands[NUMBERS];
    const float rate = (float)-numbers[BG_UPDATE_RATE], decay = (float)numbers[BG_UPDATE_DECAY];
    const float momentum = (float)numbers[BG_UPDATE_OWN + 1], scale = *(const float *)call->operands[SCALE];
    const float *gradient = call->operands[GRADIENT];
    float *w = call->operands[PARAMETER], *velocity = call->operands[VELOCITY];

    (void)part;
    if (numbers[BG_UPDATE_SKIP] != 0.0)
        return;
    for (int64_t i = 0; i < count; i++) {
        float direction = gradient[i] * scale;

        if (decay != 0.0f)
            direction += decay * w[i];
        velocity[i] = velocity[i] * momentum + direction;
        w[i] += rate * velocity[i];
    }
}

static bg_status choose_update(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op, (void)policy, (void)error;
    *out = (bg_kernel){.name = "heavy_ball", .run = run_update, .part_count = 1};
    return BG_OK;
}

static const bg_op_type heavy_ball = {
    BG_OP_TYPE_DEFAULTS,
    .name = "heavy_ball",
    .minimum_inputs = VELOCITY + 1,
    .maximum_inputs = VELOCITY + 1,
    .written_inputs = 1u << PARAMETER | 1u << VELOCITY,
    .is_elementwise_update = true,
    .infer = infer_update,
    .kernel = choose_update,
};
static const bg_update_rule rule = {.name = "heavy_ball", .update = &heavy_ball, .states = "momentum_buffer"};

static bg_optimizer make_own(const bg_update_rule *own)
{
    bg_optimizer optimizer = bg_custom(0.05, own);

    optimizer.weight_decay = 0.01;
    optimizer.numbers[1] = 0.9;
    return optimizer;
}

static bg_optimizer make_sgd(void)
{
    bg_optimizer optimizer = bg_sgd(0.05);

    optimizer.weight_decay = 0.01;
    optimizer.momentum = 0.9;
    return optimizer;
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static size_t count_state(const bg_plan *plan)
{
    size_t bytes = 0;

    for (uint32_t d = 0; d < bg_plan_summarize(plan).device_count; d++)
        bytes += bg_plan_memory_bytes(plan, d, BG_MEMORY_STATE);
    return bytes;
}

typedef struct way {
    const char *what;
    bg_strategy strategy;
    uint32_t replicas;
    bool shards, is_remote, recomputes, scales, clips, decays_matrices;
} way;

static const way ways[] = {
    {.what = "single", .strategy = BG_STRATEGY_SINGLE, .replicas = 1},
    {.what = "pipelined", .strategy = BG_STRATEGY_PIPELINED, .replicas = 1},
    {.what = "state off the devices", .strategy = BG_STRATEGY_PIPELINED, .replicas = 1, .is_remote = true},
    {.what = "state in pieces", .strategy = BG_STRATEGY_SINGLE, .replicas = 2, .shards = true},
    {.what = "pieces off the devices",
     .strategy = BG_STRATEGY_PHASED,
     .replicas = 2,
     .shards = true,
     .recomputes = true},
    {.what = "an automatic scale", .strategy = BG_STRATEGY_PIPELINED, .replicas = 2, .scales = true},
    {.what = "clipped", .strategy = BG_STRATEGY_PIPELINED, .replicas = 2, .shards = true, .clips = true},
    {.what = "decay of matrices", .strategy = BG_STRATEGY_SINGLE, .replicas = 1, .decays_matrices = true},
};

static bg_options make_options(const way *w)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = w->strategy;
    options.execution.gradient_accumulation = 4 / w->replicas;
    options.replicas.count = w->replicas;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.memory.locations[BG_LOCATION_STATE].sharded = w->shards;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 2;
    options.memory.offload_optimizer = w->is_remote;
    options.memory.recompute = w->recomputes ? BG_RECOMPUTE_STAGE : BG_RECOMPUTE_NONE;
    options.numerics.auto_loss_scaling.enabled = w->scales;
    options.numerics.max_gradient_norm = w->clips ? 0.1 : 0.0;
    options.numerics.max_gradient_value = w->clips ? 0.01 : 0.0;
    return options;
}

static void test_a_rule_that_is_sgds_trains_as_sgd(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const test_model *model = test_model_at(3);
        const bg_options options = make_options(&ways[i]);
        bg_optimizer own = make_own(&rule), sgd = make_sgd();
        bg_plan *own_plan, *sgd_plan;
        test_result wanted;

        own.decay_matrices_only = sgd.decay_matrices_only = ways[i].decays_matrices;
        own_plan = test_train_plan(model, 4, &own, &options, ways[i].what);
        sgd_plan = test_train_plan(model, 4, &sgd, &options, ways[i].what);
        assert_int_equal(count_state(own_plan), count_state(sgd_plan)); /* sharded if SGD's velocity is sharded */
        wanted = test_train_run(sgd_plan, &options, NULL, 0, MOST_UPDATES, ways[i].what);
        test_train_expect(test_train_run(own_plan, &options, NULL, 0, MOST_UPDATES, ways[i].what), &wanted,
                          ways[i].what);
        free(wanted.bytes);
    }
}

/* An update that may read all elements of its operands gets whole operands even if sharding is requested, and gives the
 * same bits. */
static void test_an_update_of_the_whole_is_not_shared_out(void **state)
{
    const way *w = &ways[3];
    const test_model *model = test_model_at(3);
    const bg_options options = make_options(w);
    bg_op_type whole = heavy_ball;
    const bg_update_rule whole_rule = {.name = "whole", .update = &whole, .states = "momentum_buffer"};
    const bg_optimizer own = make_own(&rule), of_whole = make_own(&whole_rule);
    bg_plan *pieces, *plan;
    test_result wanted;

    (void)state;
    whole.is_elementwise_update = false;
    pieces = test_train_plan(model, 4, &own, &options, w->what);
    plan = test_train_plan(model, 4, &of_whole, &options, w->what);
    assert_true(count_state(plan) > count_state(pieces) + count_state(pieces) / 2);
    wanted = test_train_run(pieces, &options, NULL, 0, MOST_UPDATES, w->what);
    test_train_expect(test_train_run(plan, &options, NULL, 0, MOST_UPDATES, w->what), &wanted, w->what);
    free(wanted.bytes);
}

/* ---- numbers and checkpoints ---- */

static bg_session *open_session(const bg_optimizer *optimizer)
{
    const bg_options options = make_options(&ways[0]);
    bg_session *session;
    bg_graph *graph;
    bg_error error;
    bg_value loss;

    require(bg_graph_create(&graph, &error), &error);
    loss = test_model_at(3)->build(graph, 4);
    require(bg_session_create_training(graph, loss, optimizer, &options, NULL, &session, &error), &error);
    bg_graph_destroy(graph);
    return session;
}

static void update(bg_session *session)
{
    void *data[4] = {0}, *outputs[8] = {0};
    bg_error error;

    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        bg_stream stream;
        require(bg_session_input(session, i, &stream, &error), &error);
        data[i] = test_model_input(&stream.micro_batch_type, stream.name, stream.count);
    }
    require(bg_session_run(session, (const void *const *)data, outputs, &error), &error);
    for (int i = 0; i < 4; i++)
        free(data[i]);
}

/* Returns whether all weights and states of two sessions have the same bytes. */
static bool is_same(bg_session *a, bg_session *b)
{
    bg_weights *left = bg_session_weights(a), *right = bg_session_weights(b);
    uint32_t states = 0;

    for (uint32_t i = 0; i < bg_weights_count(left); i++) {
        bg_weight one, other;
        bg_error error;
        require(bg_weights_at(left, i, &one, &error), &error);
        require(bg_weights_find(right, one.name, &other, &error), &error);
        states += one.role == BG_ROLE_STATE;
        if (memcmp(one.data, other.data, bg_type_size_bytes(&one.type)) != 0)
            return false;
    }
    assert_true(states > 3);
    return true;
}

static void test_a_checkpoint_keeps_its_state(void **state)
{
    const bg_optimizer own = make_own(&rule), sgd = make_sgd();
    bg_session *session = open_session(&own), *next = open_session(&own), *other = open_session(&sgd);
    char folder[TEST_FOLDER_BYTES];
    bg_error error;

    (void)state;
    test_folder_create(folder);
    update(session);
    require(bg_checkpoint_save(session, folder, NULL, &error), &error);
    update(session);
    require(bg_checkpoint_load(next, folder, NULL, NULL, &error), &error);
    assert_false(is_same(session, next));
    update(next);
    assert_true(is_same(session, next));
    assert_int_not_equal(bg_checkpoint_load(other, folder, NULL, NULL, &error), BG_OK);
    if (strstr(error.message, "custom:heavy_ball") == NULL)
        fail_msg("%s", error.message);
    bg_session_destroy(session);
    bg_session_destroy(next);
    bg_session_destroy(other);
    test_folder_remove(folder);
}

static void test_numbers_change_and_rules_do_not(void **state)
{
    const bg_update_rule again = rule;
    bg_optimizer own = make_own(&rule), another = make_own(&again), sgd = make_sgd();
    bg_session *session = open_session(&own), *slow = open_session(&own);
    bg_error error;

    (void)state;
    update(session);
    update(slow);
    assert_true(is_same(session, slow));
    own.numbers[1] = 0.5;
    require(bg_session_set_optimizer(slow, &own, &error), &error);
    update(session);
    update(slow);
    assert_false(is_same(session, slow));
    assert_int_equal(bg_session_set_optimizer(slow, &another, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "the plan trains with custom:heavy_ball"));
    assert_int_equal(bg_session_set_optimizer(slow, &sgd, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "optimizer: it is sgd, but the plan trains with custom:heavy_ball"));
    own.decay_matrices_only = true;
    assert_int_equal(bg_session_set_optimizer(slow, &own, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "decay_matrices_only"));
    bg_session_destroy(session);
    bg_session_destroy(slow);
}

/* ---- errors in a rule ---- */

static void expect(const bg_optimizer *optimizer, const char *words)
{
    bg_error error;

    assert_int_equal(bg_optimizer_validate(optimizer, &error), BG_ERROR_INVALID);
    if (strstr(error.message, words) == NULL)
        fail_msg("%s\nlacks: %s", error.message, words);
}

static void expect_rule(bg_update_rule own, const char *words)
{
    const bg_optimizer optimizer = make_own(&own);

    expect(&optimizer, words);
}

static void test_rules_that_cannot_be(void **state)
{
    static const char *const states[] = {"b a", "a a", "a  b", " a", "a ", "a:b", "a b c d", "aa a"};
    bg_op_type update_type = heavy_ball;
    bg_update_rule own = rule;
    bg_optimizer optimizer = make_own(NULL);
    bg_error error;

    (void)state;
    own.update = &update_type;
    expect(&optimizer, "has no rule");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        own.states = states[i];
        expect_rule(own, "its states must be");
    }
    own.states = "a b";
    expect_rule(own, "four operands and its states");
    own = rule, own.name = "heavy ball";
    expect_rule(own, "its name must consist of");
    own = rule, own.update = NULL;
    expect_rule(own, "an op type");
    own.update = &update_type;
    update_type.written_inputs = 1u << PARAMETER;
    expect_rule(own, "must write operand 0");
    update_type = heavy_ball, update_type.output_count = 1;
    expect_rule(own, "no outputs");
    update_type = heavy_ball, update_type.attributes_bytes = 4;
    expect_rule(own, "the rule gives none");
    update_type = heavy_ball;
    optimizer = make_own(&own);
    assert_int_equal(bg_optimizer_validate(&optimizer, &error), BG_OK);
    optimizer.numbers[2] = NAN;
    expect(&optimizer, "number 2 of heavy_ball is nan");
    optimizer = make_own(&own), optimizer.learning_rate = -1.0;
    expect(&optimizer, "learning_rate is -1");
    optimizer = make_own(&own), optimizer.weight_decay = INFINITY;
    expect(&optimizer, "weight_decay is inf");
}

static void test_rounding_by_chance_is_refused(void **state)
{
    const bg_optimizer own = make_own(&rule);
    bg_options options = make_options(&ways[0]);
    bg_session *session;
    bg_graph *graph;
    bg_error error;
    bg_value loss;

    (void)state;
    options.numerics.stochastic_rounding = true;
    require(bg_graph_create(&graph, &error), &error);
    loss = test_model_at(3)->build(graph, 4);
    assert_int_equal(bg_session_create_training(graph, loss, &own, &options, NULL, &session, &error),
                     BG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "the update of `heavy_ball`"));
    bg_graph_destroy(graph);
}

/* A plan with a custom optimizer cannot be saved, because a file cannot name the optimizer's kernels. */
static void test_plans_are_not_kept(void **state)
{
    bg_op_type revised = heavy_ball;
    const bg_update_rule revised_rule = {.name = "revised", .update = &revised, .states = "momentum_buffer"};
    const bg_optimizer own = make_own(&revised_rule), sgd = make_sgd();
    const test_model *model = test_model_at(3);
    bg_options options = make_options(&ways[0]);
    char folder[TEST_FOLDER_BYTES];

    (void)state;
    revised.revision = 1; /* with a revision, plans of models with this op can be cached */
    test_folder_create(folder);
    options.files.cache_dir = folder;
    bg_plan_destroy(test_train_plan(model, 4, &own, &options, "own"));
    assert_int_equal(test_folder_count(folder), 0);
    bg_plan_destroy(test_train_plan(model, 4, &sgd, &options, "sgd"));
    assert_int_equal(test_folder_count(folder), 1);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rule_that_is_sgds_trains_as_sgd),
        cmocka_unit_test(test_an_update_of_the_whole_is_not_shared_out),
        cmocka_unit_test(test_a_checkpoint_keeps_its_state),
        cmocka_unit_test(test_numbers_change_and_rules_do_not),
        cmocka_unit_test(test_rules_that_cannot_be),
        cmocka_unit_test(test_rounding_by_chance_is_refused),
        cmocka_unit_test(test_plans_are_not_kept),
    };

    return cmocka_run_group_tests_name("parity/custom_optimizer", tests, NULL, NULL);
}
