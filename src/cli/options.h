/*
 * options.h: describes command lines as tables. A subcommand lists its options once, and reading, range checks, help
 * and defaults use this list. Values are stored in a struct of the command, which initially holds the defaults.
 *
 * Flags of the library's options (options/options.def) are not listed: a command's list names them or a whole group,
 * and flags.c adds their entries from the options' table. Their values are stored in a bg_options.
 */
#ifndef BGI_CLI_OPTIONS_H
#define BGI_CLI_OPTIONS_H

#include <brigade/base.h>

#include "options/table.h"

typedef enum cli_kind {
    CLI_HEADING = 0, /* a line between groups of options in the help; only `help` is used */
    CLI_FLAG,        /* bool: given or not */
    CLI_COUNT,       /* uint64_t in minimum..maximum */
    CLI_SIZE,        /* uint64_t bytes: a number, optionally with K, M, G or T (powers of 1024) */
    CLI_REAL,        /* double: finite, at least 0 */
    CLI_COUNT_LIST,  /* cli_counts: "0,1,1,0", each in minimum..maximum, which is below 2^32 */
    CLI_SIZE_LIST,   /* cli_sizes: "16M,8M" */
    CLI_REAL_LIST,   /* cli_reals: "1,0.5" */
    CLI_TEXT,        /* const char *, a string that is not empty */
    CLI_TEXT_LIST,   /* cli_texts: all arguments up to the next option; may be given again */
    CLI_CHOICE,      /* const char *: one of `choices` */
    CLI_INTEGER,     /* a signed number in minimum..maximum; used only by library options */
    CLI_LIBRARY,     /* represents a flag of the library's options: `name`, and `default_text` where it differs */
    CLI_GROUP        /* represents all flags of `group` that the list does not name; `help` is their heading */
} cli_kind;

enum { CLI_LIST_LIMIT = 256, CLI_OPTION_LIMIT = 128 };

/* Values of an option that takes several; count 0: not given. */
typedef struct cli_counts {
    uint32_t count, values[CLI_LIST_LIMIT];
} cli_counts;
typedef struct cli_sizes {
    uint32_t count;
    uint64_t values[CLI_LIST_LIMIT];
} cli_sizes;
typedef struct cli_reals {
    uint32_t count;
    double values[CLI_LIST_LIMIT];
} cli_reals;
typedef struct cli_texts {
    uint32_t count;
    const char *values[CLI_LIST_LIMIT];
} cli_texts;

typedef struct cli_option {
    cli_kind kind;
    const char *name;  /* without the dashes */
    size_t offset;     /* offset of its value in the command's struct */
    const char *value; /* the name of its value in the help: "N", "FILE" */
    uint64_t minimum, maximum;
    const char *choices;      /* "a|b|c" */
    const char *default_text; /* shown instead of a default that has no meaning for users (a NULL path, 0 for "all") */
    const char *help;
    bgi_option_group group; /* only for CLI_GROUP */
    const char *more;       /* additional help after that of the library's table; NULL: none */
    const bgi_option
        *row; /* the library's option that this flag sets in the bg_options at `offset`; NULL: the command's own */
    bgi_arena *arena; /* memory for lists and strings of a row */
} cli_option;

/* A command's list with the library's flags (flags.c). It must not move, because options point to its arena. */
typedef struct cli_table {
    cli_option options[CLI_OPTION_LIMIT + 1]; /* terminated like a list */
    bgi_arena arena;
} cli_table;

/* Makes the table. `library` is the offset of the cli_library in the command's struct (program.h). The table must be
 * cleared at the end. */
void cli_table_make(cli_table *table, const cli_option *own, bgi_command command, size_t library);
void cli_table_clear(cli_table *table);
/* Returns the index of an option, which must exist. */
uint32_t cli_table_find(const cli_table *table, const char *name);

/* A list ends with a row that has neither a name nor a help text. */
#define CLI_OPTIONS_END                                                                                                \
    {                                                                                                                  \
        .name = NULL, .help = NULL                                                                                     \
    }

/* The help that --help requests. */
typedef enum cli_help {
    CLI_HELP_NONE = 0, /* none: the command runs */
    CLI_HELP_SHORT,    /* the most used options */
    CLI_HELP_ALL,      /* --help all: every option */
    CLI_HELP_TABLE     /* --help table: every option as a line of fields separated by tabs */
} cli_help;

/* The parts of a command's help other than its options. */
typedef struct cli_help_page {
    const char *usage;      /* usage and description; each paragraph and each row of a list is one line */
    const char *common;     /* the names of at most ten options, most used first; NULL: --help shows all */
    const char *examples;   /* command lines that tests run, one on each line; NULL: none */
    const cli_option *more; /* options of another table, with their defaults; NULL: none */
    const void *more_values;
} cli_help_page;

/*
 * Reads argv[1..]: "--name value", "--name=value". Up to word_limit arguments that are not options are stored in
 * words[]. If -h or --help is among the arguments, *help is set and nothing is read. given[i] (`given` may be NULL;
 * initially all false) is set when option i of the table occurs. BG_ERROR_INVALID names the option, the value, and what
 * is allowed.
 */
bg_status cli_options_read(const cli_option *options, int argc, char **argv, void *values, const char **words,
                           uint32_t word_limit, uint32_t *word_count, cli_help *help, bool *given, bg_error *error);

/* ---- help (help.c) ---- */

/* Prints the page. The default of each option is its value in `values`. */
void cli_print_help(cli_help help, const cli_help_page *page, const cli_option *options, const void *values);
/* Returns the columns of a line: those of the terminal, but at least 40 and at most 100, or 80 when standard output is
 * not a terminal. */
int cli_columns(void);
/* Prints words in lines of at most cli_columns() columns that begin at `indent`; the first line is already at
 * `column`. */
void cli_print_wrapped(const char *text, int column, int indent);
/* Prints lines that are paragraphs or rows of a list (" name  description"); further lines of a row begin below its
 * description. */
void cli_print_lines(const char *text);
/* Returns the choices of an option, such as "pipelined|sharded"; NULL if it has no choices. The choices of a library
 * option are written to `text`. */
const char *cli_option_choices(const cli_option *option, char *text, size_t size_bytes);

#endif
