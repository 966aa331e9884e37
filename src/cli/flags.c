/*
 * flags.c: adds the flags of the library's options to a command's table. A command's list determines the position of a
 * flag in its help. Name, range, choices and help text come from the options' table, or from flags.def when a flag's
 * values differ from the option's.
 */
#include "cli/program.h"

#include <stddef.h>
#include <string.h>

#define AT(field) .offset = offsetof(cli_library, field)

/* Offsets are relative to a cli_library. */
static const cli_option forms[] = {
#include "cli/flags.def"
};

enum { FORM_COUNT = sizeof forms / sizeof forms[0] };

/* The table that is being made, and the inputs for it. */
typedef struct making {
    cli_table *table;
    const cli_option *own;
    bgi_command command;
    size_t library;
    uint32_t count;
} making;

static bool is_end(const cli_option *option)
{
    return option->name == NULL && option->help == NULL;
}

static const cli_option *find_form(const char *flag)
{
    for (uint32_t i = 0; i < FORM_COUNT; i++)
        if (strcmp(forms[i].name, flag) == 0)
            return &forms[i];
    return NULL;
}

/* Returns the smallest value of a flag. A count whose default is 0 or less uses such values for "not set", so its flag
 * is at least 1. A minimum below 0 is checked only when the option is set. */
static uint64_t find_minimum(const bgi_option *row)
{
    if (row->kind == BGI_OPTION_COUNT && row->standard <= 0)
        return 1;
    return row->is_bounded && row->minimum > 0 ? (uint64_t)row->minimum : 0;
}

static uint64_t find_maximum(const bgi_option *row)
{
    if (row->is_bounded && row->kind != BGI_OPTION_REAL && row->kind != BGI_OPTION_REALS)
        return row->maximum > 0 ? (uint64_t)row->maximum : 0;
    return row->kind == BGI_OPTION_COUNT || row->kind == BGI_OPTION_COUNTS ? UINT32_MAX : UINT64_MAX;
}

/* The kind of the flag for each kind of option, and the name of the flag's value in the help. */
static const struct {
    cli_kind kind;
    const char *value;
} kinds[] = {
    [BGI_OPTION_BOOL] = {CLI_FLAG, NULL},           [BGI_OPTION_COUNT] = {CLI_COUNT, "N"},
    [BGI_OPTION_SIZE] = {CLI_SIZE, "BYTES"},        [BGI_OPTION_SEED] = {CLI_COUNT, "N"},
    [BGI_OPTION_INTEGER] = {CLI_INTEGER, "N"},      [BGI_OPTION_REAL] = {CLI_REAL, "X"},
    [BGI_OPTION_CHOICE] = {CLI_CHOICE, NULL},       [BGI_OPTION_DTYPE] = {CLI_CHOICE, NULL},
    [BGI_OPTION_SCHEDULE] = {CLI_TEXT, "NAME"},     [BGI_OPTION_TEXT] = {CLI_TEXT, "TEXT"},
    [BGI_OPTION_COUNTS] = {CLI_COUNT_LIST, "LIST"}, [BGI_OPTION_REALS] = {CLI_REAL_LIST, "LIST"},
};

static cli_option describe(const making *m, const bgi_option *row)
{
    const cli_option *form = find_form(row->flag);
    cli_option option;

    if (form != NULL) {
        option = *form;
        option.offset += m->library;
        if (option.help == NULL)
            option.help = row->what;
        return option;
    }
    return (cli_option){.kind = kinds[row->kind].kind,
                        .name = row->flag,
                        .offset = m->library + offsetof(cli_library, options),
                        .value = row->value != NULL ? row->value : kinds[row->kind].value,
                        .minimum = find_minimum(row),
                        .maximum = find_maximum(row),
                        .help = row->what,
                        .row = row,
                        .arena = &m->table->arena};
}

static void add(making *m, const cli_option *option)
{
    if (m->count < CLI_OPTION_LIMIT)
        m->table->options[m->count++] = *option;
}

static void add_library(making *m, const cli_option *line)
{
    cli_option option = describe(m, bgi_option_at(bgi_option_find_flag(line->name, m->command)));

    if (line->default_text != NULL)
        option.default_text = line->default_text;
    if (line->more != NULL)
        option.more = line->more;
    add(m, &option);
}

/* Whether the command's list names the flag of `row`, or the table already has it. */
static bool is_there(const making *m, const bgi_option *row)
{
    for (const cli_option *line = m->own; !is_end(line); line++)
        if (line->name != NULL && strcmp(line->name, row->flag) == 0)
            return true;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->table->options[i].name != NULL && strcmp(m->table->options[i].name, row->flag) == 0)
            return true;
    return false;
}

static void add_group(making *m, const cli_option *line)
{
    const cli_option heading = {.kind = CLI_HEADING, .help = line->help};
    const bgi_option *row;
    bool is_first = true;

    for (uint32_t i = 0; (row = bgi_option_at(i)) != NULL; i++) {
        cli_option option;
        if (row->group != line->group || row->flag == NULL || (row->commands & m->command) == 0 || is_there(m, row))
            continue;
        if (is_first && line->help[0] != '\0')
            add(m, &heading);
        is_first = false;
        option = describe(m, row);
        add(m, &option);
    }
}

void cli_table_make(cli_table *table, const cli_option *own, bgi_command command, size_t library)
{
    making m = {.table = table, .own = own, .command = command, .library = library};

    table->arena = (bgi_arena){0};
    for (; !is_end(own); own++)
        if (own->kind == CLI_LIBRARY)
            add_library(&m, own);
        else if (own->kind == CLI_GROUP)
            add_group(&m, own);
        else
            add(&m, own);
    table->options[m.count] = *own;
}

void cli_table_clear(cli_table *table)
{
    bgi_arena_clear(&table->arena);
}

uint32_t cli_table_find(const cli_table *table, const char *name)
{
    uint32_t index = 0;

    while (table->options[index].name == NULL || strcmp(table->options[index].name, name) != 0)
        index++;
    return index;
}
