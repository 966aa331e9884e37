/*
 * fast.h: how interpolation divides its work, and its tables.
 *
 * Each axis has a table with the first of the `taps` neighbors of every element of the result, and their weights. The
 * weights are stored tap by tap, so neighbors in the result are neighbors in the table too. Gradients have tables of
 * the same form in the other direction; neighbors that do not count have weight 0. Tables are computed once for each
 * call.
 *
 * The sums over columns come first, for all rows of a plane, if the operand has fewer rows than the result, the summed
 * rows fit a cache, and there are enough planes for several cores. Otherwise they follow the sum over rows, for one row
 * of the result at a time.
 */
#ifndef BGI_KERNELS_RESAMPLE_FAST_H
#define BGI_KERNELS_RESAMPLE_FAST_H

#include "kernels/cpu/move.h"
#include "kernels/resample/attributes.h"

enum {
    BGI_RESAMPLE_PLANE_FLOATS = 64 * 1024, /* the most floats of rows whose columns come first: they fit a cache */
    BGI_RESAMPLE_FEW_PLANES = 8 /* with fewer planes, planes are divided into rows, so that several cores have work */
};

/* Scratch begins with these, so that the axes are examined once a call. */
typedef struct bgi_resample_head {
    int64_t taps[2];
    int64_t table_floats[2];
    int64_t shared_floats; /* head and tables */
} bgi_resample_head;

enum { BGI_RESAMPLE_HEAD_FLOATS = 16 };
_Static_assert(sizeof(bgi_resample_head) <= BGI_RESAMPLE_HEAD_FLOATS * sizeof(float), "the head of the scratch");

typedef struct bgi_resample {
    bg_dtype dtype;
    int64_t planes, in[2], out[2]; /* sizes of the operand and the result, in either direction */
    bool columns_first;
    int64_t units; /* planes, or rows of the result */
    uint32_t parts;
    int64_t row_floats, middle_floats, out_floats, part_floats;
} bgi_resample;

/* Returns the largest number of neighbors of an element of the result. */
static inline int64_t bgi_resample_most_taps(const bgi_resample_attributes *a, const bgi_resample_axis *axis)
{
    int64_t most = 1, begin = 0;

    if (!a->is_backward) {
        for (int64_t o = 0; o < axis->out; o++) {
            const int64_t count = bgi_resample_taps_of(a, axis, o).count;
            most = count > most ? count : most;
        }
        return most;
    }
    /* Finds the same ranges as bgi_resample_users in one pass: the range of element i ends before the first element
     * that begins after i. */
    for (int64_t i = 0, end = 0; i < axis->in; i++) {
        while (begin < axis->out) {
            const bgi_resample_taps taps = bgi_resample_taps_of(a, axis, begin);
            if (taps.first + taps.count > i)
                break;
            begin++;
        }
        end = end > begin ? end : begin;
        while (end < axis->out && bgi_resample_taps_of(a, axis, end).first <= i)
            end++;
        most = end - begin > most ? end - begin : most;
    }
    return most;
}

static inline bgi_resample_head bgi_resample_head_make(const bgi_resample_attributes *a)
{
    bgi_resample_head head = {.shared_floats = BGI_RESAMPLE_HEAD_FLOATS};

    for (int i = 0; i < 2; i++) {
        head.taps[i] = bgi_resample_most_taps(a, &a->axes[i]);
        head.table_floats[i] =
            bgi_cpu_round_up((a->is_backward ? a->axes[i].in : a->axes[i].out) * (1 + head.taps[i]), 16);
        head.shared_floats += head.table_floats[i];
    }
    return head;
}

static inline bgi_resample bgi_resample_read(const bg_type *x, const bg_type *y, const bgi_resample_attributes *a)
{
    bgi_resample s = {.dtype = x->dtype};

    for (int i = 0; i < 2; i++) {
        s.in[i] = x->dims[x->rank - 2 + (uint32_t)i];
        s.out[i] = y->dims[y->rank - 2 + (uint32_t)i];
    }
    s.planes = bg_type_element_count(y) / (s.out[0] * s.out[1]);
    s.columns_first = !a->axes[1].is_same && s.in[0] < s.out[0] && s.in[0] * s.out[1] <= BGI_RESAMPLE_PLANE_FLOATS &&
                      s.planes >= BGI_RESAMPLE_FEW_PLANES;
    s.units = s.columns_first ? s.planes : s.planes * s.out[0];
    s.parts = bgi_move_parts(s.units, bg_type_size_bytes(x) > bg_type_size_bytes(y) ? x : y);
    s.row_floats = bgi_cpu_round_up(s.in[1], 16);
    s.middle_floats = bgi_cpu_round_up(s.columns_first ? s.in[0] * s.out[1] : s.in[1], 16);
    s.out_floats = bgi_cpu_round_up(s.out[1], 16);
    s.part_floats = s.row_floats + s.middle_floats + s.out_floats;
    return s;
}

#endif
