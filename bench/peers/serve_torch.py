#!/usr/bin/env python3
"""Measures calls of the digit network with one image, and of one op, in PyTorch, in microseconds, for bench/serve.sh.

It uses one thread and inference mode, with and without a frozen TorchScript trace; the faster one counts. It prints CSV
lines like bench/serve.c: what,1,value,unit.

usage: serve_torch.py [SECONDS]
"""
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.fc1 = nn.Linear(320, 256)
        self.fc2 = nn.Linear(256, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc2(x)


def times(function, x, seconds):
    """Returns the seconds of each call."""
    found = []
    for _ in range(200):
        function(x)
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        function(x)
        found.append(time.perf_counter() - start)
    found.sort()
    return found


def report(what, model, x, seconds):
    traced = torch.jit.freeze(torch.jit.trace(model.eval(), x)) if isinstance(model, nn.Module) else model
    best = min((times(f, x, seconds) for f in (model, traced)), key=lambda found: found[len(found) // 2])
    print(f"{what},1,{1e6 * best[len(best) // 2]:.2f},us median")
    print(f"{what},1,{1e6 * best[len(best) * 99 // 100]:.2f},us 99th percentile")


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    torch.set_num_threads(1)
    with torch.inference_mode():
        report("one op", torch.relu, torch.ones(64), seconds)
        report("digit", Network().eval(), torch.ones(1, 1, 28, 28), seconds)


main()
