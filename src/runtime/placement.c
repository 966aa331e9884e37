/*
 * placement.c: reads the processors that the system reports, and chooses those of workers. A companion (src/topology/)
 * orders them by cores and caches; its function is called only when threads are bound.
 */
#define _GNU_SOURCE /* sched_getaffinity, pthread_setaffinity_np */

#include "runtime/placement.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/threads.h"

/* Returns the calling thread's processors, allocated by CPU_ALLOC; NULL: unknown. */
static cpu_set_t *find_allowed(size_t *out_cpus)
{
    for (size_t cpus = 1024; cpus <= (size_t)1 << 20; cpus *= 2) { /* until the set is as large as the system's */
        cpu_set_t *set = CPU_ALLOC(cpus);

        if (set != NULL && sched_getaffinity(0, CPU_ALLOC_SIZE(cpus), set) == 0) {
            *out_cpus = cpus;
            return set;
        }
        if (set != NULL)
            CPU_FREE(set);
        if (set == NULL || errno != EINVAL)
            return NULL;
    }
    return NULL;
}

/* Prints the processors as ranges; a text that is too long ends in "...". */
static void print_allowed(char text[BGI_PLACEMENT_TEXT_BYTES], const cpu_set_t *set, size_t cpus)
{
    const size_t set_bytes = CPU_ALLOC_SIZE(cpus);
    size_t length = 0;

    for (size_t first = 0, end; first < cpus && length < BGI_PLACEMENT_TEXT_BYTES; first = end + 1) {
        for (end = first; end < cpus && CPU_ISSET_S(end, set_bytes, set);)
            end++;
        if (end > first)
            length += (size_t)snprintf(text + length, BGI_PLACEMENT_TEXT_BYTES - length, "%s%zu", length > 0 ? "," : "",
                                       first);
        if (end > first + 1 && length < BGI_PLACEMENT_TEXT_BYTES)
            length += (size_t)snprintf(text + length, BGI_PLACEMENT_TEXT_BYTES - length, "-%zu", end - 1);
    }
    if (length >= BGI_PLACEMENT_TEXT_BYTES)
        memcpy(text + BGI_PLACEMENT_TEXT_BYTES - 4, "...", 4);
}

/* Lists the allowed processors in the order of their numbers. */
static void list_allowed(bgi_placement *placement, const cpu_set_t *set, size_t cpus)
{
    uint32_t count = 0;

    placement->cpus = malloc(placement->cpu_count * sizeof *placement->cpus);
    for (size_t cpu = 0; placement->cpus != NULL && cpu < cpus && count < placement->cpu_count; cpu++)
        if (CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(cpus), set))
            placement->cpus[count++] = (uint32_t)cpu;
}

static void find_processors(bgi_placement *placement)
{
    size_t cpus = 0;
    cpu_set_t *set = find_allowed(&cpus);

    if (set == NULL)
        return;
    placement->cpu_count = (uint32_t)CPU_COUNT_S(CPU_ALLOC_SIZE(cpus), set);
    print_allowed(placement->text, set, cpus);
    if (placement->pinning != BG_PINNING_NONE && placement->cpu_count > 0)
        list_allowed(placement, set, cpus);
    CPU_FREE(set);
}

void bgi_placement_init(bgi_placement *placement, bg_pinning pinning, bgi_processor_order order, void *order_user)
{
    memset(placement, 0, sizeof *placement);
    placement->pinning = pinning;
    find_processors(placement);
    if (placement->cpu_count == 0) {
        const uint32_t online = bgi_processors_online();
        bgi_placement_clear(placement);
        placement->cpu_count = online > 0 ? online : 1;
    }
    if (placement->cpus != NULL && order != NULL)
        placement->core_count = order(order_user, pinning, placement->cpus, placement->cpu_count);
}

void bgi_placement_clear(bgi_placement *placement)
{
    free(placement->cpus);
    memset(placement, 0, sizeof *placement);
}

uint32_t bg_processor_count(void)
{
    bgi_placement placement;
    uint32_t count;

    bgi_placement_init(&placement, BG_PINNING_NONE, NULL, NULL);
    count = placement.cpu_count;
    bgi_placement_clear(&placement);
    return count;
}

/* Returns a worker's processor. If there are more cores than workers, SPREAD leaves equal distances between workers.
 * Neighbors in the list are neighbors in the machine, so workers also spread over caches and packages. */
uint32_t bgi_placement_cpu(const bgi_placement *placement, uint32_t number, uint32_t count)
{
    if (placement->pinning == BG_PINNING_SPREAD && count < placement->core_count)
        return placement->cpus[(uint64_t)number * placement->core_count / count];
    return placement->cpus[number];
}

bool bgi_placement_bind(pthread_t thread, uint32_t cpu)
{
    cpu_set_t *set = CPU_ALLOC(cpu + 1u);
    bool is_bound;

    if (set == NULL)
        return false;
    CPU_ZERO_S(CPU_ALLOC_SIZE(cpu + 1u), set);
    CPU_SET_S(cpu, CPU_ALLOC_SIZE(cpu + 1u), set);
    is_bound = pthread_setaffinity_np(thread, CPU_ALLOC_SIZE(cpu + 1u), set) == 0;
    CPU_FREE(set);
    return is_bound;
}
