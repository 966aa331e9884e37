/*
 * fast_body.h: convolutions of any stride, padding, dilation and groups. Some are computed directly (direct.h), the
 * others as matrix products. The matrix of patches is never stored as a whole: the product packs the panel that it
 * needs directly from the image. Letters: fast.h.
 */
#ifndef BGI_KERNELS_CONV_FAST_BODY_H
#define BGI_KERNELS_CONV_FAST_BODY_H

#include "kernels/conv/attributes.h"
#include "kernels/conv/depthwise_body.h"
#include "kernels/conv/direct_body.h"
#include "kernels/conv/fast.h"
#include "kernels/conv/lines_body.h"
#include "kernels/linear/gemm_body.h"
#if LANES == 16
#include "kernels/conv/pairs_body.h"
#endif

/* Finds the output columns that read inside the image through filter column kx: *first..*end - 1. */
static void find_inside(const bgi_conv *s, int64_t kx, int64_t *first, int64_t *end)
{
    const int64_t stride = s->options.stride[1], offset = kx * s->options.dilation[1] - s->options.padding[1];

    if (stride == 1) {
        *first = offset < 0 ? -offset : 0;
        *end = s->w - offset;
    } else {
        *first = offset < 0 ? (-offset + stride - 1) / stride : 0;
        *end = s->w - offset <= 0 ? 0 : (s->w - offset - 1) / stride + 1;
    }
    *end = *end < s->ow ? *end : s->ow;
}

/* Copies to to[i], for output columns from..from + count - 1 of one row, input column (from + i) stride + offset. */
static void gather_columns(const bgi_conv *s, const void *x, int64_t row, int64_t offset, int64_t from, int64_t count,
                           float *to)
{
    const int64_t stride = s->options.stride[1], at = row + from * stride + offset;

    if (s->dtype == BG_FLOAT32) {
        if (stride == 1)
            vcopy((const float *)x + at, count, to);
        else
            for (int64_t i = 0; i < count; i++)
                to[i] = ((const float *)x)[at + i * stride];
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i] = bgi_narrow_to_float(s->dtype, ((const uint16_t *)x)[at + i * stride]);
    }
}

/* Packs one row of the patches' matrix: tap (c, ky, kx) at `count` output positions from (oy, ox) on. `plane` is the
 * beginning of channel c of the image. */
static void pack_patch_row(const bgi_conv *s, const void *x, int64_t plane, int64_t ky, int64_t kx, int64_t oy,
                           int64_t ox, int64_t count, float *to)
{
    const int64_t offset = kx * s->options.dilation[1] - s->options.padding[1];
    int64_t first, end;

    find_inside(s, kx, &first, &end);
    while (count > 0) {
        const int64_t run = s->ow - ox < count ? s->ow - ox : count;
        const int64_t y = oy * s->options.stride[0] + ky * s->options.dilation[0] - s->options.padding[0];
        const int64_t from = ox > first ? ox : first, until = ox + run < end ? ox + run : end;

        if (y < 0 || y >= s->h || from >= until) {
            memset(to, 0, (size_t)run * sizeof(float));
        } else {
            for (int64_t i = ox; i < from; i++)
                to[i - ox] = 0.0f;
            gather_columns(s, x, plane + y * s->w, offset, from, until - from, to + (from - ox));
            for (int64_t i = until; i < ox + run; i++)
                to[i - ox] = 0.0f;
        }
        to += run;
        count -= run;
        ox = 0;
        oy++;
    }
}

/* Packs `k_count` rows from k0 on of the patches of image `image` and group `group`, at `count` positions from p0 on;
 * rows are `stride` floats apart and end with zeros. */
static void pack_patch_rows(const bgi_conv *s, const void *x, int64_t image, int64_t group, int64_t k0, int64_t k_count,
                            int64_t p0, int64_t count, int64_t stride, float *to)
{
    int64_t c = k0 / s->taps, ky = k0 % s->taps / s->kw, kx = k0 % s->kw;
    const int64_t oy = p0 / s->ow, ox = p0 % s->ow;

    for (int64_t k = 0; k < k_count; k++, to += stride) {
        pack_patch_row(s, x, (image * s->c + group * s->cg + c) * s->h * s->w, ky, kx, oy, ox, count, to);
        for (int64_t i = count; i < stride; i++)
            to[i] = 0.0f;
        if (++kx == s->kw) {
            kx = 0;
            if (++ky == s->kh) {
                ky = 0;
                c++;
            }
        }
    }
}

/* Packs B of the forward pass, the patches' matrix of one image and group. */
static void pack_patches(const gemm_job *job, int64_t repeat, int64_t k0, int64_t k_count, int64_t n0, int64_t count,
                         int64_t width, float *to, float *spare)
{
    const bgi_conv *s = job->source;

    (void)repeat;
    (void)spare;
    pack_patch_rows(s, job->b, job->batch / s->options.groups, job->batch % s->options.groups, k0, k_count, n0, count,
                    width, to);
}

/* Packs B of the weights' gradient: the transposed matrix of patches, image by image; the job's batch is the group. */
static void pack_transposed_patches(const gemm_job *job, int64_t repeat, int64_t k0, int64_t k_count, int64_t n0,
                                    int64_t count, int64_t width, float *to, float *spare)
{
    const bgi_conv *s = job->source;

    if (bgi_conv_is_matrix(s) && s->dtype == BG_FLOAT32) {
        transpose_matrix((const float *)job->b + ((repeat * s->c) + job->batch * s->cg + n0) * s->p + k0, s->p, count,
                         k_count, to, width, width);
        return;
    }
    pack_patch_rows(s, job->b, repeat, job->batch, n0, count, k0, k_count, k_count, spare);
    transpose_matrix(spare, k_count, count, k_count, to, width, width);
}

/* Applies the following steps to a run of complete results of a matrix product. */
static void finish_matrix(const gemm_job *job, int64_t index, int64_t column, int64_t count)
{
    const conv_finish *finish = job->next;
    const bgi_conv *s = job->source;

    (void)column;
    finish_stored(finish, index / s->p % s->o, count, (float *)job->c + index);
}

/* Lays out a part of the weights if the convolution is direct (direct.h) or by products of pairs (pairs.h), and
 * otherwise convolves. `finish` may be NULL. */
static void run_convolution(const bg_kernel_call *call, uint32_t part, const conv_finish *finish)
{
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bgi_conv s =
        bgi_conv_read(&call->types[0], &call->types[1], &call->types[call->input_count], &attributes->options);
    const bgi_gemm g = bgi_gemm_bound(bgi_conv_forward_plan(&s, LANES), LANES, bgi_product_limit(call->state));
    const int64_t units = g.row_blocks * g.column_blocks;
    const size_t element = s.dtype == BG_FLOAT32 ? 4 : 2;
    gemm_job job = {.gemm = &g,
                    .dtype = s.dtype,
                    .c_dtype = s.dtype,
                    .a = call->operands[1],
                    .a_row = s.k,
                    .a_column = 1,
                    .b = call->operands[0],
                    .c = call->operands[call->input_count],
                    .c_row = s.p,
                    .pack = pack_patches,
                    .source = &s,
                    .finish = finish ? finish_matrix : NULL,
                    .next = finish};
    bgi_direct direct;
    bgi_direct_plan plan;

#if LANES == 16
    if (bgi_product_pairs(call->state) != BGI_ISA_PORTABLE) {
        const bgi_conv_pairs pairs = bgi_conv_pairs_forward(&s, bgi_product_limit(call->state));

        lay_pairs_out(&pairs, call->operands[1], part, call->scratch);
        return;
    }
#endif
    if (bgi_conv_is_depthwise(&s)) {
        convolve_depthwise(call, part, &s, finish);
        return;
    }
    if (bgi_direct_forward_plan(&s, LANES, bgi_product_limit(call->state), &direct, &plan)) {
        lay_forward_out(call, part, &s, &direct, plan.parts);
        return;
    }
    if (bgi_conv_is_matrix(&s)) {
        job.pack = NULL;
        job.b_row = s.p;
        job.b_column = 1;
    }
    for (int64_t unit = bgi_cpu_part_start(g.units, part, g.parts);
         unit < bgi_cpu_part_start(g.units, part + 1, g.parts); unit++) {
        const int64_t group = unit / units % s.options.groups;

        job.batch = unit / units;
        job.a_start = group * s.og * s.k;
        job.b_start = bgi_conv_is_matrix(&s) ? job.batch * s.cg * s.p : 0;
        job.c_start = job.batch * s.og * s.p;
        if (bgi_cpu_has_input(call, 2))
            job.row_bias = (const char *)call->operands[2] + (size_t)(group * s.og) * element;
        multiply_matrix_unit(&job, unit % units, bgi_cpu_part_scratch(call, g.part_floats));
    }
}

/* Convolves if the convolution is direct or by products of pairs. */
static void combine_convolution(const bg_kernel_call *call, uint32_t part, const conv_finish *finish)
{
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bgi_conv s =
        bgi_conv_read(&call->types[0], &call->types[1], &call->types[call->input_count], &attributes->options);
    bgi_direct direct;
    bgi_direct_plan plan;

#if LANES == 16
    if (bgi_product_pairs(call->state) != BGI_ISA_PORTABLE) {
        const bgi_conv_pairs pairs = bgi_conv_pairs_forward(&s, bgi_product_limit(call->state));

        convolve_pairs(call, part, &pairs, call->operands[0], bgi_cpu_has_input(call, 2) ? call->operands[2] : NULL,
                       call->operands[call->input_count]);
        return;
    }
#endif
    if (bgi_direct_forward_plan(&s, LANES, bgi_product_limit(call->state), &direct, &plan))
        convolve_forward(call, part, &s, &direct, &plan, finish);
}

static void run_conv2d(const bg_kernel_call *call, uint32_t part)
{
    run_convolution(call, part, NULL);
}

static void combine_conv2d(const bg_kernel_call *call, uint32_t part)
{
    combine_convolution(call, part, NULL);
}

/* Computes units of products of runs of images; units are numbered run by run. */
static void multiply_weights(const bg_kernel_call *call, uint32_t part, const bgi_conv *s,
                             const bgi_conv_weights_plan *plan)
{
    const bgi_gemm *g = &plan->gemm;
    const int64_t of_batch = g->row_blocks * g->column_blocks, units = g->units * plan->runs;
    const int64_t size = s->dtype == BG_FLOAT32 ? 4 : 2, image_bytes = s->c * s->h * s->w * size;
    const bool is_whole = plan->runs == 1;
    float *const sums = call->scratch;
    float *own = sums + plan->runs * plan->sums_floats + call->runner * g->part_floats;
    gemm_job job = {.gemm = g,
                    .dtype = s->dtype,
                    .c_dtype = is_whole ? s->dtype : BG_FLOAT32,
                    .a_repeat = s->o * s->p,
                    .a = call->operands[0],
                    .a_row = s->p,
                    .a_column = 1,
                    .c_row = s->k,
                    .add = is_whole && bgi_call_adds(call),
                    .pack = pack_transposed_patches,
                    .source = s};

    for (int64_t unit = bgi_cpu_part_start(units, part, plan->parts);
         unit < bgi_cpu_part_start(units, part + 1, plan->parts); unit++) {
        const int64_t run = unit / g->units, of_run = unit % g->units;
        const int64_t first = s->n * run / plan->runs, row = of_run % of_batch / g->column_blocks;
        const int64_t from = g->m * row / g->row_blocks;

        job.repeats = s->n * (run + 1) / plan->runs - first;
        job.batch = of_run / of_batch;
        job.a_start = first * job.a_repeat + job.batch * s->og * s->p;
        job.b = (const char *)call->operands[1] + first * image_bytes;
        job.c = is_whole ? call->operands[2] : sums + run * plan->sums_floats;
        job.c_start = job.batch * s->og * s->k;
        multiply_matrix_unit(&job, of_run % of_batch, own);
        if (is_whole && bgi_cpu_has_operand(call, 3) && of_run % g->column_blocks == 0)
            sum_bias_gradient(s, call->operands[0], job.batch * s->og + from, g->m * (row + 1) / g->row_blocks - from,
                              job.add, call->operands[3]);
    }
}

static void run_conv2d_backward_weights(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bgi_conv s = bgi_conv_read(&call->types[1], &call->types[2], &call->types[0], &attributes->options);
    bgi_conv_weights_plan product;
    bgi_lines_plan lines;
    bgi_direct direct;
    bgi_direct_weights_plan plan;

#if LANES == 16
    if (bgi_product_pairs(call->state) != BGI_ISA_PORTABLE) {
        const bgi_conv_pairs pairs = bgi_conv_pairs_weights(&s, bgi_product_limit(call->state));

        lay_pairs_out(&pairs, call->operands[0], part, call->scratch);
        return;
    }
#endif
    if (bgi_conv_is_depthwise(&s)) {
        sum_depthwise_weights(call, part, &s);
        return;
    }
    if (bgi_lines_weights(&s, LANES, bgi_product_limit(call->state), &lines)) {
        sum_lines_of_part(call, part, &s, &lines);
        return;
    }
    if (bgi_direct_weights(&s, LANES, call->output_count == 0, &direct, &plan)) {
        run_direct_weights(call, part, &s, &direct, &plan);
        return;
    }
    product = bgi_conv_weights_plan_make(&s, LANES, call->output_count == 0, bgi_product_limit(call->state));
    multiply_weights(call, part, &s, &product);
}

/* Adds up the runs' sums of dw, or computes them by products of pairs, and computes db. */
static void combine_conv2d_backward_weights(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bgi_conv s = bgi_conv_read(&call->types[1], &call->types[2], &call->types[0], &attributes->options);
    bgi_conv_weights_plan product;
    bgi_lines_plan lines;
    bgi_direct direct;
    bgi_direct_weights_plan plan;
    conv_runs runs;
    uint32_t parts;
    int64_t from, end;

#if LANES == 16
    if (bgi_product_pairs(call->state) != BGI_ISA_PORTABLE) {
        const bgi_conv_pairs pairs = bgi_conv_pairs_weights(&s, bgi_product_limit(call->state));

        convolve_pairs_weights(call, part, &pairs);
        from = bgi_cpu_part_start(s.o, part, pairs.parts);
        end = bgi_cpu_part_start(s.o, part + 1, pairs.parts);
        if (bgi_cpu_has_operand(call, 3))
            sum_bias_gradient(&s, call->operands[0], from, end - from, bgi_call_adds(call), call->operands[3]);
        return;
    }
#endif
    if (bgi_lines_weights(&s, LANES, bgi_product_limit(call->state), &lines)) {
        runs = (conv_runs){lines.runs, lines.sums_floats};
        parts = lines.combines;
    } else if (bgi_direct_weights(&s, LANES, call->output_count == 0, &direct, &plan)) {
        runs = (conv_runs){plan.runs, plan.sums_floats};
        parts = plan.combines;
    } else {
        product = bgi_conv_weights_plan_make(&s, LANES, call->output_count == 0, bgi_product_limit(call->state));
        runs = (conv_runs){product.runs, product.sums_floats};
        parts = product.combines;
    }
    from = bgi_cpu_part_start(s.o, part, parts);
    end = bgi_cpu_part_start(s.o, part + 1, parts);
    if (runs.floats > 0)
        add_run_sums(call, &s, call->scratch, &runs, from, end);
    if (bgi_cpu_has_operand(call, 3))
        sum_bias_gradient(&s, call->operands[0], from, end - from, bgi_call_adds(call), call->operands[3]);
}

/* Adds up the runs' sums of a dw that products of pairs compute. */
static void finish_conv2d_backward_weights(const bg_kernel_call *call)
{
#if LANES == 16
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bgi_conv s = bgi_conv_read(&call->types[1], &call->types[2], &call->types[0], &attributes->options);
    const bgi_conv_pairs pairs = bgi_conv_pairs_weights(&s, bgi_product_limit(call->state));
    const conv_runs runs = {pairs.runs, pairs.run_floats};

    add_run_sums(call, &s, (const float *)call->scratch + pairs.filter_floats, &runs, 0, s.o);
#else
    (void)call;
#endif
}

/* ---- the gradient of the input ---- */

/* Adds the patches [channels T, P] of `channels` planes to dx, taps in order. */
static void spread_patches(const bgi_conv *s, const float *patches, int64_t channels, float *dx)
{
    const int64_t stride = s->options.stride[1];

    for (int64_t row = 0; row < channels * s->taps; row++, patches += s->p) {
        const int64_t ky = row % s->taps / s->kw, kx = row % s->kw;
        const int64_t offset = kx * s->options.dilation[1] - s->options.padding[1];
        float *plane = dx + row / s->taps * s->h * s->w;
        int64_t first, end;

        find_inside(s, kx, &first, &end);
        for (int64_t oy = 0; oy < s->oh; oy++) {
            const int64_t y = oy * s->options.stride[0] + ky * s->options.dilation[0] - s->options.padding[0];
            const float *from = patches + oy * s->ow;
            float *to = plane + y * s->w + offset;

            if (y < 0 || y >= s->h)
                continue;
            if (stride == 1)
                for (int64_t ox = first; ox < end; ox += LANES) {
                    const int64_t live = end - ox < LANES ? end - ox : LANES;

                    vstore_n(to + ox, vload_n(to + ox, live) + vload_n(from + ox, live), live);
                }
            else
                for (int64_t ox = first; ox < end; ox++)
                    to[ox * stride] += from[ox];
        }
    }
}

/* Lays out a part of the weights if the convolution is direct or by products of pairs, and otherwise computes dx. */
static void run_conv2d_backward_input(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bgi_conv s = bgi_conv_read(&call->types[2], &call->types[1], &call->types[0], &attributes->options);
    const bgi_conv_input_plan plan = bgi_conv_input_plan_make(&s, LANES, bgi_product_limit(call->state));
    const int64_t plane = s.h * s.w;
    const bool is_matrix = bgi_conv_is_matrix(&s);
    float *scratch = bgi_cpu_part_scratch(call, plan.part_floats);
    float *patches = scratch + plan.gemm.part_floats, *planes = patches + plan.patch_floats;
    bgi_direct_plan direct;

#if LANES == 16
    if (bgi_product_pairs(call->state) != BGI_ISA_PORTABLE) {
        const bgi_conv_pairs pairs = bgi_conv_pairs_input(&s, bgi_product_limit(call->state));

        lay_pairs_out(&pairs, call->operands[1], part, call->scratch);
        return;
    }
#endif
    if (bgi_conv_is_depthwise(&s)) {
        convolve_depthwise_backward(call, part, &s);
        return;
    }
    if (bgi_direct_input_plan(&s, LANES, bgi_product_limit(call->state), &direct)) {
        lay_backward_out(call, part, &s, direct.parts);
        return;
    }
    for (int64_t item = bgi_cpu_part_start(plan.items, part, plan.parts);
         item < bgi_cpu_part_start(plan.items, part + 1, plan.parts); item++) {
        const int64_t image = item / (s.options.groups * plan.blocks), group = item / plan.blocks % s.options.groups;
        const int64_t first = item % plan.blocks * plan.channels;
        const int64_t channels = s.cg - first < plan.channels ? s.cg - first : plan.channels;
        const int64_t at = (image * s.c + group * s.cg + first) * plane;
        float *dx = s.dtype == BG_FLOAT32 ? (float *)call->operands[2] + at : planes;
        bgi_gemm g = plan.gemm;
        const gemm_job job = {.gemm = &g,
                              .dtype = s.dtype,
                              .c_dtype = BG_FLOAT32,
                              .a = call->operands[1],
                              .a_start = group * s.og * s.k + first * s.taps,
                              .a_row = 1,
                              .a_column = s.k,
                              .b = call->operands[0],
                              .b_start = (image * s.o + group * s.og) * s.p,
                              .b_row = s.p,
                              .b_column = 1,
                              .c = is_matrix ? dx : patches,
                              .c_row = s.p};

        g.m = channels * s.taps; /* the last block may be smaller than the plan's */
        g.units = g.row_blocks * g.column_blocks;
        for (int64_t unit = 0; unit < g.units; unit++)
            multiply_matrix_unit(&job, unit, scratch);
        if (!is_matrix) {
            memset(dx, 0, (size_t)(channels * plane) * sizeof(float));
            spread_patches(&s, patches, channels, dx);
        }
        if (s.dtype != BG_FLOAT32)
            narrow(s.dtype, dx, channels * plane, (uint16_t *)call->operands[2] + at);
    }
}

static void combine_conv2d_backward_input(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bgi_conv s = bgi_conv_read(&call->types[2], &call->types[1], &call->types[0], &attributes->options);
    bgi_direct_plan plan;

#if LANES == 16
    if (bgi_product_pairs(call->state) != BGI_ISA_PORTABLE) {
        const bgi_conv_pairs pairs = bgi_conv_pairs_input(&s, bgi_product_limit(call->state));

        convolve_pairs(call, part, &pairs, call->operands[0], NULL, call->operands[2]);
        return;
    }
#endif
    if (bgi_direct_input_plan(&s, LANES, bgi_product_limit(call->state), &plan))
        convolve_backward(call, part, &s, &plan);
}

#endif
