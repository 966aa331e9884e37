/*
 * weights_source.h: the tensors of a file or a folder, in any of the formats.
 */
#ifndef BGI_CHECKPOINT_WEIGHTS_SOURCE_H
#define BGI_CHECKPOINT_WEIGHTS_SOURCE_H

#include <brigade/readers.h>
#include <brigade/safetensors.h>

typedef struct bgi_weights_item {
    const char *name;
    bg_type type; /* dtype BG_DTYPE_NONE: Brigade has no such type */
    bool is_bool; /* bytes of 0 and 1, of type uint8 */
    const bg_safetensors *file;
    const bg_safetensors_entry *entry; /* of the file; NULL: `data` */
    const void *data;
} bgi_weights_item;

typedef struct bgi_weights_source bgi_weights_source;

/* `path` must outlive the result. Errors: those of bg_safetensors_open_header, bg_npz_read and folders. */
bg_status bgi_weights_source_open(const char *path, bgi_weights_source **out, bg_error *error);
void bgi_weights_source_close(bgi_weights_source *source);
size_t bgi_weights_source_count(const bgi_weights_source *source);
const bgi_weights_item *bgi_weights_source_at(const bgi_weights_source *source, size_t index);

/* Whether elements of a type can be converted to another: floats to floats, and integers to integers (whose values must
 * fit). */
bool bgi_weights_is_convertible(bg_dtype from, bg_dtype to);
/* Writes the values as elements of `dtype`, which they must be convertible to, to `out`. Errors: BG_ERROR_SHAPE (an
 * integer does not fit), BG_ERROR_IO, BG_ERROR_MEMORY. */
bg_status bgi_weights_source_read(const bgi_weights_source *source, const bgi_weights_item *item, bg_dtype dtype,
                                  void *out, bg_error *error);
/* The same for values in memory. `name` is for messages. */
bg_status bgi_weights_convert(const char *name, bg_dtype from, const void *values, int64_t count, bg_dtype to,
                              void *out, bg_error *error);

#endif
