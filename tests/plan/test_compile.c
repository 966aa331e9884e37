/*
 * test_compile.c: compiles graphs and options to plans. It checks unusual graphs by symbolic execution
 * (support/plan_check.h), outputs, streams, warnings, errors, failed allocations, and compile time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <brigade/convnet.h>
#include <brigade/session.h>

#include "support/allocations.h"
#include "support/plan_check.h"

typedef struct model {
    bg_graph *graph;
    bg_value loss;
} model;

/* Makes blocks A, B, C, D of one linear layer each, with the outputs "hidden" (of B), "logits" and "loss". */
static model make_model(void)
{
    static const char *const blocks[] = {"A", "B", "C", "D"};
    const bg_type x_type = bg_matrix(BG_FLOAT32, 6, 8), label_type = bg_vector(BG_INT32, 6);
    model m = {0};
    bg_value x, labels;

    assert_int_equal(bg_graph_create(&m.graph, NULL), BG_OK);
    labels = bg_graph_input(m.graph, "labels", &label_type);
    x = bg_graph_input(m.graph, "x", &x_type);
    for (int i = 0; i < 4; i++) {
        bg_block_begin(m.graph, blocks[i], BG_DEVICE_NONE);
        x = bg_linear_layer(m.graph, blocks[i], x, 8, true);
        if (i == 1)
            bg_graph_output(m.graph, "hidden", x);
        if (i < 3)
            x = bg_relu(m.graph, x);
        else
            m.loss = bg_cross_entropy(m.graph, "loss", x, labels, BG_LOSS_MEAN, -100);
        bg_block_end(m.graph);
    }
    bg_graph_output(m.graph, "logits", x);
    bg_graph_output(m.graph, "loss", m.loss);
    assert_int_equal(bg_graph_check(m.graph, NULL), BG_OK);
    return m;
}

static void expect(bg_status have, bg_status want, const bg_error *error, const char *part)
{
    if (have != want || (part != NULL && strstr(error->message, part) == NULL))
        fail_msg("status %s, message `%s`; expected %s, `%s`", bg_status_name(have), error->message,
                 bg_status_name(want), part != NULL ? part : "");
}

static void expect_training(const model *m, const bg_options *options, bg_status want, const char *part)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_plan *plan = NULL;
    bg_error error = {0};

    expect(bg_plan_create_training(m->graph, m->loss, &optimizer, options, &plan, &error), want, &error, part);
    bg_plan_destroy(plan);
}

/* ---- unusual graphs ---- */

static void test_a_graph_of_one_op(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 4, 6);
    bg_options options = bg_options_defaults();

    (void)state;
    options.execution.device_iterations = 3;
    for (int alias = 0; alias < 2; alias++) {
        bg_graph *graph = NULL;
        bg_value x;
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        x = bg_graph_input(graph, "x", &type);
        bg_graph_output(graph, "y",
                        alias ? bg_reshape(graph, NULL, x, 1, (const int64_t[]){24}) : bg_scale(graph, NULL, x, 2, 0));
        bgi_test_check_inference(graph, &options, alias ? "an alias" : "one op");
        bg_graph_destroy(graph);
    }
}

static void test_a_loss_in_the_middle(void **state)
{
    model m = make_model();
    bg_options options = bg_options_defaults();

    (void)state;
    bg_block_begin(m.graph, "E", BG_DEVICE_NONE); /* a stage without a backward pass */
    bg_graph_output(m.graph, "scaled", bg_scale(m.graph, NULL, m.loss, 10, 0));
    bg_block_end(m.graph);
    options.execution.gradient_accumulation = 9;
    bgi_test_check_training(m.graph, m.loss, &options, "loss before the last stage");
    options.execution.schedule = "grouped";
    options.execution.stages = "A@0|B@1|C@0|D@1|E@0";
    bgi_test_check_training(m.graph, m.loss, &options, "loss before the last stage, two devices");
    bg_graph_destroy(m.graph);
}

static void test_convnet(void **state)
{
    bg_graph *graph = NULL;
    bg_convnet net;
    bg_options options = bg_options_defaults();

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    net = bg_convnet_build(graph, NULL);
    options.execution.gradient_accumulation = 10;
    for (int offload = 0; offload < 2; offload++) {
        options.memory.offload_optimizer = offload != 0;
        bgi_test_check_training(graph, net.loss, &options, "the digit network");
    }
    options = bg_options_defaults();
    options.execution.device_iterations = 7;
    bgi_test_check_inference(graph, &options, "the digit network, inference");
    bg_graph_destroy(graph);
}

/* ---- inputs, outputs, streams ---- */

static void test_inputs_keep_their_order(void **state)
{
    model m = make_model();
    const bg_optimizer optimizer = bg_sgd(0.01);
    bg_options options = bg_options_defaults();

    (void)state;
    for (int no_fusion = 0; no_fusion < 2; no_fusion++) {
        bg_plan *plan = NULL;
        options.numerics.no_fusion = no_fusion != 0;
        assert_int_equal(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, NULL), BG_OK);
        assert_int_equal(plan->input_count, 2);
        assert_string_equal(plan->inputs[0].name, "labels");
        assert_string_equal(plan->inputs[1].name, "x");
        assert_string_equal(plan->variables[0].name, "A.weight");
        bg_plan_destroy(plan);
    }
    bg_graph_destroy(m.graph);
}

static void test_output_modes(void **state)
{
    model m = make_model();
    const bg_output_request requests[] = {{"loss", "total", BG_OUTPUT_SUM, 0},
                                          {"logits", "some", BG_OUTPUT_EVERY_N, 5}};
    const bg_optimizer optimizer = bg_sgd(0.01);
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;

    (void)state;
    options.execution.device_iterations = 10;
    options.reporting.output_requests = requests;
    options.reporting.output_request_count = 2;
    assert_int_equal(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, NULL), BG_OK);
    assert_int_equal(plan->output_count, 5);
    assert_string_equal(plan->outputs[0].name, "hidden");
    assert_int_equal(plan->outputs[0].mode, BG_OUTPUT_FINAL);
    assert_string_equal(plan->outputs[3].name, "total");
    assert_int_equal(plan->outputs[3].mode, BG_OUTPUT_SUM);
    assert_int_equal(plan->outputs[4].period, 5);
    assert_int_equal(bg_plan_summarize(plan).samples_per_run, 60);
    bg_plan_destroy(plan);
    assert_int_equal(bg_plan_create_inference(m.graph, &options, &plan, NULL), BG_OK);
    assert_int_equal(plan->outputs[0].mode, BG_OUTPUT_ALL);
    bg_plan_destroy(plan);
    bg_graph_destroy(m.graph);
}

/* An update takes micro-batch x accumulation x input groups samples; a call multiplies that by the device iterations.
 */
static void test_samples_per_run(void **state)
{
    static const struct {
        uint32_t accumulation, iterations, replicas, groups, samples;
    } cases[] = {{1, 1, 1, 1, 6},  {4, 1, 1, 1, 24},  {1, 5, 1, 1, 30},  {1, 1, 3, 1, 18},
                 {4, 1, 2, 1, 48}, {4, 5, 2, 1, 240}, {4, 5, 2, 2, 120}, {3, 2, 4, 2, 72}};
    const bg_optimizer optimizer = bg_sgd(0.01);
    model m = make_model();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_options options = bg_options_defaults();
        bg_plan_summary summary;
        bg_plan *plan = NULL;
        bg_error error = {0};

        options.execution.gradient_accumulation = cases[i].accumulation;
        options.execution.device_iterations = cases[i].iterations;
        options.replicas.count = cases[i].replicas;
        options.replicas.input_group_size = cases[i].groups;
        expect(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error), BG_OK, &error, NULL);
        summary = bg_plan_summarize(plan);
        assert_int_equal(summary.samples_per_run, cases[i].samples);
        assert_int_equal(summary.micro_batches_per_step, cases[i].accumulation);
        assert_int_equal(summary.steps_per_run, cases[i].iterations);
        bg_plan_destroy(plan);
        options.execution.gradient_accumulation = 1;
        expect(bg_plan_create_inference(m.graph, &options, &plan, &error), BG_OK, &error, NULL);
        assert_int_equal(bg_plan_summarize(plan).samples_per_run, cases[i].samples / cases[i].accumulation);
        bg_plan_destroy(plan);
    }
    bg_graph_destroy(m.graph);
}

/* The plan has the published timetable; stage k stashes 2 (3 - k) + 1 micro-batches. */
static void test_grouped_schedule(void **state)
{
    static const char *const timetable = "step 0    1    2    3    4    5    6    7    8    9    10   11   12   13\n"
                                         "dev0 F0   F1   F2   F3   F4   F5   F6B0 F7B1 B2   B3   B4   B5   B6   B7\n"
                                         "dev1 .    F0   F1   F2   F3   F4B0 F5B1 F6B2 F7B3 B4   B5   B6   B7   .\n"
                                         "dev2 .    .    F0   F1   F2B0 F3B1 F4B2 F5B3 F6B4 F7B5 B6   B7   .    .\n"
                                         "dev3 .    .    .    F0B0 F1B1 F2B2 F3B3 F4B4 F5B5 F6B6 F7B7 .    .    .\n";
    const bg_optimizer optimizer = bg_sgd(0.01);
    bg_options options = bg_options_defaults();
    model m = make_model();
    bg_plan *plan = NULL;
    bg_error error = {0};
    char *text = NULL;

    (void)state;
    options.execution.schedule = "grouped";
    options.execution.gradient_accumulation = 8;
    options.execution.device_iterations = 3;
    expect(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error), BG_OK, &error, NULL);
    expect(bg_plan_print_timetable(plan, &text, &error), BG_OK, &error, NULL);
    assert_string_equal(text, timetable);
    for (uint32_t k = 0; k < 4; k++)
        assert_int_equal(bg_schedule_stage_in_flight(bg_plan_schedule(plan), k), 2 * (3 - k) + 1);
    free(text);
    bg_plan_destroy(plan);
    bg_graph_destroy(m.graph);
}

/* With TensorFlow's name for the schedule, the plan has the timetable of TensorFlow for IPUs: the loss is a separate
 * step, so there are M + 2 N - 1 steps. */
static void test_grouped_schedule_with_a_separate_loss(void **state)
{
    static const char timetable[] = "step 0    1    2    3    4    5    6    7    8    9    10   11   12   13   14\n"
                                    "dev0 F0   F1   F2   F3   F4   F5   F6   F7B0 B1   B2   B3   B4   B5   B6   B7\n"
                                    "dev1 .    F0   F1   F2   F3   F4   F5B0 F6B1 F7B2 B3   B4   B5   B6   B7   .\n"
                                    "dev2 .    .    F0   F1   F2   F3B0 F4B1 F5B2 F6B3 F7B4 B5   B6   B7   .    .\n"
                                    "dev3 .    .    .    F0   F1B0 F2B1 F3B2 F4B3 F5B4 F6B5 F7B6 B7   .    .    .\n";
    const bg_optimizer optimizer = bg_sgd(0.01);
    bg_options options = bg_options_defaults();
    model m = make_model();
    bg_plan *plan = NULL;
    bg_error error = {0};
    char *text = NULL;

    (void)state;
    options.execution.schedule = "GROUPED";
    options.execution.separate_loss = true;
    options.execution.gradient_accumulation = 8;
    options.execution.ipu_limits = options.execution.auto_round_devices = true;
    expect(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error), BG_OK, &error, NULL);
    assert_string_equal(bg_plan_schedule_name(plan), "grouped");
    expect(bg_plan_print_timetable(plan, &text, &error), BG_OK, &error, NULL);
    assert_string_equal(text, timetable);
    for (uint32_t k = 0; k < 4; k++)
        assert_int_equal(bg_schedule_stage_in_flight(bg_plan_schedule(plan), k), 2 * (3 - k) + 2);
    free(text);
    bg_plan_destroy(plan);
    plan = NULL;
    /* M = 2 N - 1 micro-batches do not fill the pipeline. */
    options.execution.gradient_accumulation = 7;
    expect(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error), BG_ERROR_INVALID, &error,
           "gradient accumulation is 7: a pipeline of N = 4 stages with schedule `grouped` needs at least 8 (2 N)");
    options.execution.separate_loss = false;
    expect(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error), BG_OK, &error, NULL);
    bg_plan_destroy(plan);
    bg_graph_destroy(m.graph);
}

/* Schedule names of other systems are accepted in plans, in their limits, and in comparisons of names. */
static void test_names_of_other_systems(void **state)
{
    static const struct {
        bg_strategy strategy;
        const char *name, *own, *refused;
    } rows[] = {{BG_STRATEGY_PIPELINED, "1f1b", "interleaved", NULL},
                {BG_STRATEGY_PIPELINED, "ZB1P", "zb-h1", NULL},
                {BG_STRATEGY_PIPELINED, "Auto", "auto", NULL},
                {BG_STRATEGY_SHARDED, "Sharded", "sharded", NULL},
                {BG_STRATEGY_SHARDED, "1F1B", NULL, "schedule is `1F1B`, but the sharded strategy"},
                {BG_STRATEGY_PIPELINED, "Phased", NULL, "use the phased strategy"}};
    const bg_optimizer optimizer = bg_sgd(0.01);
    model m = make_model();

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bg_options options = bg_options_defaults();
        bg_plan *plan = NULL;
        bg_error error = {0};
        options.execution.strategy = rows[i].strategy;
        options.execution.schedule = rows[i].name;
        options.execution.gradient_accumulation = 8;
        expect(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error),
               rows[i].refused == NULL ? BG_OK : BG_ERROR_INVALID, &error, rows[i].refused);
        if (rows[i].own != NULL)
            assert_string_equal(bg_plan_schedule_name(plan), rows[i].own);
        bg_plan_destroy(plan);
    }
    bg_graph_destroy(m.graph);
}

/* This function and the next one add layers. With `opens` each function opens a block, as PopTorch's BlockFunction
 * does; otherwise the caller opens the block. */
static bg_value add_encoder(bg_graph *graph, bg_value x, bool opens)
{
    if (opens)
        bg_block_begin(graph, "encoder", 1);
    x = bg_relu(graph, bg_linear_layer(graph, "encoder", x, 8, true));
    if (opens)
        bg_block_end(graph);
    return x;
}

static bg_value add_head(bg_graph *graph, const char *name, bg_value x, bool opens)
{
    if (opens)
        bg_block_begin(graph, "head", 0);
    x = bg_linear_layer(graph, name, x, 8, true);
    if (opens)
        bg_block_end(graph);
    return x;
}

static void place_functions(bool by_function, char **out_placement, char **out_graph)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 6, 8);
    const bg_optimizer optimizer = bg_sgd(0.01);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value x, loss;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    if (!by_function)
        bg_block_begin(graph, "encoder", 1);
    x = add_encoder(graph, x, by_function);
    if (!by_function) {
        bg_block_end(graph);
        bg_block_begin(graph, "head", 0);
    }
    x = add_head(graph, "first", x, by_function);
    x = add_head(graph, "second", x, by_function);
    if (by_function)
        bg_block_begin(graph, "head", 0);
    loss = bg_mse_loss(graph, "loss", x, x, BG_LOSS_MEAN);
    bg_block_end(graph);
    bg_graph_output(graph, "loss", loss);
    options.execution.gradient_accumulation = 4;
    expect(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), BG_OK, &error, NULL);
    expect(bg_plan_print_placement(plan, out_placement, &error), BG_OK, &error, NULL);
    expect(bg_graph_print(graph, out_graph, &error), BG_OK, &error, NULL);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void test_blocks_by_function(void **state)
{
    char *placement[2] = {NULL}, *text[2] = {NULL};

    (void)state;
    for (int by_function = 0; by_function < 2; by_function++)
        place_functions(by_function, &placement[by_function], &text[by_function]);
    assert_string_equal(placement[1], placement[0]);
    assert_string_equal(text[1], text[0]);
    assert_non_null(strstr(placement[1], "block encoder: stage 0, device 1"));
    assert_non_null(strstr(placement[1], "block head: stage 1, device 0"));
    for (int i = 0; i < 2; i++) {
        free(placement[i]);
        free(text[i]);
    }
}

/* Every strategy runs all backward passes of a step before its one update. Phases run the first level of the update,
 * which changes no weights, after the stage's own backward. A model that itself accumulates gradients is an error. */
static void test_training_accumulates_by_itself(void **state)
{
    static const bg_strategy strategies[] = {BG_STRATEGY_SINGLE, BG_STRATEGY_SHARDED, BG_STRATEGY_PIPELINED,
                                             BG_STRATEGY_PHASED};
    const bg_type type = bg_matrix(BG_FLOAT32, 8, 8);
    const bg_optimizer optimizer = bg_sgd(0.01);

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        bg_options options = bg_options_defaults();
        model m = make_model();
        bg_plan *plan = NULL;
        bg_error error = {0};

        options.execution.strategy = strategies[i];
        options.execution.gradient_accumulation = 5;
        options.execution.device_iterations = 2;
        expect(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error), BG_OK, &error, NULL);
        for (uint32_t d = 0; d < plan->device_count; d++) {
            uint32_t backward = 0, updates = 0, stages = 0, of_stage[8] = {0};
            assert_true(plan->stage_count <= 8);
            for (uint32_t s = 0; s < plan->stage_count; s++)
                stages += plan->problem.stage_devices[s] == d;
            for (uint32_t n = 0; n < plan->devices[d].instruction_count; n++) {
                const bg_action *action = &plan->devices[d].instructions[n].action;
                const bool is_early = strategies[i] == BG_STRATEGY_PHASED && action->index == 0;
                backward += action->kind == BG_ACTION_BACKWARD;
                of_stage[action->stage] += action->kind == BG_ACTION_BACKWARD;
                updates += action->kind == BG_ACTION_UPDATE && action->index == 0;
                if (action->kind == BG_ACTION_UPDATE)
                    assert_int_equal(of_stage[action->stage], 5);
                if (action->kind == BG_ACTION_UPDATE && !is_early)
                    assert_int_equal(backward, 5 * stages);
            }
            assert_int_equal(backward, 5 * stages);
            assert_int_equal(updates, stages);
        }
        bg_plan_destroy(plan);
        bg_graph_variable(m.graph, "mine", &type, BG_ROLE_ACCUMULATOR, NULL);
        expect_training(&m, &options, BG_ERROR_INVALID,
                        "the model has an accumulator, `mine`, but training already accumulates gradients");
        bg_graph_destroy(m.graph);
    }
}

/* Explicit stages remain the model's stages even if the last two have no ops left. */
static void test_inference_leaves_out(void **state)
{
    model m = make_model();
    const bg_output_request request = {.output = "hidden"};
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    bg_error error = {0};

    (void)state;
    options.reporting.output_requests = &request;
    options.reporting.output_request_count = 1;
    options.reporting.requests_only = true;
    options.execution.device_iterations = 5;
    for (int given = 0; given < 2; given++) {
        options.execution.stages = given ? "A|B|C|D" : NULL;
        expect(bg_plan_create_inference(m.graph, &options, &plan, &error), BG_OK, &error, NULL);
        assert_int_equal(plan->stage_count, given ? 4 : 2);
        assert_int_equal(plan->input_count, 1);
        assert_int_equal(plan->variable_count, 4);
        bg_plan_destroy(plan);
    }
    bg_graph_destroy(m.graph);
}

/* ---- errors and warnings ---- */

static void test_refusals(void **state)
{
    model m = make_model();
    const bg_output_request unknown = {.output = "nothing"}, twice = {.output = "loss"},
                            uneven = {"loss", "l", BG_OUTPUT_EVERY_N, 3};
    bg_options options = bg_options_defaults();

    (void)state;
    options.execution.stages = "A|B";
    expect_training(&m, &options, BG_ERROR_INVALID, "block `C` is in no stage");
    options = bg_options_defaults();
    options.execution.stages = "A@0|B@1|C@0|D@1";
    options.execution.schedule = "interleaved";
    expect_training(&m, &options, BG_ERROR_INVALID, "share device 0");
    options = bg_options_defaults();
    options.reporting.output_requests = &unknown;
    options.reporting.output_request_count = 1;
    expect_training(&m, &options, BG_ERROR_NOT_FOUND,
                    "no output or op `nothing`; its outputs are `hidden`, `logits`, `loss`");
    options.reporting.output_requests = &twice;
    expect_training(&m, &options, BG_ERROR_INVALID, "two outputs of the session are named `loss`");
    options.reporting.output_requests = &uneven;
    options.execution.device_iterations = 10;
    expect_training(&m, &options, BG_ERROR_INVALID, "period 3");
    options = bg_options_defaults();
    options.execution.ipu_limits = true;
    options.execution.schedule = "grouped";
    options.execution.gradient_accumulation = 6;
    expect_training(&m, &options, BG_ERROR_INVALID, "needs at least 7 (2 N - 1)");
    options.execution.gradient_accumulation = 7;
    expect_training(&m, &options, BG_OK, NULL);
    options = bg_options_defaults();
    options.memory.device_memory_bytes = 1100;
    expect_training(&m, &options, BG_ERROR_BUDGET, "its budget is 1.10 kB (1100 bytes)");
    m.loss = (bg_value){0};
    options = bg_options_defaults();
    expect_training(&m, &options, BG_ERROR_INVALID, "the loss is not a value of the graph");
    bg_graph_destroy(m.graph);
}

static void test_inference_refusals(void **state)
{
    const bg_type six = bg_vector(BG_FLOAT32, 6), four = bg_vector(BG_FLOAT32, 4);
    const bg_output_request unknown = {.output = "nothing"};
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value a, b;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    expect(bg_plan_create_inference(graph, &options, &plan, &error), BG_ERROR_INVALID, &error, "computes nothing");
    a = bg_graph_input(graph, "a", &six);
    b = bg_graph_input(graph, "b", &four);
    bg_graph_output(graph, "y", bg_scale(graph, NULL, a, 2, 0));
    bg_graph_output(graph, "z", bg_scale(graph, NULL, b, 2, 0));
    bg_error_clear(&error);
    expect(bg_plan_create_inference(graph, &options, &plan, &error), BG_ERROR_SHAPE, &error,
           "inputs `a` and `b` have different micro-batches: 6 and 4 samples");
    options.reporting.requests_only = true;
    options.reporting.output_requests = &unknown;
    options.reporting.output_request_count = 1;
    bg_error_clear(&error);
    expect(bg_plan_create_inference(graph, &options, &plan, &error), BG_ERROR_NOT_FOUND, &error,
           "no output or op `nothing`; its outputs are `y`, `z`");
    bg_graph_destroy(graph);
}

static void count_warning(void *user, bg_log_level level, const char *text)
{
    if (level == BG_LOG_WARNING)
        snprintf(user, 512, "%s", text);
}

/* A rule that matches no tensor of its class is reported; one for tensors of training is not reported in inference. */
static void test_warnings_of_rules(void **state)
{
    static const bg_location_rule rules[] = {
        {.classes = 1u << BG_LOCATION_WEIGHTS, .pattern = "*", .location = {.place = BG_PLACE_REMOTE}},
        {.classes = 1u << BG_LOCATION_WEIGHTS, .pattern = "nothing*", .location = {.place = BG_PLACE_REMOTE}},
        {.classes = 1u << BG_LOCATION_ACCUMULATORS, .pattern = "nor*", .location = {.place = BG_PLACE_REMOTE}}};
    static const char *const texts[] = {"", "location_rules[0] `nothing*` matches no tensor",
                                        "location_rules[0] `nor*` matches no tensor"};
    model m = make_model();
    bg_options options = bg_options_defaults();
    char text[512];

    (void)state;
    options.reporting.log = count_warning;
    options.reporting.log_user = text;
    options.memory.location_rule_count = 1;
    options.execution.gradient_accumulation = 8;
    for (int i = 0; i < 3; i++) {
        bg_plan *plan = NULL;
        text[0] = '\0';
        options.memory.location_rules = &rules[i];
        expect_training(&m, &options, BG_OK, NULL);
        if (strncmp(text, texts[i], strlen(texts[i])) != 0 || (text[0] == '\0') != (i == 0))
            fail_msg("rule %d: `%s`", i, text);
        text[0] = '\0';
        options.execution.device_iterations = 8;
        options.execution.gradient_accumulation = 1;
        assert_int_equal(bg_plan_create_inference(m.graph, &options, &plan, NULL), BG_OK);
        assert_int_equal(strstr(text, "location_rules") != NULL, i == 1);
        bg_plan_destroy(plan);
        options.execution.device_iterations = 1;
        options.execution.gradient_accumulation = 8;
    }
    bg_graph_destroy(m.graph);
}

static void test_warnings(void **state)
{
    model m = make_model();
    char text[512] = "";
    bg_options options = bg_options_defaults();

    (void)state;
    options.reporting.log = count_warning;
    options.reporting.log_user = text;
    options.execution.schedule = "grouped";
    options.execution.gradient_accumulation = 2;
    expect_training(&m, &options, BG_OK, NULL);
    if (strstr(text, "gradient accumulation is 2, below the 7 that fill a pipeline of 4 stages") == NULL)
        fail_msg("%s", text);
    options.execution.stages = "A@0|B@0|C@0|D@0";
    expect_training(&m, &options, BG_OK, NULL);
    assert_non_null(strstr(text, "all stages are on one device"));
    text[0] = '\0';
    options.execution.stages = NULL;
    options.execution.gradient_accumulation = 8;
    expect_training(&m, &options, BG_OK, NULL);
    assert_string_equal(text, "");
    bg_graph_destroy(m.graph);
}

/* ---- robustness ---- */

static void test_failed_allocations(void **state)
{
    model m;
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_options options = bg_options_defaults();

    (void)state;
    if (!test_allocations_available())
        skip();
    m = make_model();
    options.execution.gradient_accumulation = 4;
    for (uint64_t n = 1;; n++) {
        bg_plan *plan = NULL;
        bg_error error = {0};
        const int64_t before = test_allocations_live();
        test_allocations_fail(n);
        const bg_status status = bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error);
        const bool have_failed = test_allocations_have_failed();
        test_allocations_fail(0);
        if (have_failed && status != BG_ERROR_MEMORY && status != BG_OK)
            fail_msg("allocation %llu: %s: %s", (unsigned long long)n, bg_status_name(status), error.message);
        bg_plan_destroy(plan);
        assert_int_equal(test_allocations_live(), before);
        if (!have_failed)
            break;
    }
    bg_graph_destroy(m.graph);
}

/* With 96 blocks of 52 ops, quadratic loops would be noticeable. */
static void test_large_models_compile_fast(void **state)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, 16), label_type = bg_vector(BG_INT32, 4);
    model m = {0};
    bg_value x, labels;
    char name[32];

    (void)state;
    assert_int_equal(bg_graph_create(&m.graph, NULL), BG_OK);
    x = bg_graph_input(m.graph, "x", &x_type);
    labels = bg_graph_input(m.graph, "labels", &label_type);
    for (int block = 0; block < 96; block++) {
        snprintf(name, sizeof name, "B%d", block);
        bg_block_begin(m.graph, name, BG_DEVICE_NONE);
        for (int k = 0; k < 13; k++) {
            bg_value y;
            snprintf(name, sizeof name, "fc%d.%d", block, k);
            y = bg_gelu_tanh(m.graph, bg_linear_layer(m.graph, name, x, 16, true));
            snprintf(name, sizeof name, "ln%d.%d", block, k);
            x = bg_add(m.graph, x, bg_layer_norm_layer(m.graph, name, y, 1e-5));
        }
        if (block == 95)
            m.loss = bg_cross_entropy(m.graph, "loss", x, labels, BG_LOSS_MEAN, -100);
        bg_block_end(m.graph);
    }
    bg_graph_output(m.graph, "loss", m.loss);
    for (int single = 0; single < 2; single++) {
        const bg_optimizer optimizer = bg_adamw(0.01);
        bg_options options = bg_options_defaults();
        const clock_t begin = clock(); /* the processor time of this process, so that other load does not count */
        bg_plan *plan = NULL;
        double ms;
        options.execution.strategy = single ? BG_STRATEGY_SINGLE : BG_STRATEGY_PIPELINED;
        options.execution.gradient_accumulation = 32;
        assert_int_equal(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, NULL), BG_OK);
        /* Compiling took about 200 ms on the developer's machine; a quadratic step would take many seconds. Sanitizers
         * are slow. */
        ms = 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (ms > (getenv("BRIGADE_TEST_QUICK") != NULL ? 30000 : 5000))
            fail_msg("%u ops take %.0f ms", bg_graph_op_count(m.graph), ms);
        bg_plan_destroy(plan);
    }
    bg_graph_destroy(m.graph);
}

/* ---- compile only ---- */

/* Prints the program and the memory of a plan to strings. */
static void print_plan(const bg_plan *plan, char **out_program, char **out_memory)
{
    assert_int_equal(bg_plan_print_program(plan, out_program, NULL), BG_OK);
    assert_int_equal(bg_plan_print_memory(plan, out_memory, NULL), BG_OK);
}

static void test_compile_only(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    model m = make_model();
    bg_options options = bg_options_defaults();
    bg_weights *weights = NULL;
    bg_session *session = NULL;
    bg_plan *plans[2] = {NULL, NULL}, *inference = NULL;
    char *programs[2], *memories[2];
    bg_error error = {0};

    (void)state;
    options.execution.gradient_accumulation = 6;
    options.replicas.count = 2;
    for (int i = 0; i < 2; i++) {
        options.execution.compile_only = i == 1;
        assert_int_equal(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plans[i], NULL), BG_OK);
        print_plan(plans[i], &programs[i], &memories[i]);
    }
    assert_string_equal(programs[0], programs[1]);
    assert_string_equal(memories[0], memories[1]);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    expect(bg_session_create(plans[1], weights, &session, &error), BG_ERROR_INVALID, &error,
           "again with compile_only false");
    assert_null(session);
    assert_int_equal(bg_weights_count(weights), 0);
    options.execution.gradient_accumulation = 1;
    assert_int_equal(bg_plan_create_inference(m.graph, &options, &inference, NULL), BG_OK);
    bg_error_clear(&error);
    expect(bg_session_create(inference, weights, &session, &error), BG_ERROR_INVALID, &error,
           "again with compile_only false");
    bg_plan_destroy(inference);
    assert_int_equal(bg_session_create(plans[0], weights, &session, NULL), BG_OK);
    bg_session_destroy(session);
    bg_weights_destroy(weights);
    for (int i = 0; i < 2; i++) {
        free(programs[i]);
        free(memories[i]);
        bg_plan_destroy(plans[i]);
    }
    bg_graph_destroy(m.graph);
}

/* ---- stopping ---- */

typedef struct asked {
    uint32_t count, limit;
} asked;

static bool stop_at_limit(void *user)
{
    asked *a = user;

    return a->count++ >= a->limit;
}

/* When the callback requests a stop, compiling ends soon and without a plan. If the callback never requests a stop, the
 * plan is made. */
static void test_a_plan_is_stopped_anywhere(void **state)
{
    static const char *const schedules[] = {"interleaved", "auto"};
    const bg_optimizer optimizer = bg_adamw(0.01);
    model m = make_model();

    (void)state;
    for (int s = 0; s < 2; s++) {
        bg_options options = bg_options_defaults();
        bg_status status = BG_ERROR_CANCELED;
        asked a = {0};
        options.execution.schedule = schedules[s];
        options.execution.gradient_accumulation = 16;
        options.execution.stop = stop_at_limit;
        options.execution.stop_user = &a;
        for (uint32_t limit = 0; status == BG_ERROR_CANCELED; limit += 1 + limit / 8) {
            bg_plan *plan = NULL;
            bg_error error = {0};
            char *text = NULL;
            a = (asked){.limit = limit};
            status = bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error);
            if (status == BG_ERROR_CANCELED) {
                assert_null(plan);
                assert_non_null(strstr(error.message, "stopped at the caller's request"));
                assert_true(a.count <= limit + 16);
                continue;
            }
            assert_int_equal(status, BG_OK);
            assert_true(limit > 5);
            a.count = 0;
            assert_int_equal(bg_plan_print_timetable(plan, &text, NULL), BG_OK);
            assert_int_equal(a.count, 0);
            free(text);
            bg_plan_destroy(plan);
        }
        assert_int_equal(status, BG_OK);
    }
    bg_graph_destroy(m.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_graph_of_one_op),
        cmocka_unit_test(test_a_loss_in_the_middle),
        cmocka_unit_test(test_convnet),
        cmocka_unit_test(test_inputs_keep_their_order),
        cmocka_unit_test(test_output_modes),
        cmocka_unit_test(test_samples_per_run),
        cmocka_unit_test(test_grouped_schedule),
        cmocka_unit_test(test_grouped_schedule_with_a_separate_loss),
        cmocka_unit_test(test_names_of_other_systems),
        cmocka_unit_test(test_blocks_by_function),
        cmocka_unit_test(test_training_accumulates_by_itself),
        cmocka_unit_test(test_inference_leaves_out),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_inference_refusals),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_warnings_of_rules),
        cmocka_unit_test(test_failed_allocations),
        cmocka_unit_test(test_large_models_compile_fast),
        cmocka_unit_test(test_compile_only),
        cmocka_unit_test(test_a_plan_is_stopped_anywhere),
    };

    return cmocka_run_group_tests_name("plan/compile", tests, NULL, NULL);
}
