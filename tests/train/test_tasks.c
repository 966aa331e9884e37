/*
 * test_tasks.c: each task has a separate plan over the same weights. The test covers results as metrics and as arrays,
 * arguments, casts and reports.
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

#include "kernels/reference/element.h"
#ifdef TEST_RANKS
#include "ranks/wrap.h"
#endif
#include "support/folder.h"
#include "support/trainer_rig.h"

enum { SAMPLES = 11, MICRO_BATCH = 2 };

static bg_error error;

static void require(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

/* Returns options with batches of 4, 4 and 3 samples. */
static bg_trainer_options options_for(const test_net *net)
{
    bg_trainer_options options = bg_trainer_options_defaults();

    memset(&error, 0, sizeof error);
    options.model = test_net_model;
    options.model_user = (void *)net;
    options.optimizer = bg_sgd(0.1);
    options.micro_batch[BG_TRAINER_FIT] = MICRO_BATCH;
    options.strategy.device_iterations = 2;
    options.initialize_missing = true;
    return options;
}

typedef struct rig {
    test_net net;
    test_net_samples samples;
    bg_loader_options loading;
    bg_trainer_data data;
    bg_trainer *trainer;
} rig;

static void open_rig(rig *r, const bg_trainer_options *options)
{
    test_net_samples_make(&r->samples, SAMPLES);
    r->loading = bg_loader_options_defaults();
    r->loading.drop_last = false;
    r->data = (bg_trainer_data){.dataset = r->samples.dataset, .loading = &r->loading};
    require(bg_trainer_create(options, NULL, &r->trainer, &error));
}

static void close_rig(rig *r)
{
    bg_trainer_destroy(r->trainer);
    test_net_samples_clear(&r->samples);
}

static bg_trainer_metric find(const rig *r, bg_trainer_task task, const char *name)
{
    bg_trainer_metric metric = {0};

    require(bg_trainer_metric_find(r->trainer, task, name, &metric, &error));
    return metric;
}

/* ---- tasks ---- */

static bg_status run_task(rig *r, bg_trainer_task task, bg_array *arrays)
{
    switch (task) {
    case BG_TRAINER_FIT:
        return bg_trainer_fit(r->trainer, &r->data, NULL, &error);
    case BG_TRAINER_VALIDATE:
        return bg_trainer_validate(r->trainer, &r->data, &error);
    case BG_TRAINER_TEST:
        return bg_trainer_test(r->trainer, &r->data, &error);
    default:
        return bg_trainer_predict(r->trainer, &r->data, arrays, &error);
    }
}

/* Each task, in any order, returns the task's number, 1 to 4, and uses the newest weights. */
static void tasks_have_their_own_plans(void **state)
{
    static const bg_trainer_task order[] = {BG_TRAINER_PREDICT, BG_TRAINER_FIT,  BG_TRAINER_TEST,
                                            BG_TRAINER_FIT,     BG_TRAINER_TEST, BG_TRAINER_VALIDATE};
    rig r = {.net = {.device_count = 2}};
    const bg_trainer_options options = options_for(&r.net);
    double losses[2];
    int tests = 0;

    (void)state;
    open_rig(&r, &options);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        bg_array arrays[2] = {0};
        require(run_task(&r, order[i], arrays));
        if (order[i] == BG_TRAINER_PREDICT) {
            const uint32_t number = bg_session_find_output(bg_trainer_session(r.trainer, BG_TRAINER_PREDICT), "number");
            assert_int_equal(arrays[number].type.dims[0], SAMPLES);
            for (int e = 0; e < SAMPLES * TEST_NET_CLASSES; e++)
                assert_true(((const float *)arrays[number].data)[e] == 4.0f);
        } else {
            const bg_trainer_metric metric = find(&r, order[i], "number");
            assert_true(metric.mean == 1.0 + order[i] && metric.last == 1.0 + order[i]);
        }
        if (order[i] == BG_TRAINER_TEST)
            losses[tests++] = find(&r, BG_TRAINER_TEST, "loss").mean;
        bg_array_clear(&arrays[0]);
        bg_array_clear(&arrays[1]);
    }
    assert_true(losses[1] < losses[0]);
    assert_true(find(&r, BG_TRAINER_VALIDATE, "loss").mean == losses[1]);
    for (int a = 0; a < BG_TRAINER_TASK_COUNT; a++)
        for (int b = 0; b < a; b++)
            assert_ptr_not_equal(bg_session_plan(bg_trainer_session(r.trainer, a)),
                                 bg_session_plan(bg_trainer_session(r.trainer, b)));
    assert_int_equal(bg_trainer_metric_find(r.trainer, BG_TRAINER_TEST, "logits", &(bg_trainer_metric){0}, &error),
                     BG_ERROR_NOT_FOUND);
    close_rig(&r);
}

/* Every sample counts once for all batch sizes: the mean is that of calls with one sample, even with padding. */
static void metrics_are_weighted_by_samples(void **state)
{
    double loss = 0, correct = 0;

    (void)state;
    for (int way = 0; way < 4; way++) {
        rig r = {.net = {.device_count = 2}};
        bg_trainer_options options = options_for(&r.net);
        bg_trainer_metric found;
        options.micro_batch[BG_TRAINER_FIT] = way == 0 ? 1 : MICRO_BATCH;
        options.strategy.device_iterations = way == 0 ? 1 : 2;
        options.strategy.devices = way == 2 ? 2 : 1;
        open_rig(&r, &options);
        r.loading.pad_multiple = way == 3 ? 4 : 0; /* the last micro-batch then has one sample that counts */
        if (way == 3) {
            memset((uint8_t *)r.samples.arrays[0].data + 10 * TEST_NET_FEATURES * sizeof(float), 0,
                   TEST_NET_FEATURES * sizeof(float));
            ((uint8_t *)r.samples.arrays[1].data)[10] = 0;
        }
        require(bg_trainer_validate(r.trainer, &r.data, &error));
        found = find(&r, BG_TRAINER_VALIDATE, "loss");
        assert_int_equal(found.samples, SAMPLES);
        if (way == 0)
            loss = found.mean, correct = find(&r, BG_TRAINER_VALIDATE, "correct").mean * SAMPLES;
        else if (way < 3)
            assert_true(fabs(found.mean - loss) < 1e-6);
        /* Padding repeats the last sample here. A mean over two equal samples is that of one, so the loss is the same
         * as with micro-batches of one sample. */
        if (way == 3) {
            rig plain = {.net = {.device_count = 2}};
            options.micro_batch[BG_TRAINER_FIT] = 1;
            open_rig(&plain, &options);
            memcpy(plain.samples.arrays[0].data, r.samples.arrays[0].data, SAMPLES * TEST_NET_FEATURES * sizeof(float));
            memcpy(plain.samples.arrays[1].data, r.samples.arrays[1].data, SAMPLES);
            require(bg_trainer_validate(plain.trainer, &plain.data, &error));
            assert_true(fabs(found.mean - find(&plain, BG_TRAINER_VALIDATE, "loss").mean) < 1e-6);
            close_rig(&plain);
        }
        close_rig(&r);
    }
    assert_true(correct >= 1 && correct <= SAMPLES && correct == floor(correct));
}

enum { CALLS = 2, CALL_ITERATIONS = 32 };

typedef struct seen_loss {
    uint64_t count, call_samples, calls;
    float values[CALLS][CALL_ITERATIONS];
} seen_loss;

static bg_status look_at_loss(void *user, bg_trainer_event *event, bg_error *unused)
{
    seen_loss *seen = user;
    const void *values;
    bg_stream stream;

    (void)unused;
    if (event->kind != BG_ON_CALL_END || !event->call->is_whole)
        return BG_OK;
    values = bg_trainer_call_output(event->call, "loss", &stream);
    assert_non_null(values);
    assert_null(bg_trainer_call_output(event->call, "nothing", NULL));
    seen->count = stream.count;
    seen->call_samples = event->call->sample_count;
    assert_true(seen->calls < CALLS && stream.count <= CALL_ITERATIONS);
    memcpy(seen->values[seen->calls++], values, stream.count * sizeof seen->values[0][0]);
    return BG_OK;
}

/* Checks that each mode returns the expected losses of mode ALL: the last one, every 8th one, or the sum of all. */
static void expect_chosen_losses(bg_output_mode mode, const seen_loss *found, const seen_loss *all)
{
    assert_int_equal(found->calls, CALLS);
    for (int call = 0; call < CALLS; call++) {
        const float *losses = all->values[call];
        double sum = 0.0;

        for (int i = 0; i < CALL_ITERATIONS; i++)
            sum += (double)losses[i];
        if (mode == BG_OUTPUT_DEFAULT)
            assert_memory_equal(&found->values[call][0], &losses[CALL_ITERATIONS - 1], sizeof losses[0]);
        else if (mode == BG_OUTPUT_SUM)
            assert_true(fabs((double)found->values[call][0] - sum) < 1e-5 * sum);
        for (int i = 0; mode == BG_OUTPUT_EVERY_N && i < CALL_ITERATIONS / 8; i++)
            assert_memory_equal(&found->values[call][i], &losses[8 * i + 7], sizeof losses[0]);
        assert_memory_not_equal(&losses[0], &losses[CALL_ITERATIONS - 1], sizeof losses[0]);
    }
}

/* A call of 32 iterations returns its last loss, 32 losses with mode ALL, or their sum; the means are consistent. */
static void output_modes_are_overridden(void **state)
{
    static const bg_output_mode modes[] = {BG_OUTPUT_DEFAULT, BG_OUTPUT_ALL, BG_OUTPUT_SUM, BG_OUTPUT_EVERY_N};
    static const uint64_t counts[] = {1, 32, 1, 4}, covered[] = {1, 64, 64, 8};
    static seen_loss all_seen[4];
    double means[4];

    (void)state;
    memset(all_seen, 0, sizeof all_seen);
    for (int m = 0; m < 4; m++) {
        const test_net net = {.device_count = 2};
        bg_options training = bg_options_defaults();
        bg_trainer_options options = options_for(&net);
        const bg_trainer_callback callback = {look_at_loss, &all_seen[m]};
        bg_trainer_data data = {0};
        bg_trainer_metric metric;
        test_net_samples samples;
        bg_trainer *trainer;
        training.execution.device_iterations = 32;
        training.reporting.output_mode = modes[m];
        training.reporting.output_period = 8;
        options.micro_batch[BG_TRAINER_FIT] = 1;
        options.strategy.training_options = &training;
        options.callbacks = &callback, options.callback_count = 1;
        test_net_samples_make(&samples, 64);
        data.dataset = samples.dataset;
        require(bg_trainer_create(&options, NULL, &trainer, &error));
        require(bg_trainer_fit(trainer, &data, NULL, &error));
        assert_int_equal(all_seen[m].count, counts[m]);
        assert_int_equal(all_seen[m].call_samples, 32);
        require(bg_trainer_metric_find(trainer, BG_TRAINER_FIT, "loss", &metric, &error));
        assert_int_equal(metric.samples, m == 0 ? 2 : covered[m]);
        means[m] = metric.mean;
        bg_trainer_destroy(trainer);
        test_net_samples_clear(&samples);
    }
    assert_true(fabs(means[1] - means[2]) < 1e-5);
    assert_true(means[0] != means[1] && means[3] != means[1]);
    for (int m = 0; m < 4; m++)
        expect_chosen_losses(modes[m], &all_seen[m], &all_seen[1]);
}

/* ---- predictions ---- */

static void predictions_are_those_of_single_samples(void **state)
{
    bg_array one[2] = {0}, many[2] = {0};
    rig r = {.net = {.device_count = 2}};
    bg_trainer_options options = options_for(&r.net);
    const bg_type wanted = bg_matrix(BG_FLOAT32, SAMPLES, TEST_NET_CLASSES);

    (void)state;
    for (int way = 0; way < 2; way++) {
        bg_array *arrays = way == 0 ? one : many;
        options.micro_batch[BG_TRAINER_PREDICT] = way == 0 ? 1 : 3;
        options.strategy.device_iterations = way == 0 ? 1 : 2; /* 6 samples, and 5 one by one */
        open_rig(&r, &options);
        require(bg_trainer_predict(r.trainer, &r.data, arrays, &error));
        assert_true(bg_type_equal(&arrays[0].type, &wanted));
        close_rig(&r);
    }
    assert_memory_equal(one[0].data, many[0].data, bg_type_size_bytes(&wanted));
    for (int i = 0; i < 2; i++) {
        bg_array_clear(&one[i]);
        bg_array_clear(&many[i]);
    }
}

static bg_status give_elements(void *user, void *const tensors[], bool *out_has_ended, bg_error *unused)
{
    uint64_t *left = user;

    (void)unused;
    *out_has_ended = *left == 0;
    if (*left == 0)
        return BG_OK;
    memset(tensors[0], 0, MICRO_BATCH * TEST_NET_FEATURES * sizeof(float));
    (*left)--;
    return BG_OK;
}

/* An inference run with an infeed counts as one call, and data that do not fill a call are left out. Without a call,
 * the result has types but no rows. */
static void infeeds_in_inference(void **state)
{
    static const uint64_t elements[] = {0, 1, 2, 7}, rows[] = {0, 0, 4, 12};
    const bg_type x = bg_matrix(BG_FLOAT32, MICRO_BATCH, TEST_NET_FEATURES);
    const bg_infeed_options infeed_options = bg_infeed_options_defaults();

    (void)state;
    for (int i = 0; i < 4; i++) {
        rig r = {.net = {.device_count = 2}};
        const bg_trainer_options options = options_for(&r.net);
        uint64_t left = elements[i];
        bg_array arrays[2] = {0};
        bg_trainer_data data = {0};
        open_rig(&r, &options);
        require(bg_infeed_create(&x, 1, give_elements, &left, &infeed_options, &data.infeed, &error));
        require(bg_trainer_predict(r.trainer, &data, arrays, &error));
        assert_int_equal(arrays[0].type.rank, 2);
        assert_int_equal(arrays[0].type.dims[0], rows[i]);
        assert_int_equal(arrays[0].type.dims[1], TEST_NET_CLASSES);
        assert_true((arrays[0].data == NULL) == (rows[i] == 0));
        bg_array_clear(&arrays[0]);
        bg_array_clear(&arrays[1]);
        close_rig(&r);
        bg_infeed_destroy(data.infeed);
    }
}

/* ---- arguments and casts ---- */

static bg_status check_shift(void *user, bg_trainer_event *event, bg_error *unused)
{
    const bg_trainer_argument *argument = user;
    const float *values;
    bg_stream stream;
    double wanted = argument->value;

    (void)unused;
    if (event->kind != BG_ON_CALL_END)
        return BG_OK;
    if (argument->kind == BG_ARGUMENT_BATCH)
        wanted = (double)event->batch;
    if (argument->kind == BG_ARGUMENT_EPOCH)
        wanted = (double)event->epoch;
    if (argument->kind == BG_ARGUMENT_STEP)
        wanted = (double)event->call->first_update;
    values = bg_trainer_call_output(event->call, "shift", &stream);
    assert_non_null(values);
    for (size_t e = 0; e < stream.size_bytes / sizeof *values; e++)
        assert_true(values[e] == (float)wanted);
    return BG_OK;
}

static void arguments_fill_their_inputs(void **state)
{
    (void)state;
    for (int kind = BG_ARGUMENT_VALUE; kind <= BG_ARGUMENT_STEP; kind++)
        for (int fed = 0; fed < 2; fed++) {
            rig r = {.net = {.device_count = 2, .has_shift = true}};
            bg_trainer_argument argument = {"shift", (bg_trainer_argument_kind)kind, 2.5};
            const bg_trainer_callback callback = {check_shift, &argument};
            bg_trainer_options options = options_for(&r.net);
            static const char *const names[] = {"x", "labels"};
            bg_infeed_options infeed_options = bg_infeed_options_defaults();
            bg_trainer_data data;
            options.arguments = &argument, options.argument_count = 1;
            options.callbacks = &callback, options.callback_count = 1;
            options.max_epochs = 2;
            options.batch_limits[BG_TRAINER_FIT] = 2;
            open_rig(&r, &options);
            data = r.data;
            infeed_options.repeat = true;
            infeed_options.names = names;
            if (fed) {
                data = (bg_trainer_data){0};
                require(bg_infeed_create_dataset(r.samples.dataset, &infeed_options, &data.infeed, &error));
            }
            require(bg_trainer_fit(r.trainer, &data, NULL, &error));
            assert_int_equal(bg_trainer_step(r.trainer), 8);
            bg_infeed_destroy(data.infeed);
            close_rig(&r);
        }
}

/* Rounds the samples' values to type `rounded`, if one is given, and stores them in type `to`. */
static void convert_samples(rig *r, bg_dtype to, bg_dtype rounded)
{
    bg_array *const samples = &r->samples.arrays[0];
    const int64_t count = bg_type_element_count(&samples->type);
    float *values = samples->data;
    void *converted = malloc((size_t)count * sizeof(double));

    assert_non_null(converted);
    for (int64_t e = 0; e < count; e++) {
        if (rounded != BG_DTYPE_NONE)
            values[e] = bgi_narrow_to_float(rounded, bgi_narrow_from_float(rounded, values[e]));
        bgi_store(to, converted, e, (double)values[e]);
    }
    samples->data = converted;
    samples->type.dtype = to;
    free(values);
    bg_dataset_destroy(r->samples.dataset);
    require(bg_dataset_create_arrays(r->samples.arrays, 2, &r->samples.dataset, &error));
    r->data.dataset = r->samples.dataset;
}

/* On request, float samples of another type than the input's are cast; labels do not change. The net casts its input to
 * float32, so samples that the test rounded give the same results. */
static void casts_touch_floats_only(void **state)
{
    static const struct {
        bg_dtype input, samples, rounded;
        bool casts;
    } ways[] = {{BG_BFLOAT16, BG_FLOAT32, BG_DTYPE_NONE, false}, {BG_FLOAT16, BG_FLOAT32, BG_DTYPE_NONE, false},
                {BG_BFLOAT16, BG_FLOAT32, BG_DTYPE_NONE, true},  {BG_FLOAT32, BG_FLOAT32, BG_BFLOAT16, true},
                {BG_FLOAT16, BG_FLOAT32, BG_DTYPE_NONE, true},   {BG_FLOAT16, BG_FLOAT64, BG_DTYPE_NONE, true},
                {BG_FLOAT32, BG_FLOAT16, BG_DTYPE_NONE, true},   {BG_FLOAT32, BG_FLOAT32, BG_FLOAT16, true}};
    enum { WAYS = sizeof ways / sizeof ways[0], REFUSED = 2, BFLOAT16 = 3, FLOAT16 = 7 };
    bg_array found[WAYS][2];

    (void)state;
    memset(found, 0, sizeof found);
    for (int way = 0; way < WAYS; way++) {
        rig r = {.net = {.device_count = 1, .dtype = ways[way].input}};
        bg_trainer_options options = options_for(&r.net);
        options.cast_batches = ways[way].casts;
        open_rig(&r, &options);
        convert_samples(&r, ways[way].samples, ways[way].rounded);
        if (way < REFUSED) {
            assert_int_equal(bg_trainer_fit(r.trainer, &r.data, NULL, &error), BG_ERROR_SHAPE);
            assert_non_null(strstr(error.message, "cast_batches casts them"));
        } else {
            require(bg_trainer_fit(r.trainer, &r.data, NULL, &error));
            require(bg_trainer_predict(r.trainer, &r.data, found[way], &error));
        }
        close_rig(&r);
    }
    for (int k = 0; k < 2; k++) { /* whole numbers are not floats */
        rig r = {.net = {.device_count = 1, .dtype = BG_FLOAT32}};
        bg_trainer_options options = options_for(&r.net);
        options.cast_batches = true;
        open_rig(&r, &options);
        convert_samples(&r, k == 0 ? BG_INT32 : BG_UINT8, BG_DTYPE_NONE);
        bg_error_clear(&error);
        assert_int_equal(bg_trainer_fit(r.trainer, &r.data, NULL, &error), BG_ERROR_SHAPE);
        assert_null(strstr(error.message, "cast_batches casts them"));
        close_rig(&r);
    }
    for (int way = REFUSED; way < WAYS; way++) {
        const bg_array *same = found[way <= BFLOAT16 ? BFLOAT16 : FLOAT16];
        assert_memory_equal(found[way][0].data, same[0].data, bg_type_size_bytes(&same[0].type));
    }
    assert_memory_not_equal(found[BFLOAT16][0].data, found[FLOAT16][0].data,
                            bg_type_size_bytes(&found[FLOAT16][0].type));
    for (int i = 0; i < 2 * WAYS; i++)
        bg_array_clear(&found[i / 2][i % 2]);
}

/* Replicas with the same data count once, so metrics and predictions are those of one replica of each group. */
static void groups_count_once(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        rig alone = {.net = {.device_count = 2}}, grouped = {.net = {.device_count = 2}};
        bg_trainer_options options = options_for(&alone.net);
        bg_options given = bg_options_defaults();
        bg_array wanted[2] = {0}, found[2] = {0};
        given.execution.device_iterations = 2;
        given.reporting.output_mode = way == 3 ? BG_OUTPUT_FINAL : BG_OUTPUT_ALL;
        given.replicas.count = 2;
        options.strategy.inference_options = &given;
        open_rig(&alone, &options);
        require(bg_trainer_validate(alone.trainer, &alone.data, &error));
        require(bg_trainer_predict(alone.trainer, &alone.data, wanted, &error));
        given.replicas.count = way == 0 ? 4 : 6;
        given.replicas.input_group_size = way == 0 ? 2 : 3;
        given.replicas.input_grouping = way == 2 ? BG_GROUPING_ORTHOGONAL : BG_GROUPING_CONSECUTIVE;
        open_rig(&grouped, &options);
        require(bg_trainer_validate(grouped.trainer, &grouped.data, &error));
        require(bg_trainer_predict(grouped.trainer, &grouped.data, found, &error));
        for (int metric = 0; metric < 2; metric++) {
            const char *name = metric == 0 ? "loss" : "correct";
            const bg_trainer_metric a = find(&alone, BG_TRAINER_VALIDATE, name);
            const bg_trainer_metric b = find(&grouped, BG_TRAINER_VALIDATE, name);
            assert_int_equal(a.samples, b.samples);
            assert_true(fabs(a.mean - b.mean) < 1e-12 && fabs(a.last - b.last) < 1e-12);
        }
        for (int i = 0; i < 2; i++) {
            assert_true(bg_type_equal(&wanted[i].type, &found[i].type));
            assert_memory_equal(wanted[i].data, found[i].data, bg_type_size_bytes(&wanted[i].type));
            bg_array_clear(&wanted[i]);
            bg_array_clear(&found[i]);
        }
        close_rig(&alone);
        close_rig(&grouped);
    }
}

/* A mesh without input groups is an error, because samples are counted by groups. */
static void meshes_need_groups(void **state)
{
    rig r = {.net = {.device_count = 1, .has_mesh = true}};
    const bg_trainer_options options = options_for(&r.net);

    (void)state;
    open_rig(&r, &options);
    assert_int_equal(bg_trainer_fit(r.trainer, &r.data, NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "2 x 1 tensor-parallel replicas, which share their data; give options with "
                                          "input_group_size 2"));
    close_rig(&r);
}

/* Runs a fit, a test of all samples and predictions of all samples. */
static void run_tasks(rig *r, const bg_trainer_options *options, bg_trainer_metric metrics[3], bg_array *arrays)
{
    open_rig(r, options);
    require(bg_trainer_fit(r->trainer, &r->data, NULL, &error));
    require(bg_trainer_metric_find(r->trainer, BG_TRAINER_FIT, "loss", &metrics[0], &error));
    require(bg_trainer_test(r->trainer, &r->data, &error));
    require(bg_trainer_metric_find(r->trainer, BG_TRAINER_TEST, "loss", &metrics[1], &error));
    require(bg_trainer_metric_find(r->trainer, BG_TRAINER_TEST, "correct", &metrics[2], &error));
    require(bg_trainer_predict(r->trainer, &r->data, arrays, &error));
}

/* Each tensor-parallel replica does all of this net's work, so that the mesh changes neither bits nor counts of
 * samples. */
static void meshes_train_alike(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 4; way++) {
        bg_trainer_metric metrics[2][3];
        bg_array arrays[2][2];
        rig r[2];

        memset(arrays, 0, sizeof arrays);
        for (uint32_t k = 0; k < 2; k++) {
            bg_options given = bg_options_defaults();
            bg_trainer_options options;
            r[k] = (rig){.net = {.device_count = 1 + way % 2, .has_dropout = true, .has_mesh = k == 1}};
            options = options_for(&r[k].net);
            given.replicas.input_group_size = 1 + k;
            given.replicas.count = (1 + way / 2) * given.replicas.input_group_size;
            options.strategy.inference_options = &given;
            bg_options training = given;
            training.execution.gradient_accumulation = 2;
            training.reporting.output_mode = way % 2 == 0 ? BG_OUTPUT_ALL : BG_OUTPUT_SUM;
            options.strategy.training_options = &training;
            run_tasks(&r[k], &options, metrics[k], arrays[k]);
        }
        for (int i = 0; i < 3; i++) {
            assert_true(metrics[0][i].samples > 0 && metrics[1][i].samples == metrics[0][i].samples);
            assert_memory_equal(&metrics[1][i].mean, &metrics[0][i].mean, sizeof metrics[0][i].mean);
        }
        test_weights_expect(bg_trainer_weights(r[1].trainer), bg_trainer_weights(r[0].trainer));
        assert_int_equal(arrays[0][0].type.dims[0], SAMPLES);
        assert_true(bg_type_equal(&arrays[1][0].type, &arrays[0][0].type));
        assert_memory_equal(arrays[1][0].data, arrays[0][0].data, bg_type_size_bytes(&arrays[0][0].type));
        for (int k = 0; k < 2; k++) {
            bg_array_clear(&arrays[k][0]);
            bg_array_clear(&arrays[k][1]);
            close_rig(&r[k]);
        }
    }
}

/* ---- reports ---- */

/* Returns whether this process writes the report; with several ranks, only the first rank does. */
static bool writes_reports(void)
{
#ifdef TEST_RANKS
    return test_ranks_transport()->rank == 0;
#else
    return true;
#endif
}

/* Returns whether the file has an event of the device. */
static bool tells_of_device(const char *path, int device)
{
    static char text[1 << 20];
    char expected[64];
    FILE *file = fopen(path, "r");
    size_t length;

    assert_non_null(file);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_true(length > 200);
    text[length] = '\0';
    snprintf(expected, sizeof expected, "\"cat\":\"F\",\"pid\":0,\"tid\":%d,", device);
    return strstr(text, expected) != NULL;
}

static void reports_have_their_folders(void **state)
{
    static const char *const folders[] = {"training", "validation", "test", "predict"};
    char root[TEST_FOLDER_BYTES], path[128];

    (void)state;
    test_folder_create(root);
    rig r = {.net = {.device_count = 2}};
    bg_trainer_options options = options_for(&r.net);
    options.strategy.report_folder = root;
    options.max_steps = 1; /* the data do not fill a call */
    open_rig(&r, &options);
    for (int task = 0; task < BG_TRAINER_TASK_COUNT; task++) {
        snprintf(path, sizeof path, "%s/%s", root, folders[task]);
        assert_int_equal(test_folder_count(path), -1);
        require(run_task(&r, (bg_trainer_task)task, NULL));
        assert_int_equal(test_folder_count(path), writes_reports() ? 5 : -1);
        if (!writes_reports())
            continue;
        strcat(path, "/profile.json");
        assert_true(tells_of_device(path, 0));
        assert_true(tells_of_device(path, 1));
    }
    close_rig(&r);
    test_folder_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_have_their_own_plans),  cmocka_unit_test(metrics_are_weighted_by_samples),
        cmocka_unit_test(output_modes_are_overridden), cmocka_unit_test(predictions_are_those_of_single_samples),
        cmocka_unit_test(infeeds_in_inference),        cmocka_unit_test(arguments_fill_their_inputs),
        cmocka_unit_test(casts_touch_floats_only),     cmocka_unit_test(meshes_need_groups),
        cmocka_unit_test(meshes_train_alike),          cmocka_unit_test(reports_have_their_folders),
        cmocka_unit_test(groups_count_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
