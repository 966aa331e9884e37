/*
 * operands.h: access to the operands of a kernel call. A trailing operand may be absent: then its number is beyond the
 * count, or it has no element type.
 */
#ifndef BGI_REFERENCE_OPERANDS_H
#define BGI_REFERENCE_OPERANDS_H

#include "kernels/kernels.h"
#include "kernels/reference/element.h"

static inline const bg_type *bgi_input_type(const bg_kernel_call *call, uint32_t input)
{
    return &call->types[input];
}

static inline const bg_type *bgi_output_type(const bg_kernel_call *call, uint32_t output)
{
    return &call->types[call->input_count + output];
}

static inline void *bgi_output(const bg_kernel_call *call, uint32_t output)
{
    return call->operands[call->input_count + output];
}

static inline bool bgi_has_output(const bg_kernel_call *call, uint32_t output)
{
    return output < call->output_count && bgi_output_type(call, output)->dtype != BG_DTYPE_NONE;
}

/* Returns whether the operand exists; numbers count inputs, then outputs. */
static inline bool bgi_has_operand(const bg_kernel_call *call, uint32_t operand)
{
    return operand < call->input_count + call->output_count && call->types[operand].dtype != BG_DTYPE_NONE;
}

/* Stores one element of a gradient, rounded; the accumulating form adds it. */
static inline void bgi_store_gradient(const bg_kernel_call *call, uint32_t operand, int64_t index, double value)
{
    const bg_dtype dtype = call->types[operand].dtype;
    void *data = call->operands[operand];
    const double before = bgi_call_adds(call) ? bgi_load(dtype, data, index) : 0.0;

    bgi_store(dtype, data, index, value);
    if (bgi_call_adds(call))
        bgi_store(dtype, data, index, before + bgi_load(dtype, data, index));
}

#endif
