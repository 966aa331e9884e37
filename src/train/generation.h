/*
 * generation.h: declares growing sequences with their text and the conditions that end them, for drawn sequences and
 * for beams.
 */
#ifndef BGI_TRAIN_GENERATION_H
#define BGI_TRAIN_GENERATION_H

#include "train/generator.h"

/* A growing sequence: the prompt, the added tokens, and their text. A zeroed sequence is valid and empty. */
typedef struct bgi_sequence {
    uint32_t *tokens;
    size_t count, prompt_count, capacity;
    char *text; /* text of the added tokens */
    size_t text_bytes, text_capacity;
    double *log_shares; /* log probabilities of the added tokens */
    size_t share_capacity;
    double log_share; /* their sum */
    bool has_ended;
    bg_generation_end end;
} bgi_sequence;

bg_status bgi_sequence_begin(bgi_sequence *sequence, const bg_generation_prompt *prompt, bg_error *error);
bg_status bgi_sequence_copy(bgi_sequence *sequence, const bgi_sequence *from, bg_error *error);
void bgi_sequence_clear(bgi_sequence *sequence);

/* Appends a token with its text. Sets `has_ended` and `end` when a stop token, a stop string (the text is cut before
 * it) or the limit on tokens ends the sequence. */
bg_status bgi_sequence_add(bgi_sequence *sequence, uint32_t token, double log_share,
                           const bg_generation_options *options, int64_t positions, bg_error *error);

/* Returns the number of bytes of the text that cannot be part of a later stop string; all bytes when the sequence has
 * ended. */
size_t bgi_sequence_certain_bytes(const bgi_sequence *sequence, const bg_generation_options *options);

/* Moves the added tokens and, if has_text is true, their text to `out`, and clears the sequence. */
bg_status bgi_sequence_finish(bgi_sequence *sequence, double score, bool has_text, bg_generation *out, bg_error *error);

/* Runs beam search for one prompt; `out` has options->returned_beams elements. */
bg_status bgi_beam_search(bg_generator *generator, const bg_generation_prompt *prompt, uint32_t prompt_index,
                          const bg_generation_options *options, bg_generation *out, bg_error *error);

#endif
