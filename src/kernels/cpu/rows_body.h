/*
 * rows_body.h: iterates over a row in vectors. Sums over a row run in LANES interleaved chains, which are added
 * pairwise at the end.
 */
#ifndef BGI_CPU_ROWS_BODY_H
#define BGI_CPU_ROWS_BODY_H

#include "kernels/cpu/rows.h"
#include "kernels/elementwise/fast_body.h"

#define FOR_ROW(count, live)                                                                                           \
    for (int64_t i = 0, live = clip((count), LANES); i < (count); i += LANES, live = clip((count)-i, LANES))

static float *find_rows_scratch(const bg_kernel_call *call, const bgi_rows *rows, uint32_t part)
{
    return (float *)call->scratch + part * rows->part_floats;
}

#endif
