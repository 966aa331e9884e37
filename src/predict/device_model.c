/*
 * device_model.c: reads a device description. The reader is strict, because ignoring a number silently would make the
 * prediction wrong. A missing, unknown or repeated key and a number outside its range are errors that name the key.
 */
#include "predict/device_model.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "formats/json_tree.h"

#define FORMAT "brigade device 1"

enum { LARGEST_FILE_BYTES = 1 << 20 };

/* A number of the file: its object ("" is the outermost one), its key, and the factor from its unit to the model's. */
typedef struct field {
    const char *object, *key;
    size_t offset;
    double unit;
    double least, most; /* range in the file's units */
    bool is_optional;   /* the key is optional; without it the model keeps its default */
    bool is_count;      /* the member is a uint32_t */
} field;

#define AT(member) .offset = offsetof(bgi_device_model, member)
#define PER_SECOND 1e-9
#define FASTEST    1e21
#define MOST_BYTES 1e18
#define LONGEST_NS 1e12
#define RATE       .unit = PER_SECOND, .least = 1.0, .most = FASTEST
#define LATENCY    .unit = 1.0, .least = 0.0, .most = LONGEST_NS

static const field fields[] = {
    {"", "memory_bytes", AT(memory_bytes), .unit = 1.0, .least = 1.0, .most = MOST_BYTES},
    {"", "memory_bytes_per_s", AT(memory_bytes_per_ns), RATE},
    {"", "efficiency", AT(efficiency), .unit = 1.0, .least = 1e-6, .most = 1.0, .is_optional = true},
    {"", "call_ns", AT(call_ns), LATENCY, .is_optional = true},
    {"flops_per_s", "float32", AT(flops_per_ns[BG_FLOAT32]), RATE},
    {"flops_per_s", "float16", AT(flops_per_ns[BG_FLOAT16]), RATE, .is_optional = true},
    {"flops_per_s", "bfloat16", AT(flops_per_ns[BG_BFLOAT16]), RATE, .is_optional = true},
    {"flops_per_s", "float64", AT(flops_per_ns[BG_FLOAT64]), RATE, .is_optional = true},
    {"link", "bytes_per_s", AT(link.bytes_per_ns), RATE},
    {"link", "latency_ns", AT(link.latency_ns), LATENCY},
    {"link", "devices", AT(link_devices), .unit = 1.0, .least = 1.0, .most = 1 << 24, .is_count = true},
    {"network", "bytes_per_s", AT(network.bytes_per_ns), RATE},
    {"network", "latency_ns", AT(network.latency_ns), LATENCY},
    {"remote_memory", "bytes", AT(remote_bytes), .unit = 1.0, .least = 0.0, .most = MOST_BYTES, .is_optional = true},
    {"remote_memory", "bytes_per_s", AT(remote.bytes_per_ns), RATE},
    {"remote_memory", "latency_ns", AT(remote.latency_ns), LATENCY},
};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static const char *const objects[] = {"flops_per_s", "link", "network", "remote_memory"};
static const char *const texts[] = {"format", "name", "source"};

enum { OBJECT_COUNT = sizeof objects / sizeof objects[0], TEXT_COUNT = sizeof texts / sizeof texts[0] };

/* Returns the key as messages name it: "`link.devices`" or "`call_ns`". */
static const char *key_text(const char *object, const char *key, char text[96])
{
    snprintf(text, 96, "`%s%s%.40s`", object, object[0] != '\0' ? "." : "", key);
    return text;
}

static bool is_known(const char *object, const char *key)
{
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (strcmp(fields[i].object, object) == 0 && strcmp(fields[i].key, key) == 0)
            return true;
    for (size_t i = 0; object[0] == '\0' && i < OBJECT_COUNT; i++)
        if (strcmp(objects[i], key) == 0)
            return true;
    for (size_t i = 0; object[0] == '\0' && i < TEXT_COUNT; i++)
        if (strcmp(texts[i], key) == 0)
            return true;
    return false;
}

static bg_status check_keys(const char *name, const char *object, json_t *values, bg_error *error)
{
    const char *key;
    json_t *value;
    char text[96];

    if (!json_is_object(values))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: %s%s%s is not an object", name, object[0] != '\0' ? "`" : "",
                            object[0] != '\0' ? object : "the file", object[0] != '\0' ? "`" : "");
    json_object_foreach(values, key, value)
    {
        if (!is_known(object, key))
            return bg_error_set(error, BG_ERROR_PARSE, "%s: unknown key %s", name, key_text(object, key, text));
    }
    return BG_OK;
}

static bg_status read_field(const char *name, const json_t *values, const field *f, bgi_device_model *out,
                            bg_error *error)
{
    const json_t *value = json_object_get(values, f->key);
    const double number = json_number_value(value);
    char text[96];
    void *place = (char *)out + f->offset;

    key_text(f->object, f->key, text);
    if (value == NULL && f->is_optional)
        return BG_OK;
    if (value == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: %s is missing", name, text);
    if (!json_is_number(value))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: %s is not a number", name, text);
    if (!isfinite(number) || number < f->least || number > f->most || (f->is_count && number != floor(number)))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: %s is %g; it must be %s from %g to %g", name, text, number,
                            f->is_count ? "a whole number" : "a number", f->least, f->most);
    if (f->is_count)
        *(uint32_t *)place = (uint32_t)number;
    else
        *(double *)place = number * f->unit;
    return BG_OK;
}

static bg_status read_text(const char *name, const json_t *root, const char *key, char *out, size_t capacity,
                           bg_error *error)
{
    const char *value = json_string_value(json_object_get(root, key));

    if (value == NULL || value[0] == '\0')
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `%s` is missing, empty or not a string", name, key);
    if (strlen(value) >= capacity)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: `%s` has %zu bytes; it may have at most %zu", name, key,
                            strlen(value), capacity - 1);
    snprintf(out, capacity, "%s", value);
    bgi_string_escape(out, capacity, false);
    return BG_OK;
}

static bg_status read_root(const char *name, json_t *root, bgi_device_model *out, bg_error *error)
{
    char format[32];

    BGI_TRY(check_keys(name, "", root, error));
    BGI_TRY(read_text(name, root, "format", format, sizeof format, error));
    if (strcmp(format, FORMAT) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: its `format` is \"%s\"; this release reads \"" FORMAT "\"",
                            name, format);
    BGI_TRY(read_text(name, root, "name", out->name, sizeof out->name, error));
    BGI_TRY(read_text(name, root, "source", out->source, sizeof out->source, error));
    for (size_t i = 0; i < OBJECT_COUNT; i++) {
        json_t *values = json_object_get(root, objects[i]);
        if (values == NULL)
            return bg_error_set(error, BG_ERROR_PARSE, "%s: `%s` is missing", name, objects[i]);
        BGI_TRY(check_keys(name, objects[i], values, error));
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const json_t *values = fields[i].object[0] != '\0' ? json_object_get(root, fields[i].object) : root;
        BGI_TRY(read_field(name, values, &fields[i], out, error));
    }
    return BG_OK;
}

bg_status bgi_device_model_parse(const char *name, const char *text, size_t size_bytes, bgi_device_model *out,
                                 bg_error *error)
{
    bgi_device_model model = {.efficiency = 1.0};
    json_t *root = NULL;
    bg_status status;

    BGI_TRY(bgi_json_parse(name, text, size_bytes, &root, error));
    status = read_root(name, root, &model, error);
    json_decref(root);
    if (status == BG_OK)
        *out = model;
    return status;
}

bg_status bgi_device_model_load(const char *path, bgi_device_model *out, bg_error *error)
{
    char *text = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, LARGEST_FILE_BYTES, &text, &size_bytes, error));
    status = bgi_device_model_parse(path, text, size_bytes, out, error);
    free(text);
    return status;
}

double bgi_device_model_flops(const bgi_device_model *model, bg_dtype dtype)
{
    const double own = (unsigned)dtype < BG_DTYPE_COUNT ? model->flops_per_ns[dtype] : 0.0;

    return own > 0.0 ? own : model->flops_per_ns[BG_FLOAT32];
}
