/*
 * tokenizer_read.c: reads vocabularies and merges. In both, a byte is written as a character. Printable bytes of
 * Latin-1 are written as themselves, and the others as the characters from 256 on, in order; a space is "Ġ".
 *
 *     vocab.json {"!": 0, ..., "Ġthe": 262, ...}       merges.txt   Ġ t
 *                                                                   Ġt he
 *
 * Files are checked: the tokens are the numbers from 0 on, each once; each byte has a token; merges name tokens of the
 * vocabulary.
 */
#include "data/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "formats/json_tree.h"
#include "core/file.h"
#include "data/unicode.h"

enum { FILE_LIMIT_BYTES = 1 << 28, BYTE_CHARACTERS = 512 };

/* A tokenizer while it is read. */
typedef struct reader {
    const char *name; /* name of the file that is being read */
    json_t *vocab;    /* the object, borrowed */
    json_t *unknown;  /* added tokens that the vocabulary does not have, and their numbers */
    bg_tokenizer *tokenizer;
    bg_error *error;
} reader;

/* ---- bytes as characters ---- */

static bool prints(unsigned byte)
{
    return (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
}

static uint32_t character_of(unsigned byte)
{
    uint32_t character = 256;

    if (prints(byte))
        return byte;
    for (unsigned i = 0; i < byte; i++)
        character += !prints(i);
    return character;
}

typedef struct byte_map {
    int bytes[BYTE_CHARACTERS]; /* the byte that a character represents; -1: none */
} byte_map;

static void make_map(byte_map *map)
{
    for (int i = 0; i < BYTE_CHARACTERS; i++)
        map->bytes[i] = -1;
    for (unsigned byte = 0; byte < 256; byte++)
        map->bytes[character_of(byte)] = (int)byte;
}

/* Converts a string of such characters to bytes. Returns false if it has other characters. `out` has the size of the
 * string. */
static bool read_bytes(const byte_map *map, const char *string, char *out, uint32_t *out_size_bytes)
{
    const unsigned char *text = (const unsigned char *)string;
    size_t left = strlen(string), length;
    uint32_t count = 0;

    for (; left > 0; text += length, left -= length) {
        const uint32_t character = bgi_utf8_read(text, left, &length);

        if (character >= BYTE_CHARACTERS || map->bytes[character] < 0)
            return false;
        out[count++] = (char)map->bytes[character];
    }
    *out_size_bytes = count;
    return true;
}

/* ---- tokens ---- */

static bg_status add_piece(const reader *r, const char *key, const json_t *number, const char *data,
                           uint32_t size_bytes)
{
    const uint32_t count = r->tokenizer->count;
    bgi_piece *piece;

    if (!json_is_integer(number) || json_integer_value(number) < 0 || json_integer_value(number) >= (json_int_t)count)
        return bg_error_set(
            r->error, BG_ERROR_PARSE,
            "%s: the number of token `%.100s` must be a whole number from 0 to %u, because there are %u tokens",
            r->name, key, count - 1, count);
    piece = &r->tokenizer->pieces[json_integer_value(number)];
    if (piece->data != NULL)
        return bg_error_set(r->error, BG_ERROR_PARSE,
                            "%s: token `%.100s` has number %" JSON_INTEGER_FORMAT
                            ", and another token has the same number",
                            r->name, key, json_integer_value(number));
    piece->data = bgi_arena_copy(&r->tokenizer->arena, data, size_bytes);
    piece->size_bytes = size_bytes;
    return piece->data != NULL ? BG_OK : bgi_error_memory(r->error, "a token", size_bytes);
}

static bg_status add_vocabulary(const reader *r, const byte_map *map)
{
    size_t longest = 0;
    bg_status status = BG_OK;
    const char *key;
    json_t *number;
    char *bytes;

    json_object_foreach(r->vocab, key, number) longest = strlen(key) > longest ? strlen(key) : longest;
    bytes = malloc(longest + 1);
    if (bytes == NULL)
        return bgi_error_memory(r->error, "a token", longest);
    json_object_foreach(r->vocab, key, number)
    {
        uint32_t size_bytes = 0;

        if (key[0] == '\0' || !read_bytes(map, key, bytes, &size_bytes))
            status = bg_error_set(r->error, BG_ERROR_PARSE,
                                  "%s: token `%.100s` is empty, or has characters that do not represent bytes", r->name,
                                  key);
        else
            status = add_piece(r, key, number, bytes, size_bytes);
        if (status != BG_OK)
            break;
        if (size_bytes == 1)
            r->tokenizer->byte_tokens[(unsigned char)bytes[0]] = (uint32_t)json_integer_value(number);
    }
    free(bytes);
    return status;
}

static bg_status check_tokens(const reader *r)
{
    const bg_tokenizer *tokenizer = r->tokenizer;

    for (unsigned byte = 0; byte < 256; byte++)
        if (tokenizer->byte_tokens[byte] == BGI_NO_TOKEN)
            return bg_error_set(r->error, BG_ERROR_PARSE, "%s: there is no token for byte 0x%02x", r->name, byte);
    for (uint32_t i = 0; i < tokenizer->count; i++)
        if (tokenizer->pieces[i].data == NULL)
            return bg_error_set(r->error, BG_ERROR_PARSE,
                                "%s: token %u is missing, but there are tokens with larger numbers", r->name, i);
    return BG_OK;
}

/* ---- merges ---- */

static bool find_token(const reader *r, const char *key, uint32_t *out)
{
    const json_t *number = json_object_get(r->vocab, key);

    *out = (uint32_t)json_integer_value(number);
    return number != NULL;
}

/* Adds a merge. `place` is the merge's position in the file, for errors. */
static bg_status add_merge(const reader *r, const char *place, const char *left, const char *right)
{
    const size_t left_bytes = strlen(left), right_bytes = strlen(right);
    char *merged = malloc(left_bytes + right_bytes + 1);
    uint32_t tokens[3] = {0};
    const char *missing = NULL;
    bg_status status = BG_OK;

    if (merged == NULL)
        return bgi_error_memory(r->error, "a merge", left_bytes + right_bytes);
    memcpy(merged, left, left_bytes);
    memcpy(merged + left_bytes, right, right_bytes + 1);
    for (int i = 0; i < 3 && missing == NULL; i++) {
        const char *key = i == 0 ? left : i == 1 ? right : merged;
        if (!find_token(r, key, &tokens[i]))
            missing = key;
    }
    if (missing != NULL)
        status =
            bg_error_set(r->error, BG_ERROR_PARSE, "%s:%s: `%.100s` is not in the vocabulary", r->name, place, missing);
    else
        bgi_tokenizer_add_merge(r->tokenizer, tokens[0], tokens[1], tokens[2]);
    free(merged);
    return status;
}

/* Reads "left right", whose space becomes the end of `left`. */
static bg_status add_merge_line(const reader *r, const char *place, char *line)
{
    char *space = strchr(line, ' ');

    if (space == NULL || space == line || space[1] == '\0' || strchr(space + 1, ' ') != NULL)
        return bg_error_set(r->error, BG_ERROR_PARSE, "%s:%s: `%.100s` must be two tokens with one space between them",
                            r->name, place, line);
    *space = '\0';
    return add_merge(r, place, line, space + 1);
}

/* Returns the line that begins at *at, and moves *at behind it. The line's end is overwritten with a zero byte, and the
 * text must end with one. */
static char *take_line(char **at, const char *end)
{
    char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));

    if (stop == NULL)
        stop = *at = (char *)end;
    else
        *at = stop + 1;
    *stop = '\0';
    if (stop > line && stop[-1] == '\r')
        stop[-1] = '\0';
    return line;
}

static bg_status add_merge_lines(const reader *r, const char *merges, size_t size_bytes)
{
    char *text = malloc(size_bytes + 1), *at = text;
    bg_status status = BG_OK;

    if (text == NULL)
        return bgi_error_memory(r->error, "merges", size_bytes);
    memcpy(text, merges, size_bytes);
    text[size_bytes] = '\0';
    for (unsigned long number = 1; status == BG_OK && at < text + size_bytes; number++) {
        char *line = take_line(&at, text + size_bytes), place[32];

        /* The first line of a file may contain its version. */
        if (line[0] == '\0' || (number == 1 && strncmp(line, "#version", 8) == 0))
            continue;
        snprintf(place, sizeof place, "%lu:1", number);
        status = add_merge_line(r, place, line);
    }
    free(text);
    return status;
}

/* Adds a merge from "left right" or ["left", "right"]. */
static bg_status add_merge_item(const reader *r, size_t index, const json_t *item)
{
    const char *left = json_string_value(json_array_get(item, 0)), *right = json_string_value(json_array_get(item, 1));
    char place[48];
    bg_status status;
    char *line;

    snprintf(place, sizeof place, " merge %zu", index);
    if (json_array_size(item) == 2 && left != NULL && right != NULL)
        return add_merge(r, place, left, right);
    if (!json_is_string(item))
        return bg_error_set(r->error, BG_ERROR_PARSE, "%s:%s must be a string or a list of two strings", r->name,
                            place);
    line = strdup(json_string_value(item));
    if (line == NULL)
        return bgi_error_memory(r->error, "a merge", json_string_length(item));
    status = add_merge_line(r, place, line);
    free(line);
    return status;
}

/* ---- vocab.json and merges.txt ---- */

static uint32_t count_lines(const char *text, size_t size_bytes)
{
    uint32_t count = 1;

    for (size_t i = 0; i < size_bytes; i++)
        count += text[i] == '\n';
    return count;
}

static bg_status read_files(reader *r, const char *merges_name, const char *merges, size_t merges_bytes)
{
    bg_tokenizer *tokenizer = r->tokenizer;
    byte_map map;

    make_map(&map);
    BGI_TRY(add_vocabulary(r, &map));
    BGI_TRY(check_tokens(r));
    r->name = merges_name;
    BGI_TRY(add_merge_lines(r, merges, merges_bytes));
    if (find_token(r, BGI_END_OF_TEXT, &tokenizer->end_of_text)) {
        tokenizer->special = bgi_arena_copy(&tokenizer->arena, &tokenizer->end_of_text, sizeof *tokenizer->special);
        if (tokenizer->special == NULL)
            return bgi_error_memory(r->error, "a token", sizeof *tokenizer->special);
        tokenizer->special_count = 1;
    } else {
        tokenizer->end_of_text = BGI_NO_TOKEN;
    }
    return BG_OK;
}

static bg_status check_vocabulary(const char *name, const json_t *vocab, bg_error *error)
{
    if (!json_is_object(vocab) || json_object_size(vocab) == 0 || json_object_size(vocab) > INT32_MAX)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: the file must be an object of tokens and their numbers", name);
    return BG_OK;
}

bg_status bgi_tokenizer_parse_files(const char *vocab_name, const char *vocab, size_t vocab_bytes,
                                    const char *merges_name, const char *merges, size_t merges_bytes,
                                    bg_tokenizer **out, bg_error *error)
{
    reader r = {.name = vocab_name, .error = error};
    bg_status status = bgi_json_parse(vocab_name, vocab, vocab_bytes, &r.vocab, error);

    if (status == BG_OK)
        status = check_vocabulary(vocab_name, r.vocab, error);
    if (status == BG_OK)
        status = bgi_tokenizer_allocate((uint32_t)json_object_size(r.vocab), count_lines(merges, merges_bytes),
                                        &r.tokenizer, error);
    if (status == BG_OK)
        status = read_files(&r, merges_name, merges, merges_bytes);
    json_decref(r.vocab);
    if (status == BG_OK)
        *out = r.tokenizer;
    else
        bg_tokenizer_destroy(r.tokenizer);
    return status;
}

/* ---- tokenizer.json ---- */

static bg_status refuse(const reader *r, const char *what)
{
    return bg_error_set(r->error, BG_ERROR_UNSUPPORTED, "%s: %s; only GPT-2's byte-level pair encoding is read",
                        r->name, what);
}

static bool is_word(const json_t *object, const char *key, const char *wanted)
{
    const char *word = json_string_value(json_object_get(object, key));

    return word != NULL && strcmp(word, wanted) == 0;
}

static bool is_set(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return value != NULL && !json_is_null(value) && !json_is_false(value) &&
           !(json_is_string(value) && json_string_length(value) == 0);
}

static bg_status check_kind(const reader *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *cutter = json_object_get(root, "pre_tokenizer");

    /* GPT-2's own file is older than the key `type`, and does not have it. */
    if (!is_word(model, "type", "BPE") && (json_object_get(model, "type") != NULL || !json_is_object(model)))
        return refuse(r, "`model.type` is not `BPE`");
    if (is_set(model, "dropout") || is_set(model, "continuing_subword_prefix") || is_set(model, "end_of_word_suffix") ||
        is_set(model, "byte_fallback") || is_set(model, "ignore_merges"))
        return refuse(
            r, "`model` sets dropout, continuing_subword_prefix, end_of_word_suffix, byte_fallback or ignore_merges");
    if (is_set(root, "normalizer"))
        return refuse(r, "`normalizer` changes the text");
    if (!is_word(cutter, "type", "ByteLevel") || json_is_false(json_object_get(cutter, "use_regex")))
        return refuse(r, "`pre_tokenizer` does not cut text into words by GPT-2's pattern (`ByteLevel`)");
    if (is_set(cutter, "add_prefix_space"))
        return refuse(r, "`pre_tokenizer.add_prefix_space` is true, which changes the text");
    return check_vocabulary(r->name, r->vocab, r->error);
}

static bg_status check_added(const reader *r, const json_t *token)
{
    const char *content = json_string_value(json_object_get(token, "content"));

    if (content == NULL || content[0] == '\0' || !json_is_integer(json_object_get(token, "id")))
        return bg_error_set(r->error, BG_ERROR_PARSE,
                            "%s: an item of `added_tokens` must have a text `content` and a whole number `id`",
                            r->name);
    if (is_set(token, "lstrip") || is_set(token, "rstrip") || is_set(token, "single_word"))
        return refuse(r, "an item of `added_tokens` has lstrip, rstrip or single_word");
    return BG_OK;
}

static int compare_lengths(const void *a, const void *b)
{
    const bgi_piece *x = a, *y = b;

    return x->size_bytes != y->size_bytes ? (x->size_bytes > y->size_bytes ? -1 : 1)
                                          : memcmp(x->data, y->data, x->size_bytes);
}

/* Sorts the special tokens, the longest first. */
static bg_status sort_special(const reader *r)
{
    bg_tokenizer *tokenizer = r->tokenizer;
    typedef struct item {
        bgi_piece piece; /* the first member, for compare_lengths */
        uint32_t token;
    } item;
    item *items = calloc((size_t)tokenizer->special_count + 1, sizeof *items);

    if (items == NULL)
        return bgi_error_memory(r->error, "special tokens", tokenizer->special_count * sizeof *items);
    for (uint32_t i = 0; i < tokenizer->special_count; i++)
        items[i] = (item){tokenizer->pieces[tokenizer->special[i]], tokenizer->special[i]};
    qsort(items, tokenizer->special_count, sizeof *items, compare_lengths);
    for (uint32_t i = 0; i < tokenizer->special_count; i++)
        tokenizer->special[i] = items[i].token;
    free(items);
    return BG_OK;
}

/* Adds tokens that are matched as text. A token that the vocabulary has, or an earlier item, must have the same number
 * there. */
static bg_status add_added(const reader *r, const json_t *added)
{
    bg_tokenizer *tokenizer = r->tokenizer;
    size_t index;
    json_t *token;

    tokenizer->special = bgi_arena_allocate(&tokenizer->arena, json_array_size(added), sizeof *tokenizer->special);
    if (tokenizer->special == NULL)
        return bgi_error_memory(r->error, "added tokens", json_array_size(added));
    json_array_foreach(added, index, token)
    {
        const char *content = json_string_value(json_object_get(token, "content"));
        const json_t *number = json_object_get(token, "id"), *known = json_object_get(r->vocab, content);
        const json_t *first = json_object_get(r->unknown, content);

        if (first == number) /* the same object, so this is the first item with the token */
            BGI_TRY(add_piece(r, content, number, content, (uint32_t)strlen(content)));
        else if (!json_equal(known != NULL ? known : first, number))
            return bg_error_set(r->error, BG_ERROR_PARSE, "%s: added token `%.100s` has another number in %s", r->name,
                                content, known != NULL ? "the vocabulary" : "another item of `added_tokens`");
        tokenizer->special[tokenizer->special_count++] = (uint32_t)json_integer_value(number);
        if (strcmp(content, BGI_END_OF_TEXT) == 0)
            tokenizer->end_of_text = (uint32_t)json_integer_value(number);
    }
    return sort_special(r);
}

static bg_status read_json(const reader *r, const json_t *merges, const json_t *added)
{
    byte_map map;
    size_t index;
    json_t *item;

    make_map(&map);
    BGI_TRY(add_vocabulary(r, &map));
    BGI_TRY(add_added(r, added));
    BGI_TRY(check_tokens(r));
    json_array_foreach(merges, index, item) BGI_TRY(add_merge_item(r, index, item));
    return BG_OK;
}

/* Checks the added tokens, and lists those that the vocabulary does not have. */
static bg_status list_unknown(const reader *r, const json_t *added)
{
    size_t index;
    json_t *token;

    json_array_foreach(added, index, token)
    {
        const char *content;
        BGI_TRY(check_added(r, token));
        content = json_string_value(json_object_get(token, "content"));
        if (json_object_get(r->vocab, content) == NULL && json_object_get(r->unknown, content) == NULL &&
            json_object_set_nocheck(r->unknown, content, json_object_get(token, "id")) != 0)
            return bgi_error_memory(r->error, "added tokens", 0);
    }
    return BG_OK;
}

static bg_status parse_root(reader *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *merges = json_object_get(model, "merges");
    const json_t *added = json_object_get(root, "added_tokens");
    size_t count;

    r->vocab = json_object_get(model, "vocab");
    BGI_TRY(check_kind(r, root));
    if (!json_is_array(merges))
        return bg_error_set(r->error, BG_ERROR_PARSE, "%s: has no array `model.merges`", r->name);
    r->unknown = json_object();
    if (r->unknown == NULL)
        return bgi_error_memory(r->error, "added tokens", 0);
    BGI_TRY(list_unknown(r, added));
    count = json_object_size(r->vocab) + json_object_size(r->unknown);
    BGI_TRY(bgi_tokenizer_allocate((uint32_t)count, (uint32_t)json_array_size(merges), &r->tokenizer, r->error));
    return read_json(r, merges, added);
}

bg_status bgi_tokenizer_parse_json(const char *name, const char *text, size_t size_bytes, bg_tokenizer **out,
                                   bg_error *error)
{
    reader r = {.name = name, .error = error};
    json_t *root;
    bg_status status;

    BGI_TRY(bgi_json_parse(name, text, size_bytes, &root, error));
    status = parse_root(&r, root);
    json_decref(r.unknown);
    json_decref(root);
    if (status == BG_OK)
        *out = r.tokenizer;
    else
        bg_tokenizer_destroy(r.tokenizer);
    return status;
}

/* ---- folders ---- */

static bg_status open_files(const char *vocab_path, const char *merges_path, bg_tokenizer **out, bg_error *error)
{
    char *vocab = NULL, *merges = NULL;
    size_t vocab_bytes, merges_bytes;
    bg_status status = bgi_file_load(vocab_path, FILE_LIMIT_BYTES, &vocab, &vocab_bytes, error);

    if (status == BG_OK)
        status = bgi_file_load(merges_path, FILE_LIMIT_BYTES, &merges, &merges_bytes, error);
    if (status == BG_OK)
        status =
            bgi_tokenizer_parse_files(vocab_path, vocab, vocab_bytes, merges_path, merges, merges_bytes, out, error);
    free(merges);
    free(vocab);
    return status;
}

static bg_status open_json(const char *path, bg_tokenizer **out, bg_error *error)
{
    char *text;
    size_t size_bytes;
    bg_status status;

    BGI_TRY(bgi_file_load(path, FILE_LIMIT_BYTES, &text, &size_bytes, error));
    status = bgi_tokenizer_parse_json(path, text, size_bytes, out, error);
    free(text);
    return status;
}

bg_status bg_tokenizer_open(const char *directory, bg_tokenizer **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(directory, "directory", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    char *json = bgi_path_join(directory, BGI_TOKENIZER_JSON), *vocab = bgi_path_join(directory, BGI_TOKENIZER_VOCAB);
    char *merges = bgi_path_join(directory, BGI_TOKENIZER_MERGES);
    bg_status status;

    if (json == NULL || vocab == NULL || merges == NULL)
        status = bgi_error_memory(error, "a path", strlen(directory));
    else if (bgi_file_exists(json))
        status = open_json(json, out, error);
    else if (bgi_file_exists(vocab))
        status = open_files(vocab, merges, out, error);
    else
        status = bg_error_set(error, BG_ERROR_NOT_FOUND, "%s: has no tokenizer: neither %s nor %s and %s", directory,
                              BGI_TOKENIZER_JSON, BGI_TOKENIZER_VOCAB, BGI_TOKENIZER_MERGES);
    free(json);
    free(vocab);
    free(merges);
    return status;
}
