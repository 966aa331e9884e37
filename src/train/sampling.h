/*
 * sampling.h: how a token is chosen from logits.
 */
#ifndef BGI_TRAIN_SAMPLING_H
#define BGI_TRAIN_SAMPLING_H

#include <brigade/generate.h>

typedef struct bgi_candidate {
    double share; /* not divided by the sum of all */
    double key;   /* typical sampling: how far its information is from the mean */
    uint32_t token;
} bgi_candidate;

/* Memory for draws from a vocabulary. All-zero is valid and empty. */
typedef struct bgi_sampler {
    size_t vocabulary;
    double *values;   /* logits with penalties */
    uint32_t *counts; /* of a token behind the prompt; zero between draws */
    bool *is_seen;    /* anywhere in the sequence; false between draws */
    bgi_candidate *candidates;
} bgi_sampler;

/* The sequence so far: `prompt` of its `count` tokens are the prompt. */
typedef struct bgi_history {
    const uint32_t *tokens;
    size_t count, prompt;
} bgi_history;

bg_status bgi_sampler_init(bgi_sampler *sampler, size_t vocabulary, bg_error *error);
void bgi_sampler_clear(bgi_sampler *sampler);

/* Every number in its range. */
bg_status bgi_sampling_check(const bg_sampling *sampling, bg_error *error);
bg_status bgi_logits_check(const float *logits, size_t vocabulary, bg_error *error);

/* The tokens that may be drawn, in sampler->candidates with their shares; returns how many. Of temperature 0 one. */
size_t bgi_sampler_choose(bgi_sampler *sampler, const bg_sampling *sampling, const float *logits,
                          const bgi_history *history);
/* Draws by sampling->seed and the length of the history. */
uint32_t bgi_sampler_draw(bgi_sampler *sampler, const bg_sampling *sampling, const float *logits,
                          const bgi_history *history);

/* What is subtracted from a logit to make it the logarithm of the model's share. */
double bgi_log_sum(const float *logits, size_t vocabulary);

#endif
