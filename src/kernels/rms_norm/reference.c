/*
 * reference.c: norms by the root of the mean square, in plain C. With s the row's scale and g = dy gamma
 *     dx = s (g - x s mean(g x s)),  dgamma = sum(dy x s).
 * The elementwise passes read before they write, so y may overwrite x.
 */
#include "kernels/kernels.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"
#include "kernels/rms_norm/attributes.h"

void bgi_reference_rms_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_rms_norm_attributes *attributes = call->attributes;
    const bg_dtype dtype = bgi_input_type(call, 0)->dtype;
    const int64_t length = bgi_input_type(call, 0)->dims[bgi_input_type(call, 0)->rank - 1];

    (void)part;
    for (int64_t row = 0; row < bg_type_element_count(bgi_input_type(call, 0)) / length; row++) {
        double squares = 0.0, scale;

        for (int64_t i = 0; i < length; i++) {
            const double x = bgi_load(dtype, call->operands[0], row * length + i);
            squares += x * x;
        }
        scale = 1.0 / sqrt(squares / (double)length + attributes->epsilon);
        for (int64_t i = 0; i < length; i++) {
            const double gamma = call->input_count > 1 ? bgi_load(dtype, call->operands[1], i) : 1.0;
            bgi_store(dtype, bgi_output(call, 0), row * length + i,
                      bgi_load(dtype, call->operands[0], row * length + i) * scale * gamma);
        }
        bgi_store(bgi_output_type(call, 1)->dtype, bgi_output(call, 1), row, scale);
    }
}

static double load_gradient(const bg_kernel_call *call, int64_t row, int64_t length, int64_t i)
{
    const bg_dtype dtype = bgi_input_type(call, 1)->dtype;

    return bgi_load(dtype, call->operands[0], row * length + i) *
           (call->input_count > 3 ? bgi_load(dtype, call->operands[3], i) : 1.0);
}

static void differentiate_gamma(const bg_kernel_call *call, int64_t rows, int64_t length)
{
    const bg_dtype dtype = bgi_input_type(call, 1)->dtype, statistics = bgi_input_type(call, 2)->dtype;

    for (int64_t i = 0; i < length; i++) {
        double sum = 0.0;

        for (int64_t row = 0; row < rows; row++)
            sum += bgi_load(dtype, call->operands[0], row * length + i) *
                   bgi_load(dtype, call->operands[1], row * length + i) * bgi_load(statistics, call->operands[2], row);
        bgi_store(dtype, bgi_output(call, 1), i, sum);
    }
}

void bgi_reference_rms_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *type = bgi_input_type(call, 1);
    const bg_dtype dtype = type->dtype, statistics = bgi_input_type(call, 2)->dtype;
    const int64_t length = type->dims[type->rank - 1], rows = bg_type_element_count(type) / length;

    (void)part;
    if (bgi_has_output(call, 1))
        differentiate_gamma(call, rows, length);
    for (int64_t row = 0; row < rows; row++) {
        const double scale = bgi_load(statistics, call->operands[2], row);
        double mean = 0.0;

        for (int64_t i = 0; i < length; i++)
            mean += load_gradient(call, row, length, i) * bgi_load(dtype, call->operands[1], row * length + i) * scale;
        mean /= (double)length;
        for (int64_t i = 0; i < length; i++) {
            const double normed = bgi_load(dtype, call->operands[1], row * length + i) * scale;
            bgi_store(dtype, bgi_output(call, 0), row * length + i,
                      scale * (load_gradient(call, row, length, i) - normed * mean));
        }
    }
}
