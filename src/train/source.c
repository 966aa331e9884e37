/*
 * source.c: where the batches of a pass come from: the caller's loader, a loader over the caller's data set, or an
 * infeed that the session takes from by itself.
 */
#include "train/trainer.h"

#include <inttypes.h>
#include <string.h>

#include "core/error.h"

static bg_status open_loader(const bg_trainer_data *data, uint64_t samples, bgi_source *source, bg_error *error)
{
    bg_loader_options loading = data->loading != NULL ? *data->loading : bg_loader_options_default();

    source->loader = data->loader;
    if (data->dataset != NULL) {
        loading.batch_size = samples;
        BGI_TRY(bg_loader_create(data->dataset, &loading, &source->own, error));
        source->loader = source->own;
    }
    if (bg_loader_batch_size(source->loader) > samples)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the loader's batches have %" PRIu64 " samples, a call takes %" PRIu64
                            " (bg_trainer_samples_per_call); make the loader with that size",
                            bg_loader_batch_size(source->loader), samples);
    return BG_OK;
}

bg_status bgi_source_open(const bg_trainer_data *data, uint64_t samples, bgi_source *out, bg_error *error)
{
    bgi_source source = {.data = data};
    const bg_type *types;
    bg_status status;

    if ((data->loader != NULL) + (data->dataset != NULL) + (data->infeed != NULL) != 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data: give exactly one of a loader, a data set and an infeed; here are %d",
                            (data->loader != NULL) + (data->dataset != NULL) + (data->infeed != NULL));
    if (data->infeed != NULL && data->names != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data: names with an infeed, which has its own; give them in bg_infeed_options");
    if (data->infeed == NULL) {
        status = open_loader(data, samples, &source, error);
        if (status != BG_OK) {
            bgi_source_close(&source);
            return status;
        }
        types = bg_loader_sample_types(source.loader, &source.tensor_count);
        memcpy(source.types, types, source.tensor_count * sizeof *types);
    }
    *out = source;
    return BG_OK;
}

void bgi_source_close(bgi_source *source)
{
    bg_loader_destroy(source->own);
    memset(source, 0, sizeof *source);
}

uint64_t bgi_source_batch_count(const bgi_source *source)
{
    return source->loader != NULL ? bg_loader_batch_count(source->loader) : 0;
}
