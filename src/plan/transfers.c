/*
 * transfers.c: lists the transfers of each device, and finds the transfers that each instruction or call waits for. It
 * chooses neither places nor the order of the program.
 *
 * The file simulates two steps of the device's program. For each range of the arena it records the last issued transfer
 * that reads or writes the range. An instruction or call that touches the range waits for that transfer. Transfers run
 * in the order of issue. Each transfer is issued after its source is written and its destination is no longer needed.
 * So a transfer waits only for other replicas that have pieces of the moved value. These waits cannot be circular: all
 * replicas have the same program, and a transfer waits only for earlier ones.
 */
#include "plan/compile.h"

#include <stdlib.h>

#include "core/error.h"

/* The ranges of an arena between the bounds of all transfers; range i is [bounds[i], bounds[i + 1]). */
typedef struct walker {
    bgi_compiler *compiler;
    uint32_t device;
    bgi_transfer *transfers;
    uint32_t transfer_count, capacity;
    size_t *bounds;
    uint32_t *latest; /* by range: 1 + number of the last transfer, over two steps; 0: none */
    uint32_t bound_count;
    uint32_t issued; /* number of transfers issued so far, over two steps */
    /* By transfer: the number of the value that it moves, when replicas have pieces of the value; otherwise 0.
     * Variables have the first numbers, by value, then slots of remote rings. */
    uint32_t *shared_things;
    uint32_t *first_slots, thing_count; /* first_slots: by edge, the number of the first slot of its remote ring */
    bg_error *error;
} walker;

/* ---- the list ---- */

static size_t slot_offset(const bg_plan *plan, uint32_t ring, uint32_t micro_batch)
{
    return plan->edges[ring].offset + micro_batch % plan->edges[ring].depth * plan->edges[ring].slot_bytes;
}

static void add_transfer(walker *w, const bg_action *action, bg_action_kind kind, bg_location_class location_class,
                         size_t arena_offset, size_t remote_offset, size_t size_bytes)
{
    w->transfers[w->transfer_count] = (bgi_transfer){.action = *action,
                                                     .arena_offset = arena_offset,
                                                     .remote_offset = remote_offset,
                                                     .size_bytes = size_bytes,
                                                     .location_class = location_class};
    w->transfers[w->transfer_count++].action.kind = kind;
}

/* Records that each replica of a group has a piece of the value that the last transfer moves. */
static void share_transfer(walker *w, size_t piece_bytes, uint32_t axes, uint32_t thing)
{
    bgi_transfer *transfer = &w->transfers[w->transfer_count - 1];

    transfer->piece_bytes = piece_bytes;
    transfer->piece_axes = axes;
    w->shared_things[w->transfer_count - 1] = thing;
}

/* Records that the replica uses only its own piece, so that the transfer does not wait for other replicas. */
static void own_transfer(walker *w)
{
    bgi_transfer *transfer = &w->transfers[w->transfer_count - 1];

    transfer->is_own = transfer->piece_bytes > 0;
    w->shared_things[w->transfer_count - 1] = 0;
}

static void add_edge_transfer(walker *w, const bg_action *action)
{
    const bgi_compiler *c = w->compiler;
    const uint32_t edge = c->residency->buffers[action->index].edge;
    const bgi_edge_facts *facts = &c->edges->facts[edge];

    add_transfer(w, action, action->kind, BG_LOCATION_ACTIVATIONS,
                 slot_offset(c->plan, action->kind == BG_ACTION_LOAD ? edge : facts->out_ring, action->micro_batch),
                 slot_offset(c->plan, facts->remote_ring, action->micro_batch), c->plan->edges[edge].slot_bytes);
    if (facts->shard_axes != 0)
        share_transfer(w, c->plan->edges[facts->remote_ring].slot_bytes, facts->shard_axes,
                       w->first_slots[facts->stored_by != 0 ? facts->stored_by - 1 : edge] +
                           action->micro_batch % c->plan->edges[facts->remote_ring].depth);
}

static void add_variable_transfers(walker *w, const bg_action *action)
{
    const bgi_compiler *c = w->compiler;

    BGI_FOR_BUCKET(c->residency->variables, action->index, at)
    {
        const uint32_t v = c->residency->variables.items[at];
        add_transfer(w, action, action->kind, bgi_leaf_location(&c->graph->values[v]), c->placement->windows[v].offset,
                     bgi_leaf_place(c, v, w->device).offset, bgi_window_bytes(c, v));
        if (c->residency->home_pieces[v] > 0)
            share_transfer(w, bgi_home_piece_bytes(c, v), BG_MESH_DATA,
                           c->graph->values[v].shares_home ? c->graph->values[v].copy_of.id : v);
        if (c->graph->values[v].role == BG_ROLE_ACCUMULATOR)
            own_transfer(w);
    }
}

/* Returns the bytes from the first replica's piece of an operand to the end of the last one's, or the size of a whole
 * value. */
static size_t find_reach(const walker *w, const bgi_operand *operand, size_t size_bytes)
{
    return size_bytes + (bgi_plan_data_replicas(w->compiler->plan) - 1) * operand->stride;
}

/* Adds the transfer of a call that loads or stores; in both cases its operands are (remote, device). */
static void add_call_transfer(walker *w, const bg_action *action, const bgi_call *call)
{
    add_transfer(w, action, call->traced_as, BG_LOCATION_STATE, call->operands[1].offset, call->operands[0].offset,
                 find_reach(w, &call->operands[0], bg_type_size_bytes(&call->types[0])));
}

static void list_transfers(walker *w, bgi_instruction *instruction)
{
    const bg_action *action = &instruction->action;
    const uint32_t before = w->transfer_count;

    if (action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE) {
        if (w->compiler->residency->buffers[action->index].per_micro_batch)
            add_edge_transfer(w, action);
        else
            add_variable_transfers(w, action);
        instruction->issues = w->transfer_count - before;
        return;
    }
    for (uint32_t i = 0; i < instruction->call_count; i++)
        if (instruction->calls[i].is_transfer)
            add_call_transfer(w, action, &instruction->calls[i]);
}

static uint32_t count_transfers(const walker *w, const bgi_instruction *instruction)
{
    const bgi_residency *residency = w->compiler->residency;
    const bg_action *action = &instruction->action;
    uint32_t count = 0;

    if (action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE) {
        if (residency->buffers[action->index].per_micro_batch)
            return 1;
        return residency->variables.begins[action->index + 1] - residency->variables.begins[action->index];
    }
    for (uint32_t i = 0; i < instruction->call_count; i++)
        count += instruction->calls[i].is_transfer;
    return count;
}

/* ---- ranges of the arena ---- */

static int compare_bounds(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return x < y ? -1 : x > y;
}

static bg_status cut_pieces(walker *w, bgi_arena *arena)
{
    uint32_t count = 0;

    w->bounds = bgi_arena_allocate(arena, 2 * (size_t)w->transfer_count, sizeof *w->bounds);
    w->latest = bgi_arena_allocate(arena, 2 * (size_t)w->transfer_count, sizeof *w->latest);
    if (w->bounds == NULL || w->latest == NULL)
        return bgi_error_memory(w->error, "transfers", 2 * w->transfer_count * sizeof *w->bounds);
    for (uint32_t i = 0; i < w->transfer_count; i++) {
        w->bounds[2 * i] = w->transfers[i].arena_offset;
        w->bounds[2 * i + 1] = w->transfers[i].arena_offset + w->transfers[i].size_bytes;
    }
    qsort(w->bounds, 2 * (size_t)w->transfer_count, sizeof *w->bounds, compare_bounds);
    for (uint32_t i = 0; i < 2 * w->transfer_count; i++)
        if (count == 0 || w->bounds[i] != w->bounds[count - 1])
            w->bounds[count++] = w->bounds[i];
    w->bound_count = count;
    return BG_OK;
}

/* Returns the first range that ends after `offset`; bound_count - 1 or more: none. */
static uint32_t find_piece(const walker *w, size_t offset)
{
    uint32_t low = 0, high = w->bound_count - 1;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (w->bounds[middle + 1] > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint32_t find_latest(const walker *w, size_t offset, size_t size_bytes)
{
    uint32_t latest = 0;

    for (uint32_t i = find_piece(w, offset); i + 1 < w->bound_count && w->bounds[i] < offset + size_bytes; i++)
        latest = w->latest[i] > latest ? w->latest[i] : latest;
    return latest;
}

static void issue(walker *w, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        const bgi_transfer *transfer = &w->transfers[w->issued++ % w->transfer_count];
        const size_t end = transfer->arena_offset + transfer->size_bytes;
        for (uint32_t i = find_piece(w, transfer->arena_offset); i + 1 < w->bound_count && w->bounds[i] < end; i++)
            w->latest[i] = w->issued;
    }
}

/* ---- waits ---- */

static uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Returns 1 + the number of the last transfer that touches an operand, or 0. Transfers of edges move only slots of
 * rings. */
static uint32_t find_operand_wait(const walker *w, const bgi_operand *operand, uint32_t micro_batch, size_t size_bytes)
{
    const bg_plan *plan = w->compiler->plan;
    size_t offset = operand->offset;

    if (operand->memory != BGI_MEMORY_ARENA)
        return 0;
    if (operand->edge != BGI_NO_EDGE) {
        const bgi_plan_edge *edge = &plan->edges[operand->edge];
        if (!edge->is_ring)
            return 0;
        offset += micro_batch % edge->depth * edge->slot_bytes;
    }
    return find_latest(w, offset, find_reach(w, operand, size_bytes));
}

static uint32_t find_call_wait(const walker *w, const bgi_call *call, uint32_t micro_batch)
{
    uint32_t wait =
        call->kernel.scratch_bytes > 0 ? find_latest(w, call->scratch_offset, call->kernel.scratch_bytes) : 0;

    for (uint32_t i = 0; i < call->input_count + call->output_count; i++)
        wait = later(wait, find_operand_wait(w, &call->operands[i], micro_batch, bg_type_size_bytes(&call->types[i])));
    return wait;
}

/* Sets the transfers that an instruction waits for: once, or before each call in an update with transfers. */
static void find_waits(walker *w, bgi_instruction *instruction, uint32_t *call_waits)
{
    const uint32_t micro_batch = instruction->action.micro_batch;
    uint32_t wait = 0;

    for (uint32_t i = 0; i < instruction->call_count; i++) {
        const bgi_call *call = &instruction->calls[i];
        if (call->is_transfer) {
            issue(w, 1);
            continue;
        }
        if (call_waits != NULL)
            call_waits[i] = find_call_wait(w, call, micro_batch);
        else
            wait = later(wait, find_call_wait(w, call, micro_batch));
    }
    /* The call that made the outputs of an update has already waited. */
    for (uint32_t i = 0; call_waits == NULL && i < instruction->copy_count; i++)
        wait = later(wait, find_operand_wait(w, &instruction->copies[i].operand, micro_batch,
                                             instruction->copies[i].size_bytes));
    for (uint32_t i = 0; i < instruction->reduced_count; i++)
        wait = later(wait, find_operand_wait(w, &instruction->reduced[i].operand, micro_batch,
                                             (size_t)instruction->reduced[i].element_count *
                                                 bg_dtype_size_bytes(instruction->reduced[i].dtype)));
    instruction->io_wait = wait;
    issue(w, instruction->issues);
}

static bg_status walk_steps(walker *w, bgi_instruction *instructions, uint32_t count)
{
    for (uint32_t step = 0; step < 2; step++)
        for (uint32_t i = 0; i < count; i++) {
            uint32_t *call_waits = (uint32_t *)(uintptr_t)instructions[i].call_waits;
            if (call_waits == NULL && instructions[i].action.kind == BG_ACTION_UPDATE &&
                instructions[i].call_count > 0) {
                call_waits =
                    bgi_arena_allocate(&w->compiler->plan->arena, instructions[i].call_count, sizeof *call_waits);
                if (call_waits == NULL)
                    return bgi_error_memory(w->error, "transfers", instructions[i].call_count * sizeof *call_waits);
                instructions[i].call_waits = call_waits;
            }
            find_waits(w, &instructions[i], call_waits);
        }
    return BG_OK;
}

/* ---- pieces of other replicas ---- */

/* Sets the transfers of other replicas that each transfer waits for: a load waits for every replica's last store of the
 * value, and a store for every replica's last load. All replicas have the same list. Two steps are simulated, as for
 * the other waits. */
static bg_status find_peer_waits(walker *w, bgi_arena *arena)
{
    bgi_plan_device *device = &w->compiler->plan->devices[w->device];
    uint32_t *loads =
        bgi_arena_allocate(arena, w->thing_count, sizeof *loads); /* 1 + number of the last transfer; 0: none */
    uint32_t *stores = bgi_arena_allocate(arena, w->thing_count, sizeof *stores);

    if (loads == NULL || stores == NULL)
        return bgi_error_memory(w->error, "transfers", w->thing_count * sizeof *loads);
    for (uint32_t n = 0; n < 2 * w->transfer_count; n++) {
        bgi_transfer *transfer = &w->transfers[n % w->transfer_count];
        const uint32_t thing = w->shared_things[n % w->transfer_count];
        if (thing == 0)
            continue;
        device->piece_axes |= transfer->piece_axes;
        transfer->peer_wait = transfer->action.kind == BG_ACTION_LOAD ? stores[thing] : loads[thing];
        (transfer->action.kind == BG_ACTION_LOAD ? loads : stores)[thing] = n + 1;
    }
    return BG_OK;
}

static void number_things(walker *w)
{
    const bgi_compiler *c = w->compiler;

    w->thing_count = (uint32_t)c->graph->value_count;
    for (uint32_t e = 0; e < c->edges->count; e++) {
        w->first_slots[e] = w->thing_count;
        if (c->edges->facts[e].shard_axes != 0 && c->edges->facts[e].stored_by == 0)
            w->thing_count += c->plan->edges[c->edges->facts[e].remote_ring].depth;
    }
}

static bg_status write_device(bgi_compiler *c, uint32_t device, bg_error *error)
{
    bgi_plan_device *to = &c->plan->devices[device];
    bgi_instruction *instructions =
        (bgi_instruction *)(uintptr_t)to->instructions; /* program.c has allocated them as writable */
    walker w = {.compiler = c, .device = device, .error = error};
    size_t total = 0;
    bgi_arena arena = {0};
    bg_status status;

    for (uint32_t i = 0; i < to->instruction_count; i++)
        total += count_transfers(&w, &instructions[i]);
    if (total == 0)
        return BG_OK;
    if (total > INT32_MAX / 2)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "device %u has %zu loads and stores a step; it must have fewer than 2^30", device, total);
    w.transfers = bgi_arena_allocate(&c->plan->arena, total, sizeof *w.transfers);
    w.shared_things = bgi_arena_allocate(&c->scratch, total, sizeof *w.shared_things);
    w.first_slots = bgi_arena_allocate(&c->scratch, c->edges->count, sizeof *w.first_slots);
    if (w.transfers == NULL || w.shared_things == NULL || (w.first_slots == NULL && c->edges->count > 0))
        return bgi_error_memory(error, "transfers", total * sizeof *w.transfers);
    number_things(&w);
    for (uint32_t i = 0; i < to->instruction_count; i++)
        list_transfers(&w, &instructions[i]);
    to->transfers = w.transfers;
    to->transfer_count = w.transfer_count;
    status = cut_pieces(&w, &arena);
    if (status == BG_OK)
        status = find_peer_waits(&w, &arena);
    if (status == BG_OK)
        status = walk_steps(&w, instructions, to->instruction_count);
    bgi_arena_clear(&arena);
    return status;
}

bg_status bgi_write_transfers(bgi_compiler *c, bg_error *error)
{
    for (uint32_t d = 0; d < c->stages->device_count; d++)
        BGI_TRY(write_device(c, d, error));
    return BG_OK;
}
