/*
 * test_call_costs.c: tests costs of kernel calls: the table, the file with every kind of invalid value, prices of known
 * and unknown calls, and the measured cost of a kernel that sleeps for a known time.
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
#include <time.h>

#include <brigade/session.h>

#include "predict/call_costs.h"
#include "support/folder.h"

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static void costs_are_found(void **state)
{
    bgi_call_costs costs = {.costs = NULL};
    bg_error error = {0};
    char key[32];

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "call %d", i * 37 % 100);
        require(bgi_call_costs_put(&costs, key, (bgi_call_times_ns){i, 2.0 * i, 0.5 * i}, &error), &error);
    }
    require(bgi_call_costs_put(&costs, "call 7", (bgi_call_times_ns){5.5, 6.5, 4.5}, &error), &error);
    assert_int_equal(costs.count, 100);
    assert_true(bgi_call_costs_find(&costs, "call 7")->ns.alone == 5.5);
    assert_true(bgi_call_costs_find(&costs, "call 37")->ns.busy == 2.0 &&
                bgi_call_costs_find(&costs, "call 37")->ns.helped == 0.5);
    assert_null(bgi_call_costs_find(&costs, "call 100"));
    bgi_call_costs_clear(&costs);
}

static bgi_call_costs make_costs(void)
{
    bgi_call_costs costs = {.cores = 2,
                            .instruction_ns = 11.5,
                            .copy_bytes_per_ns = 20.0,
                            .transfer_bytes_per_ns = 12.5,
                            .rank_link = {.bytes_per_ns = 2.5, .latency_ns = 450.0},
                            .core_ratios = {1.125, 0.875},
                            .core_ratio_count = 2};
    bg_error error = {0};

    require(bgi_call_costs_put(&costs, "a \"quoted\" call", (bgi_call_times_ns){1.25, 2.5, 0.75}, &error), &error);
    require(bgi_call_costs_put(&costs, "b", (bgi_call_times_ns){0.0, 1e12, 0.0}, &error), &error);
    return costs;
}

static char *save(const bgi_call_costs *costs, const char *folder, char *path, size_t path_bytes)
{
    char *text;
    bg_error error = {0};
    FILE *stream;
    long size;

    snprintf(path, path_bytes, "%s/cache/brigade/calls.json", folder);
    require(bgi_call_costs_save(costs, path, &error), &error);
    stream = fopen(path, "r");
    assert_non_null(stream);
    fseek(stream, 0, SEEK_END);
    size = ftell(stream);
    rewind(stream);
    text = calloc(1, (size_t)size + 1);
    assert_int_equal(fread(text, 1, (size_t)size, stream), size);
    fclose(stream);
    return text;
}

static void files_read_back(void **state)
{
    bgi_call_costs costs = make_costs(), read;
    bg_error error = {0};
    char folder[TEST_FOLDER_BYTES], path[512], *text;

    (void)state;
    test_folder_create(folder);
    text = save(&costs, folder, path, sizeof path);
    require(bgi_call_costs_load(path, &read, &error), &error);
    assert_int_equal(read.count, 2);
    assert_int_equal(read.cores, 2);
    assert_true(read.instruction_ns == 11.5 && read.copy_bytes_per_ns == 20.0 && read.transfer_bytes_per_ns == 12.5);
    assert_int_equal(read.core_ratio_count, 2);
    assert_true(read.core_ratios[0] == 1.125 && read.core_ratios[1] == 0.875);
    assert_true(read.rank_link.bytes_per_ns == 2.5 && read.rank_link.latency_ns == 450.0);
    assert_true(bgi_call_costs_find(&read, "a \"quoted\" call")->ns.busy == 2.5);
    assert_true(bgi_call_costs_find(&read, "a \"quoted\" call")->ns.helped == 0.75);
    bgi_call_costs_clear(&read);
    free(text);
    remove(path);
    assert_int_equal(bgi_call_costs_load(path, &read, &error), BG_ERROR_NOT_FOUND);
    test_folder_remove(folder);
    bgi_call_costs_clear(&costs);
}

static void wrong_files_are_refused(void **state)
{
    static const struct {
        const char *from, *to;
        bg_status status;
    } cases[] = {
        {"brigade call costs 4", "brigade call costs 3", BG_ERROR_PARSE},
        {"\"build\": \"", "\"build\": \"x", BG_ERROR_UNSUPPORTED},
        {"\"processor\": \"", "\"processor\": \"x", BG_ERROR_UNSUPPORTED},
        {"\"cores\": 2", "\"cores\": 0", BG_ERROR_PARSE},
        {"\"cores\": 2", "\"cores\": 1.5", BG_ERROR_PARSE},
        {"\"alone_ns\": 1.25", "\"alone_ns\": -1.25", BG_ERROR_PARSE},
        {"\"alone_ns\": 1.25", "\"alone_ns\": null", BG_ERROR_PARSE},
        {"\"helped_ns\": 0.75", "\"helped_ns\": -1", BG_ERROR_PARSE},
        {",\n   \"helped_ns\": 0.75", "", BG_ERROR_PARSE},
        {"\"call\": \"b\"", "\"call\": \"a \\\"quoted\\\" call\"", BG_ERROR_PARSE},
        {"\"call\": \"b\"", "\"cell\": \"b\"", BG_ERROR_PARSE},
        {"\"copy_bytes_per_ns\": 20.0", "\"copy_bytes_per_ns\": -20.0", BG_ERROR_PARSE},
        {"\"transfer_bytes_per_ns\": 12.5", "\"transfer_bytes_per_ns\": -1", BG_ERROR_PARSE},
        {"\"rank_latency_ns\": 450.0", "\"rank_latency_ns\": -1", BG_ERROR_PARSE},
        {"\"rank_bytes_per_ns\": 2.5", "\"rank_bytes_per_ns\": \"fast\"", BG_ERROR_PARSE},
        {"0.875", "0", BG_ERROR_PARSE},
        {"0.875", "null", BG_ERROR_PARSE},
        {"\"core_ratios\": [", "\"core_ratios\": 2, \"other\": [", BG_ERROR_PARSE},
        {"\"cores\"", "\"other\": 1, \"cores\"", BG_ERROR_PARSE},
    };
    bgi_call_costs costs = make_costs(), read = {.cores = 77};
    char folder[TEST_FOLDER_BYTES], path[512], *text;

    (void)state;
    test_folder_create(folder);
    text = save(&costs, folder, path, sizeof path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *at = strstr(text, cases[i].from);
        bg_error error = {0};
        char damaged[4096];
        bg_status status;
        if (at == NULL)
            fail_msg("case %zu: no `%s` in %s", i, cases[i].from, text);
        snprintf(damaged, sizeof damaged, "%.*s%s%s", (int)(at - text), text, cases[i].to, at + strlen(cases[i].from));
        status = bgi_call_costs_parse("file", damaged, strlen(damaged), &read, &error);
        if (status != cases[i].status || strncmp(error.message, "file", 4) != 0)
            fail_msg("case %zu: status %d, `%s`", i, (int)status, error.message);
        assert_int_equal(read.cores, 77); /* untouched */
    }
    free(text);
    test_folder_remove(folder);
    bgi_call_costs_clear(&costs);
}

/* A measured call has its measured price. The price of another call is computed from operations and bytes and the
 * measured calls of the same kernel. */
static void unknown_calls_are_like_known_ones_of_the_kernel(void **state)
{
    bg_type types[2] = {bg_vector(BG_FLOAT32, 8), bg_vector(BG_FLOAT32, 8)};
    bgi_call call = {.kernel = {.name = "k.fast", .part_count = 1},
                     .input_count = 1,
                     .output_count = 1,
                     .types = types,
                     .cost = {.flops = 8e6}};
    bgi_call_costs costs = {.copy_bytes_per_ns = 20.0};
    bgi_machine_prices machine;
    bgi_device_model model;
    char key[BGI_CALL_KEY_BYTES];
    bg_error error = {0};
    double modeled;

    (void)state;
    bgi_device_model_static(&model);
    modeled = bgi_model_call_ns(&model, &call);
    assert_true(bgi_call_key(&call, key));
    require(bgi_call_costs_put(&costs, key, (bgi_call_times_ns){3.0 * modeled, 5.0 * modeled, 4.0 * modeled}, &error),
            &error);
    bgi_prices_of_machine(&costs, 1, 1, &machine);
    assert_true(bgi_measured_call_ns(&machine.alone, &call) == 3.0 * modeled);
    assert_true(bgi_measured_call_ns(&machine.busy, &call) == 5.0 * modeled);
    types[0] = bg_vector(BG_FLOAT32, 16);
    call.cost.flops = 16e6;
    assert_true(fabs(bgi_measured_call_ns(&machine.alone, &call) / (3.0 * bgi_model_call_ns(&model, &call)) - 1) <
                1e-9);
    call.kernel.name = "k";
    assert_true(bgi_measured_call_ns(&machine.alone, &call) == bgi_model_call_ns(&model, &call));
    bgi_call_costs_clear(&costs);
}

/* If a call takes 5 on one core and 4 on two, the two cores divide 2 of the 5 between them. If helpers delay the call,
 * the divided part is negative. */
static void helpers_divide_what_they_save(void **state)
{
    bg_type types[2] = {bg_vector(BG_FLOAT32, 8), bg_vector(BG_FLOAT32, 8)};
    bgi_call call = {.kernel = {.name = "k", .part_count = 4},
                     .input_count = 1,
                     .output_count = 1,
                     .types = types,
                     .cost = {.flops = 8e6}};
    bgi_call_costs costs = {.cores = 2, .copy_bytes_per_ns = 20.0};
    bgi_machine_prices machine;
    char key[BGI_CALL_KEY_BYTES];
    bg_error error = {0};

    (void)state;
    assert_true(bgi_call_key(&call, key));
    require(bgi_call_costs_put(&costs, key, (bgi_call_times_ns){3.0, 5.0, 4.0}, &error), &error);
    bgi_prices_of_machine(&costs, 1, 1, &machine);
    assert_true(machine.prices.divisible_ns == bgi_measured_divisible_ns);
    assert_true(bgi_measured_divisible_ns(&machine.busy, &call) == 2.0);
    assert_true(bgi_measured_divisible_ns(&machine.alone, &call) == -2.0);
    types[0] = bg_vector(BG_FLOAT32, 16); /* unknown calls of one kernel count as one op */
    assert_true(bgi_measured_divisible_ns(&machine.busy, &call) == bgi_measured_call_ns(&machine.busy, &call));
    call.kernel.part_count = 1;
    assert_true(bgi_measured_divisible_ns(&machine.busy, &call) == 0.0);
    types[0] = bg_vector(BG_FLOAT32, 8); /* one part: it takes 5 beside busy cores, and 4 beside idle ones */
    assert_true(bgi_call_key(&call, key));
    require(bgi_call_costs_put(&costs, key, (bgi_call_times_ns){3.0, 5.0, 4.0}, &error), &error);
    assert_true(bgi_measured_divisible_ns(&machine.busy, &call) == 2.0);
    bgi_call_costs_clear(&costs);
}

/* ---- measuring ---- */

enum { NAP_NS = 2000000, WIDTH = 4, PARTS = 2, LOOKS = 30 };
static const double LEAST_GAIN = 1.5;

static void run_nap(const bg_kernel_call *call, uint32_t part)
{
    if (part == 0)
        memcpy(call->operands[1], call->operands[0], WIDTH * sizeof(float));
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static bg_status infer_nap(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status choose_nap(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op, (void)policy, (void)error;
    *out = (bg_kernel){.name = "nap", .run = run_nap, .part_count = PARTS};
    return BG_OK;
}

static const bg_op_type nap = {BG_OP_TYPE_DEFAULTS, .name = "nap",      .minimum_inputs = 1, .maximum_inputs = 1,
                               .output_count = 1,   .infer = infer_nap, .kernel = choose_nap};

static bg_plan *make_naps(void)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, WIDTH);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_value x;

    options.execution.cores = 1;
    options.reporting.trace = true;
    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &type);
    x = bg_graph_add(graph, &nap, NULL, &x, 1, NULL, NULL);
    bg_graph_output(graph, "y", x);
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static double find_gain(const bgi_call_costs *costs)
{
    for (size_t i = 0; i < costs->count; i++)
        if (strncmp(costs->costs[i].key, "nap ", 4) == 0)
            return costs->costs[i].ns.alone / costs->costs[i].ns.helped;
    return 0.0;
}

/* Two threads sleep at the same time on any machine, unless it is so busy that one of them wakes up too late. */
static void helpers_are_measured(void **state)
{
    bg_plan *plan = make_naps();
    double best = 0.0;

    (void)state;
    for (int look = 0; look < LOOKS && best < LEAST_GAIN; look++) {
        bgi_call_costs costs = {.costs = NULL};
        bg_error error = {0};
        require(bgi_call_costs_measure(&costs, plan, 2, true, &error), &error);
        best = fmax(best, find_gain(&costs));
        bgi_call_costs_clear(&costs);
    }
    if (best < LEAST_GAIN)
        fail_msg("a helper makes naps %.2f times as fast", best);
    bg_plan_destroy(plan);
}

/* Sleeping takes at least the requested time, on any machine. */
static void calls_are_measured_once(void **state)
{
    bg_plan *plan = make_naps();
    /* The costs are as `brigade doctor` leaves them: no call is known. */
    bgi_call_costs costs = {.cores = 2,
                            .rank_link = {.bytes_per_ns = 2.5, .latency_ns = 450.0},
                            .core_ratios = {1.125, 0.875},
                            .core_ratio_count = 2};
    bg_error error = {0};
    uint32_t counted, known;
    double before;

    (void)state;
    require(bgi_call_costs_count(&costs, plan, &counted, &known, &error), &error);
    assert_int_equal(known, 0);
    assert_true(counted >= 1);
    require(bgi_call_costs_measure(&costs, plan, 2, false, &error), &error);
    require(bgi_call_costs_count(&costs, plan, &counted, &known, &error), &error);
    assert_int_equal(known, counted);
    assert_int_equal(costs.cores, 2);
    assert_true(costs.copy_bytes_per_ns > 0.0);
    for (size_t i = 0; i < costs.count; i++)
        if (strncmp(costs.costs[i].key, "nap ", 4) == 0)
            assert_true(costs.costs[i].ns.alone >= PARTS * NAP_NS && costs.costs[i].ns.busy >= PARTS * NAP_NS &&
                        costs.costs[i].ns.helped >= NAP_NS);
    costs.costs[0].ns.alone = before = 77.0;
    require(bgi_call_costs_measure(&costs, plan, 2, false, &error), &error);
    assert_true(costs.costs[0].ns.alone == before); /* known stays */
    require(bgi_call_costs_measure(&costs, plan, 2, true, &error), &error);
    assert_true(costs.costs[0].ns.alone != before);
    assert_true(costs.rank_link.bytes_per_ns == 2.5 && costs.rank_link.latency_ns == 450.0);
    bgi_call_costs_clear(&costs);
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_found),
        cmocka_unit_test(files_read_back),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(unknown_calls_are_like_known_ones_of_the_kernel),
        cmocka_unit_test(helpers_divide_what_they_save),
        cmocka_unit_test(calls_are_measured_once),
        cmocka_unit_test(helpers_are_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
