/*
 * memory.h: how many bytes are live on a device at each moment of a recorded trace.
 */
#ifndef BGI_PROFILE_MEMORY_H
#define BGI_PROFILE_MEMORY_H

#include "profile/events.h"

typedef struct bgi_memory_change {
    uint64_t at_ns;
    int64_t bytes;
} bgi_memory_change;

/* Changes in order of time; the first brings what is always there. */
typedef struct bgi_memory_track {
    bgi_memory_change *changes; /* malloc'ed */
    size_t count, capacity;
} bgi_memory_track;

/* One track for each device of the replica in tracks[device_count], zeroed by the caller, who also frees `changes`. */
bg_status bgi_memory_trace(const bgi_events *events, const bg_plan *plan, uint32_t replica, bgi_memory_track *tracks,
                           bg_error *error);

#endif
