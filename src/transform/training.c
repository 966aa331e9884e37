/*
 * training.c: turns a graph with gradients into a training graph.
 *
 *     d w (one micro-batch)   =>   accumulate(w.accumulator, d w)                         once a micro-batch
 *                                  update(w, w.accumulator, hyper, scale, state...)       once a step
 *
 * Needs: a forward graph with a loss. Does: differentiates each term of the loss that is averaged separately
 * (loss_terms.c). Gives each parameter one accumulator for each term and block that uses the parameter
 * (accumulation.c), and sums these accumulators in block order. As the options request, guards the loss (loss_guard.c),
 * adapts the loss scale (loss_scaling.c) and bounds the norm of gradients (clipping.c). Appends the optimizer's update
 * in the block that uses the parameter first. Offloaded state is loaded before the update and stored after it. Keeps:
 * the existing ops and values.
 */
#include "transform/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/error.h"
#include "core/narrow.h"
#include "kernels/optimizer/attributes.h"
#include "ops/ops.h"

/* The optimizer's state of one parameter: its variable, and the value that the update reads. */
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

/* Adds a state variable and returns the value that the update reads. The state is float32, or float64 for a float64
 * parameter; if the options request it, a float32 state has 16 bits. */
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

/* Describes stochastic rounding of the parameter's update. Random numbers depend on the parameter's name, so that it
 * does not matter which other parameters are trained. */
static bgi_rounding describe_rounding(const bgi_trainer *trainer, bg_value parameter)
{
    const bg_type type = bg_graph_type(trainer->graph, parameter);
    const char *name = bg_graph_name(trainer->graph, parameter);
    const int64_t elements = bg_type_element_count(&type);
    const uint32_t replicas = bgi_graph_data_replicas(trainer->graph, trainer->options->replicas.count);

    if (!trainer->options->numerics.stochastic_rounding)
        return (bgi_rounding){0};
    return (bgi_rounding){.elements = elements,
                          .piece = (elements + replicas - 1) / replicas,
                          .random_id = bgi_crc32c(name, strlen(name)),
                          .axes = bgi_find_cut(trainer->graph, parameter)};
}

static void add_sgd(bgi_trainer *trainer, update_state *state, const bgi_final_gradient *final, bool without_decay)
{
    const bgi_sgd_attributes attributes = {.rounding = describe_rounding(trainer, final->parameter),
                                           .nesterov = trainer->optimizer->nesterov,
                                           .combined = trainer->optimizer->combined,
                                           .without_decay = without_decay};
    bg_value velocity = {0};

    if (trainer->optimizer->momentum != 0.0)
        velocity = add_state(trainer, state, final->parameter, "momentum_buffer",
                             trainer->options->numerics.first_moment_dtype);
    bgi_sgd_update(trainer->graph, NULL, final->parameter, final->gradient, trainer->hyper, trainer->scale, velocity,
                   &attributes);
}

static void add_adam(bgi_trainer *trainer, update_state *state, const bgi_final_gradient *final, bool without_decay)
{
    const bg_optimizer *optimizer = trainer->optimizer;
    const bgi_adam_attributes attributes = {.rounding = describe_rounding(trainer, final->parameter),
                                            .decoupled_decay = optimizer->kind == BG_ADAMW,
                                            .maximum = optimizer->kind == BG_ADAMAX,
                                            .uncorrected = optimizer->uncorrected,
                                            .without_decay = without_decay};
    const bg_value m =
        add_state(trainer, state, final->parameter, "exp_avg", trainer->options->numerics.first_moment_dtype);
    const bg_value v = add_state(trainer, state, final->parameter, attributes.maximum ? "exp_inf" : "exp_avg_sq",
                                 trainer->options->numerics.second_moment_dtype);

    bgi_adam_update(trainer->graph, NULL, final->parameter, final->gradient, trainer->hyper, trainer->scale, m, v,
                    &attributes);
}

static bgi_rmsprop_rule find_rule(bg_optimizer_kind kind)
{
    return kind == BG_ADAGRAD ? BGI_RULE_ADAGRAD : kind == BG_ADADELTA ? BGI_RULE_ADADELTA : BGI_RULE_RMSPROP;
}

static void add_rmsprop(bgi_trainer *trainer, update_state *state, const bgi_final_gradient *final, bool without_decay)
{
    const bg_optimizer *optimizer = trainer->optimizer;
    const bool is_rmsprop = optimizer->kind == BG_RMSPROP;
    const bgi_rmsprop_attributes attributes = {.rounding = describe_rounding(trainer, final->parameter),
                                               .rule = find_rule(optimizer->kind),
                                               .centered = is_rmsprop && optimizer->centered,
                                               .tf_variant = is_rmsprop && optimizer->tf_variant,
                                               .without_decay = without_decay};
    const bg_dtype first = trainer->options->numerics.first_moment_dtype,
                   second = trainer->options->numerics.second_moment_dtype;
    const bg_value square =
        add_state(trainer, state, final->parameter, attributes.rule == BGI_RULE_ADAGRAD ? "sum" : "square_avg", second);
    bg_value mean = {0}, velocity = {0};

    if (attributes.centered)
        mean = add_state(trainer, state, final->parameter, "grad_avg", first);
    if (attributes.rule == BGI_RULE_ADADELTA)
        mean = add_state(trainer, state, final->parameter, "acc_delta", second);
    if (is_rmsprop && optimizer->momentum != 0.0)
        velocity = add_state(trainer, state, final->parameter, "momentum_buffer", first);
    bgi_rmsprop_update(trainer->graph, NULL, final->parameter, final->gradient, trainer->hyper, trainer->scale, square,
                       mean, velocity, &attributes);
}

/* Adds LAMB's update. If the state is in pieces, each replica has the norm of its piece, and the maximum over the
 * replicas gives all norms. When a mesh cuts the parameter, the squares of its parts are then added. */
static void add_lamb(bgi_trainer *trainer, update_state *state, const bgi_final_gradient *final, bool without_decay)
{
    bg_graph *graph = trainer->graph;
    const bg_type type = bg_graph_type(graph, final->parameter);
    const uint32_t replicas = bgi_graph_data_replicas(graph, trainer->options->replicas.count);
    const uint32_t pieces = trainer->options->numerics.canonical_reductions ? 1 : replicas;
    bgi_lamb_attributes attributes = bgi_lamb_describe(&type, pieces, trainer->optimizer->uncorrected, without_decay);
    const bg_value m =
        add_state(trainer, state, final->parameter, "exp_avg", trainer->options->numerics.first_moment_dtype);
    const bg_value v =
        add_state(trainer, state, final->parameter, "exp_avg_sq", trainer->options->numerics.second_moment_dtype);
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

/* Adds the update of the caller's own optimizer. The names of the optimizer's states are in one string, separated by
 * spaces. */
static void add_custom(bgi_trainer *trainer, update_state *state, const bgi_final_gradient *final)
{
    enum { STATE = 4, MOST = sizeof state->home / sizeof *state->home };
    const bg_update_rule *rule = trainer->optimizer->rule;
    bg_value inputs[STATE + MOST] = {final->parameter, final->gradient, trainer->hyper, trainer->scale};
    const char *name = rule->states != NULL ? rule->states : "";
    char suffix[64];

    while (*name != '\0') {
        const size_t length = strcspn(name, " ");

        snprintf(suffix, sizeof suffix, "%.*s", (int)length, name);
        inputs[STATE + state->count] = add_state(trainer, state, final->parameter, suffix, BG_DTYPE_NONE);
        name += length + (name[length] != '\0');
    }
    bg_graph_add(trainer->graph, rule->update, NULL, inputs, STATE + state->count, rule->attributes, NULL);
}

/* Returns the optimizer's numbers that an update of the parameter reads, with the parameter's factors applied. A custom
 * update has no attribute that disables weight decay, so a factor of 0 does. */
static bg_value find_hyper(bgi_trainer *trainer, bg_value parameter, bool without_decay)
{
    const bool is_without = without_decay && trainer->optimizer->kind == BG_CUSTOM;
    const bgi_value *value = bgi_graph_value(trainer->graph, parameter);
    const bg_type type = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT);
    double factors[BGI_HYPER_COUNT];
    char name[256];

    if (!value->has_factors && !is_without)
        return trainer->hyper;
    for (int i = 0; i < BGI_HYPER_COUNT; i++)
        factors[i] = 1.0;
    if (value->has_factors) {
        factors[BGI_HYPER_LEARNING_RATE] = value->rate_factor;
        factors[BGI_HYPER_WEIGHT_DECAY] = value->decay_factor;
    }
    if (is_without)
        factors[BGI_HYPER_WEIGHT_DECAY] = 0.0;
    snprintf(name, sizeof name, "%.200s.factors", value->name);
    return bg_elementwise_binary(trainer->graph, NULL, BG_MULTIPLY, trainer->hyper,
                                 bg_graph_constant(trainer->graph, name, &type, factors));
}

/* If the options bound the elements of gradients, returns the gradient times trainer->scale, clamped to the bound, and
 * sets trainer->scale to 1. Otherwise returns the gradient unchanged. */
static bgi_final_gradient clip_values(bgi_trainer *trainer, const bgi_final_gradient *final)
{
    const double bound = trainer->options->numerics.max_gradient_value;
    const bg_dtype dtype = bg_graph_type(trainer->graph, final->gradient).dtype;
    const bg_type scalar = bg_scalar(BG_FLOAT32);
    const float one = 1.0f;
    bgi_final_gradient clipped = *final;
    bg_value scale = trainer->scale;

    if (!(bound > 0.0) || isinf(bound))
        return clipped;
    if (dtype == BG_FLOAT64)
        scale = bg_cast(trainer->graph, NULL, scale, dtype);
    clipped.gradient =
        bg_clamp(trainer->graph, bg_elementwise_binary(trainer->graph, NULL, BG_MULTIPLY, final->gradient, scale),
                 -bound, bound);
    if (bg_graph_type(trainer->graph, clipped.gradient).dtype != dtype)
        clipped.gradient = bg_cast(trainer->graph, NULL, clipped.gradient, dtype);
    trainer->scale = bg_graph_constant(trainer->graph, "gradient.one", &scalar, &one);
    return clipped;
}

/* Adds the update of a parameter. State variables have the names of torch.optim. */
static void add_update(bgi_trainer *trainer, const bgi_final_gradient *whole)
{
    const bg_value scale = trainer->scale;
    const bgi_final_gradient clipped = clip_values(trainer, whole), *final = &clipped;
    const bool without_decay =
        trainer->optimizer->decay_matrices_only && bg_graph_type(trainer->graph, final->parameter).rank < 2;
    const bg_value hyper = trainer->hyper;
    update_state state = {.count = 0};

    trainer->hyper = find_hyper(trainer, final->parameter, without_decay);

    switch (trainer->optimizer->kind) {
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
    case BG_CUSTOM:
        add_custom(trainer, &state, final);
        break;
    }
    store_state(trainer, &state);
    trainer->hyper = hyper;
    trainer->scale = scale;
}

/* Adds the rows of a parameter's first gradient to its second gradient, in place. Returns false if there are no
 * rows. */
static bool add_rows(bgi_trainer *trainer, const bgi_parameter_gradient *gradients, const bgi_accumulator *accumulators)
{
    if (bg_value_is_null(accumulators[0].rows))
        return false;
    trainer->graph->current_block = gradients[1].block;
    bgi_embedding_rows_add(trainer->graph, NULL, accumulators[1].gradient, accumulators[0].rows, accumulators[0].slots);
    return true;
}

/* Sums a parameter's accumulators in block order, for each term: out_sums[term] is null if the term has no
 * accumulator. */
static void sum_blocks(bgi_trainer *trainer, const bgi_parameter_gradient *gradients,
                       const bgi_accumulator *accumulators, uint32_t count, bg_value *room, bg_value *out_sums)
{
    for (uint32_t t = 0, at = 0; t < trainer->term_count; t++) {
        uint32_t blocks = 0;
        while (at < count && gradients[at].term == t)
            room[blocks++] = accumulators[at++].gradient;
        out_sums[t] = blocks == 0 ? (bg_value){0} : bgi_add_n(trainer->graph, NULL, room, blocks);
    }
}

/* Makes one gradient for each parameter. `room` is memory for as many values as there are accumulators. */
static uint32_t add_final_gradients(bgi_trainer *trainer, const bgi_parameter_gradient *gradients,
                                    const bgi_accumulator *accumulators, uint32_t count, bg_value *room,
                                    bgi_final_gradient *out)
{
    bg_graph *graph = trainer->graph;
    uint32_t parameters = 0;

    for (uint32_t begin = 0, end; begin < count; begin = end) {
        const uint32_t i = add_rows(trainer, gradients + begin, accumulators + begin) ? begin + 1 : begin;
        bgi_final_gradient *final = &out[parameters++];
        bg_value sums[BGI_MOST_LOSS_TERMS];
        *final = (bgi_final_gradient){.parameter = gradients[i].parameter, .block = gradients[i].block};
        for (end = i; end < count && gradients[end].parameter.id == final->parameter.id; end++)
            final->block = gradients[end].block < final->block ? gradients[end].block : final->block;
        graph->current_block = final->block;
        sum_blocks(trainer, gradients + i, accumulators + i, end - i, room, sums);
        final->gradient = bgi_add_terms(trainer, final->parameter, sums);
        if (bg_value_is_null(accumulators[i].counts))
            continue;
        for (uint32_t j = i; j < end; j++)
            room[j - i] = accumulators[j].counts;
        final->counts = bgi_add_n(graph, NULL, room, end - i);
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
        parameters = add_final_gradients(trainer, gradients, accumulators, count, room, final);
        status = bg_graph_check(graph, error);
    }
    free(room);
    if (status == BG_OK)
        status = bgi_guard_loss(trainer, error);
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

/* ---- the whole pass ---- */

static void warn(const bg_options *options, const char *text)
{
    if (options->reporting.log != NULL)
        options->reporting.log(options->reporting.log_user, BG_LOG_WARNING, text);
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

/* Warns of options that have no effect. */
static void warn_of_what_is_idle(const bgi_trainer *trainer)
{
    const bg_optimizer *optimizer = trainer->optimizer;
    char text[192];

    if (trainer->options->numerics.stochastic_rounding && !keeps_16_bits(trainer->graph))
        warn(
            trainer->options,
            "stochastic rounding has no effect: weights and the optimizer's state are kept in float32; keep weights in "
            "bfloat16 or float16, or set stochastic_rounding to false");
    if (optimizer->kind == BG_SGD && !optimizer->combined && optimizer->velocity_scaling != 1.0 &&
        optimizer->velocity_scaling != 0.0) {
        snprintf(text, sizeof text,
                 "velocity_scaling %g is ignored: gradients and velocities are separate; it applies only to the "
                 "combined variant",
                 optimizer->velocity_scaling);
        warn(trainer->options, text);
    }
}

/* Refuses a model with accumulators: training accumulates gradients itself, so the gradients would be accumulated
 * twice. */
static bg_status refuse_accumulators(const bg_graph *graph, bg_error *error)
{
    for (size_t v = 1; v < graph->value_count; v++)
        if (graph->values[v].kind == BGI_VALUE_VARIABLE && graph->values[v].role == BG_ROLE_ACCUMULATOR)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "the model has an accumulator, `%s`, but training already accumulates gradients "
                                "over options.gradient_accumulation micro-batches; leave it out",
                                graph->values[v].name);
    return BG_OK;
}

/* Finds the terms of the loss. If the options request the sum over micro-batches, losses are added unchanged, so there
 * is one term. */
static bg_status find_terms(bgi_trainer *trainer, bg_error *error)
{
    const bool is_whole =
        trainer->options->execution.gradient_accumulation == 1 && bgi_count_data_replicas(trainer) == 1;

    trainer->terms[0] = (bgi_loss_term){.loss = trainer->loss};
    trainer->term_count = 1;
    if (trainer->options->numerics.accumulation == BG_ACCUMULATE_SUM)
        return BG_OK;
    return bgi_split_loss(trainer->graph, trainer->loss, is_whole, trainer->terms, &trainer->term_count, error);
}

/* Refuses a running mean with synchronized batch norms if labels are counted. The mean weights a replica's gradient by
 * the replica's count. With statistics over all replicas a gradient also has parts of other replicas' losses, which
 * have other counts. */
static bg_status check_synchronized(const bgi_trainer *trainer, bg_error *error)
{
    bool is_counted = false;

    for (uint32_t t = 0; t < trainer->term_count; t++)
        is_counted = is_counted || !bg_value_is_null(trainer->terms[t].weight);
    if (!is_counted || trainer->options->numerics.accumulation != BG_ACCUMULATE_MEAN_RUNNING)
        return BG_OK;
    for (size_t o = 0; o < trainer->graph->op_count; o++)
        if (trainer->graph->ops[o].type == &bgi_op_sync_batch_norm)
            return bg_error_set(
                error, BG_ERROR_UNSUPPORTED,
                "batch norm `%s` is synchronized over replicas, so gradients have parts of all replicas' losses, but a "
                "running mean weights them with the label counts of single replicas; use BG_ACCUMULATE_MEAN",
                trainer->graph->ops[o].name);
    return BG_OK;
}

/* Refuses ops and options whose results differ between replicas, or depend on the number of replicas, for any order of
 * sums. */
static bg_status check_canonical(const bgi_trainer *trainer, bg_error *error)
{
    const bg_graph *graph = trainer->graph;
    const bg_options *options = trainer->options;

    if (!options->numerics.canonical_reductions)
        return BG_OK;
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++)
            if (bgi_op_type_writes(graph->ops[o].type, i))
                return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                                    "canonical_reductions: %s `%s` changes `%s` in the forward pass, where each "
                                    "replica makes it from its own micro-batches; use a layer without such "
                                    "state (a layer norm for a batch norm), or leave canonical_reductions off",
                                    graph->ops[o].type->name, graph->ops[o].name,
                                    bg_graph_name(graph, graph->ops[o].inputs[i]));
    if (trainer->optimizer->kind == BG_LAMB && bgi_count_data_replicas(trainer) > 1 &&
        bgi_asks_for_pieces(options, 1u << BG_LOCATION_STATE | 1u << BG_LOCATION_ACCUMULATORS))
        return bg_error_set(
            error, BG_ERROR_UNSUPPORTED,
            "canonical_reductions: LAMB adds up the squares of its norms piece by piece, but the optimizer's state is "
            "in pieces of %u replicas; keep the state whole, or use another optimizer",
            bgi_count_data_replicas(trainer));
    return BG_OK;
}

/* Refuses a custom update with stochastic rounding, which only the library's updates do. */
static bg_status check_custom(const bgi_trainer *trainer, bg_error *error)
{
    if (trainer->optimizer->kind != BG_CUSTOM || !trainer->options->numerics.stochastic_rounding)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                        "stochastic_rounding: the update of `%s` is a custom one, which does its own rounding; leave "
                        "stochastic_rounding off, or use one of the library's optimizers",
                        trainer->optimizer->rule->name);
}

static int compare_gradients(const void *left, const void *right)
{
    const bgi_parameter_gradient *a = left, *b = right;

    if (a->parameter.id != b->parameter.id)
        return a->parameter.id < b->parameter.id ? -1 : 1;
    if (a->term != b->term)
        return a->term < b->term ? -1 : 1;
    return a->block < b->block ? -1 : a->block > b->block;
}

/* Makes the gradients of all terms, by parameter, term and block. A running mean accumulates gradients of means. */
static bg_status differentiate_terms(bgi_trainer *trainer, bgi_parameter_gradient **gradients, uint32_t *count,
                                     bg_error *error)
{
    const bool is_weighted = trainer->options->numerics.accumulation == BG_ACCUMULATE_MEAN;
    size_t capacity = 0, found = 0;

    for (uint32_t t = 0; t < trainer->term_count; t++) {
        const bgi_loss_term *term = &trainer->terms[t];
        bgi_parameter_gradient *of_term;
        uint32_t more;

        BGI_TRY(bgi_differentiate(trainer->graph, term->loss, is_weighted ? term->weight : (bg_value){0},
                                  trainer->options->numerics.loss_scaling, trainer->loss_scale, &of_term, &more,
                                  error));
        if (!bgi_array_reserve((void **)gradients, &capacity, found + more + 1, sizeof **gradients)) {
            free(of_term);
            return bgi_error_memory(error, "gradients", (found + more + 1) * sizeof **gradients);
        }
        for (uint32_t i = 0; i < more; i++) {
            (*gradients)[found] = of_term[i];
            (*gradients)[found++].term = t;
        }
        free(of_term);
        *count = (uint32_t)found;
    }
    qsort(*gradients, found, sizeof **gradients, compare_gradients);
    return BG_OK;
}

bg_status bgi_make_training(bg_graph *graph, bg_value loss, const bg_optimizer *optimizer, const bg_options *options,
                            bg_error *error)
{
    const bg_type hyper_type = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT);
    bgi_trainer trainer = {.graph = graph, .optimizer = optimizer, .options = options, .loss = loss};
    bgi_parameter_gradient *gradients = NULL;
    bgi_accumulator *accumulators = NULL;
    uint32_t count = 0;
    bg_status status;

    BGI_TRY_CLEANUP(refuse_accumulators(graph, error));
    BGI_TRY_CLEANUP(find_terms(&trainer, error));
    BGI_TRY_CLEANUP(check_synchronized(&trainer, error));
    BGI_TRY_CLEANUP(check_canonical(&trainer, error));
    BGI_TRY_CLEANUP(check_custom(&trainer, error));
    bgi_add_loss_scale(&trainer);
    BGI_TRY_CLEANUP(differentiate_terms(&trainer, &gradients, &count, error));
    accumulators = calloc(count + 1, sizeof *accumulators);
    if (accumulators == NULL) {
        status = bgi_error_memory(error, "accumulators", count * sizeof *accumulators);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(bgi_add_accumulators(&trainer, gradients, count, accumulators, error));
    bgi_count_losses(&trainer);
    trainer.hyper = bg_graph_variable(graph, "optimizer.hyper", &hyper_type, BG_ROLE_HYPER, NULL);
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
