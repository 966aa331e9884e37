/*
 * report.c: makes a report as one HTML file: the page report.html, which is packed into the library, with the summaries
 * as data. The page's script draws everything from the data in the browser, and inserts names only as text, never as
 * markup.
 */
#include "profile/report.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"
#include "formats/json_tree.h"

/* The build generates this array from src/profile/report.html. */
extern const unsigned char bgi_report_page[];
extern const size_t bgi_report_page_bytes;

static const char data_mark[] = "<!--DATA-->";

/* Checks that the JSON is the summary of a profile, in a version that this release reads. */
static bg_status check_tree(const char *name, const json_t *root, bg_error *error)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    int64_t version = 0;

    if (format == NULL || strcmp(format, "brigade-profile") != 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: this is not the summary of a profile: \"format\" is not "
                            "\"brigade-profile\"",
                            name);
    if (!bgi_json_find_integer(root, "version", &version) || version != 1)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: the summary of a profile has version %lld; this release reads 1", name,
                            (long long)version);
    return BG_OK;
}

bg_status bgi_summary_check(const char *name, const char *text, size_t size_bytes, bg_error *error)
{
    json_t *root = NULL;
    bg_status status;

    BGI_TRY(bgi_json_parse(name, text, size_bytes, &root, error));
    status = check_tree(name, root, error);
    json_decref(root);
    return status;
}

/* Escapes `<`, which valid JSON has only inside strings, so that no string ends the script. */
static void add_data(bgi_string *html, const char *text, size_t size_bytes)
{
    size_t from = 0;

    for (size_t i = 0; i < size_bytes; i++)
        if (text[i] == '<') {
            bgi_string_append(html, text + from, i - from);
            bgi_string_append(html, "\\u003c", 6);
            from = i + 1;
        }
    bgi_string_append(html, text + from, size_bytes - from);
}

static void add_attribute(bgi_string *html, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '&' || *text == '"' || *text == '<' || *text == '>')
            bgi_string_add(html, "&#%d;", *text);
        else
            bgi_string_append(html, text, 1);
}

static const unsigned char *find_mark(void)
{
    const size_t length = sizeof data_mark - 1;

    for (size_t i = 0; i + length <= bgi_report_page_bytes; i++)
        if (memcmp(bgi_report_page + i, data_mark, length) == 0)
            return bgi_report_page + i;
    return NULL;
}

bg_status bgi_report_make(const bgi_report_part *parts, uint32_t count, char **out, size_t *out_bytes, bg_error *error)
{
    const unsigned char *mark = find_mark();
    const unsigned char *rest;
    bgi_string html = {0};
    size_t length;

    if (mark == NULL)
        return bg_error_set(error, BG_ERROR_INTERNAL, "the report's page has no place for data");
    rest = mark + sizeof data_mark - 1;
    bgi_string_append(&html, (const char *)bgi_report_page, (size_t)(mark - bgi_report_page));
    for (uint32_t i = 0; i < count; i++) {
        bgi_string_add(&html, "<script type=\"application/json\" class=\"profile\" data-name=\"");
        add_attribute(&html, parts[i].name);
        bgi_string_add(&html, "\">");
        add_data(&html, parts[i].summary, parts[i].size_bytes);
        bgi_string_add(&html, "</script>\n");
    }
    bgi_string_append(&html, (const char *)rest, (size_t)(bgi_report_page + bgi_report_page_bytes - rest));
    length = html.length;
    BGI_TRY(bgi_string_finish(&html, out, error));
    *out_bytes = length;
    return BG_OK;
}
