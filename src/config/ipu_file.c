/*
 * ipu_file.c: reads and writes configuration files. A key of a file is a field, a record of other programs (versions),
 * a deprecated field, an old name, or unknown. Only unknown keys are errors, unless the caller asks to keep them.
 */
#include "config/ipu_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "core/error.h"
#include "core/file.h"
#include "formats/json_tree.h"

#define VERSION_KEY "brigade_version"

static const char *const records[] = {"optimum_version", "transformers_version", VERSION_KEY, "model_type"};
static const char *const deprecated[] = {"sharded_execution_for_inference", "enable_half_first_order_momentum"};
static const struct {
    const char *old_name, *name;
} renamed[] = {{"anchor_mode", "output_mode"}};

static bool is_in(const char *name, const char *const *names, size_t count)
{
    size_t i = 0;

    while (i < count && strcmp(names[i], name) != 0)
        i++;
    return i < count;
}

bool bgi_ipu_is_record(const char *name)
{
    return is_in(name, records, sizeof records / sizeof records[0]);
}

bool bgi_ipu_is_deprecated(const char *name)
{
    return is_in(name, deprecated, sizeof deprecated / sizeof deprecated[0]);
}

const char *bgi_ipu_renamed(const char *name)
{
    for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++)
        if (strcmp(renamed[i].old_name, name) == 0)
            return renamed[i].name;
    return NULL;
}

/* ---- reading ---- */

typedef struct places {
    const bgi_document *document;
    const char *name;
    const bg_ipu_config *config;                  /* NULL until the file is read */
    const json_t *from_file[BGI_IPU_FIELD_COUNT]; /* the given values before the overrides */
} places;

static const char *place_of(const void *user, const char *field, char *text, size_t size)
{
    const places *it = user;
    const bgi_ipu_field_id id = field != NULL ? bgi_ipu_field_find(field) : BGI_IPU_FIELD_COUNT;
    const char *place = field != NULL ? json_string_value(json_object_get(it->document->places, field)) : NULL;

    if (it->config != NULL && id != BGI_IPU_FIELD_COUNT && it->config->given[id] != it->from_file[id])
        snprintf(text, size, "update string: ");
    else if (place != NULL)
        snprintf(text, size, "%s:%s: ", it->name, place);
    else
        snprintf(text, size, "%s: ", it->name);
    return text;
}

static void report_unknown(bgi_problems *problems, const char *key, const json_t *json)
{
    const char *nearest = bgi_ipu_field_nearest(key);
    bgi_string value = {0};

    bgi_json_print(&value, json);
    bgi_problems_add(problems, key, "unknown argument %.100s=%.200s%s%s%s", key, value.failed ? "..." : value.data,
                     nearest != NULL ? "; did you mean `" : "", nearest != NULL ? nearest : "",
                     nearest != NULL ? "`?" : "");
    bgi_string_clear(&value);
}

static bool keep(bg_ipu_config *config, const char *key, json_t *json)
{
    return json_object_set(config->kept, key, json) == 0;
}

/* Reads a key and its value; returns false when memory is exhausted. */
static bool read_key(bg_ipu_config *config, const char *key, json_t *json, bool keep_unknown, bgi_problems *problems)
{
    const char *today = bgi_ipu_renamed(key);
    const bgi_ipu_field_id id = bgi_ipu_field_find(today != NULL ? today : key);

    if (id != BGI_IPU_FIELD_COUNT && config->given[id] != NULL) {
        bgi_problems_add(problems, key, "`%s` is also given under an old name; remove one of the two",
                         bgi_ipu_fields[id].name);
    } else if (id != BGI_IPU_FIELD_COUNT) {
        if (today != NULL)
            bgi_string_add(&config->notes, "`%s` is an old name of `%s`\n", key, today);
        bgi_ipu_give(config, id, json);
    } else if (bgi_ipu_is_record(key)) {
        return keep(config, key, json);
    } else if (bgi_ipu_is_deprecated(key)) {
        bgi_string_add(&config->notes, "`%s` is deprecated and has no effect; it is kept\n", key);
        return keep(config, key, json);
    } else if (keep_unknown) {
        bgi_string_add(&config->notes, "`%s` is an unknown field; it is kept\n", key);
        return keep(config, key, json);
    } else {
        report_unknown(problems, key, json);
    }
    return true;
}

bg_status bgi_ipu_read_document(const bgi_document *document, const char *name,
                                const bg_ipu_config_load_options *options, bg_ipu_config **out, bgi_problems *problems,
                                bg_error *error)
{
    places where = {.document = document, .name = name};
    bg_ipu_config *config = NULL;
    bool good = true;

    BGI_TRY(bgi_ipu_config_begin(&config, error));
    config->is_from_file = true;
    problems->place = place_of;
    problems->user = &where;
    for (void *at = json_object_iter(document->root); at != NULL && good;
         at = json_object_iter_next(document->root, at))
        good = read_key(config, json_object_iter_key(at), json_object_iter_value(at),
                        options != NULL && options->keep_unknown, problems);
    where.config = config;
    memcpy(where.from_file, config->given, sizeof where.from_file);
    problems->place = NULL;
    if (good && options != NULL && options->overrides != NULL)
        bgi_ipu_read_updates(config, options->overrides, problems);
    problems->place = place_of;
    if (good)
        bgi_ipu_settle(config, problems);
    problems->place = NULL;
    if (!good || problems->failed) {
        bg_ipu_config_destroy(config);
        return bgi_error_memory(error, "configuration", sizeof *config);
    }
    *out = config;
    return BG_OK;
}

static bg_status finish_reading(bgi_document *document, const char *name, const bg_ipu_config_load_options *options,
                                bg_ipu_config **out, bg_error *error)
{
    bgi_problems problems = {0};
    bg_ipu_config *config = NULL;
    bg_status status = bgi_ipu_read_document(document, name, options, &config, &problems, error);

    if (status == BG_OK)
        status = bgi_problems_report(&problems, BG_ERROR_INVALID, error);
    bgi_problems_clear(&problems);
    bgi_document_clear(document);
    if (status == BG_OK)
        *out = config;
    else
        bg_ipu_config_destroy(config);
    return status;
}

bg_status bg_ipu_config_parse_json(const char *text, const char *name, const bg_ipu_config_load_options *options,
                                   bg_ipu_config **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(text, "text", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_ipu_config_load_options", NULL, error));

    bgi_document document = {0};

    BGI_TRY(bgi_document_parse_json(text, strlen(text), name, &document, error));
    return finish_reading(&document, name, options, out, error);
}

bg_status bg_ipu_config_parse_yaml(const char *text, const char *name, const bg_ipu_config_load_options *options,
                                   bg_ipu_config **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(text, "text", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_ipu_config_load_options", NULL, error));

    bgi_document document = {0};

    BGI_TRY(bgi_document_parse_yaml(text, strlen(text), name, &document, error));
    return finish_reading(&document, name, options, out, error);
}

bg_status bgi_ipu_file_of(const char *path, char **out, bg_error *error)
{
    struct stat info;
    const bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    char *file = is_folder ? bgi_path_join(path, BG_IPU_CONFIG_FILE) : strdup(path);

    if (file == NULL)
        return bgi_error_memory(error, "path", strlen(path));
    *out = file;
    return BG_OK;
}

bg_status bg_ipu_config_load(const char *path, const bg_ipu_config_load_options *options, bg_ipu_config **out,
                             bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_ipu_config_load_options", NULL, error));

    bgi_document document = {0};
    char *file = NULL;
    bg_status status;

    BGI_TRY(bgi_ipu_file_of(path, &file, error));
    status = bgi_document_load(file, &document, error);
    if (status == BG_OK)
        status = finish_reading(&document, file, options, out, error);
    free(file);
    return status;
}

/* ---- writing ---- */

static bool holds_version(const json_t *kept)
{
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
        if (json_object_get(kept, records[i]) != NULL)
            return true;
    return false;
}

void bg_ipu_config_set_version_written(bg_ipu_config *config, bool is_written)
{
    config->hides_version = !is_written;
}

/* Returns the value that is written for a field; NULL if none is written. If the configuration was not read from a
 * file, inferred values are written as null, so that a reader infers them. */
static json_t *written_value(const bg_ipu_config *config, uint32_t id)
{
    if (config->is_from_file || config->given[id] != NULL)
        return config->given[id];
    return (bgi_ipu_fields[id].kinds & BGI_NULL) != 0 ? json_null() : config->values[id].json;
}

json_t *bgi_ipu_document_of(const bg_ipu_config *config)
{
    json_t *document = bgi_json_copy(config->kept, false);
    bool good = document != NULL;

    for (uint32_t id = 0; good && id < BGI_IPU_FIELD_COUNT; id++) {
        json_t *json = written_value(config, id);
        good = json == NULL || json_object_set(document, bgi_ipu_fields[id].name, json) == 0;
    }
    if (good && config->hides_version)
        json_object_del(document, VERSION_KEY);
    /* A file that was read without a version is written without one. */
    else if (good && !config->is_from_file && !holds_version(config->kept))
        good = json_object_set_new(document, VERSION_KEY, json_string(bg_version())) == 0;
    if (!good) {
        json_decref(document);
        return NULL;
    }
    return document;
}

static bg_status print_document(const bg_ipu_config *config, void (*print)(bgi_string *, const json_t *),
                                char **out_text, bg_error *error)
{
    json_t *document = bgi_ipu_document_of(config);
    bgi_string text = {0};

    if (document == NULL)
        return bgi_error_memory(error, "configuration", 0);
    print(&text, document);
    json_decref(document);
    return bgi_string_finish(&text, out_text, error);
}

bg_status bg_ipu_config_print_json(const bg_ipu_config *config, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));
    return print_document(config, bgi_document_print_json, out_text, error);
}

bg_status bg_ipu_config_print_yaml(const bg_ipu_config *config, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));
    return print_document(config, bgi_document_print_yaml, out_text, error);
}

bg_status bg_ipu_config_save(const bg_ipu_config *config, const char *folder, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(folder, "folder", __func__, error));

    char *path, *text = NULL;
    bg_status status;

    if (bgi_file_exists(folder))
        return bg_error_set(error, BG_ERROR_INVALID, "%s is a file; a configuration is saved as %s in a folder", folder,
                            BG_IPU_CONFIG_FILE);
    BGI_TRY(bgi_folder_create(folder, error));
    path = bgi_path_join(folder, BG_IPU_CONFIG_FILE);
    status = path != NULL ? bg_ipu_config_print_json(config, &text, error) : bgi_error_memory(error, "path", 0);
    if (status == BG_OK)
        status = bgi_file_save(path, text, strlen(text), error);
    free(text);
    free(path);
    return status;
}
