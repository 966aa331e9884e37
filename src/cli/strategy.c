/*
 * strategy.c: translates flags with a special form (flags.def) to options of the library.
 */
#include "cli/program.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "options/choices.h"

bg_status cli_classes_find(const char *option, const char *list, size_t length, uint32_t *out, bg_error *error)
{
    *out = 0;
    if (length == 4 && strncmp(list, "none", 4) == 0)
        return BG_OK;
    for (size_t begin = 0; begin <= length;) {
        const char *comma = memchr(list + begin, ',', length - begin);
        const size_t end = comma != NULL ? (size_t)(comma - list) : length;
        char name[32] = "";
        bg_location_class location_class;
        if (end - begin < sizeof name)
            memcpy(name, list + begin, end - begin);
        if (!bgi_location_class_find(name, &location_class))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--%s names `%.*s`; it must be activations, weights, optimizer, accumulators or none",
                                option, (int)(end - begin), list + begin);
        *out |= 1u << location_class;
        begin = end + 1;
    }
    return BG_OK;
}

bool cli_recompute_find(const char *text, bg_options *options)
{
    char *end = NULL;

    if (text == NULL || (strcmp(text, "fraction") != 0 && bgi_recompute_find(text, &options->memory.recompute)))
        return true;
    options->memory.recompute = BG_RECOMPUTE_FRACTION;
    options->memory.recompute_fraction = strtod(text, &end);
    return end != text && *end == '\0' && options->memory.recompute_fraction >= 0.0 &&
           options->memory.recompute_fraction <= 1.0;
}

bool cli_loss_scaling_is_auto(const char *text)
{
    return text != NULL && strncmp(text, "auto", 4) == 0 && (text[4] == '\0' || text[4] == ':');
}

bool cli_loss_scaling_find(const char *text, bg_options *options)
{
    bg_numerics_options *numerics = &options->numerics;
    char *end = NULL;

    if (text == NULL)
        return true;
    numerics->auto_loss_scaling.enabled = cli_loss_scaling_is_auto(text);
    if (numerics->auto_loss_scaling.enabled && text[4] == '\0')
        return true;
    text += numerics->auto_loss_scaling.enabled ? 5 : 0;
    numerics->loss_scaling = strtod(text, &end);
    return end != text && *end == '\0' && numerics->loss_scaling > 0.0 && numerics->loss_scaling <= DBL_MAX;
}

void cli_accumulator_type_set(const char *text, bg_options *options)
{
    if (text == NULL || strcmp(text, "default") == 0)
        return;
    options->numerics.accumulator_type = strcmp(text, "same") == 0 ? BG_ACCUMULATOR_SAME : BG_ACCUMULATOR_GIVEN;
    if (options->numerics.accumulator_type == BG_ACCUMULATOR_GIVEN)
        options->numerics.accumulator_dtype = bg_dtype_find(text);
}

bg_status cli_schedule_check(bg_strategy strategy, const char *schedule, bg_error *error)
{
    const bg_schedule_generator *generator = bg_schedule_generator_find(schedule);
    char names[512] = "";

    if (schedule == NULL)
        return BG_OK;
    for (uint32_t i = 0; bg_schedule_generator_at(i) != NULL; i++)
        if (strcmp(bg_schedule_generator_at(i)->name, "phased") != 0)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i == 0 ? "" : "|",
                     bg_schedule_generator_at(i)->name);
    if (generator == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--schedule is `%s`; it must be one of %s", schedule, names);
    if (strategy != BG_STRATEGY_PIPELINED)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--schedule %s is given with --strategy %s, but only the pipelined strategy has a choice of schedules",
            schedule, bgi_strategy_name(strategy));
    if (strcmp(generator->name, "phased") == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--schedule phased is not a pipeline schedule; use --strategy phased");
    return BG_OK;
}
