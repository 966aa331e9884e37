/*
 * compile.c: compiles a user's graph into an executable plan.
 *
 *   request --> options checked --> begun plan --+-- cache --------------> plan
 *                                                +-- attempts, passes --> plan --> cache
 *
 * The passes are listed in a table (passes.def). Nothing here depends on a particular model or op. Fusion happens
 * before stages are known, so that every strategy does the same arithmetic and gives bit-identical results. Products
 * are fused right before memory is laid out, also in trials; this does not change results.
 */
#include "plan/compile.h"

#include <stdio.h>

#include "core/clock.h"
#include "core/error.h"
#include "plan/attempts.h"
#include "plan/log.h"
#include "plan/op_types.h"
#include "plan/passes.h"

/* Loads the plan from the cache, or compiles it and stores it there. bgi_plan_begin made *plan; it may be replaced, and
 * is NULL when the replacement fails. */
static bg_status complete_plan(const bgi_request *request, bgi_cache *cache, bg_plan **plan, bg_error *error)
{
    (*plan)->summary.is_cached = bgi_cache_load(cache, *plan);
    if ((*plan)->summary.is_cached)
        return BG_OK;
    if (cache->path != NULL) /* a damaged file may have been loaded partly */
        BGI_TRY(bgi_plan_restart(request, plan, error));
    BGI_TRY(bgi_attempt_plans(request, cache, plan, error));
    bgi_cache_store(cache, *plan);
    return BG_OK;
}

/* Compiles the condition of a while loop, as a body that runs once, so that the condition keeps all its inputs. */
static bg_status compile_condition(const bgi_request *request, bg_plan *plan, bg_error *error)
{
    const bg_loop once = {.iterations = 1};
    bg_options options = bg_options_defaults();

    if (request->loop == NULL || request->loop->condition == NULL)
        return BG_OK;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.numerics.kernels = plan->options.numerics.kernels;
    options.numerics.seed = plan->options.numerics.seed;
    return bg_plan_create_loop(request->loop->condition, &once, &options, &plan->condition, error);
}

/* Whether all ops are in the table of the library's ops. The op of a loop inside a graph is not, because the loop's
 * body may have any op. */
static bool has_library_ops_only(const bg_graph *graph)
{
    for (uint32_t o = 0; o < graph->op_count; o++)
        if (bgi_op_type_find(graph->ops[o].type->name) != graph->ops[o].type)
            return false;
    return true;
}

static void log_compile_time(const bg_plan *plan)
{
    char text[64];

    snprintf(text, sizeof text, "plan: %s in %.1f ms", plan->summary.is_cached ? "loaded from cache" : "compiled",
             plan->summary.compile_ms);
    bgi_log(&plan->options, BG_LOG_INFO, text);
}

/* Returns the options, with automatic loss scaling turned on if the precision needs a loss scale and the options set
 * none. */
static bg_options complete_options(const bgi_request *request)
{
    bg_options options = *request->options;

    if (request->training && options.numerics.precision == BG_PRECISION_16_MIXED &&
        options.numerics.loss_scaling == 1.0)
        options.numerics.auto_loss_scaling.enabled = true;
    return options;
}

static bg_status create_from(const bgi_request *request, bg_plan **out, bg_error *error)
{
    const uint64_t start_ns = bgi_clock_ns();
    bg_plan *plan = NULL;
    bgi_cache cache;
    bg_status status;

    BGI_TRY(bgi_options_validate(request->options, request->training, error));
    if (request->optimizer != NULL)
        BGI_TRY(bg_optimizer_validate(request->optimizer, error));
    BGI_TRY(bgi_passes_check_dump(request->options, error));
    BGI_TRY(bgi_log_begin(request->options, error));
    BGI_TRY(bgi_cache_begin(&cache, request, error));
    BGI_TRY_CLEANUP(bgi_plan_begin(request, &plan, error));
    BGI_TRY_CLEANUP(compile_condition(request, plan, error));
    BGI_TRY_CLEANUP(complete_plan(request, &cache, &plan, error));
cleanup:
    bgi_cache_end(&cache);
    if (status != BG_OK) {
        bg_plan_destroy(plan);
        return status;
    }
    plan->has_library_ops_only = has_library_ops_only(request->graph) &&
                                 (plan->condition == NULL || plan->condition->has_library_ops_only) &&
                                 (request->optimizer == NULL || request->optimizer->kind != BG_CUSTOM);
    plan->summary.compile_ms = (double)(bgi_clock_ns() - start_ns) / 1e6;
    log_compile_time(plan);
    status = bgi_log_plan(plan, error);
    if (status != BG_OK) {
        bg_plan_destroy(plan);
        return status;
    }
    plan->options.execution.stop = plan->problem.stop = NULL;
    plan->options.execution.stop_user = plan->problem.stop_user = NULL;
    *out = plan;
    return BG_OK;
}

static bg_status create_plan(const bgi_request *request, bg_plan **out, bg_error *error)
{
    bgi_request own = *request;
    bg_options options;

    BGI_TRY(bgi_options_validate(request->options, request->training, error));
    options = complete_options(request);
    own.options = &options;
    return create_from(&own, out, error);
}

bg_status bg_plan_create_training(const bg_graph *graph, bg_value loss, const bg_optimizer *optimizer,
                                  const bg_options *options, bg_plan **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (graph == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the plan has no graph");
    if (bg_graph_check(graph, error) != BG_OK)
        return bg_graph_check(graph, NULL);
    if (bg_value_is_null(loss) || loss.id >= graph->value_count)
        return bg_error_set(error, BG_ERROR_INVALID, "the loss is not a value of the graph");
    if (optimizer == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "training needs an optimizer: bg_sgd(0.01), bg_adamw(0.001), ...");
    return create_plan(
        &(bgi_request){.graph = graph, .training = true, .loss = loss, .optimizer = optimizer, .options = options}, out,
        error);
}

bg_status bg_plan_create_inference(const bg_graph *graph, const bg_options *options, bg_plan **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (graph == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the plan has no graph");
    return create_plan(&(bgi_request){.graph = graph, .options = options}, out, error);
}

bg_status bg_plan_create_loop(const bg_graph *body, const bg_loop *loop, const bg_options *options, bg_plan **out,
                              bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_options own;

    if (body == NULL || loop == NULL || options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the loop has no %s",
                            body == NULL   ? "a body"
                            : loop == NULL ? "a description"
                                           : "options");
    BGI_TRY(bgi_struct_check(loop->struct_bytes, sizeof *loop, "bg_loop", NULL, error));
    if (loop->carried_count > BG_LOOP_MOST_CARRIED)
        return bg_error_set(error, BG_ERROR_INVALID, "the loop has %u carried values; it can have at most %d",
                            loop->carried_count, BG_LOOP_MOST_CARRIED);
    if (loop->iterations >= UINT32_MAX && loop->iterations != UINT64_MAX)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the loop has %llu iterations; it must have fewer than 2^32, or be endless",
                            (unsigned long long)loop->iterations);
    if (options->execution.device_iterations != 1)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "device_iterations is %u; it must be 1, because the loop determines how often its body runs",
            options->execution.device_iterations);
    own = *options;
    if (loop->iterations > 1 && loop->iterations != UINT64_MAX)
        own.execution.device_iterations = (uint32_t)loop->iterations;
    return create_plan(&(bgi_request){.graph = body, .loop = loop, .options = &own}, out, error);
}
