/*
 * Generated digits depend only on (seed, index), are the same on every machine, and are balanced and distinguishable.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/digit_strokes.h"
#include "data/md5.h"

#include <brigade/data.h>

#include <stdlib.h>
#include <string.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE };

static void make(bg_image_set *set, uint64_t seed, uint64_t first, uint64_t count)
{
    const bg_digits_options options = {.seed = seed, .first_index = first, .count = count};
    bg_error error = {0};

    memset(set, 0, sizeof *set);
    if (bg_digits_create(&options, set, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void test_style_table(void **state)
{
    bool seen[BG_DIGITS_CLASSES] = {false};
    (void)state;

    for (size_t i = 0; i < bgi_digit_style_count; i++) {
        const bgi_digit_style *style = &bgi_digit_styles[i];

        assert_in_range(style->digit, i == 0 ? 0 : bgi_digit_styles[i - 1].digit, BG_DIGITS_CLASSES - 1);
        assert_in_range(style->weight, 1, 20);
        assert_in_range(style->width_percent, 20, 100);
        assert_in_range(style->stroke_count, 1, BGI_STYLE_STROKES);
        for (int j = 0; j < style->stroke_count; j++) {
            assert_in_range(style->strokes[j].point_count, 2, BGI_STROKE_POINTS);
            for (int k = 0; k < style->strokes[j].point_count; k++) {
                assert_in_range(style->strokes[j].points[k][0], 0, 100);
                assert_in_range(style->strokes[j].points[k][1], 0, 100);
            }
        }
        seen[style->digit] = true;
    }
    for (int i = 0; i < BG_DIGITS_CLASSES; i++)
        assert_true(seen[i]);
}

static void test_a_sample_is_a_function_of_seed_and_index(void **state)
{
    bg_image_set whole, part, other;
    (void)state;

    make(&whole, 7, 0, 50);
    make(&part, 7, 20, 10);
    make(&other, 8, 0, 50);
    assert_memory_equal((uint8_t *)whole.images.data + 20 * PIXELS, part.images.data, 10 * PIXELS);
    assert_memory_equal((uint8_t *)whole.labels.data + 20, part.labels.data, 10);
    assert_memory_not_equal(whole.images.data, other.images.data, 50 * PIXELS);
    assert_string_equal(part.source, "generated digits, seed 7");
    bg_image_set_clear(&whole);
    bg_image_set_clear(&part);
    bg_image_set_clear(&other);
}

/* The digits have a recorded digest, which is the same with gcc and clang, with and without optimization. It changes if
 * the strokes of the digits do. */
static void test_same_bits_everywhere(void **state)
{
    bg_image_set set;
    char text[BGI_MD5_TEXT_BYTES];
    bgi_md5 md5;
    (void)state;

    make(&set, 1, 1000, 500);
    bgi_md5_init(&md5);
    bgi_md5_add(&md5, set.images.data, 500 * PIXELS);
    bgi_md5_add(&md5, set.labels.data, 500);
    bgi_md5_text(&md5, text);
    assert_string_equal(text, "f2ff46b9007572f7cb6e6b4f35d7a4df");
    bg_image_set_clear(&set);
}

static void test_balance_and_ink(void **state)
{
    enum { COUNT = 5000 };
    int counts[BG_DIGITS_CLASSES] = {0};
    bg_image_set set;
    (void)state;

    make(&set, 3, 0, COUNT);
    assert_int_equal(set.images.type.dims[0], COUNT);
    assert_int_equal(set.images.type.dims[1], SIDE);
    assert_int_equal(set.images.type.dims[2], SIDE);
    assert_int_equal(set.class_count, BG_DIGITS_CLASSES);
    for (int i = 0; i < COUNT; i++) {
        const uint8_t *image = (uint8_t *)set.images.data + (size_t)i * PIXELS;
        int ink = 0, border = 0;

        counts[((uint8_t *)set.labels.data)[i]]++;
        for (int p = 0; p < PIXELS; p++) {
            const bool is_border = p < SIDE || p >= PIXELS - SIDE || p % SIDE == 0 || p % SIDE == SIDE - 1;
            ink += image[p] > 100;
            border += is_border && image[p] > 100;
        }
        assert_in_range(ink, 8, 400);
        assert_in_range(border, 0, 30);
    }
    for (int i = 0; i < BG_DIGITS_CLASSES; i++)
        assert_in_range(counts[i], COUNT / 10 - 130, COUNT / 10 + 130);
    bg_image_set_clear(&set);
}

static uint32_t distance(const uint8_t *a, const uint8_t *b)
{
    uint32_t sum = 0;

    for (int i = 0; i < PIXELS; i++)
        sum += (uint32_t)((a[i] - b[i]) * (a[i] - b[i]));
    return sum;
}

/* The nearest of 3000 other digits almost always has the right label, so digits are neither copies nor noise. (A
 * convolutional network does much better; that is tested with the program that trains one.) */
static void test_nearest_neighbor_accuracy(void **state)
{
    enum { TRAIN = 3000, MOST_TESTS = 200 };
    const int tests = getenv("BRIGADE_TEST_QUICK") != NULL ? 40 : MOST_TESTS;
    bg_image_set train, test;
    int right = 0;
    (void)state;

    make(&train, 11, 0, TRAIN);
    make(&test, 11, TRAIN, MOST_TESTS);
    for (int i = 0; i < tests; i++) {
        const uint8_t *image = (uint8_t *)test.images.data + (size_t)i * PIXELS;
        uint32_t best = UINT32_MAX;
        int label = -1;

        for (int j = 0; j < TRAIN; j++) {
            const uint32_t found = distance(image, (uint8_t *)train.images.data + (size_t)j * PIXELS);

            if (found < best) {
                best = found;
                label = ((uint8_t *)train.labels.data)[j];
            }
        }
        assert_true(best > 0);
        right += label == ((uint8_t *)test.labels.data)[i];
    }
    assert_in_range(right, tests * 60 / 100, tests * 97 / 100);
    bg_image_set_clear(&train);
    bg_image_set_clear(&test);
}

static void test_bad_count(void **state)
{
    const bg_digits_options options = {.count = 0};
    bg_image_set set = {0};
    bg_error error = {0};
    (void)state;

    assert_int_equal(bg_digits_create(&options, &set, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "count is 0 but must be 1 to "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_style_table),
        cmocka_unit_test(test_a_sample_is_a_function_of_seed_and_index),
        cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test(test_balance_and_ink),
        cmocka_unit_test(test_nearest_neighbor_accuracy),
        cmocka_unit_test(test_bad_count),
    };
    return cmocka_run_group_tests_name("data/digits", tests, NULL, NULL);
}
