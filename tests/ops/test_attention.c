/*
 * test_attention.c: compares attention with PyTorch and its gradient with central differences. The dropout mask is the
 * documented one, and results do not depend on the number of pieces. It also tests extreme values and error messages.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <brigade/random.h>

#include "kernels/attention/attributes.h"
#include "ops/ops.h"
#include "support/interpret.h"
#include "support/op_case.h"

enum { SAMPLES = 2, LENGTH = 6, HEADS = 2, DEPTH = 3, ROWS = SAMPLES * LENGTH, WIDTH = HEADS * DEPTH };

static void test_oracle(void **state)
{
    const struct {
        const char *name;
        bgi_attention_attributes attributes;
    } cases[] = {
        {"causal", {.heads = 2, .sequence_length = 5, .causal = true, .scale = 0.57735026918962573}},
        {"full", {.heads = 3, .sequence_length = 6, .scale = 0.70710678118654757}},
        {"scaled", {.heads = 1, .sequence_length = 4, .causal = true, .scale = 0.25}},
        {"single", {.heads = 2, .sequence_length = 1, .causal = true, .scale = 0.70710678118654757}},
        {"wide", {.heads = 1, .sequence_length = 3, .causal = true, .scale = 0.11952286093343936}},
    };
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/attention.txt");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bgi_attention_attributes attributes = cases[i].attributes;
        const bgi_test_op_case test = {.name = cases[i].name,
                                       .op_type = &bgi_op_attention,
                                       .attributes = &attributes,
                                       .inputs = {"qkv"},
                                       .outputs = {"y", "log_sum_exp"}};

        attributes.serialization = 1;
        bgi_test_op_case_run_all(oracle, &test, false);
        bgi_test_op_case_check_gradient(oracle, &test);
    }
    bgi_test_oracle_close(oracle);
}

/* Fills an operand; the numbers are the same for every call. */
static void fill(double *qkv, size_t count)
{
    for (size_t i = 0; i < count; i++)
        qkv[i] = sin(0.7 * (double)i) + 0.3 * cos(2.1 * (double)i);
}

static const bgi_attention_attributes dropping = {
    .heads = HEADS, .sequence_length = LENGTH, .causal = true, .scale = 0.5, .probability = 0.3, .random_id = 7};

/* Runs attention of `samples` sequences at qkv, in float64. */
static void attend(const bgi_attention_attributes *given, const bg_kernel_env *env, int64_t samples, const double *qkv,
                   double *out)
{
    const bg_type type = bg_matrix(BG_FLOAT64, samples * LENGTH, 3 * WIDTH);
    bgi_attention_attributes attributes = *given;
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value x, y;

    if (attributes.serialization == 0)
        attributes.serialization = 1;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    y = bg_graph_add(graph, &bgi_op_attention, "attention", &x, 1, &attributes, NULL);
    bgi_test_interpreter_init(&interpreter, graph);
    interpreter.env = *env;
    bgi_test_set(&interpreter, x, qkv);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, y, out);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* Computes the dropout factor of one weight by the formula in attributes.h. */
static double documented_factor(const bg_kernel_env *env, uint32_t sample, uint32_t head, uint32_t i, uint32_t j)
{
    const uint32_t counter[4] = {(head * LENGTH + i) * ((LENGTH + 3) / 4) + j / 4, sample, 7, (uint32_t)env->step};
    const uint32_t key[2] = {(uint32_t)env->seed, (uint32_t)(env->seed >> 32) ^ (uint32_t)(env->step >> 32)};
    uint32_t words[4];

    bg_philox(counter, key, words);
    return words[j % 4] * 0x1p-32 >= 0.3 ? 1.0 / 0.7 : 0.0;
}

static double score(const double *qkv, uint32_t row, uint32_t head, uint32_t i, uint32_t j)
{
    double sum = 0.0;

    for (uint32_t d = 0; d < DEPTH; d++)
        sum += qkv[(row + i) * 3 * WIDTH + head * DEPTH + d] * qkv[(row + j) * 3 * WIDTH + WIDTH + head * DEPTH + d];
    return 0.5 * sum;
}

static void test_mask_is_the_documented_one(void **state)
{
    const bg_kernel_env env = {.seed = 0x123456789abcdef0u, .step = 0x5500000003u, .micro_batch = 9, .training = true};
    double qkv[ROWS * 3 * WIDTH], y[ROWS * WIDTH];
    uint32_t dropped = 0;

    (void)state;
    fill(qkv, ROWS * 3 * WIDTH);
    attend(&dropping, &env, SAMPLES, qkv, y);
    for (uint32_t at = 0; at < ROWS * WIDTH; at++) {
        const uint32_t row = at / WIDTH, head = at % WIDTH / DEPTH, d = at % DEPTH, n = row / LENGTH, i = row % LENGTH;
        double sum = 0.0, expected = 0.0;

        for (uint32_t j = 0; j <= i; j++)
            sum += exp(score(qkv, n * LENGTH, head, i, j));
        for (uint32_t j = 0; j <= i; j++) {
            const double factor = documented_factor(&env, 9 * SAMPLES + n, head, i, j);

            dropped += factor == 0.0;
            expected += factor * exp(score(qkv, n * LENGTH, head, i, j)) / sum *
                        qkv[(n * LENGTH + j) * 3 * WIDTH + 2 * WIDTH + head * DEPTH + d];
        }
        if (fabs(y[at] - expected) > 1e-12)
            fail_msg("element %u is %.17g, expected %.17g", (unsigned)at, y[at], expected);
    }
    assert_in_range(dropped, 1, ROWS * WIDTH * LENGTH / 2);
}

/* One micro-batch of two sequences equals two micro-batches of one sequence. The requested number of pieces has no
 * effect. In inference nothing is dropped. */
static void test_what_changes_nothing(void **state)
{
    const bg_kernel_env whole = {.seed = 5, .step = 2, .micro_batch = 3, .training = true};
    bg_kernel_env testing = whole;
    bgi_attention_attributes plain = dropping, pieces = dropping;
    double qkv[ROWS * 3 * WIDTH], expected[ROWS * WIDTH], y[ROWS * WIDTH];

    (void)state;
    fill(qkv, ROWS * 3 * WIDTH);
    attend(&dropping, &whole, SAMPLES, qkv, expected);
    for (uint32_t half = 0; half < 2; half++) {
        const bg_kernel_env env = {.seed = 5, .step = 2, .micro_batch = 6 + half, .training = true};

        attend(&dropping, &env, 1, &qkv[half * LENGTH * 3 * WIDTH], &y[half * LENGTH * WIDTH]);
    }
    assert_memory_equal(y, expected, sizeof y);
    for (int64_t count = 1; count <= LENGTH; count++) {
        pieces.serialization = count;
        if (LENGTH % count != 0)
            continue;
        attend(&pieces, &whole, SAMPLES, qkv, y);
        assert_memory_equal(y, expected, sizeof y);
    }
    testing.training = false;
    plain.probability = 0.0;
    attend(&plain, &whole, SAMPLES, qkv, expected);
    attend(&dropping, &testing, SAMPLES, qkv, y);
    assert_memory_equal(y, expected, sizeof y);
}

/* With the mask of a fixed step, the gradient is the derivative of the function with that mask. */
static void test_gradient_with_dropout(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, ROWS, 3 * WIDTH);
    bgi_attention_attributes attributes = dropping;
    bg_error error = {0};

    (void)state;
    attributes.serialization = 2;
    if (bg_gradient_check(&bgi_op_attention, &attributes, &type, NULL, 1, NULL, &error) != BG_OK)
        fail_msg("%s", error.message);
}

/* Scores of thousands do not overflow, and masked elements are ignored. */
static void test_extremes(void **state)
{
    const bg_kernel_env env = {.seed = 1};
    const bgi_attention_attributes attributes = {.heads = HEADS, .sequence_length = LENGTH, .causal = true, .scale = 1};
    double qkv[LENGTH * 3 * WIDTH], y[LENGTH * WIDTH];

    (void)state;
    for (int i = 0; i < LENGTH * 3 * WIDTH; i++)
        qkv[i] = i % (3 * WIDTH) < 2 * WIDTH ? 100.0 : i / (3 * WIDTH);
    attend(&attributes, &env, 1, qkv, y);
    for (int i = 0; i < LENGTH * WIDTH; i++)
        assert_true(fabs(y[i] - (i / WIDTH) / 2.0) < 1e-9); /* the mean of 0 .. i */
    qkv[(LENGTH - 1) * 3 * WIDTH + WIDTH] = NAN;            /* a key that only the last query sees */
    attend(&attributes, &env, 1, qkv, y);
    for (int i = 0; i < (LENGTH - 1) * WIDTH; i++)
        assert_false(isnan(y[i]));
    assert_true(isnan(y[(LENGTH - 1) * WIDTH]));
}

static void test_messages(void **state)
{
    const bg_type good = bg_matrix(BG_FLOAT32, 12, 18), integers = bg_matrix(BG_INT32, 12, 18),
                  vector = bg_vector(BG_FLOAT32, 18), deep = bg_tensor3(BG_FLOAT32, 2, 5, 18);
    const bgi_attention_attributes base = {.heads = 2, .sequence_length = 6, .scale = 1, .serialization = 1};
    bgi_attention_attributes bad = base;

#define REFUSES(type, status, ...)                                                                                     \
    bgi_test_op_refuses(&bgi_op_attention, &bad, type, 1, status, (const char *const[]){__VA_ARGS__, NULL})
    (void)state;
    REFUSES(&integers, BG_ERROR_SHAPE, "qkv is int32[12,18]", "float32, bfloat16, float16 or float64");
    REFUSES(&vector, BG_ERROR_SHAPE, "qkv is float32[18]", "[N, S, 3 heads D]");
    REFUSES(&deep, BG_ERROR_SHAPE, "5 tokens are not a whole number of sequences of 6");
    bad.heads = 4;
    REFUSES(&good, BG_ERROR_SHAPE, "qkv is float32[12,18]", "x 4 heads");
    bad.heads = 0;
    REFUSES(&good, BG_ERROR_INVALID, "heads is 0", "at least 1");
    bad = base;
    bad.sequence_length = 5;
    REFUSES(&good, BG_ERROR_SHAPE, "12 tokens are not a whole number of sequences of 5");
    bad.sequence_length = 0;
    REFUSES(&good, BG_ERROR_INVALID, "sequence length is 0");
    bad = base;
    bad.scale = INFINITY;
    REFUSES(&good, BG_ERROR_INVALID, "scale is inf");
    bad = base;
    bad.probability = 1.0;
    REFUSES(&good, BG_ERROR_INVALID, "dropout is 1", "below 1");
    bad = base;
    bad.serialization = 4;
    REFUSES(&good, BG_ERROR_INVALID, "serialization is 4", "divide the 6 queries");
#undef REFUSES
}

static void test_builder(void **state)
{
    const bg_type type = bg_tensor3(BG_FLOAT32, 2, 5, 24);
    bg_attention_options options = bg_attention_defaults(2);
    bg_graph *graph = NULL;
    bg_type y;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    y = bg_graph_type(graph, bg_attention(graph, "a", bg_graph_input(graph, "x", &type), &options));
    assert_true(y.rank == 3 && y.dims[0] == 2 && y.dims[1] == 5 && y.dims[2] == 8);
    options.heads = 0;
    assert_true(bg_value_is_null(bg_attention(graph, "b", bg_graph_input(graph, "z", &type), &options)));
    assert_int_equal(bg_graph_check(graph, NULL), BG_ERROR_INVALID);
    bg_graph_destroy(graph);
}

/* ---- with a cache ---- */

/* Runs the rows of one sequence in steps of two tokens at `positions`, with a cache of twice as many rows, and fills y
 * completely. */
static void attend_cached(const double *qkv, const int32_t *positions, double *y)
{
    const bg_type type = bg_matrix(BG_FLOAT64, 2, 3 * WIDTH), place = bg_vector(BG_INT32, 1);
    const bg_type cache_type = bg_matrix(BG_FLOAT64, 2 * LENGTH, 2 * WIDTH);
    const bg_initializer zero = {.kind = BG_INITIALIZE_CONSTANT};
    bg_attention_options options = bg_attention_defaults(HEADS);
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value x, cache, at, out;

    options.scale = 0.5;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    at = bg_graph_input(graph, "at", &place);
    cache = bg_graph_variable(graph, "cache", &cache_type, BG_ROLE_BUFFER, &zero);
    out = bg_attention_cached(graph, NULL, x, cache, at, &options);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bgi_test_interpreter_init(&interpreter, graph);
    for (int step = 0; step < LENGTH / 2; step++) {
        memcpy(bgi_test_data(&interpreter, at), &positions[step], sizeof *positions);
        bgi_test_set(&interpreter, x, qkv + (ptrdiff_t)step * 2 * 3 * WIDTH);
        bgi_test_interpret(&interpreter);
        bgi_test_get(&interpreter, out, y + (ptrdiff_t)step * 2 * WIDTH);
    }
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_cached(void **state)
{
    const bgi_attention_attributes attributes = {
        .heads = HEADS, .sequence_length = LENGTH, .causal = true, .scale = 0.5};
    const bg_kernel_env env = {.training = false};
    double qkv[LENGTH * 3 * WIDTH], y[LENGTH * WIDTH], wanted[LENGTH * WIDTH];

    (void)state;
    fill(qkv, LENGTH * 3 * WIDTH);
    attend(&attributes, &env, 1, qkv, wanted);
    attend_cached(qkv, (const int32_t[]){0, 2, 4}, y);
    assert_memory_equal(y, wanted, sizeof wanted);
    /* An out-of-range position counts as the nearest valid one: at the cache's end, tokens see rows that were never
     * written. */
    attend_cached(qkv, (const int32_t[]){-7, 2, 1000}, y);
    assert_memory_equal(y, wanted, 4 * WIDTH * sizeof *y);
    assert_true(isfinite(y[LENGTH * WIDTH - 1]) && y[LENGTH * WIDTH - 1] != wanted[LENGTH * WIDTH - 1]);
}

static void test_cached_messages(void **state)
{
    const bg_type good[3] = {bg_matrix(BG_FLOAT32, 6, 18), bg_matrix(BG_FLOAT32, 9, 12), bg_vector(BG_INT32, 6)};
    const bgi_attention_attributes base = {
        .heads = 2, .sequence_length = 6, .causal = true, .scale = 1, .serialization = 1};
    bgi_attention_attributes bad = base;
    bg_type types[3];

#define REFUSES(which, type, status, ...)                                                                              \
    memcpy(types, good, sizeof types);                                                                                 \
    types[which] = type;                                                                                               \
    bgi_test_op_refuses(&bgi_op_attention_cached, &bad, types, 3, status, (const char *const[]){__VA_ARGS__, NULL})
    (void)state;
    REFUSES(0, bg_matrix(BG_FLOAT32, 12, 18), BG_ERROR_SHAPE, "qkv is float32[12,18]", "of one sequence");
    REFUSES(1, bg_matrix(BG_FLOAT32, 5, 12), BG_ERROR_SHAPE, "the cache is float32[5,12]", "[at least 6, 12]");
    REFUSES(1, bg_matrix(BG_FLOAT32, 9, 18), BG_ERROR_SHAPE, "the cache is float32[9,18]");
    REFUSES(1, bg_matrix(BG_BFLOAT16, 9, 12), BG_ERROR_SHAPE, "of the same type");
    REFUSES(2, bg_vector(BG_FLOAT32, 6), BG_ERROR_SHAPE, "positions are float32[6]");
    bad.causal = false;
    REFUSES(0, good[0], BG_ERROR_INVALID, "must be causal");
    bad = base;
    bad.probability = 0.1;
    REFUSES(0, good[0], BG_ERROR_INVALID, "cannot have dropout");
#undef REFUSES
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_mask_is_the_documented_one),
        cmocka_unit_test(test_what_changes_nothing),
        cmocka_unit_test(test_gradient_with_dropout),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_builder),
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_cached_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
