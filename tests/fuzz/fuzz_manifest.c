/*
 * fuzz_manifest.c: the manifest of a checkpoint in parts, with arbitrary content. In a valid input each element of each
 * tensor is in one run, and its metadata are read or rejected with a message.
 */
#include "checkpoint/stored.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensor(const bgi_stored *stored, const bgi_stored_tensor *tensor)
{
    int64_t elements = 0;

    for (size_t i = 0; i < tensor->runs.count; i++) {
        const bgi_run *run = &tensor->runs.items[i];
        if (run->part >= stored->part_count || run->length < 1 || run->count < 1)
            abort();
        elements += run->length * run->count;
    }
    if (stored->part_count > 0 && elements != bg_type_element_count(&tensor->type))
        abort();
    if (bgi_stored_find(stored, tensor->name) == NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bgi_stored *stored = NULL;
    bg_checkpoint head = {0};
    bg_error error = {0};

    if (bgi_stored_open_manifest("input", data, size, &stored, &error) != BG_OK) {
        if (error.message[0] == '\0')
            abort();
        return 0;
    }
    for (size_t i = 0; i < stored->count; i++)
        check_tensor(stored, &stored->tensors[i]);
    if (stored->is_checkpoint && bgi_stored_head(stored, &head, &error) != BG_OK && error.message[0] == '\0')
        abort();
    bg_checkpoint_clear(&head);
    bgi_stored_close(stored);
    return 0;
}
