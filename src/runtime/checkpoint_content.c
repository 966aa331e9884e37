/*
 * checkpoint_content.c: what a checkpoint holds (and the index of files of remote buffers, which is made alike), from
 * weights to a file. Values come one after another, from the weights' host copies or from where they are at home, so
 * that no more than one of them need be in memory:
 *
 *     value, value, ... --> checksum (a first pass) --> file (a second)
 *
 * The checksum is over content rather than bytes: what a reader would believe. A change of the file that changes
 * nothing of that (none is known within one byte) is no damage.
 */
#include "runtime/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc64.h"
#include "core/error.h"
#include "runtime/weights.h"

/* ---- checksum ---- */

static void add_text(bgi_crc64 *crc, const char *text)
{
    bgi_crc64_add(crc, text, strlen(text) + 1);
}

bg_status bgi_checkpoint_sum(const bg_safetensors_entry *entries, size_t entry_count,
                             const bg_safetensors_metadata *metadata, size_t metadata_count, bg_safetensors_fetch fetch,
                             void *user, char text[BGI_CHECKPOINT_SUM_BYTES], bg_error *error)
{
    char type[BG_TYPE_TEXT_BYTES];
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    for (size_t i = 0; i < metadata_count; i++) {
        if (strcmp(metadata[i].key, BGI_CHECKPOINT_SUM) == 0)
            continue;
        add_text(&crc, metadata[i].key);
        add_text(&crc, metadata[i].value);
    }
    for (size_t i = 0; i < entry_count; i++) {
        const void *data = entries[i].data;

        if (data == NULL)
            BGI_TRY(fetch(user, &entries[i], &data, error));
        add_text(&crc, entries[i].name);
        add_text(&crc, bg_type_text(&entries[i].type, type));
        bgi_crc64_add(&crc, data, bg_type_size_bytes(&entries[i].type));
    }
    snprintf(text, BGI_CHECKPOINT_SUM_BYTES, "%016" PRIx64, bgi_crc64_value(&crc));
    return BG_OK;
}

/* ---- content ---- */

enum { FIXED_METADATA = 8 };

bg_status bgi_checkpoint_begin(bgi_checkpoint_content *c, bg_weights *weights, bg_error *error)
{
    const size_t most = (size_t)weights->count + FIXED_METADATA;

    memset(c, 0, sizeof *c);
    c->weights = weights;
    c->entries = calloc(most, sizeof *c->entries);
    c->metadata = calloc(most, sizeof *c->metadata);
    c->texts = calloc(2 * most, sizeof *c->texts);
    if (c->entries == NULL || c->metadata == NULL || c->texts == NULL)
        return bgi_error_memory(error, "a checkpoint's names", most * sizeof *c->entries);
    return BG_OK;
}

void bgi_checkpoint_end(bgi_checkpoint_content *c)
{
    for (size_t i = 0; i < c->text_count; i++)
        bgi_text_clear(&c->texts[i]);
    free(c->texts);
    free(c->entries);
    free(c->metadata);
}

void bgi_checkpoint_add(bgi_checkpoint_content *c, const char *key, const char *value)
{
    c->metadata[c->metadata_count++] = (bg_safetensors_metadata){.key = key, .value = value};
}

/* An empty text that content frees. */
static bgi_text *take_text(bgi_checkpoint_content *c)
{
    return &c->texts[c->text_count++];
}

static bg_status add_metadata(bgi_checkpoint_content *c, const char *key, const bgi_text *value, bg_error *error)
{
    if (key == NULL || value->failed)
        return bgi_error_memory(error, "a checkpoint's metadata", 0);
    bgi_checkpoint_add(c, key, value->data != NULL ? value->data : "");
    return BG_OK;
}

bg_status bgi_checkpoint_add_number(bgi_checkpoint_content *c, const char *key, uint64_t number, bg_error *error)
{
    bgi_text *value = take_text(c);

    bgi_text_add(value, "%" PRIu64, number);
    return add_metadata(c, key, value, error);
}

bg_status bgi_checkpoint_add_blob(bgi_checkpoint_content *c, const void *blob, size_t size_bytes, bg_error *error)
{
    bgi_text *value = take_text(c);

    for (size_t i = 0; i < size_bytes; i++)
        bgi_text_add(value, "%02x", ((const unsigned char *)blob)[i]);
    return add_metadata(c, BGI_CHECKPOINT_BLOB, value, error);
}

bg_status bgi_checkpoint_add_weight(bgi_checkpoint_content *c, uint32_t index, bool with_value, bg_error *error)
{
    const bgi_weight *weight = &c->weights->items[index];
    bgi_text *key = take_text(c), *value = take_text(c);

    bgi_text_add(key, BGI_CHECKPOINT_WEIGHT "%s", weight->name);
    bgi_text_add(value, "%s ", bgi_checkpoint_role(weight->role));
    if (weight->is_given)
        bgi_text_add(value, BGI_CHECKPOINT_GIVEN);
    else
        bgi_text_add(value, "%" PRIu64, weight->updates);
    if (with_value)
        c->entries[c->entry_count++] = (bg_safetensors_entry){.name = weight->name, .type = weight->type};
    return add_metadata(c, key->failed ? NULL : key->data, value, error);
}

/* ---- to a file ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_entry *)a)->name, ((const bg_safetensors_entry *)b)->name);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_metadata *)a)->key, ((const bg_safetensors_metadata *)b)->key);
}

static bg_status fetch_weight(void *user, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    bg_weights *weights = user;

    return bgi_weights_fetch(weights, bgi_weights_index(weights, entry->name), out_data, error);
}

bg_status bgi_checkpoint_write(bgi_checkpoint_content *c, const char *path, bg_error *error)
{
    char sum[BGI_CHECKPOINT_SUM_BYTES];

    qsort(c->entries, c->entry_count, sizeof *c->entries, compare_names);
    qsort(c->metadata, c->metadata_count, sizeof *c->metadata, compare_keys);
    BGI_TRY(bgi_checkpoint_sum(c->entries, c->entry_count, c->metadata, c->metadata_count, fetch_weight, c->weights,
                               sum, error));
    bgi_checkpoint_add(c, BGI_CHECKPOINT_SUM, sum);
    return bg_safetensors_write_fetched(path, c->entries, c->entry_count, c->metadata, c->metadata_count, fetch_weight,
                                        c->weights, error);
}
