/*
 * json_tree.h: parses JSON into a tree of jansson's. jansson's own parser is not used, because without memory it drops
 * parts of strings and numbers, or reports bad syntax.
 */
#ifndef BGI_FORMATS_JSON_TREE_H
#define BGI_FORMATS_JSON_TREE_H

#include <jansson.h>

#include <brigade/base.h>

/* A repeated key is refused. `name` begins the error messages: "name:line:column: not JSON: ...", BG_ERROR_PARSE, or
 * BG_ERROR_MEMORY. */
bg_status bgi_json_parse(const char *name, const char *text, size_t size_bytes, json_t **out, bg_error *error);

/* Copies the outermost level (values are shared) or everything; NULL: memory is out. jansson's own copies omit what
 * they have no memory for. */
json_t *bgi_json_copy(const json_t *value, bool is_deep);

/* Finds the integer of an object's key; returns false if there is none. */
bool bgi_json_find_integer(const json_t *object, const char *key, int64_t *out);

#endif
