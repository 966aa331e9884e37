/*
 * fuzz_tfrecord.c: TFRecord files with arbitrary content. The first byte is the sequence length, the second the length
 * of an index that follows (0: none). The target corrects the checksums of records whose lengths are valid, because a
 * fuzzer rarely finds correct ones.
 */
#include "core/crc32c.h"
#include "data/tfrecord.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const bg_error *error)
{
    if (error->message[0] == '\0' || strchr(error->message, '\n') != NULL)
        abort();
}

static void put_sum(unsigned char *at, const void *data, size_t size_bytes)
{
    const uint32_t sum = bgi_crc32c_masked(data, size_bytes);

    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(sum >> 8 * i);
}

/* Corrects the checksums of all records; lengths have one byte. */
static void mend(unsigned char *content, size_t size)
{
    for (size_t at = 0; size - at >= 16;) {
        const size_t length = content[at];

        memset(content + at + 1, 0, 7);
        put_sum(content + at + 8, content + at, 8);
        if (length > size - at - 16)
            return;
        put_sum(content + at + 12 + length, content + at + 12, length);
        at += length + 16;
    }
}

static void read_samples(const bg_dataset *dataset, uint32_t sequence_length)
{
    bg_loader_options lazy = bg_loader_options_defaults();
    bg_loader *loader = NULL;
    bg_error error = {0};
    bg_batch batch;

    lazy.worker_count = 0;
    if (bg_loader_create(dataset, &lazy, &loader, NULL) != BG_OK || bg_loader_begin_epoch(loader, 0, NULL) != BG_OK)
        abort();
    while (bg_loader_next(loader, &batch, &error) == BG_OK && batch.sample_count > 0)
        if (((const int32_t *)batch.tensors[0])[sequence_length] < 0 ||
            ((const int32_t *)batch.tensors[0])[sequence_length] >= 300)
            abort();
    if (error.status != BG_OK)
        check_message(&error);
    bg_loader_destroy(loader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bg_tokens_options options = {.vocabulary_size = 300};
    bg_dataset *dataset = NULL;
    bg_error error = {0};
    unsigned char *content;
    size_t index_bytes;

    if (size < 2 || (size_t)data[1] + 2 > size)
        return 0;
    options.sequence_length = data[0] & 15;
    index_bytes = data[1];
    size -= 2 + index_bytes;
    content = malloc(size + 1);
    if (content == NULL)
        return 0;
    memcpy(content, data + 2 + index_bytes, size);
    if (data[0] < 128)
        mend(content, size);
    if (bgi_tfrecord_parse("input", content, size, index_bytes > 0 ? (const char *)data + 2 : NULL, index_bytes,
                           &options, &dataset, &error) == BG_OK) {
        bgi_tfrecord_length(dataset);
        read_samples(dataset, options.sequence_length);
    } else {
        check_message(&error);
    }
    bg_dataset_destroy(dataset);
    free(content);
    return 0;
}
