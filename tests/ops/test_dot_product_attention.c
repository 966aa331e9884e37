/*
 * test_dot_product_attention.c: compares attention with masks, biases, windows, shared keys and slopes with PyTorch and
 * central differences. Without these options, results are those of bg_attention. The test also covers the dropout mask
 * and errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/attention/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

typedef struct attention_case {
    const char *name;
    bg_dot_product_attention_options options; /* struct_bytes is set later */
    bool has_bias;
    int64_t padding; /* sample n's mask leaves out n times this many keys */
} attention_case;

/* Adds a mask, which is 1 for the keys that sample n sees. */
static bg_value add_mask(bg_graph *graph, int64_t samples, int64_t keys, int64_t padding)
{
    const bg_type type = {.dtype = BG_UINT8, .rank = 4, .dims = {samples, 1, 1, keys}};
    uint8_t mask[64];

    for (int64_t i = 0; i < samples * keys; i++)
        mask[i] = i % keys < keys - padding * (i / keys);
    return bg_graph_constant(graph, "mask", &type, mask);
}

static bg_value build(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const attention_case *test = argument;
    const bg_type query = bg_graph_type(graph, inputs[0]), key = bg_graph_type(graph, inputs[1]);
    bg_dot_product_attention_options options = test->options;
    bg_value bias = test->has_bias ? inputs[3] : (bg_value){0};

    options.struct_bytes = sizeof options;
    if (test->padding > 0)
        bias = add_mask(graph, query.dims[0], key.dims[1], test->padding);
    return bg_dot_product_attention(graph, "attention", inputs[0], inputs[1], inputs[2], bias, &options);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    static const attention_case cases[] = {
        {"cross", {.heads = 2}, false, 0},
        {"grouped", {.heads = 4, .key_heads = 2, .causal = true}, false, 0},
        {"one_key_head", {.heads = 3, .key_heads = 1, .scale = 0.25}, false, 0},
        {"window", {.heads = 2, .causal = true, .window = 3}, false, 0},
        {"window_both", {.heads = 2, .key_heads = 1, .window = 2}, false, 0},
        {"last_queries", {.heads = 1, .causal = true, .offset = 4}, false, 0},
        {"before_all", {.heads = 1, .causal = true, .offset = -2}, false, 0},
        {"slopes", {.heads = 3, .causal = true, .alibi = 8.0}, false, 0},
        {"slopes_both", {.heads = 4, .key_heads = 2, .alibi = 4.0, .offset = 1}, false, 0},
        {"padding", {.heads = 2}, false, 2},
        {"nothing_seen", {.heads = 2}, false, 3},
        {"bias", {.heads = 2}, true, 0},
        {"bias_of_heads", {.heads = 2, .key_heads = 1, .causal = true}, true, 0},
        {"bias_of_samples", {.heads = 2, .alibi = 8.0}, true, 0},
        {"bias_of_keys", {.heads = 2}, true, 0},
        {"deep", {.heads = 1}, false, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bgi_test_build_case(*state, cases[i].name, BG_FLOAT32, build, &cases[i], 1e-5, 1e-5);
        bgi_test_build_case(*state, cases[i].name, BG_FLOAT64, build, &cases[i], 3e-8, 3e-8);
    }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type q = bg_tensor3(BG_FLOAT64, 2, 3, 8), k = bg_tensor3(BG_FLOAT64, 2, 4, 4);
    const bgi_attention_attributes base = {.heads = 4, .key_heads = 2, .scale = 0.6};
    bgi_attention_attributes attributes = base;

    (void)state;
    for (uint32_t shape = 0; shape < 8; shape++) {
        const bg_type bias = {
            .dtype = BG_FLOAT64, .rank = 4, .dims = {shape & 1 ? 2 : 1, shape & 2 ? 4 : 1, shape & 4 ? 3 : 1, 4}};

        attributes.causal = shape % 3 == 1;
        attributes.window = shape % 3 == 2 ? 2 : 0;
        attributes.alibi = shape % 2 ? 8.0 : 0.0;
        bgi_test_gradient(&bgi_op_dot_product_attention, &attributes, (const bg_type[]){q, k, k, bias}, 4, -1, 1);
    }
    attributes = base;
    attributes.probability = 0.4;
    attributes.random_id = 3;
    bgi_test_gradient(&bgi_op_dot_product_attention, &attributes, (const bg_type[]){q, k, k}, 3, -1, 1);
}

/* Runs attention with queries, keys and values in one packed tensor, or in three tensors. */
static void attend(bool is_packed, bool drops, double *out)
{
    enum { SAMPLES = 2, LENGTH = 5, HEADS = 2, DEPTH = 3, WIDTH = HEADS * DEPTH };
    const bg_type type = bg_tensor3(BG_FLOAT64, SAMPLES, LENGTH, 3 * WIDTH);
    bg_attention_options packed = bg_attention_defaults(HEADS);
    bg_dot_product_attention_options apart = bg_dot_product_attention_defaults(HEADS);
    bgi_test_interpreter interpreter;
    double qkv[SAMPLES * LENGTH * 3 * WIDTH];
    bg_graph *graph = NULL;
    bg_value x, y;

    packed.dropout = apart.dropout = drops ? 0.4 : 0.0;
    apart.causal = true;
    for (size_t i = 0; i < sizeof qkv / sizeof *qkv; i++)
        qkv[i] = sin(0.7 * (double)i) + 0.3 * cos(2.1 * (double)i);
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    y = is_packed
            ? bg_attention(graph, "a", x, &packed)
            : bg_dot_product_attention(graph, "a", bg_slice(graph, NULL, x, 2, 0, WIDTH, 1),
                                       bg_slice(graph, NULL, x, 2, WIDTH, 2 * WIDTH, 1),
                                       bg_slice(graph, NULL, x, 2, 2 * WIDTH, 3 * WIDTH, 1), (bg_value){0}, &apart);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bgi_test_interpreter_init(&interpreter, graph);
    interpreter.env = (bg_kernel_env){.seed = 7, .step = 3, .micro_batch = 2, .training = true};
    bgi_test_set(&interpreter, x, qkv);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, y, out);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_it_is_attention(void **state)
{
    double wanted[60], found[60], dropped[60];

    (void)state;
    attend(true, false, wanted);
    attend(false, false, found);
    assert_memory_equal(found, wanted, sizeof wanted);
    attend(true, true, dropped);
    attend(false, true, found);
    assert_memory_equal(found, dropped, sizeof dropped);
    assert_memory_not_equal(dropped, wanted, sizeof wanted);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type q = bg_tensor3(BG_FLOAT32, 2, 3, 8), k = bg_tensor3(BG_FLOAT32, 2, 5, 4);
    const bg_type matrix = bg_matrix(BG_FLOAT32, 3, 8), integers = bg_tensor3(BG_INT32, 2, 3, 8);
    const bg_type narrow = bg_tensor3(BG_FLOAT32, 2, 5, 3), other = bg_tensor3(BG_FLOAT32, 1, 5, 4);
    const bg_type bias = {.dtype = BG_FLOAT32, .rank = 4, .dims = {2, 1, 2, 5}};
    const bg_type ids = {.dtype = BG_INT32, .rank = 4, .dims = {2, 1, 1, 5}};
    const attention_case good = {"", {.heads = 4, .key_heads = 2}, false, 0};
    attention_case bad = good;

#define REFUSES(status, text, ...)                                                                                     \
    do {                                                                                                               \
        const bg_type types[] = {__VA_ARGS__};                                                                         \
        bad.has_bias = sizeof types / sizeof *types > 3;                                                               \
        bgi_test_build_fails(build, &bad, types, sizeof types / sizeof *types, status, text);                          \
        bad = good;                                                                                                    \
    } while (0)
    (void)state;
    REFUSES(BG_ERROR_SHAPE, "the query is float32[3,8]", matrix, k, k);
    REFUSES(BG_ERROR_SHAPE, "the query is int32[2,3,8]", integers, k, k);
    REFUSES(BG_ERROR_SHAPE, "the key is float32[2,5,3]; it must be float32[2,5,4]", q, narrow, k);
    REFUSES(BG_ERROR_SHAPE, "the key is float32[1,5,4]", q, other, other);
    REFUSES(BG_ERROR_SHAPE, "the value is float32[2,5,3]", q, k, narrow);
    REFUSES(BG_ERROR_SHAPE, "the bias is float32[2,1,2,5]; it must be [2, 4, 3, 5]", q, k, k, bias);
    REFUSES(BG_ERROR_SHAPE, "or uint8 for a mask", q, k, k, ids);
    bad.options.heads = 0;
    REFUSES(BG_ERROR_INVALID, "heads is 0 and key_heads is 2", q, k, k);
    bad.options.key_heads = 3;
    REFUSES(BG_ERROR_INVALID, "heads is 4 and key_heads is 3", q, k, k);
    bad.options.heads = bad.options.key_heads = 3;
    REFUSES(BG_ERROR_SHAPE, "must be 3 heads x their width", q, k, k);
    bad.options.window = -1;
    REFUSES(BG_ERROR_INVALID, "window is -1", q, k, k);
    bad.options.offset = INT64_MAX;
    REFUSES(BG_ERROR_INVALID, "offset is 9223372036854775807", q, k, k);
    bad.options.scale = NAN;
    REFUSES(BG_ERROR_INVALID, "scale is nan", q, k, k);
    bad.options.dropout = 1.0;
    REFUSES(BG_ERROR_INVALID, "dropout is 1", q, k, k);
    bad.options.alibi = -8.0;
    REFUSES(BG_ERROR_INVALID, "alibi is -8", q, k, k);
    bad.options.alibi = 8.0;
    bad.options.axis = BG_MESH_TENSOR_1;
    REFUSES(BG_ERROR_UNSUPPORTED, "alibi is set, but the heads are split over an axis", q, k, k);
#undef REFUSES
}

static void test_options_are_needed(void **state)
{
    const bg_type q = bg_tensor3(BG_FLOAT32, 2, 3, 8);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_value x;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &q);
    bg_dot_product_attention(graph, "a", x, x, x, (bg_value){0}, NULL);
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "bg_dot_product_attention_defaults(heads) makes them"));
    bg_graph_destroy(graph);
}

/* ---- with a cache ---- */

enum { SAMPLES = 2, TOKENS = 6, HEADS = 4, KEY_HEADS = 2, DEPTH = 3, PLACES = 9 };
enum { QUERY_WIDTH = HEADS * DEPTH, KEY_WIDTH = KEY_HEADS * DEPTH };

typedef struct cached_rig {
    bg_graph *graph;
    bg_value q, k, v, caches[2], at, y;
    bgi_test_interpreter interpreter;
} cached_rig;

/* Builds attention of `tokens` new tokens; with `is_cached` they follow the tokens of earlier runs. */
static cached_rig begin_cached(bool is_cached, int64_t tokens, const bg_dot_product_attention_options *options)
{
    const bg_type q = bg_tensor3(BG_FLOAT64, SAMPLES, tokens, QUERY_WIDTH);
    const bg_type k = bg_tensor3(BG_FLOAT64, SAMPLES, tokens, KEY_WIDTH), at = bg_vector(BG_INT32, SAMPLES);
    const bg_type cache = bg_tensor3(BG_FLOAT64, SAMPLES, PLACES, KEY_WIDTH);
    bg_error error = {0};
    cached_rig r = {0};

    assert_int_equal(bg_graph_create(&r.graph, NULL), BG_OK);
    r.q = bg_graph_input(r.graph, "q", &q);
    r.k = bg_graph_input(r.graph, "k", &k);
    r.v = bg_graph_input(r.graph, "v", &k);
    r.at = bg_graph_input(r.graph, "at", &at);
    for (int i = 0; i < 2; i++)
        r.caches[i] = bg_graph_variable(r.graph, i == 0 ? "keys" : "values", &cache, BG_ROLE_BUFFER, NULL);
    r.y = is_cached
              ? bg_dot_product_attention_cached(r.graph, NULL, r.q, r.k, r.v, r.caches[0], r.caches[1], r.at, options)
              : bg_dot_product_attention(r.graph, NULL, r.q, r.k, r.v, (bg_value){0}, options);
    if (bg_graph_check(r.graph, &error) != BG_OK)
        fail_msg("%s", error.message);
    bgi_test_interpreter_init(&r.interpreter, r.graph);
    return r;
}

static double draw_value(int which, int64_t sample, int64_t token, int64_t d)
{
    return sin((double)(which * 1000 + sample * 300 + token * 17 + d) * 1.3);
}

/* Runs `tokens` tokens; sample n gets its tokens from first[n] on. */
static void run_cached(cached_rig *r, int64_t tokens, const int32_t *first, double *y)
{
    const bg_value values[] = {r->q, r->k, r->v};
    double data[SAMPLES * TOKENS * QUERY_WIDTH];

    for (int which = 0; which < 3; which++) {
        const int64_t width = which == 0 ? QUERY_WIDTH : KEY_WIDTH;

        for (int64_t n = 0; n < SAMPLES; n++)
            for (int64_t i = 0; i < tokens * width; i++)
                data[n * tokens * width + i] = draw_value(which, n, first[n] + i / width, i % width);
        bgi_test_set(&r->interpreter, values[which], data);
    }
    memcpy(bgi_test_data(&r->interpreter, r->at), first, SAMPLES * sizeof *first);
    bgi_test_interpret(&r->interpreter);
    bgi_test_get(&r->interpreter, r->y, y);
}

static void end_cached(cached_rig *r)
{
    bgi_test_interpreter_clear(&r->interpreter);
    bg_graph_destroy(r->graph);
}

/* Three runs of two tokens give the rows of one run with all tokens, even though the second sample repeats its first
 * two tokens in the second run. */
static void test_a_cache_is_the_tokens_before(void **state)
{
    static const int32_t places[3][SAMPLES] = {{0, 0}, {2, 0}, {4, 2}};

    (void)state;
    for (int way = 0; way < 3; way++) {
        bg_dot_product_attention_options options = bg_dot_product_attention_defaults(HEADS);
        double whole[SAMPLES * TOKENS * QUERY_WIDTH], part[SAMPLES * 2 * QUERY_WIDTH];
        cached_rig all, cached;

        options.key_heads = KEY_HEADS;
        options.causal = true;
        options.window = way == 1 ? 3 : 0;
        options.alibi = way == 2 ? 8.0 : 0.0;
        all = begin_cached(false, TOKENS, &options);
        run_cached(&all, TOKENS, (const int32_t[SAMPLES]){0}, whole);
        cached = begin_cached(true, 2, &options);
        for (int run = 0; run < 3; run++) {
            run_cached(&cached, 2, places[run], part);
            for (int n = 0; n < SAMPLES; n++)
                for (int i = 0; i < 2 * QUERY_WIDTH; i++)
                    assert_true(fabs(part[n * 2 * QUERY_WIDTH + i] -
                                     whole[(n * TOKENS + places[run][n]) * QUERY_WIDTH + i]) < 1e-12);
        }
        end_cached(&all);
        end_cached(&cached);
    }
}

static void test_cached_messages(void **state)
{
    const bg_type q = bg_tensor3(BG_FLOAT32, 2, 3, 8), k = bg_tensor3(BG_FLOAT32, 2, 3, 4);
    const bg_type cache = bg_tensor3(BG_FLOAT32, 2, 5, 4), small = bg_tensor3(BG_FLOAT32, 2, 2, 4);
    const bg_type other = bg_tensor3(BG_FLOAT32, 2, 5, 8), at = bg_vector(BG_INT32, 2), one = bg_vector(BG_INT32, 1);
    const bg_type longer = bg_tensor3(BG_FLOAT32, 2, 4, 4);
    const struct {
        bg_type types[6];
        const char *text;
    } cases[] = {
        {{q, k, k, small, small, at}, "the key cache is float32[2,2,4]"},
        {{q, k, k, other, other, at}, "the key cache is float32[2,5,8]; it must be float32[2,5,4]"},
        {{q, k, k, cache, other, at}, "the value cache is float32[2,5,8]"},
        {{q, k, k, cache, cache, one}, "positions is int32[1]; it must be int32[2]"},
        {{q, longer, longer, cache, cache, at},
         "the key is float32[2,4,4]; it must have the 3 new tokens that the query has"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bg_dot_product_attention_options options = bg_dot_product_attention_defaults(2);
        bg_error error = {0};
        bg_graph *graph = NULL;
        bg_value v[6];
        char name[2] = "a";

        options.key_heads = 1;
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        for (int o = 0; o < 6; o++, name[0]++)
            v[o] = o == 3 || o == 4 ? bg_graph_variable(graph, name, &cases[i].types[o], BG_ROLE_BUFFER, NULL)
                                    : bg_graph_input(graph, name, &cases[i].types[o]);
        bg_dot_product_attention_cached(graph, NULL, v[0], v[1], v[2], v[3], v[4], v[5], &options);
        assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_SHAPE);
        if (strstr(error.message, cases[i].text) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", error.message, cases[i].text);
        bg_graph_destroy(graph);
    }
}

/* ---- lengths ---- */

static void test_a_mask_of_lengths(void **state)
{
    const uint8_t wanted[] = {1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1};

    (void)state;
    for (int is_long = 0; is_long < 2; is_long++) {
        const bg_type type = bg_vector(is_long ? BG_INT64 : BG_INT32, 3);
        bgi_test_interpreter interpreter;
        bg_graph *graph = NULL;
        bg_value lengths, mask;
        bg_type made;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        lengths = bg_graph_input(graph, "lengths", &type);
        mask = bg_length_mask(graph, "mask", lengths, 4);
        assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
        made = bg_graph_type(graph, mask);
        assert_true(made.dtype == BG_UINT8 && made.rank == 4 && made.dims[0] == 3 && made.dims[3] == 4);
        bgi_test_interpreter_init(&interpreter, graph);
        bgi_test_set(&interpreter, lengths, (const double[]){2, 0, 9});
        bgi_test_interpret(&interpreter);
        assert_memory_equal(bgi_test_data(&interpreter, mask), wanted, sizeof wanted);
        bgi_test_interpreter_clear(&interpreter);
        bg_length_mask(graph, "none", lengths, 0);
        assert_int_equal(bg_graph_check(graph, NULL), BG_ERROR_SHAPE);
        bg_graph_destroy(graph);
    }
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/dot_product_attention.txt");
    return 0;
}

static int close_oracle(void **state)
{
    bgi_test_oracle_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch_has_the_same_numbers),
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_it_is_attention),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_options_are_needed),
        cmocka_unit_test(test_a_cache_is_the_tokens_before),
        cmocka_unit_test(test_cached_messages),
        cmocka_unit_test(test_a_mask_of_lengths),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
