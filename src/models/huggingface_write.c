/*
 * huggingface_write.c: writes a GPT-2 folder like transformers' save_pretrained. Weights are written before the
 * configuration, so that a folder with a new configuration also has the new weights.
 */
#include "models/huggingface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/safetensors.h>

#include "core/error.h"
#include "core/file.h"
#include "core/narrow.h"
#include "formats/safetensors_folder.h"

enum { FULL_NAME_BYTES = BGI_HF_NAME_BYTES + 16 };

/* Finds tensor `index` of the model among the weights; *found is false past the last one. */
static bg_status find_weight(const bgi_hf_config *config, int64_t index, bg_weights *weights,
                             char name[FULL_NAME_BYTES], bg_weight *out, bool *found, bg_error *error)
{
    char suffix[BGI_HF_NAME_BYTES], have[BG_TYPE_TEXT_BYTES], wanted[BG_TYPE_TEXT_BYTES];
    bg_type type;

    *found = bgi_hf_tensor(config, index, suffix, &type);
    if (!*found)
        return BG_OK;
    snprintf(name, FULL_NAME_BYTES, "transformer.%s", suffix);
    BGI_TRY(bg_weights_find(weights, name, out, error));
    if (bgi_dtype_is_narrow(out->type.dtype))
        type.dtype = out->type.dtype;
    if (!bg_type_equal(&out->type, &type))
        return bg_error_set(error, BG_ERROR_SHAPE, "weight `%s` is %s but must be %s for this model", name,
                            bg_type_text(&out->type, have), bg_type_text(&type, wanted));
    return BG_OK;
}

static bg_status fetch(void *user, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    bg_weight weight;

    BGI_TRY(bg_weights_find(user, entry->name, &weight, error));
    *out_data = weight.data;
    return BG_OK;
}

/* Writes the tensors. *out_dtype is the type of all tensors, or float32 if their types differ, because float32
 * represents every value of the other types. */
static bg_status save_model(const char *directory, const bgi_hf_config *config, bg_weights *weights,
                            bg_dtype *out_dtype, bg_error *error)
{
    /* transformers refuses a file that does not name the framework of its tensors. */
    const bg_safetensors_metadata metadata[] = {{.key = "format", .value = "pt"}};
    const uint32_t limit = bg_weights_count(weights);
    bg_safetensors_entry *entries = calloc((size_t)limit + 1, sizeof *entries);
    char *path = bgi_path_join(directory, BGI_SAFETENSORS_MODEL);
    char name[FULL_NAME_BYTES];
    bg_status status = BG_OK;
    bg_weight weight;
    size_t count = 0;

    if (entries == NULL || path == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a list of weights", ((size_t)limit + 1) * sizeof *entries));
    for (int64_t i = 0;; i++) {
        bool found = false;
        BGI_TRY_CLEANUP(find_weight(config, i, weights, name, &weight, &found, error));
        if (!found)
            break;
        *out_dtype = count == 0 || *out_dtype == weight.type.dtype ? weight.type.dtype : BG_FLOAT32;
        entries[count++] = (bg_safetensors_entry){.name = weight.name, .type = weight.type};
    }
    status = bg_safetensors_write_fetched(path, entries, count, metadata, 1, fetch, weights, error);
cleanup:
    free(path);
    free(entries);
    return status;
}

bg_status bg_gpt_directory_save(const char *directory, const bg_gpt_options *options, bg_weights *weights,
                                bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(directory, "directory", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_gpt_options", "bg_gpt_defaults()", error));

    const bgi_hf_config config = {.vocabulary = options->vocabulary,
                                  .positions = options->positions,
                                  .hidden = options->hidden,
                                  .layers = options->layers,
                                  .heads = options->heads};
    bg_dtype dtype = BG_FLOAT32;

    BGI_TRY(bgi_folder_create(directory, error));
    BGI_TRY(save_model(directory, &config, weights, &dtype, error));
    return bgi_hf_config_save(directory, options, dtype, error);
}
