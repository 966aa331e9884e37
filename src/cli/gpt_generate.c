/*
 * gpt_generate.c: `brigade gpt generate`: a prompt goes on, token by token, each printed as it comes.
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
#include "core/error.h"
#include "core/file.h"

enum { PROMPT_LIMIT_BYTES = 1 << 26 };

typedef struct generate_config {
    const char *directory, *tokenizer, *dtype, *prompt, *prompt_file;
    uint64_t length, top_k, seed;
    double temperature, top_p;
    bool only_new, goes_on;
} generate_config;

#define AT(field) .offset = offsetof(generate_config, field)

static const cli_option generate_options[] = {
    {CLI_TEXT, "hf-model", AT(directory), .value = "DIR", .help = "config.json, model.safetensors and a tokenizer"},
    {CLI_TEXT, "tokenizer", AT(tokenizer), .value = "DIR|bytes", .default_text = "the model's folder's",
     .help = "tokenizer.json or vocab.json and merges.txt; or a token for each byte"},
    {CLI_TEXT, "prompt", AT(prompt), .value = "TEXT", .default_text = "the end of a text",
     .help = "what goes on; <|endoftext|> in it is what it says"},
    {CLI_TEXT, "prompt-file", AT(prompt_file), .value = "FILE", .help = "the prompt, from a file"},
    {CLI_COUNT, "length", AT(length), .value = "N", .minimum = 1, .maximum = INT32_MAX, .help = "tokens to add"},
    {CLI_FLAG, "go-on", AT(goes_on), .help = "do not stop at an end of text"},
    {CLI_FLAG, "only-new", AT(only_new), .help = "print what is added, without the prompt"},
    {CLI_CHOICE, "dtype", AT(dtype), .choices = "float32|bfloat16|float16", .help = "of activations"},
    {.kind = CLI_HEADING, .help = "How a token is drawn"},
    {CLI_REAL, "temperature", AT(temperature), .value = "T", .help = "divides the logits; 0: the likeliest token"},
    {CLI_COUNT, "top-k", AT(top_k), .value = "N", .maximum = INT32_MAX, .default_text = "all",
     .help = "of the N likeliest tokens only"},
    {CLI_REAL, "top-p", AT(top_p), .value = "P", .help = "of the fewest tokens whose shares sum to P"},
    {CLI_COUNT, "seed", AT(seed), .value = "N", .maximum = UINT64_MAX, .help = "of the draws"},
    CLI_OPTIONS_END,
};

/* The prompt's tokens; of none, the end of a text, after which a text begins. */
static bg_status encode_prompt(const generate_config *config, const bg_tokenizer *tokenizer, bg_token_list *tokens,
                               bg_error *error)
{
    static const char end[] = "<|endoftext|>";
    const char *text = config->prompt != NULL ? config->prompt : end;
    size_t size_bytes = strlen(text);
    char *loaded = NULL;
    bg_status status;

    if (config->prompt_file != NULL) {
        BGI_TRY(bgi_file_load(config->prompt_file, PROMPT_LIMIT_BYTES, &loaded, &size_bytes, error));
        text = loaded;
    }
    status = bg_tokenizer_encode(tokenizer, text, size_bytes, true, tokens, error);
    if (status == BG_OK && tokens->count == 0)
        status = bg_tokenizer_encode(tokenizer, end, sizeof end - 1, true, tokens, error);
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
        return bg_error_set(error, BG_ERROR_INVALID, "the model has no end of text to begin after; give it a --prompt");
    if (prompt >= positions)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "a prompt of %zu token%s leaves no room among the model's %" PRIu64
                            " positions; give a shorter one",
                            prompt, cli_s(prompt), positions);
    if (config->length > positions - prompt)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "a prompt of %zu token%s and --length %" PRIu64 " are more than the model's %" PRIu64
                            " positions; --length %" PRIu64 " fits",
                            prompt, cli_s(prompt), config->length, positions, positions - prompt);
    return BG_OK;
}

/* A vocabulary may be larger than its tokenizer: the tokens above have no text. */
static void print_token(const bg_tokenizer *tokenizer, uint32_t token)
{
    size_t size_bytes = 0;
    const char *text = bg_tokenizer_token(tokenizer, token, &size_bytes);

    if (text != NULL)
        fwrite(text, 1, size_bytes, stdout);
}

static void print_prompt(const generate_config *config, const bg_tokenizer *tokenizer, const bg_token_list *tokens)
{
    for (size_t i = 0; i < tokens->count && !config->only_new; i++)
        if (tokens->items[i] != bg_tokenizer_end_of_text(tokenizer))
            print_token(tokenizer, tokens->items[i]);
    fflush(stdout);
}

static bg_status continue_prompt(const generate_config *config, const gpt_model *model, bg_generator *generator,
                                 bg_error *error)
{
    const bg_sampling sampling = {.struct_bytes = sizeof sampling,
                                  .temperature = config->temperature,
                                  .top_k = (uint32_t)config->top_k,
                                  .top_p = config->top_p,
                                  .seed = config->seed};

    for (uint64_t i = 0; i < config->length && !ferror(stdout); i++) {
        uint32_t token;

        BGI_TRY(bg_generator_sample(generator, &sampling, &token, error));
        if (token == bg_tokenizer_end_of_text(model->tokenizer) && !config->goes_on)
            break;
        print_token(model->tokenizer, token);
        fflush(stdout);
        if (i + 1 < config->length)
            BGI_TRY(bg_generator_feed(generator, &token, 1, error));
    }
    putchar('\n');
    return BG_OK;
}

static bg_status generate(const generate_config *config, bg_error *error)
{
    bg_token_list tokens = {.items = NULL};
    bg_generator *generator = NULL;
    gpt_model model;
    bg_status status;

    BGI_TRY(gpt_model_open(&model, config->directory, config->tokenizer, true, config->dtype, error));
    BGI_TRY_CLEANUP(encode_prompt(config, model.tokenizer, &tokens, error));
    BGI_TRY_CLEANUP(check_prompt(config, &model, &tokens, error));
    BGI_TRY_CLEANUP(bg_generator_create(&model.options, NULL, model.weights, &generator, error));
    print_prompt(config, model.tokenizer, &tokens);
    BGI_TRY_CLEANUP(bg_generator_feed(generator, tokens.items, tokens.count, error));
    status = continue_prompt(config, &model, generator, error);
cleanup:
    bg_generator_destroy(generator);
    bg_token_list_clear(&tokens);
    gpt_model_close(&model);
    return status;
}

static bg_status check_config(const generate_config *config, bg_error *error)
{
    if (config->directory == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "no model; --hf-model DIR names its folder");
    if (config->prompt != NULL && config->prompt_file != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--prompt and --prompt-file say the same thing; give one");
    if (config->top_p <= 0.0 || config->top_p > 1.0)
        return bg_error_set(error, BG_ERROR_INVALID, "--top-p is %g; it must be above 0 and at most 1", config->top_p);
    return BG_OK;
}

int cli_gpt_generate(int argc, char **argv)
{
    generate_config config = {.dtype = "float32", .length = 50, .temperature = 1.0, .top_p = 1.0};
    const generate_config defaults = config;
    uint32_t word_count;
    bool wants_help;
    bg_error error = {0};
    bg_status status =
        cli_options_read(generate_options, argc, argv, &config, NULL, 0, &word_count, &wants_help, NULL, &error);

    if (status == BG_OK && wants_help) {
        printf("Usage: brigade gpt generate --hf-model DIR [--prompt TEXT] [OPTION]...\n"
               "Continues a text with a GPT-2 of Hugging Face's format (docs/gpt.md).\n\n");
        cli_options_help(generate_options, &defaults, stdout);
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
