/*
 * options.c: reads command lines with the help of a table. It does not use argp or getopt, because an error must be one
 * line that names the option, the value and the allowed values, and an error about a mistyped name must suggest the
 * right name.
 */
#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/schedule.h>

#include "core/error.h"
#include "core/text.h"

enum { NAME_LIMIT = 48, CHOICES_BYTES = 256 };

static bool is_end(const cli_option *option)
{
    return option->name == NULL && option->help == NULL;
}

static bg_status report_unknown(const cli_option *options, const char *name, bg_error *error)
{
    /* Names of other frameworks and of other commands, whose spelling is too different for bgi_text_nearest. */
    static const struct {
        const char *other, *own;
    } aliases[] = {{"lr", "learning-rate"},
                   {"weights", "init"},
                   {"model", "init"},
                   {"bs", "batch-size"},
                   {"batch", "batch-size"},
                   {"limit-test-batches", "limit-val-batches"},
                   {"limit-val-batches", "limit-test-batches"}};
    const char *names[CLI_OPTION_LIMIT];
    const char *nearest = NULL;
    uint32_t count = 0;

    for (; !is_end(options) && count < CLI_OPTION_LIMIT; options++)
        if (options->kind != CLI_HEADING)
            names[count++] = options->name;
    for (size_t i = 0; nearest == NULL && i < sizeof aliases / sizeof aliases[0]; i++)
        for (uint32_t k = 0; strcmp(name, aliases[i].other) == 0 && k < count; k++)
            if (strcmp(names[k], aliases[i].own) == 0)
                nearest = names[k];
    if (nearest == NULL)
        nearest = bgi_text_nearest(name, names, count);
    if (nearest != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "unknown option --%s; did you mean --%s?", name, nearest);
    return bg_error_set(error, BG_ERROR_INVALID, "unknown option --%s; --help all lists the options", name);
}

/* ---- values ---- */

/* Reads only decimal digits: no sign, no blank, no 0x. Returns false also when the number needs more than 64 bits. */
static bool read_digits(const char *text, const char **end, uint64_t *out)
{
    uint64_t value = 0;

    if (*text < '0' || *text > '9')
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *end = text;
    *out = value;
    return true;
}

static bg_status read_count(const cli_option *option, const char *text, uint64_t *out, bg_error *error)
{
    const char *end;
    uint64_t value;

    if (!read_digits(text, &end, &value) || *end != '\0' || value < option->minimum || value > option->maximum)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--%s is `%s`; it must be a whole number from %" PRIu64 " to %" PRIu64, option->name, text,
                            option->minimum, option->maximum);
    *out = value;
    return BG_OK;
}

static bg_status read_size(const cli_option *option, const char *text, uint64_t *out, bg_error *error)
{
    static const char letters[] = "KMGT";
    const char *end;
    const char *letter;
    uint64_t value;
    unsigned shift = 0;
    bool is_good = read_digits(text, &end, &value);

    if (is_good && *end != '\0') {
        letter = strchr(letters, *end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
        is_good = letter != NULL && (end[1] == '\0' || strcmp(end + 1, "iB") == 0);
        shift = letter != NULL ? 10u * (unsigned)(letter - letters + 1) : 0;
    }
    if (!is_good || value < option->minimum || value > (UINT64_MAX >> shift))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--%s is `%s`; it must be a number of bytes, optionally with the suffix K, M, G or T (300K, 16M)",
            option->name, text);
    *out = value << shift;
    return BG_OK;
}

static bg_status read_real(const cli_option *option, const char *text, double *out, bg_error *error)
{
    char *end = NULL;
    double value;

    errno = 0;
    value = strtod(text, &end);
    /* Refuses leading blanks, "inf", "nan" and hexadecimal numbers, which strtod accepts. */
    if (end == text || *end != '\0' || strspn(text, "0123456789.eE+-") != strlen(text) || !isfinite(value) ||
        value < 0.0 || signbit(value))
        return bg_error_set(error, BG_ERROR_INVALID, "--%s is `%s`; it must be a number of at least 0", option->name,
                            text);
    *out = value;
    return BG_OK;
}

const char *cli_option_choices(const cli_option *option, char *text, size_t size_bytes)
{
    const bgi_choices *choices = option->row != NULL ? option->row->choices : NULL;

    if (choices == NULL)
        return option->choices;
    text[0] = '\0';
    for (uint32_t value = 0; value < choices->count; value++)
        if (choices->names[value] != NULL)
            snprintf(text + strlen(text), size_bytes - strlen(text), "%s%s", text[0] != '\0' ? "|" : "",
                     choices->names[value]);
    return text;
}

static bg_status refuse_choice(const cli_option *option, const char *text, bg_error *error)
{
    const bool is_schedule = strcmp(option->name, "strategy") == 0 && bg_schedule_generator_find(text) != NULL;
    char choices[CHOICES_BYTES];

    return bg_error_set(error, BG_ERROR_INVALID, "--%s is `%s`; it must be one of %s%s%s", option->name, text,
                        cli_option_choices(option, choices, sizeof choices),
                        is_schedule ? ". This is a schedule: --strategy pipelined --schedule " : "",
                        is_schedule ? text : "");
}

static bg_status read_choice(const cli_option *option, const char *text, const char **out, bg_error *error)
{
    size_t length = strlen(text);

    for (const char *choice = option->choices; choice != NULL; choice = strchr(choice, '|')) {
        if (*choice == '|')
            choice++;
        if (length > 0 && strcspn(choice, "|") == length && strncmp(choice, text, length) == 0) {
            *out = text;
            return BG_OK;
        }
    }
    return refuse_choice(option, text, error);
}

/* Reads one element of a list as the value of a single option is read. */
static bg_status read_list_part(const cli_option *option, const char *text, void *list, bg_error *error)
{
    uint64_t count = 0;

    if (option->kind == CLI_SIZE_LIST) {
        cli_sizes *sizes = list;
        return read_size(option, text, &sizes->values[sizes->count++], error);
    }
    if (option->kind == CLI_REAL_LIST) {
        cli_reals *reals = list;
        return read_real(option, text, &reals->values[reals->count++], error);
    }
    BGI_TRY(read_count(option, text, &count, error));
    ((cli_counts *)list)->values[((cli_counts *)list)->count++] = (uint32_t)count;
    return BG_OK;
}

/* Reads a list of values separated by commas. The structs of all lists begin with the count. */
static bg_status read_list(const cli_option *option, const char *text, void *list, bg_error *error)
{
    uint32_t *count = list;
    char part[64];

    *count = 0;
    for (;;) {
        const size_t length = strcspn(text, ",");
        if (length >= sizeof part || *count == CLI_LIST_LIMIT)
            return bg_error_set(error, BG_ERROR_INVALID, "--%s is too long; it takes at most %d values: %s",
                                option->name, CLI_LIST_LIMIT, option->value);
        memcpy(part, text, length);
        part[length] = '\0';
        BGI_TRY(read_list_part(option, part, list, error));
        if (text[length] == '\0')
            return BG_OK;
        text += length + 1;
    }
}

static bg_status read_word(const cli_option *option, const char *text, cli_texts *texts, bg_error *error)
{
    if (text[0] == '\0')
        return bg_error_set(error, BG_ERROR_INVALID, "--%s is empty; it needs a %s", option->name, option->value);
    if (texts->count == CLI_LIST_LIMIT)
        return bg_error_set(error, BG_ERROR_INVALID, "--%s has more than %d values; give at most this number",
                            option->name, CLI_LIST_LIMIT);
    texts->values[texts->count++] = text;
    return BG_OK;
}

static bg_status read_integer(const cli_option *option, const char *text, bg_error *error)
{
    const int64_t least = (int64_t)option->row->minimum, most = (int64_t)option->row->maximum;
    const bool is_negative = text[0] == '-';
    const char *end;
    uint64_t size;
    int64_t value;

    if (read_digits(text + is_negative, &end, &size) && *end == '\0' && size <= INT32_MAX) {
        value = is_negative ? -(int64_t)size : (int64_t)size;
        if (value >= least && value <= most)
            return BG_OK;
    }
    return bg_error_set(error, BG_ERROR_INVALID, "--%s is `%s`; it must be a whole number from %" PRId64 " to %" PRId64,
                        option->name, text, least, most);
}

/* Checks the text as for a command's own option of the same kind, and then sets the library's option from the text. */
static bg_status read_row(const cli_option *option, const char *text, bg_options *options, bg_error *error)
{
    union {
        cli_counts counts;
        cli_reals reals;
        uint64_t whole;
        double real;
    } value;
    char digits[24];
    bg_status status;

    switch (option->kind) {
    case CLI_COUNT:
        BGI_TRY(read_count(option, text, &value.whole, error));
        break;
    case CLI_SIZE:
        BGI_TRY(read_size(option, text, &value.whole, error));
        snprintf(digits, sizeof digits, "%" PRIu64, value.whole);
        text = digits;
        break;
    case CLI_REAL:
        BGI_TRY(read_real(option, text, &value.real, error));
        break;
    case CLI_INTEGER:
        BGI_TRY(read_integer(option, text, error));
        break;
    case CLI_COUNT_LIST:
    case CLI_REAL_LIST:
        BGI_TRY(read_list(option, text, &value, error));
        break;
    case CLI_CHOICE:
        return bgi_option_set(option->row, options, option->arena, text, NULL) == BG_OK
                   ? BG_OK
                   : refuse_choice(option, text, error);
    case CLI_TEXT: /* stored unchanged; a schedule is looked up later, when the strategy is known */
        if (text[0] == '\0')
            return bg_error_set(error, BG_ERROR_INVALID, "--%s is empty; it needs a %s", option->name, option->value);
        *(const char **)(void *)((char *)options + option->row->offset) = text;
        return BG_OK;
    default:
        break;
    }
    status = bgi_option_set(option->row, options, option->arena, text, error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--%s", option->name);
}

static bg_status read_value(const cli_option *option, const char *text, void *values, bg_error *error)
{
    void *value = (char *)values + option->offset;

    if (option->row != NULL)
        return read_row(option, text, value, error);
    switch (option->kind) {
    case CLI_COUNT:
        return read_count(option, text, value, error);
    case CLI_SIZE:
        return read_size(option, text, value, error);
    case CLI_REAL:
        return read_real(option, text, value, error);
    case CLI_COUNT_LIST:
    case CLI_SIZE_LIST:
    case CLI_REAL_LIST:
        return read_list(option, text, value, error);
    case CLI_CHOICE:
        return read_choice(option, text, value, error);
    case CLI_TEXT:
        if (text[0] == '\0')
            return bg_error_set(error, BG_ERROR_INVALID, "--%s is empty; it needs a %s", option->name, option->value);
        *(const char **)value = text;
        return BG_OK;
    case CLI_TEXT_LIST:
        return read_word(option, text, value, error);
    default:
        break;
    }
    return bg_error_set(error, BG_ERROR_INTERNAL, "option table: --%s takes no value", option->name);
}

/* Finds an option by name; returns the end of the table if there is none. */
static const cli_option *find_option(const cli_option *option, const char *name)
{
    while (!is_end(option) && (option->kind == CLI_HEADING || strcmp(option->name, name) != 0))
        option++;
    return option;
}

/* Refuses the value of a flag. If another option names the folder for the flag's output, the error names that
 * option. */
static bg_status refuse_value(const cli_option *options, const char *name, const char *value, bg_error *error)
{
    char folder[NAME_LIMIT + sizeof "-dir"];

    snprintf(folder, sizeof folder, "%s-dir", name);
    if (!is_end(find_option(options, folder)))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--%s takes no value; it was given `%s`; name the folder with --%s", name, value, folder);
    return bg_error_set(error, BG_ERROR_INVALID, "--%s takes no value; it was given `%s`", name, value);
}

/* Reads the option at argv[*index] and moves *index over its value. */
static bg_status read_option(const cli_option *options, int argc, char **argv, int *index, void *values, bool *given,
                             bg_error *error)
{
    char name[NAME_LIMIT + 1];
    const char *text = argv[*index] + 2;
    size_t length = strcspn(text, "=");
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    const cli_option *option;

    if (length > NAME_LIMIT)
        return bg_error_set(error, BG_ERROR_INVALID, "unknown option %.60s...; --help all lists the options",
                            argv[*index]);
    memcpy(name, text, length);
    name[length] = '\0';
    option = find_option(options, name);
    if (is_end(option))
        return report_unknown(options, name, error);
    if (given != NULL)
        given[option - options] = true;
    if (option->kind == CLI_FLAG) {
        if (value != NULL)
            return refuse_value(options, name, value, error);
        *(bool *)((char *)values + option->offset + (option->row != NULL ? option->row->offset : 0)) = true;
        return BG_OK;
    }
    if (value == NULL) {
        if (*index + 1 >= argc)
            return bg_error_set(error, BG_ERROR_INVALID, "--%s needs a value: --%s %s", name, name, option->value);
        value = argv[++*index];
        while (option->kind == CLI_TEXT_LIST && *index + 1 < argc && argv[*index + 1][0] != '-') {
            BGI_TRY(read_value(option, value, values, error));
            value = argv[++*index];
        }
    }
    return read_value(option, value, values, error);
}

/* Returns the help that an argument requests, together with the next argument (NULL if there is none). */
static cli_help find_help(const char *word, const char *next)
{
    static const char prefix[] = "--help=";
    const char *which = NULL;

    if (strncmp(word, prefix, strlen(prefix)) == 0)
        which = word + strlen(prefix);
    else if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        which = next != NULL ? next : "";
    if (which == NULL)
        return CLI_HELP_NONE;
    return strcmp(which, "all") == 0 ? CLI_HELP_ALL : strcmp(which, "table") == 0 ? CLI_HELP_TABLE : CLI_HELP_SHORT;
}

bg_status cli_options_read(const cli_option *options, int argc, char **argv, void *values, const char **words,
                           uint32_t word_limit, uint32_t *word_count, cli_help *help, bool *given, bg_error *error)
{
    *word_count = 0;
    *help = CLI_HELP_NONE;
    for (int i = 1; i < argc && *help == CLI_HELP_NONE; i++)
        *help = find_help(argv[i], i + 1 < argc ? argv[i + 1] : NULL);
    if (*help != CLI_HELP_NONE)
        return BG_OK;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] == '-' && argv[i][2] != '\0') {
            BGI_TRY(read_option(options, argc, argv, &i, values, given, error));
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            return bg_error_set(error, BG_ERROR_INVALID, "unknown option %s; options begin with two dashes", argv[i]);
        } else if (*word_count < word_limit) {
            words[(*word_count)++] = argv[i];
        } else {
            return bg_error_set(error, BG_ERROR_INVALID, "unexpected argument `%s`; --help all lists the options",
                                argv[i]);
        }
    }
    return BG_OK;
}
