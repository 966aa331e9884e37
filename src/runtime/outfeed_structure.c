/*
 * outfeed_structure.c: reads "({a: x, b: (y, z)}, loss)" into leaves with paths.
 *
 *     value  = name | "(" list ")" | "{" pairs "}"        list  = value { "," value }
 *     pairs  = pair { "," pair }                          pair  = name [ ":" value ]
 *
 * Names, like those of outputs, consist of letters, digits and _ . @ - /; keys have no /.
 */
#include "runtime/feed.h"

#include <ctype.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"

enum { MOST_LEAVES = 64, MOST_DEPTH = 16 };

typedef struct reader {
    bg_outfeed *outfeed;
    const char *text, *at;
    bgi_string written; /* the structure with all keys */
    bg_error *error;
} reader;

static bg_status complain(const reader *r, const char *wanted)
{
    return bg_error_set(r->error, BG_ERROR_PARSE, "outfeed structure `%s`, character %zu: %s", r->text,
                        (size_t)(r->at - r->text) + 1, wanted);
}

static void skip_spaces(reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool take(reader *r, char wanted)
{
    skip_spaces(r);
    if (*r->at != wanted)
        return false;
    r->at++;
    return true;
}

static bg_status read_name(reader *r, const char **out)
{
    size_t length = 0;

    skip_spaces(r);
    while (isalnum((unsigned char)r->at[length]) || (r->at[length] != '\0' && strchr("_.@-/", r->at[length]) != NULL))
        length++;
    if (length == 0)
        return complain(r, "expected a name, ( or {");
    *out = bgi_arena_format(&r->outfeed->arena, "%.*s", (int)length, r->at);
    if (*out == NULL)
        return bgi_error_memory(r->error, "a name", length);
    r->at += length;
    return BG_OK;
}

static bg_status add_leaf(reader *r, const char *path, const char *output)
{
    bg_outfeed *outfeed = r->outfeed;

    if (outfeed->leaf_count == MOST_LEAVES)
        return bg_error_set(r->error, BG_ERROR_INVALID, "outfeed structure: more than %d leaves", MOST_LEAVES);
    outfeed->leaves[outfeed->leaf_count++] = (bgi_leaf){.path = path, .output = output};
    bgi_string_add(&r->written, "%s", output);
    return BG_OK;
}

static bg_status read_value(reader *r, const char *path, uint32_t depth);

/* Whether a leaf, or a group of leaves, has this path. */
static bool is_taken(const bg_outfeed *outfeed, const char *path)
{
    const size_t length = strlen(path);

    for (uint32_t i = 0; i < outfeed->leaf_count; i++) {
        const char *other = outfeed->leaves[i].path;
        if (strncmp(other, path, length) == 0 && (other[length] == '\0' || other[length] == '/'))
            return true;
    }
    return false;
}

static bg_status read_pair(reader *r, const char *path, uint32_t depth)
{
    const char *key, *inner;

    BGI_TRY(read_name(r, &key));
    if (strchr(key, '/') != NULL)
        return complain(r, "a key must not contain /");
    inner = bgi_arena_format(&r->outfeed->arena, "%s%s%s", path, *path != '\0' ? "/" : "", key);
    if (inner == NULL)
        return bgi_error_memory(r->error, "a path", 0);
    if (is_taken(r->outfeed, inner))
        return complain(r, "this key occurs twice");
    bgi_string_add(&r->written, "%s: ", key);
    return take(r, ':') ? read_value(r, inner, depth) : add_leaf(r, inner, key);
}

static bg_status read_item(reader *r, const char *path, uint32_t number, uint32_t depth)
{
    const char *inner = bgi_arena_format(&r->outfeed->arena, "%s%s%u", path, *path != '\0' ? "/" : "", number);

    return inner != NULL ? read_value(r, inner, depth) : bgi_error_memory(r->error, "a path", 0);
}

static bg_status read_value(reader *r, const char *path, uint32_t depth)
{
    const bool is_tuple = take(r, '('), is_dictionary = !is_tuple && take(r, '{');
    uint32_t count = 0;

    if (!is_tuple && !is_dictionary) {
        const char *output;
        BGI_TRY(read_name(r, &output));
        return add_leaf(r, path, output);
    }
    if (depth == MOST_DEPTH)
        return complain(r, "the structure is nested too deeply");
    bgi_string_add(&r->written, "%c", is_tuple ? '(' : '{');
    do {
        bgi_string_add(&r->written, "%s", count > 0 ? ", " : "");
        BGI_TRY(is_tuple ? read_item(r, path, count, depth + 1) : read_pair(r, path, depth + 1));
        count++;
    } while (take(r, ','));
    if (!take(r, is_tuple ? ')' : '}'))
        return complain(r, is_tuple ? "expected , or )" : "expected , or }");
    bgi_string_add(&r->written, "%c", is_tuple ? ')' : '}');
    return BG_OK;
}

bg_status bgi_outfeed_parse(bg_outfeed *outfeed, const char *text, bg_error *error)
{
    reader r = {.outfeed = outfeed, .text = text, .at = text, .error = error};
    bg_status status;

    outfeed->leaves = bgi_arena_allocate(&outfeed->arena, MOST_LEAVES, sizeof *outfeed->leaves);
    if (outfeed->leaves == NULL)
        return bgi_error_memory(error, "an outfeed's leaves", MOST_LEAVES * sizeof *outfeed->leaves);
    status = read_value(&r, "", 0);
    skip_spaces(&r);
    if (status == BG_OK && *r.at != '\0')
        status = complain(&r, "more text follows the end of the structure");
    if (status == BG_OK && r.written.data != NULL)
        outfeed->structure = bgi_arena_string(&outfeed->arena, r.written.data);
    if (status == BG_OK && outfeed->structure == NULL)
        status = bgi_error_memory(error, "an outfeed's structure", 0);
    bgi_string_clear(&r.written);
    return status;
}
