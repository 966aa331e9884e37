/*
 * verify.c: proves a schedule and finds how many slots each edge needs. It knows no strategy, so lists from generators,
 * from files and from damaged copies are checked in the same way.
 *
 *     check.c: each device by itself; buffers.c: its remote buffers
 *     execute with as many slots as micro-batches: does it deadlock at all?
 *     depths: of an edge on one device, what its list holds at once;
 *             of an edge between devices, the larger of
 *                 what the receiver's list holds at once between RECEIVE and last reader, and send_ahead more
 *                 what is under way at once in the lockstep picture (matters for edges that skip stages; with
 *                 send_ahead 0 memory counts for more than pace, and this is left out)
 *     execute two steps with those depths, and record the times of the first step;
 *             if all devices wait for slots, the edge for which the lowest device waits gets another slot
 *
 * For a strict problem both executions run one action at a time. The second one follows the order of the first, which
 * becomes the schedule's turns.
 *
 * An action that can run with few slots can run with more. So a schedule that passes the first execution also passes
 * the last one, and raising a depth does not invalidate the actions executed before.
 */
#include "schedule/verify.h"

#include "core/error.h"
#include "schedule/buffers.h"
#include "schedule/steps.h"

#include <stdlib.h>

static uint32_t find_depth(const bgi_schedule_facts *facts, const uint32_t *steps, uint32_t index)
{
    const bgi_schedule_layout *layout = &facts->layout;
    const bgi_schedule_edge_rows *edge = &layout->edges[index];
    const bgi_schedule_row *from = &layout->rows[edge->from], *last = &layout->rows[edge->last];
    const uint32_t first = edge->crosses ? layout->rows[edge->receive].first : from->first;
    const uint32_t held =
        bgi_schedule_count_overlap(&facts->positions[first], &facts->positions[last->first], from->count);
    uint64_t depth = held;

    if (edge->crosses)
        depth += layout->problem->send_ahead;
    if (edge->crosses && layout->problem->send_ahead > 0 && bgi_schedule_row_has_steps(from)) {
        const uint32_t under_way = bgi_schedule_count_overlap(&steps[from->first], &steps[last->first], from->count);
        depth = under_way > depth ? under_way : depth;
    }
    return depth < from->count ? (uint32_t)depth : from->count;
}

static uint32_t find_in_flight(const bgi_schedule_facts *facts, uint32_t stage)
{
    const bgi_schedule_layout *layout = &facts->layout;
    const bgi_schedule_row *forward = &layout->rows[bgi_schedule_layout_row(layout, BG_ACTION_FORWARD, stage, 0)];
    const bgi_schedule_row *backward = &layout->rows[bgi_schedule_layout_row(layout, BG_ACTION_BACKWARD, stage, 0)];

    if (backward->count == 0)
        return 1;
    return bgi_schedule_count_overlap(&facts->positions[forward->first], &facts->positions[backward->first],
                                      forward->count);
}

static bg_status allocate(bgi_schedule_facts *facts, const bg_schedule *schedule, bg_error *error)
{
    const bg_schedule_problem *problem = facts->layout.problem;
    const size_t total = bgi_schedule_total(schedule);

    facts->positions = bgi_arena_allocate(&facts->arena, facts->layout.instance_count, sizeof *facts->positions);
    facts->depths = bgi_arena_allocate(&facts->arena, problem->edge_count, sizeof *facts->depths);
    facts->in_flight = bgi_arena_allocate(&facts->arena, problem->stage_count, sizeof *facts->in_flight);
    facts->records = bgi_arena_allocate(&facts->arena, total, sizeof *facts->records);
    facts->buffer_depths = bgi_arena_allocate(&facts->arena, problem->buffer_count, sizeof *facts->buffer_depths);
    if (facts->positions == NULL || facts->depths == NULL || facts->in_flight == NULL || facts->records == NULL ||
        facts->buffer_depths == NULL)
        return bgi_error_memory(error, "verifying a schedule", total * sizeof *facts->records);
    if (!problem->is_strict)
        return BG_OK;
    facts->turns = bgi_arena_allocate(&facts->arena, total, sizeof *facts->turns);
    return facts->turns != NULL ? BG_OK : bgi_error_memory(error, "turns", total * sizeof *facts->turns);
}

/* Executes two steps with the depths found, which usually complete, and records the times of the first step. If the two
 * steps do not complete, executes them with more slots, and then one step for the times. */
static bg_status prove_two_steps(bgi_schedule_facts *facts, bgi_schedule_run *run, bg_error *error)
{
    bg_status status;

    run->step_count = 2;
    run->is_timed = true;
    status = bgi_schedule_execute(run, NULL);
    if (status == BG_ERROR_INVALID) {
        run->is_timed = false;
        run->may_deepen = true;
        run->records = NULL;
        BGI_TRY(bgi_schedule_execute(run, error));
        run->step_count = 1;
        run->is_timed = true;
        run->may_deepen = false;
        run->records = facts->records;
        status = bgi_schedule_execute(run, NULL);
    }
    facts->record_count = run->record_count;
    if (status == BG_ERROR_CANCELED)
        return bgi_schedule_check_stop(facts->layout.problem, error);
    return status == BG_OK ? BG_OK : bgi_error_memory(error, "the times of messages", 0);
}

static bg_status find_facts(bgi_schedule_facts *facts, const bg_schedule *schedule, bg_error *error)
{
    const bgi_schedule_layout *layout = &facts->layout;
    const bg_schedule_problem *problem = layout->problem;
    uint32_t *steps = bgi_arena_allocate(&facts->arena, layout->instance_count, sizeof *steps);
    bgi_schedule_run run = {
        .schedule = schedule, .layout = layout, .step_count = 1, .depths = facts->depths, .records = facts->records};

    if (steps == NULL)
        return bgi_error_memory(error, "verifying a schedule", layout->instance_count * sizeof *steps);
    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        facts->depths[edge] = layout->rows[layout->edges[edge].from].count;
    BGI_TRY(bgi_schedule_execute(&run, error));
    facts->record_count = run.record_count;
    BGI_TRY(bgi_schedule_steps(layout, schedule, facts->records, facts->record_count, BGI_PICTURE_SINGLE, true, steps,
                               error));
    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        facts->depths[edge] = find_depth(facts, steps, edge);
    for (uint32_t stage = 0; stage < problem->stage_count; stage++)
        facts->in_flight[stage] = find_in_flight(facts, stage);
    for (size_t i = 0; facts->turns != NULL && i < facts->record_count; i++)
        facts->turns[i] = facts->records[i].device;
    run.turns = facts->turns;
    return prove_two_steps(facts, &run, error);
}

bg_status bgi_schedule_facts_init(bgi_schedule_facts *facts, const bg_schedule *schedule,
                                  const bg_schedule_problem *problem, bg_error *error)
{
    bg_status status;

    *facts = (bgi_schedule_facts){0};
    if (schedule == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the schedule is NULL");
    BGI_TRY(bgi_schedule_problem_check(problem, error));
    BGI_TRY(bgi_schedule_layout_init(&facts->layout, problem, error));
    BGI_TRY_CLEANUP(allocate(facts, schedule, error));
    BGI_TRY_CLEANUP(bgi_schedule_check(&facts->layout, schedule, facts->positions, error));
    BGI_TRY_CLEANUP(
        bgi_schedule_check_buffers(&facts->layout, schedule, facts->positions, facts->buffer_depths, error));
    BGI_TRY_CLEANUP(find_facts(facts, schedule, error));
    return BG_OK;

cleanup:
    bgi_schedule_facts_clear(facts);
    return status;
}

void bgi_schedule_facts_clear(bgi_schedule_facts *facts)
{
    bgi_schedule_layout_clear(&facts->layout);
    bgi_arena_clear(&facts->arena);
    *facts = (bgi_schedule_facts){0};
}

static uint32_t *copy_numbers(const uint32_t *numbers, uint32_t count)
{
    uint32_t *copy = calloc(count == 0 ? 1 : count, sizeof *copy);

    for (uint32_t i = 0; copy != NULL && i < count; i++)
        copy[i] = numbers[i];
    return copy;
}

bg_status bgi_schedule_prove(bg_schedule *schedule, const bg_schedule_problem *problem, bgi_schedule_facts *facts,
                             bg_error *error)
{
    uint32_t *depths, *in_flight, *buffer_depths, *turns = NULL;

    BGI_TRY(bgi_schedule_facts_init(facts, schedule, problem, error));
    depths = copy_numbers(facts->depths, problem->edge_count);
    in_flight = copy_numbers(facts->in_flight, problem->stage_count);
    buffer_depths = copy_numbers(facts->buffer_depths, problem->buffer_count);
    if (facts->turns != NULL)
        turns = copy_numbers(facts->turns, (uint32_t)facts->record_count);
    if (depths == NULL || in_flight == NULL || buffer_depths == NULL || (facts->turns != NULL && turns == NULL)) {
        free(turns);
        free(buffer_depths);
        free(depths);
        free(in_flight);
        bgi_schedule_facts_clear(facts);
        return bgi_error_memory(error, "slot depths", problem->edge_count * sizeof *depths);
    }
    free(schedule->turns);
    free(schedule->edge_depths);
    free(schedule->stage_in_flight);
    free(schedule->buffer_depths);
    schedule->turns = turns;
    schedule->buffer_depths = buffer_depths;
    schedule->buffer_count = problem->buffer_count;
    schedule->edge_depths = depths;
    schedule->edge_count = problem->edge_count;
    schedule->stage_in_flight = in_flight;
    schedule->stage_count = problem->stage_count;
    return BG_OK;
}

bg_status bg_schedule_verify(bg_schedule *schedule, const bg_schedule_problem *problem, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(schedule, "schedule", __func__, error));
    BGI_TRY(bgi_require(problem, "problem", __func__, error));

    bgi_schedule_facts facts;

    BGI_TRY(bgi_schedule_prove(schedule, problem, &facts, error));
    bgi_schedule_facts_clear(&facts);
    return BG_OK;
}
