/*
 * kernels.c: measures the kernels on one thread, in microseconds per call (the best of many) and GFLOP/s. It measures
 * first the calls of one training step of the digit network, with their sum for each image, then larger shapes. Run it
 * on one core: taskset -c 0.
 *
 * usage: kernels [portable|avx2|avx512] [part of a name]
 */
#include "kernels/conv/attributes.h"
#include "kernels/conv_pool/attributes.h"
#include "kernels/cpu/variant.h"
#include "kernels/elementwise/attributes.h"
#include "kernels/linear/attributes.h"
#include "kernels/loss/attributes.h"
#include "kernels/optimizer/attributes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPERANDS 10

typedef struct bench_call {
    const char *label;
    bgi_kernel_id id;
    const void *attributes;
    double flops;          /* operations of the dense computation */
    double calls_per_step; /* number of calls in the digit network; 0 for calls that are not in it */
    uint32_t input_count, output_count;
    bg_type types[OPERANDS];
} bench_call;

/* Returns the time of the clock. Calls that last long enough to be interrupted are measured in processor time, which
 * excludes other programs. */
static double read_clock_us(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static uint32_t draw(void)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* Fills floats with -1..1 and labels with 0..9. Bytes of backward calls are the positions of maxima in 2 x 2 windows;
 * half of the windows have no gradient. */
static void *make_operand(const bench_call *b, uint32_t index)
{
    const bg_type *type = &b->types[index];
    const int64_t count = bg_type_element_count(type);
    void *data = NULL;

    if (posix_memalign(&data, 64, bg_type_size_bytes(type) + 64))
        exit(1);
    for (int64_t i = 0; i < count; i++)
        switch (type->dtype) {
        case BG_FLOAT32:
            ((float *)data)[i] = (float)draw() / 1073741824.0f - 1.0f;
            break;
        case BG_BFLOAT16:
            ((uint16_t *)data)[i] = (uint16_t)(0x3f00 + draw() % 128);
            break;
        case BG_FLOAT64:
            ((double *)data)[i] = 1e-3;
            break;
        case BG_INT32:
            ((int32_t *)data)[i] = (int32_t)(draw() % 10);
            break;
        default:
            ((uint8_t *)data)[i] = index != 1 ? (uint8_t)(draw() % 256) : draw() % 2 ? 255 : (uint8_t)(draw() % 4);
            if (type->rank == 1) /* labels */
                ((uint8_t *)data)[i] %= 10;
        }
    return data;
}

static double time_kernel(const bg_kernel *kernel, const bg_kernel_call *call)
{
    const double deadline = read_clock_us(CLOCK_MONOTONIC) + 150e3;
    clockid_t id = CLOCK_MONOTONIC;
    double best = 1e30;

    do {
        const double start = read_clock_us(id);
        double end;

        bgi_kernel_run(kernel, call);
        end = read_clock_us(id);
        best = end - start < best ? end - start : best;
        id = best > 1000.0 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    } while (read_clock_us(CLOCK_MONOTONIC) < deadline);
    return best;
}

static double bench(const bench_call *b, bgi_isa isa)
{
    const bgi_kernel_request request = {b->id,         b->types, b->input_count, b->output_count, b->attributes,
                                        BG_DTYPE_NONE, 0};
    const bg_kernel_env env = {.step = 3, .accumulated = 1, .training = true};
    void *operands[OPERANDS], *scratch = NULL;
    bg_kernel_call call = {.types = b->types,
                           .operands = operands,
                           .input_count = b->input_count,
                           .output_count = b->output_count,
                           .attributes = b->attributes,
                           .env = &env};
    bg_kernel kernel;
    double us;

    if (!bgi_cpu_select(&request, isa, &kernel)) {
        printf("%-28s declined\n", b->label);
        return 0.0;
    }
    if (posix_memalign(&scratch, 64, kernel.scratch_bytes + 64))
        exit(1);
    memset(scratch, 0, kernel.scratch_bytes + 64);
    call.scratch = scratch;
    for (uint32_t i = 0; i < b->input_count + b->output_count; i++)
        operands[i] = make_operand(b, i);
    us = time_kernel(&kernel, &call);
    for (uint32_t i = 0; i < b->input_count + b->output_count; i++)
        free(operands[i]);
    free(scratch);
    printf("%-28s %-36s %3u parts %10.2f us", b->label, kernel.name, kernel.part_count, us);
    if (b->flops > 0)
        printf(" %8.1f GFLOP/s", b->flops / us * 1e-3);
    printf("\n");
    fflush(stdout);
    return us;
}

/* ---- the digit network ---- */

enum { N = 40, MICRO_BATCHES = 10, PARAMETERS = 90026 };

#define F32(...)                                                                                                       \
    {                                                                                                                  \
        BG_FLOAT32, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                                \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define U8(...)                                                                                                        \
    {                                                                                                                  \
        BG_UINT8, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                                  \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define F64(...)                                                                                                       \
    {                                                                                                                  \
        BG_FLOAT64, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                                \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define BF16(...)                                                                                                      \
    {                                                                                                                  \
        BG_BFLOAT16, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                               \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static const bgi_conv2d_pool_attributes pool_2 = {.pool = {2, 2}, .relu = true};
static const bgi_standardize_attributes digits = {255.0f, 0.1307f, 0.3081f, BG_FLOAT32};
static const bgi_unary_attributes relu = {.function = BG_RELU}, gelu = {.function = BG_GELU},
                                  gelu_tanh = {.function = BG_GELU_TANH};
static const bgi_loss_attributes loss = {.reduction = BG_LOSS_MEAN, .ignore_index = -100};
static const bgi_adam_attributes adamw = {.decoupled_decay = true};
static const bgi_conv2d_attributes conv_3x3 = {{.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1}};
static const bgi_matmul_attributes no_transpose = {false, false};

static const bench_call network[] = {
    {"standardize", BGI_KERNEL_STANDARDIZE, &digits, 0, MICRO_BATCHES, 1, 1, {U8(N, 1, 28, 28), F32(N, 1, 28, 28)}},
    {"block 1 forward",
     BGI_KERNEL_CONV2D_POOL,
     &pool_2,
     N * 288e3,
     MICRO_BATCHES,
     3,
     2,
     {F32(N, 1, 28, 28), F32(10, 1, 5, 5), F32(10), F32(N, 10, 12, 12), U8(N, 10, 12, 12)}},
    {"block 2 forward",
     BGI_KERNEL_CONV2D_POOL,
     &pool_2,
     N * 640e3,
     MICRO_BATCHES,
     3,
     2,
     {F32(N, 10, 12, 12), F32(20, 10, 5, 5), F32(20), F32(N, 20, 4, 4), U8(N, 20, 4, 4)}},
    {"linear 320 256",
     BGI_KERNEL_LINEAR,
     NULL,
     N * 163840.0,
     MICRO_BATCHES,
     3,
     1,
     {F32(N, 320), F32(256, 320), F32(256), F32(N, 256)}},
    {"relu", BGI_KERNEL_UNARY, &relu, 0, MICRO_BATCHES, 1, 1, {F32(N, 256), F32(N, 256)}},
    {"linear 256 10",
     BGI_KERNEL_LINEAR,
     NULL,
     N * 5120.0,
     MICRO_BATCHES,
     3,
     1,
     {F32(N, 256), F32(10, 256), F32(10), F32(N, 10)}},
    {"cross entropy",
     BGI_KERNEL_CROSS_ENTROPY,
     &loss,
     0,
     MICRO_BATCHES,
     2,
     3,
     {F32(N, 10), U8(N), F32(1), F64(N), F32(1)}},
    {"cross entropy backward",
     BGI_KERNEL_CROSS_ENTROPY_BACKWARD,
     &loss,
     0,
     MICRO_BATCHES,
     5,
     1,
     {F32(1), F32(N, 10), U8(N), F64(N), F32(1), F32(N, 10)}},
    {"linear 256 10 weights",
     BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS,
     NULL,
     N * 5120.0,
     MICRO_BATCHES,
     2,
     2,
     {F32(N, 10), F32(N, 256), F32(10, 256), F32(10)}},
    {"linear 256 10 input",
     BGI_KERNEL_LINEAR_BACKWARD_INPUT,
     NULL,
     N * 5120.0,
     MICRO_BATCHES,
     2,
     1,
     {F32(N, 10), F32(10, 256), F32(N, 256)}},
    {"relu backward",
     BGI_KERNEL_UNARY_BACKWARD,
     &relu,
     0,
     MICRO_BATCHES,
     3,
     1,
     {F32(N, 256), F32(N, 256), F32(N, 256), F32(N, 256)}},
    {"linear 320 256 weights",
     BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS,
     NULL,
     N * 163840.0,
     MICRO_BATCHES,
     2,
     2,
     {F32(N, 256), F32(N, 320), F32(256, 320), F32(256)}},
    {"linear 320 256 input",
     BGI_KERNEL_LINEAR_BACKWARD_INPUT,
     NULL,
     N * 163840.0,
     MICRO_BATCHES,
     2,
     1,
     {F32(N, 256), F32(256, 320), F32(N, 320)}},
    {"block 2 weights",
     BGI_KERNEL_CONV2D_POOL_BACKWARD_WEIGHTS,
     &pool_2,
     N * 640e3,
     MICRO_BATCHES,
     3,
     2,
     {F32(N, 20, 4, 4), U8(N, 20, 4, 4), F32(N, 10, 12, 12), F32(20, 10, 5, 5), F32(20)}},
    {"block 2 input",
     BGI_KERNEL_CONV2D_POOL_BACKWARD_INPUT,
     &pool_2,
     N * 640e3,
     MICRO_BATCHES,
     3,
     1,
     {F32(N, 20, 4, 4), U8(N, 20, 4, 4), F32(20, 10, 5, 5), F32(N, 10, 12, 12)}},
    {"block 1 weights",
     BGI_KERNEL_CONV2D_POOL_BACKWARD_WEIGHTS,
     &pool_2,
     N * 288e3,
     MICRO_BATCHES,
     3,
     2,
     {F32(N, 10, 12, 12), U8(N, 10, 12, 12), F32(N, 1, 28, 28), F32(10, 1, 5, 5), F32(10)}},
    {"accumulate 81920",
     BGI_KERNEL_ACCUMULATE,
     NULL,
     0,
     MICRO_BATCHES *PARAMETERS / 81920.0,
     2,
     0,
     {F32(256, 320), F32(256, 320)}},
    {"adamw 81920",
     BGI_KERNEL_ADAM_UPDATE,
     &adamw,
     0,
     PARAMETERS / 81920.0,
     6,
     0,
     {F32(256, 320), F32(256, 320), F64(8), F32(1), F32(256, 320), F32(256, 320)}},
};

static const bench_call larger[] = {
    {"matmul 512",
     BGI_KERNEL_MATMUL,
     &no_transpose,
     2.0 * 512 * 512 * 512,
     0,
     2,
     1,
     {F32(512, 512), F32(512, 512), F32(512, 512)}},
    {"matmul 1024",
     BGI_KERNEL_MATMUL,
     &no_transpose,
     2.0 * 1024 * 1024 * 1024,
     0,
     2,
     1,
     {F32(1024, 1024), F32(1024, 1024), F32(1024, 1024)}},
    {"linear 1024x768x3072",
     BGI_KERNEL_LINEAR,
     NULL,
     2.0 * 1024 * 768 * 3072,
     0,
     3,
     1,
     {F32(1024, 768), F32(3072, 768), F32(3072), F32(1024, 3072)}},
    {"linear 768x3072 input",
     BGI_KERNEL_LINEAR_BACKWARD_INPUT,
     NULL,
     2.0 * 1024 * 768 * 3072,
     0,
     2,
     1,
     {F32(1024, 3072), F32(3072, 768), F32(1024, 768)}},
    {"linear 768x3072 weights",
     BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS,
     NULL,
     2.0 * 1024 * 768 * 3072,
     0,
     2,
     2,
     {F32(1024, 3072), F32(1024, 768), F32(3072, 768), F32(3072)}},
    {"linear bf16 1024x768x768",
     BGI_KERNEL_LINEAR,
     NULL,
     2.0 * 1024 * 768 * 768,
     0,
     3,
     1,
     {BF16(1024, 768), BF16(768, 768), BF16(768), BF16(1024, 768)}},
    {"conv 3x3 64 64 32x32",
     BGI_KERNEL_CONV2D,
     &conv_3x3,
     2.0 * 8 * 64 * 64 * 9 * 1024,
     0,
     3,
     1,
     {F32(8, 64, 32, 32), F32(64, 64, 3, 3), F32(64), F32(8, 64, 32, 32)}},
    {"conv 3x3 input",
     BGI_KERNEL_CONV2D_BACKWARD_INPUT,
     &conv_3x3,
     2.0 * 8 * 64 * 64 * 9 * 1024,
     0,
     2,
     1,
     {F32(8, 64, 32, 32), F32(64, 64, 3, 3), F32(8, 64, 32, 32)}},
    {"conv 3x3 weights",
     BGI_KERNEL_CONV2D_BACKWARD_WEIGHTS,
     &conv_3x3,
     2.0 * 8 * 64 * 64 * 9 * 1024,
     0,
     2,
     2,
     {F32(8, 64, 32, 32), F32(8, 64, 32, 32), F32(64, 64, 3, 3), F32(64)}},
    {"gelu 1M", BGI_KERNEL_UNARY, &gelu, 0, 0, 1, 1, {F32(1024, 1024), F32(1024, 1024)}},
    {"gelu tanh 1M", BGI_KERNEL_UNARY, &gelu_tanh, 0, 0, 1, 1, {F32(1024, 1024), F32(1024, 1024)}},
};

int main(int argc, char **argv)
{
    const char *filter = argc > 2 ? argv[2] : "";
    bgi_isa isa = bgi_cpu_isa();
    double step = 0.0;

    if (argc > 1)
        isa = !strcmp(argv[1], "portable") ? BGI_ISA_PORTABLE : !strcmp(argv[1], "avx2") ? BGI_ISA_AVX2 : isa;
    printf("one step of the digit network, %d micro-batches of %d:\n", MICRO_BATCHES, N);
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if (strstr(network[i].label, filter))
            step += network[i].calls_per_step * bench(&network[i], isa);
    printf("sum: %.2f us an image\n\n", step / (N * MICRO_BATCHES));
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++)
        if (strstr(larger[i].label, filter))
            bench(&larger[i], isa);
    return 0;
}
