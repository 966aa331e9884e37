/*
 * costs_file.c: reads and writes costs of stages as JSON, so that a plan with measured costs can be made again without
 * measuring.
 *
 *     {"format": "brigade costs 1", "message_bytes_per_ns": 0.0, "stages": [{"forward_ns": 1.0, ...}, ...]}
 *
 * The reader is strict: a missing, repeated or unknown key, and an invalid cost, are errors. Ignoring a cost silently
 * would give a wrong plan.
 */
#include "profile/costs.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "formats/json_tree.h"
#include "formats/json_write.h"

#define FORMAT "brigade costs 1"

enum { LARGEST_FILE_BYTES = 1 << 26, DIGITS = 17 };

#define FIELD(member) .name = #member, .offset = offsetof(bg_stage_cost, member)

static const struct {
    const char *name;
    size_t offset;
    bool is_optional; /* zero if the key is missing */
} fields[] = {
    {FIELD(forward_ns)}, {FIELD(recompute_ns), .is_optional = true}, {FIELD(backward_ns)}, {FIELD(weights_ns)},
    {FIELD(update_ns)},
};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

/* ---- reading ---- */

/* Reads a number of an object. `where`, for messages, is "stages[3]" or "the file". */
static bg_status read_number(const char *name, const char *where, const json_t *object, const char *key, double *out,
                             bg_error *error)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: %s has no number `%s`", name, where, key);
    *out = json_number_value(value);
    if (!isfinite(*out) || *out < 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `%s` of %s is %g; it must be at least 0", name, key, where,
                            *out);
    return BG_OK;
}

static bg_status check_size(const char *name, const char *where, const json_t *object, size_t count, bg_error *error)
{
    if (!json_is_object(object))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: %s is not an object", name, where);
    if (json_object_size(object) > count)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: %s has %zu keys, but only %zu of them are known", name, where,
                            json_object_size(object), count);
    return BG_OK;
}

static bg_status read_stages(const char *name, const json_t *stages, bg_costs *out, bg_error *error)
{
    const size_t count = json_array_size(stages);
    char where[32];

    if (!json_is_array(stages) || count == 0 || count > UINT32_MAX)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `stages` must be a list of at least one stage", name);
    out->stages = calloc(count, sizeof *out->stages);
    if (out->stages == NULL)
        return bgi_error_memory(error, "costs", count * sizeof *out->stages);
    out->stage_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *stage = json_array_get(stages, i);
        snprintf(where, sizeof where, "stages[%zu]", i);
        BGI_TRY(check_size(name, where, stage, FIELD_COUNT, error));
        for (size_t f = 0; f < FIELD_COUNT; f++)
            if (!fields[f].is_optional || json_object_get(stage, fields[f].name) != NULL)
                BGI_TRY(read_number(name, where, stage, fields[f].name,
                                    (double *)((char *)&out->stages[i] + fields[f].offset), error));
    }
    return BG_OK;
}

static bg_status read_root(const char *name, const json_t *root, bg_costs *out, bg_error *error)
{
    const char *format = json_string_value(json_object_get(root, "format"));

    BGI_TRY(check_size(name, "the file", root, 3, error));
    if (format == NULL || strcmp(format, FORMAT) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: its `format` is not \"" FORMAT "\"", name);
    BGI_TRY(read_number(name, "the file", root, "message_bytes_per_ns", &out->message_bytes_per_ns, error));
    return read_stages(name, json_object_get(root, "stages"), out, error);
}

bg_status bgi_costs_parse(const char *name, const char *data, size_t size_bytes, bg_costs *out, bg_error *error)
{
    json_t *root = NULL;
    bg_costs costs = {0};
    bg_status status;

    BGI_TRY(bgi_json_parse(name, data, size_bytes, &root, error));
    status = read_root(name, root, &costs, error);
    json_decref(root);
    if (status != BG_OK)
        bg_costs_clear(&costs);
    else
        *out = costs;
    return status;
}

bg_status bg_costs_load(const char *path, bg_costs *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    char *data = NULL;
    size_t size_bytes;
    bg_status status;

    BGI_TRY(bgi_file_load(path, LARGEST_FILE_BYTES, &data, &size_bytes, error));
    status = bgi_costs_parse(path, data, size_bytes, out, error);
    free(data);
    return status;
}

/* ---- writing ---- */

bg_status bg_costs_save(const bg_costs *costs, const char *path, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(costs, "costs", __func__, error));
    BGI_TRY(bgi_require(path, "path", __func__, error));

    bgi_json_writer w = {.indent = 1};
    char *text = NULL;
    size_t length = 0;
    bg_status status;

    bgi_json_open(&w, NULL, '{');
    bgi_json_text(&w, "format", FORMAT);
    bgi_json_real(&w, "message_bytes_per_ns", costs->message_bytes_per_ns, DIGITS);
    bgi_json_open(&w, "stages", '[');
    for (uint32_t i = 0; i < costs->stage_count; i++) {
        bgi_json_open(&w, NULL, '{');
        for (size_t f = 0; f < FIELD_COUNT; f++)
            bgi_json_real(&w, fields[f].name, *(const double *)((const char *)&costs->stages[i] + fields[f].offset),
                          DIGITS);
        bgi_json_close(&w, '}');
    }
    bgi_json_close(&w, ']');
    bgi_json_close(&w, '}');
    BGI_TRY(bgi_json_finish(&w, &text, &length, error));
    status = bgi_file_save(path, text, length, error);
    free(text);
    return status;
}

void bg_costs_clear(bg_costs *costs)
{
    free(costs->stages);
    *costs = (bg_costs){0};
}
