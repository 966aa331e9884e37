/*
 * test_conv_pool.c: compares the fused convolution kernels with the reference, over random shapes.
 */
#include "kernels/conv_pool/attributes.h"
#include "kernels/kernel_case.h"

typedef struct shape {
    int64_t n, c, h, w, o, kh, kw;
    bgi_conv2d_pool_attributes attributes;
    bg_dtype dtype;
} shape;

static shape draw_shape(random_state *random)
{
    shape s = {.n = draw_between(random, 1, 5),
               .c = draw_between(random, 1, 20),
               .o = draw_between(random, 1, 20),
               .kh = draw_between(random, 1, 7),
               .kw = draw_between(random, 1, 7),
               .attributes = {.pool = {draw_between(random, 1, 3), draw_between(random, 1, 3)},
                              .relu = draw_between(random, 0, 1)},
               .dtype = draw_float(random)};

    s.attributes.padding[0] = draw_between(random, 0, s.kh / 2);
    s.attributes.padding[1] = draw_between(random, 0, s.kw / 2);
    s.h = s.kh + s.attributes.pool[0] - 1 + draw_between(random, 0, 13);
    s.w = s.kw + s.attributes.pool[1] - 1 + draw_between(random, 0, 13);
    return s;
}

static bg_type x_type(const shape *s)
{
    return bg_tensor4(s->dtype, s->n, s->c, s->h, s->w);
}

static bg_type w_type(const shape *s)
{
    return bg_tensor4(s->dtype, s->o, s->c, s->kh, s->kw);
}

static bg_type y_type(const shape *s, bg_dtype dtype)
{
    const bgi_conv2d_pool_attributes *a = &s->attributes;

    return bg_tensor4(dtype, s->n, s->o, (s->h + 2 * a->padding[0] - s->kh + 1) / a->pool[0],
                      (s->w + 2 * a->padding[1] - s->kw + 1) / a->pool[1]);
}

static kernel_case begin_case(bgi_kernel_id id, const shape *s, double terms)
{
    return (kernel_case){.id = id,
                         .attributes = &s->attributes,
                         .relative = sum_relative(s->dtype, terms),
                         .absolute = sum_tolerance(terms)};
}

static void check_forward(const shape *s, random_state *random)
{
    kernel_case c = begin_case(BGI_KERNEL_CONV2D_POOL, s, (double)(s->c * s->kh * s->kw));

    case_input(&c, x_type(s), random, -1, 1);
    case_input(&c, w_type(s), random, -1, 1);
    case_input(&c, bg_vector(s->dtype, s->o), random, -1, 1);
    case_output(&c, y_type(s, s->dtype));
    case_output(&c, y_type(s, BG_UINT8));
    assert_int_equal(case_check(&c, s->dtype == BG_FLOAT32 ? 500 : 20), count_isas());
    case_clear(&c);
}

/* Draws dy and where; relu is off for a third of the windows. */
static void add_gradient(kernel_case *c, const shape *s, random_state *random)
{
    const bg_type where_type = y_type(s, BG_UINT8);
    const int64_t windows = s->attributes.pool[0] * s->attributes.pool[1];
    uint8_t *where;

    case_input(c, y_type(s, s->dtype), random, -1, 1);
    where = case_input(c, where_type, random, 0, (double)(windows - 1));
    for (int64_t i = 0; i < bg_type_element_count(&where_type); i++)
        if (draw_between(random, 0, 2) == 0)
            where[i] = 255;
}

static void check_backward_input(const shape *s, random_state *random)
{
    kernel_case c = begin_case(BGI_KERNEL_CONV2D_POOL_BACKWARD_INPUT, s, (double)(s->o * s->kh * s->kw));

    add_gradient(&c, s, random);
    case_input(&c, w_type(s), random, -1, 1);
    case_output(&c, x_type(s));
    assert_int_equal(case_check(&c, 0), count_isas());
    case_clear(&c);
}

static void check_backward_weights(const shape *s, random_state *random)
{
    const bg_type y = y_type(s, s->dtype);
    kernel_case c = begin_case(BGI_KERNEL_CONV2D_POOL_BACKWARD_WEIGHTS, s, (double)(s->n * y.dims[2] * y.dims[3]));

    add_gradient(&c, s, random);
    case_input(&c, x_type(s), random, -1, 1);
    case_output(&c, w_type(s));
    case_output(&c, bg_vector(s->dtype, s->o));
    case_check_accumulating(&c, random);
    assert_int_equal(case_check(&c, 0), count_isas());
    case_clear(&c);
}

static void test_random_shapes(void **state)
{
    random_state random = {20240607};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 2000 : 60;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        const shape s = draw_shape(&random);

        check_forward(&s, &random);
        check_backward_input(&s, &random);
        check_backward_weights(&s, &random);
    }
}

/* Shapes have several parts, several groups of images, bands of rows, and blocks of filters. */
static void test_larger_shapes(void **state)
{
    random_state random = {7};
    const bgi_conv2d_pool_attributes two = {.pool = {2, 2}, .relu = true};
    const bgi_conv2d_pool_attributes padded = {.padding = {1, 2}, .pool = {2, 3}, .relu = true};
    const shape shapes[] = {{41, 1, 28, 28, 10, 5, 5, two, BG_FLOAT32},
                            {9, 10, 12, 12, 20, 5, 5, two, BG_FLOAT32},
                            {2, 24, 40, 60, 7, 3, 5, padded, BG_FLOAT32},
                            {1, 40, 18, 18, 9, 3, 3, padded, BG_FLOAT32}};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_forward(&shapes[i], &random);
        check_backward_input(&shapes[i], &random);
        check_backward_weights(&shapes[i], &random);
    }
}

/* The first of several NaN wins; if all are minus infinity the first element wins; relu keeps NaN. */
static void test_not_finite(void **state)
{
    random_state random = {11};
    const shape s = {1, 1, 8, 8, 3, 1, 1, {.pool = {2, 2}}, BG_FLOAT32};
    kernel_case c = begin_case(BGI_KERNEL_CONV2D_POOL, &s, 1);
    float *x = case_input(&c, x_type(&s), &random, -1, 1);
    float *w = case_input(&c, w_type(&s), &random, 1, 2);

    (void)state;
    (void)w;
    case_input(&c, bg_vector(s.dtype, s.o), &random, -1, 1);
    case_output(&c, y_type(&s, s.dtype));
    case_output(&c, y_type(&s, BG_UINT8));
    x[1] = x[8] = NAN;
    x[2] = x[3] = x[10] = x[11] = -INFINITY;
    x[4] = INFINITY;
    x[14] = NAN;
    x[7] = INFINITY;
    assert_int_equal(case_check(&c, 0), count_isas());
    case_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_shapes), cmocka_unit_test(test_larger_shapes),
                                       cmocka_unit_test(test_not_finite)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
