/*
 * onnx_options.c: defines the options of `brigade train MODEL.onnx`, and processes them: it reads the file, opens the
 * data and builds the model once.
 */
#include "cli/onnx_model.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "core/text.h"

#define AT(field) .offset = offsetof(onnx_settings, field)

const cli_option onnx_train_flags[] = {
    {.help = "Data and loss"},
    {CLI_TEXT_LIST, "input", AT(inputs), .value = "NAME=FILE...",
     .help = "data of an input of the model: x=IMAGES.npy, x=DATA.npz:ARRAY, x=TABLE.csv:COLUMN,COLUMN, "
             "x=FILE.safetensors:TENSOR, an IDX file, or x=FOLDER with a folder of PNG images for each class"},
    {CLI_TEXT, "target", AT(target), .value = "FILE", .default_text = "none",
     .help = "target for the output, in the same forms (FOLDER:classes): labels of classes, or numbers"},
    {CLI_TEXT, "loss", AT(loss_name), .value = "NAME", .default_text = "by the target",
     .help = "cross-entropy, nll, mse, l1, smooth-l1, huber, bce, bce-logits, or the name of an output that is the "
             "loss. Default: cross-entropy for integer targets, otherwise mse"},
    {CLI_TEXT, "output", AT(output), .value = "NAME", .default_text = "the first",
     .help = "the output to compare with the target"},
    {CLI_CHOICE, "metric", AT(metric),
     .choices = "accuracy|top5|f1|f1-micro|f1-weighted|f1-binary|precision|recall|perplexity|mae|mse|none",
     .default_text = "accuracy with labels",
     .help = "metric to show with the loss. precision, recall and f1 are means over the classes that occur, "
             "f1-weighted weights classes by their labels, and f1-binary is that of class 1 of two"},
    {CLI_TEXT_LIST, "validation", AT(validation), .value = "NAME=FILE...", .default_text = "none",
     .help = "validation data, used after each epoch: x=FILE,target=FILE"},
    {CLI_TEXT, "normalize", AT(normalize), .value = "LIST|auto|none", .default_text = "the model's, or none",
     .help = "MEAN,DEVIATION of float inputs, or the means of all channels and then their deviations; uint8 is divided "
             "by 255 first. auto measures them over the training data: one of each for each column of a table and each "
             "plane of [C, ...], otherwise one for all values. The saved model names them"},
    {CLI_FLAG, "skip-incomplete", AT(skip_incomplete),
     .help = "leave out the rows of a CSV file in which an input or the target is missing (a blank field, NA, nan, "
             "inf); inputs and target must be columns of one file"},
    {CLI_FLAG, "no-shuffle", AT(recipe.no_shuffle), .help = "keep the samples in the files' order"},
    {CLI_CHOICE, "last-batch", AT(recipe.last_batch), .choices = "drop|smaller",
     .default_text = "smaller; drop if the file fixes the batch",
     .help = "what happens to samples of an epoch that do not fill a call"},

    {.help = "Training"},
    {CLI_COUNT, "epochs", AT(recipe.epochs), .value = "N", .minimum = 0, .maximum = INT32_MAX,
     .default_text = "1, or as many as --steps needs", .help = "number of passes over the data"},
    {CLI_COUNT, "steps", AT(recipe.steps), .value = "N", .minimum = 1, .maximum = UINT64_MAX,
     .default_text = "until the epochs are done", .help = "stop after N weight updates"},
    {CLI_TEXT, "limit-train-batches", AT(recipe.limits[BG_TRAINER_FIT]), .value = "N|SHARE", .default_text = "all",
     .help = "batches of an epoch, each for one call of the session; with a decimal point a share of them: 0.25"},
    {CLI_TEXT, "limit-val-batches", AT(recipe.limits[BG_TRAINER_VALIDATE]), .value = "N|SHARE", .default_text = "all",
     .help = "batches of each validation, in the same form; 0 leaves validations out"},
    {CLI_COUNT, "batch-size", AT(recipe.batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .default_text = "the file's, or 32", .help = "samples in a micro-batch"},
    {CLI_LIBRARY, .name = "gradient-accumulation"},
    {CLI_LIBRARY, .name = "device-iterations"},
    {CLI_TEXT, "optimizer", AT(recipe.optimizer), .value = "NAME",
     .help = "a name, and settings that differ from their defaults: sgd:momentum=0.9,nesterov; "
             "`brigade options optimizers` lists them"},
    {CLI_REAL, "learning-rate", AT(recipe.learning_rate), .value = "X", .help = "learning rate of the optimizer"},
    {CLI_TEXT, "rate-schedule", AT(recipe.rate_schedule), .value = "RULE", .default_text = "constant",
     .help = "schedule of the learning rate over --steps updates: constant, linear, cosine, polynomial, one_cycle, "
             "step, inverse_root or plateau (of the validations' losses); settings that are not defaults follow a "
             "colon: cosine:warmup=100,final=0.1, plateau:patience=2,factor=0.5"},
    {CLI_LIBRARY, .name = "seed"},

    {.help = "Model"},
    {CLI_CHOICE, "mode", AT(mode), .choices = "train|eval", .default_text = "train",
     .help = "mode of batch norms and dropouts; eval: running statistics and no dropout, also in training"},
    {CLI_TEXT_LIST, "freeze", AT(freeze), .value = "PATTERN...", .default_text = "nothing",
     .help = "parameters that are not trained: \"layer1.*\""},
    {CLI_TEXT_LIST, "unfreeze", AT(unfreeze), .value = "PATTERN...", .default_text = "nothing",
     .help = "exceptions from --freeze, and constants of the file to train"},
    {CLI_TEXT_LIST, "size", AT(sizes), .value = "NAME=N...", .default_text = "by the data",
     .help = "symbolic dimensions of the model: sequence=128, or x:2=128"},
    {CLI_COUNT, "block-depth", AT(block_depth), .value = "N", .maximum = UINT32_MAX,
     .help = "number of leading parts of a scope that name its block; with 1, layer1/0/conv1 is in block layer1; 0 "
             "means all parts"},
    {CLI_LIBRARY, .name = "precision"},

    {.help = "Devices"},
    {CLI_LIBRARY, .name = "strategy", .default_text = "single; pipelined with --stages"},
    {CLI_LIBRARY, .name = "schedule", .default_text = "interleaved; grouped if stages share devices"},
    {CLI_LIBRARY, .name = "stages", .default_text = "one",
     .more = "Blocks are the scopes of the nodes in the file, and `loss`"},
    {CLI_LIBRARY, .name = "replicas"},
    {CLI_LIBRARY, .name = "devices", .default_text = "one for each stage"},
    {CLI_LIBRARY, .name = "device-memory"},
    {CLI_LIBRARY, .name = "cores", .default_text = "all"},
    {CLI_LIBRARY, .name = "recompute"},
    {CLI_LIBRARY, .name = "offload"},
    {CLI_LIBRARY, .name = "shard"},

    {.help = "Files"},
    {CLI_TEXT, "save", AT(recipe.save_path), .value = "FILE", .default_text = "none",
     .help = "file for the trained weights: OUT.onnx (the model with new weights), .safetensors or .npz"},
    {CLI_TEXT, "init", AT(recipe.init_path), .value = "FILE", .default_text = "the model's weights",
     .help = "begin with the weights of a .safetensors or .npz file, or of a folder of safetensors files"},
    {CLI_TEXT, "log", AT(recipe.log_path), .value = "FILE", .default_text = "none",
     .help = "file or pipe for JSON lines, one for each weight update. With several ranks the first one writes it; "
             "with %r in the name each rank writes its own"},
#include "cli/recipe.def"

#include "cli/library.def"
    {CLI_GROUP, .group = BGI_OPTIONS_EXECUTION, .help = "Execution"},
    {CLI_GROUP, .group = BGI_OPTIONS_MEMORY, .help = "Memory"},
    {CLI_GROUP, .group = BGI_OPTIONS_REPLICAS, .help = "Replicas"},
    {CLI_GROUP, .group = BGI_OPTIONS_NUMERICS, .help = "Numerics"},
    {CLI_GROUP, .group = BGI_OPTIONS_REPORTING, .help = "Reporting"},
    CLI_OPTIONS_END,
};

void onnx_set_defaults(void *settings, const char *command)
{
    onnx_settings *own = settings;

    own->recipe = cli_recipe_defaults("train");
    own->recipe.command = command;
    own->recipe.data_hint = "give the same --input and --target";
    own->recipe.batch_size = 0;
    own->recipe.last_batch = NULL;
    own->recipe.library.loss_scaling = "1";
    own->recipe.library.options.reporting.output_mode = BG_OUTPUT_FINAL;
}

void onnx_clear_settings(void *settings)
{
    onnx_settings *own = settings;

    onnx_close_data(&own->test);
    onnx_close_data(&own->data);
    onnx_clear_normalizations(own);
    bg_onnx_destroy(own->onnx);
    free(own->size_memory);
    for (uint32_t i = 0; i < CLI_LIST_LIMIT; i++)
        free(own->made[i]);
    bgi_weights_source_close(own->recipe.init);
    cli_library_clear(&own->recipe.library);
}

/* ---- options from the command line ---- */

bg_status onnx_check_precision(bg_precision precision, bg_error *error)
{
    if (precision != BG_PRECISION_BF16_TRUE && precision != BG_PRECISION_16_TRUE)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                        "--precision %s: a model from a file keeps its weights in the file's types; use %s",
                        precision == BG_PRECISION_16_TRUE ? "16-true" : "bf16-true",
                        precision == BG_PRECISION_16_TRUE ? "16-mixed" : "bf16-mixed");
}

static bg_status check(const onnx_settings *settings, bg_error *error)
{
    const cli_recipe *recipe = &settings->recipe;
    const char *save = recipe->save_path;

    if (settings->path != NULL && bgi_text_ends_with(settings->path, ".csv"))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "%s is a table, but the first argument must be the model, an ONNX file; the table belongs to "
            "--input NAME=FILE.csv:COLUMN,COLUMN and --target FILE.csv:COLUMN",
            settings->path);
    BGI_TRY(cli_recipe_check(recipe, error));
    BGI_TRY(onnx_check_precision(recipe->library.options.numerics.precision, error));
    if (save != NULL && !bgi_text_ends_with(save, ".onnx") && !bgi_text_ends_with(save, ".safetensors") &&
        !bgi_text_ends_with(save, ".npz"))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--save %s: the name must end in .onnx (the model with new weights), .safetensors or .npz",
                            save);
    if (settings->validation.count > 0 && settings->inputs.count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--validation is given without --input, the data to train with; add --input");
    if (settings->target != NULL && settings->inputs.count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--target is given without --input, the samples of these targets; add --input");
    return BG_OK;
}

/* Sets defaults: the number of epochs is not limited if only --steps is given, and a smaller last batch is used unless
 * the file fixes the batch size. */
static void choose_limits(onnx_settings *settings)
{
    cli_recipe *recipe = &settings->recipe;

    if (recipe->steps > 0 && !cli_library_is_given(&recipe->library, "epochs"))
        recipe->epochs = UINT64_MAX;
    if (recipe->last_batch == NULL)
        recipe->last_batch = settings->is_fixed_batch ? "drop" : "smaller";
}

/* Chooses a single device by default. The library's default, one stage for each block, would make one stage for each
 * layer of a model from a file. */
void onnx_choose_strategy(onnx_settings *settings)
{
    const cli_library *library = &settings->recipe.library;
    bg_execution_options *execution = &settings->recipe.library.options.execution;

    if (cli_library_is_given(library, "strategy") || execution->stages != NULL ||
        (library->run_options != NULL && bg_run_options_is_given(library->run_options, "strategy")))
        return;
    execution->strategy = BG_STRATEGY_SINGLE;
}

static bg_status check_last_batch(const onnx_settings *settings, bg_error *error)
{
    const cli_recipe *recipe = &settings->recipe;
    const uint64_t per_call = cli_recipe_samples_per_call(recipe);
    const uint64_t samples = settings->data.set != NULL ? bg_dataset_sample_count(settings->data.set) : 0;

    if (settings->is_fixed_batch && strcmp(recipe->last_batch, "smaller") == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--last-batch smaller: %s fixes the size of a batch, %" PRIu64
                            "; export it with a symbolic first dimension (dynamic_axes), or drop the rest",
                            settings->path, recipe->batch_size);
    if (samples > 0 && strcmp(recipe->last_batch, "drop") == 0 && samples < per_call)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "a training call takes --batch-size %" PRIu64
                            " x --device-iterations %u x --gradient-accumulation %u x --replicas %u = %" PRIu64
                            " samples, but there are %" PRIu64,
                            recipe->batch_size, recipe->library.options.execution.device_iterations,
                            recipe->library.options.execution.gradient_accumulation,
                            recipe->library.options.replicas.count, per_call, samples);
    return BG_OK;
}

/* Checks that the metric of --checkpoint-keep-best is the loss, or the metric of a validation. */
static bg_status check_best(const onnx_settings *settings, bg_error *error)
{
    const char *best = settings->recipe.checkpoint_best, *metric = onnx_metric_name(settings);

    if (best == NULL || strcmp(best, "loss") == 0)
        return BG_OK;
    if (metric == NULL || strcmp(best, metric) != 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--checkpoint-keep-best %s: this training measures `loss`%s%s%s",
                            best, metric != NULL ? " and `" : " only", metric != NULL ? metric : "",
                            metric != NULL ? "`" : "");
    if (settings->validation.count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--checkpoint-keep-best %s needs --validation, which measures it after each epoch; give "
                            "validation data, or name the loss",
                            best);
    return BG_OK;
}

int onnx_resolve(void *settings, bg_error *error)
{
    onnx_settings *own = settings;
    cli_recipe *recipe = &own->recipe;

    recipe->log_path = cli_ranks_log(recipe->log_path);
    if (cli_library_read(&recipe->library, error) != BG_OK)
        return CLI_USAGE;
    cli_recipe_replay(recipe);
    onnx_choose_strategy(own);
    recipe->no_validation = own->validation.count > 0 ? NULL : "give --validation, or use another rule";
    if (check(own, error) != BG_OK)
        return CLI_USAGE;
    if (cli_weights_open(recipe->init_path, &recipe->init, error) != BG_OK)
        return CLI_FAILED;
    if (own->path == NULL || onnx_open_model(own, error) != BG_OK || onnx_open_data(own, error) != BG_OK) {
        if (own->path == NULL)
            bg_error_set(error, BG_ERROR_INVALID,
                         "no model is given: brigade train MODEL.onnx --input x=FILE --target FILE; the model comes "
                         "before options that take several words");
        return own->path == NULL || error->status == BG_ERROR_INVALID ? CLI_USAGE : CLI_FAILED;
    }
    choose_limits(own);
    return check_last_batch(own, error) == BG_OK && check_best(own, error) == BG_OK ? CLI_DONE : CLI_USAGE;
}
