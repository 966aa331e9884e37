/*
 * attributes.h: the operands and attributes of dropout. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_DROPOUT_ATTRIBUTES_H
#define BGI_KERNELS_DROPOUT_ATTRIBUTES_H

#include <brigade/ops.h>

#include "kernels/mesh.h"

/*
 *     DROPOUT x -> y (in training; copies otherwise)
 *
 * The mask of element e of sample n is word e % 4 of
 *
 *     Philox4x32-10(counter {e / 4, global sample, random_id, step low}, key {seed low, seed high ^ step high})
 *
 * with global sample = micro_batch * N + n. The element is kept when word * 2^-32 >= probability. The gradient of
 * dropout is the same kernel applied to dy. If the last dim of x is sharded over an axis, elements are numbered in the
 * whole tensor. Replicas with the same shard drop the same elements, and all shards together drop the same elements as
 * one replica.
 */
typedef struct bgi_dropout_attributes {
    double probability;
    uint32_t random_id;
    bg_mesh_axis axis;
    uint32_t pieces; /* shards of the last dim; 0 means 1 */
} bgi_dropout_attributes;

/* Runs of a sample's elements that are adjacent in the whole tensor. */
typedef struct bgi_dropout_runs {
    int64_t length, count; /* elements of a run; number of runs */
    int64_t first, stride; /* in the whole tensor: the beginning of the first run, and the distance between runs */
} bgi_dropout_runs;

static inline bgi_dropout_runs bgi_dropout_find_runs(const bg_kernel_call *call, int64_t elements)
{
    const bgi_dropout_attributes *attributes = (const bgi_dropout_attributes *)call->attributes;
    const int64_t last = call->types[0].dims[call->types[0].rank - 1];

    if (attributes->pieces <= 1)
        return (bgi_dropout_runs){elements, 1, 0, elements};
    return (bgi_dropout_runs){last, elements / last, last * bgi_mesh_place(call->env, attributes->axis),
                              last * attributes->pieces};
}

#endif
