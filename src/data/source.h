/*
 * source.h: reads the data that a name denotes, and arrays from files in memory, for the fuzz targets.
 */
#ifndef BGI_DATA_SOURCE_H
#define BGI_DATA_SOURCE_H

#include <brigade/readers.h>

#include "data/dataset.h"

typedef enum bgi_source_kind {
    BGI_SOURCE_NPY,
    BGI_SOURCE_NPZ,
    BGI_SOURCE_SAFETENSORS,
    BGI_SOURCE_CSV,
    BGI_SOURCE_IDX,
    BGI_SOURCE_KIND_COUNT
} bgi_source_kind;

/* Reads the array that `part` (NULL: none) selects from the content. A zero byte, which size_bytes does not count, must
 * follow the content. Errors: those of bg_array_open. */
bg_status bgi_source_parse(const char *name, bgi_source_kind kind, const char *part, const char *content,
                           size_t size_bytes, bg_array *out, bg_error *error);

/* Opens columns of one CSV file, in the forms of bg_dataset_open, each as one data set of out[count]. Rows in which any
 * of these columns has no number are left out of all of them; *out_skipped is their number. `count` is at most
 * BG_DATASET_MAX_TENSORS. On failure every out[i] is NULL. Errors: those of bg_csv_read, BG_ERROR_INVALID (another kind
 * of file, several files). */
bg_status bgi_sources_open_complete(const char *const *sources, uint32_t count, bg_dataset **out, uint64_t *out_skipped,
                                    bg_error *error);

/* Opens a folder of images like bg_dataset_open_images, but without the classes. (images.c) */
bg_status bgi_dataset_open_pictures(const char *folder, bg_dataset **out, bg_error *error);
/* Reads only the classes of a folder of images: int32 [images]. */
bg_status bgi_images_read_classes(const char *folder, bg_array *out, bg_error *error);

#endif
