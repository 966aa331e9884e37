#!/usr/bin/env python3
"""mlp.py: mlp.c in Python: the same model on the same data, with the same bits. An argument is a strategy, `single` (the
default), `pipelined` or `phased`.

    python3 mlp.py pipelined
"""
import sys

import brigade as bg
import numpy as np

FEATURES, WIDTH, SAMPLES, MICRO_BATCH, MICRO_BATCHES, UPDATES = 8, 32, 256, 16, 4, 200


def draw(stream, index):
    """A number in [-1, 1) for each pair of arguments."""
    x = (stream * 0x9E3779B9 & 0xFFFFFFFF) ^ index
    x = (x ^ x >> 16) * 0x7FEB352D & 0xFFFFFFFF
    x = (x ^ x >> 15) * 0x846CA68B & 0xFFFFFFFF
    x ^= x >> 16
    return (x >> 8) / 8388608.0 - 1.0


def build(graph):
    x = graph.input("x", "float32", (MICRO_BATCH, FEATURES))
    y = graph.input("y", "float32", (MICRO_BATCH, 1))
    graph.block("first")
    x = graph.tanh(graph.linear_layer("fc1", x, WIDTH, bias=True))
    graph.block("second")
    x = graph.tanh(graph.linear_layer("fc2", x, WIDTH, bias=True))
    graph.block("third")
    loss = graph.mse_loss("mse", graph.linear_layer("fc3", x, 1, bias=True), y, "mean")
    graph.output("loss", loss)
    return loss


def hash_weights(weights):
    """Hashes all parameters; the result does not depend on their order."""
    total = 0
    for name in weights.parameters():
        value = 0xCBF29CE484222325
        for byte in name.encode() + weights[name].tobytes():
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        total += value
    return total & 0xFFFFFFFFFFFFFFFF


def main(strategy="single"):
    x = np.array([[draw(s, i) for i in range(FEATURES)] for s in range(SAMPLES)], np.float32)
    wide = x.astype(np.float64)
    y = (wide[:, 0] * wide[:, 1] + (wide[:, 2] - wide[:, 3]) / 2).astype(np.float32)[:, None]

    graph = bg.Graph()
    loss = build(graph)
    options = bg.Options(strategy=strategy, gradient_accumulation=MICRO_BATCHES, canonical_reductions=True, output_mode="all")
    session = bg.Session.training(graph, loss, bg.sgd(0.1, momentum=0.9), options)
    batch, losses = MICRO_BATCH * MICRO_BATCHES, []
    for update in range(UPDATES):
        at = update * batch % SAMPLES
        losses.append(session.run(x=x[at:at + batch], y=y[at:at + batch])["loss"].mean())
    print(f"mlp: loss {losses[0]:.4f}, after {UPDATES} updates {losses[-1]:.4f}; weights {hash_weights(session.weights):016x}")


if __name__ == "__main__":
    main(*sys.argv[1:])
