/*
 * generate.c: continues several prompts at the same time with a GPT-2 model from a folder: one that `brigade gpt
 * pretrain --save-hf` wrote, or one in Hugging Face's format. A callback prints the first text while it is drawn. With
 * a second argument, the matrices of products are rounded when they are loaded.
 *     cc generate.c $(pkg-config --cflags --libs brigade) -o generate && ./generate DIR [int8|int4|bfloat16]
 */
#include <brigade.h>
#include <brigade/generate.h>
#include <brigade/huggingface.h>
#include <stdio.h>
#include <string.h>

enum { PROMPTS = 3, LENGTH = 40 };

/* Prints the tokens of the first prompt when they are drawn; tokens of several prompts are interleaved. */
static bool print_token(void *user, const bg_generation_token *token)
{
    (void)user;
    if (token->prompt == 0)
        fwrite(token->text, 1, token->text_bytes, stdout);
    if (token->prompt == 0 && token->is_last)
        printf("\n");
    return true; /* false would end this text */
}

static bg_status generate(const char *folder, const char *weights_type, bg_error *error)
{
    const char *const texts[PROMPTS] = {"ROMEO:", "Once ", "The"}, *const stops[] = {"\n\n"};
    bg_gpt_options model = bg_gpt_defaults();
    bg_options options = bg_options_defaults();
    bg_generation_options how = bg_generation_defaults();
    bg_token_list tokens[PROMPTS] = {{0}};
    bg_generation_prompt prompts[PROMPTS];
    bg_generation results[PROMPTS] = {{0}};
    bg_tokenizer *tokenizer = NULL;
    bg_weights *weights = NULL;
    bg_generator *generator = NULL;
    bg_status status = bg_gpt_directory_read_options(folder, &model, error);

    /* Each byte is a token of models that were trained on bytes; their folders have no tokenizer. */
    if (status == BG_OK)
        status = model.vocabulary <= 257 ? bg_tokenizer_create_bytes(&tokenizer, error)
                                         : bg_tokenizer_open(folder, &tokenizer, error);
    if (status == BG_OK)
        status = bg_weights_create(&weights, error);
    if (status == BG_OK)
        status = bg_gpt_directory_load(folder, &model, weights, error);
    options.execution.strategy = BG_STRATEGY_SINGLE; /* one device: all cores work on each product */
    if (status == BG_OK && weights_type != NULL)
        status = bg_options_set(&options, "weights_type", weights_type, error);
    if (status == BG_OK)
        status = bg_generator_create_batch(&model, &options, weights, PROMPTS, &generator, error);
    for (int i = 0; i < PROMPTS && status == BG_OK; i++) {
        status = bg_tokenizer_encode(tokenizer, texts[i], strlen(texts[i]), false, &tokens[i], error);
        prompts[i] = (bg_generation_prompt){.tokens = tokens[i].items, .count = tokens[i].count, .seed = 7 + i};
    }
    how.max_tokens = LENGTH;
    how.sampling.temperature = 0.8;
    how.sampling.top_k = 20;
    how.tokenizer = tokenizer;
    how.stop_strings = stops;
    how.stop_string_count = 1;
    how.on_token = print_token;
    if (status == BG_OK)
        status = bg_generator_run(generator, prompts, PROMPTS, &how, results, error);
    for (int i = 0; i < PROMPTS && status == BG_OK; i++)
        printf("[%s, %zu tokens] %s%s\n", results[i].end == BG_GENERATION_STOP_STRING ? "stopped" : "full length",
               results[i].count, texts[i], results[i].text);

    bg_generation_clear(results, PROMPTS);
    for (int i = 0; i < PROMPTS; i++)
        bg_token_list_clear(&tokens[i]);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
    bg_tokenizer_destroy(tokenizer);
    return status;
}

int main(int argc, char **argv)
{
    bg_error error = {0};

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: generate DIR [int8|int4|bfloat16]\n");
        return 2;
    }
    if (generate(argv[1], argc > 2 ? argv[2] : NULL, &error) != BG_OK) {
        fprintf(stderr, "generate: %s\n", error.message);
        return 1;
    }
    return 0;
}
