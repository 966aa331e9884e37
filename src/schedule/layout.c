/*
 * layout.c: numbers the actions of a problem. It does not order the actions.
 */
#include "schedule/layout.h"

#include "core/error.h"

/* The kinds in the order of bgi_schedule_layout_row. */
static const bg_action_kind block_kinds[BGI_BLOCK_UPDATE] = {BG_ACTION_FORWARD, BG_ACTION_RECOMPUTE, BG_ACTION_BACKWARD,
                                                             BG_ACTION_WEIGHTS, BG_ACTION_HOST_IN,   BG_ACTION_HOST_OUT,
                                                             BG_ACTION_REDUCE,  BG_ACTION_GATHER};

static uint32_t count_levels(const bg_schedule_problem *problem)
{
    return problem->training ? problem->update_level_count : 0;
}

static uint32_t first_send_row(const bg_schedule_problem *problem)
{
    return (BGI_BLOCK_UPDATE + count_levels(problem)) * problem->stage_count;
}

/* Returns the number of instances of a kind on a stage in a step. */
static uint32_t count_instances(const bg_schedule_problem *problem, bg_action_kind kind, uint32_t stage)
{
    bool exists = false;

    switch (kind) {
    case BG_ACTION_FORWARD:
        exists = true;
        break;
    case BG_ACTION_RECOMPUTE:
        exists = bgi_schedule_stage_recomputes(problem, stage);
        break;
    case BG_ACTION_BACKWARD:
        exists = problem->training;
        break;
    case BG_ACTION_WEIGHTS:
        exists = problem->training && problem->splits_weights;
        break;
    case BG_ACTION_HOST_IN:
        exists = bgi_schedule_stage_has_host_in(problem, stage);
        break;
    case BG_ACTION_HOST_OUT:
        exists = bgi_schedule_stage_has_host_out(problem, stage);
        break;
    case BG_ACTION_REDUCE:
        return problem->training && problem->reduces_gradients ? 1 : 0;
    case BG_ACTION_GATHER:
        return bgi_schedule_stage_gathers(problem, stage) ? 1 : 0;
    default:
        break;
    }
    return exists ? problem->micro_batch_count : 0;
}

static void add_row(bgi_schedule_layout *layout, uint32_t *at, bg_action_kind kind, uint32_t stage, uint32_t index,
                    uint32_t count)
{
    layout->rows[(*at)++] = (bgi_schedule_row){.kind = kind,
                                               .stage = stage,
                                               .index = index,
                                               .device = layout->problem->stage_devices[stage],
                                               .count = count,
                                               .first = layout->instance_count};
    layout->instance_count += count;
}

static void add_rows(bgi_schedule_layout *layout)
{
    const bg_schedule_problem *problem = layout->problem;
    const uint32_t stages = problem->stage_count, micro_batches = problem->micro_batch_count;
    uint32_t at = 0;

    for (uint32_t block = 0; block < BGI_BLOCK_UPDATE; block++)
        for (uint32_t stage = 0; stage < stages; stage++)
            add_row(layout, &at, block_kinds[block], stage, 0, count_instances(problem, block_kinds[block], stage));
    for (uint32_t level = 0; level < count_levels(problem); level++)
        for (uint32_t stage = 0; stage < stages; stage++)
            add_row(layout, &at, BG_ACTION_UPDATE, stage, level, 1);
    for (uint32_t end = 0; end < 2; end++)
        for (uint32_t edge = 0; edge < problem->edge_count; edge++) {
            const bg_schedule_edge *e = &problem->edges[edge];
            const bool crosses = problem->stage_devices[e->from_stage] != problem->stage_devices[e->to_stage];
            const uint32_t count = e->from_kind == BG_ACTION_UPDATE ? 1 : micro_batches;
            add_row(layout, &at, end == 0 ? BG_ACTION_SEND : BG_ACTION_RECEIVE, end == 0 ? e->from_stage : e->to_stage,
                    edge, crosses ? count : 0);
        }
}

static void add_edges(bgi_schedule_layout *layout)
{
    const bg_schedule_problem *problem = layout->problem;

    for (uint32_t i = 0; i < problem->edge_count; i++) {
        const bg_schedule_edge *edge = &problem->edges[i];
        bgi_schedule_edge_rows *rows = &layout->edges[i];
        rows->from = bgi_schedule_layout_row(layout, edge->from_kind, edge->from_stage, edge->from_level);
        rows->to = bgi_schedule_layout_row(layout, edge->to_kind, edge->to_stage, edge->to_level);
        rows->last = bgi_schedule_layout_row(layout, edge->last_kind, edge->to_stage, edge->to_level);
        rows->send = first_send_row(problem) + i;
        rows->receive = rows->send + problem->edge_count;
        rows->crosses = layout->rows[rows->from].device != layout->rows[rows->to].device;
    }
}

static uint32_t edge_end(const bgi_schedule_edge_rows *edge, int end)
{
    return end == 0 ? edge->from : end == 1 ? edge->to : edge->last;
}

/* Sorts the edges by the row of one end (0: producer, 1: first reader, 2: last reader), with a counting sort. */
static bg_status add_incidence(bgi_schedule_layout *layout, bgi_schedule_incidence *incidence, int end, bg_error *error)
{
    const uint32_t edge_count = layout->problem->edge_count;
    const size_t begins = (size_t)layout->row_count + 2;

    incidence->begin = bgi_arena_allocate(&layout->arena, begins, sizeof *incidence->begin);
    incidence->edges = bgi_arena_allocate(&layout->arena, edge_count, sizeof *incidence->edges);
    if (incidence->begin == NULL || incidence->edges == NULL)
        return bgi_error_memory(error, "the edges of actions", (begins + edge_count) * sizeof(uint32_t));
    /* The count of row r is stored in begin[r + 2]. After the sums, begin[r + 1] is the beginning of row r, and filling
     * moves it to the row's end. */
    for (uint32_t edge = 0; edge < edge_count; edge++)
        incidence->begin[edge_end(&layout->edges[edge], end) + 2]++;
    for (uint32_t row = 0; row < layout->row_count; row++)
        incidence->begin[row + 2] += incidence->begin[row + 1];
    for (uint32_t edge = 0; edge < edge_count; edge++)
        incidence->edges[incidence->begin[edge_end(&layout->edges[edge], end) + 1]++] = edge;
    return BG_OK;
}

/* Sorts buffers by device, with a counting sort as above. */
static bg_status add_buffers(bgi_schedule_layout *layout, bg_error *error)
{
    const bg_schedule_problem *problem = layout->problem;
    const size_t begins = (size_t)problem->device_count + 2;

    layout->buffers = bgi_arena_allocate(&layout->arena, problem->buffer_count, sizeof *layout->buffers);
    layout->buffer_begin = bgi_arena_allocate(&layout->arena, begins, sizeof *layout->buffer_begin);
    layout->edge_buffers = bgi_arena_allocate(&layout->arena, problem->edge_count, sizeof *layout->edge_buffers);
    if (layout->buffers == NULL || layout->buffer_begin == NULL || layout->edge_buffers == NULL)
        return bgi_error_memory(error, "remote buffers", problem->buffer_count * sizeof *layout->buffers);
    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        layout->edge_buffers[edge] = BGI_NO_BUFFER;
    for (uint32_t b = 0; b < problem->buffer_count; b++) {
        layout->buffer_begin[problem->stage_devices[problem->buffers[b].stage] + 2]++;
        if (problem->buffers[b].per_micro_batch)
            layout->edge_buffers[problem->buffers[b].edge] = b;
    }
    for (uint32_t device = 0; device < problem->device_count; device++)
        layout->buffer_begin[device + 2] += layout->buffer_begin[device + 1];
    for (uint32_t b = 0; b < problem->buffer_count; b++)
        layout->buffers[layout->buffer_begin[problem->stage_devices[problem->buffers[b].stage] + 1]++] = b;
    return BG_OK;
}

/* Lists the stages on the buffer's device whose actions may use the buffer, each once. Returns their number. */
static uint32_t list_users(const bg_schedule_problem *problem, const bg_schedule_buffer *buffer, uint32_t users[2])
{
    const bg_schedule_edge *edge = buffer->per_micro_batch ? &problem->edges[buffer->edge] : NULL;
    const uint32_t stages[2] = {edge != NULL ? edge->from_stage : buffer->stage,
                                edge != NULL ? edge->to_stage : buffer->stage};
    uint32_t count = 0;

    for (int i = 0; i < 2; i++)
        if (problem->stage_devices[stages[i]] == problem->stage_devices[buffer->stage] &&
            (count == 0 || users[0] != stages[i]))
            users[count++] = stages[i];
    return count;
}

/* Sorts buffers by the stages that list_users lists, with a counting sort. */
static bg_status add_stage_buffers(bgi_schedule_layout *layout, bg_error *error)
{
    const bg_schedule_problem *problem = layout->problem;
    const size_t begins = (size_t)problem->stage_count + 2;
    uint32_t users[2];

    layout->stage_buffers = bgi_arena_allocate(&layout->arena, 2 * (size_t)problem->buffer_count, sizeof(uint32_t));
    layout->stage_buffer_begin = bgi_arena_allocate(&layout->arena, begins, sizeof *layout->stage_buffer_begin);
    if (layout->stage_buffers == NULL || layout->stage_buffer_begin == NULL)
        return bgi_error_memory(error, "remote buffers", 2 * problem->buffer_count * sizeof(uint32_t));
    for (uint32_t b = 0; b < problem->buffer_count; b++)
        for (uint32_t i = list_users(problem, &problem->buffers[b], users); i-- > 0;)
            layout->stage_buffer_begin[users[i] + 2]++;
    for (uint32_t stage = 0; stage < problem->stage_count; stage++)
        layout->stage_buffer_begin[stage + 2] += layout->stage_buffer_begin[stage + 1];
    for (uint32_t b = 0; b < problem->buffer_count; b++)
        for (uint32_t i = list_users(problem, &problem->buffers[b], users); i-- > 0;)
            layout->stage_buffers[layout->stage_buffer_begin[users[i] + 1]++] = b;
    return BG_OK;
}

bg_status bgi_schedule_layout_init(bgi_schedule_layout *layout, const bg_schedule_problem *problem, bg_error *error)
{
    bg_status status = BG_OK;

    *layout = (bgi_schedule_layout){.problem = problem};
    layout->row_count = first_send_row(problem) + 2 * problem->edge_count;
    layout->rows = bgi_arena_allocate(&layout->arena, layout->row_count, sizeof *layout->rows);
    layout->edges = bgi_arena_allocate(&layout->arena, problem->edge_count, sizeof *layout->edges);
    if (layout->rows == NULL || layout->edges == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "the actions of a schedule", layout->row_count * sizeof *layout->rows));
    add_rows(layout);
    add_edges(layout);
    BGI_TRY_CLEANUP(add_incidence(layout, &layout->from, 0, error));
    BGI_TRY_CLEANUP(add_incidence(layout, &layout->to, 1, error));
    BGI_TRY_CLEANUP(add_incidence(layout, &layout->last, 2, error));
    BGI_TRY_CLEANUP(add_buffers(layout, error));
    BGI_TRY_CLEANUP(add_stage_buffers(layout, error));
    return BG_OK;

cleanup:
    bgi_schedule_layout_clear(layout);
    return status;
}

void bgi_schedule_layout_clear(bgi_schedule_layout *layout)
{
    bgi_arena_clear(&layout->arena);
    *layout = (bgi_schedule_layout){0};
}

bool bgi_schedule_layout_find(const bgi_schedule_layout *layout, const bg_action *action, uint32_t *out_row)
{
    const bg_schedule_problem *problem = layout->problem;
    uint32_t row;

    if (action->stage >= problem->stage_count)
        return false;
    switch (action->kind) {
    case BG_ACTION_FORWARD:
    case BG_ACTION_RECOMPUTE:
    case BG_ACTION_BACKWARD:
    case BG_ACTION_WEIGHTS:
    case BG_ACTION_HOST_IN:
    case BG_ACTION_HOST_OUT:
    case BG_ACTION_REDUCE:
    case BG_ACTION_GATHER:
        row = bgi_schedule_layout_row(layout, action->kind, action->stage, 0);
        break;
    case BG_ACTION_UPDATE:
        if (action->index >= count_levels(problem))
            return false;
        row = bgi_schedule_layout_row(layout, action->kind, action->stage, action->index);
        break;
    case BG_ACTION_SEND:
    case BG_ACTION_RECEIVE:
        if (action->index >= problem->edge_count)
            return false;
        row = action->kind == BG_ACTION_SEND ? layout->edges[action->index].send : layout->edges[action->index].receive;
        break;
    default:
        return false;
    }
    if (layout->rows[row].stage != action->stage || layout->rows[row].index != action->index ||
        action->micro_batch >= layout->rows[row].count)
        return false;
    *out_row = row;
    return true;
}

bg_action bgi_schedule_layout_action(const bgi_schedule_layout *layout, uint32_t row, uint32_t micro_batch)
{
    return (bg_action){.kind = layout->rows[row].kind,
                       .stage = layout->rows[row].stage,
                       .micro_batch = micro_batch,
                       .index = layout->rows[row].index};
}
