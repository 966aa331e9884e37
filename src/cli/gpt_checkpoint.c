/*
 * gpt_checkpoint.c: writes and loads checkpoints of a GPT run, and files of remote buffers from which a later run
 * resumes. Both contain weights, optimizer state and the position in the data. The position is counted in samples, so
 * that a run with another global batch resumes as close to it as possible.
 */
#include "cli/gpt.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "formats/json_tree.h"
#include "core/file.h"
#include "core/text.h"

static const char name_begin[] = "checkpoint_train_step_";

/* Finds the step of the latest checkpoint in the folder; returns false if there is none. */
static bool find_latest(const char *folder, uint64_t *out)
{
    DIR *directory = opendir(folder);
    bool found = false;

    *out = 0;
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char *end;
        uint64_t step;

        if (strncmp(entry->d_name, name_begin, sizeof name_begin - 1) != 0)
            continue;
        step = strtoull(entry->d_name + sizeof name_begin - 1, &end, 10);
        if (end == entry->d_name + sizeof name_begin - 1 || strcmp(end, ".safetensors") != 0)
            continue;
        *out = !found || step > *out ? step : *out;
        found = true;
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

bg_status gpt_checkpoint_check(const bgi_gpt_config *config, uint64_t step, int *folder, bg_error *error)
{
    uint64_t latest;
    char *path;
    bg_status status;

    if (config->save == NULL || !cli_ranks_is_first()) /* other ranks write nothing, and must not lock the folder */
        return BG_OK;
    status = bgi_folder_create(config->save, error);
    if (status == BG_OK)
        status = bgi_folder_lock(config->save, folder, error);
    if (status != BG_OK)
        return bg_error_context(error, status, "--save");
    path = bgi_path_join(config->save, "checkpoint");
    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = cli_save_check(path, "save", error);
    free(path);
    BGI_TRY(status);
    if (find_latest(config->save, &latest) && latest > step)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--save %s: there is a checkpoint of step %" PRIu64 ", but this run begins at step %" PRIu64
            "; resume from the checkpoint with --load, remove it if it is damaged, or use another folder",
            config->save, latest, step);
    return BG_OK;
}

static bg_status describe_position(const bgi_gpt_config *config, const gpt_data *data, const gpt_position *position,
                                   bgi_string *out, bg_error *error)
{
    bgi_string_add(out,
                   "{\"epoch\": %" PRIu64 ", \"sample\": %" PRIu64 ", \"samples\": %" PRIu64
                   ", \"sequence_length\": %" PRId64 "}",
                   position->epoch, position->sample, data->sample_count, config->sequence_length);
    return out->failed ? bgi_error_memory(error, "checkpoint", 0) : BG_OK;
}

bg_status gpt_checkpoint_save(bg_session *session, const gpt_options *own, const bgi_gpt_config *config,
                              const gpt_data *data, const gpt_position *position, double loss,
                              bg_checkpoint_writer **writer, bg_error *error)
{
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    bgi_string blob = {0};
    bg_status status = describe_position(config, data, position, &blob, error);

    options.max_checkpoints = (uint32_t)config->max_checkpoints;
    options.blob = blob.data;
    options.blob_bytes = blob.length;
    options.info = "brigade gpt pretrain";
    options.keep_interval_s = own->checkpoint_interval_s;
    options.keep_best = own->checkpoint_best != NULL;
    options.metric_name = own->checkpoint_best;
    options.metric = loss;
    if (status == BG_OK)
        status = own->checkpoint_async ? bg_checkpoint_begin(session, config->save, &options, writer, error)
                                       : bg_checkpoint_save(session, config->save, &options, error);
    bgi_string_clear(&blob);
    return status;
}

/* Reads the position in the data from a checkpoint's blob. If the position does not fit the data or the calls of this
 * run, the function warns and changes the position. `from` is the option that names the checkpoint. */
static bg_status read_position(const char *text, size_t size_bytes, const char *from, const char *path,
                               const bgi_gpt_config *config, const gpt_data *data, gpt_position *out, bg_error *error)
{
    int64_t epoch = 0, sample = 0, samples = 0, length = 0;
    json_t *blob = NULL;
    const bg_status status = bgi_json_parse(path, text != NULL ? text : "", size_bytes, &blob, NULL);
    const uint64_t call = (uint64_t)config->global_batch_size * (uint64_t)config->device_iterations;
    char warning[256];
    const bool is_good =
        bgi_json_find_integer(blob, "epoch", &epoch) && bgi_json_find_integer(blob, "sample", &sample) &&
        bgi_json_find_integer(blob, "samples", &samples) && bgi_json_find_integer(blob, "sequence_length", &length);

    json_decref(blob);
    if (status == BG_ERROR_MEMORY)
        return bgi_error_memory(error, path, size_bytes);
    if (!is_good || epoch < 0 || sample < 0 || samples < 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s does not describe the data; `brigade gpt pretrain` did not write it", path);
    *out = (gpt_position){.epoch = (uint64_t)epoch, .sample = (uint64_t)sample};
    if ((uint64_t)samples != data->sample_count || length != config->sequence_length) {
        snprintf(warning, sizeof warning,
                 "--%s: the data had %lld samples of %lld tokens and have %" PRIu64 " of %" PRId64
                 " now; the data start from the beginning",
                 from, (long long)samples, (long long)length, data->sample_count, config->sequence_length);
        cli_warn("gpt", warning);
        *out = (gpt_position){.epoch = out->epoch + (sample > 0)};
    } else if (out->sample % call != 0) {
        snprintf(warning, sizeof warning,
                 "--%s: %" PRIu64 " samples of the epoch were used, which is not a multiple of the %" PRIu64
                 " of a call; %" PRIu64 " are used again",
                 from, out->sample, call, out->sample % call);
        cli_warn("gpt", warning);
        out->sample -= out->sample % call;
    }
    return BG_OK;
}

/* Returns the part after the last slash; the part before it, or ".", is stored in `folder`. */
static const char *split_path(const char *path, bgi_string *folder)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        bgi_string_add(folder, ".");
    else
        bgi_string_add(folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return slash == NULL ? path : slash + 1;
}

static bg_status load_checkpoint(bg_session *session, const gpt_options *own, const bgi_gpt_config *config,
                                 const gpt_data *data, gpt_position *out, bg_error *error)
{
    bg_checkpoint_load_options options = bg_checkpoint_load_defaults();
    bg_checkpoint checkpoint = {0};
    bgi_string folder = {0};
    bg_status status;

    options.drop = own->resume_drop;
    options.optimizer = own->resume_optimizer;
    options.drop_option = "--resume-drop";
    options.optimizer_option = "--resume-optimizer";
    /* With several ranks, some may not have the file, so the ending of the name is enough. */
    if (bgi_file_exists(config->load) || bgi_text_matches("*.safetensors", config->load))
        options.file = split_path(config->load, &folder);
    else
        bgi_string_add(&folder, "%s", config->load);
    status = folder.failed ? bgi_error_memory(error, "path", 0)
                           : bg_checkpoint_load(session, folder.data, &options, &checkpoint, error);
    if (status == BG_OK)
        status =
            read_position(checkpoint.blob, checkpoint.blob_bytes, "load", checkpoint.path, config, data, out, error);
    bg_checkpoint_clear(&checkpoint);
    bgi_string_clear(&folder);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--load");
}

bg_status gpt_checkpoint_load(bg_session *session, const gpt_options *options, const bgi_gpt_config *config,
                              const gpt_data *data, gpt_position *out, bg_error *error)
{
    const char *note = bg_session_note(session);

    if (config->load != NULL)
        return load_checkpoint(session, options, config, data, out, error);
    if (note == NULL)
        return BG_OK;
    return read_position(note, strlen(note), "memmap-dir", config->memmap_dir, config, data, out, error);
}

bg_status gpt_files_flush(bg_session *session, const bgi_gpt_config *config, const gpt_data *data,
                          const gpt_position *position, bg_error *error)
{
    bgi_string note = {0};
    bg_status status;

    if (config->memmap_dir == NULL)
        return BG_OK;
    status = describe_position(config, data, position, &note, error);
    if (status == BG_OK)
        status = bg_session_flush(session, note.data, error);
    bgi_string_clear(&note);
    return status;
}
