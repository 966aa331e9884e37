/*
 * test_gradient_norm.c: the norm of all gradients as an output. It has one value for each weight update, in every mode
 * and through outfeeds. It agrees with the change of the weights, and is bit-identical under every strategy.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/feed.h>
#include <brigade/ops.h>
#include <brigade/session.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/models.h"

enum { MICRO_BATCH = 4, ACCUMULATION = 3, MOST_INPUTS = 4, MOST_OUTPUTS = 8, MOST_NORMS = 64 };

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    uint32_t input_count;
    void *inputs[MOST_INPUTS];
    void *outputs[MOST_OUTPUTS];
    uint64_t norm_count;
    float norms[MOST_NORMS];
} rig;

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_options make_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_gradient_norm = true;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 5;
    options.execution.wait_limit_s = 60;
    return options;
}

static void open_rig(rig *r, const test_model *model, const bg_optimizer *optimizer, const bg_options *options)
{
    bg_error error = {0};
    bg_stream stream;
    bg_value loss;
    uint32_t norm;

    memset(r, 0, sizeof *r);
    require(bg_graph_create(&r->graph, &error), &error);
    loss = model->build(r->graph, MICRO_BATCH);
    require(bg_plan_create_training(r->graph, loss, optimizer, options, &r->plan, &error), &error);
    require(bg_session_create(r->plan, NULL, &r->session, &error), &error);
    r->input_count = bg_session_input_count(r->session);
    assert_true(r->input_count <= MOST_INPUTS && bg_session_output_count(r->session) <= MOST_OUTPUTS);
    for (uint32_t i = 0; i < r->input_count; i++) {
        require(bg_session_input(r->session, i, &stream, &error), &error);
        r->inputs[i] = test_model_input(&stream.micro_batch_type, stream.name, stream.count);
    }
    norm = bg_session_find_output(r->session, "gradient_norm");
    assert_true(norm != UINT32_MAX);
    require(bg_session_output(r->session, norm, &stream, &error), &error);
    assert_int_equal(stream.micro_batch_type.dtype, BG_FLOAT32);
    assert_int_equal(stream.micro_batch_type.rank, 0);
    assert_true(stream.count <= MOST_NORMS);
    r->norm_count = stream.count;
    r->outputs[norm] = r->norms;
}

static void run(rig *r)
{
    bg_error error = {0};

    require(bg_session_run(r->session, (const void *const *)r->inputs, r->outputs, &error), &error);
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
    for (uint32_t i = 0; i < r->input_count; i++)
        free(r->inputs[i]);
}

/* Copies at most `most` values of the parameters, one parameter after the other; returns their number. */
static uint32_t copy_parameters(rig *r, float *to, uint32_t most)
{
    bg_weights *weights = bg_session_weights(r->session);
    uint32_t count = 0;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_error error = {0};
        bg_weight weight;
        uint32_t elements;

        require(bg_weights_at(weights, i, &weight, &error), &error);
        if (weight.role != BG_ROLE_PARAMETER)
            continue;
        elements = (uint32_t)bg_type_element_count(&weight.type);
        if (count + elements <= most)
            memcpy(to + count, weight.data, elements * sizeof *to);
        count += elements;
    }
    return count;
}

/* Compares the norm with the change of the weights, which are moved by the gradients because the learning rate is 1. */
static void expect_steps(const test_model *model, const bg_options *options, bool is_clipped)
{
    const bg_optimizer optimizer = bg_sgd(1.0);
    rig r;
    float *before, *after;
    uint32_t count;

    open_rig(&r, model, &optimizer, options);
    assert_int_equal(r.norm_count, options->replicas.count);
    count = copy_parameters(&r, NULL, 0);
    before = malloc(count * sizeof *before);
    after = malloc(count * sizeof *after);
    assert_true(before != NULL && after != NULL);
    for (int update = 0; update < 3; update++) {
        double squares = 0.0, norm;

        copy_parameters(&r, before, count);
        run(&r);
        copy_parameters(&r, after, count);
        for (uint32_t i = 0; i < count; i++)
            squares += ((double)after[i] - (double)before[i]) * ((double)after[i] - (double)before[i]);
        norm = sqrt(squares);
        for (uint32_t replica = 1; replica < options->replicas.count; replica++)
            assert_memory_equal(&r.norms[replica], &r.norms[0], sizeof(float));
        if (is_clipped) {
            assert_true((double)r.norms[0] > 2.0 * options->numerics.max_gradient_norm);
            norm *= (double)r.norms[0] / options->numerics.max_gradient_norm;
        }
        if (!(fabs((double)r.norms[0] - norm) <= 1e-6 * norm))
            fail_msg("%s, update %d: norm %.9g, the weights moved by %.9g", model->name, update, (double)r.norms[0],
                     norm);
    }
    free(before);
    free(after);
    close_rig(&r);
}

static void test_it_is_how_far_weights_move(void **state)
{
    bg_options options = make_options();

    (void)state;
    expect_steps(test_model_at(0), &options, false);
    expect_steps(test_model_at(3), &options, false);
    options.replicas.count = 2;
    options.numerics.loss_scaling = 1024.0;
    expect_steps(test_model_at(3), &options, false);
    options.numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
    expect_steps(test_model_at(3), &options, false);
    options.numerics.accumulation = BG_ACCUMULATE_SUM;
    options.numerics.max_gradient_norm = 1e-2;
    expect_steps(test_model_at(3), &options, true);
}

/* ---- the same bits ---- */

static void expect_same(const test_model *model, const bg_options *options, const rig *expected)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    rig r;

    open_rig(&r, model, &optimizer, options);
    assert_int_equal(r.norm_count, expected->norm_count);
    run(&r);
    assert_memory_equal(r.norms, expected->norms, r.norm_count * sizeof(float));
    close_rig(&r);
}

/* Checks that the norms are the same with stages, with sharded state and gradients, and with state off the devices.
 * Norms are positive, and those of the first two updates differ. */
static void expect_same_everywhere(const test_model *model, bg_options options)
{
    static const bg_strategy strategies[] = {BG_STRATEGY_SHARDED, BG_STRATEGY_PIPELINED, BG_STRATEGY_PHASED};
    const bg_optimizer optimizer = bg_adamw(0.003);
    rig single;

    open_rig(&single, model, &optimizer, &options);
    assert_int_equal(single.norm_count, options.execution.device_iterations * options.replicas.count);
    run(&single);
    for (uint64_t i = 0; i < single.norm_count; i++)
        assert_true(isfinite(single.norms[i]) && single.norms[i] > 0.0f);
    assert_true(single.norms[0] != single.norms[options.replicas.count]);
    for (int i = 0; i < 3; i++) {
        options.execution.strategy = strategies[i];
        expect_same(model, &options, &single);
        options.memory.offload_optimizer = true;
        expect_same(model, &options, &single);
        options.memory.offload_optimizer = false;
        if (options.replicas.count == 1)
            continue;
        options.memory.locations[BG_LOCATION_STATE].sharded = true;
        options.memory.locations[BG_LOCATION_ACCUMULATORS].sharded = i == 1;
        for (size_t minimum = 1; minimum <= 30; minimum += 29) { /* with 1, the smallest tensors are sharded too */
            options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = minimum;
            options.memory.locations[BG_LOCATION_ACCUMULATORS].minimum_elements_sharded = minimum;
            expect_same(model, &options, &single);
        }
        options.memory.locations[BG_LOCATION_STATE].sharded =
            options.memory.locations[BG_LOCATION_ACCUMULATORS].sharded = false;
    }
    close_rig(&single);
}

static void test_every_strategy(void **state)
{
    const unsigned step = getenv("BRIGADE_TEST_QUICK") != NULL ? 2 : 1;

    (void)state;
    for (unsigned m = 0; test_model_at(m) != NULL; m += step)
        for (uint32_t way = 0; way < 2; way++) {
            bg_options options = make_options();
            options.execution.device_iterations = 3;
            options.replicas.count = 1 + way;
            options.numerics.max_gradient_norm = (m + way) % 2 == 0 ? 0.0 : 0.05;
            expect_same_everywhere(test_model_at(m), options);
        }
}

static void test_a_bound_comes_after(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = make_options();
    rig free_one, bounded;

    (void)state;
    open_rig(&free_one, test_model_at(0), &optimizer, &options);
    options.numerics.max_gradient_norm = 1e-3;
    open_rig(&bounded, test_model_at(0), &optimizer, &options);
    run(&free_one);
    run(&bounded);
    assert_memory_equal(free_one.norms, bounded.norms, sizeof(float));
    run(&free_one);
    run(&bounded);
    assert_true(free_one.norms[0] != bounded.norms[0]);
    close_rig(&free_one);
    close_rig(&bounded);
}

/* ---- gradients that are NaN or infinite ---- */

static bg_value build_line(bg_graph *graph, int64_t micro_batch)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, 30), w_type = bg_vector(BG_FLOAT32, 30);
    const bg_initializer normal = {BG_INITIALIZE_NORMAL, 0.0, 1.0};
    const bg_value x = bg_graph_input(graph, "x", &x_type), w = bg_graph_parameter(graph, "w", &w_type, &normal);
    const bg_value loss = bg_mse_loss(graph, "loss", bg_multiply(graph, x, w), x, BG_LOSS_MEAN);

    bg_graph_output(graph, "loss", loss);
    return loss;
}

/* A NaN or an infinity in any shard, even in the last, shorter one, makes every replica's norm NaN or infinite. */
static void test_no_numbers_in_pieces(void **state)
{
    const test_model model = {"line", build_line};
    const bg_optimizer optimizer = bg_adamw(0.003);

    (void)state;
    for (int which = 0; which < 2; which++)
        for (uint32_t element = 0; element < 30; element += 29) {
            bg_options options = make_options();
            rig r;

            options.replicas.count = 4;
            options.memory.locations[BG_LOCATION_STATE].sharded = true;
            options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
            open_rig(&r, &model, &optimizer, &options);
            ((float *)r.inputs[0])[element] = which == 0 ? NAN : 3e20f; /* its gradient is infinite */
            run(&r);
            for (uint64_t i = 0; i < r.norm_count; i++)
                assert_true(which == 0 ? isnan(r.norms[i]) : !isfinite(r.norms[i]));
            close_rig(&r);
        }
}

/* ---- modes and outfeeds ---- */

static void test_modes(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = make_options();
    rig all, other;

    (void)state;
    options.execution.device_iterations = 4;
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    open_rig(&all, test_model_at(0), &optimizer, &options);
    assert_int_equal(all.norm_count, 4);
    run(&all);

    options.reporting.output_mode = BG_OUTPUT_EVERY_N;
    options.reporting.output_period = 2;
    open_rig(&other, test_model_at(0), &optimizer, &options);
    assert_int_equal(other.norm_count, 2);
    run(&other);
    assert_memory_equal(&other.norms[0], &all.norms[1], sizeof(float));
    assert_memory_equal(&other.norms[1], &all.norms[3], sizeof(float));
    close_rig(&other);

    options.reporting.output_mode = BG_OUTPUT_FINAL;
    open_rig(&other, test_model_at(0), &optimizer, &options);
    assert_int_equal(other.norm_count, 1);
    run(&other);
    assert_memory_equal(&other.norms[0], &all.norms[3], sizeof(float));
    close_rig(&other);

    options.reporting.output_mode = BG_OUTPUT_SUM;
    open_rig(&other, test_model_at(0), &optimizer, &options);
    assert_int_equal(other.norm_count, 1);
    run(&other);
    assert_true(other.norms[0] == ((all.norms[0] + all.norms[1]) + all.norms[2]) + all.norms[3]);
    close_rig(&other);
    close_rig(&all);
}

static bg_outfeed *open_outfeed(const bg_outfeed_options *options)
{
    bg_error error = {0};
    bg_outfeed *outfeed;

    require(bg_outfeed_create(options, &outfeed, &error), &error);
    return outfeed;
}

/* The output has one row for each update; an outfeed that also has the losses must accumulate them. */
static void test_outfeeds(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = make_options();
    bg_outfeed_options asked = bg_outfeed_options_defaults();
    bg_outfeed *alone, *sums, *mixed;
    bg_error error = {0};
    float norm, loss;
    bool has;
    rig r;

    (void)state;
#ifdef TEST_RANKS
    skip(); /* a rank's outfeed has only the rows that this rank computes */
#endif
    options.execution.device_iterations = 4;
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    open_rig(&r, test_model_at(0), &optimizer, &options);
    asked.structure = "gradient_norm";
    alone = open_outfeed(&asked);
    asked.structure = "{loss, gradient_norm}";
    mixed = open_outfeed(&asked);
    asked.accumulate = true;
    sums = open_outfeed(&asked);
    require(bg_outfeed_attach(alone, r.session, &error), &error);
    require(bg_outfeed_attach(sums, r.session, &error), &error);
    assert_int_equal(bg_outfeed_attach(mixed, r.session, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "accumulate, or use two outfeeds"));
    run(&r);
    for (int update = 0; update < 4; update++) {
        require(bg_outfeed_next(alone, (void *[]){&norm}, &has, &error), &error);
        assert_true(has);
        assert_memory_equal(&norm, &r.norms[update], sizeof norm);
        require(bg_outfeed_next(sums, (void *[]){&loss, &norm}, &has, &error), &error);
        assert_true(has);
        assert_memory_equal(&norm, &r.norms[update], sizeof norm);
        assert_true(loss > 0.0f);
    }
    require(bg_outfeed_next(alone, (void *[]){&norm}, &has, &error), &error);
    assert_false(has);
    bg_outfeed_destroy(alone);
    bg_outfeed_destroy(sums);
    bg_outfeed_destroy(mixed);
    close_rig(&r);
}

static void test_the_name_is_taken(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.1);
    const bg_options options = make_options();
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan = NULL;
    bg_value loss;

    (void)state;
    require(bg_graph_create(&graph, &error), &error);
    loss = test_model_at(0)->build(graph, MICRO_BATCH);
    bg_graph_output(graph, "gradient_norm", loss);
    assert_int_equal(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "output `gradient_norm` already exists"));
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_how_far_weights_move),
        cmocka_unit_test(test_every_strategy),
        cmocka_unit_test(test_a_bound_comes_after),
        cmocka_unit_test(test_no_numbers_in_pieces),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_outfeeds),
        cmocka_unit_test(test_the_name_is_taken),
    };

    return cmocka_run_group_tests_name("gradient norm", tests, NULL, NULL);
}
