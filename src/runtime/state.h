/*
 * state.h: weights and the state of their training as named tensors, for companions that keep them (checkpoints): the
 * one header of this room that companions may include. The public functions on weights (session.h) enter and leave for
 * each call; a file that is of one step needs all of them inside one entry, and what makes a value part of a training
 * (its role, its age, whose state it is), which nobody else has a use for. Hence this is not public.
 *
 *     bgi_weights_enter --> tensors by number, values by bgi_weights_fetch, restored --> bgi_weights_leave
 */
#ifndef BGI_RUNTIME_STATE_H
#define BGI_RUNTIME_STATE_H

#include <brigade/session.h>

/* ---- one thread at a time ---- */

/* Claims the weights for the calling thread, for an action of a session or (NULL) of the weights alone.
 * BG_ERROR_INVALID when a thread is inside; then nothing is to be left. */
bg_status bgi_weights_enter(bg_weights *weights, const bg_session *session, const char *action, bg_error *error);
void bgi_weights_leave(bg_weights *weights);

/* ---- inside ---- */

/* All but the value. */
typedef struct bgi_tensor {
    const char *name; /* NULL: there is none of this number any more */
    bg_type type;
    bg_variable_role role;
    bool is_given;         /* set by the user: as old as the weights' step says */
    uint64_t updates;      /* of optimizer state that a session made: weight updates since */
    const char *optimizer; /* of optimizer state: whose it is (bg_optimizer_describe_state); "": not known */
} bgi_tensor;

/* Tensors have numbers below this one. */
uint32_t bgi_weights_end(const bg_weights *weights);
bgi_tensor bgi_weights_tensor(const bg_weights *weights, uint32_t number);
/* UINT32_MAX when there is none. */
uint32_t bgi_weights_index(const bg_weights *weights, const char *name);
/* The newest value, until the next call on these weights. */
bg_status bgi_weights_fetch(bg_weights *weights, uint32_t number, const void **out, bg_error *error);
/* Sets a value and what there is to know of it; a name that is not there is added. The role of one that is there stays,
 * unless `sets_role`. The name of a piece of a weight that is there sets that range of it, and nothing else. */
bg_status bgi_weights_restore(bg_weights *weights, const bgi_tensor *tensor, bool sets_role, const void *data,
                              bg_error *error);
/* Removes those from `count` on. */
void bgi_weights_truncate(bg_weights *weights, uint32_t count);
/* Weight updates done. */
uint64_t bgi_weights_step(const bg_weights *weights);
void bgi_weights_set_step(bg_weights *weights, uint64_t step);

/* bg_session_create; `makes_values`: of parameters that the weights lack, whatever the plan's options say (costs are
 * measured so). */
bg_status bgi_session_create(const bg_plan *plan, bg_weights *weights, bool makes_values, bg_session **out,
                             bg_error *error);

/* bg_session_read_weights, inside. */
typedef bg_status (*bgi_weights_reader)(void *user, bg_error *error);
bg_status bgi_session_read_weights(bg_session *session, uint32_t rank, bgi_weights_reader use, void *user,
                                   bg_error *error);

/* ---- several ranks (rank_parts.c) ----
 *
 * A weight is cut into parts: each element once, each part with a rank that has it. The cut is the same on all ranks. A
 * weight that is not at home in a session of several ranks is rank 0's as a whole, as all are in one process. */

/* Calls `visit` for each stretch of elements; those of one rank, in this order, are its part. */
typedef void bgi_visit_part(void *user, uint32_t rank, int64_t first, int64_t count);
bg_status bgi_session_walk_parts(const bg_session *session, uint32_t number, bgi_visit_part *visit, void *user,
                                 bg_error *error);
/* This rank's part of the newest value; bgi_session_pull comes first. Speaks to no other rank. */
bg_status bgi_session_read_part(const bg_session *session, uint32_t number, void *out, bg_error *error);
/* Brings all values to where they are at home. Of all ranks. */
bg_status bgi_session_pull(bg_session *session, bg_error *error);
/* The elements that the devices of a rank have, from the first to the last: what a rank that restores the weight must
 * know of it. Both 0: nothing. */
bg_status bgi_session_find_range(const bg_session *session, uint32_t number, uint32_t rank, int64_t *out_first,
                                 int64_t *out_end, bg_error *error);

/* Of all ranks, between runs; in one process nothing happens, and bgi_session_settle returns `status`. */
uint32_t bgi_session_rank(const bg_session *session);
uint32_t bgi_session_rank_count(const bg_session *session);
/* How something went that each rank has done by itself: OK when it went well on all, else the error of the lowest. */
bg_status bgi_session_settle(const bg_session *session, bg_status status, bg_error *error);
/* *any becomes true on all ranks when it is on one. */
bg_status bgi_session_any(const bg_session *session, bool *any, bg_error *error);
/* From `root` to all; from one to another. */
bg_status bgi_session_share(const bg_session *session, uint32_t root, void *data, size_t size_bytes, bg_error *error);
bg_status bgi_session_hand(const bg_session *session, uint32_t from, uint32_t to, void *data, size_t size_bytes,
                           bg_error *error);

/* Gives the optimizer's state of a session its first values, as if the training began now. */
bg_status bgi_session_restart_state(bg_session *session, bg_error *error);

#endif
