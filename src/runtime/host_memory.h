/*
 * host_memory.h: finds how much memory is available to this process, and checks that a session's devices fit into it.
 */
#ifndef BGI_RUNTIME_HOST_MEMORY_H
#define BGI_RUNTIME_HOST_MEMORY_H

#include "plan/plan.h"

typedef struct bgi_host_memory {
    uint64_t free_bytes; /* UINT64_MAX: unknown */
    bool is_limit;       /* free_bytes is the limit of a control group of the process, not of the machine */
} bgi_host_memory;

/* Reads /proc and /sys below the folder `root` ("" for the system's own). Missing and unreadable files set no limit. */
bgi_host_memory bgi_host_memory_read(const char *root);

/* Returns BG_ERROR_BUDGET, with the needed and available bytes and a remedy, when the plan's devices need more than
 * `memory` has. */
bg_status bgi_host_memory_check(const bgi_host_memory *memory, const bg_plan *plan, uint64_t needed_bytes,
                                bg_error *error);

#endif
