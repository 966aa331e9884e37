#!/usr/bin/env python3
"""Writes attention.txt: PyTorch's multi-head attention and its gradient, in float64, written with matmul and softmax. Operands are multiples of 1/16, which float32 and bfloat16 represent. Each tensor has one line (tests/support/oracle.h).

    python3 tests/oracle/attention.py > tests/oracle/attention.txt
"""

import math
import random

import torch

torch.set_default_dtype(torch.float64)
random.seed(21)


def values(*dims):
    count = math.prod(dims)
    return torch.tensor([random.randint(-32, 32) / 16 for _ in range(count)]).reshape(dims).requires_grad_()


def write(case, name, tensor):
    dims = ",".join(str(dim) for dim in tensor.shape)
    print(case, name, f"[{dims}]", *(f"{number:.9g}" for number in tensor.detach().reshape(-1).tolist()))


def attention(case, samples, length, heads, depth, causal, scale, flat):
    width = heads * depth
    qkv = values(*((samples * length, 3 * width) if flat else (samples, length, 3 * width)))
    q, k, v = (part.reshape(samples, length, heads, depth).transpose(1, 2) for part in qkv.split(width, dim=-1))
    scores = q @ k.transpose(2, 3) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(*qkv.shape[:-1], width)
    dy = values(*y.shape).detach()
    y.backward(dy)
    for name, tensor in (("qkv", qkv), ("dqkv", qkv.grad), ("y", y), ("dy", dy),
                         ("log_sum_exp", torch.logsumexp(scores, -1))):
        write(case, name, tensor)


print(f"# made by tests/oracle/attention.py with PyTorch {torch.__version__}")
attention("causal", 2, 5, 2, 3, True, 1 / math.sqrt(3), True)
attention("full", 1, 6, 3, 2, False, 1 / math.sqrt(2), False)
attention("scaled", 2, 4, 1, 5, True, 0.25, False)
attention("single", 3, 1, 2, 2, True, 1 / math.sqrt(2), True)
attention("wide", 1, 3, 1, 70, True, 1 / math.sqrt(70), True)
