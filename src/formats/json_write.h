/*
 * json_write.h: writes JSON for files item by item into memory. If memory is exhausted or a string is not UTF-8, only
 * `finish` reports it. A text that `finish` returns is complete.
 */
#ifndef BGI_FORMATS_JSON_WRITE_H
#define BGI_FORMATS_JSON_WRITE_H

#include "core/text.h"

/* A zeroed writer is empty and writes everything in one line without blanks. If `indent` is not 0, each item is on a
 * line, with `indent` blanks for each level. */
typedef struct bgi_json_writer {
    bgi_string text;
    int indent;
    int depth;
    bool has_items;   /* the open object or list has an item */
    bool has_no_utf8; /* a string was not UTF-8 */
} bgi_json_writer;

/* Begin an object ('{') or a list ('['), and end it. `key` is the key of an item in an object, and NULL in a list or
 * for the outermost value, in all functions below. */
void bgi_json_open(bgi_json_writer *writer, const char *key, char bracket);
void bgi_json_close(bgi_json_writer *writer, char bracket);

void bgi_json_text(bgi_json_writer *writer, const char *key, const char *value); /* NULL: null */
void bgi_json_integer(bgi_json_writer *writer, const char *key, int64_t value);
void bgi_json_count(bgi_json_writer *writer, const char *key, uint64_t value);
/* Writes a real with `digits` significant digits (9 restore a float32, 17 a float64), in the same way in every locale.
 * JSON has no infinity and no NaN, so null is written for them. */
void bgi_json_real(bgi_json_writer *writer, const char *key, double value, int digits);
void bgi_json_bool(bgi_json_writer *writer, const char *key, bool value);
void bgi_json_null(bgi_json_writer *writer, const char *key);

/* Returns the malloc'ed text. Empties the writer even after an error. Errors: BG_ERROR_MEMORY, BG_ERROR_INVALID (not
 * UTF-8). */
bg_status bgi_json_finish(bgi_json_writer *writer, char **out, size_t *out_bytes, bg_error *error);
void bgi_json_clear(bgi_json_writer *writer);

/* Adds a string in quotes with JSON's escapes. Returns false if it is not UTF-8. */
bool bgi_json_quote(bgi_string *text, const char *value);

#endif
