/*
 * mnist_model.c: builds the digit network for the trainer or for a plan without a run, and interprets the outputs of a
 * call.
 */
#include "cli/mnist.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* Lists the outputs of every micro-batch and update for the log; returns their number. */
static uint32_t list_requests(const mnist_shape *shape, bg_output_request requests[CLI_MOST_REQUESTS])
{
    uint32_t count = 0;

    if (!shape->logs_all)
        return 0;
    requests[count++] = (bg_output_request){.output = "loss", .name = "loss.all", .mode = BG_OUTPUT_ALL};
    requests[count++] = (bg_output_request){.output = "correct", .name = "correct.all", .mode = BG_OUTPUT_ALL};
    if (shape->logs_norm)
        requests[count++] =
            (bg_output_request){.output = "gradient_norm", .name = "gradient_norm.all", .mode = BG_OUTPUT_ALL};
    if (shape->logs_scale)
        requests[count++] =
            (bg_output_request){.output = "loss_scale", .name = "loss_scale.all", .mode = BG_OUTPUT_ALL};
    return count;
}

bg_value mnist_model_add(void *user, bg_graph *graph, bg_trainer_task stage, int64_t micro_batch)
{
    const mnist_config *config = user;
    bg_convnet_options network = bg_convnet_defaults();

    network.micro_batch = micro_batch;
    network.dtype = bg_dtype_find(config->dtype);
    network.checkpoint_blocks = config->recipe.checkpoint_blocks;
    if (mnist_config_last_batch(config) == MNIST_LAST_PAD)
        network.ignore_label = MNIST_PAD_LABEL;
    network.outputs = stage == BG_TRAINER_FIT ? BG_CONVNET_LOSS | BG_CONVNET_CORRECT : BG_CONVNET_CORRECT;
    bg_graph_set_parameter_dtype(graph, bg_dtype_find(config->weight_type));
    return bg_convnet_build(graph, &network).loss;
}

bg_status mnist_model_save(const mnist_config *config, bg_session *session, const char *path, bg_error *error)
{
    bg_convnet_options network = bg_convnet_defaults();
    bg_graph *graph;
    bg_status status;

    if (!cli_is_onnx(path))
        return cli_weights_save(session, path, error);
    BGI_TRY(bg_graph_create(&graph, error));
    network.dtype = bg_dtype_find(config->dtype);
    network.outputs = BG_CONVNET_LOGITS;
    bg_graph_set_parameter_dtype(graph, bg_dtype_find(config->weight_type));
    bg_convnet_build(graph, &network);
    status = cli_model_save(session, graph, path, error);
    bg_graph_destroy(graph);
    return status;
}

bg_options mnist_shape_options(const mnist_config *config, const mnist_shape *shape, cli_plan_room *room)
{
    bg_options options = mnist_plan_options(config, shape->training, room);

    options.execution.device_iterations = (uint32_t)shape->device_iterations;
    options.execution.gradient_accumulation = (uint32_t)shape->gradient_accumulation;
    options.replicas.count = (uint32_t)shape->replicas;
    options.reporting.output_mode = shape->output_mode;
    options.reporting.output_period = (uint32_t)shape->output_period;
    options.memory.offload_optimizer = shape->training && config->recipe.library.options.memory.offload_optimizer;
    options.reporting.trace = config->recipe.profile || (shape->training && options.reporting.trace);
    if (config->recipe.library.run_options == NULL ||
        !bg_run_options_is_given(config->recipe.library.run_options, "trace_events"))
        options.reporting.trace_events = CLI_PROFILE_EVENTS;
    if (shape->training && config->costs.stage_count > 0) {
        options.execution.stage_costs = config->costs.stages;
        options.execution.stage_cost_count = config->costs.stage_count;
        options.execution.message_bytes_per_ns = config->costs.message_bytes_per_ns;
    }
    if (!shape->training)
        cli_recipe_infer(&config->recipe, &options, room);
    options.numerics.auto_loss_scaling.output |= shape->logs_scale;
    options.reporting.output_requests = room->requests;
    options.reporting.output_request_count = list_requests(shape, room->requests);
    return options;
}

bg_status mnist_plan_check(const mnist_config *config, bg_error *error)
{
    const mnist_shape shape = mnist_training_shape(config);
    cli_plan_room room;
    const bg_options options = mnist_shape_options(config, &shape, &room);

    return cli_options_check(&options, error);
}

bg_status mnist_plan_create(const mnist_config *config, const mnist_shape *shape, bg_plan **out, bg_error *error)
{
    bg_optimizer optimizer;
    cli_plan_room room;
    const bg_options options = mnist_shape_options(config, shape, &room);
    bg_graph *graph = NULL;
    bg_value loss;
    bg_status status;

    BGI_TRY(bg_optimizer_parse(config->recipe.optimizer, config->recipe.learning_rate, &optimizer, error));
    BGI_TRY(bg_graph_create(&graph, error));
    loss = mnist_model_add((void *)(uintptr_t)config, graph, shape->training ? BG_TRAINER_FIT : BG_TRAINER_TEST,
                           (int64_t)shape->micro_batch);
    if (shape->training)
        status = bg_plan_create_training(graph, loss, &optimizer, &options, out, error);
    else
        status = bg_plan_create_inference(graph, &options, out, error);
    bg_graph_destroy(graph);
    return status;
}

mnist_shape mnist_training_shape(const mnist_config *config)
{
    const bg_output_mode mode = config->recipe.library.options.reporting.output_mode;

    return (mnist_shape){
        .training = true,
        .micro_batch = config->recipe.batch_size,
        .device_iterations = config->recipe.library.options.execution.device_iterations,
        .gradient_accumulation = config->recipe.library.options.execution.gradient_accumulation,
        .replicas = config->recipe.library.options.replicas.count,
        .output_mode = mode == BG_OUTPUT_DEFAULT ? BG_OUTPUT_FINAL : mode,
        .output_period = config->recipe.library.options.reporting.output_period,
        .logs_all = config->recipe.log_path != NULL,
        .logs_norm = config->recipe.log_path != NULL && config->recipe.library.options.reporting.output_gradient_norm,
        .logs_scale = config->recipe.log_path != NULL && cli_loss_scaling_is_auto(config->recipe.library.loss_scaling)};
}

mnist_shape mnist_test_shape(const mnist_config *config, uint64_t test_count)
{
    return (mnist_shape){.training = false,
                         .micro_batch = config->test_batch_size,
                         .device_iterations = mnist_test_iterations(config, test_count),
                         .gradient_accumulation = 1,
                         .replicas = mnist_test_replicas(config),
                         .output_mode = config->ipu.test.stages != NULL ? config->ipu.test.options.reporting.output_mode
                                                                        : BG_OUTPUT_SUM};
}

/* ---- outputs of a call ---- */

/* Returns the output mode of a call. If the call is shorter than usual, an output requested for every n updates is
 * returned once, at the end. */
static bg_output_mode find_mode(const mnist_config *config, const bg_trainer_call *call)
{
    const bg_output_mode mode = mnist_training_shape(config).output_mode;

    return mode == BG_OUTPUT_EVERY_N && !call->is_whole ? BG_OUTPUT_FINAL : mode;
}

/* Returns the micro-batch of the call that value `index` of `count` belongs to. For sums, `index` runs over all
 * micro-batches. */
static uint64_t find_covered(const mnist_config *config, const bg_trainer_call *call, uint64_t count, uint64_t index)
{
    const bg_output_mode mode = find_mode(config, call);
    const uint64_t per_update = (uint64_t)call->gradient_accumulation * call->replicas;

    if (mode == BG_OUTPUT_EVERY_N)
        return ((index / per_update + 1) * config->recipe.library.options.reporting.output_period - 1) * per_update +
               index % per_update;
    if (mode == BG_OUTPUT_ALL || mode == BG_OUTPUT_SUM)
        return index;
    if (call->canonical) /* the last micro-batch of each replica */
        return (call->device_iterations - 1) * per_update + (index + 1) * call->gradient_accumulation - 1;
    return call->device_iterations * per_update - count + index; /* the last micro-batches */
}

uint64_t mnist_call_correct(const bg_trainer_call *call)
{
    bg_stream stream;
    const int32_t *correct = bg_trainer_call_output(call, "correct", &stream);
    uint64_t sum = 0;

    for (uint64_t i = 0; i < stream.count; i++)
        sum += (uint64_t)correct[i];
    return sum;
}

/* Computes the score of a call. In output mode `sum` a value covers all micro-batches of its replica, and a loss is a
 * sum of means. In other modes each value belongs to one micro-batch, and is a mean over its images without padding. */
mnist_score mnist_call_score(const mnist_config *config, const bg_trainer_call *call)
{
    const uint64_t micro_batches = (uint64_t)call->device_iterations * call->gradient_accumulation * call->replicas;
    bg_stream stream;
    const float *loss = bg_trainer_call_output(call, "loss", &stream);
    const uint64_t covered = find_mode(config, call) == BG_OUTPUT_SUM ? micro_batches : stream.count;
    uint64_t counted = 0;
    mnist_score score = {.image_count = 0};

    for (uint64_t i = 0; i < covered; i++) {
        const uint64_t valid = bg_trainer_call_valid(call, find_covered(config, call, covered, i));

        score.image_count += valid;
        counted += valid > 0;
    }
    for (uint64_t i = 0; i < stream.count; i++)
        score.loss += (double)loss[i];
    if (score.image_count == 0)
        return score; /* the mode returns only padding */
    score.loss /= (double)counted;
    score.accuracy = 100.0 * (double)mnist_call_correct(call) / (double)score.image_count;
    return score;
}

double mnist_call_bad_loss(const mnist_config *config, const bg_trainer_call *call, uint64_t *out_first,
                           uint64_t *out_last)
{
    const uint64_t per_update = (uint64_t)call->gradient_accumulation * call->replicas;
    bg_stream stream;
    const float *loss = bg_trainer_call_output(call, "loss.all", &stream);
    bool is_all = loss != NULL;

    if (!is_all) {
        loss = bg_trainer_call_output(call, "loss", &stream);
        is_all = find_mode(config, call) == BG_OUTPUT_ALL;
    }
    for (uint64_t i = 0; i < stream.count; i++) {
        if (isfinite(loss[i]))
            continue;
        *out_first = call->first_update + 1 + (is_all ? i / per_update : 0);
        *out_last = is_all ? *out_first : call->first_update + call->device_iterations;
        return (double)loss[i];
    }
    return 0.0;
}
