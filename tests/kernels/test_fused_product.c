/*
 * test_fused_product.c: a product that is fused with the next kernels is bit-identical to the separate kernels. This
 * holds with the reference and every instruction set, for every shape, order of parts, limit of scratch and kind of
 * partial sums.
 */
#include "kernels/elementwise/attributes.h"
#include "kernels/kernel_case.h"
#include "kernels/linear/attributes.h"

enum { MOST_STEPS = 3 };

/* The separate kernels. Each reads the result of the previous kernel and operands of the fused case. */
typedef struct chain {
    kernel_case fused, steps[MOST_STEPS];
    bgi_fused_product_attributes attributes;
    bgi_matmul_attributes layout;
    bgi_unary_attributes unary;
    bgi_binary_attributes add;
    uint32_t count;
} chain;

static void copy_input(kernel_case *to, const kernel_case *from, uint32_t input)
{
    const bg_type type = from->types[input];

    to->types[to->input_count] = type;
    to->initial[to->input_count] = take_operand(&type);
    memcpy(to->initial[to->input_count++], from->initial[input], bg_type_size_bytes(&type));
}

/* Adds a step whose input 0, which is set later, is the result of the previous step. */
static kernel_case *add_step(chain *c, bgi_kernel_id id, const void *attributes, const bg_type *y)
{
    kernel_case *step = &c->steps[c->count++];

    *step = (kernel_case){.id = id, .attributes = attributes, .partials = c->fused.partials};
    step->types[0] = *y;
    step->initial[0] = take_operand(y);
    step->input_count = 1;
    return step;
}

static void add_product(chain *c, bgi_kernel_id id, uint32_t inputs, const bg_type *y)
{
    kernel_case *step = &c->steps[c->count++];

    *step = (kernel_case){.id = id, .attributes = &c->layout, .partials = c->fused.partials};
    for (uint32_t i = 0; i < inputs; i++)
        copy_input(step, &c->fused, i);
    case_output(step, *y);
}

/* Runs the steps; `sum` gets the result before the last step, `y` that of the last step. */
static bool run_steps(chain *c, bgi_isa isa, void **sum, void **y)
{
    const uint32_t last = c->count - 1;
    bool has_run = true;

    for (uint32_t s = 0; has_run && s <= last; s++) {
        kernel_case *step = &c->steps[s];
        const size_t size = bg_type_size_bytes(&step->types[step->input_count]);
        void *results[CASE_OPERANDS];
        has_run = case_run(step, isa, (int)(s + 1) % 3, results);
        if (!has_run)
            return false;
        memcpy(s == last ? *y : *sum, results[step->input_count], size);
        if (s < last)
            memcpy(c->steps[s + 1].initial[0], results[step->input_count], size);
        free_results(step, results);
    }
    return true;
}

static void expect_same(const chain *c, bgi_isa isa, uint32_t output, const void *got, const void *wanted)
{
    const kernel_case *fused = &c->fused;
    const bg_type *type = &fused->types[fused->input_count + output];

    for (int64_t e = 0; e < bg_type_element_count(type); e++) {
        const size_t size = bg_dtype_size_bytes(type->dtype), at = (size_t)e * size;
        if (memcmp((const char *)got + at, (const char *)wanted + at, size) != 0)
            fail_element(fused, isa, fused->input_count + output, e, bgi_load(type->dtype, got, e),
                         bgi_load(type->dtype, wanted, e));
    }
}

static void check_isa(chain *c, bgi_isa isa)
{
    const kernel_case *fused = &c->fused;
    const bg_type *y_type = &fused->types[fused->input_count];
    void *sum = take_operand(y_type), *y = take_operand(y_type);
    static const size_t limits[] = {0, 1, 300000};

    if (isa != REFERENCE && !run_steps(c, isa, &sum, &y)) {
        void *results[CASE_OPERANDS];
        assert_false(case_run(fused, isa, 0, results));
    } else {
        assert_true(isa != REFERENCE || run_steps(c, isa, &sum, &y));
        for (int order = 0; order < 3; order++) {
            kernel_case bounded = *fused;
            void *results[CASE_OPERANDS];
            bounded.scratch_limit = limits[order];
            assert_true(case_run(&bounded, isa, order, results));
            expect_same(c, isa, 0, results[fused->input_count], y);
            if (c->attributes.keeps_sum)
                expect_same(c, isa, 1, results[fused->input_count + 1], sum);
            free_results(fused, results);
        }
    }
    free(sum);
    free(y);
}

/* Given `c` with the product's operands, adds the next kernels, in the fused case and as steps. */
static void finish_chain(chain *c, random_state *random, const bg_type *y, bool adds, bgi_product_follower follows,
                         bg_unary function)
{
    static const bgi_kernel_id products[] = {BGI_KERNEL_LINEAR, BGI_KERNEL_LINEAR_BACKWARD_INPUT, BGI_KERNEL_MATMUL};
    const uint32_t inputs = c->fused.input_count;

    c->fused.id = BGI_KERNEL_FUSED_PRODUCT;
    c->fused.attributes = &c->attributes;
    c->attributes.layout = c->layout;
    c->attributes.follows = (uint8_t)follows;
    c->attributes.function = (uint8_t)function;
    c->unary.function = function;
    c->add.function = BG_ADD;
    if (adds)
        case_input(&c->fused, bg_vector(y->dtype, y->dims[y->rank - 1]), random, -1, 1);
    if (follows == BGI_FOLLOWS_DERIVATIVE)
        case_input(&c->fused, *y, random, 0.2, 3);
    case_output(&c->fused, *y);
    if (c->attributes.keeps_sum)
        case_output(&c->fused, *y);
    add_product(c, products[c->attributes.product], inputs, y);
    if (adds) {
        kernel_case *step = add_step(c, BGI_KERNEL_BINARY, &c->add, y);
        copy_input(step, &c->fused, 2);
        case_output(step, *y);
    }
    if (follows != BGI_FOLLOWS_NOTHING) {
        const bool is_backward = follows == BGI_FOLLOWS_DERIVATIVE;
        kernel_case *step = add_step(c, is_backward ? BGI_KERNEL_UNARY_BACKWARD : BGI_KERNEL_UNARY, &c->unary, y);
        for (int i = 0; is_backward && i < 2; i++)
            copy_input(step, &c->fused, 2);
        case_output(step, *y);
    }
    for (int isa = (int)REFERENCE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa))
        check_isa(c, (bgi_isa)isa);
    case_clear(&c->fused);
    for (uint32_t s = 0; s < c->count; s++)
        case_clear(&c->steps[s]);
}

static bg_unary draw_function(random_state *random)
{
    static const bg_unary functions[] = {BG_GELU_TANH, BG_GELU, BG_RELU, BG_TANH, BG_SIGMOID, BG_SQUARE};

    return functions[draw_between(random, 0, 5)];
}

/* Checks LINEAR with a bias, followed by a function, and the gradient of its input, followed by a derivative. */
static void check_linear(random_state *random, bg_dtype dtype, int64_t rows, int64_t in, int64_t out, bg_dtype partials)
{
    const bg_type y = bg_matrix(dtype, rows, out), dx = bg_matrix(dtype, rows, in);
    chain forward = {.fused.partials = partials}, backward = {.fused.partials = partials};

    forward.attributes.product = BGI_PRODUCT_LINEAR;
    forward.attributes.keeps_sum = draw_between(random, 0, 1);
    case_input(&forward.fused, dx, random, -1, 1);
    case_input(&forward.fused, bg_matrix(dtype, out, in), random, -1, 1);
    if (draw_between(random, 0, 1))
        case_input(&forward.fused, bg_vector(dtype, out), random, -1, 1);
    finish_chain(&forward, random, &y, false, BGI_FOLLOWS_FUNCTION, draw_function(random));

    backward.attributes.product = BGI_PRODUCT_LINEAR_BACKWARD_INPUT;
    case_input(&backward.fused, y, random, -1, 1);
    case_input(&backward.fused, bg_matrix(dtype, out, in), random, -1, 1);
    finish_chain(&backward, random, &dx, false, BGI_FOLLOWS_DERIVATIVE, draw_function(random));
}

/* Checks MATMUL followed by a bias, a function, both or a derivative; it is batched, and each factor is transposed or
 * not. */
static void check_matmul(random_state *random, bg_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k,
                         bg_dtype partials)
{
    const int64_t whole = draw_between(random, 0, 1) ? batch : 1;
    const bgi_matmul_attributes layout = {draw_between(random, 0, 1), draw_between(random, 0, 1)};
    const bg_type y = bg_type_make(dtype, 3, (int64_t[]){batch, m, n});

    for (int what = 0; what < 4; what++) {
        const bool adds = what < 2;
        chain c = {.fused.partials = partials, .layout = layout};

        c.attributes.product = BGI_PRODUCT_MATMUL;
        c.attributes.keeps_sum = (what == 1 || what == 2) && draw_between(random, 0, 1);
        case_input(&c.fused,
                   bg_type_make(dtype, 3, (int64_t[]){batch, layout.transpose_a ? k : m, layout.transpose_a ? m : k}),
                   random, -1, 1);
        case_input(&c.fused,
                   bg_type_make(dtype, 3, (int64_t[]){whole, layout.transpose_b ? n : k, layout.transpose_b ? k : n}),
                   random, -1, 1);
        finish_chain(&c, random, &y, adds,
                     what == 0   ? BGI_FOLLOWS_NOTHING
                     : what == 3 ? BGI_FOLLOWS_DERIVATIVE
                                 : BGI_FOLLOWS_FUNCTION,
                     what == 0 ? (bg_unary)0 : draw_function(random));
    }
}

static bg_dtype draw_dtype(random_state *random)
{
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16, BG_FLOAT64};

    return dtypes[draw_between(random, 0, 4)];
}

static void test_odd_shapes(void **state)
{
    random_state random = {11};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 600 : 25;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        const bg_dtype dtype = draw_dtype(&random);
        check_linear(&random, dtype, draw_between(&random, 1, 41), draw_between(&random, 1, 70),
                     draw_between(&random, 1, 70), BG_DTYPE_NONE);
        check_matmul(&random, dtype, draw_between(&random, 1, 3), draw_between(&random, 1, 30),
                     draw_between(&random, 1, 70), draw_between(&random, 1, 50), BG_DTYPE_NONE);
    }
}

/* Products have several blocks of rows, panels and depth, rows longer than one finishing pass, and sums that are
 * rounded. */
static void test_blocks(void **state)
{
    random_state random = {12};

    (void)state;
    check_linear(&random, BG_FLOAT32, 40, 320, 256, BG_DTYPE_NONE);
    check_linear(&random, BG_FLOAT32, 3, 40, 1100, BG_DTYPE_NONE);
    check_linear(&random, BG_BFLOAT16, 270, 300, 150, BG_DTYPE_NONE);
    check_linear(&random, BG_FLOAT16, 70, 300, 150, BG_DTYPE_NONE);
    check_linear(&random, BG_BFLOAT16, 30, 600, 70, BG_BFLOAT16);
    check_matmul(&random, BG_FLOAT32, 1, 290, 170, 530, BG_DTYPE_NONE);
    check_matmul(&random, BG_FLOAT32, 2, 5, 1300, 31, BG_DTYPE_NONE);
    check_matmul(&random, BG_BFLOAT16, 1, 270, 100, 520, BG_DTYPE_NONE);
    check_matmul(&random, BG_BFLOAT16, 2, 21, 70, 700, BG_BFLOAT16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_odd_shapes), cmocka_unit_test(test_blocks)};

    return cmocka_run_group_tests_name("kernels/fused_product", tests, NULL, NULL);
}
