/*
 * dataset.h: what the loader asks of a data set.
 */
#ifndef BGI_DATA_DATASET_H
#define BGI_DATA_DATASET_H

#include <brigade/data.h>

struct bg_dataset {
    uint64_t sample_count;
    uint32_t tensor_count;
    bg_type types[BG_DATASET_MAX_TENSORS];
    size_t sample_bytes[BG_DATASET_MAX_TENSORS];
    bg_dataset_get get; /* NULL: rows of arrays */
    void *user;
    const unsigned char *rows[BG_DATASET_MAX_TENSORS];
};

/*
 * Writes samples indices[0..count) one after the other to each tensors[t]. Threads may do this at once for different
 * places. On failure *out_failed is the position in `indices` of the sample that failed.
 */
bg_status bgi_dataset_gather(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                             unsigned char *const tensors[], size_t *out_failed, bg_error *error);

#endif
