/*
 * test_pointwise_loss.c: compares elementwise losses with the reference, for every function and reduction.
 */
#include "kernels/kernel_case.h"
#include "kernels/pointwise_loss/attributes.h"

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), count_isas());
    case_clear(c);
}

static bgi_pointwise_loss_attributes draw_attributes(bg_pointwise_loss_function function, random_state *random)
{
    bgi_pointwise_loss_attributes attributes = {.function = function,
                                                .reduction = (bg_loss_reduction)draw_between(random, 0, 2)};

    if (function == BG_LOSS_SMOOTH_L1 || function == BG_LOSS_BINARY_LOGITS)
        attributes.parameter = 0.25 * (double)draw_between(random, 0, 8);
    if (function == BG_LOSS_HUBER)
        attributes.parameter = 0.25 * (double)draw_between(random, 1, 8);
    return attributes;
}

/* Adds prediction and target in the ranges that the function accepts; their first elements are the limits of these
 * ranges. */
static void add_operands(kernel_case *c, bg_pointwise_loss_function function, bg_type type, random_state *random)
{
    static const double edges[][2] = {{0, 0}, {1, 1}, {0, 1}, {1, 0}, {0.5, 0.5}, {-0.0, 0}};
    const bool are_probabilities = function == BG_LOSS_BINARY;
    const bool has_shares = function >= BG_LOSS_BINARY_LOGITS && function <= BG_LOSS_KL;
    const uint32_t first = c->input_count;
    const int64_t count = bg_type_element_count(&type);
    void *p, *t;

    if (are_probabilities)
        p = case_input(c, type, random, 0.001, 0.999);
    else
        p = case_input(c, type, random, -9, function >= BG_LOSS_KL ? 0 : 9);
    if (has_shares)
        t = case_input(c, type, random, 0, 1);
    else
        t = case_input(c, type, random, -9, function >= BG_LOSS_KL ? 0 : 9);
    for (int64_t i = 0; i < count && i < (int64_t)(sizeof edges / sizeof *edges); i++) {
        bgi_store(type.dtype, p, i, edges[i][0]);
        bgi_store(type.dtype, t, i, edges[i][1]);
    }
    if (count > 8 && draw_between(random, 0, 3) == 0)
        bgi_store(type.dtype, c->initial[first + (uint32_t)draw_between(random, 0, 1)], 7, NAN);
}

static void check(bg_pointwise_loss_function function, random_state *random)
{
    const bg_dtype dtype = draw_float(random);
    const bgi_pointwise_loss_attributes attributes = draw_attributes(function, random);
    const int64_t count =
        draw_between(random, 0, 9) ? draw_between(random, 1, 700) : draw_between(random, 30000, 90000);
    const bg_type type = bg_vector(dtype, count), scalar = bg_scalar(BG_FLOAT32), each = bg_vector(BG_FLOAT32, count);
    const bool is_single = attributes.reduction != BG_LOSS_NONE;
    kernel_case c = {.id = BGI_KERNEL_POINTWISE_LOSS, .attributes = &attributes, .relative = 2e-6, .absolute = 2e-6};

    add_operands(&c, function, type, random);
    if (attributes.reduction == BG_LOSS_SUM)
        c.absolute = 1e-7 * (double)count;
    case_output(&c, is_single ? scalar : each);
    finish_case(&c);
    for (uint32_t of_target = 0; of_target < 2; of_target++) {
        bgi_pointwise_loss_attributes of = attributes;
        kernel_case back = {.id = BGI_KERNEL_POINTWISE_LOSS_BACKWARD,
                            .attributes = &of,
                            .relative = dtype == BG_FLOAT32 ? 3e-6 : 1.0 / 128,
                            .absolute = dtype == BG_FLOAT32 ? 2e-6 : 1e-4};

        of.of_target = of_target;
        case_input(&back, is_single ? scalar : each, random, -2, 2);
        add_operands(&back, function, type, random);
        case_output(&back, type);
        finish_case(&back);
    }
}

static void test_all(void **state)
{
    random_state random = {26};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 200 : 20;

    (void)state;
    for (int i = 0; i < rounds; i++)
        for (int function = 0; function < BG_LOSS_FUNCTION_COUNT; function++)
            check((bg_pointwise_loss_function)function, &random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
