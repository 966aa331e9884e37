/*
 * json_write.h: writes JSON for files item by item into memory. If memory is out, or a text is not UTF-8, only `finish`
 * reports it. A text that `finish` returns is complete.
 */
#ifndef BGI_FORMATS_JSON_WRITE_H
#define BGI_FORMATS_JSON_WRITE_H

#include "core/text.h"

/* A zeroed writer is empty and writes everything in one line without blanks; `indent`: blanks for each level, with one
 * item a line. */
typedef struct bgi_json_writer {
    bgi_string text;
    int indent;
    int depth;
    bool has_items;   /* in the open object or list */
    bool has_no_utf8; /* a text was not UTF-8 */
} bgi_json_writer;

/* An object ('{') or a list ('['), and its end. Every call below has the key in an object, and NULL in a list or for
 * the outermost value. */
void bgi_json_open(bgi_json_writer *writer, const char *key, char bracket);
void bgi_json_close(bgi_json_writer *writer, char bracket);

void bgi_json_text(bgi_json_writer *writer, const char *key, const char *value); /* NULL: null */
void bgi_json_integer(bgi_json_writer *writer, const char *key, int64_t value);
void bgi_json_count(bgi_json_writer *writer, const char *key, uint64_t value);
/* Writes this many significant digits (9 restore a float32, 17 a float64), in the same way in every locale. JSON has no
 * infinity and no NaN, so null is written for them. */
void bgi_json_real(bgi_json_writer *writer, const char *key, double value, int digits);
void bgi_json_bool(bgi_json_writer *writer, const char *key, bool value);
void bgi_json_null(bgi_json_writer *writer, const char *key);

/* Returns the malloc'ed text and empties the writer, also on failure. Errors: BG_ERROR_MEMORY, BG_ERROR_INVALID (not
 * UTF-8). */
bg_status bgi_json_finish(bgi_json_writer *writer, char **out, size_t *out_bytes, bg_error *error);
void bgi_json_clear(bgi_json_writer *writer);

/* Adds a text in quotes with JSON's escapes; false when it is not UTF-8. */
bool bgi_json_quote(bgi_string *text, const char *value);

#endif
