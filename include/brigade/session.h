/*
 * session.h: a plan that runs: devices with memory, worker threads, weights.
 *
 * Weights live in a bg_weights that sessions share: whoever asks for them (another session that starts a run, a file
 * writer) gets the newest, without explicit copies. Sessions that share weights are used by one thread.
 */
#ifndef BRIGADE_SESSION_H
#define BRIGADE_SESSION_H

#include <brigade/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_session bg_session;
typedef struct bg_weights bg_weights;

/* ---- weights: named tensors, shared by name ---- */

BG_API bg_status bg_weights_create(bg_weights **out, bg_error *error);
/* Sessions hold a reference of their own. */
BG_API void bg_weights_destroy(bg_weights *weights);
BG_API uint32_t bg_weights_count(const bg_weights *weights);
typedef struct bg_weight {
    const char *name;
    bg_type type;
    bg_variable_role role;
    const void *data;
} bg_weight;
/* The newest values (fetched from the session that has them). Valid until the next call on these weights. */
BG_API bg_status bg_weights_at(bg_weights *weights, uint32_t index, bg_weight *out, bg_error *error);
/* NOT_FOUND when there is no such weight. */
BG_API bg_status bg_weights_find(bg_weights *weights, const char *name, bg_weight *out, bg_error *error);
/* Sets a value before or between runs. A new name is added; a known one must have the same type. */
BG_API bg_status bg_weights_set(bg_weights *weights, const char *name, const bg_type *type, const void *data,
                                bg_error *error);

/* ---- sessions ---- */

/* `weights` NULL: the session makes its own (bg_session_weights). Variables that are in `weights` take their values
 * from there; others are initialised from the seed and added. The plan must outlive the session. Starts the workers.
 * Errors: BG_ERROR_INVALID (the plan is compile_only), BG_ERROR_SHAPE (a weight of another type). */
BG_API bg_status bg_session_create(const bg_plan *plan, bg_weights *weights, bg_session **out, bg_error *error);
BG_API void bg_session_destroy(bg_session *session);
BG_API bg_weights *bg_session_weights(bg_session *session); /* borrowed */

/* Inputs and outputs of one run. */
BG_API uint32_t bg_session_input_count(const bg_session *session);
BG_API uint32_t bg_session_output_count(const bg_session *session);
typedef struct bg_stream {
    const char *name;
    bg_type micro_batch_type; /* of one micro-batch */
    uint64_t count;    /* micro-batches a run: of inputs device iterations x accumulation x replicas, of outputs as
                          the output mode says; layout [device iteration][accumulation][replica][micro-batch] */
    uint32_t replicas; /* `count` is a multiple. Of inputs: groups of replicas that get the same data */
    size_t size_bytes; /* of all */
} bg_stream;
BG_API bg_status bg_session_input(const bg_session *session, uint32_t index, bg_stream *out, bg_error *error);
BG_API bg_status bg_session_output(const bg_session *session, uint32_t index, bg_stream *out, bg_error *error);
/* Index of a named input or output, or UINT32_MAX. */
BG_API uint32_t bg_session_find_input(const bg_session *session, const char *name);
BG_API uint32_t bg_session_find_output(const bg_session *session, const char *name);

/* One run: `device_iterations` weight updates (training) or micro-batches (inference). `inputs[i]` and `outputs[i]`
 * have the sizes of the streams; an output may be NULL when it is not wanted.
 * Errors: BG_ERROR_TIMEOUT when no device made progress for options.wait_limit_s, naming the device, its action and
 * what it waits for; the failure of the lowest device otherwise. After either the session cannot run again, and weights
 * whose newest values only this session had are lost: reading them is an error until they are set again. Should a
 * kernel not return, keep its plan until it does: destroying the session works, and the session's memory is freed then.
 */
BG_API bg_status bg_session_run(bg_session *session, const void *const *inputs, void *const *outputs, bg_error *error);

/* New numbers for the optimiser, from the next run on; the kind must stay. */
BG_API bg_status bg_session_set_optimiser(bg_session *session, const bg_optimiser *optimiser, bg_error *error);
BG_API bg_status bg_session_set_learning_rate(bg_session *session, double learning_rate, bg_error *error);
/* Weight updates done over the life of the weights (randomness). Optimiser state that a session makes begins its own
 * count at 0, as a new torch.optim object does; state that was set (bg_weights_set) is as old as this count says. */
BG_API uint64_t bg_session_step(const bg_session *session);
BG_API void bg_session_set_step(bg_session *session, uint64_t step);
/* ---- with options.memmap_dir ---- */

/* Whether the session has gone on from files of an earlier one: its weights (those that were not given), the
 * optimiser's state and the step are theirs. */
BG_API bool bg_session_is_continued(const bg_session *session);
/* The text that was given to the flush that the session has gone on from; "" when there was none. Borrowed. */
BG_API const char *bg_session_note(const bg_session *session);
/* Writes to the disk what the files still lack, with a text of the caller's (UTF-8; NULL is ""), such as the place in
 * its data: from then until the next run or change of a weight, a session that is created with the same plan and
 * directory goes on from here. A process that ends at another time leaves files that nobody goes on from. Without
 * options.memmap_dir, and with files that are read only, nothing happens.
 * Errors: BG_ERROR_INVALID (a run of the session failed), BG_ERROR_IO, BG_ERROR_MEMORY. */
BG_API bg_status bg_session_flush(bg_session *session, const char *note, bg_error *error);

/* How long the last run took on the devices, in cycles of a clock of 1 GHz (nanoseconds; no processor's
 * clock, which changes), from the first device's start to the last one's end: with options.log_cycles, else 0. Also 0
 * before a run, and after one that failed. */
BG_API uint64_t bg_session_cycles(const bg_session *session);
/* Which worker runs where: "worker 0 on core 0", one a line. malloc'ed. */
BG_API bg_status bg_session_print_workers(const bg_session *session, char **out_text, bg_error *error);
/* The most bytes of its arena that a device of the session has touched: equals the plan's figure. Measured operand by
 * operand when options.trace is on; else the size of the arena. */
BG_API size_t bg_session_device_bytes(const bg_session *session, uint32_t replica, uint32_t device);

/* ---- trace ---- */

/* The time a worker spent on an action; waiting lies between events. LOAD and STORE are transfers to and from remote
 * buffers, which run beside the device's program. */
typedef struct bg_trace_event {
    uint64_t start_ns, end_ns; /* monotonic clock, 0 = the session's creation */
    bg_action action;
    uint32_t replica, device;
    uint32_t worker;
    uint64_t step;
} bg_trace_event;
/* Events of a device: of its program, oldest first, then its transfers, oldest first; the count kept (of either at most
 * options.trace_events; older ones are dropped). */
BG_API uint32_t bg_session_trace_count(const bg_session *session, uint32_t replica, uint32_t device);
BG_API bg_status bg_session_trace_event(const bg_session *session, uint32_t replica, uint32_t device, uint32_t index,
                                        bg_trace_event *out, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
