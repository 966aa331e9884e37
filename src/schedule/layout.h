/*
 * layout.h: numbers the actions of a problem, and lists the edges that begin and end at each.
 *
 * A row is a family of actions that differ only in the micro-batch. F, R, B, W, HOST_IN, HOST_OUT, REDUCE and GATHER
 * have a row for each stage, U for each stage and level, SEND and RECEIVE for each edge. A row has `count` instances:
 * one per micro-batch, one for REDUCE, GATHER, U and messages between updates, or none when the problem has no such
 * action. Instances of all rows are numbered consecutively. LOAD and STORE have no rows, because their number depends
 * on the order (buffers.c).
 */
#ifndef BGI_SCHEDULE_LAYOUT_H
#define BGI_SCHEDULE_LAYOUT_H

#include "core/arena.h"
#include "schedule/schedule.h"

#define BGI_NO_BUFFER UINT32_MAX

typedef struct bgi_schedule_row {
    bg_action_kind kind;
    uint32_t stage;
    uint32_t index;
    uint32_t device;
    uint32_t count;
    uint32_t first; /* the number of the row's first instance */
} bgi_schedule_row;

/* The edges of row r are edges[begin[r]] .. edges[begin[r + 1] - 1], ascending. */
typedef struct bgi_schedule_incidence {
    uint32_t *begin;
    uint32_t *edges;
} bgi_schedule_incidence;

typedef struct bgi_schedule_edge_rows {
    uint32_t from, to, last;
    uint32_t send, receive; /* rows without instances when the edge stays on one device */
    bool crosses;           /* the edge goes from one device to another */
} bgi_schedule_edge_rows;

typedef struct bgi_schedule_layout {
    const bg_schedule_problem *problem;
    bgi_schedule_row *rows;
    uint32_t row_count;
    uint32_t instance_count;
    bgi_schedule_edge_rows *edges;
    bgi_schedule_incidence from, to, last; /* edges by the row of their producer, first reader and last reader */
    uint32_t *buffers;                     /* numbers of the remote buffers, by the device of their stage */
    uint32_t *buffer_begin;       /* by device: the beginning of its buffers; with one more entry for the end */
    uint32_t *stage_buffers;      /* remote buffers by the stages whose actions may use them */
    uint32_t *stage_buffer_begin; /* by stage: the beginning of its buffers; with one more entry for the end */
    uint32_t *edge_buffers;       /* by edge: its buffer; or BGI_NO_BUFFER */
    bgi_arena arena;
} bgi_schedule_layout;

/* Numbers the actions of a problem, which must have passed bgi_schedule_problem_check. A zeroed layout is empty and may
 * be cleared. */
bg_status bgi_schedule_layout_init(bgi_schedule_layout *layout, const bg_schedule_problem *problem, bg_error *error);
void bgi_schedule_layout_clear(bgi_schedule_layout *layout);

/* Finds the row of an action; returns false for LOAD and STORE, and when the problem has no such action. */
bool bgi_schedule_layout_find(const bgi_schedule_layout *layout, const bg_action *action, uint32_t *out_row);

/* Returns the action of an instance of a row. */
bg_action bgi_schedule_layout_action(const bgi_schedule_layout *layout, uint32_t row, uint32_t micro_batch);

/* Rows by stage, in blocks of stage_count; then U by level and stage; then SEND and RECEIVE by edge. */
enum { BGI_BLOCK_UPDATE = 8 };

/* Returns the row of F (R, B, W, HOST_IN, HOST_OUT, REDUCE, GATHER) of a stage, or of a level of U. The numbers must be
 * in range. */
static inline uint32_t bgi_schedule_layout_row(const bgi_schedule_layout *layout, bg_action_kind kind, uint32_t stage,
                                               uint32_t level)
{
    static const uint8_t blocks[BG_ACTION_KIND_COUNT] = {
        [BG_ACTION_FORWARD] = 0, [BG_ACTION_RECOMPUTE] = 1, [BG_ACTION_BACKWARD] = 2,
        [BG_ACTION_WEIGHTS] = 3, [BG_ACTION_HOST_IN] = 4,   [BG_ACTION_HOST_OUT] = 5,
        [BG_ACTION_REDUCE] = 6,  [BG_ACTION_GATHER] = 7,    [BG_ACTION_UPDATE] = BGI_BLOCK_UPDATE};

    return (blocks[kind] + (kind == BG_ACTION_UPDATE ? level : 0)) * layout->problem->stage_count + stage;
}

/* Returns the row of an action that is known to be in the problem and is neither LOAD nor STORE. */
static inline uint32_t bgi_schedule_layout_known_row(const bgi_schedule_layout *layout, const bg_action *action)
{
    if (action->kind == BG_ACTION_SEND)
        return layout->edges[action->index].send;
    if (action->kind == BG_ACTION_RECEIVE)
        return layout->edges[action->index].receive;
    return bgi_schedule_layout_row(layout, action->kind, action->stage, action->index);
}

#endif
