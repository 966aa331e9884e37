/*
 * cmd_gpt.c: `brigade gpt`: the programs of the PopXL GPT-3 example. Sub-commands are rows of a table.
 */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "cli/gpt.h"
#include "core/error.h"
#include "core/text.h"

typedef struct gpt_command {
    const char *name, *summary;
    const cli_option *options;
    int (*run)(const gpt_options *options, const bgi_gpt_config *config);
} gpt_command;

static const gpt_command commands[] = {
    {"pretrain", "train on token files, or on the text of Brigade's own documents", gpt_pretrain_options, gpt_pretrain},
    {"bench", "time five updates on inputs that are all 1", gpt_bench_options, gpt_bench},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void)
{
    printf("Usage: brigade gpt COMMAND [OPTION]...\nTrains GPT language models: docs/gpt.md.\n\nCommands:\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    printf("\n`brigade gpt COMMAND --help` lists a command's options.\n");
}

static int report_unknown(const char *name)
{
    const char *names[COMMANDS], *nearest;
    bgi_text list = {0};
    bg_error error = {0};

    for (int i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
        bgi_text_add(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    nearest = name != NULL ? bgi_text_nearest(name, names, COMMANDS) : NULL;
    if (name == NULL)
        bg_error_set(&error, BG_ERROR_INVALID, "which command? There are %s", list.data);
    else if (nearest != NULL)
        bg_error_set(&error, BG_ERROR_INVALID, "unknown command `%s`; did you mean `%s`?", name, nearest);
    else
        bg_error_set(&error, BG_ERROR_INVALID, "unknown command `%s`; there are %s", name, list.data);
    bgi_text_clear(&list);
    return cli_fail("gpt", CLI_USAGE, &error);
}

static int run_command(const gpt_command *command, int argc, char **argv)
{
    gpt_options options = gpt_options_defaults();
    const gpt_options defaults = options;
    bgi_gpt_config config = {.kept = NULL};
    bg_error error = {0};
    uint32_t word_count;
    bool wants_help;
    int code;

    if (cli_options_read(command->options, argc, argv, &options, NULL, 0, &word_count, &wants_help, NULL, &error) !=
        BG_OK)
        return cli_fail("gpt", CLI_USAGE, &error);
    if (wants_help) {
        printf("Usage: brigade gpt %s [OPTION]...\nGPT language models: %s (docs/gpt.md).\n", command->name,
               command->summary);
        cli_options_help(command->options, &defaults, stdout);
        return CLI_DONE;
    }
    if (gpt_options_resolve(&options, &config, &error) != BG_OK)
        return cli_fail("gpt", CLI_USAGE, &error);
    cli_catch_signals();
    code = command->run(&options, &config);
    bgi_gpt_config_clear(&config);
    return code;
}

int cli_gpt(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_help();
        return CLI_DONE;
    }
    for (int i = 0; argc > 1 && i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return run_command(&commands[i], argc - 1, argv + 1);
    return report_unknown(argc > 1 ? argv[1] : NULL);
}
