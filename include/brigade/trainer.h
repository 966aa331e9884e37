/*
 * trainer.h: training, validation, test and prediction without loops of your own: epochs, limits, metrics, callbacks.
 * The ideas and the names are those of PyTorch Lightning and its IPUStrategy.
 *
 *     model function --> graph for a task --> plan and session for a task --.
 *                                                                           +-- weights, shared by all tasks
 *     loader, data set or infeed --> batches --> calls of the session ------'
 *
 * A task (fit, validate, test, predict) has a graph of its own, so that each can have other outputs, and options of
 * its own. A *call* is one run of a session: device iterations x accumulation x replicas micro-batches. A *batch* is
 * what the loader gives for a call. A batch that is smaller (the last one of an epoch), or a call of which max_steps
 * leaves less, runs in a plan of its own: the whole updates in it, then one update in micro-batches as large as divide
 * the rest; in inference the rest at once, on one replica.
 *
 * Threads: one thread at a time uses a trainer; callbacks are called in that thread.
 *
 * Errors: as bg_plan_create_training, bg_session_create and bg_session_run; what a callback or the data returned is
 * passed on; BG_ERROR_INVALID, BG_ERROR_MEMORY.
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
    /* Copies of the model: a model over k devices takes devices x k of them. BG_DEVICES_AUTO: 4. Options that are given
     * below decide instead: those of training, else those of inference. */
    uint32_t devices;
    uint32_t device_iterations; /* in training and in inference */
    /* Used as they are, instead of what the trainer would make of the above and of its own options. NULL: made. Samples
     * of a call are those of its groups of replicas (input_group_size): a group has the same data, and counts once in
     * metrics and predictions. With total_devices a task's calls are known when it is compiled. */
    const bg_options *training_options;
    const bg_options *inference_options;
    /* After each task its report (bg_profile_write) goes to FOLDER/training, /validation, /test or /predict, with its
     * trace and its summary as profile.json and profile.txt. A folder implies options.reporting.trace. NULL: what the
     * environment's BRIGADE_PROFILE says, or none. */
    const char *report_folder;
    /* Of options that are made, as in bg_options; and a call has at least as many iterations as the model has devices.
     */
    bool ipu_limits;
} bg_ipu_strategy;

BG_API void bg_ipu_strategy_init(bg_ipu_strategy *options, size_t struct_bytes);
/* 1 device, 1 iteration */
static inline bg_ipu_strategy bg_ipu_strategy_defaults(void)
{
    bg_ipu_strategy options;

    bg_ipu_strategy_init(&options, sizeof options);
    return options;
}
/* "auto" or a number. Errors: BG_ERROR_INVALID. */
BG_API bg_status bg_ipu_strategy_set_devices(bg_ipu_strategy *strategy, const char *text, bg_error *error);
/* The replication factor that holds. That of total_devices is the plan's. */
BG_API uint32_t bg_ipu_strategy_replicas(const bg_ipu_strategy *strategy);
/* The options of a task: given, or the defaults with replicas, iterations, and in training accumulation. */
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
/* "fit", "validate", "test", "predict". */
BG_API const char *bg_trainer_task_name(bg_trainer_task task);

typedef struct bg_trainer bg_trainer;

/* In the order of a run:
 *
 *     fit start { epoch start { batches and, when they are due, validations and checkpoints } epoch end } fit end
 *     batch:      batch start { call end } batch end
 *     validation: validation start { batches } validation end;   test and prediction likewise
 *
 * The validation of a whole epoch comes before its epoch end, the checkpoint after it, with the next epoch's number;
 * that of the end of a fit before both.
 * Events of batches within validations have the task BG_TRAINER_VALIDATE. With an infeed, whose end is seen when it is
 * reached, a last batch start may have no batch end. */
typedef enum bg_trainer_event_kind {
    BG_ON_FIT_START = 0,
    BG_ON_FIT_END,
    BG_ON_EPOCH_START, /* of a fit */
    BG_ON_EPOCH_END,
    BG_ON_BATCH_START,
    BG_ON_CALL_END,  /* one run; a batch that is smaller than a call may take two */
    BG_ON_BATCH_END, /* after all that is made of a batch */
    BG_ON_VALIDATION_START,
    BG_ON_VALIDATION_END,
    BG_ON_TEST_START,
    BG_ON_TEST_END,
    BG_ON_PREDICT_START,
    BG_ON_PREDICT_END,
    BG_ON_SAVE_CHECKPOINT, /* the time to write weights, optimizer state and position (bg_trainer_resume) */
    BG_ON_REFUSED_UPDATE,  /* a loss is not finite, and nothing was updated (numerics.guard_loss): the fit ends after
                              this event with BG_ERROR_NOT_FINITE; the session can be saved */
    BG_TRAINER_EVENT_COUNT
} bg_trainer_event_kind;
/* "on_fit_start" and so on. */
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
    uint64_t update_count; /* in it; 0 in inference */
    uint64_t sample_count; /* in it */
    uint64_t valid_count;  /* of these, the first ones, that are no padding */
    uint64_t run_ns;
    bool is_whole;  /* of the task's own shape; false: what was left of a batch or of max_steps */
    bool canonical; /* values of outputs lie as canonical_reductions says: [iteration][replica][accumulation] */
} bg_trainer_call;
/* The values of an output by name; NULL when the output does not exist. `out_stream` may be NULL. */
BG_API const void *bg_trainer_call_output(const bg_trainer_call *call, const char *name, bg_stream *out_stream);
/* How many of the samples of micro-batch `index` of the call, in the order in which a run returns those of all
 * micro-batches, are no padding. */
BG_API uint64_t bg_trainer_call_valid(const bg_trainer_call *call, uint64_t index);

typedef struct bg_trainer_event {
    bg_trainer_event_kind kind;
    bg_trainer *trainer;
    bg_trainer_task task; /* of the data at hand: VALIDATE for a validation within a fit */
    uint64_t epoch;       /* of the fit, from 0 */
    uint64_t batch;       /* batches done in this pass over the data */
    uint64_t batch_count; /* in all, within the limits; 0: not known */
    uint64_t valid_count; /* BATCH_END: samples in it that are no padding */
    /* REFUSED_UPDATE: the first sample of that update in the batch, or in the call when the data come from an infeed */
    uint64_t sample;
    /* CALL_END; BATCH_END: the last one; REFUSED_UPDATE: that of the update, with the outputs of all its iterations,
     * and in update_count the updates before the refused one */
    const bg_trainer_call *call;
    bool stop; /* set it to end the fit or the pass after this batch */
} bg_trainer_event;

typedef struct bg_trainer_callback {
    /* Called for every event, in the caller's thread, between runs. A failure ends the trainer's function with the
     * error. */
    bg_status (*function)(void *user, bg_trainer_event *event, bg_error *error);
    void *user;
} bg_trainer_callback;

/* ---- the trainer ---- */

/* An input of the graph that is no data: every element of it has this number, for every micro-batch of a call.
 * Lightning repeats a step's plain numbers so. */
typedef enum bg_trainer_argument_kind {
    BG_ARGUMENT_VALUE = 0,
    BG_ARGUMENT_BATCH, /* the number of the batch, from 0 */
    BG_ARGUMENT_EPOCH,
    BG_ARGUMENT_STEP /* weight updates so far */
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
    /* Adds the model to a graph, with the outputs that the task returns. The result is the loss, which only fit needs.
     * A model that fails does so in the graph (bg_graph_check). */
    bg_value (*model)(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch);
    void *model_user;
    bg_optimizer optimizer;                      /* default SGD, 0.01 */
    uint32_t micro_batch[BG_TRAINER_TASK_COUNT]; /* samples; 0: as fit's, of which the default is 1 */
    /* Of options that are made; with training_options given, leave them at their defaults and say it there. */
    uint32_t accumulate_grad_batches; /* micro-batches in an update; default 1 */
    double gradient_clip;             /* bound of the norm of all gradients; 0: none */
    uint64_t seed;                    /* of weights and dropout */
    /* Validation, test and prediction with weights that were neither trained nor set use values made from the seed,
     * instead of being an error: options.numerics.initialize_missing in all plans. */
    bool initialize_missing;
    uint64_t max_epochs;                          /* default 1 */
    uint64_t max_steps;                           /* weight updates of all fits together; 0: no limit */
    uint64_t batch_limits[BG_TRAINER_TASK_COUNT]; /* batches of a pass; default BG_ALL_BATCHES; 0: the task is off */
    /* And the share of a pass's batches, rounded down, as Lightning's limit_train_batches = 0.25 has it; default 1; 0:
     * the task is off. A share of less than one batch, and of data whose number of batches is unknown, is an error. */
    double batch_shares[BG_TRAINER_TASK_COUNT];
    uint64_t validate_epochs;  /* epochs between the validations of a fit; default 1; 0: none */
    uint64_t validate_batches; /* and batches between them; 0: none within epochs */
    /* And after every such share of an epoch's batches (0.25: four times, the last at the end, where validate_epochs
     * adds none then), rounded down to a batch or more; 0: not within epochs. */
    double validate_share;
    uint64_t checkpoint_epochs;  /* BG_ON_SAVE_CHECKPOINT after every so many epochs; 0: never */
    uint64_t checkpoint_batches; /* and batches */
    uint64_t checkpoint_steps;   /* and after the batch in which a multiple of so many weight updates is reached */
    bool checkpoint_end;         /* and when a fit ends, early or not, if it has done updates since the last one */
    /* The learning rate of the call that begins with weight update `step` (from 0), or of that update. Asked before
     * each call of a fit; NULL: as the optimizer has it. */
    double (*learning_rate)(void *user, uint64_t step);
    void *learning_rate_user;
    bool learning_rate_updates; /* learning_rate is asked for each weight update of a call, not for its first alone */
    /* Lightning's "16-mixed": float data for an input of another float type, such as float16, are rounded to it;
     * integers stay what they are. */
    bool cast_batches;
    const bg_trainer_argument *arguments;
    uint32_t argument_count;
    const bg_trainer_callback *callbacks;
    uint32_t callback_count;
    /* A flag that a signal handler may set: what runs ends after the batch at work. NULL: none. */
    const volatile sig_atomic_t *interrupt;
    const bg_score *scores; /* metrics of the tasks that have their outputs; borrowed */
    uint32_t score_count;
    bg_log_function log; /* notes and warnings of the trainer; options that are made get it too. NULL: silent */
    void *log_user;
} bg_trainer_options;

BG_API void bg_trainer_options_init(bg_trainer_options *options, size_t struct_bytes);
static inline bg_trainer_options bg_trainer_options_defaults(void)
{
    bg_trainer_options options;

    bg_trainer_options_init(&options, sizeof options);
    return options;
}

/* What the options point at is borrowed and must outlive the trainer, except the strategy's options and the arguments,
 * which are copied. `weights` NULL: the trainer makes its own. Errors list every problem. */
BG_API bg_status bg_trainer_create(const bg_trainer_options *options, bg_weights *weights, bg_trainer **out,
                                   bg_error *error);
BG_API void bg_trainer_destroy(bg_trainer *trainer);

/* Where a task's samples come from: exactly one of the three. */
typedef struct bg_trainer_data {
    size_t struct_bytes; /* 0, or sizeof(bg_trainer_data): see base.h */
    /* Batches of samples_per_call at most. Shuffling, padding and what becomes of the remainder are the loader's. When
     * validation, test or prediction leave out samples because of it, a warning says how many. */
    bg_loader *loader;
    const bg_dataset *dataset; /* the trainer makes a loader for the time of the pass, */
    /* with these options (NULL: the defaults) but for the size of batches. Validation, test and prediction cover every
     * sample: they leave the last batch smaller whatever drop_last says, unless drop_rest is set. */
    const bg_loader_options *loading;
    bool drop_rest; /* of a data set in validation, test and prediction: follow loading's drop_last */
    /* Not started yet, or by this task. A pass and a fit end with their data. With batch_limits a pass ends there, and
     * the next one continues behind it. Inference leaves out what is less than a call at the end of the data, training
     * what is less than an update. */
    bg_infeed *infeed;
    const char *const *names; /* the input that each tensor is for; a name that the task's graph does not
                                 have is left out. NULL: in the order of the inputs. Not with an infeed */
} bg_trainer_data;

/* Trains; validates on the way when there are `validation` data (may be NULL). Ends after max_epochs, max_steps, an
 * event's stop, bg_trainer_stop or the interrupt flag: all of them BG_OK. */
BG_API bg_status bg_trainer_fit(bg_trainer *trainer, const bg_trainer_data *training, const bg_trainer_data *validation,
                                bg_error *error);
/* One pass in inference with the newest weights. */
BG_API bg_status bg_trainer_validate(bg_trainer *trainer, const bg_trainer_data *data, bg_error *error);
BG_API bg_status bg_trainer_test(bg_trainer *trainer, const bg_trainer_data *data, bg_error *error);
/* As well, and keeps what it returns: arrays[i] (cleared before; the caller's to clear) has output i of the session of
 * the whole pass along its first dimension (bg_stream_shape, FLAT; without padding where the output has a row for each
 * sample). No batch: no rows and no data; a task that is off leaves them as they are. NULL: callbacks look at each
 * call. */
BG_API bg_status bg_trainer_predict(bg_trainer *trainer, const bg_trainer_data *data, bg_array *arrays,
                                    bg_error *error);

/* Compiles a task, which else happens when it begins (and then errors name the task). */
BG_API bg_status bg_trainer_prepare(bg_trainer *trainer, bg_trainer_task task, bg_error *error);
/* NULL before. Its plan: bg_session_plan. */
BG_API bg_session *bg_trainer_session(const bg_trainer *trainer, bg_trainer_task task);
/* The newest session for what is smaller than a call; NULL: there was none. */
BG_API bg_session *bg_trainer_rest_session(const bg_trainer *trainer, bg_trainer_task task);
BG_API bg_weights *bg_trainer_weights(const bg_trainer *trainer);

/* Samples in a call of a task: the size of a loader's batches. 0: options have total_devices; after
 * bg_trainer_prepare it is known. */
BG_API uint64_t bg_trainer_samples_per_call(const bg_trainer *trainer, bg_trainer_task task);
BG_API uint64_t bg_trainer_step(const bg_trainer *trainer);  /* weight updates done */
BG_API uint64_t bg_trainer_epoch(const bg_trainer *trainer); /* epochs done; one that max_steps ends counts */
/* New numbers, from the next call on; the kind must stay. */
BG_API bg_status bg_trainer_set_optimizer(bg_trainer *trainer, const bg_optimizer *optimizer, bg_error *error);
/* Ends what runs after the batch at work; from callbacks. */
BG_API void bg_trainer_stop(bg_trainer *trainer);
/* Whether the last function ended early: by a stop, or by the interrupt flag. */
BG_API bool bg_trainer_was_stopped(const bg_trainer *trainer);
/* The next fit continues at this batch of this epoch, after `step` updates. A checkpoint holds these numbers beside the
 * weights. Needs a loader or a data set when `batch` is above 0. */
BG_API void bg_trainer_resume(bg_trainer *trainer, uint64_t epoch, uint64_t batch, uint64_t step);

/* ---- metrics ---- */

/*
 * Scalar outputs of a task, over its newest pass (epoch), without padding. An integer is a count over a micro-batch
 * (bg_correct_count), a float a mean over one. And the scores of the trainer's options (score.h): `mean` is the score
 * of all that the calls returned, `last` that of the newest call.
 *
 * Padding does not count. Validation, test and prediction leave it out before they run. In a fit a micro-batch of
 * padding alone has no weight; where padding shares a micro-batch with samples, or where an output has mode `sum`, the
 * model must give padding no value of its own, as a cross-entropy does for labels that it ignores (pad_samples).
 */
typedef struct bg_trainer_metric {
    const char *name; /* of the output, or of the score */
    /* Of a mean: over what the calls returned, weighted by samples, as Lightning reduces what is logged on_epoch. Of a
     * count: for a whole micro-batch of the task, of which a smaller one is a share; `sum` / `samples` is the share of
     * samples that count. */
    double mean;
    double last;      /* the same for the newest call that returned something */
    double sum;       /* of a count: all that was counted; of a mean: `mean` times `samples` */
    uint64_t samples; /* that the metric covers */
    bool is_count;
} bg_trainer_metric;
BG_API uint32_t bg_trainer_metric_count(const bg_trainer *trainer, bg_trainer_task task);
BG_API bg_status bg_trainer_metric_at(const bg_trainer *trainer, bg_trainer_task task, uint32_t index,
                                      bg_trainer_metric *out, bg_error *error);
/* By name. Errors: BG_ERROR_NOT_FOUND. */
BG_API bg_status bg_trainer_metric_find(const bg_trainer *trainer, bg_trainer_task task, const char *name,
                                        bg_trainer_metric *out, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
