/*
 * lamb_body.h: LAMB in two passes: the moments with the norms of the weights and directions, and the update. The second
 * pass computes the direction again, from the same numbers, which is cheaper than storing it.
 */
#ifndef BGI_KERNELS_OPTIMIZER_LAMB_BODY_H
#define BGI_KERNELS_OPTIMIZER_LAMB_BODY_H

#include "kernels/accumulate/fast_body.h"
#include "kernels/optimizer/attributes.h"
#include "kernels/optimizer/update_body.h"

typedef struct lamb_factors {
    float beta1, admitted1, beta2, admitted2, correction1, root_correction2, epsilon, decay;
} lamb_factors;

static lamb_factors make_lamb_factors(const bg_kernel_call *call)
{
    const bgi_lamb_attributes *attributes = call->attributes;
    const double *hyper = call->operands[UPDATE_HYPER];
    const double t = (double)(call->env->optimizer_step + 1) - hyper[BGI_HYPER_SKIPPED];
    const double beta1 = hyper[BGI_HYPER_BETA1], beta2 = hyper[BGI_HYPER_BETA2];

    return (lamb_factors){.beta1 = (float)beta1,
                          .admitted1 = (float)(1.0 - beta1),
                          .beta2 = (float)beta2,
                          .admitted2 = (float)(1.0 - beta2),
                          .correction1 = attributes->uncorrected ? 1.0f : (float)(1.0 - pow(beta1, t)),
                          .root_correction2 = attributes->uncorrected ? 1.0f : (float)sqrt(1.0 - pow(beta2, t)),
                          .epsilon = (float)hyper[BGI_HYPER_EPSILON],
                          .decay = attributes->without_decay ? 0.0f : (float)hyper[BGI_HYPER_WEIGHT_DECAY]};
}

static inline vf find_direction(const lamb_factors *f, vf parameter, vf m, vf v)
{
    const vf x = m / vset(f->correction1) / (vsqrt(v) / vset(f->root_correction2) + vset(f->epsilon));

    return f->decay != 0.0f ? x + vset(f->decay) * parameter : x;
}

static void update_lamb_moments(const lamb_factors *f, float scale, const update_chunk *c)
{
    for (int64_t i = 0; i < c->count; i += LANES) {
        const int64_t live = clip(c->count - i, LANES);
        const vf gradient = vload_n(c->gradient + i, live) * vset(scale);
        const vf m = vload_n(c->states[0] + i, live), v = vload_n(c->states[1] + i, live);

        vstore_n(c->states[0] + i, m * vset(f->beta1) + vset(f->admitted1) * gradient, live);
        vstore_n(c->states[1] + i, v * vset(f->beta2) + vset(f->admitted2) * gradient * gradient, live);
    }
}

/* Stores the moments. Those that are not float32 are rounded to their type, and later operations use the stored
 * values. */
static void store_moments(const bg_kernel_call *call, int64_t index, int64_t count, update_buffers *buffers)
{
    for (uint32_t s = 0; s < 2; s++) {
        const uint32_t operand = UPDATE_STATE + s;

        end_update(call, operand, index, count, buffers->states[s]);
        begin_update(call, operand, index, count, buffers->states[s]);
    }
}

static void add_direction(const lamb_factors *f, const update_chunk *c, double *sums)
{
    float direction[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = 0; i < c->count; i += LANES) {
        const int64_t live = clip(c->count - i, LANES);

        vstore_n(direction + i,
                 find_direction(f, vload_n(c->parameter + i, live), vload_n(c->states[0] + i, live),
                                vload_n(c->states[1] + i, live)),
                 live);
    }
    add_squares(direction, c->count, sums);
}

/* Updates the moments of a part of a shard and computes the part's sums of squares; where the part begins depends only
 * on the shard's size. */
static void run_lamb_moments(const bg_kernel_call *call, uint32_t part)
{
    const bgi_lamb_attributes *attributes = call->attributes;
    const lamb_factors factors = make_lamb_factors(call);
    const float scale = read_scale(call);
    const int64_t size = bgi_lamb_piece(attributes);
    const uint32_t parts = bgi_elementwise_parts(size), q = part % parts;
    const bool is_whole = bg_type_element_count(&call->types[0]) == attributes->elements;
    const uint32_t piece = is_whole ? part / parts : call->env->place.data;
    const int64_t base = is_whole ? piece * size : 0, live = bgi_lamb_live(attributes, piece);
    const int64_t end = base + clip(bgi_elementwise_start(size, q + 1), live);
    double weights[SQUARE_SUMS] = {0.0}, directions[SQUARE_SUMS] = {0.0};
    update_buffers buffers;

    if (is_skipped(call))
        return;
    for (int64_t i = base + bgi_elementwise_start(size, q); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const update_chunk chunk = begin_updates(call, i, clip(end - i, BGI_ELEMENTWISE_CHUNK), &buffers);

        update_lamb_moments(&factors, scale, &chunk);
        store_moments(call, i, chunk.count, &buffers);
        add_squares(chunk.parameter, chunk.count, weights);
        add_direction(&factors, &chunk, directions);
    }
    ((double *)call->scratch)[2 * part] = add_sums(weights);
    ((double *)call->scratch)[2 * part + 1] = add_sums(directions);
}

static void finish_lamb_moments(const bg_kernel_call *call)
{
    const bgi_lamb_attributes *attributes = call->attributes;
    const uint32_t parts = bgi_elementwise_parts(bgi_lamb_piece(attributes));
    const bool is_whole = bg_type_element_count(&call->types[0]) == attributes->elements;
    const double *sums = call->scratch;
    double *squares = call->operands[call->input_count];

    for (uint32_t i = 0; i < 2 * attributes->pieces; i++)
        squares[i] = 0.0;
    for (uint32_t piece = 0; piece < attributes->pieces && !is_skipped(call); piece++)
        for (uint32_t q = 0; q < parts && (is_whole || piece == call->env->place.data); q++)
            for (uint32_t k = 0; k < 2; k++)
                squares[2 * piece + k] += sums[2 * (is_whole ? piece * parts + q : q) + k];
}

static void run_lamb_update(const bg_kernel_call *call, uint32_t part)
{
    enum { PARAMETER = 0, SQUARES, HYPER, M, V };
    const lamb_factors factors = make_lamb_factors(call);
    const double *hyper = call->operands[HYPER];
    const double ratio = bgi_lamb_ratio(call->attributes, call->operands[SQUARES], hyper[BGI_HYPER_MAX_WEIGHT_NORM]);
    const float step_size = (float)-(hyper[BGI_HYPER_LEARNING_RATE] * ratio);
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    update_buffers b;

    if (is_skipped(call))
        return;
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        float *const parameter = begin_update(call, PARAMETER, i, chunk, b.parameter);
        const float *const m = begin_update(call, M, i, chunk, b.states[0]);
        const float *const v = begin_update(call, V, i, chunk, b.states[1]);

        for (int64_t e = 0; e < chunk; e += LANES) {
            const int64_t live = clip(chunk - e, LANES);
            const vf w = vload_n(parameter + e, live);
            const vf x = find_direction(&factors, w, vload_n(m + e, live), vload_n(v + e, live));

            vstore_n(parameter + e, w + vset(step_size) * x, live);
        }
        end_update(call, PARAMETER, i, chunk, b.parameter);
    }
}

#endif
