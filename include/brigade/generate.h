/*
 * generate.h: a GPT that continues sequences of tokens. The keys and values of earlier tokens are cached, so each
 * further token costs one step of the model.
 *
 *     one sequence, by hand     bg_generator_feed, then bg_generator_sample and bg_generator_feed in turn
 *     any number of prompts     bg_generator_run: several at once, stop strings, a callback for each token, beam search
 *
 * Threads: one thread at a time uses a generator.
 *
 * Errors: as bg_session_run; BG_ERROR_INVALID, BG_ERROR_RANGE, BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_GENERATE_H
#define BRIGADE_GENERATE_H

#include <brigade/gpt.h>
#include <brigade/session.h>
#include <brigade/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_generator bg_generator;

/*
 * Creates a generator. `weights` has the model's weights (trained by a session, or loaded); the generator adds the
 * buffers of the cache to it. Missing parameters are an error unless options->numerics.initialize_missing is set. One
 * run reads at most model->sequence_length tokens of a prompt, and never more than 128. `options` are those of the
 * plans, for inference; NULL: the defaults with one device (BG_STRATEGY_SINGLE), so that all cores work on each
 * product. (In a pipeline the devices wait for one another if there are few sequences.) With a bfloat16 model, matrices
 * are cast once, not in each step (BG_WEIGHTS_CAST), unless options->numerics.weights_type rounds them. Errors: those
 * of bg_gpt_build_step, of plans and of sessions.
 */
BG_API bg_status bg_generator_create(const bg_gpt_options *model, const bg_options *options, bg_weights *weights,
                                     bg_generator **out, bg_error *error);
/* Creates a generator of `sequences` sequences; each step adds a token to each of them. bg_generator_run uses all
 * sequences; the functions for one sequence use the first. Each sequence has its own cache, and its results are
 * bit-identical to those of a generator of one sequence. Errors: those of bg_generator_create; BG_ERROR_INVALID
 * (`sequences` is 0, or above BG_GENERATOR_MOST_SEQUENCES). */
#define BG_GENERATOR_MOST_SEQUENCES BG_GPT_MOST_SEQUENCES
BG_API bg_status bg_generator_create_batch(const bg_gpt_options *model, const bg_options *options, bg_weights *weights,
                                           uint32_t sequences, bg_generator **out, bg_error *error);
BG_API void bg_generator_destroy(bg_generator *generator);

/* Returns the session that appends one token at a time or, with `of_prompt`, a session that reads prompts. There are up
 * to two sessions that read prompts, for steps of at most 32 and of at most 128 tokens, and the function returns the
 * one that has read more tokens. The sessions are for profiles and reports. */
BG_API bg_session *bg_generator_session(const bg_generator *generator, bool of_prompt);

/* Returns the number of tokens in the sequence, which is at most the model's number of positions. */
BG_API int64_t bg_generator_length(const bg_generator *generator);

/* Appends tokens to the sequence. Errors: BG_ERROR_INVALID (a token outside the vocabulary), BG_ERROR_RANGE (more
 * tokens than the model has positions; no token is appended), and those of bg_session_run. */
BG_API bg_status bg_generator_feed(bg_generator *generator, const uint32_t *tokens, size_t count, bg_error *error);

/* Resets the generator to an empty sequence. */
BG_API void bg_generator_reset(bg_generator *generator);

/* Returns the logits of the next token [vocabulary], valid until the next feed; NULL before the first feed. */
BG_API const float *bg_generator_logits(const bg_generator *generator);

/* How the next token is drawn. The fields apply in their order: penalties change the logits, the temperature divides
 * them before they become probabilities, and each filter keeps some of the remaining tokens. One of the remaining
 * tokens is then drawn with these probabilities. */
typedef struct bg_sampling {
    size_t struct_bytes; /* set by bg_sampling_defaults; see base.h */
    /* Repetition penalty (Keskar et al., 2019): for each token that is in the sequence, divides the token's logit by
     * this number if the logit is above 0, and multiplies it otherwise; 1: no penalty. */
    double repetition_penalty;
    /* Penalties that are subtracted from the logit of each generated token: presence_penalty once, frequency_penalty
     * for each occurrence. The prompt is everything that was fed before the first draw. 0: no penalty. */
    double presence_penalty, frequency_penalty;
    double temperature; /* divides the logits; 0: the token with the largest logit (the first of equal ones) is always
                           drawn */
    uint32_t top_k;     /* keep only the k tokens with the largest probabilities; 0: keep all */
    /* Keep the fewest tokens, in the order of falling probability, whose probabilities sum to at least top_p (Holtzman
     * et al., 2020); 1: keep all. */
    double top_p;
    /* Keep tokens with at least this share of the largest probability (Nguyen et al., 2024); 0: keep all. */
    double min_p;
    /* Typical sampling (Meister et al., 2022): keep the fewest tokens whose probabilities sum to at least typical_p,
     * beginning with the tokens whose information is nearest to the mean; 1: keep all. */
    double typical_p;
    uint64_t seed; /* a drawn token is a function of its logits, this seed and its position in the sequence */
} bg_sampling;

BG_API void bg_sampling_init(bg_sampling *options, size_t struct_bytes);
/* Defaults: temperature 1, all tokens, no penalty, seed 0. */
static inline bg_sampling bg_sampling_defaults(void)
{
    bg_sampling options;

    bg_sampling_init(&options, sizeof options);
    return options;
}

/* Draws the next token, which is not appended to the sequence. Errors: BG_ERROR_INVALID (a number out of range; nothing
 * was fed yet; logits that are NaN). */
BG_API bg_status bg_generator_sample(bg_generator *generator, const bg_sampling *sampling, uint32_t *out_token,
                                     bg_error *error);

/* Computes the probability with which each token of a vocabulary is drawn, for any logits, into out_shares
 * [vocabulary]. `tokens` is the sequence so far, whose first prompt_count tokens are the prompt; only penalties read
 * these tokens. Errors: BG_ERROR_INVALID (a number out of range; logits that are NaN), BG_ERROR_MEMORY. */
BG_API bg_status bg_sampling_shares(const bg_sampling *sampling, const float *logits, size_t vocabulary,
                                    const uint32_t *tokens, size_t token_count, size_t prompt_count, double *out_shares,
                                    bg_error *error);

/* ---- complete continuations of prompts ---- */

typedef struct bg_generation_prompt {
    const uint32_t *tokens; /* at least one */
    size_t count;
    uint64_t seed; /* seed of this sequence, instead of sampling.seed */
} bg_generation_prompt;

typedef enum bg_generation_end {
    BG_GENERATION_LENGTH = 0, /* max_tokens tokens were added, or the model has no further position */
    BG_GENERATION_STOP_TOKEN, /* a stop token was drawn, which is the last token of the result */
    BG_GENERATION_STOP_STRING,
    BG_GENERATION_CALLBACK /* on_token returned false */
} bg_generation_end;

/* A token that was added to a prompt. With a tokenizer, `text` is the text that may be printed now, because it cannot
 * be part of a stop string. The text may be empty, or belong to earlier tokens, and is valid during the call. */
typedef struct bg_generation_token {
    uint32_t prompt; /* number of the prompt */
    uint64_t place;  /* position among the added tokens, from 0 */
    uint32_t token;
    double log_share; /* the logarithm of the model's probability of the token, before penalties, temperature and
                         filters */
    const char *text; /* not zero-terminated; NULL without a tokenizer */
    size_t text_bytes;
    bool is_last;
} bg_generation_token;

typedef struct bg_generation_options {
    size_t struct_bytes; /* set by bg_generation_defaults; see base.h */
    uint64_t max_tokens; /* tokens to add to each prompt; default 50 */
    bg_sampling sampling;
    const uint32_t *stop_tokens; /* a sequence ends after one of these tokens, such as the end-of-text token */
    uint32_t stop_token_count;
    const bg_tokenizer *tokenizer; /* makes the text; NULL: no text */
    /* A sequence ends when its text contains one of these strings, which need the tokenizer. */
    const char *const *stop_strings;
    uint32_t stop_string_count;
    /* Called for each token when it is drawn, in the thread that calls bg_generator_run. Beam search calls the function
     * for the tokens of the best sequence, when this sequence is known. Tokens of several prompts are interleaved.
     * Returning false ends the prompt's sequence. NULL: no callback. */
    bool (*on_token)(void *user, const bg_generation_token *token);
    void *user;
    /* Above 1: beam search instead of sampling. Each step keeps the `beams` likeliest sequences, by the sum of their
     * log probabilities. Sequences that have ended are compared by this sum divided by (number of added tokens) ^
     * length_penalty. Beam search does not read `sampling`. The maximum of `beams` is the generator's number of
     * sequences. */
    uint32_t beams;
    double length_penalty;   /* default 1 */
    uint32_t returned_beams; /* sequences to return for each prompt, the best first; 1 to `beams`; default 1 */
} bg_generation_options;

BG_API void bg_generation_options_init(bg_generation_options *options, size_t struct_bytes);
/* Defaults: 50 tokens, bg_sampling_defaults, one beam. */
static inline bg_generation_options bg_generation_defaults(void)
{
    bg_generation_options options;

    bg_generation_options_init(&options, sizeof options);
    return options;
}

/* The tokens that were added to a prompt. Clear it with bg_generation_clear; a zeroed struct is empty. */
typedef struct bg_generation {
    uint32_t *tokens; /* malloc'ed */
    size_t count;
    char *text; /* malloc'ed and zero-terminated, up to a stop string; NULL without a tokenizer */
    size_t text_bytes;
    bg_generation_end end;
    double log_share; /* the sum over the added tokens */
    double score;     /* with beam search, the number by which sequences are compared; otherwise log_share */
} bg_generation;
BG_API void bg_generation_clear(bg_generation *results, size_t count);

/*
 * Continues prompts, which may differ in length. The generator runs one prompt in each of its sequences at the same
 * time; when a prompt's continuation ends, the next prompt begins in that sequence. The result of a prompt does not
 * depend, bit by bit, on the other prompts or on the strategy. `out_results` has prompt_count x returned_beams
 * elements; the results of a prompt are adjacent, and the last ones are empty if beam search found fewer. On failure
 * `out_results` is unchanged. Tokens that bg_generator_feed appended before are discarded. Errors: BG_ERROR_INVALID (a
 * number out of range; a prompt without tokens; a token outside the vocabulary; logits that are NaN), BG_ERROR_RANGE (a
 * prompt that leaves no free position in the model), BG_ERROR_MEMORY; otherwise those of bg_session_run.
 */
BG_API bg_status bg_generator_run(bg_generator *generator, const bg_generation_prompt *prompts, uint32_t prompt_count,
                                  const bg_generation_options *options, bg_generation *out_results, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
