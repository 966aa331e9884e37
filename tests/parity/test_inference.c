/*
 * test_inference.c: evaluation under a pipeline. Any stage, including the first, can compute metrics. A stage can read
 * integers that another stage computes, in a message with other tensors. With weights that a pipeline trained, every
 * strategy gives the same bits as the single device.
 *
 *     ids -- B1 -- x, gate, ids ---> B2 -- x, guess ---> B3 -- x ---> B4 <-- labels
 *            |                       |                                |
 *            early                   guess (int32)                    correct (int32), loss
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

enum { ROWS = 4, LENGTH = 6, WIDTH = 16, CLASSES = 8, BATCHES = 9, OUTPUTS = 7 };

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

static bg_value look_up(bg_graph *graph, const char *name, bg_value ids)
{
    const bg_type type = bg_matrix(BG_FLOAT32, WIDTH, WIDTH);
    const bg_initializer normal = {BG_INITIALIZE_NORMAL, 0.0, 1.0};

    return bg_embedding(graph, name, bg_graph_parameter(graph, name, &type, &normal), ids, -1);
}

/* Builds the model that is drawn above; returns the loss. */
static bg_value build(bg_graph *graph)
{
    static const int32_t words[] = {1}, features[] = {1, 2};
    const bg_type ids_type = bg_matrix(BG_INT32, ROWS, LENGTH), label_type = bg_vector(BG_INT32, ROWS);
    const bg_value ids = bg_graph_input(graph, "ids", &ids_type), labels = bg_graph_input(graph, "labels", &label_type);
    bg_value x, gate, first, guess, loss;

    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = look_up(graph, "words", ids);
    gate = bg_sigmoid(graph, bg_linear_layer(graph, "gate", x, WIDTH, true));
    first = bg_slice(graph, "first", ids, 1, 0, 1, 1);
    bg_graph_output(graph, "early", bg_reduce(graph, "early", BG_REDUCE_MEAN, x, features, 2, false));
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    x = bg_multiply(graph, bg_add(graph, x, look_up(graph, "firsts", first)), gate);
    guess = bg_argmax(graph, "guess", bg_linear_layer(graph, "guess", x, WIDTH, true));
    x = bg_dropout(graph, NULL, x, 0.25); /* has no effect here */
    bg_graph_output(graph, "guess", guess);
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_add(graph, x, look_up(graph, "guesses", guess)));
    bg_block_end(graph);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "head", bg_reduce(graph, NULL, BG_REDUCE_MEAN, x, words, 1, false), CLASSES, true);
    loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "correct", bg_correct_count(graph, "correct", x, labels));
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

typedef struct data {
    int32_t ids[BATCHES * ROWS * LENGTH], labels[BATCHES * ROWS];
} data;

static void fill(data *d)
{
    for (int i = 0; i < BATCHES * ROWS * LENGTH; i++)
        d->ids[i] = (i * 7 + i / 5 * 3 + (i >> 3)) % WIDTH;
    for (int i = 0; i < BATCHES * ROWS; i++)
        d->labels[i] = i * 5 % CLASSES;
}

typedef struct manner {
    bg_strategy strategy;
    const char *schedule, *stages;
} manner;

static bg_options options_of(const manner *way)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = way->strategy;
    options.execution.schedule = way->schedule;
    options.execution.stages = way->stages;
    options.execution.cores = 2;
    options.execution.wait_limit_s = 60;
    return options;
}

/* Returns a session for a pipeline, after a few training steps. */
static bg_session *train(bg_plan **out_plan, const data *d)
{
    const manner pipeline = {BG_STRATEGY_PIPELINED, "interleaved", "B1|B2|B3|B4"};
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_options options = options_of(&pipeline);
    bg_session *session = NULL;
    bg_graph *graph = NULL;
    bg_error error = {0};

    options.execution.gradient_accumulation = BATCHES;
    options.numerics.seed = 42;
    require(bg_graph_create(&graph, &error), &error, "training");
    require(bg_plan_create_training(graph, build(graph), &optimizer, &options, out_plan, &error), &error, "training");
    bg_graph_destroy(graph);
    require(bg_session_create(*out_plan, NULL, &session, &error), &error, "training");
    for (int i = 0; i < 3; i++)
        require(bg_session_run(session, (const void *[]){d->ids, d->labels}, (void *[OUTPUTS]){NULL}, &error), &error,
                "training");
    return session;
}

/* The rows of all micro-batches for each output, and the outputs of other modes. */
typedef struct metrics {
    float early[BATCHES][ROWS];
    int32_t guess[BATCHES][ROWS][LENGTH];
    int32_t correct[BATCHES];
    float loss[BATCHES];
    float early_sum[ROWS];
    int32_t correct_sum;
    int32_t guess_third[BATCHES / 3][ROWS][LENGTH];
} metrics;

/* Checks that the values from B1 to B2 (the embedding, the gate and integers) are one message, and those from B2 to B3
 * another. */
static void check_messages(const bg_plan *plan, const char *what)
{
    const size_t x_bytes = ROWS * LENGTH * WIDTH * sizeof(float);
    const size_t bytes[] = {2 * x_bytes + ROWS * sizeof(int32_t), x_bytes + ROWS * LENGTH * sizeof(int32_t)};
    const bg_schedule_problem *problem = &plan->problem;

    for (uint32_t from = 0; from < 2; from++) {
        uint32_t count = 0;
        for (uint32_t e = 0; e < problem->edge_count; e++)
            if (problem->edges[e].from_stage == from && problem->edges[e].to_stage == from + 1) {
                count++;
                if (problem->edges[e].size_bytes < bytes[from])
                    fail_msg("%s: a message of %zu bytes from stage %u, %zu are to be sent", what,
                             problem->edges[e].size_bytes, from, bytes[from]);
            }
        if (count != 1)
            fail_msg("%s: %u edges from stage %u to the next", what, count, from);
    }
}

/* Evaluates all micro-batches in one run, and stores each output at its place in `out`. */
static void evaluate(const manner *way, bg_weights *weights, const data *d, metrics *out, const char *what)
{
    static const bg_output_request requests[] = {{"early", "early.sum", BG_OUTPUT_SUM, 0},
                                                 {"correct", "correct.sum", BG_OUTPUT_SUM, 0},
                                                 {"guess", "guess.third", BG_OUTPUT_EVERY_N, 3}};
    const struct {
        const char *name;
        void *at;
    } places[OUTPUTS] = {{"early", out->early},
                         {"guess", out->guess},
                         {"correct", out->correct},
                         {"loss", out->loss},
                         {"early.sum", out->early_sum},
                         {"correct.sum", &out->correct_sum},
                         {"guess.third", out->guess_third}};
    bg_options options = options_of(way);
    void *outputs[OUTPUTS] = {0};
    bg_session *session = NULL;
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};

    memset(out, 0, sizeof *out);
    options.execution.device_iterations = BATCHES;
    options.reporting.output_requests = requests;
    options.reporting.output_request_count = sizeof requests / sizeof requests[0];
    require(bg_graph_create(&graph, &error), &error, what);
    build(graph);
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error, what);
    bg_graph_destroy(graph);
    if (plan->device_count == 4)
        check_messages(plan, what);
    require(bg_session_create(plan, weights, &session, &error), &error, what);
    assert_int_equal(bg_session_output_count(session), OUTPUTS);
    for (int i = 0; i < OUTPUTS; i++)
        outputs[bg_session_find_output(session, places[i].name)] = places[i].at;
    require(bg_session_run(session, (const void *[]){d->ids, d->labels}, outputs, &error), &error, what);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

/* Checks that the other modes return the same values, and that the values are not all equal. */
static void check_modes(const metrics *m)
{
    float sum[ROWS] = {0};
    int32_t correct = 0;

    for (int b = 0; b < BATCHES; b++) {
        for (int r = 0; r < ROWS; r++)
            sum[r] = b == 0 ? m->early[b][r] : sum[r] + m->early[b][r];
        assert_in_range(m->correct[b], 0, ROWS);
        correct += m->correct[b];
        if (b % 3 == 2)
            assert_memory_equal(m->guess_third[b / 3], m->guess[b], sizeof m->guess[b]);
        if (b > 0) {
            assert_memory_not_equal(m->early[b], m->early[0], sizeof m->early[b]);
            assert_memory_not_equal(m->guess[b], m->guess[0], sizeof m->guess[b]);
            assert_true(m->loss[b] > 0 && m->loss[b] != m->loss[0]);
        }
    }
    assert_memory_equal(sum, m->early_sum, sizeof sum);
    assert_int_equal(correct, m->correct_sum);
    assert_true(correct > 0);
}

static void test_metrics_of_every_stage(void **state)
{
    static const manner ways[] = {{BG_STRATEGY_SHARDED, NULL, "B1|B2|B3|B4"},
                                  {BG_STRATEGY_SHARDED, NULL, "B1,B2|B3,B4"},
                                  {BG_STRATEGY_PIPELINED, "grouped", "B1@1|B2@0|B3@1|B4@0"},
                                  {BG_STRATEGY_PIPELINED, "sequential", "B1@0|B2@1|B3@1|B4@0"},
                                  {BG_STRATEGY_PIPELINED, NULL, "B1|B2,B3|B4"}};
    const manner single = {BG_STRATEGY_SINGLE, NULL, NULL};
    bg_plan *plan = NULL;
    bg_session *training;
    metrics expected, found;
    bg_weights *weights;
    char what[64];
    data d;

    (void)state;
    fill(&d);
    training = train(&plan, &d);
    weights = bg_session_weights(training);
    evaluate(&single, weights, &d, &expected, "single");
    check_modes(&expected);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        snprintf(what, sizeof what, "way %zu", w);
        evaluate(&ways[w], weights, &d, &found, what);
        if (memcmp(&found, &expected, sizeof found) != 0)
            fail_msg("%s: other bits than on a single device", what);
    }
    for (uint32_t g = 1; bg_schedule_generator_at(g) != NULL; g++) {
        manner each = {BG_STRATEGY_PIPELINED, bg_schedule_generator_at(g)->name, "B1|B2|B3|B4"};
        int strategy;
        if (bg_option_value_find("strategy", each.schedule, &strategy))
            each.strategy = (bg_strategy)strategy, each.schedule = NULL;
        evaluate(&each, weights, &d, &found, bg_schedule_generator_at(g)->name);
        if (memcmp(&found, &expected, sizeof found) != 0)
            fail_msg("%s: other bits than on a single device", bg_schedule_generator_at(g)->name);
    }
    bg_session_destroy(training);
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_metrics_of_every_stage)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
