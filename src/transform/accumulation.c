/*
 * accumulation.c: how the gradients of a step's micro-batches become one.
 *
 *     sum, mean      s += g                               s x scale in the update
 *     running mean   s = s n/(n+c) + g c/(n+c)            n: weight so far, c: this micro-batch's
 *
 * needs: gradients of one micro-batch. does: adds accumulators, the accumulate ops and the scale. A mean weights
 * micro-batches by the number of elements that their loss counted (label by label), so that splitting a batch
 * differently, or over replicas, gives the mean over the whole: gradients of sums are accumulated beside the total of
 * counts, and the update multiplies by 1 / total. A running mean takes gradients of means, and never exceeds the
 * largest of them: its shares are made once a micro-batch, in the loss's block, and travel back like a gradient. Over
 * several replicas its last micro-batch leaves s x n instead, so that the sum over replicas and 1 / total weight it the
 * same way.
 */
#include "core/error.h"
#include "core/narrow.h"
#include "ops/ops.h"
#include "transform/training.h"

static bool is_running(const bgi_trainer *trainer)
{
    return trainer->options->accumulation == BG_ACCUMULATE_MEAN_RUNNING;
}

/* Those whose gradients are added up. */
static uint32_t count_replicas(const bgi_trainer *trainer)
{
    return bgi_graph_data_replicas(trainer->graph, trainer->options->replicas);
}

static bool sums_replicas(const bg_options *options)
{
    return options->replica_reduction == BG_REPLICAS_SUM ||
           (options->replica_reduction == BG_REPLICAS_LIKE_ACCUMULATION && options->accumulation == BG_ACCUMULATE_SUM);
}

/* ---- the backward phase ---- */

static bg_value add_total(bgi_trainer *trainer)
{
    const bg_type scalar = bg_scalar(BG_FLOAT32);

    bgi_enter_loss_block(trainer);
    return bg_graph_variable(trainer->graph, "loss.total_weight", &scalar, BG_ROLE_ACCUMULATOR, NULL);
}

static bg_status choose_dtype(const bgi_trainer *trainer, bg_value parameter, bg_dtype *out, bg_error *error)
{
    const bg_options *options = trainer->options;
    const char *name = bg_graph_name(trainer->graph, parameter);
    const bg_type type = bg_graph_type(trainer->graph, parameter);

    *out = bgi_dtype_is_narrow(type.dtype) ? BG_FLOAT32 : type.dtype;
    if (options->accumulator_type == BG_ACCUMULATOR_SAME)
        *out = type.dtype;
    else if (options->accumulator_type == BG_ACCUMULATOR_GIVEN)
        *out = options->accumulator_dtype;
    else if (options->accumulator_type == BG_ACCUMULATOR_CALLBACK)
        *out = options->choose_accumulator(options->choose_accumulator_user, name, &type);
    if (!bg_dtype_is_float(*out))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "accumulator of `%s`: the callback chose %s; it must be float32, bfloat16, float16 or float64", name,
            bg_dtype_name(*out));
    if (*out != type.dtype && !options->cast_gradients)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "parameter `%s` is %s and its accumulator %s: the optimiser would get gradients of another "
                            "type; set cast_gradients, or take BG_ACCUMULATOR_SAME",
                            name, bg_dtype_name(type.dtype), bg_dtype_name(*out));
    return BG_OK;
}

/* The accumulator of a parameter's gradient in one block. */
static bg_status add_accumulator(bgi_trainer *trainer, const bgi_parameter_gradient *g, bg_value *out, bg_error *error)
{
    bg_graph *graph = trainer->graph;
    const char *suffix = bgi_arena_format(&graph->arena, "accumulator.%s", graph->blocks[g->block].name);
    bg_type type = bg_graph_type(graph, g->parameter);

    BGI_TRY(choose_dtype(trainer, g->parameter, &type.dtype, error));
    *out = bgi_add_training_variable(graph, bg_graph_name(graph, g->parameter), suffix != NULL ? suffix : "accumulator",
                                     &type, BG_ROLE_ACCUMULATOR, g->parameter);
    graph->current_block = g->block;
    bgi_accumulate(graph, NULL, *out, g->gradient, trainer->factors);
    return BG_OK;
}

bg_status bgi_add_accumulators(bgi_trainer *trainer, const bgi_parameter_gradient *gradients, uint32_t count,
                               bgi_accumulator *out_accumulators, bg_error *error)
{
    const bg_options *options = trainer->options;

    if (is_running(trainer)) {
        trainer->total = add_total(trainer);
        trainer->factors = bgi_running_factors(trainer->graph, "loss.shares", trainer->total, trainer->weight,
                                               options->gradient_accumulation, count_replicas(trainer) > 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        BGI_TRY(add_accumulator(trainer, &gradients[i], &out_accumulators[i].gradient, error));
        out_accumulators[i].counts = bgi_count_gradient(trainer, &gradients[i]);
    }
    return BG_OK;
}

/* ---- the update ---- */

static void add_constant_scale(bgi_trainer *trainer, double divisor)
{
    const bg_type scalar = bg_scalar(BG_FLOAT32);
    const float scale = 1.0f / (float)divisor;

    trainer->scale = bg_graph_constant(trainer->graph, "gradient.scale", &scalar, &scale);
}

/* 1 / total count for a mean, 1 for a sum; over replicas the accumulators hold sums. The loss's scaling is taken out
 * here, before the norm of gradients is bounded and before the optimiser sees them. */
void bgi_add_scale(bgi_trainer *trainer)
{
    const bg_options *options = trainer->options;
    const double scaling = options->auto_loss_scaling.enabled ? 1.0 : options->loss_scaling, /* else loss_scaling.c */
        replicas = count_replicas(trainer), averaged = sums_replicas(options) ? 1.0 : replicas;
    bg_graph *graph = trainer->graph;

    bgi_enter_loss_block(trainer);
    if (options->accumulation == BG_ACCUMULATE_SUM || (is_running(trainer) && count_replicas(trainer) == 1)) {
        add_constant_scale(trainer, averaged * scaling);
        return;
    }
    if (!is_running(trainer) && bg_value_is_null(trainer->weight)) {
        add_constant_scale(trainer, (double)options->gradient_accumulation * averaged * scaling);
        return;
    }
    if (!is_running(trainer)) {
        graph->phase = BGI_PHASE_BACKWARD;
        trainer->total = add_total(trainer);
        bgi_accumulate(graph, "loss.count", trainer->total, trainer->weight, (bg_value){0});
    }
    graph->phase = BGI_PHASE_UPDATE;
    trainer->scale =
        bgi_total_scale(graph, "gradient.scale", trainer->total, (sums_replicas(options) ? replicas : 1.0) / scaling);
}
