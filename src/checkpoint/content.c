/*
 * content.c: collects the content of a checkpoint from weights and writes it to a file. Values are fetched one at a
 * time, from host copies or from the session that has them, so only one value must be in memory.
 */
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "runtime/state.h"

/* ---- content ---- */

enum { FIXED_METADATA = 13 };

static bg_status fetch_weight(void *user, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    bg_weights *weights = user;

    return bgi_weights_fetch(weights, bgi_weights_index(weights, entry->name), out_data, error);
}

bg_status bgi_checkpoint_begin(bgi_checkpoint_content *c, const bg_session *session, size_t more, bg_error *error)
{
    const bg_execution_options *execution = &bg_plan_options(bg_session_plan(session))->execution;
    bg_weights *weights = bg_session_weights(session);
    const size_t most = (size_t)bgi_weights_end(weights) + FIXED_METADATA + more;

    memset(c, 0, sizeof *c);
    c->weights = weights;
    c->fetch = fetch_weight;
    c->user = weights;
    c->threads = (bgi_thread_source){execution->start_thread, execution->start_thread_user};
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
        bgi_string_clear(&c->texts[i]);
    free(c->texts);
    free(c->entries);
    free(c->metadata);
}

void bgi_checkpoint_add(bgi_checkpoint_content *c, const char *key, const char *value)
{
    c->metadata[c->metadata_count++] = (bg_safetensors_metadata){.key = key, .value = value};
}

bgi_string *bgi_checkpoint_text(bgi_checkpoint_content *c)
{
    return &c->texts[c->text_count++];
}

bg_status bgi_checkpoint_add_text(bgi_checkpoint_content *c, const char *key, const bgi_string *value, bg_error *error)
{
    if (key == NULL || value->failed)
        return bgi_error_memory(error, "a checkpoint's metadata", 0);
    bgi_checkpoint_add(c, key, value->data != NULL ? value->data : "");
    return BG_OK;
}

bg_status bgi_checkpoint_add_number(bgi_checkpoint_content *c, const char *key, uint64_t number, bg_error *error)
{
    bgi_string *value = bgi_checkpoint_text(c);

    bgi_string_add(value, "%" PRIu64, number);
    return bgi_checkpoint_add_text(c, key, value, error);
}

bg_status bgi_checkpoint_add_blob(bgi_checkpoint_content *c, const void *blob, size_t size_bytes, bg_error *error)
{
    bgi_string *value = bgi_checkpoint_text(c);

    for (size_t i = 0; i < size_bytes; i++)
        bgi_string_add(value, "%02x", ((const unsigned char *)blob)[i]);
    return bgi_checkpoint_add_text(c, BGI_CHECKPOINT_BLOB, value, error);
}

bg_status bgi_checkpoint_add_weight(bgi_checkpoint_content *c, uint32_t index, bool with_value, bg_error *error)
{
    const bgi_tensor tensor = bgi_weights_tensor(c->weights, index);
    bgi_string *key = bgi_checkpoint_text(c), *value = bgi_checkpoint_text(c);

    bgi_string_add(key, BGI_CHECKPOINT_WEIGHT "%s", tensor.name);
    bgi_string_add(value, "%s ", bgi_checkpoint_role(tensor.role));
    if (tensor.is_given)
        bgi_string_add(value, BGI_CHECKPOINT_GIVEN);
    else
        bgi_string_add(value, "%" PRIu64, tensor.updates);
    BGI_TRY(bgi_checkpoint_add_text(c, key->failed ? NULL : key->data, value, error));
    if (with_value)
        c->entries[c->entry_count++] =
            (bg_safetensors_entry){.name = key->data + sizeof BGI_CHECKPOINT_WEIGHT - 1, .type = tensor.type};
    return BG_OK;
}

bg_status bgi_checkpoint_add_optimizer(bgi_checkpoint_content *c, const char *fallback, bg_error *error)
{
    const bg_weights *weights = c->weights;
    const uint32_t end = bgi_weights_end(weights);
    const char **kinds = malloc((end + 1u) * sizeof *kinds), *optimizer = NULL;
    bgi_string *text, *name;
    size_t count = 0;
    bool is_one = true;
    bg_status status;

    if (kinds == NULL)
        return bgi_error_memory(error, "kinds of state", end * sizeof *kinds);
    for (uint32_t i = 0; i < end; i++) {
        const bgi_tensor tensor = bgi_weights_tensor(weights, i);
        if (tensor.name == NULL || tensor.role != BG_ROLE_STATE)
            continue;
        kinds[count++] = bgi_checkpoint_kind(tensor.name);
        is_one =
            is_one && tensor.optimizer[0] != '\0' && (optimizer == NULL || strcmp(optimizer, tensor.optimizer) == 0);
        optimizer = tensor.optimizer;
    }
    text = bgi_checkpoint_text(c);
    status = bgi_checkpoint_join_kinds(kinds, count, text, error);
    free(kinds);
    BGI_TRY(status);
    if (count == 0)
        optimizer = fallback;
    if (optimizer == NULL || !is_one)
        return BG_OK;
    name = bgi_checkpoint_text(c);
    bgi_string_add(name, "%s", optimizer);
    BGI_TRY(bgi_checkpoint_add_text(c, BGI_CHECKPOINT_OPTIMIZER, name, error));
    return bgi_checkpoint_add_text(c, BGI_CHECKPOINT_KINDS, text, error);
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

bg_status bgi_checkpoint_write(bgi_checkpoint_content *c, const char *path, bg_error *error)
{
    bgi_checkpoint_add(c, BGI_CHECKPOINT_SUM, c->sum);
    qsort(c->entries, c->entry_count, sizeof *c->entries, compare_names);
    qsort(c->metadata, c->metadata_count, sizeof *c->metadata, compare_keys);
    return bgi_checkpoint_write_summed(path, c->entries, c->entry_count, c->metadata, c->metadata_count, c->fetch,
                                       c->user, &c->threads, &c->pace, c->sum, error);
}
