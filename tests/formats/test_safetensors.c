/*
 * Files of named tensors: round trips, a file written by hand, and malicious headers.
 */
#define _DEFAULT_SOURCE /* wait4 */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/file.h"
#include "core/random.h"
#include "formats/safetensors.h"
#include "support/allocations.h"
#include "support/folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Makes a file's content from a header's text and some bytes of data (0, 1, 2, ...). */
static char *make_content(const char *header, size_t data_bytes, size_t *size_bytes)
{
    const size_t header_bytes = strlen(header);
    char *content = calloc(1, 8 + header_bytes + data_bytes + 1);

    assert_non_null(content);
    for (int i = 0; i < 8; i++)
        content[i] = (char)(header_bytes >> (8 * i));
    memcpy(content + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++)
        content[8 + header_bytes + i] = (char)i;
    *size_bytes = 8 + header_bytes + data_bytes;
    return content;
}

static void assert_header_fails(const char *header, size_t data_bytes, bg_status expected, const char *text)
{
    size_t size_bytes = 0;
    char *content = make_content(header, data_bytes, &size_bytes);
    bg_safetensors *file = NULL;
    bg_error error = {0};
    const bg_status status = bgi_safetensors_parse("x", content, size_bytes, false, &file, &error);

    if (strstr(error.message, text) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", error.message, text);
    assert_int_equal(status, expected);
    assert_int_equal(error.status, expected);
    assert_null(file);
    assert_int_equal(bgi_safetensors_parse("x", content, size_bytes, false, &file, NULL), expected);
    free(content);
}

/* ---- valid files ---- */

static void test_round_trip(void **state)
{
    const float weights[2][3] = {{1, 2, 3}, {4, 5, 6.5f}};
    const uint16_t halves[3] = {0x3f80, 0x4000, 0xc040};
    const double wide = -0.1;
    const int32_t integers[2] = {-7, 1 << 30};
    const int64_t wides[2] = {INT64_MIN, ((int64_t)1 << 60) + 1};
    const uint8_t bytes[3] = {1, 2, 255};
    const bg_safetensors_entry entries[] = {
        {"transformer.h.0.attn.c_attn.weight", bg_matrix(BG_FLOAT32, 2, 3), weights},
        {"b", bg_tensor3(BG_BFLOAT16, 1, 3, 1), halves},
        {"step", bg_scalar(BG_FLOAT64), &wide},
        {"a", bg_vector(BG_UINT8, 3), bytes},
        {"z\xc3\xa9\"\\\n", bg_vector(BG_INT32, 2), integers},
        {"h", bg_vector(BG_FLOAT16, 3), halves},
        {"n", bg_vector(BG_INT64, 2), wides},
    };
    const bg_safetensors_metadata metadata[] = {{"format", "pt"}, {"epoch", "3 \"of\" 4"}, {"", ""}};
    char folder[TEST_FOLDER_BYTES], path[64];
    bg_safetensors *file = NULL;
    bg_error error = {0};
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    if (bg_safetensors_write(path, entries, 7, metadata, 3, &error) != BG_OK)
        fail_msg("%s", error.message);
    if (bg_safetensors_open(path, &file, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_safetensors_count(file), 7);
    for (size_t i = 0; i < 7; i++) {
        const bg_safetensors_entry *found = bg_safetensors_find(file, entries[i].name);

        assert_non_null(found);
        assert_string_equal(found->name, entries[i].name);
        assert_true(bg_type_equal(&found->type, &entries[i].type));
        assert_memory_equal(found->data, entries[i].data, bg_type_size_bytes(&found->type));
        assert_int_equal((uintptr_t)found->data % bg_dtype_size_bytes(found->type.dtype), 0);
        if (i > 0)
            assert_true(strcmp(bg_safetensors_at(file, i - 1)->name, bg_safetensors_at(file, i)->name) < 0);
    }
    assert_null(bg_safetensors_find(file, "absent"));
    assert_int_equal(bg_safetensors_metadata_count(file), 3);
    assert_string_equal(bg_safetensors_metadata_find(file, "epoch"), "3 \"of\" 4");
    assert_string_equal(bg_safetensors_metadata_at(file, 2)->key, "format");
    assert_null(bg_safetensors_metadata_find(file, "f"));
    bg_safetensors_destroy(file);
    test_folder_remove(folder);
}

static bg_status fetch_half(void *user, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    if (strcmp(entry->name, user) == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "`%s` is gone", entry->name);
    *out_data = strcmp(entry->name, "b") == 0 ? "bb" : "cc";
    return BG_OK;
}

/* Tensors that a callback provides during writing make the same file. */
static void test_fetched(void **state)
{
    bg_safetensors_entry entries[] = {
        {"c", bg_vector(BG_UINT8, 2), "cc"}, {"a", bg_vector(BG_UINT8, 2), "aa"}, {"b", bg_vector(BG_UINT8, 2), "bb"}};
    char folder[TEST_FOLDER_BYTES], path[64], *expected = NULL, *found = NULL;
    size_t expected_size, size;
    bg_error error = {0};
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    assert_int_equal(bg_safetensors_write(path, entries, 3, NULL, 0, NULL), BG_OK);
    assert_int_equal(bgi_file_load(path, 4096, &expected, &expected_size, NULL), BG_OK);
    assert_int_equal(unlink(path), 0);
    entries[0].data = entries[2].data = NULL;
    assert_int_equal(bg_safetensors_write(path, entries, 3, NULL, 0, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_safetensors_write_fetched(path, entries, 3, NULL, 0, fetch_half, "c", &error),
                     BG_ERROR_INVALID);
    assert_int_equal(test_folder_count(folder), 0);
    assert_int_equal(bg_safetensors_write_fetched(path, entries, 3, NULL, 0, fetch_half, "", NULL), BG_OK);
    assert_int_equal(bgi_file_load(path, 4096, &found, &size, NULL), BG_OK);
    assert_int_equal(size, expected_size);
    assert_memory_equal(found, expected, size);
    free(found);
    free(expected);
    test_folder_remove(folder);
}

static void test_the_bytes_written(void **state)
{
    const float weights[2] = {1, -2};
    const uint8_t bytes[3] = {7, 8, 9};
    const bg_safetensors_entry entries[] = {{"a", bg_vector(BG_UINT8, 3), bytes},
                                            {"w", bg_matrix(BG_FLOAT32, 1, 2), weights}};
    const bg_safetensors_entry reversed[] = {entries[1], entries[0]};
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                                 "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    const size_t padded = (sizeof header - 1 + 7) / 8 * 8;
    char folder[TEST_FOLDER_BYTES], path[64], *first = NULL, *second = NULL;
    size_t size = 0;
    bg_error error = {0};
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/x", folder);
    assert_int_equal(bg_safetensors_write(path, entries, 2, NULL, 0, &error), BG_OK);
    assert_int_equal(bgi_file_load(path, 4096, &first, &size, &error), BG_OK);
    assert_int_equal(size, 8 + padded + 11);
    const char length[8] = {(char)padded};
    assert_memory_equal(first, length, 8);
    assert_memory_equal(first + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < padded; i++)
        assert_int_equal(first[8 + i], ' ');
    assert_memory_equal(first + 8 + padded, weights, 8);
    assert_memory_equal(first + 8 + padded + 8, bytes, 3);
    assert_int_equal(bg_safetensors_write(path, reversed, 2, NULL, 0, &error), BG_OK);
    assert_int_equal(bgi_file_load(path, 4096, &second, &size, &error), BG_OK);
    assert_memory_equal(first, second, size);
    free(first);
    free(second);
    test_folder_remove(folder);
}

/* Reads files as other programs may write them: spaces in the header, tensors in any order, data that are not aligned,
 * unknown keys. */
static void test_foreign_file(void **state)
{
    static const char header[] =
        "{ \"w\" : {\"shape\": [1], \"data_offsets\": [3, 7], \"dtype\": \"F32\", \"x\": null},\n"
        "\"__metadata__\": {}, \"b\": {\"dtype\":\"U8\",\"shape\":[3,1],\"data_offsets\":[0,3]}} ";
    size_t size_bytes = 0;
    char *content = make_content(header, 7, &size_bytes);
    bg_safetensors *file = NULL;
    bg_error error = {0};
    (void)state;

    if (bgi_safetensors_parse("x", content, size_bytes, false, &file, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_safetensors_count(file), 2);
    const bg_safetensors_entry *w = bg_safetensors_find(file, "w");
    assert_memory_equal(w->data, "\3\4\5\6", 4);
    assert_int_equal((uintptr_t)w->data % 4, 0);
    assert_memory_equal(bg_safetensors_find(file, "b")->data, "\0\1\2", 3);
    bg_safetensors_destroy(file);
    free(content);
}

static void test_no_tensors(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[64];
    bg_safetensors *file = NULL;
    bg_error error = {0};
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/x", folder);
    assert_int_equal(bg_safetensors_write(path, NULL, 0, NULL, 0, &error), BG_OK);
    assert_int_equal(bg_safetensors_open(path, &file, &error), BG_OK);
    assert_int_equal(bg_safetensors_count(file), 0);
    assert_int_equal(bg_safetensors_metadata_count(file), 0);
    assert_null(bg_safetensors_find(file, "x"));
    assert_null(bg_safetensors_metadata_find(file, "x"));
    bg_safetensors_destroy(file);
    bg_safetensors_destroy(NULL);
    test_folder_remove(folder);
}

/* ---- invalid files ---- */

static void test_bad_lengths(void **state)
{
    static const struct {
        const char *content;
        size_t size_bytes;
    } cases[] = {{"", 0},
                 {"\2\0\0\0\0\0\0", 7},
                 {"\0\0\0\0\0\0\0\0{}", 10},
                 {"\3\0\0\0\0\0\0\0{}", 10},
                 {"\377\377\377\377\377\377\377\377{}", 10},
                 {"\2\0\0\0\0\0\0\200{}", 10}};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_safetensors *file = NULL;
        bg_error error = {0};

        assert_int_equal(bgi_safetensors_parse("x", cases[i].content, cases[i].size_bytes, false, &file, &error),
                         BG_ERROR_PARSE);
        assert_non_null(strstr(error.message, i < 2 ? "bytes long but must be at least" : "header length"));
        assert_null(file);
    }
}

#define TENSOR(dtype, shape, offsets) "{\"w\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

#define PAIR_OF(name)                                                                                                  \
    "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"                                           \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}"

static void test_bad_json(void **state)
{
    (void)state;

    assert_header_fails("[]", 0, BG_ERROR_PARSE, "x: byte 8: the header begins with 0x5b but must begin with `{`");
    assert_header_fails("{]", 0, BG_ERROR_PARSE, "the header is not JSON");
    assert_header_fails("{} x", 0, BG_ERROR_PARSE, "the header is not JSON");
    assert_header_fails("{\"\xff\":1}", 0, BG_ERROR_PARSE, "the header is not JSON");
    assert_header_fails(PAIR_OF("w"), 4, BG_ERROR_PARSE, "duplicate");
    assert_header_fails("{\"w\":1}", 0, BG_ERROR_PARSE, "x: tensor `w`: its description must be an object");
    assert_header_fails("{\"w\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, BG_ERROR_PARSE, "duplicate");
    assert_header_fails("{\"__metadata__\":[]}", 0, BG_ERROR_PARSE, "`__metadata__` must be an object");
    assert_header_fails("{\"__metadata__\":{\"k\":1}}", 0, BG_ERROR_PARSE, "metadata `k` must be a string");
}

static void test_bad_tensors(void **state)
{
    (void)state;

    assert_header_fails(TENSOR("1", "[1]", "[0,4]"), 4, BG_ERROR_PARSE, "x: tensor `w`: `dtype` must be a string");
    assert_header_fails(TENSOR("\"I16\"", "[1]", "[0,2]"), 2, BG_ERROR_UNSUPPORTED,
                        "tensor `w`: its dtype is `I16` but must be F32, BF16, F16, F64, I32, I64 or U8");
    assert_header_fails(TENSOR("\"F32\"", "3", "[0,4]"), 4, BG_ERROR_PARSE, "`shape` must be an array");
    assert_header_fails(TENSOR("\"F32\"", "[-1]", "[0,4]"), 4, BG_ERROR_PARSE, "dimension 0 must be an integer");
    assert_header_fails(TENSOR("\"F32\"", "[1,1.0]", "[0,4]"), 4, BG_ERROR_PARSE, "dimension 1 must be an integer");
    assert_header_fails(TENSOR("\"F32\"", "[0]", "[0,0]"), 0, BG_ERROR_UNSUPPORTED, "dimension 0 is 0");
    assert_header_fails(TENSOR("\"F32\"", "[1,1,1,1,1,1,1]", "[0,4]"), 4, BG_ERROR_UNSUPPORTED, "7 dimensions");
    assert_header_fails(TENSOR("\"F32\"", "[4611686018427387904,4]", "[0,0]"), 0, BG_ERROR_PARSE,
                        "more than 2^63 - 1 bytes");
    assert_header_fails(TENSOR("\"F32\"", "[1]", "[0]"), 4, BG_ERROR_PARSE, "`data_offsets` must be two integers");
    assert_header_fails(TENSOR("\"F32\"", "[1]", "[0,4,8]"), 4, BG_ERROR_PARSE, "`data_offsets` must be two integers");
    assert_header_fails(TENSOR("\"F32\"", "[1]", "{}"), 4, BG_ERROR_PARSE, "`data_offsets` must be two integers");
    assert_header_fails(TENSOR("\"F32\"", "[1]", "[0,4.5]"), 4, BG_ERROR_PARSE, "`data_offsets` must be two integers");
    assert_header_fails(TENSOR("\"F32\"", "[1]", "[0,99999999999999999999]"), 4, BG_ERROR_PARSE, "not JSON");
    assert_header_fails(TENSOR("\"F32\"", "[1]", "[-4,0]"), 4, BG_ERROR_PARSE, "are not within the file's 4 bytes");
    assert_header_fails(TENSOR("\"F32\"", "[1]", "[4,0]"), 4, BG_ERROR_PARSE, "are not within the file's 4 bytes");
    assert_header_fails(TENSOR("\"F32\"", "[1]", "[0,5]"), 4, BG_ERROR_PARSE, "are not within the file's 4 bytes");
    assert_header_fails(TENSOR("\"F32\"", "[2]", "[0,4]"), 4, BG_ERROR_PARSE,
                        "data offsets 0 to 4 hold 4 bytes but must hold 8 for float32[2]");
}

#define PAIR(a, b)                                                                                                     \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" a                                                       \
    "},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" b "}}"

static void test_places(void **state)
{
    (void)state;

    assert_header_fails(PAIR("[0,2]", "[1,3]"), 3, BG_ERROR_PARSE, "tensors overlap");
    assert_header_fails(PAIR("[0,2]", "[0,2]"), 2, BG_ERROR_PARSE, "tensors overlap");
    assert_header_fails(PAIR("[0,2]", "[3,5]"), 5, BG_ERROR_PARSE, "data begin at 3 but must begin at 2");
    assert_header_fails(PAIR("[1,3]", "[3,5]"), 5, BG_ERROR_PARSE, "leave a hole");
    assert_header_fails(PAIR("[0,2]", "[2,4]"), 5, BG_ERROR_PARSE, "end after 4 bytes of data, but the file has 5");
    assert_header_fails("{}", 1, BG_ERROR_PARSE, "end after 0 bytes of data, but the file has 1");
}

static void test_bad_files(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[64];
    bg_safetensors *file = NULL;
    bg_error error = {0};
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/x", folder);
    assert_int_equal(bg_safetensors_open(path, &file, &error), BG_ERROR_NOT_FOUND);
    bg_error_clear(&error);
    assert_int_equal(bg_safetensors_open(folder, &file, &error), BG_ERROR_IO);
    assert_int_equal(bgi_file_save(path, "", 0, NULL), BG_OK);
    bg_error_clear(&error);
    assert_int_equal(bg_safetensors_open(path, &file, &error), BG_ERROR_PARSE);
    assert_non_null(strstr(error.message, path));
    assert_null(file);
    test_folder_remove(folder);
}

static void assert_write_fails(const bg_safetensors_entry *entries, size_t count,
                               const bg_safetensors_metadata *metadata, size_t metadata_count, bg_status expected,
                               const char *text)
{
    char folder[TEST_FOLDER_BYTES], path[64];
    bg_error error = {0};

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/x", folder);
    assert_int_equal(bg_safetensors_write(path, entries, count, metadata, metadata_count, &error), expected);
    if (strstr(error.message, text) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", error.message, text);
    assert_int_equal(test_folder_count(folder), 0);
    test_folder_remove(folder);
}

static void test_bad_writes(void **state)
{
    const uint8_t byte = 1;
    const bg_type one = bg_vector(BG_UINT8, 1), none = bg_vector(BG_UINT8, 0);
    const bg_safetensors_metadata twice[] = {{"k", "1"}, {"k", "2"}};
    (void)state;

    assert_write_fails((bg_safetensors_entry[]){{"w", one, &byte}, {"w", one, &byte}}, 2, NULL, 0, BG_ERROR_INVALID,
                       "tensor `w` occurs twice");
    assert_write_fails((bg_safetensors_entry[]){{"__metadata__", one, &byte}}, 1, NULL, 0, BG_ERROR_INVALID,
                       "reserved");
    assert_write_fails((bg_safetensors_entry[]){{"\xff", one, &byte}}, 1, NULL, 0, BG_ERROR_INVALID, "not UTF-8");
    assert_write_fails((bg_safetensors_entry[]){{"w", one, NULL}}, 1, NULL, 0, BG_ERROR_INVALID, "has no data");
    assert_write_fails((bg_safetensors_entry[]){{NULL, one, &byte}}, 1, NULL, 0, BG_ERROR_INVALID, "has no name");
    assert_write_fails((bg_safetensors_entry[]){{"w", none, &byte}}, 1, NULL, 0, BG_ERROR_SHAPE, "tensor `w`");
    assert_write_fails(NULL, 0, twice, 2, BG_ERROR_INVALID, "metadata `k` occurs twice");
}

/* A file that is truncated or changed anywhere gives an error, or tensors that are all inside the file's data. */
static void test_damage_anywhere(void **state)
{
    static const char header[] = PAIR("[0,2]", "[2,4]");
    size_t size_bytes = 0;
    char *content = make_content(header, 4, &size_bytes);
    bgi_random random = bgi_random_make(1, 0);
    (void)state;

    for (size_t cut = 0; cut < size_bytes; cut++) {
        char *copy = malloc(cut + 1); /* exact, so that the address sanitizer detects every byte beyond */
        bg_safetensors *file = NULL;

        memcpy(copy, content, cut);
        assert_int_equal(bgi_safetensors_parse("x", copy, cut, false, &file, NULL), BG_ERROR_PARSE);
        free(copy);
    }
    for (int round = 0; round < 20000; round++) {
        const size_t at = bgi_random_below(&random, (uint32_t)size_bytes);
        const char kept = content[at];
        bg_safetensors *file = NULL;

        content[at] = (char)bgi_random_word(&random);
        if (bgi_safetensors_parse("x", content, size_bytes, false, &file, NULL) == BG_OK)
            for (size_t i = 0; i < bg_safetensors_count(file); i++) {
                const char *data = bg_safetensors_at(file, i)->data;
                assert_true(data >= content && data + 2 <= content + size_bytes);
            }
        bg_safetensors_destroy(file);
        content[at] = kept;
    }
    free(content);
}

static void test_out_of_memory(void **state)
{
    static const char header[] = PAIR("[0,2]", "[2,4]");
    char folder[TEST_FOLDER_BYTES], path[64];
    size_t size_bytes = 0;
    char *content;
    (void)state;

    if (!test_allocations_available())
        skip();
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/x", folder);
    content = make_content(header, 4, &size_bytes);
    for (int writing = 0; writing < 2; writing++) {
        bg_status status = BG_ERROR_MEMORY;

        for (uint64_t n = 1; status != BG_OK; n++) {
            const bg_safetensors_entry entry = {"w", bg_vector(BG_UINT8, 4), content};
            const bg_safetensors_metadata pair = {"k", "v"};
            const int64_t live = test_allocations_live();
            bg_safetensors *file = NULL;

            test_allocations_fail(n);
            status = writing ? bg_safetensors_write(path, &entry, 1, &pair, 1, NULL)
                             : bgi_safetensors_parse("x", content, size_bytes, false, &file, NULL);
            test_allocations_fail(0);
            bg_safetensors_destroy(file);
            assert_int_equal(test_allocations_live(), live);
            assert_true(n < 1000);
            assert_true(test_folder_count(folder) == (writing && status == BG_OK ? 1 : 0));
        }
    }
    free(content);
    test_folder_remove(folder);
}

/* Reading a file that was truncated is an error that names the file. */
static void test_file_that_shrinks(void **state)
{
    static const float values[] = {1, 2, 3, 4};
    const bg_safetensors_entry entry = {"w", bg_vector(BG_FLOAT32, 4), values};
    char folder[TEST_FOLDER_BYTES], path[64];
    bg_safetensors *file = NULL;
    const bg_safetensors_entry *w;
    bg_error error = {0};
    float out[4] = {0};
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/x", folder);
    assert_int_equal(bg_safetensors_write(path, &entry, 1, NULL, 0, NULL), BG_OK);
    assert_int_equal(bg_safetensors_open_header(path, &file, NULL), BG_OK);
    w = bg_safetensors_find(file, "w");
    assert_null(w->data);
    assert_int_equal(bg_safetensors_read(file, w, 4, 12, out, NULL), BG_OK);
    assert_memory_equal(out, values + 1, 12);
    assert_int_equal(bg_safetensors_read(file, w, 8, 12, out, NULL), BG_ERROR_INVALID);
    assert_int_equal(truncate(path, 70), 0);
    assert_int_equal(bg_safetensors_read(file, w, 0, 16, out, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, path));
    assert_non_null(strstr(error.message, "must not be shortened"));
    bg_safetensors_destroy(file);
    test_folder_remove(folder);
}

enum { MANY = 1000000, MOST_KILOBYTES = 150000 };

static void write_many(const char *path)
{
    bgi_file_writer writer = {0};
    unsigned char length[8];
    size_t header_bytes = 2 - 1; /* two braces, less the comma that the first entry does not have */
    char line[96];

    for (int i = 0; i < MANY; i++)
        header_bytes += (size_t)snprintf(line, sizeof line,
                                         ",\"t%06d\":{\"dtype\":\"U8\",\"shape\":[1],"
                                         "\"data_offsets\":[%d,%d]}",
                                         i, i, i + 1);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(header_bytes >> (8 * i));
    assert_int_equal(bgi_file_writer_begin(&writer, path, NULL), BG_OK);
    bgi_file_write(&writer, length, sizeof length);
    for (int i = 0; i < MANY; i++)
        bgi_file_print(&writer, "%c\"t%06d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                       i == 0 ? '{' : ',', i, i, i + 1);
    bgi_file_print(&writer, "}");
    for (int i = 0; i < MANY; i++)
        bgi_file_write(&writer, &(char){(char)i}, 1);
    assert_int_equal(bgi_file_writer_commit(&writer, NULL), BG_OK);
}

/* Runs in a separate process, for which the system reports the peak memory. */
static void test_memory_of_a_million_tensors(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[64];
    struct rusage used;
    int ended = 0;
    pid_t child;
    (void)state;

    if (!test_allocations_available())
        skip(); /* sanitizers use additional memory */
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/x", folder);
    write_many(path);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const bg_safetensors_entry *last;
        bg_safetensors *file = NULL;
        unsigned char value = 0;
        if (bg_safetensors_open_header(path, &file, NULL) != BG_OK || bg_safetensors_count(file) != MANY)
            _exit(1);
        last = bg_safetensors_find(file, "t999999");
        if (last == NULL || bg_safetensors_read(file, last, 0, 1, &value, NULL) != BG_OK)
            _exit(2);
        _exit(value == (unsigned char)(MANY - 1) ? 0 : 3);
    }
    assert_int_equal(wait4(child, &ended, 0, &used), child);
    assert_int_equal(ended, 0);
    if (used.ru_maxrss > MOST_KILOBYTES)
        fail_msg("%ld kB, expected at most %d", used.ru_maxrss, MOST_KILOBYTES);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_fetched),
        cmocka_unit_test(test_the_bytes_written),
        cmocka_unit_test(test_foreign_file),
        cmocka_unit_test(test_no_tensors),
        cmocka_unit_test(test_memory_of_a_million_tensors),
        cmocka_unit_test(test_file_that_shrinks),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_bad_json),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_bad_writes),
        cmocka_unit_test(test_damage_anywhere),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("formats/safetensors", tests, NULL, NULL);
}
