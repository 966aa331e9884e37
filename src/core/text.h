/*
 * text.h: declares growing strings, and suggestions for mistyped names. If memory is exhausted, only bgi_string_finish
 * reports this.
 */
#ifndef BGI_CORE_TEXT_H
#define BGI_CORE_TEXT_H

#include <brigade/base.h>

/* A zeroed string is empty. */
typedef struct bgi_string {
    char *data; /* NUL-terminated once something was added */
    size_t length;
    size_t capacity;
    bool failed;
} bgi_string;

void bgi_string_add(bgi_string *text, const char *format, ...) BG_PRINTF(2, 3);
void bgi_string_append(bgi_string *text, const char *data, size_t size_bytes); /* unchanged */
/* Returns the malloc'ed text ("" when nothing was added) and empties `text`. */
bg_status bgi_string_finish(bgi_string *text, char **out, bg_error *error);
void bgi_string_clear(bgi_string *text);

/* Append a number like %.9g, and parse a number like strtod, both with a decimal point in every locale, so that files
 * are the same everywhere. */
void bgi_string_add_real(bgi_string *text, double value);
double bgi_text_real(const char *text, char **end);
/* Adds the shortest decimal that reads back as the same number, as Python prints it: 1.0, 1e-07, 0.1. */
void bgi_string_add_shortest(bgi_string *text, double value);

/* Rewrites the control characters of `text` as \n, \t or \xNN, so that names and values in it cannot break a line or
 * control a terminal. Newlines stay if `keeps_lines` is true. The text is cut at `capacity` bytes. */
void bgi_string_escape(char *text, size_t capacity, bool keeps_lines);

/* Returns the number of bytes of the UTF-8 character at `at`, or 0 if it is invalid. `left` bytes (at least 1) are
 * available. */
size_t bgi_utf8_bytes(const unsigned char *at, size_t left);

bool bgi_text_is_utf8(const char *text);

/* Whether the strings are equal except for the case of ASCII letters, in any locale. */
bool bgi_text_equal_in_any_case(const char *a, const char *b);

bool bgi_text_ends_with(const char *text, const char *end);

/* Whether the whole name matches the pattern: `*` matches any text, and `?` matches one character. */
bool bgi_text_matches(const char *pattern, const char *name);

/* Returns the name of names[0..count) that is nearest to a mistyped one, or NULL when none is close. */
const char *bgi_text_nearest(const char *name, const char *const *names, uint32_t count);

#endif
