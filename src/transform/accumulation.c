/*
 * accumulation.c: combines the gradients of a step's micro-batches.
 *
 *     sum, mean      s += g                               s x scale in the update
 *     running mean   s = s n/(n+c) + g c/(n+c)            n: weight so far, c: this micro-batch's
 *
 * Needs: gradients of one micro-batch. Does: adds accumulators, the accumulate ops and the scale. A mean weights
 * micro-batches by the number of elements that their loss counted (label by label). So the mean does not depend on how
 * a batch is split into micro-batches or over replicas. The pass accumulates gradients of sums and the total of counts,
 * and the update multiplies by 1 / total. A running mean accumulates gradients of means, and never exceeds the largest
 * of them. Its factors are computed once a micro-batch, in the loss's block, and are sent to earlier stages like a
 * gradient. With several replicas the last micro-batch gives s x n instead, so that the sum over replicas times 1 /
 * total weights all micro-batches in the same way.
 *
 * A loss whose terms are averaged over different elements (loss_terms.c) has accumulators and a scale for each term:
 *
 *     update reads  s0 x scale0 + s1 x scale1 + ...
 *
 * The counts are known only after the last micro-batch, so one weighted sum cannot replace the terms.
 *
 * With canonical reductions, sums and totals are trees over micro-batches; counts of an automatic loss scale are whole
 * numbers in float64, whose sum does not depend on the order.
 */
#include "core/error.h"
#include "core/narrow.h"
#include "ops/ops.h"
#include "ops/shape.h"
#include "transform/training.h"

static bool is_running(const bgi_trainer *trainer)
{
    return trainer->options->numerics.accumulation == BG_ACCUMULATE_MEAN_RUNNING;
}

uint32_t bgi_count_data_replicas(const bgi_trainer *trainer)
{
    return bgi_graph_data_replicas(trainer->graph, trainer->options->replicas.count);
}

static bool sums_replicas(const bg_options *options)
{
    return options->replicas.replica_reduction == BG_REPLICAS_SUM ||
           (options->replicas.replica_reduction == BG_REPLICAS_LIKE_ACCUMULATION &&
            options->numerics.accumulation == BG_ACCUMULATE_SUM);
}

/* ---- the backward phase ---- */

/* Enters the block of the op that computes the term's weight or, if the term has no weight, its loss. */
static void enter_term_block(const bgi_trainer *trainer, uint32_t term)
{
    const bgi_loss_term *of = &trainer->terms[term];
    const bg_value known = bg_value_is_null(of->weight) ? of->loss : of->weight;

    trainer->graph->current_block = trainer->graph->ops[bgi_graph_value(trainer->graph, known)->op].block;
}

/* Returns "name" for the first term, "name1" for the next. */
static const char *name_of_term(const bgi_trainer *trainer, const char *name, uint32_t term)
{
    const char *numbered = term == 0 ? name : bgi_arena_format(&trainer->graph->arena, "%s%u", name, (unsigned)term);

    return numbered != NULL ? numbered : name;
}

static bg_value add_total(bgi_trainer *trainer, uint32_t term)
{
    const bg_type scalar = bg_scalar(BG_FLOAT32);

    enter_term_block(trainer, term);
    return bg_graph_variable(trainer->graph, name_of_term(trainer, "loss.total_weight", term), &scalar,
                             BG_ROLE_ACCUMULATOR, NULL);
}

static bg_status choose_dtype(const bgi_trainer *trainer, bg_value parameter, bg_dtype *out, bg_error *error)
{
    const bg_options *options = trainer->options;
    const char *name = bg_graph_name(trainer->graph, parameter);
    const bg_type type = bg_graph_type(trainer->graph, parameter);

    *out = bgi_dtype_is_narrow(type.dtype) ? BG_FLOAT32 : type.dtype;
    if (options->numerics.accumulator_type == BG_ACCUMULATOR_SAME)
        *out = type.dtype;
    else if (options->numerics.accumulator_type == BG_ACCUMULATOR_GIVEN)
        *out = options->numerics.accumulator_dtype;
    else if (options->numerics.accumulator_type == BG_ACCUMULATOR_CALLBACK)
        *out = options->numerics.choose_accumulator(options->numerics.choose_accumulator_user, name, &type);
    if (!bg_dtype_is_float(*out))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "accumulator of `%s`: the callback chose %s; it must be float32, bfloat16, float16 or float64", name,
            bg_dtype_name(*out));
    if (*out != type.dtype && !options->numerics.cast_gradients)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "parameter `%s` is %s and its accumulator is %s, so the optimizer would get gradients of "
                            "another type; set cast_gradients, or use BG_ACCUMULATOR_SAME",
                            name, bg_dtype_name(type.dtype), bg_dtype_name(*out));
    return BG_OK;
}

/* Returns whether every value of type `from` is exactly representable in type `to`. */
static bool is_exact(bg_dtype from, bg_dtype to)
{
    return from == to || to == BG_FLOAT64 || (to == BG_FLOAT32 && bgi_dtype_is_narrow(from));
}

/* Adds `gradient` to the accumulator once a micro-batch, in a tree when the reductions are canonical. A tree of two
 * leaves that the accumulator's type represents exactly is a plain sum, which the op that makes the gradient may do
 * (fuse_accumulation.c). */
static void accumulate(const bgi_trainer *trainer, const char *name, bg_value accumulator, bg_value gradient,
                       bg_value factors)
{
    bg_graph *graph = trainer->graph;
    const uint32_t micro_batches = trainer->options->execution.gradient_accumulation;
    const bg_type type = bg_graph_type(graph, accumulator);
    bg_type partials_type;
    bg_value partials = {0};

    if (!trainer->options->numerics.canonical_reductions || micro_batches == 1 ||
        (micro_batches == 2 && is_exact(bg_graph_type(graph, gradient).dtype, type.dtype))) {
        bgi_accumulate(graph, name, accumulator, gradient, factors);
        return;
    }
    if (bgi_tree_partials(&type, micro_batches, &partials_type)) {
        partials = bgi_add_training_variable(graph, bg_graph_name(graph, accumulator), "partials", &partials_type,
                                             BG_ROLE_ACCUMULATOR, (bg_value){0});
        if (!bg_value_is_null(partials))
            graph->values[partials.id].is_partial = true;
    }
    bgi_accumulate_tree(graph, name, accumulator, gradient, partials, micro_batches);
}

/* Returns whether gradient i is the first of several gradients of its parameter, and is kept in rows. */
static bool is_kept_in_rows(const bgi_trainer *trainer, const bgi_parameter_gradient *gradients, uint32_t count,
                            uint32_t i, const bg_type *kept)
{
    const uint32_t parameter = gradients[i].parameter.id;
    const bool is_first = i == 0 || gradients[i - 1].parameter.id != parameter;

    return is_first && i + 1 < count && gradients[i + 1].parameter.id == parameter &&
           bgi_count_data_replicas(trainer) == 1 && !trainer->options->numerics.canonical_reductions &&
           bgi_gradient_is_kept_in_rows(trainer, &gradients[i], kept);
}

/* Adds the accumulator of a parameter's gradient i, from one term in one block. */
static bg_status add_accumulator(bgi_trainer *trainer, const bgi_parameter_gradient *gradients, uint32_t count,
                                 uint32_t i, bgi_accumulator *out, bg_error *error)
{
    const bgi_parameter_gradient *g = &gradients[i];
    bg_graph *graph = trainer->graph;
    const char *suffix = bgi_arena_format(&graph->arena, "%s.%s", name_of_term(trainer, "accumulator", g->term),
                                          graph->blocks[g->block].name);
    bg_type type = bg_graph_type(graph, g->parameter);

    BGI_TRY(choose_dtype(trainer, g->parameter, &type.dtype, error));
    if (suffix == NULL)
        return bgi_error_memory(error, "a name", 0);
    if (is_kept_in_rows(trainer, gradients, count, i, &type))
        return bgi_accumulate_rows(trainer, g, &type, suffix, out, error);
    out->gradient = bgi_add_training_variable(graph, bg_graph_name(graph, g->parameter), suffix, &type,
                                              BG_ROLE_ACCUMULATOR, g->parameter);
    graph->current_block = g->block;
    accumulate(trainer, NULL, out->gradient, g->gradient, trainer->averages[g->term].factors);
    return BG_OK;
}

bg_status bgi_add_accumulators(bgi_trainer *trainer, const bgi_parameter_gradient *gradients, uint32_t count,
                               bgi_accumulator *out_accumulators, bg_error *error)
{
    for (uint32_t t = 0; is_running(trainer) && t < trainer->term_count; t++) {
        bgi_term_average *average = &trainer->averages[t];
        average->total = add_total(trainer, t);
        average->factors = bgi_running_factors(trainer->graph, "loss.shares", average->total, trainer->terms[t].weight,
                                               trainer->options->execution.gradient_accumulation,
                                               bgi_count_data_replicas(trainer) > 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        BGI_TRY(add_accumulator(trainer, gradients, count, i, &out_accumulators[i], error));
        out_accumulators[i].counts = bgi_count_gradient(trainer, &gradients[i]);
    }
    return BG_OK;
}

/* ---- the update ---- */

static bg_value add_constant_scale(bgi_trainer *trainer, double divisor)
{
    const bg_type scalar = bg_scalar(BG_FLOAT32);
    const float scale = 1.0f / (float)divisor;

    return bg_graph_constant(trainer->graph, "gradient.scale", &scalar, &scale);
}

/* Adds the scale of a term's gradients and returns it: 1 / total count for a mean and 1 for a sum, divided by
 * `scaling`. Accumulators of several replicas hold sums over the replicas. */
static bg_value add_term_scale(bgi_trainer *trainer, uint32_t term, double scaling)
{
    const bg_options *options = trainer->options;
    const double replicas = bgi_count_data_replicas(trainer), averaged = sums_replicas(options) ? 1.0 : replicas;
    const bool is_counted = !bg_value_is_null(trainer->terms[term].weight);
    bgi_term_average *average = &trainer->averages[term];
    bg_graph *graph = trainer->graph;

    enter_term_block(trainer, term);
    if (options->numerics.accumulation == BG_ACCUMULATE_SUM ||
        (is_running(trainer) && bgi_count_data_replicas(trainer) == 1))
        return add_constant_scale(trainer, averaged * scaling);
    if (!is_running(trainer) && !is_counted)
        return add_constant_scale(trainer, (double)options->execution.gradient_accumulation * averaged * scaling);
    if (!is_running(trainer)) {
        graph->phase = BGI_PHASE_BACKWARD;
        average->total = add_total(trainer, term);
        accumulate(trainer, "loss.count", average->total, trainer->terms[term].weight, (bg_value){0});
    }
    graph->phase = BGI_PHASE_UPDATE;
    return bgi_total_scale(graph, "gradient.scale", average->total,
                           (sums_replicas(options) ? replicas : 1.0) / scaling);
}

/* Adds the scales of gradients. The loss scale is removed before the norm of gradients is bounded and before the
 * optimizer reads them. Terms that are averaged differently get their scales first, so that one common scale
 * remains. */
void bgi_add_scale(bgi_trainer *trainer)
{
    const bg_options *options = trainer->options;
    const double scaling =
        options->numerics.auto_loss_scaling.enabled
            ? 1.0
            : options->numerics.loss_scaling; /* if it is enabled, loss_scaling.c removes the scale */

    if (trainer->term_count == 1) {
        trainer->scale = add_term_scale(trainer, 0, scaling);
        return;
    }
    for (uint32_t t = 0; t < trainer->term_count; t++)
        trainer->averages[t].scale = add_term_scale(trainer, t, 1.0);
    trainer->scale = add_constant_scale(trainer, scaling);
}

bg_value bgi_add_terms(bgi_trainer *trainer, bg_value parameter, const bg_value *gradients)
{
    bg_value values[BGI_MOST_LOSS_TERMS], scales[BGI_MOST_LOSS_TERMS];
    const bg_dtype kept = bg_graph_type(trainer->graph, parameter).dtype;
    uint32_t count = 0;

    if (trainer->term_count == 1)
        return gradients[0];
    for (uint32_t t = 0; t < trainer->term_count; t++)
        if (!bg_value_is_null(gradients[t])) {
            values[count] = gradients[t];
            scales[count++] = trainer->averages[t].scale;
        }
    return bgi_scaled_sum(trainer->graph, NULL, values, scales, count,
                          trainer->options->numerics.cast_gradients ? bgi_statistics_dtype(kept) : kept);
}
