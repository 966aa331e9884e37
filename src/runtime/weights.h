/*
 * weights.h: named values that sessions share. A weight has a host copy; its newest value is either that, or in the
 * session that trained it last. The version counts values: a session uploads when its version is another one.
 *
 * A weight may be at home in a session whose remote buffers are files (memmap.h): it then has no host copy, so that
 * memory holds no second one of a model that is larger than memory. Its value is where the session computes with it;
 * who asks gets an address in the file, or what the replicas have put together in one buffer of the weights, which
 * the next one who asks takes over. While `newest` is neither NULL nor the home, another session has a newer value.
 */
#ifndef BGI_RUNTIME_WEIGHTS_H
#define BGI_RUNTIME_WEIGHTS_H

#include <brigade/session.h>

typedef struct bgi_weight {
    char *name;
    bg_type type;
    bg_variable_role role;
    void *data;             /* NULL: at home */
    bg_session *home;       /* NULL: `data` is the host copy */
    uint32_t home_variable; /* of its plan */
    uint64_t version;
    bg_session *newest; /* has a newer value than `data`; NULL: nobody */
    uint32_t newest_variable;
    bool is_given;    /* set by the user: as old as the weights' step count says */
    uint64_t updates; /* of optimiser state that a session made: weight updates since */
    bool is_lost;     /* the session that had the newest value failed */
} bgi_weight;

struct bg_weights {
    uint32_t references;
    uint64_t step;
    uint64_t epoch; /* grows whenever anything here changes */
    uint32_t count;
    size_t capacity;
    bgi_weight *items;
    void *view; /* a value that is put together from the replicas' parts of it */
    size_t view_bytes;
};

/* UINT32_MAX when there is none. */
uint32_t bgi_weights_index(const bg_weights *weights, const char *name);
/* Adds a weight with undefined data, to be filled by the caller; with `home`, at home there. */
bg_status bgi_weights_add(bg_weights *weights, const char *name, const bg_type *type, bg_variable_role role,
                          bg_session *home, uint32_t home_variable, bg_error *error);
/* Removes the last ones again. */
void bgi_weights_truncate(bg_weights *weights, uint32_t count);
/* Makes the host copy, or the home, the newest. */
bg_status bgi_weights_pull(bg_weights *weights, uint32_t index, bg_error *error);
/* Pulls it and says where it is, until the next call on these weights. */
bg_status bgi_weights_fetch(bg_weights *weights, uint32_t index, const void **out, bg_error *error);
/* Room for a value of this weight in the weights' buffer. */
bg_status bgi_weights_take_view(bg_weights *weights, uint32_t index, void **out, bg_error *error);
/* From now on at home in the session, which has its newest value. */
void bgi_weights_move_home(bg_weights *weights, uint32_t index, bg_session *home, uint32_t home_variable);
/* The home is about to go: a host copy again, or lost when there is no memory for it. */
void bgi_weights_leave_home(bg_weights *weights, uint32_t index);

/* session.c: copies a variable's whole value from the homes of those replicas that have different parts of it. */
void bgi_session_download(const bg_session *session, uint32_t variable, void *data);
/* The address of a variable's whole value, when one replica has all of it; else NULL. */
void *bgi_session_whole(const bg_session *session, uint32_t variable);
/* Gives a weight that is at home there its newest value. */
bg_status bgi_session_adopt(bg_session *session, uint32_t variable, const void *data, bg_error *error);

#endif
