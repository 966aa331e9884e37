/*
 * reference.c: softmax and its logarithm along one axis, in plain C. The largest element is subtracted first, so
 * exponentials do not overflow. Every pass reads an element before it writes it, so results may overwrite operand 0.
 */
#include "kernels/kernels.h"

#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"
#include "kernels/softmax/attributes.h"

/* A line of elements along the axis: element i is at first + i * stride. */
typedef struct line {
    int64_t first, stride, count;
} line;

typedef void (*line_function)(const bg_kernel_call *call, bg_dtype dtype, line at);

static void for_each_line(const bg_kernel_call *call, line_function function)
{
    const bgi_axis_attributes *attributes = call->attributes;
    const bg_type *x = bgi_input_type(call, 0);
    const int64_t count = x->dims[attributes->axis];
    int64_t outer = 1, stride = 1;

    for (uint32_t i = 0; i < attributes->axis; i++)
        outer *= x->dims[i];
    for (uint32_t i = attributes->axis + 1; i < x->rank; i++)
        stride *= x->dims[i];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t inner = 0; inner < stride; inner++)
            function(call, x->dtype, (line){o * count * stride + inner, stride, count});
}

static double find_maximum(bg_dtype dtype, const void *x, line at)
{
    double maximum = -INFINITY;

    for (int64_t i = 0; i < at.count; i++) {
        const double value = bgi_load(dtype, x, at.first + i * at.stride);

        if (value > maximum)
            maximum = value;
    }
    return maximum;
}

static double sum_exponentials(bg_dtype dtype, const void *x, line at, double maximum)
{
    double sum = 0.0;

    for (int64_t i = 0; i < at.count; i++)
        sum += exp(bgi_load(dtype, x, at.first + i * at.stride) - maximum);
    return sum;
}

static void compute_softmax(const bg_kernel_call *call, bg_dtype dtype, line at)
{
    const double maximum = find_maximum(dtype, call->operands[0], at);
    const double sum = sum_exponentials(dtype, call->operands[0], at, maximum);

    for (int64_t i = 0; i < at.count; i++) {
        const int64_t element = at.first + i * at.stride;

        bgi_store(dtype, bgi_output(call, 0), element,
                  exp(bgi_load(dtype, call->operands[0], element) - maximum) / sum);
    }
}

static void compute_log_softmax(const bg_kernel_call *call, bg_dtype dtype, line at)
{
    const double maximum = find_maximum(dtype, call->operands[0], at);
    const double log_sum = log(sum_exponentials(dtype, call->operands[0], at, maximum));

    for (int64_t i = 0; i < at.count; i++) {
        const int64_t element = at.first + i * at.stride;

        bgi_store(dtype, bgi_output(call, 0), element, bgi_load(dtype, call->operands[0], element) - maximum - log_sum);
    }
}

/* Computes dx = y (dy - sum(dy y)). */
static void compute_softmax_backward(const bg_kernel_call *call, bg_dtype dtype, line at)
{
    const void *dy = call->operands[0], *y = call->operands[1];
    double sum = 0.0;

    for (int64_t i = 0; i < at.count; i++)
        sum += bgi_load(dtype, dy, at.first + i * at.stride) * bgi_load(dtype, y, at.first + i * at.stride);
    for (int64_t i = 0; i < at.count; i++) {
        const int64_t element = at.first + i * at.stride;

        bgi_store(dtype, bgi_output(call, 0), element,
                  bgi_load(dtype, y, element) * (bgi_load(dtype, dy, element) - sum));
    }
}

/* Computes dx = dy - exp(y) sum(dy). */
static void compute_log_softmax_backward(const bg_kernel_call *call, bg_dtype dtype, line at)
{
    const void *dy = call->operands[0], *y = call->operands[1];
    double sum = 0.0;

    for (int64_t i = 0; i < at.count; i++)
        sum += bgi_load(dtype, dy, at.first + i * at.stride);
    for (int64_t i = 0; i < at.count; i++) {
        const int64_t element = at.first + i * at.stride;

        bgi_store(dtype, bgi_output(call, 0), element,
                  bgi_load(dtype, dy, element) - exp(bgi_load(dtype, y, element)) * sum);
    }
}

void bgi_reference_softmax(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for_each_line(call, compute_softmax);
}

void bgi_reference_softmax_backward(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for_each_line(call, compute_softmax_backward);
}

void bgi_reference_log_softmax(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for_each_line(call, compute_log_softmax);
}

void bgi_reference_log_softmax_backward(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for_each_line(call, compute_log_softmax_backward);
}
