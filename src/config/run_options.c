/*
 * run_options.c: finds the options of a run by name, for configurations; it maps options to kinds of document values,
 * and prints options as lines. The table itself is in options/.
 */
#include "config/run_options.h"

#include <string.h>

#include "core/error.h"
#include "core/text.h"
#include "options/choices.h"

/* Returns option `number` of those that have a text form, or NULL. */
static const bgi_option *find_number(uint32_t number)
{
    const bgi_option *option;

    for (uint32_t i = 0; (option = bgi_option_at(i)) != NULL; i++)
        if (bgi_option_has_text(option) && number-- == 0)
            return option;
    return NULL;
}

const char *bgi_run_option_name(uint32_t number)
{
    const bgi_option *option = find_number(number);

    return option != NULL ? option->name : NULL;
}

uint32_t bgi_run_option_find(const char *name)
{
    const uint32_t found = bgi_option_find(name);
    uint32_t number = 0;

    if (found == UINT32_MAX || !bgi_option_has_text(bgi_option_at(found)))
        return UINT32_MAX;
    for (uint32_t i = 0; i < found; i++)
        number += bgi_option_has_text(bgi_option_at(i));
    return number;
}

bg_config_kind bgi_run_option_kind(uint32_t number)
{
    switch (find_number(number)->kind) {
    case BGI_OPTION_BOOL:
        return BG_CONFIG_BOOL;
    case BGI_OPTION_COUNT:
    case BGI_OPTION_SIZE:
    case BGI_OPTION_SEED:
    case BGI_OPTION_INTEGER:
        return BG_CONFIG_INTEGER;
    case BGI_OPTION_REAL:
        return BG_CONFIG_REAL;
    case BGI_OPTION_COUNTS:
        return BG_CONFIG_INTEGERS;
    case BGI_OPTION_REALS:
        return BG_CONFIG_REALS;
    default:
        return BG_CONFIG_TEXT;
    }
}

bool bgi_run_option_is_text(uint32_t number)
{
    return bgi_run_option_kind(number) == BG_CONFIG_TEXT;
}

bool bgi_run_option_is_list(uint32_t number)
{
    const bg_config_kind kind = bgi_run_option_kind(number);

    return kind == BG_CONFIG_INTEGERS || kind == BG_CONFIG_REALS;
}

bg_status bgi_run_option_report(uint32_t number, const char *text, bg_error *error)
{
    return bgi_option_refuse(find_number(number), text, error);
}

bg_status bgi_run_option_set(bg_options *options, bgi_arena *arena, const char *name, const char *text,
                             uint32_t *out_number, bg_error *error)
{
    const uint32_t number = bgi_run_option_find(name);

    if (number == UINT32_MAX)
        return bgi_option_unknown(name, error);
    *out_number = number;
    return bgi_option_set(find_number(number), options, arena, text, error);
}

void bgi_run_option_copy(const bg_options *from, uint32_t number, bg_options *to)
{
    bgi_option_copy(find_number(number), from, to);
}

void bgi_run_option_print(bgi_string *text, uint32_t number, const bg_options *options)
{
    bgi_option_print(find_number(number), options, text);
}

bg_status bg_options_set(bg_options *options, const char *name, const char *text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    BGI_TRY(bgi_require(text, "text", __func__, error));

    uint32_t number;

    return bgi_run_option_set(options, NULL, name, text, &number, error);
}

/* ---- printing ---- */

/* Prints records as comments, so that a reader of the text skips them; they can only be set in C. */
static void print_comments(bgi_string *text, const bg_options *options)
{
    for (uint32_t i = 0; options->reporting.output_requests != NULL && i < options->reporting.output_request_count;
         i++) {
        const bg_output_request *request = &options->reporting.output_requests[i];
        bgi_string_add(text, "# anchor %s: %s, %s", request->name != NULL ? request->name : request->output,
                       request->output, bgi_output_mode_name(request->mode));
        bgi_string_add(text, request->mode == BG_OUTPUT_EVERY_N ? " of period %u\n" : "\n", request->period);
    }
    for (uint32_t i = 0; options->memory.location_rules != NULL && i < options->memory.location_rule_count; i++) {
        const bg_location_rule *rule = &options->memory.location_rules[i];
        bgi_string_add(text, "# location of %s (classes %#x): %s%s%s\n", rule->pattern, (unsigned)rule->classes,
                       rule->location.place == BG_PLACE_REMOTE   ? "remote"
                       : rule->location.place == BG_PLACE_DEVICE ? "device"
                                                                 : "default",
                       rule->location.sharded ? ", in pieces" : "", rule->location.on_demand ? ", on demand" : "");
    }
    for (uint32_t i = 0; options->execution.devices != NULL && i < options->execution.device_model_count; i++)
        bgi_string_add(text, "# device %u: speed %g, memory %zu bytes\n", i, options->execution.devices[i].speed,
                       options->execution.devices[i].memory_bytes);
}

bg_status bg_options_print(const bg_options *options, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    const bgi_option *option;
    bgi_string text = {0};

    for (uint32_t i = 0; (option = bgi_option_at(i)) != NULL; i++) {
        if (!bgi_option_has_text(option))
            continue;
        bgi_string_add(&text, "%-27s ", option->name);
        bgi_option_print(option, options, &text);
        bgi_string_add(&text, "\n");
    }
    print_comments(&text, options);
    return bgi_string_finish(&text, out_text, error);
}
