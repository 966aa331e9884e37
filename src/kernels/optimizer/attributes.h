/*
 * attributes.h: the operands and attributes of the optimizers' updates. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_OPTIMIZER_ATTRIBUTES_H
#define BGI_KERNELS_OPTIMIZER_ATTRIBUTES_H

#include <math.h>

#include "kernels/pieces.h"
#include "kernels/rounding.h"

/*
 * hyper is float64 [BGI_HYPER_COUNT]; scale is a float32 scalar that multiplies the gradient first.
 *
 *     SGD_UPDATE      parameter!, gradient, hyper, scale, velocity?!              (bgi_sgd_attributes)
 *     ADAM_UPDATE     parameter!, gradient, hyper, scale, m!, v!                  (bgi_adam_attributes)
 *     RMSPROP_UPDATE  parameter!, gradient, hyper, scale, mean of squares!, mean! (centered), velocity?!
 *                                                                                 (bgi_rmsprop_attributes)
 *           AdaGrad:  ..., sum of squares!
 *           AdaDelta: ..., mean of squares!, mean of the changes' squares!
 *     LAMB_MOMENTS    parameter, gradient, hyper, scale, m!, v! -> squares        (bgi_lamb_attributes)
 *     LAMB_UPDATE     parameter!, squares, hyper, m, v                            (bgi_lamb_attributes)
 *
 * Formulas are those of PyTorch's torch.optim.SGD, Adam, AdamW, RMSprop, Adagrad and Adadelta, in its order of
 * operations, in float32 (in float64 for float64 parameters), with t = env->optimizer_step - hyper[SKIPPED] + 1.
 *
 * The combined SGD computes v = momentum v + (1 - dampening) scaling g and w -= (rate / scaling) v or, with Nesterov, w
 * -= (rate / scaling) (scaling g + momentum v), where scaling is hyper[VELOCITY_SCALING] and the first v is computed
 * from 0. With `maximum`, v is the largest gradient, max(beta2 v, |g|), and the update divides by v without a square
 * root (AdaMax). A centered RMSProp's variance is clamped to 0, because rounding could make it negative.
 */
/* Elements of hyper; options/optimizers.def assigns settings to them. Settings that never occur in the same optimizer
 * may share an element. */
enum {
    BGI_HYPER_LEARNING_RATE = 0,
    BGI_HYPER_WEIGHT_DECAY,
    BGI_HYPER_MOMENTUM, /* SGD */
    BGI_HYPER_DAMPENING,
    BGI_HYPER_BETA1 = BGI_HYPER_MOMENTUM, /* Adam */
    BGI_HYPER_BETA2 = BGI_HYPER_DAMPENING,
    BGI_HYPER_ALPHA = BGI_HYPER_DAMPENING, /* RMSProp, with MOMENTUM */
    BGI_HYPER_EPSILON,
    /* Not 0 if the update must leave everything unchanged; an automatic loss scale (LOSS_SCALE) or a guarded loss
       (LOSS_GUARD) sets it. */
    BGI_HYPER_SKIP,
    BGI_HYPER_SKIPPED,                                      /* skipped updates among those in env->optimizer_step */
    BGI_HYPER_MAX_WEIGHT_NORM,                              /* LAMB, with BETA1, BETA2 and EPSILON */
    BGI_HYPER_VELOCITY_SCALING = BGI_HYPER_MAX_WEIGHT_NORM, /* combined SGD */
    BGI_HYPER_COUNT = 8
};

/* Attributes of updates begin with the rounding of 16-bit results. */
typedef struct bgi_sgd_attributes {
    bgi_rounding rounding;
    uint8_t nesterov;
    uint8_t combined;
    uint8_t without_decay; /* the weight decay in hyper is ignored */
    uint8_t unused[5];     /* fills the padding: see bg_op_type */
} bgi_sgd_attributes;

typedef struct bgi_adam_attributes {
    bgi_rounding rounding;
    uint8_t decoupled_decay; /* AdamW */
    uint8_t maximum;         /* AdaMax */
    uint8_t uncorrected;     /* moments are not divided by 1 - beta^t */
    uint8_t without_decay;   /* the weight decay in hyper is ignored */
    uint8_t unused[4];
} bgi_adam_attributes;

/*
 * LAMB (You et al. 2019): the direction x = mh / (sqrt(vh) + epsilon) + decay w, where mh and vh are the corrected
 * moments, computed from m and v as they are stored; then w -= rate min(|w|, maximum) / |x| x, or w -= rate x when a
 * norm is 0. Norms are sums over shards (pieces), in order, and each shard has a separate sum. Replicas that each
 * update a shard therefore get the same bits as replicas that update the whole parameter.
 *
 *     squares  float64 [pieces, 2]: sums of w's and of x's squares; a replica that has one piece of the operands sets
 *              the other rows to 0, so the maximum over the replicas has all rows
 */
typedef struct bgi_lamb_attributes {
    bgi_rounding rounding;
    int64_t elements; /* elements of the whole parameter */
    uint32_t pieces;  /* the number of replicas with different data, whether or not they share the update */
    uint8_t uncorrected;
    uint8_t without_decay;
    uint8_t unused[2];
} bgi_lamb_attributes;

/* Returns the number of elements of a shard; the last shards may have fewer elements or be empty. */
static inline int64_t bgi_lamb_piece(const bgi_lamb_attributes *attributes)
{
    return bgi_piece_size(attributes->elements, attributes->pieces);
}

static inline int64_t bgi_lamb_live(const bgi_lamb_attributes *attributes, uint32_t piece)
{
    return bgi_piece_live(attributes->elements, attributes->pieces, piece);
}

/* Returns the factor of the learning rate: min(|w|, maximum) / |x|, or 1 if a norm is 0. */
static inline double bgi_lamb_ratio(const bgi_lamb_attributes *attributes, const double *squares, double maximum)
{
    double weights = 0.0, direction = 0.0;

    for (uint32_t piece = 0; piece < attributes->pieces; piece++) {
        weights += squares[2 * piece];
        direction += squares[2 * piece + 1];
    }
    weights = sqrt(weights) < maximum ? sqrt(weights) : maximum;
    return weights == 0.0 || direction == 0.0 ? 1.0 : weights / sqrt(direction);
}
typedef enum bgi_rmsprop_rule {
    BGI_RULE_RMSPROP = 0,
    BGI_RULE_ADAGRAD, /* the squares are summed: a mean with both factors 1 */
    BGI_RULE_ADADELTA /* the learning rate is multiplied by the root mean square of earlier changes */
} bgi_rmsprop_rule;

/* How the divisor of a gradient is computed from the squares of this gradient and of earlier ones. */
typedef struct bgi_rmsprop_attributes {
    bgi_rounding rounding;
    uint8_t rule; /* bgi_rmsprop_rule */
    uint8_t centered;
    uint8_t tf_variant; /* epsilon inside the root, the learning rate inside the velocity */
    uint8_t without_decay;
    uint8_t unused[4];
} bgi_rmsprop_attributes;

#endif
