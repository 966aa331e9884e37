/*
 * weights.h: reads and writes files of weights, to exchange models with other programs: safetensors (also folders of
 * them with an index), and NumPy's .npz. Names, prefixes and element types may differ between the file and the model; a
 * report has the result for every tensor. To resume training, use the checkpoints of brigade/checkpoint.h.
 *
 * Threads: one thread at a time uses weights and all sessions that share them (brigade/session.h). Weights of a session
 * over several ranks are saved inside bg_session_read_weights, and loaded before the session is created.
 *
 * Errors: BG_ERROR_INVALID, BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED, BG_ERROR_MEMORY.
 * BG_ERROR_SHAPE for tensors that do not fit.
 */
#ifndef BRIGADE_WEIGHTS_H
#define BRIGADE_WEIGHTS_H

#include <brigade/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A name in the file and the corresponding name in the model. Each may have one `*`, which matches any text, the same
 * text in both names: {"encoder.*", "model.encoder.*"}. */
typedef struct bg_weights_rename {
    const char *in_file, *in_model;
} bg_weights_rename;

/* ---- loading ---- */

typedef struct bg_weights_load_options {
    size_t struct_bytes; /* set by bg_weights_load_defaults; see base.h */
    /* The plan of the model whose parameters and buffers the file should have; `weights` may then be empty, and no
     * session is needed. NULL: the file should have the names in `weights`; if `weights` is empty, every tensor of the
     * file is added unchanged. */
    const bg_plan *plan;
    /* A tensor that is missing, unexpected or of another shape or type is an error, and nothing changes. False: such
     * tensors are not loaded, and the report lists them. */
    bool strict;
    bool exact_types; /* elements are not converted; false: floats are converted, and integers if their values fit */
    /* Prefix that names in the file have and names in the model do not have. Names without the prefix are ignored.
     * NULL: "". */
    const char *prefix;
    /* Renames, which apply after the prefix is removed; the first match is used. */
    const bg_weights_rename *renames;
    uint32_t rename_count;
    /* Names in the model that are not loaded, separated by commas; they may have any number of `*`. */
    const char *ignore; /* default: "*.num_batches_tracked", which PyTorch's batch norms have */
    /* Called before each tensor is read; `what` is the name in the model, and the unit is bytes of the model's tensors.
     * If the callback cancels, earlier tensors have the file's values. NULL: no callback. */
    bg_progress_function progress;
    void *progress_user;
} bg_weights_load_options;
BG_API void bg_weights_load_options_init(bg_weights_load_options *options, size_t struct_bytes);
/* Defaults: strict, with conversion of types, without a prefix or renames. */
static inline bg_weights_load_options bg_weights_load_defaults(void)
{
    bg_weights_load_options options;

    bg_weights_load_options_init(&options, sizeof options);
    return options;
}

typedef enum bg_weights_outcome {
    BG_WEIGHTS_LOADED = 0,
    BG_WEIGHTS_MISSING,    /* the file lacks the tensor */
    BG_WEIGHTS_UNEXPECTED, /* the model lacks the tensor */
    BG_WEIGHTS_MISFIT,     /* another shape, or a type that is not converted */
    BG_WEIGHTS_IGNORED,    /* skipped because of the prefix or `ignore` */
    BG_WEIGHTS_OUTCOME_COUNT
} bg_weights_outcome;
/* Returns a name such as "loaded" or "missing". */
BG_API const char *bg_weights_outcome_name(bg_weights_outcome outcome);

typedef struct bg_weights_result {
    const char *name;    /* name in the model */
    const char *in_file; /* name in the file; NULL if the tensor is missing */
    bg_weights_outcome outcome;
    bg_type wanted, found; /* the model's type and the file's; all-zero if missing. `found` has dtype BG_DTYPE_NONE if
                              Brigade does not have the file's element type */
} bg_weights_result;

/* The result for each tensor, sorted by the name in the model. Clear it with bg_weights_report_clear; a zeroed struct
 * is empty. */
typedef struct bg_weights_report {
    uint32_t counts[BG_WEIGHTS_OUTCOME_COUNT];
    uint32_t result_count;
    bg_weights_result *results;
    void *memory; /* memory of the names */
} bg_weights_report;
BG_API void bg_weights_report_clear(bg_weights_report *report);
/* Prints one line for each tensor that was not loaded unchanged: "missing `fc2.bias` float32[10]"; "" if there is no
 * such tensor. malloc'ed. */
BG_API bg_status bg_weights_report_print(const bg_weights_report *report, char **out_text, bg_error *error);

/*
 * Reads weights from `path`: a .safetensors or .npz file, recognized by its content, or a folder with model.safetensors
 * or with the files of a model.safetensors.index.json. Tensors are read one at a time, but a .npz file is in memory as
 * a whole. `out_report` may be NULL; it is filled on success, and when tensors do not fit. Errors: BG_ERROR_INVALID
 * (options; two tensors with one name in the model; with `strict`, unexpected tensors), BG_ERROR_NOT_FOUND (no such
 * file; with `strict`, missing tensors), BG_ERROR_SHAPE (with `strict`, tensors of another shape or type),
 * BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED, BG_ERROR_IO, BG_ERROR_CANCELED (progress), BG_ERROR_MEMORY. Messages about
 * tensors have the first names and the number of all. If reading a tensor fails, earlier tensors have the file's
 * values.
 */
BG_API bg_status bg_weights_load(bg_weights *weights, const char *path, const bg_weights_load_options *options,
                                 bg_weights_report *out_report, bg_error *error);

/* ---- saving ---- */

typedef struct bg_weights_save_options {
    size_t struct_bytes;              /* set by bg_weights_save_defaults; see base.h */
    const char *prefix;               /* prefix of each name in the file. NULL: "" */
    const bg_weights_rename *renames; /* as for loading: loading with the same renames restores the names */
    uint32_t rename_count;
    /* Type to which floats are converted; BG_DTYPE_NONE: no conversion. .npz files cannot have bfloat16. */
    bg_dtype floats;
    /* For a folder: the largest size of a file, in bytes; only a file of a single tensor may be larger. 0: no limit. */
    uint64_t folder_bytes;
    /* Called before each tensor is written; `what` is the name in the file, and the unit is bytes of the file's
     * tensors. If the callback cancels, the current file does not appear. NULL: no callback. */
    bg_progress_function progress;
    void *progress_user;
} bg_weights_save_options;
BG_API void bg_weights_save_options_init(bg_weights_save_options *options, size_t struct_bytes);
/* Defaults: names and types are unchanged; a folder has one file. */
static inline bg_weights_save_options bg_weights_save_defaults(void)
{
    bg_weights_save_options options;

    bg_weights_save_options_init(&options, sizeof options);
    return options;
}

/*
 * Writes parameters and buffers, without optimizer state and other training state. `path` ends in ".safetensors" or
 * ".npz", or is a folder (a name without an ending, or with "/" at its end), which is created. A folder gets
 * model.safetensors or, with folder_bytes, model-00001-of-00003.safetensors and so on and model.safetensors.index.json.
 * Each file appears complete or not at all; the index is written last. Tensors are written one at a time. Errors:
 * BG_ERROR_INVALID (options; two tensors with one name in the file; another ending; no tensor), BG_ERROR_UNSUPPORTED (a
 * .npz of 4 GiB or more, or of bfloat16), BG_ERROR_IO, BG_ERROR_NOT_FOUND (no such folder), BG_ERROR_CANCELED
 * (progress), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_weights_save(bg_weights *weights, const char *path, const bg_weights_save_options *options,
                                 bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
