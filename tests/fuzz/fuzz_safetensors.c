/*
 * fuzz_safetensors.c: safetensors content from anywhere. Of what reads, every byte of every tensor is there, aligned.
 */
#include "data/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bg_safetensors *file = NULL;
    bg_error error = {0};
    size_t total = 0, sum = 0;

    if (bgi_safetensors_parse("input", data, size, &file, &error) != BG_OK) {
        if (error.message[0] == '\0')
            abort();
        return 0;
    }
    for (size_t i = 0; i < bg_safetensors_count(file); i++) {
        const bg_safetensors_entry *entry = bg_safetensors_at(file, i);
        const size_t size_bytes = bg_type_size_bytes(&entry->type);

        if (bg_safetensors_find(file, entry->name) != entry ||
            (uintptr_t)entry->data % bg_dtype_size_bytes(entry->type.dtype) != 0)
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
    return 0;
}
