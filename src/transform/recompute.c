/*
 * recompute.c: runs forward ops again for the backward pass, so that their results need not be kept.
 *
 *     F: x -> a -> b -> c         =>      F: x -> a -> b -> c
 *     B: dc, a, b -> da, db               B: x -> a' -> b';  dc, a', b' -> da, db      (x is kept instead of a and b)
 *
 * Needs: a training graph with stages and copies of shared variables. Does: computes again, by clones of their ops and
 * from kept values, the forward results that a stage's backward pass reads and that the choice does not keep. A clone
 * has the name, block and attributes of its op, so dropout draws the same numbers. Keeps: every op, the order of the
 * existing ops, and, because clones have the same inputs, results bit for bit.
 *
 * Ops that change variables (batch norm) never run again. Neither do ops that read a variable that changes from
 * micro-batch to micro-batch, because the next forward pass may come before this backward pass. A value that enters a
 * stage stays in the receiving slots.
 *
 * Clones are placed right before the first backward op that needs them, each chain as late as possible. So at any time
 * only the forward part between two kept values exists (Chen et al., "Training deep nets with sublinear memory cost",
 * 2016). In the order THEN all clones are placed before the first backward op and have a separate phase, hence a
 * separate segment.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* ---- which ops may run again ---- */

/* Marks variables that forward or backward ops change. */
static void mark_changing(const bg_graph *graph, bool *is_changing)
{
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; graph->ops[o].phase != BGI_PHASE_UPDATE && i < graph->ops[o].input_count; i++)
            if (bgi_op_type_writes(graph->ops[o].type, i))
                is_changing[graph->ops[o].inputs[i].id] = true;
}

static bool is_alias(const bgi_recompute *r, const bgi_op *op)
{
    return op->output_count > 0 && op->outputs[0].id != 0 && r->roots[op->outputs[0].id].id != op->outputs[0].id;
}

static void mark_ops(bgi_recompute *r, const bool *is_changing)
{
    for (size_t o = 0; o < r->graph->op_count; o++) {
        const bgi_op *op = &r->graph->ops[o];
        r->may_repeat[o] = op->phase == BGI_PHASE_FORWARD && !is_alias(r, op);
        for (uint32_t i = 0; i < op->input_count; i++)
            r->may_repeat[o] &= !is_changing[r->roots[op->inputs[i].id].id];
        for (uint32_t i = 0; i < op->output_count; i++) {
            const bgi_value *root = bgi_graph_value(r->graph, r->roots[op->outputs[i].id]);
            if (bgi_graph_value(r->graph, op->outputs[i])->is_checkpoint && root->kind == BGI_VALUE_RESULT)
                r->is_checkpoint[root->op] = true;
        }
    }
}

/* Returns the stage in which the backward pass begins; UINT32_MAX if there is none. */
static uint32_t find_loss_stage(const bg_graph *graph, const bgi_stages *stages)
{
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].phase == BGI_PHASE_BACKWARD)
            return bgi_op_stage(stages, &graph->ops[o]);
    return UINT32_MAX;
}

static bool list_ops(bgi_recompute *r)
{
    uint32_t *stages = malloc((r->graph->op_count + 1) * sizeof *stages);
    bool good = stages != NULL;

    for (size_t o = 0; good && o < r->graph->op_count; o++)
        stages[o] = bgi_op_stage(r->stages, &r->graph->ops[o]);
    good = good && bgi_buckets_fill(&r->of_stage, &r->arena, r->stages->stage_count, r->graph->op_count, stages);
    free(stages);
    return good;
}

bg_status bgi_recompute_begin(const bg_graph *graph, const bgi_stages *stages, const double *op_ns, bgi_recompute *out,
                              bg_error *error)
{
    bgi_recompute r = {.graph = graph, .stages = stages, .op_ns = op_ns};
    bool *is_changing = calloc(graph->value_count, sizeof *is_changing);

    r.roots = bgi_arena_allocate(&r.arena, graph->value_count, sizeof *r.roots);
    r.may_repeat = bgi_arena_allocate(&r.arena, graph->op_count, sizeof *r.may_repeat);
    r.is_checkpoint = bgi_arena_allocate(&r.arena, graph->op_count, sizeof *r.is_checkpoint);
    r.needed_in = bgi_arena_allocate(&r.arena, graph->value_count, sizeof *r.needed_in);
    if (is_changing == NULL || r.roots == NULL || r.may_repeat == NULL || r.is_checkpoint == NULL ||
        r.needed_in == NULL || !bgi_find_roots(graph, stages, r.roots) || !list_ops(&r)) {
        free(is_changing);
        bgi_arena_clear(&r.arena);
        return bgi_error_memory(error, "recomputation", graph->op_count);
    }
    mark_changing(graph, is_changing);
    mark_ops(&r, is_changing);
    r.loss_stage = find_loss_stage(graph, stages);
    free(is_changing);
    *out = r;
    return BG_OK;
}

void bgi_recompute_clear(bgi_recompute *recompute)
{
    bgi_arena_clear(&recompute->arena);
    memset(recompute, 0, sizeof *recompute);
}

/* ---- the effect of a choice ---- */

/* Marks the value as needed; returns whether it was not marked before in this measurement. */
static bool becomes_needed(bgi_recompute *r, bg_value root)
{
    const bool is = r->needed_in[root.id] != r->measured;

    r->needed_in[root.id] = r->measured;
    return is;
}

static bool is_needed(const bgi_recompute *r, bg_value value)
{
    return value.id != 0 && r->needed_in[value.id] == r->measured;
}

/* Returns the bytes that the stage needs to keep the value, if it is an input of the graph or a forward result of
 * another stage; otherwise 0. */
static size_t foreign_bytes(const bgi_recompute *r, uint32_t stage, bg_value root)
{
    const bgi_value *value = bgi_graph_value(r->graph, root);
    const bgi_op *source = value->kind == BGI_VALUE_RESULT ? &r->graph->ops[value->op] : NULL;

    return value->kind == BGI_VALUE_INPUT ||
                   (source != NULL && source->phase == BGI_PHASE_FORWARD && bgi_op_stage(r->stages, source) != stage)
               ? bgi_align(bg_type_size_bytes(&value->type))
               : 0;
}

/* Marks the operands of `op` as needed by the stage's backward pass, of which `op` is a part or in which it runs
 * again. */
static void need_operands(bgi_recompute *r, uint32_t stage, const bgi_op *op, bgi_recompute_effect *effect)
{
    for (uint32_t i = 0; i < op->input_count; i++) {
        const bg_value root = r->roots[op->inputs[i].id];
        if (becomes_needed(r, root))
            effect->stash_bytes += foreign_bytes(r, stage, root);
    }
}

/* Returns the bytes of those results of an op that the backward pass needs. */
static size_t needed_bytes(const bgi_recompute *r, const bgi_op *op)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < op->output_count; i++)
        if (is_needed(r, op->outputs[i]))
            bytes += bgi_align(bg_type_size_bytes(&bgi_graph_value(r->graph, op->outputs[i])->type));
    return bytes;
}

bgi_recompute_effect bgi_recompute_measure(bgi_recompute *r, uint32_t stage, const bool *is_kept, bool *is_repeated)
{
    bgi_recompute_effect effect = {0};

    r->measured++;
    for (uint32_t at = r->of_stage.begins[stage + 1]; at-- > r->of_stage.begins[stage];) {
        const uint32_t o = r->of_stage.items[at];
        const bgi_op *op = &r->graph->ops[o];
        size_t bytes;
        if (op->phase == BGI_PHASE_UPDATE)
            continue;
        is_repeated[o] = false;
        if (is_alias(r, op))
            continue; /* a view; its readers need the root's value instead */
        if (op->phase != BGI_PHASE_FORWARD) {
            need_operands(r, stage, op, &effect);
            continue;
        }
        bytes = needed_bytes(r, op);
        if (bytes > 0 && r->may_repeat[o] && !is_kept[o]) {
            is_repeated[o] = true;
            effect.ns += r->op_ns[o];
            need_operands(r, stage, op, &effect);
        } else {
            effect.own_bytes += bytes;
        }
    }
    effect.stash_bytes += effect.own_bytes;
    return effect;
}

/* ---- recomputing one more op ---- */

/* Adds op `first` to the ops that run again, with the ops that it makes necessary. The set of needed values only grows.
 * So each op is examined once when its results are no longer kept and once when it becomes needed, not for each other
 * op whose results are no longer kept. `stack` must hold the ops of the stage. */
static void repeat_op(bgi_recompute *r, uint32_t stage, uint32_t first, const bool *is_kept, bool *is_repeated,
                      uint32_t *stack, bgi_recompute_effect *effect)
{
    uint32_t stacked = 0;

    stack[stacked++] = first;
    is_repeated[first] = true;
    effect->own_bytes -= needed_bytes(r, &r->graph->ops[first]);
    while (stacked > 0) {
        const uint32_t o = stack[--stacked];
        effect->ns += r->op_ns[o];
        for (uint32_t i = 0; i < r->graph->ops[o].input_count; i++) {
            const bg_value root = r->roots[r->graph->ops[o].inputs[i].id];
            const bgi_value *value = bgi_graph_value(r->graph, root);
            const bgi_op *source = value->kind == BGI_VALUE_RESULT ? &r->graph->ops[value->op] : NULL;
            if (!becomes_needed(r, root))
                continue;
            effect->stash_bytes += foreign_bytes(r, stage, root);
            if (source == NULL || source->phase != BGI_PHASE_FORWARD || bgi_op_stage(r->stages, source) != stage ||
                is_repeated[value->op])
                continue;
            if (!r->may_repeat[value->op] || is_kept[value->op]) {
                effect->own_bytes += bgi_align(bg_type_size_bytes(&value->type));
                continue;
            }
            is_repeated[value->op] = true; /* not kept since an earlier call, in which no result of the op was needed */
            stack[stacked++] = value->op;
        }
    }
}

void bgi_recompute_give_up(bgi_recompute *r, uint32_t stage, uint32_t op, bool *is_kept, bool *is_repeated,
                           uint32_t *stack, bgi_recompute_effect *effect)
{
    is_kept[op] = false;
    if (!is_repeated[op] && r->may_repeat[op] && needed_bytes(r, &r->graph->ops[op]) > 0) {
        effect->stash_bytes -= effect->own_bytes;
        repeat_op(r, stage, op, is_kept, is_repeated, stack, effect);
        effect->stash_bytes += effect->own_bytes;
    }
}

/* ---- choosing by rule ---- */

static void set_kept(const bgi_recompute *r, uint32_t stage, bool keep_all, bool *is_kept)
{
    BGI_FOR_BUCKET(r->of_stage, stage, at)
    {
        const uint32_t o = r->of_stage.items[at];
        is_kept[o] = keep_all || !r->may_repeat[o] || r->is_checkpoint[o];
    }
}

static bool has_checkpoint(const bgi_recompute *r, uint32_t stage)
{
    BGI_FOR_BUCKET(r->of_stage, stage, at)
    if (r->is_checkpoint[r->of_stage.items[at]])
        return true;
    return false;
}

typedef struct bgi_offer {
    uint32_t op;
    double ns_per_byte;
} bgi_offer;

static int compare_offers(const void *a, const void *b)
{
    const bgi_offer *first = a, *second = b;

    if (first->ns_per_byte != second->ns_per_byte)
        return first->ns_per_byte < second->ns_per_byte ? -1 : 1;
    return first->op < second->op ? -1 : first->op > second->op;
}

/* Stops keeping the results of ops, those that cost the least time per byte first, until the stage's stash is at most
 * `most_bytes`. */
static bg_status save_share(bgi_recompute *r, uint32_t stage, size_t most_bytes, bool *is_kept, bool *is_repeated,
                            bg_error *error)
{
    const size_t most = r->of_stage.begins[stage + 1] - r->of_stage.begins[stage];
    bgi_offer *offers = calloc(most + 1, sizeof *offers);
    uint32_t *stack = calloc(most + 1, sizeof *stack);
    bgi_recompute_effect effect;
    size_t count = 0;

    if (offers == NULL || stack == NULL) {
        free(offers);
        free(stack);
        return bgi_error_memory(error, "recomputation", most * sizeof *offers);
    }
    set_kept(r, stage, false, is_kept);
    bgi_recompute_measure(r, stage, is_kept, is_repeated);
    BGI_FOR_BUCKET(r->of_stage, stage, at)
    {
        const uint32_t o = r->of_stage.items[at];
        const bgi_op *op = &r->graph->ops[o];
        if (op->phase == BGI_PHASE_FORWARD && is_repeated[o])
            offers[count++] = (bgi_offer){o, r->op_ns[o] / (double)needed_bytes(r, op)};
    }
    qsort(offers, count, sizeof *offers, compare_offers);
    set_kept(r, stage, true, is_kept);
    effect = bgi_recompute_measure(r, stage, is_kept, is_repeated);
    for (size_t i = 0; i < count && effect.stash_bytes > most_bytes; i++)
        bgi_recompute_give_up(r, stage, offers[i].op, is_kept, is_repeated, stack, &effect);
    free(offers);
    free(stack);
    return BG_OK;
}

static bg_status choose_stage(bgi_recompute *r, uint32_t stage, const bg_options *options, bool *is_kept,
                              bool *is_repeated, bg_error *error)
{
    const size_t all = bgi_recompute_measure(r, stage, is_kept, is_repeated).stash_bytes;
    const bool is_marked = has_checkpoint(r, stage);
    const bool is_merged = stage == r->loss_stage && !options->execution.separate_loss;

    if (options->memory.recompute == BG_RECOMPUTE_FRACTION)
        BGI_TRY(save_share(r, stage, (size_t)((1.0 - options->memory.recompute_fraction) * (double)all), is_kept,
                           is_repeated, error));
    else if (is_marked || (options->memory.recompute == BG_RECOMPUTE_STAGE && !is_merged))
        set_kept(r, stage, false, is_kept);
    /* If an op must be kept, recomputing the ops after it may need more memory than it saves. */
    if (bgi_recompute_measure(r, stage, is_kept, is_repeated).stash_bytes >= all)
        set_kept(r, stage, true, is_kept);
    return BG_OK;
}

bg_status bgi_recompute_choose(bgi_recompute *r, const bg_options *options, bool *is_kept, bg_error *error)
{
    bool *is_repeated = calloc(r->graph->op_count + 1, sizeof *is_repeated);
    bg_status status = BG_OK;

    if (is_repeated == NULL)
        return bgi_error_memory(error, "recomputation", r->graph->op_count);
    for (size_t o = 0; o < r->graph->op_count; o++)
        is_kept[o] = true;
    for (uint32_t stage = 0;
         status == BG_OK && options->memory.recompute != BG_RECOMPUTE_NONE && stage < r->stages->stage_count; stage++)
        status = choose_stage(r, stage, options, is_kept, is_repeated, error);
    free(is_repeated);
    return status;
}

/* ---- running again ---- */

typedef struct bgi_repeater {
    bgi_recompute *r;
    bg_graph *graph;
    size_t op_count; /* before clones */
    bool *is_repeated;
    bg_value *clones; /* by value id; null: no clone (yet) */
    uint32_t *order;  /* the new order, as op numbers */
    size_t order_count;
    uint32_t *wanted, *stack; /* the ops to clone for one reader */
    bool *is_wanted;          /* by op; stays set once the op is cloned */
    bgi_recomputed *out;
} bgi_repeater;

/* Returns whether readers on `stage` read a clone of the op that makes `value`, because that stage recomputes its
 * bytes. */
static bool takes_clone(const bgi_repeater *p, uint32_t stage, bg_value value, uint32_t *out_op)
{
    const bgi_value *v = bgi_graph_value(p->graph, value), *root;

    if (v->kind != BGI_VALUE_RESULT || v->op >= p->op_count || p->graph->ops[v->op].phase != BGI_PHASE_FORWARD)
        return false;
    root = bgi_graph_value(p->graph, p->r->roots[value.id]);
    *out_op = v->op;
    return root->kind == BGI_VALUE_RESULT && p->is_repeated[root->op] &&
           bgi_op_stage(p->r->stages, &p->graph->ops[root->op]) == stage;
}

static void want_operands(bgi_repeater *p, uint32_t stage, const bgi_op *op, uint32_t *stacked)
{
    uint32_t source;

    for (uint32_t i = 0; i < op->input_count; i++)
        if (takes_clone(p, stage, op->inputs[i], &source) && !p->is_wanted[source]) {
            p->is_wanted[source] = true;
            p->stack[(*stacked)++] = source;
        }
}

static int compare_numbers(const void *a, const void *b)
{
    const uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    return first < second ? -1 : first > second;
}

static void read_clones(bgi_repeater *p, uint32_t stage, const bgi_op *op, bg_value *inputs)
{
    uint32_t source;

    for (uint32_t i = 0; i < op->input_count; i++)
        inputs[i] = takes_clone(p, stage, op->inputs[i], &source) ? p->clones[op->inputs[i].id] : op->inputs[i];
}

static void clone_op(bgi_repeater *p, uint32_t o)
{
    const bgi_op op = p->graph->ops[o]; /* the array moves when ops are added */
    bg_value inputs[64], outputs[64];

    read_clones(p, bgi_op_stage(p->r->stages, &op), &op, inputs);
    p->graph->current_block = op.block;
    p->order[p->order_count++] = (uint32_t)p->graph->op_count;
    bg_graph_add(p->graph, op.type, op.name, inputs, op.input_count, op.attributes, outputs);
    for (uint32_t i = 0; i < op.output_count; i++)
        if (op.outputs[i].id != 0)
            p->clones[op.outputs[i].id] = outputs[i];
    p->out->op_count += !is_alias(p->r, &op);
    p->out->ns += p->r->op_ns[o];
}

/* Clones the ops that recompute the operands of op `reader`, in the order of the forward pass; clones that exist are
 * reused. */
static void clone_for(bgi_repeater *p, const bgi_op *reader)
{
    const uint32_t stage = bgi_op_stage(p->r->stages, reader);
    uint32_t count = 0, stacked = 0;

    want_operands(p, stage, reader, &stacked);
    while (stacked > 0) {
        const uint32_t o = p->stack[--stacked];
        p->wanted[count++] = o;
        want_operands(p, stage, &p->graph->ops[o], &stacked);
    }
    qsort(p->wanted, count, sizeof *p->wanted, compare_numbers);
    for (uint32_t i = 0; i < count; i++)
        clone_op(p, p->wanted[i]);
}

/* Clones all ops that run again, in the order of the forward pass. */
static void clone_all(bgi_repeater *p)
{
    for (uint32_t o = 0; o < p->op_count; o++) {
        const bgi_op *op = &p->graph->ops[o];
        const uint32_t stage = bgi_op_stage(p->r->stages, op);
        uint32_t source;
        if (op->phase != BGI_PHASE_FORWARD || op->output_count == 0)
            continue;
        /* the first output that is present decides for an op with absent outputs; a view is recomputed with its root */
        for (uint32_t i = 0; i < op->output_count; i++)
            if (op->outputs[i].id != 0 && takes_clone(p, stage, op->outputs[i], &source)) {
                p->out->stages[stage] = true;
                clone_op(p, o);
                break;
            }
    }
}

/* Puts the ops into the new order. */
static bool reorder(bgi_repeater *p)
{
    bg_graph *graph = p->graph;
    bgi_op *ops = malloc((graph->op_count + 1) * sizeof *ops);

    if (ops == NULL)
        return false;
    for (uint32_t o = 0; o < graph->op_count; o++) {
        ops[o] = graph->ops[p->order[o]];
        for (uint32_t i = 0; i < ops[o].output_count; i++)
            if (ops[o].outputs[i].id != 0)
                graph->values[ops[o].outputs[i].id].op = o;
    }
    memcpy(graph->ops, ops, graph->op_count * sizeof *ops);
    free(ops);
    return true;
}

static bg_status repeat(bgi_repeater *p, bg_recompute_order order, bg_error *error)
{
    bool is_begun = false;

    p->graph->phase = order == BG_RECOMPUTE_THEN ? BGI_PHASE_RECOMPUTE : BGI_PHASE_BACKWARD;
    for (uint32_t o = 0; o < p->op_count; o++) {
        const bgi_op op = p->graph->ops[o];
        if (op.phase == BGI_PHASE_BACKWARD || op.phase == BGI_PHASE_WEIGHTS) {
            if (order == BG_RECOMPUTE_INTERLEAVED)
                clone_for(p, &op);
            else if (!is_begun)
                clone_all(p);
            is_begun = true;
            BGI_TRY(bg_graph_check(p->graph, error));
            read_clones(p, bgi_op_stage(p->r->stages, &op), &op, op.inputs);
        }
        p->order[p->order_count++] = o;
    }
    if (!reorder(p))
        return bgi_error_memory(error, "recomputation", p->graph->op_count);
    return bgi_graph_verify(p->graph, error);
}

bg_status bgi_recompute_apply(bgi_recompute *recompute, bg_graph *graph, const bool *is_kept, bg_recompute_order order,
                              bgi_recomputed *out, bg_error *error)
{
    bgi_repeater p = {.r = recompute, .graph = graph, .op_count = graph->op_count, .out = out};
    bgi_arena scratch = {0};
    bg_status status;

    p.is_repeated = bgi_arena_allocate(&scratch, graph->op_count, sizeof *p.is_repeated);
    p.is_wanted = bgi_arena_allocate(&scratch, graph->op_count, sizeof *p.is_wanted);
    p.clones = bgi_arena_allocate(&scratch, graph->value_count, sizeof *p.clones);
    p.order = bgi_arena_allocate(&scratch, 2 * graph->op_count, sizeof *p.order);
    p.wanted = bgi_arena_allocate(&scratch, graph->op_count, sizeof *p.wanted);
    p.stack = bgi_arena_allocate(&scratch, graph->op_count, sizeof *p.stack);
    if (p.is_repeated == NULL || p.is_wanted == NULL || p.clones == NULL || p.order == NULL || p.wanted == NULL ||
        p.stack == NULL) {
        bgi_arena_clear(&scratch);
        return bgi_error_memory(error, "recomputation", graph->op_count);
    }
    out->op_count = 0;
    out->ns = 0.0;
    for (uint32_t stage = 0; stage < recompute->stages->stage_count; stage++) {
        out->stages[stage] = false;
        bgi_recompute_measure(recompute, stage, is_kept, p.is_repeated);
    }
    status = repeat(&p, order, error);
    bgi_arena_clear(&scratch);
    return status;
}
