/*
 * zip.c: joins data sets sample by sample: each sample has the tensors of all data sets.
 *
 *     a: (x)   b: (y, z)   ->   (x, y, z)
 */
#include "data/dataset.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    uint32_t count;
    bg_dataset *sources[BG_DATASET_MAX_TENSORS];
} pair;

static void release_pair(void *state)
{
    pair *p = state;

    for (uint32_t i = 0; i < p->count; i++)
        bg_dataset_destroy(p->sources[i]);
    free(p);
}

static bg_status gather_zipped(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                               unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const pair *p = dataset->state;
    uint32_t first = 0;

    for (uint32_t i = 0; i < p->count; first += p->sources[i]->tensor_count, i++)
        BGI_TRY(bgi_dataset_gather(p->sources[i], epoch, indices, count, tensors + first, scratch, out_failed, error));
    return BG_OK;
}

/* What to do when tables without their incomplete rows do not match. */
static const char complete_rows[] =
    "skip_incomplete checks only the columns that a data set reads; open all columns of "
    "the table as one data set, and divide its samples with bg_dataset_map";

/* Refuses tables whose samples are different rows, because skip_incomplete has left out different ones. */
static bg_status check_rows(bg_dataset *const *sources, uint32_t count, bg_error *error)
{
    uint32_t first = 0;

    for (uint32_t i = 1; i < count; i++) {
        if (sources[first]->rows_left_out == 0)
            first = i;
        if (sources[i]->rows_left_out != 0 && sources[i]->rows_left_out != sources[first]->rows_left_out)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "data sets %" PRIu32 " and %" PRIu32
                                " were opened with skip_incomplete and leave out different rows; %s",
                                first, i, complete_rows);
    }
    return BG_OK;
}

static bg_status list_types(bg_dataset *const *sources, uint32_t count, bg_type types[BG_DATASET_MAX_TENSORS],
                            uint32_t *out_count, bg_error *error)
{
    *out_count = 0;
    if (count == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "data set: source_count is 0 but must be at least 1");
    for (uint32_t i = 0; i < count; i++) {
        const bool has_gaps = sources[i]->rows_left_out != sources[0]->rows_left_out;

        if (sources[i]->sample_count != sources[0]->sample_count)
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "data set %" PRIu32 " has %" PRIu64 " samples, but data set 0 has %" PRIu64
                                "; all must have the same number%s%s",
                                i, sources[i]->sample_count, sources[0]->sample_count, has_gaps ? ". " : "",
                                has_gaps ? complete_rows : "");
        if (*out_count + sources[i]->tensor_count > BG_DATASET_MAX_TENSORS)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "data set: each sample would have more than %d tensors, taken from %" PRIu32
                                " data sets",
                                BG_DATASET_MAX_TENSORS, count);
        memcpy(types + *out_count, sources[i]->types, sources[i]->tensor_count * sizeof *types);
        *out_count += sources[i]->tensor_count;
    }
    return BG_OK;
}

/* Combines the scratch sizes, other properties and addresses of the sources, and adds a reference to each. */
static void join(bg_dataset *dataset, pair *p, bg_dataset *const *sources, uint32_t count)
{
    bool has_rows = true;
    uint32_t first = 0;

    dataset->is_copied = dataset->may_skip = true;
    for (uint32_t i = 0; i < count; first += sources[i]->tensor_count, i++) {
        atomic_fetch_add(&sources[i]->references, 1);
        p->sources[i] = sources[i];
        if (sources[i]->scratch_bytes > dataset->scratch_bytes)
            dataset->scratch_bytes = sources[i]->scratch_bytes;
        dataset->is_copied = dataset->is_copied && sources[i]->is_copied;
        dataset->may_skip = dataset->may_skip && sources[i]->may_skip;
        if (sources[i]->rows_left_out != 0)
            dataset->rows_left_out = sources[i]->rows_left_out;
        has_rows = has_rows && sources[i]->rows[0] != NULL;
        memcpy(dataset->rows + first, sources[i]->rows, sources[i]->tensor_count * sizeof *dataset->rows);
    }
    if (!has_rows)
        memset(dataset->rows, 0, sizeof dataset->rows);
    p->count = count;
}

bg_status bg_dataset_zip(bg_dataset *const *sources, uint32_t source_count, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_type types[BG_DATASET_MAX_TENSORS];
    bg_dataset *dataset = NULL;
    uint32_t tensor_count;
    pair *p;

    if (source_count > 0)
        BGI_TRY(bgi_require(sources, "sources", __func__, error));
    BGI_TRY(list_types(sources, source_count, types, &tensor_count, error));
    BGI_TRY(check_rows(sources, source_count, error));
    BGI_TRY(bgi_dataset_allocate(sources[0]->sample_count, tensor_count, types, &dataset, error));
    dataset->state = p = calloc(1, sizeof *p);
    if (p == NULL) {
        bg_dataset_destroy(dataset);
        return bgi_error_memory(error, "a data set", sizeof *p);
    }
    dataset->release = release_pair;
    join(dataset, p, sources, source_count);
    dataset->gather = gather_zipped;
    *out = dataset;
    return BG_OK;
}
