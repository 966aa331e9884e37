/*
 * dataset.h: data sets from the inside: what the loader asks of one, and what a file that adds a kind of data set
 * fills.
 */
#ifndef BGI_DATA_DATASET_H
#define BGI_DATA_DATASET_H

#include <brigade/data.h>

#include <stdatomic.h>

/* As bgi_dataset_gather, which checks nothing more. */
typedef bg_status (*bgi_gather)(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                                unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error);

struct bg_dataset {
    _Atomic uint32_t references; /* the creator's, and one of each data set that is made from this one */
    uint64_t sample_count;
    uint32_t tensor_count;
    bg_type types[BG_DATASET_MAX_TENSORS];
    size_t sample_bytes[BG_DATASET_MAX_TENSORS];
    bgi_gather gather;
    size_t scratch_bytes;      /* that one call of gather needs, those below included; a multiple of 64 */
    bool is_copied;            /* a sample costs about what copying it costs */
    bool may_skip;             /* gather leaves out tensors[t] that are NULL; else all must be there */
    struct bg_dataset *source; /* NULL: the samples begin here */
    void *state;               /* of this kind of data set */
    void (*release)(void *state);
    const unsigned char
        *rows[BG_DATASET_MAX_TENSORS]; /* where sample 0 lies in memory, the others behind it; or NULL */
};

/* A data set of one reference with counts, types and sizes; the caller fills the rest. Errors: BG_ERROR_INVALID,
 * BG_ERROR_SHAPE, BG_ERROR_MEMORY. */
bg_status bgi_dataset_allocate(uint64_t sample_count, uint32_t tensor_count, const bg_type *types, bg_dataset **out,
                               bg_error *error);

/* The same on top of `source`, with its tensors and no rows, holding a reference to it. */
bg_status bgi_dataset_derive(bg_dataset *source, uint64_t sample_count, bg_dataset **out, bg_error *error);

/* Arrays that the data set frees; they are zeroed here when it is made. Errors as bg_dataset_create_arrays. */
bg_status bgi_dataset_own_arrays(bg_array *arrays, uint32_t array_count, bg_dataset **out, bg_error *error);

/*
 * Writes samples indices[0..count) one after the other to each tensors[t]. Threads may do this at once for different
 * places, each with a scratch of its own. On failure *out_failed is the position in `indices` of the sample that
 * failed.
 */
bg_status bgi_dataset_gather(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                             unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error);

/* Scratch for bgi_dataset_gather, released with free(); never NULL but when memory is out. */
void *bgi_dataset_scratch(const bg_dataset *dataset);

/* The place of one sample's tensors behind `count` others; NULL stays NULL. */
void bgi_dataset_places(const bg_dataset *dataset, unsigned char *const tensors[], size_t count,
                        unsigned char *places[BG_DATASET_MAX_TENSORS]);

/* Copies rows indices[0..count) of an array one after the other to `out`. */
void bgi_dataset_gather_rows(const unsigned char *rows, size_t row_bytes, const uint32_t *indices, size_t count,
                             unsigned char *out);

/* Shuffled rows are cache misses, and the processor sees only the one at work: ask for a later one meanwhile. */
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
