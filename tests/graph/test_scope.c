/*
 * test_scope.c: tests the names of values that are added inside name scopes.
 */
#include "graph/toy_ops.h"

static void test_names_get_their_scopes_in_front(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2), entry = bg_vector(BG_FLOAT32, 3);
    const float data[2] = {1, 2};
    bg_graph *graph = toy_graph();
    const bg_value x = toy_input(graph, "x");

    (void)state;
    bg_scope_begin(graph, "encoder.layer.%d", 3);
    assert_string_equal(bg_graph_name(graph, bg_graph_parameter(graph, "query.weight", &type, NULL)),
                        "encoder.layer.3.query.weight");
    bg_scope_begin(graph, "inner");
    assert_string_equal(bg_graph_name(graph, bg_graph_parameter(graph, "w", &type, NULL)), "encoder.layer.3.inner.w");
    assert_string_equal(bg_graph_name(graph, bg_graph_constant(graph, "c", &type, data)), "encoder.layer.3.inner.c");
    assert_string_equal(bg_graph_name(graph, toy_add(graph, "sum", x, x)), "encoder.layer.3.inner.sum");
    assert_string_equal(bg_graph_name(graph, toy_add(graph, NULL, x, x)), "encoder.layer.3.inner.sum_1");
    assert_string_equal(bg_graph_name(graph, bg_graph_input(graph, "y", &type)), "y");
    bg_scope_end(graph);
    assert_string_equal(bg_graph_name(graph, toy_add(graph, "sum", x, x)), "encoder.layer.3.sum");
    /* Inside a scope a buffer is found by its name in the scope; outside, the same name is that of another buffer. */
    const bg_value buffer = bg_graph_remote_buffer(graph, "kept", &entry, 2);
    assert_int_equal(bg_graph_remote_buffer(graph, "kept", &entry, 5).id, buffer.id);
    bg_scope_end(graph);
    assert_string_equal(bg_graph_name(graph, toy_add(graph, "sum", x, x)), "sum");
    assert_int_not_equal(bg_graph_remote_buffer(graph, "kept", &entry, 5).id, buffer.id);
    assert_int_equal(bg_graph_find_variable(graph, "encoder.layer.3.kept").id, buffer.id);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

static void test_sections_are_of_a_whole_in_the_scope(void **state)
{
    const bg_section rows = {.name = "w", .whole = bg_matrix(BG_FLOAT32, 4, 2), .axis = 0, .first = 0, .count = 2};
    bg_graph *graph = toy_graph();
    bg_value part;

    (void)state;
    bg_scope_begin(graph, "head");
    part = bg_graph_section_parameter(graph, "w.0", &rows, NULL);
    bg_scope_end(graph);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    assert_string_equal(bg_graph_name(graph, part), "head.w.0");
    assert_string_equal(graph->values[part.id].section->name, "head.w");
    bg_graph_destroy(graph);
}

static void expect_error(bg_graph *graph, const char *words)
{
    bg_error error = {0};

    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_INVALID);
    if (strstr(error.message, words) == NULL)
        fail_msg("%s\nlacks: %s", error.message, words);
    bg_graph_destroy(graph);
}

static void test_errors_give_the_name_in_the_scope(void **state)
{
    const bg_section nameless = {.name = "", .whole = bg_vector(BG_FLOAT32, 4), .count = 2};
    const bg_shard odd = {.whole = bg_vector(BG_FLOAT32, 4), .dims = {{.axis = (bg_mesh_axis)7}}};
    bg_graph *graph = toy_graph();

    (void)state;
    bg_scope_begin(graph, "head");
    bg_graph_section_parameter(graph, "w.0", &nameless, NULL);
    expect_error(graph, "variable `head.w.0`: ");
    graph = toy_graph();
    bg_scope_begin(graph, "head");
    bg_graph_sharded_parameter(graph, "w", &odd, NULL);
    expect_error(graph, "variable `head.w`: ");
}

static void test_the_same_name_is_free_in_another_scope(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    bg_graph *graph = toy_graph();
    bg_error error = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        bg_scope_begin(graph, "%d", i);
        bg_graph_parameter(graph, "w", &type, NULL);
        bg_scope_end(graph);
    }
    assert_int_equal(bg_graph_check(graph, &error), BG_OK);
    bg_scope_begin(graph, "1");
    bg_graph_parameter(graph, "w", &type, NULL);
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "`1.w` already exists"));
    bg_graph_destroy(graph);
}

/* A pass that works on a clone names its values after existing ones. */
static void test_a_clone_has_no_scope(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    bg_graph *graph = toy_graph(), *clone;
    bg_error error = {0};

    (void)state;
    bg_scope_begin(graph, "a");
    bg_graph_parameter(graph, "w", &type, NULL);
    assert_int_equal(bgi_graph_clone(graph, &clone, &error), BG_OK);
    assert_string_equal(bg_graph_name(clone, bg_graph_parameter(clone, "a.w.state", &type, NULL)), "a.w.state");
    bg_graph_destroy(clone);
    bg_graph_destroy(graph);
}

static void test_scopes_that_cannot_be(void **state)
{
    char text[300];
    bg_graph *graph = toy_graph();

    (void)state;
    bg_scope_end(graph);
    expect_error(graph, "bg_scope_end was called without bg_scope_begin");
    graph = toy_graph();
    bg_scope_begin(graph, "%s", "");
    expect_error(graph, "has no name");
    memset(text, 'n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    graph = toy_graph();
    bg_scope_begin(graph, "%s", text);
    expect_error(graph, "at most 254 bytes");
    text[254] = '\0';
    graph = toy_graph();
    bg_scope_begin(graph, "%s", text);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_scope_begin(graph, "m");
    expect_error(graph, "at most 254 bytes");
    graph = toy_graph();
    for (int i = 0; i < 32; i++)
        bg_scope_begin(graph, "%d", i);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_scope_begin(graph, "32");
    expect_error(graph, "at most 32 deep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_get_their_scopes_in_front),
        cmocka_unit_test(test_sections_are_of_a_whole_in_the_scope),
        cmocka_unit_test(test_errors_give_the_name_in_the_scope),
        cmocka_unit_test(test_the_same_name_is_free_in_another_scope),
        cmocka_unit_test(test_a_clone_has_no_scope),
        cmocka_unit_test(test_scopes_that_cannot_be),
    };

    return cmocka_run_group_tests_name("graph/scope", tests, NULL, NULL);
}
