/*
 * huggingface_read.c: reads the weights of a GPT-2 folder. All files are opened, and every tensor is found and checked,
 * before the first weight is set. Tensors are read directly into the memory of the weights.
 */
#include "models/huggingface.h"

#include <stdlib.h>
#include <string.h>

#include "core/narrow.h"
#include "core/error.h"
#include "core/text.h"
#include "formats/safetensors.h"
#include "formats/safetensors_folder.h"

typedef bgi_safetensors_folder source;

/* ---- tensors ---- */

static const char *const prefix = "transformer.";
enum { PREFIX_BYTES = 12 };

/* Returns a name without the prefix "transformer.", which names have in only one of the two styles. */
static const char *skip_prefix(const char *name)
{
    return strncmp(name, prefix, PREFIX_BYTES) == 0 ? name + PREFIX_BYTES : name;
}

static const bg_safetensors_entry *find_tensor(const source *s, const char *name, const bg_safetensors **out_file)
{
    char prefixed[PREFIX_BYTES + BGI_HF_NAME_BYTES];
    const bg_safetensors_entry *entry = NULL;

    strcpy(prefixed, prefix);
    strcat(prefixed, name);
    for (uint32_t i = 0; entry == NULL && i < s->file_count; i++) {
        *out_file = s->files[i];
        entry = bg_safetensors_find(s->files[i], prefixed);
        if (entry == NULL)
            entry = bg_safetensors_find(s->files[i], name);
    }
    return entry;
}

/* Returns whether a file may have a tensor that is not part of the model: the tied head, heads for other tasks,
 * masks. */
static bool is_ignored(const char *name)
{
    static const char *const heads[] = {"lm_head.", "score.", "multiple_choice_head."};

    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        if (strncmp(name, heads[i], strlen(heads[i])) == 0)
            return true;
    return bgi_text_ends_with(name, ".attn.bias") || bgi_text_ends_with(name, ".attn.masked_bias");
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
        bgi_hf_problem(problems, "tensor `%s` is %s, but the configuration makes it %s", name,
                       strchr(bg_type_text(&shape, given), '['), strchr(bg_type_text(type, wanted), '['));
    if (!bgi_safetensors_is_float(storage))
        bgi_hf_problem(problems, "tensor `%s` has type %s but must have F32, F16, BF16 or F64", name, storage->name);
}

/* Adds a problem for each tensor that is neither ignored nor in the sorted list of `count` names (each
 * BGI_HF_NAME_BYTES). */
static void check_unknown(const source *s, const char *names, size_t count, bgi_hf_problems *problems)
{
    for (uint32_t f = 0; f < s->file_count; f++)
        for (size_t i = 0; i < bg_safetensors_count(s->files[f]); i++) {
            const char *name = skip_prefix(bg_safetensors_at(s->files[f], i)->name);

            if (!is_ignored(name) && bsearch(name, names, count, BGI_HF_NAME_BYTES, compare_names) == NULL)
                bgi_hf_problem(problems, "tensor `%.200s` does not belong to a GPT with this configuration", name);
        }
}

static bg_status check_tensors(const source *s, const bgi_hf_config *config, bgi_hf_problems *problems, bg_error *error)
{
    char name[BGI_HF_NAME_BYTES];
    const bg_safetensors *file;
    char *names;
    bg_type type;
    size_t count = 0, held = 0;

    /* A configuration may request too many layers for a list of all names, so missing tensors are reported only for the
     * number of layers that the files could have. */
    for (uint32_t f = 0; f < s->file_count; f++)
        held += bg_safetensors_count(s->files[f]);
    names = calloc(2 * held + 64, BGI_HF_NAME_BYTES);
    if (names == NULL)
        return bgi_error_memory(error, "names of tensors", (2 * held + 64) * BGI_HF_NAME_BYTES);
    for (int64_t i = 0; count < 2 * held + 64 && bgi_hf_tensor(config, i, name, &type); i++) {
        check_tensor(find_tensor(s, name, &file), name, &type, problems);
        strcpy(names + count++ * BGI_HF_NAME_BYTES, name);
    }
    qsort(names, count, BGI_HF_NAME_BYTES, compare_names);
    check_unknown(s, names, count, problems);
    free(names);
    return BG_OK;
}

/* Returns the type in which the weight is stored: float32, unless the weight already exists in 16 bits. */
static bg_dtype find_kept_dtype(bg_weights *weights, const char *name)
{
    bg_weight weight;

    return bg_weights_find(weights, name, &weight, NULL) == BG_OK && bgi_dtype_is_narrow(weight.type.dtype)
               ? weight.type.dtype
               : BG_FLOAT32;
}

/* A tensor that becomes a weight. */
typedef struct taken {
    const bg_safetensors *file;
    const bg_safetensors_entry *entry;
    bg_dtype dtype;
    int64_t count;
} taken;

/* Writes the tensor to the weight's memory; the callback of bg_weights_fill. */
static bg_status write_tensor(void *user, void *data, bg_error *error)
{
    const taken *t = user;
    uint16_t *halves = data;
    bg_status status;
    float *floats;

    if (t->dtype == BG_FLOAT32)
        return bgi_safetensors_read_floats(t->file, t->entry, data, error);
    floats = malloc((size_t)t->count * sizeof *floats);
    if (floats == NULL)
        return bgi_error_memory(error, t->entry->name, (size_t)t->count * sizeof *floats);
    status = bgi_safetensors_read_floats(t->file, t->entry, floats, error);
    for (int64_t i = 0; status == BG_OK && i < t->count; i++)
        halves[i] = bgi_narrow_from_float(t->dtype, floats[i]);
    free(floats);
    return status;
}

static bg_status set_weights(const source *s, const bgi_hf_config *config, bg_weights *weights, bg_error *error)
{
    char name[BGI_HF_NAME_BYTES], full[PREFIX_BYTES + BGI_HF_NAME_BYTES];
    bg_type type;

    for (int64_t i = 0; bgi_hf_tensor(config, i, name, &type); i++) {
        taken t = {.count = bg_type_element_count(&type)};

        t.entry = find_tensor(s, name, &t.file);
        strcpy(full, prefix);
        strcat(full, name);
        t.dtype = type.dtype = find_kept_dtype(weights, full);
        BGI_TRY(bg_weights_fill(weights, full, &type, write_tensor, &t, error));
    }
    return BG_OK;
}

/* ---- folders ---- */

bg_status bg_gpt_directory_read_options(const char *directory, bg_gpt_options *options, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(directory, "directory", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_gpt_options", "bg_gpt_defaults()", error));

    bgi_hf_problems problems = {.count = 0};
    bgi_hf_config config;
    bg_status status = bgi_hf_config_load(directory, &config, &problems, error);

    if (status == BG_OK)
        status = bgi_hf_problems_report(&problems, BG_ERROR_UNSUPPORTED, directory, error);
    bgi_string_clear(&problems.text);
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
    bg_error_clear(error);
    BGI_TRY(bgi_require(directory, "directory", __func__, error));
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_gpt_options", "bg_gpt_defaults()", error));

    bgi_hf_problems problems = {.count = 0};
    source *s = NULL;
    bgi_hf_config config;
    bg_status status;

    BGI_TRY_CLEANUP(bgi_hf_config_load(directory, &config, &problems, error));
    if (options != NULL)
        bgi_hf_config_compare(&config, options, &problems);
    BGI_TRY_CLEANUP(bgi_safetensors_folder_open(directory, &s, error));
    BGI_TRY_CLEANUP(check_tensors(s, &config, &problems, error));
    BGI_TRY_CLEANUP(bgi_hf_problems_report(&problems, BG_ERROR_SHAPE, directory, error));
    status = set_weights(s, &config, weights, error);
cleanup:
    bgi_string_clear(&problems.text);
    bgi_safetensors_folder_close(s);
    return status;
}
