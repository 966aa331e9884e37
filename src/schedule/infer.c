/*
 * infer.c: infers the problem that lists of actions solve, for schedules that come only from a file. It assumes a plain
 * chain for facts that lists do not show (sizes, costs, edges that skip stages). The inferred problem is not proven;
 * the verifier then reports errors in the lists.
 */
#include "schedule/schedule.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct census {
    uint64_t action_count;
    uint32_t stage_count, micro_batch_count, level_count;
    bool has_backward, has_weights, has_update, has_reduce, has_host;
} census;

static void count_action(census *all, const bg_action *action)
{
    all->action_count++;
    if (action->stage >= all->stage_count)
        all->stage_count = action->stage < UINT32_MAX ? action->stage + 1 : UINT32_MAX;
    if (action->micro_batch >= all->micro_batch_count)
        all->micro_batch_count = action->micro_batch < UINT32_MAX ? action->micro_batch + 1 : UINT32_MAX;
    if (action->kind == BG_ACTION_UPDATE && action->index >= all->level_count)
        all->level_count = action->index < UINT32_MAX ? action->index + 1 : UINT32_MAX;
    all->has_backward |= action->kind == BG_ACTION_BACKWARD;
    all->has_weights |= action->kind == BG_ACTION_WEIGHTS;
    all->has_update |= action->kind == BG_ACTION_UPDATE;
    all->has_reduce |= action->kind == BG_ACTION_REDUCE;
    all->has_host |= action->kind == BG_ACTION_HOST_IN || action->kind == BG_ACTION_HOST_OUT;
}

/* Rejects lists with fewer actions than stages x micro-batches, because each stage has an F for each micro-batch. So
 * memory stays proportional to the lists. */
static bg_status check_census(const census *all, bg_error *error)
{
    if (all->action_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the schedule has no actions, so no problem can be inferred from it");
    if ((uint64_t)all->stage_count * all->micro_batch_count > all->action_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the schedule names stage %" PRIu32 " and micro-batch %" PRIu32
                            ", which needs at least %" PRIu64 " actions, but it has %" PRIu64
                            "; each stage runs each micro-batch once",
                            all->stage_count - 1, all->micro_batch_count - 1,
                            (uint64_t)all->stage_count * all->micro_batch_count, all->action_count);
    if (all->level_count > all->action_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the schedule names update level %" PRIu32 ", but has only %" PRIu64 " actions",
                            all->level_count - 1, all->action_count);
    return BG_OK;
}

/* Finds the device of each stage, which is that of its first compute action; the verifier reports any other device. If
 * the arrays are not NULL, also finds which stages have HOST_IN and HOST_OUT. */
static void find_places(const bg_schedule *schedule, uint32_t *stage_devices, bool *is_placed, bool *host_in,
                        bool *host_out)
{
    for (uint32_t device = 0; device < schedule->device_count; device++)
        for (size_t i = 0; i < schedule->lists[device].count; i++) {
            const bg_action *action = &schedule->lists[device].actions[i];
            if (action->kind <= BG_ACTION_UPDATE && !is_placed[action->stage]) {
                stage_devices[action->stage] = device;
                is_placed[action->stage] = true;
            }
            if (host_in != NULL && action->kind == BG_ACTION_HOST_IN)
                host_in[action->stage] = true;
            if (host_out != NULL && action->kind == BG_ACTION_HOST_OUT)
                host_out[action->stage] = true;
        }
}

bg_status bg_schedule_problem_infer(const bg_schedule *schedule, size_t edge_bytes, bg_schedule_problem *out,
                                    bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(schedule, "schedule", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_schedule_problem problem;
    bg_schedule_edge *edges = NULL;
    census all = {0};
    bool *is_placed, *host_in = NULL, *host_out = NULL;
    uint32_t *stage_devices;
    bg_status status = BG_OK;

    for (uint32_t device = 0; device < schedule->device_count; device++)
        for (size_t i = 0; i < schedule->lists[device].count; i++)
            count_action(&all, &schedule->lists[device].actions[i]);
    BGI_TRY(check_census(&all, error));
    stage_devices = calloc(all.stage_count, sizeof *stage_devices);
    is_placed = calloc(all.stage_count, sizeof *is_placed);
    if (all.has_host) {
        host_in = calloc(all.stage_count, sizeof *host_in);
        host_out = calloc(all.stage_count, sizeof *host_out);
    }
    problem = bg_schedule_problem_defaults();
    problem.stage_devices = stage_devices;
    problem.stage_host_in = host_in;
    problem.stage_host_out = host_out;
    if (stage_devices == NULL || is_placed == NULL || (all.has_host && (host_in == NULL || host_out == NULL)))
        BGI_TRY_CLEANUP(bgi_error_memory(error, "the stages of a schedule", all.stage_count * sizeof *stage_devices));
    find_places(schedule, stage_devices, is_placed, host_in, host_out);
    problem.stage_count = all.stage_count;
    problem.device_count = schedule->device_count;
    problem.micro_batch_count = all.micro_batch_count;
    problem.training = all.has_backward || all.has_weights || all.has_update || all.has_reduce;
    problem.splits_weights = all.has_weights;
    problem.reduces_gradients = all.has_reduce;
    problem.update_level_count = all.level_count > 0 ? all.level_count : 1;
    BGI_TRY_CLEANUP(bg_schedule_problem_chain(&problem, edge_bytes, &edges, error));
    BGI_TRY_CLEANUP(bgi_schedule_problem_check(&problem, error));
    *out = problem;

cleanup:
    free(is_placed);
    if (status != BG_OK)
        bg_schedule_problem_free(&problem);
    return status;
}

void bg_schedule_problem_free(bg_schedule_problem *problem)
{
    /* bg_schedule_problem_infer allocated these arrays, so casting const away is safe. */
    free((void *)problem->edges);
    free((void *)problem->stage_host_out);
    free((void *)problem->stage_host_in);
    free((void *)problem->stage_devices);
    *problem = bg_schedule_problem_defaults();
}
