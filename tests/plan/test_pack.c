/*
 * test_pack.c: compares the packer with its definition, unit by unit and pair by pair. Units that are live at the same
 * time share no byte.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "plan/pack.h"
#include "support/random_model.h"

enum { MOST_UNITS = 40, MOST_SPANS = 5 };

typedef struct problem {
    bgi_unit units[MOST_UNITS];
    bgi_span spans[MOST_UNITS][MOST_SPANS];
    uint32_t count;
} problem;

static void make_problem(problem *p, uint64_t *seed)
{
    const uint32_t moments = 1 + bgi_test_random_below(seed, 30), sizes = 1 + bgi_test_random_below(seed, 12);

    p->count = bgi_test_random_below(seed, MOST_UNITS + 1);
    for (uint32_t i = 0; i < p->count; i++) {
        const uint32_t spans = bgi_test_random_below(seed, MOST_SPANS + 1);
        uint32_t at = bgi_test_random_below(seed, moments);

        for (uint32_t s = 0; s < spans; s++) {
            const uint32_t length = bgi_test_random_below(seed, 6);
            p->spans[i][s] = (bgi_span){at + 1, at + length}; /* length 0: an empty unit */
            at += length + bgi_test_random_below(seed, 4);
        }
        p->units[i] =
            (bgi_unit){.size = 64 * bgi_test_random_below(seed, sizes + 1), .spans = p->spans[i], .span_count = spans};
    }
}

static bool meet(const bgi_unit *a, const bgi_unit *b)
{
    for (uint32_t i = 0; i < a->span_count; i++)
        for (uint32_t k = 0; k < b->span_count; k++)
            if (a->spans[i].first <= a->spans[i].last && b->spans[k].first <= b->spans[k].last &&
                a->spans[i].first <= b->spans[k].last && b->spans[k].first <= a->spans[i].last)
                return true;
    return false;
}

static bool overlaps(const bgi_unit *a, size_t a_offset, const bgi_unit *b, size_t b_offset)
{
    return a->size > 0 && b->size > 0 && a_offset < b_offset + b->size && b_offset < a_offset + a->size;
}

/* Computes offsets and peak by the definition in pack.h. The first `fixed_count` units have fixed offsets. */
static size_t pack_by_pairs(const problem *p, uint32_t fixed_count, size_t limit, size_t *offsets)
{
    bool is_placed[MOST_UNITS] = {false};
    size_t peak = 0;

    memset(offsets, 0, MOST_UNITS * sizeof *offsets);
    for (uint32_t i = 0; i < fixed_count; i++) {
        is_placed[i] = true;
        offsets[i] = p->units[i].offset;
    }
    for (uint32_t n = fixed_count; n < p->count; n++) {
        uint32_t next = MOST_UNITS;
        bool moved = true;

        for (uint32_t i = 0; i < p->count; i++)
            if (!is_placed[i] && (next == MOST_UNITS || p->units[i].size > p->units[next].size))
                next = i;
        while (moved) {
            moved = false;
            for (uint32_t i = 0; i < p->count; i++)
                if (is_placed[i] && offsets[i] != BGI_UNIT_HAS_NO_PLACE && meet(&p->units[i], &p->units[next]) &&
                    overlaps(&p->units[i], offsets[i], &p->units[next], offsets[next])) {
                    offsets[next] = offsets[i] + p->units[i].size;
                    moved = true;
                }
        }
        is_placed[next] = true;
        if (p->units[next].size > 0 && offsets[next] + p->units[next].size > limit)
            offsets[next] = BGI_UNIT_HAS_NO_PLACE;
        else if (offsets[next] + p->units[next].size > peak)
            peak = offsets[next] + p->units[next].size;
    }
    return peak;
}

static void test_units_are_where_the_definition_says(void **state)
{
    uint64_t seed = 5;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        size_t offsets[MOST_UNITS], wanted, peak = 1;
        problem p;

        make_problem(&p, &seed);
        wanted = pack_by_pairs(&p, 0, SIZE_MAX, offsets);
        assert_true(bgi_pack(p.units, p.count, &peak));
        assert_int_equal(peak, wanted);
        for (uint32_t i = 0; i < p.count; i++)
            assert_int_equal(p.units[i].offset, offsets[i]);
    }
}

static void test_units_lie_around_others(void **state)
{
    uint64_t seed = 6;
    unsigned without = 0;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        const size_t limit = 64 * (size_t)bgi_test_random_below(&seed, 40);
        size_t offsets[MOST_UNITS];
        uint32_t fixed;
        problem p;

        make_problem(&p, &seed);
        fixed = bgi_test_random_below(&seed, p.count + 1);
        for (uint32_t i = 0; i < fixed; i++)
            p.units[i].offset = 64 * (size_t)bgi_test_random_below(&seed, 30); /* they may overlap */
        pack_by_pairs(&p, fixed, limit, offsets);
        assert_true(bgi_pack_around(p.units, fixed, p.count, limit));
        for (uint32_t i = 0; i < p.count; i++) {
            assert_int_equal(p.units[i].offset, offsets[i]);
            without += offsets[i] == BGI_UNIT_HAS_NO_PLACE;
        }
    }
    assert_true(without > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_are_where_the_definition_says),
        cmocka_unit_test(test_units_lie_around_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
