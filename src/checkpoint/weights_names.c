/*
 * weights_names.c: applies rules that change names, and patterns that exclude names.
 */
#include "checkpoint/weights_names.h"

#include <string.h>

#include "core/error.h"

static uint32_t count_stars(const char *text)
{
    uint32_t count = 0;

    for (; *text != '\0'; text++)
        count += *text == '*';
    return count;
}

bg_status bgi_weights_renames_check(const bg_weights_rename *renames, uint32_t count, bg_error *error)
{
    if (count > 0 && renames == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "options.rename_count is %u, but options.renames is NULL", count);
    for (uint32_t i = 0; i < count; i++) {
        const char *in_file = renames[i].in_file, *in_model = renames[i].in_model;
        if (in_file == NULL || in_model == NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "options.renames[%u]: a name is NULL but both must be given",
                                i);
        if (count_stars(in_file) > 1 || count_stars(in_file) != count_stars(in_model))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "options.renames[%u]: `%s` and `%s` must each have one `*`, or both none", i, in_file,
                                in_model);
    }
    return BG_OK;
}

/* Whether a pattern with at most one `*` matches. Also finds the text that the star stands for. */
static bool take_star(const char *pattern, const char *name, const char **out_star, size_t *out_length)
{
    const char *star = strchr(pattern, '*');
    const size_t length = strlen(name);
    size_t before, after;

    if (star == NULL) {
        *out_star = name;
        *out_length = 0;
        return strcmp(pattern, name) == 0;
    }
    before = (size_t)(star - pattern);
    after = strlen(star + 1);
    *out_star = name + before;
    *out_length = length - before - after;
    return length >= before + after && strncmp(pattern, name, before) == 0 &&
           strcmp(star + 1, name + length - after) == 0;
}

const char *bgi_weights_rename_name(const bg_weights_rename *renames, uint32_t count, bool to_model, const char *name,
                                    bgi_arena *arena)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *from = to_model ? renames[i].in_file : renames[i].in_model;
        const char *to = to_model ? renames[i].in_model : renames[i].in_file;
        const char *star = strchr(to, '*'), *kept;
        size_t length;
        if (!take_star(from, name, &kept, &length))
            continue;
        if (star == NULL)
            return bgi_arena_string(arena, to);
        return bgi_arena_format(arena, "%.*s%.*s%s", (int)(star - to), to, (int)length, kept, star + 1);
    }
    return name;
}

/* Matches a pattern of `length` bytes. After a mismatch it returns to the last star and gives it one more character. */
static bool matches(const char *pattern, size_t length, const char *name)
{
    size_t at = 0, star = length, after_star = 0, i = 0;

    while (name[i] != '\0') {
        if (at < length && pattern[at] == '*') {
            star = at++;
            after_star = i;
        } else if (at < length && pattern[at] == name[i]) {
            at++;
            i++;
        } else if (star < length) {
            at = star + 1;
            i = ++after_star;
        } else {
            return false;
        }
    }
    while (at < length && pattern[at] == '*')
        at++;
    return at == length;
}

bool bgi_weights_names_match(const char *patterns, const char *name)
{
    for (const char *next = patterns; next != NULL && *next != '\0';) {
        const char *end = strchr(next, ',');
        if (matches(next, end != NULL ? (size_t)(end - next) : strlen(next), name))
            return true;
        next = end != NULL ? end + 1 : NULL;
    }
    return false;
}
