/*
 * attributes.h: the operands and attributes of norms. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_NORM_ATTRIBUTES_H
#define BGI_KERNELS_NORM_ATTRIBUTES_H

#include <brigade/ops.h>

#include "kernels/elementwise/attributes.h"

/*
 *     LAYER_NORM           x, gamma?, beta? -> y, mean, rstd   (mean, rstd: x's shape less the last dim)
 *     LAYER_NORM_BACKWARD  dy, x, mean, rstd, gamma? -> dx, dgamma?, dbeta?
 *     BATCH_NORM           x, gamma, beta, running_mean!, running_variance! -> y, mean [C], rstd [C]
 *     BATCH_NORM_BACKWARD  dy, x, mean, rstd, gamma -> dx, dgamma, dbeta
 *
 * mean and rstd = 1 / sqrt(variance + epsilon) are float32, or float64 for float64 x.
 */
typedef struct bgi_norm_attributes {
    double epsilon, momentum;
    uint64_t is_synchronized; /* BATCH_NORM, 0 or 1: plans for several replicas replace it by SYNC_BATCH_NORM */
} bgi_norm_attributes;

/*
 * Batch norm and the steps that the attributes name: the sum with `other`, which has x's type, then a function of one
 * element. Every step does the float operations of its separate kernel. The statistics, float64 [C, 2], are the mean
 * and rstd.
 *
 *     FUSED_BATCH_NORM             x, gamma, beta, running_mean!, running_variance!, other? -> y, statistics
 *     FUSED_BATCH_NORM_BACKWARD    dy, x, statistics, gamma, beta -> dx, dgamma, dbeta   (of the norm and the function,
 *                                  whose operand is computed again from x)
 */
typedef struct bgi_fused_norm_attributes {
    bgi_norm_attributes norm; /* the first field, so that kernels of batch norm may read these as their own */
    bgi_unary_attributes unary;
    uint8_t adds, maps; /* 0: no; BACKWARD: only `maps` is used */
} bgi_fused_norm_attributes;

/*
 * Group norm: layer norm over each sample's groups of channels. x is [N, C, ...]; mean and rstd are [N, groups].
 *
 *     GROUP_NORM           x, gamma, beta -> y, mean, rstd
 *     GROUP_NORM_BACKWARD  dy, x, mean, rstd, gamma -> dx, dgamma, dbeta
 */
typedef struct bgi_group_norm_attributes {
    double epsilon;
    int64_t groups;
} bgi_group_norm_attributes;

/*
 * Batch norm over the micro-batches of all data-parallel replicas, which have the same number of values. Moments are
 * float64 [C, 2]: a channel's mean and its sum of squared differences from it. The moments of all replicas are gathered
 * along the first dimension and combined in the replicas' order. Sums are float64 [C, 2], of dy and dy xhat.
 *
 *     BATCH_NORM_MOMENTS          x -> moments
 *     SYNC_BATCH_NORM             x, gamma, beta, running_mean!, running_variance!, moments of all -> y, mean, rstd
 *     BATCH_NORM_GRADIENT_SUMS    dy, x, mean, rstd -> sums
 *     SYNC_BATCH_NORM_BACKWARD    dy, x, mean, rstd, gamma, sums, sums of all -> dx, dgamma, dbeta   (dgamma and dbeta
 *                                 are the replica's own: they are added up as all gradients are)
 */
typedef struct bgi_sync_norm_attributes {
    double epsilon, momentum;
    uint64_t members; /* replicas */
} bgi_sync_norm_attributes;

/*
 * Steps of a layer norm whose last dim is sharded over an axis of the mesh. Between these kernels, sums of x and x^2,
 * or of g = dy gamma and g xhat, are added up over the axis. The sums are float64 [x's dims without the last, 2].
 *
 *     NORM_SUMS                   x -> sums
 *     SHARDED_NORM                x, gamma, beta, sums -> y, mean, rstd
 *     NORM_GRADIENT_SUMS          dy, x, mean, rstd, gamma -> sums
 *     SHARDED_NORM_BACKWARD       dy, x, mean, rstd, gamma, sums -> dx, dgamma, dbeta
 */
typedef struct bgi_sharded_norm_attributes {
    double epsilon;
    bg_mesh_axis axis;
    int64_t width; /* width of the whole tensor */
} bgi_sharded_norm_attributes;

#endif
