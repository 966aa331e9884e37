/*
 * cmd_plan.c: `brigade plan MODEL`: predicts a training run; it needs no data and trains nothing.
 */
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/model.h"
#include "core/error.h"

static void print_usage(void)
{
    const cli_model *model;

    cli_print_lines("Usage: brigade plan MODEL [OPTION]...\n"
                    "Shows the plan of a training run, with the options of the command that trains the model, and "
                    "predicts the run on this machine or on a described device. Nothing is trained.\n\nModels:\n");
    for (uint32_t i = 0; (model = cli_model_at(i)) != NULL; i++) {
        char line[128];
        snprintf(line, sizeof line, "  %-9s  as `brigade %s`\n", model->name, model->program);
        cli_print_lines(line);
    }
    cli_print_lines("\n`brigade plan MODEL --help` shows its options.\n");
}

static bg_status report_word(const char *word, bg_error *error)
{
    char names[256];
    const cli_model *model;
    size_t length = 0;

    names[0] = '\0';
    for (uint32_t i = 0; (model = cli_model_at(i)) != NULL && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "", model->name);
    if (word == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "no model is given to `brigade plan MODEL`; the models are %s",
                            names);
    return bg_error_set(error, BG_ERROR_INVALID, "unknown model `%s`; the models are %s", word, names);
}

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

/* Copies the first `count` of several names that are separated by spaces. */
static void take_names(const char *names, uint32_t count, char *out, size_t size_bytes)
{
    size_t length = 0;

    for (uint32_t i = 0; i < count && names[length] != '\0'; i++) {
        length += names[length] == ' ';
        length += strcspn(names + length, " ");
    }
    snprintf(out, size_bytes, "%.*s", (int)length, names);
}

/* Reads the command line with the options of this model. The short help shows the model's first four common options and
 * all options of the plan. */
static bg_status read_as(cli_settings *settings, const cli_model *model, int argc, char **argv, const char **word,
                         bool *is_answered, bg_error *error)
{
    char usage[512], common[128];
    cli_help_page page = {
        .usage = usage, .common = model->common != NULL ? common : NULL, .examples = model->plan_examples};

    snprintf(usage, sizeof usage, "Usage: brigade plan %s%s%s [OPTION]...\n%s", model->name,
             model->operand != NULL ? " " : "", model->operand != NULL ? model->operand : "", model->plan);
    if (model->common != NULL)
        take_names(model->common, 4, common, sizeof common);
    cli_prediction_add_help(&page);
    return cli_settings_read(settings, model, "plan", &page, argc, argv, word, is_answered, error);
}

/* Reads the command line. An argument may be the model's name or the value of an option, and only the options of the
 * model decide this. So the function tries each model whose name is among the arguments. If there is none, the options
 * of the first model determine which argument is reported as an unknown model. */
static bg_status read_command_line(cli_settings *settings, int argc, char **argv, bool *is_answered, bg_error *error)
{
    const cli_model *model;
    const char *word = NULL;
    bg_error first = {0}, own = {0};

    for (uint32_t i = 0; (model = cli_model_at(i)) != NULL; i++) {
        if (!has_word(argc, argv, model->name))
            continue;
        word = NULL;
        own = (bg_error){0};
        if (read_as(settings, model, argc, argv, &word, is_answered, &own) == BG_OK &&
            (*is_answered || (word != NULL && strcmp(word, model->name) == 0)))
            return BG_OK;
        if (first.status == BG_OK)
            first = own;
        cli_settings_clear(settings);
    }
    if (first.status != BG_OK)
        return bg_error_set(error, first.status, "%s", first.message);
    if (read_as(settings, cli_model_at(0), argc, argv, &word, is_answered, &own) != BG_OK)
        word = NULL;
    return report_word(word, error);
}

static int show(cli_prediction *prediction, int argc, char **argv, bool *is_answered, bg_error *error)
{
    cli_settings settings = {.model = NULL};
    int code = CLI_USAGE;

    if (read_command_line(&settings, argc, argv, is_answered, error) == BG_OK && !*is_answered) {
        code = settings.model->resolve(settings.values, error);
        if (code == CLI_DONE)
            code = cli_plan_show(&settings, "plan", CLI_PLAN_USUAL, prediction, error);
        if (code == CLI_DONE)
            putchar('\n');
    }
    cli_settings_clear(&settings);
    return code;
}

int cli_plan(int argc, char **argv)
{
    cli_prediction prediction = {.device = NULL};
    bg_error error = {0};
    bool is_answered = false;
    int code = CLI_USAGE, count = 0;
    char **rest = NULL;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_usage();
        return CLI_DONE;
    }
    if (cli_prediction_read(&prediction, argc, argv, &count, &rest, &error) == BG_OK)
        code = prediction.search > 0 && !has_word(count, rest, "--help") && !has_word(count, rest, "-h")
                   ? cli_plan_search(&prediction, count, rest, read_command_line, &error)
                   : show(&prediction, count, rest, &is_answered, &error);
    cli_prediction_clear(&prediction);
    free(rest);
    return is_answered || code == CLI_DONE ? CLI_DONE : cli_fail("plan", code, &error);
}
