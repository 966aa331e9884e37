/*
 * save_loss.c: saves losses and metrics, for models that have them among their outputs. If no label counts, a mean is 0
 * in the library and NaN in ONNX.
 */
#include "kernels/loss/attributes.h"
#include "kernels/pointwise_loss/attributes.h"
#include "onnx/save.h"
#include "ops/ops.h"

static const char *const reductions[] = {[BG_LOSS_MEAN] = "mean", [BG_LOSS_SUM] = "sum", [BG_LOSS_NONE] = "none"};

/* Saves logits [.., C] as rows, and labels [..] as a vector of int64. */
static void save_rows(bgi_saver *s, const char **logits, const char **labels)
{
    const bg_type type = bgi_save_type(s, 0);
    const int64_t rows[2] = {-1, type.dims[type.rank - 1]};

    *logits = bgi_save_in(s, 0);
    *labels = bgi_save_cast(s, bgi_save_ids(s, 1), BGI_ONNX_INT64);
    if (type.rank == 2)
        return;
    *logits = bgi_save_reshape(s, *logits, 2, rows, BGI_SAVE_NO_BATCH);
    *labels = bgi_save_reshape(s, *labels, 1, rows, BGI_SAVE_NO_BATCH);
}

static void save_cross_entropy(bgi_saver *s)
{
    const bgi_loss_attributes *f = s->op->attributes;
    const bg_type y_type = bgi_save_result(s, 0), labels_type = bgi_save_type(s, 1);
    const int32_t batch = f->reduction == BG_LOSS_NONE ? bgi_save_batch(s, 1) : BGI_SAVE_NO_BATCH;
    const char *logits, *labels, *y;

    if (f->smoothing != 0.0 || f->axis != BG_MESH_NONE) {
        bgi_save_refuse(s, "%s",
                        f->smoothing != 0.0 ? "ONNX has no smoothing of labels" : "its classes are cut over a mesh");
        return;
    }
    if (bgi_save_batch(s, 0) != bgi_save_batch(s, 1))
        bgi_save_fix(s, "the samples of its operands are in different dimensions");
    bgi_save_widen(s);
    save_rows(s, &logits, &labels);
    y = bgi_save_3(s, f->are_log_likelihoods ? "NegativeLogLikelihoodLoss" : "SoftmaxCrossEntropyLoss", logits, labels,
                   bgi_save_in(s, 2));
    bgi_save_text(s, "reduction", reductions[f->reduction]);
    bgi_save_int(s, "ignore_index", f->ignore_index);
    if (f->reduction == BG_LOSS_NONE && labels_type.rank != 1)
        y = bgi_save_reshape(s, y, y_type.rank, y_type.dims, batch);
    bgi_save_out_as_is(s, 0, y, batch);
}

/* ---- element by element ---- */

static const char *number(bgi_saver *s, const char *op, const char *x, double value)
{
    return bgi_save_2(s, op, x, bgi_save_number(s, bgi_save_dtype(s, 0), value));
}

/* Saves a selection: `inner` where the comparison `op` of d and `limit` is true, otherwise `outer`. */
static const char *by_size(bgi_saver *s, const char *op, const char *d, double limit, const char *inner,
                           const char *outer)
{
    return bgi_save_3(s, "Where", number(s, op, d, limit), inner, outer);
}

/* Saves (1 - t) p + (1 + (weight - 1) t) softplus(-p). */
static const char *save_logits_loss(bgi_saver *s, const char *p, const char *t, double weight)
{
    const char *soft = bgi_save_1(s, "Softplus", bgi_save_1(s, "Neg", p));
    const char *rest = number(s, "Add", bgi_save_1(s, "Neg", t), 1.0);

    if (weight != 1.0)
        soft = bgi_save_2(s, "Mul", soft, number(s, "Add", number(s, "Mul", t, weight - 1.0), 1.0));
    return bgi_save_2(s, "Add", bgi_save_2(s, "Mul", rest, p), soft);
}

/* Saves -(t log p + (1 - t) log(1 - p)), with logarithms of at least -100. */
static const char *save_binary_loss(bgi_saver *s, const char *p, const char *t)
{
    const char *yes = number(s, "Max", bgi_save_1(s, "Log", p), -100.0);
    const char *no = number(s, "Add", bgi_save_1(s, "Neg", p), 1.0);
    const char *rest = number(s, "Add", bgi_save_1(s, "Neg", t), 1.0);

    no = number(s, "Max", bgi_save_1(s, "Log", no), -100.0);
    return bgi_save_1(s, "Neg", bgi_save_2(s, "Add", bgi_save_2(s, "Mul", t, yes), bgi_save_2(s, "Mul", rest, no)));
}

static const char *save_elements(bgi_saver *s, const bgi_pointwise_loss_attributes *f, const char *p, const char *t)
{
    const double a = f->parameter;
    const char *d, *size, *square;

    if (f->function == BG_LOSS_BINARY_LOGITS)
        return save_logits_loss(s, p, t, a);
    if (f->function == BG_LOSS_BINARY)
        return save_binary_loss(s, p, t);
    if (f->function == BG_LOSS_KL_LOG)
        return bgi_save_2(s, "Mul", bgi_save_1(s, "Exp", t), bgi_save_2(s, "Sub", t, p));
    if (f->function == BG_LOSS_KL) { /* a target of 0 gives 0, although its logarithm is infinite */
        d = bgi_save_2(s, "Mul", t, bgi_save_2(s, "Sub", bgi_save_1(s, "Log", t), p));
        return by_size(s, "Greater", t, 0.0, d, bgi_save_number(s, bgi_save_dtype(s, 0), 0.0));
    }
    d = bgi_save_2(s, "Sub", p, t);
    if (f->function == BG_LOSS_SQUARED)
        return bgi_save_2(s, "Mul", d, d);
    size = bgi_save_1(s, "Abs", d);
    if (f->function == BG_LOSS_ABSOLUTE || (f->function == BG_LOSS_SMOOTH_L1 && a == 0.0))
        return size;
    square = bgi_save_2(s, "Mul", d, d);
    if (f->function == BG_LOSS_SMOOTH_L1)
        return by_size(s, "Less", size, a, number(s, "Mul", square, 0.5 / a), number(s, "Sub", size, a / 2.0));
    return by_size(s, "LessOrEqual", size, a, number(s, "Mul", square, 0.5),
                   number(s, "Mul", number(s, "Sub", size, a / 2.0), a));
}

static void save_pointwise_loss(bgi_saver *s)
{
    const bgi_pointwise_loss_attributes *f = s->op->attributes;
    const bg_type type = bgi_save_type(s, 0);
    int32_t batch = bgi_save_batch_broadcast(s, &type);
    const char *p, *y;

    bgi_save_widen(s);
    p = bgi_save_in(s, 0);
    y = save_elements(s, f, p, bgi_save_in(s, 1));
    if (f->reduction != BG_LOSS_NONE) { /* over all dimensions */
        y = bgi_save_1(s, f->reduction == BG_LOSS_MEAN ? "ReduceMean" : "ReduceSum", y);
        bgi_save_int(s, "keepdims", 0);
        batch = BGI_SAVE_NO_BATCH;
        bgi_save_out_as_is(s, 0, y, batch);
    } else {
        bgi_save_out(s, 0, y, batch);
    }
}

/* Saves the number of rows whose first largest element is at the label. */
static void save_correct_count(bgi_saver *s)
{
    const char *logits, *labels, *y;

    if (bgi_save_batch(s, 0) != bgi_save_batch(s, 1))
        bgi_save_fix(s, "the samples of its operands are in different dimensions");
    bgi_save_widen(s);
    save_rows(s, &logits, &labels);
    y = bgi_save_1(s, "ArgMax", logits);
    bgi_save_int(s, "axis", 1);
    bgi_save_int(s, "keepdims", 0);
    y = bgi_save_cast(s, bgi_save_2(s, "Equal", y, labels), BGI_ONNX_INT32);
    y = bgi_save_1(s, "ReduceSum", y);
    bgi_save_int(s, "keepdims", 0);
    bgi_save_out_as_is(s, 0, y, BGI_SAVE_NO_BATCH);
}

const bgi_save_row bgi_save_loss[] = {
    {&bgi_op_cross_entropy, save_cross_entropy, 0, NULL},
    {&bgi_op_pointwise_loss, save_pointwise_loss, 0, NULL},
    {&bgi_op_correct_count, save_correct_count, 0, NULL},
    {&bgi_op_ctc_loss, NULL, 0, "ONNX has no connectionist temporal classification"},
    {0},
};
