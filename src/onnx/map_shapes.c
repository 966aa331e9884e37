/*
 * map_shapes.c: maps reshapes, slices, joins and padding. Shapes are known when a graph is built, so nodes that read a
 * shape fold to constants, and so do nodes that compute with it. Tensors without elements exist only here, as known
 * values.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SHAPE_NUMBERS = 64 };

/* ---- the same elements under another shape ---- */

static bool relabel(bgi_mapper *m, uint32_t rank, const int64_t *dims)
{
    const bgi_tensor *known = bgi_map_if_known(m, 0);

    if (known != NULL) {
        bgi_tensor *made = bgi_map_make(m, known->element, rank, dims);

        if (made == NULL)
            return false;
        if (made->count != known->count)
            return bgi_map_refuse(m, "input 0 has %" PRId64 " elements but the shape has %" PRId64, known->count,
                                  made->count);
        memcpy(made->data, known->data, (size_t)made->count * bg_dtype_size_bytes(made->dtype));
        return bgi_map_out_known(m, 0, made);
    }
    if (rank > BG_MAX_RANK)
        return bgi_map_refuse(m, "the result has %u dimensions but at most %d are possible", rank, BG_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] < 1)
            return bgi_map_refuse(m, "dimension %u of the result is %" PRId64 " but must be at least 1", i, dims[i]);
    return bgi_map_out(m, 0, bgi_map_reshape(m, bgi_map_in(m, 0), rank, dims));
}

static bool map_reshape(bgi_mapper *m)
{
    const bool allows_zero = bgi_map_int(m, "allowzero", 0) != 0;
    int64_t x[BGI_ONNX_MAX_RANK], dims[BGI_ONNX_MAX_RANK], all = 1, said = 1;
    uint32_t rank, count, open = UINT32_MAX;

    if (!bgi_map_shape(m, 0, &rank, x) || !bgi_map_known_ints(m, 1, dims, &count, BGI_ONNX_MAX_RANK))
        return false;
    for (uint32_t i = 0; i < rank; i++)
        all *= x[i];
    for (uint32_t i = 0; i < count; i++) {
        if (dims[i] == 0 && !allows_zero) {
            if (i >= rank)
                return bgi_map_refuse(m, "input 1 has 0 at %u but x has %u dimensions", i, rank);
            dims[i] = x[i];
        }
        if (dims[i] == -1 && open == UINT32_MAX)
            open = i;
        else if (dims[i] < 0 || (dims[i] > 0 && said > INT64_MAX / dims[i]))
            return bgi_map_refuse(m, "input 1 has %" PRId64 " at %u; it must have sizes, and -1 at most once", dims[i],
                                  i);
        else
            said *= dims[i];
    }
    if (open != UINT32_MAX) {
        if (said == 0 || all % said != 0)
            return bgi_map_refuse(
                m, "input 1 leaves one dimension open: %" PRId64 " does not divide %" PRId64 " elements", said, all);
        dims[open] = all / said;
    } else if (said != all) {
        return bgi_map_refuse(m, "input 1 requests %" PRId64 " elements but x has %" PRId64, said, all);
    }
    return relabel(m, count, dims);
}

static bool map_flatten(bgi_mapper *m)
{
    int64_t x[BGI_ONNX_MAX_RANK], dims[2] = {1, 1};
    uint32_t rank;
    int32_t axis;

    if (!bgi_map_shape(m, 0, &rank, x) || !bgi_map_axis(m, bgi_map_int(m, "axis", 1), rank, true, &axis))
        return false;
    for (uint32_t i = 0; i < rank; i++)
        dims[(int32_t)i >= axis] *= x[i];
    return relabel(m, 2, dims);
}

static bool map_squeeze(bgi_mapper *m)
{
    int64_t x[BGI_ONNX_MAX_RANK], axes[BGI_ONNX_MAX_RANK], dims[BGI_ONNX_MAX_RANK];
    uint32_t rank, count, made = 0, gone = 0;

    if (!bgi_map_shape(m, 0, &rank, x) || !bgi_map_ints_of(m, "axes", 12, 1, axes, &count, BGI_ONNX_MAX_RANK))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;

        if (!bgi_map_axis(m, axes[i], rank, false, &axis))
            return false;
        if (x[axis] != 1)
            return bgi_map_refuse(m, "axis %d has size %" PRId64 " but must have size 1", axis, x[axis]);
        gone |= 1u << axis;
    }
    for (uint32_t i = 0; i < rank; i++)
        if (count > 0 ? (gone >> i & 1) == 0 : x[i] != 1)
            dims[made++] = x[i];
    return relabel(m, made, dims);
}

static bool map_unsqueeze(bgi_mapper *m)
{
    int64_t x[BGI_ONNX_MAX_RANK], axes[BGI_ONNX_MAX_RANK], dims[BGI_ONNX_MAX_RANK];
    uint32_t rank, count, added = 0, from = 0;

    if (!bgi_map_shape(m, 0, &rank, x) || !bgi_map_ints_of(m, "axes", 12, 1, axes, &count, BGI_ONNX_MAX_RANK))
        return false;
    if (rank + count > BGI_ONNX_MAX_RANK)
        return bgi_map_refuse(m, "the result has %u dimensions but at most %d are possible", rank + count,
                              BGI_ONNX_MAX_RANK);
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;

        if (!bgi_map_axis(m, axes[i], rank + count, false, &axis))
            return false;
        if ((added >> axis & 1) != 0)
            return bgi_map_refuse(m, "axis %d is named twice", axis);
        added |= 1u << axis;
    }
    for (uint32_t i = 0; i < rank + count; i++)
        dims[i] = (added >> i & 1) != 0 ? 1 : x[from++];
    return relabel(m, rank + count, dims);
}

/* ---- moved elements ---- */

static bool map_transpose(bgi_mapper *m)
{
    int64_t order[BG_MAX_RANK];
    uint32_t permutation[BG_MAX_RANK], seen = 0;
    const uint32_t count = bgi_map_ints(m, "perm", order, BG_MAX_RANK);
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);

    if (bg_value_is_null(x) || m->reason[0] != '\0')
        return false;
    if (bgi_map_has(m, "perm") && count != type.rank)
        return bgi_map_refuse(m, "attribute `perm` has %u numbers but x has %u dimensions", count, type.rank);
    for (uint32_t i = 0; i < type.rank; i++) {
        const int64_t from = bgi_map_has(m, "perm") ? order[i] : (int64_t)(type.rank - 1 - i);

        if (from < 0 || from >= type.rank || (seen >> from & 1) != 0)
            return bgi_map_refuse(m, "attribute `perm` has %" PRId64 " at %u; it must have each number below %u once",
                                  from, i, type.rank);
        seen |= 1u << from;
        permutation[i] = (uint32_t)from;
    }
    if (type.rank < 2)
        return bgi_map_pass(m);
    if (type.rank == 2 && permutation[0] == 1 && !m->is_folding && bgi_map_is_variable(m, x)) {
        m->results[0].kind = BGI_ITEM_TRANSPOSE;
        m->results[0].element = bgi_map_element(m, 0);
        m->results[0].transpose_of = x;
        return true;
    }
    return bgi_map_out(m, 0, bg_transpose(m->graph, m->name, x, permutation));
}

static bool map_concat(bgi_mapper *m)
{
    enum { AT_ONCE = 60 };
    bg_value values[AT_ONCE], sum = {0};
    uint32_t count = 0, rank = 0;
    int64_t dims[BGI_ONNX_MAX_RANK];
    int32_t axis;

    if (m->input_count < 1 || !bgi_map_shape(m, 0, &rank, dims) ||
        !bgi_map_axis(m, bgi_map_int(m, "axis", 1), rank, false, &axis))
        return bgi_map_refuse(m, "it takes at least one operand");
    for (uint32_t i = 0; i < m->input_count; i++) {
        const bgi_tensor *known = bgi_map_if_known(m, i);

        if (known == NULL || known->count > 0) {
            values[count++] = bgi_map_in(m, i);
            if (bg_value_is_null(values[count - 1]))
                return bgi_map_refuse(m, "input %u is missing", i);
        }
        if (count == AT_ONCE || (i + 1 == m->input_count && count > 0)) {
            sum = count == 1 ? values[0] : bg_concat(m->graph, m->name, values, count, axis);
            values[0] = sum;
            count = 1;
        }
    }
    if (bg_value_is_null(sum) && bgi_map_is_well(m)) { /* all operands are empty */
        dims[axis] = 0;
        for (uint32_t i = 0; i < m->input_count; i++)
            dims[axis] += bgi_map_if_known(m, i)->dims[axis];
        return bgi_map_out_known(m, 0, bgi_map_make(m, bgi_map_element(m, 0), rank, dims));
    }
    return bgi_map_out(m, 0, sum);
}

static bool map_split(bgi_mapper *m)
{
    int64_t sizes[SHAPE_NUMBERS], start = 0, dim;
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    uint32_t count;
    int32_t axis;

    if (bg_value_is_null(x) || !bgi_map_axis(m, bgi_map_int(m, "axis", 0), type.rank, false, &axis) ||
        !bgi_map_ints_of(m, "split", 12, 1, sizes, &count, SHAPE_NUMBERS))
        return false;
    dim = type.dims[axis];
    if (count == 0) {
        const int64_t part = (dim + m->result_count - 1) / m->result_count;

        if (m->result_count > SHAPE_NUMBERS)
            return bgi_map_refuse(m, "it has %u parts but at most %d are possible", m->result_count, SHAPE_NUMBERS);
        for (count = 0; count < m->result_count; count++)
            sizes[count] = count + 1 < m->result_count ? part : dim - part * (m->result_count - 1);
    }
    if (count != m->result_count)
        return bgi_map_refuse(m, "it has %u sizes for %u parts", count, m->result_count);
    for (uint32_t i = 0; i < count; start += sizes[i++]) {
        if (sizes[i] < 1 || sizes[i] > dim - start)
            return bgi_map_refuse(m, "part %u has size %" PRId64 " but must have 1 to %" PRId64 " elements", i,
                                  sizes[i], dim - start);
        if (!bgi_map_out(m, i, bg_slice(m->graph, i == 0 ? m->name : NULL, x, axis, start, start + sizes[i], 1)))
            return false;
    }
    return start == dim ||
           bgi_map_refuse(m, "the parts have %" PRId64 " elements but the axis has %" PRId64, start, dim);
}

/* Takes the elements at first + i * step along an axis, for each i below `count`; `step` may be below 0. */
static bg_value take(bgi_mapper *m, bg_value x, int32_t axis, int64_t first, int64_t count, int64_t step)
{
    const int64_t dim = bgi_map_type(m, x).dims[axis];

    if (step < 0) {
        x = bg_flip(m->graph, NULL, x, axis);
        first = dim - 1 - first;
        step = -step;
    }
    return first == 0 && count == dim && step == 1
               ? x
               : bg_slice(m->graph, m->name, x, axis, first, first + (count - 1) * step + 1, step);
}

static int64_t clip(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static bool map_slice(bgi_mapper *m)
{
    int64_t starts[BGI_ONNX_MAX_RANK], ends[BGI_ONNX_MAX_RANK], axes[BGI_ONNX_MAX_RANK], steps[BGI_ONNX_MAX_RANK];
    int64_t dims[BGI_ONNX_MAX_RANK], first[BGI_ONNX_MAX_RANK], counts[BGI_ONNX_MAX_RANK], by[BGI_ONNX_MAX_RANK];
    uint32_t rank, count, end_count, axis_count, step_count = 0, seen = 0;
    bool is_empty = false;
    bg_value x;

    if (!bgi_map_shape(m, 0, &rank, dims) || !bgi_map_ints_of(m, "starts", 9, 1, starts, &count, BGI_ONNX_MAX_RANK) ||
        !bgi_map_ints_of(m, "ends", 9, 2, ends, &end_count, BGI_ONNX_MAX_RANK) ||
        !bgi_map_ints_of(m, "axes", 9, 3, axes, &axis_count, BGI_ONNX_MAX_RANK) ||
        (m->opset > 9 && !bgi_map_ints_of(m, "", 9, 4, steps, &step_count, BGI_ONNX_MAX_RANK)))
        return false;
    if (count != end_count || (axis_count != 0 && axis_count != count) || (step_count != 0 && step_count != count) ||
        count > rank)
        return bgi_map_refuse(m, "it has %u starts, %u ends, %u axes and %u steps for %u dimensions", count, end_count,
                              axis_count, step_count, rank);
    for (uint32_t i = 0; i < rank; i++) {
        first[i] = 0;
        counts[i] = dims[i];
        by[i] = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t start = starts[i], end = ends[i], step = step_count > 0 ? steps[i] : 1, dim;
        int32_t axis = (int32_t)i;

        if (axis_count > 0 && !bgi_map_axis(m, axes[i], rank, false, &axis))
            return false;
        if (step == 0 || step == INT64_MIN || (seen >> axis & 1) != 0)
            return bgi_map_refuse(m, "axis %d is named twice, or its step is %" PRId64, axis, step);
        seen |= 1u << axis;
        dim = dims[axis];
        start = start < 0 ? start + dim : start;
        end = end < 0 ? (end < -dim ? -1 : end + dim) : end;
        if (ends[i] < 0 && step > 0 && end < 0)
            end = 0;
        start = step > 0 ? clip(start, 0, dim) : clip(start, 0, dim - 1);
        end = step > 0 ? clip(end, 0, dim) : clip(end, -1, dim - 1);
        first[axis] = start;
        by[axis] = step;
        counts[axis] = step > 0 ? (end > start ? (end - start - 1) / step + 1 : 0)
                                : (start > end ? (start - end - 1) / -step + 1 : 0);
        is_empty = is_empty || counts[axis] == 0;
    }
    for (uint32_t i = 0; i < rank; i++)
        is_empty = is_empty || counts[i] == 0;
    if (is_empty)
        return bgi_map_if_known(m, 0) != NULL
                   ? bgi_map_out_known(m, 0, bgi_map_make(m, bgi_map_element(m, 0), rank, counts))
                   : bgi_map_refuse(m, "the result has no elements");
    x = bgi_map_in(m, 0);
    for (uint32_t i = 0; i < rank && !bg_value_is_null(x); i++)
        x = take(m, x, (int32_t)i, first[i], counts[i], by[i]);
    return bgi_map_out(m, 0, x);
}

/* ---- repeated elements ---- */

static bool map_expand(bgi_mapper *m)
{
    int64_t x[BGI_ONNX_MAX_RANK], wanted[BGI_ONNX_MAX_RANK], dims[BGI_ONNX_MAX_RANK];
    uint32_t rank, count, made;
    bool is_empty = false, is_same;

    if (!bgi_map_shape(m, 0, &rank, x) || !bgi_map_known_ints(m, 1, wanted, &count, BGI_ONNX_MAX_RANK))
        return false;
    made = rank > count ? rank : count;
    is_same = made == rank;
    for (uint32_t i = 0; i < made; i++) {
        const int64_t a = i + rank >= made ? x[i + rank - made] : 1,
                      b = i + count >= made ? wanted[i + count - made] : 1;

        if (a != b && a != 1 && b != 1)
            return bgi_map_refuse(m, "dimension %u is %" PRId64 ": it cannot be %" PRId64, i, a, b);
        dims[i] = a == 1 ? b : a;
        is_same = is_same && dims[i] == a;
        is_empty = is_empty || dims[i] == 0;
    }
    if (is_empty && bgi_map_if_known(m, 0) != NULL)
        return bgi_map_out_known(m, 0, bgi_map_make(m, bgi_map_element(m, 0), made, dims));
    if (is_same)
        return bgi_map_pass(m);
    if (made > BG_MAX_RANK || is_empty)
        return bgi_map_refuse(m, "the result has no elements, or more than %d dimensions", BG_MAX_RANK);
    return bgi_map_out(m, 0, bg_broadcast(m->graph, m->name, bgi_map_in(m, 0), made, dims));
}

static bool map_tile(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    int64_t times[BG_MAX_RANK];
    uint32_t count;

    if (bg_value_is_null(x) || !bgi_map_known_ints(m, 1, times, &count, BG_MAX_RANK))
        return false;
    if (count != bgi_map_type(m, x).rank)
        return bgi_map_refuse(m, "input 1 has %u numbers but x has %u dimensions", count, bgi_map_type(m, x).rank);
    for (uint32_t i = 0; i < count; i++)
        if (times[i] < 1)
            return bgi_map_refuse(m, "input 1 has %" PRId64 " at %u but must have at least 1", times[i], i);
    return bgi_map_out(m, 0, bg_tile(m->graph, m->name, x, times));
}

static bool map_pad(bgi_mapper *m)
{
    int64_t pads[2 * BG_MAX_RANK], axes[BG_MAX_RANK], before[BG_MAX_RANK] = {0}, after[BG_MAX_RANK] = {0};
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    double value = bgi_map_real(m, "value", 0.0);
    bg_pad_mode mode = BG_PAD_CONSTANT;
    uint32_t count, axis_count = 0;

    if (bg_value_is_null(x) || !bgi_map_ints_of(m, "pads", 10, 1, pads, &count, 2 * BG_MAX_RANK))
        return false;
    if (bgi_map_text_is(m, "mode", "reflect", false))
        mode = BG_PAD_REFLECT;
    else if (bgi_map_text_is(m, "mode", "edge", false))
        mode = BG_PAD_REPLICATE;
    else if (bgi_map_text_is(m, "mode", "wrap", false))
        mode = BG_PAD_CIRCULAR;
    else if (!bgi_map_text_is(m, "mode", "constant", true))
        return bgi_map_refuse(m, "attribute `mode` must be constant, reflect, edge or wrap");
    if (m->opset > 10 && mode == BG_PAD_CONSTANT && bgi_map_given(m, 2) && bgi_map_known(m, 2) != NULL &&
        bgi_map_known(m, 2)->count > 0 && !bgi_map_known_real(m, 2, &value))
        return false;
    if (m->opset > 17 && bgi_map_given(m, 3) && !bgi_map_known_ints(m, 3, axes, &axis_count, BG_MAX_RANK))
        return false;
    if (m->reason[0] != '\0')
        return false;
    if (axis_count == 0)
        for (axis_count = 0; axis_count < type.rank; axis_count++)
            axes[axis_count] = axis_count;
    if (count != 2 * axis_count)
        return bgi_map_refuse(m, "padding has %u numbers for %u axes; each axis needs two", count, axis_count);
    for (uint32_t i = 0; i < axis_count; i++) {
        int32_t axis;

        if (!bgi_map_axis(m, axes[i], type.rank, false, &axis))
            return false;
        before[axis] = pads[i];
        after[axis] = pads[i + axis_count];
    }
    return bgi_map_out(m, 0, bg_pad(m->graph, m->name, x, mode, before, after, value));
}

/* ---- channels and positions ---- */

static bool map_depth_to_space(bgi_mapper *m)
{
    const bool is_crd = bgi_map_text_is(m, "mode", "CRD", false);
    const int64_t block = bgi_map_int(m, "blocksize", 0);
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    const uint32_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};
    int64_t channels;
    bg_value y;

    if (bg_value_is_null(x))
        return false;
    if (type.rank != 4 || block < 1 || block > type.dims[1] || type.dims[1] % (block * block) != 0)
        return bgi_map_refuse(
            m, "attribute `blocksize` is %" PRId64 "; its square must divide the channels of an x of 4 dimensions",
            block);
    channels = type.dims[1] / (block * block);
    y = is_crd ? bgi_map_reshape(m, x, 6,
                                 (const int64_t[]){type.dims[0], channels, block, block, type.dims[2], type.dims[3]})
               : bgi_map_reshape(m, x, 6,
                                 (const int64_t[]){type.dims[0], block, block, channels, type.dims[2], type.dims[3]});
    y = bg_transpose(m->graph, m->name, y, is_crd ? crd : dcr);
    return bgi_map_out(
        m, 0,
        bgi_map_reshape(m, y, 4,
                        (const int64_t[]){type.dims[0], channels, type.dims[2] * block, type.dims[3] * block}));
}

static bool map_space_to_depth(bgi_mapper *m)
{
    const int64_t block = bgi_map_int(m, "blocksize", 0);
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    const uint32_t permutation[] = {0, 3, 5, 1, 2, 4};
    bg_value y;

    if (bg_value_is_null(x))
        return false;
    if (type.rank != 4 || block < 1 || type.dims[2] % block != 0 || type.dims[3] % block != 0)
        return bgi_map_refuse(
            m, "attribute `blocksize` is %" PRId64 "; it must divide height and width of an x of 4 dimensions", block);
    y = bgi_map_reshape(
        m, x, 6,
        (const int64_t[]){type.dims[0], type.dims[1], type.dims[2] / block, block, type.dims[3] / block, block});
    y = bg_transpose(m->graph, m->name, y, permutation);
    return bgi_map_out(m, 0,
                       bgi_map_reshape(m, y, 4,
                                       (const int64_t[]){type.dims[0], type.dims[1] * block * block,
                                                         type.dims[2] / block, type.dims[3] / block}));
}

/* Maps Trilu, which keeps a triangle of each matrix; other elements become 0. */
static bool map_trilu(bgi_mapper *m)
{
    const bool is_upper = bgi_map_int(m, "upper", 1) != 0;
    const bgi_tensor *k = bgi_map_given(m, 1) ? bgi_map_known(m, 1) : NULL;
    const int64_t diagonal = k != NULL && k->count == 1 ? bgi_tensor_int(k, 0) : 0;
    uint32_t rank;
    int64_t dims[BGI_ONNX_MAX_RANK];
    bgi_tensor *mask;
    bg_type type;

    if (!bgi_map_shape(m, 0, &rank, dims) || m->reason[0] != '\0')
        return false;
    if (bgi_map_has_empty(m))
        return bgi_map_pass(m);
    if (rank < 2)
        return bgi_map_refuse(m, "x has %u dimensions but must have at least 2", rank);
    mask = bgi_map_make(m, BGI_ONNX_BOOL, 2, dims + rank - 2);
    if (mask == NULL || !bgi_tensor_type(mask, &type))
        return false;
    for (int64_t r = 0; r < mask->dims[0]; r++)
        for (int64_t c = 0; c < mask->dims[1]; c++)
            bgi_tensor_set(mask, r * mask->dims[1] + c, is_upper ? c - r >= diagonal : c - r <= diagonal);
    {
        const bg_value x = bgi_map_in(m, 0);

        return bgi_map_out(m, 0,
                           bg_where(m->graph, m->name, bgi_map_constant(m, &type, mask->data), x,
                                    bgi_map_number(m, bgi_map_type(m, x).dtype, 0.0)));
    }
}

/* ---- shapes as values ---- */

static bool map_shape(bgi_mapper *m)
{
    uint32_t rank;
    int64_t dims[BGI_ONNX_MAX_RANK], start, end;
    bgi_tensor *out;

    if (!bgi_map_shape(m, 0, &rank, dims))
        return false;
    start = bgi_map_int(m, "start", 0);
    end = bgi_map_int(m, "end", rank);
    start = clip(start < 0 ? start + rank : start, 0, rank);
    end = clip(end < 0 ? end + rank : end, start, rank);
    out = bgi_map_make(m, BGI_ONNX_INT64, 1, (const int64_t[]){end - start});
    for (int64_t i = start; out != NULL && i < end; i++)
        ((int64_t *)out->data)[i - start] = dims[i];
    return bgi_map_out_known(m, 0, out);
}

static bool map_size(bgi_mapper *m)
{
    uint32_t rank;
    int64_t dims[BGI_ONNX_MAX_RANK];
    bgi_tensor *out;

    if (!bgi_map_shape(m, 0, &rank, dims))
        return false;
    out = bgi_map_make(m, BGI_ONNX_INT64, 0, NULL);
    if (out != NULL) {
        ((int64_t *)out->data)[0] = 1;
        for (uint32_t i = 0; i < rank; i++)
            ((int64_t *)out->data)[0] *= dims[i];
    }
    return bgi_map_out_known(m, 0, out);
}

const bgi_mapping bgi_onnx_shapes[] = {
    {"Concat", map_concat, 0},
    {"DepthToSpace", map_depth_to_space, 0},
    {"Expand", map_expand, 0},
    {"Flatten", map_flatten, 0},
    {"Pad", map_pad, 0},
    {"Reshape", map_reshape, 0},
    {"Shape", map_shape, 0},
    {"Size", map_size, 0},
    {"Slice", map_slice, 0},
    {"SpaceToDepth", map_space_to_depth, 0},
    {"Split", map_split, 0},
    {"Squeeze", map_squeeze, 0},
    {"Tile", map_tile, 0},
    {"Transpose", map_transpose, 0},
    {"Trilu", map_trilu, 0},
    {"Unsqueeze", map_unsqueeze, 0},
    {0},
};
