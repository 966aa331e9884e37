/*
 * tokenizer.h: makes tokenizers, reads them from files in memory, and encodes a long text in steps.
 */
#ifndef BGI_DATA_TOKENIZER_H
#define BGI_DATA_TOKENIZER_H

#include <brigade/tokenizer.h>

#include "core/arena.h"

#define BGI_NO_TOKEN         UINT32_MAX
#define BGI_END_OF_TEXT      "<|endoftext|>"
#define BGI_TOKENIZER_JSON   "tokenizer.json"
#define BGI_TOKENIZER_VOCAB  "vocab.json"
#define BGI_TOKENIZER_MERGES "merges.txt"

/* The adjacent tokens `left` and `right` become `merged`; lower ranks come first. */
typedef struct bgi_merge {
    uint32_t left, right; /* if left is BGI_NO_TOKEN, the entry of the table is empty */
    uint32_t merged, rank;
} bgi_merge;

typedef struct bgi_piece {
    const char *data; /* NULL if it is not known yet, while the tokenizer is made */
    uint32_t size_bytes;
} bgi_piece;

struct bg_tokenizer {
    bgi_arena arena;
    bgi_piece *pieces; /* by token */
    uint32_t count;
    uint32_t byte_tokens[256];
    bgi_merge *merges; /* a hash table: its size is a power of two, and at most half of it is used */
    uint32_t merge_places, merge_count;
    uint32_t *special; /* tokens that are matched as text, the longest first */
    uint32_t special_count;
    uint32_t end_of_text;
};

/* Makes a tokenizer of `count` unknown tokens, with memory for `merge_count` merges. */
bg_status bgi_tokenizer_allocate(uint32_t count, uint32_t merge_count, bg_tokenizer **out, bg_error *error);
/* Adds a merge; a pair that already has one keeps its rank. */
void bgi_tokenizer_add_merge(bg_tokenizer *tokenizer, uint32_t left, uint32_t right, uint32_t merged);

/* These functions read files in memory. Messages begin with the name of the file. */
bg_status bgi_tokenizer_parse_json(const char *name, const char *text, size_t size_bytes, bg_tokenizer **out,
                                   bg_error *error);
bg_status bgi_tokenizer_parse_files(const char *vocab_name, const char *vocab, size_t vocab_bytes,
                                    const char *merges_name, const char *merges, size_t merges_bytes,
                                    bg_tokenizer **out, bg_error *error);

/* Finds the end of the word, by GPT-2's pattern, that begins at text[at]. Needs at < size_bytes. */
size_t bgi_word_end(const unsigned char *text, size_t size_bytes, size_t at);

/* A text that is encoded in steps: begin, then advance until at == size_bytes; end frees. */
typedef struct bgi_encoding {
    const bg_tokenizer *tokenizer;
    const unsigned char *text;
    size_t size_bytes, at;
    bool reads_special;
    size_t special_at; /* the beginning of the next special token; size_bytes: none */
    uint32_t special;
    struct bgi_word *word; /* scratch */
} bgi_encoding;
bg_status bgi_encoding_begin(bgi_encoding *encoding, const bg_tokenizer *tokenizer, const void *text, size_t size_bytes,
                             bool reads_special, bg_error *error);
/* Encodes at least `limit_bytes` more bytes, up to the end of a word, or the rest of the text if it is shorter. */
bg_status bgi_encoding_advance(bgi_encoding *encoding, size_t limit_bytes, bg_token_list *tokens, bg_error *error);
void bgi_encoding_end(bgi_encoding *encoding);

#endif
