/*
 * fast_body.h: sums of gradients, in which every product and every sum is rounded, and sums of squares.
 */
#ifndef BGI_KERNELS_ACCUMULATE_FAST_BODY_H
#define BGI_KERNELS_ACCUMULATE_FAST_BODY_H

#include "kernels/accumulate/attributes.h"
#include "kernels/elementwise/fast_body.h"

/* Computes accumulator factors[0] + gradient factors[1]; a gradient whose factor is 0 is ignored. */
static void run_accumulate_shares(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    const float *factors = call->operands[2];
    const float keep = call->env->accumulated == 0 ? 0.0f : factors[0], admit = factors[1];
    float a[BGI_ELEMENTWISE_CHUNK], g[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        const float *before = view_floats(dtype, call->operands[0], i, chunk, a);
        const float *gradient = view_floats(call->types[1].dtype, call->operands[1], i, chunk, g);
        float *after = begin_output(dtype, call->operands[0], i, out);

        for (int64_t e = 0; e < chunk; e++)
            after[e] = (keep == 0.0f ? 0.0f : keep * before[e]) + (admit == 0.0f ? 0.0f : admit * gradient[e]);
        end_output(dtype, call->operands[0], i, chunk, out);
    }
}

static void run_accumulate(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float a[BGI_ELEMENTWISE_CHUNK], g[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    if (call->input_count > 2) {
        run_accumulate_shares(call, part);
        return;
    }
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        const float *gradient = view_floats(call->types[1].dtype, call->operands[1], i, chunk, g);

        if (call->env->accumulated == 0) {
            write_floats(dtype, call->operands[0], i, chunk, gradient);
            continue;
        }
        add_loop(view_floats(dtype, call->operands[0], i, chunk, a), gradient,
                 begin_output(dtype, call->operands[0], i, out), chunk);
        end_output(dtype, call->operands[0], i, chunk, out);
    }
}

/* Rounds, in place, sums that are stored as `dtype`. */
static inline void round_sums(bg_dtype dtype, int64_t count, float *x)
{
    uint16_t narrow[BGI_ELEMENTWISE_CHUNK];

    if (dtype == BG_FLOAT32)
        return;
    write_floats(dtype, narrow, 0, count, x);
    read_floats(dtype, narrow, 0, count, x);
}

static void run_accumulate_tree(const bg_kernel_call *call, uint32_t part)
{
    const bgi_accumulate_tree_attributes *attributes = call->attributes;
    const uint32_t micro_batches = attributes->micro_batches, micro_batch = call->env->accumulated;
    const uint32_t top = bgi_tree_places(micro_batches) - 1, target = bgi_tree_target(micro_batches, micro_batch);
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float sum[BGI_ELEMENTWISE_CHUNK], in[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        read_floats(call->types[1].dtype, call->operands[1], i, chunk, sum);
        round_sums(dtype, chunk, sum);
        for (uint32_t place = 0; place <= top; place++) {
            if (!bgi_tree_joins(micro_batches, micro_batch, place))
                continue;
            add_loop(view_floats(dtype, call->operands[place == top ? 0 : 2], i + (place == top ? 0 : place * count),
                                 chunk, in),
                     sum, sum, chunk);
            round_sums(dtype, chunk, sum);
        }
        write_floats(dtype, call->operands[target == top ? 0 : 2], i + (target == top ? 0 : target * count), chunk,
                     sum);
    }
}

static void run_scaled_sum(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = call->types[call->input_count].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float sum[BGI_ELEMENTWISE_CHUNK], in[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        for (int64_t e = 0; e < chunk; e++)
            sum[e] = 0.0f;
        for (uint32_t input = 0; input < call->input_count; input += 2) {
            const float scale = *(const float *)call->operands[input + 1];
            const float *x = view_floats(call->types[input].dtype, call->operands[input], i, chunk, in);

            for (int64_t e = 0; scale != 0.0f && e < chunk; e++)
                sum[e] += x[e] * scale;
        }
        write_floats(dtype, call->operands[call->input_count], i, chunk, sum);
    }
}

/* A part has eight sums, each of which covers every eighth element. The eight sums are added in order, then the sums of
 * the parts in order. */
enum { SQUARE_SUMS = 8 };

static inline void add_squares(const float *x, int64_t count, double *sums)
{
    int64_t e = 0;

    for (; e + SQUARE_SUMS <= count; e += SQUARE_SUMS)
        for (int s = 0; s < SQUARE_SUMS; s++)
            sums[s] += (double)x[e + s] * (double)x[e + s];
    for (; e < count; e++)
        sums[e % SQUARE_SUMS] += (double)x[e] * (double)x[e];
}

static inline double add_sums(const double *sums)
{
    double sum = 0.0;

    for (int s = 0; s < SQUARE_SUMS; s++)
        sum += sums[s];
    return sum;
}

/* Computes the sum of squares of a part of a shard (piece); where the part begins depends only on the shard's size. */
static void run_square_sum(const bg_kernel_call *call, uint32_t part)
{
    const bgi_square_sum_attributes *attributes = call->attributes;
    const int64_t size = bgi_piece_size(attributes->elements, attributes->pieces);
    const uint32_t parts = bgi_elementwise_parts(size), q = part % parts;
    const bool is_whole = bgi_has_all_pieces(&call->types[0], attributes->elements);
    const uint32_t piece = is_whole ? part / parts : call->env->place.data;
    const int64_t base = is_whole ? piece * size : 0;
    const int64_t live = bgi_piece_live(attributes->elements, attributes->pieces, piece);
    const int64_t end = base + clip(bgi_elementwise_start(size, q + 1), live);
    double sums[SQUARE_SUMS] = {0.0};
    float buffer[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = base + bgi_elementwise_start(size, q); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        add_squares(view_floats(call->types[0].dtype, call->operands[0], i, chunk, buffer), chunk, sums);
    }
    ((double *)call->scratch)[part] = add_sums(sums);
}

static void finish_square_sum(const bg_kernel_call *call)
{
    const bgi_square_sum_attributes *attributes = call->attributes;
    const uint32_t parts = bgi_elementwise_parts(bgi_piece_size(attributes->elements, attributes->pieces));
    const bool is_whole = bgi_has_all_pieces(&call->types[0], attributes->elements);
    const double *sums = call->scratch;
    double *squares = call->operands[1];

    for (uint32_t piece = 0; piece < attributes->pieces; piece++) {
        squares[piece] = 0.0;
        for (uint32_t q = 0; q < parts && (is_whole || piece == call->env->place.data); q++)
            squares[piece] += sums[is_whole ? piece * parts + q : q];
    }
}

/* Adds the operands in order, in float32. */
static void run_add_n(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float sum[BGI_ELEMENTWISE_CHUNK], in[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        read_floats(dtype, call->operands[0], i, chunk, sum);
        for (uint32_t input = 1; input < call->input_count; input++)
            add_loop(sum, view_floats(dtype, call->operands[input], i, chunk, in), sum, chunk);
        write_floats(dtype, call->operands[call->input_count], i, chunk, sum);
    }
}

#endif
