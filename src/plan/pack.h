/*
 * pack.h: offsets for things that share memory when they do not need it at the same time.
 */
#ifndef BGI_PLAN_PACK_H
#define BGI_PLAN_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bgi_unit {
    size_t size, offset;
    uint32_t first, last; /* for those that pack by time: when it is needed */
} bgi_unit;

/* Whether two units need their memory at the same time. */
typedef bool (*bgi_units_meet)(const void *context, const bgi_unit *a, const bgi_unit *b);
/* By their times. */
bool bgi_units_meet_in_time(const void *context, const bgi_unit *a, const bgi_unit *b);

/* Offsets of all units; the bytes they need together. Larger ones first, each at the lowest offset at which it meets no
 * other. `order` has room for all; afterward the units by offset. */
size_t bgi_pack(bgi_unit *units, uint32_t count, bgi_unit **order, bgi_units_meet meet, const void *context);

#endif
