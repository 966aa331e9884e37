/*
 * training.c: turns gradients into training.
 *
 *     d w (one micro-batch)   =>   accumulate(w.accumulator, d w)                         once a micro-batch
 *                                  update(w, w.accumulator, hyper, scale, state...)       once a step
 *
 * needs: a forward graph with a loss. does: differentiates; gives each parameter one accumulator a block that uses it
 * (accumulation.c); sums those in block order; adapts the loss's scale (loss_scaling.c) and bounds their norm
 * (clipping.c) when asked; appends the optimiser's
 * update in the block that uses the parameter first. With offloaded state the update is wrapped in a load and a store.
 * keeps: everything that was there.
 */
#include "transform/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/error.h"
#include "core/narrow.h"
#include "ops/ops.h"

bg_value bgi_add_training_variable(bg_graph *graph, const char *name, const char *suffix, const bg_type *type,
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

void bgi_enter_loss_block(const bgi_trainer *trainer)
{
    bg_graph *graph = trainer->graph;
    const bg_value counted = bg_value_is_null(trainer->weight) ? trainer->loss : trainer->weight;

    graph->current_block = graph->ops[bgi_graph_value(graph, counted)->op].block;
}

/* ---- updates ---- */

/* The optimiser's state of one parameter: where it lives, and where the update finds it. */
typedef struct update_state {
    bg_value home[3], loaded[3];
    uint32_t count;
} update_state;

static bg_value load_state(bgi_trainer *trainer, bg_value state)
{
    const bgi_value *value = bgi_graph_value(trainer->graph, state);

    if (bg_value_is_null(state) ||
        bgi_find_location(trainer->options, BG_LOCATION_STATE, value->name, bg_type_element_count(&value->type))
                .place != BG_PLACE_REMOTE)
        return state;
    trainer->graph->values[state.id].is_remote = true;
    return bg_graph_add(trainer->graph, &bgi_op_load, NULL, &state, 1, NULL, NULL);
}

/* float32, float64 for float64; 16 bits when asked, for what is no float64. Returns it where the update finds it. */
static bg_value add_state(bgi_trainer *trainer, update_state *state, bg_value parameter, const char *suffix,
                          bg_dtype asked)
{
    const uint32_t i = state->count++;
    bg_type type = bg_graph_type(trainer->graph, parameter);

    if (type.dtype != BG_FLOAT64)
        type.dtype = asked == BG_DTYPE_NONE ? BG_FLOAT32 : asked;
    state->home[i] = bgi_add_training_variable(trainer->graph, bg_graph_name(trainer->graph, parameter), suffix, &type,
                                               BG_ROLE_STATE, parameter);
    state->loaded[i] = load_state(trainer, state->home[i]);
    return state->loaded[i];
}

static void store_state(bgi_trainer *trainer, const update_state *state)
{
    for (uint32_t i = 0; i < state->count; i++) {
        const bg_value operands[] = {state->home[i], state->loaded[i]};

        if (operands[0].id != operands[1].id)
            bg_graph_add(trainer->graph, &bgi_op_store, NULL, operands, 2, NULL, NULL);
    }
}

/* Chances go by the parameter's name, so that they do not depend on what else is trained. */
static bgi_rounding describe_rounding(const bgi_trainer *trainer, bg_value parameter)
{
    const bg_type type = bg_graph_type(trainer->graph, parameter);
    const char *name = bg_graph_name(trainer->graph, parameter);
    const int64_t elements = bg_type_element_count(&type);
    const uint32_t replicas = bgi_graph_data_replicas(trainer->graph, trainer->options->replicas);

    if (!trainer->options->stochastic_rounding)
        return (bgi_rounding){0};
    return (bgi_rounding){.elements = elements,
                          .piece = (elements + replicas - 1) / replicas,
                          .random_id = bgi_crc32c(name, strlen(name)),
                          .axes = bgi_find_cut(trainer->graph, parameter)};
}

static void add_sgd(bgi_trainer *trainer, update_state *state, const bgi_final_gradient *final, bool without_decay)
{
    const bgi_sgd_attributes attributes = {.rounding = describe_rounding(trainer, final->parameter),
                                           .nesterov = trainer->optimiser->nesterov,
                                           .combined = trainer->optimiser->combined,
                                           .without_decay = without_decay};
    bg_value velocity = {0};

    if (trainer->optimiser->momentum != 0.0)
        velocity = add_state(trainer, state, final->parameter, "momentum_buffer", trainer->options->first_moment_dtype);
    bgi_sgd_update(trainer->graph, NULL, final->parameter, final->gradient, trainer->hyper, trainer->scale, velocity,
                   &attributes);
}

static void add_adam(bgi_trainer *trainer, update_state *state, const bgi_final_gradient *final, bool without_decay)
{
    const bg_optimiser *optimiser = trainer->optimiser;
    const bgi_adam_attributes attributes = {.rounding = describe_rounding(trainer, final->parameter),
                                            .decoupled_decay = optimiser->kind == BG_ADAMW,
                                            .maximum = optimiser->kind == BG_ADAMAX,
                                            .uncorrected = optimiser->uncorrected,
                                            .without_decay = without_decay};
    const bg_value m = add_state(trainer, state, final->parameter, "exp_avg", trainer->options->first_moment_dtype);
    const bg_value v = add_state(trainer, state, final->parameter, attributes.maximum ? "exp_inf" : "exp_avg_sq",
                                 trainer->options->second_moment_dtype);

    bgi_adam_update(trainer->graph, NULL, final->parameter, final->gradient, trainer->hyper, trainer->scale, m, v,
                    &attributes);
}

static bgi_rmsprop_rule find_rule(bg_optimiser_kind kind)
{
    return kind == BG_ADAGRAD ? BGI_RULE_ADAGRAD : kind == BG_ADADELTA ? BGI_RULE_ADADELTA : BGI_RULE_RMSPROP;
}

static void add_rmsprop(bgi_trainer *trainer, update_state *state, const bgi_final_gradient *final, bool without_decay)
{
    const bg_optimiser *optimiser = trainer->optimiser;
    const bool is_rmsprop = optimiser->kind == BG_RMSPROP;
    const bgi_rmsprop_attributes attributes = {.rounding = describe_rounding(trainer, final->parameter),
                                               .rule = find_rule(optimiser->kind),
                                               .centred = is_rmsprop && optimiser->centred,
                                               .tf_variant = is_rmsprop && optimiser->tf_variant,
                                               .without_decay = without_decay};
    const bg_dtype first = trainer->options->first_moment_dtype, second = trainer->options->second_moment_dtype;
    const bg_value square =
        add_state(trainer, state, final->parameter, attributes.rule == BGI_RULE_ADAGRAD ? "sum" : "square_avg", second);
    bg_value mean = {0}, velocity = {0};

    if (attributes.centred)
        mean = add_state(trainer, state, final->parameter, "grad_avg", first);
    if (attributes.rule == BGI_RULE_ADADELTA)
        mean = add_state(trainer, state, final->parameter, "acc_delta", second);
    if (is_rmsprop && optimiser->momentum != 0.0)
        velocity = add_state(trainer, state, final->parameter, "momentum_buffer", first);
    bgi_rmsprop_update(trainer->graph, NULL, final->parameter, final->gradient, trainer->hyper, trainer->scale, square,
                       mean, velocity, &attributes);
}

/* With the state in pieces each replica has the norms of its piece: the largest over the replicas is all of them. Of a
 * parameter that a mesh cuts, the parts' squares are then added up. */
static void add_lamb(bgi_trainer *trainer, update_state *state, const bgi_final_gradient *final, bool without_decay)
{
    bg_graph *graph = trainer->graph;
    const bg_type type = bg_graph_type(graph, final->parameter);
    const uint32_t replicas = bgi_graph_data_replicas(graph, trainer->options->replicas);
    bgi_lamb_attributes attributes = bgi_lamb_describe(&type, replicas, trainer->optimiser->uncorrected, without_decay);
    const bg_value m = add_state(trainer, state, final->parameter, "exp_avg", trainer->options->first_moment_dtype);
    const bg_value v = add_state(trainer, state, final->parameter, "exp_avg_sq", trainer->options->second_moment_dtype);
    const uint32_t cut = bgi_find_cut(graph, final->parameter);
    bg_value squares;

    attributes.rounding = describe_rounding(trainer, final->parameter);
    squares = bgi_lamb_moments(graph, NULL, final->parameter, final->gradient, trainer->hyper, trainer->scale, m, v,
                               &attributes);

    if (bgi_find_location(trainer->options, BG_LOCATION_STATE, bg_graph_name(graph, state->home[0]),
                          attributes.elements)
            .sharded)
        squares = bgi_all_reduce_data(graph, NULL, squares, BG_REDUCE_MAX, replicas);
    if (cut != 0)
        squares = bg_all_reduce(graph, NULL, squares, BG_REDUCE_SUM, cut);
    bgi_lamb_update(graph, NULL, final->parameter, squares, trainer->hyper, m, v, &attributes);
}

/* State has torch.optim's names. */
static void add_update(bgi_trainer *trainer, const bgi_final_gradient *final)
{
    const bool without_decay =
        trainer->optimiser->decay_matrices_only && bg_graph_type(trainer->graph, final->parameter).rank < 2;
    update_state state = {.count = 0};

    switch (trainer->optimiser->kind) {
    case BG_SGD:
        add_sgd(trainer, &state, final, without_decay);
        break;
    case BG_ADAM:
    case BG_ADAMW:
    case BG_ADAMAX:
        add_adam(trainer, &state, final, without_decay);
        break;
    case BG_LAMB:
        add_lamb(trainer, &state, final, without_decay);
        break;
    case BG_RMSPROP:
    case BG_ADAGRAD:
    case BG_ADADELTA:
        add_rmsprop(trainer, &state, final, without_decay);
        break;
    }
    store_state(trainer, &state);
}

/* One gradient a parameter: its accumulators' sum, in block order. `room` is for as many values as accumulators. */
static uint32_t sum_blocks(bgi_trainer *trainer, const bgi_parameter_gradient *gradients,
                           const bgi_accumulator *accumulators, uint32_t count, bg_value *room, bgi_final_gradient *out)
{
    bg_graph *graph = trainer->graph;
    uint32_t parameters = 0;

    for (uint32_t i = 0, end; i < count; i = end) {
        bgi_final_gradient *sum = &out[parameters++];
        *sum = (bgi_final_gradient){.parameter = gradients[i].parameter, .block = gradients[i].block};
        graph->current_block = gradients[i].block;
        for (end = i; end < count && gradients[end].parameter.id == sum->parameter.id; end++)
            room[end - i] = accumulators[end].gradient;
        sum->gradient = bgi_add_n(graph, NULL, room, end - i);
        if (bg_value_is_null(accumulators[i].counts))
            continue;
        for (uint32_t j = i; j < end; j++)
            room[j - i] = accumulators[j].counts;
        sum->counts = bgi_add_n(graph, NULL, room, end - i);
    }
    return parameters;
}

static bg_status add_updates(bgi_trainer *trainer, const bgi_parameter_gradient *gradients,
                             const bgi_accumulator *accumulators, uint32_t count, bg_error *error)
{
    bg_graph *graph = trainer->graph;
    bgi_final_gradient *final = calloc(count + 1, sizeof *final);
    bg_value *room = calloc(count + 1, sizeof *room);
    uint32_t parameters = 0;
    bg_status status = BG_OK;

    if (final == NULL || room == NULL)
        status = bgi_error_memory(error, "gradients", count * sizeof *final);
    graph->phase = BGI_PHASE_UPDATE;
    if (status == BG_OK) {
        parameters = sum_blocks(trainer, gradients, accumulators, count, room, final);
        status = bg_graph_check(graph, error);
    }
    free(room);
    if (status == BG_OK)
        status = bgi_adapt_loss_scale(trainer, final, parameters, error);
    if (status == BG_OK)
        status = bgi_clip_gradients(trainer, final, parameters, error);
    for (uint32_t i = 0; status == BG_OK && i < parameters; i++) {
        graph->current_block = final[i].block;
        add_update(trainer, &final[i]);
        status = bg_graph_check(graph, error);
    }
    free(final);
    return status;
}

/* ---- all of it ---- */

static void warn(const bg_options *options, const char *text)
{
    if (options->log != NULL)
        options->log(options->log_user, BG_LOG_WARNING, text);
}

static bool keeps_16_bits(const bg_graph *graph)
{
    for (size_t v = 1; v < graph->value_count; v++) {
        const bgi_value *value = &graph->values[v];

        if (value->kind == BGI_VALUE_VARIABLE && bgi_dtype_is_narrow(value->type.dtype) &&
            (value->role == BG_ROLE_PARAMETER || value->role == BG_ROLE_STATE))
            return true;
    }
    return false;
}

/* What was asked for and has no effect. */
static void warn_of_what_is_idle(const bgi_trainer *trainer)
{
    const bg_optimiser *optimiser = trainer->optimiser;
    char text[192];

    if (trainer->options->stochastic_rounding && !keeps_16_bits(trainer->graph))
        warn(trainer->options,
             "stochastic rounding changes nothing: neither weights nor the optimiser's state are kept "
             "in 16 bits; keep them so, or leave it off");
    if (optimiser->kind == BG_SGD && !optimiser->combined && optimiser->velocity_scaling != 1.0 &&
        optimiser->velocity_scaling != 0.0) {
        snprintf(text, sizeof text,
                 "velocity_scaling %g is ignored: gradients and velocities are separate; it is of the combined variant",
                 optimiser->velocity_scaling);
        warn(trainer->options, text);
    }
}

/* Training accumulates by itself: accumulators that a model brings would be added to twice. */
static bg_status refuse_accumulators(const bg_graph *graph, bg_error *error)
{
    for (size_t v = 1; v < graph->value_count; v++)
        if (graph->values[v].kind == BGI_VALUE_VARIABLE && graph->values[v].role == BG_ROLE_ACCUMULATOR)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "the model has an accumulator of its own, `%s`: training already accumulates gradients "
                                "over options.gradient_accumulation micro-batches; leave it out",
                                graph->values[v].name);
    return BG_OK;
}

/* The weight of a micro-batch's mean; a sum takes no notice of counts. */
static bg_value find_weight(const bgi_trainer *trainer)
{
    bool is_mixed = false;
    bg_value weight = {0};

    if (trainer->options->accumulation == BG_ACCUMULATE_SUM || trainer->loss.id >= trainer->graph->value_count)
        return weight;
    weight = bgi_find_loss_weight(trainer->graph, trainer->loss, &is_mixed);
    if (!is_mixed)
        return weight;
    warn(trainer->options,
         "the loss combines means over different numbers of elements: each micro-batch counts the same, however many "
         "elements it counted");
    return (bg_value){0};
}

bg_status bgi_make_training(bg_graph *graph, bg_value loss, const bg_optimiser *optimiser, const bg_options *options,
                            bg_error *error)
{
    const bg_type hyper_type = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT);
    bgi_trainer trainer = {.graph = graph, .optimiser = optimiser, .options = options, .loss = loss};
    bgi_parameter_gradient *gradients = NULL;
    bgi_accumulator *accumulators = NULL;
    bg_value seed_weight;
    uint32_t count = 0;
    bg_status status;

    BGI_TRY_CLEANUP(refuse_accumulators(graph, error));
    trainer.weight = find_weight(&trainer);
    bgi_add_loss_scale(&trainer);
    BGI_TRY_CLEANUP(bgi_differentiate(graph, loss, options->accumulation == BG_ACCUMULATE_MEAN, options->loss_scaling,
                                      trainer.loss_scale, &gradients, &count, &seed_weight, error));
    accumulators = calloc(count + 1, sizeof *accumulators);
    if (accumulators == NULL) {
        status = bgi_error_memory(error, "accumulators", count * sizeof *accumulators);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(bgi_add_accumulators(&trainer, gradients, count, accumulators, error));
    trainer.hyper = bg_graph_variable(graph, "optimiser.hyper", &hyper_type, BG_ROLE_HYPER, NULL);
    bgi_add_scale(&trainer);
    BGI_TRY_CLEANUP(bg_graph_check(graph, error));
    BGI_TRY_CLEANUP(add_updates(&trainer, gradients, accumulators, count, error));
    BGI_TRY_CLEANUP(bgi_graph_verify(graph, error));
    warn_of_what_is_idle(&trainer);
    status = BG_OK;
cleanup:
    free(gradients);
    free(accumulators);
    return status;
}
