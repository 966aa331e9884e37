/*
 * error.c: fills the caller's bg_error. The first cause stays; contexts are prepended. Nothing is allocated.
 */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

const char *bg_status_name(bg_status status)
{
    static const char *const names[] = {"ok",      "invalid",  "shape",       "parse",    "not found",
                                        "memory",  "budget",   "unsupported", "io",       "communication",
                                        "timeout", "canceled", "range",       "internal", "not finite"};

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

/* Escapes control characters in the message, because names and values in it may come from files. Only the table of a
 * device's memory (BG_ERROR_BUDGET) keeps its several lines. */
static void keep_to_one_line(bg_error *error)
{
    bgi_string_escape(error->message, sizeof error->message, error->status == BG_ERROR_BUDGET);
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

bg_status bgi_error_unexplained(bg_error *error, bg_status status, const char *who)
{
    return bg_error_set(error, status, "%s reported '%s' without a message", who, bg_status_name(status));
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

bg_status bgi_require(const void *pointer, const char *name, const char *function, bg_error *error)
{
    const bool is_result = strncmp(name, "out", 3) == 0;

    if (pointer != NULL)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "%s: `%s` is NULL; %s", function, name,
                        is_result ? "it must be the address for the result" : "this argument is required");
}

void bgi_struct_fill(void *options, size_t struct_bytes, const void *made, size_t made_bytes)
{
    if (options == NULL)
        return;
    memset(options, 0, struct_bytes);
    memcpy(options, made, struct_bytes < made_bytes ? struct_bytes : made_bytes);
}

bg_status bgi_struct_check(size_t struct_bytes, size_t own_bytes, const char *type, const char *maker, bg_error *error)
{
    if (struct_bytes == own_bytes || (struct_bytes == 0 && maker == NULL))
        return BG_OK;
    if (struct_bytes == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: struct_bytes is 0; begin with %s", type, maker);
    return bg_error_set(
        error, BG_ERROR_INVALID,
        "%s: struct_bytes is %zu, but in release %s of the library the struct has %zu bytes; %s%s%scompile "
        "the program for the library that it runs with",
        type, struct_bytes, bg_version(), own_bytes, maker != NULL ? "begin with " : "",
        maker != NULL ? maker : "set struct_bytes to its sizeof or to 0", ", and ");
}

bg_status bgi_error_memory(bg_error *error, const char *what, size_t size_bytes)
{
    if (size_bytes == 0)
        return bg_error_set(error, BG_ERROR_MEMORY, "out of memory for %s", what);
    return bg_error_set(error, BG_ERROR_MEMORY, "out of memory: %zu bytes for %s", size_bytes, what);
}
