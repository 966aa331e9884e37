/*
 * test_fit.c: a fit gives the same bits as a plain loop. This covers whole calls, the smaller last batch, batches that
 * max_steps cuts, other learning rates, a second epoch, a resumed run, and other data sources.
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

enum { MICRO_BATCH = 2 };

typedef struct fit_case {
    const char *name;
    uint64_t samples, epochs, max_steps;
    uint32_t iterations, accumulation, replicas, device_count;
    bool has_dropout, shuffles, has_schedule; /* the schedule of the learning rate */
    double clip;
    uint32_t group; /* groups of replicas that get the same data, consecutive or orthogonal; 0: each replica has
                       separate data */
    bool is_orthogonal, has_mesh;
} fit_case;

static uint32_t count_groups(const fit_case *c)
{
    return c->group > 0 ? c->replicas / c->group : c->replicas;
}

static bg_options options_of(const fit_case *c)
{
    bg_options options = bg_options_defaults();

    options.execution.device_iterations = c->iterations;
    options.execution.gradient_accumulation = c->accumulation;
    options.replicas.count = c->replicas;
    options.replicas.input_group_size = c->group > 0 ? c->group : 1;
    options.replicas.input_grouping = c->is_orthogonal ? BG_GROUPING_ORTHOGONAL : BG_GROUPING_CONSECUTIVE;
    options.numerics.seed = 11;
    options.numerics.max_gradient_norm = c->clip;
    return options;
}

static double falling_rate(void *user, uint64_t step)
{
    (void)user;
    return 0.05 / (1.0 + (double)step);
}

static bg_loader_options loading_for(const fit_case *c, uint64_t batch_size)
{
    bg_loader_options loading = bg_loader_options_defaults();

    loading.batch_size = batch_size;
    loading.drop_last = false;
    loading.shuffle = c->shuffles;
    loading.seed = 3;
    return loading;
}

static bg_trainer_options trainer_options(const fit_case *c, const test_net *net)
{
    bg_trainer_options options = bg_trainer_options_defaults();

    options.model = test_net_model;
    options.model_user = (void *)net;
    options.optimizer = bg_adam(0.05);
    options.micro_batch[BG_TRAINER_FIT] = MICRO_BATCH;
    options.strategy.devices = c->replicas;
    options.strategy.device_iterations = c->iterations;
    options.accumulate_grad_batches = c->accumulation;
    options.gradient_clip = c->clip;
    options.seed = 11;
    options.max_epochs = c->epochs;
    options.max_steps = c->max_steps;
    options.learning_rate = c->has_schedule ? falling_rate : NULL;
    return options;
}

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

/* ---- the plain loop ---- */

/* Returns the number of samples of the next call, by the rule of trainer.h. */
static uint64_t choose_call(const fit_case *c, uint64_t samples, uint64_t steps_left, bg_options *options,
                            uint32_t *out_micro_batch)
{
    const uint64_t groups = count_groups(c), per_update = MICRO_BATCH * c->accumulation * groups;
    uint64_t updates = samples / per_update;

    options->execution.gradient_accumulation = c->accumulation;
    options->replicas.count = c->replicas;
    *out_micro_batch = MICRO_BATCH;
    if (updates > 0) {
        updates = updates < steps_left ? updates : steps_left;
        options->execution.device_iterations = (uint32_t)updates;
        return updates * per_update;
    }
    options->execution.device_iterations = 1;
    options->replicas.count = samples % groups == 0 ? c->replicas : options->replicas.input_group_size;
    *out_micro_batch =
        samples * options->replicas.input_group_size / options->replicas.count % MICRO_BATCH == 0 ? MICRO_BATCH : 1;
    options->execution.gradient_accumulation =
        (uint32_t)(samples * options->replicas.input_group_size / options->replicas.count / *out_micro_batch);
    return samples;
}

static uint64_t train_plainly(const fit_case *c, const test_net *net, const bg_dataset *dataset, bg_weights *weights)
{
    const uint64_t per_call = (uint64_t)MICRO_BATCH * c->iterations * c->accumulation * count_groups(c);
    const bg_loader_options loading = loading_for(c, per_call);
    bg_options options = options_of(c);
    bg_error error = {0};
    bg_loader *loader;
    uint64_t step = 0;

    require(bg_loader_create(dataset, &loading, &loader, &error), &error, c->name);
    for (uint64_t epoch = 0; epoch < c->epochs; epoch++) {
        bg_batch batch;
        require(bg_loader_begin_epoch(loader, epoch, &error), &error, c->name);
        for (;;) {
            require(bg_loader_next(loader, &batch, &error), &error, c->name);
            if (batch.sample_count == 0)
                break;
            for (uint64_t first = 0; first < batch.sample_count && (c->max_steps == 0 || step < c->max_steps);) {
                const uint64_t left = c->max_steps == 0 ? UINT64_MAX : c->max_steps - step;
                uint32_t micro_batch;
                const uint64_t taken = choose_call(c, batch.sample_count - first, left, &options, &micro_batch);
                const void *inputs[2] = {(const float *)batch.tensors[0] + first * TEST_NET_FEATURES,
                                         (const uint8_t *)batch.tensors[1] + first};
                const bg_optimizer optimizer = bg_adam(c->has_schedule ? falling_rate(NULL, step) : 0.05);
                test_net_train(net, &options, &optimizer, micro_batch, weights, inputs);
                first += taken;
                step += options.execution.device_iterations;
            }
        }
    }
    bg_loader_destroy(loader);
    return step;
}

/* ---- the trainer's fit ---- */

static void train_and_compare(const fit_case *c)
{
    const test_net net = {.device_count = c->device_count, .has_dropout = c->has_dropout, .has_mesh = c->has_mesh};
    const bg_options given = options_of(c);
    bg_trainer_options options = trainer_options(c, &net);
    const bg_loader_options loading = loading_for(c, 0);
    test_net_samples samples;
    bg_weights *expected;
    bg_trainer *trainer;
    bg_error error = {0};
    bg_trainer_data data = {.loading = &loading};
    uint64_t steps;

    if (c->group > 0) {
        options.strategy.training_options = &given;
        options.accumulate_grad_batches = 1;
        options.gradient_clip = 0;
    }
    test_net_samples_make(&samples, c->samples);
    require(bg_weights_create(&expected, &error), &error, c->name);
    steps = train_plainly(c, &net, samples.dataset, expected);
    require(bg_trainer_create(&options, NULL, &trainer, &error), &error, c->name);
    data.dataset = samples.dataset;
    require(bg_trainer_fit(trainer, &data, NULL, &error), &error, c->name);
    assert_int_equal(bg_trainer_step(trainer), steps);
    assert_int_equal(bg_session_step(bg_trainer_session(trainer, BG_TRAINER_FIT)), steps);
    assert_false(bg_trainer_was_stopped(trainer));
    print_message("%s: %llu updates\n", c->name, (unsigned long long)steps);
    test_weights_expect(bg_trainer_weights(trainer), expected);
    bg_trainer_destroy(trainer);
    bg_weights_destroy(expected);
    test_net_samples_clear(&samples);
}

static void fits_equal_plain_loops(void **state)
{
    static const fit_case cases[] = {
        {"one epoch", 16, 1, 0, 2, 2, 1, 1, false, false, false, .clip = 0},
        {"three epochs, shuffled, dropout", 16, 3, 0, 2, 2, 1, 2, true, true, false, .clip = 0},
        {"a smaller last batch", 23, 2, 0, 2, 2, 1, 1, true, true, false, .clip = 0},
        {"a last batch of one sample", 17, 2, 0, 2, 2, 1, 4, true, false, false, .clip = 0},
        {"fewer samples than a call", 5, 2, 0, 4, 2, 2, 1, false, false, false, .clip = 0},
        {"max_steps within a call", 48, 2, 5, 3, 2, 1, 2, true, true, false, .clip = 0},
        {"max_steps within the rest", 22, 2, 7, 4, 1, 1, 1, true, true, false, .clip = 0},
        {"a learning rate for each call", 23, 2, 0, 2, 2, 1, 1, false, true, true, .clip = 0},
        {"replicas and accumulation", 38, 2, 0, 2, 3, 2, 2, true, true, false, .clip = 0},
        {"clipped", 23, 2, 0, 2, 2, 1, 4, false, true, false, .clip = 0.05},
        {"groups of replicas", 38, 2, 0, 2, 3, 4, 2, true, true, false, .group = 2},
        {"orthogonal groups", 38, 2, 0, 2, 1, 6, 1, true, true, false, .group = 2, .is_orthogonal = true},
        {"all in one group", 23, 2, 7, 2, 2, 3, 1, true, true, true, .group = 3},
        {"a mesh", 23, 2, 0, 2, 1, 4, 1, true, true, false, .group = 2, .has_mesh = true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        train_and_compare(&cases[i]);
}

/* Clipping must change results; otherwise the cases with clipping prove nothing. */
static void clipping_and_accumulation_matter(void **state)
{
    static const fit_case cases[] = {{"plain", 16, 1, 0, 2, 2, 1, 1, false, false, false, .clip = 0},
                                     {"clipped", 16, 1, 0, 2, 2, 1, 1, false, false, false, .clip = 0.05},
                                     {"accumulated", 16, 1, 0, 1, 4, 1, 1, false, false, false, .clip = 0}};
    const test_net net = {.device_count = 1};
    float values[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        bg_trainer_options options = trainer_options(&cases[i], &net);
        test_net_samples samples;
        bg_error error = {0};
        bg_trainer_data data = {0};
        bg_trainer *trainer;
        bg_weight weight;
        options.optimizer = bg_sgd(0.05);
        test_net_samples_make(&samples, 16);
        data.dataset = samples.dataset;
        require(bg_trainer_create(&options, NULL, &trainer, &error), &error, cases[i].name);
        require(bg_trainer_fit(trainer, &data, NULL, &error), &error, cases[i].name);
        assert_int_equal(bg_trainer_step(trainer), i == 2 ? 2 : 4);
        require(bg_weights_find(bg_trainer_weights(trainer), "third.bias", &weight, &error), &error, cases[i].name);
        values[i] = *(const float *)weight.data;
        bg_trainer_destroy(trainer);
        test_net_samples_clear(&samples);
    }
    assert_true(values[0] != values[1] && values[0] != values[2]);
}

/* A loader, a data set and an infeed with the same samples give the same weights, and so do iterations in one call or
 * one by one. */
static void sources_agree(void **state)
{
    static const fit_case whole = {"sources", 24, 2, 0, 3, 2, 1, 2, true, false, false, .clip = 0};
    const test_net net = {.device_count = 2, .has_dropout = true};
    bg_trainer *trainers[4];
    test_net_samples samples;
    bg_error error = {0};

    (void)state;
    test_net_samples_make(&samples, whole.samples);
    for (int way = 0; way < 4; way++) {
        fit_case c = whole;
        c.iterations = way == 3 ? 1 : 3;
        const bg_trainer_options options = trainer_options(&c, &net);
        const bg_loader_options loading = loading_for(&c, 12);
        const bg_trainer_data by_dataset = {.dataset = samples.dataset};
        bg_infeed_options infeed_options = bg_infeed_options_defaults();
        bg_trainer_data data = {0};
        require(bg_trainer_create(&options, NULL, &trainers[way], &error), &error, "create");
        if (way == 0)
            require(bg_loader_create(samples.dataset, &loading, &data.loader, &error), &error, "loader");
        infeed_options.repeat = true;
        if (way == 1)
            require(bg_infeed_create_dataset(samples.dataset, &infeed_options, &data.infeed, &error), &error, "infeed");
        if (way == 1) { /* the infeed has no end, so a limit makes epochs */
            bg_trainer_options limited = options;
            bg_trainer_destroy(trainers[way]);
            limited.batch_limits[BG_TRAINER_FIT] = 2;
            require(bg_trainer_create(&limited, NULL, &trainers[way], &error), &error, "create");
        }
        require(bg_trainer_fit(trainers[way], way < 2 ? &data : &by_dataset, NULL, &error), &error, "fit");
        assert_int_equal(bg_trainer_step(trainers[way]), 12);
        assert_int_equal(bg_trainer_epoch(trainers[way]), 2);
        if (way > 0)
            test_weights_expect(bg_trainer_weights(trainers[way]), bg_trainer_weights(trainers[0]));
        bg_infeed_destroy(data.infeed);
        bg_loader_destroy(data.loader);
    }
    for (int way = 0; way < 4; way++)
        bg_trainer_destroy(trainers[way]);
    test_net_samples_clear(&samples);
}

/* With canonical reductions the number of replicas changes neither the weights, even for a smaller last batch, nor the
 * metric, which covers all samples with output mode ALL. */
static void canonical_fits_agree(void **state)
{
    static const fit_case cases[] = {{"1 x 8", 2 * 32 + 11, 2, 0, 2, 8, 1, 1, true, true, true, .clip = 0.05},
                                     {"2 x 4", 2 * 32 + 11, 2, 0, 2, 4, 2, 2, true, true, true, .clip = 0.05},
                                     {"4 x 2", 2 * 32 + 11, 2, 0, 1, 2, 4, 1, true, true, true, .clip = 0.05},
                                     {"8 x 1", 2 * 32 + 11, 2, 0, 2, 1, 8, 1, true, true, true, .clip = 0.05},
                                     {"12 left", 2 * 32 + 12, 2, 0, 2, 8, 1, 1, true, true, false, .clip = 0},
                                     {"12 left, 2 x 4", 2 * 32 + 12, 2, 0, 2, 4, 2, 1, true, true, false, .clip = 0},
                                     {"8 left", 2 * 32 + 8, 2, 0, 2, 8, 1, 1, true, true, false, .clip = 0},
                                     {"8 left, 2 x 4", 2 * 32 + 8, 2, 0, 2, 4, 2, 1, true, true, false, .clip = 0}};
    bg_trainer *trainers[sizeof cases / sizeof cases[0]];
    bg_trainer_metric metrics[sizeof cases / sizeof cases[0]];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const test_net net = {.device_count = cases[i].device_count, .has_dropout = true};
        const bg_loader_options loading = loading_for(&cases[i], 0);
        const size_t first = i < 4 ? 0 : i - i % 2;
        bg_options given = options_of(&cases[i]);
        bg_trainer_options options = trainer_options(&cases[i], &net);
        test_net_samples samples;
        bg_trainer_data data = {.loading = &loading};
        bg_error error = {0};
        given.numerics.canonical_reductions = true;
        given.reporting.output_mode = BG_OUTPUT_ALL;
        options.strategy.training_options = &given;
        options.accumulate_grad_batches = 1;
        options.gradient_clip = 0;
        options.learning_rate_updates = true;
        test_net_samples_make(&samples, cases[i].samples);
        data.dataset = samples.dataset;
        require(bg_trainer_create(&options, NULL, &trainers[i], &error), &error, cases[i].name);
        require(bg_trainer_fit(trainers[i], &data, NULL, &error), &error, cases[i].name);
        require(bg_trainer_metric_find(trainers[i], BG_TRAINER_FIT, "loss", &metrics[i], &error), &error,
                cases[i].name);
        print_message("%s: loss %.17g\n", cases[i].name, metrics[i].mean);
        test_weights_expect(bg_trainer_weights(trainers[i]), bg_trainer_weights(trainers[first]));
        assert_int_equal(metrics[i].samples, cases[i].samples);
        assert_true(fabs(metrics[i].mean - metrics[first].mean) <= 1e-15 * metrics[first].mean);
        test_net_samples_clear(&samples);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        bg_trainer_destroy(trainers[i]);
}

/* If an infeed ends within a call, the updates before the end count. Their result is that of the first ten updates with
 * a loader. */
static void infeeds_end(void **state)
{
    static const fit_case c = {"infeed", 42, 2, 0, 4, 2, 1, 1, true, false, false, .clip = 0};
    fit_case ten = c;
    const test_net net = {.device_count = 1, .has_dropout = true};
    const bg_trainer_options options = trainer_options(&c, &net);
    const bg_infeed_options infeed_options = bg_infeed_options_defaults();
    bg_trainer_data data = {0};
    bg_trainer_metric metric;
    test_net_samples samples;
    bg_weights *expected;
    bg_trainer *trainer;
    bg_error error = {0};

    (void)state;
    test_net_samples_make(&samples, c.samples); /* 10 updates of 4 samples, and 2 samples */
    ten.max_steps = 10;
    require(bg_weights_create(&expected, &error), &error, "weights");
    assert_int_equal(train_plainly(&ten, &net, samples.dataset, expected), 10);
    require(bg_trainer_create(&options, NULL, &trainer, &error), &error, "create");
    require(bg_infeed_create_dataset(samples.dataset, &infeed_options, &data.infeed, &error), &error, "infeed");
    require(bg_trainer_fit(trainer, &data, NULL, &error), &error,
            "fit"); /* the infeed has no data for a second epoch */
    assert_int_equal(bg_trainer_step(trainer), 10);
    assert_int_equal(bg_trainer_epoch(trainer), 1);
    test_weights_expect(bg_trainer_weights(trainer), expected);
    require(bg_trainer_metric_find(trainer, BG_TRAINER_FIT, "loss", &metric, &error), &error, "loss");
    assert_int_equal(metric.samples, 3 * MICRO_BATCH); /* the last micro-batches of calls of 4, 4 and 2 updates */
    bg_infeed_destroy(data.infeed);
    bg_trainer_destroy(trainer);
    bg_weights_destroy(expected);
    test_net_samples_clear(&samples);
}

/* A fit is stopped in the middle of an epoch and resumed by another trainer with the same weights. */
typedef struct stopping {
    uint64_t at_step, epoch, batch, step;
} stopping;

static bg_status stop_at(void *user, bg_trainer_event *event, bg_error *error)
{
    stopping *s = user;

    (void)error;
    if (event->kind != BG_ON_SAVE_CHECKPOINT || bg_trainer_step(event->trainer) != s->at_step)
        return BG_OK;
    *s = (stopping){s->at_step, event->epoch, event->batch, bg_trainer_step(event->trainer)};
    event->stop = true;
    return BG_OK;
}

static void resumed_fits_are_as_never_stopped(void **state)
{
    static const fit_case c = {"resumed", 23, 3, 0, 2, 2, 1, 2, true, true, true, .clip = 0};
    const test_net net = {.device_count = 2, .has_dropout = true};
    const bg_loader_options loading = loading_for(&c, 0);
    bg_trainer_data data = {.loading = &loading};
    test_net_samples samples;
    bg_weights *expected;
    bg_error error = {0};

    (void)state;
    test_net_samples_make(&samples, c.samples);
    data.dataset = samples.dataset;
    require(bg_weights_create(&expected, &error), &error, "weights");
    assert_int_equal(train_plainly(&c, &net, samples.dataset, expected),
                     18); /* each epoch has 2, 2 and 1 + 1 updates */
    for (uint64_t at = 2; at <= 12; at += 2) {
        stopping s = {.at_step = at};
        const bg_trainer_callback callback = {stop_at, &s};
        bg_trainer_options options = trainer_options(&c, &net);
        bg_weights *weights;
        bg_trainer *trainer;
        require(bg_weights_create(&weights, &error), &error, "weights");
        options.checkpoint_batches = 1;
        options.callbacks = &callback, options.callback_count = 1;
        require(bg_trainer_create(&options, weights, &trainer, &error), &error, "create");
        require(bg_trainer_fit(trainer, &data, NULL, &error), &error, "fit");
        assert_true(bg_trainer_was_stopped(trainer));
        assert_int_equal(bg_trainer_step(trainer), at);
        assert_int_equal(s.step, at);
        bg_trainer_destroy(trainer);
        options.callback_count = 0;
        require(bg_trainer_create(&options, weights, &trainer, &error), &error, "create");
        bg_trainer_resume(trainer, s.epoch, s.batch, s.step);
        require(bg_trainer_fit(trainer, &data, NULL, &error), &error, "fit");
        assert_int_equal(bg_trainer_step(trainer), 18);
        assert_int_equal(bg_trainer_epoch(trainer), 3);
        test_weights_expect(weights, expected);
        bg_trainer_destroy(trainer);
        bg_weights_destroy(weights);
    }
    bg_weights_destroy(expected);
    test_net_samples_clear(&samples);
}

/* Settings change between two fits, and the second fit continues from the weights. Another kind of optimizer is an
 * error. */
static void optimizers_change_their_numbers(void **state)
{
    static const fit_case c = {"optimizer", 16, 1, 0, 2, 2, 1, 1, false, false, false, .clip = 0};
    const test_net net = {.device_count = 1};
    const bg_optimizer slow = bg_adam(0.001), other = bg_sgd(0.001);
    const bg_trainer_options trainer_made = trainer_options(&c, &net);
    bg_options options = bg_options_defaults();
    bg_trainer_data data = {0};
    test_net_samples samples;
    bg_weights *expected;
    bg_trainer *trainer;
    bg_error error = {0};

    (void)state;
    test_net_samples_make(&samples, c.samples);
    data.dataset = samples.dataset;
    require(bg_weights_create(&expected, &error), &error, "weights");
    train_plainly(&c, &net, samples.dataset, expected);
    options.execution.device_iterations = options.execution.gradient_accumulation = 2;
    for (int call = 0; call < 2; call++) {
        const void *inputs[2] = {(float *)samples.arrays[0].data + call * 8 * TEST_NET_FEATURES,
                                 (uint8_t *)samples.arrays[1].data + call * 8};
        test_net_train(&net, &options, &slow, MICRO_BATCH, expected, inputs);
    }
    require(bg_trainer_create(&trainer_made, NULL, &trainer, &error), &error, "create");
    require(bg_trainer_fit(trainer, &data, NULL, &error), &error, "fit");
    require(bg_trainer_set_optimizer(trainer, &slow, &error), &error, "optimizer");
    require(bg_trainer_fit(trainer, &data, NULL, &error), &error, "fit");
    assert_int_equal(bg_trainer_step(trainer), 8);
    test_weights_expect(bg_trainer_weights(trainer), expected);
    assert_int_equal(bg_trainer_set_optimizer(trainer, &other, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "only the optimizer's settings can change"));
    bg_trainer_destroy(trainer);
    bg_weights_destroy(expected);
    test_net_samples_clear(&samples);
}

/* Runs a fit over the samples, in calls of `iterations` updates; returns the weights, which the caller destroys. */
static bg_weights *fit_in_calls(uint32_t iterations, bool for_updates, uint32_t epochs)
{
    static const test_net net = {.device_count = 1};
    const fit_case c = {"rates", 26, epochs, 0, iterations, 1, 1, 1, .has_schedule = true};
    bg_trainer_options options = trainer_options(&c, &net);
    const bg_loader_options loading = loading_for(&c, 0);
    bg_trainer_data data = {.loading = &loading};
    test_net_samples samples;
    bg_weights *weights;
    bg_trainer *trainer;
    bg_error error = {0};

    options.learning_rate_updates = for_updates;
    test_net_samples_make(&samples, c.samples);
    data.dataset = samples.dataset;
    require(bg_weights_create(&weights, &error), &error, "weights");
    require(bg_trainer_create(&options, weights, &trainer, &error), &error, "create");
    require(bg_trainer_fit(trainer, &data, NULL, &error), &error, "fit");
    assert_int_equal(bg_trainer_step(trainer), 13 * epochs);
    bg_trainer_destroy(trainer);
    test_net_samples_clear(&samples);
    return weights;
}

/* Updates of one call, and of the call for the last samples, follow the schedule as if each update were a call. */
static void rates_are_those_of_updates(void **state)
{
    bg_weights *single = fit_in_calls(1, false, 2), *whole = fit_in_calls(5, true, 2),
               *coarse = fit_in_calls(5, false, 2);
    bg_weight a, b;
    bg_error error = {0};

    (void)state;
    test_weights_expect(whole, single);
    require(bg_weights_at(coarse, 0, &a, &error), &error, "a weight");
    require(bg_weights_at(single, 0, &b, &error), &error, "a weight");
    assert_memory_not_equal(a.data, b.data, bg_type_size_bytes(&a.type));
    bg_weights_destroy(single);
    bg_weights_destroy(whole);
    bg_weights_destroy(coarse);
}

/* ---- remote memory in files ---- */

/* Opens a trainer whose optimizer state is in files of `folder`, or in memory if `folder` is NULL. */
static bg_trainer *open_with_files(const char *folder, const test_net *net, bg_options *training, uint64_t steps)
{
    static const fit_case c = {"files", 16, 4, 0, 2, 1, 1, 1, .has_schedule = false};
    bg_trainer_options options = trainer_options(&c, net);
    bg_trainer *trainer;
    bg_error error = {0};

    *training = options_of(&c);
    training->memory.locations[BG_LOCATION_STATE].place = BG_PLACE_REMOTE;
    training->memory.locations[BG_LOCATION_STATE].minimum_elements_remote = 1;
    training->files.memmap_dir = folder;
    options.strategy.training_options = training;
    options.max_steps = steps;
    require(bg_trainer_create(&options, NULL, &trainer, &error), &error, "create");
    return trainer;
}

static bg_status fit_samples(bg_trainer *trainer, const test_net_samples *samples, bg_error *error)
{
    bg_loader_options loading = bg_loader_options_defaults();
    const bg_trainer_data data = {.dataset = samples->dataset, .loading = &loading};

    loading.shuffle = false;
    return bg_trainer_fit(trainer, &data, NULL, error);
}

/* The session of a fit may have its remote memory in files, from which another trainer resumes. */
static void fits_use_files(void **state)
{
    const test_net net = {.device_count = 1};
    char folder[TEST_FOLDER_BYTES];
    bg_options options;
    bg_trainer *expected = open_with_files(NULL, &net, &options, 0), *trainer;
    test_net_samples samples;
    bg_session *session;
    bg_error error = {0};

    (void)state;
    test_folder_create(folder);
    test_net_samples_make(&samples, 16);
    require(fit_samples(expected, &samples, &error), &error, "in memory");
    trainer = open_with_files(folder, &net, &options, 10);
    require(fit_samples(trainer, &samples, &error), &error, "in files");
    session = bg_trainer_session(trainer, BG_TRAINER_FIT);
    require(bg_session_flush(session, "", &error), &error, "flush");
    bg_trainer_destroy(trainer);

    trainer = open_with_files(folder, &net, &options, 0);
    require(bg_trainer_prepare(trainer, BG_TRAINER_FIT, &error), &error, "prepare");
    session = bg_trainer_session(trainer, BG_TRAINER_FIT);
    assert_non_null(bg_session_note(session));
    assert_int_equal(bg_session_step(session), 10);
    bg_trainer_resume(trainer, 1, 1, 10);
    require(fit_samples(trainer, &samples, &error), &error, "resumed");
    test_weights_expect(bg_trainer_weights(trainer), bg_trainer_weights(expected));
    bg_trainer_destroy(trainer);
    bg_trainer_destroy(expected);
    test_net_samples_clear(&samples);
    test_folder_remove(folder);
}

/* A task or call that needs a second session is an error, because this session would need the same files. */
static void other_sessions_are_refused_files(void **state)
{
    const test_net net = {.device_count = 1};
    char folder[TEST_FOLDER_BYTES];
    bg_options options;
    bg_trainer *trainer;
    bg_trainer_options with_test = bg_trainer_options_defaults();
    test_net_samples samples;
    bg_error error = {0};

    (void)state;
    test_folder_create(folder);
    trainer = open_with_files(folder, &net, &options, 3);
    test_net_samples_make(&samples, 16);
    assert_int_equal(fit_samples(trainer, &samples, &error), BG_ERROR_INVALID); /* a call has 2 updates */
    assert_non_null(strstr(error.message, "use a multiple of device_iterations for max_steps"));
    bg_trainer_destroy(trainer);
    with_test.model = test_net_model;
    with_test.model_user = (void *)(uintptr_t)&net;
    with_test.strategy.inference_options = &options;
    assert_int_equal(bg_trainer_create(&with_test, NULL, &trainer, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "is set in inference_options too"));
    test_net_samples_clear(&samples);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_equal_plain_loops),
        cmocka_unit_test(clipping_and_accumulation_matter),
        cmocka_unit_test(sources_agree),
        cmocka_unit_test(canonical_fits_agree),
        cmocka_unit_test(infeeds_end),
        cmocka_unit_test(resumed_fits_are_as_never_stopped),
        cmocka_unit_test(optimizers_change_their_numbers),
        cmocka_unit_test(rates_are_those_of_updates),
        cmocka_unit_test(fits_use_files),
        cmocka_unit_test(other_sessions_are_refused_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
