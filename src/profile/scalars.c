/*
 * scalars.c: writes TensorBoard's event files. They are TFRecord frames (see data/tfrecord.c), each with a protocol
 * buffer:
 *
 *     Event { 1: double wall_time  2: int64 step  3: "brigade"  5: Summary { 1: Value { 1: tag  2: float } ... }}
 *
 * The first event has the format's version ("brain.Event:2") instead of a summary. Records are built on the stack, so
 * nothing is allocated after opening.
 */
#include "profile/scalars.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

enum { VALUE_BYTES = BGI_SCALAR_TAG_BYTES + 16, EVENT_BYTES = 64 + BGI_SCALARS_MOST * (VALUE_BYTES + 4) };

typedef struct buffer {
    unsigned char bytes[EVENT_BYTES];
    size_t length;
} buffer;

static void put_varint(buffer *b, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        b->bytes[b->length++] = (unsigned char)(value | 0x80);
    b->bytes[b->length++] = (unsigned char)value;
}

static void put_little(buffer *b, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++)
        b->bytes[b->length++] = (unsigned char)(bits >> 8 * i);
}

/* Writes a field's number with its kind: 0 varint, 1 eight bytes, 2 a length and bytes, 5 four bytes. */
static void put_key(buffer *b, uint32_t number, uint32_t kind)
{
    put_varint(b, number << 3 | kind);
}

static void put_bytes(buffer *b, uint32_t number, const void *data, size_t size_bytes)
{
    put_key(b, number, 2);
    put_varint(b, size_bytes);
    memcpy(b->bytes + b->length, data, size_bytes);
    b->length += size_bytes;
}

static void begin_event(buffer *b, double wall_time_s, uint64_t step)
{
    uint64_t bits;

    b->length = 0;
    memcpy(&bits, &wall_time_s, sizeof bits);
    put_key(b, 1, 1);
    put_little(b, bits, 8);
    put_key(b, 2, 0);
    put_varint(b, step);
}

static void put_scalar(buffer *summary, const bgi_scalar *scalar)
{
    const size_t length = strlen(scalar->tag);
    const float value = (float)scalar->value;
    uint32_t bits;
    buffer b;

    b.length = 0;
    memcpy(&bits, &value, sizeof bits);
    put_bytes(&b, 1, scalar->tag, length < BGI_SCALAR_TAG_BYTES ? length : BGI_SCALAR_TAG_BYTES);
    put_key(&b, 2, 5);
    put_little(&b, bits, 4);
    put_bytes(summary, 1, b.bytes, b.length);
}

static bg_status report(const bgi_event_file *file, int error_number, bg_error *error)
{
    char text[BGI_ERRNO_TEXT_BYTES];

    return bg_error_set(error, BG_ERROR_IO, "%s: cannot write: %s", file->path, bgi_errno_text(error_number, text));
}

static bg_status write_record(bgi_event_file *file, const buffer *event, bg_error *error)
{
    buffer header = {.length = 0}, footer = {.length = 0};
    bool good;

    put_little(&header, event->length, 8);
    put_little(&header, bgi_crc32c_masked(header.bytes, 8), 4);
    put_little(&footer, bgi_crc32c_masked(event->bytes, event->length), 4);
    errno = 0;
    good = fwrite(header.bytes, 1, header.length, file->stream) == header.length &&
           fwrite(event->bytes, 1, event->length, file->stream) == event->length &&
           fwrite(footer.bytes, 1, footer.length, file->stream) == footer.length && fflush(file->stream) == 0;
    return good ? BG_OK : report(file, errno, error);
}

bg_status bgi_event_file_open(bgi_event_file *file, const char *folder, double wall_time_s, uint64_t unique,
                              bg_error *error)
{
    static const char version[] = "brain.Event:2";
    bgi_event_file opened = {.stream = NULL};
    bgi_string path = {0};
    buffer event;
    bg_status status;

    BGI_TRY(bgi_folder_create(folder, error));
    bgi_string_add(&path, "%s/events.out.tfevents.%010" PRIu64 ".brigade.%" PRIu64, folder, (uint64_t)wall_time_s,
                   unique);
    BGI_TRY(bgi_string_finish(&path, &opened.path, error));
    opened.stream = fopen(opened.path, "wbx");
    if (opened.stream == NULL) {
        status = report(&opened, errno, error);
        free(opened.path);
        return status;
    }
    begin_event(&event, wall_time_s, 0);
    put_bytes(&event, 3, version, sizeof version - 1);
    status = write_record(&opened, &event, error);
    if (status != BG_OK)
        bgi_event_file_close(&opened, NULL);
    else
        *file = opened;
    return status;
}

bg_status bgi_event_file_add(bgi_event_file *file, uint64_t step, double wall_time_s, const bgi_scalar *scalars,
                             uint32_t count, bg_error *error)
{
    buffer event, summary = {.length = 0};

    if (count > BGI_SCALARS_MOST)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: a step has %u numbers but may have at most %d", file->path,
                            count, BGI_SCALARS_MOST);
    for (uint32_t i = 0; i < count; i++)
        put_scalar(&summary, &scalars[i]);
    begin_event(&event, wall_time_s, step);
    put_bytes(&event, 5, summary.bytes, summary.length);
    return write_record(file, &event, error);
}

bg_status bgi_event_file_close(bgi_event_file *file, bg_error *error)
{
    bg_status status = BG_OK;

    errno = 0;
    if (file->stream != NULL && fclose(file->stream) != 0)
        status = report(file, errno, error);
    free(file->path);
    *file = (bgi_event_file){.stream = NULL};
    return status;
}
