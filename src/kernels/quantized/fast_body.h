/*
 * fast_body.h: products with quantized weights. Levels become float32 in registers, and lanes are outputs. Each
 * output's sum runs over the inputs in order, in the blocks of gemm.h, so results for few rows are bit-identical to
 * those for many rows and to the float32 product. On processors with instructions for pairs, these multiply weights of
 * 16 bits by an x of bfloat16, in the order of linear/pairs.h.
 */
#ifndef BGI_KERNELS_QUANTIZED_FAST_BODY_H
#define BGI_KERNELS_QUANTIZED_FAST_BODY_H

#include "kernels/elementwise/fast_body.h"
#include "kernels/linear/gemm_body.h"
#include "kernels/quantized/fast.h"

enum { QUANTIZED_VECTORS = BGI_QUANTIZED_PANEL / LANES };
/* The number of rows whose sums are in registers at the same time. */
#define QUANTIZED_ROWS (LANES == 16 || BGI_GEMM_IS_AARCH64 ? BGI_QUANTIZED_FEW_ROWS : 1)

/* ---- levels and scales ---- */

ALWAYS_INLINE vf load_scale(const uint8_t *block, int v)
{
    return vload_bfloat16((const uint16_t *)(const void *)block + v * LANES);
}

/* Loads the levels of outputs from v LANES on. */
ALWAYS_INLINE vf load_levels(const uint8_t *row, int v, const uint32_t bits)
{
    const int half = QUANTIZED_VECTORS / 2;
    vi pairs;

    if (bits == 8)
        return vto_float(vload_int8((const int8_t *)row + v * LANES));
    pairs = vload_uint8(row + v % half * LANES);
#if LANES == 16
    {
        /* the permutation reads only the lowest 4 bits of an index */
        const vf levels = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

        return (vf)_mm512_permutexvar_ps((__m512i)(v < half ? pairs : pairs >> 4), (__m512)levels);
    }
#else
    return vto_float((v < half ? pairs & vset_int(15) : pairs >> 4) - vset_int(8));
#endif
}

/* ---- few rows ---- */

/* Computes sums [rows][panel] = x [rows][in] times one panel. */
ALWAYS_INLINE void multiply_quantized_panel(const float *x, const int64_t in, const uint8_t *panel, const int rows,
                                            const uint32_t bits, float *sums)
{
    const int64_t depth = bgi_product_block(in), row_bytes = BGI_QUANTIZED_PANEL * (int64_t)bits / 8;

    for (int64_t k = 0, end; k < in; k = end) {
        const bool is_first = k == 0;
        vf sum[BGI_QUANTIZED_FEW_ROWS][QUANTIZED_VECTORS];

        end = in - k < depth ? in : k + depth;
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < QUANTIZED_VECTORS; v++)
                sum[r][v] = vset(0.0f);
        }
        for (int64_t at = k, stop; at < end; at = stop) {
            const int64_t block = at / BGI_QUANTIZED_BLOCK;
            const uint8_t *scales = panel + block * bgi_quantized_block_bytes(bits);
            const uint8_t *row = scales + BGI_QUANTIZED_PANEL * (int64_t)sizeof(uint16_t) +
                                 (at - block * BGI_QUANTIZED_BLOCK) * row_bytes;
            vf scale[QUANTIZED_VECTORS];

            stop = (block + 1) * BGI_QUANTIZED_BLOCK < end ? (block + 1) * BGI_QUANTIZED_BLOCK : end;
            UNROLL
            for (int v = 0; v < QUANTIZED_VECTORS; v++)
                scale[v] = load_scale(scales, v);
            for (int64_t i = at; i < stop; i++, row += row_bytes) {
                UNROLL
                for (int v = 0; v < QUANTIZED_VECTORS; v++) {
                    const vf weight = load_levels(row, v, bits) * scale[v];

                    UNROLL
                    for (int r = 0; r < rows; r++)
                        sum[r][v] = vfma(vset(x[r * in + i]), weight, sum[r][v]);
                }
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < QUANTIZED_VECTORS; v++) {
                float *to = sums + r * BGI_QUANTIZED_PANEL + v * LANES;

                vstore(to, is_first ? sum[r][v] : sum[r][v] + vload(to));
            }
        }
    }
}

/* ---- few rows, 16 bits ---- */

enum { HALF_AHEAD = 32 }; /* pairs of terms that are fetched ahead */

/* Loads the weights of inputs 2i and 2i + 1 for outputs from v LANES on. */
ALWAYS_INLINE vi load_pairs(const uint8_t *panel, int64_t i, int v)
{
    return vload_int((const int32_t *)(const void *)panel + i * BGI_QUANTIZED_PANEL + v * LANES);
}

ALWAYS_INLINE vf take_even(vi pairs)
{
    return (vf)(pairs << 16);
}

ALWAYS_INLINE vf take_odd(vi pairs)
{
    return (vf)(pairs & vset_int((int32_t)0xffff0000u));
}

/* Adds the products of the two inputs of the pair with input `from`, or of one of them, to the sums. */
ALWAYS_INLINE void add_pair(const float *x, const int64_t in, const uint8_t *panel, int64_t from, const bool has_even,
                            const bool has_odd, const int rows, vf sum[][QUANTIZED_VECTORS])
{
    const float *even = x + from / 2 * 2;

    UNROLL
    for (int v = 0; v < QUANTIZED_VECTORS; v++) {
        const vi pairs = load_pairs(panel, from / 2, v);

        if (v % (64 / (LANES * 4)) == 0)
            __builtin_prefetch(panel + ((from / 2 + HALF_AHEAD) * BGI_QUANTIZED_PANEL + v * LANES) * 4, 0, 3);
        UNROLL
        for (int r = 0; r < rows; r++) {
            if (has_even)
                sum[r][v] = vfma(vset(even[r * in]), take_even(pairs), sum[r][v]);
            if (has_odd)
                sum[r][v] = vfma(vset(even[r * in + 1]), take_odd(pairs), sum[r][v]);
        }
    }
}

/* Does the same as multiply_quantized_panel for weights of 16 bits. Blocks of depth may begin and end between the
 * inputs of a pair. */
ALWAYS_INLINE void multiply_half_panel(const float *x, const int64_t in, const uint8_t *panel, const int rows,
                                       float *sums)
{
    const int64_t depth = bgi_product_block(in);

    for (int64_t k = 0, end; k < in; k = end) {
        vf sum[BGI_QUANTIZED_FEW_ROWS][QUANTIZED_VECTORS];
        int64_t i = k;

        end = in - k < depth ? in : k + depth;
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < QUANTIZED_VECTORS; v++)
                sum[r][v] = vset(0.0f);
        }
        if (i % 2 != 0)
            add_pair(x, in, panel, i++, false, true, rows, sum);
        for (; i + 2 <= end; i += 2)
            add_pair(x, in, panel, i, true, true, rows, sum);
        if (i < end)
            add_pair(x, in, panel, i, true, false, rows, sum);
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < QUANTIZED_VECTORS; v++) {
                float *to = sums + r * BGI_QUANTIZED_PANEL + v * LANES;

                vstore(to, k == 0 ? sum[r][v] : sum[r][v] + vload(to));
            }
        }
    }
}

#define QUANTIZED_PANEL(rows, bits)                                                                                    \
    static void multiply_quantized_##rows##_##bits(const float *x, int64_t in, const uint8_t *panel, float *sums)      \
    {                                                                                                                  \
        multiply_quantized_panel(x, in, panel, rows, bits, sums);                                                      \
    }
#define HALF_PANEL(rows)                                                                                               \
    static void multiply_quantized_##rows##_16(const float *x, int64_t in, const uint8_t *panel, float *sums)          \
    {                                                                                                                  \
        multiply_half_panel(x, in, panel, rows, sums);                                                                 \
    }
HALF_PANEL(1)
QUANTIZED_PANEL(1, 8)
QUANTIZED_PANEL(1, 4)
#if LANES == 16 || BGI_GEMM_IS_AARCH64
HALF_PANEL(2)
HALF_PANEL(3)
HALF_PANEL(4)
QUANTIZED_PANEL(2, 8)
QUANTIZED_PANEL(3, 8)
QUANTIZED_PANEL(4, 8)
QUANTIZED_PANEL(2, 4)
QUANTIZED_PANEL(3, 4)
QUANTIZED_PANEL(4, 4)
#endif

/* The functions by number of rows (from 1) and by bits (4, 8, 16). */
static void (*const quantized_table[][3])(const float *x, int64_t in, const uint8_t *panel, float *sums) = {
    {multiply_quantized_1_4, multiply_quantized_1_8, multiply_quantized_1_16},
#if LANES == 16 || BGI_GEMM_IS_AARCH64
    {multiply_quantized_2_4, multiply_quantized_2_8, multiply_quantized_2_16},
    {multiply_quantized_3_4, multiply_quantized_3_8, multiply_quantized_3_16},
    {multiply_quantized_4_4, multiply_quantized_4_8, multiply_quantized_4_16},
#endif
};

static int find_table_column(uint32_t bits)
{
    return bits == 16 ? 2 : bits == 8;
}

static void run_few_rows(const bg_kernel_call *call, uint32_t part)
{
    const bgi_quantized_attributes *a = call->attributes;
    const bg_type *x = &call->types[0];
    const bgi_quantized_plan plan = bgi_quantized_cut(a, x);
    const int64_t panel_bytes = bgi_quantized_panel_bytes(a->in, a->bits);
    const float *rows =
        view_floats(x->dtype, call->operands[0], 0, plan.rows * a->in, bgi_cpu_part_scratch(call, plan.x_floats));
    float sums[BGI_QUANTIZED_FEW_ROWS * BGI_QUANTIZED_PANEL];

    for (int64_t p = bgi_cpu_part_start(plan.panels, part, plan.parts);
         p < bgi_cpu_part_start(plan.panels, part + 1, plan.parts); p++) {
        const int64_t from = p * BGI_QUANTIZED_PANEL, count = clip(a->out - from, BGI_QUANTIZED_PANEL);
        const uint8_t *panel = (const uint8_t *)call->operands[1] + p * panel_bytes;

        for (int64_t r = 0; r < plan.rows; r += QUANTIZED_ROWS)
            quantized_table[clip(plan.rows - r, QUANTIZED_ROWS) - 1][find_table_column(a->bits)](
                rows + r * a->in, a->in, panel, sums + r * BGI_QUANTIZED_PANEL);
        for (int64_t r = 0; r < plan.rows; r++)
            write_floats(x->dtype, call->operands[2], r * a->out + from, count, sums + r * BGI_QUANTIZED_PANEL);
    }
}

/* ---- 16 bits by pairs ---- */

#if LANES == 16
static void run_panels_of_pairs(const bg_kernel_call *call, uint32_t part)
{
    const bgi_quantized_attributes *a = call->attributes;
    const bgi_quantized_pairs_plan plan = bgi_quantized_pairs_cut(a, &call->types[0]);
    const int64_t panel_bytes = bgi_quantized_panel_bytes(a->in, 16);
    float *sums = bgi_cpu_part_scratch(call, plan.c_floats + plan.a_floats);
    bgi_pairs pairs = {
        .a_row = a->in, .a_column = 1, .c = sums, .c_row = BGI_QUANTIZED_PANEL, .scratch = sums + plan.c_floats};

    for (int64_t p = bgi_cpu_part_start(plan.panels, part, plan.parts);
         p < bgi_cpu_part_start(plan.panels, part + 1, plan.parts); p++) {
        const int64_t from = p * BGI_QUANTIZED_PANEL;

        pairs.n = clip(a->out - from, BGI_QUANTIZED_PANEL);
        for (int64_t row = 0; row < plan.rows; row += plan.block) {
            pairs.m = clip(plan.rows - row, plan.block);
            for (int64_t k = 0; k < a->in; k += plan.depth) {
                pairs.k = clip(a->in - k, plan.depth);
                pairs.a = (const uint16_t *)call->operands[0] + row * a->in + k;
                pairs.b = (const uint16_t *)call->operands[1] + p * panel_bytes / 2 + k * BGI_QUANTIZED_PANEL;
                pairs.goes_on = k > 0;
                if (bgi_product_pairs(call->state) == BGI_ISA_AMX)
                    bgi_pairs_multiply_amx(&pairs);
                else
                    bgi_pairs_multiply_avx512bf16(&pairs);
            }
            for (int64_t r = 0; r < pairs.m; r++)
                narrow(BG_BFLOAT16, sums + r * BGI_QUANTIZED_PANEL, pairs.n,
                       (uint16_t *)call->operands[2] + (row + r) * a->out + from);
        }
    }
}
#endif

/* ---- many rows ---- */

ALWAYS_INLINE void pack_half_vector(const gemm_job *job, int64_t k0, int64_t k_count, int64_t n, int64_t width,
                                    float *to)
{
    const uint8_t *panel =
        (const uint8_t *)job->source + n / BGI_QUANTIZED_PANEL * bgi_quantized_panel_bytes(job->gemm->k, 16);
    const int v = (int)(n % BGI_QUANTIZED_PANEL / LANES);
    int64_t k = k0;

    if (k % 2 != 0 && k_count > 0)
        vstore(to, take_odd(load_pairs(panel, k++ / 2, v)));
    for (; k + 2 <= k0 + k_count; k += 2) {
        const vi pairs = load_pairs(panel, k / 2, v);

        vstore(to + (k - k0) * width, take_even(pairs));
        vstore(to + (k - k0 + 1) * width, take_odd(pairs));
    }
    if (k < k0 + k_count)
        vstore(to + (k - k0) * width, take_even(load_pairs(panel, k / 2, v)));
}

ALWAYS_INLINE void pack_quantized_vector(const gemm_job *job, int64_t k0, int64_t k_count, int64_t n, int64_t width,
                                         const uint32_t bits, float *to)
{
    const int64_t row_bytes = bgi_quantized_row_bytes(bits), lane = n % BGI_QUANTIZED_PANEL;
    const uint8_t *panel =
        (const uint8_t *)job->source + n / BGI_QUANTIZED_PANEL * bgi_quantized_panel_bytes(job->gemm->k, bits);

    for (int64_t k = k0, stop; k < k0 + k_count; k = stop) {
        const int64_t block = k / BGI_QUANTIZED_BLOCK, left = k0 + k_count;
        const uint8_t *scales = panel + block * bgi_quantized_block_bytes(bits);
        const uint8_t *row =
            scales + BGI_QUANTIZED_PANEL * (int64_t)sizeof(uint16_t) + (k - block * BGI_QUANTIZED_BLOCK) * row_bytes;
        const vf scale = load_scale(scales, (int)(lane / LANES));

        stop = (block + 1) * BGI_QUANTIZED_BLOCK < left ? (block + 1) * BGI_QUANTIZED_BLOCK : left;
        for (int64_t i = k; i < stop; i++, row += row_bytes, to += width)
            vstore(to, load_levels(row, (int)(lane / LANES), bits) * scale);
    }
}

/* Packs weights as float32; columns beyond the last output are zeros of the last panel. */
static void pack_quantized(const gemm_job *job, int64_t repeat, int64_t k0, int64_t k_count, int64_t n0, int64_t count,
                           int64_t width, float *to, float *spare)
{
    (void)repeat;
    (void)count;
    (void)spare;
    for (int64_t n = 0; n < width; n += LANES)
        if (job->batch == 16)
            pack_half_vector(job, k0, k_count, n0 + n, width, to + n);
        else if (job->batch == 8)
            pack_quantized_vector(job, k0, k_count, n0 + n, width, 8, to + n);
        else
            pack_quantized_vector(job, k0, k_count, n0 + n, width, 4, to + n);
}

/* Returns the blocks of inputs k0.. of the panel that has the last of these columns. If the columns begin in the panel
 * before it, that panel is usually in the cache already. */
static gemm_ahead find_quantized_ahead(const gemm_job *job, int64_t k0, int64_t k_count, int64_t n0, int64_t count)
{
    const uint32_t bits = (uint32_t)job->batch;
    const int64_t bytes = bgi_quantized_block_bytes(bits), block = k0 / BGI_QUANTIZED_BLOCK;
    const int64_t panel = (n0 + count - 1) / BGI_QUANTIZED_PANEL;

    return (gemm_ahead){.from = (const char *)job->source + panel * bgi_quantized_panel_bytes(job->gemm->k, bits) +
                                block * bytes,
                        .rows = (k0 + k_count + BGI_QUANTIZED_BLOCK - 1) / BGI_QUANTIZED_BLOCK - block,
                        .stride = bytes,
                        .bytes = bytes};
}

static void run_quantized_linear(const bg_kernel_call *call, uint32_t part)
{
    const bgi_quantized_attributes *a = call->attributes;
    const bg_type *x = &call->types[0];
    bgi_gemm g;

#if LANES == 16
    if (bgi_product_pairs(call->state) != BGI_ISA_PORTABLE) {
        run_panels_of_pairs(call, part);
        return;
    }
#endif
    if (bgi_quantized_is_few(bg_type_element_count(x) / a->in)) {
        run_few_rows(call, part);
        return;
    }
    g = bgi_quantized_gemm(a, x, LANES);
    const gemm_job job = {.gemm = &g,
                          .dtype = x->dtype,
                          .c_dtype = x->dtype,
                          .a = call->operands[0],
                          .a_row = a->in,
                          .a_column = 1,
                          .b = call->operands[1],
                          .c = call->operands[2],
                          .c_row = a->out,
                          .pack = pack_quantized,
                          .find_ahead = find_quantized_ahead,
                          .from_end = call->runner > 0,
                          .source = call->operands[1],
                          .batch = a->bits}; /* for `pack` */

    for (int64_t unit = bgi_cpu_part_start(g.units, part, g.parts);
         unit < bgi_cpu_part_start(g.units, part + 1, g.parts); unit++)
        multiply_matrix_unit(&job, unit, bgi_cpu_part_scratch(call, g.part_floats));
}

#endif
