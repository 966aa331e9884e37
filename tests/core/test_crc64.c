/*
 * Compares CRC-64 with its published check value and with its bitwise definition, and checks that CRCs of parts combine
 * to the CRC of the whole.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/crc64.h"

static uint64_t compute(const void *data, size_t size_bytes)
{
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    bgi_crc64_add(&crc, data, size_bytes);
    return bgi_crc64_value(&crc);
}

/* Computes the CRC by dividing polynomials bit by bit. */
static uint64_t compute_slowly(const unsigned char *data, size_t size_bytes)
{
    uint64_t value = ~(uint64_t)0;

    for (size_t i = 0; i < size_bytes * 8; i++) {
        value ^= data[i / 8] >> i % 8 & 1;
        value = value >> 1 ^ ((value & 1) != 0 ? 0xc96c5795d7870f42u : 0);
    }
    return ~value;
}

static void test_published_check_value(void **state)
{
    (void)state;
    assert_true(compute("123456789", 9) == 0x995dc9bbdf1939fau);
    assert_true(compute("", 0) == 0);
}

static void test_definition_and_parts(void **state)
{
    unsigned char data[67];
    (void)state;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i * 7 + 3 * i);
    for (size_t end = 0; end <= sizeof data; end++) {
        const uint64_t expected = compute_slowly(data, end);
        for (size_t cut = 0; cut <= end; cut++) {
            bgi_crc64 crc;
            bgi_crc64_init(&crc);
            bgi_crc64_add(&crc, data, cut);
            bgi_crc64_add(&crc, data + cut, end - cut);
            assert_true(bgi_crc64_value(&crc) == expected);
        }
    }
}

/* The fast implementation, on processors that have its instructions, gives the same values as the table for every
 * length and alignment, in one part and in several. */
static void test_long_data_as_by_table(void **state)
{
    static unsigned char data[1200];
    bgi_crc64 fast, slow;
    (void)state;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i * 131 + 17 * i + (i >> 3));
    for (size_t begin = 0; begin < 17; begin++)
        for (size_t size = 0; begin + size <= sizeof data; size += size < 300 ? 1 : 61) {
            bgi_crc64_init(&slow);
            slow.folds = false;
            bgi_crc64_add(&slow, data + begin, size);
            bgi_crc64_init(&fast);
            bgi_crc64_add(&fast, data + begin, size);
            assert_true(bgi_crc64_value(&fast) == bgi_crc64_value(&slow));
            bgi_crc64_init(&fast);
            bgi_crc64_add(&fast, data + begin, size / 3);
            bgi_crc64_add(&fast, data + begin + size / 3, size - size / 3);
            assert_true(bgi_crc64_value(&fast) == bgi_crc64_value(&slow));
        }
    assert_true(compute(data, sizeof data) == compute_slowly(data, sizeof data));
}

/* The CRC of a part that was computed separately is joined to the CRC of the data before it. */
static void test_parts_are_joined(void **state)
{
    static unsigned char data[700];
    (void)state;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i * 29 + 5 * i);
    for (size_t cut = 0; cut <= sizeof data; cut += cut < 20 ? 1 : 37) {
        bgi_crc64 crc, part;
        bgi_crc64_init(&crc);
        bgi_crc64_init(&part);
        part.value = 0;
        bgi_crc64_add(&crc, data, cut);
        bgi_crc64_add(&part, data + cut, sizeof data - cut);
        bgi_crc64_join(&crc, part.value, sizeof data - cut);
        assert_true(bgi_crc64_value(&crc) == compute(data, sizeof data));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_check_value),
        cmocka_unit_test(test_definition_and_parts),
        cmocka_unit_test(test_long_data_as_by_table),
        cmocka_unit_test(test_parts_are_joined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
