/*
 * map_index.c: maps ops on elements by index. Negative indices count from the end. If several indices refer to one
 * element, ONNX does not define which update remains, unless the updates are added.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool map_gather(bgi_mapper *m)
{
    const bgi_tensor *known = bgi_map_if_known(m, 1);
    uint32_t rank;
    int64_t x_dims[BGI_ONNX_MAX_RANK], dims[BG_MAX_RANK];
    int32_t axis;
    bg_value x, y;

    if (!bgi_map_shape(m, 0, &rank, x_dims) || !bgi_map_axis(m, bgi_map_int(m, "axis", 0), rank, false, &axis))
        return false;
    if (!bgi_map_given(m, 1))
        return bgi_map_refuse(m, "input 1, the indices, is missing");
    if (rank > BG_MAX_RANK || bgi_map_has_empty(m))
        return bgi_map_refuse(m, "an operand has no elements, or more than %d dimensions", BG_MAX_RANK);
    x = bgi_map_in(m, 0);
    if (bg_value_is_null(x))
        return false;
    if (known != NULL && known->count == 1 && rank - 1 + known->rank <= BG_MAX_RANK) { /* a single index: a slice */
        const int64_t given = bgi_tensor_int(known, 0), at = given < 0 ? given + x_dims[axis] : given;
        uint32_t count = 0;

        if (at < 0 || at >= x_dims[axis])
            return bgi_map_refuse(m, "index %" PRId64 " is outside of an axis of %" PRId64 " elements", given,
                                  x_dims[axis]);
        for (uint32_t i = 0; i < rank; i++) {
            if (i != (uint32_t)axis)
                dims[count++] = x_dims[i];
            for (uint32_t k = 0; i == (uint32_t)axis && k < known->rank; k++)
                dims[count++] = 1;
        }
        y = x_dims[axis] == 1 ? x : bg_slice(m->graph, m->name, x, axis, at, at + 1, 1);
        return bgi_map_out(m, 0, bgi_map_reshape(m, y, count, dims));
    }
    return bgi_map_out(m, 0, bg_gather(m->graph, m->name, x, axis, bgi_map_in(m, 1)));
}

/* Cuts x to the dimensions of the ids, except along the axis. */
static bg_value cut_to(bgi_mapper *m, bg_value x, const bg_type *ids, int32_t axis)
{
    const bg_type type = bgi_map_type(m, x);

    for (uint32_t i = 0; i < type.rank; i++)
        if (i != (uint32_t)axis && ids->dims[i] < type.dims[i])
            x = bg_slice(m->graph, NULL, x, (int32_t)i, 0, ids->dims[i], 1);
    return x;
}

static bool map_gather_elements(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0), ids = bgi_map_in(m, 1);
    const bg_type x_type = bgi_map_type(m, x), type = bgi_map_type(m, ids);
    int32_t axis;

    if (bg_value_is_null(x) || bg_value_is_null(ids) ||
        !bgi_map_axis(m, bgi_map_int(m, "axis", 0), x_type.rank, false, &axis))
        return bgi_map_refuse(m, "it takes two operands");
    if (type.rank != x_type.rank)
        return bgi_map_refuse(m, "the indices have %u dimensions but x has %u", type.rank, x_type.rank);
    return bgi_map_out(m, 0, bg_gather_elements(m->graph, m->name, cut_to(m, x, &type, axis), axis, ids));
}

/* ---- ids of several axes as one ---- */

/* Converts ids [.., k] over the dimensions `dims` to ids [..] over the product of the dimensions. */
static bg_value join_ids(bgi_mapper *m, bg_value ids, const int64_t *dims, uint32_t k)
{
    const bg_type type = bgi_map_type(m, ids);
    bg_value sum = {0};
    int64_t stride = 1;

    for (uint32_t i = k; i-- > 0; stride *= dims[i]) {
        bg_value id = bg_slice(m->graph, NULL, ids, -1, i, i + 1, 1);

        id = bgi_map_reshape(m, id, type.rank - 1, type.dims);
        id = bg_where(m->graph, NULL, bg_compare(m->graph, NULL, BG_LESS, id, bgi_map_number(m, type.dtype, 0.0)),
                      bg_add(m->graph, id, bgi_map_number(m, type.dtype, (double)dims[i])), id);
        id = bg_multiply(m->graph, id, bgi_map_number(m, type.dtype, (double)stride));
        sum = i + 1 == k ? id : bg_add(m->graph, sum, id);
    }
    return sum;
}

static int64_t count_of(const int64_t *dims, uint32_t first, uint32_t end)
{
    int64_t count = 1;

    for (uint32_t i = first; i < end; i++)
        count *= dims[i];
    return count;
}

/* Adds b * size to the ids of batch b. */
static bg_value add_batches(bgi_mapper *m, bg_value ids, int64_t batches, int64_t size)
{
    const bg_type type = bgi_map_type(m, ids);
    const int64_t each = bg_type_element_count(&type) / batches;
    int64_t *offsets = malloc((size_t)batches * sizeof *offsets);
    bg_value added;

    if (offsets == NULL) {
        m->is_out_of_memory = true;
        return (bg_value){0};
    }
    for (int64_t i = 0; i < batches; i++)
        offsets[i] = i * size;
    added = bgi_map_ints_constant(m, offsets, batches);
    free(offsets);
    added = bgi_map_reshape(m, bgi_map_cast(m, added, type.dtype), 2, (const int64_t[]){batches, 1});
    ids = bg_add(m->graph, bgi_map_reshape(m, ids, 2, (const int64_t[]){batches, each}), added);
    return bgi_map_reshape(m, ids, type.rank, type.dims);
}

static bool map_gather_nd(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    const int64_t batch_dims = bgi_map_int(m, "batch_dims", 0);
    bg_value ids = bgi_map_in(m, 1), y;
    const bg_type ids_type = bgi_map_type(m, ids);
    int64_t dims[2 * BG_MAX_RANK], batches, size, rest, k;
    uint32_t rank = 0;

    if (bg_value_is_null(x) || bg_value_is_null(ids) || ids_type.rank < 1)
        return bgi_map_refuse(m, "it takes two operands");
    k = ids_type.dims[ids_type.rank - 1];
    if (batch_dims < 0 || batch_dims >= ids_type.rank || k + batch_dims > type.rank)
        return bgi_map_refuse(m,
                              "attribute `batch_dims` is %" PRId64 " and each index has %" PRId64
                              " numbers, but x has only %u dimensions",
                              batch_dims, k, type.rank);
    for (int64_t i = 0; i < batch_dims; i++)
        if (type.dims[i] != ids_type.dims[i])
            return bgi_map_refuse(m, "dimension %" PRId64 " is %" PRId64 " in x but %" PRId64 " in the indices", i,
                                  type.dims[i], ids_type.dims[i]);
    batches = count_of(type.dims, 0, (uint32_t)batch_dims);
    size = count_of(type.dims, (uint32_t)batch_dims, (uint32_t)(batch_dims + k));
    rest = count_of(type.dims, (uint32_t)(batch_dims + k), type.rank);
    ids = join_ids(m, ids, type.dims + batch_dims, (uint32_t)k);
    if (batches > 1)
        ids = add_batches(m, ids, batches, size);
    y = bgi_map_reshape(m, x, 2, (const int64_t[]){batches * size, rest});
    y = bg_gather(m->graph, m->name, y, 0,
                  bgi_map_reshape(m, ids, 1, (const int64_t[]){count_of(ids_type.dims, 0, ids_type.rank - 1)}));
    for (uint32_t i = 0; i + 1 < ids_type.rank; i++)
        dims[rank++] = ids_type.dims[i];
    for (uint32_t i = (uint32_t)(batch_dims + k); i < type.rank; i++)
        dims[rank++] = type.dims[i];
    return bgi_map_out(m, 0, bgi_map_reshape(m, y, rank, dims));
}

/* ---- updates ---- */

static bool read_reduction(bgi_mapper *m, bool *adds)
{
    *adds = bgi_map_text_is(m, "reduction", "add", false);
    if (!*adds && !bgi_map_text_is(m, "reduction", "none", true))
        return bgi_map_refuse(m, "attribute `reduction` must be `none` or `add`");
    return true;
}

static bg_value zeros_like(bgi_mapper *m, const bg_type *type)
{
    return bg_broadcast(m->graph, NULL, bgi_map_number(m, type->dtype, 0.0), type->rank, type->dims);
}

static bg_value ones_like(bgi_mapper *m, const bg_type *type)
{
    return bg_broadcast(m->graph, NULL, bgi_map_number(m, type->dtype, 1.0), type->rank, type->dims);
}

/* Replaces each updated element of x with the sum of its updates. */
static bg_value replace(bgi_mapper *m, bg_value x, bg_value counts, bg_value sums)
{
    const bg_value is_hit =
        bg_compare(m->graph, NULL, BG_GREATER, counts, bgi_map_number(m, bgi_map_type(m, counts).dtype, 0.0));

    return bg_where(m->graph, m->name, is_hit, sums, x);
}

static bool check_scatter(bgi_mapper *m, bg_value x, bg_value ids, bg_value updates)
{
    if (bg_value_is_null(x) || bg_value_is_null(ids) || bg_value_is_null(updates))
        return bgi_map_refuse(m, "it takes three operands");
    if (!bg_dtype_is_float(bgi_map_type(m, x).dtype))
        return bgi_map_refuse(m, "its elements are %s but only floats are supported",
                              bgi_onnx_element_name(bgi_map_element(m, 0)));
    return true;
}

/* Whether two ids whose positions differ only along `axis` refer to the same element of an axis of `size` elements.
 * Unknown ids (NULL) are assumed to differ. */
static bool has_twins(const bgi_tensor *ids, int32_t axis, int64_t size)
{
    int64_t inner = 1;

    if (ids == NULL)
        return false;
    for (uint32_t i = (uint32_t)axis + 1; i < ids->rank; i++)
        inner *= ids->dims[i];
    for (int64_t i = 0; i < ids->count; i++)
        for (int64_t k = i - inner; k >= 0 && k / inner / ids->dims[axis] == i / inner / ids->dims[axis]; k -= inner) {
            const int64_t a = bgi_tensor_int(ids, i), b = bgi_tensor_int(ids, k);

            if ((a < 0 ? a + size : a) == (b < 0 ? b + size : b))
                return true;
        }
    return false;
}

static bool map_scatter_elements(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0), ids = bgi_map_in(m, 1), updates = bgi_map_in(m, 2);
    const bg_type type = bgi_map_type(m, x), update_type = bgi_map_type(m, updates);
    bg_value counts, sums;
    int32_t axis;
    bool adds;

    if (!check_scatter(m, x, ids, updates) || !read_reduction(m, &adds) ||
        !bgi_map_axis(m, bgi_map_int(m, "axis", 0), type.rank, false, &axis))
        return false;
    if (!adds && has_twins(bgi_map_if_known(m, 1), axis, type.dims[axis]))
        return bgi_map_refuse(m, "several updates name one element and are not added");
    for (uint32_t i = 0; i < type.rank; i++)
        if (update_type.rank != type.rank || (i != (uint32_t)axis && update_type.dims[i] != type.dims[i]))
            return bgi_map_refuse(m, "the updates and x differ in a dimension besides the axis");
    if (adds)
        return bgi_map_out(m, 0, bg_scatter_elements_add(m->graph, m->name, x, axis, ids, updates));
    counts = bg_scatter_elements_add(m->graph, NULL, zeros_like(m, &type), axis, ids, ones_like(m, &update_type));
    sums = bg_scatter_elements_add(m->graph, NULL, zeros_like(m, &type), axis, ids, updates);
    return bgi_map_out(m, 0, replace(m, x, counts, sums));
}

static bool map_scatter_nd(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    bg_value ids = bgi_map_in(m, 1), updates = bgi_map_in(m, 2), counts, sums, flat;
    const bg_type type = bgi_map_type(m, x), ids_type = bgi_map_type(m, ids);
    int64_t size, rest, k, count;
    bg_type flat_type, update_type;
    bool adds;

    if (!check_scatter(m, x, ids, updates) || !read_reduction(m, &adds))
        return false;
    k = ids_type.rank > 0 ? ids_type.dims[ids_type.rank - 1] : 0;
    if (k < 1 || k > type.rank)
        return bgi_map_refuse(
            m, "the index of each update has %" PRId64 " numbers but must have 1 to %u, the dimensions of x", k,
            type.rank);
    size = count_of(type.dims, 0, (uint32_t)k);
    rest = count_of(type.dims, (uint32_t)k, type.rank);
    count = count_of(ids_type.dims, 0, ids_type.rank - 1);
    ids = bgi_map_reshape(m, join_ids(m, ids, type.dims, (uint32_t)k), 1, &count);
    flat = bgi_map_reshape(m, x, 2, (const int64_t[]){size, rest});
    updates = bgi_map_reshape(m, updates, 2, (const int64_t[]){count, rest});
    if (adds) {
        sums = bg_scatter_add(m->graph, m->name, flat, 0, ids, updates);
    } else {
        flat_type = bgi_map_type(m, flat);
        update_type = bgi_map_type(m, updates);
        counts = bg_scatter_add(m->graph, NULL, zeros_like(m, &flat_type), 0, ids, ones_like(m, &update_type));
        sums = bg_scatter_add(m->graph, NULL, zeros_like(m, &flat_type), 0, ids, updates);
        sums = replace(m, flat, counts, sums);
    }
    return bgi_map_out(m, 0, bgi_map_reshape(m, sums, type.rank, type.dims));
}

/* ---- by known ids ---- */

static bool map_compress(bgi_mapper *m)
{
    const bgi_tensor *condition = bgi_map_known(m, 1);
    const bool is_flat = !bgi_map_has(m, "axis");
    bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    int32_t axis = 0;
    int64_t count = 0, *ids;
    bg_value y;

    if (condition == NULL || bg_value_is_null(x))
        return false;
    if (is_flat)
        x = bgi_map_reshape(m, x, 1, (const int64_t[]){bg_type_element_count(&type)});
    else if (!bgi_map_axis(m, bgi_map_int(m, "axis", 0), type.rank, false, &axis))
        return false;
    if (condition->count > bgi_map_type(m, x).dims[axis])
        return bgi_map_refuse(m, "input 1 has %" PRId64 " elements but the axis has %" PRId64, condition->count,
                              bgi_map_type(m, x).dims[axis]);
    ids = malloc((size_t)(condition->count + 1) * sizeof *ids);
    if (ids == NULL) {
        m->is_out_of_memory = true;
        return false;
    }
    for (int64_t i = 0; i < condition->count; i++)
        if (bgi_tensor_int(condition, i) != 0)
            ids[count++] = i;
    if (count > 0)
        y = bg_gather(m->graph, m->name, x, axis, bgi_map_ints_constant(m, ids, count));
    free(ids);
    return count > 0 ? bgi_map_out(m, 0, y) : bgi_map_refuse(m, "the result has no elements");
}

static bool map_one_hot(bgi_mapper *m)
{
    bg_value ids = bgi_map_in(m, 0), values, y, off, on;
    const bg_type type = bgi_map_type(m, ids);
    const int32_t element = bgi_map_element(m, 2);
    uint32_t permutation[BG_MAX_RANK];
    double depth;
    int32_t axis;

    if (bg_value_is_null(ids) || !bgi_map_known_real(m, 1, &depth) || !bgi_map_given(m, 2))
        return bgi_map_refuse(m, "it takes three operands");
    if (!bgi_map_axis(m, bgi_map_int(m, "axis", -1), type.rank + 1, false, &axis))
        return false;
    if (type.rank + 1 > BG_MAX_RANK || !(depth >= 1.0 && depth < 2147483648.0))
        return bgi_map_refuse(m, "the depth is %g but must be 1 to 2^31, or the result has more than %d dimensions",
                              depth, BG_MAX_RANK);
    values = bgi_map_in(m, 2);
    ids = bgi_map_cast(m, ids, BG_INT64);
    ids = bg_where(m->graph, NULL, bg_compare(m->graph, NULL, BG_LESS, ids, bgi_map_number(m, BG_INT64, 0.0)),
                   bg_add(m->graph, ids, bgi_map_number(m, BG_INT64, depth)), ids);
    y = bg_one_hot(m->graph, m->name, ids, (int64_t)depth, BG_FLOAT32);
    off = bgi_map_reshape(m, bg_slice(m->graph, NULL, values, 0, 0, 1, 1), 0, NULL);
    on = bgi_map_reshape(m, bg_slice(m->graph, NULL, values, 0, 1, 2, 1), 0, NULL);
    y = bg_where(m->graph, NULL, bg_compare(m->graph, NULL, BG_GREATER, y, bgi_map_number(m, BG_FLOAT32, 0.5)), on,
                 off);
    if ((uint32_t)axis != type.rank) {
        for (uint32_t i = 0; i <= type.rank; i++)
            permutation[i] = i < (uint32_t)axis ? i : i == (uint32_t)axis ? type.rank : i - 1;
        y = bg_transpose(m->graph, NULL, y, permutation);
    }
    return bgi_map_out_as(m, 0, y, element);
}

/* Reverses the first elements of each sequence. Their number, the sequence's length, must be known. */
static bool map_reverse_sequence(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    const bgi_tensor *lengths = bgi_map_known(m, 1);
    const int64_t batch_axis = bgi_map_int(m, "batch_axis", 1), time_axis = bgi_map_int(m, "time_axis", 0);
    int64_t rest, *ids;
    bg_value y = {0};

    if (lengths == NULL || bg_value_is_null(x))
        return false;
    if (type.rank < 2 || batch_axis + time_axis != 1 || batch_axis < 0 || batch_axis > 1 ||
        lengths->count != type.dims[batch_axis])
        return bgi_map_refuse(m,
                              "attributes `batch_axis` and `time_axis` are %" PRId64 " and %" PRId64
                              "; they must be 0 and 1, with a length for each sequence",
                              batch_axis, time_axis);
    rest = count_of(type.dims, 2, type.rank);
    ids = malloc((size_t)(type.dims[0] * type.dims[1]) * sizeof *ids);
    if (ids == NULL) {
        m->is_out_of_memory = true;
        return false;
    }
    for (int64_t i = 0; i < type.dims[0]; i++)
        for (int64_t k = 0; k < type.dims[1]; k++) {
            const int64_t batch = batch_axis == 0 ? i : k, time = batch_axis == 0 ? k : i;
            const int64_t length = bgi_tensor_int(lengths, batch);
            const int64_t from = time < length && length <= type.dims[time_axis] ? length - 1 - time : time;

            ids[i * type.dims[1] + k] = batch_axis == 0 ? batch * type.dims[1] + from : from * type.dims[1] + batch;
        }
    y = bgi_map_reshape(m, x, 2, (const int64_t[]){type.dims[0] * type.dims[1], rest});
    y = bg_gather(m->graph, m->name, y, 0, bgi_map_ints_constant(m, ids, type.dims[0] * type.dims[1]));
    free(ids);
    return bgi_map_out(m, 0, bgi_map_reshape(m, y, type.rank, type.dims));
}

const bgi_mapping bgi_onnx_index[] = {
    {"Compress", map_compress, 0},
    {"Gather", map_gather, 0},
    {"GatherElements", map_gather_elements, 0},
    {"GatherND", map_gather_nd, 0},
    {"OneHot", map_one_hot, 0},
    {"ReverseSequence", map_reverse_sequence, 0},
    {"Scatter", map_scatter_elements, 0},
    {"ScatterElements", map_scatter_elements, 0},
    {"ScatterND", map_scatter_nd, 0},
    {0},
};
