/*
 * document.h: reads JSON and YAML files as jansson's trees, and records the positions of keys, so that later errors can
 * name them.
 */
#ifndef BGI_CONFIG_DOCUMENT_H
#define BGI_CONFIG_DOCUMENT_H

#include <jansson.h>

#include <brigade/base.h>

#include "core/text.h"

enum { BGI_DOCUMENT_LIMIT_BYTES = 1 << 20, BGI_DOCUMENT_DEPTH = 32 };

/* A zeroed document is valid and empty. */
typedef struct bgi_document {
    json_t *root; /* an object */
    /* Maps keys to their positions, "line:column". In JSON only keys of the outermost map have positions. In YAML all
     * keys have one; keys of inner maps are called "outer.inner". */
    json_t *places;
} bgi_document;

/* Parses a JSON object. Errors: BG_ERROR_PARSE, with the message "name:line:column: ..." ("name: ..." if the text is
 * too long), BG_ERROR_MEMORY. Duplicate keys are refused, as is text that is longer or deeper than the limits. */
bg_status bgi_document_parse_json(const char *text, size_t size_bytes, const char *name, bgi_document *out,
                                  bg_error *error);
/* Parses strict YAML: no anchors, aliases, tags, merge keys or second documents, and no plain words that only some
 * readers take for true or false (yes, no, on, off). */
bg_status bgi_document_parse_yaml(const char *text, size_t size_bytes, const char *name, bgi_document *out,
                                  bg_error *error);
/* Reads a file: YAML when its name ends in .yaml or .yml, otherwise JSON. */
bg_status bgi_document_load(const char *path, bgi_document *out, bg_error *error);
bool bgi_document_is_yaml(const char *path);
void bgi_document_clear(bgi_document *document);

/* Prints like Python's json.dumps(indent=2, sort_keys=True), and ends with a newline. */
void bgi_document_print_json(bgi_string *text, const json_t *value);
/* Prints each key of the object on a line, together with its value. */
void bgi_document_print_yaml(bgi_string *text, const json_t *object);
/* Prints a value in one line, such as [1, 2]. The form is the same for JSON and YAML. */
void bgi_json_print(bgi_string *text, const json_t *value);

#endif
