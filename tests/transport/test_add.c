/*
 * test_add.c: every implementation of sums over members gives the same bits as the plain loop. Sums are in order, in
 * place and at unaligned addresses, for counts around the widths of vectors, with infinities, NaN and subnormals.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/random.h"
#include "support/isa.h"
#include "transport/add.h"

enum { MOST_TERMS = 17, MOST_COUNT = 133, ROOM = MOST_COUNT + 40 };

static float memory[MOST_TERMS][ROOM], wanted[ROOM], written[ROOM];

/* Makes numbers whose sum depends on their order in its last bits, and a few infinities, NaN and subnormal numbers. */
static void fill(bgi_random *random)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN, FLT_MIN / 8, -FLT_MIN / 8, FLT_MAX, -0.0F};

    for (uint32_t term = 0; term < MOST_TERMS; term++)
        for (size_t i = 0; i < ROOM; i++) {
            const uint32_t draw = bgi_random_word(random);
            memory[term][i] = ldexpf((float)(int32_t)draw, (int)(draw % 13) - 40);
            if (draw % 29 == 0)
                memory[term][i] = odd[draw / 29 % (sizeof odd / sizeof *odd)];
        }
}

static void check(bgi_add add, uint32_t term_count, size_t count, size_t shift, bool in_place)
{
    const float *terms[MOST_TERMS];
    float *to = in_place ? memory[term_count / 2] + shift : written + shift;

    for (uint32_t term = 0; term < term_count; term++)
        terms[term] = memory[term] + shift;
    for (size_t i = 0; i < count; i++) {
        float sum = terms[0][i];
        for (uint32_t term = 1; term < term_count; term++)
            sum += terms[term][i];
        wanted[i] = sum;
    }
    to[count] = 77.0F;
    add(to, terms, term_count, count);
    for (size_t i = 0; i < count; i++)
        if (!isnan(wanted[i]) || !isnan(to[i])) /* the bits of a NaN are not specified */
            assert_memory_equal(&to[i], &wanted[i], sizeof wanted[i]);
    assert_true(to[count] == 77.0F);
}

static void test_forms(void **state)
{
    bgi_random random = bgi_random_make(5, 0);
    (void)state;

    for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa)) {
        const bgi_add add = bgi_add_choose((bgi_isa)isa);
        for (uint32_t term_count = 1; term_count <= MOST_TERMS; term_count++)
            for (size_t count = 0; count <= MOST_COUNT; count += 1 + count / 40) {
                fill(&random);
                check(add, term_count, count, count % 7, false);
                fill(&random);
                check(add, term_count, count, count % 5, true);
            }
    }
}

/* Checks that the widest available implementation is used. */
static void test_choice(void **state)
{
    (void)state;
    if (bgi_add_avx512() != NULL) {
        assert_true(bgi_add_choose(BGI_ISA_AVX512) == bgi_add_avx512());
        assert_true(bgi_add_choose(BGI_ISA_AMX) == bgi_add_avx512());
    }
    if (bgi_add_avx2() != NULL)
        assert_true(bgi_add_choose(BGI_ISA_AVX2) == bgi_add_avx2());
    assert_true(bgi_add_choose(BGI_ISA_PORTABLE) != bgi_add_choose(BGI_ISA_AVX2) || bgi_add_avx2() == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_choice)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
