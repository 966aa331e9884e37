/*
 * memory.h: computes how many bytes are live on a device at each moment of a recorded trace.
 */
#ifndef BGI_PROFILE_MEMORY_H
#define BGI_PROFILE_MEMORY_H

#include "profile/events.h"

typedef struct bgi_memory_change {
    uint64_t at_ns;
    int64_t bytes;
} bgi_memory_change;

/* Changes in order of time; the first change is the constant memory. */
typedef struct bgi_memory_track {
    bgi_memory_change *changes; /* malloc'ed */
    size_t count, capacity;
} bgi_memory_track;

/* Makes one track for each device of the replica in tracks[device_count], which the caller zeroes. The caller also
 * frees `changes`. */
bg_status bgi_memory_trace(const bgi_events *events, const bg_plan *plan, uint32_t replica, bgi_memory_track *tracks,
                           bg_error *error);

/* Bytes that are live during an interval: a message or a stashed value (edge), or memory that an action needs while it
 * runs. */
typedef struct bgi_memory_span {
    uint64_t start_ns, end_ns;
    size_t bytes;
    bg_memory_class memory_class;
    uint32_t edge;    /* UINT32_MAX for memory of an action */
    bg_action action; /* for an edge, only the micro-batch is set */
} bgi_memory_span;

/* Lists the spans of a device that end after `begin_ns`, in no order, in *out (malloc'ed). Memory that is always live
 * is not included. */
bg_status bgi_memory_spans(const bgi_events *events, const bg_plan *plan, uint32_t replica, uint32_t device,
                           uint64_t begin_ns, bgi_memory_span **out, size_t *out_count, bg_error *error);

#endif
