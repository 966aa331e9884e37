/*
 * fast.h: lists of the uses of each row, for the gradient of a table.
 */
#ifndef BGI_KERNELS_EMBEDDING_FAST_H
#define BGI_KERNELS_EMBEDDING_FAST_H

#include <stdint.h>

#include <brigade/base.h>

/* Lists in scratch, one for each row of the table, in the order of ids. */
typedef struct bgi_embedding_uses {
    int64_t rows, count;
    int32_t *first; /* for each row of the table: 1 + its first use; 0: no use */
    int32_t *next;  /* for each use: 1 + the next use of the same row; 0: the last use */
} bgi_embedding_uses;

static inline bgi_embedding_uses bgi_embedding_uses_view(void *scratch, const bg_type *ids, const bg_type *table)
{
    bgi_embedding_uses uses = {.rows = table->dims[0], .count = bg_type_element_count(ids), .first = scratch};

    uses.next = scratch != NULL ? uses.first + uses.rows : NULL;
    return uses;
}

#endif
