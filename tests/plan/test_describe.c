/*
 * test_describe.c: compares the printed forms of a small plan with expected texts, and tests the message of a plan that
 * does not fit.
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

/* Compiles x [4, 16] -> A: linear -> B: linear, mean. */
static bg_status make_plan(size_t budget, bg_plan **out, bg_error *error)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, 16), w_type = bg_matrix(BG_FLOAT32, 16, 16);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_value x, loss;
    bg_status status;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &x_type);
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = bg_linear(graph, "fc1", x, bg_graph_parameter(graph, "w1", &w_type, NULL), (bg_value){0});
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = bg_linear(graph, "fc2", x, bg_graph_parameter(graph, "w2", &w_type, NULL), (bg_value){0});
    loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    bg_graph_output(graph, "loss", loss);
    options.execution.gradient_accumulation = 3;
    options.memory.device_memory_bytes = budget;
    options.numerics.kernels = BG_KERNELS_REFERENCE;
    status = bg_plan_create_training(graph, loss, &optimizer, &options, out, error);
    bg_graph_destroy(graph);
    return status;
}

static bg_plan *small_plan(void)
{
    bg_plan *plan = NULL;
    bg_error error = {0};

    if (make_plan(0, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    return plan;
}

static void expect_text(const bg_plan *plan, bg_status (*print)(const bg_plan *, char **, bg_error *),
                        const char *expected)
{
    char *text = NULL;

    assert_int_equal(print(plan, &text, NULL), BG_OK);
    assert_string_equal(text, expected);
    free(text);
}

static void test_placement(void **state)
{
    bg_plan *plan = small_plan();

    (void)state;
    expect_text(plan, bg_plan_print_placement, "block A: stage 0, device 0\nblock B: stage 1, device 1\n");
    bg_plan_destroy(plan);
}

static void test_memory(void **state)
{
    bg_plan *plan = small_plan();

    (void)state;
    expect_text(
        plan, bg_plan_print_memory,
        "bytes        weights   gradients       state       stash   transient      stream      device      budget"
        "      remote\n"
        "device 0        1152        1024           0         512           0         512        3200   unlimited"
        "           0\n"
        "device 1        1216        1024           0         512         320           0        3072   unlimited"
        "           0\n");
    assert_int_equal(bg_plan_memory_bytes(plan, 7, BG_MEMORY_STASH), 0);
    assert_int_equal(bg_plan_memory_bytes(plan, 0, BG_MEMORY_CLASS_COUNT), 0);
    assert_int_equal(bg_plan_device_bytes(plan, 7), 0);
    assert_string_equal(bg_memory_class_name(BG_MEMORY_STREAM), "stream");
    assert_string_equal(bg_memory_class_name(BG_MEMORY_CLASS_COUNT), "unknown");
    bg_plan_destroy(plan);
}

/* A phase has the memory that it touches: 1024 bytes for a matrix, and 256 bytes for x, which has two slots. */
static void test_phases(void **state)
{
    bg_plan *plan = small_plan();

    (void)state;
    expect_text(plan, bg_plan_print_phases,
                "bytes              device     weights   gradients       state       stash   transient      stream"
                "       phase\n"
                "F stage 0               0        1024           0           0         512           0     "
                "      0        1536\n"
                "F stage 1               1        1024           0           0         512         320     "
                "      0        1856\n"
                "B stage 0               0           0        1024           0         512           0     "
                "    512        2048\n"
                "B stage 1               1        1088        1024           0         512         320     "
                "      0        2944\n"
                "U stage 0               0        1152        1024           0           0           0     "
                "      0        2176\n"
                "U stage 1               1        1152        1024           0           0           0     "
                "      0        2176\n");
    bg_plan_destroy(plan);
}

static void test_timetable(void **state)
{
    bg_plan *plan = small_plan();

    (void)state;
    expect_text(plan, bg_plan_print_timetable,
                "step 0  1  2  3  4  5  6  7\n"
                "dev0 F0 .  F1 B0 F2 B1 .  B2\n"
                "dev1 .  F0 B0 F1 B1 F2 B2 .\n");
    bg_plan_destroy(plan);
}

static const char *const program_parts[] = {
    "edge 0: device 0 -> 1, 2 slots of 256 bytes at 2240, stash\n",
    "edge 2: device 0 -> 0, 2 slots of 256 bytes at 2176, stash\n",
    "device 0: 3200 bytes, 0 remote\n  HOST_IN stage 0 micro-batch 0\n    copy 256 bytes d0+2176[e2]\n",
    "  F stage 0 micro-batch 0 acquire e0\n    linear `fc1` d0+2176[e2], d0+0 -> e0+0\n",
    "  SEND stage 0 micro-batch 0 edge 0\n",
    "  RECEIVE stage 0 micro-batch 0 edge 1\n  B stage 0 micro-batch 0 release e1\n",
    "  U stage 0 micro-batch 0 level 0\n",
    "  HOST_OUT stage 1 micro-batch 2\n",
};

/* The printed program has instructions of each kind, and the edges. */
static void test_program(void **state)
{
    bg_plan *plan = small_plan();
    char *text = NULL;

    (void)state;
    assert_int_equal(bg_plan_print_program(plan, &text, NULL), BG_OK);
    for (size_t i = 0; i < sizeof program_parts / sizeof program_parts[0]; i++)
        if (strstr(text, program_parts[i]) == NULL)
            fail_msg("no `%s` in\n%s", program_parts[i], text);
    free(text);
    bg_plan_destroy(plan);
}

static void test_over_budget(void **state)
{
    bg_plan *plan = NULL;
    bg_error error = {0};

    (void)state;
    assert_int_equal(make_plan(3000, &plan, &error), BG_ERROR_BUDGET);
    assert_null(plan);
    assert_string_equal(error.message,
                        "device 0 needs 3.20 kB (3200 bytes), but its budget is 3.00 kB (3000 bytes); most of it is "
                        "weights (1.15 kB), and the largest variable is `w1`, 1.02 kB; raise the budget\n"
                        "bytes        weights   gradients       state       stash   transient      stream      device"
                        "      budget      remote\n"
                        "device 0        1152        1024           0         512           0         512        3200"
                        "        3000           0\n"
                        "device 1        1216        1024           0         512         320           0        3072"
                        "        3000           0");
}

/* Compiles four linear layers of 2 kB (weights and gradients) in the blocks that `blocks` names, one letter for each
 * layer. */
static bg_status plan_layers(const char *blocks, const bg_options *options, bg_error *error)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, 16), w_type = bg_matrix(BG_FLOAT32, 16, 16);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_value x, loss;
    bg_status status;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &x_type);
    for (int i = 0; i < 4; i++) {
        const char block[2] = {blocks[i], '\0'}, weight[3] = {'w', (char)('0' + i), '\0'};
        if (i == 0 || blocks[i] != blocks[i - 1])
            bg_block_start(graph, block, BG_DEVICE_NONE);
        x = bg_linear(graph, weight, x, bg_graph_parameter(graph, weight, &w_type, NULL), (bg_value){0});
    }
    loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    status = bg_plan_create_training(graph, loss, &optimizer, options, &plan, error);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return status;
}

/* More stages are advised only if one could begin on the device: at a border between blocks that data do not cross in
 * both directions, or at any op for "auto-ops". */
static void test_more_stages(void **state)
{
    static const struct {
        bg_strategy strategy;
        const char *blocks, *stages;
        size_t budget;
        const char *says, *never;
        bool recomputes;
    } cases[] = {
        {BG_STRATEGY_PIPELINED, "ABCD", NULL, 2500, "raise the budget", "stages", false},
        {BG_STRATEGY_PIPELINED, "ABCD", "A,B|C|D", 4000, "use more stages", "raise", false},
        {BG_STRATEGY_PIPELINED, "ABCD", "A|B|C,D", 4000, "use more stages", "raise", false},
        {BG_STRATEGY_PIPELINED, "AACD", "A|C|D", 4000, "raise the budget", "stages", false},
        {BG_STRATEGY_PIPELINED, "ABAD", "A,B|D", 5000, "raise the budget", "stages", false},
        {BG_STRATEGY_PIPELINED, "ABAD", "A,B,D", 5000, "use more stages", "raise", false},
        {BG_STRATEGY_PIPELINED, "AAAA", NULL, 5000, "raise the budget", "stages", false},
        {BG_STRATEGY_PIPELINED, "ABCD", "A,B|C|D", 4000, "use more stages", "raise", true},
        {BG_STRATEGY_PIPELINED, "AACD", "A|C|D", 4000, "raise the budget", "stages", true},
        {BG_STRATEGY_PIPELINED, "AAAA", "auto-ops:2", 5000, "use more stages", "cannot be", false},
        {BG_STRATEGY_PIPELINED, "ABCD", "auto:2", 4000, "use more stages", "cannot be", false},
        {BG_STRATEGY_PIPELINED, "ABCD", "auto:4", 2400,
         "raise the budget (there cannot be more stages, because every part that can be a stage is one)", "use more",
         false},
        {BG_STRATEGY_PIPELINED, "AABB", "auto:2", 4000, "do not help, because a part", "use more", false},
        {BG_STRATEGY_SHARDED, "ABCD", "A,B|C,D", 4000, "use more stages", "raise", false},
        {BG_STRATEGY_SHARDED, "AABB", NULL, 4000, "raise the budget", "stages", false},
        {BG_STRATEGY_SINGLE, "ABCD", NULL, 5000, "use a strategy with stages (--strategy pipelined)", "more stages",
         false},
        {BG_STRATEGY_SINGLE, "AAAA", NULL, 5000, "raise the budget", "stages", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_options options = bg_options_defaults();
        bg_error error = {0};

        options.execution.strategy = cases[i].strategy;
        options.execution.stages = cases[i].stages;
        options.memory.device_memory_bytes = cases[i].budget;
        options.memory.recompute = cases[i].recomputes ? BG_RECOMPUTE_AUTO : BG_RECOMPUTE_NONE;
        options.numerics.kernels = BG_KERNELS_REFERENCE;
        if (plan_layers(cases[i].blocks, &options, &error) != BG_ERROR_BUDGET ||
            strstr(error.message, cases[i].says) == NULL || strstr(error.message, cases[i].never) != NULL)
            fail_msg("case %zu: \"%s\" must contain \"%s\" and not \"%s\"", i, error.message, cases[i].says,
                     cases[i].never);
    }
}

/* The border must be on the device that is over its budget. */
static void test_more_stages_of_one_device(void **state)
{
    static const bg_device_model devices[2][2] = {{{1, 4000}, {1, 0}}, {{1, 0}, {1, 4000}}};
    static const char *const advice[2] = {"raise the budget", "use more stages"};

    (void)state;
    for (uint32_t device = 0; device < 2; device++) {
        bg_options options = bg_options_defaults();
        bg_error error = {0};
        char words[32];

        options.execution.stages = "A|C,D";
        options.execution.devices = devices[device];
        options.execution.device_model_count = 2;
        options.numerics.kernels = BG_KERNELS_REFERENCE;
        assert_int_equal(plan_layers("AACD", &options, &error), BG_ERROR_BUDGET);
        snprintf(words, sizeof words, "device %u needs ", device);
        if (strstr(error.message, words) == NULL || strstr(error.message, advice[device]) == NULL ||
            strstr(error.message, advice[1 - device]) != NULL)
            fail_msg("device %u: %s", device, error.message);
    }
}

static void test_update_over_budget(void **state)
{
    bg_plan *plan = NULL;
    bg_error error = {0};

    (void)state;
    assert_int_equal(make_plan(2000, &plan, &error), BG_ERROR_BUDGET);
    assert_string_equal(error.message,
                        "the update of `w1` alone needs 2.11 kB (2112 bytes) at once for the weight and its gradient, "
                        "but the budget of device 0 is 2.00 kB (2000 bytes). Offloading, recomputation and more stages "
                        "do not make an update smaller: raise the budget, or divide the layer over devices (tensor "
                        "parallelism: docs/strategies.md)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_timetable),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_over_budget),
        cmocka_unit_test(test_more_stages),
        cmocka_unit_test(test_more_stages_of_one_device),
        cmocka_unit_test(test_update_over_budget),
    };

    return cmocka_run_group_tests_name("plan/describe", tests, NULL, NULL);
}
