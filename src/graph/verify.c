/*
 * verify.c: verifies what every pass may rely on and must preserve.
 */
#include "graph/graph.h"

#include <stdlib.h>

#include "core/error.h"

static bg_status verify_input(const bg_graph *graph, const bgi_op *op, uint32_t op_index, uint32_t i, bg_error *error)
{
    const bgi_value *value;

    if (op->inputs[i].id == 0 || op->inputs[i].id >= graph->value_count)
        return bg_error_set(error, BG_ERROR_INTERNAL, "op `%s`: input %u is not a value", op->name, i);
    value = bgi_graph_value(graph, op->inputs[i]);
    if (bgi_op_type_writes(op->type, i) && !bgi_value_is_writable(graph, op->inputs[i], op->phase))
        return bg_error_set(error, BG_ERROR_INTERNAL, "op `%s` changes `%s`, which is not a variable", op->name,
                            value->name);
    if (value->kind == BGI_VALUE_NONE)
        return bg_error_set(error, BG_ERROR_INTERNAL, "op `%s`: input %u was removed", op->name, i);
    if (value->kind != BGI_VALUE_RESULT)
        return BG_OK;
    if (value->op >= op_index)
        return bg_error_set(error, BG_ERROR_INTERNAL, "op `%s` (%u) reads `%s` before op %u makes it", op->name,
                            op_index, value->name, value->op);
    if (graph->ops[value->op].phase > op->phase)
        return bg_error_set(error, BG_ERROR_INTERNAL, "op `%s` reads `%s`, which a later phase makes", op->name,
                            value->name);
    return BG_OK;
}

static bg_status verify_outputs(const bg_graph *graph, const bgi_op *op, uint32_t op_index, bg_error *error)
{
    for (uint32_t i = 0; i < op->output_count; i++) {
        const bgi_value *value;

        if (bg_value_is_null(op->outputs[i]))
            continue;
        value = bgi_graph_value(graph, op->outputs[i]);
        if (value->kind != BGI_VALUE_RESULT || value->op != op_index || value->output != i)
            return bg_error_set(error, BG_ERROR_INTERNAL, "op `%s`: output %u belongs to another op", op->name, i);
    }
    if (op->type->alias_input != BG_NO_OPERAND) {
        const bg_type in = bg_graph_type(graph, op->inputs[op->type->alias_input]);
        const bg_type out = bg_graph_type(graph, op->outputs[0]);
        if (bg_type_size_bytes(&in) != bg_type_size_bytes(&out))
            return bg_error_set(error, BG_ERROR_INTERNAL,
                                "op `%s`: output 0 is an alias of an input but has another size", op->name);
    }
    return BG_OK;
}

/* Checks that the shape rule still gives the same types, because passes may have changed operands. */
static bg_status verify_types(const bg_graph *graph, const bgi_op *op, bg_error *error)
{
    bg_type types[64], outputs[64] = {{0}};
    bg_op_signature signature = bgi_op_signature(graph, op, types);

    signature.output_count = 0;
    if (op->type->infer(&signature, outputs, error) != BG_OK)
        return bg_error_context(error, BG_ERROR_INTERNAL, "op `%s`", op->name);
    for (uint32_t i = 0; i < op->output_count; i++) {
        const bg_type have = bg_graph_type(graph, op->outputs[i]);
        char have_text[BG_TYPE_TEXT_BYTES], want_text[BG_TYPE_TEXT_BYTES];
        if (!bg_type_equal(&have, &outputs[i]))
            return bg_error_set(error, BG_ERROR_INTERNAL, "op `%s`: output %u is %s; its shape rule gives %s", op->name,
                                i, bg_type_text(&have, have_text), bg_type_text(&outputs[i], want_text));
    }
    return BG_OK;
}

bg_status bgi_graph_verify(const bg_graph *graph, bg_error *error)
{
    BGI_TRY(bg_graph_check(graph, error));
    for (uint32_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];

        for (uint32_t i = 0; i < op->input_count; i++)
            BGI_TRY(verify_input(graph, op, o, i, error));
        BGI_TRY(verify_outputs(graph, op, o, error));
        BGI_TRY(verify_types(graph, op, error));
        if (op->block != BGI_BLOCK_NONE && op->block >= graph->block_count)
            return bg_error_set(error, BG_ERROR_INTERNAL, "op `%s`: block %u does not exist", op->name, op->block);
    }
    return BG_OK;
}
