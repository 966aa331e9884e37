/*
 * mnist_ipu.c: converts an IPU configuration of `--config` (ipu_config.json of Optimum Graphcore) to the options of the
 * program.
 *
 *     --config, --config-update --> bg_ipu_config --> bg_options of training --> the flags that it decides
 *                                                 `-> bg_options of inference -> how the test runs
 *
 * The network's layers are its blocks B1 to B4. Fields that the configuration gives take effect, and a contradicting
 * flag is an error. For other fields (inferred or default), flags take effect as usual. Only the configuration decides
 * how the test runs.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/config.h"
#include "config/document.h"
#include "config/ipu_config.h"
#include "core/error.h"
#include "options/choices.h"

static const char *const blocks[] = {"B1", "B2", "B3", "B4"};
static const bg_ipu_model network = {.layer_count = sizeof blocks / sizeof blocks[0], .layer_blocks = blocks};

/* A flag, and what determines it: a field that is given, or the presence of any configuration. */
typedef struct governed {
    const char *flag;
    bgi_ipu_field_id field;
    const char *always; /* the value in every configuration; NULL: the field determines it */
    bool is_part; /* the field determines only a part of the flag's value: whether the optimizer's state is in a list,
                     or whether the scale is automatic */
} governed;

static const governed governed_flags[] = {
    {.flag = "strategy", .always = "trains pipelined"},
    {.flag = "accumulation", .always = "accumulates the mean of gradients"},
    {.flag = "replica-reduction", .always = "takes the mean over replicas"},
    {.flag = "stochastic-rounding", .always = "rounds 16-bit weights and state at random"},
    {.flag = "device-iterations", .field = BGI_IPU_DEVICE_ITERATIONS},
    {.flag = "gradient-accumulation", .field = BGI_IPU_ACCUMULATION},
    {.flag = "replicas", .field = BGI_IPU_REPLICAS},
    {.flag = "seed", .field = BGI_IPU_SEED},
    {.flag = "partials", .field = BGI_IPU_HALF_PARTIALS},
    {.flag = "output-mode", .field = BGI_IPU_OUTPUT_MODE},
    {.flag = "recompute", .field = BGI_IPU_RECOMPUTE},
    {.flag = "offload-optimizer", .field = BGI_IPU_STATE_OFFCHIP},
    {.flag = "offload", .field = BGI_IPU_STATE_OFFCHIP, .is_part = true},
    {.flag = "shard", .field = BGI_IPU_SHARDING, .is_part = true},
    {.flag = "loss-scaling", .field = BGI_IPU_AUTO_LOSS_SCALING, .is_part = true},
    {.flag = "matmul-proportion", .field = BGI_IPU_MATMUL},
    {.flag = "stages", .field = BGI_IPU_LAYERS},
    {.flag = "devices", .field = BGI_IPU_LAYERS},
    {.flag = "device-mapping", .field = BGI_IPU_LAYERS},
};
enum { GOVERNED_COUNT = sizeof governed_flags / sizeof governed_flags[0] };

static bool is_field_given(const bg_ipu_config *ipu, bgi_ipu_field_id id)
{
    return ipu->given[id] != NULL && !json_is_null(ipu->given[id]);
}

/* Returns the field that determines a flag. If the configuration has no list of layers for the devices, the number of
 * devices places the layers. */
static bgi_ipu_field_id find_deciding(const bg_ipu_config *ipu, const governed *rule)
{
    return rule->field == BGI_IPU_LAYERS && !is_field_given(ipu, BGI_IPU_LAYERS) ? BGI_IPU_IPUS : rule->field;
}

static bool is_decided(const bg_ipu_config *ipu, const governed *rule)
{
    return rule->always != NULL || is_field_given(ipu, find_deciding(ipu, rule));
}

/* ---- values of flags ---- */

static const cli_option *find_option(const mnist_config *config, const char *name)
{
    return &config->recipe.library.table->options[cli_table_find(config->recipe.library.table, name)];
}

static bool is_given(const mnist_config *config, const char *name)
{
    return cli_library_is_given(&config->recipe.library, name);
}

static const char *const *text_of(const cli_option *option, const mnist_config *config)
{
    return (const char *const *)(const void *)((const char *)config + option->offset);
}

/* Whether both options have the same memory proportions; a single proportion applies to all devices. */
static bool are_same_proportions(const bg_memory_options *a, const bg_memory_options *b)
{
    const uint32_t x = a->matmul_proportion_count, y = b->matmul_proportion_count, count = x > y ? x : y;

    for (uint32_t i = 0; x > 0 && y > 0 && i < count; i++)
        if (!(a->matmul_proportions[x == 1 ? 0 : i] == b->matmul_proportions[y == 1 ? 0 : i]))
            return false;
    return x == y || x == 1 || y == 1;
}

static bool is_same_value(const cli_option *option, const mnist_config *a, const mnist_config *b)
{
    const bg_options *x = &a->recipe.library.options, *y = &b->recipe.library.options;

    if (option->row == NULL)
        return strcmp(*text_of(option, a), *text_of(option, b)) == 0;
    return option->row->kind == BGI_OPTION_REALS ? are_same_proportions(&x->memory, &y->memory)
                                                 : bgi_option_is_equal(option->row, x, y);
}

static void keep_value(const cli_option *option, const mnist_config *from, mnist_config *to)
{
    if (option->row != NULL)
        bgi_option_copy(option->row, &from->recipe.library.options, &to->recipe.library.options);
    else
        memcpy((char *)to + option->offset, text_of(option, from), sizeof(const char *));
}

/* Prints the flag and its value, such as "--replicas 2". */
static void print_flag(const cli_option *option, const mnist_config *config, char *text, size_t size)
{
    bgi_string value = {0};

    if (option->row != NULL && option->kind != CLI_FLAG)
        bgi_option_print(option->row, &config->recipe.library.options, &value);
    else if (option->row == NULL)
        bgi_string_add(&value, "%s", *text_of(option, config));
    snprintf(text, size, "--%s%s%s", option->name, value.data != NULL ? " " : "", value.data != NULL ? value.data : "");
    bgi_string_clear(&value);
}

/* ---- flags from the configuration ---- */

/* Sets the flags to the values that the configuration requests. */
static void set_flags(const bg_ipu_options *made, mnist_config *config)
{
    static const char *const taken[] = {"strategy",
                                        "stages",
                                        "devices",
                                        "device-iterations",
                                        "accumulation",
                                        "replicas",
                                        "seed",
                                        "gradient-accumulation",
                                        "offload-optimizer",
                                        "partials",
                                        "matmul-proportion"};
    const bg_options *options = &made->options;
    cli_library *library = &config->recipe.library;

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        bgi_option_copy(find_option(config, taken[i])->row, options, &library->options);
    library->options.execution.device_mapping = NULL;
    library->options.execution.device_mapping_count = 0;
    library->options.replicas.replica_reduction = BG_REPLICAS_MEAN; /* the mean of means over micro-batches */
    /* Training returns only the last micro-batch by default. */
    library->options.reporting.output_mode =
        options->reporting.output_mode == BG_OUTPUT_DEFAULT ? BG_OUTPUT_FINAL : options->reporting.output_mode;
    config->rounds_if_16_bits = options->numerics.stochastic_rounding;
    library->recompute = bgi_recompute_name(options->memory.recompute);
    if (options->memory.recompute == BG_RECOMPUTE_CHECKPOINTS)
        config->recipe.checkpoint_blocks = true; /* stores the result of every layer */
    if (library->shard == NULL && options->memory.locations[BG_LOCATION_STATE].sharded)
        library->shard = "optimizer";
    if (options->numerics.auto_loss_scaling.enabled && !cli_loss_scaling_is_auto(library->loss_scaling))
        library->loss_scaling = "auto";
    if (library->options.files.cache_dir == NULL)
        library->options.files.cache_dir = options->files.cache_dir;
    /* Every configuration sets auto_round_devices, which has an effect only with the limits of IPUs. */
    library->options.execution.auto_round_devices =
        options->execution.auto_round_devices && library->options.execution.ipu_limits;
}

static bg_status report_contradiction(const bg_ipu_config *ipu, const governed *rule, const mnist_config *config,
                                      bg_error *error)
{
    const bgi_ipu_field_id id = find_deciding(ipu, rule);
    bgi_string value = {0};
    char flag[256];

    print_flag(find_option(config, rule->flag), config, flag, sizeof flag);
    if (rule->always != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s contradicts --config, because a configuration %s; leave one of them out", flag,
                            rule->always);
    bgi_json_print(&value, ipu->given[id]);
    if (value.failed) {
        bgi_string_clear(&value);
        return bgi_error_memory(error, bgi_ipu_fields[id].name, 0);
    }
    bg_error_set(error, BG_ERROR_INVALID,
                 "%s contradicts `%s` = %s of %s%s%s; leave the flag out, or change the field with --config-update",
                 flag, bgi_ipu_fields[id].name, value.data, config->ipu_name != NULL ? "--config " : "--config-update ",
                 config->ipu_name != NULL ? config->ipu_name : config->ipu_update,
                 config->ipu_name != NULL && config->ipu_update != NULL ? " with --config-update" : "");
    bgi_string_clear(&value);
    return error->status;
}

/* Whether the flag of `rule` contradicts the configuration. Lists are compared only by whether they contain the
 * optimizer's state, and scales only by whether they are automatic. */
static bool is_contradiction(const governed *rule, const mnist_config *flags, const mnist_config *wanted)
{
    const bg_options *options = &wanted->ipu.training.options;

    if (!rule->is_part)
        return !is_same_value(find_option(flags, rule->flag), flags, wanted);
    if (strcmp(rule->flag, "loss-scaling") == 0)
        return cli_loss_scaling_is_auto(flags->recipe.library.loss_scaling) !=
               options->numerics.auto_loss_scaling.enabled;
    if (strcmp(rule->flag, "shard") == 0)
        return mnist_config_lists_state(flags->recipe.library.shard) !=
               options->memory.locations[BG_LOCATION_STATE].sharded;
    return mnist_config_lists_state(flags->recipe.library.offload) != options->memory.offload_optimizer;
}

/* Merges flags with the configuration: flags that the configuration determines must agree with it, and other flags
 * apply. The placement of layers is one decision: unless the configuration makes it, one of --stages, --devices and
 * --device-mapping replaces the values of all three. */
static bg_status merge_flags(const bg_ipu_config *ipu, const mnist_config *flags, mnist_config *wanted, bg_error *error)
{
    const bool has_placement =
        is_given(flags, "stages") || is_given(flags, "devices") || is_given(flags, "device-mapping");

    for (uint32_t i = 0; i < GOVERNED_COUNT; i++) {
        const governed *rule = &governed_flags[i];
        const bool is_named = is_given(flags, rule->flag);
        const bool is_wanted = is_named || (rule->field == BGI_IPU_LAYERS && has_placement);

        if (!is_decided(ipu, rule)) {
            if (is_wanted)
                keep_value(find_option(flags, rule->flag), flags, wanted);
        } else if (is_named && is_contradiction(rule, flags, wanted)) {
            return report_contradiction(ipu, rule, flags, error);
        }
    }
    return BG_OK;
}

/* ---- the configuration ---- */

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

/* Prints a line for each note; a note that training and inference share is printed once. */
static void say_notes(const mnist_config *config, char *notes)
{
    char *rest = NULL, text[512];

    for (char *line = strtok_r(notes, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        snprintf(text, sizeof text, "--config: %s", line);
        cli_warn(config->recipe.command, text);
    }
}

/* Warns about given fields that concern layers which the digit network does not have. */
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
        cli_warn(config->recipe.command, text);
    }
}

static bg_status make_options(const bg_ipu_config *ipu, mnist_config *config, bg_error *error)
{
    bg_status status = bg_ipu_config_to_options(ipu, false, config->recipe.library.options.execution.compile_only,
                                                &network, &config->ipu.training, error);

    if (status == BG_OK)
        status = bg_ipu_config_to_options(ipu, true, config->recipe.library.options.execution.compile_only, &network,
                                          &config->ipu.test, error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--config");
}

static bg_status apply(bg_ipu_config *ipu, mnist_config *config, bg_error *error)
{
    mnist_config wanted;
    char *notes = NULL;

    /* The meaning of some fields depends on whether there are several replicas. */
    if (is_given(config, "replicas") && !is_field_given(ipu, BGI_IPU_REPLICAS))
        BGI_TRY(bg_ipu_config_set(ipu, "replication_factor",
                                  &(bg_config_value){.kind = BG_CONFIG_INTEGER,
                                                     .integer = (int64_t)config->recipe.library.options.replicas.count},
                                  error));
    BGI_TRY(make_options(ipu, config, error));
    wanted = *config;
    set_flags(&wanted.ipu.training, &wanted);
    BGI_TRY(merge_flags(ipu, config, &wanted, error));
    *config = wanted;
    if (config->recipe.quiet)
        return BG_OK;
    BGI_TRY(bg_ipu_config_print_notes(ipu, &notes, error));
    say_notes(config, notes);
    free(notes);
    say_without_effect(config, ipu);
    if (config->recipe.debug) {
        say_notes(config, config->ipu.training.notes);
        say_notes(config, config->ipu.test.notes);
    }
    return BG_OK;
}

int mnist_ipu_resolve(mnist_config *config, bg_error *error)
{
    bg_ipu_config *ipu = NULL;
    bg_status status;

    if (config->ipu_name == NULL && config->ipu_update == NULL)
        return CLI_DONE;
    if (load(config, &ipu, error) != BG_OK)
        return CLI_USAGE;
    status = apply(ipu, config, error);
    bg_ipu_config_destroy(ipu);
    return status == BG_OK ? CLI_DONE : CLI_USAGE;
}

void mnist_config_clear(mnist_config *config)
{
    bgi_weights_source_close(config->recipe.init);
    bg_costs_clear(&config->costs);
    bg_ipu_options_clear(&config->ipu.training);
    bg_ipu_options_clear(&config->ipu.test);
    cli_library_clear(&config->recipe.library);
}
