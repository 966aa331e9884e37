/*
 * ipu_check.c: computes the values of all fields from the given ones. It checks types, ranges and relations between
 * fields, and infers defaults. The check continues after a problem. The rules are those of Optimum Graphcore's
 * IPUConfig; where its documentation and its code disagree, the rules here follow the code.
 */
#include "config/ipu_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "formats/json_tree.h"
#include "options/choices.h"

enum { VALUE_BYTES = 160, LIST_LIMIT = 65536 };

/* ---- types and ranges ---- */

/* Prints a value for a message; a long one is truncated. */
static const char *value_text(const json_t *json, char text[VALUE_BYTES])
{
    bgi_string all = {0};

    bgi_json_print(&all, json);
    snprintf(text, VALUE_BYTES, "%s", all.failed ? "..." : all.data); /* memory is exhausted */
    if (all.length >= VALUE_BYTES)
        memcpy(text + VALUE_BYTES - 4, "...", 4);
    bgi_string_clear(&all);
    return text;
}

static const char *type_name(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number";
    case JSON_STRING:
        return "a string";
    case JSON_ARRAY:
        return "a list";
    case JSON_OBJECT:
        return "a map";
    case JSON_NULL:
        break;
    }
    return "null";
}

/* Describes the kinds of value that a field accepts: "a whole number or null". */
static const char *expected_text(unsigned kinds, char text[VALUE_BYTES])
{
    static const struct {
        unsigned kind;
        const char *name;
    } names[] = {{BGI_BOOL, "true or false"},
                 {BGI_INTEGER, "a whole number"},
                 {BGI_REAL, "a number"},
                 {BGI_TEXT, "a string"},
                 {BGI_MAP, "a map"},
                 {BGI_INTEGERS, "a list of whole numbers"},
                 {BGI_REALS, "a list of numbers"},
                 {BGI_NULL, "null"}};

    text[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((kinds & names[i].kind) != 0)
            snprintf(text + strlen(text), VALUE_BYTES - strlen(text), "%s%s", text[0] != '\0' ? " or " : "",
                     names[i].name);
    return text;
}

static bool has_type(unsigned kinds, const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_TRUE:
    case JSON_FALSE:
        return (kinds & BGI_BOOL) != 0;
    case JSON_INTEGER:
        return (kinds & (BGI_INTEGER | BGI_REAL)) != 0;
    case JSON_REAL:
        return (kinds & BGI_REAL) != 0;
    case JSON_STRING:
        return (kinds & BGI_TEXT) != 0;
    case JSON_ARRAY:
        return (kinds & (BGI_INTEGERS | BGI_REALS)) != 0;
    case JSON_OBJECT:
        return (kinds & BGI_MAP) != 0;
    case JSON_NULL:
        break;
    }
    return (kinds & BGI_NULL) != 0;
}

/* Whether a number is in the field's range. A range that begins at or below -2^63 contains every integer, because
 * double cannot represent a seed of 2^63 - 1. */
static bool is_in_range(const bgi_ipu_field *field, const json_t *json)
{
    if (json_is_integer(json) && field->least <= (double)INT64_MIN)
        return true;
    return json_number_value(json) >= field->least && json_number_value(json) <= field->most;
}

static bool check_elements(const bgi_ipu_field *field, const json_t *list, bgi_problems *problems)
{
    const size_t before = problems->count;
    char text[VALUE_BYTES], expected[VALUE_BYTES];
    const json_t *item;
    size_t i;

    if (json_array_size(list) > LIST_LIMIT) {
        bgi_problems_add(problems, field->name, "`%s` has %zu elements; it must have one for each device, at most %d",
                         field->name, json_array_size(list), LIST_LIMIT);
        return false;
    }
    json_array_foreach(list, i, item)
    {
        if (!json_is_integer(item) && !(json_is_real(item) && (field->kinds & BGI_REALS) != 0))
            bgi_problems_add(problems, field->name, "`%s[%zu]` is %s, %s; the field must be %s", field->name, i,
                             value_text(item, text), type_name(item), expected_text(field->kinds, expected));
        else if (!is_in_range(field, item) && json_number_value(item) > field->most)
            bgi_problems_add(problems, field->name, "`%s[%zu]` is %s; every element must be at most %.10g", field->name,
                             i, value_text(item, text), field->most);
        else if (!is_in_range(field, item))
            bgi_problems_add(problems, field->name, "`%s[%zu]` is %s; every element must be at least %g%s", field->name,
                             i, value_text(item, text), field->least,
                             field->kinds & BGI_INTEGERS && field->least == 0 ? " (splits have no wildcards)" : "");
    }
    return problems->count == before;
}

static bool check_field(const bgi_ipu_field *field, const json_t *json, bgi_problems *problems)
{
    char text[VALUE_BYTES], expected[VALUE_BYTES];
    bg_output_mode mode;

    if (!has_type(field->kinds, json)) {
        bgi_problems_add(problems, field->name, "`%s` is %s, %s; it must be %s", field->name, value_text(json, text),
                         type_name(json), expected_text(field->kinds, expected));
        return false;
    }
    if (json_is_array(json))
        return check_elements(field, json, problems);
    if (json_is_number(json) && !is_in_range(field, json)) {
        const bool is_above = json_number_value(json) > field->most;
        bgi_problems_add(problems, field->name, "`%s` is %s; it must be at %s %.10g", field->name,
                         value_text(json, text), is_above ? "most" : "least", is_above ? field->most : field->least);
        return false;
    }
    if (field == &bgi_ipu_fields[BGI_IPU_OUTPUT_MODE] &&
        (!bgi_output_mode_find(json_string_value(json), &mode) || mode == BG_OUTPUT_EVERY_N)) {
        bgi_problems_add(problems, field->name, "`%s` is %s; it must be all, sum, final or default", field->name,
                         value_text(json, text));
        return false;
    }
    return true;
}

/* ---- given and inferred values ---- */

/* Sets the value of a field, and takes ownership of the reference. A number in place of a list is read as a list of one
 * number. */
static void set_value(bg_ipu_config *config, bgi_ipu_field_id id, json_t *json, bgi_problems *problems)
{
    bgi_ipu_value *value = &config->values[id];
    const bool is_list = json_is_array(json);
    bgi_string text = {0};
    bool failed = json == NULL;

    bgi_ipu_value_clear(value);
    value->json = json;
    value->count = is_list                                                               ? json_array_size(json)
                   : json_is_number(json) && (bgi_ipu_fields[id].kinds & BGI_REALS) != 0 ? 1
                                                                                         : 0;
    if (is_list || value->count > 0) {
        value->integers = calloc(value->count + 1, sizeof *value->integers);
        value->reals = calloc(value->count + 1, sizeof *value->reals);
        failed = value->integers == NULL || value->reals == NULL;
    }
    for (size_t i = 0; i < value->count && !failed; i++) {
        const json_t *item = is_list ? json_array_get(json, i) : json;
        value->integers[i] = json_integer_value(item);
        value->reals[i] = json_number_value(item);
    }
    if (json_is_object(json)) {
        bgi_json_print(&text, json);
        value->text = text.data;
        failed = text.failed;
    }
    if (failed)
        problems->failed = true;
}

/* Whether a field is given with a value other than null. An empty inference_layers_per_ipu counts as not given. */
static bool is_given(const bg_ipu_config *config, bgi_ipu_field_id id)
{
    const json_t *json = config->given[id];

    return json != NULL && !json_is_null(json) && !(id == BGI_IPU_INFERENCE_LAYERS && json_array_size(json) == 0);
}

static void set_given_values(bg_ipu_config *config, bgi_problems *problems)
{
    for (uint32_t id = 0; id < BGI_IPU_FIELD_COUNT; id++) {
        const bgi_ipu_field *field = &bgi_ipu_fields[id];
        json_t *json = config->given[id];
        const bool is_good = json == NULL || check_field(field, json, problems);

        if (json != NULL && is_good && is_given(config, (bgi_ipu_field_id)id))
            json_incref(json);
        else if (bgi_json_parse(field->name, field->fallback, strlen(field->fallback), &json, NULL) != BG_OK)
            json = NULL; /* memory is exhausted */
        set_value(config, (bgi_ipu_field_id)id, json, problems);
    }
}

static bool holds_null(const bg_ipu_config *config, bgi_ipu_field_id id)
{
    return json_is_null(config->values[id].json);
}

static void infer_devices(bg_ipu_config *config, bgi_problems *problems)
{
    const bgi_ipu_value *layers = &config->values[BGI_IPU_LAYERS];
    const bgi_ipu_value *inference = &config->values[BGI_IPU_INFERENCE_LAYERS];
    int64_t devices;
    bool is_one_wildcard;

    if (holds_null(config, BGI_IPU_INFERENCE_LAYERS))
        set_value(config, BGI_IPU_INFERENCE_LAYERS, json_incref(layers->json), problems);
    if (problems->failed)
        return;
    if (holds_null(config, BGI_IPU_IPUS))
        set_value(config, BGI_IPU_IPUS, json_integer((json_int_t)(layers->count > 0 ? layers->count : 1)), problems);
    devices = bgi_ipu_integer(config, BGI_IPU_IPUS);
    is_one_wildcard = inference->count == 1 && inference->integers[0] == -1;
    if (devices == (int64_t)layers->count || !is_one_wildcard)
        devices = (int64_t)inference->count;
    if (holds_null(config, BGI_IPU_INFERENCE_IPUS))
        set_value(config, BGI_IPU_INFERENCE_IPUS, json_integer(devices > 0 ? devices : 1), problems);
}

static void infer_others(bg_ipu_config *config, bgi_problems *problems)
{
    const json_t *matmul = config->values[BGI_IPU_MATMUL].json;
    const bool fits =
        !json_is_array(matmul) || (int64_t)json_array_size(matmul) == bgi_ipu_integer(config, BGI_IPU_INFERENCE_IPUS);

    if (holds_null(config, BGI_IPU_INFERENCE_MATMUL))
        set_value(config, BGI_IPU_INFERENCE_MATMUL,
                  fits ? json_incref(config->values[BGI_IPU_MATMUL].json) : json_real(0.2), problems);
    for (int inference = 0; inference < 2; inference++) {
        const bgi_ipu_field_id embedding = bgi_ipu_in_mode(BGI_IPU_EMBEDDING_FACTOR, inference != 0);
        const bgi_ipu_field_id projection = bgi_ipu_in_mode(BGI_IPU_PROJECTION_FACTOR, inference != 0);
        if (holds_null(config, embedding) &&
            holds_null(config, bgi_ipu_in_mode(BGI_IPU_EMBEDDING_SPLITS, inference != 0)))
            set_value(config, embedding, json_integer(1), problems);
        if (holds_null(config, projection) &&
            holds_null(config, bgi_ipu_in_mode(BGI_IPU_PROJECTION_SPLITS, inference != 0)))
            set_value(config, projection, json_integer(1), problems);
    }
}

/* ---- checks of combinations ---- */

const char *bgi_splits_check(const int64_t *splits, size_t count)
{
    size_t first = 0, last = count;

    while (first < count && splits[first] == 0)
        first++;
    if (first == count)
        return "must have at least one split";
    while (splits[last - 1] == 0)
        last--;
    for (size_t i = first; i < last; i++)
        if (splits[i] == 0)
            return "must have its splits on consecutive devices, with no zero between them";
    return NULL;
}

/* Checks that a list has an element for each device. */
static void check_length(const bg_ipu_config *config, bgi_ipu_field_id id, bgi_ipu_field_id devices,
                         bgi_problems *problems)
{
    const bgi_ipu_value *value = &config->values[id];
    char text[VALUE_BYTES];

    if (json_is_array(value->json) && (int64_t)value->count != bgi_ipu_integer(config, devices))
        bgi_problems_add(
            problems, bgi_ipu_fields[id].name,
            "`%s` = %s should use the same number of IPUs as `%s` = %lld; it lists %zu, so change one of the two%s%s%s",
            bgi_ipu_fields[id].name, value_text(value->json, text), bgi_ipu_fields[devices].name,
            (long long)bgi_ipu_integer(config, devices), value->count, is_given(config, devices) ? " (`" : "",
            is_given(config, devices) ? bgi_ipu_fields[devices].name : "",
            is_given(config, devices) ? "` may be null: it is then inferred)" : "");
}

static bool has_wildcard(const bgi_ipu_value *value)
{
    size_t i = 0;

    while (i < value->count && value->integers[i] != -1)
        i++;
    return i < value->count;
}

static void check_serialized(const bg_ipu_config *config, bgi_ipu_field_id factor, bgi_ipu_field_id splits,
                             bgi_ipu_field_id devices, const char *layer, bgi_problems *problems)
{
    const bgi_ipu_value *value = &config->values[splits];
    const char *wrong;
    char text[VALUE_BYTES];

    if (holds_null(config, splits))
        return;
    if (!holds_null(config, factor))
        bgi_problems_add(problems, bgi_ipu_fields[splits].name,
                         "Only one of `%s` and `%s` should be used: the factor serializes the %s on its device, and "
                         "the splits say which devices have its pieces; set one of them to null",
                         bgi_ipu_fields[factor].name, bgi_ipu_fields[splits].name, layer);
    check_length(config, splits, devices, problems);
    wrong = bgi_splits_check(value->integers, value->count);
    if (wrong != NULL)
        bgi_problems_add(problems, bgi_ipu_fields[splits].name, "`%s` = %s %s", bgi_ipu_fields[splits].name,
                         value_text(value->json, text), wrong);
}

static void check_mode(const bg_ipu_config *config, bool for_inference, bgi_problems *problems)
{
    const bgi_ipu_field_id devices = bgi_ipu_in_mode(BGI_IPU_IPUS, for_inference);
    const bgi_ipu_field_id layers = bgi_ipu_in_mode(BGI_IPU_LAYERS, for_inference);

    check_length(config, bgi_ipu_in_mode(BGI_IPU_MATMUL, for_inference), devices, problems);
    if (!has_wildcard(&config->values[layers]))
        check_length(config, layers, devices, problems);
    check_serialized(config, bgi_ipu_in_mode(BGI_IPU_EMBEDDING_FACTOR, for_inference),
                     bgi_ipu_in_mode(BGI_IPU_EMBEDDING_SPLITS, for_inference), devices, "embedding", problems);
    check_serialized(config, bgi_ipu_in_mode(BGI_IPU_PROJECTION_FACTOR, for_inference),
                     bgi_ipu_in_mode(BGI_IPU_PROJECTION_SPLITS, for_inference), devices, "projection", problems);
}

bool bgi_ipu_settle(bg_ipu_config *config, bgi_problems *problems)
{
    const size_t before = problems->count;

    set_given_values(config, problems);
    if (!problems->failed)
        infer_devices(config, problems);
    if (!problems->failed)
        infer_others(config, problems);
    for (int mode = 0; mode < 2 && !problems->failed; mode++)
        check_mode(config, mode == 1, problems);
    return problems->count == before && !problems->failed;
}
