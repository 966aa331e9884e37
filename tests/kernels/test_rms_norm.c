/*
 * test_rms_norm.c: compares RMS norms with the reference.
 */
#include "kernels/kernel_case.h"
#include "kernels/rms_norm/attributes.h"

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), count_isas());
    case_clear(c);
}

static void check(random_state *random)
{
    const bool is_large = draw_between(random, 0, 9) == 0, has_gamma = draw_between(random, 0, 2) > 0;
    const bg_dtype dtype = draw_float(random);
    const int64_t count = draw_between(random, 1, is_large ? 300 : 20);
    const int64_t length = draw_between(random, 1, is_large ? 400 : 50);
    const bg_type x = bg_matrix(dtype, count, length), row = bg_vector(dtype, length);
    const bg_type scales = bg_vector(BG_FLOAT32, count);
    const bgi_rms_norm_attributes attributes = {.epsilon = 1e-5};
    kernel_case c = {.id = BGI_KERNEL_RMS_NORM,
                     .attributes = &attributes,
                     .relative = dtype == BG_FLOAT32 ? 2e-6 : 1.0 / 128,
                     .absolute = 1e-6};
    kernel_case back = c;

    case_input(&c, x, random, -3, 3);
    if (has_gamma)
        case_input(&c, row, random, -1, 1);
    case_output(&c, x);
    case_output(&c, scales);
    finish_case(&c);

    back.id = BGI_KERNEL_RMS_NORM_BACKWARD;
    back.absolute = dtype == BG_FLOAT32 ? 2e-5 : 2e-2;
    case_input(&back, x, random, -1, 1);
    case_input(&back, x, random, -3, 3);
    case_input(&back, scales, random, 0.3, 1);
    if (has_gamma)
        case_input(&back, row, random, -1, 1);
    case_output(&back, x);
    if (has_gamma)
        case_output(&back, row);
    finish_case(&back);
}

static void test_all(void **state)
{
    random_state random = {26};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 2000 : 150;

    (void)state;
    for (int i = 0; i < rounds; i++)
        check(&random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
