/*
 * memory.h: predicts how much memory a process takes that runs a plan, by what the memory is for.
 *
 * Devices, stores and what the host keeps follow from the plan. The program, its libraries, the graph and the plan are
 * measured: the process that predicts has them as well.
 */
#ifndef BGI_PREDICT_MEMORY_H
#define BGI_PREDICT_MEMORY_H

#include "plan/plan.h"

typedef enum bgi_process_part {
    BGI_PROCESS_WEIGHTS = 0, /* of all devices, with constants */
    BGI_PROCESS_GRADIENTS,
    BGI_PROCESS_OPTIMIZER,
    BGI_PROCESS_ACTIVATIONS, /* stashes, messages, inputs, windows of remote values, and values inside passes */
    BGI_PROCESS_STORES,      /* remote buffers, in memory or in files */
    BGI_PROCESS_HOST,        /* weights that the host keeps beside the devices, and values while they are cut */
    BGI_PROCESS_RUNTIME,     /* tables and records of the runtime */
    BGI_PROCESS_THREADS,     /* stacks of workers */
    BGI_PROCESS_PAGES,       /* what the allocator adds: blocks in whole huge pages */
    BGI_PROCESS_DATA,        /* inputs and outputs: given by the caller */
    BGI_PROCESS_PROGRAM,     /* the program, its libraries, the graph, the plan: measured */
    BGI_PROCESS_PART_COUNT
} bgi_process_part;

typedef struct bgi_process_memory {
    size_t bytes[BGI_PROCESS_PART_COUNT];
    size_t planning_bytes; /* the peak until now, which may be that of the planning */
    size_t peak_bytes;     /* the sum of the parts, or the planning's peak */
} bgi_process_memory;

const char *bgi_process_part_name(bgi_process_part part);
/* One process with all devices of all replicas, and `cores` cores. Call it between the creation of the plan and that of
 * its session. `data_bytes`: of inputs, outputs and data sets that are not in memory yet. BG_ERROR_UNSUPPORTED where
 * the system does not tell the memory of a process. */
bg_status bgi_process_memory_predict(const bg_plan *plan, uint32_t cores, size_t data_bytes, bgi_process_memory *out,
                                     bg_error *error);
/* What this process has in memory, and the most that it had; false where the system does not tell. */
bool bgi_process_memory_read(size_t *out_bytes, size_t *out_peak_bytes);
/* Two lines of text, malloc'ed: the peak, and its parts. */
bg_status bgi_process_memory_print(const bgi_process_memory *memory, char **out_text, bg_error *error);

#endif
