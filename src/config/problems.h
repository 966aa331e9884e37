/*
 * problems.h: collects everything that is wrong with a configuration in one pass. Each problem is one line with the
 * field, its value, and what would be right.
 */
#ifndef BGI_CONFIG_PROBLEMS_H
#define BGI_CONFIG_PROBLEMS_H

#include <brigade/base.h>

#include "core/text.h"

typedef struct bgi_problem {
    char *text;
} bgi_problem;

/* A list of problems, empty if zeroed. A failed allocation is remembered and reported by bgi_problems_report. */
typedef struct bgi_problems {
    bgi_problem *items;
    size_t count, capacity;
    bool failed;
    /* Returns the beginning of a message: "file:line:column: " of a field, or "file: " if the position is unknown. The
     * member is NULL if there is no file. */
    const char *(*place)(const void *user, const char *field, char *text, size_t size);
    const void *user;
} bgi_problems;

/* Adds a problem; `field` is NULL if the problem does not concern a single field. */
void bgi_problems_add(bgi_problems *problems, const char *field, const char *format, ...) BG_PRINTF(3, 4);
/* Returns BG_OK without problems; otherwise reports all of them in one line, with `status`. */
bg_status bgi_problems_report(const bgi_problems *problems, bg_status status, bg_error *error);
void bgi_problems_clear(bgi_problems *problems);

#endif
