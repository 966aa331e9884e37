/*
 * weights_source.c: reads a .safetensors or .npz file, or a folder of .safetensors files, as one list of tensors.
 */
#include "checkpoint/weights_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/file.h"
#include "core/narrow.h"
#include "core/text.h"
#include "formats/safetensors.h"
#include "formats/safetensors_folder.h"

struct bgi_weights_source {
    const char *path;
    bgi_weights_item *items;
    size_t count;
    bg_safetensors *file; /* one of `file`, `folder` and `npz` is set */
    bgi_safetensors_folder *folder;
    bg_npz npz;
};

static bool is_folder(const char *path)
{
    struct stat state;

    return stat(path, &state) == 0 && S_ISDIR(state.st_mode);
}

/* Whether a file can be a safetensors file by its first bytes: eight for the length of its header, at most 100 MB, and
 * the header's `{`. */
static bool begins_safetensors(const unsigned char *begin, size_t size_bytes)
{
    uint64_t header_bytes = 0;

    if (size_bytes < 9)
        return true; /* the reader says that the file is too short */
    for (int i = 0; i < 8; i++)
        header_bytes |= (uint64_t)begin[i] << (8 * i);
    return header_bytes <= BGI_SAFETENSORS_HEADER_LIMIT && begin[8] == '{';
}

/* Sets *out to whether the file begins as a ZIP archive does. A safetensors file begins so only if its header has one
 * very large size, because its first bytes are the length of its header. Returns BG_ERROR_PARSE if the file begins as
 * neither format does. */
static bg_status is_archive(const char *path, bool *out, bg_error *error)
{
    unsigned char begin[9];
    FILE *stream = NULL;
    size_t size_bytes;

    BGI_TRY(bgi_file_open(path, &stream, error));
    size_bytes = fread(begin, 1, sizeof begin, stream);
    fclose(stream);
    *out = size_bytes >= 4 && (memcmp(begin, "PK\3\4", 4) == 0 || memcmp(begin, "PK\5\6", 4) == 0);
    if (*out || begins_safetensors(begin, size_bytes))
        return BG_OK;
    return bg_error_set(
        error, BG_ERROR_PARSE, "%s: is not a safetensors or .npz file%s", path,
        bgi_text_ends_with(path, ".onnx")
            ? ", but an ONNX model, which is itself the argument MODEL.onnx of `brigade train` and `infer`"
            : "");
}

static bg_status make_room(bgi_weights_source *s, size_t count, bg_error *error)
{
    s->items = calloc(count > 0 ? count : 1, sizeof *s->items);
    return s->items != NULL ? BG_OK : bgi_error_memory(error, "names of tensors", count * sizeof *s->items);
}

static void list_file(bgi_weights_source *s, const bg_safetensors *file)
{
    for (size_t i = 0; i < bg_safetensors_count(file); i++) {
        const bg_safetensors_entry *entry = bg_safetensors_at(file, i);
        bgi_weights_item *item = &s->items[s->count++];
        *item = (bgi_weights_item){.name = entry->name, .type = entry->type, .file = file, .entry = entry};
        item->is_bool = strcmp(bgi_safetensors_storage_of(entry)->name, "BOOL") == 0;
        if (item->is_bool)
            item->type.dtype = BG_UINT8;
    }
}

static bg_status open_folder(bgi_weights_source *s, bg_error *error)
{
    size_t count = 0;

    BGI_TRY(bgi_safetensors_folder_open(s->path, &s->folder, error));
    for (uint32_t i = 0; i < s->folder->file_count; i++)
        count += bg_safetensors_count(s->folder->files[i]);
    BGI_TRY(make_room(s, count, error));
    for (uint32_t i = 0; i < s->folder->file_count; i++)
        list_file(s, s->folder->files[i]);
    return BG_OK;
}

static bg_status open_archive(bgi_weights_source *s, bg_error *error)
{
    const bg_status status = bg_npz_read(s->path, &s->npz, error);

    if (status != BG_OK)
        return bg_error_context(error, status, "read as a .npz file, because it is a ZIP archive");
    BGI_TRY(make_room(s, s->npz.count, error));
    for (uint32_t i = 0; i < s->npz.count; i++)
        s->items[s->count++] =
            (bgi_weights_item){.name = s->npz.names[i], .type = s->npz.arrays[i].type, .data = s->npz.arrays[i].data};
    return BG_OK;
}

static bg_status open_file(bgi_weights_source *s, bg_error *error)
{
    BGI_TRY(bgi_safetensors_open_header(s->path, true, &s->file, error));
    BGI_TRY(make_room(s, bg_safetensors_count(s->file), error));
    list_file(s, s->file);
    return BG_OK;
}

bg_status bgi_weights_source_open(const char *path, bgi_weights_source **out, bg_error *error)
{
    bgi_weights_source *s = calloc(1, sizeof *s);
    bool has_members = false;
    bg_status status;

    if (s == NULL)
        return bgi_error_memory(error, "a list of tensors", sizeof *s);
    s->path = path;
    if (is_folder(path)) {
        status = open_folder(s, error);
    } else {
        status = is_archive(path, &has_members, error);
        if (status == BG_OK)
            status = has_members ? open_archive(s, error) : open_file(s, error);
    }
    if (status == BG_OK)
        *out = s;
    else
        bgi_weights_source_close(s);
    return status;
}

void bgi_weights_source_close(bgi_weights_source *s)
{
    if (s == NULL)
        return;
    bg_safetensors_destroy(s->file);
    bgi_safetensors_folder_close(s->folder);
    bg_npz_clear(&s->npz);
    free(s->items);
    free(s);
}

size_t bgi_weights_source_count(const bgi_weights_source *s)
{
    return s->count;
}

const bgi_weights_item *bgi_weights_source_at(const bgi_weights_source *s, size_t index)
{
    return &s->items[index];
}

/* ---- values ---- */

bool bgi_weights_is_convertible(bg_dtype from, bg_dtype to)
{
    if (from == BG_DTYPE_NONE || to == BG_DTYPE_NONE)
        return false;
    return bg_dtype_is_float(from) == bg_dtype_is_float(to);
}

static double float_at(bg_dtype dtype, const void *values, int64_t i)
{
    if (dtype == BG_FLOAT64)
        return ((const double *)values)[i];
    if (dtype == BG_FLOAT32)
        return (double)((const float *)values)[i];
    return (double)bgi_narrow_to_float(dtype, ((const uint16_t *)values)[i]);
}

/* Stores a number as element `i`. float64 is converted to 16 bits through float32, as in PyTorch. */
static void put_float(bg_dtype dtype, double value, void *out, int64_t i)
{
    if (dtype == BG_FLOAT64)
        ((double *)out)[i] = value;
    else if (dtype == BG_FLOAT32)
        ((float *)out)[i] = (float)value;
    else
        ((uint16_t *)out)[i] = bgi_narrow_from_float(dtype, (float)value);
}

static int64_t integer_at(bg_dtype dtype, const void *values, int64_t i)
{
    return dtype == BG_INT64   ? ((const int64_t *)values)[i]
           : dtype == BG_INT32 ? ((const int32_t *)values)[i]
                               : ((const uint8_t *)values)[i];
}

static bool put_integer(bg_dtype dtype, int64_t value, void *out, int64_t i)
{
    if (dtype == BG_INT64)
        ((int64_t *)out)[i] = value;
    else if (dtype == BG_INT32)
        ((int32_t *)out)[i] = (int32_t)value;
    else
        ((uint8_t *)out)[i] = (uint8_t)value;
    return integer_at(dtype, out, i) == value;
}

bg_status bgi_weights_convert(const char *name, bg_dtype from, const void *values, int64_t count, bg_dtype to,
                              void *out, bg_error *error)
{
    if (from == to) {
        memcpy(out, values, (size_t)count * bg_dtype_size_bytes(to));
        return BG_OK;
    }
    for (int64_t i = 0; i < count; i++)
        if (bg_dtype_is_float(to))
            put_float(to, float_at(from, values, i), out, i);
        else if (!put_integer(to, integer_at(from, values, i), out, i))
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "tensor `%.200s`: element %" PRId64 " is %" PRId64 ", which %s cannot hold", name, i,
                                integer_at(from, values, i), bg_dtype_name(to));
    return BG_OK;
}

bg_status bgi_weights_source_read(const bgi_weights_source *s, const bgi_weights_item *item, bg_dtype dtype, void *out,
                                  bg_error *error)
{
    const int64_t count = bg_type_element_count(&item->type);
    const size_t size_bytes = bg_type_size_bytes(&item->type);
    void *values = NULL;
    bg_status status;

    if (item->entry != NULL && item->type.dtype == dtype)
        return bg_safetensors_read(item->file, item->entry, 0, size_bytes, out, error);
    if (item->entry != NULL) {
        values = malloc(size_bytes > 0 ? size_bytes : 1);
        if (values == NULL)
            return bgi_error_memory(error, item->name, size_bytes);
        BGI_TRY_CLEANUP(bg_safetensors_read(item->file, item->entry, 0, size_bytes, values, error));
    }
    status = bgi_weights_convert(item->name, item->type.dtype, values != NULL ? values : item->data, count, dtype, out,
                                 error);
    if (status != BG_OK)
        status = bg_error_context(error, status, "%s", s->path);
cleanup:
    free(values);
    return status;
}
