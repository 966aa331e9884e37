/*
 * test_elementwise.c: compares elementwise kernels, accumulation and the optimizers with the reference.
 */
#include "kernels/accumulate/attributes.h"
#include "kernels/elementwise/attributes.h"
#include "kernels/kernel_case.h"
#include "kernels/loss_scaling/attributes.h"
#include "kernels/optimizer/attributes.h"

static int rounds(int quick)
{
    return getenv("BRIGADE_TEST_ALL") ? 20 * quick : quick;
}

/* Draws a size, mostly small, sometimes large enough for several parts. */
static int64_t draw_count(random_state *random)
{
    return draw_between(random, 0, 9) ? draw_between(random, 1, 700) : draw_between(random, 30000, 140000);
}

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), count_isas());
    case_clear(c);
}

static bool is_exact(bg_unary function)
{
    return function == BG_RELU || function == BG_SQRT || function == BG_SQUARE || function == BG_NEGATE ||
           function == BG_ABS || function == BG_RECIPROCAL || (function >= BG_SIGN && function <= BG_TRUNC) ||
           (function >= BG_TAN && function <= BG_ATANH) || function == BG_CLAMP;
}

/* Draws parameters that float32 represents, including the exponents with special code. */
static bgi_unary_attributes draw_function(bg_unary function, random_state *random)
{
    static const double exponents[] = {0, 1, 2, 3, 4, -1, -2, 0.5, 1.5, -0.5, 2.75};
    bgi_unary_attributes attributes = {.function = function};

    if (function == BG_SOFTPLUS)
        attributes.a = 0.25 * draw_between(random, 1, 8), attributes.b = draw_between(random, 5, 30);
    else if (function == BG_ELU || function == BG_LEAKY_RELU)
        attributes.a = 0.125 * draw_between(random, -8, 16);
    else if (function == BG_HARD_SIGMOID)
        attributes.a = 0.125 * draw_between(random, -4, 4), attributes.b = 0.5;
    else if (function == BG_CLAMP)
        attributes.a = draw_between(random, 0, 3) ? draw_between(random, -8, 0) : -INFINITY, attributes.b = 6;
    else if (function == BG_POWER)
        attributes.a = exponents[draw_between(random, 0, sizeof exponents / sizeof *exponents - 1)];
    return attributes;
}

/* Sets the first arguments to numbers of all magnitudes, infinities and NaN. */
static void spice(float *x, int64_t count)
{
    static const float values[] = {0.0f,  -0.0f,  1e-30f, -1e-30f, 1e-40f, 0.6249f, 0.6251f,  88.0f,     89.5f, -87.0f,
                                   -95.f, -110.f, 1e10f,  -1e10f,  20.0f,  -20.0f,  INFINITY, -INFINITY, NAN,   3e-5f};

    for (int64_t i = 0; i < count && i < (int64_t)(sizeof values / sizeof *values); i++)
        x[i] = values[i];
}

static void check_unary(bg_unary function, random_state *random)
{
    const bg_dtype dtype = draw_float(random);
    const bgi_unary_attributes attributes = draw_function(function, random);
    const int64_t count = draw_count(random);
    const bg_type type = bg_vector(dtype, count);
    const bool is_narrow = dtype != BG_FLOAT32;
    kernel_case c = {.id = BGI_KERNEL_UNARY, .attributes = &attributes};
    kernel_case back = {.id = BGI_KERNEL_UNARY_BACKWARD, .attributes = &attributes};
    float *x;

    if (!is_exact(function)) {
        /* for large inputs, the relative error of gelu and of softplus is that of their exponentials */
        c.relative = is_narrow ? 1.0 / 128 : function == BG_GELU || function == BG_SOFTPLUS ? 5e-6 : 5e-7;
        c.absolute = function == BG_GELU_TANH      ? 2e-6
                     : function == BG_HARD_SIGMOID ? 1e-7 /* when a x and b cancel each other */
                     : function == BG_GELU         ? 1e-14
                                                   : 1e-37;
    }
    x = case_input(&c, type, random, -12, 12);
    if (!is_narrow && function != BG_GELU_TANH)
        spice(x, count);
    if (function == BG_SQRT)
        for (int64_t i = 0; i < count; i++)
            bgi_store(dtype, x, i, fabs(bgi_load(dtype, x, i)));
    case_output(&c, type);
    finish_case(&c);

    back.relative = is_narrow ? 1.0 / 128 : 1e-6;
    back.absolute = function == BG_RELU || function == BG_NEGATE ? 0 : 3e-6;
    case_input(&back, type, random, -1, 1);
    case_input(&back, type, random, -12, 12);
    case_input(&back, type, random, -3, 12);
    case_output(&back, type);
    finish_case(&back);
}

static void test_unary(void **state)
{
    random_state random = {1};

    (void)state;
    for (int i = 0; i < rounds(5); i++)
        for (int function = 0; function < BG_UNARY_COUNT; function++)
            check_unary((bg_unary)function, &random);
}

/* Either operand may broadcast along its first and its last dims. */
static void test_binary(void **state)
{
    random_state random = {2};

    (void)state;
    for (int i = 0; i < rounds(120); i++) {
        const bg_dtype dtype = draw_float(&random);
        const bgi_binary_attributes attributes = {(bg_binary)draw_between(&random, 0, BG_BINARY_COUNT - 1)};
        const int64_t dims[4] = {draw_between(&random, 1, 5), draw_between(&random, 1, 9), draw_between(&random, 1, 7),
                                 draw_between(&random, 1, 40)};
        const uint32_t first = (uint32_t)draw_between(&random, 0, 4), last = (uint32_t)draw_between(&random, first, 4);
        const uint32_t drop = (uint32_t)draw_between(&random, 0, first);
        kernel_case c = {.id = BGI_KERNEL_BINARY, .attributes = &attributes};
        const bg_type full = bg_type_make(dtype, 4, dims);
        int64_t own[4];
        bg_type part;

        for (uint32_t d = 0; d < 4; d++)
            own[d] = d >= first && d < last ? dims[d] : 1;
        part = bg_type_make(dtype, 4 - drop, own + drop);
        if (draw_between(&random, 0, 1)) {
            case_input(&c, full, &random, -3, 3);
            case_input(&c, part, &random, -3, 3);
        } else {
            case_input(&c, part, &random, -3, 3);
            case_input(&c, full, &random, -3, 3);
        }
        if (dtype == BG_FLOAT32)
            *(float *)c.initial[0] = NAN;
        case_output(&c, full);
        finish_case(&c);
    }
}

/* For the maximum and the minimum, equal operands get half of the gradient each, and a NaN gets all of it. */
static void test_select_gradient(void **state)
{
    random_state random = {22};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const bg_dtype dtype = draw_float(&random);
        const bgi_binary_attributes attributes = {i % 2 ? BG_MAXIMUM : BG_MINIMUM};
        const int64_t rows = draw_between(&random, 1, 40), columns = draw_between(&random, 1, i % 4 ? 70 : 1500);
        const bg_type full = bg_matrix(dtype, rows, columns), row = bg_vector(dtype, columns);
        kernel_case c = {.id = BGI_KERNEL_SELECT_GRADIENT, .attributes = &attributes};

        case_input(&c, full, &random, -3, 3);
        for (int operand = 1; operand < 3; operand++) { /* few different numbers, so that ties occur */
            const bg_type type = i % 6 / 2 == operand ? row : full;
            void *data = case_input(&c, type, &random, 0, 0);

            for (int64_t e = 0; e < bg_type_element_count(&type); e++)
                bgi_store(dtype, data, e, draw_between(&random, 0, 9) ? (double)draw_between(&random, -2, 2) : NAN);
        }
        case_output(&c, full);
        finish_case(&c);
    }
}

static void test_binary_declines_scattered_dims(void **state)
{
    random_state random = {3};
    const bgi_binary_attributes attributes = {BG_ADD};
    kernel_case c = {.id = BGI_KERNEL_BINARY, .attributes = &attributes};

    (void)state;
    case_input(&c, bg_tensor3(BG_FLOAT32, 2, 3, 4), &random, -1, 1);
    case_input(&c, bg_tensor3(BG_FLOAT32, 2, 1, 4), &random, -1, 1);
    case_output(&c, bg_tensor3(BG_FLOAT32, 2, 3, 4));
    assert_int_equal(case_check(&c, 0), 0);
    case_clear(&c);
}

/* Checks that the results of every instruction set are bit-identical to the reference, even in each NaN. */
static void check_same_bits(const kernel_case *c)
{
    const uint32_t output = c->input_count;
    void *wanted[CASE_OPERANDS], *got[CASE_OPERANDS];

    assert_true(case_run(c, REFERENCE, 0, wanted));
    for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa)) {
        assert_true(case_run(c, (bgi_isa)isa, 0, got));
        assert_memory_equal(got[output], wanted[output], bg_type_size_bytes(&c->types[output]));
        free_results(c, got);
    }
    free_results(c, wanted);
}

static void test_scale_and_cast(void **state)
{
    random_state random = {4};
    static const bg_dtype sources[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16, BG_UINT8, BG_INT32};
    static const bg_dtype integers[] = {BG_INT64, BG_INT32, BG_UINT8};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const bgi_scale_attributes attributes = {draw_real(&random, -2, 2), draw_real(&random, -2, 2)};
        const bg_dtype dtype = draw_float(&random), from = sources[draw_between(&random, 0, 4)];
        const int64_t count = draw_count(&random);
        kernel_case scale = {
            .id = BGI_KERNEL_SCALE, .attributes = &attributes, .relative = 2 * unit_of(dtype), .absolute = 4e-7};
        kernel_case cast = {.id = BGI_KERNEL_CAST}, whole = {.id = BGI_KERNEL_CAST};
        const bg_dtype narrow = integers[i % 3], wide = i % 4 == 0 ? BG_FLOAT32 : integers[draw_between(&random, 0, 2)];

        case_input(&scale, bg_vector(dtype, count), &random, -2, 2);
        case_output(&scale, bg_vector(dtype, count));
        finish_case(&scale);
        case_input(&cast, bg_vector(from, count), &random, from == BG_UINT8 ? 0 : -100000,
                   from == BG_UINT8 ? 255 : 100000);
        case_output(&cast, bg_vector(dtype, count));
        finish_case(&cast);
        case_input(&whole, bg_vector(narrow, count), &random, narrow == BG_UINT8 ? 0 : -400, 400);
        if (narrow == BG_INT64)
            for (int64_t e = 0; e < count; e += 3)
                ((int64_t *)whole.initial[0])[e] *= 123456789012;
        case_output(&whole, bg_vector(wide, count));
        finish_case(&whole);
    }
}

/* Converts every float16 to float32, and back every float next to a float16 or halfway between two. Results are
 * bit-identical to the reference, including NaN. The count is not a multiple of the vector length. */
static void test_every_float16(void **state)
{
    enum { HALVES = 65536, BESIDE = 6 };
    kernel_case to = {.id = BGI_KERNEL_CAST}, from = {.id = BGI_KERNEL_CAST};
    random_state random = {40};
    uint16_t *halves;
    float *floats;

    (void)state;
    halves = case_input(&to, bg_vector(BG_FLOAT16, HALVES + 5), &random, -1, 1);
    floats = case_input(&from, bg_vector(BG_FLOAT32, HALVES * BESIDE + 3), &random, -1, 1);
    case_output(&to, bg_vector(BG_FLOAT32, HALVES + 5));
    case_output(&from, bg_vector(BG_FLOAT16, HALVES * BESIDE + 3));
    for (uint32_t half = 0; half < HALVES; half++) {
        const uint32_t bits = bgi_float_bits(bgi_float16_to_float((uint16_t)half));
        const uint32_t next = bgi_float_bits(bgi_float16_to_float((uint16_t)(half + 1))), middle = bits / 2 + next / 2;

        halves[half] = (uint16_t)half;
        for (uint32_t i = 0; i < BESIDE; i++)
            floats[half * BESIDE + i] = bgi_float_from_bits((i < 3 ? bits : middle) + i % 3 - 1);
    }
    check_same_bits(&to);
    check_same_bits(&from);
    case_clear(&to);
    case_clear(&from);
}

/* The results of every instruction set are bit-identical to the reference. */
static void test_standardize(void **state)
{
    random_state random = {5};

    (void)state;
    for (int i = 0; i < rounds(20); i++) {
        const bgi_standardize_attributes attributes = {
            i ? (float)draw_real(&random, 1, 300) : 255.0f, i ? (float)draw_real(&random, -1, 1) : 0.1307f,
            i ? (float)draw_real(&random, 0.1, 2) : 0.3081f, i ? draw_float(&random) : BG_FLOAT32};
        const int64_t count = draw_count(&random);
        kernel_case c = {.id = BGI_KERNEL_STANDARDIZE, .attributes = &attributes};

        case_input(&c, bg_vector(i % 2 ? draw_float(&random) : BG_UINT8, count), &random, 0, 255);
        case_output(&c, bg_vector(attributes.dtype, count));
        finish_case(&c);
    }
}

static void test_accumulate(void **state)
{
    random_state random = {6};

    (void)state;
    for (int i = 0; i < rounds(20); i++) {
        const bg_dtype dtype = draw_float(&random);
        const int64_t count = draw_count(&random);
        kernel_case c = {.id = BGI_KERNEL_ACCUMULATE, .env = {.accumulated = i % 2}};

        case_input(&c, bg_vector(dtype, count), &random, -1, 1);
        case_input(&c, bg_vector(i % 3 ? dtype : BG_FLOAT32, count), &random, -1, 1);
        finish_case(&c);
    }
}

static void test_accumulate_tree(void **state)
{
    random_state random = {36};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const bg_dtype dtype = draw_float(&random), gradient = draw_float(&random);
        const int64_t count = draw_count(&random);
        const bgi_accumulate_tree_attributes attributes = {.micro_batches = 1 + (uint32_t)i % 13};
        const uint32_t places = bgi_tree_places(attributes.micro_batches);
        kernel_case c = {.id = BGI_KERNEL_ACCUMULATE_TREE,
                         .attributes = &attributes,
                         .env = {.accumulated = (uint32_t)i * 7 / 5 % attributes.micro_batches}};

        case_input(&c, bg_vector(dtype, count), &random, -1, 1);
        case_input(&c, bg_vector(gradient, count), &random, -1, 1);
        if (places > 1)
            case_input(&c, bg_matrix(dtype, places - 1, count), &random, -1, 1);
        finish_case(&c);
    }
}

/* A value whose scale is 0 is not read. */
static void test_scaled_sum(void **state)
{
    random_state random = {26};

    (void)state;
    for (int i = 0; i < rounds(30); i++) {
        const bg_dtype kept = draw_float(&random), dtype = draw_float(&random);
        const int64_t count = draw_count(&random), values = 1 + i % 4;
        const bgi_scaled_sum_attributes attributes = {.dtype = dtype};
        kernel_case c = {.id = BGI_KERNEL_SCALED_SUM, .attributes = &attributes};

        for (int64_t v = 0; v < values; v++) {
            void *value = case_input(&c, bg_vector(kept, count), &random, -1, 1);
            float *scale = case_input(&c, bg_scalar(BG_FLOAT32), &random, 0, 1);
            if (i % 5 == 0 && kept == BG_FLOAT32) {
                *scale = 0.0f;
                ((float *)value)[count - 1] = NAN;
            }
        }
        case_output(&c, bg_vector(dtype, count));
        finish_case(&c);
    }
}

/* Running means are bit-identical to the reference; a gradient whose factor is 0 may have any value. */
static void test_accumulate_shares(void **state)
{
    random_state random = {16};

    (void)state;
    for (int i = 0; i < rounds(20); i++) {
        const bg_dtype dtype = draw_float(&random);
        const int64_t count = draw_count(&random);
        kernel_case c = {.id = BGI_KERNEL_ACCUMULATE, .env = {.accumulated = i % 2}};
        float *gradient, *factors;

        case_input(&c, bg_vector(dtype, count), &random, -1, 1);
        gradient = case_input(&c, bg_vector(BG_FLOAT32, count), &random, -1, 1);
        factors = case_input(&c, bg_vector(BG_FLOAT32, 2), &random, 0, 1);
        if (i % 5 == 0) {
            factors[1] = 0.0f;
            gradient[count - 1] = NAN;
        }
        finish_case(&c);
    }
}

/* The operands of a case are whole, or one of the pieces that replicas have. */
static void test_square_sum(void **state)
{
    random_state random = {17};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const int64_t count = draw_count(&random), pieces = draw_between(&random, 1, 5);
        const bool is_whole = draw_between(&random, 0, 1);
        const bgi_square_sum_attributes attributes = {.elements = count, .pieces = (uint32_t)pieces};
        kernel_case c = {.id = BGI_KERNEL_SQUARE_SUM,
                         .attributes = &attributes,
                         .env = {.place = {(uint32_t)draw_between(&random, 0, pieces - 1), 0, 0}},
                         .relative = 1e-12};

        case_input(&c, bg_vector(draw_float(&random), is_whole ? count : bgi_piece_size(count, attributes.pieces)),
                   &random, -1, 1);
        case_output(&c, bg_vector(BG_FLOAT64, pieces));
        finish_case(&c);
    }
}

/* 3 replicas with one shard each give the same bits as one replica with all shards, and the padding after the last
 * shard is ignored. */
static void test_squares_of_pieces(void **state)
{
    enum { PIECES = 3, MOST = 100000 };
    static const int64_t counts[] = {2, 100, MOST};
    static float x[MOST + PIECES];

    (void)state;
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++)
        for (int isa = (int)REFERENCE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa)) {
            const bgi_square_sum_attributes attributes = {.elements = counts[n], .pieces = PIECES};
            const int64_t size = bgi_piece_size(counts[n], PIECES);
            kernel_case c = {.id = BGI_KERNEL_SQUARE_SUM,
                             .attributes = &attributes,
                             .types = {bg_vector(BG_FLOAT32, counts[n]), bg_vector(BG_FLOAT64, PIECES)},
                             .initial = {x, (double[PIECES]){NAN, NAN, NAN}},
                             .input_count = 1,
                             .output_count = 1};
            void *whole[2], *piece[2];
            random_state random = {5};

            for (int64_t i = 0; i < PIECES * size; i++)
                x[i] = i < counts[n] ? (float)draw_real(&random, -1, 1) : NAN;
            assert_true(case_run(&c, (bgi_isa)isa, 0, whole));
            c.types[0] = bg_vector(BG_FLOAT32, size);
            for (uint32_t replica = 0; replica < PIECES; replica++) {
                double wanted[PIECES] = {0.0};

                wanted[replica] = ((double *)whole[1])[replica];
                c.initial[0] = x + replica * size;
                c.env.place.data = replica;
                assert_true(case_run(&c, (bgi_isa)isa, 1, piece));
                assert_memory_equal(piece[1], wanted, sizeof wanted);
                free_results(&c, piece);
            }
            free_results(&c, whole);
        }
}

/* The kernel counts numbers of all sizes, some of them infinite or NaN. */
static void test_range_count(void **state)
{
    random_state random = {18};

    (void)state;
    for (int i = 0; i < rounds(20); i++) {
        const bgi_range_count_attributes attributes = {.edge = 0.75};
        kernel_case c = {.id = BGI_KERNEL_RANGE_COUNT, .attributes = &attributes};
        const int64_t count = draw_count(&random);
        float *x = case_input(&c,
                              bg_vector(i % 4 == 0   ? BG_BFLOAT16
                                        : i % 4 == 1 ? BG_FLOAT16
                                                     : BG_FLOAT32,
                                        count),
                              &random, -1, 1);

        if (i % 4 > 1 && count > 3) {
            x[0] = NAN;
            x[1] = -INFINITY;
            x[2] = 0.75f;
            x[count - 1] = INFINITY;
        }
        case_output(&c, bg_vector(BG_FLOAT64, BGI_RANGE_COUNTS));
        finish_case(&c);
    }
}

/* The last pieces have fewer elements or no elements; elements past the end are ignored. */
static void test_range_count_of_pieces(void **state)
{
    enum { REPLICAS = 3 };
    static const int64_t sizes[] = {2, 4, 2000, 44002};
    random_state random = {19};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const bgi_range_count_attributes attributes = {
            .edge = 0.75, .elements = sizes[i], .pieces = REPLICAS, .only_not_finite = true};
        const int64_t size = bgi_piece_size(sizes[i], REPLICAS);
        for (uint32_t replica = 0; replica < REPLICAS; replica++) {
            const int64_t live = bgi_piece_live(sizes[i], REPLICAS, replica);
            kernel_case c = {.id = BGI_KERNEL_RANGE_COUNT, .attributes = &attributes, .env.place.data = replica};
            float *x = case_input(&c, bg_vector(BG_FLOAT32, size), &random, -1, 1);
            void *results[CASE_OPERANDS];

            for (int64_t e = 0; e < size; e++)
                x[e] = e >= live ? NAN : e % 3 == 0 ? INFINITY : x[e];
            case_output(&c, bg_vector(BG_FLOAT64, BGI_RANGE_COUNTS));
            assert_true(case_run(&c, REFERENCE, 0, results));
            assert_true(((double *)results[1])[BGI_RANGE_NOT_FINITE] == (double)((live + 2) / 3));
            free_results(&c, results);
            finish_case(&c);
        }
    }
}

/* Adds the operands parameter, gradient, hyper, scale, states. */
static void add_update_operands(kernel_case *c, random_state *random, bg_dtype dtype, int64_t count,
                                const double *hyper, uint32_t states)
{
    const bg_dtype state_dtype = draw_between(random, 0, 1) ? dtype : BG_FLOAT32;

    case_input(c, bg_vector(dtype, count), random, -1, 1);
    case_input(c, bg_vector(dtype, count), random, -1, 1);
    memcpy(case_input(c, bg_vector(BG_FLOAT64, BGI_HYPER_COUNT), random, 0, 0), hyper,
           BGI_HYPER_COUNT * sizeof(double));
    case_input(c, bg_scalar(BG_FLOAT32), random, 0.01, 1);
    for (uint32_t i = 0; i < states; i++)
        case_input(c, bg_vector(state_dtype, count), random, 0, 1);
}

/* Draws rounding to nearest or stochastic rounding, for all elements or for a piece of this number of elements. */
static bgi_rounding draw_rounding(random_state *random, bg_kernel_env *env, int64_t count)
{
    if (draw_between(random, 0, 1) == 0)
        return (bgi_rounding){0};
    env->seed = draw(random);
    env->step = draw(random);
    env->place = (bg_mesh){(uint32_t)draw_between(random, 0, 5), (uint32_t)draw_between(random, 0, 3), 1};
    return (bgi_rounding){.elements = draw_between(random, 0, 1) ? count : 7 * count,
                          .piece = count,
                          .random_id = draw(random),
                          .axes = draw_between(random, 0, 1) ? BG_MESH_TENSOR : 0};
}

static void test_sgd(void **state)
{
    random_state random = {7};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const double hyper[BGI_HYPER_COUNT] = {0.05,
                                               draw_between(&random, 0, 1) * 0.01,
                                               draw_between(&random, 0, 1) * 0.9,
                                               draw_between(&random, 0, 1) * 0.1,
                                               [BGI_HYPER_SKIP] = draw_between(&random, 0, 4) == 0,
                                               [BGI_HYPER_SKIPPED] = draw_between(&random, 0, 1),
                                               [BGI_HYPER_VELOCITY_SCALING] = 0.7};
        const int64_t count = draw_count(&random);
        bgi_sgd_attributes attributes = {.nesterov = draw_between(&random, 0, 1),
                                         .combined = draw_between(&random, 0, 1),
                                         .without_decay = draw_between(&random, 0, 1)};
        kernel_case c = {.id = BGI_KERNEL_SGD_UPDATE,
                         .attributes = &attributes,
                         .env = {.optimizer_step = (uint64_t)draw_between(&random, 1, 3)}};

        attributes.rounding = draw_rounding(&random, &c.env, count);
        add_update_operands(&c, &random, draw_float(&random), count, hyper, (uint32_t)draw_between(&random, 0, 1));
        finish_case(&c);
    }
}

/* Updates of float16 weights far below 2^-24, many of which need more than 16 random bits, are bit-identical to the
 * reference.
 */
static void test_tiny_weights_by_chance(void **state)
{
    enum { COUNT = 300000 };
    const bgi_sgd_attributes attributes = {.rounding = {.elements = COUNT, .piece = COUNT, .random_id = 5}};
    const double hyper[BGI_HYPER_COUNT] = {1.0};
    kernel_case c = {.id = BGI_KERNEL_SGD_UPDATE, .attributes = &attributes, .env = {.seed = 9}};
    random_state random = {41};
    void *wanted[CASE_OPERANDS], *got[CASE_OPERANDS];
    int64_t up = 0;

    (void)state;
    memset(case_input(&c, bg_vector(BG_FLOAT16, COUNT), &random, 0, 0), 0, COUNT * sizeof(uint16_t));
    case_input(&c, bg_vector(BG_FLOAT32, COUNT), &random, -0x1p-40, 0);
    memcpy(case_input(&c, bg_vector(BG_FLOAT64, BGI_HYPER_COUNT), &random, 0, 0), hyper, sizeof hyper);
    case_input(&c, bg_scalar(BG_FLOAT32), &random, 1, 1);
    assert_true(case_run(&c, REFERENCE, 0, wanted));
    for (int64_t i = 0; i < COUNT; i++)
        up += ((const uint16_t *)wanted[0])[i];
    /* Each weight rounds up with the probability 2^-17, which 16 random bits cannot express: 2.3 weights on average.
     * With this seed at least one and fewer than 14 do. */
    assert_true(up > 0 && up < 14);
    for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa)) {
        assert_true(case_run(&c, (bgi_isa)isa, 0, got));
        assert_memory_equal(got[0], wanted[0], COUNT * sizeof(uint16_t));
        free_results(&c, got);
    }
    free_results(&c, wanted);
    case_clear(&c);
}

static void test_adam(void **state)
{
    random_state random = {8};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const double hyper[BGI_HYPER_COUNT] = {0.001,
                                               draw_between(&random, 0, 1) * 0.01,
                                               0.9,
                                               0.999,
                                               1e-8,
                                               [BGI_HYPER_SKIP] = draw_between(&random, 0, 4) == 0,
                                               [BGI_HYPER_SKIPPED] = draw_between(&random, 0, 3)};
        const int64_t count = draw_count(&random);
        bgi_adam_attributes attributes = {.decoupled_decay = draw_between(&random, 0, 1),
                                          .maximum = draw_between(&random, 0, 2) == 0,
                                          .uncorrected = draw_between(&random, 0, 2) == 0,
                                          .without_decay = draw_between(&random, 0, 1)};
        kernel_case c = {.id = BGI_KERNEL_ADAM_UPDATE,
                         .attributes = &attributes,
                         .env = {.optimizer_step = (uint64_t)draw_between(&random, 3, 1000)}};

        attributes.rounding = draw_rounding(&random, &c.env, count);
        add_update_operands(&c, &random, draw_float(&random), count, hyper, 2);
        finish_case(&c);
    }
}

static void test_rmsprop(void **state)
{
    random_state random = {9};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const double hyper[BGI_HYPER_COUNT] = {0.001,
                                               draw_between(&random, 0, 1) * 0.01,
                                               draw_between(&random, 0, 1) * 0.9,
                                               0.99,
                                               1e-5,
                                               [BGI_HYPER_SKIP] = draw_between(&random, 0, 4) == 0};
        const int64_t count = draw_count(&random);
        bgi_rmsprop_attributes attributes = {.centered = draw_between(&random, 0, 1),
                                             .tf_variant = draw_between(&random, 0, 1),
                                             .without_decay = draw_between(&random, 0, 1)};
        kernel_case c = {.id = BGI_KERNEL_RMSPROP_UPDATE, .attributes = &attributes};

        attributes.rounding = draw_rounding(&random, &c.env, count);
        add_update_operands(&c, &random, draw_float(&random), count, hyper,
                            1u + attributes.centered + (uint32_t)draw_between(&random, 0, 1));
        finish_case(&c);
    }
}

/* Updates by the rules of AdaGrad and AdaDelta agree with the reference. */
static void test_other_rules(void **state)
{
    random_state random = {19};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const double hyper[BGI_HYPER_COUNT] = {0.1,  draw_between(&random, 0, 1) * 0.01,
                                               0.0,  0.9,
                                               1e-5, [BGI_HYPER_SKIP] = draw_between(&random, 0, 4) == 0};
        const int64_t count = draw_count(&random);
        bgi_rmsprop_attributes attributes = {.rule = i % 2 == 0 ? BGI_RULE_ADAGRAD : BGI_RULE_ADADELTA,
                                             .without_decay = draw_between(&random, 0, 1)};
        kernel_case c = {.id = BGI_KERNEL_RMSPROP_UPDATE, .attributes = &attributes};

        attributes.rounding = draw_rounding(&random, &c.env, count);
        add_update_operands(&c, &random, draw_float(&random), count, hyper, 1 + (uint32_t)(i % 2));
        finish_case(&c);
    }
}

/* The operands of a case are whole, or one of the pieces that replicas have. */
static void test_lamb_moments(void **state)
{
    random_state random = {10};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const double hyper[BGI_HYPER_COUNT] = {0.001, draw_between(&random, 0, 1) * 0.01,
                                               0.9,   0.999,
                                               1e-8,  [BGI_HYPER_SKIP] = draw_between(&random, 0, 4) == 0};
        const int64_t count = draw_count(&random), pieces = draw_between(&random, 1, 5);
        const bool is_whole = draw_between(&random, 0, 1);
        const bg_type type = bg_vector(draw_float(&random), count);
        bgi_lamb_attributes attributes = {.elements = count,
                                          .pieces = (uint32_t)pieces,
                                          .uncorrected = draw_between(&random, 0, 1),
                                          .without_decay = draw_between(&random, 0, 1)};
        kernel_case c = {.id = BGI_KERNEL_LAMB_MOMENTS,
                         .attributes = &attributes,
                         .env = {.optimizer_step = (uint64_t)draw_between(&random, 0, 1000),
                                 .place = {(uint32_t)draw_between(&random, 0, pieces - 1), 0, 0}},
                         .relative = 1e-12};

        attributes.rounding =
            (bgi_rounding){.elements = draw_between(&random, 0, 1) * count, .piece = bgi_lamb_piece(&attributes)};
        add_update_operands(&c, &random, type.dtype, is_whole ? count : bgi_lamb_piece(&attributes), hyper, 2);
        case_output(&c, bg_matrix(BG_FLOAT64, pieces, 2));
        finish_case(&c);
    }
}

static void test_lamb_update(void **state)
{
    random_state random = {11};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const double hyper[BGI_HYPER_COUNT] = {0.1,
                                               draw_between(&random, 0, 1) * 0.01,
                                               0.9,
                                               0.999,
                                               1e-8,
                                               [BGI_HYPER_SKIP] = draw_between(&random, 0, 4) == 0,
                                               [BGI_HYPER_MAX_WEIGHT_NORM] = draw_between(&random, 0, 1) ? 1.5 : 100.0};
        const bg_type type = bg_vector(draw_float(&random), draw_count(&random));
        bgi_lamb_attributes attributes = {.elements = bg_type_element_count(&type),
                                          .pieces = 2,
                                          .uncorrected = draw_between(&random, 0, 1),
                                          .without_decay = draw_between(&random, 0, 1)};
        kernel_case c = {.id = BGI_KERNEL_LAMB_UPDATE, .attributes = &attributes, .env = {.optimizer_step = 3}};

        attributes.rounding = draw_rounding(&random, &c.env, attributes.elements);
        case_input(&c, type, &random, -1, 1);
        case_input(&c, bg_matrix(BG_FLOAT64, 2, 2), &random, 0, 2);
        memcpy(case_input(&c, bg_vector(BG_FLOAT64, BGI_HYPER_COUNT), &random, 0, 0), hyper, sizeof hyper);
        for (int s = 0; s < 2; s++)
            case_input(&c, bg_vector(draw_float(&random), bg_type_element_count(&type)), &random, 0, 1);
        finish_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unary),
                                       cmocka_unit_test(test_binary),
                                       cmocka_unit_test(test_select_gradient),
                                       cmocka_unit_test(test_binary_declines_scattered_dims),
                                       cmocka_unit_test(test_scale_and_cast),
                                       cmocka_unit_test(test_every_float16),
                                       cmocka_unit_test(test_standardize),
                                       cmocka_unit_test(test_accumulate),
                                       cmocka_unit_test(test_accumulate_tree),
                                       cmocka_unit_test(test_scaled_sum),
                                       cmocka_unit_test(test_accumulate_shares),
                                       cmocka_unit_test(test_square_sum),
                                       cmocka_unit_test(test_squares_of_pieces),
                                       cmocka_unit_test(test_range_count),
                                       cmocka_unit_test(test_range_count_of_pieces),
                                       cmocka_unit_test(test_sgd),
                                       cmocka_unit_test(test_tiny_weights_by_chance),
                                       cmocka_unit_test(test_adam),
                                       cmocka_unit_test(test_rmsprop),
                                       cmocka_unit_test(test_other_rules),
                                       cmocka_unit_test(test_lamb_moments),
                                       cmocka_unit_test(test_lamb_update)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
