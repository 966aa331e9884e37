/*
 * dataset.h: the internals of data sets: the functions that the loader calls, and those that a new kind of data set
 * defines.
 */
#ifndef BGI_DATA_DATASET_H
#define BGI_DATA_DATASET_H

#include <brigade/data.h>

#include <stdatomic.h>

/* Has the contract of bgi_dataset_gather, which checks nothing else. */
typedef bg_status (*bgi_gather)(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                                unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error);

struct bg_dataset {
    _Atomic uint32_t references; /* the creator's reference, and one of each data set that is made from this one */
    uint64_t sample_count;
    uint32_t tensor_count;
    bg_type types[BG_DATASET_MAX_TENSORS];
    size_t sample_bytes[BG_DATASET_MAX_TENSORS];
    bgi_gather gather;
    size_t scratch_bytes;      /* bytes for one call of gather, including the data sets below; a multiple of 64 */
    bool is_copied;            /* a sample costs about as much as copying it */
    bool may_skip;             /* gather skips tensors[t] that are NULL; otherwise all must be present */
    struct bg_dataset *source; /* NULL: this data set makes the samples itself */
    void *state;               /* of this kind of data set */
    void (*release)(void *state);
    const unsigned char *
        rows[BG_DATASET_MAX_TENSORS]; /* the address of sample 0, if all samples follow each other in memory; or NULL */
};

/* Allocates a data set with one reference and its counts, types and sizes; the caller fills the rest. Errors:
 * BG_ERROR_INVALID, BG_ERROR_SHAPE, BG_ERROR_MEMORY. */
bg_status bgi_dataset_allocate(uint64_t sample_count, uint32_t tensor_count, const bg_type *types, bg_dataset **out,
                               bg_error *error);

/* The same for a data set made from `source`, with its tensors and no rows; it holds a reference to `source`. */
bg_status bgi_dataset_derive(bg_dataset *source, uint64_t sample_count, bg_dataset **out, bg_error *error);

/* Makes a data set that owns the arrays; on success the caller's are zeroed. Errors: those of
 * bg_dataset_create_arrays. */
bg_status bgi_dataset_own_arrays(bg_array *arrays, uint32_t array_count, bg_dataset **out, bg_error *error);

/*
 * Writes samples indices[0..count) one after the other to each tensors[t]. Threads may do this at once for different
 * places, each with its own scratch memory. On failure *out_failed is the position in `indices` of the sample that
 * failed.
 */
bg_status bgi_dataset_gather(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                             unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error);

/* Allocates scratch for bgi_dataset_gather, to be released with free(); NULL only when memory is out. */
void *bgi_dataset_scratch(const bg_dataset *dataset);

/* The addresses of one sample's tensors after `count` others; NULL stays NULL. */
void bgi_dataset_places(const bg_dataset *dataset, unsigned char *const tensors[], size_t count,
                        unsigned char *places[BG_DATASET_MAX_TENSORS]);

/* Copies rows indices[0..count) of an array one after the other to `out`. */
void bgi_dataset_gather_rows(const unsigned char *rows, size_t row_bytes, const uint32_t *indices, size_t count,
                             unsigned char *out);

/* Shuffled rows are cache misses, and the processor sees only the current one, so a later one is prefetched. */
static inline void bgi_dataset_prefetch_row(const unsigned char *row, size_t row_bytes)
{
#if defined(__GNUC__)
    for (size_t at = 0; at < row_bytes && at < 1024; at += 64)
        __builtin_prefetch(row + at);
#else
    (void)row;
    (void)row_bytes;
#endif
}

#endif
