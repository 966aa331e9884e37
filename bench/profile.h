/*
 * profile.h: measures the processor time of a plan's steps for each kernel and the shape of its result. Other programs
 * on the machine do not add to this time.
 */
#ifndef BENCH_PROFILE_H
#define BENCH_PROFILE_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan/plan.h"

/* A kernel that replaces the real kernel, calls it and sums its time. */
typedef struct timed {
    bg_kernel kernel; /* the real kernel */
    char name[128];
    double flops, bytes; /* of all calls in a step */
    _Atomic uint64_t ns;
    uint64_t calls;
} timed;

/* The calls of a plan, sorted by kind. */
typedef struct profile {
    timed *rows;
    size_t count;
} profile;

static inline uint64_t read_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline bg_kernel_call unwrap(const bg_kernel_call *call)
{
    bg_kernel_call inner = *call;

    inner.state = ((timed *)call->state)->kernel.state;
    return inner;
}

static inline void timed_prepare(const bg_kernel_call *call)
{
    timed *row = call->state;
    const bg_kernel_call inner = unwrap(call);
    const uint64_t begin = read_clock_ns();

    row->kernel.prepare(&inner);
    atomic_fetch_add(&row->ns, read_clock_ns() - begin);
}

static inline void timed_run(const bg_kernel_call *call, uint32_t part)
{
    timed *row = call->state;
    const bg_kernel_call inner = unwrap(call);
    const uint64_t begin = read_clock_ns();

    row->kernel.run(&inner, part);
    atomic_fetch_add(&row->ns, read_clock_ns() - begin);
}

static inline void timed_combine(const bg_kernel_call *call, uint32_t part)
{
    timed *row = call->state;
    const bg_kernel_call inner = unwrap(call);
    const uint64_t begin = read_clock_ns();

    row->kernel.combine(&inner, part);
    atomic_fetch_add(&row->ns, read_clock_ns() - begin);
}

static inline void timed_finish(const bg_kernel_call *call)
{
    timed *row = call->state;
    const bg_kernel_call inner = unwrap(call);
    const uint64_t begin = read_clock_ns();

    row->kernel.finish(&inner);
    atomic_fetch_add(&row->ns, read_clock_ns() - begin);
}

/* Returns whether two kernels are the same. Kernels with one name may differ, because they depend on shapes that the
 * name does not show. */
static inline bool is_same_kernel(const bg_kernel *a, const bg_kernel *b)
{
    return a->state == b->state && a->run == b->run && a->prepare == b->prepare && a->combine == b->combine &&
           a->finish == b->finish;
}

static inline void time_call(profile *all, bgi_call *call)
{
    char name[sizeof all->rows->name], type[BG_TYPE_TEXT_BYTES];
    const uint32_t shown = call->output_count > 0 ? call->input_count : 0;
    timed *row = NULL;

    snprintf(name, sizeof name, "%s %s", call->kernel.name, bg_type_text(&call->types[shown], type));
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->rows[i].name, name) == 0 && is_same_kernel(&all->rows[i].kernel, &call->kernel))
            row = &all->rows[i];
    if (row == NULL) {
        row = &all->rows[all->count++];
        row->kernel = call->kernel;
        memcpy(row->name, name, sizeof name);
    }
    row->calls++;
    row->flops += call->cost.flops;
    row->bytes += call->cost.bytes_read + call->cost.bytes_written;
    call->kernel.state = row;
    call->kernel.run = timed_run;
    call->kernel.prepare = call->kernel.prepare != NULL ? timed_prepare : NULL;
    call->kernel.combine = call->kernel.combine != NULL ? timed_combine : NULL;
    call->kernel.finish = call->kernel.finish != NULL ? timed_finish : NULL;
}

static inline profile time_plan(bg_plan *plan)
{
    profile all = {NULL, 0};
    size_t calls = 0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            calls += plan->devices[d].instructions[i].call_count;
    all.rows = calloc(calls + 1, sizeof *all.rows);
    if (all.rows == NULL)
        exit(1);
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t c = 0; c < plan->devices[d].instructions[i].call_count; c++)
                time_call(&all, (bgi_call *)(uintptr_t)&plan->devices[d].instructions[i].calls[c]);
    return all;
}

static inline int compare_rows(const void *a, const void *b)
{
    const uint64_t left = ((const timed *)a)->ns, right = ((const timed *)b)->ns;

    return left < right ? 1 : left > right ? -1 : 0;
}

static inline void print_profile(profile *all, long steps)
{
    double total = 0.0;

    qsort(all->rows, all->count, sizeof *all->rows, compare_rows);
    for (size_t i = 0; i < all->count; i++)
        total += (double)all->rows[i].ns;
    for (size_t i = 0; i < all->count; i++) {
        const double ns = (double)all->rows[i].ns / (double)steps;

        printf("  %5.1f %% %9.2f ms %4llu calls of %2u parts %7.1f GFLOP/s  %s\n",
               100.0 * (double)all->rows[i].ns / total, ns * 1e-6, (unsigned long long)all->rows[i].calls,
               all->rows[i].kernel.part_count, all->rows[i].flops / ns, all->rows[i].name);
    }
    printf("  %9.2f ms of processor time in kernels a step\n", total / (double)steps * 1e-6);
}

#endif
