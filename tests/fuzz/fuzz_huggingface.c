/*
 * fuzz_huggingface.c: config.json of a GPT-2 folder with arbitrary content. For a valid input every tensor has a name
 * and a shape.
 */
#include "models/huggingface.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bgi_hf_problems problems = {.count = 0};
    char name[BGI_HF_NAME_BYTES];
    bgi_hf_config config;
    bg_error error = {0};
    bg_type type;

    if (bgi_hf_config_parse("input", (const char *)data, size, &config, &problems, &error) != BG_OK) {
        if (error.message[0] == '\0')
            abort();
        bgi_string_clear(&problems.text);
        return 0;
    }
    for (int64_t i = 0; i < 64 && bgi_hf_tensor(&config, i, name, &type); i++)
        if (strlen(name) == 0 || type.rank < 1 || type.dims[0] < 1)
            abort();
    if ((problems.count == 0) != (bgi_hf_problems_report(&problems, BG_ERROR_SHAPE, "input", &error) == BG_OK))
        abort();
    bgi_string_clear(&problems.text);
    return 0;
}
