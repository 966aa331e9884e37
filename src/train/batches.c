/*
 * batches.c: runs batches of any size up to a limit, with a reader (bg_session_create_reader) for each size. The reader
 * for the largest size is made at once, and another one when its size is first used.
 */
#include <brigade/batches.h>

#include <stdlib.h>

#include "core/error.h"

typedef struct batch_size {
    bg_plan *plan;
    bg_session *reader; /* NULL: not made yet */
} batch_size;

struct bg_batches {
    bg_batch_model model;
    void *user;
    bg_options options;
    bg_weights *weights;
    int64_t most_samples;
    batch_size *sizes; /* [most_samples]: the reader for n samples is at n - 1 */
};

static bg_status check_samples(const bg_batches *batches, int64_t samples, bg_error *error)
{
    if (samples >= 1 && samples <= batches->most_samples)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_RANGE, "the batch has %lld samples; it must have 1 to %lld", (long long)samples,
                        (long long)batches->most_samples);
}

static bg_status make_plan(const bg_batches *batches, int64_t samples, bg_plan **out, bg_error *error)
{
    bg_graph *graph;
    bg_status status;

    BGI_TRY(bg_graph_create(&graph, error));
    batches->model(batches->user, graph, samples);
    status = bg_graph_check(graph, error);
    if (status == BG_OK)
        status = bg_plan_create_inference(graph, &batches->options, out, error);
    bg_graph_destroy(graph);
    return status;
}

static bg_status make_size(bg_batches *batches, int64_t samples, bg_error *error)
{
    batch_size *size = &batches->sizes[samples - 1];
    bg_status status;

    if (size->reader != NULL)
        return BG_OK;
    status = make_plan(batches, samples, &size->plan, error);
    if (status == BG_OK)
        status = bg_session_create_reader(size->plan, batches->weights, &size->reader, error);
    if (status == BG_OK)
        return BG_OK;
    bg_plan_destroy(size->plan);
    size->plan = NULL;
    return bg_error_context(error, status, "batches of %lld", (long long)samples);
}

bg_status bg_batches_create(bg_batch_model model, void *user, int64_t most_samples, const bg_options *options,
                            bg_weights *weights, bg_batches **out, bg_error *error)
{
    bg_error_clear(error);

    bg_batches *batches;
    bg_status status;

    if (model == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "bg_batches_create: model is NULL");
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (most_samples < 1)
        return bg_error_set(error, BG_ERROR_INVALID, "most_samples is %lld; it must be at least 1",
                            (long long)most_samples);
    batches = calloc(1, sizeof *batches);
    if (batches == NULL)
        return bgi_error_memory(error, "batches", sizeof *batches);
    *batches = (bg_batches){.model = model,
                            .user = user,
                            .options = options != NULL ? *options : bg_options_defaults(),
                            .weights = weights,
                            .most_samples = most_samples};
    batches->sizes = calloc((size_t)most_samples, sizeof *batches->sizes);
    status = batches->sizes != NULL ? make_size(batches, most_samples, error)
                                    : bgi_error_memory(error, "batches", (size_t)most_samples * sizeof *batches->sizes);
    if (status != BG_OK) {
        bg_batches_destroy(batches);
        return status;
    }
    *out = batches;
    return BG_OK;
}

void bg_batches_destroy(bg_batches *batches)
{
    if (batches == NULL)
        return;
    for (int64_t i = 0; batches->sizes != NULL && i < batches->most_samples; i++) {
        bg_session_destroy(batches->sizes[i].reader);
        bg_plan_destroy(batches->sizes[i].plan);
    }
    free(batches->sizes);
    free(batches);
}

bg_status bg_batches_prepare(bg_batches *batches, int64_t samples, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(batches, "batches", __func__, error));
    BGI_TRY(check_samples(batches, samples, error));
    return make_size(batches, samples, error);
}

bg_status bg_batches_run(bg_batches *batches, int64_t samples, const void *const *inputs, void *const *outputs,
                         bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bg_batches_prepare(batches, samples, error));
    return bg_session_run(batches->sizes[samples - 1].reader, inputs, outputs, error);
}

bg_session *bg_batches_session(const bg_batches *batches, int64_t samples)
{
    return check_samples(batches, samples, NULL) == BG_OK ? batches->sizes[samples - 1].reader : NULL;
}
