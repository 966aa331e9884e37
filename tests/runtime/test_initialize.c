/*
 * test_initialize.c: initial values of variables are functions of the seed, the variable's number and the element, and
 * have the requested distribution.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <brigade/random.h>

#include "kernels/reference/element.h"
#include "runtime/initialize.h"
#include "runtime/orthogonal.h"
#include "support/oracle.h"

enum { COUNT = 20001 };

static void make(const bg_type *type, const bg_initializer *initializer, uint64_t seed, uint32_t number,
                 uint32_t threads, void *data)
{
    bg_error error = {0};

    if (bgi_initialize(type, initializer, "w", seed, number, threads, data, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void a_longer_variable_begins_like_a_shorter_one(void **state)
{
    static const bg_initializer_kind kinds[] = {BG_INITIALIZE_UNIFORM, BG_INITIALIZE_NORMAL,
                                                BG_INITIALIZE_TRUNCATED_NORMAL};

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        const bg_initializer initializer = {kinds[k], 0.25, 2.0};
        static float all[COUNT], some[COUNT];
        bg_type type = bg_vector(BG_FLOAT32, COUNT);
        make(&type, &initializer, 7, 3, 1, all);
        for (int64_t count = 1; count < 12; count++) {
            type = bg_vector(BG_FLOAT32, count);
            memset(some, 0, sizeof some);
            make(&type, &initializer, 7, 3, 1, some);
            assert_memory_equal(some, all, (size_t)count * sizeof *some);
            assert_true(some[count] == 0.0f);
        }
        type = bg_vector(BG_FLOAT32, COUNT);
        make(&type, &initializer, 7, 4, 1, some);
        assert_memory_not_equal(some, all, 16);
        make(&type, &initializer, 8, 3, 1, some);
        assert_memory_not_equal(some, all, 16);
        make(&type, &initializer, 7 + (UINT64_C(1) << 32), 3, 1, some);
        assert_memory_not_equal(some, all, 16);
    }
}

static void threads_change_no_bit(void **state)
{
    enum { MANY = 3 * (1 << 16) + 7 };
    static const bg_initializer_kind kinds[] = {BG_INITIALIZE_CONSTANT, BG_INITIALIZE_UNIFORM,
                                                BG_INITIALIZE_TRUNCATED_NORMAL};
    static float alone[MANY], together[MANY];
    const bg_type type = bg_vector(BG_FLOAT32, MANY);

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        const bg_initializer initializer = {kinds[k], 0.5, 1.0};
        make(&type, &initializer, 7, 3, 1, alone);
        for (uint32_t threads = 2; threads < 9; threads += 3) {
            memset(together, 0, sizeof together);
            make(&type, &initializer, 7, 3, threads, together);
            assert_memory_equal(together, alone, sizeof alone);
        }
    }
}

static void moments(const bg_initializer *initializer, double *mean, double *deviation, double *low, double *high)
{
    static float values[COUNT];
    const bg_type type = bg_vector(BG_FLOAT32, COUNT);
    double sum = 0.0, squares = 0.0;

    make(&type, initializer, 11, 0, 1, values);
    *low = *high = values[0];
    for (int i = 0; i < COUNT; i++) {
        sum += values[i];
        *low = fmin(*low, values[i]);
        *high = fmax(*high, values[i]);
    }
    *mean = sum / COUNT;
    for (int i = 0; i < COUNT; i++)
        squares += (values[i] - *mean) * (values[i] - *mean);
    *deviation = sqrt(squares / COUNT);
}

static void the_distribution_is_the_one_asked_for(void **state)
{
    double mean, deviation, low, high;

    (void)state;
    moments(&(bg_initializer){BG_INITIALIZE_UNIFORM, -1.0, 3.0}, &mean, &deviation, &low, &high);
    assert_true(fabs(mean - 1.0) < 0.03 && fabs(deviation - 4.0 / sqrt(12.0)) < 0.02);
    assert_true(low >= -1.0 && low < -0.99 && high < 3.0 && high > 2.99);
    moments(&(bg_initializer){BG_INITIALIZE_NORMAL, 0.5, 0.02}, &mean, &deviation, &low, &high);
    assert_true(fabs(mean - 0.5) < 0.001 && fabs(deviation - 0.02) < 0.0005);
    assert_true(low < 0.5 - 3 * 0.02 && high > 0.5 + 3 * 0.02 && low > 0.5 - 6 * 0.02 && high < 0.5 + 6 * 0.02);
    /* truncated at two deviations, so the deviation is 0.8796 */
    moments(&(bg_initializer){BG_INITIALIZE_TRUNCATED_NORMAL, 0.5, 0.02}, &mean, &deviation, &low, &high);
    assert_true(fabs(mean - 0.5) < 0.001 && fabs(deviation - 0.8796 * 0.02) < 0.0004);
    assert_true(low >= 0.46f && low < 0.4605 && high <= 0.54f && high > 0.5395);
    moments(&(bg_initializer){BG_INITIALIZE_CONSTANT, 1.25, 9.0}, &mean, &deviation, &low, &high);
    assert_true(low == 1.25 && high == 1.25);
}

/* Uniform values equal those that the test computes directly from the generator's output. */
static void uniform_values_are_the_words_of_a_block(void **state)
{
    const bg_initializer initializer = {BG_INITIALIZE_UNIFORM, -0.3, 0.9};
    const bg_type type = bg_vector(BG_FLOAT32, 7);
    const uint64_t seed = UINT64_C(0x123456789abcdef0);
    const uint32_t key[2] = {0x9abcdef0u, 0x12345678u};
    float values[7];

    (void)state;
    make(&type, &initializer, seed, 5, 1, values);
    for (uint32_t i = 0; i < 7; i++) {
        const uint32_t counter[4] = {i / 4, 0, 5, 0x74696e69u};
        uint32_t words[4];
        bg_philox(counter, key, words);
        assert_true(values[i] == -0.3f + (0.9f - -0.3f) * ((float)(words[i % 4] >> 8) * 0x1p-24f));
    }
}

static void other_types_follow_float32(void **state)
{
    static const bg_initializer kinds[] = {{BG_INITIALIZE_UNIFORM, -0.3, 0.9}, {BG_INITIALIZE_NORMAL, 1.0, 0.1}};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        float single[9];
        double wide[9];
        uint16_t narrow[2][9];
        const bg_type types[] = {bg_vector(BG_FLOAT32, 9), bg_vector(BG_FLOAT64, 9), bg_vector(BG_BFLOAT16, 9),
                                 bg_vector(BG_FLOAT16, 9)};
        make(&types[0], &kinds[k], 1, 2, 1, single);
        make(&types[1], &kinds[k], 1, 2, 1, wide);
        make(&types[2], &kinds[k], 1, 2, 1, narrow[0]);
        make(&types[3], &kinds[k], 1, 2, 1, narrow[1]);
        for (int i = 0; i < 9; i++) {
            assert_true(fabs(wide[i] - single[i]) < 1e-6);
            assert_int_equal(narrow[0][i], bgi_bfloat16_from_float(single[i]));
            assert_int_equal(narrow[1][i], bgi_float16_from_float(single[i]));
        }
    }
}

/* ---- kinds whose elements depend on each other ---- */

static const bgi_test_oracle *oracle(void)
{
    static bgi_test_oracle *opened;

    if (opened == NULL)
        opened = bgi_test_oracle_open("tests/oracle/initializers.txt");
    return opened;
}

/* As in PyTorch, the rows are orthonormal if they are fewer than the columns, and otherwise the columns are. */
static void orthogonal_weights_are_pytorchs(void **state)
{
    static const struct {
        const char *name;
        double gain;
    } cases[] = {{"wide", 1.5}, {"tall", 1.0}, {"square", 1.0}, {"image", 0.5}};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const bgi_test_tensor *drawn = bgi_test_oracle_find(oracle(), cases[k].name, "drawn");
        const bgi_test_tensor *weight = bgi_test_oracle_find(oracle(), cases[k].name, "weight");
        const int64_t rows = drawn->dims[0], columns = drawn->dims[1];
        const int64_t row_step = rows < columns ? columns : 1, column_step = rows < columns ? 1 : rows;
        double vectors[64];

        for (int64_t i = 0; i < rows * columns; i++)
            vectors[i / columns * row_step + i % columns * column_step] = drawn->values[i];
        bgi_orthonormalize(vectors, rows < columns ? rows : columns, rows < columns ? columns : rows, 1);
        for (int64_t i = 0; i < rows * columns; i++) {
            const double value = cases[k].gain * vectors[i / columns * row_step + i % columns * column_step];
            if (!(fabs(value - weight->values[i]) < 1e-13))
                fail_msg("%s, element %d: %.17g, PyTorch has %.17g", cases[k].name, (int)i, value, weight->values[i]);
        }
    }
}

/* Checks that products of rows, or of columns, are gain^2 times the unit matrix. Each vector is a combination of its
 * drawn vector, with a positive factor, and the drawn vectors before it. */
static void check_orthogonal(const bg_type *type, uint32_t threads)
{
    enum { MOST = 200 * 320 };
    static double values[MOST], drawn[MOST];
    const int64_t rows = type->dims[0], columns = bg_type_element_count(type) / rows;
    const int64_t count = rows < columns ? rows : columns, length = rows < columns ? columns : rows;
    const int64_t step = rows < columns ? columns : 1, inner = rows < columns ? 1 : columns;

    make(type, &(bg_initializer){BG_INITIALIZE_ORTHOGONAL, 2.0, 0.0}, 7, 3, threads, values);
    make(type, &(bg_initializer){BG_INITIALIZE_NORMAL, 0.0, 1.0}, 7, 3, threads, drawn);
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = 0; b < count; b++) {
            double product = 0.0, along = 0.0;
            for (int64_t i = 0; i < length; i++) {
                product += values[a * step + i * inner] * values[b * step + i * inner];
                along += values[b * step + i * inner] * drawn[a * step + i * inner];
            }
            assert_true(fabs(product - (a == b ? 4.0 : 0.0)) < 1e-13);
            assert_true(b <= a || fabs(along) < 1e-11);
            assert_true(b != a || along > 0.0);
        }
}

static void orthogonal_weights_are_orthogonal(void **state)
{
    const bg_type wide = bg_matrix(BG_FLOAT64, 70, 320), tall = bg_matrix(BG_FLOAT64, 130, 45);
    const bg_type square = bg_matrix(BG_FLOAT64, 97, 97), image = bg_tensor4(BG_FLOAT64, 12, 5, 3, 3);

    (void)state;
    check_orthogonal(&wide, 1);
    check_orthogonal(&tall, 2);
    check_orthogonal(&square, 3);
    check_orthogonal(&image, 1);
    check_orthogonal(&(bg_type){BG_FLOAT64, 2, {1, 1}}, 1);
}

static void parts_are_those_of_the_whole(void **state)
{
    static const bg_initializer kinds[] = {
        {BG_INITIALIZE_ORTHOGONAL, 1.0, 0.0}, {BG_INITIALIZE_SPARSE, 0.3, 0.1}, {BG_INITIALIZE_EYE, 0.0, 0.0}};
    static float whole[500 * 300], again[500 * 300];
    const bg_type type = bg_matrix(BG_FLOAT32, 500, 300);

    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        make(&type, &kinds[k], 7, 3, 1, whole);
        make(&type, &kinds[k], 7, 3, 5, again);
        assert_memory_equal(whole, again, sizeof whole);
        for (int64_t first = 1; first < 150000; first += 37777) {
            bgi_first_values values;
            assert_int_equal(bgi_first_values_init(&values, &type, &kinds[k], "w", 7, 3, 1, NULL), BG_OK);
            bgi_first_values_fill(&values, first, 101, again);
            bgi_first_values_clear(&values);
            assert_memory_equal(again, whole + first, 101 * sizeof *whole);
        }
        make(&type, &kinds[k], 8, 3, 1, again);
        assert_true((memcmp(whole, again, sizeof whole) == 0) == (kinds[k].kind == BG_INITIALIZE_EYE));
    }
}

static void fixed_weights_are_pytorchs(void **state)
{
    static const struct {
        const char *name;
        bg_initializer initializer;
    } cases[] = {
        {"eye_wide", {BG_INITIALIZE_EYE, 0.0, 0.0}},  {"eye_tall", {BG_INITIALIZE_EYE, 0.0, 0.0}},
        {"dirac_1", {BG_INITIALIZE_DIRAC, 0.0, 0.0}}, {"dirac_2", {BG_INITIALIZE_DIRAC, 2.0, 0.0}},
        {"dirac_3", {BG_INITIALIZE_DIRAC, 1.0, 0.0}}, {"dirac_rest", {BG_INITIALIZE_DIRAC, 3.0, 0.0}},
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const bgi_test_tensor *weight = bgi_test_oracle_find(oracle(), cases[k].name, "weight");
        const bg_type type = bgi_test_tensor_type(weight, BG_FLOAT64);
        double values[256];

        make(&type, &cases[k].initializer, 7, 3, 1, values);
        bgi_test_compare(weight, values, 0.0, 0.0);
    }
}

static void sparse_columns_have_pytorchs_zeros(void **state)
{
    static const struct {
        const char *name;
        int64_t rows;
        double share;
    } cases[] = {{"sparse_10", 10, 0.25}, {"sparse_7", 7, 0.5}, {"sparse_all", 3, 1.0}};
    double squares = 0.0;
    int others = 0;

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const bgi_test_tensor *zeros = bgi_test_oracle_find(oracle(), cases[k].name, "zeros");
        const bg_type type = bg_matrix(BG_FLOAT64, cases[k].rows, zeros->count);
        double values[64];

        for (uint64_t seed = 0; seed < 40; seed++) {
            make(&type, &(bg_initializer){BG_INITIALIZE_SPARSE, cases[k].share, 0.1}, seed, 3, 1, values);
            for (int64_t c = 0; c < zeros->count; c++) {
                int counted = 0;
                for (int64_t r = 0; r < cases[k].rows; r++) {
                    const double value = values[r * zeros->count + c];
                    counted += value == 0.0;
                    others += value != 0.0;
                    squares += value * value;
                }
                assert_int_equal(counted, (int)zeros->values[c]);
            }
        }
    }
    assert_true(fabs(sqrt(squares / others) - 0.1) < 0.005);
}

static void numbers_that_cannot_be_are_errors(void **state)
{
    static const struct {
        bg_initializer initializer;
        const char *part;
    } cases[] = {
        {{BG_INITIALIZE_DIRAC, 4.0, 0.0}, "`w`: the number of groups of dirac is 4; it must divide the 6 outputs"},
        {{BG_INITIALIZE_DIRAC, 1.5, 0.0}, "groups of dirac is 1.5"},
        {{BG_INITIALIZE_DIRAC, -1.0, 0.0}, "groups of dirac is -1"},
        {{BG_INITIALIZE_EYE, 0.0, 0.0}, "the tensor has rank 3, and eye needs a rank from 2 to 2"},
        {{BG_INITIALIZE_SPARSE, 0.5, 0.1}, "and sparse needs a rank"},
        {{BG_INITIALIZE_ORTHOGONAL, NAN, 0.0}, "they must be finite"},
        {{(bg_initializer_kind)8, 0.0, 0.0}, "initializer 8 is not one of"},
    };
    const bg_type type = {BG_FLOAT32, 3, {6, 2, 3}}, matrix = bg_matrix(BG_FLOAT32, 6, 2);
    float values[36];
    bg_error error;

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        bg_error_clear(&error);
        assert_int_not_equal(bgi_initialize(&type, &cases[k].initializer, "w", 1, 1, 1, values, &error), BG_OK);
        if (strstr(error.message, cases[k].part) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", error.message, cases[k].part);
    }
    bg_error_clear(&error);
    assert_int_equal(
        bgi_initialize(&matrix, &(bg_initializer){BG_INITIALIZE_SPARSE, 1.25, 0.1}, "w", 1, 1, 1, values, &error),
        BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "the share of zeros of sparse is 1.25"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_longer_variable_begins_like_a_shorter_one),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(the_distribution_is_the_one_asked_for),
        cmocka_unit_test(uniform_values_are_the_words_of_a_block),
        cmocka_unit_test(other_types_follow_float32),
        cmocka_unit_test(orthogonal_weights_are_pytorchs),
        cmocka_unit_test(orthogonal_weights_are_orthogonal),
        cmocka_unit_test(parts_are_those_of_the_whole),
        cmocka_unit_test(fixed_weights_are_pytorchs),
        cmocka_unit_test(sparse_columns_have_pytorchs_zeros),
        cmocka_unit_test(numbers_that_cannot_be_are_errors),
    };

    return cmocka_run_group_tests_name("initialize", tests, NULL, NULL);
}
