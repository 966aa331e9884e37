/*
 * unicode.h: declares the functions that read and write UTF-8, and the classes of characters by which GPT-2 cuts words.
 */
#ifndef BGI_DATA_UNICODE_H
#define BGI_DATA_UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef enum bgi_character_class {
    BGI_CHARACTER_OTHER = 0,
    BGI_CHARACTER_LETTER, /* \p{L} */
    BGI_CHARACTER_NUMBER, /* \p{N} */
    BGI_CHARACTER_SPACE   /* the property White_Space */
} bgi_character_class;

#define BGI_NO_CHARACTER UINT32_MAX

/* Reads the character at text[0], of which `size_bytes` (at least 1) are available; *length is its number of bytes.
 * Invalid UTF-8 gives BGI_NO_CHARACTER, one byte long. */
uint32_t bgi_utf8_read(const unsigned char *text, size_t size_bytes, size_t *length);
/* Writes a character below 0x110000; returns its length, at most 4. */
size_t bgi_utf8_write(uint32_t character, unsigned char *out);

/* Returns the class of a character; that of BGI_NO_CHARACTER is OTHER. */
bgi_character_class bgi_character_class_of(uint32_t character);

#endif
