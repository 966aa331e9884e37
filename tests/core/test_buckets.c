/*
 * test_buckets.c: tests a counting sort of numbered items.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/buckets.h"

static void test_items_are_in_the_bucket_of_their_key(void **state)
{
    const uint32_t keys[] = {3, 0, BGI_NO_BUCKET, 3, 1, 7, 0, 3};
    const uint32_t wanted[] = {1, 6, 4, 0, 3, 7}, begins[] = {0, 2, 3, 3, 6};
    bgi_arena arena = {0};
    bgi_buckets buckets;
    uint32_t seen = 0;

    (void)state;
    assert_true(bgi_buckets_fill(&buckets, &arena, 4, sizeof keys / sizeof keys[0], keys));
    for (uint32_t key = 0; key < 4; key++) {
        assert_int_equal(buckets.begins[key], begins[key]);
        BGI_FOR_BUCKET(buckets, key, at)
        {
            assert_int_equal(buckets.items[at], wanted[at]);
            assert_int_equal(keys[buckets.items[at]], key);
            seen++;
        }
    }
    assert_int_equal(seen, 6);
    assert_int_equal(buckets.begins[4], 6);
    bgi_arena_clear(&arena);
}

static void test_nothing_to_sort(void **state)
{
    bgi_arena arena = {0};
    bgi_buckets buckets;

    (void)state;
    assert_true(bgi_buckets_fill(&buckets, &arena, 0, 0, NULL));
    assert_int_equal(buckets.begins[0], 0);
    assert_true(bgi_buckets_fill(&buckets, &arena, 2, 0, NULL));
    assert_int_equal(buckets.begins[2], 0);
    bgi_arena_clear(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_items_are_in_the_bucket_of_their_key),
                                       cmocka_unit_test(test_nothing_to_sort)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
