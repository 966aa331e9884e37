/*
 * pieces.h: sums that are made piece by piece. Data-parallel replicas may have a piece each of what is summed: n
 * elements over R replicas are R pieces of ceil(n / R) elements, the last ones of fewer, or none
 * (transform/sharding.c). A kernel whose result is a sum over all elements leaves a row for each piece, summed in an
 * order by the piece's size, so that replicas that have a piece make the bits of those that have all. One that has a
 * piece leaves the others' rows 0.
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

/* Elements of piece number `piece` that are no padding. */
static inline int64_t bgi_piece_live(int64_t elements, uint32_t pieces, uint32_t piece)
{
    const int64_t size = bgi_piece_size(elements, pieces), left = elements - piece * size;

    return left < 0 ? 0 : left < size ? left : size;
}

/* Whether the call has all pieces of its first operand, whose whole has so many elements. */
static inline bool bgi_has_all_pieces(const bg_type *operand, int64_t elements)
{
    return bg_type_element_count(operand) == elements;
}

#endif
