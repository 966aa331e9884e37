/*
 * loop.c: passes over data: batches to calls, calls to metrics and events; a fit as a pass an epoch, with validation on
 * the way.
 *
 *     fit:   epoch { pass over the training data { ... validation { pass } ... } validation { pass } }
 *     pass:  batch { call, or a call of the whole updates and one of the rest }
 */
#include "train/trainer.h"

#include <inttypes.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"

/* One pass over a source. */
typedef struct pass {
    bg_trainer *trainer;
    bg_trainer_stage stage;
    bgi_source *source;
    bgi_predictions *predictions; /* NULL: none are kept */
    bg_array *arrays;             /* for them */
    bg_trainer_call call;         /* the newest */
    uint64_t epoch, batch, batch_count;
    uint64_t saved_step; /* of the newest checkpoint, or where the fit began */
    bool data_ended;     /* of an infeed */
} pass;

/* ---- events ---- */

static bg_status notify(pass *p, bg_trainer_event_kind kind, uint64_t valid_count, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    const bool has_call = kind == BG_ON_CALL_END || kind == BG_ON_BATCH_END;
    bg_trainer_event event = {.kind = kind,
                              .trainer = trainer,
                              .stage = p->stage,
                              .epoch = p->epoch,
                              .batch = p->batch,
                              .batch_count = p->batch_count,
                              .valid_count = valid_count,
                              .call = has_call ? &p->call : NULL};

    for (uint32_t i = 0; i < trainer->options.callback_count; i++) {
        const bg_trainer_callback *callback = &trainer->options.callbacks[i];
        const bg_status status = callback->function(callback->user, &event, error);
        if (status != BG_OK) {
            bg_error_set(error, status, "no reason given");
            return bg_error_context(error, status, "callback %u, %s", i, bg_trainer_event_name(kind));
        }
    }
    trainer->should_stop = trainer->should_stop || event.stop;
    return BG_OK;
}

static bool is_over(const bg_trainer *trainer)
{
    return trainer->should_stop || (trainer->options.interrupt != NULL && *trainer->options.interrupt != 0);
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

/* The numbers of the optimiser for the next call. */
static bg_status set_optimiser(bg_trainer *trainer, bgi_compiled *compiled, bg_error *error)
{
    const bg_trainer_options *options = &trainer->options;

    if (options->learning_rate != NULL) {
        bg_optimiser optimiser = trainer->optimiser;
        optimiser.learning_rate = options->learning_rate(options->learning_rate_user, trainer->step);
        if (optimiser.learning_rate != trainer->optimiser.learning_rate)
            BGI_TRY(bg_trainer_set_optimiser(trainer, &optimiser, error));
    }
    if (compiled->optimiser_version == trainer->optimiser_version)
        return BG_OK;
    compiled->optimiser_version = trainer->optimiser_version;
    return bg_session_set_optimiser(compiled->session, &trainer->optimiser, error);
}

/* What the call covers, its metrics and predictions, and the word to those who listen. */
static bg_status finish_call(pass *p, bgi_compiled *compiled, uint64_t iterations, uint64_t valid, uint64_t run_ns,
                             bg_error *error)
{
    bgi_stage *stage = &p->trainer->stages[p->stage];
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
                                .input_grouping = stage->options.input_grouping,
                                .first_update = p->trainer->step,
                                .update_count = compiled->training ? iterations : 0,
                                .sample_count = bgi_shape_samples(&done),
                                .run_ns = run_ns,
                                .is_whole = compiled == &stage->whole};
    p->call.valid_count = valid < p->call.sample_count ? valid : p->call.sample_count;
    p->trainer->step += p->call.update_count;
    stage->has_run = stage->has_run || p->call.is_whole;
    bgi_metrics_add(&stage->metrics, compiled, &p->call);
    if (p->predictions != NULL)
        BGI_TRY(bgi_predictions_add(p->predictions, compiled, &p->call, error));
    return notify(p, BG_ON_CALL_END, p->call.valid_count, error);
}

/* What follows from the first model that is compiled. */
static bg_status begin_results(pass *p, const bgi_compiled *compiled, bg_error *error)
{
    bgi_stage *stage = &p->trainer->stages[p->stage];

    if (stage->metrics.items == NULL)
        BGI_TRY(bgi_metrics_create(compiled, &stage->metrics, error));
    if (p->predictions != NULL && p->predictions->rows == NULL)
        return bgi_predictions_begin(p->predictions, compiled, p->arrays, error);
    return BG_OK;
}

/* What a call leaves idle copies the next ones' samples. */
static bool help_loader(void *user)
{
    return bg_loader_help(user);
}

/* One call on a batch's samples from `first` on; the first `valid` of them are no padding. */
static bg_status run_call(pass *p, bgi_compiled *compiled, const bg_batch *batch, uint64_t first, uint64_t valid,
                          bg_error *error)
{
    const bgi_source *source = p->source;
    const bg_run run = {.inputs = compiled->input_data,
                        .constants = compiled->constants,
                        .outputs = compiled->output_data,
                        .spare = help_loader,
                        .spare_user = source->loader};
    uint64_t start_ns;

    if (!compiled->is_bound)
        BGI_TRY(
            bgi_compiled_bind(compiled, p->trainer, source->types, source->tensor_count, source->data->names, error));
    BGI_TRY(begin_results(p, compiled, error));
    if (compiled->training)
        BGI_TRY(set_optimiser(p->trainer, compiled, error));
    set_arguments(p, compiled);
    bgi_compiled_set_inputs(compiled, batch->tensors, first);
    start_ns = bgi_clock_ns();
    BGI_TRY(bg_session_execute(compiled->session, &run, NULL, error));
    return finish_call(p, compiled, compiled->shape.iterations, valid, bgi_clock_ns() - start_ns, error);
}

/* Compiles when it has not been done: then the caller knows of no stage. */
static bg_status prepare(bg_trainer *trainer, bg_trainer_stage stage, bg_error *error)
{
    const bg_status status = bg_trainer_prepare(trainer, stage, error);

    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s", bg_trainer_stage_name(stage));
}

/* What a call takes is known before the first one: with total_devices the plan says it. */
static bg_status settle(bg_trainer *trainer, bg_trainer_stage stage, bg_error *error)
{
    return trainer->stages[stage].options.total_devices != 0 ? prepare(trainer, stage, error) : BG_OK;
}

/* The plan for what is left of a batch; the one of the last time when it fits. */
static bg_status prepare_rest(pass *p, const bgi_call_shape *shape, bg_error *error)
{
    bgi_stage *stage = &p->trainer->stages[p->stage];
    bgi_compiled rest;
    bg_status status;

    if (stage->rest.plan != NULL && bgi_call_shape_equal(&stage->rest.shape, shape))
        return BG_OK;
    status = bgi_compiled_create(p->trainer, p->stage, shape, true, &rest, error);
    if (status != BG_OK)
        return bg_error_context(error, status, "%s", bg_trainer_stage_name(p->stage));
    bgi_compiled_clear(&stage->rest);
    stage->rest = rest;
    return BG_OK;
}

/* All that is made of a batch: a call, or what its size and max_steps allow. */
static bg_status run_batch(pass *p, const bg_batch *batch, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    bgi_stage *stage = &trainer->stages[p->stage];
    const bool training = p->stage == BG_TRAINER_FIT;

    for (uint64_t first = 0; first < batch->sample_count;) {
        const uint64_t samples = batch->sample_count - first;
        const uint64_t valid = batch->valid_count > first ? batch->valid_count - first : 0;
        const uint64_t limit = training ? updates_left(trainer) : UINT64_MAX;
        bgi_call_shape shape = stage->shape;

        if (limit == 0)
            return BG_OK;
        if (samples == bgi_shape_samples(&shape) && limit >= (training ? shape.iterations : 1)) {
            BGI_TRY(prepare(trainer, p->stage, error));
            BGI_TRY(run_call(p, &stage->whole, batch, first, valid, error));
        } else {
            shape = bgi_shape_rest(&shape, training, samples, limit);
            BGI_TRY(prepare_rest(p, &shape, error));
            BGI_TRY(run_call(p, &stage->rest, batch, first, valid, error));
        }
        first += bgi_shape_samples(&shape);
    }
    return BG_OK;
}

/* One call whose data come from an infeed. */
static bg_status run_fed(pass *p, bool *out_has_run, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    bgi_stage *stage = &trainer->stages[p->stage];
    bgi_compiled *compiled = &stage->whole;
    const uint64_t limit = updates_left(trainer);
    bg_run run = {.infeed = p->source->data->infeed};
    uint64_t iterations = 0, start_ns;
    bg_error own = {0};
    bg_status status;

    BGI_TRY(begin_results(p, compiled, error));
    if (compiled->training)
        BGI_TRY(set_optimiser(trainer, compiled, error));
    set_arguments(p, compiled);
    bgi_compiled_set_inputs(compiled, NULL, 0);
    run.inputs = compiled->input_data;
    run.constants = compiled->constants;
    run.outputs = compiled->output_data;
    if (compiled->training && limit < compiled->shape.iterations)
        run.iterations = limit;
    start_ns = bgi_clock_ns();
    status = bg_session_execute(compiled->session, &run, &iterations, &own);
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

static bg_status begin_pass(pass *p, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    bgi_stage *stage = &trainer->stages[p->stage];
    const bg_trainer_data *data = p->source->data;
    const uint64_t limit = trainer->options.batch_limits[p->stage];
    uint64_t total = bgi_source_batch_count(p->source);

    bgi_metrics_reset(&stage->metrics);
    p->data_ended = false;
    p->batch_count = limit != BG_ALL_BATCHES && (total == 0 || limit < total) ? limit : total;
    if (p->stage == BG_TRAINER_FIT && trainer->options.max_steps != 0) {
        const uint64_t left = updates_left(trainer), per_call = stage->shape.iterations;
        const uint64_t most = p->batch + left / per_call + (left % per_call != 0);
        p->batch_count = p->batch_count == 0 || most < p->batch_count ? most : p->batch_count;
    }
    /* Inference sees its data in the same order each time, so that what it gives depends on the weights alone. */
    if (data->infeed == NULL)
        return bg_loader_begin_at(p->source->loader, p->stage == BG_TRAINER_FIT ? p->epoch : 0, p->batch, error);
    BGI_TRY(prepare(trainer, p->stage, error));
    if (!stage->whole.is_bound)
        BGI_TRY(bgi_compiled_bind(&stage->whole, trainer, NULL, 0, NULL, error));
    if (bg_infeed_plan(data->infeed) == stage->whole.plan)
        return BG_OK;
    return bg_infeed_start(data->infeed, stage->whole.session, error);
}

/* Whether the pass may take another batch. */
static bool has_more(const pass *p)
{
    const bg_trainer *trainer = p->trainer;

    return !is_over(trainer) && !p->data_ended && (p->stage != BG_TRAINER_FIT || updates_left(trainer) > 0) &&
           p->batch < trainer->options.batch_limits[p->stage];
}

/* One batch; *out_ended at the end of the data. */
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

static void unbind(bg_trainer *trainer, bg_trainer_stage stage)
{
    trainer->stages[stage].whole.is_bound = trainer->stages[stage].rest.is_bound = false;
}

/* Predictions of no batch at all have their types, and no rows. */
static bg_status end_predictions(pass *p, bg_error *error)
{
    if (p->predictions == NULL || p->predictions->rows != NULL)
        return BG_OK;
    BGI_TRY(prepare(p->trainer, p->stage, error));
    return bgi_predictions_begin(p->predictions, &p->trainer->stages[p->stage].whole, p->arrays, error);
}

/* A pass in inference between its two events. */
static bg_status evaluate(pass *p, bg_error *error)
{
    static const bg_trainer_event_kind kinds[BG_TRAINER_STAGE_COUNT][2] = {
        [BG_TRAINER_VALIDATE] = {BG_ON_VALIDATION_START, BG_ON_VALIDATION_END},
        [BG_TRAINER_TEST] = {BG_ON_TEST_START, BG_ON_TEST_END},
        [BG_TRAINER_PREDICT] = {BG_ON_PREDICT_START, BG_ON_PREDICT_END}};
    bool has_ended = false;

    if (p->trainer->options.batch_limits[p->stage] == 0)
        return BG_OK;
    BGI_TRY(begin_pass(p, error));
    BGI_TRY(notify(p, kinds[p->stage][0], 0, error));
    while (!has_ended && has_more(p))
        BGI_TRY(take_batch(p, &has_ended, error));
    BGI_TRY(end_predictions(p, error));
    BGI_TRY(notify(p, kinds[p->stage][1], 0, error));
    return bgi_report_write(p->trainer, p->stage, error);
}

static bg_status evaluate_data(bg_trainer *trainer, bg_trainer_stage stage, const bg_trainer_data *data,
                               bg_array *arrays, bg_error *error)
{
    bgi_predictions predictions = {0};
    bgi_source source;
    pass p = {.trainer = trainer,
              .stage = stage,
              .source = &source,
              .predictions = arrays != NULL ? &predictions : NULL,
              .arrays = arrays};
    bg_status status;

    trainer->should_stop = trainer->was_stopped = false;
    BGI_TRY(settle(trainer, stage, error));
    BGI_TRY(bgi_source_open(data, bg_trainer_samples_per_call(trainer, stage), &source, error));
    unbind(trainer, stage);
    status = evaluate(&p, error);
    if (arrays != NULL)
        bgi_predictions_end(&predictions, status == BG_OK);
    bgi_source_close(&source);
    trainer->was_stopped = is_over(trainer);
    return status;
}

bg_status bg_trainer_validate(bg_trainer *trainer, const bg_trainer_data *data, bg_error *error)
{
    return evaluate_data(trainer, BG_TRAINER_VALIDATE, data, NULL, error);
}

bg_status bg_trainer_test(bg_trainer *trainer, const bg_trainer_data *data, bg_error *error)
{
    return evaluate_data(trainer, BG_TRAINER_TEST, data, NULL, error);
}

bg_status bg_trainer_predict(bg_trainer *trainer, const bg_trainer_data *data, bg_array *arrays, bg_error *error)
{
    return evaluate_data(trainer, BG_TRAINER_PREDICT, data, arrays, error);
}

/* ---- fit ---- */

static bg_status validate_within(const pass *fit, bgi_source *validation, bg_error *error)
{
    pass p = {.trainer = fit->trainer, .stage = BG_TRAINER_VALIDATE, .source = validation, .epoch = fit->epoch};

    return validation != NULL && !is_over(fit->trainer) ? evaluate(&p, error) : BG_OK;
}

static bool is_due(uint64_t done, uint64_t every)
{
    return every != 0 && done % every == 0;
}

/* Whether a multiple of `every` lies in the updates from `before` to `step`. */
static bool is_passed(uint64_t before, uint64_t step, uint64_t every)
{
    return every != 0 && step / every > before / every;
}

/* The time for a checkpoint. */
static bg_status save(pass *p, bg_error *error)
{
    p->saved_step = p->trainer->step;
    return notify(p, BG_ON_SAVE_CHECKPOINT, 0, error);
}

/* Whether no epoch follows this one, which is over. */
static bool is_last(const pass *p)
{
    return is_over(p->trainer) || p->data_ended || updates_left(p->trainer) == 0 ||
           p->epoch + 1 >= p->trainer->options.max_epochs;
}

static bg_status run_epoch(pass *p, bgi_source *validation, bg_error *error)
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
        if (is_due(p->batch, options->validate_batches))
            BGI_TRY(validate_within(p, validation, error));
        if (is_due(p->batch, options->checkpoint_batches) ||
            is_passed(step, p->trainer->step, options->checkpoint_steps))
            BGI_TRY(save(p, error));
    }
    if (options->checkpoint_end && is_last(p) && p->saved_step != p->trainer->step)
        BGI_TRY(save(p, error));
    if (is_due(p->epoch + 1, options->validate_epochs))
        BGI_TRY(validate_within(p, validation, error));
    return notify(p, BG_ON_EPOCH_END, 0, error);
}

static bg_status run_epochs(pass *p, bgi_source *validation, bg_error *error)
{
    bg_trainer *trainer = p->trainer;
    const bg_trainer_options *options = &trainer->options;

    BGI_TRY(notify(p, BG_ON_FIT_START, 0, error));
    while (p->epoch < options->max_epochs && has_more(p)) {
        BGI_TRY(run_epoch(p, validation, error));
        if (is_over(trainer))
            break;
        trainer->epoch = ++p->epoch;
        p->batch = 0;
        if (is_due(p->epoch, options->checkpoint_epochs))
            BGI_TRY(save(p, error));
    }
    return notify(p, BG_ON_FIT_END, 0, error);
}

bg_status bg_trainer_fit(bg_trainer *trainer, const bg_trainer_data *training, const bg_trainer_data *validation,
                         bg_error *error)
{
    bgi_source training_source = {0}, validation_source = {0};
    pass p = {.trainer = trainer,
              .stage = BG_TRAINER_FIT,
              .source = &training_source,
              .epoch = trainer->first_epoch,
              .batch = trainer->first_batch,
              .saved_step = trainer->step};
    bg_status status = BG_OK;

    trainer->should_stop = trainer->was_stopped = false;
    trainer->epoch = trainer->first_epoch;
    trainer->first_epoch = trainer->first_batch = 0;
    BGI_TRY_CLEANUP(prepare(trainer, BG_TRAINER_FIT, error));
    if (trainer->is_resumed)
        bg_session_set_step(trainer->stages[BG_TRAINER_FIT].whole.session, trainer->step);
    trainer->is_resumed = false;
    BGI_TRY_CLEANUP(
        bgi_source_open(training, bg_trainer_samples_per_call(trainer, BG_TRAINER_FIT), &training_source, error));
    unbind(trainer, BG_TRAINER_FIT);
    unbind(trainer, BG_TRAINER_VALIDATE);
    if (validation != NULL)
        BGI_TRY_CLEANUP(settle(trainer, BG_TRAINER_VALIDATE, error));
    if (validation != NULL)
        BGI_TRY_CLEANUP(bgi_source_open(validation, bg_trainer_samples_per_call(trainer, BG_TRAINER_VALIDATE),
                                        &validation_source, error));
    BGI_TRY_CLEANUP(run_epochs(&p, validation != NULL ? &validation_source : NULL, error));
    BGI_TRY_CLEANUP(bgi_report_write(trainer, BG_TRAINER_FIT, error));
cleanup:
    bgi_source_close(&validation_source);
    bgi_source_close(&training_source);
    trainer->was_stopped = is_over(trainer);
    return status;
}
