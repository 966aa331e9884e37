/*
 * ipu_config.c: creates and copies the configuration object, and reads and changes fields by name. It reads no files;
 * ipu_check.c checks the values.
 */
#include "config/ipu_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"
#include "options/choices.h"
#include "formats/json_tree.h"

const bgi_ipu_field bgi_ipu_fields[BGI_IPU_FIELD_COUNT] = {
#define BGI_FIELD(id, name, kinds, fallback, least, most, help)                                                        \
    [BGI_IPU_##id] = {name, kinds, fallback, least, most, false, false, help},
#define BGI_MANAGED(id, name, kinds, fallback, other, least, most, help)                                               \
    [BGI_IPU_##id] = {name, kinds, fallback, least, most, true, false, help},                                          \
    [BGI_IPU_INFERENCE_##id] = {                                                                                       \
        "inference_" name, (kinds) | BGI_NULL, other, least, most, false, true, "the same in inference: " help},
#include "config/ipu_fields.def"
#undef BGI_FIELD
#undef BGI_MANAGED
};

/* ---- names ---- */

bgi_ipu_field_id bgi_ipu_field_find(const char *name)
{
    uint32_t id = 0;

    while (id < BGI_IPU_FIELD_COUNT && strcmp(bgi_ipu_fields[id].name, name) != 0)
        id++;
    return (bgi_ipu_field_id)id;
}

const char *bgi_ipu_field_nearest(const char *name)
{
    const char *names[BGI_IPU_FIELD_COUNT];

    for (uint32_t id = 0; id < BGI_IPU_FIELD_COUNT; id++)
        names[id] = bgi_ipu_fields[id].name;
    return bgi_text_nearest(name, names, BGI_IPU_FIELD_COUNT);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(bgi_ipu_fields[*(const uint8_t *)a].name, bgi_ipu_fields[*(const uint8_t *)b].name);
}

/* Returns the field at `index` in the order of names. The table itself is ordered by meaning. */
static bgi_ipu_field_id field_by_name(size_t index)
{
    uint8_t order[BGI_IPU_FIELD_COUNT];

    for (uint32_t id = 0; id < BGI_IPU_FIELD_COUNT; id++)
        order[id] = (uint8_t)id;
    qsort(order, BGI_IPU_FIELD_COUNT, sizeof order[0], compare_names);
    return (bgi_ipu_field_id)order[index];
}

const char *bg_ipu_config_field_at(size_t index)
{
    return index < BGI_IPU_FIELD_COUNT ? bgi_ipu_fields[field_by_name(index)].name : NULL;
}

const char *bg_ipu_config_field_help(size_t index)
{
    return index < BGI_IPU_FIELD_COUNT ? bgi_ipu_fields[field_by_name(index)].help : NULL;
}

/* ---- life ---- */

void bgi_ipu_value_clear(bgi_ipu_value *value)
{
    json_decref(value->json);
    free(value->integers);
    free(value->reals);
    free(value->text);
    *value = (bgi_ipu_value){0};
}

void bg_ipu_config_destroy(bg_ipu_config *config)
{
    if (config == NULL)
        return;
    for (uint32_t id = 0; id < BGI_IPU_FIELD_COUNT; id++) {
        json_decref(config->given[id]);
        bgi_ipu_value_clear(&config->values[id]);
    }
    json_decref(config->kept);
    bgi_string_clear(&config->notes);
    free(config);
}

bg_status bgi_ipu_config_begin(bg_ipu_config **out, bg_error *error)
{
    bg_ipu_config *config = calloc(1, sizeof *config);

    if (config != NULL)
        config->kept = json_object();
    if (config == NULL || config->kept == NULL) {
        free(config);
        return bgi_error_memory(error, "configuration", sizeof *config);
    }
    *out = config;
    return BG_OK;
}

bg_status bg_ipu_config_create(bg_ipu_config **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_ipu_config *config = NULL;
    bgi_problems problems = {0};
    bg_status status;

    BGI_TRY(bgi_ipu_config_begin(&config, error));
    bgi_ipu_settle(config, &problems);
    status = bgi_problems_report(&problems, BG_ERROR_INTERNAL, error);
    bgi_problems_clear(&problems);
    if (status != BG_OK) {
        bg_ipu_config_destroy(config);
        return status;
    }
    *out = config;
    return BG_OK;
}

/* Copies the given values, without the computed ones. A tree never changes after it was given, so copies can share
 * it. */
static bg_status copy_given(const bg_ipu_config *config, bg_ipu_config **out, bg_error *error)
{
    bg_ipu_config *copy = NULL;

    BGI_TRY(bgi_ipu_config_begin(&copy, error));
    for (uint32_t id = 0; id < BGI_IPU_FIELD_COUNT; id++)
        copy->given[id] = json_incref(config->given[id]);
    copy->is_from_file = config->is_from_file;
    copy->hides_version = config->hides_version;
    copy->is_inference = config->is_inference;
    if (config->notes.length > 0)
        bgi_string_add(&copy->notes, "%s", config->notes.data);
    if (json_object_update(copy->kept, config->kept) != 0 || copy->notes.failed) {
        bg_ipu_config_destroy(copy);
        return bgi_error_memory(error, "configuration", sizeof *copy);
    }
    *out = copy;
    return BG_OK;
}

bg_status bgi_ipu_take(bg_ipu_config *config, bg_ipu_config *trial, bg_error *error)
{
    bgi_problems problems = {0};
    bg_status status;

    bgi_ipu_settle(trial, &problems);
    status = bgi_problems_report(&problems, BG_ERROR_INVALID, error);
    bgi_problems_clear(&problems);
    if (status == BG_OK) {
        const bg_ipu_config old = *config;
        *config = *trial;
        *trial = old;
    }
    bg_ipu_config_destroy(trial);
    return status;
}

bg_status bg_ipu_config_clone(const bg_ipu_config *config, bg_ipu_config **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_ipu_config *copy = NULL, *trial = NULL;
    bg_status status;

    BGI_TRY(bgi_ipu_config_begin(&copy, error));
    status = copy_given(config, &trial, error);
    if (status == BG_OK)
        status = bgi_ipu_take(copy, trial, error);
    if (status != BG_OK) {
        bg_ipu_config_destroy(copy);
        return status;
    }
    *out = copy;
    return BG_OK;
}

bg_status bg_ipu_config_set_mode(bg_ipu_config *config, const char *mode, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    if (mode == NULL || (strcmp(mode, "training") != 0 && strcmp(mode, "inference") != 0))
        return bg_error_set(error, BG_ERROR_INVALID, "mode is `%s`; it can only be training or inference",
                            mode != NULL ? mode : "");
    config->is_inference = mode[0] == 'i';
    return BG_OK;
}

const char *bg_ipu_config_mode(const bg_ipu_config *config)
{
    return config->is_inference ? "inference" : "training";
}

/* ---- fields ---- */

bgi_ipu_field_id bgi_ipu_in_mode(bgi_ipu_field_id id, bool for_inference)
{
    return for_inference && bgi_ipu_fields[id].is_managed ? (bgi_ipu_field_id)(id + 1) : id;
}

const bgi_ipu_value *bgi_ipu_held(const bg_ipu_config *config, bgi_ipu_field_id id, bool for_inference)
{
    return &config->values[bgi_ipu_in_mode(id, for_inference)];
}

int64_t bgi_ipu_integer(const bg_ipu_config *config, bgi_ipu_field_id id)
{
    return json_integer_value(config->values[id].json);
}

bool bgi_ipu_bool(const bg_ipu_config *config, bgi_ipu_field_id id)
{
    return json_is_true(config->values[id].json);
}

void bgi_ipu_give(bg_ipu_config *config, bgi_ipu_field_id id, json_t *json)
{
    json_t *old = config->given[id];

    config->given[id] = json_incref(json);
    json_decref(old);
}

void bgi_ipu_give_all(bg_ipu_config *config)
{
    for (uint32_t id = 0; id < BGI_IPU_FIELD_COUNT; id++)
        bgi_ipu_give(config, (bgi_ipu_field_id)id, config->values[id].json);
}

static bg_status find_field(const bg_ipu_config *config, const char *name, bgi_ipu_field_id *out, bg_error *error)
{
    const bgi_ipu_field_id id = bgi_ipu_field_find(name);
    const char *nearest;

    if (id < BGI_IPU_FIELD_COUNT) {
        *out = bgi_ipu_in_mode(id, config->is_inference);
        return BG_OK;
    }
    nearest = bgi_ipu_field_nearest(name);
    return bg_error_set(error, BG_ERROR_NOT_FOUND, "there is no field `%s`%s%s%s", name,
                        nearest != NULL ? "; did you mean `" : "", nearest != NULL ? nearest : "",
                        nearest != NULL ? "`?" : "");
}

bg_status bg_ipu_config_get(const bg_ipu_config *config, const char *name, bg_config_value *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bgi_ipu_value *value;
    bgi_ipu_field_id id = BGI_IPU_FIELD_COUNT;

    BGI_TRY(find_field(config, name, &id, error));
    value = &config->values[id];
    *out = (bg_config_value){.boolean = json_is_true(value->json),
                             .integer = json_integer_value(value->json),
                             .real = json_number_value(value->json),
                             .integers = value->integers,
                             .reals = value->reals,
                             .count = value->count,
                             .text = value->text != NULL ? value->text : json_string_value(value->json)};
    switch (json_typeof(value->json)) {
    case JSON_TRUE:
    case JSON_FALSE:
        out->kind = BG_CONFIG_BOOL;
        break;
    case JSON_INTEGER:
        out->kind = BG_CONFIG_INTEGER;
        break;
    case JSON_REAL:
        out->kind = BG_CONFIG_REAL;
        break;
    case JSON_STRING:
        out->kind = BG_CONFIG_TEXT;
        break;
    case JSON_ARRAY:
        out->kind = (bgi_ipu_fields[id].kinds & BGI_INTEGERS) != 0 ? BG_CONFIG_INTEGERS : BG_CONFIG_REALS;
        break;
    case JSON_OBJECT:
        out->kind = BG_CONFIG_MAP;
        break;
    case JSON_NULL:
        out->kind = BG_CONFIG_NULL;
        break;
    }
    return BG_OK;
}

static bg_status give_and_take(bg_ipu_config *config, const char *name, json_t *json, bg_error *error)
{
    bg_ipu_config *trial = NULL;
    bgi_ipu_field_id id = BGI_IPU_FIELD_COUNT;
    bg_status status = find_field(config, name, &id, error);

    if (status == BG_OK)
        status = copy_given(config, &trial, error);
    if (status == BG_OK) {
        bgi_ipu_give(trial, id, json);
        status = bgi_ipu_take(config, trial, error);
    }
    json_decref(json);
    return status;
}

static json_t *make_list(const bg_config_value *value)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && i < value->count; i++) {
        json_t *item =
            value->kind == BG_CONFIG_INTEGERS ? json_integer(value->integers[i]) : json_real(value->reals[i]);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Makes a JSON value; returns NULL if memory is exhausted or the value is invalid. Infinities are invalid, because
 * jansson cannot represent them. */
static json_t *make_json(const bg_config_value *value)
{
    json_t *json = NULL;

    switch (value->kind) {
    case BG_CONFIG_BOOL:
        return json_boolean(value->boolean);
    case BG_CONFIG_INTEGER:
        return json_integer(value->integer);
    case BG_CONFIG_REAL:
        return json_real(value->real);
    case BG_CONFIG_TEXT:
        return value->text != NULL ? json_string(value->text) : NULL;
    case BG_CONFIG_INTEGERS:
    case BG_CONFIG_REALS:
        return make_list(value);
    case BG_CONFIG_MAP:
        return value->text != NULL && bgi_json_parse("map", value->text, strlen(value->text), &json, NULL) == BG_OK
                   ? json
                   : NULL;
    case BG_CONFIG_NULL:
        break;
    }
    return NULL;
}

/* After make_json has returned NULL: whether the value is invalid, and memory was not exhausted. */
static bool is_bad_value(const bg_config_value *value)
{
    json_t *json = NULL;
    bool is_bad;

    switch (value->kind) {
    case BG_CONFIG_REAL:
        return !isfinite(value->real);
    case BG_CONFIG_TEXT:
        return value->text == NULL || !bgi_text_is_utf8(value->text);
    case BG_CONFIG_REALS:
        is_bad = false;
        for (size_t i = 0; i < value->count; i++)
            is_bad = is_bad || !isfinite(value->reals[i]);
        return is_bad;
    case BG_CONFIG_MAP:
        is_bad = value->text == NULL ||
                 bgi_json_parse("map", value->text, strlen(value->text), &json, NULL) != BG_ERROR_MEMORY;
        json_decref(json);
        return is_bad;
    default:
        return false;
    }
}

bg_status bg_ipu_config_set(bg_ipu_config *config, const char *name, const bg_config_value *value, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));

    json_t *json;

    if (value == NULL || value->kind == BG_CONFIG_NULL)
        return give_and_take(config, name, NULL, error);
    if (value->kind == BG_CONFIG_INTEGERS && value->count > 0)
        BGI_TRY(bgi_require(value->integers, "value->integers", __func__, error));
    if (value->kind == BG_CONFIG_REALS && value->count > 0)
        BGI_TRY(bgi_require(value->reals, "value->reals", __func__, error));
    json = make_json(value);
    if (json == NULL && !is_bad_value(value))
        return bgi_error_memory(error, name, 0);
    if (json == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "`%s`: the value cannot be stored; numbers must be finite, text must be UTF-8, and maps "
                            "must be JSON objects",
                            name);
    return give_and_take(config, name, json, error);
}

bg_status bg_ipu_config_update_from_string(bg_ipu_config *config, const char *text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(text, "text", __func__, error));

    bg_ipu_config *trial = NULL;
    bgi_problems problems = {0};
    bg_status status;

    BGI_TRY(copy_given(config, &trial, error));
    bgi_ipu_read_updates(trial, text, &problems);
    status = bgi_problems_report(&problems, BG_ERROR_INVALID, error);
    bgi_problems_clear(&problems);
    if (status == BG_OK)
        return bgi_ipu_take(config, trial, error);
    bg_ipu_config_destroy(trial);
    return status;
}

/* Whether two values of a field are equal. Reals are compared as numbers, so 1 equals 1.0. However, 0.2 for all devices
 * differs from the list [0.2]. */
static bool is_same_value(uint32_t id, const bgi_ipu_value *a, const bgi_ipu_value *b)
{
    size_t i = 0;

    if ((bgi_ipu_fields[id].kinds & (BGI_REAL | BGI_REALS)) == 0)
        return json_equal(a->json, b->json) != 0;
    while (i < a->count && i < b->count && !(a->reals[i] < b->reals[i]) && !(a->reals[i] > b->reals[i]))
        i++;
    return i == a->count && i == b->count && json_is_array(a->json) == json_is_array(b->json);
}

bool bg_ipu_config_equal(const bg_ipu_config *a, const bg_ipu_config *b)
{
    uint32_t id = 0;

    while (id < BGI_IPU_FIELD_COUNT && is_same_value(id, &a->values[id], &b->values[id]))
        id++;
    return id == BGI_IPU_FIELD_COUNT;
}

/* ---- as a struct ---- */

bgi_ipu_settings bgi_ipu_config_settings(const bg_ipu_config *config, bool for_inference)
{
    const bgi_ipu_value *layers = bgi_ipu_held(config, BGI_IPU_LAYERS, for_inference);
    const bgi_ipu_value *matmul = bgi_ipu_held(config, BGI_IPU_MATMUL, for_inference);
    const bgi_ipu_value *embedding = bgi_ipu_held(config, BGI_IPU_EMBEDDING_SPLITS, for_inference);
    const bgi_ipu_value *projection = bgi_ipu_held(config, BGI_IPU_PROJECTION_SPLITS, for_inference);
    const char *folder = json_string_value(config->values[BGI_IPU_CACHE_FOLDER].json);
    bgi_ipu_settings settings = {
        .has_seed = json_is_integer(config->values[BGI_IPU_SEED].json),
        .seed = bgi_ipu_integer(config, BGI_IPU_SEED),
        .auto_loss_scaling = !for_inference && bgi_ipu_bool(config, BGI_IPU_AUTO_LOSS_SCALING),
        .cache_folder = folder[0] != '\0' && strcmp(folder, "disabled") != 0 ? folder : NULL,
        .replicas = (uint32_t)bgi_ipu_integer(config, for_inference ? BGI_IPU_INFERENCE_REPLICAS : BGI_IPU_REPLICAS),
        .gradient_accumulation = for_inference ? 1 : (uint32_t)bgi_ipu_integer(config, BGI_IPU_ACCUMULATION),
        .device_iterations =
            (uint32_t)bgi_ipu_integer(config, for_inference ? BGI_IPU_INFERENCE_ITERATIONS : BGI_IPU_DEVICE_ITERATIONS),
        .layers_per_ipu = layers->integers,
        .layers_count = layers->count,
        .ipus_per_replica = (uint32_t)bgi_ipu_integer(config, bgi_ipu_in_mode(BGI_IPU_IPUS, for_inference)),
        .optimizer_state_offchip = bgi_ipu_bool(config, BGI_IPU_STATE_OFFCHIP),
        .replicated_tensor_sharding = bgi_ipu_bool(config, BGI_IPU_SHARDING),
        .enable_half_partials = bgi_ipu_bool(config, BGI_IPU_HALF_PARTIALS),
        .recompute_checkpoint_every_layer = bgi_ipu_bool(config, BGI_IPU_RECOMPUTE),
        .matmul_proportion = matmul->reals,
        .matmul_count = matmul->count,
        .embedding_factor = (uint32_t)bgi_ipu_integer(config, bgi_ipu_in_mode(BGI_IPU_EMBEDDING_FACTOR, for_inference)),
        .projection_factor =
            (uint32_t)bgi_ipu_integer(config, bgi_ipu_in_mode(BGI_IPU_PROJECTION_FACTOR, for_inference)),
        .embedding_splits = embedding->integers,
        .projection_splits = projection->integers,
        .output_mode = BG_OUTPUT_ALL,
    };

    for (size_t i = 0; i < embedding->count; i++)
        settings.embedding_factor += (uint32_t)embedding->integers[i];
    for (size_t i = 0; i < projection->count; i++)
        settings.projection_factor += (uint32_t)projection->integers[i];
    if (!for_inference)
        bgi_output_mode_find(json_string_value(config->values[BGI_IPU_OUTPUT_MODE].json), &settings.output_mode);
    return settings;
}

uint64_t bg_ipu_config_batch_size_factor(const bg_ipu_config *config, bool for_inference)
{
    const bgi_ipu_settings settings = bgi_ipu_config_settings(config, for_inference);
    const uint64_t step = (uint64_t)settings.replicas * settings.gradient_accumulation; /* below 2^62 */

    return step > UINT64_MAX / settings.device_iterations ? UINT64_MAX : step * settings.device_iterations;
}
