/*
 * sequence.c: implements a growing sequence. Its text is the bytes of all tokens after the prompt, because a stop
 * string may begin in one token and end in another.
 */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "train/generation.h"

bg_status bgi_sequence_begin(bgi_sequence *sequence, const bg_generation_prompt *prompt, bg_error *error)
{
    const size_t capacity = prompt->count + 64;

    *sequence = (bgi_sequence){.count = prompt->count, .prompt_count = prompt->count, .capacity = capacity};
    sequence->tokens = malloc(capacity * sizeof *sequence->tokens);
    if (sequence->tokens == NULL)
        return bgi_error_memory(error, "a sequence", capacity * sizeof *sequence->tokens);
    memcpy(sequence->tokens, prompt->tokens, prompt->count * sizeof *sequence->tokens);
    return BG_OK;
}

bg_status bgi_sequence_copy(bgi_sequence *sequence, const bgi_sequence *from, bg_error *error)
{
    bgi_sequence copy = *from;

    copy.tokens = malloc(from->capacity * sizeof *copy.tokens);
    copy.text = from->text_capacity > 0 ? malloc(from->text_capacity) : NULL;
    copy.log_shares = from->share_capacity > 0 ? malloc(from->share_capacity * sizeof *copy.log_shares) : NULL;
    if (copy.tokens == NULL || (copy.text == NULL && from->text_capacity > 0) ||
        (copy.log_shares == NULL && from->share_capacity > 0)) {
        bgi_sequence_clear(&copy);
        return bgi_error_memory(error, "a sequence", from->capacity * sizeof *copy.tokens + from->text_capacity);
    }
    memcpy(copy.tokens, from->tokens, from->count * sizeof *copy.tokens);
    if (from->text_bytes > 0)
        memcpy(copy.text, from->text, from->text_bytes);
    if (from->count > from->prompt_count)
        memcpy(copy.log_shares, from->log_shares, (from->count - from->prompt_count) * sizeof *copy.log_shares);
    *sequence = copy;
    return BG_OK;
}

void bgi_sequence_clear(bgi_sequence *sequence)
{
    free(sequence->tokens);
    free(sequence->text);
    free(sequence->log_shares);
    *sequence = (bgi_sequence){.count = 0};
}

/* Grows `items` for one more than `count` elements; on failure the old memory stays valid. */
static void *grow(void *items, size_t *capacity, size_t count, size_t element_bytes, bg_error *error)
{
    const size_t wanted = count + count / 2 + 64;
    void *grown;

    if (count < *capacity)
        return items;
    grown = realloc(items, wanted * element_bytes);
    if (grown == NULL)
        bgi_error_memory(error, "a sequence", wanted * element_bytes);
    else
        *capacity = wanted;
    return grown;
}

static bg_status add_token(bgi_sequence *sequence, uint32_t token, double log_share, bg_error *error)
{
    const size_t added = sequence->count - sequence->prompt_count;
    uint32_t *tokens = grow(sequence->tokens, &sequence->capacity, sequence->count, sizeof *tokens, error);
    double *log_shares;

    if (tokens == NULL)
        return BG_ERROR_MEMORY;
    sequence->tokens = tokens;
    log_shares = grow(sequence->log_shares, &sequence->share_capacity, added, sizeof *log_shares, error);
    if (log_shares == NULL)
        return BG_ERROR_MEMORY;
    sequence->log_shares = log_shares;
    tokens[sequence->count++] = token;
    log_shares[added] = log_share;
    sequence->log_share += log_share;
    return BG_OK;
}

static bg_status add_text(bgi_sequence *sequence, const char *text, size_t size_bytes, bg_error *error)
{
    const size_t total = sequence->text_bytes + size_bytes;

    char *grown = grow(sequence->text, &sequence->text_capacity, total, 1, error);

    if (grown == NULL)
        return BG_ERROR_MEMORY;
    sequence->text = grown;
    if (size_bytes > 0)
        memcpy(sequence->text + sequence->text_bytes, text, size_bytes);
    sequence->text_bytes = total;
    return BG_OK;
}

/* Returns the offset at which the first stop string that ends after offset `from` begins; the text's length if there is
 * none. */
static size_t find_stop(const bgi_sequence *sequence, const bg_generation_options *options, size_t from)
{
    for (size_t at = 0; at < sequence->text_bytes; at++)
        for (uint32_t s = 0; s < options->stop_string_count; s++) {
            const size_t length = strlen(options->stop_strings[s]);

            if (at + length > from && length <= sequence->text_bytes - at &&
                memcmp(sequence->text + at, options->stop_strings[s], length) == 0)
                return at;
        }
    return sequence->text_bytes;
}

static bool is_stop_token(uint32_t token, const bg_generation_options *options)
{
    for (uint32_t i = 0; i < options->stop_token_count; i++)
        if (options->stop_tokens[i] == token)
            return true;
    return false;
}

static void end_sequence(bgi_sequence *sequence, bg_generation_end end)
{
    sequence->has_ended = true;
    sequence->end = end;
}

bg_status bgi_sequence_add(bgi_sequence *sequence, uint32_t token, double log_share,
                           const bg_generation_options *options, int64_t positions, bg_error *error)
{
    const size_t known = sequence->text_bytes;
    const bool is_stop = is_stop_token(token, options);
    size_t size_bytes = 0, stop;
    const char *text = NULL;

    BGI_TRY(add_token(sequence, token, log_share, error));
    if (options->tokenizer != NULL && !is_stop) {
        /* A vocabulary may be larger than its tokenizer: the tokens beyond it have no text. */
        text = bg_tokenizer_token(options->tokenizer, token, &size_bytes);
        BGI_TRY(add_text(sequence, text, text != NULL ? size_bytes : 0, error));
    }
    stop = find_stop(sequence, options, known);
    if (is_stop) {
        end_sequence(sequence, BG_GENERATION_STOP_TOKEN);
    } else if (stop < sequence->text_bytes) {
        sequence->text_bytes = stop;
        end_sequence(sequence, BG_GENERATION_STOP_STRING);
    } else if (sequence->count - sequence->prompt_count >= options->max_tokens ||
               sequence->count >= (size_t)positions) {
        end_sequence(sequence, BG_GENERATION_LENGTH);
    }
    return BG_OK;
}

size_t bgi_sequence_certain_bytes(const bgi_sequence *sequence, const bg_generation_options *options)
{
    size_t certain = sequence->text_bytes;

    for (uint32_t s = 0; s < options->stop_string_count && !sequence->has_ended; s++) {
        const size_t length = strlen(options->stop_strings[s]);
        size_t part = length - 1 < sequence->text_bytes ? length - 1 : sequence->text_bytes;

        /* The length of the longest suffix of the text that is a prefix of the stop string. */
        while (part > 0 && memcmp(sequence->text + sequence->text_bytes - part, options->stop_strings[s], part) != 0)
            part--;
        certain = sequence->text_bytes - part < certain ? sequence->text_bytes - part : certain;
    }
    return certain;
}

bg_status bgi_sequence_finish(bgi_sequence *sequence, double score, bool has_text, bg_generation *out, bg_error *error)
{
    const size_t added = sequence->count - sequence->prompt_count, bytes = sequence->text_bytes;

    if (has_text) {
        BGI_TRY(add_text(sequence, "", 1, error));
        sequence->text[bytes] = '\0';
    }
    memmove(sequence->tokens, sequence->tokens + sequence->prompt_count, added * sizeof *sequence->tokens);
    *out = (bg_generation){.tokens = sequence->tokens,
                           .count = added,
                           .text = has_text ? sequence->text : NULL,
                           .text_bytes = has_text ? bytes : 0,
                           .end = sequence->end,
                           .log_share = sequence->log_share,
                           .score = score};
    sequence->tokens = NULL;
    if (has_text)
        sequence->text = NULL;
    bgi_sequence_clear(sequence);
    return BG_OK;
}
