/*
 * session.h: a session, for the files that make it.
 */
#ifndef BGI_RUNTIME_SESSION_H
#define BGI_RUNTIME_SESSION_H

#include <brigade/feed.h>

#include "runtime/engine.h"

typedef struct bgi_session_variable {
    uint32_t weight;  /* UINT32_MAX: not shared */
    uint64_t version; /* of the weight's value on the devices */
} bgi_session_variable;

struct bg_session {
    const bg_plan *plan;
    bgi_engine *engine;
    bg_weights *weights;
    bg_optimiser optimiser;
    bgi_session_variable *variables; /* of the plan */
    uint64_t epoch;                  /* of the weights when we last looked */
    bool has_newest;                 /* as of that epoch, all values that training changes are newest here */
    bg_outfeed *outfeeds;            /* attached; the newest first */
    bg_infeed *iterator;             /* of bg_session_run_loader */
    const bg_loader *iterator_loader;
    uint64_t iterator_epoch;
    uint64_t cycles;        /* of the last run; 0: none, or nobody asked */
    void *condition_memory; /* of the plan's condition */
    char *note;             /* of the files that the session goes on with; NULL: none */
    void *cut;              /* room for what one replica has of a variable that the mesh cuts */
};

/* session.c: one run of the engine, with the weights before and after it. */
bg_status bgi_session_run(bg_session *session, bgi_run *run, uint64_t *out_iterations, bg_error *error);
/* Copies a whole value to all places of a variable, to each replica its part. */
void bgi_session_upload(bg_session *session, const bgi_plan_variable *variable, const void *data);

#endif
