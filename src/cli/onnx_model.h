/*
 * onnx_model.h: declares the parts of `brigade train MODEL.onnx`: options, data, loss and metric of a model from a
 * file. onnx_train.c combines them as a row of the models' table. `brigade infer` and `brigade inspect` use some parts.
 */
#ifndef BGI_CLI_ONNX_MODEL_H
#define BGI_CLI_ONNX_MODEL_H

#include <brigade/data.h>
#include <brigade/onnx.h>
#include <brigade/ops.h>

#include "cli/recipe.h"

/* ---- losses and metrics (onnx_loss.c) ---- */

typedef enum onnx_loss_kind {
    ONNX_LOSS_CLASSES, /* loss of logits and labels */
    ONNX_LOSS_LOGARITHMS,
    ONNX_LOSS_POINTWISE,
    ONNX_LOSS_OUTPUT /* an output of the model is the loss */
} onnx_loss_kind;

typedef struct onnx_loss {
    const char *name;
    onnx_loss_kind kind;
    bg_pointwise_loss_function function;
    double parameter;
} onnx_loss;

/* A label that is ignored, as in PyTorch. */
enum { ONNX_IGNORED_LABEL = -100 };

/* Finds a loss by name; returns NULL if there is none. */
const onnx_loss *onnx_loss_find(const char *name);
/* Whether targets are labels of classes. */
bool onnx_loss_has_labels(const onnx_loss *loss);
/* Whether predictions are probabilities of one class, or their logits. */
bool onnx_loss_is_binary(const onnx_loss *loss);
/* Returns the names of all losses: "cross-entropy, nll, ..." */
const char *onnx_loss_names(void);

typedef enum onnx_metric_kind {
    ONNX_METRIC_SHARE, /* percentage of correct predictions, from a count */
    ONNX_METRIC_MEAN,
    ONNX_METRIC_SCORE /* computed from sums over all samples */
} onnx_metric_kind;

typedef struct onnx_metric {
    const char *name, *label; /* name is used in options, label in output */
    onnx_metric_kind kind;
    bg_score_kind score;
    bg_score_average average;
    enum { ONNX_OF_LABELS, ONNX_OF_NUMBERS, ONNX_OF_SIDES } targets; /* SIDES: labels, or targets that are 0 or 1 */
} onnx_metric;

const onnx_metric *onnx_metric_find(const char *name);

/* ---- settings (onnx_options.c) ---- */

/* Samples for the model's inputs and for the target. */
typedef struct onnx_data {
    bg_dataset *set; /* NULL: no data were given */
    const char *names[BG_DATASET_MAX_TENSORS];
    uint64_t skipped; /* rows that were left out because of missing values */
} onnx_data;

/* The normalization of an input: (x - mean) / deviation for each channel. */
typedef struct onnx_normalization {
    uint32_t count; /* number of channels; 0: the input is not normalized */
    float *values;  /* malloc'ed: the means of all channels, then their deviations */
} onnx_normalization;

typedef struct onnx_settings {
    cli_recipe recipe;
    const char *path; /* path of the model */
    cli_texts inputs, validation, sizes, freeze, unfreeze;
    const char *target, *loss_name, *output, *metric, *normalize, *mode;
    bool skip_incomplete;
    uint64_t block_depth;
    /* Derived from the options above (onnx_open_model, onnx_open_data). */
    bg_onnx *onnx;
    char *size_memory, *made[CLI_LIST_LIMIT]; /* memory to which sizes point */
    bg_onnx_size bound[CLI_LIST_LIMIT];
    uint32_t bound_count;
    bool is_fixed_batch; /* the file fixes the size of a micro-batch */
    uint32_t output_index;
    const onnx_loss *loss;
    const char *target_name; /* name of the target's input in the graph; NULL: none */
    bg_type target_type;     /* type of a sample's target */
    int32_t class_axis;      /* axis of the classes in the output */
    int64_t class_count;     /* number of classes of labels */
    bg_score score;          /* description of a metric that is a score */
    /* By input of the model (NULL before the model is opened), and where they come from. */
    onnx_normalization *normalizations;
    enum { ONNX_BY_MODEL, ONNX_BY_OPTION, ONNX_BY_DATA } normalized_by;
    uint64_t measured_samples; /* BY_DATA: the number of samples that were measured */
    char *normalization_text;  /* malloc'ed: cli_recipe.normalization */
    onnx_data data, test;
    uint64_t sample_count; /* in inference, the number before samples are repeated to fill a batch */
    cli_plan_room rooms[2];
} onnx_settings;

extern const cli_option onnx_train_flags[];
void onnx_set_defaults(void *settings, const char *command);
int onnx_resolve(void *settings, bg_error *error);
void onnx_clear_settings(void *settings);
/* Refuses a precision with 16-bit weights, because weights are set and saved in the file's types. */
bg_status onnx_check_precision(bg_precision precision, bg_error *error);
/* Chooses one device, unless strategy or stages are given. */
void onnx_choose_strategy(onnx_settings *settings);

/* ---- the model (onnx_graph.c) ---- */

/* Opens the file, and processes --size, --output and --batch-size. */
bg_status onnx_open_model(onnx_settings *settings, bg_error *error);
/* Binds a dimension of an input to a size; sizes from --size have precedence. */
bg_status onnx_bind(onnx_settings *settings, const bg_onnx_port *port, uint32_t dim, int64_t size, bg_error *error);
/* Returns the options of a build for micro-batches of `micro_batch` samples. */
bg_onnx_options onnx_build_options(const onnx_settings *settings, int64_t micro_batch);
/* Builds the model to find its types, and destroys the graph; the contents of the file then describe this build. */
bg_status onnx_try(onnx_settings *settings, bg_error *error);
/* Checks that the model can be trained: it has a parameter to train, and is not quantized. */
bg_status onnx_check_trainable(const onnx_settings *settings, bg_error *error);
/* Implements bg_trainer_options.model; `user` is the settings. */
bg_value onnx_model_add(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch);
/* Returns the output name of the chosen metric; NULL if there is no metric. The output name of the loss is "loss". */
const char *onnx_metric_name(const onnx_settings *settings);
/* Returns the row of the chosen metric; NULL: no metric. */
const onnx_metric *onnx_metric_of(const onnx_settings *settings);
/* Whether a higher value of the metric is better. */
bool onnx_metric_rises(const onnx_metric *metric);
/* Returns the number of predictions in a sample, for an accuracy. */
double onnx_rows_per_sample(const onnx_settings *settings);

/* ---- normalization (onnx_normalize.c) ---- */

/* Reads --normalize or, without it, the metadata of the opened model. */
bg_status onnx_read_normalizations(onnx_settings *settings, bg_error *error);
void onnx_clear_normalizations(onnx_settings *settings);
/* Sets the channels of `options`, with which data of the input become those of the model. With --normalize auto, the
 * first data of an input are measured. */
bg_status onnx_find_normalization(onnx_settings *settings, const bg_onnx_port *port, bg_dataset *source,
                                  bg_convert_options *options, bg_error *error);
bool onnx_is_normalized(const onnx_settings *settings);
/* Prints a line for each normalization that was measured or is the model's. */
void onnx_print_normalizations(const onnx_settings *settings);
/* Prints how to run a saved model, or saved weights, if inputs are normalized. */
void onnx_print_advice(const onnx_settings *settings, bool is_model);
/* Sets the metadata with which bg_onnx_save_weights writes the model. */
bg_status onnx_write_normalizations(onnx_settings *settings, bg_error *error);
/* Makes settings->normalization_text: {"x":"0.4,0.3"}. It stays NULL if JSON cannot represent a name, or if the text is
 * too long for a checkpoint. */
bg_status onnx_describe_normalizations(onnx_settings *settings, bg_error *error);

/* ---- data (onnx_data.c) ---- */

/* Opens all data, builds the model for their sizes, and chooses the loss. Without data, only the model and the loss are
 * prepared. */
bg_status onnx_open_data(onnx_settings *settings, bg_error *error);
/* Chooses the loss and the target of a model that was built without data. */
bg_status onnx_choose_loss(onnx_settings *settings, bg_error *error);
/* Opens inputs without a target, for inference, and builds the model. */
bg_status onnx_open_inputs(onnx_settings *settings, bg_error *error);
/* With --skip-incomplete, prints the number of rows left out, in parentheses. */
void onnx_print_skipped(const onnx_settings *settings, const onnx_data *data);
void onnx_close_data(onnx_data *data);

#endif
