/*
 * test_devices.c: tests the devices of stages and every rule about them, with a table of errors and valid cases.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>

#include "plan/devices.h"
#include "plan/plan.h"

enum { MOST_STAGES = 8 };

typedef struct placed {
    uint32_t stage_count;
    const char *positions, *phases, *given; /* digits; "" : a device for each stage; given "-": no device */
} placed;

static bgi_stages make_stages(const placed *p)
{
    bgi_stages stages = {0};

    for (uint32_t s = 0; s < p->stage_count; s++) {
        const uint32_t position = p->positions[0] != '\0' ? (uint32_t)(p->positions[s] - '0') : s;
        const uint32_t phase = p->phases[0] != '\0' ? (uint32_t)(p->phases[s] - '0') : position;
        const bool is_given = p->given[0] != '\0' && p->given[s] != '-';
        assert_true(
            bgi_stages_add(&stages, is_given ? (uint32_t)(p->given[s] - '0') : BG_DEVICE_NONE, position, phase));
    }
    stages.has_phases = p->phases[0] != '\0';
    return stages;
}

static const bg_schedule_generator line = {.name = "line", .placement = BG_PLACEMENT_LINE};
static const bg_schedule_generator loop = {.name = "loop", .placement = BG_PLACEMENT_LOOP};
static const bg_schedule_generator fold = {.name = "fold", .placement = BG_PLACEMENT_FOLD};

static void test_placements(void **state)
{
    static const uint32_t mapping[] = {0, 1, 1, 0}, reversed[] = {3, 2, 1, 0}, gaps[] = {3, 1, 1, 3};
    static const struct {
        placed stages;
        const bg_schedule_generator *generator;
        bg_strategy strategy;
        uint32_t device_count;
        bool parallel;
        const uint32_t *mapping;
        const char *devices;
    } cases[] = {
        {{4, "", "", ""}, &line, BG_STRATEGY_PIPELINED, 0, false, NULL, "0123"},
        {{4, "", "", ""}, &line, BG_STRATEGY_PIPELINED, 4, false, NULL, "0123"},
        {{6, "", "", ""}, &loop, BG_STRATEGY_PIPELINED, 0, false, NULL, "012012"},
        {{6, "", "", ""}, &loop, BG_STRATEGY_PIPELINED, 2, false, NULL, "010101"},
        {{5, "", "", ""}, &loop, BG_STRATEGY_PIPELINED, 0, false, NULL, "01234"},
        {{6, "", "", ""}, &fold, BG_STRATEGY_PIPELINED, 0, false, NULL, "012210"},
        {{4, "", "", "0--1"}, &line, BG_STRATEGY_PIPELINED, 0, false, NULL, "0121"},
        {{4, "", "", "0110"}, &fold, BG_STRATEGY_PIPELINED, 0, false, NULL, "0110"},
        {{4, "", "", ""}, &line, BG_STRATEGY_PIPELINED, 0, false, mapping, "0110"},
        {{4, "", "", "0123"}, &line, BG_STRATEGY_PIPELINED, 2, false, mapping, "0110"}, /* indexed by block id
                                                                                         */
        {{4, "", "", ""}, &line, BG_STRATEGY_SHARDED, 0, false, reversed, "3210"},
        {{4, "", "", ""}, &line, BG_STRATEGY_PIPELINED, 0, false, gaps, "3113"},
        {{3, "", "", "1-2"}, &line, BG_STRATEGY_PIPELINED, 0, false, NULL, "112"},
        {{4, "0112", "", ""}, &line, BG_STRATEGY_PIPELINED, 0, false, NULL, "0123"},
        {{4, "", "0112", ""}, &line, BG_STRATEGY_PHASED, 0, true, NULL, "0130"},
        {{3, "", "", ""}, &line, BG_STRATEGY_PHASED, 0, false, NULL, "000"},
        {{5, "", "00112", ""}, &line, BG_STRATEGY_PHASED, 0, false, NULL, "01010"},
        {{6, "", "001122", ""}, &line, BG_STRATEGY_PHASED, 0, true, NULL, "021302"},
        {{3, "", "", ""}, &line, BG_STRATEGY_PHASED, 2, true, NULL, "010"},
        {{4, "", "", "0312"}, &line, BG_STRATEGY_PHASED, 0, false, NULL, "0312"},
        {{4, "", "0011", "0213"}, &line, BG_STRATEGY_PHASED, 0, true, NULL, "0213"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_options options = bg_options_defaults();
        bgi_stages stages = make_stages(&cases[i].stages);
        bg_error error = {0};
        char text[MOST_STAGES + 1] = "";
        options.execution.strategy = cases[i].strategy;
        options.execution.device_count = cases[i].device_count;
        options.execution.phases_parallel = cases[i].parallel;
        options.execution.device_mapping = cases[i].mapping;
        options.execution.device_mapping_count = cases[i].mapping != NULL ? 4 : 0;
        if (bgi_place_stages(&options, cases[i].generator, &stages, &error) != BG_OK)
            fail_msg("case %zu: %s", i, error.message);
        for (uint32_t s = 0; s < stages.stage_count && s < MOST_STAGES; s++)
            text[s] = (char)('0' + stages.stage_devices[s]);
        if (strcmp(text, cases[i].devices) != 0)
            fail_msg("case %zu: devices %s instead of %s", i, text, cases[i].devices);
        bgi_stages_clear(&stages);
    }
}

static void test_placement_refusals(void **state)
{
    static const uint32_t three[] = {0, 1, 2}, far[] = {0, 2, 68, 0}, same[] = {0, 1, 1, 0}, around[] = {0, 1, 2, 1};
    static const bg_device_model two_models[] = {{1, 0}, {2, 0}};
    static const struct {
        placed stages;
        const bg_schedule_generator *generator;
        bg_options options; /* the fields that differ */
        const char *part;
    } cases[] = {
        {{4, "", "", ""},
         &line,
         {.execution.strategy = BG_STRATEGY_PIPELINED,
          .execution.device_mapping = three,
          .execution.device_mapping_count = 3},
         "device_mapping has 3 devices, but there are 4 stages; give one device for each stage"},
        {{4, "", "", ""},
         &line,
         {.execution.strategy = BG_STRATEGY_PIPELINED,
          .execution.device_mapping = far,
          .execution.device_mapping_count = 4},
         "device 1 has no stage, but device 68 has; 66 devices would be idle, but at most 64 may be"},
        {{4, "", "", ""},
         &line,
         {.execution.strategy = BG_STRATEGY_PIPELINED, .execution.device_count = 2},
         "schedule `line` needs one device for each stage, but there are 4 stages and 2 devices"},
        {{5, "", "", ""},
         &fold,
         {.execution.strategy = BG_STRATEGY_PIPELINED},
         "needs two stages on each device, but there are 5 stages"},
        {{5, "", "", ""},
         &loop,
         {.execution.strategy = BG_STRATEGY_PIPELINED, .execution.device_count = 2},
         "needs a number of stages that is a multiple of the number of devices, but there are 5 stages and 2 devices"},
        {{2, "", "", "01"},
         &line,
         {.execution.strategy = BG_STRATEGY_PIPELINED, .execution.device_count = 3},
         "device_count is 3, but the stages are on 2 devices"},
        {{3, "", "", ""},
         &line,
         {.execution.strategy = BG_STRATEGY_PIPELINED,
          .execution.devices = two_models,
          .execution.device_model_count = 2},
         "devices: speed or memory is given for 2 devices, but the stages are on 3"},
        {{4, "0112", "", ""},
         &line,
         {.execution.strategy = BG_STRATEGY_PIPELINED,
          .execution.device_mapping = same,
          .execution.device_mapping_count = 4},
         "concurrent stages 1 and 2 are both on device 1"},
        {{4, "0111", "", ""},
         &line,
         {.execution.strategy = BG_STRATEGY_PIPELINED,
          .execution.device_mapping = around,
          .execution.device_mapping_count = 4},
         "concurrent stages 1 and 3 are both on device 1"},
        {{4, "", "0011", ""},
         &line,
         {.execution.strategy = BG_STRATEGY_PIPELINED, .execution.stages = "A|B;C|D"},
         "stages `A|B;C|D` have phases (;), but the strategy is pipelined"},
        {{4, "", "0011", "0132"},
         &line,
         {.execution.strategy = BG_STRATEGY_PHASED, .execution.phases_parallel = true},
         "parallel phases: stage 1 of phase 0 (even) is on device 1, stage 3 of phase 1 (odd) is on device 2; even"},
        {{2, "", "", "00"},
         &line,
         {.execution.strategy = BG_STRATEGY_PHASED, .execution.phases_parallel = true},
         "parallel phases: stage 1 of phase 1 (odd) is on device 0; even phases are on even devices"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bgi_stages stages = make_stages(&cases[i].stages);
        bg_error error = {0};
        if (bgi_place_stages(&cases[i].options, cases[i].generator, &stages, &error) != BG_ERROR_INVALID ||
            strstr(error.message, cases[i].part) == NULL)
            fail_msg("case %zu: `%s` does not say `%s`", i, error.message, cases[i].part);
        bgi_stages_clear(&stages);
    }
}

static void test_mapping_and_text(void **state)
{
    static const uint32_t mapping[] = {0, 1};
    const placed two = {2, "", "", "10"};
    bgi_stages stages = make_stages(&two);
    bg_options options = bg_options_defaults();
    bg_error error = {0};

    (void)state;
    stages.has_text_devices = true;
    options.execution.stages = "A@1|B@0";
    options.execution.device_mapping = mapping;
    options.execution.device_mapping_count = 2;
    assert_int_equal(bgi_place_stages(&options, &line, &stages, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "device_mapping and @ in stages `A@1|B@0` both give devices"));
    bgi_stages_clear(&stages);
}

static void test_neighbors(void **state)
{
    static const uint32_t mapping[] = {0};
    bg_options options = bg_options_defaults();

    (void)state;
    assert_true(bgi_merges_neighbors(&options, &line));
    assert_true(bgi_merges_neighbors(&options, &loop));
    assert_false(bgi_merges_neighbors(&options, &fold));
    options.execution.device_mapping = mapping;
    assert_false(bgi_merges_neighbors(&options, &line));
    options.execution.device_mapping = NULL;
    options.execution.strategy = BG_STRATEGY_PHASED;
    assert_false(bgi_merges_neighbors(&options, &line));
}

/* ---- limits of IPU software, on whole plans ---- */

typedef struct model {
    bg_graph *graph;
    bg_value loss;
} model;

/* Makes blocks A, B, C, ... of a linear layer each; C has A's weight if `tied` is true. `devices` has the blocks'
 * devices as digits. */
static model make_model(int block_count, bool tied, const char *devices)
{
    static const char *const blocks[] = {"A", "B", "C", "D"};
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, 8), label_type = bg_vector(BG_INT32, 4),
                  weight_type = bg_matrix(BG_FLOAT32, 8, 8);
    model m = {0};
    bg_value x, labels, first = {0};

    assert_int_equal(bg_graph_create(&m.graph, NULL), BG_OK);
    x = bg_graph_input(m.graph, "x", &x_type);
    labels = bg_graph_input(m.graph, "labels", &label_type);
    for (int i = 0; i < block_count; i++) {
        bg_value weight;
        char name[16];
        bg_block_begin(m.graph, blocks[i], devices[0] != '\0' ? (uint32_t)(devices[i] - '0') : BG_DEVICE_NONE);
        snprintf(name, sizeof name, "%s.weight", blocks[i]);
        weight = tied && i == 2 ? first : bg_graph_parameter(m.graph, name, &weight_type, NULL);
        first = i == 0 ? weight : first;
        x = bg_linear(m.graph, blocks[i], x, weight, (bg_value){0});
        if (i + 1 == block_count)
            m.loss = bg_cross_entropy(m.graph, "loss", x, labels, BG_LOSS_MEAN, -100);
        bg_block_end(m.graph);
    }
    bg_graph_output(m.graph, "loss", m.loss);
    assert_int_equal(bg_graph_check(m.graph, NULL), BG_OK);
    return m;
}

typedef struct limit_case {
    bool tied;
    const char *devices;
    bg_strategy strategy;
    const char *schedule, *stages;
    uint32_t accumulation, replicas;
    bg_auto_stage auto_stage;
    bool inference;
    const char *refusal; /* part of the error with ipu_limits; NULL: no error */
    const char *warning; /* part of the warning without ipu_limits; NULL: no warning */
} limit_case;

static const limit_case limit_cases[] = {
    /* the smallest numbers of micro-batches */
    {false, "", BG_STRATEGY_PIPELINED, NULL, "A|B,C", 2, 1, 0, false,
     "gradient accumulation is 2: a pipeline of N = 2 stages with schedule `interleaved` needs at least 3 (2 N - 1)",
     "gradient accumulation is 2, below the 3 that fill a pipeline of 2 stages with schedule `interleaved`: devices "
     "are "
     "idle for "},
    {false, "", BG_STRATEGY_PIPELINED, NULL, "A|B,C", 3, 1, 0, false, NULL, NULL},
    {false, "", BG_STRATEGY_PIPELINED, "grouped", "A|B,C", 2, 1, 0, false, "needs at least 3", "below the 3"},
    {false, "", BG_STRATEGY_PIPELINED, "interleaved", "A|B,C", 1, 1, 0, false, "needs at least 3", "below the 3"},
    /* the schedule is the same whether it is named or the default */
    {false, "", BG_STRATEGY_PIPELINED, "interleaved", "A|B,C", 2, 1, 0, false,
     "gradient accumulation is 2: a pipeline of N = 2 stages with schedule `interleaved` needs at least 3 (2 N - 1)",
     "gradient accumulation is 2, below the 3 that fill a pipeline of 2 stages with schedule `interleaved`"},
    {false, "", BG_STRATEGY_PIPELINED, "interleaved", "A|B,C", 3, 1, 0, false, NULL, NULL},
    {false, "", BG_STRATEGY_PIPELINED, "sequential", "A|B,C", 1, 1, 0, false, NULL, NULL},
    {false, "", BG_STRATEGY_SHARDED, NULL, "A|B,C", 1, 1, 0, false, NULL, NULL},
    {false, "", BG_STRATEGY_SINGLE, NULL, NULL, 1, 1, 0, false, NULL, NULL},
    {false, "", BG_STRATEGY_PIPELINED, NULL, "A|B,C", 1, 1, 0, true,
     "device iterations is 1: a pipeline of N = 2 stages with schedule `interleaved` needs at least 2",
     "device iterations is 1, below the 2"},
    {false, "", BG_STRATEGY_PIPELINED, NULL, "A|B,C", 2, 1, 0, true, NULL, NULL},
    /* stages and devices */
    {false, "", BG_STRATEGY_PIPELINED, NULL, "A,B,C", 9, 1, 0, false,
     "the pipeline has 1 stage; on IPUs it needs at least 2", "all stages are on one device"},
    {false, "010", BG_STRATEGY_PIPELINED, "grouped", NULL, 9, 1, BG_AUTO_STAGE_SAME_AS_IPU, false,
     "stage 2 is on device 0 after device 1: with auto_stage same_as_ipu", NULL},
    {false, "010", BG_STRATEGY_PIPELINED, "grouped", NULL, 9, 1, BG_AUTO_STAGE_INCREMENT, false, NULL, NULL},
    {false, "", BG_STRATEGY_PIPELINED, NULL, NULL, 9, 1, 0, false,
     "3 devices x 1 replicas = 3 devices; IPUs come in powers of two: use 4, or let auto_round_devices", NULL},
    {false, "", BG_STRATEGY_PIPELINED, NULL, "A|B,C", 9, 3, 0, false, "2 devices x 3 replicas = 6 devices", NULL},
    {true, "", BG_STRATEGY_PIPELINED, NULL, "A,B|C", 9, 1, 0, false,
     "variable `A.weight` is used by stage 0 on device 0 and by stage 1 on device 1; on IPUs layers that share it",
     NULL},
    {true, "", BG_STRATEGY_SHARDED, NULL, "A,B|C", 9, 1, 0, true, "variable `A.weight` is used by stage 0", NULL},
    {true, "", BG_STRATEGY_PIPELINED, "grouped", "A@0|B@1|C@0", 9, 1, 0, false, NULL, NULL},
};

static void keep_warning(void *user, bg_log_level level, const char *text)
{
    if (level == BG_LOG_WARNING)
        snprintf(user, 512, "%s", text);
}

static bg_status plan_case(const limit_case *c, bg_options *options, char *warning, bg_error *error)
{
    const bg_optimizer optimizer = bg_sgd(0.1);
    model m = make_model(3, c->tied, c->devices);
    bg_plan *plan = NULL;
    bg_status status;

    warning[0] = '\0';
    options->execution.strategy = c->strategy;
    options->execution.schedule = c->schedule;
    options->execution.stages = c->stages;
    options->execution.auto_stage = c->auto_stage;
    options->replicas.count = c->replicas;
    options->reporting.log = keep_warning;
    options->reporting.log_user = warning;
    *(c->inference ? &options->execution.device_iterations : &options->execution.gradient_accumulation) =
        c->accumulation;
    status = c->inference ? bg_plan_create_inference(m.graph, options, &plan, error)
                          : bg_plan_create_training(m.graph, m.loss, &optimizer, options, &plan, error);
    bg_plan_destroy(plan);
    bg_graph_destroy(m.graph);
    return status;
}

static void test_ipu_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof limit_cases / sizeof limit_cases[0]; i++) {
        const limit_case *c = &limit_cases[i];
        bg_options options = bg_options_defaults();
        bg_error error = {0};
        char warning[512];
        bg_status status = plan_case(c, &options, warning, &error);
        if (status != BG_OK || (c->warning == NULL ? warning[0] != '\0' : strstr(warning, c->warning) == NULL))
            fail_msg("case %zu: `%s`, warning `%s` instead of `%s`", i, error.message, warning,
                     c->warning != NULL ? c->warning : "");
        options = bg_options_defaults();
        options.execution.ipu_limits = true;
        bg_error_clear(&error);
        status = plan_case(c, &options, warning, &error);
        if (c->refusal == NULL ? status != BG_OK
                               : status != BG_ERROR_INVALID || strstr(error.message, c->refusal) == NULL)
            fail_msg("case %zu with limits: `%s` instead of `%s`", i, error.message,
                     c->refusal != NULL ? c->refusal : "");
    }
}

/* If inference on four devices has fewer device iterations than fill the pipeline, it causes a warning or, with the
 * limits of IPUs, an error. */
static void test_device_iterations_of_a_split_model(void **state)
{
    model m = make_model(4, false, "0123");
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    char warning[512] = "", expected[512];
    bg_plan *plan = NULL;

    (void)state;
    options.execution.device_iterations = 3;
    options.reporting.log = keep_warning;
    options.reporting.log_user = warning;
    assert_int_equal(bg_plan_create_inference(m.graph, &options, &plan, &error), BG_OK);
    assert_true(bg_plan_summarize(plan).idle_share > 0.4);
    snprintf(expected, sizeof expected,
             "device iterations is 3, below the 4 that fill a pipeline of 4 stages with schedule `interleaved`: "
             "devices are idle for %.0f%% of the time",
             100.0 * bg_plan_summarize(plan).idle_share);
    assert_string_equal(warning, expected);
    bg_plan_destroy(plan);
    plan = NULL;
    options.execution.ipu_limits = true;
    assert_int_equal(bg_plan_create_inference(m.graph, &options, &plan, &error), BG_ERROR_INVALID);
    assert_null(plan);
    assert_string_equal(error.message, "device iterations is 3: a pipeline of N = 4 stages with schedule `interleaved` "
                                       "needs at least 4 on IPUs; raise it, or use fewer stages");
    warning[0] = '\0';
    options.execution.device_iterations = 4;
    assert_int_equal(bg_plan_create_inference(m.graph, &options, &plan, &error), BG_OK);
    assert_string_equal(warning, "");
    bg_plan_destroy(plan);
    bg_graph_destroy(m.graph);
}

static void test_rounded_devices(void **state)
{
    const limit_case three = {false, "", BG_STRATEGY_PIPELINED, NULL, NULL, 9, 1, 0, false, NULL, NULL};
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    char warning[512];

    (void)state;
    options.execution.ipu_limits = options.execution.auto_round_devices = true;
    assert_int_equal(plan_case(&three, &options, warning, &error), BG_OK);
    assert_string_equal(warning, "4 devices are reserved for 3: 1 of them are idle (25%)");
}

static void test_interleaved_with_a_shared_device(void **state)
{
    static const uint32_t mapping[] = {0, 1, 1};
    const limit_case repeated = {false, "", BG_STRATEGY_PIPELINED, "interleaved", "A|B|C", 9, 1, 0, false, NULL, NULL};
    limit_case grouped = repeated;
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    char warning[512];

    (void)state;
    options.execution.device_mapping = mapping;
    options.execution.device_mapping_count = 3;
    assert_int_equal(plan_case(&repeated, &options, warning, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "stages 1 and 2 share device 1"));
    grouped.schedule = "grouped";
    assert_int_equal(plan_case(&grouped, &options, warning, NULL), BG_OK);
}

/* The default schedule does not move stages to other devices. */
static void test_default_with_a_shared_device(void **state)
{
    static const uint32_t mappings[][3] = {{0, 1, 2}, {0, 1, 1}, {0, 1, 0}, {0, 0, 0}};
    static const char *const names[2][4] = {{"interleaved", "interleaved", "interleaved", "sequential"},
                                            {"interleaved", "grouped", "grouped", "sequential"}};
    const bg_optimizer optimizer = bg_sgd(0.1);

    (void)state;
    for (int training = 0; training < 2; training++)
        for (int i = 0; i < 4; i++) {
            model m = make_model(3, false, "");
            bg_options options = bg_options_defaults();
            bg_plan *plan = NULL;
            options.execution.stages = "A|B|C";
            options.execution.device_mapping = mappings[i];
            options.execution.device_mapping_count = 3;
            *(training ? &options.execution.gradient_accumulation : &options.execution.device_iterations) = 9;
            assert_int_equal(training ? bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, NULL)
                                      : bg_plan_create_inference(m.graph, &options, &plan, NULL),
                             BG_OK);
            assert_string_equal(bg_plan_schedule_name(plan), names[training][i]);
            bg_plan_destroy(plan);
            bg_graph_destroy(m.graph);
        }
}

/* Blocks that were given one device are one stage; a mapping treats them as separate stages. */
static void test_mapping_keeps_neighbors(void **state)
{
    static const uint32_t three[] = {1, 1, 0}, two[] = {1, 0};
    const limit_case blocks = {false, "001", BG_STRATEGY_PIPELINED, NULL, NULL, 3, 1, 0, false, NULL, NULL};
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    char warning[512];

    (void)state;
    options.execution.device_mapping = three;
    options.execution.device_mapping_count = 3;
    if (plan_case(&blocks, &options, warning, &error) != BG_OK)
        fail_msg("%s", error.message);
    options.execution.device_mapping = two;
    options.execution.device_mapping_count = 2;
    assert_int_equal(plan_case(&blocks, &options, warning, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "device_mapping has 2 devices, but there are 3 stages"));
}

static void test_devices_without_a_stage(void **state)
{
    static const uint32_t mapping[] = {3, 1}, one[] = {2, 2}, most[] = {65, 0};
    const limit_case two = {false, "", BG_STRATEGY_PIPELINED, NULL, "A|B,C", 3, 1, 0, false, NULL, NULL};
    bg_options options = bg_options_defaults();
    char warning[512];

    (void)state;
    options.execution.device_mapping = mapping;
    options.execution.device_mapping_count = 2;
    assert_int_equal(plan_case(&two, &options, warning, NULL), BG_OK);
    assert_string_equal(warning, "devices without a stage are idle: 2 of 4, first device 0");
    options.execution.device_mapping = most;
    assert_int_equal(plan_case(&two, &options, warning, NULL), BG_OK);
    assert_string_equal(warning, "devices without a stage are idle: 64 of 66, first device 1");
    options.execution.device_mapping = mapping;
    options.execution.ipu_limits = true; /* four devices are a power of two */
    assert_int_equal(plan_case(&two, &options, warning, NULL), BG_OK);
    options.execution.ipu_limits = false;
    options.execution.device_mapping = one;
    assert_int_equal(plan_case(&two, &options, warning, NULL), BG_OK);
    assert_non_null(strstr(warning, "all stages are on one device"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placements),
        cmocka_unit_test(test_placement_refusals),
        cmocka_unit_test(test_mapping_keeps_neighbors),
        cmocka_unit_test(test_devices_without_a_stage),
        cmocka_unit_test(test_mapping_and_text),
        cmocka_unit_test(test_neighbors),
        cmocka_unit_test(test_ipu_limits),
        cmocka_unit_test(test_device_iterations_of_a_split_model),
        cmocka_unit_test(test_rounded_devices),
        cmocka_unit_test(test_interleaved_with_a_shared_device),
        cmocka_unit_test(test_default_with_a_shared_device),
    };

    return cmocka_run_group_tests_name("plan/devices", tests, NULL, NULL);
}
