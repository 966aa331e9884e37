/*
 * check.c: what the engine believes about a plan, checked once before it runs and when it was read from a file. A plan
 * that fails here was damaged or compiled wrongly, so these are BG_ERROR_INTERNAL; what a plan may say but the engine
 * cannot do is BG_ERROR_UNSUPPORTED. Order and deadlocks are the schedule verifier's subject, not checked again.
 */
#include "plan/plan.h"

#include "core/error.h"
#include "core/threads.h"
#include "kernels/attributes.h"
#include "kernels/kernels.h"

/* An operand of `size_bytes`, every slot and every replica's piece of it, lies inside its memory. */
static bg_status check_operand(const bg_plan *plan, const bgi_operand *operand, size_t size_bytes, bg_error *error)
{
    const size_t strides = bgi_plan_data_replicas(plan) - 1;
    size_t memory_bytes, last_bytes = size_bytes;

    if (operand->device >= plan->device_count)
        return bg_error_set(error, BG_ERROR_INTERNAL, "operand on device %u of %u", operand->device,
                            plan->device_count);
    memory_bytes =
        operand->is_remote ? plan->devices[operand->device].remote_bytes : plan->devices[operand->device].arena_bytes;
    if (operand->edge != BGI_NO_EDGE) {
        if (operand->edge >= plan->edge_count)
            return bg_error_set(error, BG_ERROR_INTERNAL, "operand in edge %u of %u", operand->edge, plan->edge_count);
        last_bytes += (plan->edges[operand->edge].depth - 1) * plan->edges[operand->edge].slot_bytes;
    }
    if (strides > 0 && operand->stride > memory_bytes / strides)
        return bg_error_set(error, BG_ERROR_INTERNAL, "pieces of %zu bytes for %zu replicas in a memory of %zu bytes",
                            operand->stride, strides + 1, memory_bytes);
    last_bytes += strides * operand->stride;
    if (size_bytes > memory_bytes || operand->offset > memory_bytes || last_bytes > memory_bytes - operand->offset)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "operand at %zu of %zu bytes (slots included) passes the end of "
                            "device %u's %s of %zu bytes",
                            operand->offset, last_bytes, operand->device, operand->is_remote ? "remote store" : "arena",
                            memory_bytes);
    return BG_OK;
}

/* One operand each way, of the sizes that the group makes of each other. */
static bg_status check_collective(const bg_plan *plan, const bgi_call *call, bg_error *error)
{
    const bgi_collective_attributes *attributes = call->attributes;
    const bg_mesh mesh = bgi_plan_mesh(plan);
    const bg_type *x = &call->types[0], *y = &call->types[1];
    int64_t x_share = 1, y_share = 1;

    if (attributes == NULL || call->input_count != 1 || call->output_count != 1 || attributes->axes > BG_MESH_ALL ||
        !bg_dtype_is_float(x->dtype) || x->dtype != y->dtype)
        return bg_error_set(error, BG_ERROR_INTERNAL, "a collective that is none");
    if (attributes->members != bg_mesh_group_size(&mesh, attributes->axes))
        return bg_error_set(error, BG_ERROR_INTERNAL, "a collective of %u replicas in groups of %u",
                            attributes->members, bg_mesh_group_size(&mesh, attributes->axes));
    if (attributes->kind == BGI_COLLECTIVE_GATHER)
        x_share = attributes->members;
    else if (attributes->kind == BGI_COLLECTIVE_SCATTER)
        y_share = attributes->members;
    if (bg_type_element_count(x) * x_share != bg_type_element_count(y) * y_share ||
        (attributes->kind != BGI_COLLECTIVE_REDUCE && attributes->axis >= x->rank))
        return bg_error_set(error, BG_ERROR_INTERNAL, "a collective of operands that do not fit");
    return BG_OK;
}

static bg_status check_call(const bg_plan *plan, uint32_t device, const bgi_call *call, bg_error *error)
{
    if (call->is_collective)
        BGI_TRY(check_collective(plan, call, error));
    else if (!bgi_kernel_is_complete(&call->kernel))
        return bg_error_set(error, BG_ERROR_INTERNAL, "a kernel needs a function and at least one part");
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const bg_status status = check_operand(plan, &call->operands[i], bg_type_size_bytes(&call->types[i]), error);
        if (status != BG_OK)
            return bg_error_context(error, status, "operand %u", i);
        if (call->operands[i].offset % BGI_CACHE_LINE_BYTES != 0)
            return bg_error_set(error, BG_ERROR_INTERNAL, "operand %u at offset %zu, which is not a multiple of %d", i,
                                call->operands[i].offset, BGI_CACHE_LINE_BYTES);
    }
    return check_operand(plan, &(bgi_operand){.device = device, .edge = BGI_NO_EDGE, .offset = call->scratch_offset},
                         call->kernel.scratch_bytes, error);
}

static bg_status check_copy(const bg_plan *plan, bg_action_kind kind, const bgi_copy *copy, bg_error *error)
{
    size_t stream_bytes = copy->size_bytes;

    BGI_TRY(check_operand(plan, &copy->operand, copy->size_bytes, error));
    if (kind == BG_ACTION_SEND)
        return check_operand(plan, &copy->to, copy->size_bytes, error);
    if (copy->stream >= (kind == BG_ACTION_HOST_IN ? plan->input_count : plan->output_count))
        return bg_error_set(error, BG_ERROR_INTERNAL, "stream %u does not exist", copy->stream);
    stream_bytes = bg_type_size_bytes(kind == BG_ACTION_HOST_IN ? &plan->inputs[copy->stream].type
                                                                : &plan->outputs[copy->stream].type);
    if (copy->size_bytes != stream_bytes)
        return bg_error_set(error, BG_ERROR_INTERNAL, "copy of %zu bytes for a stream of %zu bytes", copy->size_bytes,
                            stream_bytes);
    return BG_OK;
}

/* Edges that an instruction waits for or frees: between two devices, this one at the right end. */
static bg_status check_edges(const bg_plan *plan, uint32_t device, const uint32_t *edges, uint32_t count,
                             bool is_sender, bg_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        const bgi_plan_edge *edge = edges[i] < plan->edge_count ? &plan->edges[edges[i]] : NULL;
        if (edge == NULL)
            return bg_error_set(error, BG_ERROR_INTERNAL, "edge %u of %u", edges[i], plan->edge_count);
        if (edge->from_device == edge->to_device || (is_sender ? edge->from_device : edge->to_device) != device)
            return bg_error_set(error, BG_ERROR_INTERNAL, "edge %u from device %u to device %u is %s here", edges[i],
                                edge->from_device, edge->to_device, is_sender ? "written" : "read");
    }
    return BG_OK;
}

static bg_status check_reduced(const bg_plan *plan, bg_action_kind kind, const bgi_reduced *reduced, bg_error *error)
{
    const bool is_sum = kind == BG_ACTION_REDUCE, has_pieces = reduced->piece_count > 0;

    if (is_sum && !bg_dtype_is_float(reduced->dtype))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "sum of %s over replicas; it must be a float type",
                            bg_dtype_name(reduced->dtype));
    if (reduced->element_count < 0 || reduced->piece_count < 0 || (!is_sum && !has_pieces) ||
        reduced->piece_count > INT64_MAX / bgi_plan_data_replicas(plan) ||
        (has_pieces && reduced->piece_count * bgi_plan_data_replicas(plan) < reduced->element_count))
        return bg_error_set(error, BG_ERROR_INTERNAL, "%u pieces of %lld elements do not make the %lld of the variable",
                            bgi_plan_data_replicas(plan), (long long)reduced->piece_count,
                            (long long)reduced->element_count);
    if (bg_dtype_size_bytes(reduced->dtype) == 0 || (uint64_t)reduced->element_count > SIZE_MAX / 8)
        return bg_error_set(error, BG_ERROR_INTERNAL, "%lld elements of %s", (long long)reduced->element_count,
                            bg_dtype_name(reduced->dtype));
    return check_operand(plan, &reduced->operand, (size_t)reduced->element_count * bg_dtype_size_bytes(reduced->dtype),
                         error);
}

/* Micro-batches share the calls of a stage: whether an instruction shortly before has the same. */
static bool shares_calls(const bgi_plan_device *device, const bgi_instruction *instruction)
{
    enum { LOOK_BACK = 32 };
    const bgi_instruction *before = instruction;

    while (before > device->instructions && instruction - before < LOOK_BACK)
        if ((--before)->calls == instruction->calls && before->call_count == instruction->call_count)
            return true;
    return false;
}

static bg_status check_calls(const bg_plan *plan, uint32_t device, const bgi_instruction *instruction, bg_error *error)
{
    if (shares_calls(&plan->devices[device], instruction))
        return BG_OK;
    for (uint32_t i = 0; i < instruction->call_count; i++) {
        const bg_status status = check_call(plan, device, &instruction->calls[i], error);
        if (status != BG_OK)
            return bg_error_context(error, status, "op `%s`", instruction->calls[i].name);
    }
    return BG_OK;
}

static bg_status check_instruction(const bg_plan *plan, uint32_t device, const bgi_instruction *instruction,
                                   bg_error *error)
{
    const bg_action *action = &instruction->action;
    const bool is_send = action->kind == BG_ACTION_SEND;

    if ((unsigned)action->kind >= BG_ACTION_KIND_COUNT)
        return bg_error_set(error, BG_ERROR_INTERNAL, "unknown action %d", (int)action->kind);
    if (action->micro_batch >= plan->micro_batches)
        return bg_error_set(error, BG_ERROR_INTERNAL, "micro-batch %u of %u", action->micro_batch, plan->micro_batches);
    if (is_send || action->kind == BG_ACTION_RECEIVE)
        BGI_TRY(check_edges(plan, device, &action->index, 1, is_send, error));
    BGI_TRY(check_edges(plan, device, instruction->acquires, instruction->acquire_count, true, error));
    BGI_TRY(check_edges(plan, device, instruction->releases, instruction->release_count, false, error));
    BGI_TRY(check_calls(plan, device, instruction, error));
    for (uint32_t i = 0; i < instruction->copy_count; i++)
        BGI_TRY(check_copy(plan, action->kind, &instruction->copies[i], error));
    for (uint32_t i = 0; i < instruction->reduced_count; i++)
        BGI_TRY(check_reduced(plan, action->kind, &instruction->reduced[i], error));
    return BG_OK;
}

/* What leaves early leaves in the middle of the action before it. */
static bg_status check_early(const bgi_plan_device *on, uint32_t number, bg_error *error)
{
    const bgi_instruction *send = &on->instructions[number], *maker = send;

    if (send->after_calls == 0)
        return BG_OK;
    while (maker > on->instructions && maker->action.kind == BG_ACTION_SEND)
        maker--;
    if (send->action.kind != BG_ACTION_SEND || send->copy_count > 0 || send->after_calls >= maker->call_count ||
        maker->action.stage != send->action.stage || maker->action.micro_batch != send->action.micro_batch)
        return bg_error_set(error, BG_ERROR_INTERNAL, "a message after call %u of the %u before it", send->after_calls,
                            maker->call_count);
    return BG_OK;
}

/* Transfers inside their memory; as many issued as there are; nobody waits for one that is not issued before. */
static bg_status check_transfers(const bg_plan *plan, uint32_t device, bg_error *error)
{
    const bgi_plan_device *on = &plan->devices[device];
    const bg_mesh mesh = bgi_plan_mesh(plan);
    uint64_t issued = 0;

    for (uint32_t i = 0; i < on->transfer_count; i++) {
        const bgi_transfer *transfer = &on->transfers[i];
        const bgi_operand near = {.device = device, .edge = BGI_NO_EDGE, .offset = transfer->arena_offset};
        const bgi_operand far = {
            .device = device, .is_remote = true, .edge = BGI_NO_EDGE, .offset = transfer->remote_offset};
        const uint32_t pieces = bg_mesh_group_size(&mesh, transfer->piece_axes & (uint32_t)BG_MESH_ALL);
        const size_t far_bytes = transfer->piece_bytes > 0 ? transfer->piece_bytes : transfer->size_bytes;
        if (transfer->action.kind != BG_ACTION_LOAD && transfer->action.kind != BG_ACTION_STORE)
            return bg_error_set(error, BG_ERROR_INTERNAL, "transfer %u is no LOAD or STORE", i);
        BGI_TRY(check_operand(plan, &near, transfer->size_bytes, error));
        BGI_TRY(check_operand(plan, &far, far_bytes, error));
        if ((transfer->piece_axes & ~(uint32_t)BG_MESH_ALL) != 0 ||
            (transfer->piece_bytes > 0 && transfer->size_bytes / transfer->piece_bytes < pieces))
            return bg_error_set(error, BG_ERROR_INTERNAL, "transfer %u: %u pieces of %zu bytes in %zu bytes", i, pieces,
                                transfer->piece_bytes, transfer->size_bytes);
        if (transfer->peer_wait > on->transfer_count + i)
            return bg_error_set(error, BG_ERROR_INTERNAL, "transfer %u waits for transfer %u of other replicas", i,
                                transfer->peer_wait);
    }
    for (uint32_t i = 0; i < on->instruction_count; i++) {
        const bgi_instruction *instruction = &on->instructions[i];
        if (instruction->io_wait > on->transfer_count + issued)
            return bg_error_set(error, BG_ERROR_INTERNAL, "instruction %u waits for transfer %u", i,
                                instruction->io_wait);
        for (uint32_t c = 0; c < instruction->call_count; c++) {
            issued += instruction->calls[c].is_transfer;
            if (instruction->call_waits != NULL && instruction->call_waits[c] > on->transfer_count + issued)
                return bg_error_set(error, BG_ERROR_INTERNAL, "call %u of instruction %u waits for transfer %u", c, i,
                                    instruction->call_waits[c]);
        }
        issued += instruction->issues;
    }
    if (issued != on->transfer_count)
        return bg_error_set(error, BG_ERROR_INTERNAL, "%llu of %u transfers are issued", (unsigned long long)issued,
                            on->transfer_count);
    return BG_OK;
}

static bg_status check_edge(const bg_plan *plan, uint32_t number, bg_error *error)
{
    const bgi_plan_edge *edge = &plan->edges[number];

    if (edge->from_device >= plan->device_count || edge->to_device >= plan->device_count || edge->depth == 0 ||
        edge->slot_bytes % BGI_CACHE_LINE_BYTES != 0 ||
        (edge->depth > 1 && edge->slot_bytes > SIZE_MAX / 4 / edge->depth))
        return bg_error_set(error, BG_ERROR_INTERNAL, "edge %u: device %u to %u, %u slots of %zu bytes", number,
                            edge->from_device, edge->to_device, edge->depth, edge->slot_bytes);
    return BG_OK;
}

static bg_status check_output(const bgi_plan_output *output, bg_error *error)
{
    if (output->mode == BG_OUTPUT_SUM && (output->type.dtype == BG_UINT8 || output->type.dtype == BG_DTYPE_NONE))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "output `%s`: a sum of %s; cast it first", output->name,
                            bg_dtype_name(output->type.dtype));
    if (output->mode == BG_OUTPUT_EVERY_N && output->period == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "output `%s`: every 0 device iterations; the period is at least 1",
                            output->name);
    return BG_OK;
}

static bg_status check_tables(const bg_plan *plan, bg_error *error)
{
    if (plan->device_count == 0 || plan->replicas == 0 || plan->micro_batches == 0 || plan->iterations == 0)
        return bg_error_set(error, BG_ERROR_INTERNAL, "%u devices, %u replicas, %u micro-batches, %u iterations",
                            plan->device_count, plan->replicas, plan->micro_batches, plan->iterations);
    if (plan->input_group_size == 0 || plan->replicas % plan->input_group_size != 0)
        return bg_error_set(error, BG_ERROR_INTERNAL, "groups of %u for %u replicas", plan->input_group_size,
                            plan->replicas);
    for (uint32_t i = 0; i < plan->edge_count; i++)
        BGI_TRY(check_edge(plan, i, error));
    for (uint32_t i = 0; i < plan->output_count; i++)
        BGI_TRY(check_output(&plan->outputs[i], error));
    for (uint32_t i = 0; i < plan->constant_count; i++)
        BGI_TRY(check_operand(plan, &plan->constants[i].place, plan->constants[i].size_bytes, error));
    for (uint32_t i = 0; i < plan->variable_count; i++) {
        const bgi_plan_variable *variable = &plan->variables[i];
        for (uint32_t p = 0; p < variable->place_count; p++) {
            const bg_status status =
                check_operand(plan, &variable->places[p], bgi_plan_variable_bytes(variable), error);
            if (status != BG_OK)
                return bg_error_context(error, status, "variable `%s`", variable->name);
        }
        if (variable->place_count == 0)
            return bg_error_set(error, BG_ERROR_INTERNAL, "variable `%s` has no place", variable->name);
        if (variable->piece_count < 0 || variable->piece_count > bg_type_element_count(&variable->type))
            return bg_error_set(error, BG_ERROR_INTERNAL, "variable `%s` in pieces of %lld elements", variable->name,
                                (long long)variable->piece_count);
    }
    for (uint32_t i = 0; i < plan->carried_count; i++)
        if (plan->carried[i] >= plan->variable_count)
            return bg_error_set(error, BG_ERROR_INTERNAL, "carried value %u is variable %u of %u", i, plan->carried[i],
                                plan->variable_count);
    return BG_OK;
}

bg_status bgi_plan_check(const bg_plan *plan, bg_error *error)
{
    bg_status status = check_tables(plan, error);

    if (status != BG_OK)
        return bg_error_context(error, status, "plan");
    for (uint32_t d = 0; d < plan->device_count; d++) {
        status = check_transfers(plan, d, error);
        if (status != BG_OK)
            return bg_error_context(error, status, "plan: device %u", d);
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            status = check_instruction(plan, d, &plan->devices[d].instructions[i], error);
            if (status == BG_OK)
                status = check_early(&plan->devices[d], i, error);
            if (status != BG_OK)
                return bg_error_context(error, status, "plan: device %u, instruction %u (%s)", d, i,
                                        bg_action_kind_name(plan->devices[d].instructions[i].action.kind));
        }
    }
    return BG_OK;
}
