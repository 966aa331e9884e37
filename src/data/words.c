/*
 * words.c: matches GPT-2's pattern for words without a library of regular expressions:
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * The first alternative that matches is used. White space before a word ends one character before it, so that a space
 * can begin the word. Bytes that are not UTF-8 are characters of no class.
 */
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <string.h>

static bgi_character_class class_at(const unsigned char *text, size_t size_bytes, size_t at, size_t *length)
{
    return bgi_character_class_of(bgi_utf8_read(text + at, size_bytes - at, length));
}

/* Returns the length of 's, 't, 're, 've, 'm, 'll or 'd at text[at]; 0 for other text. */
static size_t find_contraction(const unsigned char *text, size_t size_bytes, size_t at)
{
    const size_t left = size_bytes - at;

    if (text[at] != '\'' || left < 2)
        return 0;
    if (strchr("stmd", text[at + 1]) != NULL && text[at + 1] != '\0')
        return 2;
    if (left < 3)
        return 0;
    return memcmp(text + at + 1, "re", 2) == 0 || memcmp(text + at + 1, "ve", 2) == 0 ||
                   memcmp(text + at + 1, "ll", 2) == 0
               ? 3
               : 0;
}

static size_t find_space_end(const unsigned char *text, size_t size_bytes, size_t at)
{
    size_t end = at, last = 0, length;

    while (end < size_bytes && class_at(text, size_bytes, end, &length) == BGI_CHARACTER_SPACE) {
        last = end;
        end += length;
    }
    return end == size_bytes || last == at ? end : last;
}

size_t bgi_word_end(const unsigned char *text, size_t size_bytes, size_t at)
{
    size_t end = at + find_contraction(text, size_bytes, at), length;
    bgi_character_class class;

    if (end > at)
        return end;
    if (text[at] == ' ' && at + 1 < size_bytes)
        end++;
    class = class_at(text, size_bytes, end, &length);
    if (class == BGI_CHARACTER_SPACE)
        return find_space_end(text, size_bytes, at);
    do
        end += length;
    while (end < size_bytes && class_at(text, size_bytes, end, &length) == class);
    return end;
}
