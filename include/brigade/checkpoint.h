/*
 * checkpoint.h: the state of a training run in a file, from which it goes on as if it had never stopped.
 *
 *     bg_session_run ... bg_checkpoint_save(session, "run1", ...)     run1/checkpoint_train_step_100.safetensors
 *     (the process ends, in whatever way)
 *     bg_checkpoint_load(session, "run1", ...); bg_session_run ...    the same bits as without the end between
 *
 * A checkpoint holds every weight, buffer and optimiser's state under its name, the count of weight updates, the seed,
 * and what the caller wants to find again (where its data stood, for instance: the epoch and position of a bg_loader).
 * It does not know how the run was split: another strategy, schedule or number of devices goes on from it. Numbers that
 * the caller sets between runs (bg_session_set_learning_rate) are the caller's to set again.
 *
 * A file is there complete or not at all, and has a checksum over all that it says. A folder is written by one process
 * at a time.
 */
#ifndef BRIGADE_CHECKPOINT_H
#define BRIGADE_CHECKPOINT_H

#include <brigade/session.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BG_CHECKPOINT_BLOB_LIMIT ((size_t)1 << 20)

typedef struct bg_checkpoint_save_options {
    uint32_t max_checkpoints; /* the newest that are kept, this one with them; at least 1, the default */
    const void *blob;         /* the caller's, returned by load; NULL: none */
    size_t blob_bytes;        /* at most BG_CHECKPOINT_BLOB_LIMIT */
    const char *info;         /* text for people, UTF-8; NULL: none */
} bg_checkpoint_save_options;
BG_API bg_checkpoint_save_options bg_checkpoint_save_defaults(void);

/*
 * Writes DIRECTORY/checkpoint_train_step_<n>.safetensors, n = bg_session_step; makes the directory when it is not
 * there. Older checkpoints beyond max_checkpoints, and temporary files of processes that were killed, are removed after
 * the new one is on disk; one that cannot be removed is a warning in the log of the session's options. Takes no memory
 * for a copy of the weights. `options` NULL: the defaults. Errors, with every older checkpoint left as it was:
 * BG_ERROR_INVALID (options; a checkpoint of a later step is there; a weight whose newest value a failed session had),
 * BG_ERROR_IO (disk full, no permission ...), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_checkpoint_save(bg_session *session, const char *directory,
                                    const bg_checkpoint_save_options *options, bg_error *error);

/* What happens when the checkpoint and the weights have not the same names, or another seed. A weight of another type
 * is always an error. */
typedef enum bg_checkpoint_differences {
    BG_CHECKPOINT_WARN = 0, /* one line in the log for each kind; missing weights keep their values */
    BG_CHECKPOINT_IGNORE,
    BG_CHECKPOINT_REFUSE, /* BG_ERROR_INVALID; nothing is changed */
} bg_checkpoint_differences;

typedef struct bg_checkpoint_load_options {
    const char *file; /* in the directory; NULL: the one of the latest step */
    bg_checkpoint_differences differences;
    bg_log_function log; /* NULL: that of the session's options */
    void *log_user;
} bg_checkpoint_load_options;
BG_API bg_checkpoint_load_options bg_checkpoint_load_defaults(void);

/* What a checkpoint says beside the weights. End with bg_checkpoint_clear. */
typedef struct bg_checkpoint {
    uint64_t step; /* weight updates done */
    uint64_t seed;
    char *path;
    char *info; /* "": none */
    void *blob; /* NULL: none */
    size_t blob_bytes;
} bg_checkpoint;
BG_API void bg_checkpoint_clear(bg_checkpoint *checkpoint);

/*
 * Sets the session's weights and its step. The checkpoint is checked as a whole before anything is changed. `out` may
 * be NULL, as may `options`.
 * Errors: BG_ERROR_NOT_FOUND (no checkpoint there: begin anew), BG_ERROR_PARSE (damaged; the message says what to do:
 * an older one is never taken silently), BG_ERROR_UNSUPPORTED (a newer version of the format), BG_ERROR_SHAPE,
 * BG_ERROR_INVALID, BG_ERROR_IO, BG_ERROR_MEMORY.
 */
BG_API bg_status bg_checkpoint_load(bg_session *session, const char *directory,
                                    const bg_checkpoint_load_options *options, bg_checkpoint *out, bg_error *error);

/* The same for weights without a session: empty ones take every name of the checkpoint. No seed is compared; without
 * options.log it is silent. After a failed run, this is how a new session gets its weights. */
BG_API bg_status bg_checkpoint_load_weights(bg_weights *weights, const char *directory,
                                            const bg_checkpoint_load_options *options, bg_checkpoint *out,
                                            bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
