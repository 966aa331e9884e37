/*
 * generate.c: continues sequences with a GPT, several at once. Up to three sessions share one cache: two long steps for
 * prompts and a step of one token, each for all sequences. The unused part of a step is filled with tokens that the
 * sequence's next step overwrites, so the cache is longer than the model's number of positions by the length of a step.
 */
#include "train/generator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* ---- steps ---- */

static bg_status allocate_inputs(bgi_stepper *s, uint32_t sequences, bg_error *error)
{
    const size_t count = (size_t)s->length * sequences;

    s->tokens = calloc(count, sizeof *s->tokens);
    s->positions = calloc(count, sizeof *s->positions);
    s->rows = calloc(sequences, sizeof *s->rows);
    return s->tokens != NULL && s->positions != NULL && s->rows != NULL
               ? BG_OK
               : bgi_error_memory(error, "a step's inputs", 3 * count * sizeof *s->tokens);
}

/* Returns the number of tokens of a step: the model's sequence length, but at most `most`. */
static int64_t find_length(const bg_gpt_options *model, int64_t most)
{
    return model->sequence_length < most ? model->sequence_length : most;
}

static bg_status open_stepper(bgi_stepper *s, const bg_gpt_options *model, int64_t length, uint32_t sequences,
                              const bg_options *options, bg_weights *weights, bg_error *error)
{
    bg_gpt_options used = *model;
    bg_graph *graph = NULL;
    bg_status status;

    used.sequence_length = s->length = length;
    BGI_TRY(allocate_inputs(s, sequences, error));
    BGI_TRY(bg_graph_create(&graph, error));
    bg_gpt_build_steps(graph, &used, model->positions + BGI_LONGEST_STEP, sequences);
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
    s->inputs[bg_session_find_input(s->session, "row")] = s->rows;
    return BG_OK;
}

static void close_stepper(bgi_stepper *s)
{
    bg_session_destroy(s->session);
    bg_plan_destroy(s->plan);
    free(s->rows);
    free(s->positions);
    free(s->tokens);
}

/* ---- slots ---- */

static bg_status open_slots(bg_generator *generator, bg_error *error)
{
    const size_t vocabulary = (size_t)generator->vocabulary;

    generator->slots = calloc(generator->slot_count, sizeof *generator->slots);
    generator->logits = calloc(generator->slot_count * vocabulary, sizeof *generator->logits);
    if (generator->slots == NULL || generator->logits == NULL)
        return bgi_error_memory(error, "logits", generator->slot_count * vocabulary * sizeof *generator->logits);
    for (uint32_t i = 0; i < generator->slot_count; i++) {
        bgi_slot *slot = &generator->slots[i];

        slot->tokens = calloc((size_t)generator->positions, sizeof *slot->tokens);
        slot->logits = calloc(vocabulary, sizeof *slot->logits);
        if (slot->tokens == NULL || slot->logits == NULL)
            return bgi_error_memory(error, "a sequence", vocabulary * sizeof *slot->logits);
    }
    return BG_OK;
}

void bgi_generator_forget(bg_generator *generator)
{
    for (uint32_t i = 0; i < generator->slot_count; i++) {
        generator->slots[i].count = 0;
        generator->slots[i].has_logits = false;
    }
    generator->prompt_count = SIZE_MAX;
}

/* Shortens the slot to the longest prefix of its tokens that matches the wanted ones. If all match but the logits are
 * missing, the last token is computed again. */
static void keep_prefix(bgi_slot *slot, const bgi_wanted *wanted)
{
    size_t same = 0;

    while (same < slot->count && same < wanted->count && slot->tokens[same] == wanted->tokens[same])
        same++;
    if (same == wanted->count && same == slot->count && slot->has_logits)
        return;
    slot->count = same < wanted->count ? same : wanted->count - 1;
    slot->has_logits = false;
}

static size_t find_pending(const bgi_slot *slot, const bgi_wanted *wanted)
{
    return wanted->count > slot->count ? wanted->count - slot->count : 0;
}

/* Writes the tokens of a slot for one run, and returns how many of its pending tokens the run takes. A slot without
 * pending tokens gets its last token again, which does not change the cache. The unused part of the run is filled with
 * tokens that the slot's next tokens overwrite. */
static size_t fill_inputs(bgi_stepper *s, uint32_t index, const bgi_slot *slot, const bgi_wanted *wanted)
{
    const size_t pending = find_pending(slot, wanted), length = (size_t)s->length;
    const size_t taken = pending < length ? pending : length;
    const size_t first = taken > 0 ? slot->count : slot->count > 0 ? slot->count - 1 : 0;
    const uint32_t *tokens = taken > 0 ? wanted->tokens : slot->tokens;
    const size_t used = taken > 0 ? taken : 1;

    for (size_t i = 0; i < length; i++) {
        const size_t from = first + (i < used ? i : used - 1);

        s->tokens[index * length + i] = taken > 0 || slot->count > 0 ? (int32_t)tokens[from] : 0;
        s->positions[index * length + i] = (int32_t)(first + i);
    }
    s->rows[index] = (int32_t)(index * length + used - 1);
    return taken;
}

/* Runs one step for all slots. */
static bg_status run_step(bg_generator *generator, bgi_stepper *s, const bgi_wanted *wanted, bg_error *error)
{
    const size_t vocabulary = (size_t)generator->vocabulary;
    size_t taken[BG_GENERATOR_MOST_SEQUENCES];
    void *outputs[] = {generator->logits};

    for (uint32_t i = 0; i < generator->slot_count; i++) {
        taken[i] = fill_inputs(s, i, &generator->slots[i], &wanted[i]);
        s->taken += taken[i];
    }
    BGI_TRY(bg_session_run(s->session, s->inputs, outputs, error));
    for (uint32_t i = 0; i < generator->slot_count; i++) {
        bgi_slot *slot = &generator->slots[i];

        if (taken[i] == 0)
            continue;
        memcpy(slot->tokens + slot->count, wanted[i].tokens + slot->count, taken[i] * sizeof *slot->tokens);
        slot->count += taken[i];
        slot->has_logits = true;
        memcpy(slot->logits, generator->logits + i * vocabulary, vocabulary * sizeof *slot->logits);
    }
    return BG_OK;
}

/* Returns the stepper to use if the sequences have at most `most` pending tokens. A run of `longest` takes less time
 * than several runs of `prompt`, even when a quarter of it is unused. */
static bgi_stepper *choose_stepper(bg_generator *generator, size_t most)
{
    if (most == 1)
        return &generator->single;
    return generator->longest.length > 0 && 4 * most >= 3 * (size_t)generator->longest.length ? &generator->longest
                                                                                              : &generator->prompt;
}

bg_status bgi_generator_advance(bg_generator *generator, const bgi_wanted *wanted, bg_error *error)
{
    for (uint32_t i = 0; i < generator->slot_count; i++)
        if (wanted[i].count > 0)
            keep_prefix(&generator->slots[i], &wanted[i]);
    for (;;) {
        size_t most = 0;

        for (uint32_t i = 0; i < generator->slot_count; i++) {
            const size_t pending = find_pending(&generator->slots[i], &wanted[i]);
            most = pending > most ? pending : most;
        }
        if (most == 0)
            return BG_OK;
        BGI_TRY(run_step(generator, choose_stepper(generator, most), wanted, error));
    }
}

/* ---- generators ---- */

bg_status bg_generator_create(const bg_gpt_options *model, const bg_options *options, bg_weights *weights,
                              bg_generator **out, bg_error *error)
{
    bg_error_clear(error);
    return bg_generator_create_batch(model, options, weights, 1, out, error);
}

bg_status bg_generator_create_batch(const bg_gpt_options *model, const bg_options *options, bg_weights *weights,
                                    uint32_t sequences, bg_generator **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(model, "model", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_struct_check(model->struct_bytes, sizeof *model, "bg_gpt_options", "bg_gpt_defaults()", error));
    if (sequences == 0 || sequences > BG_GENERATOR_MOST_SEQUENCES)
        return bg_error_set(error, BG_ERROR_INVALID, "the generator would have %u sequences; it must have 1 to %d",
                            sequences, BG_GENERATOR_MOST_SEQUENCES);

    bg_options used = bg_options_defaults();
    const int64_t step = find_length(model, BGI_PROMPT_STEP), longest = find_length(model, BGI_LONGEST_STEP);
    bg_generator *generator;
    bg_status status;

    used.execution.strategy = BG_STRATEGY_SINGLE; /* all cores work on each product */
    if (options != NULL) {
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_options", "bg_options_defaults()", error));
        used = *options;
    }
    if (used.numerics.weights_type == BG_WEIGHTS_FLOAT)
        used.numerics.weights_type = BG_WEIGHTS_CAST; /* same results, without casts in each step */
    generator = calloc(1, sizeof *generator);
    if (generator == NULL)
        return bgi_error_memory(error, "a generator", sizeof *generator);
    generator->positions = model->positions;
    generator->vocabulary = model->vocabulary;
    generator->slot_count = sequences;
    if (longest > step)
        BGI_TRY_CLEANUP(open_stepper(&generator->longest, model, longest, sequences, &used, weights, error));
    BGI_TRY_CLEANUP(open_stepper(&generator->prompt, model, step, sequences, &used, weights, error));
    BGI_TRY_CLEANUP(open_stepper(&generator->single, model, 1, sequences, &used, weights, error));
    BGI_TRY_CLEANUP(open_slots(generator, error));
    BGI_TRY_CLEANUP(bgi_sampler_init(&generator->sampler, (size_t)model->vocabulary, error));
    bgi_generator_forget(generator);
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
    close_stepper(&generator->longest);
    for (uint32_t i = 0; generator->slots != NULL && i < generator->slot_count; i++) {
        free(generator->slots[i].logits);
        free(generator->slots[i].tokens);
    }
    bgi_sampler_clear(&generator->sampler);
    free(generator->logits);
    free(generator->slots);
    free(generator);
}

bg_session *bg_generator_session(const bg_generator *generator, bool of_prompt)
{
    return !of_prompt                                           ? generator->single.session
           : generator->longest.taken > generator->prompt.taken ? generator->longest.session
                                                                : generator->prompt.session;
}

/* ---- one sequence, token by token: the first slot ---- */

int64_t bg_generator_length(const bg_generator *generator)
{
    return (int64_t)generator->slots[0].count;
}

void bg_generator_reset(bg_generator *generator)
{
    bgi_generator_forget(generator);
}

const float *bg_generator_logits(const bg_generator *generator)
{
    return generator->slots[0].count > 0 ? generator->slots[0].logits : NULL;
}

bg_status bg_generator_feed(bg_generator *generator, const uint32_t *tokens, size_t count, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(generator, "generator", __func__, error));
    if (count == 0)
        return BG_OK;
    BGI_TRY(bgi_require(tokens, "tokens", __func__, error));

    const size_t known = generator->slots[0].count;
    bgi_wanted wanted[BG_GENERATOR_MOST_SEQUENCES] = {{.count = 0}};
    uint32_t *sequence;
    bg_status status;

    if (count > (size_t)generator->positions - known)
        return bg_error_set(
            error, BG_ERROR_RANGE,
            "%zu tokens would follow %zu, but the model has only %lld positions; give fewer, or clear the generator",
            count, known, (long long)generator->positions);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= (uint64_t)generator->vocabulary)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "token %zu is %u but must be below the vocabulary's size, %lld", i, tokens[i],
                                (long long)generator->vocabulary);
    sequence = malloc((known + count) * sizeof *sequence);
    if (sequence == NULL)
        return bgi_error_memory(error, "a sequence", (known + count) * sizeof *sequence);
    memcpy(sequence, generator->slots[0].tokens, known * sizeof *sequence);
    memcpy(sequence + known, tokens, count * sizeof *sequence);
    wanted[0] = (bgi_wanted){sequence, known + count};
    status = bgi_generator_advance(generator, wanted, error);
    free(sequence);
    return status;
}

bg_status bg_generator_sample(bg_generator *generator, const bg_sampling *sampling, uint32_t *out_token,
                              bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(generator, "generator", __func__, error));
    BGI_TRY(bgi_require(sampling, "sampling", __func__, error));
    BGI_TRY(bgi_require(out_token, "out_token", __func__, error));

    const bgi_slot *slot = &generator->slots[0];
    bgi_history history = {.tokens = slot->tokens, .count = slot->count};

    BGI_TRY(bgi_sampling_check(sampling, error));
    if (slot->count == 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "the sequence has no tokens to continue; feed the generator a token first, for instance the end of a text");
    BGI_TRY(bgi_logits_check(slot->logits, (size_t)generator->vocabulary, error));
    if (generator->prompt_count == SIZE_MAX)
        generator->prompt_count = slot->count;
    history.prompt = generator->prompt_count;
    *out_token = bgi_sampler_draw(&generator->sampler, sampling, slot->logits, &history);
    return BG_OK;
}
