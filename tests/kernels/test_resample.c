/*
 * test_resample.c: interpolation and its gradient are compared with the reference: random modes, sizes and scales, and
 * few or many planes, so that both orders of the sums occur.
 */
#include "kernels/kernel_case.h"
#include "kernels/resample/attributes.h"

static int rounds(int quick)
{
    return getenv("BRIGADE_TEST_ALL") ? 20 * quick : quick;
}

static bgi_resample_axis draw_axis(random_state *random)
{
    bgi_resample_axis axis = {.in = draw_between(random, 1, draw_between(random, 0, 5) ? 12 : 40)};

    axis.is_same = draw_between(random, 0, 5) == 0;
    axis.out = axis.is_same ? axis.in : draw_between(random, 1, draw_between(random, 0, 5) ? 20 : 50);
    if (!axis.is_same && draw_between(random, 0, 2) == 0)
        axis.scale = draw_real(random, 0.3, 3.0);
    return axis;
}

static void test_resample(void **state)
{
    random_state random = {1};

    (void)state;
    for (int i = 0; i < rounds(240); i++) {
        const bg_dtype dtype = draw_float(&random);
        const bgi_resample_attributes attributes = {
            .mode = (bg_interpolation)(i % BG_INTERPOLATION_COUNT),
            .coordinates = (bg_coordinates)draw_between(&random, 0, BG_COORDINATES_COUNT - 1),
            .nearest = (bg_nearest)draw_between(&random, 0, BG_NEAREST_COUNT - 1),
            .cubic = -0.75,
            .axes = {draw_axis(&random), draw_axis(&random)},
            .is_backward = draw_between(&random, 0, 1) != 0};
        const int64_t planes = draw_between(&random, 1, draw_between(&random, 0, 1) ? 4 : 20);
        const bgi_resample_axis *axes = attributes.axes;
        const bg_type x = bg_type_make(dtype, 3, (int64_t[]){planes, axes[0].in, axes[1].in});
        const bg_type y = bg_type_make(dtype, 3, (int64_t[]){planes, axes[0].out, axes[1].out});
        kernel_case c = {.id = BGI_KERNEL_RESAMPLE,
                         .attributes = &attributes,
                         .relative = 2 * unit_of(dtype),
                         .absolute = 4e-6 * (1.0 + sqrt((double)(axes[0].out * axes[1].out)))};

        case_input(&c, attributes.is_backward ? y : x, &random, -1, 1);
        case_output(&c, attributes.is_backward ? x : y);
        assert_int_equal(case_check(&c, 0), count_isas());
        case_clear(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_resample)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
