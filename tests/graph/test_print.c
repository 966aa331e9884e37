/*
 * test_print.c: compares printed graphs with expected texts.
 */
#include "graph/toy_ops.h"

static bg_graph *small_graph(void)
{
    bg_graph *graph = toy_graph();
    const toy_sum_attributes with_note = {1};
    const bg_value x = toy_input(graph, "x"), w = toy_variable(graph, "w");
    bg_value y;

    bg_block_begin(graph, "B\"1", BG_DEVICE_NONE);
    y = bg_graph_add(graph, &toy_sum, "a", (bg_value[]){x, w}, 2, &with_note, NULL);
    bg_block_end(graph);
    y = bg_graph_add(graph, &toy_view, NULL, &y, 1, NULL, NULL);
    bg_graph_add(graph, &toy_tick, "t", (bg_value[]){w, y}, 2, NULL, NULL);
    bg_graph_output(graph, "out", y);
    return graph;
}

static void test_text(void **state)
{
    bg_graph *graph = small_graph();
    char *text = NULL;

    (void)state;
    assert_int_equal(bg_graph_print(graph, &text, NULL), BG_OK);
    assert_string_equal(text, "input %x float32[2,3]\n"
                              "variable %w float32[2,3]\n"
                              "%3 float32[2,3], %4 float32[] = sum(%x, %w)  # forward B\"1 `a`\n"
                              "%5 float32[6] = view(%3)  # forward - `view_1`\n"
                              "tick(%w, %5)  # forward - `t`\n"
                              "output out = %5\n");
    free(text);
    bg_graph_destroy(graph);
}

static void test_dot(void **state)
{
    bg_graph *graph = small_graph();
    char *text = NULL;

    (void)state;
    assert_int_equal(bg_graph_print_dot(graph, &text, NULL), BG_OK);
    assert_string_equal(text, "digraph graph_ {\n"
                              "  node [shape=box, fontname=\"sans-serif\"];\n"
                              "  subgraph cluster_0 {\n    label=\"\";\n  }\n"
                              "  subgraph cluster_1 {\n    label=\"B\\\"1\";\n    op0 [label=\"sum\\na\"];\n  }\n"
                              "    op1 [label=\"view\\nview_1\"];\n"
                              "    op2 [label=\"tick\\nt\"];\n"
                              "  v1 [shape=ellipse, label=\"x\\nfloat32[2,3]\"];\n"
                              "  v2 [shape=ellipse, label=\"w\\nfloat32[2,3]\"];\n"
                              "  v1 -> op0;\n"
                              "  v2 -> op0;\n"
                              "  op0 -> op1 [label=\"float32[2,3]\"];\n"
                              "  v2 -> op2;\n"
                              "  op1 -> op2 [label=\"float32[6]\"];\n"
                              "}\n");
    free(text);
    bg_graph_destroy(graph);
}

static void test_broken_graphs_are_not_printed(void **state)
{
    bg_graph *graph = toy_graph();
    char *text = NULL;
    bg_error error = {0};

    (void)state;
    bg_graph_fail(graph, BG_ERROR_SHAPE, "no good");
    assert_int_equal(bg_graph_print(graph, &text, &error), BG_ERROR_SHAPE);
    assert_string_equal(error.message, "no good");
    assert_int_equal(bg_graph_print_dot(graph, &text, NULL), BG_ERROR_SHAPE);
    assert_null(text);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_broken_graphs_are_not_printed),
    };

    return cmocka_run_group_tests_name("graph/print", tests, NULL, NULL);
}
