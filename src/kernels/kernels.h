/*
 * kernels.h: the narrow interface between ops and computation. An op family fills a request (a kernel id, operand types
 * and attributes) and gets a bg_kernel. Kernels do not depend on graphs. kernels.def lists one kernel in each row: its
 * plain C reference, which every kernel has, and possibly a fast body, which either supports a request or declines it.
 *
 * The operands and attributes of a kernel, which are the contract between its op and its bodies, are described in its
 * family's attributes.h. In these lists "->" separates inputs from outputs, "?" marks operands that may be absent
 * (trailing only), "!" marks inputs that are changed in place, and "(+)" marks kernels with an accumulating form
 * (bgi_call_adds). Letters: N batch, C channels in, O channels out, G groups. Attributes are stored in files, so flags
 * are uint8_t (0: false), because not every byte is a valid bool. Where a list says so, the choice of a kernel depends
 * only on the types, not on the attributes.
 *
 * Reference kernels support every float type through bgi_load/bgi_store and sum in double, in index order. Tests
 * compare fast kernels with them.
 */
#ifndef BGI_KERNELS_H
#define BGI_KERNELS_H

#include <brigade/graph.h>
#include <brigade/kernel.h>

#include "core/isa.h"

typedef enum bgi_kernel_id {
#define BGI_KERNEL(ID, name, attributes_bytes) BGI_KERNEL_##ID,
#include "kernels/kernels.def"
    BGI_KERNEL_COUNT
} bgi_kernel_id;

typedef struct bgi_kernel_request {
    bgi_kernel_id id;
    const bg_type *types; /* inputs, then outputs */
    uint32_t input_count;
    uint32_t output_count;
    const void *attributes;
    bg_dtype partials;    /* type of matrix products' partial sums: NONE and float32 are the same */
    size_t scratch_limit; /* most bytes of scratch for matrix products and convolutions; 0: no limit */
} bgi_kernel_request;

/* Returns the instruction set of fast kernels under a policy: the widest one that the processor has and the policy
 * allows. */
bgi_isa bgi_kernel_isa(bg_kernel_policy policy);

/* Chooses the kernel for a request: the fast body, if the policy allows it and it supports the request, otherwise the
 * plain C body. */
bg_status bgi_kernel_select(const bgi_kernel_request *request, bg_kernel_policy policy, bg_kernel *out,
                            bg_error *error);
/* Chooses the kernel for an op, with the types and attributes of the op's signature. */
bg_status bgi_kernel_for_op(bgi_kernel_id id, const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out,
                            bg_error *error);
const char *bgi_kernel_name(bgi_kernel_id id);
/* Returns the bytes of attributes that a kernel reads; 0 if it reads no attributes. */
size_t bgi_kernel_attributes_bytes(bgi_kernel_id id);
static inline bool bgi_kernel_is_complete(const bg_kernel *kernel)
{
    return kernel->run != NULL && kernel->part_count > 0 && (kernel->combine == NULL || kernel->combine_count > 0);
}
/* Runs a whole call, part by part. */
void bgi_kernel_run(const bg_kernel *kernel, const bg_kernel_call *call);

/* Returns whether a call adds to accumulators. Kernels marked "(+)" also have an accumulating form: a call without
 * outputs, whose last inputs are accumulators of the outputs' types. At a step's first micro-batch the kernel sets the
 * accumulators to the gradient; at later ones it adds the complete gradient, element by element, as ACCUMULATE does. */
static inline bool bgi_call_adds(const bg_kernel_call *call)
{
    return call->output_count == 0 && call->env->accumulated > 0;
}

/* The plain C bodies. */
#define BGI_KERNEL(ID, name, attributes_bytes) void bgi_reference_##name(const bg_kernel_call *call, uint32_t part);
#include "kernels/kernels.def"

#endif
