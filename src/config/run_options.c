/*
 * run_options.c: the options of a run by name: set from text, printed. One table; PopTorch's names for the same things
 * are taken as well. Callbacks, measured costs, requests and rules are for C alone.
 */
#include "config/run_options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/schedule.h>

#include "core/error.h"
#include "core/narrow.h"
#include "core/text.h"

typedef enum option_kind { BOOL, COUNT, SIZE, SEED, THREADS, REAL, NAME, SCHEDULE, TEXT, COUNTS, REALS } option_kind;

typedef struct option_row {
    const char *name;
    const char *poptorch; /* accessor of poptorch.Options, or NULL */
    option_kind kind;
    size_t offset;
    const char *(*name_of)(int value); /* NAME */
    size_t count_offset;               /* COUNTS, REALS: of the number of elements */
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
NAMES(grouping)
NAMES(phase_liveness)
NAMES(memmap_mode)
#undef NAMES

static const char *name_partials(int value)
{
    return bgi_dtype_is_single((bg_dtype)value) ? bg_dtype_name((bg_dtype)value) : "none";
}

static const char *name_dtype(int value)
{
    return value == BG_DTYPE_NONE                 ? "default"
           : bgi_dtype_is_single((bg_dtype)value) ? bg_dtype_name((bg_dtype)value)
                                                  : "none";
}

static const char *name_accumulator(int value)
{
    static const char *const names[] = {"default", "same", "given"};

    return value >= 0 && value < 3 ? names[value] : "none";
}

static const char *name_place(int value)
{
    static const char *const names[] = {"default", "device", "remote"};

    return value >= 0 && value < 3 ? names[value] : "none";
}

static const char *name_kernels(int value)
{
    return value == BG_KERNELS_FAST ? "fast" : value == BG_KERNELS_REFERENCE ? "reference" : "none";
}

static const char *name_auto_stage(int value)
{
    return value == BG_AUTO_STAGE_INCREMENT ? "auto_increment" : value == 0 ? "same_as_ipu" : "none";
}

#define AT(field) offsetof(bg_options, field)
/* What there is of each class of tensors. */
#define LOCATION(name, class)                                                                                          \
    {"place_" name, NULL, NAME, AT(locations[class].place), name_place, 0},                                            \
        {"minimum_remote_" name, NULL, SIZE, AT(locations[class].minimum_elements_remote), NULL, 0},                   \
        {"minimum_sharded_" name, NULL, SIZE, AT(locations[class].minimum_elements_sharded), NULL, 0},                 \
    {                                                                                                                  \
        "on_demand_" name, NULL, BOOL, AT(locations[class].on_demand), NULL, 0                                         \
    }

static const option_row rows[] = {
    {"strategy", "setExecutionStrategy", NAME, AT(strategy), name_strategy, 0},
    {"schedule", NULL, SCHEDULE, AT(schedule), NULL, 0},
    {"stages", NULL, TEXT, AT(stages), NULL, 0},
    {"auto_stage", "autoStage", NAME, AT(auto_stage), name_auto_stage, 0},
    {"device_mapping", NULL, COUNTS, AT(device_mapping), NULL, AT(device_mapping_count)},
    {"device_count", NULL, COUNT, AT(device_count), NULL, 0},
    {"phases_parallel", NULL, BOOL, AT(phases_parallel), NULL, 0},
    {"device_iterations", "deviceIterations", COUNT, AT(device_iterations), NULL, 0},
    {"gradient_accumulation", "Training.gradientAccumulation", COUNT, AT(gradient_accumulation), NULL, 0},
    {"total_devices", NULL, COUNT, AT(total_devices), NULL, 0},
    {"input_group_size", "inputGroupSize", COUNT, AT(input_group_size), NULL, 0},
    {"input_grouping", NULL, NAME, AT(input_grouping), name_grouping, 0},
    {"replicas", "replicationFactor", COUNT, AT(replicas), NULL, 0},
    {"accumulation", "Training.accumulationAndReplicationReductionType", NAME, AT(accumulation), name_accumulation, 0},
    {"replica_reduction", NULL, NAME, AT(replica_reduction), name_replica_reduction, 0},
    {"accumulator_type", NULL, NAME, AT(accumulator_type), name_accumulator, 0},
    {"accumulator_dtype", NULL, NAME, AT(accumulator_dtype), name_dtype, 0},
    {"cast_gradients", NULL, BOOL, AT(cast_gradients), NULL, 0},
    {"first_moment_dtype", NULL, NAME, AT(first_moment_dtype), name_dtype, 0},
    {"second_moment_dtype", NULL, NAME, AT(second_moment_dtype), name_dtype, 0},
    {"max_gradient_norm", NULL, REAL, AT(max_gradient_norm), NULL, 0},
    {"output_gradient_norm", NULL, BOOL, AT(output_gradient_norm), NULL, 0},
    {"stochastic_rounding", "Precision.enableStochasticRounding", BOOL, AT(stochastic_rounding), NULL, 0},
    {"loss_scaling", NULL, REAL, AT(loss_scaling), NULL, 0},
    {"auto_loss_scaling", "Training.setAutomaticLossScaling", BOOL, AT(auto_loss_scaling.enabled), NULL, 0},
    {"auto_loss_scaling.output", NULL, BOOL, AT(auto_loss_scaling.output), NULL, 0},
    {"auto_loss_scaling.bin_edge", NULL, REAL, AT(auto_loss_scaling.bin_edge), NULL, 0},
    {"auto_loss_scaling.threshold", NULL, REAL, AT(auto_loss_scaling.threshold), NULL, 0},
    {"auto_loss_scaling.period", NULL, COUNT, AT(auto_loss_scaling.period), NULL, 0},
    {"auto_loss_scaling.increase", NULL, REAL, AT(auto_loss_scaling.increase), NULL, 0},
    {"auto_loss_scaling.decrease", NULL, REAL, AT(auto_loss_scaling.decrease), NULL, 0},
    {"auto_loss_scaling.minimum", NULL, REAL, AT(auto_loss_scaling.minimum), NULL, 0},
    {"auto_loss_scaling.maximum", NULL, REAL, AT(auto_loss_scaling.maximum), NULL, 0},
    {"device_memory_bytes", NULL, SIZE, AT(device_memory_bytes), NULL, 0},
    {"matmul_proportions", "setAvailableMemoryProportion", REALS, AT(matmul_proportions), NULL,
     AT(matmul_proportion_count)},
    {"cores", NULL, COUNT, AT(cores), NULL, 0},
    {"seed", "randomSeed", SEED, AT(seed), NULL, 0},
    {"offload_optimiser", NULL, BOOL, AT(offload_optimiser), NULL, 0},
    {"shard_optimiser", NULL, BOOL, AT(locations[BG_LOCATION_STATE].sharded), NULL, 0},
    {"shard_weights", NULL, BOOL, AT(locations[BG_LOCATION_WEIGHTS].sharded), NULL, 0},
    {"shard_accumulators", NULL, BOOL, AT(locations[BG_LOCATION_ACCUMULATORS].sharded), NULL, 0},
    LOCATION("activations", BG_LOCATION_ACTIVATIONS),
    LOCATION("weights", BG_LOCATION_WEIGHTS),
    LOCATION("optimiser", BG_LOCATION_STATE),
    LOCATION("accumulators", BG_LOCATION_ACCUMULATORS),
    {"phase_liveness", NULL, NAME, AT(phase_liveness), name_phase_liveness, 0},
    {"io_threads", NULL, THREADS, AT(io_threads), NULL, 0},
    {"recompute", NULL, NAME, AT(recompute), name_recompute, 0},
    {"recompute_fraction", NULL, REAL, AT(recompute_fraction), NULL, 0},
    {"recompute_order", NULL, NAME, AT(recompute_order), name_recompute_order, 0},
    {"output_mode", "outputMode", NAME, AT(output_mode), name_output_mode, 0},
    {"output_period", NULL, COUNT, AT(output_period), NULL, 0},
    {"requests_only", NULL, BOOL, AT(requests_only), NULL, 0},
    {"ipu_limits", NULL, BOOL, AT(ipu_limits), NULL, 0},
    {"auto_round_devices", "autoRoundNumIPUs", BOOL, AT(auto_round_devices), NULL, 0},
    {"wait_limit_s", NULL, REAL, AT(wait_limit_s), NULL, 0},
    {"trace", NULL, BOOL, AT(trace), NULL, 0},
    {"trace_events", NULL, COUNT, AT(trace_events), NULL, 0},
    {"kernels", NULL, NAME, AT(kernels), name_kernels, 0},
    {"partials", NULL, NAME, AT(partials), name_partials, 0},
    {"no_fusion", NULL, BOOL, AT(no_fusion), NULL, 0},
    {"compile_only", NULL, BOOL, AT(compile_only), NULL, 0},
    {"log_dir", "logDir", TEXT, AT(log_dir), NULL, 0},
    {"memmap_dir", NULL, TEXT, AT(memmap_dir), NULL, 0},
    {"memmap_mode", NULL, NAME, AT(memmap_mode), name_memmap_mode, 0},
    {"log_cycles", "logCycleCount", BOOL, AT(log_cycles), NULL, 0},
    {"cache_dir", "enableExecutableCaching", TEXT, AT(cache_dir), NULL, 0},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0], NAME_LIMIT = 32 };
_Static_assert((int)ROW_COUNT <= (int)BGI_MOST_RUN_OPTIONS, "room for all");

static const option_row *find_row(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0 || (rows[i].poptorch != NULL && strcmp(rows[i].poptorch, name) == 0))
            return &rows[i];
    return NULL;
}

bg_status bgi_run_option_unknown(const char *name, bg_error *error)
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

/* Letter case, and words joined or parted, make no difference: PopTorch's "OutputMode.EveryN" is "every_n". */
static bool is_same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += *a == '_' || *a == '-';
        b += *b == '_' || *b == '-';
        if ((*a >= 'A' && *a <= 'Z' ? *a + 32 : *a) != (*b >= 'A' && *b <= 'Z' ? *b + 32 : *b))
            return false;
        if (*a == '\0')
            return true;
    }
}

static bool find_name(const option_row *row, const char *text, int *out)
{
    const char *dot = strrchr(text, '.');

    text = dot != NULL ? dot + 1 : text;
    for (int value = 0; value < NAME_LIMIT; value++)
        if (is_same_name(row->name_of(value), text)) {
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

static bool read_real(const char *text, double *out)
{
    char *end;
    const double real = bgi_text_real(text, &end);

    if (end == text || *end != '\0' || strspn(text, "0123456789.eE+-") != strlen(text) || !isfinite(real))
        return false;
    *out = real;
    return true;
}

/* "0,1,1,0", also with blanks; "" is none. False: an element is no number, or memory is out (*out_failed). */
static bool set_list(const option_row *row, const char *text, bg_options *options, bgi_arena *arena, bool *out_failed)
{
    const size_t element = row->kind == COUNTS ? sizeof(uint32_t) : sizeof(double);
    const option_row number = {.kind = COUNT};
    char *copy = bgi_arena_text(arena, text), *rest = NULL;
    char *elements = bgi_arena_take(arena, strlen(text) / 2 + 1, element);
    uint32_t count = 0;

    *out_failed = copy == NULL || elements == NULL;
    if (*out_failed)
        return false;
    for (char *word = strtok_r(copy, ", []", &rest); word != NULL; word = strtok_r(NULL, ", []", &rest), count++)
        if (row->kind == COUNTS ? !set_number(&number, word, (uint32_t *)(void *)elements + count)
                                : !read_real(word, (double *)(void *)elements + count))
            return false;
    *(const void **)((char *)options + row->offset) = count > 0 ? elements : NULL;
    *(uint32_t *)((char *)options + row->count_offset) = count;
    return true;
}

bool bgi_run_option_is_printable(const char *text)
{
    json_t *string = json_string(text);

    json_decref(string);
    return string != NULL;
}

static bool set_value(const option_row *row, const char *text, void *at)
{
    char *end;
    long threads;

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
    case THREADS:
        threads = strtol(text, &end, 10);
        if (end == text || *end != '\0' || threads < -1 || threads > INT16_MAX)
            return false;
        *(int32_t *)at = (int32_t)threads;
        return true;
    case REAL:
        return read_real(text, at);
    case NAME:
        return find_name(row, text, at);
    case SCHEDULE:
        *(const char **)at = NULL;
        if (text[0] == '\0')
            return true;
        if (bg_schedule_generator_find(text) == NULL)
            return false;
        *(const char **)at = bg_schedule_generator_find(text)->name;
        return true;
    case TEXT:
        if (!bgi_run_option_is_printable(text))
            return false;
        *(const char **)at = text[0] != '\0' ? text : NULL;
        return true;
    case COUNTS:
    case REALS:
        break; /* set_list */
    }
    return false;
}

bg_status bgi_run_option_report(uint32_t number, const char *text, bg_error *error)
{
    const option_row *row = &rows[number];
    static const char *const wanted[] = {[BOOL] = "true or false",
                                         [COUNT] = "a whole number below 2^32",
                                         [SIZE] = "a number of bytes",
                                         [SEED] = "a whole number",
                                         [THREADS] = "a number of threads, or -1",
                                         [REAL] = "a number",
                                         [NAME] = "one of its names",
                                         [SCHEDULE] = "a schedule's name",
                                         [TEXT] = "a text in UTF-8",
                                         [COUNTS] = "a list of whole numbers: 0,1,1,0",
                                         [REALS] = "a list of numbers: 0.2,0.1"};
    char names[256] = "";

    for (int value = 0; row->kind == NAME && value < NAME_LIMIT; value++)
        if (value == 0 || (strcmp(row->name_of(value), "none") != 0 && strcmp(row->name_of(value), "unknown") != 0))
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] == '\0' ? "" : ", ",
                     row->name_of(value));
    return bg_error_set(error, BG_ERROR_INVALID, "option `%s` is `%s`; it must be %s%s%s", row->name, text,
                        wanted[row->kind], names[0] != '\0' ? ": " : "", names);
}

bg_status bgi_run_option_set(bg_options *options, bgi_arena *arena, const char *name, const char *text,
                             uint32_t *out_number, bg_error *error)
{
    const option_row *row = find_row(name);
    bool failed = false;

    if (row == NULL)
        return bgi_run_option_unknown(name, error);
    *out_number = (uint32_t)(row - rows);
    if (row->kind != COUNTS && row->kind != REALS) {
        if (arena != NULL && row->kind == TEXT && (text = bgi_arena_text(arena, text)) == NULL)
            return bgi_error_memory(error, "options", 0);
        return set_value(row, text, (char *)options + row->offset) ? BG_OK
                                                                   : bgi_run_option_report(*out_number, text, error);
    }
    if (arena == NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "option `%s` is a list, which a plain struct does not own; set it in C, or with "
                            "bg_run_options_set",
                            row->name);
    if (set_list(row, text, options, arena, &failed))
        return BG_OK;
    return failed ? bgi_error_memory(error, "options", 0) : bgi_run_option_report(*out_number, text, error);
}

void bgi_run_option_copy(const bg_options *from, uint32_t number, bg_options *to)
{
    static const size_t bytes[] = {
        [BOOL] = sizeof(bool),       [COUNT] = sizeof(uint32_t), [SIZE] = sizeof(size_t), [SEED] = sizeof(uint64_t),
        [THREADS] = sizeof(int32_t), [REAL] = sizeof(double),    [NAME] = sizeof(int),    [SCHEDULE] = sizeof(void *),
        [TEXT] = sizeof(void *),     [COUNTS] = sizeof(void *),  [REALS] = sizeof(void *)};
    const option_row *row = &rows[number];

    memcpy((char *)to + row->offset, (const char *)from + row->offset, bytes[row->kind]);
    if (row->kind == COUNTS || row->kind == REALS)
        memcpy((char *)to + row->count_offset, (const char *)from + row->count_offset, sizeof(uint32_t));
}

uint32_t bgi_run_option_find(const char *name)
{
    const option_row *row = find_row(name);

    return row != NULL ? (uint32_t)(row - rows) : UINT32_MAX;
}

bg_status bg_options_set(bg_options *options, const char *name, const char *text, bg_error *error)
{
    uint32_t number;

    return bgi_run_option_set(options, NULL, name, text, &number, error);
}

/* ---- printing ---- */

static void print_list(bgi_text *text, const option_row *row, const bg_options *options)
{
    const void *elements = *(const void *const *)((const char *)options + row->offset);
    const uint32_t count = *(const uint32_t *)((const char *)options + row->count_offset);

    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            bgi_text_add(text, ",");
        if (row->kind == COUNTS)
            bgi_text_add(text, "%" PRIu32, ((const uint32_t *)elements)[i]);
        else
            bgi_json_print_real(text, ((const double *)elements)[i]);
    }
}

const char *bgi_run_option_name(uint32_t number)
{
    return number < ROW_COUNT ? rows[number].name : NULL;
}

bg_config_kind bgi_run_option_kind(uint32_t number)
{
    static const bg_config_kind kinds[] = {
        [BOOL] = BG_CONFIG_BOOL,       [COUNT] = BG_CONFIG_INTEGER,   [SIZE] = BG_CONFIG_INTEGER,
        [SEED] = BG_CONFIG_INTEGER,    [THREADS] = BG_CONFIG_INTEGER, [REAL] = BG_CONFIG_REAL,
        [NAME] = BG_CONFIG_TEXT,       [SCHEDULE] = BG_CONFIG_TEXT,   [TEXT] = BG_CONFIG_TEXT,
        [COUNTS] = BG_CONFIG_INTEGERS, [REALS] = BG_CONFIG_REALS};

    return kinds[rows[number].kind];
}

bool bgi_run_option_is_text(uint32_t number)
{
    return bgi_run_option_kind(number) == BG_CONFIG_TEXT;
}

bool bgi_run_option_is_list(uint32_t number)
{
    return rows[number].kind == COUNTS || rows[number].kind == REALS;
}

void bgi_run_option_print(bgi_text *text, uint32_t number, const bg_options *options)
{
    const option_row *row = &rows[number];
    const void *at = (const char *)options + row->offset;

    switch (row->kind) {
    case BOOL:
        bgi_text_add(text, "%s", *(const bool *)at ? "true" : "false");
        break;
    case COUNT:
        bgi_text_add(text, "%" PRIu32, *(const uint32_t *)at);
        break;
    case SIZE:
        bgi_text_add(text, "%zu", *(const size_t *)at);
        break;
    case SEED:
        bgi_text_add(text, "%" PRIu64, *(const uint64_t *)at);
        break;
    case THREADS:
        bgi_text_add(text, "%" PRId32, *(const int32_t *)at);
        break;
    case REAL:
        bgi_json_print_real(text, *(const double *)at);
        break;
    case NAME:
        bgi_text_add(text, "%s", row->name_of(*(const int *)at));
        break;
    case SCHEDULE:
    case TEXT:
        bgi_text_add(text, "%s", *(const char *const *)at != NULL ? *(const char *const *)at : "");
        break;
    case COUNTS:
    case REALS:
        print_list(text, row, options);
        break;
    }
}

/* What is for C alone, as comments: what reads the text goes by the lines above. */
static void print_comments(bgi_text *text, const bg_options *options)
{
    for (uint32_t i = 0; options->output_requests != NULL && i < options->output_request_count; i++) {
        const bg_output_request *request = &options->output_requests[i];
        bgi_text_add(text, "# anchor %s: %s, %s", request->name != NULL ? request->name : request->output,
                     request->output, bg_output_mode_name(request->mode));
        bgi_text_add(text, request->mode == BG_OUTPUT_EVERY_N ? " of period %u\n" : "\n", request->period);
    }
    for (uint32_t i = 0; options->location_rules != NULL && i < options->location_rule_count; i++) {
        const bg_location_rule *rule = &options->location_rules[i];
        bgi_text_add(text, "# location of %s (classes %#x): %s%s%s\n", rule->pattern, (unsigned)rule->classes,
                     name_place((int)rule->location.place), rule->location.sharded ? ", in pieces" : "",
                     rule->location.on_demand ? ", on demand" : "");
    }
    for (uint32_t i = 0; options->devices != NULL && i < options->device_model_count; i++)
        bgi_text_add(text, "# device %u: speed %g, memory %zu bytes\n", i, options->devices[i].speed,
                     options->devices[i].memory_bytes);
}

bg_status bg_options_print(const bg_options *options, char **out_text, bg_error *error)
{
    bgi_text text = {0};

    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        bgi_text_add(&text, "%-27s ", rows[i].name);
        bgi_run_option_print(&text, i, options);
        bgi_text_add(&text, "\n");
    }
    print_comments(&text, options);
    return bgi_text_finish(&text, out_text, error);
}
