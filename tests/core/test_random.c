/*
 * Compares Philox with the published known answers of Random123, and checks the distributions of numbers made from its
 * output.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/random.h"

#include <math.h>
#include <string.h>

static void test_philox_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t out[4], in_place[4];

        bg_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].expected, sizeof out);
        memcpy(in_place, cases[i].counter, sizeof in_place);
        bg_philox(in_place, cases[i].key, in_place);
        assert_memory_equal(in_place, cases[i].expected, sizeof in_place);
    }
}

static void test_stream_hands_out_blocks_in_order(void **state)
{
    bgi_random random = bgi_random_make(0x1122334455667788u, 0x99aabbccddeeff00u);
    const uint32_t key[2] = {0x55667788, 0x11223344};
    (void)state;

    for (uint32_t block = 0; block < 5; block++) {
        const uint32_t counter[4] = {block, 0, 0xddeeff00, 0x99aabbcc};
        uint32_t expected[4];

        bg_philox(counter, key, expected);
        for (int i = 0; i < 4; i++)
            assert_int_equal(bgi_random_word(&random), expected[i]);
    }
}

static void test_block_counter_carries(void **state)
{
    bgi_random random = bgi_random_make(1, 2);
    const uint32_t counter[4] = {0, 1, 2, 0};
    uint32_t expected[4];
    (void)state;

    random.counter[0] = 0xffffffff;
    for (int i = 0; i < 4; i++)
        bgi_random_word(&random);
    bg_philox(counter, random.key, expected);
    assert_int_equal(bgi_random_word(&random), expected[0]);
}

static void test_uniform_range_and_mean(void **state)
{
    enum { COUNT = 200000 };
    bgi_random random = bgi_random_make(3, 0);
    double sum = 0;
    (void)state;

    for (int i = 0; i < COUNT; i++) {
        const float value = bgi_random_uniform(&random);
        assert_true(value >= 0.0f && value < 1.0f);
        sum += value;
    }
    /* The tolerance is six standard deviations of the mean of COUNT uniform values. */
    assert_true(fabs(sum / COUNT - 0.5) < 6 * sqrt(1.0 / 12 / COUNT));
    assert_true(bgi_uniform_from_word(0xffffffff) == 1.0f - 0x1p-24f);
    assert_true(bgi_uniform_from_word(0xff) == 0.0f);
}

static void test_normal_moments(void **state)
{
    enum { COUNT = 100000 };
    bgi_random random = bgi_random_make(4, 0);
    double sum = 0, squares = 0, fourth = 0, extreme[2];
    (void)state;

    for (int i = 0; i < COUNT; i++) {
        double pair[2];

        bgi_random_normal_pair(&random, pair);
        for (int j = 0; j < 2; j++) {
            sum += pair[j];
            squares += pair[j] * pair[j];
            fourth += pair[j] * pair[j] * pair[j] * pair[j];
        }
    }
    assert_true(fabs(sum / (2 * COUNT)) < 6 / sqrt(2.0 * COUNT));
    assert_true(fabs(squares / (2 * COUNT) - 1) < 6 * sqrt(2 / (2.0 * COUNT)));
    assert_true(fabs(fourth / (2 * COUNT) - 3) < 6 * sqrt(96 / (2.0 * COUNT)));
    bgi_normal_from_words(0, 0, extreme);
    assert_true(isfinite(extreme[0]) && extreme[0] > 6.6 && extreme[0] < 6.7);
    bgi_normal_from_words(0xffffffff, 0, extreme);
    assert_true(extreme[0] == 0.0);
}

static void test_below_is_uniform(void **state)
{
    enum { BOUND = 7, COUNT = 140000 };
    bgi_random random = bgi_random_make(5, 0);
    int hits[BOUND] = {0};
    double chi_squared = 0;
    (void)state;

    for (int i = 0; i < COUNT; i++) {
        const uint32_t value = bgi_random_below(&random, BOUND);
        assert_true(value < BOUND);
        hits[value]++;
    }
    for (int i = 0; i < BOUND; i++)
        chi_squared += pow(hits[i] - COUNT / BOUND, 2) / (COUNT / BOUND);
    assert_true(chi_squared < 30); /* 6 degrees of freedom: one chance in 25000 */
    assert_int_equal(bgi_random_below(&random, 1), 0);
}

/* With a bound of three quarters of 2^32, a plain multiplication or remainder would favor a third of the values. */
static void test_below_large_bound_is_unbiased(void **state)
{
    enum { COUNT = 60000 };
    const uint32_t bound = 0xC0000000u;
    bgi_random random = bgi_random_make(6, 0);
    int thirds[3] = {0}, remainders[3] = {0};
    (void)state;

    for (int i = 0; i < COUNT; i++) {
        const uint32_t value = bgi_random_below(&random, bound);
        assert_true(value < bound);
        thirds[value / 0x40000000u]++;
        remainders[value % 3]++;
    }
    for (int i = 0; i < 3; i++) {
        assert_in_range(thirds[i], COUNT / 3 - 700, COUNT / 3 + 700);
        assert_in_range(remainders[i], COUNT / 3 - 700, COUNT / 3 + 700);
    }
}

static void test_shuffle_gives_every_order_equally(void **state)
{
    enum { ROUNDS = 24000 };
    bgi_random random = bgi_random_make(7, 0);
    int hits[256] = {0}, orders = 0;
    (void)state;

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t items[4] = {0, 1, 2, 3};

        bgi_random_shuffle(&random, items, 4);
        hits[items[0] << 6 | items[1] << 4 | items[2] << 2 | items[3]]++;
    }
    for (int i = 0; i < 256; i++) {
        if (hits[i] == 0)
            continue;
        orders++;
        assert_in_range(hits[i], ROUNDS / 24 - 200, ROUNDS / 24 + 200);
    }
    assert_int_equal(orders, 24);
    bgi_random_shuffle(&random, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_stream_hands_out_blocks_in_order),
        cmocka_unit_test(test_block_counter_carries),
        cmocka_unit_test(test_uniform_range_and_mean),
        cmocka_unit_test(test_normal_moments),
        cmocka_unit_test(test_below_is_uniform),
        cmocka_unit_test(test_below_large_bound_is_unbiased),
        cmocka_unit_test(test_shuffle_gives_every_order_equally),
    };
    return cmocka_run_group_tests_name("core/random", tests, NULL, NULL);
}
