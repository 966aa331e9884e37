/*
 * fast_body.h: counts elements that are large, small, or not finite.
 */
#ifndef BGI_KERNELS_LOSS_SCALING_FAST_BODY_H
#define BGI_KERNELS_LOSS_SCALING_FAST_BODY_H

#include <float.h>

#include "kernels/elementwise/fast_body.h"
#include "kernels/loss_scaling/attributes.h"

/* Counts the elements of a part. Counts are integers, so the order of their sums does not matter. */
static void run_range_count(const bg_kernel_call *call, uint32_t part)
{
    const bgi_range_count_attributes *attributes = call->attributes;
    const float edge = (float)attributes->edge;
    const int64_t count = bg_type_element_count(&call->types[0]);
    const int64_t end = clip(bgi_elementwise_start(count, part + 1), bgi_range_count_live(attributes, call));
    double *counts = (double *)call->scratch + (size_t)part * BGI_RANGE_COUNTS;
    int64_t total = 0, lower = 0, finite = 0;
    float buffer[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        const float *x = view_floats(call->types[0].dtype, call->operands[0], i, chunk, buffer);
        int32_t is_lower = 0, is_finite = 0;

        for (int64_t e = 0; e < chunk; e++) {
            const float size = x[e] < 0.0f ? -x[e] : x[e];
            is_lower += size <= edge;
            is_finite += size <= FLT_MAX;
        }
        total += chunk;
        lower += is_lower;
        finite += is_finite;
    }
    counts[BGI_RANGE_LOWER] = (double)lower;
    counts[BGI_RANGE_UPPER] = (double)(total - lower);
    counts[BGI_RANGE_NOT_FINITE] = (double)(total - finite);
}

static void finish_range_count(const bg_kernel_call *call)
{
    const uint32_t parts = bgi_elementwise_parts(bg_type_element_count(&call->types[0]));
    const double *counts = call->scratch;
    double *out = call->operands[1];

    for (int k = 0; k < BGI_RANGE_COUNTS; k++)
        out[k] = 0.0;
    for (uint32_t i = 0; i < parts * BGI_RANGE_COUNTS; i++)
        out[i % BGI_RANGE_COUNTS] += counts[i];
    if (((const bgi_range_count_attributes *)call->attributes)->only_not_finite)
        out[BGI_RANGE_LOWER] = out[BGI_RANGE_UPPER] = 0.0;
}

#endif
