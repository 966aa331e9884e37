/*
 * test_tfrecord.c: TFRecord files of token lists: as other programs write them, with and without an index, damaged
 * anywhere, too short or too long. Files that the library writes are checked byte for byte.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/crc32c.h"
#include "core/file.h"
#include "data/dataset.h"
#include "data/tfrecord.h"
#include "support/folder.h"

typedef struct content {
    unsigned char bytes[4096];
    size_t length;
} content;

static void put(content *c, const void *data, size_t size_bytes)
{
    assert_true(c->length + size_bytes <= sizeof c->bytes);
    memcpy(c->bytes + c->length, data, size_bytes);
    c->length += size_bytes;
}

static void put_varint(content *c, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put(c, &(unsigned char){(unsigned char)(value | 0x80)}, 1);
    put(c, &(unsigned char){(unsigned char)value}, 1);
}

static void put_field(content *c, uint32_t number, const void *data, size_t size_bytes)
{
    put_varint(c, number << 3 | 2);
    put_varint(c, size_bytes);
    put(c, data, size_bytes);
}

static void put_frame(content *c, const content *data)
{
    unsigned char length[8], sum[4];
    uint32_t crc;

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)data->length >> 8 * i);
    put(c, length, 8);
    crc = bgi_crc32c_masked(length, 8);
    for (int i = 0; i < 4; i++)
        sum[i] = (unsigned char)(crc >> 8 * i);
    put(c, sum, 4);
    put(c, data->bytes, data->length);
    crc = bgi_crc32c_masked(data->bytes, data->length);
    for (int i = 0; i < 4; i++)
        sum[i] = (unsigned char)(crc >> 8 * i);
    put(c, sum, 4);
}

static void put_entry(content *features, const char *name, uint32_t kind, const content *list)
{
    content feature = {.length = 0}, entry = {.length = 0};

    put_field(&feature, kind, list->bytes, list->length);
    put_field(&entry, 1, name, strlen(name));
    put_field(&entry, 2, feature.bytes, feature.length);
    put_field(features, 1, entry.bytes, entry.length);
}

/* Makes a record of tokens first, first + 1, ..., packed or one by one, between two other features. */
static void put_record(content *c, const char *name, int64_t first, int count, bool is_packed)
{
    content list = {.length = 0}, packed = {.length = 0}, features = {.length = 0}, example = {.length = 0};
    content other = {.length = 0};

    for (int i = 0; i < count; i++) {
        if (!is_packed)
            put_varint(&list, 1 << 3);
        put_varint(is_packed ? &packed : &list, (uint64_t)(first + i));
    }
    if (is_packed)
        put_field(&list, 1, packed.bytes, packed.length);
    put_field(&other, 1, "text", 4);
    put_entry(&features, "article", 1, &other);
    put_entry(&features, name, 3, &list);
    put_entry(&features, "input_idx", 3, &other);
    put_field(&example, 1, features.bytes, features.length);
    put_frame(c, &example);
}

static bg_status parse(const content *c, const char *index, uint32_t sequence_length, bg_dataset **out, bg_error *error)
{
    const bg_tokens_options options = {.sequence_length = sequence_length, .vocabulary_size = 400};

    return bgi_tfrecord_parse("file", c->bytes, c->length, index, index != NULL ? strlen(index) : 0, &options, out,
                              error);
}

/* Reads all samples, of 5 tokens each; returns the status of the first that fails. */
static bg_status read_all(const bg_dataset *dataset, int32_t *tokens, bg_error *error)
{
    bg_loader_options options = bg_loader_options_defaults();
    bg_loader *loader = NULL;
    bg_batch batch;
    bg_status status;

    options.worker_count = 0;
    assert_int_equal(bg_loader_create(dataset, &options, &loader, NULL), BG_OK);
    status = bg_loader_begin_epoch(loader, 0, error);
    while (status == BG_OK && (status = bg_loader_next(loader, &batch, error)) == BG_OK && batch.sample_count > 0) {
        memcpy(tokens, batch.tensors[0], 5 * sizeof *tokens);
        tokens += 5;
    }
    bg_loader_destroy(loader);
    return status;
}

static void expect_tokens(const bg_dataset *dataset, const int32_t *firsts, uint64_t count)
{
    int32_t tokens[5 * 8];
    bg_error error = {0};

    assert_int_equal(bg_dataset_sample_count(dataset), count);
    if (read_all(dataset, tokens, &error) != BG_OK)
        fail_msg("%s", error.message);
    for (uint64_t i = 0; i < count; i++)
        for (int t = 0; t < 5; t++)
            assert_int_equal(tokens[5 * i + (uint64_t)t], firsts[i] + t);
}

static content three_records(void)
{
    content c = {.length = 0};

    put_record(&c, "input_ids", 10, 5, true);
    put_record(&c, "input_ids", 200, 7, false);
    put_record(&c, "input_ids", 30, 40, true);
    return c;
}

static void test_records(void **state)
{
    const content c = three_records();
    bg_dataset *dataset = NULL;
    bg_error error = {0};
    (void)state;

    if (parse(&c, NULL, 4, &dataset, &error) != BG_OK)
        fail_msg("%s", error.message);
    expect_tokens(dataset, (const int32_t[]){10, 200, 30}, 3);
    assert_int_equal(bgi_tfrecord_length(dataset), 5);
    bg_dataset_destroy(dataset);
}

/* The data set has the records that the index has, in the index's order. */
static void test_index(void **state)
{
    content c = three_records(), one = {.length = 0};
    bg_dataset *dataset = NULL;
    char index[128], folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 16];
    const bg_tokens_options options = {.sequence_length = 4};
    bg_error error = {0};
    size_t first, second;
    (void)state;

    put_record(&one, "input_ids", 10, 5, true);
    first = one.length;
    put_record(&one, "input_ids", 200, 7, false);
    second = one.length - first;
    snprintf(index, sizeof index, "%zu %zu\n0 %zu\n", first, second, first);
    if (parse(&c, index, 4, &dataset, &error) != BG_OK)
        fail_msg("%s", error.message);
    expect_tokens(dataset, (const int32_t[]){200, 10}, 2);
    bg_dataset_destroy(dataset);

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/a.tfrecord", folder);
    assert_int_equal(bgi_file_save(path, c.bytes, c.length, NULL), BG_OK);
    assert_int_equal(bg_dataset_open_tfrecord(path, &options, &dataset, NULL), BG_OK);
    expect_tokens(dataset, (const int32_t[]){10, 200, 30}, 3);
    bg_dataset_destroy(dataset);
    snprintf(path, sizeof path, "%s/a.index", folder);
    assert_int_equal(bgi_file_save(path, index, strlen(index), NULL), BG_OK);
    snprintf(path, sizeof path, "%s/a.tfrecord", folder);
    assert_int_equal(bg_dataset_open_tfrecord(path, &options, &dataset, NULL), BG_OK);
    expect_tokens(dataset, (const int32_t[]){200, 10}, 2);
    bg_dataset_destroy(dataset);
    test_folder_remove(folder);
}

static void refuse(const content *c, const char *index, const char *words)
{
    bg_dataset *dataset = NULL;
    bg_error error = {0};

    assert_int_equal(parse(c, index, 4, &dataset, &error), BG_ERROR_PARSE);
    if (strstr(error.message, words) == NULL || strncmp(error.message, "file: ", 6) != 0)
        fail_msg("`%s` does not say `%s`", error.message, words);
}

static void refuse_sample(const content *c, const char *words)
{
    bg_dataset *dataset = NULL;
    int32_t tokens[5 * 8];
    bg_error error = {0};

    assert_int_equal(parse(c, NULL, 4, &dataset, &error), BG_OK);
    assert_int_equal(read_all(dataset, tokens, &error), BG_ERROR_PARSE);
    if (strstr(error.message, words) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, words);
    bg_dataset_destroy(dataset);
}

static void test_wrong_content(void **state)
{
    content c = {.length = 0}, example = {.length = 0};
    (void)state;

    refuse(&c, NULL, "has no records");
    put_record(&c, "input_ids", 1, 4, true);
    refuse_sample(&c, "a record has 4 tokens but must have at least 5: a sequence and the token after it");
    c.length = 0;
    put_record(&c, "labels", 1, 5, true);
    refuse_sample(&c, "a record has no list of int64 named `input_ids`");
    c.length = 0;
    put_record(&c, "input_ids", 396, 5, true);
    refuse_sample(&c, "token 4 of the record is out of range; it must be 0 to 399");
    c.length = 0;
    put_record(&c, "input_ids", -2, 5, true);
    refuse_sample(&c, "token 0 of the record is out of range; it must be 0 to 399");
    c.length = 0;
    put_field(&example, 1, "\x0a\x7f", 2);
    put_frame(&c, &example);
    refuse_sample(&c, "the data of a record are not a tf.train.Example");

    c = three_records();
    refuse(&c, "0 1\n", "line 1 of the index says 1 bytes, but the record has ");
    refuse(&c, "x\n", "line 1 of the index is not \"OFFSET SIZE\"");
    refuse(&c, "5 60\n", "the checksum of a record's length is wrong");
    refuse(&c, "999999999999999999999 60\n", "line 1 of the index is no");
    refuse(&c, "100000 60\n", "ends within a record");
    refuse(&c, "", "has no records");
}

/* Any changed byte is detected by a checksum, and any truncation is reported. */
static void test_damage(void **state)
{
    const content good = three_records();
    (void)state;

    for (size_t i = 0; i < good.length; i++) {
        content c = good;
        bg_dataset *dataset = NULL;
        int32_t tokens[5 * 8];
        bg_error error = {0};
        bg_status status;

        c.bytes[i] ^= (unsigned char)(1 + i % 255);
        status = parse(&c, NULL, 4, &dataset, &error);
        if (status == BG_OK)
            status = read_all(dataset, tokens, &error);
        if (status != BG_ERROR_PARSE)
            fail_msg("a change of byte %zu is not seen", i);
        bg_dataset_destroy(dataset);
        c = good;
        c.length = i;
        dataset = NULL;
        if (parse(&c, NULL, 4, &dataset, &error) == BG_OK) /* at the end of a record */
            assert_true(bg_dataset_sample_count(dataset) < 3);
        bg_dataset_destroy(dataset);
    }
}

/* ---- writing ---- */

/* Writes records; record r has counts[r] tokens: firsts[r], firsts[r] + 1, ... */
static void write_records(const char *path, const uint32_t *firsts, const size_t *counts, size_t record_count)
{
    bgi_tfrecord_writer writer;
    bg_error error = {0};
    uint32_t tokens[300];

    if (bgi_tfrecord_writer_begin(&writer, path, 300, &error) != BG_OK)
        fail_msg("%s", error.message);
    for (size_t r = 0; r < record_count; r++) {
        for (size_t i = 0; i < counts[r]; i++)
            tokens[i] = firsts[r] + (uint32_t)i;
        bgi_tfrecord_write(&writer, tokens, counts[r]);
    }
    if (bgi_tfrecord_writer_commit(&writer, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void expect_file(const char *path, const void *bytes, size_t size_bytes)
{
    char *text = NULL;
    size_t length = 0;

    assert_int_equal(bgi_file_load(path, 1 << 20, &text, &length, NULL), BG_OK);
    assert_int_equal(length, size_bytes);
    assert_memory_equal(text, bytes, size_bytes);
    free(text);
}

/* The bytes written equal those of a record that another program made from the format's description, with numbers of 1,
 * 2, 3 and 5 bytes. */
static void test_bytes_that_are_written(void **state)
{
    static const unsigned char record[] = {0x27, 0,    0,    0,    0,    0,    0,    0,    0xbb, 0xe1, 0xb1,
                                           0x46, 0x0a, 0x25, 0x0a, 0x23, 0x0a, 0x09, 'i',  'n',  'p',  'u',
                                           't',  '_',  'i',  'd',  's',  0x12, 0x16, 0x1a, 0x14, 0x0a, 0x12,
                                           0x00, 0x01, 0x7f, 0x80, 0x01, 0xac, 0x02, 0xd0, 0x88, 0x03, 0x80,
                                           0x80, 0x04, 0xfe, 0xff, 0xff, 0xff, 0x07, 0xc4, 0x8c, 0x13, 0x20};
    const uint32_t tokens[] = {0, 1, 127, 128, 300, 50256, 65536, 2147483646};
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 16], index[TEST_FOLDER_BYTES + 24];
    bgi_tfrecord_writer writer;
    unsigned char twice[2 * sizeof record];
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/a.tfrecord", folder);
    assert_int_equal(bgi_tfrecord_writer_begin(&writer, path, 8, NULL), BG_OK);
    bgi_tfrecord_write(&writer, tokens, 8);
    bgi_tfrecord_write(&writer, tokens, 8);
    assert_int_equal(bgi_tfrecord_writer_commit(&writer, NULL), BG_OK);
    memcpy(twice, record, sizeof record);
    memcpy(twice + sizeof record, record, sizeof record);
    expect_file(path, twice, sizeof twice);
    snprintf(index, sizeof index, "%s/a.index", folder);
    expect_file(index, "0 55\n55 55\n", 11);

    /* An index under the other name is the one that readers look at first. */
    snprintf(index, sizeof index, "%s.index", path);
    assert_int_equal(bgi_file_save(index, "old", 3, NULL), BG_OK);
    assert_int_equal(bgi_tfrecord_writer_begin(&writer, path, 8, NULL), BG_OK);
    bgi_tfrecord_write(&writer, tokens, 8);
    assert_int_equal(bgi_tfrecord_writer_commit(&writer, NULL), BG_OK);
    expect_file(path, record, sizeof record);
    expect_file(index, "0 55\n", 5);

    /* Abandoning leaves existing files unchanged. */
    assert_int_equal(bgi_tfrecord_writer_begin(&writer, path, 8, NULL), BG_OK);
    bgi_tfrecord_write(&writer, tokens, 3);
    bgi_tfrecord_writer_abandon(&writer, NULL);
    expect_file(path, record, sizeof record);
    expect_file(index, "0 55\n", 5);
    test_folder_remove(folder);
}

static void expect_refused(const char *path, const bg_tokens_options *options, const char *said)
{
    bg_dataset *dataset = NULL;
    bg_error error = {0};

    assert_int_equal(bg_dataset_open_tfrecord(path, options, &dataset, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, said));
}

/* Records are read back as samples and as whole records, with lengths around the limit between one and two bytes. */
static void test_what_is_written_is_read(void **state)
{
    static const uint32_t firsts[] = {10, 1, 127, 200, 100};
    static const size_t counts[] = {5, 127, 128, 130, 300};
    const bg_tokens_options options = {.sequence_length = 4};
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 16];
    bg_token_list tokens = {.items = NULL};
    bg_dataset *dataset = NULL;
    bg_error error = {0};
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/a.tfrecord", folder);
    write_records(path, firsts, counts, 5);
    expect_refused(path, &(bg_tokens_options){.sequence_length = 4, .stride = 2}, "stride is 2");
    expect_refused(path, &(bg_tokens_options){.sequence_length = 4, .token_bytes = 4}, "token_bytes is 4");
    if (bg_dataset_open_tfrecord(path, &options, &dataset, &error) != BG_OK)
        fail_msg("%s", error.message);
    expect_tokens(dataset, (const int32_t[]){10, 1, 127, 200, 100}, 5);
    for (uint64_t r = 0; r < 5; r++) {
        if (bgi_tfrecord_read(dataset, r, &tokens, &error) != BG_OK)
            fail_msg("%s", error.message);
        assert_int_equal(tokens.count, counts[r]);
        for (size_t i = 0; i < tokens.count; i++)
            assert_int_equal(tokens.items[i], firsts[r] + i);
    }
    bg_token_list_clear(&tokens);
    bg_dataset_destroy(dataset);
    test_folder_remove(folder);
}

static void test_writing_fails(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 24];
    bgi_tfrecord_writer writer;
    bg_error error = {0};
    (void)state;

    assert_int_equal(bgi_tfrecord_writer_begin(&writer, "/none/a.tfrecord", 8, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "/none/a.tfrecord"));
    bgi_tfrecord_writer_abandon(&writer, NULL);
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/a.index", folder);
    assert_int_equal(bgi_folder_create(path, NULL), BG_OK);
    snprintf(path, sizeof path, "%s/a.tfrecord", folder);
    bg_error_clear(&error);
    assert_int_equal(bgi_tfrecord_writer_begin(&writer, path, 8, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "a.index"));
    assert_false(bgi_file_exists(path));
    test_folder_remove(folder);
}

/* Truncating a file in use causes an error that names the file, and does not end the process. */
static void test_file_that_shrinks(void **state)
{
    static const uint32_t tokens[3] = {1, 2, 3};
    const bg_tokens_options options = {.sequence_length = 2};
    char folder[TEST_FOLDER_BYTES], path[64];
    bgi_tfrecord_writer writer;
    bg_dataset *dataset = NULL;
    bg_error error = {0};
    int32_t out[3] = {0};
    unsigned char *places[] = {(unsigned char *)out};
    const uint32_t index = 0;
    size_t failed = 7;
    void *scratch;
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/a.tfrecord", folder);
    assert_int_equal(bgi_tfrecord_writer_begin(&writer, path, 3, NULL), BG_OK);
    bgi_tfrecord_write(&writer, tokens, 3);
    assert_int_equal(bgi_tfrecord_writer_commit(&writer, NULL), BG_OK);
    assert_int_equal(bg_dataset_open_tfrecord(path, &options, &dataset, NULL), BG_OK);
    scratch = bgi_dataset_scratch(dataset);
    assert_int_equal(bgi_dataset_gather(dataset, 0, &index, 1, places, scratch, &failed, NULL), BG_OK);
    assert_int_equal(out[2], 3);
    assert_int_equal(truncate(path, 9), 0);
    assert_int_equal(bgi_dataset_gather(dataset, 0, &index, 1, places, scratch, &failed, &error), BG_ERROR_IO);
    assert_int_equal(failed, 0);
    assert_non_null(strstr(error.message, path));
    assert_non_null(strstr(error.message, "ends at byte 9"));
    free(scratch);
    bg_dataset_destroy(dataset);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_records),
                                       cmocka_unit_test(test_index),
                                       cmocka_unit_test(test_wrong_content),
                                       cmocka_unit_test(test_damage),
                                       cmocka_unit_test(test_bytes_that_are_written),
                                       cmocka_unit_test(test_what_is_written_is_read),
                                       cmocka_unit_test(test_writing_fails),
                                       cmocka_unit_test(test_file_that_shrinks)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
