/*
 * text.c: text that grows, and the name that was meant.
 */
#include "core/text.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"

void bgi_text_add(bgi_text *text, const char *format, ...)
{
    va_list arguments;
    int length;

    if (text->failed)
        return;
    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !bgi_array_reserve((void **)&text->data, &text->capacity, text->length + (size_t)length + 1, 1)) {
        text->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

void bgi_text_clear(bgi_text *text)
{
    free(text->data);
    memset(text, 0, sizeof *text);
}

void bgi_text_add_real(bgi_text *text, double value)
{
    char digits[32];
    char *point;
    size_t length;

    snprintf(digits, sizeof digits, "%.9g", value);
    point = digits + strspn(digits, "+-0123456789einfa");
    length = strcspn(point, "0123456789");
    bgi_text_add(text, "%.*s%s%s", (int)(point - digits), digits, length > 0 ? "." : "", point + length);
}

double bgi_text_real(const char *text, char **end)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = plain != (locale_t)0 ? uselocale(plain) : (locale_t)0;
    const double value = strtod(text, end);

    if (plain != (locale_t)0) {
        uselocale(before); /* of this thread alone */
        freelocale(plain);
    }
    return value;
}

bg_status bgi_text_finish(bgi_text *text, char **out, bg_error *error)
{
    if (text->data == NULL && !text->failed)
        bgi_text_add(text, "%s", "");
    if (text->failed) {
        bgi_text_clear(text);
        return bgi_error_memory(error, "text", 0);
    }
    *out = text->data;
    memset(text, 0, sizeof *text);
    return BG_OK;
}

enum { NAME_LIMIT = 48 };

/* Levenshtein's distance, by rows. Names longer than NAME_LIMIT are far from everything. */
static uint32_t edit_distance(const char *a, const char *b)
{
    uint32_t row[NAME_LIMIT + 1];
    size_t a_length = strlen(a), b_length = strlen(b);

    if (a_length > NAME_LIMIT || b_length > NAME_LIMIT)
        return UINT32_MAX;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = (uint32_t)j;
    for (size_t i = 1; i <= a_length; i++) {
        uint32_t diagonal = row[0];
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= b_length; j++) {
            uint32_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_length];
}

const char *bgi_text_nearest(const char *name, const char *const *names, uint32_t count)
{
    const size_t length = strlen(name);
    const char *best = NULL;
    uint32_t best_distance = (uint32_t)length / 2 + 1;

    for (uint32_t i = 0; i < count; i++) {
        const size_t other = strlen(names[i]);
        uint32_t distance;
        /* Each character more or less is an edit: most names need no table. */
        if ((other > length ? other - length : length - other) >= best_distance)
            continue;
        distance = edit_distance(name, names[i]);
        if (distance < best_distance) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

/* Length of what is written for the byte, 0 when it stays. */
static size_t escape_byte(unsigned char byte, bool keeps_lines, char out[5])
{
    if ((byte >= 0x20 && byte != 0x7f) || (byte == '\n' && keeps_lines))
        return 0;
    if (byte == '\n' || byte == '\t')
        return (size_t)snprintf(out, 5, "\\%c", byte == '\n' ? 'n' : 't');
    return (size_t)snprintf(out, 5, "\\x%02x", byte);
}

void bgi_text_escape(char *text, size_t capacity, bool keeps_lines)
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
