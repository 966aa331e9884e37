/*
 * tokens.c: a file of token numbers as overlapping sequences. The file is mapped, so a corpus larger than memory is
 * read as it is used.
 *
 *     tokens     0 1 2 3 4 5 6 7 8 ...
 *     sample 0   0 1 2 3              S = 3, stride 3: inputs 0 1 2, labels 1 2 3
 *     sample 1         3 4 5 6
 */
#include "data/tokens.h"

#include "core/error.h"
#include "data/dataset.h"
#include "data/mapping.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct tokens {
    const unsigned char *content;
    uint32_t token_bytes, sequence_length, stride, limit;
    char *name;
    void *mapping, *owned; /* both NULL: the content is someone else's */
    size_t mapping_bytes;
} tokens;

static void release_tokens(void *state)
{
    tokens *t = state;

    bgi_mapping_close(t->mapping, t->mapping_bytes);
    free(t->owned);
    free(t->name);
    free(t);
}

static uint32_t token_at(const tokens *t, uint64_t at)
{
    const unsigned char *p = t->content + at * t->token_bytes;
    const uint32_t low = p[0] | (uint32_t)p[1] << 8;

    return t->token_bytes == 2 ? low : low | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bg_status gather_tokens(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                               unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const tokens *t = dataset->state;
    int32_t *out = (int32_t *)(void *)tensors[0];
    (void)epoch, (void)scratch;

    for (size_t i = 0; i < count; i++) {
        const uint64_t start = (uint64_t)indices[i] * t->stride;

        for (uint64_t at = start; at <= start + t->sequence_length; at++) {
            const uint32_t token = token_at(t, at);

            if (token >= t->limit) {
                *out_failed = i;
                return bg_error_set(error, BG_ERROR_PARSE,
                                    "%s: byte %" PRIu64 ": token %" PRIu64 " is %" PRIu32 ", expected below %" PRIu32,
                                    t->name, at * t->token_bytes, at, token, t->limit);
            }
            *out++ = (int32_t)token;
        }
    }
    return BG_OK;
}

static bg_status check_tokens(const char *name, size_t size_bytes, const bg_tokens_options *options, bg_error *error)
{
    const uint32_t width = options->token_bytes;

    if (width != 2 && width != 4)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: tokens of %" PRIu32 " bytes, expected 2 or 4", name, width);
    if (options->sequence_length == 0 || options->sequence_length > INT32_MAX - 1)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: sequences of %" PRIu32 " tokens, expected 1 to %d", name,
                            options->sequence_length, INT32_MAX - 1);
    if (options->vocabulary_size > (uint32_t)INT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: a vocabulary of %" PRIu32 ", expected at most %d", name,
                            options->vocabulary_size, INT32_MAX);
    if (size_bytes % width != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: ends within a token of %" PRIu32 " bytes", name,
                            size_bytes, width);
    if (size_bytes / width < (uint64_t)options->sequence_length + 1)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte %zu: has %zu tokens, expected at least %" PRIu64
                            ": a sequence and the token behind it",
                            name, size_bytes, size_bytes / width, (uint64_t)options->sequence_length + 1);
    return BG_OK;
}

bg_status bgi_tokens_parse(const char *name, const void *content, size_t size_bytes, const bg_tokens_options *options,
                           bg_dataset **out, bg_error *error)
{
    const uint32_t stride = options->stride > 0 ? options->stride : options->sequence_length;
    bg_dataset *dataset = NULL;
    bg_type type;
    tokens *t;

    BGI_TRY(check_tokens(name, size_bytes, options, error));
    type = bg_vector(BG_INT32, (int64_t)options->sequence_length + 1);
    BGI_TRY(bgi_dataset_allocate((size_bytes / options->token_bytes - options->sequence_length - 1) / stride + 1, 1,
                                 &type, &dataset, error));
    dataset->state = t = calloc(1, sizeof *t);
    if (t != NULL)
        t->name = strdup(name);
    if (t == NULL || t->name == NULL) {
        free(t);
        dataset->state = NULL;
        bg_dataset_destroy(dataset);
        return bgi_error_memory(error, "a data set", sizeof *t);
    }
    t->content = content;
    t->token_bytes = options->token_bytes;
    t->sequence_length = options->sequence_length;
    t->stride = stride;
    t->limit = options->vocabulary_size > 0 ? options->vocabulary_size : (uint32_t)INT32_MAX + 1;
    dataset->release = release_tokens;
    dataset->gather = gather_tokens;
    dataset->is_copied = true;
    *out = dataset;
    return BG_OK;
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

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bg_status bg_dataset_open_tokens(const char *path, const bg_tokens_options *options, bg_dataset **out, bg_error *error)
{
    bg_tokens_options chosen = *options;
    bg_dataset *dataset = NULL;
    void *mapping = NULL;
    size_t size_bytes = 0;
    bg_status status;

    if (chosen.token_bytes == 0)
        chosen.token_bytes = ends_with(path, ".u16") ? 2 : ends_with(path, ".u32") ? 4 : 0;
    if (chosen.token_bytes == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: tokens of how many bytes? Expected token_bytes 2 or 4, or a name that ends in .u16 or "
                            ".u32",
                            path);
    BGI_TRY(bgi_mapping_open(path, &mapping, &size_bytes, error));
    status = bgi_tokens_parse(path, mapping, size_bytes, &chosen, &dataset, error);
    if (status != BG_OK) {
        bgi_mapping_close(mapping, size_bytes);
        return status;
    }
    ((tokens *)dataset->state)->mapping = mapping;
    ((tokens *)dataset->state)->mapping_bytes = size_bytes;
    *out = dataset;
    return BG_OK;
}
