/*
 * trainer_rig.c: the network, its samples, and training without a trainer.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/trainer_rig.h"

#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>
#include <brigade/ops.h>
#include <brigade/session.h>

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static void start_block(bg_graph *graph, const test_net *net, uint32_t block)
{
    static const char *const names[] = {"B1", "B2", "B3", "B4"};
    const uint32_t device = net->device_count == 0 ? BG_DEVICE_NONE : block * net->device_count / 4;

    bg_block_start(graph, names[block], device);
}

bg_value test_net_model(void *user, bg_graph *graph, bg_trainer_task stage, int64_t micro_batch)
{
    const test_net *net = user;
    const bg_type x_type =
                      bg_matrix(net->dtype != BG_DTYPE_NONE ? net->dtype : BG_FLOAT32, micro_batch, TEST_NET_FEATURES),
                  label_type = bg_vector(BG_UINT8, micro_batch),
                  shift_type = bg_matrix(BG_FLOAT32, micro_batch, TEST_NET_HIDDEN);
    bg_value x, shift = {0}, labels, logits, loss;

    if (net->has_mesh)
        bg_graph_set_mesh(graph, &(bg_mesh){1, 2, 1});
    x = bg_graph_input(graph, "x", &x_type);
    start_block(graph, net, 0);
    if (net->dtype != BG_DTYPE_NONE)
        x = bg_cast(graph, NULL, x, BG_FLOAT32);
    x = bg_linear_layer(graph, "first", x, TEST_NET_HIDDEN, true);
    if (net->has_shift) {
        shift = bg_graph_input(graph, "shift", &shift_type);
        x = bg_add(graph, x, shift);
        if (stage == BG_TRAINER_FIT)
            bg_graph_output(graph, "shift", bg_scale(graph, NULL, shift, 1.0, 0.0));
    }
    start_block(graph, net, 1);
    x = bg_relu(graph, x);
    if (net->has_dropout && stage == BG_TRAINER_FIT)
        x = bg_dropout(graph, "dropout", x, 0.25);
    start_block(graph, net, 2);
    x = bg_relu(graph, bg_linear_layer(graph, "second", x, TEST_NET_HIDDEN, true));
    start_block(graph, net, 3);
    logits = bg_linear_layer(graph, "third", x, TEST_NET_CLASSES, true);
    if (stage == BG_TRAINER_TEST || stage == BG_TRAINER_PREDICT)
        bg_graph_output(graph, "logits", logits);
    if (net->fails[stage])
        bg_graph_fail(graph, BG_ERROR_SHAPE, "this model is broken");
    if (stage == BG_TRAINER_PREDICT) {
        bg_graph_output(graph, "number", bg_scale(graph, NULL, logits, 0.0, 4.0));
        return (bg_value){0};
    }
    labels = bg_graph_input(graph, "labels", &label_type);
    loss = bg_cross_entropy(graph, "loss", logits, labels, BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", loss);
    if (stage != BG_TRAINER_FIT)
        bg_graph_output(graph, "correct", bg_correct_count(graph, "correct", logits, labels));
    bg_graph_output(graph, "number", bg_scale(graph, NULL, loss, 0.0, 1.0 + (double)stage));
    return loss;
}

void test_net_samples_make(test_net_samples *samples, uint64_t count)
{
    const bg_type types[2] = {bg_matrix(BG_FLOAT32, (int64_t)count, TEST_NET_FEATURES),
                              bg_vector(BG_UINT8, (int64_t)count)};
    uint32_t state = 12345;
    bg_error error = {0};

    for (int t = 0; t < 2; t++)
        require(bg_array_init(&samples->arrays[t], &types[t], &error), &error);
    for (uint64_t i = 0; i < count * TEST_NET_FEATURES; i++) {
        state = state * 1664525u + 1013904223u;
        ((float *)samples->arrays[0].data)[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    for (uint64_t i = 0; i < count; i++)
        ((uint8_t *)samples->arrays[1].data)[i] = (uint8_t)((i * i + i / 3) % TEST_NET_CLASSES);
    require(bg_dataset_create_arrays(samples->arrays, 2, &samples->dataset, &error), &error);
}

void test_net_samples_clear(test_net_samples *samples)
{
    bg_dataset_destroy(samples->dataset);
    for (int t = 0; t < 2; t++)
        bg_array_clear(&samples->arrays[t]);
    samples->dataset = NULL;
}

float test_net_train(const test_net *net, const bg_options *options, const bg_optimizer *optimizer, int64_t micro_batch,
                     bg_weights *weights, const void *const *inputs)
{
    void *outputs[8] = {0};
    bg_session *session;
    bg_stream stream;
    bg_graph *graph;
    bg_error error = {0};
    bg_plan *plan;
    uint32_t loss;
    float result;

    require(bg_graph_create(&graph, &error), &error);
    require(bg_plan_create_training(graph, test_net_model((void *)net, graph, BG_TRAINER_FIT, micro_batch), optimizer,
                                    options, &plan, &error),
            &error);
    require(bg_session_create(plan, weights, &session, &error), &error);
    loss = bg_session_find_output(session, "loss");
    require(bg_session_output(session, loss, &stream, &error), &error);
    outputs[loss] = calloc(1, stream.size_bytes);
    assert_non_null(outputs[loss]);
    require(bg_session_run(session, inputs, outputs, &error), &error);
    result = ((const float *)outputs[loss])[stream.count - 1];
    free(outputs[loss]);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return result;
}

void test_weights_expect(bg_weights *found, bg_weights *expected)
{
    bg_error error = {0};

    assert_true(bg_weights_count(expected) > 0);
    assert_int_equal(bg_weights_count(found), bg_weights_count(expected));
    for (uint32_t i = 0; i < bg_weights_count(expected); i++) {
        bg_weight one, other;
        require(bg_weights_at(expected, i, &one, &error), &error);
        require(bg_weights_find(found, one.name, &other, &error), &error);
        assert_true(bg_type_equal(&one.type, &other.type));
        if (memcmp(one.data, other.data, bg_type_size_bytes(&one.type)) != 0)
            fail_msg("`%s` differs", one.name);
    }
}
