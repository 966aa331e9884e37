/*
 * readers.h: declares a table of the readers of values, for passes that fuse an op with the op that reads its result.
 */
#ifndef BGI_TRANSFORM_READERS_H
#define BGI_TRANSFORM_READERS_H

#include "graph/graph.h"

#define BGI_UNREAD UINT32_MAX
#define BGI_SHARED (UINT32_MAX - 1) /* more than one reader, or an output of the graph */

/* Returns a malloc'ed table, or NULL if memory is exhausted. It has, by value, the index of the op that is the only
 * reader, BGI_UNREAD or BGI_SHARED. An op that reads a value twice counts as two readers. */
uint32_t *bgi_readers_find(const bg_graph *graph);
/* Returns the op that is the only reader of `value`; NULL if the value has no reader, or several. */
const bgi_op *bgi_readers_only(const bg_graph *graph, const uint32_t *readers, bg_value value);
/* Returns whether an output of `op` after the first is read. */
bool bgi_readers_of_rest(const uint32_t *readers, const bgi_op *op);

#endif
