/*
 * safetensors_read.c: opens files of named tensors. Every value is checked against the file's size and the other values
 * before it is used.
 */
#include "formats/safetensors.h"

#include "core/arena.h"
#include "core/error.h"
#include "core/input.h"
#include "formats/json_read.h"
#include "core/narrow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, SHORTEST_HEADER = 2, DTYPE_BYTES = 48, DATA_ALIGNMENT = 64, PART_BYTES = 1 << 14 };

/* A tensor, and how its elements are stored in the file. The entry is the first field, so a pointer to it is a pointer
 * to the item. A header may have a million items, so items are small. */
typedef struct item {
    bg_safetensors_entry entry;
    uint64_t begin : 56; /* offset of the tensor's bytes from the end of the header */
    uint64_t storage : 8;
} item;

struct bg_safetensors {
    bgi_arena arena; /* names, strings of metadata, copies of tensors that were not aligned */
    item *entries;   /* by name */
    size_t entry_count, entry_capacity;
    bg_safetensors_metadata *metadata; /* by key */
    size_t metadata_count, metadata_capacity;
    bgi_input input;
    uint64_t data_begin; /* offset of the data in the file, after the header */
    void *data;          /* memory of all tensors; NULL: the caller owns it, or tensors are read on demand */
};

/* The state of parsing that is not part of the result. */
typedef struct parser {
    const char *name;
    uint64_t data_bytes;
    bool keeps_foreign;
    bg_safetensors *file;
    bgi_json_reader json;
    bg_error *error;
} parser;

/* The fields of one tensor in a header, in any order. */
typedef struct description {
    char dtype[DTYPE_BYTES];
    bool has_dtype, has_shape, has_offsets; /* whether the key was found */
    bool is_dtype_text, is_shape_list;      /* whether the key's value has the right kind */
    size_t rank, bad_dim;                   /* index of the first invalid dimension; SIZE_MAX if all are valid */
    bool is_bad_dim_zero;                   /* whether that dimension is 0 */
    int64_t dims[BG_MAX_RANK];
    size_t offset_count; /* SIZE_MAX: not a list of integers */
    int64_t offsets[2];
} description;

/* ---- types ---- */

static const bgi_safetensors_storage storages[] = {
    {"F32", BG_FLOAT32, 4},    {"BF16", BG_BFLOAT16, 2},  {"F64", BG_FLOAT64, 8},     {"I32", BG_INT32, 4},
    {"U8", BG_UINT8, 1},       {"F16", BG_FLOAT16, 2},    {"BOOL", BG_DTYPE_NONE, 1}, {"I8", BG_DTYPE_NONE, 1},
    {"I16", BG_DTYPE_NONE, 2}, {"U16", BG_DTYPE_NONE, 2}, {"U32", BG_DTYPE_NONE, 4},  {"I64", BG_INT64, 8},
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

/* Finds a type by its name in the format; returns STORAGE_COUNT if there is none. */
static int find_storage(const char *name)
{
    int i = 0;

    while (i < STORAGE_COUNT && strcmp(storages[i].name, name) != 0)
        i++;
    return i;
}

/* Returns a supported type with elements of the same size. */
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

static bg_status check_dtype(const parser *p, const char *tensor, const description *d, item *out)
{
    const int storage = find_storage(d->dtype);

    if (!d->is_dtype_text)
        return fail_tensor(p, tensor, BG_ERROR_PARSE, "`dtype` must be a string");
    if (storage == STORAGE_COUNT || (storages[storage].dtype == BG_DTYPE_NONE && !p->keeps_foreign))
        return bg_error_set(p->error, BG_ERROR_UNSUPPORTED,
                            "%s: tensor `%.200s`: its dtype is `%.40s` but must be F32, BF16, F16, F64, I32, I64 or U8",
                            p->name, tensor, d->dtype);
    out->storage = (uint64_t)storage & 0xff;
    /* Sizes are checked with this type; an entry of an unsupported type gets BG_DTYPE_NONE at the end. */
    out->entry.type.dtype = find_stand_in(&storages[storage]);
    return BG_OK;
}

static bg_status check_shape(const parser *p, const char *tensor, const description *d, bg_type *type)
{
    if (!d->is_shape_list)
        return fail_tensor(p, tensor, BG_ERROR_PARSE, "`shape` must be an array");
    if (d->rank > BG_MAX_RANK)
        return bg_error_set(p->error, BG_ERROR_UNSUPPORTED,
                            "%s: tensor `%.200s`: it has %zu dimensions but must have at most %d", p->name, tensor,
                            d->rank, BG_MAX_RANK);
    if (d->bad_dim != SIZE_MAX && d->is_bad_dim_zero)
        return bg_error_set(p->error, BG_ERROR_UNSUPPORTED,
                            "%s: tensor `%.200s`: dimension %zu is 0; empty tensors are not supported", p->name, tensor,
                            d->bad_dim);
    if (d->bad_dim != SIZE_MAX)
        return bg_error_set(p->error, BG_ERROR_PARSE,
                            "%s: tensor `%.200s`: dimension %zu must be an integer of at least 0", p->name, tensor,
                            d->bad_dim);
    type->rank = (uint32_t)d->rank;
    memcpy(type->dims, d->dims, d->rank * sizeof d->dims[0]);
    if (bg_type_validate(type, p->error) != BG_OK) {
        if (p->error != NULL)
            p->error->status = BG_ERROR_PARSE;
        return bg_error_context(p->error, BG_ERROR_PARSE, "%s: tensor `%.200s`", p->name, tensor);
    }
    return BG_OK;
}

static bg_status check_offsets(const parser *p, const char *tensor, const description *d, item *out)
{
    const int64_t start = d->offsets[0], end = d->offsets[1];
    const uint64_t expected = bg_type_size_bytes(&out->entry.type);
    char text[BG_TYPE_TEXT_BYTES];

    if (d->offset_count != 2)
        return fail_tensor(p, tensor, BG_ERROR_PARSE, "`data_offsets` must be two integers");
    if (start < 0 || end < start || (uint64_t)end > p->data_bytes)
        return bg_error_set(p->error, BG_ERROR_PARSE,
                            "%s: tensor `%.200s`: data offsets %" PRId64 " to %" PRId64
                            " are not within the file's %" PRIu64 " bytes of data%s",
                            p->name, tensor, start, end, p->data_bytes,
                            start >= 0 && end > start ? ": the file is truncated, or its header is wrong" : "");
    if ((uint64_t)(end - start) != expected)
        return bg_error_set(p->error, BG_ERROR_PARSE,
                            "%s: tensor `%.200s`: data offsets %" PRId64 " to %" PRId64 " hold %" PRId64
                            " bytes but must hold %" PRIu64 " for %s",
                            p->name, tensor, start, end, end - start, expected, bg_type_text(&out->entry.type, text));
    out->begin = (uint64_t)start & (((uint64_t)1 << 56) - 1); /* no file is longer */
    return BG_OK;
}

/* ---- reading one ---- */

/* Reads and consumes the next value. Returns false if it is not an integer, or if reading failed. */
static bool read_integer(bgi_json_reader *r, int64_t *out)
{
    const char c = bgi_json_peek(r);
    double real;
    bool is_real;

    if (c != '-' && (c < '0' || c > '9')) {
        bgi_json_skip(r);
        return false;
    }
    return bgi_json_number(r, out, &real, &is_real) && !is_real;
}

static void read_dtype(bgi_json_reader *r, description *d)
{
    d->is_dtype_text = bgi_json_peek(r) == '"';
    if (bgi_json_skip(r) && d->is_dtype_text)
        /* A text that is cut off is too long to be a type. */
        memcpy(d->dtype, r->text.data, r->text.length < DTYPE_BYTES ? r->text.length : DTYPE_BYTES - 1);
}

static void read_shape(bgi_json_reader *r, description *d)
{
    d->is_shape_list = bgi_json_peek(r) == '[';
    if (!d->is_shape_list) {
        bgi_json_skip(r);
        return;
    }
    bgi_json_enter(r, '[');
    for (bool first = true; bgi_json_more(r, ']', &first); d->rank++) {
        int64_t dim = 0;
        const bool is_integer = read_integer(r, &dim), is_good = is_integer && dim > 0;

        if (!is_good && d->bad_dim == SIZE_MAX) {
            d->bad_dim = d->rank;
            d->is_bad_dim_zero = is_integer && dim == 0;
        }
        if (d->rank < BG_MAX_RANK)
            d->dims[d->rank] = dim;
    }
}

static void read_offsets(bgi_json_reader *r, description *d)
{
    if (bgi_json_peek(r) != '[') {
        d->offset_count = SIZE_MAX;
        bgi_json_skip(r);
        return;
    }
    bgi_json_enter(r, '[');
    for (bool first = true; bgi_json_more(r, ']', &first);) {
        int64_t offset = 0;

        if (!read_integer(r, &offset))
            d->offset_count = SIZE_MAX;
        if (d->offset_count < 2)
            d->offsets[d->offset_count] = offset;
        if (d->offset_count < SIZE_MAX)
            d->offset_count++;
    }
}

/* Reads the description of a tensor. Keys that the format does not have are ignored. */
static void read_description(bgi_json_reader *r, description *d)
{
    bgi_json_enter(r, '{');
    for (bool first = true; bgi_json_more(r, '}', &first);) {
        bool *has;

        if (!bgi_json_key(r))
            return;
        has = strcmp(r->text.data, "dtype") == 0          ? &d->has_dtype
              : strcmp(r->text.data, "shape") == 0        ? &d->has_shape
              : strcmp(r->text.data, "data_offsets") == 0 ? &d->has_offsets
                                                          : NULL;
        if (has != NULL && *has)
            bgi_json_fail(r, "the key `%s` occurs twice (a duplicate)", r->text.data);
        if (has != NULL)
            *has = true;
        if (has == &d->has_dtype)
            read_dtype(r, d);
        else if (has == &d->has_shape)
            read_shape(r, d);
        else if (has == &d->has_offsets)
            read_offsets(r, d);
        else
            bgi_json_skip(r);
    }
}

/* Reads the description of the tensor whose name the reader has just read. */
static bg_status read_tensor(parser *p)
{
    bg_safetensors *file = p->file;
    description d = {.bad_dim = SIZE_MAX};
    item *out;
    char *name;

    if (!bgi_array_reserve((void **)&file->entries, &file->entry_capacity, file->entry_count + 1, sizeof *out))
        return bgi_error_memory(p->error, "tensor descriptions", (file->entry_count + 1) * sizeof *out);
    name = bgi_arena_string(&file->arena, p->json.text.data);
    if (name == NULL)
        return bgi_error_memory(p->error, "a tensor's name", p->json.text.length);
    if (bgi_json_peek(&p->json) != '{') {
        bgi_json_skip(&p->json);
        BGI_TRY(p->json.status);
        return fail_tensor(p, name, BG_ERROR_PARSE, "its description must be an object");
    }
    read_description(&p->json, &d);
    BGI_TRY(p->json.status);
    out = &file->entries[file->entry_count];
    memset(out, 0, sizeof *out);
    BGI_TRY(check_dtype(p, name, &d, out));
    BGI_TRY(check_shape(p, name, &d, &out->entry.type));
    BGI_TRY(check_offsets(p, name, &d, out));
    out->entry.name = name;
    file->entry_count++;
    return BG_OK;
}

static bg_status read_metadata(parser *p)
{
    bg_safetensors *file = p->file;
    bgi_json_reader *r = &p->json;

    if (file->metadata != NULL)
        bgi_json_fail(r, "a duplicate of the key `" BGI_SAFETENSORS_METADATA "`");
    if (bgi_json_peek(r) != '{') {
        bgi_json_skip(r);
        BGI_TRY(r->status);
        return bg_error_set(p->error, BG_ERROR_PARSE, "%s: `%s` must be an object", p->name, BGI_SAFETENSORS_METADATA);
    }
    bgi_json_enter(r, '{');
    for (bool first = true; bgi_json_more(r, '}', &first);) {
        bg_safetensors_metadata pair;
        bool is_text;

        if (!bgi_json_key(r))
            break;
        pair.key = bgi_arena_string(&file->arena, r->text.data);
        is_text = bgi_json_peek(r) == '"';
        if (!bgi_json_skip(r))
            break;
        if (pair.key != NULL && !is_text)
            return bg_error_set(p->error, BG_ERROR_PARSE, "%s: metadata `%.200s` must be a string", p->name, pair.key);
        pair.value = pair.key != NULL ? bgi_arena_string(&file->arena, r->text.data) : NULL;
        if (pair.value == NULL || !bgi_array_reserve((void **)&file->metadata, &file->metadata_capacity,
                                                     file->metadata_count + 1, sizeof *file->metadata))
            return bgi_error_memory(p->error, "metadata", r->text.length);
        file->metadata[file->metadata_count++] = pair;
    }
    return r->status;
}

/* ---- all tensors of a header ---- */

static int compare_places(const void *a, const void *b)
{
    const uint64_t x = ((const item *)a)->begin, y = ((const item *)b)->begin;

    return x < y ? -1 : x > y;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_entry *)a)->name, ((const bg_safetensors_entry *)b)->name);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_metadata *)a)->key, ((const bg_safetensors_metadata *)b)->key);
}

static bg_status sort_names(const parser *p)
{
    bg_safetensors *file = p->file;

    if (file->entry_count > 0)
        qsort(file->entries, file->entry_count, sizeof *file->entries, compare_names);
    if (file->metadata_count > 0)
        qsort(file->metadata, file->metadata_count, sizeof *file->metadata, compare_keys);
    for (size_t i = 1; i < file->entry_count; i++)
        if (compare_names(&file->entries[i - 1], &file->entries[i]) == 0)
            return fail_tensor(p, file->entries[i].entry.name, BG_ERROR_PARSE, "occurs twice (a duplicate)");
    for (size_t i = 1; i < file->metadata_count; i++)
        if (compare_keys(&file->metadata[i - 1], &file->metadata[i]) == 0)
            return bg_error_set(p->error, BG_ERROR_PARSE, "%s: the metadata key `%.200s` occurs twice (a duplicate)",
                                p->name, file->metadata[i].key);
    return BG_OK;
}

/* Checks that the entries, sorted by offset, follow one another from the first byte to the last. No entry is empty. */
static bg_status check_places(const parser *p, item *entries, size_t count)
{
    uint64_t expected = 0;

    if (count > 0)
        qsort(entries, count, sizeof *entries, compare_places);
    for (size_t i = 0; i < count; i++) {
        const uint64_t begin = entries[i].begin;

        if (begin != expected)
            return bg_error_set(p->error, BG_ERROR_PARSE,
                                "%s: tensor `%.200s`: data begin at %" PRIu64 " but must begin at %" PRIu64
                                ", where the data before it end: tensors %s",
                                p->name, entries[i].entry.name, begin, expected,
                                begin < expected ? "overlap" : "leave a hole");
        expected = begin + bg_type_size_bytes(&entries[i].entry.type);
    }
    if (expected != p->data_bytes)
        return bg_error_set(p->error, BG_ERROR_PARSE,
                            "%s: the tensors end after %" PRIu64 " bytes of data, but the file has %" PRIu64, p->name,
                            expected, p->data_bytes);
    if (count > 0)
        qsort(entries, count, sizeof *entries, compare_names);
    return BG_OK;
}

static bg_status read_header(parser *p, uint64_t header_bytes)
{
    bg_safetensors *file = p->file;
    bgi_json_reader *r = &p->json;
    bg_status status = BG_OK;

    bgi_json_begin(r, &file->input, LENGTH_BYTES, LENGTH_BYTES + header_bytes, p->error);
    r->places_bytes = true;
    r->before = "the header is not JSON: ";
    bgi_json_enter(r, '{');
    for (bool first = true; status == BG_OK && bgi_json_more(r, '}', &first);) {
        if (bgi_json_key(r))
            status = strcmp(r->text.data, BGI_SAFETENSORS_METADATA) == 0 ? read_metadata(p) : read_tensor(p);
        else
            status = r->status;
    }
    if (status != BG_OK) {
        bgi_string_clear(&r->text);
        return status;
    }
    BGI_TRY(bgi_json_end(r));
    BGI_TRY(sort_names(p));
    BGI_TRY(check_places(p, file->entries, file->entry_count));
    for (size_t i = 0; i < file->entry_count; i++)
        file->entries[i].entry.type.dtype = storages[file->entries[i].storage].dtype;
    return BG_OK;
}

/* Parses everything except the data of a file whose input is open. */
static bg_status parse_input(bg_safetensors *file, bool keeps_foreign, bg_error *error)
{
    const uint64_t size_bytes = file->input.size_bytes;
    unsigned char start[LENGTH_BYTES + 1];
    uint64_t header_bytes = 0;
    parser *p;
    bg_status status;

    if (size_bytes < LENGTH_BYTES + SHORTEST_HEADER)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: is %" PRIu64 " bytes long but must be at least %d: the header length and a header",
                            file->input.name, size_bytes, LENGTH_BYTES + SHORTEST_HEADER);
    BGI_TRY(bgi_input_read(&file->input, 0, start, sizeof start, error));
    for (int i = 0; i < LENGTH_BYTES; i++)
        header_bytes |= (uint64_t)start[i] << (8 * i);
    if (header_bytes > size_bytes - LENGTH_BYTES && header_bytes <= BGI_SAFETENSORS_HEADER_LIMIT &&
        start[LENGTH_BYTES] == '{')
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte %" PRIu64 ": the file is truncated: its header length is %" PRIu64
                            ", so at least %" PRIu64 " bytes are needed, but the file has %" PRIu64,
                            file->input.name, size_bytes, header_bytes, LENGTH_BYTES + header_bytes, size_bytes);
    if (header_bytes < SHORTEST_HEADER || header_bytes > BGI_SAFETENSORS_HEADER_LIMIT ||
        header_bytes > size_bytes - LENGTH_BYTES)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte 0: header length is %" PRIu64 " but must be %d to %" PRIu64
                            " in a file of %" PRIu64 " bytes",
                            file->input.name, header_bytes, SHORTEST_HEADER,
                            size_bytes - LENGTH_BYTES < BGI_SAFETENSORS_HEADER_LIMIT ? size_bytes - LENGTH_BYTES
                                                                                     : BGI_SAFETENSORS_HEADER_LIMIT,
                            size_bytes);
    if (start[LENGTH_BYTES] != '{')
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %d: the header begins with 0x%02x but must begin with `{`",
                            file->input.name, LENGTH_BYTES, start[LENGTH_BYTES]);
    p = malloc(sizeof *p);
    if (p == NULL)
        return bgi_error_memory(error, file->input.name, sizeof *p);
    file->data_begin = LENGTH_BYTES + header_bytes;
    p->name = file->input.name;
    p->data_bytes = size_bytes - file->data_begin;
    p->keeps_foreign = keeps_foreign;
    p->file = file;
    p->error = error;
    status = read_header(p, header_bytes);
    free(p);
    return status;
}

static size_t item_bytes(const item *it)
{
    return (size_t)bg_type_element_count(&it->entry.type) * storages[it->storage].element_bytes;
}

/* Sets the address of every entry's data, which is in the content or in an aligned copy. */
static bg_status place_data(bg_safetensors *file, const void *data, bg_error *error)
{
    for (size_t i = 0; i < file->entry_count; i++) {
        item *it = &file->entries[i];
        const unsigned char *at = (const unsigned char *)data + it->begin;

        it->entry.data = at;
        if ((uintptr_t)at % storages[it->storage].element_bytes != 0)
            it->entry.data = bgi_arena_copy(&file->arena, at, item_bytes(it));
        if (it->entry.data == NULL)
            return bgi_error_memory(error, it->entry.name, item_bytes(it));
    }
    return BG_OK;
}

/* ---- opening ---- */

static bg_status fill_parsed(bg_safetensors *file, const char *name, const void *content, size_t size_bytes,
                             bool keeps_foreign, bg_error *error)
{
    BGI_TRY(bgi_input_over(&file->input, name, content, size_bytes, error));
    BGI_TRY(parse_input(file, keeps_foreign, error));
    return place_data(file, (const unsigned char *)content + file->data_begin, error);
}

bg_status bgi_safetensors_parse(const char *name, const void *content, size_t size_bytes, bool keeps_foreign,
                                bg_safetensors **out, bg_error *error)
{
    bg_safetensors *file = calloc(1, sizeof *file);
    bg_status status;

    if (file == NULL)
        return bgi_error_memory(error, "a safetensors file", sizeof *file);
    status = fill_parsed(file, name, content, size_bytes, keeps_foreign, error);
    if (status != BG_OK) {
        bg_safetensors_destroy(file);
        return status;
    }
    *out = file;
    return BG_OK;
}

static bg_status read_data(bg_safetensors *file, bg_error *error)
{
    const size_t size_bytes = (size_t)(file->input.size_bytes - file->data_begin);

    file->data = bgi_aligned_reserve(DATA_ALIGNMENT, size_bytes);
    if (file->data == NULL)
        return bgi_error_memory(error, file->input.name, size_bytes);
    BGI_TRY(bgi_input_read(&file->input, file->data_begin, file->data, size_bytes, error));
    return place_data(file, file->data, error);
}

static bg_status open_file(const char *path, bool keeps_foreign, bool has_data, bg_safetensors **out, bg_error *error)
{
    bg_safetensors *file = calloc(1, sizeof *file);
    bg_status status;

    if (file == NULL)
        return bgi_error_memory(error, "a safetensors file", sizeof *file);
    status = bgi_input_open(&file->input, path, error);
    if (status == BG_OK)
        status = parse_input(file, keeps_foreign, error);
    if (status == BG_OK && has_data)
        status = read_data(file, error);
    if (status != BG_OK) {
        bg_safetensors_destroy(file);
        return status;
    }
    *out = file;
    return BG_OK;
}

bg_status bgi_safetensors_open_header(const char *path, bool keeps_foreign, bg_safetensors **out, bg_error *error)
{
    return open_file(path, keeps_foreign, false, out, error);
}

bg_status bg_safetensors_open_header(const char *path, bg_safetensors **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    return open_file(path, false, false, out, error);
}

bg_status bg_safetensors_open(const char *path, bg_safetensors **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    return open_file(path, false, true, out, error);
}

void bg_safetensors_destroy(bg_safetensors *file)
{
    if (file == NULL)
        return;
    bgi_input_close(&file->input);
    bgi_arena_clear(&file->arena);
    free(file->entries);
    free(file->metadata);
    free(file->data);
    free(file);
}

bg_status bg_safetensors_read(const bg_safetensors *file, const bg_safetensors_entry *entry, size_t offset_bytes,
                              size_t size_bytes, void *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(file, "file", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(entry, "entry", __func__, error));

    const item *it = (const item *)(const void *)entry;
    const size_t has_bytes = item_bytes(it);

    if (offset_bytes > has_bytes || size_bytes > has_bytes - offset_bytes)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: tensor `%.200s`: %zu bytes from byte %zu on were requested, but it has %zu",
                            file->input.name, entry->name, size_bytes, offset_bytes, has_bytes);
    return bgi_input_read(&file->input, file->data_begin + it->begin + offset_bytes, out, size_bytes, error);
}

/* ---- look-ups ---- */

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
    return &storages[((const item *)(const void *)entry)->storage];
}

bool bgi_safetensors_is_float(const bgi_safetensors_storage *storage)
{
    return bg_dtype_is_float(storage->dtype);
}

bg_status bgi_safetensors_read_floats(const bg_safetensors *file, const bg_safetensors_entry *entry, float *out,
                                      bg_error *error)
{
    const bgi_safetensors_storage *storage = bgi_safetensors_storage_of(entry);
    const size_t count = (size_t)bg_type_element_count(&entry->type), width = storage->element_bytes;
    union {
        double doubles[PART_BYTES / sizeof(double)];
        uint16_t halves[PART_BYTES / sizeof(uint16_t)];
    } part;

    if (!bgi_safetensors_is_float(storage))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s: tensor `%.200s` is of %s but must be of F32, F16, BF16 or F64", file->input.name,
                            entry->name, storage->name);
    if (storage->dtype == BG_FLOAT32)
        return bg_safetensors_read(file, entry, 0, count * width, out, error);
    for (size_t at = 0, some; at < count; at += some) {
        some = count - at < PART_BYTES / width ? count - at : PART_BYTES / width;
        BGI_TRY(bg_safetensors_read(file, entry, at * width, some * width, &part, error));
        for (size_t i = 0; i < some; i++)
            out[at + i] = storage->dtype == BG_FLOAT64 ? (float)part.doubles[i]
                                                       : bgi_narrow_to_float(storage->dtype, part.halves[i]);
    }
    return BG_OK;
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
