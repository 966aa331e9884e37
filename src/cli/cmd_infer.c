/*
 * cmd_infer.c: `brigade infer MODEL.onnx`: runs a model from a file on arrays from files and writes the outputs as
 * .npy or .csv.
 */
#include "cli/onnx_model.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/readers.h>

#include "cli/command.h"
#include "cli/profile.h"
#include "core/error.h"
#include "core/file.h"
#include "core/narrow.h"
#include "core/text.h"

typedef struct infer_settings {
    onnx_settings model;
    cli_texts outputs;
    cli_profile profile;
} infer_settings;

#define AT(field) .offset = offsetof(infer_settings, field)

static const cli_option infer_flags[] = {
    {CLI_TEXT_LIST, "input", AT(model.inputs), .value = "NAME=FILE...",
     .help = "data of an input of the model, in the forms of `brigade train`: x=IMAGES.npy, x=DATA.npz:ARRAY, "
             "x=TABLE.csv:COLUMN, an IDX file, a folder of images"},
    {CLI_TEXT_LIST, "output", AT(outputs), .value = "NAME=FILE...",
     .help =
         "file for an output: y=FILE.npy, or y=FILE.csv for an output of one or two dimensions; a file without NAME= "
         "is for the first output"},
    {CLI_COUNT, "batch-size", AT(model.recipe.batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .default_text = "the file's, or 32", .help = "samples in a micro-batch"},
    {CLI_TEXT, "normalize", AT(model.normalize), .value = "LIST|none", .default_text = "the model's, or none",
     .help = "MEAN,DEVIATION of float inputs, or the means of all channels and then their deviations; uint8 is divided "
             "by 255 first. Without it, the normalization that a model of `brigade train` names is applied"},
    {CLI_FLAG, "skip-incomplete", AT(model.skip_incomplete),
     .help = "leave out the rows of a CSV file in which an input is missing (a blank field, NA, nan, inf); the outputs "
             "then have a row for each remaining row. Inputs must be columns of one file"},
    {CLI_TEXT_LIST, "size", AT(model.sizes), .value = "NAME=N...", .default_text = "by the data",
     .help = "symbolic dimensions of the model: sequence=128, or x:2=128"},
    {CLI_TEXT, "init", AT(model.recipe.init_path), .value = "FILE", .default_text = "the model's weights",
     .help = "use the weights of a .safetensors or .npz file, or of a folder of safetensors files"},
    {CLI_COUNT, "block-depth", AT(model.block_depth), .value = "N", .maximum = UINT32_MAX,
     .help = "number of leading parts of a scope that name its block; with 1, layer1/0/conv1 is in block layer1; 0 "
             "means all parts"},
    {CLI_LIBRARY, .name = "device-iterations",
     .more = "micro-batches in a call: more of them mean less time between calls"},
    {CLI_LIBRARY, .name = "strategy", .default_text = "single; pipelined with --stages"},
    {CLI_LIBRARY, .name = "stages", .default_text = "one"},
    {CLI_LIBRARY, .name = "replicas"},
    {CLI_LIBRARY, .name = "devices", .default_text = "one for each stage"},
    {CLI_LIBRARY, .name = "cores", .default_text = "all"},
    {CLI_LIBRARY, .name = "precision"},
    CLI_PROFILE_OPTIONS(infer_settings, profile),
    {CLI_FLAG, "quiet", AT(model.recipe.quiet), .help = "print only errors"},
    CLI_OPTIONS_END,
};

/* ---- outputs ---- */

/* Sets files[i] to the file for output i of the model; it stays NULL if the output is not requested. */
static bg_status find_files(const infer_settings *settings, const char **files, bg_error *error)
{
    const bg_onnx_contents *contents = bg_onnx_contents_of(settings->model.onnx);

    for (uint32_t i = 0; i < settings->outputs.count; i++) {
        const char *text = settings->outputs.values[i], *equals = strchr(text, '=');
        uint32_t index = equals != NULL ? contents->output_count : 0;
        bgi_string list = {0};

        for (uint32_t k = 0; equals != NULL && k < contents->output_count; k++) {
            const char *name = contents->outputs[k].name;

            bgi_string_add(&list, "%s`%s`", k > 0 ? ", " : "", name);
            if (strlen(name) == (size_t)(equals - text) && strncmp(name, text, strlen(name)) == 0)
                index = k;
        }
        if (index >= contents->output_count || (equals != NULL && equals[1] == '\0')) {
            bg_error_set(error, BG_ERROR_INVALID,
                         "--output is `%s`; it must be NAME=FILE.npy or NAME=FILE.csv with an output of the model: %s",
                         text, list.data != NULL ? list.data : "it has none");
            bgi_string_clear(&list);
            return BG_ERROR_INVALID;
        }
        bgi_string_clear(&list);
        if (files[index] != NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "--output names output `%s` twice",
                                contents->outputs[index].name);
        files[index] = equals != NULL ? equals + 1 : text;
        if (!bgi_text_ends_with(files[index], ".npy") && !bgi_text_ends_with(files[index], ".csv"))
            return bg_error_set(error, BG_ERROR_INVALID, "--output %s: the file's name must end in .npy or .csv", text);
        BGI_TRY(cli_save_check(files[index], "output", error));
    }
    if (settings->outputs.count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "no output is named; give --output NAME=FILE.npy for each output to write");
    return BG_OK;
}

static void print_element(bgi_file_writer *writer, bg_dtype dtype, const void *data, int64_t i)
{
    if (dtype == BG_INT64)
        bgi_file_print(writer, "%" PRId64, ((const int64_t *)data)[i]);
    else if (dtype == BG_INT32)
        bgi_file_print(writer, "%" PRId32, ((const int32_t *)data)[i]);
    else if (dtype == BG_UINT8)
        bgi_file_print(writer, "%u", ((const uint8_t *)data)[i]);
    else if (dtype == BG_FLOAT64)
        bgi_file_print(writer, "%.17g", ((const double *)data)[i]);
    else if (dtype == BG_FLOAT32)
        bgi_file_print(writer, "%.9g", (double)((const float *)data)[i]);
    else
        bgi_file_print(writer, "%.9g", (double)bgi_narrow_to_float(dtype, ((const uint16_t *)data)[i]));
}

/* Writes a line for each sample, without a header line. Every number has enough digits to be read back exactly. */
static bg_status write_table(const char *file, const bg_array *array, bg_error *error)
{
    const int64_t rows = array->type.rank > 0 ? array->type.dims[0] : 1;
    const int64_t columns = array->type.rank > 1 ? array->type.dims[1] : 1;
    char text[BG_TYPE_TEXT_BYTES];
    bgi_file_writer writer = {0};

    if (array->type.rank > 2)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s: the output is %s, but a .csv file has at most two dimensions; write a .npy file", file,
                            bg_type_text(&array->type, text));
    BGI_TRY(bgi_file_writer_begin(&writer, file, error));
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++) {
            print_element(&writer, array->type.dtype, array->data, row * columns + column);
            bgi_file_write(&writer, column + 1 < columns ? "," : "\n", 1);
        }
    return bgi_file_writer_commit(&writer, error);
}

/* Writes an output without the rows that were added to fill a batch. */
static bg_status write_output(const char *file, bg_array *array, uint64_t samples, uint64_t made, bool quiet,
                              bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (array->type.rank > 0 && made > samples && (uint64_t)array->type.dims[0] % made == 0)
        array->type.dims[0] = (int64_t)((uint64_t)array->type.dims[0] / made * samples);
    if ((bgi_text_ends_with(file, ".csv") ? write_table(file, array, error) : bg_npy_write(file, array, error)) !=
        BG_OK)
        return bg_error_context(error, error->status, "--output");
    if (!quiet)
        printf("%s: %s\n", file, bg_type_text(&array->type, text));
    return BG_OK;
}

/* ---- data ---- */

/* Repeats the first samples after the last ones until their number is a multiple of `batch`, because a model with a
 * fixed batch size needs whole batches. */
static bg_status fill_up(bg_dataset **set, uint64_t batch, bg_error *error)
{
    bg_dataset *rest = NULL, *filled = NULL;
    bg_status status = BG_OK;

    while (status == BG_OK && bg_dataset_sample_count(*set) % batch != 0) {
        bg_dataset *pair[2] = {*set, NULL};

        status = bg_dataset_take(*set, batch - bg_dataset_sample_count(*set) % batch, &rest, error);
        pair[1] = rest;
        if (status == BG_OK)
            status = bg_dataset_concatenate(pair, 2, &filled, error);
        bg_dataset_destroy(rest);
        rest = NULL;
        if (status != BG_OK)
            return status;
        bg_dataset_destroy(*set);
        *set = filled;
    }
    return status;
}

/* ---- the run ---- */

/* Writes the profile of the calls of full size or, if there was none, that of the smaller last call. */
static bg_status write_profile(const infer_settings *settings, const bg_trainer *trainer, bg_error *error)
{
    const bg_profile_notes notes = {.program = "brigade infer", .model = settings->model.path, .samples = "samples"};
    bg_session *session = bg_trainer_session(trainer, BG_TRAINER_PREDICT);

    if (settings->profile.is_on && bg_session_trace_count(session, 0, 0) == 0)
        session = bg_trainer_rest_session(trainer, BG_TRAINER_PREDICT);
    return cli_profile_finish(&settings->profile, NULL, session, &notes, settings->model.recipe.quiet, error);
}

static bg_status predict(infer_settings *settings, const char *const *files, bg_error *error)
{
    onnx_settings *model = &settings->model;
    bg_options options = cli_recipe_options(&model->recipe, &model->rooms[0]);
    bg_trainer_options trainer_options = bg_trainer_options_defaults();
    const bg_trainer_data data = {.dataset = model->data.set, .names = model->data.names};
    const uint64_t made = bg_dataset_sample_count(model->data.set);
    const uint64_t batch = model->recipe.batch_size;
    uint64_t samples = made;
    bg_array *arrays = NULL;
    bg_weights *weights = NULL;
    bg_trainer *trainer = NULL;
    bg_session *session;
    uint32_t count = 0;
    bg_status status;

    cli_recipe_infer(&model->recipe, &options, &model->rooms[0]);
    cli_profile_set(&settings->profile, &options);
    BGI_TRY(cli_profile_check_dir(&settings->profile, error));
    options.reporting.output_mode = BG_OUTPUT_ALL;
    trainer_options.strategy.inference_options = &options;
    trainer_options.model = onnx_model_add;
    trainer_options.model_user = model;
    trainer_options.micro_batch[BG_TRAINER_FIT] = trainer_options.micro_batch[BG_TRAINER_PREDICT] = (uint32_t)batch;
    trainer_options.interrupt = &cli_received_signal;
    trainer_options.cast_batches = true;
    if (model->is_fixed_batch)
        samples = model->sample_count;
    BGI_TRY_CLEANUP(bg_weights_create(&weights, error));
    BGI_TRY_CLEANUP(bg_onnx_set_weights(model->onnx, weights, error));
    BGI_TRY_CLEANUP(bg_trainer_create(&trainer_options, weights, &trainer, error));
    BGI_TRY_CLEANUP(bg_trainer_prepare(trainer, BG_TRAINER_PREDICT, error));
    if (model->recipe.init_path != NULL)
        BGI_TRY_CLEANUP(cli_weights_load(weights, &model->recipe.init, model->recipe.init_path, error));
    session = bg_trainer_session(trainer, BG_TRAINER_PREDICT);
    count = bg_session_output_count(session);
    arrays = calloc(count, sizeof *arrays);
    if (arrays == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "outputs", count * sizeof *arrays));
    BGI_TRY_CLEANUP(bg_trainer_predict(trainer, &data, arrays, error));
    if (cli_received_signal != 0)
        BGI_TRY_CLEANUP(bg_error_set(error, BG_ERROR_CANCELED, "stopped by signal %d; nothing is written",
                                     (int)cli_received_signal));
    for (uint32_t i = 0; i < bg_onnx_contents_of(model->onnx)->output_count; i++) {
        const char *name = bg_onnx_contents_of(model->onnx)->outputs[i].name;
        const uint32_t index = bg_session_find_output(session, name);

        if (files[i] != NULL && index != UINT32_MAX)
            BGI_TRY_CLEANUP(write_output(files[i], &arrays[index], samples, made, model->recipe.quiet, error));
    }
    status = write_profile(settings, trainer, error);
cleanup:
    for (uint32_t i = 0; arrays != NULL && i < count; i++)
        bg_array_clear(&arrays[i]);
    free(arrays);
    bg_trainer_destroy(trainer);
    bg_weights_destroy(weights);
    return status;
}

static bg_status open_all(infer_settings *settings, const char **files, bg_error *error)
{
    onnx_settings *model = &settings->model;

    BGI_TRY(find_files(settings, files, error));
    BGI_TRY(onnx_open_inputs(model, error));
    model->sample_count = bg_dataset_sample_count(model->data.set);
    if (!model->recipe.quiet)
        onnx_print_normalizations(model);
    if (model->skip_incomplete && !model->recipe.quiet) {
        printf("Data: %" PRIu64 " samples", model->sample_count);
        onnx_print_skipped(model, &model->data);
        printf("\n");
    }
    return model->is_fixed_batch
               ? fill_up(&model->data.set, model->recipe.batch_size * model->recipe.library.options.replicas.count,
                         error)
               : BG_OK;
}

/* Runs the model on the data, and writes the outputs. Returns the exit code. */
static int run(infer_settings *settings, bg_error *error)
{
    onnx_settings *model = &settings->model;
    const char **files;
    int code = CLI_FAILED;

    if (cli_library_read(&model->recipe.library, error) != BG_OK ||
        cli_library_check(&model->recipe.library, error) != BG_OK ||
        onnx_check_precision(model->recipe.library.options.numerics.precision, error) != BG_OK)
        return CLI_USAGE;
    onnx_choose_strategy(model);
    if (cli_weights_open(model->recipe.init_path, &model->recipe.init, error) != BG_OK)
        return CLI_FAILED;
    if (onnx_open_model(model, error) != BG_OK)
        return model->path == NULL || error->status == BG_ERROR_INVALID ? CLI_USAGE : CLI_FAILED;
    files = calloc(bg_onnx_contents_of(model->onnx)->output_count + 1, sizeof *files);
    if (files == NULL) {
        bgi_error_memory(error, "files", 0);
        return CLI_FAILED;
    }
    cli_catch_signals();
    if (open_all(settings, files, error) != BG_OK)
        code = error->status == BG_ERROR_INVALID ? CLI_USAGE : CLI_FAILED;
    else if (predict(settings, files, error) == BG_OK)
        code = CLI_DONE;
    else if (error->status == BG_ERROR_CANCELED && cli_received_signal != 0)
        code = 128 + (int)cli_received_signal;
    free(files);
    return code;
}

static const cli_help_page page = {
    .usage = "Usage: brigade infer MODEL.onnx --input NAME=FILE --output NAME=FILE [OPTION]...\n"
             "Runs a model that another framework has exported as ONNX, on arrays from files.\n",
    .examples =
        "brigade infer digits.onnx --input images=digits/t10k-images-idx3-ubyte.gz --output logits=logits.npy\n",
};

int cli_infer(int argc, char **argv)
{
    infer_settings *settings = calloc(1, sizeof *settings), *defaults = calloc(1, sizeof *defaults);
    cli_table table;
    bg_error error = {0};
    const char *word = NULL;
    uint32_t word_count;
    cli_help help = CLI_HELP_NONE;
    int code = CLI_USAGE;

    cli_table_make(&table, infer_flags, BGI_COMMAND_MNIST, offsetof(infer_settings, model.recipe.library));
    if (settings == NULL || defaults == NULL) {
        bgi_error_memory(&error, "settings", 2 * sizeof *settings);
        code = CLI_FAILED;
    } else {
        onnx_set_defaults(&settings->model, "infer");
        onnx_set_defaults(&defaults->model, "infer");
        settings->model.recipe.library.table = &table;
        if (cli_options_read(table.options, argc, argv, settings, &word, 1, &word_count, &help,
                             settings->model.recipe.library.given, &error) == BG_OK) {
            settings->model.path = word;
            code = help != CLI_HELP_NONE ? CLI_DONE : run(settings, &error);
        }
        if (help != CLI_HELP_NONE)
            cli_print_help(help, &page, table.options, defaults);
        onnx_clear_settings(&settings->model);
        onnx_clear_settings(&defaults->model);
    }
    cli_table_clear(&table);
    free(settings);
    free(defaults);
    return code == CLI_DONE ? CLI_DONE : cli_fail("infer", code, &error);
}
