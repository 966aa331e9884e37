/*
 * gpt_runner.c: the language model, compiled for training, with memory for its outputs.
 */
#include "cli/gpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/feed.h>

#include "cli/command.h"
#include "core/error.h"

bg_gpt_options gpt_describe_model(const bgi_gpt_config *config)
{
    bg_gpt_options model = bg_gpt_defaults();

    model.layers = config->layers;
    model.hidden = config->hidden_size;
    model.heads = config->heads;
    model.sequence_length = config->sequence_length;
    model.positions = config->max_positional_length;
    model.vocabulary = config->vocab_size;
    model.micro_batch = config->micro_batch_size;
    model.dropout = config->eval ? 0.0 : config->dropout_prob;
    model.dtype = bg_dtype_find(config->precision);
    model.attention_serialisation = config->attention_serialisation;
    model.checkpoint_layers = true;
    return model;
}

static bg_status describe_optimiser(const bgi_gpt_config *config, bg_optimiser *out, bg_error *error)
{
    bg_optimiser optimiser;

    BGI_TRY(bg_optimiser_parse(config->optimizer, bgi_gpt_config_learning_rate(config, 0), &optimiser, error));
    optimiser.beta1 = config->beta1;
    optimiser.beta2 = config->beta2;
    optimiser.epsilon = config->epsilon;
    optimiser.weight_decay = config->weight_decay;
    optimiser.momentum = config->momentum;
    optimiser.combined = config->combined;
    optimiser.velocity_scaling = config->velocity_scaling;
    optimiser.alpha = config->alpha;
    optimiser.centred = config->centred;
    optimiser.tf_variant = config->tf_variant;
    optimiser.dampening = config->dampening;
    optimiser.nesterov = config->nesterov;
    optimiser.uncorrected = !config->bias_correction;
    optimiser.max_weight_norm = config->max_weight_norm;
    optimiser.decay_matrices_only = true;
    *out = optimiser;
    return BG_OK;
}

bg_status gpt_plan_create(const gpt_options *options, const bgi_gpt_config *config, bg_plan **out, bg_error *error)
{
    const bg_gpt_options model = gpt_describe_model(config);
    const bg_options plan_options = gpt_plan_options(options, config);
    const bg_mesh mesh = {1, (uint32_t)config->tensor_parallel_1, (uint32_t)config->tensor_parallel_2};
    bg_optimiser optimiser;
    bg_graph *graph = NULL;
    bg_status status;
    bg_gpt net;

    BGI_TRY(describe_optimiser(config, &optimiser, error));
    BGI_TRY(bg_graph_create(&graph, error));
    bg_graph_set_mesh(graph, &mesh);
    bg_graph_set_parameter_dtype(graph, bg_dtype_find(config->weights));
    net = bg_gpt_build(graph, &model);
    status = bg_plan_create_training(graph, net.loss, &optimiser, &plan_options, out, error);
    bg_graph_destroy(graph);
    return status;
}

bg_status gpt_compile_alone(const gpt_options *options, const bgi_gpt_config *config, bg_error *error)
{
    bg_plan *plan = NULL;
    char *text = NULL;
    bg_status status;

    BGI_TRY(gpt_plan_create(options, config, &plan, error));
    cli_plan_report(plan, "samples", false);
    status = bg_plan_print_placement(plan, &text, error);
    if (status == BG_OK)
        printf("\nStages\n%s", text);
    free(text);
    text = NULL;
    if (status == BG_OK)
        status = bg_plan_print_memory(plan, &text, error);
    if (status == BG_OK)
        printf("\nMemory\n%s", text);
    free(text);
    text = NULL;
    if (status == BG_OK)
        status = bg_plan_print_phases(plan, &text, error);
    if (status == BG_OK)
        printf("\nMemory by phase\n%s", text);
    free(text);
    bg_plan_destroy(plan);
    return status;
}

static bg_status find_output(const gpt_runner *runner, const char *name, const float **out, uint64_t *out_count,
                             bg_error *error)
{
    const uint32_t index = bg_session_find_output(runner->session, name);
    bg_stream stream;

    if (index == UINT32_MAX)
        return bg_error_set(error, BG_ERROR_INTERNAL, "the plan has no output `%s`", name);
    BGI_TRY(bg_session_output(runner->session, index, &stream, error));
    *out = runner->outputs[index];
    *out_count = stream.count;
    return BG_OK;
}

static bg_status bind_streams(gpt_runner *runner, bg_error *error)
{
    const uint32_t inputs = bg_session_input_count(runner->session), outputs = bg_session_output_count(runner->session);

    runner->inputs = calloc(inputs + 1, sizeof *runner->inputs);
    runner->outputs = calloc(outputs + 1, sizeof *runner->outputs);
    runner->rates = calloc(runner->updates_per_run, sizeof *runner->rates);
    if (runner->inputs == NULL || runner->outputs == NULL || runner->rates == NULL)
        return bgi_error_memory(error, "inputs and outputs", 0);
    for (uint32_t i = 0; i < outputs; i++) {
        bg_stream stream;

        BGI_TRY(bg_session_output(runner->session, i, &stream, error));
        runner->outputs[i] = calloc(1, stream.size_bytes);
        if (runner->outputs[i] == NULL)
            return bgi_error_memory(error, stream.name, stream.size_bytes);
    }
    runner->tokens = bg_session_find_input(runner->session, "tokens");
    runner->labels = bg_session_find_input(runner->session, "labels");
    BGI_TRY(find_output(runner, "loss", &runner->losses, &runner->losses_per_update, error));
    BGI_TRY(find_output(runner, "gradient_norm", &runner->norms, &runner->norms_per_update, error));
    if (bg_session_find_output(runner->session, "loss_scale") != UINT32_MAX)
        BGI_TRY(find_output(runner, "loss_scale", &runner->scales, &runner->norms_per_update, error));
    runner->losses_per_update /= runner->updates_per_run;
    runner->norms_per_update /= runner->updates_per_run;
    return BG_OK;
}

bg_status gpt_runner_create(const gpt_options *options, const bgi_gpt_config *config, gpt_runner *out, bg_error *error)
{
    gpt_runner runner = {.updates_per_run = (uint64_t)config->device_iterations,
                         .replicas_per_copy =
                             (uint64_t)config->tensor_parallel_1 * (uint64_t)config->tensor_parallel_2};
    bg_status status = gpt_plan_create(options, config, &runner.plan, error);

    if (status == BG_OK)
        status = bg_session_create(runner.plan, NULL, &runner.session, error);
    if (status == BG_OK)
        status = bind_streams(&runner, error);
    if (status != BG_OK) {
        gpt_runner_clear(&runner);
        return status;
    }
    runner.samples_per_run = bg_plan_summarise(runner.plan).samples_per_run;
    *out = runner;
    return BG_OK;
}

void gpt_runner_clear(gpt_runner *runner)
{
    if (runner->outputs != NULL)
        for (uint32_t i = 0; i < bg_session_output_count(runner->session); i++)
            free(runner->outputs[i]);
    free(runner->outputs);
    free(runner->inputs);
    free(runner->rates);
    bg_session_destroy(runner->session);
    bg_plan_destroy(runner->plan);
    *runner = (gpt_runner){.plan = NULL};
}

bg_status gpt_runner_run(gpt_runner *runner, const bgi_gpt_config *config, const void *tokens, const void *labels,
                         bg_error *error)
{
    const bg_run run = {.inputs = runner->inputs, .outputs = runner->outputs, .learning_rates = runner->rates};

    runner->inputs[runner->tokens] = tokens;
    runner->inputs[runner->labels] = labels;
    for (uint64_t i = 0; i < runner->updates_per_run; i++)
        runner->rates[i] = bgi_gpt_config_learning_rate(config, bg_session_step(runner->session) + i);
    return bg_session_execute(runner->session, &run, NULL, error);
}

double gpt_runner_loss(const gpt_runner *runner, uint64_t index)
{
    const uint64_t count = runner->losses_per_update, copies = count / runner->replicas_per_copy;
    double sum = 0.0;

    for (uint64_t i = 0; i < copies; i++)
        sum += (double)runner->losses[index * count + i * runner->replicas_per_copy];
    return sum / (double)copies;
}

double gpt_runner_norm(const gpt_runner *runner, uint64_t index)
{
    return (double)runner->norms[index * runner->norms_per_update]; /* the same on all replicas */
}

double gpt_runner_scale(const gpt_runner *runner, uint64_t index)
{
    return (double)runner->scales[index * runner->norms_per_update];
}
