/*
 * weights_source.h: reads the tensors of a file or a folder in any of the supported formats.
 */
#ifndef BGI_CHECKPOINT_WEIGHTS_SOURCE_H
#define BGI_CHECKPOINT_WEIGHTS_SOURCE_H

#include <brigade/readers.h>
#include <brigade/safetensors.h>
#include <brigade/weights.h>

typedef struct bgi_weights_item {
    const char *name;
    bg_type type; /* its dtype is BG_DTYPE_NONE if Brigade does not support the element type */
    bool is_bool; /* the file's type is bool; `type` is uint8, with the values 0 and 1 */
    const bg_safetensors *file;
    const bg_safetensors_entry *entry; /* the tensor in `file`; NULL: the values are at `data` */
    const void *data;
} bgi_weights_item;

typedef struct bgi_weights_source bgi_weights_source;

/* Opens a file or folder; `path` must outlive the result. Errors: those of bg_safetensors_open_header, bg_npz_read and
 * bgi_safetensors_folder_open. */
bg_status bgi_weights_source_open(const char *path, bgi_weights_source **out, bg_error *error);
void bgi_weights_source_close(bgi_weights_source *source);
size_t bgi_weights_source_count(const bgi_weights_source *source);
const bgi_weights_item *bgi_weights_source_at(const bgi_weights_source *source, size_t index);

/* Whether elements of one type can be converted to another: floats to floats, and integers to integers if their values
 * fit. */
bool bgi_weights_is_convertible(bg_dtype from, bg_dtype to);
/* Converts the values to `dtype`, for which bgi_weights_is_convertible must be true, and writes them to `out`. Errors:
 * BG_ERROR_SHAPE (an integer does not fit), BG_ERROR_IO, BG_ERROR_MEMORY. */
bg_status bgi_weights_source_read(const bgi_weights_source *source, const bgi_weights_item *item, bg_dtype dtype,
                                  void *out, bg_error *error);
/* Converts values in memory in the same way. Messages call the tensor `name`. */
bg_status bgi_weights_convert(const char *name, bg_dtype from, const void *values, int64_t count, bg_dtype to,
                              void *out, bg_error *error);

/* Loads weights like bg_weights_load, from an open source (weights_load.c). `path` is its name for messages. */
bg_status bgi_weights_load_source(bg_weights *weights, bgi_weights_source *source, const char *path,
                                  const bg_weights_load_options *options, bg_weights_report *out_report,
                                  bg_error *error);

#endif
