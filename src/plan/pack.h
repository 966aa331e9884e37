/*
 * pack.h: finds offsets for units that share memory when they are not needed at the same time.
 */
#ifndef BGI_PLAN_PACK_H
#define BGI_PLAN_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range of time, both ends included. A span whose last is before its first is empty. */
typedef struct bgi_span {
    uint32_t first, last;
} bgi_span;

typedef struct bgi_unit {
    size_t size, offset;
    const bgi_span *spans; /* the times when the unit is needed */
    uint32_t span_count;
} bgi_unit;

/* Sets the offsets of all units, and *out_peak to the bytes that they need together. Larger units are placed first,
 * equal ones by number; each gets the lowest offset at which it overlaps no unit that is needed at the same time. The
 * work grows with the number of spans, not with the number of pairs (pack.c). Returns false when memory is out. */
bool bgi_pack(bgi_unit *units, uint32_t count, size_t *out_peak);
/* bgi_pack_around places units in the same way within `limit` bytes; the first `fixed_count` units already have
 * offsets. A unit that does not fit gets the offset BGI_UNIT_HAS_NO_PLACE. */
#define BGI_UNIT_HAS_NO_PLACE SIZE_MAX
bool bgi_pack_around(bgi_unit *units, uint32_t fixed_count, uint32_t count, size_t limit);

#endif
