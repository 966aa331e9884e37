/*
 * feed.h: the host's side of a run: queues that feed the devices and read from them while they run, runs of any number
 * of iterations, and the shapes of outputs.
 *
 *     data set, loader, callback --> infeed --> | devices: iteration after iteration | --> outfeed --> any thread
 *
 * A queue has a bounded number of elements in flight: producer and devices wait for each other. If the data end or
 * their source fails, the run ends between two iterations. A failed run ends the outfeed. After the consumer has
 * detached, the devices no longer wait for it.
 *
 * Threads: one thread at a time uses a session (session.h) and an infeed; one thread may read rows of an outfeed while
 * another one runs the session. bg_session_stop may be called by any thread.
 *
 * Errors: BG_ERROR_INVALID, BG_ERROR_NOT_FOUND for a name of an input or output that the session does not have,
 * BG_ERROR_SHAPE for tensors that do not fit the session, BG_ERROR_RANGE if the data have ended, BG_ERROR_IO if the
 * system refuses a thread or a mutex, BG_ERROR_MEMORY. Functions that run a session also return the errors of
 * bg_session_run.
 */
#ifndef BRIGADE_FEED_H
#define BRIGADE_FEED_H

#include <brigade/array.h>
#include <brigade/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shapes ---- */

typedef enum bg_stream_form {
    /* All values of the stream are joined along the first dimension, whose size is dims[0] times the stream's count. A
     * scalar becomes a vector, or stays a scalar if the count is 1 (as in PopTorch). */
    BG_STREAM_FLAT = 0,
    /* [transfers, replicas, dims...], where each of the first two dimensions is left out if it is 1 (PopXL). */
    BG_STREAM_SPLIT
} bg_stream_form;
/* Finds the shape of all values of a stream in one run. Errors: BG_ERROR_SHAPE (more dimensions than BG_MAX_RANK, or a
 * count of 0). */
BG_API bg_status bg_stream_shape(const bg_stream *stream, bg_stream_form form, bg_type *out, bg_error *error);
/* Checks that an array of this type, in either form, fits an input of a run. The message of BG_ERROR_SHAPE names every
 * factor of the first dimension: micro-batch, device iterations, accumulation, replicas, input group size. */
BG_API bg_status bg_session_check_input(const bg_session *session, uint32_t index, const bg_type *type,
                                        bg_error *error);

/* ---- infeeds ---- */

/*
 * A queue of elements for the inputs of a graph. Each element has one micro-batch of each tensor. In each iteration the
 * devices read the elements in order: micro-batch m of replica r reads element m x replicas + r of the iteration (with
 * options.replicas.input_group_size: m x groups + the replica's group; with options.numerics.canonical_reductions:
 * group x accumulation + m). A separate thread requests elements from the source before the devices need them.
 */
typedef struct bg_infeed bg_infeed;

enum { BG_INFEED_MAX_TENSORS = 16 };

/* Writes the next element's tensors (bg_infeed_options.omit_unread: those that are not NULL), or sets *out_has_ended.
 * An infeed calls the source from a separate thread. On failure fill `error` (bg_error_set) and return its status. */
typedef bg_status (*bg_infeed_source)(void *user, void *const tensors[], bool *out_has_ended, bg_error *error);

typedef struct bg_infeed_options {
    size_t struct_bytes; /* set by bg_infeed_options_defaults; see base.h */
    /* Number of elements for each replica that are prepared in addition to those of the current iteration: 1 to 255. */
    uint32_t prefetch_depth;
    /* Name of the input for each tensor (a dictionary). NULL: tensor i is for input i (a tuple). */
    const char *const *names;
    bool repeat; /* data sets and loaders: continue with the next epoch; false: the data end after one epoch */
    /* Data sets and loaders: the epoch in which the infeed begins, and the number of elements to skip in it, to
     * continue where a run ended. */
    uint64_t first_epoch, first_element;
    /* If several ranks share a session, each rank's source makes every element. With omit_unread, the source makes only
     * the tensors that devices of its rank read: tensors[t] is NULL for a tensor that none of them reads, and all are
     * NULL for an element that the source should skip. Infeeds of data sets and loaders always omit unread tensors
     * where they can. */
    bool omit_unread;
} bg_infeed_options;

BG_API void bg_infeed_options_init(bg_infeed_options *options, size_t struct_bytes);
/* Defaults: depth 1, a tuple, no repeat, from the beginning. */
static inline bg_infeed_options bg_infeed_options_defaults(void)
{
    bg_infeed_options options;

    bg_infeed_options_init(&options, sizeof options);
    return options;
}

/* Creates an infeed. `types` are those of one micro-batch of each tensor. */
BG_API bg_status bg_infeed_create(const bg_type *types, uint32_t tensor_count, bg_infeed_source source, void *user,
                                  const bg_infeed_options *options, bg_infeed **out, bg_error *error);

/* A source of samples: the first dimension of an input is the number of samples in an element. */
typedef struct bg_sample_source {
    size_t struct_bytes; /* 0, or sizeof(bg_sample_source): see base.h */
    /* Called when the infeed is started, before the first element; may be NULL. */
    bg_status (*begin)(void *user, uint64_t samples_per_element, bg_error *error);
    bg_infeed_source next;
    void (*end)(void *user); /* called when the infeed is destroyed; may be NULL */
    void *user;
} bg_sample_source;
/* Creates an infeed whose elements consist of samples. `types` are those of the tensors of a sample. `source` is
 * copied; on failure `end` is not called. */
BG_API bg_status bg_infeed_create_samples(const bg_type *types, uint32_t tensor_count, const bg_sample_source *source,
                                          const bg_infeed_options *options, bg_infeed **out, bg_error *error);

/* Checks the tensors against the session's inputs, allocates memory and starts the thread. Call the function once for
 * each infeed. */
BG_API bg_status bg_infeed_start(bg_infeed *infeed, const bg_session *session, bg_error *error);
/* Waits for a call of the source that is in progress, ends the thread and frees the infeed. Do not call this during a
 * run. */
BG_API void bg_infeed_destroy(bg_infeed *infeed);
/* Returns the number of elements that devices have used. Call the function between runs. */
BG_API uint64_t bg_infeed_used_count(const bg_infeed *infeed);
/* Returns the plan of the session for which the infeed was started; NULL if it was not started. */
BG_API const bg_plan *bg_infeed_plan(const bg_infeed *infeed);
/* Whether the source has reported the end of the data. Call the function between runs. */
BG_API bool bg_infeed_has_ended(const bg_infeed *infeed);

/* ---- outfeeds ---- */

/*
 * A queue of the output values of runs. Each row of the queue holds the values of one micro-batch on all replicas, for
 * each leaf of a structure; with `accumulate`, or if all leaves have one value for each weight update, a row belongs to
 * an update. Runs of the session to which the outfeed is attached add the rows. One other thread may read rows while
 * the session runs; the session's own thread may read them between runs.
 */
typedef struct bg_outfeed bg_outfeed;

typedef struct bg_outfeed_options {
    size_t struct_bytes; /* set by bg_outfeed_options_defaults; see base.h */
    /* Leaves are names of the session's outputs: "loss", a tuple "(loss, correct)", a dictionary "{d1: sum, d2: diff}"
     * ("{loss}" is short for "{loss: loss}"), and any nesting of these: "({a: x, b: (y, z)}, loss)". Must be NULL if
     * `loss` is set. */
    const char *structure;
    bool newest_only; /* keeps only the newest row; false: keeps each row until it is read */
    /* With `bounded`: the number of rows, at least 1, that may wait for the consumer before the devices wait. */
    uint32_t buffer_depth;
    /* Allocates only buffer_depth rows, and one more for each row of a step after its first; if all are unread, the
     * devices wait until the consumer reads rows. False: the outfeed allocates all rows of a run, and keeps unread rows
     * of earlier runs. Cannot be combined with newest_only. */
    bool bounded;
    /* Training: rows hold only the loss, instead of a structure. */
    bool loss;
    /* Training: leaf i is left out where mask[i] is true. Cannot be combined with `loss`. NULL: no leaf is left out. */
    const bool *mask;
    uint32_t mask_count;
    /* Each weight update gives one row, with sums over its micro-batches in order. Cannot be combined with
     * newest_only. */
    bool accumulate;
    bg_dtype accumulate_dtype; /* type of the sums, float32 or float64; BG_DTYPE_NONE: float32 for leaves of 16 bits,
                                  otherwise the leaf's type */
} bg_outfeed_options;

BG_API void bg_outfeed_options_init(bg_outfeed_options *options, size_t struct_bytes);
/* Defaults: every row, depth 1, not bounded. */
static inline bg_outfeed_options bg_outfeed_options_defaults(void)
{
    bg_outfeed_options options;

    bg_outfeed_options_init(&options, sizeof options);
    return options;
}

BG_API bg_status bg_outfeed_create(const bg_outfeed_options *options, bg_outfeed **out, bg_error *error);
/* Detaches the consumer: unread rows are lost, and the devices continue. May be called during a run. */
BG_API void bg_outfeed_destroy(bg_outfeed *outfeed);
/* Attaches the outfeed to a session, whose runs then add rows. Call it once for each outfeed, between runs. */
BG_API bg_status bg_outfeed_attach(bg_outfeed *outfeed, bg_session *session, bg_error *error);

typedef struct bg_outfeed_leaf {
    /* Keys and positions from the outermost to the innermost: "losses/0"; "" if the structure is one leaf. */
    const char *path;
    const char *output; /* name of the session's output */
    bg_type type; /* type of the leaf in a row: [replicas, dims...], or [dims...] if there is one replica. Known after
                     bg_outfeed_attach */
} bg_outfeed_leaf;
BG_API uint32_t bg_outfeed_leaf_count(const bg_outfeed *outfeed);
BG_API bg_status bg_outfeed_leaf_at(const bg_outfeed *outfeed, uint32_t index, bg_outfeed_leaf *out, bg_error *error);
BG_API uint32_t bg_outfeed_find(const bg_outfeed *outfeed, const char *path); /* UINT32_MAX if there is no such leaf */
BG_API const char *bg_outfeed_structure(const bg_outfeed *outfeed);           /* the structure with all keys */

/* Reads and removes the oldest row (with newest_only, the newest row, once), if there is a row. leaves[i] (with the
 * size of leaf i in a row; may be NULL) receives leaf i. *out_has is false if there is no row now. After a run has
 * failed, the rows before the failure can still be read; after them the function returns the run's error. */
BG_API bg_status bg_outfeed_next(bg_outfeed *outfeed, void *const *leaves, bool *out_has, bg_error *error);
/* Waits at most limit_s seconds until a row can be read, and sets *out_has to whether a row can be read. Returns
 * earlier if no row can come, because the session was destroyed or its run failed. After a failed run without unread
 * rows it returns the run's error. */
BG_API bg_status bg_outfeed_wait(bg_outfeed *outfeed, double limit_s, bool *out_has, bg_error *error);
/* Reads all rows at once: arrays[i] (zeroed before the call; the caller clears it) is [rows, replicas, dims...] of leaf
 * i. Without rows the array's first dimension is 0 and the array has no data. With newest_only the array is [replicas,
 * dims...], the row stays in the outfeed, and it is an error if there is no row. `wait_for_completion`: the function
 * first waits for the end of the run in progress. After a failed run without unread rows it returns the run's error. */
BG_API bg_status bg_outfeed_dequeue(bg_outfeed *outfeed, bool wait_for_completion, bg_array *arrays,
                                    uint64_t *out_row_count, bg_error *error);

/* ---- runs ---- */

#define BG_ENDLESS UINT64_MAX

/* The settings of a run. With all-zero settings the run is that of bg_session_run without inputs and outputs. */
typedef struct bg_run {
    size_t struct_bytes; /* 0, or sizeof(bg_run): see base.h */
    /* As for bg_session_run. An input that is NULL comes from the infeed; the list may be NULL when all inputs come
     * from the infeed. */
    const void *const *inputs;
    /* constants[i] is true for an input that stays the same during the run: inputs[i] then has the value of one
     * micro-batch, which is used for all. NULL: no such input. */
    const bool *constants;
    bg_infeed *infeed;    /* an infeed that was started for this session; or NULL */
    void *const *outputs; /* as for bg_session_run; NULL: no output is returned */
    /* Loops (loop.h): carried_in[i] is the first value of carried value i, and carried_out[i] receives its last value,
     * with a first dimension for the replicas. If an entry or the list is NULL, the first value is zero, and the last
     * value is not returned. */
    const void *const *carried_in;
    void *const *carried_out;
    /* Device iterations; 0: as planned. More iterations than planned are allowed in training and in loops, if each
     * input comes from the infeed or is constant, and no array is given for outputs of the modes ALL and EVERY_N.
     * BG_ENDLESS: the run continues until the data end, or `stop` or another thread ends it. */
    uint64_t iterations;
    /* Name of a scalar output: the run ends after the first iteration whose last micro-batch has a value above 0 on any
     * replica. NULL: no such output. */
    const char *stop;
    /* Work for idle workers, such as bg_loader_help. Workers call the function as long as it returns true, possibly
     * several workers at the same time, and never after the run. A call should take only microseconds, because devices
     * may wait for it. NULL: no such work. */
    bool (*spare)(void *user);
    void *spare_user;
    bool synthetic; /* no data move between host and devices, to measure the time without them. Outfeeds get no rows */
    /* Training: the learning rate of each weight update, one for each possible iteration, for this run only. So the
     * updates of one run can follow a schedule of rates. NULL: all updates use the session's learning rate. */
    const double *learning_rates;
} bg_run;

/*
 * Runs the session with the settings of `run`. *out_iterations (may be NULL) gets the number of completed device
 * iterations; output arrays hold only values of completed iterations. Errors beyond bg_session_run's: BG_ERROR_RANGE if
 * the infeed's data ended before the run did, and the source's error if the source failed. After these two errors the
 * completed iterations are valid, and the session can run again.
 */
BG_API bg_status bg_session_execute(bg_session *session, const bg_run *run, uint64_t *out_iterations, bg_error *error);
/* Runs bg_session_execute with an infeed, and with arrays for outputs (`outputs` may be NULL). */
BG_API bg_status bg_session_run_infeed(bg_session *session, bg_infeed *infeed, void *const *outputs, bg_error *error);
/* Runs the session with an infeed that the session keeps between runs. If the session has no infeed for this key and
 * number, `open` makes one, and the session starts it. The session destroys the infeed when it gets another one, or
 * when it is destroyed itself. */
BG_API bg_status bg_session_run_kept(bg_session *session, const void *key, uint64_t number,
                                     bg_status (*open)(void *user, bg_infeed **out, bg_error *error), void *user,
                                     void *const *outputs, bg_error *error);
/* Ends the run that another thread has begun on this session, between two iterations; does nothing when no run is in
 * progress. Do not call it in a signal handler: let a thread wait for the signal (sigwait), or set a flag that the
 * program checks between runs. */
BG_API void bg_session_stop(bg_session *session);

#ifdef __cplusplus
}
#endif

#endif
