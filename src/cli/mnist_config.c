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

#define AT(field) .offset = offsetof(mnist_config, field)

const cli_option mnist_options[] = {
    {.help = "Training"},
    {CLI_COUNT, "batch-size", AT(batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "images in a micro-batch"},
    {CLI_COUNT, "device-iterations", AT(device_iterations), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "weight updates in a call"},
    {CLI_COUNT, "gradient-accumulation", AT(gradient_accumulation), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "micro-batches in a weight update"},
    {CLI_CHOICE, "accumulation", AT(accumulation), .choices = "mean|mean-running|sum",
     .help = "of the micro-batches' gradients"},
    {CLI_CHOICE, "replica-reduction", AT(replica_reduction), .choices = "mean|sum",
     .default_text = "as the accumulation", .help = "of the replicas' gradients"},
    {CLI_CHOICE, "accumulator-type", AT(accumulator_type), .choices = "default|same|float32|bfloat16|float16",
     .help = "in which gradients are accumulated; same: the parameter's"},
    {CLI_REAL, "clip-norm", AT(clip_norm), .value = "X", .help = "bound of the norm of all gradients; 0: none"},
    {CLI_FLAG, "gradient-norm", AT(gradient_norm),
     .help = "with --log: each update's norm of all gradients, before it is bounded"},
    {CLI_TEXT, "loss-scaling", AT(loss_scaling), .value = "X",
     .help =
         "times the loss's gradient, and out of the parameters' again; a power of two changes no bit; auto, auto:X: "
         "adapted between updates, from X on"},
    {CLI_COUNT, "test-batch-size", AT(test_batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "images in a micro-batch of the test"},
    {CLI_COUNT, "epochs", AT(epochs), .value = "N", .minimum = 0, .maximum = INT32_MAX,
     .help = "times through the training images; 0 only tests"},
    {CLI_TEXT, "optimiser", AT(optimiser), .value = "NAME",
     .help = "sgd, adam, adamw, adamax, rmsprop, lamb, adagrad, adadelta, and what is not as usual: "
             "sgd:momentum=0.9,nesterov; a wrong word lists those there are"},
    {CLI_REAL, "learning-rate", AT(learning_rate), .value = "X", .help = "of the optimiser"},
    {CLI_COUNT, "steps", AT(steps), .value = "N", .minimum = 1, .maximum = UINT64_MAX,
     .default_text = "until the epochs are done", .help = "stop after N weight updates"},
    {CLI_COUNT, "seed", AT(seed), .value = "N", .maximum = UINT64_MAX, .help = "of weights and order of images"},
    {CLI_FLAG, "no-shuffle", AT(no_shuffle), .help = "take the images in the files' order"},
    {CLI_CHOICE, "last-batch", AT(last_batch), .choices = "drop|smaller|pad",
     .help = "the images of an epoch that make no whole call"},
    {CLI_CHOICE, "dtype", AT(dtype), .choices = "float32|bfloat16|float16", .help = "of activations"},
    {CLI_CHOICE, "weight-type", AT(weight_type), .choices = "float32|bfloat16|float16",
     .help = "in which weights are kept"},
    {CLI_FLAG, "stochastic-rounding", AT(stochastic_rounding),
     .help = "round new weights of 16 bits up or down by chance, such that the mean is the value"},
    {CLI_CHOICE, "partials", AT(partials), .choices = "float32|bfloat16|float16",
     .help = "a type of 16 bits: linear layers of such a type keep their sums in it"},

    {.help = "Devices"},
    {CLI_CHOICE, "strategy", AT(strategy), .choices = "pipelined|sharded|phased|single",
     .help = "how the network runs on devices"},
    {CLI_TEXT, "schedule", AT(schedule), .value = "NAME", .default_text = "interleaved",
     .help = "of the pipeline; a wrong name lists all"},
    {CLI_TEXT, "costs", AT(costs_path), .value = "FILE", .default_text = "measured each time",
     .help = "what stages cost, for --schedule auto; measured and written when it is not there"},
    {CLI_TEXT, "stages", AT(stages), .value = "LIST", .default_text = "B1|B2|B3|B4",
     .help = "blocks to stages: \"B1,B2|B3,B4\", \"B1,B2|B3,B4@0\"; \"B1;B2|B3;B4\" are phases; auto:2, auto-ops:6"},
    {CLI_CHOICE, "auto-stage", AT(auto_stage), .choices = "same-as-ipu|auto-increment",
     .help = "stages that are not listed: a run of blocks on one device each, or a block each"},
    {CLI_CHOICE, "phases", AT(phases), .choices = "serial|parallel", .default_text = "serial",
     .help = "on one group of devices, or on two that take turns"},
    {CLI_COUNT, "devices", AT(devices), .value = "N", .minimum = 1, .maximum = 65536,
     .default_text = "as many as stages", .help = "of one copy of the network; fewer than stages for looped schedules"},
    {CLI_COUNT_LIST, "device-mapping", AT(device_mapping), .value = "LIST", .maximum = 65535,
     .default_text = "as the schedule places them", .help = "device of each stage: 0,1,1,0"},
    {CLI_REAL_LIST, "device-speeds", AT(device_speeds), .value = "LIST", .default_text = "all alike",
     .help = "of each device, for automatic stages and estimates: 1,2,1,1"},
    {CLI_COUNT, "replicas", AT(replicas), .value = "N", .minimum = 1, .maximum = 65536,
     .help = "data-parallel copies of the network"},
    {CLI_SIZE_LIST, "device-memory", AT(device_memory), .value = "BYTES", .minimum = 1, .default_text = "unlimited",
     .help = "of each device, one for all or a list; K, M, G are understood"},
    {CLI_COUNT, "cores", AT(cores), .value = "N", .minimum = 1, .maximum = 65536, .default_text = "all",
     .help = "worker threads"},
    {CLI_FLAG, "offload-optimiser", AT(offload_optimiser), .help = "keep the optimiser's state off the devices"},
    {CLI_TEXT, "shard", AT(shard), .value = "LIST", .default_text = "none",
     .help = "what replicas keep a piece of each: optimiser, accumulators, weights (with --offload weights)"},
    {CLI_COUNT, "shard-minimum", AT(shard_minimum), .value = "N", .minimum = 1, .maximum = UINT64_MAX,
     .help = "elements of the smallest tensor that is sharded"},
    {CLI_TEXT, "recompute", AT(recompute), .value = "HOW", .default_text = "none",
     .help = "activations again for the backward pass: none, stage, checkpoints, auto (what --device-memory needs), or "
             "the share of their bytes to save, 0 to 1"},
    {CLI_CHOICE, "recompute-order", AT(recompute_order), .choices = "interleaved|then", .default_text = "interleaved",
     .help = "inside the backward pass, or before it"},
    {CLI_FLAG, "checkpoint-blocks", AT(checkpoint_blocks), .help = "keep the result of each block (--recompute)"},
    {CLI_TEXT, "offload", AT(offload), .value = "LIST", .default_text = "all with --strategy phased, else none",
     .help = "keep these off the devices, and only these: weights, accumulators, optimiser, activations, none"},
    {CLI_TEXT, "offload-rule", AT(offload_rules), .value = "LIST", .default_text = "none",
     .help = "keep those tensors off whose name matches: \"weights:layer3.*;weights,optimiser:layer4.*\""},
    {CLI_COUNT, "offload-minimum", AT(offload_minimum), .value = "N", .maximum = UINT64_MAX,
     .help = "tensors with fewer elements stay on the devices"},
    {CLI_CHOICE, "phase-liveness", AT(phase_liveness),
     .choices = "always_live|off_chip_after_fwd|off_chip_after_fwd_no_overlap|off_chip_after_each_phase",
     .help = "how long what is off the devices stays on one that works on several stages"},
    {CLI_COUNT, "io-threads", AT(io_threads), .value = "N", .maximum = 64, .default_text = "one if a core is free",
     .help = "threads for loads and stores; 0: workers do them"},
    {CLI_FLAG, "ipu-limits", AT(ipu_limits), .help = "refuse what IPU software refuses"},
    {CLI_FLAG, "auto-round-devices", AT(auto_round_devices),
     .help = "with --ipu-limits: reserve the next power of two of devices"},
    {CLI_CHOICE, "output-mode", AT(output_mode), .choices = "final|all|sum|every_n",
     .help = "what a training call returns"},
    {CLI_COUNT, "output-period", AT(output_period), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .default_text = "none", .help = "with every_n: of so many weight updates of a call one"},

    {.help = "Loading"},
    {CLI_CHOICE, "loader-mode", AT(loader_mode), .choices = "sync|async|async-rebatched",
     .help = "batches when asked for, or ahead by threads; rebatched differs for streams only"},
    {CLI_COUNT, "num-workers", AT(num_workers), .value = "N", .maximum = 256, .help = "threads of the loader; 0: none"},
    {CLI_COUNT, "prefetch", AT(prefetch), .value = "N", .minimum = 1, .maximum = 1024,
     .help = "calls for which images are ready ahead"},

    {.help = "Configuration"},
    {CLI_TEXT, "config", AT(ipu_name), .value = "NAME", .default_text = "none",
     .help = "an IPU configuration (a preset, a file, or a folder with ipu_config.json) that decides options above; "
             "layers are the blocks B1 to B4"},
    {CLI_TEXT, "config-update", AT(ipu_update), .value = "LIST", .default_text = "none",
     .help = "changes to it: key=value,key=value; lists as [1 2 3]"},

    {.help = "Files"},
    {CLI_TEXT, "data-dir", AT(data_dir), .value = "DIR", .default_text = "$BRIGADE_DATA, data, ../shared/data",
     .help = "where the MNIST files are"},
    {CLI_FLAG, "download", AT(download), .help = "fetch MNIST (12 MB) when it is not there"},
    {CLI_TEXT, "mirror", AT(mirror), .value = "ADDRESS", .default_text = "public ones",
     .help = "with --download: where from (http or https)"},
    {CLI_TEXT, "init", AT(init_path), .value = "FILE", .default_text = "random weights",
     .help = "begin with the weights of a safetensors file"},
    {CLI_TEXT, "save", AT(save_path), .value = "FILE", .default_text = "brigade-mnist.safetensors",
     .help = "where the trained weights go"},
    {CLI_TEXT, "checkpoint", AT(checkpoint_dir), .value = "DIR", .default_text = "none",
     .help = "where the training's whole state goes when it ends, also by a signal"},
    {CLI_COUNT, "checkpoint-steps", AT(checkpoint_steps), .value = "N", .minimum = 1, .maximum = UINT64_MAX,
     .default_text = "at the end only", .help = "and after every N weight updates, when the call at work is done"},
    {CLI_FLAG, "resume", AT(resume),
     .help = "go on from the checkpoint in DIR, to the same bits; --epochs and --steps count from the beginning"},
    {CLI_TEXT, "log", AT(log_path), .value = "FILE", .default_text = "none",
     .help = "JSON lines: configuration, then each weight update; may be a pipe"},
    {CLI_FLAG, "profile", AT(profile), .help = "record the training's actions, the last 262144 of each device"},
    {CLI_TEXT, "profile-dir", AT(profile_dir), .value = "DIR", .default_text = MNIST_PROFILE_DIR,
     .help = "where the profile goes"},

#include "cli/library.def"

    {.help = "Output"},
    {CLI_FLAG, "debug", AT(debug), .help = "show stages, memory, workers and timetable"},
    {CLI_FLAG, "quiet", AT(quiet), .help = "no progress, only results"},
    CLI_OPTIONS_END,
};

mnist_config mnist_config_defaults(void)
{
    return (mnist_config){
        .command = "mnist",
        .batch_size = 40,
        .device_iterations = 10,
        .gradient_accumulation = 10,
        .test_batch_size = 8,
        .epochs = 3,
        .learning_rate = 0.001,
        .strategy = "pipelined",
        .auto_stage = "same-as-ipu",
        .replicas = 1,
        .offload_minimum = 2,
        .phase_liveness = "off_chip_after_fwd",
        .io_threads = UINT64_MAX,
        .shard_minimum = 8192,
        .dtype = "float32",
        .weight_type = "float32",
        .partials = "float32",
        .output_mode = "final",
        .loader_mode = "async",
        .num_workers = 1,
        .prefetch = 3, /* as in the tutorial */
        .last_batch = "drop",
        .accumulation = "mean",
        .accumulator_type = "default",
        .loss_scaling = "1",
        .optimiser = "adamw",
    };
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

static bg_status check_locations(const mnist_config *config, bg_error *error)
{
    const char *pattern, *next = config->offload_rules;
    uint32_t classes, count = 0;
    size_t length;

    if (config->shard != NULL)
        BGI_TRY(cli_classes_find("shard", config->shard, strlen(config->shard), &classes, error));
    if (config->offload != NULL)
        BGI_TRY(cli_classes_find("offload", config->offload, strlen(config->offload), &classes, error));
    for (; next != NULL; count++)
        BGI_TRY(read_rule(next, &classes, &pattern, &length, &next, error));
    if (count > MNIST_MOST_RULES ||
        (config->offload_rules != NULL && strlen(config->offload_rules) >= MNIST_RULES_BYTES))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--offload-rule has %u rules in %zu characters; at most %d rules in %d characters are read",
                            count, strlen(config->offload_rules), MNIST_MOST_RULES, MNIST_RULES_BYTES - 1);
    return BG_OK;
}

static bg_status check_recompute(const mnist_config *config, bg_error *error)
{
    bg_options options = bg_options_defaults();

    if (!cli_recompute_find(config->recompute, &options))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--recompute %s; it can be none, stage, checkpoints, auto, or a number from 0 to 1",
                            config->recompute);
    if (options.recompute == BG_RECOMPUTE_AUTO && config->device_memory.count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--recompute auto without --device-memory, which it is to meet; give both, or use "
                            "--recompute stage");
    if (options.recompute == BG_RECOMPUTE_NONE && (config->recompute_order != NULL || config->checkpoint_blocks))
        return bg_error_set(error, BG_ERROR_INVALID, "%s without --recompute, which it is about",
                            config->checkpoint_blocks ? "--checkpoint-blocks" : "--recompute-order");
    if (options.recompute == BG_RECOMPUTE_CHECKPOINTS && !config->checkpoint_blocks)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--recompute checkpoints, and nothing is marked; add --checkpoint-blocks");
    return BG_OK;
}

/* "4096", "auto" or "auto:4096"; false when it is none of them. */
static bool find_loss_scaling(const char *text, bg_options *options)
{
    char *end = NULL;

    options->auto_loss_scaling.enabled = strncmp(text, "auto", 4) == 0 && (text[4] == '\0' || text[4] == ':');
    if (options->auto_loss_scaling.enabled && text[4] == '\0')
        return true;
    text += options->auto_loss_scaling.enabled ? 5 : 0;
    options->loss_scaling = strtod(text, &end);
    return end != text && *end == '\0' && options->loss_scaling > 0.0 && options->loss_scaling <= DBL_MAX;
}

static bg_status check_loss_scaling(const mnist_config *config, bg_error *error)
{
    bg_options options = bg_options_defaults();

    if (!find_loss_scaling(config->loss_scaling, &options))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--loss-scaling is `%s`; it must be a number above 0, auto, or auto:X with a first number",
                            config->loss_scaling);
    return BG_OK;
}

static bg_status check_optimiser(const mnist_config *config, bg_error *error)
{
    const bg_status status = bg_optimiser_parse(config->optimiser, config->learning_rate, &(bg_optimiser){0}, error);

    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--optimiser %s", config->optimiser);
}

static bg_status check_devices(const mnist_config *config, bg_error *error)
{
    const uint32_t speeds = config->device_speeds.count, budgets = config->device_memory.count;

    if (config->phases != NULL && strcmp(config->strategy, "phased") != 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--phases %s with --strategy %s; only the phased strategy has any",
                            config->phases, config->strategy);
    if (speeds > 0 && budgets > 1 && speeds != budgets)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--device-speeds has %u values and --device-memory %u; give one for each device", speeds,
                            budgets);
    if (config->mirror != NULL && !config->download)
        return bg_error_set(error, BG_ERROR_INVALID, "--mirror goes with --download");
    if (config->auto_round_devices && !config->ipu_limits)
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
    const bool is_every_n = strcmp(config->output_mode, "every_n") == 0;

    if (config->output_period > 0 && !is_every_n)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--output-period %" PRIu64 " with --output-mode %s; it goes with every_n",
                            config->output_period, config->output_mode);
    if (is_every_n && config->output_period == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--output-mode every_n without --output-period");
    if (is_every_n && config->device_iterations % config->output_period != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--output-period %" PRIu64 " does not divide --device-iterations %" PRIu64,
                            config->output_period, config->device_iterations);
    return BG_OK;
}

static bg_status check_checkpoints(const mnist_config *config, bg_error *error)
{
    if (config->checkpoint_dir == NULL && (config->resume || config->checkpoint_steps > 0))
        return bg_error_set(error, BG_ERROR_INVALID, "--%s without --checkpoint, which says where",
                            config->resume ? "resume" : "checkpoint-steps");
    if (config->resume && config->init_path != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--resume with --init %s; both give the weights: leave one out",
                            config->init_path);
    return BG_OK;
}

/* ---- options by name ---- */

/* What the program itself computes with. */
static void take_options(mnist_config *config)
{
    const cli_library *library = &config->common;
    const bg_run_options *options = library->run_options;
    const bg_options *view = bg_run_options_view(options);

    config->device_iterations =
        cli_library_count(library, "device_iterations", view->device_iterations, config->device_iterations);
    config->gradient_accumulation =
        cli_library_count(library, "gradient_accumulation", view->gradient_accumulation, config->gradient_accumulation);
    config->replicas = cli_library_count(library, "replicas", view->replicas, config->replicas);
    config->output_period = cli_library_count(library, "output_period", view->output_period, config->output_period);
    config->seed = cli_library_count(library, "seed", view->seed, config->seed);
    cli_library_strategy(library, &config->strategy, &config->schedule, &config->stages);
    if (bg_run_options_is_given(options, "output_mode"))
        config->output_mode = bg_output_mode_name(view->output_mode);
    if (bg_run_options_is_given(options, "offload_optimiser"))
        config->offload_optimiser = view->offload_optimiser;
    if (bg_run_options_is_given(options, "output_gradient_norm"))
        config->gradient_norm = view->output_gradient_norm;
    if (bg_run_options_is_given(options, "stochastic_rounding"))
        config->stochastic_rounding = view->stochastic_rounding;
    else if (config->rounds_if_16_bits && cli_library_keeps_16_bits(library, config->weight_type))
        config->stochastic_rounding = true;
    if (bg_run_options_is_given(options, "auto_loss_scaling") &&
        view->auto_loss_scaling.enabled != (strncmp(config->loss_scaling, "auto", 4) == 0))
        config->loss_scaling = view->auto_loss_scaling.enabled ? "auto" : "1";
}

bg_status mnist_config_read_options(mnist_config *config, bg_error *error)
{
    BGI_TRY(cli_library_read(&config->common, error));
    take_options(config);
    if (config->device_iterations == 0 || config->gradient_accumulation == 0 || config->replicas == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: device_iterations, gradient_accumulation and replicas are at least 1");
    return BG_OK;
}

bg_status mnist_config_check(const mnist_config *config, bg_error *error)
{
    BGI_TRY(check_checkpoints(config, error));
    BGI_TRY(check_locations(config, error));
    BGI_TRY(cli_schedule_check(config->strategy, config->schedule, error));
    BGI_TRY(check_devices(config, error));
    if (config->costs_path != NULL && (config->schedule == NULL || strcmp(config->schedule, "auto") != 0))
        return bg_error_set(error, BG_ERROR_INVALID, "--costs %s without --schedule auto, which alone reads it",
                            config->costs_path);
    BGI_TRY(check_costs_path(config, error));
    if (config->stages != NULL && strcmp(config->strategy, "single") == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--stages %s with --strategy single, which has one stage; use pipelined or sharded",
                            config->stages);
    BGI_TRY(check_recompute(config, error));
    BGI_TRY(check_loss_scaling(config, error));
    if (config->learning_rate > (double)FLT_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "--learning-rate is %g; it must be at most %g",
                            config->learning_rate, (double)FLT_MAX);
    BGI_TRY(check_optimiser(config, error));
    BGI_TRY(check_output(config, error));
    if (config->debug && config->quiet)
        return bg_error_set(error, BG_ERROR_INVALID, "--debug with --quiet; use one of them");
    return BG_OK;
}

static uint64_t count_iterations(const mnist_config *config)
{
    return cli_multiply(config->device_iterations, config->gradient_accumulation);
}

/* Options that --config came to have at least one replica. */
static bool has_own_test(const mnist_config *config)
{
    return config->ipu.test.options.replicas > 0;
}

uint64_t mnist_test_replicas(const mnist_config *config)
{
    return has_own_test(config) ? config->ipu.test.options.replicas : config->replicas;
}

uint64_t mnist_wanted_test_iterations(const mnist_config *config)
{
    return has_own_test(config) ? config->ipu.test.options.device_iterations : count_iterations(config);
}

uint64_t mnist_images_per_training_call(const mnist_config *config)
{
    return cli_multiply(cli_multiply(config->batch_size, config->replicas), count_iterations(config));
}

uint64_t mnist_images_per_update(const mnist_config *config)
{
    return cli_multiply(cli_multiply(config->batch_size, config->replicas), config->gradient_accumulation);
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
                            "a training call takes --batch-size %" PRIu64 " x --device-iterations %" PRIu64
                            " x --gradient-accumulation %" PRIu64 " x --replicas %" PRIu64 " = %" PRIu64
                            " images, there are %" PRIu64
                            "; make one of the four smaller, or use --last-batch smaller or pad",
                            config->batch_size, config->device_iterations, config->gradient_accumulation,
                            config->replicas, training, train_count);
    return BG_OK;
}

/* Warnings always; more with --debug. */
static void print_message(void *user, bg_log_level level, const char *text)
{
    const mnist_config *config = user;
    static const char *const names[] = {"error", "warning", "info", "debug"};

    if (level > BG_LOG_WARNING && !config->debug && !config->common.log_cycles)
        return;
    cli_clear_line(config->quiet); /* it may say that a plan is being made */
    if (level == BG_LOG_WARNING)
        cli_warn(config->command, text);
    else
        cli_say(config->command, "%s: %s", (unsigned)level < 4 ? names[level] : "note", text);
}

static void set_gradients(const mnist_config *config, bg_options *options)
{
    bg_accumulation_find(config->accumulation, &options->accumulation);
    if (config->replica_reduction != NULL)
        bg_replica_reduction_find(config->replica_reduction, &options->replica_reduction);
    if (strcmp(config->accumulator_type, "same") == 0) {
        options->accumulator_type = BG_ACCUMULATOR_SAME;
    } else if (strcmp(config->accumulator_type, "default") != 0) {
        options->accumulator_type = BG_ACCUMULATOR_GIVEN;
        options->accumulator_dtype = bg_dtype_find(config->accumulator_type);
    }
    options->max_gradient_norm = config->clip_norm;
    options->stochastic_rounding = config->stochastic_rounding;
    options->output_gradient_norm = config->gradient_norm;
    find_loss_scaling(config->loss_scaling, options);
}

/* --device-memory of one value is the budget of all; more, or --device-speeds, describe each device. */
static void describe_devices(const mnist_config *config, bg_device_model *devices, bg_options *options)
{
    const uint32_t speeds = config->device_speeds.count, budgets = config->device_memory.count;
    const uint32_t count = speeds > 0 ? speeds : budgets > 1 ? budgets : 0;

    if (budgets == 1)
        options->device_memory_bytes = (size_t)config->device_memory.values[0];
    for (uint32_t d = 0; d < count; d++)
        devices[d] = (bg_device_model){.speed = speeds > 0 ? config->device_speeds.values[d] : 1.0,
                                       .memory_bytes = budgets > 1 ? (size_t)config->device_memory.values[d] : 0};
    options->devices = count > 0 ? devices : NULL;
    options->device_model_count = count;
}

/* Each class of a rule keeps what else its class has. */
static void set_rules(const mnist_config *config, bg_options *options, mnist_plan_room *room)
{
    const char *pattern = NULL, *next = config->offload_rules;
    size_t length = 0, used = 0;

    options->location_rules = room->rules;
    while (next != NULL) {
        uint32_t classes = 0;
        read_rule(next, &classes, &pattern, &length, &next, NULL);
        memcpy(room->patterns + used, pattern, length);
        room->patterns[used + length] = '\0';
        for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
            bg_location_rule *rule = &room->rules[options->location_rule_count];
            if ((classes >> k & 1) == 0)
                continue;
            *rule = (bg_location_rule){
                .classes = 1u << k, .pattern = room->patterns + used, .location = options->locations[k]};
            rule->location.place = BG_PLACE_REMOTE;
            options->location_rule_count++;
        }
        used += length + 1;
    }
}

static bool are_weights_remote(const mnist_config *config, const bg_options *options)
{
    const bg_place place = options->locations[BG_LOCATION_WEIGHTS].place;

    return place == BG_PLACE_REMOTE || (place == BG_PLACE_DEFAULT && strcmp(config->strategy, "phased") == 0);
}

static void set_locations(const mnist_config *config, bg_options *options, mnist_plan_room *room)
{
    uint32_t remote = 0, sharded = 0;

    if (config->offload != NULL)
        cli_classes_find("offload", config->offload, strlen(config->offload), &remote, NULL);
    if (config->shard != NULL)
        cli_classes_find("shard", config->shard, strlen(config->shard), &sharded, NULL);
    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
        bg_tensor_location *location = &options->locations[k];
        if (config->offload != NULL)
            location->place = (remote >> k & 1) != 0 ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        location->sharded = (sharded >> k & 1) != 0;
        location->minimum_elements_remote = (size_t)config->offload_minimum;
        location->minimum_elements_sharded = (size_t)config->shard_minimum;
    }
    set_rules(config, options, room);
    /* Of weights that are remote by name only, those are sharded; the others stay whole. */
    for (uint32_t i = 0; i < options->location_rule_count && !are_weights_remote(config, options); i++)
        if (options->location_rules[i].classes == 1u << BG_LOCATION_WEIGHTS)
            options->locations[BG_LOCATION_WEIGHTS].sharded = false;
    bg_phase_liveness_find(config->phase_liveness, &options->phase_liveness);
    if (config->io_threads != UINT64_MAX)
        options->io_threads = (int32_t)config->io_threads;
}

/* Where --config has the test's layers. */
static void place_test(const mnist_config *config, bg_options *options)
{
    const bg_options *own = &config->ipu.test.options;

    options->strategy = own->strategy;
    options->schedule = NULL;
    options->stages = own->stages;
    options->auto_stage = own->auto_stage;
    options->device_count = own->device_count;
    options->device_mapping = NULL;
    options->device_mapping_count = 0;
}

bg_options mnist_plan_options(const mnist_config *config, bool training, mnist_plan_room *room)
{
    bg_options options = bg_options_defaults();

    set_locations(config, &options, room);
    bg_strategy_find(config->strategy, &options.strategy);
    options.schedule = config->schedule;
    options.stages = config->stages;
    options.auto_stage =
        strcmp(config->auto_stage, "auto-increment") == 0 ? BG_AUTO_STAGE_INCREMENT : BG_AUTO_STAGE_SAME_AS_IPU;
    options.device_mapping = config->device_mapping.count > 0 ? config->device_mapping.values : NULL;
    options.device_mapping_count = config->device_mapping.count;
    options.device_count = (uint32_t)config->devices;
    options.phases_parallel = config->phases != NULL && strcmp(config->phases, "parallel") == 0;
    describe_devices(config, room->devices, &options);
    options.cores = (uint32_t)config->cores;
    options.seed = config->seed;
    cli_library_set(&config->common, &options);
    options.partials = bg_dtype_find(config->partials);
    options.ipu_limits = config->ipu_limits;
    options.auto_round_devices = config->auto_round_devices;
    cli_recompute_find(config->recompute, &options);
    bg_recompute_order_find(config->recompute_order, &options.recompute_order);
    set_gradients(config, &options);
    cli_library_override(&config->common, &options);
    if (!training) {
        options.recompute = BG_RECOMPUTE_NONE;
        if (has_own_test(config))
            place_test(config, &options);
    }
    options.log = print_message;
    options.log_user = (void *)(uintptr_t)config;
    return options;
}
