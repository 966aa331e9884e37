/*
 * collective.c: sums over replicas, in replica order, as four steps that can each be parked at:
 *
 *     arrive | wait until all have | add my slice, write it everywhere, say so | wait until all have
 */
#include "runtime/engine.h"

#include <string.h>

#include "core/clock.h"

enum { ARRIVE = 0, WAIT_FOR_ALL, WAIT_FOR_SUMS, BLOCK_BYTES = 8192 };

typedef union sum_block {
    float f[BLOCK_BYTES / sizeof(float)];
    double d[BLOCK_BYTES / sizeof(double)];
} sum_block;

static void add_block(bg_dtype dtype, sum_block *restrict sum, const void *restrict term, size_t element_count)
{
    if (dtype == BG_FLOAT64)
        for (size_t i = 0; i < element_count; i++)
            sum->d[i] += ((const double *)term)[i];
    else
        for (size_t i = 0; i < element_count; i++)
            sum->f[i] += ((const float *)term)[i];
}

/* The address of another replica's copy. */
static char *find_copy(const bgi_device *device, uint32_t replica, const bgi_operand *operand)
{
    void *const *memory = operand->is_remote ? device->engine->remotes : device->engine->arenas;

    return (char *)memory[(size_t)replica * device->plan->device_count + operand->device] + operand->offset;
}

/* ((x0 + x1) + x2) + ... for each element of this replica's slice. In blocks that stay in the nearest cache. */
static void sum_slice(bgi_device *device, const bgi_reduced *reduced)
{
    const uint32_t replicas = device->plan->replicas;
    const size_t element_bytes = bg_dtype_size_bytes(reduced->dtype);
    const uint64_t count = (uint64_t)reduced->element_count;
    const size_t first = (size_t)(count * device->replica / replicas);
    const size_t end = (size_t)(count * (device->replica + 1) / replicas);
    const size_t block = BLOCK_BYTES / element_bytes;
    sum_block sum;

    bgi_device_address(device, &reduced->operand, (size_t)count * element_bytes); /* touched */
    for (size_t at = first; at < end; at += block) {
        const size_t length = end - at < block ? end - at : block;
        memcpy(&sum, find_copy(device, 0, &reduced->operand) + at * element_bytes, length * element_bytes);
        for (uint32_t replica = 1; replica < replicas; replica++)
            add_block(reduced->dtype, &sum, find_copy(device, replica, &reduced->operand) + at * element_bytes, length);
        for (uint32_t replica = 0; replica < replicas; replica++)
            memcpy(find_copy(device, replica, &reduced->operand) + at * element_bytes, &sum, length * element_bytes);
    }
}

/* The last one to come wakes workers for the others. */
static void arrive(bgi_device *device, bgi_counter *counter, uint64_t target)
{
    bgi_event_count *events = &device->engine->events;

    if (atomic_fetch_add(&counter->value, 1) + 1 == target)
        bgi_event_count_notify_all(events);
}

bool bgi_reduce_advance(bgi_device *device, const bgi_instruction *instruction, const bgi_worker *worker)
{
    bgi_barrier *barrier = &device->engine->barriers[device->number];
    const uint64_t target = (device->reductions + 1) * device->plan->replicas;
    uint64_t start_ns;

    if (device->plan->replicas == 1)
        return true;
    if (device->phase == ARRIVE) {
        arrive(device, &barrier->arrived, target);
        device->phase = WAIT_FOR_ALL;
    }
    if (device->phase == WAIT_FOR_ALL) {
        if (!bgi_device_reached(device, &barrier->arrived, target))
            return false;
        start_ns = bgi_trace_is_on(device) ? bgi_clock_ns() : 0;
        for (uint32_t i = 0; i < instruction->reduced_count; i++)
            sum_slice(device, &instruction->reduced[i]);
        if (bgi_trace_is_on(device))
            bgi_trace_add(device, worker, BG_ACTION_REDUCE, start_ns);
        arrive(device, &barrier->finished, target);
        device->phase = WAIT_FOR_SUMS;
    }
    if (!bgi_device_reached(device, &barrier->finished, target))
        return false;
    device->reductions++;
    return true;
}
