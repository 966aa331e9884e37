/*
 * help.c: prints the --help of a command: its usage, its options with their defaults, and examples. Lines fit the
 * terminal, or 80 columns if standard output is not a terminal.
 *
 *     --help          the options that most people want, where the command has many
 *     --help all      every option, in groups
 *     --help table    every option as a line of fields, for programs: heading, name, value, default, sentence
 */
#include "cli/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL_COLUMNS = 80, LEAST_COLUMNS = 40, MOST_COLUMNS = 100 };
enum { WIDE_INDENT = 28, NARROW_INDENT = 8, NARROW_COLUMNS = 76, HELP_LIMIT = 1024, CHOICES_BYTES = 256 };

/* ---- lines ---- */

int cli_columns(void)
{
    struct winsize size = {0};

    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return USUAL_COLUMNS;
    return size.ws_col < LEAST_COLUMNS ? LEAST_COLUMNS : size.ws_col > MOST_COLUMNS ? MOST_COLUMNS : size.ws_col;
}

/* Prints the first `length` characters of the text, wrapped between words. */
static void print_words(const char *text, int length, int column, int indent)
{
    const char *end = text + length;
    const int columns = cli_columns();
    bool is_first = true;

    while (text < end) {
        int word = (int)strcspn(text, " ");
        if (word > end - text)
            word = (int)(end - text);
        if (!is_first && column + 1 + word > columns) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (!is_first) {
            putchar(' ');
            column++;
        }
        column += printf("%.*s", word, text);
        is_first = false;
        text += word;
        text += text < end;
    }
    putchar('\n');
}

void cli_print_wrapped(const char *text, int column, int indent)
{
    print_words(text, (int)strlen(text), column, indent);
}

/* Returns the offset of the description in a row of a list (" name  description"), after a gap of two or more blanks; 0
 * for a line without a gap. */
static int find_words(const char *line, int length, int indent)
{
    for (int i = indent; i + 1 < length; i++)
        if (line[i] == ' ' && line[i + 1] == ' ') {
            while (i < length && line[i] == ' ')
                i++;
            return i < length ? i : 0;
        }
    return 0;
}

/* Prints a paragraph, the usage, or a row of a list; further lines of a row begin below its description. */
static void print_line(const char *line, int length)
{
    static const char usage[] = "Usage: ";
    const int indent = (int)strspn(line, " ");
    int words = find_words(line, length, indent);

    if (length == 0 || indent >= length) {
        putchar('\n');
    } else if (words == 0) {
        printf("%.*s", indent, line);
        print_words(line + indent, length - indent, indent,
                    strncmp(line, usage, strlen(usage)) == 0 ? (int)strlen(usage) : indent);
    } else if (words > cli_columns() / 2) {
        print_words(line + indent, words - indent, printf("%.*s", indent, line), indent);
        print_words(line + words, length - words, printf("%*s", indent + 4, ""), indent + 4);
    } else {
        printf("%.*s", words, line);
        print_words(line + words, length - words, words, words);
    }
}

void cli_print_lines(const char *text)
{
    while (*text != '\0') {
        const int length = (int)strcspn(text, "\n");
        print_line(text, length);
        text += length;
        text += *text == '\n';
    }
}

/* Returns the length up to the next option of a command line, or up to its end. */
static int find_option_end(const char *text)
{
    int length = 1;

    while (text[length] != '\0' && text[length] != '\n' && strncmp(text + length, " --", 3) != 0)
        length++;
    return length;
}

/* Prints command lines; a long one continues after a backslash, as shells read it. */
static void print_examples(const char *text)
{
    const int columns = cli_columns();

    printf("\nExamples:\n  ");
    for (int column = 2; *text != '\0'; text++) {
        if (*text == '\n') {
            printf("\n%s", text[1] != '\0' ? "  " : "");
            column = 2;
        } else if (strncmp(text, " --", 3) == 0 && column + find_option_end(text) + 2 > columns) {
            printf(" \\\n     ");
            column = 5;
        } else {
            putchar(*text);
            column++;
        }
    }
}

/* ---- options ---- */

static bool is_end(const cli_option *option)
{
    return option->name == NULL && option->help == NULL;
}

/* Writes the default of a library option as text: "off" for a flag, "none" for an empty value. */
static void write_row_default(const cli_option *option, const bg_options *options, char *text, size_t size)
{
    bgi_string value = {0};

    bgi_option_print(option->row, options, &value);
    snprintf(text, size, "%s",
             option->row->kind == BGI_OPTION_BOOL          ? "off"
             : value.data == NULL || value.data[0] == '\0' ? "none"
                                                           : value.data);
    bgi_string_clear(&value);
}

static void write_default(const cli_option *option, const void *values, char *text, size_t size)
{
    const void *value = (const char *)values + option->offset;

    text[0] = '\0';
    if (option->default_text != NULL) {
        snprintf(text, size, "%s", option->default_text);
        return;
    }
    if (option->row != NULL) {
        write_row_default(option, value, text, size);
        return;
    }
    switch (option->kind) {
    case CLI_COUNT:
    case CLI_SIZE:
        snprintf(text, size, "%" PRIu64, *(const uint64_t *)value);
        break;
    case CLI_REAL:
        snprintf(text, size, "%g", *(const double *)value);
        break;
    case CLI_TEXT:
    case CLI_CHOICE:
        snprintf(text, size, "%s", *(const char *const *)value != NULL ? *(const char *const *)value : "none");
        break;
    case CLI_FLAG:
        snprintf(text, size, "off");
        break;
    default: /* the tables give the defaults of lists as text */
        break;
    }
}

/* The texts of an option in the help. `value` follows its name: "N", "a|b", or "NAME" if there are many choices, which
 * `sentence` then lists. */
typedef struct option_words {
    char choices[CHOICES_BYTES], standard[HELP_LIMIT], sentence[HELP_LIMIT];
    const char *value; /* NULL: a flag */
} option_words;

static void describe(const cli_option *option, const void *values, option_words *out)
{
    const char *words =
        option->kind == CLI_CHOICE ? cli_option_choices(option, out->choices, sizeof out->choices) : NULL;
    const bool is_inline = words != NULL && strlen(words) + strlen(option->name) < 40;
    char *text = out->sentence;
    const size_t size = sizeof out->sentence;

    out->value = option->kind == CLI_FLAG ? NULL : is_inline ? words : words != NULL ? "NAME" : option->value;
    snprintf(text, size, "%s%s%s", option->help, option->more != NULL ? "; " : "",
             option->more != NULL ? option->more : "");
    if (words != NULL && !is_inline) {
        snprintf(text + strlen(text), size - strlen(text), ": ");
        for (; *words != '\0'; words++)
            snprintf(text + strlen(text), size - strlen(text), *words == '|' ? ", " : "%c", *words);
    }
    write_default(option, values, out->standard, sizeof out->standard);
}

/* Prints an option with its help text, which begins on the next line if the option does not fit its column. The column
 * is smaller on a narrow terminal. */
static void print_row(const char *flag, const char *value, const char *sentence)
{
    const int indent = cli_columns() < NARROW_COLUMNS ? NARROW_INDENT : WIDE_INDENT;
    const int column = printf("  %s%s%s", flag, value != NULL ? " " : "", value != NULL ? value : "");

    if (column > indent - 2)
        printf("\n%*s", indent, "");
    else
        printf("%*s", indent - column, "");
    cli_print_wrapped(sentence, indent, indent);
}

static void print_option(const cli_option *option, const void *values)
{
    option_words words;
    char flag[64], sentence[2 * HELP_LIMIT + 16];

    describe(option, values, &words);
    snprintf(flag, sizeof flag, "--%s", option->name);
    if (words.standard[0] != '\0')
        snprintf(sentence, sizeof sentence, "%s (default: %s)", words.sentence, words.standard);
    else
        snprintf(sentence, sizeof sentence, "%s", words.sentence);
    print_row(flag, words.value, sentence);
}

static uint32_t count_options(const cli_option *options)
{
    uint32_t count = 0;

    for (; !is_end(options); options++)
        count += options->kind != CLI_HEADING;
    return count;
}

static const cli_option *find_option(const cli_option *options, const char *name, size_t length)
{
    for (; !is_end(options); options++)
        if (options->kind != CLI_HEADING && strncmp(options->name, name, length) == 0 && options->name[length] == '\0')
            return options;
    return NULL;
}

/* Prints the options that `names` lists, in that order. */
static void print_common(const cli_option *options, const void *values, const char *names)
{
    printf("\nOptions that most runs need:\n");
    while (*names != '\0') {
        const size_t length = strcspn(names, " ");
        const cli_option *option = find_option(options, names, length);
        if (option != NULL)
            print_option(option, values);
        names += length;
        names += *names == ' ';
    }
}

static void print_heading(const char *title)
{
    char line[HELP_LIMIT];

    snprintf(line, sizeof line, "\n%s:\n", title);
    cli_print_lines(line);
}

static void print_all(const cli_option *options, const void *values)
{
    if (!is_end(options) && options->kind != CLI_HEADING)
        printf("\nOptions:\n");
    for (; !is_end(options); options++)
        if (options->kind == CLI_HEADING)
            print_heading(options->help);
        else
            print_option(options, values);
}

static void print_table(const cli_option *options, const void *values)
{
    const char *heading = "Options";
    option_words words;

    for (; !is_end(options); options++) {
        if (options->kind == CLI_HEADING) {
            heading = options->help;
            continue;
        }
        describe(options, values, &words);
        printf("%s\t--%s\t%s\t%s\t%s\n", heading, options->name, words.value != NULL ? words.value : "", words.standard,
               words.sentence);
    }
}

void cli_print_help(cli_help help, const cli_help_page *page, const cli_option *options, const void *values)
{
    const bool is_short = help == CLI_HELP_SHORT && page->common != NULL;
    uint32_t count = count_options(options);
    char text[64];

    if (help == CLI_HELP_TABLE) {
        print_table(options, values);
        if (page->more != NULL)
            print_table(page->more, page->more_values);
        return;
    }
    cli_print_lines(page->usage);
    if (is_short)
        print_common(options, values, page->common);
    else
        print_all(options, values);
    if (page->more != NULL) {
        print_all(page->more, page->more_values);
        count += count_options(page->more);
    }
    snprintf(text, sizeof text, "this text, or all %u options in groups", (unsigned)count);
    print_row("-h, --help", page->common != NULL ? "[all]" : NULL, page->common != NULL ? text : "this text");
    if (page->examples != NULL)
        print_examples(page->examples);
}
