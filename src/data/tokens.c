/*
 * tokens.c: reads a file of token numbers as overlapping sequences. A small file is kept in memory. From a large file
 * only the requested samples are read, so a corpus may be larger than memory.
 *
 *     tokens     0 1 2 3 4 5 6 7 8 ...
 *     sample 0   0 1 2 3              S = 3, stride 3: inputs 0 1 2, labels 1 2 3
 *     sample 1         3 4 5 6
 */
#include "data/tokens.h"

#include "core/error.h"
#include "core/input.h"
#include "core/text.h"
#include "data/dataset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Files up to this size are kept in memory. */
static const uint64_t KEPT_BYTES = (uint64_t)64 << 20;

typedef struct tokens {
    bgi_input input;
    uint32_t token_bytes, sequence_length, stride, limit;
    void *owned; /* NULL: the content belongs to the caller, or is in a file */
} tokens;

static void release_tokens(void *state)
{
    tokens *t = state;

    bgi_input_close(&t->input);
    free(t->owned);
    free(t);
}

static uint32_t decode(const unsigned char *at, uint32_t width)
{
    const uint32_t low = at[0] | (uint32_t)at[1] << 8;

    return width == 2 ? low : low | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bg_status widen_sample(const tokens *t, uint64_t start, const unsigned char *from, int32_t *out, bg_error *error)
{
    const size_t length = (size_t)t->sequence_length + 1;

    for (size_t at = 0; at < length; at++) {
        const uint32_t token = decode(from + at * t->token_bytes, t->token_bytes);

        if (token >= t->limit)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: byte %" PRIu64 ": token %" PRIu64 " is %" PRIu32 " but must be below %" PRIu32,
                                t->input.name, (start + at) * t->token_bytes, start + at, token, t->limit);
        out[at] = (int32_t)token;
    }
    return BG_OK;
}

/* Returns the number of samples, from the first on, that follow one another in the file without gaps. */
static size_t count_neighbors(const tokens *t, const uint32_t *indices, size_t count)
{
    size_t some = 1;

    while (some < count && t->stride <= t->sequence_length + 1 && indices[some] == indices[0] + some)
        some++;
    return some;
}

/* Gathers samples. Those without gaps between them in the file are read together, to the end of their destination, and
 * then widened in place. No byte is overwritten before it is read, because a sample in memory is at least as long as
 * the distance between two samples in the file. */
static bg_status gather_tokens(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                               unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const tokens *t = dataset->state;
    const size_t length = (size_t)t->sequence_length + 1, step_bytes = (size_t)t->stride * t->token_bytes;
    int32_t *out = (int32_t *)(void *)tensors[0];
    (void)epoch, (void)scratch;

    for (size_t i = 0, some; i < count; i += some, out += some * length) {
        const uint64_t start = (uint64_t)indices[i] * t->stride;
        const unsigned char *from;

        some = count_neighbors(t, indices + i, count - i);
        *out_failed = i;
        if (t->input.content != NULL) {
            from = (const unsigned char *)t->input.content + start * t->token_bytes;
        } else {
            const size_t size_bytes = (some - 1) * step_bytes + length * t->token_bytes;
            unsigned char *room = (unsigned char *)(out + some * length) - size_bytes;

            BGI_TRY(bgi_input_read(&t->input, start * t->token_bytes, room, size_bytes, error));
            from = room;
        }
        for (size_t k = 0; k < some; k++) {
            *out_failed = i + k;
            BGI_TRY(widen_sample(t, start + k * t->stride, from + k * step_bytes, out + k * length, error));
        }
    }
    return BG_OK;
}

static bg_status check_tokens(const char *name, uint64_t size_bytes, const bg_tokens_options *options, bg_error *error)
{
    const uint32_t width = options->token_bytes;

    if (width != 2 && width != 4)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: token_bytes is %" PRIu32 " but must be 2 or 4", name, width);
    if (options->sequence_length == 0 || options->sequence_length > INT32_MAX - 1)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: sequence_length is %" PRIu32 " but must be 1 to %d", name,
                            options->sequence_length, INT32_MAX - 1);
    if (options->vocabulary_size > (uint32_t)INT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: vocabulary_size is %" PRIu32 " but must be at most %d", name,
                            options->vocabulary_size, INT32_MAX);
    if (options->feature != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: feature is `%.64s`, but a raw token file has no features; leave it NULL", name,
                            options->feature);
    if (size_bytes % width != 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte %" PRIu64 ": the file ends within a token of %" PRIu32 " bytes", name, size_bytes,
                            width);
    if (size_bytes / width < (uint64_t)options->sequence_length + 1)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte %" PRIu64 ": the file has %" PRIu64 " tokens but must have at least %" PRIu64
                            ": a sequence and the token after it",
                            name, size_bytes, size_bytes / width, (uint64_t)options->sequence_length + 1);
    return BG_OK;
}

/* Makes the data set of a file. Takes ownership of the input, even after an error. */
static bg_status make_dataset(bgi_input *input, const bg_tokens_options *options, bg_dataset **out, bg_error *error)
{
    const uint32_t stride = options->stride > 0 ? options->stride : options->sequence_length;
    bg_dataset *dataset = NULL;
    tokens *t = NULL;
    bg_type type;
    bg_status status;

    BGI_TRY_CLEANUP(check_tokens(input->name, input->size_bytes, options, error));
    type = bg_vector(BG_INT32, (int64_t)options->sequence_length + 1);
    BGI_TRY_CLEANUP(
        bgi_dataset_allocate((input->size_bytes / options->token_bytes - options->sequence_length - 1) / stride + 1, 1,
                             &type, &dataset, error));
    t = calloc(1, sizeof *t);
    if (t == NULL) {
        bg_dataset_destroy(dataset);
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a data set", sizeof *t));
    }
    t->input = *input;
    t->token_bytes = options->token_bytes;
    t->sequence_length = options->sequence_length;
    t->stride = stride;
    t->limit = options->vocabulary_size > 0 ? options->vocabulary_size : (uint32_t)INT32_MAX + 1;
    dataset->state = t;
    dataset->release = release_tokens;
    dataset->gather = gather_tokens;
    dataset->is_copied = true;
    *out = dataset;
    return BG_OK;
cleanup:
    bgi_input_close(input);
    return status;
}

bg_status bgi_tokens_parse(const char *name, const void *content, size_t size_bytes, const bg_tokens_options *options,
                           bg_dataset **out, bg_error *error)
{
    bgi_input input;

    BGI_TRY(bgi_input_over(&input, name, content, size_bytes, error));
    return make_dataset(&input, options, out, error);
}

bg_status bgi_tokens_own(const char *name, void *content, size_t size_bytes, const bg_tokens_options *options,
                         bg_dataset **out, bg_error *error)
{
    const bg_status status = bgi_tokens_parse(name, content, size_bytes, options, out, error);

    if (status == BG_OK)
        ((tokens *)(*out)->state)->owned = content;
    else
        free(content);
    return status;
}

bg_status bg_dataset_open_tokens(const char *path, const bg_tokens_options *options, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_tokens_options", NULL, error));

    bg_tokens_options chosen = *options;
    bgi_input input = {.name = NULL};

    if (chosen.token_bytes == 0)
        chosen.token_bytes = bgi_text_ends_with(path, ".u16") ? 2 : bgi_text_ends_with(path, ".u32") ? 4 : 0;
    if (chosen.token_bytes == 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "%s: the size of a token is unknown; set token_bytes to 2 or 4, or use a name that ends in .u16 or .u32",
            path);
    BGI_TRY(bgi_input_open_kept(&input, path, KEPT_BYTES, error));
    return make_dataset(&input, &chosen, out, error);
}
