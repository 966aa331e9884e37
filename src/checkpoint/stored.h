/*
 * stored.h: what lies on the disk, as one list of tensors with the texts beside them: a checkpoint, another safetensors
 * file, or a folder of them with an index. For tools that look at files and need no session.
 */
#ifndef BGI_CHECKPOINT_STORED_H
#define BGI_CHECKPOINT_STORED_H

#include "checkpoint/checkpoint.h"
#include "formats/safetensors_folder.h"

typedef struct bgi_stored_tensor {
    const char *name;
    bg_type type;        /* dtype BG_DTYPE_NONE: Brigade has none for the elements */
    const char *storage; /* the format's name for them: "F32" */
    size_t size_bytes;
    const bg_safetensors *file;
    const bg_safetensors_entry *entry; /* of the file */
} bgi_stored_tensor;

typedef struct bgi_stored {
    char *path;                     /* of the file, or of the folder with the index */
    bg_safetensors *file;           /* NULL: a folder */
    bgi_safetensors_folder *folder; /* NULL: a file */
    bgi_stored_tensor *tensors;     /* by name */
    size_t count;
    bool is_checkpoint;
} bgi_stored;

/* `path`: a safetensors file; a folder of checkpoints, of which the latest is opened; a folder with model.safetensors
 * or an index. Reads headers alone. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_PARSE (also a tensor in two files),
 * BG_ERROR_IO, BG_ERROR_MEMORY. */
bg_status bgi_stored_open(const char *path, bgi_stored **out, bg_error *error);
void bgi_stored_close(bgi_stored *source);
const bgi_stored_tensor *bgi_stored_find(const bgi_stored *source, const char *name); /* NULL: there is none */
/* The text of a key; NULL: there is none. */
const char *bgi_stored_text(const bgi_stored *source, const char *key);
/* Of a checkpoint: what it says beside the tensors. Values are not looked at. */
bg_status bgi_stored_head(const bgi_stored *source, bg_checkpoint *out, bg_error *error);
/* Reads everything: of a checkpoint the checksum and each record, of other files every byte, which have no checksum. */
bg_status bgi_stored_check(const bgi_stored *source, bg_error *error);
bg_status bgi_stored_read(const bgi_stored *source, const bgi_stored_tensor *tensor, size_t offset_bytes,
                          size_t size_bytes, void *out, bg_error *error);

/* ---- convert.c ---- */

typedef struct bgi_convert_options {
    bool to_checkpoint;
    /* To a checkpoint: one that gives all that the source does not have (state, seed, the place in the data). NULL:
     * parameters alone, at `step` with `seed`. */
    const char *like;
    uint64_t step, seed;
    const char *prefix, *ignore;             /* as those of bg_weights_load_options and bg_weights_save_options */
    const struct bg_weights_rename *renames; /* the same */
    uint32_t rename_count;
    bg_dtype floats;       /* to weights: what floats are converted to; BG_DTYPE_NONE: as they are */
    uint64_t folder_bytes; /* of a folder: the most that a file of it has; 0: no limit */
} bgi_convert_options;

/* Tensors are read and written one at a time. *out_count: how many. To a checkpoint `to` is a folder, else a name of
 * bg_weights_save. */
bg_status bgi_stored_convert(const bgi_stored *source, const char *to, const bgi_convert_options *options,
                             size_t *out_count, bg_error *error);

#endif
