/*
 * session.h: declares the structs and functions that the session's files share.
 */
#ifndef BGI_RUNTIME_SESSION_H
#define BGI_RUNTIME_SESSION_H

#include <brigade/feed.h>

#include "runtime/engine.h"
#include "runtime/publish.h"
#include "runtime/state.h"

typedef struct bgi_memmap bgi_memmap;

/* Copies that several threads make together (copy_list.c). A new list is all zero; its owner frees `pieces`. */
typedef struct bgi_copy_piece bgi_copy_piece;
typedef struct bgi_copy_list {
    bgi_copy_piece *pieces;
    size_t count, capacity;
} bgi_copy_list;

/* Memory for copies of values, kept from one checkpoint to the next. */
typedef struct bgi_snapshot_room {
    void *memory;
    size_t size_bytes;
    atomic_bool is_used; /* the thread that has finished its copies clears it */
} bgi_snapshot_room;

/* The state of a session that reads published values (reader.c). The session has its own table of weights, which
 * borrows published values for a run, and owns the values that the session's ops write. */
typedef struct bgi_reading {
    bg_weights *source;
    bgi_reader *reader;
    uint64_t version;  /* the version of the last run */
    uint32_t *numbers; /* by weight: the number that it has in `source` */
    uint64_t *changes; /* by weight: the change number of its value, as in bgi_published */
    uint32_t count;
} bgi_reading;

typedef struct bgi_session_variable {
    uint32_t weight;     /* the number of the variable's weight; UINT32_MAX: the variable is not a weight */
    uint64_t version;    /* the version of the weight's value on the devices */
    uint32_t source;     /* of a quantized buffer: the weight that has its values in float32, or UINT32_MAX */
    bool is_repeated;    /* an earlier variable is a section of the same weight */
    const void *read_at; /* of a variable that is read in place: the address; NULL: it is read in the arena, because the
                            weight's home is another session */
} bgi_session_variable;

/* The trace of another rank's device: events of its program, then of its transfers. */
typedef struct bgi_shared_trace {
    bg_trace_event *events;
    uint64_t count;
    bgi_trace_ring program, beside; /* totals, without events */
    bgi_call_times call_times;
} bgi_shared_trace;

struct bg_session {
    const bg_plan *plan;
    bg_plan *own_plan; /* the plan, when the session compiled it (own_plan.c); otherwise NULL */
    bgi_engine *engine;
    bgi_memmap *memmap; /* the files of the remote memory; NULL: none */
    bg_weights *weights;
    bgi_reading *reading; /* NULL: the session is not a reader */
    bool *in_place; /* by variable of the plan: whether it is read in the memory of the weights (in_place.c); NULL: none
                       is */
    bg_optimizer optimizer;
    bgi_session_variable *variables; /* the variables of the plan */
    uint64_t epoch;                  /* the weights' epoch at the last check */
    bool makes_values;      /* makes values for parameters that the weights lack, which are otherwise an error */
    bool has_newest;        /* at `epoch`, this session has the newest values of all variables that its runs change */
    bg_outfeed *outfeeds;   /* attached outfeeds, the newest first */
    bg_infeed *kept_infeed; /* the infeed of bg_session_run_kept, with its key */
    const void *kept_key;
    uint64_t kept_number;
    _Atomic uint64_t cycles;       /* duration of the last run; 0: there was no run, or the options do not request it */
    void *condition_memory;        /* memory for the plan's condition */
    void **carried;                /* of a loop: memory for each carried value */
    char *note;                    /* a note about the files that the session resumes from; NULL: none */
    uint32_t *owners;              /* by device: its rank; NULL: one process */
    bool *readers;                 /* scratch: the ranks that have a part of a variable */
    char (*hosts)[BGI_HOST_BYTES]; /* by rank: the host's name; NULL: one process */
    bgi_shared_trace *shared_traces; /* by device; NULL: not shared since the last run */
    bgi_shared_trace *shared_helps;  /* by rank: events of its workers (record.h); or NULL */
    void *cut;                       /* memory for one replica's part of a variable that is cut out of a weight */
    bgi_snapshot_room room;
    bgi_progress *progress; /* the progress of the session's creation; NULL afterward */
};

/* The part of a value that a replica keeps, in bytes; bgi_session_part returns it for data coordinate `place`. */
typedef struct bgi_kept_part {
    size_t offset, size_bytes;
} bgi_kept_part;
static inline bgi_kept_part bgi_session_part(const bgi_plan_variable *variable, uint32_t place)
{
    const size_t whole = bg_type_size_bytes(&variable->type), piece = bgi_plan_variable_bytes(variable);
    const size_t before = variable->piece_count > 0 ? place * piece : 0;
    const size_t offset = before < whole ? before : whole;

    return (bgi_kept_part){offset, whole - offset < piece ? whole - offset : piece};
}

/* Returns the number of threads that make first values; no system threads are added when the caller lends threads. */
static inline uint32_t bgi_session_helpers(const bg_session *session)
{
    return session->plan->options.execution.start_thread == NULL ? session->engine->worker_count : 1;
}

/* session.c: updates the devices to the newest weights, runs the engine once, and records which weights have changed.
 */
bg_status bgi_session_run(bg_session *session, bgi_run *run, uint64_t *out_iterations, bg_error *error);
/* session.c: creates a session, which becomes the owner of one reference to the weights; the caller has entered the
 * weights. */
bg_status bgi_session_make(const bg_plan *plan, bg_weights *weights, bool makes_values, bgi_reading *reading,
                           bg_session **out, bg_error *error);

/* session_weights.c: copies the variable's section of a weight's whole value `data` to all places of the variable; each
 * replica gets its part. */
void bgi_session_upload(bg_session *session, const bgi_plan_variable *variable, const void *data);
/* Sums the bytes of all parts of a creation: memory of devices and files, first values of new weights, and copies of
 * values to devices. The sum is the same on all ranks. */
uint64_t bgi_session_count_creation(const bg_session *session);
/* Finds the weights of a new session, and adds those that are missing, with their first values. */
bg_status bgi_session_attach(bg_session *session, bg_error *error);
/* Sets roles and optimizers from the plan, which is more precise than the file from which a weight was read. */
void bgi_session_name_roles(bg_session *session);
/* Makes the session the home of those weights that existed before it and need its home; called when the creation can no
 * longer fail. */
void bgi_session_move_home(bg_session *session);
/* Updates the devices to the newest weights. */
bg_status bgi_session_refresh(bg_session *session, bg_error *error);
/* Records after a run that the devices have the newest values of all variables or, in inference, of those that ops
 * write. */
void bgi_session_claim(bg_session *session);
/* Marks the values that only this session, which has failed, had as lost. */
void bgi_session_lose(bg_session *session);
/* Copies values to weights that outlive the session. */
void bgi_session_return(bg_session *session);

/* reading.c: bgi_reading_begin borrows a version for a run; bgi_reading_end is called when no thread computes with it
 * any more. */
bg_status bgi_reading_begin(bg_session *session, bg_error *error);
void bgi_reading_end(bg_session *session);
/* Called at the end of the session: its devices are freed or, if `is_dead`, may still run. */
void bgi_reading_close(bgi_reading *reading, bool is_dead);
/* Frees only the memory of `reading`. */
void bgi_reading_free(bgi_reading *reading);

/* stores.c: whether files hold the values of a variable's weight. */
bool bgi_session_is_in_stores(const bg_session *session, uint32_t variable);

/* rank_weights.c, for sessions with several ranks: returns whether the plan's variables cover the whole weight of this
 * variable. */
bool bgi_session_has_all(const bg_session *session, const bgi_plan_variable *variable);
/* Sets readers[rank] to whether the rank has a device with this variable. */
void bgi_session_find_readers(const bg_session *session, const bgi_plan_variable *variable, bool *readers);
/* Makes the first values of this rank's parts of a variable, from the seed. `first`: the weight's first variable. */
bg_status bgi_session_make_own(bg_session *session, const bgi_plan_variable *variable, const bgi_plan_variable *first,
                               bg_error *error);
bg_status bgi_session_announce(const bg_session *session, uint32_t weight, bg_error *error);

/* copy_list.c: add a copy to the list: of a range of a device's memory, or of the host's memory. */
bg_status bgi_copy_list_add(bgi_copy_list *list, const bgi_engine *engine, uint32_t replica, const bgi_place *place,
                            void *to, size_t size_bytes, bg_error *error);
bg_status bgi_copy_list_add_host(bgi_copy_list *list, const void *from, void *to, size_t size_bytes, bg_error *error);
/* Makes the copies with at most `thread_count` threads, one of which is the caller. */
void bgi_copy_list_run(const bgi_copy_list *list, uint32_t thread_count);
/* rank_parts.c: like bgi_session_read_part, but contiguous ranges are only added to the list. */
bg_status bgi_session_list_part(const bg_session *session, uint32_t number, bgi_copy_list *list, void *out,
                                bg_error *error);

/* rank_index.c: sends the value of a new weight from the index of rank 0. `number` is the weight's first variable. The
 * ranks that have variables of the weight receive the value, or all ranks when the weight has a host copy. *out_data is
 * the value's address on these ranks, and NULL on other ranks. */
bg_status bgi_session_spread(bg_session *session, uint32_t number, void **out_data, bg_error *error);

/* rank_trace.c: frees the traces from bg_session_share_trace. */
void bgi_session_drop_traces(bg_session *session);

#endif
