/*
 * test_conv.c: compares convolutions of any stride, padding, dilation and groups with the reference.
 */
#include "kernels/conv/attributes.h"
#include "kernels/kernel_case.h"

typedef struct shape {
    int64_t n, c, h, w, o, kh, kw;
    bgi_conv2d_attributes attributes;
    bg_dtype dtype;
    bool bias;
} shape;

static int64_t out_size(const shape *s, int dim)
{
    const bg_conv2d_options *o = &s->attributes.options;
    const int64_t size = dim ? s->w : s->h, kernel = dim ? s->kw : s->kh;

    return (size + 2 * o->padding[dim] - o->dilation[dim] * (kernel - 1) - 1) / o->stride[dim] + 1;
}

static shape draw_shape(random_state *random)
{
    int64_t groups = draw_between(random, 0, 2) ? 1 : draw_between(random, 2, 4);
    shape s = {.n = draw_between(random, 1, 3),
               .c = groups * draw_between(random, 1, 9),
               .o = groups * draw_between(random, 1, 12),
               .kh = draw_between(random, 1, 5),
               .kw = draw_between(random, 1, 5),
               .dtype = draw_float(random),
               .bias = draw_between(random, 0, 1)};
    bg_conv2d_options *o = &s.attributes.options;

    if (draw_between(random, 0, 3) == 0) /* enough channels for a vector of any instruction set */
        s.c += 12 * groups;
    if (draw_between(random, 0, 5) == 0) /* a filter for each channel */
        s.c = s.o = groups = draw_between(random, 1, 9);
    o->groups = groups;
    for (int dim = 0; dim < 2; dim++) {
        const int64_t kernel = dim ? s.kw : s.kh;

        o->stride[dim] = draw_between(random, 0, 1) ? 1 : draw_between(random, 1, 3);
        o->dilation[dim] = draw_between(random, 0, 2) ? 1 : 2;
        o->padding[dim] = draw_between(random, 0, kernel);
        *(dim ? &s.w : &s.h) = draw_between(random, o->dilation[dim] * (kernel - 1) + 1, 24);
    }
    return s;
}

static bg_type x_type(const shape *s)
{
    return bg_tensor4(s->dtype, s->n, s->c, s->h, s->w);
}

static bg_type w_type(const shape *s)
{
    return bg_tensor4(s->dtype, s->o, s->c / s->attributes.options.groups, s->kh, s->kw);
}

static bg_type y_type(const shape *s)
{
    return bg_tensor4(s->dtype, s->n, s->o, out_size(s, 0), out_size(s, 1));
}

static kernel_case begin_case(bgi_kernel_id id, const shape *s, int64_t terms)
{
    return (kernel_case){.id = id,
                         .attributes = &s->attributes,
                         .relative = 2 * unit_of(s->dtype),
                         .absolute = sum_tolerance((double)terms)};
}

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), count_isas());
    case_clear(c);
}

static void check(const shape *s, random_state *random)
{
    kernel_case forward = begin_case(BGI_KERNEL_CONV2D, s, s->c * s->kh * s->kw);
    kernel_case input = begin_case(BGI_KERNEL_CONV2D_BACKWARD_INPUT, s, s->o * s->kh * s->kw);
    kernel_case weights = begin_case(BGI_KERNEL_CONV2D_BACKWARD_WEIGHTS, s, s->n * out_size(s, 0) * out_size(s, 1));

    case_input(&forward, x_type(s), random, -1, 1);
    case_input(&forward, w_type(s), random, -1, 1);
    if (s->bias)
        case_input(&forward, bg_vector(s->dtype, s->o), random, -1, 1);
    case_output(&forward, y_type(s));
    finish_case(&forward);

    case_input(&input, y_type(s), random, -1, 1);
    case_input(&input, w_type(s), random, -1, 1);
    case_output(&input, x_type(s));
    finish_case(&input);

    case_input(&weights, y_type(s), random, -1, 1);
    case_input(&weights, x_type(s), random, -1, 1);
    case_output(&weights, w_type(s));
    if (s->bias)
        case_output(&weights, bg_vector(s->dtype, s->o));
    case_check_accumulating(&weights, random);
    finish_case(&weights);
}

static void test_random_shapes(void **state)
{
    random_state random = {77};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 2000 : 80;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        const shape s = draw_shape(&random);

        check(&s, &random);
    }
}

/* Shapes have several units and parts, blocks of channels, and depths of several blocks. */
static void test_larger_shapes(void **state)
{
    random_state random = {78};
    const shape shapes[] = {
        {2, 48, 20, 21, 40, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        {1, 12, 50, 40, 20, 5, 5, {{0, {2, 2}, {2, 2}, {1, 1}, 2}}, BG_FLOAT32, true},
        {1, 8, 90, 91, 6, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_BFLOAT16, true},
        /* cases without patches: strips, phases, sides, sums over several images and parts, depth in blocks */
        {3, 16, 32, 32, 20, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        {5, 16, 32, 32, 32, 3, 3, {{0, {2, 2}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, false},
        {9, 20, 16, 16, 24, 1, 1, {{0, {2, 2}, {0, 0}, {1, 1}, 1}}, BG_FLOAT32, false},
        {40, 40, 8, 8, 30, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        {33, 20, 4, 4, 20, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        {21, 18, 8, 8, 20, 3, 3, {{0, {2, 2}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        {2, 3, 60, 64, 12, 7, 7, {{0, {2, 2}, {3, 3}, {1, 1}, 1}}, BG_FLOAT32, true},
        {2, 24, 23, 24, 24, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 24}}, BG_FLOAT32, true},
        {3, 20, 31, 33, 20, 5, 5, {{0, {2, 2}, {2, 2}, {1, 1}, 20}}, BG_FLOAT32, true},
        {2, 40, 17, 50, 40, 3, 3, {{0, {1, 3}, {0, 2}, {2, 1}, 40}}, BG_FLOAT32, false},
        /* more results than fit one sum of dw; strips and chunks of channels */
        {2, 36, 20, 20, 150, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        {1, 130, 40, 40, 24, 3, 3, {{0, {2, 2}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, false},
        {1, 150, 9, 14, 130, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        {1, 16, 48, 40, 16, 3, 3, {{0, {1, 1}, {2, 2}, {2, 2}, 2}}, BG_FLOAT32, true},
        {2, 10, 31, 47, 9, 4, 3, {{0, {3, 2}, {2, 1}, {1, 3}, 1}}, BG_FLOAT32, true},
        /* plain matrix products */
        {3, 70, 14, 14, 90, 1, 1, {{0, {1, 1}, {0, 0}, {1, 1}, 1}}, BG_FLOAT32, true},
        {2, 40, 9, 11, 24, 1, 1, {{0, {1, 1}, {0, 0}, {1, 1}, 2}}, BG_FLOAT16, true},
        /* several images in a sum of dw, with many channels, an incomplete vector, and several sums */
        {40, 12, 4, 4, 130, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        {24, 20, 5, 5, 140, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, false},
        {100, 2, 4, 4, 3, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        /* a dw of few panels: runs of images, with and without a group for each half of the channels, and in 16 bits */
        {16, 24, 12, 12, 30, 1, 1, {{0, {1, 1}, {0, 0}, {1, 1}, 1}}, BG_FLOAT32, true},
        {12, 24, 20, 20, 48, 1, 1, {{0, {1, 1}, {0, 0}, {1, 1}, 2}}, BG_FLOAT32, false},
        {9, 10, 20, 20, 40, 1, 1, {{0, {1, 1}, {0, 0}, {1, 1}, 1}}, BG_BFLOAT16, true},
        /* dw with channels in lanes: chains of several images, of which the last is shorter; chains of strips, in runs;
           strides, a dilation and groups; several vectors, one of them incomplete; long filters; several blocks of rows
         */
        {7, 32, 8, 8, 40, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        {5, 16, 27, 24, 20, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, false},
        {3, 32, 17, 15, 24, 3, 2, {{0, {2, 1}, {1, 2}, {2, 1}, 2}}, BG_FLOAT32, true},
        {4, 36, 12, 12, 24, 1, 1, {{0, {1, 1}, {0, 0}, {1, 1}, 1}}, BG_FLOAT32, false},
        {2, 16, 10, 11, 9, 5, 5, {{0, {1, 1}, {2, 2}, {1, 1}, 1}}, BG_FLOAT32, true},
        {2, 16, 5, 5, 300, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
        /* images of a vector or two, whose copies have a mask for each place */
        {3, 16, 4, 4, 20, 3, 3, {{0, {1, 1}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, false},
        {9, 5, 2, 3, 6, 5, 3, {{0, {1, 1}, {2, 1}, {1, 1}, 1}}, BG_FLOAT32, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(&shapes[i], &random);
}

/* Checks that a NaN or an infinity affects only results whose windows include it. */
static void check_not_finite(int64_t h, int64_t w, int64_t stride)
{
    random_state random = {79};
    const shape s = {2, 4, h, w, 6, 3, 3, {{0, {stride, stride}, {1, 1}, {1, 1}, 1}}, BG_FLOAT32, true};
    kernel_case forward = begin_case(BGI_KERNEL_CONV2D, &s, s.c * s.kh * s.kw);
    kernel_case input = begin_case(BGI_KERNEL_CONV2D_BACKWARD_INPUT, &s, s.o * s.kh * s.kw);
    float *x = case_input(&forward, x_type(&s), &random, -1, 1), *dy;

    x[3 * w + w - 1] = NAN; /* the last column */
    x[h * w + 7] = INFINITY;
    case_input(&forward, w_type(&s), &random, -1, 1);
    case_input(&forward, bg_vector(s.dtype, s.o), &random, -1, 1);
    case_output(&forward, y_type(&s));
    finish_case(&forward);

    dy = case_input(&input, y_type(&s), &random, -1, 1);
    dy[out_size(&s, 1) + out_size(&s, 1) / 2] = NAN;
    case_input(&input, w_type(&s), &random, -1, 1);
    case_output(&input, x_type(&s));
    finish_case(&input);
}

/* Rows have any width or whole vectors, and an image may be one vector. */
static void test_not_finite(void **state)
{
    (void)state;
    for (int64_t stride = 1; stride < 3; stride++) {
        check_not_finite(16, 21, stride);
        check_not_finite(16, 32, stride);
        check_not_finite(4, 4, stride);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_shapes), cmocka_unit_test(test_larger_shapes),
                                       cmocka_unit_test(test_not_finite)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
