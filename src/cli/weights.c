/*
 * weights.c: writes trained values to safetensors files, under PyTorch's names, and reads them from every format of
 * bg_weights_load. Optimizer state is not part of such a file.
 */
#include "cli/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/onnx.h>
#include <brigade/safetensors.h>
#include <brigade/weights.h>

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
    return strlen(path) > strlen(".onnx") && bgi_text_ends_with(path, ".onnx");
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

enum { NAMES_SHOWN = 5 };

/* Lists the first weights with one outcome. */
static void list_problems(const bg_weights_report *report, bg_weights_outcome outcome, uint32_t *shown, bgi_string *out)
{
    for (uint32_t i = 0; i < report->result_count && *shown < NAMES_SHOWN; i++) {
        const bg_weights_result *result = &report->results[i];
        char have[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];

        if (result->outcome != outcome)
            continue;
        if (outcome == BG_WEIGHTS_MISSING)
            bgi_string_add(out, "; `%s` is missing", result->name);
        else if (outcome == BG_WEIGHTS_UNEXPECTED)
            bgi_string_add(out, "; the network has no `%s`", result->name);
        else
            bgi_string_add(out, "; `%s` is %s, but the network has %s", result->name,
                           bg_type_text(&result->found, given), bg_type_text(&result->wanted, have));
        ++*shown;
    }
}

/* Replaces the library's message, whose advice is about members of a struct. */
static bg_status fail_weights(const char *path, const bg_weights_report *report, bg_error *error)
{
    const uint32_t *counts = report->counts;
    const uint32_t total = counts[BG_WEIGHTS_MISFIT] + counts[BG_WEIGHTS_MISSING] + counts[BG_WEIGHTS_UNEXPECTED];
    bgi_string text = {0};
    uint32_t shown = 0;

    list_problems(report, BG_WEIGHTS_MISFIT, &shown, &text);
    list_problems(report, BG_WEIGHTS_MISSING, &shown, &text);
    list_problems(report, BG_WEIGHTS_UNEXPECTED, &shown, &text);
    if (total > shown)
        bgi_string_add(&text,
                       "; and %" PRIu32 " more (%" PRIu32 " of another shape or type, %" PRIu32 " missing, %" PRIu32
                       " that the network does not have)",
                       total - shown, counts[BG_WEIGHTS_MISFIT], counts[BG_WEIGHTS_MISSING],
                       counts[BG_WEIGHTS_UNEXPECTED]);
    bg_error_clear(error);
    bg_error_set(error, BG_ERROR_SHAPE, "--init %s does not hold this network's weights: %s", path,
                 text.data != NULL && !text.failed ? text.data + 2 : "");
    bgi_string_clear(&text);
    return BG_ERROR_SHAPE;
}

bg_status cli_weights_open(const char *path, bgi_weights_source **out, bg_error *error)
{
    if (path == NULL || bgi_weights_source_open(path, out, error) == BG_OK)
        return BG_OK;
    return bg_error_context(error, error->status, "--init");
}

bg_status cli_weights_load(bg_weights *weights, bgi_weights_source **source, const char *path, bg_error *error)
{
    bg_weights_report report = {.result_count = 0};
    bg_status status = bgi_weights_load_source(weights, *source, path, NULL, &report, error);

    if (status != BG_OK)
        status = report.counts[BG_WEIGHTS_MISFIT] + report.counts[BG_WEIGHTS_MISSING] +
                             report.counts[BG_WEIGHTS_UNEXPECTED] >
                         0
                     ? fail_weights(path, &report, error)
                     : bg_error_context(error, status, "--init");
    bg_weights_report_clear(&report);
    bgi_weights_source_close(*source);
    *source = NULL;
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
