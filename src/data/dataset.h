/*
 * dataset.h: declares the functions of data sets that the loader calls, and the fields that a new kind of data set
 * sets.
 */
#ifndef BGI_DATA_DATASET_H
#define BGI_DATA_DATASET_H

#include <brigade/data.h>

#include <stdatomic.h>

/* Implements bgi_dataset_gather, whose comment has the contract, for one kind of data set. */
typedef bg_status (*bgi_gather)(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                                unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error);

struct bg_dataset {
    _Atomic uint32_t references; /* one for the creator, and one for each data set that is made from this one */
    uint64_t sample_count;
    uint32_t tensor_count;
    bg_type types[BG_DATASET_MAX_TENSORS];
    size_t sample_bytes[BG_DATASET_MAX_TENSORS];
    bgi_gather gather;
    size_t scratch_bytes; /* scratch bytes of one call of gather, including those of the sources; a multiple of 64 */
    bool is_copied;       /* making a sample costs about as much as copying one */
    bool may_skip;        /* tensors[t] may be NULL, and gather then skips this tensor */
    /* bgi_csv_read's hash of the rows that skip_incomplete has left out of this data set or its source; 0 if the rows
     * were not read with skip_incomplete. */
    uint64_t rows_left_out;
    /* The data set that the samples come from. NULL: there is none, or there are several, which `state` has. */
    struct bg_dataset *source;
    void *state; /* data of this kind of data set */
    void (*release)(void *state);
    const unsigned char *
        rows[BG_DATASET_MAX_TENSORS]; /* the address of sample 0, if all samples follow each other in memory; or NULL */
};

/* Allocates a data set with one reference, and sets its counts, types and sizes; the caller sets the other fields.
 * Errors: BG_ERROR_INVALID, BG_ERROR_SHAPE, BG_ERROR_MEMORY. */
bg_status bgi_dataset_allocate(uint64_t sample_count, uint32_t tensor_count, const bg_type *types, bg_dataset **out,
                               bg_error *error);

/* Allocates a data set that is made from `source`. It has the same tensors but no rows, and holds a reference to
 * `source`. */
bg_status bgi_dataset_derive(bg_dataset *source, uint64_t sample_count, bg_dataset **out, bg_error *error);

/* Makes a data set that owns the arrays; on success the caller's are zeroed. Errors: those of
 * bg_dataset_create_arrays. */
bg_status bgi_dataset_own_arrays(bg_array *arrays, uint32_t array_count, bg_dataset **out, bg_error *error);

/*
 * Writes samples indices[0..count) one after the other to each tensors[t]. Several threads may call this at the same
 * time, each with separate scratch memory and different destinations. On failure *out_failed is the position in
 * `indices` of the sample that failed.
 */
bg_status bgi_dataset_gather(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                             unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error);

/* Makes a data set like bg_dataset_convert for the only tensor of the samples, to the uint8 `type` of a bool: reading
 * an element that is not 0 or 1 fails, and the error begins with `name`. (convert.c) */
bg_status bgi_dataset_convert_bools(bg_dataset *source, const bg_type *type, const char *name, bg_dataset **out,
                                    bg_error *error);

/* Allocates scratch for bgi_dataset_gather, which the caller frees with free(). Returns NULL only if memory is
 * exhausted. */
void *bgi_dataset_scratch(const bg_dataset *dataset);

/* Finds the addresses of the tensors of sample number `count` in a batch; NULL stays NULL. */
void bgi_dataset_places(const bg_dataset *dataset, unsigned char *const tensors[], size_t count,
                        unsigned char *places[BG_DATASET_MAX_TENSORS]);

/* Copies rows indices[0..count) of an array one after the other to `out`. */
void bgi_dataset_gather_rows(const unsigned char *rows, size_t row_bytes, const uint32_t *indices, size_t count,
                             unsigned char *out);

/* Prefetches a later row. Shuffled rows are cache misses, which the processor cannot foresee. */
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
