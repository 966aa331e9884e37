/*
 * fast.h: how recurrences divide their work. A part has some of the samples and all their steps, so states stay within
 * a part. The weight is packed in panels once, for all parts.
 */
#ifndef BGI_KERNELS_RECURRENT_FAST_H
#define BGI_KERNELS_RECURRENT_FAST_H

#include "kernels/cpu/variant.h"
#include "kernels/linear/gemm.h"
#include "kernels/recurrent/attributes.h"

typedef struct bgi_recurrent {
    bgi_recurrent_shape shape;
    bg_dtype dtype;
    int64_t gates;        /* the weight has `gates` times H rows */
    int64_t rows;         /* samples of a part */
    int64_t width_floats; /* H and the weight's rows, rounded up to whole cache lines */
    int64_t gates_floats;
    int64_t panel_columns; /* the laid-out weight: columns of a panel; columns, depth and panels of the product */
    int64_t columns, depth, panels;
    int64_t weight_floats, part_floats;
    uint32_t parts;
} bgi_recurrent;

/* Returns the plan of a recurrence. The product of a step is h weight^T in the forward pass and d weight in the
 * backward pass. Scratch: the weight; for each part two states, the products or the gates' gradients of its samples,
 * rows of operands and results, and the reset states' contribution to the gates. */
static inline bgi_recurrent bgi_recurrent_plan(const bg_type *y, const bg_type *weight,
                                               const bgi_recurrent_attributes *attributes, bool is_backward,
                                               int64_t lanes)
{
    bgi_recurrent r = {.shape = bgi_recurrent_read(y, attributes),
                       .dtype = y->dtype,
                       .gates = weight->dims[0] / weight->dims[1],
                       .panel_columns = BGI_GEMM_PANEL_VECTORS * lanes};
    const int64_t even = bgi_cpu_round_up((r.shape.samples + BGI_CPU_MOST_PARTS - 1) / BGI_CPU_MOST_PARTS, 8);
    const int64_t least = r.shape.samples >= 32 ? 16 : 8;

    r.rows = even > least ? even : least;
    r.parts = (uint32_t)((r.shape.samples + r.rows - 1) / r.rows);
    r.width_floats = bgi_cpu_round_up(r.shape.width, 16);
    r.gates_floats = bgi_cpu_round_up(r.gates * r.shape.width, 16);
    r.columns = is_backward ? r.shape.width : r.gates * r.shape.width;
    r.depth = is_backward ? r.gates * r.shape.width : r.shape.width;
    r.panels = (r.columns + r.panel_columns - 1) / r.panel_columns;
    r.weight_floats = r.panels * r.panel_columns * r.depth + r.width_floats;
    r.part_floats = r.rows * (2 * r.width_floats + r.gates_floats) + 16 * r.width_floats;
    if (attributes->reset_first && !is_backward)
        r.part_floats += r.rows * r.gates_floats;
    return r;
}

#endif
