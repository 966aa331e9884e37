/*
 * weights.h: declares named values that sessions share. A weight usually has a host copy. The newest value is either in
 * the host copy or in the session that trained the weight last. The version counts values; a session copies the value
 * to its devices when its own version differs.
 *
 * The home of a weight is the first session that trains it, or that has it in files (memmap.h). A weight with a home
 * has no host copy, so a large model is not stored twice. The value is in the memory with which the session computes. A
 * reader gets an address in the device's memory or in the file, or a buffer of the weights in which the replicas'
 * pieces are joined; the next reader reuses that buffer. While `newest` is neither NULL nor the home, session `newest`
 * has a newer value.
 *
 * A session of several ranks is the home of all its weights: a rank has its own devices' parts and no host copy. All
 * ranks fetch a value together, and the ranks that read it join the parts in that buffer.
 *
 * One thread at a time uses weights and the sessions that share them. Every public function that reads or changes their
 * state enters the weights first, and fails when another thread is inside. This costs one compare-and-swap for a whole
 * run. Functions that the library calls while its thread is inside do not enter again.
 */
#ifndef BGI_RUNTIME_WEIGHTS_H
#define BGI_RUNTIME_WEIGHTS_H

#include "core/quantized.h"
#include "runtime/publish.h"
#include "runtime/state.h"

#include <stdatomic.h>

enum { BGI_WEIGHT_ALIGNMENT = 64 };

/* Functions of sessions that weights call for values. */
typedef struct bgi_weight_holder {
    /* Copies the whole value of a variable's weight (all sections of it that the session has) from the variables' first
     * places in those replicas that have different parts. Parts of the weight that the session does not have are
     * unchanged. With several ranks all ranks call it, and `readers` (by rank; NULL: all) get the value; `data` is NULL
     * on other ranks. */
    bg_status (*download)(const bg_session *session, uint32_t variable, const bool *readers, void *data,
                          bg_error *error);
    /* Returns the address of the whole value of a variable's weight, when one replica has all of it in one place;
     * otherwise NULL. */
    void *(*whole)(const bg_session *session, uint32_t variable);
    /* Sets the newest value of a weight whose home is the session. */
    bg_status (*adopt)(bg_session *session, uint32_t variable, const void *data, bg_error *error);
    /* Whether several ranks share the session's devices. */
    bool (*is_of_ranks)(const bg_session *session);
    /* Notifies the ranks that serve this one (bg_session_read_weights) of the weight that this rank is about to fetch.
     */
    bg_status (*announce)(const bg_session *session, uint32_t weight, bg_error *error);
} bgi_weight_holder;

extern const bgi_weight_holder bgi_session_holder; /* session_weights.c */

typedef struct bgi_weight {
    char *name;
    bg_type type;
    bg_variable_role role;
    void *data;             /* NULL: the value is at the home */
    bgi_block *block;       /* a published value, whose memory may be `data`; NULL: none */
    uint64_t block_version; /* the version of the value in `block` */
    bg_session *home;       /* NULL: `data` is the host copy */
    uint32_t home_variable; /* the weight's variable in the home's plan */
    uint64_t version;
    bg_session *newest; /* the session with a newer value than `data`; NULL: none */
    uint32_t newest_variable;
    /* For a weight that a session rounded from the values of another weight (quantize.c): the version of those values,
     * their bytes, and the errors of rounding. */
    bool is_quantized;
    uint64_t source_version;
    size_t source_bytes;
    bgi_quantized_error rounding;
    bool is_given;    /* the user has set the value, so its age is the weights' step count */
    uint64_t updates; /* for optimizer state that a session made: the number of weight updates since then */
    /* Of optimizer state: its optimizer (bg_optimizer_describe_state); "": unknown. */
    char optimizer[BG_OPTIMIZER_STATE_TEXT_BYTES];
    bool is_lost;     /* the session that had the newest value failed */
    bool is_attached; /* a session uses it */
    bool is_borrowed; /* `data` is a published value that a session reads (reader.c) */
    bool is_gone;     /* a piece that was joined to a whole; its number stays in use, but its data are freed */
} bgi_weight;

struct bg_weights {
    /* The thread that uses the weights (0: none), its action ("a training run"), and its session (NULL: none). */
    _Atomic uintptr_t thread;
    _Atomic(const char *) action;
    _Atomic(const bg_session *) session;
    _Atomic uint32_t references;
    _Atomic uint64_t step;              /* other threads may read it */
    uint64_t epoch;                     /* grows with every change */
    _Atomic uint32_t count, gone_count; /* other threads may read them */
    size_t capacity;
    bgi_weight *items;
    const bgi_weight_holder *holder; /* NULL: no session has used the weights */
    void *view;                      /* memory for a value that is joined from the replicas' parts */
    size_t view_bytes;
    /* With several ranks: the ranks that read a fetched value. NULL: all. */
    const bool *readers;
    bool is_reader; /* whether this rank is a reader */
    bgi_publication publication;
    const bg_session *serving; /* the session through which only this rank reads, while the other ranks serve it; NULL:
                                  all ranks read */
};

/* Like bgi_weights_enter, for actions that must not fail; waits until the other thread has left. */
void bgi_weights_enter_late(bg_weights *weights, const bg_session *session, const char *action);

/* Adds a weight with undefined data, which the caller fills. If `home` is not NULL, the value is in that session. */
bg_status bgi_weights_add(bg_weights *weights, const char *name, const bg_type *type, bg_variable_role role,
                          bg_session *home, uint32_t home_variable, bg_error *error);
/* Adds a weight whose value belongs to another owner; `data` must not change while it is used. */
bg_status bgi_weights_borrow(bg_weights *weights, const char *name, const bg_type *type, bg_variable_role role,
                             void *data, bg_error *error);
/* Whether fetching the newest value needs other ranks. */
bool bgi_weights_takes_ranks(const bg_weights *weights, uint32_t index);

/* publication.c: called before the host copy is written. If published versions share the copy, gives the weight another
 * one, with the old value if `keeps_value`; returns false when memory is out. */
bool bgi_weights_own(bg_weights *weights, uint32_t index, bool keeps_value);
/* Drops the host copy and its published block. */
void bgi_weights_drop_data(bg_weights *weights, uint32_t index);
/* Drops the published block; the host copy, which may be the same memory, is unchanged. */
void bgi_weights_drop_block(bg_weights *weights, uint32_t index);

/* Copies the newest value to the weight's home, or to the host copy. */
bg_status bgi_weights_pull(bg_weights *weights, uint32_t index, bg_error *error);
/* Like bg_weights_set, for a thread that has entered the weights. */
bg_status bgi_weights_set(bg_weights *weights, const char *name, const bg_type *type, const void *data,
                          bg_error *error);
/* Allocate and release memory in the buffer of `weights`, for a value of this weight. */
bg_status bgi_weights_take_view(bg_weights *weights, uint32_t index, void **out, bg_error *error);
void bgi_weights_drop_view(bg_weights *weights);
/* Like bgi_weights_fetch, for the ranks in `readers` (by rank; NULL: all); all ranks call this function. *out is NULL
 * on ranks that do not read the value. */
bg_status bgi_weights_fetch_for(bg_weights *weights, uint32_t index, const bool *readers, uint32_t rank,
                                const void **out, bg_error *error);
/* Makes `home`, which has the newest value, the weight's home. */
void bgi_weights_move_home(bg_weights *weights, uint32_t index, bg_session *home, uint32_t home_variable);
/* Called before the home of a weight is destroyed: the weight gets a host copy again, or is lost when there is no
 * memory for the copy. */
void bgi_weights_leave_home(bg_weights *weights, uint32_t index);

/* Joins the pieces of weight `name` (core/section.h) and writes the whole weight to `out`. If `out` is NULL, the
 * function only checks whether the pieces can be joined. *out_first is the first piece, or UINT32_MAX. Pieces that a
 * session uses are ignored. Errors: BG_ERROR_SHAPE when the pieces do not cover the whole. */
bg_status bgi_weights_gather(const bg_weights *weights, const char *name, const bg_type *type, void *out,
                             uint32_t *out_first, bg_error *error);
/* Removes pieces whose wholes exist. The numbers of weights do not change. */
void bgi_weights_drop_pieces(bg_weights *weights);

#endif
