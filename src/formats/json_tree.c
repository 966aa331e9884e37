/*
 * json_tree.c: parses JSON into a jansson tree. It calls only functions of jansson that report when memory is
 * exhausted.
 */
#include "formats/json_tree.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "formats/json_read.h"

enum { DEPTH_LIMIT = 512 };

static json_t *read_value(bgi_json_reader *r, int depth);

static json_t *fail_memory(bgi_json_reader *r)
{
    if (r->status == BG_OK)
        r->status = bgi_error_memory(r->error, r->input->name, (size_t)r->input->size_bytes);
    return NULL;
}

static bool read_items(bgi_json_reader *r, json_t *list, int depth)
{
    for (bool first = true; bgi_json_more(r, ']', &first);) {
        json_t *item = read_value(r, depth + 1);
        if (item == NULL)
            return false;
        if (json_array_append_new(list, item) != 0)
            return fail_memory(r) != NULL;
    }
    return r->status == BG_OK;
}

static bool read_pairs(bgi_json_reader *r, json_t *object, int depth)
{
    for (bool first = true; bgi_json_more(r, '}', &first);) {
        json_t *item;
        char *key;
        bool is_kept;

        if (!bgi_json_key(r))
            return false;
        if (json_object_get(object, r->text.data) != NULL)
            return bgi_json_fail(r, "the key `%.100s` occurs twice (a duplicate)", r->text.data);
        key = strdup(r->text.data);
        item = key != NULL ? read_value(r, depth + 1) : fail_memory(r);
        is_kept = item != NULL && json_object_set_new_nocheck(object, key, item) == 0;
        free(key);
        if (!is_kept)
            return fail_memory(r) != NULL;
    }
    return r->status == BG_OK;
}

static json_t *read_number(bgi_json_reader *r)
{
    int64_t integer = 0;
    double real = 0;
    bool is_real;

    if (!bgi_json_number(r, &integer, &real, &is_real))
        return NULL;
    return is_real ? json_real(real) : json_integer(integer);
}

static json_t *read_list(bgi_json_reader *r, char bracket, int depth)
{
    json_t *value;

    if (depth > DEPTH_LIMIT) {
        bgi_json_fail(r, "objects and lists are nested deeper than %d levels", DEPTH_LIMIT);
        return NULL;
    }
    if (!bgi_json_enter(r, bracket))
        return NULL;
    value = bracket == '{' ? json_object() : json_array();
    if (value != NULL && !(bracket == '{' ? read_pairs(r, value, depth) : read_items(r, value, depth))) {
        json_decref(value);
        return NULL;
    }
    return value;
}

/* Reads a value; returns NULL if the reader has an error. */
static json_t *read_value(bgi_json_reader *r, int depth)
{
    const char c = bgi_json_peek(r);
    json_t *value = NULL;

    if (c == '{' || c == '[')
        value = read_list(r, c, depth);
    else if (c == '"')
        value = bgi_json_string(r) ? json_stringn_nocheck(r->text.data, r->text.length) : NULL;
    else if (c == 't')
        value = bgi_json_word(r, "true") ? json_true() : NULL;
    else if (c == 'f')
        value = bgi_json_word(r, "false") ? json_false() : NULL;
    else if (c == 'n')
        value = bgi_json_word(r, "null") ? json_null() : NULL;
    else if (c == '-' || (c >= '0' && c <= '9'))
        value = read_number(r);
    else
        bgi_json_skip(r); /* reports what was found instead */
    return value != NULL ? value : fail_memory(r);
}

bg_status bgi_json_parse(const char *name, const char *text, size_t size_bytes, json_t **out, bg_error *error)
{
    bgi_json_reader *r = malloc(sizeof *r);
    bgi_input input = {.name = NULL};
    json_t *value = NULL;
    bg_status status;

    if (r == NULL || bgi_input_over(&input, name, text, size_bytes, error) != BG_OK) {
        free(r);
        return bgi_error_memory(error, name, sizeof *r);
    }
    bgi_json_begin(r, &input, 0, size_bytes, error);
    value = read_value(r, 0);
    status = bgi_json_end(r);
    bgi_input_close(&input);
    free(r);
    if (status == BG_OK)
        *out = value;
    else
        json_decref(value);
    return status;
}

static json_t *copy_item(const json_t *value, bool is_deep)
{
    return is_deep ? bgi_json_copy(value, true) : json_incref((json_t *)(uintptr_t)value);
}

json_t *bgi_json_copy(const json_t *value, bool is_deep)
{
    json_t *source = (json_t *)(uintptr_t)value, *copy;
    bool is_good = true;

    if (!json_is_object(value) && !json_is_array(value))
        return json_deep_copy(value); /* a scalar is one allocation, which jansson checks */
    copy = json_is_object(value) ? json_object() : json_array();
    for (size_t i = 0; copy != NULL && is_good && i < json_array_size(value); i++)
        is_good = json_array_append_new(copy, copy_item(json_array_get(value, i), is_deep)) == 0;
    for (void *at = json_object_iter(source); copy != NULL && is_good && at != NULL;
         at = json_object_iter_next(source, at))
        is_good = json_object_set_new_nocheck(copy, json_object_iter_key(at),
                                              copy_item(json_object_iter_value(at), is_deep)) == 0;
    if (!is_good) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

bool bgi_json_find_integer(const json_t *object, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(object, key);

    *out = json_integer_value(value);
    return json_is_integer(value);
}
