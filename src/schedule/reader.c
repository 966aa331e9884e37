/*
 * reader.c: reads numbers and tracks positions in a text. It knows no format.
 */
#include "schedule/reader.h"

#include <stdio.h>
#include <string.h>

bgi_reader bgi_reader_begin(const char *text, const char *file_name, bg_error *error)
{
    return (bgi_reader){.at = text,
                        .line_begin = text,
                        .line = 1,
                        .file_name = file_name != NULL ? file_name : "schedule",
                        .error = error};
}

bg_status bgi_reader_reject(const bgi_reader *in, const char *at, const char *expected)
{
    char found[32];
    size_t length = 0;

    while (length + 1 < sizeof found && at[length] > ' ' && at[length] < 127) {
        found[length] = at[length];
        length++;
    }
    found[length] = '\0';
    if (length == 0)
        strcpy(found, at[0] == '\0' ? "the end of the text" : at[0] == '\n' ? "the end of the line" : "a blank");
    if (length == 0 && at[0] != '\0' && at[0] != '\n' && at[0] != ' ' && at[0] != '\t' && at[0] != '\r')
        snprintf(found, sizeof found, "the byte 0x%02x", (unsigned)(unsigned char)at[0]);
    return bg_error_set(in->error, BG_ERROR_PARSE, "%s:%zu:%zu: expected %s, found %s", in->file_name, in->line,
                        (size_t)(at - in->line_begin) + 1, expected, found);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bg_status bgi_reader_number(bgi_reader *in, const char *expected, uint32_t *out)
{
    const char *begin = in->at;
    uint64_t value = 0;

    if (!is_digit(*in->at))
        return bgi_reader_reject(in, begin, expected);
    for (; is_digit(*in->at); in->at++) {
        value = 10 * value + (uint64_t)(*in->at - '0');
        if (value > UINT32_MAX)
            return bgi_reader_reject(in, begin, "a number below 4294967296");
    }
    *out = (uint32_t)value;
    return BG_OK;
}

void bgi_reader_end_line(bgi_reader *in)
{
    in->line_begin = ++in->at;
    in->line++;
}
