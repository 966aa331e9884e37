/*
 * beside.c: decides which sums over replicas run concurrently with the program. It reads only each device's
 * instructions, not the schedule.
 *
 *     B1 B1 REDUCE 1 | B0 B0 ...... | U1          the device continues until an instruction touches the sum
 *
 * At most one sum is in progress at a time, and it completes before the step ends. If the next work after a REDUCE
 * touches the sum, the device waits in the REDUCE. Devices of a strict plan always wait in the REDUCE, because only one
 * device of a replica works at a time.
 */
#include "plan/compile.h"

#include <stdlib.h>

#include "core/error.h"

/* The bytes that a REDUCE sums: extents in ascending order, without overlaps. */
typedef struct summed {
    const bgi_extent *places;
    uint32_t count;
} summed;

bgi_extent bgi_summed_extent(const bg_plan *plan, const bgi_reduced *reduced)
{
    const int64_t padded = reduced->piece_count * bgi_plan_data_replicas(plan);
    const int64_t elements = padded > reduced->element_count ? padded : reduced->element_count;

    return (bgi_extent){reduced->operand.offset,
                        reduced->operand.offset + (size_t)elements * bg_dtype_size_bytes(reduced->dtype)};
}

static int compare_places(const void *a, const void *b)
{
    const bgi_extent *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static summed find_summed(const bg_plan *plan, const bgi_instruction *sum, bgi_extent *places)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < sum->reduced_count; i++)
        places[i] = bgi_summed_extent(plan, &sum->reduced[i]);
    qsort(places, sum->reduced_count, sizeof *places, compare_places);
    for (uint32_t i = 0; i < sum->reduced_count; i++)
        if (count == 0 || places[i].begin >= places[count - 1].end)
            places[count++] = places[i];
        else if (places[i].end > places[count - 1].end)
            places[count - 1].end = places[i].end;
    return (summed){places, count};
}

static bool is_summed(const summed *sum, bgi_extent touched)
{
    uint32_t low = 0, high = sum->count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (sum->places[middle].end > touched.begin)
            high = middle;
        else
            low = middle + 1;
    }
    return low < sum->count && sum->places[low].begin < touched.end;
}

/* Sets *out to the bytes of an operand, with all its slots and all replicas' pieces. Returns false when the operand is
 * not in the arena. */
static bool find_extent(const bg_plan *plan, const bgi_operand *operand, size_t size_bytes, bgi_extent *out)
{
    const bgi_plan_edge *edge = operand->edge != BGI_NO_EDGE ? &plan->edges[operand->edge] : NULL;

    if (operand->memory != BGI_MEMORY_ARENA)
        return false;
    *out = (bgi_extent){operand->offset, operand->offset + size_bytes};
    out->end += (bgi_plan_data_replicas(plan) - 1) * operand->stride;
    if (edge != NULL && edge->depth > 1)
        out->end += (edge->depth - 1) * edge->slot_bytes;
    return true;
}

bool bgi_call_extent(const bg_plan *plan, const bgi_call *call, uint32_t number, bgi_extent *out)
{
    if (number > 0)
        return find_extent(plan, &call->operands[number - 1], bg_type_size_bytes(&call->types[number - 1]), out);
    *out = (bgi_extent){call->scratch_offset, call->scratch_offset + call->kernel.scratch_bytes};
    return call->kernel.scratch_bytes > 0;
}

bool bgi_call_meets_replicas(const bgi_call *call)
{
    const bgi_collective_attributes *attributes = call->attributes;

    return call->is_collective && attributes->axes == BG_MESH_DATA;
}

static bool touches_memory(const bg_plan *plan, const summed *sum, const bgi_call *call)
{
    bgi_extent touched;

    for (uint32_t i = 0; i <= call->input_count + call->output_count; i++)
        if (bgi_call_extent(plan, call, i, &touched) && is_summed(sum, touched))
            return true;
    return false;
}

/* Returns whether the instruction touches the sum or meets other replicas: by its kind, or with its calls, copies or
 * transfers, which begin with transfer `first`. */
static bool touches(const bg_plan *plan, const bgi_plan_device *on, const summed *sum,
                    const bgi_instruction *instruction, uint32_t first)
{
    bgi_extent touched;
    uint32_t transfers = instruction->issues;

    if (instruction->action.kind == BG_ACTION_REDUCE || instruction->action.kind == BG_ACTION_GATHER)
        return true;
    for (uint32_t i = 0; i < instruction->call_count; i++) {
        transfers += instruction->calls[i].is_transfer;
        if (bgi_call_meets_replicas(&instruction->calls[i]) || touches_memory(plan, sum, &instruction->calls[i]))
            return true;
    }
    for (uint32_t i = first; i < first + transfers && i < on->transfer_count; i++) {
        const bgi_transfer *transfer = &on->transfers[i];
        if (is_summed(sum, (bgi_extent){transfer->arena_offset, transfer->arena_offset + transfer->size_bytes}))
            return true;
    }
    for (uint32_t i = 0; i < instruction->copy_count; i++)
        if (find_extent(plan, &instruction->copies[i].operand, instruction->copies[i].size_bytes, &touched) &&
            is_summed(sum, touched))
            return true;
    return false;
}

uint32_t bgi_count_transfers(const bgi_instruction *instruction)
{
    uint32_t count = instruction->issues;

    for (uint32_t i = 0; i < instruction->call_count; i++)
        count += instruction->calls[i].is_transfer;
    return count;
}

uint32_t bgi_count_most_reduced(const bgi_plan_device *on)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < on->instruction_count; i++)
        if (on->instructions[i].reduced_count > most)
            most = on->instructions[i].reduced_count;
    return most;
}

uint32_t bgi_find_first_touch(const bg_plan *plan, uint32_t device, uint32_t sum, uint32_t transfers_before,
                              bgi_extent *places, bool *out_has_work)
{
    const bgi_plan_device *on = &plan->devices[device];
    const summed found = find_summed(plan, &on->instructions[sum], places);
    const bgi_instruction *before = NULL; /* the previous instruction that was examined */

    *out_has_work = false;
    for (uint32_t i = sum + 1; i < on->instruction_count; i++) {
        const bgi_instruction *instruction = &on->instructions[i];
        /* Micro-batches share their calls, so an instruction with the same calls and no transfers need not be examined
         * again. */
        const bool is_alike = before != NULL && instruction->call_count > 0 && instruction->calls == before->calls &&
                              instruction->call_count <= before->call_count && instruction->copies == before->copies;
        if (!is_alike && touches(plan, on, &found, instruction, transfers_before))
            return i;
        if (instruction->call_count > 0)
            before = instruction;
        *out_has_work |= instruction->call_count > 0;
        transfers_before += bgi_count_transfers(instruction);
    }
    return BGI_NO_INSTRUCTION;
}

bg_status bgi_set_sums_beside(bgi_compiler *c, bg_error *error)
{
    if (bgi_plan_data_replicas(c->plan) <= 1 || bgi_plan_is_strict(c->plan))
        return BG_OK;
    for (uint32_t d = 0; d < c->plan->device_count; d++) {
        const bgi_plan_device *on = &c->plan->devices[d];
        bgi_instruction *instructions =
            (bgi_instruction *)(uintptr_t)on->instructions; /* program.c has allocated them as writable */
        bgi_extent *places = bgi_arena_allocate(&c->scratch, bgi_count_most_reduced(on), sizeof *places);
        uint32_t transfers = 0;

        if (places == NULL)
            return bgi_error_memory(error, "sums of gradients", bgi_count_most_reduced(on) * sizeof *places);
        for (uint32_t i = 0; i < on->instruction_count; i++) {
            uint32_t touch;
            bool has_work;
            transfers += bgi_count_transfers(&instructions[i]);
            if (instructions[i].action.kind != BG_ACTION_REDUCE || instructions[i].reduced_count == 0)
                continue;
            touch = bgi_find_first_touch(c->plan, d, i, transfers, places, &has_work);
            if (touch == BGI_NO_INSTRUCTION || !has_work)
                continue;
            instructions[i].is_beside = true;
            instructions[touch].needs_sum = true;
        }
    }
    return BG_OK;
}
