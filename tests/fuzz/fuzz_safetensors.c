/*
 * fuzz_safetensors.c: safetensors files with arbitrary content. In a valid input every byte of every tensor is present
 * and aligned.
 */
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const uint8_t *data, size_t size, bool keeps_foreign)
{
    bg_safetensors *file = NULL;
    bg_error error = {0};
    size_t total = 0, sum = 0;

    if (bgi_safetensors_parse("input", data, size, keeps_foreign, &file, &error) != BG_OK) {
        if (error.message[0] == '\0')
            abort();
        return;
    }
    for (size_t i = 0; i < bg_safetensors_count(file); i++) {
        const bg_safetensors_entry *entry = bg_safetensors_at(file, i);
        const size_t element_bytes = bgi_safetensors_storage_of(entry)->element_bytes;
        const size_t size_bytes = (size_t)bg_type_element_count(&entry->type) * element_bytes;

        if (bg_safetensors_find(file, entry->name) != entry || (uintptr_t)entry->data % element_bytes != 0)
            abort();
        for (size_t at = 0; at < size_bytes; at++)
            sum += ((const uint8_t *)entry->data)[at];
        total += size_bytes;
    }
    for (size_t i = 0; i < bg_safetensors_metadata_count(file); i++)
        sum += strlen(bg_safetensors_metadata_at(file, i)->value);
    if (total > size || sum > 255 * size)
        abort();
    bg_safetensors_destroy(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_all(data, size, false);
    read_all(data, size, true);
    return 0;
}
