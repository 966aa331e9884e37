/*
 * stored.h: the content of files as one list of tensors with metadata: a checkpoint in one file or in parts, another
 * safetensors file, or a folder of them with an index. It is for loads, and for tools that need no session.
 *
 *     checkpoint_train_step_8.safetensors                              a manifest: texts, and who has what
 *     checkpoint_train_step_8.1b2c3d4e.part-00000-of-00002.safetensors   elements that rank 0 had
 *     checkpoint_train_step_8.1b2c3d4e.part-00001-of-00002.safetensors
 *
 * Parts may be in folders of several hosts, so a part may be missing here.
 */
#ifndef BGI_CHECKPOINT_STORED_H
#define BGI_CHECKPOINT_STORED_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/runs.h"
#include "formats/safetensors_folder.h"

typedef struct bgi_stored_tensor {
    const char *name;
    bg_type type;        /* dtype BG_DTYPE_NONE: Brigade has no such element type */
    const char *storage; /* the format's name of the element type: "F32" */
    size_t size_bytes;
    const bg_safetensors *file;
    const bg_safetensors_entry *entry; /* of the file; NULL: in parts */
    bgi_runs runs;                     /* in parts: the elements of each; otherwise empty */
} bgi_stored_tensor;

typedef struct bgi_stored_part {
    char *name;                         /* of the file, in the manifest's folder */
    char sum[BGI_CHECKPOINT_SUM_BYTES]; /* of the file, according to the manifest */
    const char *host;                   /* the host that wrote it */
    bg_safetensors *file;               /* NULL: missing here */
} bgi_stored_part;

typedef struct bgi_stored {
    char *path;                     /* of the file, or of the folder with the index */
    bg_safetensors *file;           /* NULL: a folder */
    bgi_safetensors_folder *folder; /* NULL: a file */
    bgi_stored_tensor *tensors;     /* by name */
    size_t count;
    bool is_checkpoint;
    bgi_stored_part *parts; /* of a manifest */
    uint32_t part_count;    /* 0: no manifest */
    void *room;             /* buffer for reading runs */
} bgi_stored;

/* `path`: a safetensors file; a folder of checkpoints, of which the latest is opened; a folder with model.safetensors
 * or an index. Reads only headers. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_PARSE (also a tensor in two files),
 * BG_ERROR_IO, BG_ERROR_MEMORY. */
bg_status bgi_stored_open(const char *path, bgi_stored **out, bg_error *error);
/* Opens a checkpoint's own file for a load: elements of unknown types are BG_ERROR_UNSUPPORTED. */
bg_status bgi_stored_open_checkpoint(const char *path, bgi_stored **out, bg_error *error);
void bgi_stored_close(bgi_stored *stored);
const bgi_stored_tensor *bgi_stored_find(const bgi_stored *stored, const char *name); /* NULL: there is none */
/* The text of a key; NULL: there is none. */
const char *bgi_stored_text(const bgi_stored *stored, const char *key);
/* Of a checkpoint: its metadata except those of tensors. Values are not read. */
bg_status bgi_stored_head(const bgi_stored *stored, bg_checkpoint *out, bg_error *error);
/* Opens a manifest's content, which another rank has read, as if it were the file `path`; parts are searched beside
 * that path. `content` must outlive the result. */
bg_status bgi_stored_open_manifest(const char *path, const void *content, size_t size_bytes, bgi_stored **out,
                                   bg_error *error);
/* BG_ERROR_NOT_FOUND names a missing part, and the host that wrote it. */
bg_status bgi_stored_require_parts(const bgi_stored *stored, bg_error *error);
/* Reads an existing part and compares its checksum. */
bg_status bgi_stored_check_part(const bgi_stored *stored, uint32_t part, bg_error *error);
/* Reads everything: of a checkpoint the checksum and each record, of other files, which have no checksum, every
 * byte. */
bg_status bgi_stored_check(bgi_stored *stored, bg_error *error);
/* Reads elements of a tensor. BG_ERROR_NOT_FOUND when a missing part has some of them. */
bg_status bgi_stored_read(bgi_stored *stored, const bgi_stored_tensor *tensor, size_t offset_bytes, size_t size_bytes,
                          void *out, bg_error *error);
/* Copies the elements that a part has of first .. end - 1 to their places in `out`, which begins with element `first`.
 * `values`: all elements of the tensor in the part; NULL: they are read from its file. */
bg_status bgi_stored_read_part(bgi_stored *stored, const bgi_stored_tensor *tensor, uint32_t part, int64_t first,
                               int64_t end, const void *values, void *out, bg_error *error);

/* ---- convert.c ---- */

typedef struct bgi_convert_options {
    bool to_checkpoint;
    /* To a checkpoint: a checkpoint that provides everything that the source lacks (state, seed, the place in the
     * data). NULL: only parameters, at `step` with `seed`. */
    const char *like;
    uint64_t step, seed;
    const char *prefix, *ignore;             /* like those of bg_weights_load_options and bg_weights_save_options */
    const struct bg_weights_rename *renames; /* the same */
    uint32_t rename_count;
    bg_dtype floats;       /* to weights: the type that floats are converted to; BG_DTYPE_NONE: unchanged */
    uint64_t folder_bytes; /* of a folder: the largest size of a file; 0: no limit */
} bgi_convert_options;

/* Tensors are read and written one at a time. *out_count: their number. When it writes a checkpoint, `to` is a folder;
 * otherwise `to` is a name as for bg_weights_save. */
bg_status bgi_stored_convert(bgi_stored *stored, const char *to, const bgi_convert_options *options, size_t *out_count,
                             bg_error *error);

#endif
