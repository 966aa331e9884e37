/*
 * operands.h: naming the operands of a kernel call. Trailing operands may be absent: then they are beyond the counts or
 * have no element type.
 */
#ifndef BGI_REFERENCE_OPERANDS_H
#define BGI_REFERENCE_OPERANDS_H

#include <brigade/kernel.h>

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

#endif
