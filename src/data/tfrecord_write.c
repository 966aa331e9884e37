/*
 * tfrecord_write.c: writes TFRecord files of token lists with their index, as the PopXL GPT-3 example prepares them.
 * The head of tfrecord.c shows the format. Numbers are packed, which is how protocol buffers write a list of int64.
 */
#include "data/tfrecord.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/error.h"

/* MOST_FRAME_BYTES limits what surrounds the numbers of a record: lengths, checksums, the name, and tags with lengths
 * of at most 10 bytes each. */
enum { MOST_NUMBER_BYTES = 5, MOST_FRAME_BYTES = 128, HEADER_BYTES = 12, SUM_BYTES = 4 };

enum { TAG_EXAMPLE_FEATURES = 0x0a, TAG_ENTRY = 0x0a, TAG_KEY = 0x0a, TAG_FEATURE = 0x12, TAG_INT64_LIST = 0x1a };
enum { TAG_NUMBERS = 0x0a };

static const char feature_name[] = "input_ids";

static size_t varint_bytes(uint64_t value)
{
    size_t bytes = 1;

    for (; value >= 0x80; value >>= 7)
        bytes++;
    return bytes;
}

static unsigned char *put_varint(unsigned char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (unsigned char)(value | 0x80);
    *at++ = (unsigned char)value;
    return at;
}

static unsigned char *put_tag(unsigned char *at, int tag, size_t size_bytes)
{
    *at++ = (unsigned char)tag;
    return put_varint(at, size_bytes);
}

static unsigned char *put_little(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

/* Returns the number of bytes of a tag, a length, and the content of that length. */
static size_t tagged_bytes(size_t size_bytes)
{
    return 1 + varint_bytes(size_bytes) + size_bytes;
}

/* Writes the tf.train.Example of the tokens; returns its end. */
static unsigned char *put_example(unsigned char *at, const uint32_t *tokens, size_t count)
{
    const size_t name_bytes = sizeof feature_name - 1;
    size_t numbers = 0, list, feature, entry;

    for (size_t i = 0; i < count; i++)
        numbers += varint_bytes(tokens[i]);
    list = tagged_bytes(numbers);
    feature = tagged_bytes(list);
    entry = tagged_bytes(name_bytes) + tagged_bytes(feature);
    at = put_tag(at, TAG_EXAMPLE_FEATURES, tagged_bytes(entry));
    at = put_tag(at, TAG_ENTRY, entry);
    at = put_tag(at, TAG_KEY, name_bytes);
    memcpy(at, feature_name, name_bytes);
    at = put_tag(at + name_bytes, TAG_FEATURE, feature);
    at = put_tag(at, TAG_INT64_LIST, list);
    at = put_tag(at, TAG_NUMBERS, numbers);
    for (size_t i = 0; i < count; i++)
        at = put_varint(at, tokens[i]);
    return at;
}

char *bgi_tfrecord_index_path(const char *path)
{
    static const char extension[] = ".tfrecord", index_extension[] = ".index";
    const size_t length = strlen(path), cut = sizeof extension - 1;
    const bool has_extension = length > cut && strcmp(path + length - cut, extension) == 0;
    char *name = malloc(length + sizeof index_extension);

    if (name == NULL)
        return NULL;
    memcpy(name, path, length);
    memcpy(name + length, index_extension, sizeof index_extension);
    if (has_extension && !bgi_file_exists(name))
        memcpy(name + length - cut, index_extension, sizeof index_extension);
    return name;
}

bg_status bgi_tfrecord_writer_begin(bgi_tfrecord_writer *writer, const char *path, size_t most_tokens, bg_error *error)
{
    bg_status status = BG_OK;

    *writer = (bgi_tfrecord_writer){.offset = 0};
    writer->buffer = malloc(most_tokens * MOST_NUMBER_BYTES + MOST_FRAME_BYTES);
    writer->index_path = bgi_tfrecord_index_path(path);
    if (writer->buffer == NULL || writer->index_path == NULL)
        status = bgi_error_memory(error, "a record", most_tokens * MOST_NUMBER_BYTES + MOST_FRAME_BYTES);
    if (status == BG_OK)
        status = bgi_file_writer_begin(&writer->records, path, error);
    if (status == BG_OK)
        status = bgi_file_writer_begin(&writer->index, writer->index_path, error);
    if (status != BG_OK)
        bgi_tfrecord_writer_abandon(writer, error);
    return status;
}

void bgi_tfrecord_write(bgi_tfrecord_writer *writer, const uint32_t *tokens, size_t count)
{
    unsigned char *const record = writer->buffer, *const data = record + HEADER_BYTES;
    unsigned char *end = put_example(data, tokens, count);
    const uint64_t data_bytes = (uint64_t)(end - data), size_bytes = data_bytes + HEADER_BYTES + SUM_BYTES;
    char line[48];

    put_little(record, data_bytes, 8);
    put_little(record + 8, bgi_crc32c_masked(record, 8), SUM_BYTES);
    put_little(end, bgi_crc32c_masked(data, (size_t)data_bytes), SUM_BYTES);
    bgi_file_write(&writer->records, record, (size_t)size_bytes);
    snprintf(line, sizeof line, "%" PRIu64 " %" PRIu64 "\n", writer->offset, size_bytes);
    bgi_file_write(&writer->index, line, strlen(line));
    writer->offset += size_bytes;
}

/* Commits the records and then the index, because readers do not need an index, and refuse one that belongs to other
 * records. */
bg_status bgi_tfrecord_writer_commit(bgi_tfrecord_writer *writer, bg_error *error)
{
    bg_status status = bgi_file_writer_commit(&writer->records, error);

    if (status == BG_OK)
        status = bgi_file_writer_commit(&writer->index, error);
    bgi_tfrecord_writer_abandon(writer, error);
    return status;
}

void bgi_tfrecord_writer_abandon(bgi_tfrecord_writer *writer, bg_error *error)
{
    bgi_file_writer_abandon(&writer->records, error);
    bgi_file_writer_abandon(&writer->index, error);
    free(writer->index_path);
    free(writer->buffer);
    writer->index_path = NULL;
    writer->buffer = NULL;
}
