/*
 * yaml.c: reads YAML, with libyaml's events, into the same tree as JSON. It is stricter than YAML, because ambiguous
 * values are errors; the message says how to write them.
 */
#include "config/document.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "core/error.h"
#include "core/text.h"

/* The longest path of a key in nested maps that has a position. */
enum { PATH_BYTES = 256 };

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    const char *name;
    json_t *places;
    char path[PATH_BYTES]; /* path of the current key: "outer.inner" */
    bg_error *error;
} reader;

static bg_status fail_at(reader *it, yaml_mark_t mark, const char *what)
{
    return bg_error_set(it->error, BG_ERROR_PARSE, "%s:%zu:%zu: %s", it->name, mark.line + 1, mark.column + 1, what);
}

static bg_status next_event(reader *it)
{
    const yaml_parser_t *parser = &it->parser;

    if (it->has_event)
        yaml_event_delete(&it->event);
    it->has_event = yaml_parser_parse(&it->parser, &it->event) != 0;
    if (it->has_event)
        return BG_OK;
    if (parser->error == YAML_MEMORY_ERROR)
        return bgi_error_memory(it->error, it->name, 0);
    /* Bytes that are not valid text have no line and column. */
    if (parser->error == YAML_READER_ERROR)
        return bg_error_set(it->error, BG_ERROR_PARSE, "%s:%zu:%zu: %s at byte %zu", it->name, parser->mark.line + 1,
                            parser->mark.column + 1, parser->problem != NULL ? parser->problem : "no text",
                            parser->problem_offset);
    return fail_at(it, parser->problem_mark, parser->problem != NULL ? parser->problem : "not YAML");
}

/* ---- scalars ---- */

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words != NULL && strcmp(*words, text) != 0)
        words++;
    return *words != NULL;
}

/* Words that YAML 1.1 or a user may take for true, false, null or NaN. */
static const char *const doubtful[] = {
    "yes", "Yes", "YES",  "no",   "No",    "NO",    "on",   "On",   "ON",   "off",  "Off",   "OFF",   "y",    "Y",
    "n",   "N",   "True", "TRUE", "False", "FALSE", "Null", "NULL", "None", ".inf", "-.inf", "+.inf", ".nan", NULL};

static bool is_number_text(const char *text)
{
    const char *at = text + (*text == '-' || *text == '+');

    return (*at >= '0' && *at <= '9') || (*at == '.' && at[1] >= '0' && at[1] <= '9');
}

static bg_status read_number(reader *it, const char *text, json_t **out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    char *end;

    if (strspn(digits, "0123456789") == strlen(digits)) {
        long long value;
        errno = 0;
        value = strtoll(text, &end, 10);
        if (digits[0] == '0' && digits[1] != '\0')
            return fail_at(it, it->event.start_mark,
                           "the number begins with 0; remove the 0 or put the number in quotes");
        if (errno == ERANGE)
            return fail_at(it, it->event.start_mark, "the whole number does not fit in 64 bits");
        *out = json_integer(value);
    } else {
        double value = bgi_text_real(text, &end);
        if (*end != '\0' || strspn(text, "0123456789.eE+-") != strlen(text))
            return fail_at(it, it->event.start_mark,
                           "the value looks like a number but is not one; put text in quotes");
        if (!isfinite(value))
            return fail_at(it, it->event.start_mark, "the number is too large for a float64");
        *out = json_real(value);
    }
    return *out != NULL ? BG_OK : bgi_error_memory(it->error, it->name, 0);
}

static bg_status read_scalar(reader *it, json_t **out)
{
    const char *text = (const char *)it->event.data.scalar.value;
    const bool is_plain = it->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

    if (strlen(text) != it->event.data.scalar.length)
        return fail_at(it, it->event.start_mark, "the string contains a zero byte");
    if (is_plain && is_one_of(text, doubtful))
        return fail_at(it, it->event.start_mark,
                       "the word is ambiguous; write true, false or null, or put it in quotes");
    if (is_plain && is_number_text(text))
        return read_number(it, text, out);
    if (is_plain && (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0))
        *out = json_null();
    else if (is_plain && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
        *out = json_boolean(text[0] == 't');
    else
        *out = json_string(text);
    return *out != NULL ? BG_OK : bgi_error_memory(it->error, it->name, 0);
}

/* ---- maps and lists ---- */

/* Refuses aliases, anchors and tags. */
static bg_status check_plain(reader *it)
{
    const yaml_event_t *event = &it->event;
    const void *anchor = NULL, *tag = NULL;

    if (event->type == YAML_ALIAS_EVENT)
        return fail_at(it, event->start_mark, "aliases (*) are not supported; write the value again");
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor != NULL)
        return fail_at(it, event->start_mark,
                       "anchors (&) are not supported; remove the anchor, and write the value again where it is used");
    if (tag != NULL)
        return fail_at(it, event->start_mark, "tags (!) are not supported; remove the tag");
    return BG_OK;
}

static bg_status read_value(reader *it, int depth, json_t **out);

static bg_status read_list(reader *it, int depth, json_t *list)
{
    for (;;) {
        json_t *item = NULL;

        BGI_TRY(next_event(it));
        if (it->event.type == YAML_SEQUENCE_END_EVENT)
            return BG_OK;
        BGI_TRY(read_value(it, depth, &item));
        if (json_array_append_new(list, item) != 0)
            return bgi_error_memory(it->error, it->name, 0);
    }
}

/* Returns the text of the event, which is a key; malloc'ed. */
static bg_status read_key(reader *it, const json_t *map, char **out)
{
    const char *text;

    if (it->event.type != YAML_SCALAR_EVENT)
        return fail_at(it, it->event.start_mark, "the key must be a string");
    text = (const char *)it->event.data.scalar.value;
    if (strlen(text) != it->event.data.scalar.length)
        return fail_at(it, it->event.start_mark, "the key contains a zero byte");
    if (it->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, "<<") == 0)
        return fail_at(it, it->event.start_mark, "merge keys (<<) are not supported; write the values out");
    if (json_object_get(map, text) != NULL)
        return bg_error_set(it->error, BG_ERROR_PARSE, "%s:%zu:%zu: the key `%s` occurs twice", it->name,
                            it->event.start_mark.line + 1, it->event.start_mark.column + 1, text);
    *out = strdup(text);
    return *out != NULL ? BG_OK : bgi_error_memory(it->error, it->name, 0);
}

/* Adds a key to the path; returns false when it does not fit. */
static bool enter_key(reader *it, const char *key)
{
    const size_t length = strlen(it->path);
    const int added = snprintf(it->path + length, sizeof it->path - length, "%s%s", length > 0 ? "." : "", key);

    return added >= 0 && (size_t)added < sizeof it->path - length;
}

static bg_status read_pair(reader *it, int depth, json_t *map)
{
    const yaml_mark_t mark = it->event.start_mark;
    const size_t outer = strlen(it->path);
    char *key = NULL;
    json_t *value = NULL;
    bool has_place;
    bg_status status;

    BGI_TRY(check_plain(it));
    BGI_TRY(read_key(it, map, &key));
    has_place = enter_key(it, key);
    BGI_TRY_CLEANUP(next_event(it));
    BGI_TRY_CLEANUP(read_value(it, depth, &value));
    if (json_object_set_new(map, key, value) != 0 ||
        (has_place &&
         json_object_set_new(it->places, it->path,
                             json_sprintf("%u:%u", (unsigned)mark.line + 1, (unsigned)mark.column + 1)) != 0))
        status = bgi_error_memory(it->error, it->name, 0);
cleanup:
    it->path[outer] = '\0';
    free(key);
    return status;
}

static bg_status read_map(reader *it, int depth, json_t *map)
{
    for (;;) {
        BGI_TRY(next_event(it));
        if (it->event.type == YAML_MAPPING_END_EVENT)
            return BG_OK;
        BGI_TRY(read_pair(it, depth, map));
    }
}

/* Reads a value. On entry it->event is the first event of the value, and on return it is the last one. */
static bg_status read_value(reader *it, int depth, json_t **out)
{
    const bool is_map = it->event.type == YAML_MAPPING_START_EVENT;
    json_t *value;
    bg_status status;

    BGI_TRY(check_plain(it));
    if (it->event.type == YAML_SCALAR_EVENT)
        return read_scalar(it, out);
    if (!is_map && it->event.type != YAML_SEQUENCE_START_EVENT)
        return fail_at(it, it->event.start_mark, "a value must begin here");
    if (depth >= BGI_DOCUMENT_DEPTH)
        return fail_at(it, it->event.start_mark, "maps and lists are nested too deeply");
    value = is_map ? json_object() : json_array();
    if (value == NULL)
        return bgi_error_memory(it->error, it->name, 0);
    status = is_map ? read_map(it, depth + 1, value) : read_list(it, depth + 1, value);
    if (status != BG_OK) {
        json_decref(value);
        return status;
    }
    *out = value;
    return BG_OK;
}

/* Reads the only document of the text. An empty document is an empty map. */
static bg_status read_document(reader *it, json_t **out)
{
    json_t *root = NULL;
    bg_status status = BG_OK;

    BGI_TRY(next_event(it)); /* the stream's start */
    BGI_TRY(next_event(it));
    if (it->event.type == YAML_STREAM_END_EVENT) {
        *out = json_object();
        return *out != NULL ? BG_OK : bgi_error_memory(it->error, it->name, 0);
    }
    BGI_TRY(next_event(it));
    if (it->event.type != YAML_MAPPING_START_EVENT)
        return fail_at(it, it->event.start_mark, "the file must be a map: key: value");
    BGI_TRY(read_value(it, 0, &root));
    BGI_TRY_CLEANUP(next_event(it)); /* the document's end */
    BGI_TRY_CLEANUP(next_event(it));
    if (it->event.type != YAML_STREAM_END_EVENT)
        status =
            fail_at(it, it->event.start_mark, "a second document begins here; a configuration must be one document");
cleanup:
    if (status != BG_OK)
        json_decref(root);
    else
        *out = root;
    return status;
}

bg_status bgi_document_parse_yaml(const char *text, size_t size_bytes, const char *name, bgi_document *out,
                                  bg_error *error)
{
    bg_error own = {0}; /* readers need an error to report to */
    reader it = {.name = name, .error = error != NULL ? error : &own};
    json_t *root = NULL;
    bg_status status;

    if (size_bytes > BGI_DOCUMENT_LIMIT_BYTES)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: the file has %zu bytes; a configuration can have at most %d",
                            name, size_bytes, BGI_DOCUMENT_LIMIT_BYTES);
    it.places = json_object();
    if (it.places == NULL || !yaml_parser_initialize(&it.parser)) {
        json_decref(it.places);
        return bgi_error_memory(error, name, size_bytes);
    }
    yaml_parser_set_encoding(&it.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&it.parser, (const unsigned char *)text, size_bytes);
    status = read_document(&it, &root);
    if (it.has_event)
        yaml_event_delete(&it.event);
    yaml_parser_delete(&it.parser);
    if (status != BG_OK) {
        json_decref(it.places);
        return status;
    }
    *out = (bgi_document){.root = root, .places = it.places};
    return BG_OK;
}
