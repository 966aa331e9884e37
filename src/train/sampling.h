/*
 * sampling.h: chooses a token from logits.
 */
#ifndef BGI_TRAIN_SAMPLING_H
#define BGI_TRAIN_SAMPLING_H

#include <brigade/generate.h>

typedef struct bgi_candidate {
    double share; /* a probability before division by the total */
    double key;   /* typical sampling: the distance of the token's information from the mean */
    uint32_t token;
} bgi_candidate;

/* Memory for draws from a vocabulary. A zeroed sampler is valid and empty. */
typedef struct bgi_sampler {
    size_t vocabulary;
    double *values;   /* logits with penalties */
    uint32_t *counts; /* by token: occurrences after the prompt; zero between draws */
    bool *is_seen;    /* by token: occurs in the sequence; false between draws */
    bgi_candidate *candidates;
} bgi_sampler;

/* The sequence so far: `prompt` of its `count` tokens are the prompt. */
typedef struct bgi_history {
    const uint32_t *tokens;
    size_t count, prompt;
} bgi_history;

bg_status bgi_sampler_init(bgi_sampler *sampler, size_t vocabulary, bg_error *error);
void bgi_sampler_clear(bgi_sampler *sampler);

/* Checks that every number is in its range. */
bg_status bgi_sampling_check(const bg_sampling *sampling, bg_error *error);
bg_status bgi_logits_check(const float *logits, size_t vocabulary, bg_error *error);

/* Writes the tokens that may be drawn to sampler->candidates with their probabilities, and returns their number, which
 * is 1 at temperature 0. */
size_t bgi_sampler_choose(bgi_sampler *sampler, const bg_sampling *sampling, const float *logits,
                          const bgi_history *history);
/* Draws a token; the random number depends on sampling->seed and the length of the history. */
uint32_t bgi_sampler_draw(bgi_sampler *sampler, const bg_sampling *sampling, const float *logits,
                          const bgi_history *history);

/* Returns the number to subtract from a logit to get the logarithm of the model's probability. */
double bgi_log_sum(const float *logits, size_t vocabulary);

#endif
