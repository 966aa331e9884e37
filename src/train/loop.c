/*
 * loop.c: makes passes over data. It splits batches into calls, and reports metrics and events of calls. A fit makes
 * one pass for each epoch, with validations in between.
 *
 *     fit:   epoch { pass over the training data { ... validation { pass } ... } validation { pass } }
 *     pass:  batch { call, or a call of the whole updates and one of the rest }
 */
#include "train/trainer.h"

#include <inttypes.h>
#include <string.h>

#include <brigade/transport.h>

#include "core/clock.h"
#include "core/error.h"

/* One pass over a source. */
typedef struct pass {
    bg_trainer *trainer;
    bg_trainer_task task;
    bgi_source *source;
    bgi_predictions *predictions; /* NULL: predictions are not collected */
    bg_array *arrays;             /* for the predictions */
    bg_trainer_call call;         /* the newest */
    uint64_t epoch, batch, batch_count;
    uint64_t limit;          /* the largest number of batches in the pass */
    uint64_t validate_every; /* batches between validations, by options.validate_share; 0: not by a share */
    uint64_t validated_step; /* the step of the newest validation by share */
    uint64_t saved_step;     /* the step of the newest checkpoint, or of the beginning of the fit */
    uint64_t refused_sample; /* the sample of the batch at which the refused update begins */
    bool data_ended;         /* the data of the infeed have ended */
} pass;

/* ---- events ---- */

static bg_status notify(pass *p, bg_trainer_event_kind kind, uint64_t valid_count, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    const bool has_call = kind == BG_ON_CALL_END || kind == BG_ON_BATCH_END || kind == BG_ON_REFUSED_UPDATE;
    bg_trainer_event event = {.kind = kind,
                              .trainer = trainer,
                              .task = p->task,
                              .epoch = p->epoch,
                              .batch = p->batch,
                              .batch_count = p->batch_count,
                              .valid_count = valid_count,
                              .sample = kind == BG_ON_REFUSED_UPDATE ? p->refused_sample : 0,
                              .call = has_call ? &p->call : NULL};

    for (uint32_t i = 0; i < trainer->options.callback_count; i++) {
        const bg_trainer_callback *callback = &trainer->options.callbacks[i];
        const bg_status status = callback->function(callback->user, &event, error);
        if (status != BG_OK) {
            bgi_error_unexplained(error, status, "the function");
            return bg_error_context(error, status, "callback %u, %s", i, bg_trainer_event_name(kind));
        }
    }
    trainer->should_stop = trainer->should_stop || event.stop;
    return BG_OK;
}

/* Returns whether training must stop. With several ranks the interrupt flags take effect when all ranks have received
 * them (receive_stop). */
static bool is_over(const bg_trainer *trainer)
{
    return trainer->should_stop ||
           (!trainer->has_ranks && trainer->options.interrupt != NULL && *trainer->options.interrupt != 0);
}

/* Sends a stop signal of this rank to all ranks, so that all receive it in the same call. The trainer calls this
 * function before each call of a session. */
static void request_stop(const bg_trainer *trainer, bg_session *session)
{
    if (trainer->options.interrupt != NULL && *trainer->options.interrupt != 0)
        bg_session_ask_to_stop(session);
}

static void receive_stop(bg_trainer *trainer, const bg_session *session)
{
    trainer->should_stop = trainer->should_stop || bg_session_is_asked_to_stop(session);
}

static uint64_t updates_left(const bg_trainer *trainer)
{
    const uint64_t most = trainer->options.max_steps;

    return most == 0 ? UINT64_MAX : most > trainer->step ? most - trainer->step : 0;
}

/* ---- calls ---- */

static void set_arguments(const pass *p, bgi_compiled *compiled)
{
    const bg_trainer_options *options = &p->trainer->options;

    for (uint32_t i = 0; i < options->argument_count; i++) {
        const bg_trainer_argument *argument = &options->arguments[i];
        bgi_compiled_set_argument(compiled, i,
                                  argument->kind == BG_ARGUMENT_BATCH   ? (double)p->batch
                                  : argument->kind == BG_ARGUMENT_EPOCH ? (double)p->epoch
                                  : argument->kind == BG_ARGUMENT_STEP  ? (double)p->trainer->step
                                                                        : argument->value);
    }
}

/* Sets the optimizer's numbers for the next call. */
static bg_status set_optimizer(bg_trainer *trainer, bgi_compiled *compiled, bg_error *error)
{
    const bg_trainer_options *options = &trainer->options;

    for (uint64_t i = 0; compiled->rates != NULL && i < compiled->shape.iterations; i++)
        compiled->rates[i] = options->learning_rate(options->learning_rate_user, trainer->step + i);
    if (options->learning_rate != NULL && compiled->rates == NULL) {
        bg_optimizer optimizer = trainer->optimizer;
        optimizer.learning_rate = options->learning_rate(options->learning_rate_user, trainer->step);
        if (optimizer.learning_rate != trainer->optimizer.learning_rate)
            BGI_TRY(bg_trainer_set_optimizer(trainer, &optimizer, error));
    }
    if (compiled->optimizer_version == trainer->optimizer_version)
        return BG_OK;
    compiled->optimizer_version = trainer->optimizer_version;
    return bg_session_set_optimizer(compiled->session, &trainer->optimizer, error);
}

/* Describes a call of `iterations` iterations in p->call, and counts its updates. */
static void describe_call(pass *p, const bgi_compiled *compiled, uint64_t iterations, uint64_t valid, uint64_t run_ns)
{
    const bgi_task *task = &p->trainer->tasks[p->task];
    bgi_call_shape done = compiled->shape;

    done.iterations = (uint32_t)iterations;
    p->call = (bg_trainer_call){.plan = compiled->plan,
                                .session = compiled->session,
                                .outputs = compiled->output_data,
                                .micro_batch = done.micro_batch,
                                .device_iterations = done.iterations,
                                .gradient_accumulation = done.accumulation,
                                .replicas = done.replicas,
                                .input_group_size = done.group,
                                .input_grouping = task->options.replicas.input_grouping,
                                .first_update = p->trainer->step,
                                .update_count = compiled->training ? iterations : 0,
                                .sample_count = bgi_shape_samples(&done),
                                .run_ns = run_ns,
                                .is_whole = compiled == &task->whole,
                                .canonical = done.canonical};
    p->call.valid_count = valid < p->call.sample_count ? valid : p->call.sample_count;
    p->trainer->step += p->call.update_count;
    p->trainer->has_updated = p->trainer->has_updated || p->call.update_count > 0;
}

/* Completes a call: records its samples, metrics and predictions, and notifies the callbacks. */
static bg_status finish_call(pass *p, bgi_compiled *compiled, uint64_t iterations, uint64_t valid, uint64_t run_ns,
                             bg_error *error)
{
    bgi_task *task = &p->trainer->tasks[p->task];

    describe_call(p, compiled, iterations, valid, run_ns);
    task->has_run = task->has_run || p->call.is_whole;
    bgi_metrics_add(&task->metrics, compiled, &p->call);
    if (p->predictions != NULL)
        BGI_TRY(bgi_predictions_add(p->predictions, compiled, &p->call, error));
    return notify(p, BG_ON_CALL_END, p->call.valid_count, error);
}

/* Reports that an update of the call was refused after `iterations` successful iterations. Returns the run's error,
 * whatever callbacks return. */
static bg_status report_refused(pass *p, const bgi_compiled *compiled, uint64_t iterations, uint64_t first)
{
    bgi_call_shape before = compiled->shape;
    bg_error ignored = {0};

    before.iterations = (uint32_t)iterations;
    p->refused_sample = first + bgi_shape_samples(&before);
    describe_call(p, compiled, iterations, UINT64_MAX, 0);
    notify(p, BG_ON_REFUSED_UPDATE, 0, &ignored);
    return BG_ERROR_NOT_FINITE;
}

/* Prepares metrics and predictions when the first model is compiled. */
static bg_status begin_results(pass *p, const bgi_compiled *compiled, bg_error *error)
{
    bgi_task *task = &p->trainer->tasks[p->task];

    if (task->metrics.items == NULL)
        BGI_TRY(bgi_metrics_create(p->trainer, compiled, task->shape.micro_batch, &task->metrics, error));
    if (p->predictions != NULL && p->predictions->rows == NULL)
        return bgi_predictions_begin(p->predictions, compiled, p->arrays, error);
    return BG_OK;
}

/* Copies samples of later calls while a call leaves threads idle. */
static bool help_loader(void *user)
{
    return bg_loader_help(user);
}

static bg_status bind(const pass *p, bgi_compiled *compiled, bg_error *error)
{
    const bgi_source *source = p->source;

    return compiled->is_bound ? BG_OK
                              : bgi_compiled_bind(compiled, p->trainer, source->types, source->tensor_count,
                                                  source->data->names, error);
}

/* Runs one call on a batch's samples from `first` on; the first `valid` of them are not padding. */
static bg_status run_call(pass *p, bgi_compiled *compiled, const bg_batch *batch, uint64_t first, uint64_t valid,
                          bg_error *error)
{
    const bgi_source *source = p->source;
    const bg_run run = {.inputs = compiled->input_data,
                        .constants = compiled->constants,
                        .outputs = compiled->output_data,
                        .spare = help_loader,
                        .spare_user = source->loader,
                        .learning_rates = compiled->rates};
    uint64_t start_ns, iterations = 0;
    bg_status status;

    BGI_TRY(bind(p, compiled, error));
    BGI_TRY(begin_results(p, compiled, error));
    if (compiled->training)
        BGI_TRY(set_optimizer(p->trainer, compiled, error));
    set_arguments(p, compiled);
    bgi_compiled_set_inputs(compiled, batch->tensors, first);
    start_ns = bgi_clock_ns();
    request_stop(p->trainer, compiled->session);
    status = bg_session_execute(compiled->session, &run, &iterations, error);
    receive_stop(p->trainer, compiled->session);
    if (status == BG_ERROR_NOT_FINITE)
        return report_refused(p, compiled, iterations, first);
    BGI_TRY(status);
    return finish_call(p, compiled, compiled->shape.iterations, valid, bgi_clock_ns() - start_ns, error);
}

/* Compiles the task if necessary; an error names the task. */
static bg_status prepare(bg_trainer *trainer, bg_trainer_task task, bg_error *error)
{
    const bg_status status = bg_trainer_prepare(trainer, task, error);

    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s", bg_trainer_task_name(task));
}

/* With total_devices, compiles the task before its first call, because the size of a call then follows from the
 * plan. */
static bg_status settle(bg_trainer *trainer, bg_trainer_task task, bg_error *error)
{
    return trainer->tasks[task].options.replicas.total_devices != 0 ? prepare(trainer, task, error) : BG_OK;
}

/* Makes the plan for the remaining samples of a batch, or reuses the previous one if it fits. */
static bg_status prepare_rest(pass *p, const bgi_call_shape *shape, bg_error *error)
{
    bgi_task *task = &p->trainer->tasks[p->task];
    bgi_compiled rest;
    bg_status status;

    if (task->rest.plan != NULL && bgi_call_shape_equal(&task->rest.shape, shape))
        return BG_OK;
    status = bgi_compiled_create(p->trainer, p->task, shape, true, &rest, error);
    if (status != BG_OK)
        return bg_error_context(error, status, "%s", bg_trainer_task_name(p->task));
    bgi_compiled_clear(&task->rest);
    task->rest = rest;
    return BG_OK;
}

/* Runs a batch in one call, or in as many as its size and max_steps require. Inference omits padding, which would
 * change the means and sums of a micro-batch. */
static bg_status run_batch(pass *p, const bg_batch *batch, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    bgi_task *task = &trainer->tasks[p->task];
    const bool training = p->task == BG_TRAINER_FIT;
    const uint64_t all = training ? batch->sample_count : batch->valid_count;

    for (uint64_t first = 0; first < all;) {
        const uint64_t samples = all - first;
        const uint64_t valid = batch->valid_count > first ? batch->valid_count - first : 0;
        const uint64_t limit = training ? updates_left(trainer) : UINT64_MAX;
        bgi_call_shape shape = task->shape;

        if (limit == 0)
            return BG_OK;
        if (samples == bgi_shape_samples(&shape) && limit >= (training ? shape.iterations : 1)) {
            BGI_TRY(prepare(trainer, p->task, error));
            BGI_TRY(run_call(p, &task->whole, batch, first, valid, error));
        } else {
            if (p->source->wanted != NULL && samples == bgi_shape_samples(&shape))
                return bg_error_set(error, BG_ERROR_INTERNAL, "a batch that was only partly read is split");
            shape = bgi_shape_rest(&shape, training, samples, limit);
            BGI_TRY(prepare_rest(p, &shape, error));
            BGI_TRY(run_call(p, &task->rest, batch, first, valid, error));
        }
        first += bgi_shape_samples(&shape);
    }
    return BG_OK;
}

/* Runs one call whose data come from an infeed. */
static bg_status run_fed(pass *p, bool *out_has_run, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    bgi_task *task = &trainer->tasks[p->task];
    bgi_compiled *compiled = &task->whole;
    const uint64_t limit = updates_left(trainer);
    bg_run run = {.infeed = p->source->data->infeed, .learning_rates = compiled->rates};
    uint64_t iterations = 0, start_ns;
    bg_error own = {0};
    bg_status status;

    BGI_TRY(begin_results(p, compiled, error));
    if (compiled->training)
        BGI_TRY(set_optimizer(trainer, compiled, error));
    set_arguments(p, compiled);
    bgi_compiled_set_inputs(compiled, NULL, 0);
    run.inputs = compiled->input_data;
    run.constants = compiled->constants;
    run.outputs = compiled->output_data;
    if (compiled->training && limit < compiled->shape.iterations)
        run.iterations = limit;
    start_ns = bgi_clock_ns();
    request_stop(p->trainer, compiled->session);
    status = bg_session_execute(compiled->session, &run, &iterations, &own);
    receive_stop(p->trainer, compiled->session);
    if (status == BG_ERROR_NOT_FINITE)
        report_refused(p, compiled, iterations, 0);
    p->data_ended = status == BG_ERROR_RANGE && bg_infeed_has_ended(run.infeed);
    if (status != BG_OK && !p->data_ended)
        return bg_error_set(error, status, "%s", own.message);
    *out_has_run = iterations > 0;
    if (!*out_has_run)
        return BG_OK;
    /* In inference an iteration of the session is a whole call. */
    return finish_call(p, compiled, compiled->training ? iterations : compiled->shape.iterations, UINT64_MAX,
                       bgi_clock_ns() - start_ns, error);
}

/* ---- passes ---- */

/* Makes a rank read only the samples of its own devices, if batches are whole calls and max_steps does not cut one. The
 * last batch may be smaller; each rank reads all of it. */
static bg_status want_own_samples(pass *p, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    bgi_task *task = &trainer->tasks[p->task];
    const bg_transport *transport = task->options.execution.transport;
    const bool has_ranks = trainer->has_ranks || (transport != NULL && transport->rank_count > 1);
    const uint64_t batches = bgi_source_batch_count(p->source), left = updates_left(trainer);
    const bool is_cut =
        p->task == BG_TRAINER_FIT && trainer->options.max_steps != 0 && left % task->shape.iterations != 0;
    const bool has_whole = batches > 1 || (batches == 1 && task->whole.plan != NULL);

    if (!has_ranks || !has_whole || is_cut) {
        bgi_source_want_all(p->source);
        return BG_OK;
    }
    BGI_TRY(prepare(trainer, p->task, error));
    BGI_TRY(bind(p, &task->whole, error));
    return bgi_source_want(p->source, &task->whole, error);
}

/* Computes a share of the pass's batches, rounded down. */
static bg_status find_share(const pass *p, double share, uint64_t total, const char *name, uint64_t *out,
                            bg_error *error)
{
    if (total == 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "%s: %s is %g, but the number of batches of these data is not known; give a number of batches instead",
            bg_trainer_task_name(p->task), name, share);
    *out = (uint64_t)(share * (double)total);
    return BG_OK;
}

/* Determines the number of batches in a pass, and between validations, from numbers and shares. */
static bg_status find_limits(pass *p, bg_error *error)
{
    const bg_trainer_options *options = &p->trainer->options;
    const uint64_t total = bgi_source_batch_count(p->source), number = options->batch_limits[p->task];
    const double share = options->batch_shares[p->task];

    p->limit = share > 0.0 ? number : 0;
    if (share > 0.0 && share < 1.0 && number > 0) {
        BGI_TRY(find_share(p, share, total, "batch_shares", &p->limit, error));
        if (p->limit == 0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "%s: batch_shares is %g, and %g of %" PRIu64
                                " batches is less than one; give a larger share, or 0 for none",
                                bg_trainer_task_name(p->task), share, share, total);
        p->limit = p->limit < number ? p->limit : number;
    }
    if (p->task != BG_TRAINER_FIT || options->validate_share == 0.0 || p->limit == 0)
        return BG_OK;
    BGI_TRY(find_share(p, options->validate_share, total < p->limit ? total : p->limit, "validate_share",
                       &p->validate_every, error));
    p->validate_every = p->validate_every > 0 ? p->validate_every : 1;
    return BG_OK;
}

static bg_status begin_pass(pass *p, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    bgi_task *task = &trainer->tasks[p->task];
    const bg_trainer_data *data = p->source->data;
    const uint64_t limit = p->limit;
    uint64_t total = bgi_source_batch_count(p->source);

    bgi_metrics_reset(&task->metrics);
    p->data_ended = false;
    p->batch_count = limit != BG_ALL_BATCHES && (total == 0 || limit < total) ? limit : total;
    if (p->task == BG_TRAINER_FIT && trainer->options.max_steps != 0) {
        const uint64_t left = updates_left(trainer), per_call = task->shape.iterations;
        const uint64_t most = p->batch + left / per_call + (left % per_call != 0);
        p->batch_count = p->batch_count == 0 || most < p->batch_count ? most : p->batch_count;
    }
    /* Inference reads its data in the same order each time, so that its results depend only on the weights. */
    if (data->infeed == NULL)
        BGI_TRY(want_own_samples(p, error));
    if (data->infeed == NULL)
        return bg_loader_begin_at(p->source->loader, p->task == BG_TRAINER_FIT ? p->epoch : 0, p->batch, error);
    BGI_TRY(prepare(trainer, p->task, error));
    if (!task->whole.is_bound)
        BGI_TRY(bgi_compiled_bind(&task->whole, trainer, NULL, 0, NULL, error));
    if (bg_infeed_plan(data->infeed) == task->whole.plan)
        return BG_OK;
    return bg_infeed_start(data->infeed, task->whole.session, error);
}

/* Returns whether the pass may read another batch. */
static bool has_more(const pass *p)
{
    const bg_trainer *trainer = p->trainer;

    return !is_over(trainer) && !p->data_ended && (p->task != BG_TRAINER_FIT || updates_left(trainer) > 0) &&
           p->batch < p->limit;
}

/* Runs one batch, or sets *out_ended if the data have ended. */
static bg_status take_batch(pass *p, bool *out_ended, bg_error *error)
{
    bg_batch batch = {0};
    uint64_t valid;

    if (p->source->loader != NULL) {
        BGI_TRY(bg_loader_next(p->source->loader, &batch, error));
        *out_ended = batch.sample_count == 0;
        if (*out_ended)
            return BG_OK;
        BGI_TRY(notify(p, BG_ON_BATCH_START, batch.valid_count, error));
        BGI_TRY(run_batch(p, &batch, error));
        valid = batch.valid_count;
    } else {
        bool has_run = false;
        BGI_TRY(notify(p, BG_ON_BATCH_START, 0, error));
        BGI_TRY(run_fed(p, &has_run, error));
        *out_ended = !has_run;
        if (*out_ended)
            return BG_OK;
        valid = p->call.valid_count;
    }
    p->batch++;
    return notify(p, BG_ON_BATCH_END, valid, error);
}

static void unbind(bg_trainer *trainer, bg_trainer_task task)
{
    trainer->tasks[task].whole.is_bound = trainer->tasks[task].rest.is_bound = false;
}

/* Ends predictions. If there was no batch, they have their types and no rows. */
static bg_status end_predictions(pass *p, bg_error *error)
{
    if (p->predictions == NULL || p->predictions->rows != NULL)
        return BG_OK;
    BGI_TRY(prepare(p->trainer, p->task, error));
    return bgi_predictions_begin(p->predictions, &p->trainer->tasks[p->task].whole, p->arrays, error);
}

/* Runs an inference pass, and sends an event before it and one after it. */
static bg_status evaluate(pass *p, bg_error *error)
{
    static const bg_trainer_event_kind kinds[BG_TRAINER_TASK_COUNT][2] = {
        [BG_TRAINER_VALIDATE] = {BG_ON_VALIDATION_START, BG_ON_VALIDATION_END},
        [BG_TRAINER_TEST] = {BG_ON_TEST_START, BG_ON_TEST_END},
        [BG_TRAINER_PREDICT] = {BG_ON_PREDICT_START, BG_ON_PREDICT_END}};
    bool has_ended = false;

    BGI_TRY(find_limits(p, error));
    if (p->limit == 0)
        return BG_OK;
    BGI_TRY(begin_pass(p, error));
    BGI_TRY(notify(p, kinds[p->task][0], 0, error));
    while (!has_ended && has_more(p))
        BGI_TRY(take_batch(p, &has_ended, error));
    BGI_TRY(end_predictions(p, error));
    BGI_TRY(notify(p, kinds[p->task][1], 0, error));
    return bgi_report_write(p->trainer, p->task, p->source->loader, error);
}

static bg_status evaluate_data(bg_trainer *trainer, bg_trainer_task task, const bg_trainer_data *data, bg_array *arrays,
                               bg_error *error)
{
    bgi_predictions predictions = {0};
    bgi_source source;
    pass p = {.trainer = trainer,
              .task = task,
              .source = &source,
              .predictions = arrays != NULL ? &predictions : NULL,
              .arrays = arrays};
    bg_status status;

    trainer->should_stop = trainer->was_stopped = false;
    BGI_TRY(settle(trainer, task, error));
    BGI_TRY(bgi_source_open(trainer, task, data, bg_trainer_samples_per_call(trainer, task), &source, error));
    unbind(trainer, task);
    status = evaluate(&p, error);
    if (arrays != NULL)
        bgi_predictions_end(&predictions, status == BG_OK);
    bgi_source_close(&source);
    trainer->was_stopped = is_over(trainer);
    return status;
}

bg_status bg_trainer_validate(bg_trainer *trainer, const bg_trainer_data *data, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(trainer, "trainer", __func__, error));
    BGI_TRY(bgi_require(data, "data", __func__, error));
    return evaluate_data(trainer, BG_TRAINER_VALIDATE, data, NULL, error);
}

bg_status bg_trainer_test(bg_trainer *trainer, const bg_trainer_data *data, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(trainer, "trainer", __func__, error));
    BGI_TRY(bgi_require(data, "data", __func__, error));
    return evaluate_data(trainer, BG_TRAINER_TEST, data, NULL, error);
}

bg_status bg_trainer_predict(bg_trainer *trainer, const bg_trainer_data *data, bg_array *arrays, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(trainer, "trainer", __func__, error));
    BGI_TRY(bgi_require(data, "data", __func__, error));
    return evaluate_data(trainer, BG_TRAINER_PREDICT, data, arrays, error);
}

/* ---- fit ---- */

static bg_status validate_within(const pass *fit, bgi_source *validation, bg_error *error)
{
    pass p = {.trainer = fit->trainer, .task = BG_TRAINER_VALIDATE, .source = validation, .epoch = fit->epoch};

    return validation != NULL && !is_over(fit->trainer) ? evaluate(&p, error) : BG_OK;
}

static bool is_due(uint64_t done, uint64_t every)
{
    return every != 0 && done % every == 0;
}

/* Returns whether a multiple of `every` is among the numbers before + 1 .. step. */
static bool is_passed(uint64_t before, uint64_t step, uint64_t every)
{
    return every != 0 && step / every > before / every;
}

/* Notifies the callbacks that a checkpoint is due, and notes the step. */
static bg_status save(pass *p, bg_error *error)
{
    p->saved_step = p->trainer->step;
    return notify(p, BG_ON_SAVE_CHECKPOINT, 0, error);
}

/* Returns whether the epoch that has ended is the last one. */
static bool is_last(const pass *p)
{
    return is_over(p->trainer) || p->data_ended || updates_left(p->trainer) == 0 ||
           p->epoch + 1 >= p->trainer->options.max_epochs;
}

/* Returns whether the epoch's last batch is done, even if a stop arrived during it. */
static bool is_at_end(const pass *p)
{
    const uint64_t count = bgi_source_batch_count(p->source);

    return p->data_ended || updates_left(p->trainer) == 0 || (count > 0 && p->batch >= count) || p->batch >= p->limit;
}

static bg_status run_epoch(pass *p, bgi_source *validation, bool *out_is_whole, bg_error *error)
{
    const bg_trainer_options *options = &p->trainer->options;
    bool has_ended = false;

    BGI_TRY(begin_pass(p, error));
    BGI_TRY(notify(p, BG_ON_EPOCH_START, 0, error));
    while (!has_ended && has_more(p)) {
        const uint64_t step = p->trainer->step;
        BGI_TRY(take_batch(p, &has_ended, error));
        if (has_ended)
            break;
        if (is_due(p->batch, options->validate_batches) || is_due(p->batch, p->validate_every)) {
            BGI_TRY(validate_within(p, validation, error));
            p->validated_step = p->validate_every > 0 ? p->trainer->step : p->validated_step;
        }
        if (is_due(p->batch, options->checkpoint_batches) ||
            is_passed(step, p->trainer->step, options->checkpoint_steps))
            BGI_TRY(save(p, error));
    }
    *out_is_whole = has_ended || is_at_end(p);
    if (options->checkpoint_end && is_last(p) && p->saved_step != p->trainer->step)
        BGI_TRY(save(p, error));
    if (is_due(p->epoch + 1, options->validate_epochs) && p->validated_step != p->trainer->step)
        BGI_TRY(validate_within(p, validation, error));
    return notify(p, BG_ON_EPOCH_END, 0, error);
}

static bg_status run_epochs(pass *p, bgi_source *validation, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    const bg_trainer_options *options = &trainer->options;

    BGI_TRY(notify(p, BG_ON_FIT_START, 0, error));
    while (p->epoch < options->max_epochs && has_more(p)) {
        bool is_whole = false;

        BGI_TRY(run_epoch(p, validation, &is_whole, error));
        if (!is_whole)
            break; /* stopped within the epoch */
        trainer->epoch = ++p->epoch;
        p->batch = 0;
        if (is_due(p->epoch, options->checkpoint_epochs))
            BGI_TRY(save(p, error));
        if (is_over(trainer))
            break;
    }
    /* Handles a stop that arrived during the last validation or at the end of the epoch. */
    if (options->checkpoint_end && p->saved_step != trainer->step)
        BGI_TRY(save(p, error));
    return notify(p, BG_ON_FIT_END, 0, error);
}

bg_status bg_trainer_fit(bg_trainer *trainer, const bg_trainer_data *training, const bg_trainer_data *validation,
                         bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(trainer, "trainer", __func__, error));
    BGI_TRY(bgi_require(training, "training", __func__, error));

    bgi_source training_source = {0}, validation_source = {0};
    pass p = {.trainer = trainer,
              .task = BG_TRAINER_FIT,
              .source = &training_source,
              .epoch = trainer->first_epoch,
              .batch = trainer->first_batch,
              .validated_step = UINT64_MAX,
              .saved_step = trainer->step};
    bg_status status = BG_OK;

    trainer->should_stop = trainer->was_stopped = trainer->has_updated = false;
    trainer->epoch = trainer->first_epoch;
    trainer->first_epoch = trainer->first_batch = 0;
    BGI_TRY_CLEANUP(prepare(trainer, BG_TRAINER_FIT, error));
    if (trainer->is_resumed)
        BGI_TRY_CLEANUP(bg_session_set_step(trainer->tasks[BG_TRAINER_FIT].whole.session, trainer->step, error));
    trainer->is_resumed = false;
    BGI_TRY_CLEANUP(bgi_source_open(trainer, BG_TRAINER_FIT, training,
                                    bg_trainer_samples_per_call(trainer, BG_TRAINER_FIT), &training_source, error));
    unbind(trainer, BG_TRAINER_FIT);
    unbind(trainer, BG_TRAINER_VALIDATE);
    if (validation != NULL)
        BGI_TRY_CLEANUP(settle(trainer, BG_TRAINER_VALIDATE, error));
    if (validation != NULL)
        BGI_TRY_CLEANUP(bgi_source_open(trainer, BG_TRAINER_VALIDATE, validation,
                                        bg_trainer_samples_per_call(trainer, BG_TRAINER_VALIDATE), &validation_source,
                                        error));
    BGI_TRY_CLEANUP(find_limits(&p, error));
    BGI_TRY_CLEANUP(run_epochs(&p, validation != NULL ? &validation_source : NULL, error));
    BGI_TRY_CLEANUP(bgi_report_write(trainer, BG_TRAINER_FIT, training_source.loader, error));
cleanup:
    bgi_source_close(&validation_source);
    bgi_source_close(&training_source);
    trainer->has_updated = false;
    trainer->was_stopped = is_over(trainer);
    return status;
}
