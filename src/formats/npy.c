/*
 * npy.c: reads NumPy's .npy: "\x93NUMPY", two bytes of version, the header's length (little-endian, in 2 bytes, or 4
 * from version 2 on), the header, and the elements. The header is one Python dictionary:
 *
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * Only this form is read: these three keys, each once, in any order. Element types are in a table of conversions, each
 * from the file's bytes to one element of Brigade's.
 */
#include "formats/npy.h"

#include "core/error.h"
#include "core/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t LARGEST_ARRAY_BYTES = (uint64_t)2 << 30;
enum { MAGIC_BYTES = 6, LARGEST_HEADER_BYTES = 65536, DESCRIPTION_BYTES = 16 };

/* ---- the header ---- */

typedef struct reader {
    const char *name;
    const unsigned char *content;
    size_t at, end; /* current offset and end of the header */
} reader;

typedef struct header {
    char description[DESCRIPTION_BYTES];
    bool is_fortran;
    uint32_t rank;
    int64_t dims[BG_MAX_RANK];
    bool has_description, has_order, has_shape;
} header;

static bg_status fail_at(const reader *r, const char *expected, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: the header is wrong there; it must have %s", r->name,
                        r->at, expected);
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && (r->content[r->at] == ' ' || r->content[r->at] == '\n'))
        r->at++;
}

static bool take_char(reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || r->content[r->at] != (unsigned char)c)
        return false;
    r->at++;
    return true;
}

static bool take_word(reader *r, const char *word)
{
    const size_t length = strlen(word);

    skip_blanks(r);
    if (r->end - r->at < length || memcmp(r->content + r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static bg_status take_text(reader *r, char text[DESCRIPTION_BYTES], bg_error *error)
{
    size_t length = 0;
    char quote;

    skip_blanks(r);
    quote = r->at < r->end ? (char)r->content[r->at] : '\0';
    if (quote != '\'' && quote != '"')
        return fail_at(r, "a string in quotes (structured element types are not supported)", error);
    for (r->at++; r->at < r->end && r->content[r->at] != (unsigned char)quote; r->at++) {
        if (length + 1 == DESCRIPTION_BYTES || r->content[r->at] < ' ' || r->content[r->at] > '~')
            return fail_at(r, "a short string", error);
        text[length++] = (char)r->content[r->at];
    }
    text[length] = '\0';
    return take_char(r, quote) ? BG_OK : fail_at(r, "the end of the string", error);
}

static bg_status take_dim(reader *r, header *h, bg_error *error)
{
    uint64_t dim = 0;
    const size_t start = r->at;

    for (; r->at < r->end && r->content[r->at] >= '0' && r->content[r->at] <= '9'; r->at++) {
        dim = dim * 10 + (r->content[r->at] - '0');
        if (dim > LARGEST_ARRAY_BYTES)
            return fail_at(r, "a dimension of at most 2^31", error);
    }
    if (r->at == start)
        return fail_at(r, "a dimension", error);
    if (dim == 0) {
        r->at = start;
        return fail_at(r, "a dimension of at least 1 (the array is empty)", error);
    }
    if (h->rank == BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: byte %zu: the array has more than %d dimensions", r->name,
                            start, BG_MAX_RANK);
    h->dims[h->rank++] = (int64_t)dim;
    return BG_OK;
}

static bg_status take_shape(reader *r, header *h, bg_error *error)
{
    if (!take_char(r, '('))
        return fail_at(r, "`(`", error);
    while (!take_char(r, ')')) {
        BGI_TRY(take_dim(r, h, error));
        if (!take_char(r, ',') && h->rank == 1)
            return fail_at(r, "`,`", error);
        skip_blanks(r);
    }
    return BG_OK;
}

static bg_status take_entry(reader *r, header *h, bg_error *error)
{
    char key[DESCRIPTION_BYTES];
    const size_t start = r->at;
    bool *seen;

    BGI_TRY(take_text(r, key, error));
    seen = strcmp(key, "descr") == 0           ? &h->has_description
           : strcmp(key, "fortran_order") == 0 ? &h->has_order
           : strcmp(key, "shape") == 0         ? &h->has_shape
                                               : NULL;
    if (seen == NULL || *seen) {
        r->at = start;
        return fail_at(r, "one each of 'descr', 'fortran_order', 'shape'", error);
    }
    *seen = true;
    if (!take_char(r, ':'))
        return fail_at(r, "`:`", error);
    if (seen == &h->has_description)
        return take_text(r, h->description, error);
    if (seen == &h->has_shape)
        return take_shape(r, h, error);
    h->is_fortran = take_word(r, "True");
    return h->is_fortran || take_word(r, "False") ? BG_OK : fail_at(r, "True or False", error);
}

static bg_status parse_dictionary(reader *r, header *h, bg_error *error)
{
    if (!take_char(r, '{'))
        return fail_at(r, "`{`", error);
    while (!take_char(r, '}')) {
        skip_blanks(r);
        BGI_TRY(take_entry(r, h, error));
        skip_blanks(r);
        if (!take_char(r, ',') && (r->at == r->end || r->content[r->at] != '}'))
            return fail_at(r, "`,` or `}`", error);
    }
    skip_blanks(r);
    if (r->at != r->end)
        return fail_at(r, "nothing more", error);
    if (!h->has_description || !h->has_order || !h->has_shape)
        return fail_at(r, "'descr', 'fortran_order' and 'shape'", error);
    return BG_OK;
}

static bg_status parse_header(reader *r, size_t size_bytes, header *h, bg_error *error)
{
    const unsigned char *c = r->content;
    size_t length_bytes, length;

    if (size_bytes < MAGIC_BYTES + 4)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: the file ends in its header", r->name, size_bytes);
    if (memcmp(c, "\x93NUMPY", MAGIC_BYTES) != 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte 0: this is not a .npy file (it does not begin with \\x93NUMPY)", r->name);
    if (c[MAGIC_BYTES] < 1 || c[MAGIC_BYTES] > 3 || c[MAGIC_BYTES + 1] != 0)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: byte 6: the version is %d.%d but must be 1.0, 2.0 or 3.0",
                            r->name, c[MAGIC_BYTES], c[MAGIC_BYTES + 1]);
    length_bytes = c[MAGIC_BYTES] == 1 ? 2 : 4;
    r->at = MAGIC_BYTES + 2 + length_bytes;
    if (size_bytes < r->at)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: the file ends in its header", r->name, size_bytes);
    length = (size_t)c[8] | (size_t)c[9] << 8;
    if (length_bytes == 4)
        length |= (size_t)c[10] << 16 | (size_t)c[11] << 24;
    if (length > LARGEST_HEADER_BYTES || length > size_bytes - r->at)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte 8: the header has %zu bytes, but the file has only %zu",
                            r->name, length, size_bytes);
    r->end = r->at + length;
    return parse_dictionary(r, h, error);
}

/* ---- elements ---- */

/* Reads the bytes of an element as a number. Eight bytes are enough for every supported type. */
static uint64_t read_bits(const unsigned char *bytes, size_t count, bool is_big)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < count; i++)
        bits |= (uint64_t)bytes[is_big ? count - 1 - i : i] << 8 * i;
    return bits;
}

typedef enum conversion { BITS, TRUTH, SIGNED, UNSIGNED } conversion;

typedef struct element {
    const char *description; /* the type's name without the byte order */
    size_t size_bytes;       /* bytes of an element in the file */
    bg_dtype dtype;          /* type of an element in memory */
    conversion conversion;
} element;

static const element elements[] = {
    {"f4", 4, BG_FLOAT32, BITS},   {"f8", 8, BG_FLOAT64, BITS},   {"f2", 2, BG_FLOAT16, BITS},
    {"u1", 1, BG_UINT8, BITS},     {"b1", 1, BG_UINT8, TRUTH},    {"i1", 1, BG_INT32, SIGNED},
    {"i2", 2, BG_INT32, SIGNED},   {"i4", 4, BG_INT32, BITS},     {"i8", 8, BG_INT32, SIGNED},
    {"u2", 2, BG_INT32, UNSIGNED}, {"u4", 4, BG_INT32, UNSIGNED}, {"u8", 8, BG_INT32, UNSIGNED},
};

static const element *find_element(const char *description)
{
    const char order = description[0];

    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++)
        if (strcmp(description + (order != '\0'), elements[i].description) == 0 &&
            (order == '<' || order == '>' || order == '=' || (order == '|' && elements[i].size_bytes == 1)))
            return &elements[i];
    return NULL;
}

/* Converts to `dtype`, which is the element's type, or int64 for integers. Returns false if the value does not fit. */
static bool convert(const element *e, bg_dtype dtype, uint64_t bits, void *out)
{
    const uint32_t shift = 64 - 8 * (uint32_t)e->size_bytes;
    /* Extends the sign with a mask, because C does not define the right shift of a negative value. */
    const uint64_t sign = e->size_bytes < 8 && bits >> (63 - shift) & 1 ? UINT64_MAX << (64 - shift) : 0;
    const uint64_t extended = bits | sign;
    int32_t whole;

    if (dtype == BG_INT64) {
        memcpy(out, e->conversion == SIGNED ? &extended : &bits, sizeof bits);
        return e->conversion == SIGNED || bits <= INT64_MAX;
    }
    switch (e->conversion) {
    case BITS: /* the value in `bits`, stored in the machine's byte order */
        if (e->size_bytes == 8)
            memcpy(out, &bits, 8);
        else if (e->size_bytes == 4)
            memcpy(out, &(uint32_t){(uint32_t)bits}, 4);
        else if (e->size_bytes == 2)
            memcpy(out, &(uint16_t){(uint16_t)bits}, 2);
        else
            *(unsigned char *)out = (unsigned char)bits;
        return true;
    case TRUTH:
        *(unsigned char *)out = (unsigned char)bits;
        return bits <= 1;
    case SIGNED:
        if (extended > INT32_MAX && extended < (uint64_t)INT32_MIN)
            return false;
        whole = extended <= INT32_MAX ? (int32_t)extended : -(int32_t)(~extended) - 1;
        break;
    default:
        if (bits > INT32_MAX)
            return false;
        whole = (int32_t)bits;
    }
    memcpy(out, &whole, sizeof whole);
    return true;
}

/* Returns the position in Fortran order, in which the first index changes fastest, of the element at position i in C
 * order. */
static size_t fortran_place(const bg_type *type, size_t i)
{
    size_t place = 0, rest = i, stride = 1;
    size_t index[BG_MAX_RANK];

    for (uint32_t d = type->rank; d-- > 0; rest /= (size_t)type->dims[d])
        index[d] = rest % (size_t)type->dims[d];
    for (uint32_t d = 0; d < type->rank; stride *= (size_t)type->dims[d], d++)
        place += index[d] * stride;
    return place;
}

/* Finds the type of the elements: int64 instead of int32 if one of the numbers needs it. */
static bg_dtype find_dtype(const reader *r, const header *h, const element *e, size_t count)
{
    const unsigned char *data = r->content + r->end;
    int32_t ignored;

    if (e->conversion != SIGNED && e->conversion != UNSIGNED)
        return e->dtype;
    for (size_t i = 0; i < count; i++)
        if (!convert(e, BG_INT32, read_bits(data + i * e->size_bytes, e->size_bytes, h->description[0] == '>'),
                     &ignored))
            return BG_INT64;
    return BG_INT32;
}

static bg_status convert_all(const reader *r, const header *h, const element *e, bg_array *out, bg_error *error)
{
    const size_t count = (size_t)bg_type_element_count(&out->type), size = bg_dtype_size_bytes(out->type.dtype);
    const unsigned char *data = r->content + r->end;
    const uint16_t one = 1;
    const bool is_big = h->description[0] == '>', is_host_little = *(const unsigned char *)&one == 1;
    const bool is_as_is = e->conversion == BITS && !is_big && is_host_little;

    if (is_as_is && !h->is_fortran) {
        memcpy(out->data, data, count * size);
        return BG_OK;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t place = h->is_fortran ? fortran_place(&out->type, i) : i;
        const uint64_t bits = read_bits(data + place * e->size_bytes, e->size_bytes, is_big);

        if (!convert(e, out->type.dtype, bits, (unsigned char *)out->data + i * size))
            return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: element %zu of type '%s' does not fit %s",
                                r->name, r->end + place * e->size_bytes, place, h->description,
                                bg_dtype_name(out->type.dtype));
    }
    return BG_OK;
}

bg_status bgi_npy_parse(const char *name, const void *content, size_t size_bytes, bg_array *out, bg_error *error)
{
    reader r = {.name = name, .content = content};
    header h = {.rank = 0};
    bg_array array = {0};
    const element *e;
    uint64_t data_bytes;
    bg_type type;
    bg_status status;

    BGI_TRY(parse_header(&r, size_bytes, &h, error));
    e = find_element(h.description);
    if (e == NULL)
        return bg_error_set(
            error, BG_ERROR_UNSUPPORTED,
            "%s: the element type is '%s' but must be a float of 16 to 64 bits, a whole number, or a bool", name,
            h.description);
    data_bytes = e->size_bytes;
    for (uint32_t d = 0; d < h.rank; d++)
        if ((data_bytes *= (uint64_t)h.dims[d]) > LARGEST_ARRAY_BYTES)
            return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: the elements take more than 2 GiB", name);
    if (data_bytes != size_bytes - r.end)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte %zu: the header promises %" PRIu64 " bytes of elements but there are %zu", name,
                            r.end, data_bytes, size_bytes - r.end);
    type = bg_type_make(e->dtype, h.rank, h.dims);
    type.dtype = find_dtype(&r, &h, e, (size_t)bg_type_element_count(&type));
    BGI_TRY(bg_array_init(&array, &type, error));
    status = convert_all(&r, &h, e, &array, error);
    if (status != BG_OK) {
        bg_array_clear(&array);
        return status;
    }
    *out = array;
    return BG_OK;
}

bg_status bg_npy_read(const char *path, bg_array *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    char *content = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, (size_t)LARGEST_ARRAY_BYTES + LARGEST_HEADER_BYTES + 64, &content, &size_bytes, error));
    status = bgi_npy_parse(path, content, size_bytes, out, error);
    free(content);
    return status;
}
