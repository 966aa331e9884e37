/*
 * test_rotary.c: compares rotary positions with the reference: both layouts, some or all features, and all kinds of
 * positions.
 */
#include "kernels/kernel_case.h"
#include "kernels/rotary/attributes.h"

static void test_rotary(void **state)
{
    random_state random = {1};

    (void)state;
    for (int i = 0; i < 80; i++) {
        const bg_dtype dtype = draw_float(&random);
        const int64_t samples = draw_between(&random, 1, 3), length = draw_between(&random, 1, 40);
        const int64_t heads = draw_between(&random, 1, 3), depth = draw_between(&random, 2, 40);
        const bg_type x = bg_tensor3(dtype, samples, length, heads * depth);
        const bgi_rotary_attributes attributes = {.heads = heads,
                                                  .features = 2 * draw_between(&random, 1, depth / 2),
                                                  .base = 10000.0,
                                                  .scaling = draw_real(&random, 0.5, 4),
                                                  .interleaved = i % 2,
                                                  .inverse = i % 3 == 0};
        kernel_case c = {.id = BGI_KERNEL_ROTARY,
                         .attributes = &attributes,
                         .relative = 2 * unit_of(dtype),
                         .absolute = 4 * unit_of(BG_FLOAT32)};

        case_input(&c, x, &random, -1, 1);
        if (i % 4 == 1)
            case_input(&c, bg_vector(BG_INT32, length), &random, -1000, 100000);
        if (i % 4 == 2)
            case_input(&c, bg_matrix(BG_INT32, samples, length), &random, 0, 100000);
        case_output(&c, x);
        assert_int_equal(case_check(&c, 0), count_isas());
        case_clear(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rotary)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
