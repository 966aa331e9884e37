/*
 * attributes.h: the operands and attributes of collectives. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_COLLECTIVE_ATTRIBUTES_H
#define BGI_KERNELS_COLLECTIVE_ATTRIBUTES_H

#include <brigade/ops.h>

/*
 * Collective calls have no kernels: the engine runs them for all replicas of a group together (runtime/collective.c).
 *
 *     ALL_REDUCE      x -> y
 *     ALL_GATHER      x -> y        dim `axis` of y is `members` times that of x
 *     REDUCE_SCATTER  x -> y        dim `axis` of x is `members` times that of y
 */
typedef enum bgi_collective_kind {
    BGI_COLLECTIVE_REDUCE = 0,
    BGI_COLLECTIVE_GATHER,
    BGI_COLLECTIVE_SCATTER
} bgi_collective_kind;

typedef struct bgi_collective_attributes {
    bgi_collective_kind kind;
    bg_reduction function;    /* SUM or MAX */
    uint32_t axes;            /* axes of the mesh */
    uint32_t members;         /* replicas of a group along the axes */
    uint32_t axis;            /* axis of the tensor */
    uint32_t passes_gradient; /* 0 or 1; REDUCE: its backward pass leaves the gradient unchanged */
} bgi_collective_attributes;

#endif
