/*
 * fuzz_gpt_config.c: GPT configurations with arbitrary content. A valid input is printed as text that reads back to the
 * same configuration.
 */
#include "config/gpt_config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_again(const bgi_gpt_config *config)
{
    bgi_gpt_config again;
    char *text = NULL, *text_again = NULL;

    if (bgi_gpt_config_init(&again, NULL) != BG_OK || bgi_gpt_config_print(config, &text, NULL) != BG_OK ||
        bgi_gpt_config_parse_yaml(&again, text, "printed", NULL) != BG_OK ||
        bgi_gpt_config_print(&again, &text_again, NULL) != BG_OK || strcmp(text, text_again) != 0)
        abort();
    bgi_gpt_config_clear(&again);
    free(text);
    free(text_again);
}

/* The first line of the input is a single value, and the rest is a file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *file;
    bgi_gpt_config config;
    bg_error error = {0};

    if (text == NULL || bgi_gpt_config_init(&config, NULL) != BG_OK)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    file = strchr(text, '\n');
    if (file != NULL)
        *file++ = '\0';
    if (bgi_gpt_config_set(&config, text, &error) != BG_OK && error.message[0] == '\0')
        abort();
    bg_error_clear(&error);
    if (file != NULL && bgi_gpt_config_parse_yaml(&config, file, "fuzz", &error) != BG_OK && error.message[0] == '\0')
        abort();
    bg_error_clear(&error);
    if (bgi_gpt_config_check(&config, &error) == BG_OK) {
        if (!(bgi_gpt_config_learning_rate(&config, (uint64_t)config.steps / 3) >= 0.0) ||
            bgi_gpt_config_accumulation(&config) == 0)
            abort();
    } else if (error.message[0] == '\0') {
        abort();
    }
    read_again(&config);
    bgi_gpt_config_clear(&config);
    free(text);
    return 0;
}
