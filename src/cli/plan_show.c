/*
 * plan_show.c: prints a model's plan and its prediction.
 */
#include "cli/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/plan.h>

#include "cli/command.h"
#include "core/error.h"

typedef bg_status (*print_function)(const bg_plan *plan, char **out_text, bg_error *error);

static const struct {
    cli_plan_part part;
    const char *title;
    print_function print;
} parts_in_order[] = {
    {CLI_PLAN_STAGES, "Stages", bg_plan_print_placement},
    {CLI_PLAN_MEMORY, "Memory", bg_plan_print_memory},
    {CLI_PLAN_PHASES, "Memory by phase", bg_plan_print_phases},
    {CLI_PLAN_REMOTE, "Remote stores and traffic", bg_plan_print_remote},
    {CLI_PLAN_TIMETABLE, "Timetable", bg_plan_print_timetable},
    {CLI_PLAN_PROGRAM, "Program", bg_plan_print_program},
};

static bg_status print_parts(const bg_plan *plan, uint32_t parts, bg_error *error)
{
    for (size_t i = 0; i < sizeof parts_in_order / sizeof parts_in_order[0]; i++) {
        char *text = NULL;

        if (parts_in_order[i].part == CLI_PLAN_TIMETABLE)
            BGI_TRY(cli_plan_report_ranks(plan, "\n", error));
        if ((parts & (uint32_t)parts_in_order[i].part) == 0)
            continue;
        BGI_TRY(parts_in_order[i].print(plan, &text, error));
        printf("\n%s\n%s%s", parts_in_order[i].title, text,
               text[0] != '\0' && text[strlen(text) - 1] != '\n' ? "\n" : "");
        free(text);
    }
    return BG_OK;
}

static bg_status show_plan(const cli_settings *settings, const char *command, uint32_t parts,
                           cli_prediction *prediction, bg_error *error)
{
    const cli_model *model = settings->model;
    cli_build build;
    bg_plan *plan = NULL;
    bg_status status;

    if (model->measure != NULL)
        BGI_TRY(model->measure(settings->values, false, error));
    BGI_TRY(cli_build_make(&build, settings, NULL, error));
    if (prediction != NULL)
        cli_prediction_set_budget(prediction, &build.training);
    cli_begin_compilation(build.quiet);
    status = cli_build_plan(&build, NULL, &plan, error);
    cli_clear_line(build.quiet);
    if (status != BG_OK)
        return status;
    cli_end_at_signals(command); /* drawing a long diagram does not check for signals */
    cli_plan_report(plan, model->samples, build.is_measured);
    if (prediction != NULL)
        status = cli_prediction_show(prediction, &build, plan, model->samples, error);
    if (status == BG_OK)
        status = print_parts(plan, parts == CLI_PLAN_USUAL ? build.plan_parts : parts, error);
    bg_plan_destroy(plan);
    return status;
}

int cli_plan_show(const cli_settings *settings, const char *command, uint32_t parts, cli_prediction *prediction,
                  bg_error *error)
{
    cli_build build;

    if (cli_build_make(&build, settings, NULL, error) != BG_OK || cli_options_check(&build.training, error) != BG_OK)
        return CLI_USAGE;
    cli_catch_signals();
    return show_plan(settings, command, parts, prediction, error) == BG_OK ? CLI_DONE : CLI_FAILED;
}
