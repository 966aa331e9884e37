/*
 * test_fused_norm.c: fused batch norms and their gradients have the bits of the separate kernels, on every instruction
 * set and for every type, and are close to the reference.
 */
#include "kernels/elementwise/attributes.h"
#include "kernels/kernel_case.h"
#include "kernels/norm/attributes.h"

typedef struct shape {
    bg_type x;
    bg_type vector, running;
    bg_type pair; /* mean and rstd in one operand, */
    bg_type one;  /* or in two */
    bool adds, maps, trains;
    bg_unary function;
} shape;

static const bgi_norm_attributes norm = {.epsilon = 1e-5, .momentum = 0.1};

/* Runs one kernel on `isa` and keeps its outputs in `out`. Inputs that the kernel changes are not kept. */
static void run_kernel(bgi_kernel_id id, bgi_isa isa, bool trains, const bg_type *types, uint32_t inputs,
                       uint32_t outputs, const void *attributes, void *const *operands, void *const *out)
{
    kernel_case c = {.id = id,
                     .attributes = attributes,
                     .env.training = trains,
                     .input_count = inputs,
                     .output_count = outputs,
                     .relative = 1.0};
    void *results[CASE_OPERANDS];

    for (uint32_t i = 0; i < inputs + outputs; i++) {
        c.types[i] = types[i];
        c.initial[i] = i < inputs ? operands[i] : out[i - inputs];
    }
    assert_true(case_run(&c, isa, 0, results));
    for (uint32_t i = 0; i < outputs; i++)
        memcpy(out[i], results[inputs + i], bg_type_size_bytes(&types[inputs + i]));
    free_results(&c, results);
}

static void expect_bits(const shape *s, const bg_type *type, const void *got, const void *wanted, bgi_isa isa,
                        const char *what)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (memcmp(got, wanted, bg_type_size_bytes(type)) != 0)
        fail_msg("isa %d, %s, adds %d, function %d: %s has other bits than the separate kernels'", (int)isa,
                 bg_type_text(&s->x, text), s->adds, s->maps ? (int)s->function : -1, what);
}

static bgi_unary_attributes unary_of(const shape *s)
{
    return (bgi_unary_attributes){s->function, s->function == BG_CLAMP ? -0.5 : 0.0, 1.0};
}

/* Compares y, mean and rstd with those of the separate kernels. */
static void check_forward(const shape *s, random_state *random)
{
    const bgi_fused_norm_attributes attributes = {.norm = norm, .unary = unary_of(s), .adds = s->adds, .maps = s->maps};
    const bgi_binary_attributes add = {.function = BG_ADD};
    const bool is_wide = s->x.dtype == BG_FLOAT32;
    kernel_case c = {.id = BGI_KERNEL_FUSED_BATCH_NORM,
                     .attributes = &attributes,
                     .env.training = s->trains,
                     .relative = is_wide ? 1e-5 : 0.03,
                     .absolute = is_wide ? 2e-5 : 0.08};
    void *y = take_operand(&s->x), *mean = take_operand(&s->one), *rstd = take_operand(&s->one);
    double *pair = take_operand(&s->pair);

    case_input(&c, s->x, random, -1, 1);
    case_input(&c, s->vector, random, 0.5, 2);
    case_input(&c, s->vector, random, -0.5, 0.5);
    case_input(&c, s->running, random, -1, 1);
    case_input(&c, s->running, random, 0.5, 2);
    if (s->adds)
        case_input(&c, s->x, random, -1, 1);
    case_output(&c, s->x);
    case_output(&c, s->pair);
    assert_int_equal(case_check(&c, 0), count_isas());
    for (int set = (int)REFERENCE; set < (int)BGI_ISA_COUNT; set = next_isa(set)) {
        const bgi_isa isa = (bgi_isa)set;
        void *results[CASE_OPERANDS];

        if (!case_run(&c, isa, 0, results))
            continue;
        run_kernel(BGI_KERNEL_BATCH_NORM, isa, s->trains,
                   (bg_type[]){s->x, s->vector, s->vector, s->running, s->running, s->x, s->one, s->one}, 5, 3, &norm,
                   c.initial, (void *[]){y, mean, rstd});
        if (s->adds)
            run_kernel(BGI_KERNEL_BINARY, isa, true, (bg_type[]){s->x, s->x, s->x}, 2, 1, &add,
                       (void *[]){y, c.initial[5]}, (void *[]){y});
        if (s->maps)
            run_kernel(BGI_KERNEL_UNARY, isa, true, (bg_type[]){s->x, s->x}, 1, 1, &attributes.unary, (void *[]){y},
                       (void *[]){y});
        expect_bits(s, &s->x, results[c.input_count], y, isa, "y");
        memcpy(pair, results[c.input_count + 1], bg_type_size_bytes(&s->pair));
        for (int64_t i = 0; i < s->one.dims[0]; i++) {
            assert_true((float)pair[2 * i] == ((float *)mean)[i]);
            assert_true((float)pair[2 * i + 1] == ((float *)rstd)[i]);
        }
        free_results(&c, results);
    }
    free(y);
    free(mean);
    free(rstd);
    free(pair);
    case_clear(&c);
}

/* Computes the operands of a gradient with the forward kernels of `isa`. */
static void make_forward(const shape *s, bgi_isa isa, void *const *in, void *result, void *y, void *mean, void *rstd,
                         void *pair)
{
    const bgi_fused_norm_attributes attributes = {.norm = norm, .unary = unary_of(s), .maps = s->maps};
    const bg_type fused[] = {s->x, s->vector, s->vector, s->running, s->running, s->x, s->pair};
    const bg_type plain[] = {s->x, s->vector, s->vector, s->running, s->running, s->x, s->one, s->one};

    run_kernel(BGI_KERNEL_BATCH_NORM, isa, true, plain, 5, 3, &norm, in, (void *[]){result, mean, rstd});
    run_kernel(BGI_KERNEL_FUSED_BATCH_NORM, isa, true, fused, 5, 2, &attributes, in, (void *[]){y, pair});
}

/* Compares dx, which overwrites dy as in plans, dgamma and dbeta with those of the separate kernels. */
static void check_backward(const shape *s, random_state *random)
{
    const bgi_fused_norm_attributes attributes = {.norm = norm, .unary = unary_of(s), .maps = s->maps};
    void *result = take_operand(&s->x), *y = take_operand(&s->x), *mean = take_operand(&s->one),
         *rstd = take_operand(&s->one), *dy = take_operand(&s->x), *apart[3], *fused[3];
    kernel_case c = {.id = BGI_KERNEL_BATCH_NORM, .relative = 1.0};

    case_input(&c, s->x, random, -1, 1);
    case_input(&c, s->vector, random, 0.5, 2);
    case_input(&c, s->vector, random, -0.5, 0.5);
    case_input(&c, s->running, random, -1, 1);
    case_input(&c, s->running, random, 0.5, 2);
    case_input(&c, s->x, random, -1, 1); /* dy */
    case_input(&c, s->pair, random, -1, 1);
    for (int i = 0; i < 3; i++) {
        apart[i] = take_operand(i == 0 ? &s->x : &s->vector);
        fused[i] = take_operand(i == 0 ? &s->x : &s->vector);
    }
    for (int set = (int)REFERENCE; set < (int)BGI_ISA_COUNT; set = next_isa(set)) {
        const bg_type types[] = {s->x, s->x, s->pair, s->vector, s->vector, s->x, s->vector, s->vector};
        const bg_type plain[] = {s->x, s->x, s->one, s->one, s->vector, s->x, s->vector, s->vector};
        const bgi_isa isa = (bgi_isa)set;
        const bgi_kernel_request request = {BGI_KERNEL_FUSED_BATCH_NORM_BACKWARD, types, 5, 3, &attributes, 0, 0};
        bg_kernel kernel;

        if (isa != REFERENCE && !bgi_cpu_select(&request, isa, &kernel))
            continue;
        make_forward(s, isa, c.initial, result, y, mean, rstd, c.initial[6]);
        memcpy(dy, c.initial[5], bg_type_size_bytes(&s->x));
        if (s->maps)
            run_kernel(BGI_KERNEL_UNARY_BACKWARD, isa, true, (bg_type[]){s->x, s->x, s->x, s->x}, 3, 1,
                       &attributes.unary, (void *[]){dy, result, y}, (void *[]){dy});
        run_kernel(BGI_KERNEL_BATCH_NORM_BACKWARD, isa, true, plain, 5, 3, &norm,
                   (void *[]){dy, c.initial[0], mean, rstd, c.initial[1]}, apart);
        run_kernel(BGI_KERNEL_FUSED_BATCH_NORM_BACKWARD, isa, true, types, 5, 3, &attributes,
                   (void *[]){c.initial[5], c.initial[0], c.initial[6], c.initial[1], c.initial[2]}, fused);
        expect_bits(s, &s->x, fused[0], apart[0], isa, "dx");
        expect_bits(s, &s->vector, fused[1], apart[1], isa, "dgamma");
        expect_bits(s, &s->vector, fused[2], apart[2], isa, "dbeta");
        {
            bg_kernel_call call = {.types = types,
                                   .operands = (void *[]){dy, c.initial[0], c.initial[6], c.initial[1], c.initial[2],
                                                          dy, fused[1], fused[2]},
                                   .input_count = 5,
                                   .output_count = 3,
                                   .attributes = &attributes,
                                   .env = &c.env};

            assert_int_equal(bgi_kernel_select(&request, BG_KERNELS_REFERENCE, &kernel, NULL), BG_OK);
            if (isa != REFERENCE)
                assert_true(bgi_cpu_select(&request, isa, &kernel));
            memcpy(dy, c.initial[5], bg_type_size_bytes(&s->x));
            case_run_parts(kernel.run, kernel.part_count, &call, 1);
            expect_bits(s, &s->x, dy, apart[0], isa, "dx in the place of dy");
        }
    }
    for (int i = 0; i < 3; i++) {
        free(apart[i]);
        free(fused[i]);
    }
    free(result);
    free(y);
    free(mean);
    free(rstd);
    free(dy);
    case_clear(&c);
}

static shape draw_shape(random_state *random, int i)
{
    static const bg_unary functions[] = {BG_RELU, BG_TANH,  BG_SIGMOID,    BG_RELU,
                                         BG_SILU, BG_CLAMP, BG_HARD_SWISH, BG_LEAKY_RELU};
    const bg_dtype dtype = draw_float(random);
    const int64_t n = draw_between(random, 2, 4), c = draw_between(random, 1, 40);
    shape s = {.adds = draw_between(random, 0, 1),
               .maps = draw_between(random, 0, 3) > 0,
               .trains = draw_between(random, 0, 3) > 0};

    if (i % 3 == 0)
        s.x = bg_matrix(dtype, n, c);
    else if (i % 3 == 1)
        s.x = bg_tensor4(dtype, n, c, draw_between(random, 1, 9), draw_between(random, 1, 9));
    else /* more than a chunk */
        s.x = bg_tensor3(dtype, n, draw_between(random, 1, 3), draw_between(random, 700, 2300));
    s.vector = bg_vector(dtype, s.x.dims[1]);
    s.running = bg_vector(BG_FLOAT32, s.x.dims[1]);
    s.pair = bg_matrix(BG_FLOAT64, s.x.dims[1], 2);
    s.one = bg_vector(BG_FLOAT32, s.x.dims[1]);
    s.function = functions[draw_between(random, 0, s.adds ? 3 : 7)];
    return s;
}

static void test_random_chains(void **state)
{
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 1000 : 120;
    random_state random = {91};

    (void)state;
    for (int i = 0; i < rounds; i++) {
        const shape s = draw_shape(&random, i);

        check_forward(&s, &random);
        check_backward(&s, &random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_chains)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
