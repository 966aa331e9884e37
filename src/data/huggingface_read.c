/*
 * huggingface_read.c: the weights of a GPT-2 folder. All files are opened and every tensor is found and checked before
 * the first weight is set; nothing but one tensor that must be converted is ever copied beside the weights.
 */
#include "data/huggingface.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/narrow.h"
#include "core/error.h"
#include "core/file.h"
#include "data/safetensors.h"

enum { INDEX_LIMIT_BYTES = 64 << 20, FILE_LIMIT = 1024 };

/* The open files of a folder. */
typedef struct source {
    const char *directory;
    bg_safetensors *files[FILE_LIMIT];
    char *names[FILE_LIMIT];
    uint32_t file_count;
} source;

static void close_source(source *s)
{
    for (uint32_t i = 0; i < s->file_count; i++) {
        bg_safetensors_destroy(s->files[i]);
        free(s->names[i]);
    }
    free(s);
}

static bg_status open_file(source *s, const char *name, bg_error *error)
{
    char *path;
    bg_status status;

    for (uint32_t i = 0; i < s->file_count; i++)
        if (strcmp(s->names[i], name) == 0)
            return BG_OK;
    if (s->file_count == FILE_LIMIT)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: names more than %d files", BGI_HF_INDEX, FILE_LIMIT);
    path = bgi_path_join(s->directory, name);
    s->names[s->file_count] = strdup(name);
    status = path == NULL || s->names[s->file_count] == NULL
                 ? bgi_error_memory(error, "a path", strlen(name))
                 : bgi_safetensors_open(path, true, &s->files[s->file_count], error);
    if (status == BG_OK)
        s->file_count++;
    else
        free(s->names[s->file_count]);
    free(path);
    return status;
}

/* Opens each file that {"weight_map": {tensor: file}} names. They are names in the folder, not paths out of it. */
static bg_status open_mapped(source *s, const char *path, const json_t *index, bg_error *error)
{
    json_t *map = json_object_get(index, "weight_map"), *file;
    const char *tensor;

    if (!json_is_object(map))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: has no object `weight_map` of tensors and their files", path);
    json_object_foreach(map, tensor, file)
    {
        const char *name = json_string_value(file);

        if (name == NULL || name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: tensor `%.200s`: its file is `%.200s`, expected the name "
                                "of a file in the same folder",
                                path, tensor, name != NULL ? name : "(no string)");
        BGI_TRY(open_file(s, name, error));
    }
    return BG_OK;
}

static bg_status open_index(source *s, const char *path, bg_error *error)
{
    char *text = NULL;
    size_t size_bytes = 0;
    json_error_t problem;
    json_t *index;
    bg_status status;

    BGI_TRY(bgi_file_load(path, INDEX_LIMIT_BYTES, &text, &size_bytes, error));
    index = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &problem);
    free(text);
    if (index == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "%s:%d:%d: not JSON: %s", path, problem.line, problem.column,
                            problem.text);
    status = open_mapped(s, path, index, error);
    json_decref(index);
    return status;
}

static bg_status open_files(source *s, bg_error *error)
{
    char *model = bgi_path_join(s->directory, BGI_HF_MODEL), *index = bgi_path_join(s->directory, BGI_HF_INDEX);
    bg_status status;

    if (model == NULL || index == NULL)
        status = bgi_error_memory(error, "a path", strlen(s->directory));
    else if (bgi_file_exists(model))
        status = open_file(s, BGI_HF_MODEL, error);
    else if (bgi_file_exists(index))
        status = open_index(s, index, error);
    else
        status = bg_error_set(error, BG_ERROR_NOT_FOUND,
                              "%s: has no %s and no %s; a model in another format must be saved as safetensors first",
                              s->directory, BGI_HF_MODEL, BGI_HF_INDEX);
    free(model);
    free(index);
    return status;
}

/* ---- tensors ---- */

static const char *const prefix = "transformer.";
enum { PREFIX_BYTES = 12 };

/* A name without what one of the two styles puts before it. */
static const char *skip_prefix(const char *name)
{
    return strncmp(name, prefix, PREFIX_BYTES) == 0 ? name + PREFIX_BYTES : name;
}

static const bg_safetensors_entry *find_tensor(const source *s, const char *name)
{
    char prefixed[PREFIX_BYTES + BGI_HF_NAME_BYTES];
    const bg_safetensors_entry *entry = NULL;

    strcpy(prefixed, prefix);
    strcat(prefixed, name);
    for (uint32_t i = 0; entry == NULL && i < s->file_count; i++) {
        entry = bg_safetensors_find(s->files[i], prefixed);
        if (entry == NULL)
            entry = bg_safetensors_find(s->files[i], name);
    }
    return entry;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* What a file may have beside the model: the tied head, heads for other tasks, masks. */
static bool is_ignored(const char *name)
{
    static const char *const heads[] = {"lm_head.", "score.", "multiple_choice_head."};

    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        if (strncmp(name, heads[i], strlen(heads[i])) == 0)
            return true;
    return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void check_tensor(const bg_safetensors_entry *entry, const char *name, const bg_type *type,
                         bgi_hf_problems *problems)
{
    char wanted[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];
    const bgi_safetensors_storage *storage;
    bg_type shape;

    if (entry == NULL) {
        bgi_hf_problem(problems, "tensor `%s` is missing", name);
        return;
    }
    storage = bgi_safetensors_storage_of(entry);
    shape = entry->type;
    shape.dtype = BG_FLOAT32;
    if (!bg_type_equal(&shape, type))
        bgi_hf_problem(problems, "tensor `%s` is %s, the configuration makes it %s", name,
                       strchr(bg_type_text(&shape, given), '['), strchr(bg_type_text(type, wanted), '['));
    if (!bgi_safetensors_is_float(storage))
        bgi_hf_problem(problems, "tensor `%s` is of %s, expected F32, F16, BF16 or F64", name, storage->name);
}

/* A name of the list of `count` names (each BGI_HF_NAME_BYTES), sorted. */
static void check_unknown(const source *s, const char *names, size_t count, bgi_hf_problems *problems)
{
    for (uint32_t f = 0; f < s->file_count; f++)
        for (size_t i = 0; i < bg_safetensors_count(s->files[f]); i++) {
            const char *name = skip_prefix(bg_safetensors_at(s->files[f], i)->name);

            if (!is_ignored(name) && bsearch(name, names, count, BGI_HF_NAME_BYTES, compare_names) == NULL)
                bgi_hf_problem(problems, "tensor `%.200s` is not of a GPT with this configuration", name);
        }
}

static bg_status check_tensors(const source *s, const bgi_hf_config *config, bgi_hf_problems *problems, bg_error *error)
{
    char name[BGI_HF_NAME_BYTES];
    char *names;
    bg_type type;
    size_t count = 0, held = 0;

    /* A configuration may ask for more layers than memory holds names of; what is missing is said of as many as the
     * files could have. */
    for (uint32_t f = 0; f < s->file_count; f++)
        held += bg_safetensors_count(s->files[f]);
    names = calloc(2 * held + 64, BGI_HF_NAME_BYTES);
    if (names == NULL)
        return bgi_error_memory(error, "names of tensors", (2 * held + 64) * BGI_HF_NAME_BYTES);
    for (int64_t i = 0; count < 2 * held + 64 && bgi_hf_tensor(config, i, name, &type); i++) {
        check_tensor(find_tensor(s, name), name, &type, problems);
        strcpy(names + count++ * BGI_HF_NAME_BYTES, name);
    }
    qsort(names, count, BGI_HF_NAME_BYTES, compare_names);
    check_unknown(s, names, count, problems);
    free(names);
    return BG_OK;
}

/* In which type the weight is kept: float32, unless it is there already in 16 bits. */
static bg_dtype find_kept_dtype(bg_weights *weights, const char *name)
{
    bg_weight weight;

    return bg_weights_find(weights, name, &weight, NULL) == BG_OK && bgi_dtype_is_narrow(weight.type.dtype)
               ? weight.type.dtype
               : BG_FLOAT32;
}

/* In place. */
static void narrow(bg_dtype dtype, float *floats, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const uint16_t half = bgi_narrow_from_float(dtype, floats[i]);

        memcpy((char *)floats + 2 * i, &half, sizeof half);
    }
}

static bg_status set_weights(const source *s, const bgi_hf_config *config, bg_weights *weights, bg_error *error)
{
    char name[BGI_HF_NAME_BYTES], full[PREFIX_BYTES + BGI_HF_NAME_BYTES];
    bg_status status = BG_OK;
    float *scratch = NULL;
    size_t scratch_bytes = 0;
    bg_type type;

    for (int64_t i = 0; status == BG_OK && bgi_hf_tensor(config, i, name, &type); i++) {
        const bg_safetensors_entry *entry = find_tensor(s, name);
        const void *data = entry->data;

        bg_dtype kept;

        strcpy(full, prefix);
        strcat(full, name);
        kept = find_kept_dtype(weights, full);
        if (kept != BG_FLOAT32 || entry->type.dtype != BG_FLOAT32) {
            if (bg_type_size_bytes(&type) > scratch_bytes) {
                free(scratch);
                scratch_bytes = bg_type_size_bytes(&type);
                scratch = malloc(scratch_bytes);
            }
            if (scratch == NULL)
                return bgi_error_memory(error, name, scratch_bytes);
            bgi_safetensors_read_floats(entry, scratch);
            data = scratch;
        }
        if (kept != BG_FLOAT32) {
            narrow(kept, scratch, bg_type_element_count(&type));
            type.dtype = kept;
        }
        status = bg_weights_set(weights, full, &type, data, error);
    }
    free(scratch);
    return status;
}

/* ---- folders ---- */

bg_status bg_gpt_directory_read_options(const char *directory, bg_gpt_options *options, bg_error *error)
{
    bgi_hf_problems problems = {.count = 0};
    bgi_hf_config config;
    bg_status status = bgi_hf_config_load(directory, &config, &problems, error);

    if (status == BG_OK)
        status = bgi_hf_problems_report(&problems, BG_ERROR_UNSUPPORTED, directory, error);
    bgi_text_clear(&problems.text);
    if (status != BG_OK)
        return status;
    options->layers = config.layers;
    options->hidden = config.hidden;
    options->heads = config.heads;
    options->positions = options->sequence_length = config.positions;
    options->vocabulary = config.vocabulary;
    options->dropout = config.dropout;
    return BG_OK;
}

bg_status bg_gpt_directory_load(const char *directory, const bg_gpt_options *options, bg_weights *weights,
                                bg_error *error)
{
    bgi_hf_problems problems = {.count = 0};
    source *s = calloc(1, sizeof *s);
    bgi_hf_config config;
    bg_status status;

    if (s == NULL)
        return bgi_error_memory(error, "a list of files", sizeof *s);
    s->directory = directory;
    BGI_TRY_CLEANUP(bgi_hf_config_load(directory, &config, &problems, error));
    if (options != NULL)
        bgi_hf_config_compare(&config, options, &problems);
    BGI_TRY_CLEANUP(open_files(s, error));
    BGI_TRY_CLEANUP(check_tensors(s, &config, &problems, error));
    BGI_TRY_CLEANUP(bgi_hf_problems_report(&problems, BG_ERROR_SHAPE, directory, error));
    status = set_weights(s, &config, weights, error);
cleanup:
    bgi_text_clear(&problems.text);
    close_source(s);
    return status;
}
