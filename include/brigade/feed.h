/*
 * feed.h: the host's side of a run: queues that feed the devices and take from them while they run, runs of any number
 * of iterations, the shapes of what comes out.
 *
 *     data set, loader, callback --> infeed --> | devices: iteration after iteration | --> outfeed --> any thread
 *
 * A queue has a bounded number of elements in flight: producer and devices wait for each other. Whatever stops one side
 * reaches the other: data that end or fail end the run between two iterations; a failed run ends the outfeed; a
 * consumer that leaves is waited for no more.
 *
 * Threads: one thread at a time uses a session (session.h) and an infeed; one thread may take rows of an outfeed while
 * another one runs the session. bg_session_stop may be called by any thread.
 *
 * Errors: BG_ERROR_INVALID, BG_ERROR_SHAPE for tensors that do not fit the session, BG_ERROR_RANGE where the data have
 * ended, BG_ERROR_MEMORY; of functions that run a session, also those of bg_session_run.
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
    /* One dimension longer by all that was returned: dims[0] times the stream's count; a scalar becomes a vector, or
     * stays a scalar when one was returned (PopTorch). */
    BG_STREAM_FLAT = 0,
    /* [transfers, replicas, dims...] without those of the first two that are 1 (PopXL). */
    BG_STREAM_SPLIT
} bg_stream_form;
/* The shape of all that a stream holds in a run. Errors: BG_ERROR_SHAPE (more dimensions than BG_MAX_RANK, or none was
 * returned). */
BG_API bg_status bg_stream_shape(const bg_stream *stream, bg_stream_form form, bg_type *out, bg_error *error);
/* Whether an array of this type, in either form, is what a run takes for an input. BG_ERROR_SHAPE names every factor of
 * its first dimension: micro-batch, device iterations, accumulation, replicas, input group size. */
BG_API bg_status bg_session_check_input(const bg_session *session, uint32_t index, const bg_type *type,
                                        bg_error *error);

/* ---- infeeds ---- */

/*
 * Elements for the inputs of a graph: each has one micro-batch of each tensor. Iteration after iteration the devices
 * take them in order: micro-batch m of replica r takes element m x replicas + r of the iteration (with
 * options.replicas.input_group_size: m x groups + the replica's group). A thread of its own asks the source for
 * elements ahead of the devices.
 */
typedef struct bg_infeed bg_infeed;

enum { BG_INFEED_MAX_TENSORS = 16 };

/* Writes the next element's tensors (bg_infeed_options.omit_unread: those that are not NULL), or sets *out_has_ended.
 * An infeed calls it from a thread of its own. On failure fill `error` (bg_error_set) and return its status. */
typedef bg_status (*bg_infeed_source)(void *user, void *const tensors[], bool *out_has_ended, bg_error *error);

typedef struct bg_infeed_options {
    size_t struct_bytes; /* set by bg_infeed_options_defaults; see base.h */
    /* Elements for each replica that are ready ahead of those that the iteration at work needs: 1 to 255. */
    uint32_t prefetch_depth;
    /* A dictionary: the name of the input that each tensor is for. NULL: a tuple, for inputs 0, 1, ... */
    const char *const *names;
    bool repeat; /* data sets and loaders: continue with the next epoch; false: the data end after one */
    /* Data sets and loaders: where the infeed begins, an epoch and the number of its elements to skip, to continue
     * where a run ended. */
    uint64_t first_epoch, first_element;
    /* Where several ranks share a session, each infeed's source makes every element. With this it makes what the
     * devices of its rank read: tensors[t] is NULL for a tensor that none of them reads of the element, and all are for
     * an element that the source then passes over. Data sets and loaders: always, where they can. */
    bool omit_unread;
} bg_infeed_options;

BG_API void bg_infeed_options_init(bg_infeed_options *options, size_t struct_bytes);
/* depth 1, a tuple, no repeat, from the beginning */
static inline bg_infeed_options bg_infeed_options_defaults(void)
{
    bg_infeed_options options;

    bg_infeed_options_init(&options, sizeof options);
    return options;
}

/* `types`: of one micro-batch of each tensor. */
BG_API bg_status bg_infeed_create(const bg_type *types, uint32_t tensor_count, bg_infeed_source source, void *user,
                                  const bg_infeed_options *options, bg_infeed **out, bg_error *error);

/* A source of samples: the first dimension of an input is the number of samples in an element. */
typedef struct bg_sample_source {
    size_t struct_bytes; /* 0, or sizeof(bg_sample_source): see base.h */
    /* Called when the infeed is started, before the first element. NULL: nothing to do. */
    bg_status (*begin)(void *user, uint64_t samples_per_element, bg_error *error);
    bg_infeed_source next;
    void (*end)(void *user); /* when the infeed is destroyed; NULL: nothing to do */
    void *user;
} bg_sample_source;
/* `types`: of a sample. Copies the struct; on failure `end` is not called. */
BG_API bg_status bg_infeed_create_samples(const bg_type *types, uint32_t tensor_count, const bg_sample_source *source,
                                          const bg_infeed_options *options, bg_infeed **out, bg_error *error);

/* Checks the tensors against the session's inputs, takes memory, starts the thread. Once in an infeed's life. */
BG_API bg_status bg_infeed_start(bg_infeed *infeed, const bg_session *session, bg_error *error);
/* Waits for a call of the source in progress and ends the thread. Not during a run. */
BG_API void bg_infeed_destroy(bg_infeed *infeed);
/* Elements that devices have used. Between runs. */
BG_API uint64_t bg_infeed_used_count(const bg_infeed *infeed);
/* The plan of the session that it was started for; NULL: not started. */
BG_API const bg_plan *bg_infeed_plan(const bg_infeed *infeed);
/* Whether the source has said that the data end. Between runs. */
BG_API bool bg_infeed_has_ended(const bg_infeed *infeed);

/* ---- outfeeds ---- */

/*
 * Values of a run, row by row: a row holds what one micro-batch gave for each leaf of a structure, of all replicas.
 * Attach it to a session; from then on its runs fill it. Any one other thread takes rows while the session runs, or
 * the same thread between runs.
 */
typedef struct bg_outfeed bg_outfeed;

typedef struct bg_outfeed_options {
    size_t struct_bytes; /* set by bg_outfeed_options_defaults; see base.h */
    /* Leaves are names of the session's outputs: "loss", a tuple "(loss, correct)", a dictionary "{d1: sum, d2: diff}"
     * ("{loss}" is short for "{loss: loss}"), and any nesting of these: "({a: x, b: (y, z)}, loss)". NULL with `loss`.
     */
    const char *structure;
    bool newest_only;      /* the outfeed keeps the newest row alone; false: each row until it is taken */
    uint32_t buffer_depth; /* rows that wait for the consumer before a bounded queue holds the devices: at least 1 */
    /* Memory for buffer_depth rows and those that the devices have begun (of one step), no more: the devices wait until
     * the consumer takes rows. Otherwise it has memory for all rows of a run, and for rows that earlier runs left. Not
     * with newest_only. */
    bool bounded;
    /* Training: rows hold the loss alone, instead of a structure. */
    bool loss;
    /* Training: leaf i is left out where mask[i]. Not with `loss`. NULL: none. */
    const bool *mask;
    uint32_t mask_count;
    /* A row for each weight update: sums over its micro-batches, in order. Not with newest_only. */
    bool accumulate;
    bg_dtype accumulate_dtype; /* float32 or float64; NONE: float32 for leaves of 16 bits, else the leaf's own */
} bg_outfeed_options;

BG_API void bg_outfeed_options_init(bg_outfeed_options *options, size_t struct_bytes);
/* every row, depth 1, not bounded */
static inline bg_outfeed_options bg_outfeed_options_defaults(void)
{
    bg_outfeed_options options;

    bg_outfeed_options_init(&options, sizeof options);
    return options;
}

BG_API bg_status bg_outfeed_create(const bg_outfeed_options *options, bg_outfeed **out, bg_error *error);
/* The consumer leaves: rows that were not taken are lost, and devices continue without it. Also during a run. */
BG_API void bg_outfeed_destroy(bg_outfeed *outfeed);
/* Once in an outfeed's life, between runs. */
BG_API bg_status bg_outfeed_attach(bg_outfeed *outfeed, bg_session *session, bg_error *error);

typedef struct bg_outfeed_leaf {
    const char *path;   /* keys and positions from the outside in: "losses/0"; "" when the structure is one leaf */
    const char *output; /* of the session */
    bg_type type;       /* of a row: [replicas, dims...]; without replicas when there is one. After attaching */
} bg_outfeed_leaf;
BG_API uint32_t bg_outfeed_leaf_count(const bg_outfeed *outfeed);
BG_API bg_status bg_outfeed_leaf_at(const bg_outfeed *outfeed, uint32_t index, bg_outfeed_leaf *out, bg_error *error);
BG_API uint32_t bg_outfeed_find(const bg_outfeed *outfeed, const char *path); /* UINT32_MAX when there is none */
BG_API const char *bg_outfeed_structure(const bg_outfeed *outfeed);           /* with all keys written out */

/* Takes the oldest row (newest_only: the newest, once) when there is one: leaves[i] (row size; may be NULL) gets leaf
 * i.
 * `*out_has` false: there is none at this time. The rows that came before a run failed can be taken, then its error is
 * returned. */
BG_API bg_status bg_outfeed_next(bg_outfeed *outfeed, void *const *leaves, bool *out_has, bg_error *error);
/* Waits until there is a row to take (`*out_has`), for limit_s seconds at most; less when no row can come any more
 * because the session has ended or its run failed (the error is returned then). */
BG_API bg_status bg_outfeed_wait(bg_outfeed *outfeed, double limit_s, bool *out_has, bg_error *error);
/* Takes all rows at once: arrays[i] (cleared before; the caller's to clear) is [rows, replicas, dims...] of leaf i;
 * with no rows its first dimension is 0 and it has no data. newest_only: [replicas, dims...], which stays the newest;
 * an error when there is none. `wait_for_completion`: waits for the end of the run in progress first. */
BG_API bg_status bg_outfeed_dequeue(bg_outfeed *outfeed, bool wait_for_completion, bg_array *arrays,
                                    uint64_t *out_row_count, bg_error *error);

/* ---- runs ---- */

#define BG_ENDLESS UINT64_MAX

/* Everything a run may be given. All-zero is a run as bg_session_run does it, without inputs and outputs. */
typedef struct bg_run {
    size_t struct_bytes; /* 0, or sizeof(bg_run): see base.h */
    /* As for bg_session_run. An input that is NULL comes from the infeed; the list may be NULL when all do. */
    const void *const *inputs;
    /* Inputs that stay the same during the run: inputs[i] has one micro-batch, which all take. NULL: none. */
    const bool *constants;
    bg_infeed *infeed;    /* started for this session; or NULL */
    void *const *outputs; /* as for bg_session_run; NULL: none is wanted */
    /* Loops (loop.h): first and last values of what is carried; [value], the last ones with [replica] before their
     * dims. An entry, or a list, that is NULL: zeros, or not wanted. */
    const void *const *carried_in;
    void *const *carried_out;
    /* Device iterations; 0: as planned. More than planned only without arrays for outputs of mode ALL and EVERY_N.
     * BG_ENDLESS: until something ends it. */
    uint64_t iterations;
    /* Name of an output, a scalar: the run ends after the first iteration in whose last micro-batch it is above 0 on
     * any replica. NULL: none. */
    const char *stop;
    /* Work for idle workers: called again as long as it returns true, maybe by several at the same time, never after
     * the run. It takes microseconds, or it keeps devices waiting: bg_loader_help, for instance. NULL: none.
     */
    bool (*spare)(void *user);
    void *spare_user;
    bool synthetic; /* no data move between host and devices: for timing. Outfeeds get no rows */
    /* Training: the learning rate of each weight update of the run, as many as there may be iterations, for this run
     * alone; so updates of one run may follow a schedule. NULL: all have the one that is set. */
    const double *learning_rates;
} bg_run;

/*
 * One run. *out_iterations (may be NULL): device iterations done; arrays of outputs hold those of these only.
 * Errors beyond bg_session_run's: BG_ERROR_RANGE when the infeed's data ended before the run did, the source's error
 * when it failed. After these two errors the iterations that were done count, and the session can run again.
 */
BG_API bg_status bg_session_execute(bg_session *session, const bg_run *run, uint64_t *out_iterations, bg_error *error);
/* bg_session_execute with an infeed and arrays for outputs (or NULL). */
BG_API bg_status bg_session_run_infeed(bg_session *session, bg_infeed *infeed, void *const *outputs, bg_error *error);
/* The same with an infeed that the session keeps from run to run: `open` makes it, and the session starts it, unless it
 * has one that was made for this key and this number. It is destroyed with the session, or when another one is made. */
BG_API bg_status bg_session_run_kept(bg_session *session, const void *key, uint64_t number,
                                     bg_status (*open)(void *user, bg_infeed **out, bg_error *error), void *user,
                                     void *const *outputs, bg_error *error);
/* Ends the run that another thread has begun on this session, between two iterations; does nothing when there is none.
 * Not for signal handlers: let a thread wait for the signal (sigwait), or set a flag that is looked at between runs. */
BG_API void bg_session_stop(bg_session *session);

#ifdef __cplusplus
}
#endif

#endif
