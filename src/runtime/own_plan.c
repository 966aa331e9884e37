/*
 * own_plan.c: creates sessions that compile and own their plan. The plan is freed after both the session and its
 * engine, because a worker whose kernel does not return outlives the session and reads the plan afterward.
 */
#include "core/error.h"
#include "runtime/session.h"

static bg_status create(bg_plan *plan, bg_weights *weights, bg_session **out, bg_error *error)
{
    const bg_status status = bg_session_create(plan, weights, out, error);

    if (status != BG_OK) {
        bg_plan_destroy(plan);
        return status;
    }
    bgi_plan_keep(plan);
    (*out)->own_plan = plan;
    (*out)->engine->own_plan = plan;
    return BG_OK;
}

bg_status bg_session_create_training(const bg_graph *graph, bg_value loss, const bg_optimizer *optimizer,
                                     const bg_options *options, bg_weights *weights, bg_session **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_options defaults = bg_options_defaults();
    bg_plan *plan = NULL;

    *out = NULL;
    BGI_TRY(bg_plan_create_training(graph, loss, optimizer, options != NULL ? options : &defaults, &plan, error));
    return create(plan, weights, out, error);
}

bg_status bg_session_create_inference(const bg_graph *graph, const bg_options *options, bg_weights *weights,
                                      bg_session **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_options defaults = bg_options_defaults();
    bg_plan *plan = NULL;

    *out = NULL;
    BGI_TRY(bg_plan_create_inference(graph, options != NULL ? options : &defaults, &plan, error));
    return create(plan, weights, out, error);
}
