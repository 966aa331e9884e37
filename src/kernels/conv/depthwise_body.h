/*
 * depthwise_body.h: convolutions with a filter for each channel, plane by plane. Geometry: depthwise.h.
 *
 * Sums run over taps in order and are bit-identical to the matrix product. Sums of dw run over the positions of some
 * images in lanes, which are then added up.
 */
#ifndef BGI_KERNELS_CONV_DEPTHWISE_BODY_H
#define BGI_KERNELS_CONV_DEPTHWISE_BODY_H

#include "kernels/conv/depthwise.h"
#include "kernels/conv/direct_body.h"

enum { PLANE_VECTORS = 8, PLANE_TAPS = 9 }; /* vectors and taps that are summed at a time */

/* ---- a plane ---- */

/* Computes y[p], the sum over taps of w[t] copy[places[t] + p], plus the bias. */
static void convolve_plane(const float *copy, const int32_t *places, const float *w, int64_t taps, int64_t count,
                           const float *bias, float *y)
{
    int64_t p = 0;

    for (; p + PLANE_VECTORS * LANES <= count; p += PLANE_VECTORS * LANES) {
        vf sum[PLANE_VECTORS];

        UNROLL
        for (int v = 0; v < PLANE_VECTORS; v++)
            sum[v] = vset(0.0f);
        for (int64_t t = 0; t < taps; t++) {
            const float *from = copy + places[t] + p;
            const vf x = vset(w[t]);

            UNROLL
            for (int v = 0; v < PLANE_VECTORS; v++)
                sum[v] = vfma(x, vload(from + v * LANES), sum[v]);
        }
        UNROLL
        for (int v = 0; v < PLANE_VECTORS; v++)
            vstore(y + p + v * LANES, bias ? sum[v] + vset(*bias) : sum[v]);
    }
    for (; p < count; p += LANES) {
        vf sum = vset(0.0f);

        for (int64_t t = 0; t < taps; t++)
            sum = vfma(vset(w[t]), vload(copy + places[t] + p), sum);
        vstore_n(y + p, bias ? sum + vset(*bias) : sum, count - p < LANES ? count - p : LANES);
    }
}

/* Adds dy[p] copy[places[t] + p] of all positions to the lanes of sums[t], for at most PLANE_TAPS taps. */
ALWAYS_INLINE void sum_plane(const float *copy, const int32_t *places, const int taps, const float *dy, int64_t count,
                             vf *sums)
{
    const int64_t whole = count - count % LANES, left = count - whole;
    vf sum[PLANE_TAPS];

    UNROLL
    for (int t = 0; t < taps; t++)
        sum[t] = sums[t];
    for (int64_t p = 0; p < whole; p += LANES) {
        const vf d = vload(dy + p);

        UNROLL
        for (int t = 0; t < taps; t++)
            sum[t] = vfma(d, vload(copy + places[t] + p), sum[t]);
    }
    if (left > 0) { /* elements after the last position may be NaN */
        const vf d = vload_n(dy + whole, left);

        UNROLL
        for (int t = 0; t < taps; t++)
            sum[t] = vfma(d, vload_n(copy + places[t] + whole, left), sum[t]);
    }
    UNROLL
    for (int t = 0; t < taps; t++)
        sums[t] = sum[t];
}

static void sum_plane_taps(const float *copy, const int32_t *places, int64_t taps, const float *dy, int64_t count,
                           vf *sums)
{
    int64_t t = 0;

    for (; t + PLANE_TAPS <= taps; t += PLANE_TAPS)
        sum_plane(copy, places + t, PLANE_TAPS, dy, count, sums + t);
    for (; t < taps; t++)
        sum_plane(copy, places + t, 1, dy, count, sums + t);
}

/* ---- forward ---- */

static void convolve_depthwise(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, const conv_finish *finish)
{
    bgi_direct d;
    const bgi_depthwise_plan plan = bgi_depthwise_forward(s, s->n * s->c, LANES, &d);
    float *own = bgi_cpu_part_scratch(call, plan.part_floats), *copy = own + plan.table_floats;
    float *const y = call->operands[call->input_count];
    const direct_tables tables = make_tables(&d, 0, own);

    find_taps(s, &d, d.rows, tables.taps);
    for (int64_t item = bgi_cpu_part_start(plan.items, part, plan.parts);
         item < bgi_cpu_part_start(plan.items, part + 1, plan.parts); item++) {
        const int64_t c = item % s->c;

        copy_channels(&d, (const float *)call->operands[0] + item * s->h * s->w, 1, 0, d.rows, &tables, copy);
        convolve_plane(copy, tables.taps, (const float *)call->operands[1] + c * s->taps, s->taps, s->p,
                       bgi_cpu_has_input(call, 2) ? (const float *)call->operands[2] + c : NULL, y + item * s->p);
        if (finish)
            finish_stored(finish, c, s->p, y + item * s->p);
    }
}

/* ---- the gradient of the input ---- */

/* Gathers the weights of a channel's taps that reach phase q, in order; w has the weights of all taps. */
static void gather_phase(const bgi_conv *s, const int64_t q[2], const float *w, float *to)
{
    for (int64_t tap = 0; tap < s->taps; tap++)
        if (bgi_direct_has(s, 0, q[0], tap / s->kw) && bgi_direct_has(s, 1, q[1], tap % s->kw))
            *to++ = w[tap];
}

typedef struct plane_phase {
    direct_phase phase;
    direct_tables tables;
} plane_phase;

/* Computes row qy of phases of a plane of dx. */
static void convolve_plane_backward(const bgi_conv *s, const plane_phase *phases, int64_t qy, const float *dy,
                                    const float *w, float *copy, float *spread, int64_t spread_floats, float *dx)
{
    const float *reached[BGI_DIRECT_MOST_STRIDE] = {NULL};

    for (int64_t qx = 0; qx < s->options.stride[1]; qx++) {
        const plane_phase *p = &phases[qy * s->options.stride[1] + qx];
        const bgi_direct *d = &p->phase.direct;
        float weights[BGI_DEPTHWISE_MOST_TAPS], *to = bgi_direct_spreads(s) ? spread + qx * spread_floats : dx;

        if (!p->phase.is_reached)
            continue;
        gather_phase(s, p->phase.q, w, weights);
        copy_channels(d, dy, 1, 0, d->rows, &p->tables, copy);
        convolve_plane(copy, p->tables.taps, weights, d->taps[0] * d->taps[1], d->rows * d->columns, NULL, to);
        reached[qx] = to;
    }
    if (bgi_direct_spreads(s))
        join_rows(s, qy, reached, 1, 1, dx);
}

static void convolve_depthwise_backward(const bg_kernel_call *call, uint32_t part, const bgi_conv *s)
{
    const bgi_depthwise_plan plan = bgi_depthwise_backward(s, LANES);
    const int64_t stride = s->options.stride[1], count = s->options.stride[0] * stride;
    float *own = bgi_cpu_part_scratch(call, plan.part_floats), *copy = own + count * plan.table_floats;
    plane_phase phases[BGI_DEPTHWISE_MOST_PHASES];
    int64_t weights = 0;

    for (int64_t i = 0; i < count; i++) {
        phases[i].phase = find_phase(s, i / stride, i % stride, &weights);
        if (!phases[i].phase.is_reached)
            continue;
        phases[i].tables = make_tables(&phases[i].phase.direct, 0, own + i * plan.table_floats);
        find_taps_backward(s, &phases[i].phase.direct, phases[i].phase.q, phases[i].phase.direct.rows,
                           phases[i].tables.taps);
    }
    for (int64_t item = bgi_cpu_part_start(plan.items, part, plan.parts);
         item < bgi_cpu_part_start(plan.items, part + 1, plan.parts); item++)
        for (int64_t qy = 0; qy < s->options.stride[0]; qy++)
            convolve_plane_backward(s, phases, qy, (const float *)call->operands[0] + item * s->p,
                                    (const float *)call->operands[1] + item % s->c * s->taps, copy,
                                    copy + plan.copy_floats, plan.spread_floats,
                                    (float *)call->operands[2] + item * s->h * s->w);
}

/* ---- the gradient of the weights ---- */

/* Adds the lanes of each tap to its sum, then clears the lanes. */
static void settle_lanes(vf *lanes, int64_t taps, float *sums)
{
    for (int64_t t = 0; t < taps; t++) {
        sums[t] += vsum(lanes[t]);
        lanes[t] = vset(0.0f);
    }
}

static void sum_depthwise_weights(const bg_kernel_call *call, uint32_t part, const bgi_conv *s)
{
    bgi_direct d;
    const bgi_depthwise_plan plan = bgi_depthwise_forward(s, s->c, LANES, &d);
    float *own = bgi_cpu_part_scratch(call, plan.part_floats), *copy = own + plan.table_floats;
    const int64_t from = bgi_cpu_part_start(plan.items, part, plan.parts);
    const int64_t end = bgi_cpu_part_start(plan.items, part + 1, plan.parts);
    const direct_tables tables = make_tables(&d, 0, own);

    find_taps(s, &d, d.rows, tables.taps);
    for (int64_t c = from; c < end; c++) {
        vf lanes[BGI_DEPTHWISE_MOST_TAPS] = {{0}};
        float sums[BGI_DEPTHWISE_MOST_TAPS] = {0};
        int64_t positions = 0;

        for (int64_t n = 0; n < s->n; n++) {
            copy_channels(&d, (const float *)call->operands[1] + (n * s->c + c) * s->h * s->w, 1, 0, d.rows, &tables,
                          copy);
            sum_plane_taps(copy, tables.taps, s->taps, (const float *)call->operands[0] + (n * s->c + c) * s->p, s->p,
                           lanes);
            positions += s->p;
            if (positions >= BGI_DIRECT_SUM_POSITIONS || n + 1 == s->n) {
                settle_lanes(lanes, s->taps, sums);
                positions = 0;
            }
        }
        put_floats(bgi_call_adds(call), BG_FLOAT32, call->operands[2], c * s->taps, s->taps, sums);
    }
    if (bgi_cpu_has_operand(call, 3))
        sum_bias_gradient(s, call->operands[0], from, end - from, bgi_call_adds(call), call->operands[3]);
}

#endif
