/*
 * beam.c: implements beam search. A beam is the beginning of a sequence with the sum of its log probabilities. At each
 * step the successors of all beams are ranked by their sums:
 *
 *     rank 0 .. beams - 1    a successor that ends the sequence is kept as a result
 *     any rank               the first `beams` successors that end no sequence are the next beams
 *
 * A slot of the generator may hold another beam's tokens from the previous step. The slot keeps the common beginning of
 * both beams and computes the other tokens again, with bit-identical results; nothing is copied between caches.
 */
#include <math.h>
#include <stdlib.h>

#include "core/error.h"
#include "train/generation.h"

enum { MOST = BG_GENERATOR_MOST_SEQUENCES };

typedef struct successor {
    uint32_t beam, token;
    double sum, log_share;
} successor;

/* A sequence that has ended. */
typedef struct result {
    bgi_sequence sequence;
    double score;
} result;

typedef struct search {
    bg_generator *generator;
    const bg_generation_options *options;
    bgi_sequence beams[MOST];
    uint32_t slots[MOST]; /* the slot of each beam */
    uint32_t beam_count;
    result results[MOST]; /* the best first */
    uint32_t result_count;
    successor *ranked; /* the best ones: 2 for each beam and one for each beam and stop token, or more (rank_more) */
    size_t ranked_count, ranked_most;
} search;

/* ---- slots ---- */

static size_t count_common(const bgi_slot *slot, const bgi_sequence *sequence)
{
    size_t same = 0;

    while (same < slot->count && same < sequence->count && slot->tokens[same] == sequence->tokens[same])
        same++;
    return same;
}

/* Gives each beam the free slot that has the longest common beginning with it. */
static bg_status place_beams(search *s, bg_error *error)
{
    bgi_wanted wanted[MOST] = {{.count = 0}};

    for (uint32_t b = 0; b < s->beam_count; b++) {
        uint32_t best = UINT32_MAX;
        size_t most = 0;

        for (uint32_t i = 0; i < s->generator->slot_count; i++) {
            const size_t same = count_common(&s->generator->slots[i], &s->beams[b]);

            if (wanted[i].count == 0 && (best == UINT32_MAX || same > most)) {
                best = i;
                most = same;
            }
        }
        s->slots[b] = best;
        wanted[best] = (bgi_wanted){s->beams[b].tokens, s->beams[b].count};
    }
    return bgi_generator_advance(s->generator, wanted, error);
}

/* ---- ranks ---- */

static bool is_better(const successor *a, const successor *b)
{
    if (a->sum != b->sum)
        return a->sum > b->sum;
    return a->beam != b->beam ? a->beam < b->beam : a->token < b->token;
}

/* Inserts a successor in order; the list keeps only the best ones. */
static void rank_successor(search *s, successor found)
{
    size_t at = s->ranked_count;

    if (at == s->ranked_most) {
        if (!is_better(&found, &s->ranked[at - 1]))
            return;
        at--;
    } else {
        s->ranked_count++;
    }
    for (; at > 0 && is_better(&found, &s->ranked[at - 1]); at--)
        s->ranked[at] = s->ranked[at - 1];
    s->ranked[at] = found;
}

static bg_status rank_successors(search *s, bg_error *error)
{
    const size_t vocabulary = (size_t)s->generator->vocabulary;

    s->ranked_count = 0;
    for (uint32_t b = 0; b < s->beam_count; b++) {
        const float *logits = s->generator->slots[s->slots[b]].logits;
        double log_sum;

        BGI_TRY(bgi_logits_check(logits, vocabulary, error));
        log_sum = bgi_log_sum(logits, vocabulary);
        for (size_t t = 0; t < vocabulary; t++) {
            const double log_share = (double)logits[t] - log_sum;

            rank_successor(s, (successor){.beam = b,
                                          .token = (uint32_t)t,
                                          .sum = s->beams[b].log_share + log_share,
                                          .log_share = log_share});
        }
    }
    return BG_OK;
}

/* Ranks twice as many successors as before, which is necessary if too many of the ranked ones end in a stop string. */
static bg_status rank_more(search *s, bg_error *error)
{
    const size_t most = 2 * s->ranked_most;
    successor *grown;

    if (s->ranked_count < s->ranked_most)
        return BG_OK; /* all successors are ranked */
    grown = realloc(s->ranked, most * sizeof *grown);
    if (grown == NULL)
        return bgi_error_memory(error, "beams", most * sizeof *grown);
    s->ranked = grown;
    s->ranked_most = most;
    return rank_successors(s, error);
}

/* ---- results ---- */

static double score_of(const search *s, double sum, size_t added)
{
    return sum / pow((double)added, s->options->length_penalty);
}

/* Keeps the sequence as a result if it is among the best ones. Takes ownership of the sequence in any case. */
static void keep_result(search *s, bgi_sequence *sequence)
{
    const result found = {*sequence, score_of(s, sequence->log_share, sequence->count - sequence->prompt_count)};
    uint32_t at = s->result_count;

    *sequence = (bgi_sequence){.count = 0};
    if (at == s->options->beams) {
        result *last = &s->results[at - 1];

        if (found.score > last->score) {
            bgi_sequence_clear(&last->sequence);
            at--;
        } else {
            bgi_sequence dropped = found.sequence;
            bgi_sequence_clear(&dropped);
            return;
        }
    } else {
        s->result_count++;
    }
    for (; at > 0 && found.score > s->results[at - 1].score; at--)
        s->results[at] = s->results[at - 1];
    s->results[at] = found;
}

/* Returns whether there is no beam that can become better than the worst result: sums only decrease, and of two lengths
 * the one with the larger divisor gives the better score. */
static bool is_decided(const search *s)
{
    const bgi_sequence *best = &s->beams[0];
    const size_t added = best->count - best->prompt_count;
    const size_t room = (size_t)s->generator->positions - best->prompt_count;
    const size_t longest = s->options->max_tokens < room ? (size_t)s->options->max_tokens : room;
    const size_t length = s->options->length_penalty >= 0.0 ? longest : added + 1;

    return s->beam_count == 0 || (s->result_count == s->options->beams &&
                                  score_of(s, best->log_share, length) <= s->results[s->result_count - 1].score);
}

/* ---- the search ---- */

static bg_status extend(search *s, const successor *by, bgi_sequence *out, bg_error *error)
{
    BGI_TRY(bgi_sequence_copy(out, &s->beams[by->beam], error));
    return bgi_sequence_add(out, by->token, by->log_share, s->options, s->generator->positions, error);
}

static bg_status step_beams(search *s, bg_error *error)
{
    bgi_sequence next[MOST] = {{.count = 0}};
    uint32_t next_count = 0;
    bg_status status = BG_OK;

    for (size_t rank = 0; next_count < s->options->beams && status == BG_OK; rank++) {
        bgi_sequence grown = {.count = 0};

        if (rank == s->ranked_count)
            status = rank_more(s, error);
        if (rank == s->ranked_count || status != BG_OK)
            break;
        status = extend(s, &s->ranked[rank], &grown, error);
        if (status == BG_OK && !grown.has_ended) {
            next[next_count++] = grown;
            continue;
        }
        if (status == BG_OK && rank < s->options->beams)
            keep_result(s, &grown);
        bgi_sequence_clear(&grown);
    }
    for (uint32_t b = 0; b < s->beam_count; b++)
        bgi_sequence_clear(&s->beams[b]);
    for (uint32_t b = 0; b < next_count; b++)
        s->beams[b] = next[b];
    s->beam_count = next_count;
    return status;
}

/* Reports the tokens of the best sequence to the callback one after another, like drawn tokens. */
static bg_status tell_best(const search *s, const bg_generation_prompt *prompt, uint32_t prompt_index, bg_error *error)
{
    const bgi_sequence *best = &s->results[0].sequence;
    bgi_sequence told = {.count = 0};
    bg_status status = bgi_sequence_begin(&told, prompt, error);
    size_t told_bytes = 0;
    bool goes_on = true;

    for (size_t i = best->prompt_count; i < best->count && status == BG_OK && goes_on; i++) {
        size_t certain;

        status = bgi_sequence_add(&told, best->tokens[i], 0.0, s->options, s->generator->positions, error);
        if (status != BG_OK)
            break;
        certain = bgi_sequence_certain_bytes(&told, s->options);
        goes_on = s->options->on_token(
            s->options->user, &(bg_generation_token){.prompt = prompt_index,
                                                     .place = i - best->prompt_count,
                                                     .token = best->tokens[i],
                                                     .log_share = best->log_shares[i - best->prompt_count],
                                                     .text = s->options->tokenizer == NULL ? NULL
                                                             : told.text != NULL           ? told.text + told_bytes
                                                                                           : "",
                                                     .text_bytes = certain > told_bytes ? certain - told_bytes : 0,
                                                     .is_last = i + 1 == best->count});
        told_bytes = certain > told_bytes ? certain : told_bytes;
    }
    bgi_sequence_clear(&told);
    return status;
}

static bg_status search_beams(search *s, const bg_generation_prompt *prompt, uint32_t prompt_index, bg_generation *out,
                              bg_error *error)
{
    BGI_TRY(bgi_sequence_begin(&s->beams[0], prompt, error));
    s->beam_count = 1;
    while (!is_decided(s)) {
        BGI_TRY(place_beams(s, error));
        BGI_TRY(rank_successors(s, error));
        BGI_TRY(step_beams(s, error));
    }
    if (s->options->on_token != NULL)
        BGI_TRY(tell_best(s, prompt, prompt_index, error));
    for (uint32_t i = 0; i < s->options->returned_beams && i < s->result_count; i++)
        BGI_TRY(bgi_sequence_finish(&s->results[i].sequence, s->results[i].score, s->options->tokenizer != NULL,
                                    &out[i], error));
    return BG_OK;
}

bg_status bgi_beam_search(bg_generator *generator, const bg_generation_prompt *prompt, uint32_t prompt_index,
                          const bg_generation_options *options, bg_generation *out, bg_error *error)
{
    search s = {.generator = generator, .options = options};
    bg_status status = BG_OK;

    /* Enough for `beams` successors that do not end a sequence, in addition to all that may end one with a stop
     * token. */
    s.ranked_most = (size_t)options->beams * (2 + (size_t)options->stop_token_count);
    s.ranked = calloc(s.ranked_most, sizeof *s.ranked);
    if (s.ranked == NULL)
        return bgi_error_memory(error, "beams", s.ranked_most * sizeof *s.ranked);
    status = search_beams(&s, prompt, prompt_index, out, error);
    for (uint32_t i = 0; i < MOST; i++) {
        bgi_sequence_clear(&s.beams[i]);
        bgi_sequence_clear(&s.results[i].sequence);
    }
    free(s.ranked);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "prompt %u", prompt_index);
}
