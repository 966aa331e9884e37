/*
 * training.c: turns gradients into training.
 *
 *     d w (one micro-batch)   =>   accumulate(w.accumulator, d w)                         once a micro-batch
 *                                  update(w, w.accumulator, hyper, scale, state...)       once a step
 *
 * needs: a forward graph with a loss. does: differentiates; gives each parameter one accumulator a block that uses it;
 * sums those in block order; appends the optimiser's update in the block that uses the parameter first. With offloaded
 * state the update is wrapped in a load and a store. keeps: everything that was there.
 *
 * 'mean' weights micro-batches by the number of elements that their loss counted (label by label), so that splitting a
 * batch differently, or over replicas, gives the mean over the whole: gradients of sums are accumulated beside the
 * total of counts, and the update multiplies by 1 / total.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "ops/ops.h"

typedef struct bgi_trainer {
    bg_graph *graph;
    const bg_optimiser *optimiser;
    bool offload;
    bg_value hyper;
    bg_value scale;
} bgi_trainer;

static bg_value add_variable(bg_graph *graph, const char *name, const char *suffix, const bg_type *type,
                             bg_variable_role role, bg_value owner)
{
    const char *full = bgi_arena_format(&graph->arena, "%s.%s", name, suffix);
    bg_value variable;

    if (full == NULL) {
        bg_graph_fail(graph, BG_ERROR_MEMORY, "out of memory for a name");
        return (bg_value){0};
    }
    variable = bg_graph_variable(graph, full, type, role, NULL);
    if (!bg_value_is_null(variable))
        graph->values[variable.id].owner = owner;
    return variable;
}

/* The accumulator of a parameter's gradient in one block; bfloat16 gradients are kept in float32. */
static bg_value add_accumulator(bg_graph *graph, const bgi_parameter_gradient *g)
{
    const char *parameter = bg_graph_name(graph, g->parameter);
    const char *suffix = bgi_arena_format(&graph->arena, "accumulator.%s", graph->blocks[g->block].name);
    bg_type type = bg_graph_type(graph, g->parameter);
    bg_value accumulator;

    if (type.dtype == BG_BFLOAT16)
        type.dtype = BG_FLOAT32;
    accumulator = add_variable(graph, parameter, suffix != NULL ? suffix : "accumulator", &type, BG_ROLE_ACCUMULATOR,
                               g->parameter);
    graph->current_block = g->block;
    bgi_accumulate(graph, NULL, accumulator, g->gradient);
    return accumulator;
}

/* The number that gradients are multiplied by: 1 / total count for a mean, 1 for a sum. */
static void add_scale(bgi_trainer *trainer, bg_value loss, bg_value weight, const bg_options *options)
{
    bg_graph *graph = trainer->graph;
    const bg_type scalar = bg_scalar(BG_FLOAT32);
    const bg_value counted = bg_value_is_null(weight) ? loss : weight;

    graph->current_block = graph->ops[bgi_graph_value(graph, counted)->op].block;
    if (options->accumulation == BG_ACCUMULATE_SUM || bg_value_is_null(weight)) {
        const float scale = options->accumulation == BG_ACCUMULATE_SUM
                                ? 1.0f
                                : 1.0f / (float)((double)options->gradient_accumulation * options->replicas);
        trainer->scale = bg_graph_constant(graph, "gradient.scale", &scalar, &scale);
        return;
    }
    graph->phase = BGI_PHASE_BACKWARD;
    trainer->scale = bg_graph_variable(graph, "loss.total_weight", &scalar, BG_ROLE_ACCUMULATOR, NULL);
    bgi_accumulate(graph, "loss.count", trainer->scale, weight);
    graph->phase = BGI_PHASE_UPDATE;
    trainer->scale = bgi_total_scale(graph, "gradient.scale", trainer->scale);
}

static bg_value load_state(bgi_trainer *trainer, bg_value state)
{
    if (!trainer->offload || bg_value_is_null(state))
        return state;
    trainer->graph->values[state.id].is_remote = true;
    return bg_graph_add(trainer->graph, &bgi_op_load, NULL, &state, 1, NULL, NULL);
}

static void store_state(bgi_trainer *trainer, bg_value state, bg_value loaded)
{
    const bg_value operands[] = {state, loaded};

    if (trainer->offload && !bg_value_is_null(state))
        bg_graph_add(trainer->graph, &bgi_op_store, NULL, operands, 2, NULL, NULL);
}

static void add_update(bgi_trainer *trainer, bg_value parameter, bg_value gradient)
{
    bg_graph *graph = trainer->graph;
    const bg_optimiser *optimiser = trainer->optimiser;
    const char *name = bg_graph_name(graph, parameter);
    bg_type type = bg_graph_type(graph, parameter);
    bg_value first = {0}, second = {0}, loaded_first, loaded_second;

    if (type.dtype == BG_BFLOAT16)
        type.dtype = BG_FLOAT32;
    if (optimiser->kind != BG_SGD) {
        first = add_variable(graph, name, "exp_avg", &type, BG_ROLE_STATE, parameter);
        second = add_variable(graph, name, "exp_avg_sq", &type, BG_ROLE_STATE, parameter);
    } else if (optimiser->momentum != 0.0) {
        first = add_variable(graph, name, "momentum_buffer", &type, BG_ROLE_STATE, parameter);
    }
    loaded_first = load_state(trainer, first);
    loaded_second = load_state(trainer, second);
    if (optimiser->kind == BG_SGD)
        bgi_sgd_update(graph, NULL, parameter, gradient, trainer->hyper, trainer->scale, loaded_first,
                       optimiser->nesterov);
    else
        bgi_adam_update(graph, NULL, parameter, gradient, trainer->hyper, trainer->scale, loaded_first, loaded_second,
                        optimiser->kind == BG_ADAMW);
    store_state(trainer, first, loaded_first);
    store_state(trainer, second, loaded_second);
}

static bg_status add_updates(bgi_trainer *trainer, const bgi_parameter_gradient *gradients,
                             const bg_value *accumulators, uint32_t count, bg_error *error)
{
    bg_graph *graph = trainer->graph;

    graph->phase = BGI_PHASE_UPDATE;
    for (uint32_t i = 0; i < count;) {
        uint32_t end = i + 1;
        while (end < count && gradients[end].parameter.id == gradients[i].parameter.id)
            end++;
        graph->current_block = gradients[i].block;
        add_update(trainer, gradients[i].parameter, bgi_add_n(graph, NULL, accumulators + i, end - i));
        BGI_TRY(bg_graph_check(graph, error));
        i = end;
    }
    return BG_OK;
}

static void warn_of_mixed_means(const bg_graph *graph, bg_value loss, const bg_options *options)
{
    bool is_mixed = false;

    if (options->accumulation != BG_ACCUMULATE_MEAN || options->log == NULL || loss.id >= graph->value_count)
        return;
    bgi_find_loss_weight(graph, loss, &is_mixed);
    if (is_mixed)
        options->log(options->log_user, BG_LOG_WARNING,
                     "the loss combines means over different numbers of elements: each micro-batch counts the same, "
                     "however many elements it counted");
}

bg_status bgi_make_training(bg_graph *graph, bg_value loss, const bg_optimiser *optimiser, const bg_options *options,
                            bg_error *error)
{
    const bg_type hyper_type = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT);
    bgi_trainer trainer = {.graph = graph, .optimiser = optimiser, .offload = options->offload_optimiser};
    bgi_parameter_gradient *gradients = NULL;
    bg_value *accumulators = NULL, weight = {0};
    uint32_t count = 0;
    bg_status status;

    warn_of_mixed_means(graph, loss, options);
    BGI_TRY_CLEANUP(bgi_differentiate(graph, loss, options->accumulation == BG_ACCUMULATE_MEAN, &gradients, &count,
                                      &weight, error));
    accumulators = calloc(count + 1, sizeof *accumulators);
    if (accumulators == NULL) {
        status = bgi_error_memory(error, "accumulators", count * sizeof *accumulators);
        goto cleanup;
    }
    for (uint32_t i = 0; i < count; i++)
        accumulators[i] = add_accumulator(graph, &gradients[i]);
    trainer.hyper = bg_graph_variable(graph, "optimiser.hyper", &hyper_type, BG_ROLE_HYPER, NULL);
    add_scale(&trainer, loss, weight, options);
    BGI_TRY_CLEANUP(bg_graph_check(graph, error));
    BGI_TRY_CLEANUP(add_updates(&trainer, gradients, accumulators, count, error));
    status = bgi_graph_verify(graph, error);
cleanup:
    free(gradients);
    free(accumulators);
    return status;
}
