/*
 * onnx_graph.c: builds the graph of a model from a file for the trainer, and adds loss and metric in a separate block
 * "loss".
 */
#include "cli/onnx_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/text.h"

enum { TOP = 5 };

static const char *const loss_block = "loss";

/* ---- the file ---- */

static const bg_onnx_contents *contents_of(const onnx_settings *settings)
{
    return bg_onnx_contents_of(settings->onnx);
}

/* Splits the values of --size, such as "batch=32". The sizes point to copies of the symbols, which must not move. */
static bg_status read_sizes(onnx_settings *settings, bg_error *error)
{
    const cli_texts *given = &settings->sizes;
    size_t bytes = 1;
    char *at;

    for (uint32_t i = 0; i < given->count; i++)
        bytes += strlen(given->values[i]) + 1;
    settings->size_memory = at = malloc(bytes);
    if (at == NULL)
        return bgi_error_memory(error, "sizes", bytes);
    for (uint32_t i = 0; i < given->count; i++) {
        const char *equals = strrchr(given->values[i], '=');
        char *end;
        const long long size = equals != NULL ? strtoll(equals + 1, &end, 10) : 0;

        if (equals == NULL || equals == given->values[i] || *end != '\0' || size < 1)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--size is `%s`; it must be NAME=N: a symbol of the file (or INPUT:2, a dimension of "
                                "an input) and its size, at least 1",
                                given->values[i]);
        memcpy(at, given->values[i], (size_t)(equals - given->values[i]));
        at[equals - given->values[i]] = '\0';
        settings->bound[settings->bound_count++] = (bg_onnx_size){.symbol = at, .size = size};
        at += strlen(at) + 1;
    }
    return BG_OK;
}

static bg_status find_output(onnx_settings *settings, bg_error *error)
{
    const bg_onnx_contents *contents = contents_of(settings);
    bgi_string list = {0};

    if (contents->output_count == 0)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: the model has no output", settings->path);
    for (uint32_t i = 0; i < contents->output_count; i++) {
        if (settings->output == NULL || strcmp(contents->outputs[i].name, settings->output) == 0) {
            settings->output_index = i;
            bgi_string_clear(&list);
            return BG_OK;
        }
        bgi_string_add(&list, "%s`%s`", i > 0 ? ", " : "", contents->outputs[i].name);
    }
    bg_error_set(error, BG_ERROR_INVALID, "--output %s: the model has no such output; its outputs are %s",
                 settings->output, list.data != NULL ? list.data : "none");
    bgi_string_clear(&list);
    return BG_ERROR_INVALID;
}

/* Sets the size of a micro-batch: the file's if the file fixes it, otherwise that of --batch-size, or 32. */
static bg_status find_batch(onnx_settings *settings, bg_error *error)
{
    const bg_onnx_contents *contents = contents_of(settings);
    cli_recipe *recipe = &settings->recipe;

    for (uint32_t i = 0; i < contents->input_count; i++) {
        const bg_onnx_port *port = &contents->inputs[i];

        if (port->rank == 0 || port->dims[0].size < 1)
            continue;
        if (recipe->batch_size != 0 && (uint64_t)port->dims[0].size != recipe->batch_size)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--batch-size %" PRIu64 ": input `%s` of %s is fixed at %" PRId64
                                " samples; leave the option out, or export the model with a symbolic first "
                                "dimension (dynamic_axes)",
                                recipe->batch_size, port->name, settings->path, port->dims[0].size);
        recipe->batch_size = (uint64_t)port->dims[0].size;
        settings->is_fixed_batch = true;
    }
    if (recipe->batch_size == 0)
        recipe->batch_size = 32;
    return BG_OK;
}

bg_status onnx_open_model(onnx_settings *settings, bg_error *error)
{
    if (settings->path == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "no model is given; give the path of an ONNX file");
    BGI_TRY(bg_onnx_open(settings->path, &settings->onnx, error));
    BGI_TRY(read_sizes(settings, error));
    BGI_TRY(find_output(settings, error));
    BGI_TRY(find_batch(settings, error));
    return onnx_read_normalizations(settings, error);
}

bg_status onnx_bind(onnx_settings *settings, const bg_onnx_port *port, uint32_t dim, int64_t size, bg_error *error)
{
    char symbol[256], *made = NULL;

    for (uint32_t i = 0; i < settings->bound_count; i++) {
        snprintf(symbol, sizeof symbol, "%s:%" PRIu32, port->name, dim);
        if (strcmp(settings->bound[i].symbol, symbol) == 0)
            return BG_OK;
        if (port->dims[dim].symbol == NULL || strcmp(settings->bound[i].symbol, port->dims[dim].symbol) != 0)
            continue;
        if (settings->bound[i].size == size)
            return BG_OK;
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "dimension %" PRIu32 " of input `%s` is %" PRId64 " in its data, but `%s` is %" PRId64, dim,
                            port->name, size, port->dims[dim].symbol, settings->bound[i].size);
    }
    if (settings->bound_count == CLI_LIST_LIMIT)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "more than %d symbolic dimensions", CLI_LIST_LIMIT);
    if (port->dims[dim].symbol == NULL) { /* "INPUT:2" */
        snprintf(symbol, sizeof symbol, "%s:%" PRIu32, port->name, dim);
        made = settings->made[settings->bound_count] = strdup(symbol);
        if (made == NULL)
            return bgi_error_memory(error, "a size", sizeof symbol);
    }
    settings->bound[settings->bound_count++] =
        (bg_onnx_size){.symbol = made != NULL ? made : port->dims[dim].symbol, .size = size};
    return BG_OK;
}

bg_onnx_options onnx_build_options(const onnx_settings *settings, int64_t micro_batch)
{
    bg_onnx_options options = bg_onnx_defaults();

    options.mode = settings->mode != NULL && strcmp(settings->mode, "eval") == 0 ? BG_ONNX_EVAL : BG_ONNX_TRAIN;
    options.batch_size = micro_batch;
    options.sizes = settings->bound;
    options.size_count = settings->bound_count;
    options.freeze = settings->freeze.values;
    options.freeze_count = settings->freeze.count;
    options.train = settings->unfreeze.values;
    options.train_count = settings->unfreeze.count;
    options.freeze_option = "--freeze";
    options.train_option = "--unfreeze";
    options.block_depth = (uint32_t)settings->block_depth;
    return options;
}

bg_status onnx_try(onnx_settings *settings, bg_error *error)
{
    const bg_onnx_options options = onnx_build_options(settings, (int64_t)settings->recipe.batch_size);
    bg_graph *graph = NULL;
    bg_status status;

    BGI_TRY(bg_graph_create(&graph, error));
    status = bg_onnx_build(settings->onnx, &options, graph, error);
    bg_graph_destroy(graph);
    return status;
}

bg_status onnx_check_trainable(const onnx_settings *settings, bg_error *error)
{
    static const char *const quantized[] = {"QLinear",        "ConvInteger",      "MatMulInteger",
                                            "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"};
    const bg_onnx_contents *contents = contents_of(settings);
    uint32_t trained = 0;

    for (uint32_t i = 0; i < contents->node_count; i++)
        for (size_t k = 0; k < sizeof quantized / sizeof quantized[0]; k++)
            if (strncmp(contents->nodes[i].op, quantized[k], strlen(quantized[k])) == 0)
                return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                                    "%s: node `%s` is a %s, and a quantized model cannot be trained; train the "
                                    "original model (brigade infer runs this one)",
                                    settings->path, contents->nodes[i].name, contents->nodes[i].op);
    for (uint32_t i = 0; i < contents->weight_count; i++)
        trained += contents->weights[i].use == BG_ONNX_PARAMETER;
    if (trained > 0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "%s: nothing is left to train: %s", settings->path,
                        settings->freeze.count > 0 ? "--freeze names all parameters" : "the model has no parameter");
}

/* ---- loss and metric ---- */

const char *onnx_metric_name(const onnx_settings *settings)
{
    if (settings->metric != NULL)
        return strcmp(settings->metric, "none") != 0 ? settings->metric : NULL;
    return settings->loss != NULL && onnx_loss_has_labels(settings->loss) ? "accuracy" : NULL;
}

const onnx_metric *onnx_metric_of(const onnx_settings *settings)
{
    return onnx_metric_find(onnx_metric_name(settings));
}

double onnx_rows_per_sample(const onnx_settings *settings)
{
    return settings->target_name != NULL ? (double)bg_type_element_count(&settings->target_type) : 1.0;
}

/* Moves classes to the last dimension, where cross-entropy expects them. */
static bg_value classes_last(bg_graph *graph, bg_value scores, int32_t class_axis)
{
    const uint32_t rank = bg_graph_type(graph, scores).rank;
    uint32_t permutation[BG_MAX_RANK] = {0}, to = 0;

    if ((uint32_t)class_axis + 1 == rank)
        return scores;
    for (uint32_t i = 0; i < rank; i++)
        if (i != (uint32_t)class_axis)
            permutation[to++] = i;
    permutation[to] = (uint32_t)class_axis;
    return bg_transpose(graph, NULL, scores, permutation);
}

static bg_value add_target(bg_graph *graph, const onnx_settings *settings, int64_t micro_batch)
{
    bg_type type = settings->target_type;

    for (uint32_t i = type.rank; i > 0; i--)
        type.dims[i] = type.dims[i - 1];
    type.dims[0] = micro_batch;
    type.rank++;
    return bg_graph_input(graph, settings->target_name, &type);
}

/* Counts predictions on the same side of 0.5 as the target; for logits the threshold is 0. */
static bg_value count_sides(bg_graph *graph, const char *name, const onnx_loss *loss, bg_value output, bg_value target)
{
    const bg_dtype dtype = bg_graph_type(graph, output).dtype;
    const bg_type type = bg_scalar(BG_FLOAT32);
    const float half = 0.5f, edge = loss->function == BG_LOSS_BINARY_LOGITS ? 0.0f : half;
    const bg_value edges = bg_cast(graph, NULL, bg_graph_constant(graph, "loss.edge", &type, &edge), dtype);
    const bg_value halves = bg_cast(graph, NULL, bg_graph_constant(graph, "loss.half", &type, &half), dtype);
    const bg_value same = bg_compare(graph, NULL, BG_EQUAL, bg_compare(graph, NULL, BG_GREATER, output, edges),
                                     bg_compare(graph, NULL, BG_GREATER, target, halves));

    return bg_reduce(graph, name, BG_REDUCE_SUM, bg_cast(graph, NULL, same, BG_INT32), NULL, 0, false);
}

/* Adds the sums from which a score is computed. */
static bg_value add_sums(bg_graph *graph, const onnx_loss *loss, const onnx_metric *metric, bg_value output,
                         bg_value target)
{
    if (metric->score == BG_SCORE_PERPLEXITY)
        return bg_likelihood_sums(graph, metric->name, output, target, ONNX_IGNORED_LABEL);
    if (onnx_loss_is_binary(loss))
        return bg_binary_counts(graph, metric->name, output, target,
                                loss->function == BG_LOSS_BINARY_LOGITS ? 0.0 : 0.5);
    return bg_class_counts(graph, metric->name, output, target);
}

static void add_metric(bg_graph *graph, const onnx_loss *loss, const onnx_metric *metric, bg_value output,
                       bg_value target)
{
    const char *name = metric->name;
    bg_value value;

    if (metric->kind == ONNX_METRIC_SCORE)
        value = add_sums(graph, loss, metric, output, target);
    else if (metric->kind == ONNX_METRIC_MEAN)
        value = bg_pointwise_loss(graph, name, strcmp(name, "mae") == 0 ? BG_LOSS_ABSOLUTE : BG_LOSS_SQUARED, 0.0,
                                  output, target, BG_LOSS_MEAN);
    else if (onnx_loss_is_binary(loss))
        value = count_sides(graph, name, loss, output, target);
    else if (strcmp(name, "accuracy") == 0)
        value = bg_correct_count(graph, name, output, target);
    else
        value = bg_top_k_correct_count(graph, name, output, target, TOP);
    bg_graph_output(graph, name, value);
}

static bg_value add_loss(bg_graph *graph, const onnx_settings *settings, bg_value output, int64_t micro_batch)
{
    const onnx_loss *loss = settings->loss;
    const onnx_metric *metric = onnx_metric_of(settings);
    bg_value target = {0}, value;

    if (settings->target_name != NULL)
        target = add_target(graph, settings, micro_batch);
    if (onnx_loss_has_labels(loss))
        output = classes_last(graph, output, settings->class_axis);
    if (loss->kind == ONNX_LOSS_OUTPUT)
        value = bg_reshape(graph, "loss", output, 0, NULL);
    else if (loss->kind == ONNX_LOSS_CLASSES)
        value = bg_cross_entropy(graph, "loss", output, target, BG_LOSS_MEAN, ONNX_IGNORED_LABEL);
    else if (loss->kind == ONNX_LOSS_LOGARITHMS)
        value = bg_nll_loss(graph, "loss", output, target, (bg_value){0}, BG_LOSS_MEAN, ONNX_IGNORED_LABEL);
    else
        value = bg_pointwise_loss(graph, "loss", loss->function, loss->parameter, output, target, BG_LOSS_MEAN);
    if (metric != NULL)
        add_metric(graph, loss, metric, output, target);
    return value;
}

/* Builds the graph of a task. In prediction its outputs are those of the file; otherwise they are loss and metric. */
bg_value onnx_model_add(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch)
{
    const onnx_settings *settings = user;
    const bg_onnx_options options = onnx_build_options(settings, micro_batch);
    const bg_onnx_contents *contents;
    bg_value loss = {0};
    bg_error error = {0};

    if (bg_onnx_build(settings->onnx, &options, graph, &error) != BG_OK) {
        bg_graph_fail(graph, error.status, "%s", error.message);
        return loss;
    }
    contents = contents_of(settings);
    if (task == BG_TRAINER_PREDICT) {
        for (uint32_t i = 0; i < contents->output_count; i++)
            bg_graph_output(graph, contents->outputs[i].name, contents->outputs[i].value);
        return loss;
    }
    bg_block_begin(graph, loss_block, BG_DEVICE_NONE);
    loss = add_loss(graph, settings, contents->outputs[settings->output_index].value, micro_batch);
    bg_block_end(graph);
    bg_graph_output(graph, "loss", loss);
    return loss;
}
