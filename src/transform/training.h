/*
 * training.h: what the files that make a training graph share. training.c drives; accumulation.c adds gradients up and
 * says what they are multiplied by; loss_scaling.c adapts the loss's scale to them; clipping.c bounds them.
 */
#ifndef BGI_TRANSFORM_TRAINING_H
#define BGI_TRANSFORM_TRAINING_H

#include "transform/transform.h"

typedef struct bgi_trainer {
    bg_graph *graph;
    const bg_optimiser *optimiser;
    const bg_options *options;
    bg_value loss;
    bg_value weight;  /* of a micro-batch: over how many elements its loss is a mean; null: each counts the same */
    bg_value factors; /* of a running mean: [share of the mean so far, share of this micro-batch]; else null */
    bg_value total;   /* the accumulator of weights; null: none */
    bg_value loss_scale, loss_statistics; /* variables of an automatic loss scale; else null */
    bg_value hyper;                       /* what updates read of it */
    bg_value scale;                       /* what gradients are multiplied by in the update */
} bgi_trainer;

/* What the micro-batches' gradients of a parameter become in one block that uses it. */
typedef struct bgi_accumulator {
    bg_value gradient;
    bg_value counts; /* of its elements by size, micro-batch by micro-batch; null without an automatic loss scale */
} bgi_accumulator;

/* What an update needs of one parameter. */
typedef struct bgi_final_gradient {
    bg_value parameter;
    bg_value gradient; /* accumulated, over all blocks, not scaled yet */
    bg_value counts;   /* the same, or null */
    uint32_t block;    /* that uses the parameter first */
} bgi_final_gradient;

/* A variable `name.suffix` that serves `owner`. */
bg_value bgi_add_training_variable(bg_graph *graph, const char *name, const char *suffix, const bg_type *type,
                                   bg_variable_role role, bg_value owner);
/* Ops of the loss's block are added from here on: where its weight is known. */
void bgi_enter_loss_block(const bgi_trainer *trainer);

/* accumulation.c: the backward phase's part: an accumulator for each gradient. */
bg_status bgi_add_accumulators(bgi_trainer *trainer, const bgi_parameter_gradient *gradients, uint32_t count,
                               bgi_accumulator *out_accumulators, bg_error *error);
/* accumulation.c: the update's part: trainer->scale. */
void bgi_add_scale(bgi_trainer *trainer);

/* loss_scaling.c, when the options ask for it: the variables, before gradients are made; the accumulator of what each
 * micro-batch's gradient counts, or null; and what adapts the scale, with trainer->scale and trainer->hyper for the
 * updates. */
void bgi_add_loss_scale(bgi_trainer *trainer);
bg_value bgi_count_gradient(bgi_trainer *trainer, const bgi_parameter_gradient *gradient);
bg_status bgi_adapt_loss_scale(bgi_trainer *trainer, const bgi_final_gradient *gradients, uint32_t count,
                               bg_error *error);

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
