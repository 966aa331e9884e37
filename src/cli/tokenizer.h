/*
 * tokenizer.h: declares the function that opens the tokenizer that an option names.
 */
#ifndef BGI_CLI_TOKENIZER_H
#define BGI_CLI_TOKENIZER_H

#include <brigade/tokenizer.h>

/* Opens a tokenizer; `name` is "bytes" or a folder. */
bg_status cli_tokenizer_open(const char *name, bg_tokenizer **out, bg_error *error);

#endif
