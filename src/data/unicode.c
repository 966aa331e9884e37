/*
 * unicode.c: decodes strict UTF-8 (RFC 3629: no overlong forms, no surrogates), and finds the classes of characters;
 * those beyond ASCII are in a sorted list of ranges.
 */
#include "data/unicode.h"

typedef struct range {
    uint32_t first, last;
    bgi_character_class class;
} range;

static const range ranges[] = {
#define BGI_UNICODE(first, last, class) {first, last, BGI_CHARACTER_##class},
#include "data/unicode_classes.def"
#undef BGI_UNICODE
};

uint32_t bgi_utf8_read(const unsigned char *text, size_t size_bytes, size_t *length)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned first = text[0];
    const size_t wanted = first < 0x80   ? 1
                          : first < 0xc0 ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf8 ? 4
                                         : 0;
    uint32_t character = first;

    *length = 1;
    if (wanted == 1)
        return character;
    if (wanted == 0 || wanted > size_bytes)
        return BGI_NO_CHARACTER;
    character = first & (0x7fU >> wanted);
    for (size_t i = 1; i < wanted; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return BGI_NO_CHARACTER;
        character = character << 6 | (text[i] & 0x3f);
    }
    if (character < smallest[wanted] || character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
        return BGI_NO_CHARACTER;
    *length = wanted;
    return character;
}

size_t bgi_utf8_write(uint32_t character, unsigned char *out)
{
    const size_t length = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;

    if (length == 1) {
        out[0] = (unsigned char)character;
        return 1;
    }
    for (size_t i = length; i-- > 1; character >>= 6)
        out[i] = (unsigned char)(0x80 | (character & 0x3f));
    out[0] = (unsigned char)(0xf00U >> length | character);
    return length;
}

static bgi_character_class find_class(uint32_t character)
{
    size_t low = 0, high = sizeof ranges / sizeof ranges[0];

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (character > ranges[middle].last)
            low = middle + 1;
        else if (character < ranges[middle].first)
            high = middle;
        else
            return ranges[middle].class;
    }
    return BGI_CHARACTER_OTHER;
}

bgi_character_class bgi_character_class_of(uint32_t character)
{
    if (character >= 0x80)
        return find_class(character);
    if ((character | 0x20) >= 'a' && (character | 0x20) <= 'z')
        return BGI_CHARACTER_LETTER;
    if (character >= '0' && character <= '9')
        return BGI_CHARACTER_NUMBER;
    return character == ' ' || (character >= '\t' && character <= '\r') ? BGI_CHARACTER_SPACE : BGI_CHARACTER_OTHER;
}
