/*
 * ipu_text.c: handles configurations as text: reads update strings, and prints fields and notes.
 */
#include "config/ipu_config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/error.h"
#include "core/text.h"

/* ---- update strings ---- */

/* The beginning of a message: the column, counted from 1, at which the wrong item begins. */
#define UPDATE_PLACE "update string, column %zu: "

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Removes blanks from both ends, in place. */
static char *trim(char *text)
{
    size_t length;

    while (is_blank(*text))
        text++;
    length = strlen(text);
    while (length > 0 && is_blank(text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Returns `made`; if it is NULL, sets *failed, which means that memory is exhausted. A NULL value with *failed false is
 * an invalid text. */
static json_t *take(json_t *made, bool *failed)
{
    *failed = *failed || made == NULL;
    return made;
}

static json_t *read_bool(const char *text)
{
    static const char *const words[2][4] = {{"false", "0", "n", "no"}, {"true", "1", "y", "yes"}};

    for (int value = 0; value < 2; value++)
        for (int i = 0; i < 4; i++)
            if (strcasecmp(text, words[value][i]) == 0)
                return json_boolean(value);
    return NULL;
}

static json_t *read_integer(const char *text, bool *failed)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    return end == text || *end != '\0' || errno == ERANGE || is_blank(*text) ? NULL : take(json_integer(value), failed);
}

static json_t *read_real(const char *text, bool *failed)
{
    char *end;
    const double value = bgi_text_real(text, &end);

    return end == text || *end != '\0' || strspn(text, "0123456789.eE+-") != strlen(text) || !isfinite(value)
               ? NULL
               : take(json_real(value), failed);
}

/* Reads "[1 2 3]", also with commas. Changes `text`. Returns NULL if an element is not a number. */
static json_t *read_list(char *text, unsigned kinds, bool *failed)
{
    const size_t length = strlen(text);
    json_t *list;
    char *rest = NULL;

    if (length < 2 || text[0] != '[' || text[length - 1] != ']')
        return NULL;
    text[length - 1] = '\0';
    list = take(json_array(), failed);
    for (char *word = strtok_r(text + 1, " \t\n\r,", &rest); list != NULL && word != NULL;
         word = strtok_r(NULL, " \t\n\r,", &rest)) {
        json_t *item = read_integer(word, failed);
        if (item == NULL && (kinds & BGI_REALS) != 0)
            item = read_real(word, failed);
        if (json_array_append_new(list, item) != 0) {
            *failed = *failed || item != NULL;
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* Reads a text as one of the declared kinds; returns NULL if it has none of them, or if memory is exhausted. `text` is
 * changed. For a string whose default is empty, "null" and "none" mean the empty string. */
static json_t *read_value(const bgi_ipu_field *field, char *text, bool *failed)
{
    const bool is_null = strcasecmp(text, "null") == 0 || strcasecmp(text, "none") == 0;
    const unsigned kinds = field->kinds;
    json_t *json = NULL;

    if (is_null && (kinds & BGI_NULL) != 0)
        return json_null();
    if (is_null && (kinds & BGI_TEXT) != 0)
        return strcmp(field->fallback, "\"\"") == 0 ? take(json_string(""), failed) : NULL;
    if ((kinds & BGI_TEXT) != 0)
        return bgi_text_is_utf8(text) ? take(json_string(text), failed) : NULL;
    if ((kinds & BGI_BOOL) != 0)
        return read_bool(text);
    if ((kinds & (BGI_INTEGER | BGI_REAL)) != 0)
        json = read_integer(text, failed);
    if (json == NULL && (kinds & BGI_REAL) != 0)
        json = read_real(text, failed);
    if (json == NULL && (kinds & (BGI_INTEGERS | BGI_REALS)) != 0)
        json = read_list(text, kinds, failed);
    return json;
}

static void report_value(bgi_problems *problems, unsigned kinds, size_t column, const char *key, const char *value)
{
    if ((kinds & BGI_MAP) != 0)
        bgi_problems_add(problems, NULL,
                         UPDATE_PLACE
                         "You can only update int, float, bool, list or string values in the configuration, got "
                         "`%.200s` for key `%s`; write maps into the file",
                         column, value, key);
    else if ((kinds & BGI_TEXT) != 0)
        bgi_problems_add(problems, NULL,
                         UPDATE_PLACE "`%.200s` is not a value of `%s`; it must be a string other than none", column,
                         value, key);
    else if ((kinds & BGI_BOOL) != 0)
        bgi_problems_add(problems, NULL, UPDATE_PLACE "Can't derive true or false from `%.200s` (key `%s`)", column,
                         value, key);
    else
        bgi_problems_add(problems, NULL, UPDATE_PLACE "`%.200s` is not a value of `%s`; it takes %s%s", column, value,
                         key,
                         (kinds & (BGI_INTEGERS | BGI_REALS)) == 0 ? "a number"
                         : (kinds & BGI_REAL) != 0                 ? "a number or a list [a b c]"
                                                                   : "a list of whole numbers [a b c]",
                         (kinds & BGI_NULL) != 0 ? ", or null" : "");
}

static void give_update(bg_ipu_config *config, size_t column, const char *key, char *value, bgi_problems *problems)
{
    const char *renamed = bgi_ipu_renamed(key);
    const bgi_ipu_field_id id = bgi_ipu_field_find(renamed != NULL ? renamed : key);
    char *copy;
    json_t *json;

    if (bgi_ipu_is_deprecated(key)) {
        bgi_string_add(&config->notes, "`%s` is deprecated and has no effect\n", key);
        return;
    }
    if (renamed != NULL)
        bgi_string_add(&config->notes, "`%s` is an old name of `%s`\n", key, renamed);
    if (id == BGI_IPU_FIELD_COUNT) {
        const char *nearest = bgi_ipu_field_nearest(key);
        bgi_problems_add(problems, NULL, UPDATE_PLACE "Key `%.200s` isn't in the original config dict%s%s%s", column,
                         key, nearest != NULL ? "; did you mean `" : "", nearest != NULL ? nearest : "",
                         nearest != NULL ? "`?" : "");
        return;
    }
    copy = strdup(value);
    json = copy != NULL ? read_value(&bgi_ipu_fields[id], copy, &problems->failed) : NULL;
    if (copy == NULL)
        problems->failed = true;
    else if (json == NULL && !problems->failed)
        report_value(problems, bgi_ipu_fields[id].kinds, column, key, value);
    else if (json != NULL)
        bgi_ipu_give(config, id, json);
    json_decref(json);
    free(copy);
}

/* Returns the end of the item that begins at `text`: the next comma outside brackets. */
static char *find_end(char *text)
{
    int depth = 0;

    for (; *text != '\0'; text++) {
        depth += (*text == '[') - (*text == ']');
        if (*text == ',' && depth <= 0)
            break;
    }
    return text;
}

void bgi_ipu_read_updates(bg_ipu_config *config, const char *text, bgi_problems *problems)
{
    char *copy = strdup(text);
    char *item = copy;

    if (copy == NULL)
        problems->failed = true;
    while (item != NULL) {
        char *end = find_end(item);
        char *next = *end != '\0' ? end + 1 : NULL;
        size_t column;
        char *equals;

        *end = '\0';
        item = trim(item);
        column = (size_t)(item - copy) + 1;
        equals = strchr(item, '=');
        if (equals == NULL || strchr(equals + 1, '=') != NULL) {
            bgi_problems_add(problems, NULL, UPDATE_PLACE "`%.200s` is not key=value%s", column, item,
                             equals != NULL ? ", because it has more than one =" : "");
        } else {
            *equals = '\0';
            give_update(config, column, trim(item), trim(equals + 1), problems);
        }
        item = next;
    }
    free(copy);
}

/* ---- printing ---- */

bg_status bg_ipu_config_print(const bg_ipu_config *config, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};

    for (size_t i = 0; bg_ipu_config_field_at(i) != NULL; i++) {
        const bgi_ipu_field_id id = bgi_ipu_field_find(bg_ipu_config_field_at(i));
        bgi_string_add(&text, "%-46s ", bgi_ipu_fields[id].name);
        bgi_json_print(&text, config->values[id].json);
        bgi_string_add(&text, "%s\n", config->given[id] == NULL || json_is_null(config->given[id]) ? "" : "  (given)");
    }
    return bgi_string_finish(&text, out_text, error);
}

bg_status bg_ipu_config_print_notes(const bg_ipu_config *config, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};

    if (config->notes.length > 0)
        bgi_string_add(&text, "%s", config->notes.data);
    text.failed = text.failed || config->notes.failed;
    if (bgi_ipu_bool(config, BGI_IPU_SHARDING) && bgi_ipu_integer(config, BGI_IPU_REPLICAS) == 1)
        bgi_string_add(&text, "`replicated_tensor_sharding` is not used when `replication_factor` = 1\n");
    return bgi_string_finish(&text, out_text, error);
}
