/*
 * training.h: declares what the files that make a training graph share. The driver is training.c. Gradients are
 * accumulated and scaled in accumulation.c; loss_scaling.c adapts the loss scale, and clipping.c bounds the norm of
 * gradients.
 */
#ifndef BGI_TRANSFORM_TRAINING_H
#define BGI_TRANSFORM_TRAINING_H

#include "transform/transform.h"

/* The values that turn the gradients of one term's micro-batches into those of an update. */
typedef struct bgi_term_average {
    bg_value factors; /* for a running mean: [factor of the mean so far, factor of this micro-batch]; otherwise null */
    bg_value total;   /* the accumulator of the micro-batches' weights, or null */
    bg_value scale;   /* the factor of the accumulated gradients */
} bgi_term_average;

typedef struct bgi_trainer {
    bg_graph *graph;
    const bg_optimizer *optimizer;
    const bg_options *options;
    bg_value loss;
    uint32_t term_count;
    bgi_loss_term terms[BGI_MOST_LOSS_TERMS];
    bgi_term_average averages[BGI_MOST_LOSS_TERMS];
    bg_value loss_scale, loss_statistics; /* variables of an automatic loss scale; otherwise null */
    bg_value loss_counts;                 /* the accumulator of a guarded loss; otherwise null */
    bg_value hyper;                       /* the optimizer's numbers that updates read */
    bg_value scale;                       /* the factor of gradients in the update */
} bgi_trainer;

/* The accumulators of a parameter's gradients, for one term of the loss and one block that uses the parameter. */
typedef struct bgi_accumulator {
    bg_value gradient;    /* null: kept in rows */
    bg_value counts;      /* counts of the gradient's elements by size, for each micro-batch; null without an automatic
                             loss scale */
    bg_value rows, slots; /* for an embedding whose gradient is kept in rows (embedding_rows.c); otherwise null */
} bgi_accumulator;

/* The data that an update needs about one parameter. */
typedef struct bgi_final_gradient {
    bg_value parameter;
    bg_value gradient; /* accumulated over all terms and blocks, before trainer->scale */
    bg_value counts;   /* counts of the gradient's elements by size, or null */
    uint32_t block;    /* the block that uses the parameter first, or second when the first gradient is in rows */
} bgi_final_gradient;

/* Adds a variable `name.suffix` that belongs to `owner`. */
bg_value bgi_add_training_variable(bg_graph *graph, const char *name, const char *suffix, const bg_type *type,
                                   bg_variable_role role, bg_value owner);
/* Enters the loss's block for the following ops: for a loss of one term that has a weight, the block of the op that
 * computes the weight. */
void bgi_enter_loss_block(const bgi_trainer *trainer);
/* Returns the number of data-parallel replicas, whose gradients are summed. */
uint32_t bgi_count_data_replicas(const bgi_trainer *trainer);

/* accumulation.c: adds an accumulator for each gradient to the backward phase. */
bg_status bgi_add_accumulators(bgi_trainer *trainer, const bgi_parameter_gradient *gradients, uint32_t count,
                               bgi_accumulator *out_accumulators, bg_error *error);
/* embedding_rows.c: returns whether gradients[0], the first of a parameter's several gradients, is accumulated in rows.
 * The caller has checked that there is one data-parallel replica and no canonical reduction. `kept` is the type of a
 * dense accumulator. */
bool bgi_gradient_is_kept_in_rows(const bgi_trainer *trainer, const bgi_parameter_gradient *gradients,
                                  const bg_type *kept);
/* embedding_rows.c: adds accumulators that keep only the rows of the gradient that ids select. */
bg_status bgi_accumulate_rows(bgi_trainer *trainer, const bgi_parameter_gradient *gradient, const bg_type *kept,
                              const char *suffix, bgi_accumulator *out, bg_error *error);
/* accumulation.c: adds trainer->scale to the update and, when the loss has several terms, the scale of each term. */
void bgi_add_scale(bgi_trainer *trainer);
/* accumulation.c: returns the sum over the terms of the accumulated gradient (null: the term has none) times the term's
 * scale, in the current block. If the loss has a single term, its gradient is returned unscaled. */
bg_value bgi_add_terms(bgi_trainer *trainer, bg_value parameter, const bg_value *gradients);

/* loss_scaling.c, if the options request it. bgi_add_loss_scale adds the variables, before gradients are made.
 * bgi_count_gradient adds the accumulator of a gradient's counts, or returns null. bgi_adapt_loss_scale adapts the loss
 * scale, and sets trainer->scale and trainer->hyper for the updates. */
void bgi_add_loss_scale(bgi_trainer *trainer);
bg_value bgi_count_gradient(bgi_trainer *trainer, const bgi_parameter_gradient *gradient);
bg_status bgi_adapt_loss_scale(bgi_trainer *trainer, const bgi_final_gradient *gradients, uint32_t count,
                               bg_error *error);

/* loss_guard.c, if the options request it. bgi_count_losses adds ops to the backward phase that count the micro-batches
 * whose loss is not finite. bgi_guard_loss is called before other ops of the update are added, and adds the skip flag
 * to trainer->hyper. */
void bgi_count_losses(bgi_trainer *trainer);
bg_status bgi_guard_loss(bgi_trainer *trainer, bg_error *error);

/* clipping.c: returns the tensor axes of more than one replica along which the mesh cuts the parameter. */
uint32_t bgi_find_cut(const bg_graph *graph, bg_value parameter);
/* clipping.c: returns the sum of values[i] over all gradients, in the parameters' order; values of parameters that the
 * mesh cuts are also summed over its replicas. `room` is memory for `count` values. */
bg_value bgi_sum_gradients(bg_graph *graph, const char *name, const bgi_final_gradient *gradients,
                           const bg_value *values, uint32_t count, bg_value *room);
/* clipping.c: when the options request it, makes trainer->scale bound the norm of all gradients together, and that norm
 * an output. */
bg_status bgi_clip_gradients(bgi_trainer *trainer, const bgi_final_gradient *gradients, uint32_t count,
                             bg_error *error);

#endif
