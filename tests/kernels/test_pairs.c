/*
 * test_pairs.c: products of bfloat16 pairs, on processors with such instructions, have the bits that pairs.h specifies.
 * The test computes them term by term.
 */
#include "kernels/kernel_case.h"

#include "core/isa.h"
#include "core/narrow.h"
#include "kernels/linear/pairs.h"

typedef struct matrix {
    int64_t rows, columns;
    bool is_transposed;
    uint16_t *data;
} matrix;

/* Returns a zero of the same sign for a subnormal number, because these instructions treat subnormal inputs and results
 * as zero. */
static float flush(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

static float term(const matrix *m, int64_t row, int64_t column)
{
    if (row >= m->rows || column >= m->columns)
        return 0.0f;
    return flush(bgi_bfloat16_to_float(m->data[m->is_transposed ? column * m->rows + row : row * m->columns + column]));
}

static float add_product(float sum, float a, float b)
{
    return flush(fmaf(a, b, sum));
}

static float sum_by_two(const matrix *a, const matrix *b, int64_t m, int64_t n, float sum)
{
    const int64_t terms = (a->columns + BGI_PAIRS_TERMS - 1) / BGI_PAIRS_TERMS * BGI_PAIRS_TERMS;

    sum = flush(sum);
    for (int64_t k = 0; k < terms; k += 2) {
        sum = add_product(sum, term(a, m, k + 1), term(b, k + 1, n));
        sum = add_product(sum, term(a, m, k), term(b, k, n));
    }
    return sum;
}

static float sum_by_tiles(const matrix *a, const matrix *b, int64_t m, int64_t n, float sum)
{
    sum = flush(sum);
    for (int64_t k = 0; k < a->columns; k += BGI_PAIRS_TERMS) {
        float even = 0.0f, odd = 0.0f;

        for (int64_t i = k; i < k + BGI_PAIRS_TERMS; i += 2) {
            even = add_product(even, term(a, m, i), term(b, i, n));
            odd = add_product(odd, term(a, m, i + 1), term(b, i + 1, n));
        }
        sum = flush(sum + flush(even + odd));
    }
    return sum;
}

static matrix make_matrix(random_state *random, int64_t rows, int64_t columns, bool is_transposed, float scale)
{
    matrix m = {rows, columns, is_transposed, malloc((size_t)(rows * columns) * sizeof(uint16_t))};

    assert_non_null(m.data);
    for (int64_t i = 0; i < rows * columns; i++)
        m.data[i] = bgi_bfloat16_from_float(scale * (float)draw_real(random, -1.0, 1.0));
    return m;
}

static void check_product(random_state *random, bgi_isa isa, int64_t rows, int64_t columns, int64_t k, int layout,
                          bool goes_on, float scale)
{
    const matrix a = make_matrix(random, rows, k, (layout & 1) != 0, scale);
    const matrix b = make_matrix(random, k, columns, (layout & 2) != 0, 1.0f);
    const int64_t c_row = columns + 5;
    float *c = malloc((size_t)(rows * c_row) * sizeof(float));
    float *wanted = malloc((size_t)(rows * c_row) * sizeof(float));
    bgi_pairs p = {.a = a.data,
                   .a_row = a.is_transposed ? 1 : k,
                   .a_column = a.is_transposed ? rows : 1,
                   .b = b.data,
                   .b_row = b.is_transposed ? 1 : columns,
                   .b_column = b.is_transposed ? k : 1,
                   .c = c,
                   .c_row = c_row,
                   .m = rows,
                   .n = columns,
                   .k = k,
                   .goes_on = goes_on};

    assert_true(c != NULL && wanted != NULL);
    assert_int_equal(posix_memalign(&p.scratch, 64, (size_t)bgi_pairs_floats(rows, k) * sizeof(float)), 0);
    for (int64_t i = 0; i < rows * c_row; i++)
        wanted[i] = c[i] = scale * (float)draw_real(random, -1.0, 1.0);
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < columns; n++) {
            float *sum = &wanted[m * c_row + n];
            *sum = (isa == BGI_ISA_AMX ? sum_by_tiles : sum_by_two)(&a, &b, m, n, goes_on ? *sum : 0.0f);
        }
#if defined(__x86_64__)
    (isa == BGI_ISA_AMX ? bgi_pairs_multiply_amx : bgi_pairs_multiply_avx512bf16)(&p);
#endif
    for (int64_t i = 0; i < rows * c_row; i++)
        if (memcmp(&c[i], &wanted[i], sizeof c[i]) != 0)
            fail_msg("%s: %lld x %lld x %lld, layout %d: [%lld][%lld] is %.9g, not %.9g", bgi_isa_name(isa),
                     (long long)rows, (long long)columns, (long long)k, layout, (long long)(i / c_row),
                     (long long)(i % c_row), c[i], wanted[i]);
    free(a.data);
    free(b.data);
    free(c);
    free(wanted);
    free(p.scratch);
}

/* Checks a product whose B is a panel, of which `columns` of the BGI_PAIRS_PANEL columns are used. */
static void check_panel(random_state *random, bgi_isa isa, int64_t rows, int64_t columns, int64_t k, bool goes_on)
{
    const matrix a = make_matrix(random, rows, k, false, 1.0f), b = make_matrix(random, k, columns, false, 1.0f);
    const int64_t terms = (k + BGI_PAIRS_TERMS - 1) / BGI_PAIRS_TERMS * BGI_PAIRS_TERMS;
    float *c = malloc((size_t)(rows * BGI_PAIRS_PANEL) * sizeof(float));
    float *wanted = malloc((size_t)(rows * BGI_PAIRS_PANEL) * sizeof(float));
    uint16_t *panel = calloc((size_t)(terms * BGI_PAIRS_PANEL), sizeof *panel);
    bgi_pairs p = {.a = a.data,
                   .a_row = k,
                   .a_column = 1,
                   .b = panel,
                   .c = c,
                   .c_row = BGI_PAIRS_PANEL,
                   .m = rows,
                   .n = columns,
                   .k = k,
                   .goes_on = goes_on};

    assert_true(c != NULL && wanted != NULL && panel != NULL);
    assert_int_equal(posix_memalign(&p.scratch, 64, (size_t)bgi_pairs_floats(rows, k) * sizeof(float)), 0);
    for (int64_t i = 0; i < k; i++)
        for (int64_t n = 0; n < columns; n++)
            panel[(i / 2 * BGI_PAIRS_PANEL + n) * 2 + i % 2] = b.data[i * columns + n];
    for (int64_t i = 0; i < rows * BGI_PAIRS_PANEL; i++)
        wanted[i] = c[i] = (float)draw_real(random, -1.0, 1.0);
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < columns; n++) {
            float *sum = &wanted[m * BGI_PAIRS_PANEL + n];
            *sum = (isa == BGI_ISA_AMX ? sum_by_tiles : sum_by_two)(&a, &b, m, n, goes_on ? *sum : 0.0f);
        }
#if defined(__x86_64__)
    (isa == BGI_ISA_AMX ? bgi_pairs_multiply_amx : bgi_pairs_multiply_avx512bf16)(&p);
#endif
    for (int64_t i = 0; i < rows * BGI_PAIRS_PANEL; i++)
        if (memcmp(&c[i], &wanted[i], sizeof c[i]) != 0)
            fail_msg("%s: a panel, %lld x %lld x %lld: [%lld][%lld] is %.9g, not %.9g", bgi_isa_name(isa),
                     (long long)rows, (long long)columns, (long long)k, (long long)(i / BGI_PAIRS_PANEL),
                     (long long)(i % BGI_PAIRS_PANEL), c[i], wanted[i]);
    free(a.data);
    free(b.data);
    free(c);
    free(wanted);
    free(panel);
    free(p.scratch);
}

/* Checks products with sizes around those of tiles, strips and blocks, in every layout, with new sums and with sums
 * that continue. */
static void check_products(bgi_isa isa)
{
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 100};
    static const int64_t depths[] = {1, 2, 3, 31, 32, 33, 64, 150, 256};
    random_state random = {17};

    if (bgi_cpu_isa() < isa) {
        print_message("this processor has no %s\n", bgi_isa_name(isa));
        skip();
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
            const int64_t columns = sizes[(i * 5 + d * 3) % (sizeof sizes / sizeof sizes[0])];

            check_product(&random, isa, sizes[i], columns, depths[d], (int)(i + d) % 4, (i + d / 4) % 2 == 1, 1.0f);
        }
    for (int64_t rows = 1; rows <= 20; rows++)
        check_panel(&random, isa, rows, rows % 3 == 0 ? rows * 3 : 64 - rows % 4, depths[rows % 9], rows % 2 == 1);
    /* products and sums that are below the smallest normal number */
    check_product(&random, isa, 20, 20, 40, 0, false, 1e-38f);
    check_product(&random, isa, 20, 20, 40, 3, true, 3e-38f);
}

static void test_pairs_avx512_bf16(void **state)
{
    (void)state;
    check_products(BGI_ISA_AVX512_BF16);
}

static void test_pairs_amx(void **state)
{
    (void)state;
    check_products(BGI_ISA_AMX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs_avx512_bf16), cmocka_unit_test(test_pairs_amx)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
