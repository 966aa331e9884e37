/*
 * sampling.c: draws the next token from logits. Penalties for earlier tokens come first, then the temperature, then
 * filters, each applied to the remaining tokens: top-k, top-p, min-p, typical. All sums are double and in a fixed
 * order, so that a draw is a function of logits, history, seed and position.
 */
#include "train/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/random.h"

/* ---- memory ---- */

bg_status bgi_sampler_init(bgi_sampler *sampler, size_t vocabulary, bg_error *error)
{
    *sampler = (bgi_sampler){.vocabulary = vocabulary};
    sampler->values = calloc(vocabulary, sizeof *sampler->values);
    sampler->counts = calloc(vocabulary, sizeof *sampler->counts);
    sampler->is_seen = calloc(vocabulary, sizeof *sampler->is_seen);
    sampler->candidates = calloc(vocabulary, sizeof *sampler->candidates);
    if (sampler->values != NULL && sampler->counts != NULL && sampler->is_seen != NULL && sampler->candidates != NULL)
        return BG_OK;
    bgi_sampler_clear(sampler);
    return bgi_error_memory(error, "logits", vocabulary * sizeof *sampler->candidates);
}

void bgi_sampler_clear(bgi_sampler *sampler)
{
    free(sampler->candidates);
    free(sampler->is_seen);
    free(sampler->counts);
    free(sampler->values);
    *sampler = (bgi_sampler){.vocabulary = 0};
}

/* ---- ranges ---- */

void bg_sampling_init(bg_sampling *options, size_t struct_bytes)
{
    const bg_sampling made = {
        .struct_bytes = struct_bytes, .temperature = 1.0, .top_p = 1.0, .typical_p = 1.0, .repetition_penalty = 1.0};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static bg_status check_share(const char *name, double share, bg_error *error)
{
    if (!(share > 0.0 && share <= 1.0))
        return bg_error_set(error, BG_ERROR_INVALID, "%s is %g; it must be above 0 and at most 1", name, share);
    return BG_OK;
}

bg_status bgi_sampling_check(const bg_sampling *sampling, bg_error *error)
{
    BGI_TRY(bgi_struct_check(sampling->struct_bytes, sizeof *sampling, "bg_sampling", "bg_sampling_defaults()", error));
    if (!(sampling->temperature >= 0.0 && isfinite(sampling->temperature)))
        return bg_error_set(error, BG_ERROR_INVALID, "temperature is %g; it must be finite and at least 0",
                            sampling->temperature);
    BGI_TRY(check_share("top_p", sampling->top_p, error));
    BGI_TRY(check_share("typical_p", sampling->typical_p, error));
    if (!(sampling->min_p >= 0.0 && sampling->min_p <= 1.0))
        return bg_error_set(error, BG_ERROR_INVALID, "min_p is %g; it must be from 0 to 1", sampling->min_p);
    if (!(sampling->repetition_penalty > 0.0 && isfinite(sampling->repetition_penalty)))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "repetition_penalty is %g; it must be finite and above 0, and 1 means no penalty",
                            sampling->repetition_penalty);
    if (!isfinite(sampling->presence_penalty) || !isfinite(sampling->frequency_penalty))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "presence_penalty and frequency_penalty are %g and %g; they must be finite, and 0 means no penalty",
            sampling->presence_penalty, sampling->frequency_penalty);
    return BG_OK;
}

bg_status bgi_logits_check(const float *logits, size_t vocabulary, bg_error *error)
{
    for (size_t i = 0; i < vocabulary; i++)
        if (isnan(logits[i]))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "the logit of token %zu is not a number: the weights are damaged, or diverged", i);
    return BG_OK;
}

/* ---- penalties ---- */

static double penalize(const bgi_sampler *sampler, const bg_sampling *sampling, uint32_t token, double logit)
{
    if (sampler->is_seen[token])
        logit = logit > 0.0 ? logit / sampling->repetition_penalty : logit * sampling->repetition_penalty;
    if (sampler->counts[token] > 0)
        logit -= sampling->presence_penalty + sampling->frequency_penalty * sampler->counts[token];
    return logit;
}

static void apply_penalties(bgi_sampler *sampler, const bg_sampling *sampling, const bgi_history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        sampler->is_seen[history->tokens[i]] = true;
        sampler->counts[history->tokens[i]] += i >= history->prompt;
    }
    for (size_t i = 0; i < history->count; i++) {
        const uint32_t token = history->tokens[i];

        if (sampler->is_seen[token])
            sampler->values[token] = penalize(sampler, sampling, token, sampler->values[token]);
        sampler->is_seen[token] = false;
        sampler->counts[token] = 0;
    }
}

/* ---- filters ---- */

/* Orders candidates by probability, the largest first, and equal ones by token. */
static int compare_shares(const void *a, const void *b)
{
    const bgi_candidate *x = a, *y = b;

    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static int compare_keys(const void *a, const void *b)
{
    const bgi_candidate *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return compare_shares(a, b);
}

/* Returns the index of the first candidate at which the sum of probabilities exceeds `bound`, or the number of
 * candidates. */
static size_t find_sum(const bgi_candidate *candidates, size_t count, double bound)
{
    double sum = 0.0;
    size_t i = 0;

    while (i < count && (sum += candidates[i].share) <= bound)
        i++;
    return i;
}

static double sum_shares(const bgi_candidate *candidates, size_t count)
{
    double sum = 0.0;

    for (size_t i = 0; i < count; i++)
        sum += candidates[i].share;
    return sum;
}

/* Returns the smallest number of leading candidates whose probabilities sum to at least `part` of the total. */
static size_t cut_at(const bgi_candidate *candidates, size_t count, double part)
{
    const size_t last = find_sum(candidates, count, nextafter(part * sum_shares(candidates, count), 0.0));

    return last < count ? last + 1 : count;
}

/* Moves the candidates whose information, -log probability, is nearest to the mean information to the front, and
 * returns the number of those that are kept (Meister et al., 2022). */
static size_t keep_typical(bgi_candidate *candidates, size_t count, double part)
{
    const double sum = sum_shares(candidates, count);
    double mean = 0.0;

    for (size_t i = 0; i < count; i++)
        if (candidates[i].share > 0.0)
            mean -= candidates[i].share / sum * log(candidates[i].share / sum);
    for (size_t i = 0; i < count; i++)
        candidates[i].key = candidates[i].share > 0.0 ? fabs(-log(candidates[i].share / sum) - mean) : INFINITY;
    qsort(candidates, count, sizeof *candidates, compare_keys);
    return cut_at(candidates, count, part);
}

static size_t find_largest(const double *values, size_t count)
{
    size_t best = 0;

    for (size_t i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

size_t bgi_sampler_choose(bgi_sampler *sampler, const bg_sampling *sampling, const float *logits,
                          const bgi_history *history)
{
    bgi_candidate *candidates = sampler->candidates;
    size_t count = sampler->vocabulary, best;

    for (size_t i = 0; i < count; i++)
        sampler->values[i] = (double)logits[i];
    if (sampling->repetition_penalty != 1.0 || sampling->presence_penalty != 0.0 || sampling->frequency_penalty != 0.0)
        apply_penalties(sampler, sampling, history);
    best = find_largest(sampler->values, count);
    if (sampling->temperature == 0.0) {
        candidates[0] = (bgi_candidate){.share = 1.0, .token = (uint32_t)best};
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        const double below = sampler->values[i] - sampler->values[best];
        /* If logits are infinite, all tokens with the largest logit have the same probability. */
        candidates[i] =
            (bgi_candidate){.share = isnan(below) ? 1.0 : exp(below / sampling->temperature), .token = (uint32_t)i};
    }
    if (sampling->top_k == 0 && sampling->top_p == 1.0 && sampling->min_p == 0.0 && sampling->typical_p == 1.0)
        return count;
    qsort(candidates, count, sizeof *candidates, compare_shares);
    if (sampling->top_k > 0 && sampling->top_k < count)
        count = sampling->top_k;
    if (sampling->top_p < 1.0)
        count = cut_at(candidates, count, sampling->top_p);
    if (sampling->min_p > 0.0)
        while (count > 1 && candidates[count - 1].share < sampling->min_p * candidates[0].share)
            count--;
    return sampling->typical_p < 1.0 ? keep_typical(candidates, count, sampling->typical_p) : count;
}

uint32_t bgi_sampler_draw(bgi_sampler *sampler, const bg_sampling *sampling, const float *logits,
                          const bgi_history *history)
{
    const size_t count = bgi_sampler_choose(sampler, sampling, logits, history);
    const bgi_candidate *candidates = sampler->candidates;
    bgi_random random = bgi_random_make(bgi_random_domain(sampling->seed, BGI_RANDOM_GENERATE), history->count);
    const double uniform = ((double)bgi_random_word(&random) * 0x1p32 + (double)bgi_random_word(&random)) * 0x1p-64;
    size_t drawn = find_sum(candidates, count, uniform * sum_shares(candidates, count));

    /* Rounding may make the bound equal to the sum. Then the last candidate with a probability above 0 is drawn. */
    while (drawn >= count || (drawn > 0 && candidates[drawn].share == 0.0))
        drawn--;
    return candidates[drawn].token;
}

double bgi_log_sum(const float *logits, size_t vocabulary)
{
    double largest = (double)logits[0], sum = 0.0;

    for (size_t i = 1; i < vocabulary; i++)
        largest = (double)logits[i] > largest ? (double)logits[i] : largest;
    for (size_t i = 0; i < vocabulary; i++)
        sum += exp((double)logits[i] - largest);
    return largest + log(sum);
}

bg_status bg_sampling_shares(const bg_sampling *sampling, const float *logits, size_t vocabulary,
                             const uint32_t *tokens, size_t token_count, size_t prompt_count, double *out_shares,
                             bg_error *error)
{
    bg_error_clear(error);

    const bgi_history history = {.tokens = tokens, .count = token_count, .prompt = prompt_count};
    bgi_sampler sampler;
    size_t count;
    double sum;

    BGI_TRY(bgi_require(sampling, "sampling", __func__, error));
    BGI_TRY(bgi_require(logits, "logits", __func__, error));
    BGI_TRY(bgi_require(out_shares, "out_shares", __func__, error));
    if (token_count > 0)
        BGI_TRY(bgi_require(tokens, "tokens", __func__, error));
    BGI_TRY(bgi_sampling_check(sampling, error));
    if (vocabulary == 0 || vocabulary > UINT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "vocabulary is %zu; it must be at least 1 and below 2^32",
                            vocabulary);
    BGI_TRY(bgi_logits_check(logits, vocabulary, error));
    for (size_t i = 0; i < token_count; i++)
        if (tokens[i] >= vocabulary)
            return bg_error_set(error, BG_ERROR_INVALID, "token %zu is %u but must be below the vocabulary's size, %zu",
                                i, tokens[i], vocabulary);
    BGI_TRY(bgi_sampler_init(&sampler, vocabulary, error));
    count = bgi_sampler_choose(&sampler, sampling, logits, &history);
    sum = sum_shares(sampler.candidates, count);
    for (size_t i = 0; i < vocabulary; i++)
        out_shares[i] = 0.0;
    for (size_t i = 0; i < count; i++)
        out_shares[sampler.candidates[i].token] = sampler.candidates[i].share / sum;
    bgi_sampler_clear(&sampler);
    return BG_OK;
}
