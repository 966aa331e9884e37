/*
 * mnist_config.c: the options of `brigade mnist` and what they mean for the library. Names and defaults of the first
 * groups are the tutorial program's.
 */
#include "cli/mnist.h"

#include <float.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/file.h"
#include "options/choices.h"

#define AT(field) .offset = offsetof(mnist_config, field)

/* What is wanted most comes first; a library's option that is not named comes with its group. */
const cli_option mnist_flags[] = {
    {.help = "Training"},
    {CLI_COUNT, "epochs", AT(epochs), .value = "N", .minimum = 0, .maximum = INT32_MAX,
     .help = "times through the training images; 0 only tests"},
    {CLI_COUNT, "batch-size", AT(batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "images in a micro-batch"},
    {CLI_LIBRARY, .name = "gradient-accumulation"},
    {CLI_LIBRARY, .name = "device-iterations"},
    {CLI_TEXT, "optimizer", AT(optimizer), .value = "NAME",
     .help = "a name, and settings that differ from their defaults: sgd:momentum=0.9,nesterov; "
             "`brigade options optimizers` lists them"},
    {CLI_REAL, "learning-rate", AT(learning_rate), .value = "X", .help = "of the optimizer"},
    {CLI_TEXT, "rate-schedule", AT(rate_schedule), .value = "RULE", .default_text = "constant",
     .help = "how the learning rate goes on, over --steps updates: constant, linear, cosine, polynomial, one_cycle, "
             "step or inverse_root, and what differs from its defaults: cosine:warmup=100,final=0.1"},
    {CLI_LIBRARY, .name = "seed"},
    {CLI_COUNT, "steps", AT(steps), .value = "N", .minimum = 1, .maximum = UINT64_MAX,
     .default_text = "until the epochs are done", .help = "stop after N weight updates"},
    {CLI_COUNT, "test-batch-size", AT(test_batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "images in a micro-batch of the test"},
    {CLI_FLAG, "no-shuffle", AT(no_shuffle), .help = "take the images in the files' order"},
    {CLI_CHOICE, "last-batch", AT(last_batch), .choices = "drop|smaller|pad",
     .help = "the images of an epoch that make no whole call"},
    {CLI_CHOICE, "dtype", AT(dtype), .choices = "float32|bfloat16|float16", .help = "of activations"},
    {CLI_CHOICE, "weight-type", AT(weight_type), .choices = "float32|bfloat16|float16",
     .help = "in which weights are kept"},

    {.help = "Devices"},
    {CLI_LIBRARY, .name = "strategy"},
    {CLI_LIBRARY, .name = "schedule", .default_text = "interleaved; grouped where stages share devices"},
    {CLI_LIBRARY, .name = "stages", .default_text = "B1|B2|B3|B4"},
    {CLI_LIBRARY, .name = "replicas"},
    {CLI_LIBRARY, .name = "devices", .default_text = "as many as stages"},
    {CLI_LIBRARY, .name = "device-memory"},
    {CLI_LIBRARY, .name = "cores", .default_text = "all"},
    {CLI_LIBRARY, .name = "recompute"},
    {CLI_LIBRARY, .name = "offload"},
    {CLI_LIBRARY, .name = "shard"},

    {.help = "Files"},
    {CLI_TEXT, "data-dir", AT(data_dir), .value = "DIR", .default_text = "$BRIGADE_DATA, data",
     .help = "where the MNIST files are"},
    {CLI_FLAG, "download", AT(download), .help = "fetch MNIST (12 MB) when it is not there"},
    {CLI_TEXT, "mirror", AT(mirror), .value = "ADDRESS", .default_text = "public ones",
     .help = "with --download: where from (http or https)"},
    {CLI_TEXT, "save", AT(save_path), .value = "FILE", .default_text = "brigade-mnist.safetensors",
     .help = "where the trained weights go"},
    {CLI_TEXT, "init", AT(init_path), .value = "FILE", .default_text = "random weights",
     .help = "begin with the weights of a safetensors file"},
    {CLI_TEXT, "checkpoint", AT(checkpoint_dir), .value = "DIR", .default_text = "none",
     .help = "where the training's whole state goes when it ends, also by a signal"},
    {CLI_COUNT, "checkpoint-steps", AT(checkpoint_steps), .value = "N", .minimum = 1, .maximum = UINT64_MAX,
     .default_text = "at the end only", .help = "and after every N weight updates, when the call at work is done"},
    {CLI_FLAG, "resume", AT(resume),
     .help = "go on from the checkpoint in DIR, to the same bits; --epochs and --steps count from the beginning"},
    {CLI_CHOICE, "resume-drop", AT(resume_drop), .choices = "optimizer|parameters|optimizer,parameters",
     .default_text = "nothing",
     .help = "with --resume, drop what differs: the optimizer's state, which begins anew; parameters that only one "
             "side has"},
    {CLI_TEXT, "resume-optimizer", AT(resume_optimizer), .value = "NAME", .default_text = "what the file says",
     .help = "with --resume, the optimizer that made the state of a checkpoint of an earlier release"},
    {CLI_TEXT, "log", AT(log_path), .value = "FILE", .default_text = "none",
     .help = "JSON lines: configuration, then each weight update; may be a pipe. Of several ranks the first writes, "
             "with %r in "
             "the name each its own"},
    {CLI_FLAG, "profile", AT(profile), .help = "record the training's actions, the last 262144 of each device"},
    {CLI_TEXT, "profile-dir", AT(profile_dir), .value = "DIR", .default_text = MNIST_PROFILE_DIR,
     .help = "where the profile goes"},

    {.help = "Output"},
    {CLI_FLAG, "debug", AT(debug), .help = "show stages, memory, workers and timetable"},
    {CLI_FLAG, "quiet", AT(quiet), .help = "no progress, only results"},

    {.help = "Loading"},
    {CLI_CHOICE, "loader-mode", AT(loader_mode), .choices = "sync|async|async-rebatched",
     .help = "batches when asked for, or ahead by threads; rebatched differs for streams only"},
    {CLI_COUNT, "num-workers", AT(num_workers), .value = "N", .maximum = 256, .help = "threads of the loader; 0: none"},
    {CLI_COUNT, "prefetch", AT(prefetch), .value = "N", .minimum = 1, .maximum = 1024,
     .help = "calls for which images are ready ahead"},

    {.help = "Configuration"},
    {CLI_TEXT, "config", AT(ipu_name), .value = "NAME", .default_text = "none",
     .help = "an IPU configuration (a preset, a file, or a folder with ipu_config.json) that decides other options; "
             "layers are the blocks B1 to B4"},
    {CLI_TEXT, "config-update", AT(ipu_update), .value = "LIST", .default_text = "none",
     .help = "changes to it: key=value,key=value; lists as [1 2 3]"},

#include "cli/library.def"
    {CLI_GROUP, .group = BGI_OPTIONS_EXECUTION, .help = "Execution"},
    {CLI_TEXT, "costs", AT(costs_path), .value = "FILE", .default_text = "measured each time",
     .help = "what stages cost, for --schedule auto; measured and written when it is not there"},
    {CLI_GROUP, .group = BGI_OPTIONS_MEMORY, .help = "Memory"},
    {CLI_FLAG, "checkpoint-blocks", AT(checkpoint_blocks), .help = "keep the result of each block (--recompute)"},
    {CLI_GROUP, .group = BGI_OPTIONS_REPLICAS, .help = "Replicas"},
    {CLI_GROUP, .group = BGI_OPTIONS_NUMERICS, .help = "Numerics"},
    {CLI_GROUP, .group = BGI_OPTIONS_REPORTING, .help = "Reporting"},
    CLI_OPTIONS_END,
};

mnist_config mnist_config_defaults(void)
{
    mnist_config config = {
        .command = "mnist",
        .batch_size = 40,
        .test_batch_size = 8,
        .epochs = 3,
        .learning_rate = 0.001,
        .library = cli_library_defaults(),
        .dtype = "float32",
        .weight_type = "float32",
        .loader_mode = "async",
        .num_workers = 1,
        .prefetch = 3, /* as in the tutorial */
        .last_batch = "drop",
        .optimizer = "adamw",
    };

    config.library.options.execution.device_iterations = 10;
    config.library.options.execution.gradient_accumulation = 10;
    config.library.options.reporting.output_mode = BG_OUTPUT_FINAL;
    config.library.loss_scaling = "1";
    return config;
}

bool mnist_config_lists_state(const char *list)
{
    uint32_t classes = 0;

    return cli_classes_find("", list, strlen(list), &classes, NULL) == BG_OK && (classes >> BG_LOCATION_STATE & 1) != 0;
}

/* The rule that a list of them begins with; *next: what follows, NULL at the end. */
static bg_status read_rule(const char *list, uint32_t *out_classes, const char **out_pattern, size_t *out_length,
                           const char **next, bg_error *error)
{
    const size_t length = strcspn(list, ";"), colon = strcspn(list, ":");

    *next = list[length] == ';' ? list + length + 1 : NULL;
    if (colon + 1 >= length)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--offload-rule %.*s has no pattern; it is CLASSES:PATTERN, as in \"weights:layer3.*\"",
                            (int)length, list);
    *out_pattern = list + colon + 1;
    *out_length = length - colon - 1;
    return cli_classes_find("offload-rule", list, colon, out_classes, error);
}

static bg_status check_rules(const char *rules, bg_error *error)
{
    const char *pattern, *next = rules;
    uint32_t classes, count = 0;
    size_t length;

    for (; next != NULL; count++)
        BGI_TRY(read_rule(next, &classes, &pattern, &length, &next, error));
    if (count > MNIST_MOST_RULES || (rules != NULL && strlen(rules) >= MNIST_RULES_BYTES))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--offload-rule has %u rules in %zu characters; at most %d rules in %d characters are read",
                            count, strlen(rules), MNIST_MOST_RULES, MNIST_RULES_BYTES - 1);
    return BG_OK;
}

static bg_status check_recompute(const mnist_config *config, bg_error *error)
{
    bg_options options = bg_options_defaults();
    const bool has_order = cli_library_is_given(&config->library, "recompute-order");

    cli_recompute_find(config->library.recompute, &options);
    if (options.memory.recompute == BG_RECOMPUTE_NONE && (has_order || config->checkpoint_blocks))
        return bg_error_set(error, BG_ERROR_INVALID, "%s without --recompute, which it is about",
                            config->checkpoint_blocks ? "--checkpoint-blocks" : "--recompute-order");
    if (options.memory.recompute == BG_RECOMPUTE_CHECKPOINTS && !config->checkpoint_blocks)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--recompute checkpoints, and nothing is marked; add --checkpoint-blocks");
    return BG_OK;
}

static bg_status check_optimizer(const mnist_config *config, bg_error *error)
{
    const bg_status status = bg_optimizer_parse(config->optimizer, config->learning_rate, &(bg_optimizer){0}, error);

    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--optimizer %s", config->optimizer);
}

bg_status mnist_config_rate(const mnist_config *config, bg_rate_schedule *out, bg_error *error)
{
    bg_status status = bg_rate_parse(config->rate_schedule, config->learning_rate, config->steps, out, error);

    if (status == BG_OK && out->kind == BG_RATE_PLATEAU)
        status = bg_error_set(error, BG_ERROR_INVALID, "it needs validations, which this command has none of");
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--rate-schedule %s", config->rate_schedule);
}

static bg_status check_devices(const mnist_config *config, bg_error *error)
{
    const uint32_t speeds = config->library.device_speeds.count, budgets = config->library.device_memory.count;
    const bg_execution_options *execution = &config->library.options.execution;

    if (speeds > 0 && budgets > 1 && speeds != budgets)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--device-speeds has %u values and --device-memory %u; give one for each device", speeds,
                            budgets);
    if (config->mirror != NULL && !config->download)
        return bg_error_set(error, BG_ERROR_INVALID, "--mirror goes with --download");
    if (execution->auto_round_devices && !execution->ipu_limits)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--auto-round-devices without --ipu-limits; only IPUs come in powers of two");
    return BG_OK;
}

/* Costs would be lost in what is written later. */
static bg_status check_costs_path(const mnist_config *config, bg_error *error)
{
    const struct {
        const char *name, *path;
    } others[] = {{"--init", config->init_path}, {"--save", config->save_path}, {"--log", config->log_path}};

    for (size_t i = 0; config->costs_path != NULL && i < sizeof others / sizeof others[0]; i++)
        if (others[i].path != NULL && bgi_file_is_same(config->costs_path, others[i].path))
            return bg_error_set(error, BG_ERROR_INVALID, "--costs and %s are one file: %s; give them different ones",
                                others[i].name, config->costs_path);
    return BG_OK;
}

static bg_status check_output(const mnist_config *config, bg_error *error)
{
    const bg_reporting_options *reporting = &config->library.options.reporting;
    const uint32_t iterations = config->library.options.execution.device_iterations;
    const bool is_every_n = reporting->output_mode == BG_OUTPUT_EVERY_N;

    if (reporting->output_period > 0 && !is_every_n)
        return bg_error_set(error, BG_ERROR_INVALID, "--output-period %u with --output-mode %s; it goes with every_n",
                            reporting->output_period, bgi_output_mode_name(reporting->output_mode));
    if (is_every_n && reporting->output_period == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--output-mode every_n without --output-period");
    if (is_every_n && iterations % reporting->output_period != 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--output-period %u does not divide --device-iterations %u",
                            reporting->output_period, iterations);
    return BG_OK;
}

static bg_status check_checkpoints(const mnist_config *config, bg_error *error)
{
    if (config->checkpoint_dir == NULL && (config->resume || config->checkpoint_steps > 0))
        return bg_error_set(error, BG_ERROR_INVALID, "--%s without --checkpoint, which says where",
                            config->resume ? "resume" : "checkpoint-steps");
    if (!config->resume && (config->resume_drop != NULL || config->resume_optimizer != NULL))
        return bg_error_set(error, BG_ERROR_INVALID, "--resume-%s without --resume, which it is about",
                            config->resume_drop != NULL ? "drop" : "optimizer");
    if (config->resume && config->init_path != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--resume with --init %s; both give the weights: leave one out",
                            config->init_path);
    return BG_OK;
}

/* ---- options by name ---- */

/* What flags with words of their own would say of them. */
static void take_named(mnist_config *config)
{
    cli_library *library = &config->library;
    const bool is_auto = library->options.numerics.auto_loss_scaling.enabled;

    if (config->rounds_if_16_bits && !bg_run_options_is_given(library->run_options, "stochastic_rounding") &&
        cli_library_keeps_16_bits(library, config->weight_type))
        library->options.numerics.stochastic_rounding = true;
    if (bg_run_options_is_given(library->run_options, "auto_loss_scaling") &&
        is_auto != cli_loss_scaling_is_auto(library->loss_scaling))
        library->loss_scaling = is_auto ? "auto" : "1";
}

bg_status mnist_config_read_options(mnist_config *config, bg_error *error)
{
    const bg_options *options = &config->library.options;

    BGI_TRY(cli_library_read(&config->library, error));
    take_named(config);
    if (options->execution.device_iterations == 0 || options->execution.gradient_accumulation == 0 ||
        options->replicas.count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: device_iterations, gradient_accumulation and replicas are at least 1");
    return BG_OK;
}

bg_status mnist_config_check(const mnist_config *config, bg_error *error)
{
    const char *schedule = config->library.options.execution.schedule;

    BGI_TRY(check_checkpoints(config, error));
    BGI_TRY(check_rules(config->library.offload_rules, error));
    BGI_TRY(cli_library_check(&config->library, error));
    BGI_TRY(check_devices(config, error));
    if (config->costs_path != NULL && (schedule == NULL || strcmp(schedule, "auto") != 0))
        return bg_error_set(error, BG_ERROR_INVALID, "--costs %s without --schedule auto, which alone reads it",
                            config->costs_path);
    BGI_TRY(check_costs_path(config, error));
    BGI_TRY(check_recompute(config, error));
    if (config->learning_rate > (double)FLT_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "--learning-rate is %g; it must be at most %g",
                            config->learning_rate, (double)FLT_MAX);
    BGI_TRY(check_optimizer(config, error));
    if (config->rate_schedule != NULL)
        BGI_TRY(mnist_config_rate(config, &(bg_rate_schedule){0}, error));
    BGI_TRY(check_output(config, error));
    if (config->debug && config->quiet)
        return bg_error_set(error, BG_ERROR_INVALID, "--debug with --quiet; use one of them");
    return BG_OK;
}

static uint64_t count_iterations(const mnist_config *config)
{
    return cli_multiply(config->library.options.execution.device_iterations,
                        config->library.options.execution.gradient_accumulation);
}

/* Options that --config came to have at least one replica. */
static bool has_own_test(const mnist_config *config)
{
    return config->ipu.test.options.replicas.count > 0;
}

uint64_t mnist_test_replicas(const mnist_config *config)
{
    return has_own_test(config) ? config->ipu.test.options.replicas.count : config->library.options.replicas.count;
}

uint64_t mnist_wanted_test_iterations(const mnist_config *config)
{
    return has_own_test(config) ? config->ipu.test.options.execution.device_iterations : count_iterations(config);
}

uint64_t mnist_images_per_training_call(const mnist_config *config)
{
    return cli_multiply(cli_multiply(config->batch_size, config->library.options.replicas.count),
                        count_iterations(config));
}

uint64_t mnist_images_per_update(const mnist_config *config)
{
    return cli_multiply(cli_multiply(config->batch_size, config->library.options.replicas.count),
                        config->library.options.execution.gradient_accumulation);
}

mnist_last_batch mnist_config_last_batch(const mnist_config *config)
{
    return strcmp(config->last_batch, "pad") == 0       ? MNIST_LAST_PAD
           : strcmp(config->last_batch, "smaller") == 0 ? MNIST_LAST_SMALLER
                                                        : MNIST_LAST_DROP;
}

uint64_t mnist_test_iterations(const mnist_config *config, uint64_t test_count)
{
    uint64_t most = test_count / cli_multiply(config->test_batch_size, mnist_test_replicas(config));
    uint64_t wanted = mnist_wanted_test_iterations(config);

    return wanted < most ? wanted : most;
}

bg_status mnist_config_check_data(const mnist_config *config, uint64_t train_count, bg_error *error)
{
    uint64_t training = mnist_images_per_training_call(config);

    if (config->epochs > 0 && training > train_count && mnist_config_last_batch(config) == MNIST_LAST_DROP)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "a training call takes --batch-size %" PRIu64
                            " x --device-iterations %u x --gradient-accumulation "
                            "%u x --replicas %u = %" PRIu64 " images, there are %" PRIu64
                            "; make one of the four smaller, or use --last-batch smaller or pad",
                            config->batch_size, config->library.options.execution.device_iterations,
                            config->library.options.execution.gradient_accumulation,
                            config->library.options.replicas.count, training, train_count);
    return BG_OK;
}

/* Warnings always; more with --debug. */
static void print_message(void *user, bg_log_level level, const char *text)
{
    const mnist_config *config = user;
    static const char *const names[] = {"error", "warning", "info", "debug"};

    if (level > BG_LOG_WARNING && !config->debug && !config->library.options.reporting.log_cycles)
        return;
    cli_clear_line(config->quiet); /* it may say that a plan is being made */
    if (level == BG_LOG_WARNING)
        cli_warn(config->command, text);
    else
        cli_say(config->command, "%s: %s", (unsigned)level < 4 ? names[level] : "note", text);
}

/* --device-memory of one value is the budget of all; more, or --device-speeds, describe each device. */
static void describe_devices(const mnist_config *config, bg_device_model *devices, bg_options *options)
{
    const cli_library *library = &config->library;
    const uint32_t speeds = library->device_speeds.count, budgets = library->device_memory.count;
    const uint32_t count = speeds > 0 ? speeds : budgets > 1 ? budgets : 0;

    for (uint32_t d = 0; d < count; d++)
        devices[d] = (bg_device_model){.speed = speeds > 0 ? library->device_speeds.values[d] : 1.0,
                                       .memory_bytes = budgets > 1 ? (size_t)library->device_memory.values[d] : 0};
    options->execution.devices = count > 0 ? devices : NULL;
    options->execution.device_model_count = count;
}

/* Each class of a rule keeps what else its class has. */
static void set_rules(const mnist_config *config, bg_options *options, mnist_plan_room *room)
{
    const char *pattern = NULL, *next = config->library.offload_rules;
    size_t length = 0, used = 0;

    options->memory.location_rules = room->rules;
    while (next != NULL) {
        uint32_t classes = 0;
        read_rule(next, &classes, &pattern, &length, &next, NULL);
        memcpy(room->patterns + used, pattern, length);
        room->patterns[used + length] = '\0';
        for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
            bg_location_rule *rule = &room->rules[options->memory.location_rule_count];
            if ((classes >> k & 1) == 0)
                continue;
            *rule = (bg_location_rule){
                .classes = 1u << k, .pattern = room->patterns + used, .location = options->memory.locations[k]};
            rule->location.place = BG_PLACE_REMOTE;
            options->memory.location_rule_count++;
        }
        used += length + 1;
    }
}

static bool are_weights_remote(const bg_options *options)
{
    const bg_place place = options->memory.locations[BG_LOCATION_WEIGHTS].place;

    return place == BG_PLACE_REMOTE || (place == BG_PLACE_DEFAULT && options->execution.strategy == BG_STRATEGY_PHASED);
}

static void set_locations(const mnist_config *config, bg_options *options, mnist_plan_room *room)
{
    const cli_library *library = &config->library;
    uint32_t remote = 0, sharded = 0;

    if (library->offload != NULL)
        cli_classes_find("offload", library->offload, strlen(library->offload), &remote, NULL);
    if (library->shard != NULL)
        cli_classes_find("shard", library->shard, strlen(library->shard), &sharded, NULL);
    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
        bg_tensor_location *location = &options->memory.locations[k];
        if (library->offload != NULL)
            location->place = (remote >> k & 1) != 0 ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        location->sharded = (sharded >> k & 1) != 0;
        location->minimum_elements_remote = (size_t)library->offload_minimum;
        location->minimum_elements_sharded = (size_t)library->shard_minimum;
    }
    set_rules(config, options, room);
    /* Of weights that are remote by name only, those are sharded; the others stay whole. */
    for (uint32_t i = 0; i < options->memory.location_rule_count && !are_weights_remote(options); i++)
        if (options->memory.location_rules[i].classes == 1u << BG_LOCATION_WEIGHTS)
            options->memory.locations[BG_LOCATION_WEIGHTS].sharded = false;
}

/* Where --config has the test's layers. */
static void place_test(const mnist_config *config, bg_options *options)
{
    const bg_options *own = &config->ipu.test.options;

    options->execution.strategy = own->execution.strategy;
    options->execution.schedule = NULL;
    options->execution.stages = own->execution.stages;
    options->execution.auto_stage = own->execution.auto_stage;
    options->execution.device_count = own->execution.device_count;
    options->execution.device_mapping = NULL;
    options->execution.device_mapping_count = 0;
}

bg_options mnist_plan_options(const mnist_config *config, bool training, mnist_plan_room *room)
{
    bg_options options = cli_library_options(&config->library);

    set_locations(config, &options, room);
    describe_devices(config, room->devices, &options);
    cli_library_override(&config->library, &options);
    if (!training) {
        options.memory.recompute = BG_RECOMPUTE_NONE;
        if (has_own_test(config))
            place_test(config, &options);
    }
    options.reporting.log = print_message;
    options.reporting.log_user = (void *)(uintptr_t)config;
    options.execution.stop = cli_is_asked_to_stop;
    return options;
}
