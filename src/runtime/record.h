/*
 * record.h: gives read access to a session's records, for reports and predictions. bg_session_trace_event reads the
 * events of devices, and these functions read all other records. They may be called only between runs. With several
 * ranks, the records of other ranks are unknown until bg_session_share_trace fetches them.
 */
#ifndef BGI_RUNTIME_RECORD_H
#define BGI_RUNTIME_RECORD_H

#include "runtime/engine.h"
#include "runtime/state.h"

/* The record of one device of a replica, since recording began. */
typedef struct bgi_recorded {
    bgi_trace_ring program, beside; /* counts and times by kind, without events */
    const bgi_call_time *times;     /* times of calls, in sampled steps */
    const uint32_t *first;          /* by instruction: its first call in `times` */
    uint32_t time_count;
    uint32_t rank; /* the rank that owns the device */
} bgi_recorded;

/* Returns false when the device's record is unknown. */
bool bgi_session_recorded(const bg_session *session, uint32_t replica, uint32_t device, bgi_recorded *out);
/* Returns the spans of this rank's runs; NULL: the plan does not trace. */
const bgi_run_spans *bgi_session_runs(const bg_session *session);
/* Returns the events in which workers of a rank ran parts of calls of devices that they did not own, by worker, oldest
 * first. *out is malloc'ed. */
bg_status bgi_session_helps(const bg_session *session, uint32_t rank, bg_trace_event **out, uint64_t *out_count,
                            bg_error *error);
/* Returns the number of workers of this rank that run devices; I/O threads come after them. */
uint32_t bgi_session_worker_count(const bg_session *session);
/* Clears the record and records from the next run on, or stops recording. */
void bgi_session_record(bg_session *session, bool on);

/* Returns the bytes of a plan's tables and records in one process, without the memory of devices. */
uint64_t bgi_engine_table_bytes(const bg_plan *plan);
/* Returns the bytes of a device's arena that a session in one process never touches, because the session reads weights
 * in the host's memory.
 */
uint64_t bgi_in_place_bytes(const bg_plan *plan, uint32_t device);

#endif
