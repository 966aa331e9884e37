/*
 * config.h: code that the fuzz targets of configurations share. A valid input is written as JSON and as YAML, which
 * read back as an equal configuration; an invalid input gives an error.
 */
#ifndef TEST_FUZZ_CONFIG_H
#define TEST_FUZZ_CONFIG_H

#include <brigade/config.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const bg_ipu_config_load_options lenient = {.keep_unknown = true};

static void read_again(const bg_ipu_config *config)
{
    bg_ipu_config *json = NULL, *yaml = NULL;
    char *json_text = NULL, *yaml_text = NULL;

    if (bg_ipu_config_print_json(config, &json_text, NULL) != BG_OK ||
        bg_ipu_config_parse_json(json_text, "printed", &lenient, &json, NULL) != BG_OK ||
        !bg_ipu_config_equal(config, json) || bg_ipu_config_print_yaml(config, &yaml_text, NULL) != BG_OK ||
        bg_ipu_config_parse_yaml(yaml_text, "printed", &lenient, &yaml, NULL) != BG_OK ||
        !bg_ipu_config_equal(config, yaml))
        abort();
    bg_ipu_config_destroy(yaml);
    bg_ipu_config_destroy(json);
    free(yaml_text);
    free(json_text);
}

/* Tests one input, which `parse` reads as a string. */
static int try_config(const uint8_t *data, size_t size,
                      bg_status (*parse)(const char *text, bg_ipu_config **out, bg_error *error))
{
    char *text = malloc(size + 1);
    bg_ipu_config *config = NULL;
    bg_error error = {0};

    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';

    if (parse(text, &config, &error) == BG_OK)
        read_again(config);
    else if (error.message[0] == '\0')
        abort();
    bg_ipu_config_destroy(config);
    free(text);
    return 0;
}

#endif
