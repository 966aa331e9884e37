/*
 * fast.h: how a product with quantized weights is divided into parts.
 */
#ifndef BGI_KERNELS_QUANTIZED_FAST_H
#define BGI_KERNELS_QUANTIZED_FAST_H

#include "kernels/linear/gemm.h"
#include "kernels/quantized/attributes.h"

enum {
    BGI_QUANTIZED_FEW_ROWS = 4
}; /* up to this number of rows, the weights are read once for all rows and not stored as float32 */

/* With few rows, a part is a run of panels that takes a few microseconds to read. */
#define BGI_QUANTIZED_PART_WEIGHTS 2e5

typedef struct bgi_quantized_plan {
    int64_t rows, panels;
    int64_t x_floats; /* floats of a part: x as float32, if it has another type */
    uint32_t parts;
} bgi_quantized_plan;

static inline bool bgi_quantized_is_few(int64_t rows)
{
    return rows <= BGI_QUANTIZED_FEW_ROWS;
}

static inline bgi_quantized_plan bgi_quantized_cut(const bgi_quantized_attributes *a, const bg_type *x)
{
    bgi_quantized_plan plan = {.rows = bg_type_element_count(x) / a->in, .panels = bgi_quantized_panels(a->out)};

    plan.x_floats = x->dtype == BG_FLOAT32 ? 0 : bgi_cpu_round_up(plan.rows * a->in, 16);
    plan.parts = bgi_cpu_part_count(plan.panels, (double)a->in * (double)a->out, BGI_QUANTIZED_PART_WEIGHTS);
    return plan;
}

/* If x is bfloat16 and the processor has instructions for pairs (linear/pairs.h), these multiply weights of 16 bits,
 * for any number of rows. A part is a run of panels. */
enum { BGI_QUANTIZED_PAIRS_ROWS = 256, BGI_QUANTIZED_PAIRS_DEPTH = 256 };

typedef struct bgi_quantized_pairs_plan {
    int64_t rows, panels;
    int64_t block, depth;       /* rows and terms that are processed together; sums do not depend on these numbers */
    int64_t c_floats, a_floats; /* scratch of a part: sums, and packed x */
    uint32_t parts;
} bgi_quantized_pairs_plan;

static inline bgi_quantized_pairs_plan bgi_quantized_pairs_cut(const bgi_quantized_attributes *a, const bg_type *x)
{
    bgi_quantized_pairs_plan plan = {.rows = bg_type_element_count(x) / a->in, .panels = bgi_quantized_panels(a->out)};
    const double weights = (double)a->in * (double)a->out;

    plan.block = plan.rows < BGI_QUANTIZED_PAIRS_ROWS ? plan.rows : BGI_QUANTIZED_PAIRS_ROWS;
    plan.depth =
        bgi_quantized_is_few(plan.rows) || a->in < BGI_QUANTIZED_PAIRS_DEPTH ? a->in : BGI_QUANTIZED_PAIRS_DEPTH;
    plan.c_floats = plan.block * BGI_QUANTIZED_PANEL;
    plan.a_floats = bgi_cpu_round_up(bgi_pairs_floats(plan.block, plan.depth), 16);
    plan.parts =
        bgi_cpu_part_count(plan.panels, weights * (1.0 + (double)plan.rows / 16.0), BGI_QUANTIZED_PART_WEIGHTS);
    return plan;
}

/* Returns the plan for more rows: a product of gemm.h, for which weights are packed as float32. */
static inline bgi_gemm bgi_quantized_gemm(const bgi_quantized_attributes *a, const bg_type *x, int64_t lanes)
{
    return bgi_gemm_for(
        bgi_gemm_plan(1, bg_type_element_count(x) / a->in, a->out, a->in, 1, lanes, x->dtype == BG_FLOAT32), lanes,
        NULL);
}

#endif
