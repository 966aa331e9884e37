/*
 * rebuild.h: declares functions for passes that build a new graph. Such a pass copies leaves first, in their order,
 * then ops one by one, and maps old values to new ones.
 */
#ifndef BGI_TRANSFORM_REBUILD_H
#define BGI_TRANSFORM_REBUILD_H

#include "graph/graph.h"

typedef struct bgi_rebuild {
    const bg_graph *from;
    bg_graph *to;
    bg_value *map; /* by old id; null: not copied (yet) */
} bgi_rebuild;

/* Copies blocks, and the inputs, constants and variables that `needed` marks (by value id; NULL: all). */
bg_status bgi_rebuild_begin(bgi_rebuild *rebuild, const bg_graph *from, const bool *needed, bg_error *error);
/* Returns the new value for an old one; null if the old one has not been copied. */
bg_value bgi_rebuild_value(const bgi_rebuild *rebuild, bg_value value);
/* Copies an op with its name, block and phase. */
void bgi_rebuild_op(bgi_rebuild *rebuild, const bgi_op *op);
/* Ops that are added from now on get the block and phase of `op`. */
void bgi_rebuild_place(bgi_rebuild *rebuild, const bgi_op *op);
/* Makes `value` the new value for `old`; does nothing if `value` is null. */
void bgi_rebuild_map(bgi_rebuild *rebuild, bg_value old, bg_value value);
/* Maps the outputs that have been copied and returns the graph. */
bg_status bgi_rebuild_finish(bgi_rebuild *rebuild, bg_graph **out, bg_error *error);
void bgi_rebuild_clear(bgi_rebuild *rebuild);

#endif
