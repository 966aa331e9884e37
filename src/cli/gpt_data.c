/*
 * gpt_data.c: makes samples of a language model from token files and texts. A sample has S tokens, and for each of them
 * the next token as its label.
 *
 *     file     0 1 2 3 4 5 6 7 ...
 *     sample   0 1 2 3 4             S = 4, as the reader has it (brigade/readers.h)
 *     tokens   0 1 2 3
 *     labels     1 2 3 4
 */
#include "cli/gpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <brigade/readers.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/tfrecord.h"
#include "data/tokens.h"

enum { MOST_TEXT_BYTES = 1 << 30, ASCII = 128, BYTES = 256 };

/* ---- texts: bytes as tokens ---- */

/* Makes samples of a text whose tokens are bytes. A model with fewer than 256 tokens gets `?` for bytes that are not
 * ASCII. A model with more than 256 tokens gets token 256 at the end, as bg_tokenizer_create_bytes appends it. */
static bg_status make_text(const bgi_gpt_config *config, const char *name, const unsigned char *text, size_t size_bytes,
                           bg_dataset **out, bg_error *error)
{
    const bg_tokens_options options = {.token_bytes = 2,
                                       .sequence_length = (uint32_t)config->sequence_length,
                                       .stride = (uint32_t)config->sample_stride};
    unsigned char *tokens;

    if (config->vocab_size < ASCII)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s is text, whose tokens are bytes, but model.embedding.vocab_size is %" PRId64
                            "; make it 256 (or 128 for ASCII only), or give token files",
                            name, config->vocab_size);
    tokens = malloc(2 * size_bytes + 2);
    if (tokens == NULL)
        return bgi_error_memory(error, "text", 2 * size_bytes);
    for (size_t i = 0; i < size_bytes; i++) {
        tokens[2 * i] = text[i] < ASCII || config->vocab_size >= BYTES ? text[i] : '?';
        tokens[2 * i + 1] = 0;
    }
    if (config->vocab_size > BYTES) {
        tokens[2 * size_bytes] = 0;
        tokens[2 * size_bytes++ + 1] = 1;
    }
    return bgi_tokens_own(name, tokens, 2 * size_bytes, &options, out, error);
}

static bg_status open_text(const bgi_gpt_config *config, const char *path, bg_dataset **out, bg_error *error)
{
    char *text = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, MOST_TEXT_BYTES, &text, &size_bytes, error));
    status = make_text(config, path, (const unsigned char *)text, size_bytes, out, error);
    free(text);
    return status;
}

/* ---- files ---- */

static bg_status open_records(const bgi_gpt_config *config, const char *path, bg_dataset **out, bg_error *error)
{
    const bg_tokens_options options = {.sequence_length = (uint32_t)config->sequence_length,
                                       .vocabulary_size = (uint32_t)config->vocab_size};
    uint64_t length;
    char text[160];

    BGI_TRY(bg_dataset_open_tfrecord(path, &options, out, error));
    length = bgi_tfrecord_length(*out);
    if (length <= (uint64_t)config->sequence_length + 1)
        return BG_OK;
    /* The text names no file, so that the warning is printed only once for all files whose records have this length. */
    snprintf(text, sizeof text,
             "records have %" PRIu64 " tokens, of which the first %" PRId64 " are used (model.sequence_length + 1)",
             length, config->sequence_length + 1);
    cli_warn("gpt", text);
    return BG_OK;
}

static bool is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bg_status refuse_kind(const char *path, bg_error *error)
{
    if (is_folder(path))
        return bg_error_set(error, BG_ERROR_INVALID, "%s: is a folder, not a file", path);
    if (bgi_text_ends_with(path, ".index"))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "%s: this is the index of a TFRecord file; name the .tfrecord file, which is read with its index", path);
    return bg_error_set(error, BG_ERROR_INVALID,
                        "%s: the kind of file is unknown; the name must end in .u16, .u32, .tfrecord (tokens), .txt or "
                        ".md (text)",
                        path);
}

static bg_status open_file(const bgi_gpt_config *config, const char *path, bg_dataset **out, bg_error *error)
{
    const bg_tokens_options options = {.sequence_length = (uint32_t)config->sequence_length,
                                       .stride = (uint32_t)config->sample_stride,
                                       .vocabulary_size = (uint32_t)config->vocab_size};

    if (bgi_text_ends_with(path, ".txt") || bgi_text_ends_with(path, ".md"))
        return open_text(config, path, out, error);
    if (bgi_text_ends_with(path, ".u16") || bgi_text_ends_with(path, ".u32"))
        return bg_dataset_open_tokens(path, &options, out, error);
    if (bgi_text_ends_with(path, ".tfrecord"))
        return open_records(config, path, out, error);
    return refuse_kind(path, error);
}

/* Whether the file is the index of a TFRecord file in the list: A.index or A.tfrecord.index for A.tfrecord. */
static bool is_index_of_some(const glob_t *files, const char *path)
{
    const size_t index_bytes = strlen(".index"), record_bytes = strlen(".tfrecord");
    size_t stem = strlen(path);
    bool found = false;

    if (!bgi_text_ends_with(path, ".index"))
        return false;
    stem -= index_bytes;
    if (stem > record_bytes && strncmp(path + stem - record_bytes, ".tfrecord", record_bytes) == 0)
        stem -= record_bytes;
    for (size_t i = 0; !found && i < files->gl_pathc; i++)
        found = strncmp(files->gl_pathv[i], path, stem) == 0 && strcmp(files->gl_pathv[i] + stem, ".tfrecord") == 0;
    return found;
}

/* Finds files for a pattern that glob does not match, with two additions of PopXL's example: the extension .tfrecord
 * may be omitted, and a folder means its .tfrecord files. */
static int find_extended(const char *pattern, int flags, glob_t *files)
{
    static const char *const formats[] = {"%s.tfrecord", "%s/*.tfrecord"};
    int result = GLOB_NOMATCH;

    for (int i = 0; i < (is_folder(pattern) ? 2 : 1) && result == GLOB_NOMATCH; i++) {
        bgi_string text = {0};

        bgi_string_add(&text, formats[i], pattern);
        result = text.failed ? GLOB_NOSPACE : glob(text.data, flags, NULL, files);
        bgi_string_clear(&text);
    }
    return result;
}

static bg_status find_pattern(const char *pattern, glob_t *files, bg_error *error)
{
    const bool is_plain = strpbrk(pattern, "*?[") == NULL;
    const int flags = files->gl_pathc > 0 ? GLOB_APPEND : 0;
    int result = is_folder(pattern) ? GLOB_NOMATCH : glob(pattern, flags, NULL, files);

    if (result == GLOB_NOMATCH)
        result = find_extended(pattern, flags, files);
    if (result == GLOB_NOMATCH && is_folder(pattern))
        return bg_error_set(error, BG_ERROR_NOT_FOUND,
                            "input files: %s is a folder without .tfrecord files; other files need their names",
                            pattern);
    if (result == GLOB_NOMATCH && (is_plain || bgi_file_exists(pattern)))
        result = glob(pattern, flags | GLOB_NOCHECK, NULL, files); /* the reader of the file reports the problem */
    if (result == GLOB_NOMATCH)
        return bg_error_set(error, BG_ERROR_NOT_FOUND, "input files: no file matches `%s`", pattern);
    if (result != 0)
        return bg_error_set(error, BG_ERROR_IO, "input files: `%s` cannot be looked up", pattern);
    return BG_OK;
}

bg_status gpt_data_find_files(const bgi_gpt_config *config, glob_t *files, bg_error *error)
{
    for (size_t i = 0; i < json_array_size(config->input_files); i++)
        BGI_TRY(find_pattern(json_string_value(json_array_get(config->input_files, i)), files, error));
    return BG_OK;
}

static void report_skipped(const char *first, size_t count)
{
    char others[64] = "", text[512];

    if (count == 0)
        return;
    if (count > 1)
        snprintf(others, sizeof others, " and %zu other%s", count - 1, cli_s(count - 1));
    snprintf(text, sizeof text, "input files: skipped %.300s%s, the %s in the list", first, others,
             count > 1 ? "indexes of .tfrecord files" : "index of a .tfrecord file");
    cli_warn("gpt", text);
}

static bg_status describe_files(const char *first, uint32_t count, gpt_data *data, bg_error *error)
{
    bgi_string text = {0};

    bgi_string_add(&text, count > 1 ? "%s and %" PRIu32 " more" : "%s", first, count - 1);
    return bgi_string_finish(&text, &data->source, error);
}

static bg_status open_files(const bgi_gpt_config *config, const glob_t *files, gpt_data *data, bg_dataset **out,
                            bg_error *error)
{
    bg_dataset **sets = calloc(files->gl_pathc + 1, sizeof *sets);
    bg_status status = sets != NULL ? BG_OK : bgi_error_memory(error, "list of files", files->gl_pathc);
    const char *first = NULL, *first_skipped = NULL;
    uint32_t count = 0;

    for (size_t i = 0; status == BG_OK && i < files->gl_pathc; i++) {
        const char *path = files->gl_pathv[i];
        const bool is_skipped = is_index_of_some(files, path);

        if (is_skipped)
            first_skipped = first_skipped != NULL ? first_skipped : path;
        else
            first = first != NULL ? first : path;
        if (!is_skipped)
            status = open_file(config, path, &sets[count++], error);
    }
    if (status == BG_OK) {
        report_skipped(first_skipped, files->gl_pathc - count);
        status = bg_dataset_concatenate(sets, count, out, error);
    }
    if (status == BG_OK)
        status = describe_files(first, count, data, error);
    for (uint32_t i = 0; sets != NULL && i < count; i++)
        bg_dataset_destroy(sets[i]);
    free(sets);
    return status;
}

static bg_status open_own_text(const bgi_gpt_config *config, gpt_data *data, bg_dataset **out, bg_error *error)
{
    bgi_string text = {0};

    BGI_TRY(make_text(config, "Brigade's own text", gpt_own_text, gpt_own_text_bytes, out, error));
    bgi_string_add(&text, "the text of Brigade's documents and headers, %zu bytes, each a token%s", gpt_own_text_bytes,
                   config->vocab_size < BYTES ? " (ASCII only: the vocabulary is below 256)" : "");
    return bgi_string_finish(&text, &data->source, error);
}

static bg_status open_source(const bgi_gpt_config *config, gpt_data *data, bg_dataset **out, bg_error *error)
{
    glob_t files = {0};
    bg_status status;

    if (json_array_size(config->input_files) == 0)
        return open_own_text(config, data, out, error);
    status = gpt_data_find_files(config, &files, error);
    if (status == BG_OK)
        status = open_files(config, &files, data, out, error);
    globfree(&files);
    return status;
}

/* ---- samples ---- */

static bg_status split_sample(void *user, uint64_t epoch, uint64_t sample_index, const void *const inputs[],
                              void *const outputs[], bg_error *error)
{
    const size_t bytes = (size_t)(uintptr_t)user;
    (void)epoch, (void)sample_index, (void)error;

    memcpy(outputs[0], inputs[0], bytes);
    memcpy(outputs[1], (const int32_t *)inputs[0] + 1, bytes);
    return BG_OK;
}

uint64_t gpt_samples_of_call(const bgi_gpt_config *config)
{
    return (uint64_t)config->global_batch_size * (uint64_t)config->device_iterations;
}

/* Applies data.n_samples, if it is not 0: *out contains the first samples of `source`, repeated if a call needs more of
 * them. */
static bg_status take_samples(const bgi_gpt_config *config, bg_dataset *source, bg_dataset **out, bg_error *error)
{
    const uint64_t needed = gpt_samples_of_call(config), count = (uint64_t)config->n_samples;
    bg_dataset *taken = NULL;
    bg_status status;

    if (count == 0)
        return BG_OK;
    BGI_TRY(bg_dataset_take(source, count, &taken, error));
    /* Samples are not repeated if there are enough, or if the source has fewer than data.n_samples; the caller then
     * reports too few samples. */
    if (count >= needed || bg_dataset_sample_count(taken) < count || (needed - 1) / count + 1 > UINT32_MAX) {
        *out = taken;
        return BG_OK;
    }
    status = bg_dataset_repeat(taken, (uint32_t)((needed - 1) / count + 1), out, error);
    bg_dataset_destroy(taken);
    return status;
}

static bg_status make_samples(const bgi_gpt_config *config, bg_dataset *source, gpt_data *data, bg_error *error)
{
    const bg_type row = bg_vector(BG_INT32, config->sequence_length), types[] = {row, row};
    const bg_dataset_map_options options = {.tensor_count = 2,
                                            .sample_types = types,
                                            .map = split_sample,
                                            .user = (void *)((uintptr_t)config->sequence_length * sizeof(int32_t))};
    bg_dataset *taken = NULL;
    bg_status status = take_samples(config, source, &taken, error);

    if (status == BG_OK)
        status = bg_dataset_map(taken != NULL ? taken : source, &options, &data->set, error);
    bg_dataset_destroy(taken);
    return status;
}

bg_status gpt_data_open(const bgi_gpt_config *config, gpt_data *out, bg_error *error)
{
    const uint64_t needed = gpt_samples_of_call(config);
    gpt_data data = {.set = NULL};
    bg_dataset *source = NULL;
    bg_status status = open_source(config, &data, &source, error);

    if (status == BG_OK)
        status = make_samples(config, source, &data, error);
    bg_dataset_destroy(source);
    if (status == BG_OK) {
        data.sample_count = bg_dataset_sample_count(data.set);
        if (data.sample_count < needed)
            status = bg_error_set(error, BG_ERROR_INVALID,
                                  "%s: %" PRIu64 " sample%s of %" PRId64
                                  " tokens, and a call takes training.global_batch_size %" PRId64
                                  " x execution.device_iterations %" PRId64 " = %" PRIu64,
                                  data.source, data.sample_count, cli_s(data.sample_count), config->sequence_length,
                                  config->global_batch_size, config->device_iterations, needed);
    }
    if (status != BG_OK)
        gpt_data_close(&data);
    else
        *out = data;
    return status;
}

static bg_status refuse_sample(void *user, uint64_t epoch, uint64_t sample_index, void *const outputs[],
                               bg_error *error)
{
    (void)user, (void)epoch, (void)sample_index, (void)outputs;

    return bg_error_set(error, BG_ERROR_INVALID, "the samples of a replay are in its folder");
}

bg_status gpt_data_describe(const bgi_gpt_config *config, gpt_data *out, bg_error *error)
{
    const bg_type row = bg_vector(BG_INT32, config->sequence_length), types[] = {row, row};
    const bg_dataset_options options = {
        .sample_count = 1, .tensor_count = 2, .sample_types = types, .get = refuse_sample};

    *out = (gpt_data){.source = strdup("the folder of the replay"), .sample_count = 1};
    if (out->source == NULL)
        return bgi_error_memory(error, "a name", 0);
    return bg_dataset_create(&options, &out->set, error);
}

void gpt_data_close(gpt_data *data)
{
    bg_dataset_destroy(data->set);
    free(data->source);
    *data = (gpt_data){.set = NULL};
}
