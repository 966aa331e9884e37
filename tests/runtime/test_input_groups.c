/*
 * Tests replicas that follow from the number of devices, and groups of replicas that get the same data. It checks which
 * row each replica reads from arrays and infeeds, batch sizes, training that does not depend on the number of copies,
 * and errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade.h>

#include "support/models.h"

enum { ITERATIONS = 3, COLUMNS = 2, MICRO_BATCH = 4 };

/* Compiles y = -x for one device, or for two. */
static bg_status make_plan(const bg_options *options, bg_plan **out, bg_error *error)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, COLUMNS);
    bg_graph *graph = NULL;
    bg_status status;
    bg_value x;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_elementwise_unary(graph, "minus", BG_NEGATE, bg_graph_input(graph, "x", &type));
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    bg_graph_output(graph, "y", bg_scale(graph, "scale", x, 1.0, 0.0));
    bg_block_end(graph);
    status = bg_plan_create_inference(graph, options, out, error);
    bg_graph_destroy(graph);
    return status;
}

static bg_options inference_options(uint32_t replicas, uint32_t size, bg_grouping grouping)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.device_iterations = ITERATIONS;
    options.replicas.count = replicas;
    options.replicas.input_group_size = size;
    options.replicas.input_grouping = grouping;
    options.execution.cores = 2;
    return options;
}

static bg_session *open_session(const bg_plan *plan)
{
    bg_session *session = NULL;
    bg_error error = {0};

    if (bg_session_create(plan, NULL, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    return session;
}

/* ---- which row ---- */

typedef struct group_case {
    uint32_t replicas, size;
    bg_grouping grouping;
    uint32_t rows[8]; /* rows of each replica */
} group_case;

static const group_case cases[] = {
    {4, 1, BG_GROUPING_CONSECUTIVE, {0, 1, 2, 3}},
    {4, 1, BG_GROUPING_NONE, {0, 1, 2, 3}},
    {4, 1, BG_GROUPING_ORTHOGONAL, {0, 1, 2, 3}},
    {4, 2, BG_GROUPING_CONSECUTIVE, {0, 0, 1, 1}},
    {4, 2, BG_GROUPING_ORTHOGONAL, {0, 1, 0, 1}},
    {6, 3, BG_GROUPING_CONSECUTIVE, {0, 0, 0, 1, 1, 1}},
    {6, 3, BG_GROUPING_ORTHOGONAL, {0, 1, 0, 1, 0, 1}},
    {6, 2, BG_GROUPING_ORTHOGONAL, {0, 1, 2, 0, 1, 2}},
    {4, 4, BG_GROUPING_CONSECUTIVE, {0, 0, 0, 0}},
    {4, 4, BG_GROUPING_ORTHOGONAL, {0, 0, 0, 0}},
    {1, 1, BG_GROUPING_CONSECUTIVE, {0}},
};

static bg_status next_row(void *user, void *const tensors[], bool *out_has_ended, bg_error *error)
{
    uint64_t *next = user;
    (void)error;

    *out_has_ended = false;
    for (int i = 0; i < COLUMNS; i++)
        ((float *)tensors[0])[i] = (float)(*next * COLUMNS + (uint64_t)i + 1);
    ++*next;
    return BG_OK;
}

static void expect_rows(const group_case *wanted, const float *y)
{
    const uint32_t row_count = wanted->replicas / wanted->size;

    for (uint32_t i = 0; i < ITERATIONS; i++)
        for (uint32_t r = 0; r < wanted->replicas; r++)
            for (int c = 0; c < COLUMNS; c++) {
                const uint32_t row = i * row_count + wanted->rows[r];

                assert_true(y[(i * wanted->replicas + r) * COLUMNS + (uint32_t)c] ==
                            -(float)(row * COLUMNS + (uint32_t)c + 1));
            }
}

static void each_replica_reads_its_groups_row(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        const group_case *wanted = &cases[n];
        const bg_options options = inference_options(wanted->replicas, wanted->size, wanted->grouping);
        const bg_type type = bg_matrix(BG_FLOAT32, 1, COLUMNS);
        const bg_infeed_options infeed_options = bg_infeed_options_defaults();
        const uint32_t row_count = wanted->replicas / wanted->size;
        float x[ITERATIONS * 8 * COLUMNS], y[ITERATIONS * 8 * COLUMNS];
        bg_infeed *infeed = NULL;
        uint64_t next = 0;
        bg_session *session;
        bg_plan *plan = NULL;
        bg_stream stream;

        assert_int_equal(make_plan(&options, &plan, NULL), BG_OK);
        session = open_session(plan);
        assert_int_equal(bg_session_input(session, 0, &stream, NULL), BG_OK);
        assert_int_equal(stream.count, ITERATIONS * row_count);
        assert_int_equal(stream.replicas, row_count);
        assert_int_equal(bg_plan_summarize(plan).input_groups, row_count);
        assert_int_equal(bg_plan_summarize(plan).samples_per_run, ITERATIONS * row_count);
        for (uint32_t i = 0; i < ITERATIONS * row_count * COLUMNS; i++)
            x[i] = (float)(i + 1);
        assert_int_equal(bg_session_run(session, (const void *[]){x}, (void *[]){y}, NULL), BG_OK);
        expect_rows(wanted, y);
        /* Reads the same from a queue, twice, without a lost or repeated element. */
        assert_int_equal(bg_infeed_create(&type, 1, next_row, &next, &infeed_options, &infeed, NULL), BG_OK);
        assert_int_equal(bg_infeed_start(infeed, session, NULL), BG_OK);
        memset(y, 0, sizeof y);
        assert_int_equal(bg_session_run_infeed(session, infeed, (void *[]){y}, NULL), BG_OK);
        expect_rows(wanted, y);
        assert_int_equal(bg_session_run_infeed(session, infeed, (void *[]){y}, NULL), BG_OK);
        assert_true(y[0] == -(float)(ITERATIONS * row_count * COLUMNS + 1));
        assert_int_equal(bg_infeed_used_count(infeed), 2 * ITERATIONS * row_count);
        bg_infeed_destroy(infeed);
        bg_session_destroy(session);
        bg_plan_destroy(plan);
    }
}

/* ---- training ---- */

typedef struct training_case {
    uint32_t replicas, size;
    bg_grouping grouping;
    bool is_written_out; /* no groups: the rows that the groups would read are repeated in the inputs */
} training_case;

enum { UPDATES = 2, ACCUMULATION = 3, ROOM = 1 << 20 };

static uint32_t row_of(const training_case *c, uint32_t replica)
{
    const uint32_t row_count = c->replicas / c->size;

    return c->grouping == BG_GROUPING_ORTHOGONAL ? replica % row_count : replica / c->size;
}

/* Makes the input of all updates, with one micro-batch for each group; if `is_written_out` is set, each is copied for
 * each replica of its group. */
static void *make_input(const training_case *c, const bg_stream *stream)
{
    const uint32_t row_count = c->replicas / c->size;
    const size_t size = bg_type_size_bytes(&stream->micro_batch_type);
    unsigned char *rows = test_model_input(&stream->micro_batch_type, stream->name, UPDATES * ACCUMULATION * row_count);
    unsigned char *all;

    if (!c->is_written_out)
        return rows;
    all = malloc(UPDATES * ACCUMULATION * c->replicas * size);
    assert_non_null(all);
    for (uint32_t m = 0; m < UPDATES * ACCUMULATION; m++)
        for (uint32_t r = 0; r < c->replicas; r++)
            memcpy(all + (m * c->replicas + r) * size, rows + (m * row_count + row_of(c, r)) * size, size);
    free(rows);
    return all;
}

static size_t copy_weights(bg_weights *weights, unsigned char *out)
{
    size_t used = 0;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;

        assert_int_equal(bg_weights_at(weights, i, &weight, NULL), BG_OK);
        assert_true(used + bg_type_size_bytes(&weight.type) <= ROOM);
        memcpy(out + used, weight.data, bg_type_size_bytes(&weight.type));
        used += bg_type_size_bytes(&weight.type);
    }
    return used;
}

/* Makes one run, copies all weights one after the other to `weights`, and returns their size. */
static size_t train(const training_case *c, unsigned char *weights)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_options options = bg_options_defaults();
    void *inputs[4], *outputs[8] = {NULL};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_session *session;
    bg_stream stream;
    bg_value loss;
    size_t used;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    loss = test_model_at(3)->build(graph, MICRO_BATCH);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.device_iterations = UPDATES;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.replicas.count = c->replicas;
    options.replicas.input_group_size = c->is_written_out ? 1 : c->size;
    options.replicas.input_grouping = c->grouping;
    options.execution.cores = 2;
    if (bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    session = open_session(plan);
    assert_true(bg_session_input_count(session) <= 4 && bg_session_output_count(session) <= 8);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        assert_int_equal(bg_session_input(session, i, &stream, NULL), BG_OK);
        inputs[i] = make_input(c, &stream);
    }
    if (bg_session_run(session, (const void *const *)inputs, outputs, &error) != BG_OK)
        fail_msg("%s", error.message);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++)
        free(inputs[i]);
    used = copy_weights(bg_session_weights(session), weights);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return used;
}

static void expect_same(const training_case *a, const training_case *b)
{
    unsigned char *left = malloc(ROOM), *right = malloc(ROOM);
    size_t size;

    assert_true(left != NULL && right != NULL);
    size = train(a, left);
    assert_true(size > 100);
    assert_int_equal(train(b, right), size);
    assert_memory_equal(left, right, size);
    free(left);
    free(right);
}

static void training_equals_that_on_repeated_data(void **state)
{
    static const training_case groups[] = {{4, 2, BG_GROUPING_CONSECUTIVE, false},
                                           {4, 2, BG_GROUPING_ORTHOGONAL, false},
                                           {6, 3, BG_GROUPING_ORTHOGONAL, false},
                                           {3, 3, BG_GROUPING_CONSECUTIVE, false}};
    (void)state;

    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        training_case written_out = groups[i];

        written_out.is_written_out = true;
        expect_same(&groups[i], &written_out);
    }
}

/* Four copies of each gradient have the same mean as one copy, because sums and counts are four times as large. */
static void copies_that_read_the_same_do_not_change_a_bit(void **state)
{
    const training_case one = {1, 1, BG_GROUPING_CONSECUTIVE, false}, four = {4, 4, BG_GROUPING_CONSECUTIVE, false};
    (void)state;

    expect_same(&one, &four);
}

/* ---- errors ---- */

static void expect_refused(const bg_options *options, const char *part)
{
    bg_plan *plan = NULL;
    bg_error error = {0};

    assert_int_equal(make_plan(options, &plan, &error), BG_ERROR_INVALID);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s` instead of `%s`", error.message, part);
}

static void groups_are_checked(void **state)
{
    bg_options options = inference_options(4, 5, BG_GROUPING_CONSECUTIVE);
    (void)state;

    expect_refused(&options, "input_group_size is 5, but there are only 4 replicas");
    options.replicas.input_group_size = 3;
    expect_refused(&options, "input_group_size 3 does not divide the 4 replicas: use a divisor, or 3 replicas");
    options.replicas.input_group_size = 0;
    expect_refused(&options, "input_group_size is 0");
    options.replicas.input_group_size = 4;
    options.replicas.input_grouping = BG_GROUPING_ALL;
    expect_refused(&options, "input_grouping is all, which inputs do not support");
    options.replicas.input_grouping = BG_GROUPING_NONE;
    expect_refused(&options, "input_grouping is none, but input_group_size is 4");
    options.replicas.input_grouping = (bg_grouping)9;
    expect_refused(&options, "input_grouping is 9");
}

static void names_of_groupings(void **state)
{
    int grouping = BG_GROUPING_ALL;
    (void)state;

    for (int i = 0; i <= BG_GROUPING_NONE; i++) {
        assert_true(bg_option_value_find("input_grouping", bg_option_value_name("input_grouping", i), &grouping));
        assert_int_equal(grouping, i);
    }
    assert_false(bg_option_value_find("input_grouping", "some", &grouping));
}

/* ---- replicas by device count ---- */

static void devices_make_replicas(void **state)
{
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    (void)state;

    options.execution.stages = "B1|B2";
    options.replicas.total_devices = 8;
    options.replicas.input_group_size = 2;
    assert_int_equal(make_plan(&options, &plan, NULL), BG_OK);
    assert_int_equal(bg_plan_summarize(plan).replicas, 4);
    assert_int_equal(bg_plan_summarize(plan).input_groups, 2);
    bg_plan_destroy(plan);
    options.replicas.count = 4;
    assert_int_equal(make_plan(&options, &plan, NULL), BG_OK);
    bg_plan_destroy(plan);
    options.replicas.count = 2;
    expect_refused(&options, "total_devices 8 makes 4 replicas of 2 devices, but replicas is 2");
    options.replicas.count = 1;
    options.replicas.total_devices = 7;
    expect_refused(
        &options,
        "total_devices is 7, which is not a multiple of the 2 devices of a replica, so 1 would be idle; use 6 or 8");
    options.replicas.total_devices = 1;
    expect_refused(&options, "total_devices is 1, but a replica has 2 devices");
    options.replicas.total_devices = 6;
    options.replicas.input_group_size = 2;
    expect_refused(&options, "input_group_size 2 does not divide the 3 replicas");
}

/* ---- arrays ---- */

static void arrays_are_checked_with_every_factor(void **state)
{
    const bg_options options = inference_options(4, 2, BG_GROUPING_CONSECUTIVE);
    const int64_t split[] = {ITERATIONS, 2, 1, COLUMNS};
    bg_type type = bg_matrix(BG_FLOAT32, 6, COLUMNS);
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_session *session;
    (void)state;

    assert_int_equal(make_plan(&options, &plan, NULL), BG_OK);
    session = open_session(plan);
    assert_int_equal(bg_session_check_input(session, 0, &type, &error), BG_OK);
    type = bg_type_make(BG_FLOAT32, 4, split);
    assert_int_equal(bg_session_check_input(session, 0, &type, &error), BG_OK);
    type = bg_matrix(BG_FLOAT32, 12, COLUMNS);
    assert_int_equal(bg_session_check_input(session, 0, &type, &error), BG_ERROR_SHAPE);
    assert_string_equal(
        error.message, "input `x` is float32[12,2], but a run takes 1 samples of a micro-batch x 3 device iterations x "
                       "1 accumulation x (4 replicas / input_group_size 2) = 6 in the first dimension; a micro-batch "
                       "is float32[1,2]");
    assert_int_equal(bg_session_check_input(session, 1, &type, NULL), BG_ERROR_INVALID);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_replica_reads_its_groups_row),
        cmocka_unit_test(training_equals_that_on_repeated_data),
        cmocka_unit_test(copies_that_read_the_same_do_not_change_a_bit),
        cmocka_unit_test(groups_are_checked),
        cmocka_unit_test(names_of_groupings),
        cmocka_unit_test(devices_make_replicas),
        cmocka_unit_test(arrays_are_checked_with_every_factor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
