/*
 * gpt_options.c: the options of `brigade gpt` and what they and the configuration mean for the library.
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
#include "core/error.h"

#define AT(field) .offset = offsetof(gpt_options, field)

const cli_option gpt_pretrain_options[] = {
#include "cli/gpt_configuration.def"
    {.help = "Training"},
    {CLI_TEXT_LIST, "input-files", AT(input_files), .value = "FILE...",
     .help =
         "tokens (.u16, .u32, .tfrecord) or text (.txt, .md); patterns are expanded; without any, Brigade's own text"},
    {CLI_FLAG, "no-shuffle", AT(no_shuffle), .help = "take the samples in the files' order"},
    {CLI_COUNT, "steps", AT(stop), .value = "N", .minimum = 1, .maximum = UINT64_MAX, .default_text = "training.steps",
     .help = "stop when N weight updates are done; the learning rate goes on as if to training.steps"},
#include "cli/gpt_devices.def"
#include "cli/library.def"
    {.help = "Files"},
    {CLI_TEXT, "hf-model", AT(hf_model), .value = "DIR", .default_text = "random weights",
     .help = "begin with the weights of a Hugging Face GPT-2, which must be what the configuration says; test: random"},
    {CLI_TEXT, "save-hf", AT(save_hf), .value = "DIR", .default_text = "none",
     .help = "the trained model as a Hugging Face folder: config.json, model.safetensors"},
    {CLI_TEXT, "load", AT(load), .value = "DIR", .default_text = "checkpoint.load",
     .help = "go on from the newest checkpoint there, or from this FILE, with the same bits"},
    {CLI_TEXT, "save", AT(save), .value = "DIR", .default_text = "checkpoint.save",
     .help = "where checkpoints go: at the end, and every --checkpoint-steps"},
    {CLI_COUNT, "checkpoint-steps", AT(checkpoint_steps), .value = "N", .maximum = 1000000000000,
     .default_text = "checkpoint.steps", .help = "weight updates between checkpoints; 0: only at the end"},
    {CLI_TEXT, "memmap-dir", AT(memmap_dir), .value = "DIR", .default_text = "checkpoint.memmap_dir",
     .help = "remote buffers in files there instead of memory; a later run of the same plan goes on from them"},
    {CLI_TEXT, "save-weights", AT(weights_path), .value = "FILE", .default_text = "none",
     .help = "the trained weights alone, as safetensors under Hugging Face's names"},
    {CLI_TEXT, "log", AT(log_path), .value = "FILE", .default_text = "none",
     .help = "JSON lines, one for each weight update; with --load, behind those that are there"},
    {CLI_TEXT, "tensorboard", AT(tensorboard), .value = "DIR", .default_text = "none",
     .help = "event files for TensorBoard: loss, grad_norm, lr, throughput of each weight update"},
    {.help = "Output"},
    {CLI_FLAG, "quiet", AT(quiet), .help = "no configuration and no steps, only results"},
    CLI_OPTIONS_END,
};

const cli_option gpt_bench_options[] = {
#include "cli/gpt_configuration.def"
#include "cli/gpt_devices.def"
#include "cli/library.def"
    CLI_OPTIONS_END,
};

static gpt_options make_defaults(void)
{
    return (gpt_options){
        .seed = UINT64_MAX, .checkpoint_steps = UINT64_MAX, .strategy = "phased", .io_threads = UINT64_MAX};
}

static bool is_phased(const gpt_options *options)
{
    return strcmp(options->strategy, "phased") == 0;
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
                              "--config: there is no preset `%s`; there are tiny, test, gpt3_2.7B_pod64, "
                              "gpt3_175B_pod256 and what you put into one of %s",
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

/* The configuration is text, so that what it names can be printed. */
static bg_status set_path(const char *option, const char *path, const char **out, bg_error *error)
{
    json_t *text = path != NULL ? json_string(path) : NULL;

    if (path != NULL && text == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--%s: `%s` is no UTF-8 text", option, path);
    json_decref(text);
    if (path != NULL)
        *out = path;
    return BG_OK;
}

/* Options that are names for fields. The pointers live as long as the command line. */
static bg_status set_own(const gpt_options *options, bgi_gpt_config *config, bg_error *error)
{
    if (options->seed != UINT64_MAX)
        config->seed = (int64_t)options->seed;
    if (options->checkpoint_steps != UINT64_MAX)
        config->checkpoint_steps = (int64_t)options->checkpoint_steps;
    BGI_TRY(set_path("load", options->load, &config->load, error));
    BGI_TRY(set_path("save", options->save, &config->save, error));
    BGI_TRY(set_path("memmap-dir", options->memmap_dir, &config->memmap_dir, error));
    if (options->input_files.count > 0)
        BGI_TRY(set_value(config, "input-files", "data.input_files=[]", error));
    for (uint32_t i = 0; i < options->input_files.count; i++)
        if (json_array_append_new((json_t *)(uintptr_t)config->input_files,
                                  json_string(options->input_files.values[i])) != 0)
            return bg_error_set(error, BG_ERROR_INVALID, "--input-files: `%s` is no UTF-8 text",
                                options->input_files.values[i]);
    return BG_OK;
}

static bg_status check_files(const gpt_options *options, const bgi_gpt_config *config, bg_error *error)
{
    const size_t length = config->save != NULL ? strlen(config->save) : 0;

    if (options->hf_model != NULL && config->load != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--hf-model %s with --load %s; weights come from one of them: use the model to begin, the "
                            "checkpoint to go on",
                            options->hf_model, config->load);
    if (length > 12 && strcmp(config->save + length - 12, ".safetensors") == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--save %s: checkpoints go into a folder; --save-weights FILE writes the weights alone",
                            config->save);
    if (config->checkpoint_steps > 0 && config->save == NULL && !config->test_mode)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "a checkpoint every %lld updates without --save DIR, where they would go",
                            (long long)config->checkpoint_steps);
    if (options->stop > (uint64_t)config->steps)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--steps %llu is more than training.steps %lld, where the learning rate's schedule ends; "
                            "use --set training.steps=%llu",
                            (unsigned long long)options->stop, (long long)config->steps,
                            (unsigned long long)options->stop);
    if (options->stop > 0 && options->stop % (uint64_t)config->device_iterations != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--steps %llu is not divisible by execution.device_iterations %lld: a call makes so many "
                            "updates",
                            (unsigned long long)options->stop, (long long)config->device_iterations);
    return BG_OK;
}

/* The log is written while the data are read, weights at the end. */
static bg_status check_distinct(const gpt_options *options, const bgi_gpt_config *config, bg_error *error)
{
    const cli_file others[] = {{.option = "--log", .path = options->log_path, .is_written = true},
                               {.option = "--save-weights", .path = options->weights_path, .is_written = true},
                               {.option = "--config-file", .path = options->config_file},
                               {.option = "--options", .path = options->common.options_path},
                               {.option = "--load", .path = config->load}};
    const size_t other_count = sizeof others / sizeof others[0];
    glob_t inputs = {0};
    cli_file *files;
    bg_status status;

    /* What is not found is said by those who read it. */
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
    bg_options scratch = bg_options_defaults();
    uint32_t classes;

    BGI_TRY(cli_schedule_check(options->strategy, options->schedule, error));
    if (options->phases != NULL && !is_phased(options))
        return bg_error_set(error, BG_ERROR_INVALID, "--phases %s with --strategy %s; only the phased strategy has any",
                            options->phases, options->strategy);
    if (options->stages != NULL && strcmp(options->strategy, "single") == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--stages %s with --strategy single, which has one stage; use another", options->stages);
    if (options->device_memory.count > 1)
        return bg_error_set(error, BG_ERROR_INVALID, "--device-memory has %u values; give one, for all devices",
                            options->device_memory.count);
    if (!cli_recompute_find(options->recompute, &scratch))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--recompute %s; it can be none, stage, checkpoints, auto, or a number from 0 to 1",
                            options->recompute);
    if (scratch.recompute == BG_RECOMPUTE_AUTO && options->device_memory.count == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--recompute auto without --device-memory, which it is to meet");
    if (options->offload != NULL)
        BGI_TRY(cli_classes_find("offload", options->offload, strlen(options->offload), &classes, error));
    if (options->shard != NULL)
        BGI_TRY(cli_classes_find("shard", options->shard, strlen(options->shard), &classes, error));
    return BG_OK;
}

/* ---- options by name ---- */

/* What the configuration says of batches is not for them; every loss and norm is logged. */
static bg_status refuse_options(const bg_run_options *named, bg_error *error)
{
    static const struct {
        const char *name, *remedy;
    } decided[] = {
        {"replicas", "data_parallel and tensor_parallel_1, _2 make them: --set data_parallel=2"},
        {"gradient_accumulation", "training.global_batch_size makes it: --set global_batch_size=64"},
        {"output_mode", "every loss is needed; leave it out"},
        {"output_period", "every loss is needed; leave it out"},
        {"output_gradient_norm", "every norm is needed; leave it out"},
    };

    for (size_t i = 0; i < sizeof decided / sizeof decided[0]; i++)
        if (bg_run_options_is_given(named, decided[i].name))
            return bg_error_set(error, BG_ERROR_INVALID, "options: %s is not for this program: %s", decided[i].name,
                                decided[i].remedy);
    return BG_OK;
}

static bg_status read_named(gpt_options *options, bg_error *error)
{
    BGI_TRY(cli_library_read(&options->common, error));
    cli_library_strategy(&options->common, &options->strategy, &options->schedule, &options->stages);
    return refuse_options(options->common.run_options, error);
}

/* What the configuration has a word for: it is printed, checked and computed with as they say. */
static bg_status take_named(const cli_library *library, bgi_gpt_config *config, bg_error *error)
{
    const bg_run_options *named = library->run_options;
    const bg_options *view = bg_run_options_view(named);
    const struct {
        const char *name, *field;
        uint64_t count; /* 0: the value is real; and so is what no JSON holds, for the refusal to name it */
        double real;
    } rows[] = {
        {"device_iterations", "execution.device_iterations", view->device_iterations, (double)view->device_iterations},
        {"seed", "model.seed", view->seed, (double)view->seed},
        {"max_gradient_norm", "training.optimizer.gradient_clipping", 0, view->max_gradient_norm},
        {"loss_scaling", "execution.loss_scaling", 0, view->loss_scaling},
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
        config->auto_loss_scaling = view->auto_loss_scaling.enabled;
    if (bg_run_options_is_given(named, "memmap_dir"))
        BGI_TRY(set_path("options", view->memmap_dir, &config->memmap_dir, error));
    return BG_OK;
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
        BGI_TRY(set_value(config, "set", options->assignments.values[i], error));
    BGI_TRY(set_own(options, config, error));
    BGI_TRY(take_named(&options->common, config, error));
    BGI_TRY(bgi_gpt_config_check(config, error));
    BGI_TRY(check_files(options, config, error));
    if (!config->test_mode)
        BGI_TRY(check_distinct(options, config, error));
    plan = gpt_plan_options(options, config);
    return cli_options_check(&plan, error);
}

/* execution.available_memory_proportion is --matmul-proportion, unless it is the example's default or that is given. Of
 * several the first is a device's that is alone. */
static void take_proportions(gpt_options *options, const bgi_gpt_config *config)
{
    cli_reals *taken = &options->common.matmul_proportions;
    const size_t count = options->strategy != NULL && strcmp(options->strategy, "pipelined") == 0
                             ? json_array_size(config->available_memory_proportion)
                             : 1;

    if (taken->count > 0 || !bgi_gpt_config_has_proportions(config))
        return;
    for (size_t i = 0; i < count; i++)
        taken->values[taken->count++] = json_number_value(json_array_get(config->available_memory_proportion, i));
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
        cli_warn("gpt", text);
    else if (options->common.log_cycles)
        cli_say("gpt", "info: %s", text);
}

/* As the example: off the devices, and in pieces, whatever their size: activations over the tensor-parallel replicas
 * that have the same, the rest over the data-parallel ones. */
static void set_locations(const gpt_options *options, const bgi_gpt_config *config, bg_options *plan)
{
    const uint32_t weights = 1u << BG_LOCATION_WEIGHTS, activations = 1u << BG_LOCATION_ACTIVATIONS;
    const uint32_t all = weights | 1u << BG_LOCATION_STATE | 1u << BG_LOCATION_ACCUMULATORS;
    uint32_t remote = 0, sharded = is_phased(options) && config->data_parallel > 1 ? all : 0;

    if (is_phased(options) && config->tensor_parallel_1 * config->tensor_parallel_2 > 1)
        sharded |= activations;
    if (options->offload != NULL) {
        cli_classes_find("offload", options->offload, strlen(options->offload), &remote, NULL);
        sharded &= remote | ~(weights | activations); /* both need to be off the devices */
    }
    if (options->shard != NULL)
        cli_classes_find("shard", options->shard, strlen(options->shard), &sharded, NULL);
    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
        bg_tensor_location *location = &plan->locations[k];

        if (options->offload != NULL)
            location->place = (remote >> k & 1) != 0 ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        location->sharded = (sharded >> k & 1) != 0;
        location->minimum_elements_sharded = 1;
    }
    if (options->phase_liveness != NULL)
        bg_phase_liveness_find(options->phase_liveness, &plan->phase_liveness);
    else if (is_phased(options) && !plan->phases_parallel)
        plan->phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE; /* what a device holds is of one phase */
}

bg_options gpt_plan_options(const gpt_options *options, const bgi_gpt_config *config)
{
    bg_options plan = bg_options_defaults();

    bg_strategy_find(options->strategy, &plan.strategy);
    plan.schedule = options->schedule;
    plan.stages = options->stages;
    plan.phases_parallel = options->phases != NULL && strcmp(options->phases, "parallel") == 0;
    plan.device_count = (uint32_t)options->devices;
    plan.cores = (uint32_t)options->cores;
    if (options->device_memory.count > 0)
        plan.device_memory_bytes = (size_t)options->device_memory.values[0];
    if (options->io_threads != UINT64_MAX)
        plan.io_threads = (int32_t)options->io_threads;
    set_locations(options, config, &plan);
    cli_recompute_find(options->recompute != NULL ? options->recompute : is_phased(options) ? "stage" : NULL, &plan);
    bg_recompute_order_find(options->recompute_order, &plan.recompute_order);
    cli_library_set(&options->common, &plan);
    plan.memmap_dir = config->memmap_dir;
    plan.memmap_mode = config->test_mode      ? BG_MEMMAP_READ_ONLY
                       : config->load != NULL ? BG_MEMMAP_RENEW
                                              : BG_MEMMAP_CONTINUE;
    plan.seed = (uint64_t)config->seed;
    plan.replicas = (uint32_t)bgi_gpt_config_devices(config);
    plan.gradient_accumulation = (uint32_t)bgi_gpt_config_accumulation(config);
    plan.device_iterations = (uint32_t)config->device_iterations;
    plan.max_gradient_norm = config->gradient_clipping;
    plan.output_gradient_norm = true;
    plan.output_mode = BG_OUTPUT_ALL;
    plan.loss_scaling = config->loss_scaling;
    /* On unless said otherwise, for what there is to be rounded. */
    plan.stochastic_rounding =
        config->stochastic_rounding && cli_library_keeps_16_bits(&options->common, config->weights);
    plan.auto_loss_scaling.enabled = config->auto_loss_scaling;
    plan.auto_loss_scaling.output = config->auto_loss_scaling;
    cli_library_override(&options->common, &plan);
    if (config->test_mode)
        plan.log_dir = plan.cache_dir = NULL;
    plan.log = print_message;
    plan.log_user = (void *)(uintptr_t)options;
    return plan;
}

/* The example has an option for each field, which is a field here: --hidden_size, --training.steps. */
static void explain_field(int argc, char **argv, bg_error *error)
{
    char key[64], wrong[96];

    for (int i = 1; i < argc; i++) {
        const size_t length = strcspn(argv[i], "=");

        if (strncmp(argv[i], "--", 2) != 0 || length >= sizeof key)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)length - 2, argv[i] + 2);
        snprintf(wrong, sizeof wrong, "unknown option --%s;", key);
        for (char *at = key; *at != '\0'; at++)
            *at = *at == '-' ? '_' : *at;
        if (strncmp(error->message, wrong, strlen(wrong)) != 0 || !bgi_gpt_config_has(key))
            continue;
        bg_error_clear(error);
        bg_error_set(error, BG_ERROR_INVALID, "%s it is a field of the configuration: --set %s=VALUE", wrong, key);
        return;
    }
}

int gpt_command_run(int argc, char **argv, const cli_option *table, const char *summary,
                    int (*run)(const gpt_options *options, const bgi_gpt_config *config))
{
    gpt_options options = make_defaults();
    const gpt_options defaults = options;
    bgi_gpt_config config = {.kept = NULL};
    bg_error error = {0};
    uint32_t word_count;
    bool wants_help;
    int code = CLI_USAGE;

    if (cli_options_read(table, argc, argv, &options, NULL, 0, &word_count, &wants_help, NULL, &error) != BG_OK) {
        explain_field(argc, argv, &error);
        return cli_fail("gpt", CLI_USAGE, &error);
    }
    if (wants_help) {
        printf("Usage: brigade gpt %s [OPTION]...\n%s (docs/gpt.md).\n", argv[0], summary);
        cli_options_help(table, &defaults, stdout);
        return CLI_DONE;
    }
    if (read_named(&options, &error) != BG_OK || resolve(&options, &config, &error) != BG_OK) {
        cli_fail("gpt", code, &error);
    } else {
        take_proportions(&options, &config);
        if (!options.common.compile_only) /* of which nothing is to be saved */
            cli_catch_signals();
        code = run(&options, &config);
        bgi_gpt_config_clear(&config);
    }
    cli_library_clear(&options.common);
    return code;
}
