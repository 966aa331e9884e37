/*
 * call_costs_file.c: stores costs of calls in a file in the user's cache folder. Costs are valid for one kind of
 * processor and one build of the library, so a file of another processor or build is not read. The reader is strict:
 * every number must be finite and not negative, and every key must occur once.
 *
 *     {"format": "brigade call costs 4", "processor": "AMD EPYC, ...", "build": "...", "cores": 2,
 *      "instruction_ns": 1.0, "copy_bytes_per_ns": 20.0, "transfer_bytes_per_ns": 10.0,
 *      "rank_latency_ns": 500.0, "rank_bytes_per_ns": 2.0, "core_ratios": [1.1, 0.9],
 *      "calls": [{"call": "linear.avx512 float32[40,320], ...", "alone_ns": 1.0, "busy_ns": 1.0, "helped_ns": 1.0},
 * ...]}
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "formats/json_tree.h"
#include "formats/json_write.h"
#include "predict/call_costs.h"

#define FORMAT "brigade call costs 4"

enum { LARGEST_FILE_BYTES = 1 << 26, MOST_CALLS = 100000, KEYS = 11, CALL_KEYS = 4, DIGITS = 9 };

/* ---- whose costs ---- */

char *bgi_call_costs_path(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char processor[160];
    bgi_string path = {0};
    char *out = NULL;

    if (cache != NULL && cache[0] == '/')
        bgi_string_add(&path, "%s/brigade/calls-", cache);
    else if (home != NULL && home[0] == '/')
        bgi_string_add(&path, "%s/.cache/brigade/calls-", home);
    else
        return NULL;
    bgi_processor_text(processor, sizeof processor);
    for (char *c = processor; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '-')
            *c = '_';
    bgi_string_add(&path, "%s-%s.json", processor, bg_version());
    return bgi_string_finish(&path, &out, NULL) == BG_OK ? out : NULL;
}

/* ---- reading ---- */

static bg_status read_number(const char *name, const json_t *object, const char *key, double *out, bg_error *error)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `%s` is missing or not a number", name, key);
    *out = json_number_value(value);
    if (!isfinite(*out) || *out < 0.0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `%s` is %g; it must be at least 0", name, key, *out);
    return BG_OK;
}

static bg_status read_call(const char *name, const json_t *call, size_t index, bgi_call_costs *out, bg_error *error)
{
    const char *key = json_string_value(json_object_get(call, "call"));
    bgi_call_times_ns ns;

    if (json_object_size(call) != CALL_KEYS || key == NULL || strlen(key) >= BGI_CALL_KEY_BYTES)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: calls[%zu] is not an object with `call`, `alone_ns`, `busy_ns` and `helped_ns`", name,
                            index);
    BGI_TRY(read_number(name, call, "alone_ns", &ns.alone, error));
    BGI_TRY(read_number(name, call, "busy_ns", &ns.busy, error));
    BGI_TRY(read_number(name, call, "helped_ns", &ns.helped, error));
    if (bgi_call_costs_find(out, key) != NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: calls[%zu] occurs twice", name, index);
    return bgi_call_costs_put(out, key, ns, error);
}

static bg_status read_core_ratios(const char *name, const json_t *root, bgi_call_costs *out, bg_error *error)
{
    const json_t *ratios = json_object_get(root, "core_ratios");

    if (!json_is_array(ratios) || json_array_size(ratios) > BGI_MOST_CORES)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `core_ratios` must be a list of at most %d numbers", name,
                            BGI_MOST_CORES);
    for (size_t i = 0; i < json_array_size(ratios); i++) {
        const double ratio = json_number_value(json_array_get(ratios, i)); /* 0 if the element is no number */
        if (!isfinite(ratio) || ratio <= 0.0)
            return bg_error_set(error, BG_ERROR_PARSE, "%s: core_ratios[%zu] is not a number above 0", name, i);
        out->core_ratios[i] = ratio;
    }
    out->core_ratio_count = (uint32_t)json_array_size(ratios);
    return BG_OK;
}

static bg_status check_owner(const char *name, const json_t *root, const char *key, const char *own, bg_error *error)
{
    const char *value = json_string_value(json_object_get(root, key));

    if (value == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `%s` is missing or not a string", name, key);
    if (strcmp(value, own) != 0)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: its `%s` is %.80s, not %.80s", name, key, value, own);
    return BG_OK;
}

static bg_status read_root(const char *name, const json_t *root, bgi_call_costs *out, bg_error *error)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *calls = json_object_get(root, "calls");
    char processor[160];
    double cores;

    if (format == NULL || strcmp(format, FORMAT) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: its `format` is not \"" FORMAT "\"", name);
    if (json_object_size(root) != KEYS)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: the file has %zu keys but must have %d", name,
                            json_object_size(root), KEYS);
    BGI_TRY(read_number(name, root, "cores", &cores, error));
    if (cores < 1.0 || cores > 65536.0 || cores != floor(cores))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `cores` is %g; it must be a whole number of at least 1", name,
                            cores);
    out->cores = (uint32_t)cores;
    BGI_TRY(read_number(name, root, "instruction_ns", &out->instruction_ns, error));
    BGI_TRY(read_number(name, root, "copy_bytes_per_ns", &out->copy_bytes_per_ns, error));
    BGI_TRY(read_number(name, root, "transfer_bytes_per_ns", &out->transfer_bytes_per_ns, error));
    BGI_TRY(read_number(name, root, "rank_latency_ns", &out->rank_link.latency_ns, error));
    BGI_TRY(read_number(name, root, "rank_bytes_per_ns", &out->rank_link.bytes_per_ns, error));
    BGI_TRY(read_core_ratios(name, root, out, error));
    if (!json_is_array(calls) || json_array_size(calls) > MOST_CALLS)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `calls` must be a list of at most %d calls", name, MOST_CALLS);
    for (size_t i = 0; i < json_array_size(calls); i++)
        BGI_TRY(read_call(name, json_array_get(calls, i), i, out, error));
    BGI_TRY(check_owner(name, root, "processor", bgi_processor_text(processor, sizeof processor), error));
    return check_owner(name, root, "build", bgi_build_id(), error);
}

bg_status bgi_call_costs_parse(const char *name, const char *text, size_t size_bytes, bgi_call_costs *out,
                               bg_error *error)
{
    bgi_call_costs costs = {.costs = NULL};
    json_t *root = NULL;
    bg_status status;

    BGI_TRY(bgi_json_parse(name, text, size_bytes, &root, error));
    status = read_root(name, root, &costs, error);
    json_decref(root);
    if (status == BG_OK)
        *out = costs;
    else
        bgi_call_costs_clear(&costs);
    return status;
}

bg_status bgi_call_costs_load(const char *path, bgi_call_costs *out, bg_error *error)
{
    char *text = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, LARGEST_FILE_BYTES, &text, &size_bytes, error));
    status = bgi_call_costs_parse(path, text, size_bytes, out, error);
    free(text);
    return status;
}

/* ---- writing ---- */

static bg_status make_folder(const char *path, bg_error *error)
{
    char *folder = malloc(strlen(path) + 1);
    bg_status status;

    if (folder == NULL)
        return bgi_error_memory(error, "path", strlen(path) + 1);
    memcpy(folder, path, strlen(path) + 1);
    *strrchr(folder, '/') = '\0'; /* paths of bgi_call_costs_path have a folder */
    status = bgi_folder_create(folder, error);
    free(folder);
    return status;
}

bg_status bgi_call_costs_save(const bgi_call_costs *costs, const char *path, bg_error *error)
{
    bgi_json_writer w = {.indent = 1};
    char processor[160], *text = NULL;
    size_t length = 0;
    bg_status status;

    bgi_json_open(&w, NULL, '{');
    bgi_json_text(&w, "format", FORMAT);
    bgi_json_text(&w, "processor", bgi_processor_text(processor, sizeof processor));
    bgi_json_text(&w, "build", bgi_build_id());
    bgi_json_count(&w, "cores", costs->cores > 0 ? costs->cores : 1);
    bgi_json_real(&w, "instruction_ns", costs->instruction_ns, DIGITS);
    bgi_json_real(&w, "copy_bytes_per_ns", costs->copy_bytes_per_ns, DIGITS);
    bgi_json_real(&w, "transfer_bytes_per_ns", costs->transfer_bytes_per_ns, DIGITS);
    bgi_json_real(&w, "rank_latency_ns", costs->rank_link.latency_ns, DIGITS);
    bgi_json_real(&w, "rank_bytes_per_ns", costs->rank_link.bytes_per_ns, DIGITS);
    bgi_json_open(&w, "core_ratios", '[');
    for (uint32_t i = 0; i < costs->core_ratio_count; i++)
        bgi_json_real(&w, NULL, costs->core_ratios[i], DIGITS);
    bgi_json_close(&w, ']');
    bgi_json_open(&w, "calls", '[');
    for (size_t i = 0; i < costs->count && i < MOST_CALLS; i++) {
        bgi_json_open(&w, NULL, '{');
        bgi_json_text(&w, "call", costs->costs[i].key);
        bgi_json_real(&w, "alone_ns", costs->costs[i].ns.alone, DIGITS);
        bgi_json_real(&w, "busy_ns", costs->costs[i].ns.busy, DIGITS);
        bgi_json_real(&w, "helped_ns", costs->costs[i].ns.helped, DIGITS);
        bgi_json_close(&w, '}');
    }
    bgi_json_close(&w, ']');
    bgi_json_close(&w, '}');
    BGI_TRY(bgi_json_finish(&w, &text, &length, error));
    status = strchr(path, '/') != NULL ? make_folder(path, error) : BG_OK;
    if (status == BG_OK)
        status = bgi_file_save(path, text, length, error);
    free(text);
    return status;
}
