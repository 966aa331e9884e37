/*
 * save_shapes.c: saves shapes, moves, reductions, sums along an axis, and padding.
 */
#include <string.h>

#include "kernels/cumulative/attributes.h"
#include "kernels/pad/attributes.h"
#include "kernels/reduce/attributes.h"
#include "kernels/reshape/attributes.h"
#include "onnx/save.h"
#include "ops/ops.h"

static void save_reshape(bgi_saver *s)
{
    const bg_type x = bgi_save_type(s, 0), y = bgi_save_result(s, 0);
    const int32_t batch = bgi_save_batch_reshaped(s, &x, bgi_save_batch(s, 0), &y);

    bgi_save_out(s, 0, bgi_save_reshape(s, bgi_save_in(s, 0), y.rank, y.dims, batch), batch);
}

/* Saves a broadcast as Expand, which keeps a dimension where the new size is 1. So the batch size stays open. */
static void save_broadcast(bgi_saver *s)
{
    const bg_type y = bgi_save_result(s, 0);
    const int32_t batch = bgi_save_batch_broadcast(s, &y);
    int64_t dims[BG_MAX_RANK];

    for (uint32_t i = 0; i < y.rank; i++)
        dims[i] = (int32_t)i == batch ? 1 : y.dims[i];
    bgi_save_out(s, 0, bgi_save_2(s, "Expand", bgi_save_in(s, 0), bgi_save_list(s, dims, y.rank)), batch);
}

static void save_transpose(bgi_saver *s)
{
    const bgi_transpose_attributes *f = s->op->attributes;
    const uint32_t rank = bgi_save_type(s, 0).rank;
    int64_t permutation[BG_MAX_RANK];
    int32_t batch = BGI_SAVE_NO_BATCH;

    for (uint32_t i = 0; i < rank; i++) {
        permutation[i] = f->permutation[i];
        if ((int32_t)f->permutation[i] == bgi_save_batch(s, 0))
            batch = (int32_t)i;
    }
    bgi_save_out(s, 0, bgi_save_transpose(s, bgi_save_in(s, 0), rank, permutation), batch);
}

static void save_slice(bgi_saver *s)
{
    const bgi_slice_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch(s, 0);
    const char *operands[5];

    if (bgi_save_is_cells(s, s->op->inputs[0])) {
        bgi_save_last_cell(s, f->axis, f->start, f->stop);
        return;
    }
    operands[0] = bgi_save_in(s, 0);
    if (batch == (int32_t)f->axis)
        bgi_save_fix(s, "it takes some of the samples");
    operands[1] = bgi_save_list(s, &f->start, 1);
    operands[2] = bgi_save_list(s, &f->stop, 1);
    operands[3] = bgi_save_list(s, (const int64_t[]){f->axis}, 1);
    operands[4] = bgi_save_list(s, &f->step, 1);
    bgi_save_out(s, 0, bgi_save_node(s, "Slice", 5, operands), batch);
}

static void save_concat(bgi_saver *s)
{
    const bgi_axis_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch(s, 0);
    const char *operands[BGI_MAXIMUM_VARIADIC], *y;

    for (uint32_t i = 0; i < s->op->input_count; i++) {
        if (bgi_save_batch(s, i) != batch)
            bgi_save_fix(s, "some operands depend on the samples, and others do not");
        operands[i] = bgi_save_in(s, i);
    }
    y = bgi_save_node(s, "Concat", s->op->input_count, operands);
    bgi_save_int(s, "axis", f->axis);
    bgi_save_out(s, 0, y, batch);
}

static void save_roll(bgi_saver *s)
{
    const bgi_roll_attributes *f = s->op->attributes;
    const int64_t size = bgi_save_type(s, 0).dims[f->axis];
    const int32_t batch = bgi_save_batch(s, 0);
    const char *x = bgi_save_in(s, 0), *axes = bgi_save_list(s, (const int64_t[]){f->axis}, 1), *y;
    const char *first = bgi_save_list(s, &f->first, 1), *start, *end;

    if (batch == (int32_t)f->axis)
        bgi_save_fix(s, "it moves the samples");
    end = bgi_save_node(s, "Slice", 4, (const char *const[]){x, first, bgi_save_list(s, &size, 1), axes});
    start =
        bgi_save_node(s, "Slice", 4, (const char *const[]){x, bgi_save_list(s, (const int64_t[]){0}, 1), first, axes});
    y = bgi_save_2(s, "Concat", end, start);
    bgi_save_int(s, "axis", f->axis);
    bgi_save_out(s, 0, y, batch);
}

static void save_copy(bgi_saver *s)
{
    bgi_save_out(s, 0, bgi_save_1(s, "Identity", bgi_save_in(s, 0)), bgi_save_batch(s, 0));
}

/* ---- reductions ---- */

static void save_reduce(bgi_saver *s)
{
    static const char *const ops[BG_REDUCTION_COUNT] = {
        [BG_REDUCE_SUM] = "ReduceSum", [BG_REDUCE_MEAN] = "ReduceMean", [BG_REDUCE_MAX] = "ReduceMax"};
    const bgi_reduce_attributes *f = s->op->attributes;
    const uint32_t rank = bgi_save_type(s, 0).rank;
    const char *x = bgi_save_in(s, 0), *y;
    int32_t batch = bgi_save_batch(s, 0);
    int64_t axes[BG_MAX_RANK];
    uint32_t count = 0, before = 0;

    for (uint32_t i = 0; i < rank; i++) {
        if ((f->axes >> i & 1) == 0)
            continue;
        before += (int32_t)i < batch;
        axes[count++] = i;
    }
    if (batch != BGI_SAVE_NO_BATCH && (f->axes >> batch & 1) != 0)
        batch = BGI_SAVE_NO_BATCH;
    else if (batch != BGI_SAVE_NO_BATCH && !f->keep_dims)
        batch -= (int32_t)before;
    if (count == 0) { /* a scalar */
        y = bgi_save_1(s, "Identity", x);
    } else if (f->function == BG_REDUCE_SUM) {
        y = bgi_save_2(s, ops[f->function], x, bgi_save_list(s, axes, count));
        bgi_save_int(s, "keepdims", f->keep_dims);
    } else {
        y = bgi_save_1(s, ops[f->function], x);
        bgi_save_ints(s, "axes", axes, count);
        bgi_save_int(s, "keepdims", f->keep_dims);
    }
    bgi_save_out(s, 0, y, batch);
}

static void save_argmax(bgi_saver *s)
{
    const uint32_t rank = bgi_save_type(s, 0).rank;
    const int32_t batch = bgi_save_batch_before(s, 0, rank - 1);
    const char *y = bgi_save_1(s, "ArgMax", bgi_save_in(s, 0));

    bgi_save_int(s, "axis", (int64_t)rank - 1);
    bgi_save_int(s, "keepdims", 0);
    bgi_save_out_as_is(s, 0, bgi_save_cast(s, y, BGI_ONNX_INT32), batch);
}

/* Saves running sums. The library computes them in double. */
static void save_cumulative_sum(bgi_saver *s)
{
    const bgi_cumulative_attributes *f = s->op->attributes;
    const bg_dtype dtype = bgi_save_type(s, 0).dtype;
    const char *x, *axis, *y;

    if (dtype == BG_FLOAT16 || dtype == BG_BFLOAT16)
        bgi_save_widen(s);
    x = bgi_save_in(s, 0);
    axis = bgi_save_number(s, BG_INT64, f->axis);
    y = bgi_save_2(s, "CumSum", x, axis);
    bgi_save_int(s, "exclusive", f->is_exclusive);
    bgi_save_int(s, "reverse", f->is_reverse);
    bgi_save_out(s, 0, y, bgi_save_batch(s, 0));
}

/* ---- padding ---- */

static const char *take(bgi_saver *s, const char *x, int64_t axis, int64_t start, int64_t stop)
{
    const char *operands[4] = {x, bgi_save_list(s, &start, 1), NULL, NULL};

    operands[2] = bgi_save_list(s, &stop, 1);
    operands[3] = bgi_save_list(s, &axis, 1);
    return bgi_save_node(s, "Slice", 4, operands);
}

/* Saves circular padding: joins the end, the whole and the beginning, along one axis after another. */
static const char *save_circular(bgi_saver *s, const bgi_pad_attributes *f)
{
    const char *y = bgi_save_in(s, 0);

    for (uint32_t i = 0; i < f->rank; i++) {
        const char *parts[3];
        uint32_t count = 0;

        if (f->before[i] > 0)
            parts[count++] = take(s, y, i, f->dims[i] - f->before[i], f->dims[i]);
        parts[count++] = y;
        if (f->after[i] > 0)
            parts[count++] = take(s, y, i, 0, f->after[i]);
        if (count == 1)
            continue;
        y = bgi_save_node(s, "Concat", count, parts);
        bgi_save_int(s, "axis", i);
    }
    return y;
}

static void save_pad(bgi_saver *s)
{
    static const char *const modes[BG_PAD_MODE_COUNT] = {
        [BG_PAD_CONSTANT] = "constant", [BG_PAD_REFLECT] = "reflect", [BG_PAD_REPLICATE] = "edge"};
    const bgi_pad_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch(s, 0);
    int64_t pads[2 * BG_MAX_RANK];
    const char *operands[3], *y;

    for (uint32_t i = 0; i < f->rank; i++) {
        pads[i] = f->before[i];
        pads[f->rank + i] = f->after[i];
        if ((int32_t)i == batch && (pads[i] != 0 || pads[f->rank + i] != 0))
            bgi_save_fix(s, "it adds samples");
    }
    if (f->mode == BG_PAD_CIRCULAR) {
        bgi_save_out(s, 0, save_circular(s, f), batch);
        return;
    }
    operands[0] = bgi_save_in(s, 0);
    operands[1] = bgi_save_list(s, pads, 2 * f->rank);
    operands[2] = f->mode == BG_PAD_CONSTANT ? bgi_save_number(s, bgi_save_dtype(s, 0), f->value) : NULL;
    y = bgi_save_node(s, "Pad", 3, operands);
    bgi_save_text(s, "mode", modes[f->mode]);
    bgi_save_out(s, 0, y, batch);
}

const bgi_save_row bgi_save_shapes[] = {
    {&bgi_op_reshape, save_reshape, 0, NULL},
    {&bgi_op_broadcast, save_broadcast, 0, NULL},
    {&bgi_op_transpose, save_transpose, 0, NULL},
    {&bgi_op_slice, save_slice, 0, NULL},
    {&bgi_op_roll, save_roll, 0, NULL},
    {&bgi_op_concat, save_concat, 0, NULL},
    {&bgi_op_copy, save_copy, 0, NULL},
    {&bgi_op_stop_gradient, save_copy, 0, NULL},
    {&bgi_op_reduce, save_reduce, 0, NULL},
    {&bgi_op_argmax, save_argmax, 0, NULL},
    {&bgi_op_cumulative_sum, save_cumulative_sum, 0, NULL},
    {&bgi_op_pad, save_pad, 0, NULL},
    {0},
};
