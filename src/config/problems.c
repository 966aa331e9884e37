/*
 * problems.c: collects problems in a list, and makes a single error from them.
 */
#include "config/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/arena.h"
#include "core/error.h"

enum { LINE_BYTES = 1024, PLACE_BYTES = 512 };

void bgi_problems_add(bgi_problems *problems, const char *field, const char *format, ...)
{
    char line[LINE_BYTES], place[PLACE_BYTES] = "";
    bgi_string text = {0};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    bgi_string_add(&text, "%s%s",
                   problems->place != NULL ? problems->place(problems->user, field, place, sizeof place) : "", line);
    if (text.failed || !bgi_array_reserve((void **)&problems->items, &problems->capacity, problems->count + 1,
                                          sizeof *problems->items)) {
        problems->failed = true;
        bgi_string_clear(&text);
        return;
    }
    problems->items[problems->count++].text = text.data;
}

bg_status bgi_problems_report(const bgi_problems *problems, bg_status status, bg_error *error)
{
    bgi_string all = {0};

    if (problems->failed)
        return bgi_error_memory(error, "list of problems", 0);
    if (problems->count == 0)
        return BG_OK;
    if (problems->count > 1)
        bgi_string_add(&all, "%zu problems: ", problems->count);
    for (size_t i = 0; i < problems->count; i++)
        bgi_string_add(&all, "%s%s", i == 0 ? "" : "; ", problems->items[i].text);
    if (all.failed)
        status = bgi_error_memory(error, "list of problems", 0);
    else
        bg_error_set(error, status, "%s", all.data);
    bgi_string_clear(&all);
    return status;
}

void bgi_problems_clear(bgi_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        free(problems->items[i].text);
    free(problems->items);
    problems->items = NULL;
    problems->count = problems->capacity = 0;
    problems->failed = false;
}
