/*
 * infeed.c: makes infeeds from loaders and data sets through the public interface of infeeds, by cutting batches into
 * micro-batches.
 */
#include <brigade/data.h>

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

typedef struct feeder {
    const bg_dataset *dataset; /* NULL: the caller owns the loader */
    bg_loader *loader, *own_loader;
    bool repeat;
    uint64_t first_epoch, first_element;
    uint32_t tensor_count;
    size_t sizes[BG_DATASET_MAX_TENSORS]; /* of a sample */
    uint64_t micro_batch;                 /* samples */
    bg_batch batch;
    uint64_t position; /* number of used samples of the batch */
    uint64_t skipped;  /* samples of the first batch that were used before the infeed began */
    uint64_t epoch;
    bool has_batch;  /* the current epoch has had a batch */
    uint32_t wanted; /* tensors that the next element needs: bit t is tensor t */
} feeder;

/* ---- elements ---- */

/* Gets the next batch that has samples left; sets *out_has_ended if there is none. */
static bg_status turn_batch(feeder *f, bool *out_has_ended, bg_error *error)
{
    while (f->position == f->batch.sample_count) {
        BGI_TRY(bg_loader_next(f->loader, &f->batch, error));
        f->position = f->skipped;
        f->skipped = 0;
        if (f->batch.sample_count % f->micro_batch != 0)
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "a batch has %llu samples, which is not a multiple of the micro-batch, %llu; make "
                                "batches a multiple, and drop or pad the last one (drop_last, pad_multiple)",
                                (unsigned long long)f->batch.sample_count, (unsigned long long)f->micro_batch);
        if (f->position > f->batch.sample_count)
            return bg_error_set(error, BG_ERROR_INVALID, "first_element is %llu, but epoch %llu has fewer elements",
                                (unsigned long long)f->first_element, (unsigned long long)f->epoch);
        if (f->batch.sample_count > 0) {
            f->has_batch = true;
            continue;
        }
        *out_has_ended = !f->repeat || !f->has_batch;
        if (*out_has_ended)
            return BG_OK;
        f->has_batch = false;
        BGI_TRY(bg_loader_begin_epoch(f->loader, ++f->epoch, error));
    }
    return BG_OK;
}

/* Returns the tensors that the next element needs. The infeed's own loader, whose batches are the elements, calls this
 * function (bg_loader_want). */
static uint32_t is_wanted(void *user, uint64_t sample)
{
    (void)sample;
    return ((const feeder *)user)->wanted;
}

static bg_status next_of_loader(void *user, void *const tensors[], bool *out_has_ended, bg_error *error)
{
    feeder *f = user;

    f->wanted = 0;
    for (uint32_t t = 0; t < f->tensor_count; t++)
        f->wanted |= (uint32_t)(tensors[t] != NULL) << t;
    BGI_TRY(turn_batch(f, out_has_ended, error));
    for (uint32_t t = 0; !*out_has_ended && t < f->tensor_count; t++)
        if (tensors[t] != NULL)
            memcpy(tensors[t], (const char *)f->batch.tensors[t] + f->position * f->sizes[t],
                   f->micro_batch * f->sizes[t]);
    if (!*out_has_ended)
        f->position += f->micro_batch;
    return BG_OK;
}

/* ---- the beginning ---- */

/* Skips the elements that were used before: whole batches of them, then a part of one. */
static bg_status begin_loader(feeder *f, bg_error *error)
{
    const uint64_t elements = f->first_element, batch_size = bg_loader_batch_size(f->loader);
    const uint64_t samples = elements * f->micro_batch;

    if (elements > UINT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "first_element is %llu; it must be at most %u",
                            (unsigned long long)elements, UINT32_MAX);
    f->epoch = f->first_epoch;
    f->skipped = samples % batch_size;
    f->has_batch = elements > 0;
    return bg_loader_begin_at(f->loader, f->epoch, samples / batch_size, error);
}

static bg_status begin(void *user, uint64_t samples_per_element, bg_error *error)
{
    feeder *f = user;
    bg_loader_options options = bg_loader_options_defaults();

    f->micro_batch = samples_per_element;
    if (f->loader == NULL) {
        options.batch_size = f->micro_batch;
        options.worker_count = 0; /* the infeed's thread makes the batches */
        BGI_TRY(bg_loader_create(f->dataset, &options, &f->own_loader, error));
        f->loader = f->own_loader;
        bg_loader_want(f->loader, is_wanted, f);
    }
    return begin_loader(f, error);
}

static void end(void *user)
{
    feeder *f = user;

    bg_loader_destroy(f->own_loader);
    free(f);
}

/* ---- life ---- */

static bg_status create(const bg_dataset *dataset, bg_loader *loader, const bg_type *types, uint32_t tensor_count,
                        const bg_infeed_options *options, bg_infeed **out, bg_error *error)
{
    bg_infeed_options chosen;
    feeder *f;
    bg_status status;

    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_infeed_options",
                             "bg_infeed_options_defaults()", error));
    chosen = *options;
    chosen.omit_unread = true;
    f = calloc(1, sizeof *f);
    if (f == NULL)
        return bgi_error_memory(error, "an infeed", sizeof *f);
    f->dataset = dataset;
    f->loader = loader;
    f->repeat = options->repeat;
    f->first_epoch = options->first_epoch;
    f->first_element = options->first_element;
    f->tensor_count = tensor_count;
    for (uint32_t t = 0; t < tensor_count; t++)
        f->sizes[t] = bg_type_size_bytes(&types[t]);
    status = bg_infeed_create_samples(
        types, tensor_count, &(bg_sample_source){.begin = begin, .next = next_of_loader, .end = end, .user = f},
        &chosen, out, error);
    if (status != BG_OK)
        free(f);
    return status;
}

bg_status bg_infeed_create_loader(bg_loader *loader, const bg_infeed_options *options, bg_infeed **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_type *types;
    uint32_t count = 0;

    if (loader == NULL || options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "infeed: %s is NULL; this argument is required",
                            loader == NULL ? "loader" : "options");
    types = bg_loader_sample_types(loader, &count);
    return create(NULL, loader, types, count, options, out, error);
}

bg_status bg_infeed_create_dataset(const bg_dataset *dataset, const bg_infeed_options *options, bg_infeed **out,
                                   bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_type types[BG_DATASET_MAX_TENSORS];

    if (dataset == NULL || options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "infeed: %s is NULL; this argument is required",
                            dataset == NULL ? "dataset" : "options");
    for (uint32_t t = 0; t < bg_dataset_tensor_count(dataset); t++)
        types[t] = *bg_dataset_sample_type(dataset, t);
    return create(dataset, NULL, types, bg_dataset_tensor_count(dataset), options, out, error);
}

/* ---- runs ---- */

typedef struct epoch_of {
    bg_loader *loader;
    uint64_t epoch;
} epoch_of;

static bg_status open_epoch(void *user, bg_infeed **out, bg_error *error)
{
    const epoch_of *wanted = user;
    bg_infeed_options options = bg_infeed_options_defaults();

    options.first_epoch = wanted->epoch;
    return bg_infeed_create_loader(wanted->loader, &options, out, error);
}

bg_status bg_session_run_loader(bg_session *session, bg_loader *loader, uint64_t epoch, void *const *outputs,
                                bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(loader, "loader", __func__, error));
    return bg_session_run_kept(session, loader, epoch, open_epoch, &(epoch_of){loader, epoch}, outputs, error);
}
