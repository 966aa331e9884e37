/*
 * collective.c: replicas of a group meet: sums over them, in the order of the members, and exchanges of pieces, as four
 * steps that can each be parked at:
 *
 *     arrive | wait until all have | do my share, say so | wait until all have
 *
 *     REDUCE              adds its slice up, writes it into every copy
 *     REDUCE to pieces    adds its piece up, writes it into its own copy     (reduce-scatter)
 *     GATHER              copies the others' pieces into its own copy        (all-gather)
 *
 * and the same three as calls of the model, along dimensions of its tensors. A share is a function of the member's
 * place alone, and each element is made once, in the members' order: all copies have the same bits, whoever comes last.
 */
#include "runtime/engine.h"

#include <string.h>

#include "core/clock.h"
#include "kernels/attributes.h"
#include "kernels/reference/element.h"

enum { ARRIVE = 0, WAIT_FOR_ALL, WAIT_FOR_SHARES, BLOCK_BYTES = 8192 };

/* ---- meeting ---- */

/* The last one to come wakes workers for the others. */
static void arrive(bgi_device *device, bgi_counter *counter, uint64_t target)
{
    bgi_event_count *events = &device->engine->events;

    if (atomic_fetch_add(&counter->value, 1) + 1 == target)
        bgi_event_count_notify_all(events);
}

typedef void (*share_function)(bgi_device *device, const void *what);

/* Meets the group along the axes as far as it goes; true when all have done their share of `what`. */
static bool meet(bgi_device *device, uint32_t axes, share_function do_share, const void *what, bg_action_kind traced_as,
                 const bgi_worker *worker)
{
    const bg_mesh mesh = bgi_plan_mesh(device->plan);
    const uint32_t size = bg_mesh_group_size(&mesh, axes);
    bgi_barrier *barrier = bgi_engine_barrier(device->engine, device->number, axes, device->replica);
    const uint64_t target = (device->meetings[axes] + 1) * size;
    uint64_t start_ns;

    if (size == 1)
        return true;
    if (device->phase == ARRIVE) {
        arrive(device, &barrier->arrived, target);
        device->phase = WAIT_FOR_ALL;
    }
    if (device->phase == WAIT_FOR_ALL) {
        if (!bgi_device_reached(device, &barrier->arrived, target))
            return false;
        start_ns = bgi_trace_is_on(device) ? bgi_clock_ns() : 0;
        do_share(device, what);
        if (bgi_trace_is_on(device))
            bgi_trace_add(device, worker, traced_as, start_ns);
        arrive(device, &barrier->finished, target);
        device->phase = WAIT_FOR_SHARES;
    }
    if (!bgi_device_reached(device, &barrier->finished, target))
        return false;
    device->meetings[axes]++;
    device->phase = ARRIVE;
    return true;
}

/* ---- sums ---- */

/* Floats of 16 bits are added up in float. */
typedef union sum_block {
    float f[BLOCK_BYTES / sizeof(float)];
    double d[BLOCK_BYTES / sizeof(double)];
} sum_block;

/* What is added up, or the largest of it taken, over a group, and where it goes. */
typedef struct sum_job {
    bg_dtype dtype;
    bg_reduction function;
    uint32_t axes;
    const bgi_operand *from, *to;
} sum_job;

/* The address of an operand in a member of the device's group. */
static char *find_copy(bgi_device *device, uint32_t axes, uint32_t member, const bgi_operand *operand)
{
    void *const *memory = operand->is_remote ? device->engine->remotes : device->engine->arenas;
    const char *const base = operand->is_remote ? device->remotes[operand->device] : device->arenas[operand->device];
    const bg_mesh mesh = bgi_plan_mesh(device->plan);
    const uint32_t replica = bg_mesh_group_at(&mesh, axes, device->replica, member);
    const size_t offset = (size_t)((const char *)bgi_device_address(device, operand, 0) - base);

    return (char *)memory[(size_t)replica * device->plan->device_count + operand->device] + offset;
}

static float larger(float a, float b)
{
    return b > a || b != b ? b : a; /* a NaN stays */
}

static double larger_double(double a, double b)
{
    return b > a || b != b ? b : a;
}

static void begin_block(bg_dtype dtype, sum_block *restrict sum, const void *restrict first, size_t count)
{
    if (!bgi_dtype_is_narrow(dtype))
        memcpy(sum, first, count * bg_dtype_size_bytes(dtype));
    for (size_t i = 0; bgi_dtype_is_narrow(dtype) && i < count; i++)
        sum->f[i] = bgi_narrow_to_float(dtype, ((const uint16_t *)first)[i]);
}

static void add_block(const sum_job *job, sum_block *restrict sum, const void *restrict term, size_t count)
{
    const bool adds = job->function == BG_REDUCE_SUM;
    const double *const d = term;
    const float *f = term;
    sum_block wide;

    if (bgi_dtype_is_narrow(job->dtype)) {
        begin_block(job->dtype, &wide, term, count);
        f = wide.f;
    }
    if (job->dtype == BG_FLOAT64)
        for (size_t i = 0; i < count; i++)
            sum->d[i] = adds ? sum->d[i] + d[i] : larger_double(sum->d[i], d[i]);
    else
        for (size_t i = 0; i < count; i++)
            sum->f[i] = adds ? sum->f[i] + f[i] : larger(sum->f[i], f[i]);
}

static void store_block(bg_dtype dtype, const sum_block *restrict sum, void *restrict to, size_t count)
{
    if (!bgi_dtype_is_narrow(dtype))
        memcpy(to, sum, count * bg_dtype_size_bytes(dtype));
    for (size_t i = 0; bgi_dtype_is_narrow(dtype) && i < count; i++)
        ((uint16_t *)to)[i] = bgi_narrow_from_float(dtype, sum->f[i]);
}

typedef struct slice {
    size_t first, end; /* elements, or members */
} slice;

/* ((x0 + x1) + x2) + ... of the members' elements, to `to_first` and after it in the readers. In blocks that stay in
 * the nearest cache. */
static void sum_slice(bgi_device *device, const sum_job *job, slice elements, size_t to_first, slice readers)
{
    const bg_mesh mesh = bgi_plan_mesh(device->plan);
    const uint32_t size = bg_mesh_group_size(&mesh, job->axes);
    const size_t element_bytes = bg_dtype_size_bytes(job->dtype);
    const size_t block = BLOCK_BYTES / (job->dtype == BG_FLOAT64 ? sizeof(double) : sizeof(float));
    sum_block sum;

    for (size_t at = elements.first; at < elements.end; at += block) {
        const size_t length = elements.end - at < block ? elements.end - at : block;
        const size_t to = (to_first + (at - elements.first)) * element_bytes;
        begin_block(job->dtype, &sum, find_copy(device, job->axes, 0, job->from) + at * element_bytes, length);
        for (uint32_t member = 1; member < size; member++)
            add_block(job, &sum, find_copy(device, job->axes, member, job->from) + at * element_bytes, length);
        for (size_t reader = readers.first; reader < readers.end; reader++)
            store_block(job->dtype, &sum, find_copy(device, job->axes, (uint32_t)reader, job->to) + to, length);
    }
}

/* The member's of `size` almost equal ones. */
static slice find_slice(uint64_t count, uint32_t member, uint32_t size)
{
    return (slice){(size_t)(count * member / size), (size_t)(count * (member + 1) / size)};
}

/* ---- REDUCE and GATHER ---- */

/* A member's piece; what is left of it when the elements end before. */
static slice find_piece(const bgi_reduced *reduced, uint32_t member)
{
    const uint64_t count = (uint64_t)reduced->element_count;
    const uint64_t first = (uint64_t)reduced->piece_count * member, end = first + (uint64_t)reduced->piece_count;

    return (slice){(size_t)(first < count ? first : count), (size_t)(end < count ? end : count)};
}

static void sum_gradient(bgi_device *device, const bgi_reduced *reduced)
{
    const uint32_t size = bgi_group_size(device), place = bgi_group_place(device);
    const bool is_scattered = reduced->piece_count > 0;
    const sum_job job = {
        .dtype = reduced->dtype, .axes = BG_MESH_DATA, .from = &reduced->operand, .to = &reduced->operand};
    const slice mine =
        is_scattered ? find_piece(reduced, place) : find_slice((uint64_t)reduced->element_count, place, size);
    const slice readers = is_scattered ? (slice){place, place + 1} : (slice){0, size};

    sum_slice(device, &job, mine, mine.first, readers);
}

static void gather_pieces(bgi_device *device, const bgi_reduced *gathered)
{
    const size_t element_bytes = bg_dtype_size_bytes(gathered->dtype);
    const uint32_t place = bgi_group_place(device);
    char *mine = find_copy(device, BG_MESH_DATA, place, &gathered->operand);

    for (uint32_t member = 0; member < bgi_group_size(device); member++) {
        const slice piece = find_piece(gathered, member);
        if (member != place)
            memcpy(mine + piece.first * element_bytes,
                   find_copy(device, BG_MESH_DATA, member, &gathered->operand) + piece.first * element_bytes,
                   (piece.end - piece.first) * element_bytes);
    }
}

static void do_action(bgi_device *device, const void *what)
{
    const bgi_instruction *instruction = what;

    for (uint32_t i = 0; i < instruction->reduced_count; i++) {
        const bgi_reduced *reduced = &instruction->reduced[i];
        bgi_device_address(device, &reduced->operand,
                           (size_t)reduced->element_count * bg_dtype_size_bytes(reduced->dtype)); /* touched */
        if (instruction->action.kind == BG_ACTION_REDUCE)
            sum_gradient(device, reduced);
        else
            gather_pieces(device, reduced);
    }
}

bool bgi_collective_advance(bgi_device *device, const bgi_instruction *instruction, const bgi_worker *worker)
{
    return meet(device, BG_MESH_DATA, do_action, instruction, instruction->action.kind, worker);
}

/* ---- collectives of the model ---- */

/* A tensor as [outer, along, inner]: a member's piece is part of `along`. */
typedef struct rows {
    size_t outer, inner; /* of a piece: inner has all of its `along` */
} rows;

static rows find_rows(const bg_type *piece, uint32_t axis)
{
    rows found = {1, 1};

    for (uint32_t i = 0; i < piece->rank; i++)
        *(i < axis ? &found.outer : &found.inner) *= (size_t)piece->dims[i];
    return found;
}

static void gather_rows(bgi_device *device, const bgi_call *call)
{
    const bgi_collective_attributes *attributes = call->attributes;
    const rows piece = find_rows(&call->types[0], attributes->axis);
    const size_t row_bytes = piece.inner * bg_dtype_size_bytes(call->types[0].dtype);
    char *to = bgi_device_address(device, &call->operands[1], 0);

    for (uint32_t member = 0; member < attributes->members; member++) {
        const char *from = find_copy(device, attributes->axes, member, &call->operands[0]);
        for (size_t row = 0; row < piece.outer; row++)
            memcpy(to + (row * attributes->members + member) * row_bytes, from + row * row_bytes, row_bytes);
    }
}

static void scatter_rows(bgi_device *device, const bgi_call *call, const sum_job *job, uint32_t place)
{
    const bgi_collective_attributes *attributes = call->attributes;
    const rows piece = find_rows(&call->types[1], attributes->axis);

    for (size_t row = 0; row < piece.outer; row++) {
        const size_t first = (row * attributes->members + place) * piece.inner;
        sum_slice(device, job, (slice){first, first + piece.inner}, row * piece.inner, (slice){place, place + 1});
    }
}

static void do_call(bgi_device *device, const void *what)
{
    const bgi_call *call = what;
    const bgi_collective_attributes *attributes = call->attributes;
    const bg_mesh mesh = bgi_plan_mesh(device->plan);
    const uint32_t place = bg_mesh_group_member(&mesh, attributes->axes, device->replica);
    const sum_job job = {.dtype = call->types[0].dtype,
                         .function = attributes->function,
                         .axes = attributes->axes,
                         .from = &call->operands[0],
                         .to = &call->operands[1]};

    for (uint32_t i = 0; i < 2; i++)
        bgi_device_address(device, &call->operands[i], bg_type_size_bytes(&call->types[i])); /* touched */
    if (attributes->kind == BGI_COLLECTIVE_GATHER) {
        gather_rows(device, call);
    } else if (attributes->kind == BGI_COLLECTIVE_SCATTER) {
        scatter_rows(device, call, &job, place);
    } else {
        const uint64_t count = (uint64_t)bg_type_element_count(&call->types[0]);
        const slice mine = find_slice(count, place, attributes->members);
        sum_slice(device, &job, mine, mine.first, (slice){0, attributes->members});
    }
}

bool bgi_collective_call(bgi_device *device, const bgi_call *call, const bgi_worker *worker)
{
    const bgi_collective_attributes *attributes = call->attributes;

    return meet(device, attributes->axes, do_call, call,
                attributes->kind == BGI_COLLECTIVE_GATHER ? BG_ACTION_GATHER : BG_ACTION_REDUCE, worker);
}
