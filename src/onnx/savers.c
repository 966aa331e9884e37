/*
 * savers.c: lists the tables of rows, and finds the row of an op type.
 */
#include "onnx/save.h"

const bgi_save_row *bgi_save_find(const bg_op_type *type)
{
    static const bgi_save_row *const tables[] = {
        bgi_save_elementwise, bgi_save_matrix,    bgi_save_convolution, bgi_save_shapes, bgi_save_index,
        bgi_save_norm,        bgi_save_attention, bgi_save_recurrent,   bgi_save_loss,
    };

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const bgi_save_row *row = tables[i]; row->type != NULL; row++)
            if (row->type == type)
                return row;
    return NULL;
}
