/*
 * plan_view.h: what a plan consists of, to be read: for reports, profiles and other tools that show a plan or what came
 * of it. plan.h has what is said of a plan as a whole. Functions of this header may be called by any thread; what they
 * point to lives as long as the plan.
 *
 * Threads: any thread may call these functions while the plan lives.
 */
#ifndef BRIGADE_PLAN_VIEW_H
#define BRIGADE_PLAN_VIEW_H

#include <brigade/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A weight, or what training keeps beside it, as the host has it: whole, however devices cut it. Sections of one weight
 * are variables of the same name and type. */
typedef struct bg_plan_variable {
    const char *name;
    bg_type type;
    bg_variable_role role;
} bg_plan_variable;
/* Of summary.variable_count; all-zero past them. */
BG_API bg_plan_variable bg_plan_variable_at(const bg_plan *plan, uint32_t index);

typedef struct bg_plan_block {
    const char *name; /* "": of ops outside named blocks */
    uint32_t stage;
} bg_plan_block;
/* Of summary.block_count; all-zero past them. */
BG_API bg_plan_block bg_plan_block_at(const bg_plan *plan, uint32_t index);
/* UINT32_MAX when there is no such stage. */
BG_API uint32_t bg_plan_stage_device(const bg_plan *plan, uint32_t stage);

/* Values that live across actions: messages between devices, and what a pass keeps for a later one. */
typedef struct bg_plan_edge {
    uint32_t from_device, to_device; /* the memory is the latter's */
    size_t payload_bytes;            /* of a message */
    size_t slot_bytes;               /* it takes so many */
    uint32_t depth;                  /* messages that there is room for */
    bool per_step;                   /* one message a step; else one for each micro-batch */
    bool is_stash;                   /* counted as BG_MEMORY_STASH; else as BG_MEMORY_STREAM */
    bool is_ring;                    /* a window of a remote store: its slots are in use all the time */
} bg_plan_edge;
/* Of summary.edge_count; all-zero past them. */
BG_API bg_plan_edge bg_plan_edge_at(const bg_plan *plan, uint32_t index);

/* A step of a device's program, which it goes through once for each weight update (training) or call (inference). */
typedef struct bg_plan_instruction {
    bg_action action;
    size_t transient_bytes; /* the most that is live inside it alone */
    bool copies;            /* moves bytes itself: of a SEND, the message was not written in its place */
    bool is_beside;         /* begins a reduction and does not wait for its end */
} bg_plan_instruction;
BG_API uint32_t bg_plan_instruction_count(const bg_plan *plan, uint32_t device);
/* All-zero past the last. */
BG_API bg_plan_instruction bg_plan_instruction_at(const bg_plan *plan, uint32_t device, uint32_t index);
/* Sets marks[e], of summary.edge_count, for each edge that the instruction writes or reads on a device; others stay as
 * they are. */
BG_API void bg_plan_mark_edges(const bg_plan *plan, uint32_t device, uint32_t index, bool *marks);
/* Transfers to and from remote stores that a device begins in a step. */
BG_API uint32_t bg_plan_transfer_count(const bg_plan *plan, uint32_t device);

#ifdef __cplusplus
}
#endif

#endif
