/*
 * buckets.h: groups numbered items by a key, so that the items of one key are found without searching all items.
 */
#ifndef BGI_CORE_BUCKETS_H
#define BGI_CORE_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"

#define BGI_NO_BUCKET UINT32_MAX

/* The items of key k are items[begins[k]] .. items[begins[k + 1] - 1], ascending. */
typedef struct bgi_buckets {
    uint32_t *begins;
    uint32_t *items;
} bgi_buckets;

/* Sorts the numbers below item_count by counting. keys[i] is the key of item i; if it is BGI_NO_BUCKET or not below
 * bucket_count, the item is omitted. Allocates memory in the arena; returns false if memory is exhausted. */
bool bgi_buckets_fill(bgi_buckets *buckets, bgi_arena *arena, size_t bucket_count, size_t item_count,
                      const uint32_t *keys);

#define BGI_FOR_BUCKET(buckets, key, at)                                                                               \
    for (uint32_t at = (buckets).begins[key]; at < (buckets).begins[(key) + 1]; at++)

#endif
