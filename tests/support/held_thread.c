/*
 * held_thread.c: a thread that waits for the test before it runs its work.
 */
#include "support/held_thread.h"

static void *run_late(void *user)
{
    test_held_thread *held = user;

    pthread_mutex_lock(&held->mutex);
    while (!held->is_released)
        pthread_cond_wait(&held->changed, &held->mutex);
    pthread_mutex_unlock(&held->mutex);
    held->function(held->argument);
    return NULL;
}

bool test_held_thread_start(void *user, void (*function)(void *argument), void *argument)
{
    test_held_thread *held = user;

    if (held->is_lent)
        return false;
    held->function = function;
    held->argument = argument;
    held->is_lent = pthread_create(&held->thread, NULL, run_late, held) == 0;
    return held->is_lent;
}

void test_held_thread_release(test_held_thread *held)
{
    pthread_mutex_lock(&held->mutex);
    held->is_released = true;
    pthread_cond_signal(&held->changed);
    pthread_mutex_unlock(&held->mutex);
}

void test_held_thread_join(test_held_thread *held)
{
    pthread_join(held->thread, NULL);
    held->is_lent = held->is_released = false;
}
