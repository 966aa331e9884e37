/*
 * test_verify.c: the verifier finds every kind of damage that a pass could cause in a graph.
 */
#include "graph/toy_ops.h"

/* Builds x, w -> a -> b; b -> view; tick(w, view). */
static bg_graph *small_graph(void)
{
    bg_graph *graph = toy_graph();
    const bg_value x = toy_input(graph, "x"), w = toy_variable(graph, "w");
    bg_value y = toy_add(graph, "a", x, w);

    y = toy_add(graph, "b", y, y);
    y = bg_graph_add(graph, &toy_view, "v", &y, 1, NULL, NULL);
    bg_graph_add(graph, &toy_tick, "t", (bg_value[]){w, y}, 2, NULL, NULL);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    return graph;
}

static void read_nothing(bg_graph *graph)
{
    graph->ops[1].inputs[0].id = 0;
}
static void read_beyond(bg_graph *graph)
{
    graph->ops[1].inputs[1].id = 100;
}
static void read_later(bg_graph *graph)
{
    graph->ops[0].inputs[0] = graph->ops[1].outputs[0];
}
static void read_itself(bg_graph *graph)
{
    graph->ops[1].inputs[0] = graph->ops[1].outputs[0];
}
static void read_later_phase(bg_graph *graph)
{
    graph->ops[0].phase = BGI_PHASE_UPDATE;
}
static void steal_output(bg_graph *graph)
{
    graph->ops[1].outputs[0] = graph->ops[0].outputs[0];
}
static void change_type(bg_graph *graph)
{
    graph->values[graph->ops[1].outputs[0].id].type = bg_matrix(BG_FLOAT32, 3, 2);
}
static void change_alias(bg_graph *graph)
{
    graph->values[graph->ops[2].outputs[0].id].type = bg_vector(BG_FLOAT32, 7);
}
static void change_operand_type(bg_graph *graph)
{
    graph->values[1].type = bg_matrix(BG_FLOAT32, 3, 2);
}
static void write_input(bg_graph *graph)
{
    graph->ops[3].inputs[0].id = 1;
}
static void write_result(bg_graph *graph)
{
    graph->ops[3].inputs[0] = graph->ops[0].outputs[0];
}
static void leave_blocks(bg_graph *graph)
{
    graph->ops[0].block = 5;
}

static void test_damage_is_found(void **state)
{
    static const struct {
        void (*damage)(bg_graph *);
        const char *part;
    } cases[] = {
        {read_nothing, "op `b`: input 0 is not a value"},
        {read_beyond, "op `b`: input 1 is not a value"},
        {read_later, "op `a` (0) reads `b` before op 1 makes it"},
        {read_itself, "op `b` (1) reads `b` before op 1 makes it"},
        {read_later_phase, "op `b` reads `a`, which a later phase makes"},
        {steal_output, "op `b`: output 0 belongs to another op"},
        {change_type, "op `b`: output 0 is float32[3,2]; its shape rule gives float32[2,3]"},
        {change_alias, "op `v`: output 0 is an alias of an input but has another size"},
        {change_operand_type, "op `a`: float32[3,2] and float32[2,3] cannot be added"},
        {write_input, "op `t` changes `x`, which is not a variable"},
        {write_result, "op `t` changes `a`, which is not a variable"},
        {leave_blocks, "op `a`: block 5 does not exist"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = small_graph();
        bg_error error = {0};
        assert_int_equal(bgi_graph_verify(graph, &error), BG_OK);
        cases[i].damage(graph);
        assert_int_equal(bgi_graph_verify(graph, &error), BG_ERROR_INTERNAL);
        if (strstr(error.message, cases[i].part) == NULL)
            fail_msg("`%s` does not say `%s`", error.message, cases[i].part);
        bg_graph_destroy(graph);
    }
}

/* A value that was loaded from a remote buffer is changed in place only in the update. */
static void test_results_are_written_in_the_update(void **state)
{
    bg_graph *graph = toy_graph();
    bg_value y;

    (void)state;
    graph->phase = BGI_PHASE_UPDATE;
    y = toy_add(graph, "loaded", toy_variable(graph, "w"), (bg_value){0});
    bg_graph_add(graph, &toy_tick, "t", (bg_value[]){y, y}, 2, NULL, NULL);
    assert_int_equal(bgi_graph_verify(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_results_are_written_in_the_update),
    };

    return cmocka_run_group_tests_name("graph/verify", tests, NULL, NULL);
}
