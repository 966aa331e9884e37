#!/usr/bin/env python3
"""Makes convnet.txt: PyTorch's loss of each of 30 weight updates of the digit network.

    tests/oracle/convnet.py PROGRAM [MNIST_FOLDER] > tests/oracle/convnet.txt

The run has micro-batches of 40 in file order, 10 per weight update, AdamW 0.001 and float32. It starts from Brigade's
initial weights (seed 0), which PROGRAM writes. The images are PROGRAM's generated digits (seed 5) and, with a folder,
MNIST.
"""
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F

UPDATES, ACCUMULATION, MICRO_BATCH = 30, 10, 40
NAMES = [f"{layer}.{kind}" for layer in ("layer1.conv", "layer2.conv", "layer3", "layer4") for kind in ("weight", "bias")]


def read_safetensors(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name in NAMES:
        begin, end = header[name]["data_offsets"]
        values = numpy.frombuffer(data[8 + length + begin : 8 + length + end], dtype="<f4")
        tensors[name] = torch.from_numpy(values.reshape(header[name]["shape"]).copy()).requires_grad_()
    return tensors


def read_idx(folder, name, skip):
    for path in (os.path.join(folder, name), os.path.join(folder, name + ".gz")):
        if os.path.exists(path):
            raw = gzip.open(path).read() if path.endswith(".gz") else open(path, "rb").read()
            return numpy.frombuffer(raw, dtype=numpy.uint8)[skip:]
    raise SystemExit(f"{folder} has no {name}")


def network(w, x):
    x = F.relu(F.max_pool2d(F.conv2d(x, w["layer1.conv.weight"], w["layer1.conv.bias"]), 2))
    x = F.relu(F.max_pool2d(F.conv2d(x, w["layer2.conv.weight"], w["layer2.conv.bias"]), 2))
    x = F.relu(F.linear(x.flatten(1), w["layer3.weight"], w["layer3.bias"]))
    return F.linear(x, w["layer4.weight"], w["layer4.bias"])


def losses(folder, weights_path):
    count = UPDATES * ACCUMULATION * MICRO_BATCH
    images = read_idx(folder, "train-images-idx3-ubyte", 16)[: count * 784].reshape(count, 1, 28, 28)
    labels = torch.from_numpy(read_idx(folder, "train-labels-idx1-ubyte", 8)[:count].astype(numpy.int64))
    x = (torch.from_numpy(images.copy()).float() / 255 - 0.1307) / 0.3081
    w = read_safetensors(weights_path)
    optimizer = torch.optim.AdamW(list(w.values()), lr=0.001)
    result = []
    for update in range(UPDATES):
        optimizer.zero_grad()
        total = 0.0
        for micro_batch in range(ACCUMULATION):
            begin = (update * ACCUMULATION + micro_batch) * MICRO_BATCH
            loss = F.cross_entropy(network(w, x[begin : begin + MICRO_BATCH]), labels[begin : begin + MICRO_BATCH])
            (loss / ACCUMULATION).backward()
            total += loss.item() / ACCUMULATION
        optimizer.step()
        result.append(total)
    return result


def main():
    program = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "first.safetensors")
        count = str(UPDATES * ACCUMULATION * MICRO_BATCH)
        subprocess.run([program, "data", "digits", "--dir", folder, "--count", count, "--test-count", "800", "--seed", "5"],
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run([program, "mnist", "--data-dir", folder, "--epochs", "0", "--save", weights], check=True,
                       stdout=subprocess.DEVNULL)
        cases = [("digits", folder)] + [("mnist", path) for path in sys.argv[2:3]]
        for name, path in cases:
            values = losses(path, weights)
            print(name, "loss", f"[{len(values)}]", *(f"{v:.9g}" for v in values))


main()
