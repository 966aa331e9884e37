/*
 * options_object.c: implements options that own their values. They can be set by name, from files, JSON and the
 * environment, and cloned; they are frozen when they are used. A function that sets several options sets all of them or
 * none, and reports every problem with its position.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config/problems.h"
#include "config/run_options.h"
#include "core/error.h"
#include "formats/json_tree.h"
#include "core/file.h"
#include "core/text.h"

struct bg_run_options {
    bg_options options;
    bgi_arena arena; /* memory of the values to which `values` points */
    bool is_frozen;
    bool has_anchors; /* whether bg_run_options_add_anchor has added output requests */
    bool has_transport;
    bool is_given[BGI_MOST_RUN_OPTIONS];
};

/* ---- life ---- */

bg_status bg_run_options_create(const bg_options *from, bg_run_options **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_options defaults = bg_options_defaults();
    bg_run_options *made = calloc(1, sizeof *made);
    bg_status status;

    if (made == NULL)
        return bgi_error_memory(error, "options", sizeof *made);
    status = bgi_options_copy(&made->arena, from != NULL ? from : &defaults, &made->options, error);
    if (status != BG_OK) {
        bg_run_options_destroy(made);
        return status;
    }
    *out = made;
    return BG_OK;
}

void bg_run_options_destroy(bg_run_options *options)
{
    if (options == NULL)
        return;
    bgi_arena_clear(&options->arena);
    free(options);
}

bg_status bg_run_options_clone(const bg_run_options *options, bg_run_options **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bg_run_options_create(&options->options, out, error));
    memcpy((*out)->is_given, options->is_given, sizeof options->is_given);
    (*out)->has_anchors = options->has_anchors;
    (*out)->has_transport = options->has_transport;
    return BG_OK;
}

const bg_options *bg_run_options_view(const bg_run_options *options)
{
    return &options->options;
}

const bg_options *bg_run_options_use(bg_run_options *options)
{
    options->is_frozen = true;
    return &options->options;
}

bool bg_run_options_is_given(const bg_run_options *options, const char *name)
{
    const uint32_t number = bgi_run_option_find(name);

    return number != UINT32_MAX && options->is_given[number];
}

void bg_run_options_apply(bg_run_options *options, bg_options *to)
{
    options->is_frozen = true; /* from here on, `to` points into `options` */
    for (uint32_t i = 0; bgi_run_option_name(i) != NULL; i++)
        if (options->is_given[i])
            bgi_run_option_copy(&options->options, i, to);
    if (options->has_anchors) {
        to->reporting.output_requests = options->options.reporting.output_requests;
        to->reporting.output_request_count = options->options.reporting.output_request_count;
    }
    if (options->has_transport)
        to->execution.transport = options->options.execution.transport;
}

/* ---- setting ---- */

static bg_status check_open(const bg_run_options *options, bg_error *error)
{
    if (!options->is_frozen)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "options are frozen, because an object uses them and would not see a change; change a clone "
                        "(bg_run_options_clone)");
}

bg_status bg_run_options_set(bg_run_options *options, const char *name, const char *text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    BGI_TRY(bgi_require(text, "text", __func__, error));

    uint32_t number;

    BGI_TRY(check_open(options, error));
    BGI_TRY(bgi_run_option_set(&options->options, &options->arena, name, text, &number, error));
    options->is_given[number] = true;
    return BG_OK;
}

/* ---- anchors ---- */

/* Returns the name that a request has in the session. */
static const char *name_of(const bg_output_request *request)
{
    return request->name != NULL ? request->name : request->output;
}

bg_status bg_run_options_add_anchor(bg_run_options *options, const char *output, const char *name, bg_output_mode mode,
                                    uint32_t period, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));

    const bg_output_request *old = options->options.reporting.output_requests;
    const uint32_t count = options->options.reporting.output_request_count;
    bg_output_request made = {.output = output, .name = name, .mode = mode, .period = period}, *list;

    BGI_TRY(check_open(options, error));
    if (output == NULL || output[0] == '\0')
        return bg_error_set(error, BG_ERROR_INVALID, "the anchor has no output; name an output of the graph, or an op");
    if ((int)mode < 0 || mode > BG_OUTPUT_EVERY_N)
        return bg_error_set(error, BG_ERROR_INVALID, "anchor `%s`: mode is %d; it must be one of bg_output_mode",
                            name_of(&made), (int)mode);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(name_of(&old[i]), name_of(&made)) == 0)
            return bg_error_set(error, BG_ERROR_INVALID, "anchor `%s` already exists; give this one another name",
                                name_of(&made));
    made.output = bgi_arena_string(&options->arena, output);
    made.name = name != NULL ? bgi_arena_string(&options->arena, name) : NULL;
    list = bgi_arena_allocate(&options->arena, (size_t)count + 1, sizeof *list);
    if (made.output == NULL || (name != NULL && made.name == NULL) || list == NULL)
        return bgi_error_memory(error, "anchors", ((size_t)count + 1) * sizeof *list);
    if (count > 0)
        memcpy(list, old, count * sizeof *list);
    list[count] = made;
    options->options.reporting.output_requests = list;
    options->options.reporting.output_request_count = count + 1;
    options->has_anchors = true;
    return BG_OK;
}

/* ---- values ---- */

static bool has_kind(uint32_t number, const bg_config_value *value)
{
    const bg_config_kind kind = bgi_run_option_kind(number);

    return value->kind == kind || value->kind == BG_CONFIG_NULL ||
           (kind == BG_CONFIG_REAL && value->kind == BG_CONFIG_INTEGER);
}

/* Prints a value in the form of a line in a file. */
static void print_value(bgi_string *text, const bg_config_value *value)
{
    switch (value->kind) {
    case BG_CONFIG_BOOL:
        bgi_string_add(text, "%s", value->boolean ? "true" : "false");
        break;
    case BG_CONFIG_INTEGER:
        bgi_string_add(text, "%" PRId64, value->integer);
        break;
    case BG_CONFIG_REAL:
        bgi_string_add_shortest(text, value->real);
        break;
    case BG_CONFIG_INTEGERS:
        for (size_t i = 0; i < value->count; i++)
            bgi_string_add(text, "%s%" PRId64, i == 0 ? "" : ",", value->integers[i]);
        break;
    case BG_CONFIG_REALS:
        for (size_t i = 0; i < value->count; i++) {
            bgi_string_add(text, "%s", i == 0 ? "" : ",");
            bgi_string_add_shortest(text, value->reals[i]);
        }
        break;
    default:
        bgi_string_add(text, "%s", value->kind == BG_CONFIG_TEXT && value->text != NULL ? value->text : "");
        break;
    }
}

bg_status bg_run_options_set_value(bg_run_options *options, const char *name, const bg_config_value *value,
                                   bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    BGI_TRY(bgi_require(value, "value", __func__, error));
    if (value->kind == BG_CONFIG_INTEGERS && value->count > 0)
        BGI_TRY(bgi_require(value->integers, "value->integers", __func__, error));
    if (value->kind == BG_CONFIG_REALS && value->count > 0)
        BGI_TRY(bgi_require(value->reals, "value->reals", __func__, error));

    const bg_options defaults = bg_options_defaults();
    const uint32_t number = bgi_run_option_find(name);
    bgi_string text = {0};
    char *made = NULL;
    bg_status status;

    if (value->kind == BG_CONFIG_NULL && number != UINT32_MAX)
        bgi_run_option_print(&text, number, &defaults);
    else
        print_value(&text, value);
    BGI_TRY(bgi_string_finish(&text, &made, error));
    if (number != UINT32_MAX && !has_kind(number, value))
        status = bgi_run_option_report(number, made, error);
    else
        status = bg_run_options_set(options, name, made, error);
    free(made);
    return status;
}

bg_status bg_run_options_set_transport(bg_run_options *options, const struct bg_transport *transport, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(check_open(options, error));
    options->options.execution.transport = transport;
    options->has_transport = true;
    return BG_OK;
}

bg_status bg_run_options_set_integer(bg_run_options *options, const char *name, int64_t value, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    return bg_run_options_set_value(options, name, &(bg_config_value){.kind = BG_CONFIG_INTEGER, .integer = value},
                                    error);
}

bg_status bg_run_options_set_text(bg_run_options *options, const char *name, const char *value, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    return bg_run_options_set_value(options, name, &(bg_config_value){.kind = BG_CONFIG_TEXT, .text = value}, error);
}

/* Reads elements of "1,2,3" into the options' memory. */
static bg_status read_elements(bg_run_options *options, const char *text, bg_config_value *out, bg_error *error)
{
    int64_t *integers = bgi_arena_allocate(&options->arena, strlen(text) + 1, sizeof *integers);
    double *reals = bgi_arena_allocate(&options->arena, strlen(text) + 1, sizeof *reals);

    if (integers == NULL || reals == NULL)
        return bgi_error_memory(error, "options", strlen(text) * sizeof *reals);
    for (const char *at = text; *at != '\0'; at += *at == ',') {
        char *end;
        reals[out->count] = bgi_text_real(at, &end);
        integers[out->count] = strtoll(at, NULL, 10);
        out->count++;
        at = end;
    }
    out->integers = out->kind == BG_CONFIG_INTEGERS ? integers : NULL;
    out->reals = reals;
    return BG_OK;
}

bg_status bg_run_options_get(bg_run_options *options, const char *name, bg_config_value *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const uint32_t number = bgi_run_option_find(name);
    bg_config_value value = {0};
    bgi_string printed = {0};
    char *text = NULL;
    bg_status status = BG_OK;

    if (number == UINT32_MAX)
        return bgi_option_unknown(name, error);
    bgi_run_option_print(&printed, number, &options->options);
    BGI_TRY(bgi_string_finish(&printed, &text, error));
    value.kind = bgi_run_option_kind(number);
    value.boolean = value.kind == BG_CONFIG_BOOL && strcmp(text, "true") == 0;
    if (value.kind == BG_CONFIG_INTEGER || value.kind == BG_CONFIG_REAL)
        value.real = bgi_text_real(text, NULL);
    errno = 0;
    if (value.kind == BG_CONFIG_INTEGER)
        value.integer = strtoll(text, NULL, 10);
    if (errno == ERANGE)
        value = (bg_config_value){.kind = BG_CONFIG_TEXT};
    if (value.kind == BG_CONFIG_TEXT && (value.text = bgi_arena_string(&options->arena, text)) == NULL)
        status = bgi_error_memory(error, "options", strlen(text));
    if (bgi_run_option_is_list(number))
        status = read_elements(options, text, &value, error);
    free(text);
    if (status == BG_OK)
        *out = value;
    return status;
}

/* The state while a text with several options is read. Values are set in the copy `made`. */
typedef struct reader {
    bg_run_options *options;
    bg_options made;
    bool is_given[BGI_MOST_RUN_OPTIONS];
    const char *name; /* name of the text */
    bgi_problems problems;
} reader;

static reader begin(bg_run_options *options, const char *name)
{
    reader r = {.options = options, .made = options->options, .name = name};

    memcpy(r.is_given, options->is_given, sizeof r.is_given);
    return r;
}

/* Sets one option from text. In messages `place` follows the text's name: ":3: ", ":3:5: " or ": ". */
static void set_one(reader *r, const char *place, const char *name, const char *text)
{
    bg_error problem = {0};
    uint32_t number;

    if (bgi_run_option_set(&r->made, &r->options->arena, name, text, &number, &problem) != BG_OK)
        bgi_problems_add(&r->problems, NULL, "%s%s%s", r->name, place, problem.message);
    else
        r->is_given[number] = true;
}

static bg_status end(reader *r, bg_error *error)
{
    const bg_status status = bgi_problems_report(&r->problems, BG_ERROR_INVALID, error);

    if (status == BG_OK) {
        r->options->options = r->made;
        memcpy(r->options->is_given, r->is_given, sizeof r->is_given);
    }
    bgi_problems_clear(&r->problems);
    return status;
}

/* ---- lines ---- */

static char *trim(char *text)
{
    char *end = text + strlen(text);

    while (end > text && strchr(" \t\r\n", end[-1]) != NULL)
        *--end = '\0';
    return text + strspn(text, " \t");
}

/* Reads "key value", "key=value", "key: value" or PopTorch's call, "key(value)". */
static void read_line(reader *r, const char *place, char *line)
{
    const size_t length = strcspn(line, " \t=:(");
    char *value = line + length;
    bool is_call;

    value += strspn(value, " \t");
    is_call = *value == '(';
    value += strspn(value, "=:(") > 0;
    line[length] = '\0';
    value = trim(value);
    if (is_call && value[0] != '\0' && value[strlen(value) - 1] == ')')
        value[strlen(value) - 1] = '\0';
    else if (is_call) {
        bgi_problems_add(&r->problems, NULL, "%s%s`%s(` has no `)`", r->name, place, line);
        return;
    }
    set_one(r, place, line, trim(value));
}

static void read_lines(reader *r, char *text)
{
    unsigned number = 1;

    for (char *line = text, *next; line != NULL; line = next, number++) {
        char place[32], *comment;
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        comment = strchr(line, '#');
        if (comment != NULL)
            *comment = '\0';
        line = trim(line);
        snprintf(place, sizeof place, ":%u: ", number);
        if (*line != '\0')
            read_line(r, place, line);
    }
}

/* ---- JSON ---- */

static void print_scalar(bgi_string *text, const json_t *value)
{
    if (json_is_string(value))
        bgi_string_add(text, "%s", json_string_value(value));
    else if (!json_is_null(value))
        bgi_json_print(text, value);
}

/* Sets an option from a JSON value. An array contains the elements of a list or the arguments of a call:
 * ["OutputMode.EveryN", 3]. */
static void set_json(reader *r, const char *place, const char *name, const json_t *value)
{
    const uint32_t number = bgi_run_option_find(name);
    const bool is_mode = json_is_array(value) && json_array_size(value) == 2 && number != UINT32_MAX &&
                         number == bgi_run_option_find("output_mode");
    const bool is_list = number != UINT32_MAX && bgi_run_option_is_list(number);
    bgi_string text = {0};
    char *made = NULL;

    if (is_mode)
        print_scalar(&text, json_array_get(value, 0));
    else if (json_is_array(value) && (is_list || json_array_size(value) == 1))
        for (size_t i = 0; i < json_array_size(value); i++) {
            bgi_string_add(&text, "%s", i == 0 ? "" : ",");
            print_scalar(&text, json_array_get(value, i));
        }
    else
        print_scalar(&text, value);
    if (bgi_string_finish(&text, &made, NULL) != BG_OK) {
        r->problems.failed = true;
        return;
    }
    set_one(r, place, name, made);
    free(made);
    if (is_mode)
        set_json(r, place, "output_period", json_array_get(value, 1));
}

static bg_status read_json(reader *r, const char *text, bg_error *error)
{
    bgi_document document = {0};
    const char *key;
    json_t *value;

    BGI_TRY(bgi_document_parse_json(text, strlen(text), r->name, &document, error));
    json_object_foreach(document.root, key, value)
    {
        const char *found = json_string_value(json_object_get(document.places, key));
        char place[64];
        snprintf(place, sizeof place, ":%s: ", found != NULL ? found : "");
        set_json(r, place, key, value);
    }
    bgi_document_clear(&document);
    return BG_OK;
}

bg_status bg_run_options_parse(bg_run_options *options, const char *text, const char *name, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(text, "text", __func__, error));

    reader r = begin(options, name);
    char *copy;

    BGI_TRY(check_open(options, error));
    if (text[strspn(text, " \t\r\n")] == '{') {
        BGI_TRY(read_json(&r, text, error));
        return end(&r, error);
    }
    copy = strdup(text);
    if (copy == NULL)
        return bgi_error_memory(error, "options", strlen(text));
    read_lines(&r, copy);
    free(copy);
    return end(&r, error);
}

bg_status bg_run_options_load(bg_run_options *options, const char *path, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(path, "path", __func__, error));

    char *text = NULL;
    size_t size_bytes;
    bg_status status;

    BGI_TRY(bgi_file_load(path, BGI_DOCUMENT_LIMIT_BYTES, &text, &size_bytes, error));
    if (strlen(text) != size_bytes)
        status =
            bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu is zero, but options must be text", path, strlen(text));
    else
        status = bg_run_options_parse(options, text, path, error);
    free(text);
    return status;
}

bg_status bg_run_options_read_environment(bg_run_options *options, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));

    const char *text = getenv(BG_OPTIONS_VARIABLE);
    reader r = begin(options, BG_OPTIONS_VARIABLE);
    char *copy, *rest = NULL;

    if (text == NULL || text[strspn(text, " \t\r\n")] == '\0')
        return BG_OK;
    if (text[strspn(text, " \t\r\n")] == '{')
        return bg_run_options_parse(options, text, BG_OPTIONS_VARIABLE, error);
    BGI_TRY(check_open(options, error));
    copy = strdup(text);
    if (copy == NULL)
        return bgi_error_memory(error, "options", strlen(text));
    for (char *word = strtok_r(copy, " \t\r\n", &rest); word != NULL; word = strtok_r(NULL, " \t\r\n", &rest))
        read_line(&r, ": ", word);
    free(copy);
    return end(&r, error);
}

/* ---- printing ---- */

/* Adds the value of an option to a JSON object. Numbers that JSON cannot represent are written as strings. */
static bg_status add_value(json_t *object, uint32_t number, const bg_options *options, bg_error *error)
{
    const char *name = bgi_run_option_name(number);
    const bool is_list = bgi_run_option_is_list(number);
    bgi_string text = {0};
    bg_status status = BG_OK;
    json_t *value = NULL;

    bgi_string_add(&text, "%s", is_list ? "[" : "");
    bgi_run_option_print(&text, number, options);
    bgi_string_add(&text, "%s", is_list ? "]" : "");
    if (!text.failed && !bgi_run_option_is_text(number))
        status = bgi_json_parse(name, text.data, text.length, &value, NULL);
    if (status == BG_ERROR_PARSE)
        status = BG_OK;
    if (!text.failed && value == NULL && status == BG_OK)
        value = json_string(text.data);
    if (!text.failed && value == NULL && !bgi_text_is_utf8(text.data)) /* possible if a plain struct was copied */
        status = bg_error_set(error, BG_ERROR_INVALID, "option `%s` is `%s`, which is not UTF-8; JSON needs UTF-8",
                              name, text.data);
    else if (json_object_set_new(object, name, value) != 0)
        status = bgi_error_memory(error, name, text.length);
    bgi_string_clear(&text);
    return status;
}

bg_status bg_run_options_print_json(const bg_run_options *options, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    json_t *object = json_object();
    bgi_string text = {0};
    bg_status status = object != NULL ? BG_OK : bgi_error_memory(error, "options", 0);

    for (uint32_t i = 0; status == BG_OK && bgi_run_option_name(i) != NULL; i++)
        status = add_value(object, i, &options->options, error);
    if (status == BG_OK) {
        bgi_document_print_json(&text, object);
        status = bgi_string_finish(&text, out_text, error);
    }
    json_decref(object);
    return status;
}
