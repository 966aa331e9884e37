/*
 * source.c: opens the source of a pass's batches: the caller's loader, a loader over the caller's data set, or an
 * infeed that the session reads itself.
 */
#include "train/trainer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static bg_status open_loader(bg_trainer_task task, const bg_trainer_data *data, uint64_t samples, bgi_source *source,
                             bg_error *error)
{
    bg_loader_options loading = data->loading != NULL ? *data->loading : bg_loader_options_defaults();

    source->loader = data->loader;
    if (data->dataset != NULL) {
        loading.batch_size = samples;
        if (task != BG_TRAINER_FIT && !data->drop_rest)
            loading.drop_last = false;
        BGI_TRY(bg_loader_create(data->dataset, &loading, &source->own, error));
        source->loader = source->own;
    }
    if (bg_loader_batch_size(source->loader) > samples)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the loader's batches have %" PRIu64 " samples, but a call takes %" PRIu64
                            " (bg_trainer_samples_per_call); make the loader with that size",
                            bg_loader_batch_size(source->loader), samples);
    return BG_OK;
}

/* Warns if the loader drops samples in an evaluation, which is rarely intended. */
static void warn_of_dropped(const bg_trainer *trainer, bg_trainer_task task, const bgi_source *source)
{
    const uint64_t dropped = task != BG_TRAINER_FIT ? bg_loader_dropped_count(source->loader) : 0;

    if (dropped > 0)
        bgi_trainer_log(trainer, BG_LOG_WARNING,
                        "%s leaves out %" PRIu64
                        " samples, because they are fewer than a batch and %s; set drop_last to false",
                        bg_trainer_task_name(task), dropped,
                        source->own != NULL ? "drop_rest follows the loader's options" : "the loader drops them");
}

bg_status bgi_source_open(const bg_trainer *trainer, bg_trainer_task task, const bg_trainer_data *data,
                          uint64_t samples, bgi_source *out, bg_error *error)
{
    bgi_source source = {.data = data};
    const bg_type *types;
    bg_status status;

    BGI_TRY(bgi_struct_check(data->struct_bytes, sizeof *data, "bg_trainer_data", NULL, error));
    if (data->loading != NULL)
        BGI_TRY(bgi_struct_check(data->loading->struct_bytes, sizeof *data->loading, "bg_loader_options",
                                 "bg_loader_options_defaults()", error));
    if ((data->loader != NULL) + (data->dataset != NULL) + (data->infeed != NULL) != 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data: give exactly one of a loader, a data set and an infeed; %d are given",
                            (data->loader != NULL) + (data->dataset != NULL) + (data->infeed != NULL));
    if (data->infeed != NULL && data->names != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data: names is set, but an infeed has its own names; set them in bg_infeed_options");
    if (data->infeed == NULL) {
        status = open_loader(task, data, samples, &source, error);
        if (status != BG_OK) {
            bgi_source_close(&source);
            return status;
        }
        types = bg_loader_sample_types(source.loader, &source.tensor_count);
        memcpy(source.types, types, source.tensor_count * sizeof *types);
    }
    if (source.loader != NULL)
        warn_of_dropped(trainer, task, &source);
    *out = source;
    return BG_OK;
}

static uint32_t is_wanted(void *user, uint64_t sample)
{
    return ((const uint32_t *)user)[sample];
}

bg_status bgi_source_want(bgi_source *source, const bgi_compiled *compiled, bg_error *error)
{
    const uint64_t samples = bgi_shape_samples(&compiled->shape);

    if (source->wanted != NULL || bg_loader_batch_size(source->loader) != samples)
        return BG_OK;
    source->wanted = calloc(samples, sizeof *source->wanted);
    if (source->wanted == NULL)
        return bgi_error_memory(error, "the samples that a rank reads", samples * sizeof *source->wanted);
    for (uint32_t i = 0; i < compiled->input_count; i++) {
        const bgi_compiled_input *input = &compiled->inputs[i];
        for (uint64_t sample = 0; input->tensor != UINT32_MAX && sample < samples; sample++)
            if (bg_session_reads(compiled->session, i, sample / compiled->shape.micro_batch))
                source->wanted[sample] |= 1u << input->tensor;
    }
    bg_loader_want(source->loader, is_wanted, source->wanted);
    return BG_OK;
}

void bgi_source_want_all(bgi_source *source)
{
    if (source->wanted != NULL)
        bg_loader_want(source->loader, NULL, NULL);
    free(source->wanted);
    source->wanted = NULL;
}

void bgi_source_close(bgi_source *source)
{
    bgi_source_want_all(source);
    bg_loader_destroy(source->own);
    memset(source, 0, sizeof *source);
}

uint64_t bgi_source_batch_count(const bgi_source *source)
{
    return source->loader != NULL ? bg_loader_batch_count(source->loader) : 0;
}
