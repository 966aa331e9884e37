#!/usr/bin/env python3
"""Makes losses.txt: a small network trained by PyTorch with losses of several terms, each update on its whole batch.

    python3 tests/oracle/losses.py > tests/oracle/losses.txt

Cross-entropies are means over the labels that are not ignored, and 0 if all are (PyTorch gives NaN). Case names contain
the loss, the labels and the handling of gradients. `sums` is the sum of the losses of micro-batches of two samples.
"""
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(3)
SAMPLES, FEATURES, HIDDEN, CLASSES, UPDATES, RATE = 8, 6, 7, 5, 3, 0.25


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    print(f"{case} {name} [{dims}] " + " ".join("%.9g" % v for v in tensor.detach().flatten().tolist()))


def draw(*dims):
    return ((torch.rand(dims) * 2.0 - 1.0).float()).double()


def mean_of_counted(logits, labels, ignored):
    total = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", ignore_index=ignored)
    return total / max(1, (labels != ignored).sum().item())


def square(w, logits, a, b):
    return mean_of_counted(logits, a, -100) + (logits * logits).mean()


def two(w, logits, a, b):
    return mean_of_counted(logits, a, -100) - 0.5 * mean_of_counted(logits.tanh(), b, 2)


def ignored(w, logits, a, b):
    """Uses the same labels b twice, with a different ignored label in each mean."""
    means = 0.5 * mean_of_counted(logits.tanh(), b, 2) - 0.25 * mean_of_counted(logits, b, 4)
    return mean_of_counted(logits, a, -100) + means


def all_kinds(w, logits, a, b):
    both = 0.5 * (mean_of_counted(logits, a, -100) + (logits * logits).mean())
    return both * w["s"].exp() + 2.0 * mean_of_counted(logits.tanh(), b, 2) + 0.125 * w["fc1.weight"].square().sum()


def weighted(w, logits, a, b):
    """Has means that are divided by the weights of labels instead of their number."""
    weights = torch.tensor([1.0, 0.5, 2.0, 1.5, 0.25])

    def mean(total, labels, ignored):
        counted = weights[labels.clamp(min=0)][labels != ignored].sum().item()
        return total / counted if counted > 0 else total

    smooth = torch.nn.functional.cross_entropy(logits, a, weights, reduction="sum", ignore_index=-100, label_smoothing=0.1)
    likelihood = torch.nn.functional.nll_loss(logits.tanh(), b, weights, reduction="sum", ignore_index=2)
    return mean(smooth, a, -100) + 0.5 * mean(likelihood, b, 2)


def train(case, loss, labels, clip=None, micro_batch=SAMPLES):
    w = {name: value.clone().requires_grad_(True) for name, value in start.items()}
    velocity = {name: torch.zeros_like(value) for name, value in start.items()}
    for _ in range(UPDATES):
        for at in range(0, SAMPLES, micro_batch):
            part = slice(at, at + micro_batch)
            hidden = (x[part] @ w["fc1.weight"].T).tanh()
            loss(w, hidden @ w["fc2.weight"].T, labels[part], other[part]).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([v for v in w.values() if v.grad is not None], clip)
        for name, value in w.items():
            if value.grad is None:
                continue
            velocity[name] = 0.5 * velocity[name] + value.grad
            value.data -= RATE * velocity[name]
            value.grad = None
    for name, value in w.items():
        emit(case, name, value)


x = draw(SAMPLES, FEATURES)
some = torch.tensor([-100, -100, 3, 1, 0, -100, 4, 2])
none = torch.full((SAMPLES,), -100)
other = torch.tensor([2, 1, 0, 2, 2, 2, 4, 3])
start = {"fc1.weight": draw(HIDDEN, FEATURES), "fc2.weight": draw(CLASSES, HIDDEN), "s": draw()}
print("# made by tests/oracle/losses.py with PyTorch %s." % torch.__version__.split("+")[0])
emit("start", "x", x)
emit("start", "some", some)
emit("start", "none", none)
emit("start", "other", other)
for name, value in start.items():
    emit("start", name, value)
for name, loss in (("square", square), ("two", two), ("ignored", ignored), ("all", all_kinds),
                   ("weighted", weighted)):
    for kind, labels in (("some", some), ("none", none)):
        train(f"{name}_{kind}", loss, labels)
        train(f"{name}_{kind}_clip", loss, labels, clip=0.25)
        train(f"{name}_{kind}_sums", loss, labels, micro_batch=2)
