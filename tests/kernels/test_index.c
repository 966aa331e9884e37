/*
 * test_index.c: compares kernels that read and write elements by index with the reference.
 */
#include "kernels/index/attributes.h"
#include "kernels/kernel_case.h"

static int rounds(int quick)
{
    return getenv("BRIGADE_TEST_ALL") ? 20 * quick : quick;
}

/* Draws a tensor of one or several parts; `axis` gets one of its dimensions. */
static bg_type draw_tensor(random_state *random, bg_dtype dtype, uint32_t *axis)
{
    const uint32_t rank = (uint32_t)draw_between(random, 1, 3);
    const bool is_large = draw_between(random, 0, 5) == 0;
    int64_t dims[3];

    for (uint32_t d = 0; d < rank; d++)
        dims[d] = draw_between(random, 1, is_large ? (rank < 3 ? 500 : 60) : 12);
    *axis = (uint32_t)draw_between(random, 0, rank - 1);
    return bg_type_make(dtype, rank, dims);
}

/* Checks that all fast kernels run the case and agree with the reference, or that all decline it if `is_taken` is
 * false. */
static void finish_case(kernel_case *c, bool is_taken)
{
    assert_int_equal(case_check(c, 0), is_taken ? count_isas() : 0);
    case_clear(c);
}

static void check_rows(random_state *random, bg_dtype dtype, bg_dtype ids)
{
    const bool is_narrow = dtype == BG_BFLOAT16 || dtype == BG_FLOAT16; /* the reference rounds each step */
    bgi_index_attributes attributes = {0};
    const bg_type x = attributes.whole = draw_tensor(random, dtype, &attributes.axis);
    const int64_t size = x.dims[attributes.axis], count = draw_between(random, 1, 9) * draw_between(random, 1, 9);
    const double low = ids == BG_UINT8 ? 0 : -(double)size - 1, high = size > 200 ? 200 : (double)size;
    kernel_case c = {.id = BGI_KERNEL_GATHER, .attributes = &attributes};
    kernel_case back = {.id = BGI_KERNEL_SCATTER, .attributes = &attributes, .absolute = is_narrow ? 0.1 : 0};
    bg_type y = x;

    y.dims[attributes.axis] = count;
    case_input(&c, x, random, 0, 200);
    case_input(&c, bg_vector(ids, count), random, low, high);
    case_output(&c, y);
    finish_case(&c, true);
    if (!bg_dtype_is_float(dtype))
        return;
    case_input(&back, y, random, -1, 1);
    case_input(&back, bg_vector(ids, count), random, low, high);
    case_output(&back, x);
    finish_case(&back, dtype != BG_FLOAT64);
}

static void check_elements(random_state *random, bg_dtype dtype, bg_dtype ids)
{
    const bool is_narrow = dtype == BG_BFLOAT16 || dtype == BG_FLOAT16; /* the reference rounds each step */
    bgi_index_attributes attributes = {0};
    const bg_type x = attributes.whole = draw_tensor(random, dtype, &attributes.axis);
    const int64_t size = x.dims[attributes.axis];
    const double low = ids == BG_UINT8 ? 0 : -(double)size - 1, high = size > 200 ? 200 : (double)size;
    kernel_case c = {.id = BGI_KERNEL_GATHER_ELEMENTS, .attributes = &attributes};
    kernel_case back = {.id = BGI_KERNEL_SCATTER_ELEMENTS, .attributes = &attributes, .absolute = is_narrow ? 0.1 : 0};
    bg_type y = x, id_type;

    y.dims[attributes.axis] = draw_between(random, 1, 20);
    id_type = y;
    id_type.dtype = ids;
    case_input(&c, x, random, 0, 200);
    case_input(&c, id_type, random, low, high);
    case_output(&c, y);
    finish_case(&c, true);
    if (!bg_dtype_is_float(dtype))
        return;
    case_input(&back, y, random, -1, 1);
    case_input(&back, id_type, random, low, high);
    case_output(&back, x);
    finish_case(&back, dtype != BG_FLOAT64);
}

static void test_elements_by_number(void **state)
{
    static const bg_dtype ids[] = {BG_INT32, BG_INT64, BG_UINT8};
    random_state random = {1};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const bg_dtype dtype = (bg_dtype)draw_between(&random, BG_FLOAT32, BG_UINT8);

        check_rows(&random, dtype, ids[i % 3]);
        check_elements(&random, dtype, ids[i % 3]);
        check_rows(&random, BG_FLOAT32, ids[i % 3]);
        check_elements(&random, BG_FLOAT32, ids[i % 3]);
    }
}

static void test_one_hot(void **state)
{
    static const bg_dtype ids[] = {BG_INT32, BG_INT64, BG_UINT8};
    random_state random = {3};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const int64_t rows = i % 9 ? draw_between(&random, 1, 40) : 3000, classes = draw_between(&random, 1, 120);
        const bg_dtype id_type = ids[i % 3];
        kernel_case c = {.id = BGI_KERNEL_ONE_HOT};

        case_input(&c, bg_vector(id_type, rows), &random, id_type == BG_UINT8 ? 0 : -3, (double)classes + 2);
        case_output(&c, bg_matrix((bg_dtype)draw_between(&random, BG_FLOAT32, BG_UINT8), rows, classes));
        finish_case(&c, true);
    }
}

/* The elements are whole numbers, many of them equal, and some NaN. */
static void test_top_k(void **state)
{
    random_state random = {2};

    (void)state;
    for (int i = 0; i < rounds(200); i++) {
        const int64_t rows = draw_between(&random, 1, 60), columns = draw_between(&random, 1, i % 4 ? 300 : 1200);
        bgi_top_k_attributes attributes = {.k = draw_between(&random, 1, columns),
                                           .smallest = (uint32_t)draw_between(&random, 0, 1)};
        const bg_dtype dtype = draw_float(&random);
        const bg_type x = bg_matrix(dtype, rows, columns), y = bg_matrix(dtype, rows, attributes.k);
        kernel_case c = {.id = BGI_KERNEL_TOP_K, .attributes = &attributes};
        void *data = case_input(&c, x, &random, -9, 9);

        for (int64_t e = 0; e < rows * columns; e++)
            bgi_store(dtype, data, e,
                      draw_between(&random, 0, 30)  ? rint(bgi_load(dtype, data, e))
                      : draw_between(&random, 0, 1) ? NAN
                                                    : (double)INFINITY);
        case_output(&c, y);
        case_output(&c, bg_matrix(BG_INT32, rows, attributes.k));
        finish_case(&c, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elements_by_number), cmocka_unit_test(test_one_hot),
                                       cmocka_unit_test(test_top_k)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
