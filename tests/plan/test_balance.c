/*
 * test_balance.c: compares the cut into stages with brute force over thousands of random sequences of items, with
 * speeds, budgets, depths and values that several items stash. It also tests errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/balance.h"
#include "support/random_model.h"

enum { MOST_ITEMS = 9, MOST_STAGES = 5, MOST_VALUES = 6, MOST_KEPT = MOST_ITEMS * MOST_VALUES, MOST_REFUSED = 6 };

typedef struct line {
    bgi_balance balance;
    bgi_balance_item items[MOST_ITEMS];
    bgi_kept kept[MOST_KEPT];
    bool keeps[MOST_ITEMS]
              [MOST_VALUES]; /* whether the item stashes the value; kept[] has the same in the form of the balance */
    size_t value_bytes[MOST_VALUES];
    double speeds[MOST_STAGES];
    size_t budgets[MOST_STAGES];
    uint32_t depths[MOST_STAGES];
    bgi_refused_stage refused[MOST_REFUSED];
} line;

static void add_kept(line *l)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < l->balance.item_count; i++) {
        l->items[i].kept = &l->kept[count];
        for (uint32_t v = 0; v < MOST_VALUES; v++) {
            uint32_t next = i + 1;
            if (!l->keeps[i][v])
                continue;
            while (next < l->balance.item_count && !l->keeps[next][v])
                next++;
            l->kept[count++] = (bgi_kept){l->value_bytes[v], next < l->balance.item_count ? next : UINT32_MAX};
            l->items[i].kept_count++;
        }
    }
}

static void make_line(line *l, uint64_t *seed)
{
    memset(l, 0, sizeof *l);
    l->balance.item_count = 1 + bgi_test_random_below(seed, MOST_ITEMS);
    l->balance.stage_count = 1 + bgi_test_random_below(seed, MOST_STAGES);
    if (l->balance.stage_count > l->balance.item_count)
        l->balance.stage_count = l->balance.item_count;
    for (uint32_t v = 0; v < MOST_VALUES; v++)
        l->value_bytes[v] = bgi_test_random_below(seed, 40);
    for (uint32_t i = 0; i < l->balance.item_count; i++) {
        l->items[i].ns = bgi_test_random_below(seed, 20);
        l->items[i].held_bytes = bgi_test_random_below(seed, 50);
        for (uint32_t v = 0; v < MOST_VALUES; v++)
            l->keeps[i][v] = bgi_test_random_below(seed, 4) == 0;
    }
    for (uint32_t s = 0; s < l->balance.stage_count; s++) {
        l->speeds[s] = 1 << bgi_test_random_below(seed, 3); /* exact quotients */
        l->budgets[s] = bgi_test_random_below(seed, 4) == 0 ? 0 : 1 + bgi_test_random_below(seed, 400);
        l->depths[s] = l->balance.stage_count - s;
    }
    add_kept(l);
    l->balance.items = l->items;
    l->balance.stage_speeds = bgi_test_random_below(seed, 2) == 0 ? NULL : l->speeds;
    l->balance.stage_budgets = bgi_test_random_below(seed, 2) == 0 ? NULL : l->budgets;
    l->balance.stage_depths = bgi_test_random_below(seed, 4) == 0 ? NULL : l->depths;
    l->balance.refused = l->refused;
    l->balance.refused_count = bgi_test_random_below(seed, MOST_REFUSED + 1);
    for (uint32_t i = 0; i < l->balance.refused_count; i++) {
        bgi_refused_stage *refused = &l->refused[i];
        refused->stage = bgi_test_random_below(seed, l->balance.stage_count);
        refused->first = bgi_test_random_below(seed, l->balance.item_count);
        refused->end = refused->first + 1 + bgi_test_random_below(seed, l->balance.item_count - refused->first);
    }
}

/* Computes by definition the bytes of the stage's items, and of the values that they stash, each counted once. */
static size_t stage_bytes(const line *l, uint32_t stage, uint32_t first, uint32_t end)
{
    const size_t depth = l->balance.stage_depths != NULL ? l->depths[stage] : 1;
    size_t bytes = 0;

    for (uint32_t i = first; i < end; i++)
        bytes += l->items[i].held_bytes;
    for (uint32_t v = 0; v < MOST_VALUES; v++) {
        bool is_kept = false;
        for (uint32_t i = first; i < end; i++)
            is_kept |= l->keeps[i][v];
        bytes += is_kept ? depth * l->value_bytes[v] : 0;
    }
    return bytes;
}

static double stage_time(const line *l, uint32_t stage, uint32_t first, uint32_t end)
{
    double ns = 0;

    for (uint32_t i = first; i < end; i++)
        ns += l->items[i].ns;
    return ns / (l->balance.stage_speeds != NULL ? l->speeds[stage] : 1.0);
}

static bool is_refused(const line *l, uint32_t stage, uint32_t first, uint32_t end)
{
    for (uint32_t i = 0; i < l->balance.refused_count; i++)
        if (l->refused[i].stage == stage && l->refused[i].first == first && l->refused[i].end == end)
            return true;
    return false;
}

/* Tries all cuts. Finds the best time within the budgets, and the smallest budget that any cut needs. */
static void try_all(const line *l, uint32_t stage, uint32_t first, double longest, size_t most, bool fits, double *best,
                    size_t *least)
{
    const bgi_balance *b = &l->balance;

    for (uint32_t end = first + 1; stage < MOST_STAGES && end <= b->item_count; end++) {
        const size_t bytes = stage_bytes(l, stage, first, end);
        const bool within = (b->stage_budgets == NULL || l->budgets[stage] == 0 || bytes <= l->budgets[stage]) &&
                            !is_refused(l, stage, first, end);
        const double time = fmax(longest, stage_time(l, stage, first, end));
        const size_t worst = bytes > most ? bytes : most;
        if (stage + 1 < b->stage_count) {
            try_all(l, stage + 1, end, time, worst, fits && within, best, least);
        } else if (end == b->item_count) {
            *best = fits && within && time < *best ? time : *best;
            *least = worst < *least ? worst : *least;
        }
    }
}

/* Tries all cuts without refused stages; finds the smallest number of bytes by which the fullest stage exceeds its
 * budget. */
static void try_tight(const line *l, uint32_t stage, uint32_t first, size_t excess, size_t *least)
{
    const bgi_balance *b = &l->balance;

    for (uint32_t end = first + 1; stage < MOST_STAGES && end <= b->item_count; end++) {
        const size_t bytes = stage_bytes(l, stage, first, end);
        const size_t budget = b->stage_budgets == NULL || l->budgets[stage] == 0 ? SIZE_MAX : l->budgets[stage];
        const size_t over = bytes > budget ? bytes - budget : 0, most = over > excess ? over : excess;
        if (is_refused(l, stage, first, end))
            continue;
        if (stage + 1 < b->stage_count)
            try_tight(l, stage + 1, end, most, least);
        else if (end == b->item_count)
            *least = most < *least ? most : *least;
    }
}

static void check_tight(const line *l, uint64_t seed)
{
    const bgi_balance *b = &l->balance;
    uint32_t first[MOST_STAGES + 1] = {0};
    size_t least = SIZE_MAX, found = 0;
    double longest = 0, measured = 0;
    bg_status status;

    try_tight(l, 0, 0, 0, &least);
    status = bgi_balance_cut_tightly(b, first, &longest, NULL);
    if ((status == BG_OK) != (least != SIZE_MAX))
        fail_msg("seed %llu: %s", (unsigned long long)seed, bg_status_name(status));
    if (status != BG_OK)
        return;
    first[b->stage_count] = b->item_count;
    for (uint32_t s = 0; s < b->stage_count; s++) {
        const size_t bytes = stage_bytes(l, s, first[s], first[s + 1]);
        const size_t budget = b->stage_budgets == NULL || l->budgets[s] == 0 ? SIZE_MAX : l->budgets[s];
        assert_false(is_refused(l, s, first[s], first[s + 1]));
        measured = fmax(measured, stage_time(l, s, first[s], first[s + 1]));
        found = bytes > budget && bytes - budget > found ? bytes - budget : found;
    }
    assert_true(fabs(longest - measured) <= 1e-9 * measured);
    if (found != least)
        fail_msg("seed %llu: %zu bytes over instead of %zu", (unsigned long long)seed, found, least);
}

/* Returns what the message must advise: more stages only if there can be more, and an item that no stage can hold does
 * not exclude them. */
static const char *find_remedy(const line *l)
{
    const bgi_balance *b = &l->balance;
    bool holds_all = b->stage_budgets == NULL;

    for (uint32_t s = 0; s < b->stage_count && !holds_all; s++) {
        holds_all = true;
        for (uint32_t i = 0; i < b->item_count; i++)
            holds_all = holds_all && (l->budgets[s] == 0 || b->items[i].held_bytes <= l->budgets[s]);
    }
    return !holds_all                        ? "more stages do not help"
           : b->stage_count == b->item_count ? "there cannot be more stages"
                                             : "raise the budget, or use more stages";
}

static void check_line(const line *l, uint64_t seed)
{
    const bgi_balance *b = &l->balance;
    uint32_t first[MOST_STAGES + 1] = {0};
    double best = INFINITY, longest = 0, measured = 0;
    size_t least = SIZE_MAX, found = 0;
    bg_error error = {0};
    bg_status status;

    check_tight(l, seed);
    try_all(l, 0, 0, 0, 0, true, &best, &least);
    assert_int_equal(bgi_balance_least_budget(b, &found, NULL), BG_OK);
    if (found != least)
        fail_msg("seed %llu: least budget %zu instead of %zu", (unsigned long long)seed, found, least);
    status = bgi_balance_cut(b, first, &longest, &error);
    if (isinf(best)) {
        char part[64];
        snprintf(part, sizeof part, "one of the stages needs a budget of at least %zu bytes", least);
        if (status != BG_ERROR_BUDGET || strstr(error.message, part) == NULL ||
            strstr(error.message, find_remedy(l)) == NULL)
            fail_msg("seed %llu: `%s` instead of `%s` and `%s`", (unsigned long long)seed, error.message, part,
                     find_remedy(l));
        return;
    }
    assert_int_equal(status, BG_OK);
    first[b->stage_count] = b->item_count;
    assert_int_equal(first[0], 0);
    for (uint32_t s = 0; s < b->stage_count; s++) {
        assert_true(first[s] < first[s + 1]);
        measured = fmax(measured, stage_time(l, s, first[s], first[s + 1]));
        assert_int_equal(bgi_balance_bytes(b, s, first[s], first[s + 1]), stage_bytes(l, s, first[s], first[s + 1]));
        if (b->stage_budgets != NULL && l->budgets[s] != 0)
            assert_true(stage_bytes(l, s, first[s], first[s + 1]) <= l->budgets[s]);
    }
    if (longest != best || measured != best)
        fail_msg("seed %llu: longest %g (measured %g) instead of %g", (unsigned long long)seed, longest, measured,
                 best);
}

static void test_brute_force(void **state)
{
    const uint64_t count = getenv("BRIGADE_TEST_QUICK") != NULL ? 500 : 5000;
    uint64_t refused = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= count; seed++) {
        uint64_t random = seed;
        line l;
        double longest;
        uint32_t first[MOST_STAGES];
        make_line(&l, &random);
        check_line(&l, seed);
        refused += bgi_balance_cut(&l.balance, first, &longest, NULL) != BG_OK;
    }
    /* Some sequences had a cut within the budgets, and others had none. */
    assert_in_range(refused, count / 50, count - count / 10);
}

/* Four thousand items are cut into a hundred stages in a short time, because the inner loop ends early. */
static void test_long_lines(void **state)
{
    enum { ITEMS = 4000, STAGES = 100 };
    bgi_balance_item *items = calloc(ITEMS, sizeof *items);
    const bgi_balance balance = {.items = items, .item_count = ITEMS, .stage_count = STAGES};
    uint32_t first[STAGES];
    double longest = 0;

    (void)state;
    assert_non_null(items);
    for (uint32_t i = 0; i < ITEMS; i++)
        items[i].ns = 1.0;
    assert_int_equal(bgi_balance_cut(&balance, first, &longest, NULL), BG_OK);
    assert_true(longest == ITEMS / STAGES);
    for (uint32_t s = 0; s < STAGES; s++)
        assert_int_equal(first[s], s * (ITEMS / STAGES));
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force),
        cmocka_unit_test(test_long_lines),
    };

    return cmocka_run_group_tests_name("plan/balance", tests, NULL, NULL);
}
