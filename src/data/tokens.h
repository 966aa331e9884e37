/*
 * tokens.h: reads tokens in memory, for the file reader and the fuzz targets.
 */
#ifndef BGI_DATA_TOKENS_H
#define BGI_DATA_TOKENS_H

#include <brigade/readers.h>

/* Makes a data set of tokens in memory. The caller owns the content, which must outlive *out; options->token_bytes must
 * not be 0. */
bg_status bgi_tokens_parse(const char *name, const void *content, size_t size_bytes, const bg_tokens_options *options,
                           bg_dataset **out, bg_error *error);

/* Like bgi_tokens_parse, for malloc'ed content, of which the function takes ownership, even after an error. */
bg_status bgi_tokens_own(const char *name, void *content, size_t size_bytes, const bg_tokens_options *options,
                         bg_dataset **out, bg_error *error);

#endif
