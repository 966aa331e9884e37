/*
 * collective.c: sums over replicas, in replica order, and exchanges of pieces, as four steps that can each be parked
 * at:
 *
 *     arrive | wait until all have | do my share, say so | wait until all have
 *
 *     REDUCE              adds its slice up, writes it into every copy
 *     REDUCE to pieces    adds its piece up, writes it into its own copy     (reduce-scatter)
 *     GATHER              copies the others' pieces into its own copy        (all-gather)
 */
#include "runtime/engine.h"

#include <string.h>

#include "core/clock.h"
#include "kernels/reference/element.h"

enum { ARRIVE = 0, WAIT_FOR_ALL, WAIT_FOR_SHARES, BLOCK_BYTES = 8192 };

typedef union sum_block {
    float f[BLOCK_BYTES / sizeof(float)];
    double d[BLOCK_BYTES / sizeof(double)];
    uint16_t b[BLOCK_BYTES / sizeof(uint16_t)];
} sum_block;

static void add_block(bg_dtype dtype, sum_block *restrict sum, const void *restrict term, size_t element_count)
{
    if (dtype == BG_FLOAT64)
        for (size_t i = 0; i < element_count; i++)
            sum->d[i] += ((const double *)term)[i];
    else if (dtype == BG_BFLOAT16)
        for (size_t i = 0; i < element_count; i++)
            bgi_store(dtype, sum->b, (int64_t)i,
                      bgi_load(dtype, sum->b, (int64_t)i) + bgi_load(dtype, term, (int64_t)i));
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

typedef struct slice {
    size_t first, end; /* elements */
} slice;

/* The r-th piece; what is left of it when the elements end before. */
static slice find_piece(const bgi_reduced *reduced, uint32_t replica)
{
    const uint64_t count = (uint64_t)reduced->element_count;
    const uint64_t first = (uint64_t)reduced->piece_count * replica, end = first + (uint64_t)reduced->piece_count;

    return (slice){(size_t)(first < count ? first : count), (size_t)(end < count ? end : count)};
}

static slice find_slice(const bgi_reduced *reduced, uint32_t replica, uint32_t replicas)
{
    const uint64_t count = (uint64_t)reduced->element_count;

    if (reduced->piece_count > 0)
        return find_piece(reduced, replica);
    return (slice){(size_t)(count * replica / replicas), (size_t)(count * (replica + 1) / replicas)};
}

/* ((x0 + x1) + x2) + ... for each element of this replica's slice. In blocks that stay in the nearest cache. */
static void sum_slice(bgi_device *device, const bgi_reduced *reduced)
{
    const uint32_t replicas = device->plan->replicas;
    const bool is_scattered = reduced->piece_count > 0;
    const uint32_t first_reader = is_scattered ? device->replica : 0;
    const uint32_t reader_end = is_scattered ? device->replica + 1 : replicas;
    const size_t element_bytes = bg_dtype_size_bytes(reduced->dtype);
    const slice mine = find_slice(reduced, device->replica, replicas);
    const size_t block = BLOCK_BYTES / element_bytes;
    sum_block sum;

    for (size_t at = mine.first; at < mine.end; at += block) {
        const size_t length = mine.end - at < block ? mine.end - at : block;
        memcpy(&sum, find_copy(device, 0, &reduced->operand) + at * element_bytes, length * element_bytes);
        for (uint32_t replica = 1; replica < replicas; replica++)
            add_block(reduced->dtype, &sum, find_copy(device, replica, &reduced->operand) + at * element_bytes, length);
        for (uint32_t reader = first_reader; reader < reader_end; reader++)
            memcpy(find_copy(device, reader, &reduced->operand) + at * element_bytes, &sum, length * element_bytes);
    }
}

static void gather_pieces(bgi_device *device, const bgi_reduced *gathered)
{
    const size_t element_bytes = bg_dtype_size_bytes(gathered->dtype);
    char *mine = find_copy(device, device->replica, &gathered->operand);

    for (uint32_t replica = 0; replica < device->plan->replicas; replica++) {
        const slice piece = find_piece(gathered, replica);
        if (replica != device->replica)
            memcpy(mine + piece.first * element_bytes,
                   find_copy(device, replica, &gathered->operand) + piece.first * element_bytes,
                   (piece.end - piece.first) * element_bytes);
    }
}

static void do_share(bgi_device *device, const bgi_instruction *instruction)
{
    for (uint32_t i = 0; i < instruction->reduced_count; i++) {
        const bgi_reduced *reduced = &instruction->reduced[i];
        bgi_device_address(device, &reduced->operand,
                           (size_t)reduced->element_count * bg_dtype_size_bytes(reduced->dtype)); /* touched */
        if (instruction->action.kind == BG_ACTION_REDUCE)
            sum_slice(device, reduced);
        else
            gather_pieces(device, reduced);
    }
}

/* The last one to come wakes workers for the others. */
static void arrive(bgi_device *device, bgi_counter *counter, uint64_t target)
{
    bgi_event_count *events = &device->engine->events;

    if (atomic_fetch_add(&counter->value, 1) + 1 == target)
        bgi_event_count_notify_all(events);
}

bool bgi_collective_advance(bgi_device *device, const bgi_instruction *instruction, const bgi_worker *worker)
{
    bgi_barrier *barrier = &device->engine->barriers[device->number];
    const uint64_t target = (device->collectives + 1) * device->plan->replicas;
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
        do_share(device, instruction);
        if (bgi_trace_is_on(device))
            bgi_trace_add(device, worker, instruction->action.kind, start_ns);
        arrive(device, &barrier->finished, target);
        device->phase = WAIT_FOR_SHARES;
    }
    if (!bgi_device_reached(device, &barrier->finished, target))
        return false;
    device->collectives++;
    return true;
}
