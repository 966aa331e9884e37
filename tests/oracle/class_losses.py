#!/usr/bin/env python3
"""Makes class_losses.txt: PyTorch's losses over classes with weights and smoothed labels, and cosine similarity.

    python3 tests/oracle/class_losses.py > tests/oracle/class_losses.txt

Each line has a tensor: case, tensor, [dims], values. Operands in0, in1, ... -> result y; seed dy -> gradients d0, d1, ...
Operands are float32 values; results are computed in float64. The labels are those of tests/ops/test_class_losses.c.
"""
import torch
import torch.nn.functional as F

torch.manual_seed(37)
LABELS = torch.tensor([2, 0, 4, 1, 1, 3])


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = " ".join("%.12g" % v for v in tensor.detach().to(torch.float64).flatten().tolist())
    print(f"{case} {name} [{dims}] {values}")


def draw(*dims, low=-2.0, high=2.0):
    return (torch.rand(*dims) * (high - low) + low).to(torch.float32)


def differentiate(case, function, *operands, constant=()):
    """Operands with numbers in `constant` are named `fixed` and get no gradient."""
    inputs = [o.to(torch.float64).requires_grad_(i not in constant) for i, o in enumerate(operands)]
    y = function(*inputs)
    dy = draw(*y.shape) if y.dim() > 0 else draw(1).reshape(())
    y.backward(dy.to(torch.float64))
    for i, o in enumerate(operands):
        emit(case, "fixed" if i in constant else f"in{i}", o)
    emit(case, "y", y)
    emit(case, "dy", dy)
    for i, o in enumerate(inputs):
        if i not in constant:
            emit(case, f"d{i}", o.grad)


x, weights = draw(6, 5, low=-3.0, high=3.0), draw(5, low=0.2, high=2.0)
logs = x - x.logsumexp(1, keepdim=True)
print(f"# made by tests/oracle/class_losses.py with PyTorch {torch.__version__}")
for reduction in ("mean", "sum", "none"):
    for ignored in (-100, 1):
        case = f"{reduction}_{'some' if ignored == 1 else 'all'}"
        options = {"reduction": reduction, "ignore_index": ignored}
        differentiate(f"smooth_{case}", lambda t: F.cross_entropy(t, LABELS, label_smoothing=0.2, **options), x)
        differentiate(f"weighted_{case}", lambda t, w: F.cross_entropy(t, LABELS, w, **options), x, weights, constant=(1,))
        differentiate(f"both_{case}", lambda t, w: F.cross_entropy(t, LABELS, w, label_smoothing=0.3, **options), x, weights,
                      constant=(1,))
        differentiate(f"nll_{case}", lambda t: F.nll_loss(t, LABELS, **options), logs)
        differentiate(f"nll_weighted_{case}", lambda t, w: F.nll_loss(t, LABELS, w, **options), logs, weights,
                      constant=(1,))
a, b = draw(3, 4, 5), draw(3, 4, 5)
for axis in range(3):
    differentiate(f"cosine_{axis}", lambda s, t, d=axis: F.cosine_similarity(s, t, d), a, b)
# If a length is replaced by epsilon, PyTorch's gradient is not the derivative.
a, b = draw(4, 3, low=-0.3, high=0.3), draw(4, 3, low=-0.3, high=0.3)
emit("cosine_small", "in0", a)
emit("cosine_small", "in1", b)
emit("cosine_small", "y", F.cosine_similarity(a.to(torch.float64), b.to(torch.float64), 1, 0.3))
a, b, signs = draw(6, 4), draw(6, 4), torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0, -1.0])
b[3], b[4] = a[3] + 0.1, 2 * a[4]
for reduction in ("mean", "sum", "none"):
    differentiate(f"cosine_loss_{reduction}", lambda s, t, y, r=reduction: F.cosine_embedding_loss(s, t, y, 0.3, reduction=r),
                  a, b, signs, constant=(2,))
