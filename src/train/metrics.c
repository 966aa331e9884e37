/*
 * metrics.c: the scalar outputs over a pass: means of floats, sums of integers, which are counts.
 *
 * A mean of a micro-batch counts by its samples that are no padding, which is Lightning's weight (the size of the
 * batch) at the grain at which values come. What a mode does not return is not covered. Sums are in the order of the
 * values.
 */
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/reference/element.h"

static bool is_scalar(const bgi_compiled_output *output)
{
    return bg_type_element_count(&output->stream.micro_batch_type) == 1;
}

static bgi_metric *find_metric(const bgi_metrics *metrics, const char *name)
{
    for (uint32_t i = 0; i < metrics->count; i++)
        if (strcmp(metrics->items[i].name, name) == 0)
            return &metrics->items[i];
    return NULL;
}

bg_status bgi_metrics_create(const bgi_compiled *compiled, uint32_t micro_batch, bgi_metrics *out, bg_error *error)
{
    bgi_metrics metrics = {.items = calloc(compiled->output_count + 1u, sizeof *metrics.items)};

    if (metrics.items == NULL)
        return bgi_error_memory(error, "metrics", compiled->output_count * sizeof *metrics.items);
    for (uint32_t i = 0; i < compiled->output_count; i++) {
        if (!is_scalar(&compiled->outputs[i]))
            continue;
        metrics.items[metrics.count].name = strdup(compiled->outputs[i].stream.name);
        if (metrics.items[metrics.count].name == NULL) {
            bgi_metrics_clear(&metrics);
            return bgi_error_memory(error, "metrics", 0);
        }
        metrics.items[metrics.count].is_count = !bg_dtype_is_float(compiled->outputs[i].stream.micro_batch_type.dtype);
        metrics.items[metrics.count].micro_batch = micro_batch;
        metrics.count++;
    }
    bgi_metrics_clear(out);
    *out = metrics;
    return BG_OK;
}

void bgi_metrics_reset(bgi_metrics *metrics)
{
    for (uint32_t i = 0; i < metrics->count; i++)
        metrics->items[i] = (bgi_metric){.name = metrics->items[i].name,
                                         .is_count = metrics->items[i].is_count,
                                         .micro_batch = metrics->items[i].micro_batch};
}

void bgi_metrics_clear(bgi_metrics *metrics)
{
    for (uint32_t i = 0; i < metrics->count; i++)
        free(metrics->items[i].name);
    free(metrics->items);
    *metrics = (bgi_metrics){0};
}

/* Replicas of a group had the same samples. */
static void add_values(bgi_metric *metric, const bg_trainer_call *call, double sum, uint64_t samples)
{
    sum /= (double)call->input_group_size;
    samples /= call->input_group_size;
    if (samples == 0)
        return; /* what the mode returns is padding */
    metric->sum += sum;
    metric->samples += samples;
    metric->last = sum / (double)samples;
}

/* Mode SUM: each replica has the sum over all of its micro-batches, where means of padding alone do not count. */
static void add_sums(bgi_metric *metric, const bgi_compiled *compiled, const bgi_compiled_output *output,
                     const bg_trainer_call *call)
{
    const uint64_t per_replica = (uint64_t)call->device_iterations * call->gradient_accumulation;
    uint64_t samples = 0;
    double sum = 0.0;

    for (uint32_t replica = 0; replica < call->replicas; replica++) {
        const double value = bgi_load(output->stream.micro_batch_type.dtype, output->data, (int64_t)replica);
        uint64_t counted = 0, own = 0;

        for (uint64_t i = 0; i < per_replica; i++) {
            const uint64_t valid = bg_trainer_call_valid(call, bgi_shape_value(&compiled->shape, i, replica));
            counted += valid > 0;
            own += valid;
        }
        samples += own;
        if (metric->is_count)
            sum += value;
        else if (counted > 0)
            sum += value / (double)counted * (double)own;
    }
    add_values(metric, call, sum, samples);
}

void bgi_metrics_add(bgi_metrics *metrics, const bgi_compiled *compiled, const bg_trainer_call *call)
{
    for (uint32_t i = 0; i < compiled->output_count; i++) {
        const bgi_compiled_output *output = &compiled->outputs[i];
        bgi_metric *metric = is_scalar(output) ? find_metric(metrics, output->stream.name) : NULL;
        const uint64_t count = bgi_output_value_count(compiled, output, call->device_iterations);
        uint64_t samples = 0;
        double sum = 0.0;

        if (metric == NULL)
            continue;
        if (output->mode == BG_OUTPUT_SUM) {
            add_sums(metric, compiled, output, call);
            continue;
        }
        for (uint64_t v = 0; v < count; v++) {
            const uint64_t valid =
                bg_trainer_call_valid(call, bgi_output_micro_batch(compiled, output, call->device_iterations, v));
            const double value = bgi_load(output->stream.micro_batch_type.dtype, output->data, (int64_t)v);

            if (valid > 0)
                sum += metric->is_count ? value : (double)valid * value;
            samples += valid;
        }
        add_values(metric, call, sum, samples);
    }
}

/* ---- the public face ---- */

static void describe(const bgi_metric *metric, bg_trainer_metric *out)
{
    const double scale = metric->is_count ? (double)metric->micro_batch : 1.0;

    *out = (bg_trainer_metric){.name = metric->name,
                               .mean = metric->samples > 0 ? scale * metric->sum / (double)metric->samples : 0.0,
                               .last = scale * metric->last,
                               .sum = metric->sum,
                               .samples = metric->samples,
                               .is_count = metric->is_count};
}

uint32_t bg_trainer_metric_count(const bg_trainer *trainer, bg_trainer_task task)
{
    return (uint32_t)task < BG_TRAINER_TASK_COUNT ? trainer->tasks[task].metrics.count : 0;
}

bg_status bg_trainer_metric_at(const bg_trainer *trainer, bg_trainer_task task, uint32_t index, bg_trainer_metric *out,
                               bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(trainer, "trainer", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (index >= bg_trainer_metric_count(trainer, task))
        return bg_error_set(error, BG_ERROR_INVALID, "metric %u of %u of task %s", index,
                            bg_trainer_metric_count(trainer, task), bg_trainer_task_name(task));
    describe(&trainer->tasks[task].metrics.items[index], out);
    return BG_OK;
}

bg_status bg_trainer_metric_find(const bg_trainer *trainer, bg_trainer_task task, const char *name,
                                 bg_trainer_metric *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(trainer, "trainer", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bgi_metric *metric =
        (uint32_t)task < BG_TRAINER_TASK_COUNT ? find_metric(&trainer->tasks[task].metrics, name) : NULL;

    if (metric == NULL)
        return bg_error_set(error, BG_ERROR_NOT_FOUND,
                            "task %s has no metric `%s`; metrics are its outputs of one element, once it has run",
                            bg_trainer_task_name(task), name);
    describe(metric, out);
    return BG_OK;
}
