/*
 * strategy.c: options of strategies that are texts, as the library has them.
 */
#include "cli/program.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

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
        if (!bg_location_class_find(name, &location_class))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--%s names `%.*s`; there are activations, weights, optimiser and accumulators", option,
                                (int)(end - begin), list + begin);
        *out |= 1u << location_class;
        begin = end + 1;
    }
    return BG_OK;
}

bool cli_recompute_find(const char *text, bg_options *options)
{
    char *end = NULL;

    if (text == NULL || (strcmp(text, "fraction") != 0 && bg_recompute_find(text, &options->recompute)))
        return true;
    options->recompute = BG_RECOMPUTE_FRACTION;
    options->recompute_fraction = strtod(text, &end);
    return end != text && *end == '\0' && options->recompute_fraction >= 0.0 && options->recompute_fraction <= 1.0;
}

bg_status cli_schedule_check(const char *strategy, const char *schedule, bg_error *error)
{
    char names[512] = "";

    if (schedule == NULL)
        return BG_OK;
    for (uint32_t i = 0; bg_schedule_generator_at(i) != NULL; i++)
        if (strcmp(bg_schedule_generator_at(i)->name, "phased") != 0)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i == 0 ? "" : "|",
                     bg_schedule_generator_at(i)->name);
    if (bg_schedule_generator_find(schedule) == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--schedule is `%s`; it must be one of %s", schedule, names);
    if (strcmp(strategy, "pipelined") != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--schedule %s with --strategy %s; only the pipelined strategy has a choice of schedules",
                            schedule, strategy);
    if (strcmp(schedule, "phased") == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--schedule phased is no schedule of a pipeline; use --strategy phased");
    return BG_OK;
}
