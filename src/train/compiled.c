/*
 * compiled.c: compiles a task's model for one shape of calls, with memory for its outputs and for inputs that cannot be
 * read from the batch directly.
 */
#include "train/trainer.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/reference/element.h"

/* ---- shapes ---- */

/* Counts groups of replicas with different data. */
static uint32_t count_groups(const bgi_call_shape *shape)
{
    return shape->replicas / shape->group;
}

uint64_t bgi_shape_samples(const bgi_call_shape *shape)
{
    return (uint64_t)shape->iterations * shape->accumulation * count_groups(shape) * shape->micro_batch;
}

bool bgi_call_shape_equal(const bgi_call_shape *a, const bgi_call_shape *b)
{
    return a->micro_batch == b->micro_batch && a->iterations == b->iterations && a->accumulation == b->accumulation &&
           a->replicas == b->replicas && a->group == b->group && a->canonical == b->canonical;
}

/* Returns the largest micro-batch size that divides `samples` and is at most `usual`. */
static uint32_t divide_samples(uint64_t samples, uint32_t usual)
{
    uint32_t size = samples < usual ? (uint32_t)samples : usual;

    while (samples % size != 0)
        size--;
    return size;
}

/* Returns the shape of one update of all samples. It uses all groups of replicas if the tree over micro-batches has a
 * branch for each group. */
static bgi_call_shape split_canonically(const bgi_call_shape *usual, uint64_t samples)
{
    const uint64_t micro_batches = samples / divide_samples(samples, usual->micro_batch);
    const uint64_t each = micro_batches / count_groups(usual);
    const bool has_branches = micro_batches % count_groups(usual) == 0 && (each & (each - 1)) == 0;
    bgi_call_shape shape = *usual;

    shape.micro_batch = (uint32_t)(samples / micro_batches);
    shape.iterations = 1;
    shape.accumulation = (uint32_t)(has_branches ? each : micro_batches);
    shape.replicas = has_branches ? usual->replicas : usual->group;
    return shape;
}

bgi_call_shape bgi_shape_rest(const bgi_call_shape *usual, bool training, uint64_t samples, uint64_t update_limit)
{
    const uint64_t per_update = (uint64_t)usual->micro_batch * usual->accumulation * count_groups(usual);
    const uint64_t whole = samples / per_update;
    bgi_call_shape shape = *usual;

    if (training && whole > 0) {
        shape.iterations = (uint32_t)(whole < update_limit ? whole : update_limit);
        return shape;
    }
    if (shape.canonical)
        return split_canonically(usual, samples);
    if (!training || samples % count_groups(&shape) != 0)
        shape.replicas = shape.group;
    samples /= count_groups(&shape);
    shape.micro_batch = divide_samples(samples, usual->micro_batch);
    shape.accumulation = training ? (uint32_t)(samples / shape.micro_batch) : 1;
    shape.iterations = training ? 1 : (uint32_t)(samples / shape.micro_batch);
    return shape;
}

/* ---- plans ---- */

/* Changes requests for an output every n iterations: it is returned once, at the end, because a smaller last call need
 * not have a multiple of n iterations. */
static bg_status adapt_outputs(bg_options *options, bg_output_request **out_requests, bg_error *error)
{
    bg_output_request *requests = NULL;

    if (options->reporting.output_mode == BG_OUTPUT_EVERY_N)
        options->reporting.output_mode = BG_OUTPUT_FINAL;
    if (options->reporting.output_request_count == 0)
        return BG_OK;
    requests = malloc(options->reporting.output_request_count * sizeof *requests);
    if (requests == NULL)
        return bgi_error_memory(error, "output requests", options->reporting.output_request_count * sizeof *requests);
    for (uint32_t i = 0; i < options->reporting.output_request_count; i++) {
        requests[i] = options->reporting.output_requests[i];
        if (requests[i].mode == BG_OUTPUT_EVERY_N)
            requests[i].mode = BG_OUTPUT_FINAL;
    }
    options->reporting.output_requests = *out_requests = requests;
    return BG_OK;
}

/* Removes sharding, except that of activations (inside a group), from the options of a smaller last call on one group
 * of replicas, which has no data-parallel replicas to shard over. Otherwise its plan would warn. */
static bg_status adapt_locations(bg_options *options, bg_location_rule **out_rules, bg_error *error)
{
    const uint32_t activations = 1u << BG_LOCATION_ACTIVATIONS;
    bg_location_rule *rules = NULL;

    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++)
        options->memory.locations[k].sharded = options->memory.locations[k].sharded && 1u << k == activations;
    if (options->memory.location_rule_count == 0)
        return BG_OK;
    rules = malloc(options->memory.location_rule_count * sizeof *rules);
    if (rules == NULL)
        return bgi_error_memory(error, "location rules", options->memory.location_rule_count * sizeof *rules);
    for (uint32_t i = 0; i < options->memory.location_rule_count; i++) {
        rules[i] = options->memory.location_rules[i];
        rules[i].location.sharded = rules[i].location.sharded && rules[i].classes == activations;
    }
    options->memory.location_rules = *out_rules = rules;
    return BG_OK;
}

/* Checks that groups of replicas with the same data consist of whole meshes. The trainer counts samples by these groups
 * before there is a plan. */
static bg_status check_mesh(const bg_graph *graph, const bgi_call_shape *shape, bg_error *error)
{
    const bg_mesh mesh = bg_graph_mesh(graph);
    const uint32_t tensor = mesh.tensor_1 * mesh.tensor_2;

    if (shape->group % tensor == 0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "the model is built for %u x %u tensor-parallel replicas, which share their data; give options "
                        "with input_group_size %u and a multiple of that number of replicas",
                        mesh.tensor_1, mesh.tensor_2, tensor);
}

static bg_value add_model(const bg_trainer_options *options, bg_graph *graph, bg_trainer_task task, int64_t micro_batch)
{
    bg_value loss = {0};

    if (options->model != NULL)
        return options->model(options->model_user, graph, task, micro_batch);
    options->add_model(options->model_user, graph, task, micro_batch, &loss);
    return loss;
}

static bg_status make_plan(bg_trainer *trainer, bg_trainer_task task, const bg_options *options, bgi_compiled *compiled,
                           bg_error *error)
{
    bg_graph *graph = NULL;
    bg_value loss;
    bg_status status;

    BGI_TRY(bg_graph_create(&graph, error));
    loss = add_model(&trainer->options, graph, task, (int64_t)compiled->shape.micro_batch);
    status = check_mesh(graph, &compiled->shape, error);
    if (status == BG_OK)
        status = compiled->training
                     ? bg_plan_create_training(graph, loss, &trainer->optimizer, options, &compiled->plan, error)
                     : bg_plan_create_inference(graph, options, &compiled->plan, error);
    bg_graph_destroy(graph);
    return status;
}

static void find_mode(const bg_options *options, bool training, bgi_compiled_output *output)
{
    output->mode = options->reporting.output_mode;
    output->period = options->reporting.output_period;
    for (uint32_t i = 0; i < options->reporting.output_request_count; i++) {
        const bg_output_request *request = &options->reporting.output_requests[i];
        if (strcmp(request->name != NULL ? request->name : request->output, output->stream.name) == 0) {
            output->mode = request->mode;
            output->period = request->period != 0 ? request->period : options->reporting.output_period;
        }
    }
    if (output->mode == BG_OUTPUT_DEFAULT)
        output->mode = training ? BG_OUTPUT_FINAL : BG_OUTPUT_ALL;
}

static bg_status take_streams(bgi_compiled *compiled, const bg_options *options, bg_error *error)
{
    compiled->input_count = bg_session_input_count(compiled->session);
    compiled->output_count = bg_session_output_count(compiled->session);
    compiled->inputs = calloc(compiled->input_count + 1u, sizeof *compiled->inputs);
    compiled->outputs = calloc(compiled->output_count + 1u, sizeof *compiled->outputs);
    compiled->input_data = calloc(compiled->input_count + 1u, sizeof *compiled->input_data);
    compiled->constants = calloc(compiled->input_count + 1u, sizeof *compiled->constants);
    compiled->output_data = calloc(compiled->output_count + 1u, sizeof *compiled->output_data);
    if (compiled->inputs == NULL || compiled->outputs == NULL || compiled->input_data == NULL ||
        compiled->constants == NULL || compiled->output_data == NULL)
        return bgi_error_memory(error, "inputs and outputs", 0);
    for (uint32_t i = 0; i < compiled->input_count; i++)
        BGI_TRY(bg_session_input(compiled->session, i, &compiled->inputs[i].stream, error));
    for (uint32_t i = 0; i < compiled->output_count; i++) {
        bgi_compiled_output *output = &compiled->outputs[i];
        BGI_TRY(bg_session_output(compiled->session, i, &output->stream, error));
        find_mode(options, compiled->training, output);
        output->data = compiled->output_data[i] = calloc(1, output->stream.size_bytes);
        if (output->data == NULL)
            return bgi_error_memory(error, output->stream.name, output->stream.size_bytes);
    }
    return BG_OK;
}

/* Files of remote memory belong to one session, the one that trains, so all calls of training must have one shape. */
static bg_status check_files(const bg_options *options, bool is_rest, bg_error *error)
{
    const char *folder = options->files.memmap_dir;

    if (folder == NULL || folder[0] == '\0' || !is_rest)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "options.memmap_dir %s: the files belong to one session, and an incomplete call needs another "
                        "one; drop the last batch, and use a multiple of device_iterations for "
                        "max_steps",
                        folder);
}

/* Allocates the rates of a call's updates, which may differ. */
static bg_status take_rates(bgi_compiled *compiled, const bg_trainer_options *options, bg_error *error)
{
    if (!compiled->training || options->learning_rate == NULL || !options->learning_rate_updates)
        return BG_OK;
    compiled->rates = calloc(compiled->shape.iterations, sizeof *compiled->rates);
    return compiled->rates != NULL
               ? BG_OK
               : bgi_error_memory(error, "learning rates", compiled->shape.iterations * sizeof *compiled->rates);
}

/* ---- messages ---- */

/* Whether a plan of the trainer has already given a warning of the compiler; otherwise notes that it is given now.
 * Without memory the warning is not noted, and may be repeated. Other threads, such as those that write checkpoints,
 * may log messages about earlier plans at the same time. */
static bool is_repeated(bg_trainer *trainer, bg_log_level level, const char *text)
{
    bgi_warning *warning;

    if (level != BG_LOG_WARNING || atomic_load(&trainer->compiling_thread) != (uintptr_t)pthread_self())
        return false;
    warning = trainer->warnings;
    while (warning != NULL && strcmp(warning->text, text) != 0)
        warning = warning->next;
    if (warning != NULL)
        return true;
    warning = bgi_arena_allocate(&trainer->arena, 1, sizeof *warning);
    if (warning != NULL)
        warning->text = bgi_arena_string(&trainer->arena, text);
    if (warning != NULL && warning->text != NULL) {
        warning->next = trainer->warnings;
        trainer->warnings = warning;
    }
    return false;
}

/* Logs a message about the plan of complete calls. `user` is the task. */
static void log_whole(void *user, bg_log_level level, const char *text)
{
    const bgi_task *task = user;

    is_repeated(task->trainer, level, text);
    task->options.reporting.log(task->options.reporting.log_user, level, text);
}

/* Logs a message about the plan of an incomplete call, which has fewer micro-batches than the user requested, so the
 * line begins with what the plan is for. A warning that another plan gave is not repeated. */
static void log_rest(void *user, bg_log_level level, const char *text)
{
    const bgi_task *task = user;
    char line[1024];

    if (is_repeated(task->trainer, level, text))
        return;
    snprintf(line, sizeof line, "the last, smaller batch: %s", text);
    task->options.reporting.log(task->options.reporting.log_user, level, line);
}

static void set_log(bgi_task *task, bool is_rest, bg_options *options)
{
    if (options->reporting.log == NULL)
        return;
    options->reporting.log = is_rest ? log_rest : log_whole;
    options->reporting.log_user = task;
}

/* ---- compiling ---- */

bg_status bgi_compiled_create(bg_trainer *trainer, bg_trainer_task task, const bgi_call_shape *shape, bool is_rest,
                              bgi_compiled *out, bg_error *error)
{
    bgi_compiled compiled = {.shape = *shape, .training = task == BG_TRAINER_FIT};
    bg_options options = trainer->tasks[task].options;
    bg_output_request *requests = NULL;
    bg_location_rule *rules = NULL;
    bg_status status = BG_OK;

    options.execution.device_iterations = shape->iterations;
    options.execution.gradient_accumulation = shape->accumulation;
    options.replicas.count = shape->replicas;
    options.replicas.input_group_size = shape->group;
    options.numerics.initialize_missing |= trainer->options.initialize_missing;
    /* A stop signal that arrives while another plan is made must not discard the updates so far, so all ranks stop
     * after the next call. */
    if (trainer->has_updated)
        options.execution.stop = NULL;
    BGI_TRY(check_files(&options, is_rest, error));
    set_log(&trainer->tasks[task], is_rest, &options);
    if (is_rest) {
        options.execution.ipu_limits = false;
        if (shape->replicas != trainer->tasks[task].options.replicas.count)
            options.execution.layout = NULL; /* it may list the devices of all replicas */
        BGI_TRY(adapt_outputs(&options, &requests, error));
    }
    atomic_store(&trainer->compiling_thread, (uintptr_t)pthread_self());
    if (is_rest && shape->replicas == shape->group)
        BGI_TRY_CLEANUP(adapt_locations(&options, &rules, error));
    BGI_TRY_CLEANUP(make_plan(trainer, task, &options, &compiled, error));
    trainer->has_ranks = trainer->has_ranks || bg_plan_summarize(compiled.plan).ranks > 1;
    BGI_TRY_CLEANUP(bg_session_create(compiled.plan, trainer->weights, &compiled.session, error));
    BGI_TRY_CLEANUP(take_streams(&compiled, &options, error));
    BGI_TRY_CLEANUP(take_rates(&compiled, &trainer->options, error));
    compiled.optimizer_version = trainer->optimizer_version;
    *out = compiled;
cleanup:
    atomic_store(&trainer->compiling_thread, 0);
    free(requests);
    free(rules);
    if (status != BG_OK)
        bgi_compiled_clear(&compiled);
    return status;
}

void bgi_compiled_clear(bgi_compiled *compiled)
{
    for (uint32_t i = 0; compiled->inputs != NULL && i < compiled->input_count; i++)
        free(compiled->inputs[i].own);
    for (uint32_t i = 0; compiled->outputs != NULL && i < compiled->output_count; i++)
        free(compiled->outputs[i].data);
    free(compiled->inputs);
    free(compiled->outputs);
    free(compiled->input_data);
    free(compiled->constants);
    free(compiled->output_data);
    free(compiled->rates);
    bg_session_destroy(compiled->session);
    bg_plan_destroy(compiled->plan);
    memset(compiled, 0, sizeof *compiled);
}

/* ---- inputs ---- */

static uint32_t find_argument(const bg_trainer *trainer, const char *name)
{
    for (uint32_t i = 0; i < trainer->options.argument_count; i++)
        if (strcmp(trainer->options.arguments[i].input, name) == 0)
            return i;
    return UINT32_MAX;
}

/* Returns the index of the tensor for an input: the tensor with its name, or the next one if tensors have no names. */
static uint32_t find_tensor(const char *const *names, uint32_t tensor_count, const char *name, uint32_t *next)
{
    if (names == NULL)
        return *next < tensor_count ? (*next)++ : UINT32_MAX;
    for (uint32_t i = 0; i < tensor_count; i++)
        if (names[i] != NULL && strcmp(names[i], name) == 0)
            return i;
    return UINT32_MAX;
}

/* Checks that a sample of the tensor has as many elements as a row of the input, and the same element type or one that
 * is cast. The dimensions may differ. */
static bg_status check_tensor(const bgi_compiled *compiled, const bg_trainer *trainer, bgi_compiled_input *input,
                              const bg_type *sample, bg_error *error)
{
    const bg_type *wanted = &input->stream.micro_batch_type;
    char sample_text[BG_TYPE_TEXT_BYTES], wanted_text[BG_TYPE_TEXT_BYTES];
    const bool fits = (uint64_t)bg_type_element_count(wanted) ==
                      (uint64_t)bg_type_element_count(sample) * compiled->shape.micro_batch;
    const bool is_castable =
        bg_dtype_is_float(sample->dtype) && bg_dtype_is_float(wanted->dtype) && sample->dtype != wanted->dtype;

    input->sample_dtype = sample->dtype;
    input->is_cast = trainer->options.cast_batches && is_castable;
    if (fits && (sample->dtype == wanted->dtype || input->is_cast))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "samples of tensor %u are %s; input `%s` takes %s, %u samples%s",
                        input->tensor, bg_type_text(sample, sample_text), input->stream.name,
                        bg_type_text(wanted, wanted_text), compiled->shape.micro_batch,
                        fits && is_castable ? ": cast_batches casts them" : "");
}

static bg_status bind_input(bgi_compiled *compiled, const bg_trainer *trainer, const bg_type *types,
                            uint32_t tensor_count, const char *const *names, uint32_t number, uint32_t *next,
                            bg_error *error)
{
    bgi_compiled_input *input = &compiled->inputs[number];
    size_t own_bytes = 0;

    input->argument = find_argument(trainer, input->stream.name);
    input->tensor = UINT32_MAX;
    compiled->constants[number] = input->argument != UINT32_MAX;
    free(input->own);
    input->own = NULL;
    if (input->argument != UINT32_MAX) {
        own_bytes = bg_type_size_bytes(&input->stream.micro_batch_type);
    } else if (types != NULL) {
        input->tensor = find_tensor(names, tensor_count, input->stream.name, next);
        if (input->tensor == UINT32_MAX)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "input `%s` has no data: a batch has %u tensors; name one for it, or give it as an "
                                "argument",
                                input->stream.name, tensor_count);
        BGI_TRY(check_tensor(compiled, trainer, input, &types[input->tensor], error));
        own_bytes = input->is_cast ? input->stream.size_bytes : 0;
    }
    input->own = own_bytes > 0 ? calloc(1, own_bytes) : NULL;
    return own_bytes == 0 || input->own != NULL ? BG_OK : bgi_error_memory(error, input->stream.name, own_bytes);
}

bg_status bgi_compiled_bind(bgi_compiled *compiled, const bg_trainer *trainer, const bg_type *types,
                            uint32_t tensor_count, const char *const *names, bg_error *error)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < compiled->input_count; i++)
        BGI_TRY(bind_input(compiled, trainer, types, tensor_count, names, i, &next, error));
    compiled->is_bound = true;
    return BG_OK;
}

/* Converts `count` elements of a tensor from `first` on to the input's type. */
static void cast_samples(const bgi_compiled_input *input, const void *tensor, uint64_t first, uint64_t count)
{
    const bg_dtype from = input->sample_dtype, to = input->stream.micro_batch_type.dtype;

    for (uint64_t e = 0; e < count; e++)
        bgi_store(to, input->own, (int64_t)e, bgi_load(from, tensor, (int64_t)(first + e)));
}

void bgi_compiled_set_inputs(bgi_compiled *compiled, const void *const *tensors, uint64_t first)
{
    for (uint32_t i = 0; i < compiled->input_count; i++) {
        bgi_compiled_input *input = &compiled->inputs[i];
        const bg_type *type = &input->stream.micro_batch_type;
        const uint64_t elements = (uint64_t)bg_type_element_count(type);
        const uint64_t row = elements / compiled->shape.micro_batch;

        if (input->argument != UINT32_MAX || tensors == NULL) {
            compiled->input_data[i] = input->own; /* NULL: from the infeed */
        } else if (!input->is_cast) {
            compiled->input_data[i] =
                (const char *)tensors[input->tensor] + first * row * bg_dtype_size_bytes(type->dtype);
        } else {
            cast_samples(input, tensors[input->tensor], first * row, elements * input->stream.count);
            compiled->input_data[i] = input->own;
        }
    }
}

void bgi_compiled_set_argument(bgi_compiled *compiled, uint32_t argument, double value)
{
    for (uint32_t i = 0; i < compiled->input_count; i++) {
        const bgi_compiled_input *input = &compiled->inputs[i];
        if (input->argument == argument)
            for (int64_t e = 0; e < bg_type_element_count(&input->stream.micro_batch_type); e++)
                bgi_store(input->stream.micro_batch_type.dtype, input->own, e, value);
    }
}

/* ---- outputs ---- */

/* Returns how many values of the output a replica has in a weight update: one for each micro-batch, or one if the
 * update makes the output. */
static uint64_t count_in_update(const bgi_compiled *compiled, const bgi_compiled_output *output)
{
    const uint64_t iterations = compiled->shape.iterations;
    const uint64_t updates = output->mode == BG_OUTPUT_EVERY_N ? iterations / output->period : iterations;
    const bool is_whole = output->mode == BG_OUTPUT_ALL || output->mode == BG_OUTPUT_EVERY_N;

    if (!is_whole || updates == 0)
        return compiled->shape.accumulation;
    return output->stream.count / (updates * compiled->shape.replicas);
}

uint64_t bgi_output_value_count(const bgi_compiled *compiled, const bgi_compiled_output *output, uint64_t iterations)
{
    const uint64_t per_update = count_in_update(compiled, output) * compiled->shape.replicas;

    if (output->mode == BG_OUTPUT_ALL)
        return iterations * per_update;
    if (output->mode == BG_OUTPUT_EVERY_N)
        return iterations / output->period * per_update;
    return iterations > 0 ? compiled->shape.replicas : 0;
}

uint64_t bgi_shape_value(const bgi_call_shape *shape, uint64_t number, uint64_t replica)
{
    const uint64_t update = number / shape->accumulation, in_update = number % shape->accumulation;

    if (!shape->canonical)
        return number * shape->replicas + replica;
    return update * shape->accumulation * shape->replicas +
           (replica / shape->group * shape->accumulation + in_update) * shape->group + replica % shape->group;
}

uint64_t bgi_output_micro_batch(const bgi_compiled *compiled, const bgi_compiled_output *output, uint64_t iterations,
                                uint64_t index)
{
    const bgi_call_shape *shape = &compiled->shape;
    const uint64_t micro_batches = (uint64_t)shape->accumulation * shape->replicas;
    const uint64_t per_update = count_in_update(compiled, output) * compiled->shape.replicas;
    uint64_t update = index / per_update;

    if (output->mode == BG_OUTPUT_FINAL && shape->canonical)
        return bgi_shape_value(shape, iterations * shape->accumulation - 1, index);
    if (output->mode == BG_OUTPUT_FINAL)
        return iterations * micro_batches - shape->replicas + index;
    if (output->mode == BG_OUTPUT_EVERY_N)
        update = (update + 1) * output->period - 1;
    /* The value of an update is returned with the update's last micro-batch. */
    return (update + 1) * micro_batches - per_update + index % per_update;
}

bool bgi_output_is_first(const bg_trainer_call *call, uint64_t index)
{
    const uint32_t replica = (uint32_t)(index % call->replicas), groups = call->replicas / call->input_group_size;

    return call->input_grouping == BG_GROUPING_ORTHOGONAL ? replica < groups : replica % call->input_group_size == 0;
}
