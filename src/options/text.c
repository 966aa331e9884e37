/*
 * text.c: converts an option from and to a string.
 */
#include "options/table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/schedule.h>

#include "core/error.h"
#include "options/choices.h"

/* ---- choices ---- */

/* Compares names without regard to letter case and separators between words, so "EveryN" equals "every_n". */
static bool is_same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += *a == '_' || *a == '-';
        b += *b == '_' || *b == '-';
        if ((*a >= 'A' && *a <= 'Z' ? *a + 32 : *a) != (*b >= 'A' && *b <= 'Z' ? *b + 32 : *b))
            return false;
        if (*a == '\0')
            return true;
    }
}

/* Finds a choice by name. PopTorch's names have a class before a dot, as in "OutputMode.EveryN", which is ignored. */
static bool find_choice(const bgi_choices *choices, const char *text, int *out)
{
    const char *dot = strrchr(text, '.');

    text = dot != NULL ? dot + 1 : text;
    for (uint32_t value = 0; value < choices->count; value++)
        if (choices->names[value] != NULL && is_same_name(choices->names[value], text)) {
            *out = (int)value;
            return true;
        }
    for (const bgi_synonym *synonym = choices->synonyms; synonym != NULL && synonym->name != NULL; synonym++)
        if (is_same_name(synonym->name, text)) {
            *out = synonym->value;
            return true;
        }
    return false;
}

void bgi_option_print_choices(const bgi_option *option, bgi_string *text)
{
    const char *separator = "";

    for (uint32_t value = 0; option->choices != NULL && value < option->choices->count; value++)
        if (option->choices->names[value] != NULL) {
            bgi_string_add(text, "%s%s", separator, option->choices->names[value]);
            separator = ", ";
        }
}

void bgi_option_print_constants(const bgi_option *option, bgi_string *text)
{
    const char *separator = "";

    for (uint32_t value = 0; option->choices != NULL && value < option->choices->count; value++)
        if (option->choices->constants[value] != NULL) {
            bgi_string_add(text, "%s%s", separator, option->choices->constants[value]);
            separator = ", ";
        }
}

/* ---- from text ---- */

static bool read_whole(const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    uintmax_t value;

    errno = 0;
    value = strtoumax(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno == ERANGE || value > most)
        return false;
    *out = value;
    return true;
}

static bool read_integer(const char *text, int32_t *out)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno == ERANGE || value < INT32_MIN || value > INT32_MAX)
        return false;
    *out = (int32_t)value;
    return true;
}

static bool read_real(const char *text, double *out)
{
    char *end;
    const double real = bgi_text_real(text, &end);

    if (end == text || *end != '\0' || strspn(text, "0123456789.eE+-") != strlen(text) || !isfinite(real))
        return false;
    *out = real;
    return true;
}

/* Reads "0,1,1,0", also with blanks and brackets; "" is an empty list. */
static bg_status set_list(const bgi_option *option, const char *text, bg_options *options, bgi_arena *arena,
                          bg_error *error)
{
    const bool is_real = option->kind == BGI_OPTION_REALS;
    char *copy = bgi_arena_string(arena, text), *rest = NULL;
    double *reals = bgi_arena_allocate(arena, strlen(text) / 2 + 1, sizeof *reals);
    uint32_t *counts = bgi_arena_allocate(arena, strlen(text) / 2 + 1, sizeof *counts);
    uint32_t count = 0;

    if (copy == NULL || reals == NULL || counts == NULL)
        return bgi_error_memory(error, "options", strlen(text));
    for (char *word = strtok_r(copy, ", []", &rest); word != NULL; word = strtok_r(NULL, ", []", &rest), count++) {
        uint64_t whole = 0;
        if (is_real ? !read_real(word, &reals[count]) : !read_whole(word, UINT32_MAX, &whole))
            return bgi_option_refuse(option, text, error);
        counts[count] = (uint32_t)whole;
    }
    *(const void **)(void *)((char *)options + option->offset) = count == 0 ? NULL
                                                                 : is_real  ? (const void *)reals
                                                                            : (const void *)counts;
    *(uint32_t *)(void *)((char *)options + option->count_offset) = count;
    return BG_OK;
}

static bool set_value(const bgi_option *option, const char *text, void *at)
{
    uint64_t whole = 0;

    switch (option->kind) {
    case BGI_OPTION_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "True") != 0 && strcmp(text, "false") != 0 &&
            strcmp(text, "False") != 0)
            return false;
        *(bool *)at = text[0] == 't' || text[0] == 'T';
        return true;
    case BGI_OPTION_COUNT:
        if (!read_whole(text, UINT32_MAX, &whole))
            return false;
        *(uint32_t *)at = (uint32_t)whole;
        return true;
    case BGI_OPTION_SIZE:
        if (!read_whole(text, SIZE_MAX, &whole))
            return false;
        *(size_t *)at = (size_t)whole;
        return true;
    case BGI_OPTION_SEED:
        return read_whole(text, UINT64_MAX, (uint64_t *)at);
    case BGI_OPTION_INTEGER:
        return read_integer(text, at);
    case BGI_OPTION_REAL:
        return read_real(text, at);
    case BGI_OPTION_CHOICE:
    case BGI_OPTION_DTYPE:
        return find_choice(option->choices, text, at);
    case BGI_OPTION_SCHEDULE:
        if (text[0] != '\0' && bg_schedule_generator_find(text) == NULL)
            return false;
        *(const char **)at = text[0] != '\0' ? bg_schedule_generator_find(text)->name : NULL;
        return true;
    case BGI_OPTION_TEXT:
        *(const char **)at = text[0] != '\0' ? text : NULL;
        return true;
    default:
        return false;
    }
}

bg_status bgi_option_set(const bgi_option *option, bg_options *options, bgi_arena *arena, const char *text,
                         bg_error *error)
{
    if (!bgi_option_has_text(option))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "option `%s` cannot be set as text; set it in C, in bg_options", option->name);
    if (option->kind == BGI_OPTION_COUNTS || option->kind == BGI_OPTION_REALS) {
        if (arena == NULL)
            return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                                "option `%s` is a list, which a plain struct does not own; set it in C, or with "
                                "bg_run_options_set",
                                option->name);
        return set_list(option, text, options, arena, error);
    }
    if (option->kind == BGI_OPTION_TEXT && !bgi_text_is_utf8(text))
        return bgi_option_refuse(option, text, error);
    if (option->kind == BGI_OPTION_TEXT && arena != NULL && (text = bgi_arena_string(arena, text)) == NULL)
        return bgi_error_memory(error, "options", 0);
    return set_value(option, text, (char *)options + option->offset) ? BG_OK : bgi_option_refuse(option, text, error);
}

bg_status bgi_option_refuse(const bgi_option *option, const char *text, bg_error *error)
{
    static const char *const wanted[] = {[BGI_OPTION_BOOL] = "true or false",
                                         [BGI_OPTION_COUNT] = "a whole number below 2^32",
                                         [BGI_OPTION_SIZE] = "a whole number of at least 0",
                                         [BGI_OPTION_SEED] = "a whole number below 2^64",
                                         [BGI_OPTION_INTEGER] = "a whole number",
                                         [BGI_OPTION_REAL] = "a number",
                                         [BGI_OPTION_CHOICE] = "one of ",
                                         [BGI_OPTION_DTYPE] = "one of ",
                                         [BGI_OPTION_SCHEDULE] = "a schedule's name",
                                         [BGI_OPTION_TEXT] = "a text in UTF-8",
                                         [BGI_OPTION_COUNTS] = "a list of whole numbers: 0,1,1,0",
                                         [BGI_OPTION_REALS] = "a list of numbers: 0.2,0.1",
                                         [BGI_OPTION_RECORDS] = "set in C",
                                         [BGI_OPTION_POINTER] = "set in C"};
    bgi_string names = {0};
    bg_status status;

    bgi_option_print_choices(option, &names);
    status = bg_error_set(error, BG_ERROR_INVALID, "option `%s` is `%s`; it must be %s%s", option->name, text,
                          wanted[option->kind], names.data != NULL ? names.data : "");
    bgi_string_clear(&names);
    return status;
}

bg_status bgi_option_unknown(const char *name, bg_error *error)
{
    enum { MOST_NAMES = 512 };
    const char *names[MOST_NAMES], *nearest;
    const bgi_option *option;
    uint32_t count = 0;

    for (uint32_t i = 0; (option = bgi_option_at(i)) != NULL && count + 2 <= MOST_NAMES; i++) {
        if (!bgi_option_has_text(option))
            continue;
        names[count++] = option->name;
        if (option->poptorch != NULL)
            names[count++] = option->poptorch;
    }
    nearest = bgi_text_nearest(name, names, count);
    return bg_error_set(error, BG_ERROR_NOT_FOUND, "there is no option `%s`%s%s%s", name,
                        nearest != NULL ? "; did you mean `" : "", nearest != NULL ? nearest : "",
                        nearest != NULL ? "`?" : "");
}

/* ---- to text ---- */

static void print_list(bgi_string *text, const bgi_option *option, const bg_options *options)
{
    const void *elements = *(const void *const *)(const void *)((const char *)options + option->offset);
    const uint32_t count = *(const uint32_t *)(const void *)((const char *)options + option->count_offset);

    for (uint32_t i = 0; elements != NULL && i < count; i++) {
        if (i > 0)
            bgi_string_add(text, ",");
        if (option->kind == BGI_OPTION_COUNTS)
            bgi_string_add(text, "%" PRIu32, ((const uint32_t *)elements)[i]);
        else
            bgi_string_add_shortest(text, ((const double *)elements)[i]);
    }
}

static const char *choice_name(const bgi_option *option, int value)
{
    const bgi_choices *choices = option->choices;
    const bool has_name = value >= 0 && (uint32_t)value < choices->count && choices->names[value] != NULL;

    return has_name ? choices->names[value] : "none";
}

void bgi_option_print(const bgi_option *option, const bg_options *options, bgi_string *text)
{
    const void *at = (const char *)options + option->offset;
    const char *word;

    switch (option->kind) {
    case BGI_OPTION_BOOL:
        bgi_string_add(text, "%s", *(const bool *)at ? "true" : "false");
        break;
    case BGI_OPTION_COUNT:
        bgi_string_add(text, "%" PRIu32, *(const uint32_t *)at);
        break;
    case BGI_OPTION_SIZE:
        bgi_string_add(text, "%zu", *(const size_t *)at);
        break;
    case BGI_OPTION_SEED:
        bgi_string_add(text, "%" PRIu64, *(const uint64_t *)at);
        break;
    case BGI_OPTION_INTEGER:
        bgi_string_add(text, "%" PRId32, *(const int32_t *)at);
        break;
    case BGI_OPTION_REAL:
        bgi_string_add_shortest(text, *(const double *)at);
        break;
    case BGI_OPTION_CHOICE:
    case BGI_OPTION_DTYPE:
        bgi_string_add(text, "%s", choice_name(option, *(const int *)at));
        break;
    case BGI_OPTION_SCHEDULE:
    case BGI_OPTION_TEXT:
        word = *(const char *const *)at;
        bgi_string_add(text, "%s", word != NULL ? word : "");
        break;
    case BGI_OPTION_COUNTS:
    case BGI_OPTION_REALS:
        print_list(text, option, options);
        break;
    default:
        break;
    }
}

/* ---- values as strings ---- */

static const bgi_choices *choices_of(const char *option)
{
    const bgi_option *found = option != NULL ? bgi_option_at(bgi_option_find(option)) : NULL;

    return found != NULL ? found->choices : NULL;
}

const char *bg_option_value_name(const char *option, int value)
{
    const bgi_choices *choices = choices_of(option);

    return choices != NULL ? bgi_choices_name(choices, (uint32_t)value, NULL) : NULL;
}

bool bg_option_value_find(const char *option, const char *word, int *out)
{
    const bgi_choices *choices = choices_of(option);
    const uint32_t value = choices != NULL ? bgi_choices_find(choices, word) : 0;

    if (choices == NULL || value == choices->count)
        return false;
    *out = (int)value;
    return true;
}
