/*
 * gpt_config.h: declares the configuration of a GPT training run as a tree of named fields. Defaults are overridden by
 * a preset or a file, and these by single values. The tree has names, types and rules between values; other files make
 * a run from it.
 *
 * A configuration does not store derived values (gradient accumulation, devices, the learning rate of a step);
 * functions compute them.
 */
#ifndef BGI_CONFIG_GPT_CONFIG_H
#define BGI_CONFIG_GPT_CONFIG_H

#include <brigade/options.h>

#include <jansson.h>

enum { BGI_GPT_MOST_PROPORTIONS = 16 };

typedef struct bgi_gpt_config {
    int64_t layers, hidden_size, sequence_length, seed, vocab_size, max_positional_length, heads;
    bool eval;
    double dropout_prob;
    const char *precision, *weights; /* weights: a type, or "precision" (bgi_gpt_config_weights) */
    int64_t steps, global_batch_size;
    bool stochastic_rounding;
    const char *optimizer;
    double learning_rate, warmup_proportion;
    bool constant;
    const char *decay;
    double beta1, beta2, epsilon, weight_decay, momentum, velocity_scaling, alpha;
    bool combined, centered, tf_variant;
    double dampening, max_weight_norm;
    bool nesterov, bias_correction;
    double gradient_clipping;
    const json_t *input_files; /* an array of strings */
    int64_t n_samples;         /* 0: all */
    int64_t sample_stride;     /* tokens from the start of a sample to that of the next; 0: sequence_length */
    int64_t micro_batch_size, data_parallel, tensor_parallel_1, tensor_parallel_2, device_iterations, io_tiles;
    const json_t *available_memory_proportion; /* an array of numbers */
    double loss_scaling;
    bool auto_loss_scaling;
    int64_t attention_serialization;
    bool test_mode;
    const char *load, *save, *memmap_dir; /* NULL: none */
    int64_t checkpoint_steps, max_checkpoints;
    json_t *kept; /* owns the values that the pointers above point into */
} bgi_gpt_config;

/* Sets the defaults of the fields. The result must be cleared with bgi_gpt_config_clear, also after errors. */
bg_status bgi_gpt_config_init(bgi_gpt_config *config, bg_error *error);
void bgi_gpt_config_clear(bgi_gpt_config *config);

/* Reads a YAML or JSON file, whose values replace the existing ones. Errors name the position, the key and the allowed
 * values, or the nearest known key if the key is unknown. */
bg_status bgi_gpt_config_load(bgi_gpt_config *config, const char *path, bg_error *error);
/* Reads values from text; error messages begin with `name`. */
bg_status bgi_gpt_config_parse_yaml(bgi_gpt_config *config, const char *text, const char *name, bg_error *error);

/* Sets a field, as in "model.layers=4". The last word of the path is enough if only one field has it: "layers=4". */
bg_status bgi_gpt_config_set(bgi_gpt_config *config, const char *assignment, bg_error *error);
/* The kind of a key's value, if bgi_gpt_config_set accepts the key, which is a path or its last word. */
typedef enum bgi_gpt_key {
    BGI_GPT_KEY_NONE = 0, /* the key does not exist */
    BGI_GPT_KEY_VALUE,
    BGI_GPT_KEY_NULLABLE, /* a value, or null */
    BGI_GPT_KEY_FLAG,
    BGI_GPT_KEY_LIST, /* a list of numbers */
    BGI_GPT_KEY_FILES
} bgi_gpt_key;
bgi_gpt_key bgi_gpt_config_find_key(const char *key);

/* Whether execution.available_memory_proportion differs from the example's default. */
bool bgi_gpt_config_has_proportions(const bgi_gpt_config *config);

/* Checks rules between values, and reports all violations in one line. */
bg_status bgi_gpt_config_check(const bgi_gpt_config *config, bg_error *error);

/* Prints the whole tree as YAML from which the same values are read. */
bg_status bgi_gpt_config_print(const bgi_gpt_config *config, char **out_text, bg_error *error);

/* Returns the element type of stored weights: model.weights, or the precision if model.weights is "precision". */
bg_dtype bgi_gpt_config_weights(const bgi_gpt_config *config);

/* The following functions need a configuration that was checked. */
uint64_t bgi_gpt_config_accumulation(const bgi_gpt_config *config); /* micro-batches of an update on each replica */
uint64_t bgi_gpt_config_devices(const bgi_gpt_config *config);      /* data x tensor 1 x tensor 2, as in the example */
/* Makes the optimizer with its settings and the rate of the first update. Biases and norms have no weight decay. */
bg_status bgi_gpt_config_optimizer(const bgi_gpt_config *config, bg_optimizer *out, bg_error *error);
/* Returns the learning rate of the next update after `done` updates. Unless it is constant, it rises from 1e-7 during
 * the warm-up, then falls to 1e-7. */
double bgi_gpt_config_learning_rate(const bgi_gpt_config *config, uint64_t done);

#endif
