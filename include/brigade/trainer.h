/*
 * trainer.h: a trainer with the loops of training, validation, test and prediction: epochs, limits, metrics, callbacks.
 * The ideas and the names are those of PyTorch Lightning and its IPUStrategy.
 *
 *     model function --> graph for a task --> plan and session for a task --.
 *                                                                           +-- weights, shared by all tasks
 *     loader, data set or infeed --> batches --> calls of the session ------'
 *
 * Each task (fit, validate, test, predict) has its own graph, so that tasks can have different outputs, and its own
 * options. A *call* is one run of a session: device iterations x accumulation x replicas micro-batches. A *batch* is
 * what the loader returns for a call. A smaller batch (the last one of an epoch), or a call that max_steps shortens,
 * runs in separate plans: first its complete updates, then one update of the remaining samples in equal micro-batches.
 * In inference the remaining samples run at once, on one replica.
 *
 * Threads: one thread at a time uses a trainer; callbacks are called in that thread.
 *
 * Errors: as bg_plan_create_training, bg_session_create and bg_session_run; those of callbacks and of the data;
 * BG_ERROR_INVALID, BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_TRAINER_H
#define BRIGADE_TRAINER_H

#include <brigade/data.h>
#include <brigade/score.h>

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the strategy ---- */

#define BG_DEVICES_AUTO UINT32_MAX

/* Lightning's IPUStrategy. All-zero is not valid: begin with bg_ipu_strategy_defaults. */
typedef struct bg_ipu_strategy {
    size_t struct_bytes; /* set by bg_ipu_strategy_defaults; see base.h */
    /* Number of copies of the model: a model on k devices uses devices x k devices. BG_DEVICES_AUTO: 4. If complete
     * options are given below, the number of copies comes from them: from those of training if they are given,
     * otherwise from those of inference. */
    uint32_t devices;
    uint32_t device_iterations; /* in training and in inference */
    /* Complete options of the plans. NULL: the trainer derives options from the fields above and from
     * bg_trainer_options. If replicas form groups with the same data (input_group_size), a call has samples for each
     * group, and a group counts once in metrics and predictions. With total_devices the number of samples in a task's
     * calls is known only after the task is compiled. */
    const bg_options *training_options;
    const bg_options *inference_options;
    /* After each task the trainer writes its report (bg_profile_write) to FOLDER/training, /validation, /test or
     * /predict, with its trace and its summary as profile.json and profile.txt. A folder implies
     * options.reporting.trace. NULL: the folder in the environment variable BRIGADE_PROFILE, or no report if it is
     * unset. */
    const char *report_folder;
    /* Sets ipu_limits in options that the trainer derives. A call must then also have at least as many device
     * iterations as the model has devices. */
    bool ipu_limits;
} bg_ipu_strategy;

BG_API void bg_ipu_strategy_init(bg_ipu_strategy *options, size_t struct_bytes);
/* Defaults: 1 device, 1 iteration. */
static inline bg_ipu_strategy bg_ipu_strategy_defaults(void)
{
    bg_ipu_strategy options;

    bg_ipu_strategy_init(&options, sizeof options);
    return options;
}
/* Sets `devices` from "auto" or a number. Errors: BG_ERROR_INVALID. */
BG_API bg_status bg_ipu_strategy_set_devices(bg_ipu_strategy *strategy, const char *text, bg_error *error);
/* Returns the number of replicas, `replicas.count` of complete options; with total_devices the plan determines the
 * actual number. */
BG_API uint32_t bg_ipu_strategy_replicas(const bg_ipu_strategy *strategy);
/* Writes the options of training or inference to *out: the given options, or the defaults with the strategy's replicas
 * and iterations and, in training, the accumulation. */
BG_API bg_status bg_ipu_strategy_options(const bg_ipu_strategy *strategy, bool training,
                                         uint32_t accumulate_grad_batches, bg_options *out, bg_error *error);

/* ---- tasks and events ---- */

typedef enum bg_trainer_task {
    BG_TRAINER_FIT = 0,
    BG_TRAINER_VALIDATE,
    BG_TRAINER_TEST,
    BG_TRAINER_PREDICT,
    BG_TRAINER_TASK_COUNT
} bg_trainer_task;
/* Returns "fit", "validate", "test" or "predict". */
BG_API const char *bg_trainer_task_name(bg_trainer_task task);

typedef struct bg_trainer bg_trainer;

/* In the order of a run:
 *
 *     fit start { epoch start { batches and, when they are due, validations and checkpoints } epoch end } fit end
 *     batch:      batch start { call end } batch end
 *     validation: validation start { batches } validation end;   test and prediction in the same way
 *
 * The validation after an epoch (validate_epochs) comes before the event BG_ON_EPOCH_END. The checkpoint after an epoch
 * (checkpoint_epochs) comes after this event, with the next epoch's number. The checkpoint at the end of a fit
 * (checkpoint_end) comes before that validation and that event. Events of batches within validations have the task
 * BG_TRAINER_VALIDATE. The end of an infeed is known only when it is reached, so the last batch start may have no batch
 * end. */
typedef enum bg_trainer_event_kind {
    BG_ON_FIT_START = 0,
    BG_ON_FIT_END,
    BG_ON_EPOCH_START, /* of a fit */
    BG_ON_EPOCH_END,
    BG_ON_BATCH_START,
    BG_ON_CALL_END,  /* after a call; a batch smaller than a call may need two calls */
    BG_ON_BATCH_END, /* after all calls of a batch */
    BG_ON_VALIDATION_START,
    BG_ON_VALIDATION_END,
    BG_ON_TEST_START,
    BG_ON_TEST_END,
    BG_ON_PREDICT_START,
    BG_ON_PREDICT_END,
    BG_ON_SAVE_CHECKPOINT, /* the callback should save weights, optimizer state and position (bg_trainer_resume) */
    BG_ON_REFUSED_UPDATE,  /* options.numerics.guard_loss refused an update, and the run failed */
    BG_TRAINER_EVENT_COUNT
} bg_trainer_event_kind;
/* Returns a name such as "on_fit_start". */
BG_API const char *bg_trainer_event_name(bg_trainer_event_kind kind);

/* One run of a session. */
typedef struct bg_trainer_call {
    const bg_plan *plan;
    bg_session *session;
    void *const *outputs; /* in the session's order; valid until the next call */
    uint32_t micro_batch, device_iterations, gradient_accumulation, replicas;
    uint32_t input_group_size; /* replicas that have the same data */
    bg_grouping input_grouping;
    uint64_t first_update; /* weight updates before this call, over the life of the trainer */
    uint64_t update_count; /* weight updates in this call; 0 in inference */
    uint64_t sample_count; /* samples in this call */
    uint64_t valid_count;  /* number of samples before the padding */
    uint64_t run_ns;
    bool is_whole;  /* a call of the full size; false: a smaller call at the end of a batch or of max_steps */
    bool canonical; /* output values have the order of canonical_reductions: [iteration][replica][accumulation] */
} bg_trainer_call;
/* Returns the values of the output `name`; NULL if the output does not exist. *out_stream (may be NULL) receives its
 * stream. */
BG_API const void *bg_trainer_call_output(const bg_trainer_call *call, const char *name, bg_stream *out_stream);
/* Returns the number of samples without padding in micro-batch `index` of the call, counted in the order in which a run
 * returns micro-batches. */
BG_API uint64_t bg_trainer_call_valid(const bg_trainer_call *call, uint64_t index);

typedef struct bg_trainer_event {
    bg_trainer_event_kind kind;
    bg_trainer *trainer;
    bg_trainer_task task; /* task of the current data: VALIDATE for a validation within a fit */
    uint64_t epoch;       /* number of the epoch in the fit, from 0 */
    uint64_t batch;       /* number of batches done in this pass over the data */
    uint64_t batch_count; /* total number of batches within the limits; 0: unknown */
    uint64_t valid_count; /* BATCH_END: number of samples without padding */
    /* REFUSED_UPDATE: the first sample of the refused update, counted in the batch or, with data from an infeed, in the
     * call */
    uint64_t sample;
    /* CALL_END: the call; BATCH_END: the last call; REFUSED_UPDATE: the call with the refused update; `outputs` has all
     * its iterations, and update_count counts only its updates before the refused one */
    const bg_trainer_call *call;
    bool stop; /* set it to true to end the fit or the pass after this batch */
} bg_trainer_event;

typedef struct bg_trainer_callback {
    /* Called for every event, in the caller's thread, between runs. A failure ends the trainer's function with the
     * error. */
    bg_status (*function)(void *user, bg_trainer_event *event, bg_error *error);
    void *user;
} bg_trainer_callback;

/* ---- the trainer ---- */

/* The number for an input of the graph that does not come from the data. In every micro-batch of a call, every element
 * of the input has this number, as in Lightning for the plain numbers of a step. */
typedef enum bg_trainer_argument_kind {
    BG_ARGUMENT_VALUE = 0,
    BG_ARGUMENT_BATCH, /* the number of the batch, from 0 */
    BG_ARGUMENT_EPOCH,
    BG_ARGUMENT_STEP /* number of weight updates so far */
} bg_trainer_argument_kind;
typedef struct bg_trainer_argument {
    const char *input;
    bg_trainer_argument_kind kind;
    double value;
} bg_trainer_argument;

#define BG_ALL_BATCHES UINT64_MAX

typedef struct bg_trainer_options {
    size_t struct_bytes; /* set by bg_trainer_options_defaults; see base.h */
    bg_ipu_strategy strategy;
    /* Adds the model to a graph, and marks the outputs that the task returns. Returns the loss, which only
     * BG_TRAINER_FIT needs. Errors of the model are those of the graph (bg_graph_check). NULL: add_model is used. */
    bg_value (*model)(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch);
    void *model_user;
    bg_optimizer optimizer;                      /* default SGD, 0.01 */
    uint32_t micro_batch[BG_TRAINER_TASK_COUNT]; /* samples in a micro-batch; 0: as for fit, whose default is 1 */
    /* The next three fields are used in options that the trainer derives. If training_options are given, leave these
     * fields at their defaults. */
    uint32_t accumulate_grad_batches; /* micro-batches in an update; default 1 */
    double gradient_clip;             /* bound of the norm of all gradients; 0: no bound */
    uint64_t seed;                    /* seed of weights and dropout */
    /* true: validation, test and prediction use the seed to initialize weights that were neither trained nor set;
     * false: they fail. Sets options.numerics.initialize_missing in all plans. */
    bool initialize_missing;
    uint64_t max_epochs;                          /* default 1 */
    uint64_t max_steps;                           /* weight updates of all fits together; 0: no limit */
    uint64_t batch_limits[BG_TRAINER_TASK_COUNT]; /* largest number of batches in a pass; default BG_ALL_BATCHES; 0: the
                                                     task is skipped */
    /* Also limits a pass to this share of its batches, rounded down, like Lightning's limit_train_batches = 0.25;
     * default 1; 0: the task is skipped. A share of less than one batch is an error, and so is a share below 1 if the
     * number of batches is unknown. */
    double batch_shares[BG_TRAINER_TASK_COUNT];
    uint64_t validate_epochs;  /* number of epochs between the validations of a fit; default 1; 0: no validation */
    uint64_t validate_batches; /* number of batches between validations; 0: no validation within epochs */
    /* The share of an epoch's batches between validations, rounded down to whole batches, but at least one: with 0.25
     * an epoch of 40 batches is validated every 10 batches. A validation at the epoch's end replaces that of
     * validate_epochs. 0: no validation within epochs. */
    double validate_share;
    uint64_t checkpoint_epochs;  /* number of epochs between BG_ON_SAVE_CHECKPOINT events; 0: never */
    uint64_t checkpoint_batches; /* number of batches between these events; 0: never */
    uint64_t checkpoint_steps; /* the event also comes after each batch in which the number of weight updates reaches a
                                  multiple of this number; 0: never */
    bool checkpoint_end; /* the event also comes when a fit ends, early or not, if there were updates since the last
                            event */
    /* Returns the learning rate of the call whose first weight update is `step` (from 0) or, with
     * learning_rate_updates, of this update. Called before each call of a fit. NULL: the optimizer's learning rate. */
    double (*learning_rate)(void *user, uint64_t step);
    void *learning_rate_user;
    /* learning_rate is called for each weight update of a call; false: only for the first. */
    bool learning_rate_updates;
    /* As with Lightning's "16-mixed", float data are rounded to the type of the input if this is another float type,
     * such as float16; integers do not change. */
    bool cast_batches;
    const bg_trainer_argument *arguments;
    uint32_t argument_count;
    const bg_trainer_callback *callbacks;
    uint32_t callback_count;
    /* A flag that a signal handler may set to a value other than 0: the current task then ends after the current batch.
     * NULL: no flag. */
    const volatile sig_atomic_t *interrupt;
    const bg_score *scores; /* scores, computed for each task that has their outputs; borrowed */
    uint32_t score_count;
    bg_log_function log; /* receives notes and warnings of the trainer, and is the log in options that the trainer
                            derives. NULL: no log */
    void *log_user;
    /* Used instead of `model` in languages whose callbacks cannot return a struct: writes the loss to *out_loss, which
     * is the null value before the call. */
    void (*add_model)(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch, bg_value *out_loss);
} bg_trainer_options;

BG_API void bg_trainer_options_init(bg_trainer_options *options, size_t struct_bytes);
static inline bg_trainer_options bg_trainer_options_defaults(void)
{
    bg_trainer_options options;

    bg_trainer_options_init(&options, sizeof options);
    return options;
}

/* Creates a trainer. Memory that the options point to is borrowed and must outlive the trainer. The strategy's options
 * and the arguments are copied. `weights` NULL: the trainer makes its own. Errors: BG_ERROR_INVALID, with a message
 * that lists every problem; BG_ERROR_MEMORY. */
BG_API bg_status bg_trainer_create(const bg_trainer_options *options, bg_weights *weights, bg_trainer **out,
                                   bg_error *error);
BG_API void bg_trainer_destroy(bg_trainer *trainer);

/* The source of a task's samples: exactly one of loader, dataset and infeed. */
typedef struct bg_trainer_data {
    size_t struct_bytes; /* 0, or sizeof(bg_trainer_data): see base.h */
    /* A loader of batches of at most bg_trainer_samples_per_call samples. The loader decides shuffling, padding and the
     * remainder. If drop_last of the loader leaves out samples in validation, test or prediction, a warning gives their
     * number. */
    bg_loader *loader;
    const bg_dataset *dataset; /* the trainer makes a loader for each pass */
    /* Options of the trainer's loader for `dataset` (NULL: the defaults), except the size of batches. Validation, test
     * and prediction cover every sample, whatever drop_last is, unless drop_rest is set: their last batch may be
     * smaller. */
    const bg_loader_options *loading;
    bool drop_rest; /* loading->drop_last also applies to validation, test and prediction */
    /* An infeed that was not started yet, or that this task started. A pass or a fit ends when the infeed's data end.
     * With batch_limits a pass ends at the limit, and the next pass continues from there. At the end of the data,
     * inference leaves out less than a call, and training leaves out less than an update. */
    bg_infeed *infeed;
    /* The name of the input for each tensor; a tensor whose name the task's graph does not have is left out. NULL: the
     * tensors have the order of the inputs. Must be NULL for an infeed. */
    const char *const *names;
} bg_trainer_data;

/* Trains, and validates during training if `validation` is not NULL. The function ends after max_epochs, max_steps, an
 * event's stop, bg_trainer_stop or the interrupt flag, and returns BG_OK in all these cases. */
BG_API bg_status bg_trainer_fit(bg_trainer *trainer, const bg_trainer_data *training, const bg_trainer_data *validation,
                                bg_error *error);
/* Runs one pass of inference with the newest weights. */
BG_API bg_status bg_trainer_validate(bg_trainer *trainer, const bg_trainer_data *data, bg_error *error);
BG_API bg_status bg_trainer_test(bg_trainer *trainer, const bg_trainer_data *data, bg_error *error);
/* Runs one pass and keeps its outputs: arrays[i] (zeroed before the call; the caller clears it) has output i of the
 * whole pass, joined along the first dimension (bg_stream_shape, BG_STREAM_FLAT; without padding if the output has a
 * row for each sample). If the pass has no batches, the arrays have no rows and no data; a skipped task leaves them
 * unchanged. `arrays` NULL: only callbacks see the outputs. */
BG_API bg_status bg_trainer_predict(bg_trainer *trainer, const bg_trainer_data *data, bg_array *arrays,
                                    bg_error *error);

/* Compiles a task ahead of time; otherwise a task is compiled when it begins. Errors name the task. */
BG_API bg_status bg_trainer_prepare(bg_trainer *trainer, bg_trainer_task task, bg_error *error);
/* Returns the task's session, whose plan bg_session_plan returns; NULL before the task is compiled. */
BG_API bg_session *bg_trainer_session(const bg_trainer *trainer, bg_trainer_task task);
/* Returns the newest session for calls of a smaller size; NULL if no call was smaller. */
BG_API bg_session *bg_trainer_rest_session(const bg_trainer *trainer, bg_trainer_task task);
BG_API bg_weights *bg_trainer_weights(const bg_trainer *trainer);

/* Returns the number of samples in a call of a task, which is the batch size for a loader. With total_devices the
 * number is 0 before bg_trainer_prepare. */
BG_API uint64_t bg_trainer_samples_per_call(const bg_trainer *trainer, bg_trainer_task task);
BG_API uint64_t bg_trainer_step(const bg_trainer *trainer);  /* weight updates done */
BG_API uint64_t bg_trainer_epoch(const bg_trainer *trainer); /* epochs done, including one that max_steps ended */
/* Sets new numbers of the optimizer from the next call on; the kind must not change. */
BG_API bg_status bg_trainer_set_optimizer(bg_trainer *trainer, const bg_optimizer *optimizer, bg_error *error);
/* Ends the current task after the current batch; for use in callbacks. */
BG_API void bg_trainer_stop(bg_trainer *trainer);
/* Whether a stop or the interrupt flag ended the last task early. */
BG_API bool bg_trainer_was_stopped(const bg_trainer *trainer);
/* Lets the next fit continue at this batch of this epoch, after `step` updates. A checkpoint holds these numbers in
 * addition to the weights. If `batch` is above 0, the fit needs a loader or a data set. */
BG_API void bg_trainer_resume(bg_trainer *trainer, uint64_t epoch, uint64_t batch, uint64_t step);

/* ---- metrics ---- */

/*
 * Metrics are computed from the scalar outputs of a task over its newest pass (epoch). An integer output is a count
 * over a micro-batch (bg_correct_count); a float output is a mean over a micro-batch. The trainer's scores (score.h)
 * are metrics too: `mean` is the score over all calls, `last` the score of the newest call.
 *
 * Padding does not count. Validation, test and prediction leave padding out before they run. In a fit, a micro-batch
 * that has only padding has no weight. If a micro-batch has both padding and samples, or if an output has mode `sum`,
 * the model itself must ignore padding, as a cross-entropy does for ignored labels (pad_samples).
 */
typedef struct bg_trainer_metric {
    const char *name; /* name of the output or of the score */
    /* For a mean: the mean over all calls, weighted by samples, as Lightning reduces values that are logged on_epoch.
     * For a count: the mean count in a micro-batch of the task's full size (counts of smaller ones are scaled up);
     * `sum` / `samples` is the share of counted samples. */
    double mean;
    double last;      /* `mean` of only the newest call that returned values */
    double sum;       /* for a count the total; for a mean `mean` times `samples` */
    uint64_t samples; /* number of samples that the metric covers */
    bool is_count;
} bg_trainer_metric;
BG_API uint32_t bg_trainer_metric_count(const bg_trainer *trainer, bg_trainer_task task);
BG_API bg_status bg_trainer_metric_at(const bg_trainer *trainer, bg_trainer_task task, uint32_t index,
                                      bg_trainer_metric *out, bg_error *error);
/* Finds a metric by its name. Errors: BG_ERROR_NOT_FOUND. */
BG_API bg_status bg_trainer_metric_find(const bg_trainer *trainer, bg_trainer_task task, const char *name,
                                        bg_trainer_metric *out, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
