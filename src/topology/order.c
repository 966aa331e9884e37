/*
 * order.c: orders processors by cores; it is the only file that includes hwloc. The library hwloc takes long to read a
 * machine, and crashes if memory is out, so it is called only for sessions that bind threads.
 */
#include <brigade/topology.h>

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

typedef struct order {
    hwloc_topology_t topology;
    hwloc_bitmap_t allowed;
    uint32_t *cpus;
    uint32_t count, limit;
    uint32_t core_count;
} order;

/* Reads the processors and cores of the machine, and no other objects, because those would take longer. */
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

/* Adds all allowed processors of a core (`rank` below 0), or only the one at position `rank` (from 0) among them.
 * Returns the number of added processors. */
static uint32_t add_core(order *o, int core, int rank)
{
    const hwloc_obj_t object = hwloc_get_obj_by_type(o->topology, HWLOC_OBJ_CORE, (unsigned)core);
    const uint32_t before = o->count;
    int seen = 0;

    for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(object->cpuset, cpu))
        if (hwloc_bitmap_isset(o->allowed, (unsigned)cpu) && (rank < 0 || seen++ == rank) && o->count < o->limit)
            o->cpus[o->count++] = (uint32_t)cpu;
    return o->count - before;
}

/* Lists the allowed processors: for COMPACT core after core, otherwise the n-th processor of every core, for n = 0, 1,
 * ... */
static void list_cpus(order *o, bg_pinning pinning)
{
    const int core_count = hwloc_get_nbobjs_by_type(o->topology, HWLOC_OBJ_CORE);

    if (pinning == BG_PINNING_COMPACT)
        for (int core = 0; core < core_count; core++)
            o->core_count += add_core(o, core, -1) > 0;
    else
        for (int rank = 0, found = 1; found > 0; rank++) {
            found = 0;
            for (int core = 0; core < core_count; core++)
                found += (int)add_core(o, core, rank);
            if (rank == 0)
                o->core_count = (uint32_t)found;
        }
}

uint32_t bg_topology_order(void *user, bg_pinning pinning, uint32_t *cpus, uint32_t cpu_count)
{
    order o = {.topology = load_topology(), .allowed = hwloc_bitmap_alloc(), .limit = cpu_count};

    (void)user;
    o.cpus = malloc(cpu_count * sizeof *o.cpus);
    if (o.topology != NULL && o.allowed != NULL && o.cpus != NULL) {
        for (uint32_t i = 0; i < cpu_count; i++)
            hwloc_bitmap_set(o.allowed, cpus[i]);
        list_cpus(&o, pinning);
    }
    if (o.count == cpu_count && cpu_count > 0)
        memcpy(cpus, o.cpus, cpu_count * sizeof *cpus);
    else
        o.core_count = 0;
    free(o.cpus);
    if (o.allowed != NULL)
        hwloc_bitmap_free(o.allowed);
    if (o.topology != NULL)
        hwloc_topology_destroy(o.topology);
    return o.core_count;
}
