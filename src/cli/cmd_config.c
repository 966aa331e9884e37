/*
 * cmd_config.c: `brigade config`: shows, checks, changes, explains and converts IPU configurations.
 */
#include "cli/command.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config.h"
#include "cli/options.h"
#include "cli/presets.h"
#include "config/ipu_config.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

#define AT(field) .offset = offsetof(config_options, field)

static const cli_option config_table[] = {
    {CLI_TEXT, "config", AT(preset), .value = "NAME", .default_text = "all defaults",
     .help = "a preset, a file (JSON, or YAML by its name) or a folder with ipu_config.json"},
    {CLI_TEXT, "update", AT(update), .value = "LIST", .default_text = "none",
     .help = "changes: key=value,key=value; lists as [1 2 3]"},
    {CLI_FLAG, "keep-unknown", AT(keep_unknown), .help = "keep and report unknown keys"},
    {CLI_FLAG, "no-version", AT(no_version),
     .help = "update and convert write no brigade_version, which Optimum does not know"},
    {CLI_CHOICE, "to", AT(to), .choices = "json|yaml", .default_text = "by the name of --out, otherwise json",
     .help = "the format that update and convert write"},
    {CLI_TEXT, "out", AT(out), .value = "FILE", .default_text = "standard output",
     .help = "the file that update and convert write"},
    {.help = "The model, for explain"},
    {CLI_COUNT, "layers", AT(layers), .value = "N", .minimum = 1, .maximum = 1000000, .default_text = "unknown",
     .help = "layers of the model"},
    {CLI_COUNT, "encoder-layers", AT(encoder_layers), .value = "N", .minimum = 1, .maximum = 1000000,
     .default_text = "none", .help = "layers of the encoder, if the model has a decoder too"},
    {CLI_COUNT, "decoder-layers", AT(decoder_layers), .value = "N", .minimum = 1, .maximum = 1000000,
     .default_text = "none", .help = "layers of the decoder"},
    {CLI_COUNT, "batch-size", AT(batch_size), .value = "N", .minimum = 1, .maximum = 1000000,
     .help = "samples in a micro-batch"},
    {CLI_COUNT, "devices", AT(devices), .value = "N", .minimum = 1, .maximum = 1000000, .default_text = "any number",
     .help = "number of available devices"},
    CLI_OPTIONS_END,
};

/* Reads the configuration, settles as many fields as possible, and adds the problems of the others to `problems`. */
static bg_status load(const config_options *options, bg_ipu_config **out, bgi_problems *problems, bg_error *error)
{
    const bg_ipu_config_load_options how = {.keep_unknown = options->keep_unknown, .overrides = options->update};
    bgi_document document = {0};
    char *path = NULL;
    bg_status status;

    if (options->preset == NULL) {
        BGI_TRY(bg_ipu_config_create(out, error));
        return options->update != NULL ? bg_ipu_config_update_from_string(*out, options->update, error) : BG_OK;
    }
    BGI_TRY(config_find(options->preset, &path, error));
    status = bgi_document_load(path, &document, error);
    if (status == BG_OK)
        status = bgi_ipu_read_document(&document, path, &how, out, problems, error);
    bgi_document_clear(&document);
    free(path);
    return status;
}

/* ---- the commands ---- */

static bg_status print_text(bg_status (*print)(const bg_ipu_config *, char **, bg_error *), const bg_ipu_config *config,
                            bg_error *error)
{
    char *text = NULL;

    BGI_TRY(print(config, &text, error));
    fputs(text, stdout);
    free(text);
    return BG_OK;
}

static bg_status say_notes(const bg_ipu_config *config, bg_error *error)
{
    char *text = NULL, *rest = NULL;

    BGI_TRY(bg_ipu_config_print_notes(config, &text, error));
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        cli_say("config", "note: %s", line);
    free(text);
    return BG_OK;
}

static bg_status run_show(const bg_ipu_config *config, const config_options *options, bgi_problems *problems,
                          bg_error *error)
{
    (void)options;
    (void)problems;
    return print_text(bg_ipu_config_print, config, error);
}

static bg_status run_check(const bg_ipu_config *config, const config_options *options, bgi_problems *problems,
                           bg_error *error)
{
    (void)config;
    (void)options;
    (void)error;
    if (problems->count == 0)
        printf("all is well\n");
    return BG_OK;
}

static bg_status run_convert(const bg_ipu_config *config, const config_options *options, bgi_problems *problems,
                             bg_error *error)
{
    const bool to_yaml = options->to != NULL ? strcmp(options->to, "yaml") == 0
                                             : options->out != NULL && bgi_document_is_yaml(options->out);
    bg_status (*print)(const bg_ipu_config *, char **, bg_error *) =
        to_yaml ? bg_ipu_config_print_yaml : bg_ipu_config_print_json;
    char *text = NULL;
    bg_status status;

    /* An invalid file is not written. */
    if (problems->count > 0)
        return BG_OK;
    if (options->out == NULL)
        return print_text(print, config, error);
    BGI_TRY(print(config, &text, error));
    status = bgi_file_save(options->out, text, strlen(text), error);
    free(text);
    return status;
}

typedef struct config_command {
    const char *name;
    const char *summary;
    bg_status (*run)(const bg_ipu_config *config, const config_options *options, bgi_problems *problems,
                     bg_error *error);
} config_command;

static const config_command commands[] = {
    {"show", "every field's value, given or inferred", run_show},
    {"check", "every problem, one on each line", run_check},
    {"update", "the file with --update's changes", run_convert},
    {"explain", "the layers of each device, the samples of a call, every problem", config_explain},
    {"convert", "the configuration as JSON or YAML", run_convert},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const config_command *find_command(const char *name, bg_error *error)
{
    const char *names[COMMAND_COUNT], *nearest;
    char list[128] = "";

    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i == 0 ? "" : ", ", names[i]);
        if (name != NULL && strcmp(names[i], name) == 0)
            return &commands[i];
    }
    nearest = name != NULL ? bgi_text_nearest(name, names, COMMAND_COUNT) : NULL;
    if (name == NULL)
        bg_error_set(error, BG_ERROR_INVALID, "no command is given; the commands are %s", list);
    else if (nearest != NULL)
        bg_error_set(error, BG_ERROR_INVALID, "unknown command `%s`; did you mean `%s`?", name, nearest);
    else
        bg_error_set(error, BG_ERROR_INVALID, "unknown command `%s`; the commands are %s", name, list);
    return NULL;
}

static bg_status check_options(const config_options *options, const config_command *command, bg_error *error)
{
    if (strcmp(command->name, "update") == 0 && options->update == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "update needs --update LIST with the changes");
    if ((options->encoder_layers > 0) != (options->decoder_layers > 0))
        return bg_error_set(error, BG_ERROR_INVALID, "--encoder-layers and --decoder-layers must be given together");
    if (options->layers > 0 && options->encoder_layers > 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--layers cannot be combined with --encoder-layers and --decoder-layers; give one of the two forms");
    if ((options->out != NULL || options->to != NULL || options->no_version) && command->run != run_convert)
        return bg_error_set(error, BG_ERROR_INVALID, "--out, --to and --no-version apply only to update and convert");
    return BG_OK;
}

/* Runs the command and returns the exit code: 2 for an invalid configuration, as for a wrong command line, and 1 for a
 * valid configuration that does not fit the model or devices, or cannot be written. */
static int run_command(const config_command *command, const config_options *options)
{
    bg_ipu_config *config = NULL;
    bgi_problems problems = {0};
    bg_error error = {0};
    bg_status status = load(options, &config, &problems, &error);
    const bool is_wrong = status != BG_OK || problems.count > 0;
    int code = CLI_DONE;

    if (status == BG_OK)
        bg_ipu_config_set_version_written(config, !options->no_version);
    if (status == BG_OK)
        status = say_notes(config, &error);
    if (status == BG_OK)
        status = command->run(config, options, &problems, &error);
    if (status == BG_OK && problems.failed)
        status = bgi_problems_report(&problems, BG_ERROR_INVALID, &error);
    for (size_t i = 0; status == BG_OK && i < problems.count; i++) {
        cli_say("config", "%s", problems.items[i].text);
        code = is_wrong ? CLI_USAGE : CLI_FAILED;
    }
    bg_ipu_config_destroy(config);
    bgi_problems_clear(&problems);
    return status == BG_OK ? code : cli_fail("config", is_wrong ? CLI_USAGE : CLI_FAILED, &error);
}

static void print_help(cli_help help, const config_options *defaults)
{
    bgi_string usage = {0};

    bgi_string_add(&usage, "Usage: brigade config COMMAND [--config NAME] [OPTION]...\n"
                           "IPU configurations (ipu_config.json of Optimum Graphcore): docs/configuration.md.\n\n"
                           "Commands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        bgi_string_add(&usage, "  %-9s  %s\n", commands[i].name, commands[i].summary);
    cli_print_help(help,
                   &(cli_help_page){.usage = usage.data != NULL ? usage.data : "",
                                    .examples = "brigade config explain gpt2-small --layers 12\n"
                                                "brigade config check vit-base\n"
                                                "brigade config convert bert-base --to yaml --out bert.yaml\n"},
                   config_table, defaults);
    bgi_string_clear(&usage);
}

int cli_config(int argc, char **argv)
{
    config_options options = {.batch_size = 1};
    const config_options defaults = options;
    const char *words[2] = {NULL, NULL};
    uint32_t word_count = 0;
    cli_help help = CLI_HELP_NONE;
    const config_command *command;
    bg_error error = {0};

    if (cli_options_read(config_table, argc, argv, &options, words, 2, &word_count, &help, NULL, &error) != BG_OK)
        return cli_fail("config", CLI_USAGE, &error);
    if (help != CLI_HELP_NONE) {
        print_help(help, &defaults);
        return CLI_DONE;
    }
    command = find_command(word_count > 0 ? words[0] : NULL, &error);
    if (command == NULL)
        return cli_fail("config", CLI_USAGE, &error);
    if (word_count > 1 && options.preset != NULL)
        bg_error_set(&error, BG_ERROR_INVALID, "two configurations are given, `%s` and --config %s; give one", words[1],
                     options.preset);
    else if (word_count > 1)
        options.preset = words[1];
    if (error.status != BG_OK || check_options(&options, command, &error) != BG_OK)
        return cli_fail("config", CLI_USAGE, &error);
    return run_command(command, &options);
}
