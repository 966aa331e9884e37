/*
 * held_thread.h: lends one thread (options.execution.start_thread) that begins when the test releases it, so that a
 * test can order background work after a step of the training.
 */
#ifndef TESTS_SUPPORT_HELD_THREAD_H
#define TESTS_SUPPORT_HELD_THREAD_H

#include <pthread.h>
#include <stdbool.h>

typedef struct test_held_thread {
    pthread_t thread;
    void (*function)(void *argument);
    void *argument;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_released, is_lent;
} test_held_thread;

#define TEST_HELD_THREAD                                                                                               \
    {                                                                                                                  \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                                        \
    }

/* The function for the option; `user` is a test_held_thread. The function returns false for a second thread until the
 * first one has been joined. */
bool test_held_thread_start(void *user, void (*function)(void *argument), void *argument);
void test_held_thread_release(test_held_thread *held);
/* Joins the thread, which may then be lent again. */
void test_held_thread_join(test_held_thread *held);

#endif
