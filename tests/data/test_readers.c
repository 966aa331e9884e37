/*
 * Files as arrays and data sets: the content of valid ones, and the errors of invalid ones. The files are from the
 * fuzzers' corpora, relative to the tree's root, or written by the test.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/file.h"
#include "core/narrow.h"
#include "formats/csv.h"
#include "data/dataset.h"
#include "formats/npy.h"
#include "formats/png.h"
#include "support/folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the path of tests/fuzz/corpus/NAME, relative to the path of this file. */
static const char *corpus(const char *name)
{
    static char path[512];
    const char *source = __FILE__;
    const int root = (int)(strstr(source, "data/test_readers.c") - source);

    snprintf(path, sizeof path, "%.*sfuzz/corpus/%s", root, source, name);
    return path;
}

static void assert_says(const bg_error *error, const char *words)
{
    if (strstr(error->message, words) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", error->message, words);
}

/* ---- NumPy ---- */

static void test_npy_values(void **state)
{
    static const struct {
        const char *file, *type;
        uint32_t count;
        double values[6];
    } cases[] = {{"npy/f4", "float32[2,3]", 6, {1, 2, 3, 4, 5, 6.5}},
                 {"npy/f4_fortran", "float32[2,3]", 6, {1, 3, 5, 2, 4, 6.5}},
                 {"npy/f8_big", "float64[2]", 2, {1, -2}},
                 {"npy/u1", "uint8[4]", 4, {1, 2, 3, 4}},
                 {"npy/b1", "uint8[2]", 2, {0, 1}},
                 {"npy/i8", "int32[3]", 3, {-2147483648.0, 0, 2147483647}},
                 {"npy/i8_large", "int64[2]", 2, {0, 2147483648.0}},
                 {"npy/u4_large", "int64[2]", 2, {4294967295.0, 1}},
                 {"npy/i2", "int32[2]", 2, {-5, 7}},
                 {"npy/f2", "float16[4]", 4, {1.5, -0.0, 0x1p-24, INFINITY}},
                 {"npy/scalar", "int32[]", 1, {9}},
                 {"npy/v3", "int32[2]", 2, {1, 65535}}};
    (void)state;

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bg_array array = {0};
        bg_error error = {0};
        char text[BG_TYPE_TEXT_BYTES];

        if (bg_npy_read(corpus(cases[c].file), &array, &error) != BG_OK)
            fail_msg("%s", error.message);
        assert_string_equal(bg_type_text(&array.type, text), cases[c].type);
        for (uint32_t i = 0; i < cases[c].count; i++) {
            const double value = array.type.dtype == BG_FLOAT32   ? (double)((float *)array.data)[i]
                                 : array.type.dtype == BG_FLOAT64 ? ((double *)array.data)[i]
                                 : array.type.dtype == BG_FLOAT16
                                     ? (double)bgi_float16_to_float(((uint16_t *)array.data)[i])
                                 : array.type.dtype == BG_INT32 ? ((int32_t *)array.data)[i]
                                 : array.type.dtype == BG_INT64 ? (double)((int64_t *)array.data)[i]
                                                                : ((uint8_t *)array.data)[i];
            assert_true(value == cases[c].values[i] && signbit(value) == signbit(cases[c].values[i]));
        }
        bg_array_clear(&array);
    }
}

typedef struct bad_file {
    const char *file, *words;
    bg_status status;
} bad_file;

static void test_npy_refusals(void **state)
{
    static const bad_file cases[] = {
        {"npy/b1_bad", "element 1 of type '|b1' does not fit uint8", BG_ERROR_PARSE},
        {"npy/u8_large", "element 1 of type '<u8' does not fit int64", BG_ERROR_PARSE},
        {"npy/empty_array", "a dimension of at least 1 (the array is empty)", BG_ERROR_PARSE},
        {"npy/object", "the element type is '|O'", BG_ERROR_UNSUPPORTED},
        {"npy/complex", "the element type is '<c8'", BG_ERROR_UNSUPPORTED},
        {"npy/cut", "promises 24 bytes of elements but there are 23", BG_ERROR_PARSE},
        {"npy/long", "promises 24 bytes of elements but there are 25", BG_ERROR_PARSE},
        {"npy/huge", "a dimension of at most 2^31", BG_ERROR_PARSE},
        {"npy/product", "more than 2 GiB", BG_ERROR_UNSUPPORTED},
        {"npy/rank7", "more than 6 dimensions", BG_ERROR_UNSUPPORTED},
        {"npy/twice", "one each of", BG_ERROR_PARSE},
        {"npy/other_key", "one each of", BG_ERROR_PARSE},
        {"npy/empty", "byte 0: the file ends in its header", BG_ERROR_PARSE},
        {"npy/magic", "byte 8: the file ends in its header", BG_ERROR_PARSE},
        {"npy/header_long", "the header has 4294967295 bytes", BG_ERROR_PARSE},
        {"npy/not", "is not a .npy file", BG_ERROR_PARSE},
        {"npy/none", "none", BG_ERROR_NOT_FOUND}};
    (void)state;

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bg_array array = {0};
        bg_error error = {0};

        assert_int_equal(bg_npy_read(corpus(cases[c].file), &array, &error), cases[c].status);
        assert_says(&error, cases[c].words);
        assert_null(array.data);
    }
}

static void test_npz(void **state)
{
    static const char *const files[] = {"npz/stored", "npz/deflated", "npz/comment"};
    static const bad_file cases[] = {
        {"npz/cut", "the end record of a ZIP archive is missing", BG_ERROR_PARSE},
        {"npz/empty", "the end record of a ZIP archive is missing", BG_ERROR_PARSE},
        {"npz/no_members", "0 arrays", BG_ERROR_PARSE},
        {"npz/not_npy", "this is not a .npz file: `x.txt` does not end in .npy", BG_ERROR_UNSUPPORTED},
        {"npz/twice", "`x` occurs twice", BG_ERROR_PARSE},
        {"npz/damaged", "x", BG_ERROR_PARSE},
        {"npz/bad_crc", "`y` is damaged (its checksum", BG_ERROR_PARSE},
        {"npz/bomb", "`y` cannot have 1879048192 bytes, because it is packed into", BG_ERROR_PARSE},
        {"npz/encrypted", "`y` is encrypted", BG_ERROR_UNSUPPORTED},
        {"npz/directory_far", "the directory does not end before the end record", BG_ERROR_PARSE}};
    const char *const names[] = {"y", "z"};
    bg_dataset *dataset = NULL;
    bg_error error = {0};
    (void)state;

    for (int i = 0; i < 3; i++) {
        bg_npz npz = {0};

        assert_int_equal(bg_npz_read(corpus(files[i]), &npz, NULL), BG_OK);
        assert_int_equal(npz.count, 2);
        assert_string_equal(npz.names[0], "x");
        assert_true(((float *)bg_npz_find(&npz, "x")->data)[5] == 6.5F);
        assert_int_equal(((uint8_t *)bg_npz_find(&npz, "y")->data)[3], 4);
        assert_null(bg_npz_find(&npz, "z"));
        bg_npz_clear(&npz);
    }
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bg_npz npz = {0};

        bg_error_clear(&error);
        assert_int_equal(bg_npz_read(corpus(cases[c].file), &npz, &error), cases[c].status);
        assert_says(&error, cases[c].words);
        assert_null(npz.arrays);
    }
    assert_int_equal(bg_dataset_open_npz(corpus("npz/stored"), names, 1, &dataset, NULL), BG_OK);
    assert_int_equal(bg_dataset_sample_count(dataset), 4);
    bg_dataset_destroy(dataset);
    bg_error_clear(&error);
    assert_int_equal(bg_dataset_open_npz(corpus("npz/stored"), names, 2, &dataset, &error), BG_ERROR_NOT_FOUND);
    assert_says(&error, "has no array `z`");
    bg_error_clear(&error);
    assert_int_equal(bg_dataset_open_npz(corpus("npz/stored"), NULL, 0, &dataset, &error), BG_ERROR_SHAPE);
    assert_says(&error, "array 1: has 4 samples, but array 0 has 2");
}

/* ---- tokens ---- */

static bg_batch read_batch(bg_loader **loader, const bg_dataset *dataset, uint64_t size, bg_error *error)
{
    bg_loader_options options = bg_loader_options_defaults();
    bg_batch batch = {0};

    options.batch_size = size;
    options.worker_count = 0;
    assert_int_equal(bg_loader_create(dataset, &options, loader, NULL), BG_OK);
    assert_int_equal(bg_loader_begin_epoch(*loader, 0, NULL), BG_OK);
    bg_loader_next(*loader, &batch, error);
    return batch;
}

static void test_tokens(void **state)
{
    static const uint8_t bytes[] = {0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 1};
    char folder[TEST_FOLDER_BYTES], path[128];
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/a.u16", folder);
    assert_int_equal(bgi_file_save(path, bytes, sizeof bytes, NULL), BG_OK);
    for (uint32_t stride = 0; stride < 3; stride++) {
        const bg_tokens_options options = {.sequence_length = 3, .stride = stride};
        const uint64_t step = stride > 0 ? stride : 3, count = (8 - 4) / step + 1;
        bg_dataset *dataset = NULL;
        bg_loader *loader = NULL;
        bg_batch batch;

        assert_int_equal(bg_dataset_open_tokens(path, &options, &dataset, NULL), BG_OK);
        assert_int_equal(bg_dataset_sample_count(dataset), count);
        batch = read_batch(&loader, dataset, count, NULL);
        for (uint64_t k = 0; k < count; k++)
            for (uint64_t i = 0; i < 4; i++)
                assert_int_equal(((const int32_t *)batch.tensors[0])[4 * k + i],
                                 k * step + i == 7 ? 263 : k * step + i);
        bg_loader_destroy(loader);
        bg_dataset_destroy(dataset);
    }
    for (int c = 0; c < 6; c++) {
        static const struct {
            bg_tokens_options options;
            const char *words;
        } cases[] = {{{.sequence_length = 8}, "byte 16: the file has 8 tokens but must have at least 9"},
                     {{.sequence_length = 0}, "sequence_length is 0"},
                     {{.sequence_length = 1, .token_bytes = 3}, "token_bytes is 3 but must be 2 or 4"},
                     {{.sequence_length = 1, .vocabulary_size = UINT32_MAX}, "vocabulary_size is 4294967295"},
                     {{.sequence_length = 1, .feature = "ids"}, "feature is `ids`, but a raw token file"},
                     {{.sequence_length = 7, .vocabulary_size = 263}, "byte 14: token 7 is 263 but must be below 263"}};
        bg_dataset *dataset = NULL;
        bg_loader *loader = NULL;
        bg_error error = {0};

        if (bg_dataset_open_tokens(path, &cases[c].options, &dataset, &error) == BG_OK) {
            read_batch(&loader, dataset, 1, &error);
            bg_loader_destroy(loader);
            bg_dataset_destroy(dataset);
        }
        assert_says(&error, cases[c].words);
    }
    test_folder_remove(folder);
}

enum { LARGE_BYTES = (64 << 20) + 24, FILLED = 4000, LENGTH = 3 };

/* Writes a file that is larger than the memory limit; only its first tokens use space on the disk. */
static void write_large_tokens(const char *path, size_t width, uint32_t numbers[FILLED])
{
    static unsigned char bytes[4 * FILLED];

    for (uint32_t i = 0; i < FILLED; i++) {
        numbers[i] = i * 2654435761u >> (width == 2 ? 16 : 1);
        for (size_t byte = 0; byte < width; byte++)
            bytes[i * width + byte] = (unsigned char)(numbers[i] >> (8 * byte));
    }
    assert_int_equal(bgi_file_save(path, bytes, FILLED * width, NULL), BG_OK);
    assert_int_equal(truncate(path, LARGE_BYTES), 0);
}

/* Adjacent samples are read together, and in any order the samples are the requested ones. */
static void test_large_token_files(void **state)
{
    static uint32_t numbers[FILLED];
    const uint32_t orders[3][12] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
                                    {7, 8, 9, 3, 2, 1, 1, 2, 40, 41, 41, 0},
                                    {5, 5, 6, 6, 7, 300, 301, 302, 100, 101, 99, 98}};
    char folder[TEST_FOLDER_BYTES], path[128];
    (void)state;

    test_folder_create(folder);
    for (size_t width = 2; width <= 4; width += 2) {
        snprintf(path, sizeof path, "%s/a.u%zu", folder, 8 * width);
        write_large_tokens(path, width, numbers);
        for (uint32_t stride = 1; stride < 7; stride++) {
            const bg_tokens_options options = {.sequence_length = LENGTH, .stride = stride};
            bg_dataset *dataset = NULL;

            assert_int_equal(bg_dataset_open_tokens(path, &options, &dataset, NULL), BG_OK);
            for (int order = 0; order < 3; order++) {
                int32_t out[12 * (LENGTH + 1)];
                unsigned char *places[] = {(unsigned char *)out};
                void *scratch = bgi_dataset_scratch(dataset);
                size_t failed = 0;

                assert_int_equal(bgi_dataset_gather(dataset, 0, orders[order], 12, places, scratch, &failed, NULL),
                                 BG_OK);
                for (size_t i = 0; i < 12; i++)
                    for (size_t at = 0; at <= LENGTH; at++)
                        assert_int_equal(out[i * (LENGTH + 1) + at], numbers[orders[order][i] * stride + at]);
                free(scratch);
            }
            bg_dataset_destroy(dataset);
        }
    }
    test_folder_remove(folder);
}

/* Reading a file that was truncated is an error that names the file and the position. A small file is in memory. */
static void test_tokens_that_shrink(void **state)
{
    static uint32_t numbers[FILLED];
    const bg_tokens_options options = {.sequence_length = LENGTH};
    char folder[TEST_FOLDER_BYTES], path[128], expected[64];
    (void)state;

    for (size_t width = 2; width <= 4; width += 2) {
        bg_dataset *dataset = NULL;
        bg_loader *loader = NULL;
        bg_error error = {0};
        bg_batch batch = {0};

        test_folder_create(folder);
        snprintf(path, sizeof path, "%s/a.u%zu", folder, 8 * width);
        write_large_tokens(path, width, numbers);
        assert_int_equal(bg_dataset_open_tokens(path, &options, &dataset, NULL), BG_OK);
        batch = read_batch(&loader, dataset, 1, &error);
        assert_int_equal(batch.sample_count, 1);
        assert_int_equal(truncate(path, (off_t)(5 * width + 1)), 0);
        assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_IO);
        assert_says(&error, path);
        snprintf(expected, sizeof expected, "ends at byte %zu but had %d bytes", 5 * width + 1, LARGE_BYTES);
        assert_says(&error, expected);
        assert_says(&error, "must not be shortened");
        bg_loader_destroy(loader);
        bg_dataset_destroy(dataset);
        assert_int_equal(truncate(path, (off_t)(9 * width)), 0);
        assert_int_equal(bg_dataset_open_tokens(path, &options, &dataset, NULL), BG_OK);
        assert_int_equal(truncate(path, 0), 0);
        bg_error_clear(&error);
        batch = read_batch(&loader, dataset, 2, &error);
        assert_int_equal(error.status, BG_OK);
        assert_int_equal(((const int32_t *)batch.tensors[0])[4], numbers[3]);
        bg_loader_destroy(loader);
        bg_dataset_destroy(dataset);
        test_folder_remove(folder);
    }
}

/* NumPy's arrays are read into memory when they are opened. */
static void test_arrays_stay_when_their_file_shrinks(void **state)
{
    const char *const from = corpus("npy/f4");
    char folder[TEST_FOLDER_BYTES], path[128], *content = NULL, *before;
    const char *paths[] = {path};
    bg_dataset *dataset = NULL;
    bg_loader *loader = NULL;
    bg_error error = {0};
    size_t size_bytes = 0;
    bg_batch batch;
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/a.npy", folder);
    assert_int_equal(bgi_file_load(from, 1 << 20, &content, &size_bytes, NULL), BG_OK);
    assert_int_equal(bgi_file_save(path, content, size_bytes, NULL), BG_OK);
    assert_int_equal(bg_dataset_open_npy(paths, 1, &dataset, NULL), BG_OK);
    assert_int_equal(truncate(path, 0), 0);
    batch = read_batch(&loader, dataset, 1, &error);
    assert_int_equal(error.status, BG_OK);
    before = content + size_bytes -
             bg_type_size_bytes(bg_dataset_sample_type(dataset, 0)) * bg_dataset_sample_count(dataset);
    assert_memory_equal(batch.tensors[0], before, bg_type_size_bytes(bg_dataset_sample_type(dataset, 0)));
    bg_loader_destroy(loader);
    bg_dataset_destroy(dataset);
    assert_int_equal(bg_dataset_open_npy(paths, 1, &dataset, &error), BG_ERROR_PARSE);
    free(content);
    test_folder_remove(folder);
}

/* ---- CSV ---- */

static void test_csv(void **state)
{
    static const char text[] = "\xEF\xBB\xBFx,\"the \"\"y\"\"\",class\r\n1,-2.5e1,3\r\n\"4\",.5,-1";
    static const char *const columns[] = {"the \"y\"", "0"};
    const bg_csv_options plain = {.label = "class"}, chosen = {.columns = columns, .column_count = 2};
    bg_array features = {0}, labels = {0}, none = {0};
    (void)state;

    assert_int_equal(bgi_csv_parse("t", text, sizeof text - 1, &plain, NULL, &features, &labels, NULL), BG_OK);
    assert_memory_equal(features.data, ((float[]){1, -25, 4, 0.5F}), 4 * sizeof(float));
    assert_memory_equal(labels.data, ((int32_t[]){3, -1}), 2 * sizeof(int32_t));
    bg_array_clear(&features);
    bg_array_clear(&labels);
    assert_int_equal(bgi_csv_parse("t", text, sizeof text - 1, &chosen, NULL, &features, &none, NULL), BG_OK);
    assert_memory_equal(features.data, ((float[]){-25, 1, 0.5F, 4}), 4 * sizeof(float));
    assert_null(none.data);
    bg_array_clear(&features);
}

static void test_csv_refusals(void **state)
{
    static const struct {
        const char *text, *label, *words;
    } cases[] = {
        {"", NULL, "t:1: the file is empty"},
        {"a,b\n", NULL, "t:2: the file has no lines"},
        {"a,b\n1\n", NULL, "t:2: the line has 1 fields but must have 2"},
        {"a,b\n1,2,3\n", NULL, "t:2: field 3: the line has more fields"},
        {"a,b\n1,2\n3,x\n", NULL, "t:3: column `b`: `x` is not a number"},
        {"a\nnan\n", NULL, "t:2: column `a`: `nan` is a missing value, but every row needs a number here"},
        {"a,b\n1, NA\n", NULL, "t:2: column `b`: ` NA` is a missing value"},
        {"a,b\n1,-\n", NULL, "t:2: column `b`: `-` is not a number"},
        {"a\n0x1\n", NULL, "is not a number"},
        {"a\n1e999\n", NULL, "too large"},
        {"a\n1e39\n", NULL, "too large for float32"},
        {"a,b\n,1\n", NULL,
         "t:2: column `a`: the field is empty, but every row needs a number here; fill the gaps, or leave such rows "
         "out: --skip-incomplete"},
        {"a\n\"1\n", NULL, "t:2: field 1: the quoted field has no closing quote"},
        {"a\n\"1\"2\n", NULL, "there is text after the closing quote"},
        {"a,b\n1,0.5\n", "b", "t:2: column `b`: the label must be a whole number"},
        {"a,b\n1,2\n", "c", "there is no column `c`"},
        {"a\n1\n", "a", "no column besides the label"}};
    (void)state;

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const bg_csv_options options = {.label = cases[c].label};
        bg_array features = {0}, labels = {0};
        bg_error error = {0};

        assert_int_not_equal(
            bgi_csv_parse("t", cases[c].text, strlen(cases[c].text), &options, NULL, &features, &labels, &error),
            BG_OK);
        assert_says(&error, cases[c].words);
        assert_null(features.data);
        assert_null(labels.data);
    }
}

/* Rows are left out if a value is missing in a column that is read or in a column that is only checked. */
static void test_csv_skipping(void **state)
{
    static const char text[] =
        "a,b,c,d\n1,2,3,x\n,2,4,x\n5,NA,6,x\n7,8,-Inf,x\n9,10,11,x\n12, n/a ,null,x\n13,14,15,\n";
    static const char *const columns[] = {"a", "b"}, *const more[] = {"2"};
    const bgi_csv_columns checked = {.names = more, .count = 1}, all = {.has_all = true};
    bg_csv_options options = {.columns = columns, .column_count = 2, .skip_incomplete = true, .label = "c"};
    bg_array features = {0}, labels = {0};
    uint64_t skipped = 0;
    bg_error error = {0};
    (void)state;

    options.out_skipped = &skipped;
    assert_int_equal(bgi_csv_parse("t", text, sizeof text - 1, &options, NULL, &features, &labels, &error), BG_OK);
    assert_int_equal(skipped, 4);
    assert_int_equal(features.type.dims[0], 3);
    assert_memory_equal(features.data, ((float[]){1, 2, 9, 10, 13, 14}), 6 * sizeof(float));
    assert_memory_equal(labels.data, ((int32_t[]){3, 11, 15}), 3 * sizeof(int32_t));
    bg_array_clear(&features);
    bg_array_clear(&labels);
    options.label = NULL;
    assert_int_equal(bgi_csv_parse("t", text, sizeof text - 1, &options, NULL, &features, &labels, &error), BG_OK);
    assert_int_equal(skipped, 3);
    bg_array_clear(&features);
    assert_int_equal(bgi_csv_parse("t", text, sizeof text - 1, &options, &checked, &features, &labels, &error), BG_OK);
    assert_int_equal(skipped, 4);
    assert_int_equal(features.type.dims[0], 3);
    bg_array_clear(&features);
    assert_int_equal(bgi_csv_parse("t", text, sizeof text - 1, &options, &all, &features, &labels, &error),
                     BG_ERROR_PARSE);
    assert_says(&error, "t:2: column `d`: `x` is not a number");
    bg_error_clear(&error);
    options.column_count = 0;
    options.has_no_header = true;
    assert_int_equal(bgi_csv_parse("t", "1,\nnan,3\n", 9, &options, NULL, &features, &labels, &error), BG_ERROR_PARSE);
    assert_says(&error, "t:1: each of the 2 rows has a missing value");
    bg_error_clear(&error);
    options.skip_incomplete = false;
    assert_int_equal(bgi_csv_parse("t", "1,\nnan,3\n", 9, &options, NULL, &features, &labels, &error), BG_ERROR_PARSE);
    assert_says(&error, "t:1: column 1 (from 0): the field is empty");
    assert_null(features.data);
}

/* ---- PNG ---- */

static void test_png(void **state)
{
    bg_array image = {0};
    (void)state;

    /* Byte i of the stored values is 7 * i. */
    assert_int_equal(bg_png_read(corpus("png/gray"), 0, &image, NULL), BG_OK);
    assert_int_equal(image.type.dims[0], 1);
    for (int i = 0; i < 12; i++)
        assert_int_equal(((uint8_t *)image.data)[i], 7 * i);
    bg_array_clear(&image);
    assert_int_equal(bg_png_read(corpus("png/rgb"), 3, &image, NULL), BG_OK);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 6; i++)
            assert_int_equal(((uint8_t *)image.data)[6 * c + i], 7 * (3 * i + c));
    bg_array_clear(&image);
    assert_int_equal(bg_png_read(corpus("png/rgb"), 1, &image, NULL), BG_OK);
    assert_int_equal(((uint8_t *)image.data)[1], (21 * 19595 + 28 * 38470 + 35 * 7471 + 32768) >> 16);
    bg_array_clear(&image);
    assert_int_equal(bg_png_read(corpus("png/gray"), 4, &image, NULL), BG_OK);
    assert_int_equal(((uint8_t *)image.data)[12 * 2 + 5], 35);
    assert_int_equal(((uint8_t *)image.data)[12 * 3 + 5], 255);
    bg_array_clear(&image);
    assert_int_equal(bg_png_read(corpus("png/palette"), 3, &image, NULL), BG_OK);
    assert_memory_equal(image.data, ((uint8_t[]){1, 4, 7, 4, 2, 5, 8, 5, 3, 6, 9, 6}), 12);
    bg_array_clear(&image);
}

static void test_png_refusals(void **state)
{
    static const bad_file cases[] = {{"png/deep", "a channel has 16 bits", BG_ERROR_UNSUPPORTED},
                                     {"png/huge", "must have 1 to 32768", BG_ERROR_PARSE},
                                     {"png/cut", "truncated there", BG_ERROR_PARSE},
                                     {"png/empty", "is not a PNG image", BG_ERROR_PARSE},
                                     {"png/short", "byte", BG_ERROR_PARSE},
                                     {"png/color5", "color type 5 does not exist", BG_ERROR_PARSE},
                                     {"png/zero", "0 x 1 pixels", BG_ERROR_PARSE},
                                     {"png/no_palette", "byte", BG_ERROR_PARSE}};
    (void)state;

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bg_array image = {0};
        bg_error error = {0};

        assert_int_equal(bg_png_read(corpus(cases[c].file), 1, &image, &error), cases[c].status);
        assert_says(&error, cases[c].words);
        assert_null(image.data);
    }
}

static void copy_image(const char *folder, const char *class, const char *name, const char *from)
{
    char path[256], *content = NULL;
    size_t size = 0;

    snprintf(path, sizeof path, "%s/%s", folder, class);
    assert_int_equal(bgi_folder_create(path, NULL), BG_OK);
    snprintf(path, sizeof path, "%s/%s/%s", folder, class, name);
    assert_int_equal(bgi_file_load(corpus(from), 1 << 20, &content, &size, NULL), BG_OK);
    assert_int_equal(bgi_file_save(path, content, size, NULL), BG_OK);
    free(content);
}

static void test_image_folders(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    bg_dataset *dataset = NULL;
    bg_loader *loader = NULL;
    bg_error error = {0};
    bg_batch batch;
    (void)state;

    test_folder_create(folder);
    assert_int_equal(bg_dataset_open_images(folder, 1, &dataset, &error), BG_ERROR_NOT_FOUND);
    assert_says(&error, "there are no images in the folder; it must have a folder for each class");
    copy_image(folder, "dog", "b.png", "png/gray");
    copy_image(folder, "cat", "z.png", "png/gray");
    copy_image(folder, "dog", "a.png", "png/gray");
    copy_image(folder, "dog", "notes.txt", "png/cut");
    assert_int_equal(bg_dataset_open_images(folder, 2, &dataset, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_dataset_open_images(folder, 1, &dataset, NULL), BG_OK);
    batch = read_batch(&loader, dataset, 3, NULL);
    assert_memory_equal(batch.tensors[1], ((int32_t[]){0, 1, 1}), 12);
    assert_int_equal(((const uint8_t *)batch.tensors[0])[12 + 3], 21);
    bg_loader_destroy(loader);
    bg_dataset_destroy(dataset);
    copy_image(folder, "dog", "c.png", "png/rgb");
    assert_int_equal(bg_dataset_open_images(folder, 1, &dataset, NULL), BG_OK);
    bg_error_clear(&error);
    read_batch(&loader, dataset, 4, &error);
    assert_int_equal(error.status, BG_ERROR_SHAPE);
    assert_says(&error, "dog/c.png: 3 x 2 pixels, but the first image");
    bg_loader_destroy(loader);
    bg_dataset_destroy(dataset);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy_values),
        cmocka_unit_test(test_npy_refusals),
        cmocka_unit_test(test_npz),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_tokens_that_shrink),
        cmocka_unit_test(test_large_token_files),
        cmocka_unit_test(test_arrays_stay_when_their_file_shrinks),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_refusals),
        cmocka_unit_test(test_csv_skipping),
        cmocka_unit_test(test_png),
        cmocka_unit_test(test_png_refusals),
        cmocka_unit_test(test_image_folders),
    };
    return cmocka_run_group_tests_name("data/readers", tests, NULL, NULL);
}
