/*
 * ops.c: measures forward and backward of every op at several shapes for bench/ops.py, which compares Brigade's kernels
 * with PyTorch's. It reads one request at a time, so that the caller can alternate the two libraries.
 *
 *     ops --list          prints a line `op dim...` for each case, as bench/peers/ops_torch.py builds it too
 *     ops                 reads lines `CASE THREADS MILLISECONDS`, writes `MICROSECONDS FLOPS BYTES KERNEL...`: the
 *                         best of the runs that fit in that time; FLOPS of the plain sums, BYTES of all operands, once
 *                         per call. CASE `flops` and `copy:BYTES` measure the machine: GFLOP/s in place of
 *                         MICROSECONDS, and a copy of half of BYTES to the other half
 *     ops --count POLICY  reads lines `op dim...`, runs each case once, in run_counted, and writes the names of its
 *                         kernels, for a tool that counts instructions (tools/count_instructions.sh). POLICY is
 *                         portable or avx2
 *     ops --turns         reads lines `op dim...`, writes the speed of the AVX-512 kernels relative to the AVX2 ones:
 *                         the median of turns
 */
#include "graph_cases.h"

#include "core/isa.h"
#include "core/threads.h"
#include "kernels/accumulate/attributes.h"
#include "kernels/attention/attributes.h"
#include "kernels/compare/attributes.h"
#include "kernels/conv/attributes.h"
#include "kernels/conv_pool/attributes.h"
#include "kernels/cosine/attributes.h"
#include "kernels/ctc/attributes.h"
#include "kernels/cumulative/attributes.h"
#include "kernels/dropout/attributes.h"
#include "kernels/elementwise/attributes.h"
#include "kernels/embedding/attributes.h"
#include "kernels/fused_conv/attributes.h"
#include "kernels/index/attributes.h"
#include "kernels/kernels.h"
#include "kernels/linear/attributes.h"
#include "kernels/loss/attributes.h"
#include "kernels/loss_scaling/attributes.h"
#include "kernels/norm/attributes.h"
#include "kernels/optimizer/attributes.h"
#include "kernels/pad/attributes.h"
#include "kernels/pointwise_loss/attributes.h"
#include "kernels/pool/attributes.h"
#include "kernels/quantized/attributes.h"
#include "kernels/recurrent/attributes.h"
#include "kernels/reduce/attributes.h"
#include "kernels/resample/attributes.h"
#include "kernels/reshape/attributes.h"
#include "kernels/rms_norm/attributes.h"
#include "kernels/rotary/attributes.h"

#include "median.h"
#include "peaks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { DIMS = GRAPH_DIMS, CALLS = 256, OPERANDS = 16, TENSORS = 24, THREADS = 64 };

/* ---- the cases ---- */

static const struct {
    const char *op;
    int64_t dims[DIMS];
} cases[] = {
    /* n c h w, window, stride, padding */
    {"avg_pool", {32, 64, 8, 8, 8, 8, 0}},
    {"avg_pool", {32, 64, 32, 32, 2, 2, 0}},
    {"avg_pool", {8, 64, 56, 56, 3, 1, 1}},
    {"avg_pool", {16, 512, 7, 7, 7, 7, 0}},
    {"max_pool", {32, 64, 32, 32, 2, 2, 0}},
    {"max_pool", {8, 64, 112, 112, 3, 2, 1}},
    {"max_pool", {32, 128, 8, 8, 2, 2, 0}},
    {"max_pool", {8, 64, 28, 28, 3, 1, 1}},
    /* n c h w */
    {"batch_norm", {128, 16, 32, 32}},
    {"batch_norm", {128, 32, 16, 16}},
    {"batch_norm", {32, 64, 32, 32}},
    {"batch_norm", {128, 64, 8, 8}},
    {"batch_norm", {8, 512, 7, 7}},
    {"batch_norm", {128, 512, 1, 1}},
    /* n c h w, o, window, stride, padding, groups: ResNet-8 and 18 on 32 x 32, ResNet-50 on 224 x 224 */
    {"conv", {64, 3, 32, 32, 16, 3, 1, 1, 1}},
    {"conv", {64, 16, 32, 32, 16, 3, 1, 1, 1}},
    {"conv", {64, 16, 32, 32, 32, 3, 2, 1, 1}},
    {"conv", {64, 16, 32, 32, 32, 1, 2, 0, 1}},
    {"conv", {64, 32, 16, 16, 32, 3, 1, 1, 1}},
    {"conv", {64, 64, 8, 8, 64, 3, 1, 1, 1}},
    {"conv", {16, 64, 32, 32, 64, 3, 1, 1, 1}},
    {"conv", {16, 128, 16, 16, 128, 3, 1, 1, 1}},
    {"conv", {16, 256, 8, 8, 256, 3, 1, 1, 1}},
    /* the convolutions of ResNet-50 at 224 x 224 */
    {"conv", {8, 3, 224, 224, 64, 7, 2, 3, 1}},
    {"conv", {8, 64, 56, 56, 64, 1, 1, 0, 1}},
    {"conv", {8, 64, 56, 56, 64, 3, 1, 1, 1}},
    {"conv", {8, 64, 56, 56, 256, 1, 1, 0, 1}},
    {"conv", {8, 256, 56, 56, 64, 1, 1, 0, 1}},
    {"conv", {8, 256, 56, 56, 128, 1, 1, 0, 1}},
    {"conv", {8, 128, 56, 56, 128, 3, 2, 1, 1}},
    {"conv", {8, 128, 28, 28, 512, 1, 1, 0, 1}},
    {"conv", {8, 256, 56, 56, 512, 1, 2, 0, 1}},
    {"conv", {8, 512, 28, 28, 128, 1, 1, 0, 1}},
    {"conv", {8, 128, 28, 28, 128, 3, 1, 1, 1}},
    {"conv", {8, 512, 28, 28, 256, 1, 1, 0, 1}},
    {"conv", {8, 256, 28, 28, 256, 3, 2, 1, 1}},
    {"conv", {8, 256, 14, 14, 1024, 1, 1, 0, 1}},
    {"conv", {8, 512, 28, 28, 1024, 1, 2, 0, 1}},
    {"conv", {8, 1024, 14, 14, 256, 1, 1, 0, 1}},
    {"conv", {8, 256, 14, 14, 256, 3, 1, 1, 1}},
    {"conv", {8, 1024, 14, 14, 512, 1, 1, 0, 1}},
    {"conv", {8, 512, 14, 14, 512, 3, 2, 1, 1}},
    {"conv", {8, 512, 7, 7, 2048, 1, 1, 0, 1}},
    {"conv", {8, 1024, 14, 14, 2048, 1, 2, 0, 1}},
    {"conv", {8, 2048, 7, 7, 512, 1, 1, 0, 1}},
    {"conv", {8, 512, 7, 7, 512, 3, 1, 1, 1}},
    /* the convolutions of ResNet-18 on 32 x 32, in bfloat16 */
    {"conv_bfloat16", {32, 64, 32, 32, 64, 3, 1, 1, 1}},
    {"conv_bfloat16", {32, 64, 32, 32, 128, 3, 2, 1, 1}},
    {"conv_bfloat16", {32, 64, 32, 32, 128, 1, 2, 0, 1}},
    {"conv_bfloat16", {32, 128, 16, 16, 128, 3, 1, 1, 1}},
    {"conv_bfloat16", {32, 256, 8, 8, 256, 3, 1, 1, 1}},
    {"conv_bfloat16", {32, 512, 4, 4, 512, 3, 1, 1, 1}},
    /* the convolutions of MobileNet with a filter for each channel */
    {"conv", {8, 32, 112, 112, 32, 3, 1, 1, 32}},
    {"conv", {8, 64, 112, 112, 64, 3, 2, 1, 64}},
    {"conv", {8, 128, 56, 56, 128, 3, 1, 1, 128}},
    {"conv", {8, 128, 56, 56, 128, 3, 2, 1, 128}},
    {"conv", {8, 256, 28, 28, 256, 3, 1, 1, 256}},
    {"conv", {8, 512, 14, 14, 512, 3, 1, 1, 512}},
    {"conv", {8, 512, 14, 14, 512, 3, 2, 1, 512}},
    {"conv", {8, 1024, 7, 7, 1024, 3, 1, 1, 1024}},
    /* the same for a transposed convolution */
    {"conv_transpose", {8, 64, 28, 28, 32, 2, 2, 0, 1}},
    {"conv_transpose", {8, 128, 14, 14, 64, 4, 2, 1, 1}},
    {"conv_transpose", {16, 64, 16, 16, 64, 3, 1, 1, 1}},
    /* n c h w, height and width of the result, mode: bg_interpolation */
    {"interpolate", {8, 64, 28, 28, 56, 56, BG_INTERPOLATE_NEAREST}},
    {"interpolate", {8, 64, 28, 28, 56, 56, BG_INTERPOLATE_LINEAR}},
    {"interpolate", {4, 3, 224, 224, 448, 448, BG_INTERPOLATE_LINEAR}},
    {"interpolate", {8, 64, 56, 56, 28, 28, BG_INTERPOLATE_LINEAR}},
    {"interpolate", {8, 16, 32, 32, 64, 64, BG_INTERPOLATE_CUBIC}},
    {"interpolate", {16, 512, 7, 7, 3, 3, BG_INTERPOLATE_AREA}},
    /* elements */
    {"relu", {4096}},
    {"relu", {262144}},
    {"relu", {4194304}},
    {"gelu", {4096}},
    {"gelu", {262144}},
    {"gelu", {4194304}},
    {"tanh", {262144}},
    {"tanh", {4096}},
    {"tanh", {4194304}},
    {"sigmoid", {262144}},
    {"sigmoid", {4096}},
    {"sigmoid", {4194304}},
    {"exp", {262144}},
    {"exp", {4096}},
    {"exp", {4194304}},
    {"add", {4096}},
    {"add", {262144}},
    {"add", {4194304}},
    {"mul", {4096}},
    {"mul", {262144}},
    {"mul", {4194304}},
    {"maximum", {262144}},
    {"maximum", {4096}},
    {"maximum", {4194304}},
    {"dropout", {4096}},
    {"dropout", {262144}},
    {"dropout", {4194304}},
    /* rows, columns */
    {"bias", {128, 512}},
    {"bias", {1024, 768}},
    {"bias", {4096, 256}},
    {"layer_norm", {128, 512}},
    {"layer_norm", {1024, 768}},
    {"layer_norm", {4096, 128}},
    {"softmax", {128, 10}},
    {"softmax", {1024, 1024}},
    {"softmax", {3072, 256}},
    {"log_softmax", {128, 10}},
    {"log_softmax", {1024, 1024}},
    {"log_softmax", {3072, 256}},
    {"cross_entropy", {128, 10}},
    {"cross_entropy", {768, 256}},
    {"cross_entropy", {256, 50257}},
    {"smooth_loss", {128, 10}},
    {"smooth_loss", {768, 256}},
    {"smooth_loss", {256, 50257}},
    {"nll_loss", {768, 256}},
    {"nll_loss", {128, 10}},
    {"nll_loss", {256, 50257}},
    {"rms_norm", {128, 512}},
    {"rms_norm", {1024, 768}},
    {"rms_norm", {4096, 128}},
    {"cumulative_sum", {128, 512}},
    {"cumulative_sum", {1024, 768}},
    {"cumulative_sum", {16, 65536}},
    /* elements */
    {"mse_loss", {4096}},
    {"mse_loss", {262144}},
    {"mse_loss", {4194304}},
    {"bce_loss", {4096}},
    {"bce_loss", {262144}},
    {"bce_loss", {4194304}},
    {"where", {4096}},
    {"where", {262144}},
    {"where", {4194304}},
    /* samples, steps, classes, targets */
    {"ctc", {16, 128, 32, 20}},
    {"ctc", {32, 256, 64, 40}},
    {"ctc", {8, 512, 29, 100}},
    /* outer, reduced, inner */
    {"sum", {1, 262144, 1}},
    {"sum", {1024, 1024, 1}},
    {"sum", {1, 1024, 1024}},
    {"sum", {64, 256, 64}},
    {"mean", {1024, 768, 1}},
    {"mean", {1, 262144, 1}},
    {"mean", {64, 256, 64}},
    {"max", {1024, 1024, 1}},
    {"max", {1, 1024, 1024}},
    {"max", {64, 256, 64}},
    /* the first three dims; the two that are exchanged (0 1 or 1 2); the size of the dims after them */
    {"transpose", {1, 1024, 1024, 1, 1}},
    {"transpose", {1, 300, 700, 1, 1}},
    {"transpose", {12, 256, 12, 1, 64}},
    {"transpose", {64, 128, 64, 0, 1}},
    {"transpose", {32, 64, 1024, 1, 1}},
    /* rows of the table, columns, ids */
    {"embedding", {256, 128, 768}},
    {"embedding", {50257, 768, 1024}},
    {"embedding", {1000, 64, 4096}},
    {"gather", {256, 128, 768}},
    {"gather", {4096, 512, 1024}},
    {"gather", {1000, 64, 4096}},
    /* n c h w, elements on each side */
    {"pad", {8, 64, 56, 56, 1}},
    {"pad", {32, 16, 32, 32, 2}},
    {"pad", {4, 3, 224, 224, 3}},
    /* rows, in, out */
    {"linear", {128, 64, 10}},
    {"linear", {128, 512, 512}},
    {"linear", {1024, 768, 768}},
    {"linear", {768, 128, 512}},
    /* batch, m, k, n */
    {"matmul", {1, 512, 512, 512}},
    {"matmul", {48, 64, 32, 64}},
    {"matmul", {12, 256, 64, 256}},
    /* sequences, length, heads, width of a head */
    {"attention", {12, 64, 4, 32}},
    {"attention", {4, 256, 12, 64}},
    {"attention", {8, 197, 6, 64}},
    /* the same, in bfloat16 */
    {"attention_bfloat16", {4, 256, 12, 64}},
    {"attention_bfloat16", {1, 1024, 12, 64}},
    {"attention_bfloat16", {16, 128, 12, 64}},
    /* samples, queries, keys, heads, heads of keys, width of a head; the last number says which keys a query sees:
     * 1 a padding mask, 2 a bias with a gradient, 3 causal, 4 causal within a window of 64 */
    {"dot_product_attention", {8, 128, 128, 12, 12, 64, 1}},
    {"dot_product_attention", {4, 128, 128, 8, 8, 64, 2}},
    {"dot_product_attention", {2, 256, 256, 12, 4, 64, 3}},
    {"dot_product_attention", {1, 1024, 1024, 8, 8, 64, 4}},
    {"dot_product_attention", {4, 64, 256, 8, 8, 64, 0}},
    /* samples, length, heads, width of a head */
    {"rotary", {2, 256, 12, 64}},
    {"rotary", {8, 128, 8, 64}},
    {"rotary", {1, 2048, 16, 64}},
    /* steps, samples, features, width */
    {"lstm", {256, 32, 128, 256}},
    {"lstm", {64, 64, 256, 512}},
    {"lstm", {128, 16, 64, 128}},
    {"gru", {256, 32, 128, 256}},
    {"gru", {64, 64, 256, 512}},
    {"gru", {128, 16, 64, 128}},
    {"rnn", {256, 32, 128, 256}},
    {"rnn", {64, 64, 256, 512}},
    {"rnn", {128, 16, 64, 128}},
    /* elements */
    {"adamw", {4096}},
    {"adamw", {262144}},
    {"adamw", {4194304}},
    {"sgd", {262144}},
    {"sgd", {4096}},
    {"sgd", {4194304}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- the calls of a case ---- */

typedef struct bench_tensor {
    bg_type type;
    void *data;
} bench_tensor;

typedef struct bench_call {
    bg_kernel kernel;
    bg_type types[OPERANDS];
    void *operands[OPERANDS];
    uint32_t input_count, output_count;
    const void *attributes;
    void *scratch;
} bench_call;

typedef struct bench_work {
    bench_tensor tensors[TENSORS];
    size_t tensor_count;
    bench_call calls[CALLS];
    size_t call_count;
    bg_graph *graph; /* the graph of a case that has one, with a buffer for each value */
    void **buffers;
    double flops, bytes;
} bench_work;

static uint32_t draw(void)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static void *take(size_t bytes)
{
    void *data = NULL;

    if (posix_memalign(&data, 64, bytes + 64) != 0)
        exit(1);
    return data;
}

/* Adds a tensor of numbers -1..1, or of whole numbers 0..below - 1. */
static int make(bench_work *work, bg_type type, uint32_t below)
{
    const int64_t count = bg_type_element_count(&type);
    void *data = take(bg_type_size_bytes(&type));

    memset(data, 0, bg_type_size_bytes(&type));
    for (int64_t i = 0; i < count; i++)
        if (type.dtype == BG_FLOAT32)
            ((float *)data)[i] = (float)draw() / 1073741824.0f - 1.0f;
        else if (type.dtype == BG_INT32)
            ((int32_t *)data)[i] = (int32_t)(draw() % below);
        else if (type.dtype == BG_BFLOAT16)
            ((uint16_t *)data)[i] = (uint16_t)(0x3f00 + draw() % 128); /* 0.5..1 */
    work->tensors[work->tensor_count] = (bench_tensor){type, data};
    return (int)work->tensor_count++;
}

static int make_like(bench_work *work, int tensor)
{
    return make(work, work->tensors[tensor].type, 1);
}

/* The policy that chooses the kernels of a case's calls. */
static bg_kernel_policy policy = BG_KERNELS_FAST;

/* Adds a call whose first `inputs` tensors are inputs; -1 ends the list of tensors. */
static void add_call(bench_work *work, bgi_kernel_id id, const void *attributes, uint32_t inputs, const int *tensors)
{
    bench_call *call = &work->calls[work->call_count++];
    uint32_t count = 0;
    bg_error error = {0};

    *call = (bench_call){.attributes = attributes};
    for (; tensors[count] >= 0; count++) {
        call->types[count] = work->tensors[tensors[count]].type;
        call->operands[count] = work->tensors[tensors[count]].data;
        work->bytes += (double)bg_type_size_bytes(&call->types[count]);
    }
    call->input_count = inputs;
    call->output_count = count - inputs;
    const bgi_kernel_request request = {.id = id,
                                        .types = call->types,
                                        .input_count = inputs,
                                        .output_count = count - inputs,
                                        .attributes = attributes};
    if (bgi_kernel_select(&request, policy, &call->kernel, &error) != BG_OK) {
        fprintf(stderr, "ops: %s\n", error.message);
        exit(1);
    }
    call->scratch = take(call->kernel.scratch_bytes);
    memset(call->scratch, 0, call->kernel.scratch_bytes);
}

#define CALL(id, attributes, inputs, ...)                                                                              \
    add_call(work, BGI_KERNEL_##id, attributes, inputs, (const int[]){__VA_ARGS__, -1})
#define F32(...)                                                                                                       \
    bg_type_make(BG_FLOAT32, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
#define I32(...)                                                                                                       \
    bg_type_make(BG_INT32, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

static void pool(bench_work *work, const int64_t *d, bool is_max)
{
    static bgi_pool2d_attributes attributes;
    const int64_t oh = (d[2] + 2 * d[6] - d[4]) / d[5] + 1, ow = (d[3] + 2 * d[6] - d[4]) / d[5] + 1;
    const int x = make(work, F32(d[0], d[1], d[2], d[3]), 1), y = make(work, F32(d[0], d[1], oh, ow), 1);
    const int dx = make_like(work, x), dy = make_like(work, y), where = make(work, I32(d[0], d[1], oh, ow), 1);

    attributes = (bgi_pool2d_attributes){.options = {0, {d[4], d[4]}, {d[5], d[5]}, {d[6], d[6]}, {1, 1}, false, true}};
    if (is_max) {
        CALL(MAX_POOL2D, &attributes, 1, x, y, where);
        CALL(MAX_POOL2D_BACKWARD, &attributes, 2, dy, where, dx);
    } else {
        CALL(AVG_POOL2D, &attributes, 1, x, y);
        CALL(AVG_POOL2D_BACKWARD, &attributes, 1, dy, dx);
    }
}

static void batch_norm(bench_work *work, const int64_t *d)
{
    static const bgi_norm_attributes attributes = {.epsilon = 1e-5, .momentum = 0.1};
    const int x = make(work, F32(d[0], d[1], d[2], d[3]), 1), y = make_like(work, x), dy = make_like(work, x);
    const int dx = make_like(work, x), gamma = make(work, F32(d[1]), 1), beta = make_like(work, gamma);
    const int mean = make_like(work, gamma), rstd = make_like(work, gamma), running = make_like(work, gamma);
    const int variance = make_like(work, gamma), dgamma = make_like(work, gamma), dbeta = make_like(work, gamma);

    CALL(BATCH_NORM, &attributes, 5, x, gamma, beta, running, variance, y, mean, rstd);
    CALL(BATCH_NORM_BACKWARD, &attributes, 5, dy, x, mean, rstd, gamma, dx, dgamma, dbeta);
}

/* Measures a batch norm with relu, as in plans for training. */
static void fused_norm(bench_work *work, const int64_t *d)
{
    static const bgi_fused_norm_attributes attributes = {
        .norm = {.epsilon = 1e-5, .momentum = 0.1}, .unary = {.function = BG_RELU}, .maps = 1};
    const int x = make(work, F32(d[0], d[1], d[2], d[3]), 1), y = make_like(work, x), dy = make_like(work, x);
    const int dx = make_like(work, x), gamma = make(work, F32(d[1]), 1), beta = make_like(work, gamma);
    const int running = make_like(work, gamma), variance = make_like(work, gamma), dgamma = make_like(work, gamma);
    const int dbeta = make_like(work, gamma), statistics = make(work, bg_matrix(BG_FLOAT64, d[1], 2), 1);

    CALL(FUSED_BATCH_NORM, &attributes, 5, x, gamma, beta, running, variance, y, statistics);
    CALL(FUSED_BATCH_NORM_BACKWARD, &attributes, 5, dy, x, statistics, gamma, beta, dx, dgamma, dbeta);
}

static void convolve(bench_work *work, const int64_t *d, bg_dtype dtype)
{
    static bgi_conv2d_attributes attributes;
    const int64_t oh = (d[2] + 2 * d[7] - d[5]) / d[6] + 1, ow = (d[3] + 2 * d[7] - d[5]) / d[6] + 1;
    const bg_type image = bg_type_make(dtype, 4, (const int64_t[]){d[0], d[1], d[2], d[3]});
    const bg_type filter = bg_type_make(dtype, 4, (const int64_t[]){d[4], d[1] / d[8], d[5], d[5]});
    const bg_type result = bg_type_make(dtype, 4, (const int64_t[]){d[0], d[4], oh, ow});
    const int x = make(work, image, 1), w = make(work, filter, 1), y = make(work, result, 1), dy = make_like(work, y);
    const int dx = make_like(work, x), dw = make_like(work, w);

    attributes = (bgi_conv2d_attributes){{0, {d[6], d[6]}, {d[7], d[7]}, {1, 1}, d[8]}};
    CALL(CONV2D, &attributes, 2, x, w, y);
    if (d[1] != 3) /* images need no gradient */
        CALL(CONV2D_BACKWARD_INPUT, &attributes, 2, dy, w, dx);
    CALL(CONV2D_BACKWARD_WEIGHTS, &attributes, 2, dy, x, dw);
    work->flops = (d[1] != 3 ? 3.0 : 2.0) * 2.0 * (double)(d[0] * d[4] * oh * ow) * (double)(d[1] / d[8] * d[5] * d[5]);
}

static void conv(bench_work *work, const int64_t *d)
{
    convolve(work, d, BG_FLOAT32);
}

static void conv_bfloat16(bench_work *work, const int64_t *d)
{
    convolve(work, d, BG_BFLOAT16);
}

/* Measures a transposed convolution, the result of which has the shape of a convolution's input. */
static void conv_transpose(bench_work *work, const int64_t *d)
{
    static bgi_conv2d_attributes attributes;
    const int64_t oh = (d[2] - 1) * d[6] - 2 * d[7] + d[5], ow = (d[3] - 1) * d[6] - 2 * d[7] + d[5];
    const int x = make(work, F32(d[0], d[1], d[2], d[3]), 1), w = make(work, F32(d[1], d[4] / d[8], d[5], d[5]), 1);
    const int y = make(work, F32(d[0], d[4], oh, ow), 1), dy = make_like(work, y), dx = make_like(work, x);
    const int dw = make_like(work, w);

    attributes = (bgi_conv2d_attributes){{0, {d[6], d[6]}, {d[7], d[7]}, {1, 1}, d[8]}};
    CALL(CONV2D_BACKWARD_INPUT, &attributes, 2, x, w, y);
    CALL(CONV2D, &attributes, 2, dy, w, dx);
    CALL(CONV2D_BACKWARD_WEIGHTS, &attributes, 2, x, dy, dw);
    work->flops = 3.0 * 2.0 * (double)(d[0] * d[1] * d[2] * d[3]) * (double)(d[4] / d[8] * d[5] * d[5]);
}

static void interpolate(bench_work *work, const int64_t *d)
{
    static bgi_resample_attributes attributes, backward;
    const int x = make(work, F32(d[0], d[1], d[2], d[3]), 1), y = make(work, F32(d[0], d[1], d[4], d[5]), 1);
    const int dx = make_like(work, x), dy = make_like(work, y);

    attributes = (bgi_resample_attributes){.mode = (bg_interpolation)d[6],
                                           .coordinates = d[6] == BG_INTERPOLATE_NEAREST ? BG_COORDINATES_ASYMMETRIC
                                                                                         : BG_COORDINATES_HALF_PIXEL,
                                           .cubic = -0.75,
                                           .axes = {{.in = d[2], .out = d[4]}, {.in = d[3], .out = d[5]}}};
    backward = attributes;
    backward.is_backward = 1;
    CALL(RESAMPLE, &attributes, 1, x, y);
    CALL(RESAMPLE, &backward, 1, dy, dx);
}

static void unary(bench_work *work, const int64_t *d, bg_unary function)
{
    static bgi_unary_attributes attributes;
    const bool keeps_y = function == BG_RELU || function == BG_TANH || function == BG_SIGMOID || function == BG_EXP;
    const int x = make(work, F32(d[0]), 1), y = make_like(work, x), dy = make_like(work, x), dx = make_like(work, x);

    attributes.function = function;
    CALL(UNARY, &attributes, 1, x, y);
    CALL(UNARY_BACKWARD, &attributes, 3, dy, keeps_y ? y : x, keeps_y ? y : x, dx);
    work->bytes -= (double)d[0] * 4.0; /* the operand that occurs twice */
}

static void binary(bench_work *work, const int64_t *d, bg_binary function)
{
    static bgi_binary_attributes attributes;
    const int a = make(work, F32(d[0]), 1), b = make_like(work, a), y = make_like(work, a), dy = make_like(work, a);
    const int da = make_like(work, a), db = make_like(work, a);

    attributes.function = function;
    CALL(BINARY, &attributes, 2, a, b, y);
    if (function == BG_MULTIPLY) {
        CALL(BINARY, &attributes, 2, dy, b, da);
        CALL(BINARY, &attributes, 2, dy, a, db);
    } else if (function == BG_MAXIMUM) {
        CALL(SELECT_GRADIENT, &attributes, 3, dy, a, b, da);
        CALL(SELECT_GRADIENT, &attributes, 3, dy, b, a, db);
    }
}

static void dropout(bench_work *work, const int64_t *d)
{
    static const bgi_dropout_attributes attributes = {.probability = 0.1, .axis = BG_MESH_TENSOR_1};
    const int x = make(work, F32(1, d[0]), 1), y = make_like(work, x), dy = make_like(work, x);
    const int dx = make_like(work, x);

    CALL(DROPOUT, &attributes, 1, x, y);
    CALL(DROPOUT, &attributes, 1, dy, dx);
}

static void bias(bench_work *work, const int64_t *d)
{
    static const bgi_binary_attributes add = {BG_ADD};
    static const bgi_reduce_attributes sum = {.function = BG_REDUCE_SUM, .axes = 1};
    const int x = make(work, F32(d[0], d[1]), 1), b = make(work, F32(d[1]), 1), y = make_like(work, x);
    const int dy = make_like(work, x), db = make_like(work, b);

    CALL(BINARY, &add, 2, x, b, y);
    CALL(REDUCE, &sum, 1, dy, db);
}

static void layer_norm(bench_work *work, const int64_t *d)
{
    static const bgi_norm_attributes attributes = {.epsilon = 1e-5};
    const int x = make(work, F32(d[0], d[1]), 1), y = make_like(work, x), dy = make_like(work, x);
    const int dx = make_like(work, x), gamma = make(work, F32(d[1]), 1), beta = make_like(work, gamma);
    const int mean = make(work, F32(d[0]), 1), rstd = make_like(work, mean);
    const int dgamma = make_like(work, gamma), dbeta = make_like(work, gamma);

    CALL(LAYER_NORM, &attributes, 3, x, gamma, beta, y, mean, rstd);
    CALL(LAYER_NORM_BACKWARD, &attributes, 5, dy, x, mean, rstd, gamma, dx, dgamma, dbeta);
}

/* Measures a group norm with the numbers n, c, edge and groups. */
static void group_norm(bench_work *work, const int64_t *d)
{
    static bgi_group_norm_attributes attributes;
    const int x = make(work, F32(d[0], d[1], d[2], d[2]), 1), y = make_like(work, x), dy = make_like(work, x);
    const int dx = make_like(work, x), gamma = make(work, F32(d[1]), 1), beta = make_like(work, gamma);
    const int mean = make(work, F32(d[0], d[3]), 1), rstd = make_like(work, mean);
    const int dgamma = make_like(work, gamma), dbeta = make_like(work, gamma);

    attributes = (bgi_group_norm_attributes){.epsilon = 1e-5, .groups = d[3]};
    CALL(GROUP_NORM, &attributes, 3, x, gamma, beta, y, mean, rstd);
    CALL(GROUP_NORM_BACKWARD, &attributes, 5, dy, x, mean, rstd, gamma, dx, dgamma, dbeta);
}

/* Measures a cosine of rows with the numbers rows and columns. */
static void cosine(bench_work *work, const int64_t *d)
{
    static const bgi_cosine_attributes attributes = {.epsilon = 1e-8, .axis = 1};
    const int a = make(work, F32(d[0], d[1]), 1), b = make_like(work, a), da = make_like(work, a),
              db = make_like(work, a);
    const int y = make(work, F32(d[0]), 1), of_a = make_like(work, y), of_b = make_like(work, y),
              dy = make_like(work, y);

    CALL(COSINE, &attributes, 2, a, b, y, of_a, of_b);
    CALL(COSINE_BACKWARD, &attributes, 6, dy, a, b, y, of_a, of_b, da, db);
}

static void softmax(bench_work *work, const int64_t *d, bool is_log)
{
    static const bgi_axis_attributes attributes = {1};
    const int x = make(work, F32(d[0], d[1]), 1), y = make_like(work, x), dy = make_like(work, x);
    const int dx = make_like(work, x);

    if (is_log) {
        CALL(LOG_SOFTMAX, &attributes, 1, x, y);
        CALL(LOG_SOFTMAX_BACKWARD, &attributes, 2, dy, y, dx);
    } else {
        CALL(SOFTMAX, &attributes, 1, x, y);
        CALL(SOFTMAX_BACKWARD, &attributes, 2, dy, y, dx);
    }
}

static void class_loss(bench_work *work, const int64_t *d, const bgi_loss_attributes *attributes)
{
    const int x = make(work, F32(d[0], d[1]), 1), labels = make(work, I32(d[0]), (uint32_t)d[1]);
    const int loss = make(work, bg_type_make(BG_FLOAT32, 0, NULL), 1), weight = make_like(work, loss);
    const int log_sum = make(work, bg_type_make(BG_FLOAT64, 1, d), 1), dloss = make_like(work, loss);
    const int dx = make_like(work, x);

    CALL(CROSS_ENTROPY, attributes, 2, x, labels, loss, log_sum, weight);
    CALL(CROSS_ENTROPY_BACKWARD, attributes, 5, dloss, x, labels, log_sum, weight, dx);
}

static void cross_entropy(bench_work *work, const int64_t *d)
{
    static const bgi_loss_attributes attributes = {.reduction = BG_LOSS_MEAN, .ignore_index = -100};

    class_loss(work, d, &attributes);
}

static void smooth_loss(bench_work *work, const int64_t *d)
{
    static const bgi_loss_attributes attributes = {.reduction = BG_LOSS_MEAN, .ignore_index = -100, .smoothing = 0.1};

    class_loss(work, d, &attributes);
}

static void nll_loss(bench_work *work, const int64_t *d)
{
    static const bgi_loss_attributes attributes = {
        .reduction = BG_LOSS_MEAN, .ignore_index = -100, .are_log_likelihoods = 1};

    class_loss(work, d, &attributes);
}

static void reduce(bench_work *work, const int64_t *d, bg_reduction function)
{
    static bgi_reduce_attributes attributes;
    const int x = make(work, F32(d[0], d[1], d[2]), 1), y = make(work, F32(d[0], 1, d[2]), 1);
    const int dy = make_like(work, y), dx = make_like(work, x);

    attributes = (bgi_reduce_attributes){.function = function, .axes = 2, .keep_dims = 1};
    CALL(REDUCE, &attributes, 1, x, y);
    if (function == BG_REDUCE_MAX)
        CALL(REDUCE_MAX_BACKWARD, &attributes, 3, dy, x, y, dx);
    else
        CALL(BROADCAST, NULL, 1, dy, dx);
}

static void transpose(bench_work *work, const int64_t *d)
{
    static bgi_transpose_attributes attributes;
    const bool is_first = d[3] == 0;
    const int64_t back[] = {is_first ? d[1] : d[0], is_first ? d[0] : d[2], is_first ? d[2] : d[1], d[4]};
    const int x = make(work, F32(d[0], d[1], d[2], d[4]), 1), y = make(work, bg_type_make(BG_FLOAT32, 4, back), 1);
    const int dy = make_like(work, y), dx = make_like(work, x);

    attributes = is_first ? (bgi_transpose_attributes){{1, 0, 2, 3}} : (bgi_transpose_attributes){{0, 2, 1, 3}};
    CALL(TRANSPOSE, &attributes, 1, x, y);
    CALL(TRANSPOSE, &attributes, 1, dy, dx);
}

static void embedding(bench_work *work, const int64_t *d)
{
    static bgi_embedding_backward_attributes attributes;
    const int table = make(work, F32(d[0], d[1]), 1), ids = make(work, I32(d[2]), (uint32_t)d[0]);
    const int y = make(work, F32(d[2], d[1]), 1), dy = make_like(work, y), dtable = make_like(work, table);

    attributes = (bgi_embedding_backward_attributes){{-1, BG_MESH_TENSOR_1}, work->tensors[table].type};
    CALL(EMBEDDING, &attributes, 2, table, ids, y);
    CALL(EMBEDDING_BACKWARD, &attributes, 2, dy, ids, dtable);
    work->bytes -= 4.0 * (double)(d[0] * d[1]) - 4.0 * (double)(d[2] * d[1]); /* the rows that ids name */
}

static void linear(bench_work *work, const int64_t *d)
{
    const int x = make(work, F32(d[0], d[1]), 1), w = make(work, F32(d[2], d[1]), 1), b = make(work, F32(d[2]), 1);
    const int y = make(work, F32(d[0], d[2]), 1), dy = make_like(work, y), dx = make_like(work, x);
    const int dw = make_like(work, w), db = make_like(work, b);

    CALL(LINEAR, NULL, 3, x, w, b, y);
    CALL(LINEAR_BACKWARD_INPUT, NULL, 2, dy, w, dx);
    CALL(LINEAR_BACKWARD_WEIGHTS, NULL, 2, dy, x, dw, db);
    work->flops = 6.0 * (double)d[0] * (double)d[1] * (double)d[2];
}

static void matmul(bench_work *work, const int64_t *d)
{
    static const bgi_matmul_attributes plain = {0, 0}, first = {1, 0}, second = {0, 1};
    const int a = make(work, F32(d[0], d[1], d[2]), 1), b = make(work, F32(d[0], d[2], d[3]), 1);
    const int y = make(work, F32(d[0], d[1], d[3]), 1), dy = make_like(work, y), da = make_like(work, a);
    const int db = make_like(work, b);

    CALL(MATMUL, &plain, 2, a, b, y);
    CALL(MATMUL, &second, 2, dy, b, da);
    CALL(MATMUL, &first, 2, a, dy, db);
    work->flops = 6.0 * (double)d[0] * (double)d[1] * (double)d[2] * (double)d[3];
}

static void causal_attention(bench_work *work, const int64_t *d, bg_dtype dtype)
{
    static bgi_attention_attributes attributes;
    const int qkv = make(work, bg_tensor3(dtype, d[0], d[1], 3 * d[2] * d[3]), 1);
    const int y = make(work, bg_tensor3(dtype, d[0], d[1], d[2] * d[3]), 1);
    const int sums = make(work, F32(d[0], d[2], d[1]), 1), dy = make_like(work, y), dqkv = make_like(work, qkv);

    attributes = (bgi_attention_attributes){.heads = d[2],
                                            .sequence_length = d[1],
                                            .causal = 1,
                                            .scale = 0.125,
                                            .serialization = 1,
                                            .axis = BG_MESH_TENSOR_1};
    CALL(ATTENTION, &attributes, 1, qkv, y, sums);
    CALL(ATTENTION_BACKWARD, &attributes, 4, dy, qkv, y, sums, dqkv);
    work->flops = 7.0 * 2.0 * 0.5 * (double)(d[0] * d[2] * d[3]) *
                  (double)(d[1] * d[1]); /* causal attention computes half of them */
}

static void attention(bench_work *work, const int64_t *d)
{
    causal_attention(work, d, BG_FLOAT32);
}

static void attention_bfloat16(bench_work *work, const int64_t *d)
{
    causal_attention(work, d, BG_BFLOAT16);
}

static void dot_product_attention(bench_work *work, const int64_t *d)
{
    static bgi_attention_attributes attributes;
    const int64_t n = d[0], kind = d[6];
    const double seen = kind == 3 ? 0.5 : kind == 4 ? 64.0 / (double)d[2] : 1.0;
    const int q = make(work, F32(n, d[1], d[3] * d[5]), 1), k = make(work, F32(n, d[2], d[4] * d[5]), 1);
    const int v = make_like(work, k), y = make_like(work, q), sums = make(work, F32(n, d[3], d[1]), 1);
    const int dy = make_like(work, q), dq = make_like(work, q), dk = make_like(work, k), dv = make_like(work, k);
    const int bias = kind == 1   ? make(work, bg_type_make(BG_UINT8, 4, (const int64_t[]){n, 1, 1, d[2]}), 1)
                     : kind == 2 ? make(work, F32(1, d[3], d[1], d[2]), 1)
                                 : -1;

    attributes = (bgi_attention_attributes){
        .heads = d[3], .key_heads = d[4], .causal = kind >= 3, .window = kind == 4 ? 64 : 0, .scale = 0.125};
    if (kind == 1)
        for (int64_t i = 0; i < n * d[2]; i++)
            ((uint8_t *)work->tensors[bias].data)[i] = i % d[2] < d[2] - 4 * (i / d[2]);
    if (bias < 0) {
        CALL(DOT_PRODUCT_ATTENTION, &attributes, 3, q, k, v, y, sums);
        CALL(DOT_PRODUCT_ATTENTION_BACKWARD, &attributes, 6, dy, q, k, v, y, sums, dq, dk, dv);
    } else {
        CALL(DOT_PRODUCT_ATTENTION, &attributes, 4, q, k, v, bias, y, sums);
        CALL(DOT_PRODUCT_ATTENTION_BACKWARD, &attributes, 7, dy, q, k, v, y, sums, bias, dq, dk, dv);
    }
    if (kind == 2) {
        const int dbias = make_like(work, bias);
        CALL(DOT_PRODUCT_ATTENTION_BIAS_BACKWARD, &attributes, 7, dy, q, k, v, y, sums, bias, dbias);
    }
    work->flops = 7.0 * 2.0 * seen * (double)(n * d[3] * d[5]) * (double)(d[1] * d[2]);
}

static void rotary(bench_work *work, const int64_t *d)
{
    static bgi_rotary_attributes attributes, inverse;
    const int x = make(work, F32(d[0], d[1], d[2] * d[3]), 1), y = make_like(work, x), dx = make_like(work, x);

    attributes = (bgi_rotary_attributes){.heads = d[2], .features = d[3], .base = 10000.0, .scaling = 1.0};
    inverse = attributes;
    inverse.inverse = 1;
    CALL(ROTARY, &attributes, 1, x, y);
    CALL(ROTARY, &inverse, 1, y, dx);
}

static void rms_norm(bench_work *work, const int64_t *d)
{
    static const bgi_rms_norm_attributes attributes = {.epsilon = 1e-6};
    const int x = make(work, F32(d[0], d[1]), 1), gamma = make(work, F32(d[1]), 1), y = make_like(work, x);
    const int scale = make(work, F32(d[0]), 1), dy = make_like(work, x), dx = make_like(work, x);
    const int dgamma = make_like(work, gamma);

    CALL(RMS_NORM, &attributes, 2, x, gamma, y, scale);
    CALL(RMS_NORM_BACKWARD, &attributes, 4, dy, x, scale, gamma, dx, dgamma);
}

static void cumulative_sum(bench_work *work, const int64_t *d)
{
    static const bgi_cumulative_attributes attributes = {.axis = 1}, back = {.axis = 1, .is_reverse = 1};
    const int x = make(work, F32(d[0], d[1]), 1), y = make_like(work, x), dx = make_like(work, x);

    CALL(CUMULATIVE_SUM, &attributes, 1, x, y);
    CALL(CUMULATIVE_SUM, &back, 1, y, dx);
}

static void pointwise_loss(bench_work *work, const int64_t *d, bool is_binary)
{
    static bgi_pointwise_loss_attributes attributes;
    const int x = make(work, F32(d[0]), 1), target = make_like(work, x), dx = make_like(work, x);
    const int loss = make(work, bg_type_make(BG_FLOAT32, 0, NULL), 1), dloss = make_like(work, loss);

    attributes = (bgi_pointwise_loss_attributes){.function = is_binary ? BG_LOSS_BINARY_LOGITS : BG_LOSS_SQUARED,
                                                 .reduction = BG_LOSS_MEAN};
    if (is_binary)
        for (int64_t i = 0; i < d[0]; i++)
            ((float *)work->tensors[target].data)[i] = (float)(draw() % 2);
    CALL(POINTWISE_LOSS, &attributes, 2, x, target, loss);
    CALL(POINTWISE_LOSS_BACKWARD, &attributes, 3, dloss, x, target, dx);
}

static void choose(bench_work *work, const int64_t *d)
{
    static const bgi_where_gradient_attributes first = {0}, second = {1};
    const int condition = make(work, bg_type_make(BG_UINT8, 1, d), 1), a = make(work, F32(d[0]), 1);
    const int b = make_like(work, a), y = make_like(work, a), da = make_like(work, a), db = make_like(work, a);

    for (int64_t i = 0; i < d[0]; i++)
        ((uint8_t *)work->tensors[condition].data)[i] = draw() % 2;
    CALL(WHERE, NULL, 3, condition, a, b, y);
    CALL(WHERE_GRADIENT, &first, 2, y, condition, da);
    CALL(WHERE_GRADIENT, &second, 2, y, condition, db);
}

static void gather(bench_work *work, const int64_t *d)
{
    static bgi_index_attributes attributes;
    const int x = make(work, F32(d[0], d[1]), 1), ids = make(work, I32(d[2]), (uint32_t)d[0]);
    const int y = make(work, F32(d[2], d[1]), 1), dx = make_like(work, x);

    attributes = (bgi_index_attributes){.whole = work->tensors[x].type};
    CALL(GATHER, &attributes, 2, x, ids, y);
    CALL(SCATTER, &attributes, 2, y, ids, dx);
}

static void pad(bench_work *work, const int64_t *d)
{
    static bgi_pad_attributes attributes;
    const int x = make(work, F32(d[0], d[1], d[2], d[3]), 1), dx = make_like(work, x);
    const int y = make(work, F32(d[0], d[1], d[2] + 2 * d[4], d[3] + 2 * d[4]), 1);

    attributes = (bgi_pad_attributes){.mode = BG_PAD_REFLECT,
                                      .rank = 4,
                                      .before = {0, 0, d[4], d[4]},
                                      .after = {0, 0, d[4], d[4]},
                                      .dims = {d[0], d[1], d[2], d[3]}};
    CALL(PAD, &attributes, 1, x, y);
    CALL(PAD_BACKWARD, &attributes, 1, y, dx);
}

/* Measures the CTC loss; all samples have the full length. */
static void ctc(bench_work *work, const int64_t *d)
{
    static const bgi_ctc_attributes attributes = {0};
    const int64_t alpha_dims[] = {d[0], d[1], 2 * d[3] + 1}, room_dims[] = {d[0], 2 * d[3] + 1 + d[2]};
    const int x = make(work, F32(d[0], d[1], d[2]), 1), targets = make(work, I32(d[0], d[3]), (uint32_t)d[2] - 1);
    const int lengths = make(work, I32(d[0]), 1), target_lengths = make_like(work, lengths);
    const int loss = make(work, F32(d[0]), 1), dloss = make_like(work, loss), dx = make_like(work, x);
    const int alpha = make(work, bg_type_make(BG_FLOAT64, 3, alpha_dims), 1);
    const int room = make(work, bg_type_make(BG_FLOAT64, 2, room_dims), 1);

    for (int64_t i = 0; i < d[0] * d[3]; i++)
        ((int32_t *)work->tensors[targets].data)[i]++; /* no blanks */
    for (int64_t i = 0; i < d[0]; i++) {
        ((int32_t *)work->tensors[lengths].data)[i] = (int32_t)d[1];
        ((int32_t *)work->tensors[target_lengths].data)[i] = (int32_t)d[3];
    }
    for (int64_t i = 0; i < d[0] * d[1] * d[2]; i++)
        ((float *)work->tensors[x].data)[i] -= 4.0f;
    CALL(CTC_LOSS, &attributes, 4, x, targets, lengths, target_lengths, loss, alpha);
    CALL(CTC_LOSS_BACKWARD, &attributes, 6, dloss, x, targets, lengths, target_lengths, alpha, dx, room);
}

/* Measures a plain recurrent layer like `recurrent` below. */
static void rnn(bench_work *work, const int64_t *d)
{
    static const bgi_recurrent_attributes attributes = {0};
    static const bgi_linear_backward_attributes with_bias = {.bias = 1};
    const int64_t t = d[0], n = d[1];
    const int x = make(work, F32(t, n, d[2]), 1), w = make(work, F32(d[3], d[2]), 1), b = make(work, F32(d[3]), 1);
    const int given = make(work, F32(t, n, d[3]), 1), u = make(work, F32(d[3], d[3]), 1), ub = make_like(work, b);
    const int h0 = make(work, F32(n, d[3]), 1), y = make_like(work, given), dy = make_like(work, y);
    const int dgiven = make_like(work, y), dh0 = make_like(work, h0), dx = make_like(work, x), dw = make_like(work, w);
    const int db = make_like(work, b), du = make_like(work, u), dub = make_like(work, b);

    CALL(LINEAR, NULL, 3, x, w, b, given);
    CALL(RNN, &attributes, 4, given, u, h0, ub, y);
    CALL(RNN_BACKWARD, &attributes, 4, u, h0, y, dy, dgiven, dh0);
    CALL(LINEAR_BACKWARD_WEIGHTS, &with_bias, 2, dgiven, y, du, dub);
    CALL(LINEAR_BACKWARD_INPUT, NULL, 2, dgiven, w, dx);
    CALL(LINEAR_BACKWARD_WEIGHTS, &with_bias, 2, dgiven, x, dw, db);
    work->flops = 6.0 * (double)(t * n * d[3]) * (double)(d[2] + d[3]);
}

/* Measures an LSTM or GRU layer together with the product of its inputs and with all its gradients. */
static void recurrent(bench_work *work, const int64_t *d, bool is_lstm)
{
    static const bgi_recurrent_attributes attributes = {0};
    static const bgi_linear_backward_attributes with_bias = {.bias = 1};
    const int64_t t = d[0], n = d[1], gates = (is_lstm ? 4 : 3) * d[3];
    const int x = make(work, F32(t, n, d[2]), 1), w = make(work, F32(gates, d[2]), 1), b = make(work, F32(gates), 1);
    const int given = make(work, F32(t, n, gates), 1), u = make(work, F32(gates, d[3]), 1), ub = make_like(work, b);
    const int h0 = make(work, F32(n, d[3]), 1), y = make(work, F32(t, n, d[3]), 1);
    const int kept = make(work, F32(t, n, 4 * d[3]), 1), dy = make_like(work, y), dgiven = make_like(work, given);
    const int dh0 = make_like(work, h0), dx = make_like(work, x), dw = make_like(work, w), db = make_like(work, b);
    const int du = make_like(work, u), dub = make_like(work, b);
    int sums = dgiven;

    CALL(LINEAR, NULL, 3, x, w, b, given);
    if (is_lstm) {
        const int c0 = make_like(work, h0), c = make_like(work, y), dc0 = make_like(work, h0);
        CALL(LSTM, &attributes, 5, given, u, h0, c0, ub, y, kept, c);
        CALL(LSTM_BACKWARD, &attributes, 7, u, h0, c0, y, kept, c, dy, dgiven, dh0, dc0);
    } else {
        sums = make_like(work, given);
        CALL(GRU, &attributes, 4, given, u, h0, ub, y, kept);
        CALL(GRU_BACKWARD, &attributes, 5, u, h0, y, kept, dy, dgiven, sums, dh0);
    }
    CALL(LINEAR_BACKWARD_WEIGHTS, &with_bias, 2, sums, y, du, dub);
    CALL(LINEAR_BACKWARD_INPUT, NULL, 2, dgiven, w, dx);
    CALL(LINEAR_BACKWARD_WEIGHTS, &with_bias, 2, dgiven, x, dw, db);
    work->flops = 6.0 * (double)(t * n * gates) * (double)(d[2] + d[3]);
}

static void update(bench_work *work, const int64_t *d, bool is_adam)
{
    static const bgi_adam_attributes adamw = {.decoupled_decay = 1};
    static const bgi_sgd_attributes sgd = {.nesterov = 0};
    const int w = make(work, F32(d[0]), 1), g = make_like(work, w), m = make_like(work, w), v = make_like(work, w);
    const int64_t settings = BGI_HYPER_COUNT;
    const int hyper = make(work, bg_type_make(BG_FLOAT64, 1, &settings), 1);
    const int scale = make(work, bg_type_make(BG_FLOAT32, 0, NULL), 1);
    double *values = work->tensors[hyper].data;

    values[BGI_HYPER_LEARNING_RATE] = 1e-3;
    values[BGI_HYPER_BETA1] = 0.9;
    values[BGI_HYPER_BETA2] = is_adam ? 0.999 : 0.0;
    values[BGI_HYPER_EPSILON] = is_adam ? 1e-8 : 0.0;
    *(float *)work->tensors[scale].data = 1.0f;
    for (int64_t i = 0; i < d[0]; i++)
        ((float *)work->tensors[v].data)[i] = 1.0f;
    if (is_adam)
        CALL(ADAM_UPDATE, &adamw, 6, w, g, hyper, scale, m, v);
    else
        CALL(SGD_UPDATE, &sgd, 5, w, g, hyper, scale, m);
    work->bytes += (is_adam ? 3.0 : 2.0) * 4.0 * (double)d[0]; /* both written and read */
}

/* Measures forward and backward of a convolution with a max pool and a relu; the numbers are n, c, h, w, o, window,
 * padding and pool. */
static void conv_pool(bench_work *work, const int64_t *d)
{
    static bgi_conv2d_pool_attributes attributes;
    const int64_t oh = (d[2] + 2 * d[6] - d[5] + 1) / d[7], ow = (d[3] + 2 * d[6] - d[5] + 1) / d[7];
    const int64_t pooled[] = {d[0], d[4], oh, ow};
    const int x = make(work, F32(d[0], d[1], d[2], d[3]), 1), w = make(work, F32(d[4], d[1], d[5], d[5]), 1);
    const int b = make(work, F32(d[4]), 1), y = make(work, bg_type_make(BG_FLOAT32, 4, pooled), 1);
    const int where = make(work, bg_type_make(BG_UINT8, 4, pooled), 1), dy = make_like(work, y);
    const int dx = make_like(work, x), dw = make_like(work, w), db = make_like(work, b);

    attributes = (bgi_conv2d_pool_attributes){.padding = {d[6], d[6]}, .pool = {d[7], d[7]}, .relu = 1};
    CALL(CONV2D_POOL, &attributes, 3, x, w, b, y, where);
    CALL(CONV2D_POOL_BACKWARD_INPUT, &attributes, 3, dy, where, w, dx);
    CALL(CONV2D_POOL_BACKWARD_WEIGHTS, &attributes, 3, dy, where, x, dw, db);
}

/* Measures a convolution with batch norm, a sum and a relu, only in inference. */
static void fused_conv(bench_work *work, const int64_t *d)
{
    static bgi_fused_conv2d_attributes attributes;
    const int64_t oh = (d[2] + 2 * d[7] - d[5]) / d[6] + 1, ow = (d[3] + 2 * d[7] - d[5]) / d[6] + 1;
    const int x = make(work, F32(d[0], d[1], d[2], d[3]), 1), w = make(work, F32(d[4], d[1] / d[8], d[5], d[5]), 1);
    const int gamma = make(work, F32(d[4]), 1), beta = make_like(work, gamma), mean = make_like(work, gamma);
    const int variance = make_like(work, gamma), other = make(work, F32(d[0], d[4], oh, ow), 1);
    const int y = make_like(work, other);

    for (int64_t c = 0; c < d[4]; c++)
        ((float *)work->tensors[variance].data)[c] = 1.0f;
    attributes = (bgi_fused_conv2d_attributes){.conv = {{0, {d[6], d[6]}, {d[7], d[7]}, {1, 1}, d[8]}},
                                               .unary = {.function = BG_RELU},
                                               .epsilon = 1e-5,
                                               .norms = 1,
                                               .adds = 1,
                                               .maps = 1};
    CALL(FUSED_CONV2D, &attributes, 7, x, w, gamma, beta, mean, variance, other, y);
}

/* Measures a linear layer with weights of 16, 8 or 4 bits, only in inference; the numbers are rows, in, out and
 * bits. */
static void quantized(bench_work *work, const int64_t *d)
{
    static bgi_quantized_attributes attributes;
    const int x = make(work, F32(d[0], d[1]), 1), w = make(work, bgi_quantized_type(d[1], d[2], (uint32_t)d[3]), 1);
    const int y = make(work, F32(d[0], d[2]), 1);

    attributes = (bgi_quantized_attributes){.in = d[1], .out = d[2], .bits = (uint8_t)d[3]};
    CALL(QUANTIZED_LINEAR, &attributes, 2, x, w, y);
}

/* Measures a linear layer in bfloat16; the numbers are rows, in and out. */
static void linear_bfloat16(bench_work *work, const int64_t *d)
{
#define B16(...) bg_type_make(BG_BFLOAT16, 2, (const int64_t[]){__VA_ARGS__})
    const int x = make(work, B16(d[0], d[1]), 1), w = make(work, B16(d[2], d[1]), 1);
    const int y = make(work, B16(d[0], d[2]), 1), dy = make_like(work, y), dx = make_like(work, x);
    const int dw = make_like(work, w);
#undef B16

    CALL(LINEAR, NULL, 2, x, w, y);
    CALL(LINEAR_BACKWARD_INPUT, NULL, 2, dy, w, dx);
    CALL(LINEAR_BACKWARD_WEIGHTS, NULL, 2, dy, x, dw);
}

static void accumulate(bench_work *work, const int64_t *d)
{
    static bgi_square_sum_attributes attributes;
    const int sum = make(work, F32(d[0]), 1), gradient = make_like(work, sum), y = make_like(work, sum);
    const int squares = make(work, bg_type_make(BG_FLOAT64, 1, (const int64_t[]){1}), 1);

    attributes = (bgi_square_sum_attributes){.elements = d[0], .pieces = 1};
    CALL(ACCUMULATE, NULL, 2, sum, gradient);
    CALL(ADD_N, NULL, 3, sum, gradient, gradient, y);
    CALL(SQUARE_SUM, &attributes, 1, sum, squares);
}

static void range_count(bench_work *work, const int64_t *d)
{
    static bgi_range_count_attributes attributes;
    const int x = make(work, F32(d[0]), 1);
    const int counts = make(work, bg_type_make(BG_FLOAT64, 1, (const int64_t[]){BGI_RANGE_COUNTS}), 1);

    attributes = (bgi_range_count_attributes){.edge = 0.5, .elements = d[0]};
    CALL(RANGE_COUNT, &attributes, 1, x, counts);
}

/* ---- graphs ---- */

/* Fills a variable with numbers -1 .. 1 or 0.1 .. 1.1. A constant keeps its values. */
static void *make_value(graph_rig *r, const bgi_value *value)
{
    const size_t bytes = bg_type_size_bytes(&value->type);
    float *data = take(bytes);

    memset(data, 0, bytes);
    if (value->data != NULL)
        memcpy(data, value->data, bytes);
    else if (value->type.dtype == BG_FLOAT32 && value->kind == BGI_VALUE_VARIABLE)
        for (int64_t i = 0; i < bg_type_element_count(&value->type); i++)
            data[i] = (float)graph_draw(r) / (r->is_positive ? 2147483648.0f : 1073741824.0f) +
                      (r->is_positive ? 0.1f : -1.0f);
    return data;
}

/* Adds the call of an op. The result of an alias uses the memory of its operand. */
static void add_graph_call(bench_work *work, const bgi_op *op)
{
    bench_call *call = &work->calls[work->call_count++];
    const uint32_t count = op->input_count + op->output_count;
    bg_error error = {0};

    if (work->call_count > CALLS || count > OPERANDS) {
        fprintf(stderr, "ops: a case has too many calls, or `%s` too many operands\n", op->type->name);
        exit(1);
    }
    *call = (bench_call){.attributes = op->attributes, .input_count = op->input_count};
    call->output_count = op->output_count;
    const bg_op_signature signature = bgi_op_signature(work->graph, op, call->types);

    for (uint32_t i = 0; i < count; i++) {
        const bg_value value = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];

        call->operands[i] = work->buffers[value.id];
        work->bytes += (double)bg_type_size_bytes(&call->types[i]);
    }
    if (op->type->kernel(&signature, BG_KERNELS_FAST, &call->kernel, &error) != BG_OK)
        graph_fail(&error);
    call->scratch = take(call->kernel.scratch_bytes);
    memset(call->scratch, 0, call->kernel.scratch_bytes);
    if (op->type->cost != NULL && (strstr(op->type->name, "conv") != NULL || strstr(op->type->name, "matmul") != NULL))
        work->flops += op->type->cost(&signature).flops;
}

static bool build_graph(bench_work *work, size_t i)
{
    graph_rig r = {.random = 1};
    bg_error error = {0};
    bg_value y;

    if (bg_graph_create(&r.graph, &error) != BG_OK)
        graph_fail(&error);
    work->graph = r.graph;
    y = graph_build(&r, i);
    if (bg_graph_check(r.graph, &error) != BG_OK)
        graph_fail(&error);
    if (bg_value_is_null(y))
        return false;
    graph_derive(&r, y);
    work->buffers = calloc(r.graph->value_count, sizeof *work->buffers);
    if (work->buffers == NULL)
        exit(1);
    for (uint32_t v = 1; v < r.graph->value_count; v++)
        work->buffers[v] = make_value(&r, &r.graph->values[v]);
    for (uint32_t o = 0; o < bg_graph_op_count(r.graph); o++) {
        const bgi_op *op = &r.graph->ops[o];

        if (op->type->alias_input == BG_NO_OPERAND) {
            add_graph_call(work, op);
        } else {
            free(work->buffers[op->outputs[0].id]);
            work->buffers[op->outputs[0].id] = work->buffers[op->inputs[op->type->alias_input].id];
        }
    }
    return true;
}

static bool build(bench_work *work, const char *op, const int64_t *d)
{
    static const struct {
        const char *op;
        void (*build)(bench_work *work, const int64_t *d);
    } plain[] = {{"accumulate", accumulate},
                 {"range_count", range_count},
                 {"conv_pool", conv_pool},
                 {"fused_conv", fused_conv},
                 {"fused_norm", fused_norm},
                 {"conv_bfloat16", conv_bfloat16},
                 {"linear_bfloat16", linear_bfloat16},
                 {"quantized", quantized},
                 {"batch_norm", batch_norm},
                 {"conv", conv},
                 {"dropout", dropout},
                 {"bias", bias},
                 {"layer_norm", layer_norm},
                 {"transpose", transpose},
                 {"embedding", embedding},
                 {"linear", linear},
                 {"cross_entropy", cross_entropy},
                 {"matmul", matmul},
                 {"attention", attention},
                 {"attention_bfloat16", attention_bfloat16},
                 {"dot_product_attention", dot_product_attention},
                 {"rotary", rotary},
                 {"smooth_loss", smooth_loss},
                 {"nll_loss", nll_loss},
                 {"conv_transpose", conv_transpose},
                 {"interpolate", interpolate},
                 {"rms_norm", rms_norm},
                 {"group_norm", group_norm},
                 {"cosine", cosine},
                 {"cumulative_sum", cumulative_sum},
                 {"where", choose},
                 {"gather", gather},
                 {"pad", pad},
                 {"ctc", ctc},
                 {"rnn", rnn}};
    static const struct {
        const char *op;
        void (*build)(bench_work *work, const int64_t *d, bool which);
        bool which;
    } flagged[] = {{"avg_pool", pool, false},         {"max_pool", pool, true},  {"softmax", softmax, false},
                   {"log_softmax", softmax, true},    {"adamw", update, true},   {"sgd", update, false},
                   {"lstm", recurrent, true},         {"gru", recurrent, false}, {"mse_loss", pointwise_loss, false},
                   {"bce_loss", pointwise_loss, true}};
    static const struct {
        const char *op;
        bg_unary function;
    } unaries[] = {{"relu", BG_RELU}, {"gelu", BG_GELU}, {"tanh", BG_TANH}, {"sigmoid", BG_SIGMOID}, {"exp", BG_EXP}};
    static const struct {
        const char *op;
        bg_binary function;
    } binaries[] = {{"add", BG_ADD}, {"mul", BG_MULTIPLY}, {"maximum", BG_MAXIMUM}};
    static const struct {
        const char *op;
        bg_reduction function;
    } reductions[] = {{"sum", BG_REDUCE_SUM}, {"mean", BG_REDUCE_MEAN}, {"max", BG_REDUCE_MAX}};

    *work = (bench_work){0};
#define FIND(table, ...)                                                                                               \
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)                                                          \
        if (strcmp(op, table[k].op) == 0) {                                                                            \
            __VA_ARGS__;                                                                                               \
            return true;                                                                                               \
        }
    FIND(plain, plain[k].build(work, d))
    FIND(flagged, flagged[k].build(work, d, flagged[k].which))
    FIND(unaries, unary(work, d, unaries[k].function))
    FIND(binaries, binary(work, d, binaries[k].function))
    FIND(reductions, reduce(work, d, reductions[k].function))
#undef FIND
    return false;
}

/* Builds the case with this number; numbers count first the cases of the table, then those of the graphs. */
static bool build_number(bench_work *work, size_t i)
{
    if (i < CASES)
        return build(work, cases[i].op, cases[i].dims);
    *work = (bench_work){0};
    return build_graph(work, i - CASES);
}

static void clear(bench_work *work)
{
    for (size_t i = 0; i < work->tensor_count; i++)
        free(work->tensors[i].data);
    for (size_t i = 0; i < work->call_count; i++)
        free(work->calls[i].scratch);
    for (uint32_t o = 0; work->graph != NULL && o < bg_graph_op_count(work->graph); o++)
        if (work->graph->ops[o].type->alias_input != BG_NO_OPERAND)
            work->buffers[work->graph->ops[o].outputs[0].id] = NULL;
    for (uint32_t v = 1; work->graph != NULL && v < work->graph->value_count; v++)
        free(work->buffers[v]);
    free(work->buffers);
    bg_graph_destroy(work->graph);
}

/* ---- a team of threads ---- */

/* The work of all threads: they take parts of one function in turns. During a measurement, threads wait in loops. */
typedef struct bench_team {
    uint32_t threads;
    pthread_t others[THREADS];
    atomic_uint round, left, next;
    atomic_bool is_over;
    bg_kernel_function function; /* NULL: every thread runs `each` once */
    void (*each)(uint32_t thread, void *context);
    void *context;
    const bg_kernel_call *call;
    uint32_t parts;
} bench_team;

typedef struct bench_member {
    bench_team *team;
    uint32_t number;
} bench_member;

static void do_share(bench_team *team, uint32_t number)
{
    if (team->function == NULL) {
        team->each(number, team->context);
    } else if (number < team->parts) {
        bg_kernel_call call = *team->call;
        uint32_t part;

        call.runner = number;
        while ((part = atomic_fetch_add(&team->next, 1)) < team->parts)
            team->function(&call, part);
    }
    atomic_fetch_sub(&team->left, 1);
}

static void *help(void *argument)
{
    const bench_member *me = argument;
    uint32_t seen = 0;

    for (;;) {
        while (atomic_load(&me->team->round) == seen)
            bgi_pause();
        seen++;
        if (atomic_load(&me->team->is_over))
            return NULL;
        do_share(me->team, me->number);
    }
}

static void run_team(bench_team *team)
{
    atomic_store(&team->next, 0);
    atomic_store(&team->left, team->threads);
    atomic_fetch_add(&team->round, 1);
    do_share(team, 0);
    while (atomic_load(&team->left) > 0)
        bgi_pause();
}

static void run_parts(bench_team *team, bg_kernel_function function, uint32_t parts, const bg_kernel_call *call)
{
    if (parts == 1 || team->threads == 1) {
        for (uint32_t part = 0; part < parts; part++)
            function(call, part);
        return;
    }
    team->function = function;
    team->parts = parts;
    team->call = call;
    run_team(team);
}

static void run_call(bench_team *team, const bench_call *c)
{
    static const bg_kernel_env env = {.step = 3, .accumulated = 1, .optimizer_step = 3, .training = true};
    const bg_kernel_call call = {.types = c->types,
                                 .operands = c->operands,
                                 .input_count = c->input_count,
                                 .output_count = c->output_count,
                                 .attributes = c->attributes,
                                 .scratch = c->scratch,
                                 .env = &env,
                                 .state = c->kernel.state};

    if (c->kernel.prepare != NULL)
        c->kernel.prepare(&call);
    run_parts(team, c->kernel.run, c->kernel.part_count, &call);
    if (c->kernel.combine != NULL)
        run_parts(team, c->kernel.combine, c->kernel.combine_count, &call);
    if (c->kernel.finish != NULL)
        c->kernel.finish(&call);
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Calls `once` again and again for this number of milliseconds, and returns the best time of a call. */
static double time_best(bench_team *team, uint32_t threads, double milliseconds,
                        void (*once)(bench_team *team, void *context), void *context)
{
    const double end = now_us() + milliseconds * 1e3;
    bench_member members[THREADS];
    double best = 1e30;

    *team = (bench_team){.threads = threads};
    for (uint32_t i = 1; i < threads; i++) {
        members[i] = (bench_member){team, i};
        if (pthread_create(&team->others[i], NULL, help, &members[i]) != 0)
            exit(1);
    }
    do {
        const double start = now_us();
        double took;

        once(team, context);
        took = now_us() - start;
        best = took < best ? took : best;
    } while (now_us() < end);
    atomic_store(&team->is_over, true);
    atomic_fetch_add(&team->round, 1);
    for (uint32_t i = 1; i < threads; i++)
        pthread_join(team->others[i], NULL);
    return best;
}

static void run_work(bench_team *team, void *context)
{
    const bench_work *work = context;

    for (size_t i = 0; i < work->call_count; i++)
        run_call(team, &work->calls[i]);
}

/* ---- the peak rates of the machine ---- */

static void run_peak(uint32_t thread, void *context)
{
    (void)thread;
    peak_run(context);
}

static void run_peaks(bench_team *team, void *context)
{
    team->function = NULL;
    team->each = run_peak;
    team->context = context;
    if (team->threads == 1)
        run_peak(0, context);
    else
        run_team(team);
}

/* Returns the GFLOP/s of all threads; 0 if it is unknown for this processor. */
static double measure_flops(uint32_t threads, double milliseconds)
{
    const double flops = peak_flops() * threads;
    static volatile float sink;
    bench_team team;

    if (flops == 0.0)
        return 0.0;
    return flops / time_best(&team, threads, milliseconds, run_peaks, (void *)(uintptr_t)&sink) * 1e-3;
}

static double measure_copy(double bytes, uint32_t threads, double milliseconds)
{
    const int64_t count = (int64_t)(bytes / 8.0) > 16 ? (int64_t)(bytes / 8.0) : 16;
    bench_work copy = {0}, *work = &copy;
    bench_team team;
    double best;

    const int from = make(work, F32(count), 1), to = make_like(work, from);
    CALL(COPY, NULL, 1, from, to);
    best = time_best(&team, threads, milliseconds, run_work, work);
    clear(work);
    return best;
}

/* ---- requests ---- */

static void answer(const char *what, uint32_t threads, double milliseconds)
{
    char *end;
    const unsigned long i = strtoul(what, &end, 10);
    bench_work work;
    bench_team team;

    if (strcmp(what, "flops") == 0) {
        printf("%.3f 0 0\n", measure_flops(threads, milliseconds));
    } else if (strncmp(what, "copy:", 5) == 0) {
        printf("%.3f 0 0\n", measure_copy(strtod(what + 5, NULL), threads, milliseconds));
    } else if (*end != '\0' || i >= CASES + GRAPH_CASES || !build_number(&work, i)) {
        fprintf(stderr, "ops: there is no case `%s`\n", what);
        exit(1);
    } else {
        const double best = time_best(&team, threads, milliseconds, run_work, &work);

        printf("%.3f %.0f %.0f", best, work.flops, work.bytes);
        for (size_t c = 0; c < work.call_count; c++)
            printf(" %s", work.calls[c].kernel.name);
        printf("\n");
        clear(&work);
    }
    fflush(stdout);
}

/* ---- instructions and turns ---- */

/* Builds the case of a line `op dim...`. */
static void build_line(bench_work *work, const char *line)
{
    int64_t dims[DIMS] = {0};
    char op[64];
    int used = 0;

    if (sscanf(line, "%63s%n", op, &used) != 1)
        op[0] = '\0';
    for (int i = 0; i < DIMS; i++) {
        char *end;
        const long long dim = strtoll(line + used, &end, 10);

        if (end == line + used)
            break;
        dims[i] = dim;
        used = (int)(end - line);
    }
    if (!build(work, op, dims)) {
        fprintf(stderr, "ops: there is no op `%s`\n", op);
        exit(1);
    }
}

/* Runs the case once. The function is not inlined, so that a tool can count what happens inside it. */
__attribute__((noinline)) static void run_counted(bench_work *work)
{
    bench_team team = {.threads = 1};

    run_work(&team, work);
}

static void count_line(const char *line)
{
    bench_work work;

    build_line(&work, line);
    run_counted(&work);
    for (size_t c = 0; c < work.call_count; c++)
        printf("%s%s", c > 0 ? " " : "", work.calls[c].kernel.name);
    printf("\n");
    clear(&work);
}

enum { TURNS = 15 };

/* Returns the microseconds of one run, as the mean of the runs that fit in 0.3 ms. */
static double time_turn(bench_work *work)
{
    const double start = now_us();
    double took;
    int runs = 0;

    do {
        run_counted(work);
        runs++;
        took = now_us() - start;
    } while (took < 300.0);
    return took / runs;
}

static void turn_line(const char *line)
{
    bench_work wide, narrow;
    double ratios[TURNS];

    policy = BG_KERNELS_AVX512;
    build_line(&wide, line);
    policy = BG_KERNELS_AVX2;
    build_line(&narrow, line);
    run_counted(&wide);
    run_counted(&narrow);
    for (int turn = 0; turn < TURNS; turn++) {
        const double of_narrow = time_turn(&narrow);

        ratios[turn] = of_narrow / time_turn(&wide);
    }
    printf("%.2f\n", bench_median(ratios, TURNS));
    clear(&wide);
    clear(&narrow);
}

/* ---- the program ---- */

int main(int argc, char **argv)
{
    const bool counts = argc > 2 && strcmp(argv[1], "--count") == 0;
    const bool turns = argc > 1 && strcmp(argv[1], "--turns") == 0;
    char line[256], what[64];
    unsigned threads;
    double milliseconds;

    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < CASES + GRAPH_CASES; i++) {
            const int64_t *dims = i < CASES ? cases[i].dims : graph_cases[i - CASES].dims;

            printf("%s", i < CASES ? cases[i].op : graph_cases[i - CASES].op);
            for (int d = 0; d < DIMS; d++)
                printf(" %lld", (long long)dims[d]);
            printf("\n");
        }
        return 0;
    }
    if (turns && bgi_cpu_isa() < BGI_ISA_AVX512) {
        fprintf(stderr, "ops: this processor has no AVX-512\n");
        return 1;
    }
    if (counts)
        policy = strcmp(argv[2], "avx2") == 0 ? BG_KERNELS_AVX2 : BG_KERNELS_PORTABLE;
    while ((counts || turns) && fgets(line, sizeof line, stdin) != NULL)
        (turns ? turn_line : count_line)(line);
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%63s %u %lf", what, &threads, &milliseconds) != 3 || threads < 1 || threads > THREADS) {
            fprintf(stderr, "ops: `%s` is not CASE THREADS MILLISECONDS\n", line);
            return 1;
        }
        answer(what, threads, milliseconds);
    }
    return 0;
}
