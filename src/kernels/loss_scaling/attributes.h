/*
 * attributes.h: the operands and attributes of an automatic loss scale and of the guard of the loss. Notation:
 * kernels.h.
 */
#ifndef BGI_KERNELS_LOSS_SCALING_ATTRIBUTES_H
#define BGI_KERNELS_LOSS_SCALING_ATTRIBUTES_H

#include <stdbool.h>

#include "kernels/pieces.h"

/*
 *     RANGE_COUNT  x -> counts [BGI_RANGE_COUNTS]    float64, which counts exactly; x may be a piece
 *     LOSS_SCALE   loss_scale!, statistics! [BGI_STATISTICS_COUNT], counts, scale, hyper -> scale, hyper, used
 *                  (scale / loss_scale; hyper with SKIP and SKIPPED; the loss scale before it is adapted)
 *     LOSS_GUARD   hyper!, counts -> hyper
 *                  (SKIP is 1 + env->optimizer_step of the first update whose losses were not all finite)
 */

/* The counters of RANGE_COUNT. */
enum {
    BGI_RANGE_LOWER = 0,  /* |x| <= edge */
    BGI_RANGE_UPPER,      /* the other elements */
    BGI_RANGE_NOT_FINITE, /* the number of those in UPPER that are infinite or NaN */
    BGI_RANGE_COUNTS
};

typedef struct bgi_range_count_attributes {
    double edge;
    int64_t elements;     /* elements of the whole x */
    uint32_t pieces;      /* the number of shards, of which x may be one; 0: x is whole */
    bool only_not_finite; /* the other counts are zero */
    uint8_t unused[3];    /* fills the padding: see bg_op_type */
} bgi_range_count_attributes;

/* Returns the number of elements of the call's operand that are not padding. */
static inline int64_t bgi_range_count_live(const bgi_range_count_attributes *attributes, const bg_kernel_call *call)
{
    if (attributes->pieces == 0 || bgi_has_all_pieces(&call->types[0], attributes->elements))
        return bg_type_element_count(&call->types[0]);
    return bgi_piece_live(attributes->elements, attributes->pieces, call->env->place.data);
}

/* The state of an automatic loss scale, in addition to the scale itself. */
enum {
    BGI_STATISTICS_LOWER = BGI_RANGE_LOWER, /* count over the updates since the scale was last adapted */
    BGI_STATISTICS_UPPER = BGI_RANGE_UPPER,
    BGI_STATISTICS_UPDATES, /* the number of these updates */
    BGI_STATISTICS_SKIPPED, /* the number of skipped updates with the current optimizer state */
    BGI_STATISTICS_COUNT
};

typedef struct bgi_loss_scale_attributes {
    double threshold; /* the scale is decreased if the fraction of elements in UPPER is above this */
    double increase, decrease;
    double minimum, maximum;
    double period; /* updates between two adaptations, a whole number */
} bgi_loss_scale_attributes;

#endif
