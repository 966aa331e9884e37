/*
 * dataset_stream.c: reads a data set as a stream in which each shard has a contiguous range. The tests of the stream
 * loader use it; users of streams write their own sources.
 */
#include "data/dataset.h"

#include "core/error.h"

#include <stdlib.h>

typedef struct walk {
    const bg_dataset *dataset;
    void *scratch;
    uint64_t epoch, at, end;
} walk;

static bg_status open_walk(void *user, const bg_stream_shard *shard, void **out_iterator, bg_error *error)
{
    const bg_dataset *dataset = user;
    const uint64_t count = dataset->sample_count, each = (count + shard->count - 1) / shard->count;
    const uint64_t start = each * shard->index < count ? each * shard->index : count;
    walk *w = malloc(sizeof *w);

    if (w == NULL)
        return bgi_error_memory(error, "a shard", sizeof *w);
    *w = (walk){
        .dataset = dataset, .epoch = shard->epoch, .at = start, .end = count - start < each ? count : start + each};
    w->scratch = bgi_dataset_scratch(dataset);
    if (w->scratch == NULL) {
        free(w);
        return bgi_error_memory(error, "a shard's scratch", dataset->scratch_bytes);
    }
    *out_iterator = w;
    return BG_OK;
}

static bg_status next_sample(void *iterator, void *const outputs[], bool *out_has_sample, bg_error *error)
{
    walk *w = iterator;
    unsigned char *places[BG_DATASET_MAX_TENSORS];
    const uint32_t index = (uint32_t)w->at;
    size_t failed = 0;

    *out_has_sample = w->at < w->end;
    if (!*out_has_sample)
        return BG_OK;
    for (uint32_t t = 0; t < w->dataset->tensor_count; t++)
        places[t] = outputs[t];
    w->at++;
    return bgi_dataset_gather(w->dataset, w->epoch, &index, 1, places, w->scratch, &failed, error);
}

static void close_walk(void *iterator)
{
    walk *w = iterator;

    free(w->scratch);
    free(w);
}

bg_sample_stream bg_dataset_stream(const bg_dataset *dataset)
{
    return (bg_sample_stream){.tensor_count = dataset->tensor_count,
                              .sample_types = dataset->types,
                              .user = (void *)(uintptr_t)dataset, /* only read */
                              .open = open_walk,
                              .next = next_sample,
                              .close = close_walk};
}
