/*
 * pattern.h: collectives as arithmetic: which elements of which contribution a member takes, and where the results go.
 * It knows no memory, threads or messages, so the order of a sum cannot depend on how bytes are sent.
 *
 * A group of `size` members takes part. Each member has a source and a destination:
 *
 *     SUM            every member sums a slice of the whole over members 0, 1, 2, ...; all get all of the sum
 *     SUM_ALONE      the same sums: every member makes all of them, for itself
 *     SUM_PIECES     every member sums a piece, and only this member gets it, at the piece's position in the whole
 *     GATHER_PIECES  every member has a piece, at its position in the whole; all get the pieces of the others
 *     SUM_ROWS       the whole is rows of `size` pieces: every member sums its piece of each row, and gets these rows
 *     GATHER_ROWS    every member has rows, which are pieces of longer rows; all get the longer rows
 */
#ifndef BGI_TRANSPORT_PATTERN_H
#define BGI_TRANSPORT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum bgi_pattern_kind {
    BGI_PATTERN_SUM = 0,
    BGI_PATTERN_SUM_ALONE,
    BGI_PATTERN_SUM_PIECES,
    BGI_PATTERN_GATHER_PIECES,
    BGI_PATTERN_SUM_ROWS,
    BGI_PATTERN_GATHER_ROWS
} bgi_pattern_kind;

typedef struct bgi_pattern {
    bgi_pattern_kind kind;
    uint32_t size; /* members */
    size_t count;  /* elements of the whole; of *_ROWS: rows */
    size_t piece;  /* elements of a piece (the last pieces may be shorter), or of a piece of a row; SUM, SUM_ALONE:
                      unused */
} bgi_pattern;

/* `rows` rows of `length` elements each. The first row begins at element `first`, and each next one `stride` elements
 * later. */
typedef struct bgi_region {
    size_t first, length, stride, rows; /* empty when length or rows is 0 */
} bgi_region;

/* Whether members sum what they take; otherwise each copies it to its own destination. */
static inline bool bgi_pattern_sums(const bgi_pattern *pattern)
{
    return pattern->kind != BGI_PATTERN_GATHER_PIECES && pattern->kind != BGI_PATTERN_GATHER_ROWS;
}

/* Returns the region that `member` takes of the source of member `from`. For sums the region is the same for all
 * sources. */
bgi_region bgi_pattern_take(const bgi_pattern *pattern, uint32_t member, uint32_t from);
/* Returns the region of `reader`'s destination for the result of `maker`, which is its sum or its contribution. The
 * region has the elements that `maker` took or, for a copy, that `reader` takes; it is empty when `reader` gets none.
 */
bgi_region bgi_pattern_put(const bgi_pattern *pattern, uint32_t maker, uint32_t reader);

#endif
