/*
 * Compares the fast functions of levels.h with the table, which defines the results.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "data/levels.h"
#include "support/isa.h"

enum { MOST_BYTES = 1000, CANARY = -1 };

static void assert_converts(const bgi_levels *levels, float mean, float deviation)
{
    unsigned char bytes[MOST_BYTES];
    float out[MOST_BYTES + 1];

    for (size_t i = 0; i < MOST_BYTES; i++)
        bytes[i] = (unsigned char)(i * 97 + 5);
    /* Counts leave every remainder by the width of a vector, and begin at different positions. */
    for (size_t count = 0; count < MOST_BYTES; count = count < 70 ? count + 1 : count * 3 / 2) {
        const size_t start = count % 7;

        out[count] = CANARY;
        levels->convert(levels, bytes + start, count, out);
        assert_true(out[count] == CANARY);
        for (size_t i = 0; i < count; i++) {
            const float scaled = (float)bytes[start + i] / 255.0F, wanted = (scaled - mean) / deviation;

            assert_memory_equal(&out[i], &wanted, sizeof wanted);
        }
    }
}

static void test_every_form_has_the_bits_of_the_definition(void **state)
{
    static const float means[] = {0, 0.1307F, 0.485F, 0.456F, -3, 1e20F};
    static const float deviations[] = {1, 0.3081F, 0.229F, 0.225F, -0.5F, 1.9999999F, 1e-20F, 255};
    (void)state;

    for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa))
        for (size_t m = 0; m < sizeof means / sizeof means[0]; m++)
            for (size_t d = 0; d < sizeof deviations / sizeof deviations[0]; d++) {
                bgi_levels levels;

                bgi_levels_init(&levels, means[m], deviations[d], (bgi_isa)isa);
                assert_converts(&levels, means[m], deviations[d]);
            }
}

/* If a divisor is so small that its reciprocal is infinite, the table is used, because multiplying by the reciprocal
 * would be wrong. */
static void test_a_divisor_that_the_fast_form_cannot_take(void **state)
{
    const float deviation = 1e-39F;
    bgi_levels levels, usual;
    (void)state;

    bgi_levels_init(&levels, 0.5F, deviation, bgi_cpu_isa());
    bgi_levels_init(&usual, 0.5F, 0.25F, bgi_cpu_isa());
    assert_true(isinf(levels.reciprocal));
    assert_converts(&levels, 0.5F, deviation);
    if (bgi_cpu_isa() >= BGI_ISA_AVX2)
        assert_true(levels.convert != usual.convert);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form_has_the_bits_of_the_definition),
        cmocka_unit_test(test_a_divisor_that_the_fast_form_cannot_take),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
