/*
 * main.c: the program `brigade`, which finds the subcommand and runs it. Subcommands are rows of a table.
 */
#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model.h"
#include "cli/ranks.h"
#include "core/file.h"
#include "core/text.h"

/* The commands that --help lists, after the models that have a summary. */
static const cli_command commands[] = {
    {"infer", "run a model that another framework has exported (ONNX)", cli_infer, false},
    {"inspect", "describe such a model and the memory to train it", cli_inspect, false},
    {"gpt", "train and use GPT language models", cli_gpt, true},
    {"plan", "show the plan of a training run without running it", cli_plan, false},
    {"report", "show where time and memory of a run went; compare two runs", cli_report, false},
    {"schedule", "show, compare, verify, simulate and convert schedules", cli_schedule, false},
    {"config", "show, check, change and explain IPU configurations", cli_config, false},
    {"checkpoint", "inspect, verify, diff and convert checkpoints", cli_checkpoint, false},
    {"doctor", "describe this machine and find bad settings", cli_doctor, true},
    {"launch", "start ranks, watch them, restart them when they fail", cli_launch, false},
    {"data", "make data sets, measure how fast data are read, tokenize texts", cli_data, false},
    {"options", "list and explain the library's options and optimizers", cli_options, false},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_command(const char *name, const char *summary)
{
    char line[128];

    snprintf(line, sizeof line, "  %-10s  %s\n", name, summary);
    cli_print_lines(line);
}

static void print_help(void)
{
    cli_print_lines("Usage: brigade COMMAND [OPTION]...\n"
                    "Trains and runs neural networks that are split over several devices.\n\nCommands:\n");
    for (uint32_t i = 0; cli_model_at(i) != NULL; i++)
        if (cli_model_at(i)->summary != NULL)
            print_command(cli_model_at(i)->name, cli_model_at(i)->summary);
    for (int i = 0; i < COMMAND_COUNT; i++)
        print_command(commands[i].name, commands[i].summary);
    cli_print_lines("\n`brigade COMMAND --help` shows the options that most runs need, and `brigade COMMAND --help "
                    "all` shows every option. `brigade --version` prints the version.\n");
}

/* Prints the text for a call without arguments: the first commands to try. */
static void greet(void)
{
    fputs("Brigade trains and runs neural networks that are split over several devices.\n\n"
          "  brigade mnist                    train the digit network in four pipeline stages\n"
          "  brigade plan mnist               its stages, timetable and memory, without a run\n"
          "  brigade train MODEL.onnx --help  train your own model\n"
          "  brigade doctor                   examine this machine\n\n"
          "`brigade --help` lists all commands.\n",
          stderr);
}

static int report_unknown(const char *name)
{
    enum { MODEL_LIMIT = 32 };
    const char *names[COMMAND_COUNT + MODEL_LIMIT];
    const char *nearest;
    uint32_t count = 0;

    for (; count < COMMAND_COUNT; count++)
        names[count] = commands[count].name;
    for (uint32_t i = 0; i < MODEL_LIMIT && cli_model_at(i) != NULL; i++)
        if (cli_model_at(i)->summary != NULL)
            names[count++] = cli_model_at(i)->name;
    nearest = bgi_text_nearest(name, names, count);
    if (nearest != NULL)
        cli_say(NULL, "unknown command `%s`; did you mean `%s`?", name, nearest);
    else
        cli_say(NULL, "unknown command `%s`; `brigade --help` lists the commands", name);
    return CLI_USAGE;
}

/* Opens /dev/null at each closed descriptor from 0 to 2, which would otherwise be reused for the next opened file, and
 * that file would receive the output. /dev/null is opened in the opposite direction, so that using the descriptor is
 * still an error. */
static void fill_standard_streams(void)
{
    for (int descriptor = 0; descriptor <= 2; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor)
            _exit(CLI_FAILED); /* no message can be printed */
}

/* Ignores two signals, so that a closed pipe and a file-size limit become write errors, which can be reported. */
static void ignore_write_signals(void)
{
    struct sigaction ignore;

    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, NULL);
#ifdef SIGXFSZ
    sigaction(SIGXFSZ, &ignore, NULL);
#endif
}

/* Runs the command. Under a launcher, a command that uses ranks runs in all processes together, and other commands run
 * only in the first process. */
static int run_command(const cli_command *command, int argc, char **argv)
{
    bg_error error = {0};

    if (!command->uses_ranks && cli_ranks_is_spare())
        return CLI_DONE;
    if (command->uses_ranks && cli_ranks_begin(&error) != BG_OK)
        return cli_fail(command->name, CLI_USAGE, &error);
    return cli_ranks_end(cli_finish(command->name, command->run(argc, argv)));
}

static int run_model(const cli_model *model, int argc, char **argv)
{
    bg_error error = {0};

    if (cli_ranks_begin(&error) != BG_OK)
        return cli_fail(model->says, CLI_USAGE, &error);
    return cli_ranks_end(cli_finish(model->says, cli_train(model, argc, argv)));
}

int main(int argc, char **argv)
{
    const cli_model *model;

    fill_standard_streams();
    ignore_write_signals();
    if (argc < 2) {
        greet();
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help();
        return cli_finish("help", CLI_DONE);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("brigade %s\nMPI: %s\n", bg_version(), cli_ranks_built());
        return cli_finish("--version", CLI_DONE);
    }
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return run_command(&commands[i], argc - 1, argv + 1);
    model = cli_model_find(argv[1]);
    if (model != NULL && model->summary != NULL)
        return run_model(model, argc - 1, argv + 1);
    return report_unknown(argv[1]);
}
