/*
 * test_group.c: tests initial values of parameters by name and rule. (tests/parity/test_groups.c trains groups.)
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"

static bg_graph *make_graph(void)
{
    const bg_type matrix = bg_matrix(BG_FLOAT32, 6, 10), image = bg_tensor4(BG_FLOAT32, 8, 4, 3, 3);
    const bg_type vector = bg_vector(BG_FLOAT32, 6);
    const bg_shard pieces = {.whole = matrix, .dims = {{.axis = BG_MESH_TENSOR_1}}};
    const bg_initializer first = {.kind = BG_INITIALIZE_NORMAL, .a = 7.0, .b = 9.0};
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_set_mesh(graph, &(bg_mesh){1, 2, 1});
    bg_graph_parameter(graph, "fc.weight", &matrix, &first);
    bg_graph_parameter(graph, "conv.weight", &image, &first);
    bg_graph_parameter(graph, "fc.bias", &vector, &first);
    bg_graph_sharded_parameter(graph, "cut.weight", &pieces, &first);
    bg_graph_variable(graph, "state.weight", &matrix, BG_ROLE_BUFFER, &first);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    return graph;
}

static void expect(bg_graph *graph, const char *name, bg_initializer_kind kind, double a, double b)
{
    const bg_initializer *found = &bgi_graph_value(graph, bg_graph_find_variable(graph, name))->initializer;

    if (found->kind != kind || fabs(found->a - a) > 1e-15 || fabs(found->b - b) > 1e-15)
        fail_msg("%s: %d %.17g %.17g", name, (int)found->kind, found->a, found->b);
}

static void test_rules(void **state)
{
    bg_graph *graph = make_graph();
    /* torch.nn.init._calculate_fan_in_and_fan_out: 10 and 6; 36 and 72 */
    const double bound = 0.5 * sqrt(6.0 / 16.0), deviation = sqrt(2.0) / sqrt(36.0);

    (void)state;
    bg_graph_initialize(graph, "*.weight", "xavier_uniform", 0.5, 0.0);
    expect(graph, "fc.weight", BG_INITIALIZE_UNIFORM, -bound, bound);
    expect(graph, "cut.weight", BG_INITIALIZE_UNIFORM, -bound, bound); /* fans of the whole tensor */
    expect(graph, "conv.weight", BG_INITIALIZE_UNIFORM, -0.5 * sqrt(6.0 / 108.0), 0.5 * sqrt(6.0 / 108.0));
    expect(graph, "fc.bias", BG_INITIALIZE_NORMAL, 7.0, 9.0);
    expect(graph, "state.weight", BG_INITIALIZE_NORMAL, 7.0, 9.0); /* no parameter */
    bg_graph_initialize(graph, "conv.*", "kaiming_normal", sqrt(2.0), 0.0);
    expect(graph, "conv.weight", BG_INITIALIZE_NORMAL, 0.0, deviation);
    bg_graph_initialize(graph, "conv.*", "kaiming_uniform_out", 1.0, 0.0);
    expect(graph, "conv.weight", BG_INITIALIZE_UNIFORM, -sqrt(3.0 / 72.0), sqrt(3.0 / 72.0));
    bg_graph_initialize(graph, "conv.*", "kaiming_normal_out", 1.0, 0.0);
    expect(graph, "conv.weight", BG_INITIALIZE_NORMAL, 0.0, sqrt(1.0 / 72.0));
    bg_graph_initialize(graph, "conv.*", "kaiming_uniform", 1.0, 0.0);
    expect(graph, "conv.weight", BG_INITIALIZE_UNIFORM, -sqrt(3.0 / 36.0), sqrt(3.0 / 36.0));
    bg_graph_initialize(graph, "fc.weigh?", "xavier_normal", 1.0, 0.0);
    expect(graph, "fc.weight", BG_INITIALIZE_NORMAL, 0.0, sqrt(2.0 / 16.0));
    bg_graph_initialize(graph, "fc.bias", "truncated_normal", 1.0, 0.02);
    expect(graph, "fc.bias", BG_INITIALIZE_TRUNCATED_NORMAL, 1.0, 0.02);
    bg_graph_initialize(graph, "*", "constant", 3.0, 0.0);
    expect(graph, "fc.bias", BG_INITIALIZE_CONSTANT, 3.0, 0.0);
    bg_graph_initialize(graph, "*", "zeros", 3.0, 4.0);
    expect(graph, "fc.bias", BG_INITIALIZE_CONSTANT, 0.0, 0.0);
    bg_graph_initialize(graph, "fc.bias", "ones", 3.0, 4.0);
    expect(graph, "fc.bias", BG_INITIALIZE_CONSTANT, 1.0, 0.0);
    bg_graph_initialize(graph, "*.weight", "orthogonal", 2.0, 0.0);
    expect(graph, "conv.weight", BG_INITIALIZE_ORTHOGONAL, 2.0, 0.0);
    bg_graph_initialize(graph, "conv.weight", "dirac", 4.0, 0.0);
    expect(graph, "conv.weight", BG_INITIALIZE_DIRAC, 4.0, 0.0);
    bg_graph_initialize(graph, "fc.weight", "eye", 4.0, 0.0);
    expect(graph, "fc.weight", BG_INITIALIZE_EYE, 0.0, 0.0);
    bg_graph_initialize(graph, "cut.weight", "sparse", 0.9, 0.01);
    expect(graph, "cut.weight", BG_INITIALIZE_SPARSE, 0.9, 0.01);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

static void refuses(const char *pattern, const char *rule, double a, bg_status status, const char *part)
{
    bg_graph *graph = make_graph();
    bg_error error = {0};

    bg_graph_initialize(graph, pattern, rule, a, 0.0);
    assert_int_equal(bg_graph_check(graph, &error), status);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", error.message, part);
    bg_graph_destroy(graph);
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    refuses("*", "xavier_uniform", 1.0, BG_ERROR_SHAPE,
            "first values of `fc.bias`, float32[6], by xavier_uniform: the parameter must have two dimensions");
    refuses("*", "lecun", 1.0, BG_ERROR_INVALID, "there is no rule `lecun` for first values; the rules are");
    refuses("conv.*", "eye", 1.0, BG_ERROR_SHAPE, "`conv.weight`: the tensor has rank 4, and eye needs a rank from 2");
    refuses("conv.*", "dirac", 3.0, BG_ERROR_INVALID, "`conv.weight`: the number of groups of dirac is 3");
    refuses("fc.w*", "sparse", -0.5, BG_ERROR_INVALID, "`fc.weight`: the share of zeros of sparse is -0.5");
    refuses("*", "orthogonal", 1.0, BG_ERROR_SHAPE, "`fc.bias`: the tensor has rank 1, and orthogonal needs a rank");
    refuses("*", NULL, 1.0, BG_ERROR_INVALID, "there is no rule ``");
    refuses("*", "constant", NAN, BG_ERROR_INVALID, "the numbers for first values are nan and 0");
    refuses("state.*", "constant", 1.0, BG_ERROR_NOT_FOUND, "no parameter has a name like `state.*`");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_what_is_wrong_is_said)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
