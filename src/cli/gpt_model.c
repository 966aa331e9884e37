/*
 * gpt_model.c: loads a model and its tokenizer from a folder.
 */
#include "cli/gpt_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/huggingface.h>

#include "cli/tokenizer.h"
#include "core/error.h"

/* The vocabulary of a model whose tokens are bytes: at least the ASCII characters, at most all bytes and the
 * end-of-text token. */
enum { FEWEST_BYTES = 128, BYTE_VOCABULARY = 257 };

static bool takes_bytes(const gpt_model *model)
{
    return model->options.vocabulary >= FEWEST_BYTES && model->options.vocabulary <= BYTE_VOCABULARY;
}

static bg_status open_own_tokenizer(gpt_model *model, const char *directory, bg_error *error)
{
    bg_error cause = {0};
    const bg_status status = bg_tokenizer_open(directory, &model->tokenizer, &cause);

    if (status == BG_ERROR_NOT_FOUND && takes_bytes(model))
        return bg_tokenizer_create_bytes(&model->tokenizer, error);
    if (status == BG_ERROR_NOT_FOUND)
        return bg_error_set(error, status, "%s; --tokenizer DIR names another folder with a tokenizer", cause.message);
    return status == BG_OK ? BG_OK : bg_error_set(error, status, "%s", cause.message);
}

static bg_status open_tokenizer(gpt_model *model, const char *directory, const char *tokenizer, bg_error *error)
{
    if (tokenizer != NULL)
        BGI_TRY(cli_tokenizer_open(tokenizer, &model->tokenizer, error));
    else
        BGI_TRY(open_own_tokenizer(model, directory, error));
    /* A model may have tokens for only the first bytes, such as ASCII; a text with other bytes is refused when it is
     * read. */
    if (bg_tokenizer_vocabulary(model->tokenizer) > (uint64_t)model->options.vocabulary &&
        !(bg_tokenizer_vocabulary(model->tokenizer) == BYTE_VOCABULARY && takes_bytes(model)))
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the tokenizer has %" PRIu32 " tokens, but the model of %s has a vocabulary of %" PRId64
                            "; name the model's own tokenizer with --tokenizer",
                            bg_tokenizer_vocabulary(model->tokenizer), directory, model->options.vocabulary);
    return BG_OK;
}

static bg_status open_parts(gpt_model *model, const char *directory, const char *tokenizer, bool has_text,
                            bg_error *error)
{
    BGI_TRY(bg_gpt_directory_read_options(directory, &model->options, error));
    if (has_text || tokenizer != NULL)
        BGI_TRY(open_tokenizer(model, directory, tokenizer, error));
    BGI_TRY(bg_weights_create(&model->weights, error));
    return bg_gpt_directory_load(directory, &model->options, model->weights, error);
}

bg_status gpt_model_open(gpt_model *model, const char *directory, const char *tokenizer, bool has_text,
                         const char *dtype, bg_error *error)
{
    bg_status status;

    *model = (gpt_model){.options = bg_gpt_defaults()};
    status = open_parts(model, directory, tokenizer, has_text, error);
    model->options.dtype = bg_dtype_find(dtype);
    model->options.dropout = 0.0;
    if (status != BG_OK)
        gpt_model_close(model);
    return status;
}

bg_weights_type gpt_model_weights_type(const char *name)
{
    int type = BG_WEIGHTS_FLOAT;

    bg_option_value_find("weights_type", name, &type); /* the table of flags has refused other names */
    return (bg_weights_type)type;
}

bg_status gpt_model_print_weights(const gpt_model *model, const char *weights_type, FILE *to, bg_error *error)
{
    bg_quantized quantized;

    if (gpt_model_weights_type(weights_type) == BG_WEIGHTS_FLOAT)
        return BG_OK;
    BGI_TRY(bg_weights_quantized(model->weights, &quantized, error));
    fflush(stdout); /* standard output may be the same stream, and its text must come first */
    if (quantized.count > 0)
        fprintf(to,
                "Weights: %" PRIu32 " matrices rounded to %.2f bits a weight, %.1f MB instead of %.1f; largest error "
                "%.3g, bound %.3g (half of the largest step)\n",
                quantized.count, 32.0 * (double)quantized.bytes / (double)quantized.float_bytes,
                (double)quantized.bytes / 1e6, (double)quantized.float_bytes / 1e6, quantized.largest_error,
                quantized.largest_bound);
    return BG_OK;
}

void gpt_model_close(gpt_model *model)
{
    bg_tokenizer_destroy(model->tokenizer);
    bg_weights_destroy(model->weights);
    *model = (gpt_model){.weights = NULL};
}
