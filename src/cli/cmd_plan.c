/*
 * cmd_plan.c: `brigade plan mnist`: what a run would do, without running it and without data.
 */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade/plan.h>

#include "cli/mnist.h"
#include "core/error.h"

typedef bg_status (*print_function)(const bg_plan *plan, char **out_text, bg_error *error);

static bg_status print_part(const bg_plan *plan, const char *title, print_function print, bg_error *error)
{
    char *text = NULL;

    BGI_TRY(print(plan, &text, error));
    printf("%s\n%s%s\n", title, text, text[0] != '\0' && text[strlen(text) - 1] != '\n' ? "\n" : "");
    free(text);
    return BG_OK;
}

void cli_begin_compilation(bool quiet)
{
    if (quiet || isatty(STDOUT_FILENO) != 1)
        return;
    fputs("Compiling...", stdout);
    fflush(stdout);
}

void cli_clear_line(bool quiet)
{
    if (quiet || isatty(STDOUT_FILENO) != 1)
        return;
    fputs("\r\033[K", stdout);
    fflush(stdout);
}

void cli_report_compilation(const bg_plan *plan)
{
    const bg_plan_summary summary = bg_plan_summarise(plan);

    printf("%s %.1f ms\n", summary.is_cached ? "Plan: loaded from cache in" : "Graph compilation:", summary.compile_ms);
}

void cli_plan_report(const bg_plan *plan, const char *samples, bool is_measured)
{
    const bg_plan_summary summary = bg_plan_summarise(plan);

    printf("%u stage%s on %u device%s, %u replica%s; %u micro-batches of %u %s an update, %u updates a call\n"
           "%.2f Mflop a micro-batch; idle share %.1f %% by %s costs; %s in %.1f ms\n",
           summary.stage_count, cli_s(summary.stage_count), summary.device_count, cli_s(summary.device_count),
           summary.replicas, cli_s(summary.replicas), summary.micro_batches_per_step, summary.micro_batch, samples,
           summary.steps_per_run, 1e-6 * summary.flops_per_micro_batch, 100.0 * summary.idle_share,
           is_measured ? "measured" : "static", summary.is_cached ? "loaded from cache" : "compiled",
           summary.compile_ms);
    if (summary.recomputed_op_count > 0)
        printf("%u ops run again for the backward pass, %.1f %% of the time by static costs\n",
               summary.recomputed_op_count, 100.0 * summary.recompute_share);
}

void mnist_plan_report(const mnist_config *config, const bg_plan *plan)
{
    cli_plan_report(plan, "images", config->costs.stage_count > 0);
}

static bg_status print_plan(mnist_config *config, bg_error *error)
{
    const mnist_shape shape = mnist_training_shape(config);
    bg_plan *plan = NULL;
    bg_status status;

    BGI_TRY(mnist_costs_find(config, false, error));
    BGI_TRY(mnist_plan_create(config, &shape, &plan, error));
    mnist_plan_report(config, plan);
    printf("\n");
    status = print_part(plan, "Stages", bg_plan_print_placement, error);
    if (status == BG_OK)
        status = print_part(plan, "Memory", bg_plan_print_memory, error);
    if (status == BG_OK)
        status = print_part(plan, "Timetable", bg_plan_print_timetable, error);
    if (status == BG_OK && config->debug)
        status = print_part(plan, "Program", bg_plan_print_program, error);
    bg_plan_destroy(plan);
    return status;
}

int cli_plan(int argc, char **argv)
{
    mnist_config config = mnist_config_defaults();
    const mnist_config defaults = config;
    const char *word = NULL;
    uint32_t word_count;
    bool wants_help, given[CLI_OPTION_LIMIT] = {false};
    bg_error error = {0};
    bg_status status;
    int code = CLI_USAGE;

    config.command = "plan";
    status = cli_options_read(mnist_options, argc, argv, &config, &word, 1, &word_count, &wants_help, given, &error);

    if (status == BG_OK && wants_help) {
        printf(
            "Usage: brigade plan mnist [OPTION]...\n"
            "Shows stages, memory and timetable of `brigade mnist` with the same options. --debug: the program too.\n");
        cli_options_help(mnist_options, &defaults, stdout);
        return CLI_DONE;
    }
    if (status == BG_OK && word_count == 0)
        status = bg_error_set(&error, BG_ERROR_INVALID, "which model? There is: brigade plan mnist");
    if (status == BG_OK && strcmp(word, "mnist") != 0)
        status = bg_error_set(&error, BG_ERROR_INVALID, "unknown model `%s`; there is mnist", word);
    if (status == BG_OK)
        code = mnist_ipu_resolve(&config, given, &error);
    if (code == CLI_DONE && mnist_config_read_options(&config, &error) != BG_OK)
        code = CLI_USAGE;
    if (code == CLI_DONE &&
        (mnist_config_check(&config, &error) != BG_OK || mnist_plan_check(&config, &error) != BG_OK))
        code = CLI_USAGE;
    if (code == CLI_DONE && print_plan(&config, &error) != BG_OK)
        code = CLI_FAILED;
    mnist_config_clear(&config);
    return code == CLI_DONE ? code : cli_fail("plan", code, &error);
}
