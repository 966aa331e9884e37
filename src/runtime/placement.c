/*
 * placement.c: the one file that includes hwloc.
 */
#include "runtime/placement.h"

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Processors and cores are all we ask for: looking for more takes longer. */
static hwloc_topology_t load_topology(void)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    return topology;
}

static bool is_allowed(hwloc_const_cpuset_t allowed, unsigned cpu)
{
    return hwloc_bitmap_isset(allowed, cpu) != 0;
}

/* The n-th allowed processor of every core, for n = 0, 1, ... until there are no more. */
static void list_cpus(bgi_placement *placement, hwloc_const_cpuset_t allowed)
{
    const hwloc_topology_t topology = placement->topology;
    const int core_count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    const int wanted = hwloc_bitmap_weight(allowed);

    placement->cpus = wanted > 0 ? malloc((size_t)wanted * sizeof *placement->cpus) : NULL;
    if (placement->cpus == NULL)
        return;
    for (int rank = 0, found = 1; found > 0 && core_count > 0; rank++) {
        found = 0;
        for (int core = 0; core < core_count; core++) {
            const hwloc_obj_t object = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)core);
            int seen = 0;
            for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(object->cpuset, cpu)) {
                if (!is_allowed(allowed, (unsigned)cpu) || seen++ != rank)
                    continue;
                if (placement->cpu_count < (uint32_t)wanted)
                    placement->cpus[placement->cpu_count++] = (uint32_t)cpu;
                found++;
            }
        }
    }
}

void bgi_placement_init(bgi_placement *placement)
{
    hwloc_bitmap_t allowed;

    memset(placement, 0, sizeof *placement);
    placement->topology = load_topology();
    allowed = placement->topology != NULL ? hwloc_bitmap_alloc() : NULL;
    if (allowed != NULL) {
        /* Of the process: the calling thread alone may be bound to one processor. */
        if (hwloc_get_cpubind(placement->topology, allowed, HWLOC_CPUBIND_PROCESS) == 0 ||
            hwloc_get_cpubind(placement->topology, allowed, HWLOC_CPUBIND_THREAD) == 0)
            list_cpus(placement, allowed);
        hwloc_bitmap_free(allowed);
    }
    if (placement->cpu_count == 0) {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        bgi_placement_clear(placement);
        placement->cpu_count = online > 0 ? (uint32_t)online : 1;
    }
}

void bgi_placement_clear(bgi_placement *placement)
{
    if (placement->topology != NULL)
        hwloc_topology_destroy(placement->topology);
    free(placement->cpus);
    memset(placement, 0, sizeof *placement);
}

bool bgi_placement_bind(const bgi_placement *placement, pthread_t thread, uint32_t index)
{
    hwloc_bitmap_t set;
    bool is_bound;

    if (placement->topology == NULL || placement->cpus == NULL || index >= placement->cpu_count)
        return false;
    set = hwloc_bitmap_alloc();
    if (set == NULL)
        return false;
    is_bound = hwloc_bitmap_set(set, placement->cpus[index]) == 0 &&
               hwloc_set_thread_cpubind(placement->topology, thread, set, 0) == 0;
    hwloc_bitmap_free(set);
    return is_bound;
}
