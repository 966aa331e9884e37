/*
 * json_write.h: JSON for files that are kept, made piece by piece in memory. Running out of memory, and text that is no
 * UTF-8, are remembered and reported once, by finish: what finish hands over is whole.
 */
#ifndef BGI_FORMATS_JSON_WRITE_H
#define BGI_FORMATS_JSON_WRITE_H

#include "core/text.h"

/* All-zero is empty and writes everything in one line without blanks; `indent`: blanks a level, one item a line. */
typedef struct bgi_json_writer {
    bgi_string text;
    int indent;
    int depth;
    bool has_items;   /* in the object or list that is open */
    bool has_no_utf8; /* a text was none */
} bgi_json_writer;

/* An object ('{') or a list ('['), and its end. Every call below has the key in an object, and NULL in a list or for
 * the outermost value. */
void bgi_json_open(bgi_json_writer *writer, const char *key, char bracket);
void bgi_json_close(bgi_json_writer *writer, char bracket);

void bgi_json_text(bgi_json_writer *writer, const char *key, const char *value); /* NULL: null */
void bgi_json_integer(bgi_json_writer *writer, const char *key, int64_t value);
void bgi_json_count(bgi_json_writer *writer, const char *key, uint64_t value);
/* With so many significant digits (9 bring a float32 back, 17 a float64), the same in every locale; JSON has no
 * infinity and no NaN: null stands for them. */
void bgi_json_real(bgi_json_writer *writer, const char *key, double value, int digits);
void bgi_json_bool(bgi_json_writer *writer, const char *key, bool value);
void bgi_json_null(bgi_json_writer *writer, const char *key);

/* Hands the malloc'ed text over and empties the writer, also on failure. Errors: BG_ERROR_MEMORY, BG_ERROR_INVALID (no
 * UTF-8). */
bg_status bgi_json_finish(bgi_json_writer *writer, char **out, size_t *out_bytes, bg_error *error);
void bgi_json_clear(bgi_json_writer *writer);

/* Adds a text in quotes, with what JSON wants escaped; false when it is no UTF-8. */
bool bgi_json_quote(bgi_string *text, const char *value);

#endif
