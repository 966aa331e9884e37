/*
 * gpt_options.c: defines the options of `brigade gpt`, and translates them and the configuration to options of the
 * library.
 *
 *     defaults < preset (--config) < file (--config-file) < --set KEY=VALUE < options of their own
 */
#include "cli/gpt.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/presets.h"
#include "cli/ranks.h"
#include "core/error.h"

#define AT(field) .offset = offsetof(gpt_options, field)

const cli_option gpt_pretrain_flags[] = {
#include "cli/gpt_configuration.def"
    {.help = "Training"},
    {CLI_TEXT_LIST, "input-files", AT(input_files), .value = "FILE...",
     .help =
         "tokens (.u16, .u32, .tfrecord) or text (.txt, .md); patterns are expanded; default: Brigade's own documents"},
    {CLI_COUNT, "steps", AT(stop), .value = "N", .minimum = 1, .maximum = UINT64_MAX, .default_text = "training.steps",
     .help = "stop after N weight updates; the learning rate keeps the schedule of training.steps"},
    {CLI_FLAG, "no-shuffle", AT(no_shuffle), .help = "keep the samples in the files' order"},
    {.help = "Files"},
    {CLI_TEXT, "save", AT(save), .value = "DIR", .default_text = "checkpoint.save",
     .help = "folder for checkpoints: at the end, and every --checkpoint-steps"},
    {CLI_COUNT, "checkpoint-steps", AT(checkpoint_steps), .value = "N", .maximum = 1000000000000,
     .default_text = "checkpoint.steps", .help = "weight updates between checkpoints; 0: only at the end"},
    {CLI_FLAG, "checkpoint-async", AT(checkpoint_async),
     .help = "write checkpoints from a copy of the state while the training continues"},
    {CLI_COUNT, "checkpoint-keep", AT(checkpoint_keep), .value = "N", .minimum = 1, .maximum = UINT32_MAX,
     .default_text = "checkpoint.max_checkpoints", .help = "number of newest checkpoints to keep"},
    {CLI_COUNT, "checkpoint-keep-every", AT(checkpoint_interval_s), .value = "SECONDS", .maximum = UINT32_MAX,
     .default_text = "none", .help = "also keep one older checkpoint for each interval of this many seconds"},
    {CLI_TEXT, "checkpoint-keep-best", AT(checkpoint_best), .value = "METRIC", .default_text = "none",
     .help = "also keep the checkpoint with the best METRIC: loss, the mean since the previous checkpoint"},
    {CLI_TEXT, "load", AT(load), .value = "DIR", .default_text = "checkpoint.load",
     .help = "resume from the newest checkpoint in DIR, or from FILE; results are bit-identical to those of a run "
             "without a stop"},
    {CLI_TEXT, "log", AT(log_path), .value = "FILE", .default_text = "none",
     .help = "file for JSON lines, one for each weight update; --load appends to it"},
    {CLI_TEXT, "tensorboard", AT(tensorboard), .value = "DIR", .default_text = "none",
     .help = "folder for TensorBoard event files: loss, grad_norm, lr, throughput of each weight update"},
    {CLI_TEXT, "trace", AT(trace), .value = "FILE", .default_text = "none",
     .help = "file for a timeline of each device, as Chrome trace events (https://ui.perfetto.dev): the last 65536 "
             "actions of each"},
    CLI_PROFILE_OPTIONS(gpt_options, profile),
    {CLI_TEXT, "hf-model", AT(hf_model), .value = "DIR", .default_text = "random weights",
     .help =
         "begin with the weights of a Hugging Face GPT-2, which must match the configuration; test: random weights"},
    {CLI_TEXT, "save-hf", AT(save_hf), .value = "DIR", .default_text = "none",
     .help =
         "write the trained model as a Hugging Face folder: config.json, model.safetensors; the folder must be empty"},
    {CLI_FLAG, "overwrite-hf", AT(overwrite_hf),
     .help = "let --save-hf replace the model in a folder that is not empty"},
    {CLI_TEXT, "save-weights", AT(weights_path), .value = "FILE", .default_text = "none",
     .help = "file for the trained weights, as safetensors under Hugging Face's names, or the model as x.onnx"},
    {CLI_LIBRARY, .name = "memmap-dir", .default_text = "checkpoint.memmap_dir"},
    {CLI_CHOICE, "resume-drop", AT(resume_drop), .choices = "optimizer|parameters|optimizer,parameters",
     .default_text = "nothing",
     .help = "with --load, ignore differences: the optimizer's state, which starts from zero; parameters that only the "
             "model or only the checkpoint has"},
    {CLI_TEXT, "resume-optimizer", AT(resume_optimizer), .value = "NAME", .default_text = "recorded in the file",
     .help = "with --load, the optimizer that made the state of a checkpoint of an earlier release"},
    CLI_REPLAY(library),
    {.help = "Output"},
    {CLI_FLAG, "quiet", AT(quiet), .help = "print no configuration and no steps, only results"},
#include "cli/gpt_devices.def"
#include "cli/library.def"
    CLI_OPTIONS_END,
};

const cli_option gpt_bench_flags[] = {
#include "cli/gpt_configuration.def"
#include "cli/gpt_devices.def"
#include "cli/library.def"
    CLI_OPTIONS_END,
};

static gpt_options make_defaults(void)
{
    gpt_options options = {.checkpoint_steps = UINT64_MAX, .library = cli_library_defaults()};

    options.library.options.execution.strategy = BG_STRATEGY_PHASED;
    return options;
}

static bool is_phased(const gpt_options *options)
{
    return options->library.options.execution.strategy == BG_STRATEGY_PHASED;
}

static bool is_given(const gpt_options *options, const char *flag)
{
    return cli_library_is_given(&options->library, flag);
}

/* ---- the configuration ---- */

static bg_status load_preset(const gpt_options *options, bgi_gpt_config *config, bg_error *error)
{
    const char *name = options->preset != NULL ? options->preset : options->config_file == NULL ? "tiny" : NULL;
    char *path = NULL, *looked = NULL;
    bg_status status;

    if (name == NULL)
        return BG_OK;
    BGI_TRY(cli_preset_find(name, "gpt", ".yaml", &path, &looked, error));
    if (path != NULL)
        status = bgi_gpt_config_load(config, path, error);
    else
        status = bg_error_set(error, BG_ERROR_NOT_FOUND,
                              "--config: there is no preset `%s`; the presets are tiny, test, gpt3_2.7B_pod64, "
                              "gpt3_175B_pod256 and the files in %s",
                              name, looked);
    free(path);
    free(looked);
    return status;
}

static bg_status set_value(bgi_gpt_config *config, const char *option, const char *assignment, bg_error *error)
{
    const bg_status status = bgi_gpt_config_set(config, assignment, error);

    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--%s", option);
}

/* Sets a path, which must be UTF-8 text, so that it can be printed with the configuration. */
static bg_status set_path(const char *option, const char *path, const char **out, bg_error *error)
{
    if (path != NULL && !bgi_text_is_utf8(path))
        return bg_error_set(error, BG_ERROR_INVALID, "--%s: `%s` is not UTF-8 text", option, path);
    if (path != NULL)
        *out = path;
    return BG_OK;
}

static bg_status set_seed(uint64_t seed, bgi_gpt_config *config, bg_error *error)
{
    char assignment[48];

    snprintf(assignment, sizeof assignment, "model.seed=%" PRIu64, seed);
    return set_value(config, "seed", assignment, error);
}

/* Sets the fields of the configuration that have an option. The pointers are valid as long as the command line. */
static bg_status set_own(const gpt_options *options, bgi_gpt_config *config, bg_error *error)
{
    if (is_given(options, "seed"))
        BGI_TRY(set_seed(options->library.options.numerics.seed, config, error));
    if (options->checkpoint_steps != UINT64_MAX)
        config->checkpoint_steps = (int64_t)options->checkpoint_steps;
    if (options->checkpoint_keep > 0)
        config->max_checkpoints = (int64_t)options->checkpoint_keep;
    BGI_TRY(set_path("load", options->load, &config->load, error));
    BGI_TRY(set_path("save", options->save, &config->save, error));
    if (is_given(options, "memmap-dir"))
        BGI_TRY(set_path("memmap-dir", options->library.options.files.memmap_dir, &config->memmap_dir, error));
    if (options->input_files.count > 0)
        BGI_TRY(set_value(config, "input-files", "data.input_files=[]", error));
    for (uint32_t i = 0; i < options->input_files.count; i++) {
        const char *path = options->input_files.values[i];
        if (!bgi_text_is_utf8(path))
            return bg_error_set(error, BG_ERROR_INVALID, "--input-files: `%s` is not UTF-8 text", path);
        if (json_array_append_new((json_t *)(uintptr_t)config->input_files, json_string(path)) != 0)
            return bgi_error_memory(error, "--input-files", strlen(path));
    }
    return BG_OK;
}

static bg_status check_kept(const gpt_options *options, const bgi_gpt_config *config, bg_error *error)
{
    const char *alone = options->checkpoint_keep > 0         ? "checkpoint-keep"
                        : options->checkpoint_interval_s > 0 ? "checkpoint-keep-every"
                        : options->checkpoint_best != NULL   ? "checkpoint-keep-best"
                                                             : NULL;

    if (alone != NULL && config->save == NULL && !config->test_mode)
        return bg_error_set(error, BG_ERROR_INVALID, "--%s is given without --save DIR, the folder that it needs",
                            alone);
    if (options->checkpoint_best != NULL && strcmp(options->checkpoint_best, "loss") != 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--checkpoint-keep-best %s: the training measures only `loss`",
                            options->checkpoint_best);
    return BG_OK;
}

static bg_status check_files(const gpt_options *options, const bgi_gpt_config *config, bg_error *error)
{
    const size_t length = config->save != NULL ? strlen(config->save) : 0;

    if (options->hf_model != NULL && config->load != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--hf-model %s is given with --load %s, but weights can come from only one of them: give "
                            "the model to begin, or the checkpoint to resume",
                            options->hf_model, config->load);
    if (config->load == NULL && (options->resume_drop != NULL || options->resume_optimizer != NULL))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--resume-%s is given without --load DIR; it applies only to a load",
                            options->resume_drop != NULL ? "drop" : "optimizer");
    if (options->overwrite_hf && options->save_hf == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--overwrite-hf is given without --save-hf DIR; it applies only to --save-hf");
    if (length > 12 && strcmp(config->save + length - 12, ".safetensors") == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--save %s: checkpoints go into a folder; --save-weights FILE writes only the weights",
                            config->save);
    if (config->checkpoint_steps > 0 && config->save == NULL && !config->test_mode)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "a checkpoint every %lld updates is requested without a folder; add --save DIR",
                            (long long)config->checkpoint_steps);
    BGI_TRY(check_kept(options, config, error));
    if (options->stop > (uint64_t)config->steps)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--steps %llu is more than training.steps %lld, where the learning rate's schedule ends; "
                            "use --set training.steps=%llu",
                            (unsigned long long)options->stop, (long long)config->steps,
                            (unsigned long long)options->stop);
    if (options->stop > 0 && options->stop % (uint64_t)config->device_iterations != 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--steps %llu is not divisible by execution.device_iterations %lld: a call makes this number of updates",
            (unsigned long long)options->stop, (long long)config->device_iterations);
    return BG_OK;
}

/* Checks that no option writes a file that another option names. */
static bg_status check_distinct(const gpt_options *options, const bgi_gpt_config *config, bg_error *error)
{
    const cli_file others[] = {{.option = "--log", .path = options->log_path, .is_written = true},
                               {.option = "--save-weights", .path = options->weights_path, .is_written = true},
                               {.option = "--trace", .path = options->trace, .is_written = true},
                               {.option = "--config-file", .path = options->config_file},
                               {.option = "--options", .path = options->library.options_path},
                               {.option = "--load", .path = config->load}};
    const size_t other_count = sizeof others / sizeof others[0];
    glob_t inputs = {0};
    cli_file *files;
    bg_status status;

    /* The error is ignored, because the readers report missing files. */
    gpt_data_find_files(config, &inputs, NULL);
    files = calloc(other_count + inputs.gl_pathc, sizeof *files);
    status = files != NULL ? BG_OK : bgi_error_memory(error, "list of files", inputs.gl_pathc * sizeof *files);
    if (status == BG_OK) {
        memcpy(files, others, sizeof others);
        for (size_t i = 0; i < inputs.gl_pathc; i++)
            files[other_count + i] = (cli_file){.option = "--input-files", .path = inputs.gl_pathv[i]};
        status = cli_files_check(files, other_count + inputs.gl_pathc, error);
    }
    free(files);
    globfree(&inputs);
    return status;
}

static bg_status check_devices(const gpt_options *options, bg_error *error)
{
    BGI_TRY(cli_library_check(&options->library, error));
    if (options->library.device_memory.count > 1)
        return bg_error_set(error, BG_ERROR_INVALID, "--device-memory has %u values; give one value for all devices",
                            options->library.device_memory.count);
    return BG_OK;
}

/* ---- options by name ---- */

/* Refuses options about batches, because the configuration determines batches, and options about outputs, because every
 * loss and norm is logged. */
static bg_status refuse_options(const bg_run_options *named, bg_error *error)
{
    static const struct {
        const char *name, *remedy;
    } decided[] = {
        {"replicas", "data_parallel and tensor_parallel_1, _2 determine them: --set data_parallel=2"},
        {"gradient_accumulation", "training.global_batch_size determines it: --set global_batch_size=64"},
        {"output_mode", "every loss is needed; leave the option out"},
        {"output_period", "every loss is needed; leave the option out"},
        {"output_gradient_norm", "every norm is needed; leave the option out"},
    };

    for (size_t i = 0; i < sizeof decided / sizeof decided[0]; i++)
        if (bg_run_options_is_given(named, decided[i].name))
            return bg_error_set(error, BG_ERROR_INVALID, "options: %s cannot be set for this program: %s",
                                decided[i].name, decided[i].remedy);
    return BG_OK;
}

static bg_status read_named(gpt_options *options, bg_error *error)
{
    /* In PopXL's example `None` means no model, and `test` means random weights. */
    if (options->hf_model != NULL && strcmp(options->hf_model, "None") == 0)
        options->hf_model = NULL;
    BGI_TRY(cli_library_read(&options->library, error));
    if (options->library.replay != NULL) {
        options->hf_model = options->save_hf = options->weights_path = options->log_path = options->tensorboard = NULL;
        options->trace = options->resume_drop = options->resume_optimizer = options->checkpoint_best = NULL;
        options->checkpoint_keep = options->checkpoint_interval_s = 0;
        options->overwrite_hf = options->checkpoint_async = options->profile.is_on = false;
        options->stop = 0;
    }
    return refuse_options(options->library.run_options, error);
}

/* Copies options that are also fields of the configuration, which is then printed, checked and used with these
 * values. */
static bg_status take_named(const cli_library *library, bgi_gpt_config *config, bg_error *error)
{
    const bg_run_options *named = library->run_options;
    const bg_options *view = bg_run_options_view(named);
    const struct {
        const char *name, *field;
        uint64_t count; /* 0 if the value is real or too large for JSON; `real` is then used */
        double real;
    } rows[] = {
        {"device_iterations", "execution.device_iterations", view->execution.device_iterations,
         (double)view->execution.device_iterations},
        {"seed", "model.seed", view->numerics.seed, (double)view->numerics.seed},
        {"max_gradient_norm", "training.optimizer.gradient_clipping", 0, view->numerics.max_gradient_norm},
        {"loss_scaling", "execution.loss_scaling", 0, view->numerics.loss_scaling},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char assignment[96];

        if (rows[i].count > 0 && rows[i].count <= INT64_MAX)
            snprintf(assignment, sizeof assignment, "%s=%" PRIu64, rows[i].field, rows[i].count);
        else
            snprintf(assignment, sizeof assignment, "%s=%.17g", rows[i].field, rows[i].real);
        if (bg_run_options_is_given(named, rows[i].name) && bgi_gpt_config_set(config, assignment, error) != BG_OK)
            return bg_error_context(error, error->status, "options");
    }
    if (bg_run_options_is_given(named, "auto_loss_scaling"))
        config->auto_loss_scaling = view->numerics.auto_loss_scaling.enabled;
    if (bg_run_options_is_given(named, "memmap_dir"))
        BGI_TRY(set_path("options", view->files.memmap_dir, &config->memmap_dir, error));
    return BG_OK;
}

/* Translates --precision to the configuration. The model is built in these types, so plans need not convert any. */
static bg_status take_precision(const gpt_options *options, bgi_gpt_config *config, bg_error *error)
{
    static const char *const assignments[][2] = {
        [BG_PRECISION_32] = {"model.precision=float32", "model.weights=float32"},
        [BG_PRECISION_BF16_MIXED] = {"model.precision=bfloat16", "model.weights=float32"},
        [BG_PRECISION_16_MIXED] = {"model.precision=float16", "model.weights=float32"},
        [BG_PRECISION_BF16_TRUE] = {"model.precision=bfloat16", "model.weights=bfloat16"},
        [BG_PRECISION_16_TRUE] = {"model.precision=float16", "model.weights=float16"},
    };
    const bg_run_options *named = options->library.run_options;
    bg_precision precision = options->library.options.numerics.precision;

    if (!is_given(options, "precision")) {
        if (!bg_run_options_is_given(named, "precision"))
            return BG_OK;
        precision = bg_run_options_view(named)->numerics.precision;
    }
    for (int i = 0; i < 2; i++)
        BGI_TRY(bgi_gpt_config_set(config, assignments[precision][i], error));
    if (precision == BG_PRECISION_16_MIXED && config->loss_scaling == 1.0)
        config->auto_loss_scaling = true;
    return BG_OK;
}

/* Adapts the configuration to --replay: the run makes one update from the start of its data, and writes nothing. */
static void take_replay(const gpt_options *options, bgi_gpt_config *config)
{
    if (options->library.replay == NULL)
        return;
    config->load = options->library.replay;
    config->save = config->memmap_dir = NULL;
    config->checkpoint_steps = 0;
    config->device_iterations = 1;
    config->test_mode = true;
}

static bg_status read_all(const gpt_options *options, bgi_gpt_config *config, bg_error *error)
{
    bg_options plan;

    BGI_TRY(check_devices(options, error));
    BGI_TRY(bgi_gpt_config_init(config, error));
    BGI_TRY(load_preset(options, config, error));
    if (options->config_file != NULL)
        BGI_TRY(bgi_gpt_config_load(config, options->config_file, error));
    for (uint32_t i = 0; i < options->assignments.count; i++)
        BGI_TRY(set_value(config, gpt_arguments_spelling(&options->arguments, options->assignments.values[i]),
                          options->assignments.values[i], error));
    BGI_TRY(set_own(options, config, error));
    BGI_TRY(take_named(&options->library, config, error));
    BGI_TRY(take_precision(options, config, error));
    take_replay(options, config);
    BGI_TRY(bgi_gpt_config_check(config, error));
    BGI_TRY(check_files(options, config, error));
    if (!config->test_mode)
        BGI_TRY(check_distinct(options, config, error));
    plan = gpt_plan_options(options, config);
    return cli_options_check(&plan, error);
}

/* Converts execution.available_memory_proportion to --matmul-proportion, unless it has the example's default or the
 * flag is given. Strategies other than pipelined use only the first value. */
static bg_status take_proportions(gpt_options *options, const bgi_gpt_config *config, bg_error *error)
{
    bg_memory_options *memory = &options->library.options.memory;
    const size_t count = options->library.options.execution.strategy == BG_STRATEGY_PIPELINED
                             ? json_array_size(config->available_memory_proportion)
                             : 1;
    double *taken;

    if (memory->matmul_proportion_count > 0 || !bgi_gpt_config_has_proportions(config))
        return BG_OK;
    taken = bgi_arena_allocate(&options->library.table->arena, count, sizeof *taken);
    if (taken == NULL)
        return bgi_error_memory(error, "options", count * sizeof *taken);
    for (size_t i = 0; i < count; i++)
        taken[i] = json_number_value(json_array_get(config->available_memory_proportion, i));
    memory->matmul_proportions = taken;
    memory->matmul_proportion_count = (uint32_t)count;
    return BG_OK;
}

static bg_status resolve(const gpt_options *options, bgi_gpt_config *out, bg_error *error)
{
    bgi_gpt_config config = {.kept = NULL};
    const bg_status status = read_all(options, &config, error);

    if (status != BG_OK)
        bgi_gpt_config_clear(&config);
    else
        *out = config;
    return status;
}

/* ---- the plan ---- */

static void print_message(void *user, bg_log_level level, const char *text)
{
    const gpt_options *options = user;

    if (level <= BG_LOG_WARNING)
        cli_warn(options->command, text);
    else if (options->library.options.reporting.log_cycles)
        cli_say(options->command, "info: %s", text);
}

/* Sets where tensors are stored and which are sharded. With the phased strategy, all are sharded by default, as in
 * PopXL's example: activations over the tensor-parallel replicas that have the same values, other tensors over the
 * data-parallel replicas. */
static void set_locations(const gpt_options *options, const bgi_gpt_config *config, bg_options *plan)
{
    const uint32_t weights = 1u << BG_LOCATION_WEIGHTS, activations = 1u << BG_LOCATION_ACTIVATIONS;
    const uint32_t all = weights | 1u << BG_LOCATION_STATE | 1u << BG_LOCATION_ACCUMULATORS;
    const cli_library *library = &options->library;
    uint32_t remote = 0, sharded = is_phased(options) && config->data_parallel > 1 ? all : 0;

    if (is_phased(options) && config->tensor_parallel_1 * config->tensor_parallel_2 > 1)
        sharded |= activations;
    if (library->offload != NULL) {
        cli_classes_find("offload", library->offload, strlen(library->offload), &remote, NULL);
        sharded &= remote | ~(weights | activations); /* weights and activations are sharded only off the devices */
    }
    if (library->shard != NULL)
        cli_classes_find("shard", library->shard, strlen(library->shard), &sharded, NULL);
    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
        bg_tensor_location *location = &plan->memory.locations[k];

        if (library->offload != NULL)
            location->place = (remote >> k & 1) != 0 ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        location->sharded = (sharded >> k & 1) != 0;
        location->minimum_elements_sharded = 1;
    }
    if (!is_given(options, "phase-liveness") && is_phased(options) && !plan->execution.phases_parallel)
        plan->memory.phase_liveness =
            BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE; /* a device then stores the values of only one phase */
}

/* Whether the user, and not only a preset, sets training.stochastic_rounding. Any file of the user counts. */
static bool asks_for_rounding(const gpt_options *options)
{
    bool asks =
        options->config_file != NULL || bg_run_options_is_given(options->library.run_options, "stochastic_rounding");

    for (uint32_t i = 0; i < options->assignments.count; i++)
        asks = asks || strstr(options->assignments.values[i], "stochastic_rounding") != NULL;
    return asks;
}

bg_options gpt_plan_options(const gpt_options *options, const bgi_gpt_config *config)
{
    bg_options plan = cli_library_options(&options->library);

    set_locations(options, config, &plan);
    if (options->library.recompute == NULL && is_phased(options))
        plan.memory.recompute = BG_RECOMPUTE_STAGE;
    plan.files.memmap_dir = config->memmap_dir;
    plan.files.memmap_mode = config->test_mode      ? BG_MEMMAP_READ_ONLY
                             : config->load != NULL ? BG_MEMMAP_RENEW
                                                    : BG_MEMMAP_CONTINUE;
    plan.numerics.seed = (uint64_t)config->seed;
    plan.replicas.count = (uint32_t)bgi_gpt_config_devices(config);
    plan.execution.gradient_accumulation = (uint32_t)bgi_gpt_config_accumulation(config);
    plan.execution.device_iterations = (uint32_t)config->device_iterations;
    plan.numerics.max_gradient_norm = config->gradient_clipping;
    plan.reporting.output_gradient_norm = true;
    plan.reporting.output_mode = BG_OUTPUT_ALL;
    plan.numerics.loss_scaling = config->loss_scaling;
    /* The library warns when no tensor has 16 bits, which only a user who asked for the rounding needs to know. */
    plan.numerics.stochastic_rounding =
        config->stochastic_rounding &&
        (asks_for_rounding(options) ||
         cli_library_keeps_16_bits(&options->library, bg_dtype_name(bgi_gpt_config_weights(config))));
    plan.numerics.auto_loss_scaling.enabled = config->auto_loss_scaling;
    plan.numerics.auto_loss_scaling.output = config->auto_loss_scaling;
    /* The guard is also enabled if the run writes checkpoints or remote buffers in files. */
    plan.numerics.guard_loss = plan.numerics.guard_loss || config->save != NULL || config->memmap_dir != NULL;
    cli_library_override(&options->library, &plan);
    plan.numerics.precision = BG_PRECISION_32; /* the model is built in the types that take_precision has set */
    plan.replicas.input_group_size = (uint32_t)(config->tensor_parallel_1 * config->tensor_parallel_2);
    if (config->test_mode)
        plan.files.log_dir = plan.files.cache_dir = NULL;
    plan.reporting.trace = plan.reporting.trace || options->trace != NULL || options->profile.is_on;
    plan.reporting.log = print_message;
    plan.reporting.log_user = (void *)(uintptr_t)options;
    plan.execution.stop = cli_is_asked_to_stop;
    return plan;
}

/* ---- settings ---- */

void gpt_set_defaults(void *settings, const char *command)
{
    gpt_settings *own = settings;

    own->options = make_defaults();
    own->options.command = command;
}

bg_status gpt_rewrite(void *settings, const cli_option *table, int *argc, char ***argv, bg_error *error)
{
    gpt_arguments *arguments = &((gpt_settings *)settings)->options.arguments;

    BGI_TRY(gpt_arguments_read(table, *argc, *argv, arguments, error));
    *argc = arguments->count;
    *argv = arguments->values;
    return BG_OK;
}

int gpt_resolve(void *settings, bg_error *error)
{
    gpt_settings *own = settings;

    own->options.log_path = cli_ranks_log(own->options.log_path);
    return read_named(&own->options, error) == BG_OK && resolve(&own->options, &own->config, error) == BG_OK &&
                   take_proportions(&own->options, &own->config, error) == BG_OK
               ? CLI_DONE
               : CLI_USAGE;
}

void gpt_clear_settings(void *settings)
{
    gpt_settings *own = settings;

    bgi_gpt_config_clear(&own->config);
    cli_library_clear(&own->options.library);
    gpt_arguments_clear(&own->options.arguments);
}
