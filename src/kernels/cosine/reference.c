/*
 * reference.c: the cosine between vectors in plain C.
 */
#include "kernels/cosine/attributes.h"

#include <math.h>

#include "kernels/kernels.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

/* Returns the index of element k of vector `row`. */
static int64_t place_of(const bgi_axis_view *view, int64_t row, int64_t k)
{
    return (row / view->inner * view->size + k) * view->inner + row % view->inner;
}

/* Returns the inverse of a length, given its square; if the length is below epsilon (the squares are compared), the
 * inverse of epsilon with a minus sign. */
static double invert_length(double square, double epsilon)
{
    return square < epsilon * epsilon ? -1.0 / epsilon : 1.0 / sqrt(square);
}

void bgi_reference_cosine(const bg_kernel_call *call, uint32_t part)
{
    const bgi_cosine_attributes *attributes = call->attributes;
    const bg_dtype dtype = bgi_input_type(call, 0)->dtype, out = bgi_output_type(call, 0)->dtype;
    const bgi_axis_view view = bgi_axis_view_make(bgi_input_type(call, 0), attributes->axis);

    (void)part;
    for (int64_t row = 0; row < view.outer * view.inner; row++) {
        double product = 0.0, squares[2] = {0.0, 0.0}, inverse[2];

        for (int64_t k = 0; k < view.size; k++) {
            const double a = bgi_load(dtype, call->operands[0], place_of(&view, row, k));
            const double b = bgi_load(dtype, call->operands[1], place_of(&view, row, k));

            product += a * b;
            squares[0] += a * a;
            squares[1] += b * b;
        }
        for (uint32_t i = 0; i < 2; i++) {
            inverse[i] = invert_length(squares[i], attributes->epsilon);
            bgi_store(out, bgi_output(call, 1 + i), row, inverse[i]);
        }
        bgi_store(out, bgi_output(call, 0), row, product * fabs(inverse[0]) * fabs(inverse[1]));
    }
}

void bgi_reference_cosine_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_cosine_attributes *attributes = call->attributes;
    const bg_dtype dtype = bgi_input_type(call, 1)->dtype, wide = bgi_input_type(call, 0)->dtype;
    const bgi_axis_view view = bgi_axis_view_make(bgi_input_type(call, 1), attributes->axis);

    (void)part;
    for (int64_t row = 0; row < view.outer * view.inner; row++) {
        const double dy = bgi_load(wide, call->operands[0], row), y = bgi_load(wide, call->operands[3], row);
        const double inverse[2] = {bgi_load(wide, call->operands[4], row), bgi_load(wide, call->operands[5], row)};
        const double scale = dy * fabs(inverse[0]) * fabs(inverse[1]);

        for (uint32_t i = 0; i < 2; i++) {
            const double slope = inverse[i] < 0.0 ? 0.0 : dy * y * inverse[i] * inverse[i];

            for (int64_t k = 0; k < view.size; k++) {
                const int64_t at = place_of(&view, row, k);

                bgi_store(dtype, bgi_output(call, i), at,
                          scale * bgi_load(dtype, call->operands[2 - i], at) -
                              slope * bgi_load(dtype, call->operands[1 + i], at));
            }
        }
    }
}
