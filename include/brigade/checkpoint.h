/*
 * checkpoint.h: saves the state of a training run to a file, from which the run resumes as if it had never stopped.
 *
 *     bg_session_run ... bg_checkpoint_save(session, "run1", ...)     run1/checkpoint_train_step_100.safetensors
 *     (the process ends in any way)
 *     bg_checkpoint_load(session, "run1", ...); bg_session_run ...    the same bits as without the interruption
 *
 * A checkpoint holds every weight, buffer and optimizer state under its name, the number of weight updates, the seed,
 * and a blob from the caller, such as the epoch and position of a bg_loader. A checkpoint does not depend on how the
 * run was split over devices: a run with another strategy, schedule or number of devices can resume from it. Numbers
 * that the caller sets between runs (bg_session_set_learning_rate) must be set again.
 *
 * A checkpoint appears complete or not at all, and has checksums over all of its content. Only one training run at a
 * time may write to a folder.
 *
 * Several ranks write one part each, at the same time, into a folder that has the same name on each host; the hosts
 * need not share the folder. The file above is then the manifest, which is written last and lists the parts. Any number
 * of ranks, or one process, can load such a checkpoint: each rank reads what its devices need, and ranks send each
 * other parts that only some of their folders have.
 *
 * Threads: as for bg_session_run (session.h): one thread at a time uses the weights and all sessions that share them.
 *
 * Errors: BG_ERROR_INVALID, BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_SHAPE (another model),
 * BG_ERROR_COMMUNICATION (with several ranks), BG_ERROR_MEMORY.
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
    uint32_t max_checkpoints; /* number of newest checkpoints to keep, including the one that is saved; at least 1;
                                 default 1 */
    const void *blob;         /* the caller's data, returned by load; NULL: no data */
    size_t blob_bytes;        /* at most BG_CHECKPOINT_BLOB_LIMIT */
    const char *info;         /* a description in UTF-8; NULL: no description */
    uint64_t keep_interval_s; /* also keep one older checkpoint for each interval of this number of seconds; 0
                                 (default): no such checkpoint */
    bool one_file;            /* rank 0 writes one file for all ranks; false: each rank writes its part */
    bool metric_rises;        /* a higher metric is better; false (default): a lower one */
    const char *metric_name;  /* name of `metric`, which the checkpoint records; NULL (default): no metric */
    double metric;            /* value of the metric, such as a validation loss; recorded if it is finite */
    uint32_t keep_best; /* number of checkpoints to keep because their value of a metric is best; the metric is that of
                           the newest checkpoint that records one; 0 (default): no such checkpoint */
} bg_checkpoint_save_options;
BG_API void bg_checkpoint_save_options_init(bg_checkpoint_save_options *options, size_t struct_bytes);
static inline bg_checkpoint_save_options bg_checkpoint_save_defaults(void)
{
    bg_checkpoint_save_options options;

    bg_checkpoint_save_options_init(&options, sizeof options);
    return options;
}

/*
 * Writes DIRECTORY/checkpoint_train_step_<n>.safetensors, where n is bg_session_step; creates the directory if it is
 * missing. All ranks call this function. The function then reads the new checkpoint back and compares its checksum.
 * After that it removes older checkpoints beyond max_checkpoints, and temporary files of processes that were killed. A
 * file that cannot be removed is a warning in the log of the session's options. The function allocates no copy of the
 * weights. `options` NULL: the defaults. Errors, with every older checkpoint left unchanged: BG_ERROR_INVALID (options;
 * a checkpoint of a later step exists; the newest value of a weight was lost with a failed session), BG_ERROR_IO (disk
 * full, no permission ...), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_checkpoint_save(bg_session *session, const char *directory,
                                    const bg_checkpoint_save_options *options, bg_error *error);

/*
 * Writes a checkpoint while training continues: bg_checkpoint_begin copies the state of the devices of this process,
 * with all processors of the session, and returns; a thread writes the copy while the session continues training. The
 * session keeps the memory of the copy for the next checkpoint, until the session is destroyed or
 * bg_checkpoint_release_memory is called.
 *
 *     begin --> bg_session_run ... --> is it written? --> bg_session_run ... --> finish
 *
 * The thread works in pieces of at most 1 MiB. While a run keeps all processors of the session busy, the thread pauses
 * between pieces, so that writing and reading back each use 1/32 of one processor. So writing takes at most 32 times
 * its processor time, plus the time of the disk. While bg_checkpoint_finish waits, the thread does not pause.
 *
 * With one process the checkpoint is complete when the thread has written it. With several ranks it is complete after
 * bg_checkpoint_finish, which writes the manifest. bg_checkpoint_finish then removes older checkpoints. Only one writer
 * at a time may write to a folder. bg_checkpoint_finish waits for the thread, returns its status and frees the writer;
 * do not destroy the session before this call. All ranks call all three functions. Errors: those of bg_checkpoint_save
 * (bg_checkpoint_finish returns those of writing); BG_ERROR_INVALID (one_file with several ranks). Owner: *out belongs
 * to the caller, who releases it with bg_checkpoint_finish.
 */
typedef struct bg_checkpoint_writer bg_checkpoint_writer;
BG_API bg_status bg_checkpoint_begin(bg_session *session, const char *directory,
                                     const bg_checkpoint_save_options *options, bg_checkpoint_writer **out,
                                     bg_error *error);
/* Sets *out to whether all ranks have written their parts. The function does not wait. */
BG_API bg_status bg_checkpoint_is_written(bg_checkpoint_writer *writer, bool *out, bg_error *error);
BG_API bg_status bg_checkpoint_finish(bg_checkpoint_writer *writer, bg_error *error); /* NULL is allowed */

/* Allocates the memory for the copy before the first checkpoint needs it. Otherwise training waits while the system
 * provides the memory, which can take far longer than the copy. All ranks call this function. */
BG_API bg_status bg_checkpoint_reserve_memory(bg_session *session, bg_error *error);
/* Frees the memory that the session keeps for bg_checkpoint_begin on this rank, unless a writer uses it, so call the
 * function after bg_checkpoint_finish. Other ranks need not call it. */
BG_API bg_status bg_checkpoint_release_memory(bg_session *session, bg_error *error);

/* What happens if the checkpoint and the session differ in the seed, or if only one of them has the state of automatic
 * loss scaling or, in inference, the optimizer's state. A weight of another type is always an error; `drop` decides
 * about parameters, buffers and the optimizer. If a training session has another precision, batch size, micro-batch or
 * number of replicas than the session that saved the checkpoint, the load logs a warning (except with IGNORE), because
 * results then differ from those of a run without a stop. */
typedef enum bg_checkpoint_differences {
    BG_CHECKPOINT_WARN = 0, /* logs one line for each kind; missing weights keep their values */
    BG_CHECKPOINT_IGNORE,   /* logs nothing, not even which parts were dropped */
    BG_CHECKPOINT_REFUSE,   /* the function fails with BG_ERROR_INVALID and changes nothing */
} bg_checkpoint_differences;

typedef struct bg_checkpoint_load_options {
    size_t struct_bytes; /* set by bg_checkpoint_load_defaults; see base.h */
    const char *file;    /* name of the file in the directory; NULL: the file of the latest step */
    bg_checkpoint_differences differences;
    /*
     * The parts of the file that may be dropped; otherwise a mismatch is an error. The log names the dropped parts.
     *
     * - NULL or "": nothing.
     * - "optimizer": the optimizer state in the file. The session's optimizer state starts from zero, at an update
     *   count of 0. Needed if the state is from another optimizer, or from the same optimizer with another value of a
     *   setting that changes the state's meaning (momentum on or off, combined, centered, tf_variant).
     * - "parameters": parameters and buffers, with their state, that only the file or only the session has. Parameters
     *   that the file lacks keep their values; parameters that the session lacks are not loaded. Needed for a model of
     *   another depth or structure.
     * - "optimizer,parameters": both.
     */
    const char *drop;
    /* For a file that does not name its optimizer (earlier releases did not write it): the optimizer, in the form that
     * bg_optimizer_parse reads ("adamw"). NULL: the kinds of state in the file determine the optimizer (exp_inf belongs
     * to AdaMax), and it is an error if several optimizers have these kinds. */
    const char *optimizer;
    /* The names of the two options above in error messages; NULL: options.drop, options.optimizer. */
    const char *drop_option, *optimizer_option;
    bg_log_function log; /* NULL: the log of the session's options */
    void *log_user;
} bg_checkpoint_load_options;
BG_API void bg_checkpoint_load_options_init(bg_checkpoint_load_options *options, size_t struct_bytes);
static inline bg_checkpoint_load_options bg_checkpoint_load_defaults(void)
{
    bg_checkpoint_load_options options;

    bg_checkpoint_load_options_init(&options, sizeof options);
    return options;
}

/* The content of a checkpoint except the weights. Free it with bg_checkpoint_clear. */
typedef struct bg_checkpoint {
    uint64_t step; /* weight updates done */
    uint64_t seed;
    char *path;
    char *info; /* "": no description */
    void *blob; /* NULL: no data */
    size_t blob_bytes;
} bg_checkpoint;
BG_API void bg_checkpoint_clear(bg_checkpoint *checkpoint);

/*
 * Sets the session's weights and its step from a checkpoint, which is checked as a whole before anything is changed.
 * `out` may be NULL, as may `options`. A checkpoint of another optimizer or another model gives BG_ERROR_INVALID, with
 * the names or numbers of both, unless options.drop allows it. An inference session loads no optimizer state, so its
 * optimizer is not compared. Errors: BG_ERROR_NOT_FOUND (the directory has no checkpoint), BG_ERROR_PARSE (the
 * checkpoint is damaged, and the message says what to do; the function never loads an older one instead),
 * BG_ERROR_UNSUPPORTED (a newer version of the format), BG_ERROR_SHAPE, BG_ERROR_INVALID, BG_ERROR_IO, BG_ERROR_MEMORY.
 * If a file changes after it was checked, reading its values may fail with BG_ERROR_IO. Some weights then have the
 * checkpoint's values, so load a checkpoint again.
 */
BG_API bg_status bg_checkpoint_load(bg_session *session, const char *directory,
                                    const bg_checkpoint_load_options *options, bg_checkpoint *out, bg_error *error);

/* Loads a checkpoint into weights without a session: an empty bg_weights receives every name of the checkpoint. The
 * seed and the optimizer are not compared; creating a session with another optimizer then fails. Without `log` in the
 * options nothing is logged. `drop` may contain "optimizer" only if the weights are empty. A program uses this function
 * to get the weights of a new session after a failed run. */
BG_API bg_status bg_checkpoint_load_weights(bg_weights *weights, const char *directory,
                                            const bg_checkpoint_load_options *options, bg_checkpoint *out,
                                            bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
