/*
 * test_quantized.c: tests weights that are rounded to 16, 8 and 4 bits: the error of each weight, and products and rows
 * of the rounded matrices. Fast kernels are compared with the reference. Products of float32 x, and those of bfloat16 x
 * with weights of 16 bits, must have the bits of a product over the same rounded matrix in the type of x.
 */
#include "core/quantized.h"
#include "kernels/kernel_case.h"
#include "kernels/linear/attributes.h"
#include "kernels/quantized/attributes.h"

/* A rounded matrix, quantized and as float32 [out, in]. */
typedef struct matrix {
    bgi_quantized q;
    float *weights, *rounded;
    void *data;
    bgi_quantized_error error;
} matrix;

static float *take_floats(int64_t count)
{
    float *floats = malloc((size_t)count * sizeof *floats);

    assert_non_null(floats);
    return floats;
}

/* Returns the scale of the weight: the difference between neighboring levels. */
static float read_scale(const matrix *m, int64_t output, int64_t input)
{
    const uint8_t *block = (const uint8_t *)m->data +
                           output / BGI_QUANTIZED_PANEL * bgi_quantized_panel_bytes(m->q.in, m->q.bits) +
                           input / BGI_QUANTIZED_BLOCK * bgi_quantized_block_bytes(m->q.bits);
    uint16_t scale;
    int exponent;

    if (m->q.bits == 16) {
        const float weight = bgi_quantized_value(m->data, m->q.in, 16, output, input);

        if (weight == 0.0F)
            return output < m->q.out ? 0x1p-133F : 0.0F;
        (void)frexpf(weight, &exponent);
        return ldexpf(1.0F, exponent - 8 > -133 ? exponent - 8 : -133);
    }
    memcpy(&scale, block + output % BGI_QUANTIZED_PANEL * (int64_t)sizeof scale, sizeof scale);
    return bgi_bfloat16_to_float(scale);
}

static float *place_of(const matrix *m, int64_t output, int64_t input)
{
    return &m->weights[m->q.in_out ? input * m->q.out + output : output * m->q.in + input];
}

/* Quantizes the weights in two ranges of panels. */
static void quantize(matrix *m)
{
    const bg_type type = bgi_quantized_type(m->q.in, m->q.out, m->q.bits);
    const int64_t panels = bgi_quantized_panels(m->q.out);

    m->data = take_operand(&type);
    memset(m->data, 0xee, bg_type_size_bytes(&type));
    m->error = (bgi_quantized_error){0};
    assert_true(bgi_quantize_panels(&m->q, m->weights, panels / 2, panels, m->data, &m->error));
    assert_true(bgi_quantize_panels(&m->q, m->weights, 0, panels / 2, m->data, &m->error));
    m->rounded = take_floats(m->q.in * m->q.out);
    for (int64_t o = 0; o < m->q.out; o++)
        for (int64_t i = 0; i < m->q.in; i++)
            m->rounded[o * m->q.in + i] = bgi_quantized_value(m->data, m->q.in, m->q.bits, o, i);
}

static matrix make_matrix(random_state *random, int64_t in, int64_t out, uint8_t bits, double size)
{
    matrix m = {.q = {.in = in, .out = out, .bits = bits, .in_out = (uint8_t)draw_between(random, 0, 1)}};

    m.weights = take_floats(in * out);
    for (int64_t i = 0; i < in * out; i++)
        m.weights[i] = (float)(size * draw_real(random, -1, 1) * draw_real(random, 0, 1));
    quantize(&m);
    return m;
}

static void clear_matrix(matrix *m)
{
    free(m->weights);
    free(m->rounded);
    free(m->data);
}

/* ---- rounding ---- */

/* Checks that the error of every weight, including the extremes of an output's block, is at most half a scale, and that
 * the last panel is filled up with zeros. */
static void check_errors(const matrix *m)
{
    double largest = 0.0, bound = 0.0;

    for (int64_t o = 0; o < bgi_quantized_panels(m->q.out) * BGI_QUANTIZED_PANEL; o++)
        for (int64_t i = 0; i < m->q.in; i++) {
            const float scale = read_scale(m, o, i);
            const double half = fabs((double)scale) / 2.0;
            double off;

            if (o >= m->q.out) {
                assert_true(scale == 0.0F && bgi_quantized_value(m->data, m->q.in, m->q.bits, o, i) == 0.0F);
                continue;
            }
            off = fabs((double)*place_of(m, o, i) - (double)m->rounded[o * m->q.in + i]);
            if (off > half)
                fail_msg("%u bits, in %lld, out %lld: weight %.9g became %.9g, with a scale of %.9g", m->q.bits,
                         (long long)m->q.in, (long long)m->q.out, *place_of(m, o, i), m->rounded[o * m->q.in + i],
                         scale);
            largest = off > largest ? off : largest;
            bound = half > bound ? half : bound;
        }
    assert_true(fabs(m->error.largest - largest) <= 1e-6 * largest);
    assert_true(m->q.bits == 16 || m->error.bound == bound);
    assert_true(largest <= m->error.bound);
    assert_true(largest <= bound);
}

static void test_errors(void **state)
{
    static const double sizes[] = {1.0, 1e-30, 1e30, 0.0, 3e-3};
    random_state random = {1};

    (void)state;
    for (int i = 0; i < 40; i++) {
        matrix m = make_matrix(&random, draw_between(&random, 1, 100), draw_between(&random, 1, 150),
                               (uint8_t)(4 << i % 3), sizes[i % 5]);

        check_errors(&m);
        clear_matrix(&m);
    }
}

/* The scale is as small as the levels allow: -8 to 7, where the extreme of the larger size is -8. */
static void test_scales(void **state)
{
    static const struct {
        float weights[3];
        float scale4, scale8;
    } cases[] = {
        {{-8.0F, 1.0F, 7.0F}, 1.0F, 0.0625F},    /* levels -8 and 7; -128 and 112 */
        {{8.0F, -1.0F, -7.0F}, -1.0F, -0.0625F}, /* the scale has the level's sign */
        {{-8.0F, 1.0F, 0.0F}, 1.0F, 0.0625F},
        {{-7.5F, 0.0F, 7.5F},
         -1.0F,
         -0.058837890625F}, /* both are half a scale beyond level 7; 7.5 / 127.5, rounded up */
        {{0.0F, 0.0F, 0.0F}, 0.0F, 0.0F},
        {{-8.01F, 0.0F, 0.0F}, 1.0078125F, 0.06298828125F}, /* rounded up to the next bfloat16 */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint8_t bits = 4; bits <= 8; bits += 4) {
            matrix m = {.q = {.in = 3, .out = 1, .bits = bits}, .weights = take_floats(3)};

            memcpy(m.weights, cases[i].weights, sizeof cases[i].weights);
            quantize(&m);
            assert_float_equal(read_scale(&m, 0, 0), bits == 4 ? cases[i].scale4 : cases[i].scale8, 1e-9);
            check_errors(&m);
            clear_matrix(&m);
        }
}

static void test_refused(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 2e38F};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const bgi_quantized q = {.in = 40, .out = 70, .bits = 8};
        float *weights = calloc(40 * 70, sizeof *weights);
        const bg_type type = bgi_quantized_type(q.in, q.out, q.bits);
        void *data = take_operand(&type);
        bgi_quantized_error error = {0};

        assert_non_null(weights);
        weights[69 * 40 + 33] = bad[i];
        assert_true(bgi_quantize_panels(&q, weights, 0, 1, data, &error));
        assert_false(bgi_quantize_panels(&q, weights, 1, 2, data, &error));
        free(weights);
        free(data);
    }
    assert_int_equal(bgi_quantized_source_length("a.weight.int8"), 8);
    assert_int_equal(bgi_quantized_source_length("a.int4"), 1);
    assert_int_equal(bgi_quantized_source_length("a.weight.bfloat16"), 8);
    assert_int_equal(bgi_quantized_source_length(".int8"), 0);
    assert_int_equal(bgi_quantized_source_length("int8"), 0);
    assert_int_equal(bgi_quantized_source_length("a.weight"), 0);
}

/* ---- products ---- */

/* Checks that LINEAR over the rounded matrix, or MATMUL for its layout, has the same bits with every instruction set.
 */
static void compare_bits(const kernel_case *product, const matrix *m, bg_dtype dtype, int64_t rows)
{
    const bgi_matmul_attributes layout = {.transpose_b = false};
    const bool transposes = m->q.in_out;
    const bg_type w = transposes ? bg_matrix(dtype, m->q.in, m->q.out) : bg_matrix(dtype, m->q.out, m->q.in);
    kernel_case same = {.id = transposes ? BGI_KERNEL_MATMUL : BGI_KERNEL_LINEAR,
                        .attributes = transposes ? &layout : NULL,
                        .types = {product->types[0], w, product->types[2]},
                        .input_count = 2,
                        .output_count = 1,
                        .initial = {product->initial[0], take_operand(&w), product->initial[2]}};

    for (int64_t o = 0; o < m->q.out; o++)
        for (int64_t i = 0; i < m->q.in; i++)
            bgi_store(dtype, same.initial[1], transposes ? i * m->q.out + o : o * m->q.in + i,
                      (double)m->rounded[o * m->q.in + i]);
    for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa)) {
        void *got[CASE_OPERANDS], *wanted[CASE_OPERANDS];

        assert_true(case_run(product, (bgi_isa)isa, 0, got));
        assert_true(case_run(&same, (bgi_isa)isa, 0, wanted));
        for (int64_t i = 0; i < rows * m->q.out; i++)
            if (memcmp((char *)got[2] + (size_t)i * bg_dtype_size_bytes(dtype),
                       (char *)wanted[2] + (size_t)i * bg_dtype_size_bytes(dtype), bg_dtype_size_bytes(dtype)) != 0)
                fail_element(product, (bgi_isa)isa, 2, i, bgi_load(dtype, got[2], i), bgi_load(dtype, wanted[2], i));
        free_results(product, got);
        free_results(&same, wanted);
    }
    free(same.initial[1]);
}

static void check_product(random_state *random, bg_dtype dtype, int64_t rows, int64_t in, int64_t out, uint8_t bits)
{
    matrix m = make_matrix(random, in, out, bits, 1.0);
    bgi_quantized_attributes attributes;
    kernel_case c = {.id = BGI_KERNEL_QUANTIZED_LINEAR,
                     .attributes = &attributes,
                     .relative = 2 * unit_of(dtype),
                     .absolute = sum_tolerance((double)in)};

    memset(&attributes, 0, sizeof attributes);
    attributes.in = in;
    attributes.out = out;
    attributes.bits = bits;
    case_input(&c, bg_matrix(dtype, rows, in), random, -1, 1);
    case_input(&c, bgi_quantized_type(in, out, bits), random, 0, 255);
    memcpy(c.initial[1], m.data, bg_type_size_bytes(&c.types[1]));
    case_output(&c, bg_matrix(dtype, rows, out));
    assert_int_equal(case_check(&c, 0), count_isas());
    if (dtype == BG_FLOAT32 || (dtype == BG_BFLOAT16 && bits == 16))
        compare_bits(&c, &m, dtype, rows);
    case_clear(&c);
    clear_matrix(&m);
}

static void test_products(void **state)
{
    random_state random = {2};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 500 : 40;

    (void)state;
    for (int i = 0; i < rounds; i++)
        check_product(&random, draw_float(&random), draw_between(&random, 1, 9), draw_between(&random, 1, 90),
                      draw_between(&random, 1, 150), (uint8_t)(4 << i % 3));
}

/* Cases with several blocks of depth, which do not begin where blocks of weights begin, with several parts, and with
 * many rows. */
static void test_large_products(void **state)
{
    random_state random = {3};

    (void)state;
    check_product(&random, BG_FLOAT32, 1, 601, 700, 8);
    check_product(&random, BG_FLOAT32, 1, 601, 700, 4);
    check_product(&random, BG_FLOAT32, 3, 512, 130, 4);
    check_product(&random, BG_BFLOAT16, 4, 300, 200, 8);
    check_product(&random, BG_FLOAT32, 40, 300, 200, 8);
    check_product(&random, BG_FLOAT16, 300, 290, 70, 4);
    check_product(&random, BG_FLOAT32, 1, 601, 700, 16);
    check_product(&random, BG_FLOAT32, 3, 515, 130, 16);
    check_product(&random, BG_FLOAT32, 40, 301, 200, 16);
    check_product(&random, BG_FLOAT16, 4, 515, 130, 16);
    check_product(&random, BG_BFLOAT16, 1, 768, 700, 16);
    check_product(&random, BG_BFLOAT16, 4, 601, 200, 16);
    check_product(&random, BG_BFLOAT16, 7, 512, 64, 16);
    check_product(&random, BG_BFLOAT16, 300, 515, 70, 16);
}

/* ---- rows ---- */

static void test_rows(void **state)
{
    random_state random = {4};

    (void)state;
    for (uint8_t bits = 4; bits <= 16; bits *= 2) {
        const bgi_quantized_attributes attributes = {.in = 45, .out = 70, .bits = bits};
        const bg_kernel_policy policy = BG_KERNELS_FAST;
        const int32_t ids[] = {69, 0, -1, 70, 33};
        const bg_type types[] = {bgi_quantized_type(45, 70, bits), bg_vector(BG_INT32, 5),
                                 bg_matrix(BG_FLOAT32, 5, 45)};
        const bgi_kernel_request request = {.id = BGI_KERNEL_QUANTIZED_EMBEDDING,
                                            .types = types,
                                            .input_count = 2,
                                            .output_count = 1,
                                            .attributes = &attributes};
        matrix m = make_matrix(&random, 45, 70, bits, 1.0);
        float y[5 * 45];
        void *operands[] = {m.data, (void *)ids, y};
        const bg_kernel_env env = {0};
        const bg_kernel_call call = {.types = types,
                                     .operands = operands,
                                     .input_count = 2,
                                     .output_count = 1,
                                     .attributes = &attributes,
                                     .env = &env};
        bg_kernel kernel;

        assert_int_equal(bgi_kernel_select(&request, policy, &kernel, NULL), BG_OK);
        bgi_kernel_run(&kernel, &call);
        for (int r = 0; r < 5; r++)
            for (int i = 0; i < 45; i++)
                assert_true(y[r * 45 + i] == (ids[r] < 0 || ids[r] >= 70 ? 0.0F : m.rounded[ids[r] * 45 + i]));
        clear_matrix(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors),         cmocka_unit_test(test_scales),
                                       cmocka_unit_test(test_refused),        cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_large_products), cmocka_unit_test(test_rows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
