/*
 * rebuild.c: copies a graph op by op. Variables keep their numbers, so that they are initialized in the same way.
 */
#include "transform/rebuild.h"

#include <stdlib.h>

#include "core/error.h"

static bg_value copy_leaf(bgi_rebuild *rebuild, const bgi_value *value)
{
    bg_value copy = {0};

    switch (value->kind) {
    case BGI_VALUE_INPUT:
        return bg_graph_input(rebuild->to, value->name, &value->type);
    case BGI_VALUE_CONSTANT:
        return bg_graph_constant(rebuild->to, value->name, &value->type, value->data);
    case BGI_VALUE_VARIABLE:
        copy = bg_graph_variable(rebuild->to, value->name, &value->type, value->role, &value->initializer);
        if (!bg_value_is_null(copy)) {
            bgi_value *made = &rebuild->to->values[copy.id];
            made->variable = value->variable;
            made->quantized = value->quantized;
            made->is_remote = value->is_remote;
            made->is_partial = value->is_partial;
            made->is_frozen = value->is_frozen;
            made->has_factors = value->has_factors;
            made->rate_factor = value->rate_factor;
            made->decay_factor = value->decay_factor;
            bgi_graph_set_shard(rebuild->to, copy, value->shard);
            bgi_graph_set_section(rebuild->to, copy, value->section);
            made->owner = rebuild->map[value->owner.id]; /* the owner is made before the variables that belong to it */
            made->copy_of = rebuild->map[value->copy_of.id];
            made->shares_home = value->shares_home;
        }
        return copy;
    default:
        return copy;
    }
}

bg_status bgi_rebuild_begin(bgi_rebuild *rebuild, const bg_graph *from, const bool *needed, bg_error *error)
{
    *rebuild = (bgi_rebuild){.from = from};
    BGI_TRY(bg_graph_check(from, error));
    BGI_TRY(bg_graph_create_in(&from->arena.allocator, &rebuild->to, error));
    rebuild->to->mesh = from->mesh;
    rebuild->map = calloc(from->value_count, sizeof *rebuild->map);
    if (rebuild->map == NULL) {
        bgi_rebuild_clear(rebuild);
        return bgi_error_memory(error, "a value map", from->value_count * sizeof *rebuild->map);
    }
    /* Blocks keep their indices: they are all entered once, in order. */
    for (size_t b = 1; b < from->block_count; b++)
        bg_block_start(rebuild->to, from->blocks[b].name, from->blocks[b].device);
    for (size_t b = 1; b < rebuild->to->block_count; b++)
        if (from->blocks[b].origin != NULL &&
            (rebuild->to->blocks[b].origin = bgi_arena_string(&rebuild->to->arena, from->blocks[b].origin)) == NULL)
            bg_graph_fail(rebuild->to, BG_ERROR_MEMORY, "out of memory for block `%s`", from->blocks[b].name);
    /* Leaves keep their order too: a run has inputs, and weight files have variables, in the order in which they were
     * made. */
    for (uint32_t v = 1; v < from->value_count; v++)
        if (from->values[v].kind != BGI_VALUE_RESULT && (needed == NULL || needed[v]))
            rebuild->map[v] = copy_leaf(rebuild, &from->values[v]);
    rebuild->to->number_count = from->number_count;
    rebuild->to->random_count = from->random_count;
    return BG_OK;
}

void bgi_rebuild_clear(bgi_rebuild *rebuild)
{
    bg_graph_destroy(rebuild->to);
    free(rebuild->map);
    *rebuild = (bgi_rebuild){0};
}

bg_value bgi_rebuild_value(const bgi_rebuild *rebuild, bg_value value)
{
    return rebuild->map[value.id];
}

void bgi_rebuild_place(bgi_rebuild *rebuild, const bgi_op *op)
{
    rebuild->to->current_block = op->block;
    rebuild->to->phase = op->phase;
}

void bgi_rebuild_map(bgi_rebuild *rebuild, bg_value old, bg_value value)
{
    if (old.id == 0 || bg_value_is_null(value))
        return;
    rebuild->map[old.id] = value;
    rebuild->to->values[value.id].is_checkpoint |= rebuild->from->values[old.id].is_checkpoint;
}

void bgi_rebuild_op(bgi_rebuild *rebuild, const bgi_op *op)
{
    bg_value inputs[64], outputs[64];

    for (uint32_t i = 0; i < op->input_count; i++)
        inputs[i] = bgi_rebuild_value(rebuild, op->inputs[i]);
    bgi_rebuild_place(rebuild, op);
    bg_graph_add(rebuild->to, op->type, op->name, inputs, op->input_count, op->attributes, outputs);
    for (uint32_t i = 0; i < op->output_count; i++)
        bgi_rebuild_map(rebuild, op->outputs[i], outputs[i]);
}

bg_status bgi_rebuild_finish(bgi_rebuild *rebuild, bg_graph **out, bg_error *error)
{
    const bg_graph *from = rebuild->from;
    bg_status status;

    for (size_t i = 0; i < from->output_count; i++) {
        const bg_value value = bgi_rebuild_value(rebuild, from->outputs[i].value);
        if (!bg_value_is_null(value))
            bg_graph_output(rebuild->to, from->outputs[i].name, value);
    }
    if (rebuild->to->variable_count < from->variable_count)
        rebuild->to->variable_count = from->variable_count;
    status = bg_graph_check(rebuild->to, error);
    if (status == BG_OK)
        status = bgi_graph_verify(rebuild->to, error);
    if (status == BG_OK) {
        *out = rebuild->to;
        rebuild->to = NULL;
    }
    bgi_rebuild_clear(rebuild);
    return status;
}
