#!/usr/bin/env python3
"""Writes ops_a.txt: PyTorch's results and gradients for convolution, pooling, softmax, normalization, embedding and
losses, in float64. Operands are multiples of 1/16, which float32 and bfloat16 represent exactly, so that equal elements
occur (the first largest of a window must win). Each tensor has one line, see tests/support/oracle.h.

    python3 tests/oracle/ops_a.py > tests/oracle/ops_a.txt
"""

import random

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
random.seed(20)


def values(*dims):
    count = 1
    for dim in dims:
        count *= dim
    numbers = [random.randint(-32, 32) / 16 for _ in range(count)]
    return torch.tensor(numbers).reshape(dims).requires_grad_()


def integers(highest, *dims):
    count = 1
    for dim in dims:
        count *= dim
    return torch.tensor([random.randint(0, highest) for _ in range(count)]).reshape(dims)


def write(case, name, tensor):
    flat = tensor.detach().reshape(-1).tolist()
    dims = ",".join(str(dim) for dim in tensor.shape)
    print(case, name, f"[{dims}]", *(f"{number:.9g}" for number in flat))


def record(case, operands, y, dy=None, **more):
    """Writes operands, result y, a dy, and the operands' gradients as d<name>."""
    dy = values(*y.shape).detach() if dy is None else dy
    y.backward(dy)
    for name, tensor in operands.items():
        write(case, name, tensor)
        if tensor.requires_grad:
            write(case, "d" + name, tensor.grad)
    write(case, "y", y)
    write(case, "dy", dy)
    for name, tensor in more.items():
        write(case, name, tensor)


def convolutions():
    for case, x, w, bias, options in [
        ("conv_plain", (2, 3, 5, 6), (4, 3, 3, 2), True, {}),
        ("conv_strided", (2, 2, 7, 8), (3, 2, 3, 2), False, dict(stride=(2, 3), padding=(1, 2))),
        ("conv_dilated", (1, 2, 7, 6), (2, 2, 3, 2), True, dict(dilation=(2, 3), padding=(1, 1))),
        ("conv_groups", (2, 4, 5, 5), (6, 2, 3, 3), True, dict(groups=2, stride=2)),
        ("conv_depthwise", (2, 3, 4, 4), (3, 1, 3, 3), True, dict(groups=3, padding=1)),
        ("conv_pointwise", (2, 3, 2, 3), (2, 3, 1, 1), False, {}),
    ]:
        operands = {"x": values(*x), "w": values(*w)}
        if bias:
            operands["b"] = values(w[0])
        record(case, operands, F.conv2d(*operands.values(), **options))
    for case, x, w, padding, pool, relu in [
        ("conv_pool_relu", (2, 2, 8, 9), (3, 2, 3, 3), (0, 0), (2, 2), True),
        ("conv_pool_padded", (2, 1, 6, 5), (2, 1, 3, 2), (1, 1), (2, 3), True),
        ("conv_pool_linear", (1, 3, 8, 7), (2, 3, 2, 2), (0, 1), (3, 2), False),
    ]:
        operands = {"x": values(*x), "w": values(*w), "b": values(w[0])}
        y = F.max_pool2d(F.conv2d(*operands.values(), padding=padding), pool)
        record(case, operands, F.relu(y) if relu else y)


def pools():
    for case, x, options in [
        ("max_pool_plain", (2, 2, 6, 5), dict(kernel_size=2)),
        ("max_pool_overlap", (1, 2, 7, 6), dict(kernel_size=3, stride=2, padding=1)),
        ("max_pool_ceil", (1, 2, 6, 7), dict(kernel_size=(3, 2), stride=(2, 3), ceil_mode=True)),
        ("max_pool_ceil_padded", (1, 1, 5, 6), dict(kernel_size=2, stride=2, padding=1, ceil_mode=True)),
        ("max_pool_dilated", (1, 2, 7, 7), dict(kernel_size=3, stride=1, padding=1, dilation=(2, 1))),
    ]:
        operands = {"x": values(*x)}
        y, where = F.max_pool2d(operands["x"], return_indices=True, **options)
        record(case, operands, y, where=where)
    for case, x, options in [
        ("avg_pool_plain", (2, 2, 6, 5), dict(kernel_size=2)),
        ("avg_pool_padded", (1, 2, 5, 6), dict(kernel_size=3, stride=2, padding=1)),
        ("avg_pool_exclude", (1, 2, 5, 6), dict(kernel_size=3, stride=2, padding=1, count_include_pad=False)),
        ("avg_pool_ceil", (1, 2, 6, 7), dict(kernel_size=(3, 2), stride=(2, 3), ceil_mode=True)),
        ("avg_pool_ceil_padded", (1, 1, 6, 5), dict(kernel_size=3, stride=2, padding=1, ceil_mode=True)),
        (
            "avg_pool_ceil_exclude",
            (1, 1, 6, 5),
            dict(kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        ),
    ]:
        operands = {"x": values(*x)}
        record(case, operands, F.avg_pool2d(operands["x"], **options))


def softmaxes():
    for axis in range(3):
        operands = {"x": values(2, 3, 4)}
        record(f"softmax_{axis}", operands, F.softmax(operands["x"], axis))
        operands = {"x": values(2, 3, 4)}
        record(f"log_softmax_{axis}", operands, F.log_softmax(operands["x"], axis))


def normalizations():
    for case, x, affine in [
        ("layer_norm_affine", (2, 3, 5), True),
        ("layer_norm_plain", (4, 6), False),
        ("layer_norm_vector", (7,), True),
    ]:
        operands = {"x": values(*x)}
        if affine:
            operands.update(gamma=values(x[-1]), beta=values(x[-1]))
        y = F.layer_norm(operands["x"], x[-1:], operands.get("gamma"), operands.get("beta"), 1e-5)
        mean = operands["x"].mean(-1)
        rstd = (operands["x"].var(-1, unbiased=False) + 1e-5).rsqrt()
        record(case, operands, y, mean=mean, rstd=rstd)
    for case, x, training in [
        ("batch_norm_vectors", (6, 3), True),
        ("batch_norm_images", (2, 3, 2, 3), True),
        ("batch_norm_inference", (2, 3, 2, 2), False),
    ]:
        operands = {"x": values(*x), "gamma": values(3), "beta": values(3)}
        running_mean, running_variance = values(3).detach(), values(3).detach().abs() + 0.5
        write(case, "running_mean", running_mean)
        write(case, "running_variance", running_variance)
        y = F.batch_norm(
            operands["x"], running_mean, running_variance, operands["gamma"], operands["beta"], training, 0.25, 1e-3
        )
        record(case, operands, y, running_mean_after=running_mean, running_variance_after=running_variance)


def embeddings():
    for case, padding in [("embedding_plain", None), ("embedding_padding", 2)]:
        table, ids = values(6, 5), integers(4, 2, 6)
        record(case, {"table": table, "ids": ids}, F.embedding(ids, table, padding_idx=padding))


def losses():
    for case, dims, reduction, ignore in [
        ("cross_entropy_mean", (5, 4), "mean", -100),
        ("cross_entropy_ignore", (7, 3), "mean", 1),
        ("cross_entropy_sum", (5, 4), "sum", 2),
        ("cross_entropy_none", (6, 3), "none", 0),
        ("cross_entropy_deep", (2, 3, 4), "mean", -100),
        ("cross_entropy_extreme", (4, 3), "mean", -100),
    ]:
        logits, labels = values(*dims), integers(dims[-1] - 1, *dims[:-1])
        if case == "cross_entropy_extreme":
            logits = torch.tensor(
                [[1e4, 1e4 - 1, -1e4], [-1e4, 0, 1e4], [1e4, 1e4, 1e4], [0, -1e4, 1.5]]
            ).requires_grad_()
        y = F.cross_entropy(logits.reshape(-1, dims[-1]), labels.reshape(-1), reduction=reduction, ignore_index=ignore)
        record(case, {"logits": logits, "labels": labels}, y, log_sum_exp=torch.logsumexp(logits, -1))
    for reduction in ["mean", "sum", "none"]:
        operands = {"prediction": values(3, 4), "target": values(3, 4)}
        record(f"mse_{reduction}", operands, F.mse_loss(*operands.values(), reduction=reduction))


print("# Made by ops_a.py with PyTorch", torch.__version__)
convolutions()
pools()
softmaxes()
normalizations()
embeddings()
losses()
