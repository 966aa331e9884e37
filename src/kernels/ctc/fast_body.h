/*
 * fast_body.h: connectionist temporal classification with one part for each sample. A step computes the places of the
 * path together, in vectors of doubles. Each place needs the previous step's values at itself and at the two places
 * before it (in the backward pass: after it). Samples whose lengths or targets are out of range run as in the plain
 * kernel, and so do gradients of samples with too few steps for their targets.
 */
#ifndef BGI_KERNELS_CTC_FAST_BODY_H
#define BGI_KERNELS_CTC_FAST_BODY_H

#include "kernels/cpu/simd.h"
#include "kernels/ctc/fast.h"
#include "kernels/ctc/sample.h"

enum { DOUBLES = LANES / 2 };

typedef int64_t vl __attribute__((vector_size(LANES * 4)));
typedef double vd_loose __attribute__((vector_size(LANES * 4), aligned(8), may_alias));

ALWAYS_INLINE vd vload_d(const double *p)
{
    return *(const vd_loose *)p;
}

ALWAYS_INLINE void vstore_d(double *p, vd v)
{
    *(vd_loose *)p = v;
}

ALWAYS_INLINE vd vselect_d(vl mask, vd yes, vd no)
{
    return (vd)(((vl)yes & mask) | ((vl)no & ~mask));
}

/* Returns e^x = e^r 2^n, with |r| up to log(2) / 2, for x up to 709. For x below -708 it returns e^-708, which is
 * almost 0. */
ALWAYS_INLINE vd vexp_d(vd x)
{
    static const double terms[] = {
        1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
        1.0 / 120,       1.0 / 24,       1.0 / 6,       0.5,          1.0,         1.0};
    const vd lowest = vset_double(-708.0), magic = vset_double(6755399441055744.0); /* 1.5 2^52: rounds to integers */
    vd shifted, n, r, value = vset_double(1.0 / 6227020800);

    x = vselect_d((vl)(x < lowest), lowest, x);
    shifted = x * vset_double(1.4426950408889634) + magic;
    n = shifted - magic;
    r = x - n * vset_double(0.693147180369123816490) - n * vset_double(1.90821492927058770002e-10);
    UNROLL
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        value = value * r + vset_double(terms[i]);
    return value * (vd)(((vl)shifted - (vl)magic + 1023) << 52);
}

/* Returns log(x) for x between 1 and 3, from log(m) = 2 artanh((m - 1) / (m + 1)) with x = m or x = 2 m. */
ALWAYS_INLINE vd vlog_d(vd x)
{
    const vl is_large = (vl)(x > vset_double(1.4142135623730951));
    const vd m = vselect_d(is_large, x * vset_double(0.5), x), z = (m - vset_double(1.0)) / (m + vset_double(1.0));
    const vd square = z * z;
    vd value = vset_double(2.0 / 25);

    UNROLL
    for (int i = 23; i >= 1; i -= 2)
        value = value * square + vset_double(2.0 / i);
    return value * z + vselect_d(is_large, vset_double(0.69314718055994531), vset_double(0.0));
}

/* Returns log(e^a + e^b + e^c). */
ALWAYS_INLINE vd vlog_sum(vd a, vd b, vd c)
{
    const vd nothing = vset_double(-INFINITY);
    vd most = vselect_d((vl)(a > b), a, b), base;
    vl is_nothing;

    most = vselect_d((vl)(c > most), c, most);
    is_nothing = (vl)(most == nothing);
    base = vselect_d(is_nothing, vset_double(0.0), most);
    return vselect_d(is_nothing, most, base + vlog_d(vexp_d(a - base) + vexp_d(b - base) + vexp_d(c - base)));
}

/* Fills row `number` of a part's scratch with `value`, and returns the address of the row's first place. */
static double *ctc_row(const bg_kernel_call *call, const bg_type *targets, int number, double value)
{
    const int64_t count = bgi_ctc_row_doubles(targets);
    double *row = (double *)(void *)bgi_cpu_part_scratch(call, bgi_ctc_part_floats(targets)) + number * count;

    for (int64_t i = 0; i < count; i++)
        row[i] = value;
    return row + BGI_CTC_BEFORE;
}

/* Gathers x of each place at a step. */
static void read_emissions(const bgi_ctc_sample *s, int64_t step, double *row)
{
    const int64_t at = s->first + step * s->classes;
    const double blank = bgi_load(s->dtype, s->x, at + s->attributes->blank);

    row[0] = blank;
    for (int64_t i = 0; i < s->targets_count; i++) {
        row[2 * i + 1] = s->dtype == BG_FLOAT32 ? (double)((const float *)s->x)[at + s->targets[i]]
                                                : bgi_load(s->dtype, s->x, at + s->targets[i]);
        row[2 * i + 2] = blank;
    }
}

/* Sets row[p] to 0 if a path may come to place p from two places before, otherwise to minus infinity, the logarithm of
 * 0. */
static void read_skips(const bgi_ctc_sample *s, double *row)
{
    for (int64_t p = 0; p < s->places; p++)
        row[p] = bgi_ctc_skips(s, p) ? 0.0 : -INFINITY;
}

static void run_ctc_loss(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *targets = &call->types[1];
    const bgi_ctc_sample s = bgi_ctc_find_sample(call, 0, call->operands[5], part);
    double *emissions, *skips, *rows[2], likelihood;

    if (!s.is_valid) {
        bgi_ctc_loss_of(call, part);
        return;
    }
    emissions = ctc_row(call, targets, 0, 0.0);
    skips = ctc_row(call, targets, 1, -INFINITY);
    rows[0] = ctc_row(call, targets, 2, -INFINITY);
    rows[1] = ctc_row(call, targets, 3, -INFINITY);
    read_skips(&s, skips);
    rows[0][0] = 0.0; /* before the first step: a path begins with a blank or with the first target */
    for (int64_t t = 0; t < s.steps; t++) {
        const double *before = rows[t % 2];
        double *now = rows[1 - t % 2];

        read_emissions(&s, t, emissions);
        for (int64_t p = 0; p < s.places; p += DOUBLES)
            vstore_d(now + p, vlog_sum(vload_d(before + p), vload_d(before + p - 1),
                                       vload_d(before + p - 2) + vload_d(skips + p)) +
                                  vload_d(emissions + p));
        memcpy(s.alpha + t * s.stride, now, (size_t)s.places * sizeof *now);
        for (int64_t p = s.places; p < s.stride; p++)
            s.alpha[t * s.stride + p] = -INFINITY;
    }
    for (int64_t i = s.steps * s.stride; i < call->types[0].dims[1] * s.stride; i++)
        s.alpha[i] = -INFINITY;
    likelihood = bgi_ctc_likelihood(&s);
    bgi_store(call->types[4].dtype, call->operands[4], part,
              likelihood == -INFINITY && s.attributes->zeroes_infinity ? 0.0 : -likelihood);
}

/* Subtracts the probabilities of places from the shares of their classes. */
static void share_probabilities(const bgi_ctc_sample *s, const double *through, double *shares)
{
    double blanks[2] = {through[0], 0.0};

    for (int64_t i = 0; i < s->targets_count; i++) {
        shares[s->targets[i]] -= through[2 * i + 1];
        blanks[i % 2] += through[2 * i + 2];
    }
    shares[s->attributes->blank] -= blanks[0] + blanks[1];
}

static void store_shares(const bgi_ctc_sample *s, int64_t step, double dloss, const double *shares, void *dx)
{
    const int64_t at = s->first + step * s->classes;

    if (s->dtype == BG_FLOAT32)
        for (int64_t c = 0; c < s->classes; c++)
            ((float *)dx)[at + c] = (float)(dloss * shares[c]);
    else
        for (int64_t c = 0; c < s->classes; c++)
            bgi_store(s->dtype, dx, at + c, dloss * shares[c]);
}

static void run_ctc_loss_backward(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *targets = &call->types[2];
    const bgi_ctc_sample s = bgi_ctc_find_sample(call, 1, call->operands[5], part);
    const double likelihood = s.is_valid ? bgi_ctc_likelihood(&s) : NAN;
    const double dloss = bgi_load(call->types[0].dtype, call->operands[0], part);
    const int64_t most_steps = call->types[1].dims[1];
    double *room = (double *)call->operands[7] + part * (s.stride + s.classes), *shares = room + s.stride;
    double *emissions, *skips, *beta, *through;

    if (!isfinite(likelihood)) {
        bgi_ctc_gradient_of(call, part);
        return;
    }
    emissions = ctc_row(call, targets, 0, 0.0);
    skips = ctc_row(call, targets, 1, -INFINITY);
    beta = ctc_row(call, targets, 2, -INFINITY);
    through = ctc_row(call, targets, 3, -INFINITY);
    read_skips(&s, skips);
    memset(room, 0, (size_t)(s.stride + s.classes) * sizeof *room);
    for (int64_t t = most_steps - 1; t >= s.steps; t--)
        store_shares(&s, t, 0.0, shares, call->operands[6]);
    beta[s.places - 1] = 0.0; /* after the last step: a path ends with the last target or with a blank */
    for (int64_t t = s.steps - 1; t >= 0; t--) {
        read_emissions(&s, t, emissions);
        memcpy(through, s.alpha + t * s.stride, (size_t)s.places * sizeof *through);
        for (int64_t p = 0; p < s.places; p += DOUBLES) {
            const vd rest =
                vlog_sum(vload_d(beta + p), vload_d(beta + p + 1), vload_d(beta + p + 2) + vload_d(skips + p + 2));

            vstore_d(through + p, vexp_d(vload_d(through + p) + rest - vset_double(likelihood)));
            vstore_d(beta + p, rest + vload_d(emissions + p));
        }
        memset(shares, 0, (size_t)s.classes * sizeof *shares);
        share_probabilities(&s, through, shares);
        store_shares(&s, t, dloss, shares, call->operands[6]);
    }
    if (s.steps > 0)
        memcpy(room, beta, (size_t)s.places * sizeof *beta);
}

#endif
