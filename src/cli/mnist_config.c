/*
 * mnist_config.c: defines the options of `brigade mnist`, and translates them to options of the library. Names and
 * defaults of the first groups are those of the tutorial's program.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/file.h"

#define AT(field) .offset = offsetof(mnist_config, field)

/* The most used options are first; a library option that is not named here is listed with its group. */
const cli_option mnist_flags[] = {
    {.help = "Training"},
    {CLI_COUNT, "epochs", AT(recipe.epochs), .value = "N", .minimum = 0, .maximum = INT32_MAX,
     .help = "number of passes over the training images; 0: only test"},
    {CLI_COUNT, "batch-size", AT(recipe.batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "images in a micro-batch"},
    {CLI_LIBRARY, .name = "gradient-accumulation"},
    {CLI_LIBRARY, .name = "device-iterations"},
    {CLI_TEXT, "optimizer", AT(recipe.optimizer), .value = "NAME",
     .help = "a name, and settings that differ from their defaults: sgd:momentum=0.9,nesterov; "
             "`brigade options optimizers` lists them"},
    {CLI_REAL, "learning-rate", AT(recipe.learning_rate), .value = "X", .help = "learning rate of the optimizer"},
    {CLI_TEXT, "rate-schedule", AT(recipe.rate_schedule), .value = "RULE", .default_text = "constant",
     .help = "schedule of the learning rate over --steps updates: constant, linear, cosine, polynomial, one_cycle, "
             "step or inverse_root; settings that are not defaults follow a colon: cosine:warmup=100,final=0.1"},
    {CLI_LIBRARY, .name = "seed"},
    {CLI_COUNT, "steps", AT(recipe.steps), .value = "N", .minimum = 1, .maximum = UINT64_MAX,
     .default_text = "until the epochs are done", .help = "stop after N weight updates"},
    {CLI_TEXT, "limit-train-batches", AT(recipe.limits[BG_TRAINER_FIT]), .value = "N|SHARE", .default_text = "all",
     .help = "batches of an epoch, each for one call of the session; with a decimal point a share of them: 0.25"},
    {CLI_TEXT, "limit-test-batches", AT(recipe.limits[BG_TRAINER_TEST]), .value = "N|SHARE", .default_text = "all",
     .help = "batches of the test, in the same form; 0 leaves the test out"},
    {CLI_COUNT, "test-batch-size", AT(test_batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "images in a micro-batch of the test"},
    {CLI_FLAG, "no-shuffle", AT(recipe.no_shuffle), .help = "keep the images in the files' order"},
    {CLI_CHOICE, "last-batch", AT(recipe.last_batch), .choices = "drop|smaller|pad",
     .help = "what happens to images of an epoch that do not fill a call"},
    {CLI_CHOICE, "dtype", AT(dtype), .choices = "float32|bfloat16|float16", .help = "type of the activations"},
    {CLI_CHOICE, "weight-type", AT(weight_type), .choices = "float32|bfloat16|float16",
     .help = "type in which weights are stored"},

    {.help = "Devices"},
    {CLI_LIBRARY, .name = "strategy"},
    {CLI_LIBRARY, .name = "schedule", .default_text = "interleaved; grouped if stages share devices"},
    {CLI_LIBRARY, .name = "stages", .default_text = "B1|B2|B3|B4"},
    {CLI_LIBRARY, .name = "replicas"},
    {CLI_LIBRARY, .name = "devices", .default_text = "the number of stages"},
    {CLI_LIBRARY, .name = "device-memory"},
    {CLI_LIBRARY, .name = "cores", .default_text = "all"},
    {CLI_LIBRARY, .name = "recompute"},
    {CLI_LIBRARY, .name = "offload"},
    {CLI_LIBRARY, .name = "shard"},

    {.help = "Files"},
    {CLI_TEXT, "data-dir", AT(data_dir), .value = "DIR", .default_text = "$BRIGADE_DATA, data",
     .help = "folder of the MNIST files"},
    {CLI_FLAG, "download", AT(download), .help = "download MNIST (12 MB) if it is missing"},
    {CLI_TEXT, "mirror", AT(mirror), .value = "ADDRESS", .default_text = "public ones",
     .help = "with --download: address of the server (http or https)"},
    {CLI_TEXT, "save", AT(recipe.save_path), .value = "FILE", .default_text = "brigade-mnist.safetensors",
     .help = "file for the trained weights: safetensors, or the whole network as x.onnx"},
    {CLI_TEXT, "init", AT(recipe.init_path), .value = "FILE", .default_text = "random weights",
     .help = "begin with the weights of a .safetensors or .npz file, or of a folder of safetensors files"},
    {CLI_TEXT, "log", AT(recipe.log_path), .value = "FILE", .default_text = "none",
     .help = "file or pipe for JSON lines: the configuration, then each weight update. With several ranks the first "
             "one writes it; with %r in the name each rank writes its own"},
#include "cli/recipe.def"

    {.help = "Configuration"},
    {CLI_TEXT, "config", AT(ipu_name), .value = "NAME", .default_text = "none",
     .help = "an IPU configuration (a preset, a file, or a folder with ipu_config.json) that decides other options; "
             "layers are the blocks B1 to B4"},
    {CLI_TEXT, "config-update", AT(ipu_update), .value = "LIST", .default_text = "none",
     .help = "changes to the configuration: key=value,key=value; lists as [1 2 3]"},

#include "cli/library.def"
    {CLI_GROUP, .group = BGI_OPTIONS_EXECUTION, .help = "Execution"},
    {CLI_TEXT, "costs", AT(costs_path), .value = "FILE", .default_text = "measured each time",
     .help = "file with costs of stages, for --schedule auto; measured and written if it is missing"},
    {CLI_GROUP, .group = BGI_OPTIONS_MEMORY, .help = "Memory"},
    {CLI_FLAG, "checkpoint-blocks", AT(recipe.checkpoint_blocks),
     .help = "keep the result of each block (--recompute)"},
    {CLI_GROUP, .group = BGI_OPTIONS_REPLICAS, .help = "Replicas"},
    {CLI_GROUP, .group = BGI_OPTIONS_NUMERICS, .help = "Numerics"},
    {CLI_GROUP, .group = BGI_OPTIONS_REPORTING, .help = "Reporting"},
    CLI_OPTIONS_END,
};

mnist_config mnist_config_defaults(void)
{
    mnist_config config = {
        .recipe = cli_recipe_defaults("mnist"),
        .test_batch_size = 8,
        .dtype = "float32",
        .weight_type = "float32",
    };
    cli_recipe *recipe = &config.recipe;

    recipe->sample_word = "image";
    recipe->sample_words = "images";
    recipe->data_hint = "give the same --data-dir";
    recipe->batch_size = 40;
    recipe->epochs = 3;
    recipe->library.options.execution.device_iterations = 10;
    recipe->library.options.execution.gradient_accumulation = 10;
    recipe->library.options.reporting.output_mode = BG_OUTPUT_FINAL;
    recipe->library.loss_scaling = "1";
    return config;
}

bool mnist_config_lists_state(const char *list)
{
    uint32_t classes = 0;

    return cli_classes_find("", list, strlen(list), &classes, NULL) == BG_OK && (classes >> BG_LOCATION_STATE & 1) != 0;
}

/* Checks that --init, --save and --log do not name the file of --costs. */
static bg_status check_costs_path(const mnist_config *config, bg_error *error)
{
    const struct {
        const char *name, *path;
    } others[] = {
        {"--init", config->recipe.init_path}, {"--save", config->recipe.save_path}, {"--log", config->recipe.log_path}};

    for (size_t i = 0; config->costs_path != NULL && i < sizeof others / sizeof others[0]; i++)
        if (others[i].path != NULL && bgi_file_is_same(config->costs_path, others[i].path))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--costs and %s name the same file, %s; give them different files", others[i].name,
                                config->costs_path);
    return BG_OK;
}

/* ---- options by name ---- */

/* Sets the loss scaling and stochastic rounding that follow from other options. */
static void take_named(mnist_config *config)
{
    cli_library *library = &config->recipe.library;
    const bool is_auto = library->options.numerics.auto_loss_scaling.enabled;

    if (library->options.numerics.precision == BG_PRECISION_16_MIXED && strcmp(library->loss_scaling, "1") == 0)
        library->loss_scaling = "auto";
    if (config->rounds_if_16_bits && !bg_run_options_is_given(library->run_options, "stochastic_rounding") &&
        cli_library_keeps_16_bits(library, config->weight_type))
        library->options.numerics.stochastic_rounding = true;
    if (bg_run_options_is_given(library->run_options, "auto_loss_scaling") &&
        is_auto != cli_loss_scaling_is_auto(library->loss_scaling))
        library->loss_scaling = is_auto ? "auto" : "1";
}

bg_status mnist_config_read_options(mnist_config *config, bg_error *error)
{
    const bg_options *options = &config->recipe.library.options;

    BGI_TRY(cli_library_read(&config->recipe.library, error));
    take_named(config);
    cli_recipe_replay(&config->recipe);
    if (options->execution.device_iterations == 0 || options->execution.gradient_accumulation == 0 ||
        options->replicas.count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: device_iterations, gradient_accumulation and replicas must be at least 1");
    return BG_OK;
}

bg_status mnist_config_check(const mnist_config *config, bg_error *error)
{
    const char *schedule = config->recipe.library.options.execution.schedule;
    const bg_precision precision = config->recipe.library.options.numerics.precision;

    BGI_TRY(cli_recipe_check(&config->recipe, error));
    if (config->recipe.checkpoint_best != NULL && strcmp(config->recipe.checkpoint_best, "loss") != 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--checkpoint-keep-best %s: this training measures only `loss`",
                            config->recipe.checkpoint_best);
    if (precision != BG_PRECISION_32 &&
        (strcmp(config->dtype, "float32") != 0 || strcmp(config->weight_type, "float32") != 0))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--precision is given with --dtype %s and --weight-type %s, but it decides both types; "
                            "leave --dtype and --weight-type out",
                            config->dtype, config->weight_type);
    if (config->mirror != NULL && !config->download)
        return bg_error_set(error, BG_ERROR_INVALID, "--mirror applies only with --download; add --download");
    if (config->costs_path != NULL && (schedule == NULL || strcmp(schedule, "auto") != 0))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--costs %s is given without --schedule auto, but only that schedule reads it",
                            config->costs_path);
    return check_costs_path(config, error);
}

static uint64_t count_iterations(const mnist_config *config)
{
    return cli_multiply(config->recipe.library.options.execution.device_iterations,
                        config->recipe.library.options.execution.gradient_accumulation);
}

/* Whether --config determines how the test runs. Its options then have at least one replica. */
static bool has_own_test(const mnist_config *config)
{
    return config->ipu.test.options.replicas.count > 0;
}

uint64_t mnist_test_replicas(const mnist_config *config)
{
    return has_own_test(config) ? config->ipu.test.options.replicas.count
                                : config->recipe.library.options.replicas.count;
}

uint64_t mnist_wanted_test_iterations(const mnist_config *config)
{
    return has_own_test(config) ? config->ipu.test.options.execution.device_iterations : count_iterations(config);
}

mnist_last_batch mnist_config_last_batch(const mnist_config *config)
{
    return strcmp(config->recipe.last_batch, "pad") == 0       ? MNIST_LAST_PAD
           : strcmp(config->recipe.last_batch, "smaller") == 0 ? MNIST_LAST_SMALLER
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
    uint64_t training = cli_recipe_samples_per_call(&config->recipe);

    if (config->recipe.epochs > 0 && training > train_count && mnist_config_last_batch(config) == MNIST_LAST_DROP)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "a training call takes --batch-size %" PRIu64
                            " x --device-iterations %u x --gradient-accumulation "
                            "%u x --replicas %u = %" PRIu64 " images, but there are %" PRIu64
                            "; make one of the four smaller, or use --last-batch smaller or pad",
                            config->recipe.batch_size, config->recipe.library.options.execution.device_iterations,
                            config->recipe.library.options.execution.gradient_accumulation,
                            config->recipe.library.options.replicas.count, training, train_count);
    return BG_OK;
}

/* Places the test's layers as --config requests. */
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

bg_options mnist_plan_options(const mnist_config *config, bool training, cli_plan_room *room)
{
    bg_options options = cli_recipe_options(&config->recipe, room);

    if (!training && has_own_test(config))
        place_test(config, &options);
    return options;
}
