/*
 * fuzz_tokenizer.c: tokenizer files with arbitrary content. The first byte chooses tokenizer.json, or vocab.json and
 * merges.txt with a zero byte between them. A valid tokenizer decodes what it encoded. Random files rarely have tokens
 * for all bytes, so the target replaces "+" with these tokens.
 */
#include "data/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const bg_tokenizer *tokenizer, const uint8_t *data, size_t size)
{
    for (int reads_special = 0; reads_special < 2; reads_special++) {
        bg_token_list tokens = {.items = NULL};
        size_t size_bytes;
        char *text;

        if (bg_tokenizer_encode(tokenizer, data, size, reads_special, &tokens, NULL) != BG_OK ||
            bg_tokenizer_decode(tokenizer, tokens.items, tokens.count, &text, &size_bytes, NULL) != BG_OK)
            abort();
        if (size_bytes != size || (size > 0 && memcmp(text, data, size) != 0))
            abort();
        free(text);
        bg_token_list_clear(&tokens);
    }
}

/* Returns `text` with "+" replaced by the vocabulary of all bytes; malloc'ed. */
static char *expand(const uint8_t *text, size_t size, size_t *out_size)
{
    const uint8_t *plus = size > 0 ? memchr(text, '+', size) : NULL;
    char *out = malloc(size + (1 << 13)), *at = out;
    unsigned beyond = 256;

    if (out == NULL)
        abort();
    for (const uint8_t *p = text; p < text + size; p++) {
        if (p != plus) {
            *at++ = (char)*p;
            continue;
        }
        for (unsigned byte = 0; byte < 256; byte++) {
            const int prints = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
            static const char digits[] = "0123456789abcdef";
            const unsigned character = prints ? byte : beyond++;

            memcpy(at, byte > 0 ? ",\"\\u" : " \"\\u", 4);
            for (int i = 0; i < 4; i++)
                at[4 + i] = digits[character >> (12 - 4 * i) & 15];
            memcpy(at + 8, "\":", 2);
            at += 10;
            if (byte >= 100)
                *at++ = (char)('0' + byte / 100);
            if (byte >= 10)
                *at++ = (char)('0' + byte / 10 % 10);
            *at++ = (char)('0' + byte % 10);
        }
    }
    *out_size = (size_t)(at - out);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bg_tokenizer *tokenizer = NULL;
    bg_error error = {0};
    const uint8_t *merges = size > 1 ? memchr(data + 1, 0, size - 1) : NULL;
    size_t vocab_bytes;
    char *vocab;
    bg_status status;

    if (size == 0)
        return 0;
    vocab = expand(data + 1, (size_t)((merges != NULL ? merges : data + size) - data) - 1, &vocab_bytes);
    if (data[0] == 'j')
        status = bgi_tokenizer_parse_json("input", vocab, vocab_bytes, &tokenizer, &error);
    else
        status = bgi_tokenizer_parse_files("vocab", vocab, vocab_bytes, "merges",
                                           merges != NULL ? (const char *)merges + 1 : "",
                                           merges != NULL ? (size_t)(data + size - merges) - 1 : 0, &tokenizer, &error);
    if (status == BG_OK)
        check_round_trip(tokenizer, data, size);
    else if (error.message[0] == '\0' || strchr(error.message, '\n') != NULL)
        abort();
    bg_tokenizer_destroy(tokenizer);
    free(vocab);
    return 0;
}
