/*
 * gpt_model.h: declares the subcommands of `brigade gpt` that use a model from a Hugging Face folder, with its weights
 * and tokenizer.
 */
#ifndef BGI_CLI_GPT_MODEL_H
#define BGI_CLI_GPT_MODEL_H

#include <stdio.h>

#include <brigade/gpt.h>
#include <brigade/options.h>
#include <brigade/session.h>
#include <brigade/tokenizer.h>

int cli_gpt_generate(int argc, char **argv); /* argv[0] is "generate" */
int cli_gpt_eval(int argc, char **argv);     /* argv[0] is "eval" */

/* A zeroed struct is a closed model. */
typedef struct gpt_model {
    bg_gpt_options options; /* dropout is not used */
    bg_weights *weights;
    bg_tokenizer *tokenizer;
} gpt_model;

/* Opens the model in `directory`. If `tokenizer` is NULL, the folder's tokenizer is used or, if it has none, bytes for
 * a model of 128 to 257 tokens. If `tokenizer` is NULL and `has_text` is false, model->tokenizer stays NULL. `dtype` is
 * the type of activations. */
bg_status gpt_model_open(gpt_model *model, const char *directory, const char *tokenizer, bool has_text,
                         const char *dtype, bg_error *error);

/* The choices and the help of --weights-type, and the function that converts its value to an option. */
#define GPT_WEIGHTS_TYPES "float|bfloat16|int8|int4"
#define GPT_WEIGHTS_HELP  "of matrices: as the model has them, or rounded to bfloat16, or to 8 or 4 bits"
bg_weights_type gpt_model_weights_type(const char *name);
/* Prints a line about the matrices that sessions have rounded, if any. With --weights-type float nothing is printed,
 * because the user did not ask for rounding. */
bg_status gpt_model_print_weights(const gpt_model *model, const char *weights_type, FILE *to, bg_error *error);
void gpt_model_close(gpt_model *model);

#endif
