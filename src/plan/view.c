/*
 * view.c: gives read access to a plan (brigade/plan_view.h).
 */
#include <brigade/plan_view.h>

#include "plan/plan.h"

bg_plan_variable bg_plan_variable_at(const bg_plan *plan, uint32_t index)
{
    const bgi_plan_variable *variable = index < plan->variable_count ? &plan->variables[index] : NULL;

    if (variable == NULL)
        return (bg_plan_variable){0};
    return (bg_plan_variable){
        .name = bgi_plan_variable_weight(variable), .type = *bgi_plan_variable_whole(variable), .role = variable->role};
}

bg_plan_block bg_plan_block_at(const bg_plan *plan, uint32_t index)
{
    if (index >= plan->block_count)
        return (bg_plan_block){.name = ""};
    return (bg_plan_block){.name = plan->blocks[index].name, .stage = plan->blocks[index].stage};
}

uint32_t bg_plan_stage_device(const bg_plan *plan, uint32_t stage)
{
    return stage < plan->stage_count ? plan->stage_devices[stage] : UINT32_MAX;
}

bg_plan_edge bg_plan_edge_at(const bg_plan *plan, uint32_t index)
{
    const bgi_plan_edge *edge = index < plan->edge_count ? &plan->edges[index] : NULL;

    if (edge == NULL)
        return (bg_plan_edge){0};
    return (bg_plan_edge){.from_device = edge->from_device,
                          .to_device = edge->to_device,
                          .payload_bytes = edge->payload_bytes,
                          .slot_bytes = edge->slot_bytes,
                          .depth = edge->depth,
                          .per_step = edge->per_step,
                          .is_stash = edge->is_stash,
                          .is_ring = edge->is_ring};
}

static const bgi_instruction *find_instruction(const bg_plan *plan, uint32_t device, uint32_t index)
{
    return index < bg_plan_instruction_count(plan, device) ? &plan->devices[device].instructions[index] : NULL;
}

uint32_t bg_plan_instruction_count(const bg_plan *plan, uint32_t device)
{
    return device < plan->device_count ? plan->devices[device].instruction_count : 0;
}

bg_plan_instruction bg_plan_instruction_at(const bg_plan *plan, uint32_t device, uint32_t index)
{
    const bgi_instruction *instruction = find_instruction(plan, device, index);

    if (instruction == NULL)
        return (bg_plan_instruction){0};
    return (bg_plan_instruction){.action = instruction->action,
                                 .transient_bytes = instruction->transient_bytes,
                                 .copies = instruction->copy_count > 0,
                                 .is_beside = instruction->is_beside};
}

static void mark_operand(const bgi_operand *operand, bool *marks)
{
    if (operand->edge != BGI_NO_EDGE && operand->memory != BGI_MEMORY_REMOTE)
        marks[operand->edge] = true;
}

void bg_plan_mark_edges(const bg_plan *plan, uint32_t device, uint32_t index, bool *marks)
{
    const bgi_instruction *instruction = find_instruction(plan, device, index);

    if (instruction == NULL)
        return;
    for (uint32_t i = 0; i < instruction->acquire_count; i++)
        marks[instruction->acquires[i]] = true;
    for (uint32_t i = 0; i < instruction->release_count; i++)
        marks[instruction->releases[i]] = true;
    for (uint32_t i = 0; i < instruction->call_count; i++) {
        const bgi_call *call = &instruction->calls[i];
        for (uint32_t k = 0; k < call->input_count + call->output_count; k++)
            mark_operand(&call->operands[k], marks);
    }
    for (uint32_t i = 0; i < instruction->copy_count; i++) {
        mark_operand(&instruction->copies[i].operand, marks);
        if (instruction->action.kind == BG_ACTION_SEND)
            mark_operand(&instruction->copies[i].to, marks);
    }
}

uint32_t bg_plan_transfer_count(const bg_plan *plan, uint32_t device)
{
    return device < plan->device_count ? plan->devices[device].transfer_count : 0;
}
