/*
 * test_narrow.c: compares conversions of 16-bit floats with IEEE 754 values computed in double. It tests every float16,
 * every float that equals a float16 or is halfway between two, and the neighbors of these floats.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "core/narrow.h"

enum { INFINITE = 0x7c00 };

/* Computes the value of a float16 from its parts. Infinity gets the value that the next exponent would have. */
static double value_of(uint32_t half)
{
    const int exponent = (int)(half >> 10 & 31);
    const double fraction = half & 1023;
    const double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024.0 + fraction, exponent - 25);

    return half & 0x8000 ? -size : size;
}

/* Finds by bisection the float16 that is nearest to a positive number; of two equally near ones, the one whose last bit
 * is 0. */
static uint32_t find_nearest(double value)
{
    uint32_t low = 0, high = INFINITE;

    if (value >= value_of(INFINITE))
        return INFINITE;
    while (high - low > 1)
        if (value_of((low + high) / 2) <= value)
            low = (low + high) / 2;
        else
            high = (low + high) / 2;
    if (value - value_of(low) == value_of(high) - value)
        return low % 2 == 0 ? low : high;
    return value - value_of(low) < value_of(high) - value ? low : high;
}

static void test_every_float16_to_float(void **state)
{
    (void)state;
    for (uint32_t half = 0; half <= 0xffff; half++) {
        const float found = bgi_float16_to_float((uint16_t)half);
        const bool is_finite = (half & INFINITE) != INFINITE;

        assert_int_equal(signbit(found) != 0, half >> 15);
        if (is_finite)
            assert_true((double)found == value_of(half));
        else if ((half & 1023) == 0)
            assert_true(isinf(found));
        else /* a quiet NaN, with the fraction in its upper bits */
            assert_int_equal(bgi_float_bits(found) & 0x7fffffff, 0x7fc00000 | (half & 1023) << 13);
        assert_int_equal(bgi_float16_from_float(found), is_finite || (half & 1023) == 0 ? half : half | 0x200);
    }
}

static void check_float(float value)
{
    const uint32_t wanted = find_nearest((double)value);

    if (bgi_float16_from_float(value) != wanted || bgi_float16_from_float(-value) != (wanted | 0x8000))
        fail_msg("%a gives %#x and %#x, not %#x", (double)value, bgi_float16_from_float(value),
                 bgi_float16_from_float(-value), wanted);
}

static void test_floats_to_float16(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (uint32_t half = 0; half < INFINITE; half++) {
        const double here = value_of(half), middle = (here + value_of(half + 1)) / 2;

        for (int i = 0; i < 2; i++) {
            const float at = (float)(i == 0 ? here : middle); /* both exact */
            check_float(at);
            check_float(nextafterf(at, INFINITY));
            if (at > 0.0f)
                check_float(nextafterf(at, 0.0f));
        }
    }
    for (int i = 0; i < 200000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if ((random >> 33 & 0x7f800000) != 0x7f800000)
            check_float(bgi_float_from_bits((uint32_t)(random >> 33)));
    }
    check_float(INFINITY);
    assert_int_equal(bgi_float16_from_float(65519.996f), 0x7bff);
    assert_int_equal(bgi_float16_from_float(65520.0f), INFINITE);
}

static void test_no_numbers(void **state)
{
    (void)state;
    assert_int_equal(bgi_float16_from_float(bgi_float_from_bits(0x7f800001)), 0x7e00);
    assert_int_equal(bgi_float16_from_float(bgi_float_from_bits(0xff802000)), 0xfe01);
    assert_int_equal(bgi_float16_from_float(bgi_float_from_bits(0x7fffffff)), 0x7fff);
    assert_int_equal(bgi_bfloat16_from_float(bgi_float_from_bits(0x7f800001)), 0x7fc0);
}

static void test_types(void **state)
{
    (void)state;
    for (bg_dtype dtype = BG_DTYPE_NONE; dtype < BG_DTYPE_COUNT; dtype++) {
        assert_int_equal(bgi_dtype_is_narrow(dtype), bg_dtype_is_float(dtype) && bg_dtype_size_bytes(dtype) == 2);
        assert_int_equal(bgi_dtype_is_single(dtype), bg_dtype_is_float(dtype) && bg_dtype_size_bytes(dtype) <= 4);
        assert_int_equal(bg_dtype_find(bg_dtype_name(dtype)), dtype);
    }
    assert_string_equal(bg_dtype_name(BG_FLOAT16), "float16");
    for (int i = 0; i < 2; i++) {
        const bg_dtype dtype = i == 0 ? BG_BFLOAT16 : BG_FLOAT16;
        const float value = i == 0 ? 1.0f + 0x1p-7f : 1.0f + 0x1p-10f; /* the next number after 1 */
        assert_true(bgi_narrow_to_float(dtype, bgi_narrow_from_float(dtype, value)) == value);
        assert_int_equal(bgi_narrow_from_float(dtype, value), bgi_narrow_from_float(dtype, 1.0f) + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_float16_to_float),
        cmocka_unit_test(test_floats_to_float16),
        cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
