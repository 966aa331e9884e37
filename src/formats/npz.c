/*
 * npz.c: reads NumPy's .npz: a ZIP archive of .npy files, stored or deflated. The archive is read from its end: the end
 * record contains the offset of the directory, and the directory contains the offset of each member. The sizes in the
 * members' own headers are not used.
 *
 * Members must not share bytes of the file, and a member cannot unpack to more than 1032 times its bytes (zlib's
 * technical notes). So all members together need at most 1032 times the file's size.
 */
#include "formats/npy.h"

#include "core/error.h"
#include "core/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const uint64_t LARGEST_FILE_BYTES = (uint64_t)4 << 30;
static const uint64_t LARGEST_MEMBER_BYTES = ((uint64_t)2 << 30) + (1 << 20);
enum {
    END_BYTES = 22,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    LARGEST_COMMENT = 65535,
    LARGEST_EXPANSION = 1032,
    LARGEST_COUNT = 4096,
    STORED = 0,
    DEFLATED = 8
};

typedef struct archive {
    const char *name;
    const unsigned char *content;
    size_t size_bytes;
} archive;

typedef struct member {
    size_t entry_at; /* offset in the file of the directory entry, for messages */
    uint32_t method, flags, crc;
    uint64_t packed_bytes, size_bytes;
    size_t data_at;
    char *name;
} member;

static uint32_t read16(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t read32(const unsigned char *p)
{
    return read16(p) | read16(p + 2) << 16;
}

static bg_status find_end(const archive *a, size_t *out_at, bg_error *error)
{
    const size_t first = a->size_bytes > END_BYTES + LARGEST_COMMENT ? a->size_bytes - END_BYTES - LARGEST_COMMENT : 0;

    for (size_t at = a->size_bytes >= END_BYTES ? a->size_bytes - END_BYTES + 1 : 0; at-- > first;)
        if (memcmp(a->content + at, "PK\5\6", 4) == 0 &&
            read16(a->content + at + 20) == a->size_bytes - at - END_BYTES) {
            *out_at = at;
            return BG_OK;
        }
    return bg_error_set(
        error, BG_ERROR_PARSE,
        "%s: byte %zu: the end record of a ZIP archive is missing: this is not a .npz file, or it is truncated",
        a->name, a->size_bytes);
}

static bg_status read_entry(const archive *a, size_t *at, size_t end, member *m, bg_error *error)
{
    const unsigned char *p = a->content + *at;
    size_t length;

    if (end - *at < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: there must be an entry of the directory here",
                            a->name, *at);
    length = read16(p + 28);
    if (end - *at - ENTRY_BYTES < length + read16(p + 30) + read16(p + 32))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: the directory ends within an entry", a->name, end);
    m->entry_at = *at;
    m->flags = read16(p + 8);
    m->method = read16(p + 10);
    m->crc = read32(p + 16);
    m->packed_bytes = read32(p + 20);
    m->size_bytes = read32(p + 24);
    m->data_at = read32(p + 42);
    if (m->packed_bytes == UINT32_MAX || m->size_bytes == UINT32_MAX || m->data_at == UINT32_MAX)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s: byte %zu: a member has 4 GiB or more (ZIP64), which is not supported", a->name, *at);
    if (memchr(p + ENTRY_BYTES, 0, length) != NULL || length < 5 ||
        memcmp(p + ENTRY_BYTES + length - 4, ".npy", 4) != 0)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s: byte %zu: this is not a .npz file: `%.*s` does not end in .npy", a->name, *at,
                            length < 200 ? (int)length : 200, (const char *)p + ENTRY_BYTES);
    m->name = calloc(1, length + 1);
    if (m->name == NULL)
        return bgi_error_memory(error, "a member's name", length + 1);
    memcpy(m->name, p + ENTRY_BYTES, length - 4);
    *at += ENTRY_BYTES + length + read16(p + 30) + read16(p + 32);
    return BG_OK;
}

static bg_status find_data(const archive *a, size_t directory_at, member *m, bg_error *error)
{
    const unsigned char *p = a->content + m->data_at;

    if (m->data_at > directory_at || directory_at - m->data_at < LOCAL_BYTES || memcmp(p, "PK\3\4", 4) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: there is no member at byte %zu", a->name, m->entry_at,
                            m->data_at);
    m->data_at += LOCAL_BYTES + (size_t)read16(p + 26) + read16(p + 28);
    if (m->data_at > directory_at || directory_at - m->data_at < m->packed_bytes)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: `%s` ends beyond the archive's data", a->name,
                            m->entry_at, m->name);
    if (m->flags & 1 || (m->method != STORED && m->method != DEFLATED))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: byte %zu: `%s` is %s but must be stored or deflated",
                            a->name, m->entry_at, m->name, m->flags & 1 ? "encrypted" : "packed another way");
    if (m->size_bytes > LARGEST_MEMBER_BYTES || (m->method == STORED && m->size_bytes != m->packed_bytes) ||
        m->size_bytes > (m->packed_bytes + 1) * LARGEST_EXPANSION)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte %zu: `%s` cannot have %" PRIu64 " bytes, because it is packed into %" PRIu64,
                            a->name, m->entry_at, m->name, m->size_bytes, m->packed_bytes);
    return BG_OK;
}

static bg_status inflate_member(const archive *a, const member *m, unsigned char *out, bg_error *error)
{
    z_stream inflater = {.next_in = (unsigned char *)(uintptr_t)(a->content + m->data_at), /* only read */
                         .avail_in = (uInt)m->packed_bytes,
                         .next_out = out,
                         .avail_out = (uInt)m->size_bytes};
    int result;

    if (inflateInit2(&inflater, -MAX_WBITS) != Z_OK)
        return bgi_error_memory(error, "the state of inflate", 0);
    result = inflate(&inflater, Z_FINISH);
    inflateEnd(&inflater);
    if (result == Z_MEM_ERROR)
        return bgi_error_memory(error, "the window of inflate", 0);
    if (result != Z_STREAM_END || inflater.avail_out > 0 || inflater.avail_in > 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: `%s` does not unpack to %" PRIu64 " bytes", a->name,
                            m->data_at + m->packed_bytes - inflater.avail_in, m->name, m->size_bytes);
    return BG_OK;
}

static bg_status check_crc(const archive *a, const member *m, const unsigned char *data, bg_error *error)
{
    const uLong crc = crc32_z(crc32_z(0, NULL, 0), data, m->size_bytes);

    if (crc == m->crc)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_PARSE,
                        "%s: byte %zu: `%s` is damaged (its checksum is %08lx but must be %08" PRIx32 ")", a->name,
                        m->data_at, m->name, crc, m->crc);
}

static bg_status unpack(const archive *a, const member *m, bg_array *out, bg_error *error)
{
    const unsigned char *data = a->content + m->data_at;
    unsigned char *unpacked = NULL;
    char name[512];
    bg_status status = BG_OK;

    snprintf(name, sizeof name, "%s: %.200s.npy", a->name, m->name);
    if (m->method == DEFLATED) {
        data = unpacked = malloc(m->size_bytes > 0 ? m->size_bytes : 1);
        if (unpacked == NULL)
            return bgi_error_memory(error, m->name, m->size_bytes);
        status = inflate_member(a, m, unpacked, error);
    }
    if (status == BG_OK)
        status = check_crc(a, m, data, error);
    if (status == BG_OK)
        status = bgi_npy_parse(name, data, m->size_bytes, out, error);
    free(unpacked);
    return status;
}

static bg_status unpack_all(const archive *a, size_t at, size_t end, uint32_t count, bg_npz *npz, bg_error *error)
{
    const size_t directory_at = at;
    uint64_t packed_bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        member m = {.name = NULL};
        const bg_status status = read_entry(a, &at, end, &m, error);

        npz->names[i] = m.name;
        npz->count = i + 1;
        BGI_TRY(status);
        for (uint32_t other = 0; other < i; other++)
            if (strcmp(npz->names[other], m.name) == 0)
                return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: `%s` occurs twice", a->name, m.entry_at,
                                    m.name);
        BGI_TRY(find_data(a, directory_at, &m, error));
        packed_bytes += m.packed_bytes;
        if (packed_bytes > a->size_bytes)
            return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: two members overlap in the file", a->name,
                                m.entry_at);
        BGI_TRY(unpack(a, &m, &npz->arrays[i], error));
    }
    return BG_OK;
}

bg_status bgi_npz_parse(const char *name, const void *content, size_t size_bytes, bg_npz *out, bg_error *error)
{
    const archive a = {.name = name, .content = content, .size_bytes = size_bytes};
    bg_npz npz = {.count = 0};
    size_t end = 0, at;
    uint32_t count;
    bg_status status = BG_OK;

    BGI_TRY(find_end(&a, &end, error));
    count = read16(a.content + end + 10);
    at = read32(a.content + end + 16);
    if (count == 0 || count > LARGEST_COUNT)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte %zu: the file has %" PRIu32 " arrays but must have 1 to %d", name, end + 10,
                            count, LARGEST_COUNT);
    if (at > end || read32(a.content + end + 12) > end - at)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: the directory does not end before the end record",
                            name, end + 16);
    npz.names = calloc(count, sizeof *npz.names);
    npz.arrays = calloc(count, sizeof *npz.arrays);
    if (npz.names == NULL || npz.arrays == NULL)
        status = bgi_error_memory(error, "the arrays of a file", count * sizeof *npz.arrays);
    if (status == BG_OK)
        status = unpack_all(&a, at, end, count, &npz, error);
    if (status != BG_OK) {
        bg_npz_clear(&npz);
        return status;
    }
    *out = npz;
    return BG_OK;
}

bg_status bg_npz_read(const char *path, bg_npz *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    char *content = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, (size_t)LARGEST_FILE_BYTES, &content, &size_bytes, error));
    status = bgi_npz_parse(path, content, size_bytes, out, error);
    free(content);
    return status;
}

void bg_npz_clear(bg_npz *npz)
{
    for (uint32_t i = 0; i < npz->count; i++) {
        free(npz->names[i]);
        bg_array_clear(&npz->arrays[i]);
    }
    free(npz->names);
    free(npz->arrays);
    memset(npz, 0, sizeof *npz);
}

const bg_array *bg_npz_find(const bg_npz *npz, const char *name)
{
    for (uint32_t i = 0; i < npz->count; i++)
        if (strcmp(npz->names[i], name) == 0)
            return &npz->arrays[i];
    return NULL;
}
