/*
 * run_options.c: the options of a run by name: set from text, printed. One table; PopTorch's names for the same things
 * are taken as well. What is a list, a callback or an array is for C alone.
 */
#include <brigade/config.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/schedule.h>

#include "core/error.h"
#include "core/text.h"

typedef enum option_kind { BOOL, COUNT, SIZE, SEED, REAL, NAME, SCHEDULE, TEXT } option_kind;

typedef struct option_row {
    const char *name;
    const char *poptorch; /* accessor of poptorch.Options, or NULL */
    option_kind kind;
    size_t offset;
    const char *(*name_of)(int value); /* NAME */
} option_row;

/* Enumerators are ints in memory. */
_Static_assert(sizeof(bg_strategy) == sizeof(int) && sizeof(bg_output_mode) == sizeof(int), "enumerators are ints");

#define NAMES(type)                                                                                                    \
    static const char *name_##type(int value)                                                                          \
    {                                                                                                                  \
        return bg_##type##_name((bg_##type)value);                                                                     \
    }
NAMES(strategy)
NAMES(accumulation)
NAMES(replica_reduction)
NAMES(recompute)
NAMES(recompute_order)
NAMES(output_mode)
#undef NAMES

static const char *name_partials(int value)
{
    return value == BG_FLOAT32 || value == BG_BFLOAT16 ? bg_dtype_name((bg_dtype)value) : "none";
}

static const char *name_grouping(int value)
{
    return value >= 0 && value <= BG_GROUPING_NONE ? bg_grouping_name((bg_grouping)value) : "none";
}

static const char *name_auto_stage(int value)
{
    return value == BG_AUTO_STAGE_INCREMENT ? "auto_increment" : value == 0 ? "same_as_ipu" : "none";
}

#define AT(field) offsetof(bg_options, field)

static const option_row rows[] = {
    {"strategy", "setExecutionStrategy", NAME, AT(strategy), name_strategy},
    {"schedule", NULL, SCHEDULE, AT(schedule), NULL},
    {"stages", NULL, TEXT, AT(stages), NULL},
    {"auto_stage", "autoStage", NAME, AT(auto_stage), name_auto_stage},
    {"device_count", NULL, COUNT, AT(device_count), NULL},
    {"phases_parallel", NULL, BOOL, AT(phases_parallel), NULL},
    {"device_iterations", "deviceIterations", COUNT, AT(device_iterations), NULL},
    {"gradient_accumulation", "Training.gradientAccumulation", COUNT, AT(gradient_accumulation), NULL},
    {"replicas", "replicationFactor", COUNT, AT(replicas), NULL},
    {"total_devices", NULL, COUNT, AT(total_devices), NULL},
    {"input_group_size", NULL, COUNT, AT(input_group_size), NULL},
    {"input_grouping", NULL, NAME, AT(input_grouping), name_grouping},
    {"accumulation", "Training.accumulationAndReplicationReductionType", NAME, AT(accumulation), name_accumulation},
    {"replica_reduction", NULL, NAME, AT(replica_reduction), name_replica_reduction},
    {"max_gradient_norm", NULL, REAL, AT(max_gradient_norm), NULL},
    {"output_gradient_norm", NULL, BOOL, AT(output_gradient_norm), NULL},
    {"loss_scaling", NULL, REAL, AT(loss_scaling), NULL},
    {"auto_loss_scaling", "Training.setAutomaticLossScaling", BOOL, AT(auto_loss_scaling.enabled), NULL},
    {"auto_loss_scaling.output", NULL, BOOL, AT(auto_loss_scaling.output), NULL},
    {"auto_loss_scaling.bin_edge", NULL, REAL, AT(auto_loss_scaling.bin_edge), NULL},
    {"auto_loss_scaling.threshold", NULL, REAL, AT(auto_loss_scaling.threshold), NULL},
    {"auto_loss_scaling.period", NULL, COUNT, AT(auto_loss_scaling.period), NULL},
    {"auto_loss_scaling.increase", NULL, REAL, AT(auto_loss_scaling.increase), NULL},
    {"auto_loss_scaling.decrease", NULL, REAL, AT(auto_loss_scaling.decrease), NULL},
    {"auto_loss_scaling.minimum", NULL, REAL, AT(auto_loss_scaling.minimum), NULL},
    {"auto_loss_scaling.maximum", NULL, REAL, AT(auto_loss_scaling.maximum), NULL},
    {"device_memory_bytes", NULL, SIZE, AT(device_memory_bytes), NULL},
    {"cores", NULL, COUNT, AT(cores), NULL},
    {"seed", "randomSeed", SEED, AT(seed), NULL},
    {"offload_optimiser", NULL, BOOL, AT(offload_optimiser), NULL},
    {"shard_optimiser", NULL, BOOL, AT(locations[BG_LOCATION_STATE].sharded), NULL},
    {"shard_weights", NULL, BOOL, AT(locations[BG_LOCATION_WEIGHTS].sharded), NULL},
    {"shard_accumulators", NULL, BOOL, AT(locations[BG_LOCATION_ACCUMULATORS].sharded), NULL},
    {"recompute", NULL, NAME, AT(recompute), name_recompute},
    {"recompute_fraction", NULL, REAL, AT(recompute_fraction), NULL},
    {"recompute_order", NULL, NAME, AT(recompute_order), name_recompute_order},
    {"output_mode", "outputMode", NAME, AT(output_mode), name_output_mode},
    {"output_period", NULL, COUNT, AT(output_period), NULL},
    {"requests_only", NULL, BOOL, AT(requests_only), NULL},
    {"ipu_limits", NULL, BOOL, AT(ipu_limits), NULL},
    {"auto_round_devices", "autoRoundNumIPUs", BOOL, AT(auto_round_devices), NULL},
    {"wait_limit_s", NULL, REAL, AT(wait_limit_s), NULL},
    {"trace", NULL, BOOL, AT(trace), NULL},
    {"trace_events", NULL, COUNT, AT(trace_events), NULL},
    {"partials", NULL, NAME, AT(partials), name_partials},
    {"no_fusion", NULL, BOOL, AT(no_fusion), NULL},
    {"compile_only", NULL, BOOL, AT(compile_only), NULL},
    {"cache_dir", "enableExecutableCaching", TEXT, AT(cache_dir), NULL},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0], NAME_LIMIT = 16 };

static const option_row *find_row(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0 || (rows[i].poptorch != NULL && strcmp(rows[i].poptorch, name) == 0))
            return &rows[i];
    return NULL;
}

static bg_status report_unknown(const char *name, bg_error *error)
{
    const char *names[2 * ROW_COUNT], *nearest;
    uint32_t count = 0;

    for (size_t i = 0; i < ROW_COUNT; i++) {
        names[count++] = rows[i].name;
        if (rows[i].poptorch != NULL)
            names[count++] = rows[i].poptorch;
    }
    nearest = bgi_text_nearest(name, names, count);
    return bg_error_set(error, BG_ERROR_NOT_FOUND, "there is no option `%s`%s%s%s", name,
                        nearest != NULL ? "; did you mean `" : "", nearest != NULL ? nearest : "",
                        nearest != NULL ? "`?" : "");
}

/* The number of a name; PopTorch's "OutputMode.All" is "all". */
static bool find_name(const option_row *row, const char *text, int *out)
{
    const char *dot = strrchr(text, '.');
    char lower[64] = "";

    text = dot != NULL ? dot + 1 : text;
    for (size_t i = 0; text[i] != '\0' && i + 1 < sizeof lower; i++)
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    for (int value = 0; value < NAME_LIMIT; value++)
        if (strcmp(row->name_of(value), lower) == 0) {
            *out = value;
            return true;
        }
    return false;
}

static bool set_number(const option_row *row, const char *text, void *at)
{
    const uint64_t most = row->kind == COUNT ? UINT32_MAX : row->kind == SIZE ? SIZE_MAX : UINT64_MAX;
    char *end;
    uintmax_t value;

    errno = 0;
    value = strtoumax(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno == ERANGE || value > most)
        return false;
    if (row->kind == COUNT)
        *(uint32_t *)at = (uint32_t)value;
    else if (row->kind == SIZE)
        *(size_t *)at = (size_t)value;
    else
        *(uint64_t *)at = (uint64_t)value;
    return true;
}

static bool set_value(const option_row *row, const char *text, void *at)
{
    char *end;
    double real;

    switch (row->kind) {
    case BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "True") != 0 && strcmp(text, "false") != 0 &&
            strcmp(text, "False") != 0)
            return false;
        *(bool *)at = text[0] == 't' || text[0] == 'T';
        return true;
    case COUNT:
    case SIZE:
    case SEED:
        return set_number(row, text, at);
    case REAL:
        real = strtod(text, &end);
        if (end == text || *end != '\0' || strspn(text, "0123456789.eE+-") != strlen(text) || !isfinite(real))
            return false;
        *(double *)at = real;
        return true;
    case NAME:
        return find_name(row, text, at);
    case SCHEDULE:
        if (bg_schedule_generator_find(text) == NULL)
            return false;
        *(const char **)at = bg_schedule_generator_find(text)->name;
        return true;
    case TEXT:
        *(const char **)at = text;
        return true;
    }
    return false;
}

bg_status bg_options_set(bg_options *options, const char *name, const char *text, bg_error *error)
{
    static const char *const wanted[] = {[BOOL] = "true or false",
                                         [COUNT] = "a whole number below 2^32",
                                         [SIZE] = "a number of bytes",
                                         [SEED] = "a whole number",
                                         [REAL] = "a number",
                                         [NAME] = "one of its names",
                                         [SCHEDULE] = "a schedule's name",
                                         [TEXT] = "a text"};
    const option_row *row = find_row(name);
    char names[256] = "";

    if (row == NULL)
        return report_unknown(name, error);
    if (set_value(row, text, (char *)options + row->offset))
        return BG_OK;
    for (int value = 0; row->kind == NAME && value < NAME_LIMIT; value++)
        if (value == 0 || strcmp(row->name_of(value), "none") != 0)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", value == 0 ? "" : ", ",
                     row->name_of(value));
    return bg_error_set(error, BG_ERROR_INVALID, "option `%s` is `%s`; it must be %s%s%s", row->name, text,
                        wanted[row->kind], names[0] != '\0' ? ": " : "", names);
}

bg_status bg_options_print(const bg_options *options, char **out_text, bg_error *error)
{
    bgi_text text = {0};

    for (size_t i = 0; i < ROW_COUNT; i++) {
        const void *at = (const char *)options + rows[i].offset;
        bgi_text_add(&text, "%-22s ", rows[i].name);
        switch (rows[i].kind) {
        case BOOL:
            bgi_text_add(&text, "%s\n", *(const bool *)at ? "true" : "false");
            break;
        case COUNT:
            bgi_text_add(&text, "%" PRIu32 "\n", *(const uint32_t *)at);
            break;
        case SIZE:
            bgi_text_add(&text, "%zu\n", *(const size_t *)at);
            break;
        case SEED:
            bgi_text_add(&text, "%" PRIu64 "\n", *(const uint64_t *)at);
            break;
        case REAL:
            bgi_text_add(&text, "%.17g\n", *(const double *)at);
            break;
        case NAME:
            bgi_text_add(&text, "%s\n", rows[i].name_of(*(const int *)at));
            break;
        case SCHEDULE:
        case TEXT:
            bgi_text_add(&text, "%s\n", *(const char *const *)at != NULL ? *(const char *const *)at : "");
            break;
        }
    }
    return bgi_text_finish(&text, out_text, error);
}
