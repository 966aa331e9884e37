/*
 * tokeniser.h: the tokenizer that an option names.
 */
#ifndef BGI_CLI_TOKENISER_H
#define BGI_CLI_TOKENISER_H

#include <brigade/tokenizer.h>

/* "bytes", or a folder. */
bg_status cli_tokeniser_open(const char *name, bg_tokenizer **out, bg_error *error);

#endif
