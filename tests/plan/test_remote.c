/*
 * test_remote.c: compares the contents of remote stores, and the bytes of each class that a step moves, with numbers
 * computed by hand.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade/ops.h>
#include <brigade/plan.h>

#include "plan/plan.h"

enum { MICRO_BATCHES = 8, MATRIX = 16 * 16 * 4, X = 4 * 16 * 4 };

/* Compiles x [4, 16] -> A, B, C, each a linear layer, in phases, with all classes remote; C's mean is the loss. */
static bg_plan *make_plan_of(uint32_t micro_batches, uint32_t replicas, bool sharded, double max_norm)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, 16), w_type = bg_matrix(BG_FLOAT32, 16, 16);
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value x, loss;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &x_type);
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = bg_linear(graph, "a", x, bg_graph_parameter(graph, "wa", &w_type, NULL), (bg_value){0});
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = bg_linear(graph, "b", x, bg_graph_parameter(graph, "wb", &w_type, NULL), (bg_value){0});
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    x = bg_linear(graph, "c", x, bg_graph_parameter(graph, "wc", &w_type, NULL), (bg_value){0});
    loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.gradient_accumulation = micro_batches;
    options.replicas.count = replicas;
    options.numerics.max_gradient_norm = max_norm;
    options.memory.phase_liveness = max_norm > 0.0 ? BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE : BG_LIVE_OFF_CHIP_AFTER_FWD;
    for (int k = 0; k < BG_LOCATION_COUNT; k++) {
        options.memory.locations[k].place = BG_PLACE_REMOTE;
        options.memory.locations[k].minimum_elements_sharded = 1;
        options.memory.locations[k].sharded = sharded && k != BG_LOCATION_ACTIVATIONS;
    }
    if (bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    return plan;
}

static bg_plan *make_plan(uint32_t replicas, bool sharded, double max_norm)
{
    return make_plan_of(MICRO_BATCHES, replicas, sharded, max_norm);
}

static void expect(const bg_plan *plan, bg_location_class of, size_t kept, uint64_t loaded, uint64_t stored)
{
    assert_int_equal(bg_plan_remote_bytes(plan, 0, of), kept);
    assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_LOADED, of), loaded);
    assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_STORED, of), stored);
}

static void expect_sum(const bg_plan *plan)
{
    size_t sum = 0;

    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        sum += bg_plan_remote_bytes(plan, 0, (bg_location_class)k);
    assert_int_equal(sum, bg_plan_memory_bytes(plan, 0, BG_MEMORY_REMOTE));
}

static void test_whole(void **state)
{
    bg_plan *plan = make_plan(1, false, 0.0);

    (void)state;
    /* Weights are loaded once for the forward pass, and once for the backward pass and the update. Those of C are
     * loaded once for all three. */
    expect(plan, BG_LOCATION_WEIGHTS, 3 * MATRIX, 5 * MATRIX, 3 * MATRIX);
    expect(plan, BG_LOCATION_STATE, 6 * MATRIX, 6 * MATRIX, 6 * MATRIX);
    /* The activations are x, which A keeps; a, stored once for B's forward and backward; b, which C keeps on the
     * device; d b and d a. */
    expect(plan, BG_LOCATION_ACTIVATIONS, 5 * MICRO_BATCHES * X, 6 * MICRO_BATCHES * X, 5 * MICRO_BATCHES * X);
    /* Each stage is updated right after its backward, so gradients never leave the device. */
    expect(plan, BG_LOCATION_ACCUMULATORS, 3 * MATRIX, 0, 0);
    for (int k = 0; k < BG_LOCATION_COUNT; k++) {
        assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_REDUCED, (bg_location_class)k), 0);
        assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_GATHERED, (bg_location_class)k), 0);
    }
    expect_sum(plan);
    assert_int_equal(bg_plan_remote_bytes(plan, 1, BG_LOCATION_WEIGHTS), 0);
    assert_int_equal(bg_plan_remote_bytes(plan, 0, BG_LOCATION_COUNT), 0);
    assert_int_equal(bg_plan_traffic_bytes(plan, 1, BG_TRAFFIC_LOADED, BG_LOCATION_WEIGHTS), 0);
    assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_COUNT, BG_LOCATION_WEIGHTS), 0);
    assert_string_equal(bg_plan_traffic_name(BG_TRAFFIC_LOADED), "loads");
    assert_string_equal(bg_plan_traffic_name(BG_TRAFFIC_COUNT), "unknown");
    bg_plan_destroy(plan);
}

/* A value between stages is stored remotely if more of its micro-batches wait than the device would have slots: two for
 * writing, and two for reading (one without preloading). C's input waits only for C's forward pass, and C's backward
 * pass follows at once, so the input has one more slot for the stash. */
static void test_few_micro_batches_stay(void **state)
{
    (void)state;
    for (int is_early = 0; is_early < 2; is_early++)
        for (uint32_t count = 1; count <= MICRO_BATCHES; count++) {
            bg_plan *plan = make_plan_of(count, 1, false, is_early ? 0.0 : 1.0);
            const uint32_t slots = is_early ? 4 : 3;
            /* x, a, d b, d a; and b. */
            const size_t moved = (count > slots ? 4 * count : 0) + (count > slots + 1 ? count : 0);

            expect(plan, BG_LOCATION_ACTIVATIONS, moved * X, (moved + (count > slots ? count : 0)) * X, moved * X);
            bg_plan_destroy(plan);
        }
}

/* Each of two replicas stores half of the weights and state, and a load of weights gathers both halves. */
static void test_pieces(void **state)
{
    bg_plan *plan = make_plan(2, true, 0.0);

    (void)state;
    expect(plan, BG_LOCATION_WEIGHTS, 3 * MATRIX / 2, 5 * MATRIX, 3 * MATRIX / 2);
    expect(plan, BG_LOCATION_STATE, 6 * MATRIX / 2, 6 * MATRIX / 2, 6 * MATRIX / 2);
    assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_REDUCED, BG_LOCATION_ACCUMULATORS), 3 * MATRIX);
    expect_sum(plan);
    bg_plan_destroy(plan);
}

/* Returns the number of calls of an op in an instruction. */
static uint32_t count_calls(const bgi_instruction *instruction, const char *op)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < instruction->call_count; i++)
        count += instruction->calls[i].type != NULL && strcmp(instruction->calls[i].type->name, op) == 0;
    return count;
}

/* With a clipped norm, the squares of gradients are computed after the reduction, before the backward pass of the
 * previous stage begins. The update, at the end of the step, loads only the replica's shards of the gradients. */
static void test_clipped_pieces(void **state)
{
    bg_plan *plan = make_plan(2, true, 1.0);
    const bgi_plan_device *device = &plan->devices[0];
    uint32_t reduced = 0, squared = 0, stages = 3;

    (void)state;
    for (uint32_t i = 0; i < device->instruction_count; i++) {
        const bgi_instruction *instruction = &device->instructions[i];
        const uint32_t squares = count_calls(instruction, "square_sum");
        if (instruction->action.kind == BG_ACTION_REDUCE) {
            assert_int_equal(instruction->action.stage, --stages);
            reduced++;
        }
        if (instruction->action.kind == BG_ACTION_BACKWARD) {
            assert_int_equal(instruction->action.stage, stages - 1);
            assert_int_equal(squared, reduced);
        }
        if (squares > 0) {
            assert_int_equal(instruction->action.stage, stages);
            squared += squares;
        }
    }
    assert_int_equal(reduced, 3);
    assert_int_equal(squared, 3);
    /* The gradient of A, which is the last one, is still on the device. */
    assert_int_equal(bg_plan_remote_bytes(plan, 0, BG_LOCATION_ACCUMULATORS), 3 * MATRIX / 2);
    assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_STORED, BG_LOCATION_ACCUMULATORS), 3 * MATRIX / 2);
    assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_LOADED, BG_LOCATION_ACCUMULATORS), 3 * MATRIX / 2);
    expect_sum(plan);
    bg_plan_destroy(plan);
}

static void test_text(void **state)
{
    bg_plan *plan = make_plan(2, true, 0.0);
    bg_error error = {0};
    char *text = NULL;

    (void)state;
    assert_int_equal(bg_plan_print_remote(plan, &text, &error), BG_OK);
    assert_string_equal(
        text, "bytes a step               weights      optimizer   accumulators    activations            all\n"
              "device 0 keeps                1536           3072           1536          10240          16384\n"
              "device 0 loads                5120           3072              0          12288          20480\n"
              "device 0 stores               1536           3072              0          10240          14848\n"
              "device 0 reduces                 0              0           3072              0           3072\n"
              "device 0 gathers                 0              0              0              0              0\n");
    free(text);
    bg_plan_destroy(plan);
}

/* Compiles ids [4] -> A: a table of 500 rows; B, C: one linear layer each; D: the head, with the same table. */
static bg_plan *make_tied_plan(uint32_t replicas, bool parallel)
{
    const bg_type ids_type = bg_vector(BG_INT32, 4), table_type = bg_matrix(BG_FLOAT32, 500, 16),
                  w_type = bg_matrix(BG_FLOAT32, 16, 16);
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value x, ids, table, loss;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    ids = bg_graph_input(graph, "ids", &ids_type);
    table = bg_graph_parameter(graph, "table", &table_type, NULL);
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = bg_embedding(graph, "a", table, ids, -1);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = bg_linear(graph, "b", x, bg_graph_parameter(graph, "wb", &w_type, NULL), (bg_value){0});
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    x = bg_linear(graph, "c", x, bg_graph_parameter(graph, "wc", &w_type, NULL), (bg_value){0});
    bg_block_start(graph, "D", BG_DEVICE_NONE);
    x = bg_linear(graph, "d", x, table, (bg_value){0});
    loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.phases_parallel = parallel;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.replicas.count = replicas;
    for (int k = 0; k < BG_LOCATION_COUNT; k++) {
        options.memory.locations[k].place = BG_PLACE_REMOTE;
        options.memory.locations[k].minimum_elements_sharded = 1;
        options.memory.locations[k].sharded = replicas > 1 && k != BG_LOCATION_ACTIVATIONS;
    }
    if (bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    return plan;
}

enum { TABLE = 500 * 16 * 4, ROWS = MICRO_BATCHES * 4 * 16 * 4, SLOTS = 1001 * 4, SLOTS_HOME = (SLOTS + 63) / 64 * 64 };

/* The table is stored once, and so is its gradient, in addition to the embedding's rows. A loads the table for its
 * forward pass, and D once for its forward pass, backward pass and update. */
static void test_tied(void **state)
{
    bg_plan *plan = make_tied_plan(1, false);

    (void)state;
    expect(plan, BG_LOCATION_WEIGHTS, TABLE + 2 * MATRIX, 2 * TABLE + 4 * MATRIX, TABLE + 2 * MATRIX);
    expect(plan, BG_LOCATION_ACCUMULATORS, TABLE + 2 * MATRIX + ROWS + SLOTS_HOME, 0, 0);
    expect_sum(plan);
    bg_plan_destroy(plan);
}

/* Each of two replicas stores half of the table. */
static void test_tied_pieces(void **state)
{
    bg_plan *plan = make_tied_plan(2, false);

    (void)state;
    assert_int_equal(bg_plan_remote_bytes(plan, 0, BG_LOCATION_WEIGHTS), (TABLE + 2 * MATRIX) / 2);
    assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_STORED, BG_LOCATION_WEIGHTS), (TABLE + 2 * MATRIX) / 2);
    assert_int_equal(bg_plan_traffic_bytes(plan, 0, BG_TRAFFIC_REDUCED, BG_LOCATION_ACCUMULATORS),
                     2 * TABLE + 2 * MATRIX);
    expect_sum(plan);
    bg_plan_destroy(plan);
}

/* If A and D are on different devices, both stores have the table. */
static void test_tied_on_two_devices(void **state)
{
    bg_plan *plan = make_tied_plan(1, true);

    (void)state;
    for (uint32_t device = 0; device < 2; device++)
        assert_int_equal(bg_plan_remote_bytes(plan, device, BG_LOCATION_WEIGHTS), TABLE + MATRIX);
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),       cmocka_unit_test(test_few_micro_batches_stay),
        cmocka_unit_test(test_pieces),      cmocka_unit_test(test_clipped_pieces),
        cmocka_unit_test(test_text),        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_tied_pieces), cmocka_unit_test(test_tied_on_two_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
