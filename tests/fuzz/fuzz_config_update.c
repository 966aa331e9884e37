/*
 * fuzz_config_update.c: update strings with arbitrary content.
 */
#include "fuzz/config.h"

static bg_status parse(const char *text, bg_ipu_config **out, bg_error *error)
{
    const bg_ipu_config_load_options updates = {.keep_unknown = true, .overrides = text};

    return bg_ipu_config_parse_json("{}", "fuzz", &updates, out, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return try_config(data, size, parse);
}
