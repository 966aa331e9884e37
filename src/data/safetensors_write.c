/*
 * safetensors_write.c: writing files of named tensors. The header is made and checked before the file is begun.
 */
#include "data/safetensors.h"

#include "core/error.h"
#include "core/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, DATA_ALIGNMENT = 8 };

static int compare_for_file(const void *a, const void *b)
{
    const bg_safetensors_entry *x = *(const bg_safetensors_entry *const *)a,
                               *y = *(const bg_safetensors_entry *const *)b;
    const size_t x_bytes = bg_dtype_size_bytes(x->type.dtype), y_bytes = bg_dtype_size_bytes(y->type.dtype);

    if (x_bytes != y_bytes)
        return x_bytes > y_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* What brings the data of entries that have none; NULL: all have. */
typedef struct source {
    bg_safetensors_fetch fetch;
    void *user;
} source;

static bg_status check_entry(const char *path, const bg_safetensors_entry *entry, const source *from, bg_error *error)
{
    bg_status status;

    if (entry->name == NULL || (entry->data == NULL && from->fetch == NULL))
        return bg_error_set(error, BG_ERROR_INVALID, "%s: tensor `%s` has no %s", path,
                            entry->name == NULL ? "(null)" : entry->name, entry->name == NULL ? "name" : "data");
    if (strcmp(entry->name, BGI_SAFETENSORS_METADATA) == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: tensor `%s`: the name is reserved for metadata", path,
                            entry->name);
    status = bg_type_validate(&entry->type, error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s: tensor `%.200s`", path, entry->name);
}

/* Adds `value` (whose reference it takes) under a new key. */
static bg_status add_new(const char *path, json_t *object, const char *key, json_t *value, const char *kind,
                         bg_error *error)
{
    if (json_object_get(object, key) != NULL) {
        json_decref(value);
        return bg_error_set(error, BG_ERROR_INVALID, "%s: %s `%.200s` is there twice", path, kind, key);
    }
    /* Fails on NULL as well, which is what jansson makes of text that is not UTF-8. */
    if (json_object_set_new(object, key, value) != 0)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: %s `%.200s`: not UTF-8, or out of memory", path, kind, key);
    return BG_OK;
}

static json_t *describe(const bg_safetensors_entry *entry, uint64_t begin)
{
    const uint64_t end = begin + bg_type_size_bytes(&entry->type);
    json_t *shape = json_array();

    for (uint32_t i = 0; i < entry->type.rank; i++)
        if (json_array_append_new(shape, json_integer(entry->type.dims[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", bgi_safetensors_dtype_name(entry->type.dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static bg_status fill_header(const char *path, json_t *header, const bg_safetensors_entry *const *sorted, size_t count,
                             const bg_safetensors_metadata *metadata, size_t metadata_count, bg_error *error)
{
    uint64_t at = 0;

    if (metadata_count > 0) {
        json_t *object = json_object();

        BGI_TRY(add_new(path, header, BGI_SAFETENSORS_METADATA, object, "the header's", error));
        for (size_t i = 0; i < metadata_count; i++)
            BGI_TRY(add_new(path, object, metadata[i].key, json_string(metadata[i].value), "metadata", error));
    }
    for (size_t i = 0; i < count; i++) {
        const size_t size_bytes = bg_type_size_bytes(&sorted[i]->type);

        if (size_bytes > INT64_MAX - at)
            return bg_error_set(error, BG_ERROR_INVALID, "%s: the tensors' sizes overflow", path);
        BGI_TRY(add_new(path, header, sorted[i]->name, describe(sorted[i], at), "tensor", error));
        at += size_bytes;
    }
    return BG_OK;
}

/* Stops at the first that cannot be fetched. */
static bg_status write_data(bgi_file_writer *writer, const bg_safetensors_entry *const *sorted, size_t count,
                            const source *from, bg_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const void *data = sorted[i]->data;

        if (data == NULL)
            BGI_TRY(from->fetch(from->user, sorted[i], &data, error));
        bgi_file_write(writer, data, bg_type_size_bytes(&sorted[i]->type));
    }
    return BG_OK;
}

static bg_status write_all(const char *path, const char *header, const bg_safetensors_entry *const *sorted,
                           size_t count, const source *from, bg_error *error)
{
    const uint64_t text_bytes = strlen(header);
    const uint64_t padded_bytes = (text_bytes + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    unsigned char length[LENGTH_BYTES];
    bgi_file_writer writer = {0};
    bg_status status;

    if (padded_bytes > BGI_SAFETENSORS_HEADER_LIMIT)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: the header would have %" PRIu64 " bytes, above the format's limit of %" PRIu64, path,
                            padded_bytes, BGI_SAFETENSORS_HEADER_LIMIT);
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)(padded_bytes >> (8 * i));
    BGI_TRY(bgi_file_writer_begin(&writer, path, error));
    bgi_file_write(&writer, length, sizeof length);
    bgi_file_write(&writer, header, text_bytes);
    bgi_file_write(&writer, "        ", padded_bytes - text_bytes);
    status = write_data(&writer, sorted, count, from, error);
    if (status != BG_OK) {
        bgi_file_writer_abandon(&writer);
        return status;
    }
    return bgi_file_writer_commit(&writer, error);
}

static bg_status write_file(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                            const bg_safetensors_metadata *metadata, size_t metadata_count, const source *from,
                            bg_error *error)
{
    const bg_safetensors_entry **sorted = NULL;
    json_t *header = NULL;
    char *text = NULL;
    bg_status status;

    for (size_t i = 0; i < entry_count; i++)
        BGI_TRY(check_entry(path, &entries[i], from, error));
    sorted = calloc(entry_count + 1, sizeof *sorted);
    header = json_object();
    if (sorted == NULL || header == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a header", (entry_count + 1) * sizeof *sorted));
    for (size_t i = 0; i < entry_count; i++)
        sorted[i] = &entries[i];
    qsort(sorted, entry_count, sizeof *sorted, compare_for_file);
    BGI_TRY_CLEANUP(fill_header(path, header, sorted, entry_count, metadata, metadata_count, error));
    text = json_dumps(header, JSON_COMPACT);
    if (text == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a header's text", 0));
    status = write_all(path, text, sorted, entry_count, from, error);

cleanup:
    free(text);
    json_decref(header);
    free(sorted);
    return status;
}

bg_status bg_safetensors_write(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                               const bg_safetensors_metadata *metadata, size_t metadata_count, bg_error *error)
{
    return write_file(path, entries, entry_count, metadata, metadata_count, &(source){.fetch = NULL}, error);
}

bg_status bg_safetensors_write_fetched(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                       const bg_safetensors_metadata *metadata, size_t metadata_count,
                                       bg_safetensors_fetch fetch, void *user, bg_error *error)
{
    return write_file(path, entries, entry_count, metadata, metadata_count, &(source){fetch, user}, error);
}
