/*
 * test_remote.c: entries of remote buffers are loaded and stored by an index that is known only at run time, under
 * every strategy, in memory and in files. A buffer uses no device memory. The test also covers the indices of rows and
 * steps.
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
#include <brigade/session.h>

#include "support/folder.h"

enum { ENTRIES = 7, WIDTH = 3, ROUNDS = 40, STEPS = 4, ROWS = 3 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* Compiles a model that stores x at `to` and then loads the entry at `from`. */
static bg_plan *make_plan(const bg_options *options, int64_t entries)
{
    const bg_type x_type = bg_vector(BG_FLOAT32, WIDTH), number = bg_scalar(BG_INT32);
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_value x, to, from, buffer, stored;
    bg_error error = {0};

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &x_type);
    to = bg_graph_input(graph, "to", &number);
    from = bg_graph_input(graph, "from", &number);
    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_scale(graph, NULL, x, 2.0, 0.0);
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    buffer = bg_graph_remote_buffer(graph, "rows", &x_type, entries);
    stored = bg_remote_store(graph, NULL, buffer, to, x);
    bg_graph_output(graph, "stored", stored);
    bg_graph_output(graph, "y", bg_remote_load(graph, NULL, buffer, from));
    bg_block_end(graph);
    require(bg_plan_create_inference(graph, options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static void run(bg_session *session, const float *x, int32_t to, int32_t from, float *y)
{
    const void *inputs[3] = {NULL};
    void *outputs[2] = {NULL};
    int32_t stored = -77;
    bg_error error = {0};

    inputs[bg_session_find_input(session, "x")] = x;
    inputs[bg_session_find_input(session, "to")] = &to;
    inputs[bg_session_find_input(session, "from")] = &from;
    outputs[bg_session_find_output(session, "stored")] = &stored;
    outputs[bg_session_find_output(session, "y")] = y;
    require(bg_session_run(session, inputs, outputs, &error), &error);
    assert_int_equal(stored, to);
}

/* Compares runs with the same stores and loads in the array `model` on the host. */
static void check_rounds(bg_session *session, float model[ENTRIES][WIDTH], uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        const int32_t to = (int32_t)(i * 5 % (ENTRIES + 2)) - 1, from = (int32_t)(i * 3 % (ENTRIES + 2)) - 1;
        float x[WIDTH], y[WIDTH], expected[WIDTH] = {0};
        for (int j = 0; j < WIDTH; j++)
            x[j] = (float)(i * 10 + (uint32_t)j);
        run(session, x, to, from, y);
        for (int j = 0; to >= 0 && to < ENTRIES && j < WIDTH; j++)
            model[to][j] = 2.0f * x[j];
        if (from >= 0 && from < ENTRIES)
            memcpy(expected, model[from], sizeof expected);
        assert_memory_equal(y, expected, sizeof y);
    }
}

static const struct {
    bg_strategy strategy;
    const char *stages;
} ways[] = {{BG_STRATEGY_SINGLE, NULL},
            {BG_STRATEGY_PIPELINED, "B1|B2"},
            {BG_STRATEGY_SHARDED, "B1|B2"},
            {BG_STRATEGY_PHASED, "B1@0|B2@0"}};

static void any_entry_is_stored_and_loaded(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        bg_options options = bg_options_defaults();
        float model[ENTRIES][WIDTH] = {{0}};
        char folder[TEST_FOLDER_BYTES];
        bg_session *session = NULL;
        bg_error error = {0};
        bg_plan *plan;

        test_folder_create(folder);
        options.execution.strategy = ways[w].strategy;
        options.execution.stages = ways[w].stages;
        options.execution.cores = 2;
        plan = make_plan(&options, ENTRIES);
        require(bg_session_create(plan, NULL, &session, &error), &error);
        check_rounds(session, model, 0, ROUNDS);
        bg_session_destroy(session);
        bg_plan_destroy(plan);
        /* Entries in files remain for the next session. */
        memset(model, 0, sizeof model);
        options.files.memmap_dir = folder;
        plan = make_plan(&options, ENTRIES);
        for (uint32_t begin = 0; begin < ROUNDS; begin += ROUNDS / 4) {
            require(bg_session_create(plan, NULL, &session, &error), &error);
            assert_int_equal(bg_session_note(session) != NULL, begin > 0);
            check_rounds(session, model, begin, begin + ROUNDS / 4);
            require(bg_session_flush(session, NULL, &error), &error);
            bg_session_destroy(session);
        }
        bg_plan_destroy(plan);
        test_folder_remove(folder);
    }
}

/* Row r begins at entry r x steps, so rows do not overlap. One row is read while another is written. */
static void rows_of_steps(void **state)
{
    bg_options options = bg_options_defaults();
    bg_session *session = NULL;
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    plan = make_plan(&options, ROWS * STEPS);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (int32_t row = 0; row < ROWS; row++)
        for (int32_t i = 0; i < STEPS; i++) {
            const float x[WIDTH] = {(float)row, (float)i, 0.5f};
            float y[WIDTH];
            /* Reads step i of the previous row, like a layer that reads the result of the previous layer. */
            run(session, x, row * STEPS + i, (row - 1) * STEPS + i, y);
            assert_true(y[0] == (row > 0 ? 2.0f * (float)(row - 1) : 0.0f));
            assert_true(y[1] == (row > 0 ? 2.0f * (float)i : 0.0f));
        }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

static void entries_take_no_memory_of_the_device(void **state)
{
    bg_options options = bg_options_defaults();
    size_t bytes[2];
    bg_plan *plan;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    for (int i = 0; i < 2; i++) {
        plan = make_plan(&options, i == 0 ? 1 : 100000);
        bytes[i] = bg_plan_device_bytes(plan, 0);
        assert_true(bg_plan_memory_bytes(plan, 0, BG_MEMORY_REMOTE) >= (i == 0 ? 1u : 100000u) * WIDTH * 4);
        bg_plan_destroy(plan);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

static void buffers_grow_and_mistakes_are_told(void **state)
{
    const bg_type entry = bg_vector(BG_FLOAT32, WIDTH), other = bg_vector(BG_FLOAT32, WIDTH + 1);
    const bg_type number = bg_scalar(BG_INT32), two = bg_vector(BG_INT32, 2);
    bg_options options = bg_options_defaults();
    bg_error error = {0};

    (void)state;
    options.execution.stages = "B1|B2";
    for (int mistake = 0; mistake < 6; mistake++) {
        static const char *const words[] = {"not a remote buffer that could grow to float32[2,4]",
                                            "at least one",
                                            "one number",
                                            "an entry",
                                            "the number of entries",
                                            "the layers that share it must be in one stage"};
        bg_graph *graph = NULL;
        bg_plan *plan = NULL;
        bg_value buffer, at, pair, y;

        require(bg_graph_create(&graph, &error), &error);
        at = bg_graph_input(graph, "at", &number);
        pair = bg_graph_input(graph, "pair", &two);
        bg_block_begin(graph, "B1", BG_DEVICE_NONE);
        buffer = bg_graph_remote_buffer(graph, "rows", &entry, 2);
        assert_int_equal(bg_graph_remote_buffer(graph, "rows", &entry, 5).id, buffer.id);
        assert_int_equal(bg_graph_remote_buffer(graph, "rows", &entry, 3).id, buffer.id);
        assert_int_equal(bg_graph_type(graph, buffer).dims[0], 5);
        y = bg_remote_load(graph, NULL, buffer, at);
        bg_graph_output(graph, "y", y);
        bg_block_end(graph);
        bg_block_begin(graph, "B2", BG_DEVICE_NONE);
        if (mistake == 0)
            bg_graph_remote_buffer(graph, "rows", &other, 2);
        else if (mistake == 1)
            bg_graph_remote_buffer(graph, "none", &entry, 0);
        else if (mistake == 2)
            bg_remote_load(graph, NULL, buffer, pair);
        else if (mistake == 3)
            bg_remote_store(graph, NULL, buffer, at, pair);
        else if (mistake == 4)
            bg_remote_load(graph, NULL, at, at);
        else
            bg_graph_output(graph, "z", bg_remote_store(graph, NULL, buffer, at, y));
        bg_block_end(graph);
        memset(&error, 0, sizeof error);
        if (bg_plan_create_inference(graph, &options, &plan, &error) == BG_OK)
            fail_msg("mistake %d is not found", mistake);
        if (strstr(error.message, words[mistake]) == NULL)
            fail_msg("`%s`, expected `%s`", error.message, words[mistake]);
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_entry_is_stored_and_loaded),
        cmocka_unit_test(rows_of_steps),
        cmocka_unit_test(entries_take_no_memory_of_the_device),
        cmocka_unit_test(buffers_grow_and_mistakes_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
