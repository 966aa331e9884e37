/*
 * test_rebuild.c: in a rebuilt graph, leaves keep their order and numbers, and ops their blocks and names.
 */
#include "transform/small.h"

#include "transform/rebuild.h"

static bg_graph *small_graph(void)
{
    bg_graph *graph = small_create();
    bg_value unused, w, labels, x;

    labels = small_input(graph, "labels"); /* read last */
    x = small_input(graph, "x");
    unused = small_weight(graph, "unused");
    w = small_weight(graph, "w");
    (void)unused;
    bg_block_start(graph, "A", 4);
    x = small_linear(graph, "fc", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    bg_graph_output(graph, "y", bg_elementwise_binary(graph, "sum", BG_ADD, x, labels));
    bg_graph_output(graph, "labels", labels);
    bg_graph_next_random_id(graph);
    return graph;
}

static void test_a_full_copy_is_the_same(void **state)
{
    bg_graph *graph = small_graph(), *copy = NULL;
    bgi_rebuild rebuild;
    char *text = NULL;

    (void)state;
    assert_int_equal(bgi_rebuild_begin(&rebuild, graph, NULL, NULL), BG_OK);
    for (size_t o = 0; o < graph->op_count; o++)
        bgi_rebuild_op(&rebuild, &graph->ops[o]);
    assert_int_equal(bgi_rebuild_finish(&rebuild, &copy, NULL), BG_OK);
    assert_int_equal(bg_graph_print(graph, &text, NULL), BG_OK);
    small_expect_text(copy, text);
    assert_int_equal(copy->blocks[1].device, 4);
    assert_int_equal(copy->random_count, 1);
    assert_int_equal(copy->variable_count, 2);
    free(text);
    bg_graph_destroy(graph);
    bg_graph_destroy(copy);
}

static void test_left_out_leaves_do_not_renumber_variables(void **state)
{
    bg_graph *graph = small_graph(), *copy = NULL;
    bool *needed = calloc(graph->value_count, sizeof *needed);
    bgi_rebuild rebuild;

    (void)state;
    needed[bg_graph_find_variable(graph, "w").id] = true;
    needed[2] = true; /* x */
    assert_int_equal(bgi_rebuild_begin(&rebuild, graph, needed, NULL), BG_OK);
    bgi_rebuild_op(&rebuild, &graph->ops[0]);
    assert_int_equal(bgi_rebuild_finish(&rebuild, &copy, NULL), BG_OK);
    /* No outputs are left, because neither was copied. */
    small_expect_text(copy, "input %x float32[2,3]\n"
                            "variable %w float32[3,3]\n"
                            "%3 float32[2,3] = linear(%x, %w)  # forward A `fc`\n");
    assert_int_equal(copy->values[2].variable, 1);
    assert_int_equal(copy->variable_count, 2);
    free(needed);
    bg_graph_destroy(graph);
    bg_graph_destroy(copy);
}

static void test_an_op_without_its_operands_is_an_error(void **state)
{
    bg_graph *graph = small_graph(), *copy = NULL;
    bgi_rebuild rebuild;

    (void)state;
    assert_int_equal(bgi_rebuild_begin(&rebuild, graph, NULL, NULL), BG_OK);
    bgi_rebuild_op(&rebuild, &graph->ops[1]);
    assert_int_not_equal(bgi_rebuild_finish(&rebuild, &copy, NULL), BG_OK);
    assert_null(copy);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_copy_is_the_same),
        cmocka_unit_test(test_left_out_leaves_do_not_renumber_variables),
        cmocka_unit_test(test_an_op_without_its_operands_is_an_error),
    };

    return cmocka_run_group_tests_name("transform/rebuild", tests, NULL, NULL);
}
