/*
 * generation.c: generates the continuations of prompts. Each slot of the generator works on one prompt. All slots step
 * together, and a slot whose continuation has ended takes the next prompt. A prompt's result does not depend on the
 * other slots: its logits are bit-identical with any other sequences, and draws depend only on the prompt's seed and
 * positions.
 */
#include "train/generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

void bg_generation_options_init(bg_generation_options *options, size_t struct_bytes)
{
    const bg_generation_options made = {.struct_bytes = struct_bytes,
                                        .max_tokens = 50,
                                        .sampling = bg_sampling_defaults(),
                                        .beams = 1,
                                        .length_penalty = 1.0,
                                        .returned_beams = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

void bg_generation_clear(bg_generation *results, size_t count)
{
    for (size_t i = 0; results != NULL && i < count; i++) {
        free(results[i].tokens);
        free(results[i].text);
        results[i] = (bg_generation){.count = 0};
    }
}

/* ---- checks of options ---- */

static bg_status check_beams(const bg_generator *generator, const bg_generation_options *options, bg_error *error)
{
    if (options->beams == 0 || options->beams > generator->slot_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "beams is %u; it must be at least 1 and at most the generator's number of sequences, %u",
                            options->beams, generator->slot_count);
    if (options->returned_beams == 0 || options->returned_beams > options->beams)
        return bg_error_set(error, BG_ERROR_INVALID, "returned_beams is %u; of %u beams it must be from 1 to %u",
                            options->returned_beams, options->beams, options->beams);
    if (!isfinite(options->length_penalty))
        return bg_error_set(error, BG_ERROR_INVALID, "length_penalty is %g; it must be finite",
                            options->length_penalty);
    return BG_OK;
}

static bg_status check_options(const bg_generator *generator, const bg_generation_options *options, bg_error *error)
{
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_generation_options",
                             "bg_generation_defaults()", error));
    BGI_TRY(bgi_sampling_check(&options->sampling, error));
    BGI_TRY(check_beams(generator, options, error));
    if (options->max_tokens == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "max_tokens is 0; it must be at least 1");
    if (options->stop_token_count > 0)
        BGI_TRY(bgi_require(options->stop_tokens, "stop_tokens", "bg_generator_run", error));
    if (options->stop_string_count == 0)
        return BG_OK;
    BGI_TRY(bgi_require(options->stop_strings, "stop_strings", "bg_generator_run", error));
    if (options->tokenizer == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "stop_strings is set, but tokenizer is NULL; set the tokenizer, which decodes tokens");
    for (uint32_t i = 0; i < options->stop_string_count; i++)
        if (options->stop_strings[i] == NULL || options->stop_strings[i][0] == '\0')
            return bg_error_set(error, BG_ERROR_INVALID, "stop string %u is empty; every text would end at once", i);
    return BG_OK;
}

static bg_status check_prompt(const bg_generator *generator, const bg_generation_prompt *prompt, uint32_t index,
                              bg_error *error)
{
    if (prompt->count == 0 || prompt->tokens == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "prompt %u has no tokens; begin with one, for instance the end of a text", index);
    if (prompt->count >= (size_t)generator->positions)
        return bg_error_set(error, BG_ERROR_RANGE,
                            "prompt %u has %zu tokens, which must be fewer than the model's %lld positions", index,
                            prompt->count, (long long)generator->positions);
    for (size_t i = 0; i < prompt->count; i++)
        if (prompt->tokens[i] >= (uint64_t)generator->vocabulary)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "prompt %u: token %zu is %u but must be below the vocabulary's size, %lld", index, i,
                                prompt->tokens[i], (long long)generator->vocabulary);
    return BG_OK;
}

/* ---- drawn sequences ---- */

/* A prompt that a slot works on. */
typedef struct work {
    bool is_busy;
    uint32_t prompt;
    bgi_sequence sequence;
    size_t told_bytes; /* bytes of its text that were reported */
} work;

typedef struct run {
    bg_generator *generator;
    const bg_generation_prompt *prompts;
    uint32_t prompt_count, next;
    const bg_generation_options *options;
    bg_generation *results;
    work slots[BG_GENERATOR_MOST_SEQUENCES];
} run;

static bool tell(run *r, work *w, uint32_t token, double log_share)
{
    const bg_generation_options *options = r->options;
    const size_t certain = bgi_sequence_certain_bytes(&w->sequence, options);
    const bg_generation_token told = {.prompt = w->prompt,
                                      .place = w->sequence.count - w->sequence.prompt_count - 1,
                                      .token = token,
                                      .log_share = log_share,
                                      .text = options->tokenizer == NULL ? NULL
                                              : w->sequence.text != NULL ? w->sequence.text + w->told_bytes
                                                                         : "",
                                      .text_bytes = certain > w->told_bytes ? certain - w->told_bytes : 0,
                                      .is_last = w->sequence.has_ended};

    w->told_bytes += told.text_bytes;
    return options->on_token == NULL || options->on_token(options->user, &told);
}

/* Draws the next token of a slot's sequence. */
static bg_status step_slot(run *r, uint32_t index, bg_error *error)
{
    work *w = &r->slots[index];
    const float *logits = r->generator->slots[index].logits;
    const size_t vocabulary = (size_t)r->generator->vocabulary;
    const bgi_history history = {
        .tokens = w->sequence.tokens, .count = w->sequence.count, .prompt = w->sequence.prompt_count};
    bg_sampling sampling = r->options->sampling;
    double log_share;
    uint32_t token;

    BGI_TRY(bgi_logits_check(logits, vocabulary, error));
    sampling.seed = r->prompts[w->prompt].seed;
    token = bgi_sampler_draw(&r->generator->sampler, &sampling, logits, &history);
    log_share = (double)logits[token] - bgi_log_sum(logits, vocabulary);
    BGI_TRY(bgi_sequence_add(&w->sequence, token, log_share, r->options, r->generator->positions, error));
    if (!tell(r, w, token, log_share) && !w->sequence.has_ended) {
        w->sequence.has_ended = true;
        w->sequence.end = BG_GENERATION_CALLBACK;
    }
    if (!w->sequence.has_ended)
        return BG_OK;
    w->is_busy = false;
    return bgi_sequence_finish(&w->sequence, w->sequence.log_share, r->options->tokenizer != NULL,
                               &r->results[w->prompt], error);
}

/* Gives prompts to free slots, and sets *out_busy to the number of busy slots. */
static bg_status fill_slots(run *r, uint32_t *out_busy, bg_error *error)
{
    *out_busy = 0;
    for (uint32_t i = 0; i < r->generator->slot_count; i++) {
        work *w = &r->slots[i];

        if (!w->is_busy && r->next < r->prompt_count) {
            *w = (work){.is_busy = true, .prompt = r->next};
            BGI_TRY(bgi_sequence_begin(&w->sequence, &r->prompts[r->next++], error));
        }
        *out_busy += w->is_busy;
    }
    return BG_OK;
}

static bg_status draw_all(run *r, bg_error *error)
{
    for (;;) {
        bgi_wanted wanted[BG_GENERATOR_MOST_SEQUENCES] = {{.count = 0}};
        uint32_t busy;

        BGI_TRY(fill_slots(r, &busy, error));
        if (busy == 0)
            return BG_OK;
        for (uint32_t i = 0; i < r->generator->slot_count; i++)
            if (r->slots[i].is_busy)
                wanted[i] = (bgi_wanted){r->slots[i].sequence.tokens, r->slots[i].sequence.count};
        BGI_TRY(bgi_generator_advance(r->generator, wanted, error));
        for (uint32_t i = 0; i < r->generator->slot_count; i++)
            if (r->slots[i].is_busy) {
                const bg_status status = step_slot(r, i, error);

                if (status != BG_OK)
                    return bg_error_context(error, status, "prompt %u", r->slots[i].prompt);
            }
    }
}

static bg_status draw_prompts(bg_generator *generator, const bg_generation_prompt *prompts, uint32_t count,
                              const bg_generation_options *options, bg_generation *results, bg_error *error)
{
    run r = {.generator = generator, .prompts = prompts, .prompt_count = count, .options = options, .results = results};
    const bg_status status = draw_all(&r, error);

    for (uint32_t i = 0; i < BG_GENERATOR_MOST_SEQUENCES; i++)
        bgi_sequence_clear(&r.slots[i].sequence);
    return status;
}

bg_status bg_generator_run(bg_generator *generator, const bg_generation_prompt *prompts, uint32_t prompt_count,
                           const bg_generation_options *options, bg_generation *out_results, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(generator, "generator", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(check_options(generator, options, error));
    if (prompt_count == 0)
        return BG_OK;
    BGI_TRY(bgi_require(prompts, "prompts", __func__, error));
    BGI_TRY(bgi_require(out_results, "out_results", __func__, error));
    for (uint32_t i = 0; i < prompt_count; i++)
        BGI_TRY(check_prompt(generator, &prompts[i], i, error));

    const size_t result_count = (size_t)prompt_count * options->returned_beams;
    bg_generation *results = calloc(result_count, sizeof *results);
    bg_status status = BG_OK;

    if (results == NULL)
        return bgi_error_memory(error, "results", result_count * sizeof *results);
    bgi_generator_forget(generator);
    if (options->beams == 1)
        status = draw_prompts(generator, prompts, prompt_count, options, results, error);
    for (uint32_t i = 0; options->beams > 1 && i < prompt_count && status == BG_OK; i++)
        status =
            bgi_beam_search(generator, &prompts[i], i, options, results + (size_t)i * options->returned_beams, error);
    bgi_generator_forget(generator);
    if (status == BG_OK)
        memcpy(out_results, results, result_count * sizeof *results);
    else
        bg_generation_clear(results, result_count);
    free(results);
    return status;
}
