/*
 * axis.h: a view of a tensor along one of its axes.
 */
#ifndef BGI_KERNELS_AXIS_H
#define BGI_KERNELS_AXIS_H

#include <brigade/base.h>

/* [outer, size, inner]: the dims before the axis, the axis, and the dims after it. */
typedef struct bgi_axis_view {
    int64_t outer, size, inner;
} bgi_axis_view;

static inline bgi_axis_view bgi_axis_view_make(const bg_type *type, uint32_t axis)
{
    bgi_axis_view view = {.outer = 1, .size = type->dims[axis], .inner = 1};

    for (uint32_t i = 0; i < type->rank; i++) {
        view.outer *= i < axis ? type->dims[i] : 1;
        view.inner *= i > axis ? type->dims[i] : 1;
    }
    return view;
}

#endif
