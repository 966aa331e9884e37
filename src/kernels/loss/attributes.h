/*
 * attributes.h: the operands and attributes of losses. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_LOSS_ATTRIBUTES_H
#define BGI_KERNELS_LOSS_ATTRIBUTES_H

#include <brigade/ops.h>

#include "kernels/mesh.h"

/*
 *     CROSS_ENTROPY           logits, labels, class_weights? -> loss, log_sum_exp, weight?
 *                             class_weights, in the loss's type, has one for each class (absent: 1). log_sum_exp is
 *                             float64 in labels' shape: in float32, the gradient of large logits would lose digits.
 *                             weight (MEAN only): the sum of the weights of labels that count, a float32 scalar
 *     CROSS_ENTROPY_BACKWARD  dloss, logits, labels, log_sum_exp, weight?, class_weights? -> dlogits
 *     CORRECT_COUNT           logits, labels -> count int32
 *
 * Steps of a cross-entropy whose classes are sharded over an axis of the mesh. Results other than loss and weight are
 * float64 in labels' shape. Between these kernels the maximum, and then the sums, are combined over the axis. Columns
 * after the last class are ignored.
 *
 *     LOGIT_MAXIMUM           logits -> maximum
 *     LOGIT_SUMS              logits, labels, maximum -> sum of exp(logit - maximum), the label's logit (0: in another
 *                             shard)
 *     SHARDED_CROSS_ENTROPY   logits, labels, maximum, sum, logit -> loss, log_sum_exp, weight?
 *
 * The gradient is CROSS_ENTROPY_BACKWARD's.
 */
typedef struct bgi_loss_attributes {
    bg_loss_reduction reduction;
    int64_t ignore_index;
    bg_mesh_axis axis;
    int64_t classes;  /* classes over all shards; 0: the number of columns of logits */
    double smoothing; /* this fraction of a label's weight is spread over all classes; the ops refuse it with an
                         axis and with log-likelihoods, so kernels for these do not read it */
    uint8_t are_log_likelihoods; /* logits are logarithms of probabilities: log_sum_exp is 0 */
} bgi_loss_attributes;

/* Returns a row's loss for a label of weight `weight`, from `label` (log_sum_exp minus the label's logit) and `all`
 * (the weighted sum of the same difference over all classes). */
static inline double bgi_loss_of_row(const bgi_loss_attributes *attributes, int64_t classes, double weight,
                                     double label, double all)
{
    if (attributes->smoothing == 0.0)
        return weight * label;
    return (1.0 - attributes->smoothing) * weight * label + attributes->smoothing / (double)classes * all;
}

/* Factors of a row's gradient: softmax times the probabilities, minus at_label at the label, minus everywhere times
 * each class's weight. `total` is the sum of these weights. */
typedef struct bgi_loss_shares {
    double softmax, at_label, everywhere;
} bgi_loss_shares;

static inline bgi_loss_shares bgi_loss_find_shares(const bgi_loss_attributes *attributes, int64_t classes,
                                                   double weight, double total)
{
    const double at_label = (1.0 - attributes->smoothing) * weight;
    const double everywhere = attributes->smoothing / (double)classes;

    return (bgi_loss_shares){at_label + everywhere * total, at_label, everywhere};
}

/* The classes of a replica's columns. */
typedef struct bgi_loss_classes {
    int64_t total;       /* classes over all shards */
    int64_t first, live; /* this replica's first class, and the number of its columns that are classes */
} bgi_loss_classes;

static inline bgi_loss_classes bgi_loss_find_classes(const bg_kernel_call *call, int64_t columns)
{
    const bgi_loss_attributes *attributes = (const bgi_loss_attributes *)call->attributes;
    const int64_t total = attributes->classes > 0 ? attributes->classes : columns;
    const int64_t first = columns * bgi_mesh_place(call->env, attributes->axis), left = total - first;

    return (bgi_loss_classes){total, first, left < 0 ? 0 : left < columns ? left : columns};
}

#endif
