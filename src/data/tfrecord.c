/*
 * tfrecord.c: reads TFRecord files of token lists, as the PopXL GPT-3 example prepares them, as samples. A record:
 *
 *     8 bytes length n | 4 bytes checksum of them | n bytes of data | 4 bytes checksum of those
 *
 * The data are a protocol buffer (tf.train.Example), of which one list of numbers is read:
 *
 *     Example { 1: Features { 1: entry { 1: "input_ids"  2: Feature { 3: Int64List { 1: numbers, packed or not }}}}}
 *
 * An index file has a line "offset size" for each record. A record is read when its sample is requested.
 */
#include "data/tfrecord.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/file.h"
#include "core/input.h"
#include "data/dataset.h"

enum { HEADER_BYTES = 12, FRAME_BYTES = 16, MOST_INDEX_BYTES = 1 << 30 };

typedef struct place {
    uint64_t offset, length; /* offset of the record and length of its data */
} place;

typedef struct records {
    bgi_input input;
    place *places;
    size_t count, capacity;
    uint64_t longest; /* the greatest of the records' lengths */
    uint32_t sequence_length, limit;
    char *feature;
} records;

static void release_records(void *state)
{
    records *r = state;

    bgi_input_close(&r->input);
    free(r->places);
    free(r->feature);
    free(r);
}

/* ---- frames ---- */

static uint64_t read_little(const unsigned char *at, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static bg_status fail_at(const records *r, uint64_t offset, const char *what, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %" PRIu64 ": %s", r->input.name, offset, what);
}

/* Checks the header of the record at `at`, and finds the length of its data. The file has `left` bytes from the record
 * on. */
static bg_status check_header(const records *r, uint64_t offset, const unsigned char *at, uint64_t left,
                              uint64_t *out_length, bg_error *error)
{
    if (read_little(at + 8, 4) != bgi_crc32c_masked(at, 8))
        return fail_at(r, offset,
                       "the checksum of a record's length is wrong; the file is damaged, or it is not a TFRecord file",
                       error);
    *out_length = read_little(at, 8);
    if (*out_length > left - FRAME_BYTES)
        return fail_at(r, offset, "a record is longer than the file", error);
    return BG_OK;
}

static bg_status read_header(const records *r, uint64_t offset, uint64_t *out_length, bg_error *error)
{
    const uint64_t left = offset <= r->input.size_bytes ? r->input.size_bytes - offset : 0;
    unsigned char header[HEADER_BYTES];

    if (left < FRAME_BYTES)
        return fail_at(r, offset, "ends within a record", error);
    BGI_TRY(bgi_input_read(&r->input, offset, header, sizeof header, error));
    return check_header(r, offset, header, left, out_length, error);
}

static bool add_place(records *r, uint64_t offset, uint64_t length)
{
    if (!bgi_array_reserve((void **)&r->places, &r->capacity, r->count + 1, sizeof *r->places))
        return false;
    r->places[r->count++] = (place){offset, length};
    r->longest = length > r->longest ? length : r->longest;
    return true;
}

static bg_status scan_records(records *r, bg_error *error)
{
    for (uint64_t offset = 0, length; offset < r->input.size_bytes; offset += length + FRAME_BYTES) {
        BGI_TRY(read_header(r, offset, &length, error));
        if (!add_place(r, offset, length))
            return bgi_error_memory(error, "list of records", r->count * sizeof *r->places);
    }
    return BG_OK;
}

/* Reads a decimal number at *at, and moves *at after it and the following blanks; returns false if there is no number
 * or it is too large. */
static bool read_number(const char **at, const char *end, uint64_t *out)
{
    const char *begin = *at;

    for (*out = 0; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        if (*out > UINT64_MAX / 10 - 1)
            return false;
        *out = *out * 10 + (uint64_t)(**at - '0');
    }
    if (*at == begin)
        return false;
    while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r'))
        (*at)++;
    return true;
}

static bg_status read_index(records *r, const char *index, size_t index_bytes, bg_error *error)
{
    const char *at = index, *end = index + index_bytes;

    for (size_t line = 1; at < end; line++) {
        uint64_t offset, size, length;

        if (!read_number(&at, end, &offset) || !read_number(&at, end, &size) || (at < end && *at++ != '\n'))
            return bg_error_set(error, BG_ERROR_PARSE, "%s: line %zu of the index is not \"OFFSET SIZE\"",
                                r->input.name, line);
        BGI_TRY(read_header(r, offset, &length, error));
        if (length + FRAME_BYTES != size)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: line %zu of the index says %" PRIu64 " bytes, but the record has %" PRIu64
                                "; this is the index of another file",
                                r->input.name, line, size, length + FRAME_BYTES);
        if (!add_place(r, offset, length))
            return bgi_error_memory(error, "list of records", r->count * sizeof *r->places);
    }
    return BG_OK;
}

/* ---- protocol buffers ---- */

typedef struct span {
    const unsigned char *at, *end;
} span;

static bool read_varint(span *s, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        const unsigned char byte = *s->at++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* Reads the next field: its number and kind, and its content as bytes or as a number in `value`. Returns false if there
 * is no valid field. */
static bool read_field(span *s, uint32_t *out_number, uint32_t *out_wire, span *out_bytes, uint64_t *value)
{
    uint64_t key;
    size_t skipped;

    if (!read_varint(s, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return false;
    *out_number = (uint32_t)(key >> 3);
    *out_wire = (uint32_t)(key & 7);
    if (*out_wire == WIRE_VARINT)
        return read_varint(s, value);
    if (*out_wire == WIRE_BYTES) {
        if (!read_varint(s, value) || *value > (uint64_t)(s->end - s->at))
            return false;
        *out_bytes = (span){s->at, s->at + *value};
        s->at += *value;
        return true;
    }
    skipped = *out_wire == WIRE_64 ? 8 : *out_wire == WIRE_32 ? 4 : SIZE_MAX;
    if (skipped > (size_t)(s->end - s->at))
        return false;
    s->at += skipped;
    return true;
}

/* Finds the last field of bytes with this number, because protocol buffers ignore earlier ones. Sets *out_found to
 * whether there is one. Returns false if the bytes are invalid. */
static bool find_bytes(span s, uint32_t number, span *out, bool *out_found)
{
    *out_found = false;
    while (s.at < s.end) {
        uint32_t its_number, wire;
        uint64_t value;
        span bytes = {NULL, NULL};

        if (!read_field(&s, &its_number, &wire, &bytes, &value))
            return false;
        if (its_number == number && wire == WIRE_BYTES) {
            *out = bytes;
            *out_found = true;
        }
    }
    return true;
}

/* Finds the list of numbers in one entry of the map, if the entry's key is the feature. */
static bool read_entry(const records *r, span entry, span *out, bool *out_found)
{
    const size_t length = strlen(r->feature);
    span key, feature;
    bool has_key, has_feature;

    *out_found = false;
    if (!find_bytes(entry, 1, &key, &has_key) || !find_bytes(entry, 2, &feature, &has_feature))
        return false;
    if (!has_key || !has_feature || (size_t)(key.end - key.at) != length || memcmp(key.at, r->feature, length) != 0)
        return true;
    return find_bytes(feature, 3, out, out_found);
}

/* Finds the Int64List of the feature in an example; *out_found is false if there is none. */
static bool find_list(const records *r, span example, span *out, bool *out_found)
{
    span features = {NULL, NULL};
    bool has_features;

    *out_found = false;
    if (!find_bytes(example, 1, &features, &has_features))
        return false;
    while (has_features && features.at < features.end && !*out_found) {
        uint32_t number, wire;
        uint64_t value;
        span entry;

        if (!read_field(&features, &number, &wire, &entry, &value))
            return false;
        if (number == 1 && wire == WIRE_BYTES && !read_entry(r, entry, out, out_found))
            return false;
    }
    return true;
}

/* Reads the first `most` numbers of a list, packed or not. Returns the number of all its numbers, or -1 if the list is
 * invalid. A number is two's complement in 64 bits; numbers that are not tokens are returned as UINT32_MAX. */
static int64_t read_list(span list, uint32_t *out, int64_t most)
{
    int64_t count = 0;

    while (list.at < list.end) {
        uint32_t number, wire;
        uint64_t value = 0;
        span packed = {NULL, NULL};

        if (!read_field(&list, &number, &wire, &packed, &value))
            return -1;
        if (number != 1)
            continue;
        if (wire == WIRE_VARINT) {
            if (count < most)
                out[count] = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
            count++;
        }
        while (wire == WIRE_BYTES && packed.at < packed.end) {
            if (!read_varint(&packed, &value))
                return -1;
            if (count < most)
                out[count] = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
            count++;
        }
    }
    return count;
}

/* ---- samples ---- */

/* Returns the bytes of a whole record, which are in memory or are read to `room` (r->longest + FRAME_BYTES bytes). */
static bg_status read_frame(const records *r, const place *where, void *room, const unsigned char **out,
                            bg_error *error)
{
    if (r->input.content != NULL) {
        *out = (const unsigned char *)r->input.content + where->offset;
        return BG_OK;
    }
    *out = room;
    return bgi_input_read(&r->input, where->offset, room, (size_t)where->length + FRAME_BYTES, error);
}

/* Reads the first `most` tokens of a record to `out`; *out_count is the number that the record has. */
static bg_status read_record(const records *r, const place *where, void *room, uint32_t *out, int64_t most,
                             int64_t *out_count, bg_error *error)
{
    const unsigned char *frame = NULL, *data;
    uint64_t length = 0;
    span list = {NULL, NULL};
    bool found;

    BGI_TRY(read_frame(r, where, room, &frame, error));
    BGI_TRY(check_header(r, where->offset, frame, where->length + FRAME_BYTES, &length, error));
    data = frame + HEADER_BYTES;
    if (length != where->length || read_little(data + length, 4) != bgi_crc32c_masked(data, (size_t)length))
        return fail_at(r, where->offset, "the checksum of a record's data is wrong; the file is damaged", error);
    if (!find_list(r, (span){data, data + length}, &list, &found))
        return fail_at(r, where->offset, "the data of a record are not a tf.train.Example", error);
    if (!found)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %" PRIu64 ": a record has no list of int64 named `%s`",
                            r->input.name, where->offset, r->feature);
    *out_count = read_list(list, out, most);
    return *out_count >= 0 ? BG_OK : fail_at(r, where->offset, "a record's list of numbers is damaged", error);
}

static bg_status gather_records(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                                unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const records *r = dataset->state;
    const int64_t wanted = (int64_t)r->sequence_length + 1;
    uint32_t *out = (uint32_t *)(void *)tensors[0];
    (void)epoch;

    for (size_t i = 0; i < count; i++, out += wanted) {
        const uint64_t offset = r->places[indices[i]].offset;
        int64_t has = 0;

        *out_failed = i;
        BGI_TRY(read_record(r, &r->places[indices[i]], scratch, out, wanted, &has, error));
        if (has < wanted)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: byte %" PRIu64 ": a record has %" PRId64 " tokens but must have at least %" PRId64
                                ": a sequence and the token after it",
                                r->input.name, offset, has, wanted);
        for (int64_t t = 0; t < wanted; t++)
            if (out[t] >= r->limit)
                return bg_error_set(error, BG_ERROR_PARSE,
                                    "%s: byte %" PRIu64 ": token %" PRId64
                                    " of the record is out of range; it must be 0 to %" PRIu32,
                                    r->input.name, offset, t, r->limit - 1);
    }
    return BG_OK;
}

uint64_t bgi_tfrecord_length(const bg_dataset *dataset)
{
    const records *r = dataset->state;
    void *room = malloc((size_t)r->longest + FRAME_BYTES);
    int64_t count = 0;

    if (room == NULL || read_record(r, &r->places[0], room, NULL, 0, &count, NULL) != BG_OK)
        count = 0;
    free(room);
    return (uint64_t)count;
}

static bg_status read_tokens(const records *r, uint64_t index, void *room, bg_token_list *out, bg_error *error)
{
    int64_t count = 0;

    out->count = 0;
    BGI_TRY(read_record(r, &r->places[index], room, NULL, 0, &count, error));
    if (!bgi_array_reserve((void **)&out->items, &out->capacity, (size_t)count, sizeof *out->items))
        return bgi_error_memory(error, "tokens", (size_t)count * sizeof *out->items);
    BGI_TRY(read_record(r, &r->places[index], room, out->items, (int64_t)out->capacity, &count, error));
    out->count =
        (size_t)count < out->capacity ? (size_t)count : out->capacity; /* the file may have changed in between */
    return BG_OK;
}

bg_status bgi_tfrecord_read(const bg_dataset *dataset, uint64_t index, bg_token_list *out, bg_error *error)
{
    const records *r = dataset->state;
    void *room = malloc((size_t)r->longest + FRAME_BYTES);
    const bg_status status = room != NULL ? read_tokens(r, index, room, out, error)
                                          : bgi_error_memory(error, "a record", (size_t)r->longest + FRAME_BYTES);

    free(room);
    return status;
}

/* ---- files ---- */

static bg_status check_options(const char *name, const bg_tokens_options *options, bg_error *error)
{
    if (options->sequence_length == 0 || options->sequence_length > INT32_MAX - 1)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: sequence_length is %" PRIu32 " but must be 1 to %d", name,
                            options->sequence_length, INT32_MAX - 1);
    if (options->vocabulary_size > (uint32_t)INT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: vocabulary_size is %" PRIu32 " but must be at most %d", name,
                            options->vocabulary_size, INT32_MAX);
    if (options->token_bytes != 0 || options->stride != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: %s is %" PRIu32 ", but the samples of a TFRecord file are its records; leave it at 0",
                            name, options->token_bytes != 0 ? "token_bytes" : "stride",
                            options->token_bytes != 0 ? options->token_bytes : options->stride);
    return BG_OK;
}

static bg_status open_records(const char *index, size_t index_bytes, const bg_tokens_options *options, records *r,
                              bg_error *error)
{
    r->feature = strdup(options->feature != NULL ? options->feature : "input_ids");
    if (r->feature == NULL)
        return bgi_error_memory(error, "a data set", sizeof *r);
    r->sequence_length = options->sequence_length;
    r->limit = options->vocabulary_size > 0 ? options->vocabulary_size : (uint32_t)INT32_MAX + 1;
    BGI_TRY(index != NULL ? read_index(r, index, index_bytes, error) : scan_records(r, error));
    if (r->count == 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: has no records", r->input.name);
    return BG_OK;
}

/* Makes the data set of a file. Takes ownership of the input, even after an error. */
static bg_status make_dataset(bgi_input *input, const char *index, size_t index_bytes, const bg_tokens_options *options,
                              bg_dataset **out, bg_error *error)
{
    records *r = calloc(1, sizeof *r);
    bg_dataset *dataset = NULL;
    bg_type type;
    bg_status status;

    if (r == NULL) {
        bgi_input_close(input);
        return bgi_error_memory(error, "a data set", sizeof *r);
    }
    r->input = *input;
    BGI_TRY_CLEANUP(check_options(input->name, options, error));
    type = bg_vector(BG_INT32, (int64_t)options->sequence_length + 1);
    BGI_TRY_CLEANUP(open_records(index, index_bytes, options, r, error));
    BGI_TRY_CLEANUP(bgi_dataset_allocate(r->count, 1, &type, &dataset, error));
    if (r->input.content == NULL)
        dataset->scratch_bytes = ((size_t)r->longest + FRAME_BYTES + 63) / 64 * 64;
    dataset->state = r;
    dataset->release = release_records;
    dataset->gather = gather_records;
    *out = dataset;
    return BG_OK;
cleanup:
    release_records(r);
    return status;
}

bg_status bgi_tfrecord_parse(const char *name, const void *content, size_t size_bytes, const char *index,
                             size_t index_bytes, const bg_tokens_options *options, bg_dataset **out, bg_error *error)
{
    bgi_input input;

    BGI_TRY(bgi_input_over(&input, name, content, size_bytes, error));
    return make_dataset(&input, index, index_bytes, options, out, error);
}

/* Reads the index of a file as text; *out is NULL if there is none. */
static bg_status load_index(const char *path, char **out, size_t *out_bytes, bg_error *error)
{
    char *name = bgi_tfrecord_index_path(path);
    bg_status status = BG_OK;

    if (name == NULL)
        return bgi_error_memory(error, "path", strlen(path));
    if (bgi_file_exists(name))
        status = bgi_file_load(name, MOST_INDEX_BYTES, out, out_bytes, error);
    free(name);
    return status;
}

bg_status bg_dataset_open_tfrecord(const char *path, const bg_tokens_options *options, bg_dataset **out,
                                   bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_tokens_options", NULL, error));

    bgi_input input = {.name = NULL};
    char *index = NULL;
    size_t index_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_input_open(&input, path, error));
    status = load_index(path, &index, &index_bytes, error);
    if (status == BG_OK)
        status = make_dataset(&input, index, index_bytes, options, out, error);
    else
        bgi_input_close(&input);
    free(index);
    return status;
}
