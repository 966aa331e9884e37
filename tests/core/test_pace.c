/*
 * test_pace.c: background work takes its share of the time, and all of it when a processor is free.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <time.h>

#include "core/clock.h"
#include "core/pace.h"

typedef struct machine {
    uint32_t looks;
    uint32_t free_after; /* looks; 0: never */
} machine;

static bool is_free(void *user)
{
    machine *m = user;

    m->looks++;
    return m->free_after > 0 && m->looks >= m->free_after;
}

static uint64_t used_ns(void)
{
    struct timespec used;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used), 0);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* Computes until this thread has used `wanted_ns` of processor time. */
static void compute(uint64_t wanted_ns)
{
    const uint64_t end_ns = used_ns() + wanted_ns;

    while (used_ns() < end_ns)
        continue;
}

static void test_a_busy_machine(void **state)
{
    machine m = {0};
    bgi_pace pace = {.is_free = is_free, .user = &m};

    (void)state;
    bgi_pace_wait(&pace); /* before the first piece nothing is owed */
    assert_int_equal(m.looks, 0);
    for (int i = 0; i < 3; i++) {
        uint64_t begin_ns, end_ns;
        compute(1000000);
        begin_ns = bgi_clock_ns();
        bgi_pace_wait(&pace);
        end_ns = bgi_clock_ns();
        assert_true(end_ns - begin_ns >= 1000000 * (BGI_PACE_SHARE - 1));
    }
    assert_true(m.looks > 3);
}

/* The third check for a free processor ends a wait of 0.15 s, which would have hundreds of checks. */
static void test_a_processor_becomes_free(void **state)
{
    machine m = {.free_after = 3};
    bgi_pace pace = {.is_free = is_free, .user = &m};

    (void)state;
    bgi_pace_wait(&pace);
    compute(5000000);
    bgi_pace_wait(&pace);
    assert_int_equal(m.looks, 3);
    compute(5000000);
    bgi_pace_wait(&pace); /* the processor is still free */
    assert_int_equal(m.looks, 4);
}

/* The times of small pieces of work are added before a wait. */
static void test_small_pieces(void **state)
{
    machine m = {0};
    bgi_pace pace = {.is_free = is_free, .user = &m};
    uint64_t begin_ns, begin_used_ns, pieces = 0;

    (void)state;
    bgi_pace_wait(&pace);
    begin_ns = bgi_clock_ns();
    begin_used_ns = used_ns();
    for (; m.looks == 0; pieces++) {
        compute(1000);
        bgi_pace_wait(&pace);
    }
    assert_true(pieces > 1);
    assert_true(bgi_clock_ns() - begin_ns >= 200000 * (BGI_PACE_SHARE - 1));
    assert_true(used_ns() - begin_used_ns >= 200000);
}

/* A call waits for the time that earlier work owes, but only while no processor is free. */
static void test_owed_time(void **state)
{
    machine m = {0};
    bgi_pace pace = {.is_free = is_free, .user = &m, .owed_ns = 20000000};
    uint64_t begin_ns;

    (void)state;
    begin_ns = bgi_clock_ns();
    bgi_pace_wait(&pace);
    assert_true(bgi_clock_ns() - begin_ns >= 20000000);
    assert_int_equal(pace.owed_ns, 0);

    m = (machine){.free_after = 1};
    pace = (bgi_pace){.is_free = is_free, .user = &m, .owed_ns = 1000000000};
    bgi_pace_wait(&pace);
    compute(1000000);
    bgi_pace_wait(&pace);
    assert_int_equal(pace.owed_ns, 1000000000); /* owed until the computation needs the processor again */
    m = (machine){.free_after = 3};
    begin_ns = bgi_clock_ns();
    compute(1000000);
    bgi_pace_wait(&pace);
    assert_true(pace.owed_ns < 1000000000 && pace.owed_ns + (bgi_clock_ns() - begin_ns) >= 1000000000);
    assert_int_equal(m.looks, 3);
}

static void test_without_a_question(void **state)
{
    bgi_pace pace = {0};

    (void)state;
    bgi_pace_wait(&pace);
    compute(1000000);
    bgi_pace_wait(&pace);
    assert_false(pace.has_begun);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_busy_machine),     cmocka_unit_test(test_a_processor_becomes_free),
        cmocka_unit_test(test_small_pieces),       cmocka_unit_test(test_owed_time),
        cmocka_unit_test(test_without_a_question),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
