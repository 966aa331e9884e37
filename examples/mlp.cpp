/*
 * mlp.cpp: mlp.c in C++: the same model on the same data, with the same bits. An argument is a strategy, `single` (the
 * default), `pipelined` or `phased`.
 *     c++ -std=c++11 mlp.cpp $(pkg-config --cflags --libs brigade) -o mlp && ./mlp pipelined
 */
#include <brigade/brigade.hpp>

#include <cinttypes>
#include <cstdio>
#include <vector>

namespace
{

constexpr int64_t FEATURES = 8, WIDTH = 32, SAMPLES = 256, MICRO_BATCH = 16, UPDATES = 200;
constexpr int MICRO_BATCHES = 4;

bg_value build(brigade::graph &graph)
{
    bg_value x = graph.input("x", BG_FLOAT32, {MICRO_BATCH, FEATURES});
    const bg_value y = graph.input("y", BG_FLOAT32, {MICRO_BATCH, 1});

    graph.block("first");
    x = bg_tanh(graph, bg_linear_layer(graph, "fc1", x, WIDTH, true));
    graph.block("second");
    x = bg_tanh(graph, bg_linear_layer(graph, "fc2", x, WIDTH, true));
    graph.block("third");
    const bg_value loss = bg_mse_loss(graph, "mse", bg_linear_layer(graph, "fc3", x, 1, true), y, BG_LOSS_MEAN);
    graph.output("loss", loss);
    return loss;
}

/* Returns a number in [-1, 1) for each pair of arguments. */
double draw(uint32_t stream, uint32_t index)
{
    uint32_t x = stream * 0x9e3779b9u ^ index;

    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x ^= x >> 16;
    return static_cast<double>(x >> 8) / 8388608.0 - 1.0;
}

/* Hashes all parameters; the result does not depend on their order. */
uint64_t hash_weights(bg_weights *weights)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        uint64_t hash = 0xcbf29ce484222325u;

        brigade::call(bg_weights_at, weights, i, &weight);
        for (const char *c = weight.name; *c != '\0'; c++)
            hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3u;
        for (size_t b = 0; b < bg_type_size_bytes(&weight.type); b++)
            hash = (hash ^ static_cast<const unsigned char *>(weight.data)[b]) * 0x100000001b3u;
        all += weight.role == BG_ROLE_PARAMETER ? hash : 0;
    }
    return all;
}

void train(const char *strategy)
{
    std::vector<float> x(SAMPLES * FEATURES), y(SAMPLES), losses;
    brigade::graph graph;
    const bg_value loss = build(graph);
    bg_optimizer optimizer = bg_sgd(0.1);
    brigade::options options;
    double first = 0, last = 0;

    for (uint32_t s = 0; s < SAMPLES; s++) {
        float *const sample = &x[s * FEATURES];

        for (uint32_t i = 0; i < FEATURES; i++)
            sample[i] = static_cast<float>(draw(s, i));
        y[s] = static_cast<float>(static_cast<double>(sample[0]) * sample[1] +
                                  (static_cast<double>(sample[2]) - sample[3]) / 2);
    }
    optimizer.momentum = 0.9;
    options.set("strategy", strategy).set("gradient_accumulation", MICRO_BATCHES);
    options.set("canonical_reductions", true).set("output_mode", "all");

    brigade::session session = brigade::session::training(graph, loss, optimizer, options);
    const int64_t batch = MICRO_BATCH * MICRO_BATCHES;
    for (int64_t update = 0; update < UPDATES; update++) {
        const int64_t at = update * batch % SAMPLES;

        session.run({{"x", &x[at * FEATURES], batch * FEATURES}, {"y", &y[at], batch}}, {{"loss", losses}});
        last = 0;
        for (const float each : losses)
            last += each / MICRO_BATCHES;
        first = update == 0 ? last : first;
    }
    std::printf("mlp: loss %.4f, after %d updates %.4f; weights %016" PRIx64 "\n", first, static_cast<int>(UPDATES),
                last, hash_weights(session.weights()));
}

} // namespace

int main(int argc, char **argv)
{
    try {
        train(argc > 1 ? argv[1] : "single");
        return 0;
    } catch (const brigade::error &failure) {
        std::fprintf(stderr, "mlp: %s\n", failure.what());
        return 1;
    }
}
