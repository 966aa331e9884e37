#!/usr/bin/env python3
"""Measures the digit network in PyTorch, in images per second, for bench/mnist.sh.

The network, the loss and the optimizer are those of `brigade mnist`. PyTorch has an easier task: the images are float32 and
already standardized, batches are slices of memory in order, and there is no data loader. Prints CSV:
mode,threads,batch,accumulation,images_per_s (the best of several rounds).

usage: mnist_torch.py [--threads 1,2] [--seconds 2] [--rounds 3]
"""
import argparse
import sys
import time

try:
    import torch
    from torch import nn
    import torch.nn.functional as F
except ImportError as cause:
    sys.exit(f"mnist_torch.py: PyTorch cannot be imported ({cause}); on Debian: apt-get install python3-torch")

IMAGES = 4000


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


def rate(work, batch, seconds, rounds):
    """Returns the images per second of the best round; `work(i)` processes batch i."""
    count, best = IMAGES // batch, 0.0
    for i in range(count):  # warm-up: allocator, choice of kernels
        work(i)
    for _ in range(rounds):
        done, start, elapsed = 0, time.perf_counter(), 0.0
        while elapsed < seconds / rounds:
            for i in range(done, done + 10):
                work(i % count)
            done += 10
            elapsed = time.perf_counter() - start
        best = max(best, done * batch / elapsed)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2", help="comma-separated thread counts")
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time of each row")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    torch.manual_seed(0)
    images = torch.randn(IMAGES, 1, 28, 28)
    labels = torch.randint(0, 10, (IMAGES,))
    print(f"# torch {torch.__version__}")
    print("mode,threads,batch,accumulation,images_per_s")
    for threads in (int(t) for t in options.threads.split(",")):
        torch.set_num_threads(threads)
        for batch, accumulation in ((40, 1), (40, 10), (400, 1)):
            model = Network()
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)

            def train(i):
                x, y = images[i * batch:(i + 1) * batch], labels[i * batch:(i + 1) * batch]
                loss = F.cross_entropy(model(x), y) / accumulation
                loss.backward()
                if (i + 1) % accumulation == 0:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)

            result = rate(train, batch, options.seconds, options.rounds)
            print(f"training,{threads},{batch},{accumulation},{result:.0f}", flush=True)
        for batch in (40, 400):
            model = Network().eval()

            def infer(i):
                with torch.no_grad():
                    model(images[i * batch:(i + 1) * batch]).argmax(1)

            result = rate(infer, batch, options.seconds, options.rounds)
            print(f"inference,{threads},{batch},1,{result:.0f}", flush=True)


if __name__ == "__main__":
    main()
