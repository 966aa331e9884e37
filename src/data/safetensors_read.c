/*
 * safetensors_read.c: opening files of named tensors. Nothing in the file is believed before it is checked against the
 * file's size and against everything else in it.
 */
#include "data/safetensors.h"

#include "core/arena.h"
#include "core/error.h"
#include "core/file.h"
#include "core/narrow.h"
#include "data/mapping.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, SHORTEST_HEADER = 2 };

/* A tensor and how its elements lie in the file. The entry comes first: pointers to it are pointers to the item. */
typedef struct item {
    bg_safetensors_entry entry;
    const bgi_safetensors_storage *storage;
} item;

struct bg_safetensors {
    bgi_arena arena;
    item *entries; /* by name */
    size_t entry_count;
    bg_safetensors_metadata *metadata; /* by key */
    size_t metadata_count;
    void *mapping; /* NULL when the content is the caller's */
    size_t mapping_bytes;
};

/* What parsing needs beside the result. */
typedef struct parser {
    const char *name;
    const unsigned char *data; /* behind the header */
    uint64_t data_bytes;
    bool keeps_foreign;
    bg_safetensors *file;
    bg_error *error;
} parser;

/* ---- types ---- */

static const bgi_safetensors_storage storages[] = {
    {"F32", BG_FLOAT32, 4},    {"BF16", BG_BFLOAT16, 2},  {"F64", BG_FLOAT64, 8},     {"I32", BG_INT32, 4},
    {"U8", BG_UINT8, 1},       {"F16", BG_FLOAT16, 2},    {"BOOL", BG_DTYPE_NONE, 1}, {"I8", BG_DTYPE_NONE, 1},
    {"I16", BG_DTYPE_NONE, 2}, {"U16", BG_DTYPE_NONE, 2}, {"U32", BG_DTYPE_NONE, 4},  {"I64", BG_DTYPE_NONE, 8},
    {"U64", BG_DTYPE_NONE, 8},
};
enum { STORAGE_COUNT = sizeof storages / sizeof storages[0] };

const char *bgi_safetensors_dtype_name(bg_dtype dtype)
{
    for (int i = 0; i < STORAGE_COUNT; i++)
        if (dtype != BG_DTYPE_NONE && storages[i].dtype == dtype)
            return storages[i].name;
    return NULL;
}

static const bgi_safetensors_storage *find_storage(const char *name)
{
    for (int i = 0; i < STORAGE_COUNT; i++)
        if (strcmp(storages[i].name, name) == 0)
            return &storages[i];
    return NULL;
}

/* A type of Brigade's whose elements are as large. */
static bg_dtype find_stand_in(const bgi_safetensors_storage *storage)
{
    int i = 0;

    while (storages[i].dtype == BG_DTYPE_NONE || storages[i].element_bytes != storage->element_bytes)
        i++;
    return storages[i].dtype;
}

/* ---- one tensor's description ---- */

static bg_status fail_tensor(const parser *p, const char *tensor, bg_status status, const char *what)
{
    return bg_error_set(p->error, status, "%s: tensor `%.200s`: %s", p->name, tensor, what);
}

static bg_status parse_dtype(const parser *p, const char *tensor, const json_t *description, item *out)
{
    const char *text = json_string_value(json_object_get(description, "dtype"));

    if (text == NULL)
        return fail_tensor(p, tensor, BG_ERROR_PARSE, "has no `dtype` that is a string");
    out->storage = find_storage(text);
    if (out->storage == NULL || (out->storage->dtype == BG_DTYPE_NONE && !p->keeps_foreign))
        return bg_error_set(p->error, BG_ERROR_UNSUPPORTED,
                            "%s: tensor `%.200s`: dtype `%.40s`, expected F32, BF16, F16, F64, I32 or U8", p->name,
                            tensor, text);
    /* Sizes are checked with it; what is foreign loses it at the end. */
    out->entry.type.dtype = find_stand_in(out->storage);
    return BG_OK;
}

static bg_status parse_shape(const parser *p, const char *tensor, const json_t *description, bg_type *type)
{
    const json_t *shape = json_object_get(description, "shape");
    const size_t rank = json_array_size(shape);

    if (!json_is_array(shape))
        return fail_tensor(p, tensor, BG_ERROR_PARSE, "has no `shape` that is an array");
    if (rank > BG_MAX_RANK)
        return bg_error_set(p->error, BG_ERROR_UNSUPPORTED, "%s: tensor `%.200s`: %zu dimensions, expected at most %d",
                            p->name, tensor, rank, BG_MAX_RANK);
    type->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);

        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return bg_error_set(p->error, BG_ERROR_PARSE,
                                "%s: tensor `%.200s`: dimension %zu is not an integer of at least 0", p->name, tensor,
                                i);
        if (json_integer_value(dim) == 0)
            return bg_error_set(p->error, BG_ERROR_UNSUPPORTED,
                                "%s: tensor `%.200s`: dimension %zu is 0; empty tensors are not supported", p->name,
                                tensor, i);
        type->dims[i] = json_integer_value(dim);
    }
    if (bg_type_validate(type, p->error) != BG_OK) {
        if (p->error != NULL)
            p->error->status = BG_ERROR_PARSE;
        return bg_error_context(p->error, BG_ERROR_PARSE, "%s: tensor `%.200s`", p->name, tensor);
    }
    return BG_OK;
}

static bg_status parse_offsets(const parser *p, const char *tensor, const json_t *description, const bg_type *type,
                               uint64_t *begin)
{
    const json_t *offsets = json_object_get(description, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    const uint64_t expected = bg_type_size_bytes(type);
    char text[BG_TYPE_TEXT_BYTES];
    json_int_t start, end;

    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second))
        return fail_tensor(p, tensor, BG_ERROR_PARSE, "has no `data_offsets` that are two integers");
    start = json_integer_value(first);
    end = json_integer_value(second);
    if (start < 0 || end < start || (uint64_t)end > p->data_bytes)
        return bg_error_set(p->error, BG_ERROR_PARSE,
                            "%s: tensor `%.200s`: data offsets %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT
                            " are not within the file's %" PRIu64 " bytes of data",
                            p->name, tensor, start, end, p->data_bytes);
    if ((uint64_t)(end - start) != expected)
        return bg_error_set(p->error, BG_ERROR_PARSE,
                            "%s: tensor `%.200s`: data offsets %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT
                            " hold %" JSON_INTEGER_FORMAT " bytes, expected %" PRIu64 " for %s",
                            p->name, tensor, start, end, end - start, expected, bg_type_text(type, text));
    *begin = (uint64_t)start;
    return BG_OK;
}

static bg_status parse_tensor(const parser *p, const char *tensor, const json_t *description, item *out)
{
    bg_safetensors_entry *entry = &out->entry;
    uint64_t begin = 0;

    if (!json_is_object(description))
        return fail_tensor(p, tensor, BG_ERROR_PARSE, "its description is not an object");
    BGI_TRY(parse_dtype(p, tensor, description, out));
    BGI_TRY(parse_shape(p, tensor, description, &entry->type));
    BGI_TRY(parse_offsets(p, tensor, description, &entry->type, &begin));
    entry->data = p->data + begin;
    entry->name = bgi_arena_text(&p->file->arena, tensor);
    if (entry->name == NULL)
        return bgi_error_memory(p->error, "a tensor's name", strlen(tensor));
    return BG_OK;
}

/* ---- all of them ---- */

static int compare_places(const void *a, const void *b)
{
    const bg_safetensors_entry *x = a, *y = b;

    return (const char *)x->data < (const char *)y->data ? -1 : (const char *)x->data > (const char *)y->data;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_entry *)a)->name, ((const bg_safetensors_entry *)b)->name);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_metadata *)a)->key, ((const bg_safetensors_metadata *)b)->key);
}

/* No entry is empty, so sorted by place they must follow one another from the first byte to the last. */
static bg_status check_places(const parser *p, item *entries, size_t count)
{
    uint64_t expected = 0;

    if (count > 0)
        qsort(entries, count, sizeof *entries, compare_places);
    for (size_t i = 0; i < count; i++) {
        const uint64_t begin = (uint64_t)((const unsigned char *)entries[i].entry.data - p->data);

        if (begin != expected)
            return bg_error_set(p->error, BG_ERROR_PARSE,
                                "%s: tensor `%.200s`: data begin at %" PRIu64 ", expected %" PRIu64
                                ", where the data before it end: tensors %s",
                                p->name, entries[i].entry.name, begin, expected,
                                begin < expected ? "overlap" : "leave a hole");
        expected = begin + bg_type_size_bytes(&entries[i].entry.type);
    }
    if (expected != p->data_bytes)
        return bg_error_set(p->error, BG_ERROR_PARSE,
                            "%s: the tensors end after %" PRIu64 " bytes of data, but the file has %" PRIu64, p->name,
                            expected, p->data_bytes);
    return BG_OK;
}

static bg_status copy_unaligned(const parser *p, bg_safetensors_entry *entry)
{
    const size_t size_bytes = bg_type_size_bytes(&entry->type);

    if ((uintptr_t)entry->data % bg_dtype_size_bytes(entry->type.dtype) == 0)
        return BG_OK;
    entry->data = bgi_arena_copy(&p->file->arena, entry->data, size_bytes);
    return entry->data != NULL ? BG_OK : bgi_error_memory(p->error, entry->name, size_bytes);
}

static bg_status parse_metadata(const parser *p, json_t *object)
{
    bg_safetensors *file = p->file;
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return bg_error_set(p->error, BG_ERROR_PARSE, "%s: `%s` is not an object", p->name, BGI_SAFETENSORS_METADATA);
    file->metadata = bgi_arena_take(&file->arena, json_object_size(object), sizeof *file->metadata);
    if (file->metadata == NULL)
        return bgi_error_memory(p->error, "metadata", json_object_size(object) * sizeof *file->metadata);
    json_object_foreach(object, key, value)
    {
        bg_safetensors_metadata *pair = &file->metadata[file->metadata_count];

        if (!json_is_string(value))
            return bg_error_set(p->error, BG_ERROR_PARSE, "%s: metadata `%.200s` is not a string", p->name, key);
        pair->key = bgi_arena_text(&file->arena, key);
        pair->value = bgi_arena_text(&file->arena, json_string_value(value));
        if (pair->key == NULL || pair->value == NULL)
            return bgi_error_memory(p->error, "metadata", strlen(key) + json_string_length(value));
        file->metadata_count++;
    }
    if (file->metadata_count > 0)
        qsort(file->metadata, file->metadata_count, sizeof *file->metadata, compare_keys);
    return BG_OK;
}

static bg_status parse_header(const parser *p, json_t *header)
{
    bg_safetensors *file = p->file;
    const char *key;
    json_t *value;

    file->entries = bgi_arena_take(&file->arena, json_object_size(header), sizeof *file->entries);
    if (file->entries == NULL)
        return bgi_error_memory(p->error, "tensor descriptions", json_object_size(header) * sizeof *file->entries);
    json_object_foreach(header, key, value)
    {
        if (strcmp(key, BGI_SAFETENSORS_METADATA) == 0)
            BGI_TRY(parse_metadata(p, value));
        else
            BGI_TRY(parse_tensor(p, key, value, &file->entries[file->entry_count++]));
    }
    BGI_TRY(check_places(p, file->entries, file->entry_count));
    if (file->entry_count > 0)
        qsort(file->entries, file->entry_count, sizeof *file->entries, compare_names);
    for (size_t i = 0; i < file->entry_count; i++) {
        BGI_TRY(copy_unaligned(p, &file->entries[i].entry));
        file->entries[i].entry.type.dtype = file->entries[i].storage->dtype;
    }
    return BG_OK;
}

static bg_status load_json(const char *name, const unsigned char *text, size_t length, json_t **out, bg_error *error)
{
    json_error_t problem;
    json_t *header;

    if (text[0] != '{')
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %d: the header begins with 0x%02x, expected `{`", name,
                            LENGTH_BYTES, text[0]);
    header = json_loadb((const char *)text, length, JSON_REJECT_DUPLICATES, &problem);
    if (header == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %d: the header is not JSON: %s", name,
                            LENGTH_BYTES + problem.position, problem.text);
    *out = header;
    return BG_OK;
}

static bg_status parse_content(const char *name, const unsigned char *content, size_t size_bytes, bool keeps_foreign,
                               bg_safetensors *file, bg_error *error)
{
    uint64_t header_bytes = 0;
    json_t *header = NULL;
    bg_status status;

    if (size_bytes < LENGTH_BYTES + SHORTEST_HEADER)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: is %zu bytes long, expected at least %d: the header length and a header", name,
                            size_bytes, LENGTH_BYTES + SHORTEST_HEADER);
    for (int i = 0; i < LENGTH_BYTES; i++)
        header_bytes |= (uint64_t)content[i] << (8 * i);
    if (header_bytes < SHORTEST_HEADER || header_bytes > BGI_SAFETENSORS_HEADER_LIMIT ||
        header_bytes > size_bytes - LENGTH_BYTES)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte 0: header length %" PRIu64 ", expected %d to %" PRIu64 " in a file of %zu bytes",
                            name, header_bytes, SHORTEST_HEADER,
                            size_bytes - LENGTH_BYTES < BGI_SAFETENSORS_HEADER_LIMIT
                                ? (uint64_t)(size_bytes - LENGTH_BYTES)
                                : BGI_SAFETENSORS_HEADER_LIMIT,
                            size_bytes);
    BGI_TRY(load_json(name, content + LENGTH_BYTES, (size_t)header_bytes, &header, error));
    const parser p = {.name = name,
                      .data = content + LENGTH_BYTES + header_bytes,
                      .data_bytes = size_bytes - LENGTH_BYTES - header_bytes,
                      .keeps_foreign = keeps_foreign,
                      .file = file,
                      .error = error};
    status = parse_header(&p, header);
    json_decref(header);
    return status;
}

bg_status bgi_safetensors_parse(const char *name, const void *content, size_t size_bytes, bool keeps_foreign,
                                bg_safetensors **out, bg_error *error)
{
    bg_safetensors *file = calloc(1, sizeof *file);
    bg_status status;

    if (file == NULL)
        return bgi_error_memory(error, "a safetensors file", sizeof *file);
    status = parse_content(name, content, size_bytes, keeps_foreign, file, error);
    if (status != BG_OK) {
        bg_safetensors_destroy(file);
        return status;
    }
    *out = file;
    return BG_OK;
}

/* ---- files ---- */

bg_status bgi_safetensors_open(const char *path, bool keeps_foreign, bg_safetensors **out, bg_error *error)
{
    bg_safetensors *file = NULL;
    void *mapping = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_mapping_open(path, &mapping, &size_bytes, error));
    status = bgi_safetensors_parse(path, mapping, size_bytes, keeps_foreign, &file, error);
    if (status != BG_OK) {
        bgi_mapping_close(mapping, size_bytes);
        return status;
    }
    file->mapping = mapping;
    file->mapping_bytes = size_bytes;
    *out = file;
    return BG_OK;
}

bg_status bg_safetensors_open(const char *path, bg_safetensors **out, bg_error *error)
{
    return bgi_safetensors_open(path, false, out, error);
}

void bg_safetensors_destroy(bg_safetensors *file)
{
    if (file == NULL)
        return;
    bgi_mapping_close(file->mapping, file->mapping_bytes);
    bgi_arena_clear(&file->arena);
    free(file);
}

/* ---- looking things up ---- */

size_t bg_safetensors_count(const bg_safetensors *file)
{
    return file->entry_count;
}

const bg_safetensors_entry *bg_safetensors_at(const bg_safetensors *file, size_t index)
{
    return &file->entries[index].entry;
}

const bg_safetensors_entry *bg_safetensors_find(const bg_safetensors *file, const char *name)
{
    const bg_safetensors_entry wanted = {.name = name};

    if (file->entry_count == 0)
        return NULL;
    return bsearch(&wanted, file->entries, file->entry_count, sizeof *file->entries, compare_names);
}

const bgi_safetensors_storage *bgi_safetensors_storage_of(const bg_safetensors_entry *entry)
{
    return ((const item *)(const void *)entry)->storage;
}

bool bgi_safetensors_is_float(const bgi_safetensors_storage *storage)
{
    return bg_dtype_is_float(storage->dtype);
}

bool bgi_safetensors_read_floats(const bg_safetensors_entry *entry, float *out)
{
    const bgi_safetensors_storage *storage = bgi_safetensors_storage_of(entry);
    const int64_t count = bg_type_element_count(&entry->type);

    if (storage->dtype == BG_FLOAT32)
        memcpy(out, entry->data, (size_t)count * sizeof *out);
    else if (storage->dtype == BG_FLOAT64)
        for (int64_t i = 0; i < count; i++)
            out[i] = (float)((const double *)entry->data)[i];
    else if (bgi_dtype_is_narrow(storage->dtype))
        for (int64_t i = 0; i < count; i++)
            out[i] = bgi_narrow_to_float(storage->dtype, ((const uint16_t *)entry->data)[i]);
    else
        return false;
    return true;
}

size_t bg_safetensors_metadata_count(const bg_safetensors *file)
{
    return file->metadata_count;
}

const bg_safetensors_metadata *bg_safetensors_metadata_at(const bg_safetensors *file, size_t index)
{
    return &file->metadata[index];
}

const char *bg_safetensors_metadata_find(const bg_safetensors *file, const char *key)
{
    const bg_safetensors_metadata wanted = {.key = key};
    const bg_safetensors_metadata *found = NULL;

    if (file->metadata_count > 0)
        found = bsearch(&wanted, file->metadata, file->metadata_count, sizeof *file->metadata, compare_keys);
    return found != NULL ? found->value : NULL;
}
