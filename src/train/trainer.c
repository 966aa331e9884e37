/*
 * trainer.c: creates a trainer, checks its options, prepares its tasks and answers queries. The loops are in loop.c.
 */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* ---- names ---- */

const char *bg_trainer_event_name(bg_trainer_event_kind kind)
{
    static const char *const names[BG_TRAINER_EVENT_COUNT] = {
        "on_fit_start", "on_fit_end",       "on_epoch_start",      "on_epoch_end",       "on_batch_start",
        "on_call_end",  "on_batch_end",     "on_validation_start", "on_validation_end",  "on_test_start",
        "on_test_end",  "on_predict_start", "on_predict_end",      "on_save_checkpoint", "on_refused_update"};

    return (uint32_t)kind < BG_TRAINER_EVENT_COUNT ? names[kind] : "none";
}

void bgi_trainer_log(const bg_trainer *trainer, bg_log_level level, const char *format, ...)
{
    char text[512];
    va_list arguments;

    if (trainer->options.log == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    trainer->options.log(trainer->options.log_user, level, text);
}

/* ---- options ---- */

void bg_trainer_options_init(bg_trainer_options *options, size_t struct_bytes)
{
    bg_trainer_options made = {.struct_bytes = struct_bytes,
                               .strategy = bg_ipu_strategy_defaults(),
                               .optimizer = bg_sgd(0.01),
                               .micro_batch = {1},
                               .accumulate_grad_batches = 1,
                               .max_epochs = 1,
                               .validate_epochs = 1};

    for (int task = 0; task < BG_TRAINER_TASK_COUNT; task++)
        made.batch_limits[task] = BG_ALL_BATCHES, made.batch_shares[task] = 1.0;
    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static void check_given(const bg_trainer_options *options, bgi_string *problems)
{
    const bg_options *given = options->strategy.training_options;

    if (given == NULL)
        return;
    if (options->accumulate_grad_batches != 1 &&
        options->accumulate_grad_batches != given->execution.gradient_accumulation)
        bgi_string_add(problems,
                       "accumulate_grad_batches is %u and training_options have gradient_accumulation %u, which "
                       "decides; leave accumulate_grad_batches at 1; ",
                       options->accumulate_grad_batches, given->execution.gradient_accumulation);
    if (options->gradient_clip > 0 && options->gradient_clip != given->numerics.max_gradient_norm)
        bgi_string_add(problems,
                       "gradient_clip is %g and training_options have max_gradient_norm %g, which decides; leave "
                       "gradient_clip at 0; ",
                       options->gradient_clip, given->numerics.max_gradient_norm);
}

/* Checks groups here, because samples of a call are counted by groups before a plan checks the options. */
static void check_given_groups(const char *name, const bg_options *given, bgi_string *problems)
{
    if (given != NULL &&
        (given->replicas.input_group_size == 0 ||
         (given->replicas.total_devices == 0 && given->replicas.count % given->replicas.input_group_size != 0)))
        bgi_string_add(problems, "%s have input_group_size %u and replicas %u; input_group_size must divide replicas; ",
                       name, given->replicas.input_group_size, given->replicas.count);
}

/* Refuses files of remote memory in inference_options, because they can belong to only one session, the one that
 * trains. */
static void check_given_files(const bg_options *given, bgi_string *problems)
{
    if (given != NULL && given->files.memmap_dir != NULL && given->files.memmap_dir[0] != '\0')
        bgi_string_add(problems,
                       "memmap_dir %s is set in inference_options too, but its files belong to the session of a fit; "
                       "set it only in training_options; ",
                       given->files.memmap_dir);
}

static void check_shares(const bg_trainer_options *options, bgi_string *problems)
{
    for (int task = 0; task < BG_TRAINER_TASK_COUNT; task++)
        if (!(options->batch_shares[task] >= 0.0 && options->batch_shares[task] <= 1.0))
            bgi_string_add(problems,
                           "batch_shares of %s is %g; give a share from 0 to 1, or a number in batch_limits; ",
                           bg_trainer_task_name((bg_trainer_task)task), options->batch_shares[task]);
    if (!(options->validate_share >= 0.0 && options->validate_share <= 1.0))
        bgi_string_add(problems, "validate_share is %g; give a share from 0 to 1, or a number in validate_batches; ",
                       options->validate_share);
}

/* Reports all problems at once. */
static bg_status check_options(const bg_trainer_options *options, bg_error *error)
{
    bgi_string problems = {0};
    bg_error optimizer = {0};

    bgi_ipu_strategy_check(&options->strategy, &problems);
    if ((options->model == NULL) == (options->add_model == NULL))
        bgi_string_add(&problems, "%s; give the function that adds the model to a graph; ",
                       options->model == NULL ? "model is NULL" : "both model and add_model are set");
    if (options->micro_batch[BG_TRAINER_FIT] < 1)
        bgi_string_add(&problems, "micro_batch of fit is 0; give at least 1 sample; ");
    if (options->accumulate_grad_batches < 1)
        bgi_string_add(&problems, "accumulate_grad_batches is 0; a weight update needs at least 1 micro-batch; ");
    if (!(options->gradient_clip >= 0))
        bgi_string_add(&problems, "gradient_clip is %g; it must be above 0, or 0 for no clipping; ",
                       options->gradient_clip);
    if (bg_optimizer_validate(&options->optimizer, &optimizer) != BG_OK)
        bgi_string_add(&problems, "%s; ", optimizer.message);
    for (uint32_t i = 0; i < options->argument_count; i++)
        if (options->arguments == NULL || options->arguments[i].input == NULL ||
            (uint32_t)options->arguments[i].kind > BG_ARGUMENT_STEP)
            bgi_string_add(&problems, "arguments[%u] names no input or has no kind; ", i);
    for (uint32_t i = 0; i < options->callback_count; i++)
        if (options->callbacks == NULL || options->callbacks[i].function == NULL)
            bgi_string_add(&problems, "callbacks[%u] has no function; ", i);
    check_shares(options, &problems);
    for (uint32_t i = 0; i < options->score_count; i++)
        if (options->scores == NULL || options->scores[i].name == NULL || options->scores[i].output == NULL)
            bgi_string_add(&problems, "scores[%u] has no name or no output; ", i);
    check_given(options, &problems);
    check_given_groups("training_options", options->strategy.training_options, &problems);
    check_given_groups("inference_options", options->strategy.inference_options, &problems);
    check_given_files(options->strategy.inference_options, &problems);
    return bgi_trainer_report_problems(&problems, "trainer", error);
}

static bg_status copy_arguments(bg_trainer *trainer, bg_error *error)
{
    bg_trainer_options *options = &trainer->options;
    bg_trainer_argument *copies =
        bgi_arena_copy(&trainer->arena, options->arguments, options->argument_count * sizeof *copies);

    if (copies == NULL)
        return bgi_error_memory(error, "arguments", options->argument_count * sizeof *copies);
    for (uint32_t i = 0; i < options->argument_count; i++) {
        copies[i].input = bgi_arena_string(&trainer->arena, copies[i].input);
        if (copies[i].input == NULL)
            return bgi_error_memory(error, "arguments", 0);
    }
    options->arguments = copies;
    return BG_OK;
}

static void copy_strategy(bg_trainer *trainer)
{
    bg_ipu_strategy *strategy = &trainer->options.strategy;

    if (strategy->training_options != NULL) {
        trainer->training_options = *strategy->training_options;
        strategy->training_options = &trainer->training_options;
    }
    if (strategy->inference_options != NULL) {
        trainer->inference_options = *strategy->inference_options;
        strategy->inference_options = &trainer->inference_options;
    }
}

/* Uses the environment variable BRIGADE_PROFILE as the folder if the program gave none. */
static bg_status find_report_folder(bg_trainer *trainer, bg_error *error)
{
    const char *folder = getenv("BRIGADE_PROFILE");
    bg_ipu_strategy *strategy = &trainer->options.strategy;

    if (strategy->report_folder != NULL || folder == NULL || folder[0] == '\0')
        return BG_OK;
    strategy->report_folder = bgi_arena_string(&trainer->arena, folder);
    return strategy->report_folder != NULL ? BG_OK : bgi_error_memory(error, "BRIGADE_PROFILE", 0);
}

/* Sets the options and the shape of each task. */
static bg_status set_tasks(bg_trainer *trainer, bg_error *error)
{
    const bg_trainer_options *options = &trainer->options;

    for (int s = 0; s < BG_TRAINER_TASK_COUNT; s++) {
        const bool training = s == BG_TRAINER_FIT;
        bgi_task *task = &trainer->tasks[s];
        bg_options *made = &task->options;

        task->trainer = trainer;
        BGI_TRY(bg_ipu_strategy_options(&options->strategy, training, options->accumulate_grad_batches, made, error));
        if ((training ? options->strategy.training_options : options->strategy.inference_options) == NULL) {
            made->numerics.seed = options->seed;
            made->numerics.max_gradient_norm = training ? options->gradient_clip : 0.0;
            made->reporting.log = options->log;
            made->reporting.log_user = options->log_user;
        }
        task->shape = (bgi_call_shape){.micro_batch = options->micro_batch[s] != 0 ? options->micro_batch[s]
                                                                                   : options->micro_batch[0],
                                       .iterations = made->execution.device_iterations,
                                       .accumulation = made->execution.gradient_accumulation,
                                       .replicas = made->replicas.count,
                                       .group = made->replicas.input_group_size,
                                       .canonical = s == BG_TRAINER_FIT && made->numerics.canonical_reductions};
    }
    return BG_OK;
}

static void log_notes(const bg_trainer *trainer)
{
    const bg_ipu_strategy *strategy = &trainer->options.strategy;
    const uint32_t replicas = bg_ipu_strategy_replicas(strategy);

    if ((replicas & (replicas - 1)) != 0)
        bgi_trainer_log(trainer, BG_LOG_INFO, "devices is %u; IPUs come in powers of two", replicas);
    if (strategy->devices > 1 && strategy->devices != BG_DEVICES_AUTO && strategy->devices != replicas)
        bgi_trainer_log(trainer, BG_LOG_INFO, "devices is %u, but the given options have %u replicas, which are used",
                        strategy->devices, replicas);
}

bg_status bg_trainer_create(const bg_trainer_options *options, bg_weights *weights, bg_trainer **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_trainer_options",
                             "bg_trainer_options_defaults()", error));
    BGI_TRY(bgi_struct_check(options->strategy.struct_bytes, sizeof options->strategy, "bg_ipu_strategy",
                             "bg_ipu_strategy_defaults()", error));

    bg_trainer *trainer;
    bg_status status = BG_OK;

    BGI_TRY(check_options(options, error));
    trainer = calloc(1, sizeof *trainer);
    if (trainer == NULL)
        return bgi_error_memory(error, "trainer", sizeof *trainer);
    trainer->options = *options;
    trainer->optimizer = options->optimizer;
    trainer->weights = weights;
    copy_strategy(trainer);
    BGI_TRY_CLEANUP(find_report_folder(trainer, error));
    BGI_TRY_CLEANUP(copy_arguments(trainer, error));
    BGI_TRY_CLEANUP(set_tasks(trainer, error));
    if (weights == NULL) {
        BGI_TRY_CLEANUP(bg_weights_create(&trainer->weights, error));
        trainer->owns_weights = true;
    }
    log_notes(trainer);
    *out = trainer;
cleanup:
    if (status != BG_OK)
        bg_trainer_destroy(trainer);
    return status;
}

void bg_trainer_destroy(bg_trainer *trainer)
{
    if (trainer == NULL)
        return;
    /* Weights are destroyed before the sessions, because sessions would otherwise copy their values back to them. */
    if (trainer->owns_weights)
        bg_weights_destroy(trainer->weights);
    for (int s = 0; s < BG_TRAINER_TASK_COUNT; s++) {
        bgi_compiled_clear(&trainer->tasks[s].rest);
        bgi_compiled_clear(&trainer->tasks[s].whole);
        bgi_metrics_clear(&trainer->tasks[s].metrics);
    }
    bgi_arena_clear(&trainer->arena);
    free(trainer);
}

/* ---- tasks ---- */

static bool is_given(const bg_trainer *trainer, bg_trainer_task task)
{
    const bg_ipu_strategy *strategy = &trainer->options.strategy;

    return (task == BG_TRAINER_FIT ? strategy->training_options : strategy->inference_options) != NULL;
}

/* Checks Lightning's rule for a model that is split over devices: a call has at least one iteration for each device.
 * Without ipu_limits, or for options that the caller gave, a smaller number only causes a warning. */
static bg_status check_iterations(const bg_trainer *trainer, bg_trainer_task number, bgi_task *task, bg_error *error)
{
    const uint32_t device_count = bg_plan_summarize(task->whole.plan).device_count;

    if (task->shape.iterations >= device_count)
        return BG_OK;
    if (!trainer->options.strategy.ipu_limits || is_given(trainer, number)) {
        /* Compiling a plan for inference logs this warning. */
        if (number == BG_TRAINER_FIT)
            bgi_trainer_log(
                trainer, BG_LOG_WARNING,
                "device_iterations is %u: on IPUs a model that is split over %u devices has at least %u "
                "for each call; devices are idle for %.0f%% of the time, which a larger accumulate_grad_batches "
                "lowers",
                task->shape.iterations, device_count, device_count,
                100.0 * bg_plan_summarize(task->whole.plan).idle_share);
        return BG_OK;
    }
    bgi_compiled_clear(&task->whole);
    return bg_error_set(error, BG_ERROR_INVALID,
                        "the model is split over %u devices; on IPUs a call then has at least %u device iterations",
                        device_count, device_count);
}

/* Sets the fields that depend on the number of replicas, which the plan computes from total_devices. */
static void settle_replicas(bgi_task *task)
{
    task->shape.replicas = task->whole.shape.replicas = bg_plan_summarize(task->whole.plan).replicas;
    task->options.replicas.count = task->shape.replicas;
    task->options.replicas.total_devices = 0;
}

bg_status bg_trainer_prepare(bg_trainer *trainer, bg_trainer_task task, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(trainer, "trainer", __func__, error));

    bgi_task *of;
    bg_status status;

    if ((uint32_t)task >= BG_TRAINER_TASK_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "task is %d; it must be one of the bg_trainer_task values",
                            (int)task);
    of = &trainer->tasks[task];
    if (of->whole.plan != NULL)
        return BG_OK;
    status = bgi_compiled_create(trainer, task, &of->shape, false, &of->whole, error);
    if (status == BG_OK)
        settle_replicas(of);
    if (status == BG_OK)
        status = check_iterations(trainer, task, of, error);
    if (status != BG_OK && of->options.execution.ipu_limits && !is_given(trainer, task))
        return bg_error_context(error, status, "with device_iterations %u, accumulate_grad_batches %u",
                                of->shape.iterations, of->shape.accumulation);
    return status;
}

static const bgi_task *find_task(const bg_trainer *trainer, bg_trainer_task task)
{
    static const bgi_task none;

    return (uint32_t)task < BG_TRAINER_TASK_COUNT ? &trainer->tasks[task] : &none;
}

bg_session *bg_trainer_session(const bg_trainer *trainer, bg_trainer_task task)
{
    return find_task(trainer, task)->whole.session;
}

bg_session *bg_trainer_rest_session(const bg_trainer *trainer, bg_trainer_task task)
{
    return find_task(trainer, task)->rest.session;
}

uint64_t bg_trainer_samples_per_call(const bg_trainer *trainer, bg_trainer_task task)
{
    const bgi_task *of = find_task(trainer, task);

    return of->options.replicas.total_devices == 0 ? bgi_shape_samples(&of->shape) : 0;
}

/* ---- the rest ---- */

bg_weights *bg_trainer_weights(const bg_trainer *trainer)
{
    return trainer->weights;
}

uint64_t bg_trainer_step(const bg_trainer *trainer)
{
    return trainer->step;
}

uint64_t bg_trainer_epoch(const bg_trainer *trainer)
{
    return trainer->epoch;
}

bg_status bg_trainer_set_optimizer(bg_trainer *trainer, const bg_optimizer *optimizer, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(trainer, "trainer", __func__, error));
    BGI_TRY(bgi_require(optimizer, "optimizer", __func__, error));
    BGI_TRY(bg_optimizer_validate(optimizer, error));
    if (optimizer->kind != trainer->optimizer.kind || optimizer->rule != trainer->optimizer.rule) {
        char next[BG_OPTIMIZER_STATE_TEXT_BYTES], before[BG_OPTIMIZER_STATE_TEXT_BYTES];
        bg_optimizer_describe_state(optimizer, next);
        bg_optimizer_describe_state(&trainer->optimizer, before);
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the optimizer is %s, but this trainer was made with %s; only the optimizer's settings can "
                            "change: make another trainer",
                            next, before);
    }
    trainer->optimizer = *optimizer;
    trainer->optimizer_version++;
    return BG_OK;
}

void bg_trainer_stop(bg_trainer *trainer)
{
    trainer->should_stop = true;
}

bool bg_trainer_was_stopped(const bg_trainer *trainer)
{
    return trainer->was_stopped;
}

void bg_trainer_resume(bg_trainer *trainer, uint64_t epoch, uint64_t batch, uint64_t step)
{
    trainer->first_epoch = trainer->epoch = epoch;
    trainer->first_batch = batch;
    trainer->step = step;
    trainer->is_resumed = true;
}

const void *bg_trainer_call_output(const bg_trainer_call *call, const char *name, bg_stream *out_stream)
{
    const uint32_t index = bg_session_find_output(call->session, name);

    if (index == UINT32_MAX)
        return NULL;
    if (out_stream != NULL)
        bg_session_output(call->session, index, out_stream, NULL);
    return call->outputs[index];
}
