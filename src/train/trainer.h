/*
 * trainer.h: declares what the files of the trainer share: compiled tasks, sources of batches, metrics, reports, and
 * the trainer itself. Of plans, sessions and loaders, the trainer uses only the public interface.
 */
#ifndef BGI_TRAIN_TRAINER_H
#define BGI_TRAIN_TRAINER_H

#include <brigade/trainer.h>

#include <stdatomic.h>

#include "core/arena.h"
#include "core/text.h"

enum { BGI_MOST_COPIES = 65536 };

/* ---- a compiled model (compiled.c) ---- */

/* The size of one call. */
typedef struct bgi_call_shape {
    uint32_t micro_batch, iterations, accumulation, replicas;
    uint32_t group; /* the number of replicas that get the same data */
    bool canonical; /* in training, options.numerics.canonical_reductions */
} bgi_call_shape;

typedef struct bgi_compiled_input {
    bg_stream stream;
    uint32_t tensor;   /* index among the tensors of a batch, or UINT32_MAX */
    uint32_t argument; /* index among the arguments of the trainer's options, or UINT32_MAX */
    void *own;         /* memory for an argument, or for converted data; NULL: the input reads the batch */
    bool is_cast;
    bg_dtype sample_dtype; /* element type of the batch's tensor */
} bgi_compiled_input;

typedef struct bgi_compiled_output {
    bg_stream stream;
    bg_output_mode mode; /* never DEFAULT */
    uint32_t period;
    void *data;
} bgi_compiled_output;

/* A zeroed struct is empty. */
typedef struct bgi_compiled {
    bgi_call_shape shape;
    bool training;
    bg_plan *plan;
    bg_session *session;
    uint32_t input_count, output_count;
    bgi_compiled_input *inputs;
    bgi_compiled_output *outputs;
    const void **input_data;
    bool *constants;
    void **output_data;
    double *rates; /* learning rates, [iterations]; NULL: the optimizer's */
    uint64_t optimizer_version;
    bool is_bound; /* the inputs are matched to tensors of a batch */
} bgi_compiled;

uint64_t bgi_shape_samples(const bgi_call_shape *shape);
bool bgi_call_shape_equal(const bgi_call_shape *a, const bgi_call_shape *b);
/* Returns the shape of the next call for the `samples` that remain of a batch: all whole updates in them, but at most
 * `update_limit`. If there is no whole update, it is one update of all remaining samples. In inference the call has all
 * remaining samples, on one group of replicas. With canonical reductions micro-batches do not depend on the number of
 * replicas. */
bgi_call_shape bgi_shape_rest(const bgi_call_shape *usual, bool training, uint64_t samples, uint64_t update_limit);

/* Returns the position of a replica's micro-batch `number`, counted over the call, among the micro-batches of all
 * replicas. */
uint64_t bgi_shape_value(const bgi_call_shape *shape, uint64_t number, uint64_t replica);

/* Compiles the task's model in this shape. If `is_rest`, the caller did not choose the shape, so limits on it do not
 * apply. */
bg_status bgi_compiled_create(bg_trainer *trainer, bg_trainer_task task, const bgi_call_shape *shape, bool is_rest,
                              bgi_compiled *out, bg_error *error);
void bgi_compiled_clear(bgi_compiled *compiled);
/* Finds the tensor for each input and checks the types of samples. If `types` is NULL, an infeed provides the data. */
bg_status bgi_compiled_bind(bgi_compiled *compiled, const bg_trainer *trainer, const bg_type *types,
                            uint32_t tensor_count, const char *const *names, bg_error *error);
/* Points the inputs at the samples from `first` on of a batch's tensors. If `tensors` is NULL, an infeed provides the
 * data. */
void bgi_compiled_set_inputs(bgi_compiled *compiled, const void *const *tensors, uint64_t first);
void bgi_compiled_set_argument(bgi_compiled *compiled, uint32_t argument, double value);

/* Returns the index of the micro-batch, in the order [iteration][accumulation][replica], of value `index` of an output
 * after `iterations` iterations. The output's mode must not be SUM. */
uint64_t bgi_output_micro_batch(const bgi_compiled *compiled, const bgi_compiled_output *output, uint64_t iterations,
                                uint64_t index);
/* Returns whether value `index` of an output belongs to the first replica of its group; the others had the same
 * data. */
bool bgi_output_is_first(const bg_trainer_call *call, uint64_t index);
/* Returns the number of values that a run of `iterations` iterations returned. */
uint64_t bgi_output_value_count(const bgi_compiled *compiled, const bgi_compiled_output *output, uint64_t iterations);

/* ---- batches (source.c) ---- */

typedef struct bgi_source {
    const bg_trainer_data *data;
    bg_loader *loader; /* the caller's loader, or the source's own */
    bg_loader *own;
    bg_type types[BG_DATASET_MAX_TENSORS]; /* of a sample */
    uint32_t tensor_count;
    uint32_t *wanted; /* by sample of a call: bits of the tensors that this process reads; NULL: all */
} bgi_source;

/* Opens the source of a pass's batches; `samples` is the number of samples in a call. */
bg_status bgi_source_open(const bg_trainer *trainer, bg_trainer_task task, const bg_trainer_data *data,
                          uint64_t samples, bgi_source *out, bg_error *error);
void bgi_source_close(bgi_source *source);
/* bgi_source_want makes the loader skip samples that the devices of this rank do not read in the compiled call, which
 * must be bound; bgi_source_want_all makes it read all samples. */
void bgi_source_want_all(bgi_source *source);
bg_status bgi_source_want(bgi_source *source, const bgi_compiled *compiled, bg_error *error);
/* Returns the number of batches in a pass; 0: unknown. */
uint64_t bgi_source_batch_count(const bgi_source *source);

/* ---- metrics (metrics.c) ---- */

/* A metric of an output of one element, or a score of an output of sums. */
typedef struct bgi_metric {
    char *name;
    const bg_score *score; /* NULL: none */
    double *sums;          /* of a score: [sum_count] sums over the pass, then those of the newest call */
    uint64_t sum_count;
    double sum, last; /* weighted by samples */
    uint64_t samples;
    bool is_count;
    uint32_t micro_batch; /* samples in a micro-batch of a whole call */
} bgi_metric;

typedef struct bgi_metrics {
    bgi_metric *items;
    uint32_t count;
} bgi_metrics;

/* Creates a metric for each scalar output, and for each score whose sums the task has. `micro_batch` is the micro-batch
 * size of the task's whole calls. */
bg_status bgi_metrics_create(const bg_trainer *trainer, const bgi_compiled *compiled, uint32_t micro_batch,
                             bgi_metrics *out, bg_error *error);
void bgi_metrics_reset(bgi_metrics *metrics);
void bgi_metrics_clear(bgi_metrics *metrics);
void bgi_metrics_add(bgi_metrics *metrics, const bgi_compiled *compiled, const bg_trainer_call *call);

/* ---- predictions (predictions.c) ---- */

typedef struct bgi_predictions {
    bg_array *arrays; /* NULL: not requested */
    size_t *capacities;
    uint64_t *rows; /* along the first dimension */
    uint32_t count;
} bgi_predictions;

bg_status bgi_predictions_begin(bgi_predictions *predictions, const bgi_compiled *compiled, bg_array *arrays,
                                bg_error *error);
bg_status bgi_predictions_add(bgi_predictions *predictions, const bgi_compiled *compiled, const bg_trainer_call *call,
                              bg_error *error);
/* Sets the arrays' types; on failure (`is_good` false) clears them. */
void bgi_predictions_end(bgi_predictions *predictions, bool is_good);

/* ---- reports (report.c) ---- */

/* Writes the profile of a task. `loader` is the loader of the pass's data; NULL if there is none. */
bg_status bgi_report_write(const bg_trainer *trainer, bg_trainer_task task, const bg_loader *loader, bg_error *error);

/* ---- the trainer (trainer.c, loop.c) ---- */

/* A warning that a plan gave while it was compiled. */
typedef struct bgi_warning {
    const char *text;
    struct bgi_warning *next;
} bgi_warning;

typedef struct bgi_task {
    bg_trainer *trainer;
    bg_options options; /* the options after all adjustments */
    bgi_call_shape shape;
    bgi_compiled whole; /* compiled when plan is not NULL */
    bgi_compiled rest;
    bgi_metrics metrics;
    bool has_run; /* `whole` has run */
} bgi_task;

struct bg_trainer {
    bg_trainer_options options;
    bg_options training_options, inference_options; /* copies of the options given to the strategy */
    bgi_arena arena;                                /* names of arguments, warnings */
    bgi_warning *warnings;                          /* each one once; the newest comes first */
    _Atomic(uintptr_t) compiling_thread;            /* the thread in bgi_compiled_create; 0: none */
    bg_weights *weights;
    bool owns_weights;
    bgi_task tasks[BG_TRAINER_TASK_COUNT];
    bg_optimizer optimizer; /* the optimizer, with the numbers of the next call */
    uint64_t optimizer_version;
    uint64_t step, epoch;
    uint64_t first_epoch, first_batch; /* where the next fit begins */
    bool is_resumed;                   /* the next fit's session must get the step */
    bool should_stop, was_stopped;
    bool has_updated; /* the current fit has made an update */
    bool has_ranks;   /* several processes share the devices */
};

/* Returns the problems, which end in "; ", as one error; BG_OK without problems. Clears them. */
bg_status bgi_trainer_report_problems(bgi_string *problems, const char *of, bg_error *error);
/* Appends the problems of a strategy, each followed by "; ". */
void bgi_ipu_strategy_check(const bg_ipu_strategy *strategy, bgi_string *problems);
void bgi_trainer_log(const bg_trainer *trainer, bg_log_level level, const char *format, ...) BG_PRINTF(3, 4);

#endif
