/*
 * fuzz_config_json.c: JSON configurations with arbitrary content.
 */
#include "fuzz/config.h"

static bg_status parse(const char *text, bg_ipu_config **out, bg_error *error)
{
    return bg_ipu_config_parse_json(text, "fuzz", &lenient, out, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return try_config(data, size, parse);
}
