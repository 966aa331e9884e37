/*
 * head.c: reads the metadata of a checkpoint: version, step, seed, the caller's text and bytes.
 */
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "formats/safetensors.h"

static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bg_status read_blob(const bg_safetensors *file, bg_checkpoint *out, bg_error *error)
{
    const char *text = bg_safetensors_metadata_find(file, BGI_CHECKPOINT_BLOB);
    const size_t digits = text != NULL ? strlen(text) : 0;
    unsigned char *bytes;

    if (digits == 0)
        return BG_OK;
    if (digits % 2 != 0 || digits / 2 > BG_CHECKPOINT_BLOB_LIMIT)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "metadata `" BGI_CHECKPOINT_BLOB "` has %zu digits but must have an even number, up to %zu",
                            digits, 2 * BG_CHECKPOINT_BLOB_LIMIT);
    bytes = malloc(digits / 2);
    if (bytes == NULL)
        return bgi_error_memory(error, "a checkpoint's blob", digits / 2);
    out->blob = bytes;
    out->blob_bytes = digits / 2;
    for (size_t i = 0; i < digits; i += 2) {
        const int high = digit_value(text[i]), low = digit_value(text[i + 1]);
        if (high < 0 || low < 0)
            return bg_error_set(
                error, BG_ERROR_PARSE,
                "metadata `" BGI_CHECKPOINT_BLOB "`: digits %zu and %zu are not both hexadecimal (0-9, a-f)", i, i + 1);
        bytes[i / 2] = (unsigned char)(high << 4 | low);
    }
    return BG_OK;
}

/* Checks that each tensor has a record. */
static bg_status check_records(const bg_safetensors *file, bg_error *error)
{
    bgi_checkpoint_record ignored;

    for (size_t i = 0; i < bg_safetensors_count(file); i++)
        BGI_TRY(bgi_checkpoint_find_record(file, bg_safetensors_at(file, i)->name, &ignored, error));
    for (size_t i = 0; i < bg_safetensors_metadata_count(file); i++) {
        const char *key = bg_safetensors_metadata_at(file, i)->key;
        if (strncmp(key, BGI_CHECKPOINT_TENSOR, sizeof BGI_CHECKPOINT_TENSOR - 1) == 0)
            BGI_TRY(bgi_checkpoint_find_record(file, key + sizeof BGI_CHECKPOINT_TENSOR - 1, &ignored, error));
    }
    return BG_OK;
}

static bg_status read_metadata(const bg_safetensors *file, bg_checkpoint *out, bg_error *error)
{
    const char *info = bg_safetensors_metadata_find(file, BGI_CHECKPOINT_INFO);

    BGI_TRY(bgi_checkpoint_read_number(file, BGI_CHECKPOINT_STEP, &out->step, error));
    BGI_TRY(bgi_checkpoint_read_number(file, BGI_CHECKPOINT_SEED, &out->seed, error));
    BGI_TRY(read_blob(file, out, error));
    BGI_TRY(check_records(file, error));
    out->info = strdup(info != NULL ? info : "");
    return out->info != NULL ? BG_OK : bgi_error_memory(error, "a checkpoint's text", 0);
}

/* ---- the file ---- */

bg_status bgi_checkpoint_read_head(const bg_safetensors *file, bg_checkpoint *out, bg_error *error)
{
    const bool has_parts = bg_safetensors_metadata_find(file, BGI_CHECKPOINT_PARTS) != NULL;
    uint64_t version = 0;

    BGI_TRY(bgi_checkpoint_read_number(file, BGI_CHECKPOINT_VERSION, &version, error));
    if (version != (has_parts ? BGI_CHECKPOINT_MANIFEST_VERSION : BGI_CHECKPOINT_FILE_VERSION))
        return bg_error_set(
            error, BG_ERROR_UNSUPPORTED,
            "version %" PRIu64
            " of the format must be %d, or %d for a checkpoint in parts; another release of Brigade wrote it",
            version, BGI_CHECKPOINT_FILE_VERSION, BGI_CHECKPOINT_MANIFEST_VERSION);
    return read_metadata(file, out, error);
}

void bg_checkpoint_clear(bg_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    free(checkpoint->path);
    free(checkpoint->info);
    free(checkpoint->blob);
    memset(checkpoint, 0, sizeof *checkpoint);
}
