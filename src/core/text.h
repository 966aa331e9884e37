/*
 * text.h: text that grows, and the name that was meant. Running out of memory is remembered and reported once, by
 * finish.
 */
#ifndef BGI_CORE_TEXT_H
#define BGI_CORE_TEXT_H

#include <brigade/base.h>

/* All-zero is empty. */
typedef struct bgi_text {
    char *data; /* NUL-terminated once something was added */
    size_t length;
    size_t capacity;
    bool failed;
} bgi_text;

void bgi_text_add(bgi_text *text, const char *format, ...) BG_PRINTF(2, 3);
/* Hands the malloc'ed text over ("" when nothing was added) and empties `text`. */
bg_status bgi_text_finish(bgi_text *text, char **out, bg_error *error);
void bgi_text_clear(bgi_text *text);

/* A number as %.9g has it, and strtod, both with a point whatever the program's locale: files are the same everywhere.
 */
void bgi_text_add_real(bgi_text *text, double value);
double bgi_text_real(const char *text, char **end);

/* Rewrites the control characters of `text` as \n, \t or \xNN, so that no name or value in it breaks a line or commands
 * a terminal; newlines stay when `keeps_lines`. What no longer fits `capacity` bytes is cut. */
void bgi_text_escape(char *text, size_t capacity, bool keeps_lines);

/* The name of names[0..count) that is nearest to a mistyped one, or NULL when none is near. */
const char *bgi_text_nearest(const char *name, const char *const *names, uint32_t count);

#endif
