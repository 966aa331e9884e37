/*
 * cmd_options.c: `brigade options`: prints the library's options and optimizers from their tables. It lists all of them
 * or those that are flags of a command, or explains one. The output is text, or the tables of the documents.
 */
#include "cli/command.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "core/error.h"
#include "core/text.h"
#include "options/optimizer.h"

typedef struct options_config {
    const char *command, *to;
} options_config;

#define AT(field) .offset = offsetof(options_config, field)

static const cli_option options_flags[] = {
    {CLI_CHOICE, "command", AT(command), .choices = "mnist|train|plan|gpt", .default_text = "all options",
     .help = "list only the options for which this command has flags"},
    {CLI_CHOICE, "to", AT(to), .choices = "text|markdown", .help = "plain lines, or tables for documents"},
    CLI_OPTIONS_END,
};

/* Returns the commands whose flags are listed; `train` and `plan` have the flags of `mnist`. */
static uint32_t find_commands(const char *name)
{
    return name == NULL ? UINT32_MAX : strcmp(name, "gpt") == 0 ? BGI_COMMAND_GPT : BGI_COMMAND_MNIST;
}

/* ---- facts of a row ---- */

/* Adds the range of a number: "1 to 65536", "above 0", ... */
static void add_range(bgi_string *text, const char *word, double minimum, double maximum, bool is_above, bool is_below)
{
    bgi_string_add(text, "%s", word);
    if (minimum > -DBL_MAX)
        bgi_string_add(text, " %s %.10g", is_above ? "above" : "from", minimum);
    if (maximum < DBL_MAX && maximum != (double)UINT32_MAX)
        bgi_string_add(text, is_below ? " to below %.10g" : " to %.10g", maximum);
}

static void add_values(bgi_string *text, const bgi_option *option)
{
    static const char *const words[] = {[BGI_OPTION_BOOL] = "true, false",
                                        [BGI_OPTION_COUNT] = "a whole number",
                                        [BGI_OPTION_SIZE] = "a whole number",
                                        [BGI_OPTION_SEED] = "a whole number below 2^64",
                                        [BGI_OPTION_INTEGER] = "a whole number",
                                        [BGI_OPTION_REAL] = "a number",
                                        [BGI_OPTION_SCHEDULE] = "the name of a schedule (`brigade schedule list`)",
                                        [BGI_OPTION_TEXT] = "a text",
                                        [BGI_OPTION_COUNTS] = "a list of whole numbers",
                                        [BGI_OPTION_REALS] = "a list of numbers",
                                        [BGI_OPTION_RECORDS] = "an array of structs",
                                        [BGI_OPTION_POINTER] = "a pointer"};

    if (option->choices != NULL)
        bgi_option_print_choices(option, text);
    else if (option->is_bounded && option->kind != BGI_OPTION_TEXT)
        add_range(text, words[option->kind], option->minimum, option->maximum, option->is_above, false);
    else
        bgi_string_add(text, "%s", words[option->kind]);
}

static void add_default(bgi_string *text, const bgi_option *option)
{
    const bg_options options = bg_options_defaults();
    bgi_string value = {0};

    bgi_option_print(option, &options, &value);
    bgi_string_add(text, "%s", value.length > 0 ? value.data : "none");
    bgi_string_clear(&value);
}

/* Prints `title`, and the string that `add` makes for the option. */
static void print_row_words(const char *title, const bgi_option *option,
                            void (*add)(bgi_string *text, const bgi_option *option))
{
    bgi_string text = {0};
    const int column = printf("  %-10s ", title);

    add(&text, option);
    cli_print_wrapped(text.data != NULL ? text.data : "", column, column);
    bgi_string_clear(&text);
}

static void print_words(const char *title, const char *words)
{
    const int column = printf("  %-10s ", title);

    cli_print_wrapped(words, column, column);
}

/* ---- one option ---- */

static void add_flag(bgi_string *text, const bgi_option *option)
{
    const bool is_mnist = (option->commands & BGI_COMMAND_MNIST) != 0,
               is_gpt = (option->commands & BGI_COMMAND_GPT) != 0;

    bgi_string_add(text, "--%s of brigade %s%s%s", option->flag, is_mnist ? "mnist, train and plan" : "",
                   is_mnist && is_gpt ? ", and of brigade " : "", is_gpt ? "gpt pretrain and bench" : "");
}

static void add_constants(bgi_string *text, const bgi_option *option)
{
    bgi_option_print_constants(option, text);
}

static void explain(const bgi_option *option)
{
    char text[128];

    printf("%s\n", option->name);
    print_words("decides", option->what);
    print_row_words("values", option, add_values);
    if (option->unit != NULL)
        print_words("unit", option->unit);
    if (option->kind != BGI_OPTION_RECORDS && option->kind != BGI_OPTION_POINTER)
        print_row_words("default", option, add_default);
    if (option->costs != NULL)
        print_words("costs", option->costs);
    if (option->is_bounded && option->rule != NULL)
        print_words("rule", option->rule);
    snprintf(text, sizeof text, "options.%s", option->path);
    print_words("in C", text);
    if (option->choices != NULL)
        print_row_words("constants", option, add_constants);
    if (option->flag != NULL)
        print_row_words("flag", option, add_flag);
    if (bgi_option_has_text(option)) {
        snprintf(text, sizeof text, "%s=VALUE in $BRIGADE_OPTIONS, or a line of --options FILE", option->name);
        print_words("by name", text);
    }
    if (option->poptorch != NULL)
        print_words("PopTorch", option->poptorch);
    if (option->optimum != NULL)
        print_words("Optimum", option->optimum);
    if (option->elsewhere != NULL)
        print_words("elsewhere", option->elsewhere);
    print_words("plan cache", option->shapes_plan ? "plans with different values are cached separately"
                                                  : "plans with different values share a cache entry");
}

/* ---- optimizers ---- */

static void add_setting(bgi_string *text, const bgi_setting *setting)
{
    if (setting->is_flag)
        bgi_string_add(text, "a word by itself");
    else
        add_range(text, "a number", setting->minimum, setting->maximum, setting->is_above, setting->is_below);
}

static void explain_optimizer(bg_optimizer_kind kind)
{
    const bgi_setting *setting;
    double standard;

    printf("%s\n", bg_optimizer_name(kind));
    print_words("is", bgi_optimizer_sentence(kind));
    for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++) {
        bgi_string text = {0};
        int column;
        if (!bgi_optimizer_has(kind, setting, &standard))
            continue;
        bgi_string_add(&text, "%s; ", setting->what);
        add_setting(&text, setting);
        if (!setting->is_flag)
            bgi_string_add(&text, " (default: %g)", standard);
        column = printf("  %-20s ", setting->name);
        cli_print_wrapped(text.data != NULL ? text.data : "", column, column);
        bgi_string_clear(&text);
    }
}

static void list_optimizers(void)
{
    const char *name;

    printf("Optimizers: --optimizer NAME, or NAME:SETTING,SETTING=NUMBER as in\n"
           "sgd:momentum=0.9,nesterov. `brigade options NAME` explains one.\n\n");
    for (uint32_t kind = 0; (name = bg_optimizer_name((bg_optimizer_kind)kind)) != NULL; kind++) {
        const int column = printf("  %-10s ", name);
        cli_print_wrapped(bgi_optimizer_sentence((bg_optimizer_kind)kind), column, column);
    }
}

static void print_optimizer_tables(void)
{
    const bgi_setting *setting;
    const char *name;
    double standard;

    printf("| Optimizer | What it is | Settings and their defaults |\n|---|---|---|\n");
    for (uint32_t kind = 0; (name = bg_optimizer_name((bg_optimizer_kind)kind)) != NULL; kind++) {
        const char *separator = "";
        printf("| `%s` | %s | ", name, bgi_optimizer_sentence((bg_optimizer_kind)kind));
        for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++) {
            if (!bgi_optimizer_has((bg_optimizer_kind)kind, setting, &standard))
                continue;
            printf(setting->is_flag ? "%s`%s`" : "%s`%s` %g", separator, setting->name, standard);
            separator = ", ";
        }
        printf(" |\n");
    }
    printf("\n| Setting | Values | What it decides |\n|---|---|---|\n");
    for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++) {
        bgi_string text = {0};
        add_setting(&text, setting);
        printf("| `%s` | %s | %s |\n", setting->name, text.data != NULL ? text.data : "", setting->what);
        bgi_string_clear(&text);
    }
}

/* ---- all options ---- */

static bool is_listed(const bgi_option *option, uint32_t group, uint32_t commands)
{
    return option->group == group &&
           (commands == UINT32_MAX || (option->flag != NULL && (option->commands & commands)));
}

static void print_group_title(uint32_t group)
{
    const char *name = bgi_option_group_name((bgi_option_group)group);

    printf("%c%s:\n", name[0] - 'a' + 'A', name + 1);
}

static void list_options(uint32_t commands)
{
    const bgi_option *option;

    for (uint32_t group = 0; group < BGI_OPTION_GROUPS; group++) {
        bool is_first = true;
        for (uint32_t i = 0; (option = bgi_option_at(i)) != NULL; i++) {
            char flag[64] = "";
            int column;
            if (!is_listed(option, group, commands))
                continue;
            if (is_first)
                print_group_title(group);
            is_first = false;
            if (commands != UINT32_MAX)
                snprintf(flag, sizeof flag, " (--%s)", option->flag);
            column = printf("  %s%s", option->name, flag);
            printf(column < 29 ? "%*s" : "\n%*s", column < 29 ? 30 - column : 30, "");
            cli_print_wrapped(option->what, 30, 30);
        }
        if (!is_first)
            printf("\n");
    }
    printf("`brigade options NAME` explains one; `brigade options optimizers` lists optimizers.\n");
}

/* Prints the text with escaped vertical bars, because a plain bar would end the table's cell. */
static void print_cell(const char *text)
{
    for (; *text != '\0'; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

/* Prints the option's names elsewhere: PopTorch's and Optimum's names, then those of other systems. */
static void print_names(const bgi_option *option)
{
    const char *separator = "";

    if (option->poptorch != NULL) {
        printf("PopTorch: `%s`", option->poptorch);
        separator = "; ";
    }
    if (option->optimum != NULL) {
        printf("%sOptimum: `%s`", separator, option->optimum);
        separator = "; ";
    }
    if (option->elsewhere != NULL) {
        printf("%s", separator);
        print_cell(option->elsewhere);
    }
}

static void print_row(const bgi_option *option)
{
    bgi_string values = {0}, standard = {0};

    add_values(&values, option);
    add_default(&standard, option);
    printf("| `%s` | ", option->name);
    if (option->flag != NULL)
        printf("`--%s`", option->flag);
    printf(" | %s | %s | ", values.data != NULL ? values.data : "", option->unit != NULL ? option->unit : "");
    if (option->kind != BGI_OPTION_RECORDS && option->kind != BGI_OPTION_POINTER)
        printf("%s", standard.data != NULL ? standard.data : "");
    printf(" | ");
    print_cell(option->what);
    printf(" | ");
    print_cell(option->costs != NULL ? option->costs : "");
    printf(" | ");
    print_names(option);
    printf(" |\n");
    bgi_string_clear(&values);
    bgi_string_clear(&standard);
}

static void print_option_tables(uint32_t commands)
{
    const bgi_option *option;

    for (uint32_t group = 0; group < BGI_OPTION_GROUPS; group++) {
        printf("%s**%s**\n\n| Option | Flag | Values | Unit | Default | What it decides | What it costs | Elsewhere "
               "|\n|---|---|---|---|---|---|---|---|\n",
               group > 0 ? "\n" : "", bgi_option_group_name((bgi_option_group)group));
        for (uint32_t i = 0; (option = bgi_option_at(i)) != NULL; i++)
            if (is_listed(option, group, commands))
                print_row(option);
    }
}

/* ---- names ---- */

static const bgi_option *find_option(const char *name)
{
    const uint32_t named = bgi_option_find(name);
    const bgi_option *option;

    if (named != UINT32_MAX)
        return bgi_option_at(named);
    for (uint32_t i = 0; (option = bgi_option_at(i)) != NULL; i++)
        if ((option->flag != NULL && strcmp(option->flag, name) == 0) ||
            (option->optimum != NULL && strcmp(option->optimum, name) == 0))
            return option;
    return NULL;
}

static bg_status explain_name(const char *name, bg_error *error)
{
    const bgi_option *option = find_option(name), *other;
    const char *optimizer;

    for (uint32_t kind = 0; (optimizer = bg_optimizer_name((bg_optimizer_kind)kind)) != NULL; kind++)
        if (strcmp(optimizer, name) == 0) {
            explain_optimizer((bg_optimizer_kind)kind);
            return BG_OK;
        }
    if (option == NULL) {
        bg_error unknown = {0};
        bgi_option_unknown(name, &unknown);
        return bg_error_set(error, BG_ERROR_INVALID, "%s (`brigade options` lists all names)", unknown.message);
    }
    explain(option);
    /* A flag may set several options. */
    for (uint32_t i = 0; (other = bgi_option_at(i)) != NULL; i++)
        if (other != option && other->flag != NULL && strcmp(other->flag, name) == 0) {
            printf("\n");
            explain(other);
        }
    return BG_OK;
}

static const cli_help_page page = {
    .usage = "Usage: brigade options [OPTION]... [NAME]\n"
             "Lists the library's options, or explains one by its own name, its flag, or its name in PopTorch or "
             "Optimum. It also explains optimizers. `brigade options optimizers` lists them.\n",
    .examples = "brigade options recompute\n"
                "brigade options --command mnist\n"
                "brigade options adamw\n",
};

int cli_options(int argc, char **argv)
{
    options_config config = {.to = "text"};
    const options_config defaults = config;
    const char *name = NULL;
    bg_error error = {0};
    uint32_t word_count, commands;
    cli_help help;
    bool is_markdown;

    if (cli_options_read(options_flags, argc, argv, &config, &name, 1, &word_count, &help, NULL, &error) != BG_OK)
        return cli_fail("options", CLI_USAGE, &error);
    if (help != CLI_HELP_NONE) {
        cli_print_help(help, &page, options_flags, &defaults);
        return CLI_DONE;
    }
    commands = find_commands(config.command);
    is_markdown = strcmp(config.to, "markdown") == 0;
    if (word_count == 0 && is_markdown)
        print_option_tables(commands);
    else if (word_count == 0)
        list_options(commands);
    else if (strcmp(name, "optimizers") == 0 && is_markdown)
        print_optimizer_tables();
    else if (strcmp(name, "optimizers") == 0)
        list_optimizers();
    else if (explain_name(name, &error) != BG_OK)
        return cli_fail("options", CLI_USAGE, &error);
    return CLI_DONE;
}
