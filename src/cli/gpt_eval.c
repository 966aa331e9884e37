/*
 * gpt_eval.c: `brigade gpt eval` computes the mean loss of a model over texts or token files, and its exponential, the
 * perplexity. Every token except the first of a file (in TFRecord files, of a record) is predicted once, from the
 * tokens before it in its window:
 *
 *     tokens   0 1 2 3 4 5 6
 *     window   0 1 2           predicts 1 2 3        sequence length 3
 *                    3 4 5     predicts       4 5 6
 */
#include "cli/gpt_model.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/profile.h"
#include "core/arena.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/tfrecord.h"

typedef struct eval_config {
    const char *directory, *tokenizer, *dtype, *weights_type;
    cli_texts files;
    uint64_t sequence_length, batch;
    cli_profile profile;
} eval_config;

#define AT(field) .offset = offsetof(eval_config, field)

static const cli_option eval_options[] = {
    {CLI_TEXT, "hf-model", AT(directory), .value = "DIR",
     .help = "folder with config.json, model.safetensors and, for texts, a tokenizer"},
    {CLI_TEXT_LIST, "input-files", AT(files), .value = "FILE...", .default_text = "none",
     .help = "token files (.u16, .u32, .tfrecord), or texts that the tokenizer encodes"},
    {CLI_TEXT, "tokenizer", AT(tokenizer), .value = "DIR|bytes", .default_text = "the one of the model",
     .help = "folder with tokenizer.json, or with vocab.json and merges.txt; bytes: a token for each byte"},
    {CLI_COUNT, "sequence-length", AT(sequence_length), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .default_text = "the model's positions", .help = "number of tokens in a window"},
    {CLI_COUNT, "micro-batch", AT(batch), .value = "N", .minimum = 1, .maximum = 65536,
     .help = "number of windows that are evaluated at the same time"},
    {CLI_CHOICE, "dtype", AT(dtype), .choices = "float32|bfloat16|float16", .help = "type of the activations"},
    {CLI_CHOICE, "weights-type", AT(weights_type), .choices = GPT_WEIGHTS_TYPES, .help = GPT_WEIGHTS_HELP},
    CLI_PROFILE_OPTIONS(eval_config, profile),
    CLI_OPTIONS_END,
};

/* ---- tokens ---- */

static size_t find_token_bytes(const char *path)
{
    return bgi_text_ends_with(path, ".u16") ? 2 : bgi_text_ends_with(path, ".u32") ? 4 : 0;
}

static bool is_records(const char *path)
{
    return bgi_text_ends_with(path, ".tfrecord");
}

static bool has_text(const cli_texts *files)
{
    bool found = false;

    for (uint32_t i = 0; i < files->count; i++)
        found = found || (find_token_bytes(files->values[i]) == 0 && !is_records(files->values[i]));
    return found;
}

static bg_status read_tokens(const char *path, const unsigned char *data, size_t size_bytes, size_t token_bytes,
                             bg_token_list *tokens, bg_error *error)
{
    const size_t count = size_bytes / token_bytes;

    if (size_bytes % token_bytes != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu: the file ends within a token of %zu bytes", path,
                            size_bytes, token_bytes);
    if (!bgi_array_reserve((void **)&tokens->items, &tokens->capacity, count, sizeof *tokens->items))
        return bgi_error_memory(error, "tokens", count * sizeof *tokens->items);
    for (tokens->count = 0; tokens->count < count; data += token_bytes) {
        uint32_t token = 0;

        for (size_t i = 0; i < token_bytes; i++)
            token |= (uint32_t)data[i] << 8 * i;
        tokens->items[tokens->count++] = token;
    }
    return BG_OK;
}

/* Checks that a model can evaluate the tokens. Error messages begin with `where`. */
static bg_status check_tokens(const gpt_model *model, const char *where, const bg_token_list *tokens, bg_error *error)
{
    if (tokens->count < 2)
        return bg_error_set(
            error, BG_ERROR_PARSE,
            "%s: has %zu token%s but must have at least 2, because each prediction needs the tokens before it", where,
            tokens->count, cli_s(tokens->count));
    for (size_t i = 0; i < tokens->count; i++)
        if (tokens->items[i] >= (uint64_t)model->options.vocabulary)
            return bg_error_set(error, BG_ERROR_PARSE, "%s: token %zu is %" PRIu32 " but must be below %" PRId64, where,
                                i, tokens->items[i], model->options.vocabulary);
    return BG_OK;
}

static bg_status load_tokens(const gpt_model *model, const char *path, bg_token_list *tokens, bg_error *error)
{
    const size_t token_bytes = find_token_bytes(path);
    char *content = NULL;
    size_t size_bytes = 0;
    bg_status status;

    tokens->count = 0;
    BGI_TRY(bgi_file_load(path, SIZE_MAX / 4, &content, &size_bytes, error));
    status = token_bytes > 0 ? read_tokens(path, (const unsigned char *)content, size_bytes, token_bytes, tokens, error)
                             : bg_tokenizer_encode(model->tokenizer, content, size_bytes, true, tokens, error);
    free(content);
    return status == BG_OK ? check_tokens(model, path, tokens, error) : status;
}

/* ---- the run ---- */

typedef struct evaluator {
    bg_plan *plan;
    bg_session *session;
    int64_t length, batch;
    int32_t *tokens, *labels; /* tokens and labels of a micro-batch */
    const void *inputs[2];
    double loss; /* sum over all predictions */
    uint64_t predictions;
} evaluator;

static bg_status open_evaluator(evaluator *e, const gpt_model *model, const eval_config *config, bg_error *error)
{
    bg_options options = bg_options_defaults();
    const size_t count = (size_t)model->options.micro_batch * (size_t)model->options.sequence_length;
    bg_graph *graph = NULL;
    bg_status status;

    cli_profile_set(&config->profile, &options);
    BGI_TRY(cli_profile_check_dir(&config->profile, error));
    options.execution.strategy = BG_STRATEGY_SINGLE; /* all cores work on each product */
    options.numerics.weights_type = gpt_model_weights_type(config->weights_type);
    if (options.numerics.weights_type == BG_WEIGHTS_FLOAT)
        options.numerics.weights_type = BG_WEIGHTS_CAST; /* same results, without a cast in each micro-batch */
    e->length = model->options.sequence_length;
    e->batch = model->options.micro_batch;
    e->tokens = calloc(count, sizeof *e->tokens);
    e->labels = calloc(count, sizeof *e->labels);
    if (e->tokens == NULL || e->labels == NULL)
        return bgi_error_memory(error, "a micro-batch", count * sizeof *e->tokens);
    BGI_TRY(bg_graph_create(&graph, error));
    bg_gpt_build(graph, &model->options);
    status = bg_graph_check(graph, error);
    if (status == BG_OK)
        status = bg_plan_create_inference(graph, &options, &e->plan, error);
    bg_graph_destroy(graph);
    BGI_TRY(status);
    BGI_TRY(bg_session_create(e->plan, model->weights, &e->session, error));
    e->inputs[bg_session_find_input(e->session, "tokens")] = e->tokens;
    e->inputs[bg_session_find_input(e->session, "labels")] = e->labels;
    return BG_OK;
}

static void close_evaluator(evaluator *e)
{
    bg_session_destroy(e->session);
    bg_plan_destroy(e->plan);
    free(e->tokens);
    free(e->labels);
}

/* Runs one micro-batch, whose first prediction is that of token `at` + 1. Positions beyond the end do not count. */
static bg_status run_batch(evaluator *e, const bg_token_list *tokens, size_t at, int32_t ignored, bg_error *error)
{
    const size_t count = (size_t)(e->batch * e->length), left = tokens->count - 1 - at;
    const size_t predictions = left < count ? left : count;
    float loss = 0.0F;
    void *outputs[] = {&loss};

    for (size_t i = 0; i < count; i++) {
        e->tokens[i] = i < predictions ? (int32_t)tokens->items[at + i] : 0;
        e->labels[i] = i < predictions ? (int32_t)tokens->items[at + i + 1] : ignored;
    }
    BGI_TRY(bg_session_run(e->session, e->inputs, outputs, error));
    e->loss += (double)loss * (double)predictions;
    e->predictions += predictions;
    return BG_OK;
}

static bg_status run_tokens(evaluator *e, const gpt_model *model, const bg_token_list *tokens, bg_error *error)
{
    for (size_t at = 0; at + 1 < tokens->count; at += (size_t)(e->batch * e->length))
        BGI_TRY(run_batch(e, tokens, at, (int32_t)model->options.ignore_label, error));
    return BG_OK;
}

/* Evaluates each record of a TFRecord file separately, like a file. */
static bg_status run_records(evaluator *e, const gpt_model *model, const char *path, bg_token_list *tokens,
                             bg_error *error)
{
    const bg_tokens_options options = {.sequence_length = 1}; /* no effect: bgi_tfrecord_read reads whole records */
    bg_dataset *records = NULL;
    bg_status status = bg_dataset_open_tfrecord(path, &options, &records, error);

    for (uint64_t i = 0; status == BG_OK && i < bg_dataset_sample_count(records); i++) {
        bgi_string where = {0};

        bgi_string_add(&where, "%s: record %" PRIu64, path, i);
        status = bgi_tfrecord_read(records, i, tokens, error);
        if (status == BG_OK)
            status = check_tokens(model, where.failed ? path : where.data, tokens, error);
        if (status == BG_OK)
            status = run_tokens(e, model, tokens, error);
        bgi_string_clear(&where);
    }
    bg_dataset_destroy(records);
    return status;
}

static bg_status run_file(evaluator *e, const gpt_model *model, const char *path, bg_token_list *tokens,
                          bg_error *error)
{
    if (is_records(path))
        return run_records(e, model, path, tokens, error);
    BGI_TRY(load_tokens(model, path, tokens, error));
    return run_tokens(e, model, tokens, error);
}

static bg_status evaluate(const eval_config *config, bg_error *error)
{
    bg_token_list tokens = {.items = NULL};
    const bg_profile_notes notes = {.program = "brigade gpt eval", .model = config->directory, .samples = "windows"};
    evaluator e = {.plan = NULL};
    gpt_model model;
    bg_status status;

    BGI_TRY(
        gpt_model_open(&model, config->directory, config->tokenizer, has_text(&config->files), config->dtype, error));
    model.options.micro_batch = (int64_t)config->batch;
    model.options.outputs = BG_GPT_LOSS;
    if (config->sequence_length > 0)
        model.options.sequence_length = (int64_t)config->sequence_length;
    BGI_TRY_CLEANUP(open_evaluator(&e, &model, config, error));
    for (uint32_t i = 0; i < config->files.count; i++)
        BGI_TRY_CLEANUP(run_file(&e, &model, config->files.values[i], &tokens, error));
    e.loss /= (double)e.predictions;
    if (isnan(e.loss))
        BGI_TRY_CLEANUP(bg_error_set(error, BG_ERROR_PARSE,
                                     "the loss is not a number: the weights of %s are damaged, or diverged",
                                     config->directory));
    printf("Tokens: %" PRIu64 " Loss: %.6f Perplexity: %.4f\n", e.predictions, e.loss, exp(e.loss));
    BGI_TRY_CLEANUP(gpt_model_print_weights(&model, config->weights_type, stdout, error));
    status = cli_profile_finish(&config->profile, NULL, e.session, &notes, false, error);
cleanup:
    close_evaluator(&e);
    bg_token_list_clear(&tokens);
    gpt_model_close(&model);
    return status;
}

static const cli_help_page page = {
    .usage = "Usage: brigade gpt eval --hf-model DIR --input-files FILE... [OPTION]...\n"
             "Prints the mean loss and the perplexity of a GPT-2 of Hugging Face's format (docs/gpt.md).\n",
    .examples = "brigade gpt eval --hf-model small-gpt --input-files story.txt --tokenizer bytes\n",
};

int cli_gpt_eval(int argc, char **argv)
{
    eval_config config = {.dtype = "float32", .weights_type = "float", .batch = 4};
    const eval_config defaults = config;
    uint32_t word_count;
    cli_help help;
    bg_error error = {0};
    bg_status status = cli_options_read(eval_options, argc, argv, &config, NULL, 0, &word_count, &help, NULL, &error);

    if (status == BG_OK && help != CLI_HELP_NONE) {
        cli_print_help(help, &page, eval_options, &defaults);
        return CLI_DONE;
    }
    if (status == BG_OK && config.directory == NULL)
        status = bg_error_set(&error, BG_ERROR_INVALID, "no model is given; --hf-model DIR names its folder");
    if (status == BG_OK && config.files.count == 0)
        status = bg_error_set(&error, BG_ERROR_INVALID, "no texts are given; name the files: --input-files FILE...");
    if (status != BG_OK)
        return cli_fail("gpt", CLI_USAGE, &error);
    status = evaluate(&config, &error);
    if (status != BG_OK)
        return cli_fail("gpt", status == BG_ERROR_INVALID ? CLI_USAGE : CLI_FAILED, &error);
    return CLI_DONE;
}
