/*
 * op_case.c: compares one op with the oracle.
 */
#include "support/op_case.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/ops.h>

#include "kernels/reference/element.h"
#include "graph/graph.h"
#include "support/interpret.h"

typedef struct op_graph {
    const bgi_test_oracle *oracle;
    const bgi_test_op_case *test;
    bg_graph *graph;
    uint32_t input_count;
    bg_value inputs[BGI_TEST_OP_INPUTS];
    bool needs[BGI_TEST_OP_INPUTS];
    bg_value outputs[BGI_TEST_OP_OUTPUTS];
    bg_value dy[BGI_TEST_OP_OUTPUTS];
    bg_value gradients[BGI_TEST_OP_INPUTS];
} op_graph;

static const bgi_test_tensor *find_prefixed(const op_graph *built, const char *prefix, const char *name,
                                            const char *suffix)
{
    char text[64];

    snprintf(text, sizeof text, "%s%s%s", prefix, name, suffix);
    return bgi_test_oracle_try(built->oracle, built->test->name, text);
}

static bg_type input_type(const bgi_test_oracle *oracle, const bgi_test_op_case *test, uint32_t i, bg_dtype dtype)
{
    const bgi_test_tensor *tensor = bgi_test_oracle_find(oracle, test->name, test->inputs[i]);
    const bool is_integer = test->integers != NULL && strcmp(test->integers, test->inputs[i]) == 0;

    return bgi_test_tensor_type(tensor, is_integer ? test->integer_dtype : dtype);
}

static void require_graph(const bg_graph *graph)
{
    bg_error error = {0};

    if (bg_graph_check(graph, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void add_gradient(op_graph *built)
{
    bg_type types[BGI_TEST_OP_INPUTS + BGI_TEST_OP_OUTPUTS];
    const bgi_op op = built->graph->ops[0];
    const bg_type y = bg_graph_type(built->graph, built->outputs[0]);
    bg_op_gradient gradient = {.graph = built->graph,
                               .op = bgi_op_signature(built->graph, &op, types),
                               .inputs = built->inputs,
                               .outputs = built->outputs,
                               .output_gradients = built->dy,
                               .needs = built->needs,
                               .input_gradients = built->gradients};
    bg_error error = {0};

    built->dy[0] = bg_graph_variable(built->graph, "dy", &y, BG_ROLE_BUFFER, NULL);
    if (built->test->op_type->gradient(&gradient, &error) != BG_OK)
        fail_msg("%s: %s", built->test->name, error.message);
    for (uint32_t i = 0; i < built->input_count; i++)
        assert_int_equal(built->needs[i], !bg_value_is_null(built->gradients[i]));
}

static op_graph build(const bgi_test_oracle *oracle, const bgi_test_op_case *test, bg_dtype dtype, bool with_gradients)
{
    op_graph built = {.oracle = oracle, .test = test};

    assert_int_equal(bg_graph_create(&built.graph, NULL), BG_OK);
    for (; built.input_count < BGI_TEST_OP_INPUTS && test->inputs[built.input_count] != NULL; built.input_count++) {
        const char *name = test->inputs[built.input_count];
        const bg_type type = input_type(oracle, test, built.input_count, dtype);

        built.inputs[built.input_count] = bg_graph_variable(built.graph, name, &type, BG_ROLE_BUFFER, NULL);
        built.needs[built.input_count] = find_prefixed(&built, "d", name, "") != NULL;
    }
    bg_graph_add(built.graph, test->op_type, test->name, built.inputs, built.input_count, test->attributes,
                 built.outputs);
    require_graph(built.graph);
    if (with_gradients && !test->is_inference)
        add_gradient(&built);
    return built;
}

static void compare_value(const bgi_test_interpreter *interpreter, bg_value value, const bgi_test_tensor *wanted,
                          double absolute, double relative)
{
    const bg_type type = bg_graph_type(interpreter->graph, value);
    double *actual = malloc((size_t)bg_type_element_count(&type) * sizeof *actual);

    assert_non_null(actual);
    assert_int_equal(bg_type_element_count(&type), wanted->count);
    bgi_test_get(interpreter, value, actual);
    bgi_test_compare(wanted, actual, absolute, relative);
    free(actual);
}

static void compare_all(const op_graph *built, const bgi_test_interpreter *interpreter, double absolute,
                        double relative)
{
    for (uint32_t i = 0; i < BGI_TEST_OP_OUTPUTS; i++)
        if (built->test->outputs[i] != NULL)
            compare_value(interpreter, built->outputs[i],
                          bgi_test_oracle_find(built->oracle, built->test->name, built->test->outputs[i]), absolute,
                          relative);
    for (uint32_t i = 0; i < built->input_count; i++) {
        const bgi_test_tensor *after = find_prefixed(built, "", built->test->inputs[i], "_after");
        const bgi_test_tensor *gradient = find_prefixed(built, "d", built->test->inputs[i], "");

        if (after != NULL)
            compare_value(interpreter, built->inputs[i], after, absolute, relative);
        if (gradient != NULL && !bg_value_is_null(built->gradients[i]))
            compare_value(interpreter, built->gradients[i], gradient, absolute, relative);
    }
}

void bgi_test_op_case_run(const bgi_test_oracle *oracle, const bgi_test_op_case *test, bg_dtype dtype, double absolute,
                          double relative, bool with_gradients)
{
    op_graph built = build(oracle, test, dtype, with_gradients);
    bgi_test_interpreter interpreter;

    bgi_test_interpreter_init(&interpreter, built.graph);
    interpreter.env.training = !test->is_inference;
    for (uint32_t i = 0; i < built.input_count; i++)
        bgi_test_set(&interpreter, built.inputs[i], bgi_test_oracle_find(oracle, test->name, test->inputs[i])->values);
    if (!bg_value_is_null(built.dy[0]))
        bgi_test_set(&interpreter, built.dy[0], bgi_test_oracle_find(oracle, test->name, "dy")->values);
    bgi_test_interpret(&interpreter);
    compare_all(&built, &interpreter, absolute, relative);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(built.graph);
}

void bgi_test_op_case_run_all(const bgi_test_oracle *oracle, const bgi_test_op_case *test, bool bfloat16_gradients)
{
    bgi_test_op_case_run(oracle, test, BG_FLOAT64, 1e-8, 1e-8, true);
    bgi_test_op_case_run(oracle, test, BG_FLOAT32, 3e-6, 3e-6, true);
    bgi_test_op_case_run(oracle, test, BG_BFLOAT16, 2e-2, 8e-3, bfloat16_gradients);
    bgi_test_op_case_run(oracle, test, BG_FLOAT16, 3e-3, 1e-3, bfloat16_gradients);
}

void bgi_test_op_case_check_gradient(const bgi_test_oracle *oracle, const bgi_test_op_case *test)
{
    bg_type types[BGI_TEST_OP_INPUTS];
    void *values[BGI_TEST_OP_INPUTS] = {NULL};
    uint32_t count = 0;
    bg_error error = {0};
    bg_status status;

    for (; count < BGI_TEST_OP_INPUTS && test->inputs[count] != NULL; count++) {
        const bgi_test_tensor *tensor = bgi_test_oracle_find(oracle, test->name, test->inputs[count]);

        types[count] = input_type(oracle, test, count, BG_FLOAT64);
        if (test->has_kinks && bg_dtype_is_float(types[count].dtype))
            continue;
        values[count] = malloc(bg_type_size_bytes(&types[count]));
        assert_non_null(values[count]);
        for (int64_t i = 0; i < tensor->count; i++)
            bgi_store(types[count].dtype, values[count], i, tensor->values[i]);
    }
    status =
        bg_gradient_check(test->op_type, test->attributes, types, (const void *const *)values, count, NULL, &error);
    for (uint32_t i = 0; i < count; i++)
        free(values[i]);
    if (status != BG_OK)
        fail_msg("%s: %s", test->name, error.message);
}

void bgi_test_op_refuses(const bg_op_type *op_type, const void *attributes, const bg_type *types, uint32_t input_count,
                         bg_status status, const char *const *parts)
{
    bg_value inputs[BGI_TEST_OP_INPUTS];
    bg_graph *graph = NULL;
    bg_error error = {0};

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    for (uint32_t i = 0; i < input_count; i++) {
        char name[32];

        snprintf(name, sizeof name, "operand%u", (unsigned)i);
        inputs[i] = bg_graph_variable(graph, name, &types[i], BG_ROLE_BUFFER, NULL);
    }
    require_graph(graph);
    assert_true(bg_value_is_null(bg_graph_add(graph, op_type, "victim", inputs, input_count, attributes, NULL)));
    assert_int_equal(bg_graph_check(graph, &error), status);
    assert_non_null(strstr(error.message, "victim"));
    for (; *parts != NULL; parts++)
        if (strstr(error.message, *parts) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", error.message, *parts);
    bg_graph_destroy(graph);
}
