/*
 * test_score.c: precision, recall, F1 and perplexity of a pass equal those of PyTorch over all samples, for all
 * batches, replicas and output modes. The test also checks errors.
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

#include "support/interpret.h"
#include "support/oracle.h"

enum { CLASSES = 5, SIDES = 2, MICRO_BATCH = 4, AVERAGES = 4, SCORES = 25 };

static bg_error error;

static void require(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

/* Builds a model whose logits are inputs plus a parameter of zeros, so that the model can be trained. */
static bg_value model(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch)
{
    const bg_type logits_type = bg_matrix(BG_FLOAT32, micro_batch, CLASSES);
    const bg_type label_type = bg_vector(BG_INT32, micro_batch), bias_type = bg_vector(BG_FLOAT32, CLASSES);
    const bg_type side_type = bg_matrix(BG_FLOAT32, micro_batch, SIDES);
    bg_value logits, labels, predictions, targets, loss;

    (void)user, (void)task;
    logits = bg_graph_input(graph, "logits", &logits_type);
    labels = bg_graph_input(graph, "labels", &label_type);
    predictions = bg_graph_input(graph, "predictions", &side_type);
    targets = bg_graph_input(graph, "targets", &side_type);
    bg_block_start(graph, "B1", 0);
    logits = bg_add(graph, logits, bg_graph_parameter(graph, "bias", &bias_type, NULL));
    loss = bg_cross_entropy(graph, "loss", logits, labels, BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", loss);
    bg_graph_output(graph, "classes", bg_class_counts(graph, "classes", logits, labels));
    bg_graph_output(graph, "sides", bg_binary_counts(graph, "sides", predictions, targets, 0.0));
    bg_graph_output(graph, "likelihoods", bg_likelihood_sums(graph, "likelihoods", logits, labels, -100));
    return loss;
}

static const char *const kinds[] = {"f1", "precision", "recall"};
static const char *const averages[] = {"macro", "micro", "weighted", "binary"};

/* Makes the scores "classes f1_macro" and so on, and the perplexity; returns their number. */
static uint32_t make_scores(bg_score scores[SCORES], char names[SCORES][48])
{
    uint32_t count = 0;

    for (int sides = 0; sides < 2; sides++)
        for (int k = 0; k < 3; k++)
            for (int a = 0; a < AVERAGES; a++) {
                const char *output = sides ? "sides" : "classes";

                snprintf(names[count], sizeof names[count], "%s %s_%s", output, kinds[k], averages[a]);
                scores[count] = (bg_score){.name = names[count],
                                           .output = output,
                                           .kind = (bg_score_kind)k,
                                           .average = (bg_score_average)a,
                                           .class_index = 1};
                count++;
            }
    scores[count++] = (bg_score){.name = "classes perplexity", .output = "likelihoods", .kind = BG_SCORE_PERPLEXITY};
    return count;
}

static bg_dataset *make_data(const bgi_test_oracle *oracle, bg_array arrays[4])
{
    static const char *const names[][2] = {
        {"classes", "logits"}, {"classes", "labels"}, {"sides", "predictions"}, {"sides", "targets"}};
    bg_dataset *dataset;

    for (int i = 0; i < 4; i++) {
        const bgi_test_tensor *tensor = bgi_test_oracle_find(oracle, names[i][0], names[i][1]);
        const bg_type type = bgi_test_tensor_type(tensor, i == 1 ? BG_INT32 : BG_FLOAT32);

        require(bg_array_init(&arrays[i], &type, &error));
        for (int64_t e = 0; e < tensor->count; e++) {
            if (i == 1)
                ((int32_t *)arrays[i].data)[e] = (int32_t)tensor->values[e];
            else
                ((float *)arrays[i].data)[e] = (float)tensor->values[e];
        }
    }
    require(bg_dataset_create_arrays(arrays, 4, &dataset, &error));
    return dataset;
}

typedef struct way {
    bool fit;
    uint32_t iterations, replicas, group;
    bg_output_mode mode;
} way;

static void score(const way *w, const bgi_test_oracle *oracle, const bg_dataset *dataset)
{
    bg_trainer_options options = bg_trainer_options_defaults();
    bg_loader_options loading = bg_loader_options_defaults();
    bg_trainer_data data = {.dataset = dataset, .loading = &loading};
    bg_options run = bg_options_defaults();
    char names[SCORES][48];
    bg_score scores[SCORES];
    bg_trainer *trainer;

    loading.drop_last = false;
    run.execution.device_iterations = w->iterations;
    run.replicas.count = w->replicas;
    run.replicas.input_group_size = w->group;
    run.reporting.output_mode = w->mode;
    options.strategy.training_options = &run;
    options.strategy.inference_options = &run;
    options.model = model;
    options.optimizer = bg_sgd(0.0);
    options.micro_batch[BG_TRAINER_FIT] = MICRO_BATCH;
    options.initialize_missing = true;
    options.scores = scores;
    options.score_count = make_scores(scores, names);
    require(bg_trainer_create(&options, NULL, &trainer, &error));
    for (int pass = 0; pass < 2; pass++) /* each is counted separately */
        require(w->fit ? bg_trainer_fit(trainer, &data, NULL, &error) : bg_trainer_validate(trainer, &data, &error));
    for (uint32_t i = 0; i < options.score_count; i++) {
        const char *name = strchr(scores[i].name, ' ') + 1;
        char case_name[16];
        bg_trainer_metric metric;
        double wanted;

        snprintf(case_name, sizeof case_name, "%.*s", (int)(name - 1 - scores[i].name), scores[i].name);
        wanted = bgi_test_oracle_find(oracle, case_name, name)->values[0];
        require(bg_trainer_metric_find(trainer, w->fit ? BG_TRAINER_FIT : BG_TRAINER_VALIDATE, scores[i].name, &metric,
                                       &error));
        assert_int_equal(metric.samples, 61);
        if (!(fabs(metric.mean - wanted) <= 1e-6 * wanted))
            fail_msg("%s: %.9g, PyTorch has %.9g", scores[i].name, metric.mean, wanted);
    }
    bg_trainer_destroy(trainer);
}

static void scores_of_a_pass_are_pytorchs(void **state)
{
    static const way ways[] = {
        {false, 1, 1, 1, BG_OUTPUT_DEFAULT}, {false, 3, 2, 1, BG_OUTPUT_ALL}, {false, 3, 2, 1, BG_OUTPUT_SUM},
        {false, 2, 2, 2, BG_OUTPUT_ALL},     {true, 1, 1, 1, BG_OUTPUT_ALL},  {true, 2, 2, 1, BG_OUTPUT_SUM},
        {true, 64, 1, 1, BG_OUTPUT_ALL},
    };
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/scores.txt");
    bg_array arrays[4] = {0};
    bg_dataset *dataset;

    (void)state;
    dataset = make_data(oracle, arrays);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        score(&ways[i], oracle, dataset);
    bg_dataset_destroy(dataset);
    for (int i = 0; i < 4; i++)
        bg_array_clear(&arrays[i]);
    bgi_test_oracle_close(oracle);
}

static void says(bg_status status, bg_status expected, const char *part)
{
    assert_int_equal(status, expected);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", error.message, part);
}

static void sums_that_cannot_be_are_refused(void **state)
{
    const double sums[6] = {1, 0, 1, 0, 2, 0};
    bg_score s = {.kind = BG_SCORE_PERPLEXITY};
    double out = 7.0;

    (void)state;
    says(bg_score_compute(&s, sums, 6, &out, &error), BG_ERROR_INVALID, "made of 2 sums (bg_likelihood_sums), but");
    s.kind = BG_SCORE_F1;
    says(bg_score_compute(&s, sums, 2, &out, &error), BG_ERROR_INVALID,
         "3 counts for each class (bg_class_counts), but there");
    says(bg_score_compute(&s, sums, 0, &out, &error), BG_ERROR_INVALID, "there are 0");
    s.average = BG_SCORE_BINARY;
    s.class_index = 2;
    says(bg_score_compute(&s, sums, 6, &out, &error), BG_ERROR_INVALID,
         "class is 2; it must be below the number of classes, 2");
    s.average = (bg_score_average)4;
    says(bg_score_compute(&s, sums, 6, &out, &error), BG_ERROR_INVALID, "the score's kind is 0 and its average is 4");
    says(bg_score_compute(NULL, sums, 6, &out, &error), BG_ERROR_INVALID, "score");
    assert_true(out == 7.0);
    s.average = BG_SCORE_MACRO;
    require(bg_score_compute(&s, sums, 6, &out, &error)); /* a class that occurs has F1 2 / 3 */
    assert_true(fabs(out - 2.0 / 3.0) < 1e-15);
    require(bg_score_compute(&s, (const double[3]){0}, 3, &out, &error));
    assert_true(out == 0.0);
}

static void scores_that_cannot_be_are_refused(void **state)
{
    static const struct {
        bg_score score;
        const char *part;
    } cases[] = {
        {{.output = "classes"}, "scores[0] has no name or no output"},
        {{.name = "f1", .output = "likelihoods"}, "score `f1` of output `likelihoods`"},
        {{.name = "loss", .output = "classes"}, "score `loss`: the task already has a metric of this name"},
        {{.name = "f1", .output = "sides", .average = BG_SCORE_BINARY, .class_index = 9},
         "below the number of classes, 2"},
    };
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/scores.txt");
    bg_array arrays[4] = {0};
    bg_dataset *dataset = make_data(oracle, arrays);
    const bg_trainer_data data = {.dataset = dataset};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bg_trainer_options options = bg_trainer_options_defaults();
        bg_trainer *trainer = NULL;
        bg_status status;

        options.model = model;
        options.initialize_missing = true;
        options.scores = &cases[i].score;
        options.score_count = 1;
        status = bg_trainer_create(&options, NULL, &trainer, &error);
        if (status == BG_OK)
            status = bg_trainer_validate(trainer, &data, &error);
        says(status, BG_ERROR_INVALID, cases[i].part);
        bg_trainer_destroy(trainer);
    }
    bg_dataset_destroy(dataset);
    for (int i = 0; i < 4; i++)
        bg_array_clear(&arrays[i]);
    bgi_test_oracle_close(oracle);
}

/* The threshold applies only to predictions; a target is positive if it is above one half. */
static void thresholds_are_of_predictions(void **state)
{
    static const float predictions[] = {-2.0f, -0.5f, 1.0f}, targets[] = {0.0f, 1.0f, 0.0f};
    static const int32_t wanted[] = {1, 1, 1, 2, 2, 1};
    const bg_type type = bg_vector(BG_FLOAT32, 3);
    bgi_test_interpreter interpreter;
    bg_value counts;
    bg_graph *graph;

    (void)state;
    require(bg_graph_create(&graph, &error));
    counts = bg_binary_counts(graph, "counts", bg_graph_constant(graph, "predictions", &type, predictions),
                              bg_graph_constant(graph, "targets", &type, targets), -1.0);
    require(bg_graph_check(graph, &error));
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_interpret(&interpreter);
    assert_memory_equal(bgi_test_data(&interpreter, counts), wanted, sizeof wanted);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void operands_that_do_not_fit_are_refused(void **state)
{
    const bg_type logits = bg_matrix(BG_FLOAT32, 4, 3), labels = bg_vector(BG_INT32, 5), x = bg_vector(BG_FLOAT32, 4);

    (void)state;
    for (int i = 0; i < 3; i++) {
        bg_graph *graph;

        require(bg_graph_create(&graph, &error));
        if (i == 0)
            bg_class_counts(graph, "c", bg_graph_input(graph, "a", &logits), bg_graph_input(graph, "b", &labels));
        else if (i == 1)
            bg_binary_counts(graph, "c", bg_graph_input(graph, "a", &logits), bg_graph_input(graph, "b", &x), 0.0);
        else
            bg_likelihood_sums(graph, "c", bg_graph_input(graph, "a", &logits), bg_graph_input(graph, "b", &labels), 0);
        says(bg_graph_check(graph, &error), BG_ERROR_SHAPE, i == 1 ? "binary_counts `c`" : "");
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_a_pass_are_pytorchs),     cmocka_unit_test(sums_that_cannot_be_are_refused),
        cmocka_unit_test(scores_that_cannot_be_are_refused), cmocka_unit_test(operands_that_do_not_fit_are_refused),
        cmocka_unit_test(thresholds_are_of_predictions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
