/*
 * test_crc32c.c: compares CRC-32C with the values of RFC 3720 (appendix B.4) and with the check value of the catalog of
 * parameterized CRCs. It also checks the mask of TFRecord.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/crc32c.h"

static void test_published_values(void **state)
{
    unsigned char bytes[32];
    (void)state;

    assert_int_equal(bgi_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(bgi_crc32c("", 0), 0);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(bgi_crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(bgi_crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(bgi_crc32c(bytes, sizeof bytes), 0x46dd794e);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    assert_int_equal(bgi_crc32c(bytes, sizeof bytes), 0x113fdb5c);
}

static void test_mask(void **state)
{
    (void)state;
    /* The mask is 0xe3069283 rotated right by 15 bits, plus the constant. */
    assert_int_equal(bgi_crc32c_masked("123456789", 9), (uint32_t)(0x2507c60du + 0xa282ead8u));
    assert_int_equal(bgi_crc32c_masked("", 0), 0xa282ead8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published_values), cmocka_unit_test(test_mask)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
