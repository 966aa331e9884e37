/*
 * generate.h: a GPT that continues a sequence of tokens. Keys and values of what it has seen are kept, so that each
 * further token costs one step.
 */
#ifndef BRIGADE_GENERATE_H
#define BRIGADE_GENERATE_H

#include <brigade/gpt.h>
#include <brigade/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_generator bg_generator;

/*
 * `weights` holds the model's weights (of a training session, or loaded); those that it lacks are made from the seed,
 * and the cache's buffers are added. Of `model`, sequence_length is how many tokens of a prompt one run takes, at most
 * 32; `options` (NULL: defaults) are those of the plans, for inference.
 * Errors: those of bg_gpt_build_step, of plans and of sessions.
 */
BG_API bg_status bg_generator_create(const bg_gpt_options *model, const bg_options *options, bg_weights *weights,
                                     bg_generator **out, bg_error *error);
BG_API void bg_generator_destroy(bg_generator *generator);

/* Tokens seen so far; at most the model's positions. */
BG_API int64_t bg_generator_length(const bg_generator *generator);

/* Appends tokens to the sequence. BG_ERROR_INVALID: a token outside the vocabulary; BG_ERROR_RANGE: more than the model
 * has positions (nothing is appended). Otherwise errors are those of bg_session_run. */
BG_API bg_status bg_generator_feed(bg_generator *generator, const uint32_t *tokens, size_t count, bg_error *error);

/* The empty sequence again. */
BG_API void bg_generator_reset(bg_generator *generator);

/* Logits of the next token [vocabulary], until the next feed; NULL before the first one. */
BG_API const float *bg_generator_logits(const bg_generator *generator);

/* How the next token is drawn, in this order. */
typedef struct bg_sampling {
    size_t struct_bytes; /* set by bg_sampling_defaults; see base.h */
    double temperature;  /* divides the logits; 0: the largest one is taken (the first of equal ones) */
    uint32_t top_k;      /* of the k largest only; 0: of all */
    double top_p;  /* of the fewest, largest first, whose shares sum to top_p (Holtzman et al., 2020); 1: of all */
    uint64_t seed; /* the token at a place of the sequence depends on nothing but its logits, this, and the place */
} bg_sampling;

BG_API void bg_sampling_init(bg_sampling *options, size_t struct_bytes);
/* temperature 1, all tokens, seed 0 */
static inline bg_sampling bg_sampling_defaults(void)
{
    bg_sampling options;

    bg_sampling_init(&options, sizeof options);
    return options;
}

/* Draws the next token; it is not appended. Errors: BG_ERROR_INVALID (a number out of range; nothing was fed yet;
 * logits that are no numbers). */
BG_API bg_status bg_generator_sample(bg_generator *generator, const bg_sampling *sampling, uint32_t *out_token,
                                     bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
