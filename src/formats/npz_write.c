/*
 * npz_write.c: writes stored .npy files one after another, then the directory of the archive and its end:
 *
 *     local header, name.npy, bytes | local header, ... | entry, entry, ... | end record
 */
#include "formats/npz.h"

#include <brigade/readers.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

enum {
    LOCAL_BYTES = 30,
    ENTRY_BYTES = 46,
    END_BYTES = 22,
    NEEDED_VERSION = 20,
    UTF8_NAMES = 1 << 11,
    FIRST_DATE = 33, /* 1980-01-01: the same content gives the same file */
    NPY_ALIGNMENT = 64,
    NPY_PREAMBLE = 10,
    MOST_ENTRIES = 65534
};

typedef struct written {
    char *name; /* the member's name, with .npy */
    uint32_t crc, size_bytes, begin;
} written;

typedef struct archive {
    bgi_file_writer file;
    const char *path;
    uint64_t at;
    written *members;
    size_t count;
} archive;

static unsigned char *put16(unsigned char *to, uint32_t value)
{
    to[0] = (unsigned char)value;
    to[1] = (unsigned char)(value >> 8);
    return to + 2;
}

static unsigned char *put32(unsigned char *to, uint32_t value)
{
    return put16(put16(to, value & 0xffff), value >> 16);
}

static void write_bytes(archive *a, const void *data, size_t size_bytes)
{
    bgi_file_write(&a->file, data, size_bytes);
    a->at += size_bytes;
}

static const char *describe(bg_dtype dtype)
{
    switch (dtype) {
    case BG_FLOAT32:
        return "<f4";
    case BG_FLOAT64:
        return "<f8";
    case BG_FLOAT16:
        return "<f2";
    case BG_INT32:
        return "<i4";
    case BG_INT64:
        return "<i8";
    case BG_UINT8:
        return "|u1";
    default:
        return NULL;
    }
}

/* Makes the header of a .npy file of format 1, padded with blanks so that values begin at a multiple of 64. */
static bg_status make_header(const bg_safetensors_entry *entry, bgi_string *header, bg_error *error)
{
    const bg_type *type = &entry->type;
    unsigned char preamble[NPY_PREAMBLE] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    bgi_string text = {0};
    size_t blanks;

    bgi_string_add(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", describe(type->dtype));
    for (uint32_t i = 0; i < type->rank; i++)
        bgi_string_add(&text, "%s%" PRId64, i > 0 ? ", " : "", type->dims[i]);
    bgi_string_add(&text, "%s), }", type->rank == 1 ? "," : "");
    blanks = NPY_ALIGNMENT - 1 - (NPY_PREAMBLE + text.length) % NPY_ALIGNMENT;
    for (size_t i = 0; i < blanks; i++)
        bgi_string_append(&text, " ", 1);
    bgi_string_append(&text, "\n", 1);
    put16(preamble + 8, (uint32_t)text.length);
    bgi_string_append(header, (const char *)preamble, sizeof preamble);
    if (text.data != NULL)
        bgi_string_append(header, text.data, text.length);
    header->failed = header->failed || text.failed;
    bgi_string_clear(&text);
    return header->failed ? bgi_error_memory(error, entry->name, header->length) : BG_OK;
}

/* Writes the common fields of a local header and an entry of the directory. */
static unsigned char *put_member(unsigned char *to, const written *member)
{
    to = put16(to, NEEDED_VERSION);
    to = put16(to, UTF8_NAMES);
    to = put16(to, 0); /* stored */
    to = put32(to, (uint32_t)FIRST_DATE << 16);
    to = put32(to, member->crc);
    to = put32(to, member->size_bytes);
    to = put32(to, member->size_bytes);
    to = put16(to, (uint32_t)strlen(member->name));
    return put16(to, 0);
}

static bg_status write_member(archive *a, const bg_safetensors_entry *entry, const void *data, bg_error *error)
{
    const size_t size_bytes = bg_type_size_bytes(&entry->type);
    written *member = &a->members[a->count];
    unsigned char local[LOCAL_BYTES];
    bgi_string header = {0}, name = {0};
    bg_status status;

    if (describe(entry->type.dtype) == NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s: `%.200s` is of %s, which NumPy does not have; convert it to float32 or float16",
                            a->path, entry->name, bg_dtype_name(entry->type.dtype));
    bgi_string_add(&name, "%s.npy", entry->name);
    BGI_TRY(bgi_string_finish(&name, &member->name, error));
    a->count++;
    status = make_header(entry, &header, error);
    if (status == BG_OK && a->at + LOCAL_BYTES + strlen(member->name) + header.length + size_bytes >= UINT32_MAX)
        status = bg_error_set(error, BG_ERROR_UNSUPPORTED,
                              "%s: the file would have 4 GiB or more, which .npz does not allow; save as .safetensors",
                              a->path);
    if (status == BG_OK) {
        member->begin = (uint32_t)a->at;
        member->size_bytes = (uint32_t)(header.length + size_bytes);
        member->crc = (uint32_t)crc32_z(crc32_z(0, (const Bytef *)header.data, header.length), data, size_bytes);
        memcpy(local, "PK\3\4", 4);
        put_member(local + 4, member);
        write_bytes(a, local, sizeof local);
        write_bytes(a, member->name, strlen(member->name));
        write_bytes(a, header.data, header.length);
        write_bytes(a, data, size_bytes);
    }
    bgi_string_clear(&header);
    return status;
}

static bg_status write_directory(archive *a, bg_error *error)
{
    const uint64_t begin = a->at;
    unsigned char entry[ENTRY_BYTES], end[END_BYTES] = {0};

    for (size_t i = 0; i < a->count; i++) {
        unsigned char *to = entry;
        memset(entry, 0, sizeof entry);
        memcpy(to, "PK\1\2", 4);
        to = put_member(put16(to + 4, NEEDED_VERSION), &a->members[i]);
        put32(entry + ENTRY_BYTES - 4, a->members[i].begin);
        write_bytes(a, entry, sizeof entry);
        write_bytes(a, a->members[i].name, strlen(a->members[i].name));
    }
    if (a->at >= UINT32_MAX)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s: the file would have 4 GiB or more, which .npz does not allow; save as .safetensors",
                            a->path);
    memcpy(end, "PK\5\6", 4);
    put16(end + 8, (uint32_t)a->count);
    put16(end + 10, (uint32_t)a->count);
    put32(end + 12, (uint32_t)(a->at - begin));
    put32(end + 16, (uint32_t)begin);
    write_bytes(a, end, sizeof end);
    return BG_OK;
}

bg_status bgi_npz_write(const char *path, const bg_safetensors_entry *entries, size_t count, bg_safetensors_fetch fetch,
                        void *user, bg_error *error)
{
    archive a = {.path = path};
    bg_status status;

    if (count > MOST_ENTRIES)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: there are %zu arrays; a .npz file can have at most %d",
                            path, count, MOST_ENTRIES);
    a.members = calloc(count > 0 ? count : 1, sizeof *a.members);
    if (a.members == NULL)
        return bgi_error_memory(error, "names of arrays", count * sizeof *a.members);
    BGI_TRY_CLEANUP(bgi_file_writer_begin(&a.file, path, error));
    for (size_t i = 0; i < count; i++) {
        const void *data = entries[i].data;
        if (data == NULL)
            BGI_TRY_CLEANUP(fetch(user, &entries[i], &data, error));
        BGI_TRY_CLEANUP(write_member(&a, &entries[i], data, error));
    }
    BGI_TRY_CLEANUP(write_directory(&a, error));
    status = bgi_file_writer_commit(&a.file, error);
cleanup:
    bgi_file_writer_abandon(&a.file, error);
    for (size_t i = 0; i < a.count; i++)
        free(a.members[i].name);
    free(a.members);
    return status;
}

/* ---- one array ---- */

bg_status bg_npy_write(const char *path, const bg_array *array, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(array, "array", __func__, error));

    const bg_safetensors_entry entry = {.name = path, .type = array->type, .data = array->data};
    char text[BG_TYPE_TEXT_BYTES];
    bgi_file_writer file = {0};
    bgi_string header = {0};
    bg_status status;

    BGI_TRY(bg_type_validate(&array->type, error));
    if (describe(array->type.dtype) == NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s: cannot write %s as .npy; NumPy does not have this element type", path,
                            bg_type_text(&array->type, text));
    status = make_header(&entry, &header, error);
    if (status == BG_OK)
        status = bgi_file_writer_begin(&file, path, error);
    if (status == BG_OK) {
        bgi_file_write(&file, header.data, header.length);
        bgi_file_write(&file, array->data, bg_type_size_bytes(&array->type));
        status = bgi_file_writer_commit(&file, error);
    }
    bgi_string_clear(&header);
    return status;
}
