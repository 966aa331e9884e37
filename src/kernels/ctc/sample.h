/*
 * sample.h: computes CTC for one sample in double, for the plain kernel. The fast kernel calls these functions for
 * samples whose lengths or targets are out of range, and for gradients of samples with too few steps for their targets.
 */
#ifndef BGI_KERNELS_CTC_SAMPLE_H
#define BGI_KERNELS_CTC_SAMPLE_H

#include <math.h>
#include <string.h>

#include "kernels/ctc/attributes.h"
#include "kernels/reference/element.h"

typedef struct bgi_ctc_sample {
    const bgi_ctc_attributes *attributes;
    const void *x;
    bg_dtype dtype;
    int64_t first, classes; /* `first` is the beginning of the sample's x */
    const int32_t *targets;
    int64_t steps, targets_count;
    int64_t places, stride; /* the places of its path; those of the longest path */
    double *alpha;
    bool is_valid; /* lengths and targets are in range */
} bgi_ctc_sample;

/* Returns a sample of a call; the operands of the forward op begin at `operand`. */
static inline bgi_ctc_sample bgi_ctc_find_sample(const bg_kernel_call *call, uint32_t operand, double *alpha,
                                                 int64_t sample)
{
    const bg_type *x = &call->types[operand], *targets = &call->types[operand + 1];
    const int64_t most_steps = x->dims[1], most_targets = targets->dims[1];
    bgi_ctc_sample s = {.attributes = call->attributes,
                        .x = call->operands[operand],
                        .dtype = x->dtype,
                        .first = sample * most_steps * x->dims[2],
                        .classes = x->dims[2],
                        .targets = (const int32_t *)call->operands[operand + 1] + sample * most_targets,
                        .steps = ((const int32_t *)call->operands[operand + 2])[sample],
                        .targets_count = ((const int32_t *)call->operands[operand + 3])[sample],
                        .stride = 2 * most_targets + 1};

    s.alpha = alpha + sample * most_steps * s.stride;
    s.is_valid = s.steps >= 0 && s.steps <= most_steps && s.targets_count >= 0 && s.targets_count <= most_targets;
    for (int64_t i = 0; s.is_valid && i < s.targets_count; i++)
        s.is_valid = s.targets[i] >= 0 && s.targets[i] < s.classes && s.targets[i] != s.attributes->blank;
    s.places = 2 * s.targets_count + 1;
    return s;
}

static inline int64_t bgi_ctc_class(const bgi_ctc_sample *s, int64_t place)
{
    return place % 2 == 0 ? s->attributes->blank : s->targets[place / 2];
}

static inline double bgi_ctc_x(const bgi_ctc_sample *s, int64_t step, int64_t place)
{
    return bgi_load(s->dtype, s->x, s->first + step * s->classes + bgi_ctc_class(s, place));
}

/* Returns whether a path may skip from two places before to this place, over a blank between two different targets. */
static inline bool bgi_ctc_skips(const bgi_ctc_sample *s, int64_t place)
{
    return place >= 2 && place % 2 == 1 && s->targets[place / 2] != s->targets[place / 2 - 1];
}

/* Returns log(e^a + e^b + e^c). */
static inline double bgi_ctc_add(double a, double b, double c)
{
    double most = a > b ? a : b;

    most = c > most ? c : most;
    return most == -INFINITY ? most : most + log(exp(a - most) + exp(b - most) + exp(c - most));
}

/* Returns the logarithm of the probability of the targets, from alpha after the last step. */
static inline double bgi_ctc_likelihood(const bgi_ctc_sample *s)
{
    const double *last;

    if (s->steps == 0)
        return s->targets_count == 0 ? 0.0 : -INFINITY;
    last = s->alpha + (s->steps - 1) * s->stride;
    return bgi_ctc_add(last[s->places - 1], s->places > 1 ? last[s->places - 2] : -INFINITY, -INFINITY);
}

static inline double bgi_ctc_forward(const bgi_ctc_sample *s)
{
    double likelihood;

    if (!s->is_valid)
        return NAN;
    for (int64_t t = 0; t < s->steps; t++) {
        double *alpha = s->alpha + t * s->stride;
        const double *before = alpha - s->stride;

        for (int64_t p = 0; p < s->places; p++) {
            const double stay = t == 0 ? (p <= 1 ? 0.0 : -INFINITY) : before[p];
            const double step = t > 0 && p > 0 ? before[p - 1] : -INFINITY;
            const double skip = t > 0 && bgi_ctc_skips(s, p) ? before[p - 2] : -INFINITY;

            alpha[p] = bgi_ctc_add(stay, step, skip) + bgi_ctc_x(s, t, p);
        }
    }
    likelihood = bgi_ctc_likelihood(s);
    return likelihood == -INFINITY && s->attributes->zeroes_infinity ? 0.0 : -likelihood;
}

/* Computes the gradient of each x: minus the probability that a path with the targets passes through it, times dloss.
 * `beta` is alpha's counterpart from the end of the path, one row that each step overwrites; `shares` has a value for
 * each class. */
static inline void bgi_ctc_backward(const bgi_ctc_sample *s, double dloss, int64_t most_steps, double *beta,
                                    double *shares, void *dx)
{
    const double likelihood = s->is_valid ? bgi_ctc_likelihood(s) : NAN;
    const bool is_zero = likelihood == -INFINITY && s->attributes->zeroes_infinity;

    for (int64_t t = most_steps - 1; t >= 0; t--) {
        const bool is_beyond = s->is_valid && (t >= s->steps || is_zero);

        for (int64_t c = 0; c < s->classes; c++)
            shares[c] = is_beyond || isfinite(likelihood) ? 0.0 : NAN;
        for (int64_t p = 0; isfinite(likelihood) && t < s->steps && p < s->places; p++) {
            const bool is_last = t == s->steps - 1;
            const double stay = is_last ? (p >= s->places - 2 ? 0.0 : -INFINITY) : beta[p];
            const double step = !is_last && p + 1 < s->places ? beta[p + 1] : -INFINITY;
            const double skip = !is_last && p + 2 < s->places && bgi_ctc_skips(s, p + 2) ? beta[p + 2] : -INFINITY;
            const double rest = bgi_ctc_add(stay, step, skip), through = s->alpha[t * s->stride + p] + rest;

            if (through != -INFINITY)
                shares[bgi_ctc_class(s, p)] -= exp(through - likelihood);
            beta[p] = rest + bgi_ctc_x(s, t, p);
        }
        for (int64_t c = 0; c < s->classes; c++)
            bgi_store(s->dtype, dx, s->first + t * s->classes + c, is_beyond ? 0.0 : dloss * shares[c]);
    }
}

/* These two functions compute a sample's loss and its gradient. They write every byte of the outputs: unused places of
 * alpha become minus infinity, and unused scratch becomes 0. */
static inline void bgi_ctc_loss_of(const bg_kernel_call *call, int64_t sample)
{
    const bgi_ctc_sample s = bgi_ctc_find_sample(call, 0, call->operands[5], sample);

    for (int64_t i = 0; i < call->types[0].dims[1] * s.stride; i++)
        s.alpha[i] = -INFINITY;
    bgi_store(call->types[4].dtype, call->operands[4], sample, bgi_ctc_forward(&s));
}

static inline void bgi_ctc_gradient_of(const bg_kernel_call *call, int64_t sample)
{
    const bgi_ctc_sample s = bgi_ctc_find_sample(call, 1, call->operands[5], sample);
    double *room = (double *)call->operands[7] + sample * (s.stride + s.classes);

    memset(room, 0, (size_t)(s.stride + s.classes) * sizeof *room);
    bgi_ctc_backward(&s, bgi_load(call->types[0].dtype, call->operands[0], sample), call->types[1].dims[1], room,
                     room + s.stride, call->operands[6]);
}

#endif
