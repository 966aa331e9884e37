/*
 * print.c: prints a graph as text and in the DOT language.
 */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"

static const char *phase_name(bgi_op_phase phase)
{
    static const char *const names[] = {"forward", "recompute", "backward", "weights", "update"};
    return names[phase];
}

static void print_operand(bgi_string *text, const bg_graph *graph, bg_value value)
{
    const bgi_value *v = bgi_graph_value(graph, value);

    if (v->kind == BGI_VALUE_RESULT || v->kind == BGI_VALUE_NONE)
        bgi_string_add(text, "%%%u", value.id);
    else
        bgi_string_add(text, "%%%s", v->name);
}

static void print_leaf(bgi_string *text, const bgi_value *value)
{
    static const char *const kinds[] = {"none", "input", "constant", "variable", "result"};
    char type[BG_TYPE_TEXT_BYTES];

    bgi_string_add(text, "%s %%%s %s\n", kinds[value->kind], value->name, bg_type_text(&value->type, type));
}

static void print_op(bgi_string *text, const bg_graph *graph, const bgi_op *op)
{
    char type[BG_TYPE_TEXT_BYTES];

    for (uint32_t i = 0; i < op->output_count; i++) {
        if (i > 0)
            bgi_string_add(text, ", ");
        print_operand(text, graph, op->outputs[i]);
        if (!bg_value_is_null(op->outputs[i]))
            bgi_string_add(text, " %s", bg_type_text(&bgi_graph_value(graph, op->outputs[i])->type, type));
    }
    bgi_string_add(text, "%s%s(", op->output_count > 0 ? " = " : "", op->type->name);
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (i > 0)
            bgi_string_add(text, ", ");
        print_operand(text, graph, op->inputs[i]);
    }
    bgi_string_add(text, ")  # %s %s `%s`", phase_name(op->phase),
                   op->block == BGI_BLOCK_NONE ? "-" : graph->blocks[op->block].name, op->name);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (bgi_graph_value(graph, op->outputs[i])->is_checkpoint)
            bgi_string_add(text, " checkpoint %%%u", op->outputs[i].id);
    bgi_string_add(text, "\n");
}

bg_status bg_graph_print(const bg_graph *graph, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(graph, "graph", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};

    BGI_TRY(bg_graph_check(graph, error));
    for (size_t i = 1; i < graph->value_count; i++)
        if (graph->values[i].kind != BGI_VALUE_RESULT && graph->values[i].kind != BGI_VALUE_NONE)
            print_leaf(&text, &graph->values[i]);
    for (size_t i = 0; i < graph->op_count; i++)
        print_op(&text, graph, &graph->ops[i]);
    for (size_t i = 0; i < graph->output_count; i++) {
        bgi_string_add(&text, "output %s = ", graph->outputs[i].name);
        print_operand(&text, graph, graph->outputs[i].value);
        bgi_string_add(&text, "\n");
    }
    return bgi_string_finish(&text, out_text, error);
}

/* Prints a label of DOT. Names come from the user, so quotes and backslashes are escaped. */
static void print_label(bgi_string *text, const char *label)
{
    for (; *label != '\0'; label++)
        bgi_string_add(text, *label == '"' || *label == '\\' ? "\\%c" : "%c", *label);
}

static void print_dot_op(bgi_string *text, const bg_graph *graph, size_t o)
{
    bgi_string_add(text, "    op%zu [label=\"", o);
    print_label(text, graph->ops[o].type->name);
    bgi_string_add(text, "\\n");
    print_label(text, graph->ops[o].name);
    bgi_string_add(text, "\"];\n");
}

bg_status bg_graph_print_dot(const bg_graph *graph, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(graph, "graph", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};
    char type[BG_TYPE_TEXT_BYTES];

    BGI_TRY(bg_graph_check(graph, error));
    bgi_string_add(&text, "digraph graph_ {\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (size_t b = 0; b < graph->block_count; b++) {
        bgi_string_add(&text, "  subgraph cluster_%zu {\n    label=\"", b);
        print_label(&text, graph->blocks[b].name);
        bgi_string_add(&text, "\";\n");
        for (size_t o = 0; o < graph->op_count; o++)
            if (graph->ops[o].block == b)
                print_dot_op(&text, graph, o);
        bgi_string_add(&text, "  }\n");
    }
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].block == BGI_BLOCK_NONE)
            print_dot_op(&text, graph, o);
    for (size_t v = 1; v < graph->value_count; v++)
        if (graph->values[v].kind != BGI_VALUE_RESULT && graph->values[v].kind != BGI_VALUE_NONE) {
            bgi_string_add(&text, "  v%zu [shape=ellipse, label=\"", v);
            print_label(&text, graph->values[v].name);
            bgi_string_add(&text, "\\n%s\"];\n", bg_type_text(&graph->values[v].type, type));
        }
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++) {
            const bg_value input = graph->ops[o].inputs[i];
            const bgi_value *value = bgi_graph_value(graph, input);
            if (value->kind == BGI_VALUE_RESULT)
                bgi_string_add(&text, "  op%u -> op%zu [label=\"%s\"];\n", value->op, o,
                               bg_type_text(&value->type, type));
            else
                bgi_string_add(&text, "  v%u -> op%zu;\n", input.id, o);
        }
    bgi_string_add(&text, "}\n");
    return bgi_string_finish(&text, out_text, error);
}
