/*
 * kernels.c: chooses the kernel of each op from the op's operands (pieces if the op works on pieces) and the device's
 * limit of scratch memory.
 */
#include "plan/compile.h"

#include "core/error.h"
#include "kernels/kernels.h"

bg_op_signature bgi_lowered_signature(const bg_graph *graph, const bgi_op *op, bg_type *types)
{
    const bg_op_signature signature = bgi_op_signature(graph, op, types);

    for (uint32_t i = 0; op->is_sharded && i < bgi_op_operand_count(op); i++) {
        const bg_value operand = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
        const bgi_value *value = bgi_graph_value(graph, operand);
        if (value->piece > 0)
            types[i] = bg_vector(value->type.dtype, value->piece);
    }
    return signature;
}

bg_status bgi_select_kernels(bgi_compiler *c, bg_error *error)
{
    bg_type types[64];

    c->kernels = bgi_arena_allocate(&c->plan->arena, c->graph->op_count, sizeof *c->kernels);
    if (c->kernels == NULL)
        return bgi_error_memory(error, "kernels", c->graph->op_count * sizeof *c->kernels);
    c->plan->kernels = c->kernels;
    c->plan->kernel_count = (uint32_t)c->graph->op_count;
    for (size_t o = 0; o < c->graph->op_count; o++) {
        const bgi_op *op = &c->graph->ops[o];
        bg_op_signature signature = bgi_lowered_signature(c->graph, op, types);
        bg_status status;
        signature.partials = c->plan->options.numerics.partials;
        signature.scratch_limit =
            bgi_options_scratch(&c->plan->options, c->stages->stage_devices[c->partition->op_stages[o]]);
        if (bgi_partition_is_alias(c->partition, op))
            continue;
        if (op->type->is_collective) {
            c->kernels[o] = (bg_kernel){.name = op->type->name};
            continue;
        }
        if (op->type->kernel == NULL)
            return bg_error_set(error, BG_ERROR_UNSUPPORTED, "op type `%s` has no kernel", op->type->name);
        status = op->type->kernel(&signature, c->plan->options.numerics.kernels, &c->kernels[o], error);
        if (status != BG_OK)
            return bg_error_context(error, status, "kernel of %s `%s`", op->type->name, op->name);
        if (!bgi_kernel_is_complete(&c->kernels[o]))
            return bg_error_set(error, BG_ERROR_INVALID, "the kernel of %s `%s` has no function or no parts",
                                op->type->name, op->name);
    }
    return BG_OK;
}
