/*
 * fast_body.h: rotary positions, position by position. Angles, sines and cosines are computed in double, so that they
 * are the same for every instruction set and precise at large positions.
 */
#ifndef BGI_KERNELS_ROTARY_FAST_BODY_H
#define BGI_KERNELS_ROTARY_FAST_BODY_H

#include "kernels/cpu/rows_body.h"
#include "kernels/rotary/fast.h"

static void turn_halves(const float *x, const float *cosines, const float *sines, int64_t pairs, float *y)
{
    FOR_ROW(pairs, live)
    {
        const vf a = vload_n(x + i, live), b = vload_n(x + pairs + i, live);
        const vf c = vload_n(cosines + i, live), s = vload_n(sines + i, live);

        vstore_n(y + i, a * c - b * s, live);
        vstore_n(y + pairs + i, b * c + a * s, live);
    }
}

static void turn_neighbors(const float *x, const float *cosines, const float *sines, int64_t pairs, float *y)
{
    for (int64_t i = 0; i < pairs; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];

        y[2 * i] = a * cosines[i] - b * sines[i];
        y[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
}

static void run_rotary(const bg_kernel_call *call, uint32_t part)
{
    const bgi_rotary_attributes *attributes = call->attributes;
    const bgi_rotary r = bgi_rotary_plan(call->types, call->input_count, attributes);
    double *frequencies = (double *)(void *)bgi_cpu_part_scratch(call, r.part_floats);
    float *cosines = (float *)(void *)(frequencies + r.pair_floats), *sines = cosines + r.pair_floats;
    float *in = sines + r.pair_floats, *buffer = in + r.row_floats;
    const double magnitude = bgi_rotary_magnitude(attributes);
    void *y = call->operands[call->input_count];

    for (int64_t i = 0; i < r.pairs; i++)
        frequencies[i] = bgi_rotary_frequency(attributes, i) * (attributes->inverse ? -1.0 : 1.0);
    for (int64_t place = bgi_cpu_part_start(r.places, part, r.parts);
         place < bgi_cpu_part_start(r.places, part + 1, r.parts); place++) {
        const double position = r.has_positions ? ((const int32_t *)call->operands[1])[place] : (double)place;

        for (int64_t i = 0; i < r.pairs; i++) {
            cosines[i] = (float)(magnitude * cos(position * frequencies[i]));
            sines[i] = (float)(magnitude * sin(position * frequencies[i]));
        }
        for (int64_t row = place; row < r.repeats * r.places; row += r.places) {
            const float *x = view_floats(r.dtype, call->operands[0], row * r.width, r.width, in);
            float *out = begin_output(r.dtype, y, row * r.width, buffer);

            for (int64_t at = 0; at < r.width; at += r.depth) {
                (attributes->interleaved ? turn_neighbors : turn_halves)(x + at, cosines, sines, r.pairs, out + at);
                memcpy(out + at + 2 * r.pairs, x + at + 2 * r.pairs, (size_t)(r.depth - 2 * r.pairs) * sizeof(float));
            }
            end_output(r.dtype, y, row * r.width, r.width, buffer);
        }
    }
}

#endif
