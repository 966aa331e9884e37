/*
 * test_outfeed_room.c: an unbounded outfeed of a session that may run billions of iterations allocates memory only for
 * the rows that it gets.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include <brigade.h>

enum { ROWS = 3 };

static bg_error error;

static void require(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

/* Returns the peak of the process's resident memory, in kB. */
static long find_peak_kb(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long peak = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %ld", &peak) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return peak;
}

static void billions_of_iterations(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);
    const bg_outfeed_options outfeed_options = {
        .struct_bytes = sizeof outfeed_options, .structure = "loss", .buffer_depth = 1};
    const bg_optimizer optimizer = bg_sgd(0.1);
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const void *const inputs[] = {x};
    const bool constants[] = {true};
    const bg_run run = {.inputs = inputs, .constants = constants, .iterations = ROWS};
    bg_options options = bg_options_defaults();
    const long before = find_peak_kb();
    uint64_t rows = 0;
    bg_array found = {0};
    bg_session *session;
    bg_outfeed *outfeed;
    bg_graph *graph;
    bg_plan *plan;
    bg_value y;

    (void)state;
    options.execution.device_iterations = 4000000000u;
    options.execution.cores = 1;
    require(bg_graph_create(&graph, &error));
    bg_block_start(graph, "B1", 0);
    y = bg_linear_layer(graph, "layer", bg_graph_input(graph, "x", &type), 1, false);
    y = bg_reduce(graph, "loss", BG_REDUCE_MEAN, bg_multiply(graph, y, y), NULL, 0, false);
    bg_graph_output(graph, "loss", y);
    require(bg_plan_create_training(graph, y, &optimizer, &options, &plan, &error));
    require(bg_session_create(plan, NULL, &session, &error));
    require(bg_outfeed_create(&outfeed_options, &outfeed, &error));
    require(bg_outfeed_attach(outfeed, session, &error));
    require(bg_session_execute(session, &run, NULL, &error));
    require(bg_outfeed_dequeue(outfeed, true, &found, &rows, &error));
    assert_int_equal(rows, ROWS);
    for (int i = 1; i < ROWS; i++) /* it learns */
        assert_true(((const float *)found.data)[i] != ((const float *)found.data)[i - 1]);
    assert_in_range(find_peak_kb() - before, 0, 64 * 1024);
    bg_array_clear(&found);
    bg_outfeed_destroy(outfeed);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(billions_of_iterations)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
