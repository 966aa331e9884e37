/*
 * moves.c: builds ops that move elements from other ops: stacks, tiles, flips.
 */
#include <brigade/ops.h>

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "ops/shape.h"

bg_value bg_stack(bg_graph *graph, const char *name, const bg_value *values, uint32_t count, int32_t axis)
{
    const bg_type type = count > 0 && values != NULL ? bg_graph_type(graph, values[0]) : (bg_type){0};
    const int32_t place = axis < 0 ? axis + (int32_t)type.rank + 1 : axis;
    bg_value wider[BGI_MAXIMUM_VARIADIC];
    int64_t dims[BG_MAX_RANK];

    if (count == 0 || count > BGI_MAXIMUM_VARIADIC || values == NULL) {
        bgi_graph_fail_op(graph, "stack", name, BG_ERROR_INVALID, "%u values were given: stack takes 1 to %d", count,
                          BGI_MAXIMUM_VARIADIC);
        return (bg_value){0};
    }
    if (type.rank >= BG_MAX_RANK || place < 0 || place > (int32_t)type.rank) {
        bgi_graph_fail_op(graph, "stack", name, BG_ERROR_SHAPE,
                          "axis is %d and the values have %u dimensions; the axis must be a dimension of the result, "
                          "which has one more than the values and at most %d",
                          (int)axis, type.rank, BG_MAX_RANK);
        return (bg_value){0};
    }
    for (uint32_t i = 0; i < count; i++) {
        const bg_type own = bg_graph_type(graph, values[i]);
        for (uint32_t d = 0; d <= own.rank && d < BG_MAX_RANK; d++)
            dims[d] = d < (uint32_t)place ? own.dims[d] : d == (uint32_t)place ? 1 : own.dims[d - 1];
        wider[i] = bg_reshape(graph, NULL, values[i], own.rank + 1, dims);
    }
    return bg_concat(graph, name, wider, count, place);
}

/* Repeats x `times` times along dimension `dim`. */
static bg_value tile_dim(bg_graph *graph, const char *name, bg_value x, uint32_t dim, int64_t times)
{
    const bg_type type = bg_graph_type(graph, x);
    int64_t flat[3] = {1, 1, 1}, repeated[3], dims[BG_MAX_RANK];

    for (uint32_t i = 0; i < type.rank; i++) {
        flat[i < dim ? 0 : 2] *= type.dims[i];
        dims[i] = type.dims[i] * (i == dim ? times : 1);
    }
    memcpy(repeated, flat, sizeof repeated);
    repeated[1] = times;
    x = bg_broadcast(graph, NULL, bg_reshape(graph, NULL, x, 3, flat), 3, repeated);
    return bg_reshape(graph, name, x, type.rank, dims);
}

bg_value bg_tile(bg_graph *graph, const char *name, bg_value x, const int64_t *times)
{
    const bg_type type = bg_graph_type(graph, x);
    uint32_t last = type.rank;

    for (uint32_t i = 0; i < type.rank; i++) {
        if (times == NULL || times[i] < 1) {
            bgi_graph_fail_op(graph, "tile", name, BG_ERROR_INVALID,
                              "dimension %u is repeated %lld times; each dimension must be repeated at least once", i,
                              times != NULL ? (long long)times[i] : 0LL);
            return (bg_value){0};
        }
        if (times[i] > 1)
            last = i;
    }
    for (uint32_t i = 0; i <= last && i < type.rank; i++)
        if (times[i] > 1)
            x = tile_dim(graph, i == last ? name : NULL, x, i, times[i]);
    return x;
}

bg_value bg_flip(bg_graph *graph, const char *name, bg_value x, int32_t axis)
{
    const bg_type type = bg_graph_type(graph, x);
    bg_value numbers;
    int64_t *data;
    bg_type row;
    uint32_t dim;

    if (!bgi_graph_axis(graph, &bgi_op_gather, name, x, axis, &dim))
        return (bg_value){0};
    row = bg_vector(BG_INT64, type.dims[dim]);
    data = malloc(bg_type_size_bytes(&row));
    if (data == NULL) {
        bgi_graph_fail_op(graph, "flip", name, BG_ERROR_MEMORY, "out of memory for %lld numbers",
                          (long long)type.dims[dim]);
        return (bg_value){0};
    }
    for (int64_t i = 0; i < type.dims[dim]; i++)
        data[i] = type.dims[dim] - 1 - i;
    numbers = bg_graph_constant(graph, "numbers", &row, data);
    free(data);
    return bg_gather(graph, name, x, (int32_t)dim, numbers);
}
