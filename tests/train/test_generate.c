/*
 * test_generate.c: a generator continues text as the whole model does, with or without a cache, and draws tokens by
 * their probabilities.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/generate.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POSITIONS = 70, VOCABULARY = 23 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_gpt_options small(void)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = 2;
    options.hidden = 16;
    options.heads = 2;
    options.sequence_length = options.positions = POSITIONS;
    options.vocabulary = VOCABULARY;
    options.outputs = BG_GPT_LOGITS;
    return options;
}

/* Makes weights of 10 times the initial values, with which the model clearly prefers some tokens. */
static bg_weights *make_weights(void)
{
    bg_options options = bg_options_defaults();
    const bg_gpt_options model = small();
    bg_error error = {0};
    bg_weights *weights;
    bg_session *session;
    bg_graph *graph;
    bg_plan *plan;

    require(bg_weights_create(&weights, &error), &error);
    require(bg_graph_create(&graph, &error), &error);
    bg_gpt_build(graph, &model);
    options.numerics.initialize_missing = true;
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    require(bg_session_create(plan, weights, &session, &error), &error);
    bg_session_destroy(session);
    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        float *values;

        require(bg_weights_at(weights, i, &weight, &error), &error);
        values = malloc(bg_type_size_bytes(&weight.type));
        assert_non_null(values);
        for (int64_t e = 0; e < bg_type_element_count(&weight.type); e++)
            values[e] = ((const float *)weight.data)[e] * (weight.type.rank == 2 ? 10.0F : 1.0F);
        require(bg_weights_set(weights, weight.name, &weight.type, values, &error), &error);
        free(values);
    }
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return weights;
}

static bg_generator *open_generator(const bg_gpt_options *model, bg_weights *weights)
{
    bg_generator *generator;
    bg_error error = {0};

    require(bg_generator_create(model, NULL, weights, &generator, &error), &error);
    return generator;
}

/* ---- compared with the whole model ---- */

/* Continues `tokens` greedily up to the last position, running the whole model for each token. */
static void continue_without_cache(bg_weights *weights, uint32_t *tokens, int64_t known)
{
    static float logits[POSITIONS * VOCABULARY];
    const bg_options options = bg_options_defaults();
    const bg_gpt_options model = small();
    int32_t input[POSITIONS] = {0};
    const void *inputs[1] = {input};
    void *outputs[1] = {logits};
    bg_error error = {0};
    bg_session *session;
    bg_graph *graph;
    bg_plan *plan;

    require(bg_graph_create(&graph, &error), &error);
    bg_gpt_build(graph, &model);
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    require(bg_session_create(plan, weights, &session, &error), &error);
    for (; known < POSITIONS; known++) {
        uint32_t best = 0;

        for (int64_t i = 0; i < known; i++)
            input[i] = (int32_t)tokens[i];
        require(bg_session_run(session, inputs, outputs, &error), &error);
        for (uint32_t i = 1; i < VOCABULARY; i++)
            if (logits[(known - 1) * VOCABULARY + i] > logits[(known - 1) * VOCABULARY + best])
                best = i;
        tokens[known] = best;
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void test_greedy(void **state)
{
    /* From 66 tokens on, the last step of the prompt is longer than the remaining positions. */
    const int64_t prompts[] = {1, 2, 33, 64, 66, 67, 69};
    const bg_gpt_options model = small();
    bg_sampling greedy = bg_sampling_defaults();
    bg_weights *weights = make_weights();
    bg_generator *generator = open_generator(&model, weights);
    (void)state;

    greedy.temperature = 0.0;
    for (size_t p = 0; p < sizeof prompts / sizeof prompts[0]; p++) {
        uint32_t wanted[POSITIONS], kinds = 0;
        bg_error error = {0};

        for (int64_t i = 0; i < prompts[p]; i++)
            wanted[i] = (uint32_t)((i * i + (int64_t)p) % VOCABULARY);
        continue_without_cache(weights, wanted, prompts[p]);
        bg_generator_reset(generator);
        require(bg_generator_feed(generator, wanted, (size_t)prompts[p], &error), &error);
        for (int64_t i = prompts[p]; i < POSITIONS; i++) {
            uint32_t token;

            require(bg_generator_sample(generator, &greedy, &token, &error), &error);
            if (token != wanted[i])
                fail_msg("prompt of %lld: token %lld is %u, without a cache %u", (long long)prompts[p], (long long)i,
                         token, wanted[i]);
            kinds |= 1U << token;
            require(bg_generator_feed(generator, &token, 1, &error), &error);
        }
        assert_int_equal(bg_generator_length(generator), POSITIONS);
        if (p == 0) /* a model that always gives the same token would prove nothing */
            assert_true((kinds & (kinds - 1)) != 0);
    }
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* ---- drawing ---- */

/* Counts how often each token is drawn for the seeds 0, 1, ...; returns the number of different tokens drawn. */
static uint32_t count_draws(bg_generator *generator, bg_sampling sampling, uint32_t draws, uint32_t counts[VOCABULARY])
{
    uint32_t kinds = 0;

    memset(counts, 0, VOCABULARY * sizeof *counts);
    for (sampling.seed = 0; sampling.seed < draws; sampling.seed++) {
        uint32_t token = 0;
        bg_error error = {0};

        require(bg_generator_sample(generator, &sampling, &token, &error), &error);
        assert_true(token < VOCABULARY);
        kinds += counts[token]++ == 0;
    }
    return kinds;
}

/* Finds the probabilities of all tokens at a temperature, and the tokens in descending order of probability. */
static void find_shares(const bg_generator *generator, double temperature, double *shares, uint32_t *order)
{
    const float *logits = bg_generator_logits(generator);
    double sum = 0.0;

    for (uint32_t i = 0; i < VOCABULARY; i++)
        sum += shares[i] = exp((double)logits[i] / temperature);
    for (uint32_t i = 0; i < VOCABULARY; i++) {
        uint32_t at = i;

        shares[i] /= sum;
        for (; at > 0 && shares[order[at - 1]] < shares[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static void test_shares(void **state)
{
    const uint32_t draws = getenv("BRIGADE_TEST_QUICK") != NULL ? 2000 : 20000;
    const bg_gpt_options model = small();
    bg_weights *weights = make_weights();
    bg_generator *generator = open_generator(&model, weights);
    bg_sampling sampling = bg_sampling_defaults();
    uint32_t counts[VOCABULARY], order[VOCABULARY];
    double shares[VOCABULARY];
    (void)state;

    require(bg_generator_feed(generator, (const uint32_t[]){3, 1, 4}, 3, NULL), NULL);
    for (int i = 0; i < 2; i++) {
        sampling.temperature = i == 0 ? 1.0 : 3.0;
        find_shares(generator, sampling.temperature, shares, order);
        count_draws(generator, sampling, draws, counts);
        for (uint32_t t = 0; t < VOCABULARY; t++) {
            const double wanted = shares[t] * draws, deviation = sqrt(wanted * (1.0 - shares[t])) + 1.0;
            if (!(fabs(counts[t] - wanted) <= 5.0 * deviation))
                fail_msg("temperature %g: token %u came %u times, expected about %g", sampling.temperature, t,
                         counts[t], wanted);
        }
    }
    for (uint32_t k = 1; k <= 3; k++) {
        double sum = 0.0;

        sampling.top_k = k;
        assert_int_equal(count_draws(generator, sampling, draws, counts), k);
        for (uint32_t i = 0; i < k; i++) {
            assert_true(counts[order[i]] > 0);
            sum += shares[order[i]];
        }
        /* A top_p that equals the probability of the k likeliest tokens keeps these tokens. */
        sampling.top_k = 0;
        sampling.top_p = sum - 1e-9;
        assert_int_equal(count_draws(generator, sampling, draws, counts), k);
        assert_true(counts[order[k - 1]] > 0);
        sampling.top_p = sum + 1e-9;
        assert_int_equal(count_draws(generator, sampling, draws, counts), k + 1);
        sampling.top_p = 1.0;
    }
    /* The same position, seed and logits give the same token; another position sometimes gives another one. */
    sampling.seed = 5;
    uint32_t first = 0, again = 0;
    require(bg_generator_sample(generator, &sampling, &first, NULL), NULL);
    require(bg_generator_sample(generator, &sampling, &again, NULL), NULL);
    assert_int_equal(first, again);
    sampling.temperature = 1e6; /* all tokens are equally likely */
    sampling.top_k = VOCABULARY - 1;
    assert_int_equal(count_draws(generator, sampling, draws, counts), VOCABULARY - 1);
    sampling.top_k = 0;
    require(bg_generator_sample(generator, &sampling, &first, NULL), NULL);
    for (uint32_t i = 0, same = 0; i < 20; i++) {
        require(bg_generator_feed(generator, (const uint32_t[]){3}, 1, NULL), NULL);
        require(bg_generator_sample(generator, &sampling, &again, NULL), NULL);
        same += again == first;
        assert_true(same < 5);
    }
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* ---- errors ---- */

static void refuse_sampling(bg_generator *generator, double temperature, double top_p, const char *part)
{
    bg_sampling sampling = bg_sampling_defaults();
    bg_error error = {0};
    uint32_t token;

    sampling.temperature = temperature;
    sampling.top_p = top_p;
    assert_int_equal(bg_generator_sample(generator, &sampling, &token, &error), BG_ERROR_INVALID);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, part);
}

static void test_messages(void **state)
{
    bg_gpt_options model = small();
    bg_weights *weights = make_weights();
    bg_generator *generator = open_generator(&model, weights);
    uint32_t tokens[POSITIONS + 1] = {0};
    bg_error error = {0};
    (void)state;

    assert_null(bg_generator_logits(generator));
    refuse_sampling(generator, 1.0, 1.0, "no tokens to continue");
    require(bg_generator_feed(generator, tokens, 1, &error), &error);
    refuse_sampling(generator, -1.0, 1.0, "temperature is -1; it must be finite and at least 0");
    refuse_sampling(generator, INFINITY, 1.0, "temperature is inf");
    refuse_sampling(generator, 1.0, 0.0, "top_p is 0; it must be above 0 and at most 1");
    refuse_sampling(generator, 1.0, 1.5, "top_p is 1.5");
    assert_int_equal(bg_generator_feed(generator, tokens, POSITIONS, &error), BG_ERROR_RANGE);
    assert_non_null(strstr(error.message, "70 tokens would follow 1, but the model has only 70 positions"));
    assert_int_equal(bg_generator_length(generator), 1);
    bg_error_clear(&error);
    tokens[1] = VOCABULARY;
    assert_int_equal(bg_generator_feed(generator, tokens, 2, &error), BG_ERROR_INVALID);
    assert_string_equal(error.message, "token 1 is 23 but must be below the vocabulary's size, 23");
    assert_int_equal(bg_generator_length(generator), 1);
    bg_generator_destroy(generator);
    bg_generator_destroy(NULL);

    bg_error_clear(&error);
    model.heads = 3;
    assert_int_equal(bg_generator_create(&model, NULL, weights, &generator, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "hidden is 16, which 3 heads do not divide"));
    bg_error_clear(&error);
    model = small();
    model.hidden = 32;
    assert_int_equal(bg_generator_create(&model, NULL, weights, &generator, &error), BG_ERROR_SHAPE);
    bg_weights_destroy(weights);
}

static void test_not_a_number(void **state)
{
    const bg_gpt_options model = small();
    bg_weights *weights = make_weights();
    const bg_type type = bg_vector(BG_FLOAT32, 16);
    float values[16];
    bg_generator *generator;
    (void)state;

    for (int i = 0; i < 16; i++)
        values[i] = NAN;
    require(bg_weights_set(weights, "transformer.ln_f.bias", &type, values, NULL), NULL);
    generator = open_generator(&model, weights);
    require(bg_generator_feed(generator, (const uint32_t[]){1}, 1, NULL), NULL);
    refuse_sampling(generator, 1.0, 1.0, "the logit of token 0 is not a number");
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* Prompts of any length, in steps of 128, 32 and 1 tokens, give the same bits as one token at a time. */
static void test_long_prompts(void **state)
{
    enum { LONG = 260 };
    static const uint32_t lengths[] = {1, 31, 33, 95, 96, 128, 129, 223, 224, LONG};
    static float single[LONG][VOCABULARY];
    bg_options options = bg_options_defaults();
    bg_gpt_options model = small();
    uint32_t tokens[LONG];
    bg_generator *generator;
    bg_weights *weights;
    bg_error error;
    (void)state;

    model.sequence_length = model.positions = LONG;
    options.numerics.initialize_missing = true;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    require(bg_weights_create(&weights, &error), &error);
    require(bg_generator_create(&model, &options, weights, &generator, &error), &error);
    for (uint32_t i = 0; i < LONG; i++) {
        tokens[i] = (i * i + 3) % VOCABULARY;
        require(bg_generator_feed(generator, &tokens[i], 1, &error), &error);
        memcpy(single[i], bg_generator_logits(generator), sizeof single[i]);
    }
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        bg_generator_reset(generator);
        require(bg_generator_feed(generator, tokens, lengths[l], &error), &error);
        assert_memory_equal(bg_generator_logits(generator), single[lengths[l] - 1], sizeof single[0]);
    }
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_prompts), cmocka_unit_test(test_greedy),       cmocka_unit_test(test_shares),
        cmocka_unit_test(test_messages),     cmocka_unit_test(test_not_a_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
