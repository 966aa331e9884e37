/*
 * test_sequences.c: a model trains with the same bits under every strategy, and its loss falls. It has attention with a
 * mask, a learned bias, shared keys and rotary positions, an LSTM of both directions, and a GRU.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 8, LENGTH = 5, FEATURES = 6, HEADS = 2, WIDTH = 8, STATE = 5, UPDATES = 12, MOST = 4096 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* Adds causal attention with one head of keys, a mask and a learned bias. */
static bg_value add_attention(bg_graph *graph, bg_value x, bg_value mask)
{
    const int64_t key_width = WIDTH / HEADS;
    const int64_t dims[] = {bg_graph_type(graph, mask).dims[0], 1, 1, LENGTH};
    const bg_type bias_type = bg_tensor3(BG_FLOAT32, HEADS, LENGTH, LENGTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.5};
    const bg_rotary_options turn = bg_rotary_defaults(HEADS), turn_keys = bg_rotary_defaults(1);
    bg_dot_product_attention_options options = bg_dot_product_attention_defaults(HEADS);
    const bg_value q = bg_rotary(graph, NULL, bg_linear_layer(graph, "q", x, WIDTH, true), (bg_value){0}, &turn);
    const bg_value k =
        bg_rotary(graph, NULL, bg_linear_layer(graph, "k", x, key_width, true), (bg_value){0}, &turn_keys);
    const bg_value v = bg_linear_layer(graph, "v", x, key_width, true);
    bg_value y;

    options.key_heads = 1;
    options.dropout = 0.2;
    mask = bg_reshape(graph, NULL, mask, 4, dims);
    y = bg_dot_product_attention(graph, "masked", q, k, v, mask, &options);
    options.causal = true;
    options.alibi = 8.0;
    return bg_add(graph, y,
                  bg_dot_product_attention(graph, "biased", q, k, v,
                                           bg_graph_parameter(graph, "bias", &bias_type, &normal), &options));
}

static bg_plan *make_plan(int64_t micro_batch, const bg_options *options)
{
    const bg_type x_type = bg_tensor3(BG_FLOAT32, micro_batch, LENGTH, FEATURES);
    const bg_type mask_type = bg_matrix(BG_UINT8, micro_batch, LENGTH),
                  wanted_type = bg_matrix(BG_FLOAT32, micro_batch, 2);
    bg_recurrent_options recurrent = bg_recurrent_defaults();
    const bg_optimizer optimizer = bg_adamw(0.03);
    bg_value x, mask, wanted, last;
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &x_type);
    mask = bg_graph_input(graph, "mask", &mask_type);
    wanted = bg_graph_input(graph, "wanted", &wanted_type);
    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = add_attention(graph, x, mask);
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    recurrent.batch_first = recurrent.bidirectional = true;
    x = bg_lstm_layer(graph, "lstm", x, STATE, &recurrent, (bg_value){0}, (bg_value){0}, NULL, NULL);
    bg_block_start(graph, "third", BG_DEVICE_NONE);
    recurrent.bidirectional = false;
    bg_gru_layer(graph, "gru", x, STATE, &recurrent, (bg_value){0}, &last);
    last =
        bg_linear_layer(graph, "out", bg_reshape(graph, NULL, last, 2, (const int64_t[]){micro_batch, STATE}), 2, true);
    last = bg_mse_loss(graph, "loss", last, wanted, BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", last);
    require(bg_plan_create_training(graph, last, &optimizer, options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

typedef struct trained {
    float weights[MOST];
    int64_t count;
    float losses[2]; /* losses of the last micro-batch, in the first and in the last update */
} trained;

static void train(uint32_t micro_batches, const bg_options *options, trained *out)
{
    bg_plan *plan = make_plan(SAMPLES / micro_batches, options);
    float x[SAMPLES * LENGTH * FEATURES], wanted[SAMPLES * 2], loss[16];
    uint8_t mask[SAMPLES * LENGTH];
    const void *inputs[] = {x, mask, wanted};
    bg_session *session;
    bg_error error = {0};

    *out = (trained){.count = 0};
    for (int i = 0; i < SAMPLES * LENGTH * FEATURES; i++)
        x[i] = sinf(0.37f * (float)(i * i % 101));
    for (int i = 0; i < SAMPLES * LENGTH; i++)
        mask[i] = i % LENGTH < LENGTH - i / LENGTH % 4;
    for (int i = 0; i < SAMPLES * 2; i++)
        wanted[i] = cosf((float)i);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (int update = 0; update < UPDATES; update++) {
        require(bg_session_run(session, inputs, (void *[]){loss}, &error), &error);
        out->losses[update > 0] = loss[0];
    }
    for (uint32_t i = 0; i < bg_weights_count(bg_session_weights(session)); i++) {
        bg_weight weight;

        require(bg_weights_at(bg_session_weights(session), i, &weight, &error), &error);
        if (weight.type.dtype != BG_FLOAT32)
            continue;
        assert_true(out->count + bg_type_element_count(&weight.type) <= MOST);
        memcpy(out->weights + out->count, weight.data, bg_type_size_bytes(&weight.type));
        out->count += bg_type_element_count(&weight.type);
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

static void test_every_strategy_has_the_same_bits(void **state)
{
    static const struct {
        bg_strategy strategy;
        const char *schedule;
        bg_recompute recompute;
        bool is_sharded;
    } ways[] = {{BG_STRATEGY_SHARDED, NULL, BG_RECOMPUTE_NONE, false},
                {BG_STRATEGY_PIPELINED, NULL, BG_RECOMPUTE_NONE, false},
                {BG_STRATEGY_PIPELINED, "gpipe", BG_RECOMPUTE_STAGE, false},
                {BG_STRATEGY_PIPELINED, "zb-h1", BG_RECOMPUTE_NONE, true},
                {BG_STRATEGY_PHASED, NULL, BG_RECOMPUTE_STAGE, true}};

    (void)state;
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        bg_options options = bg_options_defaults();
        trained wanted, got;

        options.execution.strategy = BG_STRATEGY_SINGLE;
        options.replicas.count = replicas;
        options.execution.gradient_accumulation = 4 / replicas;
        train(4, &options, &wanted);
        assert_true(wanted.count > 500);
        assert_true(wanted.losses[1] < wanted.losses[0]);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            options.execution.strategy = ways[w].strategy;
            options.execution.schedule = ways[w].schedule;
            options.memory.recompute = ways[w].recompute;
            options.memory.locations[BG_LOCATION_STATE].sharded = ways[w].is_sharded && replicas > 1;
            options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
            train(4, &options, &got);
            assert_int_equal(got.count, wanted.count);
            if (memcmp(got.weights, wanted.weights, (size_t)got.count * sizeof(float)) != 0)
                fail_msg("%u replicas, way %zu: other bits than a single device", replicas, w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_strategy_has_the_same_bits)};

    return cmocka_run_group_tests_name("parity/sequences", tests, NULL, NULL);
}
