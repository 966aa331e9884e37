/*
 * json_read.c: reads JSON item by item.
 */
#include "formats/json_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { DEPTH_LIMIT = 512, NUMBER_BYTES = 512, END = -1 };

/* ---- bytes ---- */

void bgi_json_begin(bgi_json_reader *r, const bgi_input *input, uint64_t offset, uint64_t end, bg_error *error)
{
    r->input = input;
    r->offset = r->at = offset;
    r->end = end;
    r->next = r->last = r->window;
    r->line = r->column = 1;
    r->places_bytes = false;
    r->before = "not JSON: ";
    r->text = (bgi_string){.data = NULL};
    r->status = BG_OK;
    r->error = error;
}

/* Returns the next byte without consuming it, or END if there is none or reading failed. */
static int see(bgi_json_reader *r)
{
    size_t size;

    if (r->next < r->last)
        return *r->next;
    if (r->status != BG_OK || r->offset == r->end)
        return END;
    size = r->end - r->offset < BGI_JSON_WINDOW ? (size_t)(r->end - r->offset) : BGI_JSON_WINDOW;
    r->status = bgi_input_read(r->input, r->offset, r->window, size, r->error);
    if (r->status != BG_OK)
        return END;
    r->offset += size;
    r->next = r->window;
    r->last = r->window + size;
    return *r->next;
}

static void take(bgi_json_reader *r)
{
    if (*r->next == '\n') {
        r->line++;
        r->column = 1;
    } else if ((*r->next & 0xc0) != 0x80) {
        r->column++;
    }
    r->next++;
    r->at++;
}

bool bgi_json_fail(bgi_json_reader *r, const char *format, ...)
{
    char what[256];
    va_list arguments;

    if (r->status != BG_OK)
        return false;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    r->status = r->places_bytes ? bg_error_set(r->error, BG_ERROR_PARSE, "%s: byte %" PRIu64 ": %s%s", r->input->name,
                                               r->at, r->before, what)
                                : bg_error_set(r->error, BG_ERROR_PARSE, "%s:%u:%u: %s%s", r->input->name, r->line,
                                               r->column, r->before, what);
    return false;
}

/* Reports "expected WANTED, found ...", unless a failure to read was already reported. */
static bool fail_expected(bgi_json_reader *r, const char *wanted)
{
    const int found = see(r);

    if (found == END)
        return bgi_json_fail(r, "expected %s, found the end", wanted);
    if (found > ' ' && found < 0x7f)
        return bgi_json_fail(r, "expected %s, found `%c`", wanted, found);
    return bgi_json_fail(r, "expected %s, found byte 0x%02x", wanted, (unsigned)found);
}

static bool fail_memory(bgi_json_reader *r)
{
    if (r->status == BG_OK)
        r->status = bgi_error_memory(r->error, r->input->name, r->text.length);
    return false;
}

static void skip_blanks(bgi_json_reader *r)
{
    for (int c = see(r); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = see(r))
        take(r);
}

/* ---- strings ---- */

static void add_character(bgi_string *text, uint32_t c)
{
    char bytes[4];
    size_t count = 0;

    if (c < 0x80) {
        bytes[count++] = (char)c;
    } else {
        const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        bytes[count++] = (char)((0xff00 >> (more + 1) & 0xff) | c >> 6 * more);
        for (int i = more - 1; i >= 0; i--)
            bytes[count++] = (char)(0x80 | (c >> 6 * i & 0x3f));
    }
    bgi_string_append(text, bytes, count);
}

static bool read_hex(bgi_json_reader *r, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        const int c = see(r);
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return fail_expected(r, "four hexadecimal digits");
        *out = *out << 4 | (uint32_t)digit;
        take(r);
    }
    return true;
}

/* Reads the characters after a backslash. */
static bool read_escape(bgi_json_reader *r)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const int c = see(r);
    const char *letter = c > 0 ? strchr(letters, c) : NULL;
    uint32_t character, low;

    if (letter != NULL) {
        take(r);
        bgi_string_append(&r->text, meanings + (letter - letters), 1);
        return true;
    }
    if (c != 'u')
        return fail_expected(r, "one of \"\\/bfnrtu after the backslash");
    take(r);
    if (!read_hex(r, &character))
        return false;
    if (character == 0)
        return bgi_json_fail(r, "a string contains \\u0000");
    if (character >= 0xd800 && character < 0xe000) {
        if (character >= 0xdc00)
            return bgi_json_fail(r, "\\u%04x lacks the first half of its pair", character);
        if (see(r) != '\\')
            return fail_expected(r, "the second half of a pair of \\u");
        take(r);
        if (see(r) != 'u')
            return fail_expected(r, "the second half of a pair of \\u");
        take(r);
        if (!read_hex(r, &low))
            return false;
        if (low < 0xdc00 || low >= 0xe000)
            return bgi_json_fail(r, "\\u%04x must be the second half of a pair", low);
        character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
    }
    add_character(&r->text, character);
    return true;
}

/* Reads a character of several bytes, which may cross the end of the window. */
static bool read_wide(bgi_json_reader *r)
{
    unsigned char bytes[4];
    size_t count = 0, wanted = 2;

    for (; count < wanted; count++) {
        const int c = see(r);
        if (c == END)
            break;
        bytes[count] = (unsigned char)c;
        if (count == 0)
            wanted = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
        else if ((c & 0xc0) != 0x80)
            break;
        take(r);
    }
    if (r->status != BG_OK)
        return false;
    if (count == 0 || bgi_utf8_bytes(bytes, count) != count)
        return bgi_json_fail(r, "a string is not UTF-8");
    bgi_string_append(&r->text, (const char *)bytes, count);
    return true;
}

bool bgi_json_string(bgi_json_reader *r)
{
    r->text.length = 0;
    bgi_string_append(&r->text, "", 0);
    if (bgi_json_peek(r) != '"')
        return fail_expected(r, "a string");
    take(r);
    for (int c = see(r); c != '"'; c = see(r)) {
        const unsigned char *end;

        if (c == END)
            return fail_expected(r, "the end of a string");
        if (c < 0x20)
            return bgi_json_fail(r, "a string contains a control character (0x%02x)", (unsigned)c);
        if (c == '\\') {
            take(r);
            if (!read_escape(r))
                return false;
        } else if (c >= 0x80) {
            if (!read_wide(r))
                return false;
        } else {
            for (end = r->next; end < r->last && *end >= 0x20 && *end < 0x80 && *end != '"' && *end != '\\'; end++)
                ;
            bgi_string_append(&r->text, (const char *)r->next, (size_t)(end - r->next));
            r->at += (uint64_t)(end - r->next);
            r->column += (unsigned)(end - r->next);
            r->next = end;
        }
    }
    take(r);
    return r->text.failed ? fail_memory(r) : r->status == BG_OK;
}

/* ---- numbers and words ---- */

/* Reads digits, and appends them to `out`, which has space for NUMBER_BYTES - 1 characters. */
static bool read_digits(bgi_json_reader *r, char *out, size_t *length)
{
    int c = see(r);

    if (c < '0' || c > '9')
        return fail_expected(r, "a digit");
    for (; c >= '0' && c <= '9'; c = see(r)) {
        if (*length + 1 >= NUMBER_BYTES)
            return bgi_json_fail(r, "a number has more than %d characters", NUMBER_BYTES - 1);
        out[(*length)++] = (char)c;
        take(r);
    }
    return true;
}

static bool convert(bgi_json_reader *r, const char *number, bool is_real, int64_t *integer, double *real)
{
    const bool is_negative = number[0] == '-';
    uint64_t value = 0;

    if (is_real) {
        *real = bgi_text_real(number, NULL);
        return isfinite(*real) || bgi_json_fail(r, "the number %.60s is too large", number);
    }
    for (const char *at = number + is_negative; *at != '\0'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (value > ((uint64_t)INT64_MAX + is_negative - digit) / 10)
            return bgi_json_fail(r, "the integer %.60s is too large", number);
        value = 10 * value + digit;
    }
    *integer = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool bgi_json_number(bgi_json_reader *r, int64_t *integer, double *real, bool *is_real)
{
    char number[NUMBER_BYTES + 4];
    size_t length = 0;

    *is_real = false;
    skip_blanks(r);
    if (see(r) == '-') {
        number[length++] = '-';
        take(r);
    }
    if (see(r) == '0') {
        number[length++] = '0';
        take(r);
        if (see(r) >= '0' && see(r) <= '9')
            return bgi_json_fail(r, "a number begins with 0");
    } else if (!read_digits(r, number, &length)) {
        return false;
    }
    if (see(r) == '.') {
        *is_real = true;
        number[length++] = '.';
        take(r);
        if (!read_digits(r, number, &length))
            return false;
    }
    if (see(r) == 'e' || see(r) == 'E') {
        *is_real = true;
        number[length++] = 'e';
        take(r);
        if (see(r) == '-' || see(r) == '+') {
            number[length++] = (char)see(r);
            take(r);
        }
        if (!read_digits(r, number, &length))
            return false;
    }
    number[length] = '\0';
    return r->status == BG_OK && convert(r, number, *is_real, integer, real);
}

bool bgi_json_word(bgi_json_reader *r, const char *word)
{
    skip_blanks(r);
    for (const char *at = word; *at != '\0'; at++) {
        if (see(r) != *at)
            return fail_expected(r, word);
        take(r);
    }
    return true;
}

/* ---- structure ---- */

char bgi_json_peek(bgi_json_reader *r)
{
    int c;

    skip_blanks(r);
    c = see(r);
    return c == END ? '\0' : (char)c;
}

bool bgi_json_enter(bgi_json_reader *r, char bracket)
{
    if (bgi_json_peek(r) != bracket)
        return fail_expected(r, bracket == '{' ? "`{`" : "`[`");
    take(r);
    return true;
}

bool bgi_json_more(bgi_json_reader *r, char bracket, bool *first)
{
    const char c = bgi_json_peek(r);

    if (r->status != BG_OK)
        return false;
    if (c == bracket) {
        take(r);
        return false;
    }
    if (*first) {
        *first = false;
        return true;
    }
    if (c != ',')
        return fail_expected(r, bracket == '}' ? "`,` or `}`" : "`,` or `]`");
    take(r);
    return true;
}

bool bgi_json_key(bgi_json_reader *r)
{
    if (bgi_json_peek(r) != '"')
        return fail_expected(r, "a key in quotes");
    if (!bgi_json_string(r))
        return false;
    if (bgi_json_peek(r) != ':')
        return fail_expected(r, "`:` after a key");
    take(r);
    return true;
}

static bool skip_value(bgi_json_reader *r, int depth)
{
    const char c = bgi_json_peek(r);
    int64_t integer;
    double real;
    bool is_real, first = true;

    if (depth > DEPTH_LIMIT)
        return bgi_json_fail(r, "objects and lists are nested deeper than %d levels", DEPTH_LIMIT);
    switch (c) {
    case '{':
        take(r);
        while (bgi_json_more(r, '}', &first))
            if (!bgi_json_key(r) || !skip_value(r, depth + 1))
                return false;
        return r->status == BG_OK;
    case '[':
        take(r);
        while (bgi_json_more(r, ']', &first))
            if (!skip_value(r, depth + 1))
                return false;
        return r->status == BG_OK;
    case '"':
        return bgi_json_string(r);
    case 't':
        return bgi_json_word(r, "true");
    case 'f':
        return bgi_json_word(r, "false");
    case 'n':
        return bgi_json_word(r, "null");
    default:
        if (c != '-' && (c < '0' || c > '9'))
            return fail_expected(r, "a value");
        return bgi_json_number(r, &integer, &real, &is_real);
    }
}

bool bgi_json_skip(bgi_json_reader *r)
{
    return skip_value(r, 0);
}

bg_status bgi_json_end(bgi_json_reader *r)
{
    skip_blanks(r);
    if (r->status == BG_OK && see(r) != END)
        fail_expected(r, "the end");
    bgi_string_clear(&r->text);
    return r->status;
}
