/*
 * document.h: JSON and YAML files as one kind of tree (jansson's), with the positions of keys, so that later errors can
 * name the position.
 */
#ifndef BGI_CONFIG_DOCUMENT_H
#define BGI_CONFIG_DOCUMENT_H

#include <jansson.h>

#include <brigade/base.h>

#include "core/text.h"

enum { BGI_DOCUMENT_LIMIT_BYTES = 1 << 20, BGI_DOCUMENT_DEPTH = 32 };

/* All-zero is valid and empty. */
typedef struct bgi_document {
    json_t *root; /* an object */
    /* key: "line:column". JSON: of the outermost map's keys. YAML: of all, those inside as "outer.inner". */
    json_t *places;
} bgi_document;

/* `name` begins the errors: "name:line:column: ...", BG_ERROR_PARSE. Duplicate keys are refused, as is text that is
 * longer or deeper than the limits. */
bg_status bgi_document_parse_json(const char *text, size_t size_bytes, const char *name, bgi_document *out,
                                  bg_error *error);
/* Strict YAML: no anchors, aliases, tags, merge keys or second documents, and no plain words that are true or false to
 * some readers only (yes, no, on, off). */
bg_status bgi_document_parse_yaml(const char *text, size_t size_bytes, const char *name, bgi_document *out,
                                  bg_error *error);
/* From a file: YAML where the name ends in .yaml or .yml. */
bg_status bgi_document_load(const char *path, bgi_document *out, bg_error *error);
bool bgi_document_is_yaml(const char *path);
void bgi_document_clear(bgi_document *document);

/* Laid out as Python's json.dumps(indent=2, sort_keys=True) does it, and ending in a new line. */
void bgi_document_print_json(bgi_string *text, const json_t *value);
/* One key of the object a line; values in one line. */
void bgi_document_print_yaml(bgi_string *text, const json_t *object);
/* In one line: [1, 2]. JSON and YAML alike. */
void bgi_json_print(bgi_string *text, const json_t *value);

#endif
