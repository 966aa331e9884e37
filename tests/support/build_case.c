/*
 * build_case.c: see build_case.h.
 */
#include "support/build_case.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "support/interpret.h"

enum { MAXIMUM_OPERANDS = 16 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s: %s", bg_status_name(status), error->message);
}

/* ---- reverse mode ---- */

static void add_gradient(bg_graph *graph, bg_value *gradients, bg_value of, bg_value more)
{
    const bg_value both[] = {gradients[of.id], more};

    if (!bg_value_is_null(more))
        gradients[of.id] = bg_value_is_null(both[0]) ? more : bgi_add_n(graph, NULL, both, 2);
}

static void derive_op(bg_graph *graph, const bgi_op *op, bg_value *gradients)
{
    bg_type types[64];
    bg_value output_gradients[32] = {{0}}, input_gradients[32] = {{0}};
    bool needs[32] = {false}, flows = false;
    bg_error error = {0};
    bg_op_gradient gradient = {.graph = graph,
                               .op = bgi_op_signature(graph, op, types),
                               .inputs = op->inputs,
                               .outputs = op->outputs,
                               .output_gradients = output_gradients,
                               .needs = needs,
                               .input_gradients = input_gradients};

    for (uint32_t o = 0; o < op->output_count; o++) {
        output_gradients[o] = gradients[op->outputs[o].id];
        flows = flows || !bg_value_is_null(output_gradients[o]);
    }
    if (!flows || op->type->gradient == NULL)
        return;
    for (uint32_t i = 0; i < op->input_count; i++)
        needs[i] = bg_dtype_is_float(bg_graph_type(graph, op->inputs[i]).dtype);
    require(op->type->gradient(&gradient, &error), &error);
    for (uint32_t i = 0; i < op->input_count; i++)
        add_gradient(graph, gradients, op->inputs[i], input_gradients[i]);
}

void bgi_test_derive(bg_graph *graph, bg_value value, bg_value seed, const bg_value *wanted, uint32_t count,
                     bg_value *gradients)
{
    bg_value *of_values = calloc(graph->value_count, sizeof *of_values);
    bg_error error = {0};

    assert_non_null(of_values);
    of_values[value.id] = seed;
    for (uint32_t i = bg_graph_op_count(graph); i-- > 0;) {
        const bgi_op op = graph->ops[i];

        derive_op(graph, &op, of_values);
    }
    require(bg_graph_check(graph, &error), &error);
    for (uint32_t i = 0; i < count; i++)
        gradients[i] = of_values[wanted[i].id];
    free(of_values);
}

/* ---- against an oracle ---- */

static void compare_value(const bgi_test_interpreter *interpreter, bg_value value, const bgi_test_tensor *wanted,
                          double absolute, double relative)
{
    const bg_type type = bg_graph_type(interpreter->graph, value);
    const bg_type wanted_type = bgi_test_tensor_type(wanted, type.dtype);
    char text[BG_TYPE_TEXT_BYTES], wanted_text[BG_TYPE_TEXT_BYTES];
    double *elements;

    if (!bg_type_equal(&type, &wanted_type))
        fail_msg("%s %s is %s, but the oracle's is %s", wanted->case_name, wanted->name, bg_type_text(&type, text),
                 bg_type_text(&wanted_type, wanted_text));
    elements = malloc((size_t)wanted->count * sizeof *elements);
    assert_non_null(elements);
    bgi_test_get(interpreter, value, elements);
    bgi_test_compare(wanted, elements, absolute, relative);
    free(elements);
}

static const bgi_test_tensor *find_numbered(const bgi_test_oracle *oracle, const char *case_name, const char *prefix,
                                            uint32_t i)
{
    char name[32];

    snprintf(name, sizeof name, "%s%u", prefix, (unsigned)i);
    return bgi_test_oracle_try(oracle, case_name, name);
}

static uint32_t add_operands(bg_graph *graph, const bgi_test_oracle *oracle, const char *case_name, bg_dtype dtype,
                             bg_value *inputs)
{
    uint32_t count = 0;

    for (; count < MAXIMUM_OPERANDS; count++) {
        const bgi_test_tensor *tensor = find_numbered(oracle, case_name, "in", count);
        bg_type type;
        char name[32];

        if (tensor == NULL)
            break;
        type = bgi_test_tensor_type(tensor, dtype);
        snprintf(name, sizeof name, "in%u", (unsigned)count);
        inputs[count] = bg_graph_variable(graph, name, &type, BG_ROLE_PARAMETER, NULL);
    }
    if (count == 0)
        fail_msg("the oracle has no case %s", case_name);
    return count;
}

void bgi_test_build_case(const bgi_test_oracle *oracle, const char *case_name, bg_dtype dtype, bgi_test_build build,
                         const void *argument, double absolute, double relative)
{
    const bgi_test_tensor *dy = bgi_test_oracle_try(oracle, case_name, "dy");
    bg_value inputs[MAXIMUM_OPERANDS] = {{0}}, gradients[MAXIMUM_OPERANDS] = {{0}}, y, seed = {0};
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_error error = {0};
    uint32_t count;

    require(bg_graph_create(&graph, &error), &error);
    count = add_operands(graph, oracle, case_name, dtype, inputs);
    y = build(graph, inputs, argument);
    require(bg_graph_check(graph, &error), &error);
    if (dy != NULL) {
        const bg_type type = bgi_test_tensor_type(dy, dtype);

        seed = bg_graph_variable(graph, "dy", &type, BG_ROLE_BUFFER, NULL);
        bgi_test_derive(graph, y, seed, inputs, count, gradients);
    }
    bgi_test_interpreter_init(&interpreter, graph);
    for (uint32_t i = 0; i < count; i++)
        bgi_test_set(&interpreter, inputs[i], find_numbered(oracle, case_name, "in", i)->values);
    if (dy != NULL)
        bgi_test_set(&interpreter, seed, dy->values);
    bgi_test_interpret(&interpreter);
    compare_value(&interpreter, y, bgi_test_oracle_find(oracle, case_name, "y"), absolute, relative);
    for (uint32_t i = 0; i < count && dy != NULL; i++) {
        const bgi_test_tensor *wanted = find_numbered(oracle, case_name, "d", i);

        assert_non_null(wanted);
        compare_value(&interpreter, gradients[i], wanted, absolute, relative);
    }
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* ---- derivatives and errors ---- */

void bgi_test_gradient(const bg_op_type *op_type, const void *attributes, const bg_type *types, uint32_t count,
                       double low, double high)
{
    bg_gradient_check_options options = bg_gradient_check_defaults();
    bg_error error = {0};

    options.input_low = low;
    options.input_high = high;
    require(bg_gradient_check(op_type, attributes, types, NULL, count, &options, &error), &error);
}

void bgi_test_build_fails(bgi_test_build build, const void *argument, const bg_type *types, uint32_t count,
                          bg_status status, const char *expected)
{
    bg_value inputs[MAXIMUM_OPERANDS] = {{0}};
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_status found;

    require(bg_graph_create(&graph, &error), &error);
    for (uint32_t i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof name, "in%u", (unsigned)i);
        inputs[i] = bg_graph_variable(graph, name, &types[i], BG_ROLE_PARAMETER, NULL);
    }
    require(bg_graph_check(graph, &error), &error);
    build(graph, inputs, argument);
    found = bg_graph_check(graph, &error);
    if (found != status || strstr(error.message, expected) == NULL)
        fail_msg("wanted %s \"%s\", got %s \"%s\"", bg_status_name(status), expected, bg_status_name(found),
                 error.message);
    bg_graph_destroy(graph);
}
