/*
 * session.h: a plan that runs: devices with memory, worker threads, weights.
 *
 * Weights live in a bg_weights that sessions share. A session that starts a run, or a function that writes a file, gets
 * the newest values, whichever session has them, without explicit copies.
 *
 * Threads: one thread at a time uses weights and all sessions that share them; the thread may differ from call to call.
 * Sessions that do not share weights may run concurrently. A function of this header, of feed.h or of checkpoint.h that
 * reads or changes the state of a session or of weights returns BG_ERROR_INVALID while another thread is inside such a
 * function with the same weights, and when a callback or kernel calls it within a run. The call then changes nothing,
 * and the run continues. The rule also applies if all sessions that share the weights are for inference. Memory behind
 * a returned pointer (bg_weights_at) is not guarded: another thread may change it once the function has returned. To
 * infer in several threads over the same weights, also while another thread trains them, create one reader for each
 * thread (bg_session_create_reader). Exceptions: bg_session_stop ends a run of another thread. Streams, workers and
 * notes, which never change, and the counts bg_weights_count, bg_session_step and bg_session_cycles may be read at any
 * time. bg_session_trace_count and (with options.reporting.trace) bg_session_device_bytes return 0 while another thread
 * is inside such a function. bg_session_destroy waits for a thread that uses another session of the same weights.
 *
 * Errors: BG_ERROR_INVALID for an invalid argument, and while another thread is inside a function with the same
 * weights; BG_ERROR_NOT_FOUND, BG_ERROR_SHAPE, BG_ERROR_MEMORY; with several ranks BG_ERROR_COMMUNICATION.
 */
#ifndef BRIGADE_SESSION_H
#define BRIGADE_SESSION_H

#include <brigade/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_session bg_session;
typedef struct bg_weights bg_weights;

/* ---- weights: named tensors, shared by name ----
 *
 * Weights hold whole tensors, even if sessions hold only parts of them: pieces over a mesh (bg_graph_sharded_variable)
 * or sections (bg_graph_section_parameter), such as those of the layers in pieces (nn.h). If such a layer has equal
 * pieces, "x.split_embeddings.I.weight" or "x.split_linear_layers.I.weight", they may also be set by name. The first
 * session that needs "x.weight" joins the pieces, and from then on each piece is a range of that tensor. */

BG_API bg_status bg_weights_create(bg_weights **out, bg_error *error);
/* Creates weights whose values, also published ones, are in memory of the caller's allocator. `allocator` (copied) may
 * be NULL. Errors: BG_ERROR_INVALID (one of its two functions is missing), BG_ERROR_MEMORY. */
BG_API bg_status bg_weights_create_in(const bg_allocator *allocator, bg_weights **out, bg_error *error);
/* Releases the caller's reference. Each session holds another reference. */
BG_API void bg_weights_destroy(bg_weights *weights);
BG_API uint32_t bg_weights_count(const bg_weights *weights);
typedef struct bg_weight {
    const char *name;
    bg_type type;
    bg_variable_role role;
    const void *data;
} bg_weight;
/* Returns weight `index` with its newest values, fetched from the session that has them. The values are valid until the
 * next call on these weights. */
BG_API bg_status bg_weights_at(bg_weights *weights, uint32_t index, bg_weight *out, bg_error *error);
/* Returns the weight of a name, like bg_weights_at; BG_ERROR_NOT_FOUND if it does not exist. */
BG_API bg_status bg_weights_find(bg_weights *weights, const char *name, bg_weight *out, bg_error *error);
/* Sets the value of a weight, before or between runs. If the name is new, the weight is added; an existing weight must
 * have the same type. If the name is that of a piece of an existing weight, the function sets this range of the
 * weight. */
BG_API bg_status bg_weights_set(bg_weights *weights, const char *name, const bg_type *type, const void *data,
                                bg_error *error);

/* Sets the value of a weight with a callback: `write` writes bg_type_size_bytes(type) bytes to `data`, for example by
 * reading a file. For a new weight, `data` is the weight's final memory, so there is no copy. If `write` fails, nothing
 * changes, and the function returns the status of `write`. The callback must not use these weights. */
BG_API bg_status bg_weights_fill(bg_weights *weights, const char *name, const bg_type *type,
                                 bg_status (*write)(void *user, void *data, bg_error *error), void *user,
                                 bg_error *error);

/* Matrices that sessions have rounded to 16, 8 or 4 bits (options.numerics.weights_type). In addition to a matrix `w`
 * the weights have its rounded form `w.bfloat16`, `w.int8` or `w.int4`, uint8 in the layout of the kernels. Each
 * rounded value differs from the float32 value by at most half the scale of its block, or half a unit in the last
 * place. */
typedef struct bg_quantized {
    uint32_t count;       /* number of matrices */
    uint64_t bytes;       /* bytes of the rounded matrices, with their scales */
    uint64_t float_bytes; /* bytes of the same matrices in float32 */
    double largest_error; /* the largest difference between a weight and its rounded value */
    double largest_bound; /* half the largest scale, or half a unit in the last place of the largest weight */
} bg_quantized;
BG_API bg_status bg_weights_quantized(bg_weights *weights, bg_quantized *out, bg_error *error);

/* ---- sessions ---- */

/* Creates a session of a plan and starts its workers. `weights` NULL: the session makes its own (bg_session_weights).
 * Variables that are in `weights` take their values from there; other variables are initialized from the seed and
 * added. In inference, missing parameters, and missing buffers that are read but not written (running statistics), are
 * an error that names them, also with `weights` NULL; they are not an error with options.numerics.initialize_missing,
 * or if files (options.files.memmap_dir) have the values. Inference in one process reads whole weights in the memory of
 * `weights`, without a copy. Inference copies weights in pieces, weights in remote buffers, and all weights if the
 * session uses files. The plan must outlive the session. Before the function allocates memory, it compares the memory
 * that the devices need with the machine's free memory and with the limits of the process's control groups, unless
 * options.memory.no_memory_check is set. options.reporting.progress can cancel the function, which then leaves
 * `weights` unchanged. With several ranks this callback gets the same calls on all ranks, and must cancel at the same
 * call on all of them. If the session resumes from files and progress cancels while values of `weights` replace values
 * in the files, no session can resume from these files. Errors: BG_ERROR_NOT_FOUND (inference lacks parameters),
 * BG_ERROR_INVALID (the plan is compile_only), BG_ERROR_SHAPE (a weight of another type; pieces that do not make up
 * their whole), BG_ERROR_BUDGET (more memory than is available), BG_ERROR_CANCELED (progress), BG_ERROR_MEMORY. */
BG_API bg_status bg_session_create(const bg_plan *plan, bg_weights *weights, bg_session **out, bg_error *error);
/* Makes a plan and its session in one call: bg_plan_create_training or bg_plan_create_inference (brigade/plan.h), then
 * bg_session_create, with the errors of both. The session owns the plan (bg_session_plan) and destroys it. The graph is
 * copied and may be destroyed. `options` NULL: bg_options_defaults. To make several sessions of one plan, or to inspect
 * a plan that does not fit, make the plan yourself. */
BG_API bg_status bg_session_create_training(const bg_graph *graph, bg_value loss, const bg_optimizer *optimizer,
                                            const bg_options *options, bg_weights *weights, bg_session **out,
                                            bg_error *error);
BG_API bg_status bg_session_create_inference(const bg_graph *graph, const bg_options *options, bg_weights *weights,
                                             bg_session **out, bg_error *error);
/* Destroys a session. Newest values that only this session has are moved to the memory of its weights. If memory runs
 * out, these values are lost, and reading them is an error. */
BG_API void bg_session_destroy(bg_session *session);

/* ---- readers: inference during training ----
 *
 * Published values never change. A reader is a session for inference over the values that were published last: it reads
 * them in place, so any number of readers need the memory of one set of weights. Each reader has its own workers, and
 * one thread at a time uses it. A reader waits for no other session, and it may run while other threads train, load or
 * publish the weights.
 *
 *     one thread trains:   bg_session_run ... then bg_weights_publish, then bg_session_run ...
 *     other threads infer: bg_session_run on readers; a run uses the version that was the newest when it began
 *
 * When a reader first uses a version, it copies the weights that it cannot read in place: weights in pieces (sections,
 * tensor parallelism) or in remote buffers. A reader also has copies of buffers that its ops write, such as a cache.
 * These copies begin with the published value and are never published.
 */

/* Publishes the newest values of all parameters and buffers as one version: runs that begin afterward use it, and runs
 * in progress finish with the version that they began with. Values that have not changed since the last version are
 * shared with it; the others are copied. An older version is freed when the next one is published after its last run.
 * *out_version (may be NULL) receives 1, 2, ... Call it between runs, in the thread that may use the weights. Errors:
 * BG_ERROR_INVALID (another thread uses the weights or a session of them; the weights are distributed over several
 * ranks; a value was lost), BG_ERROR_MEMORY; readers then continue with the previous version. */
BG_API bg_status bg_weights_publish(bg_weights *weights, uint64_t *out_version, bg_error *error);
/* Creates a reader, as bg_session_create creates a session. Publishes the weights if they were never published; only in
 * this case does the function fail while another thread uses the weights or a session of them. The reader holds a
 * reference to the weights. If a kernel does not return, keep `weights` and the plan until it does. bg_session_weights
 * returns `weights`. Errors: as bg_session_create; BG_ERROR_INVALID (a plan for training, of several ranks, or with
 * options.files.memmap_dir; weights in pieces that were never joined, where the plan needs the whole). */
BG_API bg_status bg_session_create_reader(const bg_plan *plan, bg_weights *weights, bg_session **out, bg_error *error);
/* Returns the version that a reader's last run used or, before the first run, the version at its creation; 0 if the
 * session is not a reader. */
BG_API uint64_t bg_session_version(const bg_session *session);

BG_API bg_weights *bg_session_weights(const bg_session *session); /* borrowed */
BG_API const bg_plan *bg_session_plan(const bg_session *session); /* borrowed */

/* Inputs and outputs of one run. */
BG_API uint32_t bg_session_input_count(const bg_session *session);
BG_API uint32_t bg_session_output_count(const bg_session *session);
typedef struct bg_stream {
    const char *name;
    bg_type micro_batch_type; /* type of one micro-batch */
    /* Number of micro-batches per run: device iterations x accumulation x replicas for inputs; for outputs the output
     * mode decides. The layout is [device iteration][accumulation][replica][micro-batch], with canonical_reductions
     * [device iteration][replica][accumulation][micro-batch]. */
    uint64_t count;
    uint32_t replicas; /* number of replicas, for inputs of groups of replicas that get the same data; it divides
                          `count`. 1 if values of the replicas are not adjacent in the layout */
    size_t size_bytes; /* size of all micro-batches */
} bg_stream;
BG_API bg_status bg_session_input(const bg_session *session, uint32_t index, bg_stream *out, bg_error *error);
BG_API bg_status bg_session_output(const bg_session *session, uint32_t index, bg_stream *out, bg_error *error);
/* Returns the index of a named input or output, or UINT32_MAX. */
BG_API uint32_t bg_session_find_input(const bg_session *session, const char *name);
BG_API uint32_t bg_session_find_output(const bg_session *session, const char *name);

/* Runs `device_iterations` weight updates (training) or micro-batches (inference). `inputs[i]` and `outputs[i]` have
 * the sizes of the streams; outputs[i] may be NULL if the output is not needed. Errors: BG_ERROR_TIMEOUT if no device
 * made progress for options.execution.wait_limit_s (the message names the device, its action and what the action waits
 * for); otherwise the error of the failed device with the lowest number. After a failure the session cannot run again.
 * Weights that the session trains, and other weights whose newest values only this session had, are lost: reading them
 * is an error until they are set again. If a kernel does not return, keep its plan, and do not set weights that it
 * reads, until it does. The session can be destroyed; its memory is freed when the kernel returns. */
BG_API bg_status bg_session_run(bg_session *session, const void *const *inputs, void *const *outputs, bg_error *error);

/* Sets new numbers of the optimizer from the next run on; the kind must not change. */
BG_API bg_status bg_session_set_optimizer(bg_session *session, const bg_optimizer *optimizer, bg_error *error);
BG_API bg_status bg_session_set_learning_rate(bg_session *session, double learning_rate, bg_error *error);
/* Returns the number of weight updates over the life of the weights. Random numbers depend on this number. Optimizer
 * state that a session creates counts its updates from 0, like a new torch.optim object; for state that was set
 * (bg_weights_set) the count is that of the weights. */
BG_API uint64_t bg_session_step(const bg_session *session);
BG_API bg_status bg_session_set_step(bg_session *session, uint64_t step, bg_error *error);
/* ---- with options.files.memmap_dir ---- */

/* Returns the note of the flush from which the session resumed: "" without a note, NULL if the session did not resume.
 * After resuming, the step, the optimizer's state and weights that were not given come from the files. Borrowed. */
BG_API const char *bg_session_note(const bg_session *session);
/* Completes the files on disk and records a note of the caller (UTF-8; NULL is ""), such as the position in the data.
 * Until the next run or change of a weight, a session that is created with the same plan and directory resumes from
 * this state. If the process ends at another time, no session can resume from its files. Without
 * options.files.memmap_dir, and with files that are read only, the function does nothing. All ranks call this function
 * (brigade/transport.h). Errors: BG_ERROR_INVALID (a run of the session failed), BG_ERROR_IO, BG_ERROR_MEMORY. */
BG_API bg_status bg_session_flush(bg_session *session, const char *note, bg_error *error);

/* Returns the device time of the last run in nanoseconds (cycles at 1 GHz), from the first device's start to the last
 * device's end; 0 without options.reporting.log_cycles, before a run, and after a failed run. */
BG_API uint64_t bg_session_cycles(const bg_session *session);
/* Returns the number of processors that the calling thread may use, at least 1. This is a session's default number of
 * workers. */
BG_API uint32_t bg_processor_count(void);
/* Prints the placement of the workers, one on each line: "worker 0 on core 0" if it is bound, otherwise "worker 0 on
 * any core of 0-3" or "worker 0 on the calling thread". malloc'ed. */
BG_API bg_status bg_session_print_workers(const bg_session *session, char **out_text, bg_error *error);
/* Returns the largest number of bytes that a device of the session has used in its arena, which equals
 * bg_plan_device_bytes. With options.reporting.trace the number is measured from the operands of all calls; otherwise
 * it is the size of the arena. 0 for a device of another rank. */
BG_API size_t bg_session_device_bytes(const bg_session *session, uint32_t replica, uint32_t device);
/* Requests a stop, so that a loop over runs can end on all ranks after the same run (bg_session_is_asked_to_stop), for
 * example because one rank received a signal. May be called by any thread and by a signal handler. */
BG_API void bg_session_ask_to_stop(bg_session *session);
/* Whether any rank had requested a stop when the last run ended. The result is the same on all ranks. */
BG_API bool bg_session_is_asked_to_stop(const bg_session *session);
/* Lets rank `rank` read weights, for example to write them to a file. All ranks call this function
 * (brigade/transport.h), and it calls `use` on rank `rank`. `use` may request values (bg_weights_at, bg_weights_find
 * and functions that call them), in any order and number. The other ranks send one value at a time, so no rank needs
 * memory for more than one value. The function returns the status of `use` on all ranks. In one process it only calls
 * `use`. Outside this function all ranks must call bg_weights_at and bg_weights_find together, and all of them get the
 * value. */
BG_API bg_status bg_session_read_weights(bg_session *session, uint32_t rank,
                                         bg_status (*use)(void *user, bg_error *error), void *user, bg_error *error);
/* Whether a device belongs to this process: always true unless several ranks share the devices
 * (brigade/transport.h). */
BG_API bool bg_session_has_device(const bg_session *session, uint32_t replica, uint32_t device);
/* Whether a device of this process reads micro-batch `index` of an input's array, in the order of the array. A run
 * reads no other part of the array. */
BG_API bool bg_session_reads(const bg_session *session, uint32_t input, uint64_t index);

/* ---- trace ---- */

/* The time that a worker spent on an action. Events do not include waiting. */
typedef struct bg_trace_event {
    uint64_t start_ns, end_ns; /* monotonic clock, 0 = the session's creation */
    bg_action action;
    uint32_t replica, device;
    uint32_t worker;
    uint64_t step;
    bool is_beside; /* the event is parallel to the device's program: a LOAD or STORE (a transfer from or to a remote
                       buffer), or a REDUCE for which the device does not wait (its share of the sum) */
} bg_trace_event;
/* Returns the number of recorded events of a device: events of its program, oldest first, then events parallel to it,
 * oldest first. At most options.reporting.trace_events of each kind are kept; older ones are dropped. */
BG_API uint32_t bg_session_trace_count(const bg_session *session, uint32_t replica, uint32_t device);
BG_API bg_status bg_session_trace_event(const bg_session *session, uint32_t replica, uint32_t device, uint32_t index,
                                        bg_trace_event *out, bg_error *error);
/* Sends the events of all ranks to rank `rank`. All ranks call this function between runs (brigade/transport.h). Until
 * the next run the two functions above then return the events of all devices on this rank, in times of this rank's
 * clock, and bg_profile_write_trace writes all of them. Clocks of other hosts are compared by round-trip messages, so
 * times of their events may be off by half of the shortest round trip. In one process the function does nothing.
 * Errors: BG_ERROR_INVALID (no such rank, no options.reporting.trace), BG_ERROR_MEMORY, BG_ERROR_IO. */
BG_API bg_status bg_session_share_trace(bg_session *session, uint32_t rank, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
