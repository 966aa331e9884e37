/*
 * test_threads.c: threads of the library have a large stack, block all signals, and do not change their creator's mask.
 * Threads that the program lends run the function, and the library waits for them. Memory that is allocated in whole
 * cache lines shares no line with other allocations.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/threads.h"

typedef struct seen {
    sigset_t blocked;
    unsigned char sum;
    int calls;
} seen;

enum { USED_STACK_BYTES = 512 << 10 };

/* Touches more stack than the smallest default of a C library. */
static unsigned char use_stack(void)
{
    volatile unsigned char used[USED_STACK_BYTES];
    unsigned char sum = 0;

    for (size_t i = 0; i < sizeof used; i += 1024)
        used[i] = 1;
    for (size_t i = 0; i < sizeof used; i += 1024)
        sum += used[i];
    return sum;
}

static void look(void *user)
{
    seen *s = user;

    pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
    s->sum = use_stack();
    s->calls++;
}

static void *look_and_return(void *user)
{
    look(user);
    return user;
}

static bool has(const sigset_t *set, int number)
{
    return sigismember(set, number) == 1;
}

static void test_signals(void **state)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM, SIGPIPE, SIGSEGV};
    sigset_t before, after;
    bgi_thread thread;
    pthread_t plain;
    void *returned = NULL;
    seen s[2] = {{.calls = 0}};
    (void)state;

    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(bgi_thread_create(&plain, look_and_return, &s[0]), 0);
    assert_int_equal(pthread_join(plain, &returned), 0);
    assert_ptr_equal(returned, &s[0]);
    assert_int_equal(bgi_thread_start(&thread, NULL, look, &s[1]), 0);
    bgi_thread_join(&thread);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_true(has(&s[0].blocked, numbers[i]) && has(&s[1].blocked, numbers[i]));
        assert_int_equal(has(&after, numbers[i]), numbers[i] == SIGUSR2);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(s[i].calls, 1);
        assert_int_equal(s[i].sum, USED_STACK_BYTES / 1024 % 256);
    }
    sigemptyset(&before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- lent threads ---- */

typedef struct lender {
    pthread_t thread;
    void (*function)(void *argument);
    void *argument;
    int asked, left;
} lender;

static void *run_lent(void *user)
{
    lender *l = user;

    l->function(l->argument);
    return NULL;
}

static bool lend(void *user, void (*function)(void *argument), void *argument)
{
    lender *l = user;

    l->asked++;
    if (l->left == 0)
        return false;
    l->left--;
    l->function = function;
    l->argument = argument;
    return pthread_create(&l->thread, NULL, run_lent, l) == 0;
}

static void test_loans(void **state)
{
    lender l = {.left = 20};
    const bgi_thread_source source = {lend, &l}, none = {NULL, NULL};
    bgi_thread thread;
    seen s = {.calls = 0};
    (void)state;

    for (int i = 0; i < 20; i++) {
        assert_int_equal(bgi_thread_start(&thread, &source, look, &s), 0);
        bgi_thread_join(&thread);
        assert_int_equal(s.calls, i + 1);      /* the library waits for the function's end */
        assert_false(has(&s.blocked, SIGINT)); /* a lent thread's mask does not change */
        pthread_join(l.thread, NULL);
    }
    assert_int_equal(bgi_thread_start(&thread, &source, look, &s), EAGAIN);
    assert_int_equal(l.asked, 21);
    assert_int_equal(s.calls, 20);
    assert_int_equal(bgi_thread_start(&thread, &none, look, &s), 0);
    bgi_thread_join(&thread);
    assert_int_equal(s.calls, 21);
    assert_true(has(&s.blocked, SIGINT));
}

/* Small allocations share no page with the allocations in whole pages that are made between them. */
static void test_pages(void **state)
{
    enum { COUNT = 200, BYTES = 70, PAGE_BYTES = 4096 };
    unsigned char *whole[COUNT];
    char *small[COUNT];

    (void)state;
    assert_null(bgi_take_pages(SIZE_MAX / 8, 16));
    for (int i = 0; i < COUNT; i++) {
        whole[i] = bgi_take_pages(BYTES / 10, 10);
        small[i] = malloc(1);
        assert_non_null(whole[i]);
        assert_non_null(small[i]);
        assert_int_equal((uintptr_t)whole[i] % PAGE_BYTES, 0);
        for (int b = 0; b < PAGE_BYTES; b++)
            assert_int_equal(whole[i][b], 0);
    }
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < COUNT; k++) {
            const uintptr_t offset = (uintptr_t)small[k] - (uintptr_t)whole[i];
            assert_true(offset >= PAGE_BYTES); /* an offset below `whole` wraps around */
        }
    for (int i = 0; i < COUNT; i++) {
        free(whole[i]);
        free(small[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_loans),
        cmocka_unit_test(test_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
