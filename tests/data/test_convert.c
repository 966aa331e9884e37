/*
 * test_convert.c: converts samples to other element types and shapes, normalizes them as torchvision does, and combines
 * data sets (zip.c).
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

#include <brigade/readers.h>

#include "core/narrow.h"
#include "data/dataset.h"

enum { SAMPLES = 3, PIXELS = 4 };

static const uint8_t bytes[SAMPLES][PIXELS] = {{0, 1, 128, 255}, {7, 7, 7, 7}, {255, 0, 3, 9}};
static const int64_t integers[SAMPLES] = {-3, 100, 70000};
static const float floats[SAMPLES][2] = {{1, 2}, {-4, 300}, {1.5f, 0}};
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

static bg_dataset *make(bg_type type, const void *data)
{
    const bg_array array = {.type = type, .data = (void *)(uintptr_t)data};
    bg_dataset *set = NULL;

    require(bg_dataset_create_arrays(&array, 1, &set, &error));
    return set;
}

static bg_dataset *make_bytes(void)
{
    return make(bg_matrix(BG_UINT8, SAMPLES, PIXELS), bytes);
}

/* Writes a sample of a data set that has the same samples from a callback instead of memory. */
static bg_status get_bytes(void *user, uint64_t epoch, uint64_t index, void *const outputs[], bg_error *failure)
{
    (void)user, (void)epoch, (void)failure;
    memcpy(outputs[0], bytes[index], PIXELS);
    return BG_OK;
}

static bg_dataset *make_called(void)
{
    const bg_type type = bg_vector(BG_UINT8, PIXELS);
    const bg_dataset_options options = {
        .sample_count = SAMPLES, .tensor_count = 1, .sample_types = &type, .get = get_bytes};
    bg_dataset *set = NULL;

    require(bg_dataset_create(&options, &set, &error));
    return set;
}

/* Returns a data set that converts the source's only tensor and owns the source. */
static bg_dataset *convert(bg_dataset *source, const bg_convert_options *options)
{
    bg_dataset *set = NULL;

    require(bg_dataset_convert(source, options, &set, &error));
    bg_dataset_destroy(source);
    return set;
}

static bg_status read_all(const bg_dataset *set, unsigned char *const tensors[])
{
    const uint32_t indices[SAMPLES] = {2, 0, 1};
    void *scratch = bgi_dataset_scratch(set);
    size_t failed = SAMPLES;
    const bg_status status = bgi_dataset_gather(set, 0, indices, SAMPLES, tensors, scratch, &failed, &error);

    free(scratch);
    return status;
}

static void test_bytes_become_floats(void **state)
{
    const bg_convert_options options = {.type = bg_tensor3(BG_FLOAT32, 1, 2, 2)};
    float out[SAMPLES][PIXELS];
    unsigned char *const tensors[] = {(unsigned char *)out};

    (void)state;
    for (int is_called = 0; is_called < 2; is_called++) {
        bg_dataset *set = convert(is_called ? make_called() : make_bytes(), &options);

        assert_true(bg_type_equal(bg_dataset_sample_type(set, 0), &options.type));
        memset(out, 0xff, sizeof out);
        require(read_all(set, tensors));
        for (int i = 0; i < PIXELS; i++) {
            assert_true(out[0][i] == (float)bytes[2][i]);
            assert_true(out[1][i] == (float)bytes[0][i]);
            assert_true(out[2][i] == (float)bytes[1][i]);
        }
        bg_dataset_destroy(set);
    }
}

/* The result is bit-identical to that of bg_dataset_normalize, which equals torchvision's. */
static void test_normalization(void **state)
{
    const float means[] = {0.4f, 0.1f, 0.25f, 0.5f}, deviations[] = {0.3f, 0.2f, 1.5f, -2.0f};
    float out[SAMPLES][PIXELS], wanted[SAMPLES][PIXELS];
    unsigned char *const tensors[] = {(unsigned char *)out}, *const others[] = {(unsigned char *)wanted};

    (void)state;
    for (uint32_t channels = 1; channels <= PIXELS; channels += PIXELS - 1) {
        const bg_convert_options options = {
            .type = bg_vector(BG_FLOAT32, PIXELS), .channel_count = channels, .means = means, .deviations = deviations};
        const bg_normalize_options normal = {.channel_count = channels, .means = means, .deviations = deviations};
        bg_dataset *source = make_bytes(), *like = NULL, *set;

        require(bg_dataset_normalize(source, &normal, &like, &error));
        set = convert(source, &options);
        require(read_all(set, tensors));
        require(read_all(like, others));
        assert_memory_equal(out, wanted, sizeof out);
        bg_dataset_destroy(set);
        bg_dataset_destroy(like);
    }
}

/* Only bytes are divided by 255, not elements of other types. */
static void test_floats_are_normalized(void **state)
{
    const float mean = 1.0f, deviation = 2.0f;
    const bg_convert_options options = {
        .type = bg_vector(BG_FLOAT32, 2), .channel_count = 1, .means = &mean, .deviations = &deviation};
    bg_dataset *set = convert(make(bg_matrix(BG_FLOAT32, SAMPLES, 2), floats), &options);
    float out[SAMPLES][2];
    unsigned char *const tensors[] = {(unsigned char *)out};

    (void)state;
    require(read_all(set, tensors));
    assert_true(out[0][0] == 0.25f && out[0][1] == -0.5f && out[2][0] == -2.5f && out[2][1] == 149.5f);
    bg_dataset_destroy(set);
}

static void test_integers_fit_or_fail(void **state)
{
    static const struct {
        bg_dtype to;
        const char *words; /* NULL: all fit */
    } cases[] = {{BG_INT64, NULL},
                 {BG_INT32, NULL},
                 {BG_UINT8, "sample 2: element 0 of tensor 0 is 70000, which does not fit uint8"},
                 {BG_FLOAT64, NULL}};
    unsigned char out[SAMPLES * 8];
    unsigned char *const tensors[] = {out};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bg_convert_options options = {.type = bg_scalar(cases[i].to)};
        bg_dataset *set = convert(make(bg_vector(BG_INT64, SAMPLES), integers), &options);
        const bg_status status = read_all(set, tensors);

        if (cases[i].words != NULL) {
            assert_int_equal(status, BG_ERROR_PARSE);
            assert_says(cases[i].words);
        } else {
            require(status);
            assert_true(cases[i].to != BG_INT32 || ((const int32_t *)(const void *)out)[1] == -3);
            assert_true(cases[i].to != BG_INT64 || ((const int64_t *)(const void *)out)[0] == 70000);
            assert_true(cases[i].to != BG_FLOAT64 || ((const double *)(const void *)out)[2] == 100.0);
        }
        bg_dataset_destroy(set);
    }
}

static void test_floats_become_integers_when_whole(void **state)
{
    const float odd[SAMPLES] = {1, 2, NAN}, halves[SAMPLES] = {1, 2, 1.5f}, whole[SAMPLES] = {-1, 2, 3};
    const bg_convert_options options = {.type = bg_scalar(BG_INT32)};
    int32_t out[SAMPLES];
    unsigned char *const tensors[] = {(unsigned char *)out};
    bg_dataset *set = convert(make(bg_vector(BG_FLOAT32, SAMPLES), whole), &options);

    (void)state;
    require(read_all(set, tensors));
    assert_true(out[0] == 3 && out[1] == -1 && out[2] == 2);
    bg_dataset_destroy(set);
    set = convert(make(bg_vector(BG_FLOAT32, SAMPLES), halves), &options);
    assert_int_equal(read_all(set, tensors), BG_ERROR_PARSE);
    assert_says("is 1.5, which does not fit int32");
    bg_dataset_destroy(set);
    set = convert(make(bg_vector(BG_FLOAT32, SAMPLES), odd), &options);
    assert_int_equal(read_all(set, tensors), BG_ERROR_PARSE);
    assert_says("is nan, which does not fit int32");
    bg_dataset_destroy(set);
}

/* All whole floats that int64 can represent are converted. */
static void test_the_largest_floats_become_integers(void **state)
{
    const float fit[SAMPLES] = {0x1.fffffep62f, -0x1p63f, 0x1.8p62f}, beyond[SAMPLES] = {0, 0x1p63f, 0};
    const float below[SAMPLES] = {0, 0, -0x1.000002p63f};
    const bg_convert_options options = {.type = bg_scalar(BG_INT64)};
    int64_t out[SAMPLES];
    unsigned char *const tensors[] = {(unsigned char *)out};
    bg_dataset *set = convert(make(bg_vector(BG_FLOAT32, SAMPLES), fit), &options);

    (void)state;
    require(read_all(set, tensors));
    assert_true(out[1] == INT64_C(0x7fffff8000000000) && out[2] == INT64_MIN && out[0] == INT64_C(3) << 61);
    bg_dataset_destroy(set);
    set = convert(make(bg_vector(BG_FLOAT32, SAMPLES), beyond), &options);
    assert_int_equal(read_all(set, tensors), BG_ERROR_PARSE);
    assert_says("is 9.22337204e+18, which does not fit int64; it must be a whole number of 64 bits");
    bg_dataset_destroy(set);
    set = convert(make(bg_vector(BG_FLOAT32, SAMPLES), below), &options);
    assert_int_equal(read_all(set, tensors), BG_ERROR_PARSE);
    bg_dataset_destroy(set);
}

static void test_narrow_floats(void **state)
{
    const bg_dtype types[] = {BG_FLOAT16, BG_BFLOAT16};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const bg_convert_options there = {.type = bg_vector(types[i], 2)}, back = {.type = bg_vector(BG_FLOAT32, 2)};
        bg_dataset *set = convert(convert(make(bg_matrix(BG_FLOAT32, SAMPLES, 2), floats), &there), &back);
        float out[SAMPLES][2];
        unsigned char *const tensors[] = {(unsigned char *)out};

        require(read_all(set, tensors));
        assert_memory_equal(out[1], floats[0], sizeof floats[0]);
        assert_memory_equal(out[0], floats[2], sizeof floats[2]);
        bg_dataset_destroy(set);
    }
}

/* Zeros and ones of any type become bools. The error for another number has the file, the sample, the element and the
 * number. */
static void test_bools(void **state)
{
    static const uint8_t good_bytes[SAMPLES][2] = {{0, 1}, {1, 1}, {0, 0}}, bad_bytes[SAMPLES][2] = {{0, 1}, {1, 2}};
    static const int64_t good_integers[SAMPLES][2] = {{0, 1}, {1, 1}, {0, 0}},
                         bad_integers[SAMPLES][2] = {{0, 1}, {0, 0}, {-1, 0}}, large[SAMPLES][2] = {{256, 257}};
    static const float good_floats[SAMPLES][2] = {{-0.0f, 1}, {1, 1}, {0, 0}}, half[SAMPLES][2] = {{0, 0.5f}},
                       two[SAMPLES][2] = {{0, 1}, {2, 2}};
    const struct {
        bg_dtype dtype;
        const void *data;
        const char *words; /* NULL: no error */
    } cases[] = {
        {BG_UINT8, good_bytes, NULL},
        {BG_INT64, good_integers, NULL},
        {BG_FLOAT32, good_floats, NULL},
        {BG_UINT8, bad_bytes, "--input x=m.npy: sample 1: element 1 is 2, but the input is bool; it must be 0 or 1"},
        {BG_INT64, bad_integers, "--input x=m.npy: sample 2: element 0 is -1, but the input is bool"},
        {BG_INT64, large, "--input x=m.npy: sample 0: element 0 is 256, but the input is bool"},
        {BG_FLOAT32, half, "--input x=m.npy: sample 0: element 1 is 0.5, but the input is bool"},
        {BG_FLOAT32, two, "--input x=m.npy: sample 1: element 0 is 2, but the input is bool"},
    };
    const bg_type type = bg_vector(BG_UINT8, 2), other = bg_vector(BG_UINT8, 3);
    const uint8_t expected[SAMPLES][2] = {{0, 0}, {0, 1}, {1, 1}};
    uint8_t out[SAMPLES][2];
    unsigned char *const tensors[] = {(unsigned char *)out};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_dataset *source = make(bg_matrix(cases[i].dtype, SAMPLES, 2), cases[i].data), *set = NULL;

        require(bgi_dataset_convert_bools(source, &type, "--input x=m.npy", &set, &error));
        memset(out, 7, sizeof out);
        if (cases[i].words == NULL) {
            require(read_all(set, tensors));
            assert_memory_equal(out, expected, sizeof out);
        } else {
            assert_int_equal(read_all(set, tensors), BG_ERROR_PARSE);
            assert_says(cases[i].words);
            bg_error_clear(&error);
        }
        bg_dataset_destroy(set);
        set = NULL;
        assert_int_equal(bgi_dataset_convert_bools(source, &other, "--input x=m.npy", &set, &error), BG_ERROR_SHAPE);
        assert_null(set);
        bg_error_clear(&error);
        bg_dataset_destroy(source);
    }
}

static void test_conversions_that_cannot_be(void **state)
{
    const float zero = 0.0f, one = 1.0f;
    const struct {
        bg_convert_options options;
        bg_status status;
        const char *words;
    } cases[] = {
        {{.type = bg_vector(BG_FLOAT32, 5)},
         BG_ERROR_SHAPE,
         "samples are uint8[4], which does not have the number of elements"},
        {{.type = bg_vector(BG_FLOAT32, PIXELS), .tensor_index = 1}, BG_ERROR_INVALID, "tensor 1 of 1"},
        {{.type = bg_vector(BG_INT32, PIXELS), .channel_count = 1, .means = &one, .deviations = &one},
         BG_ERROR_INVALID,
         "normalization makes floats, but int32 was requested"},
        {{.type = bg_vector(BG_FLOAT32, PIXELS), .channel_count = 3, .means = &one, .deviations = &one},
         BG_ERROR_INVALID,
         "3 channels are given for samples of uint8[4]; give 1, or one for each element of their first dimension"},
        {{.type = bg_vector(BG_FLOAT32, PIXELS), .channel_count = 1, .means = &one, .deviations = &zero},
         BG_ERROR_INVALID,
         "the mean is 1 and the deviation is 0 for channel 0"},
    };
    bg_dataset *source = make_bytes(), *set = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(bg_dataset_convert(source, &cases[i].options, &set, &error), cases[i].status);
        assert_says(cases[i].words);
        assert_null(set);
    }
    bg_dataset_destroy(source);
}

/* ---- zip ---- */

static void test_zip(void **state)
{
    const bg_convert_options options = {.type = bg_vector(BG_FLOAT32, PIXELS)};
    float pixels[SAMPLES][PIXELS], pairs[SAMPLES][2];
    int64_t labels[SAMPLES];
    unsigned char *const tensors[] = {(unsigned char *)pixels, (unsigned char *)labels, (unsigned char *)pairs};
    unsigned char *const some[] = {NULL, (unsigned char *)labels, NULL};

    (void)state;
    for (int is_called = 0; is_called < 2; is_called++) {
        bg_dataset *sources[] = {convert(is_called ? make_called() : make_bytes(), &options),
                                 make(bg_vector(BG_INT64, SAMPLES), integers),
                                 make(bg_matrix(BG_FLOAT32, SAMPLES, 2), floats)};
        bg_dataset *set = NULL;

        require(bg_dataset_zip(sources, 3, &set, &error));
        for (int i = 0; i < 3; i++)
            bg_dataset_destroy(sources[i]);
        assert_int_equal(bg_dataset_tensor_count(set), 3);
        require(read_all(set, tensors));
        assert_true(pixels[0][0] == 255.0f && labels[0] == 70000 && pairs[0][0] == 1.5f);
        assert_true(pixels[2][3] == 7.0f && labels[2] == 100 && pairs[2][1] == 300.0f);
        assert_int_equal(set->may_skip, !is_called);
        if (set->may_skip) {
            memset(labels, 0, sizeof labels);
            require(read_all(set, some));
            assert_true(labels[1] == -3);
        }
        bg_dataset_destroy(set);
    }
}

static void test_zips_that_cannot_be(void **state)
{
    bg_dataset *sources[] = {make_bytes(), make(bg_vector(BG_INT64, 2), integers)}, *set = NULL;

    (void)state;
    assert_int_equal(bg_dataset_zip(sources, 0, &set, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_dataset_zip(sources, 2, &set, &error), BG_ERROR_SHAPE);
    assert_says("data set 1 has 2 samples, but data set 0 has 3");
    assert_null(set);
    bg_dataset_destroy(sources[0]);
    bg_dataset_destroy(sources[1]);
}

static bg_dataset *open_columns(const char *path, const char *columns)
{
    const char *names[2] = {(char[]){columns[0], 0}, (char[]){columns[1], 0}};
    const bg_csv_options options = {
        .skip_incomplete = true, .columns = names, .column_count = columns[1] != '\0' ? 2 : 1};
    bg_dataset *set = NULL;

    require(bg_dataset_open_csv(path, &options, &set, &error));
    return set;
}

/* Data sets of one table match if skip_incomplete leaves out the same rows of it, not if it leaves out as many. */
static void test_zip_of_complete_rows(void **state)
{
    static const char path[] = "build/tests/data/complete_rows.csv";
    static const struct {
        const char *columns[2];
        bg_status status;
        const char *words;
    } cases[] = {
        {{"ab", "c"}, BG_ERROR_INVALID, "data sets 0 and 2 were opened with skip_incomplete and leave out different"},
        {{"ab", "d"},
         BG_ERROR_SHAPE,
         "data set 2 has 3 samples, but data set 0 has 2; all must have the same number. "},
        {{"ab", "a"}, BG_OK, NULL},
        {{"ab", "c"}, BG_ERROR_INVALID, "divide its samples with bg_dataset_map"},
        {{"b", "d"}, BG_OK, NULL},
    };
    FILE *file = fopen(path, "w");
    (void)state;

    assert_non_null(file);
    assert_true(fputs("a,b,c,d\n1,2,,4\n,6,7,8\n9,10,11,12\n", file) >= 0 && fclose(file) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_dataset *sources[3] = {open_columns(path, cases[i].columns[0]), NULL,
                                  open_columns(path, cases[i].columns[1])};
        bg_dataset *set = NULL, *taken = NULL;

        sources[1] = make(bg_vector(BG_FLOAT32, (int64_t)bg_dataset_sample_count(sources[0])), floats);
        assert_int_equal(bg_dataset_zip(sources, 3, &set, &error), cases[i].status);
        if (cases[i].words != NULL)
            assert_says(cases[i].words);
        require(bg_dataset_take(sources[2], 2, &taken, &error)); /* now the numbers of samples are equal */
        bg_dataset_destroy(sources[2]);
        sources[2] = taken;
        if (cases[i].status == BG_ERROR_SHAPE)
            assert_int_equal(bg_dataset_zip(sources, 3, &set, &error), BG_ERROR_INVALID);
        for (int s = 0; s < 3; s++)
            bg_dataset_destroy(sources[s]);
        bg_dataset_destroy(set);
    }
    assert_int_equal(remove(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_become_floats),
        cmocka_unit_test(test_normalization),
        cmocka_unit_test(test_floats_are_normalized),
        cmocka_unit_test(test_bools),
        cmocka_unit_test(test_integers_fit_or_fail),
        cmocka_unit_test(test_floats_become_integers_when_whole),
        cmocka_unit_test(test_the_largest_floats_become_integers),
        cmocka_unit_test(test_narrow_floats),
        cmocka_unit_test(test_conversions_that_cannot_be),
        cmocka_unit_test(test_zip),
        cmocka_unit_test(test_zips_that_cannot_be),
        cmocka_unit_test(test_zip_of_complete_rows),
    };
    return cmocka_run_group_tests_name("data/convert", tests, NULL, NULL);
}
