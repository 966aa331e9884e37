/*
 * generate.c: two sessions over one cache: a long step for prompts and a step of one token. The last piece of a prompt
 * is filled up with tokens that the next step overwrites, so the cache is as much longer than the model's positions.
 */
#include <brigade/generate.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/random.h"

enum { LONGEST_STEP = 32 };

/* A step of the model: its plan, its session, its inputs. */
typedef struct stepper {
    bg_plan *plan;
    bg_session *session;
    int64_t length;
    int32_t tokens[LONGEST_STEP], positions[LONGEST_STEP], row;
    const void *inputs[3];
} stepper;

typedef struct candidate {
    double share;
    uint32_t token;
} candidate;

struct bg_generator {
    int64_t positions, vocabulary, length;
    stepper prompt, single;
    float *logits;
    candidate *candidates;
};

/* ---- steps ---- */

static bg_status open_stepper(stepper *s, const bg_gpt_options *model, int64_t length, const bg_options *options,
                              bg_weights *weights, bg_error *error)
{
    bg_gpt_options used = *model;
    bg_graph *graph = NULL;
    bg_status status;

    used.sequence_length = s->length = length;
    BGI_TRY(bg_graph_create(&graph, error));
    bg_gpt_build_step(graph, &used, model->positions + LONGEST_STEP);
    status = bg_graph_check(graph, error);
    if (status == BG_OK)
        status = bg_plan_create_inference(graph, options, &s->plan, error);
    bg_graph_destroy(graph);
    if (status == BG_OK)
        status = bg_session_create(s->plan, weights, &s->session, error);
    if (status != BG_OK)
        return status;
    s->inputs[bg_session_find_input(s->session, "tokens")] = s->tokens;
    s->inputs[bg_session_find_input(s->session, "positions")] = s->positions;
    s->inputs[bg_session_find_input(s->session, "row")] = &s->row;
    return BG_OK;
}

static void close_stepper(stepper *s)
{
    bg_session_destroy(s->session);
    bg_plan_destroy(s->plan);
}

static bg_status run_stepper(stepper *s, const uint32_t *tokens, int64_t count, int64_t first, float *logits,
                             bg_error *error)
{
    void *outputs[] = {logits};

    for (int64_t i = 0; i < s->length; i++) {
        s->tokens[i] = (int32_t)tokens[i < count ? i : count - 1];
        s->positions[i] = (int32_t)(first + i);
    }
    s->row = (int32_t)count - 1;
    return bg_session_run(s->session, s->inputs, outputs, error);
}

/* ---- generators ---- */

bg_status bg_generator_create(const bg_gpt_options *model, const bg_options *options, bg_weights *weights,
                              bg_generator **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(model, "model", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_struct_check(model->struct_bytes, sizeof *model, "bg_gpt_options", "bg_gpt_defaults()", error));

    const bg_options defaults = bg_options_defaults();
    const int64_t step = model->sequence_length < LONGEST_STEP ? model->sequence_length : LONGEST_STEP;
    bg_generator *generator = calloc(1, sizeof *generator);
    bg_status status;

    if (generator == NULL)
        return bgi_error_memory(error, "a generator", sizeof *generator);
    generator->positions = model->positions;
    generator->vocabulary = model->vocabulary;
    if (options == NULL)
        options = &defaults;
    BGI_TRY_CLEANUP(open_stepper(&generator->prompt, model, step, options, weights, error));
    BGI_TRY_CLEANUP(open_stepper(&generator->single, model, 1, options, weights, error));
    generator->logits = calloc((size_t)model->vocabulary, sizeof *generator->logits);
    generator->candidates = calloc((size_t)model->vocabulary, sizeof *generator->candidates);
    if (generator->logits == NULL || generator->candidates == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "logits", (size_t)model->vocabulary * sizeof *generator->candidates));
    *out = generator;
    return BG_OK;
cleanup:
    bg_generator_destroy(generator);
    return status;
}

void bg_generator_destroy(bg_generator *generator)
{
    if (generator == NULL)
        return;
    close_stepper(&generator->single);
    close_stepper(&generator->prompt);
    free(generator->candidates);
    free(generator->logits);
    free(generator);
}

int64_t bg_generator_length(const bg_generator *generator)
{
    return generator->length;
}

void bg_generator_reset(bg_generator *generator)
{
    generator->length = 0;
}

const float *bg_generator_logits(const bg_generator *generator)
{
    return generator->length > 0 ? generator->logits : NULL;
}

bg_status bg_generator_feed(bg_generator *generator, const uint32_t *tokens, size_t count, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(generator, "generator", __func__, error));
    if (count > 0)
        BGI_TRY(bgi_require(tokens, "tokens", __func__, error));
    if (count > (size_t)(generator->positions - generator->length))
        return bg_error_set(error, BG_ERROR_RANGE,
                            "%zu tokens after %lld: the model has %lld positions; give fewer, or begin anew", count,
                            (long long)generator->length, (long long)generator->positions);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= (uint64_t)generator->vocabulary)
            return bg_error_set(error, BG_ERROR_INVALID, "token %zu is %u, expected below the vocabulary of %lld", i,
                                tokens[i], (long long)generator->vocabulary);
    for (size_t at = 0, taken; at < count; at += taken) {
        stepper *s = count - at == 1 ? &generator->single : &generator->prompt;

        taken = count - at < (size_t)s->length ? count - at : (size_t)s->length;
        BGI_TRY(run_stepper(s, tokens + at, (int64_t)taken, generator->length, generator->logits, error));
        generator->length += (int64_t)taken;
    }
    return BG_OK;
}

/* ---- drawing ---- */

void bg_sampling_init(bg_sampling *options, size_t struct_bytes)
{
    const bg_sampling made = {.struct_bytes = struct_bytes, .temperature = 1.0, .top_p = 1.0};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static bg_status check_sampling(const bg_generator *generator, const bg_sampling *sampling, bg_error *error)
{
    BGI_TRY(bgi_struct_check(sampling->struct_bytes, sizeof *sampling, "bg_sampling", "bg_sampling_defaults()", error));
    if (generator->length == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "nothing to continue: feed the generator a token first, for instance the end of a text");
    if (!(sampling->temperature >= 0.0 && isfinite(sampling->temperature)))
        return bg_error_set(error, BG_ERROR_INVALID, "temperature is %g; it must be at least 0", sampling->temperature);
    if (!(sampling->top_p > 0.0 && sampling->top_p <= 1.0))
        return bg_error_set(error, BG_ERROR_INVALID, "top_p is %g; it must be above 0 and at most 1", sampling->top_p);
    for (int64_t i = 0; i < generator->vocabulary; i++)
        if (isnan(generator->logits[i]))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "the logit of token %lld is not a number: the weights are damaged, or diverged",
                                (long long)i);
    return BG_OK;
}

static uint32_t find_largest(const bg_generator *generator)
{
    uint32_t best = 0;

    for (int64_t i = 1; i < generator->vocabulary; i++)
        if (generator->logits[i] > generator->logits[best])
            best = (uint32_t)i;
    return best;
}

/* The largest share first, of equal ones the lower token. */
static int compare_candidates(const void *a, const void *b)
{
    const candidate *x = a, *y = b;

    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* The first of the candidates whose shares sum to more than `bound`, or how many there are. */
static size_t find_sum(const candidate *candidates, size_t count, double bound)
{
    double sum = 0.0;
    size_t i = 0;

    while (i < count && (sum += candidates[i].share) <= bound)
        i++;
    return i;
}

static double sum_shares(const candidate *candidates, size_t count)
{
    double sum = 0.0;

    for (size_t i = 0; i < count; i++)
        sum += candidates[i].share;
    return sum;
}

/* Shares by softmax, not divided by their sum; returns how many tokens may be drawn, sorted where it matters. */
static size_t choose_candidates(bg_generator *generator, const bg_sampling *sampling)
{
    const double largest = (double)generator->logits[find_largest(generator)];
    candidate *candidates = generator->candidates;
    size_t count = (size_t)generator->vocabulary;

    for (size_t i = 0; i < count; i++) {
        const double below = (double)generator->logits[i] - largest;
        /* Infinite logits: of several largest ones each has a share. */
        candidates[i] = (candidate){isnan(below) ? 1.0 : exp(below / sampling->temperature), (uint32_t)i};
    }
    if (sampling->top_k == 0 && sampling->top_p == 1.0)
        return count;
    qsort(candidates, count, sizeof *candidates, compare_candidates);
    if (sampling->top_k > 0 && sampling->top_k < count)
        count = sampling->top_k;
    if (sampling->top_p < 1.0) {
        /* A sum of just top_p is enough. */
        const size_t last =
            find_sum(candidates, count, nextafter(sampling->top_p * sum_shares(candidates, count), 0.0));
        count = last < count ? last + 1 : count;
    }
    return count;
}

bg_status bg_generator_sample(bg_generator *generator, const bg_sampling *sampling, uint32_t *out_token,
                              bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(generator, "generator", __func__, error));
    BGI_TRY(bgi_require(sampling, "sampling", __func__, error));
    BGI_TRY(bgi_require(out_token, "out_token", __func__, error));

    bgi_random random;
    size_t count, drawn;
    double uniform;

    BGI_TRY(check_sampling(generator, sampling, error));
    if (sampling->temperature == 0.0) {
        *out_token = find_largest(generator);
        return BG_OK;
    }
    count = choose_candidates(generator, sampling);
    random = bgi_random_make(bgi_random_domain(sampling->seed, BGI_RANDOM_GENERATE), (uint64_t)generator->length);
    uniform = ((double)bgi_random_word(&random) * 0x1p32 + (double)bgi_random_word(&random)) * 0x1p-64;
    drawn = find_sum(generator->candidates, count, uniform * sum_shares(generator->candidates, count));
    /* Rounding may carry the bound to the sum itself: then the last that has a share. */
    while (drawn >= count || (drawn > 0 && generator->candidates[drawn].share == 0.0))
        drawn--;
    *out_token = generator->candidates[drawn].token;
    return BG_OK;
}
