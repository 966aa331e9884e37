/*
 * checkpoint.c: writing checkpoints. A checkpoint is a file of named tensors (data/safetensors_write.c) whose metadata
 * say the rest; keys are in checkpoint.h. The values are written from the weights' host copies, which are there anyway:
 *
 *     devices --> host copies --> checksum (a first pass) --> file (a second)
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
#include "core/file.h"
#include "core/text.h"
#include "runtime/session.h"
#include "runtime/weights.h"

/* ---- checksum ---- */

static void add_text(bgi_crc64 *crc, const char *text)
{
    bgi_crc64_add(crc, text, strlen(text) + 1);
}

void bgi_checkpoint_sum(const bg_safetensors_entry *entries, size_t entry_count,
                        const bg_safetensors_metadata *metadata, size_t metadata_count,
                        char text[BGI_CHECKPOINT_SUM_BYTES])
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
        add_text(&crc, entries[i].name);
        add_text(&crc, bg_type_text(&entries[i].type, type));
        bgi_crc64_add(&crc, entries[i].data, bg_type_size_bytes(&entries[i].type));
    }
    snprintf(text, BGI_CHECKPOINT_SUM_BYTES, "%016" PRIx64, bgi_crc64_value(&crc));
}

/* ---- content ---- */

/* What is written; the lists in the order that a reader finds them in. */
typedef struct content {
    bg_safetensors_entry *entries;
    size_t entry_count;
    bg_safetensors_metadata *metadata;
    size_t metadata_count;
    bgi_text *texts; /* keys and values that were made, as many as `text_count` */
    size_t text_count;
} content;

enum { FIXED_METADATA = 7 };

static bg_status open_content(content *c, uint32_t weight_count, bg_error *error)
{
    const size_t most = (size_t)weight_count + FIXED_METADATA;

    c->entries = calloc(most, sizeof *c->entries);
    c->metadata = calloc(most, sizeof *c->metadata);
    c->texts = calloc(2 * most, sizeof *c->texts);
    if (c->entries == NULL || c->metadata == NULL || c->texts == NULL)
        return bgi_error_memory(error, "a checkpoint's names", most * sizeof *c->entries);
    return BG_OK;
}

static void close_content(content *c)
{
    for (size_t i = 0; i < c->text_count; i++)
        bgi_text_clear(&c->texts[i]);
    free(c->texts);
    free(c->entries);
    free(c->metadata);
}

/* An empty text that content frees. */
static bgi_text *take_text(content *c)
{
    return &c->texts[c->text_count++];
}

static bg_status add_metadata(content *c, const char *key, const bgi_text *value, bg_error *error)
{
    if (key == NULL || value->failed)
        return bgi_error_memory(error, "a checkpoint's metadata", 0);
    c->metadata[c->metadata_count++] =
        (bg_safetensors_metadata){.key = key, .value = value->data != NULL ? value->data : ""};
    return BG_OK;
}

static bg_status add_number(content *c, const char *key, uint64_t number, bg_error *error)
{
    bgi_text *value = take_text(c);

    bgi_text_add(value, "%" PRIu64, number);
    return add_metadata(c, key, value, error);
}

static bg_status add_blob(content *c, const void *blob, size_t size_bytes, bg_error *error)
{
    bgi_text *value = take_text(c);

    for (size_t i = 0; i < size_bytes; i++)
        bgi_text_add(value, "%02x", ((const unsigned char *)blob)[i]);
    return add_metadata(c, BGI_CHECKPOINT_BLOB, value, error);
}

static bg_status add_weight(content *c, const bgi_weight *weight, bg_error *error)
{
    bgi_text *key = take_text(c), *value = take_text(c);

    bgi_text_add(key, BGI_CHECKPOINT_WEIGHT "%s", weight->name);
    bgi_text_add(value, "%s ", bgi_checkpoint_role(weight->role));
    if (weight->is_given)
        bgi_text_add(value, BGI_CHECKPOINT_GIVEN);
    else
        bgi_text_add(value, "%" PRIu64, weight->updates);
    c->entries[c->entry_count++] =
        (bg_safetensors_entry){.name = weight->name, .type = weight->type, .data = weight->data};
    return add_metadata(c, key->failed ? NULL : key->data, value, error);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_entry *)a)->name, ((const bg_safetensors_entry *)b)->name);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_metadata *)a)->key, ((const bg_safetensors_metadata *)b)->key);
}

static bg_status fill_content(content *c, const bg_session *session, const bg_checkpoint_save_options *options,
                              bg_error *error)
{
    bg_weights *weights = session->weights;

    BGI_TRY(add_number(c, BGI_CHECKPOINT_VERSION, BGI_CHECKPOINT_NEWEST_VERSION, error));
    BGI_TRY(add_number(c, BGI_CHECKPOINT_STEP, weights->step, error));
    BGI_TRY(add_number(c, BGI_CHECKPOINT_SEED, session->plan->options.seed, error));
    c->metadata[c->metadata_count++] =
        (bg_safetensors_metadata){.key = BGI_CHECKPOINT_INFO, .value = options->info != NULL ? options->info : ""};
    if (options->blob_bytes > 0)
        BGI_TRY(add_blob(c, options->blob, options->blob_bytes, error));
    for (uint32_t i = 0; i < weights->count; i++) {
        BGI_TRY(bgi_weights_pull(weights, i, error));
        BGI_TRY(add_weight(c, &weights->items[i], error));
    }
    qsort(c->entries, c->entry_count, sizeof *c->entries, compare_names);
    qsort(c->metadata, c->metadata_count, sizeof *c->metadata, compare_keys);
    return BG_OK;
}

/* ---- saving ---- */

bg_checkpoint_save_options bg_checkpoint_save_defaults(void)
{
    return (bg_checkpoint_save_options){.max_checkpoints = 1};
}

static bg_status check_options(const char *directory, const bg_checkpoint_save_options *options, bg_error *error)
{
    if (directory == NULL || directory[0] == '\0')
        return bg_error_set(error, BG_ERROR_INVALID, "checkpoint: no directory");
    if (options->max_checkpoints == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "checkpoint: max_checkpoints 0, expected at least 1");
    if (options->blob_bytes > BG_CHECKPOINT_BLOB_LIMIT)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "checkpoint: a blob of %zu bytes, expected at most %zu; keep more in a file of your own",
                            options->blob_bytes, BG_CHECKPOINT_BLOB_LIMIT);
    if (options->blob_bytes > 0 && options->blob == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "checkpoint: blob_bytes %zu without a blob", options->blob_bytes);
    return BG_OK;
}

static bg_status write_content(const content *c, const char *directory, uint64_t step, bg_error *error)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];
    char *path = bgi_path_join(directory, bgi_checkpoint_name(step, name));
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "a path", strlen(directory));
    status = bg_safetensors_write(path, c->entries, c->entry_count, c->metadata, c->metadata_count, error);
    free(path);
    return status;
}

/* A later checkpoint would be taken for the newest by the next load, and this one for an old one. */
static bg_status check_order(const char *directory, const bgi_checkpoint_list *list, uint64_t step, bg_error *error)
{
    char later[BGI_CHECKPOINT_NAME_BYTES];

    if (list->count > 0 && list->steps[0] > step)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "checkpoint: %s has `%s`, later than step %" PRIu64
                            " of this run; remove it, or save to another directory",
                            directory, bgi_checkpoint_name(list->steps[0], later), step);
    return BG_OK;
}

bg_status bg_checkpoint_save(bg_session *session, const char *directory, const bg_checkpoint_save_options *options,
                             bg_error *error)
{
    const bg_checkpoint_save_options defaults = bg_checkpoint_save_defaults();
    const bg_options *run = &session->plan->options;
    const uint64_t step = session->weights->step;
    char sum[BGI_CHECKPOINT_SUM_BYTES];
    bgi_checkpoint_list list = {0};
    content c = {0};
    bg_status status;

    if (options == NULL)
        options = &defaults;
    BGI_TRY(check_options(directory, options, error));
    BGI_TRY_CLEANUP(bgi_checkpoint_find(directory, &list, error));
    BGI_TRY_CLEANUP(check_order(directory, &list, step, error));
    BGI_TRY_CLEANUP(open_content(&c, session->weights->count, error));
    BGI_TRY_CLEANUP(fill_content(&c, session, options, error));
    bgi_checkpoint_sum(c.entries, c.entry_count, c.metadata, c.metadata_count, sum);
    c.metadata[c.metadata_count++] = (bg_safetensors_metadata){.key = BGI_CHECKPOINT_SUM, .value = sum};
    BGI_TRY_CLEANUP(bgi_folder_create(directory, error));
    BGI_TRY_CLEANUP(write_content(&c, directory, step, error));
    /* The list is older than this checkpoint, unless it took the place of one. */
    bgi_checkpoint_remove_old(directory, &list,
                              (size_t)options->max_checkpoints - 1 + (list.count > 0 && list.steps[0] == step),
                              run->log, run->log_user);
cleanup:
    close_content(&c);
    free(list.steps);
    return status;
}
