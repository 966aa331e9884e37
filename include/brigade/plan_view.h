/*
 * plan_view.h: the parts of a plan, for reports, profiles and other tools that show a plan or its run. plan.h describes
 * a plan as a whole. Returned pointers are valid as long as the plan.
 *
 * Threads: any thread may call these functions while the plan lives.
 */
#ifndef BRIGADE_PLAN_VIEW_H
#define BRIGADE_PLAN_VIEW_H

#include <brigade/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A weight, or training state that belongs to it. The type is that of the whole tensor, even if devices hold pieces.
 * Sections of one weight are variables of the same name and type. */
typedef struct bg_plan_variable {
    const char *name;
    bg_type type;
    bg_variable_role role;
} bg_plan_variable;
/* Returns variable `index` of a plan, which has bg_plan_summary.variable_count variables; all-zero past the last. */
BG_API bg_plan_variable bg_plan_variable_at(const bg_plan *plan, uint32_t index);

typedef struct bg_plan_block {
    const char *name; /* "" for ops outside named blocks */
    uint32_t stage;
} bg_plan_block;
/* Returns block `index` of a plan, which has bg_plan_summary.block_count blocks; all-zero past the last. */
BG_API bg_plan_block bg_plan_block_at(const bg_plan *plan, uint32_t index);
/* Returns the device of a stage; UINT32_MAX when the stage does not exist. */
BG_API uint32_t bg_plan_stage_device(const bg_plan *plan, uint32_t stage);

/* Values that are used by later actions than the one that makes them: messages between devices, and values that one
 * pass keeps for a later one. */
typedef struct bg_plan_edge {
    uint32_t from_device, to_device; /* the slots are on to_device */
    size_t payload_bytes;            /* bytes of a message */
    size_t slot_bytes;               /* bytes of a slot, with padding */
    uint32_t depth;                  /* number of slots */
    bool per_step;                   /* the edge has one message per step; otherwise one for each micro-batch */
    bool is_stash;                   /* the slots count as BG_MEMORY_STASH; otherwise as BG_MEMORY_STREAM */
    bool is_ring;                    /* the slots are a window of a remote store, and are always in use */
} bg_plan_edge;
/* Returns edge `index` of a plan, which has bg_plan_summary.edge_count edges; all-zero past the last. */
BG_API bg_plan_edge bg_plan_edge_at(const bg_plan *plan, uint32_t index);

/* One instruction of a device's program, which runs once for each weight update (training) or call (inference). */
typedef struct bg_plan_instruction {
    bg_action action;
    size_t transient_bytes; /* peak of the bytes that are live only during this instruction */
    bool copies;            /* moves bytes; false for a SEND whose message was written in place */
    bool is_beside;         /* the instruction starts a reduction and does not wait for its end */
} bg_plan_instruction;
BG_API uint32_t bg_plan_instruction_count(const bg_plan *plan, uint32_t device);
/* Returns instruction `index` of the device; all-zero past the last. */
BG_API bg_plan_instruction bg_plan_instruction_at(const bg_plan *plan, uint32_t device, uint32_t index);
/* Sets marks[e] to true for each edge e that instruction `index` writes or reads on the device. `marks` has
 * bg_plan_summary.edge_count elements; other elements are unchanged. */
BG_API void bg_plan_mark_edges(const bg_plan *plan, uint32_t device, uint32_t index, bool *marks);
/* Returns the number of transfers to and from remote stores that a device begins in a step. */
BG_API uint32_t bg_plan_transfer_count(const bg_plan *plan, uint32_t device);

#ifdef __cplusplus
}
#endif

#endif
