/*
 * loss_terms.c: splits a loss into terms that are averaged over an update in different ways.
 *
 *     loss = 0.5 (cross_entropy(a) + mse) - cross_entropy(b)
 *
 *     terms:  0.5 cross_entropy(a)     averaged over the labels counted in a
 *             -cross_entropy(b)        averaged over the labels counted in b
 *             0.5 mse                  averaged over the micro-batches
 *
 * Needs: a forward graph with a scalar loss. Does: follows operands back from the loss through ops that are linear in a
 * mean (sums, scaling, negation, casts, reshapes, products with a factor that does not depend on the data). Each path
 * ends at a mean over a number of elements that is known only at run time (bg_op_type.weight_output). All other
 * summands together are one more term. Means over the same labels with the same ignored index share a term. If a term
 * needs a value that the graph does not have, forward ops of one element are added. Keeps: all ops and values. A mean
 * inside a nonlinear function has no average over micro-batches that equals the whole batch, so it is an error.
 */
#include "core/error.h"
#include "kernels/elementwise/attributes.h"
#include "kernels/loss/attributes.h"
#include "kernels/reduce/attributes.h"
#include "ops/ops.h"
#include "transform/transform.h"

typedef struct splitter {
    bg_graph *graph;
    bgi_arena scratch;
    size_t value_count, op_count; /* counts before the pass adds ops */
    /* By value id: */
    bool *trains;     /* depends on a parameter */
    bool *has_data;   /* depends on an input that is not a scalar */
    bool *is_counted; /* depends on a mean over counted elements */
    bool *is_summed;  /* a summand of the loss, or the loss */
    bg_value *parts;  /* the part of a summand that belongs to the current term; null: no part */
    bgi_loss_term *terms;
    uint32_t count;
    bool has_plain; /* a summand without a count depends on a parameter */
} splitter;

/* ---- what values depend on ---- */

static bool is_single(const bg_graph *graph, bg_value value)
{
    return bg_type_element_count(&bgi_graph_value(graph, value)->type) == 1;
}

/* Returns the value that has the number of elements over which `value` is a mean; null if `value` is not such a
 * mean. */
static bg_value find_count(const bg_graph *graph, bg_value value)
{
    const bgi_value *v = bgi_graph_value(graph, value);
    const bgi_op *op = v->kind == BGI_VALUE_RESULT ? &graph->ops[v->op] : NULL;

    if (op == NULL || op->type->weight_output >= op->output_count || v->output == op->type->weight_output ||
        !is_single(graph, value))
        return (bg_value){0};
    return op->outputs[op->type->weight_output];
}

static bool depends(const bool *set, const bgi_op *op)
{
    bool any = false;

    for (uint32_t i = 0; i < op->input_count; i++)
        any = any || set[op->inputs[i].id];
    return any;
}

static void find_dependences(splitter *s)
{
    const bg_graph *graph = s->graph;

    for (uint32_t v = 1; v < s->value_count; v++) {
        const bgi_value *value = &graph->values[v];
        s->trains[v] = value->kind == BGI_VALUE_VARIABLE && value->role == BG_ROLE_PARAMETER && !value->is_frozen;
        s->has_data[v] = value->kind == BGI_VALUE_INPUT && value->type.rank > 0;
    }
    for (size_t o = 0; o < s->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        const bool trains = op->type != &bgi_op_stop_gradient && depends(s->trains, op);
        const bool has_data = depends(s->has_data, op), is_counted = depends(s->is_counted, op);
        for (uint32_t i = 0; i < op->output_count; i++) {
            const uint32_t id = op->outputs[i].id;
            s->trains[id] =
                trains && (op->type->gradient != NULL || bg_dtype_is_float(bg_graph_type(graph, op->outputs[i]).dtype));
            s->has_data[id] = has_data;
            s->is_counted[id] = is_counted || (id != 0 && !bg_value_is_null(find_count(graph, op->outputs[i])));
        }
    }
    s->trains[0] = s->has_data[0] = s->is_counted[0] = false;
}

/* ---- the summands ---- */

static bool is_cross_entropy(const bgi_op *op)
{
    return op->type == &bgi_op_cross_entropy || op->type == &bgi_op_sharded_cross_entropy;
}

/* Returns the weights of the classes; null if all labels have the same weight. */
static bg_value find_class_weights(const bgi_op *op)
{
    return op->type == &bgi_op_cross_entropy && op->input_count > 2 ? op->inputs[2] : (bg_value){0};
}

static bool counts_the_same(const bg_graph *graph, bg_value a, bg_value b)
{
    const bgi_op *op_a = &graph->ops[bgi_graph_value(graph, a)->op], *op_b = &graph->ops[bgi_graph_value(graph, b)->op];
    const bgi_loss_attributes *of_a = op_a->attributes, *of_b = op_b->attributes;

    if (a.id == b.id)
        return true;
    return is_cross_entropy(op_a) && is_cross_entropy(op_b) && op_a->inputs[1].id == op_b->inputs[1].id &&
           of_a->ignore_index == of_b->ignore_index && find_class_weights(op_a).id == find_class_weights(op_b).id;
}

static bg_status add_term(splitter *s, bg_value count, bg_error *error)
{
    for (uint32_t t = 0; t < s->count; t++)
        if (counts_the_same(s->graph, s->terms[t].weight, count))
            return BG_OK;
    if (s->count == BGI_MOST_LOSS_TERMS - 1)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "the loss is a sum of means over more than %d different sets of labels; use fewer",
                            BGI_MOST_LOSS_TERMS - 1);
    s->terms[s->count++] = (bgi_loss_term){.weight = count};
    return BG_OK;
}

/* Returns whether the op has one operand and is linear in it. */
static bool is_linear(const bg_graph *graph, const bgi_op *op)
{
    if (op->type == &bgi_op_unary)
        return ((const bgi_unary_attributes *)op->attributes)->function == BG_NEGATE;
    if (op->type == &bgi_op_reduce)
        return is_single(graph, op->inputs[0]) &&
               (((const bgi_reduce_attributes *)op->attributes)->function == BG_REDUCE_SUM ||
                ((const bgi_reduce_attributes *)op->attributes)->function == BG_REDUCE_MEAN);
    return op->type == &bgi_op_scale || op->type == &bgi_op_reshape || op->type == &bgi_op_cast ||
           op->type == &bgi_op_copy;
}

static bool is_binary(const bgi_op *op, bg_binary function)
{
    return op->type == &bgi_op_binary && ((const bgi_binary_attributes *)op->attributes)->function == function;
}

static bool is_sum(const bgi_op *op)
{
    return is_binary(op, BG_ADD) || is_binary(op, BG_SUBTRACT);
}

static bool is_factor(const splitter *s, bg_value value)
{
    return is_single(s->graph, value) && !s->is_counted[value.id] && !s->has_data[value.id];
}

/* Returns the index of the operand of a product (or quotient) that depends on means; UINT32_MAX if the other operand is
 * not a scalar that is independent of the data. */
static uint32_t find_multiplied(const splitter *s, const bgi_op *op)
{
    if (is_binary(op, BG_MULTIPLY) && s->is_counted[op->inputs[1].id] && is_factor(s, op->inputs[0]))
        return 1;
    if ((is_binary(op, BG_MULTIPLY) || is_binary(op, BG_DIVIDE)) && is_factor(s, op->inputs[1]))
        return 0;
    return UINT32_MAX;
}

static void add_summand(splitter *s, bg_value value)
{
    s->is_summed[value.id] = true;
    if (!s->is_counted[value.id])
        s->has_plain |= s->trains[value.id];
}

static bg_status refuse(const bgi_op *op, bg_error *error)
{
    return bg_error_set(
        error, BG_ERROR_UNSUPPORTED,
        "the loss has a mean over counted labels inside %s `%s`; such means may only be added, scaled and multiplied "
        "by values that do not depend on the data, because inside another function no average over micro-batches or "
        "replicas equals the loss of the whole batch. Train with one micro-batch an "
        "update, or accumulate sums",
        op->type->name, op->name);
}

static bg_status find_summands_of(splitter *s, bg_value value, bg_error *error)
{
    const bgi_op *op = &s->graph->ops[bgi_graph_value(s->graph, value)->op];
    const bg_value count = find_count(s->graph, value);

    if (!bg_value_is_null(count)) {
        if (depends(s->is_counted, op))
            return refuse(op, error);
        return s->trains[value.id] ? add_term(s, count, error) : BG_OK;
    }
    if (!is_single(s->graph, value))
        return refuse(op, error);
    if (is_sum(op)) {
        if (!is_single(s->graph, op->inputs[0]) || !is_single(s->graph, op->inputs[1]))
            return refuse(op, error);
        add_summand(s, op->inputs[0]);
        add_summand(s, op->inputs[1]);
        return BG_OK;
    }
    if (is_linear(s->graph, op)) {
        add_summand(s, op->inputs[0]);
        return BG_OK;
    }
    if (find_multiplied(s, op) == UINT32_MAX)
        return refuse(op, error);
    add_summand(s, op->inputs[find_multiplied(s, op)]);
    return BG_OK;
}

static bg_status find_summands(splitter *s, bg_value loss, bg_error *error)
{
    add_summand(s, loss);
    for (uint32_t v = (uint32_t)s->value_count; v-- > 1;)
        if (s->is_summed[v] && s->is_counted[v])
            BGI_TRY(find_summands_of(s, (bg_value){v}, error));
    return BG_OK;
}

/* ---- a term's loss ---- */

static bg_value add_part_of_sum(splitter *s, const bgi_op *op, bg_value value)
{
    const bg_value a = s->parts[op->inputs[0].id], b = s->parts[op->inputs[1].id];
    bg_graph *graph = s->graph;

    if (a.id == op->inputs[0].id && b.id == op->inputs[1].id)
        return value;
    if (bg_value_is_null(b))
        return a;
    if (bg_value_is_null(a))
        return is_binary(op, BG_ADD) ? b : bg_scale(graph, NULL, b, -1.0, 0.0);
    return bg_graph_add(graph, op->type, NULL, (const bg_value[]){a, b}, 2, op->attributes, NULL);
}

/* Returns the part of the value, a sum of means, that belongs to the current term; adds ops for it if necessary. */
static bg_value add_part(splitter *s, bg_value value)
{
    /* Adding an op may move the ops in memory. */
    const bgi_op op = s->graph->ops[bgi_graph_value(s->graph, value)->op];
    const uint32_t from = is_linear(s->graph, &op) ? 0 : find_multiplied(s, &op);
    bg_value inputs[2];

    s->graph->current_block = op.block;
    if (is_sum(&op))
        return add_part_of_sum(s, &op, value);
    inputs[0] = op.inputs[0];
    inputs[1] = op.input_count > 1 ? op.inputs[1] : (bg_value){0};
    inputs[from] = s->parts[op.inputs[from].id];
    if (bg_value_is_null(inputs[from]) || inputs[from].id == op.inputs[from].id)
        return bg_value_is_null(inputs[from]) ? inputs[from] : value;
    if (op.type == &bgi_op_reshape || op.type == &bgi_op_reduce)
        return inputs[from]; /* neither op changes the number */
    return bg_graph_add(s->graph, op.type, NULL, inputs, op.input_count, op.attributes, NULL);
}

static bg_status add_term_loss(splitter *s, bg_value loss, bgi_loss_term *term, bg_error *error)
{
    const bg_type type = bg_graph_type(s->graph, loss);

    for (uint32_t v = 1; v < s->value_count; v++) {
        const bg_value value = {v}, count = s->is_summed[v] ? find_count(s->graph, value) : (bg_value){0};
        bool is_of_term;

        if (!s->is_summed[v])
            continue;
        if (s->is_counted[v] && bg_value_is_null(count)) {
            s->parts[v] = add_part(s, value);
            continue;
        }
        is_of_term = bg_value_is_null(count) || bg_value_is_null(term->weight)
                         ? bg_value_is_null(count) && bg_value_is_null(term->weight)
                         : counts_the_same(s->graph, term->weight, count);
        s->parts[v] = is_of_term ? value : (bg_value){0};
    }
    s->graph->current_block = s->graph->ops[bgi_graph_value(s->graph, loss)->op].block;
    term->loss = bgi_reshape_to(s->graph, s->parts[loss.id], &type);
    return bg_graph_check(s->graph, error);
}

static bg_status take_scratch(splitter *s, bg_error *error)
{
    bool **const sets[] = {&s->trains, &s->has_data, &s->is_counted, &s->is_summed};
    bool is_complete;

    s->parts = bgi_arena_allocate(&s->scratch, s->value_count, sizeof *s->parts);
    is_complete = s->parts != NULL;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        *sets[i] = bgi_arena_allocate(&s->scratch, s->value_count, sizeof(bool));
        is_complete = is_complete && *sets[i] != NULL;
    }
    return is_complete ? BG_OK : bgi_error_memory(error, "terms of a loss", s->value_count * sizeof *s->parts);
}

static bg_status split(splitter *s, bg_value loss, bool may_split, uint32_t *out_count, bg_error *error)
{
    BGI_TRY(take_scratch(s, error));
    find_dependences(s);
    BGI_TRY(find_summands(s, loss, error));
    if (s->has_plain || s->count == 0)
        s->terms[s->count++] = (bgi_loss_term){.loss = {0}};
    if (s->count > 1 && !may_split) {
        s->terms[0] = (bgi_loss_term){.loss = {0}};
        s->count = 1;
    }
    if (s->count == 1)
        s->terms[0].loss = loss;
    for (uint32_t t = 0; s->count > 1 && t < s->count; t++)
        BGI_TRY(add_term_loss(s, loss, &s->terms[t], error));
    *out_count = s->count;
    return BG_OK;
}

bg_status bgi_split_loss(bg_graph *graph, bg_value loss, bool is_whole, bgi_loss_term *out_terms, uint32_t *out_count,
                         bg_error *error)
{
    splitter s = {.graph = graph, .value_count = graph->value_count, .op_count = graph->op_count, .terms = out_terms};
    const bgi_value *value = loss.id < graph->value_count ? bgi_graph_value(graph, loss) : NULL;
    bg_status status = BG_OK;

    out_terms[0] = (bgi_loss_term){.loss = loss};
    *out_count = 1;
    /* Differentiation reports the other errors. */
    if (value != NULL && value->kind == BGI_VALUE_RESULT && value->type.rank == 0)
        status = split(&s, loss, !is_whole, out_count, error);
    bgi_arena_clear(&s.scratch);
    if (status == BG_OK || !is_whole || status == BG_ERROR_MEMORY)
        return status;
    bg_error_clear(error);
    out_terms[0] = (bgi_loss_term){.loss = loss};
    *out_count = 1;
    return BG_OK;
}
