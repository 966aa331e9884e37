/*
 * safetensors_write.c: writes files of named tensors. The header is made and checked before the file is created, and it
 * is read back before the file gets its name. So a file with the final name has been opened successfully. Flushing to
 * the disk and reading values back (safetensors_check.c) overlap with writing.
 */
#include "formats/safetensors.h"

#include "core/error.h"
#include "core/file.h"
#include "formats/json_write.h"
#include "formats/safetensors_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, DATA_ALIGNMENT = 8, PIECE_BYTES = 1 << 20 };

static int compare_for_file(const void *a, const void *b)
{
    const bg_safetensors_entry *x = *(const bg_safetensors_entry *const *)a,
                               *y = *(const bg_safetensors_entry *const *)b;
    const size_t x_bytes = bg_dtype_size_bytes(x->type.dtype), y_bytes = bg_dtype_size_bytes(y->type.dtype);

    if (x_bytes != y_bytes)
        return x_bytes > y_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The content of a file. */
typedef struct content {
    const char *path;
    const bg_safetensors_entry *entries; /* in the caller's order */
    const bg_safetensors_entry **sorted; /* in the file's order */
    size_t count;
    bg_safetensors_metadata *metadata; /* by key */
    size_t metadata_count;
} content;

static bg_status check_entry(const char *path, const bg_safetensors_entry *entry, const bgi_safetensors_hooks *from,
                             bg_error *error)
{
    bg_status status;

    if (entry->name == NULL || (entry->data == NULL && from->fetch == NULL))
        return entry->name == NULL
                   ? bg_error_set(error, BG_ERROR_INVALID, "%s: a tensor has no name", path)
                   : bg_error_set(error, BG_ERROR_INVALID, "%s: tensor `%.200s` has no data", path, entry->name);
    if (strcmp(entry->name, BGI_SAFETENSORS_METADATA) == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: tensor `%s`: the name is reserved for metadata", path,
                            entry->name);
    status = bg_type_validate(&entry->type, error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s: tensor `%.200s`", path, entry->name);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_metadata *)a)->key, ((const bg_safetensors_metadata *)b)->key);
}

static int compare_names(const void *a, const void *b)
{
    const bg_safetensors_entry *x = *(const bg_safetensors_entry *const *)a,
                               *y = *(const bg_safetensors_entry *const *)b;

    return strcmp(x->name, y->name);
}

static bg_status check_text(const char *path, const char *text, const char *kind, const char *name, bg_error *error)
{
    if (!bgi_text_is_utf8(text))
        return bg_error_set(error, BG_ERROR_INVALID, "%s: %s `%.200s` is not UTF-8", path, kind, name);
    return BG_OK;
}

/* Checks that names and keys are UTF-8 and unique, and sorts both for the file. */
static bg_status check_content(content *c, bg_error *error)
{
    uint64_t at = 0;

    qsort(c->sorted, c->count, sizeof *c->sorted, compare_names);
    for (size_t i = 0; i < c->count; i++) {
        if (i > 0 && strcmp(c->sorted[i - 1]->name, c->sorted[i]->name) == 0)
            return bg_error_set(error, BG_ERROR_INVALID, "%s: tensor `%.200s` occurs twice", c->path,
                                c->sorted[i]->name);
        BGI_TRY(check_text(c->path, c->sorted[i]->name, "tensor", c->sorted[i]->name, error));
        if (bg_type_size_bytes(&c->sorted[i]->type) > INT64_MAX - at)
            return bg_error_set(error, BG_ERROR_INVALID, "%s: the tensors' sizes add up to more than 64 bits", c->path);
        at += bg_type_size_bytes(&c->sorted[i]->type);
    }
    qsort(c->sorted, c->count, sizeof *c->sorted, compare_for_file);
    for (size_t i = 0; i < c->metadata_count; i++) {
        if (c->metadata[i].key == NULL || c->metadata[i].value == NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "%s: an entry of the metadata has no key or no value",
                                c->path);
        BGI_TRY(check_text(c->path, c->metadata[i].key, "metadata", c->metadata[i].key, error));
        BGI_TRY(check_text(c->path, c->metadata[i].value, "metadata", c->metadata[i].key, error));
    }
    qsort(c->metadata, c->metadata_count, sizeof *c->metadata, compare_keys);
    for (size_t i = 1; i < c->metadata_count; i++)
        if (compare_keys(&c->metadata[i - 1], &c->metadata[i]) == 0)
            return bg_error_set(error, BG_ERROR_INVALID, "%s: metadata `%.200s` occurs twice", c->path,
                                c->metadata[i].key);
    return BG_OK;
}

static bg_status print_header(const content *c, char **out, size_t *out_bytes, bg_error *error)
{
    bgi_json_writer w = {.depth = 0};
    uint64_t at = 0;

    bgi_json_open(&w, NULL, '{');
    if (c->metadata_count > 0) {
        bgi_json_open(&w, BGI_SAFETENSORS_METADATA, '{');
        for (size_t i = 0; i < c->metadata_count; i++)
            bgi_json_text(&w, c->metadata[i].key, c->metadata[i].value);
        bgi_json_close(&w, '}');
    }
    for (size_t i = 0; i < c->count; i++) {
        const bg_type *type = &c->sorted[i]->type;

        bgi_json_open(&w, c->sorted[i]->name, '{');
        bgi_json_text(&w, "dtype", bgi_safetensors_dtype_name(type->dtype));
        bgi_json_open(&w, "shape", '[');
        for (uint32_t d = 0; d < type->rank; d++)
            bgi_json_integer(&w, NULL, type->dims[d]);
        bgi_json_close(&w, ']');
        bgi_json_open(&w, "data_offsets", '[');
        bgi_json_count(&w, NULL, at);
        at += bg_type_size_bytes(type);
        bgi_json_count(&w, NULL, at);
        bgi_json_close(&w, ']');
        bgi_json_close(&w, '}');
    }
    bgi_json_close(&w, '}');
    return bgi_json_finish(&w, out, out_bytes, error);
}

/* Writes the values in parts that fit a core's private cache, because the hook reads each part just before the system
 * copies it. Stops at the first entry that cannot be fetched. */
static bg_status write_data(bgi_file_writer *writer, const content *c, const bgi_safetensors_hooks *from,
                            bgi_read_back *back, bg_error *error)
{
    for (size_t i = 0; i < c->count; i++) {
        const size_t size_bytes = bg_type_size_bytes(&c->sorted[i]->type);
        const void *data = c->sorted[i]->data;

        if (data == NULL)
            BGI_TRY(from->fetch(from->user, c->sorted[i], &data, error));
        for (size_t at = 0, some; at < size_bytes; at += some) {
            const unsigned char *piece = (const unsigned char *)data + at;
            some = size_bytes - at < PIECE_BYTES ? size_bytes - at : PIECE_BYTES;
            if (from->written != NULL)
                from->written(from->user, (size_t)(c->sorted[i] - c->entries), piece, some);
            bgi_file_write(writer, piece, some);
            bgi_read_back_advance(back, writer->written_bytes);
        }
    }
    return BG_OK;
}

static bg_status compare_file(const bg_safetensors *file, const content *c, bg_error *error)
{
    bool is_same = bg_safetensors_count(file) == c->count && bg_safetensors_metadata_count(file) == c->metadata_count;

    for (size_t i = 0; is_same && i < c->metadata_count; i++) {
        const bg_safetensors_metadata *pair = bg_safetensors_metadata_at(file, i);
        is_same = strcmp(pair->key, c->metadata[i].key) == 0 && strcmp(pair->value, c->metadata[i].value) == 0;
    }
    for (size_t i = 0; is_same && i < c->count; i++) {
        const bg_safetensors_entry *entry = bg_safetensors_find(file, c->sorted[i]->name);
        is_same = entry != NULL && bg_type_equal(&entry->type, &c->sorted[i]->type);
    }
    return is_same ? BG_OK
                   : bg_error_set(error, BG_ERROR_IO,
                                  "%s: the file does not read back as it was written, so it was not created", c->path);
}

/* Checks that a file on the disk, still under a temporary name, has the intended content. */
static bg_status check_file(const char *temporary_path, const content *c, const bgi_safetensors_hooks *from,
                            bg_error *error)
{
    bg_safetensors *file = NULL;
    bg_error inner = {0};
    bg_status status = bg_safetensors_open_header(temporary_path, &file, &inner);

    if (status == BG_OK)
        status = compare_file(file, c, &inner);
    if (status == BG_OK && from->check != NULL)
        status = from->check(from->user, file, &inner);
    bg_safetensors_destroy(file);
    if (status == BG_OK)
        return BG_OK;
    if (status != BG_ERROR_MEMORY)
        status = BG_ERROR_IO; /* here a parse error means damage by the disk or the library */
    return bg_error_set(error, status, "%s: reading the file back: %.3000s", c->path, inner.message);
}

static void write_header(bgi_file_writer *writer, const char *header, size_t header_bytes, uint64_t padded_bytes)
{
    unsigned char length[LENGTH_BYTES];

    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)(padded_bytes >> (8 * i));
    bgi_file_write(writer, length, sizeof length);
    bgi_file_write(writer, header, header_bytes);
    bgi_file_write(writer, "        ", padded_bytes - header_bytes);
}

/* Replaces the header at the beginning of the file, after the values are written. */
static bg_status write_header_again(bgi_file_writer *writer, const content *c, size_t first_bytes,
                                    uint64_t padded_bytes, bg_error *error)
{
    size_t header_bytes = 0;
    char *header = NULL;

    BGI_TRY(print_header(c, &header, &header_bytes, error));
    if (header_bytes != first_bytes) {
        free(header);
        return bg_error_set(error, BG_ERROR_INTERNAL, "%s: the header's length changed", c->path);
    }
    bgi_file_writer_restart(writer);
    write_header(writer, header, header_bytes, padded_bytes);
    free(header);
    return BG_OK;
}

/* Writes the content, sends it to the disk, and reads back the values that `from->read` needs. */
static bg_status write_and_read_back(bgi_file_writer *writer, const content *c, size_t header_bytes,
                                     uint64_t padded_bytes, const bgi_safetensors_hooks *from, bg_error *error)
{
    bgi_read_back back = {.path = writer->temporary_path,
                          .data_begin = LENGTH_BYTES + padded_bytes,
                          .entries = c->entries,
                          .sorted = c->sorted,
                          .count = c->count,
                          .read = from->read,
                          .user = from->user,
                          .threads = from->threads};
    bg_error inner = {0};
    bg_status status, read;

    BGI_TRY(bgi_read_back_begin(&back, error));
    status = write_data(writer, c, from, &back, error);
    if (status == BG_OK && from->complete != NULL) {
        from->complete(from->user);
        status = write_header_again(writer, c, header_bytes, padded_bytes, error);
    }
    if (status == BG_OK)
        status = bgi_file_writer_send(writer, error);
    read = bgi_read_back_end(&back, status == BG_OK, &inner);
    if (status != BG_OK || read == BG_OK)
        return status;
    return bg_error_set(error, read == BG_ERROR_MEMORY ? read : BG_ERROR_IO, "%s: reading the file back: %.3000s",
                        c->path, inner.message);
}

static bg_status write_all(const content *c, const char *header, size_t header_bytes, const bgi_safetensors_hooks *from,
                           bg_error *error)
{
    const uint64_t padded_bytes = (header_bytes + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    bgi_file_writer writer = {0};
    bg_status status;

    if (padded_bytes > BGI_SAFETENSORS_HEADER_LIMIT)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: the header would have %" PRIu64 " bytes, above the format's limit of %" PRIu64,
                            c->path, padded_bytes, BGI_SAFETENSORS_HEADER_LIMIT);
    BGI_TRY(bgi_file_writer_begin(&writer, c->path, error));
    write_header(&writer, header, header_bytes, padded_bytes);
    status = write_and_read_back(&writer, c, header_bytes, padded_bytes, from, error);
    if (status == BG_OK)
        status = check_file(writer.temporary_path, c, from, error);
    if (status != BG_OK) {
        bgi_file_writer_abandon(&writer, error);
        return status;
    }
    return bgi_file_writer_commit(&writer, error);
}

static bg_status write_file(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                            const bg_safetensors_metadata *metadata, size_t metadata_count,
                            const bgi_safetensors_hooks *from, bg_error *error)
{
    content c = {.path = path, .entries = entries, .count = entry_count, .metadata_count = metadata_count};
    size_t header_bytes = 0;
    char *header = NULL;
    bg_status status;

    for (size_t i = 0; i < entry_count; i++)
        BGI_TRY(check_entry(path, &entries[i], from, error));
    c.sorted = calloc(entry_count + 1, sizeof *c.sorted);
    c.metadata = calloc(metadata_count + 1, sizeof *c.metadata);
    if (c.sorted == NULL || c.metadata == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a header", (entry_count + 1) * sizeof *c.sorted));
    for (size_t i = 0; i < entry_count; i++)
        c.sorted[i] = &entries[i];
    for (size_t i = 0; i < metadata_count; i++)
        c.metadata[i] = metadata[i];
    BGI_TRY_CLEANUP(check_content(&c, error));
    BGI_TRY_CLEANUP(print_header(&c, &header, &header_bytes, error));
    status = write_all(&c, header, header_bytes, from, error);

cleanup:
    free(header);
    free(c.metadata);
    free(c.sorted);
    return status;
}

static bg_status require_arguments(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                   const bg_safetensors_metadata *metadata, size_t metadata_count, const char *function,
                                   bg_error *error)
{
    BGI_TRY(bgi_require(path, "path", function, error));
    if (entry_count > 0)
        BGI_TRY(bgi_require(entries, "entries", function, error));
    return metadata_count > 0 ? bgi_require(metadata, "metadata", function, error) : BG_OK;
}

bg_status bg_safetensors_write(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                               const bg_safetensors_metadata *metadata, size_t metadata_count, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(require_arguments(path, entries, entry_count, metadata, metadata_count, __func__, error));
    return write_file(path, entries, entry_count, metadata, metadata_count, &(bgi_safetensors_hooks){.fetch = NULL},
                      error);
}

bg_status bg_safetensors_write_fetched(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                       const bg_safetensors_metadata *metadata, size_t metadata_count,
                                       bg_safetensors_fetch fetch, void *user, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(require_arguments(path, entries, entry_count, metadata, metadata_count, __func__, error));
    return write_file(path, entries, entry_count, metadata, metadata_count,
                      &(bgi_safetensors_hooks){.fetch = fetch, .user = user}, error);
}

bg_status bgi_safetensors_write_hooked(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                       const bg_safetensors_metadata *metadata, size_t metadata_count,
                                       const bgi_safetensors_hooks *hooks, bg_error *error)
{
    return write_file(path, entries, entry_count, metadata, metadata_count, hooks, error);
}
