/*
 * mnist.h: the parts of `brigade mnist`: its configuration, its data, its model, the log, the progress line, and what
 * it does at the trainer's events. mnist.c puts them together as a row of the models' table.
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

/* What --config came to. Without one all is zero. */
typedef struct mnist_ipu {
    bg_ipu_options training, test;
} mnist_ipu;

typedef struct mnist_config {
    cli_recipe recipe;                 /* its command: "mnist" or "plan" */
    const char *ipu_name, *ipu_update; /* --config, --config-update; NULL: none */
    uint64_t test_batch_size;
    const char *costs_path;
    bool rounds_if_16_bits; /* as --config always says: with 16 bits to round, by chance */
    const char *dtype, *weight_type;
    const char *data_dir;
    bool download;
    const char *mirror;     /* NULL: public ones */
    bg_costs costs;         /* of the training's stages (mnist_costs_find); empty: a model of them */
    mnist_ipu ipu;          /* mnist_ipu_resolve */
    cli_plan_room rooms[2]; /* of the training and of the test */
} mnist_config;

/* The command's options, for cli_table_make. */
extern const cli_option mnist_flags[];

mnist_config mnist_config_defaults(void);
/* Costs and what --config came to. */
void mnist_config_clear(mnist_config *config);

/* Reads --config and --config-update, if there are any, into the options that they decide. Returns the exit code:
 * CLI_USAGE for a flag that says otherwise. Clear the configuration in any case. (mnist_ipu.c) */
int mnist_ipu_resolve(mnist_config *config, bg_error *error);
/* Whether the optimizer's state is in a list of kinds of tensors. */
bool mnist_config_lists_state(const char *list);

/* Reads $BRIGADE_OPTIONS and --options: what they say holds over the command line's other options. */
bg_status mnist_config_read_options(mnist_config *config, bg_error *error);

/* What one option's range cannot say: options that do not go together. */
bg_status mnist_config_check(const mnist_config *config, bg_error *error);

/* Whether the data are enough for one training call. */
bg_status mnist_config_check_data(const mnist_config *config, uint64_t train_count, bg_error *error);

/* What becomes of the images after the last whole call of an epoch. */
typedef enum mnist_last_batch { MNIST_LAST_DROP, MNIST_LAST_SMALLER, MNIST_LAST_PAD } mnist_last_batch;
mnist_last_batch mnist_config_last_batch(const mnist_config *config);
/* The label that the loss ignores: of images that were made to fill a batch. */
enum { MNIST_PAD_LABEL = 255 };

/* Strategy, stages, memory, gradients and the like. Warnings go to stderr. The options point into `room`. The
 * configuration has been checked. */
bg_options mnist_plan_options(const mnist_config *config, bool training, cli_plan_room *room);

uint64_t mnist_test_replicas(const mnist_config *config);
/* Micro-batches of each replica in a test call: as many as a training call has, or as --config says. */
uint64_t mnist_wanted_test_iterations(const mnist_config *config);
/* The same, or what the images are enough for (0: not even one). */
uint64_t mnist_test_iterations(const mnist_config *config, uint64_t test_count);

/* ---- data (mnist_data.c) ---- */

typedef struct mnist_data {
    bg_image_set train, test;
    bg_dataset *train_set, *test_set;
    bool is_generated;
} mnist_data;

/* MNIST from --data-dir, $BRIGADE_DATA or data; downloaded if asked; else generated digits. */
bg_status mnist_data_open(const mnist_config *config, mnist_data *out, bg_error *error);
void mnist_data_close(mnist_data *data);

/* ---- the network as a model (mnist_model.c) ---- */

/* What a call takes and returns. */
typedef struct mnist_shape {
    bool training;
    uint64_t micro_batch;
    uint64_t device_iterations;
    uint64_t gradient_accumulation;
    uint64_t replicas;
    bg_output_mode output_mode;
    uint64_t output_period; /* EVERY_N */
    bool logs_all;          /* loss and correct of every micro-batch too */
    bool logs_norm;         /* and the norm of the gradients of every update */
    bool logs_scale;        /* and the automatic scale of the loss */
} mnist_shape;

/* What `config` says of training, and of the test, whose device iterations are 0 when there are not images enough. */
mnist_shape mnist_training_shape(const mnist_config *config);
mnist_shape mnist_test_shape(const mnist_config *config, uint64_t test_count);

/* The weights as safetensors, or the network that gives logits as ONNX, by the ending of the file's name. */
bg_status mnist_model_save(const mnist_config *config, bg_session *session, const char *path, bg_error *error);
/* bg_trainer_options.model; `user` is the configuration. */
bg_value mnist_model_add(void *user, bg_graph *graph, bg_trainer_task stage, int64_t micro_batch);
/* Of a plan in this shape. They point into `room` and `config`. */
bg_options mnist_shape_options(const mnist_config *config, const mnist_shape *shape, cli_plan_room *room);
/* The network for training or test, compiled. */
bg_status mnist_plan_create(const mnist_config *config, const mnist_shape *shape, bg_plan **out, bg_error *error);

/* Whether the options of the training are possible by themselves, whatever the network: what they say wrong is a
 * mistake on the command line. */
bg_status mnist_plan_check(const mnist_config *config, bg_error *error);

/* With --schedule auto: the stages' costs from the --costs file; where there is none they are measured on zeros, in the
 * shapes of the training, when `may_run`, and kept in the file. Clear config->costs with bg_costs_clear. */
bg_status mnist_costs_find(mnist_config *config, bool may_run, bg_error *error);

/* What the outputs of a training call cover: images (0: only padding), the mean loss and the share of right answers in
 * per cent. */
typedef struct mnist_score {
    uint64_t image_count;
    double loss;
    double accuracy;
} mnist_score;
mnist_score mnist_call_score(const mnist_config *config, const bg_trainer_call *call);
/* Right answers that the call's outputs tell. */
uint64_t mnist_call_correct(const bg_trainer_call *call);
/* The first loss that is not finite, and the updates (from 1) of which one has it; else 0, and they stay as they are.
 * Modes that return less than every loss tell it for a part of the call. */
double mnist_call_bad_loss(const mnist_config *config, const bg_trainer_call *call, uint64_t *out_first,
                           uint64_t *out_last);

/* ---- the log (mnist_log.c) ---- */

/* Opens the file and writes the first line: the configuration as it came out, versions, data. Without a log path
 * nothing happens. `continues`: behind the lines of a file that is there. */
bg_status mnist_log_open(cli_log *log, const mnist_config *config, const char *save_path, const mnist_data *data,
                         const bg_plan *plan, const bg_session *session, bool continues,
                         const volatile sig_atomic_t *stop, bg_error *error);
/* One line for each weight update of the call; `epoch` counts from 1. The first failure is kept in log->failure and
 * ends the log. */
void mnist_log_call(cli_log *log, const bg_trainer_call *call, uint64_t epoch);

/* ---- a run (mnist.c), its events (mnist_phases.c) ---- */

typedef struct mnist_test_result {
    uint64_t images, correct;
    double accuracy_sum; /* of the whole calls, in per cent */
} mnist_test_result;

/* The state of a training. */
typedef struct mnist_run {
    cli_run common;
    mnist_data data;
    mnist_score score; /* the newest of the epoch */
    mnist_test_result test;
} mnist_run;

/* What the tensors of a batch are for. */
extern const char *const mnist_inputs[];

/* A cli_model's. */
void mnist_load(const cli_training *training, bg_loader_options *out);
bg_status mnist_on_event(cli_training *training, bg_trainer_event *event, bg_error *error);
/* Whether the plan of a test that --config places for itself can be made: better known before the training. */
bg_status mnist_test_check(const mnist_config *config, const mnist_data *data, bg_error *error);
/* Options of the test's plan; its micro-batch. */
bg_options mnist_test_options(mnist_config *config, const mnist_data *data, uint32_t *out_micro_batch);
/* Prints progress and accuracy. Nothing is printed after a signal. */
bg_status mnist_test(cli_training *training, bg_error *error);

#endif
