/*
 * test_tfrecord.c: TFRecord files of token lists: as other writers make them, with an index and without, damaged
 * anywhere, too short, too long.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/file.h"
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

/* A record of tokens first, first + 1, ...; numbers packed or one by one, between two other features. */
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
    const bg_tfrecord_options options = {.sequence_length = sequence_length, .vocabulary_size = 400};

    return bgi_tfrecord_parse("file", c->bytes, c->length, index, index != NULL ? strlen(index) : 0, &options, out,
                              error);
}

/* Reads all samples, of 5 tokens each; the status of the first that fails. */
static bg_status read_all(const bg_dataset *dataset, int32_t *tokens, bg_error *error)
{
    bg_loader_options options = bg_loader_options_default();
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

/* The records that the index has, in its order. */
static void test_index(void **state)
{
    content c = three_records(), one = {.length = 0};
    bg_dataset *dataset = NULL;
    char index[128], folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 16];
    const bg_tfrecord_options options = {.sequence_length = 4};
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
    refuse_sample(&c, "a record has 4 tokens, expected at least 5: a sequence and the token behind it");
    c.length = 0;
    put_record(&c, "labels", 1, 5, true);
    refuse_sample(&c, "a record has no list of int64 named `input_ids`");
    c.length = 0;
    put_record(&c, "input_ids", 396, 5, true);
    refuse_sample(&c, "token 4 of the record is not in 0 to 399");
    c.length = 0;
    put_record(&c, "input_ids", -2, 5, true);
    refuse_sample(&c, "token 0 of the record is not in 0 to 399");
    c.length = 0;
    put_field(&example, 1, "\x0a\x7f", 2);
    put_frame(&c, &example);
    refuse_sample(&c, "a record's data are no tf.train.Example");

    c = three_records();
    refuse(&c, "0 1\n", "line 1 of the index says 1 bytes, the record has ");
    refuse(&c, "x\n", "line 1 of the index is no \"OFFSET SIZE\"");
    refuse(&c, "5 60\n", "the checksum of a record's length is wrong");
    refuse(&c, "999999999999999999999 60\n", "line 1 of the index is no");
    refuse(&c, "100000 60\n", "ends within a record");
    refuse(&c, "", "has no records");
}

/* Whatever byte is changed, some checksum says so; wherever the file ends, it is said. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_records), cmocka_unit_test(test_index),
                                       cmocka_unit_test(test_wrong_content), cmocka_unit_test(test_damage)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
