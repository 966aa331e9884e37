/*
 * toy_ops.h: a table of four ops over float32, for tests of graph/, which does not depend on the library's ops.
 *
 *     sum     x, y (same type) -> z, and optionally a scalar (attribute `with_note`)
 *     view    x -> x as one dimension (an alias)
 *     tick    variable! , x  -> nothing: changes the variable
 *     absent  x -> nothing typed
 */
#ifndef BGI_TEST_TOY_OPS_H
#define BGI_TEST_TOY_OPS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

typedef struct toy_sum_attributes {
    int with_note;
} toy_sum_attributes;

static inline bg_status toy_infer_sum(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const toy_sum_attributes *attributes = op->attributes;
    char a[BG_TYPE_TEXT_BYTES], b[BG_TYPE_TEXT_BYTES];

    if (op->input_count == 2 && !bg_type_equal(&op->types[0], &op->types[1]))
        return bg_error_set(error, BG_ERROR_SHAPE, "%s and %s cannot be added", bg_type_text(&op->types[0], a),
                            bg_type_text(&op->types[1], b));
    outputs[0] = op->types[0];
    if (attributes->with_note)
        outputs[1] = bg_scalar(BG_FLOAT32);
    return BG_OK;
}

static inline bg_status toy_infer_view(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = bg_vector(op->types[0].dtype, bg_type_element_count(&op->types[0]));
    return BG_OK;
}

static inline bg_status toy_infer_nothing(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)op;
    (void)outputs;
    (void)error;
    return BG_OK;
}

/* Returns an error, because the ops are only for graphs and never run. */
static inline bg_status toy_kernel(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op;
    (void)policy;
    (void)out;
    return bg_error_set(error, BG_ERROR_UNSUPPORTED, "toy ops cannot run");
}

static const bg_op_type toy_sum = {BG_OP_TYPE_DEFAULTS,    .name = "sum",
                                   .minimum_inputs = 1,    .maximum_inputs = 2,
                                   .output_count = 2,      .attributes_bytes = sizeof(toy_sum_attributes),
                                   .infer = toy_infer_sum, .kernel = toy_kernel};
static const bg_op_type toy_view = {.name = "view",
                                    .minimum_inputs = 1,
                                    .maximum_inputs = 1,
                                    .output_count = 1,
                                    .alias_input = 0,
                                    .reuse_input = BG_NO_OPERAND,
                                    .weight_output = BG_NO_OPERAND,
                                    .infer = toy_infer_view,
                                    .kernel = toy_kernel};
static const bg_op_type toy_tick = {BG_OP_TYPE_DEFAULTS, .name = "tick",      .minimum_inputs = 2,
                                    .maximum_inputs = 2, .written_inputs = 1, .infer = toy_infer_nothing,
                                    .kernel = toy_kernel};

static inline bg_value toy_add(bg_graph *graph, const char *name, bg_value a, bg_value b)
{
    const toy_sum_attributes attributes = {0};

    return bg_graph_add(graph, &toy_sum, name, (bg_value[]){a, b}, 2, &attributes, NULL);
}

static inline bg_graph *toy_graph(void)
{
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    return graph;
}

static inline bg_value toy_input(bg_graph *graph, const char *name)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);

    return bg_graph_input(graph, name, &type);
}

static inline bg_value toy_variable(bg_graph *graph, const char *name)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);

    return bg_graph_parameter(graph, name, &type, NULL);
}

/* Checks the status and the text of the graph's first error. */
static inline void toy_expect_error(const bg_graph *graph, bg_status status, const char *part)
{
    bg_error error = {0};

    assert_int_equal(bg_graph_check(graph, &error), status);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, part);
}

#endif
