/*
 * order.h: computes the order of samples, which depends only on the fields of bgi_order and the epoch.
 */
#ifndef BGI_DATA_ORDER_H
#define BGI_DATA_ORDER_H

#include <brigade/base.h>

typedef struct bgi_order {
    uint64_t sample_count;
    uint64_t batch_size;
    uint64_t seed;
    uint32_t process_index;
    uint32_t process_count;
    bool shuffle;
    uint64_t shuffle_buffer; /* 0: the buffer holds all samples */
    bool drop_last;
} bgi_order;

/* A process's part of the epoch's (shuffled) order of all samples. */
typedef struct bgi_order_part {
    uint64_t start;
    uint64_t count;
} bgi_order_part;

bgi_order_part bgi_order_part_of(const bgi_order *order, uint64_t epoch);

/* Returns the number of this process's batches in every epoch: parts shift from epoch to epoch but keep their size. */
uint64_t bgi_order_batch_count(const bgi_order *order);

/* Fills indices[sample_count] with the epoch's order of all samples. */
void bgi_order_fill(const bgi_order *order, uint64_t epoch, uint32_t *indices);

#endif
