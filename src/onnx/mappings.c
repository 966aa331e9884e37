/*
 * mappings.c: all tables of mappings.
 */
#include "onnx/onnx.h"

#include <string.h>

static const bgi_mapping *const tables[] = {
    bgi_onnx_elementwise, bgi_onnx_matrix,   bgi_onnx_convolution, bgi_onnx_shapes, bgi_onnx_index,
    bgi_onnx_reduction,   bgi_onnx_norm,     bgi_onnx_resize,      bgi_onnx_loss,   bgi_onnx_constants,
    bgi_onnx_recurrent,   bgi_onnx_quantize, bgi_onnx_signal};

static const bgi_mapping *find_row(const bgi_mapping *table, const char *op)
{
    for (const bgi_mapping *row = table; row->op != NULL; row++)
        if (strcmp(row->op, op) == 0)
            return row;
    return NULL;
}

const bgi_mapping *bgi_onnx_find_mapping(const char *domain, const char *op)
{
    const bgi_mapping *row = NULL;

    if (strcmp(domain, "ai.onnx.ml") == 0)
        return find_row(bgi_onnx_ml, op);
    for (size_t t = 0; domain[0] == '\0' && t < sizeof tables / sizeof tables[0] && row == NULL; t++)
        row = find_row(tables[t], op);
    return row;
}
