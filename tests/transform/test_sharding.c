/*
 * test_sharding.c: tests which ops and values are marked if replicas update shards.
 */
#include "transform/small.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Builds a training graph with Adam, in which A and C use w (9 elements) and B uses v (9). State is remote with
 * `offload`. A norm of 0 means no clipping.
 */
static bg_graph *train_bounded(bool offload, double norm, bool is_canonical, bg_options *options, bgi_stages *stages)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_value x = small_input(graph, "x");
    bg_error error = {0};

    *options = bg_options_defaults();
    options->replicas.count = 4;
    options->numerics.max_gradient_norm = norm;
    options->numerics.canonical_reductions = is_canonical;
    options->memory.offload_optimizer = offload;
    options->memory.locations[BG_LOCATION_STATE].sharded = true;
    options->memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 9;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_linear(graph, "b", x, small_weight(graph, "v"));
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    x = small_loss(graph, "loss", small_linear(graph, "c", x, w));
    small_require(graph);
    small_expect(bgi_assign_stages(graph, options, true, stages, &error), BG_OK, &error, NULL);
    small_expect(bgi_make_training(graph, x, &optimizer, options, &error), BG_OK, &error, NULL);
    small_expect(bgi_copy_shared_variables(graph, stages, NULL, true, &error), BG_OK, &error, NULL);
    return graph;
}

static bg_graph *train_shared(bool offload, bg_options *options, bgi_stages *stages)
{
    return train_bounded(offload, 0.0, false, options, stages);
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
            assert_int_equal(find(graph, states[i])->piece, 3); /* 9 over 4: 3, 3, 3, 0 */
            assert_true(find(graph, states[i])->is_piece);
        }
        for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
            assert_int_equal(find(graph, wholes[i])->piece, 3);
            assert_false(find(graph, wholes[i])->is_piece);
            assert_false(find(graph, wholes[i])->is_read_whole);
        }
        for (size_t o = 0; o < graph->op_count; o++)
            if (graph->ops[o].type == &bgi_op_load)
                assert_true(bgi_graph_value(graph, graph->ops[o].outputs[0])->is_piece);
        assert_int_equal(find(graph, "optimizer.hyper")->piece, 0);
        /* two updates, the sum of w's two accumulators, the refresh; loads and stores of four states */
        assert_int_equal(count_sharded(graph), offload ? 4 + 8 : 4);
        assert_int_equal(bgi_graph_verify(graph, NULL), BG_OK);
        bgi_stages_clear(&stages);
        bg_graph_destroy(graph);
    }
}

/* With a loss of two terms, the sum of both terms' accumulators is sharded too, but their scales are whole. */
static void test_pieces_of_two_terms(void **state)
{
    bg_graph *graph = small_create();
    const bg_type label_type = bg_vector(BG_INT32, 2);
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_options options = bg_options_defaults();
    const bg_value y = small_linear(graph, "fc", small_input(graph, "x"), small_weight(graph, "w"));
    const bg_value labels = bg_graph_input(graph, "labels", &label_type);
    const bg_value counted = bg_cross_entropy(graph, "ce", y, labels, BG_LOSS_MEAN, -100);
    const bgi_op *sum = NULL;
    bg_error error = {0};

    (void)state;
    options.replicas.count = 4;
    options.memory.locations[BG_LOCATION_STATE].sharded = true;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 9;
    small_expect(
        bgi_make_training(graph, bg_add(graph, counted, small_loss(graph, "mean", y)), &optimizer, &options, &error),
        BG_OK, &error, NULL);
    assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].type == &bgi_op_scaled_sum)
            sum = &graph->ops[o];
    assert_non_null(sum);
    assert_true(sum->is_sharded);
    assert_int_equal(sum->input_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(bgi_graph_value(graph, sum->inputs[i])->piece, i % 2 == 0 ? 3 : 0);
    assert_true(bgi_graph_value(graph, sum->outputs[0])->is_piece);
    assert_int_equal(find(graph, "w.accumulator.")->piece, 3);
    assert_int_equal(find(graph, "w.accumulator1.")->piece, 3);
    assert_int_equal(count_sharded(graph), 2);
    bg_graph_destroy(graph);
}

/* A rule requests shards only for its classes. */
static void test_rules(void **state)
{
    const bg_location_rule rules[] = {
        {.classes = 1u << BG_LOCATION_WEIGHTS, .pattern = "*", .location = {.sharded = true}},
        {.classes = 1u << BG_LOCATION_STATE, .pattern = "*", .location = {.sharded = false}}};
    bg_options options = bg_options_defaults();

    (void)state;
    options.memory.location_rules = rules;
    options.memory.location_rule_count = 2;
    assert_true(bgi_asks_for_pieces(&options, 1u << BG_LOCATION_WEIGHTS));
    assert_true(bgi_asks_for_pieces(&options, 1u << BG_LOCATION_WEIGHTS | 1u << BG_LOCATION_STATE));
    assert_false(bgi_asks_for_pieces(&options, 1u << BG_LOCATION_STATE));
    assert_false(bgi_asks_for_pieces(&options, 1u << BG_LOCATION_ACCUMULATORS));
    options.memory.locations[BG_LOCATION_ACCUMULATORS].sharded = true;
    assert_true(bgi_asks_for_pieces(&options, 1u << BG_LOCATION_ACCUMULATORS));
    assert_false(bgi_asks_for_pieces(&options, 1u << BG_LOCATION_STATE));
}

static void test_minimum(void **state)
{
    bgi_stages stages = {0};
    bg_options options;
    bg_graph *graph = train_shared(false, &options, &stages);

    (void)state;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 10;
    assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
    assert_int_equal(count_sharded(graph), 0);
    bgi_stages_clear(&stages);
    bg_graph_destroy(graph);
}

/* LAMB's update has two ops, of which the second reads the result of the first; both work on the shard. A value with
 * one element is not sharded. */
static void test_halves_and_scalars(void **state)
{
    bg_graph *graph = small_create();
    const bg_type one = bg_vector(BG_FLOAT32, 1);
    const bg_optimizer optimizer = bg_lamb(0.1);
    bg_options options = bg_options_defaults();
    bg_value x = small_linear(graph, "fc", small_input(graph, "x"), small_weight(graph, "w"));
    bg_error error = {0};

    (void)state;
    x = bg_multiply(graph, x, bg_graph_parameter(graph, "s", &one, NULL));
    options.replicas.count = 4;
    options.memory.locations[BG_LOCATION_STATE].sharded = true;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    small_expect(bgi_make_training(graph, small_loss(graph, "loss", x), &optimizer, &options, &error), BG_OK, &error,
                 NULL);
    assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].type == &bgi_op_lamb_moments || graph->ops[o].type == &bgi_op_lamb_update)
            assert_int_equal(graph->ops[o].is_sharded, strcmp(bg_graph_name(graph, graph->ops[o].inputs[0]), "w") == 0);
    assert_int_equal(count_sharded(graph), 2);
    assert_int_equal(find(graph, "w.exp_avg")->piece, 3);
    assert_int_equal(find(graph, "s.exp_avg")->piece, 0);
    bg_graph_destroy(graph);
}

/* A norm of all gradients needs their whole sums; the update still works on shards. */
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

/* Counts all sums of squares, those of them that are over shards, and all-reduces. */
static void count_squares(const bg_graph *graph, uint32_t *all, uint32_t *of_pieces, uint32_t *meetings)
{
    *all = *of_pieces = *meetings = 0;
    for (size_t o = 0; o < graph->op_count; o++) {
        *all += graph->ops[o].type == &bgi_op_square_sum;
        *of_pieces += graph->ops[o].type == &bgi_op_square_sum && graph->ops[o].is_sharded;
        *meetings += graph->ops[o].type == &bgi_op_all_reduce;
    }
}

/* Each replica sums the squares of its shard, so no gradient is needed as a whole, and the sum of w's two accumulators
 * is a shard. Every replica has all elements of tensors that stay whole. */
static void test_squares(void **state)
{
    (void)state;
    for (int64_t minimum = 9; minimum <= 10; minimum++) {
        bgi_stages stages = {0};
        bg_options options;
        bg_graph *graph = train_bounded(false, 1.0, false, &options, &stages);
        uint32_t all, of_pieces, meetings;

        options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = (size_t)minimum;
        assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
        count_squares(graph, &all, &of_pieces, &meetings);
        assert_int_equal(all, 2);
        assert_int_equal(of_pieces, minimum == 9 ? 2 : 0);
        assert_int_equal(meetings, 1);
        assert_int_equal(count_sharded(graph), minimum == 9 ? 4 + 2 : 0);
        assert_false(find(graph, "v.accumulator.B")->is_read_whole);
        assert_false(find(graph, "w.accumulator.A")->is_read_whole);
        for (size_t o = 0; o < graph->op_count; o++) {
            const bgi_op *op = &graph->ops[o];
            if (op->type != &bgi_op_square_sum)
                continue;
            assert_int_equal(bgi_graph_value(graph, op->outputs[0])->type.dims[0], 4);
            if (bgi_graph_value(graph, op->inputs[0])->kind == BGI_VALUE_RESULT)
                assert_int_equal(bgi_graph_value(graph, op->inputs[0])->is_piece, minimum == 9);
        }
        assert_int_equal(bgi_graph_verify(graph, NULL), BG_OK);
        bgi_stages_clear(&stages);
        bg_graph_destroy(graph);
    }
}

/* With canonical reductions, sums are over the whole tensor. */
static void test_canonical_squares(void **state)
{
    bgi_stages stages = {0};
    bg_options options;
    bg_graph *graph = train_bounded(false, 1.0, true, &options, &stages);
    uint32_t all, of_pieces, meetings;

    (void)state;
    assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
    count_squares(graph, &all, &of_pieces, &meetings);
    assert_int_equal(all, 2);
    assert_int_equal(of_pieces, 0);
    assert_int_equal(meetings, 0);
    assert_true(find(graph, "v.accumulator.B")->is_read_whole);
    bgi_stages_clear(&stages);
    bg_graph_destroy(graph);
}

static void count_message(void *user, bg_log_level level, const char *text)
{
    uint32_t *count = user;

    *count += level == BG_LOG_WARNING && strstr(text, "state of `v` is not sharded") != NULL;
}

/* A tensor that an op reads as a whole while it is being updated stays whole. */
static void test_weights_that_are_read_whole(void **state)
{
    bgi_stages stages = {0};
    bg_options options;
    bg_graph *graph = train_shared(false, &options, &stages);
    uint32_t warnings = 0;

    (void)state;
    options.reporting.log = count_message;
    options.reporting.log_user = &warnings;
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

/* Returns the processor time in seconds of the pass for this number of layers, the smallest of several measurements. */
static double time_layers(int layers)
{
    double least = 1e30;

    for (int round = 0; round < 4; round++) {
        bg_graph *graph = small_create();
        const bg_optimizer optimizer = bg_adam(0.1);
        bg_options options = bg_options_defaults();
        bg_value x = small_input(graph, "x");
        bg_error error = {0};
        struct timespec begin, end;

        options.replicas.count = 4;
        options.memory.offload_optimizer = true;
        options.memory.locations[BG_LOCATION_STATE].sharded = true;
        options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 9;
        for (int i = 0; i < layers; i++) {
            char weight[32], layer[32];

            snprintf(weight, sizeof weight, "w%d", i);
            snprintf(layer, sizeof layer, "fc%d", i);
            x = small_linear(graph, layer, x, small_weight(graph, weight));
        }
        small_expect(bgi_make_training(graph, small_loss(graph, "loss", x), &optimizer, &options, &error), BG_OK,
                     &error, NULL);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        assert_int_equal(bgi_shard_updates(graph, &options, NULL), BG_OK);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        least = fmin(least, (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
        assert_true(count_sharded(graph) >= 5 * (uint32_t)layers); /* an update, loads and stores of two states */
        bg_graph_destroy(graph);
    }
    return least;
}

/* Four times the number of layers take about four times as long, not sixteen times. */
static void test_time_grows_with_layers(void **state)
{
    const double few = time_layers(400), many = time_layers(1600);

    (void)state;
    if (many > 9.0 * few)
        fail_msg("400 layers take %.1f us, 1,600 take %.1f us", 1e6 * few, 1e6 * many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_minimum),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_halves_and_scalars),
        cmocka_unit_test(test_pieces_of_two_terms),
        cmocka_unit_test(test_gradients_that_are_read_whole),
        cmocka_unit_test(test_weights_that_are_read_whole),
        cmocka_unit_test(test_time_grows_with_layers),
        cmocka_unit_test(test_squares),
        cmocka_unit_test(test_canonical_squares),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
