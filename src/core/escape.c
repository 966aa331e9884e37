/*
 * escape.c: escapes control characters, so that text remains on one line. The functions are not in text.c, because
 * error.c calls them and text.c calls error.c.
 */
#include "core/text.h"

#include <stdio.h>
#include <string.h>

/* Writes the escape of a byte to `out` and returns the length of the escape; 0 if the byte is not escaped. */
static size_t escape_byte(unsigned char byte, bool keeps_lines, char out[5])
{
    if ((byte >= 0x20 && byte != 0x7f) || (byte == '\n' && keeps_lines))
        return 0;
    if (byte == '\n' || byte == '\t')
        return (size_t)snprintf(out, 5, "\\%c", byte == '\n' ? 'n' : 't');
    return (size_t)snprintf(out, 5, "\\x%02x", byte);
}

void bgi_string_escape(char *text, size_t capacity, bool keeps_lines)
{
    size_t length = strnlen(text, capacity - 1);

    for (size_t at = 0; at < length; at++) {
        char escape[5];
        const size_t width = escape_byte((unsigned char)text[at], keeps_lines, escape);
        size_t tail = length - at - 1;

        if (width == 0)
            continue;
        if (at + width >= capacity) {
            length = at;
            break;
        }
        if (at + width + tail >= capacity)
            tail = capacity - 1 - at - width;
        memmove(text + at + width, text + at + 1, tail);
        memcpy(text + at, escape, width);
        length = at + width + tail;
        at += width - 1;
    }
    text[length] = '\0';
}
