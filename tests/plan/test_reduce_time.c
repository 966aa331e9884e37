/*
 * test_reduce_time.c: summing gradients after each stage's backward pass (the default) never needs more memory than
 * summing them with the update. This holds for every device and remote store, under any strategy and with any tensor
 * locations.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "support/train.h"

enum { MICRO_BATCH = 4, ACCUMULATION = 3 };

static const struct {
    bg_strategy strategy;
    const char *schedule, *stages;
    bool phases_parallel;
} ways[] = {
    {BG_STRATEGY_SINGLE, NULL, NULL, false},
    {BG_STRATEGY_PHASED, NULL, "B1|B2|B3|B4", false},
    {BG_STRATEGY_PHASED, NULL, "B1|B2|B3|B4", true},
    {BG_STRATEGY_PIPELINED, "interleaved", "B1|B2,B3|B4", false},
    {BG_STRATEGY_PIPELINED, "grouped", "B1@0|B2@1|B3@0|B4@1", false},
    {BG_STRATEGY_PIPELINED, "looped-bfs", "B1@0|B2@1|B3@0|B4@1", false},
};

static const bg_location_class classes[] = {BG_LOCATION_WEIGHTS, BG_LOCATION_ACCUMULATORS, BG_LOCATION_STATE,
                                            BG_LOCATION_ACTIVATIONS};

/* Returns options; bit c of `places` makes class c remote. */
static bg_options make_options(size_t way, unsigned places, bool sharded, double norm, unsigned liveness)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = ways[way].strategy;
    options.execution.schedule = ways[way].schedule;
    options.execution.stages = ways[way].stages;
    options.execution.phases_parallel = ways[way].phases_parallel;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.replicas.count = 2;
    options.numerics.max_gradient_norm = norm;
    options.memory.phase_liveness = (bg_phase_liveness)liveness;
    for (unsigned k = 0; k < sizeof classes / sizeof classes[0]; k++) {
        bg_tensor_location *location = &options.memory.locations[classes[k]];
        location->place = (places >> k & 1) != 0 ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        location->minimum_elements_sharded = 1;
        location->sharded = sharded && classes[k] != BG_LOCATION_ACTIVATIONS &&
                            (classes[k] != BG_LOCATION_WEIGHTS || location->place == BG_PLACE_REMOTE);
    }
    return options;
}

/* Returns by how many bytes the remote stores are smaller if gradients are summed after the backward pass. */
static size_t compare(const test_model *model, bg_options options, const char *what)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_plan *backward, *update;
    size_t saved = 0;

    assert_int_equal(options.replicas.reduce_time, BG_REDUCE_IN_BACKWARD);
    backward = test_train_plan(model, MICRO_BATCH, &optimizer, &options, what);
    options.replicas.reduce_time = BG_REDUCE_IN_UPDATE;
    update = test_train_plan(model, MICRO_BATCH, &optimizer, &options, what);
    for (uint32_t d = 0; d < backward->device_count; d++) {
        const size_t home[] = {bg_plan_memory_bytes(backward, d, BG_MEMORY_REMOTE),
                               bg_plan_memory_bytes(update, d, BG_MEMORY_REMOTE)};

        if (bg_plan_device_bytes(backward, d) > bg_plan_device_bytes(update, d) || home[0] > home[1])
            fail_msg("%s, device %u: %zu bytes, %zu remote; with the update %zu, %zu", what, d,
                     bg_plan_device_bytes(backward, d), home[0], bg_plan_device_bytes(update, d), home[1]);
        saved += home[1] - home[0];
    }
    assert_true((bg_plan_summarize(backward).bytes_not_stored > 0) == (saved > 0));
    assert_int_equal(bg_plan_summarize(update).bytes_not_stored, 0);
    assert_int_equal(bg_plan_summarize(backward).sums, bg_plan_summarize(backward).stage_count);
    bg_plan_destroy(backward);
    bg_plan_destroy(update);
    return saved;
}

static void test_never_more(void **state)
{
    const unsigned step = getenv("BRIGADE_TEST_ALL") != NULL ? 1 : getenv("BRIGADE_TEST_QUICK") != NULL ? 41 : 7;
    unsigned number = 0, saving = 0;

    (void)state;
    for (unsigned m = 0; test_model_at(m) != NULL; m++)
        for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++)
            for (unsigned places = 0; places < 16; places++)
                for (unsigned liveness = 0; liveness < 4; liveness++)
                    for (unsigned form = 0; form < 4; form++) {
                        char what[128];
                        if ((ways[way].phases_parallel && liveness > 1) || (places == 0 && liveness > 0) ||
                            number++ % step != 0)
                            continue;
                        snprintf(what, sizeof what, "%s, way %zu, places %#x, liveness %u, form %u",
                                 test_model_at(m)->name, way, places, liveness, form);
                        saving +=
                            compare(test_model_at(m),
                                    make_options(way, places, form % 2 != 0, form / 2 * 0.02, liveness), what) > 0;
                    }
    assert_true(saving > 10);
}

/* ---- what the update reads ---- */

static const test_model *find_model(const char *name)
{
    unsigned m = 0;

    while (test_model_at(m) != NULL && strcmp(test_model_at(m)->name, name) != 0)
        m++;
    assert_non_null(test_model_at(m));
    return test_model_at(m);
}

enum { GROUPED = 4, PHASED = 1, ACCUMULATORS = 1 << 1, OFF_AFTER_EACH_PHASE = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE };

static bg_plan *make_plan(const char *model, bg_options options)
{
    const bg_optimizer optimizer = bg_adamw(0.003);

    return test_train_plan(find_model(model), MICRO_BATCH, &optimizer, &options, model);
}

/* Gradients that leave the device once are loaded once, for the update: the sum after the backward is not a use at its
 * first level. */
static void test_sums_are_not_loaded_again(void **state)
{
    bg_plan *plan = make_plan("digits", make_options(GROUPED, ACCUMULATORS, false, 0.0, OFF_AFTER_EACH_PHASE));

    (void)state;
    assert_int_equal(plan->device_count, 2);
    for (uint32_t d = 0; d < plan->device_count; d++) {
        const uint64_t stored = bg_plan_traffic_bytes(plan, d, BG_TRAFFIC_STORED, BG_LOCATION_ACCUMULATORS);
        assert_true(stored > 0);
        assert_int_equal(bg_plan_traffic_bytes(plan, d, BG_TRAFFIC_LOADED, BG_LOCATION_ACCUMULATORS), stored);
    }
    bg_plan_destroy(plan);
}

/* With a clipped norm, the update's first level computes squares and changes no values, so values that it loads are not
 * stored again. A sum at that level would change them. */
static void test_levels_that_read_do_not_store(void **state)
{
    bg_plan *without = make_plan("digits", make_options(GROUPED, ACCUMULATORS, false, 0.0, OFF_AFTER_EACH_PHASE));
    bg_options options = make_options(GROUPED, ACCUMULATORS, false, 0.02, OFF_AFTER_EACH_PHASE);
    bg_plan *with = make_plan("digits", options);

    (void)state;
    for (uint32_t d = 0; d < 2; d++) {
        const uint64_t stored = bg_plan_traffic_bytes(without, d, BG_TRAFFIC_STORED, BG_LOCATION_ACCUMULATORS);
        assert_int_equal(bg_plan_traffic_bytes(with, d, BG_TRAFFIC_STORED, BG_LOCATION_ACCUMULATORS), stored);
        assert_true(bg_plan_traffic_bytes(with, d, BG_TRAFFIC_LOADED, BG_LOCATION_ACCUMULATORS) > stored);
    }
    bg_plan_destroy(with);
    options.replicas.reduce_time = BG_REDUCE_IN_UPDATE;
    with = make_plan("digits", options);
    for (uint32_t d = 0; d < 2; d++)
        assert_true(bg_plan_traffic_bytes(with, d, BG_TRAFFIC_STORED, BG_LOCATION_ACCUMULATORS) >
                    bg_plan_traffic_bytes(without, d, BG_TRAFFIC_STORED, BG_LOCATION_ACCUMULATORS));
    bg_plan_destroy(with);
    bg_plan_destroy(without);
}

/* Each replica stores a shard of its gradients. One of the two gradients of a tied table stays whole, because the other
 * gradient's stage adds both. */
static void test_gradients_for_other_stages_stay_whole(void **state)
{
    enum { TABLE = 20 * 32 * 4 };
    bg_options options = make_options(PHASED, ACCUMULATORS, true, 0.0, 0);
    bg_plan *plan = make_plan("tied", options), *whole;
    size_t kept, all;

    (void)state;
    options.replicas.reduce_time = BG_REDUCE_IN_UPDATE;
    whole = make_plan("tied", options);
    kept = bg_plan_remote_bytes(plan, 0, BG_LOCATION_ACCUMULATORS);
    all = bg_plan_remote_bytes(whole, 0, BG_LOCATION_ACCUMULATORS);
    assert_true(all > 2 * TABLE);
    /* The sizes of bias shards are rounded up. */
    assert_in_range(kept, TABLE + (all - TABLE) / 2, TABLE + (all - TABLE) / 2 + 64 * 4);
    bg_plan_destroy(whole);
    bg_plan_destroy(plan);
}

/* A norm in canonical order reads whole gradients. In phases the norm reads them after the sum and before they are
 * stored, so each replica stores a shard. In a pipeline they are loaded for the norm at the end of the step, and stay
 * whole. */
static void test_gradients_that_are_read_later_stay_whole(void **state)
{
    (void)state;
    for (int in_phases = 0; in_phases < 2; in_phases++) {
        bg_options options = make_options(in_phases ? PHASED : GROUPED, ACCUMULATORS, true, 0.02, OFF_AFTER_EACH_PHASE);
        bg_plan *plan, *whole;

        options.numerics.canonical_reductions = true;
        options.execution.gradient_accumulation = 4;
        plan = make_plan("digits", options);
        options.replicas.reduce_time = BG_REDUCE_IN_UPDATE;
        whole = make_plan("digits", options);
        for (uint32_t d = 0; d < plan->device_count; d++) {
            const size_t kept = bg_plan_remote_bytes(plan, d, BG_LOCATION_ACCUMULATORS),
                         all = bg_plan_remote_bytes(whole, d, BG_LOCATION_ACCUMULATORS);
            /* The tree's partial sums, which are stored in addition to the accumulators, are not sharded. */
            if (in_phases ? kept >= all : kept != all)
                fail_msg("%s, device %u: %zu of %zu bytes", in_phases ? "phases" : "pipeline", d, kept, all);
        }
        bg_plan_destroy(whole);
        bg_plan_destroy(plan);
    }
}

/* Returns the index of a stage's first or last action of a kind in the program, or UINT32_MAX if the stage has no such
 * action. */
static uint32_t find_place(const bg_plan *plan, bg_action_kind kind, uint32_t stage, bool is_last)
{
    const bgi_plan_device *device = &plan->devices[0];
    uint32_t found = UINT32_MAX;

    for (uint32_t i = 0; i < device->instruction_count; i++)
        if (device->instructions[i].action.kind == kind && device->instructions[i].action.stage == stage &&
            (is_last || found == UINT32_MAX))
            found = i;
    return found;
}

/* On one device, phases begin to update a stage after the backward pass of the previous stage, and the sum runs during
 * that pass. Strict phases, in which nothing overlaps, update at once. */
static void test_strict_phases_update_at_once(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        bg_options options = make_options(PHASED, 0, false, 0.0, 0);
        bg_plan *plan;

        options.execution.strict = strict != 0;
        plan = make_plan("digits", options);
        for (uint32_t stage = 1; stage < 4; stage++) {
            const uint32_t reduce = find_place(plan, BG_ACTION_REDUCE, stage, true);
            const uint32_t update = find_place(plan, BG_ACTION_UPDATE, stage, false);
            assert_int_not_equal(reduce, UINT32_MAX);
            assert_true(update > reduce);
            if ((update < find_place(plan, BG_ACTION_BACKWARD, stage - 1, true)) != (strict != 0))
                fail_msg("%s: stage %u is updated %s the backward of the stage before", strict ? "strict" : "default",
                         (unsigned)stage, strict ? "behind" : "before");
        }
        bg_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_more),
        cmocka_unit_test(test_sums_are_not_loaded_again),
        cmocka_unit_test(test_levels_that_read_do_not_store),
        cmocka_unit_test(test_gradients_for_other_stages_stay_whole),
        cmocka_unit_test(test_gradients_that_are_read_later_stay_whole),
        cmocka_unit_test(test_strict_phases_update_at_once),
    };

    return cmocka_run_group_tests_name("when gradients are summed", tests, NULL, NULL);
}
