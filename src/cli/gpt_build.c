/*
 * gpt_build.c: builds the language model for the trainer, and interprets the outputs of a call.
 */
#include "cli/gpt.h"

#include "core/error.h"

const char *const gpt_inputs[] = {"tokens", "labels"};

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
    model.attention_serialization = config->attention_serialization;
    model.checkpoint_layers = true;
    return model;
}

static bg_value add_model(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch)
{
    const bgi_gpt_config *config = user;
    const bg_mesh mesh = {1, (uint32_t)config->tensor_parallel_1, (uint32_t)config->tensor_parallel_2};
    bg_gpt_options model = gpt_describe_model(config);

    (void)task;
    model.micro_batch = micro_batch;
    bg_graph_set_mesh(graph, &mesh);
    bg_graph_set_parameter_dtype(graph, bgi_gpt_config_weights(config));
    return bg_gpt_build(graph, &model).loss;
}

static double find_rate(void *user, uint64_t step)
{
    return bgi_gpt_config_learning_rate(user, step);
}

bg_status gpt_build(void *settings, const cli_training *training, cli_build *out, bg_error *error)
{
    gpt_settings *own = settings;
    const bgi_gpt_config *config = &own->config;
    bg_trainer_options *options = &out->trainer;

    (void)training;
    out->training = gpt_plan_options(&own->options, config);
    out->plan_parts = CLI_PLAN_STAGES | CLI_PLAN_MEMORY | CLI_PLAN_PHASES | CLI_PLAN_REMOTE | CLI_PLAN_TIMETABLE;
    out->quiet = own->options.quiet;
    options->model = add_model;
    options->model_user = &own->config;
    options->micro_batch[BG_TRAINER_FIT] = (uint32_t)config->micro_batch_size;
    options->max_epochs =
        own->options.library.replay != NULL ? 1 : UINT64_MAX; /* the number of steps ends the training */
    options->max_steps = own->options.stop > 0 ? own->options.stop : (uint64_t)config->steps;
    options->checkpoint_steps = (uint64_t)config->checkpoint_steps;
    options->learning_rate = find_rate;
    options->learning_rate_user = &own->config;
    options->learning_rate_updates = true;
    options->interrupt = &cli_received_signal;
    return bgi_gpt_config_optimizer(config, &options->optimizer, error);
}

/* ---- outputs of a call ---- */

/* Returns the *out_count values of an output for update `index`. */
static const float *find_values(const bg_trainer_call *call, const char *name, uint64_t index, uint64_t *out_count)
{
    bg_stream stream = {.count = 0};
    const float *values = bg_trainer_call_output(call, name, &stream);

    *out_count = stream.count / call->update_count;
    return values + index * *out_count;
}

/* Returns the mean loss over the copies of the model. Replicas that share a copy have the same losses. */
double gpt_call_loss(const bgi_gpt_config *config, const bg_trainer_call *call, uint64_t index)
{
    const uint64_t replicas_per_copy = (uint64_t)config->tensor_parallel_1 * (uint64_t)config->tensor_parallel_2;
    uint64_t count;
    const float *losses = find_values(call, "loss", index, &count);
    const uint64_t copies = count / replicas_per_copy;
    double sum = 0.0;

    for (uint64_t i = 0; i < copies; i++)
        sum += (double)losses[i * replicas_per_copy];
    return sum / (double)copies;
}

/* Returns the output's first value for update `index`. Norms and scales are the same on all replicas. */
static double find_first(const bg_trainer_call *call, const char *name, uint64_t index)
{
    uint64_t count;

    return (double)*find_values(call, name, index, &count);
}

double gpt_call_norm(const bg_trainer_call *call, uint64_t index)
{
    return find_first(call, "gradient_norm", index);
}

bool gpt_call_has_scale(const bg_trainer_call *call)
{
    return bg_trainer_call_output(call, "loss_scale", NULL) != NULL;
}

double gpt_call_scale(const bg_trainer_call *call, uint64_t index)
{
    return find_first(call, "loss_scale", index);
}

double gpt_call_rate(const bgi_gpt_config *config, const bg_trainer_call *call, uint64_t index)
{
    return bgi_gpt_config_learning_rate(config, call->first_update + index);
}
