/*
 * topology.h: the topology of the machine's processors: which processors share a core, and which are far from each
 * other.
 *
 * Threads: any thread may call the function at any time.
 */
#ifndef BRIGADE_TOPOLOGY_H
#define BRIGADE_TOPOLOGY_H

#include <brigade/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Orders processors by cores and caches: options.execution.processor_order = bg_topology_order. The function needs no
 * user data. If the topology is unknown (no memory, an unsupported system), the order does not change. Each call
 * examines the machine, which takes milliseconds. */
BG_API uint32_t bg_topology_order(void *user, bg_pinning pinning, uint32_t *cpus, uint32_t cpu_count);

#ifdef __cplusplus
}
#endif

#endif
