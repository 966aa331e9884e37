/*
 * stored.h: reads files as one list of tensors with metadata: a checkpoint in one file or in parts, another safetensors
 * file, or a folder of such files with an index. Loads use these functions, and so do tools that have no session.
 *
 *     checkpoint_train_step_8.safetensors                              a manifest: metadata, and where elements are
 *     checkpoint_train_step_8.1b2c3d4e.part-00000-of-00002.safetensors   elements that rank 0 had
 *     checkpoint_train_step_8.1b2c3d4e.part-00001-of-00002.safetensors
 *
 * Parts may be in folders of several hosts, so some may be missing in the folder of this host.
 */
#ifndef BGI_CHECKPOINT_STORED_H
#define BGI_CHECKPOINT_STORED_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/runs.h"
#include "formats/safetensors_folder.h"

typedef struct bgi_stored_tensor {
    const char *name;
    bg_type type;        /* its dtype is BG_DTYPE_NONE if Brigade does not support the element type */
    const char *storage; /* the format's name of the element type: "F32" */
    size_t size_bytes;
    const bg_safetensors *file;
    const bg_safetensors_entry *entry; /* the tensor in `file`; NULL if its elements are in parts */
    bgi_runs runs;                     /* which elements each part has; empty without parts */
} bgi_stored_tensor;

typedef struct bgi_stored_part {
    char *name;                         /* name of the file, which is in the manifest's folder */
    char sum[BGI_CHECKPOINT_SUM_BYTES]; /* checksum of the file, according to the manifest */
    const char *host;                   /* the host that wrote the part */
    bg_safetensors *file;               /* NULL: the part is missing here */
} bgi_stored_part;

typedef struct bgi_stored {
    char *path;                     /* path of the file, or of the folder with the index */
    bg_safetensors *file;           /* NULL: a folder */
    bgi_safetensors_folder *folder; /* NULL: a file */
    bgi_stored_tensor *tensors;     /* by name */
    size_t count;
    bool is_checkpoint;
    bgi_stored_part *parts; /* the parts that a manifest names */
    uint32_t part_count;    /* 0: no manifest */
    void *room;             /* buffer for reading runs */
} bgi_stored;

/* Opens `path`: a safetensors file, the latest checkpoint in a folder of checkpoints, or a folder with
 * model.safetensors or an index. Reads only headers. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_PARSE (also a tensor in two
 * files), BG_ERROR_IO, BG_ERROR_MEMORY. */
bg_status bgi_stored_open(const char *path, bgi_stored **out, bg_error *error);
/* Opens a checkpoint's file for a load. Errors: also BG_ERROR_UNSUPPORTED, for unknown element types. */
bg_status bgi_stored_open_checkpoint(const char *path, bgi_stored **out, bg_error *error);
void bgi_stored_close(bgi_stored *stored);
const bgi_stored_tensor *bgi_stored_find(const bgi_stored *stored, const char *name); /* NULL: there is none */
/* Returns the metadata with this key; NULL if there is none. */
const char *bgi_stored_text(const bgi_stored *stored, const char *key);
/* Reads the metadata of a checkpoint, except those of tensors. Does not read values. */
bg_status bgi_stored_head(const bgi_stored *stored, bg_checkpoint *out, bg_error *error);
/* Opens a manifest's content, which another rank has read, as if it were the file `path`; parts are searched in the
 * folder of `path`. `content` must outlive the result. */
bg_status bgi_stored_open_manifest(const char *path, const void *content, size_t size_bytes, bgi_stored **out,
                                   bg_error *error);
/* Checks that no part is missing. Errors: BG_ERROR_NOT_FOUND, which names the part and the host that wrote the part. */
bg_status bgi_stored_require_parts(const bgi_stored *stored, bg_error *error);
/* Reads a part, which must not be missing, and checks its checksum. */
bg_status bgi_stored_check_part(const bgi_stored *stored, uint32_t part, bg_error *error);
/* Checks everything: for a checkpoint its checksum, its parts and each record; for other files, which have no checksum,
 * that every byte can be read. */
bg_status bgi_stored_check(bgi_stored *stored, bg_error *error);
/* Reads elements of a tensor. Errors: BG_ERROR_NOT_FOUND if some of them are in a missing part, BG_ERROR_IO. */
bg_status bgi_stored_read(bgi_stored *stored, const bgi_stored_tensor *tensor, size_t offset_bytes, size_t size_bytes,
                          void *out, bg_error *error);
/* Copies the elements of a part that are among first .. end - 1 to `out`, which begins with element `first`. `values`
 * has all elements of the tensor that are in the part; if it is NULL, they are read from the part's file. */
bg_status bgi_stored_read_part(bgi_stored *stored, const bgi_stored_tensor *tensor, uint32_t part, int64_t first,
                               int64_t end, const void *values, void *out, bg_error *error);

/* ---- convert.c ---- */

typedef struct bgi_convert_options {
    bool to_checkpoint;
    /* For a conversion to a checkpoint: another checkpoint, which provides what the source lacks (state, seed, position
     * in the data). NULL: the result has only parameters, `step` and `seed`. */
    const char *like;
    uint64_t step, seed;
    const char *prefix, *ignore;             /* as in bg_weights_load_options and bg_weights_save_options */
    const struct bg_weights_rename *renames; /* the same */
    uint32_t rename_count;
    bg_dtype floats;       /* for weights: the type that floats are converted to; BG_DTYPE_NONE: unchanged */
    uint64_t folder_bytes; /* for a folder: the largest size of a file; 0: no limit */
} bgi_convert_options;

/* Converts the tensors one at a time, and sets *out_count to their number. `to` is a folder for a checkpoint, and
 * otherwise a name as for bg_weights_save. */
bg_status bgi_stored_convert(bgi_stored *stored, const char *to, const bgi_convert_options *options, size_t *out_count,
                             bg_error *error);

#endif
