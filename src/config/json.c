/*
 * json.c: reads JSON with positions, and writes JSON. Brigade has its own writer because files that Optimum wrote must
 * be saved byte for byte, with the same order, indentation and shortest numbers as in Python.
 */
#include "config/document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "formats/json_tree.h"

/* ---- reading ---- */

typedef struct cursor {
    const char *at, *end;
    unsigned line, column;
} cursor;

static void advance(cursor *it)
{
    /* Columns count characters, so continuation bytes are skipped. */
    if (*it->at == '\n') {
        it->line++;
        it->column = 1;
    } else if (((unsigned char)*it->at & 0xc0) != 0x80) {
        it->column++;
    }
    it->at++;
}

/* Moves past a string in quotes. */
static void skip_string(cursor *it)
{
    advance(it);
    while (it->at < it->end && *it->at != '"') {
        if (*it->at == '\\' && it->at + 1 < it->end)
            advance(it);
        advance(it);
    }
    if (it->at < it->end)
        advance(it);
}

static json_t *read_string(const char *begin, const char *end)
{
    json_t *string = NULL;

    return bgi_json_parse("key", begin, (size_t)(end - begin), &string, NULL) == BG_OK ? string : NULL;
}

/* Finds the positions of keys. The text is valid JSON, so keys are the strings at depth 1 before a colon. */
static bool find_places(const char *text, size_t size, json_t *places)
{
    cursor it = {text, text + size, 1, 1};
    int depth = 0;

    while (it.at < it.end) {
        const cursor start = it;
        char place[32];
        json_t *key;
        bool good;

        if (*it.at != '"') {
            depth += (*it.at == '{' || *it.at == '[') - (*it.at == '}' || *it.at == ']');
            advance(&it);
            continue;
        }
        skip_string(&it);
        const char *end = it.at;
        while (it.at < it.end && strchr(" \t\r\n", *it.at) != NULL && *it.at != '\0')
            advance(&it);
        if (depth != 1 || it.at >= it.end || *it.at != ':')
            continue;
        snprintf(place, sizeof place, "%u:%u", start.line, start.column);
        key = read_string(start.at, end);
        good = key != NULL && json_object_set_new(places, json_string_value(key), json_string(place)) == 0;
        json_decref(key);
        if (!good)
            return false;
    }
    return true;
}

static int measure_depth(const json_t *value, int limit)
{
    int deepest = 0;
    const json_t *item;
    size_t i;

    if (limit == 0 || !(json_is_object(value) || json_is_array(value)))
        return 0;
    if (json_is_object(value)) {
        for (void *at = json_object_iter((json_t *)(uintptr_t)value); at != NULL;
             at = json_object_iter_next((json_t *)(uintptr_t)value, at)) {
            int depth = measure_depth(json_object_iter_value(at), limit - 1);
            deepest = depth > deepest ? depth : deepest;
        }
    } else {
        json_array_foreach(value, i, item)
        {
            int depth = measure_depth(item, limit - 1);
            deepest = depth > deepest ? depth : deepest;
        }
    }
    return deepest + 1;
}

bg_status bgi_document_parse_json(const char *text, size_t size_bytes, const char *name, bgi_document *out,
                                  bg_error *error)
{
    bgi_document document = {0};
    bg_status status;

    if (size_bytes > BGI_DOCUMENT_LIMIT_BYTES)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: the file has %zu bytes; a configuration can have at most %d",
                            name, size_bytes, BGI_DOCUMENT_LIMIT_BYTES);
    if (size_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s:1:1: the file begins with a byte order mark; save it as UTF-8 without one", name);
    BGI_TRY(bgi_json_parse(name, text, size_bytes, &document.root, error));
    if (!json_is_object(document.root))
        status = bg_error_set(error, BG_ERROR_PARSE, "%s:1:1: the file must be an object: {\"key\": value, ...}", name);
    else if (measure_depth(document.root, BGI_DOCUMENT_DEPTH + 1) > BGI_DOCUMENT_DEPTH)
        status = bg_error_set(error, BG_ERROR_PARSE, "%s:1:1: objects and lists are nested deeper than %d levels", name,
                              BGI_DOCUMENT_DEPTH);
    else if ((document.places = json_object()) == NULL || !find_places(text, size_bytes, document.places))
        status = bgi_error_memory(error, name, size_bytes);
    else
        status = BG_OK;
    if (status != BG_OK) {
        bgi_document_clear(&document);
        return status;
    }
    *out = document;
    return BG_OK;
}

bool bgi_document_is_yaml(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

bg_status bgi_document_load(const char *path, bgi_document *out, bg_error *error)
{
    char *text = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, BGI_DOCUMENT_LIMIT_BYTES, &text, &size_bytes, error));
    status = bgi_document_is_yaml(path) ? bgi_document_parse_yaml(text, size_bytes, path, out, error)
                                        : bgi_document_parse_json(text, size_bytes, path, out, error);
    free(text);
    return status;
}

void bgi_document_clear(bgi_document *document)
{
    json_decref(document->root);
    json_decref(document->places);
    *document = (bgi_document){0};
}

/* ---- writing ---- */

/* Which characters of a string are escaped: all beyond ASCII as in Python, or only those that a YAML reader would fold
 * or refuse. */
typedef enum escape_style { ESCAPE_ALL, ESCAPE_FEW, ESCAPE_YAML } escape_style;

static uint32_t read_character(const unsigned char **at)
{
    const unsigned char *it = *at;
    int more = it[0] < 0x80 ? 0 : it[0] < 0xe0 ? 1 : it[0] < 0xf0 ? 2 : 3;
    uint32_t character = more == 0 ? it[0] : it[0] & (0x3fu >> more);

    for (int i = 1; i <= more; i++)
        character = character << 6 | (it[i] & 0x3fu);
    *at = it + more + 1;
    return character;
}

static bool wants_escape(uint32_t character, escape_style style)
{
    /* The next-line character and the line and paragraph separators break lines in YAML; the other characters are not
     * printable in YAML. */
    return character < 0x20 || character == 0x7f ||
           (style == ESCAPE_ALL
                ? character > 0x7f
                : (character >= 0x80 && character < 0xa0) || character == 0x2028 || character == 0x2029 ||
                      character == 0xfeff || character == 0xfffe || character == 0xffff);
}

static void print_escape(bgi_string *text, uint32_t character)
{
    static const char letters[] = "\b\f\n\r\t";
    const char *letter = character != 0 && character < 0x20 ? strchr(letters, (int)character) : NULL;

    if (letter != NULL)
        bgi_string_add(text, "\\%c", "bfnrt"[letter - letters]);
    else if (character > 0xffff)
        bgi_string_add(text, "\\u%04x\\u%04x", 0xd800u + ((character - 0x10000u) >> 10),
                       0xdc00u + ((character - 0x10000u) & 0x3ffu));
    else
        bgi_string_add(text, "\\u%04x", character);
}

static void print_string(bgi_string *text, const char *string, escape_style style)
{
    const unsigned char *at = (const unsigned char *)string;

    bgi_string_add(text, "\"");
    while (*at != '\0') {
        const unsigned char *begin = at;
        const uint32_t character = read_character(&at);

        if (character == '"' || character == '\\')
            bgi_string_add(text, "\\%c", (int)character);
        else if (wants_escape(character, style))
            print_escape(text, character);
        else
            bgi_string_add(text, "%.*s", (int)(at - begin), (const char *)begin);
    }
    bgi_string_add(text, "\"");
}

static void print_scalar(bgi_string *text, const json_t *value, escape_style style)
{
    if (json_is_string(value))
        print_string(text, json_string_value(value), style);
    else if (json_is_integer(value))
        bgi_string_add(text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        bgi_string_add_shortest(text, json_real_value(value));
    else
        bgi_string_add(text, "%s", json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns the object's keys in order, malloc'ed; NULL if memory is exhausted. */
static const char **sort_keys(const json_t *object, size_t *out_count)
{
    json_t *it = (json_t *)(uintptr_t)object;
    size_t count = 0;
    const char **keys = malloc((json_object_size(object) + 1) * sizeof *keys);

    for (void *at = json_object_iter(it); keys != NULL && at != NULL; at = json_object_iter_next(it, at))
        keys[count++] = json_object_iter_key(at);
    if (keys != NULL)
        qsort(keys, count, sizeof *keys, compare_keys);
    *out_count = count;
    return keys;
}

/* Whether a key may need more than 1024 characters in YAML, where a question mark must then precede it. A byte is
 * written with at most six characters. */
static bool is_long_key(const char *key)
{
    return strlen(key) > 128;
}

/* Begins the next item of a list or map, on a new line or on the same line (indent < 0). */
static void begin_item(bgi_string *text, bool is_first, int indent)
{
    if (indent < 0)
        bgi_string_add(text, "%s", is_first ? "" : ", ");
    else
        bgi_string_add(text, "%s\n%*s", is_first ? "" : ",", indent, "");
}

static void print_value(bgi_string *text, const json_t *value, escape_style style, int indent)
{
    const bool is_object = json_is_object(value);
    const int inner = indent < 0 ? -1 : indent + 2;
    const char **keys = NULL;
    size_t count = json_array_size(value);

    if (!is_object && !json_is_array(value)) {
        print_scalar(text, value, style);
        return;
    }
    if (is_object && (keys = sort_keys(value, &count)) == NULL)
        text->failed = true;
    bgi_string_add(text, is_object ? "{" : "[");
    for (size_t i = 0; i < count && !text->failed; i++) {
        begin_item(text, i == 0, inner);
        if (is_object) {
            if (style == ESCAPE_YAML && is_long_key(keys[i]))
                bgi_string_add(text, "? ");
            print_string(text, keys[i], style);
            bgi_string_add(text, ": ");
        }
        print_value(text, is_object ? json_object_get(value, keys[i]) : json_array_get(value, i), style, inner);
    }
    if (count > 0 && indent >= 0)
        bgi_string_add(text, "\n%*s", indent, "");
    bgi_string_add(text, is_object ? "}" : "]");
    free(keys);
}

void bgi_document_print_json(bgi_string *text, const json_t *value)
{
    print_value(text, value, ESCAPE_ALL, 0);
    bgi_string_add(text, "\n");
}

void bgi_json_print(bgi_string *text, const json_t *value)
{
    print_value(text, value, ESCAPE_FEW, -1);
}

/* Whether a key needs no quotes in YAML. Words that some YAML reader interprets are shorter than four letters or listed
 * here. */
static bool is_plain_key(const char *key)
{
    const size_t length = strlen(key);

    return length >= 4 && !is_long_key(key) && key[0] >= 'a' && key[0] <= 'z' &&
           strspn(key, "abcdefghijklmnopqrstuvwxyz_0123456789") == length && strcmp(key, "true") != 0 &&
           strcmp(key, "false") != 0 && strcmp(key, "null") != 0;
}

void bgi_document_print_yaml(bgi_string *text, const json_t *object)
{
    size_t count;
    const char **keys = sort_keys(object, &count);

    if (keys == NULL)
        text->failed = true;
    if (count == 0)
        bgi_string_add(text, "{}\n");
    for (size_t i = 0; i < count && !text->failed; i++) {
        bgi_string_add(text, is_long_key(keys[i]) ? "? " : "");
        if (is_plain_key(keys[i]))
            bgi_string_add(text, "%s", keys[i]);
        else
            print_string(text, keys[i], ESCAPE_YAML);
        bgi_string_add(text, is_long_key(keys[i]) ? "\n: " : ": ");
        print_value(text, json_object_get(object, keys[i]), ESCAPE_YAML, -1);
        bgi_string_add(text, "\n");
    }
    free(keys);
}
