/*
 * kernel_case.h: one kernel request with its data. It runs with the reference and with the fast kernels of every
 * instruction set that this processor has, with parts in several orders.
 *
 * Every operand has its own allocation of exactly its size, so that the address sanitizer detects a vector that reaches
 * too far.
 */
#ifndef TESTS_KERNELS_KERNEL_CASE_H
#define TESTS_KERNELS_KERNEL_CASE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "kernels/cpu/variant.h"
#include "kernels/linear/product.h"
#include "kernels/reference/element.h"
#include "support/isa.h"

#define CASE_OPERANDS 12
#define REFERENCE     ((bgi_isa)-1)

typedef struct kernel_case {
    bgi_kernel_id id;
    const void *attributes;
    bg_type types[CASE_OPERANDS];
    void *initial[CASE_OPERANDS];
    uint32_t input_count, output_count;
    bg_kernel_env env;
    bg_dtype partials;
    size_t scratch_limit;
    double relative, absolute; /* tolerances; both 0 require the same bits */
} kernel_case;

typedef struct random_state {
    uint64_t state;
} random_state;

static inline uint32_t draw(random_state *random)
{
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random->state >> 33);
}

/* Draws a number from low to high, both included. */
static inline int64_t draw_between(random_state *random, int64_t low, int64_t high)
{
    return low + draw(random) % (high - low + 1);
}

static inline double draw_real(random_state *random, double low, double high)
{
    return low + (high - low) * draw(random) / 2147483648.0;
}

/* Draws a type that fast kernels accept: float32 in half of the cases, otherwise a 16-bit type. */
static inline bg_dtype draw_float(random_state *random)
{
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT32, BG_FLOAT16};

    return dtypes[draw_between(random, 0, 3)];
}

static inline void *take_operand(const bg_type *type)
{
    void *data = NULL;

    assert_int_equal(posix_memalign(&data, 64, bg_type_size_bytes(type)), 0);
    return data;
}

static inline void *case_input(kernel_case *c, bg_type type, random_state *random, double low, double high)
{
    const int64_t count = bg_type_element_count(&type);
    void *data = take_operand(&type);

    for (int64_t i = 0; i < count; i++)
        bgi_store(type.dtype, data, i,
                  bg_dtype_is_float(type.dtype) ? draw_real(random, low, high)
                                                : (double)draw_between(random, (int64_t)low, (int64_t)high));
    c->types[c->input_count] = type;
    c->initial[c->input_count++] = data;
    return data;
}

/* Adds an output, filled with NaN or with bytes of 0xee. */
static inline void case_output(kernel_case *c, bg_type type)
{
    const uint32_t i = c->input_count + c->output_count++;
    const int64_t count = bg_type_element_count(&type);

    c->types[i] = type;
    c->initial[i] = take_operand(&type);
    memset(c->initial[i], 0xee, bg_type_size_bytes(&type));
    if (bg_dtype_is_float(type.dtype))
        for (int64_t e = 0; e < count; e++)
            bgi_store(type.dtype, c->initial[i], e, NAN);
}

static inline void case_clear(kernel_case *c)
{
    for (uint32_t i = 0; i < c->input_count + c->output_count; i++)
        free(c->initial[i]);
}

/* Returns the part that runs as number `i`, in order 0 (forward), 1 (backward) or 2 (interleaved). */
static inline uint32_t order_part(uint32_t i, uint32_t count, int order)
{
    const uint32_t half = (count + 1) / 2;

    return order == 0 ? i : order == 1 ? count - 1 - i : i < half ? 2 * i : 2 * (i - half) + 1;
}

/* Returns the number of the thread that runs the part: there is one thread, one for each part, or two. */
static inline uint32_t order_runner(uint32_t i, uint32_t count, int order)
{
    return order == 0 ? 0 : order == 1 ? count - 1 - i : i % 2 * (count - 1);
}

static inline void case_run_parts(bg_kernel_function function, uint32_t count, bg_kernel_call *call, int order)
{
    for (uint32_t i = 0; i < count; i++) {
        call->runner = order_runner(i, count, order);
        function(call, order_part(i, count, order));
    }
    call->runner = 0;
}

/* Copies exactly the attributes that the kernel's row declares, so that the address sanitizer detects reads beyond
 * them; returns NULL if there are no attributes. */
static inline void *take_attributes(const kernel_case *c)
{
    const size_t bytes = bgi_kernel_attributes_bytes(c->id);
    void *attributes = bytes > 0 ? malloc(bytes) : NULL;

    if (bytes > 0) {
        assert_non_null(attributes);
        memcpy(attributes, c->attributes, bytes);
    }
    return attributes;
}

/* Runs on copies; the caller frees `results`. Returns false when the fast kernel declines. */
static inline bool case_run(const kernel_case *c, bgi_isa isa, int order, void **results)
{
    void *attributes = take_attributes(c);
    const bgi_kernel_request request = {c->id,      c->types,    c->input_count,  c->output_count,
                                        attributes, c->partials, c->scratch_limit};
    bg_kernel kernel;
    bg_kernel_call call = {.types = c->types,
                           .operands = results,
                           .input_count = c->input_count,
                           .output_count = c->output_count,
                           .attributes = attributes,
                           .env = &c->env};

    if (isa == REFERENCE)
        assert_int_equal(bgi_kernel_select(&request, BG_KERNELS_REFERENCE, &kernel, NULL), BG_OK);
    else if (!bgi_cpu_select(&request, isa, &kernel)) {
        free(attributes);
        return false;
    }
    for (uint32_t i = 0; i < c->input_count + c->output_count; i++) {
        results[i] = take_operand(&c->types[i]);
        memcpy(results[i], c->initial[i], bg_type_size_bytes(&c->types[i]));
    }
    if (kernel.scratch_bytes) {
        assert_int_equal(posix_memalign(&call.scratch, 64, kernel.scratch_bytes), 0);
        memset(call.scratch, 0xff, kernel.scratch_bytes); /* NaN */
    }
    call.state = kernel.state;
    if (kernel.prepare)
        kernel.prepare(&call);
    case_run_parts(kernel.run, kernel.part_count, &call, order);
    if (kernel.combine)
        case_run_parts(kernel.combine, kernel.combine_count, &call, order);
    if (kernel.finish)
        kernel.finish(&call);
    free(call.scratch);
    free(attributes);
    return true;
}

static inline void free_results(const kernel_case *c, void **results)
{
    for (uint32_t i = 0; i < c->input_count + c->output_count; i++)
        free(results[i]);
}

static inline bool is_close(double got, double wanted, double relative, double absolute)
{
    if (isnan(got) || isnan(wanted))
        return isnan(got) && isnan(wanted);
    if (isinf(got) || isinf(wanted))
        return got == wanted;
    return fabs(got - wanted) <= absolute + relative * fabs(wanted);
}

static inline void fail_element(const kernel_case *c, bgi_isa isa, uint32_t operand, int64_t element, double got,
                                double wanted)
{
    char shapes[CASE_OPERANDS * BG_TYPE_TEXT_BYTES] = "";

    for (uint32_t i = 0; i < c->input_count + c->output_count; i++) {
        char text[BG_TYPE_TEXT_BYTES];

        strcat(strcat(shapes, " "), bg_type_text(&c->types[i], text));
    }
    fail_msg("%s (isa %d): operand %u element %lld is %.9g, the reference says %.9g; operands%s",
             bgi_kernel_name(c->id), (int)isa, operand, (long long)element, got, wanted, shapes);
}

/* Checks that float operands are within the tolerances and integers are equal. Bytes (`where` of near-ties) are the
 * exception: fewer than one in `bytes_per_miss` may differ; 0: no byte may differ. */
static inline void compare_results(const kernel_case *c, bgi_isa isa, void **got, void **wanted, int64_t bytes_per_miss)
{
    for (uint32_t i = 0; i < c->input_count + c->output_count; i++) {
        const bg_dtype dtype = c->types[i].dtype;
        const int64_t count = bg_type_element_count(&c->types[i]);
        const bool is_float = bg_dtype_is_float(dtype);
        int64_t misses = 0;

        for (int64_t e = 0; e < count; e++) {
            const double a = bgi_load(dtype, got[i], e), b = bgi_load(dtype, wanted[i], e);

            if (is_close(a, b, is_float ? c->relative : 0.0, is_float ? c->absolute : 0.0))
                continue;
            if (dtype != BG_UINT8 || bytes_per_miss == 0 || ++misses * bytes_per_miss > count + bytes_per_miss)
                fail_element(c, isa, i, e, a, b);
        }
    }
}

/* Checks that every limit of scratch gives the same bits, for kernels with scratch. */
static inline void check_limits(const kernel_case *c, bgi_isa isa, void **got)
{
    static const size_t limits[] = {1, 300000};
    const bgi_kernel_request request = {
        .id = c->id, .types = c->types, .attributes = c->attributes, .scratch_limit = 1};
    kernel_case bounded = *c;

    if (bgi_product_state(&request, isa) == NULL)
        return;
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        void *again[CASE_OPERANDS];

        bounded.scratch_limit = limits[l];
        assert_true(case_run(&bounded, isa, 2, again));
        for (uint32_t i = 0; i < c->input_count + c->output_count; i++)
            assert_memory_equal(again[i], got[i], bg_type_size_bytes(&c->types[i]));
        free_results(c, again);
    }
}

/* Runs the whole check; returns the number of instruction sets that accepted the case. */
static inline int case_check(const kernel_case *c, int64_t bytes_per_miss)
{
    void *wanted[CASE_OPERANDS];
    int taken = 0;

    assert_true(case_run(c, REFERENCE, 0, wanted));
    for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa)) {
        void *got[CASE_OPERANDS], *again[CASE_OPERANDS];

        if (!case_run(c, (bgi_isa)isa, 0, got))
            continue;
        taken++;
        compare_results(c, (bgi_isa)isa, got, wanted, bytes_per_miss);
        for (int order = 1; order < 3; order++) {
            assert_true(case_run(c, (bgi_isa)isa, order, again));
            for (uint32_t i = 0; i < c->input_count + c->output_count; i++)
                assert_memory_equal(again[i], got[i], bg_type_size_bytes(&c->types[i]));
            free_results(c, again);
        }
        check_limits(c, (bgi_isa)isa, got);
        free_results(c, got);
    }
    free_results(c, wanted);
    return taken;
}

/* Checks the accumulating form: at the first micro-batch it gives the plain form's outputs, later exactly the previous
 * values plus these. Only for float32 results, with the reference and every instruction set. */
static inline void case_check_accumulating(const kernel_case *plain, random_state *random)
{
    kernel_case c = *plain;

    if (plain->types[plain->input_count].dtype != BG_FLOAT32)
        return;
    c.output_count = 0;
    for (uint32_t i = 0; i < plain->output_count; i++)
        case_input(&c, plain->types[plain->input_count + i], random, -1, 1);
    for (int isa = (int)REFERENCE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa))
        for (uint32_t accumulated = 0; accumulated < 2; accumulated++) {
            void *gradients[CASE_OPERANDS], *got[CASE_OPERANDS];

            c.env.accumulated = accumulated;
            assert_true(case_run(plain, (bgi_isa)isa, 0, gradients));
            assert_true(case_run(&c, (bgi_isa)isa, (int)accumulated, got));
            for (uint32_t i = plain->input_count; i < c.input_count; i++) {
                const float *before = c.initial[i], *gradient = gradients[i], *after = got[i];

                for (int64_t e = 0; e < bg_type_element_count(&c.types[i]); e++) {
                    const float wanted = accumulated == 0 ? gradient[e] : before[e] + gradient[e];

                    if (memcmp(&after[e], &wanted, sizeof wanted) != 0)
                        fail_element(&c, (bgi_isa)isa, i, e, after[e], wanted);
                }
            }
            free_results(plain, gradients);
            free_results(&c, got);
        }
    for (uint32_t i = plain->input_count; i < c.input_count; i++)
        free(c.initial[i]);
}

/* Returns the error allowed for a float32 sum of `terms` products of numbers up to 1. Rounding errors grow as the
 * square root of the number of terms, and so do the partial sums that are rounded. */
static inline double sum_tolerance(double terms)
{
    return 4e-6 + 6e-8 * terms;
}

/* Returns one unit in the last place of the type, relative to 1. */
static inline double unit_of(bg_dtype dtype)
{
    return dtype == BG_BFLOAT16  ? 1.0 / 128
           : dtype == BG_FLOAT16 ? 1.0 / 1024
           : dtype == BG_FLOAT32 ? 1.1920929e-7
                                 : 2.3e-16;
}

/* Returns the relative error allowed for a sum of `terms` products. A sum far from 0 has partial sums that are as
 * large, each rounded relative to its size. In simulations, sequential sums of n products that end at three deviations
 * are off by 0.15 sqrt(n) units in the last place on average. Together with sum_tolerance, the allowed error is five
 * times that average, which one in ten million elements exceeds. */
static inline double sum_relative(bg_dtype dtype, double terms)
{
    return dtype == BG_FLOAT32 ? unit_of(dtype) * (2.0 + 0.15 * sqrt(terms)) : 2.0 * unit_of(dtype);
}

#endif
