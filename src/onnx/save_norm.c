/*
 * save_norm.c: saves softmax, normalization, cosines and dropout. Norms that an opset does not have are written as
 * several nodes, in float where elements have 16 bits.
 */
#include "kernels/cosine/attributes.h"
#include "kernels/dropout/attributes.h"
#include "kernels/norm/attributes.h"
#include "kernels/reshape/attributes.h"
#include "kernels/rms_norm/attributes.h"
#include "onnx/save.h"
#include "ops/ops.h"

static void save_along(bgi_saver *s, const char *op)
{
    const bgi_axis_attributes *f = s->op->attributes;
    const char *y = bgi_save_1(s, op, bgi_save_in(s, 0));

    bgi_save_int(s, "axis", f->axis);
    bgi_save_out(s, 0, y, bgi_save_batch(s, 0));
}

static void save_softmax(bgi_saver *s)
{
    save_along(s, "Softmax");
}

static void save_log_softmax(bgi_saver *s)
{
    save_along(s, "LogSoftmax");
}

/* ---- over the last dimension ---- */

static const char *mean_of_rows(bgi_saver *s, const char *x)
{
    const char *y = bgi_save_1(s, "ReduceMean", x);

    bgi_save_ints(s, "axes", (const int64_t[]){-1}, 1);
    bgi_save_int(s, "keepdims", 1);
    return y;
}

/* Saves x / sqrt(mean(x^2) + epsilon). */
static const char *by_root_of_squares(bgi_saver *s, const char *x, double epsilon)
{
    const char *y = mean_of_rows(s, bgi_save_2(s, "Mul", x, x));

    y = bgi_save_2(s, "Add", y, bgi_save_number(s, bgi_save_dtype(s, 0), epsilon));
    return bgi_save_2(s, "Div", x, bgi_save_1(s, "Sqrt", y));
}

static const char *save_filled(bgi_saver *s, double value, int64_t count)
{
    const double values[1] = {value};
    const char *name = bgi_save_reals(s, bgi_save_dtype(s, 0), 1, (const int64_t[]){1}, values);

    return bgi_save_2(s, "Expand", name, bgi_save_list(s, &count, 1));
}

static void save_layer_norm(bgi_saver *s)
{
    const bgi_norm_attributes *f = s->op->attributes;
    const bg_type type = bgi_save_type(s, 0);
    const int32_t batch = bgi_save_batch_before(s, 0, type.rank - 1);
    const char *x, *gamma, *beta, *y;

    if (s->options->opset < 17)
        bgi_save_widen(s);
    x = bgi_save_in(s, 0);
    gamma = bgi_save_in(s, 1);
    beta = bgi_save_in(s, 2);
    if (s->options->opset >= 17) {
        if (gamma == NULL)
            gamma = save_filled(s, 1.0, type.dims[type.rank - 1]);
        y = bgi_save_3(s, "LayerNormalization", x, gamma, beta);
        bgi_save_int(s, "axis", -1);
        bgi_save_real(s, "epsilon", f->epsilon);
    } else {
        y = by_root_of_squares(s, bgi_save_2(s, "Sub", x, mean_of_rows(s, x)), f->epsilon);
        if (gamma != NULL)
            y = bgi_save_2(s, "Add", bgi_save_2(s, "Mul", y, gamma), beta);
    }
    bgi_save_out(s, 0, y, batch);
}

static void save_rms_norm(bgi_saver *s)
{
    const bgi_rms_norm_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch_before(s, 0, bgi_save_type(s, 0).rank - 1);
    const char *x, *gamma, *y;

    bgi_save_widen(s);
    x = bgi_save_in(s, 0);
    gamma = bgi_save_in(s, 1);
    y = by_root_of_squares(s, x, f->epsilon);
    bgi_save_out(s, 0, gamma != NULL ? bgi_save_2(s, "Mul", y, gamma) : y, batch);
}

/* ---- the cosine between vectors along an axis ---- */

static const char *sum_along(bgi_saver *s, const char *x, const char *y, int64_t axis)
{
    y = bgi_save_2(s, "ReduceSum", bgi_save_2(s, "Mul", x, y), bgi_save_list(s, &axis, 1));
    bgi_save_int(s, "keepdims", 0);
    return y;
}

static void save_cosine(bgi_saver *s)
{
    const bgi_cosine_attributes *f = s->op->attributes;
    const bg_type type = bgi_save_type(s, 0);
    int32_t batch = bgi_save_batch_broadcast(s, &type);
    const char *operands[2], *y, *least;

    if (batch == (int32_t)f->axis)
        batch = bgi_save_fix(s, "it adds up the samples");
    else if (batch > (int32_t)f->axis)
        batch--;
    bgi_save_widen(s);
    least = bgi_save_number(s, bgi_save_dtype(s, 0), f->epsilon * f->epsilon);
    for (uint32_t i = 0; i < 2; i++)
        operands[i] = bgi_save_in(s, i);
    y = sum_along(s, operands[0], operands[1], f->axis);
    for (uint32_t i = 0; i < 2; i++)
        y = bgi_save_2(
            s, "Div", y,
            bgi_save_1(s, "Sqrt", bgi_save_2(s, "Max", sum_along(s, operands[i], operands[i], f->axis), least)));
    bgi_save_out_as_is(s, 0, y, batch);
}

/* ---- over groups of channels ---- */

/* Saves a group norm as an instance norm whose channels are the groups. Gamma and beta are applied after it. */
static void save_group_norm(bgi_saver *s)
{
    const bgi_group_norm_attributes *f = s->op->attributes;
    const bg_type type = bgi_save_type(s, 0);
    const int32_t batch = bgi_save_batch_first(s, 0);
    const int64_t groups[3] = {type.dims[0], f->groups, bg_type_element_count(&type) / (type.dims[0] * f->groups)};
    int64_t dims[BG_MAX_RANK];
    const char *y, *vectors[2];

    bgi_save_widen(s);
    for (uint32_t i = 1; i < type.rank; i++)
        dims[i - 1] = i == 1 ? type.dims[1] : 1;
    for (uint32_t i = 0; i < 2; i++)
        vectors[i] = bgi_save_reshape(s, bgi_save_in(s, 1 + i), type.rank - 1, dims, BGI_SAVE_NO_BATCH);
    y = bgi_save_reshape(s, bgi_save_in(s, 0), 3, groups, batch);
    y = bgi_save_3(s, "InstanceNormalization", y, save_filled(s, 1.0, f->groups), save_filled(s, 0.0, f->groups));
    bgi_save_real(s, "epsilon", f->epsilon);
    y = bgi_save_reshape(s, y, type.rank, type.dims, batch);
    bgi_save_out(s, 0, bgi_save_2(s, "Add", bgi_save_2(s, "Mul", y, vectors[0]), vectors[1]), batch);
}

/* ---- over the samples: with running statistics ---- */

static void save_batch_norm(bgi_saver *s)
{
    const bgi_norm_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch_first(s, 0);
    const char *operands[5], *y;

    /* ONNX allows float statistics with 16-bit operands from opset 15. */
    if (s->options->opset < 15 && bgi_save_type(s, 0).dtype != bgi_save_type(s, 3).dtype)
        bgi_save_widen(s);
    for (uint32_t i = 0; i < 5; i++)
        operands[i] = bgi_save_in(s, i);
    y = bgi_save_node(s, "BatchNormalization", 5, operands);
    bgi_save_real(s, "epsilon", f->epsilon);
    bgi_save_real(s, "momentum", 1.0 - f->momentum);
    bgi_save_out(s, 0, y, batch);
}

/* Writes a node that has an effect only in training, for programs that train the file. */
static void save_dropout(bgi_saver *s)
{
    const bgi_dropout_attributes *f = s->op->attributes;
    const char *x = bgi_save_in(s, 0);

    bgi_save_out(s, 0, bgi_save_2(s, "Dropout", x, bgi_save_number(s, BG_FLOAT32, f->probability)),
                 bgi_save_batch(s, 0));
}

const bgi_save_row bgi_save_norm[] = {
    {&bgi_op_softmax, save_softmax, 0, NULL},
    {&bgi_op_log_softmax, save_log_softmax, 0, NULL},
    {&bgi_op_layer_norm, save_layer_norm, 0, NULL},
    {&bgi_op_cosine, save_cosine, 0, NULL},
    {&bgi_op_group_norm, save_group_norm, 0, NULL},
    {&bgi_op_rms_norm, save_rms_norm, 0, NULL},
    {&bgi_op_batch_norm, save_batch_norm, 14, NULL},
    {&bgi_op_dropout, save_dropout, 0, NULL},
    {0},
};
