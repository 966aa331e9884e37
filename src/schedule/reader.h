/*
 * reader.h: declares what the readers of text and CSV share: positions, numbers, and the message "file:line:column:
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

/* Begins to read `text`, which ends with NUL. If `file_name` is NULL, errors name "schedule". */
bgi_reader bgi_reader_begin(const char *text, const char *file_name, bg_error *error);

/* Returns BG_ERROR_PARSE; the message has the expected text and the text at `at`, without control characters. */
bg_status bgi_reader_reject(const bgi_reader *in, const char *at, const char *expected);

/* Reads decimal digits of a number below 2^32. */
bg_status bgi_reader_number(bgi_reader *in, const char *expected, uint32_t *out);

/* Moves past the '\n' at the current position. */
void bgi_reader_end_line(bgi_reader *in);

#endif
