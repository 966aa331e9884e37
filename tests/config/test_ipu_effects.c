/*
 * test_ipu_effects.c: tests how fields of a configuration change the bytes of a plan and the bits of a run.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade/config.h>
#include <brigade/nn.h>
#include <brigade/ops.h>

#include "support/train.h"

enum { LAYERS = 4, WIDTH = 96, MICRO_BATCH = 8, TERMS = 600 };

/* Builds "Layer-0" to "Layer-3", each a small perceptron whose result is marked, and a "Head" with the loss. */
static bg_value build_layers(bg_graph *graph, int64_t micro_batch)
{
    const bg_type type = bg_matrix(BG_FLOAT32, micro_batch, WIDTH);
    static const char *const names[LAYERS][3] = {
        {"Layer-0", "in0", "out0"}, {"Layer-1", "in1", "out1"}, {"Layer-2", "in2", "out2"}, {"Layer-3", "in3", "out3"}};
    const bg_value input = bg_graph_input(graph, "x", &type);
    bg_value x = input, loss;

    for (int i = 0; i < LAYERS; i++) {
        bg_block_begin(graph, names[i][0], BG_DEVICE_NONE);
        x = bg_tanh(graph, bg_linear_layer(graph, names[i][1], x, WIDTH, true));
        x = bg_tanh(graph, bg_linear_layer(graph, names[i][2], x, WIDTH, true));
        bg_graph_checkpoint(graph, x);
        bg_block_end(graph);
    }
    bg_block_begin(graph, "Head", BG_DEVICE_NONE);
    loss = bg_mse_loss(graph, "loss", x, input, BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

static const test_model layers = {"layers", build_layers};
static const bg_ipu_model shape = {.layer_count = LAYERS, .head_block = "Head"};

/* Makes options for training or inference from a configuration, which is given as updates of a pipeline of two devices.
 */
static bg_ipu_options make_options(const char *updates, bool for_inference)
{
    const bg_ipu_config_load_options load = {.overrides = updates};
    bg_ipu_config *config = NULL;
    bg_ipu_options made = {0};
    bg_error error = {0};

    if (bg_ipu_config_parse_json("{\"layers_per_ipu\": [2, 2], \"gradient_accumulation_steps\": 6, "
                                 "\"output_mode\": \"all\", \"seed\": 5}",
                                 "test", &load, &config, &error) != BG_OK ||
        bg_ipu_config_to_options(config, for_inference, false, &shape, &made, &error) != BG_OK)
        fail_msg("%s: %s", updates != NULL ? updates : "", error.message);
    made.options.execution.wait_limit_s = 60;
    made.options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    bg_ipu_config_destroy(config);
    return made;
}

/* Returns the bytes of a memory class on the first device of the training plan with these updates. */
static size_t find_bytes(const char *updates, bg_memory_class memory_class)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_ipu_options made = make_options(updates, false);
    bg_plan *plan = test_train_plan(&layers, MICRO_BATCH, &optimizer, &made.options, updates);
    const size_t bytes = bg_plan_memory_bytes(plan, 0, memory_class);

    bg_plan_destroy(plan);
    bg_ipu_options_clear(&made);
    return bytes;
}

static test_result train(const char *updates)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_ipu_options made = make_options(updates, false);
    const test_result result =
        test_train(&layers, MICRO_BATCH, &optimizer, &made.options, NULL, 0, 4, updates != NULL ? updates : "plain");

    bg_ipu_options_clear(&made);
    return result;
}

static void expect_same_training(const char *updates, const char *others)
{
    const test_result expected = train(others);

    test_train_expect(train(updates), &expected, updates);
    free(expected.bytes);
}

static void test_recompute(void **state)
{
    (void)state;
    assert_true(find_bytes("recompute_checkpoint_every_layer=true", BG_MEMORY_STASH) <
                find_bytes("recompute_checkpoint_every_layer=false", BG_MEMORY_STASH));
    expect_same_training("recompute_checkpoint_every_layer=true", "recompute_checkpoint_every_layer=false");
}

static void test_state_off_the_devices(void **state)
{
    const size_t state_bytes = find_bytes("optimizer_state_offchip=false", BG_MEMORY_STATE);

    (void)state;
    assert_true(state_bytes >= (size_t)2 * 2 * 2 * WIDTH * WIDTH * sizeof(float)); /* two moments of four matrices */
    assert_int_equal(find_bytes("optimizer_state_offchip=true", BG_MEMORY_STATE), 0);
    assert_true(find_bytes("optimizer_state_offchip=true", BG_MEMORY_REMOTE) >= state_bytes / 2);
    expect_same_training("optimizer_state_offchip=true", "optimizer_state_offchip=false");
}

static void test_state_in_pieces(void **state)
{
    bg_ipu_options alone = make_options("replicated_tensor_sharding=true", false);
    const size_t whole = find_bytes("replication_factor=2", BG_MEMORY_STATE);
    const size_t piece = find_bytes("replication_factor=2,replicated_tensor_sharding=true", BG_MEMORY_STATE);

    (void)state;
    assert_true(piece >= whole / 2 && piece <= whole / 2 + whole / 16);
    expect_same_training("replication_factor=2,replicated_tensor_sharding=true", "replication_factor=2");
    assert_false(alone.options.memory.locations[BG_LOCATION_STATE].sharded);
    assert_non_null(strstr(alone.notes, "`replicated_tensor_sharding` has no effect with one replica"));
    bg_ipu_options_clear(&alone);
}

/* A loss scale that is a power of two does not change losses, which are the first bytes of a result. */
static void test_auto_loss_scaling(void **state)
{
    const test_result plain = train("auto_loss_scaling=false"), scaled = train("auto_loss_scaling=true");
    const size_t variables = sizeof(float) + 4 * sizeof(double); /* the scale and its statistics */
    bg_ipu_options inference = make_options("auto_loss_scaling=true", true);
    (void)state;

    assert_int_equal(scaled.size, plain.size + variables);
    assert_memory_equal(scaled.bytes, plain.bytes, (size_t)4 * 6 * sizeof(float));
    assert_false(inference.options.numerics.auto_loss_scaling.enabled);
    bg_ipu_options_clear(&inference);
    free(plain.bytes);
    free(scaled.bytes);
}

/* Finds the bytes of live values inside segments, including scratch, on the two devices. */
static void find_transients(const char *updates, size_t bytes[2])
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_ipu_options made = make_options(updates, false);
    bg_plan *plan = test_train_plan(&layers, 600, &optimizer, &made.options, updates);

    for (uint32_t device = 0; device < 2; device++)
        bytes[device] = bg_plan_memory_bytes(plan, device, BG_MEMORY_TRANSIENT);
    bg_plan_destroy(plan);
    bg_ipu_options_clear(&made);
}

/* If matrix products of a device are limited to less scratch, the plan needs less memory on the device and gives the
 * same bits. */
static void test_matmul_proportion(void **state)
{
    size_t plain[2], bounded[2], second[2];
    test_result expected, found;
    bg_ipu_options made;
    (void)state;

    find_transients(NULL, plain);
    find_transients("matmul_proportion=0.00001", bounded);
    find_transients("matmul_proportion=[0.2 0.00001]", second);
    assert_true(bounded[0] < plain[0] && bounded[1] < plain[1]);
    assert_true(second[0] == plain[0] && second[1] == bounded[1]);
    for (int i = 0; i < 2; i++) {
        const bg_optimizer optimizer = bg_sgd(0.01);
        test_result *result = i == 0 ? &expected : &found;
        made = make_options(i == 0 ? NULL : "matmul_proportion=0", false);
        *result = test_train(&layers, 300, &optimizer, &made.options, NULL, 0, 2, "matmul_proportion");
        bg_ipu_options_clear(&made);
    }
    test_train_expect(found, &expected, "matmul_proportion");
    free(expected.bytes);
    /* The device without layers is dropped, together with its share. */
    made = make_options("layers_per_ipu=[2 0 2],matmul_proportion=[0.2 0.3 0.00001]", false);
    assert_int_equal(made.options.execution.device_count, 2);
    assert_int_equal(made.options.memory.matmul_proportion_count, 2);
    assert_true(made.options.memory.matmul_proportions[0] == 0.2 &&
                made.options.memory.matmul_proportions[1] == 0.00001);
    bg_ipu_options_clear(&made);
    find_transients("layers_per_ipu=[2 0 2],matmul_proportion=[0.2 0.3 0.00001]", second);
    assert_true(second[0] == plain[0] && second[1] == bounded[1]);
    made = make_options("inference_matmul_proportion=0.5", true);
    assert_true(made.options.memory.matmul_proportion_count == 1 && made.options.memory.matmul_proportions[0] == 0.5);
    bg_ipu_options_clear(&made);
}

/* Returns the number of losses that a training call of two updates returns. */
static uint64_t count_losses(const char *updates)
{
    const bg_optimizer optimizer = bg_sgd(0.01);
    bg_ipu_options made = make_options(updates, false);
    bg_plan *plan = test_train_plan(&layers, MICRO_BATCH, &optimizer, &made.options, updates);
    bg_session *session = NULL;
    bg_stream loss;

    assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
    assert_int_equal(bg_session_output(session, bg_session_find_output(session, "loss"), &loss, NULL), BG_OK);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_ipu_options_clear(&made);
    return loss.count;
}

/* Returns the number of losses that a run of inference returns. */
static uint64_t count_inferred(const char *updates)
{
    bg_ipu_options made = make_options(updates, true);
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    bg_error error = {0};
    bg_stream stream;

    made.options.numerics.initialize_missing = true;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    build_layers(graph, MICRO_BATCH);
    if (bg_plan_create_inference(graph, &made.options, &plan, &error) != BG_OK ||
        bg_session_create(plan, NULL, &session, &error) != BG_OK ||
        bg_session_output(session, 0, &stream, &error) != BG_OK)
        fail_msg("%s: %s", updates, error.message);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    bg_ipu_options_clear(&made);
    return stream.count;
}

static void test_output_modes(void **state)
{
    (void)state;
    assert_int_equal(count_losses("device_iterations=2,output_mode=all"), 12);
    assert_int_equal(count_losses("device_iterations=2,output_mode=sum"), 1);
    assert_int_equal(count_losses("device_iterations=2,output_mode=final"), 1);
    assert_int_equal(count_losses("device_iterations=2,output_mode=default"), 1);
    /* Inference returns all results, whatever the output mode of training is. */
    assert_int_equal(count_inferred("inference_device_iterations=3,output_mode=sum"), 3);
    assert_int_equal(count_inferred("inference_device_iterations=3,output_mode=final"), 3);
}

/* Runs a linear layer of TERMS terms in inference; `y` gets the result as float32. */
static void infer(const char *updates, bg_dtype dtype, float y[MICRO_BATCH * 16])
{
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, TERMS);
    bg_ipu_options made = make_options(updates, true);
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    void *x = test_model_input(&type, "x", 1);
    bg_value value;

    made.options.execution.strategy = BG_STRATEGY_SINGLE;
    made.options.execution.stages = NULL;
    made.options.execution.device_count = 0;
    made.options.numerics.initialize_missing = true;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    value = bg_cast(graph, NULL, bg_graph_input(graph, "x", &type), dtype);
    value = bg_cast(graph, NULL, bg_linear_layer(graph, "layer", value, 16, true), BG_FLOAT32);
    bg_graph_output(graph, "y", value);
    assert_int_equal(bg_plan_create_inference(graph, &made.options, &plan, NULL), BG_OK);
    assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
    assert_int_equal(bg_session_run(session, (const void *[]){x}, (void *[]){y}, NULL), BG_OK);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    bg_ipu_options_clear(&made);
    free(x);
}

static void test_half_partials(void **state)
{
    float whole[MICRO_BATCH * 16], half[MICRO_BATCH * 16];

    (void)state;
    for (int i = 0; i < 2; i++) {
        infer("enable_half_partials=false", i == 0 ? BG_FLOAT16 : BG_BFLOAT16, whole);
        infer("enable_half_partials=true", i == 0 ? BG_FLOAT16 : BG_BFLOAT16, half);
        assert_memory_not_equal(whole, half, sizeof whole);
    }
    infer("enable_half_partials=false", BG_FLOAT32, whole);
    infer("enable_half_partials=true", BG_FLOAT32, half);
    assert_memory_equal(whole, half, sizeof whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recompute),         cmocka_unit_test(test_state_off_the_devices),
        cmocka_unit_test(test_state_in_pieces),   cmocka_unit_test(test_auto_loss_scaling),
        cmocka_unit_test(test_matmul_proportion), cmocka_unit_test(test_output_modes),
        cmocka_unit_test(test_half_partials),
    };

    return cmocka_run_group_tests_name("effects of configurations", tests, NULL, NULL);
}
