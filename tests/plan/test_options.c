/*
 * test_options.c: names are read and printed consistently, and bgi_options_validate checks every range.
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

#include "plan/options.h"

#include <brigade/plan.h>

static void test_defaults_are_valid(void **state)
{
    bg_options options = bg_options_defaults();
    (void)state;

    assert_int_equal(bgi_options_validate(&options, true, NULL), BG_OK);
    assert_int_equal(bgi_options_validate(&options, false, NULL), BG_OK);
    assert_int_equal(options.execution.strategy, BG_STRATEGY_PIPELINED);
    assert_true(options.execution.wait_limit_s == 60.0);
    assert_int_equal(options.reporting.trace_events, 65536);
}

/* Every value has a name that is read back, and invalid names are errors. */
static void test_names(void **state)
{
    static const struct {
        const char *option;
        int last;
    } options[] = {{"strategy", BG_STRATEGY_PHASED},
                   {"output_mode", BG_OUTPUT_EVERY_N},
                   {"recompute", BG_RECOMPUTE_AUTO},
                   {"recompute_order", BG_RECOMPUTE_THEN},
                   {"accumulation", BG_ACCUMULATE_MEAN_RUNNING},
                   {"replica_reduction", BG_REPLICAS_SUM},
                   {"phase_liveness", BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE},
                   {"pinning", BG_PINNING_SPREAD},
                   {"memmap_mode", BG_MEMMAP_READ_ONLY}};

    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        int found = -1;

        for (int value = 0; value <= options[i].last; value++) {
            assert_true(
                bg_option_value_find(options[i].option, bg_option_value_name(options[i].option, value), &found));
            assert_int_equal(found, value);
        }
        assert_null(bg_option_value_name(options[i].option, options[i].last + 1));
        assert_null(bg_option_value_name(options[i].option, -1));
        assert_false(bg_option_value_find(options[i].option, "piped", &found));
        assert_false(bg_option_value_find(options[i].option, "", &found));
        assert_false(bg_option_value_find(options[i].option, NULL, &found));
        assert_int_equal(found, options[i].last);
    }
    assert_string_equal(bg_option_value_name("strategy", BG_STRATEGY_PIPELINED), "pipelined");
    for (int none = 0; none < 3; none++) {
        const char *option = none == 0 ? "cores" : none == 1 ? "no_such" : NULL;
        int found = 7;

        assert_null(bg_option_value_name(option, 0));
        assert_false(bg_option_value_find(option, "none", &found));
        assert_int_equal(found, 7);
    }
}

/* Invalid options, and strings that the errors contain. */
typedef struct bad_case {
    const char *words;
    void (*spoil)(bg_options *options);
    bool inference;
} bad_case;

static const bg_output_request nameless[] = {{.output = NULL, .mode = BG_OUTPUT_ALL}};
static const bg_output_request bad_period[] = {{.output = "loss", .mode = BG_OUTPUT_EVERY_N, .period = 3}};

static void spoil_iterations(bg_options *options)
{
    options->execution.device_iterations = 0;
}
static void spoil_accumulation(bg_options *options)
{
    options->execution.gradient_accumulation = 0;
}
static void spoil_inference(bg_options *options)
{
    options->execution.gradient_accumulation = 4;
}
static void spoil_replicas(bg_options *options)
{
    options->replicas.count = 0;
}
static void spoil_product(bg_options *options)
{
    options->execution.device_iterations = 70000;
    options->execution.gradient_accumulation = 70000;
}
static void spoil_strategy(bg_options *options)
{
    options->execution.strategy = (bg_strategy)9;
}
static void spoil_schedule(bg_options *options)
{
    options->execution.schedule = "zigzag";
}
static void spoil_place(bg_options *options)
{
    options->memory.locations[BG_LOCATION_STATE].place = (bg_place)7;
}

static void spoil_sharded_activations(bg_options *options)
{
    options->memory.locations[BG_LOCATION_ACTIVATIONS].sharded = true;
}

static const bg_location_rule sharding_rule = {1u << BG_LOCATION_WEIGHTS, "*", {.sharded = true}};
static const bg_location_rule empty_rule = {1u << BG_LOCATION_WEIGHTS, "", {.place = BG_PLACE_REMOTE}};
static const bg_location_rule unknown_class = {1u << BG_LOCATION_COUNT, "*", {.place = BG_PLACE_REMOTE}};

static void set_rule(bg_options *options, const bg_location_rule *rule)
{
    options->memory.location_rules = rule;
    options->memory.location_rule_count = 1;
}

static void spoil_sharding_rule(bg_options *options)
{
    set_rule(options, &sharding_rule);
}

static void spoil_pattern(bg_options *options)
{
    set_rule(options, &empty_rule);
}

static void spoil_rule_classes(bg_options *options)
{
    set_rule(options, &unknown_class);
}

static void spoil_rule_pointer(bg_options *options)
{
    options->memory.location_rule_count = 2;
}

static void spoil_liveness(bg_options *options)
{
    options->memory.phase_liveness = (bg_phase_liveness)4;
}

static void spoil_parallel_without_overlap(bg_options *options)
{
    options->execution.strategy = BG_STRATEGY_PHASED;
    options->execution.phases_parallel = true;
    options->memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP;
}

static void spoil_parallel_each_phase(bg_options *options)
{
    spoil_parallel_without_overlap(options);
    options->memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
}

static void spoil_pinning(bg_options *options)
{
    options->execution.pinning = (bg_pinning)3;
}

static void spoil_io_threads(bg_options *options)
{
    options->execution.io_threads = 65;
}

static void spoil_schedule_of_sharded(bg_options *options)
{
    options->execution.strategy = BG_STRATEGY_SHARDED;
    options->execution.schedule = "grouped";
}
static void spoil_mode(bg_options *options)
{
    options->reporting.output_mode = (bg_output_mode)9;
}
static void spoil_period(bg_options *options)
{
    options->reporting.output_mode = BG_OUTPUT_EVERY_N;
    options->reporting.output_period = 0;
}
static void spoil_request(bg_options *options)
{
    options->reporting.output_requests = nameless;
    options->reporting.output_request_count = 1;
}
static void spoil_request_period(bg_options *options)
{
    options->execution.device_iterations = 10;
    options->reporting.output_requests = bad_period;
    options->reporting.output_request_count = 1;
}
static void spoil_request_array(bg_options *options)
{
    options->reporting.output_request_count = 2;
}
static void spoil_reduction(bg_options *options)
{
    options->numerics.accumulation = (bg_accumulation)5;
}
static void spoil_replica_reduction(bg_options *options)
{
    options->replicas.replica_reduction = (bg_replica_reduction)4;
}
static void spoil_reduce_time(bg_options *options)
{
    options->replicas.reduce_time = (bg_reduce_time)3;
}
static void spoil_accumulator(bg_options *options)
{
    options->numerics.accumulator_type = (bg_accumulator_type)7;
}
static void spoil_given_accumulator(bg_options *options)
{
    options->numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
    options->numerics.accumulator_dtype = BG_INT32;
}
static void spoil_unused_accumulator(bg_options *options)
{
    options->numerics.accumulator_type = BG_ACCUMULATOR_SAME;
    options->numerics.accumulator_dtype = BG_FLOAT32;
}
static bg_dtype choose_nothing(void *user, const char *name, const bg_type *type)
{
    (void)user, (void)name;
    return type->dtype;
}
static void spoil_callback(bg_options *options)
{
    options->numerics.accumulator_type = BG_ACCUMULATOR_CALLBACK;
}
static void spoil_unused_callback(bg_options *options)
{
    options->numerics.choose_accumulator = choose_nothing;
}
static void spoil_moment(bg_options *options)
{
    options->numerics.second_moment_dtype = BG_FLOAT64;
}
static void spoil_norm(bg_options *options)
{
    options->numerics.max_gradient_norm = -0.5;
}
static void spoil_partials(bg_options *options)
{
    options->numerics.partials = BG_INT32;
}
static void spoil_scaling(bg_options *options)
{
    options->numerics.loss_scaling = 0.0;
}
static void spoil_scaling_with_infinity(bg_options *options)
{
    options->numerics.loss_scaling = INFINITY;
}
static void spoil_auto_edge(bg_options *options)
{
    options->numerics.auto_loss_scaling.enabled = true;
    options->numerics.auto_loss_scaling.bin_edge = 1.5;
}
static void spoil_auto_threshold(bg_options *options)
{
    options->numerics.auto_loss_scaling.enabled = true;
    options->numerics.auto_loss_scaling.threshold = (double)NAN;
}
static void spoil_auto_period(bg_options *options)
{
    options->numerics.auto_loss_scaling.enabled = true;
    options->numerics.auto_loss_scaling.period = 0;
}
static void spoil_auto_factors(bg_options *options)
{
    options->numerics.auto_loss_scaling.enabled = true;
    options->numerics.auto_loss_scaling.increase = 0.5;
}
static void spoil_auto_bounds(bg_options *options)
{
    options->numerics.auto_loss_scaling.enabled = true;
    options->numerics.auto_loss_scaling.maximum = 0.5;
}
static void spoil_auto_start(bg_options *options)
{
    options->numerics.auto_loss_scaling.enabled = true;
    options->numerics.loss_scaling = 0x1p25;
}
static void spoil_auto_sum(bg_options *options)
{
    options->numerics.auto_loss_scaling.enabled = true;
    options->replicas.replica_reduction = BG_REPLICAS_SUM;
}
static void spoil_auto_inference(bg_options *options)
{
    options->numerics.auto_loss_scaling.enabled = true;
}
static void spoil_proportion(bg_options *options)
{
    static const double shares[] = {0.5, -0.25};

    options->memory.matmul_proportions = shares;
    options->memory.matmul_proportion_count = 2;
}
static void spoil_proportion_pointer(bg_options *options)
{
    options->memory.matmul_proportion_count = 1;
}
static void spoil_norm_with_nan(bg_options *options)
{
    options->numerics.max_gradient_norm = (double)NAN;
}
static void spoil_kernels(bg_options *options)
{
    options->numerics.kernels = (bg_kernel_policy)99;
}
static void spoil_wait(bg_options *options)
{
    options->execution.wait_limit_s = -1.0;
}
static void spoil_trace(bg_options *options)
{
    options->reporting.trace = true;
    options->reporting.trace_events = 0;
}

static const uint32_t two_devices[] = {0, 70000};
static const bg_device_model slow_device[] = {{1, 0}, {0, 0}};
static const bg_block_cost nameless_cost[] = {{NULL, 1, 1, -1}};

static void spoil_phases(bg_options *options)
{
    options->execution.phases_parallel = true;
}
static void spoil_phased_schedule(bg_options *options)
{
    options->execution.strategy = BG_STRATEGY_PHASED;
    options->execution.schedule = "grouped";
}
static void spoil_auto_stage(bg_options *options)
{
    options->execution.auto_stage = (bg_auto_stage)7;
}
static void spoil_auto_stage_and_stages(bg_options *options)
{
    options->execution.auto_stage = BG_AUTO_STAGE_INCREMENT;
    options->execution.stages = "A|B";
}
static void spoil_mapping_pointer(bg_options *options)
{
    options->execution.device_mapping_count = 2;
}
static void spoil_mapping_count(bg_options *options)
{
    options->execution.device_mapping = two_devices;
}
static void spoil_mapping_device(bg_options *options)
{
    options->execution.device_mapping = two_devices;
    options->execution.device_mapping_count = 2;
}
static void spoil_mapping_of_single(bg_options *options)
{
    options->execution.strategy = BG_STRATEGY_SINGLE;
    options->execution.device_mapping = two_devices;
    options->execution.device_mapping_count = 1;
}
static void spoil_devices_of_single(bg_options *options)
{
    options->execution.strategy = BG_STRATEGY_SINGLE;
    options->execution.device_count = 2;
}
static void spoil_device_count(bg_options *options)
{
    options->execution.device_count = 70000;
}
static void spoil_devices(bg_options *options)
{
    options->execution.device_model_count = 3;
}
static void spoil_speed(bg_options *options)
{
    options->execution.devices = slow_device;
    options->execution.device_model_count = 2;
}
static void spoil_block_costs(bg_options *options)
{
    options->execution.block_cost_count = 1;
}
static void spoil_block_cost(bg_options *options)
{
    options->execution.block_costs = nameless_cost;
    options->execution.block_cost_count = 1;
}

static void spoil_recompute(bg_options *options)
{
    options->memory.recompute = (bg_recompute)9;
}
static void spoil_recompute_order(bg_options *options)
{
    options->memory.recompute_order = (bg_recompute_order)9;
}
static void spoil_fraction(bg_options *options)
{
    options->memory.recompute = BG_RECOMPUTE_FRACTION;
    options->memory.recompute_fraction = 1.5;
}
static void spoil_auto(bg_options *options)
{
    options->memory.recompute = BG_RECOMPUTE_AUTO;
}

static const bad_case bad_cases[] = {
    {"recompute is 9", spoil_recompute, false},
    {"recompute_order is 9", spoil_recompute_order, false},
    {"recompute_fraction is 1.5", spoil_fraction, false},
    {"recompute is auto, but device_memory_bytes is 0", spoil_auto, false},
    {"phases_parallel is set, but the pipelined strategy has no phases", spoil_phases, false},
    {"schedule is `grouped`, but the phased strategy has its own order", spoil_phased_schedule, false},
    {"auto_stage is 7; it must be BG_AUTO_STAGE_SAME_AS_IPU or _INCREMENT", spoil_auto_stage, false},
    {"auto_stage is auto_increment, but stages are `A|B`", spoil_auto_stage_and_stages, false},
    {"device_mapping_count is 2 but device_mapping is NULL", spoil_mapping_pointer, false},
    {"device_mapping_count is 0 but device_mapping is given", spoil_mapping_count, false},
    {"device_mapping[1] is 70000; a device's number must be at most 65535", spoil_mapping_device, false},
    {"device_mapping is set, but the single strategy has one stage", spoil_mapping_of_single, false},
    {"device_count above 1 is set, but the single strategy", spoil_devices_of_single, false},
    {"device_count is 70000; it must be at most 65536", spoil_device_count, false},
    {"device_model_count is 3 but devices is NULL", spoil_devices, false},
    {"devices[1].speed is 0; it must be above 0", spoil_speed, false},
    {"block_cost_count is 1 but block_costs is NULL", spoil_block_costs, false},
    {"block_costs[0].name is NULL; it must name a block", spoil_block_cost, false},
    {"block_costs[0].weights_ns is -1; times must be at least 0", spoil_block_cost, false},
    {"device_iterations is 0", spoil_iterations, false},
    {"gradient_accumulation is 0", spoil_accumulation, false},
    {"gradient_accumulation is 4 in inference", spoil_inference, true},
    {"replicas is 0", spoil_replicas, false},
    {"below 2^32", spoil_product, false},
    {"strategy is 9", spoil_strategy, false},
    {"schedule `zigzag` is unknown; the schedules are single, sharded, ", spoil_schedule, false},
    {"schedule is `grouped`, but the sharded", spoil_schedule_of_sharded, false},
    {"output_mode is 9", spoil_mode, false},
    {"period 0", spoil_period, false},
    {"output_requests[0].output is NULL", spoil_request, false},
    {"output_requests[0] every_n has period 3", spoil_request_period, false},
    {"but output_requests is NULL", spoil_request_array, false},
    {"accumulation is 5", spoil_reduction, false},
    {"replica_reduction is 4", spoil_replica_reduction, false},
    {"reduce_time is 3", spoil_reduce_time, false},
    {"accumulator_type is 7", spoil_accumulator, false},
    {"accumulator_dtype is int32", spoil_given_accumulator, false},
    {"needs accumulator_type BG_ACCUMULATOR_GIVEN", spoil_unused_accumulator, false},
    {"choose_accumulator is NULL", spoil_callback, false},
    {"needs accumulator_type BG_ACCUMULATOR_CALLBACK", spoil_unused_callback, false},
    {"second_moment_dtype is float64", spoil_moment, false},
    {"max_gradient_norm is -0.5", spoil_norm, false},
    {"max_gradient_norm is nan", spoil_norm_with_nan, false},
    {"partials is int32; it must be float32, bfloat16 or float16", spoil_partials, false},
    {"loss_scaling is 0; it must be from 2^-64 to 2^64", spoil_scaling, false},
    {"loss_scaling is inf; it must be from 2^-64 to 2^64", spoil_scaling_with_infinity, false},
    {"auto_loss_scaling.bin_edge is 1.5; it must be above 0 and at most 1", spoil_auto_edge, false},
    {"auto_loss_scaling.threshold is nan", spoil_auto_threshold, false},
    {"auto_loss_scaling.period is 0", spoil_auto_period, false},
    {"auto_loss_scaling has increase 0.5 and decrease 0.5", spoil_auto_factors, false},
    {"auto_loss_scaling has minimum 1 and maximum 0.5", spoil_auto_bounds, false},
    {"loss_scaling is 3.35544e+07, but auto_loss_scaling begins there", spoil_auto_start, false},
    {"auto_loss_scaling is on, but gradients are sums", spoil_auto_sum, false},
    {"auto_loss_scaling is on in inference", spoil_auto_inference, true},
    {"matmul_proportions[1] is -0.25; it must be a share of a device's memory", spoil_proportion, false},
    {"matmul_proportion_count is 1 but matmul_proportions is NULL", spoil_proportion_pointer, false},
    {"place_optimizer is 7; it must be BG_PLACE_DEFAULT, _DEVICE or _REMOTE", spoil_place, false},
    {"locations[0]: activations are sharded", spoil_sharded_activations, false},
    {"location_rules[0]: weights are sharded", spoil_sharding_rule, false},
    {"location_rules[0].pattern is", spoil_pattern, false},
    {"location_rules[0].classes is 16", spoil_rule_classes, false},
    {"location_rule_count is 2 but location_rules is NULL", spoil_rule_pointer, false},
    {"phase_liveness is 4; it must be", spoil_liveness, false},
    {"off_chip_after_fwd_no_overlap, but the phases are parallel", spoil_parallel_without_overlap, false},
    {"off_chip_after_each_phase, but the phases are parallel", spoil_parallel_each_phase, false},
    {"io_threads is 65; it must be 0", spoil_io_threads, false},
    {"pinning is 3; it must be BG_PINNING_NONE", spoil_pinning, false},
    {"kernels is 99", spoil_kernels, false},
    {"wait_limit_s is -1", spoil_wait, false},
    {"trace_events is 0", spoil_trace, false},
};

static void test_each_problem(void **state)
{
    (void)state;

    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        bg_options options = bg_options_defaults();
        bg_error error = {0};
        bad_cases[i].spoil(&options);
        assert_int_equal(bgi_options_validate(&options, !bad_cases[i].inference, &error), BG_ERROR_INVALID);
        if (strstr(error.message, bad_cases[i].words) == NULL)
            fail_msg("`%s` does not say `%s`", error.message, bad_cases[i].words);
    }
}

static void test_all_problems_at_once(void **state)
{
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    (void)state;

    options.execution.device_iterations = 0;
    options.replicas.count = 0;
    options.execution.wait_limit_s = 0.0;
    assert_int_equal(bgi_options_validate(&options, true, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "device_iterations"));
    assert_non_null(strstr(error.message, "; replicas"));
    assert_non_null(strstr(error.message, "; wait_limit_s"));
}

static void test_uninitialized_struct(void **state)
{
    bg_options options;
    bg_error error = {0};
    (void)state;

    memset(&options, 0, sizeof options);
    options.execution.device_iterations = options.execution.gradient_accumulation = options.replicas.count = 1;
    assert_int_equal(bgi_options_validate(&options, true, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "bg_options_defaults"));
    assert_int_equal(bgi_options_validate(NULL, true, NULL), BG_ERROR_INVALID);
}

/* A caller compiled for a release with fewer or more options gets an error, and no memory beyond its struct is
 * accessed. */
static void test_structs_of_other_releases(void **state)
{
    const size_t sizes[] = {sizeof(size_t), sizeof(bg_options) - 8, sizeof(bg_options) + 8};
    (void)state;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *bytes = malloc(sizes[i] + 1);
        bg_options *options = (bg_options *)(void *)bytes;
        bg_graph *graph = NULL;
        bg_error error = {0};
        bg_plan *plan = NULL;
        char wanted[64];

        assert_non_null(bytes);
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        bytes[sizes[i]] = 0xa5;
        bg_options_init(options, sizes[i]);
        assert_int_equal(bytes[sizes[i]], 0xa5);
        snprintf(wanted, sizeof wanted, "the struct has %zu bytes, but in release %s", sizes[i], bg_version());
        assert_int_equal(bg_plan_create_inference(graph, options, &plan, &error), BG_ERROR_INVALID);
        assert_non_null(strstr(error.message, wanted));
        bg_graph_destroy(graph);
        free(bytes);
    }
    bg_options_init(NULL, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_valid),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_each_problem),         cmocka_unit_test(test_all_problems_at_once),
        cmocka_unit_test(test_uninitialized_struct), cmocka_unit_test(test_structs_of_other_releases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
