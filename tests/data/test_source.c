/*
 * test_source.c: opens data by the name of a file. Every format gives the same samples (files in tests/oracle/train),
 * and errors about names list the existing names.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <brigade/readers.h>

#include "data/source.h"
#include "formats/csv.h"
#include "support/folder.h"

#define FILES "tests/oracle/train/"

static bg_error error;

static void require(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

static void assert_says(const char *words)
{
    if (strstr(error.message, words) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", error.message, words);
}

static bg_dataset *open_source(const char *source)
{
    bg_dataset *set = NULL;

    require(bg_dataset_open(source, &set, &error));
    return set;
}

/* Reads the bytes of sample `index`. */
static void read_sample(const bg_dataset *set, uint32_t index, void *out)
{
    unsigned char *const places[] = {out};
    void *scratch = bgi_dataset_scratch(set);
    size_t failed = 0;

    require(bgi_dataset_gather(set, 0, &index, 1, places, scratch, &failed, &error));
    free(scratch);
}

static void assert_same(const char *source, const char *like, const char *type)
{
    bg_dataset *set = open_source(source), *wanted = open_source(like);
    const size_t bytes = bg_type_size_bytes(bg_dataset_sample_type(wanted, 0));
    char text[BG_TYPE_TEXT_BYTES];
    unsigned char *a = malloc(bytes), *b = malloc(bytes);

    assert_int_equal(bg_dataset_tensor_count(set), 1);
    assert_int_equal(bg_dataset_sample_count(set), bg_dataset_sample_count(wanted));
    assert_string_equal(bg_type_text(bg_dataset_sample_type(set, 0), text), type);
    for (uint32_t i = 0; i < bg_dataset_sample_count(set); i++) {
        read_sample(set, i, a);
        read_sample(wanted, i, b);
        assert_memory_equal(a, b, bytes);
    }
    free(a);
    free(b);
    bg_dataset_destroy(set);
    bg_dataset_destroy(wanted);
}

static void test_forms_have_the_same_samples(void **state)
{
    (void)state;
    assert_same(FILES "images-idx3-ubyte.gz", FILES "images.npy", "uint8[8,8]");
    assert_same(FILES "data.safetensors:images", FILES "images.npy", "uint8[8,8]");
    assert_same(FILES "photos", FILES "photos", "uint8[1,8,8]");
    assert_same(FILES "photos:classes", FILES "photos.npz:labels", "int32[]");
}

static void test_columns(void **state)
{
    bg_dataset *set = open_source(FILES "table.csv:age,area");

    (void)state;
    assert_int_equal(bg_dataset_sample_count(set), 45);
    assert_int_equal(bg_dataset_sample_type(set, 0)->dims[0], 2);
    bg_dataset_destroy(set);
    set = open_source(FILES "table.csv");
    assert_int_equal(bg_dataset_sample_type(set, 0)->dims[0], 5);
    bg_dataset_destroy(set);
    set = open_source(FILES "table.csv:2");
    assert_int_equal(bg_dataset_sample_type(set, 0)->rank, 0);
    bg_dataset_destroy(set);
}

/* Columns are read in the given order; a table may have no header. */
static void test_column_values(void **state)
{
    static const char table[] = "a,b,c\n1,2,3\n4,5,6.5\n", plain[] = "-1.5,2\n3,4\n", quoted[] = "\"a\",b\n7,8\n";
    const float wanted[] = {3, 1, 6.5f, 4}, all[] = {-1.5f, 2, 3, 4}, one[] = {8};
    bg_array array = {.data = NULL};

    (void)state;
    require(bgi_source_parse("t", BGI_SOURCE_CSV, "c,a", table, sizeof table - 1, &array, &error));
    assert_int_equal(array.type.rank, 2);
    assert_memory_equal(array.data, wanted, sizeof wanted);
    bg_array_clear(&array);
    require(bgi_source_parse("t", BGI_SOURCE_CSV, NULL, plain, sizeof plain - 1, &array, &error));
    assert_int_equal(array.type.dims[0], 2);
    assert_memory_equal(array.data, all, sizeof all);
    bg_array_clear(&array);
    require(bgi_source_parse("t", BGI_SOURCE_CSV, "b", quoted, sizeof quoted - 1, &array, &error));
    assert_int_equal(array.type.rank, 1);
    assert_memory_equal(array.data, one, sizeof one);
    bg_array_clear(&array);
}

/* The first line is a header if its first field is a name; if the first field is empty, the other fields decide. */
static void test_header_lines(void **state)
{
    static const struct {
        const char *table;
        bool has_header;
    } cases[] = {{"a,1\n", true},
                 {" a , b\n", true},
                 {"2020-01-01,b\n", true},
                 {"a", true},
                 {"\"a,b\",1\n", true},
                 {",a,b\n0,", true},
                 {"\"\",\"a\"\r\n", true},
                 {"nan,a\n", true},
                 {"\xEF\xBB\xBF,a\n", true},
                 {"1,a\n", false},
                 {" 1.5 ,a\n", false},
                 {"1e3,2\n", false},
                 {",1,2\n", false},
                 {",a,2\n", false},
                 {",a,\n", false},
                 {",a,NA\n", false},
                 {"NA,1\n", false},
                 {"\n1,2\n", false},
                 {",\n", false},
                 {"\xEF\xBB\xBF\x31,2\n", false},
                 {",\"a\n", false},
                 {"", false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (bgi_csv_has_header(cases[i].table, strlen(cases[i].table)) != cases[i].has_header)
            fail_msg("`%s`", cases[i].table);
}

/* pandas writes an index as a first column without a name, which has a number. */
static void test_unnamed_column(void **state)
{
    static const char table[] = ",a,b\n0,1,2\n1,3,4\n", bad[] = ",a\nx,1\n";
    const float named[] = {2, 1, 4, 3}, numbered[] = {0, 1}, all[] = {0, 1, 2, 1, 3, 4};
    bg_array array = {.data = NULL};

    (void)state;
    require(bgi_source_parse("t", BGI_SOURCE_CSV, "b,a", table, sizeof table - 1, &array, &error));
    assert_int_equal(array.type.dims[0], 2);
    assert_memory_equal(array.data, named, sizeof named);
    bg_array_clear(&array);
    require(bgi_source_parse("t", BGI_SOURCE_CSV, "0", table, sizeof table - 1, &array, &error));
    assert_memory_equal(array.data, numbered, sizeof numbered);
    bg_array_clear(&array);
    require(bgi_source_parse("t", BGI_SOURCE_CSV, NULL, table, sizeof table - 1, &array, &error));
    assert_memory_equal(array.data, all, sizeof all);
    bg_array_clear(&array);
    assert_int_equal(bgi_source_parse("t", BGI_SOURCE_CSV, "0", bad, sizeof bad - 1, &array, &error), BG_ERROR_PARSE);
    assert_says("t:2: column 0 (from 0): `x` is not a number");
}

/* Rows without a value in one of the columns are left out of all columns. */
static void test_complete_rows(void **state)
{
    static const char table[] = "a,b,c\n1,2,3\n4,,6\n7,8,nan\n9,10,11\n";
    char folder[TEST_FOLDER_BYTES], names[3][128], other[128];
    const char *const sources[] = {names[0], names[1]}, *const mixed[] = {names[0], other},
                      *const kinds[] = {names[0], FILES "images.npy"}, *const alone[] = {names[2]};
    bg_dataset *sets[2] = {NULL};
    uint64_t skipped = 0;
    float value;
    FILE *file;

    (void)state;
    test_folder_create(folder);
    snprintf(names[0], sizeof names[0], "%s/t.csv:a,c", folder);
    snprintf(names[1], sizeof names[1], "%s/t.csv:b", folder);
    snprintf(names[2], sizeof names[2], "%s/t.csv", folder);
    snprintf(other, sizeof other, "%s/u.csv:b", folder);
    file = fopen(names[2], "w");
    assert_non_null(file);
    fputs(table, file);
    fclose(file);
    require(bgi_sources_open_complete(sources, 2, sets, &skipped, &error));
    assert_int_equal(skipped, 2);
    assert_int_equal(bg_dataset_sample_count(sets[0]), 2);
    assert_int_equal(bg_dataset_sample_count(sets[1]), 2);
    read_sample(sets[1], 1, &value);
    assert_true(value == 10);
    bg_dataset_destroy(sets[0]);
    bg_dataset_destroy(sets[1]);
    require(bgi_sources_open_complete(alone, 1, sets, &skipped, &error));
    assert_int_equal(bg_dataset_sample_type(sets[0], 0)->dims[0], 3);
    bg_dataset_destroy(sets[0]);
    bg_error_clear(&error);
    assert_int_equal(bgi_sources_open_complete(mixed, 2, sets, &skipped, &error), BG_ERROR_INVALID);
    assert_says("u.csv are different files, whose rows cannot be left out together");
    assert_null(sets[0]);
    bg_error_clear(&error);
    assert_int_equal(bgi_sources_open_complete(kinds, 2, sets, &skipped, &error), BG_ERROR_INVALID);
    assert_says("images.npy: rows with missing values can be left out only of a CSV file");
    test_folder_remove(folder);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *source;
        bg_status status;
        const char *words;
    } cases[] = {
        {FILES "none.npy", BG_ERROR_NOT_FOUND, "none.npy: cannot open"},
        {FILES "none.npz:a", BG_ERROR_NOT_FOUND, "none.npz: cannot open"},
        {FILES "images.npy:a", BG_ERROR_INVALID, "a .npy file has no named parts; leave `:a` out"},
        {FILES "labels-idx1-ubyte:a", BG_ERROR_INVALID, "an IDX file has no named parts; leave `:a` out"},
        {FILES "test.npz", BG_ERROR_INVALID,
         "the name of the array is missing; add one after a colon (the file has `images`, `labels`)"},
        {FILES "test.npz:image", BG_ERROR_NOT_FOUND, "there is no array `image`; the file has `images`, `labels`"},
        {FILES "data.safetensors", BG_ERROR_INVALID,
         "the name of the tensor is missing; add one after a colon (the file has `images`, `labels`)"},
        {FILES "data.safetensors:x", BG_ERROR_NOT_FOUND, "there is no tensor `x`; the file has `images`, `labels`"},
        {FILES "table.csv:x", BG_ERROR_NOT_FOUND, "there is no column `x`"},
        {FILES "table.csv:area,,age", BG_ERROR_INVALID, "column 1 of the list has no name"},
        {FILES "photos:labels", BG_ERROR_NOT_FOUND, "a folder of images has no part of that name; use"},
        {"src", BG_ERROR_NOT_FOUND, "there are no images"},
        {"README.md", BG_ERROR_PARSE, "read as an IDX file, because the name does not end in"},
        {"tests/fuzz/corpus/npy/cut", BG_ERROR_PARSE, "read as an IDX file"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_dataset *set = NULL;

        assert_int_equal(bg_dataset_open(cases[i].source, &set, &error), cases[i].status);
        assert_says(cases[i].words);
        assert_null(set);
    }
}

/* An array of rank 0 has no samples. A colon in the name of an existing file belongs to the name. */
static void test_files_of_our_own(void **state)
{
    const bg_type types[] = {bg_scalar(BG_FLOAT32), bg_vector(BG_INT64, 3), bg_vector(BG_BFLOAT16, 3)};
    const int64_t values[] = {5, -6, (int64_t)1 << 40};
    char folder[TEST_FOLDER_BYTES], path[128];
    int64_t sample;
    bg_array array = {.data = (void *)(uintptr_t)values};
    bg_dataset *set = NULL;

    (void)state;
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/a:b.npy", folder);
    array.type = types[0];
    require(bg_npy_write(path, &array, &error));
    assert_int_equal(bg_dataset_open(path, &set, &error), BG_ERROR_SHAPE);
    assert_says("is a single number but must have a first dimension for the samples");
    array.type = types[1];
    require(bg_npy_write(path, &array, &error));
    set = open_source(path);
    for (uint32_t i = 0; i < 3; i++) {
        read_sample(set, i, &sample);
        assert_true(sample == values[i]);
    }
    bg_dataset_destroy(set);
    array.type = types[2];
    assert_int_equal(bg_npy_write(path, &array, &error), BG_ERROR_UNSUPPORTED);
    assert_says("cannot write bfloat16[3] as .npy");
    snprintf(path, sizeof path, "%s/none/a.npy", folder);
    array.type = types[1];
    assert_int_equal(bg_npy_write(path, &array, &error), BG_ERROR_NOT_FOUND);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_have_the_same_samples),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_column_values),
        cmocka_unit_test(test_header_lines),
        cmocka_unit_test(test_unnamed_column),
        cmocka_unit_test(test_complete_rows),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_files_of_our_own),
    };
    return cmocka_run_group_tests_name("data/source", tests, NULL, NULL);
}
