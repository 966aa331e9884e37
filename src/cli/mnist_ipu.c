/*
 * mnist_ipu.c: `--config`: an IPU configuration (ipu_config.json of Optimum Graphcore) as the options of the program.
 *
 *     --config, --config-update --> bg_ipu_config --> bg_options of training --> the flags that it decides
 *                                                 `-> bg_options of inference -> how the test runs
 *
 * The network's layers are its blocks B1 to B4. What the configuration gives holds; a flag that says otherwise is an
 * error. A flag for what it does not give (left out of the file, so inferred or a default) holds as ever. How the test
 * runs is the configuration's alone.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/config.h"
#include "config/ipu_config.h"
#include "core/error.h"

static const char *const blocks[] = {"B1", "B2", "B3", "B4"};
static const bg_ipu_model network = {.layer_count = sizeof blocks / sizeof blocks[0], .layer_blocks = blocks};

/* A flag and what decides it: a field when it is given, or every configuration. */
typedef struct governed {
    const char *flag;
    bgi_ipu_field_id field;
    const char *always; /* what every configuration says; NULL: the field decides */
    bool is_part;       /* of what the flag says: the optimiser's state in a list, or that the scale adapts itself */
} governed;

static const governed governed_flags[] = {
    {.flag = "strategy", .always = "trains pipelined"},
    {.flag = "accumulation", .always = "accumulates the mean of gradients"},
    {.flag = "replica-reduction", .always = "takes the mean over replicas"},
    {.flag = "stochastic-rounding", .always = "rounds what is kept in 16 bits by chance"},
    {.flag = "device-iterations", .field = BGI_IPU_DEVICE_ITERATIONS},
    {.flag = "gradient-accumulation", .field = BGI_IPU_ACCUMULATION},
    {.flag = "replicas", .field = BGI_IPU_REPLICAS},
    {.flag = "seed", .field = BGI_IPU_SEED},
    {.flag = "partials", .field = BGI_IPU_HALF_PARTIALS},
    {.flag = "output-mode", .field = BGI_IPU_OUTPUT_MODE},
    {.flag = "recompute", .field = BGI_IPU_RECOMPUTE},
    {.flag = "offload-optimiser", .field = BGI_IPU_STATE_OFFCHIP},
    {.flag = "offload", .field = BGI_IPU_STATE_OFFCHIP, .is_part = true},
    {.flag = "shard", .field = BGI_IPU_SHARDING, .is_part = true},
    {.flag = "loss-scaling", .field = BGI_IPU_AUTO_LOSS_SCALING, .is_part = true},
    {.flag = "matmul-proportion", .field = BGI_IPU_MATMUL},
    {.flag = "stages", .field = BGI_IPU_LAYERS},
    {.flag = "devices", .field = BGI_IPU_LAYERS},
    {.flag = "device-mapping", .field = BGI_IPU_LAYERS},
};
enum { GOVERNED_COUNT = sizeof governed_flags / sizeof governed_flags[0] };

static uint32_t find_option(const char *name)
{
    uint32_t index = 0;

    while (mnist_options[index].name == NULL || strcmp(mnist_options[index].name, name) != 0)
        index++;
    return index;
}

static bool is_field_given(const bg_ipu_config *ipu, bgi_ipu_field_id id)
{
    return ipu->given[id] != NULL && !json_is_null(ipu->given[id]);
}

/* Layers on devices are said by a list, or by the number of devices alone. */
static bgi_ipu_field_id find_deciding(const bg_ipu_config *ipu, const governed *rule)
{
    return rule->field == BGI_IPU_LAYERS && !is_field_given(ipu, BGI_IPU_LAYERS) ? BGI_IPU_IPUS : rule->field;
}

static bool is_decided(const bg_ipu_config *ipu, const governed *rule)
{
    return rule->always != NULL || is_field_given(ipu, find_deciding(ipu, rule));
}

/* ---- values of flags ---- */

static size_t value_bytes(cli_kind kind)
{
    return kind == CLI_FLAG         ? sizeof(bool)
           : kind == CLI_COUNT      ? sizeof(uint64_t)
           : kind == CLI_COUNT_LIST ? sizeof(cli_counts)
           : kind == CLI_REAL_LIST  ? sizeof(cli_reals)
                                    : sizeof(const char *);
}

/* One value is that of all devices. */
static bool are_same_reals(const cli_reals *a, const cli_reals *b)
{
    const uint32_t count = a->count > b->count ? a->count : b->count;

    for (uint32_t i = 0; i < count; i++)
        if (!(a->values[a->count == 1 ? 0 : i] == b->values[b->count == 1 ? 0 : i]))
            return false;
    return a->count == b->count || a->count == 1 || b->count == 1;
}

static bool is_same_value(const cli_option *option, const mnist_config *a, const mnist_config *b)
{
    const char *x = (const char *)a + option->offset, *y = (const char *)b + option->offset;

    if (option->kind == CLI_REAL_LIST)
        return are_same_reals((const cli_reals *)(const void *)x, (const cli_reals *)(const void *)y);
    if (option->kind != CLI_TEXT && option->kind != CLI_CHOICE)
        return memcmp(x, y, value_bytes(option->kind)) == 0;
    return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
}

static void keep_value(const cli_option *option, const mnist_config *from, mnist_config *to)
{
    memcpy((char *)to + option->offset, (const char *)from + option->offset, value_bytes(option->kind));
}

/* "--replicas 2", as it was given. */
static void print_flag(const cli_option *option, const mnist_config *config, char *text, size_t size)
{
    const char *value = (const char *)config + option->offset;
    const cli_counts *list = (const cli_counts *)(const void *)value;
    const cli_reals *reals = (const cli_reals *)(const void *)value;

    snprintf(text, size, "--%s", option->name);
    if (option->kind == CLI_COUNT)
        snprintf(text + strlen(text), size - strlen(text), " %" PRIu64, *(const uint64_t *)(const void *)value);
    if (option->kind == CLI_TEXT || option->kind == CLI_CHOICE)
        snprintf(text + strlen(text), size - strlen(text), " %s", *(const char *const *)(const void *)value);
    for (uint32_t i = 0; option->kind == CLI_COUNT_LIST && i < list->count; i++)
        snprintf(text + strlen(text), size - strlen(text), "%s%u", i == 0 ? " " : ",", list->values[i]);
    for (uint32_t i = 0; option->kind == CLI_REAL_LIST && i < reals->count; i++)
        snprintf(text + strlen(text), size - strlen(text), "%s%g", i == 0 ? " " : ",", reals->values[i]);
}

/* ---- what the configuration says of flags ---- */

static void set_proportions(const bg_options *options, cli_reals *out)
{
    *out = (cli_reals){.count = options->matmul_proportion_count};
    for (uint32_t i = 0; i < out->count; i++)
        out->values[i] = options->matmul_proportions[i];
}

static bool adapts_itself(const char *loss_scaling)
{
    return strncmp(loss_scaling, "auto", 4) == 0;
}

/* The flags that would make these options. */
static void set_flags(const bg_ipu_options *made, mnist_config *config)
{
    const bg_options *options = &made->options;

    config->strategy = bg_strategy_name(options->strategy);
    config->stages = options->stages;
    config->devices = options->device_count;
    config->device_mapping = (cli_counts){.count = 0};
    config->accumulation = bg_accumulation_name(options->accumulation);
    config->replica_reduction = "mean"; /* of a mean over micro-batches */
    config->device_iterations = options->device_iterations;
    config->gradient_accumulation = options->gradient_accumulation;
    config->replicas = options->replicas;
    config->seed = options->seed;
    config->partials = bg_dtype_name(options->partials);
    /* The default of training. */
    config->output_mode =
        bg_output_mode_name(options->output_mode == BG_OUTPUT_DEFAULT ? BG_OUTPUT_FINAL : options->output_mode);
    config->rounds_if_16_bits = options->stochastic_rounding;
    config->recompute = bg_recompute_name(options->recompute);
    if (options->recompute == BG_RECOMPUTE_CHECKPOINTS)
        config->checkpoint_blocks = true; /* every layer's result */
    config->offload_optimiser = options->offload_optimiser;
    if (config->shard == NULL && options->locations[BG_LOCATION_STATE].sharded)
        config->shard = "optimiser";
    set_proportions(options, &config->common.matmul_proportions);
    if (options->auto_loss_scaling.enabled && !adapts_itself(config->loss_scaling))
        config->loss_scaling = "auto";
    if (config->common.cache_dir == NULL)
        config->common.cache_dir = options->cache_dir;
    /* Configurations have it, and it is about limits of IPUs. */
    config->auto_round_devices = options->auto_round_devices && config->ipu_limits;
}

static bg_status report_contradiction(const bg_ipu_config *ipu, const governed *rule, const mnist_config *config,
                                      bg_error *error)
{
    const bgi_ipu_field_id id = find_deciding(ipu, rule);
    char flag[256], *value;

    print_flag(&mnist_options[find_option(rule->flag)], config, flag, sizeof flag);
    if (rule->always != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "%s contradicts --config: a configuration %s; leave one out", flag,
                            rule->always);
    value = json_dumps(ipu->given[id], JSON_ENCODE_ANY | JSON_COMPACT);
    bg_error_set(error, BG_ERROR_INVALID,
                 "%s contradicts `%s` = %s of %s%s%s; leave the flag out, or change the field by "
                 "--config-update",
                 flag, bgi_ipu_fields[id].name, value != NULL ? value : "?",
                 config->ipu_name != NULL ? "--config " : "--config-update ",
                 config->ipu_name != NULL ? config->ipu_name : config->ipu_update,
                 config->ipu_name != NULL && config->ipu_update != NULL ? " with --config-update" : "");
    free(value);
    return error->status;
}

/* Of a list, only whether the optimiser's state is in it; of a scale, whether it adapts itself. */
static bool is_contradiction(const governed *rule, const mnist_config *flags, const mnist_config *wanted)
{
    const bg_options *options = &wanted->ipu.training.options;

    if (!rule->is_part)
        return !is_same_value(&mnist_options[find_option(rule->flag)], flags, wanted);
    if (strcmp(rule->flag, "loss-scaling") == 0)
        return adapts_itself(flags->loss_scaling) != options->auto_loss_scaling.enabled;
    if (strcmp(rule->flag, "shard") == 0)
        return mnist_config_lists_state(flags->shard) != options->locations[BG_LOCATION_STATE].sharded;
    return mnist_config_lists_state(flags->offload) != options->offload_optimiser;
}

/* Flags beside the configuration: those that it decides must agree, the others hold. Where layers are is one decision:
 * a flag for it brings all of them. */
static bg_status merge_flags(const bg_ipu_config *ipu, const bool *given, const mnist_config *flags,
                             mnist_config *wanted, bg_error *error)
{
    const bool has_placement =
        given[find_option("stages")] || given[find_option("devices")] || given[find_option("device-mapping")];

    for (uint32_t i = 0; i < GOVERNED_COUNT; i++) {
        const governed *rule = &governed_flags[i];
        const uint32_t index = find_option(rule->flag);
        const bool is_given = given[index] || (rule->field == BGI_IPU_LAYERS && has_placement);

        if (!is_decided(ipu, rule)) {
            if (is_given)
                keep_value(&mnist_options[index], flags, wanted);
        } else if (given[index] && is_contradiction(rule, flags, wanted)) {
            return report_contradiction(ipu, rule, flags, error);
        }
    }
    return BG_OK;
}

/* ---- the whole ---- */

static bg_status load(const mnist_config *config, bg_ipu_config **out, bg_error *error)
{
    const bg_ipu_config_load_options how = {.overrides = config->ipu_update};
    char *path = NULL;
    bg_status status;

    if (config->ipu_name == NULL)
        return bg_ipu_config_parse_json("{}", "--config-update", &how, out, error);
    status = config_find(config->ipu_name, &path, error);
    if (status == BG_OK)
        status = bg_ipu_config_load(path, &how, out, error);
    free(path);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--config");
}

/* A line of notes each; the same one of training and of inference once. */
static void say_notes(const mnist_config *config, char *notes)
{
    char *rest = NULL, text[512];

    for (char *line = strtok_r(notes, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        snprintf(text, sizeof text, "--config: %s", line);
        cli_warn(config->command, text);
    }
}

/* Fields that are about layers which the digit network does not have. */
static void say_without_effect(const mnist_config *config, const bg_ipu_config *ipu)
{
    static const bgi_ipu_field_id fields[] = {
        BGI_IPU_EMBEDDING_FACTOR,           BGI_IPU_INFERENCE_EMBEDDING_FACTOR,  BGI_IPU_EMBEDDING_SPLITS,
        BGI_IPU_INFERENCE_EMBEDDING_SPLITS, BGI_IPU_PROJECTION_FACTOR,           BGI_IPU_INFERENCE_PROJECTION_FACTOR,
        BGI_IPU_PROJECTION_SPLITS,          BGI_IPU_INFERENCE_PROJECTION_SPLITS,
    };
    char text[256];

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!is_field_given(ipu, fields[i]) || json_integer_value(ipu->given[fields[i]]) == 1)
            continue;
        snprintf(text, sizeof text,
                 "--config: `%s` has no effect: the digit network has no embedding, and its output "
                 "layer is too small to be cut",
                 bgi_ipu_fields[fields[i]].name);
        cli_warn(config->command, text);
    }
}

static bg_status make_options(const bg_ipu_config *ipu, mnist_config *config, bg_error *error)
{
    bg_status status =
        bg_ipu_config_to_options(ipu, false, config->common.compile_only, &network, &config->ipu.training, error);

    if (status == BG_OK)
        status = bg_ipu_config_to_options(ipu, true, config->common.compile_only, &network, &config->ipu.test, error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--config");
}

static bg_status apply(bg_ipu_config *ipu, const bool *given, mnist_config *config, bg_error *error)
{
    mnist_config wanted;
    char *notes = NULL;

    /* Whether there are replicas decides what fields about them mean. */
    if (given[find_option("replicas")] && !is_field_given(ipu, BGI_IPU_REPLICAS))
        BGI_TRY(bg_ipu_config_set_integer(ipu, "replication_factor", (int64_t)config->replicas, error));
    BGI_TRY(make_options(ipu, config, error));
    wanted = *config;
    set_flags(&wanted.ipu.training, &wanted);
    BGI_TRY(merge_flags(ipu, given, config, &wanted, error));
    *config = wanted;
    if (config->quiet)
        return BG_OK;
    BGI_TRY(bg_ipu_config_print_notes(ipu, &notes, error));
    say_notes(config, notes);
    free(notes);
    say_without_effect(config, ipu);
    if (config->debug) {
        say_notes(config, config->ipu.training.notes);
        say_notes(config, config->ipu.test.notes);
    }
    return BG_OK;
}

int mnist_ipu_resolve(mnist_config *config, const bool *given, bg_error *error)
{
    bg_ipu_config *ipu = NULL;
    bg_status status;

    if (config->ipu_name == NULL && config->ipu_update == NULL)
        return CLI_DONE;
    if (load(config, &ipu, error) != BG_OK)
        return CLI_USAGE;
    status = apply(ipu, given, config, error);
    bg_ipu_config_destroy(ipu);
    return status == BG_OK ? CLI_DONE : CLI_USAGE;
}

void mnist_config_clear(mnist_config *config)
{
    bg_costs_clear(&config->costs);
    bg_ipu_options_clear(&config->ipu.training);
    bg_ipu_options_clear(&config->ipu.test);
    cli_library_clear(&config->common);
}
