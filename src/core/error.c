/*
 * error.c: filling the caller's bg_error. First cause wins; contexts are prepended. No allocation.
 */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

const char *bg_status_name(bg_status status)
{
    static const char *const names[] = {"ok",      "invalid",   "shape",       "parse",   "not found",
                                        "memory",  "budget",    "unsupported", "io",      "communication",
                                        "timeout", "cancelled", "range",       "internal"};

    if ((unsigned)status >= sizeof names / sizeof names[0])
        return "unknown";
    return names[status];
}

void bg_error_clear(bg_error *error)
{
    if (error == NULL)
        return;
    error->status = BG_OK;
    error->message[0] = '\0';
}

/* Names and values in a message come from files. Only the table of a device's memory has several lines. */
static void keep_to_one_line(bg_error *error)
{
    bgi_text_escape(error->message, sizeof error->message, error->status == BG_ERROR_BUDGET);
}

bg_status bg_error_set(bg_error *error, bg_status status, const char *format, ...)
{
    va_list arguments;

    if (error == NULL || error->status != BG_OK)
        return status;
    error->status = status;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    keep_to_one_line(error);
    return status;
}

bg_status bg_error_context(bg_error *error, bg_status status, const char *format, ...)
{
    char where[512];
    va_list arguments;
    size_t where_length, kept;

    if (error == NULL)
        return status;
    va_start(arguments, format);
    vsnprintf(where, sizeof where - 2, format, arguments);
    va_end(arguments);
    where_length = strlen(where);
    memcpy(where + where_length, ": ", 2);
    where_length += 2;
    kept = strnlen(error->message, sizeof error->message - 1);
    if (kept > sizeof error->message - 1 - where_length)
        kept = sizeof error->message - 1 - where_length;
    memmove(error->message + where_length, error->message, kept);
    memcpy(error->message, where, where_length);
    error->message[where_length + kept] = '\0';
    keep_to_one_line(error);
    return status;
}

bg_status bgi_error_memory(bg_error *error, const char *what, size_t size_bytes)
{
    return bg_error_set(error, BG_ERROR_MEMORY, "out of memory: %zu bytes for %s", size_bytes, what);
}
