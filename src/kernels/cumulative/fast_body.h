/*
 * fast_body.h: cumulative sums of floats, in double and bit-identical to the plain kernel.
 */
#ifndef BGI_KERNELS_CUMULATIVE_FAST_BODY_H
#define BGI_KERNELS_CUMULATIVE_FAST_BODY_H

#include "kernels/cpu/convert_body.h"
#include "kernels/cumulative/fast.h"
#include "kernels/elementwise/fast_body.h"

/* Computes one block of columns along the whole axis. */
static void accumulate_block(const bg_kernel_call *call, const bgi_cumulation *c, int64_t first, int64_t columns)
{
    const bgi_cumulative_attributes *attributes = call->attributes;
    const bg_dtype dtype = call->types[0].dtype;
    double sums[BGI_CUMULATIVE_BLOCK] = {0.0};
    float in[BGI_CUMULATIVE_BLOCK], out[BGI_CUMULATIVE_BLOCK];

    for (int64_t i = 0; i < c->view.size; i++) {
        const int64_t at = first + (attributes->is_reverse ? c->view.size - 1 - i : i) * c->view.inner;
        const float *x = view_floats(dtype, call->operands[0], at, columns, in);

        for (int64_t e = 0; e < columns; e++) {
            const double more = sums[e] + (double)x[e];

            out[e] = (float)(attributes->is_exclusive ? sums[e] : more);
            sums[e] = more;
        }
        write_floats(dtype, call->operands[1], at, columns, out);
    }
}

static void run_cumulative_sum(const bg_kernel_call *call, uint32_t part)
{
    const bgi_cumulative_attributes *attributes = call->attributes;
    const bgi_cumulation c = bgi_cumulation_make(&call->types[0], attributes->axis);

    for (int64_t block = bgi_cpu_part_start(c.view.outer * c.blocks, part, c.parts);
         block < bgi_cpu_part_start(c.view.outer * c.blocks, part + 1, c.parts); block++) {
        const int64_t column = block % c.blocks * BGI_CUMULATIVE_BLOCK;

        accumulate_block(call, &c, block / c.blocks * c.view.size * c.view.inner + column,
                         clip(c.view.inner - column, BGI_CUMULATIVE_BLOCK));
    }
}

#endif
