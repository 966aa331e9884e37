/*
 * test_metrics.c: metrics and predictions cover every sample once, for all batch sizes, replicas and padding. The
 * reference is a plain loop over single samples.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <brigade.h>

#include "support/trainer_rig.h"

enum { SAMPLES = 500, MICRO_BATCH = 16, FIT_SAMPLES = 10 };

static bg_error error;

static void require(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

/* ---- evaluation ---- */

typedef struct totals {
    double loss; /* the mean */
    int correct;
    float logits[SAMPLES][TEST_NET_CLASSES];
} totals;

/* Runs the samples one by one through a separate session. */
static void run_plain_loop(const test_net_samples *samples, bg_weights *weights, totals *out)
{
    const test_net net = {.device_count = 1};
    bg_options options = bg_options_defaults();
    uint32_t correct, loss, logits;
    void *outputs[8] = {0};
    bg_session *session;
    float loss_value;
    int32_t correct_value;
    bg_graph *graph;
    bg_plan *plan;
    uint32_t unused;
    float number;

    memset(out, 0, sizeof *out);
    require(bg_graph_create(&graph, &error));
    test_net_model((void *)(uintptr_t)&net, graph, BG_TRAINER_TEST, 1);
    require(bg_plan_create_inference(graph, &options, &plan, &error));
    require(bg_session_create(plan, weights, &session, &error));
    correct = bg_session_find_output(session, "correct");
    loss = bg_session_find_output(session, "loss");
    logits = bg_session_find_output(session, "logits");
    unused = bg_session_find_output(session, "number");
    outputs[correct] = &correct_value;
    outputs[loss] = &loss_value;
    outputs[unused] = &number;
    for (int i = 0; i < SAMPLES; i++) {
        const void *const inputs[] = {(const float *)samples->arrays[0].data + i * TEST_NET_FEATURES,
                                      (const uint8_t *)samples->arrays[1].data + i};
        outputs[logits] = out->logits[i];
        require(bg_session_run(session, inputs, outputs, &error));
        out->loss += (double)loss_value / SAMPLES;
        out->correct += correct_value;
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void keep_warning(void *user, bg_log_level level, const char *text)
{
    if (level == BG_LOG_WARNING && strstr(text, "leaves out") != NULL)
        snprintf(user, 256, "%s", text);
}

typedef struct way {
    uint32_t iterations, replicas;
    bg_output_mode mode;
    enum { NO_OPTIONS, DEFAULTS, PADDED } loading;
} way;

static void evaluate(const way *w, const test_net_samples *samples, bg_weights *weights, const totals *expected)
{
    const test_net net = {.device_count = 1};
    bg_trainer_options options = bg_trainer_options_defaults();
    bg_loader_options loading = bg_loader_options_defaults();
    bg_options inference = bg_options_defaults();
    bg_trainer_data data = {.dataset = samples->dataset};
    bg_trainer_metric loss, correct;
    bg_array arrays[2] = {0};
    char warning[256] = "";
    bg_trainer *trainer;

    if (w->loading == PADDED)
        loading.pad_multiple = (uint64_t)w->iterations * w->replicas * MICRO_BATCH;
    data.loading = w->loading == NO_OPTIONS ? NULL : &loading;
    inference.execution.device_iterations = w->iterations;
    inference.replicas.count = w->replicas;
    inference.reporting.output_mode = w->mode;
    options.strategy.inference_options = &inference;
    options.model = test_net_model;
    options.model_user = (void *)(uintptr_t)&net;
    options.micro_batch[BG_TRAINER_FIT] = MICRO_BATCH;
    options.log = keep_warning;
    options.log_user = warning;
    require(bg_trainer_create(&options, weights, &trainer, &error));
    require(bg_trainer_test(trainer, &data, &error));
    require(bg_trainer_metric_find(trainer, BG_TRAINER_TEST, "loss", &loss, &error));
    require(bg_trainer_metric_find(trainer, BG_TRAINER_TEST, "correct", &correct, &error));
    assert_int_equal(loss.samples, SAMPLES);
    assert_int_equal(correct.samples, SAMPLES);
    assert_true(!loss.is_count && correct.is_count);
    if (fabs(loss.mean - expected->loss) > 1e-6 * expected->loss)
        fail_msg("loss %.9g, a plain loop has %.9g", loss.mean, expected->loss);
    if (correct.sum != expected->correct)
        fail_msg("%g correct, a plain loop has %d", correct.sum, expected->correct);
    assert_true(fabs(correct.mean / MICRO_BATCH - (double)expected->correct / SAMPLES) < 1e-12);
    if (w->mode == BG_OUTPUT_DEFAULT) {
        require(bg_trainer_predict(trainer, &data, arrays, &error));
        assert_int_equal(arrays[0].type.dims[0], SAMPLES);
        for (int i = 0; i < SAMPLES * TEST_NET_CLASSES; i++)
            assert_true(fabsf(((const float *)arrays[0].data)[i] - (&expected->logits[0][0])[i]) < 1e-5f);
        bg_array_clear(&arrays[0]);
        bg_array_clear(&arrays[1]);
    }
    assert_string_equal(warning, "");
    bg_trainer_destroy(trainer);
}

/* Sets the labels to the network's predictions, so that every sample is correct and counted padding would change the
 * result. */
static void label_as_predicted(const test_net_samples *samples, const totals *plain)
{
    for (int i = 0; i < SAMPLES; i++) {
        uint8_t best = 0;
        for (uint8_t c = 1; c < TEST_NET_CLASSES; c++)
            best = plain->logits[i][c] > plain->logits[i][best] ? c : best;
        ((uint8_t *)samples->arrays[1].data)[i] = best;
    }
}

static bg_weights *make_weights(const test_net_samples *samples)
{
    const test_net net = {.device_count = 1};
    const bg_optimizer optimizer = bg_sgd(0.1);
    const void *const inputs[] = {samples->arrays[0].data, samples->arrays[1].data};
    bg_options options = bg_options_defaults();
    bg_weights *weights;

    require(bg_weights_create(&weights, &error));
    test_net_train(&net, &options, &optimizer, MICRO_BATCH, weights, inputs);
    return weights;
}

static void evaluation_is_that_of_a_plain_loop(void **state)
{
    static const way ways[] = {
        {1, 1, BG_OUTPUT_DEFAULT, NO_OPTIONS}, {1, 1, BG_OUTPUT_DEFAULT, DEFAULTS},
        {1, 1, BG_OUTPUT_SUM, NO_OPTIONS},     {3, 2, BG_OUTPUT_DEFAULT, NO_OPTIONS},
        {3, 2, BG_OUTPUT_SUM, NO_OPTIONS},     {3, 2, BG_OUTPUT_DEFAULT, PADDED},
        {4, 1, BG_OUTPUT_SUM, PADDED},         {3, 2, BG_OUTPUT_SUM, PADDED},
        {64, 1, BG_OUTPUT_DEFAULT, DEFAULTS}, /* fewer samples than a call has */
    };
    test_net_samples samples;
    static totals expected;
    bg_weights *weights;

    (void)state;
    memset(&error, 0, sizeof error);
    test_net_samples_make(&samples, SAMPLES);
    weights = make_weights(&samples);
    for (int all_right = 0; all_right < 2; all_right++) {
        run_plain_loop(&samples, weights, &expected);
        if (all_right) {
            label_as_predicted(&samples, &expected);
            run_plain_loop(&samples, weights, &expected);
            assert_int_equal(expected.correct, SAMPLES);
        }
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
            evaluate(&ways[i], &samples, weights, &expected);
    }
    bg_weights_destroy(weights);
    test_net_samples_clear(&samples);
}

/* Samples left out by drop_rest or by the caller's loader are reported. */
static void what_is_left_out_is_said(void **state)
{
    const test_net net = {.device_count = 1};
    test_net_samples samples;

    (void)state;
    memset(&error, 0, sizeof error);
    test_net_samples_make(&samples, SAMPLES);
    for (int own = 0; own < 2; own++) {
        bg_trainer_options options = bg_trainer_options_defaults();
        bg_loader_options loading = bg_loader_options_defaults();
        bg_trainer_data data = {.dataset = samples.dataset, .drop_rest = true};
        bg_trainer_metric loss;
        char warning[256] = "";
        bg_trainer *trainer;

        loading.batch_size = MICRO_BATCH;
        if (own) {
            data = (bg_trainer_data){0};
            require(bg_loader_create(samples.dataset, &loading, &data.loader, &error));
        }
        options.model = test_net_model;
        options.model_user = (void *)(uintptr_t)&net;
        options.micro_batch[BG_TRAINER_FIT] = MICRO_BATCH;
        options.initialize_missing = true;
        options.log = keep_warning;
        options.log_user = warning;
        require(bg_trainer_create(&options, NULL, &trainer, &error));
        require(bg_trainer_validate(trainer, &data, &error));
        require(bg_trainer_metric_find(trainer, BG_TRAINER_VALIDATE, "loss", &loss, &error));
        assert_int_equal(loss.samples, SAMPLES - SAMPLES % MICRO_BATCH);
        assert_non_null(strstr(warning, "validate leaves out 4 samples"));
        warning[0] = '\0';
        require(bg_trainer_fit(trainer, &data, NULL, &error));
        assert_string_equal(warning, "");
        bg_trainer_destroy(trainer);
        bg_loader_destroy(data.loader);
    }
    test_net_samples_clear(&samples);
}

/* ---- padding in a fit ---- */

/* Builds the mean of (w x)^2, to which padding, which consists of zeros, adds nothing. */
static bg_value square_model(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, 1);
    bg_value x, loss;

    (void)user, (void)task;
    bg_block_start(graph, "B1", 0);
    x = bg_linear_layer(graph, "layer", bg_graph_input(graph, "x", &x_type), 1, false);
    loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, bg_multiply(graph, x, x), NULL, 0, false);
    bg_graph_output(graph, "loss", loss);
    return loss;
}

/* Batches have 8 micro-batches of 2 samples; in the last batch, 1 micro-batch has samples and 7 are padding. */
static void padding_has_no_weight_in_sums(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, FIT_SAMPLES + 8, 1);
    bg_array x = {0};
    bg_dataset *dataset;

    (void)state;
    memset(&error, 0, sizeof error);
    require(bg_array_init(&x, &type, &error));
    for (int i = 0; i < FIT_SAMPLES + 8; i++)
        ((float *)x.data)[i] = (float)(1 + i);
    require(bg_dataset_create_arrays(&x, 1, &dataset, &error));
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        double means[2];
        for (int sums = 0; sums < 2; sums++) {
            bg_options training = bg_options_defaults();
            bg_trainer_options options = bg_trainer_options_defaults();
            bg_loader_options loading = bg_loader_options_defaults();
            const bg_trainer_data data = {.dataset = dataset, .loading = &loading};
            bg_trainer_metric loss;
            bg_trainer *trainer;

            training.execution.device_iterations = 8 / replicas;
            training.replicas.count = replicas;
            training.reporting.output_mode = sums ? BG_OUTPUT_SUM : BG_OUTPUT_ALL;
            options.strategy.training_options = &training;
            options.optimizer = bg_sgd(0.0);
            options.model = square_model;
            options.micro_batch[BG_TRAINER_FIT] = 2;
            loading.drop_last = false;
            loading.pad_multiple = 16;
            require(bg_trainer_create(&options, NULL, &trainer, &error));
            require(bg_trainer_fit(trainer, &data, NULL, &error));
            require(bg_trainer_metric_find(trainer, BG_TRAINER_FIT, "loss", &loss, &error));
            assert_int_equal(loss.samples, FIT_SAMPLES + 8);
            means[sums] = loss.mean;
            bg_trainer_destroy(trainer);
        }
        assert_true(means[0] > 0);
        if (fabs(means[1] - means[0]) > 1e-6 * means[0])
            fail_msg("%u replicas: sums have mean %.9g, all values %.9g", replicas, means[1], means[0]);
    }
    bg_dataset_destroy(dataset);
    bg_array_clear(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluation_is_that_of_a_plain_loop),
        cmocka_unit_test(what_is_left_out_is_said),
        cmocka_unit_test(padding_has_no_weight_in_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
