/*
 * reference.c: elements by index, in plain C. An index outside the axis reads as zero and gets no gradient. Gradients
 * of one element are added in the order of ids.
 */
#include "kernels/index/attributes.h"

#include <stdlib.h>

#include "kernels/kernels.h"
#include "kernels/reference/operands.h"

void bgi_reference_gather(const bg_kernel_call *call, uint32_t part)
{
    const bgi_index_attributes *attributes = call->attributes;
    const bg_type *x = bgi_input_type(call, 0), *ids = bgi_input_type(call, 1);
    const bgi_axis_view view = bgi_axis_view_make(x, attributes->axis);
    const int64_t count = bg_type_element_count(ids);
    const size_t row = (size_t)view.inner * bg_dtype_size_bytes(x->dtype);
    char *to = bgi_output(call, 0);

    (void)part;
    for (int64_t outer = 0; outer < view.outer; outer++)
        for (int64_t i = 0; i < count; i++, to += row) {
            const int64_t place = bgi_index_resolve(ids->dtype, call->operands[1], i, view.size);

            if (place < 0)
                memset(to, 0, row);
            else
                memcpy(to, (const char *)call->operands[0] + (size_t)(outer * view.size + place) * row, row);
        }
}

/* Adds `more` to an element, and rounds the sum to the element's type. */
static void add_element(bg_dtype dtype, void *data, int64_t at, double more)
{
    bgi_store(dtype, data, at, bgi_load(dtype, data, at) + more);
}

static void scatter(const bg_kernel_call *call, bool by_element)
{
    const bgi_index_attributes *attributes = call->attributes;
    const bg_dtype dtype = attributes->whole.dtype, ids = bgi_input_type(call, 1)->dtype;
    const bgi_axis_view view = bgi_axis_view_make(&attributes->whole, attributes->axis);
    const int64_t id_count = bg_type_element_count(bgi_input_type(call, 1));
    const int64_t count = by_element ? id_count / (view.outer * view.inner) : id_count;

    memset(bgi_output(call, 0), 0, bg_type_size_bytes(&attributes->whole));
    for (int64_t e = 0; e < view.outer * count * view.inner; e++) {
        const int64_t row = e / view.inner, outer = row / count;
        const int64_t place = bgi_index_resolve(ids, call->operands[1], by_element ? e : row % count, view.size);

        if (place >= 0)
            add_element(dtype, bgi_output(call, 0), (outer * view.size + place) * view.inner + e % view.inner,
                        bgi_load(dtype, call->operands[0], e));
    }
}

void bgi_reference_scatter(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    scatter(call, false);
}

void bgi_reference_scatter_elements(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    scatter(call, true);
}

void bgi_reference_gather_elements(const bg_kernel_call *call, uint32_t part)
{
    const bgi_index_attributes *attributes = call->attributes;
    const bg_type *x = bgi_input_type(call, 0), *ids = bgi_input_type(call, 1);
    const bgi_axis_view view = bgi_axis_view_make(x, attributes->axis);
    const int64_t count = ids->dims[attributes->axis];
    const size_t size = bg_dtype_size_bytes(x->dtype);
    char *to = bgi_output(call, 0);

    (void)part;
    for (int64_t e = 0; e < view.outer * count * view.inner; e++, to += size) {
        const int64_t place = bgi_index_resolve(ids->dtype, call->operands[1], e, view.size);
        const int64_t outer = e / view.inner / count;

        if (place < 0)
            memset(to, 0, size);
        else
            memcpy(to,
                   (const char *)call->operands[0] +
                       (size_t)((outer * view.size + place) * view.inner + e % view.inner) * size,
                   size);
    }
}

/* Writes 1 at each id and 0 elsewhere; an id outside the classes gives zeros. */
void bgi_reference_one_hot(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *ids = bgi_input_type(call, 0), *y = bgi_output_type(call, 0);
    const int64_t classes = y->dims[y->rank - 1];

    (void)part;
    memset(bgi_output(call, 0), 0, bg_type_size_bytes(y));
    for (int64_t row = 0; row < bg_type_element_count(ids); row++) {
        const int64_t id = bgi_load_integer(ids->dtype, call->operands[0], row);

        if (id >= 0 && id < classes)
            bgi_store(y->dtype, bgi_output(call, 0), row * classes + id, 1.0);
    }
}

/* Returns whether element `a` precedes `b`. The larger (or smaller) element is first, NaN is the largest, and equal
 * elements keep their order. */
static bool comes_first(const bg_kernel_call *call, int64_t row, int64_t a, int64_t b)
{
    const bgi_top_k_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, 0);
    const double of_a = bgi_load(type->dtype, call->operands[0], row + a);
    const double of_b = bgi_load(type->dtype, call->operands[0], row + b);
    const bool a_is_more = of_a > of_b || (of_a != of_a && of_b == of_b);
    const bool b_is_more = of_b > of_a || (of_b != of_b && of_a == of_a);

    if (a_is_more == b_is_more)
        return a < b;
    return attributes->smallest ? b_is_more : a_is_more;
}

/* Inserts each element into the list of the first k elements so far. */
void bgi_reference_top_k(const bg_kernel_call *call, uint32_t part)
{
    const bgi_top_k_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, 0);
    const int64_t columns = type->dims[type->rank - 1], rows = bg_type_element_count(type) / columns;
    int32_t *numbers = bgi_output(call, 1);

    (void)part;
    for (int64_t row = 0; row < rows; row++, numbers += attributes->k) {
        int64_t found = 0;

        for (int64_t column = 0; column < columns; column++) {
            int64_t at = found;

            while (at > 0 && comes_first(call, row * columns, column, numbers[at - 1]))
                at--;
            if (at == attributes->k)
                continue;
            found += found < attributes->k;
            memmove(numbers + at + 1, numbers + at, (size_t)(found - 1 - at) * sizeof *numbers);
            numbers[at] = (int32_t)column;
        }
        for (int64_t i = 0; i < attributes->k; i++)
            bgi_store(type->dtype, bgi_output(call, 0), row * attributes->k + i,
                      bgi_load(type->dtype, call->operands[0], row * columns + numbers[i]));
    }
}
