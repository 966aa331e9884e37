/*
 * fuzz_tokens.c: token files with arbitrary content; the first three bytes choose options. Every sample is read.
 */
#include "data/tokens.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks that an error has one line with the reason. */
static void check_message(const bg_error *error)
{
    if (error->message[0] == '\0' || strchr(error->message, '\n') != NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bg_tokens_options options = {0};
    bg_loader_options lazy = bg_loader_options_defaults();
    bg_dataset *dataset = NULL;
    bg_loader *loader = NULL;
    bg_error error = {0};
    bg_batch batch;

    if (size < 3)
        return 0;
    options.token_bytes = data[0] & 7;
    options.sequence_length = data[1];
    options.stride = data[2] & 15;
    options.vocabulary_size = data[0] & 128 ? 300 : 0;
    if (bgi_tokens_parse("input", data + 3, size - 3, &options, &dataset, &error) != BG_OK) {
        check_message(&error);
        return 0;
    }
    lazy.worker_count = 0;
    if (bg_loader_create(dataset, &lazy, &loader, NULL) != BG_OK || bg_loader_begin_epoch(loader, 0, NULL) != BG_OK)
        abort();
    while (bg_loader_next(loader, &batch, &error) == BG_OK && batch.sample_count > 0)
        if (((const int32_t *)batch.tensors[0])[options.sequence_length] < 0)
            abort();
    if (error.status != BG_OK)
        check_message(&error);
    bg_loader_destroy(loader);
    bg_dataset_destroy(dataset);
    return 0;
}
