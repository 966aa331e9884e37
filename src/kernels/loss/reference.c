/*
 * reference.c: cross-entropy and the count of correct rows, in plain C. A row is the last dim of the logits. Sums run
 * over rows in index order.
 */
#include "kernels/kernels.h"

#include "kernels/loss/attributes.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

/* ---- cross-entropy ---- */

typedef struct logit_rows {
    const void *data;
    bg_dtype dtype;
    int64_t count, classes;
} logit_rows;

static logit_rows read_logits(const bg_kernel_call *call, uint32_t input)
{
    const bg_type *type = bgi_input_type(call, input);
    const int64_t classes = type->dims[type->rank - 1];

    return (logit_rows){call->operands[input], type->dtype, bg_type_element_count(type) / classes, classes};
}

static double logit_at(const logit_rows *logits, int64_t row, int64_t class_index)
{
    return bgi_load(logits->dtype, logits->data, row * logits->classes + class_index);
}

static int64_t label_at(const bg_kernel_call *call, uint32_t input, int64_t row)
{
    return (int64_t)bgi_load(bgi_input_type(call, input)->dtype, call->operands[input], row);
}

static double log_sum_exp(const logit_rows *logits, int64_t row)
{
    double maximum = -INFINITY, sum = 0.0;

    for (int64_t c = 0; c < logits->classes; c++)
        if (logit_at(logits, row, c) > maximum)
            maximum = logit_at(logits, row, c);
    for (int64_t c = 0; c < logits->classes; c++)
        sum += exp(logit_at(logits, row, c) - maximum);
    return maximum + log(sum);
}

typedef struct loss_sum {
    double total, weight;
} loss_sum;

/* Returns the weight of a class; if operand is 0, all classes have weight 1. */
static double class_weight(const bg_kernel_call *call, uint32_t operand, int64_t class_index)
{
    return operand == 0 ? 1.0 : bgi_load(bgi_input_type(call, operand)->dtype, call->operands[operand], class_index);
}

/* Adds the loss of a row whose label has this weight, unless the label is ignored; an invalid label makes the loss
 * NaN. */
static void add_loss(const bg_kernel_call *call, loss_sum *sum, int64_t row, int64_t classes, double weight,
                     double loss)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const int64_t label = label_at(call, 1, row);

    if (label == attributes->ignore_index)
        loss = 0.0;
    else if (label < 0 || label >= classes)
        loss = (double)NAN;
    if (attributes->reduction == BG_LOSS_NONE)
        bgi_store(bgi_output_type(call, 0)->dtype, bgi_output(call, 0), row, loss);
    sum->total += loss;
    sum->weight += label != attributes->ignore_index ? weight : 0.0;
}

static void store_loss(const bg_kernel_call *call, const loss_sum *sum)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const bg_dtype dtype = bgi_output_type(call, 0)->dtype;

    if (attributes->reduction == BG_LOSS_SUM)
        bgi_store(dtype, bgi_output(call, 0), 0, sum->total);
    if (attributes->reduction == BG_LOSS_MEAN) {
        bgi_store(dtype, bgi_output(call, 0), 0, sum->weight > 0.0 ? sum->total / sum->weight : 0.0);
        bgi_store(bgi_output_type(call, 2)->dtype, bgi_output(call, 2), 0, sum->weight);
    }
}

void bgi_reference_cross_entropy(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const uint32_t weights = call->input_count > 2 ? 2 : 0;
    const logit_rows logits = read_logits(call, 0);
    loss_sum sum = {0};

    (void)part;
    for (int64_t row = 0; row < logits.count; row++) {
        const int64_t label = label_at(call, 1, row);
        const bool is_class = label >= 0 && label < logits.classes;
        const double log_sum = attributes->are_log_likelihoods ? 0.0 : log_sum_exp(&logits, row);
        const double weight = is_class ? class_weight(call, weights, label) : 1.0;
        double all = 0.0;

        for (int64_t c = 0; attributes->smoothing > 0.0 && c < logits.classes; c++)
            all += class_weight(call, weights, c) * (log_sum - logit_at(&logits, row, c));
        bgi_store(BG_FLOAT64, bgi_output(call, 1), row, log_sum);
        add_loss(call, &sum, row, logits.classes, weight,
                 is_class
                     ? bgi_loss_of_row(attributes, logits.classes, weight, log_sum - logit_at(&logits, row, label), all)
                     : 0.0);
    }
    store_loss(call, &sum);
}

/* Computes dlogits = scale (softmax - one at the label), weighted and smoothed; scale is the row's dloss, or dloss /
 * weight for a mean. dlogits may overwrite the logits. */
void bgi_reference_cross_entropy_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const logit_rows logits = read_logits(call, 1);
    const bg_dtype loss_dtype = bgi_input_type(call, 0)->dtype;
    const bgi_loss_classes classes = bgi_loss_find_classes(call, logits.classes);
    const uint32_t last = attributes->reduction == BG_LOSS_MEAN ? 5 : 4;
    const uint32_t weights = call->input_count > last ? last : 0;
    double scale = bgi_load(loss_dtype, call->operands[0], 0), total = 0.0;

    (void)part;
    if (attributes->reduction == BG_LOSS_MEAN)
        scale /= bgi_load(bgi_input_type(call, 4)->dtype, call->operands[4], 0);
    for (int64_t c = 0; attributes->smoothing > 0.0 && c < classes.total; c++)
        total += class_weight(call, weights, c);
    for (int64_t row = 0; row < logits.count; row++) {
        const int64_t label = label_at(call, 2, row);
        const bool is_ignored = label == attributes->ignore_index;
        const bool is_invalid = label < 0 || label >= classes.total;
        const double log_sum = bgi_load(BG_FLOAT64, call->operands[3], row);
        const bgi_loss_shares shares = bgi_loss_find_shares(
            attributes, classes.total, is_invalid ? 1.0 : class_weight(call, weights, label), total);

        if (attributes->reduction == BG_LOSS_NONE)
            scale = bgi_load(loss_dtype, call->operands[0], row);
        for (int64_t c = 0; c < logits.classes; c++) {
            const double softmax = attributes->are_log_likelihoods ? 0.0 : exp(logit_at(&logits, row, c) - log_sum);
            const double less = (classes.first + c == label ? shares.at_label : 0.0) +
                                (shares.everywhere > 0.0 ? shares.everywhere * class_weight(call, weights, c) : 0.0);
            const double gradient = is_invalid ? (double)NAN : scale * (shares.softmax * softmax - less);

            bgi_store(logits.dtype, bgi_output(call, 0), row * logits.classes + c,
                      is_ignored || c >= classes.live ? 0.0 : gradient);
        }
    }
}

/* ---- cross-entropy over sharded classes ---- */

void bgi_reference_logit_maximum(const bg_kernel_call *call, uint32_t part)
{
    const logit_rows logits = read_logits(call, 0);
    const bgi_loss_classes classes = bgi_loss_find_classes(call, logits.classes);

    (void)part;
    for (int64_t row = 0; row < logits.count; row++) {
        double maximum = -INFINITY;

        for (int64_t c = 0; c < classes.live; c++) {
            const double logit = logit_at(&logits, row, c);
            if (logit > maximum || isnan(logit))
                maximum = logit;
        }
        bgi_store(BG_FLOAT64, bgi_output(call, 0), row, maximum);
    }
}

void bgi_reference_logit_sums(const bg_kernel_call *call, uint32_t part)
{
    const logit_rows logits = read_logits(call, 0);
    const bgi_loss_classes classes = bgi_loss_find_classes(call, logits.classes);

    (void)part;
    for (int64_t row = 0; row < logits.count; row++) {
        const int64_t label = label_at(call, 1, row) - classes.first;
        const double maximum = bgi_load(BG_FLOAT64, call->operands[2], row);
        double sum = 0.0;

        for (int64_t c = 0; c < classes.live; c++)
            sum += exp(logit_at(&logits, row, c) - maximum);
        bgi_store(BG_FLOAT64, bgi_output(call, 0), row, sum);
        bgi_store(BG_FLOAT64, bgi_output(call, 1), row,
                  label >= 0 && label < classes.live ? logit_at(&logits, row, label) : 0.0);
    }
}

void bgi_reference_sharded_cross_entropy(const bg_kernel_call *call, uint32_t part)
{
    const logit_rows logits = read_logits(call, 0);
    const bgi_loss_classes classes = bgi_loss_find_classes(call, logits.classes);
    loss_sum sum = {0};

    (void)part;
    for (int64_t row = 0; row < logits.count; row++) {
        const double log_sum =
            bgi_load(BG_FLOAT64, call->operands[2], row) + log(bgi_load(BG_FLOAT64, call->operands[3], row));

        bgi_store(BG_FLOAT64, bgi_output(call, 1), row, log_sum);
        add_loss(call, &sum, row, classes.total, 1.0, log_sum - bgi_load(BG_FLOAT64, call->operands[4], row));
    }
    store_loss(call, &sum);
}

/* ---- correct rows ---- */

void bgi_reference_correct_count(const bg_kernel_call *call, uint32_t part)
{
    const logit_rows logits = read_logits(call, 0);
    int64_t count = 0;

    (void)part;
    for (int64_t row = 0; row < logits.count; row++) {
        int64_t largest = 0;

        for (int64_t c = 1; c < logits.classes; c++)
            if (logit_at(&logits, row, c) > logit_at(&logits, row, largest) ||
                (isnan(logit_at(&logits, row, c)) && !isnan(logit_at(&logits, row, largest))))
                largest = c;
        count += label_at(call, 1, row) == largest;
    }
    bgi_store(BG_INT32, bgi_output(call, 0), 0, (double)count);
}
