/*
 * json_read.h: reads JSON item by item from an input of any size, and keeps only the text of the last string.
 *
 *     if (bgi_json_enter(r, '{'))
 *         for (bool first = true; bgi_json_more(r, '}', &first);)
 *             if (bgi_json_key(r)) ... the key is r->text; read or skip its value
 *
 * The reader is strict (RFC 8259), and also refuses a zero character in a string, half of a surrogate pair, and numbers
 * that neither int64 nor double can represent. The first failure is stored in r->status and in the caller's error, and
 * all later calls return false.
 */
#ifndef BGI_FORMATS_JSON_READ_H
#define BGI_FORMATS_JSON_READ_H

#include "core/input.h"
#include "core/text.h"

enum { BGI_JSON_WINDOW = 1 << 14 };

typedef struct bgi_json_reader {
    const bgi_input *input;
    uint64_t offset, end;             /* range of the input that is not in the window yet */
    const unsigned char *next, *last; /* next unread byte and end of the window */
    uint64_t at;                      /* bytes read since the beginning */
    unsigned line, column;            /* line and column of the next character, both from 1; columns count characters */
    bool places_bytes;                /* errors say "byte N" rather than "line:column" */
    const char *before;               /* words that follow the position in errors: "not JSON: " */
    bgi_string text;                  /* the last string or key */
    bg_status status;
    bg_error *error;
    unsigned char window[BGI_JSON_WINDOW];
} bgi_json_reader;

/* Begins to read bytes `offset` .. `end` - 1 of the input. */
void bgi_json_begin(bgi_json_reader *reader, const bgi_input *input, uint64_t offset, uint64_t end, bg_error *error);
/* Checks that only blanks follow, and frees the text. Returns the status. */
bg_status bgi_json_end(bgi_json_reader *reader);

/* Returns the first character of the next value without consuming it; '\0' at the end. */
char bgi_json_peek(bgi_json_reader *reader);
bool bgi_json_enter(bgi_json_reader *reader, char bracket);
/* Returns whether another item follows. Consumes the comma before it, or the closing bracket. */
bool bgi_json_more(bgi_json_reader *reader, char bracket, bool *first);
bool bgi_json_key(bgi_json_reader *reader);    /* also consumes the colon */
bool bgi_json_string(bgi_json_reader *reader); /* stored in reader->text */
/* Returns a number as an integer (*is_real false), or as a real when it has a fraction or an exponent. */
bool bgi_json_number(bgi_json_reader *reader, int64_t *integer, double *real, bool *is_real);
bool bgi_json_word(bgi_json_reader *reader, const char *word); /* true, false, null */
bool bgi_json_skip(bgi_json_reader *reader);                   /* any value */

/* Reports a failure at the reader's position. */
bool bgi_json_fail(bgi_json_reader *reader, const char *format, ...) BG_PRINTF(2, 3);

#endif
