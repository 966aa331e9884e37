/*
 * cmd_gpt.c: `brigade gpt`, the commands for GPT language models. Subcommands are rows of a table.
 */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "cli/gpt.h"
#include "cli/gpt_model.h"
#include "core/text.h"

static int run_pretrain(int argc, char **argv)
{
    return cli_train(cli_model_find("gpt"), argc, argv);
}

static const cli_command commands[] = {
    {"pretrain", "train on token files, or on the text of Brigade's own documents", run_pretrain, true},
    {"bench", "time five calls on inputs that are all 1", cli_gpt_bench, true},
    {"generate", "continue a text with a model in Hugging Face's format", cli_gpt_generate, true},
    {"eval", "the loss and perplexity of such a model over texts or token files", cli_gpt_eval, true},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void)
{
    cli_print_lines("Usage: brigade gpt COMMAND [OPTION]...\nGPT language models: docs/gpt.md.\n\nCommands:\n");
    for (int i = 0; i < COMMANDS; i++) {
        char line[128];
        snprintf(line, sizeof line, "  %-9s  %s\n", commands[i].name, commands[i].summary);
        cli_print_lines(line);
    }
    cli_print_lines("\n`brigade gpt COMMAND --help` lists a command's options.\n");
}

int cli_gpt(int argc, char **argv)
{
    const char *names[COMMANDS], *nearest;
    bg_error error = {0};

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_help();
        return CLI_DONE;
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (argc > 1 && strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
        names[i] = commands[i].name;
    }
    nearest = argc > 1 ? bgi_text_nearest(argv[1], names, COMMANDS) : NULL;
    if (argc < 2)
        bg_error_set(&error, BG_ERROR_INVALID, "no command is given; `brigade gpt --help` lists them");
    else
        bg_error_set(&error, BG_ERROR_INVALID, "unknown command `%s`; %s%s%s", argv[1],
                     nearest != NULL ? "did you mean `" : "`brigade gpt --help` lists them",
                     nearest != NULL ? nearest : "", nearest != NULL ? "`?" : "");
    return cli_fail("gpt", CLI_USAGE, &error);
}
