/*
 * attributes.h: the operands and attributes of interpolation, and the elements from which each element of a result is
 * computed. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_RESAMPLE_ATTRIBUTES_H
#define BGI_KERNELS_RESAMPLE_ATTRIBUTES_H

#include <brigade/ops.h>

#include <math.h>

/* RESAMPLE  x [.., H, W] -> y [.., OH, OW]; with is_backward dy [.., OH, OW] -> dx [.., H, W] */
typedef struct bgi_resample_axis {
    int64_t in, out; /* sizes of x and y */
    double scale;    /* positions are divided by this scale; 0: exactly out / in */
    uint8_t is_same; /* this axis does not change; in = out */
} bgi_resample_axis;

typedef struct bgi_resample_attributes {
    bg_interpolation mode;
    bg_coordinates coordinates;
    bg_nearest nearest;
    double cubic; /* the coefficient */
    bgi_resample_axis axes[2];
    uint8_t is_backward;
} bgi_resample_attributes;

enum { BGI_RESAMPLE_WEIGHTS = 4 };

/* An element of y is the weighted sum of `count` neighbors in x from `first` on; more than four neighbors are averaged.
 */
typedef struct bgi_resample_taps {
    int64_t first, count;
    double weights[BGI_RESAMPLE_WEIGHTS];
} bgi_resample_taps;

static inline double bgi_resample_weight(const bgi_resample_taps *taps, int64_t k)
{
    return taps->count > BGI_RESAMPLE_WEIGHTS ? 1.0 / (double)taps->count : taps->weights[k];
}

/* Returns the position in x of element `at` of y: 0 is the middle of x's first element. */
static inline double bgi_resample_position(const bgi_resample_attributes *a, const bgi_resample_axis *axis, int64_t at)
{
    const double in = (double)axis->in, out = (double)axis->out, o = (double)at;

    if (a->coordinates == BG_COORDINATES_ALIGN_CORNERS)
        return axis->out > 1 ? o * (in - 1.0) / (out - 1.0) : 0.0;
    if (a->coordinates == BG_COORDINATES_PYTORCH_HALF_PIXEL && axis->out == 1)
        return 0.0;
    if (a->coordinates == BG_COORDINATES_ASYMMETRIC)
        return axis->scale > 0.0 ? o / axis->scale : o * in / out;
    return (axis->scale > 0.0 ? (o + 0.5) / axis->scale : (o + 0.5) * in / out) - 0.5;
}

static inline double bgi_resample_round(bg_nearest nearest, double position)
{
    return nearest == BG_NEAREST_FLOOR          ? floor(position)
           : nearest == BG_NEAREST_CEIL         ? ceil(position)
           : nearest == BG_NEAREST_PREFER_FLOOR ? ceil(position - 0.5)
                                                : floor(position + 0.5);
}

static inline double bgi_resample_clamp(double position, int64_t size)
{
    return position < 0.0 ? 0.0 : position > (double)(size - 1) ? (double)(size - 1) : position;
}

/* Returns the weights of the four neighbors of a position that is at a distance of t after the second neighbor (Keys,
 * 1981); the edge element replaces neighbors outside the axis. */
static inline bgi_resample_taps bgi_resample_cubic(double a, double floor_at, double t, int64_t size)
{
    const double u = 1.0 - t;
    const double weights[] = {((a * (t + 1.0) - 5.0 * a) * (t + 1.0) + 8.0 * a) * (t + 1.0) - 4.0 * a,
                              ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0, ((a + 2.0) * u - (a + 3.0)) * u * u + 1.0,
                              ((a * (u + 1.0) - 5.0 * a) * (u + 1.0) + 8.0 * a) * (u + 1.0) - 4.0 * a};
    bgi_resample_taps taps = {.first = (int64_t)bgi_resample_clamp(floor_at - 1.0, size)};

    for (int k = 0; k < 4; k++) {
        const int64_t place = (int64_t)bgi_resample_clamp(floor_at - 1.0 + k, size) - taps.first;

        taps.weights[place] += weights[k];
        taps.count = place + 1;
    }
    return taps;
}

static inline bgi_resample_taps bgi_resample_taps_of(const bgi_resample_attributes *a, const bgi_resample_axis *axis,
                                                     int64_t at)
{
    bgi_resample_taps taps = {.first = at, .count = 1, .weights = {1.0}};
    double position, floor_at;

    if (axis->is_same)
        return taps;
    if (a->mode == BG_INTERPOLATE_AREA) {
        taps.first = at * axis->in / axis->out;
        taps.count = ((at + 1) * axis->in + axis->out - 1) / axis->out - taps.first;
        for (int64_t k = 0; k < BGI_RESAMPLE_WEIGHTS; k++)
            taps.weights[k] = 1.0 / (double)taps.count;
        return taps;
    }
    position = bgi_resample_position(a, axis, at);
    if (a->mode == BG_INTERPOLATE_NEAREST) {
        taps.first = (int64_t)bgi_resample_clamp(bgi_resample_round(a->nearest, position), axis->in);
        return taps;
    }
    if (a->mode == BG_INTERPOLATE_CUBIC) {
        floor_at = floor(position);
        return bgi_resample_cubic(a->cubic, floor_at, position - floor_at, axis->in);
    }
    position = bgi_resample_clamp(position, axis->in);
    floor_at = floor(position);
    taps.first = (int64_t)floor_at;
    if (taps.first + 1 < axis->in) {
        taps.count = 2;
        taps.weights[0] = 1.0 - (position - floor_at);
        taps.weights[1] = position - floor_at;
    }
    return taps;
}

/* Finds a range *begin..*end - 1 of elements of y that includes all elements computed from element `at` of x. Positions
 * in x ascend with those in y. */
static inline void bgi_resample_users(const bgi_resample_attributes *a, const bgi_resample_axis *axis, int64_t at,
                                      int64_t *begin, int64_t *end)
{
    *begin = *end = 0;
    for (int64_t o = 0; o < axis->out; o++) {
        const bgi_resample_taps taps = bgi_resample_taps_of(a, axis, o);

        if (taps.first + taps.count <= at)
            *begin = o + 1;
        if (taps.first <= at)
            *end = o + 1;
    }
    *end = *end > *begin ? *end : *begin;
}

#endif
