/*
 * broadcast.h: the index of an element in a broadcast operand, for kernels that broadcast by NumPy's rule.
 */
#ifndef BGI_REFERENCE_BROADCAST_H
#define BGI_REFERENCE_BROADCAST_H

#include <brigade/base.h>

/* Returns the index in `operand` of the element that is broadcast to element `index` of `output`. */
static inline int64_t bgi_broadcast_index(const bg_type *output, const bg_type *operand, int64_t index)
{
    int64_t found = 0, stride = 1;

    for (uint32_t i = 1; i <= operand->rank; i++) {
        const int64_t size = output->dims[output->rank - i];

        if (operand->dims[operand->rank - i] != 1)
            found += index % size * stride;
        index /= size;
        stride *= operand->dims[operand->rank - i];
    }
    return found;
}

#endif
