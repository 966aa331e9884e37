/*
 * metrics.c: means of the scalar outputs over a pass.
 *
 * A micro-batch counts by its samples that are no padding, which is Lightning's weight (the size of the batch) at the
 * grain at which values come. What a mode does not return is not covered. Sums are in the order of the values.
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

bg_status bgi_metrics_create(const bgi_compiled *compiled, bgi_metrics *out, bg_error *error)
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
        metrics.count++;
    }
    bgi_metrics_clear(out);
    *out = metrics;
    return BG_OK;
}

void bgi_metrics_reset(bgi_metrics *metrics)
{
    for (uint32_t i = 0; i < metrics->count; i++)
        metrics->items[i] = (bgi_metric){.name = metrics->items[i].name};
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

/* A value of each replica stands for all of its micro-batches. */
static void add_sums(bgi_metric *metric, const bgi_compiled_output *output, const bg_trainer_call *call)
{
    const uint64_t micro_batches = (uint64_t)call->device_iterations * call->gradient_accumulation * call->replicas;
    uint64_t counted = 0, samples = 0;
    double total = 0.0;

    for (uint64_t i = 0; i < micro_batches; i++) {
        const uint64_t valid = bg_trainer_call_valid(call, i);
        counted += valid > 0;
        samples += valid;
    }
    for (uint64_t i = 0; i < output->stream.count; i++)
        total += bgi_load(output->stream.micro_batch_type.dtype, output->data, (int64_t)i);
    add_values(metric, call, counted > 0 ? total / (double)counted * (double)samples : 0.0, samples);
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
            add_sums(metric, output, call);
            continue;
        }
        for (uint64_t v = 0; v < count; v++) {
            const uint64_t valid =
                bg_trainer_call_valid(call, bgi_output_micro_batch(compiled, output, call->device_iterations, v));
            if (valid > 0)
                sum += (double)valid * bgi_load(output->stream.micro_batch_type.dtype, output->data, (int64_t)v);
            samples += valid;
        }
        add_values(metric, call, sum, samples);
    }
}

/* ---- the public face ---- */

static void describe(const bgi_metric *metric, bg_trainer_metric *out)
{
    *out = (bg_trainer_metric){.name = metric->name,
                               .mean = metric->samples > 0 ? metric->sum / (double)metric->samples : 0.0,
                               .last = metric->last,
                               .samples = metric->samples};
}

uint32_t bg_trainer_metric_count(const bg_trainer *trainer, bg_trainer_stage stage)
{
    return (uint32_t)stage < BG_TRAINER_STAGE_COUNT ? trainer->stages[stage].metrics.count : 0;
}

bg_status bg_trainer_metric_at(const bg_trainer *trainer, bg_trainer_stage stage, uint32_t index,
                               bg_trainer_metric *out, bg_error *error)
{
    if (index >= bg_trainer_metric_count(trainer, stage))
        return bg_error_set(error, BG_ERROR_INVALID, "metric %u of %u of stage %s", index,
                            bg_trainer_metric_count(trainer, stage), bg_trainer_stage_name(stage));
    describe(&trainer->stages[stage].metrics.items[index], out);
    return BG_OK;
}

bg_status bg_trainer_metric_find(const bg_trainer *trainer, bg_trainer_stage stage, const char *name,
                                 bg_trainer_metric *out, bg_error *error)
{
    const bgi_metric *metric =
        (uint32_t)stage < BG_TRAINER_STAGE_COUNT ? find_metric(&trainer->stages[stage].metrics, name) : NULL;

    if (metric == NULL)
        return bg_error_set(error, BG_ERROR_NOT_FOUND,
                            "stage %s has no metric `%s`; metrics are its outputs of one element, once it has run",
                            bg_trainer_stage_name(stage), name);
    describe(metric, out);
    return BG_OK;
}
