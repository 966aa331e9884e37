/*
 * test_memory.c: fails the n-th allocation for n = 1, 2, 3, ... until the operation succeeds; each failure must be
 * reported, and nothing may leak or crash. Needs an allocator that can be replaced: glibc's, without a sanitizer.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"

#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CAN_FAIL 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CAN_FAIL 0
#endif
#endif
#ifndef CAN_FAIL
#define CAN_FAIL 1
#endif

#if CAN_FAIL
static long allocations_left = -1; /* negative: no limit */
static long blocks_held;           /* counted while there is a limit */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

/* From the first failure on all fail, as when memory is out. */
static bool must_fail(void)
{
    if (allocations_left > 0)
        allocations_left--;
    else if (allocations_left == 0)
        return true;
    return false;
}

void *malloc(size_t size)
{
    void *block = must_fail() ? NULL : __libc_malloc(size);
    blocks_held += allocations_left >= 0 && block != NULL;
    return block;
}

void *calloc(size_t count, size_t size)
{
    void *block = must_fail() ? NULL : __libc_calloc(count, size);
    blocks_held += allocations_left >= 0 && block != NULL;
    return block;
}

void *realloc(void *block, size_t size)
{
    void *moved = must_fail() ? NULL : __libc_realloc(block, size);
    blocks_held += allocations_left >= 0 && moved != NULL && block == NULL;
    return moved;
}

void free(void *block)
{
    blocks_held -= allocations_left >= 0 && block != NULL;
    __libc_free(block);
}

/* Runs `operation` with ever more allocations until it succeeds. It must undo what it made. */
static void fail_each_allocation(bg_status (*operation)(const bg_schedule_problem *, bg_error *),
                                 const bg_schedule_problem *problem, long fewest)
{
    static bg_error error;
    bg_status status = BG_ERROR_MEMORY;
    long limit = 0, held = 0;

    for (; status == BG_ERROR_MEMORY && held == 0 && limit < 1000000; limit++) {
        bg_error_clear(&error);
        blocks_held = 0;
        allocations_left = limit;
        status = operation(problem, &error);
        held = blocks_held;
        allocations_left = -1;
    }
    if (status != BG_OK || held != 0)
        fail_msg("with %ld allocations: status %s, %ld blocks left, %s", limit - 1, bg_status_name(status), held,
                 error.message);
    assert_true(limit > fewest); /* failures were met */
}

static bg_status create(const bg_schedule_problem *problem, bg_error *error)
{
    bg_schedule *schedule = NULL;
    const bg_status status = bg_schedule_create(problem, bg_schedule_generator_find("interleaved"), &schedule, error);

    bg_schedule_destroy(schedule);
    return status;
}

static bg_schedule *made; /* by the test, outside the limit */
static const char *made_text;

static bg_status simulate(const bg_schedule_problem *problem, bg_error *error)
{
    bg_schedule_timing timing = {0};
    const bg_status status = bg_schedule_simulate(made, problem, &timing, error);

    bg_schedule_timing_clear(&timing);
    return status;
}

static bg_status draw(const bg_schedule_problem *problem, bg_error *error)
{
    char *text = NULL;
    const bg_status status = bg_schedule_timetable(made, problem, &text, error);

    free(text);
    return status;
}

static bg_status print(const bg_schedule_problem *problem, bg_error *error)
{
    char *text = NULL;
    const bg_status status = bg_schedule_print(made, &text, error);

    (void)problem;
    free(text);
    return status;
}

static bg_status parse(const bg_schedule_problem *problem, bg_error *error)
{
    bg_schedule *schedule = NULL;
    const bg_status status = bg_schedule_parse(made_text, NULL, &schedule, error);

    (void)problem;
    bg_schedule_destroy(schedule);
    return status;
}

static bg_status chain(const bg_schedule_problem *problem, bg_error *error)
{
    bg_schedule_problem copy = *problem;
    bg_schedule_edge *edges = NULL;
    const bg_status status = bg_schedule_problem_chain(&copy, 64, &edges, error);

    free(edges);
    return status;
}

static void test_each_allocation_may_fail(void **state)
{
    test_problem test;
    char *text = NULL;

    (void)state;
    assert_true(test_chain(&test, 4, 8, true));
    assert_int_equal(bg_schedule_create(&test.problem, bg_schedule_generator_find("grouped"), &made, NULL), BG_OK);
    assert_int_equal(bg_schedule_print(made, &text, NULL), BG_OK);
    made_text = text;
    fail_each_allocation(create, &test.problem, 20);
    fail_each_allocation(simulate, &test.problem, 10);
    fail_each_allocation(draw, &test.problem, 10);
    fail_each_allocation(print, &test.problem, 3);
    fail_each_allocation(parse, &test.problem, 5);
    fail_each_allocation(chain, &test.problem, 1);
    free(text);
    bg_schedule_destroy(made);
    test_problem_clear(&test);
}
#else
static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
