/*
 * passes.c: runs the compiler's passes as passes.def lists them. The file knows the results that each pass needs and
 * makes, but not what the pass does.
 *
 *     pass --needs there?--> entry --> makes --verify--> --dump--> next pass
 *
 * A pass whose needs are missing is a defect of the table and ends the compilation with BG_ERROR_INTERNAL, in every
 * build. Builds with BGI_VERIFY_PASSES verify each result, and give a pass NULL for each result that its row does not
 * name.
 */
#include "plan/passes.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/transport.h>

#include "core/error.h"
#include "core/progress.h"
#include "core/text.h"
#include "plan/automatic.h"
#include "schedule/schedule.h"

/* The plans that a pass applies to. */
typedef enum pass_when {
    ALWAYS = 0,
    LOOP,
    NARROW,
    INFERENCE,
    QUANTIZED,
    TRAINING,
    FUSION,
    INFERENCE_FUSION,
    TRAINING_FUSION,
    AUTOMATIC,
    SEARCH
} pass_when;

typedef struct pass {
    const char *name, *what;
    bgi_pass_group group;
    pass_when when;
    uint32_t needs, makes; /* bits of bgi_result */
    bg_status (*run)(bgi_compiler *compiler, bg_error *error);
} pass;

enum {
#define RESULT(name) name = BGI_RESULT_##name
    RESULT(REQUESTS),
    RESULT(GRAPH),
    RESULT(SCHEDULING),
    RESULT(STAGES),
    RESULT(REPLICAS),
    RESULT(PARTITION),
    RESULT(STREAMS),
    RESULT(RESIDENCY),
    RESULT(EDGES),
    RESULT(SCHEDULE),
    RESULT(KERNELS),
    RESULT(PLACEMENT),
    RESULT(PROGRAMS),
    RESULT(LEAVES),
    RESULT(PLAN),
#undef RESULT
    LOWERED = GRAPH | STAGES | PARTITION,
    PLACED = LOWERED | RESIDENCY | EDGES | PLACEMENT,
    TRIED = REQUESTS | GRAPH | SCHEDULING | STAGES | REPLICAS
};

static const pass passes[] = {
#define PASS(name, group, when, needs, makes, entry, what) {#name, what, BGI_PASSES_##group, when, needs, makes, entry},
#include "plan/passes.def"
#undef PASS
};

enum { PASS_COUNT = sizeof passes / sizeof passes[0] };

const char *bg_plan_pass_at(uint32_t index, const char **out_what)
{
    if (index >= PASS_COUNT)
        return NULL;
    if (out_what != NULL)
        *out_what = passes[index].what;
    return passes[index].name;
}

/* The weights type `cast` has no effect in training, with options.files.memmap_dir, and with several ranks. */
static bool is_quantized(const bgi_compiler *c)
{
    const bg_options *options = &c->plan->options;
    const bg_transport *transport = options->execution.transport;

    if (options->numerics.weights_type != BG_WEIGHTS_CAST)
        return options->numerics.weights_type != BG_WEIGHTS_FLOAT;
    return !c->plan->training && options->files.memmap_dir == NULL && (transport == NULL || transport->rank_count == 1);
}

static bool applies(const bgi_compiler *c, pass_when when)
{
    const bg_options *options = &c->plan->options;

    switch (when) {
    case LOOP:
        return c->loop != NULL;
    case NARROW:
        return options->numerics.precision != BG_PRECISION_32;
    case INFERENCE:
        return c->loop == NULL && !c->plan->training;
    case QUANTIZED:
        return is_quantized(c);
    case TRAINING:
        return c->plan->training;
    case FUSION:
        return !options->numerics.no_fusion;
    case INFERENCE_FUSION:
        return c->loop == NULL && !c->plan->training && !options->numerics.no_fusion;
    case TRAINING_FUSION:
        return c->plan->training && !options->numerics.no_fusion;
    case AUTOMATIC:
        return options->execution.strategy != BG_STRATEGY_SINGLE && bgi_stages_are_automatic(options->execution.stages);
    case SEARCH:
        return strcmp(c->scheduling->generator->name, "auto") == 0;
    case ALWAYS:
        break;
    }
    return true;
}

/* ---- printing results ---- */

static void add_stages(bgi_string *text, const bgi_compiler *c)
{
    for (uint32_t s = 0; s < c->stages->stage_count; s++) {
        const char *separator = " ";
        bgi_string_add(text, "# stage %u on device %u:", s, c->stages->stage_devices[s]);
        for (size_t b = 0; b < c->graph->block_count; b++)
            if (c->stages->block_stages[b] == s) {
                bgi_string_add(text, "%s%s", separator,
                               b == 0 ? "(ops before the first block)" : c->graph->blocks[b].name);
                separator = ", ";
            }
        bgi_string_add(text, "\n");
    }
}

/* Prints the newest form of the model: programs, an order of actions, or a graph. */
static bg_status print_result(const bgi_compiler *c, char **out_text, bg_error *error)
{
    bgi_string text = {0};
    char *printed = NULL;
    bg_status status;

    if ((c->made & PROGRAMS) != 0)
        return bg_plan_print_program(c->plan, out_text, error);
    if ((c->made & SCHEDULE) != 0)
        return bg_schedule_print(c->plan->schedule, out_text, error);
    if ((c->made & STAGES) != 0)
        add_stages(&text, c);
    status = bg_graph_print(c->graph != NULL ? c->graph : c->source, &printed, error);
    if (status != BG_OK) {
        bgi_string_clear(&text);
        return status;
    }
    bgi_string_add(&text, "%s", printed);
    free(printed);
    if ((c->made & PARTITION) != 0)
        bgi_partition_print(c->partition, c->graph, &text);
    return bgi_string_finish(&text, out_text, error);
}

static bg_status dump(const bgi_compiler *c, const pass *after, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    char *text = NULL;

    if (c->is_trial || options->reporting.dump == NULL || options->reporting.dump_after == NULL ||
        (strcmp(options->reporting.dump_after, "all") != 0 && strcmp(options->reporting.dump_after, after->name) != 0))
        return BG_OK;
    BGI_TRY(print_result(c, &text, error));
    options->reporting.dump(options->reporting.dump_user, after->name, text);
    free(text);
    return BG_OK;
}

bg_status bgi_passes_check_dump(const bg_options *options, bg_error *error)
{
    bgi_string names = {0};
    bg_status status;

    if (options->reporting.dump_after == NULL || strcmp(options->reporting.dump_after, "all") == 0)
        return BG_OK;
    for (uint32_t i = 0; i < PASS_COUNT; i++) {
        if (strcmp(passes[i].name, options->reporting.dump_after) == 0) {
            bgi_string_clear(&names);
            return BG_OK;
        }
        bgi_string_add(&names, "%s%s", i == 0 ? "" : ", ", passes[i].name);
    }
    status = bg_error_set(error, BG_ERROR_NOT_FOUND, "dump_after is `%s`; it must be a pass (%s) or all",
                          options->reporting.dump_after, names.data != NULL ? names.data : "");
    bgi_string_clear(&names);
    return status;
}

/* ---- verifying ---- */

#ifdef BGI_VERIFY_PASSES
static bg_status verify(const bgi_compiler *c, const pass *after, bg_error *error)
{
    if (c->graph != NULL)
        BGI_TRY(bgi_graph_verify(c->graph, error));
    if ((c->made & PARTITION) != 0)
        BGI_TRY(bgi_partition_verify(c->partition, c->graph, error));
    if ((after->makes & SCHEDULE) != 0)
        BGI_TRY(bg_schedule_verify(c->plan->schedule, &c->plan->problem, error));
    return (after->makes & PLAN) != 0 ? bgi_plan_check(c->plan, error) : BG_OK;
}
#else
static bg_status verify(const bgi_compiler *c, const pass *after, bg_error *error)
{
    (void)c, (void)after, (void)error;
    return BG_OK;
}
#endif

/* ---- hiding results from a pass ---- */

#ifdef BGI_VERIFY_PASSES
/* The compiler's pointers to results. */
static const struct {
    uint32_t result;
    const char *name;
    bool is_in_plan;
    size_t offset;
} pointers[] = {
#define POINTER(result, member)                                                                                        \
    {                                                                                                                  \
        result, #result " (" #member ")", false, offsetof(bgi_compiler, member)                                        \
    }
#define PLAN_POINTER(result, member)                                                                                   \
    {                                                                                                                  \
        result, #result " (plan->" #member ")", true, offsetof(bg_plan, member)                                        \
    }
    POINTER(REQUESTS, is_anchor),
    POINTER(GRAPH, graph),
    POINTER(SCHEDULING, scheduling),
    POINTER(STAGES, stages),
    POINTER(PARTITION, partition),
    POINTER(STREAMS, output_values),
    PLAN_POINTER(STREAMS, outputs),
    PLAN_POINTER(STREAMS, inputs),
    POINTER(RESIDENCY, residency),
    POINTER(EDGES, edges),
    PLAN_POINTER(EDGES, edges),
    PLAN_POINTER(SCHEDULE, schedule),
    POINTER(KERNELS, kernels),
    PLAN_POINTER(KERNELS, kernels),
    POINTER(PLACEMENT, placement),
    PLAN_POINTER(PLACEMENT, devices),
    PLAN_POINTER(LEAVES, variables),
    PLAN_POINTER(LEAVES, constants)
#undef POINTER
#undef PLAN_POINTER
};

enum { POINTER_COUNT = sizeof pointers / sizeof pointers[0] };

/* find_pointer returns the address of pointer `i`; get_pointer and set_pointer copy it as bytes, because it may have
 * any type. */
static void *find_pointer(const bgi_compiler *c, uint32_t i)
{
    return (char *)(pointers[i].is_in_plan ? (void *)c->plan : (void *)(uintptr_t)c) + pointers[i].offset;
}

static void *get_pointer(const bgi_compiler *c, uint32_t i)
{
    void *value;

    memcpy(&value, find_pointer(c, i), sizeof value);
    return value;
}

static void set_pointer(const bgi_compiler *c, uint32_t i, void *value)
{
    memcpy(find_pointer(c, i), &value, sizeof value);
}

static bool is_named(const pass *p, uint32_t i)
{
    return (pointers[i].result & (p->needs | p->makes)) != 0;
}

/* Whether the pass must not see pointer `i`: the result exists, and the pass's row does not name it. Until the result
 * exists, the pointer may refer to an unfinished one. */
static bool is_hidden(const bgi_compiler *c, const pass *p, uint32_t i)
{
    return !is_named(p, i) && (c->made & pointers[i].result) != 0;
}

/* Runs the pass with pointers to the results that its row names; the other pointers are NULL during the pass and must
 * stay NULL. */
static bg_status run_alone(bgi_compiler *c, const pass *p, bg_error *error)
{
    void *hidden[POINTER_COUNT];
    bg_status status;

    for (uint32_t i = 0; i < POINTER_COUNT; i++)
        if (is_hidden(c, p, i)) {
            hidden[i] = get_pointer(c, i);
            set_pointer(c, i, NULL);
        }
    status = p->run(c, error);
    for (uint32_t i = 0; i < POINTER_COUNT; i++) {
        const bool has_result = get_pointer(c, i) != NULL;
        if (is_hidden(c, p, i))
            set_pointer(c, i, hidden[i]);
        if (status != BG_OK)
            continue;
        if (has_result && !is_named(p, i) && pointers[i].result != GRAPH)
            status = bg_error_set(error, BG_ERROR_INTERNAL, "pass `%s` made %s, which its row does not name", p->name,
                                  pointers[i].name);
        if (!has_result && (p->makes & pointers[i].result) != 0)
            status = bg_error_set(error, BG_ERROR_INTERNAL, "pass `%s` did not make %s, which its row names", p->name,
                                  pointers[i].name);
    }
    return status;
}
#else
static bg_status run_alone(bgi_compiler *c, const pass *p, bg_error *error)
{
    return p->run(c, error);
}
#endif

/* ---- running ---- */

static bg_status check_stop(const bg_options *options, bg_error *error)
{
    if (options->execution.stop == NULL || !options->execution.stop(options->execution.stop_user))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_CANCELED, "compiling the plan was stopped at the caller's request");
}

/* Trials do not report progress, because they repeat passes. */
static bg_status report_progress(const bgi_compiler *c, const pass *p, bg_error *error)
{
    const bg_reporting_options *reporting = &c->plan->options.reporting;
    bgi_progress progress = {reporting->progress, reporting->progress_user, "the plan", (uint64_t)(p - passes),
                             PASS_COUNT};

    return c->is_trial ? BG_OK : bgi_progress_begin(&progress, p->name, 1, error);
}

static bg_status run(bgi_compiler *c, const pass *p, bg_error *error)
{
    bg_status status;

    if ((c->made & p->needs) != p->needs)
        return bg_error_set(error, BG_ERROR_INTERNAL, "pass `%s` needs results %#x, but only %#x exist", p->name,
                            p->needs, c->made);
    BGI_TRY(check_stop(&c->plan->options, error));
    BGI_TRY(report_progress(c, p, error));
    BGI_TRY(run_alone(c, p, error));
    c->made |= p->makes;
    status = verify(c, p, error);
    if (status != BG_OK)
        return bg_error_context(error, status, "after pass `%s`", p->name);
    return dump(c, p, error);
}

bg_status bgi_passes_run(bgi_compiler *c, bgi_pass_group group, bg_error *error)
{
    for (uint32_t i = 0; i < PASS_COUNT; i++)
        if (passes[i].group == group && applies(c, passes[i].when))
            BGI_TRY(run(c, &passes[i], error));
    return BG_OK;
}
