/*
 * weights.h: named values that sessions share. A weight has a host copy; its newest value is either that, or in the
 * session that trained it last. The version counts values: a session uploads when its version is another one.
 *
 * A weight may be at home in a session whose remote buffers are files (memmap.h). It then has no host copy, so a model
 * that is larger than memory is not stored twice. Its value is where the session computes with it. A reader gets an
 * address in the file, or a buffer of the weights in which the replicas' pieces are joined; the next reader reuses that
 * buffer. While `newest` is neither NULL nor the home, another session has a newer value.
 *
 * In sessions of several ranks all weights are at home: a rank has its own devices' parts and no host copy. All ranks
 * fetch a value together, and the ranks that read it join it in that buffer.
 *
 * One thread at a time uses weights and the sessions that share them. Every public function that reads or changes their
 * state enters the weights first and is refused when another thread is inside: one compare-and-swap for a whole run.
 * Functions of the library that are called inside do not enter again.
 */
#ifndef BGI_RUNTIME_WEIGHTS_H
#define BGI_RUNTIME_WEIGHTS_H

#include "runtime/publish.h"
#include "runtime/state.h"

#include <stdatomic.h>

enum { BGI_WEIGHT_ALIGNMENT = 64 };

/* What weights call in the sessions that have their values; set by session.c. */
typedef struct bgi_weight_holder {
    /* Copies the whole value of a variable's weight: all sections that the session has of it, from the homes of those
     * replicas that have different parts. Parts of the weight that the session does not have stay as they are. Of
     * several ranks
     * all call it, and `readers` (by rank; NULL: all) get it; `data` is NULL on others. */
    bg_status (*download)(const bg_session *session, uint32_t variable, const bool *readers, void *data,
                          bg_error *error);
    /* The address of the whole value of a variable's weight, when one replica has all of it in one place; else NULL. */
    void *(*whole)(const bg_session *session, uint32_t variable);
    /* Gives a weight that is at home there its newest value. */
    bg_status (*adopt)(bg_session *session, uint32_t variable, const void *data, bg_error *error);
    /* Whether several ranks share the session's devices. */
    bool (*is_of_ranks)(const bg_session *session);
    /* Tells the ranks that serve this one (bg_session_serve) which weight it is about to fetch. */
    bg_status (*announce)(const bg_session *session, uint32_t weight, bg_error *error);
} bgi_weight_holder;

typedef struct bgi_weight {
    char *name;
    bg_type type;
    bg_variable_role role;
    void *data;             /* NULL: at home */
    bgi_block *block;       /* a value that was published, perhaps `data`; NULL: none */
    uint64_t block_version; /* of that value */
    bg_session *home;       /* NULL: `data` is the host copy */
    uint32_t home_variable; /* of its plan */
    uint64_t version;
    bg_session *newest; /* has a newer value than `data`; NULL: nobody */
    uint32_t newest_variable;
    bool is_given;    /* set by the user: as old as the weights' step count says */
    uint64_t updates; /* of optimizer state that a session made: weight updates since */
    /* Of optimizer state: the optimizer that it belongs to (bg_optimizer_describe_state); "": not known. */
    char optimizer[BG_OPTIMIZER_STATE_TEXT_BYTES];
    bool is_lost;     /* the session that had the newest value failed */
    bool is_attached; /* a session has made use of it */
    bool is_borrowed; /* `data` is a published value, which a session reads (reader.c) */
    bool is_gone;     /* pieces that were joined to a whole: the number stays, the rest is freed */
} bgi_weight;

struct bg_weights {
    /* Who is inside: the thread (0: none), what it does there ("a training run"), and with which of the sessions (NULL:
     * with none). */
    _Atomic uintptr_t thread;
    _Atomic(const char *) action;
    _Atomic(const bg_session *) session;
    _Atomic uint32_t references;
    _Atomic uint64_t step;              /* may be read from outside */
    uint64_t epoch;                     /* grows whenever anything here changes */
    _Atomic uint32_t count, gone_count; /* may be read from outside */
    size_t capacity;
    bgi_weight *items;
    const bgi_weight_holder *holder; /* NULL: no session has been here */
    void *view;                      /* a value that is put together from the replicas' parts of it */
    size_t view_bytes;
    /* Of several ranks: who gets what is fetched. NULL: all. */
    const bool *readers;
    bool is_reader; /* whether this rank is one of them */
    bgi_publication publication;
    const bg_session *serving; /* this rank alone asks, and the others of that session serve it; NULL: all ask */
};

/* As bgi_weights_enter, for what cannot be refused: waits until the other thread has left. */
void bgi_weights_enter_late(bg_weights *weights, const bg_session *session, const char *action);

/* Adds a weight with undefined data, to be filled by the caller; with `home`, at home there. */
bg_status bgi_weights_add(bg_weights *weights, const char *name, const bg_type *type, bg_variable_role role,
                          bg_session *home, uint32_t home_variable, bg_error *error);
/* Adds a weight of which somebody else has the value: `data` stays there, and is not changed, while it is used. */
bg_status bgi_weights_borrow(bg_weights *weights, const char *name, const bg_type *type, bg_variable_role role,
                             void *data, bg_error *error);
/* Whether bringing the newest value takes other ranks. */
bool bgi_weights_takes_ranks(const bg_weights *weights, uint32_t index);

/* publication.c: before the host copy is written: it is the weight's own from now on, with the value it had if that is
 * still wanted; false: no memory. */
bool bgi_weights_own(bg_weights *weights, uint32_t index, bool keeps_value);
/* Lets go of the host copy and of what was published of it. */
void bgi_weights_drop_data(bg_weights *weights, uint32_t index);
/* Lets go of what was published of it; nothing becomes of the host copy, which may be the same memory. */
void bgi_weights_drop_block(bg_weights *weights, uint32_t index);

/* Makes the host copy, or the home, the newest. */
bg_status bgi_weights_pull(bg_weights *weights, uint32_t index, bg_error *error);
/* bg_weights_set, inside. */
bg_status bgi_weights_set(bg_weights *weights, const char *name, const bg_type *type, const void *data,
                          bg_error *error);
/* Room for a value of this weight in the weights' buffer; giving it back. */
bg_status bgi_weights_take_view(bg_weights *weights, uint32_t index, void **out, bg_error *error);
void bgi_weights_drop_view(bg_weights *weights);
/* bgi_weights_fetch, of all ranks, for these alone (by rank; NULL: all). *out is NULL where nobody reads it. */
bg_status bgi_weights_fetch_for(bg_weights *weights, uint32_t index, const bool *readers, uint32_t rank,
                                const void **out, bg_error *error);
/* From now on at home in the session, which has its newest value. */
void bgi_weights_move_home(bg_weights *weights, uint32_t index, bg_session *home, uint32_t home_variable);
/* The home is about to go: a host copy again, or lost when there is no memory for it. */
void bgi_weights_leave_home(bg_weights *weights, uint32_t index);

/* Makes the weight `name` of the weights that are pieces of it (core/section.h): writes it to `out`, or with NULL says
 * only whether it could be done. *out_first is the first piece, UINT32_MAX when there is none. Pieces of which a
 * session makes use count for nothing. Errors: SHAPE when the pieces do not make up the whole. */
bg_status bgi_weights_gather(const bg_weights *weights, const char *name, const bg_type *type, void *out,
                             uint32_t *out_first, bg_error *error);
/* Removes the pieces whose wholes are there. Numbers of weights stay. */
void bgi_weights_drop_pieces(bg_weights *weights);

#endif
