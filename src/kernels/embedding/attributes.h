/*
 * attributes.h: the operands and attributes of embeddings. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_EMBEDDING_ATTRIBUTES_H
#define BGI_KERNELS_EMBEDDING_ATTRIBUTES_H

#include <brigade/ops.h>

#include "kernels/mesh.h"

/*
 *     EMBEDDING           table, ids -> y
 *     EMBEDDING_BACKWARD  dy, ids -> dtable
 *     EMBEDDING_SLOTS     ids, slots! -> uses       at its first use in a step, a row of the table gets a row of `rows`
 *     EMBEDDING_ROWS      dy, uses, rows!           adds dtable of a micro-batch to the rows that are used
 *     EMBEDDING_ROWS_ADD  gradient!, rows, slots    adds all rows to a gradient of the whole table
 *
 * If a table is sharded by rows over an axis, ids count from the first row of the whole table.
 */
typedef struct bgi_embedding_attributes {
    int64_t padding_index;
    bg_mesh_axis axis;
} bgi_embedding_attributes;

/* Returns the row of an id in the replica's table, which has `rows` rows, or -1 if the id is outside it. */
static inline int64_t bgi_embedding_row(const bg_kernel_call *call, const bgi_embedding_attributes *attributes,
                                        int32_t id, int64_t rows)
{
    const int64_t row = id - bgi_mesh_place(call->env, attributes->axis) * rows;

    return row >= 0 && row < rows ? row : -1;
}

/* `slots`, int32 [2 V + 1] for a table of V rows, is cleared when a step begins. `last_use` is scratch of
 * EMBEDDING_SLOTS and is zero between calls. */
typedef struct bgi_embedding_slots {
    int32_t *of_row;   /* for each row: 1 + its slot; 0: not used in this step */
    int32_t *last_use; /* for each row: 1 + its last use so far in the micro-batch; 0: no use */
    int32_t *used;     /* the number of used slots */
} bgi_embedding_slots;

static inline bgi_embedding_slots bgi_embedding_view_slots(int32_t *slots, int64_t rows)
{
    return (bgi_embedding_slots){slots, slots + rows, slots + 2 * rows};
}

/* `uses` is int32 [2, n] for n ids. The first row has 1 + the slot at an id's first use in the micro-batch, negative
 * when the slot is new in this step, and 0 elsewhere. The second row has 1 + the next use of the same id, 0 at its last
 * use. */

typedef struct bgi_embedding_backward_attributes {
    bgi_embedding_attributes forward;
    bg_type result; /* type of dtable */
} bgi_embedding_backward_attributes;

#endif
