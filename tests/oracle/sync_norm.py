#!/usr/bin/env python3
"""Makes sync_norm.txt: a network with two batch norms that PyTorch trains, with statistics over each whole micro-batch
of 4 samples.

    python3 tests/oracle/sync_norm.py > tests/oracle/sync_norm.txt

torch.nn.SyncBatchNorm computes the same for replicas that divide the micro-batch, but needs GPUs;
torch.nn.functional.batch_norm on the whole micro-batch does not. Two micro-batches are one update, whose loss is the
mean over its counted labels. The loss of the case `mean` is a mean over the logits' squares. The last lines are logits
in evaluation mode.
"""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.manual_seed(6)
SAMPLES, MICRO_BATCH, CHANNELS, SIDE, HIDDEN, CLASSES, UPDATES = 8, 4, 2, 3, 5, 4, 2
RATE, MOMENTUM, EPSILON, IGNORED = 0.25, 0.1, 1e-5, -100


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    print(f"{case} {name} [{dims}] " + " ".join("%.9g" % v for v in tensor.detach().flatten().tolist()))


def draw(*dims):
    return (torch.rand(*dims) * 2.0 - 1.0).float().double()


def forward(w, part, training):
    y = F.batch_norm(part, w["image.running_mean"], w["image.running_var"], w["image.weight"], w["image.bias"],
                     training, MOMENTUM, EPSILON)
    y = y.flatten(1) @ w["fc1.weight"].T
    y = F.batch_norm(y, w["vector.running_mean"], w["vector.running_var"], w["vector.weight"], w["vector.bias"],
                     training, MOMENTUM, EPSILON)
    return y.tanh() @ w["fc2.weight"].T


def train(case, is_counted):
    w = {name: value.clone() for name, value in start.items()}
    trained = [name for name in w if "running" not in name]
    for name in trained:
        w[name].requires_grad_(True)
    for _ in range(UPDATES):
        for at in range(0, SAMPLES, MICRO_BATCH):
            logits = forward(w, x[at:at + MICRO_BATCH], True)
            if is_counted:
                loss = F.cross_entropy(logits, labels[at:at + MICRO_BATCH], reduction="sum", ignore_index=IGNORED)
                (loss / (labels != IGNORED).sum()).backward()
            else:
                ((logits * logits).mean() * MICRO_BATCH / SAMPLES).backward()
        for name in trained:
            w[name].data -= RATE * w[name].grad
            w[name].grad = None
    for name, value in w.items():
        emit(case, name, value)
    emit(case, "logits", forward(w, x, False))


x = draw(SAMPLES, CHANNELS, SIDE, SIDE) + 0.5
labels = torch.tensor([-100, 3, -100, -100, 1, 0, 2, -100])
start = {"image.weight": draw(CHANNELS) + 1.5, "image.bias": draw(CHANNELS),
         "image.running_mean": draw(CHANNELS), "image.running_var": draw(CHANNELS) + 1.5,
         "fc1.weight": draw(HIDDEN, CHANNELS * SIDE * SIDE),
         "vector.weight": draw(HIDDEN) + 1.5, "vector.bias": draw(HIDDEN),
         "vector.running_mean": draw(HIDDEN), "vector.running_var": draw(HIDDEN) + 1.5,
         "fc2.weight": draw(CLASSES, HIDDEN)}
print("# made by tests/oracle/sync_norm.py with PyTorch %s." % torch.__version__.split("+")[0])
emit("start", "x", x)
emit("start", "labels", labels)
for name, value in start.items():
    emit("start", name, value)
train("counted", True)
train("mean", False)
