/*
 * test_agree.c: tests ranks on hosts that differ in their processors or in the installed library. The linker replaces
 * the functions that a rank would call on its host (Makefile).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <brigade.h>

#include "core/isa.h"
#include "plan/plan.h"
#include "ranks/wrap.h"
#include "support/models.h"

enum { MICRO_BATCH = 4, RUNS = 3 };

static bool has_old_processor, has_old_build; /* on rank 1 */

static uint32_t own_rank(void)
{
    return test_ranks_transport() != NULL ? test_ranks_transport()->rank : 0;
}

bgi_isa __real_bgi_cpu_isa(void);
bgi_isa __wrap_bgi_cpu_isa(void);
const char *__real_bgi_build_id(void);
const char *__wrap_bgi_build_id(void);

bgi_isa __wrap_bgi_cpu_isa(void)
{
    return has_old_processor && own_rank() == 1 ? BGI_ISA_PORTABLE : __real_bgi_cpu_isa();
}

const char *__wrap_bgi_build_id(void)
{
    return has_old_build && own_rank() == 1 ? "12-34" : __real_bgi_build_id();
}

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_error error;
} rig;

/* Opens a session of two stages, one on each rank; with `is_alone` each process has both stages. */
static bg_status open_rig(rig *r, bg_kernel_policy kernels, bool is_alone)
{
    const bg_optimizer optimizer = bg_sgd(0.05);
    bg_options options = bg_options_defaults();
    bg_value loss;

    memset(r, 0, sizeof *r);
    options.execution.stages = "auto:2";
    options.execution.gradient_accumulation = 2;
    options.execution.cores = 1;
    options.execution.wait_limit_s = 10.0;
    options.numerics.kernels = kernels;
    assert_int_equal(bg_graph_create(&r->graph, &r->error), BG_OK);
    loss = test_model_at(0)->build(r->graph, MICRO_BATCH);
    if (bg_plan_create_training(r->graph, loss, &optimizer, &options, &r->plan, &r->error) != BG_OK)
        fail_msg("%s", r->error.message);
    if (is_alone)
        r->plan->options.execution.transport = NULL;
    return bg_session_create(r->plan, NULL, &r->session, &r->error);
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
}

static void other_processors_are_refused(void **state)
{
    const bgi_isa isa = __real_bgi_cpu_isa();
    char expected[256];
    rig r;

    (void)state;
    if (isa == BGI_ISA_PORTABLE)
        skip();
    has_old_processor = true;
    assert_int_equal(open_rig(&r, BG_KERNELS_FAST, false), BG_ERROR_INVALID);
    has_old_processor = false;
    snprintf(expected, sizeof expected,
             "the ranks do not agree: kernels use %s on rank 0 and portable on rank 1, whose processors differ: set "
             "option kernels to `portable` on all ranks",
             bgi_isa_name(isa));
    assert_string_equal(r.error.message, expected);
    close_rig(&r);
}

/* Returns the loss of the last run. */
static float train(rig *r)
{
    const void *inputs[8] = {0};
    void *outputs[8] = {0};
    static uint8_t data[1 << 16];
    float losses[8] = {0};

    assert_true(bg_session_input_count(r->session) <= 8 && bg_session_output_count(r->session) <= 8);
    for (uint32_t i = 0; i < bg_session_input_count(r->session); i++) {
        bg_stream stream;
        assert_int_equal(bg_session_input(r->session, i, &stream, &r->error), BG_OK);
        assert_true(stream.size_bytes <= sizeof data);
        inputs[i] = data;
    }
    outputs[bg_session_find_output(r->session, "loss")] = losses;
    for (int i = 0; i < RUNS; i++)
        if (bg_session_run(r->session, inputs, outputs, &r->error) != BG_OK)
            fail_msg("%s", r->error.message);
    return losses[0];
}

/* With portable kernels, ranks on different processors give the bits of one process. */
static void the_lowest_instructions_serve_all(void **state)
{
    float loss, expected;
    rig r;

    (void)state;
    assert_int_equal(open_rig(&r, BG_KERNELS_PORTABLE, true), BG_OK);
    expected = train(&r);
    close_rig(&r);
    has_old_processor = true;
    assert_int_equal(open_rig(&r, BG_KERNELS_PORTABLE, false), BG_OK);
    loss = train(&r);
    has_old_processor = false;
    close_rig(&r);
    assert_true(expected > 0.0F);
    assert_memory_equal(&loss, &expected, sizeof loss);
}

static void other_builds_are_refused(void **state)
{
    char expected[256];
    rig r;

    (void)state;
    has_old_build = true;
    assert_int_equal(open_rig(&r, BG_KERNELS_FAST, false), BG_ERROR_INVALID);
    has_old_build = false;
    snprintf(expected, sizeof expected,
             "the ranks do not agree: rank 0 has Brigade `%s, %s` and rank 1 has `%s, 12-34`: install the same build "
             "everywhere",
             bg_version(), __real_bgi_build_id(), bg_version());
    assert_string_equal(r.error.message, expected);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_processors_are_refused),
        cmocka_unit_test(the_lowest_instructions_serve_all),
        cmocka_unit_test(other_builds_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
