#!/usr/bin/env python3
"""Makes float16.txt: a small network trained by PyTorch in mixed precision, with and without static loss scaling.

    python3 tests/oracle/float16.py > tests/oracle/float16.txt

Weights are kept in float32; activations and gradients are float16. PyTorch's processor kernels have few float16 ops, so
each op is computed in float64 and its results, forward and backward, are rounded to torch.float16. The loss is so small
(times 2^-20) that its gradients are among float16's subnormals, unless it is scaled. It is a mean over samples; as in
Brigade, where a mean may be over many micro-batches, gradients are those of the sum until the update.
"""
import torch

torch.manual_seed(16)
SAMPLES, FEATURES, HIDDEN, CLASSES, STEPS, TINY = 8, 8, 12, 5, 6, 2.0 ** -20
RATE = 0.25 / TINY


class Half(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.float().half().double()

    @staticmethod
    def backward(_, gradient):
        return gradient.float().half().double()


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = " ".join("%.9g" % v for v in tensor.detach().to(torch.float64).flatten().tolist())
    print(f"{case} {name} [{dims}] {values}")


def draw(*dims):
    return torch.rand(*dims) * 2.0 - 1.0


def train(case, scale, narrow, x, labels, start):
    weights = {name: value.double().requires_grad_(True) for name, value in start.items()}
    for _ in range(STEPS):
        w = {name: narrow(value) for name, value in weights.items()}
        hidden = torch.relu(narrow(narrow(x) @ w["fc1.weight"].T + w["fc1.bias"]))
        logits = narrow(hidden @ w["fc2.weight"].T + w["fc2.bias"])
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        (loss * TINY * scale).backward()
        for value in weights.values():
            gradient = value.grad.float() / scale / SAMPLES
            value.data = (value.data.float() - RATE * gradient).double()
            value.grad = None
    for name, value in weights.items():
        emit(case, name, value)


x, labels = draw(SAMPLES, FEATURES), torch.randint(CLASSES, (SAMPLES,))
start = {"fc1.weight": draw(HIDDEN, FEATURES), "fc1.bias": draw(HIDDEN), "fc2.weight": draw(CLASSES, HIDDEN),
         "fc2.bias": draw(CLASSES)}
print("# made by tests/oracle/float16.py with PyTorch %s." % torch.__version__.split("+")[0])
emit("start", "x", x)
emit("start", "labels", labels)
for name, value in start.items():
    emit("start", name, value)
train("scaled", 2.0 ** 16, Half.apply, x.double(), labels, start)
train("unscaled", 1.0, Half.apply, x.double(), labels, start)
train("float32", 1.0, lambda value: value, x.double(), labels, start)
