/*
 * fast.h: how elementwise kernels divide their work, and how broadcast operands are read.
 */
#ifndef BGI_KERNELS_ELEMENTWISE_FAST_H
#define BGI_KERNELS_ELEMENTWISE_FAST_H

#include "kernels/cpu/variant.h"
#include "kernels/elementwise/attributes.h"

enum {
    BGI_ELEMENTWISE_GRAIN = 64,   /* elements whose numbers are multiples of it begin a cache line in every type */
    BGI_ELEMENTWISE_PART = 12288, /* approximate number of elements in a part */
    BGI_ELEMENTWISE_CHUNK = 512   /* elements that are processed together: buffers fit the first-level cache */
};

static inline uint32_t bgi_elementwise_parts(int64_t count)
{
    return bgi_cpu_part_count((count + BGI_ELEMENTWISE_GRAIN - 1) / BGI_ELEMENTWISE_GRAIN, (double)count,
                              BGI_ELEMENTWISE_PART);
}

/* Returns the first element of part `part`; part `parts` begins at the end. */
static inline int64_t bgi_elementwise_start(int64_t count, uint32_t part)
{
    const int64_t grains = (count + BGI_ELEMENTWISE_GRAIN - 1) / BGI_ELEMENTWISE_GRAIN;
    const int64_t start = bgi_cpu_part_start(grains, part, bgi_elementwise_parts(count)) * BGI_ELEMENTWISE_GRAIN;

    return start < count ? start : count;
}

/* Sets the parts of a kernel over the elements of `type`. */
static inline bool bgi_elementwise_take(bg_kernel *kernel, const bg_type *type)
{
    kernel->part_count = bgi_elementwise_parts(bg_type_element_count(type));
    return true;
}

/* Sets the parts and the scratch of a kernel whose parts each store `numbers` doubles; returns false if the element
 * type is not supported. */
static inline bool bgi_elementwise_take_statistic(const bgi_kernel_request *request, size_t numbers, bg_kernel *kernel)
{
    if (!bgi_dtype_is_single(request->types[0].dtype) || !bgi_elementwise_take(kernel, &request->types[0]))
        return false;
    kernel->scratch_bytes = kernel->part_count * numbers * sizeof(double);
    return true;
}

/* These two functions compute one element of a function and of its gradient in double, for plain kernels, and for fast
 * kernels if a function has no vector form. */
double bgi_unary_value(const bgi_unary_attributes *attributes, double x);
double bgi_unary_gradient(const bgi_unary_attributes *attributes, double dy, double x, double y);

/* How outputs read an operand: output element i reads element (i / run) % count. */
typedef struct bgi_broadcast_view {
    int64_t run, count;
} bgi_broadcast_view;

/* Returns false if the operand broadcasts along a dim between dims that it has, such as [4, 1, 8] to [4, 3, 8]. */
static inline bool bgi_broadcast_view_make(const bg_type *output, const bg_type *operand, bgi_broadcast_view *out)
{
    int64_t run = 1, count = 1;
    int phase = 0; /* trailing dims that repeat, then dims that are read, then leading dims that repeat */

    for (uint32_t back = 1; back <= output->rank; back++) {
        const int64_t size = output->dims[output->rank - back];
        const int64_t own = back <= operand->rank ? operand->dims[operand->rank - back] : 1;

        if (size == 1)
            continue;
        if (own == 1) {
            phase = phase == 1 ? 2 : phase;
            run *= phase == 0 ? size : 1;
        } else {
            if (phase == 2)
                return false;
            phase = 1;
            count *= size;
        }
    }
    *out = (bgi_broadcast_view){run, count};
    return true;
}

#endif
