/*
 * memory.h: predicts the memory of a process that runs a plan, by purpose.
 *
 * The plan determines the memory of devices, stores and the host. The program, its libraries, the graph and the plan
 * are measured, because the predicting process has them too.
 */
#ifndef BGI_PREDICT_MEMORY_H
#define BGI_PREDICT_MEMORY_H

#include "plan/plan.h"

typedef enum bgi_process_part {
    BGI_PROCESS_WEIGHTS = 0, /* weights of all devices, with constants */
    BGI_PROCESS_GRADIENTS,
    BGI_PROCESS_OPTIMIZER,
    BGI_PROCESS_ACTIVATIONS, /* stashes, messages, inputs, windows of remote values, and values inside passes */
    BGI_PROCESS_STORES,      /* remote buffers, in memory or in files */
    BGI_PROCESS_HOST, /* weights that the host keeps in addition to the devices, and buffers in which values are joined
                         and split */
    BGI_PROCESS_RUNTIME, /* tables and records of the runtime */
    BGI_PROCESS_THREADS, /* stacks of workers */
    BGI_PROCESS_PAGES,   /* memory that the allocator adds, because blocks are whole huge pages */
    BGI_PROCESS_DATA,    /* inputs and outputs, whose size the caller gives */
    BGI_PROCESS_PROGRAM, /* the program, its libraries, the graph and the plan, measured */
    BGI_PROCESS_PART_COUNT
} bgi_process_part;

typedef struct bgi_process_memory {
    size_t bytes[BGI_PROCESS_PART_COUNT];
    size_t planning_bytes; /* the process's peak until now, which planning may have caused */
    size_t peak_bytes;     /* the sum of the parts, or the peak of planning if that is larger */
} bgi_process_memory;

const char *bgi_process_part_name(bgi_process_part part);
/* Predicts the memory of one process with all devices of all replicas, and `cores` cores. Call this function after the
 * plan is created and before the session is created. `data_bytes` is the size of inputs, outputs and data sets that are
 * not in memory yet. Errors: BG_ERROR_UNSUPPORTED if the system does not report the memory of a process. */
bg_status bgi_process_memory_predict(const bg_plan *plan, uint32_t cores, size_t data_bytes, bgi_process_memory *out,
                                     bg_error *error);
/* Reads the resident memory of this process, and its peak; returns false if the system does not report them. */
bool bgi_process_memory_read(size_t *out_bytes, size_t *out_peak_bytes);
/* Prints one line of text, malloc'ed: the peak, and the parts. */
bg_status bgi_process_memory_print(const bgi_process_memory *memory, char **out_text, bg_error *error);

#endif
