/*
 * attributes.h: the operands and attributes of an automatic loss scale. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_LOSS_SCALING_ATTRIBUTES_H
#define BGI_KERNELS_LOSS_SCALING_ATTRIBUTES_H

#include <stdbool.h>

/* RANGE_COUNT x -> counts [BGI_RANGE_COUNTS]    (float64, which counts exactly)
 * LOSS_SCALE  loss_scale!, statistics! [BGI_STATISTICS_COUNT], counts, scale, hyper -> scale, hyper, used
 *             (scale / loss_scale; hyper with SKIP and SKIPPED; the loss scale before it is adapted) */

/* What RANGE_COUNT counts. */
enum {
    BGI_RANGE_LOWER = 0,  /* |x| <= edge */
    BGI_RANGE_UPPER,      /* the others */
    BGI_RANGE_NOT_FINITE, /* those of the others that are infinite or no number */
    BGI_RANGE_COUNTS
};

typedef struct bgi_range_count_attributes {
    double edge;
    bool only_not_finite; /* the other counts are zero */
} bgi_range_count_attributes;

/* What an automatic loss scale remembers besides itself. */
enum {
    BGI_STATISTICS_LOWER = BGI_RANGE_LOWER, /* of the updates since it was adapted */
    BGI_STATISTICS_UPPER = BGI_RANGE_UPPER,
    BGI_STATISTICS_UPDATES, /* how many these are */
    BGI_STATISTICS_SKIPPED, /* of the updates with the present optimizer state */
    BGI_STATISTICS_COUNT
};

typedef struct bgi_loss_scale_attributes {
    double threshold; /* share of UPPER above which the scale is decreased */
    double increase, decrease;
    double minimum, maximum;
    double period; /* a whole number */
} bgi_loss_scale_attributes;

#endif
