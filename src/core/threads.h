/*
 * threads.h: starts threads, and declares the primitives with which they wait.
 *
 * A counter only grows. It has a separate cache line, because one thread writes it while others poll it.
 *
 * An event count lets a thread sleep until something may have changed; a thread that makes a change while none sleeps
 * needs neither a lock nor a system call:
 *
 *     sleeper: key = prepare; look again; nothing there? wait(key), else cancel      changer: change; notify
 *
 * `prepare` announces the sleeper before it checks the condition, and `notify` checks for sleepers after the change.
 * Announcement, change and both checks are sequentially consistent, so at least one of the two threads sees the other's
 * write.
 */
#ifndef BGI_CORE_THREADS_H
#define BGI_CORE_THREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { BGI_CACHE_LINE_BYTES = 64 };

typedef struct bgi_counter {
    _Alignas(BGI_CACHE_LINE_BYTES) _Atomic uint64_t value;
} bgi_counter;

/* Creates a thread with all signals blocked, so that signals reach the program's own threads, and with at least 1 MiB
 * of stack. All threads of the library are created here. Returns 0, or the error's number. */
int bgi_thread_create(pthread_t *thread, void *(*run)(void *argument), void *argument);

/* Where threads come from: `start` runs the function on a thread of the caller (options.execution.start_thread), or
 * returns false if the caller has no thread for it. All-zero: new threads of the system. */
typedef struct bgi_thread_source {
    bool (*start)(void *user, void (*function)(void *argument), void *argument);
    void *user;
} bgi_thread_source;

/* A thread of the system or of the caller. The struct must not move before bgi_thread_join. */
typedef struct bgi_thread {
    pthread_t id; /* used if the thread is the system's */
    void (*run)(void *argument);
    void *argument;
    bool is_lent, has_ended;
    pthread_mutex_t mutex; /* used if the thread is the caller's, for has_ended */
    pthread_cond_t ended;
} bgi_thread;

/* Starts `run` on a thread from `source`. Returns 0 or the error's number: EAGAIN if `source` has no thread. */
int bgi_thread_start(bgi_thread *thread, const bgi_thread_source *source, void (*run)(void *argument), void *argument);
/* Waits until `run` has returned. */
void bgi_thread_join(bgi_thread *thread);

/* Returns the number of the machine's processors, including those that this process may not use; 0 if it is unknown. */
uint32_t bgi_processors_online(void);

/* Tells the processor that this is a spin loop. */
static inline void bgi_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

typedef struct bgi_event_count {
    _Atomic uint32_t sleepers; /* the number of threads that have prepared to wait, or wait */
    _Atomic uint64_t epoch;    /* grows with every notify that found sleepers; written under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} bgi_event_count;

/* Returns false if the system refuses a mutex or a condition. */
bool bgi_event_count_init(bgi_event_count *events);
void bgi_event_count_clear(bgi_event_count *events);

uint64_t bgi_event_count_prepare(bgi_event_count *events);
void bgi_event_count_cancel(bgi_event_count *events);
void bgi_event_count_wait(bgi_event_count *events, uint64_t key);
/* Waits at most `timeout_ns`; may return early. */
void bgi_event_count_wait_ns(bgi_event_count *events, uint64_t key, uint64_t timeout_ns);

static inline bool bgi_event_count_has_sleepers(bgi_event_count *events)
{
    return atomic_load(&events->sleepers) != 0;
}

/* Wake one sleeper, and all sleepers. The change must have been made with a sequentially consistent store. */
void bgi_event_count_notify_one(bgi_event_count *events);
void bgi_event_count_notify_all(bgi_event_count *events);

/* Creates a condition whose timed waits use the monotonic clock. Returns false if the system refuses the condition. */
bool bgi_condition_init(pthread_cond_t *condition);
/* Waits at most `timeout_ns`; may wake early. */
void bgi_condition_wait_ns(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t timeout_ns);

#endif
