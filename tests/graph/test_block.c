/*
 * test_block.c: tests which block an op is in.
 */
#include "graph/toy_ops.h"

#include <stdio.h>

/* Adds an op and returns its block; "-": no block. */
static const char *block_now(bg_graph *graph, bg_value x)
{
    toy_add(graph, NULL, x, x);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    const uint32_t block = graph->ops[graph->op_count - 1].block;
    return block == BGI_BLOCK_NONE ? "-" : graph->blocks[block].name;
}

static void test_scopes(void **state)
{
    bg_graph *graph = toy_graph();
    const bg_value x = toy_input(graph, "x");

    (void)state;
    assert_string_equal(block_now(graph, x), "");
    bg_block_begin(graph, "A", 3);
    assert_string_equal(block_now(graph, x), "A");
    bg_block_begin(graph, "B", BG_DEVICE_NONE);
    assert_string_equal(block_now(graph, x), "B");
    bg_block_end(graph);
    assert_string_equal(block_now(graph, x), "A");
    bg_block_end(graph);
    assert_string_equal(block_now(graph, x), "-");
    bg_block_begin(graph, "A", BG_DEVICE_NONE); /* the same block again */
    assert_string_equal(block_now(graph, x), "A");
    bg_block_end(graph);
    assert_int_equal(graph->block_count, 3);
    assert_int_equal(graph->blocks[1].device, 3);
    assert_int_equal(graph->blocks[2].device, BG_DEVICE_NONE);
    bg_graph_destroy(graph);
}

static void test_started_blocks_last_until_the_next(void **state)
{
    bg_graph *graph = toy_graph();
    const bg_value x = toy_input(graph, "x");

    (void)state;
    bg_block_start(graph, "A", 0);
    assert_string_equal(block_now(graph, x), "A");
    assert_string_equal(block_now(graph, x), "A");
    bg_block_start(graph, "B", 1);
    assert_string_equal(block_now(graph, x), "B");
    bg_block_begin(graph, "C", 1);
    bg_block_start(graph, "D", 1);
    assert_string_equal(block_now(graph, x), "D");
    bg_block_end(graph); /* ends block D together with its scope */
    assert_string_equal(block_now(graph, x), "-");
    bg_graph_destroy(graph);
}

static void test_automatic_names_count_unnamed_blocks(void **state)
{
    bg_graph *graph = toy_graph();
    const bg_value x = toy_input(graph, "x");

    (void)state;
    bg_block_start(graph, NULL, BG_DEVICE_NONE);
    assert_string_equal(block_now(graph, x), "0");
    bg_block_start(graph, "named", BG_DEVICE_NONE);
    bg_block_start(graph, NULL, BG_DEVICE_NONE);
    assert_string_equal(block_now(graph, x), "1");
    bg_graph_destroy(graph);
}

static void test_errors(void **state)
{
    bg_graph *graph = toy_graph();

    (void)state;
    bg_block_end(graph);
    toy_expect_error(graph, BG_ERROR_INVALID, "bg_block_end was called without bg_block_begin");
    bg_graph_destroy(graph);

    graph = toy_graph();
    bg_block_start(graph, "A", 1);
    bg_block_start(graph, "A", 1);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_block_start(graph, "A", 2);
    toy_expect_error(graph, BG_ERROR_INVALID, "block `A` is already on device 1, but now it is given device 2");
    bg_graph_destroy(graph);

    graph = toy_graph();
    for (int i = 0; i < 33; i++)
        bg_block_begin(graph, "A", BG_DEVICE_NONE);
    toy_expect_error(graph, BG_ERROR_INVALID, "blocks nest at most 32 deep");
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_started_blocks_last_until_the_next),
        cmocka_unit_test(test_automatic_names_count_unnamed_blocks),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests_name("graph/block", tests, NULL, NULL);
}
