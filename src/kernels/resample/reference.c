/*
 * reference.c: interpolation and its gradient element by element, in plain C. Sums run over rows, then columns, in
 * index order.
 */
#include "kernels/kernels.h"
#include "kernels/reference/element.h"
#include "kernels/resample/attributes.h"

/* The elements begin..end - 1 along an axis, of which an element of the result is the weighted sum. */
typedef struct sources {
    int64_t begin, end;
} sources;

static sources find_sources(const bgi_resample_attributes *a, int axis, int64_t at)
{
    sources found;

    if (a->is_backward) {
        bgi_resample_users(a, &a->axes[axis], at, &found.begin, &found.end);
    } else {
        const bgi_resample_taps taps = bgi_resample_taps_of(a, &a->axes[axis], at);
        found = (sources){taps.first, taps.first + taps.count};
    }
    return found;
}

/* Returns the weight of element `from` in element `to`. */
static double find_share(const bgi_resample_attributes *a, int axis, int64_t from, int64_t to)
{
    const bgi_resample_taps taps = bgi_resample_taps_of(a, &a->axes[axis], a->is_backward ? from : to);
    const int64_t k = (a->is_backward ? to : from) - taps.first;

    return k >= 0 && k < taps.count ? bgi_resample_weight(&taps, k) : 0.0;
}

void bgi_reference_resample(const bg_kernel_call *call, uint32_t part)
{
    const bgi_resample_attributes *a = call->attributes;
    const bg_type *from = &call->types[0], *to = &call->types[1];
    const int64_t h = to->dims[to->rank - 2], w = to->dims[to->rank - 1], from_w = from->dims[from->rank - 1];
    const int64_t from_plane = from->dims[from->rank - 2] * from_w, planes = bg_type_element_count(to) / (h * w);

    (void)part;
    for (int64_t row = 0; row < h; row++) {
        const sources rows = find_sources(a, 0, row);

        for (int64_t column = 0; column < w; column++) {
            const sources columns = find_sources(a, 1, column);

            for (int64_t plane = 0; plane < planes; plane++) {
                double sum = 0.0;

                for (int64_t i = rows.begin; i < rows.end; i++)
                    for (int64_t j = columns.begin; j < columns.end; j++)
                        sum += find_share(a, 0, i, row) * find_share(a, 1, j, column) *
                               bgi_load(from->dtype, call->operands[0], plane * from_plane + i * from_w + j);
                bgi_store(to->dtype, call->operands[1], (plane * h + row) * w + column, sum);
            }
        }
    }
}
