/*
 * test_conv_pairs.c: convolutions of bfloat16 pairs, on processors that have the instructions: the bits that
 * conv/pairs.h specifies, computed here term by term, and a bound on their distance from exact sums.
 */
#include "kernels/kernel_case.h"

#include "kernels/conv/attributes.h"
#include "kernels/conv/pairs.h"
#include "kernels/cpu/variant.h"

typedef struct shape {
    int64_t n, c, h, w, o, kh, kw;
    bgi_conv2d_attributes attributes;
} shape;

/* Returns a zero of the same sign for a subnormal number, because the instruction treats subnormal inputs and results
 * as zero. */
static float flush(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

/* A sum in the order of pairs; terms are given one by one. */
typedef struct pair_sum {
    float sum, a, b; /* the even term that waits for its odd one */
    bool has_even;
    double exact, magnitudes;
} pair_sum;

static void add_term(pair_sum *s, float a, float b)
{
    s->exact += (double)a * (double)b;
    s->magnitudes += fabs((double)a * (double)b);
    if (!s->has_even) {
        s->a = flush(a);
        s->b = flush(b);
    } else {
        s->sum = flush(fmaf(flush(a), flush(b), s->sum));
        s->sum = flush(fmaf(s->a, s->b, s->sum));
    }
    s->has_even = !s->has_even;
}

static void end_tap(pair_sum *s)
{
    if (s->has_even)
        add_term(s, 0.0f, 0.0f);
}

static float at4(const uint16_t *data, const int64_t dims[3], int64_t i, int64_t j, int64_t y, int64_t x)
{
    if (y < 0 || y >= dims[1] || x < 0 || x >= dims[2])
        return 0.0f;
    return bgi_bfloat16_to_float(data[((i * dims[0] + j) * dims[1] + y) * dims[2] + x]);
}

/* Checks that a result differs from the exact one at most by the rounding errors of its sum and of the result itself.
 */
static void check_element(const char *what, int64_t index, uint16_t got, float sum, const pair_sum *s, int64_t terms)
{
    const uint16_t wanted = bgi_bfloat16_from_float(sum);
    const double bound = (double)terms * 6e-8 * s->magnitudes + fabs(s->exact) / 256 + (double)terms * 2e-38;

    if (got != wanted)
        fail_msg("%s [%lld] is %.9g, not %.9g", what, (long long)index, (double)bgi_bfloat16_to_float(got),
                 (double)bgi_bfloat16_to_float(wanted));
    if (fabs((double)bgi_bfloat16_to_float(got) - s->exact) > bound)
        fail_msg("%s [%lld] is %.9g, too far from %.9g", what, (long long)index, (double)bgi_bfloat16_to_float(got),
                 s->exact);
}

static void run_kernel(bgi_kernel_id id, const shape *s, bg_type *types, uint32_t inputs, uint32_t outputs,
                       void **operands, bool backwards)
{
    const bgi_kernel_request request = {
        .id = id, .types = types, .input_count = inputs, .output_count = outputs, .attributes = &s->attributes};
    const bg_kernel_env env = {0};
    bg_kernel kernel;
    bg_kernel_call call = {.types = types,
                           .operands = operands,
                           .input_count = inputs,
                           .output_count = outputs,
                           .attributes = &s->attributes,
                           .env = &env};

    assert_true(bgi_cpu_select(&request, BGI_ISA_AVX512_BF16, &kernel));
    assert_non_null(strstr(kernel.name, ".avx512-bf16"));
    call.state = kernel.state;
    assert_int_equal(posix_memalign(&call.scratch, 64, kernel.scratch_bytes + 64), 0);
    memset(call.scratch, 0xff, kernel.scratch_bytes);
    for (uint32_t part = 0; part < kernel.part_count; part++)
        kernel.run(&call, backwards ? kernel.part_count - 1 - part : part);
    for (uint32_t part = 0; kernel.combine && part < kernel.combine_count; part++)
        kernel.combine(&call, backwards ? kernel.combine_count - 1 - part : part);
    if (kernel.finish)
        kernel.finish(&call);
    free(call.scratch);
}

static uint16_t *draw_operand(random_state *random, int64_t count, double scale)
{
    uint16_t *data = malloc((size_t)count * sizeof *data);

    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = bgi_bfloat16_from_float((float)draw_real(random, -scale, scale));
    return data;
}

static void check(const shape *s, random_state *random, double scale)
{
    const bg_conv2d_options *o = &s->attributes.options;
    const int64_t oh = (s->h + 2 * o->padding[0] - o->dilation[0] * (s->kh - 1) - 1) / o->stride[0] + 1;
    const int64_t ow = (s->w + 2 * o->padding[1] - o->dilation[1] * (s->kw - 1) - 1) / o->stride[1] + 1;
    const int64_t cg = s->c / o->groups, og = s->o / o->groups;
    const int64_t xd[3] = {s->c, s->h, s->w}, wd[3] = {cg, s->kh, s->kw}, yd[3] = {s->o, oh, ow};
    const bg_type x = bg_tensor4(BG_BFLOAT16, s->n, s->c, s->h, s->w), y = bg_tensor4(BG_BFLOAT16, s->n, s->o, oh, ow),
                  w = bg_tensor4(BG_BFLOAT16, s->o, cg, s->kh, s->kw), b = bg_vector(BG_BFLOAT16, s->o);
    uint16_t *xs = draw_operand(random, s->n * s->c * s->h * s->w, scale);
    uint16_t *ws = draw_operand(random, s->o * cg * s->kh * s->kw, 1.0);
    uint16_t *dys = draw_operand(random, s->n * s->o * oh * ow, 1.0), *bs = draw_operand(random, s->o, scale);
    uint16_t *ys = draw_operand(random, s->n * s->o * oh * ow, 1.0);
    uint16_t *dxs = draw_operand(random, s->n * s->c * s->h * s->w, 1.0);
    uint16_t *dws = draw_operand(random, s->o * cg * s->kh * s->kw, 1.0);
    const bgi_conv conv = bgi_conv_read(&x, &w, &y, o);
    const int64_t runs = bgi_conv_pairs_weights(&conv, UINT64_MAX).runs;
    int64_t index = 0;

    run_kernel(BGI_KERNEL_CONV2D, s, (bg_type[]){x, w, b, y}, 3, 1, (void *[]){xs, ws, bs, ys}, false);
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t f = 0; f < s->o; f++)
            for (int64_t p = 0; p < oh * ow; p++, index++) {
                const float bias = bgi_bfloat16_to_float(bs[f]);
                pair_sum sum = {.sum = flush(bias), .exact = bias, .magnitudes = fabs((double)bias)};

                for (int64_t ky = 0; ky < s->kh; ky++)
                    for (int64_t kx = 0; kx < s->kw; kx++) {
                        for (int64_t c = 0; c < cg; c++)
                            add_term(&sum,
                                     at4(xs, xd, n, f / og * cg + c,
                                         p / ow * o->stride[0] + ky * o->dilation[0] - o->padding[0],
                                         p % ow * o->stride[1] + kx * o->dilation[1] - o->padding[1]),
                                     at4(ws, wd, f, c, ky, kx));
                        end_tap(&sum);
                    }
                check_element("y", index, ys[index], sum.sum, &sum, cg * s->kh * s->kw + 2);
            }
    run_kernel(BGI_KERNEL_CONV2D_BACKWARD_INPUT, s, (bg_type[]){y, w, x}, 2, 1, (void *[]){dys, ws, dxs}, true);
    index = 0;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t p = 0; p < s->h * s->w; p++, index++) {
                pair_sum sum = {0};

                for (int64_t ky = 0; ky < s->kh; ky++)
                    for (int64_t kx = 0; kx < s->kw; kx++) {
                        const int64_t row = p / s->w + o->padding[0] - ky * o->dilation[0];
                        const int64_t column = p % s->w + o->padding[1] - kx * o->dilation[1];

                        if (row % o->stride[0] != 0 || column % o->stride[1] != 0)
                            continue;
                        for (int64_t f = 0; f < og; f++)
                            add_term(&sum, at4(dys, yd, n, c / cg * og + f, row / o->stride[0], column / o->stride[1]),
                                     at4(ws, wd, c / cg * og + f, c % cg, ky, kx));
                        end_tap(&sum);
                    }
                check_element("dx", index, dxs[index], sum.sum, &sum, og * s->kh * s->kw + 2);
            }
    run_kernel(BGI_KERNEL_CONV2D_BACKWARD_WEIGHTS, s, (bg_type[]){y, x, w}, 2, 1, (void *[]){dys, xs, dws}, true);
    index = 0;
    for (int64_t f = 0; f < s->o; f++)
        for (int64_t c = 0; c < cg; c++)
            for (int64_t k = 0; k < s->kh * s->kw; k++, index++) {
                pair_sum sum = {0};
                float total = 0.0f;

                for (int64_t run = 0; run < runs; run++) {
                    sum.sum = 0.0f;
                    for (int64_t row = oh * run / runs; row < oh * (run + 1) / runs; row++)
                        for (int64_t column = 0; column < ow; column++) {
                            for (int64_t n = 0; n < s->n; n++)
                                add_term(&sum,
                                         at4(xs, xd, n, f / og * cg + c,
                                             row * o->stride[0] + k / s->kw * o->dilation[0] - o->padding[0],
                                             column * o->stride[1] + k % s->kw * o->dilation[1] - o->padding[1]),
                                         at4(dys, yd, n, f, row, column));
                            end_tap(&sum);
                        }
                    total = run == 0 ? sum.sum : total + sum.sum;
                }
                check_element("dw", index, dws[index], total, &sum, s->n * oh * ow + runs + 2);
            }
    free(xs), free(ws), free(dys), free(bs), free(ys), free(dxs), free(dws);
}

static void skip_without_pairs(void)
{
    if (bgi_cpu_isa() < BGI_ISA_AVX512_BF16) {
        print_message("this processor has no %s\n", bgi_isa_name(BGI_ISA_AVX512_BF16));
        skip();
    }
}

/* Each size is odd in some shapes and even in others. Some shapes have several panels, strips, blocks of images or of
 * terms, or runs of dw, or phases of dx that no tap reaches. */
static void test_bits(void **state)
{
    static const shape shapes[] = {
        {1, 1, 1, 1, 2, 1, 1, {{0, {1, 1}, {0, 0}, {1, 1}, 1}}},
        {3, 5, 7, 9, 6, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}},
        {2, 3, 32, 32, 64, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}},
        {5, 20, 4, 4, 100, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}},
        {2, 300, 4, 4, 20, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}},
        {4, 17, 13, 11, 33, 3, 3, {{0, {2, 2}, {1, 1}, {1, 1}, 1}}},
        {3, 16, 16, 16, 24, 1, 1, {{0, {2, 2}, {0, 0}, {1, 1}, 1}}},
        {2, 70, 9, 14, 12, 1, 1, {{0, {1, 1}, {0, 0}, {1, 1}, 1}}},
        {2, 12, 15, 17, 20, 5, 3, {{0, {1, 2}, {2, 0}, {1, 2}, 2}}},
        {1, 3, 40, 44, 12, 7, 7, {{0, {2, 2}, {3, 3}, {1, 1}, 1}}},
        {9, 24, 16, 16, 30, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}},
        {4, 8, 30, 30, 6, 2, 2, {{0, {3, 3}, {0, 0}, {1, 1}, 1}}},
        {3, 40, 8, 8, 40, 3, 3, {{0, {1, 1}, {2, 2}, {2, 2}, 4}}},
    };
    random_state random = {51};

    (void)state;
    skip_without_pairs();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(&shapes[i], &random, 1.0);
}

/* Products and sums are below the smallest normal number. */
static void test_subnormal(void **state)
{
    static const shape s = {2, 9, 6, 6, 7, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}};
    random_state random = {52};

    (void)state;
    skip_without_pairs();
    check(&s, &random, 3e-38);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits), cmocka_unit_test(test_subnormal)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
