/*
 * test_watch.c: tests fits that end when a metric stops improving, the weights of the best epoch, the losses that
 * plateau schedules receive, and averages of weights.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade.h>

#include "support/folder.h"
#include "support/trainer_rig.h"

enum { SAMPLES = 8, MICRO_BATCH = 2, MOST_CALLS = 16 };

/* The weights of the second layer after each call, and their average, computed by definition. */
typedef struct history {
    double values[MOST_CALLS][64];
    int64_t elements;
    int calls;
    uint64_t updates[MOST_CALLS];
} history;

static bg_error error;

static void require(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

/* Finds a matrix among the parameters of the rig's net. */
static void find_parameter(bg_weights *weights, bg_weight *out)
{
    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        require(bg_weights_at(weights, i, out, &error));
        if (out->role == BG_ROLE_PARAMETER && out->type.rank == 2)
            return;
    }
    fail_msg("there is no matrix among the parameters");
}

static bg_status write_down(void *user, bg_trainer_event *event, bg_error *why)
{
    history *h = user;
    bg_weight weight;

    (void)why;
    if (event->kind != BG_ON_CALL_END || event->task != BG_TRAINER_FIT)
        return BG_OK;
    assert_true(h->calls < MOST_CALLS);
    find_parameter(bg_trainer_weights(event->trainer), &weight);
    h->elements = bg_type_element_count(&weight.type);
    assert_true(h->elements <= 64);
    h->updates[h->calls] = event->call->update_count;
    for (int64_t i = 0; i < h->elements; i++)
        h->values[h->calls][i] = (double)((const float *)weight.data)[i];
    h->calls++;
    return BG_OK;
}

/* Runs a fit of `epochs` with these callbacks; `weights` has the trained weights. Returns the number of epochs. */
static uint64_t fit(uint64_t epochs, const bg_trainer_callback *callbacks, uint32_t count,
                    double (*rate)(void *user, uint64_t step), void *rate_user, bg_weights *weights, bg_status expected)
{
    test_net net = {0};
    test_net_samples samples;
    bg_trainer_options options = bg_trainer_options_defaults();
    bg_trainer *trainer;
    bg_trainer_data data;
    uint64_t done;

    test_net_samples_make(&samples, SAMPLES);
    data = (bg_trainer_data){.dataset = samples.dataset};
    options.model = test_net_model;
    options.model_user = &net;
    options.optimizer = bg_sgd(0.05);
    options.micro_batch[BG_TRAINER_FIT] = MICRO_BATCH;
    options.strategy.device_iterations = 2;
    options.max_epochs = epochs;
    options.callbacks = callbacks, options.callback_count = count;
    options.learning_rate = rate;
    options.learning_rate_user = rate_user;
    require(bg_trainer_create(&options, weights, &trainer, &error));
    if (bg_trainer_fit(trainer, &data, &data, &error) != expected)
        fail_msg("%s", error.message);
    done = bg_trainer_epoch(trainer);
    bg_trainer_destroy(trainer);
    test_net_samples_clear(&samples);
    return done;
}

static bg_weights *make_weights(void)
{
    bg_weights *weights;

    require(bg_weights_create(&weights, &error));
    return weights;
}

/* Returns a learning rate that is 0 in the second epoch, and from the fourth epoch on. */
static double rate_with_pauses(void *user, uint64_t step)
{
    const uint64_t epoch = step / (SAMPLES / MICRO_BATCH);

    (void)user;
    return epoch == 1 || epoch >= 3 ? 0.0 : 0.05;
}

static void a_fit_ends_without_progress(void **state)
{
    bg_watch watch = bg_watch_defaults("loss");
    const bg_trainer_callback callback = {bg_watch_event, &watch};
    bg_weights *weights = make_weights(), *first = make_weights();

    (void)state;
    /* The loss falls during training, so the fit does not end early. */
    watch.patience = 0;
    assert_int_equal(fit(5, &callback, 1, NULL, NULL, weights, BG_OK), 5);
    assert_false(watch.has_stopped);
    assert_int_equal(watch.best_step, 5 * SAMPLES / MICRO_BATCH);
    /* If larger values were better, the first would be the best, and the third after it would exceed the patience. */
    watch = bg_watch_defaults("loss");
    watch.rises = true;
    watch.patience = 2;
    watch.best_weights = make_weights();
    bg_weights_destroy(weights);
    weights = make_weights();
    assert_int_equal(fit(9, &callback, 1, NULL, NULL, weights, BG_OK), 4);
    assert_true(watch.has_stopped);
    assert_int_equal(watch.worse_count, 3);
    assert_int_equal(watch.best_step, SAMPLES / MICRO_BATCH);
    fit(1, NULL, 0, NULL, NULL, first, BG_OK);
    test_weights_expect(watch.best_weights, first);
    bg_weights_destroy(watch.best_weights);
    /* Progress resets the count: the fifth epoch is the second in a row without progress. */
    watch = bg_watch_defaults("loss");
    watch.patience = 1;
    bg_weights_destroy(weights);
    weights = make_weights();
    assert_int_equal(fit(9, &callback, 1, rate_with_pauses, NULL, weights, BG_OK), 5);
    assert_int_equal(watch.worse_count, 2);
    bg_weights_destroy(weights);
    bg_weights_destroy(first);
}

/* An improvement below the least change is not progress. */
static void small_changes_do_not_count(void **state)
{
    bg_watch watch = bg_watch_defaults("loss");
    const bg_trainer_callback callback = {bg_watch_event, &watch};
    bg_weights *weights = make_weights();

    (void)state;
    watch.patience = 0;
    watch.least_change = 100.0;
    assert_int_equal(fit(5, &callback, 1, NULL, NULL, weights, BG_OK), 2);
    assert_true(watch.has_stopped);
    bg_weights_destroy(weights);
}

static void plateaus_hear_of_it(void **state)
{
    bg_rate_schedule rate = bg_rate_make(BG_RATE_PLATEAU, 0.05, 0);
    bg_watch watch = bg_watch_defaults("loss");
    const bg_trainer_callback callback = {bg_watch_event, &watch};
    bg_weights *weights = make_weights();

    (void)state;
    rate.patience = 1;
    watch.rises = true; /* as if larger values were better */
    watch.plateau = &rate;
    fit(3, &callback, 1, bg_rate_at, &rate, weights, BG_OK);
    assert_true(fabs(bg_rate_at(&rate, 0) - 0.005) < 1e-15);
    assert_true(rate.best < 0.0);
    bg_weights_destroy(weights);
}

static void the_best_has_a_checkpoint(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    bg_watch watch = bg_watch_defaults("loss");
    const bg_trainer_callback callback = {bg_watch_event, &watch};
    bg_weights *weights = make_weights(), *loaded = make_weights();
    bg_checkpoint checkpoint;

    (void)state;
    test_folder_create(folder);
    watch.best_directory = folder;
    fit(3, &callback, 1, NULL, NULL, weights, BG_OK);
    require(bg_checkpoint_load_weights(loaded, folder, NULL, &checkpoint, &error));
    assert_int_equal(checkpoint.step, 3 * SAMPLES / MICRO_BATCH);
    bg_checkpoint_clear(&checkpoint);
    bg_weights_destroy(weights);
    bg_weights_destroy(loaded);
    test_folder_remove(folder);
}

static void a_metric_that_is_not_there(void **state)
{
    bg_watch watch = bg_watch_defaults("accuracy");
    const bg_trainer_callback callback = {bg_watch_event, &watch};
    bg_weights *weights = make_weights();

    (void)state;
    fit(1, &callback, 1, NULL, NULL, weights, BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "has no metric `accuracy`"));
    bg_weights_destroy(weights);
}

static void averages_are_those_of_the_calls(void **state)
{
    history h = {.calls = 0};
    bg_average average = bg_average_make(0.8, make_weights());
    const bg_trainer_callback callbacks[] = {{write_down, &h}, {bg_average_event, &average}};
    bg_weights *weights = make_weights();
    double wanted[64] = {0};
    bg_weight found;

    (void)state;
    fit(3, callbacks, 2, NULL, NULL, weights, BG_OK);
    assert_true(h.calls >= 4);
    for (int call = 0; call < h.calls; call++)
        for (int64_t i = 0; i < h.elements; i++) {
            const double decay = call == 0 ? 0.0 : pow(0.8, (double)h.updates[call]);
            wanted[i] = decay * wanted[i] + (1.0 - decay) * h.values[call][i];
        }
    find_parameter(average.weights, &found);
    for (int64_t i = 0; i < h.elements; i++)
        assert_true(fabs((double)((const float *)found.data)[i] - wanted[i]) < 1e-6);
    assert_true(fabs(wanted[0] - h.values[h.calls - 1][0]) > 1e-5);
    average.decay = 1.5;
    fit(1, callbacks + 1, 1, NULL, NULL, weights, BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "decay is 1.5"));
    bg_weights_destroy(average.weights);
    bg_weights_destroy(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fit_ends_without_progress), cmocka_unit_test(small_changes_do_not_count),
        cmocka_unit_test(plateaus_hear_of_it),         cmocka_unit_test(the_best_has_a_checkpoint),
        cmocka_unit_test(a_metric_that_is_not_there),  cmocka_unit_test(averages_are_those_of_the_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
