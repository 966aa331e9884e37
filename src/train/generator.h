/*
 * generator.h: declares the generator, which holds several sequences with cached keys and values.
 */
#ifndef BGI_TRAIN_GENERATOR_H
#define BGI_TRAIN_GENERATOR_H

#include <brigade/generate.h>

#include "train/sampling.h"

/* The number of tokens of each sequence in a step for prompts, and in a step for long prompts, which spends little of
 * its time on reading weights. */
enum { BGI_PROMPT_STEP = 32, BGI_LONGEST_STEP = 128 };

/* A step of the model: its plan, its session, its inputs. */
typedef struct bgi_stepper {
    bg_plan *plan;
    bg_session *session;
    int64_t length; /* tokens of each sequence; 0: there is no such step */
    uint64_t taken; /* the number of tokens that the step has computed */
    int32_t *tokens, *positions, *rows;
    const void *inputs[3];
} bgi_stepper;

/* One of the sequences: the content of its part of the cache. */
typedef struct bgi_slot {
    uint32_t *tokens; /* memory for all positions */
    size_t count;
    bool has_logits; /* `logits` belongs to the position after the last token */
    float *logits;
} bgi_slot;

/* The tokens that a slot should hold; if `count` is 0, the slot may hold any. */
typedef struct bgi_wanted {
    const uint32_t *tokens;
    size_t count;
} bgi_wanted;

struct bg_generator {
    int64_t positions, vocabulary;
    uint32_t slot_count;
    bgi_stepper longest, prompt, single;
    bgi_slot *slots;
    float *logits; /* logits of all slots, as a run returns them */
    bgi_sampler sampler;
    size_t prompt_count; /* for slot 0: tokens before the first drawn one; SIZE_MAX: none was drawn */
};

/*
 * Makes each slot hold its wanted tokens, with the logits of the next token. Each slot keeps the common beginning; the
 * other tokens are computed for all slots in the same runs. The caller must ensure that wanted[i].count is at most the
 * number of positions, and that tokens are below the vocabulary size.
 */
bg_status bgi_generator_advance(bg_generator *generator, const bgi_wanted *wanted, bg_error *error);

/* Clears the slots, because weights may have changed. */
void bgi_generator_forget(bg_generator *generator);

#endif
