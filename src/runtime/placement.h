/*
 * placement.h: the processors this process may use, and threads bound to them. Where the system does not tell or does
 * not bind, threads run where the system likes.
 */
#ifndef BGI_RUNTIME_PLACEMENT_H
#define BGI_RUNTIME_PLACEMENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct bgi_placement {
    void *topology;     /* NULL: nothing can be bound */
    uint32_t *cpus;     /* the system's numbers; one of every core first, then their siblings */
    uint32_t cpu_count; /* at least 1 */
} bgi_placement;

void bgi_placement_init(bgi_placement *placement);
void bgi_placement_clear(bgi_placement *placement);
/* Binds a thread to cpus[index]. */
bool bgi_placement_bind(const bgi_placement *placement, pthread_t thread, uint32_t index);

#endif
