/*
 * test_scalars.c: event files are read back byte by byte according to their formats (TFRecord, protocol buffers).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/file.h"
#include "profile/scalars.h"
#include "support/folder.h"

typedef struct cursor {
    const unsigned char *at, *end;
} cursor;

static uint64_t take(cursor *c, int bytes)
{
    uint64_t value = 0;

    assert_true(c->end - c->at >= bytes);
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)*c->at++ << 8 * i;
    return value;
}

/* Checks both checksums of the next record and returns its data. */
static cursor take_record(cursor *c)
{
    const unsigned char *begin = c->at;
    const uint64_t length = take(c, 8);
    cursor data;

    assert_int_equal(take(c, 4), bgi_crc32c_masked(begin, 8));
    assert_true((uint64_t)(c->end - c->at) >= length + 4);
    data = (cursor){c->at, c->at + length};
    c->at += length;
    assert_int_equal(take(c, 4), bgi_crc32c_masked(data.at, length));
    return data;
}

static uint64_t take_varint(cursor *c)
{
    uint64_t value = 0;

    for (int shift = 0;; shift += 7) {
        const uint64_t byte = take(c, 1);

        value |= (byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

static double take_double(cursor *c)
{
    const uint64_t bits = take(c, 8);
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static float take_float(cursor *c)
{
    const uint32_t bits = (uint32_t)take(c, 4);
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns the bytes of field `number`. */
static cursor take_bytes(cursor *c, uint32_t number)
{
    cursor inner;
    uint64_t length;

    assert_int_equal(take_varint(c), number << 3 | 2);
    length = take_varint(c);
    assert_true((uint64_t)(c->end - c->at) >= length);
    inner = (cursor){c->at, c->at + length};
    c->at += length;
    return inner;
}

static void take_event(cursor *c, double wall_time, uint64_t step)
{
    assert_int_equal(take_varint(c), 1 << 3 | 1);
    assert_true(take_double(c) == wall_time);
    assert_int_equal(take_varint(c), 2 << 3);
    assert_int_equal(take_varint(c), step);
}

static void test_reads_back(void **state)
{
    const bgi_scalar scalars[] = {{"loss", 2.5}, {"grad_norm", 1e-3}, {"infinite", INFINITY}};
    char folder[TEST_FOLDER_BYTES], *content = NULL, *path;
    char inner[TEST_FOLDER_BYTES + 16];
    bgi_event_file file = {.stream = NULL}, other = {.stream = NULL};
    bg_error error = {0};
    size_t size_bytes = 0;
    cursor c, event;
    (void)state;

    test_folder_create(folder);
    snprintf(inner, sizeof inner, "%s/board", folder);
    if (bgi_event_file_open(&file, inner, 1700000000.25, 42, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_non_null(strstr(file.path, "/events.out.tfevents.1700000000.brigade.42"));
    path = strdup(file.path);
    assert_int_equal(bgi_event_file_open(&other, inner, 1700000000.25, 42, &error), BG_ERROR_IO); /* it exists */
    assert_int_equal(bgi_event_file_add(&file, 300, 1700000001.5, scalars, 3, NULL), BG_OK);
    assert_int_equal(bgi_file_load(path, 1 << 20, &content, &size_bytes, NULL),
                     BG_OK); /* readable before the writer is closed */
    assert_int_equal(bgi_event_file_close(&file, NULL), BG_OK);

    c = (cursor){(unsigned char *)content, (unsigned char *)content + size_bytes};
    event = take_record(&c);
    take_event(&event, 1700000000.25, 0);
    event = take_bytes(&event, 3);
    assert_int_equal(event.end - event.at, 13);
    assert_memory_equal(event.at, "brain.Event:2", 13);
    event = take_record(&c);
    assert_true(c.at == c.end);
    take_event(&event, 1700000001.5, 300);
    event = take_bytes(&event, 5);
    for (int i = 0; i < 3; i++) {
        cursor value = take_bytes(&event, 1), tag = take_bytes(&value, 1);

        assert_int_equal(tag.end - tag.at, strlen(scalars[i].tag));
        assert_memory_equal(tag.at, scalars[i].tag, strlen(scalars[i].tag));
        assert_int_equal(take_varint(&value), 2 << 3 | 5);
        assert_true(take_float(&value) == (float)scalars[i].value);
        assert_true(value.at == value.end);
    }
    assert_true(event.at == event.end);
    free(content);
    free(path);
    test_folder_remove(folder);
}

/* Writes the largest step, and as many scalars as possible with tags that are too long; one more is an error. */
static void test_most(void **state)
{
    bgi_scalar scalars[BGI_SCALARS_MOST + 1];
    char folder[TEST_FOLDER_BYTES], tag[2 * BGI_SCALAR_TAG_BYTES], *content = NULL;
    bgi_event_file file = {.stream = NULL};
    bg_error error = {0};
    size_t size_bytes = 0;
    cursor c, event;
    (void)state;

    memset(tag, 'x', sizeof tag);
    tag[sizeof tag - 1] = '\0';
    for (int i = 0; i <= BGI_SCALARS_MOST; i++)
        scalars[i] = (bgi_scalar){tag, i};
    test_folder_create(folder);
    assert_int_equal(bgi_event_file_open(&file, folder, 0.0, 0, NULL), BG_OK);
    assert_int_equal(bgi_event_file_add(&file, UINT64_MAX, 1.0, scalars, BGI_SCALARS_MOST + 1, &error),
                     BG_ERROR_INVALID);
    assert_int_equal(bgi_event_file_add(&file, UINT64_MAX, 1.0, scalars, BGI_SCALARS_MOST, NULL), BG_OK);
    assert_int_equal(bgi_file_load(file.path, 1 << 20, &content, &size_bytes, NULL), BG_OK);
    c = (cursor){(unsigned char *)content, (unsigned char *)content + size_bytes};
    take_record(&c);
    event = take_record(&c);
    take_event(&event, 1.0, UINT64_MAX);
    event = take_bytes(&event, 5);
    for (int i = 0; i < BGI_SCALARS_MOST; i++) {
        cursor value = take_bytes(&event, 1), kept = take_bytes(&value, 1);

        assert_int_equal(kept.end - kept.at, BGI_SCALAR_TAG_BYTES);
    }
    free(content);
    bgi_event_file_close(&file, NULL);
    test_folder_remove(folder);
}

static void test_errors(void **state)
{
    bgi_event_file file = {.stream = NULL};
    bg_error error = {0};
    (void)state;

    assert_int_equal(bgi_event_file_open(&file, "/dev/null/board", 0.0, 0, &error), BG_ERROR_IO);
    assert_null(file.stream);
    bg_error_clear(&error);
    file = (bgi_event_file){.stream = fopen("/dev/full", "w"), .path = strdup("full")};
    if (file.stream != NULL) {
        assert_int_equal(bgi_event_file_add(&file, 1, 0.0, &(bgi_scalar){"a", 1.0}, 1, &error), BG_ERROR_IO);
        assert_non_null(strstr(error.message, "full: cannot write: "));
    }
    bgi_event_file_close(&file, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_back), cmocka_unit_test(test_most),
                                       cmocka_unit_test(test_errors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
