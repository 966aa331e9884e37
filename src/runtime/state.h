/*
 * state.h: gives access to weights and their training state as named tensors, for companions that store them
 * (checkpoints). Companions include no other header of src/runtime, except that reports and predictions also include
 * record.h. The public functions on weights (session.h) enter and leave the weights in each call. The functions of this
 * file are called inside one entry. They are not public, because only checkpoints need all tensors of one step and the
 * properties of training state (role, age, owner).
 *
 *     bgi_weights_enter --> tensors by number, values by bgi_weights_fetch, restored --> bgi_weights_leave
 */
#ifndef BGI_RUNTIME_STATE_H
#define BGI_RUNTIME_STATE_H

#include <brigade/session.h>

/* ---- one thread at a time ---- */

/* Claims the weights for the calling thread, for an action of a session or, if `session` is NULL, of the weights.
 * Returns BG_ERROR_INVALID when another thread is inside; bgi_weights_leave must then not be called. */
bg_status bgi_weights_enter(bg_weights *weights, const bg_session *session, const char *action, bg_error *error);
void bgi_weights_leave(bg_weights *weights);

/* ---- inside ---- */

/* The properties of a weight or of optimizer state, without its value. */
typedef struct bgi_tensor {
    const char *name; /* NULL: the number is no longer in use */
    bg_type type;
    bg_variable_role role;
    bool is_given;         /* the user has set the value, so its age is the weights' step count */
    uint64_t updates;      /* of optimizer state that a session made: the number of weight updates since then */
    const char *optimizer; /* of optimizer state: its optimizer (bg_optimizer_describe_state); "": unknown */
} bgi_tensor;

/* Returns one more than the largest number of a tensor. */
uint32_t bgi_weights_end(const bg_weights *weights);
bgi_tensor bgi_weights_tensor(const bg_weights *weights, uint32_t number);
/* Returns the number of the tensor with this name; UINT32_MAX when there is none. */
uint32_t bgi_weights_index(const bg_weights *weights, const char *name);
/* Fetches the newest value, which is valid until the next call on these weights. */
bg_status bgi_weights_fetch(bg_weights *weights, uint32_t number, const void **out, bg_error *error);
/* Sets a value and its properties; an unknown name is added. The role of an existing weight stays, unless `sets_role`.
 * If the name is that of a piece of an existing weight, only the range of this piece is set. */
bg_status bgi_weights_restore(bg_weights *weights, const bgi_tensor *tensor, bool sets_role, const void *data,
                              bg_error *error);
/* Removes the tensors from `count` on. */
void bgi_weights_truncate(bg_weights *weights, uint32_t count);
/* Returns the number of weight updates. */
uint64_t bgi_weights_step(const bg_weights *weights);
void bgi_weights_set_step(bg_weights *weights, uint64_t step);

/* Like bg_session_create, which calls it. `makes_values`: initializes parameters that the weights lack, regardless of
 * the plan's options (needed to measure costs). */
bg_status bgi_session_create(const bg_plan *plan, bg_weights *weights, bool makes_values, bg_session **out,
                             bg_error *error);

/* Like bg_session_read_weights, for a thread that has entered the weights. */
typedef bg_status (*bgi_weights_reader)(void *user, bg_error *error);
bg_status bgi_session_read_weights(bg_session *session, uint32_t rank, bgi_weights_reader use, void *user,
                                   bg_error *error);

/* ---- several ranks (rank_parts.c) ----
 *
 * A weight is cut into parts. Each element belongs to one part, and each part to a rank that has it. The cut is the
 * same on all ranks. A weight whose home is not a session of several ranks belongs to rank 0 as a whole, as every
 * weight does in one process. */

/* Calls `visit` for each range of elements of a weight; the ranges of one rank, in this order, are its part. */
typedef void bgi_visit_part(void *user, uint32_t rank, int64_t first, int64_t count);
bg_status bgi_session_walk_parts(const bg_session *session, uint32_t number, bgi_visit_part *visit, void *user,
                                 bg_error *error);
/* Reads this rank's part of the newest value; the caller calls bgi_session_pull first. The function does not
 * communicate with other ranks. */
bg_status bgi_session_read_part(const bg_session *session, uint32_t number, void *out, bg_error *error);
/* Copies many values at a time with all processors of the session: this rank's parts, after bgi_session_pull, or whole
 * values in one process. `out` of each copy is the memory for the value. */
typedef struct bgi_value_copy {
    uint32_t number;
    void *out;
} bgi_value_copy;
bg_status bgi_session_copy_values(const bg_session *session, const bgi_value_copy *copies, size_t count,
                                  bg_error *error);
/* Returns memory for copies; the caller has entered the weights. NULL: out of memory. If *out_is_kept, the session
 * keeps the memory after its return for the next call, until the session ends or bgi_session_drop_room is called. While
 * one caller uses the kept memory, other callers get memory that is freed when they return it. Any thread may return
 * memory. */
void *bgi_session_take_room(bg_session *session, size_t size_bytes, bool *out_is_kept);
void bgi_session_return_room(bg_session *session, void *memory, bool is_kept);
void bgi_session_drop_room(bg_session *session); /* does nothing while a caller has the memory */
/* Whether a processor of this session is free: no run is in progress, or it has fewer workers than processors. (A
 * sleeping worker may have work again within microseconds.) Any thread may call it while the session exists. */
bool bgi_session_leaves_processor(const bg_session *session);

/* Moves all values to their homes. All ranks call this function. */
bg_status bgi_session_pull(bg_session *session, bg_error *error);
/* Finds the range that a rank must read when it restores the weight: from the first element on the rank's devices to
 * the last one, which is before *out_end. Both are 0 if the rank must read nothing. */
bg_status bgi_session_find_range(const bg_session *session, uint32_t number, uint32_t rank, int64_t *out_first,
                                 int64_t *out_end, bg_error *error);

/* Return this rank's number and the number of ranks; 0 and 1 in one process. */
uint32_t bgi_session_rank(const bg_session *session);
uint32_t bgi_session_rank_count(const bg_session *session);
/* All ranks call this function and the following ones between runs; in one process they do nothing, and
 * bgi_session_settle returns `status`. Combines the results of work that each rank has done separately: BG_OK when the
 * work succeeded on all ranks, otherwise the error of the lowest rank that failed. */
bg_status bgi_session_settle(const bg_session *session, bg_status status, bg_error *error);
/* If *any is true on one rank, it becomes true on all ranks. */
bg_status bgi_session_any(const bg_session *session, bool *any, bg_error *error);
/* Send data from `root` to all ranks, and from one rank to another. */
bg_status bgi_session_share(const bg_session *session, uint32_t root, void *data, size_t size_bytes, bg_error *error);
bg_status bgi_session_hand(const bg_session *session, uint32_t from, uint32_t to, void *data, size_t size_bytes,
                           bg_error *error);

/* Resets a session's optimizer state to its first values, as if training began now. */
bg_status bgi_session_restart_state(bg_session *session, bg_error *error);

#endif
