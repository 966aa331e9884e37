/*
 * test_rows.c: softmax, layer norm and reductions against the reference.
 */
#include "kernels/kernel_case.h"

static int rounds(int quick)
{
    return getenv("BRIGADE_TEST_ALL") ? 20 * quick : quick;
}

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), (int)bgi_cpu_isa() + 1);
    case_clear(c);
}

static bg_type draw_rows(random_state *random, bg_dtype dtype)
{
    return draw_between(random, 0, 5)
               ? bg_tensor3(dtype, draw_between(random, 1, 4), draw_between(random, 1, 9), draw_between(random, 1, 70))
               : bg_matrix(dtype, draw_between(random, 20, 90), draw_between(random, 700, 900));
}

static void test_softmax(void **state)
{
    random_state random = {1};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const bg_dtype dtype = draw_float(&random);
        const bg_type type = draw_rows(&random, dtype);
        const bgi_axis_attributes attributes = {type.rank - 1};
        const bool is_log = i % 2;
        kernel_case c = {.id = is_log ? BGI_KERNEL_LOG_SOFTMAX : BGI_KERNEL_SOFTMAX,
                         .attributes = &attributes,
                         .relative = dtype == BG_FLOAT32 ? 3e-6 : 1.0 / 128,
                         .absolute = is_log ? 2e-6 : 1e-37};
        kernel_case back = {.id = is_log ? BGI_KERNEL_LOG_SOFTMAX_BACKWARD : BGI_KERNEL_SOFTMAX_BACKWARD,
                            .attributes = &attributes,
                            .relative = dtype == BG_FLOAT32 ? 3e-6 : 1.0 / 128,
                            .absolute = 3e-5};
        float *x = case_input(&c, type, &random, -8, 8);

        if (dtype == BG_FLOAT32 && i % 3 == 0)
            x[0] = i % 2 ? NAN : -INFINITY;
        case_output(&c, type);
        finish_case(&c);

        case_input(&back, type, &random, -1, 1);
        case_input(&back, type, &random, is_log ? -4 : 0, is_log ? 0 : 1);
        case_output(&back, type);
        finish_case(&back);
    }
}

static void test_softmax_declines_other_axes(void **state)
{
    random_state random = {2};
    const bgi_axis_attributes attributes = {0};
    kernel_case c = {.id = BGI_KERNEL_SOFTMAX, .attributes = &attributes};

    (void)state;
    case_input(&c, bg_matrix(BG_FLOAT32, 3, 4), &random, -1, 1);
    case_output(&c, bg_matrix(BG_FLOAT32, 3, 4));
    assert_int_equal(case_check(&c, 0), 0);
    case_clear(&c);
}

static bg_type drop_last(const bg_type *type, bg_dtype dtype)
{
    return bg_type_make(dtype, type->rank - 1, type->dims);
}

static void check_layer_norm(random_state *random)
{
    const bg_dtype dtype = draw_float(random);
    const bg_type type = draw_rows(random, dtype), row = bg_vector(dtype, type.dims[type.rank - 1]);
    const bg_type statistics = drop_last(&type, BG_FLOAT32);
    const bgi_norm_attributes attributes = {.epsilon = 1e-5};
    const bool is_affine = draw_between(random, 0, 2) > 0;
    kernel_case c = {.id = BGI_KERNEL_LAYER_NORM,
                     .attributes = &attributes,
                     .relative = dtype == BG_FLOAT32 ? 2e-5 : 1.0 / 128,
                     .absolute = 3e-5};
    kernel_case back = c;

    back.id = BGI_KERNEL_LAYER_NORM_BACKWARD;
    case_input(&c, type, random, 1, 3);
    if (is_affine) {
        case_input(&c, row, random, -1, 1);
        case_input(&c, row, random, -1, 1);
    }
    case_output(&c, type);
    case_output(&c, statistics);
    case_output(&c, statistics);
    if (row.dims[0] == 1) /* no variance: rstd is 1 / sqrt(epsilon), and multiplies rounding errors */
        c.absolute = 1e-3;
    finish_case(&c);

    case_input(&back, type, random, -1, 1);
    case_input(&back, type, random, 1, 3);
    case_input(&back, statistics, random, 1.5, 2.5);
    case_input(&back, statistics, random, 0.5, 2);
    if (is_affine)
        case_input(&back, row, random, -1, 1);
    case_output(&back, type);
    if (is_affine) {
        case_output(&back, row);
        case_output(&back, row);
    }
    finish_case(&back);
}

static void test_layer_norm(void **state)
{
    random_state random = {3};

    (void)state;
    for (int i = 0; i < rounds(60); i++)
        check_layer_norm(&random);
}

/* The rows are a piece of rows that are `pieces` times as wide. */
static void check_sharded_norm(random_state *random)
{
    const bg_dtype dtype = draw_float(random);
    const bg_type type = draw_rows(random, dtype), row = bg_vector(dtype, type.dims[type.rank - 1]);
    const bg_type statistics = drop_last(&type, BG_FLOAT32);
    const int64_t pieces = draw_between(random, 1, 4), width = row.dims[0] * pieces;
    const bgi_sharded_norm_attributes attributes = {.epsilon = 1e-5, .width = width};
    bg_type pair = type;
    kernel_case sums = {.id = BGI_KERNEL_NORM_SUMS, .relative = 1e-14};
    kernel_case norm = {.id = BGI_KERNEL_SHARDED_NORM,
                        .attributes = &attributes,
                        .relative = dtype == BG_FLOAT32 ? 2e-6 : 1.0 / 128,
                        .absolute = 2e-6};
    kernel_case gradient_sums = {.id = BGI_KERNEL_NORM_GRADIENT_SUMS,
                                 .attributes = &attributes,
                                 .relative = sum_relative(BG_FLOAT32, (double)row.dims[0]),
                                 .absolute = 2 * sum_tolerance((double)row.dims[0])};
    kernel_case back = norm;
    double *totals;

    pair.dtype = BG_FLOAT64;
    pair.dims[pair.rank - 1] = 2;

    case_input(&sums, type, random, 1, 3);
    case_output(&sums, pair);
    finish_case(&sums);

    case_input(&norm, type, random, 1, 3);
    case_input(&norm, row, random, -1, 1);
    case_input(&norm, row, random, -1, 1);
    totals = case_input(&norm, pair, random, 0, 0);
    for (int64_t i = 0; i < bg_type_element_count(&statistics); i++) {
        const double mean = draw_real(random, 1.8, 2.2), deviation = draw_real(random, 0.3, 0.7);

        totals[2 * i] = mean * (double)width;
        totals[2 * i + 1] = (mean * mean + deviation * deviation) * (double)width;
    }
    case_output(&norm, type);
    case_output(&norm, statistics);
    case_output(&norm, statistics);
    finish_case(&norm);

    case_input(&gradient_sums, type, random, -1, 1);
    case_input(&gradient_sums, type, random, 1, 3);
    case_input(&gradient_sums, statistics, random, 1.5, 2.5);
    case_input(&gradient_sums, statistics, random, 0.5, 2);
    case_input(&gradient_sums, row, random, -1, 1);
    case_output(&gradient_sums, pair);
    finish_case(&gradient_sums);

    back.id = BGI_KERNEL_SHARDED_NORM_BACKWARD;
    back.absolute = 3e-5;
    back.relative = dtype == BG_FLOAT32 ? 2e-5 : 1.0 / 128;
    case_input(&back, type, random, -1, 1);
    case_input(&back, type, random, 1, 3);
    case_input(&back, statistics, random, 1.5, 2.5);
    case_input(&back, statistics, random, 0.5, 2);
    case_input(&back, row, random, -1, 1);
    case_input(&back, pair, random, -(double)width, (double)width);
    case_output(&back, type);
    case_output(&back, row);
    case_output(&back, row);
    finish_case(&back);
}

static void test_sharded_norm(void **state)
{
    random_state random = {5};

    (void)state;
    for (int i = 0; i < rounds(60); i++)
        check_sharded_norm(&random);
}

static void test_reduce(void **state)
{
    random_state random = {4};

    (void)state;
    for (int i = 0; i < rounds(120); i++) {
        const bg_dtype dtype = draw_float(&random);
        const bool is_long = draw_between(&random, 0, 9) == 0;
        const int64_t dims[4] = {draw_between(&random, 1, 4), draw_between(&random, 1, is_long ? 600 : 6),
                                 draw_between(&random, 1, 7), draw_between(&random, 1, is_long ? 600 : 40)};
        const uint32_t first = (uint32_t)draw_between(&random, 0, 3), last = (uint32_t)draw_between(&random, first, 3);
        bgi_reduce_attributes attributes = {.function = (bg_reduction)draw_between(&random, 0, BG_REDUCTION_COUNT - 1),
                                            .keep_dims = true};
        kernel_case c = {.id = BGI_KERNEL_REDUCE, .attributes = &attributes};
        int64_t kept[4], terms = 1;
        float *x;

        for (uint32_t d = 0; d < 4; d++) {
            const bool is_reduced = d >= first && d <= last;

            kept[d] = is_reduced ? 1 : dims[d];
            terms *= is_reduced ? dims[d] : 1;
            attributes.axes |= is_reduced ? 1u << d : 0;
        }
        if (attributes.function != BG_REDUCE_MAX) {
            c.relative = 2 * unit_of(dtype);
            c.absolute = sum_tolerance((double)terms);
        }
        x = case_input(&c, bg_type_make(dtype, 4, dims), &random, -1, 1);
        if (dtype == BG_FLOAT32 && i % 3 == 0)
            x[0] = NAN;
        case_output(&c, bg_type_make(dtype, 4, kept));
        finish_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax), cmocka_unit_test(test_softmax_declines_other_axes),
        cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_sharded_norm), cmocka_unit_test(test_reduce)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
