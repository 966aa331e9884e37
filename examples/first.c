/*
 * first.c: shows a first program. A network of two layers learns exclusive or and conjunction, as a pipeline of two
 * stages: each block is a stage on a separate device.
 */
#include <brigade.h>
#include <stdio.h>

int main(void)
{
    const float x[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}}, y[4][2] = {{0, 0}, {1, 0}, {1, 0}, {0, 1}};
    const bg_type pairs = bg_matrix(BG_FLOAT32, 4, 2);
    const bg_optimizer adam = bg_adam(0.05);
    bg_graph *graph;
    bg_session *session;
    bg_error error;
    float loss[101];

    bg_graph_create(&graph, &error);
    bg_block_start(graph, "first", BG_DEVICE_NONE); /* each block is a stage on a separate device */
    bg_value hidden = bg_tanh(graph, bg_linear_layer(graph, "fc1", bg_graph_input(graph, "x", &pairs), 8, true));
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    bg_value guess = bg_linear_layer(graph, "fc2", hidden, 2, true);
    bg_value mse = bg_mse_loss(graph, "mse", guess, bg_graph_input(graph, "y", &pairs), BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", mse);
    if (bg_session_create_training(graph, mse, &adam, NULL, NULL, &session, &error) != BG_OK)
        return puts(error.message);
    for (int step = 0; step <= 100; step++)
        bg_session_run(session, (const void *[]){x, y}, (void *[]){&loss[step]}, &error);
    printf("%u devices: loss %.4f, ", bg_plan_summarize(bg_session_plan(session)).device_count, loss[0]);
    printf("after 50 updates %.4f, after 100 %.6f\n", loss[50], loss[100]);
    bg_session_destroy(session);
    bg_graph_destroy(graph);
}
