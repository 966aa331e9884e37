/*
 * tokenizer.h: converts text to token numbers and back, with GPT-2's byte-pair encoding, or with one token for each
 * byte.
 *
 * Both tokenizers work on bytes, so any content can be encoded, whether it is UTF-8 or not, and decoding restores it
 * unchanged.
 *
 * Threads: a tokenizer does not change once it is made, so any number of threads may use it.
 *
 * Errors: BG_ERROR_INVALID for an invalid argument; BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_TOKENIZER_H
#define BRIGADE_TOKENIZER_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_tokenizer bg_tokenizer;

/*
 * Opens GPT-2's byte-pair encoding (Radford et al., Language Models are Unsupervised Multitask Learners, 2019) from a
 * folder with `tokenizer.json`, or with `vocab.json` and `merges.txt`. Text is cut into words by GPT-2's pattern. In
 * each word, the adjacent pairs whose merge is earliest in the list of merges are joined, from left to right, and this
 * repeats until no pair has a merge. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED (a
 * tokenizer of another kind), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_tokenizer_open(const char *directory, bg_tokenizer **out, bg_error *error);

/* Creates the tokenizer of bytes: token b is byte b, and token 256 is the end of a text. */
BG_API bg_status bg_tokenizer_create_bytes(bg_tokenizer **out, bg_error *error);

BG_API void bg_tokenizer_destroy(bg_tokenizer *tokenizer);

/* Returns the size of the vocabulary. All tokens are below this number. */
BG_API uint32_t bg_tokenizer_vocabulary(const bg_tokenizer *tokenizer);
/* Returns the token "<|endoftext|>", which separates documents; UINT32_MAX when the tokenizer has none. */
BG_API uint32_t bg_tokenizer_end_of_text(const bg_tokenizer *tokenizer);

/* A list of tokens. All-zero is empty. */
typedef struct bg_token_list {
    uint32_t *items;
    size_t count, capacity;
} bg_token_list;
BG_API void bg_token_list_clear(bg_token_list *list);

/* Appends the tokens of a text. With `reads_special`, the names of special tokens in the text ("<|endoftext|>") become
 * special tokens; otherwise they are encoded like other text. On failure `tokens` keeps the tokens that were added
 * before. */
BG_API bg_status bg_tokenizer_encode(const bg_tokenizer *tokenizer, const void *text, size_t size_bytes,
                                     bool reads_special, bg_token_list *tokens, bg_error *error);

/* Returns the bytes of a token, which may be a part of a character. NULL if the number is not that of a token. */
BG_API const char *bg_tokenizer_token(const bg_tokenizer *tokenizer, uint32_t token, size_t *out_size_bytes);
/* Writes the bytes of all tokens to *out_text, malloc'ed, with a zero byte at the end that *out_size_bytes does not
 * count. Errors: BG_ERROR_INVALID (the message has the first number that is not a token), BG_ERROR_MEMORY. */
BG_API bg_status bg_tokenizer_decode(const bg_tokenizer *tokenizer, const uint32_t *tokens, size_t count,
                                     char **out_text, size_t *out_size_bytes, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
