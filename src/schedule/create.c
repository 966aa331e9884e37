/*
 * create.c: makes a schedule from a problem. A generator orders the compute actions, complete.c adds messages and
 * transfers, and verify.c proves the result.
 */
#include "schedule/schedule.h"
#include "schedule/verify.h"

#include "core/error.h"

/* Rejects a strategy that is not strict, if the problem is; on one device every schedule is strict. */
static bg_status check_strict(const bg_schedule_problem *problem, const bg_schedule_generator *generator,
                              bg_error *error)
{
    if (!problem->is_strict || generator->one_at_a_time || problem->device_count == 1)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "strict: this schedule lets devices work at the same time, which strict forbids; choose "
                        "\"sharded\" or \"sequential\", or leave strict off");
}

bg_status bg_schedule_create(const bg_schedule_problem *problem, const bg_schedule_generator *generator,
                             bg_schedule **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(problem, "problem", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bgi_schedule_facts facts;

    BGI_TRY(bgi_schedule_create_proven(problem, generator, out, &facts, error));
    bgi_schedule_facts_clear(&facts);
    return BG_OK;
}

bg_status bgi_schedule_create_proven(const bg_schedule_problem *problem, const bg_schedule_generator *generator,
                                     bg_schedule **out, bgi_schedule_facts *out_facts, bg_error *error)
{
    bg_schedule *schedule = NULL;
    bg_status status;

    if (generator == NULL || generator->generate == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "generator is NULL; bg_schedule_generator_find knows \"interleaved\" and others");
    BGI_TRY(bgi_struct_check(generator->struct_bytes, sizeof *generator, "bg_schedule_generator", NULL, error));
    BGI_TRY_CLEANUP(bgi_schedule_problem_check(problem, error));
    BGI_TRY_CLEANUP(check_strict(problem, generator, error));
    BGI_TRY_CLEANUP(bgi_schedule_check_stop(problem, error));
    BGI_TRY_CLEANUP(bgi_schedule_create(problem->device_count, &schedule, error));
    schedule->stop = problem->stop;
    schedule->stop_user = problem->stop_user;
    BGI_TRY_CLEANUP(generator->generate(problem, schedule, error));
    BGI_TRY_CLEANUP(bgi_schedule_complete(schedule, problem, error));
    schedule->stop = NULL;
    BGI_TRY_CLEANUP(bgi_schedule_prove(schedule, problem, out_facts, error));
    *out = schedule;
    return BG_OK;

cleanup:
    bg_schedule_destroy(schedule);
    return bg_error_context(error, status, "%s schedule", generator->name != NULL ? generator->name : "unnamed");
}
