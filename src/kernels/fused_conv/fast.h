/*
 * fast.h: the convolution within a fused one, as a separate call.
 */
#ifndef BGI_KERNELS_FUSED_CONV_FAST_H
#define BGI_KERNELS_FUSED_CONV_FAST_H

#include "kernels/cpu/variant.h"
#include "kernels/fused_conv/attributes.h"

enum { BGI_FUSED_CONV2D_OPERANDS = 4 }; /* x, w, bias?, y */

/* The struct contains pointers into itself. Scratch of the fused call begins with three floats per channel: the mean,
 * scale and shift of batch norm. */
typedef struct bgi_fused_conv2d_call {
    bg_kernel_call call;
    bg_type types[BGI_FUSED_CONV2D_OPERANDS];
    void *operands[BGI_FUSED_CONV2D_OPERANDS];
} bgi_fused_conv2d_call;

/* Fills in the types of the convolution's operands; returns the number of its inputs. */
static inline uint32_t bgi_fused_conv2d_types(const bg_type *all, uint32_t input_count,
                                              const bgi_fused_conv2d_attributes *attributes, bg_type *out)
{
    const uint32_t inputs = bgi_fused_conv2d_gamma(attributes);

    for (uint32_t i = 0; i < inputs; i++)
        out[i] = all[i];
    out[inputs] = all[input_count];
    return inputs;
}

static inline int64_t bgi_fused_conv2d_floats(const bg_type *w, const bgi_fused_conv2d_attributes *attributes)
{
    return attributes->norms ? bgi_cpu_round_up(3 * w->dims[0], 16) : 0;
}

static inline void bgi_fused_conv2d_call_make(const bg_kernel_call *fused, bgi_fused_conv2d_call *out)
{
    const bgi_fused_conv2d_attributes *attributes = fused->attributes;

    out->call = *fused;
    out->call.types = out->types;
    out->call.operands = out->operands;
    out->call.input_count = bgi_fused_conv2d_types(fused->types, fused->input_count, attributes, out->types);
    for (uint32_t i = 0; i < out->call.input_count; i++)
        out->operands[i] = fused->operands[i];
    out->operands[out->call.input_count] = fused->operands[fused->input_count];
    if (fused->scratch != NULL) /* plain bodies need no scratch */
        out->call.scratch = (float *)fused->scratch + bgi_fused_conv2d_floats(&fused->types[1], attributes);
}

#endif
