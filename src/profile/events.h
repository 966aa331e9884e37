/*
 * events.h: reads the recorded events of a session once, into one array for each device.
 */
#ifndef BGI_PROFILE_EVENTS_H
#define BGI_PROFILE_EVENTS_H

#include <brigade/plan_view.h>
#include <brigade/session.h>

#include "core/arena.h"
#include "core/progress.h"
#include "plan/plan.h"

typedef struct bgi_device_events {
    uint32_t count;
    const bg_trace_event *events; /* events of the program, then those that overlap with it; both oldest first */
    /* By event: the instruction that ran; BGI_NO_INSTRUCTION for an event that overlaps with the program. */
    uint32_t *instructions;
    /* By event: the number of later passes through the device's program; 0 for the last pass. */
    uint32_t *passes_after;
} bgi_device_events;

typedef struct bgi_events {
    bgi_arena arena;
    uint32_t replica_count, device_count;
    bgi_device_events *devices; /* [replica * device_count + device] */
    uint64_t start_ns, end_ns;  /* start of the first event, and end of the last */
    uint32_t pass_count;        /* the largest number of passes in which a device has events */
} bgi_events;

/* Reads the recorded events of a session. Errors: BG_ERROR_INVALID if there is no event. */
bg_status bgi_events_read(const bg_session *session, const bg_plan *plan, bgi_events *out, bg_error *error);
/* Keeps the newest events of each device: at most `most` of its program, and at most `most` that overlap with it. */
void bgi_events_crop(bgi_events *events, uint32_t most);
void bgi_events_clear(bgi_events *events);

/* trace.c: like bg_profile_write_trace, but writes at most about `most` events of programs, and as many of work that
 * overlaps with them. Each device of each replica is a part of `progress` (may be NULL); the file appears after the
 * last part. */
bg_status bgi_trace_write(const bg_session *session, const bg_plan *plan, uint32_t most, const char *path,
                          bgi_progress *progress, bg_error *error);

#endif
