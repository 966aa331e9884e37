/*
 * serving.c: one thread trains a model and publishes its weights, while two other threads serve requests with it.
 * docs/tutorial/09-serving.md explains the program.
 */
#include <brigade.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 64, UPDATES = 400, PUBLISH_EVERY = 100, SERVERS = 2, REQUESTS = 200, MOST_SAMPLES = 8 };

static bg_error error; /* used by the main thread */

static void check(bg_status status, const bg_error *cause)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "serving: %s\n", cause->message);
    exit(1);
}

static bg_value add_network(bg_graph *graph, bg_value x)
{
    return bg_linear_layer(graph, "fc2", bg_tanh(graph, bg_linear_layer(graph, "fc1", x, 32, true)), 1, true);
}

/* Adds the model for a batch of this size; bg_batches calls this once for each size that is requested. */
static void add_model(void *user, bg_graph *graph, int64_t samples)
{
    const bg_type batch = bg_matrix(BG_FLOAT32, samples, 1);

    (void)user;
    bg_graph_output(graph, "y", add_network(graph, bg_graph_input(graph, "x", &batch)));
}

/* ---- the servers ---- */

typedef struct server {
    pthread_t thread;
    bg_weights *weights;
    uint64_t samples;
} server;

/* Serves requests of 1 to MOST_SAMPLES samples. Each thread has its own bg_batches. */
static void *serve(void *argument)
{
    server *self = argument;
    bg_error own_error;
    bg_batches *batches;

    check(bg_batches_create(add_model, NULL, MOST_SAMPLES, NULL, self->weights, &batches, &own_error), &own_error);
    for (int request = 0; request < REQUESTS; request++) {
        float x[MOST_SAMPLES], y[MOST_SAMPLES];
        const int64_t samples = 1 + request % MOST_SAMPLES;

        for (int64_t i = 0; i < samples; i++)
            x[i] = (float)((request * 31 + i * 17) % 100) / 50 - 1;
        check(bg_batches_run(batches, samples, (const void *[]){x}, (void *[]){y}, &own_error), &own_error);
        self->samples += (uint64_t)samples;
    }
    bg_batches_destroy(batches);
    return NULL;
}

/* ---- the training ---- */

static bg_session *create_training(void)
{
    const bg_type points = bg_matrix(BG_FLOAT32, POINTS, 1);
    const bg_optimizer adam = bg_adam(0.01);
    bg_graph *graph;
    bg_session *session;

    check(bg_graph_create(&graph, &error), &error);
    const bg_value y = add_network(graph, bg_graph_input(graph, "x", &points));
    const bg_value loss = bg_mse_loss(graph, "loss", y, bg_graph_input(graph, "target", &points), BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    check(bg_session_create_training(graph, loss, &adam, NULL, NULL, &session, &error), &error);
    bg_graph_destroy(graph);
    return session;
}

/* Evaluates one point of the curve with the newest published weights. */
static void ask(bg_batches *batches, uint64_t version)
{
    const float x = 0.25f;
    float y;

    check(bg_batches_run(batches, 1, (const void *[]){&x}, (void *[]){&y}, &error), &error);
    printf("version %d says %.2f\n", (int)version, y);
}

int main(void)
{
    float x[POINTS], target[POINTS], loss;
    server servers[SERVERS] = {0};
    uint64_t version, answered = 0;
    bg_batches *batches;

    for (int i = 0; i < POINTS; i++) {
        x[i] = -1 + 2.0f * (float)i / (POINTS - 1);
        target[i] = sinf(3 * x[i]);
    }
    bg_session *training = create_training();
    bg_weights *weights = bg_session_weights(training);
    check(bg_weights_publish(weights, &version, &error), &error);
    check(bg_batches_create(add_model, NULL, 1, NULL, weights, &batches, &error), &error);
    ask(batches, version);

    for (int i = 0; i < SERVERS; i++) {
        servers[i].weights = weights;
        if (pthread_create(&servers[i].thread, NULL, serve, &servers[i]) != 0)
            return 1;
    }
    for (int update = 1; update <= UPDATES; update++) {
        check(bg_session_run(training, (const void *[]){x, target}, (void *[]){&loss}, &error), &error);
        if (update % PUBLISH_EVERY == 0) {
            check(bg_weights_publish(weights, &version, &error), &error);
            ask(batches, version);
        }
    }
    for (int i = 0; i < SERVERS; i++) {
        pthread_join(servers[i].thread, NULL);
        answered += servers[i].samples;
    }
    printf("meanwhile: %d samples answered by %d threads; the curve is at %.2f\n", (int)answered, SERVERS, sinf(0.75f));

    bg_batches_destroy(batches);
    bg_session_destroy(training);
    return 0;
}
