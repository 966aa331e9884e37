/*
 * test_describe.c: compares the printed forms of a small plan with expected texts, and tests the message of a plan that
 * does not fit.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

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
                        "weights (1.15 kB), and the largest variable is `w1`, 1.02 kB; use more stages\n"
                        "bytes        weights   gradients       state       stash   transient      stream      device"
                        "      budget      remote\n"
                        "device 0        1152        1024           0         512           0         512        3200"
                        "        3000           0\n"
                        "device 1        1216        1024           0         512         320           0        3072"
                        "        3000           0");
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
        cmocka_unit_test(test_placement),          cmocka_unit_test(test_memory),  cmocka_unit_test(test_phases),
        cmocka_unit_test(test_timetable),          cmocka_unit_test(test_program), cmocka_unit_test(test_over_budget),
        cmocka_unit_test(test_update_over_budget),
    };

    return cmocka_run_group_tests_name("plan/describe", tests, NULL, NULL);
}
