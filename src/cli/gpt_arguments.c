/*
 * gpt_arguments.c: translates the command line of the PopXL GPT-3 example. The example has an option for each field of
 * the configuration, and its names have underscores:
 *
 *     --layers 3 --training.steps 100 --eval True --hf_model Test --input_files a b
 *     --set=layers=3 --set=training.steps=100 --set=eval=true --hf-model Test --input-files a b
 *
 * Brigade's own options keep their meaning; for example, --steps does not set the field `steps`. If an option of the
 * example has another name here, the error gives that name.
 */
#include "cli/gpt.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"

enum { NAME_BYTES = 64 };

static const struct {
    const char *name, *answer;
} elsewhere[] = {
    {"wandb", "metrics are written by `--tensorboard DIR` and `--log FILE` of `brigade gpt pretrain`"},
    {"wandb_name", "metrics are written by `--tensorboard DIR` and `--log FILE` of `brigade gpt pretrain`"},
    {"log_level", "`--quiet` prints only results, `--log-cycles` adds the time of each call, and `--log-dir DIR` "
                  "keeps the compiler's messages"},
    {"resume", "`--load DIR` resumes from the newest checkpoint in a folder"},
};

/* ---- words ---- */

static void replace_all(char *text, char from, char to)
{
    for (; *text != '\0'; text++)
        *text = *text == from ? to : *text;
}

static bool is_option(const char *word)
{
    return strncmp(word, "--", 2) == 0 && word[2] != '\0';
}

/* Converts Python's None and the spellings of true and false to YAML. Returns NULL for other values, which do not
 * change. */
static const char *find_yaml(bgi_gpt_key kind, const char *value)
{
    static const struct {
        const char *word, *yaml;
    } truths[] = {{"true", "true"},   {"t", "true"},  {"yes", "true"}, {"y", "true"},  {"1", "true"},
                  {"false", "false"}, {"f", "false"}, {"no", "false"}, {"n", "false"}, {"0", "false"}};
    char word[NAME_BYTES];

    if (kind == BGI_GPT_KEY_NULLABLE)
        return strcmp(value, "None") == 0 ? "null" : NULL;
    if (kind != BGI_GPT_KEY_FLAG || strlen(value) >= sizeof word)
        return NULL;
    for (size_t i = 0; i <= strlen(value); i++)
        word[i] = (char)tolower((unsigned char)value[i]);
    for (size_t i = 0; i < sizeof truths / sizeof truths[0]; i++)
        if (strcmp(truths[i].word, word) == 0)
            return truths[i].yaml;
    return NULL;
}

/* ---- the new command line ---- */

/* Appends `text` to the command line, and takes ownership of it. */
static bg_status add_made(gpt_arguments *to, char *text, bg_error *error)
{
    if (text == NULL)
        return bgi_error_memory(error, "the command line", 0);
    to->made[to->made_count++] = text;
    to->values[to->count++] = text;
    return BG_OK;
}

static const cli_option *find_option(const cli_option *table, const char *name)
{
    for (; table->name != NULL || table->help != NULL; table++)
        if (table->kind != CLI_HEADING && strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* The option that is being read: argv[at], its name, and the value after '=' (NULL if there is no '='). */
typedef struct reading {
    const cli_option *table;
    int argc, at;
    char **argv;
    char name[NAME_BYTES]; /* as written, without the dashes */
    const char *value;
    gpt_arguments *to;
} reading;

/* Adds one of Brigade's options, spelled as in the table. */
static bg_status add_option(reading *r, const cli_option *option, bg_error *error)
{
    gpt_arguments *to = r->to;

    if (strcmp(option->name, r->name) == 0) {
        to->values[to->count++] = r->argv[r->at];
    } else {
        bgi_string text = {0};
        char *made = NULL;

        bgi_string_add(&text, "--%s%s%s", option->name, r->value != NULL ? "=" : "", r->value != NULL ? r->value : "");
        BGI_TRY(bgi_string_finish(&text, &made, error));
        BGI_TRY(add_made(to, made, error));
    }
    if (option->kind != CLI_FLAG && r->value == NULL && r->at + 1 < r->argc)
        to->values[to->count++] = r->argv[++r->at]; /* the value, even if it looks like an option */
    return BG_OK;
}

/* Returns the option's value without consuming it, or "" if there is no value. */
static const char *peek_value(const reading *r)
{
    return r->value != NULL ? r->value : r->at + 1 < r->argc ? r->argv[r->at + 1] : "";
}

/* Whether the option's value is Python's None. A folder with this name must be written ./None. */
static bool is_none(const reading *r)
{
    return strcmp(peek_value(r), "None") == 0;
}

/* Whether --precision means the field of the example (float16) and not the option of Brigade (bf16-mixed); its value
 * decides. */
static bool is_precision_field(const reading *r)
{
    return strcmp(r->name, "precision") == 0 && bg_dtype_is_float(bg_dtype_find(peek_value(r)));
}

/* Reads the value of a field, and writes it as YAML. A list consumes all arguments up to the next option. */
static bg_status read_value(reading *r, bgi_gpt_key kind, bgi_string *text, bg_error *error)
{
    const bool has_word = r->at + 1 < r->argc && !is_option(r->argv[r->at + 1]);
    const char *value = r->value != NULL           ? r->value
                        : has_word                 ? r->argv[++r->at]
                        : kind == BGI_GPT_KEY_FLAG ? "true"
                                                   : NULL;
    const char *yaml;

    if (value == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--%s needs a value: --%s VALUE", r->name, r->name);
    yaml = find_yaml(kind, value);
    if (kind != BGI_GPT_KEY_LIST || value[0] == '[') {
        bgi_string_add(text, "%s", yaml != NULL ? yaml : value);
        return BG_OK;
    }
    bgi_string_add(text, "[%s", value);
    while (r->value == NULL && r->at + 1 < r->argc && !is_option(r->argv[r->at + 1]))
        bgi_string_add(text, ", %s", r->argv[++r->at]);
    bgi_string_add(text, "]");
    return BG_OK;
}

/* Adds a field as "--set=KEY=VALUE". The name that the user wrote, which errors use, is stored after the string's zero
 * byte. */
static bg_status add_field(reading *r, const char *key, bgi_gpt_key kind, bg_error *error)
{
    bgi_string text = {0};
    bg_status status;
    char *made;

    bgi_string_add(&text, "--set=%s=", key);
    status = read_value(r, kind, &text, error);
    if (status == BG_OK && text.failed)
        status = bgi_error_memory(error, "the command line", 0);
    if (status != BG_OK) {
        bgi_string_clear(&text);
        return status;
    }
    made = malloc(text.length + 1 + strlen(r->name) + 1);
    if (made != NULL) {
        memcpy(made, text.data, text.length + 1);
        memcpy(made + text.length + 1, r->name, strlen(r->name) + 1);
    }
    bgi_string_clear(&text);
    return add_made(r->to, made, error);
}

static bg_status add_word(reading *r, bg_error *error)
{
    char ours[NAME_BYTES], key[NAME_BYTES];
    const cli_option *option = find_option(r->table, r->name);
    bgi_gpt_key kind;

    strcpy(ours, r->name);
    strcpy(key, r->name);
    replace_all(ours, '_', '-');
    replace_all(key, '-', '_');
    kind = bgi_gpt_config_find_key(key);
    if (kind == BGI_GPT_KEY_FILES)
        strcpy(ours, "input-files");
    if (option == NULL)
        option = find_option(r->table, ours);
    if (option != NULL && (kind != BGI_GPT_KEY_NULLABLE || !is_none(r)) && !is_precision_field(r))
        return add_option(r, option, error);
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (strcmp(elsewhere[i].name, key) == 0)
            return bg_error_set(error, BG_ERROR_INVALID, "unknown option --%s: %s", r->name, elsewhere[i].answer);
    if (kind != BGI_GPT_KEY_NONE && kind != BGI_GPT_KEY_FILES)
        return add_field(r, key, kind, error);
    r->to->values[r->to->count++] = r->argv[r->at]; /* cli_options_read reports the unknown option */
    return BG_OK;
}

static bool wants_help(int argc, char **argv)
{
    bool found = false;

    for (int i = 1; i < argc; i++)
        found = found || strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0;
    return found;
}

bg_status gpt_arguments_read(const cli_option *table, int argc, char **argv, gpt_arguments *out, bg_error *error)
{
    reading r = {.table = table, .argc = argc, .argv = argv, .to = out};
    bg_status status = BG_OK;

    *out = (gpt_arguments){.values = calloc((size_t)argc + 1, sizeof *out->values),
                           .made = calloc((size_t)argc + 1, sizeof *out->made)};
    if (out->values == NULL || out->made == NULL) {
        gpt_arguments_clear(out);
        return bgi_error_memory(error, "the command line", (size_t)argc * sizeof *out->values);
    }
    for (r.at = 0; status == BG_OK && r.at < argc; r.at++) {
        const size_t length = strcspn(argv[r.at], "=");

        if (r.at == 0 || !is_option(argv[r.at]) || length - 2 >= sizeof r.name || wants_help(argc, argv)) {
            out->values[out->count++] = argv[r.at];
            continue;
        }
        snprintf(r.name, sizeof r.name, "%.*s", (int)length - 2, argv[r.at] + 2);
        r.value = argv[r.at][length] == '=' ? argv[r.at] + length + 1 : NULL;
        status = add_word(&r, error);
    }
    if (status != BG_OK)
        gpt_arguments_clear(out);
    return status;
}

const char *gpt_arguments_spelling(const gpt_arguments *arguments, const char *assignment)
{
    static const char set[] = "--set=";

    for (int i = 0; i < arguments->made_count; i++)
        if (assignment == arguments->made[i] + sizeof set - 1)
            return assignment + strlen(assignment) + 1;
    return "set";
}

void gpt_arguments_clear(gpt_arguments *arguments)
{
    for (int i = 0; i < arguments->made_count; i++)
        free(arguments->made[i]);
    free(arguments->made);
    free(arguments->values);
    *arguments = (gpt_arguments){.count = 0};
}
