/*
 * depthwise.h: the geometry of convolutions with one filter for each channel, only for float32. Each channel of results
 * reads one channel, so the sums are short, and copies and tables take most of the time. Copies (direct.h) are made for
 * one channel of one image (a plane) at a time, and tables once for all planes of a part.
 */
#ifndef BGI_KERNELS_CONV_DEPTHWISE_H
#define BGI_KERNELS_CONV_DEPTHWISE_H

#include "kernels/conv/direct.h"

enum {
    BGI_DEPTHWISE_MOST_TAPS = 64,
    BGI_DEPTHWISE_PART_FLOATS = 64 * 1024, /* about this many elements of x or y, whichever is larger, in a part */
    BGI_DEPTHWISE_MOST_PHASES = BGI_DIRECT_MOST_STRIDE * BGI_DIRECT_MOST_STRIDE
};

static inline bool bgi_conv_is_depthwise(const bgi_conv *s)
{
    return bgi_direct_may(s) && !bgi_conv_is_matrix(s) && s->options.groups == s->c && s->o == s->c &&
           s->taps <= BGI_DEPTHWISE_MOST_TAPS;
}

/* Parts are runs of planes, image after image. For dw, parts are runs of channels, each over all images. Scratch of a
 * runner: tables, for each phase of dx; then a plane's copy; then results of phases of a row of dx. */
typedef struct bgi_depthwise_plan {
    int64_t items;
    int64_t table_floats, copy_floats, spread_floats, part_floats;
    uint32_t parts;
} bgi_depthwise_plan;

static inline void bgi_depthwise_plan_parts(const bgi_conv *s, int64_t items, bgi_depthwise_plan *plan)
{
    const int64_t results = s->n * s->c * (s->p > s->h * s->w ? s->p : s->h * s->w);

    plan->items = items;
    plan->parts = bgi_cpu_part_count(items, (double)results, BGI_DEPTHWISE_PART_FLOATS);
}

/* Returns the plan of the forward pass and of dw. */
static inline bgi_depthwise_plan bgi_depthwise_forward(const bgi_conv *s, int64_t items, int64_t lanes, bgi_direct *d)
{
    bgi_depthwise_plan plan = {0};

    *d = bgi_direct_forward(s);
    plan.table_floats = bgi_direct_table_floats(d, 0, lanes);
    plan.copy_floats = bgi_cpu_round_up(bgi_direct_plane(d, d->rows) + lanes, 16);
    plan.part_floats = plan.table_floats + plan.copy_floats;
    bgi_depthwise_plan_parts(s, items, &plan);
    return plan;
}

static inline bgi_depthwise_plan bgi_depthwise_backward(const bgi_conv *s, int64_t lanes)
{
    bgi_depthwise_plan plan = {0};
    int64_t q[2], positions = 0;
    bgi_direct d;

    for (q[0] = 0; q[0] < s->options.stride[0]; q[0]++)
        for (q[1] = 0; q[1] < s->options.stride[1]; q[1]++)
            if (bgi_direct_backward(s, q, &d)) {
                const int64_t tables = bgi_direct_table_floats(&d, 0, lanes), copy = bgi_direct_plane(&d, d.rows);

                plan.table_floats = tables > plan.table_floats ? tables : plan.table_floats;
                plan.copy_floats = copy > plan.copy_floats ? copy : plan.copy_floats;
                positions = d.rows * d.columns > positions ? d.rows * d.columns : positions;
            }
    plan.copy_floats = bgi_cpu_round_up(plan.copy_floats + lanes, 16);
    plan.spread_floats = bgi_cpu_round_up(positions, 16);
    plan.part_floats = s->options.stride[0] * s->options.stride[1] * plan.table_floats + plan.copy_floats +
                       s->options.stride[1] * plan.spread_floats;
    bgi_depthwise_plan_parts(s, s->n * s->c, &plan);
    return plan;
}

static inline size_t bgi_depthwise_scratch_bytes(const bgi_depthwise_plan *plan)
{
    return plan->parts * (size_t)plan->part_floats * sizeof(float);
}

#endif
