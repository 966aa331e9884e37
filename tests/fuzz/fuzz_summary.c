/*
 * fuzz_summary.c: summaries of profiles with arbitrary content. An accepted summary can be printed as text without
 * control characters, and embedded in a page's script without ending the script.
 */
#include "profile/report.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 && *text != '\n')
            abort();
}

static void check_page(const char *html)
{
    size_t scripts = 0;

    for (const char *next = html; (next = strstr(next, "</script>")) != NULL; next++)
        scripts++;
    if (scripts != 2)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bgi_report_part part = {.name = "input", .summary = (const char *)data, .size_bytes = size};
    char *text = NULL, *html = NULL;
    size_t html_bytes = 0;
    bg_error error = {0};

    if (bgi_report_print(&part, 1, false, &text, &error) != BG_OK) {
        if (error.message[0] == '\0' || text != NULL)
            abort();
        return 0;
    }
    check_text(text);
    free(text);
    if (bgi_report_make(&part, 1, &html, &html_bytes, &error) != BG_OK)
        abort();
    check_page(html);
    free(html);
    return 0;
}
