/*
 * first_model.c: a network of two layers learns a curve from 64 of its points, and then computes other points.
 * docs/tutorial/01-first-model.md explains the program.
 */
#include <brigade.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 64, QUESTIONS = 4, UPDATES = 600 };

static bg_error error;

static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "first_model: %s\n", error.message);
    exit(1);
}

/* Adds the network to a graph: x [points, 1] -> y [points, 1]. */
static bg_value add_network(bg_graph *graph, bg_value x)
{
    const bg_value hidden = bg_tanh(graph, bg_linear_layer(graph, "fc1", x, 32, true));

    return bg_linear_layer(graph, "fc2", hidden, 1, true);
}

/* Creates a session that trains the network on batches of POINTS points. */
static bg_session *create_training(void)
{
    const bg_type points = bg_matrix(BG_FLOAT32, POINTS, 1);
    const bg_optimizer adam = bg_adam(0.01);
    bg_graph *graph;
    bg_session *session;

    check(bg_graph_create(&graph, &error));
    const bg_value y = add_network(graph, bg_graph_input(graph, "x", &points));
    const bg_value loss = bg_mse_loss(graph, "loss", y, bg_graph_input(graph, "target", &points), BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    check(bg_session_create_training(graph, loss, &adam, NULL, NULL, &session, &error));
    bg_graph_destroy(graph);
    return session;
}

/* Creates a session that computes the network for QUESTIONS points with these weights. */
static bg_session *create_inference(bg_weights *weights)
{
    const bg_type questions = bg_matrix(BG_FLOAT32, QUESTIONS, 1);
    bg_graph *graph;
    bg_session *session;

    check(bg_graph_create(&graph, &error));
    bg_graph_output(graph, "y", add_network(graph, bg_graph_input(graph, "x", &questions)));
    check(bg_session_create_inference(graph, NULL, weights, &session, &error));
    bg_graph_destroy(graph);
    return session;
}

int main(void)
{
    float x[POINTS], target[POINTS], loss;

    for (int i = 0; i < POINTS; i++) {
        x[i] = -1 + 2.0f * (float)i / (POINTS - 1);
        target[i] = sinf(3 * x[i]);
    }

    bg_session *training = create_training();
    for (int update = 1; update <= UPDATES; update++) {
        check(bg_session_run(training, (const void *[]){x, target}, (void *[]){&loss}, &error));
        if (update == 1 || update % 200 == 0)
            printf("update %3d: loss %.5f\n", update, loss);
    }

    const float questions[QUESTIONS] = {-0.9f, -0.4f, 0.25f, 0.7f};
    float answers[QUESTIONS];
    bg_session *inference = create_inference(bg_session_weights(training));
    check(bg_session_run(inference, (const void *[]){questions}, (void *[]){answers}, &error));
    for (int i = 0; i < QUESTIONS; i++)
        printf("x %5.2f: the network says %.2f, the curve is at %.2f\n", questions[i], answers[i],
               sinf(3 * questions[i]));

    bg_session_destroy(inference);
    bg_session_destroy(training);
    return 0;
}
