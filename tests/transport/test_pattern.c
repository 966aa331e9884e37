/*
 * test_pattern.c: checks which elements each member sums and receives, for groups of 1 to 33 members and uneven sizes.
 * Each element is summed once, by one member. Each reader receives exactly its elements, once.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "transport/pattern.h"

enum { MOST_MEMBERS = 33, MOST_ELEMENTS = 8192, NONE = -1 };

static const size_t counts[] = {1, 2, 5, 31, 33, 64, 100, 101};

static size_t size_of(const bgi_region *region)
{
    return region->rows * region->length;
}

/* Returns the position of element `i` of a region, in the region's order. */
static size_t element_at(const bgi_region *region, size_t i)
{
    return region->first + i / region->length * region->stride + i % region->length;
}

/* Marks a region's elements with `with`; fails if an element is outside the tensor or already has a mark. */
static void mark(int *marks, size_t count, const bgi_region *region, int with)
{
    for (size_t i = 0; i < size_of(region); i++) {
        assert_in_range(element_at(region, i), 0, count - 1);
        assert_int_equal(marks[element_at(region, i)], NONE);
        marks[element_at(region, i)] = with;
    }
}

static void clear(int *marks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        marks[i] = NONE;
}

static bool all_marked(const int *marks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (marks[i] == NONE)
            return false;
    return true;
}

/* Checks that a member reads the same elements from all members, and that its results have the same length and order.
 */
static void check_sum(const bgi_pattern *pattern, size_t source_count, size_t destination_count, bool all_get_all)
{
    static int taken[MOST_ELEMENTS], got[MOST_ELEMENTS];

    clear(taken, source_count);
    for (uint32_t member = 0; member < pattern->size; member++) {
        const bgi_region own = bgi_pattern_take(pattern, member, 0);
        for (uint32_t from = 1; from < pattern->size; from++) {
            const bgi_region other = bgi_pattern_take(pattern, member, from);
            assert_memory_equal(&own, &other, sizeof own);
        }
        mark(taken, source_count, &own, (int)member);
    }
    assert_true(all_marked(taken, source_count));
    for (uint32_t reader = 0; reader < pattern->size; reader++) {
        size_t received = 0;
        clear(got, destination_count);
        for (uint32_t maker = 0; maker < pattern->size; maker++) {
            const bgi_region own = bgi_pattern_take(pattern, maker, 0);
            const bgi_region put = bgi_pattern_put(pattern, maker, reader);
            if (put.rows == 0)
                continue;
            assert_int_equal(put.rows, own.rows);
            assert_int_equal(put.length, own.length);
            mark(got, destination_count, &put, (int)maker);
            received += size_of(&put);
        }
        if (all_get_all) {
            assert_true(all_marked(got, destination_count));
            assert_memory_equal(got, taken, destination_count * sizeof *got);
        } else {
            const bgi_region own = bgi_pattern_take(pattern, reader, 0);
            assert_int_equal(received, size_of(&own));
        }
    }
}

static void sums(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST_MEMBERS; size++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            const size_t count = counts[c], piece = (count + size - 1) / size;
            bgi_pattern pattern = {.kind = BGI_PATTERN_SUM, .size = size, .count = count};
            assert_true(bgi_pattern_sums(&pattern));
            check_sum(&pattern, count, count, true);
            pattern = (bgi_pattern){.kind = BGI_PATTERN_SUM_PIECES, .size = size, .count = count, .piece = piece};
            assert_true(bgi_pattern_sums(&pattern));
            check_sum(&pattern, count, count, false);
        }
}

/* Each rank receives the values of all ranks and keeps its own sums. */
static void sums_of_ones_own(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST_MEMBERS; size++) {
        const bgi_pattern pattern = {.kind = BGI_PATTERN_SUM_ALONE, .size = size, .count = 31};
        assert_true(bgi_pattern_sums(&pattern));
        for (uint32_t member = 0; member < size; member++)
            for (uint32_t from = 0; from < size; from++) {
                const bgi_region taken = bgi_pattern_take(&pattern, member, from);
                const bgi_region put = bgi_pattern_put(&pattern, from, member);
                assert_true(taken.first == 0 && size_of(&taken) == 31);
                assert_int_equal(size_of(&put), from == member ? 31 : 0);
                assert_int_equal(put.first, 0);
            }
    }
}

/* Shards remain at their positions in the whole tensor, and the last ones end with the tensor. */
static void pieces_keep_their_places(void **state)
{
    const bgi_pattern pattern = {.kind = BGI_PATTERN_SUM_PIECES, .size = 4, .count = 10, .piece = 3};
    const bgi_region third = bgi_pattern_take(&pattern, 3, 1), put = bgi_pattern_put(&pattern, 3, 3);
    const bgi_pattern padded = {.kind = BGI_PATTERN_SUM_PIECES, .size = 4, .count = 5, .piece = 4};
    const bgi_region last = bgi_pattern_take(&padded, 3, 0);

    (void)state;
    assert_int_equal(third.first, 9);
    assert_int_equal(third.length, 1);
    assert_memory_equal(&third, &put, sizeof put);
    assert_int_equal(last.first, 5);
    assert_int_equal(last.length, 0);
}

static void sums_of_rows(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST_MEMBERS; size++)
        for (size_t rows = 1; rows <= 5; rows++)
            for (size_t piece = 1; piece <= 7; piece += 2) {
                const bgi_pattern pattern = {.kind = BGI_PATTERN_SUM_ROWS, .size = size, .count = rows, .piece = piece};
                assert_true(bgi_pattern_sums(&pattern));
                check_sum(&pattern, rows * size * piece, rows * piece, false);
            }
}

/* Every reader gets the whole tensor, with each member's elements in the order of members along the row. */
static void gathers(void **state)
{
    static int got[MOST_ELEMENTS];

    (void)state;
    for (uint32_t size = 1; size <= MOST_MEMBERS; size++)
        for (size_t rows = 1; rows <= 3; rows++)
            for (size_t piece = 1; piece <= 5; piece += 2) {
                const bgi_pattern pattern = {
                    .kind = BGI_PATTERN_GATHER_ROWS, .size = size, .count = rows, .piece = piece};
                assert_false(bgi_pattern_sums(&pattern));
                for (uint32_t reader = 0; reader < size; reader++) {
                    clear(got, rows * size * piece);
                    for (uint32_t from = 0; from < size; from++) {
                        const bgi_region taken = bgi_pattern_take(&pattern, reader, from);
                        const bgi_region put = bgi_pattern_put(&pattern, from, reader);
                        assert_int_equal(size_of(&taken), rows * piece);
                        assert_int_equal(taken.first, 0);
                        mark(got, rows * size * piece, &put, (int)from);
                    }
                    for (size_t i = 0; i < rows * size * piece; i++)
                        assert_int_equal(got[i], i / piece % size);
                }
            }
}

static void gathers_of_pieces(void **state)
{
    static int got[MOST_ELEMENTS];

    (void)state;
    for (uint32_t size = 1; size <= MOST_MEMBERS; size++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            const size_t count = counts[c];
            const bgi_pattern pattern = {
                .kind = BGI_PATTERN_GATHER_PIECES, .size = size, .count = count, .piece = (count + size - 1) / size};
            assert_false(bgi_pattern_sums(&pattern));
            for (uint32_t reader = 0; reader < size; reader++) {
                clear(got, count);
                for (uint32_t from = 0; from < size; from++) {
                    const bgi_region taken = bgi_pattern_take(&pattern, reader, from);
                    const bgi_region put = bgi_pattern_put(&pattern, from, reader);
                    assert_memory_equal(&taken, &put, sizeof put);
                    mark(got, count, &put, (int)from);
                }
                for (size_t i = 0; i < count; i++)
                    assert_int_equal(got[i], i / pattern.piece == reader ? NONE : (int)(i / pattern.piece));
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),         cmocka_unit_test(sums_of_ones_own), cmocka_unit_test(pieces_keep_their_places),
        cmocka_unit_test(sums_of_rows), cmocka_unit_test(gathers),          cmocka_unit_test(gathers_of_pieces),
    };

    return cmocka_run_group_tests_name("transport/pattern", tests, NULL, NULL);
}
