/*
 * test_start.c: each of 64 ranks has one stage of a small network. At the start, a rank allocates only the memory that
 * its stage needs, and the rank that reads all weights has memory for only one weight.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade.h>

#include "plan/plan.h"
#include "ranks/wrap.h"
#include "runtime/initialize.h"
#include "runtime/session.h"
#include "support/allocations.h"
#include "transport/rank_parts.h"

/* A layer has 1 MiB of weights, of gradients and of velocities. */
enum { RANKS = 64, WIDTH = 512, MICRO_BATCH = 1, LAYER_BYTES = WIDTH * WIDTH * 4 };
/* Weights and velocities of all layers are 128 MiB. */
enum { MOST_TO_START_KB = 12 << 10, MOST_TO_READ_KB = 6 << 10 };

/* Runs before main, which forks. */
__attribute__((constructor)) static void want_many_ranks(void)
{
    char text[16];

    snprintf(text, sizeof text, "%d", RANKS);
    setenv("BRIGADE_TEST_RANKS", text, 1);
}

static long find_kb(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long found = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            found = strtol(line + strlen(name), NULL, 10);
    if (file != NULL)
        fclose(file);
    return found;
}

/* Resets the peak of resident memory to the current value, which it returns in kB. */
static long forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");

    if (file != NULL) {
        fputs("5", file);
        fclose(file);
    }
    return find_kb("VmRSS:");
}

/* Sanitizers use additional memory, and with them allocations are not counted. */
static void expect_at_most(long before_kb, long most_kb, const char *what)
{
    const long peak = find_kb("VmHWM:") - before_kb;

    if (test_allocations_count() > 0 && peak > most_kb)
        fail_msg("%s took %ld kB, expected at most %ld", what, peak, most_kb);
    if (test_ranks_transport()->rank == 0)
        printf("%s: %ld kB of rank 0\n", what, peak);
}

static void build(bg_graph *graph, bg_value *out_loss)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH), label_type = bg_vector(BG_UINT8, MICRO_BATCH);
    bg_value x = bg_graph_input(graph, "x", &x_type), labels = bg_graph_input(graph, "labels", &label_type);

    for (uint32_t i = 0; i < RANKS; i++) {
        char name[16], layer[16];
        snprintf(name, sizeof name, "B%u", i + 1);
        snprintf(layer, sizeof layer, "fc%u", i + 1);
        bg_block_begin(graph, name, BG_DEVICE_NONE);
        x = bg_linear_layer(graph, layer, x, WIDTH, true);
        if (i + 1 == RANKS)
            *out_loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -1);
        bg_block_end(graph);
    }
    bg_graph_output(graph, "loss", *out_loss);
    bg_graph_initialize(graph, "fc3.weight", "orthogonal", 1.0, 0.0);
}

/* Checks that two ranks that exchange only the end of a run send each other one message of notes. */
static void check_parcels(const bg_session *session)
{
    const ranks *r = bgi_ranks_of(session->engine->transport);
    const uint32_t own = r->carrier->rank;

    for (uint32_t other = 0; other < RANKS; other++) {
        const peer *p = &r->peers[other];
        if (other == own + 1 || other + 1 == own)
            assert_true(p->out_count == PARCELS_OUT && p->in_count == PARCELS_IN);
        else if (other != own && other + 1 < RANKS && own + 1 < RANKS) /* the last stage may send counts to all */
            assert_true(p->out_count == 1 && p->in_count == 1);
    }
}

/* Checks that every value that rank 0 gets is the value that the seed gives for the whole variable. */
static bg_status read_all(void *user, bg_error *error)
{
    bg_session *session = user;
    const bg_plan *plan = bg_session_plan(session);
    void *expected = malloc(LAYER_BYTES);
    uint32_t count = 0;

    assert_non_null(expected);
    for (uint32_t i = 0; i < plan->variable_count; i++) {
        const bgi_plan_variable *variable = &plan->variables[i];
        bg_weight weight;
        if (variable->role != BG_ROLE_PARAMETER && variable->role != BG_ROLE_STATE)
            continue;
        assert_int_equal(bg_weights_find(bg_session_weights(session), variable->name, &weight, error), BG_OK);
        assert_int_equal(bgi_initialize(&weight.type, &variable->initializer, weight.name, plan->options.numerics.seed,
                                        variable->number, 1, expected, error),
                         BG_OK);
        assert_memory_equal(weight.data, expected, bg_type_size_bytes(&weight.type));
        count++;
    }
    free(expected);
    assert_int_equal(count, 4 * RANKS);
    return bg_error_set(error, BG_ERROR_NOT_FOUND, "nothing more to read");
}

static void a_rank_starts_with_what_is_its_own(void **state)
{
    bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_session *session;
    bg_graph *graph;
    bg_plan *plan;
    bg_value loss;
    char stages[RANKS * 6] = "";
    long before;

    (void)state;
    optimizer.momentum = 0.9;
    for (uint32_t i = 0; i < RANKS; i++)
        snprintf(stages + strlen(stages), sizeof stages - strlen(stages), "%sB%u", i > 0 ? "|" : "", i + 1);
    options.execution.stages = stages;
    options.execution.cores = 1;
    options.execution.wait_limit_s = 600.0; /* this many ranks on few processors, perhaps under a sanitizer */
    assert_int_equal(bg_graph_create(&graph, &error), BG_OK);
    build(graph, &loss);
    if (bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    before = forget_peak();
    if (bg_session_create(plan, NULL, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    expect_at_most(before, MOST_TO_START_KB, "the start");
    check_parcels(session);
    before = forget_peak();
    assert_int_equal(bg_session_read_weights(session, 0, read_all, session, &error), BG_ERROR_NOT_FOUND);
    assert_string_equal(error.message, "nothing more to read");
    expect_at_most(before, MOST_TO_READ_KB, "reading all weights");
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_starts_with_what_is_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
