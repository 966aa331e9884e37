/*
 * kernel.h: kernels of ops, and what a call of a kernel gets. The library's kernels and users' kernels have the same
 * form.
 *
 * A kernel computes an op's outputs from its inputs. Its work is cut into `part_count` parts. This number depends only
 * on shapes, never on the number of threads. Parts may run in any order on any thread, and the result must be
 * bit-identical. Parts write disjoint memory (of outputs or of `scratch`). `prepare`, if present, runs once before all
 * parts and writes data that all of them read into `scratch`. Partial results are combined, in the order of the parts,
 * after all parts have run: in `combine`, which also has parts, if this work is large, or in `finish`, which runs once
 * at the end. `combine` and `finish` are optional.
 *
 * Threads: parts of a kernel call run on several threads at the same time.
 */
#ifndef BRIGADE_KERNEL_H
#define BRIGADE_KERNEL_H

#include <brigade/base.h>
#include <brigade/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The state of a run that a kernel may read. The state is the same under every strategy. */
typedef struct bg_kernel_env {
    uint64_t seed;           /* the session's seed */
    uint64_t step;           /* weight updates done so far, over the life of the weights */
    uint64_t optimizer_step; /* weight updates since the optimizer state was created */
    /* Number of the micro-batch within the step, counted over all data-parallel replicas: m x data + place.data for
     * micro-batch m of this replica, where `data` is the size of the mesh's data axis. */
    uint32_t micro_batch;
    bg_mesh place; /* the replica's coordinates on the mesh; without tensor parallelism (replica, 0, 0) */
    /* Number of micro-batches whose gradients this replica has already accumulated in this step. */
    uint32_t accumulated;
    bool training;
} bg_kernel_env;

typedef struct bg_kernel_call {
    const bg_type *types;  /* types of the operands: inputs first, then outputs */
    void *const *operands; /* addresses, in the same order; 64-byte aligned, except that pieces of a sharded weight
                              update are aligned only to their elements */
    uint32_t input_count;
    uint32_t output_count;
    const void *attributes; /* the op's attributes */
    void *scratch;          /* scratch_bytes, 64-byte aligned, shared by all parts; contents undefined at entry */
    const bg_kernel_env *env;
    void *state; /* the kernel's `state` */
    /* The number of the thread that runs the part, below part_count (in `combine`, combine_count). Parts that run at
     * the same time have different numbers, and a thread keeps its number during the call. A kernel can use this number
     * instead of the part's number to select scratch that no later part reads. Then a few pieces of scratch are enough
     * for all parts, and stay in the caches of their threads. */
    uint32_t runner;
} bg_kernel_call;

typedef void (*bg_kernel_function)(const bg_kernel_call *call, uint32_t part);

typedef struct bg_kernel {
    const char *name;                            /* static text for traces: "conv2d.avx512" */
    void (*prepare)(const bg_kernel_call *call); /* or NULL */
    bg_kernel_function run;
    bg_kernel_function combine;                 /* or NULL */
    void (*finish)(const bg_kernel_call *call); /* or NULL */
    uint32_t part_count;                        /* at least 1 */
    uint32_t combine_count;                     /* parts of `combine` */
    size_t scratch_bytes;
    void *state; /* made at plan time, read-only while running; or NULL */
    void (*destroy)(void *state);
} bg_kernel;

/* Static cost of one call. */
typedef struct bg_cost {
    double flops;
    double bytes_read;
    double bytes_written;
} bg_cost;

#ifdef __cplusplus
}
#endif

#endif
