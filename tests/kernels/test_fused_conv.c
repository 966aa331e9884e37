/*
 * test_fused_conv.c: fused convolutions are bit-identical to the separate kernels on every instruction set, and close
 * to the reference.
 */
#include "kernels/fused_conv/attributes.h"
#include "kernels/kernel_case.h"
#include "kernels/norm/attributes.h"

typedef struct shape {
    int64_t n, c, h, w, o, k;
    bg_conv2d_options options;
    bool has_bias, norms, adds, maps;
    bg_unary function;
} shape;

static bg_type y_type(const shape *s)
{
    int64_t size[2];

    for (int dim = 0; dim < 2; dim++)
        size[dim] = ((dim ? s->w : s->h) + 2 * s->options.padding[dim] - s->k) / s->options.stride[dim] + 1;
    return bg_tensor4(BG_FLOAT32, s->n, s->o, size[0], size[1]);
}

static bgi_fused_conv2d_attributes attributes_of(const shape *s)
{
    return (bgi_fused_conv2d_attributes){.conv = {s->options},
                                         .unary = {s->function, s->function == BG_CLAMP ? -0.5 : 0.0, 1.0},
                                         .epsilon = 1e-5,
                                         .has_bias = s->has_bias,
                                         .norms = s->norms,
                                         .adds = s->adds,
                                         .maps = s->maps};
}

/* Runs one kernel on `isa` and keeps its first output. */
static void run_kernel(bgi_kernel_id id, bgi_isa isa, const bg_type *types, uint32_t inputs, uint32_t outputs,
                       const void *attributes, void *const *operands, void *out)
{
    kernel_case c = {
        .id = id, .attributes = attributes, .input_count = inputs, .output_count = outputs, .relative = 1.0};
    void *results[CASE_OPERANDS];

    for (uint32_t i = 0; i < inputs + outputs; i++) {
        c.types[i] = types[i];
        c.initial[i] = i < inputs ? operands[i] : take_operand(&types[i]);
        if (i >= inputs)
            memset(c.initial[i], 0xff, bg_type_size_bytes(&types[i]));
    }
    assert_true(case_run(&c, isa, 0, results));
    memcpy(out, results[inputs], bg_type_size_bytes(&types[inputs]));
    free_results(&c, results);
    for (uint32_t i = inputs; i < inputs + outputs; i++)
        free(c.initial[i]);
}

/* Runs the separate kernels on the case's operands. */
static void run_apart(const shape *s, const kernel_case *c, bgi_isa isa, void *y)
{
    const bgi_fused_conv2d_attributes all = attributes_of(s);
    const bgi_norm_attributes norm = {.epsilon = all.epsilon, .momentum = 0.1};
    const bgi_binary_attributes add = {.function = BG_ADD};
    const uint32_t gamma = bgi_fused_conv2d_gamma(&all);
    const bg_type y_of = y_type(s), vector = bg_vector(BG_FLOAT32, s->o);
    bg_type types[4] = {c->types[0], c->types[1], c->types[2], y_of};

    types[gamma] = y_of;
    run_kernel(BGI_KERNEL_CONV2D, isa, types, gamma, 1, &all.conv, c->initial, y);
    if (s->norms)
        run_kernel(
            BGI_KERNEL_BATCH_NORM, isa, (bg_type[]){y_of, vector, vector, vector, vector, y_of, vector, vector}, 5, 3,
            &norm,
            (void *[]){y, c->initial[gamma], c->initial[gamma + 1], c->initial[gamma + 2], c->initial[gamma + 3]}, y);
    if (s->adds)
        run_kernel(BGI_KERNEL_BINARY, isa, (bg_type[]){y_of, y_of, y_of}, 2, 1, &add,
                   (void *[]){c->initial[c->input_count - 1], y}, y);
    if (s->maps)
        run_kernel(BGI_KERNEL_UNARY, isa, (bg_type[]){y_of, y_of}, 1, 1, &all.unary, (void *[]){y}, y);
}

static void check(const shape *s, random_state *random)
{
    const bgi_fused_conv2d_attributes attributes = attributes_of(s);
    const bg_type y = y_type(s), vector = bg_vector(BG_FLOAT32, s->o);
    const int64_t channels = s->c / s->options.groups;
    kernel_case c = {.id = BGI_KERNEL_FUSED_CONV2D,
                     .attributes = &attributes,
                     .relative = 1e-5,
                     .absolute = 8 * sum_tolerance((double)(channels * s->k * s->k))};
    float *apart = take_operand(&y);

    case_input(&c, bg_tensor4(BG_FLOAT32, s->n, s->c, s->h, s->w), random, -1, 1);
    case_input(&c, bg_tensor4(BG_FLOAT32, s->o, channels, s->k, s->k), random, -1, 1);
    if (s->has_bias)
        case_input(&c, vector, random, -1, 1);
    for (int i = 0; s->norms && i < 4; i++)
        case_input(&c, vector, random, i < 3 ? -1 : 0.25, 2);
    if (s->adds)
        case_input(&c, y, random, -1, 1);
    case_output(&c, y);
    assert_int_equal(case_check(&c, 0), count_isas());
    for (int set = (int)REFERENCE; set < (int)BGI_ISA_COUNT; set = next_isa(set)) {
        const bgi_isa isa = (bgi_isa)set;
        void *results[CASE_OPERANDS];

        if (!case_run(&c, isa, 0, results))
            continue;
        run_apart(s, &c, isa, apart);
        if (memcmp(results[c.input_count], apart, bg_type_size_bytes(&y)) != 0)
            fail_msg("isa %d, %lld x %lld x %lld x %lld, stride %lld: other bits than the separate kernels'", (int)isa,
                     (long long)s->n, (long long)s->c, (long long)s->h, (long long)s->w,
                     (long long)s->options.stride[0]);
        free_results(&c, results);
    }
    free(apart);
    case_clear(&c);
}

static shape draw_shape(random_state *random)
{
    static const bg_unary functions[] = {BG_RELU, BG_CLAMP, BG_SILU, BG_RELU, BG_HARD_SWISH, BG_LEAKY_RELU};
    const int64_t groups = draw_between(random, 0, 2) ? 1 : draw_between(random, 2, 4);
    shape s = {.n = draw_between(random, 1, 3),
               .c = groups * draw_between(random, 1, 20),
               .h = draw_between(random, 5, 20),
               .w = draw_between(random, 5, 20),
               .o = groups * draw_between(random, 1, 20),
               .k = draw_between(random, 0, 1) ? 3 : draw_between(random, 1, 5),
               .options = bg_conv2d_defaults(),
               .has_bias = draw_between(random, 0, 1),
               .norms = draw_between(random, 0, 2) > 0,
               .adds = draw_between(random, 0, 1),
               .maps = draw_between(random, 0, 2) > 0,
               .function = functions[draw_between(random, 0, 5)]};

    s.options.groups = groups;
    for (int dim = 0; dim < 2; dim++) {
        s.options.stride[dim] = draw_between(random, 1, 2);
        s.options.padding[dim] = draw_between(random, 0, s.k / 2);
    }
    return s;
}

static void test_random_chains(void **state)
{
    random_state random = {80};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 500 : 40;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        const shape s = draw_shape(&random);

        check(&s, &random);
    }
}

/* Shapes have several units and blocks of depth; there are plain matrix products, and windows that the direct kernel
 * declines. */
static void test_larger_chains(void **state)
{
    random_state random = {81};
    shape shapes[] = {
        {5, 64, 8, 8, 64, 3, {.padding = {1, 1}}, false, true, true, true, BG_RELU},
        {2, 16, 32, 32, 32, 3, {.padding = {1, 1}}, true, true, false, true, BG_CLAMP},
        {3, 300, 7, 7, 40, 1, {.padding = {0, 0}}, false, true, true, true, BG_RELU},
        {2, 40, 3, 3, 24, 3, {.padding = {1, 1}}, true, false, true, true, BG_RELU},
    };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const bg_conv2d_options given = shapes[i].options;

        shapes[i].options = bg_conv2d_defaults();
        memcpy(shapes[i].options.padding, given.padding, sizeof given.padding);
        check(&shapes[i], &random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_chains), cmocka_unit_test(test_larger_chains)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
