/*
 * test_attention.c: compares attention and its gradient with the reference: lengths around the edges of blocks, causal
 * or not, with dropout, extreme scores and NaN.
 */
#include "kernels/attention/attributes.h"
#include "kernels/kernel_case.h"

typedef struct attention_shape {
    int64_t samples, heads, length, depth;
} attention_shape;

static int rounds(int quick)
{
    return getenv("BRIGADE_TEST_ALL") ? 10 * quick : quick;
}

static kernel_case begin_case(bgi_kernel_id id, const bgi_attention_attributes *attributes, random_state *random,
                              bg_dtype dtype)
{
    const double terms = (double)attributes->sequence_length;

    return (kernel_case){.id = id,
                         .attributes = attributes,
                         .env = {.seed = (uint64_t)draw(random) << 32 | draw(random),
                                 .step = (uint64_t)draw(random) << 20,
                                 .micro_batch = draw(random) % 100,
                                 .training = draw(random) % 5 != 0},
                         .relative = dtype == BG_FLOAT32 ? 1e-5 : 1.0 / 64,
                         .absolute = dtype == BG_FLOAT32 ? sum_tolerance(terms) : 2e-2};
}

/* Runs the forward, and the backward from the reference's own results. qkv is uniform in -range..range; the element at
 * `spoilt`, if any, is `spoil`. */
static void check(const attention_shape *shape, const bgi_attention_attributes *given, bg_dtype dtype, bool is_flat,
                  random_state *random, double range, int64_t spoilt, float spoil)
{
    const int64_t n = shape->samples, s = shape->length, width = shape->heads * shape->depth;
    const bg_type qkv = is_flat ? bg_matrix(dtype, n * s, 3 * width) : bg_tensor3(dtype, n, s, 3 * width);
    const bg_type y = is_flat ? bg_matrix(dtype, n * s, width) : bg_tensor3(dtype, n, s, width);
    const bg_type log_sums = bg_tensor3(BG_FLOAT32, n, shape->heads, s);
    bgi_attention_attributes attributes = *given;
    kernel_case c, back;
    void *results[CASE_OPERANDS];
    void *data;

    attributes.heads = shape->heads;
    attributes.sequence_length = s;
    attributes.serialization = 1;
    c = begin_case(BGI_KERNEL_ATTENTION, &attributes, random, dtype);
    back = begin_case(BGI_KERNEL_ATTENTION_BACKWARD, &attributes, random, dtype);
    back.env = c.env;
    /* Weights and their gradients may be rounded to bfloat16; the errors grow with the values and keys. */
    if (dtype != BG_FLOAT32)
        c.absolute = back.absolute = range * c.absolute;
    data = case_input(&c, qkv, random, -range, range);
    if (spoilt >= 0)
        bgi_store(dtype, data, spoilt, (double)spoil);
    case_output(&c, y);
    case_output(&c, log_sums);
    assert_int_equal(case_check(&c, 0), count_isas());

    assert_true(case_run(&c, REFERENCE, 0, results));
    case_input(&back, y, random, -1, 1);
    memcpy(case_input(&back, qkv, random, 0, 1), results[0], bg_type_size_bytes(&qkv));
    memcpy(case_input(&back, y, random, 0, 1), results[1], bg_type_size_bytes(&y));
    memcpy(case_input(&back, log_sums, random, 0, 1), results[2], bg_type_size_bytes(&log_sums));
    case_output(&back, qkv);
    assert_int_equal(case_check(&back, 0), count_isas());
    free_results(&c, results);
    case_clear(&c);
    case_clear(&back);
}

static void test_small(void **state)
{
    static const double probabilities[] = {0.0, 0.1, 0.0, 0.7};
    random_state random = {1};

    (void)state;
    for (int i = 0; i < rounds(60); i++) {
        const attention_shape shape = {draw_between(&random, 1, 3), draw_between(&random, 1, 3),
                                       draw_between(&random, 1, 40), draw_between(&random, 1, 20)};
        const bgi_attention_attributes attributes = {.causal = i % 2,
                                                     .scale = draw_real(&random, -0.5, 1),
                                                     .probability = probabilities[i % 4],
                                                     .random_id = draw(&random)};

        check(&shape, &attributes, draw_float(&random), i % 5 == 0, &random, 1.0, -1, 0);
    }
}

/* Lengths are at and around those of blocks of 32, 96 and 128; depths are not multiples of the vector length. */
static void test_blocks(void **state)
{
    static const int64_t lengths[] = {31, 33, 95, 97, 127, 129, 160, 193};
    random_state random = {2};

    (void)state;
    for (int i = 0; i < rounds(8); i++) {
        const attention_shape shape = {1, draw_between(&random, 1, 2), lengths[i % 8], draw_between(&random, 1, 3) * 8};
        const bgi_attention_attributes attributes = {
            .causal = i % 4 != 3, .scale = 0.3, .probability = i % 3 == 0 ? 0.2 : 0.0, .random_id = draw(&random)};

        check(&shape, &attributes,
              i % 4 == 1   ? BG_BFLOAT16
              : i % 4 == 2 ? BG_FLOAT16
                           : BG_FLOAT32,
              false, &random, 1.0, -1, 0);
    }
}

/* With scores of several hundred, the maximum changes from block to block, and probabilities round to 0. */
static void test_large_scores(void **state)
{
    const attention_shape shape = {1, 1, 130, 8};
    random_state random = {3};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const bgi_attention_attributes attributes = {.causal = i == 0, .scale = 1.0};

        check(&shape, &attributes, i == 0 ? BG_BFLOAT16 : BG_FLOAT16, false, &random, 8.0, -1, 0);
    }
}

/* Only results that depend on a NaN in a query, key or value are NaN. (In causal attention, a NaN also affects the
 * other results of its block.) */
static void test_no_numbers(void **state)
{
    const attention_shape shape = {1, 2, 100, 4};
    const bgi_attention_attributes attributes = {.scale = 0.5};
    random_state random = {4};

    (void)state;
    check(&shape, &attributes, BG_FLOAT32, false, &random, 1.0, 40 * 24 + 1, NAN);  /* a query */
    check(&shape, &attributes, BG_FLOAT32, false, &random, 1.0, 40 * 24 + 9, NAN);  /* a key */
    check(&shape, &attributes, BG_FLOAT32, false, &random, 1.0, 40 * 24 + 17, NAN); /* a value */
}

static void test_declines_doubles(void **state)
{
    const bgi_attention_attributes attributes = {.heads = 1, .sequence_length = 2, .scale = 1.0, .serialization = 1};
    random_state random = {5};
    kernel_case c = {.id = BGI_KERNEL_ATTENTION, .attributes = &attributes};

    (void)state;
    case_input(&c, bg_matrix(BG_FLOAT64, 2, 6), &random, -1, 1);
    case_output(&c, bg_matrix(BG_FLOAT64, 2, 2));
    case_output(&c, bg_tensor3(BG_FLOAT64, 1, 1, 2));
    assert_int_equal(case_check(&c, 0), 0);
    case_clear(&c);
}

/* ---- separate queries, keys and values ---- */

typedef struct apart_shape {
    int64_t samples, heads, key_heads, queries, keys, depth;
    bg_type bias; /* rank 0: no bias */
} apart_shape;

/* Runs the forward, and the backward and the bias's gradient from the reference's own results. */
static void check_apart(const apart_shape *shape, const bgi_attention_attributes *given, bg_dtype dtype,
                        random_state *random)
{
    const bg_type q = bg_tensor3(dtype, shape->samples, shape->queries, shape->heads * shape->depth);
    const bg_type k = bg_tensor3(dtype, shape->samples, shape->keys, shape->key_heads * shape->depth);
    const bg_type log_sums = bg_tensor3(BG_FLOAT32, shape->samples, shape->heads, shape->queries);
    const bg_type inputs[] = {q, k, k, shape->bias};
    const uint32_t count = shape->bias.rank > 0 ? 4 : 3;
    const bool has_mask = shape->bias.dtype == BG_UINT8;
    bgi_attention_attributes attributes = *given;
    kernel_case c, back, bias;
    void *results[CASE_OPERANDS];

    attributes.heads = shape->heads;
    attributes.key_heads = shape->key_heads;
    attributes.sequence_length = shape->keys;
    c = begin_case(BGI_KERNEL_DOT_PRODUCT_ATTENTION, &attributes, random, dtype);
    back = begin_case(BGI_KERNEL_DOT_PRODUCT_ATTENTION_BACKWARD, &attributes, random, dtype);
    bias = begin_case(BGI_KERNEL_DOT_PRODUCT_ATTENTION_BIAS_BACKWARD, &attributes, random, dtype);
    back.env = bias.env = c.env;
    for (uint32_t i = 0; i < count; i++)
        case_input(&c, inputs[i], random, i == 3 && has_mask ? 0 : -1, 1);
    case_output(&c, q);
    case_output(&c, log_sums);
    assert_int_equal(case_check(&c, 0), count_isas());

    assert_true(case_run(&c, REFERENCE, 0, results));
    case_input(&back, q, random, -1, 1);
    memcpy(case_input(&bias, q, random, -1, 1), back.initial[0], bg_type_size_bytes(&q));
    for (uint32_t i = 0; i < count + 2; i++) { /* q, k, v, y, log_sum_exp, bias */
        const uint32_t from = i < 3 ? i : i < 5 ? count + i - 3 : 3;

        memcpy(case_input(&back, c.types[from], random, 0, 1), results[from], bg_type_size_bytes(&c.types[from]));
        memcpy(case_input(&bias, c.types[from], random, 0, 1), results[from], bg_type_size_bytes(&c.types[from]));
    }
    for (uint32_t i = 0; i < 3; i++)
        case_output(&back, inputs[i]);
    assert_int_equal(case_check(&back, 0), count_isas());
    if (count == 4 && !has_mask) {
        const double summed = (double)(shape->samples * shape->heads * shape->queries);

        case_output(&bias, shape->bias);
        bias.absolute = dtype == BG_FLOAT32 ? sum_tolerance(summed) : 2e-2 * sqrt(summed);
        assert_int_equal(case_check(&bias, 0), count_isas());
    }
    free_results(&c, results);
    case_clear(&c);
    case_clear(&back);
    case_clear(&bias);
}

/* Draws any bias that fits: no bias, a mask or floats, with any of its first dimensions shared. */
static bg_type draw_bias(random_state *random, const apart_shape *shape, bg_dtype dtype)
{
    const int64_t kind = draw_between(random, 0, 4);
    const bg_dtype dtypes[] = {BG_UINT8, dtype, BG_FLOAT32, dtype};
    bg_type bias = {.rank = 4, .dims = {shape->samples, shape->heads, shape->queries, shape->keys}};

    if (kind == 0)
        return (bg_type){0};
    bias.dtype = dtypes[kind - 1];
    for (int i = 0; i < 3; i++)
        bias.dims[i] = draw(random) % 2 ? 1 : bias.dims[i];
    return bias;
}

static void check_drawn(random_state *random, int round, apart_shape shape)
{
    const bg_dtype dtype = draw_float(random);
    const bgi_attention_attributes attributes = {.causal = round % 2,
                                                 .scale = draw_real(random, -0.5, 1),
                                                 .probability = round % 5 == 0 ? 0.3 : 0.0,
                                                 .random_id = draw(random),
                                                 .window = round % 3 == 0 ? draw_between(random, 1, shape.keys) : 0,
                                                 .offset = round % 4 == 0 ? draw_between(random, -3, shape.keys) : 0,
                                                 .alibi = round % 7 < 2 ? 8.0 : 0.0};

    shape.bias = draw_bias(random, &shape, dtype);
    check_apart(&shape, &attributes, dtype, random);
}

static void test_apart(void **state)
{
    random_state random = {6};

    (void)state;
    for (int i = 0; i < rounds(80); i++) {
        const int64_t key_heads = draw_between(&random, 1, 2);

        check_drawn(&random, i,
                    (apart_shape){.samples = draw_between(&random, 1, 3),
                                  .heads = key_heads * draw_between(&random, 1, 3),
                                  .key_heads = key_heads,
                                  .queries = draw_between(&random, 1, 40),
                                  .keys = draw_between(&random, 1, 40),
                                  .depth = draw_between(&random, 1, 20)});
    }
}

/* New tokens of samples have different positions, some of them out of range; caches are longer than a block. */
static void test_apart_cached(void **state)
{
    random_state random = {8};

    (void)state;
    for (int i = 0; i < rounds(40); i++) {
        const bg_dtype dtype = draw_float(&random);
        const int64_t samples = draw_between(&random, 1, 3), key_heads = draw_between(&random, 1, 2);
        const int64_t heads = key_heads * draw_between(&random, 1, 3);
        const int64_t tokens = draw_between(&random, 1, i % 4 == 0 ? 140 : 5);
        const int64_t depth = i % 10 == 0 ? 256 : draw_between(&random, 1, 20);
        const bg_type q = bg_tensor3(dtype, samples, tokens, heads * depth);
        const bg_type k = bg_tensor3(dtype, samples, tokens, key_heads * depth);
        const bg_type cache = bg_tensor3(dtype, samples, tokens + draw_between(&random, 0, 200), key_heads * depth);
        const bgi_attention_attributes attributes = {.heads = heads,
                                                     .key_heads = key_heads,
                                                     .causal = true,
                                                     .scale = draw_real(&random, -0.5, 1),
                                                     .window = i % 3 == 0 ? draw_between(&random, 1, 50) : 0,
                                                     .alibi = i % 5 == 0 ? 8.0 : 0.0};
        kernel_case c = begin_case(BGI_KERNEL_DOT_PRODUCT_ATTENTION_CACHED, &attributes, &random, dtype);

        case_input(&c, q, &random, -1, 1);
        for (int input = 0; input < 2; input++)
            case_input(&c, k, &random, -1, 1);
        for (int input = 0; input < 2; input++)
            case_input(&c, cache, &random, -1, 1);
        case_input(&c, bg_vector(BG_INT32, samples), &random, -2, (double)(cache.dims[1] - tokens + 2));
        case_output(&c, q);
        assert_int_equal(case_check(&c, 0), count_isas());
        case_clear(&c);
    }
}

/* The numbers of queries and keys are at and around those of blocks, and heads have up to 256 features. */
static void test_apart_blocks(void **state)
{
    static const int64_t queries[] = {33, 129, 97, 130, 1}, keys[] = {97, 96, 200, 33, 193};
    random_state random = {7};

    (void)state;
    for (int i = 0; i < rounds(10); i++)
        check_drawn(&random, i,
                    (apart_shape){.samples = 1,
                                  .heads = 2,
                                  .key_heads = draw_between(&random, 1, 2),
                                  .queries = queries[i % 5],
                                  .keys = keys[i % 5],
                                  .depth = 5});
    check_drawn(&random, 1,
                (apart_shape){.samples = 1, .heads = 1, .key_heads = 1, .queries = 5, .keys = 40, .depth = 256});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_apart),        cmocka_unit_test(test_apart_cached),
                                       cmocka_unit_test(test_apart_blocks), cmocka_unit_test(test_small),
                                       cmocka_unit_test(test_blocks),       cmocka_unit_test(test_large_scores),
                                       cmocka_unit_test(test_no_numbers),   cmocka_unit_test(test_declines_doubles)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
