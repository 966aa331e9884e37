/*
 * clone.c: makes a deep copy with the same ids, so that a pass can extend or change one of the two graphs, and both can
 * be run.
 */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static bool copy_array(void **to, size_t *to_capacity, const void *from, size_t count, size_t element_bytes)
{
    if (!bgi_array_reserve(to, to_capacity, count > 0 ? count : 1, element_bytes))
        return false;
    if (count > 0)
        memcpy(*to, from, count * element_bytes);
    return true;
}

/* Copies the table of names. Ids and names are the same, so the slots are too. */
static bool copy_variable_table(bg_graph *to, const bg_graph *from)
{
    if (from->variable_table_size == 0)
        return true;
    to->variable_table = malloc(from->variable_table_size * sizeof *to->variable_table);
    if (to->variable_table == NULL)
        return false;
    memcpy(to->variable_table, from->variable_table, from->variable_table_size * sizeof *to->variable_table);
    to->variable_table_size = from->variable_table_size;
    return true;
}

/* Replaces pointers into the old graph's arena by copies in the new graph's arena. */
static bool copy_owned(bg_graph *to)
{
    bool good = true;

    for (size_t i = 0; i < to->value_count && good; i++) {
        bgi_value *value = &to->values[i];
        good = (value->name = bgi_arena_string(&to->arena, value->name)) != NULL;
        if (good && value->data != NULL)
            good = (value->data = bgi_arena_copy(&to->arena, value->data, bg_type_size_bytes(&value->type))) != NULL;
        if (good && value->shard != NULL)
            good = (value->shard = bgi_arena_copy(&to->arena, value->shard, sizeof *value->shard)) != NULL;
        if (good && value->section != NULL)
            good = (value->section = bgi_section_copy(&to->arena, value->section)) != NULL;
    }
    for (size_t i = 0; i < to->op_count && good; i++) {
        bgi_op *op = &to->ops[i];
        good = (op->name = bgi_arena_string(&to->arena, op->name)) != NULL &&
               (op->inputs = bgi_arena_copy(&to->arena, op->inputs, op->input_count * sizeof *op->inputs)) != NULL &&
               (op->outputs = bgi_arena_copy(&to->arena, op->outputs, op->type->output_count * sizeof *op->outputs)) !=
                   NULL;
        if (good && op->attributes != NULL)
            good = (op->attributes = bgi_arena_copy(&to->arena, op->attributes, op->type->attributes_bytes)) != NULL;
    }
    for (size_t i = 0; i < to->block_count && good; i++) {
        bgi_block *block = &to->blocks[i];
        good = (block->name = bgi_arena_string(&to->arena, block->name)) != NULL &&
               (block->origin == NULL || (block->origin = bgi_arena_string(&to->arena, block->origin)) != NULL);
    }
    for (size_t i = 0; i < to->output_count && good; i++)
        good = (to->outputs[i].name = bgi_arena_string(&to->arena, to->outputs[i].name)) != NULL;
    return good;
}

bg_status bgi_graph_clone(const bg_graph *graph, bg_graph **out, bg_error *error)
{
    bg_graph *copy;

    BGI_TRY(bg_graph_check(graph, error));
    copy = malloc(sizeof *copy);
    if (copy == NULL)
        return bgi_error_memory(error, "a copy of a graph", sizeof *copy);
    *copy = *graph;
    copy->arena = (bgi_arena){.allocator = graph->arena.allocator};
    copy->values = NULL, copy->ops = NULL, copy->blocks = NULL, copy->outputs = NULL, copy->variable_table = NULL;
    copy->value_capacity = copy->op_capacity = copy->block_capacity = copy->output_capacity = 0;
    copy->variable_table_size = 0;
    copy->prefix[0] = '\0'; /* passes name their values after existing ones */
    copy->prefix_count = 0;
    if (!copy_array((void **)&copy->values, &copy->value_capacity, graph->values, graph->value_count,
                    sizeof *graph->values) ||
        !copy_array((void **)&copy->ops, &copy->op_capacity, graph->ops, graph->op_count, sizeof *graph->ops) ||
        !copy_array((void **)&copy->blocks, &copy->block_capacity, graph->blocks, graph->block_count,
                    sizeof *graph->blocks) ||
        !copy_array((void **)&copy->outputs, &copy->output_capacity, graph->outputs, graph->output_count,
                    sizeof *graph->outputs) ||
        !copy_variable_table(copy, graph) || !copy_owned(copy)) {
        bg_graph_destroy(copy);
        return bgi_error_memory(error, "a copy of a graph", 0);
    }
    *out = copy;
    return BG_OK;
}
