/*
 * fast_body.h: cross-entropy, over all classes or a shard of them, and the count of correct rows. Exponentials are
 * float32 vectors; a row's logarithm and all sums over rows are double. Parts store their sums in scratch; they are
 * added in part order.
 */
#ifndef BGI_KERNELS_LOSS_FAST_BODY_H
#define BGI_KERNELS_LOSS_FAST_BODY_H

#include "kernels/cpu/convert_body.h"
#include "kernels/cpu/math_body.h"
#include "kernels/loss/attributes.h"
#include "kernels/loss/fast.h"

typedef struct loss_sums {
    double total, weight;
    int64_t correct;
} loss_sums;

static loss_sums *find_sums(const bg_kernel_call *call, const bgi_loss_rows *rows, uint32_t part)
{
    return (loss_sums *)(void *)((char *)call->scratch + part * bgi_loss_part_bytes(rows));
}

static float *find_row_buffer(const bg_kernel_call *call, const bgi_loss_rows *rows, uint32_t part)
{
    return (float *)(void *)((char *)call->scratch + part * bgi_loss_part_bytes(rows) + 64);
}

static int64_t read_label(const bg_type *type, const void *labels, int64_t row)
{
    return type->dtype == BG_UINT8 ? ((const uint8_t *)labels)[row] : ((const int32_t *)labels)[row];
}

/* Returns the larger of two, or NaN if one of them is NaN; a maximum instruction would lose the NaN. */
ALWAYS_INLINE vf vlarger(vf so_far, vf v)
{
    return vselect(vmask_or(vgreater(v, so_far), vis_nan(v)), v, so_far);
}

static float find_row_maximum(const float *x, int64_t count)
{
    vf best[4] = {vset(-INFINITY), vset(-INFINITY), vset(-INFINITY), vset(-INFINITY)};
    float lane[LANES], maximum = -INFINITY;
    int64_t i = 0;

    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        UNROLL
        for (int u = 0; u < 4; u++)
            best[u] = vlarger(best[u], vload(x + i + u * LANES));
    }
    for (; i + LANES <= count; i += LANES)
        best[0] = vlarger(best[0], vload(x + i));
    if (i < count) {
        for (int64_t l = 0; l < LANES; l++)
            lane[l] = i + l < count ? x[i + l] : -INFINITY;
        best[1] = vlarger(best[1], vload(lane));
    }
    vstore(lane, vlarger(vlarger(best[0], best[1]), vlarger(best[2], best[3])));
    for (int l = 0; l < LANES; l++)
        maximum = lane[l] > maximum || lane[l] != lane[l] ? lane[l] : maximum;
    return maximum;
}

enum { LOG_SUM_VECTORS = 8 }; /* vectors added in float32 before the sum is added to the double */

/* Returns the sum of e^(x - maximum). */
static double sum_exponentials(const float *x, float maximum, int64_t count)
{
    double total = 0.0;
    int64_t i = 0;

    for (; i + LOG_SUM_VECTORS * LANES <= count; i += LOG_SUM_VECTORS * LANES) {
        vf sum = vset(0.0f);

        UNROLL
        for (int u = 0; u < LOG_SUM_VECTORS; u++)
            sum += vexp(vload(x + i + u * LANES) - vset(maximum));
        total += vsum(sum);
    }
    for (; i + LANES <= count; i += LANES)
        total += vsum(vexp(vload(x + i) - vset(maximum)));
    if (i < count) {
        float lane[LANES];

        vstore(lane, vexp(vload_n(x + i, count - i) - vset(maximum)));
        for (int64_t l = 0; l < count - i; l++)
            total += lane[l];
    }
    return total;
}

static double find_log_sum(const float *x, int64_t count)
{
    const float maximum = find_row_maximum(x, count);

    return (double)maximum + log(sum_exponentials(x, maximum, count));
}

/* Returns the sum of weights * (log_sum - x); if weights is NULL, all are 1. Differences are computed from log_sum
 * rounded to float32; what the rounding lost is multiplied by `total`, the sum of weights, and added. */
static double sum_over_classes(const float *x, const float *weights, double log_sum, double total, int64_t count)
{
    const vf high = vset((float)log_sum), one = vset(1.0f);
    double sum = total * (log_sum - (double)(float)log_sum);

    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t live = count - i < LANES ? count - i : LANES;
        const vf weight = weights != NULL ? vload_n(weights + i, live) : one;
        float lane[LANES] = {0};

        vstore_n(lane, weight * (high - vload_n(x + i, live)), live);
        sum += vsum(vload(lane));
    }
    return sum;
}

static double sum_class_weights(const float *weights, int64_t classes)
{
    double sum = 0.0;

    for (int64_t c = 0; weights != NULL && c < classes; c++)
        sum += (double)weights[c];
    return weights != NULL ? sum : (double)classes;
}

/* Adds the loss of a row whose label has this weight, unless the label is ignored; an invalid label makes the loss
 * NaN. */
static void add_row_loss(const bg_kernel_call *call, loss_sums *sums, int64_t row, int64_t classes, double weight,
                         double loss)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const int64_t label = read_label(&call->types[1], call->operands[1], row);

    if (label == attributes->ignore_index)
        loss = 0.0;
    else if (label < 0 || label >= classes)
        loss = (double)NAN;
    if (attributes->reduction == BG_LOSS_NONE)
        ((float *)call->operands[call->input_count])[row] = (float)loss;
    sums->total += loss;
    sums->weight += label != attributes->ignore_index ? weight : 0.0;
}

static void run_cross_entropy(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[0]);
    const float *weights = call->input_count > 2 ? call->operands[2] : NULL;
    const double total = sum_class_weights(weights, rows.classes);
    loss_sums *sums = find_sums(call, &rows, part);
    float *buffer = find_row_buffer(call, &rows, part);
    double *log_sums = call->operands[call->input_count + 1];

    *sums = (loss_sums){0};
    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const float *x = view_floats(rows.dtype, call->operands[0], row * rows.classes, rows.classes, buffer);
        const int64_t label = read_label(&call->types[1], call->operands[1], row);

        const bool is_class = label >= 0 && label < rows.classes;
        const double weight = is_class && weights != NULL ? (double)weights[label] : 1.0;
        double loss = 0.0;

        log_sums[row] = attributes->are_log_likelihoods ? 0.0 : find_log_sum(x, rows.classes);
        if (is_class)
            loss = bgi_loss_of_row(
                attributes, rows.classes, weight, log_sums[row] - (double)x[label],
                attributes->smoothing > 0.0 ? sum_over_classes(x, weights, log_sums[row], total, rows.classes) : 0.0);
        add_row_loss(call, sums, row, rows.classes, weight, loss);
    }
}

/* Adds up the sums of the parts and stores the reduced results; SHARDED_CROSS_ENTROPY uses this function too. */
static void finish_cross_entropy(const bg_kernel_call *call)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[0]);
    const uint32_t out = call->input_count;
    loss_sums all = {0};

    for (uint32_t part = 0; part < rows.parts; part++) {
        all.total += find_sums(call, &rows, part)->total;
        all.weight += find_sums(call, &rows, part)->weight;
    }
    if (attributes->reduction == BG_LOSS_SUM)
        *(float *)call->operands[out] = (float)all.total;
    if (attributes->reduction == BG_LOSS_MEAN) {
        *(float *)call->operands[out] = (float)(all.weight > 0.0 ? all.total / all.weight : 0.0);
        bgi_store(call->types[out + 2].dtype, call->operands[out + 2], 0, all.weight);
    }
}

/* Computes scale e^(x - log_sum), with log_sum in two parts. The difference from the first part is exact for x near it,
 * so large logits lose no digits; the factor includes the second part. */
static void scale_softmax(const float *x, double log_sum, double scale, float *y, int64_t count)
{
    const float high = (float)log_sum;
    const vf factor = vset((float)(isfinite(log_sum) ? scale * exp((double)high - log_sum) : scale));
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        vstore(y + i, factor * vexp(vload(x + i) - vset(high)));
    if (i < count)
        vstore_n(y + i, factor * vexp(vload_n(x + i, count - i) - vset(high)), count - i);
}

/* Computes dx = dx - share weights; if weights is NULL, all are 1. */
static void take_from_classes(double share, const float *weights, int64_t count, float *dx)
{
    for (int64_t c = 0; c < count; c++)
        dx[c] -= (float)share * (weights != NULL ? weights[c] : 1.0f);
}

/* Computes the gradient of the rows of a part. dlogits may overwrite the logits, because a row is read before it is
 * written. */
static void run_cross_entropy_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[1]);
    const float *dloss = call->operands[0];
    const double *log_sums = call->operands[3];
    float *buffer = find_row_buffer(call, &rows, part);
    const bgi_loss_classes classes = bgi_loss_find_classes(call, rows.classes);
    const uint32_t last = attributes->reduction == BG_LOSS_MEAN ? 5 : 4;
    const float *weights = call->input_count > last ? call->operands[last] : NULL;
    const double total = sum_class_weights(weights, classes.total);
    double scale = (double)dloss[0];

    if (attributes->reduction == BG_LOSS_MEAN)
        scale /= bgi_load(call->types[4].dtype, call->operands[4], 0);
    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const int64_t label = read_label(&call->types[2], call->operands[2], row), at = row * rows.classes;
        const float *x = view_floats(rows.dtype, call->operands[1], at, rows.classes, buffer);
        float *dx = rows.dtype == BG_FLOAT32 ? (float *)call->operands[call->input_count] + at : buffer;

        if (attributes->reduction == BG_LOSS_NONE)
            scale = (double)dloss[row];
        if (label == attributes->ignore_index) {
            memset(dx, 0, (size_t)rows.classes * sizeof(float));
        } else if (label < 0 || label >= classes.total) {
            for (int64_t c = 0; c < rows.classes; c++)
                dx[c] = c < classes.live ? NAN : 0.0f;
        } else {
            /* for probabilities near one, the difference from one needs all digits of the double */
            const int64_t here = label - classes.first;
            const bool is_here = here >= 0 && here < classes.live;
            const double weight = weights != NULL ? (double)weights[label] : 1.0;
            const bgi_loss_shares shares = bgi_loss_find_shares(attributes, classes.total, weight, total);
            double at_label = is_here ? scale * shares.softmax * (exp((double)x[here] - log_sums[row]) - 1.0) : 0.0;

            if (shares.everywhere > 0.0)
                at_label += scale * shares.everywhere * (total - weight);
            if (attributes->are_log_likelihoods) {
                memset(dx, 0, (size_t)classes.live * sizeof(float));
                at_label = -scale * weight;
            } else {
                scale_softmax(x, log_sums[row], scale * shares.softmax, dx, classes.live);
            }
            if (shares.everywhere > 0.0)
                take_from_classes(scale * shares.everywhere, weights, classes.live, dx);
            memset(dx + classes.live, 0, (size_t)(rows.classes - classes.live) * sizeof(float));
            if (is_here)
                dx[here] = (float)at_label;
        }
        if (rows.dtype != BG_FLOAT32)
            narrow(rows.dtype, buffer, rows.classes, (uint16_t *)call->operands[call->input_count] + at);
    }
}

/* ---- sharded classes: the maximum, the sums, and the loss from the values combined over all shards ---- */

static void run_logit_maximum(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[0]);
    const bgi_loss_classes classes = bgi_loss_find_classes(call, rows.classes);
    float *buffer = find_row_buffer(call, &rows, part);
    double *maxima = call->operands[1];

    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++)
        maxima[row] = (double)find_row_maximum(
            view_floats(rows.dtype, call->operands[0], row * rows.classes, classes.live, buffer), classes.live);
}

static void run_logit_sums(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[0]);
    const bgi_loss_classes classes = bgi_loss_find_classes(call, rows.classes);
    float *buffer = find_row_buffer(call, &rows, part);
    const double *maxima = call->operands[2];
    double *sums = call->operands[3], *logits = call->operands[4];

    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const float *x = view_floats(rows.dtype, call->operands[0], row * rows.classes, classes.live, buffer);
        const int64_t label = read_label(&call->types[1], call->operands[1], row) - classes.first;

        sums[row] = sum_exponentials(x, (float)maxima[row], classes.live);
        logits[row] = label >= 0 && label < classes.live ? (double)x[label] : 0.0;
    }
}

static void run_sharded_cross_entropy(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[0]);
    const bgi_loss_classes classes = bgi_loss_find_classes(call, rows.classes);
    loss_sums *sums = find_sums(call, &rows, part);
    const double *maxima = call->operands[2], *exponentials = call->operands[3], *logits = call->operands[4];
    double *log_sums = call->operands[6];

    *sums = (loss_sums){0};
    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        log_sums[row] = maxima[row] + log(exponentials[row]);
        add_row_loss(call, sums, row, classes.total, 1.0, log_sums[row] - logits[row]);
    }
}

/* ---- correct rows ---- */

static void run_correct_count(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[0]);
    float *buffer = find_row_buffer(call, &rows, part);
    loss_sums *sums = find_sums(call, &rows, part);

    sums->correct = 0;
    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const float *x = view_floats(rows.dtype, call->operands[0], row * rows.classes, rows.classes, buffer);
        const float maximum = find_row_maximum(x, rows.classes);
        int64_t largest = 0;

        while (largest < rows.classes - 1 && x[largest] != maximum && x[largest] == x[largest])
            largest++;
        sums->correct += read_label(&call->types[1], call->operands[1], row) == largest;
    }
}

static void finish_correct_count(const bg_kernel_call *call)
{
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[0]);
    int64_t correct = 0;

    for (uint32_t part = 0; part < rows.parts; part++)
        correct += find_sums(call, &rows, part)->correct;
    *(int32_t *)call->operands[2] = (int32_t)correct;
}

#endif
