/*
 * test_gpt_step.c: GPT-2 in steps with a cache is bit-identical to GPT-2 on a whole sequence. Steps have one or several
 * tokens, or are partly filled. The test covers fast and reference kernels and two sessions that share the cache. On a
 * mesh, results agree up to rounding.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/gpt.h>
#include <brigade/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/narrow.h"

enum { LENGTH = 150, VOCABULARY = 61, CACHE = 160 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_gpt_options medium(bg_dtype dtype)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = 2;
    options.hidden = 48;
    options.heads = 3;
    options.sequence_length = LENGTH;
    options.positions = LENGTH;
    options.vocabulary = VOCABULARY;
    options.dropout = 0.0;
    options.dtype = dtype;
    options.outputs = BG_GPT_LOGITS;
    return options;
}

static int32_t token_at(int64_t i)
{
    return (int32_t)((7 * i * i + 3 * i + i / 5) % VOCABULARY);
}

typedef struct run {
    bg_plan *plan;
    bg_session *session;
    int64_t length; /* tokens of a step; 0: the whole model */
} run;

static run open_run_on(const bg_mesh *mesh, const bg_gpt_options *model, int64_t length, bg_kernel_policy kernels,
                       bg_weights *weights)
{
    bg_options options = bg_options_defaults();
    bg_gpt_options used = *model;
    run r = {.length = length};
    bg_error error = {0};
    bg_graph *graph;

    options.numerics.kernels = kernels;
    options.replicas.count = bg_mesh_replica_count(mesh);
    options.numerics.initialize_missing = true;
    require(bg_graph_create(&graph, &error), &error);
    bg_graph_set_mesh(graph, mesh);
    if (length > 0) {
        used.sequence_length = length;
        bg_gpt_build_step(graph, &used, CACHE);
    } else {
        bg_gpt_build(graph, &used);
    }
    require(bg_plan_create_inference(graph, &options, &r.plan, &error), &error);
    require(bg_session_create(r.plan, weights, &r.session, &error), &error);
    bg_graph_destroy(graph);
    return r;
}

static run open_run(const bg_gpt_options *model, int64_t length, bg_kernel_policy kernels, bg_weights *weights)
{
    return open_run_on(&(bg_mesh){1, 1, 1}, model, length, kernels, weights);
}

static void close_run(run *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
}

/* Stores the logits of the whole sequence as float32 [LENGTH][VOCABULARY]. */
static void run_whole(const run *r, bg_dtype dtype, float *logits)
{
    static int32_t tokens[LENGTH];
    static uint16_t halves[LENGTH * VOCABULARY];
    const void *inputs[1] = {tokens};
    void *outputs[1] = {dtype == BG_FLOAT32 ? (void *)logits : (void *)halves};
    bg_error error = {0};

    for (int64_t i = 0; i < LENGTH; i++)
        tokens[i] = token_at(i);
    require(bg_session_run(r->session, inputs, outputs, &error), &error);
    for (int64_t i = 0; dtype != BG_FLOAT32 && i < (int64_t)LENGTH * VOCABULARY; i++)
        logits[i] = bgi_narrow_to_float(dtype, halves[i]);
}

/* Runs a step with `count` tokens and padding; stores the logits of the last token. */
static void run_step(const run *r, int64_t first, int64_t count, float *logits)
{
    int32_t tokens[LENGTH], positions[LENGTH];
    const int32_t row = (int32_t)count - 1;
    const void *inputs[3];
    void *outputs[1] = {logits};
    bg_error error = {0};

    for (int64_t i = 0; i < r->length; i++) {
        tokens[i] = i < count ? token_at(first + i) : 5;
        positions[i] = (int32_t)(first + i);
    }
    inputs[bg_session_find_input(r->session, "tokens")] = tokens;
    inputs[bg_session_find_input(r->session, "positions")] = positions;
    inputs[bg_session_find_input(r->session, "row")] = &row;
    require(bg_session_run(r->session, inputs, outputs, &error), &error);
}

static void assert_row(const float *logits, const float *whole, int64_t token, const char *what)
{
    if (memcmp(logits, whole + token * VOCABULARY, VOCABULARY * sizeof *logits) != 0)
        fail_msg("%s: the logits after token %lld differ, the first %.9g from %.9g", what, (long long)token,
                 (double)logits[0], (double)whole[token * VOCABULARY]);
}

static void check_steps(bg_dtype dtype, bg_kernel_policy kernels, int64_t end, const char *what)
{
    static float whole[LENGTH * VOCABULARY], logits[VOCABULARY];
    const bg_gpt_options model = medium(dtype);
    run all = open_run(&model, 0, kernels, NULL);
    bg_weights *weights = bg_session_weights(all.session);
    run single = open_run(&model, 1, kernels, weights), several = open_run(&model, 10, kernels, weights);

    run_whole(&all, dtype, whole);
    for (int64_t i = 0; i < end; i++) {
        run_step(&single, i, 1, logits);
        assert_row(logits, whole, i, what);
    }
    /* Runs the two sessions alternately from the beginning, also in partly filled steps. */
    for (int64_t at = 0, round = 0; at < end; round++) {
        const int64_t count = round % 3 == 2 || at + 10 > end ? 1 : round % 3 == 1 ? 7 : 10;

        run_step(count == 1 ? &single : &several, at, count, logits);
        at += count;
        assert_row(logits, whole, at - 1, what);
    }
    close_run(&several);
    close_run(&single);
    close_run(&all);
}

static void test_same_bits(void **state)
{
    const bool quick = getenv("BRIGADE_TEST_QUICK") != NULL;
    (void)state;

    check_steps(BG_FLOAT32, BG_KERNELS_FAST, LENGTH, "float32");
    check_steps(BG_BFLOAT16, BG_KERNELS_FAST, quick ? 20 : LENGTH, "bfloat16");
    check_steps(BG_FLOAT16, BG_KERNELS_FAST, quick ? 20 : LENGTH, "float16");
    check_steps(BG_FLOAT32, BG_KERNELS_REFERENCE, quick ? 10 : 40, "float32, reference kernels");
    check_steps(BG_BFLOAT16, BG_KERNELS_REFERENCE, quick ? 10 : 40, "bfloat16, reference kernels");
    check_steps(BG_FLOAT16, BG_KERNELS_REFERENCE, 10, "float16, reference kernels");
}

/* Heads, hidden features and vocabulary are sharded; the host's cache is whole. */
static void test_mesh(void **state)
{
    enum { TOKENS = 12 };
    static const bg_mesh meshes[] = {{1, 3, 2}, {1, 1, 4}, {1, 3, 1}};
    static float whole[LENGTH * VOCABULARY], logits[6 * VOCABULARY];
    const bg_gpt_options model = medium(BG_FLOAT32);
    run all = open_run(&model, 0, BG_KERNELS_FAST, NULL);
    bg_weights *weights = bg_session_weights(all.session);

    (void)state;
    run_whole(&all, BG_FLOAT32, whole);
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        run step = open_run_on(&meshes[m], &model, 1, BG_KERNELS_FAST, weights);
        for (int64_t i = 0; i < TOKENS; i++) {
            run_step(&step, i, 1, logits);
            for (uint32_t r = 1; r < bg_mesh_replica_count(&meshes[m]); r++)
                assert_memory_equal(logits + r * VOCABULARY, logits, VOCABULARY * sizeof *logits);
            for (int64_t v = 0; v < VOCABULARY; v++)
                if (!(fabsf(logits[v] - whole[i * VOCABULARY + v]) <= 2e-6f))
                    fail_msg("mesh %zu, token %lld: logit %lld is %.9g instead of %.9g", m, (long long)i, (long long)v,
                             (double)logits[v], (double)whole[i * VOCABULARY + v]);
        }
        close_run(&step);
    }
    close_run(&all);
}

/* Values that inference writes can be read from the session's weights. */
static void test_cache_is_shared(void **state)
{
    const bg_gpt_options model = medium(BG_FLOAT32);
    run r = open_run(&model, 1, BG_KERNELS_FAST, NULL);
    bg_weights *weights = bg_session_weights(r.session);
    static const float zeros[2 * 48];
    float logits[VOCABULARY];
    bg_weight weight;
    (void)state;

    run_step(&r, 0, 1, logits);
    require(bg_weights_find(weights, "transformer.h.1.attn.cache", &weight, NULL), NULL);
    assert_int_equal(weight.role, BG_ROLE_BUFFER);
    assert_memory_not_equal(weight.data, zeros, sizeof zeros);
    assert_memory_equal((const float *)weight.data + 2 * 48, zeros, sizeof zeros);
    run_step(&r, CACHE - 1, 1, logits);
    require(bg_weights_find(weights, "transformer.h.1.attn.cache", &weight, NULL), NULL);
    assert_memory_not_equal((const float *)weight.data + (CACHE - 1) * 2 * 48, zeros, sizeof zeros);
    close_run(&r);
}

static void refuse(const bg_gpt_options *options, int64_t cache, const char *part)
{
    bg_error error = {0};
    bg_graph *graph;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_gpt_build_step(graph, options, cache);
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_INVALID);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, part);
    bg_graph_destroy(graph);
}

static void test_messages(void **state)
{
    bg_gpt_options bad = medium(BG_FLOAT32);
    (void)state;

    refuse(&bad, LENGTH - 1, "cache_length is 149; it must be at least the 150 tokens of a step");
    bad.heads = 7;
    refuse(&bad, LENGTH, "hidden is 48, which 7 heads do not divide");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_mesh),
        cmocka_unit_test(test_cache_is_shared),
        cmocka_unit_test(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
