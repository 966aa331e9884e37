/*
 * slice_gradients.c: computes the gradient of a value that is read in slices.
 *
 *     d x[0:2], d x[2:3], d x[5:6] of x[7]     =>     concat(d x[0:2], pad(d x[2:3]), pad(d x[5:6]))
 *
 * Needs: gradients of ranges of one value. Does: sorts them and concatenates those that do not overlap, with zeros
 * where no range reads. Ranges that overlap are in separate concatenations, which are added. Keeps: the sum. Padding
 * each of T slices to the whole and adding them would cost T times the value. For up to JOINED_AT_ONCE slices without
 * overlaps, this pass writes each element at most twice. Zeros are not added to elements, which only affects the sign
 * of zero (adding 0 would turn -0 into 0).
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/reshape/attributes.h"
#include "ops/ops.h"

enum { JOINED_AT_ONCE = 32 };

/* Orders slices by axis, then by start, then by age, the oldest first. */
static int compare_slices(const void *a, const void *b)
{
    const bgi_slice_gradient *first = a, *second = b;

    if (first->axis != second->axis)
        return first->axis < second->axis ? -1 : 1;
    if (first->start != second->start)
        return first->start < second->start ? -1 : 1;
    return first->gradient.id < second->gradient.id ? -1 : first->gradient.id > second->gradient.id;
}

/* Pads the gradient of a range with zeros to the range first .. last - 1. */
static bg_value pad(bg_graph *graph, const bgi_slice_gradient *slice, int64_t first, int64_t last)
{
    bgi_slice_backward_attributes attributes;

    if (slice->start == first && slice->stop == last)
        return slice->gradient;
    memset(&attributes, 0, sizeof attributes); /* also the padding bytes: see bg_op_type */
    attributes.slice.axis = slice->axis;
    attributes.slice.start = slice->start - first;
    attributes.slice.stop = slice->stop - first;
    attributes.slice.step = 1;
    attributes.size = last - first;
    return bg_graph_add(graph, &bgi_op_slice_backward, NULL, &slice->gradient, 1, &attributes, NULL);
}

/* Concatenates values in a tree. */
static bg_value concatenate(bg_graph *graph, bg_value *values, size_t count, uint32_t axis)
{
    while (count > 1) {
        size_t made = 0;
        for (size_t i = 0; i < count; i += JOINED_AT_ONCE) {
            const uint32_t run = (uint32_t)(count - i < JOINED_AT_ONCE ? count - i : JOINED_AT_ONCE);
            values[made++] = run == 1 ? values[i] : bg_concat(graph, NULL, values + i, run, (int32_t)axis);
        }
        count = made;
    }
    return values[0];
}

/* Takes ranges that do not overlap, beginning with the first remaining one, and joins them. */
static bg_value join_set(bg_graph *graph, const bg_type *whole, bgi_slice_gradient *slices, size_t count,
                         bg_value *values)
{
    const bgi_slice_gradient *last = NULL;
    size_t taken = 0;
    int64_t begin = 0;
    uint32_t axis;

    for (size_t i = 0; i <= count; i++) {
        if (i < count &&
            (slices[i].is_taken || (last != NULL && (slices[i].axis != last->axis || slices[i].start < last->stop))))
            continue;
        if (last != NULL) {
            const int64_t end = i < count ? slices[i].start : whole->dims[last->axis];
            values[taken++] = pad(graph, last, begin, end);
            begin = end;
        }
        if (i < count) {
            last = &slices[i];
            slices[i].is_taken = true;
        }
    }
    axis = last->axis;
    return concatenate(graph, values, taken, axis);
}

bg_status bgi_join_slice_gradients(bg_graph *graph, const bg_type *whole, bgi_slice_gradient *slices, size_t count,
                                   size_t *out_count, bg_error *error)
{
    bg_value *values = malloc((2 * count + 1) * sizeof *values), *sets = values + count;
    size_t set_count = 0, first = 0;

    if (values == NULL)
        return bgi_error_memory(error, "gradients of slices", (2 * count + 1) * sizeof *values);
    qsort(slices, count, sizeof *slices, compare_slices);
    for (; first < count; first++)
        if (!slices[first].is_taken)
            sets[set_count++] = join_set(graph, whole, slices + first, count - first, values);
    for (size_t i = 0; i < set_count; i++)
        slices[i].gradient = sets[i];
    free(values);
    *out_count = set_count;
    return bg_graph_check(graph, error);
}
