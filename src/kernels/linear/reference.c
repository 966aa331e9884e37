/*
 * reference.c: matrix products by three plain loops. Rows are the leading dims of x combined; each sum is computed in
 * double, in index order, and rounded once, or has partial sums in 16 bits (product.h).
 */
#include "kernels/kernels.h"
#include "kernels/linear/attributes.h"
#include "kernels/linear/product.h"
#include "kernels/reference/operands.h"

/* Elements of an operand from `start` on, at a distance of `step`. */
typedef struct run {
    int64_t start, step;
} run;

static double multiply(const bg_kernel_call *call, run a, run b, int64_t index)
{
    return bgi_load(call->types[0].dtype, call->operands[0], a.start + index * a.step) *
           bgi_load(call->types[1].dtype, call->operands[1], b.start + index * b.step);
}

/* Returns `sum` plus the products of `count` elements of the first two operands. */
static double add_products(const bg_kernel_call *call, run a, run b, int64_t count, double sum)
{
    const int64_t block = bgi_product_rounds(call) ? bgi_product_block(count) : count;
    const bg_dtype dtype = call->types[0].dtype;

    if (!bgi_product_rounds(call)) {
        for (int64_t i = 0; i < count; i++)
            sum += multiply(call, a, b, i);
        return sum;
    }
    for (int64_t from = 0; from < count; from += block) {
        float partial = 0.0f;

        for (int64_t i = from; i < count && i < from + block; i++)
            partial = (float)(partial + multiply(call, a, b, i));
        sum = bgi_narrow_to_float(dtype, bgi_narrow_from_float(dtype, partial + (float)sum));
    }
    return sum;
}

/* Computes y [rows, out] = x [rows, in] w^T + b. */
void bgi_reference_linear(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *w = &call->types[1];
    const int64_t out_count = w->dims[0], in_count = w->dims[1];
    const int64_t rows = bg_type_element_count(&call->types[0]) / in_count;
    const bool has_bias = call->input_count > 2;
    const bg_dtype dtype = w->dtype;

    (void)part;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out_count; o++) {
            const double bias = has_bias ? bgi_load(dtype, call->operands[2], o) : 0.0;

            bgi_store(dtype, call->operands[call->input_count], r * out_count + o,
                      add_products(call, (run){r * in_count, 1}, (run){o * in_count, 1}, in_count, bias));
        }
}

/* Computes dx [rows, in] = dy [rows, out] w. */
void bgi_reference_linear_backward_input(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *w = &call->types[1];
    const int64_t out_count = w->dims[0], in_count = w->dims[1];
    const int64_t rows = bg_type_element_count(&call->types[0]) / out_count;
    const bg_dtype dtype = w->dtype;

    (void)part;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < in_count; i++)
            bgi_store(dtype, call->operands[2], r * in_count + i,
                      add_products(call, (run){r * out_count, 1}, (run){i, in_count}, out_count, 0.0));
}

/* Computes dw [out, in] = dy^T x and db [out], the sum of dy's rows. */
void bgi_reference_linear_backward_weights(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *dw = &call->types[2];
    const int64_t out_count = dw->dims[0], in_count = dw->dims[1];
    const int64_t rows = bg_type_element_count(&call->types[0]) / out_count;
    const bg_dtype dtype = dw->dtype;

    (void)part;
    for (int64_t o = 0; o < out_count; o++) {
        for (int64_t i = 0; i < in_count; i++)
            bgi_store_gradient(call, 2, o * in_count + i,
                               add_products(call, (run){o, out_count}, (run){i, in_count}, rows, 0.0));
        if (bgi_has_operand(call, 3)) {
            double sum = 0.0;

            for (int64_t r = 0; r < rows; r++)
                sum += bgi_load(dtype, call->operands[0], r * out_count + o);
            bgi_store_gradient(call, 3, o, sum);
        }
    }
}

/* Returns the number of the matrix of a batched operand that matrix `batch` of the output reads; broadcast dims count
 * as 0. */
static int64_t find_matrix(const bg_type *output, const bg_type *operand, int64_t batch)
{
    int64_t matrix = 0, stride = 1;

    for (uint32_t i = 3; i <= output->rank; i++) {
        const int64_t size = output->dims[output->rank - i];
        const int64_t index = batch % size;

        batch /= size;
        if (i > operand->rank)
            continue;
        if (operand->dims[operand->rank - i] != 1)
            matrix += index * stride;
        stride *= operand->dims[operand->rank - i];
    }
    return matrix;
}

void bgi_reference_matmul(const bg_kernel_call *call, uint32_t part)
{
    const bgi_matmul_attributes *attributes = call->attributes;
    const bg_type *a = &call->types[0], *b = &call->types[1], *y = &call->types[2];
    const int64_t m_count = y->dims[y->rank - 2], n_count = y->dims[y->rank - 1];
    const int64_t k_count = attributes->transpose_a ? a->dims[a->rank - 2] : a->dims[a->rank - 1];
    const int64_t a_row = attributes->transpose_a ? 1 : k_count, a_column = attributes->transpose_a ? m_count : 1;
    const int64_t b_row = attributes->transpose_b ? 1 : n_count, b_column = attributes->transpose_b ? k_count : 1;
    const int64_t batch_count = bg_type_element_count(y) / (m_count * n_count);

    (void)part;
    for (int64_t batch = 0; batch < batch_count; batch++) {
        const int64_t a_start = find_matrix(y, a, batch) * m_count * k_count;
        const int64_t b_start = find_matrix(y, b, batch) * k_count * n_count;

        for (int64_t m = 0; m < m_count; m++)
            for (int64_t n = 0; n < n_count; n++)
                bgi_store_gradient(call, 2, (batch * m_count + m) * n_count + n,
                                   add_products(call, (run){a_start + m * a_row, a_column},
                                                (run){b_start + n * b_column, b_row}, k_count, 0.0));
    }
}
