/*
 * metadata.c: finds and changes the metadata of a model: texts by key, for which the format defines no meaning.
 */
#include "onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

static bool has_key(const BgiOnnx__Entry *entry, const char *key)
{
    return entry->key != NULL && strcmp(entry->key, key) == 0;
}

const char *bg_onnx_metadata_find(const bg_onnx *onnx, const char *key)
{
    if (onnx == NULL || key == NULL)
        return NULL;
    for (size_t i = 0; i < onnx->model->n_metadata_props; i++) {
        const BgiOnnx__Entry *entry = onnx->model->metadata_props[i];

        if (has_key(entry, key))
            return entry->value != NULL ? entry->value : "";
    }
    return NULL;
}

/* Makes an entry that protobuf-c can free; returns NULL if memory is exhausted. */
static BgiOnnx__Entry *make_entry(const char *key, const char *value)
{
    BgiOnnx__Entry *entry = malloc(sizeof *entry);

    if (entry == NULL)
        return NULL;
    bgi_onnx__entry__init(entry);
    entry->key = strdup(key);
    entry->value = strdup(value);
    if (entry->key != NULL && entry->value != NULL)
        return entry;
    free(entry->key);
    free(entry->value);
    free(entry);
    return NULL;
}

/* Removes all entries with the key. */
static void remove_key(BgiOnnx__Model *model, const char *key)
{
    size_t count = 0;

    for (size_t i = 0; i < model->n_metadata_props; i++)
        if (has_key(model->metadata_props[i], key))
            bgi_onnx__entry__free_unpacked(model->metadata_props[i], NULL);
        else
            model->metadata_props[count++] = model->metadata_props[i];
    model->n_metadata_props = count;
}

bg_status bg_onnx_metadata_set(bg_onnx *onnx, const char *key, const char *value, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(onnx, "onnx", __func__, error));
    BGI_TRY(bgi_require(key, "key", __func__, error));

    BgiOnnx__Model *model = onnx->model;
    BgiOnnx__Entry *entry, **list;

    if (value == NULL) {
        remove_key(model, key);
        return BG_OK;
    }
    list = realloc(model->metadata_props, (model->n_metadata_props + 1) * sizeof *list);
    if (list != NULL)
        model->metadata_props = list;
    entry = list != NULL ? make_entry(key, value) : NULL;
    if (entry == NULL)
        return bgi_error_memory(error, "metadata", strlen(key) + strlen(value));
    remove_key(model, entry->key); /* `key` may be one of the removed texts */
    list[model->n_metadata_props++] = entry;
    return BG_OK;
}
