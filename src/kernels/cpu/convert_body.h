/*
 * convert_body.h: float32 from and to the other float type that fast kernels take, bfloat16. Kernels compute in float32
 * and convert at their edges.
 */
#ifndef BGI_CPU_CONVERT_BODY_H
#define BGI_CPU_CONVERT_BODY_H

#include "kernels/cpu/simd.h"
#include "kernels/reference/element.h"

static inline void widen(const uint16_t *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = bgi_bfloat16_to_float(from[i]);
}

static inline void narrow(const float *from, int64_t count, uint16_t *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = bgi_bfloat16_from_float(from[i]);
}

/* `count` elements of `data` from `index` on, as float32 in `to`. */
static inline void read_floats(bg_dtype dtype, const void *data, int64_t index, int64_t count, float *to)
{
    if (dtype == BG_FLOAT32)
        memcpy(to, (const float *)data + index, (size_t)count * sizeof(float));
    else
        widen((const uint16_t *)data + index, count, to);
}

static inline void write_floats(bg_dtype dtype, void *data, int64_t index, int64_t count, const float *from)
{
    if (dtype == BG_FLOAT32)
        memcpy((float *)data + index, from, (size_t)count * sizeof(float));
    else
        narrow(from, count, (uint16_t *)data + index);
}

/* The same, added to what stands there when `add` (float32 only: accumulators). */
static inline void put_floats(bool add, bg_dtype dtype, void *data, int64_t index, int64_t count, const float *from)
{
    if (add)
        for (int64_t i = 0; i < count; i++)
            ((float *)data)[index + i] += from[i];
    else
        write_floats(dtype, data, index, count, from);
}

/* As read_floats, but without a copy where none is needed: the floats lie in `data` itself or in `buffer`. */
static inline const float *view_floats(bg_dtype dtype, const void *data, int64_t index, int64_t count, float *buffer)
{
    if (dtype == BG_FLOAT32)
        return (const float *)data + index;
    widen((const uint16_t *)data + index, count, buffer);
    return buffer;
}

#endif
