/*
 * test_reduce_time.c: gradients that are summed behind each stage's backward, the default, never take more memory than
 * those that are summed with the update: of any device or remote store, under any strategy, wherever tensors are.
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

/* `places`: a bit for each class that is remote. */
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

/* Returns how many bytes less the remote stores have. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_more)};

    return cmocka_run_group_tests_name("when gradients are summed", tests, NULL, NULL);
}
