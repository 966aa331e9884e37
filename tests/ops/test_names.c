/*
 * test_names.c: an error about an unnamed op contains the name that the op would have got. This holds for errors of
 * builders (axes, options, lists of operands) and of shape rules.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <brigade/ops.h>

typedef struct operands {
    bg_value x, ids; /* float32[2,3], int32[2] */
} operands;

static void softmax(bg_graph *g, operands o)
{
    bg_softmax(g, NULL, o.x, 2);
}
static void log_softmax(bg_graph *g, operands o)
{
    bg_log_softmax(g, NULL, o.x, -3);
}
static void reduce_outside(bg_graph *g, operands o)
{
    bg_reduce(g, NULL, BG_REDUCE_SUM, o.x, (const int32_t[]){5}, 1, false);
}
static void reduce_twice(bg_graph *g, operands o)
{
    bg_reduce(g, NULL, BG_REDUCE_SUM, o.x, (const int32_t[]){1, -1}, 2, false);
}
static void transpose(bg_graph *g, operands o)
{
    bg_transpose(g, NULL, o.x, NULL);
}
static void slice(bg_graph *g, operands o)
{
    bg_slice(g, NULL, o.x, 4, 0, 1, 1);
}
static void concat(bg_graph *g, operands o)
{
    bg_concat(g, NULL, (bg_value[]){o.x, o.x}, 2, 7);
}
static void max_pool(bg_graph *g, operands o)
{
    bg_max_pool2d(g, NULL, o.x, NULL);
}
static void all_reduce(bg_graph *g, operands o)
{
    bg_all_reduce(g, NULL, o.x, BG_REDUCE_SUM, 64);
}
static void sharded_dropout(bg_graph *g, operands o)
{
    bg_sharded_dropout(g, NULL, o.x, 0.5, (bg_mesh_axis)77);
}
static void linear(bg_graph *g, operands o)
{
    bg_linear(g, NULL, o.x, o.ids, (bg_value){0});
}
static void null_operand(bg_graph *g, operands o)
{
    bg_matmul(g, NULL, o.x, (bg_value){0}, false, false);
}

static void every_error_has_a_name(void **state)
{
    static const struct {
        void (*add)(bg_graph *graph, operands o);
        const char *start;
    } cases[] = {
        {softmax, "softmax `softmax_1`: "},
        {log_softmax, "log_softmax `log_softmax_1`: "},
        {reduce_outside, "reduce `reduce_1`: "},
        {reduce_twice, "reduce `reduce_1`: axis 1 is named twice"},
        {transpose, "transpose `transpose_1`: permutation is NULL; it must list the 2 dimensions"},
        {slice, "slice `slice_1`: "},
        {concat, "concat `concat_1`: "},
        {max_pool, "max_pool2d `max_pool2d_1`: options is NULL"},
        {all_reduce, "all_reduce `all_reduce_1`: axes are 0x40"},
        {sharded_dropout, "dropout `dropout_1`: the axis is 77"},
        {linear, "linear `linear_1`: "},
        {null_operand, "matmul `matmul_1`: "},
    };
    const bg_type matrix = bg_matrix(BG_FLOAT32, 2, 3), vector = bg_vector(BG_INT32, 2);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = NULL;
        bg_error error;
        operands o;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        o.ids = bg_graph_input(graph, "ids", &vector);
        o.x = bg_scale(graph, "first", bg_graph_input(graph, "x", &matrix), 2.0, 0.0);
        cases[i].add(graph, o);
        if (bg_graph_check(graph, &error) == BG_OK)
            fail_msg("no error that begins with `%s`", cases[i].start);
        if (strncmp(error.message, cases[i].start, strlen(cases[i].start)) != 0)
            fail_msg("`%s` does not begin with `%s`", error.message, cases[i].start);
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_error_has_a_name)};

    return cmocka_run_group_tests_name("ops/names", tests, NULL, NULL);
}
