/*
 * text.c: implements growing strings, and finds suggestions for mistyped names.
 */
#include "core/text.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"

void bgi_string_add(bgi_string *text, const char *format, ...)
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

void bgi_string_append(bgi_string *text, const char *data, size_t size_bytes)
{
    if (text->failed || !bgi_array_reserve((void **)&text->data, &text->capacity, text->length + size_bytes + 1, 1)) {
        text->failed = true;
        return;
    }
    memcpy(text->data + text->length, data, size_bytes);
    text->length += size_bytes;
    text->data[text->length] = '\0';
}

void bgi_string_clear(bgi_string *text)
{
    free(text->data);
    memset(text, 0, sizeof *text);
}

void bgi_string_add_real(bgi_string *text, double value)
{
    char digits[32];
    char *point;
    size_t length;

    snprintf(digits, sizeof digits, "%.9g", value);
    point = digits + strspn(digits, "+-0123456789einfa");
    length = strcspn(point, "0123456789");
    bgi_string_add(text, "%.*s%s%s", (int)(point - digits), digits, length > 0 ? "." : "", point + length);
}

double bgi_text_real(const char *text, char **end)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = plain != (locale_t)0 ? uselocale(plain) : (locale_t)0;
    const double value = strtod(text, end);

    if (plain != (locale_t)0) {
        uselocale(before); /* only this thread's locale */
        freelocale(plain);
    }
    return value;
}

bg_status bgi_string_finish(bgi_string *text, char **out, bg_error *error)
{
    if (text->data == NULL && !text->failed)
        bgi_string_add(text, "%s", "");
    if (text->failed) {
        bgi_string_clear(text);
        return bgi_error_memory(error, "text", 0);
    }
    *out = text->data;
    memset(text, 0, sizeof *text);
    return BG_OK;
}

size_t bgi_utf8_bytes(const unsigned char *at, size_t left)
{
    const size_t bytes = at[0] < 0x80   ? 1
                         : at[0] < 0xc2 ? 0
                         : at[0] < 0xe0 ? 2
                         : at[0] < 0xf0 ? 3
                         : at[0] < 0xf5 ? 4
                                        : 0;

    if (bytes == 0 || bytes > left)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    /* Refuses forms that are too long, halves of surrogate pairs, and numbers above the last character. */
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf0 && at[1] < 0x90) ||
        (at[0] == 0xf4 && at[1] >= 0x90))
        return 0;
    return bytes;
}

bool bgi_text_is_utf8(const char *text)
{
    for (size_t left = strlen(text), step; left > 0; text += step, left -= step) {
        step = bgi_utf8_bytes((const unsigned char *)text, left);
        if (step == 0)
            return false;
    }
    return true;
}

enum { NAME_LIMIT = 48 };

/* Computes Levenshtein's distance row by row, where two exchanged neighbors count as one edit. Names longer than
 * NAME_LIMIT are at the largest distance from every name. */
static uint32_t edit_distance(const char *a, const char *b)
{
    uint32_t row[NAME_LIMIT + 1], above[NAME_LIMIT + 1] = {0};
    size_t a_length = strlen(a), b_length = strlen(b);

    if (a_length > NAME_LIMIT || b_length > NAME_LIMIT)
        return UINT32_MAX;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = (uint32_t)j;
    for (size_t i = 1; i <= a_length; i++) {
        uint32_t diagonal = row[0], upper = 0; /* upper: two rows above and two columns to the left */
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= b_length; j++) {
            uint32_t best = diagonal + (a[i - 1] != b[j - 1]);
            const uint32_t up = row[j], exchanged = upper;
            upper = above[j - 1];
            above[j - 1] = diagonal;
            diagonal = up;
            if (up + 1 < best)
                best = up + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && exchanged + 1 < best)
                best = exchanged + 1;
            row[j] = best;
        }
        above[b_length] = diagonal;
    }
    return row[b_length];
}

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool bgi_text_equal_in_any_case(const char *a, const char *b)
{
    for (; to_lower(*a) == to_lower(*b); a++, b++)
        if (*a == '\0')
            return true;
    return false;
}

const char *bgi_text_nearest(const char *name, const char *const *names, uint32_t count)
{
    const size_t length = strlen(name);
    const char *best = NULL;
    /* A word of six letters with half of them changed is another word (`target`, `stages`). */
    uint32_t best_distance = (uint32_t)(length < 6 ? length / 2 : 2 * length / 5) + 1;

    for (uint32_t i = 0; i < count; i++) {
        const size_t other = strlen(names[i]);
        uint32_t distance;
        /* The difference in length is a lower bound of the distance, so most names need no table. */
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

/* Finds the digits of the shortest decimal that reads back as the same number, and the power of ten of the first digit.
 * Returns the number of digits. */
static int find_digits(double value, char digits[32], int *exponent)
{
    char text[64];
    int count = 0;

    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    for (const char *at = text; *at != '\0' && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            digits[count++] = *at;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    *exponent = atoi(strchr(text, 'e') + 1);
    return count;
}

void bgi_string_add_shortest(bgi_string *text, double value)
{
    char digits[32];
    int exponent, count = find_digits(fabs(value), digits, &exponent);

    if (signbit(value))
        bgi_string_add(text, "-");
    if (exponent < -4 || exponent >= 16) {
        bgi_string_add(text, "%c%s%.*se%c%02d", digits[0], count > 1 ? "." : "", count - 1, digits + 1,
                       exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0)
        bgi_string_add(text, "0.%.*s%.*s", -exponent - 1, "0000", count, digits);
    for (int i = 0; exponent >= 0 && (i < count || i <= exponent + 1); i++)
        bgi_string_add(text, "%s%c", i == exponent + 1 ? "." : "", i < count ? digits[i] : '0');
}

bool bgi_text_ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bool bgi_text_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = name;

    while (*name != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
