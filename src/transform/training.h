/*
 * training.h: what the files that make a training graph share. training.c drives; accumulation.c adds gradients up and
 * says what they are multiplied by; loss_scaling.c adapts the loss's scale to them; clipping.c bounds them.
 */
#ifndef BGI_TRANSFORM_TRAINING_H
#define BGI_TRANSFORM_TRAINING_H

#include "transform/transform.h"

/* How the gradients of one term of the loss become those of an update. */
typedef struct bgi_term_average {
    bg_value factors; /* of a running mean: [share of the mean so far, share of this micro-batch]; else null */
    bg_value total;   /* the accumulator of the micro-batches' weights; null: none */
    bg_value scale;   /* what the accumulated gradients are multiplied by */
} bgi_term_average;

typedef struct bgi_trainer {
    bg_graph *graph;
    const bg_optimizer *optimizer;
    const bg_options *options;
    bg_value loss;
    uint32_t term_count;
    bgi_loss_term terms[BGI_MOST_LOSS_TERMS];
    bgi_term_average averages[BGI_MOST_LOSS_TERMS];
    bg_value loss_scale, loss_statistics; /* variables of an automatic loss scale; else null */
    bg_value loss_counts;                 /* the accumulator of a guarded loss; else null */
    bg_value hyper;                       /* what updates read of it */
    bg_value scale;                       /* what gradients are multiplied by in the update */
} bgi_trainer;

/* What the micro-batches' gradients of a parameter, from one term of the loss, become in one block that uses it. */
typedef struct bgi_accumulator {
    bg_value gradient; /* null: in rows */
    bg_value counts;   /* of its elements by size, micro-batch by micro-batch; null without an automatic loss scale */
    bg_value rows, slots; /* of an embedding whose gradient is kept in rows (embedding_rows.c); else null */
} bgi_accumulator;

/* What an update needs of one parameter. */
typedef struct bgi_final_gradient {
    bg_value parameter;
    bg_value gradient; /* accumulated, over all terms and blocks, before trainer->scale */
    bg_value counts;   /* the same, or null */
    uint32_t block;    /* that uses the parameter first, or next when the first gradient is in rows */
} bgi_final_gradient;

/* A variable `name.suffix` that serves `owner`. */
bg_value bgi_add_training_variable(bg_graph *graph, const char *name, const char *suffix, const bg_type *type,
                                   bg_variable_role role, bg_value owner);
/* Ops of the loss's block are added from here on: for a loss of one term, where its weight is known. */
void bgi_enter_loss_block(const bgi_trainer *trainer);
/* The data-parallel replicas, whose gradients are added up. */
uint32_t bgi_count_data_replicas(const bgi_trainer *trainer);

/* accumulation.c: the backward phase's part: an accumulator for each gradient. */
bg_status bgi_add_accumulators(bgi_trainer *trainer, const bgi_parameter_gradient *gradients, uint32_t count,
                               bgi_accumulator *out_accumulators, bg_error *error);
/* embedding_rows.c: whether the first of a parameter's several gradients is kept in rows, with one data-parallel
 * replica; `kept`: the type of a dense accumulator. */
bool bgi_gradient_is_kept_in_rows(const bgi_trainer *trainer, const bgi_parameter_gradient *gradients,
                                  const bg_type *kept);
/* embedding_rows.c: accumulates it so. */
bg_status bgi_accumulate_rows(bgi_trainer *trainer, const bgi_parameter_gradient *gradient, const bg_type *kept,
                              const char *suffix, bgi_accumulator *out, bg_error *error);
/* accumulation.c: the update's part: trainer->scale and, when the loss has several terms, the scale of each. */
void bgi_add_scale(bgi_trainer *trainer);
/* accumulation.c: the gradient of all terms: those accumulated for each term (null: the term has none) times the term's
 * scale, added up in the current block; of a single term as it is. */
bg_value bgi_add_terms(bgi_trainer *trainer, bg_value parameter, const bg_value *gradients);

/* loss_scaling.c, when the options ask for it: the variables, before gradients are made; the accumulator of what each
 * micro-batch's gradient counts, or null; and what adapts the scale, with trainer->scale and trainer->hyper for the
 * updates. */
void bgi_add_loss_scale(bgi_trainer *trainer);
bg_value bgi_count_gradient(bgi_trainer *trainer, const bgi_parameter_gradient *gradient);
bg_status bgi_adapt_loss_scale(bgi_trainer *trainer, const bgi_final_gradient *gradients, uint32_t count,
                               bg_error *error);

/* loss_guard.c, when the options ask for it: the accumulator of the micro-batches' losses that are not finite, in the
 * backward phase; and in the update, before everything else, trainer->hyper with the word to skip it. */
void bgi_count_losses(bgi_trainer *trainer);
bg_status bgi_guard_loss(bgi_trainer *trainer, bg_error *error);

/* clipping.c: the tensor axes, of more than one replica, along which a mesh cuts the parameter. */
uint32_t bgi_find_cut(const bg_graph *graph, bg_value parameter);
/* clipping.c: the sum of one value of each gradient, in the parameters' order; those of parameters that a mesh of
 * replicas cuts are added up over it. `room` is for as many values. */
bg_value bgi_sum_gradients(bg_graph *graph, const char *name, const bgi_final_gradient *gradients,
                           const bg_value *values, uint32_t count, bg_value *room);
/* clipping.c: when the options ask for it, trainer->scale also bounds the norm of all gradients together, and that norm
 * is an output. */
bg_status bgi_clip_gradients(bgi_trainer *trainer, const bgi_final_gradient *gradients, uint32_t count,
                             bg_error *error);

#endif
