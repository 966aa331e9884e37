/*
 * evaluate.c: implements the reference interpreter, which is short so that a reader can verify it. A reshape runs as a
 * copy, because every value has separate memory in this interpreter.
 */
#include "ops/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/kernels.h"

enum { BUFFER_ALIGNMENT = 64 };

static bg_status evaluate_op(const bg_graph *graph, const bgi_op *op, const bg_kernel_env *env, void *const *buffers,
                             bgi_arena *arena, bg_error *error)
{
    const uint32_t operand_count = bgi_op_operand_count(op);
    bg_type *types = bgi_arena_allocate(arena, operand_count, sizeof *types);
    void **operands = bgi_arena_allocate(arena, operand_count, sizeof *operands);
    bg_kernel kernel = {0};
    bg_op_signature signature;
    bg_kernel_call call;
    void *scratch;

    if (types == NULL || operands == NULL)
        return bgi_error_memory(error, "an op's operands", operand_count * sizeof *types);
    signature = bgi_op_signature(graph, op, types);
    for (uint32_t i = 0; i < op->input_count; i++)
        operands[i] = buffers[op->inputs[i].id];
    for (uint32_t i = 0; i < op->output_count; i++)
        operands[op->input_count + i] = buffers[op->outputs[i].id];
    BGI_TRY(op->type->kernel(&signature, BG_KERNELS_REFERENCE, &kernel, error));
    if (!bgi_kernel_is_complete(&kernel))
        return bg_error_set(error, BG_ERROR_INVALID, "the kernel has no function or no parts");
    scratch = bgi_aligned_allocate(BUFFER_ALIGNMENT, kernel.scratch_bytes);
    if (scratch != NULL) {
        call = (bg_kernel_call){.types = types,
                                .operands = operands,
                                .input_count = op->input_count,
                                .output_count = op->output_count,
                                .attributes = op->attributes,
                                .scratch = scratch,
                                .env = env,
                                .state = kernel.state};
        bgi_kernel_run(&kernel, &call);
    }
    free(scratch);
    if (kernel.destroy != NULL)
        kernel.destroy(kernel.state);
    return scratch != NULL ? BG_OK : bgi_error_memory(error, "a kernel's scratch", kernel.scratch_bytes);
}

bg_status bgi_evaluate(const bg_graph *graph, uint32_t first_op, uint32_t end_op, const bg_kernel_env *env,
                       void *const *buffers, bg_error *error)
{
    bg_status status = BG_OK;

    for (uint32_t i = first_op; i < end_op && status == BG_OK; i++) {
        bgi_arena arena = {0};

        status = evaluate_op(graph, &graph->ops[i], env, buffers, &arena, error);
        bgi_arena_clear(&arena);
        if (status != BG_OK)
            bg_error_context(error, status, "%s `%s`", graph->ops[i].type->name, graph->ops[i].name);
    }
    return status;
}

void bgi_evaluate_destroy_buffers(const bg_graph *graph, void **buffers)
{
    if (buffers == NULL)
        return;
    for (size_t i = 0; i < graph->value_count; i++)
        free(buffers[i]);
    free(buffers);
}

bg_status bgi_evaluate_create_buffers(const bg_graph *graph, void ***out, bg_error *error)
{
    void **buffers = calloc(graph->value_count, sizeof *buffers);

    if (buffers == NULL)
        return bgi_error_memory(error, "the values of a graph", graph->value_count * sizeof *buffers);
    for (size_t i = 1; i < graph->value_count; i++) {
        const bgi_value *value = &graph->values[i];
        const size_t size = bg_type_size_bytes(&value->type);

        buffers[i] = bgi_aligned_allocate(BUFFER_ALIGNMENT, size);
        if (buffers[i] == NULL) {
            bgi_evaluate_destroy_buffers(graph, buffers);
            return bgi_error_memory(error, value->name, size);
        }
        if (value->data != NULL)
            memcpy(buffers[i], value->data, size);
    }
    *out = buffers;
    return BG_OK;
}
