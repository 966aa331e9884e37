/*
 * mnist_config.c: the options of `brigade mnist` and what they mean for the library. Names and defaults of the first
 * groups are the tutorial program's.
 */
#include "cli/mnist.h"

#include <float.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"

#define AT(field) .offset = offsetof(mnist_config, field)

const cli_option mnist_options[] = {
    {.help = "Training"},
    {CLI_COUNT, "batch-size", AT(batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "images in a micro-batch"},
    {CLI_COUNT, "device-iterations", AT(device_iterations), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "weight updates in a call"},
    {CLI_COUNT, "gradient-accumulation", AT(gradient_accumulation), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "micro-batches in a weight update"},
    {CLI_COUNT, "test-batch-size", AT(test_batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .help = "images in a micro-batch of the test"},
    {CLI_COUNT, "epochs", AT(epochs), .value = "N", .minimum = 0, .maximum = INT32_MAX,
     .help = "times through the training images; 0 only tests"},
    {CLI_REAL, "learning-rate", AT(learning_rate), .value = "X", .help = "of AdamW"},
    {CLI_COUNT, "steps", AT(steps), .value = "N", .minimum = 1, .maximum = UINT64_MAX,
     .default_text = "until the epochs are done", .help = "stop after N weight updates"},
    {CLI_COUNT, "seed", AT(seed), .value = "N", .maximum = UINT64_MAX, .help = "of weights and order of images"},
    {CLI_FLAG, "no-shuffle", AT(no_shuffle), .help = "take the images in the files' order"},
    {CLI_CHOICE, "last-batch", AT(last_batch), .choices = "drop|smaller|pad",
     .help = "the images of an epoch that make no whole call"},
    {CLI_CHOICE, "dtype", AT(dtype), .choices = "float32|bfloat16", .help = "of activations"},

    {.help = "Devices"},
    {CLI_CHOICE, "strategy", AT(strategy), .choices = "pipelined|sharded|single",
     .help = "how the network runs on devices"},
    {CLI_CHOICE, "schedule", AT(schedule), .choices = "interleaved|grouped|sequential", .default_text = "interleaved",
     .help = "of the pipeline"},
    {CLI_TEXT, "stages", AT(stages), .value = "LIST", .default_text = "B1|B2|B3|B4",
     .help = "blocks to stages: \"B1,B2|B3,B4\", \"B1,B2|B3,B4@0\""},
    {CLI_COUNT, "replicas", AT(replicas), .value = "N", .minimum = 1, .maximum = 65536,
     .help = "data-parallel copies of the network"},
    {CLI_SIZE, "device-memory", AT(device_memory_bytes), .value = "BYTES", .minimum = 1, .default_text = "unlimited",
     .help = "of each device; K, M, G are understood"},
    {CLI_COUNT, "cores", AT(cores), .value = "N", .minimum = 1, .maximum = 65536, .default_text = "all",
     .help = "worker threads"},
    {CLI_FLAG, "offload-optimiser", AT(offload_optimiser), .help = "keep the optimiser's state off the devices"},
    {CLI_FLAG, "ipu-limits", AT(ipu_limits), .help = "refuse what IPU software refuses"},
    {CLI_CHOICE, "output-mode", AT(output_mode), .choices = "final|all|sum", .help = "what a training call returns"},

    {.help = "Files"},
    {CLI_TEXT, "data-dir", AT(data_dir), .value = "DIR", .default_text = "$BRIGADE_DATA, data, ../shared/data",
     .help = "where the MNIST files are"},
    {CLI_FLAG, "download", AT(download), .help = "fetch MNIST (12 MB) when it is not there"},
    {CLI_TEXT, "init", AT(init_path), .value = "FILE", .default_text = "random weights",
     .help = "begin with the weights of a safetensors file"},
    {CLI_TEXT, "save", AT(save_path), .value = "FILE", .default_text = "brigade-mnist.safetensors",
     .help = "where the trained weights go"},
    {CLI_TEXT, "log", AT(log_path), .value = "FILE", .default_text = "none",
     .help = "JSON lines: configuration, then each weight update; may be a pipe"},
    {CLI_FLAG, "profile", AT(profile), .help = "record the training's actions, the last 262144 of each device"},
    {CLI_TEXT, "profile-dir", AT(profile_dir), .value = "DIR", .default_text = MNIST_PROFILE_DIR,
     .help = "where the profile goes"},

    {.help = "Output"},
    {CLI_FLAG, "debug", AT(debug), .help = "show stages, memory, workers and timetable"},
    {CLI_FLAG, "quiet", AT(quiet), .help = "no progress, only results"},
    CLI_OPTIONS_END,
};

mnist_config mnist_config_defaults(void)
{
    return (mnist_config){
        .batch_size = 40,
        .device_iterations = 10,
        .gradient_accumulation = 10,
        .test_batch_size = 8,
        .epochs = 3,
        .learning_rate = 0.001,
        .strategy = "pipelined",
        .replicas = 1,
        .dtype = "float32",
        .output_mode = "final",
        .last_batch = "drop",
    };
}

bg_status mnist_config_check(const mnist_config *config, bg_error *error)
{
    if (config->schedule != NULL && strcmp(config->strategy, "pipelined") != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--schedule %s with --strategy %s; only the pipelined strategy has a choice of schedules",
                            config->schedule, config->strategy);
    if (config->stages != NULL && strcmp(config->strategy, "single") == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--stages %s with --strategy single, which has one stage; use pipelined or sharded",
                            config->stages);
    if (config->learning_rate > (double)FLT_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "--learning-rate is %g; it must be at most %g",
                            config->learning_rate, (double)FLT_MAX);
    if (config->debug && config->quiet)
        return bg_error_set(error, BG_ERROR_INVALID, "--debug with --quiet; use one of them");
    return BG_OK;
}

/* a * b, or the largest number when that is more. */
static uint64_t multiply_saturated(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t count_test_iterations(const mnist_config *config)
{
    return multiply_saturated(config->device_iterations, config->gradient_accumulation);
}

uint64_t mnist_images_per_training_call(const mnist_config *config)
{
    return multiply_saturated(multiply_saturated(config->batch_size, config->replicas), count_test_iterations(config));
}

uint64_t mnist_images_per_update(const mnist_config *config)
{
    return multiply_saturated(multiply_saturated(config->batch_size, config->replicas), config->gradient_accumulation);
}

mnist_last_batch mnist_config_last_batch(const mnist_config *config)
{
    return strcmp(config->last_batch, "pad") == 0       ? MNIST_LAST_PAD
           : strcmp(config->last_batch, "smaller") == 0 ? MNIST_LAST_SMALLER
                                                        : MNIST_LAST_DROP;
}

uint64_t mnist_test_iterations(const mnist_config *config, uint64_t test_count)
{
    uint64_t most = test_count / multiply_saturated(config->test_batch_size, config->replicas);
    uint64_t wanted = count_test_iterations(config);

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

    if (level > BG_LOG_WARNING && !config->debug)
        return;
    if (level == BG_LOG_WARNING)
        cli_warn("mnist", text);
    else
        cli_say("mnist", "%s: %s", (unsigned)level < 4 ? names[level] : "note", text);
}

bg_options mnist_plan_options(const mnist_config *config)
{
    bg_options options = bg_options_defaults();

    bg_strategy_find(config->strategy, &options.strategy);
    options.schedule = config->schedule;
    options.stages = config->stages;
    options.device_memory_bytes = (size_t)config->device_memory_bytes;
    options.cores = (uint32_t)config->cores;
    options.seed = config->seed;
    options.ipu_limits = config->ipu_limits;
    options.log = print_message;
    options.log_user = (void *)(uintptr_t)config;
    return options;
}
