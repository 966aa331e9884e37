/*
 * placement.h: finds the processors that the calling thread may use, and binds threads to them. On a system that does
 * not report processors or cannot bind threads, threads run unbound.
 */
#ifndef BGI_RUNTIME_PLACEMENT_H
#define BGI_RUNTIME_PLACEMENT_H

#include <brigade/session.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { BGI_PLACEMENT_TEXT_BYTES = 64 };

/* The type of options.execution.processor_order. */
typedef uint32_t (*bgi_processor_order)(void *user, bg_pinning pinning, uint32_t *cpus, uint32_t cpu_count);

typedef struct bgi_placement {
    uint32_t *cpus;      /* the system's numbers, in the order in which workers get them; NULL: no thread is bound */
    uint32_t cpu_count;  /* the number of usable processors, also when `cpus` is NULL */
    uint32_t core_count; /* the first core_count of `cpus` are on separate cores; 0: unknown */
    bg_pinning pinning;
    char text[BGI_PLACEMENT_TEXT_BYTES]; /* the processors, as "0-3,8"; "": unknown */
} bgi_placement;

/* Reads the calling thread's processors at the time of the call. If `order` is NULL, they are ordered by number. */
void bgi_placement_init(bgi_placement *placement, bg_pinning pinning, bgi_processor_order order, void *order_user);
void bgi_placement_clear(bgi_placement *placement);
/* Returns the processor of worker `number` of `count`. Requires `cpus` and count <= cpu_count. */
uint32_t bgi_placement_cpu(const bgi_placement *placement, uint32_t number, uint32_t count);
/* taken.c: moves the processors to which other threads of the machine are bound to the end of `cpus`. */
void bgi_placement_avoid(bgi_placement *placement);
void bgi_placement_sort(bgi_placement *placement, bool (*is_taken)(const void *user, uint32_t cpu), const void *user);
/* Locks the search for processors, so that only one session of the machine chooses processors and binds threads at a
 * time, and the next one sees the bound threads. Waits at most a second, and then continues without the lock. Returns a
 * negative number, which callers may ignore, if the system has no such lock. */
int bgi_placement_lock(void);
void bgi_placement_unlock(int lock);
/* Binds a thread to one processor. */
bool bgi_placement_bind(pthread_t thread, uint32_t cpu);

#endif
