/*
 * beside.c: decides which sums over replicas run beside the program. It knows no schedule: it reads each device's
 * instructions.
 *
 *     B1 B1 REDUCE 1 | B0 B0 ...... | U1          the device goes on until something touches what is being summed
 *
 * One sum at a time is in progress, and none when a step ends. Where the next work after a REDUCE already touches the
 * sum, the device waits in the REDUCE, as every device of a strict plan does, whose instructions run one after another.
 */
#include "plan/compile.h"

#include "core/error.h"

typedef bgi_extent range;

static bool meets(range a, range b)
{
    return a.begin < b.end && b.begin < a.end;
}

bgi_extent bgi_summed_extent(const bg_plan *plan, const bgi_reduced *reduced)
{
    const int64_t padded = reduced->piece_count * bgi_plan_data_replicas(plan);
    const int64_t elements = padded > reduced->element_count ? padded : reduced->element_count;

    return (range){reduced->operand.offset,
                   reduced->operand.offset + (size_t)elements * bg_dtype_size_bytes(reduced->dtype)};
}

static bool is_summed(const bg_plan *plan, const bgi_instruction *sum, range touched)
{
    for (uint32_t i = 0; i < sum->reduced_count; i++)
        if (meets(bgi_summed_extent(plan, &sum->reduced[i]), touched))
            return true;
    return false;
}

bool bgi_operand_extent(const bg_plan *plan, const bgi_operand *operand, size_t size_bytes, bgi_extent *out)
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

static bool touches_operand(const bg_plan *plan, const bgi_instruction *sum, const bgi_operand *operand,
                            size_t size_bytes)
{
    range touched;

    return bgi_operand_extent(plan, operand, size_bytes, &touched) && is_summed(plan, sum, touched);
}

bool bgi_call_meets_replicas(const bgi_call *call)
{
    const bgi_collective_attributes *attributes = call->attributes;

    return call->is_collective && attributes->axes == BG_MESH_DATA;
}

static bool touches_memory(const bg_plan *plan, const bgi_instruction *sum, const bgi_call *call)
{
    if (call->kernel.scratch_bytes > 0 &&
        is_summed(plan, sum, (range){call->scratch_offset, call->scratch_offset + call->kernel.scratch_bytes}))
        return true;
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++)
        if (touches_operand(plan, sum, &call->operands[i], bg_type_size_bytes(&call->types[i])))
            return true;
    return false;
}

bool bgi_touches_sum(const bg_plan *plan, const bgi_instruction *sum, const bgi_instruction *instruction)
{
    for (uint32_t i = 0; i < instruction->call_count; i++)
        if (touches_memory(plan, sum, &instruction->calls[i]))
            return true;
    return false;
}

/* Checks the instruction's own calls, and the transfers that it issues, beginning with transfer `first`. */
static bool touches(const bg_plan *plan, const bgi_plan_device *on, const bgi_instruction *sum,
                    const bgi_instruction *instruction, uint32_t first)
{
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
        if (is_summed(plan, sum, (range){transfer->arena_offset, transfer->arena_offset + transfer->size_bytes}))
            return true;
    }
    for (uint32_t i = 0; i < instruction->copy_count; i++)
        if (touches_operand(plan, sum, &instruction->copies[i].operand, instruction->copies[i].size_bytes))
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

uint32_t bgi_find_first_touch(const bg_plan *plan, uint32_t device, uint32_t sum, uint32_t transfers_before,
                              bool *out_has_work)
{
    const bgi_plan_device *on = &plan->devices[device];
    const bgi_instruction *before = NULL; /* the previous instruction that was examined */

    *out_has_work = false;
    for (uint32_t i = sum + 1; i < on->instruction_count; i++) {
        const bgi_instruction *instruction = &on->instructions[i];
        /* Micro-batches share their calls; instructions with the same calls and no transfers need not be examined
         * again. */
        const bool is_alike = before != NULL && instruction->call_count > 0 && instruction->calls == before->calls &&
                              instruction->call_count <= before->call_count && instruction->copies == before->copies;
        if (!is_alike && touches(plan, on, &on->instructions[sum], instruction, transfers_before))
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
    (void)error;
    if (bgi_plan_data_replicas(c->plan) <= 1 || bgi_plan_is_strict(c->plan))
        return BG_OK;
    for (uint32_t d = 0; d < c->plan->device_count; d++) {
        const bgi_plan_device *on = &c->plan->devices[d];
        bgi_instruction *instructions = (bgi_instruction *)(uintptr_t)on->instructions; /* written by program.c */
        uint32_t transfers = 0;
        for (uint32_t i = 0; i < on->instruction_count; i++) {
            uint32_t touch;
            bool has_work;
            transfers += bgi_count_transfers(&instructions[i]);
            if (instructions[i].action.kind != BG_ACTION_REDUCE || instructions[i].reduced_count == 0)
                continue;
            touch = bgi_find_first_touch(c->plan, d, i, transfers, &has_work);
            if (touch == BGI_NO_INSTRUCTION || !has_work)
                continue;
            instructions[i].is_beside = true;
            instructions[touch].needs_sum = true;
        }
    }
    return BG_OK;
}
