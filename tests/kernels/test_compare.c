/*
 * test_compare.c: compares comparison and `where` kernels with the reference, bit by bit.
 */
#include "kernels/compare/attributes.h"
#include "kernels/kernel_case.h"

static int rounds(int quick)
{
    return getenv("BRIGADE_TEST_ALL") ? 20 * quick : quick;
}

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), count_isas());
    case_clear(c);
}

typedef struct shape {
    int64_t dims[4];
} shape;

static shape draw_shape(random_state *random)
{
    if (draw_between(random, 0, 7) == 0) /* several parts */
        return (shape){{draw_between(random, 1, 3), draw_between(random, 90, 120), draw_between(random, 1, 9),
                        draw_between(random, 30, 60)}};
    return (shape){{draw_between(random, 1, 5), draw_between(random, 1, 9), draw_between(random, 1, 7),
                    draw_between(random, 1, 40)}};
}

/* Returns the full shape, or one that broadcasts to it along its first and last dims. */
static bg_type draw_operand(random_state *random, bg_dtype dtype, const shape *full)
{
    const uint32_t first = (uint32_t)draw_between(random, 0, 4), last = (uint32_t)draw_between(random, first, 4);
    const uint32_t drop = (uint32_t)draw_between(random, 0, first);
    int64_t own[4];

    if (draw_between(random, 0, 2) == 0)
        return bg_type_make(dtype, 4, full->dims);
    for (uint32_t d = 0; d < 4; d++)
        own[d] = d >= first && d < last ? full->dims[d] : 1;
    return bg_type_make(dtype, 4 - drop, own + drop);
}

/* Stores few different numbers, so that some elements are equal, and NaN. */
static void put_equal_ones(bg_dtype dtype, void *data, const bg_type *type, random_state *random)
{
    static const double values[] = {0.0, -0.0, 1.0, -1.0, 0.5, INFINITY, -INFINITY, NAN};

    for (int64_t i = 0; i < bg_type_element_count(type); i++)
        bgi_store(dtype, data, i, values[draw_between(random, 0, 7)]);
}

static void test_comparisons(void **state)
{
    random_state random = {1};

    (void)state;
    for (int i = 0; i < rounds(180); i++) {
        static const bg_dtype integers[] = {BG_UINT8, BG_INT32, BG_INT64};
        const bg_dtype dtype =
            draw_between(&random, 0, 1) ? draw_float(&random) : integers[draw_between(&random, 0, 2)];
        const bgi_compare_attributes attributes = {(uint32_t)i % BGI_COMPARE_COUNT};
        const shape full = draw_shape(&random);
        const bg_type a = draw_operand(&random, dtype, &full), b = draw_operand(&random, dtype, &full);
        kernel_case c = {.id = BGI_KERNEL_COMPARE, .attributes = &attributes};

        put_equal_ones(dtype, case_input(&c, a, &random, -1, 1), &a, &random);
        put_equal_ones(dtype, case_input(&c, b, &random, -1, 1), &b, &random);
        case_output(&c, bg_type_make(BG_UINT8, 4, full.dims));
        finish_case(&c);
    }
}

/* Stores random bytes: the kernels move elements of every size as bytes, so a NaN keeps its bits. */
static void put_bytes(void *data, const bg_type *type, random_state *random)
{
    for (size_t i = 0; i < bg_type_size_bytes(type); i++)
        ((uint8_t *)data)[i] = (uint8_t)draw(random);
}

static void compare_bits(const kernel_case *c)
{
    const uint32_t output = c->input_count;
    void *wanted[CASE_OPERANDS], *got[CASE_OPERANDS];

    assert_true(case_run(c, REFERENCE, 0, wanted));
    for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa))
        for (int order = 0; order < 3; order++) {
            assert_true(case_run(c, (bgi_isa)isa, order, got));
            assert_memory_equal(got[output], wanted[output], bg_type_size_bytes(&c->types[output]));
            free_results(c, got);
        }
    free_results(c, wanted);
}

static void test_choices(void **state)
{
    random_state random = {2};

    (void)state;
    for (int i = 0; i < rounds(140); i++) {
        const bg_dtype dtype = (bg_dtype)(BG_FLOAT32 + i % (BG_DTYPE_COUNT - BG_FLOAT32));
        const shape full = draw_shape(&random);
        const bg_type a = draw_operand(&random, dtype, &full), b = draw_operand(&random, dtype, &full);
        kernel_case c = {.id = BGI_KERNEL_WHERE};

        case_input(&c, draw_operand(&random, BG_UINT8, &full), &random, 0, 2);
        put_bytes(case_input(&c, a, &random, 0, 1), &a, &random);
        put_bytes(case_input(&c, b, &random, 0, 1), &b, &random);
        case_output(&c, bg_type_make(dtype, 4, full.dims));
        compare_bits(&c);
        case_clear(&c);
    }
}

static void test_gradients_of_choices(void **state)
{
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT64, BG_FLOAT16};
    random_state random = {3};

    (void)state;
    for (int i = 0; i < rounds(80); i++) {
        const shape full = draw_shape(&random);
        const bg_type dy = bg_type_make(dtypes[i % 4], 4, full.dims);
        const bgi_where_gradient_attributes attributes = {.is_second = i / 4 % 2};
        kernel_case c = {.id = BGI_KERNEL_WHERE_GRADIENT, .attributes = &attributes};

        put_bytes(case_input(&c, dy, &random, 0, 1), &dy, &random);
        case_input(&c, draw_operand(&random, BG_UINT8, &full), &random, 0, 2);
        case_output(&c, dy);
        compare_bits(&c);
        case_clear(&c);
    }
}

/* The fast bodies decline these cases, so the reference runs them. */
static void test_others_are_declined(void **state)
{
    const bgi_compare_attributes attributes = {BG_LESS};
    const bg_type scattered = bg_tensor3(BG_FLOAT32, 2, 1, 4), full = bg_tensor3(BG_FLOAT32, 2, 3, 4);
    static const bg_dtype dtypes[] = {BG_FLOAT64};
    random_state random = {4};

    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        kernel_case c = {.id = BGI_KERNEL_COMPARE, .attributes = &attributes};

        case_input(&c, bg_vector(dtypes[d], 9), &random, 0, 3);
        case_input(&c, bg_vector(dtypes[d], 9), &random, 0, 3);
        case_output(&c, bg_vector(BG_UINT8, 9));
        assert_int_equal(case_check(&c, 0), 0);
        case_clear(&c);
    }
    for (uint32_t operand = 0; operand < 3; operand++) {
        kernel_case c = {.id = BGI_KERNEL_WHERE};

        for (uint32_t i = 0; i < 3; i++) {
            bg_type type = i == operand ? scattered : full;

            type.dtype = i == 0 ? BG_UINT8 : BG_FLOAT32;
            case_input(&c, type, &random, 0, 1);
        }
        case_output(&c, full);
        assert_int_equal(case_check(&c, 0), 0);
        case_clear(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_gradients_of_choices),
        cmocka_unit_test(test_others_are_declined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
