/*
 * test_readers.c: a value has no reader, one or several; an output of the graph counts as several.
 */
#include "transform/small.h"

#include "transform/readers.h"

static void test_readers_are_counted(void **state)
{
    bg_graph *graph = small_create();
    const bg_value x = small_input(graph, "x"), unused = small_input(graph, "unused"), w = small_weight(graph, "w");
    const bg_value read_once = small_linear(graph, "fc", x, w);
    const bg_value read_twice = bg_elementwise_unary(graph, "relu", BG_RELU, read_once);
    const bg_value sum = bg_elementwise_binary(graph, "sum", BG_ADD, read_twice, read_twice);
    uint32_t *readers;

    (void)state;
    bg_graph_output(graph, "y", sum);
    readers = bgi_readers_find(graph);
    assert_non_null(readers);
    assert_int_equal(readers[unused.id], BGI_UNREAD);
    assert_ptr_equal(bgi_readers_only(graph, readers, read_once), &graph->ops[1]);
    assert_int_equal(readers[read_twice.id], BGI_SHARED);
    assert_int_equal(readers[sum.id], BGI_SHARED);
    assert_null(bgi_readers_only(graph, readers, unused));
    assert_null(bgi_readers_only(graph, readers, sum));
    assert_false(bgi_readers_of_rest(readers, &graph->ops[0]));
    free(readers);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_are_counted),
    };

    return cmocka_run_group_tests_name("transform/readers", tests, NULL, NULL);
}
