/*
 * tokenizer.c: opens the tokenizer that an option names.
 */
#include "cli/tokenizer.h"

#include <string.h>

bg_status cli_tokenizer_open(const char *name, bg_tokenizer **out, bg_error *error)
{
    const bg_status status =
        strcmp(name, "bytes") == 0 ? bg_tokenizer_create_bytes(out, error) : bg_tokenizer_open(name, out, error);

    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--tokenizer");
}
