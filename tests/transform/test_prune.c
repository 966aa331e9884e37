/*
 * test_prune.c: ops that the requested outputs do not need are left out, with their inputs.
 */
#include "transform/small.h"

static bg_graph *small_graph(void)
{
    bg_graph *graph = small_create();
    const bg_value x = small_input(graph, "x"), labels = small_input(graph, "labels");
    const bg_value w = small_weight(graph, "w"), v = small_weight(graph, "v");
    bg_value logits, loss;

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    logits = small_linear(graph, "fc", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    small_linear(graph, "dead", logits, v);
    loss = bg_mse_loss(graph, "mse", logits, labels, BG_LOSS_MEAN);
    bg_graph_output(graph, "logits", logits);
    bg_graph_output(graph, "loss", loss);
    bg_graph_output(graph, "given", labels);
    return graph;
}

static const char logits_only[] = "input %x float32[2,3]\n"
                                  "variable %w float32[3,3]\n"
                                  "%3 float32[2,3] = linear(%x, %w)  # forward A `fc`\n"
                                  "output logits = %3\n";

static void test_wanted_outputs(void **state)
{
    bg_graph *graph = small_graph(), *pruned = NULL;

    (void)state;
    assert_int_equal(bgi_prune(graph, (const char *const[]){"logits"}, 1, &pruned, NULL), BG_OK);
    small_expect_text(pruned, logits_only);
    assert_int_equal(pruned->block_count, 3); /* blocks keep their numbers */
    bg_graph_destroy(graph);
    bg_graph_destroy(pruned);
}

static void test_all_outputs(void **state)
{
    bg_graph *graph = small_graph(), *pruned = NULL;

    (void)state;
    assert_int_equal(bgi_prune(graph, NULL, 0, &pruned, NULL), BG_OK);
    small_expect_text(pruned, "input %x float32[2,3]\n"
                              "input %labels float32[2,3]\n"
                              "variable %w float32[3,3]\n"
                              "%4 float32[2,3] = linear(%x, %w)  # forward A `fc`\n"
                              "%5 float32[] = pointwise_loss(%4, %labels)  # forward B `mse`\n"
                              "output logits = %4\noutput loss = %5\noutput given = %labels\n");
    bg_graph_destroy(graph);
    bg_graph_destroy(pruned);
}

static void test_nothing_wanted(void **state)
{
    bg_graph *graph = small_graph(), *pruned = NULL;

    (void)state;
    assert_int_equal(bgi_prune(graph, (const char *const[]){"no such"}, 1, &pruned, NULL), BG_OK);
    assert_int_equal(pruned->op_count, 0);
    assert_int_equal(pruned->value_count, 1);
    bg_graph_destroy(graph);
    bg_graph_destroy(pruned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wanted_outputs),
        cmocka_unit_test(test_all_outputs),
        cmocka_unit_test(test_nothing_wanted),
    };

    return cmocka_run_group_tests_name("transform/prune", tests, NULL, NULL);
}
