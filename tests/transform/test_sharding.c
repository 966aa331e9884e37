/*
 * test_sharding.c: which ops and values are marked when replicas update pieces.
 */
#include "transform/small.h"

/* w (9 elements) is used in A and C, v (9) in B. Adam; remote state when `offload`. */
static bg_graph *train_shared(bool offload, bg_options *options, bgi_stages *stages)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    const bg_optimiser optimiser = bg_adam(0.1);
    bg_value x = small_input(graph, "x");
    bg_error error = {0};

    *options = bg_options_defaults();
    options->replicas = 4;
    options->offload_optimiser = offload;
    options->locations[BG_LOCATION_STATE].sharded = true;
    options->locations[BG_LOCATION_STATE].minimum_elements_sharded = 9;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_linear(graph, "b", x, small_weight(graph, "v"));
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    x = small_loss(graph, "loss", small_linear(graph, "c", x, w));
    small_require(graph);
    small_expect(bgi_assign_stages(graph, options, true, stages, &error), BG_OK, &error, NULL);
    small_expect(bgi_make_training(graph, x, &optimiser, options, &error), BG_OK, &error, NULL);
    small_expect(bgi_copy_shared_variables(graph, stages, &error), BG_OK, &error, NULL);
    return graph;
}

static const bgi_value *find(const bg_graph *graph, const char *name)
{
    const bg_value value = bg_graph_find_variable(graph, name);

    assert_false(bg_value_is_null(value));
    return bgi_graph_value(graph, value);
}

static uint32_t count_sharded(const bg_graph *graph)
{
    uint32_t count = 0;

    for (size_t o = 0; o < graph->op_count; o++)
        count += graph->ops[o].is_sharded;
    return count;
}

static void test_pieces(void **state)
{
    (void)state;
    for (int offload = 0; offload < 2; offload++) {
        static const char *const states[] = {"w.exp_avg", "w.exp_avg_sq", "v.exp_avg", "v.exp_avg_sq"};
        static const char *const wholes[] = {"w", "w@2", "v", "w.accumulator.A", "w.accumulator.C", "v.accumulator.B"};
        bgi_stages stages = {0};
        bg_options options;
        bg_graph *graph = train_shared(offload != 0, &options, &stages);
        assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
        for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
            assert_int_equal(find(graph, states[i])->piece, 3); /* 9 over 4: 3, 3, 3, nothing */
            assert_true(find(graph, states[i])->is_piece);
        }
        for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
            assert_int_equal(find(graph, wholes[i])->piece, 3);
            assert_false(find(graph, wholes[i])->is_piece);
            assert_false(find(graph, wholes[i])->is_read_whole);
        }
        assert_int_equal(find(graph, "optimiser.hyper")->piece, 0);
        /* two updates, the sum of w's two accumulators, the refresh; loads and stores of four states */
        assert_int_equal(count_sharded(graph), offload ? 4 + 8 : 4);
        assert_int_equal(bgi_graph_verify(graph, NULL), BG_OK);
        bgi_stages_clear(&stages);
        bg_graph_destroy(graph);
    }
}

static void test_minimum(void **state)
{
    bgi_stages stages = {0};
    bg_options options;
    bg_graph *graph = train_shared(false, &options, &stages);

    (void)state;
    options.locations[BG_LOCATION_STATE].minimum_elements_sharded = 10;
    assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
    assert_int_equal(count_sharded(graph), 0);
    bgi_stages_clear(&stages);
    bg_graph_destroy(graph);
}

/* A norm of all gradients needs their whole sums; the update goes on in pieces. */
static void test_gradients_that_are_read_whole(void **state)
{
    bgi_stages stages = {0};
    bg_options options;
    bg_graph *graph = train_shared(false, &options, &stages);

    (void)state;
    graph->phase = BGI_PHASE_UPDATE;
    graph->current_block = 2; /* B */
    bg_reduce(graph, "norm", BG_REDUCE_SUM, bg_graph_find_variable(graph, "v.accumulator.B"), NULL, 0, false);
    small_require(graph);
    assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
    assert_int_equal(count_sharded(graph), 4);
    assert_true(find(graph, "v.accumulator.B")->is_read_whole);
    assert_int_equal(find(graph, "v.accumulator.B")->piece, 3);
    assert_false(find(graph, "w.accumulator.A")->is_read_whole);
    bgi_stages_clear(&stages);
    bg_graph_destroy(graph);
}

static void count_message(void *user, bg_log_level level, const char *text)
{
    uint32_t *count = user;

    *count += level == BG_LOG_WARNING && strstr(text, "state of `v` is not sharded") != NULL;
}

/* What an op reads as a whole while it is being updated stays whole. */
static void test_weights_that_are_read_whole(void **state)
{
    bgi_stages stages = {0};
    bg_options options;
    bg_graph *graph = train_shared(false, &options, &stages);
    uint32_t warnings = 0;

    (void)state;
    options.log = count_message;
    options.log_user = &warnings;
    graph->phase = BGI_PHASE_UPDATE;
    graph->current_block = 2; /* B */
    bg_reduce(graph, "norm", BG_REDUCE_SUM, bg_graph_find_variable(graph, "v"), NULL, 0, false);
    small_require(graph);
    assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
    assert_int_equal(warnings, 1);
    assert_int_equal(find(graph, "v.exp_avg")->piece, 0);
    assert_int_equal(find(graph, "v.accumulator.B")->piece, 0);
    assert_int_equal(find(graph, "w.exp_avg")->piece, 3);
    assert_int_equal(count_sharded(graph), 3);
    bgi_stages_clear(&stages);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_minimum),
        cmocka_unit_test(test_gradients_that_are_read_whole),
        cmocka_unit_test(test_weights_that_are_read_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
