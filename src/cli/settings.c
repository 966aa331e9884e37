/*
 * settings.c: reads a command line as the settings of a model.
 */
#include "cli/model.h"

#include <stdlib.h>

#include "core/error.h"

cli_library *cli_settings_library(const cli_settings *settings)
{
    return (cli_library *)(void *)((char *)settings->values + settings->model->library);
}

/* Makes the table of the model's flags, and the settings with the model's defaults. */
static bg_status open_settings(cli_settings *settings, const cli_model *model, const char *command, bg_error *error)
{
    settings->model = model;
    cli_table_make(&settings->table, model->flags, model->library_flags, model->library);
    settings->values = calloc(1, model->settings_bytes);
    if (settings->values == NULL)
        return bgi_error_memory(error, "settings", model->settings_bytes);
    model->set_defaults(settings->values, command);
    cli_settings_library(settings)->table = &settings->table;
    return BG_OK;
}

static bg_status print_help(const cli_settings *settings, const char *command, cli_help help, const cli_help_page *page,
                            bg_error *error)
{
    const cli_model *model = settings->model;
    void *defaults = calloc(1, model->settings_bytes);

    if (defaults == NULL)
        return bgi_error_memory(error, "settings", model->settings_bytes);
    model->set_defaults(defaults, command);
    cli_print_help(help, page, settings->table.options, defaults);
    model->clear_settings(defaults);
    free(defaults);
    return BG_OK;
}

bg_status cli_settings_read(cli_settings *settings, const cli_model *model, const char *command,
                            const cli_help_page *page, int argc, char **argv, const char **word, bool *is_answered,
                            bg_error *error)
{
    const cli_option *options = settings->table.options;
    const uint32_t own = word != NULL ? 1 : 0;
    const char *words[2] = {NULL, NULL};
    uint32_t word_count;
    cli_help help = CLI_HELP_NONE;

    BGI_TRY(open_settings(settings, model, command, error));
    if (model->rewrite != NULL)
        BGI_TRY(model->rewrite(settings->values, options, &argc, &argv, error));
    BGI_TRY(cli_options_read(options, argc, argv, settings->values, words, own + (model->operand != NULL), &word_count,
                             &help, cli_settings_library(settings)->given, error));
    if (word != NULL && word_count > 0)
        *word = words[0];
    if (word_count > own)
        *(const char **)(void *)((char *)settings->values + model->operand_at) = words[own];
    *is_answered = help != CLI_HELP_NONE || cli_library_list_passes(cli_settings_library(settings));
    return help != CLI_HELP_NONE ? print_help(settings, command, help, page, error) : BG_OK;
}

void cli_settings_clear(cli_settings *settings)
{
    if (settings->values != NULL)
        settings->model->clear_settings(settings->values);
    free(settings->values);
    cli_table_clear(&settings->table);
    settings->values = NULL;
}
