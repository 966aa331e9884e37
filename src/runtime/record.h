/*
 * record.h: what a session has recorded, for reports and predictions: events come by bg_session_trace_event, the rest
 * by what is here. Between runs only. With several ranks bg_session_share_trace brings what the others have; without
 * it, theirs is unknown.
 */
#ifndef BGI_RUNTIME_RECORD_H
#define BGI_RUNTIME_RECORD_H

#include "runtime/engine.h"
#include "runtime/state.h"

/* Of one device of a replica, since recording began. */
typedef struct bgi_recorded {
    bgi_trace_ring program, beside; /* counts and times by kind; no events */
    const bgi_call_time *times;     /* of calls, in steps that were sampled */
    const uint32_t *first;          /* by instruction: its first call in `times` */
    uint32_t time_count;
    uint32_t rank; /* whose device it is */
} bgi_recorded;

/* False: nothing is known of the device. */
bool bgi_session_recorded(const bg_session *session, uint32_t replica, uint32_t device, bgi_recorded *out);
/* The runs of this rank. NULL: the plan does not trace. */
const bgi_run_spans *bgi_session_runs(const bg_session *session);
/* Of a rank: when its workers did parts of calls of devices that they did not own, worker after worker, each oldest
 * first. *out is malloc'ed. */
bg_status bgi_session_helps(const bg_session *session, uint32_t rank, bg_trace_event **out, uint64_t *out_count,
                            bg_error *error);
/* Workers of this rank that run devices; I/O threads come behind them. */
uint32_t bgi_session_worker_count(const bg_session *session);
/* Forgets what was recorded and records from the next run on; or stops. */
void bgi_session_record(bg_session *session, bool on);

#endif
