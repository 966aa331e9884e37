/*
 * save_matrix.c: saves matrix products. A linear layer is Gemm with its weight [out, in] transposed, over rows: the
 * weight is stored unchanged.
 */
#include "kernels/linear/attributes.h"
#include "onnx/save.h"
#include "ops/ops.h"

static void save_linear(bgi_saver *s)
{
    const bg_type x_type = bgi_save_type(s, 0), y_type = bgi_save_result(s, 0);
    const int32_t batch = bgi_save_batch_before(s, 0, x_type.rank - 1);
    const int64_t rows[2] = {-1, x_type.dims[x_type.rank - 1]};
    const char *x = bgi_save_in(s, 0), *w = bgi_save_in(s, 1), *bias = bgi_save_in(s, 2), *y;

    if (x_type.rank != 2)
        x = bgi_save_reshape(s, x, 2, rows, BGI_SAVE_NO_BATCH);
    y = bgi_save_3(s, "Gemm", x, w, bias);
    bgi_save_int(s, "transB", 1);
    if (x_type.rank != 2)
        y = bgi_save_reshape(s, y, y_type.rank, y_type.dims, batch);
    bgi_save_out(s, 0, y, batch);
}

/* Exchanges the last two dimensions. */
static const char *exchange(bgi_saver *s, const char *x, uint32_t rank)
{
    int64_t permutation[BG_MAX_RANK];

    for (uint32_t i = 0; i < rank; i++)
        permutation[i] = i;
    permutation[rank - 1] = rank - 2;
    permutation[rank - 2] = rank - 1;
    return bgi_save_transpose(s, x, rank, permutation);
}

/* Returns the dimension of the samples of a product: a broadcast leading dimension, rows, or columns. If a product sums
 * over the samples, both operands must have that dimension. */
static int32_t batch_of_product(bgi_saver *s, const bgi_matmul_attributes *f)
{
    const bg_type y = bgi_save_result(s, 0);
    int32_t found = BGI_SAVE_NO_BATCH;
    bool is_summed[2] = {false, false};

    for (uint32_t i = 0; i < 2; i++) {
        const bg_type type = bgi_save_type(s, i);
        const bool is_transposed = i == 0 ? f->transpose_a : f->transpose_b;
        int32_t at = bgi_save_batch(s, i);

        if (at == BGI_SAVE_NO_BATCH)
            continue;
        if (is_transposed && at >= (int32_t)type.rank - 2)
            at = (int32_t)(2 * type.rank) - 3 - at;
        is_summed[i] = at == (int32_t)type.rank - (i == 0 ? 1 : 2);
        if (is_summed[i])
            continue;
        at += (int32_t)(y.rank - type.rank);
        if ((found != BGI_SAVE_NO_BATCH && found != at) || type.dims[bgi_save_batch(s, i)] != y.dims[at])
            return bgi_save_fix(s, "the samples of its operands are in different dimensions");
        found = at;
    }
    if (is_summed[0] != is_summed[1] || (is_summed[0] && found != BGI_SAVE_NO_BATCH))
        return bgi_save_fix(s, "it sums samples weighted by values that do not come from an input");
    for (uint32_t i = 0; found >= 0 && found < (int32_t)y.rank - 2 && i < 2; i++) {
        const bg_type type = bgi_save_type(s, i);
        const int32_t at = found - (int32_t)(y.rank - type.rank);

        if (bgi_save_batch(s, i) == BGI_SAVE_NO_BATCH && at >= 0 && type.dims[at] != 1)
            return bgi_save_fix(s, "an operand has a matrix for each of the samples, and does not come from an input");
    }
    return found;
}

static void save_matmul(bgi_saver *s)
{
    const bgi_matmul_attributes *f = s->op->attributes;
    const uint32_t a_rank = bgi_save_type(s, 0).rank, b_rank = bgi_save_type(s, 1).rank;
    const int32_t batch = batch_of_product(s, f);
    const char *a = bgi_save_in(s, 0), *b = bgi_save_in(s, 1), *y;

    if (a_rank == 2 && b_rank == 2 && (f->transpose_a || f->transpose_b)) {
        y = bgi_save_2(s, "Gemm", a, b);
        bgi_save_int(s, "transA", f->transpose_a);
        bgi_save_int(s, "transB", f->transpose_b);
    } else {
        a = f->transpose_a ? exchange(s, a, a_rank) : a;
        b = f->transpose_b ? exchange(s, b, b_rank) : b;
        y = bgi_save_2(s, "MatMul", a, b);
    }
    bgi_save_out(s, 0, y, batch);
}

const bgi_save_row bgi_save_matrix[] = {
    {&bgi_op_linear, save_linear, 0, NULL},
    {&bgi_op_matmul, save_matmul, 0, NULL},
    {0},
};
