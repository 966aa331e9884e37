/*
 * huggingface_config.c: reads and writes config.json of a GPT-2 folder, and lists the tensors of a model with this
 * configuration. A missing setting has the default of transformers' GPT2Config. Settings that bg_gpt_build does not
 * support are refused, all in one error.
 */
#include "models/huggingface.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "formats/json_tree.h"
#include "formats/json_write.h"

enum { CONFIG_LIMIT_BYTES = 1 << 20, GPT2_END = 50256, DIGITS = 15 };

/* ---- problems ---- */

void bgi_hf_problem(bgi_hf_problems *problems, const char *format, ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    bgi_string_add(&problems->text, "%s%s", problems->count++ > 0 ? "; " : "", line);
}

/* Shortens a list of problems that is longer than an error may be, and adds a note about this. */
static void shorten(char *text)
{
    enum { ROOM = BG_ERROR_MESSAGE_BYTES - 1024 };
    static const char more[] = "; and more";

    if (strlen(text) < ROOM)
        return;
    text[ROOM - sizeof more] = '\0';
    memcpy(strrchr(text, ';') != NULL ? strrchr(text, ';') : text, more, sizeof more);
}

bg_status bgi_hf_problems_report(bgi_hf_problems *problems, bg_status status, const char *where, bg_error *error)
{
    char count[48] = "";
    char *text = NULL;

    if (problems->count == 0)
        return BG_OK;
    if (problems->count > 1)
        snprintf(count, sizeof count, "%u problems: ", problems->count);
    BGI_TRY(bgi_string_finish(&problems->text, &text, error));
    problems->count = 0;
    shorten(text);
    bg_error_set(error, status, "%s: %s%s", where, count, text);
    free(text);
    return status;
}

/* ---- reading ---- */

/* A configuration that is being read; reading stops at the first value of a wrong kind. */
typedef struct reader {
    const char *name;
    const json_t *object;
    bgi_hf_problems *problems;
    bg_error *error;
    bg_status status;
} reader;

/* Returns the value of `key`; NULL if it is missing or null, which transformers reads as the default. */
static const json_t *find_value(const reader *r, const char *key)
{
    const json_t *value = json_object_get(r->object, key);

    return json_is_null(value) ? NULL : value;
}

/* Describes a value for a message. */
static void describe(const json_t *value, char *text, size_t capacity)
{
    if (json_is_string(value))
        snprintf(text, capacity, "\"%.50s\"", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, capacity, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, capacity, floor(json_real_value(value)) == json_real_value(value) ? "%.1f" : "%.9g",
                 json_real_value(value));
    else
        snprintf(text, capacity, "%s",
                 json_is_object(value)  ? "an object"
                 : json_is_array(value) ? "an array"
                 : json_is_true(value)  ? "true"
                 : json_is_false(value) ? "false"
                                        : "null");
}

static void fail_value(reader *r, const char *key, const char *wanted)
{
    char text[64];

    describe(json_object_get(r->object, key), text, sizeof text);
    if (r->status == BG_OK)
        r->status = bg_error_set(r->error, BG_ERROR_PARSE, "%s: `%s` is %s; it must be %s", r->name, key, text, wanted);
}

static int64_t read_count(reader *r, const char *key, int64_t fallback)
{
    const json_t *value = find_value(r, key);

    if (value == NULL)
        return fallback;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX)
        fail_value(r, key, "a whole number from 1 to 2147483647");
    return json_integer_value(value);
}

static double read_number(reader *r, const char *key, double fallback)
{
    const json_t *value = find_value(r, key);

    if (value != NULL && !json_is_number(value))
        fail_value(r, key, "a number");
    return value != NULL ? json_number_value(value) : fallback;
}

static const char *read_word(reader *r, const char *key, const char *fallback)
{
    const json_t *value = find_value(r, key);

    if (value != NULL && !json_is_string(value))
        fail_value(r, key, "a string");
    return value != NULL && json_is_string(value) ? json_string_value(value) : fallback;
}

static void require_truth(reader *r, const char *key, bool wanted, bool fallback)
{
    const json_t *value = find_value(r, key);

    if (value != NULL && !json_is_boolean(value))
        fail_value(r, key, "true or false");
    else if ((value != NULL ? json_is_true(value) : fallback) != wanted)
        bgi_hf_problem(r->problems, "%s is %s, but this GPT has %s", key, wanted ? "false" : "true",
                       wanted ? "true" : "false");
}

/* Checks settings for which bg_gpt_build supports only one value; other values become problems. */
static void require_settings(reader *r, const bgi_hf_config *config)
{
    const char *type = read_word(r, "model_type", "gpt2");
    const char *activation = read_word(r, "activation_function", "gelu_new");
    const double epsilon = read_number(r, "layer_norm_epsilon", 1e-5);
    const int64_t inner = read_count(r, "n_inner", 4 * config->hidden);

    if (strcmp(type, "gpt2") != 0)
        bgi_hf_problem(r->problems, "model_type is `%.60s` but must be `gpt2`", type);
    /* Both names mean the tanh approximation. */
    if (strcmp(activation, "gelu_new") != 0 && strcmp(activation, "gelu_pytorch_tanh") != 0)
        bgi_hf_problem(r->problems, "activation_function is `%.60s`, but this GPT has `gelu_new`", activation);
    if (epsilon != 1e-5)
        bgi_hf_problem(r->problems, "layer_norm_epsilon is %g, but this GPT has 1e-05", epsilon);
    if (inner != 4 * config->hidden)
        bgi_hf_problem(r->problems, "n_inner is %lld, but this GPT has 4 x n_embd = %lld", (long long)inner,
                       4 * (long long)config->hidden);
    require_truth(r, "scale_attn_weights", true, true);
    require_truth(r, "scale_attn_by_inverse_layer_idx", false, false);
    require_truth(r, "add_cross_attention", false, false);
    require_truth(r, "tie_word_embeddings", true, true);
    if (config->hidden % config->heads != 0)
        bgi_hf_problem(r->problems, "n_head is %lld, which does not divide n_embd %lld", (long long)config->heads,
                       (long long)config->hidden);
}

static bg_status read_config(const char *name, const json_t *object, bgi_hf_config *out, bgi_hf_problems *problems,
                             bg_error *error)
{
    reader r = {.name = name, .object = object, .problems = problems, .error = error};
    bgi_hf_config config = {.vocabulary = read_count(&r, "vocab_size", 50257),
                            .positions = read_count(&r, "n_positions", 1024),
                            .hidden = read_count(&r, "n_embd", 768),
                            .layers = read_count(&r, "n_layer", 12),
                            .heads = read_count(&r, "n_head", 12),
                            .dropout = read_number(&r, "resid_pdrop", 0.1)};

    if (!(config.dropout >= 0.0 && config.dropout < 1.0))
        fail_value(&r, "resid_pdrop", "at least 0 and below 1");
    if (r.status == BG_OK)
        require_settings(&r, &config);
    if (r.status == BG_OK)
        *out = config;
    return r.status;
}

bg_status bgi_hf_config_parse(const char *name, const char *text, size_t size_bytes, bgi_hf_config *out,
                              bgi_hf_problems *problems, bg_error *error)
{
    json_t *object = NULL;
    bg_status status;

    BGI_TRY(bgi_json_parse(name, text, size_bytes, &object, error));
    if (json_is_object(object)) {
        status = read_config(name, object, out, problems, error);
    } else {
        char kind[64];
        describe(object, kind, sizeof kind);
        status =
            bg_error_set(error, BG_ERROR_PARSE, "%s: the file is %s but must be an object of settings", name, kind);
    }
    json_decref(object);
    return status;
}

bg_status bgi_hf_config_load(const char *directory, bgi_hf_config *out, bgi_hf_problems *problems, bg_error *error)
{
    char *path = bgi_path_join(directory, BGI_HF_CONFIG), *text = NULL;
    size_t size_bytes = 0;
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "a path", strlen(directory));
    status = bgi_file_load(path, CONFIG_LIMIT_BYTES, &text, &size_bytes, error);
    if (status == BG_OK)
        status = bgi_hf_config_parse(path, text, size_bytes, out, problems, error);
    free(text);
    free(path);
    return status;
}

/* ---- comparing ---- */

void bgi_hf_config_compare(const bgi_hf_config *config, const bg_gpt_options *options, bgi_hf_problems *problems)
{
    const struct {
        const char *name, *what;
        int64_t given, asked;
    } fields[] = {{"n_embd", "hidden", config->hidden, options->hidden},
                  {"n_head", "heads", config->heads, options->heads},
                  {"n_layer", "layers", config->layers, options->layers},
                  {"vocab_size", "vocabulary", config->vocabulary, options->vocabulary},
                  {"n_positions", "positions", config->positions, options->positions}};

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].given != fields[i].asked)
            bgi_hf_problem(problems, "%s is %lld, but the program's %s is %lld", fields[i].name,
                           (long long)fields[i].given, fields[i].what, (long long)fields[i].asked);
}

bool bgi_hf_tensor(const bgi_hf_config *config, int64_t index, char name[BGI_HF_NAME_BYTES], bg_type *type)
{
    /* Sizes are in units of n_embd; rows 0 means a vector. */
    static const struct {
        const char *name;
        int64_t rows, columns;
    } of_layer[] = {{"ln_1.weight", 0, 1},      {"ln_1.bias", 0, 1},          {"attn.c_attn.weight", 1, 3},
                    {"attn.c_attn.bias", 0, 3}, {"attn.c_proj.weight", 1, 1}, {"attn.c_proj.bias", 0, 1},
                    {"ln_2.weight", 0, 1},      {"ln_2.bias", 0, 1},          {"mlp.c_fc.weight", 1, 4},
                    {"mlp.c_fc.bias", 0, 4},    {"mlp.c_proj.weight", 4, 1},  {"mlp.c_proj.bias", 0, 1}};
    enum { OF_LAYER = sizeof of_layer / sizeof of_layer[0], BEFORE = 2 };
    static const char *const outer[] = {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"};
    const int64_t layer = (index - BEFORE) / OF_LAYER, hidden = config->hidden;

    if (index >= BEFORE && layer < config->layers) {
        const int64_t i = (index - BEFORE) % OF_LAYER;

        snprintf(name, BGI_HF_NAME_BYTES, "h.%lld.%s", (long long)layer, of_layer[i].name);
        *type = of_layer[i].rows == 0 ? bg_vector(BG_FLOAT32, of_layer[i].columns * hidden)
                                      : bg_matrix(BG_FLOAT32, of_layer[i].rows * hidden, of_layer[i].columns * hidden);
        return true;
    }
    if (index >= BEFORE)
        index -= config->layers * OF_LAYER;
    if (index >= 4)
        return false;
    snprintf(name, BGI_HF_NAME_BYTES, "%s", outer[index]);
    *type = index < BEFORE ? bg_matrix(BG_FLOAT32, index == 0 ? config->vocabulary : config->positions, hidden)
                           : bg_vector(BG_FLOAT32, hidden);
    return true;
}

/* ---- writing ---- */

bg_status bgi_hf_config_save(const char *directory, const bg_gpt_options *options, bg_dtype dtype, bg_error *error)
{
    const int64_t end = options->vocabulary > GPT2_END ? GPT2_END : options->vocabulary - 1;
    bgi_json_writer w = {.indent = 2};
    char *text = NULL, *path = NULL;
    size_t length = 0;
    bg_status status;

    bgi_json_open(&w, NULL, '{');
    bgi_json_text(&w, "activation_function", "gelu_new");
    bgi_json_open(&w, "architectures", '[');
    bgi_json_text(&w, NULL, "GPT2LMHeadModel");
    bgi_json_close(&w, ']');
    bgi_json_real(&w, "attn_pdrop", options->dropout, DIGITS);
    bgi_json_integer(&w, "bos_token_id", end);
    bgi_json_real(&w, "embd_pdrop", options->dropout, DIGITS);
    bgi_json_integer(&w, "eos_token_id", end);
    bgi_json_real(&w, "initializer_range", 0.02, DIGITS);
    bgi_json_real(&w, "layer_norm_epsilon", 1e-5, DIGITS);
    bgi_json_text(&w, "model_type", "gpt2");
    bgi_json_integer(&w, "n_embd", options->hidden);
    bgi_json_integer(&w, "n_head", options->heads);
    bgi_json_null(&w, "n_inner");
    bgi_json_integer(&w, "n_layer", options->layers);
    bgi_json_integer(&w, "n_positions", options->positions);
    bgi_json_real(&w, "resid_pdrop", options->dropout, DIGITS);
    bgi_json_bool(&w, "scale_attn_weights", true);
    bgi_json_bool(&w, "tie_word_embeddings", true);
    bgi_json_text(&w, "torch_dtype", bg_dtype_name(dtype));
    bgi_json_bool(&w, "use_cache", true);
    bgi_json_integer(&w, "vocab_size", options->vocabulary);
    bgi_json_close(&w, '}');
    BGI_TRY(bgi_json_finish(&w, &text, &length, error));
    path = bgi_path_join(directory, BGI_HF_CONFIG);
    status =
        path == NULL ? bgi_error_memory(error, "a path", strlen(directory)) : bgi_file_save(path, text, length, error);
    free(path);
    free(text);
    return status;
}
