/*
 * pack.h: offsets for things that share memory when they do not need it at the same time.
 */
#ifndef BGI_PLAN_PACK_H
#define BGI_PLAN_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stretch of time, both ends included. A span whose last is before its first is empty. */
typedef struct bgi_span {
    uint32_t first, last;
} bgi_span;

typedef struct bgi_unit {
    size_t size, offset;
    const bgi_span *spans; /* when it is needed */
    uint32_t span_count;
} bgi_unit;

/* Sets the offsets of all units and *out_peak, the bytes they need together. Larger units come first, equal ones by
 * number, and each gets the lowest offset at which it shares no byte with a unit that is needed at the same time. The
 * work grows with the number of spans, not with the number of pairs (pack.c). False when out of memory. */
bool bgi_pack(bgi_unit *units, uint32_t count, size_t *out_peak);

#endif
