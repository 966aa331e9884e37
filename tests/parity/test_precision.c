/*
 * test_precision.c: a float32 model that is trained with options.numerics.precision gives the same bits as a model that
 * is written in 16 bits, under every strategy. 16-mixed scales the loss, and 16-true stores 16-bit weights.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/config.h>
#include <brigade/nn.h>
#include <brigade/session.h>
#include <brigade/trainer.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 8, FEATURES = 6, HIDDEN = 10, CLASSES = 4, UPDATES = 5, BYTES = 1024 };

static const char *const parameters[] = {"fc1.weight", "fc1.bias", "norm.weight", "fc2.weight", "fc2.bias"};

enum { PARAMETERS = sizeof parameters / sizeof *parameters };

typedef struct outcome {
    unsigned char weights[PARAMETERS][BYTES];
    bg_dtype kept;
    float losses[UPDATES];
    bool is_scaled;
} outcome;

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* Compiles the model; `own` is the type that the model's author chose, or NONE for no type. */
static bg_plan *make_plan(int64_t micro_batch, bg_dtype own, bg_dtype kept, const bg_options *options)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, FEATURES), y_type = bg_vector(BG_INT32, micro_batch);
    const bg_optimizer optimizer = bg_adamw(0.02);
    bg_error error = {0};
    bg_graph *graph;
    bg_value x, y;
    bg_plan *plan;

    require(bg_graph_create(&graph, &error), &error);
    if (kept != BG_DTYPE_NONE)
        bg_graph_set_parameter_dtype(graph, kept);
    x = bg_graph_input(graph, "x", &x_type);
    y = bg_graph_input(graph, "y", &y_type);
    bg_block_start(graph, "B1", BG_DEVICE_NONE);
    if (own != BG_DTYPE_NONE)
        x = bg_cast(graph, NULL, x, own);
    x = bg_gelu(graph, bg_linear_layer(graph, "fc1", x, HIDDEN, true));
    bg_block_start(graph, "B2", BG_DEVICE_NONE);
    x = bg_layer_norm_layer(graph, "norm", x, 1e-5);
    x = bg_linear_layer(graph, "fc2", x, CLASSES, true);
    x = bg_cross_entropy(graph, "loss", x, y, BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", x);
    require(bg_plan_create_training(graph, x, &optimizer, options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static outcome train(int64_t micro_batches, bg_dtype own, bg_dtype kept, bg_options options)
{
    bg_plan *plan;
    float x[SAMPLES * FEATURES], losses[SAMPLES];
    int32_t y[SAMPLES];
    bg_session *session;
    bg_error error = {0};
    bg_weight weight;
    outcome result = {0};

    options.numerics.seed = 11;
    options.reporting.output_mode = BG_OUTPUT_FINAL;
    plan = make_plan(SAMPLES / micro_batches, own, kept, &options);
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = (float)sin(i * 0.7);
    for (int i = 0; i < SAMPLES; i++)
        y[i] = i % CLASSES;
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (int update = 0; update < UPDATES; update++) {
        require(bg_session_run(session, (const void *[]){x, y}, (void *[]){losses, NULL, NULL}, &error), &error);
        result.losses[update] = losses[0];
    }
    for (int p = 0; p < PARAMETERS; p++) {
        require(bg_weights_find(bg_session_weights(session), parameters[p], &weight, &error), &error);
        assert_true(bg_type_size_bytes(&weight.type) <= BYTES);
        memcpy(result.weights[p], weight.data, bg_type_size_bytes(&weight.type));
        result.kept = weight.type.dtype;
    }
    result.is_scaled = bg_weights_find(bg_session_weights(session), "loss.scale", &weight, NULL) == BG_OK;
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    return result;
}

static void test_it_is_the_model_in_16_bits(void **state)
{
    static const struct {
        bg_precision precision;
        bg_dtype own, kept;
    } cases[] = {
        {BG_PRECISION_BF16_MIXED, BG_BFLOAT16, BG_DTYPE_NONE},
        {BG_PRECISION_BF16_TRUE, BG_BFLOAT16, BG_BFLOAT16},
        {BG_PRECISION_16_TRUE, BG_FLOAT16, BG_FLOAT16},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bg_options options = bg_options_defaults();
        outcome plain, switched;

        options.execution.strategy = BG_STRATEGY_SINGLE;
        plain = train(1, cases[i].own, cases[i].kept, options);
        options.numerics.precision = cases[i].precision;
        switched = train(1, BG_DTYPE_NONE, BG_DTYPE_NONE, options);
        assert_int_equal(plain.kept, switched.kept);
        assert_memory_equal(plain.weights, switched.weights, sizeof plain.weights);
        assert_memory_equal(plain.losses, switched.losses, sizeof plain.losses);
        assert_false(switched.is_scaled);
        assert_true(switched.losses[UPDATES - 1] < switched.losses[0]);
    }
}

static void test_types_and_scales(void **state)
{
    bg_options options = bg_options_defaults();
    outcome wide, mixed;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    wide = train(1, BG_DTYPE_NONE, BG_DTYPE_NONE, options);
    options.numerics.precision = BG_PRECISION_16_MIXED;
    mixed = train(1, BG_DTYPE_NONE, BG_DTYPE_NONE, options);
    assert_true(mixed.is_scaled && !wide.is_scaled);
    assert_int_equal(mixed.kept, BG_FLOAT32);
    for (int i = 0; i < UPDATES; i++) {
        assert_true(fabsf(mixed.losses[i] - wide.losses[i]) < 0.02f);
        assert_true(mixed.losses[i] != wide.losses[i]);
    }
    options.numerics.loss_scaling = 256.0; /* a scale that the caller set */
    mixed = train(1, BG_DTYPE_NONE, BG_DTYPE_NONE, options);
    assert_false(mixed.is_scaled);
}

static void test_every_strategy_has_the_same_bits(void **state)
{
    static const bg_strategy strategies[] = {BG_STRATEGY_SHARDED, BG_STRATEGY_PIPELINED, BG_STRATEGY_PHASED};

    (void)state;
    for (bg_precision precision = BG_PRECISION_BF16_MIXED; precision <= BG_PRECISION_16_TRUE; precision++)
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            bg_options options = bg_options_defaults();
            outcome wanted, got;

            options.numerics.precision = precision;
            options.execution.strategy = BG_STRATEGY_SINGLE;
            options.replicas.count = replicas;
            options.execution.gradient_accumulation = 4 / replicas;
            wanted = train(4, BG_DTYPE_NONE, BG_DTYPE_NONE, options);
            for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
                options.execution.strategy = strategies[s];
                options.memory.recompute = s == 1 ? BG_RECOMPUTE_STAGE : BG_RECOMPUTE_NONE;
                got = train(4, BG_DTYPE_NONE, BG_DTYPE_NONE, options);
                assert_memory_equal(got.weights, wanted.weights, sizeof got.weights);
            }
        }
}

/* Inputs and outputs stay float32, but parameters become 16-bit. */
static void test_inference(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, FEATURES);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_session *session;
    bg_stream stream;
    bg_weight weight;
    bg_graph *graph;
    bg_plan *plan;

    (void)state;
    require(bg_graph_create(&graph, &error), &error);
    bg_graph_output(graph, "y", bg_linear_layer(graph, "fc", bg_graph_input(graph, "x", &type), 3, true));
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.numerics.initialize_missing = true;
    require(bg_options_set(&options, "precision", "bf16-true", &error), &error);
    assert_int_equal(options.numerics.precision, BG_PRECISION_BF16_TRUE);
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    require(bg_session_input(session, 0, &stream, &error), &error);
    assert_int_equal(stream.micro_batch_type.dtype, BG_FLOAT32);
    require(bg_session_output(session, 0, &stream, &error), &error);
    assert_int_equal(stream.micro_batch_type.dtype, BG_FLOAT32);
    require(bg_weights_find(bg_session_weights(session), "fc.weight", &weight, &error), &error);
    assert_int_equal(weight.type.dtype, BG_BFLOAT16);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    options.numerics.precision = (bg_precision)9;
    assert_int_equal(bg_plan_create_inference(graph, &options, &plan, &error), BG_ERROR_INVALID);
    bg_graph_destroy(graph);
}

/* A trainer's tasks share weights. Tasks without separate options have the precision of the fit. */
static void test_tasks_have_one_precision(void **state)
{
    bg_ipu_strategy strategy = bg_ipu_strategy_defaults();
    bg_options options = bg_options_defaults(), made;
    bg_error error = {0};

    (void)state;
    options.numerics.precision = BG_PRECISION_BF16_TRUE;
    strategy.training_options = &options;
    require(bg_ipu_strategy_options(&strategy, false, 1, &made, &error), &error);
    assert_int_equal(made.numerics.precision, BG_PRECISION_BF16_TRUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_the_model_in_16_bits),       cmocka_unit_test(test_types_and_scales),
        cmocka_unit_test(test_every_strategy_has_the_same_bits), cmocka_unit_test(test_inference),
        cmocka_unit_test(test_tasks_have_one_precision),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
