/*
 * threads.c: event counts and timed conditions over POSIX threads; the number of processors, and who gets them.
 */
#define _DEFAULT_SOURCE /* setpriority */
#include "core/threads.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"

uint32_t bgi_processors_online(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count > 0 ? (uint32_t)count : 0;
}

/* Linux weighs a thread 1.25 times less for each step: 70 against 1024 after twelve. There a thread has a priority of
 * its own; elsewhere this call would change that of the whole process. */
void bgi_thread_give_way(void)
{
#ifdef __linux__
    enum { STEPS = 12, LOWEST = 19 };
    int own;

    errno = 0;
    own = getpriority(PRIO_PROCESS, 0);
    if (errno == 0)
        (void)setpriority(PRIO_PROCESS, 0, own + STEPS < LOWEST ? own + STEPS : LOWEST);
#endif
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
