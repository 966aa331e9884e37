/*
 * logic.c: builds logical ops of operands whose types may differ, triangles and the leaky ReLU with a learned slope
 * from comparisons and bg_where.
 */
#include <brigade/ops.h>

#include <stdlib.h>

#include "graph/graph.h"
#include "kernels/compare/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

static const double nothing = 0.0; /* these bytes are 0 in every element type */

static bg_value add_zero(bg_graph *graph, bg_dtype dtype)
{
    const bg_type type = bg_scalar(dtype);

    return bg_graph_constant(graph, "zero", &type, &nothing);
}

/* Returns uint8: 1 where x is not 0 (or, with EQUAL, where x is 0), and 0 elsewhere. */
static bg_value add_truth(bg_graph *graph, const char *name, bg_comparison comparison, bg_value x)
{
    if (bg_value_is_null(x)) {
        bgi_graph_fail_op(graph, "logical", name, BG_ERROR_INVALID,
                          "an operand is the null value; both must be values of the graph");
        return x;
    }
    return bg_compare(graph, name, comparison, x, add_zero(graph, bg_graph_type(graph, x).dtype));
}

bg_value bg_logical_not(bg_graph *graph, const char *name, bg_value x)
{
    return add_truth(graph, name, BG_EQUAL, x);
}

bg_value bg_logical(bg_graph *graph, const char *name, bg_logic function, bg_value a, bg_value b)
{
    const bgi_compare_attributes attributes = {.function = BGI_COMPARE_LOGIC + (uint32_t)function};
    bg_value operands[2] = {a, b};

    if ((unsigned)function >= BG_LOGIC_COUNT) {
        bgi_graph_fail_op(graph, "logical", name, BG_ERROR_INVALID, "function %d is not one of bg_logic (0 to %d)",
                          (int)function, BG_LOGIC_COUNT - 1);
        return (bg_value){0};
    }
    if (bg_graph_type(graph, a).dtype != bg_graph_type(graph, b).dtype)
        for (int i = 0; i < 2; i++) /* the kernels accept bytes as truth values */
            if (bg_graph_type(graph, operands[i]).dtype != BG_UINT8)
                operands[i] = add_truth(graph, NULL, BG_NOT_EQUAL, operands[i]);
    return bg_graph_add(graph, &bgi_op_compare, name, operands, 2, &attributes, NULL);
}

bg_value bg_triangle(bg_graph *graph, const char *name, bg_value x, bool upper, int64_t diagonal)
{
    const bg_type type = bg_graph_type(graph, x);
    char text[BG_TYPE_TEXT_BYTES];
    int64_t rows, columns;
    bg_type mask_type;
    bg_value mask;
    uint8_t *is_kept;

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if (type.rank < 2) {
        bgi_graph_fail_op(graph, "triangle", name, BG_ERROR_SHAPE, "x is %s; it must be [..., rows, columns]",
                          bg_type_text(&type, text));
        return (bg_value){0};
    }
    rows = type.dims[type.rank - 2];
    columns = type.dims[type.rank - 1];
    mask_type = bg_matrix(BG_UINT8, rows, columns);
    is_kept = malloc(bg_type_size_bytes(&mask_type));
    if (is_kept == NULL) {
        bgi_graph_fail_op(graph, "triangle", name, BG_ERROR_MEMORY, "out of memory for a mask of %lld x %lld",
                          (long long)rows, (long long)columns);
        return (bg_value){0};
    }
    /* All diagonals outside the matrix give the same result, so the number is limited. */
    diagonal = diagonal > columns ? columns : diagonal < -rows ? -rows : diagonal;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            is_kept[i * columns + j] = upper ? j - i >= diagonal : j - i <= diagonal;
    mask = bg_graph_constant(graph, "mask", &mask_type, is_kept);
    free(is_kept);
    return bg_where(graph, name, mask, x, add_zero(graph, type.dtype));
}

bg_value bg_prelu(bg_graph *graph, const char *name, bg_value x, bg_value slope)
{
    const bg_type type = bg_graph_type(graph, x), own = bg_graph_type(graph, slope);
    const int64_t count = bg_type_element_count(&own), channels = type.rank > 1 ? type.dims[1] : 1;
    char text[BG_TYPE_TEXT_BYTES], own_text[BG_TYPE_TEXT_BYTES];
    int64_t dims[BG_MAX_RANK] = {1, 1, 1, 1, 1, 1};
    bg_value is_above;

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if (!bg_dtype_is_float(type.dtype) || own.dtype != type.dtype || own.rank > 1 ||
        (count != 1 && count != channels)) {
        bgi_graph_fail_op(graph, "prelu", name, BG_ERROR_SHAPE,
                          "x is %s and slope is %s; both must be floats of one type, and slope must have one number or "
                          "one for each of the %lld channels (dimension 1 of x)",
                          bg_type_text(&type, text), bg_type_text(&own, own_text), (long long)channels);
        return (bg_value){0};
    }
    dims[0] = count;
    slope = bg_reshape(graph, NULL, slope, count == 1 ? 0 : type.rank - 1, dims);
    is_above = bg_compare(graph, NULL, BG_GREATER, x, add_zero(graph, type.dtype));
    return bg_where(graph, name, is_above, x, bg_multiply(graph, x, slope));
}
