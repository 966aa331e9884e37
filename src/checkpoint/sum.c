/*
 * sum.c: computes the checksum of a checkpoint. It covers the content that a reader would use, not the bytes of the
 * file. A change of the file that does not change this content is not damage, such as a tab instead of a space in
 * the header's padding.
 */
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc64.h"
#include "core/error.h"

/* The bytes of a value that are read at a time, which fit a core's private cache. */
enum { PART_BYTES = 1 << 18 };

static void add_text(bgi_crc64 *crc, const char *text)
{
    bgi_crc64_add(crc, text, strlen(text) + 1);
}

void bgi_checkpoint_sum_metadata(bgi_crc64 *crc, const bg_safetensors_metadata *pair)
{
    if (strcmp(pair->key, BGI_CHECKPOINT_SUM) == 0)
        return;
    add_text(crc, pair->key);
    add_text(crc, pair->value);
}

void bgi_checkpoint_sum_name(bgi_crc64 *crc, const bg_safetensors_entry *entry)
{
    char type[BG_TYPE_TEXT_BYTES];

    add_text(crc, entry->name);
    add_text(crc, bg_type_text(&entry->type, type));
}

void bgi_checkpoint_print_sum(const bgi_crc64 *crc, char text[BGI_CHECKPOINT_SUM_BYTES])
{
    snprintf(text, BGI_CHECKPOINT_SUM_BYTES, "%016" PRIx64, bgi_crc64_value(crc));
}

bg_status bgi_checkpoint_sum(const bg_safetensors_entry *entries, size_t entry_count,
                             const bg_safetensors_metadata *metadata, size_t metadata_count, bg_safetensors_fetch fetch,
                             void *user, char text[BGI_CHECKPOINT_SUM_BYTES], bg_error *error)
{
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    for (size_t i = 0; i < metadata_count; i++)
        bgi_checkpoint_sum_metadata(&crc, &metadata[i]);
    for (size_t i = 0; i < entry_count; i++) {
        const void *data = entries[i].data;

        if (data == NULL)
            BGI_TRY(fetch(user, &entries[i], &data, error));
        bgi_checkpoint_sum_name(&crc, &entries[i]);
        bgi_crc64_add(&crc, data, bg_type_size_bytes(&entries[i].type));
    }
    bgi_checkpoint_print_sum(&crc, text);
    return BG_OK;
}

static bg_status add_value(bgi_crc64 *crc, const bg_safetensors *file, const bg_safetensors_entry *entry,
                           unsigned char *part, bg_error *error)
{
    const size_t size_bytes = bg_type_size_bytes(&entry->type);

    if (entry->data != NULL) {
        bgi_crc64_add(crc, entry->data, size_bytes);
        return BG_OK;
    }
    for (size_t at = 0, some; at < size_bytes; at += some) {
        some = size_bytes - at < PART_BYTES ? size_bytes - at : PART_BYTES;
        BGI_TRY(bg_safetensors_read(file, entry, at, some, part, error));
        bgi_crc64_add(crc, part, some);
    }
    return BG_OK;
}

bg_status bgi_checkpoint_sum_file(const bg_safetensors *file, char text[BGI_CHECKPOINT_SUM_BYTES], bg_error *error)
{
    unsigned char *part = malloc(PART_BYTES);
    bg_status status = part != NULL ? BG_OK : bgi_error_memory(error, "a part of a checkpoint", PART_BYTES);
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    for (size_t i = 0; i < bg_safetensors_metadata_count(file); i++)
        bgi_checkpoint_sum_metadata(&crc, bg_safetensors_metadata_at(file, i));
    for (size_t i = 0; status == BG_OK && i < bg_safetensors_count(file); i++) {
        bgi_checkpoint_sum_name(&crc, bg_safetensors_at(file, i));
        status = add_value(&crc, file, bg_safetensors_at(file, i), part, error);
    }
    bgi_checkpoint_print_sum(&crc, text);
    free(part);
    return status;
}

bg_status bgi_checkpoint_check_sum(const bg_safetensors *file, const char *what, bg_error *error)
{
    const char *expected = bg_safetensors_metadata_find(file, BGI_CHECKPOINT_SUM);
    char sum[BGI_CHECKPOINT_SUM_BYTES];

    if (expected == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "has no `" BGI_CHECKPOINT_SUM "`: it is no %s", what);
    BGI_TRY(bgi_checkpoint_sum_file(file, sum, error));
    if (strcmp(sum, expected) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "the checksum is %s, but the file records %.40s", sum, expected);
    return BG_OK;
}
