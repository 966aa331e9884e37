/*
 * json_write.c: writes JSON for files.
 */
#include "formats/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"

bool bgi_json_quote(bgi_string *text, const char *value)
{
    const size_t length = strlen(value);
    size_t plain = 0; /* the beginning of a run of characters without escapes */

    bgi_string_append(text, "\"", 1);
    for (size_t at = 0, step; at < length; at += step) {
        const unsigned char c = (unsigned char)value[at];
        static const char letters[] = "\b\f\n\r\t";
        const char *letter = c != 0 && c < 0x20 ? strchr(letters, c) : NULL;

        step = bgi_utf8_bytes((const unsigned char *)value + at, length - at);
        if (step == 0)
            return false;
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        bgi_string_append(text, value + plain, at - plain);
        plain = at + 1;
        if (c >= 0x20)
            bgi_string_add(text, "\\%c", c);
        else if (letter != NULL)
            bgi_string_add(text, "\\%c", "bfnrt"[letter - letters]);
        else
            bgi_string_add(text, "\\u%04X", c);
    }
    bgi_string_append(text, value + plain, length - plain);
    bgi_string_append(text, "\"", 1);
    return true;
}

static void begin_line(bgi_json_writer *w)
{
    if (w->indent > 0)
        bgi_string_add(&w->text, "\n%*s", w->indent * w->depth, "");
}

/* Writes what precedes a value: a comma, a line, a key. */
static void begin_item(bgi_json_writer *w, const char *key)
{
    if (w->has_items)
        bgi_string_append(&w->text, ",", 1);
    if (w->depth > 0)
        begin_line(w);
    w->has_items = true;
    if (key == NULL)
        return;
    if (!bgi_json_quote(&w->text, key))
        w->has_no_utf8 = true;
    bgi_string_append(&w->text, ": ", w->indent > 0 ? 2 : 1);
}

void bgi_json_open(bgi_json_writer *w, const char *key, char bracket)
{
    begin_item(w, key);
    bgi_string_append(&w->text, &bracket, 1);
    w->depth++;
    w->has_items = false;
}

void bgi_json_close(bgi_json_writer *w, char bracket)
{
    w->depth--;
    if (w->has_items)
        begin_line(w);
    bgi_string_append(&w->text, &bracket, 1);
    w->has_items = true;
}

void bgi_json_text(bgi_json_writer *w, const char *key, const char *value)
{
    if (value == NULL) {
        bgi_json_null(w, key);
        return;
    }
    begin_item(w, key);
    if (!bgi_json_quote(&w->text, value))
        w->has_no_utf8 = true;
}

void bgi_json_integer(bgi_json_writer *w, const char *key, int64_t value)
{
    begin_item(w, key);
    bgi_string_add(&w->text, "%" PRId64, value);
}

void bgi_json_count(bgi_json_writer *w, const char *key, uint64_t value)
{
    begin_item(w, key);
    bgi_string_add(&w->text, "%" PRIu64, value);
}

void bgi_json_real(bgi_json_writer *w, const char *key, double value, int digits)
{
    char number[64], *exponent;
    size_t whole, point;

    if (!isfinite(value)) {
        bgi_json_null(w, key);
        return;
    }
    begin_item(w, key);
    if (snprintf(number, sizeof number, "%.*g", digits, value) < 0)
        w->text.failed = true;
    whole = strspn(number, "-0123456789");
    exponent = strchr(number, 'e');
    point = strcspn(number + whole, "e0123456789"); /* a locale's decimal point has other bytes */
    bgi_string_append(&w->text, number, whole);
    if (point > 0) {
        const char *fraction = number + whole + point;
        bgi_string_add(&w->text, ".%.*s", (int)strspn(fraction, "0123456789"), fraction);
    } else if (exponent == NULL) {
        bgi_string_append(&w->text, ".0", 2); /* a real must be read back as one */
    }
    if (exponent != NULL) /* "e-05" as "e-5", "e+20" as "e20" */
        bgi_string_add(&w->text, "e%s%s", exponent[1] == '-' ? "-" : "", exponent + 1 + strspn(exponent + 1, "+-0"));
}

void bgi_json_bool(bgi_json_writer *w, const char *key, bool value)
{
    begin_item(w, key);
    bgi_string_add(&w->text, "%s", value ? "true" : "false");
}

void bgi_json_null(bgi_json_writer *w, const char *key)
{
    begin_item(w, key);
    bgi_string_append(&w->text, "null", 4);
}

void bgi_json_clear(bgi_json_writer *w)
{
    bgi_string_clear(&w->text);
    *w = (bgi_json_writer){.depth = 0};
}

bg_status bgi_json_finish(bgi_json_writer *w, char **out, size_t *out_bytes, bg_error *error)
{
    const bool is_whole = !w->has_no_utf8;
    const size_t length = w->text.length;
    bg_status status = BG_OK;

    if (w->text.failed)
        status = bgi_error_memory(error, "JSON", length);
    else if (!is_whole)
        status = bg_error_set(error, BG_ERROR_INVALID, "a string is not UTF-8, which JSON needs");
    else
        status = bgi_string_finish(&w->text, out, error);
    if (status == BG_OK && out_bytes != NULL)
        *out_bytes = length;
    bgi_json_clear(w);
    return status;
}
