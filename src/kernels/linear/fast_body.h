/*
 * fast_body.h: the linear layer's three products, and matmul, as products of gemm_body.h, each optionally followed by a
 * bias, function or derivative.
 */
#ifndef BGI_KERNELS_LINEAR_FAST_BODY_H
#define BGI_KERNELS_LINEAR_FAST_BODY_H

#include "kernels/elementwise/fast_body.h"
#include "kernels/linear/attributes.h"
#include "kernels/linear/gemm_body.h"

/* The step that follows a product. */
typedef struct product_next {
    const void *bias; /* a bias that is added to the complete product; or NULL */
    void (*map)(const float *x, float *y, int64_t count, const bgi_unary_attributes *none);
    void (*derive)(const float *dy, const float *s, float *dx, int64_t count, const bgi_unary_attributes *none);
    const void *s; /* for `derive` */
    void *y;       /* may be the memory of C */
} product_next;

/* Applies the step that follows to complete elements of C; every operation is rounded to C's type, as in a separate
 * kernel. */
static void finish_product(const gemm_job *job, int64_t index, int64_t column, int64_t count)
{
    const product_next *next = job->next;
    const bg_dtype dtype = job->c_dtype;
    float sum[BGI_ELEMENTWISE_CHUNK], other[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t done = 0; done < count; done += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(count - done, BGI_ELEMENTWISE_CHUNK), i = index + done;

        if (next->bias) {
            add_loop(view_floats(dtype, job->c, i, chunk, sum),
                     view_floats(dtype, next->bias, column + done, chunk, other), begin_output(dtype, job->c, i, out),
                     chunk);
            end_output(dtype, job->c, i, chunk, out);
        }
        if (next->map)
            next->map(view_floats(dtype, job->c, i, chunk, sum), begin_output(dtype, next->y, i, out), chunk, NULL);
        else if (next->derive)
            next->derive(view_floats(dtype, job->c, i, chunk, sum), view_floats(dtype, next->s, i, chunk, other),
                         begin_output(dtype, next->y, i, out), chunk, NULL);
        if (next->map || next->derive)
            end_output(dtype, next->y, i, chunk, out);
    }
}

/* Makes the step follow the job's product. For float32 the product adds the bias to the sums before it writes them. */
static void add_next(gemm_job *job, product_next *next)
{
    if (!next)
        return;
    if (next->bias && job->c_dtype == BG_FLOAT32) {
        job->column_bias = next->bias;
        job->biases_last = true;
        next->bias = NULL;
    }
    if (!next->bias && !next->map && !next->derive)
        return;
    job->finish = finish_product;
    job->next = next;
    job->beside = next->derive ? next->s : next->y != job->c ? next->y : NULL;
}

static void run_units(gemm_job *job, const bg_kernel_call *call, uint32_t part)
{
    const bgi_gemm *g = job->gemm;
    float *scratch = bgi_cpu_part_scratch(call, g->part_floats);

    job->rounds = bgi_product_rounds(call);
    job->from_end = call->runner > 0;
    for (int64_t unit = bgi_cpu_part_start(g->units, part, g->parts);
         unit < bgi_cpu_part_start(g->units, part + 1, g->parts); unit++)
        multiply_matrix_unit(job, unit, scratch);
}

/* Computes y [rows, out] = x [rows, in] w^T + b; `next` is the step that follows, or NULL. */
static void multiply_linear(const bg_kernel_call *call, uint32_t part, product_next *next)
{
    const bg_type *w = &call->types[1];
    const bgi_linear_dims d = bgi_linear_read(w, &call->types[0], w->dims[1]);
    const bgi_gemm g =
        bgi_gemm_for(bgi_gemm_plan(1, d.rows, d.out, d.in, 1, LANES, w->dtype == BG_FLOAT32), LANES, call->state);
    gemm_job job = {.gemm = &g,
                    .dtype = w->dtype,
                    .c_dtype = w->dtype,
                    .a = call->operands[0],
                    .a_row = d.in,
                    .a_column = 1,
                    .b = call->operands[1],
                    .b_row = 1,
                    .b_column = d.in,
                    .c = call->operands[call->input_count],
                    .c_row = d.out,
                    .column_bias = bgi_cpu_has_input(call, 2) ? call->operands[2] : NULL};

    add_next(&job, next);
    run_units(&job, call, part);
}

static void run_linear(const bg_kernel_call *call, uint32_t part)
{
    multiply_linear(call, part, NULL);
}

/* Computes dx [rows, in] = dy [rows, out] w; `next` is the step that follows, or NULL. */
static void multiply_linear_backward_input(const bg_kernel_call *call, uint32_t part, product_next *next)
{
    const bg_type *w = &call->types[1];
    const bgi_linear_dims d = bgi_linear_read(w, &call->types[0], w->dims[0]);
    const bgi_gemm g =
        bgi_gemm_for(bgi_gemm_plan(1, d.rows, d.in, d.out, 1, LANES, w->dtype == BG_FLOAT32), LANES, call->state);
    gemm_job job = {.gemm = &g,
                    .dtype = w->dtype,
                    .c_dtype = w->dtype,
                    .a = call->operands[0],
                    .a_row = d.out,
                    .a_column = 1,
                    .b = call->operands[1],
                    .b_row = d.in,
                    .b_column = 1,
                    .c = call->operands[2],
                    .c_row = d.in};

    add_next(&job, next);
    run_units(&job, call, part);
}

static void run_linear_backward_input(const bg_kernel_call *call, uint32_t part)
{
    multiply_linear_backward_input(call, part, NULL);
}

/* Computes sums[j], the sum of column from + j of `rows` rows, in row order; with `add`, adds it to the existing
 * value. */
static void sum_columns(bg_dtype dtype, const void *data, int64_t rows, int64_t columns, int64_t from, int64_t count,
                        bool add, void *sums)
{
    for (int64_t j = 0; j < count; j += LANES) {
        const int64_t live = count - j < LANES ? count - j : LANES;
        float lane[LANES];
        vf sum = vset(0.0f);

        for (int64_t r = 0; r < rows; r++)
            if (dtype == BG_FLOAT32) {
                sum += vload_n((const float *)data + r * columns + from + j, live);
            } else {
                widen(dtype, (const uint16_t *)data + r * columns + from + j, live, lane);
                sum += vload_n(lane, live);
            }
        vstore(lane, sum);
        put_floats(add, dtype, sums, from + j, live, lane);
    }
}

/* Computes dw [out, in] = dy^T x, and db [out], the sums of dy's columns; the units with a row block's first panels
 * compute db. */
static void run_linear_backward_weights(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *dw = &call->types[2];
    const bgi_linear_dims d = bgi_linear_read(dw, &call->types[0], dw->dims[0]);
    const bgi_gemm g =
        bgi_gemm_for(bgi_linear_weights_plan(&d, LANES, dw->dtype, call->output_count == 0), LANES, call->state);
    gemm_job job = {.gemm = &g,
                    .dtype = dw->dtype,
                    .c_dtype = dw->dtype,
                    .a = call->operands[0],
                    .a_row = 1,
                    .a_column = d.out,
                    .b = call->operands[1],
                    .b_row = d.in,
                    .b_column = 1,
                    .c = call->operands[2],
                    .c_row = d.in,
                    .add = bgi_call_adds(call)};

    run_units(&job, call, part);
    if (!bgi_cpu_has_operand(call, 3))
        return;
    for (int64_t unit = bgi_cpu_part_start(g.units, part, g.parts);
         unit < bgi_cpu_part_start(g.units, part + 1, g.parts); unit++)
        if (unit % g.column_blocks == 0) {
            const int64_t row = unit / g.column_blocks, from = g.m * row / g.row_blocks;

            sum_columns(dw->dtype, call->operands[0], d.rows, d.out, from, g.m * (row + 1) / g.row_blocks - from,
                        job.add, call->operands[3]);
        }
}

/* Returns the number of the matrix of a batched operand that matrix `batch` of the output reads; broadcast dims count
 * as 0. */
static int64_t find_operand_matrix(const bg_type *output, const bg_type *operand, int64_t batch)
{
    int64_t matrix = 0, stride = 1;

    for (uint32_t back = 3; back <= output->rank && back <= operand->rank; back++) {
        const int64_t size = operand->dims[operand->rank - back];

        if (size != 1)
            matrix += batch % size * stride;
        stride *= size;
        batch /= output->dims[output->rank - back];
    }
    return matrix;
}

/* Computes the batched product; `next` is the step that follows, or NULL. */
static void multiply_matmul(const bg_kernel_call *call, uint32_t part, product_next *next)
{
    const bgi_matmul_attributes *attributes = call->attributes;
    const bg_type *a = &call->types[0], *b = &call->types[1], *y = &call->types[2];
    const int64_t m = y->dims[y->rank - 2], n = y->dims[y->rank - 1];
    const int64_t k = a->dims[attributes->transpose_a ? a->rank - 2 : a->rank - 1];
    const bgi_gemm g = bgi_gemm_for(bgi_matmul_plan(y, k, LANES, call->output_count == 0), LANES, call->state);
    const int64_t units_per_matrix = g.row_blocks * g.column_blocks;
    gemm_job job = {.gemm = &g,
                    .dtype = y->dtype,
                    .c_dtype = y->dtype,
                    .a = call->operands[0],
                    .a_row = attributes->transpose_a ? 1 : k,
                    .a_column = attributes->transpose_a ? m : 1,
                    .b = call->operands[1],
                    .b_row = attributes->transpose_b ? 1 : n,
                    .b_column = attributes->transpose_b ? k : 1,
                    .c = call->operands[2],
                    .c_row = n,
                    .add = bgi_call_adds(call),
                    .rounds = bgi_product_rounds(call),
                    .from_end = call->runner > 0};

    add_next(&job, next);
    for (int64_t unit = bgi_cpu_part_start(g.units, part, g.parts);
         unit < bgi_cpu_part_start(g.units, part + 1, g.parts); unit++) {
        const int64_t batch = unit / units_per_matrix;

        job.a_start = find_operand_matrix(y, a, batch) * m * k;
        job.b_start = find_operand_matrix(y, b, batch) * k * n;
        job.c_start = batch * m * n;
        multiply_matrix_unit(&job, unit % units_per_matrix, bgi_cpu_part_scratch(call, g.part_floats));
    }
}

static void run_matmul(const bg_kernel_call *call, uint32_t part)
{
    multiply_matmul(call, part, NULL);
}

/* Computes one of the products above into `sum`, or into y when the sum is not stored, and the step that follows. */
static void run_fused_product(const bg_kernel_call *call, uint32_t part)
{
    static void (*const multiply[BGI_PRODUCT_COUNT])(const bg_kernel_call *, uint32_t, product_next *) = {
        [BGI_PRODUCT_LINEAR] = multiply_linear,
        [BGI_PRODUCT_LINEAR_BACKWARD_INPUT] = multiply_linear_backward_input,
        [BGI_PRODUCT_MATMUL] = multiply_matmul};
    const bgi_fused_product_attributes *attributes = call->attributes;
    const void *other = call->input_count > 2 ? call->operands[call->input_count - 1] : NULL;
    product_next next = {.y = call->operands[call->input_count]};
    bgi_fused_call product;

    bgi_fused_call_make(call, &product);
    if (bgi_fused_product_adds(attributes, call->input_count))
        next.bias = other;
    if (attributes->follows == BGI_FOLLOWS_FUNCTION)
        next.map = unary_table[attributes->function].forward;
    if (attributes->follows == BGI_FOLLOWS_DERIVATIVE) {
        next.derive = unary_table[attributes->function].backward;
        next.s = other;
    }
    multiply[attributes->product](&product.call, part, &next);
}

#endif
