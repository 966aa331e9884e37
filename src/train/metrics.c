/*
 * metrics.c: computes the metrics of a pass from scalar outputs: means of floats, sums of integers (counts), and scores
 * of sums.
 *
 * The mean of a micro-batch is weighted by its samples without padding, as in Lightning, which weights by batch size.
 * Values that the output mode does not return are not included. Sums are in the order of the values.
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

static bg_status add_metric(bgi_metrics *metrics, const bgi_metric *metric, const char *name, bg_error *error)
{
    bgi_metric *added = &metrics->items[metrics->count++];

    *added = *metric;
    added->name = strdup(name);
    if (added->sum_count > 0)
        added->sums = calloc((size_t)added->sum_count, 2 * sizeof *added->sums);
    return added->name != NULL && (added->sum_count == 0 || added->sums != NULL)
               ? BG_OK
               : bgi_error_memory(error, "metrics", (size_t)added->sum_count * 2 * sizeof *added->sums);
}

static bg_status add_score(bgi_metrics *metrics, const bgi_compiled *compiled, const bg_score *score, bg_error *error)
{
    for (uint32_t i = 0; i < compiled->output_count; i++) {
        const bg_stream *stream = &compiled->outputs[i].stream;
        bgi_metric metric = {.score = score};
        double unused;

        if (strcmp(stream->name, score->output) != 0)
            continue;
        if (find_metric(metrics, score->name) != NULL)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "score `%s`: the task already has a metric of this name; give the score another name",
                                score->name);
        metric.sum_count = (uint64_t)bg_type_element_count(&stream->micro_batch_type);
        BGI_TRY(add_metric(metrics, &metric, score->name, error));
        if (bg_score_compute(score, metrics->items[metrics->count - 1].sums, metric.sum_count, &unused, error) != BG_OK)
            return bg_error_context(error, error->status, "score `%s` of output `%s`", score->name, score->output);
        return BG_OK;
    }
    return BG_OK;
}

static bg_status add_all(bgi_metrics *metrics, const bg_trainer *trainer, const bgi_compiled *compiled,
                         uint32_t micro_batch, bg_error *error)
{
    for (uint32_t i = 0; i < compiled->output_count; i++) {
        const bg_stream *stream = &compiled->outputs[i].stream;
        const bgi_metric metric = {.is_count = !bg_dtype_is_float(stream->micro_batch_type.dtype),
                                   .micro_batch = micro_batch};

        if (is_scalar(&compiled->outputs[i]))
            BGI_TRY(add_metric(metrics, &metric, stream->name, error));
    }
    for (uint32_t i = 0; i < trainer->options.score_count; i++)
        BGI_TRY(add_score(metrics, compiled, &trainer->options.scores[i], error));
    return BG_OK;
}

bg_status bgi_metrics_create(const bg_trainer *trainer, const bgi_compiled *compiled, uint32_t micro_batch,
                             bgi_metrics *out, bg_error *error)
{
    const uint32_t most = compiled->output_count + trainer->options.score_count;
    bgi_metrics metrics = {.items = calloc(most + 1u, sizeof *metrics.items)};

    if (metrics.items == NULL)
        return bgi_error_memory(error, "metrics", most * sizeof *metrics.items);
    if (add_all(&metrics, trainer, compiled, micro_batch, error) != BG_OK) {
        bgi_metrics_clear(&metrics);
        return error->status;
    }
    bgi_metrics_clear(out);
    *out = metrics;
    return BG_OK;
}

void bgi_metrics_reset(bgi_metrics *metrics)
{
    for (uint32_t i = 0; i < metrics->count; i++) {
        bgi_metric *metric = &metrics->items[i];

        metric->sum = metric->last = 0.0;
        metric->samples = 0;
        for (uint64_t s = 0; s < 2 * metric->sum_count; s++)
            metric->sums[s] = 0.0;
    }
}

void bgi_metrics_clear(bgi_metrics *metrics)
{
    for (uint32_t i = 0; i < metrics->count; i++) {
        free(metrics->items[i].name);
        free(metrics->items[i].sums);
    }
    free(metrics->items);
    *metrics = (bgi_metrics){0};
}

/* Adds the values of a call, each counted once for each group, because the replicas of a group had the same samples. */
static void add_values(bgi_metric *metric, const bg_trainer_call *call, double sum, uint64_t samples)
{
    sum /= (double)call->input_group_size;
    samples /= call->input_group_size;
    if (samples == 0)
        return; /* the returned values cover only padding */
    metric->sum += sum;
    metric->samples += samples;
    metric->last = sum / (double)samples;
}

/* Adds the values of an output with mode SUM: each replica returns the sum over all of its micro-batches. Means over
 * only padding do not contribute to it. */
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

static void add_means(bgi_metric *metric, const bgi_compiled *compiled, const bgi_compiled_output *output,
                      const bg_trainer_call *call)
{
    const uint64_t count = bgi_output_value_count(compiled, output, call->device_iterations);
    uint64_t samples = 0;
    double sum = 0.0;

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

/* Returns the number of samples that value v of an output covers; with mode SUM it covers all samples of replica v. */
static uint64_t count_covered(const bgi_compiled *compiled, const bgi_compiled_output *output,
                              const bg_trainer_call *call, uint64_t v)
{
    const uint64_t per_replica = (uint64_t)call->device_iterations * call->gradient_accumulation;
    uint64_t samples = 0;

    if (output->mode != BG_OUTPUT_SUM)
        return bg_trainer_call_valid(call, bgi_output_micro_batch(compiled, output, call->device_iterations, v));
    for (uint64_t i = 0; i < per_replica; i++)
        samples += bg_trainer_call_valid(call, bgi_shape_value(&compiled->shape, i, v));
    return samples;
}

static void add_to_score(bgi_metric *metric, const bgi_compiled *compiled, const bgi_compiled_output *output,
                         const bg_trainer_call *call)
{
    const uint64_t count = output->mode == BG_OUTPUT_SUM
                               ? call->replicas
                               : bgi_output_value_count(compiled, output, call->device_iterations);
    const uint64_t elements = metric->sum_count;
    double *newest = metric->sums + elements;
    uint64_t samples = 0;

    memset(newest, 0, (size_t)elements * sizeof *newest);
    for (uint64_t v = 0; v < count; v++) {
        const uint64_t covered = count_covered(compiled, output, call, v);

        for (uint64_t e = 0; covered > 0 && e < elements; e++)
            newest[e] += bgi_load(output->stream.micro_batch_type.dtype, output->data, (int64_t)(v * elements + e));
        samples += covered;
    }
    for (uint64_t e = 0; e < elements; e++) {
        newest[e] /= (double)call->input_group_size;
        metric->sums[e] += newest[e];
    }
    metric->samples += samples / call->input_group_size;
}

static const bgi_compiled_output *find_output(const bgi_compiled *compiled, const char *name)
{
    for (uint32_t i = 0; i < compiled->output_count; i++)
        if (strcmp(compiled->outputs[i].stream.name, name) == 0)
            return &compiled->outputs[i];
    return NULL;
}

void bgi_metrics_add(bgi_metrics *metrics, const bgi_compiled *compiled, const bg_trainer_call *call)
{
    for (uint32_t i = 0; i < metrics->count; i++) {
        bgi_metric *metric = &metrics->items[i];
        const bgi_compiled_output *output =
            find_output(compiled, metric->score != NULL ? metric->score->output : metric->name);

        if (output == NULL)
            continue;
        if (metric->score != NULL)
            add_to_score(metric, compiled, output, call);
        else if (output->mode == BG_OUTPUT_SUM)
            add_sums(metric, compiled, output, call);
        else
            add_means(metric, compiled, output, call);
    }
}

/* ---- public functions ---- */

static void describe_score(const bgi_metric *metric, bg_trainer_metric *out)
{
    *out = (bg_trainer_metric){.name = metric->name, .samples = metric->samples};
    if (metric->samples == 0)
        return;
    bg_score_compute(metric->score, metric->sums, metric->sum_count, &out->mean, NULL);
    bg_score_compute(metric->score, metric->sums + metric->sum_count, metric->sum_count, &out->last, NULL);
    out->sum = out->mean * (double)metric->samples;
}

static void describe(const bgi_metric *metric, bg_trainer_metric *out)
{
    const double scale = metric->is_count ? (double)metric->micro_batch : 1.0;

    if (metric->score != NULL) {
        describe_score(metric, out);
        return;
    }

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
        return bg_error_set(error, BG_ERROR_INVALID,
                            "index is %u; it must be below %u, the number of metrics of task %s", index,
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
        return bg_error_set(
            error, BG_ERROR_NOT_FOUND,
            "task %s has no metric `%s`; metrics are its outputs of one element and its scores, once it has run",
            bg_trainer_task_name(task), name);
    describe(metric, out);
    return BG_OK;
}
