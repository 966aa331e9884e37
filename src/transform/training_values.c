/*
 * training_values.c: adds variables for the files of the training pass, and enters the block of ops that belong to the
 * loss.
 */
#include "transform/training.h"

#include "ops/ops.h"

bg_value bgi_add_training_variable(bg_graph *graph, const char *name, const char *suffix, const bg_type *type,
                                   bg_variable_role role, bg_value owner)
{
    const char *full = bgi_arena_format(&graph->arena, "%s.%s", name, suffix);
    bg_value variable;

    if (full == NULL) {
        bg_graph_fail(graph, BG_ERROR_MEMORY, "out of memory for a name");
        return (bg_value){0};
    }
    variable = bg_graph_variable(graph, full, type, role, NULL);
    if (!bg_value_is_null(variable))
        graph->values[variable.id].owner = owner;
    return variable;
}

void bgi_enter_loss_block(const bgi_trainer *trainer)
{
    bg_graph *graph = trainer->graph;
    const bool is_counted = trainer->term_count == 1 && !bg_value_is_null(trainer->terms[0].weight);
    const bg_value known = is_counted ? trainer->terms[0].weight : trainer->loss;

    graph->current_block = graph->ops[bgi_graph_value(graph, known)->op].block;
}
