/*
 * test_initialize.c: first values of variables are functions of seed, number and element, with the wanted distribution.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <brigade/random.h>

#include "kernels/reference/element.h"
#include "runtime/initialize.h"

enum { COUNT = 20001 };

static void a_longer_variable_begins_like_a_shorter_one(void **state)
{
    static const bg_initializer_kind kinds[] = {BG_INITIALIZE_UNIFORM, BG_INITIALIZE_NORMAL,
                                                BG_INITIALIZE_TRUNCATED_NORMAL};

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        const bg_initializer initializer = {kinds[k], 0.25, 2.0};
        static float all[COUNT], some[COUNT];
        bg_type type = bg_vector(BG_FLOAT32, COUNT);
        bgi_initialize(&type, &initializer, 7, 3, 1, all);
        for (int64_t count = 1; count < 12; count++) {
            type = bg_vector(BG_FLOAT32, count);
            memset(some, 0, sizeof some);
            bgi_initialize(&type, &initializer, 7, 3, 1, some);
            assert_memory_equal(some, all, (size_t)count * sizeof *some);
            assert_true(some[count] == 0.0f);
        }
        type = bg_vector(BG_FLOAT32, COUNT);
        bgi_initialize(&type, &initializer, 7, 4, 1, some);
        assert_memory_not_equal(some, all, 16);
        bgi_initialize(&type, &initializer, 8, 3, 1, some);
        assert_memory_not_equal(some, all, 16);
        bgi_initialize(&type, &initializer, 7 + (UINT64_C(1) << 32), 3, 1, some);
        assert_memory_not_equal(some, all, 16);
    }
}

static void threads_change_no_bit(void **state)
{
    enum { MANY = 3 * (1 << 16) + 7 };
    static const bg_initializer_kind kinds[] = {BG_INITIALIZE_CONSTANT, BG_INITIALIZE_UNIFORM,
                                                BG_INITIALIZE_TRUNCATED_NORMAL};
    static float alone[MANY], together[MANY];
    const bg_type type = bg_vector(BG_FLOAT32, MANY);

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        const bg_initializer initializer = {kinds[k], 0.5, 1.0};
        bgi_initialize(&type, &initializer, 7, 3, 1, alone);
        for (uint32_t threads = 2; threads < 9; threads += 3) {
            memset(together, 0, sizeof together);
            bgi_initialize(&type, &initializer, 7, 3, threads, together);
            assert_memory_equal(together, alone, sizeof alone);
        }
    }
}

static void moments(const bg_initializer *initializer, double *mean, double *deviation, double *low, double *high)
{
    static float values[COUNT];
    const bg_type type = bg_vector(BG_FLOAT32, COUNT);
    double sum = 0.0, squares = 0.0;

    bgi_initialize(&type, initializer, 11, 0, 1, values);
    *low = *high = values[0];
    for (int i = 0; i < COUNT; i++) {
        sum += values[i];
        *low = fmin(*low, values[i]);
        *high = fmax(*high, values[i]);
    }
    *mean = sum / COUNT;
    for (int i = 0; i < COUNT; i++)
        squares += (values[i] - *mean) * (values[i] - *mean);
    *deviation = sqrt(squares / COUNT);
}

static void the_distribution_is_the_one_asked_for(void **state)
{
    double mean, deviation, low, high;

    (void)state;
    moments(&(bg_initializer){BG_INITIALIZE_UNIFORM, -1.0, 3.0}, &mean, &deviation, &low, &high);
    assert_true(fabs(mean - 1.0) < 0.03 && fabs(deviation - 4.0 / sqrt(12.0)) < 0.02);
    assert_true(low >= -1.0 && low < -0.99 && high < 3.0 && high > 2.99);
    moments(&(bg_initializer){BG_INITIALIZE_NORMAL, 0.5, 0.02}, &mean, &deviation, &low, &high);
    assert_true(fabs(mean - 0.5) < 0.001 && fabs(deviation - 0.02) < 0.0005);
    assert_true(low < 0.5 - 3 * 0.02 && high > 0.5 + 3 * 0.02 && low > 0.5 - 6 * 0.02 && high < 0.5 + 6 * 0.02);
    /* cut at two deviations, which leaves 0.8796 of one */
    moments(&(bg_initializer){BG_INITIALIZE_TRUNCATED_NORMAL, 0.5, 0.02}, &mean, &deviation, &low, &high);
    assert_true(fabs(mean - 0.5) < 0.001 && fabs(deviation - 0.8796 * 0.02) < 0.0004);
    assert_true(low >= 0.46f && low < 0.4605 && high <= 0.54f && high > 0.5395);
    moments(&(bg_initializer){BG_INITIALIZE_CONSTANT, 1.25, 9.0}, &mean, &deviation, &low, &high);
    assert_true(low == 1.25 && high == 1.25);
}

/* Uniform values by hand from the generator's words. */
static void uniform_values_are_the_words_of_a_block(void **state)
{
    const bg_initializer initializer = {BG_INITIALIZE_UNIFORM, -0.3, 0.9};
    const bg_type type = bg_vector(BG_FLOAT32, 7);
    const uint64_t seed = UINT64_C(0x123456789abcdef0);
    const uint32_t key[2] = {0x9abcdef0u, 0x12345678u};
    float values[7];

    (void)state;
    bgi_initialize(&type, &initializer, seed, 5, 1, values);
    for (uint32_t i = 0; i < 7; i++) {
        const uint32_t counter[4] = {i / 4, 0, 5, 0x74696e69u};
        uint32_t words[4];
        bg_philox(counter, key, words);
        assert_true(values[i] == -0.3f + (0.9f - -0.3f) * ((float)(words[i % 4] >> 8) * 0x1p-24f));
    }
}

static void other_types_follow_float32(void **state)
{
    static const bg_initializer kinds[] = {{BG_INITIALIZE_UNIFORM, -0.3, 0.9}, {BG_INITIALIZE_NORMAL, 1.0, 0.1}};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        float single[9];
        double wide[9];
        uint16_t narrow[2][9];
        const bg_type types[] = {bg_vector(BG_FLOAT32, 9), bg_vector(BG_FLOAT64, 9), bg_vector(BG_BFLOAT16, 9),
                                 bg_vector(BG_FLOAT16, 9)};
        bgi_initialize(&types[0], &kinds[k], 1, 2, 1, single);
        bgi_initialize(&types[1], &kinds[k], 1, 2, 1, wide);
        bgi_initialize(&types[2], &kinds[k], 1, 2, 1, narrow[0]);
        bgi_initialize(&types[3], &kinds[k], 1, 2, 1, narrow[1]);
        for (int i = 0; i < 9; i++) {
            assert_true(fabs(wide[i] - single[i]) < 1e-6);
            assert_int_equal(narrow[0][i], bgi_bfloat16_from_float(single[i]));
            assert_int_equal(narrow[1][i], bgi_float16_from_float(single[i]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_longer_variable_begins_like_a_shorter_one),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(the_distribution_is_the_one_asked_for),
        cmocka_unit_test(uniform_values_are_the_words_of_a_block),
        cmocka_unit_test(other_types_follow_float32),
    };

    return cmocka_run_group_tests_name("initialize", tests, NULL, NULL);
}
