/*
 * weights.h: named values that sessions share. A weight has a host copy; its newest value is either that, or in the
 * session that trained it last. The version counts values: a session uploads when its version is another one.
 */
#ifndef BGI_RUNTIME_WEIGHTS_H
#define BGI_RUNTIME_WEIGHTS_H

#include <brigade/session.h>

typedef struct bgi_weight {
    char *name;
    bg_type type;
    bg_variable_role role;
    void *data;
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
};

/* UINT32_MAX when there is none. */
uint32_t bgi_weights_index(const bg_weights *weights, const char *name);
/* Adds a weight with undefined data, to be filled by the caller. */
bg_status bgi_weights_add(bg_weights *weights, const char *name, const bg_type *type, bg_variable_role role,
                          bg_error *error);
/* Removes the last ones again. */
void bgi_weights_truncate(bg_weights *weights, uint32_t count);
/* Makes the host copy the newest. */
bg_status bgi_weights_pull(bg_weights *weights, uint32_t index, bg_error *error);

/* session.c: copies a variable's whole value from the homes of those replicas that have different parts of it. */
void bgi_session_download(const bg_session *session, uint32_t variable, void *data);

#endif
