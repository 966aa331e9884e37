/*
 * text.c: text that grows.
 */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"

void bgi_text_add(bgi_text *text, const char *format, ...)
{
    va_list arguments;
    int length;

    if (text->failed)
        return;
    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !bgi_array_reserve((void **)&text->data, &text->capacity, text->length + (size_t)length + 1, 1)) {
        text->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

void bgi_text_clear(bgi_text *text)
{
    free(text->data);
    memset(text, 0, sizeof *text);
}

bg_status bgi_text_finish(bgi_text *text, char **out, bg_error *error)
{
    if (text->data == NULL && !text->failed)
        bgi_text_add(text, "%s", "");
    if (text->failed) {
        bgi_text_clear(text);
        return bgi_error_memory(error, "text", 0);
    }
    *out = text->data;
    memset(text, 0, sizeof *text);
    return BG_OK;
}
