/*
 * test_sharding.c: replicas that each keep and update a shard of the optimizer state give the same bits as replicas
 * that keep all of it, in 1/R of the memory.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/ops.h>

#include "plan/plan.h"
#include "runtime/weights.h"
#include "support/train.h"

enum { UPDATES = 6, ACCUMULATION = 3, MICRO_BATCH = 4, OPTIMIZERS = 12 };

static bg_optimizer optimizer_at(unsigned index)
{
    bg_optimizer optimizers[OPTIMIZERS] = {bg_adamw(0.003), bg_adam(0.002),   bg_sgd(0.05),      bg_sgd(0.05),
                                           bg_sgd(0.1),     bg_adamax(0.003), bg_rmsprop(0.002), bg_lamb(0.01),
                                           bg_lamb(0.01),   bg_adagrad(0.01), bg_adadelta(1),    bg_sgd(0.05)};

    optimizers[1].weight_decay = 0.1;
    optimizers[2].momentum = 0.9, optimizers[2].nesterov = true;
    optimizers[3].momentum = 0.8, optimizers[3].dampening = 0.1, optimizers[3].weight_decay = 0.01;
    optimizers[6].centered = true, optimizers[6].momentum = 0.9;
    optimizers[8].max_weight_norm = 0.5, optimizers[8].uncorrected = true;
    optimizers[11].momentum = 0.9, optimizers[11].combined = true, optimizers[11].velocity_scaling = 0.7;
    return optimizers[index];
}

typedef struct way {
    bg_strategy strategy;
    const char *schedule, *stages;
} way;

static const way ways[] = {{BG_STRATEGY_SINGLE, NULL, NULL},
                           {BG_STRATEGY_SHARDED, NULL, "B1,B2|B3,B4"},
                           {BG_STRATEGY_PIPELINED, "interleaved", "B1|B2|B3|B4"},
                           {BG_STRATEGY_PIPELINED, "grouped", "B1|B2,B3|B4"},
                           {BG_STRATEGY_PIPELINED, "grouped", "B1@0|B2@1|B3@0|B4@1"}};

static bg_options options_for(const way *w, uint32_t replicas, uint32_t cores)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = w->strategy;
    options.execution.schedule = w->schedule;
    options.execution.stages = w->stages;
    options.replicas.count = replicas;
    options.execution.cores = cores;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 11;
    options.execution.wait_limit_s = 60;
    return options;
}

static void shard(bg_options *options, size_t minimum)
{
    options->memory.locations[BG_LOCATION_STATE].sharded = true;
    options->memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = minimum;
    options->memory.locations[BG_LOCATION_ACCUMULATORS].sharded = true;
    options->memory.locations[BG_LOCATION_ACCUMULATORS].minimum_elements_sharded = minimum;
}

/* ---- the same bits ---- */

/* Compares single, sharded and pipelined training with sharded state, with and without offload, with one device that
 * has whole state. */
static void run_matrix(unsigned model_index, unsigned optimizer_index)
{
    const bool is_quick = getenv("BRIGADE_TEST_QUICK") != NULL;
    const test_model *model = test_model_at(model_index);
    const bg_optimizer optimizer = optimizer_at(optimizer_index);
    const uint32_t updates = is_quick ? UPDATES / 2 : UPDATES;
    unsigned number = model_index + optimizer_index;

    for (uint32_t replicas = 2; replicas <= 4; replicas++) {
        const bg_options whole = options_for(&ways[0], replicas, 1);
        const test_result expected =
            test_train(model, MICRO_BATCH, &optimizer, &whole, NULL, 0, updates, "whole state on one device");
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
            for (int offload = 0; offload < 2; offload++) {
                bg_options options = options_for(&ways[w], replicas, 1 + number % 3);
                char what[160];
                if (number++ % 5 != 0 && is_quick)
                    continue;
                options.memory.offload_optimizer = offload != 0;
                /* In most cases with offload every class is remote, and in some of these the weights are sharded
                 * too. */
                for (int k = 0; offload != 0 && number % 3 != 0 && k < BG_LOCATION_COUNT; k++)
                    options.memory.locations[k].place = BG_PLACE_REMOTE;
                options.memory.locations[BG_LOCATION_WEIGHTS].sharded = offload != 0 && number % 3 == 1;
                options.memory.locations[BG_LOCATION_WEIGHTS].minimum_elements_sharded = number % 4 == 0 ? 50 : 1;
                options.execution.io_threads = (int32_t)(number / 2 % 4) - 1;
                options.memory.phase_liveness = (bg_phase_liveness)(number / 3 % 4);
                options.execution.device_iterations = number % 2 == 0 ? 3 : 1;
                shard(&options, number % 4 == 0 ? 50 : 1);
                options.replicas.reduce_time = number % 7 < 3 ? BG_REDUCE_IN_UPDATE : BG_REDUCE_IN_BACKWARD;
                options.replicas.reduce_bytes = number % 2 == 0 ? 1 : 512;
                snprintf(what, sizeof what, "%s, optimizer %u, way %zu, offload %d, %u replicas", model->name,
                         optimizer_index, w, offload, replicas);
                test_train_expect(test_train(model, MICRO_BATCH, &optimizer, &options, NULL, 0, updates, what),
                                  &expected, what);
            }
        free(expected.bytes);
    }
}

static void test_convolutions(void **state)
{
    (void)state;
    run_matrix(0, 0);
    run_matrix(1, 2);
}

/* The model has a weight with accumulators in three stages, and with copies that are refreshed. */
static void test_tied_weights(void **state)
{
    (void)state;
    for (unsigned optimizer = 0; optimizer < OPTIMIZERS; optimizer++)
        run_matrix(2, optimizer);
}

static void test_perceptron(void **state)
{
    (void)state;
    for (unsigned optimizer = 0; optimizer < OPTIMIZERS; optimizer++)
        run_matrix(3, optimizer);
}

/* ---- the host reads and writes whole state ---- */

static void copy_weights(bg_weights *from, bg_weights **out)
{
    assert_int_equal(bg_weights_create(out, NULL), BG_OK);
    for (uint32_t i = 0; i < bg_weights_count(from); i++) {
        bg_weight weight;
        assert_int_equal(bg_weights_at(from, i, &weight, NULL), BG_OK);
        assert_int_equal(bg_weights_set(*out, weight.name, &weight.type, weight.data, NULL), BG_OK);
    }
}

/* Makes three updates, copies all weights and state into new weights, and makes three more. Each argument says whether
 * the state is sharded in that half.
 */
static test_result train_in_halves(bool first_pieces, bool second_pieces)
{
    const test_model *model = test_model_at(2);
    const bg_optimizer optimizer = optimizer_at(0);
    bg_options options = options_for(&ways[2], 3, 2), more = options_for(&ways[3], 3, 2);
    bg_weights *weights = NULL, *loaded = NULL;
    test_result result;

    if (first_pieces)
        shard(&options, 1);
    if (second_pieces)
        shard(&more, 1);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    result = test_train(model, MICRO_BATCH, &optimizer, &options, weights, 0, 3, "first half");
    free(result.bytes);
    copy_weights(weights, &loaded);
    loaded->step = 3;
    result = test_train(model, MICRO_BATCH, &optimizer, &more, loaded, 3, 6, "second half");
    bg_weights_destroy(weights);
    bg_weights_destroy(loaded);
    return result;
}

static void test_state_saved_in_pieces_loads_whole_and_back(void **state)
{
    const test_result expected = train_in_halves(false, false);

    (void)state;
    test_train_expect(train_in_halves(true, false), &expected, "pieces, then whole");
    test_train_expect(train_in_halves(false, true), &expected, "whole, then pieces");
    test_train_expect(train_in_halves(true, true), &expected, "pieces, then pieces");
    free(expected.bytes);
}

/* ---- memory ---- */

static size_t align_line(size_t size)
{
    return (size + 63) / 64 * 64;
}

/* The state and the remote buffers in the memory table have exactly the bytes of the shards. */
static void test_memory_is_a_share(void **state)
{
    const test_model *model = test_model_at(0);
    const bg_optimizer optimizer = optimizer_at(0);

    (void)state;
    for (uint32_t replicas = 2; replicas <= 4; replicas++)
        for (int offload = 0; offload < 2; offload++) {
            bg_options options = options_for(&ways[2], replicas, 1);
            size_t expected[4] = {0};
            uint32_t piece_count = 0;
            bg_plan *plan;
            options.memory.offload_optimizer = offload != 0;
            shard(&options, 8192);
            plan = test_train_plan(model, MICRO_BATCH, &optimizer, &options, "memory");
            for (uint32_t v = 0; v < plan->variable_count; v++) {
                const bgi_plan_variable *variable = &plan->variables[v];
                const size_t count = (size_t)bg_type_element_count(&variable->type);
                const size_t piece = count < 8192 ? count : (count + replicas - 1) / replicas;
                if (variable->role != BG_ROLE_STATE)
                    continue;
                assert_int_equal(variable->piece_count, count < 8192 ? 0 : piece);
                piece_count += variable->piece_count > 0;
                expected[variable->places[0].device] += align_line(4 * piece);
            }
            assert_true(piece_count >= 2);
            for (uint32_t d = 0; d < plan->device_count; d++) {
                assert_int_equal(bg_plan_memory_bytes(plan, d, offload ? BG_MEMORY_REMOTE : BG_MEMORY_STATE),
                                 expected[d]);
                assert_int_equal(bg_plan_memory_bytes(plan, d, offload ? BG_MEMORY_STATE : BG_MEMORY_REMOTE), 0);
            }
            bg_plan_destroy(plan);
        }
}

/* Each replica's remote store has exactly the bytes of a shard of every weight, and the devices gather no weights. */
static void test_weights_at_home_are_a_share(void **state)
{
    const bg_optimizer optimizer = optimizer_at(0);

    (void)state;
    for (uint32_t replicas = 2; replicas <= 4; replicas++) {
        bg_options options = options_for(&ways[2], replicas, 1);
        size_t expected[4] = {0};
        uint32_t piece_count = 0;
        bg_plan *plan;
        shard(&options, 1);
        options.memory.locations[BG_LOCATION_WEIGHTS].place = BG_PLACE_REMOTE;
        options.memory.locations[BG_LOCATION_WEIGHTS].minimum_elements_remote = 1;
        options.memory.locations[BG_LOCATION_WEIGHTS].sharded = true;
        options.memory.locations[BG_LOCATION_WEIGHTS].minimum_elements_sharded = 1;
        plan = test_train_plan(test_model_at(0), MICRO_BATCH, &optimizer, &options, "weights at home");
        for (uint32_t v = 0; v < plan->variable_count; v++) {
            const bgi_plan_variable *variable = &plan->variables[v];
            const size_t piece = ((size_t)bg_type_element_count(&variable->type) + replicas - 1) / replicas;
            if (variable->role != BG_ROLE_PARAMETER)
                continue;
            assert_int_equal(variable->piece_count, piece);
            expected[variable->places[0].device] += align_line(4 * piece);
            piece_count++;
        }
        assert_true(piece_count >= 2);
        for (uint32_t d = 0; d < plan->device_count; d++) {
            assert_int_equal(bg_plan_memory_bytes(plan, d, BG_MEMORY_REMOTE), expected[d]);
            for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
                assert_int_not_equal(plan->devices[d].instructions[i].action.kind, BG_ACTION_GATHER);
        }
        bg_plan_destroy(plan);
    }
}

/* ---- gradients that are reduced during the backward pass ---- */

/* Returns options with which all classes are remote and sharded, and phases do not overlap. */
static bg_options phased_options(uint32_t replicas, double norm, bg_reduce_time time)
{
    const way phased = {BG_STRATEGY_PHASED, NULL, "B1|B2|B3|B4"};
    bg_options options = options_for(&phased, replicas, 2);

    shard(&options, 1);
    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        options.memory.locations[k].place = BG_PLACE_REMOTE;
    options.memory.locations[BG_LOCATION_WEIGHTS].sharded = true;
    options.memory.locations[BG_LOCATION_WEIGHTS].minimum_elements_sharded = 1;
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    options.numerics.max_gradient_norm = norm;
    options.replicas.reduce_time = time;
    return options;
}

/* Both ways of summing give the same bits as one device that holds all values, with and without clipping, and for tied
 * weights. The number of visits that divide a stage's backward pass does not matter. */
static void test_gradients_reduced_in_the_backward(void **state)
{
    const bool is_quick = getenv("BRIGADE_TEST_QUICK") != NULL;
    const bg_optimizer optimizer = optimizer_at(0);

    (void)state;
    for (unsigned m = 0; test_model_at(m) != NULL; m++)
        for (uint32_t replicas = 2; replicas <= (is_quick ? 2 : 4); replicas++)
            for (int clips = 0; clips < 2; clips++) {
                const double norm = clips ? 0.02 : 0.0;
                bg_options whole = options_for(&ways[0], replicas, 1);
                test_result expected;
                whole.numerics.max_gradient_norm = norm;
                expected = test_train(test_model_at(m), MICRO_BATCH, &optimizer, &whole, NULL, 0, UPDATES, "whole");
                for (int way_index = 0; way_index < 7; way_index++) {
                    bg_options options =
                        phased_options(replicas, norm, way_index == 1 ? BG_REDUCE_IN_UPDATE : BG_REDUCE_IN_BACKWARD);
                    char what[96];
                    if (way_index == 6) { /* sums continue during the next phase */
                        options.replicas.reduce_time = BG_REDUCE_BESIDE;
                    } else if (way_index >= 4) {
                        options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_FWD;
                        options.execution.io_threads = way_index - 4;
                    } else if (way_index >=
                               2) { /* with several stages on a device, partial sums are stored between visits */
                        options.execution.strategy = BG_STRATEGY_PIPELINED;
                        options.execution.schedule = "grouped";
                        options.execution.stages = way_index == 2 ? "B1@0|B2@1|B3@0|B4@1" : "B1|B2,B3|B4";
                    }
                    snprintf(what, sizeof what, "%s, %u replicas, norm %g, way %d", test_model_at(m)->name, replicas,
                             norm, way_index);
                    test_train_expect(
                        test_train(test_model_at(m), MICRO_BATCH, &optimizer, &options, NULL, 0, UPDATES, what),
                        &expected, what);
                }
                free(expected.bytes);
            }
}

/* Returns the position of an action in the first device's list; for updates, `index` is the number of the update. */
static uint32_t find_action(const bg_plan *plan, bg_action_kind kind, uint32_t stage, uint32_t index, bool is_last)
{
    const bg_action *actions = bg_schedule_actions(bg_plan_schedule(plan), 0);
    uint32_t found = UINT32_MAX;

    for (uint32_t i = 0; i < bg_schedule_action_count(bg_plan_schedule(plan), 0); i++)
        if (actions[i].kind == kind && actions[i].stage == stage && actions[i].index == index &&
            (found == UINT32_MAX || is_last))
            found = i;
    assert_int_not_equal(found, UINT32_MAX);
    return found;
}

/* A replica's store has the replica's shard of the gradients, which is loaded once. Each stage's gradients are summed,
 * and their squares computed, before the next stage's backward. */
static void test_gradients_at_home_are_a_share(void **state)
{
    const bg_optimizer optimizer = optimizer_at(0);

    (void)state;
    for (uint32_t replicas = 2; replicas <= 4; replicas++) {
        const bg_options early = phased_options(replicas, 0.02, BG_REDUCE_IN_BACKWARD),
                         late = phased_options(replicas, 0.02, BG_REDUCE_IN_UPDATE);
        bg_plan *plan = test_train_plan(test_model_at(0), MICRO_BATCH, &optimizer, &early, "early");
        bg_plan *other = test_train_plan(test_model_at(0), MICRO_BATCH, &optimizer, &late, "late");
        size_t pieces = 0, whole = 0;
        uint64_t loads = 0;
        for (uint32_t v = 0; v < plan->variable_count; v++) {
            const bgi_plan_variable *variable = &plan->variables[v];
            const size_t count = (size_t)bg_type_element_count(&variable->type);
            if (variable->role != BG_ROLE_ACCUMULATOR || count == 1) /* the total count stays on the device */
                continue;
            assert_int_equal(variable->piece_count, (count + replicas - 1) / replicas);
            pieces += align_line(4 * ((count + replicas - 1) / replicas));
            whole += align_line(4 * ((count + replicas - 1) / replicas * replicas));
            loads += 4 * ((count + replicas - 1) / replicas);
        }
        assert_int_equal(bg_plan_remote_bytes(plan, 0, BG_LOCATION_ACCUMULATORS), pieces);
        assert_int_equal(bg_plan_remote_bytes(other, 0, BG_LOCATION_ACCUMULATORS), whole);
        assert_true(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_LOADED, BG_LOCATION_ACCUMULATORS) <= loads);
        assert_true(bg_plan_traffic_bytes(other, 0, BG_TRAFFIC_LOADED, BG_LOCATION_ACCUMULATORS) > 2 * loads);
        for (uint32_t stage = 1; stage < 4; stage++) {
            const uint32_t last = find_action(plan, BG_ACTION_BACKWARD, stage, 0, true);
            const uint32_t reduce = find_action(plan, BG_ACTION_REDUCE, stage, 0, false);
            const uint32_t squares = find_action(plan, BG_ACTION_UPDATE, stage, 0, false);
            const uint32_t next = find_action(plan, BG_ACTION_BACKWARD, stage - 1, 0, false);
            assert_true(last < reduce && reduce < squares && squares < next);
            assert_true(find_action(other, BG_ACTION_REDUCE, stage, 0, false) >
                        find_action(other, BG_ACTION_BACKWARD, 0, 0, true));
        }
        bg_plan_destroy(plan);
        bg_plan_destroy(other);
    }
}

static bg_value build_thirty(bg_graph *graph, int64_t micro_batch)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, 30);
    const bg_type w_type = bg_vector(BG_FLOAT32, 30);
    const bg_initializer normal = {BG_INITIALIZE_NORMAL, 0.0, 1.0};
    const bg_value x = bg_graph_input(graph, "x", &x_type), w = bg_graph_parameter(graph, "w", &w_type, &normal);
    const bg_value loss = bg_mse_loss(graph, "loss", bg_multiply(graph, x, w), x, BG_LOSS_MEAN);

    bg_graph_output(graph, "loss", loss);
    return loss;
}

/* 30 elements over 4 replicas are shards of 8, 8, 8 and 6; over 7 replicas they are six shards of 5 and an empty shard.
 */
static void test_pieces_of_thirty(void **state)
{
    const test_model model = {"thirty", build_thirty};
    const bg_optimizer optimizer = optimizer_at(0);

    (void)state;
    for (uint32_t replicas = 4; replicas <= 7; replicas += 3) {
        const bg_options whole = options_for(&ways[0], replicas, 1);
        const test_result expected = test_train(&model, 2, &optimizer, &whole, NULL, 0, UPDATES, "whole");
        bg_options options = whole;
        uint32_t seen = 0;
        bg_plan *plan;
        shard(&options, 30);
        test_train_expect(test_train(&model, 2, &optimizer, &options, NULL, 0, UPDATES, "thirty"), &expected, "thirty");
        free(expected.bytes);
        plan = test_train_plan(&model, 2, &optimizer, &options, "thirty");
        for (uint32_t v = 0; v < plan->variable_count; v++)
            if (plan->variables[v].role == BG_ROLE_STATE) {
                assert_int_equal(plan->variables[v].piece_count, replicas == 4 ? 8 : 5);
                seen++;
            }
        assert_int_equal(seen, 2);
        bg_plan_destroy(plan);
    }
}

/* The squares for the norm are summed in the order of the shards, whichever replica has a shard. Running means in
 * float16 are summed and sharded like other gradients. Tensors of fewer than 30 elements stay whole. */
static void test_clipped_pieces(void **state)
{
    const bg_optimizer optimizer = optimizer_at(0);

    (void)state;
    for (unsigned m = 0; test_model_at(m) != NULL; m++) {
        bg_options options = options_for(&ways[0], 3, 1);
        test_result plain = test_train(test_model_at(m), MICRO_BATCH, &optimizer, &options, NULL, 0, UPDATES, "plain");
        test_result expected;

        options.numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
        options.numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
        options.numerics.accumulator_dtype = BG_FLOAT16;
        options.numerics.max_gradient_norm = 0.02;
        expected = test_train(test_model_at(m), MICRO_BATCH, &optimizer, &options, NULL, 0, UPDATES, "whole");
        assert_memory_not_equal(expected.bytes, plain.bytes, expected.size);
        shard(&options, 30);
        for (size_t w = 0; w < 3; w++) {
            options.execution.strategy = ways[w].strategy;
            options.execution.schedule = ways[w].schedule;
            options.execution.stages = ways[w].stages;
            options.memory.offload_optimizer = w == 1;
            options.memory.recompute = w == 2 ? BG_RECOMPUTE_STAGE : BG_RECOMPUTE_NONE;
            test_train_expect(
                test_train(test_model_at(m), MICRO_BATCH, &optimizer, &options, NULL, 0, UPDATES, "clipped pieces"),
                &expected, test_model_at(m)->name);
        }
        free(plain.bytes);
        free(expected.bytes);
    }
}

/* ---- what the plan prints and rejects ---- */

typedef struct messages {
    char text[1024];
} messages;

static void note(void *user, bg_log_level level, const char *text)
{
    messages *m = user;

    if (level == BG_LOG_WARNING)
        snprintf(m->text + strlen(m->text), sizeof m->text - strlen(m->text), "%s\n", text);
}

static void test_one_replica_is_warned(void **state)
{
    const bg_location_rule rule = {
        .classes = 1u << BG_LOCATION_STATE, .pattern = "*", .location = {.place = BG_PLACE_DEVICE, .sharded = true}};
    const bg_optimizer optimizer = optimizer_at(0);
    bg_options options = options_for(&ways[0], 1, 1);
    messages m = {{0}};
    bg_plan *plan;

    (void)state;
    options.reporting.log = note;
    options.reporting.log_user = &m;
    shard(&options, 1);
    plan = test_train_plan(test_model_at(3), MICRO_BATCH, &optimizer, &options, "one replica");
    assert_non_null(strstr(m.text, "sharding over replicas has no effect: there is 1 data-parallel replica"));
    for (uint32_t v = 0; v < plan->variable_count; v++)
        assert_int_equal(plan->variables[v].piece_count, 0);
    bg_plan_destroy(plan);
    /* The warning is the same if sharding is requested only for some tensors. */
    options = options_for(&ways[0], 1, 1);
    options.reporting.log = note;
    options.reporting.log_user = &m;
    options.memory.location_rules = &rule;
    options.memory.location_rule_count = 1;
    m = (messages){{0}};
    plan = test_train_plan(test_model_at(3), MICRO_BATCH, &optimizer, &options, "one replica, a rule");
    assert_non_null(strstr(m.text, "sharding over replicas has no effect: there is 1 data-parallel replica"));
    bg_plan_destroy(plan);
}

static void expect_refusal(bg_options *options, unsigned optimizer_index, const char *expected)
{
    const bg_optimizer optimizer = optimizer_at(optimizer_index);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_value loss;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    loss = test_model_at(3)->build(graph, MICRO_BATCH);
    assert_int_equal(bg_plan_create_training(graph, loss, &optimizer, options, &plan, &error), BG_ERROR_INVALID);
    if (strstr(error.message, expected) == NULL)
        fail_msg("`%s` is not in `%s`", expected, error.message);
    bg_graph_destroy(graph);
}

static void test_refusals(void **state)
{
    bg_options options = options_for(&ways[0], 2, 1);

    (void)state;
    options.memory.locations[BG_LOCATION_ACTIVATIONS].sharded = true;
    expect_refusal(&options, 0, "activations are sharded and on the device");
    options.execution.strategy = BG_STRATEGY_PHASED; /* remote by default */
    expect_refusal(&options, 0, "no tensor-parallel replicas, the only ones with equal activations");
    options = options_for(&ways[0], 2, 1);
    options.memory.locations[BG_LOCATION_WEIGHTS].sharded = true;
    expect_refusal(&options, 0,
                   "on the device, where every forward and backward pass needs them whole; make them remote");
    options = options_for(&ways[0], 2, 1);
    options.memory.locations[BG_LOCATION_ACCUMULATORS].sharded = true;
    expect_refusal(&options, 0, "shard the state too");
}

/* Checks that a sharded update gets only a shard of the gradients' sum, and that small tensors and the loss's count
 * stay whole. */
static void expect_reductions_to_pieces(double norm, bool is_scaled)
{
    const bg_optimizer optimizer = optimizer_at(4);
    bg_options options = options_for(&ways[0], 4, 1);
    uint32_t reduced_pieces = 0, reduced_whole = 0, gathered = 0;
    bg_plan *plan;

    shard(&options, 100);
    options.memory.locations[BG_LOCATION_STATE].sharded = false; /* this optimizer has no state */
    options.numerics.max_gradient_norm = norm;
    options.numerics.auto_loss_scaling.enabled = is_scaled;
    plan = test_train_plan(test_model_at(3), MICRO_BATCH, &optimizer, &options, "reductions");
    for (uint32_t i = 0; i < plan->devices[0].instruction_count; i++) {
        const bgi_instruction *instruction = &plan->devices[0].instructions[i];
        for (uint32_t k = 0; k < instruction->reduced_count; k++) {
            const bgi_reduced *reduced = &instruction->reduced[k];
            assert_int_equal(reduced->piece_count, reduced->element_count < 100 ? 0 : (reduced->element_count + 3) / 4);
            gathered += instruction->action.kind == BG_ACTION_GATHER;
            reduced_pieces += instruction->action.kind == BG_ACTION_REDUCE && reduced->piece_count > 0;
            reduced_whole += instruction->action.kind == BG_ACTION_REDUCE && reduced->piece_count == 0;
        }
    }
    assert_int_equal(reduced_pieces, 4); /* the four matrices */
    assert_int_equal(gathered, 4);
    assert_int_equal(reduced_whole, is_scaled ? 3 + 7 : 3); /* the biases; the count of each gradient */
    bg_plan_destroy(plan);
}

/* Sharded updates get shards of the gradients' sums, without and with clipping by the norm of all gradients, and with
 * automatic loss scaling. */
static void test_reductions_are_to_pieces(void **state)
{
    (void)state;
    expect_reductions_to_pieces(0.0, false);
    expect_reductions_to_pieces(0.5, false);
    expect_reductions_to_pieces(0.0, true);
    expect_reductions_to_pieces(0.5, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_tied_weights),
        cmocka_unit_test(test_perceptron),
        cmocka_unit_test(test_state_saved_in_pieces_loads_whole_and_back),
        cmocka_unit_test(test_memory_is_a_share),
        cmocka_unit_test(test_gradients_reduced_in_the_backward),
        cmocka_unit_test(test_gradients_at_home_are_a_share),
        cmocka_unit_test(test_pieces_of_thirty),
        cmocka_unit_test(test_clipped_pieces),
        cmocka_unit_test(test_one_replica_is_warned),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_reductions_are_to_pieces),
        cmocka_unit_test(test_weights_at_home_are_a_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
