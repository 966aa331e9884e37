/*
 * mnist.h: declares the parts of `brigade mnist`: its configuration, its data, its model, the log, the progress line,
 * and its reactions to the trainer's events. mnist.c combines them as a row of the models' table.
 */
#ifndef BGI_CLI_MNIST_H
#define BGI_CLI_MNIST_H

#include <brigade/config.h>
#include <brigade/data.h>
#include <brigade/convnet.h>
#include <brigade/profile.h>
#include <brigade/rate.h>
#include <brigade/trainer.h>

#include "cli/model.h"
#include "cli/recipe.h"

/* ---- configuration (mnist_config.c) ---- */

/* The result of --config; all zero if there is no --config. */
typedef struct mnist_ipu {
    bg_ipu_options training, test;
} mnist_ipu;

typedef struct mnist_config {
    cli_recipe recipe;                 /* recipe.command is "mnist" or "plan" */
    const char *ipu_name, *ipu_update; /* --config, --config-update; NULL: none */
    uint64_t test_batch_size;
    const char *costs_path;
    bool rounds_if_16_bits; /* --config requests stochastic rounding if there are 16-bit values */
    const char *dtype, *weight_type;
    const char *data_dir;
    bool download;
    const char *mirror;     /* NULL: public mirrors */
    bg_costs costs;         /* measured costs of the training stages (mnist_costs_find); if empty, they are estimated */
    mnist_ipu ipu;          /* set by mnist_ipu_resolve */
    cli_plan_room rooms[2]; /* memory for the options of the training and of the test */
} mnist_config;

/* The command's options, for cli_table_make. */
extern const cli_option mnist_flags[];

mnist_config mnist_config_defaults(void);
/* Frees costs, the result of --config, and the options by name. */
void mnist_config_clear(mnist_config *config);

/* Sets the options that --config and --config-update determine, if given. Returns the exit code: CLI_USAGE for a
 * contradicting flag. The configuration must be cleared also after an error. (mnist_ipu.c) */
int mnist_ipu_resolve(mnist_config *config, bg_error *error);
/* Whether a list of kinds of tensors contains the optimizer's state. */
bool mnist_config_lists_state(const char *list);

/* Reads $BRIGADE_OPTIONS and --options, which override the command line's other options. */
bg_status mnist_config_read_options(mnist_config *config, bg_error *error);

/* Checks rules between options. */
bg_status mnist_config_check(const mnist_config *config, bg_error *error);

/* Checks that there are enough images for one training call. */
bg_status mnist_config_check_data(const mnist_config *config, uint64_t train_count, bg_error *error);

/* How the images after the last whole call of an epoch are handled. */
typedef enum mnist_last_batch { MNIST_LAST_DROP, MNIST_LAST_SMALLER, MNIST_LAST_PAD } mnist_last_batch;
mnist_last_batch mnist_config_last_batch(const mnist_config *config);
/* The label that the loss ignores, for images that were added to fill a batch. */
enum { MNIST_PAD_LABEL = 255 };

/* Returns the options of the training plan: strategy, stages, memory, gradients and so on. Warnings go to stderr. The
 * options point into `room`. The configuration must have been checked. */
bg_options mnist_plan_options(const mnist_config *config, bool training, cli_plan_room *room);

uint64_t mnist_test_replicas(const mnist_config *config);
/* Returns the number of micro-batches of each replica in a test call: that of a training call, or what --config
 * requests. */
uint64_t mnist_wanted_test_iterations(const mnist_config *config);
/* Returns mnist_wanted_test_iterations, limited by the number of images; 0 if the images do not fill one micro-batch of
 * each replica. */
uint64_t mnist_test_iterations(const mnist_config *config, uint64_t test_count);

/* ---- data (mnist_data.c) ---- */

typedef struct mnist_data {
    bg_image_set train, test;
    bg_dataset *train_set, *test_set;
    bool is_generated;
} mnist_data;

/* Opens MNIST from --data-dir, $BRIGADE_DATA or data; downloads it on request; otherwise generates digits. */
bg_status mnist_data_open(const mnist_config *config, mnist_data *out, bg_error *error);
void mnist_data_close(mnist_data *data);

/* ---- the network as a model (mnist_model.c) ---- */

/* The inputs and outputs of a call. */
typedef struct mnist_shape {
    bool training;
    uint64_t micro_batch;
    uint64_t device_iterations;
    uint64_t gradient_accumulation;
    uint64_t replicas;
    bg_output_mode output_mode;
    uint64_t output_period; /* only for BG_OUTPUT_EVERY_N */
    bool logs_all;          /* also returns loss and correct count of every micro-batch */
    bool logs_norm;         /* also returns the gradient norm of every update */
    bool logs_scale;        /* also returns the automatic loss scale */
} mnist_shape;

/* Return the shapes of training and test calls. The device iterations of the test are 0 if there are too few images. */
mnist_shape mnist_training_shape(const mnist_config *config);
mnist_shape mnist_test_shape(const mnist_config *config, uint64_t test_count);

/* Saves the weights as safetensors, or the network that gives logits as ONNX, depending on the ending of the file's
 * name. */
bg_status mnist_model_save(const mnist_config *config, bg_session *session, const char *path, bg_error *error);
/* Implements bg_trainer_options.model; `user` is the configuration. */
bg_value mnist_model_add(void *user, bg_graph *graph, bg_trainer_task stage, int64_t micro_batch);
/* Returns the options of a plan in this shape. They point into `room` and `config`. */
bg_options mnist_shape_options(const mnist_config *config, const mnist_shape *shape, cli_plan_room *room);
/* Builds and compiles the network for training or test. */
bg_status mnist_plan_create(const mnist_config *config, const mnist_shape *shape, bg_plan **out, bg_error *error);

/* Checks that the options of the training are valid for at least one network. An error means that the command line is
 * wrong. */
bg_status mnist_plan_check(const mnist_config *config, bg_error *error);

/* With --schedule auto, reads the stages' costs from the --costs file. If the file does not exist and `may_run` is
 * true, measures the costs on zeros in the training's shapes, and writes the file. config->costs must be cleared with
 * bg_costs_clear. */
bg_status mnist_costs_find(mnist_config *config, bool may_run, bg_error *error);

/* The number of images that the outputs of a training call cover (0 if only padding), the mean loss, and the accuracy
 * in percent. */
typedef struct mnist_score {
    uint64_t image_count;
    double loss;
    double accuracy;
} mnist_score;
mnist_score mnist_call_score(const mnist_config *config, const bg_trainer_call *call);
/* Returns the number of correct predictions in the call's outputs. */
uint64_t mnist_call_correct(const bg_trainer_call *call);
/* Returns the first loss that is not finite, and sets *out_first and *out_last to the first and the last update
 * (counted from 1) to which it may belong. Returns 0 if all losses are finite. If the output mode does not return every
 * loss, only the returned ones are checked. */
double mnist_call_bad_loss(const mnist_config *config, const bg_trainer_call *call, uint64_t *out_first,
                           uint64_t *out_last);

/* ---- the log (mnist_log.c) ---- */

/* Opens the file and writes the first line, which has the final configuration, the versions and the data. Without a log
 * path, no log is opened. `continues` appends to an existing file. */
bg_status mnist_log_open(cli_log *log, const mnist_config *config, const char *save_path, const mnist_data *data,
                         const bg_plan *plan, const bg_session *session, bool continues,
                         const volatile sig_atomic_t *stop, bg_error *error);
/* Writes one line for each weight update of the call; `epoch` counts from 1. The first failure is stored in
 * log->failure and ends the log. */
void mnist_log_call(cli_log *log, const bg_trainer_call *call, uint64_t epoch);

/* ---- a run (mnist.c), its events (mnist_phases.c) ---- */

typedef struct mnist_test_result {
    uint64_t images, correct;
    double accuracy_sum; /* sum of the accuracies of whole calls, in percent */
} mnist_test_result;

/* The state of a training run. */
typedef struct mnist_run {
    cli_run common;
    mnist_data data;
    mnist_score score; /* score of the newest call of the epoch */
    mnist_test_result test;
} mnist_run;

/* The names of the tensors of a batch. */
extern const char *const mnist_inputs[];

/* The `load` and `on_event` functions of the cli_model. */
void mnist_load(const cli_training *training, bg_loader_options *out);
bg_status mnist_on_event(cli_training *training, bg_trainer_event *event, bg_error *error);
/* Checks before training that the test's plan can be made, if --config places the layers of the test separately. */
bg_status mnist_test_check(const mnist_config *config, const mnist_data *data, bg_error *error);
/* Returns the options of the test's plan, and the size of its micro-batch. */
bg_options mnist_test_options(mnist_config *config, const mnist_data *data, uint32_t *out_micro_batch);
/* Tests the network, and prints progress and accuracy. Prints nothing after a signal. */
bg_status mnist_test(cli_training *training, bg_error *error);

#endif
