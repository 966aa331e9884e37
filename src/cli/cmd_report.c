/*
 * cmd_report.c: `brigade report DIR`: makes the report of a folder that --profile has written: an HTML file, a
 * comparison of two folders, or text.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade/profile.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/program.h"
#include "core/error.h"
#include "core/file.h"

typedef struct report_config {
    const char *other, *output;
    bool text;
} report_config;

#define AT(field) .offset = offsetof(report_config, field)

static const cli_option report_options[] = {
    {CLI_FLAG, "text", AT(text), .help = "print the report as text, in color on a terminal"},
    {CLI_TEXT, "compare", AT(other), .value = "DIR2", .default_text = "none",
     .help = "compare with the profile of another run"},
    {CLI_TEXT, "output", AT(output), .value = "FILE",
     .default_text = "DIR/report.html; with --compare DIR/compare.html", .help = "file for the HTML"},
    CLI_OPTIONS_END,
};

/* Whether to print colors: on a terminal that has them, unless NO_COLOR is set (no-color.org). */
static bool is_colored(void)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");

    return isatty(STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0') && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

static bg_status print_text(const report_config *config, const char *folder, bg_error *error)
{
    char *text = NULL;

    BGI_TRY(bg_profile_print_report(folder, config->other, is_colored(), &text, error));
    fputs(text, stdout);
    free(text);
    return BG_OK;
}

static bg_status write_page(const report_config *config, const char *folder, bg_error *error)
{
    char *path =
        config->output != NULL ? NULL : bgi_path_join(folder, config->other != NULL ? "compare.html" : "report.html");
    const char *target = config->output != NULL ? config->output : path;
    bg_status status =
        target != NULL ? bg_profile_report(folder, config->other, target, error) : bgi_error_memory(error, "path", 0);

    if (status == BG_OK)
        printf("Report: %s (open it in a browser; --text prints it)\n", target);
    free(path);
    return status;
}

static const cli_help_page page = {
    .usage = "Usage: brigade report DIR [OPTION]...\n"
             "Shows the records of --profile in a folder (docs/profiling.md).\n",
    .examples = "brigade report profile --text\n"
                "brigade report profile --output report.html\n",
};

int cli_report(int argc, char **argv)
{
    report_config config = {.other = NULL};
    const report_config defaults = config;
    const char *words[1] = {NULL};
    uint32_t word_count = 0;
    cli_help help = CLI_HELP_NONE;
    bg_error error = {0};
    bg_status status =
        cli_options_read(report_options, argc, argv, &config, words, 1, &word_count, &help, NULL, &error);

    if (status == BG_OK && help != CLI_HELP_NONE) {
        cli_print_help(help, &page, report_options, &defaults);
        return CLI_DONE;
    }
    if (status == BG_OK && word_count == 0)
        status = bg_error_set(&error, BG_ERROR_INVALID,
                              "no folder is given; name the one that --profile wrote: "
                              "`brigade report ./profile`");
    if (status == BG_OK && config.text && config.output != NULL)
        status = bg_error_set(&error, BG_ERROR_INVALID,
                              "--text prints the report, and --output writes it as HTML; give one of them");
    if (status != BG_OK)
        return cli_fail("report", CLI_USAGE, &error);
    status = config.text ? print_text(&config, words[0], &error) : write_page(&config, words[0], &error);
    return status == BG_OK ? CLI_DONE : cli_fail("report", CLI_FAILED, &error);
}
