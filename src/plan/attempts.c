/*
 * attempts.c: compiles a request, and compiles it again with other automatic stages while the plan exceeds its budgets.
 * Log messages of an attempt are held until one attempt is chosen.
 */
#include "plan/attempts.h"

#include "core/error.h"
#include "plan/automatic.h"
#include "plan/log.h"
#include "plan/passes.h"

/* ---- the log ---- */

/* Log messages of an attempt. */
typedef struct held_log {
    bgi_arena arena;
    struct held_text {
        bg_log_level level;
        const char *text;
        struct held_text *next;
    } * texts, **end;
    bg_log_function log; /* the plan's own log function, while hold_message replaces it */
    void *user;
    const char *log_dir;
} held_log;

static void hold_message(void *user, bg_log_level level, const char *text)
{
    held_log *held = user;
    struct held_text *added = bgi_arena_allocate(&held->arena, 1, sizeof *added);

    if (added == NULL)
        return;
    added->level = level;
    added->text = bgi_arena_string(&held->arena, text);
    *held->end = added;
    held->end = &added->next;
}

static void hold_log(held_log *held, bg_plan *plan)
{
    bgi_arena_clear(&held->arena);
    *held = (held_log){.log = plan->options.reporting.log,
                       .user = plan->options.reporting.log_user,
                       .log_dir = plan->options.files.log_dir};
    held->end = &held->texts;
    if (!bgi_log_is_enabled(&plan->options))
        return;
    /* Passes over the graph log only through options.reporting.log; their messages reach the file when they are
     * released. */
    plan->options.reporting.log = hold_message;
    plan->options.reporting.log_user = held;
    plan->options.files.log_dir = NULL;
}

static void release_log(held_log *held, bg_plan *plan)
{
    plan->options.reporting.log = held->log;
    plan->options.reporting.log_user = held->user;
    plan->options.files.log_dir = held->log_dir;
    for (const struct held_text *text = held->texts; text != NULL; text = text->next)
        if (text->text != NULL)
            bgi_log(&plan->options, text->level, text->text);
    bgi_arena_clear(&held->arena);
}

/* ---- attempts ---- */

static bg_status lower(bgi_compiler *trial, bg_error *error)
{
    return bgi_passes_run(trial, BGI_PASSES_LOWER, error);
}

static bg_status compile_once(const bgi_request *request, bg_plan *plan, bgi_cuts *cuts, bg_error *error)
{
    bgi_compiler compiler = {.plan = plan,
                             .scratch = {.allocator = plan->arena.allocator},
                             .lower = lower,
                             .source = request->graph,
                             .loss = request->loss,
                             .loop = request->loop,
                             .cuts = cuts};
    bg_status status = bgi_passes_run(&compiler, BGI_PASSES_FRONT, error);

    if (status == BG_OK)
        status = bgi_passes_run(&compiler, BGI_PASSES_LOWER, error);
    if (status == BG_OK)
        status = bgi_passes_run(&compiler, BGI_PASSES_FINISH, error);
    bg_graph_destroy(compiler.graph);
    if (compiler.scheduling != NULL)
        bg_schedule_destroy(compiler.scheduling->found);
    if (compiler.stages != NULL)
        bgi_stages_clear(compiler.stages);
    if (compiler.partition != NULL)
        bgi_partition_clear(compiler.partition);
    bgi_arena_clear(&compiler.scratch);
    return status;
}

/* Returns the error that says most about plans that do not fit. A refusal before the first plan was placed holds for
 * every cut. */
static const bg_error *find_cause(const bgi_cuts *cuts, const bg_error *newest)
{
    return cuts->tries == 0 ? newest : cuts->bound_error.status != BG_OK ? &cuts->bound_error : &cuts->first_error;
}

bg_status bgi_attempt_plans(const bgi_request *request, bgi_cache *cache, bg_plan **plan, bg_error *error)
{
    held_log logs[2] = {{.texts = NULL}}, *held = &logs[0]; /* the logs of the first and the newest attempt */
    bgi_cuts cuts = {.first = NULL};
    bg_error reason = {0};
    bg_status status;

    for (;; held = &logs[1]) {
        bgi_cache_record_log(cache, *plan);
        hold_log(held, *plan);
        bg_error_clear(&reason);
        status = compile_once(request, *plan, &cuts, &reason);
        if (status == BG_ERROR_BUDGET && cuts.first_error.status == BG_OK)
            cuts.first_error = reason;
        if (status != BG_ERROR_BUDGET || !bgi_cuts_record_overrun(&cuts, *plan))
            break;
        BGI_TRY_CLEANUP(bgi_plan_restart(request, plan, &reason));
    }
    logs[0].log_dir = held->log_dir; /* the first attempt's folder was destroyed with its plan */
    release_log(status == BG_OK ? held : &logs[0], *plan);
cleanup:
    if (status != BG_OK && error != NULL && error->status == BG_OK)
        *error = status == BG_ERROR_BUDGET ? *find_cause(&cuts, &reason) : reason;
    bgi_arena_clear(&logs[0].arena);
    bgi_arena_clear(&logs[1].arena);
    bgi_cuts_clear(&cuts);
    return status;
}
