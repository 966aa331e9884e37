/*
 * test_sampling.c: compares probabilities (shares) of tokens with values computed by hand, for temperature, each
 * filter, penalties, and several filters in sequence.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/generate.h>

#include <math.h>
#include <string.h>

enum { TOKENS = 6 };

/* The shares are 0.40 0.25 0.15 0.10 0.06 0.04, in this order of tokens: 3 0 5 1 4 2. */
static const double by_rank[TOKENS] = {0.40, 0.25, 0.15, 0.10, 0.06, 0.04};
static const uint32_t ranked[TOKENS] = {3, 0, 5, 1, 4, 2};

static void make_logits(float *logits)
{
    for (int i = 0; i < TOKENS; i++)
        logits[ranked[i]] = (float)(log(by_rank[i]) + 2.0);
}

static void find_shares(const bg_sampling *sampling, const uint32_t *history, size_t count, size_t prompt,
                        double *shares)
{
    float logits[TOKENS];
    bg_error error;

    make_logits(logits);
    if (bg_sampling_shares(sampling, logits, TOKENS, history, count, prompt, shares, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void assert_near(double found, double wanted, const char *what, uint32_t token)
{
    if (!(fabs(found - wanted) <= 1e-6))
        fail_msg("%s: token %u has a share of %.9g, expected %.9g", what, token, found, wanted);
}

/* Checks that the first `count` tokens of the list remain, with their shares divided by their sum. */
static void assert_kept(const bg_sampling *sampling, const int *ranks, int count, const char *what)
{
    double shares[TOKENS], sum = 0.0, wanted[TOKENS] = {0};

    for (int i = 0; i < count; i++)
        sum += by_rank[ranks[i]];
    for (int i = 0; i < count; i++)
        wanted[ranked[ranks[i]]] = by_rank[ranks[i]] / sum;
    find_shares(sampling, NULL, 0, 0, shares);
    for (uint32_t t = 0; t < TOKENS; t++)
        assert_near(shares[t], wanted[t], what, t);
}

static void test_temperature(void **state)
{
    bg_sampling sampling = bg_sampling_defaults();
    double shares[TOKENS], sum = 0.0;
    (void)state;

    assert_kept(&sampling, (int[]){0, 1, 2, 3, 4, 5}, 6, "as they are");
    sampling.temperature = 0.5; /* squares */
    for (int i = 0; i < TOKENS; i++)
        sum += by_rank[i] * by_rank[i];
    find_shares(&sampling, NULL, 0, 0, shares);
    for (int i = 0; i < TOKENS; i++)
        assert_near(shares[ranked[i]], by_rank[i] * by_rank[i] / sum, "temperature 0.5", ranked[i]);
    sampling.temperature = 0.0;
    find_shares(&sampling, NULL, 0, 0, shares);
    assert_near(shares[3], 1.0, "temperature 0", 3);
    assert_near(shares[0], 0.0, "temperature 0", 0);
}

static void test_filters(void **state)
{
    bg_sampling sampling = bg_sampling_defaults();
    (void)state;

    sampling.top_k = 3;
    assert_kept(&sampling, (int[]){0, 1, 2}, 3, "top_k 3");
    sampling.top_k = 0;
    sampling.top_p = 0.7; /* 0.40 + 0.25 is less */
    assert_kept(&sampling, (int[]){0, 1, 2}, 3, "top_p 0.7");
    sampling.top_p = 1.0;
    sampling.min_p = 0.2; /* 0.2 of 0.40 is 0.08 */
    assert_kept(&sampling, (int[]){0, 1, 2, 3}, 4, "min_p 0.2");
    sampling.min_p = 1.0;
    assert_kept(&sampling, (int[]){0}, 1, "min_p 1");
    /* Each filter gets the result of the previous one. After top_k the shares are 0.5, 0.3125 and 0.1875, so the first
     * two reach 0.8. */
    sampling.min_p = 0.0;
    sampling.top_k = 3;
    sampling.top_p = 0.8;
    assert_kept(&sampling, (int[]){0, 1}, 2, "top_k 3, then top_p 0.8");
    sampling.min_p = 0.7; /* 0.7 of 0.40 is 0.28 */
    assert_kept(&sampling, (int[]){0}, 1, "then min_p 0.7");
}

/* The tokens have the information 0.92 1.39 1.90 2.30 2.81 3.22, and the mean is 1.529. Ordered by the distance from
 * the mean, the ranks are 1, 2, 0, 3, 4, 5. */
static void test_typical(void **state)
{
    bg_sampling sampling = bg_sampling_defaults();
    (void)state;

    sampling.typical_p = 0.2;
    assert_kept(&sampling, (int[]){1}, 1, "typical_p 0.2");
    sampling.typical_p = 0.3;
    assert_kept(&sampling, (int[]){1, 2}, 2, "typical_p 0.3");
    sampling.typical_p = 0.5;
    assert_kept(&sampling, (int[]){1, 2, 0}, 3, "typical_p 0.5");
    sampling.typical_p = 0.85;
    assert_kept(&sampling, (int[]){1, 2, 0, 3}, 4, "typical_p 0.85");
    /* Only two tokens remain. Their shares 0.615 and 0.385 have the information 0.486 and 0.956; the mean is 0.666, so
     * the first is nearer. */
    sampling.typical_p = 0.5;
    sampling.top_k = 2;
    assert_kept(&sampling, (int[]){0}, 1, "top_k 2, then typical_p 0.5");
}

/* The prompt is 3 2, followed by 3 0 0. Logits are log(share) + 2: those of ranks 0 to 4 are above 0, that of token 2
 * is below 0. */
static void test_penalties(void **state)
{
    static const uint32_t history[] = {3, 2, 3, 0, 0};
    static const uint32_t counts[TOKENS] = {2, 0, 0, 1, 0, 0};
    static const bool seen[TOKENS] = {true, false, true, true, false, false};
    bg_sampling sampling = bg_sampling_defaults();
    double shares[TOKENS], wanted[TOKENS], sum = 0.0;
    float logits[TOKENS];
    (void)state;

    sampling.repetition_penalty = 1.5;
    sampling.presence_penalty = 0.25;
    sampling.frequency_penalty = 0.5;
    make_logits(logits);
    assert_true(logits[2] < 0.0F && logits[0] > 0.0F && logits[3] > 0.0F);
    for (uint32_t t = 0; t < TOKENS; t++) {
        double logit = (double)logits[t];

        if (seen[t])
            logit = logit > 0.0 ? logit / 1.5 : logit * 1.5;
        if (counts[t] > 0)
            logit -= 0.25 + 0.5 * counts[t];
        sum += wanted[t] = exp(logit);
    }
    find_shares(&sampling, history, 5, 2, shares);
    for (uint32_t t = 0; t < TOKENS; t++)
        assert_near(shares[t], wanted[t] / sum, "penalties", t);
    /* Penalties also affect which token is the likeliest. */
    sampling.temperature = 0.0;
    find_shares(&sampling, history, 5, 2, shares);
    assert_near(shares[3] + shares[0], 0.0, "the likeliest tokens were said", 3);
}

static void refuse(const bg_sampling *sampling, const char *part)
{
    const float logits[2] = {0, 1};
    double shares[2];
    bg_error error;

    assert_int_equal(bg_sampling_shares(sampling, logits, 2, NULL, 0, 0, shares, &error), BG_ERROR_INVALID);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, part);
}

static void test_messages(void **state)
{
    const uint32_t history[1] = {2};
    const float logits[2] = {0, NAN};
    bg_sampling sampling = bg_sampling_defaults();
    double shares[2];
    bg_error error;
    (void)state;

    sampling.min_p = 1.5;
    refuse(&sampling, "min_p is 1.5; it must be from 0 to 1");
    sampling = bg_sampling_defaults();
    sampling.typical_p = 0.0;
    refuse(&sampling, "typical_p is 0; it must be above 0");
    sampling = bg_sampling_defaults();
    sampling.repetition_penalty = 0.0;
    refuse(&sampling, "repetition_penalty is 0; it must be finite and above 0");
    sampling = bg_sampling_defaults();
    sampling.frequency_penalty = INFINITY;
    refuse(&sampling, "they must be finite");
    sampling = bg_sampling_defaults();
    assert_int_equal(bg_sampling_shares(&sampling, logits, 2, NULL, 0, 0, shares, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "the logit of token 1 is not a number"));
    assert_int_equal(bg_sampling_shares(&sampling, logits, 1, history, 1, 1, shares, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "token 0 is 2 but must be below the vocabulary's size, 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_temperature), cmocka_unit_test(test_filters),  cmocka_unit_test(test_typical),
        cmocka_unit_test(test_penalties),   cmocka_unit_test(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
