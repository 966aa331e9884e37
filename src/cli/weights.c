/*
 * weights.c: reads and writes trained values in safetensors files, under PyTorch's names. Optimizer state is not part
 * of such a file.
 */
#include "cli/program.h"

#include <stdlib.h>
#include <string.h>

#include <brigade/onnx.h>
#include <brigade/safetensors.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

static bool is_model_weight(const bg_weight *weight)
{
    return weight->role == BG_ROLE_PARAMETER || weight->role == BG_ROLE_BUFFER;
}

static bg_status fetch(void *user, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    bg_weight weight;

    BGI_TRY(bg_weights_find(user, entry->name, &weight, error));
    *out_data = weight.data;
    return BG_OK;
}

typedef struct saving {
    bg_weights *weights;
    const char *path;
} saving;

static bg_status save(void *user, bg_error *error)
{
    const saving *s = user;
    bg_weights *weights = s->weights;
    const bg_safetensors_metadata metadata[] = {{.key = "format", .value = "pt"}};
    uint32_t count = bg_weights_count(weights);
    bg_safetensors_entry *entries = calloc(count + 1, sizeof *entries);
    size_t entry_count = 0;
    bg_status status = BG_OK;

    if (entries == NULL)
        return bgi_error_memory(error, "weight list", (count + 1) * sizeof *entries);
    for (uint32_t i = 0; i < count; i++) {
        bg_weight weight;
        BGI_TRY_CLEANUP(bg_weights_at(weights, i, &weight, error));
        if (is_model_weight(&weight))
            entries[entry_count++] = (bg_safetensors_entry){.name = weight.name, .type = weight.type};
    }
    status = bg_safetensors_write_fetched(s->path, entries, entry_count, metadata, 1, fetch, weights, error);
cleanup:
    free(entries);
    return status;
}

bg_status cli_weights_save(bg_session *session, const char *path, bg_error *error)
{
    saving s = {bg_session_weights(session), path};

    return bg_session_read_weights(session, 0, save, &s, error);
}

/* ---- models as ONNX files ---- */

bool cli_is_onnx(const char *path)
{
    const size_t length = strlen(path);

    return length > 5 && strcmp(path + length - 5, ".onnx") == 0;
}

typedef struct model_saving {
    bg_weights *weights;
    const bg_graph *graph;
    const char *path;
} model_saving;

static bg_status save_model(void *user, bg_error *error)
{
    const model_saving *s = user;

    return bg_onnx_save(s->graph, s->weights, s->path, NULL, NULL, error);
}

bg_status cli_model_save(bg_session *session, const bg_graph *graph, const char *path, bg_error *error)
{
    model_saving s = {bg_session_weights(session), graph, path};

    return bg_session_read_weights(session, 0, save_model, &s, error);
}

/* ---- into a network ---- */

/* Adds a line with the problems of one weight. */
static void compare(const bg_weight *weight, const bg_safetensors *file, bgi_string *problems)
{
    const bg_safetensors_entry *entry = bg_safetensors_find(file, weight->name);
    char have[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];

    if (entry == NULL)
        bgi_string_add(problems, "; `%s` is missing", weight->name);
    else if (!bg_type_equal(&entry->type, &weight->type))
        bgi_string_add(problems, "; `%s` is %s, but the network has %s", weight->name,
                       bg_type_text(&entry->type, given), bg_type_text(&weight->type, have));
}

static bg_status find_problems(bg_weights *weights, const bg_safetensors *file, bgi_string *problems, bg_error *error)
{
    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        BGI_TRY(bg_weights_at(weights, i, &weight, error));
        if (is_model_weight(&weight))
            compare(&weight, file, problems);
    }
    for (size_t i = 0; i < bg_safetensors_count(file); i++) {
        const char *name = bg_safetensors_at(file, i)->name;
        bg_weight weight;
        bg_status status = bg_weights_find(weights, name, &weight, NULL);
        if (status != BG_OK || !is_model_weight(&weight))
            bgi_string_add(problems, "; the network has no `%s`", name);
    }
    return BG_OK;
}

bg_status cli_weights_load(bg_weights *weights, const char *path, bg_error *error)
{
    bg_safetensors *file = NULL;
    bgi_string problems = {0};
    char *text = NULL;
    void *value = NULL;
    bg_status status;

    if (bg_safetensors_open_header(path, &file, error) != BG_OK)
        return bg_error_context(error, error->status, "--init");
    BGI_TRY_CLEANUP(find_problems(weights, file, &problems, error));
    BGI_TRY_CLEANUP(bgi_string_finish(&problems, &text, error));
    if (text[0] != '\0') {
        status =
            bg_error_set(error, BG_ERROR_SHAPE, "--init %s does not hold this network's weights: %s", path, text + 2);
        goto cleanup;
    }
    for (size_t i = 0; i < bg_safetensors_count(file); i++) {
        const bg_safetensors_entry *entry = bg_safetensors_at(file, i);
        const size_t size_bytes = bg_type_size_bytes(&entry->type);
        free(value);
        value = malloc(size_bytes);
        if (value == NULL)
            BGI_TRY_CLEANUP(bgi_error_memory(error, entry->name, size_bytes));
        BGI_TRY_CLEANUP(bg_safetensors_read(file, entry, 0, size_bytes, value, error));
        BGI_TRY_CLEANUP(bg_weights_set(weights, entry->name, &entry->type, value, error));
    }
cleanup:
    free(value);
    bgi_string_clear(&problems);
    free(text);
    bg_safetensors_destroy(file);
    return status;
}

bg_status cli_save_check(const char *path, const char *option, bg_error *error)
{
    bgi_file_writer writer = {0};

    if (bgi_file_writer_begin(&writer, path, error) != BG_OK)
        return bg_error_context(error, error->status, "--%s", option);
    bgi_file_writer_abandon(&writer, NULL);
    return BG_OK;
}
