/*
 * huggingface.h: folders of GPT-2 models in the layout of Hugging Face's transformers: `config.json` beside
 * `model.safetensors`, or beside `model.safetensors.index.json` and the files that it names.
 *
 * Tensors keep their names and need no transpose, because both libraries have matrices [in, out]. In a file, tensors
 * may be called "transformer.h.0.ln_1.weight" or "h.0.ln_1.weight", and be F32, F16, BF16 or F64. Weights become
 * float32; but a weight that already exists in bfloat16 or float16 keeps its type, and the values are rounded. These
 * tensors are not read: `lm_head.weight`, which is a copy of the embedding, heads for other tasks (`score.*`,
 * `multiple_choice_head.*`), and the masks `attn.bias` and `attn.masked_bias`.
 *
 * Threads: one thread at a time uses the weights (session.h).
 *
 * Errors: BG_ERROR_INVALID, BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED, BG_ERROR_MEMORY.
 * BG_ERROR_SHAPE for tensors that do not fit.
 */
#ifndef BRIGADE_HUGGINGFACE_H
#define BRIGADE_HUGGINGFACE_H

#include <brigade/gpt.h>
#include <brigade/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Reads config.json and sets layers, hidden, heads, positions, vocabulary and dropout (`resid_pdrop`) of `options`, and
 * sequence_length to the number of positions; other options are unchanged. Missing settings get Hugging Face's
 * defaults. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED (a model other than GPT-2, or
 * settings that bg_gpt_build does not support, all of which the message lists), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_gpt_directory_read_options(const char *directory, bg_gpt_options *options, bg_error *error);

/*
 * Sets all weights of the model, under bg_gpt_build's names, which are Hugging Face's. Before anything is set, the
 * configuration is compared with `options` (NULL: not compared) and the tensors with the configuration. The message of
 * BG_ERROR_SHAPE lists every mismatch, and every setting that bg_gpt_build does not support. Further errors: those of
 * bg_gpt_directory_read_options.
 */
BG_API bg_status bg_gpt_directory_load(const char *directory, const bg_gpt_options *options, bg_weights *weights,
                                       bg_error *error);

/*
 * Writes config.json and model.safetensors so that GPT2LMHeadModel.from_pretrained loads them; the folder is created if
 * it is missing. Each file appears complete or not at all, the configuration last; files of these names are replaced.
 * `torch_dtype` in config.json is the type of the weights, or float32 if they have several types. Loading the folder
 * gives bit-identical weights. The end-of-text token in config.json is token 50256, or the last token of a smaller
 * vocabulary. Errors: BG_ERROR_NOT_FOUND (`weights` lacks a tensor), BG_ERROR_SHAPE (a tensor has another shape or
 * type), BG_ERROR_IO, BG_ERROR_MEMORY.
 */
BG_API bg_status bg_gpt_directory_save(const char *directory, const bg_gpt_options *options, bg_weights *weights,
                                       bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
