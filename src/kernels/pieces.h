/*
 * pieces.h: sums that are computed shard by shard (piece by piece). Data-parallel replicas may each have a piece of the
 * summed tensor: n elements over R replicas are R pieces of ceil(n / R) elements, of which the last ones may have fewer
 * elements or be empty (transform/sharding.c). A kernel whose result is a sum over all elements writes a row for each
 * piece. The order of the sum depends only on the piece's size, so that replicas with a piece get the same bits as
 * replicas with the whole tensor. A replica with a piece sets the other rows to 0.
 */
#ifndef BGI_KERNELS_PIECES_H
#define BGI_KERNELS_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include <brigade/kernel.h>

static inline int64_t bgi_piece_size(int64_t elements, uint32_t pieces)
{
    return (elements + pieces - 1) / pieces;
}

/* Returns the number of elements of piece `piece` that are not padding. */
static inline int64_t bgi_piece_live(int64_t elements, uint32_t pieces, uint32_t piece)
{
    const int64_t size = bgi_piece_size(elements, pieces), left = elements - piece * size;

    return left < 0 ? 0 : left < size ? left : size;
}

/* Returns whether the operand has all pieces; the whole tensor has `elements` elements. With several pieces, an operand
 * of this size is no piece: only tensors of at least two elements are sharded (transform/sharding.c), so that a piece
 * is less than the whole. */
static inline bool bgi_has_all_pieces(const bg_type *operand, int64_t elements)
{
    return bg_type_element_count(operand) == elements;
}

#endif
