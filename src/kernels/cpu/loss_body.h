/*
 * loss_body.h: cross-entropy and the count of correct rows. Exponentials are float32 vectors; a row's logarithm and all
 * sums over rows are double. Parts leave their sums in scratch; they are added in part order.
 */
#ifndef BGI_CPU_LOSS_BODY_H
#define BGI_CPU_LOSS_BODY_H

#include "kernels/cpu/convert_body.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/math_body.h"

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

/* NaN when there is one: max alone would lose it. */
static float find_row_maximum(const float *x, int64_t count)
{
    vf best = vset(-INFINITY);
    float lane[LANES], maximum = -INFINITY;

    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t live = count - i < LANES ? count - i : LANES;
        vf v = vload_n(x + i, live);

        if (live < LANES)
            for (int64_t l = live; l < LANES; l++)
                v[l] = -INFINITY;
        best = vselect(vmask_or(vgreater(v, best), vis_nan(v)), v, best);
    }
    vstore(lane, best);
    for (int i = 0; i < LANES; i++)
        maximum = lane[i] > maximum || lane[i] != lane[i] ? lane[i] : maximum;
    return maximum;
}

static double find_log_sum(const float *x, int64_t count)
{
    const float maximum = find_row_maximum(x, count);
    double sum = 0.0;

    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t live = count - i < LANES ? count - i : LANES;
        float lane[LANES];

        if (live == LANES) {
            sum += vsum(vexp(vload(x + i) - vset(maximum)));
            continue;
        }
        vstore(lane, vexp(vload_n(x + i, live) - vset(maximum)));
        for (int64_t l = 0; l < live; l++)
            sum += lane[l];
    }
    return (double)maximum + log(sum);
}

static void run_cross_entropy(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[0]);
    loss_sums *sums = find_sums(call, &rows, part);
    float *loss = call->operands[2], *buffer = find_row_buffer(call, &rows, part);
    double *log_sums = call->operands[3];

    *sums = (loss_sums){0};
    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const float *x = view_floats(rows.dtype, call->operands[0], row * rows.classes, rows.classes, buffer);
        const int64_t label = read_label(&call->types[1], call->operands[1], row);
        double value = 0.0;

        log_sums[row] = find_log_sum(x, rows.classes);
        if (label != attributes->ignore_index) {
            value = label < 0 || label >= rows.classes ? (double)NAN : log_sums[row] - (double)x[label];
            sums->weight += 1.0;
        }
        if (attributes->reduction == BG_LOSS_NONE)
            loss[row] = (float)value;
        sums->total += value;
    }
}

static void finish_cross_entropy(const bg_kernel_call *call)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[0]);
    loss_sums all = {0};

    for (uint32_t part = 0; part < rows.parts; part++) {
        all.total += find_sums(call, &rows, part)->total;
        all.weight += find_sums(call, &rows, part)->weight;
    }
    if (attributes->reduction == BG_LOSS_SUM)
        *(float *)call->operands[2] = (float)all.total;
    if (attributes->reduction == BG_LOSS_MEAN) {
        *(float *)call->operands[2] = (float)(all.weight > 0.0 ? all.total / all.weight : 0.0);
        bgi_store(call->types[4].dtype, call->operands[4], 0, all.weight);
    }
}

/* scale e^(x - log_sum); the difference is taken in double, where large logits lose no digits. */
static void scale_softmax(const float *x, double log_sum, float scale, float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t live = count - i < LANES ? count - i : LANES;
        float lane[LANES] = {0};

        for (int64_t l = 0; l < live; l++)
            lane[l] = (float)((double)x[i + l] - log_sum);
        vstore_n(y + i, vset(scale) * vexp(vload(lane)), live);
    }
}

/* dlogits may be the logits' own memory: a row is read before it is written. */
static void run_cross_entropy_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_loss_attributes *attributes = call->attributes;
    const bgi_loss_rows rows = bgi_loss_rows_read(&call->types[1]);
    const float *dloss = call->operands[0];
    const double *log_sums = call->operands[3];
    float *buffer = find_row_buffer(call, &rows, part);
    const bgi_loss_classes classes = bgi_loss_find_classes(call, rows.classes);
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
            /* near probability one the difference to one needs all of the double's digits */
            const int64_t here = label - classes.first;
            const bool is_here = here >= 0 && here < classes.live;
            const double at_label = is_here ? scale * (exp((double)x[here] - log_sums[row]) - 1.0) : 0.0;

            scale_softmax(x, log_sums[row], (float)scale, dx, classes.live);
            memset(dx + classes.live, 0, (size_t)(rows.classes - classes.live) * sizeof(float));
            if (is_here)
                dx[here] = (float)at_label;
        }
        if (rows.dtype != BG_FLOAT32)
            narrow(buffer, rows.classes, (uint16_t *)call->operands[call->input_count] + at);
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
