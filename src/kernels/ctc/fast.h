/*
 * fast.h: the scratch of a sample: rows over the places of its path, in double, with unused elements on both sides, so
 * that whole vectors can be read.
 */
#ifndef BGI_KERNELS_CTC_FAST_H
#define BGI_KERNELS_CTC_FAST_H

#include "kernels/cpu/variant.h"
#include "kernels/ctc/attributes.h"

enum { BGI_CTC_ROWS = 4, BGI_CTC_BEFORE = 8, BGI_CTC_BEHIND = 16 /* doubles */ };

static inline int64_t bgi_ctc_row_doubles(const bg_type *targets)
{
    return bgi_cpu_round_up(BGI_CTC_BEFORE + 2 * targets->dims[1] + 1 + BGI_CTC_BEHIND, 8);
}

static inline int64_t bgi_ctc_part_floats(const bg_type *targets)
{
    return 2 * BGI_CTC_ROWS * bgi_ctc_row_doubles(targets);
}

#endif
