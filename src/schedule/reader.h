/*
 * reader.h: declarations for the readers of text and CSV: positions, numbers, and the message "file:line:column:
 * expected ...".
 */
#ifndef BGI_SCHEDULE_READER_H
#define BGI_SCHEDULE_READER_H

#include <brigade/base.h>

typedef struct bgi_reader {
    const char *at;
    const char *line_begin;
    size_t line; /* from 1 */
    const char *file_name;
    bg_error *error;
} bgi_reader;

/* `text` ends with NUL; `file_name` NULL: "schedule". */
bgi_reader bgi_reader_begin(const char *text, const char *file_name, bg_error *error);

/* Returns BG_ERROR_PARSE; the message names the expected and the found text at `at`, and never contains a control
 * character. */
bg_status bgi_reader_reject(const bgi_reader *in, const char *at, const char *expected);

/* Reads decimal digits of a number below 2^32. */
bg_status bgi_reader_number(bgi_reader *in, const char *expected, uint32_t *out);

/* Moves past the '\n' at the current position. */
void bgi_reader_end_line(bgi_reader *in);

#endif
