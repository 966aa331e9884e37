/*
 * json_tree.h: parses JSON into a jansson tree. jansson's own parser is not used, because when memory is exhausted it
 * may drop parts of strings or report bad syntax.
 */
#ifndef BGI_FORMATS_JSON_TREE_H
#define BGI_FORMATS_JSON_TREE_H

#include <jansson.h>

#include <brigade/base.h>

/* Parses JSON; a repeated key is an error. Errors: BG_ERROR_PARSE, with a message that begins with "name:line:column:
 * not JSON: ", and BG_ERROR_MEMORY. */
bg_status bgi_json_parse(const char *name, const char *text, size_t size_bytes, json_t **out, bg_error *error);

/* Copies the whole tree if `is_deep` is true, otherwise the outermost level, which then shares its values. Returns NULL
 * if memory is exhausted, whereas jansson's own functions return incomplete copies. */
json_t *bgi_json_copy(const json_t *value, bool is_deep);

/* Finds the integer of an object's key; returns false if there is none. */
bool bgi_json_find_integer(const json_t *object, const char *key, int64_t *out);

#endif
