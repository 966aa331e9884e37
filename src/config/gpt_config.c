/*
 * gpt_config.c: reads the tree of gpt_fields.def from files and from "key=value", checks it, and prints it. Every value
 * passes through one function (assign), including the defaults, which are read as "key=value".
 */
#include "config/gpt_config.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/document.h"
#include "config/problems.h"
#include "core/error.h"
#include "formats/json_tree.h"
#include "options/optimizer.h"
#include "options/table.h"

enum { PATH_BYTES = 128, MOST_REPLICAS = 65536 };

typedef enum field_kind {
    FIELD_COUNT,
    FIELD_LIMIT, /* a count, or null (stored as 0) for no limit */
    FIELD_REAL,
    FIELD_FLAG,
    FIELD_CHOICE,
    FIELD_TEXT, /* or null */
    FIELD_TEXTS,
    FIELD_REALS
} field_kind;

typedef struct field {
    field_kind kind;
    size_t offset;
    const char *path, *initial;
    double least, most;
    const char *choices;
} field;

static const field fields[] = {
#define GPT_FIELD(kind, member, path, initial, least, most, choices)                                                   \
    {FIELD_##kind, offsetof(bgi_gpt_config, member), path, initial, least, most, choices},
#include "config/gpt_fields.def"
#undef GPT_FIELD
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

static void *member_of(bgi_gpt_config *config, const field *f)
{
    return (char *)config + f->offset;
}

static const void *const_member_of(const bgi_gpt_config *config, const field *f)
{
    return (const char *)config + f->offset;
}

/* ---- names ---- */

static const field *find_field(const char *path)
{
    for (int i = 0; i < FIELDS; i++)
        if (strcmp(fields[i].path, path) == 0)
            return &fields[i];
    return NULL;
}

/* Returns the field for a path of the example's files that differs here, or NULL. In the example `optimizer` is a
 * value, but here it is a group with the field `name`, and one key has another spelling. */
static const field *find_alias(const char *path)
{
    static const struct {
        const char *path, *field;
    } aliases[] = {
        {"training.optimizer", "training.optimizer.name"},
        {"optimizer", "training.optimizer.name"},
        {"training.optimizer.optimizer", "training.optimizer.name"},
        {"execution.attention_serialisation", "execution.attention_serialization"},
        {"attention_serialisation", "execution.attention_serialization"},
    };

    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(path, aliases[i].path) == 0)
            return find_field(aliases[i].field);
    return NULL;
}

static bool is_group(const char *path)
{
    const size_t length = strlen(path);

    for (int i = 0; i < FIELDS; i++)
        if (strncmp(fields[i].path, path, length) == 0 && fields[i].path[length] == '.')
            return true;
    return false;
}

static const char *last_word_of(const char *path)
{
    return strrchr(path, '.') != NULL ? strrchr(path, '.') + 1 : path;
}

static const char *last_word(const field *f)
{
    return last_word_of(f->path);
}

/* Lists the paths of all groups, each once, and returns their number. There are fewer groups than fields. */
static uint32_t list_groups(char paths[FIELDS][PATH_BYTES])
{
    uint32_t count = 0;

    for (int i = 0; i < FIELDS; i++)
        for (const char *dot = strchr(fields[i].path, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
            uint32_t k = 0;
            snprintf(paths[count], PATH_BYTES, "%.*s", (int)(dot - fields[i].path), fields[i].path);
            while (strcmp(paths[k], paths[count]) != 0)
                k++;
            count += k == count;
        }
    return count;
}

/* Adds the names of a group's fields, without those of inner groups. */
static void add_fields_of(bgi_string *text, const char *group)
{
    const char *between = "";

    for (int i = 0; i < FIELDS; i++)
        if (strncmp(fields[i].path, group, strlen(group)) == 0 &&
            last_word(&fields[i]) == fields[i].path + strlen(group) + 1) {
            bgi_string_add(text, "%s%s", between, last_word(&fields[i]));
            between = ", ";
        }
}

/* Returns the first field whose path ends in `word`, or NULL. */
static const field *find_by_word(const char *word)
{
    for (int i = 0; i < FIELDS; i++)
        if (strcmp(last_word(&fields[i]), word) == 0)
            return &fields[i];
    return NULL;
}

/* Sets `group` to the path of the group that was probably meant; returns false if there is none. */
static bool find_nearest_group(const char *path, char group[PATH_BYTES])
{
    char paths[FIELDS][PATH_BYTES];
    const char *names[FIELDS], *words[FIELDS], *nearest;
    const uint32_t count = list_groups(paths);

    for (uint32_t i = 0; i < count; i++) {
        names[i] = paths[i];
        words[i] = last_word_of(paths[i]);
    }
    nearest = bgi_text_nearest(last_word_of(path), words, count);
    for (uint32_t i = 0; nearest != NULL && i < count; i++)
        if (words[i] == nearest)
            nearest = names[i];
    if (nearest == NULL)
        nearest = bgi_text_nearest(path, names, count);
    if (nearest != NULL)
        snprintf(group, PATH_BYTES, "%s", nearest);
    return nearest != NULL;
}

/* Finds the path of the field or group that a mistyped path or last word probably means, or returns NULL. `group` is
 * memory for the path of a group. The last word may be right although its group is wrong. */
static const char *find_nearest(const char *path, char group[PATH_BYTES])
{
    const char *names[FIELDS], *words[FIELDS];
    const char *word = last_word_of(path), *nearest, *nearest_word;

    for (int i = 0; i < FIELDS; i++) {
        names[i] = fields[i].path;
        words[i] = last_word(&fields[i]);
    }
    if (find_by_word(word) != NULL)
        return find_by_word(word)->path;
    nearest = bgi_text_nearest(path, names, FIELDS);
    nearest_word = bgi_text_nearest(word, words, FIELDS);
    /* If several fields have the same word, the one in the nearest group is chosen. */
    if (nearest != NULL && nearest_word != NULL && strcmp(last_word_of(nearest), nearest_word) == 0)
        return nearest;
    if (nearest_word != NULL)
        return find_by_word(nearest_word)->path;
    return find_nearest_group(path, group) ? group : nearest;
}

static void report_unknown(bgi_problems *problems, const char *path)
{
    char group[PATH_BYTES];
    const char *nearest = find_nearest(path, group);

    bgi_problems_add(problems, path, "unknown key `%.100s`%s%s%s", path, nearest != NULL ? "; did you mean `" : "",
                     nearest != NULL ? nearest : "", nearest != NULL ? "`?" : "");
}

static void report_group(bgi_problems *problems, const char *group)
{
    bgi_string names = {0};

    add_fields_of(&names, group);
    bgi_problems_add(problems, group, "%s is a group, not a value; its fields are %s", group,
                     names.length > 0 ? names.data : "in inner groups");
    bgi_string_clear(&names);
}

/* ---- values ---- */

static bool is_choice(const char *choices, const char *text)
{
    const size_t length = strlen(text);

    for (const char *choice = choices; choice != NULL; choice = strchr(choice, '|')) {
        choice += *choice == '|';
        if (length > 0 && strcspn(choice, "|") == length && strncmp(choice, text, length) == 0)
            return true;
    }
    return false;
}

/* Lists the optimizers that have the setting, as "sgd|rmsprop"; if `setting` is NULL, all optimizers. */
static void list_optimizers(const bgi_setting *setting, bgi_string *text)
{
    const char *name;

    for (uint32_t kind = 0; (name = bg_optimizer_name((bg_optimizer_kind)kind)) != NULL; kind++)
        if (setting == NULL || bgi_optimizer_has((bg_optimizer_kind)kind, setting, NULL))
            bgi_string_add(text, "%s%s", text->length > 0 ? "|" : "", name);
}

static bool is_choice_of(const field *f, const char *text)
{
    const char *name;

    if (f->choices != NULL)
        return is_choice(f->choices, text);
    for (uint32_t kind = 0; (name = bg_optimizer_name((bg_optimizer_kind)kind)) != NULL; kind++)
        if (strcmp(name, text) == 0)
            return true;
    return false;
}

static bool is_in_range(const field *f, double value)
{
    return value >= f->least && value <= f->most;
}

static bool is_list_of(const field *f, const json_t *value)
{
    if (!json_is_array(value))
        return false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);

        if (f->kind == FIELD_TEXTS ? !json_is_string(item)
                                   : !json_is_number(item) || !is_in_range(f, json_number_value(item)))
            return false;
    }
    return f->kind == FIELD_TEXTS || (json_array_size(value) > 0 && json_array_size(value) <= BGI_GPT_MOST_PROPORTIONS);
}

static bool is_good(const field *f, const json_t *value)
{
    switch (f->kind) {
    case FIELD_LIMIT:
        if (json_is_null(value))
            return true;
        /* fall through */
    case FIELD_COUNT:
        return json_is_integer(value) && is_in_range(f, (double)json_integer_value(value));
    case FIELD_REAL:
        return json_is_number(value) && is_in_range(f, json_number_value(value));
    case FIELD_FLAG:
        return json_is_boolean(value);
    case FIELD_CHOICE:
        return json_is_string(value) && is_choice_of(f, json_string_value(value));
    case FIELD_TEXT:
        return json_is_null(value) || (json_is_string(value) && json_string_length(value) > 0);
    case FIELD_TEXTS:
    case FIELD_REALS:
        return is_list_of(f, value);
    }
    return false;
}

/* Reports the value and the accepted values. */
static void report_value(bgi_problems *problems, const field *f, const json_t *value)
{
    bgi_string is = {0}, names = {0};

    bgi_json_print(&is, value);
    if (is.failed) {
        problems->failed = true;
        bgi_string_clear(&is);
        return;
    }
    if (is.length > 60)
        memcpy(is.data + 57, "...", 4);
    switch (f->kind) {
    case FIELD_COUNT:
    case FIELD_LIMIT:
        bgi_problems_add(problems, f->path, "%s is %s; it must be a whole number from %.0f to %.0f%s", f->path, is.data,
                         f->least, f->most, f->kind == FIELD_LIMIT ? ", or null" : "");
        break;
    case FIELD_REAL:
        bgi_problems_add(problems, f->path, "%s is %s; it must be a number from %g to %g", f->path, is.data, f->least,
                         f->most);
        break;
    case FIELD_FLAG:
        bgi_problems_add(problems, f->path, "%s is %s; it must be true or false", f->path, is.data);
        break;
    case FIELD_CHOICE:
        if (f->choices == NULL)
            list_optimizers(NULL, &names);
        bgi_problems_add(problems, f->path, "%s is %s; it must be one of %s", f->path, is.data,
                         f->choices != NULL ? f->choices : names.data);
        bgi_string_clear(&names);
        break;
    case FIELD_TEXT:
        bgi_problems_add(problems, f->path, "%s is %s; it must be a path, or null", f->path, is.data);
        break;
    case FIELD_TEXTS:
        bgi_problems_add(problems, f->path, "%s is %s; it must be a list of paths: [a.u16, b.u16]", f->path, is.data);
        break;
    case FIELD_REALS:
        bgi_problems_add(problems, f->path, "%s is %s; it must be a list of 1 to %d numbers from %g to %g", f->path,
                         is.data, BGI_GPT_MOST_PROPORTIONS, f->least, f->most);
        break;
    }
    bgi_string_clear(&is);
}

/* Sets the member of a field. The configuration keeps a reference to the value, because the member may point into
 * it. */
static void assign(bgi_gpt_config *config, const field *f, json_t *value, bgi_problems *problems)
{
    void *member = member_of(config, f);

    if (!is_good(f, value)) {
        report_value(problems, f, value);
        return;
    }
    if (json_array_append(config->kept, value) != 0) {
        problems->failed = true;
        return;
    }
    switch (f->kind) {
    case FIELD_COUNT:
    case FIELD_LIMIT:
        *(int64_t *)member = json_is_null(value) ? 0 : (int64_t)json_integer_value(value);
        break;
    case FIELD_REAL:
        *(double *)member = json_number_value(value);
        break;
    case FIELD_FLAG:
        *(bool *)member = json_is_true(value);
        break;
    case FIELD_CHOICE:
    case FIELD_TEXT:
        *(const char **)member = json_string_value(value); /* NULL represents null */
        break;
    case FIELD_TEXTS:
    case FIELD_REALS:
        *(const json_t **)member = value;
        break;
    }
}

/* ---- files ---- */

/* Joins "a" and "b" to "a.b"; returns false if the result is longer than any key. */
static bool join_path(const char *outer, const char *key, char path[PATH_BYTES])
{
    const int length = snprintf(path, PATH_BYTES, "%s%s%s", outer, outer[0] != '\0' ? "." : "", key);

    return length >= 0 && length < PATH_BYTES;
}

static void read_group(bgi_gpt_config *config, const char *outer, json_t *group, bgi_problems *problems)
{
    const char *key;
    json_t *value;

    json_object_foreach(group, key, value)
    {
        char path[PATH_BYTES];
        const bool fits = join_path(outer, key, path);
        const field *f = fits ? find_field(path) : NULL;

        if (f == NULL && fits && (json_is_string(value) || !is_group(path)))
            f = find_alias(path);
        if (f != NULL)
            assign(config, f, value, problems);
        else if (!fits || !is_group(path))
            report_unknown(problems, path);
        else if (!json_is_object(value))
            report_group(problems, path);
        else
            read_group(config, path, value, problems);
    }
}

typedef struct places {
    const bgi_document *document;
    const char *name;
} places;

/* Writes the file's name and the position of a field, or of its outermost group if only that is known, as in JSON. */
static const char *place_of(const void *user, const char *path, char *text, size_t size)
{
    const places *it = user;
    char outer[PATH_BYTES];
    const char *place = path != NULL ? json_string_value(json_object_get(it->document->places, path)) : NULL;

    if (place == NULL && path != NULL) {
        snprintf(outer, sizeof outer, "%.*s", (int)strcspn(path, "."), path);
        place = json_string_value(json_object_get(it->document->places, outer));
    }
    snprintf(text, size, "%s:%s%s ", it->name, place != NULL ? place : "", place != NULL ? ":" : "");
    return text;
}

/* Reads a document into the configuration, and takes ownership of the document. */
static bg_status read_document(bgi_gpt_config *config, bgi_document *document, const char *name, bg_error *error)
{
    const places where = {document, name};
    bgi_problems problems = {.place = place_of, .user = &where};
    bg_status status;

    read_group(config, "", document->root, &problems);
    status = bgi_problems_report(&problems, BG_ERROR_INVALID, error);
    bgi_problems_clear(&problems);
    bgi_document_clear(document);
    return status;
}

bg_status bgi_gpt_config_parse_yaml(bgi_gpt_config *config, const char *text, const char *name, bg_error *error)
{
    bgi_document document = {0};

    BGI_TRY(bgi_document_parse_yaml(text, strlen(text), name, &document, error));
    return read_document(config, &document, name, error);
}

bg_status bgi_gpt_config_load(bgi_gpt_config *config, const char *path, bg_error *error)
{
    bgi_document document = {0};

    BGI_TRY(bgi_document_load(path, &document, error));
    return read_document(config, &document, path, error);
}

/* ---- single values ---- */

/* Converts the text to a value as YAML does; paths need no quotes. */
static bg_status read_text(const field *f, const char *text, bgi_document *out, bg_error *error)
{
    bgi_string yaml = {0};
    bg_status status;

    if ((f->kind == FIELD_TEXT && strcmp(text, "null") != 0) || (f->kind == FIELD_TEXTS && text[0] != '[')) {
        out->root = json_pack(f->kind == FIELD_TEXT ? "{s:s}" : "{s:[s]}", "value", text);
        if (out->root == NULL && bgi_text_is_utf8(text))
            return bgi_error_memory(error, f->path, strlen(text));
        return out->root != NULL
                   ? BG_OK
                   : bg_error_set(error, BG_ERROR_INVALID, "%s is not UTF-8 text; it must be a path in UTF-8", f->path);
    }
    bgi_string_add(&yaml, "value: %s", text);
    if (yaml.failed)
        return bgi_error_memory(error, "configuration", 0);
    status = bgi_document_parse_yaml(yaml.data, yaml.length, f->path, out, error);
    bgi_string_clear(&yaml);
    return status;
}

bgi_gpt_key bgi_gpt_config_find_key(const char *key)
{
    const field *f = find_field(key);

    if (f == NULL)
        f = find_by_word(key);
    if (f == NULL)
        f = find_alias(key);
    if (f == NULL)
        return BGI_GPT_KEY_NONE;
    switch (f->kind) {
    case FIELD_COUNT:
    case FIELD_REAL:
    case FIELD_CHOICE:
        return BGI_GPT_KEY_VALUE;
    case FIELD_LIMIT:
    case FIELD_TEXT:
        return BGI_GPT_KEY_NULLABLE;
    case FIELD_FLAG:
        return BGI_GPT_KEY_FLAG;
    case FIELD_REALS:
        return BGI_GPT_KEY_LIST;
    case FIELD_TEXTS:
        return BGI_GPT_KEY_FILES;
    }
    return BGI_GPT_KEY_NONE;
}

static bg_status find_named(const char *name, const field **out, bg_error *error)
{
    bgi_problems problems = {0};
    bg_status status;

    *out = find_field(name);
    if (*out == NULL)
        *out = find_by_word(name);
    if (*out == NULL)
        *out = find_alias(name);
    for (const field *other = *out; other != NULL && other < fields + FIELDS; other++)
        if (other != *out && strcmp(last_word(other), name) == 0)
            return bg_error_set(
                error, BG_ERROR_INVALID, "`%s` can mean %s or %s; give the full name%s", name, (*out)->path,
                other->path, strcmp(name, "steps") == 0 ? " (`brigade gpt pretrain --steps N` ends a run early)" : "");
    if (*out != NULL)
        return BG_OK;
    if (is_group(name))
        report_group(&problems, name);
    else
        report_unknown(&problems, name);
    status = bgi_problems_report(&problems, BG_ERROR_INVALID, error);
    bgi_problems_clear(&problems);
    return status;
}

bg_status bgi_gpt_config_set(bgi_gpt_config *config, const char *assignment, bg_error *error)
{
    const size_t length = strcspn(assignment, "=");
    const field *f = NULL;
    bgi_problems problems = {0};
    bgi_document document = {0};
    json_t *value;
    char name[PATH_BYTES];
    bg_status status;

    if (length == 0 || assignment[length] == '\0')
        return bg_error_set(error, BG_ERROR_INVALID, "`%.100s` must have the form KEY=VALUE, such as model.layers=4",
                            assignment);
    snprintf(name, sizeof name, "%.*s", (int)length, assignment);
    BGI_TRY(find_named(name, &f, error));
    BGI_TRY(read_text(f, assignment + length + 1, &document, error));
    value = json_object_get(document.root, "value");
    if (value != NULL && json_object_size(document.root) == 1)
        assign(config, f, value, &problems);
    else
        bgi_problems_add(&problems, NULL, "`%.100s` must have the form KEY=VALUE, such as model.layers=4", assignment);
    status = bgi_problems_report(&problems, BG_ERROR_INVALID, error);
    bgi_problems_clear(&problems);
    bgi_document_clear(&document);
    return status;
}

bg_status bgi_gpt_config_init(bgi_gpt_config *config, bg_error *error)
{
    *config = (bgi_gpt_config){.kept = json_array()};
    if (config->kept == NULL)
        return bgi_error_memory(error, "configuration", 0);
    for (int i = 0; i < FIELDS; i++) {
        bgi_string assignment = {0};
        bg_status status;

        bgi_string_add(&assignment, "%s=%s", fields[i].path, fields[i].initial);
        status = assignment.failed ? bgi_error_memory(error, "configuration", 0)
                                   : bgi_gpt_config_set(config, assignment.data, error);
        bgi_string_clear(&assignment);
        BGI_TRY(status);
    }
    return BG_OK;
}

void bgi_gpt_config_clear(bgi_gpt_config *config)
{
    json_decref(config->kept);
    *config = (bgi_gpt_config){.kept = NULL};
}

/* ---- checks of combinations ---- */

static void check_model(const bgi_gpt_config *config, bgi_problems *problems)
{
    if (config->hidden_size % config->heads != 0)
        bgi_problems_add(problems, NULL,
                         "model.hidden_size %" PRId64 " is not divisible by model.attention.heads %" PRId64
                         "; make it a multiple of the heads",
                         config->hidden_size, config->heads);
    if (config->heads % config->tensor_parallel_1 != 0)
        bgi_problems_add(problems, NULL,
                         "model.attention.heads %" PRId64 " is not divisible by execution.tensor_parallel_1 %" PRId64
                         ": each replica along that axis has an equal number of heads",
                         config->heads, config->tensor_parallel_1);
    if (config->hidden_size % config->tensor_parallel_2 != 0)
        bgi_problems_add(problems, NULL,
                         "model.hidden_size %" PRId64 " is not divisible by execution.tensor_parallel_2 %" PRId64
                         ": each replica along that axis has an equal part",
                         config->hidden_size, config->tensor_parallel_2);
    if (config->data_parallel * config->tensor_parallel_1 * config->tensor_parallel_2 > MOST_REPLICAS)
        bgi_problems_add(problems, NULL,
                         "execution.data_parallel %" PRId64 " x tensor_parallel_1 %" PRId64
                         " x tensor_parallel_2 %" PRId64 " are too many; at most %d replicas in all",
                         config->data_parallel, config->tensor_parallel_1, config->tensor_parallel_2, MOST_REPLICAS);
    if (config->sequence_length > config->max_positional_length)
        bgi_problems_add(problems, NULL,
                         "model.sequence_length %" PRId64
                         " is longer than model.embedding.max_positional_length %" PRId64
                         "; lower the first, or raise the second",
                         config->sequence_length, config->max_positional_length);
    if (config->sequence_length % config->attention_serialization != 0)
        bgi_problems_add(problems, NULL,
                         "execution.attention_serialization %" PRId64 " does not divide model.sequence_length %" PRId64
                         ", whose queries it cuts into equal pieces",
                         config->attention_serialization, config->sequence_length);
}

/* Whether a real number, a flag or a list of numbers still has its initial value. */
static bool is_initial(const bgi_gpt_config *config, const field *f)
{
    const void *member = const_member_of(config, f);
    bgi_document document = {0};
    bool is_equal;

    if (f->kind == FIELD_FLAG)
        return *(const bool *)member == (f->initial[0] == 't');
    if (f->kind != FIELD_REALS)
        return *(const double *)member == strtod(f->initial, NULL);
    if (read_text(f, f->initial, &document, NULL) != BG_OK)
        return false;
    is_equal = json_equal(*(json_t *const *)member, json_object_get(document.root, "value")) != 0;
    bgi_document_clear(&document);
    return is_equal;
}

/* Returns the optimizers' setting that a field sets; NULL if it sets none. Sets *out_is_opposite if the field means the
 * opposite of the setting. */
static const bgi_setting *find_setting(const field *f, bool *out_is_opposite)
{
    static const char group[] = "training.optimizer.", opposite[] = "bias_correction";
    const char *name = f->path + sizeof group - 1;

    if (strncmp(f->path, group, sizeof group - 1) != 0)
        return NULL;
    *out_is_opposite = strcmp(name, opposite) == 0;
    return bgi_setting_find(*out_is_opposite ? "uncorrected" : name);
}

bg_status bgi_gpt_config_optimizer(const bgi_gpt_config *config, bg_optimizer *out, bg_error *error)
{
    bg_optimizer optimizer;

    BGI_TRY(bg_optimizer_parse(config->optimizer, bgi_gpt_config_learning_rate(config, 0), &optimizer, error));
    for (size_t i = 0; i < FIELDS; i++) {
        bool is_opposite = false;
        const bgi_setting *setting = find_setting(&fields[i], &is_opposite);
        const void *member = const_member_of(config, &fields[i]);

        if (setting == NULL || !bgi_optimizer_has(optimizer.kind, setting, NULL))
            continue;
        if (setting->is_flag)
            bgi_setting_set(setting, &optimizer, *(const bool *)member != is_opposite ? 1.0 : 0.0);
        else
            bgi_setting_set(setting, &optimizer, *(const double *)member);
    }
    optimizer.decay_matrices_only = true;
    *out = optimizer;
    return BG_OK;
}

/* Checks the optimizer's settings. A setting that the optimizer does not have would have no effect, so it must be a
 * mistake. */
static void check_optimizer(const bgi_gpt_config *config, bgi_problems *problems)
{
    bg_optimizer optimizer;

    if (bg_optimizer_parse(config->optimizer, 1.0, &optimizer, NULL) != BG_OK)
        return; /* the field's own check reports it */
    for (size_t i = 0; i < FIELDS; i++) {
        bool is_opposite = false;
        const bgi_setting *setting = find_setting(&fields[i], &is_opposite);
        bgi_string owners = {0};

        if (setting == NULL || bgi_optimizer_has(optimizer.kind, setting, NULL) || is_initial(config, &fields[i]))
            continue;
        list_optimizers(setting, &owners);
        bgi_problems_add(problems, NULL, "%s is set, but %s has no such setting; it belongs to %s", fields[i].path,
                         config->optimizer, owners.data != NULL ? owners.data : "others");
        bgi_string_clear(&owners);
    }
    if (config->nesterov && (config->momentum <= 0.0 || config->dampening != 0.0))
        bgi_problems_add(problems, NULL,
                         "training.optimizer.nesterov is set with momentum %g and dampening %g; it needs a momentum "
                         "above 0 (0.9 is usual) and dampening 0",
                         config->momentum, config->dampening);
}

bool bgi_gpt_config_has_proportions(const bgi_gpt_config *config)
{
    return !is_initial(config, find_field("execution.available_memory_proportion"));
}

static void check_batch(const bgi_gpt_config *config, bgi_problems *problems)
{
    /* Each factor is at most 10^6, so no product overflows. */
    const int64_t share = config->data_parallel * config->micro_batch_size;
    const int64_t nearest = config->global_batch_size / share * share;

    if (config->global_batch_size % share != 0)
        bgi_problems_add(problems, NULL,
                         "training.global_batch_size %" PRId64 " is not divisible by execution.data_parallel %" PRId64
                         " x execution.micro_batch_size %" PRId64 " = %" PRId64 "; a global_batch_size of %" PRId64
                         " would be",
                         config->global_batch_size, config->data_parallel, config->micro_batch_size, share,
                         nearest > 0 ? nearest : share);
    if (config->steps % config->device_iterations != 0)
        bgi_problems_add(problems, NULL,
                         "training.steps %" PRId64 " is not divisible by execution.device_iterations %" PRId64
                         ": a call makes this number of updates",
                         config->steps, config->device_iterations);
    if (config->checkpoint_steps % config->device_iterations != 0)
        bgi_problems_add(problems, NULL,
                         "checkpoint.steps %" PRId64 " is not divisible by execution.device_iterations %" PRId64
                         ": a checkpoint is made between calls",
                         config->checkpoint_steps, config->device_iterations);
}

bg_status bgi_gpt_config_check(const bgi_gpt_config *config, bg_error *error)
{
    bgi_problems problems = {0};
    bg_status status;

    check_model(config, &problems);
    check_optimizer(config, &problems);
    check_batch(config, &problems);
    status = bgi_problems_report(&problems, BG_ERROR_INVALID, error);
    bgi_problems_clear(&problems);
    return status;
}

/* ---- printing ---- */

static json_t *value_of(const bgi_gpt_config *config, const field *f)
{
    const void *member = const_member_of(config, f);
    const char *text;

    switch (f->kind) {
    case FIELD_COUNT:
        return json_integer(*(const int64_t *)member);
    case FIELD_LIMIT:
        return *(const int64_t *)member != 0 ? json_integer(*(const int64_t *)member) : json_null();
    case FIELD_REAL:
        return json_real(*(const double *)member);
    case FIELD_FLAG:
        return json_boolean(*(const bool *)member);
    case FIELD_CHOICE:
    case FIELD_TEXT:
        text = *(const char *const *)member;
        return text != NULL ? json_string(text) : json_null();
    case FIELD_TEXTS:
    case FIELD_REALS:
        return bgi_json_copy(*(const json_t *const *)member, true);
    }
    return NULL;
}

/* Prints headings of the groups that contain `path` but not `before`; returns the depth of `path`. */
static int print_groups(bgi_string *text, const char *before, const char *path)
{
    int depth = 0;
    bool is_new = false;

    for (const char *word = path, *dot; (dot = strchr(word, '.')) != NULL; word = dot + 1, depth++) {
        is_new = is_new || strncmp(before, path, (size_t)(dot + 1 - path)) != 0;
        if (is_new)
            bgi_string_add(text, "%*s%.*s:\n", 2 * depth, "", (int)(dot - word), word);
    }
    return depth;
}

bg_status bgi_gpt_config_print(const bgi_gpt_config *config, char **out_text, bg_error *error)
{
    bgi_string text = {0};
    const char *before = "";

    for (int i = 0; i < FIELDS; i++) {
        json_t *value = value_of(config, &fields[i]);
        const int depth = print_groups(&text, before, fields[i].path);

        bgi_string_add(&text, "%*s%s: ", 2 * depth, "", last_word(&fields[i]));
        if (value == NULL)
            text.failed = true;
        else
            bgi_json_print(&text, value);
        bgi_string_add(&text, "\n");
        json_decref(value);
        before = fields[i].path;
    }
    return bgi_string_finish(&text, out_text, error);
}

/* ---- derived values ---- */

uint64_t bgi_gpt_config_accumulation(const bgi_gpt_config *config)
{
    return (uint64_t)(config->global_batch_size / (config->data_parallel * config->micro_batch_size));
}

bg_dtype bgi_gpt_config_weights(const bgi_gpt_config *config)
{
    return bg_dtype_find(strcmp(config->weights, "precision") == 0 ? config->precision : config->weights);
}

uint64_t bgi_gpt_config_devices(const bgi_gpt_config *config)
{
    return (uint64_t)config->data_parallel * (uint64_t)config->tensor_parallel_1 * (uint64_t)config->tensor_parallel_2;
}

double bgi_gpt_config_learning_rate(const bgi_gpt_config *config, uint64_t done)
{
    static const double least = 1e-7, pi = 3.14159265358979323846;
    const double most = config->learning_rate, steps = (double)config->steps;
    const double warm_up = floor(steps * config->warmup_proportion);
    const double t = (double)done < steps ? (double)done : steps;
    double share;

    if (config->constant)
        return most;
    if (t < warm_up)
        return least + (most - least) * t / warm_up;
    if (steps <= warm_up)
        return most;
    share = (t - warm_up) / (steps - warm_up);
    if (strcmp(config->decay, "cosine") == 0)
        share = 0.5 - 0.5 * cos(pi * share);
    return most + (least - most) * share;
}
