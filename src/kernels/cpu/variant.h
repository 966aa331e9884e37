/*
 * variant.h: the fast kernels that are compiled for each instruction set, and the choice between them.
 *
 * A kernel consists of a shape and a body. Its *shape* (a function of its family's fast.c, independent of instruction
 * sets) decides whether a request is supported, and computes its number of parts and its scratch. Its *body* (in
 * fast_body.h) computes the results; variant_*.c compile it once for each instruction set. Both compute the same
 * geometry from the operands' types, so kernels need not store it.
 */
#ifndef BGI_CPU_VARIANT_H
#define BGI_CPU_VARIANT_H

#include "core/isa.h"
#include "core/narrow.h"
#include "kernels/kernels.h"

/* Sets a kernel's shape (its parts and scratch), or returns false to decline the request. Before the call, `kernel` has
 * its name and functions, one part of each kind, and no scratch. */
typedef bool (*bgi_cpu_shape)(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel);

typedef struct bgi_cpu_routine {
    const char *name;
    bgi_cpu_shape shape; /* NULL, as the other fields, if the kernel has no fast body */
    void (*prepare)(const bg_kernel_call *call);
    bg_kernel_function run;
    bg_kernel_function combine;
    void (*finish)(const bg_kernel_call *call);
} bgi_cpu_routine;

typedef struct bgi_cpu_variant {
    int64_t lanes; /* floats in a vector */
    bgi_cpu_routine routines[BGI_KERNEL_COUNT];
} bgi_cpu_variant;

extern const bgi_cpu_variant bgi_cpu_avx512, bgi_cpu_avx2, bgi_cpu_neon, bgi_cpu_portable;

/* Fills `out` and returns true when the request is supported for this instruction set, which the processor must
 * have. */
bool bgi_cpu_select(const bgi_kernel_request *request, bgi_isa isa, bg_kernel *out);

#define BGI_KERNEL(ID, name, attributes_bytes)
#define BGI_FAST_KERNEL(ID, name, attributes_bytes, ...)                                                               \
    bool bgi_cpu_shape_##name(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel);
#include "kernels/kernels.def"

enum { BGI_CPU_MOST_PARTS = 64 };

/* Returns the number of parts for `items` equal pieces of work: parts of about `flops_per_part` FLOPs, at most `items`
 * and at most 64 parts. The number depends only on shapes, as the contract of kernels requires. */
static inline uint32_t bgi_cpu_part_count(int64_t items, double flops, double flops_per_part)
{
    const double wanted = flops / flops_per_part;
    const int64_t limit = items < BGI_CPU_MOST_PARTS ? items : BGI_CPU_MOST_PARTS;

    return wanted <= 1.0 ? 1 : wanted >= (double)limit ? (uint32_t)limit : (uint32_t)(wanted + 0.5);
}

/* Returns the first item of part `part` of `parts`; the end of the part is the first item of part + 1. */
static inline int64_t bgi_cpu_part_start(int64_t items, uint32_t part, uint32_t parts)
{
    return items * part / parts;
}

/* These two functions return whether an operand exists. A trailing operand may be absent: then its number is beyond the
 * count, or it has no element type. */
static inline bool bgi_cpu_has_input(const bg_kernel_call *call, uint32_t input)
{
    return input < call->input_count && call->types[input].dtype != BG_DTYPE_NONE;
}

static inline bool bgi_cpu_has_output(const bg_kernel_call *call, uint32_t output)
{
    return output < call->output_count && call->types[call->input_count + output].dtype != BG_DTYPE_NONE;
}

/* Returns whether the operand exists; numbers count inputs, then outputs. */
static inline bool bgi_cpu_has_operand(const bg_kernel_call *call, uint32_t operand)
{
    return operand < call->input_count + call->output_count && call->types[operand].dtype != BG_DTYPE_NONE;
}

/* Returns scratch of `part_floats` floats, which a part needs only while it runs, or NULL for a call without
 * scratch. */
static inline float *bgi_cpu_part_scratch(const bg_kernel_call *call, int64_t part_floats)
{
    float *scratch = call->scratch;

    return scratch != NULL ? scratch + call->runner * part_floats : NULL;
}

/* Rounds `count` up to a multiple of `to`. Sizes in scratch are counted in floats and are whole cache lines. */
static inline int64_t bgi_cpu_round_up(int64_t count, int64_t to)
{
    return (count + to - 1) / to * to;
}

#endif
