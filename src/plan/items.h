/*
 * items.h: finds the parts of a model that can be stages: blocks or ops, in their order, of which some must stay
 * together. Stages can begin only at the borders of these items.
 */
#ifndef BGI_PLAN_ITEMS_H
#define BGI_PLAN_ITEMS_H

#include "plan/compile.h"

typedef struct bgi_items {
    bool are_ops;       /* items are of ops, not of blocks; also set if the graph has no blocks */
    uint32_t *op_items; /* by op: its item, ascending from 0; UINT32_MAX: not a forward op */
    uint32_t count;
} bgi_items;

/* Finds the items of the graph's forward ops, in memory of the arena. out->are_ops must be set. `training`: see
 * bgi_op_type_changes. */
bg_status bgi_items_find(const bg_graph *graph, bool training, bgi_arena *arena, bgi_items *out, bg_error *error);

/* Whether another stage could begin inside one of the device's stages: at the border of a block or, if the stages are
 * "auto-ops:" or the graph has no blocks, of an op. `compiler` has a graph and stages. Returns false if memory is
 * exhausted. */
bool bgi_device_divides(const bgi_compiler *compiler, uint32_t device);

#endif
