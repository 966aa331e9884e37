/*
 * test_pad.c: compares padding and cumulative sums with the reference.
 */
#include "kernels/cumulative/attributes.h"
#include "kernels/kernel_case.h"
#include "kernels/pad/attributes.h"

static int rounds(int quick)
{
    return getenv("BRIGADE_TEST_ALL") ? 20 * quick : quick;
}

static void finish_case(kernel_case *c, bool is_taken)
{
    assert_int_equal(case_check(c, 0), is_taken ? count_isas() : 0);
    case_clear(c);
}

/* Draws an amount of padding that the mode allows on one side of a dimension. */
static int64_t draw_side(random_state *random, bg_pad_mode mode, int64_t size)
{
    return mode == BG_PAD_REFLECT    ? draw_between(random, 0, size - 1)
           : mode == BG_PAD_CIRCULAR ? draw_between(random, 0, size)
           : mode == BG_PAD_CONSTANT ? draw_between(random, -(size - 1) / 2, 5)
                                     : draw_between(random, 0, 5);
}

static void test_pad(void **state)
{
    random_state random = {1};

    (void)state;
    for (int i = 0; i < rounds(300); i++) {
        const bool is_large = draw_between(&random, 0, 9) == 0;
        const bg_dtype dtype =
            draw_between(&random, 0, 1) ? BG_FLOAT32 : (bg_dtype)draw_between(&random, BG_FLOAT32, BG_UINT8);
        bgi_pad_attributes attributes = {.mode = (bg_pad_mode)(i % BG_PAD_MODE_COUNT),
                                         .rank = (uint32_t)draw_between(&random, 0, 4),
                                         .value = (double)draw_between(&random, 0, 3)};
        kernel_case c = {.id = BGI_KERNEL_PAD, .attributes = &attributes};
        kernel_case back = {.id = BGI_KERNEL_PAD_BACKWARD, /* the reference rounds 16-bit sums at each step */
                            .attributes = &attributes,
                            .relative = dtype == BG_FLOAT32 ? 0.0 : 8.0 * unit_of(dtype),
                            .absolute = dtype == BG_FLOAT32 ? 0.0 : 40.0 * unit_of(dtype)};
        bg_type x, y;

        for (uint32_t d = 0; d < attributes.rank; d++) {
            attributes.dims[d] = draw_between(&random, 1, is_large ? 40 : 8);
            attributes.before[d] = draw_side(&random, attributes.mode, attributes.dims[d]);
            attributes.after[d] = draw_side(&random, attributes.mode, attributes.dims[d]);
        }
        x = y = bg_type_make(dtype, attributes.rank, attributes.dims);
        for (uint32_t d = 0; d < attributes.rank; d++)
            y.dims[d] += attributes.before[d] + attributes.after[d];
        case_input(&c, x, &random, 0, 200);
        case_output(&c, y);
        finish_case(&c, true);
        if (!bg_dtype_is_float(dtype))
            continue;
        case_input(&back, y, &random, -1, 1);
        case_output(&back, x);
        finish_case(&back, dtype != BG_FLOAT64);
    }
}

static void test_cumulative_sum(void **state)
{
    random_state random = {2};

    (void)state;
    for (int i = 0; i < rounds(200); i++) {
        const bool is_large = draw_between(&random, 0, 9) == 0;
        const uint32_t rank = (uint32_t)draw_between(&random, 1, 3);
        const bgi_cumulative_attributes attributes = {(uint32_t)draw_between(&random, 0, rank - 1),
                                                      (uint32_t)draw_between(&random, 0, 1),
                                                      (uint32_t)draw_between(&random, 0, 1)};
        kernel_case c = {.id = BGI_KERNEL_CUMULATIVE_SUM, .attributes = &attributes};
        int64_t dims[3];
        bg_type x;

        for (uint32_t d = 0; d < rank; d++)
            dims[d] = draw_between(&random, 1, is_large ? 80 : 12);
        x = bg_type_make(draw_float(&random), rank, dims);
        case_input(&c, x, &random, -9, 9);
        case_output(&c, x);
        finish_case(&c, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pad), cmocka_unit_test(test_cumulative_sum)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
