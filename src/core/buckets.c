/*
 * buckets.c: implements counting sort.
 */
#include "core/buckets.h"

bool bgi_buckets_fill(bgi_buckets *buckets, bgi_arena *arena, size_t bucket_count, size_t item_count,
                      const uint32_t *keys)
{
    buckets->begins = bgi_arena_allocate(arena, bucket_count + 2, sizeof *buckets->begins);
    buckets->items = bgi_arena_allocate(arena, item_count, sizeof *buckets->items);
    if (buckets->begins == NULL || buckets->items == NULL)
        return false;
    /* The count of key k is stored in begins[k + 2], because filling a bucket moves its beginning to that of the next
     * bucket. */
    for (size_t i = 0; i < item_count; i++)
        if (keys[i] < bucket_count)
            buckets->begins[keys[i] + 2]++;
    for (size_t k = 0; k < bucket_count; k++)
        buckets->begins[k + 2] += buckets->begins[k + 1];
    for (size_t i = 0; i < item_count; i++)
        if (keys[i] < bucket_count)
            buckets->items[buckets->begins[keys[i] + 1]++] = (uint32_t)i;
    return true;
}
