/*
 * host_memory.h: how much memory the machine still has for this process, and whether a session's devices fit into it.
 */
#ifndef BGI_RUNTIME_HOST_MEMORY_H
#define BGI_RUNTIME_HOST_MEMORY_H

#include "plan/plan.h"

typedef struct bgi_host_memory {
    uint64_t free_bytes; /* UINT64_MAX: the system does not tell */
    bool is_limit;       /* of a control group of the process, not the machine's */
} bgi_host_memory;

/* From /proc and /sys below the folder `root`: "" for the system's own. Files that are missing or say nothing that can
 * be read bound nothing. */
bgi_host_memory bgi_host_memory_read(const char *root);

/* BG_ERROR_BUDGET, with what is needed, what there is and the remedy, when `needed_bytes` of the plan's devices are
 * more than `memory` has. */
bg_status bgi_host_memory_check(const bgi_host_memory *memory, const bg_plan *plan, uint64_t needed_bytes,
                                bg_error *error);

#endif
