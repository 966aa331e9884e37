/* replicas.c: trains the same global batch on one, two and four replicas, which average their gradients. All replicas
 * then have the same weights, which equal those of one replica up to rounding.
 *     cc replicas.c $(pkg-config --cflags --libs brigade) -lm -o replicas && ./replicas */
#include <brigade.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, STEPS = 20, FEATURES = 8 };

static bg_error error;
static void check(bg_status status)
{
    if (status != BG_OK) {
        fprintf(stderr, "replicas: %s\n", error.message);
        exit(1);
    }
}

/* Trains on global batches of 32 samples, in micro-batches of 32 / replicas. Fills in the weights and returns the mean
 * of the replicas' last losses. */
static double train(uint32_t replicas, const bg_dataset *data, float weights[FEATURES])
{
    const int64_t micro_batch = BATCH / replicas;
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, FEATURES), y_type = bg_matrix(BG_FLOAT32, micro_batch, 1);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_infeed_options infeed_options = bg_infeed_options_defaults();
    bg_options options = bg_options_defaults();
    bg_graph *g;
    bg_plan *plan;
    bg_session *session;
    bg_infeed *infeed;
    bg_weight weight;
    float losses[4];
    double mean = 0;

    check(bg_graph_create(&g, &error));
    const bg_value x = bg_graph_input(g, "x", &x_type), y = bg_graph_input(g, "y", &y_type);
    const bg_value loss = bg_mse_loss(g, "loss", bg_linear_layer(g, "line", x, 1, false), y, BG_LOSS_MEAN);
    bg_graph_output(g, "loss", loss);
    options.execution.strategy = BG_STRATEGY_SINGLE, options.replicas.count = replicas,
    options.execution.device_iterations = STEPS;
    check(bg_plan_create_training(g, loss, &optimizer, &options, &plan, &error));
    check(bg_session_create(plan, NULL, &session, &error));
    infeed_options.repeat = true;
    check(bg_infeed_create_dataset(data, &infeed_options, &infeed, &error));
    check(bg_infeed_start(infeed, session, &error));
    check(bg_session_run_infeed(session, infeed, (void *[]){losses}, &error));
    check(bg_weights_find(bg_session_weights(session), "line.weight", &weight, &error));
    memcpy(weights, weight.data, FEATURES * sizeof *weights);
    for (uint32_t r = 0; r < replicas; r++)
        mean += losses[r] / replicas;
    bg_session_destroy(session), bg_infeed_destroy(infeed), bg_plan_destroy(plan), bg_graph_destroy(g);
    return mean;
}

int main(void)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 640, FEATURES), y_type = bg_matrix(BG_FLOAT32, 640, 1);
    float weights[5][FEATURES];
    bg_array arrays[2];
    bg_dataset *data;

    check(bg_array_init(&arrays[0], &x_type, &error));
    check(bg_array_init(&arrays[1], &y_type, &error));
    for (uint32_t s = 0; s < 640; s++)
        for (uint32_t f = 0; f < FEATURES; f++) {
            const float value = (float)((s * 37 + f * 101) % 64) / 32 - 1;
            ((float *)arrays[0].data)[s * FEATURES + f] = value;
            ((float *)arrays[1].data)[s] += value * (float)(f + 1) / 4;
        }
    check(bg_dataset_create_arrays(arrays, 2, &data, &error));
    for (uint32_t replicas = 1; replicas <= 4; replicas *= 2) {
        const double loss = train(replicas, data, weights[replicas]);
        double most = 0;
        for (int f = 0; f < FEATURES; f++)
            most = fmax(most, fabs((double)weights[replicas][f] - (double)weights[1][f]));
        printf("%u replicas: loss %.4f, weights %s those of one\n", replicas, loss, most < 1e-5 ? "are" : "are not");
    }
    bg_dataset_destroy(data), bg_array_clear(&arrays[0]), bg_array_clear(&arrays[1]);
    return 0;
}
