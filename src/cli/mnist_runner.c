/*
 * mnist_runner.c: the digit network, compiled for one phase, with memory for its outputs.
 */
#include "cli/mnist.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* Some hundred updates of four devices: a trace of about 15 MB. */
enum { PROFILE_EVENTS = 262144 };

static const bg_output_request all_requests[] = {
    {.output = "loss", .name = "loss.all", .mode = BG_OUTPUT_ALL},
    {.output = "correct", .name = "correct.all", .mode = BG_OUTPUT_ALL},
    {.output = "gradient_norm", .name = "gradient_norm.all", .mode = BG_OUTPUT_ALL}, /* the last: logs_norm */
};

bg_status mnist_plan_create(const mnist_config *config, const mnist_runner_options *options, bg_plan **out,
                            bg_error *error)
{
    bg_convnet_options network = bg_convnet_defaults();
    bg_optimiser optimiser = bg_adamw(config->learning_rate);
    mnist_plan_room room;
    bg_options plan_options = mnist_plan_options(config, options->training, &room);
    bg_graph *graph = NULL;
    bg_convnet net;
    bg_status status;

    network.micro_batch = (int64_t)options->micro_batch;
    network.dtype = bg_dtype_find(config->dtype);
    network.checkpoint_blocks = config->checkpoint_blocks;
    if (mnist_config_last_batch(config) == MNIST_LAST_PAD)
        network.ignore_label = MNIST_PAD_LABEL;
    network.outputs = options->training ? BG_CONVNET_LOSS | BG_CONVNET_CORRECT : BG_CONVNET_CORRECT;
    plan_options.device_iterations = (uint32_t)options->device_iterations;
    plan_options.gradient_accumulation = (uint32_t)options->gradient_accumulation;
    plan_options.replicas = (uint32_t)options->replicas;
    plan_options.output_mode = options->output_mode;
    plan_options.output_period = (uint32_t)options->output_period;
    plan_options.offload_optimiser = options->training && config->offload_optimiser;
    plan_options.trace = options->training && config->profile;
    plan_options.trace_events = PROFILE_EVENTS;
    if (options->training && config->costs.stage_count > 0) {
        plan_options.stage_costs = config->costs.stages;
        plan_options.stage_cost_count = config->costs.stage_count;
        plan_options.message_bytes_per_ns = config->costs.message_bytes_per_ns;
    }
    if (options->logs_all) {
        plan_options.output_requests = all_requests;
        plan_options.output_request_count = options->logs_norm ? 3 : 2;
    }
    BGI_TRY(bg_graph_create(&graph, error));
    net = bg_convnet_build(graph, &network);
    if (options->training)
        status = bg_plan_create_training(graph, net.loss, &optimiser, &plan_options, out, error);
    else
        status = bg_plan_create_inference(graph, &plan_options, out, error);
    bg_graph_destroy(graph);
    return status;
}

mnist_runner_options mnist_training_options(const mnist_config *config)
{
    mnist_runner_options options = {.training = true,
                                    .micro_batch = config->batch_size,
                                    .device_iterations = config->device_iterations,
                                    .gradient_accumulation = config->gradient_accumulation,
                                    .replicas = config->replicas,
                                    .output_period = config->output_period,
                                    .logs_all = config->log_path != NULL,
                                    .logs_norm = config->log_path != NULL && config->gradient_norm};

    bg_output_mode_find(config->output_mode, &options.output_mode);
    return options;
}

static bg_status find_input(const bg_session *session, const char *name, uint32_t *out, bg_error *error)
{
    *out = bg_session_find_input(session, name);
    if (*out != UINT32_MAX)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INTERNAL, "the plan has no input `%s`", name);
}

/* The memory of a named output; `out_count` (may be NULL) gets its number of values. */
static bg_status find_output(const mnist_runner *runner, const char *name, const void **out, uint64_t *out_count,
                             bg_error *error)
{
    uint32_t index = bg_session_find_output(runner->session, name);
    bg_stream stream;

    if (index == UINT32_MAX)
        return bg_error_set(error, BG_ERROR_INTERNAL, "the plan has no output `%s`", name);
    BGI_TRY(bg_session_output(runner->session, index, &stream, error));
    *out = runner->outputs[index];
    if (out_count != NULL)
        *out_count = stream.count;
    return BG_OK;
}

static bg_status bind_streams(mnist_runner *runner, bg_error *error)
{
    const bg_session *session = runner->session;
    uint32_t input_count = bg_session_input_count(session), output_count = bg_session_output_count(session);
    const void *memory = NULL;

    runner->inputs = calloc(input_count + 1, sizeof *runner->inputs);
    runner->outputs = calloc(output_count + 1, sizeof *runner->outputs);
    if (runner->inputs == NULL || runner->outputs == NULL)
        return bgi_error_memory(error, "inputs and outputs", 0);
    for (uint32_t i = 0; i < output_count; i++) {
        bg_stream stream;
        BGI_TRY(bg_session_output(session, i, &stream, error));
        runner->outputs[i] = calloc(1, stream.size_bytes);
        if (runner->outputs[i] == NULL)
            return bgi_error_memory(error, stream.name, stream.size_bytes);
    }
    BGI_TRY(find_input(session, "images", &runner->images, error));
    BGI_TRY(find_input(session, "labels", &runner->labels, error));
    BGI_TRY(find_output(runner, "correct", &memory, &runner->correct_count, error));
    runner->correct = memory;
    if (runner->options.training) {
        BGI_TRY(find_output(runner, "loss", &memory, &runner->loss_count, error));
        runner->loss = memory;
    }
    if (runner->options.logs_all) {
        BGI_TRY(find_output(runner, "loss.all", &memory, NULL, error));
        runner->loss_all = memory;
        BGI_TRY(find_output(runner, "correct.all", &memory, NULL, error));
        runner->correct_all = memory;
    }
    if (runner->options.logs_norm) {
        BGI_TRY(find_output(runner, "gradient_norm.all", &memory, NULL, error));
        runner->norm_all = memory;
    }
    return BG_OK;
}

bg_status mnist_runner_create(const mnist_config *config, const mnist_runner_options *options, bg_weights *weights,
                              mnist_runner *out, bg_error *error)
{
    mnist_runner runner = {.options = *options};
    bg_status status = mnist_plan_create(config, options, &runner.plan, error);

    if (status == BG_OK)
        status = bg_session_create(runner.plan, weights, &runner.session, error);
    if (status == BG_OK)
        status = bind_streams(&runner, error);
    if (status != BG_OK) {
        mnist_runner_clear(&runner);
        return status;
    }
    runner.summary = bg_plan_summarise(runner.plan);
    *out = runner;
    return BG_OK;
}

void mnist_runner_clear(mnist_runner *runner)
{
    if (runner->outputs != NULL)
        for (uint32_t i = 0; i < bg_session_output_count(runner->session); i++)
            free(runner->outputs[i]);
    free(runner->outputs);
    free(runner->inputs);
    bg_session_destroy(runner->session);
    bg_plan_destroy(runner->plan);
    memset(runner, 0, sizeof *runner);
}

bg_status mnist_runner_run(mnist_runner *runner, const void *images, const void *labels, uint64_t valid_images,
                           bg_error *error)
{
    runner->inputs[runner->images] = images;
    runner->inputs[runner->labels] = labels;
    runner->valid_images = valid_images;
    return bg_session_run(runner->session, runner->inputs, runner->outputs, error);
}

uint64_t mnist_runner_valid(const mnist_runner *runner, uint64_t index)
{
    uint64_t size = runner->options.micro_batch, start = index * size;
    uint64_t left = start < runner->valid_images ? runner->valid_images - start : 0;

    return left < size ? left : size;
}

/* The micro-batch of the run that value `index` of an output is of; of sums, all in turn. */
static uint64_t find_covered(const mnist_runner *runner, uint64_t index)
{
    const mnist_runner_options *options = &runner->options;
    const uint64_t per_update = options->gradient_accumulation * options->replicas;

    if (options->output_mode == BG_OUTPUT_EVERY_N)
        return ((index / per_update + 1) * options->output_period - 1) * per_update + index % per_update;
    if (options->output_mode == BG_OUTPUT_ALL || options->output_mode == BG_OUTPUT_SUM)
        return index;
    return options->device_iterations * per_update - runner->correct_count + index; /* the last ones */
}

/* Under `sum` a value stands for all micro-batches of its replica; a loss is then a sum of means. Else values are those
 * of single micro-batches, each a mean over the images that count. */
mnist_score mnist_runner_score(const mnist_runner *runner)
{
    const mnist_runner_options *options = &runner->options;
    uint64_t micro_batches = options->device_iterations * options->gradient_accumulation * options->replicas;
    bool is_sum = options->output_mode == BG_OUTPUT_SUM;
    uint64_t covered = is_sum ? micro_batches : runner->correct_count, counted = 0;
    mnist_score score = {.image_count = 0};
    double correct = 0.0;

    for (uint64_t i = 0; i < covered; i++) {
        const uint64_t valid = mnist_runner_valid(runner, find_covered(runner, i));

        score.image_count += valid;
        counted += valid > 0;
    }
    for (uint64_t i = 0; i < runner->loss_count; i++)
        score.loss += (double)runner->loss[i];
    for (uint64_t i = 0; i < runner->correct_count; i++)
        correct += (double)runner->correct[i];
    if (score.image_count == 0)
        return score; /* what the mode returns is padding */
    score.loss /= (double)counted;
    score.accuracy = 100.0 * correct / (double)score.image_count;
    return score;
}
