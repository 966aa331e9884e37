/*
 * fast.h: the geometry of poolings, and how they divide their work.
 */
#ifndef BGI_KERNELS_POOL_FAST_H
#define BGI_KERNELS_POOL_FAST_H

#include "kernels/cpu/move.h"
#include "kernels/pool/attributes.h"

/* Planes are the N x C images of H x W. Scratch of a part, in floats: a plane of x and of y unless they are float32,
 * then three rows. */
typedef struct bgi_pool {
    bg_dtype dtype;
    int64_t planes, h, w, oh, ow;
    bool is_whole; /* one window covers the plane */
    bool is_adaptive;
    const bg_pool2d_options *options;
    uint32_t parts;
    int64_t in_floats, out_floats, row_floats, part_floats;
} bgi_pool;

static inline bgi_pool bgi_pool_read(const bg_type *x, const bg_type *y, const bgi_pool2d_attributes *attributes)
{
    const bg_pool2d_options *o = &attributes->options;
    bgi_pool s = {.dtype = x->dtype,
                  .planes = x->dims[0] * x->dims[1],
                  .h = x->dims[2],
                  .w = x->dims[3],
                  .oh = y->dims[2],
                  .ow = y->dims[3],
                  .is_adaptive = attributes->sizes[0] > 0,
                  .options = o};

    s.is_whole = s.oh == 1 && s.ow == 1 && o->kernel[0] == s.h && o->kernel[1] == s.w && o->padding[0] == 0 &&
                 o->padding[1] == 0;
    s.parts = bgi_move_parts(s.planes, x);
    s.in_floats = s.dtype == BG_FLOAT32 ? 0 : bgi_cpu_round_up(s.h * s.w, 16);
    s.out_floats = s.dtype == BG_FLOAT32 ? 0 : bgi_cpu_round_up(s.oh * s.ow, 16);
    s.row_floats = bgi_cpu_round_up(s.w > s.ow ? s.w : s.ow, 16);
    s.part_floats = s.in_floats + s.out_floats + 3 * s.row_floats;
    return s;
}

#endif
