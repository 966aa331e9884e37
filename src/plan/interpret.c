/*
 * interpret.c: runs a plan of one device in the calling thread, one part of a call after another.
 */
#include "plan/plan.h"

#include <string.h>

#include "kernels/kernels.h"
#include "kernels/reference/element.h"

enum { ALIGNMENT = 64, MOST_OPERANDS = 64 };

void *bgi_interpret_memory(const bg_plan *plan)
{
    void *memory = bgi_aligned_allocate(ALIGNMENT, plan->devices[0].arena_bytes + ALIGNMENT);

    if (memory != NULL)
        bgi_interpret_begin(plan, memory);
    return memory;
}

void bgi_interpret_begin(const bg_plan *plan, void *memory)
{
    for (uint32_t i = 0; i < plan->constant_count; i++)
        memcpy((char *)memory + plan->constants[i].place.operand.offset, plan->constants[i].data,
               plan->constants[i].size_bytes);
}

static void run_call(const bgi_call *call, char *memory, const bg_kernel_env *env)
{
    void *operands[MOST_OPERANDS];
    const bg_kernel_call now = {.types = call->types,
                                .operands = operands,
                                .input_count = call->input_count,
                                .output_count = call->output_count,
                                .attributes = call->attributes,
                                .scratch = memory + call->scratch_offset,
                                .env = env,
                                .state = call->kernel.state};

    for (uint32_t i = 0; i < call->input_count + call->output_count; i++)
        operands[i] = memory + call->operands[i].offset;
    bgi_kernel_run(&call->kernel, &now);
}

void bgi_interpret_step(const bg_plan *plan, void *memory, const void *const *inputs, const bg_kernel_env *env,
                        uint32_t output, double *out_value)
{
    const bgi_plan_device *device = &plan->devices[0];

    for (uint32_t i = 0; i < device->instruction_count; i++) {
        const bgi_instruction *instruction = &device->instructions[i];
        for (uint32_t c = 0; c < instruction->copy_count; c++) {
            const bgi_copy *copy = &instruction->copies[c];
            char *place = (char *)memory + copy->operand.offset;
            if (instruction->action.kind == BG_ACTION_HOST_IN)
                memcpy(place, inputs[copy->stream], copy->size_bytes);
            else if (instruction->action.kind == BG_ACTION_HOST_OUT && copy->stream == output)
                *out_value = bgi_load(plan->outputs[output].type.dtype, place, 0);
        }
        for (uint32_t c = 0; c < instruction->call_count; c++)
            run_call(&instruction->calls[c], memory, env);
    }
}

void bgi_interpret_condition(const bg_plan *condition, void *memory, const void *const *values, double *out_value)
{
    const bg_kernel_env env = {.seed = condition->options.numerics.seed};

    bgi_interpret_step(condition, memory, values, &env, 0, out_value);
}
