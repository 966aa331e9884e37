/*
 * test_clone.c: a copy of a graph prints the same, outlives the original, and changes independently. No failed
 * allocation leaks.
 */
#include "graph/toy_ops.h"

#include "support/allocations.h"

static bg_graph *small_graph(void)
{
    bg_graph *graph = toy_graph();
    const bg_type type = bg_vector(BG_FLOAT32, 6);
    const float data[6] = {1, 2, 3, 4, 5, 6};
    const bg_value x = toy_input(graph, "x"), w = toy_variable(graph, "w");
    bg_value y;

    bg_graph_constant(graph, "c", &type, data);
    bg_block_start(graph, "B1", 0);
    y = toy_add(graph, "a", x, w);
    bg_block_start(graph, "B2", 1);
    bg_graph_output(graph, "out", toy_add(graph, "b", y, y));
    return graph;
}

static char *print(const bg_graph *graph)
{
    char *text = NULL;

    assert_int_equal(bg_graph_print(graph, &text, NULL), BG_OK);
    return text;
}

static void test_copies_are_equal_and_apart(void **state)
{
    bg_graph *graph = small_graph(), *copy = NULL;
    char *before = print(graph), *after;

    (void)state;
    assert_int_equal(bgi_graph_clone(graph, &copy, NULL), BG_OK);
    toy_add(graph, "more", toy_variable(graph, "v"), graph->outputs[0].value);
    bg_graph_destroy(graph);
    after = print(copy);
    assert_string_equal(before, after);
    assert_int_equal(bgi_graph_verify(copy, NULL), BG_OK);
    assert_int_equal(bg_graph_find_variable(copy, "w").id, 2);
    assert_true(bg_value_is_null(bg_graph_find_variable(copy, "v")));
    assert_false(bg_value_is_null(toy_variable(copy, "v")));
    assert_true(((const float *)copy->values[3].data)[5] == 6.0f);
    toy_variable(copy, "w");
    toy_expect_error(copy, BG_ERROR_INVALID, "variable `w` already exists");
    free(before);
    free(after);
    bg_graph_destroy(copy);
}

static void test_broken_graphs_are_not_copied(void **state)
{
    bg_graph *graph = toy_graph(), *copy = NULL;

    (void)state;
    bg_graph_fail(graph, BG_ERROR_SHAPE, "no good");
    assert_int_equal(bgi_graph_clone(graph, &copy, NULL), BG_ERROR_SHAPE);
    assert_null(copy);
    bg_graph_destroy(graph);
}

static void test_failed_allocations(void **state)
{
    bg_graph *graph;

    (void)state;
    if (!test_allocations_available())
        skip();
    graph = small_graph();
    for (uint64_t n = 1;; n++) {
        bg_graph *copy = NULL;
        bg_error error = {0};
        const int64_t before = test_allocations_live();
        test_allocations_fail(n);
        const bg_status status = bgi_graph_clone(graph, &copy, &error);
        const bool have_failed = test_allocations_have_failed();
        test_allocations_fail(0);
        assert_int_equal(status, have_failed ? BG_ERROR_MEMORY : BG_OK);
        bg_graph_destroy(copy);
        assert_int_equal(test_allocations_live(), before);
        if (!have_failed)
            break;
    }
    bg_graph_destroy(graph);
}

/* A failed allocation leaves a sticky error in the graph, too. */
static void test_failed_allocations_of_the_builder(void **state)
{
    (void)state;
    if (!test_allocations_available())
        skip();
    for (uint64_t n = 1;; n++) {
        const int64_t before = test_allocations_live();
        bg_graph *graph = NULL;
        bg_status status;
        bool have_failed;
        test_allocations_fail(n);
        status = bg_graph_create(&graph, NULL);
        if (status == BG_OK) {
            for (int i = 0; i < 100; i++) {
                char name[4] = {'v', (char)('a' + i / 10), (char)('a' + i % 10), 0};
                const bg_value v = toy_variable(graph, name);
                bg_block_start(graph, name, BG_DEVICE_NONE);
                bg_graph_output(graph, name, toy_add(graph, NULL, v, v));
            }
            status = bg_graph_check(graph, NULL);
        }
        have_failed = test_allocations_have_failed();
        test_allocations_fail(0);
        bg_graph_destroy(graph);
        assert_int_equal(status, have_failed ? BG_ERROR_MEMORY : BG_OK);
        assert_int_equal(test_allocations_live(), before);
        if (!have_failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_are_equal_and_apart),
        cmocka_unit_test(test_broken_graphs_are_not_copied),
        cmocka_unit_test(test_failed_allocations),
        cmocka_unit_test(test_failed_allocations_of_the_builder),
    };

    return cmocka_run_group_tests_name("graph/clone", tests, NULL, NULL);
}
