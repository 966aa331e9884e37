/*
 * reference.c: cumulative sums, in plain C. Floats are added in double and rounded when they are stored.
 */
#include "kernels/axis.h"
#include "kernels/cumulative/attributes.h"
#include "kernels/kernels.h"
#include "kernels/reference/element.h"

static void sum_floats(const bg_kernel_call *call, int64_t first, int64_t step, int64_t count, bool is_exclusive)
{
    const bg_dtype dtype = call->types[0].dtype;
    double sum = 0.0;

    for (int64_t i = 0; i < count; i++) {
        const double x = bgi_load(dtype, call->operands[0], first + i * step);

        bgi_store(dtype, call->operands[1], first + i * step, is_exclusive ? sum : sum + x);
        sum += x;
    }
}

static void sum_integers(const bg_kernel_call *call, int64_t first, int64_t step, int64_t count, bool is_exclusive)
{
    const bg_dtype dtype = call->types[0].dtype;
    uint64_t sum = 0;

    for (int64_t i = 0; i < count; i++) {
        const uint64_t x = (uint64_t)bgi_load_integer(dtype, call->operands[0], first + i * step);

        bgi_store_bits(dtype, call->operands[1], first + i * step, is_exclusive ? sum : sum + x);
        sum += x;
    }
}

void bgi_reference_cumulative_sum(const bg_kernel_call *call, uint32_t part)
{
    const bgi_cumulative_attributes *attributes = call->attributes;
    const bg_type *type = &call->types[0];
    const bgi_axis_view view = bgi_axis_view_make(type, attributes->axis);

    (void)part;
    for (int64_t run = 0; run < view.outer * view.inner; run++) {
        const int64_t begin = run / view.inner * view.size * view.inner + run % view.inner;
        const int64_t first = attributes->is_reverse ? begin + (view.size - 1) * view.inner : begin;
        const int64_t step = attributes->is_reverse ? -view.inner : view.inner;

        (bg_dtype_is_float(type->dtype) ? sum_floats : sum_integers)(call, first, step, view.size,
                                                                     attributes->is_exclusive != 0);
    }
}
