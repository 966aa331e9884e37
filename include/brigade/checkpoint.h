/*
 * checkpoint.h: the state of a training run in a file, from which it resumes as if it had never stopped.
 *
 *     bg_session_run ... bg_checkpoint_save(session, "run1", ...)     run1/checkpoint_train_step_100.safetensors
 *     (the process ends, in whatever way)
 *     bg_checkpoint_load(session, "run1", ...); bg_session_run ...    the same bits as without the end between
 *
 * A checkpoint holds every weight, buffer and optimizer's state under its name, the count of weight updates, the seed,
 * and what the caller wants to find again (where its data stood, for instance: the epoch and position of a bg_loader).
 * It does not depend on how the run was split: a run with another strategy, schedule or number of devices resumes from
 * it. Numbers that the caller sets between runs (bg_session_set_learning_rate) must be set again.
 *
 * A checkpoint appears complete or not at all, and has checksums over all of its content. One training at a time writes
 * to a folder.
 *
 * Several ranks write a part each, at the same time, into the folder that has the same name on each of their hosts; it
 * may be one folder or several. The file above is then the manifest, which is written last and lists the parts. Any
 * number of ranks, or one process, can load it: ranks read what their devices need, and send each other parts that only
 * some of their folders have.
 *
 * Threads: as bg_session_run (session.h): one thread at a time uses the weights and all sessions that share them.
 *
 * Errors: BG_ERROR_INVALID, BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_SHAPE (another model),
 * BG_ERROR_COMMUNICATION (of several ranks), BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_CHECKPOINT_H
#define BRIGADE_CHECKPOINT_H

#include <brigade/session.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BG_CHECKPOINT_BLOB_LIMIT ((size_t)1 << 20)

typedef struct bg_checkpoint_save_options {
    size_t struct_bytes;      /* set by bg_checkpoint_save_defaults; see base.h */
    uint32_t max_checkpoints; /* the newest that are kept, this one with them; at least 1, the default */
    const void *blob;         /* the caller's, returned by load; NULL: none */
    size_t blob_bytes;        /* at most BG_CHECKPOINT_BLOB_LIMIT */
    const char *info;         /* text for people, UTF-8; NULL: none */
    uint64_t keep_interval_s; /* seconds between older checkpoints that stay too; 0, the default: none */
    bool one_file;            /* rank 0 writes one file for all ranks; false: each rank writes its part */
} bg_checkpoint_save_options;
BG_API void bg_checkpoint_save_options_init(bg_checkpoint_save_options *options, size_t struct_bytes);
static inline bg_checkpoint_save_options bg_checkpoint_save_defaults(void)
{
    bg_checkpoint_save_options options;

    bg_checkpoint_save_options_init(&options, sizeof options);
    return options;
}

/*
 * Writes DIRECTORY/checkpoint_train_step_<n>.safetensors, n = bg_session_step; makes the directory when it is not
 * there. Of all ranks. Older checkpoints beyond max_checkpoints, and temporary files of processes that were killed, are
 * removed after the new one was written, read back and its checksum compared; one that cannot be removed is a warning
 * in the log of the session's options. Takes no memory for a copy of the weights. `options` NULL: the defaults. Errors,
 * with every older checkpoint left as it was: BG_ERROR_INVALID (options; a checkpoint of a later step is there; a
 * weight whose newest value a failed session had), BG_ERROR_IO (disk full, no permission ...), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_checkpoint_save(bg_session *session, const char *directory,
                                    const bg_checkpoint_save_options *options, bg_error *error);

/*
 * The same beside training: bg_checkpoint_begin copies what the session's own devices have (memory for one copy of it)
 * and returns; a thread writes the copy while the session trains on.
 *
 *     begin --> bg_session_run ... --> is it written? --> bg_session_run ... --> finish
 *
 * In one process the checkpoint is there when it is written; of several ranks when it is finished, because the manifest
 * comes last. Either way older ones go at the end. One writer at a time for a folder; the session must live until
 * bg_checkpoint_finish, which waits for the thread, says what came of it and frees the writer. All three are of all
 * ranks. Errors: those of bg_checkpoint_save, of writing from bg_checkpoint_finish; BG_ERROR_INVALID (one_file of
 * several ranks). Owner: *out is the caller's, to be released with bg_checkpoint_finish. */
typedef struct bg_checkpoint_writer bg_checkpoint_writer;
BG_API bg_status bg_checkpoint_begin(bg_session *session, const char *directory,
                                     const bg_checkpoint_save_options *options, bg_checkpoint_writer **out,
                                     bg_error *error);
/* Whether all ranks have written theirs. Does not wait for them. */
BG_API bg_status bg_checkpoint_is_written(bg_checkpoint_writer *writer, bool *out, bg_error *error);
BG_API bg_status bg_checkpoint_finish(bg_checkpoint_writer *writer, bg_error *error); /* fine with NULL */

/* What happens when the checkpoint has another seed, or when one side lacks the state of automatic loss scaling or, in
 * inference, the optimizer's. A weight of another type is always an error; parameters, buffers and the optimizer are
 * subject to `drop`. */
typedef enum bg_checkpoint_differences {
    BG_CHECKPOINT_WARN = 0, /* one line in the log for each kind; missing weights keep their values */
    BG_CHECKPOINT_IGNORE,   /* no lines, not even of what is dropped */
    BG_CHECKPOINT_REFUSE,   /* BG_ERROR_INVALID; nothing is changed */
} bg_checkpoint_differences;

typedef struct bg_checkpoint_load_options {
    size_t struct_bytes; /* set by bg_checkpoint_load_defaults; see base.h */
    const char *file;    /* in the directory; NULL: the one of the latest step */
    bg_checkpoint_differences differences;
    /*
     * What may be dropped, which is an error otherwise; a line in the log says what was. NULL or "": nothing.
     * "optimizer": the optimizer's state of the file. The session's begins anew, at an update count of 0. Needed when
     *     another optimizer made it (or one with another setting that changes what its state means: momentum on or off,
     *     combined, centered, tf_variant).
     * "parameters": parameters and buffers, with their state, that only one side has: what the file lacks keeps the
     *     value that it has in the weights, what the weights lack is left out. Needed for a model of other depth or
     *     structure.
     * "optimizer,parameters": both.
     */
    const char *drop;
    /* The optimizer that made the state of a file that does not say so, which an earlier release wrote, as
     * bg_optimizer_parse reads it ("adamw"). Without it the kinds of state decide (exp_inf is AdaMax's), and what they
     * leave open is an error. NULL: not given. */
    const char *optimizer;
    /* What error messages call the two options above; NULL: options.drop, options.optimizer. */
    const char *drop_option, *optimizer_option;
    bg_log_function log; /* NULL: that of the session's options */
    void *log_user;
} bg_checkpoint_load_options;
BG_API void bg_checkpoint_load_options_init(bg_checkpoint_load_options *options, size_t struct_bytes);
static inline bg_checkpoint_load_options bg_checkpoint_load_defaults(void)
{
    bg_checkpoint_load_options options;

    bg_checkpoint_load_options_init(&options, sizeof options);
    return options;
}

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
 * be NULL, as may `options`. A checkpoint of another optimizer or another model is BG_ERROR_INVALID, with the names or
 * numbers of both, unless options.drop allows it; an inference session loads no state, so its optimizer is not
 * compared. Errors: BG_ERROR_NOT_FOUND (no checkpoint there: start a new training), BG_ERROR_PARSE (damaged; the
 * message says what to do; an older one is never used silently), BG_ERROR_UNSUPPORTED (a newer version of the format),
 * BG_ERROR_SHAPE, BG_ERROR_INVALID, BG_ERROR_IO, BG_ERROR_MEMORY. A file that changes after it was checked may end the
 * reading of values with BG_ERROR_IO; some weights have the checkpoint's values then: load again.
 */
BG_API bg_status bg_checkpoint_load(bg_session *session, const char *directory,
                                    const bg_checkpoint_load_options *options, bg_checkpoint *out, bg_error *error);

/* The same for weights without a session: empty ones take every name of the checkpoint. No seed and no optimizer is
 * compared; a session that is then created with another optimizer is refused. Without options.reporting.log it is
 * silent. After a failed run, this is how a new session gets its weights. */
BG_API bg_status bg_checkpoint_load_weights(bg_weights *weights, const char *directory,
                                            const bg_checkpoint_load_options *options, bg_checkpoint *out,
                                            bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
