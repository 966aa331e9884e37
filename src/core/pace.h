/*
 * pace.h: limits the processor time of background work during a computation that needs the same processors. The work is
 * cut into parts of less than a millisecond, and its thread calls bgi_pace_wait before each part:
 *
 *     part, wait, part, wait ...          a processor is free: no time
 *                                         otherwise: BGI_PACE_SHARE - 1 times the processor time of the part
 *
 * So the work takes at most 1 / BGI_PACE_SHARE of a processor that the computation needs, or all of a free processor.
 * The work never stops, and its thread keeps its priority. A thread of low priority would stop while any other program
 * computes, even if another thread waits for it. Its priority could not be raised again.
 */
#ifndef BGI_CORE_PACE_H
#define BGI_CORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum { BGI_PACE_SHARE = 32 };

/* The pace of one thread. A zeroed pace never waits. */
typedef struct bgi_pace {
    bool (*is_free)(void *user); /* whether a processor is free; called often, by the thread that works. NULL: yes */
    void *user;                  /* argument of is_free */
    uint64_t used_ns;            /* the thread's processor time when the part began */
    uint64_t owed_ns;            /* time still to wait while no processor is free; the caller can set it at the start,
                                    for earlier work that the computation waited for */
    bool has_begun;
} bgi_pace;

void bgi_pace_wait(bgi_pace *pace);

#endif
