/*
 * bundle.c: writes the folder of a refused update, and replays it (--replay).
 *
 *     refused-12/checkpoint_train_step_11.safetensors   weights and optimizer state before the update
 *     refused-12/inputs.safetensors                     the update's samples in the loader's order, by input name
 *     refused-12/replay.sh                              the run's command, with --replay and this folder
 *
 * A replay reads the samples from the folder in their stored order, makes one update in one call, and writes nothing.
 * Neither the results of an update nor the folder depend on the number of ranks, so a single process can replay the
 * update.
 */
#define _DEFAULT_SOURCE
#include "cli/bundle.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade/checkpoint.h>
#include <brigade/safetensors.h>

#include "cli/command.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "core/file.h"
#include "core/narrow.h"
#include "core/text.h"

enum { PATH_BYTES = 4096, NAME_BYTES = 32 };

static const char inputs_name[] = "inputs.safetensors", script_name[] = "replay.sh";

uint64_t cli_bundle_samples(const bg_trainer_event *event)
{
    const bg_trainer_call *call = event->call;

    return (uint64_t)call->gradient_accumulation * (call->replicas / call->input_group_size) * call->micro_batch;
}

/* Returns the name of a sample's tensor in the file. */
static const char *name_tensor(const cli_training *training, uint32_t tensor, char name[NAME_BYTES])
{
    if (training->inputs != NULL && training->inputs[tensor] != NULL)
        return training->inputs[tensor];
    snprintf(name, NAME_BYTES, "tensor.%u", tensor);
    return name;
}

/* ---- writing ---- */

static bg_type batch_type(const bg_type *sample, uint64_t count)
{
    bg_type type = {.dtype = sample->dtype, .rank = sample->rank + 1};

    type.dims[0] = (int64_t)count;
    for (uint32_t i = 0; i < sample->rank; i++)
        type.dims[i + 1] = sample->dims[i];
    return type;
}

static bg_status write_batch(const cli_training *training, const bg_trainer_event *event, const bg_batch *batch,
                             const char *path, bg_error *error)
{
    bg_safetensors_entry entries[BG_DATASET_MAX_TENSORS];
    char names[BG_DATASET_MAX_TENSORS][NAME_BYTES];
    const uint32_t count = bg_dataset_tensor_count(training->data);

    for (uint32_t t = 0; t < count; t++) {
        const bg_type *sample = bg_dataset_sample_type(training->data, t);

        entries[t] = (bg_safetensors_entry){.name = name_tensor(training, t, names[t]),
                                            .type = batch_type(sample, cli_bundle_samples(event)),
                                            .data = (const char *)batch->tensors[t] +
                                                    event->sample * bg_type_size_bytes(sample)};
    }
    return bg_safetensors_write(path, entries, count, NULL, 0, error);
}

/* Writes the samples of the update to `path`. A separate loader reads them, because with several ranks the run's loader
 * reads only a part of each batch. */
static bg_status write_inputs(const cli_training *training, const bg_trainer_event *event, const char *path,
                              bg_error *error)
{
    bg_loader_options loading = bg_loader_options_defaults();
    bg_loader *loader = NULL;
    bg_batch batch = {0};
    bg_status status;

    if (training->model->load != NULL)
        training->model->load(training, &loading);
    loading.batch_size = bg_trainer_samples_per_call(training->trainer, BG_TRAINER_FIT);
    loading.mode = BG_LOADER_SYNC;
    BGI_TRY(bg_loader_create(training->data, &loading, &loader, error));
    status = bg_loader_begin_at(loader, event->epoch, event->batch, error);
    if (status == BG_OK)
        status = bg_loader_next(loader, &batch, error);
    if (status == BG_OK)
        status = write_batch(training, event, &batch, path, error);
    bg_loader_destroy(loader);
    return status;
}

/* Adds an argument, quoted for the shell. */
static void add_word(bgi_string *text, const char *word)
{
    bgi_string_add(text, "'");
    for (; *word != '\0'; word++)
        if (*word == '\'')
            bgi_string_add(text, "'\\''");
        else
            bgi_string_append(text, word, 1);
    bgi_string_add(text, "'");
}

static bg_status write_script(const cli_training *training, const bg_trainer_event *event, const char *path,
                              bg_error *error)
{
    const char *named = getenv("BRIGADE_OPTIONS");
    char self[PATH_BYTES] = "brigade", here[PATH_BYTES] = ".";
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    bgi_string text = {0};
    char *content = NULL;
    bg_status status;

    if (length > 0)
        self[length] = '\0';
    bgi_string_add(&text,
                   "#!/bin/sh\n# Repeats weight update %" PRIu64 ", whose loss was infinite or NaN, in one process.\n"
                   "folder=$(cd \"$(dirname \"$0\")\" && pwd)\ncd ",
                   bg_trainer_step(event->trainer) + 1);
    add_word(&text, getcwd(here, sizeof here) != NULL ? here : ".");
    bgi_string_add(&text, "\n");
    if (named != NULL) {
        bgi_string_add(&text, "export BRIGADE_OPTIONS=");
        add_word(&text, named);
        bgi_string_add(&text, "\n");
    }
    bgi_string_add(&text, "exec \"${BRIGADE:-$(echo ");
    add_word(&text, self);
    bgi_string_add(&text, ")}\" %.*s", (int)strcspn(training->model->program, " "), training->model->program);
    /* arguments[0] is the last word of the program's name, which has one or two words. */
    for (int i = strchr(training->model->program, ' ') != NULL ? 0 : 1; i < training->argument_count; i++) {
        bgi_string_add(&text, " ");
        add_word(&text, training->arguments[i]);
    }
    bgi_string_add(&text, " --replay \"$folder\" \"$@\"\n");
    BGI_TRY(bgi_string_finish(&text, &content, error));
    status = bgi_file_save(path, content, strlen(content), error);
    free(content);
    return status;
}

static bg_status
write_file(const cli_training *training, const bg_trainer_event *event, const char *folder, const char *name,
           bg_status (*write)(const cli_training *, const bg_trainer_event *, const char *, bg_error *),
           bg_error *error)
{
    char *path = bgi_path_join(folder, name);
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = write(training, event, path, error);
    free(path);
    return status;
}

void cli_bundle_write(const cli_training *training, const bg_trainer_event *event, const char *folder, const char *blob)
{
    const uint64_t step = bg_trainer_step(event->trainer);
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    char path[PATH_BYTES], info[64];
    bg_error error = {0}, saving = {0};

    snprintf(path, sizeof path, "%s%srefused-%" PRIu64, folder != NULL ? folder : "brigade", folder != NULL ? "/" : "-",
             step + 1);
    snprintf(info, sizeof info, "brigade %s", training->model->program);
    options.blob = blob;
    options.blob_bytes = strlen(blob);
    options.info = info;
    options.one_file = true;
    if (cli_ranks_is_first() && bgi_folder_create(path, &error) == BG_OK &&
        write_file(training, event, path, inputs_name, write_inputs, &error) == BG_OK)
        write_file(training, event, path, script_name, write_script, &error);
    /* All ranks make this call, and it is the last step, so that no rank returns before the folder is complete. */
    bg_checkpoint_save(event->call->session, path, &options, &saving);
    if (!cli_ranks_is_first())
        return;
    if (error.status != BG_OK || saving.status != BG_OK)
        cli_say(training->model->says, "warning: %s: the update cannot be repeated: %s", path,
                error.status != BG_OK ? error.message : saving.message);
    else
        printf("Update %" PRIu64 " was refused: `sh %s/%s` repeats it in one process\n", step + 1, path, script_name);
    fflush(stdout);
}

/* ---- replay ---- */

/* Replaces the training data with a data set that borrows the samples of the open file. */
static bg_status make_data(cli_training *training, const char *path, bg_error *error)
{
    bg_array arrays[BG_DATASET_MAX_TENSORS];
    char name[NAME_BYTES], wanted[BG_TYPE_TEXT_BYTES], found[BG_TYPE_TEXT_BYTES];
    const uint32_t count = bg_dataset_tensor_count(training->data);

    for (uint32_t t = 0; t < count; t++) {
        const bg_safetensors_entry *entry = bg_safetensors_find(training->replayed, name_tensor(training, t, name));
        bg_type type;

        if (entry == NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "%s has no `%s`, so the folder is from another command", path,
                                name_tensor(training, t, name));
        type = batch_type(bg_dataset_sample_type(training->data, t),
                          entry->type.rank > 0 ? (uint64_t)entry->type.dims[0] : 0);
        if (!bg_type_equal(&type, &entry->type))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "%s has `%s` as %s, but the run takes %s, so the folder is from another command", path,
                                entry->name, bg_type_text(&entry->type, found), bg_type_text(&type, wanted));
        arrays[t] = (bg_array){.type = entry->type, .data = (void *)(uintptr_t)entry->data};
    }
    BGI_TRY(bg_dataset_create_arrays(arrays, count, &training->replayed_data, error));
    training->data = training->replayed_data;
    training->validation = NULL;
    return BG_OK;
}

bg_status cli_bundle_open(cli_training *training, bg_error *error)
{
    char *path;
    bg_status status;

    if (cli_ranks() != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--replay is given to several ranks; start one process");
    path = bgi_path_join(training->library->replay, inputs_name);
    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = bg_safetensors_open(path, &training->replayed, error);
    if (status == BG_OK)
        status = make_data(training, path, error);
    free(path);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--replay");
}

void cli_bundle_close(cli_training *training)
{
    bg_dataset_destroy(training->replayed_data);
    bg_safetensors_destroy(training->replayed);
}

static double read_loss(bg_dtype dtype, const void *values, uint64_t at)
{
    return dtype == BG_FLOAT64   ? ((const double *)values)[at]
           : dtype == BG_FLOAT32 ? (double)((const float *)values)[at]
                                 : (double)bgi_narrow_to_float(dtype, ((const uint16_t *)values)[at]);
}

void cli_bundle_report(const bg_trainer_event *event)
{
    bg_stream stream;
    const void *losses;

    if (event->kind != BG_ON_CALL_END && event->kind != BG_ON_REFUSED_UPDATE)
        return;
    losses = bg_trainer_call_output(event->call, "loss", &stream);
    for (uint64_t i = 0; losses != NULL && i < stream.count; i++) {
        const double loss = read_loss(stream.micro_batch_type.dtype, losses, i);

        if (isfinite(loss))
            printf("micro-batch %" PRIu64 " of %" PRIu64 ": loss %.9g\n", i + 1, (uint64_t)stream.count, loss);
        else
            printf("micro-batch %" PRIu64 " of %" PRIu64 ": loss %s, which is not finite\n", i + 1,
                   (uint64_t)stream.count,
                   isnan(loss)  ? "nan"
                   : loss > 0.0 ? "inf"
                                : "-inf");
    }
    if (event->kind == BG_ON_CALL_END)
        printf("All losses of update %" PRIu64
               " are finite here: its weights and samples do not explain why the run refused it\n",
               event->call->first_update + 1);
}
