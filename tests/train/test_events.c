/*
 * test_events.c: tests which events callbacks receive and when, what ends a run, and how failures are reported.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <brigade.h>

#include "support/trainer_rig.h"

typedef struct listener {
    char text[8192];
    bg_trainer_event_kind at; /* the event at which the callback acts */
    uint64_t batch;           /* the batch of a fit at which the callback acts */
    enum { NOTHING, STOP, CALL_STOP, INTERRUPT, FAIL, FAIL_SILENTLY } deed;
    bool brief; /* events of batches and calls are not recorded */
} listener;

static volatile sig_atomic_t interrupt;
static bg_error error;

static void on_signal(int number)
{
    interrupt = number;
}

static void write_down(listener *l, const bg_trainer_event *event)
{
    const size_t length = strlen(l->text);
    const bool is_small =
        event->kind == BG_ON_BATCH_START || event->kind == BG_ON_CALL_END || event->kind == BG_ON_BATCH_END;

    if (l->brief && is_small)
        return;
    snprintf(l->text + length, sizeof l->text - length, "%s %s %d/%d\n", bg_trainer_task_name(event->task),
             bg_trainer_event_name(event->kind) + 3, (int)event->epoch, (int)event->batch);
}

static bg_status listen(void *user, bg_trainer_event *event, bg_error *why)
{
    listener *l = user;

    write_down(l, event);
    if (l->deed == NOTHING || event->kind != l->at || event->batch != l->batch || event->task != BG_TRAINER_FIT)
        return BG_OK;
    switch (l->deed) {
    case STOP:
        event->stop = true;
        return BG_OK;
    case CALL_STOP:
        bg_trainer_stop(event->trainer);
        return BG_OK;
    case INTERRUPT:
        raise(SIGINT);
        return BG_OK;
    case FAIL:
        return bg_error_set(why, BG_ERROR_CANCELED, "enough");
    default:
        return BG_ERROR_CANCELED;
    }
}

typedef struct rig {
    test_net net;
    test_net_samples samples;
    bg_loader_options loading;
    bg_trainer_data data;
    bg_trainer_options options;
    bg_trainer_callback callback;
    listener listener;
    bg_trainer *trainer;
} rig;

/* Opens a rig in which each epoch of 6 samples has one full call of 4 samples and a call for the last update. */
static void open_rig(rig *r)
{
    memset(&error, 0, sizeof error);
    interrupt = 0;
    test_net_samples_make(&r->samples, 6);
    r->loading = bg_loader_options_defaults();
    r->loading.drop_last = false;
    r->data = (bg_trainer_data){.dataset = r->samples.dataset, .loading = &r->loading};
    r->callback = (bg_trainer_callback){listen, &r->listener};
    r->options = bg_trainer_options_defaults();
    r->options.model = test_net_model;
    r->options.model_user = &r->net;
    r->options.micro_batch[BG_TRAINER_FIT] = 2;
    r->options.strategy.device_iterations = 2;
    r->options.callbacks = &r->callback, r->options.callback_count = 1;
    r->options.interrupt = &interrupt;
}

static void create(rig *r)
{
    if (bg_trainer_create(&r->options, NULL, &r->trainer, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void close_rig(rig *r)
{
    bg_trainer_destroy(r->trainer);
    test_net_samples_clear(&r->samples);
}

static void require(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

static void events_have_their_order(void **state)
{
    rig r = {0};

    (void)state;
    open_rig(&r);
    r.options.max_epochs = 2;
    r.options.checkpoint_epochs = 1;
    r.options.batch_limits[BG_TRAINER_VALIDATE] = 1;
    r.options.validate_epochs = 2;
    create(&r);
    require(bg_trainer_fit(r.trainer, &r.data, &r.data, &error));
    assert_string_equal(r.listener.text, "fit fit_start 0/0\n"
                                         "fit epoch_start 0/0\n"
                                         "fit batch_start 0/0\nfit call_end 0/0\nfit batch_end 0/1\n"
                                         "fit batch_start 0/1\nfit call_end 0/1\nfit batch_end 0/2\n"
                                         "fit epoch_end 0/2\n"
                                         "fit save_checkpoint 1/0\n"
                                         "fit epoch_start 1/0\n"
                                         "fit batch_start 1/0\nfit call_end 1/0\nfit batch_end 1/1\n"
                                         "fit batch_start 1/1\nfit call_end 1/1\nfit batch_end 1/2\n"
                                         "validate validation_start 1/0\n"
                                         "validate batch_start 1/0\nvalidate call_end 1/0\nvalidate batch_end 1/1\n"
                                         "validate validation_end 1/1\n"
                                         "fit epoch_end 1/2\n"
                                         "fit save_checkpoint 2/0\n"
                                         "fit fit_end 2/0\n");
    r.listener = (listener){.brief = true};
    require(bg_trainer_test(r.trainer, &r.data, &error));
    require(bg_trainer_predict(r.trainer, &r.data, NULL, &error));
    assert_string_equal(r.listener.text, "test test_start 0/0\ntest test_end 0/2\n"
                                         "predict predict_start 0/0\npredict predict_end 0/2\n");
    close_rig(&r);
}

/* Validation and checkpoints also occur within epochs; a task whose limit is 0 does not run. */
static void batches_have_validations(void **state)
{
    rig r = {.listener = {.brief = true}};

    (void)state;
    open_rig(&r);
    r.options.validate_batches = 1;
    r.options.validate_epochs = 0;
    r.options.checkpoint_batches = 2;
    create(&r);
    require(bg_trainer_fit(r.trainer, &r.data, &r.data, &error));
    assert_string_equal(r.listener.text, "fit fit_start 0/0\nfit epoch_start 0/0\n"
                                         "validate validation_start 0/0\nvalidate validation_end 0/2\n"
                                         "validate validation_start 0/0\nvalidate validation_end 0/2\n"
                                         "fit save_checkpoint 0/2\nfit epoch_end 0/2\nfit fit_end 1/0\n");
    bg_trainer_destroy(r.trainer);
    r.listener = (listener){.brief = true};
    r.options.batch_limits[BG_TRAINER_VALIDATE] = 0;
    create(&r);
    require(bg_trainer_fit(r.trainer, &r.data, &r.data, &error));
    require(bg_trainer_validate(r.trainer, &r.data, &error));
    assert_null(strstr(r.listener.text, "validat"));
    assert_null(bg_trainer_session(r.trainer, BG_TRAINER_VALIDATE));
    close_rig(&r);
}

static int count_text(const char *text, const char *part)
{
    int count = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
        count++;
    return count;
}

/* Shares of an epoch's eight batches are counted as in Lightning. */
static void shares_of_batches_are_lightnings(void **state)
{
    static const struct {
        double fit, validate, every;
        uint64_t number, epochs;      /* batch_limits, validate_epochs */
        int batches, validations, of; /* `of`: the batches of a validation */
    } cases[] = {
        {1.0, 1.0, 0.0, BG_ALL_BATCHES, 1, 8, 1, 8},
        {0.5, 0.25, 0.0, BG_ALL_BATCHES, 1, 4, 1, 2},
        {0.49, 0.99, 0.0, BG_ALL_BATCHES, 1, 3, 1, 7},
        {0.5, 1.0, 0.0, 3, 1, 3, 1, 3},
        {0.5, 1.0, 0.0, 6, 1, 4, 1, 6},
        {1.0, 0.125, 0.25, BG_ALL_BATCHES, 1, 8, 4, 1},
        {1.0, 0.125, 0.4, BG_ALL_BATCHES, 1, 8, 3, 1},
        {0.5, 0.125, 0.5, BG_ALL_BATCHES, 0, 4, 2, 1},
        {1.0, 0.125, 0.01, BG_ALL_BATCHES, 0, 8, 8, 1},
        {1.0, 0.0, 0.25, BG_ALL_BATCHES, 1, 8, 0, 0},
        {0.0, 1.0, 0.0, BG_ALL_BATCHES, 1, 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r = {0};

        open_rig(&r);
        r.options.micro_batch[BG_TRAINER_FIT] = 1;
        r.options.strategy.device_iterations = 1;
        test_net_samples_clear(&r.samples);
        test_net_samples_make(&r.samples, 8);
        r.data.dataset = r.samples.dataset;
        r.options.batch_shares[BG_TRAINER_FIT] = cases[i].fit;
        r.options.batch_shares[BG_TRAINER_VALIDATE] = cases[i].validate;
        r.options.batch_limits[BG_TRAINER_FIT] = r.options.batch_limits[BG_TRAINER_VALIDATE] = cases[i].number;
        r.options.validate_share = cases[i].every;
        r.options.validate_epochs = cases[i].epochs;
        create(&r);
        require(bg_trainer_fit(r.trainer, &r.data, &r.data, &error));
        assert_int_equal(count_text(r.listener.text, "fit batch_end"), cases[i].batches);
        assert_int_equal(count_text(r.listener.text, "validation_end"), cases[i].validations);
        assert_int_equal(count_text(r.listener.text, "validate batch_end"), cases[i].validations * cases[i].of);
        close_rig(&r);
    }
}

static void shares_that_cannot_be_are_errors(void **state)
{
    rig r = {0};

    (void)state;
    open_rig(&r);
    r.options.batch_shares[BG_TRAINER_TEST] = 1.5;
    r.options.validate_share = -1.0;
    assert_int_equal(bg_trainer_create(&r.options, NULL, &r.trainer, &error), BG_ERROR_INVALID);
    assert_non_null(
        strstr(error.message, "batch_shares of test is 1.5; give a share from 0 to 1, or a number in batch"));
    assert_non_null(strstr(error.message, "validate_share is -1; give a share"));
    r.options.batch_shares[BG_TRAINER_TEST] = 0.25;
    r.options.validate_share = 0.0;
    create(&r);
    assert_int_equal(bg_trainer_test(r.trainer, &r.data, &error), BG_ERROR_INVALID);
    assert_string_equal(error.message,
                        "test: batch_shares is 0.25, and 0.25 of 2 batches is less than one; give a larger "
                        "share, or 0 for none");
    close_rig(&r);
}

/* A checkpoint is written after a fixed number of updates, independent of the updates of a call, and again at the end
 * if some updates are not saved yet. */
static void updates_have_checkpoints(void **state)
{
    rig r = {.listener = {.brief = true}};

    (void)state;
    open_rig(&r);
    r.options.validate_epochs = 0;
    r.options.max_epochs = 3;
    r.options.checkpoint_steps = 4;
    r.options.checkpoint_end = true;
    create(&r);
    require(bg_trainer_fit(r.trainer, &r.data, NULL, &error)); /* batches of 2 updates and of 1 */
    assert_string_equal(r.listener.text, "fit fit_start 0/0\n"
                                         "fit epoch_start 0/0\nfit epoch_end 0/2\n"
                                         "fit epoch_start 1/0\nfit save_checkpoint 1/1\nfit epoch_end 1/2\n"
                                         "fit epoch_start 2/0\nfit save_checkpoint 2/1\nfit save_checkpoint 2/2\n"
                                         "fit epoch_end 2/2\nfit fit_end 3/0\n");
    bg_trainer_destroy(r.trainer);

    /* A run that ends by max_steps or a stop is saved at its end. */
    r.options.checkpoint_steps = 0;
    r.options.max_steps = 5;
    r.listener = (listener){.brief = true};
    create(&r);
    require(bg_trainer_fit(r.trainer, &r.data, NULL, &error));
    assert_non_null(strstr(r.listener.text, "fit epoch_start 1/0\nfit save_checkpoint 1/1\nfit epoch_end 1/1\n"));
    r.listener = (listener){.brief = true};
    require(bg_trainer_fit(r.trainer, &r.data, NULL, &error));
    assert_null(strstr(r.listener.text, "save")); /* no update was made */
    bg_trainer_destroy(r.trainer);
    r.options.max_steps = 0;
    r.listener = (listener){.at = BG_ON_CALL_END, .brief = true, .deed = STOP};
    create(&r);
    require(bg_trainer_fit(r.trainer, &r.data, NULL, &error));
    assert_string_equal(r.listener.text, "fit fit_start 0/0\nfit epoch_start 0/0\nfit save_checkpoint 0/1\n"
                                         "fit epoch_end 0/1\nfit fit_end 0/1\n");
    close_rig(&r);
}

/* Stops at one event of the first epoch, of any task. */
typedef struct early_stop {
    bg_trainer_event_kind at;
    uint64_t saves, saved_epoch, saved_batch, end_epoch;
} early_stop;

static bg_status stop_early(void *user, bg_trainer_event *event, bg_error *unused)
{
    early_stop *e = user;

    (void)unused;
    if (event->kind == BG_ON_SAVE_CHECKPOINT)
        e->saves++, e->saved_epoch = event->epoch, e->saved_batch = event->batch;
    if (event->kind == BG_ON_FIT_END)
        e->end_epoch = event->epoch;
    event->stop = event->kind == e->at && event->epoch == 0 && (event->batch == 2 || event->task != BG_TRAINER_FIT);
    return BG_OK;
}

/* A finished epoch counts even if a stop arrived during or after its last batch, and its checkpoint is written. */
static void an_early_stop_counts_the_epoch(void **state)
{
    static const bg_trainer_event_kind kinds[] = {BG_ON_BATCH_END, BG_ON_VALIDATION_END, BG_ON_EPOCH_END};

    (void)state;
    for (int k = 0; k < 3; k++) {
        early_stop stop = {.at = kinds[k]};
        rig r = {0};
        open_rig(&r);
        r.callback = (bg_trainer_callback){stop_early, &stop};
        r.options.max_epochs = 3;
        r.options.checkpoint_end = true;
        create(&r);
        require(bg_trainer_fit(r.trainer, &r.data, &r.data, &error));
        assert_true(bg_trainer_was_stopped(r.trainer));
        assert_int_equal(bg_trainer_step(r.trainer), 3);
        assert_int_equal(bg_trainer_epoch(r.trainer), 1);
        assert_int_equal(stop.end_epoch, 1);
        assert_int_equal(stop.saves, 1);
        /* The end of an epoch and the beginning of the next are the same place. */
        assert_true((stop.saved_epoch == 1 && stop.saved_batch == 0) ||
                    (stop.saved_epoch == 0 && stop.saved_batch == 2));
        close_rig(&r);
    }
}

/* For every way to request a stop, the fit ends after the current batch and can be started again. */
static void runs_can_be_stopped(void **state)
{
    struct sigaction action = {.sa_handler = on_signal}, before;

    (void)state;
    assert_int_equal(sigaction(SIGINT, &action, &before), 0);
    for (int deed = STOP; deed <= INTERRUPT; deed++) {
        rig r = {.listener = {.at = BG_ON_CALL_END, .brief = true}};
        open_rig(&r);
        r.listener.deed = deed;
        r.options.max_epochs = 5;
        create(&r);
        require(bg_trainer_fit(r.trainer, &r.data, &r.data, &error));
        assert_true(bg_trainer_was_stopped(r.trainer));
        assert_int_equal(bg_trainer_step(r.trainer), 2);
        assert_int_equal(bg_trainer_epoch(r.trainer), 0);
        assert_string_equal(r.listener.text,
                            "fit fit_start 0/0\nfit epoch_start 0/0\nfit epoch_end 0/1\nfit fit_end 0/1\n");
        r.listener.deed = NOTHING;
        interrupt = 0;
        require(bg_trainer_fit(r.trainer, &r.data, NULL, &error));
        assert_false(bg_trainer_was_stopped(r.trainer));
        assert_int_equal(bg_trainer_step(r.trainer), 2 + 5 * 3);
        interrupt = 1; /* before the fit begins */
        require(bg_trainer_test(r.trainer, &r.data, &error));
        assert_true(bg_trainer_was_stopped(r.trainer));
        assert_null(bg_trainer_session(r.trainer, BG_TRAINER_TEST));
        close_rig(&r);
    }
    assert_int_equal(sigaction(SIGINT, &before, NULL), 0);
}

/* The state of a callback that sends a signal while a plan is being made, after an event has occurred. */
typedef struct signal_in_plan {
    bg_trainer_event_kind at;
    test_net *net;
    bool is_armed;
    int saves;
} signal_in_plan;

static bg_status arm(void *user, bg_trainer_event *event, bg_error *unused)
{
    signal_in_plan *s = user;

    (void)unused;
    s->saves += event->kind == BG_ON_SAVE_CHECKPOINT;
    s->is_armed = s->is_armed || event->kind == s->at;
    return BG_OK;
}

static bg_value interrupted_model(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch)
{
    const signal_in_plan *s = user;

    interrupt = s->is_armed ? SIGTERM : 0;
    return test_net_model(s->net, graph, task, micro_batch);
}

static bool is_interrupted(void *user)
{
    (void)user;
    return interrupt != 0;
}

/* Runs a fit that gets the signal. An epoch has a call of two updates and a call of one update. With a limit of one
 * update, only one update runs. */
static void fit_with_signal(signal_in_plan *s, bool validates, uint64_t most, bg_status expected, uint64_t step)
{
    bg_options fit = bg_options_defaults(), inference;
    rig r = {0};

    open_rig(&r);
    s->net = &r.net;
    fit.execution.device_iterations = 2;
    fit.execution.stop = is_interrupted;
    inference = fit;
    r.options.model = interrupted_model;
    r.options.model_user = s;
    r.callback = (bg_trainer_callback){arm, s};
    r.options.strategy.training_options = &fit;
    r.options.strategy.inference_options = &inference;
    r.options.max_epochs = 5;
    r.options.max_steps = most;
    r.options.validate_batches = 1;
    r.options.checkpoint_end = true;
    create(&r);
    assert_int_equal(bg_trainer_fit(r.trainer, &r.data, validates ? &r.data : NULL, &error), expected);
    assert_int_equal(interrupt, SIGTERM);
    assert_int_equal(bg_trainer_step(r.trainer), step);
    assert_int_equal(s->saves, expected == BG_OK ? 1 : 0);
    assert_true(bg_trainer_was_stopped(r.trainer));
    close_rig(&r);
}

/* After the first update, a signal while a plan (of the smaller last batch or of a validation) is made ends the fit
 * like a signal during a call. The fit is stopped, not canceled, and the checkpoint is written. */
static void a_signal_while_a_plan_is_made_loses_no_update(void **state)
{
    signal_in_plan rest = {.at = BG_ON_BATCH_END}, validation = rest, first = {.at = BG_ON_FIT_START};

    (void)state;
    fit_with_signal(&rest, false, 0, BG_OK, 3);
    fit_with_signal(&validation, true, 0, BG_OK, 2);
    fit_with_signal(&first, false, 1, BG_ERROR_CANCELED, 0);
}

static void callbacks_that_fail_say_where(void **state)
{
    (void)state;
    for (int deed = FAIL; deed <= FAIL_SILENTLY; deed++) {
        rig r = {.listener = {.at = BG_ON_BATCH_END, .batch = 2}};
        open_rig(&r);
        r.listener.deed = deed;
        create(&r);
        assert_int_equal(bg_trainer_fit(r.trainer, &r.data, NULL, &error), BG_ERROR_CANCELED);
        assert_string_equal(error.message,
                            deed == FAIL
                                ? "callback 0, on_batch_end: enough"
                                : "callback 0, on_batch_end: the function reported 'canceled' without a message");
        assert_int_equal(bg_trainer_step(r.trainer), 3);
        assert_int_equal(bg_trainer_fit(r.trainer, &r.data, NULL, NULL), BG_ERROR_CANCELED);
        close_rig(&r);
    }
}

static bg_status run_task(rig *r, bg_trainer_task task)
{
    return task == BG_TRAINER_FIT        ? bg_trainer_fit(r->trainer, &r->data, NULL, &error)
           : task == BG_TRAINER_VALIDATE ? bg_trainer_validate(r->trainer, &r->data, &error)
           : task == BG_TRAINER_TEST     ? bg_trainer_test(r->trainer, &r->data, &error)
                                         : bg_trainer_predict(r->trainer, &r->data, NULL, &error);
}

static void models_that_fail_name_their_task(void **state)
{
    rig r = {0};

    (void)state;
    open_rig(&r);
    create(&r);
    for (int task = 0; task < BG_TRAINER_TASK_COUNT; task++) {
        bg_error prepared = {0};
        char wanted[64];
        memset(&error, 0, sizeof error);
        r.net.fails[task] = true;
        snprintf(wanted, sizeof wanted, "%s: ", bg_trainer_task_name((bg_trainer_task)task));
        assert_int_equal(run_task(&r, (bg_trainer_task)task), BG_ERROR_SHAPE);
        assert_ptr_equal(strstr(error.message, wanted), error.message);
        assert_non_null(strstr(error.message, "this model is broken"));
        /* Errors of a single task do not name the task. */
        assert_int_equal(bg_trainer_prepare(r.trainer, (bg_trainer_task)task, &prepared), BG_ERROR_SHAPE);
        assert_string_equal(prepared.message, error.message + strlen(wanted));
        r.net.fails[task] = false;
        require(bg_trainer_prepare(r.trainer, (bg_trainer_task)task, &error)); /* with a limit of batches */
    }
    /* The plan for the last samples fails when it is needed. */
    memset(&error, 0, sizeof error);
    r.net.fails[BG_TRAINER_FIT] = true;
    assert_int_equal(bg_trainer_fit(r.trainer, &r.data, NULL, &error), BG_ERROR_SHAPE);
    assert_int_equal(bg_trainer_step(r.trainer), 2);
    assert_null(bg_trainer_rest_session(r.trainer, BG_TRAINER_FIT));
    close_rig(&r);
}

static bg_status fail_at_five(void *user, uint64_t epoch, uint64_t sample_index, void *const outputs[], bg_error *why)
{
    (void)user, (void)epoch;
    if (sample_index == 5)
        return bg_error_set(why, BG_ERROR_IO, "the disk is gone");
    memset(outputs[0], 0, TEST_NET_FEATURES * sizeof(float));
    memset(outputs[1], 0, 1);
    return BG_OK;
}

static void data_that_fail_are_reported(void **state)
{
    const bg_type types[2] = {bg_vector(BG_FLOAT32, TEST_NET_FEATURES), bg_scalar(BG_UINT8)};
    const bg_dataset_options broken = {
        .sample_count = 8, .sample_types = types, .tensor_count = 2, .get = fail_at_five};
    const bg_infeed_options infeed_options = bg_infeed_options_defaults();
    static const char *const names[] = {"x", "y"};
    bg_dataset *dataset;
    bg_loader *loader;
    rig r = {0};

    (void)state;
    open_rig(&r);
    create(&r);
    require(bg_dataset_create(&broken, &dataset, &error));
    bg_trainer_data data = {.dataset = dataset};
    assert_int_equal(bg_trainer_fit(r.trainer, &data, NULL, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "the disk is gone"));
    assert_int_equal(bg_trainer_step(r.trainer), 2);

    /* A failure of an infeed's source is not treated as the end of the data, whatever status the source returns. */
    memset(&error, 0, sizeof error);
    data = (bg_trainer_data){0};
    require(bg_infeed_create_dataset(dataset, &infeed_options, &data.infeed, &error));
    assert_int_equal(bg_trainer_fit(r.trainer, &data, NULL, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "the disk is gone"));

    memset(&error, 0, sizeof error);
    data.dataset = r.samples.dataset;
    assert_int_equal(bg_trainer_test(r.trainer, &data, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "2 are given"));
    bg_infeed_destroy(data.infeed);

    memset(&error, 0, sizeof error);
    data = (bg_trainer_data){.dataset = r.samples.dataset, .loading = &r.loading, .names = names};
    assert_int_equal(bg_trainer_fit(r.trainer, &data, NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "input `labels` has no data"));

    memset(&error, 0, sizeof error);
    r.loading.batch_size = 5;
    data = (bg_trainer_data){0};
    require(bg_loader_create(r.samples.dataset, &r.loading, &data.loader, &error));
    loader = data.loader;
    assert_int_equal(bg_trainer_fit(r.trainer, &data, NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "the loader's batches have 5 samples, but a call takes 4"));
    bg_loader_destroy(loader);
    close_rig(&r);
    bg_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_have_their_order),
        cmocka_unit_test(batches_have_validations),
        cmocka_unit_test(shares_of_batches_are_lightnings),
        cmocka_unit_test(shares_that_cannot_be_are_errors),
        cmocka_unit_test(updates_have_checkpoints),
        cmocka_unit_test(runs_can_be_stopped),
        cmocka_unit_test(an_early_stop_counts_the_epoch),
        cmocka_unit_test(a_signal_while_a_plan_is_made_loses_no_update),
        cmocka_unit_test(callbacks_that_fail_say_where),
        cmocka_unit_test(models_that_fail_name_their_task),
        cmocka_unit_test(data_that_fail_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
