/*
 * fuzz_options.c: options of a run with arbitrary content, as lines or as JSON. A valid input can be checked, and is
 * printed as text that reads back to the same options. An invalid input gives an error and sets no option.
 */
#include <brigade/config.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *print(const bg_run_options *options)
{
    char *text = NULL;

    if (bg_run_options_print_json(options, &text, NULL) != BG_OK)
        abort();
    return text;
}

static bg_run_options *make(void)
{
    bg_run_options *options = NULL;

    if (bg_run_options_create(NULL, &options, NULL) != BG_OK)
        abort();
    return options;
}

static void read_again(const bg_run_options *options)
{
    bg_run_options *again = make();
    char *text = print(options), *text_again, *problems = NULL;

    if (bg_run_options_parse(again, text, "printed", NULL) != BG_OK ||
        bg_options_problems(bg_run_options_view(options), true, &problems, NULL) != BG_OK || problems == NULL)
        abort();
    text_again = print(again);
    if (strcmp(text, text_again) != 0)
        abort();
    free(text_again);
    free(problems);
    free(text);
    bg_run_options_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bg_run_options *options = make();
    const bg_options before = *bg_run_options_view(options);
    char *text = malloc(size + 1);
    bg_error error = {0};

    if (text == NULL)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (bg_run_options_parse(options, text, "fuzz", &error) == BG_OK)
        read_again(options);
    else if (error.message[0] == '\0' || memcmp(&before, bg_run_options_view(options), sizeof before) != 0)
        abort();
    bg_run_options_destroy(options);
    free(text);
    return 0;
}
