/*
 * huggingface.h: reads the configuration of a GPT-2 folder and lists its tensors, for the files that read and write
 * such folders and for the fuzz target.
 */
#ifndef BGI_MODELS_HUGGINGFACE_H
#define BGI_MODELS_HUGGINGFACE_H

#include <brigade/huggingface.h>

#include "core/text.h"

#define BGI_HF_CONFIG "config.json"

typedef struct bgi_hf_config {
    int64_t vocabulary, positions, hidden, layers, heads;
    double dropout;
} bgi_hf_config;

/* Collects all problems for one error. A zeroed list is empty. */
typedef struct bgi_hf_problems {
    bgi_string text;
    unsigned count;
} bgi_hf_problems;
void bgi_hf_problem(bgi_hf_problems *problems, const char *format, ...) BG_PRINTF(2, 3);
/* Reports all problems in one error; returns BG_OK without problems. Empties the list. */
bg_status bgi_hf_problems_report(bgi_hf_problems *problems, bg_status status, const char *where, bg_error *error);

/* Reads a configuration. Error messages begin with `name`; settings that bg_gpt_build does not support become
 * problems. */
bg_status bgi_hf_config_parse(const char *name, const char *text, size_t size_bytes, bgi_hf_config *out,
                              bgi_hf_problems *problems, bg_error *error);
bg_status bgi_hf_config_load(const char *directory, bgi_hf_config *out, bgi_hf_problems *problems, bg_error *error);
void bgi_hf_config_compare(const bgi_hf_config *config, const bg_gpt_options *options, bgi_hf_problems *problems);
/* Writes config.json; `dtype` is the type of the model's tensors. */
bg_status bgi_hf_config_save(const char *directory, const bg_gpt_options *options, bg_dtype dtype, bg_error *error);

/* Finds the name (without "transformer.") and the shape of tensor `index` of the model; returns false past the last
 * tensor. */
enum { BGI_HF_NAME_BYTES = 64 };
bool bgi_hf_tensor(const bgi_hf_config *config, int64_t index, char name[BGI_HF_NAME_BYTES], bg_type *type);

#endif
