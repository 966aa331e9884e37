/*
 * test_results.c: a pass reads only the results that its row of passes.def names as inputs, and makes those that the
 * row names as outputs. The driver is compiled into this program with BGI_VERIFY_PASSES, in every build. Results that
 * are not in a pass's row are NULL there, so this program crashes if a row misses a result.
 */
#ifndef BGI_VERIFY_PASSES
#define BGI_VERIFY_PASSES
#endif
#include "plan/passes.c"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <brigade/loop.h>
#include <brigade/ops.h>

#include "support/models.h"
#include "support/random_model.h"

enum { MICRO_BATCH = 4, SEEDS = 80 };

/* ---- every row names the results that its pass uses ---- */

static void plan_random(uint64_t seed, bool training)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bgi_test_model model = bgi_test_random_model(seed);
    char stages[256];
    const bg_options options = bgi_test_random_options(&model, seed, training, stages);
    bg_error error = {0};
    bg_plan *plan = NULL;
    const bg_status status = training
                                 ? bg_plan_create_training(model.graph, model.loss, &optimizer, &options, &plan, &error)
                                 : bg_plan_create_inference(model.graph, &options, &plan, &error);

    if (status != BG_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
    bg_plan_destroy(plan);
    bg_graph_destroy(model.graph);
}

static void test_random_plans_see_what_they_use(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        plan_random(seed, true);
        plan_random(seed, false);
    }
}

static bg_status plan_model(unsigned model, const bg_options *options, bg_error *error)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_status status;
    bg_value loss;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    loss = test_model_at(model)->build(graph, MICRO_BATCH);
    status = bg_plan_create_training(graph, loss, &optimizer, options, &plan, error);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return status;
}

static void expect_plans(const bg_options *options)
{
    bg_error error = {0};

    for (unsigned model = 0; test_model_at(model) != NULL; model++)
        if (plan_model(model, options, &error) != BG_OK)
            fail_msg("model %u: %s", model, error.message);
}

/* Tests options that random strategies do not have: trials, searches, the IPU's limits, requests. */
static void test_searched_plans_see_what_they_use(void **state)
{
    const bg_output_request requests[] = {{.name = "again", .output = "loss"}};
    bg_options options = bg_options_defaults();
    bg_error error = {0};

    (void)state;
    options.execution.gradient_accumulation = 7;
    options.execution.schedule = "auto";
    options.reporting.output_requests = requests;
    options.reporting.output_request_count = 1;
    expect_plans(&options);
    options.memory.device_memory_bytes = 64 << 20;
    expect_plans(&options);
    options.memory.recompute = BG_RECOMPUTE_AUTO;
    expect_plans(&options);
    options.execution.schedule = NULL;
    options.execution.stages = "auto-ops:3";
    expect_plans(&options);
    options.memory.device_memory_bytes = 20000; /* too few for any choice of recomputation */
    assert_int_equal(plan_model(0, &options, NULL), BG_ERROR_BUDGET);

    options = bg_options_defaults();
    options.execution.gradient_accumulation = 7;
    options.memory.device_memory_bytes = 20000; /* the table of the finished plan */
    assert_int_equal(plan_model(0, &options, NULL), BG_ERROR_BUDGET);

    options = bg_options_defaults();
    options.execution.gradient_accumulation = 7;
    options.execution.ipu_limits = true;
    options.reporting.output_requests = requests;
    options.reporting.output_request_count = 1;
    if (plan_model(0, &options, &error) != BG_OK)
        fail_msg("%s", error.message);
}

/* All classes are remote and sharded, and values are recomputed. */
static void test_remote_plans_see_what_they_use(void **state)
{
    bg_options options = bg_options_defaults();

    (void)state;
    options.execution.gradient_accumulation = 7;
    options.replicas.count = 2;
    options.memory.recompute = BG_RECOMPUTE_STAGE;
    for (unsigned k = 0; k < BG_LOCATION_COUNT; k++) {
        options.memory.locations[k].place = BG_PLACE_REMOTE;
        options.memory.locations[k].sharded = k != BG_LOCATION_ACTIVATIONS;
        options.memory.locations[k].minimum_elements_remote = options.memory.locations[k].minimum_elements_sharded = 1;
    }
    expect_plans(&options);
    options.execution.strategy = BG_STRATEGY_PHASED;
    expect_plans(&options);
}

static void test_a_loop_sees_what_it_uses(void **state)
{
    bg_options options = bg_options_defaults();
    const bg_type scalar = {.dtype = BG_FLOAT32};
    bg_graph *body = NULL, *condition = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value n, next;
    bg_loop loop;

    (void)state;
    assert_int_equal(bg_graph_create(&condition, NULL), BG_OK);
    bg_graph_output(condition, "goes_on", bg_scale(condition, NULL, bg_graph_input(condition, "n", &scalar), -1, 7));
    assert_int_equal(bg_graph_create(&body, NULL), BG_OK);
    n = bg_graph_input(body, "n", &scalar);
    next = bg_scale(body, NULL, n, 1, 1);
    loop = bg_while(condition, 5, &n, &next, 1);
    if (bg_plan_create_loop(body, &loop, &options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_plan_destroy(plan);
    bg_graph_destroy(body);
    bg_graph_destroy(condition);
}

/* ---- errors that the driver detects ---- */

typedef struct seen {
    bool partition, stages, graph;
} seen;

static seen last_seen;

static bg_status look(bgi_compiler *c, bg_error *error)
{
    (void)error;
    last_seen = (seen){c->partition != NULL, c->stages != NULL, c->graph != NULL};
    return BG_OK;
}

static bg_status make_partition(bgi_compiler *c, bg_error *error)
{
    static bgi_partition partition;

    (void)error;
    c->partition = &partition;
    return BG_OK;
}

static bg_status fail_with_budget(bgi_compiler *c, bg_error *error)
{
    (void)c;
    return bg_error_set(error, BG_ERROR_BUDGET, "over");
}

/* Makes a compiler with a graph, stages and a partition. */
typedef struct made {
    bg_plan plan;
    bg_graph *graph;
    bgi_stages stages;
    bgi_partition partition;
    bgi_compiler compiler;
} made;

static void setup(made *m)
{
    memset(m, 0, sizeof *m);
    assert_int_equal(bg_graph_create(&m->graph, NULL), BG_OK);
    m->compiler = (bgi_compiler){
        .plan = &m->plan, .made = LOWERED, .graph = m->graph, .stages = &m->stages, .partition = &m->partition};
}

static void expect_untouched(made *m)
{
    assert_ptr_equal(m->compiler.graph, m->graph);
    assert_ptr_equal(m->compiler.stages, &m->stages);
    assert_ptr_equal(m->compiler.partition, &m->partition);
}

static void test_a_pass_sees_what_its_row_names(void **state)
{
    made m;

    (void)state;
    setup(&m);
    assert_int_equal(run_alone(&m.compiler, &(pass){"look", "", .needs = STAGES, .run = look}, NULL), BG_OK);
    assert_true(last_seen.stages && !last_seen.partition && !last_seen.graph);
    expect_untouched(&m);
    assert_int_equal(run_alone(&m.compiler, &(pass){"look", "", .needs = GRAPH, .makes = PARTITION, .run = look}, NULL),
                     BG_OK);
    assert_true(!last_seen.stages && last_seen.partition && last_seen.graph);
    expect_untouched(&m);
    bg_graph_destroy(m.graph);
}

static void test_a_failed_pass_hides_nothing_for_good(void **state)
{
    bg_error error = {0};
    made m;

    (void)state;
    setup(&m);
    assert_int_equal(run_alone(&m.compiler, &(pass){"fails", "", .run = fail_with_budget}, &error), BG_ERROR_BUDGET);
    assert_string_equal(error.message, "over");
    expect_untouched(&m);
    bg_graph_destroy(m.graph);
}

static void test_what_a_row_does_not_name_is_refused(void **state)
{
    const pass unnamed = {"unnamed", "", .needs = STAGES, .run = make_partition},
               idle = {"idle", "", .makes = RESIDENCY, .run = look},
               early = {"early", "", .needs = RESIDENCY, .run = look};
    bg_error error = {0};
    made m;

    (void)state;
    setup(&m);
    assert_int_equal(run_alone(&m.compiler, &unnamed, &error), BG_ERROR_INTERNAL);
    assert_non_null(strstr(error.message, "pass `unnamed` made PARTITION (partition), which its row does not name"));
    expect_untouched(&m);
    m.compiler.made = STAGES; /* the same value as before the pass made it */
    m.compiler.partition = NULL;
    assert_int_equal(run_alone(&m.compiler, &unnamed, &error), BG_ERROR_INTERNAL);
    m.compiler.partition = NULL;
    bg_error_clear(&error);
    assert_int_equal(run_alone(&m.compiler, &idle, &error), BG_ERROR_INTERNAL);
    assert_non_null(strstr(error.message, "pass `idle` did not make RESIDENCY (residency), which its row names"));
    bg_error_clear(&error);
    assert_int_equal(run(&m.compiler, &early, &error), BG_ERROR_INTERNAL);
    assert_non_null(strstr(error.message, "pass `early` needs results"));
    bg_graph_destroy(m.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_plans_see_what_they_use),
        cmocka_unit_test(test_searched_plans_see_what_they_use),
        cmocka_unit_test(test_remote_plans_see_what_they_use),
        cmocka_unit_test(test_a_loop_sees_what_it_uses),
        cmocka_unit_test(test_a_pass_sees_what_its_row_names),
        cmocka_unit_test(test_a_failed_pass_hides_nothing_for_good),
        cmocka_unit_test(test_what_a_row_does_not_name_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
