/*
 * gpt_generate.c: `brigade gpt generate`: continues prompts. The tokens of a single prompt are printed as they are
 * drawn. Several prompts run through the model at once, and are printed in their order when all have ended.
 */
#include "cli/gpt_model.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/generate.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/profile.h"
#include "core/error.h"
#include "core/file.h"

enum { PROMPT_LIMIT_BYTES = 1 << 26 };

typedef struct generate_config {
    const char *directory, *tokenizer, *dtype, *weights_type, *prompt, *prompt_file, *prompts_file;
    uint64_t length, top_k, seed, sequences, beams;
    double temperature, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty,
        length_penalty;
    cli_texts stops;
    bool only_new, goes_on;
    cli_profile profile;
} generate_config;

#define AT(field) .offset = offsetof(generate_config, field)

static const cli_option generate_options[] = {
    {CLI_TEXT, "hf-model", AT(directory), .value = "DIR",
     .help = "folder with config.json, model.safetensors and a tokenizer"},
    {CLI_TEXT, "tokenizer", AT(tokenizer), .value = "DIR|bytes", .default_text = "the one of the model",
     .help = "folder with tokenizer.json, or with vocab.json and merges.txt; bytes: a token for each byte"},
    {CLI_TEXT, "prompt", AT(prompt), .value = "TEXT", .default_text = "the end of a text",
     .help = "text to continue; <|endoftext|> in it is the special token"},
    {CLI_TEXT, "prompt-file", AT(prompt_file), .value = "FILE", .help = "file with the prompt"},
    {CLI_TEXT, "prompts", AT(prompts_file), .value = "FILE", .help = "file with several prompts, one on each line"},
    {CLI_COUNT, "sequences", AT(sequences), .value = "N", .minimum = 1, .maximum = BG_GENERATOR_MOST_SEQUENCES,
     .default_text = "the beams, or 8 for several prompts",
     .help = "number of prompts that run at the same time; it does not change results"},
    {CLI_COUNT, "length", AT(length), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "number of tokens to add"},
    {CLI_TEXT_LIST, "stop", AT(stops), .value = "TEXT...", .help = "stop before any of these strings"},
    {CLI_FLAG, "go-on", AT(goes_on), .help = "do not stop at an end of text"},
    {CLI_FLAG, "only-new", AT(only_new), .help = "print only the added text, without the prompt"},
    {CLI_CHOICE, "dtype", AT(dtype), .choices = "float32|bfloat16|float16", .help = "type of the activations"},
    {CLI_CHOICE, "weights-type", AT(weights_type), .choices = GPT_WEIGHTS_TYPES, .help = GPT_WEIGHTS_HELP},
    CLI_PROFILE_OPTIONS(generate_config, profile),
    {.kind = CLI_HEADING, .help = "How a token is drawn"},
    {CLI_REAL, "temperature", AT(temperature), .value = "T",
     .help = "divides the logits; 0: always the likeliest token"},
    {CLI_COUNT, "top-k", AT(top_k), .value = "N", .maximum = INT32_MAX, .default_text = "all",
     .help = "keep the N likeliest tokens"},
    {CLI_REAL, "top-p", AT(top_p), .value = "P", .help = "keep the fewest tokens whose probabilities sum to P"},
    {CLI_REAL, "min-p", AT(min_p), .value = "P", .help = "keep tokens with at least P times the largest probability"},
    {CLI_REAL, "typical-p", AT(typical_p), .value = "P",
     .help = "keep the most typical tokens whose probabilities sum to P"},
    {CLI_REAL, "repetition-penalty", AT(repetition_penalty), .value = "X",
     .help = "divides the logits of earlier tokens, but multiplies negative logits"},
    {CLI_REAL, "presence-penalty", AT(presence_penalty), .value = "X",
     .help = "subtracted once from the logits of tokens that were added"},
    {CLI_REAL, "frequency-penalty", AT(frequency_penalty), .value = "X",
     .help = "subtracted from the logit of a token for each time that the token was added"},
    {CLI_COUNT, "seed", AT(seed), .value = "N", .maximum = UINT64_MAX,
     .help = "seed of the draws; each further prompt uses the next number"},
    {CLI_COUNT, "beams", AT(beams), .value = "N", .minimum = 1, .maximum = BG_GENERATOR_MOST_SEQUENCES,
     .help = "above 1: beam search for the likeliest text, without draws"},
    {CLI_REAL, "length-penalty", AT(length_penalty), .value = "X",
     .help = "with beams: log probabilities of texts are divided by (length)^X; 0 prefers short texts"},
    CLI_OPTIONS_END,
};

/* Prompts as tokens. */
typedef struct prompt_list {
    bg_token_list *items;
    uint32_t count;
} prompt_list;

static void clear_prompts(prompt_list *prompts)
{
    for (uint32_t i = 0; i < prompts->count; i++)
        bg_token_list_clear(&prompts->items[i]);
    free(prompts->items);
}

/* Encodes the prompt. An empty prompt becomes the end-of-text token, after which a new text begins. */
static bg_status encode_prompt(const bg_tokenizer *tokenizer, const char *text, size_t size_bytes, prompt_list *prompts,
                               bg_error *error)
{
    static const char end[] = "<|endoftext|>";
    bg_token_list *items = realloc(prompts->items, (prompts->count + 1) * sizeof *items);
    bg_token_list *tokens;
    bg_status status;

    if (items == NULL)
        return bgi_error_memory(error, "prompts", (prompts->count + 1) * sizeof *items);
    prompts->items = items;
    tokens = &items[prompts->count++];
    *tokens = (bg_token_list){.items = NULL};
    status = bg_tokenizer_encode(tokenizer, text, size_bytes, true, tokens, error);
    if (status == BG_OK && tokens->count == 0)
        status = bg_tokenizer_encode(tokenizer, end, sizeof end - 1, true, tokens, error);
    return status;
}

static bg_status encode_lines(const bg_tokenizer *tokenizer, const char *path, const char *text, size_t size_bytes,
                              prompt_list *prompts, bg_error *error)
{
    for (size_t at = 0; at < size_bytes;) {
        const char *end = memchr(text + at, '\n', size_bytes - at);
        const size_t length = end != NULL ? (size_t)(end - text) - at : size_bytes - at;

        if (length > 0)
            BGI_TRY(encode_prompt(tokenizer, text + at, length, prompts, error));
        at += length + 1;
    }
    return prompts->count > 0 ? BG_OK : bg_error_set(error, BG_ERROR_INVALID, "%s: has no prompt", path);
}

static bg_status read_prompts(const generate_config *config, const bg_tokenizer *tokenizer, prompt_list *prompts,
                              bg_error *error)
{
    const char *path = config->prompts_file != NULL ? config->prompts_file : config->prompt_file;
    const char *text = config->prompt != NULL ? config->prompt : "<|endoftext|>";
    size_t size_bytes = strlen(text);
    char *loaded = NULL;
    bg_status status;

    if (path != NULL) {
        BGI_TRY(bgi_file_load(path, PROMPT_LIMIT_BYTES, &loaded, &size_bytes, error));
        text = loaded;
    }
    status = config->prompts_file != NULL ? encode_lines(tokenizer, path, text, size_bytes, prompts, error)
                                          : encode_prompt(tokenizer, text, size_bytes, prompts, error);
    free(loaded);
    return status;
}

static bg_status check_prompt(const generate_config *config, const gpt_model *model, const bg_token_list *tokens,
                              bg_error *error)
{
    const uint64_t positions = (uint64_t)model->options.positions;
    const uint32_t end = bg_tokenizer_end_of_text(model->tokenizer);
    const size_t prompt = tokens->count;

    if (prompt == 1 && (uint64_t)tokens->items[0] == end && end >= (uint64_t)model->options.vocabulary)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the model has no end-of-text token to begin with; give a --prompt");
    if (prompt >= positions)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "a prompt of %zu token%s leaves no position for a new token, because the model has %" PRIu64
                            "; give a shorter prompt",
                            prompt, cli_s(prompt), positions);
    if (config->length > positions - prompt)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "a prompt of %zu token%s and --length %" PRIu64 " exceed the model's %" PRIu64
                            " positions; --length %" PRIu64 " fits",
                            prompt, cli_s(prompt), config->length, positions, positions - prompt);
    for (size_t i = 0; i < prompt; i++)
        if (tokens->items[i] >= (uint64_t)model->options.vocabulary)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "token %zu is %u but must be below the vocabulary's size, %lld", i, tokens->items[i],
                                (long long)model->options.vocabulary);
    return BG_OK;
}

/* Prints the prompt. The model's vocabulary may be larger than the tokenizer's; the additional tokens have no text. */
static void print_prompt(const generate_config *config, const bg_tokenizer *tokenizer, const bg_token_list *tokens)
{
    for (size_t i = 0; i < tokens->count && !config->only_new; i++) {
        size_t size_bytes = 0;
        const char *text = bg_tokenizer_token(tokenizer, tokens->items[i], &size_bytes);

        if (text != NULL && tokens->items[i] != bg_tokenizer_end_of_text(tokenizer))
            fwrite(text, 1, size_bytes, stdout);
    }
    fflush(stdout);
}

static bool print_token(void *user, const bg_generation_token *token)
{
    (void)user;
    fwrite(token->text, 1, token->text_bytes, stdout);
    fflush(stdout);
    return !ferror(stdout);
}

static bg_generation_options make_options(const generate_config *config, const bg_tokenizer *tokenizer, bool prints,
                                          const uint32_t *end)
{
    bg_generation_options options = bg_generation_defaults();

    options.max_tokens = config->length;
    options.sampling.repetition_penalty = config->repetition_penalty;
    options.sampling.presence_penalty = config->presence_penalty;
    options.sampling.frequency_penalty = config->frequency_penalty;
    options.sampling.temperature = config->temperature;
    options.sampling.top_k = (uint32_t)config->top_k;
    options.sampling.top_p = config->top_p;
    options.sampling.min_p = config->min_p;
    options.sampling.typical_p = config->typical_p;
    options.stop_tokens = end;
    options.stop_token_count = config->goes_on ? 0 : 1;
    options.tokenizer = tokenizer;
    options.stop_strings = config->stops.values;
    options.stop_string_count = config->stops.count;
    options.beams = (uint32_t)config->beams;
    options.length_penalty = config->length_penalty;
    options.on_token = prints ? print_token : NULL;
    return options;
}

static bg_status continue_prompts(const generate_config *config, const gpt_model *model, bg_generator *generator,
                                  const prompt_list *list, bg_error *error)
{
    const uint32_t end = bg_tokenizer_end_of_text(model->tokenizer);
    const bool is_one = list->count == 1;
    const bg_generation_options options = make_options(config, model->tokenizer, is_one, &end);
    bg_generation_prompt *prompts = calloc(list->count, sizeof *prompts);
    bg_generation *results = calloc(list->count, sizeof *results);
    bg_status status = BG_OK;

    if (prompts == NULL || results == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "results", list->count * sizeof *results));
    for (uint32_t i = 0; i < list->count; i++)
        prompts[i] = (bg_generation_prompt){
            .tokens = list->items[i].items, .count = list->items[i].count, .seed = config->seed + i};
    if (is_one)
        print_prompt(config, model->tokenizer, &list->items[0]);
    BGI_TRY_CLEANUP(bg_generator_run(generator, prompts, list->count, &options, results, error));
    for (uint32_t i = 0; i < list->count && !is_one; i++) {
        print_prompt(config, model->tokenizer, &list->items[i]);
        fwrite(results[i].text, 1, results[i].text_bytes, stdout);
        printf("\n%s", i + 1 < list->count ? "\n" : "");
    }
    if (is_one)
        putchar('\n');
cleanup:
    if (results != NULL)
        bg_generation_clear(results, list->count);
    free(results);
    free(prompts);
    return status;
}

/* Returns the number of sequences at a time: that of the command line, otherwise the number of beams, otherwise the
 * number of prompts, but at most 8. */
static uint32_t count_sequences(const generate_config *config, uint32_t prompts)
{
    if (config->sequences > 0)
        return (uint32_t)config->sequences;
    if (config->beams > 1)
        return (uint32_t)config->beams;
    return prompts < 8 ? prompts : 8;
}

/* Writes the profile of the added tokens, or that of the prompts if no token was added. */
static bg_status write_profile(const generate_config *config, const bg_generator *generator, bg_error *error)
{
    const bg_profile_notes notes = {.program = "brigade gpt generate", .model = config->directory, .samples = "tokens"};
    bg_session *session = bg_generator_session(generator, false);

    if (bg_session_trace_count(session, 0, 0) == 0)
        session = bg_generator_session(generator, true);
    return cli_profile_finish(&config->profile, NULL, session, &notes, true, error);
}

static bg_status generate(const generate_config *config, bg_error *error)
{
    bg_options options = bg_options_defaults();
    prompt_list prompts = {.count = 0};
    bg_generator *generator = NULL;
    gpt_model model;
    bg_status status;

    BGI_TRY(gpt_model_open(&model, config->directory, config->tokenizer, true, config->dtype, error));
    cli_profile_set(&config->profile, &options);
    options.execution.strategy = BG_STRATEGY_SINGLE; /* all cores work on each product */
    options.numerics.weights_type = gpt_model_weights_type(config->weights_type);
    BGI_TRY_CLEANUP(cli_profile_check_dir(&config->profile, error));
    BGI_TRY_CLEANUP(read_prompts(config, model.tokenizer, &prompts, error));
    for (uint32_t i = 0; i < prompts.count; i++)
        BGI_TRY_CLEANUP(check_prompt(config, &model, &prompts.items[i], error));
    BGI_TRY_CLEANUP(bg_generator_create_batch(&model.options, &options, model.weights,
                                              count_sequences(config, prompts.count), &generator, error));
    BGI_TRY_CLEANUP(continue_prompts(config, &model, generator, &prompts, error));
    BGI_TRY_CLEANUP(gpt_model_print_weights(&model, config->weights_type, stderr, error));
    status = write_profile(config, generator, error);
cleanup:
    bg_generator_destroy(generator);
    clear_prompts(&prompts);
    gpt_model_close(&model);
    return status;
}

static bg_status check_share(const char *name, double share, bg_error *error)
{
    if (share <= 0.0 || share > 1.0)
        return bg_error_set(error, BG_ERROR_INVALID, "--%s is %g; it must be above 0 and at most 1", name, share);
    return BG_OK;
}

static bg_status check_config(const generate_config *config, bg_error *error)
{
    if (config->directory == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "no model is given; --hf-model DIR names its folder");
    if (config->prompt != NULL && config->prompt_file != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--prompt and --prompt-file mean the same; give one of them");
    if (config->prompts_file != NULL && (config->prompt != NULL || config->prompt_file != NULL))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--prompts gives all prompts; leave --prompt and --prompt-file out");
    if (config->sequences > 0 && config->sequences < config->beams)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--beams %" PRIu64
                            " needs the same number of --sequences or more, but --sequences is %" PRIu64,
                            config->beams, config->sequences);
    BGI_TRY(check_share("top-p", config->top_p, error));
    BGI_TRY(check_share("typical-p", config->typical_p, error));
    if (config->min_p > 1.0)
        return bg_error_set(error, BG_ERROR_INVALID, "--min-p is %g; it must be from 0 to 1", config->min_p);
    if (config->repetition_penalty == 0.0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--repetition-penalty is 0; it must be above 0, and 1 means no penalty");
    return BG_OK;
}

static const cli_help_page page = {
    .usage = "Usage: brigade gpt generate --hf-model DIR [--prompt TEXT] [OPTION]...\n"
             "Continues a text with a GPT-2 of Hugging Face's format (docs/gpt.md).\n",
    .common = "hf-model tokenizer prompt prompt-file length temperature top-k top-p seed stop",
    .examples =
        "brigade gpt generate --hf-model small-gpt --tokenizer bytes --prompt \"Once upon a time\" --length 20\n"
        "brigade gpt generate --hf-model small-gpt --tokenizer bytes --prompt Once --length 20 --temperature 0\n",
};

int cli_gpt_generate(int argc, char **argv)
{
    generate_config config = {.dtype = "float32",
                              .weights_type = "float",
                              .length = 50,
                              .beams = 1,
                              .temperature = 1.0,
                              .top_p = 1.0,
                              .typical_p = 1.0,
                              .repetition_penalty = 1.0,
                              .length_penalty = 1.0};
    const generate_config defaults = config;
    uint32_t word_count;
    cli_help help;
    bg_error error = {0};
    bg_status status =
        cli_options_read(generate_options, argc, argv, &config, NULL, 0, &word_count, &help, NULL, &error);

    if (status == BG_OK && help != CLI_HELP_NONE) {
        cli_print_help(help, &page, generate_options, &defaults);
        return CLI_DONE;
    }
    if (status == BG_OK)
        status = check_config(&config, &error);
    if (status != BG_OK)
        return cli_fail("gpt", CLI_USAGE, &error);
    status = generate(&config, &error);
    if (status != BG_OK)
        return cli_fail("gpt", status == BG_ERROR_INVALID ? CLI_USAGE : CLI_FAILED, &error);
    return CLI_DONE;
}
