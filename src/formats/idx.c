/*
 * idx.c: reads and writes IDX files: two zero bytes, a type byte, a rank byte, one big-endian uint32 for each
 * dimension, then the elements. It does not interpret the elements.
 *
 * A whole file is read and then parsed in memory, so the fuzz target and the file reader use the same function. A
 * gzipped file is inflated in two steps. The first inflates the header into a small buffer. If the size in the header
 * is possible, the second inflates the elements directly into their array. Deflate cannot expand by more than 1032 to 1
 * (zlib's technical notes), so a larger size in the header is refused before anything is allocated.
 */
#include "formats/idx.h"

#include "core/error.h"
#include "core/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MAGIC_BYTES = 4, MAX_IDX_RANK = 4, MAX_HEADER_BYTES = MAGIC_BYTES + 4 * MAX_IDX_RANK, TYPE_UINT8 = 0x08 };
static const uint64_t LARGEST_ARRAY_BYTES = (uint64_t)2 << 30;
static const uint64_t LARGEST_EXPANSION = 1032;

/* ---- the bytes of the content, plain or inflated ---- */

typedef struct source {
    const char *name;
    const unsigned char *content;
    size_t size_bytes;
    size_t at; /* bytes of the unpacked stream read so far */
    bool is_gzip;
    bool is_done; /* gzip: the last member has ended */
    z_stream inflater;
} source;

static bg_status open_source(source *s, const char *name, const void *content, size_t size_bytes, bg_error *error)
{
    *s = (source){.name = name, .content = content, .size_bytes = size_bytes};
    if (size_bytes == 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: the file is empty; an IDX file has at least a header of 8 bytes", name);
    if (size_bytes > UINT32_MAX)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: the file has %zu bytes but must have at most 4 GiB", name,
                            size_bytes);
    s->is_gzip = size_bytes >= 2 && s->content[0] == 0x1f && s->content[1] == 0x8b;
    if (!s->is_gzip)
        return BG_OK;
    s->inflater.next_in =
        (unsigned char *)(uintptr_t)content; /* zlib does not change the input, although its pointer is not const */
    s->inflater.avail_in = (uInt)size_bytes;
    if (inflateInit2(&s->inflater, 16 + MAX_WBITS) != Z_OK)
        return bgi_error_memory(error, "the state of inflate", 0);
    return BG_OK;
}

static void close_source(source *s)
{
    if (s->is_gzip)
        inflateEnd(&s->inflater);
}

/* Ends a gzip member. Consecutive members are one stream; other bytes must not follow a member. */
static bg_status end_member(source *s, bg_error *error)
{
    const size_t offset = s->size_bytes - s->inflater.avail_in;

    if (s->inflater.avail_in == 0) {
        s->is_done = true;
        return BG_OK;
    }
    if (s->inflater.avail_in >= 2 && s->inflater.next_in[0] == 0x1f && s->inflater.next_in[1] == 0x8b) {
        inflateReset(&s->inflater);
        return BG_OK;
    }
    return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: %u bytes follow the end of the gzip stream", s->name,
                        offset, s->inflater.avail_in);
}

static bg_status inflate_some(source *s, unsigned char *out, size_t wanted, size_t *taken, bg_error *error)
{
    *taken = 0;
    while (*taken < wanted && !s->is_done) {
        const size_t before = wanted - *taken;
        int result;

        s->inflater.next_out = out + *taken;
        s->inflater.avail_out = (uInt)before;
        result = inflate(&s->inflater, Z_NO_FLUSH);
        *taken += before - s->inflater.avail_out;
        if (result == Z_STREAM_END)
            BGI_TRY(end_member(s, error));
        else if (result == Z_MEM_ERROR)
            return bgi_error_memory(error, "the window of inflate", 0);
        else if (result == Z_BUF_ERROR || (result == Z_OK && s->inflater.avail_in == 0 && s->inflater.avail_out > 0))
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: byte %zu: the gzip stream is truncated there (after %zu bytes of content)",
                                s->name, s->size_bytes, s->at + *taken);
        else if (result != Z_OK)
            return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: the gzip stream is damaged: %s", s->name,
                                s->size_bytes - s->inflater.avail_in,
                                s->inflater.msg != NULL ? s->inflater.msg : zError(result));
    }
    return BG_OK;
}

/* Reads `wanted` bytes, or fewer at the end of the content. */
static bg_status take(source *s, void *out, size_t wanted, size_t *taken, bg_error *error)
{
    if (s->is_gzip) {
        BGI_TRY(inflate_some(s, out, wanted, taken, error));
    } else {
        *taken = s->size_bytes - s->at < wanted ? s->size_bytes - s->at : wanted;
        memcpy(out, s->content + s->at, *taken);
    }
    s->at += *taken;
    return BG_OK;
}

static bg_status take_header_bytes(source *s, unsigned char *out, size_t wanted, const char *what, bg_error *error)
{
    const size_t start = s->at;
    size_t taken = 0;

    BGI_TRY(take(s, out, wanted, &taken, error));
    if (taken < wanted)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte %zu: the file ends in the header; it must have %zu bytes of %s at byte %zu",
                            s->name, s->at, wanted, what, start);
    return BG_OK;
}

/* ---- header ---- */

static const char *idx_type_name(unsigned char type)
{
    switch (type) {
    case 0x09:
        return "int8";
    case 0x0B:
        return "int16";
    case 0x0C:
        return "int32";
    case 0x0D:
        return "float32";
    case 0x0E:
        return "float64";
    default:
        return "no IDX type";
    }
}

static uint32_t read_big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bg_status parse_magic(const source *s, const unsigned char *magic, bg_error *error)
{
    if (magic[0] != 0 || magic[1] != 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte 0: this is not an IDX file: it begins with %02x %02x but must begin with 00 00",
                            s->name, magic[0], magic[1]);
    if (magic[2] != TYPE_UINT8)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s: byte 2: the element type is 0x%02x (%s) but must be 0x08 (uint8)", s->name, magic[2],
                            idx_type_name(magic[2]));
    if (magic[3] < 1 || magic[3] > MAX_IDX_RANK)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: byte 3: the file has %d dimensions but must have 1 to %d",
                            s->name, magic[3], MAX_IDX_RANK);
    return BG_OK;
}

static bg_status parse_header(source *s, bg_type *type, size_t *data_bytes, bg_error *error)
{
    unsigned char bytes[MAX_HEADER_BYTES];
    uint64_t product = 1;

    BGI_TRY(take_header_bytes(s, bytes, MAGIC_BYTES, "magic number", error));
    BGI_TRY(parse_magic(s, bytes, error));
    *type = (bg_type){.dtype = BG_UINT8, .rank = bytes[3]};
    BGI_TRY(take_header_bytes(s, bytes, 4 * (size_t)type->rank, "dimensions", error));
    for (uint32_t i = 0; i < type->rank; i++) {
        const uint32_t dim = read_big_endian(bytes + 4 * (size_t)i);

        if (dim == 0)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: byte %" PRIu32 ": dimension %" PRIu32 " is 0 but must be at least 1", s->name,
                                MAGIC_BYTES + 4 * i, i);
        product *= dim; /* below 2^31 * 2^32: cannot overflow */
        if (product > LARGEST_ARRAY_BYTES)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: byte %" PRIu32 ": dimension %" PRIu32 " is %" PRIu32
                                ", which makes more than the limit of 2 GiB",
                                s->name, MAGIC_BYTES + 4 * i, i, dim);
        type->dims[i] = dim;
    }
    *data_bytes = (size_t)product;
    return BG_OK;
}

/* Before the allocation, refuses sizes that the content cannot have. */
static bg_status check_possible(const source *s, const bg_type *type, size_t data_bytes, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (s->is_gzip) {
        if (data_bytes > s->size_bytes * LARGEST_EXPANSION)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: byte 4: the header promises %s, %zu bytes, which %zu compressed bytes cannot hold",
                                s->name, bg_type_text(type, text), data_bytes, s->size_bytes);
    } else if (s->size_bytes - s->at < data_bytes) {
        return bg_error_set(
            error, BG_ERROR_PARSE,
            "%s: byte %zu: the file ends too early: the header promises %s, %zu bytes, but there are %zu", s->name,
            s->size_bytes, bg_type_text(type, text), data_bytes, s->size_bytes - s->at);
    } else if (s->size_bytes - s->at > data_bytes) {
        return bg_error_set(
            error, BG_ERROR_PARSE, "%s: byte %zu: the file has %zu bytes too many: the header promises %s, %zu bytes",
            s->name, s->at + data_bytes, s->size_bytes - s->at - data_bytes, bg_type_text(type, text), data_bytes);
    }
    return BG_OK;
}

static bg_status take_elements(source *s, const bg_type *type, void *data, size_t data_bytes, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];
    unsigned char extra;
    size_t taken = 0;

    BGI_TRY(take(s, data, data_bytes, &taken, error));
    if (taken < data_bytes)
        return bg_error_set(
            error, BG_ERROR_PARSE,
            "%s: byte %zu (unpacked): the content ends too early: the header promises %s, %zu bytes, but there are %zu",
            s->name, s->at, bg_type_text(type, text), data_bytes, taken);
    /* Requesting one byte more makes inflate read the trailer with the checksum as well. */
    BGI_TRY(take(s, &extra, 1, &taken, error));
    if (taken > 0)
        return bg_error_set(
            error, BG_ERROR_PARSE,
            "%s: byte %zu (unpacked): the content continues beyond the %s, %zu bytes, that the header promises",
            s->name, s->at - 1, bg_type_text(type, text), data_bytes);
    return BG_OK;
}

static bg_status parse_source(source *s, bg_array *out, bg_error *error)
{
    bg_array array = {0};
    bg_type type;
    size_t data_bytes = 0;
    bg_status status;

    BGI_TRY(parse_header(s, &type, &data_bytes, error));
    BGI_TRY(check_possible(s, &type, data_bytes, error));
    array.type = type;
    array.data = malloc(data_bytes);
    if (array.data == NULL)
        return bgi_error_memory(error, s->name, data_bytes);
    status = take_elements(s, &type, array.data, data_bytes, error);
    if (status != BG_OK) {
        bg_array_clear(&array);
        return status;
    }
    *out = array;
    return BG_OK;
}

bg_status bgi_idx_parse(const char *name, const void *content, size_t size_bytes, bg_array *out, bg_error *error)
{
    source s;
    bg_status status;

    BGI_TRY(open_source(&s, name, content, size_bytes, error));
    status = parse_source(&s, out, error);
    close_source(&s);
    return status;
}

bg_status bg_idx_read(const char *path, bg_array *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    char *content = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, (size_t)LARGEST_ARRAY_BYTES + (1 << 20), &content, &size_bytes, error));
    status = bgi_idx_parse(path, content, size_bytes, out, error);
    free(content);
    return status;
}

/* ---- writing ---- */

static size_t make_header(const bg_type *type, unsigned char *header)
{
    header[0] = header[1] = 0;
    header[2] = TYPE_UINT8;
    header[3] = (unsigned char)type->rank;
    for (uint32_t i = 0; i < type->rank && i < MAX_IDX_RANK; i++)
        for (uint32_t byte = 0; byte < 4; byte++)
            header[MAGIC_BYTES + 4 * i + byte] = (unsigned char)((uint64_t)type->dims[i] >> (24 - 8 * byte));
    return MAGIC_BYTES + 4 * (size_t)type->rank;
}

static bool deflate_into(z_stream *deflater, bgi_file_writer *writer, const void *data, size_t size_bytes, int flush)
{
    unsigned char chunk[16384];

    deflater->next_in = (unsigned char *)(uintptr_t)data;
    deflater->avail_in = (uInt)size_bytes;
    do {
        deflater->next_out = chunk;
        deflater->avail_out = sizeof chunk;
        if (deflate(deflater, flush) == Z_STREAM_ERROR)
            return false;
        bgi_file_write(writer, chunk, sizeof chunk - deflater->avail_out);
    } while (deflater->avail_out == 0);
    return true;
}

static bg_status write_gzip(bgi_file_writer *writer, const void *header, size_t header_bytes, const bg_array *array,
                            bg_error *error)
{
    z_stream deflater = {0};
    bool ok;

    /* The gzip header that zlib writes by default contains no time, so the same array gives the same file. */
    if (deflateInit2(&deflater, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return bgi_error_memory(error, "the state of deflate", 0);
    ok = deflate_into(&deflater, writer, header, header_bytes, Z_NO_FLUSH) &&
         deflate_into(&deflater, writer, array->data, bg_type_size_bytes(&array->type), Z_FINISH);
    deflateEnd(&deflater);
    return ok ? BG_OK : bg_error_set(error, BG_ERROR_INTERNAL, "deflate failed, because its state is invalid");
}

static bg_status check_writable(const char *path, const bg_type *type, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    BGI_TRY(bg_type_validate(type, error));
    if (type->dtype != BG_UINT8 || type->rank < 1 || type->rank > MAX_IDX_RANK ||
        (uint64_t)bg_type_element_count(type) > LARGEST_ARRAY_BYTES)
        return bg_error_set(
            error, BG_ERROR_UNSUPPORTED,
            "%s: cannot write %s as IDX; the array must be uint8 with 1 to %d dimensions and at most 2 GiB", path,
            bg_type_text(type, text), MAX_IDX_RANK);
    return BG_OK;
}

bg_status bg_idx_write(const char *path, const bg_array *array, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(array, "array", __func__, error));

    const size_t path_bytes = strlen(path);
    const bool compress = path_bytes >= 3 && strcmp(path + path_bytes - 3, ".gz") == 0;
    unsigned char header[MAX_HEADER_BYTES];
    bgi_file_writer writer = {0};
    size_t header_bytes;
    bg_status status = BG_OK;

    BGI_TRY(check_writable(path, &array->type, error));
    header_bytes = make_header(&array->type, header);
    BGI_TRY(bgi_file_writer_begin(&writer, path, error));
    if (compress) {
        status = write_gzip(&writer, header, header_bytes, array, error);
    } else {
        bgi_file_write(&writer, header, header_bytes);
        bgi_file_write(&writer, array->data, bg_type_size_bytes(&array->type));
    }
    if (status != BG_OK) {
        bgi_file_writer_abandon(&writer, error);
        return status;
    }
    return bgi_file_writer_commit(&writer, error);
}
