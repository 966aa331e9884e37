/*
 * recompute.c: chooses what a plan recomputes. The other rules for recomputation are in src/transform/recompute.c.
 * AUTO, the cheapest choice with which every device is within its budget, is here because it needs whole plans.
 *
 * A trial compiles the graph with a choice up to its memory layout, so the bytes are those of the finished plan. The
 * memory that a device needs depends only on the choice for its own stages. So each device has its own list of choices,
 * ordered by time, and tries them until one fits. One trial tests a choice for every device. A choice whose stash alone
 * exceeds the budget is skipped without a trial. If a device has few ops, its list has every choice, so the first
 * choice that fits is the cheapest. Otherwise each choice gives up one more op, beginning with the op that saves most
 * bytes per nanosecond. Regular patterns, which keep every second, third, ... op, are added because their peaks are
 * small.
 */
#include "plan/compile.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/log.h"
#include "plan/costs.h"
#include "plan/describe.h"

enum { EXACT_OPS = 12, MOST_TRIALS = 64 };

/* A choice for one device. */
typedef struct bgi_proposal {
    const bool *is_given_up; /* by op of the search */
    double ns;
    size_t least_bytes; /* a lower bound of the device's bytes with this choice */
    uint32_t number;
} bgi_proposal;

typedef struct bgi_search {
    uint32_t device;
    uint32_t *ops; /* the ops whose results may be given up */
    uint32_t op_count;
    bgi_proposal *proposals; /* by time */
    uint32_t count, capacity, current;
    uint32_t best; /* the choice that needed the fewest bytes so far */
    size_t best_bytes;
    bool is_at_end; /* no choice of the list is left, so `current` is the one that needs the fewest bytes */
} bgi_search;

typedef struct bgi_chooser {
    bgi_compiler *c;
    bgi_recompute r;
    bgi_arena arena;
    bool *is_kept;        /* by op: the choice of all devices */
    bool *is_repeated;    /* by op */
    size_t *fixed_bytes;  /* by device: the bytes that no choice changes */
    uint32_t *in_flight;  /* by stage */
    bgi_search *searches; /* by device */
} bgi_chooser;

/* ---- trials ---- */

/* Compiles a copy with the choice `is_kept`, up to its memory layout. The caller destroys the plan. */
static bg_status try_choice(bgi_chooser *s, bg_plan **out, bg_error *error)
{
    bgi_recomputed recomputed = {0};
    bgi_compiler trial;
    bg_status status;

    BGI_TRY_CLEANUP(bgi_trial_begin(s->c, &trial, error));
    recomputed.stages = bgi_arena_allocate(&trial.plan->arena, s->c->stages->stage_count, sizeof *recomputed.stages);
    if (recomputed.stages == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "stages", s->c->stages->stage_count * sizeof *recomputed.stages));
    trial.scheduling->stage_recomputes = recomputed.stages;
    BGI_TRY_CLEANUP(bgi_recompute_apply(&s->r, trial.graph, s->is_kept, s->c->plan->options.memory.recompute_order,
                                        &recomputed, error));
    BGI_TRY_CLEANUP(trial.lower(&trial, error));
    *out = trial.plan;
    trial.plan = NULL;
cleanup:
    bgi_trial_end(&trial);
    return status;
}

static bool fits(const bgi_chooser *s, uint32_t device, size_t bytes)
{
    const size_t budget = bgi_options_budget(&s->c->plan->options, device);

    return budget == 0 || bytes <= budget;
}

/* Records the bytes that all choices have in common, from the plan that keeps everything. */
static bg_status record_fixed_bytes(bgi_chooser *s, const bg_plan *plan, bg_error *error)
{
    const bgi_stages *stages = s->c->stages;

    s->fixed_bytes = bgi_arena_allocate(&s->arena, stages->device_count, sizeof *s->fixed_bytes);
    s->in_flight = bgi_arena_allocate(&s->arena, stages->stage_count, sizeof *s->in_flight);
    s->searches = bgi_arena_allocate(&s->arena, stages->device_count, sizeof *s->searches);
    if (s->fixed_bytes == NULL || s->in_flight == NULL || s->searches == NULL)
        return bgi_error_memory(error, "recomputation", 0);
    for (uint32_t d = 0; d < stages->device_count; d++)
        s->fixed_bytes[d] = plan->devices[d].class_bytes[BG_MEMORY_WEIGHTS] +
                            plan->devices[d].class_bytes[BG_MEMORY_GRADIENTS] +
                            plan->devices[d].class_bytes[BG_MEMORY_STATE];
    for (uint32_t stage = 0; stage < stages->stage_count; stage++)
        s->in_flight[stage] = bgi_activations_may_be_remote(&plan->options)
                                  ? 0 /* 0 keeps least_bytes a lower bound, because the values may be remote */
                                  : bg_schedule_stage_in_flight(plan->schedule, stage);
    return BG_OK;
}

/* ---- proposals ---- */

/* Writes a device's choice into the choice of all devices. */
static void set_choice(bgi_chooser *s, const bgi_search *search, const bool *is_given_up)
{
    for (uint32_t i = 0; i < search->op_count; i++)
        s->is_kept[search->ops[i]] = !is_given_up[i];
}

/* Adds a choice, unless one of the ops that it gives up would not run again: then another choice is equivalent. */
static bg_status propose(bgi_chooser *s, bgi_search *search, const bool *is_given_up, bg_error *error)
{
    bgi_proposal proposal = {.least_bytes = s->fixed_bytes[search->device], .number = search->count};
    bgi_proposal *grown;

    set_choice(s, search, is_given_up);
    for (uint32_t stage = 0; stage < s->c->stages->stage_count; stage++)
        if (bgi_stage_device(s->c, stage) == search->device) {
            const bgi_recompute_effect effect = bgi_recompute_measure(&s->r, stage, s->is_kept, s->is_repeated);
            proposal.ns += effect.ns;
            proposal.least_bytes += s->in_flight[stage] * effect.own_bytes;
        }
    for (uint32_t i = 0; i < search->op_count; i++)
        if (is_given_up[i] && !s->is_repeated[search->ops[i]])
            return BG_OK;
    if (search->count == search->capacity) {
        search->capacity = search->capacity == 0 ? 64 : 2 * search->capacity;
        grown = bgi_arena_allocate(&s->arena, search->capacity, sizeof *grown);
        if (grown == NULL)
            return bgi_error_memory(error, "recomputation", search->capacity * sizeof *grown);
        if (search->count > 0)
            memcpy(grown, search->proposals, search->count * sizeof *grown);
        search->proposals = grown;
    }
    proposal.is_given_up = bgi_arena_copy(&s->arena, is_given_up, search->op_count * sizeof *is_given_up);
    if (proposal.is_given_up == NULL)
        return bgi_error_memory(error, "recomputation", search->op_count);
    search->proposals[search->count++] = proposal;
    return BG_OK;
}

static bg_status propose_all(bgi_chooser *s, bgi_search *search, bool *is_given_up, bg_error *error)
{
    for (uint32_t set = 0; set < 1u << search->op_count; set++) {
        for (uint32_t i = 0; i < search->op_count; i++)
            is_given_up[i] = (set >> i & 1u) != 0;
        BGI_TRY(propose(s, search, is_given_up, error));
    }
    return BG_OK;
}

/* Returns the bytes of an op's results per nanosecond of running it again; ops with a high value are given up first. */
static double worth(const bgi_chooser *s, uint32_t o)
{
    const bgi_op *op = &s->c->graph->ops[o];
    double bytes = 0.0;

    for (uint32_t i = 0; i < op->output_count; i++)
        bytes += (double)bg_type_size_bytes(&bgi_graph_value(s->c->graph, op->outputs[i])->type);
    return bytes / (s->r.op_ns[o] + 1.0);
}

static bg_status propose_some(bgi_chooser *s, bgi_search *search, bool *is_given_up, bg_error *error)
{
    const uint32_t count = search->op_count;

    memset(is_given_up, 0, count * sizeof *is_given_up);
    BGI_TRY(propose(s, search, is_given_up, error));
    for (uint32_t given = 0; given < count; given++) {
        uint32_t next = count;
        for (uint32_t i = 0; i < count; i++)
            if (!is_given_up[i] && (next == count || worth(s, search->ops[i]) > worth(s, search->ops[next])))
                next = i;
        is_given_up[next] = true;
        BGI_TRY(propose(s, search, is_given_up, error));
    }
    for (uint32_t period = 2; period <= count; period += 1 + period / 4)
        for (uint32_t phase = 0; phase < period; phase += 1 + period / 4) {
            for (uint32_t i = 0; i < count; i++)
                is_given_up[i] = i % period != phase;
            BGI_TRY(propose(s, search, is_given_up, error));
        }
    return BG_OK;
}

static int compare_proposals(const void *a, const void *b)
{
    const bgi_proposal *first = a, *second = b;

    if (first->ns != second->ns)
        return first->ns < second->ns ? -1 : 1;
    if (first->least_bytes != second->least_bytes)
        return first->least_bytes < second->least_bytes ? -1 : 1;
    return first->number < second->number ? -1 : first->number > second->number;
}

/* Reduces the list to the choice that keeps everything and at most MOST_TRIALS of the choices that may fit, spread
 * evenly and including the last. */
static void thin_out(const bgi_chooser *s, bgi_search *search)
{
    uint32_t may_fit = 0, seen = 0, left = 1;

    for (uint32_t i = 1; i < search->count; i++)
        may_fit += fits(s, search->device, search->proposals[i].least_bytes);
    if (may_fit <= MOST_TRIALS)
        return;
    for (uint32_t i = 1; i < search->count; i++) {
        if (!fits(s, search->device, search->proposals[i].least_bytes))
            continue;
        seen++;
        if ((uint64_t)seen * MOST_TRIALS / may_fit != (uint64_t)(seen - 1) * MOST_TRIALS / may_fit)
            search->proposals[left++] = search->proposals[i];
    }
    search->count = left;
}

static bg_status list_proposals(bgi_chooser *s, bgi_search *search, bg_error *error)
{
    const bg_graph *graph = s->c->graph;
    bool *is_given_up;

    search->ops = bgi_arena_allocate(&s->arena, graph->op_count, sizeof *search->ops);
    is_given_up = bgi_arena_allocate(&s->arena, graph->op_count, sizeof *is_given_up);
    if (search->ops == NULL || is_given_up == NULL)
        return bgi_error_memory(error, "recomputation", graph->op_count);
    /* Only ops that run again when nothing is kept can be chosen. */
    for (size_t o = 0; o < graph->op_count; o++)
        s->is_kept[o] = s->r.is_checkpoint[o];
    for (uint32_t stage = 0; stage < s->c->stages->stage_count; stage++)
        bgi_recompute_measure(&s->r, stage, s->is_kept, s->is_repeated);
    for (uint32_t o = 0; o < graph->op_count; o++) {
        s->is_kept[o] = true;
        if (s->is_repeated[o] && bgi_stage_device(s->c, bgi_op_stage(s->c->stages, &graph->ops[o])) == search->device)
            search->ops[search->op_count++] = o;
    }
    if (search->op_count <= EXACT_OPS)
        BGI_TRY(propose_all(s, search, is_given_up, error));
    else
        BGI_TRY(propose_some(s, search, is_given_up, error));
    qsort(search->proposals, search->count, sizeof *search->proposals, compare_proposals);
    if (search->op_count > EXACT_OPS)
        thin_out(s, search);
    return BG_OK;
}

/* ---- the search ---- */

/* Takes the device's next choice that may fit; returns false at the end of its list. */
static bool next_choice(const bgi_chooser *s, bgi_search *search)
{
    while (++search->current < search->count)
        if (fits(s, search->device, search->proposals[search->current].least_bytes))
            return true;
    return false;
}

static void set_choices(bgi_chooser *s)
{
    for (uint32_t d = 0; d < s->c->stages->device_count; d++)
        set_choice(s, &s->searches[d], s->searches[d].proposals[s->searches[d].current].is_given_up);
}

/* Devices are searched separately, but a value that one device keeps can need slots on another device. So before the
 * search fails, it tries two rules that choose for all devices together: keeping only what stages stash, and
 * recomputing everything. */
static bg_status try_rules(bgi_chooser *s, bool *is_done, bg_error *error)
{
    static const bg_recompute rules[] = {BG_RECOMPUTE_STAGE, BG_RECOMPUTE_FRACTION};
    bg_options options = s->c->plan->options;

    options.memory.recompute_fraction = 1.0;
    for (size_t i = 0; !*is_done && i < sizeof rules / sizeof rules[0]; i++) {
        bg_plan *plan = NULL;
        options.memory.recompute = rules[i];
        BGI_TRY(bgi_recompute_choose(&s->r, &options, s->is_kept, error));
        BGI_TRY(try_choice(s, &plan, error));
        *is_done = true;
        for (uint32_t d = 0; d < s->c->stages->device_count; d++)
            *is_done &= fits(s, d, plan->devices[d].arena_bytes);
        bg_plan_destroy(plan);
    }
    return BG_OK;
}

/* At the end of a list, takes the choice that needed the fewest bytes or, if no choice was worth a trial, the one with
 * the smallest lower bound. */
static void take_smallest(bgi_search *search)
{
    search->is_at_end = true;
    search->current = search->best;
    for (uint32_t i = 1; search->best == 0 && i < search->count; i++)
        if (search->proposals[i].least_bytes < search->proposals[search->current].least_bytes)
            search->current = i;
}

/* Tries the choices that the lists ended with. If they do not fit, reports the memory of these choices, and the device
 * that is furthest over its budget. */
static bg_status try_smallest_choices(bgi_chooser *s, bool *is_done, bg_error *error)
{
    bg_plan *plan = NULL;
    bg_status status = BG_OK;

    set_choices(s);
    BGI_TRY(try_choice(s, &plan, error));
    *is_done = true;
    for (uint32_t d = 0; d < s->c->stages->device_count; d++)
        *is_done &= fits(s, d, plan->devices[d].arena_bytes);
    if (!*is_done)
        status = bg_error_context(error, bgi_describe_over_budget(s->c, plan, error),
                                  "no choice of recomputation fits; with the choice that needs least");
    bg_plan_destroy(plan);
    return status;
}

/* Tests the current choices; devices over their budget take their next ones. Sets *is_done when no device is over its
 * budget. */
static bg_status step(bgi_chooser *s, bool *is_done, bg_error *error)
{
    bool is_left = false;
    bg_plan *plan = NULL;

    set_choices(s);
    BGI_TRY(try_choice(s, &plan, error));
    *is_done = true;
    for (uint32_t d = 0; d < s->c->stages->device_count; d++) {
        bgi_search *search = &s->searches[d];
        const size_t bytes = plan->devices[d].arena_bytes;
        if (search->best_bytes == 0 || bytes < search->best_bytes) {
            search->best = search->current;
            search->best_bytes = bytes;
        }
        if (fits(s, d, bytes))
            continue;
        *is_done = false;
        if (!search->is_at_end && next_choice(s, search))
            is_left = true;
        else if (!search->is_at_end)
            take_smallest(search);
    }
    bg_plan_destroy(plan);
    if (*is_done || is_left)
        return BG_OK;
    BGI_TRY(try_rules(s, is_done, error));
    return *is_done ? BG_OK : try_smallest_choices(s, is_done, error);
}

static bg_status search(bgi_chooser *s, bg_error *error)
{
    bg_plan *plan = NULL;
    bool is_done = true;
    bg_status status;

    for (size_t o = 0; o < s->c->graph->op_count; o++)
        s->is_kept[o] = true;
    BGI_TRY(try_choice(s, &plan, error));
    for (uint32_t d = 0; d < s->c->stages->device_count; d++)
        is_done &= fits(s, d, plan->devices[d].arena_bytes);
    status = is_done ? BG_OK : record_fixed_bytes(s, plan, error);
    bg_plan_destroy(plan);
    for (uint32_t d = 0; status == BG_OK && !is_done && d < s->c->stages->device_count; d++) {
        s->searches[d].device = d;
        status = list_proposals(s, &s->searches[d], error);
    }
    while (status == BG_OK && !is_done)
        status = step(s, &is_done, error);
    return status;
}

/* ---- the order THEN ---- */

/* Whether recomputation makes the device no smaller. The results of R live until B has read them, in addition to the
 * kept values. With one micro-batch in flight this may need more memory than keeping everything. */
static bool saves_nothing(const bg_plan *plan, const bg_plan *keeps_all, uint32_t device)
{
    return plan->devices[device].arena_bytes >= keeps_all->devices[device].arena_bytes &&
           plan->devices[device].remote_bytes >= keeps_all->devices[device].remote_bytes;
}

/* Keeps everything on devices on which recomputation saves nothing. A device's choice can need slots on another device,
 * so the remaining choices are tried again. */
static bg_status keep_where_nothing_is_saved(bgi_chooser *s, bg_error *error)
{
    const bg_graph *graph = s->c->graph;
    const bgi_stages *stages = s->c->stages;
    bool *is_chosen = bgi_arena_copy(&s->arena, s->is_kept, graph->op_count * sizeof *is_chosen);
    bool *keeps_all = bgi_arena_allocate(&s->arena, stages->device_count, sizeof *keeps_all);
    bg_plan *most = NULL, *plan = NULL;
    bool is_done = false;
    bg_status status;

    if (is_chosen == NULL || keeps_all == NULL)
        return bgi_error_memory(error, "recomputation", graph->op_count);
    for (size_t o = 0; o < graph->op_count; o++)
        s->is_kept[o] = true;
    BGI_TRY(try_choice(s, &most, error));
    while (!is_done) {
        for (size_t o = 0; o < graph->op_count; o++)
            s->is_kept[o] = is_chosen[o] || keeps_all[bgi_stage_device(s->c, bgi_op_stage(stages, &graph->ops[o]))];
        BGI_TRY_CLEANUP(try_choice(s, &plan, error));
        is_done = true;
        for (uint32_t d = 0; d < stages->device_count; d++)
            if (!keeps_all[d] && saves_nothing(plan, most, d)) {
                keeps_all[d] = true;
                is_done = false;
            }
        bg_plan_destroy(plan);
        plan = NULL;
    }
    status = BG_OK;
cleanup:
    bg_plan_destroy(most);
    return status;
}

/* ---- the pass in a plan ---- */

/* Rejects explicit checkpoints with a schedule for which TensorFlow for IPU did not support them. */
static bg_status check_limits(const bgi_compiler *c, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    const char *marked = NULL;

    for (size_t v = 1; v < c->graph->value_count && marked == NULL; v++)
        if (c->graph->values[v].is_checkpoint)
            marked = c->graph->values[v].name;
    if (!options->execution.ipu_limits || marked == NULL || options->execution.schedule == NULL ||
        strcmp(options->execution.schedule, "interleaved") != 0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "`%s` is a recomputation checkpoint, but the schedule is `interleaved`; IPU software supported "
                        "checkpoints only with `grouped` and `sequential`: use one of these, or turn ipu_limits off",
                        marked);
}

static bg_status cost_ops(bgi_compiler *c, double **out, double *out_total, bg_error *error)
{
    double *op_ns = bgi_arena_allocate(&c->scratch, c->graph->op_count, sizeof *op_ns);

    if (op_ns == NULL)
        return bgi_error_memory(error, "costs", c->graph->op_count * sizeof *op_ns);
    *out_total = 0.0;
    for (size_t o = 0; o < c->graph->op_count; o++) {
        if (c->graph->ops[o].type->alias_input != BG_NO_OPERAND)
            continue; /* a view */
        op_ns[o] = bgi_estimate_op_ns(c->graph, &c->graph->ops[o]);
        if (c->graph->ops[o].phase != BGI_PHASE_UPDATE)
            *out_total += op_ns[o];
    }
    *out = op_ns;
    return BG_OK;
}

static bg_status choose_and_apply(bgi_chooser *s, double total_ns, bg_error *error)
{
    bgi_compiler *c = s->c;
    bg_plan_summary *summary = &c->plan->summary;
    bgi_recomputed recomputed = {0};

    s->is_kept = bgi_arena_allocate(&s->arena, c->graph->op_count, sizeof *s->is_kept);
    s->is_repeated = bgi_arena_allocate(&s->arena, c->graph->op_count, sizeof *s->is_repeated);
    recomputed.stages = bgi_arena_allocate(&c->plan->arena, c->stages->stage_count, sizeof *recomputed.stages);
    if (s->is_kept == NULL || s->is_repeated == NULL || recomputed.stages == NULL)
        return bgi_error_memory(error, "recomputation", c->graph->op_count);
    if (c->plan->options.memory.recompute == BG_RECOMPUTE_AUTO)
        BGI_TRY(search(s, error));
    else
        BGI_TRY(bgi_recompute_choose(&s->r, &c->plan->options, s->is_kept, error));
    if (c->plan->options.memory.recompute != BG_RECOMPUTE_AUTO &&
        c->plan->options.memory.recompute_order == BG_RECOMPUTE_THEN)
        BGI_TRY(keep_where_nothing_is_saved(s, error));
    BGI_TRY(
        bgi_recompute_apply(&s->r, c->graph, s->is_kept, c->plan->options.memory.recompute_order, &recomputed, error));
    c->scheduling->stage_recomputes = recomputed.stages;
    summary->recomputed_op_count = recomputed.op_count;
    summary->recompute_share = recomputed.op_count > 0 ? recomputed.ns / (total_ns + recomputed.ns) : 0.0;
    return BG_OK;
}

bg_status bgi_recompute_plan(bgi_compiler *c, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    bgi_chooser s = {.c = c};
    double *op_ns = NULL, total_ns = 0.0;
    bg_status status;

    if (options->memory.recompute == BG_RECOMPUTE_NONE)
        return BG_OK;
    if (!c->plan->training) {
        bgi_log(options, BG_LOG_INFO, "recomputation has no effect in inference, because nothing is stashed");
        return BG_OK;
    }
    BGI_TRY(check_limits(c, error));
    BGI_TRY(cost_ops(c, &op_ns, &total_ns, error));
    BGI_TRY(bgi_recompute_begin(c->graph, c->stages, op_ns, &s.r, error));
    status = choose_and_apply(&s, total_ns, error);
    bgi_recompute_clear(&s.r);
    bgi_arena_clear(&s.arena);
    return status;
}
