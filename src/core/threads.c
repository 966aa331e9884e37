/*
 * threads.c: implements threads without signals, event counts and timed conditions with POSIX threads, and counts
 * processors.
 */
#include "core/threads.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"

enum { LEAST_STACK_BYTES = 1 << 20 };

/* Sets a stack of at least 1 MiB, because some C libraries give threads far less than the main thread has (musl 128
 * KiB). */
static int set_stack(pthread_attr_t *attributes)
{
    size_t bytes = 0;
    const int result = pthread_attr_getstacksize(attributes, &bytes);

    return result != 0 || bytes >= LEAST_STACK_BYTES ? result
                                                     : pthread_attr_setstacksize(attributes, LEAST_STACK_BYTES);
}

int bgi_thread_create(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int result = pthread_attr_init(&attributes);

    if (result != 0)
        return result;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = set_stack(&attributes);
    if (result == 0)
        result = pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return result;
}

static void *run_thread(void *user)
{
    const bgi_thread *thread = user;

    thread->run(thread->argument);
    return NULL;
}

/* Runs the function on a thread of the caller, and notes its end. */
static void run_lent(void *user)
{
    bgi_thread *thread = user;

    thread->run(thread->argument);
    pthread_mutex_lock(&thread->mutex);
    thread->has_ended = true;
    pthread_cond_signal(&thread->ended);
    pthread_mutex_unlock(&thread->mutex);
}

static void clear_loan(bgi_thread *thread)
{
    pthread_cond_destroy(&thread->ended);
    pthread_mutex_destroy(&thread->mutex);
}

static int borrow_thread(bgi_thread *thread, const bgi_thread_source *source)
{
    int result = pthread_mutex_init(&thread->mutex, NULL);

    if (result != 0)
        return result;
    result = pthread_cond_init(&thread->ended, NULL);
    if (result != 0) {
        pthread_mutex_destroy(&thread->mutex);
        return result;
    }
    if (source->start(source->user, run_lent, thread))
        return 0;
    clear_loan(thread);
    return EAGAIN;
}

int bgi_thread_start(bgi_thread *thread, const bgi_thread_source *source, void (*run)(void *argument), void *argument)
{
    thread->run = run;
    thread->argument = argument;
    thread->has_ended = false;
    thread->is_lent = source != NULL && source->start != NULL;
    return thread->is_lent ? borrow_thread(thread, source) : bgi_thread_create(&thread->id, run_thread, thread);
}

void bgi_thread_join(bgi_thread *thread)
{
    if (!thread->is_lent) {
        pthread_join(thread->id, NULL);
        return;
    }
    pthread_mutex_lock(&thread->mutex);
    while (!thread->has_ended)
        pthread_cond_wait(&thread->ended, &thread->mutex);
    pthread_mutex_unlock(&thread->mutex);
    clear_loan(thread);
}

uint32_t bgi_processors_online(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count > 0 ? (uint32_t)count : 0;
}

bool bgi_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    bool is_ready;

    if (pthread_condattr_init(&attributes) != 0)
        return false;
    is_ready =
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 && pthread_cond_init(condition, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return is_ready;
}

void bgi_condition_wait_ns(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t timeout_ns)
{
    const uint64_t end_ns = bgi_clock_ns() + timeout_ns;
    const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u), .tv_nsec = (long)(end_ns % 1000000000u)};

    pthread_cond_timedwait(condition, mutex, &end);
}

bool bgi_event_count_init(bgi_event_count *events)
{
    atomic_init(&events->sleepers, 0);
    atomic_init(&events->epoch, 0);
    if (pthread_mutex_init(&events->mutex, NULL) != 0)
        return false;
    if (!bgi_condition_init(&events->changed)) {
        pthread_mutex_destroy(&events->mutex);
        return false;
    }
    return true;
}

void bgi_event_count_clear(bgi_event_count *events)
{
    pthread_cond_destroy(&events->changed);
    pthread_mutex_destroy(&events->mutex);
}

uint64_t bgi_event_count_prepare(bgi_event_count *events)
{
    atomic_fetch_add(&events->sleepers, 1);
    return atomic_load(&events->epoch);
}

void bgi_event_count_cancel(bgi_event_count *events)
{
    atomic_fetch_sub(&events->sleepers, 1);
}

void bgi_event_count_wait(bgi_event_count *events, uint64_t key)
{
    pthread_mutex_lock(&events->mutex);
    while (atomic_load(&events->epoch) == key)
        pthread_cond_wait(&events->changed, &events->mutex);
    pthread_mutex_unlock(&events->mutex);
    atomic_fetch_sub(&events->sleepers, 1);
}

void bgi_event_count_wait_ns(bgi_event_count *events, uint64_t key, uint64_t timeout_ns)
{
    pthread_mutex_lock(&events->mutex);
    if (atomic_load(&events->epoch) == key)
        bgi_condition_wait_ns(&events->changed, &events->mutex, timeout_ns);
    pthread_mutex_unlock(&events->mutex);
    atomic_fetch_sub(&events->sleepers, 1);
}

static void notify(bgi_event_count *events, bool all)
{
    if (!bgi_event_count_has_sleepers(events))
        return;
    pthread_mutex_lock(&events->mutex);
    atomic_fetch_add(&events->epoch, 1);
    if (all)
        pthread_cond_broadcast(&events->changed);
    else
        pthread_cond_signal(&events->changed);
    pthread_mutex_unlock(&events->mutex);
}

void bgi_event_count_notify_one(bgi_event_count *events)
{
    notify(events, false);
}

void bgi_event_count_notify_all(bgi_event_count *events)
{
    notify(events, true);
}
